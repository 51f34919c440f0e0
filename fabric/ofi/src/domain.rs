//! A provider opened for a job: its endpoint, the pools of operations in flight, and the receives that wait for messages.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Region, RegionKey, Width};

use crate::endpoint::{Endpoint, Registration};
use crate::library::{Info, Library, SONAME};
use crate::offer::Offer;
use crate::port::{OfiPort, Open};
use crate::provider::Wish;
use crate::{environment, probe, provider, rules, sys};

/// How [`OfiDomain::open`] learns whether idle targets are served, and whether the atomics are right.
///
/// A provider over sockets that was opened with manual data progress (`tcp;ofi_rxm`) needs calls at the target by definition:
/// whatever is said here, its port's `passive_target` is false. A device that says so (`cxi`) is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveProbe {
    /// By trying it: two endpoints of this process, one of which makes no call. A provider that says that it needs none
    /// and does costs some 250 ms; one with manual progress is called at once, and only its atomics are tried.
    Run,
    /// From another rank, which tried.
    Known(bool),
}

/// What to open.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The provider, by the name that `fi_info` prints; otherwise the first that works of [`provider::PREFERRED`].
    pub provider: Option<String>,
    /// The devices to choose from where the provider has several (`cxi0,cxi1`), with `^` before the list those not to choose;
    /// otherwise those near to where this process is bound, in turns.
    pub devices: Option<String>,
    /// How it is learned whether idle targets are served.
    pub passive: PassiveProbe,
    /// The address of the interface at which peers reach this process, where the provider's addresses are those of interfaces; by
    /// default the loopback one, which peers of this machine reach. `None`: the provider chooses.
    pub source: Option<IpAddr>,
    /// The library's name for the loader.
    pub library: String,
    /// This process's rank, which goes with each message.
    pub rank: Peer,
    /// Whether a descriptor is asked for, to sleep on; some providers have none. Without one a wait is a nap.
    pub descriptor: bool,
}

impl Default for OfiOptions {
    fn default() -> Self {
        OfiOptions {
            provider: None,
            devices: None,
            passive: PassiveProbe::Run,
            source: Some(Ipv4Addr::LOCALHOST.into()),
            library: SONAME.into(),
            rank: Peer(0),
            descriptor: true,
        }
    }
}

/// An opened provider.
#[derive(Debug)]
pub struct OfiDomain {
    port: OfiPort,
}

/// What is settled before a provider is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembly {
    /// Idle targets are served.
    pub(crate) passive: bool,
    /// A probe showed that the atomics do not work.
    pub(crate) refuted: bool,
    pub(crate) rank: Peer,
    pub(crate) descriptor: bool,
}

/// Registered memory. It keeps the provider and the memory.
#[derive(Debug)]
pub struct OfiRegion {
    registration: Registration,
    key: RegionKey,
    atomics: Atomics,
    // After the registration: fields drop in order.
    _memory: Memory,
    _open: Arc<Open>,
}

/// Which atomics the provider performs: bit `width + 2 * kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Atomics(u8);

/// Marks keys of this backend.
pub(crate) const TAG: u64 = u64::from_le_bytes(*b"ofi rgn1");

impl OfiDomain {
    /// Opens a provider.
    ///
    /// # Errors
    /// `Unavailable` where the library or the provider is not there, with how to get it; `Failed` where opening failed.
    pub fn open(options: &OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        environment::settle(rules::of(options.provider.as_deref().unwrap_or_default()));
        OfiDomain::open_of(&Library::open(&options.library)?, options)
    }

    /// Opens a provider of a library that is there already.
    ///
    /// # Errors
    /// As [`OfiDomain::open`].
    #[doc(hidden)]
    pub fn open_of(library: &Arc<Library>, options: &OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        let wish = Wish {
            provider: options.provider.as_deref(),
            source: options.source,
            devices: options.devices.as_deref().unwrap_or_default(),
            rank: options.rank.0,
        };
        let info = provider::choose(library, &wish)?;
        let name = info.provider();
        let manual = Offer::of(&info).manual_progress;
        let called = rules::of(&name).targets_call(manual, |variable| std::env::var(variable).ok());
        let (passive, refuted) = match options.passive {
            PassiveProbe::Run => {
                let found = probe::run(library, &Wish { provider: Some(&name), ..wish }, called)?;
                (found.passive, !found.atomics)
            }
            PassiveProbe::Known(passive) => (passive && !called, false),
        };
        let OfiOptions { rank, descriptor, .. } = *options;
        OfiDomain::assemble(info, &Assembly { passive, refuted, rank, descriptor })
    }

