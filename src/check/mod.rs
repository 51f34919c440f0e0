//! The conflict checker (`TRANSOM_CHECK`): finds accesses to the same bytes that no synchronization
//! orders. Each rank has a vector clock, which every synchronization of the library passes on. Each
//! part of a window has a shadow: records of the last accesses, in memory that the ranks of the
//! node share. A rank compares each of its accesses with the records that overlap it and that this
//! rank does not know to be complete. Knows a window by its number, and the job by its ranks and
//! its job block.

mod area;
mod clock;
mod collective_clocks;
#[allow(unsafe_code)]
mod exclusive;
mod fibers;
mod lent;
mod message_clocks;
mod misuse;
mod notices;
mod object;
mod others;
mod place;
mod polled;
mod receives;
mod releases;
mod releasing;
mod report;
mod rules;
mod runs;
#[allow(unsafe_code)]
mod sanitizer;
mod shadow;
#[allow(unsafe_code)]
mod stack;
mod waits;

use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transom_fabric::{Memory, diagnostics};

use crate::environment::Check;

pub(crate) use area::{Area, bytes as area_bytes};
use clock::Knows;
pub(crate) use clock::{Clock, Shown, Slot};
use exclusive::Exclusive;
pub(crate) use exclusive::Holder;
pub(crate) use fibers::Flight;
pub use lent::PartUse;
pub(crate) use lent::{BufferUse, Loan, OperationAccesses, PartUses};
pub use message_clocks::Sending;
pub(crate) use message_clocks::Stream;
pub(crate) use misuse::{Caller, Misuse, Promise, on_bytes};
pub(crate) use notices::{NoticeClocks, bytes as notice_bytes};
pub(crate) use place::Place;
pub(crate) use receives::Matching;
pub(crate) use report::{Conflict, Report, Side};
pub(crate) use rules::{Call, Kind, Rule};
pub(crate) use shadow::{
    Access, At, Clash, Ends, HeldLock, Locked, LogEntry, Paired, PairedCall, Record, Shadow, WordAccess,
    bytes as shadow_bytes,
};
pub(crate) use waits::{Awaited, Held, Wait};

/// A function that a thread calls before the checker learns that the thread's operations are
/// complete. Meanwhile other threads make calls that are not ordered with the completion, so that
/// the checker finds their conflicts.
static PAUSE: OnceLock<fn()> = OnceLock::new();

/// Sets [`PAUSE`].
pub(crate) fn pause_by(pause: fn()) {
    PAUSE.get_or_init(|| pause);
}

/// See [`PAUSE`].
pub(crate) fn pause() {
    if let Some(pause) = PAUSE.get() {
        pause();
    }
}

/// A function that gets the buffers of an operation: address, length, and whether the operation
/// writes them. Returns the uses of window memory, which end with the loans of the buffers.
pub(crate) type ShowBuffers = fn(&[(usize, usize, bool)]) -> Vec<PartUse>;

/// A function of another library, which knows whether buffers are memory of shared windows.
static BUFFERS: OnceLock<ShowBuffers> = OnceLock::new();

/// Sets [`BUFFERS`].
pub(crate) fn show_buffers_to(show: ShowBuffers) {
    BUFFERS.get_or_init(|| show);
}

/// See [`BUFFERS`].
pub(crate) fn show_buffers(buffers: &[(usize, usize, bool)]) -> Vec<PartUse> {
    BUFFERS.get().map_or(Vec::new(), |show| show(buffers))
}

/// Maximum number of reports of a job.
const MOST_REPORTS: u64 = 100;

/// Whether the program has ThreadSanitizer.
pub(crate) fn has_sanitizer() -> bool {
    sanitizer::Sanitizer::find().is_some()
}

