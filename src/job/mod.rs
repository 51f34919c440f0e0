//! The job: its ranks, the route to each rank, and the barrier of all ranks. Windows are built on
//! the job. The job knows a window by its number and by the part that a rank has published
//! (`block`).

mod bare;
mod block;
mod cards;
mod checked;
mod cpus;
mod delayed;
mod descriptors;
mod exchange;
mod hosted;
mod left;
mod lookup;
mod nets;
mod peers;
mod report;
mod repost;
#[cfg(test)]
mod scale;
mod signals;
mod staging;
mod start;
mod team;
mod warnings;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use transom_fabric::sim::SimDomain;
use transom_fabric::{Peer, diagnostics};

use crate::bootstrap::{self, Bootstrap};
use crate::check::{Awaited, Wait};
use crate::environment::{Atomics, Pretended, Settings};
use crate::error::{Class, Error, ErrorKind, Result};
use crate::failures::listener::Listener;
use crate::interfaces::Interface;
use crate::messages::Messages;
use crate::progress::Progress;
use crate::routes::{self, Actor, NetAtomics};
use crate::sync::barrier;
use crate::sync::words::Words;
use crate::transport::{Lane, Net, NetMemory, NetRegion, Posted, ShmRegion, SpinBudget, Wire};
use block::Block;
pub use checked::CheckedBuffers;
pub(crate) use delayed::{Delayed, TakesLock};
pub(crate) use left::{Barriers, Turn};
pub(crate) use peers::Link;
use peers::Peers;
pub(crate) use repost::Notified;
pub(crate) use signals::{BarrierWords, Way};
pub(crate) use staging::{Claim, Staging};
pub(crate) use team::{Team, check_rank};
pub(crate) use warnings::Cause;

static STARTED: AtomicBool = AtomicBool::new(false);

/// The route to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// This rank itself.
    Own,
    /// A rank of this node: loads, stores and CPU atomics on mapped memory, else system calls or
    /// messages ([costs](crate::book::costs#flush)).
    Shm,
    /// The net: verbs or libfabric.
    Net,
}

/// The null rank (`MPI_PROC_NULL`): an operation on it succeeds without an effect (MPI-4.1 §12.3).
pub const PROC_NULL: usize = usize::MAX;

/// The ranks that create windows together: all processes that one launcher has started, or a subset
/// of them; MPI's communicator. [`init`](crate::init) returns the job of all ranks,
/// [`Job::subset`] a smaller one. Clones are handles of the same job. [`Job::finalize`], or the
/// drop of the process's last `Job`, leaves the job.
#[derive(Clone)]
pub struct Job {
    core: Arc<JobCore>,
    team: Arc<Team>,
    _leave: Arc<LeaveOnDrop>,
}

/// Leaves the job when the last [`Job`] of the process is dropped, even if windows were never
/// freed.
struct LeaveOnDrop(Arc<JobCore>);

pub(crate) struct JobCore {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) wire: Arc<Wire>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) progress: Progress,
    pub(crate) spin: SpinBudget,
    world: Arc<Team>,
    pub(crate) settings: Settings,
    /// The atomics that the net has at every rank.
    pub(crate) atomics: NetAtomics,
    peers: Peers,
    pub(crate) block: Block,
    pub(crate) presence: Presence,
    team_names: team::TeamNames,
    pub(crate) delayed: Delayed,
    flags: Flags,
    bootstrap: Mutex<Box<dyn Bootstrap>>,
}

/// This process's published resources, kept until the job ends.
pub(crate) struct Presence {
    /// The interface by which other ranks reach this rank.
    pub(crate) source: Interface,
    /// The reasons why a job over sockets does not use the devices of this machine.
    pub(crate) unused: Option<String>,
    /// The registrations of the job block.
    _regions: (Option<ShmRegion>, Option<NetRegion>),
    /// The copies of cards that other ranks read at start. All ranks have read them by the next
    /// barrier.
    _copies: Vec<exchange::Copy>,
    /// Shows other machines that this process is alive.
    _listener: Option<Listener>,
}

/// Properties of this process that change while the job runs.
struct Flags {
    /// Whether synchronization calls on a window come from one thread at a time. Holds for windows
    /// created after it was set.
    serial: AtomicBool,
    /// Whether waiting on shared words must poll ports as well.
    polls: AtomicBool,
    /// The warnings that were printed.
    warned: warnings::Warned,
    /// Whether a window was dropped without `free`, as by a `?` before it. Other ranks may wait in
    /// that window for this one.
    leaked_window: AtomicBool,
    /// Whether this process has left the job, or tried to.
    left: AtomicBool,
    /// Whether the progress threads go on after the end of the job.
    serves_on: AtomicBool,
}

