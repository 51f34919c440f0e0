//! Jobs whose ranks are threads on the simulated net: runs them, causes failures, and counts posted
//! operations. Each test program uses a part of this file. Independent of the tests.

#![allow(dead_code)]

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transom::bootstrap::counted::{Counted, RequestCounts};
use transom::bootstrap::local::Board;
use transom::{Assert, Job, Lock, RawWindow};
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimNet, SimOptions};
use transom_fabric::{Coherence, Immediates, Peer};

#[allow(unused_imports)] // some programs do not name it
pub(crate) use transom_harness::{Outcome, gathered, same};

/// Time limit of a job: longer than any needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A rank of a simulated job.
pub(crate) struct Rank {
    job: Job,
    net: Arc<SimNet>,
    positions: Arc<Vec<Mutex<String>>>,
    /// The requests to the launcher until the job had started.
    pub(crate) requests: RequestCounts,
}

impl Deref for Rank {
    type Target = Job;
    fn deref(&self) -> &Job {
        &self.job
    }
}

impl Rank {
    /// Records this rank's position, which a failure of the job prints.
    pub(crate) fn step(&self, what: impl Into<String>) {
        set_position(&self.positions, self.rank(), what);
    }

    /// Cuts a rank off the net.
    pub(crate) fn kill(&self, rank: usize) {
        self.net.kill(peer(rank));
    }

    /// Until [`Rank::accept`] a message to the rank is not sent, and the call that sends it returns
    /// an error: the post answers `Again`, and this thread's progress fails.
    pub(crate) fn refuse(&self, rank: usize) {
        self.net.stop_messages_to(peer(rank));
        self.net.fail_progress(peer(self.rank()), u32::MAX);
    }

    /// Ends the failures of [`Rank::refuse`] and [`Rank::fail_next_progress`].
    pub(crate) fn accept(&self, rank: usize) {
        self.net.resume_messages_to(peer(rank));
        self.net.fail_progress(peer(self.rank()), 0);
    }

    /// This thread's next progress fails.
    pub(crate) fn fail_next_progress(&self) {
        self.net.fail_progress(peer(self.rank()), 1);
    }

    /// The net, for a hook or another thread.
    pub(crate) fn net(&self) -> Arc<SimNet> {
        Arc::clone(&self.net)
    }

    /// The numbers of this rank's regions with fast keys and with other keys.
    pub(crate) fn regions(&self) -> [usize; 2] {
        self.net.regions(peer(self.rank()))
    }

    /// The number of times that this rank's threads have polled for completions.
    pub(crate) fn completion_polls(&self) -> u64 {
        self.net.completion_polls(peer(self.rank()))
    }

    /// Calls `observer` within each post of the job.
    pub(crate) fn on_post(&self, observer: impl Fn(Peer) + Send + Sync + 'static) {
        self.net.on_post(observer);
    }

    /// Whether this rank's port holds back an operation.
    pub(crate) fn holds_back(&self) -> bool {
        self.net.holds(peer(self.rank()))
    }

    /// The operations that this rank has posted so far.
    pub(crate) fn counters(&self) -> SimCounters {
        self.net.counters(peer(self.rank()))
    }
}

/// Signals to another rank or thread, without a call of the library.
pub(crate) fn raise(flag: &AtomicBool) {
    // Release: pairs with the load of `await_flag`.
    flag.store(true, Ordering::Release);
}

