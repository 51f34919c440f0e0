//! The floor between nodes: libfabric's own calls on an endpoint of the same provider, and a queue that is polled.

use std::sync::Arc;

use transom_fabric::{Domain, Memory, Peer, Port, Region};
use transom_ofi::endpoint::Endpoint;
use transom_ofi::{OfiDomain, OfiOptions, OfiRegion, PassiveProbe, sys};

use crate::Outcome;
use crate::options::Test;

/// An endpoint beside the library's, and the other rank's memory through it.
pub(crate) struct BareOfi {
    buffer: Memory,
    address: sys::fi_addr_t,
    key: u64,
    base: u64,
    atomics: bool,
    _target: Memory,
    _region: OfiRegion,
    // Dropped after the region.
    domain: Arc<OfiDomain>,
}

impl BareOfi {
    pub(super) fn open(
        rank: usize,
        room: usize,
        flight: usize,
        exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<BareOfi> {
        let provider = std::env::var("TRANSOM_PROVIDER").ok().filter(|name| !name.is_empty());
        let rank = Peer(u32::try_from(rank)?);
        let options = OfiOptions { provider, passive: PassiveProbe::Known(true), rank, ..OfiOptions::default() };
        let domain = OfiDomain::open(&options)?;
        let target = Memory::private(room.max(64));
        let region = domain.register(&target)?;
        let mut card: Vec<u8> = region.key().0.iter().flat_map(|word| word.to_le_bytes()).collect();
        card.extend(domain.port().address());
        let card = exchange(&card)?;
        let (key, address) = card.split_at_checked(32).ok_or("the other rank's card is too short")?;
        let words = key.as_chunks::<8>().0;
        let address = domain.endpoint().insert(address)?;
        let atomics = domain.endpoint().claims_atomic(sys::FI_UINT64, sys::FI_SUM, sys::FI_FETCH_ATOMIC);
        Ok(BareOfi {
            buffer: Memory::private(room.max(64) * flight),
            address,
            key: u64::from_le_bytes(words[1]),
            base: u64::from_le_bytes(words[2]),
            atomics,
            _target: target,
            _region: region,
            domain,
        })
    }

    pub(super) fn has_atomics(&self) -> bool {
        self.atomics
    }

    /// Does the operation `count` times, with a window of them in flight in the bandwidth tests.
    pub(super) fn batch(&self, test: Test, size: usize, window: usize, count: usize) -> Outcome<()> {
        let window = if test.is_bandwidth() { window } else { 1 };
        for _ in 0..count {
            let mut posted = 0;
            let mut done = 0;
            while done < window {
                if posted < window {
                    match -self.post(test, size, posted) {
                        0 => posted += 1,
                        sys::FI_EAGAIN => {}
                        error => return Err(self.domain.endpoint().library().strerror(error).into()),
                    }
                }
                if posted == window || posted - done >= 32 {
                    done += self.poll()?;
                }
            }
        }
        Ok(())
    }

    /// Posts the operation number `turn` of those in flight; libfabric's answer.
    fn post(&self, test: Test, size: usize, turn: usize) -> isize {
        let turn = if test == Test::GetBw { turn } else { 0 };
        assert!((turn + 1) * size <= self.buffer.len(), "room for {size} bytes");
        let endpoint: &Endpoint = self.domain.endpoint();
        let (ep, local, null) = (endpoint.ep, self.buffer.as_ptr(), std::ptr::null_mut());
        // SAFETY: an open endpoint; the buffers live as long as `self`, and `batch` takes every completion before it returns.
        unsafe {
            match test {
                Test::GetLatency | Test::GetBw => {
                    let read = (*(*ep).rma).read.expect("read");
                    let into = local.add(turn * size).cast();
                    read(ep, into, size, null, self.address, self.base, self.key, null)
                }
                Test::FopLatency => {
                    let fetch = (*(*ep).atomic).readwrite.expect("readwrite");
                    let (operand, result) = (local.cast(), local.add(8).cast());
                    let (kind, sum) = (sys::FI_UINT64, sys::FI_SUM);
                    fetch(ep, operand, 1, null, result, null, self.address, self.base, self.key, kind, sum, null)
                }
                Test::CasLatency => {
                    let swap = (*(*ep).atomic).compwrite.expect("compwrite");
                    let (operand, compare, result) = (local.cast(), local.add(16).cast(), local.add(8).cast());
                    let (kind, op) = (sys::FI_UINT64, sys::FI_CSWAP);
                    let (to, at, key) = (self.address, self.base, self.key);
                    swap(ep, operand, 1, null, compare, null, result, null, to, at, key, kind, op, null)
                }
                _ => {
                    let source = sys::iovec { iov_base: local.cast(), iov_len: size };
                    let target = sys::fi_rma_iov { addr: self.base, len: size, key: self.key };
                    let message = sys::fi_msg_rma {
                        msg_iov: &raw const source,
                        desc: null.cast(),
                        iov_count: 1,
                        addr: self.address,
                        rma_iov: &raw const target,
                        rma_iov_count: 1,
                        context: null,
                        data: 0,
                    };
                    let write = (*(*ep).rma).writemsg.expect("writemsg");
                    write(ep, &raw const message, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION)
                }
            }
        }
    }

    /// Takes completions; how many.
    fn poll(&self) -> Outcome<usize> {
        let endpoint = self.domain.endpoint();
        let empty = sys::fi_cq_msg_entry { op_context: std::ptr::null_mut(), flags: 0, len: 0 };
        let mut entries = [empty; 32];
        // SAFETY: an open queue, room for 32 entries.
        let status = unsafe {
            let read = (*(*endpoint.cq).ops).read.expect("read");
            read(endpoint.cq, entries.as_mut_ptr().cast(), entries.len())
        };
        match usize::try_from(status) {
            Ok(count) => Ok(count),
            Err(_) if -status == sys::FI_EAGAIN => Ok(0),
            Err(_) => Err(format!("bare libfabric: {}", endpoint.library().strerror(status)).into()),
        }
    }
}
