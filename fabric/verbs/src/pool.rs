//! Pools of registered buffers, a fixed number of each size. A post that copies its bytes therefore
//! registers no memory, and an empty pool is back-pressure.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crossbeam_queue::ArrayQueue;
use transom_fabric::{FabricError, Memory};

use crate::device::{Device, Registration};
use crate::sys;

/// A pool of buffers of one size, which the device may read and write.
#[derive(Debug)]
pub(crate) struct Pool {
    // Declared before the memory, because fields drop in order.
    registration: Registration,
    memory: Memory,
    len: usize,
    free: ArrayQueue<u32>,
}

impl Pool {
    /// `count` buffers of `len` bytes each, all of them free.
    ///
    /// # Errors
    /// Those of the registration.
    pub(crate) fn new(device: &Arc<Device>, count: u32, len: usize) -> Result<Pool, FabricError> {
        let memory = Memory::private(count as usize * len);
        // SAFETY: the pool keeps the memory until after the registration is dropped.
        let registration = unsafe { device.register(memory.as_ptr(), memory.len()) }?;
        let free = ArrayQueue::new(count as usize);
        for index in 0..count {
            // The queue has room for all buffers.
            let _ = free.push(index);
        }
        Ok(Pool { registration, memory, len, free })
    }

    /// A free buffer; `None` where all are in use.
    pub(crate) fn take(&self) -> Option<u32> {
        self.free.pop()
    }

    /// Returns an unused buffer to the pool.
    pub(crate) fn give_back(&self, index: u32) {
        // A buffer is in the queue at most once, so there is room.
        let _ = self.free.push(index);
    }

    /// The address of a buffer. The caller ensures that the buffer has no other user.
    pub(crate) fn buffer(&self, index: u32) -> *mut u8 {
        assert!((index as usize) < self.memory.len() / self.len, "buffer {index}");
        self.memory.as_ptr().wrapping_add(index as usize * self.len)
    }

    /// Word `at` of a buffer. The length of buffers must be a multiple of 8.
    pub(crate) fn word(&self, index: u32, at: usize) -> &AtomicU64 {
        self.memory.word64(index as usize * self.len + at * 8)
    }

    /// The location of a buffer for peers: its address and remote key.
    pub(crate) fn as_rdma(&self, index: u32) -> sys::Rdma {
        sys::Rdma { remote_addr: self.buffer(index) as u64, rkey: self.registration.remote_key() }
    }

    /// The first `len` bytes of a buffer as a scatter/gather element.
    #[allow(clippy::cast_possible_truncation)] // buffers are small
    pub(crate) fn element(&self, index: u32, len: usize) -> sys::ibv_sge {
        assert!(len <= self.len, "{len} bytes of a buffer of {}", self.len);
        sys::ibv_sge { addr: self.buffer(index) as u64, length: len as u32, lkey: self.registration.local_key() }
    }
}

/// A buffer of one of the [`Pools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    class: u8,
    index: u32,
}

/// The pools of buffers for outgoing and fetched bytes, one for each size class; 8 MiB together.
#[derive(Debug)]
pub(crate) struct Pools([Pool; CLASSES.len()]);

/// Number and size of the buffers of each class.
const CLASSES: [(u32, usize); 4] = [(512, 4 << 10), (64, 16 << 10), (64, 64 << 10), (8, 128 << 10)];

impl Pools {
    /// Size of the smallest buffers.
    pub(crate) const SMALL: usize = CLASSES[0].1;
    /// Size of the middle buffers.
    pub(crate) const MIDDLE: usize = CLASSES[1].1;
    /// Size of the largest buffers.
    pub(crate) const LARGE: usize = CLASSES[CLASSES.len() - 1].1;

    /// The number of buffers, and their bytes together.
    pub(crate) fn size() -> (u32, usize) {
        CLASSES.iter().fold((0, 0), |(all, bytes), &(count, len)| (all + count, bytes + count as usize * len))
    }

    /// Allocates and registers all buffers.
    ///
    /// # Errors
    /// Those of the registration.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Pools, FabricError> {
        let pool = |class: usize| Pool::new(device, CLASSES[class].0, CLASSES[class].1);
        Ok(Pools([pool(0)?, pool(1)?, pool(2)?, pool(3)?]))
    }

    /// A buffer of at least `len` bytes, from the smallest class that fits; `None` where all
    /// buffers of that class are in use.
    pub(crate) fn take(&self, len: usize) -> Option<Block> {
        // Most requests fit the first class.
        let class: u8 = if len <= Pools::SMALL { 0 } else { larger(len) };
        self.0[usize::from(class)].take().map(|index| Block { class, index })
    }

    /// Returns an unused buffer to its pool.
    pub(crate) fn give_back(&self, block: Block) {
        self.0[usize::from(block.class)].give_back(block.index);
    }

    /// The address of a buffer, as [`Pool::buffer`].
    pub(crate) fn buffer(&self, block: Block) -> *mut u8 {
        self.0[usize::from(block.class)].buffer(block.index)
    }

    /// The first `len` bytes of a buffer as a scatter/gather element.
    pub(crate) fn element(&self, block: Block, len: usize) -> sys::ibv_sge {
        self.0[usize::from(block.class)].element(block.index, len)
    }
}

/// The smallest class for a length that is too long for the first class.
fn larger(len: usize) -> u8 {
    1 + CLASSES[1..CLASSES.len() - 1].iter().map(|&(_, size)| u8::from(len > size)).sum::<u8>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_the_smallest_that_fits() {
        let size = |len| CLASSES[usize::from(larger(len))].1;
        let sizes = [Pools::SMALL + 1, 16 << 10, (16 << 10) + 1, 64 << 10, (64 << 10) + 1, Pools::LARGE].map(size);
        assert_eq!(sizes.map(|size| size >> 10), [16, 16, 64, 64, 128, 128]);
    }
}