/// Joins the job in which a launcher has started this process. A process without a launcher is a
/// job of one rank. A process can call this only once.
///
/// # Errors
/// `Other` if the launcher can't be reached, if the ranks can't reach each other, or if this
/// process has started a job before; `InfoValue` for a `TRANSOM_` variable with an illegal value.
pub fn init() -> Result<Job> {
    begin(bootstrap::detect, true)
}

/// Starts this process's only job over the connection that `connect` makes. `watched`: the conflict
/// checker sees all synchronization between the ranks.
fn begin(
    connect: impl FnOnce() -> Result<Box<dyn Bootstrap>, bootstrap::BootstrapError>,
    watched: bool,
) -> Result<Job> {
    // Relaxed: the flag only shows whether a job was started before.
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(ErrorKind::AlreadyStarted.into());
    }
    let mut settings = Settings::read(|name| std::env::var_os(name))?;
    transom_fabric::fill_streams();
    diagnostics::show_warnings(settings.warnings);
    let bootstrap = connect()?;
    checked::restrict(&mut settings, bootstrap.rank(), watched);
    if bootstrap.rank() == 0 {
        for name in crate::environment::unknown(std::env::vars_os().map(|(name, _)| name)) {
            diagnostics::warn("transom::environment", &crate::environment::warning(&name));
        }
    }
    start::start(bootstrap, settings, None).map(Job::new)
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

impl fmt::Debug for JobCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job(rank {} of {}, actor {})", self.rank, self.size, self.actor(&self.world))
    }
}

impl Job {
    fn new(core: Arc<JobCore>) -> Job {
        let team = Arc::clone(&core.world);
        Job { _leave: Arc::new(LeaveOnDrop(Arc::clone(&core))), core, team }
    }

    /// Joins a job whose ranks exchange data through `bootstrap`, instead of a launcher that
    /// [`init`] knows: for example through an MPI or another library that connects the ranks. The
    /// environment variables have the same effect as for `init`. A program must not call both
    /// functions. Collective over the ranks of `bootstrap`.
    ///
    /// # Errors
    /// As for [`init`].
    pub fn with_bootstrap(bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        begin(|| Ok(bootstrap), false)
    }

    /// [`Job::with_bootstrap`] for a library that passes the checker's clocks on with its own
    /// messages.
    ///
    /// # Errors
    /// As for [`init`].
    #[doc(hidden)]
    pub fn with_watched_bootstrap(bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        begin(|| Ok(bootstrap), true)
    }

    /// One rank of a simulated job, whose ranks are threads of one process on the simulated net;
    /// for tests of protocols.
    ///
    /// # Errors
    /// As for [`init`].
    #[doc(hidden)]
    pub fn simulated(net: Arc<SimDomain>, bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        start::start(bootstrap, Settings::default(), Some(net)).map(Job::new)
    }

    /// [`Job::simulated`] with ranks that are distributed in turn over `nodes` nodes. Ranks of a
    /// node share memory, as processes of a machine do.
    ///
    /// # Errors
    /// As for [`init`].
    #[doc(hidden)]
    pub fn simulated_on(nodes: usize, net: Arc<SimDomain>, bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        let settings =
            Settings { pretended: Pretended { nodes: Some(nodes), ..Pretended::default() }, ..Settings::default() };
        start::start(bootstrap, settings, Some(net)).map(Job::new)
    }

    /// [`Job::simulated_on`] one node, with the conflict checker.
    #[cfg(test)]
    pub(crate) fn checked(net: Arc<SimDomain>, bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        let mut settings =
            Settings { pretended: Pretended { nodes: Some(1), ..Pretended::default() }, ..Settings::default() };
        settings.check.on = true;
        start::start(bootstrap, settings, Some(net)).map(Job::new)
    }

    /// This process's rank, from 0. In a subset, the number in the subset.
    pub fn rank(&self) -> usize {
        self.team.me
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.team.size
    }

    /// The ranks of this job or subset as ranks of the whole job, in the order of their numbers
    /// here (`MPI_COMM_GROUP`).
    pub fn group(&self) -> Vec<usize> {
        (0..self.team.size).map(|member| self.team.rank(member)).collect()
    }

