//! Messages from processes outside the job: they are dropped and reported once, so that no process
//! can flood the job's output.

use std::sync::Once;

use transom_fabric::{Peer, diagnostics};

/// The count of such messages at one endpoint.
#[derive(Debug)]
pub(crate) struct Strangers {
    me: Peer,
    told: Once,
}

impl Strangers {
    pub(crate) fn new(me: Peer) -> Strangers {
        Strangers { me, told: Once::new() }
    }

    /// Handles a message without this process's token.
    #[cold]
    pub(crate) fn refused(&self) {
        let me = self.me;
        self.told.call_once(|| {
            let what = "refused a message of a process that is not of this job; it tells of no more of them";
            diagnostics::warn("transom::net", &format!("{me} {what}"));
        });
    }
}
