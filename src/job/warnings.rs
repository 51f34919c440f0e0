//! Warnings of a job. Each cause is reported once per process, and the report of one cause hides no
//! other cause.

use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::diagnostics;

use super::JobCore;

/// The cause of a warning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// Progress failed in a call that returns no error.
    Progress,
    /// The conflict checker could not record an access.
    Unchecked,
    HugePages,
    /// User memory is reached by system calls.
    ByKernel,
    /// User memory is reached by messages.
    ByMessages,
    /// A part can't be reached.
    Unmapped,
    /// A hint has an illegal value.
    Hint,
    /// A hint differs among the ranks.
    DifferentHint,
    /// A request-based operation outside passive-target epochs.
    Request,
    /// An assertion is not true.
    Assertion,
}

/// The causes that were reported, a bit for each.
#[derive(Debug, Default)]
pub(super) struct Warned(AtomicU32);

impl Warned {
    /// Whether this is the first report of a cause.
    fn is_first(&self, cause: Cause) -> bool {
        let bit = 1 << cause as u32;
        // Relaxed: the bits order no other access.
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

impl JobCore {
    /// Reports a cause once per process. A fallback is never silent (requirement T5).
    pub(crate) fn warn_once(&self, cause: Cause, what: &str) {
        if self.flags.warned.is_first(cause) {
            diagnostics::warn("transom::job", &format!("rank {}: {what}", self.rank));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows T5.
    #[test]
    fn each_cause_is_reported_once() {
        let warned = Warned::default();
        for cause in [Cause::Request, Cause::ByMessages, Cause::Hint, Cause::Progress] {
            assert!(warned.is_first(cause) && !warned.is_first(cause), "{cause:?}");
        }
    }
}
