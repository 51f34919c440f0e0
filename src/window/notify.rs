//! Notified operations (the MPI Forum's draft of RMA notification). Each performs an operation and
//! then adds one to a counter of the target. The counter changes after the operation is complete at
//! the target.
//!
//! The counters of a window are the memory of a second window without a handle, so that every route
//! by which peers reach a part also leads to its counters. The first `set_num_notify` creates this
//! window. A mapped counter is incremented by this CPU. Where puts of the net can carry a number
//! (an *immediate*), any other counter is incremented by the target's CPU, which gets the number.
//! Elsewhere the net's atomic increments the counter if the device is the actor, else a message,
//! which also carries the data if the data fits. The hint `transom_notify` chooses between the
//! target's CPU and the device.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transom_fabric::{Immediate, Keyed, Peer, PeerMap, Tally, TallyRef};

use super::accumulate_net::ByNet;
use super::agreement::FAILED;
use super::core::Core;
use super::create::WindowSpec;
use super::parts::Parts;
use super::permit::Permit;
use super::posted::Posted;
use super::segment::Draft;
use super::shortcut::Shortcut;
use super::target::{Hold, Reach, Target, Unmapped};
use super::thresholds::Thresholds;
use super::transfer::CountedBy;
use crate::buffers::{self, Source};
use crate::check;
use crate::epoch::Access;
use crate::error::{ArgumentError, Class, Error, ErrorKind, JobError, Result};
use crate::flavor::Flavor;
use crate::hints::{Hints, Info, Notify};
use crate::job::{PROC_NULL, peer};
use crate::messages::{OVERHEAD, ReplyDestination, Request, counted};
use crate::reduce::BasicType;
use crate::routes::{Actor, Amos};
use crate::sync::counters::{self, Header};
use crate::transport::Net;

/// The bit by which the number of a window differs from that of its counters. Windows of all ranks
/// count from 1, those of subsets have hashes of 63 bits.
const COUNTERS: u64 = 1 << 62;

/// Bytes of a notified put's message in addition to a request's overhead and the data: the
/// counter's index, and the offset.
const WORDS: usize = 16;

/// The counters of a window.
#[derive(Debug)]
pub(crate) struct Counters {
    /// The internal window whose memory holds the counters. In a checked window the clocks of their
    /// notices follow the counters.
    pub(super) parts: Parts,
    /// For each of this rank's counters: its sum at the last reset.
    pub(super) zeros: Box<[AtomicU64]>,
    /// The number of calls of `set_num_notify`, each of which may change the numbers of counters.
    generation: AtomicU32,
    /// The numbers of counters of the targets that this CPU does not map.
    known: PeerMap<Known>,
    /// The shortcuts of notified puts to ranks that this CPU maps.
    shortcuts: PeerMap<Shortcut>,
    /// The values for which requests wait.
    pub(super) thresholds: Thresholds,
    /// The number of polls of counters that found notices.
    pub(super) polls: AtomicU32,
}

/// The number of counters of a target and their place in its table plus one, with the generation in
/// which they were requested, as one word.
#[derive(Debug)]
struct Known(u32, AtomicU64);

/// The number of bits of the number of counters in a [`Known`].
const NUMBER: u32 = 13;
const _: () = assert!(counters::MAX_COUNTERS < 1 << NUMBER);

impl Keyed for Known {
    #[inline]
    fn peer(&self) -> Peer {
        Peer(self.0)
    }
}

