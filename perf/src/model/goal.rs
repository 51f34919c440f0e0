//! Schedules in GOAL, the language of LogGOPSim and ATLAHS (Hoefler, Siebert and Lumsdaine, 2009):
//! for each rank its sends and receives, and which of them must precede which.

use std::io::Write;

use super::counts::{Call, Shape, shape};

/// The call that a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Schedule {
    /// A fence, a barrier, a window's creation or its end.
    Fence,
    /// `lock_all` and `unlock_all` of all ranks: atomics at rank 0.
    LockAll,
    /// An exclusive lock of the right neighbour and its unlock, by all ranks.
    Lock,
    /// Post, start, put of 8 bytes, complete and wait in a ring.
    Pscw,
}

/// The processor of a rank that stands for its network device, which performs atomics.
const DEVICE: u32 = 1;

/// Writes the schedule of a call for `ranks` ranks.
pub(crate) fn write(out: &mut impl Write, schedule: Schedule, ranks: u64) -> std::io::Result<()> {
    writeln!(out, "num_ranks {ranks}")?;
    for rank in 0..ranks {
        writeln!(out, "\nrank {rank} {{")?;
        match schedule {
            Schedule::Fence => rounds(out, shape(Call::Fence, ranks), rank, ranks)?,
            Schedule::LockAll => {
                let each = atomics(shape(Call::LockAll, ranks)) * 2;
                origin(out, each, (rank > 0).then_some(0))?;
                if rank == 0 {
                    (1..ranks).try_for_each(|origin| serve(out, origin, each))?;
                }
            }
            Schedule::Lock => {
                // Lock and unlock: the window's first rank, and the neighbour.
                let all = atomics(shape(Call::LockExclusive, ranks));
                let near = atomics(shape(Call::LockFurther, ranks)) * 2;
                locks(out, rank, ranks, [2 * all - near, near])?;
            }
            Schedule::Pscw => ring(out, rank, ranks)?,
        }
        writeln!(out, "}}")?;
    }
    out.flush()
}

fn atomics(shape: Shape) -> u64 {
    shape.operations().0
}

/// Dissemination: the signal of a round is sent after that of the previous round has arrived.
fn rounds(out: &mut impl Write, shape: Shape, rank: u64, ranks: u64) -> std::io::Result<()> {
    for round in 0..shape.operations().1 {
        let step = 1u64 << round;
        let (to, from) = ((rank + step) % ranks, (rank + ranks - step % ranks) % ranks);
        writeln!(out, "s{round}: send 8b to {to} tag {round}")?;
        writeln!(out, "r{round}: recv 8b from {from} tag {round}")?;
        if round > 0 {
            let last = round - 1;
            writeln!(out, "s{round} requires s{last}\ns{round} requires r{last}")?;
        }
    }
    Ok(())
}

/// Writes `each` requests to a rank, each of which follows the reply to the previous one.
fn origin(out: &mut impl Write, each: u64, target: Option<u64>) -> std::io::Result<()> {
    let Some(target) = target else { return Ok(()) };
    (0..each).try_for_each(|turn| request(out, target, turn, "q"))
}

fn request(out: &mut impl Write, target: u64, turn: u64, name: &str) -> std::io::Result<()> {
    writeln!(out, "{name}{turn}: send 8b to {target} tag {}", 2 * turn)?;
    writeln!(out, "{name}a{turn}: recv 8b from {target} tag {}", 2 * turn + 1)?;
    writeln!(out, "{name}a{turn} requires {name}{turn}")?;
    if turn > 0 {
        writeln!(out, "{name}{turn} requires {name}a{}", turn - 1)?;
    }
    Ok(())
}

/// Writes the device's answers to `each` requests of an origin.
fn serve(out: &mut impl Write, origin: u64, each: u64) -> std::io::Result<()> {
    for turn in 0..each {
        writeln!(out, "d{origin}n{turn}: recv 8b from {origin} tag {} cpu {DEVICE}", 2 * turn)?;
        writeln!(out, "e{origin}n{turn}: send 8b to {origin} tag {} cpu {DEVICE}", 2 * turn + 1)?;
        writeln!(out, "e{origin}n{turn} requires d{origin}n{turn}")?;
    }
    Ok(())
}

