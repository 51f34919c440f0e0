//! The cards that ranks exchange at start: each has the data by which other ranks contact a rank
//! (MPICH's term is *business card*). `start` encodes a card for the bootstrap, with the functions
//! below.

use std::net::SocketAddr;

use transom_fabric::RegionKey;
use transom_fabric::devices::Nodes;

use crate::cgroups::QUOTAS;
use crate::failures::Process;
use crate::failures::listener::Token;
use crate::interfaces::Site;

/// The data by which one rank contacts another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Card {
    /// The machine's identity, equal for ranks that may share memory.
    pub(super) machine: String,
    pub(super) process: Process,
    /// Whether the kernel has the memory barrier that lets accumulates bypass locks
    /// (`sync::stripe`).
    pub(super) has_barrier: bool,
    /// Whether the program of the rank has ThreadSanitizer.
    pub(super) has_sanitizer: bool,
    /// A number that is equal for ranks that may run on the same CPUs.
    pub(super) cpus: u64,
    /// The control groups that limit the rank's CPU time, by number; 0: none.
    pub(super) quota_groups: [u64; QUOTAS],
    /// The innermost control group that limits the rank's memory; 0: none.
    pub(super) memory_group: u64,
    /// The NUMA nodes of the CPUs on which this rank may run.
    pub(super) near: Nodes,
    pub(super) site: Site,
    /// The address within the node; empty where this rank shares no memory.
    pub(super) shm_address: Vec<u8>,
    /// The job block within the node.
    pub(super) shm_block: RegionKey,
    /// The net's address; empty where no net is open.
    pub(super) net_address: Vec<u8>,
    /// The job block through the net.
    pub(super) net_block: RegionKey,
    /// The address of this rank's failure detector with its token; `None` where all ranks are on
    /// one machine.
    pub(super) listener: Option<(SocketAddr, Token)>,
}

/// A key as bytes.
pub(super) fn key_bytes(key: &RegionKey) -> Vec<u8> {
    key.0.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A key from bytes; the empty key where the bytes are malformed.
pub(super) fn key_from(bytes: &[u8]) -> RegionKey {
    RegionKey(numbers_from(bytes))
}

/// Numbers from bytes; 0 where the bytes are missing.
pub(super) fn numbers_from<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut numbers = [0; N];
    for (number, chunk) in numbers.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*chunk);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        let key = RegionKey([1, u64::MAX, 3, 4]);
        assert_eq!(key_from(&key_bytes(&key)), key);
        assert_eq!(key_from(&[]), RegionKey::default());
    }
}
