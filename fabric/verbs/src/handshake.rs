//! The handshake that connects the two halves of a queue pair, over datagrams that may be lost,
//! duplicated or reordered: one pure state machine for both ends.
//!
//! A half is *ready* when it knows that the other half is connected to it. Until then it repeats a
//! hello with its own number. A hello also states the number that its sender has received, and
//! whether its sender is ready. A half connects when it receives the first hello, and is ready when
//! it receives a hello that states the half's own number. Hellos from a half that is not ready are
//! answered. Both halves may begin, or only one of them.

use std::time::{Duration, Instant};

use crate::address::{End, Hello};

/// The first hello is repeated after this time without an answer; the pause then doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// One half of a queue pair during the handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    mine: End,
    theirs: Option<End>,
    ready: bool,
    begun: Instant,
    /// The time of the next hello.
    due: Instant,
    /// The time from the next hello to the one after it.
    pause: Duration,
    /// The number of hellos that [`Handshake::tick`] has requested.
    sent: u32,
}

/// The actions after a received hello, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// Connect this half to that one.
    pub(crate) connect: Option<End>,
    /// This half may send from now on.
    pub(crate) ready: bool,
    /// Send a hello: the other half waits for it.
    pub(crate) answer: bool,
}

/// The action at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// No action yet.
    Wait,
    /// Repeat the hello.
    Repeat,
    /// This half is ready.
    Done,
    /// Give up, because no answer arrived in time. The number is that of the hellos sent.
    GiveUp(u32),
}

impl Handshake {
    /// A half whose first hello is due at once.
    pub(crate) fn new(mine: End, now: Instant) -> Handshake {
        Handshake { mine, theirs: None, ready: false, begun: now, due: now, pause: FIRST_PAUSE, sent: 0 }
    }

    /// The fields `end`, `seen` and `ready` of a hello that is sent now.
    pub(crate) fn hello_fields(&self) -> (End, u32, bool) {
        (self.mine, self.theirs.map_or(0, |end| end.number), self.ready)
    }

    /// Processes a received hello.
    pub(crate) fn receive(&mut self, hello: &Hello) -> Actions {
        let mut actions = Actions::default();
        match self.theirs {
            None => {
                self.theirs = Some(hello.end);
                actions.connect = self.theirs;
            }
            // The sender is an earlier process of that rank, or a stranger to the job.
            Some(theirs) if theirs != hello.end => return actions,
            Some(_) => {}
        }
        if hello.seen == self.mine.number && !self.ready {
            self.ready = true;
            actions.ready = true;
        }
        actions.answer = !hello.ready;
        actions
    }

    /// This half could not be connected. The next hello has it try again.
    pub(crate) fn is_not_connected(&mut self) {
        self.theirs = None;
        self.ready = false;
    }

    /// The action that is due at `now`. `limit` is the longest time of the whole handshake.
    pub(crate) fn tick(&mut self, now: Instant, limit: Duration) -> Tick {
        if self.ready {
            return Tick::Done;
        }
        if now < self.due {
            return Tick::Wait;
        }
        if self.sent > 0 && now.duration_since(self.begun) >= limit {
            return Tick::GiveUp(self.sent);
        }
        self.sent += 1;
        self.due = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Tick::Repeat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Grant};
    use proptest::prelude::*;
    use transom_fabric::Peer;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A half with the actions of its owner, and its outgoing hellos.
    struct Half {
        handshake: Handshake,
        connected: Vec<End>,
        ready: u32,
        sent: Vec<Hello>,
    }

    impl Half {
        fn new(number: u32, start: Instant) -> Half {
            let handshake = Handshake::new(End { number, psn: number * 3 }, start);
            Half { handshake, connected: Vec::new(), ready: 0, sent: Vec::new() }
        }

        fn say(&mut self) {
            let (end, seen, ready) = self.handshake.hello_fields();
            let (grant, address) = (Grant::default(), Address::default());
            self.sent.push(Hello { to: 0, from: Peer(0), end, seen, ready, grant, address });
        }

        fn tick(&mut self, now: Instant) {
            if self.handshake.tick(now, LIMIT) == Tick::Repeat {
                self.say();
            }
        }

        fn receive(&mut self, hello: &Hello) {
            let actions = self.handshake.receive(hello);
            self.connected.extend(actions.connect);
            self.ready += u32::from(actions.ready);
            if actions.answer {
                self.say();
            }
        }
    }