impl Counters {
    fn new(theirs: &Parts) -> Result<Counters> {
        let info = Counters::info(theirs);
        let spec = WindowSpec { flavor: Flavor::Allocate, unit: 1, info: &info };
        let hints = Hints::at_creation(&info, spec.flavor)?;
        let clocks = if theirs.is_checked() { check::notice_bytes(counters::MAX_COUNTERS, theirs.job.size) } else { 0 };
        let draft = Draft { hints, memory: theirs.job.wire.reserve(counters::BYTES + clocks)?, shared: None };
        Ok(Counters {
            parts: Parts::open(&theirs.job, &theirs.team, theirs.id ^ COUNTERS, &spec, draft)?,
            zeros: (0..counters::MAX_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            generation: AtomicU32::new(0),
            known: PeerMap::new(),
            shortcuts: PeerMap::new(),
            thresholds: Thresholds::default(),
            polls: AtomicU32::new(0),
        })
    }

    /// The hints of the internal window: its actor adds to counters by the net. With `device` that
    /// is the device if it has atomics and the window several nodes.
    fn info(theirs: &Parts) -> Info {
        let job = &theirs.job;
        match theirs.hints.notify {
            Notify::Cpu => Info::new().with("transom_atomics", "cpu"),
            Notify::Device if job.atomics.amos >= Amos::Words && !job.is_one_node(&theirs.team) => {
                Info::new().with("transom_atomics", "nic")
            }
            Notify::Device | Notify::Auto => Info::new(),
        }
    }

    /// Gives this rank `number` counters, all zero. No peer adds to one meanwhile.
    fn reset(&self, number: usize) {
        let memory = &self.parts.own.memory;
        self.thresholds.reset_all(number, |index| self.value(index));
        // Further counters have never grown. Their pages are not touched.
        let most = counters::number(memory).max(number);
        for (index, zero) in self.zeros.iter().enumerate().take(most) {
            // Release: as in `take`, for threads that read the counter meanwhile.
            zero.store(counters::sum(memory, index), Ordering::Release);
        }
        counters::set_number(memory, number);
    }

    /// Whether a device may add to this rank's counters, which then grow without an event.
    pub(super) fn change_silently(&self) -> bool {
        self.parts.actor != Actor::Cpu && counters::place(&self.parts.own.memory).is_none()
    }

    /// Forgets the numbers of counters that this rank has read of others. Called when all ranks
    /// have set their numbers: a query of another thread may still have read an old number before.
    fn forget_numbers(&self) {
        // Release: pairs with the Acquire in `number`.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Gives the counters a place in the table of this rank, if the net can name the place. Without
    /// a place no put carries a notice for these counters.
    fn take_place(&self, notify: Notify) {
        let job = &self.parts.job;
        if notify == Notify::Device && self.parts.actor != Actor::Cpu {
            return;
        }
        if job.wire.net().is_some_and(Net::has_immediates)
            && let Some(place) = job.messages.counted.add(self.parts.own.memory.clone())
        {
            counters::set_place(&self.parts.own.memory, place);
        }
    }

    /// Removes the counters. No peer adds to one any more.
    pub(super) fn withdraw(&self) {
        if let Some(place) = counters::place(&self.parts.own.memory) {
            self.parts.job.messages.counted.remove(place);
        }
        self.parts.withdraw();
    }

    /// The number of counters of a target.
    fn number(&self, target: &Target) -> Result<usize> {
        self.header(target).map(|header| header.number)
    }

    /// How many counters a target has, and their place in its table.
    fn header(&self, target: &Target) -> Result<Header> {
        if let Some(memory) = target.reach.memory() {
            return Ok(Header { number: counters::number(memory), place: None });
        }
        let rank = target.rank();
        // Acquire: the number is read after all ranks have set theirs.
        let generation = u64::from(self.generation.load(Ordering::Acquire)) << 32;
        let unknown = || Ok::<_, Error>(Known(peer(rank).0, AtomicU64::new(0)));
        let known = &self.known.get_or_try_insert(peer(rank), unknown)?.1;
        // Relaxed: the word is all that is read.
        let word = known.load(Ordering::Relaxed);
        let mut header = word & u64::from(u32::MAX);
        if word >> 32 << 32 != generation {
            let [number, place] = self.read_header(target)?;
            header = number.min(counters::MAX_COUNTERS as u64) | place << NUMBER;
            known.store(generation | header, Ordering::Relaxed);
        }
        Ok(Header::of_words([header % (1 << NUMBER), header >> NUMBER]))
    }

    /// The words of a target's header: see [`Header::of_words`].
    #[cold]
    fn read_header(&self, target: &Target) -> Result<[u64; 2]> {
        let mut words = [0; counters::HEADER];
        let tally = Tally::within(&target.tally);
        let job = &self.parts.job;
        buffers::scoped(
            || job.finish(&tally),
            |scope| {
                let into = scope.sink(&mut words);
                let permit = Permit::of_library(target.rank());
                self.parts.get(permit, counters::NUMBER as u64, into, CountedBy::Request(&mut Some(tally.clone())))
            },
        )?;
        job.progress.complete(&tally)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[at + byte]));
        Ok([word(0), word(8)])
    }
}

