//! Buffers of the program that a call of the host uses, for the conflict checker. The checker and
//! ThreadSanitizer learn when the host's use begins and when it ends.

use transom::{CheckedBuffers, Job};

use crate::accesses;

/// A buffer of a call: address, length, and whether the call writes it.
pub(crate) type Buffer = (usize, usize, bool);

/// The buffers of a call in progress.
pub(crate) struct Borrowed {
    buffers: Vec<Buffer>,
    checked: CheckedBuffers,
}

impl Borrowed {
    /// The host's use of the buffers begins. `None` if the checker does not watch buffers.
    pub(crate) fn of(job: &Job, buffers: Vec<Buffer>) -> Option<Borrowed> {
        accesses::record_buffers_of_call(&buffers, false);
        let checked = job.checker_borrows("MPI call", &buffers)?;
        Some(Borrowed { buffers, checked })
    }

    /// The host's use of the buffers has ended. Returns the buffers, whose writes are recorded when
    /// the clock of the message is known.
    pub(crate) fn returns(self, job: &Job) -> Vec<Buffer> {
        job.checker_returns(self.checked);
        // Reported again: ThreadSanitizer remembers only the last access to a byte, which may be
        // the host's, and reports on accesses of the host are suppressed.
        job.checker_uses(&self.buffers);
        self.buffers
    }
}