    /// The ranks of this job or subset on this rank's node, which can share memory with it
    /// (`MPI_COMM_SPLIT_TYPE`): ranks of the whole job, in the order of the job or subset.
    pub fn node_ranks(&self) -> Vec<usize> {
        let core = &self.core;
        let ranks = (0..self.team.size).map(|member| self.team.rank(member));
        ranks.filter(|&rank| core.lane(rank) != Some(Lane::Net)).collect()
    }

    /// Waits until all ranks have made this call. The barrier synchronizes processes and not
    /// memory: to see the puts of other ranks, end an epoch or call `sync` (MPI-4.1 §12.7).
    ///
    /// # Errors
    /// `Arg` if another thread of this rank is in a barrier or a window creation of the same ranks;
    /// `Other` if a rank has died or a transport failed.
    pub fn barrier(&self) -> Result<()> {
        let _collective = self.team.collective("barrier")?;
        self.core.barrier_with_bits(&self.team, 0).map(drop)
    }

    /// The route to `rank`.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn route(&self, rank: usize) -> Result<Route> {
        check_rank(&self.team, "route", rank)?;
        Ok(match self.core.lane(self.team.rank(rank)) {
            None => Route::Own,
            Some(Lane::Shm) => Route::Shm,
            Some(Lane::Net) => Route::Net,
        })
    }

    /// The number of work requests that this process has posted to `rank` through libibverbs: one
    /// for each contiguous put or get, each atomic of the net, and each message. For measurements.
    /// `None` if another transport reaches the rank.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn posted(&self, rank: usize) -> Result<Option<Posted>> {
        check_rank(&self.team, "posted", rank)?;
        let rank = self.team.rank(rank);
        let net = self.core.wire.net().filter(|_| self.core.lane(rank) == Some(Lane::Net));
        Ok(net.and_then(|net| net.posted(peer(rank))))
    }

    /// The actor of atomics in windows without the hint `transom_atomics`: see
    /// [`Window::actor`](crate::Window::actor).
    pub fn actor(&self) -> Actor {
        self.core.actor(&self.team)
    }

    /// The transport of the open net, with its provider or device; `None` if the job has opened no
    /// net.
    pub fn net(&self) -> Option<String> {
        self.core.wire.net().map(Net::name)
    }

    /// Whether this process has a progress thread, which serves origins while the program computes.
    pub fn has_progress_thread(&self) -> bool {
        self.core.progress.is_served()
    }

    /// The number of sleeps of waiting calls that also wait for a net and that lasted to their
    /// limit although the awaited event had happened. For tests.
    #[doc(hidden)]
    pub fn late_wakes(&self) -> u64 {
        self.core.progress.late_wakes()
    }

    /// Releases this rank's clock of the conflict checker, and returns it, to be sent with a
    /// message of another library. `None` if the checker is off.
    #[doc(hidden)]
    pub fn checker_releases(&self) -> Option<Vec<u64>> {
        self.core.block.checker.as_ref().map(|checker| checker.release().counts().to_vec())
    }

    /// Merges the clock that another rank sent into this rank's clock.
    #[doc(hidden)]
    pub fn checker_learns(&self, clock: &[u64]) {
        self.core.learns(|known| known.join(clock));
    }

    /// Merges the merged clock of ranks that have met; of all ranks of the job if `all` is true.
    /// `others`: the same, but each rank's clock without the rank's own releases.
    #[doc(hidden)]
    pub fn checker_meets(&self, met: &[u64], others: &[u64], all: bool) {
        let back = others.get(self.core.rank).copied();
        self.core.learns_by(back, |known| if all { known.join_common(met) } else { known.join(met) });
    }

    /// Records that a call of another library begins to wait for other ranks, for reports of
    /// deadlocks. `collective`: all ranks make the call together. The same thread calls
    /// [`Job::checker_wait_ends`] after the call.
    #[doc(hidden)]
    pub fn checker_wait_begins(&self, call: &str, collective: bool) {
        if let Some((checker, first)) = self.core.waiting() {
            let awaited = if collective { Awaited::Meeting(0) } else { Awaited::Unknown };
            checker.wait_begins(first, &Wait { call, window: None, awaited });
        }
    }

    /// Processes outside of the job, which the checker does not see, may end this rank's waits.
    #[doc(hidden)]
    pub fn checker_gets_help(&self) {
        if let Some(checker) = &self.core.block.checker {
            checker.gets_help();
        }
    }

    /// See [`Job::checker_wait_begins`].
    #[doc(hidden)]
    pub fn checker_wait_ends(&self) {
        if let Some((checker, first)) = self.core.waiting() {
            checker.wait_ends(first);
        }
    }

    /// Merges the clocks that all ranks have released so far, for calls of another library that may
    /// have synchronized this rank with any other one. The checker may then miss conflicts, but
    /// reports no false ones.
    ///
    /// # Errors
    /// The job block of a rank can't be mapped.
    #[doc(hidden)]
    pub fn checker_learns_all(&self) -> Result<()> {
        self.core.learn_all()
    }

    /// Leaves the job. Collective, like the drop of the last clone. Free all windows before this
    /// call. If a window was dropped without `free`, for example because of a `?`, the drop of the
    /// job does not wait: this rank ends with a failure, and the launcher ends the job. For a
    /// subset this call only drops the handle.
    ///
    /// # Errors
    /// `Other` if the launcher is gone, if a rank has died, or, at rank 0 with
    /// `TRANSOM_CHECK=fail`, if conflicting accesses were found.
    pub fn finalize(self) -> Result<()> {
        if self.team.key != 0 {
            return Ok(());
        }
        self.core.leave(true)
    }

    /// [`finalize`](Job::finalize) after all ranks have passed a barrier of another library, since
    /// which no rank has made a call on a window. Waits for no rank: some may have ended.
    #[doc(hidden)]
    pub fn leave_after_barrier(self) -> Result<()> {
        self.core.leave(false)
    }

    pub(crate) fn core(&self) -> &Arc<JobCore> {
        &self.core
    }

    pub(crate) fn team(&self) -> &Arc<Team> {
        &self.team
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        // A panicking rank must not seem to have left without an error: the launcher ends the job.
        if std::thread::panicking() {
            return;
        }
        // Relaxed: windows and jobs are dropped one after the other.
        if self.0.size > 1 && self.0.flags.leaked_window.load(Ordering::Relaxed) {
            // Other ranks may wait for this one, so waiting for them could last for ever. The
            // launcher ends the job.
            let what = "leaves the job without Job::finalize, and a window was dropped without free";
            diagnostics::warn("transom::job", &format!("rank {}: {what}", self.0.rank));
            return;
        }
        let told = report::tell_if_late(self.0.rank, self.0.size);
        let left = self.0.leave(true);
        drop(told);
        if let Err(error) = left {
            // `drop` can't return an error.
            diagnostics::error("transom::job", &format!("rank {}: leaving the job failed: {error:#}", self.0.rank));
        }
    }
}

