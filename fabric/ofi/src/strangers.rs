//! Messages from processes outside the job: they are dropped and reported once, so that no process
//! can flood the job's output.

use std::sync::Once;

use transom_fabric::{Peer, diagnostics};

/// The count of such messages at one endpoint.
#[derive(Debug)]
pub(crate) struct Strangers {
    me: Peer,
    reported: Once,
}

impl Strangers {
    pub(crate) fn new(me: Peer) -> Strangers {
        Strangers { me, reported: Once::new() }
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
}
