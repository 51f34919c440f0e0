//! Ranks as threads: opening, barriers, waiting, and the watchdog that reports each rank's
//! position. Independent of the tests.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use transom_fabric::{Domain, Handler, Immediate, Memory, Peer, Port, Post, Region, RegionKey, Tally};

use crate::Fixture;

/// A test that takes longer counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(90);

/// The longest sleep in one wait, so that a rank notices the failure of another one.
const NAP: Duration = Duration::from_millis(20);

pub(crate) type RegionOf<F> = <<F as Fixture>::Domain as Domain>::Region;
pub(crate) type RemoteOf<F> = <<<F as Fixture>::Domain as Domain>::Port as Port>::Remote;

/// One rank of a running test. It also handles the rank's messages.
#[derive(Debug)]
pub struct Rank<'t, F: Fixture> {
    /// The rank's number.
    pub me: Peer,
    /// The number of ranks.
    pub ranks: usize,
    /// Messages that arrived, with their senders.
    pub inbox: Mutex<Vec<(Peer, Vec<u8>)>>,
    /// Immediates that arrived, with their origins.
    pub immediates: Mutex<Vec<(Peer, Immediate)>>,
    /// The handler sends messages back, with their first byte cleared, where that byte is not 0.
    pub echo: AtomicBool,
    /// Echoes that were answered `Again`.
    pub owed: Mutex<VecDeque<(Peer, Vec<u8>)>>,
    /// The helper thread, if there is one, must make no progress.
    paused: AtomicBool,
    /// The helper thread makes no progress now.
    resting: AtomicBool,
    domain: Arc<F::Domain>,
    fixture: &'t F,
    team: &'t Team,
    lent: Mutex<Vec<Memory>>,
}

/// A window of a rank, and its peers' windows.
#[derive(Debug)]
pub struct Window<F: Fixture> {
    /// This rank's memory.
    pub memory: Memory,
    /// This rank's region.
    pub region: RegionOf<F>,
    /// Every rank's region, this one's included.
    pub remotes: Vec<RemoteOf<F>>,
}

#[derive(Debug)]
struct Team {
    /// The name of the test.
    test: String,
    state: Mutex<TeamState>,
    changed: Condvar,
    steps: Vec<Mutex<String>>,
    stop: AtomicBool,
}

