//! The job: its ranks, the way to each of them, and the barrier of all. Windows are built on it and it knows none.

mod cards;
mod exchange;
mod signals;
mod start;
mod team;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transom_fabric::sim::SimDomain;
use transom_fabric::{Memory, Peer, PeerMap, Post, Tally};

use crate::bootstrap::{self, Bootstrap};
use crate::buffers;
use crate::directory::{self, Part, Slot};
use crate::error::{Class, Error, ErrorKind, Result};
use crate::interfaces::Interface;
use crate::messages::Messages;
use crate::plan::{self, Actor, Amos};
use crate::progress::Progress;
use crate::settings::{Atomics, Settings};
use crate::sync::barrier;
use crate::watch::far::Beacon;
use crate::window::words::{self, Words};
use crate::wire::{Lane, NetRegion, Posted, Remote, ShmRegion, SpinBudget, Wire};
use cards::Card;
pub(crate) use signals::{BarrierWords, next};
pub(crate) use team::Team;

/// Where the directory begins in the job block; before it are the words of the job's barrier.
const DIRECTORY: usize = 4096;
/// Where the windows' control words begin, those of the window in the directory's first slot first.
const WORDS: usize = DIRECTORY + directory::SLOTS * directory::SLOT_BYTES;

/// How long transports have to tell of operations to a rank that died.
const LINGER: Duration = Duration::from_secs(10);

static STARTED: AtomicBool = AtomicBool::new(false);

/// The way to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// The rank itself.
    Own,
    /// Shared memory of the node: loads, stores, CPU atomics.
    Shm,
    /// The net: verbs or libfabric.
    Net,
}

/// The rank that stands for nobody (`MPI_PROC_NULL`): an operation on it does nothing, successfully (MPI §11.3).
pub const PROC_NULL: usize = usize::MAX;

/// One rank's membership in a job, or in a subset of its ranks. Cheap to clone; [`Job::finalize`] or the drop of the last
/// clone leaves the job.
#[derive(Clone)]
pub struct Job {
    core: Arc<JobCore>,
    team: Arc<Team>,
    _leaves: Arc<Leaves>,
}

/// Leaves the job when the last [`Job`] of the process goes; windows that were never freed don't prevent it.
struct Leaves(Arc<JobCore>);

pub(crate) struct JobCore {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) actor: Actor,
    pub(crate) wire: Arc<Wire>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) progress: Progress,
    pub(crate) spin: SpinBudget,
    world: Arc<Team>,
    pub(crate) settings: Settings,
    /// What atomics the net has, at every rank.
    pub(crate) amos: Amos,
    /// The node of each rank, by its leader's rank.
    nodes: Vec<usize>,
    cards: Vec<Card>,
    links: PeerMap<(Peer, Arc<Link>)>,
    block: Memory,
    /// The bytes of the control words of one window.
    words_len: usize,
    _regions: (Option<ShmRegion>, Option<NetRegion>),
    /// What others read at start. They have, once all have met again.
    _copies: Vec<exchange::Copy>,
    /// The interface by which the others reach this rank.
    pub(crate) source: Interface,
    /// By which other machines see that this process lives.
    _beacon: Option<Beacon>,
    made: team::Made,
    /// Whether waiting on shared words must poll ports as well.
    polls: AtomicBool,
    /// How many windows of this process are in the directory; held while it changes.
    directory: Mutex<usize>,
    warned: AtomicBool,
    /// Whether a window was dropped without `free`, most likely by a `?` between: the others may wait for this rank in it.
    lost: AtomicBool,
    bootstrap: Mutex<Box<dyn Bootstrap>>,
}

/// A rank after first contact.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) lane: Lane,
    /// Its job block.
    pub(crate) block: Remote,
}

/// Joins the job that this process was started in; alone it is a job of one rank. Once per process.
///
/// # Errors
/// A launcher that can't be reached, ranks that can't reach each other, a `TRANSOM_` variable with a bad value.
pub fn init() -> Result<Job> {
    begin(bootstrap::detect)
}

