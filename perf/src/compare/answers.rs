//! The result of a line of the plan, and the benchmark's answers to commands.

use serde::Serialize;

/// The outcome of a line of the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// A time in us, a bandwidth in MB/s, or a rate in millions of operations in a second.
    Value(f64),
    /// A case of the grid.
    Case {
        /// The latency with a target that computes, in us.
        computing_us: f64,
        /// The latency with an attentive target, in us.
        attentive_us: f64,
        /// Whether all operations were complete while the target computed, and not late.
        passive: bool,
        /// Whether the data had arrived when the operation was complete at the origin.
        data: bool,
    },
    /// The data was not that of the operations.
    Wrong,
    /// The MPI returned an error.
    Fails(String),
    /// No result within the limit.
    Hangs,
    /// A process ended.
    Dies(String),
    /// Not run: the time of `--quick` was over.
    Skipped,
}

impl Answer {
    /// The value of a measured cell.
    pub(crate) fn value(&self) -> Option<f64> {
        if let Answer::Value(value) = self { Some(*value) } else { None }
    }

    /// Whether the answer has numbers.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self, Answer::Value(_) | Answer::Case { .. })
    }

    /// The word that the table shows instead of a number.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Answer::Value(_) | Answer::Case { .. } => "",
            Answer::Wrong => "WRONG",
            Answer::Fails(_) => "fails",
            Answer::Hangs => "hangs",
            Answer::Dies(_) => "dies",
            Answer::Skipped => "skipped",
        }
    }
}

/// What the benchmark found when it verified a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// The data is right, but a flush or an unlock has returned before the data had arrived.
    Early,
}

/// An answer of the benchmark. The number is that of a line of the plan.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// The line begins.
    Begin(usize),
    /// The line's cell is warmed up; the benchmark wants this many turns.
    Ready(usize, usize),
    /// The value of a turn.
    Turn(usize, f64),
    /// The data of the line was verified.
    Checked(usize, Verdict),
    /// The line has an answer.
    Answer(usize, Answer),
    /// The MPI can't create the line's window, so lines with an equal window have no answer.
    NoWindow(usize, String),
}

/// Reads an answer; `None` for a line that the benchmark did not write.
pub(crate) fn parse(line: &str) -> Option<Message> {
    let mut words = line.split_whitespace();
    let (what, index) = (words.next()?, words.next()?.parse().ok()?);
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at).and_then(|word| word.parse::<f64>().ok()).filter(|value| value.is_finite());
    let answer = match (what, rest.len()) {
        ("begin", 0) => return Some(Message::Begin(index)),
        ("ready", 1) => return Some(Message::Ready(index, rest[0].parse().ok()?)),
        ("turn", 1) => return Some(Message::Turn(index, number(0)?)),
        ("checked", 1) => {
            let verdict = match rest[0] {
                "right" => Verdict::Right,
                "wrong" => Verdict::Wrong,
                "early" => Verdict::Early,
                _ => return None,
            };
            return Some(Message::Checked(index, verdict));
        }
        ("nowindow", _) => return Some(Message::NoWindow(index, rest.join(" "))),
        ("fail", _) => Answer::Fails(rest.join(" ")),
        ("hang", 0) => Answer::Hangs,
        ("case", 4) => Answer::Case {
            computing_us: number(0)?,
            attentive_us: number(1)?,
            passive: rest[2] == "1",
            data: rest[3] == "1",
        },
        _ => return None,
    };
    Some(Message::Answer(index, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_benchmark_writes_them() {
        assert_eq!(parse("turn 17 0.500000"), Some(Message::Turn(17, 0.5)));
        assert_eq!(parse("ready 17 8"), Some(Message::Ready(17, 8)));
        assert_eq!(parse("checked 0 wrong"), Some(Message::Checked(0, Verdict::Wrong)));
        assert_eq!(parse("checked 1 right"), Some(Message::Checked(1, Verdict::Right)));
        assert_eq!(parse("checked 2 early"), Some(Message::Checked(2, Verdict::Early)));
        assert_eq!(parse("begin 3"), Some(Message::Begin(3)));
        assert_eq!(parse("hang 12"), Some(Message::Answer(12, Answer::Hangs)));
        let fails = Message::Answer(1, Answer::Fails("MPI_Put(a, b): no such rank".into()));
        assert_eq!(parse("fail 1 MPI_Put(a, b): no such rank"), Some(fails));
        assert_eq!(parse("nowindow 9 MPI_Win_create: x"), Some(Message::NoWindow(9, "MPI_Win_create: x".into())));
        let case = Answer::Case { computing_us: 1.5, attentive_us: 0.25, passive: true, data: false };
        assert_eq!(parse("case 4 1.500 0.250 1 0"), Some(Message::Answer(4, case)));
        for other in ["", "turn", "turn x 1", "turn 1 nan", "turn 1", "ready 1 -1", "checked 1 2", "begin 1 2"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
