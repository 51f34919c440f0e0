//! Messages from processes outside the job, and failures of operations that were not posted. Both
//! are dropped and reported once, so that they can't flood the job's output.

use std::sync::Once;

use transom_fabric::{Cause, Peer, diagnostics};

/// The reports of one endpoint.
#[derive(Debug)]
pub(crate) struct Strangers {
    me: Peer,
    reported: Once,
    reported_failure: Once,
}

impl Strangers {
    pub(crate) fn new(me: Peer) -> Strangers {
        Strangers { me, reported: Once::new(), reported_failure: Once::new() }
    }

    /// Handles a message without this process's token.
    #[cold]
    pub(crate) fn refused(&self) {
        let me = self.me;
        self.reported.call_once(|| {
            let what = "refused a message from a process outside of this job; further refusals are not reported";
            diagnostics::warn("transom::net", &format!("{me} {what}"));
        });
    }

    /// Handles an error completion whose operation is unknown, for example one of the provider's
    /// own: no operation of this process waits for it.
    #[cold]
    pub(crate) fn failed(&self, reason: &Cause) {
        let me = self.me;
        self.reported_failure.call_once(|| {
            let what = "the provider reports the failure of an operation that was not posted";
            let text = format!("{me}: {what}: {reason:#}; further such reports are not shown");
            diagnostics::warn("transom::net", &text);
        });
    }
}
