//! What ranks tell each other at start, as bytes for the bootstrap's exchange.

use std::net::SocketAddr;

use transom_fabric::RegionKey;

use crate::interfaces::Site;
use crate::watch::Process;

/// What one rank needs of another to contact it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Card {
    /// What ranks of one machine have in common.
    pub(super) machine: String,
    pub(super) process: Process,
    pub(super) site: Site,
    /// The address within the node; empty where there is no memory to share.
    pub(super) shm_address: Vec<u8>,
    /// The job block within the node.
    pub(super) shm_block: RegionKey,
    /// The net's address; empty where no net is open.
    pub(super) net_address: Vec<u8>,
    /// The job block through the net.
    pub(super) net_block: RegionKey,
    /// Where other machines see that it lives; `None` where all are on one.
    pub(super) beacon: Option<SocketAddr>,
}

/// Several fields in one value.
pub(super) fn pack(fields: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        // Fields are addresses and names, far below 4 GiB.
        out.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(field);
    }
    out
}

/// The fields of a value that [`pack`] made; `None` where it was not.
pub(super) fn unpack<const N: usize>(value: &[u8]) -> Option<[Vec<u8>; N]> {
    unpack_all(value)?.try_into().ok()
}

/// All fields of a value that [`pack`] made, however many; `None` where it was not.
pub(super) fn unpack_all(mut value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = Vec::new();
    while !value.is_empty() {
        let (len, rest) = value.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        fields.push(bytes.to_vec());
        value = rest;
    }
    Some(fields)
}

/// A key as bytes.
pub(super) fn key_bytes(key: &RegionKey) -> Vec<u8> {
    key.0.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A key from bytes; no region where they are none.
pub(super) fn key_from(bytes: &[u8]) -> RegionKey {
    let mut key = RegionKey::default();
    for (word, chunk) in key.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_keys_come_back() {
        let key = RegionKey([1, u64::MAX, 3, 4]);
        let value = pack(&[b"node", b"", &key_bytes(&key)]);
        let [node, nothing, bytes] = unpack::<3>(&value).expect("three fields");
        assert_eq!((node.as_slice(), nothing.as_slice(), key_from(&bytes)), (&b"node"[..], &b""[..], key));
        assert!(unpack::<2>(&value).is_none() && unpack::<4>(&value).is_none());
        assert!(unpack::<1>(&[9, 0, 0, 0, 1]).is_none());
    }
}
