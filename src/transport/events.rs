//! Events of all lanes: completions and messages, sleeps until they come, and what ends the sleeps.

use std::time::Duration;

use transom_fabric::{Awaited, Domain, FabricError, Fault, Handler, Peer, Port, Reason};

use super::{Doorbell, Lane, Net, Wire};

impl Wire {
    /// Processes completions of `lane`, and messages by `handler`, without blocking.
    pub(crate) fn poll(&self, lane: Lane, handler: &impl Handler) -> Result<usize, FabricError> {
        match (lane, &self.shm, &self.net) {
            (Lane::Shm, Some(shm), _) => shm.port().progress(handler),
            (Lane::Net, _, Some(net)) => each_net!(net, domain => domain.port().progress(handler)),
            _ => Ok(0),
        }
    }

    /// [`Wire::poll`] for a caller that awaits no completion of this rank's operations.
    pub(crate) fn poll_arrivals(&self, lane: Lane, handler: &impl Handler) -> Result<usize, FabricError> {
        match (lane, &self.net) {
            (Lane::Net, Some(net)) => each_net!(net, domain => domain.port().progress_arrivals(handler)),
            _ => self.poll(lane, handler),
        }
    }

    /// Hands all immediates of the net that have arrived to the handler. Returns whether the net
    /// has immediates.
    #[inline]
    pub(crate) fn settle(&self, handler: &impl Handler) -> Result<bool, FabricError> {
        match &self.net {
            Some(net) if net.has_immediates() => each_net!(net, domain => domain.port().settle(handler)).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The first peer that the net knows to be lost: operations wait for it in vain.
    pub(crate) fn lost(&self) -> Option<Fault> {
        self.net.as_ref().and_then(|net| each_net!(net, domain => domain.port().lost()))
    }

    /// Ends the net's connection to a peer that has died or can't be reached.
    pub(crate) fn lose(&self, peer: Peer, reason: Reason) {
        if let Some(net) = &self.net {
            each_net!(net, domain => domain.port().lose(peer, reason));
        }
    }

    /// Sleeps until `lane` may have news, at most for `limit`.
    pub(crate) fn wait_on(&self, lane: Lane, limit: Duration) {
        match (lane, &self.shm, &self.net) {
            (Lane::Shm, Some(shm), _) => shm.port().wait(limit),
            (Lane::Net, _, Some(net)) => each_net!(net, domain => domain.port().wait(limit)),
            _ => {}
        }
    }

    /// Sleeps until something may have happened on any lane: on the net's descriptors where there
    /// is one, since only the net brings completions, and on the pipe that ranks of the node fill.
    /// `still_idle` is called once more after the sleep is announced, for words that change with a
    /// [`Wire::wake_peer`], or with [`Wire::end_sleeps`] by another thread. True if the net reports
    /// that `limit` passed.
    pub(crate) fn wait(&self, limit: Duration, awaited: Awaited, still_idle: impl FnOnce() -> bool) -> bool {
        let Some(net) = &self.net else {
            if let Some(shm) = &self.shm {
                shm.port().wait_while(limit, still_idle);
            }
            return false;
        };
        let Some(shm) = &self.shm else {
            return !each_net!(net, domain => domain.port().wait_with_descriptor(limit, awaited, None, still_idle));
        };
        let mut passed = false;
        shm.port().wait_on_descriptors(still_idle, |node| {
            passed = !each_net!(net, domain => domain.port().wait_with_descriptor(limit, awaited, node, || true));
        });
        passed
    }

    /// Wakes a peer of this node that waits for one of its words.
    pub(crate) fn wake_peer(&self, peer: Peer) {
        if let Some(shm) = &self.shm {
            shm.port().wake_peer(peer);
        }
    }

    /// The doorbell of a peer of this node, to which a way was opened.
    pub(crate) fn doorbell(&self, peer: Peer) -> Option<Doorbell> {
        self.shm.as_ref()?.port().doorbell(peer)
    }

    /// Ends the sleeps of all threads in [`Wire::wait`], which then check what they wait for.
    pub(crate) fn end_sleeps(&self) {
        match (&self.shm, &self.net) {
            (Some(shm), _) => shm.port().end_sleeps(),
            (None, Some(net)) => each_net!(net, domain => domain.port().wake()),
            (None, None) => {}
        }
    }

    /// `Port::posts` of a lane.
    pub(crate) fn posts(&self, lane: Lane) -> u32 {
        match (lane, &self.net) {
            (Lane::Net, Some(net)) => each_net!(net, domain => domain.port().posts()),
            _ => 0,
        }
    }

    /// Ends the [`Wire::wait_on`] of another thread on this lane, or the next one.
    pub(crate) fn wake(&self, lane: Lane) {
        match (lane, &self.shm, &self.net) {
            (Lane::Shm, Some(shm), _) => shm.port().wake(),
            (Lane::Net, _, Some(net)) => each_net!(net, domain => domain.port().wake()),
            _ => {}
        }
    }
}
