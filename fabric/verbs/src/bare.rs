//! A queue pair without a port, connected to one of another process, with its own completion queue:
//! verbs' own calls, for programs that measure the port's overhead.

use std::io::Error;
use std::sync::Arc;

use transom_fabric::{Cause, FabricError, Memory, Reason};

use crate::address::{Address, End};
use crate::connections::first_packet;
use crate::device::{Device, Registration};
use crate::domain::VerbsOptions;
use crate::library::LIBRARY;
use crate::library::Library;
use crate::pair::{Depth, Pair, Quality};
use crate::queue::{Queue, Receives};
use crate::sending::INLINE;
use crate::{choice, sys};

/// Length of an end in bytes: its number, and that of its first packet.
const END_LEN: usize = 8;

/// One end of a reliable connection.
#[derive(Debug)]
pub struct BarePair {
    // Dropped in order: the pair before its queue, and the memory last.
    pair: Pair,
    queue: Arc<Queue>,
    registration: Registration,
    device: Arc<Device>,
    memory: Memory,
    mine: End,
    inline: usize,
    quality: Quality,
}

impl BarePair {
    /// Opens the device that a domain of these options opens, for `sends` requests in flight from
    /// and to `memory`.
    ///
    /// # Errors
    /// As for [`VerbsDomain::open`](crate::VerbsDomain::open).
    pub fn open(options: &VerbsOptions, sends: u32, memory: &Memory) -> Result<BarePair, FabricError> {
        let library = Library::open(&options.library)?;
        let device = Device::open(
            &library,
            &choice::choose(options.devices.as_deref(), options.paths.gid_index, options.rank)?,
            options.paths,
        )?;
        let queue = Queue::create(&device, sends)?;
        let depth = Depth { sends, receives: 0, inline: INLINE, list: 1 };
        let (pair, inline) = Pair::reliable(&queue, &Receives::create(&device, 1)?, depth, options.rank)?;
        let mine = End { number: pair.number(), psn: first_packet()? };
        // SAFETY: the pair keeps a clone of the memory until the registration is dropped.
        let registration = unsafe { device.register(memory.as_ptr(), memory.len()) }?;
        let (memory, quality) = (memory.clone(), Quality::of(options.silence));
        Ok(BarePair { pair, queue, registration, device, memory, mine, inline, quality })
    }

    /// The card by which the other end connects.
    pub fn card(&self) -> Vec<u8> {
        let numbers = [self.mine.number, self.mine.psn].into_iter().flat_map(u32::to_le_bytes);
        numbers.chain(self.device.address(0, 0).encode()).collect()
    }

    /// Connects to the end with this card. This end may post once the other end has connected too.
    ///
    /// # Errors
    /// An invalid card, or the call that failed.
    pub fn connect(&self, card: &[u8]) -> Result<(), FabricError> {
        let refused = || FabricError::failed("connecting", Reason::ForeignAddress { length: card.len() });
        let (numbers, address) = card.split_first_chunk::<END_LEN>().ok_or_else(refused)?;
        let [number, psn] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte])));
        let address = Address::decode(address).ok_or_else(refused)?;
        self.pair.connect(self.mine, End { number, psn }, &address, self.quality)
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
        self.device.access() & sys::IBV_ACCESS_REMOTE_ATOMIC != 0
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

    /// Polls completions and returns their number.
    ///
    /// # Errors
    /// The queue is broken, or a request failed.
    #[inline]
    pub fn poll(&self, into: &mut [sys::ibv_wc]) -> Result<usize, FabricError> {
        let count = self.queue.poll(into)?;
        match into[..count].iter().find(|entry| entry.status != sys::IBV_WC_SUCCESS) {
            Some(failed) => {
                let text = self.device.library.status(failed.status);
                let cause = Cause::Library { library: LIBRARY, code: failed.status.into(), text };
                Err(FabricError::failed("a request", cause))
            }
            None => Ok(count),
        }
    }
}
