//! libfabric as a transport: `tcp;ofi_rxm` and whatever else offers RMA on reliable datagram endpoints.
//!
//! The library is opened at run time and providers are probed, never assumed. A put is a write whose completion
//! means that the target has it (`FI_DELIVERY_COMPLETE`), a get a read, an atomic a fetching atomic where the
//! provider performs it. Where the provider honours it, data progress is manual: whoever opens a port whose
//! `passive_target` is false has a thread call `progress`, asleep in `wait` meanwhile. Knows nothing of windows, and of shared memory.

#[allow(unsafe_code)]
mod domain;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod endpoint;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod library;
mod nic;
mod offer;
#[allow(unsafe_code)]
mod port;
#[allow(unsafe_code)]
mod probe;
mod provider;
mod rules;
#[allow(unsafe_code)]
mod slots;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use domain::{OfiDomain, OfiOptions, OfiRegion, PassiveProbe};
pub use library::SONAME;
pub use offer::Offer;
pub use port::{OfiPort, OfiRemote};
pub use provider::{PREFERRED, ProviderInfo, providers};
