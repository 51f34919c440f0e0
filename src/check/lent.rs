//! The buffers of operations in flight. The library reads the buffer of a put, and writes that of a
//! get, until the operation is complete at its origin. Nothing else may write the former or access
//! the latter before (MPI-4.1 §12.3). Other operations are compared here; loads and stores are left
//! to ThreadSanitizer, where the program has it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use transom_fabric::Memory;

use super::clock::Clock;
use super::fibers::{Fibers, Flight};
use super::place::Place;
use super::rules::Kind;
use super::sanitizer::Touched;
use super::shadow::{Access, Locked, Met, Record, Shadow, bytes};
use crate::error::Result;

/// The most uses of buffers that are remembered.
const RECORDS: usize = 1 << 16;
/// The size for which the shadow of buffers has as many chains as a shadow can have.
const SIZE: u64 = 1 << 19;

/// The buffers of this rank's operations in flight.
#[derive(Debug)]
pub(super) struct Buffers {
    /// A shadow whose offsets are addresses.
    shadow: Memory,
    /// The order of operations is their order here.
    clock: Clock,
    loans: Mutex<HashMap<u64, Vec<Loan>>>,
}

/// An operation that has buffers.
#[derive(Debug)]
pub(crate) struct Lent<'o> {
    pub(crate) window: u64,
    pub(crate) member: usize,
    /// The number of the operation in its window.
    pub(crate) operation: u64,
    pub(crate) kind: Kind,
    /// The buffers: address, length, and whether the operation writes them.
    pub(crate) buffers: &'o [(usize, usize, bool)],
    /// The ranges of this rank's own part that it accesses, where it is the target too. `None` for
    /// a dynamic window, whose offsets are addresses.
    pub(crate) own: &'o [(Option<&'o Memory>, usize, usize)],
}

/// The buffers of an operation in flight, or its range of the origin's own part.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) member: usize,
    pub(crate) operation: u64,
    /// Whether it ends when the operation is complete at the origin.
    pub(crate) local: bool,
    records: Vec<Record>,
    flight: Option<Flight>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        let shadow = Memory::private(bytes(1, SIZE, RECORDS, 0));
        Shadow::prepare(&shadow, 1, SIZE, RECORDS, 0);
        Buffers { shadow, clock: Clock::new(1), loans: Mutex::default() }
    }

    fn locked(&self) -> Result<Locked<'_>> {
        Shadow::of(&self.shadow, 1).lock(|_| {
            std::thread::yield_now();
            Ok(())
        })
    }

    /// Records the buffers of an operation, and returns the conflicts with operations in flight.
    pub(super) fn lend(&self, it: &Lent<'_>, rank: usize, place: Place, fibers: Option<&Fibers>) -> Vec<(Access, Met)> {
        let (mut conflicts, mut records) = (Vec::new(), Vec::new());
        if let Ok(locked) = self.locked() {
            for &(address, len, written) in it.buffers.iter().filter(|one| one.1 > 0) {
                let (start, kind) = (address as u64, it.kind.buffer(written));
                let access = Access { start, end: start + len as u64, kind, origin: 0, place: place.number };
                let (record, met) = locked.record(access, &self.clock, false);
                records.push(record);
                let at_rank = |access: Access| Access { origin: rank, ..access };
                conflicts
                    .extend(met.into_iter().map(|met| (at_rank(access), Met { older: at_rank(met.older), ..met })));
            }
        }
        let begun = |name: &str, uses: Vec<Touched<'_>>| {
            fibers.filter(|_| !uses.is_empty()).map(|fibers| fibers.begin(name, &uses, place.address))
        };
        let (member, operation) = (it.member, it.operation);
        let buffers = it.buffers.iter().map(|&(address, len, written)| Touched::Named { address, len, written });
        let flight = begun(&format!("{} of this rank, its buffer", it.kind), buffers.collect());
        let own = it.own.iter().map(|&(memory, at, len)| match memory {
            Some(memory) => Touched::Part { memory, at, len, kind: it.kind },
            None => Touched::Named { address: at, len, written: !it.kind.only_reads() },
        });
        let target = begun(&format!("{} of this rank", it.kind), own.collect());
        let mut loans = self.loans.lock().unwrap_or_else(PoisonError::into_inner);
        let of_window = loans.entry(it.window).or_default();
        if !records.is_empty() || flight.is_some() {
            of_window.push(Loan { member, operation, local: true, records, flight });
        }
        if target.is_some() {
            let local = it.kind.fetches();
            of_window.push(Loan { member, operation, local, records: Vec::new(), flight: target });
        }
        conflicts
    }

    /// Ends loans of a window.
    pub(super) fn give_back(&self, window: u64, ends: impl Fn(&Loan) -> bool, fibers: Option<&Fibers>) {
        let mut loans = self.loans.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_window) = loans.get_mut(&window).filter(|loans| !loans.is_empty()) else { return };
        let (over, kept): (Vec<_>, _) = of_window.drain(..).partition(ends);
        *of_window = kept;
        drop(loans);
        over.iter().for_each(|loan| self.end(loan, fibers));
    }

    fn end(&self, loan: &Loan, fibers: Option<&Fibers>) {
        if let Ok(locked) = self.locked() {
            loan.records.iter().for_each(|&record| locked.forget(record));
        }
        if let (Some(flight), Some(fibers)) = (&loan.flight, fibers) {
            fibers.end(flight);
        }
    }
}
