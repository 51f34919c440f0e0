//! Passive target synchronization of a window: locks over the control words of any rank (`sync::lock`), and the epochs that
//! they open and end (MPI §11.5.3).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use transom_fabric::{Amo, AmoKind, Tally, TallyRef, Width};

use super::core::Core;
use super::target::{Control, Hold, Target};
use super::words;
use crate::buffers;
use crate::buffers::Sink;
use crate::epoch::{self, Access, Call, Exposure, State};
use crate::error::{Class, Error, Result};
use crate::job::PROC_NULL;
use crate::messages::{Landing, Request};
use crate::plan::Actor;
use crate::sync::lock::{self, Place, Words};

/// Who may hold a target's lock together (MPI §11.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// With others that hold it shared (`MPI_LOCK_SHARED`).
    Shared,
    /// Alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

/// Looks at a word before the waiter lets others run, and before it sleeps.
const SPINS: u32 = 32;
const YIELDED: u32 = 64;
/// The first and the longest sleep between two looks.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const DOUBLINGS: u32 = 5;

/// No epoch is open, as a number; and one to a single target.
const CLOSED: u8 = epoch::number(NO_EPOCH);
const LOCKED: u8 = epoch::number(ONE_TARGET);
const NO_EPOCH: State = (Access::Closed, Exposure::Closed);
const ONE_TARGET: State = (Access::Lock, Exposure::Closed);
/// What `lock_here` and `unlock_here` rely on.
const _: () = {
    assert!(matches!(epoch::after(NO_EPOCH, Call::Lock { held: false, own: false }), Ok(ONE_TARGET)));
    assert!(matches!(epoch::after(NO_EPOCH, Call::Lock { held: false, own: true }), Ok(ONE_TARGET)));
    assert!(matches!(epoch::after(ONE_TARGET, Call::Unlock { held: true, last: true }), Ok(NO_EPOCH)));
};

impl Core {
    /// Opens a passive epoch to one target; `check`: false under `MPI_MODE_NOCHECK`, which takes no word.
    #[inline]
    pub(crate) fn lock(&self, kind: Lock, rank: usize, check: bool) -> Result<()> {
        match self.here(CLOSED, rank) {
            Some((target, here)) if check && !self.no_locks.load(Ordering::Relaxed) => {
                self.lock_here(kind, target, &here)
            }
            _ => self.lock_checked(kind, rank, check),
        }
    }

    /// The words of a target's lock where the window's epoch is this one, and this CPU reaches them without a first contact:
    /// what most locks meet.
    #[inline]
    fn here(&self, epoch: u8, rank: usize) -> Option<(&Target, Here<'_>)> {
        // Relaxed, here and below: synchronization calls of a window come from one thread at a time.
        if self.epoch.load(Ordering::Relaxed) != epoch || self.job.actor == Actor::Nic {
            return None;
        }
        let target = self.known(rank)?;
        Some((target, Here { core: self, lock: target.words(self)?.word64(words::LOCK) }))
    }

    /// Takes the only lock of this window.
    #[inline]
    fn lock_here(&self, kind: Lock, target: &Target, here: &Here<'_>) -> Result<()> {
        match kind {
            Lock::Shared => {
                lock::shared(here, target.rank(), false)?;
                target.set_hold(Hold::Shared);
            }
            Lock::Exclusive => {
                lock::exclusive(here, target.rank(), true, false)?;
                target.set_hold(Hold::Exclusive);
                self.exclusives.store(1, Ordering::Relaxed);
            }
        }
        self.locks.store(1, Ordering::Relaxed);
        self.enter(ONE_TARGET);
        self.refresh();
        Ok(())
    }

    #[inline(never)]
    fn lock_checked(&self, kind: Lock, rank: usize, check: bool) -> Result<()> {
        let Some(target) = self.target("lock", rank)? else { return Ok(()) };
        let held = target.hold() != Hold::None;
        let next = self.check("lock", Call::Lock { held, own: rank == self.team.me })?;
        self.may_lock("lock")?;
        let nested = self.locks.load(Ordering::Relaxed) > 0;
        let hold = match (check, kind) {
            (false, _) => Hold::Unchecked,
            (true, Lock::Shared) => {
                lock::shared(self, rank, nested)?;
                Hold::Shared
            }
            (true, Lock::Exclusive) => {
                lock::exclusive(self, rank, self.exclusives.load(Ordering::Relaxed) == 0, nested)?;
                // Relaxed: as in `here`.
                self.exclusives.fetch_add(1, Ordering::Relaxed);
                Hold::Exclusive
            }
        };
        target.set_hold(hold);
        self.locks.fetch_add(1, Ordering::Relaxed);
        self.enter(next);
        self.refresh();
        Ok(())
    }

    /// Completes everything to the target and ends its epoch.
    #[inline]
    pub(crate) fn unlock(&self, rank: usize) -> Result<()> {
        match self.here(LOCKED, rank) {
            Some((target, here)) if self.locks.load(Ordering::Relaxed) == 1 => match target.hold() {
                Hold::Shared => self.unlock_here(target, || lock::shared_end(&here, rank)),
                Hold::Exclusive => self.unlock_here(target, || {
                    self.exclusives.store(0, Ordering::Relaxed);
                    lock::exclusive_end(&here, rank, true)
                }),
                _ => self.unlock_checked(rank),
            },
            _ => self.unlock_checked(rank),
        }
    }

