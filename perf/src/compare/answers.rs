//! The result of a line of the plan: as the benchmark prints it, and combined from several rounds.

use serde::Serialize;

use super::plan::Line;

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

/// A line that the benchmark prints.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// A line of the plan begins.
    Begin(usize),
    /// The line has an answer.
    Answer(usize, Answer),
    /// The MPI can't create the line's window, so lines with an equal window have no answer.
    NoWindow(usize, String),
}

/// Reads a line of output; `None` for a line that the benchmark did not print.
pub(crate) fn parse(line: &str) -> Option<Message> {
    let mut words = line.split_whitespace();
    let (what, index) = (words.next()?, words.next()?.parse().ok()?);
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at).and_then(|word| word.parse::<f64>().ok()).filter(|value| value.is_finite());
    let answer = match (what, rest.len()) {
        ("begin", 0) => return Some(Message::Begin(index)),
        ("nowindow", _) => return Some(Message::NoWindow(index, rest.join(" "))),
        ("fail", _) => Answer::Fails(rest.join(" ")),
        ("hang", 0) => Answer::Hangs,
        ("cell", 2) if rest[1] == "wrong" => Answer::Wrong,
        ("cell", 2) if rest[1] == "right" => Answer::Value(number(0)?),
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

/// The answers of several rounds as one: the best value, because other processes only make values
/// worse. If one round has no value, neither has the result.
pub(crate) fn combined(lines: &[Line], rounds: &[Vec<Answer>]) -> Vec<Answer> {
    let one = |(index, line): (usize, &Line)| {
        let all = || rounds.iter().map(|round| &round[index]);
        if let Some(other) = all().find(|answer| answer.value().is_none()) {
            return other.clone();
        }
        let values = all().filter_map(Answer::value);
        let best = if line.higher_is_better() { values.max_by(f64::total_cmp) } else { values.min_by(f64::total_cmp) };
        best.map_or(Answer::Skipped, Answer::Value)
    };
    lines.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    #[test]
    fn lines_are_read_as_the_benchmark_prints_them() {
        let value = Message::Answer(17, Answer::Value(0.5));
        assert_eq!(parse("cell 17 0.500000 right"), Some(value));
        assert_eq!(parse("cell 0 3.1 wrong"), Some(Message::Answer(0, Answer::Wrong)));
        assert_eq!(parse("begin 3"), Some(Message::Begin(3)));
        assert_eq!(parse("hang 12"), Some(Message::Answer(12, Answer::Hangs)));
        let fails = Message::Answer(1, Answer::Fails("MPI_Put(a, b): no such rank".into()));
        assert_eq!(parse("fail 1 MPI_Put(a, b): no such rank"), Some(fails));
        assert_eq!(parse("nowindow 9 MPI_Win_create: x"), Some(Message::NoWindow(9, "MPI_Win_create: x".into())));
        let case = Answer::Case { computing_us: 1.5, attentive_us: 0.25, passive: true, data: false };
        assert_eq!(parse("case 4 1.500 0.250 1 0"), Some(Message::Answer(4, case)));
        for other in ["", "cell", "cell x 1 right", "cell 1 nan right", "cell 1 2", "[vm:01792] help", "begin 1 2"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_best_of_the_rounds_counts() {
        let all = plan::cells(true);
        let lines = [all[0], *all.iter().find(|line| line.higher_is_better()).expect("one"), all[1]];
        let round = |value, last: Answer| vec![Answer::Value(value), Answer::Value(value), last];
        let rounds = [round(3.0, Answer::Value(1.0)), round(9.0, Answer::Hangs), round(2.0, Answer::Value(1.0))];
        assert_eq!(combined(&lines, &rounds), [Answer::Value(2.0), Answer::Value(9.0), Answer::Hangs]);
        assert_eq!(combined(&lines[..1], &[]), [Answer::Skipped]);
    }
}