    /// Opens what `info` offers.
    pub(crate) fn assemble(info: Info, how: &Assembly) -> Result<Arc<OfiDomain>, FabricError> {
        let endpoint = Endpoint::open(info, 4096, how.descriptor)?;
        let atomics = if how.refuted { Atomics::default() } else { Atomics::claimed(&endpoint) };
        Ok(Arc::new(OfiDomain { port: OfiPort::new(endpoint, atomics, how)? }))
    }

    /// The provider's name.
    pub fn provider(&self) -> String {
        self.endpoint().info().provider()
    }

    /// The provider's name, with the device's where it has several.
    pub fn name(&self) -> String {
        let (provider, info) = (self.provider(), self.endpoint().info());
        match rules::of(&provider).devices {
            Some(_) => format!("{provider} {}", info.domain_name()),
            None => provider,
        }
    }

    /// Whether its addresses are those of IP interfaces.
    pub fn goes_by_ip(&self) -> bool {
        rules::of(&self.provider()).ip
    }

    /// What must be the same at all ranks: the provider, and the variables that all processes of a job must have alike.
    pub fn agreement(&self) -> String {
        let name = self.provider();
        rules::of(&name).agreement(&name, |variable| std::env::var(variable).ok())
    }

    /// The endpoint, for measuring bare calls.
    #[doc(hidden)]
    pub fn endpoint(&self) -> &Endpoint {
        &self.port.open().endpoint
    }
}

impl Domain for OfiDomain {
    type Region = OfiRegion;
    type Port = OfiPort;

    fn port(&self) -> &OfiPort {
        &self.port
    }

    fn register(&self, memory: &Memory) -> Result<OfiRegion, FabricError> {
        let endpoint = self.endpoint();
        // SAFETY: the region keeps a clone of the memory until after its registration is closed.
        let registration = unsafe { endpoint.register(memory.as_ptr(), memory.len()) }?;
        let base = if endpoint.registering().addresses { memory.as_ptr() as u64 } else { 0 };
        let key = RegionKey([TAG, registration.key(), base, memory.len() as u64]);
        let atomics = self.port.atomics();
        Ok(OfiRegion { registration, key, atomics, _memory: memory.clone(), _open: Arc::clone(self.port.open()) })
    }
}

impl OfiRegion {
    /// The descriptor for local use (man fi_mr), for measuring bare calls.
    #[doc(hidden)]
    pub fn descriptor(&self) -> *mut std::ffi::c_void {
        self.registration.descriptor()
    }
}

impl Region for OfiRegion {
    fn key(&self) -> RegionKey {
        self.key
    }

    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence> {
        self.atomics.coherence(kind, width)
    }
}

impl Atomics {
    /// What the provider claims, in the forms that are used.
    fn claimed(endpoint: &Endpoint) -> Atomics {
        let mut bits = 0;
        for kind in AmoKind::ALL {
            for width in [Width::W32, Width::W64] {
                let form = match kind {
                    AmoKind::CompareSwap => sys::FI_COMPARE_ATOMIC,
                    _ => sys::FI_FETCH_ATOMIC,
                };
                if endpoint.claims_atomic(datatype(width), operation(kind), form) {
                    bits |= Atomics::bit(kind, width);
                }
            }
        }
        Atomics(bits)
    }

    fn bit(kind: AmoKind, width: Width) -> u8 {
        let place = AmoKind::ALL.iter().position(|&other| other == kind).unwrap_or(0) * 2;
        1 << (place + usize::from(width == Width::W64))
    }

    /// Atomics of libfabric are atomic with each other only: software providers use locks or CPU atomics as they like.
    pub(crate) fn coherence(self, kind: AmoKind, width: Width) -> Option<Coherence> {
        (self.0 & Atomics::bit(kind, width) != 0).then_some(Coherence::DeviceOnly)
    }
}

pub(crate) fn datatype(width: Width) -> u32 {
    match width {
        Width::W32 => sys::FI_UINT32,
        Width::W64 => sys::FI_UINT64,
    }
}

pub(crate) fn operation(kind: AmoKind) -> u32 {
    match kind {
        AmoKind::Sum => sys::FI_SUM,
        AmoKind::Replace => sys::FI_ATOMIC_WRITE,
        AmoKind::Read => sys::FI_ATOMIC_READ,
        AmoKind::CompareSwap => sys::FI_CSWAP,
    }
}
