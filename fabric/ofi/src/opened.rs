//! An open endpoint with its pools: the records and buffers of operations, of messages sent, and of
//! posted receives.

use std::ffi::c_void;
use std::sync::Arc;

use transom_fabric::{FabricError, Peer};

use crate::endpoint::{Endpoint, Registration};
use crate::offer::Offer;
use crate::slots::{Slot, Slots};
use crate::sys;

/// Most operations in flight.
const OPERATIONS: u32 = 1024;
/// Longest inline or packed put, in bytes.
pub(crate) const PACKED: usize = 4096;
/// Most outgoing messages in flight.
const SENDS: u32 = 128;
/// Maximum number of messages that arrive before `progress` takes them. Their buffers take 3 MiB.
const RECEIVES: u32 = 192;
/// Longest message in bytes, with its header: the longest that `tcp;ofi_rxm` sends by its eager
/// protocol.
pub(crate) const MESSAGE: usize = 16384;

/// Properties that are known before a provider is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembly {
    /// Whether puts, gets and atomics complete while the target makes no call.
    pub(crate) passive: bool,
    /// Whether a probe has shown that the atomics do not work.
    pub(crate) refuted: bool,
    pub(crate) rank: Peer,
    pub(crate) descriptor: bool,
}

/// The endpoint and its buffers. Regions keep it, so that no memory that the provider uses is
/// freed. Fields drop in order: registrations, then the endpoint with the operations in flight,
/// then the buffers.
#[derive(Debug)]
pub(crate) struct Open {
    /// Registrations of the pools' memory in the order of [`Pool`], where the provider requires
    /// registered origin buffers.
    local: Option<[Registration; 3]>,
    pub(crate) endpoint: Endpoint,
    pub(crate) operations: Slots,
    pub(crate) sends: Slots,
    pub(crate) receives: Slots,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.operations.abandon();
    }
}

/// The owner of a buffer's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pool {
    Operations,
    Sends,
    Receives,
}

impl Open {
    /// Makes the pools, registers them where the provider requires it, and posts the receives.
    pub(crate) fn new(endpoint: Endpoint, offer: &Offer) -> Result<Arc<Open>, FabricError> {
        let operations = Slots::new(OPERATIONS, PACKED);
        let most = u32::try_from(offer.receives).unwrap_or(RECEIVES).clamp(1, RECEIVES);
        let (sends, receives) = (Slots::new(SENDS, MESSAGE), Slots::new(most, MESSAGE));
        let local = match endpoint.registering().local {
            false => None,
            true => {
                Some([register(&endpoint, &operations)?, register(&endpoint, &sends)?, register(&endpoint, &receives)?])
            }
        };
        let open = Arc::new(Open { local, endpoint, operations, sends, receives });
        for slot in open.receives.all() {
            open.post_receive(slot)?;
        }
        Ok(open)
    }

    /// Whether the provider requires registered origin buffers.
    pub(crate) fn registers(&self) -> bool {
        self.local.is_some()
    }

    /// The descriptor of a pool's buffers; null where the provider requires none.
    pub(crate) fn descriptor(&self, pool: Pool) -> *mut c_void {
        self.local.as_ref().map_or(std::ptr::null_mut(), |pools| pools[pool as usize].descriptor())
    }

    /// Posts a receive into a slot's buffer.
    pub(crate) fn post_receive(&self, slot: &Slot) -> Result<(), FabricError> {
        loop {
            // SAFETY: the slot's buffer and context belong to the provider until the completion;
            // the pool lives as long as the endpoint is open (see Drop).
            let status = unsafe {
                let receive = (*(*self.endpoint.ep).msg).recv.expect("recv");
                receive(
                    self.endpoint.ep,
                    slot.buffer().cast(),
                    MESSAGE,
                    self.descriptor(Pool::Receives),
                    u64::MAX,
                    slot.context(),
                )
            };
            match -status {
                0 => return Ok(()),
                sys::FI_EAGAIN => std::thread::yield_now(),
                _ => return Err(FabricError::failed("fi_recv", self.endpoint.library().strerror(status))),
            }
        }
    }
}

fn register(endpoint: &Endpoint, slots: &Slots) -> Result<Registration, FabricError> {
    let (at, len) = slots.buffers();
    // SAFETY: the pool and its registration are fields of one `Open`, whose drop closes the
    // registration first.
    unsafe { endpoint.register(at, len) }
}
