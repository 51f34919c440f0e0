//! The target's side of notified operations: this rank's counters, which notified operations of all
//! ranks increment. The words of a counter only grow. The counter's value is their sum minus its
//! *zero*, which only this rank stores, so that a reset changes no word to which other ranks add.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::core::Core;
use super::element::RmaElem;
use super::notify::{Counters, freed};
use super::parts::Parts;
use super::request::Request;
use super::thresholds::Threshold;
use super::typed::Window;
use crate::error::{ArgumentError, Class, Error, ErrorKind, Result};
use crate::sync::counters::{self, Words};

/// The number of polls of counters between two checks for dead ranks.
const POLLS: u32 = 32;

/// The name of the waiting calls in errors and reports.
const WAIT: &str = "wait for a notice";

/// The index of the counter that a notified operation increments at its target: from 0 to one less
/// than the number that the target passed to [`Window::set_num_notify`]. The methods of [`Notices`]
/// take the index as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice(pub usize);

/// The counters of this rank, which notified operations of all ranks increment. [`Window::notices`]
/// returns them. A rank that reads a counter's value also sees the data of the counted operations.
///
/// ```
/// use transom::{Notice, Window};
///
/// let world = transom::init()?;
/// let win = Window::<u64>::allocate(&world, 1)?;
/// win.set_num_notify(1)?;
/// let next = (world.rank() + 1) % world.size();
/// win.lock_all(|epoch| {
///     epoch.put_notify(next, 0, &[7], Notice(0))?;
///     win.notices().wait(0, 1)
/// })?;
/// let mut came = [0];
/// win.load(0, &mut came)?;
/// assert_eq!(came, [7]);
/// win.free()?;
/// # Ok::<(), transom::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Notices<'w> {
    core: &'w Arc<Core>,
}