/// The error of a call on counters, or of a wait for one, whose window is freed.
#[cold]
pub(super) fn freed(call: &'static str) -> Error {
    ErrorKind::Epoch { call, target: None, reason: "the window was freed (MPI-4.1 §12.2.5)" }.into()
}

/// Calls that concern counters as a whole.
impl Core {
    /// Gives this rank `number` counters and zeroes all counters of the window
    /// (`MPI_Win_set_num_notify`). Collective.
    pub(crate) fn set_num_notify(&self, number: usize) -> Result<()> {
        const CALL: &str = "set_num_notify";
        if self.epochs.state().0 == Access::Freed {
            return Err(freed(CALL));
        }
        let flushed = self.parts.flush_all();
        // All ranks take part, also those whose operations have failed.
        let set = self.agree_on_counters(CALL, number);
        flushed.and(set)
    }

    fn agree_on_counters(&self, call: &'static str, number: usize) -> Result<()> {
        let new = if self.parts.counters.get().is_some() { Ok(None) } else { Counters::new(&self.parts).map(Some) };
        let fits = number <= counters::MAX_COUNTERS;
        let met = self.barrier_with_bits(if fits && new.is_ok() { 0 } else { FAILED });
        let bits = met.inspect_err(|_| {
            if let Ok(Some(new)) = &new {
                new.parts.withdraw();
            }
        })?;
        let new = new?;
        if bits & FAILED != 0 {
            if let Some(new) = new {
                new.parts.withdraw();
            }
            if fits {
                return Err(ErrorKind::Job(JobError::NoCounters { window: self.parts.id }).into());
            }
            let refused = ArgumentError::TooManyCounters { number, most: counters::MAX_COUNTERS };
            return Err(Error::argument(Class::Arg, call, refused));
        }
        if let Some(new) = new {
            self.parts.own.exposed.count_in(new.parts.own.memory.clone());
            new.take_place(self.parts.hints.notify);
            // Set once: the call is collective, so only one thread of a rank is in the call.
            let _ = self.parts.counters.set(Box::new(new));
        }
        let counters = self.parts.counters.get();
        // All ranks have completed their notified operations. Those that have arrived are counted
        // before the reset.
        let settled = self.parts.job.progress.settle();
        if let Some(counters) = counters {
            counters.reset(number);
            // Threads of this rank may wait for counters that no longer exist.
            self.parts.wake_rank(self.parts.team.me);
        }
        let met = self.second_barrier();
        counters.into_iter().for_each(|counters| counters.forget_numbers());
        settled.and(met)
    }
}

impl Parts {
    /// How many counters a rank has (`MPI_Win_get_num_notify`).
    pub(crate) fn num_notify(&self, rank: usize) -> Result<usize> {
        self.counters_of("get_num_notify", rank)
    }

    fn counters_of(&self, call: &'static str, rank: usize) -> Result<usize> {
        crate::job::check_rank(&self.team, call, rank)?;
        match self.counters.get() {
            None => Ok(0),
            Some(counters) => match counters.parts.target(call, rank)? {
                None => Ok(0),
                Some(target) => counters.number(target),
            },
        }
    }

    /// Fails where a target has no counter `index`.
    fn check_notice(&self, call: &'static str, rank: usize, index: usize) -> Result<()> {
        let number = self.counters_of(call, rank)?;
        if index < number { Ok(()) } else { Err(ErrorKind::Notification { call, rank, index, number }.into()) }
    }
}

