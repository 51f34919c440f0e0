//! `transom-perf compare` as a user runs it, on the MPIs of this machine. Tests are ignored without
//! an MPI, and those that need the interposition library also without this library. The tests of
//! MPI programs build it, and ci/test runs these first. No test judges the numbers.
//!
//! Route: program.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};

/// What a test needs.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Mpi,
    Library,
}

impl Needs {
    fn are_here(self) -> bool {
        let compiles = |mpicc: &&str| {
            let mut command = Command::new(mpicc);
            command.arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
        };
        let mpi = || ["mpicc.mpich", "mpicc.openmpi", "mpicc"].iter().any(compiles);
        match self {
            Needs::Nothing => true,
            Needs::Mpi => mpi(),
            Needs::Library => mpi() && !libraries().is_empty(),
        }
    }
}

fn main() -> ExitCode {
    let tests: [(&str, Needs, fn()); 9] = [
        ("a_quick_run_has_every_row", Needs::Library, a_quick_run_has_every_row),
        ("cells_of_all_ranks_have_every_row", Needs::Library, cells_of_all_ranks_have_every_row),
        ("an_mpi_without_its_library_is_measured_alone", Needs::Mpi, an_mpi_without_its_library_is_measured_alone),
        ("a_library_that_is_not_there_is_built", Needs::Mpi, a_library_that_is_not_there_is_built),
        ("an_installed_library_is_found", Needs::Mpi, an_installed_library_is_found),
        ("a_launcher_that_fails_is_no_table_of_nothing", Needs::Mpi, a_launcher_that_fails_is_no_table_of_nothing),
        ("told_to_end_it_leaves_nothing", Needs::Mpi, told_to_end_it_leaves_nothing),
        ("wrong_command_lines", Needs::Nothing, wrong_command_lines),
        ("an_output_on_a_full_disk_is_an_error", Needs::Nothing, an_output_on_a_full_disk_is_an_error),
    ];
    let trials = tests.map(|(name, needs, test)| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!needs.are_here())
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

/// The path of an output, which is not there yet.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // One of an earlier run, if it is a file.
    let _ = std::fs::remove_file(&path);
    path
}

/// The interposition libraries that the tests of MPI programs have built, by the names that their
/// MPIs have here.
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
    let (svg, json, bars) = (file("compare.svg"), file("compare.json"), file("compare-bars.svg"));
    let paths = [svg.to_str().expect("a path"), json.to_str().expect("a path")];
    let libraries = libraries();
    let mut args = vec!["--quick", "--no-build", "--transport", "shm", "--svg", paths[0], "--json", paths[1]];
    args.extend(["--bars", bars.to_str().expect("a path")]);
    args.extend(libraries.iter().flat_map(|library| ["--library", library]));
    let output = compare(&args);
    let (out, err) = texts(&output);
    for library in &libraries {
        let name = library.split('=').next().unwrap_or_default();
        assert!(!out.contains(&format!("# {name}: NO interposition library")), "{out}");
    }
    assert!(!out.lines().any(is_no_number), "a cell with the library is no number\n{out}");
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    let rows = |begin: &str| out.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(rows("put "), 8, "{out}");
    assert_eq!(rows("fetch_and_op "), 2, "{out}");
    assert_eq!(rows("put_bw ") + rows("get_bw "), 4, "{out}");
    let cases = ["create ", "allocate ", "dynamic "].map(rows);
    assert_eq!(cases, [2; 3], "{out}");
    assert!(out.lines().any(|line| line.starts_with("# passive, ") && line.ends_with(" of 6")), "{out}");
    // Each value is a number, or a word with the reason why there is none.
    for line in out.lines().filter(|line| line.starts_with("put ")) {
        let words = ["-", "dies", "hangs", "fails", "skipped", "WRONG"];
        let cells: Vec<&str> = line.split_whitespace().skip(4).collect();
        assert!(!cells.is_empty(), "{line}");
        assert!(
            cells.iter().all(|cell| cell.trim_end_matches('~').parse::<f64>().is_ok() || words.contains(cell)),
            "{line}"
        );
    }
    let svg = std::fs::read_to_string(svg).expect("the plot is there");
    assert!(svg.starts_with("<svg ") && svg.contains("<polyline"), "{svg}");
    let bars = std::fs::read_to_string(bars).expect("the plot of ratios is there");
    assert!(bars.starts_with("<svg ") && bars.trim_end().ends_with("</svg>"), "{bars}");
    let parts: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("the results are there")).expect("they are JSON");
    let lines = |part: usize| parts[part]["columns"][0]["answers"].as_array().map(Vec::len);
    assert_eq!((lines(0), lines(1)), (Some(32), Some(6)));
}

