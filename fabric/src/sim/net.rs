//! The net: the state of all ranks under one mutex, and the calls of their ports. It accesses the
//! origin's buffers only through the safe methods of `apply`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::domain::{SimDomain, SimRemote};
use super::faults::Faults;
use super::flight::{Flight, Rng, Work};
use super::state::{InFlightMessage, Rank, State, fail, killed};
use super::{SimCounters, SimOptions};
use crate::{Awaited, FabricError, Fault, Immediate, Memory, Peer, Post, Reason, RegionKey, TallyRef};

const MAGIC: u64 = u64::from_be_bytes(*b"tran-sim");

/// The identifier of the next net. Each net accepts only keys and addresses with its own
/// identifier.
static NETS: AtomicU64 = AtomicU64::new(1);

/// A simulated network between the threads of one process.
pub struct SimNet {
    /// Distinguishes the nets of a process.
    id: u64,
    options: SimOptions,
    state: Mutex<State>,
    /// One for each rank, whose waiting threads wait on it.
    condvars: Vec<Condvar>,
    observer: OnceLock<Observer>,
}

/// What a step of a rank's progress has found.
pub(super) struct Step {
    /// The number of completions.
    pub(super) completed: usize,
    /// The messages that arrive.
    pub(super) messages: Vec<InFlightMessage>,
    /// The immediates that have arrived, each with its origin.
    pub(super) immediates: Vec<(Peer, Immediate)>,
}

/// A function that is called with the rank that posts an operation.
type Observer = Box<dyn Fn(Peer) + Send + Sync>;

impl fmt::Debug for SimNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNet({} ranks, {:?})", self.condvars.len(), self.options)
    }
}

impl SimNet {
    /// A net of `ranks` ranks, none of which is open yet.
    ///
    /// # Panics
    /// If `again_one_in` is 1: no post would ever be accepted.
    pub fn new(ranks: usize, options: SimOptions) -> Arc<SimNet> {
        assert_ne!(options.again_one_in, 1, "every post would answer Again");
        Arc::new(SimNet {
            // Relaxed: only uniqueness matters.
            id: NETS.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(State {
                rng: Rng::new(options.seed),
                ranks: (0..ranks).map(|_| Rank::new(options.regions.keys)).collect(),
                posts: 0,
            }),
            condvars: (0..ranks).map(|_| Condvar::new()).collect(),
            observer: OnceLock::new(),
            options,
        })
    }

    /// Opens a rank.
    ///
    /// # Errors
    /// There is no such rank, or it is open already.
    pub fn domain(self: &Arc<SimNet>, rank: Peer) -> Result<Arc<SimDomain>, FabricError> {
        let opening = || format!("opening {rank} of a net of {}", self.condvars.len());
        let ranks = u32::try_from(self.condvars.len()).unwrap_or(u32::MAX);
        match self.state().ranks.get_mut(rank.index()) {
            None => return Err(FabricError::failed(opening(), Reason::RankLimit { limit: ranks })),
            Some(known) if known.open => {
                return Err(FabricError::failed(opening(), Reason::Opened));
            }
            Some(known) => known.open = true,
        }
        Ok(Arc::new(SimDomain::new(Arc::clone(self), rank)))
    }

