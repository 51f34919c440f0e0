//! Operations as ThreadSanitizer sees them (`sanitizer`). Each operation of this rank is a fiber.
//! The fiber is ordered after all that the calling thread has done, accesses the operation's
//! buffers, and ends when a thread completes the operation. The sanitizer then reports loads and
//! stores of the program that conflict with these accesses.
//!
//! An operation of another rank on this rank's window memory is reported to the sanitizer when this
//! rank learns that the operation is complete. The operation is ordered after all that this rank
//! did before its last release (`clock`) of which the origin knew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::Memory;

use super::clock::Clock;
use super::others::Others;
use super::releases::{By, Releases};
use super::rules::Kind;
use super::sanitizer::{Fiber, Mark, Sanitizer, Touched};
use super::shadow::{Access, LogEntry, Shadow};

/// Maximum number of fibers of a thread. Further operations in flight share the last one.
const MOST_FIBERS: usize = 256;
/// Maximum number of operations of other ranks that wait until this rank knows of them.
const MOST_WAITING: usize = 1 << 17;

/// The sanitizer of this process, with the fibers of operations.
#[derive(Debug)]
pub(super) struct Fibers {
    sanitizer: &'static Sanitizer,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// For each thread, the fibers of its operations, and the number of operations of each fiber.
    own: HashMap<usize, Vec<(Fiber, u32)>>,
    /// A fiber that is ordered after all releases of this rank so far.
    releasing: Fiber,
    /// The marks of this rank's releases.
    releases: Releases,
    /// The fibers of other ranks' operations, and a mark of those that this rank has learned of.
    others: Others,
    learned: Mark,
    /// Complete operations of other ranks of which this rank does not know yet. The key: the rank
    /// whose releases tell of the operation; a number of releases, and this rank knows of the
    /// operation once it knows more than so many; and a number that makes the key unique.
    waiting: BTreeMap<(usize, u64, u64), LoggedAccess>,
    /// Operations that are complete when the exposure epoch of this rank's part ends, which lasts.
    exposed: Vec<LoggedAccess>,
    /// Whether an exposure epoch has ended since these were compared with the ends of epochs.
    has_ended: bool,
    /// The number of operations that have waited; those that were forgotten, by window.
    waited: u64,
    forgotten: HashMap<u64, u64>,
    /// Memory that stands for the parts of windows on which this rank's threads operate, by window,
    /// member and number of the chunk. Each operation also accesses this memory, because only the
    /// sanitizer knows whether the operations of two threads are ordered.
    mirrors: HashMap<(u64, usize, u64), Memory>,
    /// A mark of all ends of memory that the library allocates for the program: the next owner of
    /// the memory comes after the last one, as with `malloc`.
    memory: Mark,
}

/// The bytes of a mirror's chunk.
const CHUNK: u64 = 1 << 16;

/// An operation in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    thread: usize,
    fiber: Fiber,
    mark: Mark,
    /// Whether some thread has completed the operation.
    over: bool,
}

/// Ranges of a member's part that an operation accesses.
#[derive(Debug)]
pub(super) struct Mirrored<'o> {
    pub(super) window: u64,
    pub(super) member: usize,
    pub(super) kind: Kind,
    /// The offset and the length of each range.
    pub(super) ranges: &'o [(u64, usize)],
}

impl Mirrored<'_> {
    /// The ranges cut at chunks: the key of the chunk, and the range within the chunk.
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
pub(super) struct LoggedAccess {
    pub(super) entry: LogEntry,
    pub(super) window: u64,
    pub(super) shadow: Memory,
    /// The part. `None` in a dynamic window, whose offsets are addresses.
    pub(super) memory: Option<Memory>,
}

impl LoggedAccess {
    /// The part or the attached memory with the bytes, which `exposed` finds, and their offset.
    /// `None` if they are detached.
    fn memory(&self, exposed: impl Fn(u64, usize, usize) -> Option<(Memory, usize)>) -> Option<(Memory, usize)> {
        let (at, len) = self.range();
        self.memory.clone().map_or_else(|| exposed(self.window, at, len), |memory| Some((memory, at)))
    }

    fn range(&self) -> (usize, usize) {
        let Access { start, end, .. } = self.entry.access;
        let [at, len] = [start, end - start].map(|it| usize::try_from(it).unwrap_or(0));
        (at, len)
    }

    fn touched<'m>(&self, memory: Option<&'m (Memory, usize)>) -> Touched<'m> {
        let ((address, len), kind) = (self.range(), self.entry.access.kind);
        match memory {
            Some((memory, at)) => Touched::Part { memory, at: *at, len, kind },
            None => Touched::Named { address, len, written: !kind.only_reads() },
        }
    }
}

