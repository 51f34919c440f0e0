//! `transom-perf compare` as a user runs it, on the MPIs that are here; ignored without one. What the numbers are, it does not judge.
//!
//! Route: program.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};

fn main() -> ExitCode {
    let tests: [(&str, bool, fn()); 4] = [
        ("a_quick_run_has_every_row", true, a_quick_run_has_every_row),
        ("a_launcher_that_fails_is_a_word_in_each_cell", true, a_launcher_that_fails_is_a_word_in_each_cell),
        ("told_to_end_it_leaves_nothing", true, told_to_end_it_leaves_nothing),
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

/// The interposition libraries that the tests of MPI programs have left, by the names of their MPIs here.
fn libraries() -> Vec<String> {
    let built =
        Path::new(env!("CARGO_BIN_EXE_transom-perf")).ancestors().nth(2).expect("the build's folder").join("ci/mpi");
    let known = [("mpich", "mpich"), ("openmpi", "open_mpi")];
    let there = known.map(|(name, folder)| (name, built.join(folder).join("libtransom_mpi.so")));
    there
        .into_iter()
        .filter(|(_, path)| path.exists())
        .map(|(name, path)| format!("{name}={}", path.display()))
        .collect()
}

/// Shows P3.
fn a_quick_run_has_every_row() {
    let (svg, json) = (file("compare.svg"), file("compare.json"));
    let paths = [svg.to_str().expect("a path"), json.to_str().expect("a path")];
    let libraries = libraries();
    let mut args = vec!["--quick", "--transport", "shm", "--svg", paths[0], "--json", paths[1]];
    args.extend(libraries.iter().flat_map(|library| ["--library", library]));
    let output = compare(&args);
    let (out, err) = texts(&output);
    for library in &libraries {
        let name = library.split('=').next().unwrap_or_default();
        assert!(!out.contains(&format!("# {name}: NO interposition library")), "{out}");
        assert!(!out.contains(&format!("# {name}+transom: ")), "a cell with the library is no number\n{out}");
    }
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

fn mpicc() -> &'static str {
    let found = ["mpicc.mpich", "mpicc.openmpi"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
    found.unwrap_or("mpicc")
}

/// Neither the benchmark's folder nor the launcher's process.
fn told_to_end_it_leaves_nothing() {
    let folder = file("compare-ends");
    let _ = std::fs::remove_dir_all(&folder);
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let (launcher, number) = (folder.join("mpiexec"), folder.join("number"));
    let script = format!("#!/bin/sh\necho $$ >{0}.new; mv {0}.new {0}; exec sleep 1000\n", number.display());
    std::fs::write(&launcher, script).expect("a script");
    std::fs::set_permissions(&launcher, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let mpi = format!("mine={},{}", mpicc(), launcher.display());
    let mut program = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
    program.args(["compare", "--quick", "--mpi", &mpi]).env("TMPDIR", &temporary).stdin(Stdio::null());
    let mut child = program.stdout(Stdio::null()).spawn().expect("transom-perf starts");
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until("the launcher starts", &|| number.exists());
    let pid: i32 = std::fs::read_to_string(&number).expect("a number").trim().parse().expect("of a process");
    let own = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(own, Signal::TERM).expect("a signal");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(15), "{status}");
    assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
    // A process that has ended may be waited for by nobody.
    let stat = format!("/proc/{pid}/stat");
    until("the launcher ends", &|| std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
}

/// A launcher that never starts anything: the table says so, and the exit status too.
fn a_launcher_that_fails_is_a_word_in_each_cell() {
    let mpi = format!("mine={},false", mpicc());
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
