//! What the ranks tell each other in the barriers of a window's creation, and what follows: all have the window, or none.

use crate::error::{Class, Error, ErrorKind, Result};
use crate::job::Job;

/// What a rank that could not create its part tells in the barrier of creation.
pub(super) const FAILED: u32 = 1;

/// Something that is one for all ranks of a window, by the bit in which a rank tells that it chose no; yes is the next one.
pub(super) struct Choice(u32);

pub(super) const PER_ELEMENT: Choice = Choice(1);
pub(super) const BY_NIC: Choice = Choice(3);
pub(super) const NONCONTIG: Choice = Choice(5);
pub(super) const SEPARATE: Choice = Choice(7);

/// What a rank tells whose part gets its memory only at the first touch, so that the machine may turn out not to have it.
pub(super) const PROMISED: u32 = 1 << 9;

/// Whether ranks of this node reach the part by its addresses and by messages, not by mapping it: told by ranks that have such
/// neighbours. No need to be alike, but where it differs those serve too who would not have to.
pub(super) const FOREIGN: Choice = Choice(10);

impl Choice {
    pub(super) fn bit(&self, yes: bool) -> u32 {
        1 << (self.0 + u32::from(yes))
    }

    /// Whether some rank chose yes and another no.
    pub(super) fn differs(&self, told: u32) -> bool {
        told >> self.0 & 3 == 3
    }

    /// Whether some rank chose yes.
    pub(super) fn any(&self, told: u32) -> bool {
        told & self.bit(true) != 0
    }
}

/// What the ranks told in a barrier of creation.
pub(super) struct Told {
    pub(super) bits: u32,
    /// The lowest rank that could not create its part.
    failed: Option<usize>,
}

/// Passes a barrier of creation, in which this rank tells [`FAILED`] or what it chose. Where one failed, more of them find which.
pub(super) fn tell(job: &Job, tells: u32) -> Result<Told> {
    let bits = job.core().barrier_telling(job.team(), tells)?;
    let failed = (bits & FAILED != 0).then(|| lowest(job, tells & FAILED != 0)).transpose()?;
    Ok(Told { bits, failed })
}

/// The lowest rank that is one `of_them`, by its bits from the highest: if one of them has a 0 there, those with a 1 drop out.
fn lowest(job: &Job, mut of_them: bool) -> Result<usize> {
    let mut lowest = 0;
    for bit in (0..usize::BITS - job.size().leading_zeros()).rev() {
        let zero = job.rank() >> bit & 1 == 0;
        if job.core().barrier_telling(job.team(), u32::from(of_them && zero))? != 0 {
            of_them &= zero;
        } else {
            lowest |= 1 << bit;
        }
    }
    Ok(lowest)
}

/// Whether all ranks could create their parts, and chose the same.
pub(super) fn agreed(id: u64, told: &Told) -> Result<()> {
    if let Some(rank) = told.failed {
        let why = format!("window {id:x}: rank {rank} could not create its part, so that no rank has the window");
        return Err(ErrorKind::Job(why).into());
    }
    let choices = [
        (PER_ELEMENT, "mpi_accumulate_granularity"),
        (BY_NIC, "transom_atomics"),
        (NONCONTIG, "alloc_shared_noncontig"),
        (SEPARATE, "transom_model"),
    ];
    match choices.iter().find(|(choice, _)| choice.differs(told.bits)) {
        None => Ok(()),
        Some((_, hint)) => {
            let why = format!(
                "window {id:x}: {hint} differs among the ranks; all give the same, so that no rank has the window"
            );
            Err(Error::argument(Class::InfoValue, "creating a window", why))
        }
    }
}
