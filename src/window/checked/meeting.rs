//! A barrier with a time limit: a rank that has waited for too long leaves it again. The window's
//! own barrier can't be left, because a rank that enters it sends signals.
//!
//! All ranks change one word, which has the number of meetings so far, and below it the number of
//! ranks that wait. The last rank changes both numbers at once. A meeting therefore takes place for
//! all of its ranks, and until then each of them may leave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Parts;
use crate::check::{Awaited, Wait};
use crate::error::Result;

/// The bits of the number of ranks that wait.
const WAITING: u64 = u32::MAX as u64;

impl Parts {
    /// Waits until all ranks of the window are in this call, for at most `patience`. Returns
    /// whether they are; if not, this rank has left the meeting. Without the checker the call
    /// returns at once.
    pub(in crate::window) fn assemble(&self, call: &'static str, patience: Option<Duration>) -> Result<bool> {
        let Some((checked, _)) = self.checker() else { return Ok(patience.is_none()) };
        let word = checked.shadow(0)?.meeting();
        let Some(meeting) = enter(word, self.team.size as u64) else { return Ok(true) };
        // Acquire: pairs with the last rank's change of the word.
        let is_over = || word.load(Ordering::Acquire) & !WAITING != meeting;
        let Some(patience) = patience else {
            let wait = Wait { call, window: Some(self.id), awaited: Awaited::Meeting(self.team.size) };
            return stayed(word, meeting, self.job.waits(&wait, || self.job.progress.until(is_over)));
        };
        // A short wait is no part of a deadlock.
        let start = Instant::now();
        stayed(word, meeting, self.job.progress.until(|| is_over() || start.elapsed() >= patience))
    }
}

/// Ends a wait for a meeting. Returns true if the meeting has taken place. Otherwise this rank
/// leaves the meeting, and the result is false, or the error of a failed wait.
fn stayed(word: &AtomicU64, meeting: u64, waited: Result<()>) -> Result<bool> {
    if leave(word, meeting) { waited.map(|()| false) } else { Ok(true) }
}

/// Enters the next meeting of `ranks` ranks. Returns its number in the bits above [`WAITING`], or
/// `None` if this rank is the last one.
fn enter(word: &AtomicU64, ranks: u64) -> Option<u64> {
    let next = |now: u64| Some(if (now & WAITING) + 1 == ranks { (now | WAITING) + 1 } else { now + 1 });
    // AcqRel: what each rank has done before comes before what all ranks do after the meeting.
    let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or_else(|now| now);
    ((before & WAITING) + 1 != ranks).then_some(before & !WAITING)
}

/// Leaves a meeting. Returns false if it has taken place.
fn leave(word: &AtomicU64, meeting: u64) -> bool {
    let less = |now: u64| (now & !WAITING == meeting).then(|| now - 1);
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_leaves_a_meeting_only_before_it_takes_place() {
        let word = AtomicU64::new(0);
        let first = enter(&word, 2).expect("a rank is missing");
        assert!(leave(&word, first));
        let first = enter(&word, 2).expect("the other rank has left");
        assert_eq!(enter(&word, 2), None, "the last rank");
        assert!(!leave(&word, first), "it has taken place");
        let second = enter(&word, 2).expect("the next one");
        assert_ne!(first, second);
        assert!(!leave(&word, first) && leave(&word, second));
        assert_eq!(enter(&word, 1), None, "a rank alone");
    }

    #[test]
    fn a_rank_whose_wait_fails_leaves() {
        let failed = || Err(crate::error::JobError::WordsUnmapped { rank: 1 }.into());
        let word = AtomicU64::new(0);
        let first = enter(&word, 2).expect("a rank is missing");
        assert!(stayed(&word, first, failed()).is_err());
        let first = enter(&word, 2).expect("the other rank has left");
        assert_eq!(enter(&word, 2), None, "the last rank");
        assert!(stayed(&word, first, failed()).is_ok_and(|met| met), "the meeting has taken place");
    }
}
