//! The epochs of a window at one rank: the word with the state of the epochs and the locks
//! ([`EpochWord`]), and the data that is kept from the opening of an epoch to its end.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::epoch::{self, Access, Call, EpochWord, Exposure};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Barriers;
use crate::sync::lock::Bias;

/// The group of `start`: inline while it has at most four members.
pub(super) type Group = SmallVec<[u32; 4]>;

/// The change of the epochs by a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    name: &'static str,
    call: Call,
    from: EpochWord,
    to: EpochWord,
}

/// The epochs and locks of a window, as this rank has opened them.
#[derive(Debug)]
pub(crate) struct EpochState {
    /// The state of the epochs and the locks: [`EpochWord`].
    word: AtomicU64,
    /// Whether synchronization calls come from one thread at a time. The epoch word then needs no
    /// atomic changes.
    serial: bool,
    /// The number of the last fence.
    pub(super) fences: Barriers,
    /// This process's guesses about the bias of targets.
    pub(super) bias: Bias,
    /// The number of threads that wait for an exclusive lock under an announcement that the epoch
    /// word counts.
    pub(super) waiting: AtomicU32,
    /// Whether `lock_all` is recorded in the master's word.
    pub(super) holds_all: AtomicBool,
    /// Whether `PROC_NULL` is locked. The lock counts in the epoch word.
    pub(super) holds_null: AtomicBool,
    /// The group of `start`, until `complete` takes it.
    started: Mutex<Option<Group>>,
    /// The number of origins of `post`.
    pub(super) origins: AtomicU32,
}

impl EpochState {
    /// The initial state, without open epochs, in a window of `ranks` ranks. `serial`:
    /// synchronization calls come from one thread at a time.
    pub(super) fn new(ranks: usize, serial: bool) -> EpochState {
        EpochState {
            word: AtomicU64::new(EpochWord::CLOSED.0),
            serial,
            fences: Barriers::default(),
            bias: Bias::new(ranks),
            waiting: AtomicU32::new(0),
            holds_all: AtomicBool::new(false),
            holds_null: AtomicBool::new(false),
            started: Mutex::default(),
            origins: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(super) fn state(&self) -> epoch::State {
        self.word().state()
    }

    /// The state of the epochs and the locks.
    #[inline]
    pub(super) fn word(&self) -> EpochWord {
        // Relaxed: orders only changes of the epoch word. A program that calls from several threads
        // orders those calls.
        EpochWord(self.word.load(Ordering::Relaxed))
    }

    /// Changes the epoch word from `from` to `to`. If another thread has changed the word before,
    /// returns the current word. In a serial window the word is stored without a comparison,
    /// because the program calls from one thread at a time.
    #[inline]
    pub(super) fn shift(&self, from: EpochWord, to: EpochWord) -> std::result::Result<(), EpochWord> {
        if self.serial {
            self.word.store(to.0, Ordering::Relaxed);
            return Ok(());
        }
        // AcqRel: a thread that sees the change sees the data written for it before: the group of
        // `start` or the origins of `post`.
        let changed = self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        changed.map(drop).map_err(EpochWord)
    }

    /// Changes the epoch word to the result of `to`, which is called again after a change by
    /// another thread. Returns the epoch word from before.
    pub(super) fn update(&self, to: impl Fn(EpochWord) -> Result<EpochWord>) -> Result<EpochWord> {
        let mut word = self.word();
        loop {
            match self.shift(word, to(word)?) {
                Ok(()) => return Ok(word),
                Err(found) => word = found,
            }
        }
    }

    /// The state after `call`, if the call is legal.
    // Inlined: with a known call, the compiler removes most of the state machine.
    #[inline]
    pub(crate) fn check(&self, name: &'static str, call: Call) -> Result<epoch::State> {
        after(self.word(), name, call).map(EpochWord::state)
    }

    /// The change of the epochs by `call`, if the call is legal now.
    #[inline]
    pub(super) fn change(&self, name: &'static str, call: Call) -> Result<Change> {
        let from = self.word();
        Ok(Change { name, call, from, to: after(from, name, call)? })
    }

    /// Makes a change. The caller has not waited since [`EpochState::change`].
    #[inline]
    pub(super) fn apply(&self, change: Change) -> Result<()> {
        match self.shift(change.from, change.to) {
            Ok(()) => Ok(()),
            // Another thread has changed the epochs meanwhile.
            Err(_) => self.step(change.name, change.call),
        }
    }

    /// Passes `call` through the epochs' state machine.
    #[inline]
    pub(crate) fn step(&self, name: &'static str, call: Call) -> Result<()> {
        self.update(|word| after(word, name, call)).map(drop)
    }

    /// Ends all epochs with the window.
    pub(super) fn freed(&self) {
        // Relaxed: no other call runs on a window that is being freed.
        self.word.store(EpochWord::of((Access::Freed, Exposure::Closed)).0, Ordering::Relaxed);
    }

    /// The group of `start`.
    pub(super) fn group_of_start(&self) -> MutexGuard<'_, Option<Group>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The epoch word after `call`, or the error of an illegal call.
#[inline]
pub(super) fn after(word: EpochWord, name: &'static str, call: Call) -> Result<EpochWord> {
    match epoch::after(word.state(), call) {
        Ok(state) => Ok(word.with(state)),
        Err(reason) => Err(misused(name, reason)),
    }
}

/// The error of a call in the wrong epoch, with the call's target unless that is `PROC_NULL`.
#[cold]
pub(super) fn at_target(error: Error, rank: usize) -> Error {
    if rank == crate::PROC_NULL { error } else { error.at_rank(rank) }
}

#[cold]
pub(super) fn misused(call: &'static str, reason: &'static str) -> Error {
    ErrorKind::Epoch { call, target: None, reason }.into()
}
