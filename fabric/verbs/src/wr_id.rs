//! Identifiers of work requests (`wr_id`): 64 bits that each completion returns.

use transom_fabric::{Immediate, Peer};

/// The identifier of a work request, which tells what a completion completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrId {
    /// The request with this number on the connection to this peer. Its completion also completes
    /// all requests before it.
    Request(Peer, u32),
    /// A received message, in this buffer.
    Message(u32),
    /// A sent hello, in this buffer.
    HelloSent(u32),
    /// A received hello, in this buffer.
    HelloReceived(u32),
}

/// The position of the kind's two bits.
const KIND: u64 = 62;
/// The number of ranks that fit between a request's number and the kind.
pub(crate) const RANKS: u32 = 1 << (KIND - 32);

/// Bit of immediate data, beside a message's sender or a put's number: since its previous message
/// or notified put to this receiver, the sender has refused one of either kind for lack of credit.
pub(crate) const REFUSED: u32 = 1 << 31;
const _: () = assert!(REFUSED >= RANKS && REFUSED >= Immediate::LIMIT);

impl WrId {
    pub(crate) fn encode(self) -> u64 {
        match self {
            WrId::Request(peer, number) => u64::from(peer.0) << 32 | u64::from(number),
            WrId::Message(buffer) => 1 << KIND | u64::from(buffer),
            WrId::HelloSent(buffer) => 2 << KIND | u64::from(buffer),
            WrId::HelloReceived(buffer) => 3 << KIND | u64::from(buffer),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // the low half, and the high half without the kind
    pub(crate) fn decode(id: u64) -> WrId {
        let low = id as u32;
        match id >> KIND {
            0 => WrId::Request(Peer((id >> 32) as u32), low),
            1 => WrId::Message(low),
            2 => WrId::HelloSent(low),
            _ => WrId::HelloReceived(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_round_trip() {
        let all =
            [WrId::Request(Peer(RANKS - 1), u32::MAX), WrId::Message(7), WrId::HelloSent(8), WrId::HelloReceived(9)];
        for id in all {
            assert_eq!(WrId::decode(id.encode()), id);
        }
    }
}
