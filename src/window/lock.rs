//! Passive target synchronization of a window (MPI-4.1 §12.5.3): locks over the control words of
//! any rank (`sync::lock`), and the epochs that they open and end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use transom_fabric::{Amo, AmoKind, Tally, TallyRef, Width};

use super::core::Core;
use super::epoch_state::after;
use super::target::{Control, Hold, Target};
use crate::buffers;
use crate::buffers::Sink;
use crate::epoch::{self, Access, Call, EpochWord, Exposure, State};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::messages::{Landing, Request};
use crate::routes::Actor;
use crate::sync::lock::{self, Place, Words};
use crate::sync::words;

/// The kind of a lock: whether several origins may hold it together (MPI-4.1 §12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Held together with other shared holders (`MPI_LOCK_SHARED`).
    Shared,
    /// Held by one origin alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

/// Polls of a word before the waiter yields, and before it sleeps.
const SPINS: u32 = 32;
const YIELDED: u32 = 64;
/// The first sleep between two polls, and how often it doubles.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const DOUBLINGS: u32 = 5;

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
        match self.here(rank) {
            Some((target, here)) if check && self.epochs.word() == EpochWord::CLOSED && !self.hints.no_locks() => {
                self.lock_here(kind, target, &here)
            }
            _ => self.lock_checked(kind, rank, check),
        }
    }

    /// The words of a target's lock, if this CPU maps them and first contact has been made, as for
    /// most locks.
    #[inline]
    fn here(&self, rank: usize) -> Option<(&Target, Here<'_>)> {
        if self.control == Actor::Nic {
            return None;
        }
        let target = self.fast_target(rank)?;
        Some((target, Here { core: self, lock: target.words(self)?.word64(words::LOCK) }))
    }

    /// Takes the only lock of this window. The epoch word changes only after the lock words have
    /// granted the lock, so that it records no lock while the call waits.
    #[inline]
    fn lock_here(&self, kind: Lock, target: &Target, here: &Here<'_>) -> Result<()> {
        self.job.delayed.take_first()?;
        let (hold, word) = match kind {
            Lock::Shared => {
                lock::shared(here, target.rank(), || self.is_nested())?;
                (Hold::Shared, EpochWord::SINGLE)
            }
            Lock::Exclusive if self.epochs.bias.exclusive(here, target.rank())? => (Hold::Biased, EpochWord::SINGLE),
            Lock::Exclusive => {
                lock::announce(here, || self.is_nested())?;
                self.epochs.bias.announced_exclusive(here, target.rank())?;
                (Hold::Exclusive, EpochWord::ANNOUNCED)
            }
        };
        if self.epochs.shift(EpochWord::CLOSED, word).is_ok() {
            target.set_hold(hold);
        } else {
            self.granted_beside(target, hold)?;
        }
        self.own.refresh();
        Ok(())
    }

    /// Records a lock when another thread has opened an epoch meanwhile.
    #[cold]
    fn granted_beside(&self, target: &Target, hold: Hold) -> Result<()> {
        if hold == Hold::Exclusive {
            self.announced()?;
        }
        self.granted(target, hold)
    }

    #[inline(never)]
    fn lock_checked(&self, kind: Lock, rank: usize, check: bool) -> Result<()> {
        let Some(target) = self.target("lock", rank)? else { return self.lock_null() };
        let held = target.hold() != Hold::None;
        self.epochs.check("lock", Call::Lock { held, own: rank == self.team.me })?;
        self.may_lock("lock")?;
        if check {
            self.job.delayed.take_first()?;
        }
        let hold = match check {
            false => Hold::Unchecked,
            true => self.delay_or_take(target, kind)?,
        };
        self.granted(target, hold)?;
        if check {
            self.lock_taken(rank, kind)?;
        }
        self.own.refresh();
        Ok(())
    }

    /// Takes a target's lock, and waits for it.
    pub(super) fn take(&self, kind: Lock, rank: usize) -> Result<Hold> {
        let call = if kind == Lock::Shared { "lock, shared," } else { "lock, exclusive," };
        self.waits(call, Some(rank), || self.take_unseen(kind, rank))
    }

    fn take_unseen(&self, kind: Lock, rank: usize) -> Result<Hold> {
        Ok(match kind {
            Lock::Shared => {
                lock::shared(self, rank, || self.is_nested())?;
                Hold::Shared
            }
            Lock::Exclusive if self.epochs.bias.exclusive(self, rank)? => Hold::Biased,
            Lock::Exclusive => {
                self.announce()?;
                let locked = self.epochs.bias.announced_exclusive(self, rank);
                locked.inspect_err(|_| drop(self.unannounce()))?;
                Hold::Exclusive
            }
        })
    }

    /// Whether this process holds a lock of the window.
    fn is_nested(&self) -> bool {
        self.epochs.word().locks() > self.epochs.delay.pending()
    }

    /// Announces an exclusive lock at the master word: by an earlier announcement of this process,
    /// or by a new one.
    fn announce(&self) -> Result<()> {
        let mut word = self.epochs.word();
        while word.exclusives() > 0 {
            match self.epochs.shift(word, word.with_exclusive()) {
                Ok(()) => return Ok(()),
                Err(found) => word = found,
            }
        }
        lock::announce(self, || self.is_nested())?;
        self.announced()
    }

    /// Counts an exclusive lock without the bias, which was announced. A process has one
    /// announcement: if another thread has made one, this one is withdrawn.
    fn announced(&self) -> Result<()> {
        let before = self.epochs.update(|word| Ok(word.with_exclusive()))?;
        if before.exclusives() > 0 { lock::announced_end(self) } else { Ok(()) }
    }

    /// Takes back the announcement of an exclusive lock that was not granted.
    fn unannounce(&self) -> Result<()> {
        let before = self.epochs.update(|word| Ok(word.without_exclusive()))?;
        if before.exclusives() == 1 { lock::announced_end(self) } else { Ok(()) }
    }

    /// Records a granted lock in the epoch word, or releases it if another thread's epoch leaves no
    /// room for it.
    fn granted(&self, target: &Target, hold: Hold) -> Result<()> {
        let call = Call::Lock { held: !target.claim(hold), own: target.rank() == self.team.me };
        let entered = self.epochs.update(|word| Ok(after(word, "lock", call)?.with_lock()));
        entered.map(drop).inspect_err(|_| {
            if matches!(call, Call::Lock { held: false, .. }) {
                target.set_hold(Hold::None);
            }
            // The first failure is reported; a failure of the release is dropped.
            drop(match hold.used() {
                Hold::Shared => lock::shared_end(self, target.rank()),
                Hold::Exclusive => lock::exclusive_end(self, target.rank(), false).and_then(|()| self.unannounce()),
                Hold::Biased => lock::biased_end(self, target.rank()),
                Hold::Delayed => {
                    self.end_delay();
                    Ok(())
                }
                _ => Ok(()),
            });
        })
    }

    /// Completes all operations to the target and ends its epoch.
    #[inline]
    pub(crate) fn unlock(&self, rank: usize) -> Result<()> {
        match self.here(rank) {
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

    /// Releases the only lock of this window.
    #[inline]
    fn unlock_here(
        &self,
        target: &Target,
        hold: Hold,
        word: EpochWord,
        release: impl FnOnce(bool) -> Result<()>,
    ) -> Result<()> {
        // The lock is released even after a failed flush: other origins wait for it.
        let flushed = self.complete_to("unlock", target.rank());
        self.own.publish();
        // The epoch word changes before the lock word: another thread may be granted this target at
        // once.
        target.set_hold(Hold::None);
        let last = self.epochs.shift(word, EpochWord::CLOSED).is_ok() || self.unlocked(hold)?;
        flushed.and(release(last))
    }

    #[inline(never)]
    fn unlock_checked(&self, rank: usize) -> Result<()> {
        let Some(target) = self.target("unlock", rank)? else { return self.unlock_null() };
        let last = self.epochs.word().locks() == 1;
        self.epochs.check("unlock", Call::Unlock { held: target.hold() != Hold::None, last })?;
        let carried = if target.hold() == Hold::Delayed { self.take_delayed_lock(target, true) } else { Ok(()) };
        let found = target.hold();
        let hold = found.used();
        if found != hold {
            self.was_unused();
        }
        // The lock is released even after a failed flush.
        let flushed = carried.and(self.complete_to("unlock", rank));
        self.own.publish();
        let passed_on = match hold {
            Hold::Shared => self.lock_ends(rank, Lock::Shared),
            Hold::Exclusive | Hold::Biased => self.lock_ends(rank, Lock::Exclusive),
            _ => Ok(()),
        };
        // Another thread may have unlocked the target meanwhile.
        let held = target.unclaim(found);
        self.epochs.check("unlock", Call::Unlock { held, last })?;
        let last = self.unlocked(hold)?;
        flushed.and(passed_on).and(match hold {
            Hold::Shared => lock::shared_end(self, rank),
            Hold::Exclusive => lock::exclusive_end(self, rank, last),
            Hold::Biased => lock::biased_end(self, rank),
            _ => Ok(()),
        })
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
        self.own.refresh();
        Ok(())
    }

    /// Ends the epoch to `PROC_NULL`.
    fn unlock_null(&self) -> Result<()> {
        let held = self.epochs.holds_null.swap(false, Ordering::Relaxed);
        self.own.publish();
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
            self.job.delayed.take_first()?;
            self.waits("lock_all", None, || lock::all(self))?;
            self.locks_taken()?;
        }
        // Another thread may have opened an epoch meanwhile.
        self.epochs
            .step("lock_all", Call::LockAll)
            .inspect_err(|_| drop(if check { lock::all_end(self) } else { Ok(()) }))?;
        self.epochs.holds_all.store(check, Ordering::Relaxed);
        self.targets.all_locked.store(true, Ordering::Relaxed);
        self.own.refresh();
        Ok(())
    }

    /// Completes all operations and ends the epoch.
    pub(crate) fn unlock_all(&self) -> Result<()> {
        self.epochs.check("unlock_all", Call::UnlockAll)?;
        let flushed = self.flush_all();
        self.own.publish();
        self.targets.all_locked.store(false, Ordering::Relaxed);
        let held = self.epochs.holds_all.swap(false, Ordering::Relaxed);
        let passed_on = if held { self.locks_end() } else { Ok(()) };
        let released = if held { lock::all_end(self) } else { Ok(()) };
        self.epochs.step("unlock_all", Call::UnlockAll).and(flushed).and(passed_on).and(released)
    }

    fn may_lock(&self, call: &'static str) -> Result<()> {
        if self.hints.no_locks() {
            return Err(Error::argument(Class::LockType, call, ArgumentError::NoLocks));
        }
        Ok(())
    }

    /// The target and the offset of a lock's word.
    fn word(&self, place: Place) -> Result<(&Target, usize)> {
        let (rank, at) = match place {
            Place::Target(rank) => (rank, words::LOCK),
            Place::Master => (0, words::MASTER),
            Place::Groups => (0, words::GROUPS),
        };
        match self.target("lock", rank)? {
            Some(target) => Ok((target, at)),
            None => Err(Error::argument(Class::Rank, "lock", ArgumentError::ProcNull)),
        }
    }

    /// A lock's word that this CPU changes itself. Locks within a node need no further step.
    #[inline]
    fn word_here(&self, place: Place) -> Option<&AtomicU64> {
        let (rank, at) = match place {
            Place::Target(rank) => (rank, words::LOCK),
            Place::Master => (0, words::MASTER),
            Place::Groups => (0, words::GROUPS),
        };
        if self.control == Actor::Nic {
            return None;
        }
        Some(self.known(rank)?.words(self)?.word64(at))
    }

    /// Changes a control word and waits for its previous value.
    #[cold]
    fn change(&self, place: Place, amo: Amo) -> Result<u64> {
        let (target, at) = self.word(place)?;
        if let Control::Memory(words) = target.control(self)? {
            return Ok(words.amo(at, amo));
        }
        let mut old = 0u64;
        let tally = Tally::within(&target.tally);
        buffers::scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = scope.sink(bytemuck::bytes_of_mut(&mut old));
                self.post_control(target, at, amo, into, &tally)
            },
        )?;
        self.job.progress.complete(&tally)?;
        Ok(old)
    }

    fn post_control(&self, target: &Target, at: usize, amo: Amo, into: Sink, tally: &TallyRef) -> Result<()> {
        match target.control(self)? {
            Control::Memory(words) => {
                into.fill_from(&words.amo(at, amo).to_ne_bytes());
                Ok(())
            }
            Control::Post(block, base) => {
                while !self.job.taken(block.amo(base + at as u64, amo, &into, tally))? {}
                Ok(())
            }
            Control::Messages => self.send(target, &Request::Control { at: at as u64, amo }, Landing::One(into), tally),
        }
    }
}

