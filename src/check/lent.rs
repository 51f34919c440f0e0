//! The buffers of operations in flight. A *loan* is the use of one buffer by one operation: it
//! begins with the call and ends with local completion. Until an operation is complete at its
//! origin, the program must not write the buffer of a put, which the library may still read, and
//! must not access the buffer of a get, which the library may still write (MPI-4.1 §12.3). This
//! module compares the buffers of operations with each other. ThreadSanitizer checks the loads and
//! stores of the program, if the program was compiled with it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::Weak;

use transom_fabric::Memory;

use super::Checker;
use super::clock::Clock;
use super::exclusive::Exclusive;
use super::fibers::{Fibers, Flight, Mirrored};
use super::place::Place;
use super::rules::{Kind, Rule};
use super::runs::Runs;
use super::sanitizer::Touched;
use super::shadow::{Access, Clash, Ends, Locked, Record, Shadow, bytes};

/// Maximum number of recorded uses of buffers.
const RECORDS: usize = 1 << 16;
/// If a window has more loans than this, the list of them is pruned ([`forget_repeated`]).
const MANY: usize = 256;
/// The size of a part that gives the shadow one chain for each record. The shadow's offsets are
/// addresses, so no size of memory limits them.
const SIZE: u64 = 8 * RECORDS as u64;

/// The buffers of this rank's operations in flight.
#[derive(Debug)]
pub(super) struct Buffers {
    /// A shadow whose offsets are addresses.
    shadow: Memory,
    /// The order of operations is their order here.
    clock: Clock,
    runs: Exclusive<Runs>,
}

/// An operation with buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferUse {
    pub(crate) window: u64,
    pub(crate) member: usize,
    /// The number of the operation in its window.
    pub(crate) operation: u64,
    /// Whether the operation may be complete before earlier ones, at the end of its request.
    pub(crate) is_alone: bool,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
}

/// The accesses of an operation, for ThreadSanitizer.
#[derive(Debug)]
pub(crate) struct OperationAccesses {
    /// The buffers: address, length, and whether the operation writes them.
    pub(crate) buffers: Vec<(usize, usize, bool)>,
    /// The ranges of this rank's own part that the operation accesses, where it is the target too.
    pub(crate) own: Vec<(Memory, usize, usize)>,
    /// The number of the window, and the ranges of the target's part: the offset and the length of
    /// each.
    pub(crate) window: u64,
    pub(crate) ranges: Vec<(u64, usize)>,
}

/// A buffer of an operation in flight; or a fiber of ThreadSanitizer that stands for the
/// operation's buffers, or for its range of the origin's own part.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) member: usize,
    pub(crate) operation: u64,
    /// Whether the loan ends when the operation is complete at the origin.
    pub(crate) local: bool,
    is_alone: bool,
    /// The buffer, and its record.
    record: Option<(Access, Record)>,
    flight: Option<Flight>,
    /// The use of window memory by a buffer, until the loan ends.
    part: Option<PartUse>,
    /// The record of a buffer in the own part of the operation's window, in the part's shadow.
    pub(crate) own: Option<Record>,
}

/// The use of a part of a window by a buffer of an operation.
#[doc(hidden)]
#[derive(Debug)]
pub struct PartUse {
    window: Weak<dyn PartUses>,
    member: usize,
    /// Identifies the use in the window.
    number: u64,
}

/// A window whose parts have buffers of operations.
pub(crate) trait PartUses: fmt::Debug + Send + Sync {
    /// Ends uses of a member's part. The numbers are in increasing order.
    fn end(&self, member: usize, numbers: &[u64]);
}

impl PartUse {
    pub(crate) fn new(window: Weak<dyn PartUses>, member: usize, number: u64) -> PartUse {
        PartUse { window, member, number }
    }

    /// The window's address.
    fn window(&self) -> *const () {
        self.window.as_ptr().cast()
    }
}

/// Ends uses. The uses of a part end together, because the end of one visits all uses of the part
/// that have not ended.
fn end_uses(mut uses: Vec<PartUse>) {
    uses.sort_unstable_by_key(|one| (one.window(), one.member, one.number));
    for group in uses.chunk_by(|one, next| (one.window(), one.member) == (next.window(), next.member)) {
        if let Some(window) = group[0].window.upgrade() {
            window.end(group[0].member, &group.iter().map(|one| one.number).collect::<Vec<_>>());
        }
    }
}

impl Loan {
    /// The loan of window memory to an operation.
    pub(crate) fn of_part(it: &BufferUse, part: PartUse) -> Loan {
        Loan { part: Some(part), ..Loan::of(it) }
    }

    /// The loan of a buffer in the own part of the operation's window.
    pub(crate) fn of_own(it: &BufferUse, record: Record) -> Loan {
        Loan { own: Some(record), ..Loan::of(it) }
    }