    /// Breaks a rank: posts to it and from it answer `Broken`, operations in flight fail, and its
    /// progress is an error. Messages to it are lost; messages from it may be lost.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn kill(&self, rank: Peer) {
        let mut state = self.state();
        let State { rng, ranks, .. } = &mut *state;
        ranks[rank.index()].dead = true;
        ranks[rank.index()].inbox.clear();
        for known in ranks {
            known.inbox.retain(|message| message.from != rank || rng.one_in(2));
            let concerned = |flight: &mut Flight| flight.target == rank || flight.origin == rank;
            for flight in known.underway.extract_if(.., concerned) {
                fail(flight, &killed(rank));
            }
            known.woken = true;
        }
        for condvar in &self.condvars {
            condvar.notify_all();
        }
    }

    /// The accepted posts of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn counters(&self, rank: Peer) -> SimCounters {
        self.state().ranks[rank.index()].counters
    }

    /// The number of waits of the rank's calls so far, without those of its progress thread.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn waits(&self, rank: Peer) -> u64 {
        self.state().ranks[rank.index()].calls.waits
    }

    /// The number of a rank's polls for completions so far, by any of its threads.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn completion_polls(&self, rank: Peer) -> u64 {
        self.state().ranks[rank.index()].calls.completion_polls
    }

    pub(super) fn count_wait(&self, me: Peer) {
        self.state().ranks[me.index()].calls.waits += 1;
    }

    /// Whether a rank holds back an operation, which only calls of this rank release.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn holds(&self, rank: Peer) -> bool {
        self.state().ranks[rank.index()].held.is_some()
    }

    /// Releases the operation that a rank holds back.
    pub(super) fn release(&self, me: Peer) {
        self.state().ranks[me.index()].held = None;
    }

    /// The number of regions of a rank: with fast keys, and with other keys.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn regions(&self, rank: Peer) -> [usize; 2] {
        let rank = &self.state().ranks[rank.index()];
        let fast = rank.regions.keys().filter(|&&key| rank.keys.is_fast(key)).count();
        [fast, rank.regions.len() - fast]
    }

    pub(super) fn options(&self) -> &SimOptions {
        &self.options
    }

    pub(super) fn faults(&self, rank: Peer, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().ranks[rank.index()].faults);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of a rank's thread (in a fill closure, or on a broken limit) leaves the queues
        // consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self, me: Peer) -> Vec<u8> {
        [MAGIC, self.id, u64::from(me.0)].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    pub(super) fn connect(&self, me: Peer, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let mut state = self.state();
        if address != self.address(peer) || peer.index() >= state.ranks.len() {
            return Err(FabricError::failed(
                format!("connecting {me} to {peer}"),
                Reason::ForeignAddress { length: address.len() },
            ));
        }
        state.ranks[me.index()].connected.insert(peer);
        Ok(())
    }

    pub(super) fn register(&self, me: Peer, memory: &Memory) -> Result<RegionKey, FabricError> {
        let rank = &mut self.state().ranks[me.index()];
        let live = rank.regions.len();
        let room = self.options.regions.most.is_none_or(|most| live < most);
        let Some(key) = room.then(|| rank.keys.take().ok()).flatten() else {
            return Err(FabricError::failed(
                format!("registering {} bytes at {:p} for {me}", memory.len(), memory.as_ptr()),
                Reason::NoRegion { regions: live },
            ));
        };
        rank.regions.insert(key, memory.clone());
        Ok(RegionKey([MAGIC ^ self.id, key, u64::from(me.0), memory.len() as u64]))
    }

    pub(super) fn deregister(&self, me: Peer, key: &RegionKey) {
        let rank = &mut self.state().ranks[me.index()];
        if rank.regions.remove(&key.0[1]).is_some() {
            rank.keys.give_back(key.0[1]);
        }
    }

    pub(super) fn import(&self, me: Peer, peer: Peer, key: &RegionKey) -> Result<SimRemote, FabricError> {
        let refused = |reason: Reason| {
            let importing = format!("importing the key {:x?} of {peer} at {me}", key.0);
            Err(FabricError::failed(importing, reason))
        };
        let state = self.state();
        let RegionKey([magic, region, owner, len]) = *key;
        if magic != MAGIC ^ self.id || owner != u64::from(peer.0) {
            return refused(Reason::ForeignKey);
        }
        if !state.ranks[me.index()].connected.contains(&peer) {
            return refused(Reason::NotConnected);
        }
        match state.region(peer, region) {
            Some(memory) if memory.len() as u64 == len => Ok(SimRemote { peer, region, len: memory.len() }),
            _ => refused(Reason::NotRegistered),
        }
    }

    /// Calls `observer` within each post of an operation, in the thread that posts. Only the first
    /// observer of a net is taken.
    pub fn on_post(&self, observer: impl Fn(Peer) + Send + Sync + 'static) {
        // A net has one observer; a later one is dropped.
        let _ = self.observer.set(Box::new(observer));
    }

    /// Posts an operation, as the contract says. `work` is called only if the operation is
    /// accepted.
    pub(super) fn post(
        &self,
        me: Peer,
        to: &SimRemote,
        offset: u64,
        len: usize,
        work: impl FnOnce() -> Work,
        tally: &TallyRef,
    ) -> Post {
        if let Some(observer) = self.observer.get() {
            observer(me);
        }
        let mut state = self.state();
        if let Some(fault) = state.obstacle(me, to.peer) {
            return Post::Broken(Box::new(fault));
        }
        let Some(offset) =
            usize::try_from(offset).ok().filter(|at| at.checked_add(len).is_some_and(|end| end <= to.len))
        else {
            let reason = Reason::Outside { at: offset, length: len as u64, limit: to.len as u64 };
            return Post::Broken(Box::new(Fault::new(to.peer, reason)));
        };
        if self.refuses_at_random(&mut state, me) {
            return Post::Again;
        }
        let work = work();
        state.ranks[me.index()].counters.count(&work, len);
        if len == 0 && !matches!(work, Work::Put(_, Some(_))) {
            return Post::Done;
        }
        let mut flight = Flight {
            origin: me,
            target: to.peer,
            region: to.region,
            offset,
            len,
            pieces: state.pieces(&self.options, to, offset, len, &work),
            left: state.rng.steps(self.options.delay),
            work,
            tally: tally.clone(),
            stamp: state.next_stamp(),
        };
        let here = self.options.passive_target || to.peer == me;
        // On a net that keeps order, an operation is not complete before earlier ones to the rank.
        let first = self.options.reorder || !state.ranks[me.index()].underway.iter().any(|it| it.target == to.peer);
        let behind = State::followed(&self.options, &flight.work)
            .is_some_and(|most| state.data_before(me, to.peer, flight.stamp, most));
        state.ranks[me.index()].counters.behind += u64::from(behind);
        let waits = state.waits(&self.options, &flight);
        let holds = self.options.delivery.holds && flight.immediate().is_none();
        state.ranks[me.index()].held = holds.then_some(flight.stamp);
        if here && first && !waits && !holds && state.rng.one_in(self.options.done_one_in) {
            let applied = state.apply(&mut flight, true);
            self.condvars[to.peer.index()].notify_all();
            return match applied {
                Ok(()) => Post::Done,
                Err(fault) => Post::Broken(Box::new(fault)),
            };
        }
        if let Work::Get(into) | Work::Amo(_, _, into) = &flight.work {
            into.spoil();
        }
        tally.begin();
        let home = if here { me } else { to.peer };
        state.ranks[home.index()].underway.push(flight);
        self.condvars[home.index()].notify_all();
        Post::Pending
    }

    pub(super) fn send(&self, me: Peer, to: Peer, message: &[u8]) -> Post {
        let mut state = self.state();
        if let Some(fault) = state.obstacle(me, to).or_else(|| state.ranks[to.index()].faults.of_message(to)) {
            return Post::Broken(Box::new(fault));
        }
        if let Some(lost) = state.ranks[to.index()].faults.stops_before_message() {
            state.ranks[me.index()].faults.lose(lost);
        }
        let waiting = state.ranks[to.index()].inbox.len();
        let full = self.options.delivery.most.is_some_and(|most| waiting >= most);
        let refused = match self.options.delivery.slots {
            Some(slots) => !state.has_slot(me, to, slots),
            None => state.ranks[to.index()].faults.takes_no_messages,
        };
        if self.refuses_at_random(&mut state, me) || full || refused {
            state.ranks[me.index()].woken = true;
            return Post::Again;
        }
        let (left, stamp) = (state.rng.steps(self.options.delay), state.next_stamp());
        let in_flight = InFlightMessage { from: me, bytes: message.to_vec(), left, stamp };
        let behind = self.options.delivery.ordered && state.data_before(me, to, stamp, usize::MAX);
        let counters = &mut state.ranks[me.index()].counters;
        counters.messages += 1;
        counters.behind += u64::from(behind);
        counters.bytes += message.len() as u64;
        state.ranks[to.index()].inbox.push(in_flight);
        self.condvars[to.index()].notify_all();
        Post::Done
    }

    /// Decides at random whether a post is answered `Again`. The next wait then returns at once,
    /// because a retry may succeed.
    fn refuses_at_random(&self, state: &mut State, me: Peer) -> bool {
        let again = state.rng.one_in(self.options.again_one_in);
        state.ranks[me.index()].woken |= again;
        again
    }

    /// One step of a rank's progress. A net with immediates reports completions only where they are
    /// `awaited`.
    pub(super) fn advance(&self, me: Peer, awaited: bool) -> Result<Step, FabricError> {
        let mut state = self.state();
        if state.ranks[me.index()].dead {
            return Err(killed(me).into());
        }
        state.ranks[me.index()].faults.of_progress()?;
        state.ranks[me.index()].held = None;
        state.ranks[me.index()].calls.completion_polls += u64::from(awaited);
        // Completions are delivered first: an operation that is applied in this step completes in a
        // later one.
        let completes = awaited || !self.options.delivery.immediates.any();
        let completed = if completes { state.complete(&self.options, me) } else { 0 };
        let messages = state.deliver(&self.options, me);
        let immediates = std::mem::take(&mut state.ranks[me.index()].arrived);
        let mut to_wake = state.apply_pieces(&self.options, me);
        if self.options.passive_target && state.rng.one_in(2) {
            let other = state.rng.below(self.condvars.len());
            to_wake.extend(state.apply_pieces(&self.options, rank_of(other)));
        }
        for origin in to_wake {
            self.condvars[origin.index()].notify_all();
        }
        Ok(Step { completed, messages, immediates })
    }

    /// Waits until the rank may have something to do. A net with immediates ends the wait for
    /// completions only where they are `awaited`. Returns false if `limit` has passed.
    pub(super) fn wait(&self, me: Peer, limit: Duration, awaited: Awaited, still_idle: impl FnOnce() -> bool) -> bool {
        let completes = awaited == Awaited::Completions || !self.options.delivery.immediates.any();
        self.release(me);
        self.state().ranks[me.index()].waiting += 1;
        // A wake from here on is kept until this thread has left.
        let is_idle = still_idle();
        let (mut state, waited) = self.condvars[me.index()]
            .wait_timeout_while(self.state(), limit, |state| {
                let rank = &state.ranks[me.index()];
                let nothing_arrived = rank.underway.is_empty()
                    && (rank.completing.is_empty() || !completes)
                    && rank.inbox.is_empty()
                    && rank.arrived.is_empty();
                is_idle && nothing_arrived && !rank.woken && !rank.dead
            })
            .unwrap_or_else(PoisonError::into_inner);
        let rank = &mut state.ranks[me.index()];
        rank.waiting -= 1;
        rank.woken &= rank.waiting > 0;
        !waited.timed_out()
    }

    pub(super) fn wake(&self, me: Peer) {
        self.state().ranks[me.index()].woken = true;
        self.condvars[me.index()].notify_all();
    }
}

fn rank_of(index: usize) -> Peer {
    Peer(u32::try_from(index).unwrap_or(u32::MAX))
}