/// Starts this process's one job by the connection that `connect` makes.
fn begin(connect: impl FnOnce() -> Result<Box<dyn Bootstrap>, bootstrap::BootstrapError>) -> Result<Job> {
    // Relaxed: it only tells whether somebody came first.
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(ErrorKind::Job("a job was started before in this process".into()).into());
    }
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let bootstrap = connect()?;
    if bootstrap.rank() == 0 {
        for name in crate::settings::unknown(std::env::vars().map(|(name, _)| name)) {
            // CONVENTIONS: an unknown variable of ours gets a warning, and there is no other channel
            eprintln!("transom: warning: {name} is no variable of this version; `transom-info --env` lists them");
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
        write!(f, "Job(rank {} of {}, actor {})", self.rank, self.size, self.actor)
    }
}

impl Job {
    fn new(core: Arc<JobCore>) -> Job {
        let team = Arc::clone(&core.world);
        Job { _leaves: Arc::new(Leaves(Arc::clone(&core))), core, team }
    }

    /// Joins a job whose ranks find each other by `bootstrap` instead of a launcher that [`init`] knows: another library that
    /// connects them, such as an MPI. The variables hold as for `init`, which must not be called beside it. Collective over the
    /// ranks of `bootstrap`.
    ///
    /// # Errors
    /// As for [`init`].
    pub fn with_bootstrap(bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        begin(|| Ok(bootstrap))
    }

    /// From here on a call of this library that waits calls `hook` now and then, in the thread that waits: first after some 50 us, then
    /// about once a millisecond. For a program whose other library makes progress only within its calls, and would make none while
    /// this one waits. `hook` does not wait, and calls nothing of this library. Only the first hook of a job is taken.
    pub fn while_waiting(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.core.progress.while_waiting(Box::new(hook));
    }

    /// What makes progress for this job once, without waiting: for a program that waits in another library, which calls it now and then. A
    /// rank is served meanwhile in any case, by a thread, which has to be woken for it. It calls no hook, and does nothing once the
    /// job has ended. It tells whether something came, so that more may be on its way.
    pub fn poller(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let core = Arc::downgrade(&self.core);
        move || {
            let Some(core) = core.upgrade() else { return false };
            core.progress.poll_once().unwrap_or_else(|error| {
                core.warn_once(&format!("progress stopped: {error}"));
                false
            })
        }
    }

    /// A rank of a job whose ranks are threads of one process on the simulated net: for tests of protocols.
    ///
    /// # Errors
    /// As for [`init`].
    pub fn simulated(net: Arc<SimDomain>, bootstrap: Box<dyn Bootstrap>) -> Result<Job> {
        start::start(bootstrap, Settings::default(), Some(net)).map(Job::new)
    }

    /// This rank, 0-based; in a subset its number there.
    pub fn rank(&self) -> usize {
        self.team.me
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.team.size
    }

    /// Some ranks of the job as a job of their own, for windows and barriers among them, numbered in the order of `ranks`, which are
    /// ranks of the whole job (`MPI_COMM_CREATE_GROUP`). Called by exactly these ranks, with the same list; it
    /// communicates nothing.
    ///
    /// # Errors
    /// `Rank`: a rank that does not exist or is listed twice, or this one is not in the list.
    pub fn subset(&self, ranks: &[usize]) -> Result<Job> {
        let team = Team::of(self.core.rank, self.core.size, ranks, &self.core.made)?;
        Ok(Job { core: Arc::clone(&self.core), team: Arc::new(team), _leaves: Arc::clone(&self._leaves) })
    }

    /// The ranks that share this one's node and so can share memory with it, in the order of the job (`MPI_COMM_SPLIT_TYPE`).
    pub fn node_ranks(&self) -> Vec<usize> {
        let core = &self.core;
        let ranks = (0..self.team.size).map(|member| self.team.rank(member));
        ranks.filter(|&rank| core.lane(rank) != Some(Lane::Net)).collect()
    }

    /// Waits until all ranks are here. It synchronizes processes; to see what they put, end an epoch or `sync` (MPI §11.7).
    ///
    /// # Errors
    /// A transport that failed.
    pub fn barrier(&self) -> Result<()> {
        self.core.barrier_telling(&self.team, 0).map(drop)
    }

