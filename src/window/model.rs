//! The separate memory model (MPI-4.1 §12.4) on cache-coherent machines: a private copy, which the
//! process loads and stores, in addition to the public copy, which others access. A third copy, of
//! the last synchronized state, shows which copy changed. Bytes are copied only in synchronization
//! calls, so that a program that lacks such a call reads stale data.

use std::sync::{Mutex, PoisonError};

use transom_fabric::Memory;

/// Bytes that are compared in one step.
const PIECE: usize = 4096;

/// The private copy of a window's part.
#[derive(Debug)]
pub(crate) struct Separate {
    private: Memory,
    /// The bytes of both copies when they were last synchronized; locked during synchronization.
    agreed: Mutex<Memory>,
}

impl Separate {
    /// A private copy in `private`, whose bytes are copied to the public copy.
    pub(crate) fn new(private: Memory, public: &Memory) -> Separate {
        let agreed = Memory::private(private.len());
        copy(&private, public);
        copy(&private, &agreed);
        Separate { private, agreed: Mutex::new(agreed) }
    }

    /// The copy that this process loads and stores.
    pub(crate) fn private(&self) -> &Memory {
        &self.private
    }

    /// Copies this process's stores into the public copy.
    pub(crate) fn publish(&self, public: &Memory) {
        self.merge(&self.private, public);
    }

    /// Copies the puts of other ranks into the private copy.
    pub(crate) fn refresh(&self, public: &Memory) {
        self.merge(public, &self.private);
    }

    /// Copies each byte of `from` that changed since the last synchronization.
    fn merge(&self, from: &Memory, to: &Memory) {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut new, mut old) = ([0; PIECE], [0; PIECE]);
        for at in (0..from.len()).step_by(PIECE) {
            let len = PIECE.min(from.len() - at);
            let (new, old) = (&mut new[..len], &mut old[..len]);
            from.read(at, new);
            agreed.read(at, old);
            let mut done = 0;
            while let Some(first) = (done..len).find(|&index| new[index] != old[index]) {
                let end = (first..len).find(|&index| new[index] == old[index]).unwrap_or(len);
                to.write(at + first, &new[first..end]);
                agreed.write(at + first, &new[first..end]);
                done = end;
            }
        }
    }
}

fn copy(from: &Memory, to: &Memory) {
    let mut bytes = [0; PIECE];
    for at in (0..from.len()).step_by(PIECE) {
        let len = PIECE.min(from.len() - at);
        from.read(at, &mut bytes[..len]);
        to.write(at, &bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(memory: &Memory) -> Vec<u8> {
        let mut bytes = vec![0; memory.len()];
        memory.read(0, &mut bytes);
        bytes
    }

    /// Each copy keeps its changes until synchronization, and receives only the changes of the
    /// other.
    /// Shows M2.
    #[test]
    fn copies_differ_until_synchronization() {
        let (private, public) = (Memory::private(10_000), Memory::private(10_000));
        private.write(0, &[9; 10_000]);
        let separate = Separate::new(private, &public);
        assert_eq!(bytes(&public), vec![9; 10_000], "what was there at creation");
        separate.private().write(100, b"stored");
        public.write(5000, b"put");
        public.write(104, b"XX");
        assert_eq!(bytes(&public)[100..104], [9; 4], "not yet");
        separate.publish(&public);
        assert_eq!(&bytes(&public)[100..106], b"stored");
        assert_eq!(bytes(separate.private())[5000], 9, "not yet");
        separate.refresh(&public);
        let private = bytes(separate.private());
        assert_eq!((&private[100..106], &private[5000..5003]), (&b"stored"[..], &b"put"[..]));
        assert_eq!(private, bytes(&public));
        separate.private().write(0, b"later");
        separate.refresh(&public);
        assert_eq!(&bytes(separate.private())[..5], b"later", "a refresh keeps what was stored and not published");
    }
}
