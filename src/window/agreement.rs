//! The ranks' agreement in the barriers of a window's creation: all have the window, or none.

use crate::directory;
use crate::error::{Error, ErrorKind, JobError, Result};
use crate::job::Job;

/// Bit of a rank that could not create its part, in the barrier of creation.
pub(super) const FAILED: u32 = 1;

/// Bit that a failed rank adds to [`FAILED`] where its directory is full.
const FULL: u32 = 1 << 12;

/// A decision that must be the same at all ranks of a window. The constant is the bit by which a
/// rank reports "no"; the next bit reports "yes".
pub(super) struct Choice(u32);

pub(super) const PER_ELEMENT: Choice = Choice(1);
pub(super) const BY_NIC: Choice = Choice(3);
pub(super) const NONCONTIG: Choice = Choice(5);
pub(super) const SEPARATE: Choice = Choice(7);

/// Bit of a rank whose part gets its pages only at the first touch, so that the machine may not
/// have the memory.
pub(super) const PROMISED: u32 = 1 << 9;

/// Whether ranks of this node reach the part by its addresses and by messages, not by mapping it;
/// reported by ranks that have such neighbours. The choices may differ; then ranks that need not
/// serve requests serve them too.
pub(super) const FOREIGN: Choice = Choice(10);

impl Choice {
    pub(super) fn bit(&self, yes: bool) -> u32 {
        1 << (self.0 + u32::from(yes))
    }

    /// Whether some rank chose yes and another no.
    pub(super) fn differs(&self, bits: u32) -> bool {
        bits >> self.0 & 3 == 3
    }

    /// Whether some rank chose yes.
    pub(super) fn any(&self, bits: u32) -> bool {
        bits & self.bit(true) != 0
    }
}

/// The bits of a rank that failed by `error`.
pub(super) fn failed(error: &Error) -> u32 {
    if matches!(error.kind(), ErrorKind::TooManyWindows { .. }) { FAILED | FULL } else { FAILED }
}

/// The result of a barrier of creation: the bits of all ranks.
pub(super) struct Outcome {
    pub(super) bits: u32,
    /// The lowest rank that could not create its part.
    failed: Option<usize>,
}

/// Passes a barrier of creation with this rank's bits: [`FAILED`] or its choices. After a failure,
/// further barriers find the rank.
pub(super) fn exchange(job: &Job, own: u32) -> Result<Outcome> {
    let bits = job.core().barrier_with_bits(job.team(), own)?;
    let failed = (bits & FAILED != 0).then(|| lowest(job, own & FAILED != 0)).transpose()?;
    Ok(Outcome { bits, failed })
}

/// The lowest rank with `of_them`. The bits of its number are found from the highest: where a
/// candidate has a 0, candidates with a 1 drop out.
fn lowest(job: &Job, mut of_them: bool) -> Result<usize> {
    let mut lowest = 0;
    for bit in (0..usize::BITS - job.size().leading_zeros()).rev() {
        let zero = job.rank() >> bit & 1 == 0;
        if job.core().barrier_with_bits(job.team(), u32::from(of_them && zero))? != 0 {
            of_them &= zero;
        } else {
            lowest |= 1 << bit;
        }
    }
    Ok(lowest)
}

/// The error of a full directory at some rank: all ranks return it, also if another step failed at
/// some of them.
pub(super) fn has_room(id: u64, outcome: &Outcome) -> Result<()> {
    if outcome.bits & FULL == 0 {
        return Ok(());
    }
    Err(ErrorKind::TooManyWindows { window: id, limit: directory::SLOTS }.into())
}

/// Whether all ranks could create their parts, with equal choices.
pub(super) fn agreed(id: u64, outcome: &Outcome) -> Result<()> {
    has_room(id, outcome)?;
    if let Some(rank) = outcome.failed {
        return Err(JobError::PartFailed { window: id, rank }.into());
    }
    let choices = [
        (PER_ELEMENT, "mpi_accumulate_granularity"),
        (BY_NIC, "transom_atomics"),
        (NONCONTIG, "alloc_shared_noncontig"),
        (SEPARATE, "transom_model"),
    ];
    match choices.iter().find(|(choice, _)| choice.differs(outcome.bits)) {
        None => Ok(()),
        Some((_, hint)) => Err(ErrorKind::Differs { hint, window: id }.into()),
    }
}
