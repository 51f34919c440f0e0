//! Ranks that die while the others wait for them or for each other. Every survivor gets an error
//! that names the dead rank and ends by itself, and the job's status is that of the dead rank
//! (requirement E3). A table of stages and of causes of death, as jobs of this program itself
//! (`--rank STAGE CAUSE`) under the real launcher, which gives survivors a minute and then ends the
//! job.
//!
//! Shows E3.

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::Arguments;
use rustix::process::{Signal, getpid, kill_process};
use transom::bootstrap::{Bootstrap, BootstrapError, detect};
use transom::{Info, Job, Lock, Notice, RawWindow, Request, Window, ops};
use transom_harness::{Outcome, trial};

const RANKS: usize = 3;
/// The rank that dies.
const VICTIM: usize = RANKS - 1;
/// Seconds that survivors get to end; more than they need on a busy machine.
const GRACE: &str = "60";

type Stage = (&'static str, fn(&Job, &Death) -> Outcome);

/// The stages: where the victim dies, and the calls in which the other ranks are then.
const STAGES: [Stage; 19] = [
    // Before `init`: see `as_rank`.
    ("starting", barrier),
    ("barrier", barrier),
    (LEAVING, barrier),
    ("creating", creating),
    ("fence", fence),
    ("before_post", before_post),
    ("before_complete", before_complete),
    ("holding_a_lock", holding_a_lock),
    ("waiting_for_a_lock", waiting_for_a_lock),
    ("within_a_large_put", within_a_large_put),
    ("within_long_accumulates", within_long_accumulates),
    ("atomics_at_the_victim", atomics_at_the_victim),
    ("polling_test", polling_test),
    ("awaiting_notices", awaiting_notices),
    ("testing_for_notices", testing_for_notices),
    ("reading_notices", reading_notices),
    ("resetting_notices", resetting_notices),
    ("testing_requests", testing_requests),
    ("free", free),
];

/// In this stage the survivors drop the job, under a launcher that waits for the victim.
const LEAVING: &str = "leaving";

/// The cause of death, and the resulting exit status.
const CAUSES: [(&str, i32); 3] = [("kill", 128 + 9), ("segv", 128 + 11), ("stop_and_kill", 128 + 9)];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [rank, stage, cause] = args.as_slice()
        && rank == "--rank"
    {
        return as_rank(stage, cause);
    }
    let pairs = STAGES.iter().flat_map(|stage| CAUSES.iter().map(move |cause| (stage.0, cause)));
    let trials = pairs.map(|(stage, &(cause, status))| {
        trial(format!("{stage}::{cause}"), move || every_survivor_reports_the_death(stage, cause, status))
    });
    let trials = trials.chain([trial("numbers_of_ranks_in_errors", numbers_of_ranks_in_errors)]);
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn every_survivor_reports_the_death(stage: &str, cause: &str, status: i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_transom-test-run"))
        .args(["-n", &RANKS.to_string(), "--bind", "none", "--tag-output", "--timeout", "75", "--grace", GRACE])
        .args(transom_harness::as_ranks())
        .args(["--rank", stage, cause])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{printed}");
    assert!(printed.contains(&format!("transom-run: rank {VICTIM} (pid ")), "{printed}");
    for survivor in 0..VICTIM {
        let reports = |line: &str| {
            let mine = line.strip_prefix(&format!("[{survivor}] reported: "));
            mine.is_some_and(|error| names(error, VICTIM))
        };
        assert!(printed.lines().any(reports), "rank {survivor} reported no death of rank {VICTIM}:\n{printed}");
    }
}

/// Whether an error names the rank, as `rank 2 on host died` and `ranks 1, 2 on host died` do.
/// Other numbers, such as those of hosts and processes, name no rank.
fn names(error: &str, rank: usize) -> bool {
    error.split("rank").skip(1).any(|rest| {
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let list = rest.split(|c: char| !c.is_ascii_digit() && c != ',' && c != ' ').next().unwrap_or_default();
        list.split([',', ' ']).any(|number| number.parse() == Ok(rank))
    })
}

/// Tests of [`names`]: an error that names another rank does not count as one about this rank.
fn numbers_of_ranks_in_errors() {
    let found = |error| (0..RANKS).filter(|&rank| names(error, rank)).collect::<Vec<_>>();
    assert_eq!(found("rank 2 on host1 died"), [2]);
    assert_eq!(found("ranks 1, 2 on host0 died"), [1, 2]);
    assert_eq!(found("an operation at rank 2 (host 1, 10.0.0.0) failed: error 0 of 1"), [2]);
    assert_eq!(found("rank 1 on vm-2 died within 2 s"), [1]);
    assert_eq!(found("rank 12 on host died"), [0; 0]);
}

fn as_rank(stage: &str, cause: &str) -> ExitCode {
    let Some((_, body)) = STAGES.iter().find(|(name, _)| *name == stage) else { return ExitCode::from(2) };
    let death = Death { cause: cause.to_owned() };
    if stage == "starting" && std::env::var("PMI_RANK").is_ok_and(|rank| rank == VICTIM.to_string()) {
        death.now();
    }
    let joined = if stage == LEAVING {
        detect().map_err(Into::into).and_then(|inner| Job::with_bootstrap(Box::new(IgnoresDeaths { inner })))
    } else {
        transom::init()
    };
    match joined.map_err(Into::into).and_then(|world| run_stage(world, stage, &death, *body)) {
        Ok(()) => eprintln!("nothing failed"),
        Err(error) => eprintln!("reported: {error:#}"),
    }
    if std::env::var_os("TRANSOM_TEST_ENTER").is_some() {
        // The launcher's child is the process that entered the machine's namespace; it ends after
        // the rank does. The job's status is still that of the rank.
        std::thread::sleep(Duration::from_secs(2));
    }
    ExitCode::FAILURE
}

/// A launcher that ignores deaths: after the start its barriers wait for ever.
#[derive(Debug)]
struct IgnoresDeaths {
    inner: Box<dyn Bootstrap>,
}

/// Whether the job has started.
static STARTED: AtomicBool = AtomicBool::new(false);

impl Bootstrap for IgnoresDeaths {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn value_limit(&self) -> usize {
        self.inner.value_limit()
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.inner.put(key, value)
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        // Relaxed: set by this thread.
        while STARTED.load(Ordering::Relaxed) {
            std::thread::park();
        }
        self.inner.barrier()
    }

    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.inner.get(from, key)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.inner.finalize()
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        self.inner.abort(code, why)
    }
}