/// Atomics at rank 0, then at the right neighbour.
fn locks(out: &mut impl Write, rank: u64, ranks: u64, [first, near]: [u64; 2]) -> std::io::Result<()> {
    let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
    // If the neighbour is rank 0, all atomics are sent to rank 0, with different tags.
    let served = |origin: u64| match (rank == 0, (origin + 1) % ranks == rank) {
        (true, true) => first + near,
        (true, false) => first,
        (false, near_to) => {
            if near_to {
                near
            } else {
                0
            }
        }
    };
    let at_first = if rank > 0 { first } else { 0 };
    match right {
        0 => (0..at_first + near).try_for_each(|turn| request(out, 0, turn, "q"))?,
        _ => {
            (0..at_first).try_for_each(|turn| request(out, 0, turn, "p"))?;
            (0..near).try_for_each(|turn| request(out, right, turn, "q"))?;
            if at_first > 0 {
                writeln!(out, "q0 requires pa{}", at_first - 1)?;
            }
        }
    }
    match rank {
        0 => (1..ranks).try_for_each(|origin| serve(out, origin, served(origin))),
        _ => serve(out, left, served(left)),
    }
}

/// A message of post to the left, a put and a message of complete to the right.
fn ring(out: &mut impl Write, rank: u64, ranks: u64) -> std::io::Result<()> {
    let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
    writeln!(out, "post: send 8b to {left} tag 0\nready: recv 8b from {right} tag 0")?;
    writeln!(out, "put: send 8b to {right} tag 1\ndata: recv 8b from {left} tag 1 cpu {DEVICE}")?;
    writeln!(out, "complete: send 8b to {right} tag 2\nwait: recv 8b from {left} tag 2")?;
    writeln!(out, "ready requires post\nput requires ready\ncomplete requires put\nwait requires complete")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Plays a schedule: every receive finds its send, and no operation waits for itself.
    fn play(schedule: Schedule, ranks: u64) -> usize {
        let mut out = Vec::new();
        write(&mut out, schedule, ranks).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(&*format!("num_ranks {ranks}")));
        // By rank and name: whether it sends, the other rank, the tag; and what precedes it.
        let mut operations = HashMap::new();
        let mut before: HashMap<(u64, String), Vec<String>> = HashMap::new();
        let mut rank = 0;
        for line in lines.filter(|line| !line.is_empty() && *line != "}") {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["rank", number, "{"] => rank = number.parse().expect("a rank"),
                [name, "requires", other] => before.entry((rank, name.into())).or_default().push(other.into()),
                [name, kind, "8b", _, other, "tag", tag, ..] => {
                    let name = name.trim_end_matches(':').to_owned();
                    let value = (kind == "send", other.parse::<u64>().expect("a rank"), tag.to_owned());
                    assert!(operations.insert((rank, name), value).is_none(), "{line}");
                }
                _ => panic!("{line}"),
            }
        }
        let mut sent: HashMap<(u64, u64, String), i64> = HashMap::new();
        let mut done = std::collections::HashSet::new();
        while done.len() < operations.len() {
            let count = done.len();
            for (key, (sends, other, tag)) in &operations {
                let names = before.get(key).into_iter().flatten();
                if done.contains(key) || !names.clone().all(|name| done.contains(&(key.0, name.clone()))) {
                    continue;
                }
                assert!(names.clone().all(|name| operations.contains_key(&(key.0, name.clone()))), "{key:?}");
                let way = if *sends { (key.0, *other, tag.clone()) } else { (*other, key.0, tag.clone()) };
                let messages = sent.entry(way).or_default();
                if *sends {
                    *messages += 1;
                } else if *messages == 0 {
                    continue;
                } else {
                    *messages -= 1;
                }
                done.insert(key.clone());
            }
            assert!(done.len() > count, "{schedule:?}, {ranks} ranks: it stops after {count} operations\n{text}");
        }
        assert!(sent.values().all(|left| *left == 0), "{schedule:?}, {ranks} ranks: a message that no rank receives");
        operations.len()
    }

    #[test]
    fn schedules_end_with_every_message_received() {
        for ranks in [2, 3, 4, 5, 8, 13, 16] {
            let count = usize::try_from(ranks).expect("few");
            let rounds = usize::try_from(super::super::counts::rounds(ranks)).expect("few");
            assert_eq!(play(Schedule::Fence, ranks), 2 * rounds * count);
            assert_eq!(play(Schedule::LockAll, ranks), 8 * (count - 1));
            assert_eq!(play(Schedule::Pscw, ranks), 6 * count);
            assert!(play(Schedule::Lock, ranks) >= 8 * count);
        }
    }
}