/// Notified operations. A notice for a counter that the rank does not have is refused or has no
/// effect.
impl Parts {
    /// Puts contiguous bytes, then adds one to counter `index` of the target (`MPI_Put_notify`).
    #[inline(always)]
    pub(crate) fn put_notify(
        &self,
        permit: Permit,
        displacement: u64,
        from: Source,
        index: usize,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some(counters) = self.counters.get()
            && rank < self.fast_ranks
            && let Some(shortcut) = counters.shortcuts.get(peer(rank))
            && let Some(may_sleep) = shortcut.put(displacement, from.bytes(), index)
        {
            if may_sleep {
                self.wake_sleeper(rank);
            }
            return Ok(());
        }
        self.put_notify_far(permit, displacement, from, index, counted_by)
    }

    #[inline(never)]
    fn put_notify_far(
        &self,
        permit: Permit,
        displacement: u64,
        from: Source,
        index: usize,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        const CALL: &str = "put_notify";
        let rank = permit.rank();
        let Some((target, at)) = self.locate(CALL, rank, displacement, from.len())? else { return Ok(()) };
        if let Reach::Mapped(..) = &target.reach {
            self.shorten(target)?;
        }
        if let Reach::Unmapped(Unmapped::Posted(memory)) = &target.reach {
            self.check_notice(CALL, rank, index)?;
            let immediate = if memory.limits().immediates.any() { self.immediate(CALL, rank, index)? } else { None };
            let room = self.message_max(target).saturating_sub(OVERHEAD + WORDS);
            // The notice of an empty put is sent below.
            if immediate.is_none() && (1..=room).contains(&from.len()) && self.is_notified_by_message(rank) {
                let request = Request::Notify { index: index as u64, at: at.cast_signed(), data: from.bytes().into() };
                return self.ask(target, request, ReplyDestination::Nowhere, counted_by.tally(target));
            }
            if self.orders_notices(target, immediate.is_some(), from.len()) && !self.travels(target, from.len())? {
                // Posted at once: the net does not order a notice with a put that is kept for a
                // later message.
                let tally = counted_by.tally(target);
                let posted = Posted::of(&self.job, memory);
                if from.len() <= memory.limits().packed_max
                    && let Some(immediate) = immediate
                {
                    return posted.put_immediate(at, from.bytes(), immediate, tally);
                }
                if !memory.put_carried(at, from, tally) {
                    posted.put(at, from, tally)?;
                }
                return self.add_one(CALL, rank, index);
            }
        }
        self.notified(CALL, permit, index, counted_by, |counted_by| self.put(permit, displacement, from, counted_by))
    }

    /// Makes the shortcut for later notified puts to a target, if the target can have one.
    fn shorten(&self, target: &Target) -> Result<()> {
        let rank = target.rank();
        // A rank does not read its own doorbell: `wake_rank` wakes other threads of this rank.
        let Some(counters) = self.counters.get().filter(|_| rank != self.team.me) else { return Ok(()) };
        if let Some(counts) = counters.parts.target("put_notify", rank)?
            && let Some(doorbell) = self.job.wire.doorbell(peer(self.team.rank(rank)))
            && let Some(shortcut) = Shortcut::to(target, counts, doorbell)
        {
            counters.shortcuts.get_or_try_insert(peer(rank), || Ok::<_, Error>(shortcut))?;
        }
        Ok(())
    }

