//! The state of a net: the queues of all ranks, and the steps that move operations and messages on.
//! Independent of the lock that protects the state and of waiting threads.

use std::collections::{BTreeMap, HashSet};

use super::domain::SimRemote;
use super::faults::Faults;
use super::flight::{Flight, Rng, Work, cut};
use super::{SimCounters, SimOptions};
use crate::{Fault, Immediate, KeyRange, Keys, Memory, Peer, Reason, TallyRef, share};

pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) ranks: Vec<Rank>,
    /// The number of operations and messages that were posted.
    pub(super) posts: u64,
}

/// The state of a rank.
pub(super) struct Rank {
    pub(super) open: bool,
    pub(super) dead: bool,
    pub(super) faults: Faults,
    pub(super) keys: Keys,
    /// The rank's registered memory by key.
    pub(super) regions: BTreeMap<u64, Memory>,
    pub(super) connected: HashSet<Peer>,
    /// Operations that this rank's progress applies: those that this rank posted, or with
    /// `passive_target: false` those to this rank.
    pub(super) underway: Vec<Flight>,
    /// Applied operations of this rank, each with the steps until its completion.
    pub(super) completing: Vec<(u32, TallyRef)>,
    /// Messages to this rank that are in flight.
    pub(super) inbox: Vec<InFlightMessage>,
    /// Immediates to this rank that have arrived, each with its origin.
    pub(super) arrived: Vec<(Peer, Immediate)>,
    /// The stamp of the operation that this rank holds back.
    pub(super) held: Option<u64>,
    /// Whether waits return immediately, until no thread waits.
    pub(super) woken: bool,
    /// The number of threads that wait.
    pub(super) waiting: usize,
    /// The calls of the rank so far.
    pub(super) calls: Calls,
    pub(super) counters: SimCounters,
}

/// Counts of a rank's calls.
#[derive(Default)]
pub(super) struct Calls {
    /// Waits, without those of the progress thread.
    pub(super) waits: u64,
    /// Polls for completions, by any thread.
    pub(super) completion_polls: u64,
}

/// A message in flight.
pub(super) struct InFlightMessage {
    pub(super) from: Peer,
    pub(super) bytes: Vec<u8>,
    /// Steps of progress until the message is delivered.
    pub(super) left: u32,
    /// The message's number among all posts of the net.
    pub(super) stamp: u64,
}

impl Rank {
    pub(super) fn new(keys: KeyRange) -> Rank {
        Rank {
            open: false,
            dead: false,
            faults: Faults::default(),
            keys: Keys::new(keys),
            regions: BTreeMap::new(),
            connected: HashSet::new(),
            underway: Vec::new(),
            completing: Vec::new(),
            inbox: Vec::new(),
            arrived: Vec::new(),
            held: None,
            woken: false,
            waiting: 0,
            calls: Calls::default(),
            counters: SimCounters::default(),
        }
    }
}

impl State {
    pub(super) fn region(&self, owner: Peer, key: u64) -> Option<&Memory> {
        self.ranks.get(owner.index())?.regions.get(&key)
    }

    /// The reason why `me` can't reach `to`.
    pub(super) fn obstacle(&self, me: Peer, to: Peer) -> Option<Fault> {
        let dead = |rank: Peer| self.ranks.get(rank.index()).is_some_and(|known| known.dead);
        if let Some(gone) = [to, me].into_iter().find(|rank| dead(*rank)) {
            return Some(killed(gone));
        }
        (!self.ranks[me.index()].connected.contains(&to)).then(|| Fault::new(to, Reason::NotConnected))
    }

    pub(super) fn pieces(
        &mut self,
        options: &SimOptions,
        to: &SimRemote,
        offset: usize,
        len: usize,
        work: &Work,
    ) -> Vec<std::ops::Range<usize>> {
        if matches!(work, Work::Amo(..)) || !options.reorder {
            return std::iter::once(0..len).collect();
        }
        let address = self.region(to.peer, to.region).map_or(0, |memory| memory.as_ptr().addr() + offset);
        cut(&mut self.rng, len, (!options.tear_words).then_some(address))
    }

