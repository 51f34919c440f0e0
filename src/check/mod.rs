//! The conflict checker (`TRANSOM_CHECK`): finds accesses to the same bytes that no synchronization
//! orders. Each rank has a vector clock, which every synchronization of the library passes on. Each
//! part of a window has a shadow with its last accesses, in memory that the ranks of the node
//! share. An access looks there for earlier ones that overlap it, that this rank does not know to
//! be complete, and with which it conflicts. Knows no windows and no jobs.

mod area;
mod clock;
mod place;
mod report;
mod rules;
mod shadow;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Memory, diagnostics};

use crate::environment::Check;

pub(crate) use area::{Area, bytes as area_bytes};
pub(crate) use clock::Clock;
pub(crate) use report::{Conflict, Side};
pub(crate) use rules::Kind;
pub(crate) use shadow::{Access, At, Met, Record, Shadow, bytes as shadow_bytes};

/// The most reports of a job.
const MOST_REPORTS: u64 = 100;

/// The checker at one rank.
#[derive(Debug)]
pub(crate) struct Checker {
    rank: usize,
    ranks: usize,
    /// The job block, and where its area for the checker begins: at the same place at every rank.
    block: Memory,
    base: usize,
    clock: Mutex<Clock>,
    places: place::Places,
    /// The file that gets the reports too.
    file: Option<PathBuf>,
    /// Texts of places whose conflicts are not reported.
    suppressed: Vec<String>,
}

impl Checker {
    pub(crate) fn new(rank: usize, ranks: usize, block: &Memory, base: usize, settings: &Check) -> Checker {
        let Check { report: file, suppressed, .. } = settings.clone();
        let (block, clock) = (block.clone(), Mutex::new(Clock::new(ranks)));
        Checker { rank, ranks, block, base, clock, places: place::Places::default(), file, suppressed }
    }

    /// The area in the job block of a rank.
    pub(crate) fn area<'m>(&self, block: &'m Memory) -> Area<'m> {
        Area::at(block, self.base, self.ranks)
    }

    /// This rank's area.
    pub(crate) fn own(&self) -> Area<'_> {
        self.area(&self.block)
    }

    /// What this rank knows.
    pub(crate) fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a release of this rank and returns what it knows then.
    pub(crate) fn release(&self) -> MutexGuard<'_, Clock> {
        let mut clock = self.clock();
        clock.advance(self.rank);
        // Release: pairs with the Acquire of a rank that learns all that was released.
        self.own().releases().store(clock.of(self.rank), Ordering::Release);
        clock
    }

    /// The place of the program that has called the library.
    pub(crate) fn place(&self) -> u32 {
        self.places.here(self.own())
    }

    /// Reports a conflict, unless one of the same places was reported by any rank. `first`: the
    /// area of rank 0.
    pub(crate) fn report(&self, first: Area<'_>, conflict: &Conflict) {
        if self.suppressed.iter().any(|text| conflict.mentions(text)) {
            return;
        }
        match first.note(conflict.number()) {
            Some(before) if before < MOST_REPORTS => {
                diagnostics::answer(&conflict.to_string());
                self.append(conflict);
            }
            Some(MOST_REPORTS) => {
                diagnostics::answer(&format!("transom: {MOST_REPORTS} conflicts were reported; no more are"));
            }
            _ => {}
        }
    }

    /// Appends a report to the user's file, by one write, because several ranks append to it.
    fn append(&self, conflict: &Conflict) {
        let Some(path) = &self.file else { return };
        let file = OpenOptions::new().append(true).create(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(conflict.json().as_bytes())) {
            diagnostics::warn("transom::check", &format_args!("{}: {error}", path.display()));
        }
    }
}
