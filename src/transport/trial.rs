//! The first contact of two ranks at start, which shows whether the net carries packets between
//! their machines: a device may be active although its packets are dropped on the way.

use std::cell::Cell;
use std::time::{Duration, Instant};

use transom_fabric::{Domain, FabricError, Handler, Peer, Port, Post, Reason};

use super::Net;

/// The longest sleep, after which requests for the connection are repeated.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for a message from a rank.
struct Arrival {
    from: Peer,
    arrived: Cell<bool>,
}

impl Handler for Arrival {
    fn message(&self, from: Peer, _bytes: &[u8]) {
        if from == self.from {
            self.arrived.set(true);
        }
    }
}

impl Net {
    /// Connects to a rank and exchanges one message with it. The rank makes the same call.
    ///
    /// # Errors
    /// The connection fails, or takes longer than `limit`.
    pub(crate) fn try_contact(&self, peer: Peer, address: &[u8], limit: Duration) -> Result<(), FabricError> {
        each_net!(self, domain => try_contact(domain.port(), peer, address, limit))
    }
}

fn try_contact(port: &impl Port, peer: Peer, address: &[u8], limit: Duration) -> Result<(), FabricError> {
    let begun = Instant::now();
    let (arrival, mut sent) = (Arrival { from: peer, arrived: Cell::new(false) }, false);
    port.connect(peer, address)?;
    while !sent || !arrival.arrived.get() {
        if !sent {
            match port.send(peer, &[0]) {
                Post::Done | Post::Pending => sent = true,
                Post::Again => {}
                Post::Broken(fault) => return Err((*fault).into()),
            }
        }
        if port.progress(&arrival)? > 0 {
            continue;
        }
        if begun.elapsed() >= limit {
            return Err(FabricError::failed(format!("exchanging a message with {peer}"), Reason::Timeout { limit }));
        }
        port.wait(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use transom_fabric::sim::{SimNet, SimOptions};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Shows T3.
    #[test]
    fn two_ranks_find_whether_messages_pass_between_them() {
        let net = SimNet::new(2, SimOptions::default());
        let nets = [0, 1].map(|rank| Net::Sim(net.domain(Peer(rank)).expect("a rank")));
        let contact = |rank: usize, limit| {
            let peer = 1 - rank;
            nets[rank].try_contact(Peer(u32::try_from(peer).expect("few")), &nets[peer].address(), limit)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| contact(1, LONG));
            assert!(contact(0, LONG).is_ok() && other.join().expect("no panic").is_ok());
        });
        let error = contact(0, Duration::from_millis(20)).expect_err("the other rank is silent");
        assert!(format!("{error:#}").contains("exchanging a message with rank 1: no operation completed"), "{error:#}");
    }
}