/// Waits for [`raise`] without a call of the library.
pub(crate) fn await_flag(flag: &AtomicBool) {
    // Acquire: pairs with the store of `raise`.
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

pub(crate) fn peer(rank: usize) -> Peer {
    Peer(u32::try_from(rank).expect("few ranks"))
}

fn set_position(positions: &[Mutex<String>], rank: usize, what: impl Into<String>) {
    *positions[rank].lock().unwrap_or_else(PoisonError::into_inner) = what.into();
}

/// Runs `body` at each of `ranks` ranks, each a node of its own.
///
/// # Panics
/// If a rank fails or the job does not end, with every rank's position.
pub(crate) fn run(ranks: usize, options: &SimOptions, body: impl Fn(&Rank) -> Outcome + Send + Sync + 'static) {
    run_on(None, ranks, options, body);
}

/// [`run`] with the ranks dealt in turn to `nodes` nodes, within which they share memory.
pub(crate) fn run_on(
    nodes: Option<usize>,
    ranks: usize,
    options: &SimOptions,
    body: impl Fn(&Rank) -> Outcome + Send + Sync + 'static,
) {
    if let Err(failure) = try_run(nodes, ranks, options, LIMIT, body) {
        panic!("{ranks} ranks on {options:?}\n{failure}");
    }
}

/// [`run_on`], but the first failure of a rank, or the end of the `limit`, is an error.
pub(crate) fn try_run(
    nodes: Option<usize>,
    ranks: usize,
    options: &SimOptions,
    limit: Duration,
    body: impl Fn(&Rank) -> Outcome + Send + Sync + 'static,
) -> Result<(), String> {
    let (net, board, body) = (SimNet::new(ranks, options.clone()), Board::new(ranks), Arc::new(body));
    let positions: Arc<Vec<_>> = Arc::new((0..ranks).map(|_| Mutex::new("starting".to_owned())).collect());
    let (sender, receiver) = mpsc::channel();
    for rank in 0..ranks {
        let (net, board, body, positions) =
            (Arc::clone(&net), Arc::clone(&board), Arc::clone(&body), Arc::clone(&positions));
        let sender = sender.clone();
        let thread = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run_rank(nodes, rank, &net, &board, &*body, &positions)));
            let outcome = outcome.unwrap_or_else(|_| Err("it panicked".into())).map_err(|error| format!("{error:#}"));
            // A runner that gave up no longer receives.
            let _ = sender.send((rank, outcome));
        };
        // Less than the default, for hundreds of ranks.
        std::thread::Builder::new().stack_size(1 << 20).spawn(thread).expect("a thread for a rank");
    }
    let (deadline, mut left) = (Instant::now() + limit, ranks);
    while left > 0 {
        let failure = match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((_, Ok(()))) => {
                left -= 1;
                continue;
            }
            Ok((rank, Err(error))) => format!("rank {rank}: {error}"),
            Err(RecvTimeoutError::Timeout) => format!("{left} ranks have not ended after {limit:?}"),
            Err(RecvTimeoutError::Disconnected) => format!("the threads of {left} ranks are gone"),
        };
        let found = positions.iter().map(|position| position.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let found: Vec<String> = found.enumerate().map(|(rank, at)| format!("  rank {rank} at: {at}")).collect();
        return Err(format!("{failure}\n{}", found.join("\n")));
    }
    Ok(())
}

/// Starts a rank, runs `body`, and leaves the job.
fn run_rank(
    nodes: Option<usize>,
    rank: usize,
    net: &Arc<SimNet>,
    board: &Arc<Board>,
    body: &dyn Fn(&Rank) -> Outcome,
    positions: &Arc<Vec<Mutex<String>>>,
) -> Outcome {
    let boot = Counted::new(Box::new(board.rank(rank)), 1);
    let counts = boot.request_counts();
    let (domain, boot) = (net.domain(peer(rank))?, Box::new(boot));
    let job = match nodes {
        None => Job::simulated(domain, boot)?,
        Some(nodes) => Job::simulated_on(nodes, domain, boot)?,
    };
    let me = Rank { job, net: Arc::clone(net), positions: Arc::clone(positions), requests: counts() };
    me.step("body");
    if let Err(error) = body(&me) {
        // Leaving would wait for the other ranks, which may wait for this one.
        std::mem::forget(me);
        return Err(error);
    }
    me.step("leaving");
    me.job.finalize()?;
    set_position(positions, rank, "done");
    Ok(())
}

/// A net that accepts every post, unless a test causes a refusal, and completes no operation within
/// its post.
pub(crate) fn calm() -> SimOptions {
    SimOptions { again_one_in: 0, done_one_in: 0, ..SimOptions::default() }
}

/// A [`calm`] net whose targets' CPUs perform all operations, as over sockets. `gathers`: several
/// small puts cost less as one message; `ordered`: messages follow puts.
pub(crate) fn like_sockets(gathers: bool, ordered: bool) -> SimOptions {
    let delivery = SimDelivery { gathers, ordered, ..SimDelivery::default() };
    SimOptions { amo: SimAmo::None, message_max: 1024, passive_target: false, delivery, ..calm() }
}

/// [`like_sockets`] where puts and gets are always posted, and only accumulates share messages, as
/// over verbs.
pub(crate) fn combining(ordered: bool) -> SimOptions {
    let net = like_sockets(false, ordered);
    SimOptions { delivery: SimDelivery { combines: true, ..net.delivery }, ..net }
}

/// The default net with these atomics.
pub(crate) fn net_with(amo: SimAmo) -> SimOptions {
    SimOptions { amo, ..SimOptions::default() }
}

