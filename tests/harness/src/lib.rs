//! Tests of several processes. A test program gives its bodies to [`main`]: started by cargo, the
//! program runs each body as jobs of `transom-run`; started as a rank of such a job, it runs the
//! body. Every rank has a watchdog that prints the rank's position ([`step`]). The harness checks
//! only how a job ends; the test bodies check all other results.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use transom::{Job, Route, Window};

mod proc;
pub mod word;

pub use proc::{Mapping, bytes_of_proc};

/// The result of a body.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A test: its body, the numbers of ranks, and the additional environment.
#[derive(Clone, Copy)]
pub struct Test {
    /// The test's name.
    pub name: &'static str,
    /// The numbers of ranks of its jobs.
    pub ranks: &'static [usize],
    /// Variables in addition to the test program's environment.
    pub env: &'static [(&'static str, &'static str)],
    /// The text that the job must print when it fails; `None`: it must succeed.
    pub fails: Option<&'static str>,
    /// The body that each rank runs.
    pub body: fn(&Job) -> Outcome,
}

impl Test {
    /// A test whose jobs must succeed, in the test program's environment.
    pub const fn new(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
        Test { name, ranks, env: &[], fails: None, body }
    }

    /// The test with additional variables.
    #[must_use]
    pub const fn with_env(self, env: &'static [(&'static str, &'static str)]) -> Test {
        Test { env, ..self }
    }

    /// The test, whose jobs must fail and print `text`.
    #[must_use]
    pub const fn failing_with(self, text: &'static str) -> Test {
        Test { fails: Some(text), ..self }
    }
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Time limit of a rank: longer than any body needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

static STEP: Mutex<String> = Mutex::new(String::new());

/// Records this rank's position, for the watchdog.
pub fn step(what: impl Into<String>) {
    *STEP.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
}

/// This rank's last recorded position.
pub fn position() -> String {
    STEP.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Ends this process after the time limit, and prints this rank's position before.
pub fn watch(limit: Duration) -> ! {
    std::thread::sleep(limit);
    eprintln!("{WATCHDOG} the rank has run for {limit:?}, and aborts; its last step: {}", position());
    // The launcher ends the job: the other ranks print their positions first.
    std::thread::sleep(Duration::from_secs(2));
    std::process::abort();
}

/// The beginning of a watchdog's line.
pub const WATCHDOG: &str = "watchdog:";

/// Fails if `found` is not `expected`; `what` names the value.
///
/// # Errors
/// The difference between both.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}").into())
}

/// Fails if `holds` is false.
///
/// # Errors
/// The condition that does not hold.
pub fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("does not hold: {what}").into()) }
}

/// Whether all ranks of a job reach each other by loads and stores.
///
/// # Errors
/// No route to a rank can be chosen.
pub fn one_node(job: &Job) -> transom::Result<bool> {
    for rank in 0..job.size() {
        if job.route(rank)? == Route::Net {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The values of all ranks, by rank. Collective.
///
/// # Errors
/// Those of the calls on a window.
pub fn gathered(job: &Job, value: u64) -> transom::Result<Vec<u64>> {
    let win = Window::<u64>::allocate(job, job.size())?;
    win.fence(|epoch| (0..job.size()).try_for_each(|rank| epoch.put_value(rank, job.rank(), value)))?;
    let mut all = vec![0; job.size()];
    win.load(0, &mut all)?;
    win.free()?;
    Ok(all)
}

/// A test of a program that has no table of [`Test`]s; it fails by a panic.
pub fn trial(name: impl Into<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// Standard output and then standard error of a process.
pub fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An example in the folder where cargo puts examples, next to the folder of this test program.
///
/// # Panics
/// If the example is not built: `cargo build --examples`, or any build of all targets, builds it.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

/// The main function of a test program; `launcher` is `env!("CARGO_BIN_EXE_transom-test-run")`.
pub fn main(launcher: &'static str, tests: &'static [Test]) -> ExitCode {
    run(launcher, tests, false)
}

/// [`main`] of a program whose tests need an RDMA device: they run only with `--include-ignored`.
pub fn main_on_device(launcher: &'static str, tests: &'static [Test]) -> ExitCode {
    run(launcher, tests, true)
}

fn run(launcher: &'static str, tests: &'static [Test], ignored: bool) -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--rank") {
        return rank(&args.next().unwrap_or_default(), tests);
    }
    let trials = tests.iter().flat_map(|test| test.ranks.iter().map(move |&ranks| (test, ranks)));
    let trials = trials.map(|(test, ranks)| {
        let name = format!("{}::ranks_{ranks}", test.name);
        Trial::test(name, move || job(launcher, test, ranks).map_err(Failed::from)).with_ignored_flag(ignored)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// This program as the ranks' program of a job, preceded by the command that, under `ci/hosts`,
/// puts each rank on its machine.
///
/// # Panics
/// If the system does not provide the path of this program.
pub fn as_ranks() -> Vec<OsString> {
    let own = std::env::current_exe().expect("a path of this program").into_os_string();
    match std::env::var_os("TRANSOM_TEST_ENTER") {
        Some(hosts) => vec![hosts, "--enter-by-rank".into(), own],
        None => emulator().into_iter().chain([own]).collect(),
    }
}

/// The command that runs programs of another processor, for which `ci/aarch64` compiles the tests.
fn emulator() -> Vec<OsString> {
    let emulator = std::env::var("TRANSOM_TEST_EMULATOR").unwrap_or_default();
    emulator.split_whitespace().map(OsString::from).collect()
}

/// Runs a test's job and returns its outcome.
fn job(launcher: &str, test: &Test, ranks: usize) -> Result<(), String> {
    // Where the ranks are emulated, the launcher is not: it needs a guard process.
    let launcher = std::env::var_os("TRANSOM_TEST_LAUNCHER").unwrap_or_else(|| launcher.into());
    let output = Command::new(&launcher)
        .args(["-n", &ranks.to_string(), "--bind", "none", "--tag-output", "--timeout"])
        .arg((LIMIT + Duration::from_secs(15)).as_secs().to_string())
        .args(as_ranks())
        .args(["--rank", test.name])
        .envs(test.env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{launcher:?}: {error:#}"))?;
    let printed = printed(&output);
    match test.fails {
        None if output.status.success() => Ok(()),
        None => Err(format!("{ranks} ranks: {}\n{printed}", output.status)),
        Some(why) if !output.status.success() && printed.contains(why) && !printed.contains(WATCHDOG) => Ok(()),
        Some(why) => Err(format!("{ranks} ranks: {} instead of failing with {why:?}\n{printed}", output.status)),
    }
}

/// Runs a body as a rank.
fn rank(name: &str, tests: &[Test]) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.name == name) else {
        eprintln!("no body is called {name:?}");
        return ExitCode::FAILURE;
    };
    std::thread::spawn(|| {
        watch(LIMIT);
    });
    step("init");
    let done = joined(test);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: at {}: {error:#}", STEP.lock().unwrap_or_else(PoisonError::into_inner));
            ExitCode::FAILURE
        }
    }
}

fn joined(test: &Test) -> Outcome {
    let world = transom::init()?;
    step("body");
    if let Err(error) = (test.body)(&world) {
        // Where no window was dropped without free, leaving would wait for the other ranks, which
        // may wait for this one.
        std::mem::forget(world);
        return Err(error);
    }
    step("the end of the body");
    world.barrier()?;
    Ok(world.finalize()?)
}
