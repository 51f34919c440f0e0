//! The conflict checker in a window (`check`). Each operation is recorded in the shadow of its
//! target before it is performed, and each synchronization passes clocks on. Hot paths find no
//! target in a checked window, so its operations take the slow paths, which call this module. A
//! window that is not checked pays nothing.

mod atomics;
mod completion;
mod conflicts;
mod elements;
mod meeting;
mod orders;
mod own_buffers;
mod promises;
mod records;
#[cfg(test)]
mod tests;
mod touched;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Memory, diagnostics};

use super::create::WindowSpec;
use super::lock::Lock;
use super::parts::Parts;
use super::segment::Draft;
use super::target::Target;
use super::transfer::CountedBy;
use crate::check::{self, Access, At, Checker, Clash, Clock, Kind, Loan, Locked, LogEntry, Place, Record, Shadow};
use crate::error::{JobError, Result};
use crate::flavor::Flavor;
use crate::hints::{Hints, Info, Model};
use crate::job::Cause;
use crate::memory::layout::Layout;

pub(super) use completion::Completed;
use records::addressed;
pub(super) use touched::Touch;

/// The bit by which the number of a window differs from that of its shadows.
const SHADOWS: u64 = 1 << 61;

/// Loads of up to this many bytes may poll for an update (unified model), and are not recorded.
const POLLED: usize = 8;

/// If more accesses to a member than this are in flight, the list of them is pruned
/// (`completion::forget_replaced`): accesses whose records were overwritten are dropped.
const MANY: usize = 256;

/// Attempts to take the lock of a shadow before the waiter yields.
const SPINS: u32 = 64;
/// Attempts to take the lock of a shadow between two checks for dead ranks.
const LOOKS: u32 = 1 << 12;

/// The checker's data of a window.
#[derive(Debug)]
pub(super) struct Checked {
    /// The window whose parts are the shadows.
    shadows: Parts,
    /// The accesses of this rank that are not complete. Entry `member` has the accesses to a
    /// member; entry `number of members + member` has the uses of the member's part by buffers.
    pending: Mutex<Vec<Vec<Pending>>>,
    /// For each member: whether operations may be in flight that end at the next flush
    /// ([`End::AtFlush`]).
    unflushed: Box<[AtomicBool]>,
    /// The buffers of this rank's operations that are not complete.
    loans: Mutex<Vec<Loan>>,
    /// The number of operations of this rank.
    operations: AtomicU64,
    /// The number of this rank's calls of `MPI_WIN_SYNC`.
    polls: AtomicU64,
    /// The number of barriers of the window so far.
    barriers: AtomicU64,
    /// The number of this rank's fences.
    fences: AtomicU64,
    /// The group of the last `post`.
    origins: Mutex<Vec<usize>>,
    /// The buffers of this rank's operations that are in its own part.
    own_buffers: own_buffers::OwnBuffers,
    /// The words that this rank has read.
    seen: atomics::Seen,
    /// Whether the shadows were removed, because the window is freed.
    withdrawn: AtomicBool,
    /// Whether the program passes buffers by address, so that it can use them too early.
    pub(super) lends: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    record: Record,
    /// Whether the arrival of the operation's result shows that the operation is complete.
    ends_with_result: bool,
    /// Whether the operation is complete at the target only when the exposure epoch ends.
    ends_with_exposure: bool,
    operation: u64,
    /// Whether the operation ends alone ([`End::Alone`]).
    is_alone: bool,
    /// The access, and the number of target releases known to this rank when the access began.
    access: Access,
    known: u64,
    /// The record by address, if another window has some of the same memory.
    by_address: Option<Record>,
}

thread_local! {
    static LAST: Cell<Operation> =
        const { Cell::new(Operation { number: 0, place: Place { number: 0, address: 0 }, is_alone: false }) };
}

/// An operation that a thread has started in a checked window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// The number of the operation in its window.
    pub(super) number: u64,
    /// The place of the call in the program.
    pub(super) place: Place,
    /// Whether the operation ends alone ([`End::Alone`]).
    pub(super) is_alone: bool,
}

/// The operation that this thread has just started in a checked window.
pub(super) fn last_operation() -> Operation {
    LAST.get()
}

