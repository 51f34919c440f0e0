//! The bytes exchanged before two processes are connected: the published address, and the hello of
//! the handshake. Little-endian on all machines.

use transom_fabric::Peer;

const ADDRESS: [u8; 8] = *b"vrb adr2";
const HELLO: [u8; 8] = *b"vrb hlo2";

/// Length of an address in bytes.
const ADDRESS_LEN: usize = 8 + 8 + 16 + 4 + 2 + 3;
/// Length of a hello in bytes.
pub(crate) const HELLO_LEN: usize = 8 + 8 + 4 + 4 + 4 + 4 + 1 + 8 + 4 + 8 + ADDRESS_LEN;

/// The address at which a process receives datagrams, and the abilities of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    /// A random number of the process, which drops hellos with another token.
    pub(crate) token: u64,
    /// The port's global identifier; the only identifier on Ethernet.
    pub(crate) gid: [u8; 16],
    /// The number of its datagram queue pair.
    pub(crate) number: u32,
    /// The port's local identifier, used on InfiniBand.
    pub(crate) lid: u16,
    /// The port's MTU, as verbs' enumeration value.
    pub(crate) mtu: u8,
    /// The most reads and atomics that the device, as a responder, executes at once for one queue
    /// pair.
    pub(crate) reads: u8,
    /// The link is Ethernet.
    pub(crate) ethernet: bool,
    /// The port requires that all packets have a global header (GRH).
    pub(crate) needs_grh: bool,
}

/// The bits of an address's last byte.
const IS_ETHERNET: u8 = 1;
const NEEDS_GRH: u8 = 2;

/// One half of a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The number of the queue pair.
    pub(crate) number: u32,
    /// The sequence number of the half's first packet.
    pub(crate) psn: u32,
}

/// The first credits for the receiver of a hello, and the location of the sender's credits (see
/// `credits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The address of the cell to which the receiver writes the sender's limits.
    pub(crate) address: u64,
    /// The remote key of the cell's memory.
    pub(crate) key: u32,
    /// The receiver's first limit.
    pub(crate) limit: u64,
}

/// A datagram of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The receiver's token.
    pub(crate) to: u64,
    /// The sender's rank.
    pub(crate) from: Peer,
    /// The sender's half.
    pub(crate) end: End,
    /// The number of the receiver's half, if the sender has received it; else 0.
    pub(crate) seen: u32,
    /// Whether the sender needs no further hello.
    pub(crate) ready: bool,
    pub(crate) grant: Grant,
    /// The sender's address.
    pub(crate) address: Address,
}

impl Address {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ADDRESS_LEN);
        bytes.extend(ADDRESS);
        bytes.extend(self.token.to_le_bytes());
        bytes.extend(self.gid);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.lid.to_le_bytes());
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let flags = flag(self.ethernet, IS_ETHERNET) | flag(self.needs_grh, NEEDS_GRH);
        bytes.extend([self.mtu, self.reads, flags]);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Address> {
        let mut fields = Fields(bytes);
        if bytes.len() != ADDRESS_LEN || fields.take()? != ADDRESS {
            return None;
        }
        let (token, gid) = (u64::from_le_bytes(fields.take()?), fields.take()?);
        let (number, lid) = (u32::from_le_bytes(fields.take()?), u16::from_le_bytes(fields.take()?));
        let [mtu, reads, flags] = fields.take()?;
        let (ethernet, needs_grh) = (flags & IS_ETHERNET != 0, flags & NEEDS_GRH != 0);
        Some(Address { token, gid, number, lid, mtu, reads, ethernet, needs_grh })
    }
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        bytes.extend(HELLO);
        bytes.extend(self.to.to_le_bytes());
        for number in [self.from.0, self.end.number, self.end.psn, self.seen] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.push(u8::from(self.ready));
        bytes.extend(self.grant.address.to_le_bytes());
        bytes.extend(self.grant.key.to_le_bytes());
        bytes.extend(self.grant.limit.to_le_bytes());
        bytes.extend(self.address.encode());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Hello> {
        let mut fields = Fields(bytes);
        if fields.take()? != HELLO {
            return None;
        }
        let to = u64::from_le_bytes(fields.take()?);
        let from = Peer(u32::from_le_bytes(fields.take()?));
        let end = End { number: u32::from_le_bytes(fields.take()?), psn: u32::from_le_bytes(fields.take()?) };
        let seen = u32::from_le_bytes(fields.take()?);
        let ready = fields.byte()? != 0;
        let address = u64::from_le_bytes(fields.take()?);
        let (key, limit) = (u32::from_le_bytes(fields.take()?), u64::from_le_bytes(fields.take()?));
        let grant = Grant { address, key, limit };
        Some(Hello { to, from, end, seen, ready, grant, address: Address::decode(fields.0)? })
    }
}

/// The bytes that are not decoded yet.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_hellos_round_trip_and_other_bytes_are_refused() {
        let (ethernet, needs_grh, gid) = (true, false, [7; 16]);
        let address =
            Address { token: 1 << 60, gid, number: 0x00ab_cdef, lid: 3, mtu: 5, reads: 16, ethernet, needs_grh };
        let other = Address { ethernet: needs_grh, needs_grh: ethernet, ..address };
        assert_eq!(Address::decode(&other.encode()), Some(other));
        let bytes = address.encode();
        assert_eq!(Address::decode(&bytes), Some(address));
        let end = End { number: 12, psn: 0x00ff_ffff };
        let grant = Grant { address: 1 << 40, key: 9, limit: 5 };
        let hello = Hello { to: 5, from: Peer(900_000), end, seen: 7, ready: true, grant, address };
        let encoded = hello.encode();
        assert_eq!(encoded.len(), HELLO_LEN);
        assert_eq!(Hello::decode(&encoded), Some(hello));
        for len in 0..HELLO_LEN {
            assert_eq!(Hello::decode(&encoded[..len]), None, "{len} bytes");
        }
        assert_eq!(Address::decode(&encoded), None);
        assert_eq!(Hello::decode(&bytes), None);
        assert_eq!(Address::decode(&[0; ADDRESS_LEN]), None);
    }
}
