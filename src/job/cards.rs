//! The cards that ranks exchange at start: each has the data by which other ranks contact a rank
//! (MPICH's term is *business card*), and their form for the bootstrap.

use std::net::SocketAddr;

use transom_fabric::RegionKey;
use transom_fabric::devices::Nodes;

use crate::bootstrap::fields::{pack, unpack};
use crate::cgroups::QUOTAS;
use crate::environment::Settings;
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

/// What must be equal at all ranks: each rank sends it with its card.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Required {
    /// The version of the library, as text.
    pub(super) version: Vec<u8>,
    /// [`SharedSettings`](crate::error::SharedSettings), encoded.
    pub(super) settings: Vec<u8>,
}

impl Required {
    pub(super) fn own(settings: &Settings) -> Required {
        Required { version: env!("CARGO_PKG_VERSION").into(), settings: settings.shared().encode().into() }
    }
}

impl Card {
    /// The card as bytes, with what must be equal at all ranks: without the machine, which the
    /// receiver derives from the process, and without the net and the failure detector, which are
    /// not open yet.
    pub(super) fn encode(&self, required: &Required) -> Vec<u8> {
        let numbers = [
            u64::from(self.process.pid.cast_unsigned()),
            self.process.began,
            u64::from(self.has_barrier),
            self.cpus,
            self.memory_group,
            self.near.0,
            u64::from(self.has_sanitizer),
        ];
        let quota_groups = self.quota_groups.into_iter().take_while(|&group| group != 0);
        pack(&[
            &required.version,
            &required.settings,
            self.process.kernel.as_bytes(),
            self.process.host.as_bytes(),
            &numbers.into_iter().chain(quota_groups).flat_map(u64::to_le_bytes).collect::<Vec<_>>(),
            &self.shm_address,
            &key_bytes(&self.shm_block),
            self.site.encode().as_bytes(),
        ])
    }

    /// The result of [`Card::encode`]; `None` for other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Card, Required)> {
        let [version, settings, kernel, host, numbers, shm_address, key, site] = unpack::<8>(bytes)?;
        let [pid, began, has_barrier, cpus, memory_group, near, has_sanitizer, quota_groups @ ..] =
            numbers_from::<{ 7 + QUOTAS }>(&numbers);
        let process = Process {
            kernel: String::from_utf8_lossy(&kernel).into(),
            host: String::from_utf8_lossy(&host).into(),
            // A process number fits: the sender widened it.
            pid: i32::try_from(pid).unwrap_or_default(),
            began,
        };
        let card = Card {
            process,
            has_barrier: has_barrier != 0,
            has_sanitizer: has_sanitizer != 0,
            cpus,
            quota_groups,
            memory_group,
            near: Nodes(near),
            site: Site::decode(&String::from_utf8_lossy(&site)),
            shm_address,
            shm_block: key_from(&key),
            ..Card::default()
        };
        Some((card, Required { version, settings }))
    }
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
fn numbers_from<const N: usize>(bytes: &[u8]) -> [u64; N] {
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

    #[test]
    fn cards_round_trip() {
        let process = Process { kernel: "k".into(), host: "h".into(), pid: 7, began: u64::MAX };
        let card = Card {
            process,
            has_barrier: true,
            cpus: 3,
            quota_groups: [9, 8, 0, 0],
            memory_group: 5,
            near: Nodes(6),
            site: Site::decode("net\neth0=10.1.2.3/16"),
            shm_address: vec![1, 2],
            shm_block: RegionKey([1, 2, 3, 4]),
            ..Card::default()
        };
        let required = Required { version: b"1".into(), settings: b"s".into() };
        let bytes = card.encode(&required);
        assert!(Card::decode(&bytes[1..]).is_none() && card.site.interfaces.len() == 1);
        let other = Card { has_barrier: false, has_sanitizer: true, ..card.clone() };
        assert_eq!(Card::decode(&bytes), Some((card, required)));
        let required = || Required { version: Vec::new(), settings: Vec::new() };
        assert_eq!(Card::decode(&other.encode(&required())), Some((other, required())));
    }
}
