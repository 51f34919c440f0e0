//! Tickets: the 64 bits that each completion returns, which identify the completed request.

use transom_fabric::Peer;

/// The subject of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// The request with this number on the connection to this peer, and all before it.
    Request(Peer, u32),
    /// A received message, in this buffer.
    Message(u32),
    /// A sent hello, in this buffer.
    HelloSent(u32),
    /// A received hello, in this buffer.
    HelloReceived(u32),
}

/// First bit of the kind.
const KIND: u64 = 62;
/// Number of ranks that fit between a request's number and the kind.
pub(crate) const RANKS: u32 = 1 << (KIND - 32);

/// Bit of a message's immediate data, beside the sender's rank: a message to this receiver was
/// refused for lack of credit since the one before.
pub(crate) const REFUSED: u32 = 1 << 31;
const _: () = assert!(REFUSED >= RANKS);

impl Ticket {
    pub(crate) fn encode(self) -> u64 {
        match self {
            Ticket::Request(peer, number) => u64::from(peer.0) << 32 | u64::from(number),
            Ticket::Message(buffer) => 1 << KIND | u64::from(buffer),
            Ticket::HelloSent(buffer) => 2 << KIND | u64::from(buffer),
            Ticket::HelloReceived(buffer) => 3 << KIND | u64::from(buffer),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // the low half, and the high half without the kind
    pub(crate) fn decode(id: u64) -> Ticket {
        let low = id as u32;
        match id >> KIND {
            0 => Ticket::Request(Peer((id >> 32) as u32), low),
            1 => Ticket::Message(low),
            2 => Ticket::HelloSent(low),
            _ => Ticket::HelloReceived(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_round_trip() {
        let all = [
            Ticket::Request(Peer(RANKS - 1), u32::MAX),
            Ticket::Message(7),
            Ticket::HelloSent(8),
            Ticket::HelloReceived(9),
        ];
        for ticket in all {
            assert_eq!(Ticket::decode(ticket.encode()), ticket);
        }
    }
}
