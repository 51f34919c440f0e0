//! The datagram queue pair, over which processes exchange hellos before they are connected.

use std::sync::Arc;

use transom_fabric::FabricError;

use crate::address::{Address, HELLO_LEN, Hello};
use crate::device::Device;
use crate::pair::{AddressHandle, Capacity, Pair};
use crate::pool::Pool;
use crate::queue::CompletionQueue;
use crate::sys;
use crate::wr_id::WrId;

/// Maximum number of hellos in flight in each direction. Further hellos are dropped, because the
/// handshake tolerates the loss of hellos.
pub(crate) const HELLOS: u32 = 64;
/// Length of the header that the device puts before each datagram.
const HEADER: usize = 40;
/// Length of a buffer in bytes.
const BUFFER: usize = 256;
const _: () = assert!(HEADER + HELLO_LEN <= BUFFER);

/// The datagram queue pair with its buffers.
#[derive(Debug)]
pub(crate) struct Datagrams {
    // Declared before the buffers, because fields drop in order.
    pair: Pair,
    sends: Pool,
    receives: Pool,
    address: Address,
}

impl Datagrams {
    /// A datagram queue pair whose receives are posted.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn new(
        device: &Arc<Device>,
        queue: &Arc<CompletionQueue>,
        token: u64,
    ) -> Result<Datagrams, FabricError> {
        let pair = Pair::datagram(queue, Capacity { sends: HELLOS, receives: HELLOS, inline: 0, list: 1 })?;
        let (sends, receives) = (Pool::new(device, HELLOS, BUFFER)?, Pool::new(device, HELLOS, BUFFER)?);
        let address = device.address(token, pair.number());
        let datagrams = Datagrams { pair, sends, receives, address };
        while let Some(buffer) = datagrams.receives.take() {
            datagrams.post_receive(buffer)?;
        }
        Ok(datagrams)
    }

    /// This process's address.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a hello, or drops it where no buffer is free.
    pub(crate) fn send(&self, route: &AddressHandle, to: &Address, hello: &Hello) {
        let Some(buffer) = self.sends.take() else { return };
        let bytes = hello.encode();
        let mut element = self.sends.element(buffer, bytes.len());
        let mut request = sys::ibv_send_wr {
            wr_id: WrId::HelloSent(buffer).encode(),
            next: std::ptr::null_mut(),
            sg_list: &raw mut element,
            num_sge: 1,
            opcode: sys::IBV_WR_SEND,
            send_flags: sys::IBV_SEND_SIGNALED | sys::IBV_SEND_SOLICITED,
            imm_data: 0,
            wr: route.target(to.number),
            rest: [0; 7],
        };
        // SAFETY: the buffer was just taken, and belongs to the device until `sent`; the route
        // lives as long as the contact.
        let posted = unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.sends.buffer(buffer), bytes.len());
            self.pair.post(&mut request)
        };
        if posted.is_err() {
            self.sends.give_back(buffer);
        }
    }

    /// Frees the buffer of a hello whose send is complete.
    pub(crate) fn sent(&self, buffer: u32) {
        self.sends.give_back(buffer);
    }

    /// Decodes the `len` bytes, with the device's header, of a completed receive, and posts its
    /// buffer again. `None`: the bytes are no hello to this process.
    ///
    /// # Errors
    /// The receive can't be posted again.
    pub(crate) fn received(&self, buffer: u32, len: usize) -> Result<Option<Hello>, FabricError> {
        // SAFETY: the receive is complete and is not posted again before the bytes are read, so the
        // buffer has no other user.
        let bytes = unsafe { std::slice::from_raw_parts(self.receives.buffer(buffer), len.min(BUFFER)) };
        let hello = bytes.get(HEADER..).and_then(Hello::decode);
        self.post_receive(buffer)?;
        Ok(hello.filter(|hello| hello.to == self.address.token))
    }

    /// Posts a receive into a buffer.
    pub(crate) fn post_receive(&self, buffer: u32) -> Result<(), FabricError> {
        // SAFETY: the buffer belongs to the device until its completion; drop closes the pair
        // before it frees the buffers.
        unsafe { self.pair.post_receive(WrId::HelloReceived(buffer).encode(), self.receives.element(buffer, BUFFER)) }
    }
}
