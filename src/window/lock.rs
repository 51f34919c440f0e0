//! Passive target synchronization of a window (MPI-4.1 §12.5.3): locks over the control words of
//! any rank (`sync::lock`), and the epochs that they open and end.

use std::sync::atomic::{Ordering, fence};

use transom_fabric::Tally;

use super::core::Core;
use super::delayed_lock::not_locked;
use super::epoch_state::{after, at_target};
use super::lock_words::Here;
use super::target::{Hold, Target};
use crate::epoch::{self, Access, Call, EpochWord, Exposure, State};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::sync::lock;

/// The kind of a lock: whether several origins may hold it together (MPI-4.1 §12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Held together with other shared holders (`MPI_LOCK_SHARED`).
    Shared,
    /// Held by one origin alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

const NO_EPOCH: State = (Access::Closed, Exposure::Closed);
const ONE_TARGET: State = (Access::Lock, Exposure::Closed);
/// Checks at compile time that the state machine allows the transitions that `lock_here` and
/// `unlock_here` make without it.
const _: () = {
    assert!(matches!(epoch::after(NO_EPOCH, Call::Lock { held: false, own: false }), Ok(ONE_TARGET)));
    assert!(matches!(epoch::after(NO_EPOCH, Call::Lock { held: false, own: true }), Ok(ONE_TARGET)));
    assert!(matches!(epoch::after(ONE_TARGET, Call::Unlock { held: true, last: true }), Ok(NO_EPOCH)));
};

impl Core {
    /// Opens a passive epoch to one target. `check` is false under `MPI_MODE_NOCHECK`, which
    /// changes no word.
    #[inline]
    pub(crate) fn lock(&self, kind: Lock, rank: usize, check: bool) -> Result<()> {
        match self.parts.here(rank) {
            Some((target, here))
                if check && self.epochs.word() == EpochWord::CLOSED && !self.parts.hints.no_locks() =>
            {
                self.lock_here(kind, target, &here)
            }
            _ => self.lock_checked(kind, rank, check),
        }
    }

    /// Takes a lock while no epoch of this window is open, so that it becomes the only lock. The
    /// epoch word changes only after the lock words have granted the lock: while the call waits,
    /// the epoch word records no lock.
    #[inline]
    fn lock_here(&self, kind: Lock, target: &Target, here: &Here<'_>) -> Result<()> {
        self.parts.job.delayed.take_first()?;
        let (hold, word) = match kind {
            Lock::Shared => {
                lock::shared(here, target.rank(), || self.is_nested())?;
                (Hold::Shared, EpochWord::SINGLE)
            }
            Lock::Exclusive if self.epochs.bias.exclusive(here, target.rank())? => (Hold::Biased, EpochWord::SINGLE),
            Lock::Exclusive => {
                lock::announce(here, || self.is_nested())?;
                let locked = self.epochs.bias.announced_exclusive(here, target.rank(), || true);
                if !locked.inspect_err(|_| drop(lock::announced_end(here)))? {
                    self.exclusive_again(here, target.rank())?;
                }
                (Hold::Exclusive, EpochWord::ANNOUNCED)
            }
        };
        if self.epochs.shift(EpochWord::CLOSED, word).is_err() {
            self.granted_beside(target, hold)?;
        } else if !target.claim_free(hold) {
            self.claim_beside(target, hold)?;
        }
        self.parts.own.refresh();
        Ok(())
    }

    /// Records the lock at a target after the epoch word has counted it. If another thread has
    /// locked the target since, releases this thread's lock and fails.
    #[cold]
    fn claim_beside(&self, target: &Target, hold: Hold) -> Result<()> {
        if target.claim(hold) {
            return Ok(());
        }
        let last = self.unlocked(hold)?;
        // The error of the call is reported; a failure of the release is dropped.
        drop(match hold {
            Hold::Shared => lock::shared_end(&self.parts, target.rank()),
            Hold::Exclusive => lock::exclusive_end(&self.parts, target.rank(), last),
            _ => lock::biased_end(&self.parts, target.rank()),
        });
        let call = Call::Lock { held: true, own: target.rank() == self.parts.team.me };
        self.epochs.check("lock", call).map(drop).map_err(|error| at_target(error, target.rank()))
    }