/// When an operation is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In its call, which returns the result.
    InCall,
    /// At a later synchronization, with other operations.
    Later,
    /// As [`End::Later`], at the origin's next flush of the part, of which the part has the
    /// releases. No list has the operation.
    AtFlush,
    /// At the end of its own request, or before its notice. The end of another operation may come
    /// first.
    Alone,
}

impl Checked {
    fn new(parts: &Parts, checker: &Checker) -> Result<Checked> {
        let info = Info::new();
        let spec = WindowSpec { flavor: Flavor::Allocate, unit: 1, info: &info };
        let hints = Hints::at_creation(&info, spec.flavor)?;
        let (ranks, size) = (parts.job.size, parts.own.part.size);
        // A small part has few bytes, so it needs few records.
        let most = usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(16).saturating_add(64);
        let records = parts.job.settings.check.records.min(most);
        let room = if checker.watches() { records } else { 0 };
        let memory = parts.job.wire.reserve(check::shadow_bytes(ranks, size, records, room))?;
        Shadow::prepare(&memory, (parts.job.rank, ranks), size, records, room);
        let watched = (parts.flavor != Flavor::Dynamic).then(|| parts.own.local().clone());
        if let Some(part) = watched.as_ref().filter(|part| !part.is_empty()) {
            let base = part.as_ptr().addr() as u64;
            checker.expose(parts.id, &memory, base, part);
        }
        checker.watch(parts.id, &memory, watched);
        let draft = Draft { hints, memory, shared: None };
        Ok(Checked {
            shadows: Parts::open(&parts.job, &parts.team, parts.id ^ SHADOWS, &spec, draft)?,
            pending: Mutex::new(vec![Vec::new(); 2 * parts.team.size]),
            unflushed: (0..parts.team.size).map(|_| AtomicBool::new(false)).collect(),
            loans: Mutex::default(),
            operations: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
            fences: AtomicU64::new(0),
            origins: Mutex::default(),
            own_buffers: own_buffers::OwnBuffers::default(),
            seen: atomics::Seen::default(),
            withdrawn: AtomicBool::new(false),
            lends: AtomicBool::new(false),
        })
    }

    /// Ends the peers' access to the shadow, and reports the number of forgotten accesses.
    pub(super) fn withdraw(&self) {
        // Relaxed: no other call runs on a window that is being freed.
        self.withdrawn.store(true, Ordering::Relaxed);
        let Parts { job, id, .. } = &self.shadows;
        let window = id ^ SHADOWS;
        if let Some(checker) = &job.block.checker {
            let forgotten = checker.unwatch(window);
            if forgotten > 0 {
                diagnostics::print_requested(&format!(
                    "transom: rank {}: the checker forgot {forgotten} operations of other ranks on window {window:x} \
                     with which this rank did not synchronize, and does not report their conflicts with loads and stores",
                    job.rank
                ));
            }
            drop(checker.give_back(&mut self.loans(), |_| true));
            checker.give_others_back(window, None);
        }
        let dropped = self.own().dropped() + self.own().untold();
        if dropped > 0 {
            let most = job.settings.check.records;
            diagnostics::print_requested(&format!(
                "transom: rank {}: the checker forgot {dropped} accesses to window {window:x}, so it may have missed \
                 conflicts; raise TRANSOM_CHECK_RECORDS (now {most})",
                job.rank
            ));
        }
        self.shadows.withdraw();
    }

    #[inline(always)]
    fn memory(&self, member: usize) -> Result<&Memory> {
        match self.shadows.known(member).and_then(|target| target.reach.memory()) {
            Some(memory) => Ok(memory),
            None => self.first_memory(member),
        }
    }

    /// [`Checked::memory`] before first contact.
    #[cold]
    fn first_memory(&self, member: usize) -> Result<&Memory> {
        let shadow = self.shadows.target("check", member)?.and_then(|target| target.reach.memory());
        shadow.ok_or_else(|| JobError::WordsUnmapped { rank: member }.into())
    }

    /// The shadow by address of a member's memory.
    fn by_address(&self, checker: &Checker, member: usize) -> Result<Option<Memory>> {
        let Parts { job, team, .. } = &self.shadows;
        Ok(job.area(checker, team.rank(member))?.by_address())
    }

