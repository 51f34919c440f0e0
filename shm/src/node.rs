//! The address of a rank: the data by which peers find the rank's heap, and a cheap test that
//! excludes peers on other nodes. Opens nothing.

use std::os::unix::fs::MetadataExt as _;

use transom_fabric::{Cause, FabricError};

use crate::heap::{Heap, MAGIC, Token};

const WORDS: usize = 10;

/// The address of a rank's heap, for its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A hash of the kernel's boot id, which differs on another machine, and after another boot.
    pub(crate) boot: u64,
    /// The inode of the process-id namespace in which `pid` is valid.
    pub(crate) pid_space: u64,
    pub(crate) pid: i32,
    /// The heap's file descriptor in that process.
    pub(crate) fd: i32,
    pub(crate) token: Token,
    pub(crate) capacity: u64,
    /// The length of the header: identity page and ring.
    pub(crate) header_len: u64,
    /// The address of the owner's mapping of the header, for a probe of cross-memory attach.
    pub(crate) header_at: u64,
    /// The segment by which peers attach the process's memory through XPMEM; 0 without XPMEM.
    pub(crate) segment: i64,
}

impl Address {
    /// This process's address.
    pub(crate) fn of(heap: &Heap, segment: i64) -> Address {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Address {
            boot: fnv1a(&boot),
            pid_space: std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
            pid: rustix::process::getpid().as_raw_pid(),
            fd: heap.fd_number(),
            token: heap.token(),
            capacity: heap.capacity(),
            header_len: heap.header().len() as u64,
            header_at: heap.header().as_ptr().addr() as u64,
            segment,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let process = u64::from(self.pid.cast_unsigned()) << 32 | u64::from(self.fd.cast_unsigned());
        let words: [u64; WORDS] = [
            MAGIC,
            self.boot,
            self.pid_space,
            process,
            self.token[0],
            self.token[1],
            self.capacity,
            self.header_len,
            self.header_at,
            self.segment.cast_unsigned(),
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// # Errors
    /// The bytes are not an address of this backend.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Address, String> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        let (true, [MAGIC, boot, pid_space, process, t0, t1, capacity, header_len, header_at, segment]) =
            (rest.is_empty(), &words[..])
        else {
            let length = bytes.len();
            return Err(format!("the peer's address, of {length} bytes, is not an address of shared memory"));
        };
        let half = |shift: u32| u32::try_from(process >> shift & 0xffff_ffff).unwrap_or(0);
        Ok(Address {
            boot: *boot,
            pid_space: *pid_space,
            pid: half(32).cast_signed(),
            fd: half(0).cast_signed(),
            token: [*t0, *t1],
            capacity: *capacity,
            header_len: *header_len,
            header_at: *header_at,
            segment: segment.cast_signed(),
        })
    }

    /// Whether the peer may be on this node. Only opening its heap proves it.
    ///
    /// # Errors
    /// The reason why it is not.
    pub(crate) fn may_share_with(&self, me: &Address) -> Result<(), String> {
        if self.boot != me.boot {
            return Err("the peer runs on another machine (other boot id)".into());
        }
        if self.pid_space != me.pid_space {
            return Err("the peer runs in another process-id namespace (container)".into());
        }
        if self.header_len != me.header_len {
            let (theirs, mine) = (self.header_len, me.header_len);
            return Err(format!(
                "the header of the peer's heap has {theirs} bytes, that of this process {mine}: the peer has another \
                 version of this library"
            ));
        }
        Ok(())
    }
}

/// The error for a peer that is not on this node.
pub(crate) fn not_on_this_node(reason: &str) -> FabricError {
    FabricError::unavailable("shm", Cause::Setup(format!("the peer's memory can't be mapped here: {reason}")))
}

/// Fowler-Noll-Vo, 64 bits: equal on every machine, unlike the standard library's hashes.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::HeapOptions;

    #[test]
    fn addresses_round_trip() {
        let heap = Heap::create(HeapOptions::default()).expect("a heap");
        let address = Address::of(&heap, 7);
        let bytes = address.to_bytes();
        assert!(bytes.len() <= 256, "the contract's limit");
        assert_eq!(Address::from_bytes(&bytes), Ok(address));
        assert!(Address::from_bytes(&bytes[1..]).is_err());
        assert!(Address::from_bytes(&[0; 72]).is_err());
    }

    #[test]
    fn other_machines_and_containers_are_refused_by_their_address() {
        let heap = Heap::create(HeapOptions::default()).expect("a heap");
        let me = Address::of(&heap, 0);
        assert_eq!(me.may_share_with(&me), Ok(()));
        let boot = me.boot ^ 1;
        let error = Address { boot, ..me }.may_share_with(&me);
        assert!(error.is_err_and(|reason| reason.contains("another machine")));
        let pid_space = me.pid_space + 1;
        let error = Address { pid_space, ..me }.may_share_with(&me);
        assert!(error.is_err_and(|reason| reason.contains("namespace")));
    }
}