    /// A loan to an operation that ends when the operation is complete at the origin.
    fn of(it: &BufferUse) -> Loan {
        let BufferUse { member, operation, is_alone, .. } = *it;
        Loan { member, operation, local: true, is_alone, record: None, flight: None, part: None, own: None }
    }
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        let shadow = Memory::private(bytes(1, SIZE, RECORDS, 0));
        Shadow::prepare(&shadow, (0, 1), SIZE, RECORDS, 0);
        Buffers { shadow, clock: Clock::new(1), runs: Exclusive::new(Runs::new()) }
    }

    fn locked(&self) -> Locked<'_> {
        let Ok(locked) = Shadow::of(&self.shadow, 1).lock(|_| {
            std::thread::yield_now();
            Ok::<(), Infallible>(())
        });
        locked
    }

    /// Adds a buffer that an operation only reads to a run. Returns false if [`Buffers::lend`] has
    /// to record it.
    #[inline]
    pub(super) fn join(&self, it: &BufferUse, address: usize, len: usize) -> bool {
        self.runs.lock().add(it, address as u64..(address + len) as u64)
    }

    /// The operations of a window on a member, or on all members, are complete at the origin.
    #[inline]
    pub(super) fn end_runs(&self, window: u64, member: Option<usize>) {
        self.runs.lock().end(window, member);
    }

    /// Records a buffer of an operation of `rank` among `loans`, those of its window. Adds the
    /// conflicts with operations in flight to `conflicts`.
    pub(super) fn lend(
        &self,
        it: &BufferUse,
        (address, len, written): (usize, usize, bool),
        rank: usize,
        loans: &mut Vec<Loan>,
        conflicts: &mut Vec<(Access, Clash)>,
    ) {
        let BufferUse { kind, place, .. } = *it;
        let (start, kind) = (address as u64, kind.buffer(written));
        let access = Access { start, end: start + len as u64, kind, origin: 0, place: place.number };
        let at_rank = |access: Access| Access { origin: rank, ..access };
        if written {
            // Before the buffer is recorded: a use that joins no run from here on is compared with
            // the record.
            let runs = self.runs.lock().writes(&(access.start..access.end), rank);
            let clash = |older| (at_rank(access), Clash { older, rule: Rule::Buffers });
            conflicts.extend(runs.into_iter().map(clash));
        }
        self.make_room(loans);
        let (locked, last) = (self.locked(), loans.last().and_then(|loan| loan.record));
        // One record stands for repeated reads of a buffer. This record has been compared with the
        // records of all earlier uses, and all later uses are compared with this record.
        if let Some((_, record)) = last.filter(|&(last, record)| !written && last == access && locked.is(record)) {
            loans.push(Loan { record: Some((access, record)), ..Loan::of(it) });
            return;
        }
        let mut clashes = Vec::new();
        let record = locked.record(access, &self.clock, Ends::WhenTold, &mut clashes);
        drop(locked);
        loans.push(Loan { record: Some((access, record)), ..Loan::of(it) });
        conflicts
            .extend(clashes.into_iter().map(|clash| (at_rank(access), Clash { older: at_rank(clash.older), ..clash })));
    }

    /// Makes room for a loan. If there are many loans, drops those for which others stand.
    fn make_room(&self, loans: &mut Vec<Loan>) {
        if loans.len() == loans.capacity() && loans.len() > MANY {
            let before = written(loans);
            forget_repeated(loans, &self.locked());
            self.runs.lock().have_written(before - written(loans));
            loans.reserve(loans.len());
        }
    }

    /// Ends loans of a window. Returns the records of those in the own part.
    pub(super) fn give_back(
        &self,
        loans: &mut Vec<Loan>,
        ends: impl Fn(&Loan) -> bool,
        fibers: Option<&Fibers>,
    ) -> Vec<Record> {
        let mut own = Vec::new();
        if loans.is_empty() {
            return own;
        }
        let before = written(loans);
        let (locked, mut uses, mut ended) = (self.locked(), Vec::new(), Vec::new());
        loans.retain_mut(|loan| {
            let was_ended = |fibers: &Fibers| loan.flight.as_ref().is_some_and(|flight| fibers.was_ended(flight));
            let over = ends(loan) || fibers.is_some_and(was_ended);
            if over && let Some((access, record)) = loan.record.take() {
                locked.forget(record);
                ended.push(access);
            }
            uses.extend(loan.part.take_if(|_| over));
            own.extend(loan.own.filter(|_| over));
            match (&mut loan.flight, fibers) {
                // The thread that began the operation learns of its end in a later call.
                (Some(flight), Some(fibers)) if over => !fibers.end(flight),
                _ => !over,
            }
        });
        self.restore(&locked, loans, &ended);
        drop(locked);
        self.runs.lock().have_written(before - written(loans));
        end_uses(uses);
        own
    }

    /// Records again the buffers for which the records of `ended` stood: a later use of the same
    /// bytes replaces the record of an earlier one. One record is enough for all uses of a range.
    fn restore(&self, locked: &Locked<'_>, loans: &mut [Loan], ended: &[Access]) {
        let covers = |of: &Access, by: &Access| by.kind == of.kind && by.start <= of.start && of.end <= by.end;
        let mut restored = HashSet::new();
        for (access, record) in loans.iter_mut().filter_map(|loan| loan.record.as_mut()) {
            let was_replaced = ended.iter().any(|by| covers(access, by)) && !locked.is(*record);
            if was_replaced && restored.insert((access.start, access.end, access.kind.encode())) {
                *record = locked.restore(*access, &self.clock);
            }
        }
    }
}

