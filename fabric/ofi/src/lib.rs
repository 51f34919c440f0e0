//! libfabric as a transport: `tcp`, `net`, `cxi`, and every other provider that offers RMA on
//! reliable datagram endpoints.
//!
//! The library is opened at run time, and providers are probed. A put is a write whose completion
//! means that the target has the data (`FI_DELIVERY_COMPLETE`), and a get is a read. An atomic is a
//! fetching atomic with delivery complete, if the provider performs it. Data progress is manual if
//! the provider supports that. If `Limits::passive_target` is false, targets have to make calls:
//! the user of the port runs a thread that calls `progress` and sleeps in `wait`. Independent of
//! windows and of shared memory.
//!
//! The table in `rules` holds the differences between providers. A provider's attributes are plain
//! data (`offer`), which determine the registration of memory and its keys.
//!
//! # Slingshot (`cxi`)
//!
//! **No Slingshot hardware has run this code.** The code for `cxi` follows the documentation (man
//! fi_cxi of libfabric 2.x, and the attributes that `fi_info` shows). Three kinds of tests cover
//! it: unit tests on those attributes; the contract's tests on a stand-in for the library, which
//! refuses the calls that the documentation forbids; and jobs on the simulated net with the limits
//! of `cxi` (`SimOptions::like_cxi`).
//!
//! | subject | the documentation | this crate |
//! |---|---|---|
//! | registration | regions are bound to an endpoint and enabled, their pages are pinned, and offsets address them | the same; pages are populated before they are registered |
//! | keys | 32 bits, chosen by the client; 0 to 99 select *optimized* regions, others *standard* ones | the lowest free key; a standard key if the device has no room for an optimized region; keys are reused; keys of the provider if puts carry notices |
//! | completion | by default: the target's device has the data; with delivery complete: the target's processes see the data | delivery complete for every put and atomic, so a flush only waits for the count of operations |
//! | order | none unless requested, and never between a read and an earlier write | neither order nor `FI_FENCE` is requested, because the contract has no order; order between writes if puts carry notices |
//! | atomics | by the device, one element at a time | fetching: sum, read, write and compare-and-swap of 32 and 64 bits; never assumed to be atomic with the CPU's |
//! | progress | manual | a probe tests whether an idle target is served; with `FI_CXI_MR_MATCH_EVENTS` targets make calls |
//! | waiting | descriptors, in newer versions | descriptors if they exist, else a sleep of 200 us |
//! | messages | up to `FI_CXI_RDZV_THRESHOLD` (16 KiB) are sent at once | at most 16 KiB |
//! | devices | a domain for each device; the launcher grants some by `SLINGSHOT_DEVICES` | ranks are distributed over the nearest devices that are granted and requested |
//! | authorization | from the launcher's `SLINGSHOT_` variables, unless the caller sets it | sets none of it; a job that can't open the device uses the next provider |
//! | length of the completion queue | `FI_CXI_DEFAULT_CQ_SIZE`, unless the caller sets it; an overflow ends the process | 32,768 entries, or the user's value if it is larger |
//! | other queue sizes | from the user's `FI_CXI_` variables, unless the caller sets them | sets none of them |
//! | writes with remote CQ data | from 2.5 on with `FI_CXI_ENABLE_WRITEDATA`, and with keys of the provider | puts carry notices, if a probe finds that it works and the queues have room (`notices`) |
//! | `FI_CXI_OPTIMIZED_MRS`, `FI_CXI_ENABLE_WRITEDATA` | equal at all processes | a job does not start if the texts of its ranks differ (`1`, `yes`) |
//!
//! Not used: keys of the provider (`FI_MR_PROV_KEY`) unless puts carry notices, PCIe atomics,
//! unreliable operations, high-rate puts, counters, triggered operations, events at targets
//! (`FI_RMA_EVENT`).

mod atomics;
mod carrying;
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
#[allow(unsafe_code)]
mod notices;
mod offer;
#[allow(unsafe_code)]
mod opened;
mod opening;
#[allow(unsafe_code)]
mod pacing;
#[allow(unsafe_code)]
mod pages;
#[allow(unsafe_code)]
mod port;
#[allow(unsafe_code)]
mod posting;
#[allow(unsafe_code)]
mod probe;
#[allow(unsafe_code)]
mod progress;
mod provider;
mod queues;
mod region_lock;
mod remote;
mod rules;
mod sending;
#[allow(unsafe_code)]
mod signals;
#[allow(unsafe_code)]
mod slots;
mod strangers;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use carrying::Carrying;
pub use domain::{OfiDomain, OfiRegion};
pub use library::SONAME;
pub use offer::Offer;
pub use opening::{OfiOptions, PassiveProbe};
pub use port::OfiPort;
pub use provider::{PREFERRED, ProviderInfo, providers};
pub use remote::OfiRemote;