impl<'w> Notices<'w> {
    pub(super) fn of(core: &'w Arc<Core>) -> Notices<'w> {
        Notices { core }
    }

    /// The counter's value (`MPI_Win_get_notify_value`). Makes progress and does not wait.
    ///
    /// # Errors
    /// `RmaNotification` for a counter that this rank does not have; `Other` if a rank has died.
    pub fn value(&self, index: usize) -> Result<u64> {
        let value = self.polled(index, 1)?;
        self.core.parts.notices_read(index, value)?;
        Ok(value)
    }

    /// The counter's value. Checks for dead ranks if the value is below `awaited`.
    fn polled(&self, index: usize, awaited: u64) -> Result<u64> {
        let counters = self.core.parts.own_counters("get_notify_value", index)?;
        self.core.parts.job.progress.settle()?;
        let value = counters.value(index);
        self.core.parts.look_for_deaths(counters, value < awaited)?;
        Ok(value)
    }

    /// Sets the counter to zero and returns its previous value, in one atomic step
    /// (`MPI_Win_reset_notify_value`).
    ///
    /// # Errors
    /// As for [`Notices::value`].
    pub fn reset(&self, index: usize) -> Result<u64> {
        let counters = self.core.parts.own_counters("reset_notify_value", index)?;
        self.core.parts.job.progress.settle()?;
        let value = counters.thresholds.reset(index, || counters.take(index));
        self.core.parts.wake_waiting(counters);
        self.core.parts.look_for_deaths(counters, value == 0)?;
        // The notices that the value counted are now those before the reset.
        self.core.parts.notices_read(index, 0)?;
        Ok(value)
    }

    /// Waits until the counter has reached `value`. The counter does not change.
    ///
    /// # Errors
    /// As for [`Notices::value`]; `RmaNotification` also if another thread's `set_num_notify`
    /// removes the counter meanwhile.
    pub fn wait(&self, index: usize, value: u64) -> Result<()> {
        let parts = &self.core.parts;
        let counters = parts.own_counters(WAIT, index)?;
        parts.await_counter(counters, index, value)?;
        parts.notices_read(index, value)
    }

    /// Whether the counter has reached `value`. Makes progress and does not wait.
    ///
    /// # Errors
    /// As for [`Notices::value`].
    pub fn try_wait(&self, index: usize, value: u64) -> Result<bool> {
        let is_reached = self.polled(index, value)? >= value;
        if is_reached {
            self.core.parts.notices_read(index, value)?;
        }
        Ok(is_reached)
    }

    /// Waits until one of several counters has reached its value. Each pair in `awaited` has the
    /// index of a counter and the value to wait for. The result is the index in `awaited` of the
    /// first pair whose counter has reached the value.
    ///
    /// # Errors
    /// As for [`Notices::wait`]; `Arg` if `awaited` is empty.
    pub fn wait_any(&self, awaited: &[(usize, u64)]) -> Result<usize> {
        const CALL: &str = "wait for any notice";
        let parts = &self.core.parts;
        let Some(&(first, _)) = awaited.first() else {
            return Err(Error::argument(Class::Arg, CALL, ArgumentError::NoCounters));
        };
        let counters = parts.own_counters(CALL, first)?;
        for &(index, _) in awaited {
            parts.own_counters(CALL, index)?;
        }
        let found = Cell::new((0, true));
        let is_over = || {
            let reached = awaited.iter().position(|&(index, value)| counters.value(index) >= value);
            let place = reached.or_else(|| {
                let number = counters.own_number();
                awaited.iter().position(|&(index, _)| index >= number)
            });
            place.map(|place| found.set((place, reached.is_some()))).is_some()
        };
        parts.waits(WAIT, None, || parts.job.progress.until_counted(counters.change_silently(), is_over))?;
        let (place, is_reached) = found.get();
        let (index, value) = awaited[place];
        if !is_reached {
            return Err(parts.no_counter(CALL, index));
        }
        parts.notices_read(index, value)?;
        Ok(place)
    }

    /// A request that is complete when the counter has reached `value`
    /// (`MPI_Win_notify_threshold`). It stays complete if the counter is reset before the request
    /// is tested. If `set_num_notify` removes the counter before, the request fails with
    /// `RmaNotification`. If the window is freed before, the request fails with `RmaSync`.
    ///
    /// # Errors
    /// As for [`Notices::value`]; `RmaSync` if the window was freed.
    pub fn request(&self, index: usize, value: u64) -> Result<Request> {
        const CALL: &str = "notify_threshold";
        if self.core.is_freed() {
            return Err(freed(CALL));
        }
        let counters = self.core.parts.own_counters(CALL, index)?;
        Ok(Request::awaiting(self.core, counters.thresholds.add(index, value)))
    }
}

impl<T: RmaElem> Window<T> {
    /// Sets the number of this rank's counters, at most 4096, and zeroes all counters of the window
    /// (`MPI_Win_set_num_notify` of the MPI Forum's draft of RMA notification). Collective; the
    /// numbers may differ between ranks.
    ///
    /// # Errors
    /// `Arg` at a rank whose number is too large, and then `Other` at the other ranks. If a rank
    /// can't make its counters, all ranks get an error. After an error the counters of all ranks
    /// are unchanged.
    pub fn set_num_notify(&self, number: usize) -> Result<()> {
        self.core.set_num_notify(number)
    }

    /// The number of counters of `rank` (`MPI_Win_get_num_notify`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn num_notify(&self, rank: usize) -> Result<usize> {
        self.core.parts.num_notify(rank)
    }

    /// This rank's counters.
    pub fn notices(&self) -> Notices<'_> {
        Notices::of(&self.core)
    }
}

/// One of this rank's counters.
#[derive(Clone, Copy)]
struct Counter<'c> {
    zero: &'c AtomicU64,
    words: Words<'c>,
}

impl Counter<'_> {
    /// The value since the counter was zeroed last.
    #[inline]
    fn value(self) -> u64 {
        // Acquire: the words are read after the zero, so that their sum is at least the zero.
        let mut zero = self.zero.load(Ordering::Acquire);
        loop {
            let sum = self.words.sum();
            // The sum acquires, so the zero is read again after it. A reset in between has changed
            // the zero, which only grows: the difference would be no value of the counter.
            let again = self.zero.load(Ordering::Acquire);
            if again == zero {
                return sum.wrapping_sub(zero);
            }
            zero = again;
        }
    }
}

