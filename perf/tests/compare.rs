//! `transom-perf compare` as a user runs it, on the MPIs that are here; ignored without one. What the numbers are, it does not judge.
//!
//! Route: program.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let tests: [(&str, bool, fn()); 3] = [
        ("a_quick_run_has_every_row", true, a_quick_run_has_every_row),
        ("a_launcher_that_fails_is_a_word_in_each_cell", true, a_launcher_that_fails_is_a_word_in_each_cell),
        ("wrong_command_lines", false, wrong_command_lines),
    ];
    let here = ["mpicc.mpich", "mpicc.openmpi", "mpicc"].iter().any(|mpicc| {
        Command::new(mpicc).arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    });
    let trials = tests.map(|(name, needs_mpi, test)| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(needs_mpi && !here)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn compare(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
    program.arg("compare").args(args).stdin(Stdio::null()).output().expect("transom-perf starts")
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Shows P3.
fn a_quick_run_has_every_row() {
    let (svg, json) = (file("compare.svg"), file("compare.json"));
    let paths = [svg.to_str().expect("a path"), json.to_str().expect("a path")];
    let output = compare(&["--quick", "--transport", "shm", "--svg", paths[0], "--json", paths[1]]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    let rows = |begin: &str| out.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(rows("put "), 16, "{out}");
    assert_eq!(rows("fetch_and_op "), 8, "{out}");
    assert_eq!(rows("put_bw ") + rows("get_bw "), 4, "{out}");
    let cases = ["create ", "allocate ", "dynamic "].map(rows);
    assert_eq!(cases, [12; 3], "{out}");
    assert!(out.lines().any(|line| line.starts_with("# passive, ") && line.ends_with(" of 36")), "{out}");
    // Each value is a number, or a word that tells why not.
    for line in out.lines().filter(|line| line.starts_with("put ")) {
        let words = ["-", "missing", "dies", "hangs", "fails", "WRONG"];
        let cells: Vec<&str> = line.split_whitespace().skip(4).collect();
        assert!(cells.len() >= 4, "{line}");
        assert!(cells.iter().all(|cell| cell.parse::<f64>().is_ok() || words.contains(cell)), "{line}");
    }
    let svg = std::fs::read_to_string(svg).expect("the plot is there");
    assert!(svg.starts_with("<svg ") && svg.contains("<polyline"), "{svg}");
    let parts: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("the results are there")).expect("they are JSON");
    let lines = |part: usize| parts[part]["columns"][0]["answers"].as_array().map(Vec::len);
    assert_eq!((lines(0), lines(1)), (Some(68), Some(36)));
}

/// A launcher that never starts anything: the table says so, and the exit status too.
fn a_launcher_that_fails_is_a_word_in_each_cell() {
    let mpicc = ["mpicc.mpich", "mpicc.openmpi"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
    let mpi = format!("mine={},false", mpicc.unwrap_or("mpicc"));
    let output = compare(&["--quick", "--transport", "shm", "--mpi", &mpi]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("# mine: 68 x dies: exit status: 1: without a word; first: put allocate flush 8"), "{out}");
    assert!(out.contains("# passive, mine: 0 of 36"), "{out}");
}

fn wrong_command_lines() {
    for args in [&["--mpi", "mine"][..], &["--library", "mine"], &["--transport", "smoke"], &["--loud"]] {
        let output = compare(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    let output = compare(&["--mpi", "mine=/nowhere/mpicc,/nowhere/mpiexec", "--library", "mine=/nowhere/library.so"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("there is no such file"), "{}", texts(&output).1);
}
