//! Atomics in libfabric's terms, and which of them a provider performs.

use transom_fabric::{AmoKind, Coherence, Width};

use crate::endpoint::Endpoint;
use crate::sys;

/// Which atomics the provider performs: bit `width + 2 * kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Atomics(u8);

impl Atomics {
    /// The atomics that the provider claims, in the forms that the port uses.
    pub(crate) fn claimed(endpoint: &Endpoint) -> Atomics {
        let mut bits = 0;
        for kind in AmoKind::ALL {
            for width in [Width::W32, Width::W64] {
                if endpoint.claims_atomic(datatype(width), operation(kind), kind == AmoKind::CompareSwap) {
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

    /// The coherence of an atomic. libfabric's atomics are only assumed to be atomic with each
    /// other, because a software provider may use locks or CPU atomics.
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
