//! The net: the queues of all ranks under one mutex, and the steps that move operations on. It
//! accesses the origin's buffers only through the safe methods of `apply`.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::domain::{SimDomain, SimRemote};
use super::faults::Faults;
use super::flight::{Flight, Rng, Work, cut};
use super::{SimCounters, SimOptions};
use crate::{FabricError, Fault, KeyRange, Keys, Memory, Peer, Post, Reason, RegionKey, TallyRef, share};

const MAGIC: u64 = u64::from_be_bytes(*b"tran-sim");

/// Distinguishes the nets of one process, so that no key or address of one is accepted by another.
static NETS: AtomicU64 = AtomicU64::new(1);

/// A simulated network between the threads of one process.
pub struct SimNet {
    id: u64,
    options: SimOptions,
    state: Mutex<State>,
    bells: Vec<Condvar>,
    observer: OnceLock<Observer>,
}

/// Called for the rank that posts an operation.
type Observer = Box<dyn Fn(Peer) + Send + Sync>;

impl fmt::Debug for SimNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNet({} ranks, {:?})", self.bells.len(), self.options)
    }
}

struct State {
    rng: Rng,
    ranks: Vec<Rank>,
    /// The number of operations and messages that were posted.
    posts: u64,
}

struct Rank {
    open: bool,
    dead: bool,
    faults: Faults,
    keys: Keys,
    /// The rank's registered memory by key.
    regions: BTreeMap<u64, Memory>,
    connected: HashSet<Peer>,
    /// Operations that this rank's progress applies: those that it posted, or with
    /// `passive_target: false` those to it.
    underway: Vec<Flight>,
    /// Applied operations of this rank, each with the steps until its completion.
    completing: Vec<(u32, TallyRef)>,
    inbox: Vec<InFlightMessage>,
    /// The stamp of the operation that this rank holds back.
    held: Option<u64>,
    /// Whether waits return immediately, until no thread waits.
    woken: bool,
    /// The number of threads that wait.
    waiting: usize,
    counters: SimCounters,
}