fn run_stage(world: Job, stage: &str, death: &Death, body: fn(&Job, &Death) -> Outcome) -> Outcome {
    // Relaxed: read by this thread.
    STARTED.store(true, Ordering::Relaxed);
    let done = body(&world, death);
    // Regression: the drop of the job waited for the victim for ever.
    if done.is_err() && stage != LEAVING {
        // A rank that got the error can't leave the job collectively.
        std::mem::forget(world);
        return done;
    }
    Ok(world.finalize()?)
}

/// The cause of the victim's death.
struct Death {
    cause: String,
}

impl Death {
    /// Ends the process.
    fn now(&self) -> ! {
        let me = getpid();
        let signal = match self.cause.as_str() {
            "kill" => Signal::KILL,
            "segv" => Signal::SEGV,
            _ => {
                // Stopped for longer than the others poll, and killed only then.
                let kill = format!("sleep 0.3; kill -KILL {}", me.as_raw_nonzero());
                drop(Command::new("sh").args(["-c", &kill]).stdin(Stdio::null()).spawn());
                Signal::STOP
            }
        };
        loop {
            // Several times, because a handler of Rust's runtime takes the first SIGSEGV.
            kill_process(me, signal).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the process a little later, during its calls, where this rank is the victim.
    fn soon_if_victim(&self, world: &Job) {
        if world.rank() == VICTIM {
            let cause = self.cause.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                Death { cause }.now()
            });
        }
    }

    /// Ends the process where this rank is the victim.
    fn now_if_victim(&self, world: &Job) {
        if world.rank() == VICTIM {
            self.now();
        }
    }
}

fn barrier(world: &Job, death: &Death) -> Outcome {
    death.now_if_victim(world);
    Ok(world.barrier()?)
}

fn creating(world: &Job, death: &Death) -> Outcome {
    death.now_if_victim(world);
    Ok(Window::<u64>::allocate(world, 100)?.free()?)
}

fn fence(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    win.fence(|epoch| {
        epoch.put_value(0, 0, 1)?;
        death.now_if_victim(world);
        Ok(())
    })?;
    Ok(win.fence(|_| Ok(()))?)
}

/// The accesses of the others wait for the victim's post.
fn before_post(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    death.now_if_victim(world);
    Ok(win.start(&[VICTIM], |epoch| epoch.put_value(VICTIM, 0, 1))?)
}

/// The exposure epochs of the others wait for the victim's complete.
fn before_complete(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    if world.rank() != VICTIM {
        win.post(&[VICTIM])?;
        return Ok(win.wait()?);
    }
    Ok(win.start(&[0, 1], |_| death.now())?)
}

fn holding_a_lock(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    if world.rank() == VICTIM {
        win.lock(Lock::Exclusive, 0, |epoch| {
            epoch.put_value(0, 0, 1)?;
            epoch.flush(0)?;
            death.now()
        })?;
    }
    // The victim holds the lock by now, because it has put.
    while win.lock_all(|epoch| epoch.fetch_value(0, 0)).is_ok_and(|seen| seen == 0) {}
    Ok(win.lock(Lock::Exclusive, 0, |_| Ok(()))?)
}

