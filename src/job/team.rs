//! The ranks that do something together: all of the job, or some of them (MPI's groups and communicators, as far as
//! windows need them). A team numbers its members from 0; it knows no transport.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Class, Error, Result};

/// The bit that tells the keys of teams and their windows from those of the job.
const SUBSET: u64 = 1 << 63;

/// Some ranks of a job, in an order.
#[derive(Debug)]
pub(crate) struct Team {
    /// What its barriers go by in messages; 0: the job's.
    pub(crate) key: u64,
    /// This process's number in it.
    pub(crate) me: usize,
    /// How many members it has.
    pub(crate) size: usize,
    /// The members' ranks in the job; `None`: all, in their order.
    ranks: Option<Box<[usize]>>,
    pub(crate) barriers: AtomicU32,
    windows: AtomicU64,
}

impl Team {
    /// All ranks of the job.
    pub(crate) fn world(rank: usize, size: usize) -> Team {
        Team { key: 0, me: rank, size, ranks: None, barriers: AtomicU32::new(0), windows: AtomicU64::new(0) }
    }

    /// Some ranks of the job, which all call this with the same list; `made` counts how often this list was used.
    pub(crate) fn of(rank: usize, size: usize, ranks: &[usize], made: &Made) -> Result<Team> {
        let refused = |class, reason| Err(Error::argument(class, "subset", reason));
        if let Some(&far) = ranks.iter().find(|&&member| member >= size) {
            return refused(Class::Rank, format!("there is no rank {far}; the job's ranks are 0 to {}", size - 1));
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return refused(Class::Rank, format!("rank {} is listed twice", pair[0]));
        }
        let Some(me) = ranks.iter().position(|&member| member == rank) else {
            return refused(Class::Rank, format!("rank {rank}, which calls it, is not in the list {ranks:?}"));
        };
        let key = SUBSET | hash(&(ranks, made.next(ranks)));
        Ok(Team {
            key,
            me,
            size: ranks.len(),
            ranks: Some(ranks.into()),
            barriers: AtomicU32::new(0),
            windows: AtomicU64::new(0),
        })
    }

    /// A member's rank in the job.
    #[inline]
    pub(crate) fn rank(&self, member: usize) -> usize {
        self.ranks.as_ref().map_or(member, |ranks| ranks[member])
    }

    /// The number of the next window; the same at all members, which create windows in the same order.
    pub(crate) fn next_window(&self) -> u64 {
        // Relaxed: windows of a team are created by one thread at a time.
        let number = self.windows.fetch_add(1, Ordering::Relaxed) + 1;
        if self.key == 0 { number } else { SUBSET | hash(&(self.key, number)) }
    }
}

/// How often each list of ranks became a team: teams of the same ranks are told apart by it.
#[derive(Debug, Default)]
pub(crate) struct Made(Mutex<HashMap<Box<[usize]>, u64>>);

impl Made {
    fn next(&self, ranks: &[usize]) -> u64 {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = made.entry(ranks.into()).or_default();
        *count += 1;
        *count
    }
}

/// The same at every rank, which all run the same program: `DefaultHasher::new` has no random part.
fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbered_in_the_lists_order() {
        let made = Made::default();
        let team = Team::of(7, 8, &[5, 7, 2], &made).expect("a team");
        assert_eq!((team.me, team.size), (1, 3));
        assert_eq!([0, 1, 2].map(|member| team.rank(member)), [5, 7, 2]);
        let other = Team::of(5, 8, &[5, 7, 2], &Made::default()).expect("the same at another rank");
        assert_eq!(team.key, other.key);
        let again = Team::of(7, 8, &[5, 7, 2], &made).expect("a second team of these");
        assert_ne!(team.key, again.key);
        assert_eq!(team.next_window(), other.next_window());
        assert_ne!(team.next_window(), again.next_window());
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        for (ranks, word) in [(&[0, 9][..], "rank 9"), (&[1, 1], "rank 1 is listed twice"), (&[1, 2], "rank 0")] {
            let error = Team::of(0, 4, ranks, &Made::default()).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