    /// Takes an exclusive lock whose first attempt met a `lock_all`: withdraws the announcement,
    /// waits, and announces this process again until the lock is granted.
    #[cold]
    fn exclusive_again(&self, here: &Here<'_>, rank: usize) -> Result<()> {
        loop {
            lock::announced_end(here)?;
            lock::stand_aside(here)?;
            lock::announce(here, || self.is_nested())?;
            let locked = self.epochs.bias.announced_exclusive(here, rank, || true);
            if locked.inspect_err(|_| drop(lock::announced_end(here)))? {
                return Ok(());
            }
        }
    }

    /// Records a granted lock after another thread has opened an epoch.
    #[cold]
    fn granted_beside(&self, target: &Target, hold: Hold) -> Result<()> {
        // The other thread may have delayed a lock, and may use the handle of this thread's epoch.
        self.parts.job.delayed.is_alone();
        if hold == Hold::Exclusive {
            // The first failure is reported; a failure of the release is dropped.
            self.announced().inspect_err(|_| drop(lock::exclusive_end(&self.parts, target.rank(), false)))?;
        }
        self.granted(target, hold)
    }

    #[inline(never)]
    fn lock_checked(&self, kind: Lock, rank: usize, check: bool) -> Result<()> {
        // Also without a check of the lock: the end of this epoch does not wait for a lock that was
        // delayed before.
        self.parts.job.delayed.is_alone();
        self.parts.job.delayed.take_first()?;
        let Some(target) = self.parts.target("lock", rank)? else { return self.lock_null() };
        let held = target.hold() != Hold::None;
        let allowed = self.epochs.check("lock", Call::Lock { held, own: rank == self.parts.team.me });
        allowed.map_err(|error| at_target(error, rank))?;
        self.may_lock("lock")?;
        let hold = match check {
            false => Hold::Unchecked,
            true => self.delay_or_take(target, kind)?,
        };
        self.granted(target, hold)?;
        // If nothing is in flight, the release may follow puts.
        target.tally.unmix();
        if self.parts.is_checked() {
            self.parts.may_store_flags();
            if check {
                // The first failure is reported; a failure of the release is dropped.
                self.parts.lock_taken(rank, kind).inspect_err(|_| drop(self.unlock_checked(rank)))?;
            }
            self.parts.holds_lock(rank, kind, check);
        }
        self.parts.own.refresh();
        Ok(())
    }

    /// Takes a target's lock, and waits for it.
    pub(super) fn take(&self, kind: Lock, rank: usize) -> Result<Hold> {
        let call = if kind == Lock::Shared { "lock, shared," } else { "lock, exclusive," };
        self.parts.waits_for_lock(call, (Some(rank), kind), || self.take_unseen(kind, rank))
    }

    fn take_unseen(&self, kind: Lock, rank: usize) -> Result<Hold> {
        Ok(match kind {
            Lock::Shared => {
                lock::shared(&self.parts, rank, || self.is_nested())?;
                Hold::Shared
            }
            Lock::Exclusive if self.epochs.bias.exclusive(&self.parts, rank)? => Hold::Biased,
            Lock::Exclusive => {
                self.take_announced(rank)?;
                Hold::Exclusive
            }
        })
    }

    fn take_announced(&self, rank: usize) -> Result<()> {
        // Relaxed: a count, by which a thread decides whether to give way.
        let waiting = &self.epochs.waiting;
        loop {
            self.announce()?;
            waiting.fetch_add(1, Ordering::Relaxed);
            let only_waits = || self.epochs.word().exclusives() <= waiting.load(Ordering::Relaxed).into();
            let locked = self.epochs.bias.announced_exclusive(&self.parts, rank, only_waits);
            waiting.fetch_sub(1, Ordering::Relaxed);
            if locked.inspect_err(|_| drop(self.unannounce()))? {
                return Ok(());
            }
            self.unannounce()?;
            lock::stand_aside(&self.parts)?;
        }
    }

    /// Whether this process holds a lock of the window.
    fn is_nested(&self) -> bool {
        self.epochs.word().locks() > self.parts.delay.pending()
    }