    /// Applies the next piece of an operation, or all of them. With the last piece of a put its
    /// immediate arrives.
    pub(super) fn apply(&mut self, flight: &mut Flight, all: bool) -> Result<(), Fault> {
        let Some(memory) = self.region(flight.target, flight.region) else {
            return Err(Fault::new(flight.target, Reason::NotRegistered));
        };
        flight.apply_piece(memory);
        while all && !flight.pieces.is_empty() {
            flight.apply_piece(memory);
        }
        if flight.pieces.is_empty()
            && let Some(immediate) = flight.immediate()
        {
            self.ranks[flight.target.index()].arrived.push((flight.origin, immediate));
        }
        Ok(())
    }

    /// Applies the next piece of each due operation of this rank's progress. Returns the origins
    /// whose operations are over.
    pub(super) fn apply_pieces(&mut self, options: &SimOptions, rank: Peer) -> HashSet<Peer> {
        // Without `reorder`, all operations keep their order anyway.
        let waiting = if options.reorder { self.take_waiting(options, rank) } else { Vec::new() };
        let mut flights = std::mem::take(&mut self.ranks[rank.index()].underway);
        if options.reorder {
            self.rng.shuffle(&mut flights);
        }
        let mut to_wake = HashSet::new();
        let mut kept = Vec::new();
        for mut flight in flights {
            let is_behind = !options.reorder && !kept.is_empty();
            let is_held = self.ranks[flight.origin.index()].held == Some(flight.stamp);
            if flight.left > 0 || is_behind || is_held {
                flight.left = flight.left.saturating_sub(1);
                kept.push(flight);
                continue;
            }
            let applied = self.apply(&mut flight, false);
            if applied.is_ok() && !flight.pieces.is_empty() {
                flight.left = self.rng.steps(options.delay);
                kept.push(flight);
                continue;
            }
            to_wake.insert(flight.origin);
            if flight.immediate().is_some() {
                to_wake.insert(flight.target);
            }
            match applied {
                Ok(()) => {
                    let left = self.rng.steps(options.delay);
                    let origin = &mut self.ranks[flight.origin.index()];
                    origin.completing.push((left, flight.tally));
                }
                Err(fault) => {
                    self.ranks[flight.origin.index()].woken = true;
                    fail(flight, &fault);
                }
            }
        }
        kept.extend(waiting);
        self.ranks[rank.index()].underway = kept;
        to_wake
    }

    /// Lowers the tallies of operations that earlier steps applied. Returns their number.
    pub(super) fn complete(&mut self, options: &SimOptions, me: Peer) -> usize {
        let completing = &mut self.ranks[me.index()].completing;
        if options.reorder {
            self.rng.shuffle(completing);
        }
        take_due(completing, options.reorder, |(left, _)| left).into_iter().map(|(_, tally)| tally.finish()).count()
    }

    /// Whether one of the `slots` of `from` is available for a message to `to`.
    pub(super) fn has_slot(&self, from: Peer, to: Peer, slots: usize) -> bool {
        let in_flight_to = |rank: &Rank| rank.inbox.iter().filter(|message| message.from == from).count();
        let all: usize = self.ranks.iter().map(in_flight_to).sum();
        share::allows(in_flight_to(&self.ranks[to.index()]), slots.saturating_sub(all))
    }

    /// Takes the messages to a rank that arrive in this step.
    pub(super) fn deliver(&mut self, options: &SimOptions, me: Peer) -> Vec<InFlightMessage> {
        if options.delivery.slots.is_some() && self.ranks[me.index()].faults.takes_no_messages {
            return Vec::new();
        }
        let mut inbox = std::mem::take(&mut self.ranks[me.index()].inbox);
        let waiting: Vec<_> = inbox
            .extract_if(.., |it| options.delivery.ordered && self.puts_before(it.from, me, it.stamp, usize::MAX))
            .collect();
        if options.reorder {
            self.rng.shuffle(&mut inbox);
        }
        let arrived = take_due(&mut inbox, options.reorder, |message| &mut message.left);
        inbox.extend(waiting);
        self.ranks[me.index()].inbox = inbox;
        arrived
    }