    /// The net's action on the oldest or newest hello of one direction.
    #[derive(Clone, Copy, Debug)]
    enum Net {
        Deliver,
        DeliverNewest,
        Double,
        Lose,
        Tick(u64),
    }

    fn net() -> impl Strategy<Value = Net> {
        prop_oneof![
            3 => Just(Net::Deliver),
            1 => Just(Net::DeliverNewest),
            1 => Just(Net::Double),
            2 => Just(Net::Lose),
            2 => (0..300u64).prop_map(Net::Tick),
        ]
    }

    /// One step; `a` receives from `b`. A half may be ready only if the other half is connected to
    /// it.
    fn step(what: Net, a: &mut Half, b: &mut Half, now: &mut Instant) {
        match what {
            Net::Tick(ms) => {
                *now += Duration::from_millis(ms);
                a.tick(*now);
            }
            _ if b.sent.is_empty() => {}
            Net::Deliver => a.receive(&b.sent.remove(0)),
            Net::DeliverNewest => a.receive(&b.sent.pop().expect("not empty")),
            Net::Double => a.receive(&b.sent[0].clone()),
            Net::Lose => drop(b.sent.remove(0)),
        }
        assert!(a.ready <= 1 && a.connected.len() <= 1, "each happens once");
        if a.ready == 1 {
            assert_eq!((a.connected.len(), b.connected.len()), (1, 1), "both are connected before one may send");
        }
    }

    proptest! {
        #[test]
        fn both_halves_become_ready_whatever_is_lost(
            both in any::<bool>(),
            steps in prop::collection::vec((any::<bool>(), net()), 0..60),
        ) {
            let mut now = Instant::now();
            let (mut a, mut b) = (Half::new(7, now), Half::new(9, now));
            a.tick(now);
            if both {
                b.tick(now);
            }
            for (first, what) in steps {
                let (x, y) = if first { (&mut a, &mut b) } else { (&mut b, &mut a) };
                // A half that does not begin stays silent until the other half has contacted it.
                if !both && !first && matches!(what, Net::Tick(_)) && y.sent.is_empty() && x.connected.is_empty() {
                    continue;
                }
                step(what, x, y, &mut now);
            }
            // From here on the net loses no datagram.
            for _ in 0..8 {
                now += LONGEST_PAUSE;
                a.tick(now);
                if both || !b.connected.is_empty() {
                    b.tick(now);
                }
                for _ in 0..200 {
                    step(Net::Deliver, &mut a, &mut b, &mut now);
                    step(Net::Deliver, &mut b, &mut a, &mut now);
                }
            }
            prop_assert_eq!((a.ready, b.ready), (1, 1));
            prop_assert_eq!((a.connected[0].number, b.connected[0].number), (9, 7));
            prop_assert!(a.sent.is_empty() && b.sent.is_empty(), "no hello follows");
        }
    }

    #[test]
    fn a_handshake_without_answer_ends() {
        let start = Instant::now();
        let mut half = Handshake::new(End { number: 1, psn: 1 }, start);
        assert_eq!(half.tick(start, LIMIT), Tick::Repeat);
        assert_eq!(half.tick(start + Duration::from_millis(1), LIMIT), Tick::Wait);
        assert_eq!(half.tick(start + Duration::from_millis(20), LIMIT), Tick::Repeat);
        assert_eq!(half.tick(start + LIMIT, LIMIT), Tick::GiveUp(2));
    }

    #[test]
    fn a_half_can_be_connected_to_itself() {
        let now = Instant::now();
        let mut own = Half::new(5, now);
        own.tick(now);
        while !own.sent.is_empty() {
            let hello = own.sent.remove(0);
            own.receive(&hello);
        }
        assert_eq!((own.ready, own.connected.len()), (1, 1));
        assert_eq!(own.handshake.tick(now + LIMIT, LIMIT), Tick::Done);
    }

    #[test]
    fn hellos_of_an_earlier_process_are_ignored() {
        let now = Instant::now();
        let (mut a, mut b, mut later) = (Half::new(1, now), Half::new(2, now), Half::new(3, now));
        b.tick(now);
        later.tick(now);
        a.receive(&b.sent[0].clone());
        a.receive(&later.sent[0].clone());
        assert_eq!(a.connected, [End { number: 2, psn: 6 }]);
        assert_eq!(a.sent.len(), 1, "no answer to the stray");
    }
}
