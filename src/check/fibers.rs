//! Operations as ThreadSanitizer sees them (`sanitizer`). Each is a fiber that begins behind what
//! the calling thread has done, uses the operation's buffers, and ends when a thread completes the
//! operation. The sanitizer then finds loads and stores of the program in between.
//!
//! What other ranks do to this rank's window memory is told when this rank learns that it is
//! complete: it is ordered behind what this rank had done before the last of its releases that the
//! origin knew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::Memory;

use super::clock::Clock;
use super::sanitizer::{Fiber, Mark, Sanitizer, Touched};
use super::shadow::{Access, Told};

/// The most fibers of a thread. Further operations in flight share the last.
const MOST_FIBERS: usize = 32;
/// The most releases that are told apart. Older ones count as the oldest of these.
const MOST_RELEASES: usize = 4096;

/// The sanitizer of this process, with the fibers of this rank's operations and of the others'.
#[derive(Debug)]
pub(super) struct Fibers {
    sanitizer: &'static Sanitizer,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The fibers of each thread's operations, and how many operations each has.
    own: HashMap<usize, Vec<(Fiber, u32)>>,
    /// The fiber that knows of all releases of this rank so far.
    releasing: Fiber,
    /// What the threads of this rank had done before each of its releases, by its number.
    releases: BTreeMap<u64, Mark>,
    /// The fiber of the other ranks' operations, and those of them that this rank has learned of.
    others: Fiber,
    learned: Mark,
    /// Complete operations of others that this rank has not learned of.
    waiting: Vec<Heard>,
}

/// An operation in flight.
#[derive(Debug)]
pub(super) struct Flight {
    thread: usize,
    fiber: Fiber,
    mark: Mark,
}

/// A complete operation on a part of this rank.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) told: Told,
    /// The part. `None` in a dynamic window, whose offsets are addresses.
    pub(super) memory: Option<Memory>,
}

impl Heard {
    fn touched(&self) -> Touched<'_> {
        let Access { start, end, kind, .. } = self.told.access;
        let [at, len] = [start, end - start].map(|it| usize::try_from(it).unwrap_or(0));
        match &self.memory {
            Some(memory) => Touched::Part { memory, at, len, kind },
            None => Touched::Named { address: at, len, written: !kind.only_reads() },
        }
    }
}

impl Fibers {
    /// The fibers, if the program has the sanitizer.
    pub(super) fn of_process() -> Option<Fibers> {
        let sanitizer = Sanitizer::find()?;
        let (releasing, others) = (sanitizer.fiber(), sanitizer.fiber());
        let state = State {
            own: HashMap::new(),
            releasing,
            releases: BTreeMap::new(),
            others,
            learned: Mark::default(),
            waiting: Vec::new(),
        };
        Some(Fibers { sanitizer, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread has begun an operation.
    pub(super) fn begin(&self, name: &str, uses: &[Touched<'_>], place: usize) -> Flight {
        let (sanitizer, thread, mark) = (self.sanitizer, self.sanitizer.thread(), Mark::default());
        let mut state = self.state();
        let fiber = state.fiber_of(sanitizer, thread);
        sanitizer.release(&mark);
        sanitizer.call(fiber, name);
        sanitizer.on(fiber, || {
            sanitizer.acquire(&mark);
            uses.iter().for_each(|&one| sanitizer.access(one, place));
            sanitizer.release(&mark);
        });
        Flight { thread, fiber, mark }
    }

    /// The calling thread knows that an operation is complete.
    pub(super) fn end(&self, flight: &Flight) {
        self.sanitizer.acquire(&flight.mark);
        let mut state = self.state();
        let found = state.own.get_mut(&flight.thread);
        if let Some(fiber) = found.and_then(|own| own.iter_mut().find(|one| one.0 == flight.fiber)) {
            fiber.1 -= 1;
        }
    }

    /// The calling thread makes this rank's release of that number.
    pub(super) fn release(&self, number: u64) {
        let (sanitizer, mark) = (self.sanitizer, Mark::default());
        let mut state = self.state();
        sanitizer.release(&mark);
        // A later release of another thread comes with what this one has done.
        sanitizer.on(state.releasing, || {
            sanitizer.acquire(&mark);
            sanitizer.release(&mark);
        });
        state.releases.insert(number, mark);
        if state.releases.len() > MOST_RELEASES {
            state.releases.pop_first();
        }
    }

    /// Complete operations on this rank's memory, of which it may not have learned.
    pub(super) fn hear(&self, heard: impl IntoIterator<Item = Heard>) {
        self.state().waiting.extend(heard);
    }

    /// The calling thread has learned what `clock` says. `place` is where, and `name` names an
    /// operation.
    pub(super) fn learn(&self, clock: &Clock, place: impl FnOnce() -> usize, name: impl Fn(&Told) -> String) {
        let sanitizer = self.sanitizer;
        let mut state = self.state();
        let is_known = |one: &Heard| clock.of(one.told.access.origin) > one.told.done;
        let (mut known, waiting): (Vec<_>, Vec<_>) = state.waiting.drain(..).partition(is_known);
        state.waiting = waiting;
        // The fiber learns of the releases in their order.
        known.sort_by_key(|one| one.told.known);
        let place = if known.is_empty() { 0 } else { place() };
        for one in &known {
            sanitizer.call(state.others, &name(&one.told));
            sanitizer.on(state.others, || {
                let last = state.releases.range(..=one.told.known).next_back();
                let oldest = || state.releases.first_key_value().filter(|_| one.told.known > 0);
                if let Some((_, mark)) = last.or_else(oldest) {
                    sanitizer.acquire(mark);
                }
                sanitizer.access(one.touched(), place);
                sanitizer.release(&state.learned);
            });
        }
        sanitizer.acquire(&state.learned);
    }
}

impl State {
    /// A fiber for an operation of a thread: one without operations, if there may be one.
    fn fiber_of(&mut self, sanitizer: &Sanitizer, thread: usize) -> Fiber {
        let own = self.own.entry(thread).or_default();
        let free = own.iter().position(|one| one.1 == 0);
        if free.is_none() && own.len() < MOST_FIBERS {
            own.push((sanitizer.fiber(), 0));
        }
        let at = free.unwrap_or(own.len() - 1);
        own[at].1 += 1;
        own[at].0
    }
}