/// A waiter that dies leaves its mark in the lock's words, while the other ranks wait for each
/// other.
fn waiting_for_a_lock(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    if world.rank() == 0 {
        win.lock(Lock::Exclusive, 0, |_| world.barrier())?;
    } else {
        world.barrier()?;
        if world.rank() == VICTIM {
            let cause = death.cause.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                Death { cause }.now()
            });
        }
    }
    loop {
        win.lock(Lock::Exclusive, 0, |epoch| epoch.put_value(0, 0, 1))?;
        win.fence(|_| Ok(()))?;
    }
}

fn within_a_large_put(world: &Job, death: &Death) -> Outcome {
    const LEN: usize = 1 << 20;
    let win = Window::<u64>::allocate(world, LEN)?;
    let data = vec![7; LEN];
    death.soon_if_victim(world);
    loop {
        win.fence(|epoch| epoch.put((world.rank() + 1) % RANKS, 0, &data))?;
    }
}

/// Accumulates of many pieces, at the victim and at live ranks. No device performs them on doubles,
/// which would be one atomic for each element.
fn within_long_accumulates(world: &Job, death: &Death) -> Outcome {
    const LEN: usize = 1 << 18;
    let win = Window::<f64>::allocate(world, LEN)?;
    let (data, mut found) = (vec![7.0; LEN], vec![0.0; LEN]);
    death.soon_if_victim(world);
    loop {
        win.lock_all(|epoch| {
            let mut each = |target| epoch.scope(|part| part.get_accumulate(target, 0, &data, &mut found, ops::Sum));
            (0..RANKS).try_for_each(&mut each)
        })?;
        // A rank that waits gets the error also where memory of the victim is still mapped.
        world.barrier()?;
    }
}

/// Atomics on the victim's memory; the victim executes them if it is on another node.
fn atomics_at_the_victim(world: &Job, death: &Death) -> Outcome {
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    death.now_if_victim(world);
    win.lock_all(transom::Assert::NONE)?;
    loop {
        let mut old = [0; 8];
        win.fetch_and_op(&1u64.to_ne_bytes(), &mut old, transom::BasicType::Uint64, VICTIM, 0, transom::Op::Sum)?;
        if world.route(VICTIM)? != transom::Route::Net {
            // The victim's memory is still mapped: only a rank that waits gets the error.
            world.barrier()?;
        }
    }
}

/// Polling by `test` counts as waiting.
fn polling_test(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    if world.rank() == VICTIM {
        win.start(&[0, 1], |_| death.now())?;
    }
    win.post(&[VICTIM])?;
    while !win.test()? {}
    Ok(())
}

/// A window in which the others get one notice of the victim, which then dies.
fn notified_once(world: &Job, death: &Death) -> transom::Result<Window<u64>> {
    let win = Window::<u64>::allocate(world, 100)?;
    win.set_num_notify(1)?;
    if world.rank() == VICTIM {
        win.lock_all(|epoch| {
            (0..VICTIM).try_for_each(|rank| epoch.scope(|part| part.put_notify(rank, 0, &[7], Notice(0))))?;
            death.now()
        })?;
    }
    Ok(win)
}

/// The others wait for two notices of the victim.
fn awaiting_notices(world: &Job, death: &Death) -> Outcome {
    Ok(notified_once(world, death)?.notices().wait(0, 2)?)
}

/// Polling for two notices of the victim counts as waiting.
fn testing_for_notices(world: &Job, death: &Death) -> Outcome {
    let win = notified_once(world, death)?;
    while !win.notices().try_wait(0, 2)? {}
    Ok(())
}

/// Polling by reads of the counter counts as waiting.
fn reading_notices(world: &Job, death: &Death) -> Outcome {
    let win = notified_once(world, death)?;
    while win.notices().value(0)? < 2 {}
    Ok(())
}

/// Polling by resets of the counter counts as waiting.
fn resetting_notices(world: &Job, death: &Death) -> Outcome {
    let win = notified_once(world, death)?;
    let mut sum = 0;
    while sum < 2 {
        sum += win.notices().reset(0)?;
    }
    Ok(())
}

/// Polling by `test_some` counts as waiting.
fn testing_requests(world: &Job, death: &Death) -> Outcome {
    let win = notified_once(world, death)?;
    let mut requests = [win.notices().request(0, 2)?];
    while Request::test_some(&mut requests)?.is_empty() {}
    Ok(())
}

fn free(world: &Job, death: &Death) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    death.now_if_victim(world);
    Ok(win.free()?)
}