    /// The way to `rank`.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn route(&self, rank: usize) -> Result<Route> {
        check_rank(&self.team, "route", rank)?;
        Ok(match self.core.lane(self.team.rank(rank)) {
            None => Route::Own,
            Some(Lane::Shm) => Route::Shm,
            Some(Lane::Net) => Route::Net,
        })
    }

    /// The work requests that this process has posted to `rank` through libibverbs: one for each contiguous put or get, atomic of
    /// the net and message. For measuring; `None` where another way leads there.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn posted(&self, rank: usize) -> Result<Option<Posted>> {
        check_rank(&self.team, "posted", rank)?;
        let rank = self.team.rank(rank);
        let net = self.core.wire.net().filter(|_| self.core.lane(rank) == Some(Lane::Net));
        Ok(net.and_then(|net| net.posted(peer(rank))))
    }

    /// [`Window::actor`](crate::Window::actor) of windows that do not ask for another by the hint `transom_atomics`.
    pub fn actor(&self) -> Actor {
        self.core.actor
    }

    /// The net that is open, by the provider's name.
    pub fn net(&self) -> Option<String> {
        self.core.wire.net().map(crate::wire::Net::name)
    }

    /// Whether this process has a progress thread, which serves origins while the program computes.
    pub fn has_progress_thread(&self) -> bool {
        self.core.progress.is_served()
    }

    /// Leaves the job: collective, as is the drop of its last clone. Free windows before it. Where one was dropped without `free`,
    /// as a `?` in between does, the drop does not wait: this rank leaves in disorder, and the launcher ends the job. A subset
    /// is only dropped.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn finalize(self) -> Result<()> {
        if self.team.key != 0 {
            return Ok(());
        }
        self.core.leave()
    }

    pub(crate) fn core(&self) -> &Arc<JobCore> {
        &self.core
    }

    pub(crate) fn team(&self) -> &Arc<Team> {
        &self.team
    }
}

/// Fails where a team has no such member.
pub(crate) fn check_rank(team: &Team, call: &'static str, rank: usize) -> Result<()> {
    if rank < team.size {
        return Ok(());
    }
    Err(ErrorKind::Rank { call, rank, size: team.size }.into())
}

impl Drop for Leaves {
    fn drop(&mut self) {
        // A panicking rank must not look as if it left in good order: the launcher ends the job.
        if std::thread::panicking() {
            return;
        }
        // Relaxed: windows and jobs are dropped in turn.
        if self.0.size > 1 && self.0.lost.load(Ordering::Relaxed) {
            // Waiting for the others could be for ever, since they may wait for this rank. The launcher ends the job.
            eprintln!(
                "transom: rank {}: leaves the job in disorder: a window was not freed, nor the job finalized",
                self.0.rank
            );
        } else if let Err(error) = self.0.leave() {
            // A drop can't return it
            eprintln!("transom: rank {}: leaving the job: {error}", self.0.rank);
        }
    }
}

