//! A rank's domain and regions: handles to state that the net holds.

use std::sync::{Arc, RwLock};

use super::apply::SimPort;
use super::net::SimNet;
use crate::{AmoKind, Coherence, Domain, FabricError, Immediates, Memory, Peer, Region, RegionKey, Width};

/// A rank of a simulated net, opened by [`SimNet::domain`].
#[derive(Debug)]
pub struct SimDomain {
    port: SimPort,
}

impl SimDomain {
    pub(super) fn new(net: Arc<SimNet>, me: Peer) -> SimDomain {
        let mut limits = net.options().limits();
        if net.options().delivery.without_immediates == Some(me.0) {
            limits.immediates = Immediates::NONE;
        }
        SimDomain { port: SimPort { net, me, limits, handling: RwLock::default() } }
    }
}

impl Domain for SimDomain {
    type Region = SimRegion;
    type Port = SimPort;

    fn port(&self) -> &SimPort {
        &self.port
    }

    fn register(&self, memory: &Memory) -> Result<SimRegion, FabricError> {
        let SimPort { net, me, .. } = &self.port;
        Ok(SimRegion { key: net.register(*me, memory)?, owner: *me, net: Arc::clone(net) })
    }
}

/// Registered memory of a rank. Operations in flight to a region that is dropped fail with a fault
/// that names the cause.
#[derive(Debug)]
pub struct SimRegion {
    net: Arc<SimNet>,
    owner: Peer,
    key: RegionKey,
}

impl Region for SimRegion {
    fn key(&self) -> RegionKey {
        self.key
    }

    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence> {
        self.net.options().amo.coherence(kind, width)
    }
}

impl Drop for SimRegion {
    fn drop(&mut self) {
        self.net.deregister(self.owner, &self.key);
    }
}

/// A region of a peer, from its key.
#[derive(Debug)]
pub struct SimRemote {
    pub(super) peer: Peer,
    pub(super) region: u64,
    pub(super) len: usize,
}
