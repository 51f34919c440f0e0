//! Jobs whose ranks are threads on the simulated net: running, failing and counting, for the test
//! programs that use them. Each program uses a part of this file. Independent of the tests.

#![allow(dead_code)]

use std::error::Error;
use std::fmt::Debug;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transom::Job;
use transom::bootstrap::counted::{Counted, RequestCounts};
use transom::bootstrap::local::Board;
use transom_fabric::sim::{SimAmo, SimCounters, SimMail, SimNet, SimOptions};
use transom_fabric::{Coherence, Peer};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

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
    /// Records this rank's position, which is printed if a rank waits for it in vain.
    pub(crate) fn step(&self, what: impl Into<String>) {
        set_position(&self.positions, self.rank(), what);
    }

    /// Cuts a rank off the net.
    pub(crate) fn kill(&self, rank: usize) {
        self.net.kill(peer(rank));
    }

    /// Messages to a rank are answered `Again` and this thread's progress fails, until
    /// [`Rank::accept`]: a message to the rank is not sent, and its call returns an error.
    pub(crate) fn refuse(&self, rank: usize) {
        self.net.shut(peer(rank), true);
        self.net.trip(peer(self.rank()), u32::MAX);
    }

    /// A rank takes messages again, and this thread makes progress.
    pub(crate) fn accept(&self, rank: usize) {
        self.net.shut(peer(rank), false);
        self.net.trip(peer(self.rank()), 0);
    }

    /// This thread's next progress fails.
    pub(crate) fn trip(&self) {
        self.net.trip(peer(self.rank()), 1);
    }

    /// The net, for a hook.
    pub(crate) fn net(&self) -> Arc<SimNet> {
        Arc::clone(&self.net)
    }

    /// The number of this rank's regions: with fast keys, and with others.
    pub(crate) fn regions(&self) -> [usize; 2] {
        self.net.regions(peer(self.rank()))
    }

    /// Calls `observer` within each post of the job.
    pub(crate) fn on_post(&self, observer: impl Fn(Peer) + Send + Sync + 'static) {
        self.net.on_post(observer);
    }

    /// Whether this rank holds back an operation.
    pub(crate) fn holds(&self) -> bool {
        self.net.holds(peer(self.rank()))
    }

    /// The operations that this rank has posted so far.
    pub(crate) fn counters(&self) -> SimCounters {
        self.net.counters(peer(self.rank()))
    }
}

pub(crate) fn peer(rank: usize) -> Peer {
    Peer(u32::try_from(rank).expect("few ranks"))
}

fn set_position(positions: &[Mutex<String>], rank: usize, what: impl Into<String>) {
    *positions[rank].lock().unwrap_or_else(PoisonError::into_inner) = what.into();
}

/// Runs `body` at each of `ranks` ranks; the first failure, or the deadline, is reported with every
/// rank's position.
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
    let (net, board, body) = (SimNet::new(ranks, options.clone()), Board::new(ranks), Arc::new(body));
    let positions: Arc<Vec<_>> = Arc::new((0..ranks).map(|_| Mutex::new("starting".to_owned())).collect());
    let (sender, receiver) = mpsc::channel();
    for rank in 0..ranks {
        let (net, board, body, positions) =
            (Arc::clone(&net), Arc::clone(&board), Arc::clone(&body), Arc::clone(&positions));
        let sender = sender.clone();
        let thread = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| one(nodes, rank, &net, &board, &*body, &positions)));
            let outcome = outcome.unwrap_or_else(|_| Err("it panicked".into())).map_err(|error| format!("{error:#}"));
            // A runner that gave up no longer receives.
            let _ = sender.send((rank, outcome));
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(thread).expect("a thread for a rank");
    }
    let (deadline, mut left) = (Instant::now() + LIMIT, ranks);
    while left > 0 {
        let failure = match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((_, Ok(()))) => {
                left -= 1;
                continue;
            }
            Ok((rank, Err(error))) => format!("rank {rank}: {error}"),
            Err(RecvTimeoutError::Timeout) => format!("{left} ranks not done after {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => format!("{left} ranks went without a word"),
        };
        let found = positions.iter().map(|position| position.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let found: Vec<String> = found.enumerate().map(|(rank, at)| format!("  rank {rank} at: {at}")).collect();
        panic!("{ranks} ranks on {options:?}\n{failure}\n{}", found.join("\n"));
    }
}

fn one(
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

pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}").into()) }
}

/// Nets that differ in every property on which a protocol could rely; the last three are within the
/// limits of Slingshot.
pub(crate) fn nets() -> impl Iterator<Item = SimOptions> {
    small_nets().chain((16..19).map(like_cxi))
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
        mail: SimMail {
            most: (seed % 4 == 1 || seed % 4 == 2).then_some(3),
            slots: None,
            ordered: seed % 3 != 1,
            gathers: (seed / 2).is_multiple_of(2),
            amos_ordered: !(seed / 2).is_multiple_of(3),
            answers_wait: Duration::from_secs(seed % 2),
            holds: seed % 5 == 2,
        },
        amo: AMOS[usize::try_from(seed % 4).expect("small")],
        ..SimOptions::default()
    })
}

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

pub(crate) fn messages(messages: u64) -> SimCounters {
    SimCounters { messages, ..SimCounters::default() }
}
