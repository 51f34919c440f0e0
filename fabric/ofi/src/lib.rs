//! libfabric as a transport: `tcp;ofi_rxm`, `cxi`, and whatever else offers RMA on reliable datagram endpoints.
//!
//! The library is opened at run time and providers are probed, never assumed. A put is a write whose completion
//! means that the target has it (`FI_DELIVERY_COMPLETE`), a get a read, an atomic a fetching atomic, delivered too, where the
//! provider performs it. Where the provider honours it, data progress is manual: whoever opens a port whose
//! `passive_target` is false has a thread call `progress`, asleep in `wait` meanwhile. Knows nothing of windows, and of shared memory.
//!
//! What differs between providers is the table in `rules`; what one says of itself is plain data (`offer`), from which
//! follows how memory is registered and by which keys.
//!
//! # Slingshot (`cxi`)
//! **No Slingshot hardware has run this code.** What is done for `cxi` is what its documentation says (man fi_cxi of libfabric 2.x, and the
//! attributes that `fi_info` shows), shown by unit tests on those attributes, by the contract's tests on a stand-in
//! for the library that refuses what the documentation rules out, and by jobs on the simulated net within the same limits
//! (`SimOptions::like_cxi`):
//!
//! | what | documented | done here |
//! |---|---|---|
//! | registration | bound to an endpoint and enabled; pinned pages; addressed by offsets | so; pages are brought in before |
//! | keys | of 32 bits, the client's; 0-99 are optimized regions, all others standard ones | the lowest free one; a standard one where the device has no room for an optimized one; used again |
//! | completion | by default when the target's device has the data; visible to its processes with delivery complete | delivery complete for every put and atomic, so a flush is waiting for counts |
//! | order | none unless asked for, and none at all of reads after writes | none is asked for, nor `FI_FENCE`: the contract has no order |
//! | atomics | the device's, one element at a time | sum, read, write, compare-and-swap of 32 and 64 bits, fetching; never taken to be atomic with the CPU's |
//! | progress | manual | a probe tries whether an idle target is served; with `FI_CXI_MR_MATCH_EVENTS` targets call |
//! | waiting | descriptors in newer versions | used where they are; else a wait is a nap of 200 us |
//! | messages | up to `FI_CXI_RDZV_THRESHOLD` (16 KiB) go at once | of 16 KiB at most |
//! | devices | a domain each; the launcher's variables grant some (`SLINGSHOT_DEVICES`) | among those granted and wanted the near ones, in turns |
//! | authorization, sizes of queues | the launcher's `SLINGSHOT_` and the user's `FI_CXI_` variables, where the caller sets nothing | nothing is set |
//! | optimized regions off | at all processes or none (`FI_CXI_OPTIMIZED_MRS`) | ranks that differ do not start |
//!
//! Not used: the provider's keys (`FI_MR_PROV_KEY`), atomics of PCIe, unreliable ones, high rate puts, counters, triggered operations.

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
mod port;
#[allow(unsafe_code)]
mod probe;
mod provider;
mod rules;
#[allow(unsafe_code)]
mod signals;
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
