//! An opened provider: its port, and memory registered with it.

use std::sync::Arc;

use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Region, RegionKey, Width};

use crate::atomics::Atomics;
use crate::endpoint::{Endpoint, Registration};
use crate::library::Info;
use crate::opened::{Open, PortSettings};
use crate::port::OfiPort;
use crate::remote::TAG;
use crate::{environment, rules};

/// An opened provider.
#[derive(Debug)]
pub struct OfiDomain {
    port: OfiPort,
    unused: Vec<String>,
}

/// Registered memory, which keeps the provider open and the memory alive.
#[derive(Debug)]
pub struct OfiRegion {
    registration: Registration,
    key: RegionKey,
    atomics: Atomics,
    // Declared after the registration, because fields drop in order.
    _memory: Memory,
    _open: Arc<Open>,
}

impl OfiDomain {
    /// Opens a provider that [`choose`](crate::provider::choose) has found.
    pub(crate) fn open_chosen(
        info: Info,
        unused: &[String],
        settings: &PortSettings,
    ) -> Result<Arc<OfiDomain>, FabricError> {
        let entries = rules::of(&info.provider()).queue.length(environment::variable);
        let endpoint = Endpoint::open(info, entries, settings.descriptor)?;
        let atomics = if settings.atomics_fail { Atomics::default() } else { Atomics::claimed(&endpoint) };
        Ok(Arc::new(OfiDomain { port: OfiPort::new(endpoint, atomics, entries, settings)?, unused: unused.to_vec() }))
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

    /// For each provider that comes before this one in the order of preference, and has devices on
    /// this machine: the reason why they are not used.
    pub fn unused(&self) -> &[String] {
        &self.unused
    }

    /// Whether the provider's addresses are those of IP interfaces.
    pub fn uses_ip(&self) -> bool {
        rules::of(&self.provider()).ip
    }

    /// The provider's variables that must be equal in all processes of a job, with the values that
    /// are set.
    pub fn agreed(&self) -> impl Iterator<Item = (&'static str, String)> {
        rules::of(&self.provider()).agreed(environment::variable)
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
    /// The region's local descriptor (man fi_mr, `fi_mr_desc`), which bare calls of libfabric take.
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
