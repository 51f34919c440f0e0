//! The settings that a measurement of bare calls needs in order to use the paths of the library.

use std::net::IpAddr;

use super::Job;
use crate::transport::{self, PathOptions};

impl Job {
    /// The address at which peers reach this rank through a net with IP addresses.
    #[doc(hidden)]
    pub fn source(&self) -> IpAddr {
        self.core.presence.source.address
    }

    /// The settings of the open net's paths in words, as `TRANSOM_INFO=1` prints them. For tests.
    #[doc(hidden)]
    pub fn net_paths(&self) -> Option<String> {
        self.core.wire.net().and_then(transport::Net::paths)
    }

    /// The settings of the paths of RDMA devices.
    #[doc(hidden)]
    pub fn rdma_paths(&self) -> PathOptions {
        transport::rdma_paths(&self.core.settings)
    }
}
