//! Atomics of the program's language on the memory of a checked window. They order the ranks, as
//! accumulates on single words do, and they are recorded. A change of a word is recorded before it
//! is performed, because another rank that finds it there comes after it.
//!
//! A program may poll a word, and then change it: a flag that its owner lowers, or a lock. The
//! polled update is over as far as the program can know, although its origin may not have completed
//! it. The updates that a rank has *seen* in a word, by an atomic load or by an operation that
//! fetches the word, therefore do not conflict with the rank's atomic stores to the same word.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use super::touched::is_repeated;
use super::{Access, Checked, Checker, Clash, End, Kind, Parts, Shadow, Touch};
use crate::error::Result;
use crate::job::Cause;

/// Maximum number of words that a rank remembers in each table. If there are more, all updates
/// count as seen.
const MOST_WORDS: usize = 1 << 16;
/// Longest read that may poll, in bytes.
const POLLED: u64 = 64;

/// The words that a rank has read, by member, first byte and end.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// For each word: updates by operations that this rank has read there. A store to the word by
    /// this rank does not conflict with them.
    updates: Mutex<HashMap<(usize, u64, u64), Vec<Access>>>,
    /// Words that the rank has read by gets. A program may poll by gets until an atomic store
    /// appears.
    got: Mutex<HashSet<(usize, u64, u64)>>,
}

/// A change of a word that has begun.
struct Begun {
    window: u64,
    touch: Touch,
    /// The number of the release that passes on what this rank has done before.
    released: u64,
    /// What this rank knew when the change was recorded.
    known: Vec<u64>,
    conflicts: Vec<(Access, Clash, bool)>,
}

thread_local! {
    /// The changes that this thread has begun.
    static BEGUN: RefCell<Vec<Begun>> = const { RefCell::new(Vec::new()) };
}

/// Whether a table has a word. A full table has all.
fn has<K: Eq + Hash, V>(table: &HashMap<K, V>, word: &K, has: impl Fn(&V) -> bool) -> bool {
    table.len() >= MOST_WORDS || table.get(word).is_some_and(has)
}

impl Seen {
    /// Records that the rank gets bytes of a member's part.
    pub(super) fn gets(&self, member: usize, start: u64, end: u64) {
        let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        if end - start <= super::POLLED as u64 && got.len() < MOST_WORDS {
            got.insert((member, start, end));
        }
    }

    /// Whether the rank may have polled for an atomic store by gets.
    pub(super) fn may_have_got(&self, member: usize, store: &Access) -> bool {
        let got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        got.len() >= MOST_WORDS || got.contains(&(member, store.start, store.end))
    }

    fn has(&self, member: usize, new: &Access, update: &Access) -> bool {
        let updates = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
        has(&updates, &(member, new.start, new.end), |seen| seen.contains(update))
    }
}

impl Checked {
    /// Records that this rank reads a word of a member's part, and thereby sees the updates there.
    pub(super) fn sees(&self, checker: &Checker, member: usize, start: u64, end: u64) -> Result<()> {
        if end - start > POLLED {
            return Ok(());
        }
        let new = Access { start, end, kind: Kind::Atomic { written: true }, origin: self.shadows.job.rank, place: 0 };
        let clock = checker.clock();
        let clashes = self.shadow(member)?.peek(new, &clock, |turn| self.wait(turn))?;
        drop(clock);
        let of_updates = clashes.into_iter().map(|clash| clash.older).filter(is_update);
        let (found, word): (Vec<_>, _) = (of_updates.collect(), (member, start, end));
        let mut seen = self.seen.updates.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST_WORDS {
            return Ok(());
        }
        if found.is_empty() {
            seen.remove(&word);
        } else {
            seen.insert(word, found);
        }
        Ok(())
    }
}

/// Whether an access is an update by an operation.
fn is_update(access: &Access) -> bool {
    matches!(access.kind, Kind::Put | Kind::Combine { .. })
}