/// The checker at one rank.
#[derive(Debug)]
pub(crate) struct Checker {
    rank: usize,
    ranks: usize,
    /// The job block, and the offset of the checker's area in it, which is equal at all ranks.
    block: Memory,
    base: usize,
    clock: Exclusive<Clock>,
    known: Known,
    /// The messages that calls are sending.
    sends: message_clocks::Sends,
    places: place::Places,
    lent: lent::Buffers,
    /// The memory of this rank that belongs to windows.
    exposed: Mutex<Vec<Exposed>>,
    /// The parts of this rank, and the fibers that stand for operations, if the program has
    /// ThreadSanitizer.
    parts: Mutex<Vec<Part>>,
    fibers: Option<fibers::Fibers>,
    /// See [`Checker::sees_atomics`].
    atomics: AtomicBool,
    /// The state of this rank's waiting calls.
    shown: Mutex<waits::WaitingCalls>,
    output: Output,
}

/// What a rank knows, beside its clock.
#[derive(Debug)]
struct Known {
    /// The counts of the clock when it last learned.
    counts: Shown,
    /// The parts that this rank may have read since its last access or release.
    polled: polled::Polled,
    /// See [`Checker::has_done`].
    news: AtomicBool,
}

impl Known {
    /// What `rank` knows at the start of a job.
    fn new(rank: usize, ranks: usize) -> Known {
        Known { counts: Shown::new(rank, ranks), polled: polled::Polled::default(), news: AtomicBool::new(true) }
    }
}

/// What happens to reports, besides their printing.
#[derive(Debug)]
struct Output {
    /// The file that gets them too.
    file: Option<PathBuf>,
    /// Texts of places whose conflicts are not reported.
    suppressed: Vec<String>,
}

/// Memory of a window, by address.
#[derive(Debug)]
struct Exposed {
    window: u64,
    /// The shadow of the part, and the address of its first byte.
    shadow: Memory,
    base: u64,
    range: Range<u64>,
    memory: Memory,
}

/// A part of this rank whose loads and stores ThreadSanitizer sees.
#[derive(Debug)]
struct Part {
    window: u64,
    shadow: Memory,
    /// The memory that loads and stores access. `None` in a dynamic window.
    memory: Option<Memory>,
}

impl Checker {
    /// The checker of a rank among a number of ranks. `base`: the offset of its area in the job
    /// block. `watches`: each rank's program has ThreadSanitizer.
    pub(crate) fn new(
        (rank, ranks): (usize, usize),
        (block, base): (&Memory, usize),
        watches: bool,
        settings: &Check,
    ) -> Checker {
        let Check { report: file, suppressed, patience, .. } = settings.clone();
        let (block, clock) = (block.clone(), Exclusive::new(Clock::new(ranks)));
        Area::at(&block, base, ranks).prepare(rank);
        let watcher = patience.filter(|_| rank == 0).and_then(|patience| {
            let (base, file) = (Area::at(&block, base, ranks).waits().base, file.clone());
            waits::Watcher::start((block.clone(), base, ranks), patience, move |text, json| {
                diagnostics::print_requested(text);
                append(file.as_deref(), json);
            })
        });
        Checker {
            rank,
            ranks,
            block,
            base,
            clock,
            known: Known::new(rank, ranks),
            sends: message_clocks::Sends::default(),
            places: place::Places::new(),
            lent: lent::Buffers::new(),
            exposed: Mutex::default(),
            parts: Mutex::default(),
            fibers: if watches { fibers::Fibers::of_process() } else { None },
            atomics: AtomicBool::new(false),
            shown: Mutex::new(waits::WaitingCalls::new(watcher)),
            output: Output { file, suppressed },
        }
    }