impl Words for Core {
    fn ranks(&self) -> usize {
        self.team.size
    }

    // SeqCst, as the changes of these words by the net and by messages: a lock orders all accesses
    // that it separates.
    #[inline]
    fn add(&self, place: Place, delta: u64) -> Result<u64> {
        if let Some(word) = self.word_here(place) {
            return Ok(word.fetch_add(delta, Ordering::SeqCst));
        }
        self.change(place, Amo::new(AmoKind::Sum, Width::W64, delta))
    }

    #[inline]
    fn release(&self, place: Place, delta: u64) -> Result<()> {
        if let Some(word) = self.word_here(place) {
            word.fetch_add(delta, Ordering::SeqCst);
            return Ok(());
        }
        let (target, at) = self.word(place)?;
        let amo = Amo::new(AmoKind::Sum, Width::W64, delta);
        self.post_control(target, at, amo, Sink::NONE, &target.tally)?;
        if self.control != Actor::Cpu {
            // A port may delay a request until this rank's next progress call, while others wait
            // for the lock.
            self.job.progress.poll_and_leave()?;
        }
        Ok(())
    }

    #[inline]
    fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64> {
        if let Some(word) = self.word_here(place) {
            let swapped = word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
            return Ok(swapped.unwrap_or_else(|found| found));
        }
        self.change(place, Amo::compare_swap(Width::W64, expected, new))
    }