impl JobCore {
    /// Records that a window was dropped without `free`.
    pub(crate) fn record_leaked_window(&self) {
        // Relaxed: windows and jobs are dropped one after the other.
        self.flags.leaked_window.store(true, Ordering::Relaxed);
    }

    /// Leaves the job, once. If `waits`, a barrier comes first, so that no message is lost with
    /// this process's sockets and no waiting rank sees this process end. Otherwise the caller has
    /// passed such a barrier.
    fn leave(&self, waits: bool) -> Result<()> {
        let mut bootstrap = self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: accessed under the mutex. The drop follows a `finalize`.
        if self.flags.left.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.flags.leaked_window.store(false, Ordering::Relaxed);
        let served = if waits { self.await_others(&mut **bootstrap)? } else { Ok(()) };
        if let Some(text) = report::at_the_end(self).filter(|_| self.settings.info && self.rank == 0) {
            diagnostics::print_requested(&text);
        }
        let checked = self.summarize();
        if !self.flags.serves_on.load(Ordering::Relaxed) {
            self.progress.stop();
        }
        match bootstrap.finalize() {
            Ok(()) | Err(bootstrap::BootstrapError::Finalized { .. }) => checked.and(served),
            Err(error) => Err(error.into()),
        }
    }

    /// The barrier of [`leave`](JobCore::leave). The inner result is that of the start of a thread
    /// that serves the other ranks meanwhile: without the thread, this rank still leaves in good
    /// order.
    fn await_others(&self, bootstrap: &mut dyn Bootstrap) -> Result<Result<()>> {
        // The launcher's barrier may wait for a dead rank for ever. This process ends without
        // leaving in good order, so the launcher ends the job.
        if let Err(death) = self.progress.known_deaths() {
            self.progress.stop();
            return Err(death);
        }
        let serves = self.flags.polls.load(Ordering::Relaxed) && self.wire.has(Lane::Net);
        let served = if serves { self.progress.serve(Lane::Net) } else { Ok(()) };
        // The others are in the barrier also if this rank has no thread.
        if self.size > 1 {
            bootstrap.barrier()?;
        }
        Ok(served)
    }