/// The buffers of this rank's operations.
impl Checker {
    /// Adds a buffer that an operation only reads to those of earlier operations. Returns false if
    /// [`Checker::lend`] has to record it.
    #[inline]
    pub(crate) fn lend_with_others(&self, lent: &BufferUse, address: usize, len: usize) -> bool {
        self.lent.join(lent, address, len)
    }

    /// The operations of a window on a member, or on all members, are complete at the origin: ends
    /// the loans of [`Checker::lend_with_others`].
    #[inline]
    pub(crate) fn give_others_back(&self, window: u64, member: Option<usize>) {
        self.lent.end_runs(window, member);
    }

    /// Records a buffer of an operation, by address, length, and whether it is written, among those
    /// of the operation's window. Adds the conflicts with operations in flight to `conflicts`.
    pub(crate) fn lend(
        &self,
        lent: &BufferUse,
        buffer: (usize, usize, bool),
        loans: &mut Vec<Loan>,
        conflicts: &mut Vec<(Access, Clash)>,
    ) {
        self.lent.lend(lent, buffer, self.rank, loans, conflicts);
    }

    /// Reports the beginning of an operation to ThreadSanitizer, if the program has it.
    pub(crate) fn touch(&self, lent: &BufferUse, accesses: &OperationAccesses, loans: &mut Vec<Loan>) {
        if let Some(fibers) = &self.fibers {
            loans.extend(flights(lent, accesses, fibers));
        }
    }

    /// Ends the loans for which `ends` is true. Returns the records of those in the own part.
    pub(crate) fn give_back(&self, loans: &mut Vec<Loan>, ends: impl Fn(&Loan) -> bool) -> Vec<Record> {
        self.lent.give_back(loans, ends, self.fibers.as_ref())
    }
}

/// The number of buffers among `loans` that their operations write.
fn written(loans: &[Loan]) -> u64 {
    let is_written = |loan: &&Loan| loan.record.is_some_and(|(access, _)| !access.kind.only_reads());
    loans.iter().filter(is_written).count() as u64
}

/// Drops loans that are not needed. All loans of a member end together, except those that are
/// checked below. A live record therefore needs one loan for each member. A record that another use
/// has replaced needs one loan for each range and member, from which [`Buffers::restore`] records
/// the buffer again; at most [`RECORDS`] of these loans are kept, because the shadow has room for
/// no more.
fn forget_repeated(loans: &mut Vec<Loan>, locked: &Locked<'_>) {
    let (mut live, mut replaced) = (HashSet::new(), HashSet::new());
    loans.retain(|loan| {
        // The records of buffers in the own part are those of another shadow, and stand for one
        // loan each.
        if loan.is_alone || loan.flight.is_some() || loan.part.is_some() || loan.own.is_some() {
            return true;
        }
        let Some((Access { start, end, kind, .. }, record)) = loan.record else { return false };
        if locked.is(record) {
            return live.insert((record, loan.member));
        }
        replaced.len() < RECORDS && replaced.insert((start, end, kind.encode(), loan.member))
    });
}

/// The fibers that stand for an operation: for its buffers, and for its range of the origin's part.
pub(super) fn flights(it: &BufferUse, accesses: &OperationAccesses, fibers: &Fibers) -> impl Iterator<Item = Loan> {
    let begun = |name: String, uses: Vec<Touched<'_>>, ranges: &[(u64, usize)], local: bool| {
        let mirrored = Mirrored { window: accesses.window, member: it.member, kind: it.kind, ranges };
        let some = !uses.is_empty() || !ranges.is_empty();
        let flight = some.then(|| fibers.begin(&name, &uses, &mirrored, it.place.address))?;
        Some(Loan { local, flight: Some(flight), ..Loan::of(it) })
    };
    let buffers = accesses.buffers.iter().map(|&(address, len, written)| Touched::Named { address, len, written });
    let own = accesses.own.iter().map(|(memory, at, len)| Touched::Part { memory, at: *at, len: *len, kind: it.kind });
    let buffers = begun(format!("{} of this rank, its buffer", it.kind), buffers.collect(), &[], true);
    let own = begun(format!("{} of this rank", it.kind), own.collect(), &accesses.ranges, it.kind.ends_with_result());
    buffers.into_iter().chain(own)
}
