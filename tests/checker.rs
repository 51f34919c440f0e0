//! The conflict checker (`TRANSOM_CHECK`): programs with a race, which it reports with both places,
//! and the same programs without the race, for which it reports nothing. Jobs of this program
//! itself (`--rank BODY`) under the real launcher, which kills a job that hangs. On every route the
//! ranks share memory.
//!
//! Shows E5.
//! Route: shm.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::Arguments;
use transom::ops::{Max, NoOp, Sum};
use transom::{Datatype, Job, Lock, Notice, Request, Result, Window};
use transom_harness::trial;

#[path = "checker/cases.rs"]
mod cases;
#[path = "checker/misuse.rs"]
mod misuse;
#[path = "checker/waits.rs"]
mod waits;

use cases::CASES;
use misuse::{MISUSES, UNNOTIFIED};
use waits::{CIRCLES, SLOW, STUCK};

/// Seconds; longer than any of these jobs takes on a busy machine.
const WATCHDOG: &str = "60";
/// Time limit, in seconds, of a job in which a deadlock is reported after one second.
const STUCK_FOR: &str = "12";

/// A test beside the cases.
type Named = (&'static str, fn());

/// A program, and the reports that the checker must make.
struct Case {
    name: &'static str,
    ranks: usize,
    body: fn(&Job) -> Result<()>,
    /// Texts that the reports must have, among them the kinds and bytes of both accesses; empty for
    /// a program without a report.
    reported: &'static [&'static str],
    /// The number of reports.
    reports: usize,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--rank") {
        return rank(&args.next().unwrap_or_default());
    }
    let cases = CASES.iter().map(|case| trial(case.name, move || races_are_reported(case)));
    let stuck = STUCK
        .iter()
        .map(|case| trial(case.name, move || deadlock_is_reported(case, "each rank has waited in its present call")));
    let circles = CIRCLES
        .iter()
        .map(|case| trial(case.name, move || deadlock_is_reported(case, "these ranks have waited for each other")));
    let misuses = MISUSES.iter().map(|case| trial(case.name, move || false_assertion_is_reported(case)));
    let tests: [Named; 8] = [
        ("nothing_is_reported_without_the_variable", without_the_variable),
        ("ranks_on_two_nodes_are_told_that_it_is_off", two_nodes),
        ("accesses_that_were_forgotten_are_counted", forgotten),
        ("a_conflict_ends_the_job_with_an_error_on_request", error_on_request),
        ("reports_are_appended_to_a_file_as_json", appended),
        ("places_can_be_suppressed", suppressed),
        ("a_rank_that_computes_for_long_is_in_no_deadlock", slow),
        (UNNOTIFIED.name, unnotified),
    ];
    let tests = tests.into_iter().map(|(name, test)| trial(name, test));
    libtest_mimic::run(&Arguments::from_args(), cases.chain(stuck).chain(circles).chain(misuses).chain(tests).collect())
        .exit_code()
}

fn without_the_variable() {
    assert_eq!(job(&CASES[0], &[]), (Some(0), String::new()));
}

fn two_nodes() {
    let (status, printed) = job(&CASES[0], &[("TRANSOM_CHECK", "1"), ("TRANSOM_TEST_NODES", "2")]);
    assert!(printed.contains("TRANSOM_CHECK has no effect"), "{printed}");
    assert!(!printed.contains("conflicting"), "{printed}");
    assert_eq!(status, Some(0), "{printed}");
}

fn forgotten() {
    let many = CASES.iter().find(|case| case.name == "puts_of_many_places").expect("a case");
    let (status, printed) = job(many, &[("TRANSOM_CHECK", "1"), ("TRANSOM_CHECK_RECORDS", "64")]);
    assert!(printed.contains("rank 0: the checker forgot 424 accesses to window"), "{printed}");
    assert_eq!(status, Some(0), "{printed}");
}

fn error_on_request() {
    let (status, printed) = job(&CASES[0], &[("TRANSOM_CHECK", "fail")]);
    assert!(printed.contains("transom: conflicting accesses to window"), "{printed}");
    assert!(printed.contains("the conflict checker has made reports; pairs of places in the program: 1"), "{printed}");
    assert_eq!(status, Some(1), "{printed}");
}