    /// From now on waits on shared words also poll ports, and a progress thread serves origins that
    /// use the transport `lane`.
    pub(crate) fn serve(&self, lane: Lane) -> Result<()> {
        self.flags.polls.store(true, Ordering::Relaxed);
        self.progress.serve(lane)
    }

    pub(crate) fn is_serial(&self) -> bool {
        self.flags.serial.load(Ordering::Relaxed)
    }

    pub(crate) fn polls(&self) -> bool {
        self.flags.polls.load(Ordering::Relaxed)
    }

    /// Whether this process may access user memory of processes of the node by cross-memory attach.
    pub(crate) fn may_attach(&self) -> bool {
        self.settings.cma
    }

    /// The transport to a rank, shared memory or the net; `None` for this rank itself.
    #[inline]
    pub(crate) fn lane(&self, rank: usize) -> Option<Lane> {
        self.peers.lane(rank)
    }

    /// Whether another rank shares this one's node.
    pub(crate) fn has_neighbours(&self) -> bool {
        (0..self.size).any(|rank| self.lane(rank) == Some(Lane::Shm))
    }

    /// The link to another rank, opened at first contact.
    #[inline]
    pub(crate) fn link(&self, rank: usize) -> Result<&Arc<Link>> {
        // The kernel frees the memory of a dying rank before its process ends.
        self.peers.link(&self.wire, rank).map_err(|error| self.progress.or_death(error))
    }

    /// A barrier of a team. Returns the union of the bits of [`barrier::BITS`] that the members
    /// pass as `bits`.
    pub(crate) fn barrier_with_bits(&self, team: &Team, bits: u32) -> Result<u32> {
        team.barriers.check(None)?;
        let turn = team.next_turn();
        let (key, number) = (team.key, turn.number);
        let world = team.key == 0;
        let theirs = |member| {
            let block = if world { self.link(team.rank(member))?.block() } else { None };
            Ok(block.map_or(Way::Message, |block| Way::Words(Words::at(block, 0))))
        };
        let mine = world.then(|| self.block.barrier_words());
        let words = BarrierWords { job: self, team, key, turn, mine, theirs };
        let passed = self.meet(team, number, || barrier::dissemination(team.me, team.size, number, bits, &words));
        passed.inspect_err(|_| self.leave_barrier(key, turn, &team.barriers))
    }

    /// The job block of a rank, as the net reaches it: that of a rank of this node through the
    /// net's loopback.
    pub(crate) fn block_by_net(&self, rank: usize) -> Result<&NetMemory> {
        match &**self.link(rank)? {
            Link::Net(block) => Ok(block),
            Link::Shm(_) => self.peers.loopback(&self.wire, rank).map_err(|error| self.progress.or_death(error)),
        }
    }

    /// Whether puts to this rank can carry immediates that stand for signals and notices.
    pub(crate) fn signals_by_immediates(&self) -> bool {
        self.wire.net().is_some_and(Net::signals_by_immediates)
    }

    /// The actor of windows of a team without a hint, and of their control words.
    pub(crate) fn actor(&self, team: &Team) -> Actor {
        // The start of the job has refused a setting that is impossible.
        routes::actor(self.settings.atomics, self.is_one_node(team), self.atomics).unwrap_or(Actor::Cpu)
    }

    /// The actor of a window's accumulates: the hint's choice, or without a hint the job's.
    pub(crate) fn actor_for(&self, team: &Team, hint: Option<Atomics>) -> Result<Actor> {
        routes::actor(hint.unwrap_or(self.settings.atomics), self.is_one_node(team), self.atomics)
            .map_err(|why| Error::argument(Class::InfoValue, "info", why))
    }

    /// Whether a team's ranks share this rank's node.
    pub(crate) fn is_one_node(&self, team: &Team) -> bool {
        team.is_one_node(|rank| self.lane(rank) != Some(Lane::Net))
    }
}

/// The rank as transports know it. Jobs have fewer than 2^32 ranks, as `start` has checked.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn peer(rank: usize) -> Peer {
    Peer(rank as u32)
}