    #[inline(always)]
    fn shadow(&self, member: usize) -> Result<Shadow<'_>> {
        Ok(Shadow::of(self.memory(member)?, self.shadows.job.size))
    }

    fn own(&self) -> Shadow<'_> {
        Shadow::of(&self.shadows.own.memory, self.shadows.job.size)
    }

    /// Waits for the lock of a shadow.
    fn wait(&self, turn: u32) -> Result<()> {
        match turn {
            ..SPINS => std::hint::spin_loop(),
            _ if turn.is_multiple_of(LOOKS) => self.shadows.job.progress.look()?,
            _ => std::thread::yield_now(),
        }
        Ok(())
    }

    /// This thread begins an operation. Returns its number.
    pub(super) fn begin_operation(&self, place: Place, is_alone: bool) -> u64 {
        let number = self.operations.fetch_add(1, Ordering::Relaxed) + 1;
        LAST.set(Operation { number, place, is_alone });
        number
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Vec<Pending>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_pending(&self, member: usize) -> bool {
        // Relaxed: the operations of other threads need not be complete.
        self.unflushed[member].load(Ordering::Relaxed) || !self.pending()[member].is_empty()
    }

    /// Whether the older access of a conflict is an atomic store, and this rank may have polled for
    /// it by gets.
    fn may_have_polled(&self, member: usize, clash: &Clash, by_address: bool) -> bool {
        let is_store = clash.older.kind == (Kind::Atomic { written: true });
        is_store && (by_address || self.seen.may_have_got(member, &clash.older))
    }

    pub(super) fn loans(&self) -> MutexGuard<'_, Vec<Loan>> {
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock<'s>(&self, shadow: Shadow<'s>) -> Result<Locked<'s>> {
        shadow.lock(|turn| self.wait(turn))
    }
}

impl Parts {
    /// Adds the checker's data to a window that is being created, where the job is checked.
    pub(super) fn checked(mut self) -> Result<Parts> {
        if let Some(checker) = &self.job.block.checker {
            if self.is_allocated() {
                checker.memory(true);
            }
            let undo = |_: &_| {
                checker.unwatch(self.id);
                self.withdraw();
            };
            let checked = Checked::new(&self, checker).inspect_err(undo)?;
            self.checked = Some(Box::new(checked));
            self.fast_ranks = 0;
        }
        Ok(self)
    }

    /// Tells the checker that memory was attached to the window.
    pub(super) fn exposes(&self, memory: &Memory) {
        if let Some((checked, checker)) = self.checker()
            && !memory.is_empty()
        {
            checker.expose(self.id, &checked.shadows.own.memory, 0, memory);
        }
    }

    /// Tells the checker that the memory that begins at an address was detached from the window.
    pub(super) fn conceals(&self, start: u64) {
        if let Some((_, checker)) = self.checker() {
            checker.conceal(self.id, start);
        }
    }

    /// Whether the library has allocated the window's memory.
    fn is_allocated(&self) -> bool {
        matches!(self.flavor, Flavor::Allocate | Flavor::Shared)
    }

    /// The program gives back the memory that the library has allocated for the window.
    pub(super) fn gives_memory_back(&self) {
        if let Some(checker) = self.job.block.checker.as_ref().filter(|_| self.is_allocated()) {
            checker.memory(false);
        }
    }

    /// Whether the window's accesses are recorded.
    #[inline]
    pub(super) fn is_checked(&self) -> bool {
        self.checked.is_some()
    }

    /// The checker's data. `None` also in a freed window, which has no shadows: a request may
    /// outlive its window.
    pub(super) fn checker(&self) -> Option<(&Checked, &Checker)> {
        let checked = self.checked.as_deref().filter(|checked| !checked.withdrawn.load(Ordering::Relaxed))?;
        Some((checked, self.job.block.checker.as_ref()?))
    }