    fn read(&self, place: Place) -> Result<u64> {
        let (target, at) = self.word(place)?;
        if let Control::Memory(words) = target.control(self)? {
            return Ok(load(words, at));
        }
        self.change(place, Amo::new(AmoKind::Read, Width::W64, 0))
    }

    fn pause(&self, turn: u32) -> Result<()> {
        self.job.progress.poll()?;
        match turn {
            ..SPINS if !self.job.spin.spin().is_zero() => std::hint::spin_loop(),
            ..YIELDED => std::thread::yield_now(),
            _ => {
                self.job.progress.look()?;
                self.job.progress.call_hook();
                let doublings = ((turn - YIELDED) / 16).min(DOUBLINGS);
                std::thread::sleep(FIRST_SLEEP * (1 << doublings));
            }
        }
        Ok(())
    }
}

/// The lock words of a window, with the word of one target's lock, which this CPU maps.
struct Here<'c> {
    core: &'c Core,
    lock: &'c AtomicU64,
}

impl Words for Here<'_> {
    fn ranks(&self) -> usize {
        self.core.ranks()
    }

    #[inline]
    fn add(&self, place: Place, delta: u64) -> Result<u64> {
        match place {
            // SeqCst here and below, as in the implementation for `Core`.
            Place::Target(_) => Ok(self.lock.fetch_add(delta, Ordering::SeqCst)),
            Place::Master | Place::Groups => self.core.add(place, delta),
        }
    }

    #[inline]
    fn release(&self, place: Place, delta: u64) -> Result<()> {
        match place {
            Place::Target(_) => {
                self.lock.fetch_add(delta, Ordering::SeqCst);
                Ok(())
            }
            Place::Master | Place::Groups => self.core.release(place, delta),
        }
    }

    #[inline]
    fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64> {
        match place {
            Place::Target(_) => {
                let swapped = self.lock.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
                Ok(swapped.unwrap_or_else(|found| found))
            }
            Place::Master | Place::Groups => self.core.swap(place, expected, new),
        }
    }

    fn read(&self, place: Place) -> Result<u64> {
        self.core.read(place)
    }

    fn pause(&self, turn: u32) -> Result<()> {
        self.core.pause(turn)
    }
}

fn load(words: words::Words<'_>, at: usize) -> u64 {
    // Acquire: pairs with the holder's release by `amo`, which is SeqCst.
    words.word64(at).load(Ordering::Acquire)
}