    /// The area in the job block of a rank.
    pub(crate) fn area<'m>(&self, block: &'m Memory) -> Area<'m> {
        Area::at(block, self.base, self.ranks)
    }

    /// This rank's area.
    pub(crate) fn own(&self) -> Area<'_> {
        self.area(&self.block)
    }

    /// The clock of this rank.
    #[inline]
    pub(crate) fn clock(&self) -> Holder<'_, Clock> {
        self.clock.lock()
    }

    /// Releases this rank's clock with a message of another library, which a call begins to send.
    /// `None`: the message has no clock.
    pub(crate) fn sends(&self, stream: Stream) -> Option<Sending> {
        let clock = self.release();
        self.own().message_clocks().send(stream, &clock, &self.sends)
    }

    /// The call that sends the message has returned.
    pub(crate) fn has_sent(&self, sending: Sending) {
        self.sends.end(sending);
    }

    /// The exposure epoch of this rank's part ends: the operations of its origins are complete.
    pub(crate) fn end_exposure(&self, part: Shadow<'_>) {
        // Another thread may make this release before. All operations of the epoch are complete
        // then too.
        part.end_exposure(self.released() + 1);
        if let Some(fibers) = &self.fibers {
            fibers.exposure_ended();
        }
        drop(self.release());
    }

    /// Changes the clock by `learn`. `text` gives the text of a place of another rank. `back`: the
    /// number of this rank's releases of which the other ranks knew; `None`: what `learn` tells of
    /// this rank.
    #[inline]
    pub(crate) fn learn(
        &self,
        learn: impl FnOnce(&mut Clock),
        back: Option<u64>,
        text: impl Fn(usize, u32) -> Option<String>,
    ) {
        let mut clock = self.clock();
        let Some(fibers) = &self.fibers else {
            learn(&mut clock);
            self.show(&clock);
            return;
        };
        let mut news = Clock::new(self.ranks);
        learn(&mut news);
        clock.merge(&news);
        clock.store(self.own().known());
        let known = clock.clone();
        drop(clock);
        let back = back.unwrap_or(news.of(self.rank));
        self.show_news(fibers, (&known, back), text);
    }

    /// Shows the counts of the clock to this rank's threads and to the other ranks.
    fn show(&self, clock: &Clock) {
        self.known.counts.show(clock);
        clock.store(self.own().known());
    }

    /// Whether this rank may learn something by [`Checker::knows_now`].
    pub(crate) fn lacks(&self, rank: usize, area: Area<'_>) -> bool {
        // Relaxed: `knows_now` reads the counts again.
        let releases = area.releases().load(Ordering::Relaxed);
        self.known.counts.of(rank) < releases || self.is_news(area.known().words(self.ranks))
    }

    /// The clock of another rank, whose area this is: all that it has released, and all that it
    /// knows.
    pub(crate) fn knows_now(&self, rank: usize, area: Area<'_>) -> Clock {
        let mut clock = Clock::new(self.ranks);
        // Acquire: pairs with the Release of the rank. Before the rest, which the rank knew when it
        // made this release.
        clock.learn_of(rank, area.releases().load(Ordering::Acquire));
        clock.learn(area.known());
        clock
    }

    /// The counts of the clock, without its lock.
    #[inline]
    pub(crate) fn known(&self) -> &Shown {
        &self.known.counts
    }

    /// Whether [`Checker::learn`] may learn something from the words of a slot. Takes no lock.
    #[inline]
    pub(crate) fn is_news(&self, words: &[AtomicU64]) -> bool {
        self.fibers.is_some() || self.known.counts.lacks(words)
    }

    /// Reports to ThreadSanitizer that this rank's clock is now `known`. `back`: as for
    /// [`Checker::learn`].
    #[cold]
    fn show_news(
        &self,
        fibers: &fibers::Fibers,
        (known, back): (&Clock, u64),
        text: impl Fn(usize, u32) -> Option<String>,
    ) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        fibers.add_logged(self.ranks, parts.iter().flat_map(|part| part.logged(self.ranks)).collect());
        let name = |LogEntry { access, .. }: &LogEntry| {
            let place = text(access.origin, access.place).unwrap_or_default();
            format!("{} of rank {}, {place}", access.kind, access.origin)
        };
        let exposed = |window, start, len| self.exposed(window, start, len);
        fibers.learn((known, back), || self.place().address, name, exposed);
    }

    /// Watches loads and stores of a part, if the program has ThreadSanitizer. `memory`: the memory
    /// that they access; `None` in a dynamic window.
    pub(crate) fn watch(&self, window: u64, shadow: &Memory, memory: Option<Memory>) {
        if self.fibers.is_some() {
            let part = Part { window, shadow: shadow.clone(), memory };
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
        }
    }

    /// A window gets memory. `base`: the address of the first byte of its part.
    pub(crate) fn expose(&self, window: u64, shadow: &Memory, base: u64, memory: &Memory) {
        let start = memory.as_ptr().addr() as u64;
        let range = start..start + memory.len() as u64;
        let mut exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Exposed { window, shadow: shadow.clone(), base, range, memory: memory.clone() };
        let overlaps = |other: &&Exposed| {
            other.window != window && other.range.start < new.range.end && new.range.start < other.range.end
        };
        for other in exposed.iter().filter(overlaps) {
            Shadow::of(&other.shadow, self.ranks).share(other.base);
            Shadow::of(&new.shadow, self.ranks).share(new.base);
        }
        exposed.push(new);
    }

    /// A window loses the memory that begins at an address.
    pub(crate) fn conceal(&self, window: u64, start: u64) {
        let mut exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
        exposed.retain(|one| one.window != window || one.range.start != start);
    }

    /// The memory of a window that has the bytes at an address, and their offset there.
    pub(crate) fn exposed(&self, window: u64, start: usize, len: usize) -> Option<(Memory, usize)> {
        let exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (start as u64, (start as u64).saturating_add(len as u64));
        let has = |one: &&Exposed| one.window == window && one.range.start <= start && end <= one.range.end;
        let one = exposed.iter().find(has)?;
        Some((one.memory.clone(), usize::try_from(start - one.range.start).ok()?))
    }

    /// Ends [`Checker::watch`] and [`Checker::expose`]. Returns how many operations on the window
    /// were forgotten, whose conflicts with loads and stores are not reported.
    pub(crate) fn unwatch(&self, window: u64) -> u64 {
        self.exposed.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| one.window != window);
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).retain(|part| part.window != window);
        self.fibers.as_ref().map_or(0, |fibers| fibers.forget(window))
    }

    /// The program's thread gets memory that the library has allocated, or gives it back.
    pub(crate) fn memory(&self, begins: bool) {
        if let Some(fibers) = &self.fibers {
            fibers.memory(begins);
        }
    }

    /// Whether the programs of all ranks have ThreadSanitizer.
    pub(crate) fn watches(&self) -> bool {
        self.fibers.is_some()
    }

    /// Reports to ThreadSanitizer that a call of another library accesses buffers: address, length,
    /// and whether the bytes are written.
    pub(crate) fn uses(&self, buffers: &[(usize, usize, bool)]) {
        if let Some(fibers) = &self.fibers {
            fibers.uses(buffers, self.place().address);
        }
    }

    /// [`Checker::uses`] for accesses that last until [`Checker::returns`].
    pub(crate) fn borrows(&self, name: &str, buffers: &[(usize, usize, bool)]) -> Option<Flight> {
        let fibers = self.fibers.as_ref().filter(|_| !buffers.is_empty())?;
        Some(fibers.borrows(name, buffers, self.place().address))
    }

    /// See [`Checker::borrows`].
    pub(crate) fn returns(&self, mut flight: Flight) {
        if let Some(fibers) = &self.fibers {
            fibers.end(&mut flight);
        }
    }

    /// The place of the program that has called the library.
    pub(crate) fn place(&self) -> Place {
        self.places.here(self.own(), 0)
    }

    /// [`Checker::place`] in a call that makes an access.
    pub(crate) fn place_of(&self, kind: Kind) -> Place {
        self.place_of_form(kind.form())
    }

    /// [`Checker::place_of`] for a kind of this form.
    #[inline]
    pub(crate) fn place_of_form(&self, form: usize) -> Place {
        self.places.here(self.own(), form)
    }

    /// The place of the program that has a return address.
    pub(crate) fn place_at(&self, address: usize) -> Place {
        self.places.at(self.own(), address)
    }

    /// Another library reports the program's atomic loads and stores of its window memory.
    pub(crate) fn sees_atomics(&self) {
        // Relaxed, here and below: set at the start, before there are windows.
        self.atomics.store(true, Ordering::Relaxed);
    }

    /// What the calling thread has done since release number `number` of this rank counts as done
    /// before it: an atomic, by which ranks learn of the release.
    pub(crate) fn release_again(&self, number: u64) {
        if let Some(fibers) = &self.fibers {
            fibers.release_again(number);
        }
    }

    /// Whether [`Checker::sees_atomics`] was called.
    pub(crate) fn has_seen_atomics(&self) -> bool {
        self.atomics.load(Ordering::Relaxed)
    }

    /// Reports a conflict or a misuse, unless it is suppressed, a rank has reported one of the same
    /// calls and places, or [`MOST_REPORTS`] were reported. `first`: the area of rank 0.
    pub(crate) fn report(&self, first: Area<'_>, report: &impl Report) {
        if self.output.suppressed.iter().any(|text| report.mentions(text)) {
            return;
        }
        match first.note(report.number()) {
            Some(before) if before < MOST_REPORTS => {
                diagnostics::print_requested(&report.to_string());
                append(self.output.file.as_deref(), &report.json());
            }
            Some(MOST_REPORTS) => {
                diagnostics::print_requested(&format!(
                    "transom: the conflict checker has made {MOST_REPORTS} reports, and makes no further ones"
                ));
            }
            _ => {}
        }
    }

    /// Makes a call that waits, and records the wait in `first`, the area of rank 0.
    pub(crate) fn waits<R>(&self, first: Area<'_>, wait: &Wait<'_>, call: impl FnOnce() -> R) -> R {
        self.wait_begins(first, wait);
        let outcome = call();
        self.wait_ends(first);
        outcome
    }

    /// [`Checker::waits`] in two steps: a call begins.
    pub(crate) fn wait_begins(&self, first: Area<'_>, wait: &Wait<'_>) {
        let (begins, is_helped) = {
            let mut shown = self.shown();
            (shown.begin(), shown.is_helped())
        };
        if begins {
            let place = self.own().text(self.place().number).unwrap_or_default();
            first.waits().begin(self.rank, wait, &place);
        } else if is_helped {
            first.waits().end(self.rank);
        }
    }

    /// [`Checker::waits`] in two steps: a call ends.
    pub(crate) fn wait_ends(&self, first: Area<'_>) {
        if self.shown().end() {
            first.waits().end(self.rank);
        }
    }

    /// Records that this rank holds a lock of a window, for reports of deadlocks.
    pub(crate) fn holds(&self, first: Area<'_>, window: u64, lock: Held) {
        first.waits().holds(self.rank, window, lock);
    }

    /// Records that this rank is about to release its lock of a rank's part, or that of `lock_all`.
    pub(crate) fn releases_lock(&self, first: Area<'_>, window: u64, target: Option<usize>) {
        first.waits().releases(self.rank, window, target);
    }

    /// Records that processes outside of the job may end this rank's waits.
    pub(crate) fn gets_help(&self) {
        self.shown().gets_help();
    }

    fn shown(&self) -> MutexGuard<'_, waits::WaitingCalls> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends a report to the user's file, by one write, because several ranks append to it.
fn append(path: Option<&Path>, line: &str) {
    let Some(path) = path else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        diagnostics::warn("transom::check", &format_args!("{}: {error}", path.display()));
    }
}

impl Part {
    /// Removes and returns the complete operations in the log of the shadow.
    fn logged(&self, ranks: usize) -> Vec<fibers::LoggedAccess> {
        let shadow = Shadow::of(&self.shadow, ranks);
        if !shadow.has_told() {
            return Vec::new();
        }
        shadow
            .drain()
            .into_iter()
            .map(|entry| fibers::LoggedAccess {
                entry,
                window: self.window,
                shadow: self.shadow.clone(),
                memory: self.memory.clone(),
            })
            .collect()
    }
}