fn appended() {
    let path = file("report");
    drop(fs::remove_file(&path));
    for _ in 0..2 {
        job(&CASES[0], &[("TRANSOM_CHECK", "1"), ("TRANSOM_CHECK_REPORT", &path)]);
    }
    let lines = fs::read_to_string(&path).expect("a report");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        assert!(line.starts_with(r#"{"window":"1","target":0,"first":{"rank":"#), "{line}");
        assert!(line.contains(r#""call":"put","start":8,"end":16,"place":"checker::cases::"#), "{line}");
    }
    fs::remove_file(path).expect("the report");
}

fn suppressed() {
    let path = file("suppressions");
    fs::write(&path, "# known\n\ncases::puts_between_fences\n").expect("a file");
    let checked = |case| job(case, &[("TRANSOM_CHECK", "fail"), ("TRANSOM_CHECK_SUPPRESS", &path)]);
    assert_eq!(checked(&CASES[0]), (Some(0), String::new()));
    let other = CASES.iter().find(|case| case.name == "a_get_beside_a_put").expect("a case");
    assert_eq!(checked(other).0, Some(1));
    fs::remove_file(&path).expect("the file");
    let (status, printed) = checked(&CASES[0]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains(&format!("TRANSOM_CHECK_SUPPRESS={path}: the file can't be read")), "{printed}");
}

/// A file of this process.
fn file(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("transom-checker-{name}-{}", std::process::id()));
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The exit status of a job of a case, and what it prints.
fn job(case: &Case, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    limited_job(case, environment, WATCHDOG)
}

/// [`job`] that ends after some seconds.
fn limited_job(case: &Case, environment: &[(&str, &str)], seconds: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_transom-test-run"))
        .args(["-n", &case.ranks.to_string(), "--bind", "none", "--timeout", seconds])
        .arg(std::env::current_exe().expect("this program has a path"))
        .args(["--rank", case.name])
        .env_remove("TRANSOM_TRANSPORTS")
        .env_remove("TRANSOM_TEST_NODES")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the launcher starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn races_are_reported(case: &Case) {
    let (status, printed) = job(case, &[("TRANSOM_CHECK", "1")]);
    assert_eq!(status, Some(0), "{printed}");
    let reports = printed.matches("transom: conflicting accesses").count();
    assert_eq!(reports, case.reports, "{printed}");
    for text in case.reported {
        assert!(printed.contains(text), "{text:?} is not in\n{printed}");
    }
    if reports > 0 {
        assert!(printed.contains("tests/checker/cases.rs:"), "no place in\n{printed}");
        assert!(
            printed.contains(&format!(
                "transom: the conflict checker has made reports; pairs of places in the program: {reports}"
            )),
            "{printed}"
        );
    } else {
        assert_eq!(printed, "");
    }
}

fn deadlock_is_reported(case: &Case, what: &str) {
    let (status, printed) = limited_job(case, &[("TRANSOM_CHECK", "1"), ("TRANSOM_CHECK_WAIT", "1")], STUCK_FOR);
    assert_eq!(status, Some(124), "{printed}");
    let heads: Vec<_> = printed.lines().filter(|line| line.contains("as in a deadlock")).collect();
    assert_eq!(heads, [format!("transom: {what} for 1 s, as in a deadlock:")], "{printed}");
    for text in case.reported {
        assert!(printed.contains(text), "{text:?} is not in\n{printed}");
    }
    assert!(printed.contains("tests/checker/waits.rs:"), "no place in\n{printed}");
}

fn false_assertion_is_reported(case: &Case) {
    let (status, printed) = job(case, &[("TRANSOM_CHECK", "1")]);
    assert_eq!(status, Some(0), "{printed}");
    assert_eq!(printed.matches("transom: false assertion").count(), case.reports, "{printed}");
    assert!(!printed.contains("transom: conflicting accesses"), "{printed}");
    for text in case.reported {
        assert!(printed.contains(text), "{text:?} is not in\n{printed}");
    }
    assert_eq!(printed.matches("tests/checker/misuse.rs:").count(), 2 * case.reports, "{printed}");
}

fn unnotified() {
    let (status, printed) = limited_job(&UNNOTIFIED, &[("TRANSOM_CHECK", "1")], STUCK_FOR);
    assert_eq!(status, Some(124), "{printed}");
    for text in UNNOTIFIED.reported {
        assert!(printed.contains(text), "{text:?} is not in\n{printed}");
    }
}

fn slow() {
    let checked = [("TRANSOM_CHECK", "1"), ("TRANSOM_CHECK_WAIT", "1")];
    assert_eq!(job(&SLOW, &checked), (Some(0), String::new()));
}

fn rank(name: &str) -> ExitCode {
    let Some(case) = CASES
        .iter()
        .chain(STUCK)
        .chain(CIRCLES)
        .chain(MISUSES)
        .chain([&SLOW, &UNNOTIFIED])
        .find(|case| case.name == name)
    else {
        eprintln!("no body is called {name:?}");
        return ExitCode::FAILURE;
    };
    match transom::init().and_then(|world| (case.body)(&world).and_then(|()| world.finalize())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