impl Counters {
    /// A counter's value since it was zeroed last.
    pub(super) fn value(&self, index: usize) -> u64 {
        self.counter(index).value()
    }

    /// The number of this rank's counters.
    fn own_number(&self) -> usize {
        counters::number(&self.parts.own.memory)
    }

    #[inline]
    fn counter(&self, index: usize) -> Counter<'_> {
        Counter { zero: &self.zeros[index], words: Words::of(&self.parts.own.memory, index) }
    }

    /// Zeroes a counter and returns its value.
    fn take(&self, index: usize) -> u64 {
        loop {
            let zero = self.zeros[index].load(Ordering::Acquire);
            let sum = counters::sum(&self.parts.own.memory, index);
            // Release: pairs with the Acquire in `value`. A thread that reads this zero reads a sum
            // that is at least this zero.
            if self.zeros[index].compare_exchange(zero, sum, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return sum.wrapping_sub(zero);
            }
        }
    }
}

impl Parts {
    /// The counters, if this rank has one of that index.
    fn own_counters(&self, call: &'static str, index: usize) -> Result<&Counters> {
        match self.counters.get() {
            Some(counters) if index < counters.own_number() => Ok(counters),
            _ => Err(self.no_counter(call, index)),
        }
    }

    /// The error of a call for a counter that this rank does not have.
    #[cold]
    fn no_counter(&self, call: &'static str, index: usize) -> Error {
        let number = self.counters.get().map_or(0, |counters| counters.own_number());
        ErrorKind::Notification { call, rank: self.team.me, index, number }.into()
    }

    /// Whether the wait for a threshold is over.
    pub(super) fn is_past(&self, threshold: &Threshold) -> bool {
        if threshold.has_ended() {
            return true;
        }
        let reached = self.counters.get().is_some_and(|counters| counters.value(threshold.index) >= threshold.value);
        if reached {
            threshold.reach();
        }
        reached
    }

    pub(super) fn await_threshold(&self, threshold: &Threshold) -> Result<()> {
        let silently = self.counters.get().is_some_and(|counters| counters.change_silently());
        self.waits(WAIT, None, || self.job.progress.until_counted(silently, || self.is_past(threshold)))?;
        if threshold.is_freed() {
            return Err(freed(WAIT));
        }
        if threshold.is_removed() {
            return Err(self.no_counter(WAIT, threshold.index));
        }
        let value = if threshold.is_before_reset() { 0 } else { threshold.value };
        self.notices_read(threshold.index, value)
    }

    /// Wakes threads of this rank that wait for a threshold, after a reset that may have ended it.
    pub(super) fn wake_waiting(&self, counters: &Counters) {
        if counters.thresholds.may_wait() {
            self.wake_rank(self.team.me);
        }
    }

    /// Ends the requests that wait for this rank's counters, because the window is freed.
    pub(super) fn end_thresholds(&self) {
        if let Some(counters) = self.counters.get() {
            counters.thresholds.free(|index| counters.value(index));
            self.wake_waiting(counters);
        }
    }

    /// Fails if a rank has died. Checks at every call if `in_vain`: the program polls a counter
    /// that has not reached its value. Otherwise checks at every [`POLLS`]th call, since the
    /// program may wait for a higher value.
    fn look_for_deaths(&self, counters: &Counters, in_vain: bool) -> Result<()> {
        // Relaxed: the count only distributes the checks.
        if in_vain || counters.polls.fetch_add(1, Ordering::Relaxed).is_multiple_of(POLLS) {
            self.job.progress.look()?;
        }
        Ok(())
    }

    /// Waits until a counter has reached a value. Fails if the counter is removed before.
    fn await_counter(&self, counters: &Counters, index: usize, value: u64) -> Result<()> {
        let counter = counters.counter(index);
        let is_removed = Cell::new(false);
        let is_over = || {
            counter.value() >= value || {
                is_removed.set(index >= counters.own_number());
                is_removed.get()
            }
        };
        self.waits(WAIT, None, || self.job.progress.until_counted(counters.change_silently(), is_over))?;
        if is_removed.get() { Err(self.no_counter(WAIT, index)) } else { Ok(()) }
    }
}