    /// Announces an exclusive lock in the master word. If this process is already announced, counts
    /// the lock under that announcement.
    fn announce(&self) -> Result<()> {
        let mut word = self.epochs.word();
        while word.exclusives() > 0 {
            match self.epochs.shift(word, word.with_exclusive()) {
                Ok(()) => return Ok(()),
                Err(found) => word = found,
            }
        }
        lock::announce(&self.parts, || self.is_nested())?;
        self.announced()
    }

    /// Counts an announced exclusive lock. A process has one announcement: if another thread has
    /// announced the process too, this call withdraws its own announcement. After an error the lock
    /// is not counted.
    fn announced(&self) -> Result<()> {
        let before = self.epochs.update(|word| Ok(word.with_exclusive()))?;
        let withdrawn = if before.exclusives() > 0 { lock::announced_end(&self.parts) } else { Ok(()) };
        // The first failure is reported; a further one is dropped.
        withdrawn.inspect_err(|_| drop(self.unannounce()))
    }

    /// Takes back the announcement of an exclusive lock that was not granted.
    fn unannounce(&self) -> Result<()> {
        let before = self.epochs.update(|word| Ok(word.without_exclusive()))?;
        if before.exclusives() == 1 { lock::announced_end(&self.parts) } else { Ok(()) }
    }

    /// Records a granted lock in the epoch word, or releases it if another thread's epoch leaves no
    /// room for it.
    fn granted(&self, target: &Target, hold: Hold) -> Result<()> {
        let call = Call::Lock { held: !target.claim(hold), own: target.rank() == self.parts.team.me };
        let entered = self.epochs.update(|word| Ok(after(word, "lock", call)?.with_lock()));
        if hold == Hold::Delayed && entered.as_ref().is_ok_and(|before| before.locks() > 0) {
            // Another thread has locked since `may_delay`, and this thread may use the handle of
            // that epoch.
            self.parts.job.delayed.share();
        }
        entered.map(drop).inspect_err(|_| {
            if matches!(call, Call::Lock { held: false, .. }) {
                target.set_hold(Hold::None);
            }
            // The first failure is reported; a failure of the release is dropped.
            drop(match hold.used() {
                Hold::Shared => lock::shared_end(&self.parts, target.rank()),
                Hold::Exclusive => {
                    let released = lock::exclusive_end(&self.parts, target.rank(), false);
                    released.and(self.unannounce())
                }
                Hold::Biased => lock::biased_end(&self.parts, target.rank()),
                Hold::Delayed => {
                    self.parts.end_delay();
                    Ok(())
                }
                _ => Ok(()),
            });
        })
    }

    /// Completes all operations to the target and ends its epoch.
    #[inline]
    pub(crate) fn unlock(&self, rank: usize) -> Result<()> {
        match self.parts.here(rank) {
            Some((target, here)) => match (target.hold(), self.epochs.word()) {
                (hold @ Hold::Shared, EpochWord::SINGLE) => {
                    self.unlock_here(target, hold, EpochWord::SINGLE, |_| lock::shared_end(&here, rank))
                }
                (hold @ Hold::Biased, EpochWord::SINGLE) => {
                    self.unlock_here(target, hold, EpochWord::SINGLE, |_| lock::biased_end(&here, rank))
                }
                (hold @ Hold::Exclusive, EpochWord::ANNOUNCED) => {
                    self.unlock_here(target, hold, EpochWord::ANNOUNCED, |last| lock::exclusive_end(&here, rank, last))
                }
                _ => self.unlock_checked(rank),
            },
            None => self.unlock_checked(rank),
        }
    }

    /// [`Core::unlock`] at the end of a closure's epoch, whose buffers were lent: waits for the
    /// operations even if another rank is lost meanwhile. The caller waits for those of which the
    /// release comes first.
    #[inline]
    pub(super) fn unlock_lent(&self, rank: usize) -> Result<()> {
        if !self.parts.targets.tally.idle() {
            self.settle_unless_behind(rank);
        }
        self.unlock(rank)
    }

    #[cold]
    fn settle_unless_behind(&self, rank: usize) {
        if !self.parts.known(rank).is_some_and(|target| self.may_release_first(target)) {
            self.parts.settle();
        }
    }