/// A message in flight.
pub(super) struct InFlightMessage {
    pub(super) from: Peer,
    pub(super) bytes: Vec<u8>,
    left: u32,
    /// The message's number among all posts of the net.
    stamp: u64,
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
            bells: (0..ranks).map(|_| Condvar::new()).collect(),
            observer: OnceLock::new(),
            options,
        })
    }

    /// Opens a rank.
    ///
    /// # Errors
    /// There is no such rank, or it is open already.
    pub fn domain(self: &Arc<SimNet>, rank: Peer) -> Result<Arc<SimDomain>, FabricError> {
        let opening = || format!("opening {rank} of a net of {}", self.bells.len());
        let ranks = u32::try_from(self.bells.len()).unwrap_or(u32::MAX);
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
            known.inbox.retain(|letter| letter.from != rank || rng.one_in(2));
            let concerned = |flight: &mut Flight| flight.target == rank || flight.origin == rank;
            for flight in known.underway.extract_if(.., concerned) {
                fail(flight, &killed(rank));
            }
            known.woken = true;
        }
        for bell in &self.bells {
            bell.notify_all();
        }
    }

    /// The accepted posts of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn counters(&self, rank: Peer) -> SimCounters {
        self.state().ranks[rank.index()].counters
    }

    /// Whether a rank holds back an operation, which only its own calls hand over.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn holds(&self, rank: Peer) -> bool {
        self.state().ranks[rank.index()].held.is_some()
    }

    /// Hands over the operation that a rank holds back.
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

    /// Accepts an operation, or returns the reason for its refusal. `work` is called only if the
    /// operation is accepted.
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
        if self.push_back(&mut state, me) {
            return Post::Again;
        }
        let work = work();
        state.ranks[me.index()].counters.count(&work, len);
        if len == 0 {
            return Post::Done;
        }
        let mut flight = Flight {
            origin: me,
            target: to.peer,
            region: to.region,
            offset,
            pieces: state.pieces(&self.options, to, offset, len, &work),
            left: state.rng.steps(self.options.delay),
            work,
            tally: tally.clone(),
            stamp: state.stamp(),
        };
        let here = self.options.passive_target || to.peer == me;
        // On a net that keeps order, an operation is not done before those ahead of it.
        let first = self.options.reorder || !state.ranks[me.index()].underway.iter().any(|it| it.target == to.peer);
        let behind = self.options.mail.amos_ordered
            && matches!(flight.work, Work::Amo(..))
            && state.puts_before(me, to.peer, flight.stamp);
        state.ranks[me.index()].counters.behind += u64::from(behind);
        let holds = self.options.mail.holds;
        state.ranks[me.index()].held = holds.then_some(flight.stamp);
        if here && first && !behind && !holds && state.rng.one_in(self.options.done_one_in) {
            return match state.apply(&mut flight, true) {
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
        self.bells[home.index()].notify_all();
        Post::Pending
    }

    pub(super) fn send(&self, me: Peer, to: Peer, message: &[u8]) -> Post {
        let mut state = self.state();
        if let Some(fault) = state.obstacle(me, to).or_else(|| state.ranks[to.index()].faults.of_message(to)) {
            return Post::Broken(Box::new(fault));
        }
        let waiting = state.ranks[to.index()].inbox.len();
        let full = self.options.mail.most.is_some_and(|most| waiting >= most);
        let refused = match self.options.mail.slots {
            Some(slots) => !state.has_slot(me, to, slots),
            None => state.ranks[to.index()].faults.takes_no_messages,
        };
        if self.push_back(&mut state, me) || full || refused {
            state.ranks[me.index()].woken = true;
            return Post::Again;
        }
        let (left, stamp) = (state.rng.steps(self.options.delay), state.stamp());
        let letter = InFlightMessage { from: me, bytes: message.to_vec(), left, stamp };
        let behind = self.options.mail.ordered && state.puts_before(me, to, stamp);
        let counters = &mut state.ranks[me.index()].counters;
        counters.messages += 1;
        counters.behind += u64::from(behind);
        counters.bytes += message.len() as u64;
        state.ranks[to.index()].inbox.push(letter);
        self.bells[to.index()].notify_all();
        Post::Done
    }

    /// Whether a post is answered `Again`. The next wait then returns at once, because a retry may
    /// succeed.
    fn push_back(&self, state: &mut State, me: Peer) -> bool {
        let again = state.rng.one_in(self.options.again_one_in);
        state.ranks[me.index()].woken |= again;
        again
    }

    /// One step of a rank: its completions, and the messages that arrive.
    pub(super) fn advance(&self, me: Peer) -> Result<(usize, Vec<InFlightMessage>), FabricError> {
        let mut state = self.state();
        if state.ranks[me.index()].dead {
            return Err(killed(me).into());
        }
        state.ranks[me.index()].faults.of_progress()?;
        state.ranks[me.index()].held = None;
        // Completions are delivered first: an operation that is applied in this step completes in a
        // later one.
        let completed = state.complete(&self.options, me);
        let letters = state.deliver(&self.options, me);
        let mut ring = state.step(&self.options, me);
        if self.options.passive_target && state.rng.one_in(2) {
            let other = state.rng.below(self.bells.len());
            ring.extend(state.step(&self.options, rank_of(other)));
        }
        for origin in ring {
            self.bells[origin.index()].notify_all();
        }
        Ok((completed, letters))
    }

    /// Returns false if `limit` has passed.
    pub(super) fn wait(&self, me: Peer, limit: Duration, still_idle: impl FnOnce() -> bool) -> bool {
        self.release(me);
        self.state().ranks[me.index()].waiting += 1;
        // A wake from here on is kept until this thread has left.
        let is_idle = still_idle();
        let (mut state, waited) = self.bells[me.index()]
            .wait_timeout_while(self.state(), limit, |state| {
                let rank = &state.ranks[me.index()];
                let nothing_arrived = rank.underway.is_empty() && rank.completing.is_empty() && rank.inbox.is_empty();
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
        self.bells[me.index()].notify_all();
    }
}

impl Rank {
    fn new(keys: KeyRange) -> Rank {
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
            held: None,
            woken: false,
            waiting: 0,
            counters: SimCounters::default(),
        }
    }
}

impl State {
    fn region(&self, owner: Peer, key: u64) -> Option<&Memory> {
        self.ranks.get(owner.index())?.regions.get(&key)
    }

    /// The reason why `me` can't reach `to`.
    fn obstacle(&self, me: Peer, to: Peer) -> Option<Fault> {
        let dead = |rank: Peer| self.ranks.get(rank.index()).is_some_and(|known| known.dead);
        if let Some(gone) = [to, me].into_iter().find(|rank| dead(*rank)) {
            return Some(killed(gone));
        }
        (!self.ranks[me.index()].connected.contains(&to)).then(|| Fault::new(to, Reason::NotConnected))
    }

    fn pieces(
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

    /// Applies the next piece of an operation, or all of them.
    fn apply(&self, flight: &mut Flight, all: bool) -> Result<(), Fault> {
        let Some(memory) = self.region(flight.target, flight.region) else {
            return Err(Fault::new(flight.target, Reason::NotRegistered));
        };
        flight.apply_piece(memory);
        while all && !flight.pieces.is_empty() {
            flight.apply_piece(memory);
        }
        Ok(())
    }

    /// Advances the operations that this rank's progress applies. Returns the origins that have
    /// completions.
    fn step(&mut self, options: &SimOptions, rank: Peer) -> HashSet<Peer> {
        // Without reordering all operations of an origin to a target keep their order here.
        let waiting = if options.mail.amos_ordered && options.reorder { self.behind_puts(rank) } else { Vec::new() };
        let mut flights = std::mem::take(&mut self.ranks[rank.index()].underway);
        if options.reorder {
            self.rng.shuffle(&mut flights);
        }
        let mut ring = HashSet::new();
        let mut kept = Vec::new();
        for mut flight in flights {
            let held = !options.reorder && !kept.is_empty();
            if flight.left > 0 || held || self.ranks[flight.origin.index()].held == Some(flight.stamp) {
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
            ring.insert(flight.origin);
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
        ring
    }

    /// Lowers the tallies of operations that earlier steps applied. Returns their number.
    fn complete(&mut self, options: &SimOptions, me: Peer) -> usize {
        let completing = &mut self.ranks[me.index()].completing;
        if options.reorder {
            self.rng.shuffle(completing);
        }
        due(completing, options.reorder, |(left, _)| left).into_iter().map(|(_, tally)| tally.finish()).count()
    }

    /// Whether another message of `from` to `to` may be in flight, of `slots` to all ranks.
    fn has_slot(&self, from: Peer, to: Peer, slots: usize) -> bool {
        let held = |rank: &Rank| rank.inbox.iter().filter(|letter| letter.from == from).count();
        let all: usize = self.ranks.iter().map(held).sum();
        share::allows(held(&self.ranks[to.index()]), slots.saturating_sub(all))
    }

    fn deliver(&mut self, options: &SimOptions, me: Peer) -> Vec<InFlightMessage> {
        if options.mail.slots.is_some() && self.ranks[me.index()].faults.takes_no_messages {
            return Vec::new();
        }
        let mut inbox = std::mem::take(&mut self.ranks[me.index()].inbox);
        let held: Vec<_> =
            inbox.extract_if(.., |it| options.mail.ordered && self.puts_before(it.from, me, it.stamp)).collect();
        if options.reorder {
            self.rng.shuffle(&mut inbox);
        }
        let arrived = due(&mut inbox, options.reorder, |letter| &mut letter.left);
        inbox.extend(held);
        self.ranks[me.index()].inbox = inbox;
        arrived
    }

    /// Whether puts of `from` to `to` are in flight that were posted before the post `stamp`.
    fn puts_before(&self, from: Peer, to: Peer, stamp: u64) -> bool {
        let mut underway = [to, from].into_iter().flat_map(|rank| &self.ranks[rank.index()].underway);
        underway.any(|flight| {
            let between = flight.origin == from && flight.target == to;
            between && matches!(flight.work, Work::Put(_)) && flight.stamp < stamp
        })
    }

    /// Takes out the atomics of this rank's progress that wait for puts before them.
    fn behind_puts(&mut self, rank: Peer) -> Vec<Flight> {
        let index = rank.index();
        let waits = |flight: &Flight| {
            let is_amo = matches!(flight.work, Work::Amo(..));
            is_amo && self.puts_before(flight.origin, flight.target, flight.stamp)
        };
        let waiting: HashSet<u64> =
            self.ranks[index].underway.iter().filter(|flight| waits(flight)).map(|flight| flight.stamp).collect();
        self.ranks[index].underway.extract_if(.., |flight| waiting.contains(&flight.stamp)).collect()
    }

    /// The number of a post.
    fn stamp(&mut self) -> u64 {
        self.posts += 1;
        self.posts
    }
}

/// Takes out the entries that have no steps left, and takes a step off the others. Order is kept
/// unless entries may overtake.
fn due<T>(queue: &mut Vec<T>, overtake: bool, left: impl Fn(&mut T) -> &mut u32) -> Vec<T> {
    let mut held = false;
    queue
        .extract_if(.., |item| {
            let left = left(item);
            let out = *left == 0 && !held;
            *left = left.saturating_sub(1);
            held |= !out && !overtake;
            out
        })
        .collect()
}

/// Ends an operation that will not complete: first its lent buffers, then its count.
fn fail(flight: Flight, fault: &Fault) {
    let Flight { work, tally, .. } = flight;
    drop(work);
    tally.fail(fault);
}

fn killed(rank: Peer) -> Fault {
    Fault::new(rank, Reason::Died)
}

fn rank_of(index: usize) -> Peer {
    Peer(u32::try_from(index).unwrap_or(u32::MAX))
}

impl SimCounters {
    fn count(&mut self, work: &Work, len: usize) {
        match work {
            Work::Put(_) => self.puts += 1,
            Work::Get(_) => self.gets += 1,
            Work::Amo(..) => self.amos += 1,
        }
        self.bytes += len as u64;
    }
}
