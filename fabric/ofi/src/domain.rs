//! A provider opened for a job: its endpoint, the pools of operations in flight, and the posted
//! receives.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Region, RegionKey, Width};

use crate::endpoint::{Endpoint, Registration};
use crate::library::{Info, Library, SONAME};
use crate::offer::Offer;
use crate::port::{OfiPort, Open};
use crate::provider::Wish;
use crate::{environment, probe, provider, rules, sys};

/// How [`OfiDomain::open`] learns whether idle targets are served and whether atomics are correct.
///
/// A provider over sockets that was opened with manual data progress (`tcp;ofi_rxm`) needs calls at
/// the target by definition: its port's `passive_target` is false in either case. A device with
/// manual progress (`cxi`) is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveProbe {
    /// By a probe: two endpoints of this process, one of which makes no call. A provider that
    /// claims automatic progress but needs calls costs some 250 ms. The target of a provider with
    /// manual progress is called at once, and only atomics are probed.
    Run,
    /// From another rank's probe.
    Known(bool),
}

/// Options of a provider to open.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The provider, by the name that `fi_info` prints; `None`: the first of
    /// [`provider::PREFERRED`] that works.
    pub provider: Option<String>,
    /// The devices to choose from where the provider has several (`cxi0,cxi1`); `^` before the list
    /// excludes them. `None`: those near to the CPUs of this process, in turns.
    pub devices: Option<String>,
    /// How the service of idle targets is learned.
    pub passive: PassiveProbe,
    /// The address of the interface at which peers reach this process, where the provider's
    /// addresses are those of interfaces; by default the loopback address, which peers of this
    /// machine reach. `None`: the provider chooses.
    pub source: Option<IpAddr>,
    /// The library's name for the dynamic loader.
    pub library: String,
    /// This process's rank, which each message carries.
    pub rank: Peer,
    /// Whether a wait sleeps on a descriptor, which some providers lack. Without one a wait is a
    /// nap.
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

/// Decisions that precede the opening of a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembly {
    /// Idle targets are served.
    pub(crate) passive: bool,
    /// A probe showed that the atomics do not work.
    pub(crate) refuted: bool,
    pub(crate) rank: Peer,
    pub(crate) descriptor: bool,
}

/// Registered memory. It keeps the provider open and the memory alive.
#[derive(Debug)]
pub struct OfiRegion {
    registration: Registration,
    key: RegionKey,
    atomics: Atomics,
    // Declared after the registration, because fields drop in order.
    _memory: Memory,
    _open: Arc<Open>,
}

/// Which atomics the provider performs: bit `width + 2 * kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Atomics(u8);

/// Tag of this backend's keys.
pub(crate) const TAG: u64 = u64::from_le_bytes(*b"ofi rgn1");

impl OfiDomain {
    /// Opens a provider.
    ///
    /// # Errors
    /// `Unavailable` where the library or the provider is missing, with instructions to get it;
    /// `Failed` where opening failed.
    pub fn open(options: &OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        environment::settle(rules::of(options.provider.as_deref().unwrap_or_default()));
        OfiDomain::open_of(&Library::open(&options.library)?, options)
    }

    /// Opens a provider of a library that is already open.
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
        let called = rules::of(&name).targets_call(manual, environment::variable);
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

    /// Opens the provider of `info`.
    pub(crate) fn assemble(info: Info, how: &Assembly) -> Result<Arc<OfiDomain>, FabricError> {
        let endpoint = Endpoint::open(info, 4096, how.descriptor)?;
        let atomics = if how.refuted { Atomics::default() } else { Atomics::claimed(&endpoint) };
        Ok(Arc::new(OfiDomain { port: OfiPort::new(endpoint, atomics, how)? }))
    }

    /// The provider's name.
    pub fn provider(&self) -> String {
        self.endpoint().info().provider()
    }

    /// The provider's name, with the device's name where the provider has several devices.
    pub fn name(&self) -> String {
        let (provider, info) = (self.provider(), self.endpoint().info());
        match rules::of(&provider).devices {
            Some(_) => format!("{provider} {}", info.domain_name()),
            None => provider,
        }
    }

    /// Whether the provider's addresses are those of IP interfaces.
    pub fn goes_by_ip(&self) -> bool {
        rules::of(&self.provider()).ip
    }

    /// Settings on which all ranks must agree: the provider, and the variables that must be equal
    /// in all processes of a job.
    pub fn agreement(&self) -> String {
        let name = self.provider();
        rules::of(&name).agreement(&name, environment::variable)
    }

    /// The endpoint, for measurements of bare calls.
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
    /// The descriptor for local use (man fi_mr), for measurements of bare calls.
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
    /// The atomics that the provider claims, in the forms that the port uses.
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

    /// libfabric's atomics are atomic with each other only: software providers use locks or CPU
    /// atomics as they choose.
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