impl Fibers {
    /// The fibers, if the program has the sanitizer.
    pub(super) fn of_process() -> Option<Fibers> {
        let sanitizer = Sanitizer::find()?;
        let state = State {
            own: HashMap::new(),
            releasing: sanitizer.fiber(),
            releases: Releases::new(),
            others: Others::new(sanitizer),
            learned: Mark::default(),
            waiting: BTreeMap::new(),
            exposed: Vec::new(),
            has_ended: false,
            waited: 0,
            forgotten: HashMap::new(),
            mirrors: HashMap::new(),
            memory: Mark::default(),
        };
        Some(Fibers { sanitizer, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread uses bytes: address, length, and whether they are written.
    pub(super) fn uses(&self, buffers: &[(usize, usize, bool)], place: usize) {
        // If a thread repeats an access before its next release, the sanitizer remembers the place
        // of the first one, which may be in the libraries of a program's MPI.
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
        sanitizer.name_fiber(fiber, name);
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

    /// Drops the data of a freed window. Returns how many operations on it were forgotten.
    pub(super) fn forget(&self, window: u64) -> u64 {
        let mut state = self.state();
        self.sanitizer.ignoring(|| state.mirrors.retain(|key, _| key.0 != window));
        state.forgotten.remove(&window).unwrap_or(0)
    }

    /// The calling thread makes release number `number` of this rank.
    pub(super) fn release(&self, number: u64, by: By) {
        let (sanitizer, mark) = (self.sanitizer, Mark::default());
        let mut state = self.state();
        sanitizer.release(&mark);
        // A later release by another thread also publishes this thread's accesses.
        sanitizer.on(state.releasing, || {
            sanitizer.acquire(&mark);
            sanitizer.release(&mark);
        });
        state.releases.add(number, mark, by);
    }

    /// The calling thread has done more that counts as done before release number `number`.
    pub(super) fn release_again(&self, number: u64) {
        let state = self.state();
        state.releases.from(number).for_each(|mark| self.sanitizer.release(mark));
    }

    /// The calling thread gets memory that the library has allocated, or gives it back.
    pub(super) fn memory(&self, begins: bool) {
        let state = self.state();
        if begins { self.sanitizer.acquire(&state.memory) } else { self.sanitizer.release(&state.memory) }
    }

    /// An exposure epoch of this rank has ended.
    pub(super) fn exposure_ended(&self) {
        self.state().has_ended = true;
    }

    /// Adds complete operations of other ranks about which this rank may not know yet. `ranks`: the
    /// number of ranks.
    pub(super) fn add_logged(&self, ranks: usize, accesses: Vec<LoggedAccess>) {
        let mut state = self.state();
        let has_ended = std::mem::take(&mut state.has_ended);
        let exposed = if has_ended { std::mem::take(&mut state.exposed) } else { Vec::new() };
        for one in exposed.into_iter().chain(accesses) {
            if state.waiting.len() + state.exposed.len() >= MOST_WAITING {
                *state.forgotten.entry(one.window).or_default() += 1;
                continue;
            }
            let Some((rank, releases)) = one.entry.completed_by(Shadow::of(&one.shadow, ranks)) else {
                state.exposed.push(one);
                continue;
            };
            let number = state.waited;
            state.waited += 1;
            state.waiting.insert((rank, releases, number), one);
        }
    }

    /// The calling thread has merged clocks of other ranks, with the result `clock`.
    /// `back`: the number of this rank's releases that those ranks knew of. `place` returns the
    /// place of the call, `name` the name of an operation, and `exposed` the attached memory of a
    /// window that has some bytes.
    pub(super) fn learn(
        &self,
        (clock, back): (&Clock, u64),
        place: impl FnOnce() -> usize,
        name: impl Fn(&LogEntry) -> String,
        exposed: impl Fn(u64, usize, usize) -> Option<(Memory, usize)>,
    ) {
        let sanitizer = self.sanitizer;
        let mut state = self.state();
        if let Some(mark) = state.releases.mark_of(back) {
            sanitizer.acquire(mark);
        }
        let mut known = state.known(clock);
        // Few operations then need a fiber of their own.
        known.sort_by_key(|one| one.entry.known);
        let place = if known.is_empty() { 0 } else { place() };
        let State { others, releases, learned, .. } = &mut *state;
        for one in &known {
            let (memory, number) = (one.memory(&exposed), one.entry.known);
            others.operate(sanitizer, number, &name(&one.entry), || {
                if let Some(mark) = releases.mark_of(number) {
                    sanitizer.acquire(mark);
                }
                sanitizer.access(one.touched(memory.as_ref()), place);
                sanitizer.release(learned);
            });
        }
        sanitizer.acquire(&state.learned);
    }
}

fn named<'b>(buffers: &'b [(usize, usize, bool)]) -> impl Iterator<Item = Touched<'static>> + 'b {
    buffers.iter().map(|&(address, len, written)| Touched::Named { address, len, written })
}

impl State {
    /// Removes and returns the waiting operations of which a clock tells.
    fn known(&mut self, clock: &Clock) -> Vec<LoggedAccess> {
        let mut known = Vec::new();
        for (rank, &releases) in clock.counts().iter().enumerate() {
            let keys: Vec<_> = self.waiting.range((rank, 0, 0)..(rank, releases, 0)).map(|(&key, _)| key).collect();
            known.extend(keys.iter().filter_map(|key| self.waiting.remove(key)));
        }
        known
    }

    /// A chunk of a mirror. The sanitizer forgets earlier accesses to its bytes.
    fn mirror(&mut self, sanitizer: &Sanitizer, key: (u64, usize, u64)) -> Memory {
        let new = || sanitizer.ignoring(|| Memory::private(usize::try_from(CHUNK).unwrap_or(0)));
        self.mirrors.entry(key).or_insert_with(new).clone()
    }

    /// A fiber for an operation of a thread: one without operations if possible.
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
