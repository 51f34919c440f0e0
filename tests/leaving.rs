//! Ranks that leave while the others wait for them, as a `?` that skips the `free` of a window
//! does. The launcher ends the job and reports the reason. Jobs of this program itself
//! (`--rank BODY`) under the real launcher, which kills a job that hangs.
//!
//! Shows W2.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::Arguments;
use transom::{Job, Window};
use transom_harness::trial;

/// Seconds; longer than any of these jobs takes on a busy machine. A job that the launcher ends by
/// this limit has hung.
const WATCHDOG: &str = "60";

/// A test; it takes the number of ranks.
type Named = (&'static str, fn(usize));

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--rank") {
        return rank(&args.next().unwrap_or_default());
    }
    let tests: [Named; 6] = [
        ("an_error_over_a_window_ends_the_job", an_error_ends_the_job),
        ("leaving_without_finalize_is_reported", leaving_without_finalize),
        ("a_rank_that_leaves_early_says_so", leaving_early),
        ("dropping_or_finalizing_leaves_the_job", all_finalize),
        ("a_logger_of_the_program_gets_the_warnings", a_logger_gets_warnings),
        ("warnings_can_be_turned_off", warnings_are_off),
    ];
    let trials = tests.iter().flat_map(|&(name, test)| [2, 3].map(|ranks| (name, test, ranks)));
    let trials = trials.map(|(name, test, ranks)| trial(format!("{name}::ranks_{ranks}"), move || test(ranks)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The exit status of a job in which all ranks run `body`, and its standard error.
fn job(ranks: usize, body: &str) -> (Option<i32>, String) {
    let (status, _, printed) = job_with(ranks, body, "y");
    (status, printed)
}

/// The exit status of a job in which all ranks run `body` with this `TRANSOM_WARNINGS`, its
/// standard output and its standard error.
fn job_with(ranks: usize, body: &str, warnings: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_transom-test-run"))
        .args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", WATCHDOG])
        .args(transom_harness::as_ranks())
        .args(["--rank", body])
        .env("TRANSOM_WARNINGS", warnings)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The error of the last rank is printed and gives the job its status, while the others wait for
/// that rank in a fence.
fn an_error_ends_the_job(ranks: usize) {
    let (status, printed) = job(ranks, "error");
    assert_eq!(status, Some(7), "{printed}");
    assert!(printed.contains("on purpose"), "{printed}");
    assert!(printed.contains(&format!("rank {}: leaves the job without Job::finalize", ranks - 1)), "{printed}");
}

/// The others do not wait for ever either if the rank leaves this way with status 0.
fn leaving_without_finalize(ranks: usize) {
    let (status, printed) = job(ranks, "leave");
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("without finalizing"), "{printed}");
}

/// A rank that drops its job without a window, as a `?` may, waits until the others leave, and says
/// so. The last rank leaves 26 s before the others.
fn leaving_early(ranks: usize) {
    let (status, printed) = job(ranks, "early");
    assert_eq!(status, Some(7), "{printed}");
    assert!(printed.contains("on purpose"), "{printed}");
    let line = format!("rank {}: dropped its job without Job::finalize, and waits", ranks - 1);
    assert_eq!(printed.matches(&line).count(), 1, "{printed}");
    assert_eq!(printed.matches("without Job::finalize").count(), 1, "{printed}");
}

/// Windows that every rank drops without `free` cause no failure if the job is finalized.
fn all_finalize(ranks: usize) {
    let (status, printed) = job(ranks, "finalize");
    assert_eq!(status, Some(0), "{printed}");
    assert_eq!(printed.matches("was dropped without free").count(), ranks, "{printed}");
    assert!(!printed.contains("disorder"), "{printed}");
}

/// Where the program has a logger, the library writes nothing itself.
fn a_logger_gets_warnings(ranks: usize) {
    let (status, logged, printed) = job_with(ranks, "logger", "y");
    assert_eq!(status, Some(0), "{printed}");
    let records = logged.lines().filter(|line| line.starts_with("WARN transom::window: rank "));
    assert_eq!(records.filter(|line| line.contains("was dropped without free")).count(), ranks, "{logged}");
    assert!(!printed.contains("was dropped without free"), "{printed}");
}

/// `TRANSOM_WARNINGS=n` holds with and without a logger.
fn warnings_are_off(ranks: usize) {
    for body in ["finalize", "logger"] {
        let (status, logged, printed) = job_with(ranks, body, "n");
        assert_eq!((status, &*logged, &*printed), (Some(0), "", ""));
    }
}

/// A logger that prints records to the standard output.
struct Printing;

impl log::Log for Printing {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("{} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

/// The bodies that this program runs as a rank.
fn rank(body: &str) -> ExitCode {
    if body == "logger" {
        log::set_logger(&Printing).expect("the first logger");
        log::set_max_level(log::LevelFilter::Info);
    }
    match transom::init().map_err(Into::into).and_then(|world| window(world, body)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{body}: {error:#}");
            ExitCode::from(7)
        }
    }
}

fn window(world: Job, body: &str) -> Result<(), Box<dyn Error>> {
    let last = world.rank() == world.size() - 1;
    if body == "early" {
        if last {
            return Err("on purpose".into());
        }
        std::thread::sleep(std::time::Duration::from_secs(26));
        return Ok(world.finalize()?);
    }
    let win = Window::<u64>::allocate(&world, 1)?;
    match body {
        "error" if last => return Err("on purpose".into()),
        "leave" if last => return Ok(()),
        "finalize" | "logger" => drop(win),
        _ => {
            win.fence(|_| Ok(()))?;
            win.free()?;
        }
    }
    Ok(world.finalize()?)
}