    /// Gives the only lock of this window back.
    #[inline]
    fn unlock_here(&self, target: &Target, release: impl FnOnce() -> Result<()>) -> Result<()> {
        // The lock goes whatever the operations met: others wait for it.
        let flushed = self.flush("unlock", target.rank());
        self.publish();
        let released = release();
        target.set_hold(Hold::None);
        self.locks.store(0, Ordering::Relaxed);
        self.enter(NO_EPOCH);
        flushed.and(released)
    }

    #[inline(never)]
    fn unlock_checked(&self, rank: usize) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        let Some(target) = self.target("unlock", rank)? else { return Ok(()) };
        let hold = target.hold();
        let last = self.locks.load(Ordering::Relaxed) == 1;
        let next = self.check("unlock", Call::Unlock { held: hold != Hold::None, last })?;
        // As above.
        let flushed = self.flush("unlock", rank);
        self.publish();
        let released = match hold {
            Hold::Shared => lock::shared_end(self, rank),
            Hold::Exclusive => {
                let last = self.exclusives.fetch_sub(1, Ordering::Relaxed) == 1;
                lock::exclusive_end(self, rank, last)
            }
            _ => Ok(()),
        };
        target.set_hold(Hold::None);
        self.locks.fetch_sub(1, Ordering::Relaxed);
        self.enter(next);
        flushed.and(released)
    }

    /// Opens a passive epoch to all targets.
    pub(crate) fn lock_all(&self, check: bool) -> Result<()> {
        let next = self.check("lock_all", Call::LockAll)?;
        self.may_lock("lock_all")?;
        if check {
            lock::all(self)?;
        }
        self.holds_all.store(check, Ordering::Relaxed);
        self.enter(next);
        self.refresh();
        Ok(())
    }

    /// Completes everything and ends the epoch.
    pub(crate) fn unlock_all(&self) -> Result<()> {
        let next = self.check("unlock_all", Call::UnlockAll)?;
        let flushed = self.flush_all();
        self.publish();
        let released = if self.holds_all.swap(false, Ordering::Relaxed) { lock::all_end(self) } else { Ok(()) };
        self.enter(next);
        flushed.and(released)
    }

    fn may_lock(&self, call: &'static str) -> Result<()> {
        // Relaxed: as the epoch's state.
        if self.no_locks.load(Ordering::Relaxed) {
            let why = "the window's info says no_locks=true (MPI §11.2.1)";
            return Err(Error::argument(Class::LockType, call, why));
        }
        Ok(())
    }

    /// Where a lock's word is.
    fn word(&self, place: Place) -> Result<(&Target, usize)> {
        let (rank, at) = match place {
            Place::Target(rank) => (rank, words::LOCK),
            Place::Master => (0, words::MASTER),
        };
        match self.target("lock", rank)? {
            Some(target) => Ok((target, at)),
            None => Err(Error::argument(Class::Rank, "lock", "nobody has no lock")),
        }
    }

    /// A lock's word, where this CPU changes it: all that a lock does within a node.
    #[inline]
    fn word_here(&self, place: Place) -> Option<&AtomicU64> {
        let (rank, at) = match place {
            Place::Target(rank) => (rank, words::LOCK),
            Place::Master => (0, words::MASTER),
        };
        if self.job.actor == Actor::Nic {
            return None;
        }
        Some(self.known(rank)?.words(self)?.word64(at))
    }

    /// Changes a control word and waits for its value from before.
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
            Control::Post(block, base) => self.job.post(|wire| wire.amo(block, base + at as u64, amo, &into, tally)),
            Control::Messages => {
                self.ask(target, 0, Request::Control { at: at as u64, amo }, Landing::One(into), tally)
            }
        }
    }
}

impl Words for Core {
    // SeqCst here, as what the net and messages do to these words: a lock orders whatever it separates.
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
        self.post_control(target, at, amo, Sink::NONE, &target.tally)
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

/// The window's words, of which the one of a target's lock was looked up.
struct Here<'c> {
    core: &'c Core,
    lock: &'c AtomicU64,
}

impl Words for Here<'_> {
    #[inline]
    fn add(&self, place: Place, delta: u64) -> Result<u64> {
        match place {
            // SeqCst here, and below, as above.
            Place::Target(_) => Ok(self.lock.fetch_add(delta, Ordering::SeqCst)),
            Place::Master => self.core.add(place, delta),
        }
    }

    #[inline]
    fn release(&self, place: Place, delta: u64) -> Result<()> {
        match place {
            Place::Target(_) => {
                self.lock.fetch_add(delta, Ordering::SeqCst);
                Ok(())
            }
            Place::Master => self.core.release(place, delta),
        }
    }

    #[inline]
    fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64> {
        match place {
            Place::Target(_) => {
                let swapped = self.lock.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
                Ok(swapped.unwrap_or_else(|found| found))
            }
            Place::Master => self.core.swap(place, expected, new),
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
