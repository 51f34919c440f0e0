//! The programs of `examples/` as a user runs them: each compares its result with a serial one and
//! reports it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use transom_harness::{example, printed};

fn job(ranks: usize, name: &str, args: &[&str]) -> Output {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-test-run"));
    launcher.args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", "100"]);
    launcher.arg(example(name)).args(args).stdin(Stdio::null()).output().expect("the launcher starts")
}

/// Runs an example as a job, which must exit with success and print `Verification: passed`.
fn verified(ranks: usize, name: &str, args: &[&str]) {
    let output = job(ranks, name, args);
    let printed = printed(&output);
    assert!(output.status.success(), "{name} with {ranks} ranks: {}\n{printed}", output.status);
    assert!(printed.contains("Verification: passed"), "{name} with {ranks} ranks says:\n{printed}");
}

/// Shows A1.
#[test]
fn gups_verifies_at_any_number_of_ranks() {
    for ranks in [1, 2, 3, 4] {
        verified(ranks, "gups", &["10"]);
    }
    // More ranks than words.
    verified(5, "gups", &["2"]);
}

/// Shows A1.
#[test]
fn stencil_equals_the_serial_run_bit_by_bit() {
    for exchange in ["fence", "pscw", "notify", "atomic"] {
        for ranks in [1, 2, 3, 4] {
            verified(ranks, "stencil", &["24", "20", exchange]);
        }
        // More ranks than rows.
        verified(7, "stencil", &["5", "9", exchange]);
    }
    verified(2, "stencil", &["24", "20"]);
}

/// Each slot is used many times.
#[test]
fn the_queue_gives_each_item_once_and_in_order() {
    for (ranks, items) in [(1, "5"), (2, "3000"), (4, "1000"), (5, "1")] {
        verified(ranks, "queue", &[items]);
    }
}

/// The checker reports both lines of the race, and nothing of the other programs.
/// Shows E5.
/// Route: shm.
#[test]
fn the_checker_finds_the_race() {
    let checked = |ranks: usize, name: &str, args: &[&str]| {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-test-run"));
        launcher.args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", "100"]);
        launcher.arg(example(name)).args(args).env("TRANSOM_CHECK", "fail").stdin(Stdio::null());
        launcher.env_remove("TRANSOM_TRANSPORTS").env_remove("TRANSOM_TEST_NODES");
        let output = launcher.output().expect("the launcher starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, printed) = checked(2, "race", &[]);
    assert!(!passed, "{printed}");
    for part in
        ["put of bytes 0..8, race::by_get_and_put", "get of bytes 0..8, race::by_get_and_put", "examples/race.rs:"]
    {
        assert!(printed.contains(part), "{part:?} is not in\n{printed}");
    }
    let right = [
        ("race", &["right"][..]),
        ("gups", &["8"]),
        ("stencil", &["24", "20", "fence"]),
        ("stencil", &["24", "20", "pscw"]),
        ("stencil", &["24", "20", "notify"]),
        ("stencil", &["24", "20", "atomic"]),
        ("queue", &["200"]),
    ];
    for (name, args) in right {
        assert_eq!(checked(3, name, args), (true, String::new()), "{name} {args:?}");
    }
}

/// The programs that wait for notices or for a change of a word, where no memory is shared.
/// Route: tcp.
#[test]
fn signals_come_over_sockets() {
    let programs =
        [("stencil", &["24", "20", "notify"][..]), ("stencil", &["24", "20", "atomic"]), ("queue", &["300"])];
    for (name, args) in programs {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-test-run"));
        launcher.args(["-n", "3", "--bind", "none", "--timeout", "100"]).arg(example(name)).args(args);
        let output = launcher.env("TRANSOM_TRANSPORTS", "^shm").stdin(Stdio::null()).output().expect("it starts");
        let printed = printed(&output);
        assert!(output.status.success() && printed.contains("Verification: passed"), "{name}: {printed}");
    }
}

/// Regression: `gups` over sockets was silent for minutes. The job takes hours, and is ended by a
/// signal to the launcher at its first line of progress.
/// Route: tcp.
#[test]
fn long_work_prints_its_progress() {
    for (name, args, words) in [("gups", &["24"][..], "% of "), ("stencil", &["16", "100000000"], " of 100000000")] {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-test-run"));
        launcher.args(["-n", "2", "--bind", "none", "--timeout", "100"]).arg(example(name)).args(args);
        launcher.env("TRANSOM_TRANSPORTS", "^shm").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut job = launcher.spawn().expect("it starts");
        let (mut printed, mut seen) = (String::new(), false);
        for line in BufReader::new(job.stderr.take().expect("a pipe")).lines() {
            let line = line.expect("a line");
            if line.contains(words) && !seen {
                seen = true;
                let pid = Pid::from_raw(job.id().cast_signed()).expect("a pid");
                kill_process(pid, Signal::TERM).expect("the launcher runs");
            }
            printed = printed + &line + "\n";
        }
        let status = job.wait().expect("it ends");
        assert!(seen && !status.success(), "{name}: {status}\n{printed}");
    }
}

#[test]
fn a_bad_size_is_an_error() {
    for (name, arg) in [
        ("gups", &b"99"[..]),
        ("stencil", b"1"),
        ("gups", b"x"),
        ("gups", b"\xff"),
        ("stencil", b"\xff"),
        ("queue", b"0"),
    ] {
        let arg = OsStr::from_bytes(arg);
        let output = Command::new(example(name)).arg(arg).stdin(Stdio::null()).output().expect("the example starts");
        assert!(!output.status.success(), "{name} {}", arg.display());
        let printed = String::from_utf8_lossy(&output.stderr);
        // The program's own error message, and no panic.
        assert!(printed.starts_with(&format!("{name}: ")), "{name} {}: {printed}", arg.display());
    }
}
