//! Reports about messages from processes outside the job, about failed receives, and about failures
//! of operations that were not posted. Each kind is reported once, so that it can't flood the job's
//! output.

use std::sync::Once;

use transom_fabric::{Cause, Peer, diagnostics};

/// The reports of one endpoint.
#[derive(Debug)]
pub(crate) struct Strangers {
    me: Peer,
    reported_refused: Once,
    reported_failure: Once,
    reported_receive: Once,
}

impl Strangers {
    pub(crate) fn new(me: Peer) -> Strangers {
        let [reported_refused, reported_failure, reported_receive] = [const { Once::new() }; 3];
        Strangers { me, reported_refused, reported_failure, reported_receive }
    }

    /// Reports a message without this process's token, or a notice of a rank that the job lacks.
    #[cold]
    pub(crate) fn report_refused(&self, what: &str) {
        let me = self.me;
        self.reported_refused.call_once(|| {
            let from = "from a process outside of this job; further refusals are not reported";
            diagnostics::warn("transom::net", &format!("{me} refused a {what} {from}"));
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

    /// Reports a receive that has failed. The message is lost; a sender that belongs to the job may
    /// wait for the answer.
    #[cold]
    pub(crate) fn report_receive(&self, reason: &Cause) {
        let me = self.me;
        self.reported_receive.call_once(|| {
            let what = "a message could not be received, and is lost";
            let text = format!("{me}: {what}: {reason:#}; further such reports are not shown");
            diagnostics::warn("transom::net", &text);
        });
    }
}