/// Waits for operations in flight without posting one.
pub(crate) fn complete_all(win: &RawWindow) -> transom::Result<()> {
    win.lock_all(Assert::NOCHECK)?;
    win.flush_all()?;
    win.unlock_all()
}

/// Makes first contact with the ranks whose words a test changes, and with the master.
pub(crate) fn contact(win: &RawWindow, ranks: &[usize]) -> transom::Result<()> {
    for &rank in ranks {
        win.lock(Lock::Shared, rank, Assert::NONE)?;
        win.unlock(rank)?;
    }
    win.lock_all(Assert::NONE)?;
    win.unlock_all()?;
    complete_all(win)
}

/// Nets that differ in every property on which a protocol could rely, then three within the limits
/// of Slingshot, and two like verbs.
pub(crate) fn nets() -> impl Iterator<Item = SimOptions> {
    small_nets().chain((16..19).map(like_cxi)).chain((19..21).map(like_verbs))
}

/// A net within the limits that libfabric documents for Slingshot, adversarial in everything else.
pub(crate) fn like_cxi(seed: u64) -> SimOptions {
    SimOptions {
        seed,
        delay: if seed.is_multiple_of(2) { 9 } else { 3 },
        again_one_in: if seed % 3 == 1 { 2 } else { 8 },
        done_one_in: 0,
        ..SimOptions::like_cxi()
    }
}

/// A net with the order, the immediates and the held operations of verbs.
pub(crate) fn like_verbs(seed: u64) -> SimOptions {
    let delivery = SimDelivery {
        ordered: true,
        amos_ordered: true,
        amos_in_order: true,
        immediates: Immediates::ALL,
        combines: true,
        holds: true,
        ..SimDelivery::default()
    };
    let delay = if seed.is_multiple_of(2) { 9 } else { 3 };
    let amo = SimAmo::Only64(Coherence::DeviceOnly);
    SimOptions { seed, delay, passive_target: false, amo, delivery, ..SimOptions::default() }
}

fn small_nets() -> impl Iterator<Item = SimOptions> {
    const AMOS: [SimAmo; 4] = [
        SimAmo::All(Coherence::DeviceOnly),
        SimAmo::None,
        SimAmo::All(Coherence::WithCpu),
        SimAmo::Only64(Coherence::DeviceOnly),
    ];
    (0..16).map(|seed: u64| SimOptions {
        seed,
        delay: [3, 0, 9][usize::try_from(seed % 3).expect("small")],
        again_one_in: [8, 2, 0][usize::try_from(seed / 3 % 3).expect("small")],
        done_one_in: if seed.is_multiple_of(5) { 2 } else { 0 },
        reorder: seed % 7 != 3,
        tear_words: seed.is_multiple_of(2),
        passive_target: (seed / 4).is_multiple_of(2),
        inline_max: if seed % 3 == 1 { 4 } else { 24 },
        delivery: SimDelivery {
            most: (seed % 4 == 1 || seed % 4 == 2).then_some(3),
            slots: None,
            ordered: seed % 3 != 1,
            gathers: (seed / 2).is_multiple_of(2),
            combines: seed.is_multiple_of(3),
            amos_ordered: !(seed / 2).is_multiple_of(3),
            amos_in_order: (seed / 4) % 2 == 1,
            immediates: if seed % 4 == 3 { Immediates::ALL } else { Immediates::NONE },
            without_immediates: None,
            answers_wait: Duration::from_secs(seed % 2),
            holds: seed % 5 == 2,
        },
        amo: AMOS[usize::try_from(seed % 4).expect("small")],
        ..SimOptions::default()
    })
}

/// [`run`] on each of [`nets`].
pub(crate) fn on_every_net(ranks: usize, body: impl Fn(&Rank) -> Outcome + Send + Sync + Clone + 'static) {
    for options in nets() {
        run(ranks, &options, body.clone());
    }
}

/// The operations that a call posted at this rank.
pub(crate) fn cost(world: &Rank, call: impl FnOnce() -> transom::Result<()>) -> Result<SimCounters, transom::Error> {
    let before = world.counters();
    call()?;
    let after = world.counters();
    Ok(SimCounters {
        puts: after.puts - before.puts,
        gets: after.gets - before.gets,
        amos: after.amos - before.amos,
        messages: after.messages - before.messages,
        behind: after.behind - before.behind,
        bytes: 0,
    })
}

/// The counts of a call that posts only messages.
pub(crate) fn messages(messages: u64) -> SimCounters {
    SimCounters { messages, ..SimCounters::default() }
}