#[derive(Debug)]
struct TeamState {
    arrived: usize,
    round: usize,
    failed: bool,
    keys: Vec<RegionKey>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` as every rank of a new set of domains. Where the backend needs progress at the
/// target, a thread makes it there.
///
/// # Panics
/// If a rank panics. A test that hangs is aborted, after a line with each rank's position.
pub fn run<F: Fixture>(fixture: &F, ranks: usize, body: impl Fn(&Rank<'_, F>) + Sync) {
    let domains = fixture.open(ranks);
    assert_eq!(domains.len(), ranks, "{} opens every rank", fixture.name());
    let team = Team {
        test: thread::current().name().unwrap_or("?").to_owned(),
        state: Mutex::new(TeamState { arrived: 0, round: 0, failed: false, keys: vec![RegionKey::default(); ranks] }),
        changed: Condvar::new(),
        steps: (0..ranks).map(|_| Mutex::default()).collect(),
        stop: AtomicBool::new(false),
    };
    let members: Vec<Rank<'_, F>> =
        (0..).zip(domains).map(|(me, domain)| Rank::new(Peer(me), ranks, domain, fixture, &team)).collect();
    let failed = thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let team = &team;
        let name = fixture.name();
        scope.spawn(move || {
            if ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
                team.report_and_abort(&format!("{} over {name}", team.test));
            }
        });
        let helpers: Vec<_> = members
            .iter()
            .filter(|rank| !rank.domain.port().limits().passive_target)
            .map(|rank| scope.spawn(|| rank.serve()))
            .collect();
        let threads: Vec<_> = members.iter().map(|rank| scope.spawn(|| rank.live(&body))).collect();
        let mut failed = threads.into_iter().filter_map(|thread| thread.join().err()).collect::<Vec<_>>();
        // Relaxed: only requests the end of the helpers.
        team.stop.store(true, Ordering::Relaxed);
        members.iter().for_each(|rank| rank.domain.port().wake());
        failed.extend(helpers.into_iter().filter_map(|thread| thread.join().err()));
        drop(done);
        failed
    });
    let steps = team.describe();
    assert!(failed.is_empty(), "{}:\n{steps}", fixture.name());
}

impl Team {
    fn describe(&self) -> String {
        let mut text = String::new();
        for (rank, step) in self.steps.iter().enumerate() {
            let _ = writeln!(text, "  rank {rank}: {}", lock(step));
        }
        text
    }

    fn report_and_abort(&self, what: &str) {
        let limit = WATCHDOG.as_secs();
        let text = format!("{what} hangs after {limit} s; positions of the ranks:\n{}", self.describe());
        // A failure here has no further consequence.
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::abort();
    }

    /// Waits for all ranks; the last to arrive releases the others.
    fn wait_at_barrier(&self, ranks: usize) {
        let mut state = lock(&self.state);
        let round = state.round;
        state.arrived += 1;
        if state.arrived == ranks {
            state.arrived = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        while state.round == round {
            assert!(!state.failed, "another rank failed");
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Notifies the other ranks when a rank's thread panics.
struct FailureGuard<'t>(&'t Team);

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.state).failed = true;
            self.0.changed.notify_all();
        }
    }
}

impl<'t, F: Fixture> Rank<'t, F> {
    fn new(me: Peer, ranks: usize, domain: Arc<F::Domain>, fixture: &'t F, team: &'t Team) -> Rank<'t, F> {
        Rank {
            me,
            ranks,
            inbox: Mutex::default(),
            immediates: Mutex::default(),
            echo: AtomicBool::new(false),
            owed: Mutex::default(),
            paused: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            domain,
            fixture,
            team,
            lent: Mutex::default(),
        }
    }

    fn live(&self, body: &impl Fn(&Rank<'_, F>)) {
        let _alarm = FailureGuard(self.team);
        body(self);
        self.barrier();
        self.step("done");
    }

    fn serve(&self) {
        let _alarm = FailureGuard(self.team);
        // Relaxed: see `run`.
        while !self.team.stop.load(Ordering::Relaxed) {
            // Acquire and Release: pair with those in `pause`, so that no access of this thread
            // follows the beginning of the pause.
            let paused = self.paused.load(Ordering::Acquire);
            self.resting.store(paused, Ordering::Release);
            if paused {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            self.progress();
            self.domain.port().wait(NAP);
        }
    }

    pub(crate) fn keep(&self, memory: &Memory) {
        lock(&self.lent).push(memory.clone());
    }

    /// Stops the helper thread, if there is one: from now on only this rank's own thread calls the
    /// backend.
    pub fn pause(&self) {
        self.step("waiting for the helping thread to rest");
        // Release and Acquire: pair with those in `serve`.
        self.paused.store(true, Ordering::Release);
        while !self.domain.port().limits().passive_target && !self.resting.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the helper thread go on.
    pub fn resume(&self) {
        // Release: as in `pause`.
        self.paused.store(false, Ordering::Release);
    }

    /// This rank's domain.
    pub fn domain(&self) -> &F::Domain {
        &self.domain
    }

    /// What opened this rank's domain.
    pub fn fixture(&self) -> &F {
        self.fixture
    }

    /// Records this rank's position, for the watchdog's report.
    pub fn step(&self, what: impl Into<String>) {
        *lock(&self.team.steps[self.me.index()]) = what.into();
    }

    /// Prints what the backend lacks, once for all ranks, also if the test passes.
    pub fn report(&self, what: &str) {
        if self.me.0 == 0 {
            // A report that can't be written is no failure of the backend.
            let _ = writeln!(std::io::stderr(), "{}: {what}", self.team.test);
        }
    }

    /// A barrier outside the backend: a waiting rank makes no call to it.
    #[track_caller]
    pub fn barrier(&self) {
        self.step(format!("in the barrier at {}", Location::caller()));
        self.team.wait_at_barrier(self.ranks);
        self.step(format!("after the barrier at {}", Location::caller()));
    }

    /// Calls [`Port::progress`] once.
    pub fn progress(&self) -> usize {
        match self.domain.port().progress(self) {
            Ok(count) => count,
            Err(error) => panic!("{}: progress: {error:#}", self.me),
        }
    }

    /// Makes progress until `done` returns true.
    #[track_caller]
    pub fn until(&self, what: &str, done: impl Fn() -> bool) {
        self.step(format!("waiting for {what} at {}", Location::caller()));
        while !done() {
            if self.progress() == 0 && !done() {
                assert!(!lock(&self.team.state).failed, "another rank failed");
                self.domain.port().wait(Duration::from_millis(1));
            }
        }
    }

    /// Makes progress until the tally is idle; the tally must have no fault.
    #[track_caller]
    pub fn flush(&self, tally: &Tally) {
        self.until("a tally to be idle", || tally.idle());
        assert_eq!(tally.fault(), None, "{}", self.me);
    }

    /// Posts until the answer is not `Again`; returns the number of attempts.
    #[track_caller]
    pub fn post(&self, mut post: impl FnMut(&<F::Domain as Domain>::Port) -> Post) -> usize {
        self.step(format!("posting at {}", Location::caller()));
        let mut again = 0;
        loop {
            match post(self.domain.port()) {
                Post::Done | Post::Pending => return again,
                Post::Broken(fault) => panic!("{}: broken: {fault}", self.me),
                Post::Again => {
                    again += 1;
                    assert!(!lock(&self.team.state).failed, "another rank failed");
                    if self.progress() == 0 {
                        thread::yield_now();
                    }
                }
            }
        }
    }

    /// Sends a message, retried while it is answered `Again`.
    #[track_caller]
    pub fn send(&self, to: Peer, message: &[u8]) {
        self.post(|port| match port.send(to, message) {
            Post::Pending => panic!("send answers Done, Again or Broken"),
            answer => answer,
        });
    }

    /// A window of `len` bytes at every rank; collective.
    #[track_caller]
    pub fn window(&self, len: usize) -> Window<F> {
        let memory = self.fixture.memory(&self.domain, len);
        assert_eq!(memory.len(), len);
        let region = match self.domain.register(&memory) {
            Ok(region) => region,
            Err(error) => panic!("{}: registering: {error:#}", self.me),
        };
        let key = region.key();
        assert_ne!(key, RegionKey::default(), "all zero means: no region");
        lock(&self.team.state).keys[self.me.index()] = key;
        self.barrier();
        let keys = lock(&self.team.state).keys.clone();
        let remotes = (0..)
            .zip(&keys)
            .map(|(peer, key)| match self.domain.port().import(Peer(peer), key) {
                Ok(remote) => remote,
                Err(error) => panic!("{}: importing from rank {peer}: {error:#}", self.me),
            })
            .collect();
        self.barrier();
        Window { memory, region, remotes }
    }
}

impl<F: Fixture> Handler for Rank<'_, F> {
    fn message(&self, from: Peer, bytes: &[u8]) {
        // Acquire: pairs with the Release of the test that asks for echoes.
        if self.echo.load(Ordering::Acquire) && bytes.first().is_some_and(|first| *first != 0) {
            let mut answer = bytes.to_vec();
            answer[0] = 0;
            match self.domain.port().send(from, &answer) {
                Post::Done => {}
                Post::Again => lock(&self.owed).push_back((from, answer)),
                other => panic!("an echo was answered {other:?}"),
            }
        }
        // Last: a rank that has all its messages sends the echoes that are still owed, and no later
        // ones.
        lock(&self.inbox).push((from, bytes.to_vec()));
    }

    fn immediate(&self, from: Peer, immediate: Immediate) {
        lock(&self.immediates).push((from, immediate));
    }
}

/// The bytes of `memory` from `at`.
pub(crate) fn bytes(memory: &Memory, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read(at, &mut bytes);
    bytes
}

/// Bytes that depend on their offset and `salt`, none of them 0.
pub(crate) fn pattern(salt: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + at / 251 + salt * 31) % 255 + 1).expect("at most 255")).collect()
}

/// Private memory with these bytes.
pub(crate) fn filled(bytes: &[u8]) -> Memory {
    let memory = Memory::private(bytes.len());
    memory.write(0, bytes);
    memory
}

/// `len` bytes in `count` parts of a buffer of twice the size, as beginnings and lengths. The first
/// part has the highest address, with gaps between parts; with more than two parts some are empty.
pub(crate) fn parts(len: usize, count: usize) -> Vec<(usize, usize)> {
    let (mut left, mut end) = (len, 2 * len);
    (1..=count)
        .map(|part| {
            let own = if part == count {
                left
            } else if part % 3 == 2 {
                0
            } else {
                left.div_ceil(count - part + 2)
            };
            left -= own;
            end -= 2 * own;
            (end, own)
        })
        .collect()
}

/// Lengths to try up to `most`: all short ones, those around powers of two, and the longest.
pub(crate) fn lengths(most: usize) -> Vec<usize> {
    const LONG: usize = 70_000;
    let most = most.min(LONG);
    let mut all: Vec<usize> = (0..18).collect();
    for power in [32, 64, 128, 256, 1024, 4096, 65536] {
        all.extend([power - 1, power, power + 1]);
    }
    all.extend([most.saturating_sub(1), most]);
    all.retain(|len| *len <= most);
    all.sort_unstable();
    all.dedup();
    all
}
