//! The programs of `examples/` as a user runs them: each verifies itself against a serial result and says so.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Where cargo put the examples (`cargo build --examples`, or any build of all targets): beside this test's folder.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

fn job(ranks: usize, name: &str, args: &[&str]) -> Output {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-run"));
    launcher.args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", "100"]);
    launcher.arg(example(name)).args(args).stdin(Stdio::null()).output().expect("the launcher starts")
}

/// Runs an example as a job; it must end well and say `Verification: passed`.
fn verified(ranks: usize, name: &str, args: &[&str]) {
    let output = job(ranks, name, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} with {ranks} ranks: {}\n{out}{err}", output.status);
    assert!(out.contains("Verification: passed"), "{name} with {ranks} ranks says:\n{out}{err}");
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
    for ranks in [1, 2, 3, 4] {
        verified(ranks, "stencil", &["24", "20"]);
    }
    // More ranks than rows.
    verified(7, "stencil", &["5", "9"]);
}

#[test]
fn a_bad_size_is_an_error_and_not_a_run() {
    for (name, arg) in [("gups", "99"), ("stencil", "1"), ("gups", "x")] {
        let output = Command::new(example(name)).arg(arg).stdin(Stdio::null()).output().expect("the example starts");
        assert!(!output.status.success(), "{name} {arg}");
        assert!(!output.stderr.is_empty(), "{name} {arg} says nothing");
    }
}
