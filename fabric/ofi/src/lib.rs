//! libfabric as a transport: `tcp;ofi_rxm`, `cxi`, and every other provider that offers RMA on
//! reliable datagram endpoints.
//!
//! The library is opened at run time, and providers are probed. A put is a write whose completion
//! means that the target has the data (`FI_DELIVERY_COMPLETE`), a get is a read, an atomic is a
//! fetching atomic with delivery complete, where the provider performs it. Data progress is manual
//! where the provider supports it: the opener of a port whose `passive_target` is false runs a
//! thread that calls `progress` and sleeps in `wait`. Independent of windows and of shared memory.
//!
//! The table in `rules` holds the differences between providers. A provider's attributes are plain
//! data (`offer`), which determine the registration of memory and its keys.
//!
//! # Slingshot (`cxi`)
//! **No Slingshot hardware has run this code.** The code for `cxi` follows the documentation (man
//! fi_cxi of libfabric 2.x, and the attributes that `fi_info` shows). It is tested by unit tests on
//! those attributes, by the contract's tests on a stand-in for the library that refuses calls that
//! the documentation forbids, and by jobs on the simulated net with the limits of `cxi`
//! (`SimOptions::like_cxi`):
//!
//! - **Registration**: documented: bound to an endpoint and enabled; pinned pages; addressed by
//!   offsets. In this crate: the same; pages are
//!   populated before.
//! - **Keys**: documented: of 32 bits, the client's; 0-99 are optimized regions, all others
//!   standard ones. In this crate: the lowest free key; a standard one where the device has no room
//!   for an optimized region; keys are reused.
//! - **Completion**: documented: by default when the target's device has the data; visible to its
//!   processes with delivery complete. In this crate: delivery complete for every put and atomic,
//!   so a flush only waits for the count.
//! - **Order**: documented: none unless requested, and never between reads and earlier writes. In
//!   this crate: neither order nor `FI_FENCE` is requested, because the contract has no order.
//! - **Atomics**: documented: the device's, one element at a time. In this crate: sum, read, write,
//!   compare-and-swap of 32 and 64 bits, fetching; never taken to be atomic with the CPU's.
//! - **Progress**: documented: manual. In this crate: a probe tries whether an idle target is
//!   served; with `FI_CXI_MR_MATCH_EVENTS` targets call.
//! - **Waiting**: documented: descriptors in newer versions. In this crate: used where they exist;
//!   else a wait sleeps for 200 us.
//! - **Messages**: documented: up to `FI_CXI_RDZV_THRESHOLD` (16 KiB) go at once. In this crate: at
//!   most 16 KiB.
//! - **Devices**: documented: a domain each; the launcher's variables grant some
//!   (`SLINGSHOT_DEVICES`). In this crate: ranks are distributed over the near ones of the granted
//!   and requested devices.
//! - **Authorization, sizes of queues**: documented: the launcher's `SLINGSHOT_` and the user's
//!   `FI_CXI_` variables, where the caller sets nothing. In this crate: nothing is set.
//! - **Optimized regions off**: documented: at all processes or none (`FI_CXI_OPTIMIZED_MRS`). In
//!   this crate: ranks that differ do not start.
//!
//! Not used: the provider's keys (`FI_MR_PROV_KEY`), atomics of PCIe, unreliable ones, high rate
//! puts, counters, triggered operations.

mod atomics;
#[allow(unsafe_code)]
mod domain;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod endpoint;
#[allow(unsafe_code)]
mod environment;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod library;
mod nic;
mod offer;
#[allow(unsafe_code)]
mod opened;
mod opening;
#[allow(unsafe_code)]
mod port;
#[allow(unsafe_code)]
mod posting;
#[allow(unsafe_code)]
mod probe;
#[allow(unsafe_code)]
mod progress;
mod provider;
mod remote;
mod rules;
#[allow(unsafe_code)]
mod signals;
#[allow(unsafe_code)]
mod slots;
mod strangers;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use domain::{OfiDomain, OfiRegion};
pub use library::SONAME;
pub use offer::Offer;
pub use opening::{OfiOptions, PassiveProbe};
pub use port::OfiPort;
pub use provider::{PREFERRED, ProviderInfo, providers};
pub use remote::OfiRemote;