/// The reason of a cell without a number, on a busy machine.
const TIME_IS_OVER: &str = "x skipped: the time of --quick was over";

/// Whether a line below a table says that cells with the library have no number.
fn is_no_number(line: &str) -> bool {
    line.contains("+transom: ") && line.contains(" x ") && !line.contains(TIME_IS_OVER)
}

/// Three ranks at once, over both transports. With the library no data is wrong and each cell is a
/// number.
/// Shows P3.
fn cells_of_all_ranks_have_every_row() {
    let bars = file("compare-all-bars.svg");
    let libraries = libraries();
    let mut args = vec!["-n", "3", "--quick", "--no-build", "--bars", bars.to_str().expect("a path")];
    args.extend(libraries.iter().flat_map(|library| ["--library", library]));
    let output = compare(&args);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert!(out.contains("# Plain MPI, 3 ranks of one machine"), "{out}");
    let names = ["put_mr", "cas_hot", "lock_spread", "gups", "fence_all", "pscw_ring", "window_create", "alltoall"];
    // Those that are on two kinds of windows.
    let twice = ["put_mbw", "overlap"];
    for (name, expected) in names.map(|name| (name, 2)).into_iter().chain(twice.map(|name| (name, 4))) {
        let rows = out.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
        // On a busy machine the time is over before the last table.
        assert!(rows == expected || rows < expected && out.contains(TIME_IS_OVER), "{name}: {rows} rows\n{out}");
    }
    assert!(!out.lines().any(is_no_number), "{out}");
    let bars = std::fs::read_to_string(bars).expect("the plot of ratios is there");
    assert!(bars.contains("lock_spread") || out.contains(TIME_IS_OVER), "{bars}");
}

fn mpicc() -> &'static str {
    let found = ["mpicc.mpich", "mpicc.openmpi"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
    found.unwrap_or("mpicc")
}

/// After a signal neither the benchmark's folder nor the launcher's process is left.
fn told_to_end_it_leaves_nothing() {
    let folder = folder("compare-ends");
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let (launcher, number) = (folder.join("mpiexec"), folder.join("number"));
    let script = format!("#!/bin/sh\necho $$ >{0}.new; mv {0}.new {0}; exec sleep 1000\n", number.display());
    std::fs::write(&launcher, script).expect("a script");
    std::fs::set_permissions(&launcher, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let mpi = format!("mine={},{}", mpicc(), launcher.display());
    let mut program = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
    program.args(["compare", "--quick", "--no-build", "--mpi", &mpi]).env("TMPDIR", &temporary).stdin(Stdio::null());
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
    // A process that has ended may not have been waited for yet.
    let stat = format!("/proc/{pid}/stat");
    until("the launcher ends", &|| std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
}

/// A launcher that starts no process: lines report this instead of the tables, and the exit status
/// is 1.
fn a_launcher_that_fails_is_no_table_of_nothing() {
    let mpi = format!("mine={},false", mpicc());
    let output = compare(&["--quick", "--no-build", "--transport", "shm", "--mpi", &mpi]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("# mine: 32 x dies: exit status: 1: no output; first: put allocate flush 8"), "{out}");
    assert!(out.contains("# mine: 6 x dies: "), "{out}");
    assert_eq!(out.matches("# Nothing was measured").count(), 2, "{out}");
    assert!(out.lines().all(|line| line.is_empty() || line.starts_with('#')), "{out}");
}

/// A stand-in for launcher and benchmark: it answers a microsecond for every turn.
fn launcher(folder: &Path) -> PathBuf {
    let path = folder.join("mpiexec");
    let script = r#"#!/bin/sh
case $* in *LD_PRELOAD*) folder=$6;; *) folder=$4;; esac
exec 3<"$folder/gate-0" 4>"$folder/answers"
while read -r command n function rest <&3; do
    case $command in
        line) at=$n; if [ "$function" = grid ]; then echo "case $n 1 1 1 1"; else echo "ready $n 2"; fi;;
        turn) echo "turn $at 1";;
        check) echo "checked $at right";;
        end) exit;;
    esac >&4
done
"#;
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    path
}

