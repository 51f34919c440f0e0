//! The counters of notified operations at one rank. Layout and changes only: a header with the
//! number of counters in use, then a cache line for each counter. A counter has two words, because
//! a CPU's atomics and a device's may not be atomic with each other: CPUs of the node add to the
//! first word, the net adds to the second. Both words only grow. Knows neither epochs nor sleepers.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::words::LINE;

/// The most counters of a window at one rank.
pub(crate) const MAX_COUNTERS: usize = 4096;

/// The bytes of all counters with their header.
pub(crate) const BYTES: usize = (1 + MAX_COUNTERS) * LINE;

/// The offset of the number of counters in use.
pub(crate) const NUMBER: usize = 0;

/// The offset of the place of the counters in their rank's table (`messages::counted`), plus one; 0
/// if they have none.
const PLACE: usize = 8;

/// The bytes from [`NUMBER`] on that describe the counters.
pub(crate) const HEADER: usize = 16;

/// What a header says.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    /// The number of counters in use.
    pub(crate) number: usize,
    /// The place of the counters in their rank's table, if they have one.
    pub(crate) place: Option<u32>,
}

impl Header {
    /// The header in the words from [`NUMBER`] on.
    pub(crate) fn of_words([number, place]: [u64; 2]) -> Header {
        let number = usize::try_from(number).map_or(0, |number| number.min(MAX_COUNTERS));
        Header { number, place: place.checked_sub(1).and_then(|place| u32::try_from(place).ok()) }
    }
}

/// The offset of the word of a counter to which the net adds.
pub(crate) fn by_net(index: usize) -> usize {
    by_cpu(index) + 8
}

#[inline]
fn by_cpu(index: usize) -> usize {
    (1 + index) * LINE
}

/// The number of counters of the rank that owns this memory.
#[inline]
pub(crate) fn number(memory: &Memory) -> usize {
    // Relaxed: the number changes between two barriers.
    usize::try_from(memory.word64(NUMBER).load(Ordering::Relaxed)).unwrap_or(0)
}

/// Sets the number of counters of the rank that owns this memory.
pub(crate) fn set_number(memory: &Memory, number: usize) {
    // Relaxed: as in `number`.
    memory.word64(NUMBER).store(number as u64, Ordering::Relaxed);
}

/// The place of the counters in their rank's table.
pub(crate) fn place(memory: &Memory) -> Option<u32> {
    // Relaxed: as in `number`.
    Header::of_words([0, memory.word64(PLACE).load(Ordering::Relaxed)]).place
}

/// Sets the place of the counters, once.
pub(crate) fn set_place(memory: &Memory, place: u32) {
    // Relaxed: as in `number`.
    memory.word64(PLACE).store(u64::from(place) + 1, Ordering::Relaxed);
}

/// Adds one to a counter.
#[inline]
pub(crate) fn raise(memory: &Memory, index: usize) {
    // SeqCst: required by `ShmPort::wake_peer`. It includes Release, which pairs with the Acquire
    // in `sum`: a reader of the count also sees the origin's stores, and the origin's loads are
    // complete.
    memory.word64(by_cpu(index)).fetch_add(1, Ordering::SeqCst);
}

/// The sum of all additions to a counter.
#[inline]
pub(crate) fn sum(memory: &Memory, index: usize) -> u64 {
    Words::of(memory, index).sum()
}

/// The two words of a counter.
#[derive(Clone, Copy)]
pub(crate) struct Words<'m> {
    by_cpu: &'m AtomicU64,
    by_net: &'m AtomicU64,
}

impl<'m> Words<'m> {
    #[inline]
    pub(crate) fn of(memory: &'m Memory, index: usize) -> Words<'m> {
        Words { by_cpu: memory.word64(by_cpu(index)), by_net: memory.word64(by_net(index)) }
    }

    /// [`sum`], for a counter that is read repeatedly.
    #[inline]
    pub(crate) fn sum(self) -> u64 {
        // Acquire: pairs with the Release in `raise`. The net adds after the data has arrived.
        self.by_cpu.load(Ordering::Acquire).wrapping_add(self.by_net.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_apart_and_count_what_cpus_and_the_net_add() {
        let memory = Memory::private(BYTES);
        set_number(&memory, 7);
        for index in [0, 1, MAX_COUNTERS - 1] {
            raise(&memory, index);
            memory.word64(by_net(index)).fetch_add(2, Ordering::Relaxed);
        }
        raise(&memory, 1);
        assert_eq!([0, 1, 2, MAX_COUNTERS - 1].map(|index| sum(&memory, index)), [3, 4, 0, 3]);
        assert_eq!(number(&memory), 7);
    }

    #[test]
    fn counters_have_64_bits() {
        let memory = Memory::private(BYTES);
        let most = u64::from(u32::MAX);
        for word in [by_cpu(5), by_net(5)] {
            memory.word64(word).store(most, Ordering::Relaxed);
        }
        raise(&memory, 5);
        assert_eq!(sum(&memory, 5), 2 * most + 1);
        assert_eq!([4, 6].map(|index| sum(&memory, index)), [0, 0]);
    }
}
