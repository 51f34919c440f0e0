//! Reports about messages from processes outside the job, and about failures of operations that
//! were not posted. Each kind is reported once, so that it can't flood the job's output.

use std::sync::Once;

use transom_fabric::{Cause, Peer, diagnostics};

/// The reports of one endpoint.
#[derive(Debug)]
pub(crate) struct Strangers {
    me: Peer,
    reported_message: Once,
    reported_failure: Once,
}

impl Strangers {
    pub(crate) fn new(me: Peer) -> Strangers {
        Strangers { me, reported_message: Once::new(), reported_failure: Once::new() }
    }

    /// Reports a message without this process's token.
    #[cold]
    pub(crate) fn report_message(&self) {
        let me = self.me;
        self.reported_message.call_once(|| {
            let what = "refused a message from a process outside of this job; further refusals are not reported";
            diagnostics::warn("transom::net", &format!("{me} {what}"));
        });
    }

    /// Reports an error completion whose operation is unknown, for example one of the provider's
    /// own operations. No operation of this process waits for it.
    #[cold]
    pub(crate) fn report_failure(&self, reason: &Cause) {
        let me = self.me;
        self.reported_failure.call_once(|| {
            let what = "the provider reports the failure of an operation that was not posted";
            let text = format!("{me}: {what}: {reason:#}; further such reports are not shown");
            diagnostics::warn("transom::net", &text);
        });
    }
}