impl Parts {
    /// Records that the program is about to change a word of a part by an atomic. The atomic passes
    /// on what this rank has done before. `reads`: the atomic also reads the word. `compares`: the
    /// atomic changes the word only if it has read a certain value.
    pub(in crate::window) fn atomic_begins(&self, touch: Touch, reads: bool, compares: bool) {
        let Some((checked, checker)) = self.checker() else { return };
        if let Err(error) = self.begin_atomic(checked, checker, touch, (reads, compares)) {
            self.job.warn_once(Cause::Unchecked, &format!("an atomic was not checked: {error:#}"));
        }
    }

    fn begin_atomic(
        &self,
        checked: &Checked,
        checker: &Checker,
        touch: Touch,
        (reads, compares): (bool, bool),
    ) -> Result<()> {
        let (member, shadow) = (touch.member, checked.shadow(touch.member)?);
        let new = self.touched(checker, touch, None);
        if reads {
            self.learn_of_bytes(shadow, &new);
        }
        if compares {
            checked.sees(checker, member, new.start, new.end)?;
        }
        let (pending, mut known) = (checked.pending(), Vec::new());
        // The record has the number of releases before the release below. A rank that knows of the
        // release below comes after the change.
        let mut conflicts = self.record_as(checked, checker, (member, new), End::InCall, |_, clock| {
            known = clock.counts().to_vec();
            Ok(())
        })?;
        drop(pending);
        conflicts.retain(|(_, clash, by_address)| {
            !is_update(&clash.older) || !(*by_address || checked.seen.has(member, &new, &clash.older))
        });
        let clock = checker.release_by_operation();
        shadow.clocks_of(new.start, new.end).for_each(|slot| clock.teach_by(self.job.rank, slot));
        let released = clock.of(self.job.rank);
        drop(clock);
        if !reads {
            self.report_all(checker, member, std::mem::take(&mut conflicts))?;
        }
        // A thread that ends keeps none.
        let begun = Begun { window: self.id, touch, released, known, conflicts };
        let _ = BEGUN.try_with(|all| all.borrow_mut().push(begun));
        Ok(())
    }

    /// Records the end of the atomic. `reads`: the atomic has read the word, so this rank learns
    /// from the ranks that have changed the word.
    pub(in crate::window) fn atomic_ends(&self, touch: Touch, reads: bool) {
        let Some((checked, checker)) = self.checker() else { return };
        if let Err(error) = self.end_atomic(checked, checker, touch, reads) {
            self.job.warn_once(Cause::Unchecked, &format!("an atomic was not checked: {error:#}"));
        }
    }

    fn end_atomic(&self, checked: &Checked, checker: &Checker, touch: Touch, reads: bool) -> Result<()> {
        let [start, len] = [touch.at, touch.len].map(|it| it as u64);
        if reads {
            let new = Access { start, end: start + len, kind: Kind::Load, origin: self.job.rank, place: 0 };
            self.learn_of_bytes(checked.shadow(touch.member)?, &new);
            checked.sees(checker, touch.member, start, start + len)?;
        }
        if !touch.written {
            if is_repeated(self.id, touch, checker.released()) {
                return Ok(());
            }
            let new = self.touched(checker, touch, None);
            return self.record_in_call(checked, checker, (touch.member, new), false);
        }
        let take = |all: &RefCell<Vec<Begun>>| {
            let mut all = all.borrow_mut();
            let last = all.iter().rposition(|begun| begun.window == self.id && begun.touch == touch)?;
            Some(all.swap_remove(last))
        };
        let Some(begun) = BEGUN.try_with(take).ok().flatten() else { return Ok(()) };
        checker.release_again(begun.released);
        // If the rank has learned something since, the accesses may be ordered before the atomic.
        let learned = |known: &[u64]| {
            let clock = checker.clock();
            clock.counts().iter().zip(known).enumerate().any(|(of, (now, then))| of != self.job.rank && now > then)
        };
        if begun.conflicts.is_empty() || learned(&begun.known) {
            return Ok(());
        }
        self.report_all(checker, touch.member, begun.conflicts)
    }

    /// Learns from the ranks that have changed bytes by atomics or operations.
    fn learn_of_bytes(&self, shadow: Shadow<'_>, bytes: &Access) {
        self.job.learns(|clock| {
            shadow.clocks_for(bytes.start, bytes.end).for_each(|slot| clock.learn(slot));
        });
    }
}