/// An empty folder of a test.
fn folder(name: &str) -> PathBuf {
    let folder = file(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A copy of the program: below a folder, as installed ones are.
fn installed(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    let program = folder.join("bin/transom-perf");
    std::fs::copy(env!("CARGO_BIN_EXE_transom-perf"), &program).expect("a copy");
    program
}

/// The command is named once, and the tables have no column for it.
fn an_mpi_without_its_library_is_measured_alone() {
    let folder = folder("compare-alone");
    let mpi = format!("alone={},{}", mpicc(), launcher(&folder).display());
    let output = compare(&["--quick", "--no-build", "--transport", "shm,tcp", "--mpi", &mpi]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let command = format!("MPICC={} cargo build --release --manifest-path ", mpicc());
    assert_eq!(out.matches(&command).count(), 1, "{out}");
    assert_eq!(out.matches("capi/mpi/Cargo.toml --target-dir ").count(), 1, "{out}");
    // The head of the table explains the word, and says that there is no library.
    assert_eq!(out.matches("+transom").count(), 2, "{out}");
    assert_eq!(out.matches("passive, alone: 6 of 6").count(), 2, "{out}");
    let rows: Vec<_> = out.lines().filter(|line| line.starts_with("put ")).collect();
    assert_eq!(rows.len(), 16, "{out}");
    assert!(rows.iter().all(|row| row.split_whitespace().count() == 5), "{out}");
}

/// By a cargo that prints its arguments. A library that was built has columns; for one that can't
/// be built the log is printed, and the exit status is 1.
fn a_library_that_is_not_there_is_built() {
    let folder = folder("compare-builds");
    let program = installed(&folder);
    std::fs::create_dir_all(folder.join("capi/mpi")).expect("a folder");
    std::fs::write(folder.join("capi/mpi/Cargo.toml"), "").expect("a file");
    let mpi = format!("built={},{}", mpicc(), launcher(&folder).display());
    let target = folder.join("target/mpi/built");
    let run = |cargo: &str| {
        let tool = folder.join("cargo");
        std::fs::write(&tool, format!("#!/bin/sh\n{cargo}\n")).expect("a script");
        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(&program);
        command.args(["compare", "--quick", "--transport", "shm", "--mpi", &mpi]).env("PATH", path);
        command.stdin(Stdio::null()).output().expect("it starts")
    };
    let output = run("[ $1 = --version ] || { echo no such crate >&2; exit 101; }");
    let (out, err) = texts(&output);
    let log = target.join("build.log");
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.contains(&format!("cargo failed: exit status: 101; see {}", log.display())), "{err}");
    assert_eq!(std::fs::read_to_string(&log).expect("the log"), "no such crate\n");
    assert!(out.contains("# built: NO interposition library"), "{out}");
    let output = run("[ $1 = --version ] && exit
        while [ $1 != --target-dir ]; do shift; done
        mkdir -p $2/release; echo $MPICC >$2/release/libtransom_mpi.so");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains(": building the interposition library for built: MPICC="), "{err}");
    let library = target.join("release/libtransom_mpi.so");
    assert_eq!(std::fs::read_to_string(&library).expect("the library").trim(), mpicc());
    assert!(
        out.contains(&format!(", {}", library.display())) && out.contains("passive, built+transom: 6 of 6"),
        "{out}"
    );
    // It is there now.
    assert_eq!(texts(&run("exit 1")).1, "");
}

fn an_installed_library_is_found() {
    let folder = folder("compare-installed");
    let (program, mpi) = (installed(&folder), format!("mine={},{}", mpicc(), launcher(&folder).display()));
    let library = folder.join("lib/transom/mine/libtransom_mpi.so");
    std::fs::create_dir_all(library.parent().expect("a folder")).expect("a folder");
    std::fs::write(&library, "").expect("a file");
    let mut command = Command::new(program);
    command.args(["compare", "--quick", "--transport", "shm", "--mpi", &mpi]).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let (out, err) = texts(&output);
    assert!(output.status.success() && err.is_empty(), "{out}{err}");
    assert!(out.contains(&format!(", {}", library.display())), "{out}");
    assert!(out.contains("passive, mine+transom: 6 of 6"), "{out}");
}

/// The outputs are the help, the head of `compare`, and the tables of ranks with and without a
/// launcher.
fn an_output_on_a_full_disk_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("the device");
    let head = ["compare", "--no-build", "--mpi", "mine=true,false"];
    for args in [&["--help"][..], &["--version"], &["compare", "--help"], &head, &["floor"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
        let command = command.args(args).stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        let printed = texts(&output).1;
        assert_eq!(output.status.code(), Some(1), "{args:?}: {printed}");
        assert!(printed.contains(": writing to the standard output: No space left on device"), "{args:?}: {printed}");
    }
}

fn wrong_command_lines() {
    for args in [
        &["--mpi", "mine"][..],
        &["--library", "mine"],
        &["--transport", "smoke"],
        &["--loud"],
        &["-n", "1"],
        &["-n", "2", "--svg", "x"],
    ] {
        let output = compare(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    let output = compare(&["--mpi", "mine=/nowhere/mpicc,/nowhere/mpiexec", "--library", "mine=/nowhere/library.so"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("there is no such file"), "{}", texts(&output).1);
}
