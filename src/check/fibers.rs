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
use super::rules::Kind;
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
    /// Memory that stands for the parts of windows on which this rank's threads operate: by window,
    /// member, and number of the chunk. Whether two threads are ordered only the sanitizer knows,
    /// so each operation is told to it there too.
    mirrors: HashMap<(u64, usize, u64), Memory>,
}

/// The bytes of a mirror's chunk.
const CHUNK: u64 = 1 << 16;

/// An operation in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    thread: usize,
    fiber: Fiber,
    mark: Mark,
    /// Whether some thread has completed it.
    over: bool,
}

/// Ranges of a member's part that an operation accesses.
#[derive(Debug)]
pub(super) struct Mirrored<'o> {
    pub(super) window: u64,
    pub(super) member: usize,
    pub(super) kind: Kind,
    /// Where each begins, and its length.
    pub(super) ranges: &'o [(u64, usize)],
}

impl Mirrored<'_> {
    /// The ranges by chunk: its key, and the range within it.
    fn pieces(&self) -> impl Iterator<Item = ((u64, usize, u64), (usize, usize))> {
        self.ranges.iter().flat_map(move |&(start, len)| {
            let end = start.saturating_add(len as u64);
            (start / CHUNK..end.div_ceil(CHUNK)).map(move |chunk| {
                let (first, last) = (start.max(chunk * CHUNK), end.min((chunk + 1).saturating_mul(CHUNK)));
                let [at, len] = [first % CHUNK, last - first].map(|it| usize::try_from(it).unwrap_or(0));
                ((self.window, self.member, chunk), (at, len))
            })
        })
    }
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
            mirrors: HashMap::new(),
        };
        Some(Fibers { sanitizer, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread uses bytes: address, length, and whether they are written.
    pub(super) fn uses(&self, buffers: &[(usize, usize, bool)], place: usize) {
        // The sanitizer remembers one place of an access that a thread repeats before its next
        // release; the host's libraries may have made it.
        self.sanitizer.release(&Mark::default());
        named(buffers).for_each(|one| self.sanitizer.access(one, place));
    }

    /// The calling thread has begun a call that uses bytes until it ends.
    pub(super) fn borrows(&self, name: &str, buffers: &[(usize, usize, bool)], place: usize) -> Flight {
        let uses: Vec<_> = named(buffers).collect();
        self.begin(name, &uses, &Mirrored { window: 0, member: 0, kind: Kind::Get, ranges: &[] }, place)
    }

    /// The calling thread has begun an operation. It also accesses the ranges of `mirrored`.
    pub(super) fn begin(&self, name: &str, uses: &[Touched<'_>], mirrored: &Mirrored<'_>, place: usize) -> Flight {
        let (sanitizer, thread, mark) = (self.sanitizer, self.sanitizer.thread(), Mark::default());
        let mut state = self.state();
        let fiber = state.fiber_of(sanitizer, thread);
        let pieces: Vec<_> = mirrored.pieces().map(|piece| (state.mirror(sanitizer, piece.0), piece.1)).collect();
        sanitizer.release(&mark);
        sanitizer.call(fiber, name);
        sanitizer.on(fiber, || {
            sanitizer.acquire(&mark);
            uses.iter().for_each(|&one| sanitizer.access(one, place));
            for (memory, (at, len)) in &pieces {
                sanitizer.access(Touched::Mirror { memory, at: *at, len: *len, kind: mirrored.kind }, place);
            }
            sanitizer.release(&mark);
        });
        Flight { thread, fiber, mark, over: false }
    }

    /// The calling thread knows that an operation is complete. Returns whether the thread that
    /// began the operation knows it too.
    pub(super) fn end(&self, flight: &mut Flight) -> bool {
        self.sanitizer.acquire(&flight.mark);
        if !std::mem::replace(&mut flight.over, true) {
            let mut state = self.state();
            let found = state.own.get_mut(&flight.thread);
            if let Some(fiber) = found.and_then(|own| own.iter_mut().find(|one| one.0 == flight.fiber)) {
                fiber.1 -= 1;
            }
        }
        flight.thread == self.sanitizer.thread()
    }

    /// Whether another thread has completed an operation of the calling one.
    pub(super) fn was_ended(&self, flight: &Flight) -> bool {
        flight.over && flight.thread == self.sanitizer.thread()
    }

    /// A window has ended.
    pub(super) fn forget(&self, window: u64) {
        let mut state = self.state();
        self.sanitizer.ignoring(|| state.mirrors.retain(|key, _| key.0 != window));
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
    /// operation. The clock came with that many releases of this rank, which other ranks knew.
    pub(super) fn learn(
        &self,
        (clock, back): (&Clock, u64),
        place: impl FnOnce() -> usize,
        name: impl Fn(&Told) -> String,
    ) {
        let sanitizer = self.sanitizer;
        let mut state = self.state();
        if let Some((_, mark)) = state.releases.range(..=back).next_back() {
            sanitizer.acquire(mark);
        }
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

fn named<'b>(buffers: &'b [(usize, usize, bool)]) -> impl Iterator<Item = Touched<'static>> + 'b {
    buffers.iter().map(|&(address, len, written)| Touched::Named { address, len, written })
}

impl State {
    /// A chunk of a mirror. What the sanitizer knew of its bytes before is forgotten.
    fn mirror(&mut self, sanitizer: &Sanitizer, key: (u64, usize, u64)) -> Memory {
        let new = || sanitizer.ignoring(|| Memory::private(usize::try_from(CHUNK).unwrap_or(0)));
        self.mirrors.entry(key).or_insert_with(new).clone()
    }

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
