//! File descriptors for a net over sockets, which needs one for each contacted peer, and for the
//! ranks of the node. The soft limit is raised to what the peers need. If the hard limit is too low
//! to start a net, an error reports it before a call fails for lack of descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{JobError, Result};

/// Descriptors that libfabric needs over sockets to open and probe a provider, and the descriptors
/// of the failure detector itself.
const OPENING: u64 = 32;
/// The most ranks of other machines that one rank watches (`failures::connections`).
const WATCHED: u64 = 256;

/// Descriptors for a rank of the node: its pidfd, its heap, and its memory file.
const ON_NODE: u64 = 3;
/// As [`ON_NODE`] where a net is open: the pipe that ends the rank's sleep too.
const ON_NODE_BESIDE_NET: u64 = 4;
/// Descriptors that the program itself may need.
const OF_PROGRAM: u64 = 256;

/// Raises the soft limit of open files, so that connections to `ranks` ranks of the node and to
/// `others` ranks over a net leave descriptors to the program. Under a lower hard limit the
/// transport of the node works with fewer descriptors.
pub(super) fn make_room_for_program(ranks: usize, others: usize) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    raise(open + wanted(ranks as u64, others as u64));
}

/// The descriptors that may be opened after the start.
fn wanted(ranks: u64, others: u64) -> u64 {
    let (net, each) = if others > 0 { (Needed::of(0, others + 1).all, ON_NODE_BESIDE_NET) } else { (0, ON_NODE) };
    net + each * ranks + OF_PROGRAM
}

/// Raises the soft limit to `wanted`, or to the hard limit if that is lower.
fn raise(wanted: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let room = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current.is_some_and(|current| current < room) {
        // A refusal leaves the old limit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(room), maximum });
    }
}

/// Raises the soft limit to the number of descriptors for connections to all other ranks, or to the
/// hard limit if that is lower.
///
/// # Errors
/// The hard limit is too low to open the net and to connect to the ranks of the barriers.
pub(super) fn make_room(rank: usize, size: usize) -> Result<()> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let needed = Needed::of(open, size as u64);
    raise(needed.all);
    let now = getrlimit(Resource::Nofile);
    match now.current {
        Some(limit) if limit < needed.least => Err(needed.lacking(rank, size, limit, now.maximum).into()),
        _ => Ok(()),
    }
}

/// The numbers of descriptors that a rank needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needed {
    /// To start.
    least: u64,
    /// After contact with all ranks.
    all: u64,
}

impl Needed {
    fn of(open: u64, size: u64) -> Needed {
        let others = size.saturating_sub(1);
        let base = open + OPENING;
        // In a barrier a rank signals log2 ranks, and equally many ranks signal this rank.
        let partners = 2 * u64::from(size.next_power_of_two().ilog2());
        // Two for each peer, which may connect while this rank connects to it. Each rank of another
        // machine that this rank watches, or that watches this rank, takes a descriptor too.
        Needed { least: base + partners.min(2 * others), all: base + 2 * others + 2 * others.min(WATCHED) }
    }

    fn lacking(self, rank: usize, ranks: usize, limit: u64, hard: Option<u64>) -> JobError {
        let Needed { least, all } = self;
        JobError::Descriptors { rank, ranks, least, all, limit, hard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a net was open, and the pipes of the node's ranks were not counted.
    #[test]
    fn a_rank_of_the_node_takes_a_pipe_where_a_net_is_open() {
        assert_eq!(wanted(8, 0), 3 * 8 + 256);
        assert_eq!(wanted(8, 1), Needed::of(0, 2).all + 4 * 8 + 256);
    }

    #[test]
    fn the_number_of_descriptors_grows_with_the_ranks_and_is_in_the_error() {
        assert_eq!(Needed::of(10, 1), Needed { least: 42, all: 42 });
        assert_eq!(Needed::of(10, 2), Needed { least: 44, all: 46 });
        assert_eq!(Needed::of(10, 1000), Needed { least: 62, all: 42 + 1998 + 512 });
        let words = Needed::of(10, 1000).lacking(3, 1000, 50, Some(60)).to_string();
        for part in
            ["rank 3", "62", "1000 ranks", "2552", "RLIMIT_NOFILE", "is 50, the hard limit 60", "ulimit -n 2552"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