    /// Releases the only lock that this process holds on this window.
    #[inline]
    fn unlock_here(
        &self,
        target: &Target,
        hold: Hold,
        word: EpochWord,
        release: impl FnOnce(bool) -> Result<()>,
    ) -> Result<()> {
        // The lock is released even after a failed flush: other origins wait for it.
        let flushed = self.parts.complete_to("unlock", target.rank());
        self.parts.own.publish();
        // The epoch word changes before the lock word, because another thread may be granted this
        // target as soon as the lock word changes.
        target.set_hold(Hold::None);
        let last = self.epochs.shift(word, EpochWord::CLOSED).is_ok() || self.unlocked(hold)?;
        flushed.and(release(last))
    }

    #[inline(never)]
    fn unlock_checked(&self, rank: usize) -> Result<()> {
        let Some(target) = self.parts.target("unlock", rank)? else { return self.unlock_null() };
        let last = self.epochs.word().locks() == 1;
        let allowed = self.epochs.check("unlock", Call::Unlock { held: target.hold() != Hold::None, last });
        allowed.map_err(|error| at_target(error, rank))?;
        let carried = match target.hold() {
            Hold::Delayed => self.take_delayed_lock(target, true),
            Hold::Failed => Err(not_locked(rank)),
            _ => Ok(()),
        };
        let found = target.hold();
        let hold = found.used();
        if found != hold {
            self.parts.was_unused();
        }
        if carried.is_ok() && self.may_release_first(target) {
            return self.unlock_behind(target, found);
        }
        // The lock is released even after a failed flush.
        let flushed = carried.and(self.parts.complete_to("unlock", rank));
        self.parts.own.publish();
        let passed_on = match hold {
            Hold::Shared => self.parts.lock_ends(rank, Lock::Shared),
            Hold::Exclusive | Hold::Biased => self.parts.lock_ends(rank, Lock::Exclusive),
            _ => Ok(()),
        };
        let passed_on = passed_on.and(self.parts.lock_held(rank));
        // Another thread may have unlocked the target meanwhile.
        let held = target.unclaim(found);
        if held && found == Hold::Failed {
            self.parts.delay.end();
        }
        self.epochs.check("unlock", Call::Unlock { held, last }).map_err(|error| at_target(error, rank))?;
        let last = self.unlocked(hold)?;
        flushed.and(passed_on).and(match hold {
            Hold::Shared => lock::shared_end(&self.parts, rank),
            Hold::Exclusive => lock::exclusive_end(&self.parts, rank, last),
            Hold::Biased => lock::biased_end(&self.parts, rank),
            _ => Ok(()),
        })
    }

    /// Whether the release of a lock may be sent before the operations of its epoch are complete,
    /// because the target performs them first. The conflict checker passes clocks on after the
    /// operations.
    fn may_release_first(&self, target: &Target) -> bool {
        target.hold().is_lock()
            && !target.tally.idle()
            && !self.parts.is_checked()
            && target.orders_release(&self.parts)
    }

    /// [`Core::unlock`] that sends the release of the target's word behind the puts in flight.
    /// `found`: the state of the lock.
    #[cold]
    fn unlock_behind(&self, target: &Target, found: Hold) -> Result<()> {
        let rank = target.rank();
        self.parts.own.publish();
        // As in `unlock_here`, the lock's states change before the lock word.
        let held = target.unclaim(found);
        let left = |word: EpochWord| {
            let call = Call::Unlock { held, last: word.locks() == 1 };
            Ok(after(word, "unlock", call)?.without_lock())
        };
        if let Err(error) = self.epochs.update(left) {
            // Another thread has unlocked the target meanwhile.
            return self.parts.complete_to("unlock", rank).and(Err(at_target(error, rank)));
        }
        let (exclusive, release) = (found != Hold::Shared, Tally::within(&target.tally));
        fence(Ordering::AcqRel);
        let (is_sent, sent) = self.parts.release_behind(target, exclusive, &release);
        // The call does not wait for the answer of the target's CPU to a message. A device answers
        // the release and the puts together.
        let flushed = self.parts.complete_beside(target, &release);
        let released = match is_sent {
            true => Ok(()),
            false if exclusive => lock::biased_end(&self.parts, rank),
            false => lock::shared_end(&self.parts, rank),
        };
        // The announcement ends after the puts: the master word is at another rank, and the net
        // does not order its change after the puts. The epoch word counts the announced lock until
        // then, so that no other thread ends the announcement.
        let withdrawn = if found == Hold::Exclusive { self.unannounce() } else { Ok(()) };
        if flushed.is_err() && is_sent {
            // The loss that has ended the operations may end the release too, and is reported once.
            // A release that does not end is given up by `drain`'s rule.
            let _ = self.parts.job.until_all_complete(|| release.outstanding());
            drop(release.take_failure());
        }
        flushed.and(sent).and(released).and(withdrawn)
    }