    /// Performs an operation by `post`, then adds one to counter `index` of the target. If the
    /// operation is not complete when it is posted, this waits for its completion, unless it
    /// consists of puts that the net performs before the notice.
    pub(crate) fn notified(
        &self,
        call: &'static str,
        permit: Permit,
        index: usize,
        counted_by: CountedBy<'_>,
        post: impl FnOnce(CountedBy<'_>) -> Result<()>,
    ) -> Result<()> {
        let rank = permit.rank();
        if rank == PROC_NULL {
            return post(counted_by);
        }
        self.check_notice(call, rank, index)?;
        let mut here = None;
        let own = match counted_by {
            CountedBy::Target => &mut here,
            CountedBy::Request(own) => own,
        };
        post(CountedBy::Request(&mut *own))?;
        if let Some(tally) = own {
            let follows = |target| {
                // `add_one` returns the error of a target that can't be read.
                let is_carried = self.immediate(call, rank, index).is_ok_and(|immediate| immediate.is_some());
                // The lengths of the puts are unknown.
                self.orders_notices(target, is_carried, usize::MAX)
            };
            if !(tally.only_puts() && self.known(rank).is_some_and(follows)) {
                self.job.progress.complete(tally)?;
            }
        }
        self.add_one(call, rank, index)
    }

    /// Whether the net performs a notice after the puts posted before it to the same target, so
    /// that it may be posted while they are in flight. `is_carried`: the notice is an immediate.
    /// `longest`: the most bytes of such a put.
    fn orders_notices(&self, target: &Target, is_carried: bool, longest: usize) -> bool {
        let Reach::Unmapped(Unmapped::Posted(memory)) = &target.reach else { return false };
        let limits = memory.limits();
        let ordered = match is_carried {
            true => longest <= limits.immediates.follow,
            false if self.is_notified_by_message(target.rank()) => limits.ordered,
            false => limits.amos_ordered,
        };
        // The operations under a delayed lock are sent with the message of the lock. The notice
        // must not be sent before this message.
        ordered && target.hold() != Hold::Delayed
    }

    /// Whether a message over the net, and no atomic, adds to the counters of a rank that can't be
    /// notified by immediates.
    fn is_notified_by_message(&self, rank: usize) -> bool {
        let Some(counters) = self.counters.get() else { return false };
        counters.parts.known(rank).is_some_and(|target| {
            target.reach.memory().is_none() && ByNet::of(&counters.parts, target, BasicType::Uint64).is_none()
        })
    }

    /// The immediate that adds one to counter `index` of a rank, if its puts can carry one.
    fn immediate(&self, call: &'static str, rank: usize, index: usize) -> Result<Option<Immediate>> {
        let Some(counters) = self.counters.get() else { return Ok(None) };
        let Some(target) = counters.parts.target(call, rank)? else { return Ok(None) };
        let Reach::Unmapped(Unmapped::Posted(memory)) = &target.reach else { return Ok(None) };
        let immediates = memory.limits().immediates;
        if !immediates.any() {
            return Ok(None);
        }
        let header = counters.header(target)?;
        Ok(header.place.and_then(|place| counted::immediate(immediates, place, index)))
    }

    /// Adds one to counter `index` of a rank, which has it.
    fn add_one(&self, call: &'static str, rank: usize, index: usize) -> Result<()> {
        let Some(counters) = self.counters.get() else { return Ok(()) };
        let theirs = counters.parts.target(call, rank)?;
        let (Some(target), Some(theirs)) = (self.target(call, rank)?, theirs) else { return Ok(()) };
        if let Some(memory) = theirs.reach.memory() {
            if self.is_checked() {
                self.raise_checked(rank, memory, index)?;
            } else {
                counters::raise(memory, index);
            }
            self.wake_rank(rank);
            return Ok(());
        }
        let tally: &TallyRef = &target.tally;
        if let Reach::Unmapped(Unmapped::Posted(memory)) = &theirs.reach
            && let Some(immediate) = self.immediate(call, rank, index)?
        {
            return Posted::of(&self.job, memory).put_immediate(0, &[], immediate, tally);
        }
        if let Some(net) = ByNet::of(&counters.parts, theirs, BasicType::Uint64) {
            return net.count(counters::by_net(index) as u64, tally);
        }
        let request = Request::Notify { index: index as u64, at: 0, data: (&[]).into() };
        self.ask(target, request, ReplyDestination::Nowhere, tally)
    }

    /// A separate function, so that the hot path of a notified put has no wake-up in it.
    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self, rank: usize) {
        self.wake_rank(rank);
    }

    /// Wakes a rank of this node that waits for a counter or a notice.
    pub(super) fn wake_rank(&self, rank: usize) {
        if rank != self.team.me {
            self.job.wire.wake_peer(peer(self.team.rank(rank)));
        } else if !self.job.is_serial() {
            // Another thread of this rank may sleep until this notice.
            self.job.wire.end_sleeps();
        }
    }
}
