//! The buffers of the host's calls in progress, for the conflict checker and ThreadSanitizer.

use transom::{CheckedBuffers, Job};

use crate::accesses;

/// A buffer of a call: address, length, and whether the call writes it.
pub(crate) type Buffer = (usize, usize, bool);

/// The buffers of a call under way.
pub(crate) struct Borrowed {
    buffers: Vec<Buffer>,
    checked: CheckedBuffers,
}

impl Borrowed {
    pub(crate) fn of(job: &Job, buffers: Vec<Buffer>) -> Option<Borrowed> {
        accesses::read(&buffers);
        let checked = job.checker_borrows("MPI call", &buffers)?;
        Some(Borrowed { buffers, checked })
    }

    pub(crate) fn returns(self, job: &Job) {
        job.checker_returns(self.checked);
        // ThreadSanitizer remembers the last access to a byte, and the accesses of the host's
        // libraries since are suppressed.
        job.checker_uses(&self.buffers);
    }
}