    /// Removes a lock from the epoch word. Returns whether it was the last announced one.
    fn unlocked(&self, hold: Hold) -> Result<bool> {
        let exclusive = hold == Hold::Exclusive;
        let before = self.epochs.update(|word| {
            let left = after(word, "unlock", Call::Unlock { held: true, last: word.locks() == 1 })?.without_lock();
            Ok(if exclusive { left.without_exclusive() } else { left })
        })?;
        Ok(exclusive && before.exclusives() == 1)
    }

    /// Opens a passive epoch to `PROC_NULL`, within which operations on it are legal (MPI-4.1
    /// §12.3, §12.5.3).
    fn lock_null(&self) -> Result<()> {
        self.may_lock("lock")?;
        let held = self.epochs.holds_null.swap(true, Ordering::Relaxed);
        let call = Call::Lock { held, own: false };
        let entered = self.epochs.update(|word| Ok(after(word, "lock", call)?.with_lock()));
        entered.map(drop).inspect_err(|_| self.epochs.holds_null.store(held, Ordering::Relaxed))?;
        self.parts.own.refresh();
        Ok(())
    }

    /// Ends the epoch to `PROC_NULL`.
    fn unlock_null(&self) -> Result<()> {
        let held = self.epochs.holds_null.swap(false, Ordering::Relaxed);
        self.parts.own.publish();
        let left = |word: EpochWord| {
            let call = Call::Unlock { held, last: word.locks() == 1 };
            Ok(after(word, "unlock", call)?.without_lock())
        };
        self.epochs.update(left).map(drop)
    }

    /// Opens a passive epoch to all targets.
    pub(crate) fn lock_all(&self, check: bool) -> Result<()> {
        self.epochs.check("lock_all", Call::LockAll)?;
        self.may_lock("lock_all")?;
        if check {
            self.parts.job.delayed.take_first()?;
            self.parts.waits_for_lock("lock_all", (None, Lock::Shared), || lock::all(&self.parts))?;
            self.parts.locks_taken().inspect_err(|_| drop(lock::all_end(&self.parts)))?;
        } else {
            self.parts.may_store_flags();
        }
        // Another thread may have opened an epoch meanwhile.
        self.epochs
            .step("lock_all", Call::LockAll)
            .inspect_err(|_| drop(if check { lock::all_end(&self.parts) } else { Ok(()) }))?;
        self.epochs.holds_all.store(check, Ordering::Relaxed);
        self.parts.all_locked.store(true, Ordering::Relaxed);
        self.parts.own.refresh();
        self.parts.holds_all_locks(check);
        Ok(())
    }

    /// Completes all operations and ends the epoch.
    pub(crate) fn unlock_all(&self) -> Result<()> {
        self.epochs.check("unlock_all", Call::UnlockAll)?;
        let flushed = self.parts.flush_all();
        self.parts.own.publish();
        self.parts.all_locked.store(false, Ordering::Relaxed);
        let held = self.epochs.holds_all.swap(false, Ordering::Relaxed);
        let passed_on = if held { self.parts.locks_end() } else { Ok(()) };
        let passed_on = passed_on.and(self.parts.all_locks_held());
        let released = if held { lock::all_end(&self.parts) } else { Ok(()) };
        self.epochs.step("unlock_all", Call::UnlockAll).and(flushed).and(passed_on).and(released)
    }

    fn may_lock(&self, call: &'static str) -> Result<()> {
        if self.parts.hints.no_locks() {
            return Err(Error::argument(Class::LockType, call, ArgumentError::NoLocks));
        }
        Ok(())
    }
}
