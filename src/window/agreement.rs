//! Agreement of the ranks on a window's creation: all ranks have the window, or none. Barriers
//! combine bits of all ranks.

use crate::directory;
use crate::error::{Error, ErrorKind, JobError, Result};
use crate::job::Job;

/// Bit of a rank that could not create its part, for another reason than [`FULL`].
pub(super) const FAILED: u32 = 1;

/// Bit of a rank that could not create its part because its directory is full.
const FULL: u32 = 1 << 12;

/// A decision that must be the same at all ranks of a window. The constant is the bit by which a
/// rank reports "no"; the next bit reports "yes".
pub(super) struct Choice(u32);

pub(super) const PER_ELEMENT: Choice = Choice(1);
pub(super) const BY_NIC: Choice = Choice(3);
pub(super) const NONCONTIG: Choice = Choice(5);
pub(super) const SEPARATE: Choice = Choice(7);

/// Bit of a rank whose part gets its pages at the first touch. The machine may lack memory at that
/// time, so creation checks the available memory.
pub(super) const PAGES_AT_FIRST_TOUCH: u32 = 1 << 9;

/// Whether this rank's part is not mapped by other ranks of its node, which then access it by
/// system calls or messages. Reported only by ranks that have others on their node. The ranks may
/// differ: if one reports yes, all ranks serve requests.
pub(super) const UNMAPPED: Choice = Choice(10);

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

/// The bits of a rank whose creation failed with `error`.
pub(super) fn failed(error: &Error) -> u32 {
    if is_full(error) { FULL } else { FAILED }
}

/// The result of a barrier of creation: the bits of all ranks.
pub(super) struct Outcome {
    pub(super) bits: u32,
    /// The lowest rank that passed [`FAILED`], as a rank of the whole job.
    failed: Option<usize>,
}

/// Passes a barrier of creation with this rank's bits: those of [`failed`] or its choices. If ranks
/// pass [`FAILED`], further barriers find the lowest of them. If a barrier fails, this rank will
/// not have the window. Ranks that have the window learn of the failure when they wait for this
/// rank.
pub(super) fn exchange(job: &Job, id: u64, own: u32) -> Result<Outcome> {
    pass(job, own).inspect_err(|_| job.core().block.leave_all(id))
}

fn pass(job: &Job, own: u32) -> Result<Outcome> {
    let bits = job.core().barrier_with_bits(job.team(), own)?;
    let failed = (bits & FAILED != 0).then(|| lowest(job, own & FAILED != 0)).transpose()?;
    Ok(Outcome { bits, failed: failed.map(|member| job.team().rank(member)) })
}

/// The lowest rank that passes true for `candidate`. Takes one barrier for each bit of the rank,
/// from the highest: if some candidate has a 0, those with a 1 drop out.
fn lowest(job: &Job, mut candidate: bool) -> Result<usize> {
    let mut lowest = 0;
    for bit in (0..usize::BITS - job.size().leading_zeros()).rev() {
        let zero = job.rank() >> bit & 1 == 0;
        if job.core().barrier_with_bits(job.team(), u32::from(candidate && zero))? != 0 {
            candidate &= zero;
        } else {
            lowest |= 1 << bit;
        }
    }
    Ok(lowest)
}

/// The error of a rank that failed with `own`. If the directory of some rank is full and no rank
/// failed for another reason, all ranks get [`ErrorKind::TooManyWindows`], so that a program may
/// create the window in another way at all ranks.
pub(super) fn error_at_failed(id: u64, outcome: &Outcome, own: Error) -> Error {
    // A rank with another failure than a full directory reports its own reason.
    if is_full(&own) { check_agreement(id, outcome).err().unwrap_or(own) } else { own }
}

fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TooManyWindows { .. })
}

/// Fails at all ranks if a rank could not create its part, or if their choices differ.
pub(super) fn check_agreement(id: u64, outcome: &Outcome) -> Result<()> {
    if let Some(rank) = outcome.failed {
        return Err(JobError::PartFailed { window: id, rank }.into());
    }
    if outcome.bits & FULL != 0 {
        return Err(ErrorKind::TooManyWindows { window: id, limit: directory::SLOTS }.into());
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