impl JobCore {
    /// A window was dropped without `free`.
    pub(crate) fn lost(&self) {
        // Relaxed: windows and jobs are dropped in turn.
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Leaves, once: with a barrier before, so that no message of ours is lost with our sockets, and nobody who waits sees this process
    /// end.
    fn leave(&self) -> Result<()> {
        let mut bootstrap = self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: under the mutex.
        self.lost.store(false, Ordering::Relaxed);
        if self.polls.load(Ordering::Relaxed) && self.wire.has(Lane::Net) {
            self.progress.serve(Lane::Net)?;
        }
        if self.size > 1 {
            match bootstrap.barrier() {
                Ok(()) => {}
                // Left before: by `finalize`, and now by the drop.
                Err(bootstrap::BootstrapError::Finalized { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.progress.stop();
        match bootstrap.finalize() {
            Ok(()) | Err(bootstrap::BootstrapError::Finalized { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The lane to a rank; `None` to itself.
    pub(crate) fn lane(&self, rank: usize) -> Option<Lane> {
        if rank == self.rank {
            None
        } else if self.nodes[rank] == self.nodes[self.rank] {
            Some(Lane::Shm)
        } else {
            Some(Lane::Net)
        }
    }

    /// Whether another rank shares this one's node.
    pub(crate) fn has_neighbours(&self) -> bool {
        (0..self.size).any(|rank| self.lane(rank) == Some(Lane::Shm))
    }

    /// How many other ranks share this one's node.
    pub(crate) fn neighbours(&self) -> usize {
        (0..self.size).filter(|&rank| self.lane(rank) == Some(Lane::Shm)).count()
    }

    /// From here on waiting on shared words polls ports too, and a thread serves origins on `lane`.
    pub(crate) fn serve(&self, lane: Lane) -> Result<()> {
        self.polls.store(true, Ordering::Relaxed);
        self.progress.serve(lane)
    }

    pub(crate) fn polls(&self) -> bool {
        self.polls.load(Ordering::Relaxed)
    }

    /// Says something of this job's routes once per process: a fallback is never silent (REQUIREMENTS T5).
    pub(crate) fn warn_once(&self, what: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            // See above; there is no other channel
            eprintln!("transom: rank {}: {what}", self.rank);
        }
    }

    /// Says something that only who asks for it is told (`TRANSOM_INFO`).
    pub(crate) fn tell(&self, what: &str) {
        if self.settings.info {
            // As in `warn_once`
            eprintln!("transom: rank {}: {what}", self.rank);
        }
    }

    /// Whether user memory of windows may become part of this process's heap.
    pub(crate) fn may_adopt(&self) -> bool {
        self.settings.adopt
    }

    /// Whether user memory of a process of the node may be reached by cross-memory attach.
    pub(crate) fn may_attach(&self) -> bool {
        self.settings.cma
    }

    /// The way to another rank, made at first contact.
    pub(crate) fn link(&self, rank: usize) -> Result<&Arc<Link>> {
        let peer = peer(rank);
        let found = self.links.get_or_try_insert(peer, || {
            let lane = self.wire.reach(peer)?;
            let card = &self.cards[rank];
            let key = match lane {
                Lane::Shm => &card.shm_block,
                Lane::Net => &card.net_block,
            };
            Ok::<_, Error>((peer, Arc::new(Link { lane, block: self.wire.import(lane, peer, key)? })))
        });
        // The memory of a rank that dies is gone before its process is.
        found.map(|(_, link)| link).map_err(|error| self.progress.or_death(error))
    }

    /// What `rank` published of window `id`, and at which place.
    pub(crate) fn lookup(&self, rank: usize, id: u64) -> Result<(Part, usize)> {
        if rank == self.rank {
            let found = directory::places(id).find_map(|place| {
                let slot = directory::load(&self.block, DIRECTORY, place);
                Part::decode(&slot, id).map(|part| (part, place))
            });
            return found.ok_or_else(|| missing(rank, id));
        }
        let link = self.link(rank)?;
        for place in directory::places(id) {
            let slot = match link.block.memory() {
                Some(block) => directory::load(block, DIRECTORY, place),
                None => self.fetch_slot(link, place)?,
            };
            if let Some(part) = Part::decode(&slot, id) {
                return Ok((part, place));
            }
        }
        Err(missing(rank, id))
    }

    fn fetch_slot(&self, link: &Link, place: usize) -> Result<Slot> {
        let mut slot: Slot = Default::default();
        let tally = Tally::new();
        let at = (DIRECTORY + place * directory::SLOT_BYTES) as u64;
        let posted = buffers::scoped(
            || self.finish(&tally),
            |scope| {
                let sink = scope.sink(bytemuck::cast_slice_mut(&mut slot));
                self.post(|wire| wire.get(link.block.far()?, at, &sink, &tally))
            },
        );
        posted.and_then(|()| self.progress.complete(&tally))?;
        Ok(slot)
    }

    /// Posts until the transport takes it, making progress in between.
    #[inline]
    pub(crate) fn post(&self, attempt: impl Fn(&Wire) -> Option<Post>) -> Result<()> {
        loop {
            match attempt(&self.wire) {
                Some(Post::Done | Post::Pending) => return Ok(()),
                Some(other) => self.again(other)?,
                None => return Err(ErrorKind::Job("an operation was posted where no port leads".into()).into()),
            }
        }
    }

    /// Makes progress before something is posted again that the transport did not take.
    ///
    /// # Errors
    /// Why it never will.
    #[cold]
    fn again(&self, answer: Post) -> Result<()> {
        match answer {
            Post::Broken(fault) => Err(self.progress.explained(*fault)),
            Post::Done | Post::Pending | Post::Again => {
                if self.progress.poll()? == 0 {
                    self.progress.look()?;
                    self.progress.call_hook();
                    std::thread::yield_now();
                }
                Ok(())
            }
        }
    }

    /// Waits until nothing of `tally` is in flight, whatever it takes: lent buffers can't be given back before.
    #[inline]
    pub(crate) fn finish(&self, tally: &Tally) {
        if !tally.idle() {
            self.finish_late(tally);
        }
    }

    #[cold]
    fn finish_late(&self, tally: &Tally) {
        let start = Instant::now();
        while let Err(error) = self.progress.until(|| tally.idle()) {
            let lost = matches!(error.kind(), ErrorKind::RankDied { .. } | ErrorKind::RankUnreachable { .. });
            if !lost || start.elapsed() > LINGER {
                // The process ends here
                eprintln!("transom: rank {}: operations in flight can't be completed: {error}", self.rank);
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a message to a rank that was contacted before.
    pub(crate) fn send(&self, rank: usize, bytes: &[u8]) -> Result<()> {
        self.post(|wire| Some(wire.send(peer(rank), bytes)))
    }

    /// A barrier of a team; every bit of [`barrier::TELLS`] that any member `tells`.
    pub(crate) fn barrier_telling(&self, team: &Team, tells: u32) -> Result<u32> {
        let turn = next(&team.barriers);
        let world = team.key == 0;
        let theirs = |member| {
            let block = if world { self.link(team.rank(member))?.block.memory() } else { None };
            Ok(block.map(|block| Words::at(block, 0)))
        };
        let mine = world.then(|| Words::at(&self.block, 0));
        let words = BarrierWords { job: self, team, key: team.key, mine, theirs };
        barrier::dissemination(team.me, team.size, turn, tells, &words)
    }

    /// Publishes this rank's part of window `id`, with its control words zeroed; the place, and the words.
    pub(crate) fn publish(&self, id: u64, part: &Part) -> Result<(usize, Memory)> {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let place = directory::free_place(&self.block, DIRECTORY, id).ok_or_else(|| {
            ErrorKind::Job(format!("{} windows live in this process, which is the limit", directory::SLOTS))
        })?;
        let (at, len) = (self.words_at(place), self.words_len);
        let words = self.block.slice(at, len).ok_or_else(|| missing(self.rank, id))?;
        words.write(0, &vec![0; len]);
        directory::publish(&self.block, DIRECTORY, place, id, part);
        *directory += 1;
        Ok((place, words))
    }

    /// Publishes a part again, changed, while no peer reads it.
    pub(crate) fn republish(&self, place: usize, id: u64, part: &Part) {
        directory::update(&self.block, DIRECTORY, place, id, part);
    }

    /// Takes a part back.
    pub(crate) fn retract(&self, place: usize) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        directory::retract(&self.block, DIRECTORY, place);
        *directory -= 1;
    }

    /// Where in a job block the control words of the window at `place` begin.
    #[inline]
    pub(crate) fn words_at(&self, place: usize) -> usize {
        WORDS + place * self.words_len
    }

    /// The atomicity actor of a window whose hint wants it so; without a hint the job's.
    pub(crate) fn actor_for(&self, hint: Option<Atomics>) -> Result<Actor> {
        let Some(wanted) = hint else { return Ok(self.actor) };
        plan::actor(wanted, &self.nodes, self.amos).map_err(|why| Error::argument(Class::InfoValue, "info", why))
    }
}

/// The bytes of a job block in a job of `ranks` ranks.
pub(crate) fn block_bytes(ranks: usize) -> usize {
    WORDS + directory::SLOTS * words::bytes(ranks)
}

#[cold]
fn missing(rank: usize, id: u64) -> Error {
    ErrorKind::Job(format!("rank {rank} has no window {id:x}; was it freed there?")).into()
}

/// The rank as transports know it. Jobs have fewer than 2^32 ranks: `start` checked it.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn peer(rank: usize) -> Peer {
    Peer(rank as u32)
}