    /// Records an operation on `layout` at byte `at` of the target, before it is performed.
    #[inline]
    pub(super) fn note(
        &self,
        target: &Target,
        at: i64,
        layout: &Layout<'_>,
        kind: Kind,
        counted_by: &mut CountedBy<'_>,
    ) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        // The operation is not complete when its call returns, so its request needs a tally.
        counted_by.tally(target);
        let end = if matches!(counted_by, CountedBy::Request(_)) { End::Alone } else { End::Later };
        self.note_checked(target, at, layout, kind, (end, true)).map(drop)
    }

    /// `changes`: whether the operation changes the target, as its kind says. Returns the number of
    /// this rank's releases in the records.
    #[cold]
    fn note_checked(
        &self,
        target: &Target,
        at: i64,
        layout: &Layout<'_>,
        kind: Kind,
        (end, changes): (End, bool),
    ) -> Result<u64> {
        let Some((checked, checker)) = self.checker() else { return Ok(0) };
        let member = target.rank();
        let (rank, shadow) = (self.team.rank(member), checked.shadow(member)?);
        checker.learn_polled();
        // The cache lines arrive while this rank searches for the place of the call.
        elements::prefetch(shadow, shadow.clock(At::Half(at.cast_unsigned())), (target, at.cast_unsigned()));
        let place = checker.place_of(kind);
        let operation = checked.begin_operation(place, end == End::Alone);
        // By atomic loads, the target may poll a word that a put changes.
        let is_polled = matches!(kind, Kind::Combine { .. }) || checker.has_seen_atomics();
        let passes = is_polled && changes && !kind.only_reads();
        let raises_flag = !checker.has_seen_atomics() && changes && self.may_raise_flag(target, (shadow, kind), layout);
        self.changes((checked, checker), (target, shadow), (at, layout, kind, place.number), changes)?;
        let by_addresses = if shadow.shared().is_some() { checked.by_address(checker, member)? } else { None };
        let end = if by_addresses.is_none() { self.ends_at_flush((checker, target), shadow, (kind, end)) } else { end };
        let (mut conflicts, mut clashes, mut pending) = (Vec::new(), Vec::new(), checked.pending());
        let list = &mut pending[member];
        // An atomic passes on what this rank has done before it.
        let clock = if passes || raises_flag { checker.release_news() } else { checker.clock() };
        if raises_flag {
            clock.teach_by(self.job.rank, shadow.clock(At::Flags));
        }
        layout.each_piece(|offset, len| {
            let start = at.wrapping_add(offset).cast_unsigned();
            let new = Access { start, end: start + len as u64, kind, origin: self.job.rank, place: place.number };
            if passes {
                shadow.clocks_of(new.start, new.end).for_each(|slot| clock.teach_by(self.job.rank, slot));
            }
            let record = checked.record(shadow, new, (&clock, end), &mut clashes)?;
            conflicts.extend(clashes.drain(..).map(|clash| (new, clash, false)));
            let mut by_address = None;
            if let (Some(base), Some(memory)) = (shadow.shared(), &by_addresses) {
                by_address = Some(checked.record_by_address(memory, base, new, (&clock, end), &mut conflicts)?);
            }
            if kind == Kind::Get && checker.has_seen_atomics() {
                checked.seen.gets(member, new.start, new.end);
            }
            let known = clock.of(rank);
            match end {
                End::AtFlush => {}
                End::InCall => {
                    checker.has_done();
                    if rank != self.job.rank && shadow.has_log() {
                        checked.lock(shadow)?.log(LogEntry { access: new, known, done: clock.of(self.job.rank) });
                    }
                }
                End::Later | End::Alone => {
                    checked.make_room(list, shadow)?;
                    list.push(Pending::of(target, (record, by_address), new, (known, operation, end)));
                }
            }
            Ok::<(), crate::Error>(())
        })?;
        let released = clock.of(self.job.rank);
        if end == End::AtFlush {
            checked.unflushed[member].store(true, Ordering::Relaxed);
        }
        drop((clock, pending));
        conflicts.retain(|(_, clash, by_address)| !checked.may_have_polled(member, clash, *by_address));
        self.report_all(checker, member, conflicts).map(|()| released)
    }

    /// Whether the target may poll for the change that an operation makes, by loads that the
    /// checker does not see.
    fn may_raise_flag(&self, target: &Target, (shadow, kind): (Shadow<'_>, Kind), layout: &Layout<'_>) -> bool {
        match kind {
            // In other epochs the change is not complete before the end of the target's epoch.
            Kind::Put => !self.notifies_at_end(target) && layout.pieces().all(|(_, len)| len <= POLLED),
            _ => shadow.is_polled() && !kind.only_reads(),
        }
    }

    /// Loads bytes of this rank's part, as the program sees them.
    #[inline]
    pub(super) fn load(&self, at: usize, into: &mut [u8]) {
        self.note_local(self.team.me, at, into.len(), Kind::Load);
        self.own.local().read(at, into);
    }

    /// Stores bytes into this rank's part.
    #[inline]
    pub(super) fn store(&self, at: usize, from: &[u8]) {
        self.note_local(self.team.me, at, from.len(), Kind::Store);
        self.own.local().write(at, from);
    }

    /// Records a load or store of a part that this process maps.
    #[inline]
    pub(super) fn note_local(&self, member: usize, at: usize, len: usize, kind: Kind) {
        if self.is_checked() {
            self.note_local_checked(member, at, len, kind);
        }
    }

    /// Warns instead of returning an error, because a load or store returns none.
    #[cold]
    fn note_local_checked(&self, member: usize, at: usize, len: usize, kind: Kind) {
        if let Err(error) = self.try_note_local(member, at, len, kind) {
            self.job.warn_once(Cause::Unchecked, &format!("a {kind} was not checked: {error:#}"));
        }
    }

    fn try_note_local(&self, member: usize, at: usize, len: usize, kind: Kind) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        if len == 0 {
            return Ok(());
        }
        checker.learn_polled();
        // The program may poll a word for an update (MPI-4.1 §12.7, unified model).
        if kind == Kind::Load && len <= POLLED && self.own.model() == Model::Unified {
            let shadow = checked.shadow(member)?;
            self.job.learns(|clock| {
                [At::Settled, At::Flags].into_iter().for_each(|at| clock.learn(shadow.clock(at)));
                shadow.clocks_for(at as u64, (at + len) as u64).for_each(|slot| clock.learn(slot));
            });
            return self.learn_stored(checked, checker, member);
        }
        let (start, place) = (at as u64, checker.place_of(kind).number);
        let new = Access { start, end: start + len as u64, kind, origin: self.job.rank, place };
        let pending = checked.pending();
        let clock = checker.clock();
        let mut clashes = Vec::new();
        checked.record(checked.shadow(member)?, new, (&clock, End::InCall), &mut clashes)?;
        checker.has_done();
        drop((clock, pending));
        clashes.into_iter().try_for_each(|clash| self.conflict(checker, member, new, clash))
    }

    /// Learns from a part's clocks.
    fn learn_from(&self, member: usize, from: &[At]) -> Result<()> {
        let Some((checked, _)) = self.checker() else { return Ok(()) };
        let shadow = checked.shadow(member)?;
        self.job.learns(|clock| from.iter().for_each(|&at| clock.learn(shadow.clock(at))));
        Ok(())
    }

    /// Adds this rank's clock to one of a part's clocks.
    fn pass_to(&self, member: usize, into: At) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        checker.release().teach(checked.shadow(member)?.clock(into));
        Ok(())
    }

    /// In a passive-target epoch, also of another rank's part, this rank may store flags in its own
    /// part. Only programs that pass addresses store by pointers.
    pub(super) fn may_store_flags(&self) {
        let lends = |checked: &Checked| checked.lends.load(Ordering::Relaxed);
        if let Some((checked, _)) = self.checker().filter(|(checked, _)| lends(checked)) {
            checked.own().gets_flags();
        }
    }

    /// Learns the clocks that earlier holders of a part's lock passed on; for a shared lock, those
    /// of exclusive holders only.
    pub(super) fn lock_taken(&self, member: usize, kind: Lock) -> Result<()> {
        match kind {
            Lock::Shared => self.learn_from(member, &[At::Exclusive]),
            Lock::Exclusive => self.learn_from(member, &[At::Exclusive, At::Shared]),
        }
    }

    /// Passes on what this rank has done under a part's lock, before the lock is released.
    pub(super) fn lock_ends(&self, member: usize, kind: Lock) -> Result<()> {
        self.pass_to(member, if kind == Lock::Shared { At::Shared } else { At::Exclusive })
    }

    /// [`Parts::lock_taken`] for `lock_all`.
    pub(super) fn locks_taken(&self) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        self.may_store_flags();
        (0..self.team.size).try_for_each(|member| self.lock_taken(member, Lock::Shared))
    }

    /// [`Parts::lock_ends`] for `lock_all`.
    pub(super) fn locks_end(&self) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        (0..self.team.size).try_for_each(|member| self.lock_ends(member, Lock::Shared))
    }
}