    /// Whether puts of `from` to `to` of at most `most` bytes are in flight that were posted before
    /// the post `stamp`.
    pub(super) fn puts_before(&self, from: Peer, to: Peer, stamp: u64, most: usize) -> bool {
        self.is_before(from, to, stamp, |it| matches!(it.work, Work::Put(..)) && it.len <= most)
    }

    /// [`State::puts_before`] of puts that still have data to deliver.
    pub(super) fn data_before(&self, from: Peer, to: Peer, stamp: u64, most: usize) -> bool {
        let has_data = |it: &Flight| matches!(it.work, Work::Put(..)) && it.len <= most && !it.pieces.is_empty();
        self.is_before(from, to, stamp, has_data)
    }

    /// Whether operations of `from` to `to` are in flight that are `of` a kind and were posted
    /// before the post `stamp`.
    fn is_before(&self, from: Peer, to: Peer, stamp: u64, of: impl Fn(&Flight) -> bool) -> bool {
        let mut underway = [to, from].into_iter().flat_map(|rank| &self.ranks[rank.index()].underway);
        underway.any(|flight| {
            let between = flight.origin == from && flight.target == to;
            between && of(flight) && flight.stamp < stamp
        })
    }

    /// Whether an operation waits for earlier operations of its origin to the target.
    pub(super) fn waits(&self, options: &SimOptions, flight: &Flight) -> bool {
        let Flight { origin, target, stamp, work, .. } = flight;
        let is_amo = |it: &Flight| matches!(it.work, Work::Amo(..));
        State::followed(options, work).is_some_and(|most| self.puts_before(*origin, *target, *stamp, most))
            || options.delivery.amos_in_order && is_amo(flight) && self.is_before(*origin, *target, *stamp, is_amo)
    }

    /// The most bytes of a put that an operation follows, if its origin posted the put to the
    /// target before; `None` if it follows none.
    pub(super) fn followed(options: &SimOptions, work: &Work) -> Option<usize> {
        match work {
            Work::Put(_, immediate) => immediate.map(|_| options.delivery.immediates.follow),
            Work::Get(_) => None,
            Work::Amo(..) => options.delivery.amos_ordered.then_some(usize::MAX),
        }
    }

    /// Takes out the operations of this rank's progress that wait for earlier ones.
    fn take_waiting(&mut self, options: &SimOptions, rank: Peer) -> Vec<Flight> {
        let index = rank.index();
        let underway = self.ranks[index].underway.iter();
        let waiting: HashSet<u64> =
            underway.filter(|flight| self.waits(options, flight)).map(|flight| flight.stamp).collect();
        self.ranks[index].underway.extract_if(.., |flight| waiting.contains(&flight.stamp)).collect()
    }

    /// The stamp of a new post.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.posts += 1;
        self.posts
    }
}

/// Takes out the entries that have no steps left, and takes a step off the others. Unless entries
/// may `overtake`, an entry stays while an earlier one stays.
fn take_due<T>(queue: &mut Vec<T>, overtake: bool, left: impl Fn(&mut T) -> &mut u32) -> Vec<T> {
    let mut is_behind = false;
    queue
        .extract_if(.., |item| {
            let left = left(item);
            let out = *left == 0 && !is_behind;
            *left = left.saturating_sub(1);
            is_behind |= !out && !overtake;
            out
        })
        .collect()
}

/// Fails an operation: first ends the use of its lent buffers, and then lowers its tally.
pub(super) fn fail(flight: Flight, fault: &Fault) {
    let Flight { work, tally, .. } = flight;
    drop(work);
    tally.fail(fault);
}

pub(super) fn killed(rank: Peer) -> Fault {
    Fault::new(rank, Reason::Died)
}

impl SimCounters {
    pub(super) fn count(&mut self, work: &Work, len: usize) {
        match work {
            Work::Put(..) => self.puts += 1,
            Work::Get(_) => self.gets += 1,
            Work::Amo(..) => self.amos += 1,
        }
        self.bytes += len as u64;
    }
}
