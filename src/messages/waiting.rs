//! The requests that wait for their replies, by token.

use std::collections::BTreeMap;

use transom_fabric::{Peer, Tally, TallyRef};

use super::ReplyDestination;

/// Slots of the table. Tokens ascend: the slot of a token is used again by the 32nd token after it.
/// If the slot's request still waits then, the new request is kept outside of the table.
const PLACES: usize = 32;

/// A request that waits for its reply.
pub(super) struct Waiting {
    pub(super) from: Peer,
    pub(super) into: ReplyDestination,
    pub(super) tally: TallyRef,
    /// The requests (`MPI_RPUT` and others) whose operations share the message. Each counts its own
    /// operation.
    pub(super) requests: Vec<TallyRef>,
    /// Whether each operation has such a request. If not, `tally` records a failure too.
    pub(super) all_requested: bool,
    /// Whether `tally` counts the message. If not, no call waits for the reply, and the tally only
    /// records a failure.
    pub(super) is_counted: bool,
}

impl Waiting {
    /// A message whose operations `tally` counts as one.
    pub(super) fn new(from: Peer, into: ReplyDestination, tally: &TallyRef) -> Waiting {
        let (tally, requests) = (tally.clone(), Vec::new());
        Waiting { from, into, tally, requests, all_requested: false, is_counted: true }
    }

    /// Ends the count of the message: no call waits for the reply.
    pub(super) fn await_no_more(&mut self) {
        self.is_counted = false;
        self.tally.finish();
    }

    /// Ends the wait after the reply.
    pub(super) fn end(self) {
        self.requests.iter().for_each(|tally| tally.finish());
        if self.is_counted {
            self.tally.finish();
        }
    }

    /// Ends the wait after a failure, which `end` records in a tally. The target's tally also has
    /// the failures of requests, so it records only those of other operations.
    #[cold]
    pub(super) fn end_failed(self, end: impl Fn(&Tally)) {
        self.requests.iter().for_each(|tally| end(tally));
        if !self.is_counted {
            self.tally.begin();
        }
        if self.all_requested { self.tally.finish() } else { end(&self.tally) }
    }
}

/// The requests that wait. Few wait at a time, and replies to most of them come soon: these have
/// places in a table.
#[derive(Default)]
pub(super) struct Requests {
    next: u64,
    /// The place of a token is its remainder.
    places: [Option<(u64, Waiting)>; PLACES],
    /// The requests whose places were taken.
    others: BTreeMap<u64, Waiting>,
}

#[allow(clippy::cast_possible_truncation)] // `PLACES` is a power of two
fn place_of(token: u64) -> usize {
    token as usize % PLACES
}

impl Requests {
    /// Adds a request and returns its token. Tokens ascend.
    pub(super) fn insert(&mut self, waiting: Waiting) -> u64 {
        let token = self.next;
        self.next += 1;
        match &mut self.places[place_of(token)] {
            place @ None => *place = Some((token, waiting)),
            Some(_) => _ = self.others.insert(token, waiting),
        }
        token
    }

    /// Removes a request, whose reply has come or will not come.
    pub(super) fn remove(&mut self, token: u64) -> Option<Waiting> {
        match self.places[place_of(token)].take_if(|(theirs, _)| *theirs == token) {
            Some((_, waiting)) => Some(waiting),
            None => self.others.remove(&token),
        }
    }

    pub(super) fn get(&self, token: u64) -> Option<&Waiting> {
        match &self.places[place_of(token)] {
            Some((theirs, waiting)) if *theirs == token => Some(waiting),
            _ => self.others.get(&token),
        }
    }

    /// The token of the next request.
    pub(super) fn next_token(&self) -> u64 {
        self.next
    }

    /// All requests that wait, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Waiting)> {
        let places = self.places.iter().flatten().map(|(token, waiting)| (*token, waiting));
        places.chain(self.others.iter().map(|(&token, waiting)| (token, waiting)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(from: u32) -> Waiting {
        Waiting::new(Peer(from), ReplyDestination::Nowhere, &Tally::new())
    }

    /// One request in four waits long, so that later ones find their places taken.
    #[test]
    fn each_token_finds_its_own_request() {
        let mut requests = Requests::default();
        let tokens: Vec<_> = (0..8 * 32).map(|from| (requests.insert(waiting(from)), from)).collect();
        let (late, soon): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|(token, _)| token % 4 == 0);
        let remove = |requests: &mut Requests, (token, from)| {
            assert_eq!(requests.get(token).map(|waiting| waiting.from), Some(Peer(from)));
            assert_eq!(requests.remove(token).map(|waiting| waiting.from), Some(Peer(from)));
            assert!(requests.get(token).is_none() && requests.remove(token).is_none(), "removed");
        };
        soon.into_iter().rev().for_each(|request| remove(&mut requests, request));
        let again: Vec<_> = (0..32).map(|from| (requests.insert(waiting(from)), from)).collect();
        assert_eq!(requests.next_token(), 9 * 32);
        let mut all: Vec<_> = requests.iter().map(|(token, waiting)| (token, waiting.from.0)).collect();
        all.sort_unstable();
        assert_eq!(all, [late.clone(), again.clone()].concat());
        again.into_iter().chain(late).for_each(|request| remove(&mut requests, request));
        assert!(requests.iter().next().is_none() && requests.others.is_empty());
    }
}
