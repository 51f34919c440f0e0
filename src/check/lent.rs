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

use super::clock::Clock;
use super::fibers::{Fibers, Flight, Mirrored};
use super::place::Place;
use super::rules::Kind;
use super::sanitizer::Touched;
use super::shadow::{Access, Clash, Locked, Record, Shadow, bytes};

/// Maximum number of recorded uses of buffers.
const RECORDS: usize = 1 << 16;
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
}

/// An operation with buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferUse {
    pub(crate) member: usize,
    /// The number of the operation in its window.
    pub(crate) operation: u64,
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
    /// The buffer, and its record.
    record: Option<(Access, Record)>,
    flight: Option<Flight>,
    /// The use of window memory by a buffer, until the loan ends.
    part: Option<PartUse>,
    /// The record of a buffer in the own part of the operation's window, in the part's shadow.
    own: Option<Record>,
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
        let BufferUse { member, operation, .. } = *it;
        Loan { member, operation, local: true, record: None, flight: None, part: None, own: None }
    }
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        let shadow = Memory::private(bytes(1, SIZE, RECORDS, 0));
        Shadow::prepare(&shadow, (0, 1), SIZE, RECORDS, 0);
        Buffers { shadow, clock: Clock::new(1) }
    }

    fn locked(&self) -> Locked<'_> {
        let Ok(locked) = Shadow::of(&self.shadow, 1).lock(|_| {
            std::thread::yield_now();
            Ok::<(), Infallible>(())
        });
        locked
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
        let (locked, last) = (self.locked(), loans.last().and_then(|loan| loan.record));
        // One record stands for repeated reads of a buffer. This record has been compared with the
        // records of all earlier uses, and all later uses are compared with this record.
        if let Some((_, record)) = last.filter(|&(last, record)| !written && last == access && locked.is(record)) {
            loans.push(Loan { record: Some((access, record)), ..Loan::of(it) });
            return;
        }
        let mut clashes = Vec::new();
        let record = locked.record(access, &self.clock, false, &mut clashes);
        drop(locked);
        loans.push(Loan { record: Some((access, record)), ..Loan::of(it) });
        let at_rank = |access: Access| Access { origin: rank, ..access };
        conflicts
            .extend(clashes.into_iter().map(|clash| (at_rank(access), Clash { older: at_rank(clash.older), ..clash })));
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
