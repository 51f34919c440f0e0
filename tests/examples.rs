//! The programs in `examples/` as users start them: under `transom-run` with 1 to 4 ranks, and alone. Their own
//! verification must pass, and what they print must equal what this file computes serially by other means: a wrong
//! stream or plate that verifies against itself is noticed. Routes are those that the environment chooses.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a job may take: far longer than any of these needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn gups_updates_what_a_serial_run_updates() {
    let log2 = 8;
    let changed = words_changed(log2);
    for ranks in 1..=4 {
        let output = launched(ranks, "gups", &[&log2.to_string()]);
        let expected = format!("{changed} words changed, 0 errors after repeating all updates");
        let first = format!("{ranks} ranks, table of 2^{log2} words, {} updates in ", 4 << log2);
        assert_prints(&output, &[&first, &expected, "Verification: passed"]);
    }
}

/// With 4 ranks one of which holds no word, and with more ranks than words.
#[test]
fn gups_with_ranks_that_hold_nothing() {
    for log2 in [1, 3] {
        let output = launched(4, "gups", &[&log2.to_string()]);
        let expected = format!("{} words changed, 0 errors", words_changed(log2));
        assert_prints(&output, &[&format!("4 ranks, table of 2^{log2} words, {} updates", 4 << log2), &expected]);
    }
}

#[test]
fn stencil_computes_what_a_serial_run_computes() {
    // Sizes that no number of ranks but 1 divides, and steps enough for every row to differ.
    let (n, steps) = (37, 45);
    let checksum = format!("checksum {:.12e}", heat(n, steps));
    for ranks in 1..=4 {
        let output = launched(ranks, "stencil", &[&n.to_string(), &steps.to_string()]);
        let first = format!("{ranks} ranks, {n} x {n} cells, {steps} steps in ");
        assert_prints(&output, &[&first, &checksum, "Verification: passed"]);
    }
}

/// Some ranks have no row.
#[test]
fn stencil_with_fewer_rows_than_ranks() {
    let checksum = format!("checksum {:.12e}", heat(3, 4));
    let output = launched(4, "stencil", &["3", "4"]);
    assert_prints(&output, &["4 ranks, 3 x 3 cells", &checksum, "Verification: passed"]);
}

#[test]
fn started_alone_they_are_jobs_of_one() {
    let output = finish(Command::new(example("gups")).arg("6"));
    assert_prints(&output, &["1 ranks, table of 2^6 words", "Verification: passed"]);
    let output = finish(Command::new(example("stencil")).args(["9", "5"]));
    let checksum = format!("checksum {:.12e}", heat(9, 5));
    assert_prints(&output, &["1 ranks, 9 x 9 cells", &checksum, "Verification: passed"]);
}

#[test]
fn wrong_sizes_are_refused_in_words() {
    for (name, arg, says) in [("gups", "41", "LOG2_TABLE is 41"), ("stencil", "2", "N is 2"), ("gups", "x", "gups: ")] {
        let output = finish(Command::new(example(name)).arg(arg));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name} {arg}: {said}");
        assert!(said.contains(says), "{name} {arg}: {said}");
    }
}

/// The words of a table of 2^`log2` that differ from their index after all updates of HPCC RandomAccess, stepped one by
/// one from the stream's first number: no part of it is jumped to.
fn words_changed(log2: u32) -> usize {
    let words = 1usize << log2;
    let mut table: Vec<u64> = (0..words as u64).collect();
    let mut ran = 1u64;
    for _ in 0..4 * words {
        ran = (ran << 1) ^ if ran >> 63 == 1 { 7 } else { 0 };
        let at = usize::try_from(ran % words as u64).expect("less than the words");
        table[at] ^= ran;
    }
    table.iter().zip(0u64..).filter(|(word, index)| **word != *index).count()
}

/// The sum of an `n` x `n` plate after `steps` of Jacobi's five-point stencil, upper edge at 100, other edges at 0. Cells
/// are added in the order above, below, left, right, which the example's bitwise comparison fixes too.
fn heat(n: usize, steps: usize) -> f64 {
    let mut plate = vec![vec![0.0f64; n]; n];
    plate[0].fill(100.0);
    for _ in 0..steps {
        let before = plate.clone();
        for y in 1..n - 1 {
            for x in 1..n - 1 {
                plate[y][x] = 0.25 * (before[y - 1][x] + before[y + 1][x] + before[y][x - 1] + before[y][x + 1]);
            }
        }
    }
    plate.iter().flatten().sum()
}

/// Runs an example under the launcher, which ends the job when the time is over.
fn launched(ranks: usize, name: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-run"));
    command.args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", &LIMIT.as_secs().to_string()]);
    finish(command.arg(example(name)).args(args))
}

/// An example's program: cargo builds it with the tests, in the folder beside theirs.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let profile = test.parent().and_then(std::path::Path::parent).expect("target/PROFILE/deps/PROGRAM");
    let path = profile.join("examples").join(name);
    assert!(path.is_file(), "{} is not built: cargo build --example {name}", path.display());
    path
}

/// Waits for a program, a little longer than its own limit; its output is far below what a pipe holds.
fn finish(command: &mut Command) -> Output {
    let begin = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    while child.try_wait().expect("the status of a child").is_none() {
        if begin.elapsed() > LIMIT + Duration::from_secs(15) {
            child.kill().expect("an end of a child");
            let output = child.wait_with_output().expect("the output of a child");
            panic!("{command:?} did not end in time: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("the output of a child")
}

/// Asserts success, and lines that begin as expected, in this order.
fn assert_prints(output: &Output, expected: &[&str]) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let mut lines = out.lines();
    for &beginning in expected {
        assert!(lines.any(|line| line.starts_with(beginning)), "no line begins with {beginning:?} in:\n{out}{err}");
    }
}
