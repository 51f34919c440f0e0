//! A queue pair without [`VerbsPort`](crate::VerbsPort), for programs that measure the overhead of
//! the port: it is connected to a queue pair of another process, and has its own completion queue.

use std::io::Error;
use std::sync::Arc;

use transom_fabric::{Cause, FabricError, Memory, Reason};

use crate::address::{Address, End};
use crate::connections::first_packet;
use crate::device::{Device, Registration};
use crate::domain::VerbsOptions;
use crate::library::LIBRARY;
use crate::library::Library;
use crate::pair::{Capacity, Pair, Retransmission};
use crate::queue::{CompletionQueue, SharedReceiveQueue};
use crate::sending::INLINE;
use crate::{choice, sys};

/// Length in bytes of an encoded [`End`].
const END_LEN: usize = 8;

/// One end of a reliable connection.
#[derive(Debug)]
pub struct BarePair {
    // Dropped in order: the pair before its queue, and the memory last.
    pair: Pair,
    receives: Arc<SharedReceiveQueue>,
    queue: Arc<CompletionQueue>,
    registration: Registration,
    device: Arc<Device>,
    memory: Memory,
    mine: End,
    inline: usize,
    retransmission: Retransmission,
}

impl BarePair {
    /// Opens the device that a domain of these options opens, for `sends` requests in flight from
    /// and to `memory`, and for `receives` posted receives.
    ///
    /// # Errors
    /// As for [`VerbsDomain::open`](crate::VerbsDomain::open).
    pub fn open(options: &VerbsOptions, sends: u32, receives: u32, memory: &Memory) -> Result<BarePair, FabricError> {
        let port = choice::choose(options.devices.as_deref(), options.paths.gid_index, &options.place)?;
        let device = Device::open(&Library::open(&options.library)?, &port, options.paths)?;
        let queue = CompletionQueue::create(&device, sends + receives, options.place.before.len())?;
        let receives = SharedReceiveQueue::create(&device, receives.max(1))?;
        let capacity = Capacity { sends, receives: 0, inline: INLINE, list: 1 };
        let (pair, inline) = Pair::reliable(&queue, &receives, capacity, options.rank)?;
        let mine = End { number: pair.number(), psn: first_packet()? };
        // SAFETY: the pair keeps a clone of the memory until the registration is dropped.
        let registration = unsafe { device.register(memory.as_ptr(), memory.len()) }?;
        let (memory, retransmission) = (memory.clone(), Retransmission::of(options.silence));
        Ok(BarePair { pair, receives, queue, registration, device, memory, mine, inline, retransmission })
    }

    /// The address of this end, by which the other end connects.
    pub fn address(&self) -> Vec<u8> {
        let numbers = [self.mine.number, self.mine.psn].into_iter().flat_map(u32::to_le_bytes);
        numbers.chain(self.device.address(0, 0).encode()).collect()
    }

    /// Connects to the end with this address. This end may post once the other end has connected
    /// too.
    ///
    /// # Errors
    /// The address is invalid, or the call that failed.
    pub fn connect(&self, encoded: &[u8]) -> Result<(), FabricError> {
        let refused = || FabricError::failed("connecting", Reason::ForeignAddress { length: encoded.len() });
        let (numbers, address) = encoded.split_first_chunk::<END_LEN>().ok_or_else(refused)?;
        let [number, psn] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte])));
        let address = Address::decode(address).ok_or_else(refused)?;
        self.pair.connect(self.mine, End { number, psn }, &address, self.retransmission)
    }

    /// The memory given to `open`.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The memory's key for local access.
    pub fn local_key(&self) -> u32 {
        self.registration.local_key()
    }

    /// The memory's key for the other end's access.
    pub fn remote_key(&self) -> u32 {
        self.registration.remote_key()
    }

    /// The bytes that a request can carry inline.
    pub fn inline(&self) -> usize {
        self.inline
    }

    /// Whether the device has atomics on 64 bits.
    pub fn has_atomics(&self) -> bool {
        self.device.peer_access() & sys::IBV_ACCESS_REMOTE_ATOMIC != 0
    }

    /// Posts a request.
    ///
    /// # Errors
    /// The error number in words.
    ///
    /// # Safety
    /// The request is well-formed. Local bytes that are not inline belong to the device until the
    /// completion.
    #[inline]
    pub unsafe fn post(&self, request: &mut sys::ibv_send_wr) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.pair.post(request) }
    }

    /// Posts a receive, whose only use is the completion of a write with immediate data. A message
    /// would arrive in the first 8 bytes of the memory.
    ///
    /// # Errors
    /// The call that failed.
    #[inline]
    pub fn post_receive(&self) -> Result<(), FabricError> {
        let element = sys::ibv_sge { addr: self.memory.as_ptr() as u64, length: 8, lkey: self.local_key() };
        // SAFETY: the bytes are in memory that others may write, and which outlives the queue.
        unsafe { self.receives.post(0, element) }
    }

    /// Polls completions and returns their number.
    ///
    /// # Errors
    /// The queue is broken, or a request failed.
    #[inline]
    pub fn poll(&self, into: &mut [sys::ibv_wc]) -> Result<usize, FabricError> {
        let count = self.queue.poll(into)?;
        match into[..count].iter().find(|entry| entry.status != sys::IBV_WC_SUCCESS) {
            Some(failed) => {
                let text = self.device.library.status_text(failed.status);
                let cause = Cause::Library { library: LIBRARY, code: failed.status.into(), text };
                Err(FabricError::failed("a request", cause))
            }
            None => Ok(count),
        }
    }
}
