//! The conflict checker (`TRANSOM_CHECK`) on the programs of `programs/races*.c`, of which each is
//! racy (in `races_misuse.c`: has a false assertion) or right, under the system's MPIs: with
//! ThreadSanitizer, and without. With it the checker reports every racy program; without it, those
//! whose accesses are both one-sided operations. It reports no right program. The default form runs
//! a part of the racy programs, and all right ones of a file in one run for each kind of window.
//! `TRANSOM_TEST_RACES=full` runs each program alone.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[path = "programs/hosts.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod hosts;
#[path = "programs/running.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod running;

use hosts::Host;
use running::{Run, printed};

/// The default form runs one racy program in this many. The number is no divisor of the numbers of
/// operations and of kinds of synchronization, so that the parts of the four tests have all of
/// them.
const PART: usize = 53;

/// A file of programs.
struct Suite {
    name: &'static str,
    ranks: usize,
    options: &'static [&'static str],
    /// How many programs it has at least, and of how many racy ones the default form runs one.
    least: usize,
    part: usize,
    /// Whether its programs have a conflict that only the sanitizer finds.
    only_sanitized: bool,
    /// The kinds of its window, by the variable `RACES_WINDOW`.
    windows: &'static [&'static str],
    /// Whether one run may have all right programs.
    joins: bool,
}

const SUITES: [Suite; 15] = [
    Suite {
        name: "races",
        ranks: 2,
        options: &["-pthread"],
        least: 600,
        part: PART,
        only_sanitized: false,
        windows: &["allocate", "create", "dynamic", "allocate_shared"],
        joins: true,
    },
    Suite::of_three("races_kinds", 80, 7),
    Suite::of_three("races_orders", 118, 13),
    Suite::of_three("races_patterns", 80, 13),
    Suite::of_three("races_forms", 120, 13),
    Suite::of_three("races_epochs", 26, 3),
    Suite::of_three("races_misuse", 34, 3),
    Suite::of_three("races_requests", 60, 5),
    Suite::of_three("races_messages", 30, 3),
    Suite::of_three("races_lengths", 28, 5),
    Suite::of_three("races_notices", 22, 3),
    Suite { windows: &["allocate", "create"], ..Suite::of_three("races_atomics", 64, 3) },
    Suite { windows: &["allocate", "create"], ..Suite::of_three("races_own", 56, 7) },
    Suite { windows: &["allocate", "create"], ..Suite::of_three("races_sync", 46, 7) },
    Suite {
        options: &["-fopenmp"],
        ranks: 2,
        only_sanitized: true,
        joins: false,
        ..Suite::of_three(WITH_OPENMP, 50, 7)
    },
];

impl Suite {
    const fn of_three(name: &'static str, least: usize, part: usize) -> Suite {
        let options = &["-pthread"];
        Suite { name, ranks: 3, options, least, part, only_sanitized: false, windows: &["allocate"], joins: true }
    }
}

/// The suite for which the library needs a feature (`Host::library`).
const WITH_OPENMP: &str = "races_openmp";

/// Time limit of a program in seconds, and of all right programs of a file.
const LIMIT: u32 = 60;
const LIMIT_OF_ALL: u32 = 300;

/// A program.
struct Case {
    arguments: Vec<String>,
    is_racy: bool,
    /// Whether both accesses are one-sided operations.
    of_operations: bool,
}

/// How many programs the checker judged rightly and wrongly. Racy programs that it need not find
/// without the sanitizer do not run.
#[derive(Default)]
struct Judged {
    found: usize,
    wrongly_reported: usize,
    silent: usize,
    missed: usize,
}

/// A test, and its name.
type Named = (&'static str, fn(&'static Host));

const TESTS: [Named; 2] = [("with_the_sanitizer", with_the_sanitizer), ("without_recompiling", without_recompiling)];

fn main() -> ExitCode {
    let hosts = hosts::all().into_iter().filter(|host| host.is_old);
    let trials = hosts.flat_map(|host| TESTS.map(|(name, test)| trial(host, name, test))).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(host: &'static Host, name: &str, test: fn(&'static Host)) -> Trial {
    if !host.is_here() {
        return Trial::test(format!("{}::{name}::not_installed", host.name), || Ok(())).with_ignored_flag(true);
    }
    Trial::test(format!("{}::{name}", host.name), move || {
        test(host);
        Ok(())
    })
}

/// Shows E5.
/// Route: shm.
fn with_the_sanitizer(host: &'static Host) {
    judge_all(host, true);
}

/// Shows E5.
/// Route: shm.
fn without_recompiling(host: &'static Host) {
    judge_all(host, false);
}

/// Runs the programs, and prints how many were judged rightly.
fn judge_all(host: &'static Host, sanitized: bool) {
    let (mut judged, mut wrong) = (Judged::default(), Vec::new());
    let has_openmp = hosts::library_has_openmp();
    let fits = |suite: &&Suite| (sanitized || !suite.only_sanitized) && (has_openmp || suite.name != WITH_OPENMP);
    for suite in SUITES.iter().filter(fits) {
        let source = Host::source(&format!("{}.c", suite.name));
        let (ending, sanitizer) = if sanitized { ("_sanitized", "-fsanitize=thread") } else { ("", "-g") };
        let mut options = vec![sanitizer, &source];
        options.extend(suite.options);
        let program = host.built(&format!("{}{ending}", suite.name), &options);
        judge(host, suite, &program, sanitized, &mut judged, &mut wrong);
    }
    let Judged { found, wrongly_reported, silent, missed } = judged;
    let how = if sanitized { ", ThreadSanitizer" } else { "" };
    println!("checker: {}{how}: TP {found}, FP {wrongly_reported}, TN {silent}, FN {missed}", host.name);
    assert!(found > 0 && silent > 0, "too few programs ran");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the programs of one file.
fn judge(
    host: &'static Host,
    suite: &Suite,
    program: &Path,
    sanitized: bool,
    judged: &mut Judged,
    wrong: &mut Vec<String>,
) {
    let is_full = std::env::var("TRANSOM_TEST_RACES").is_ok_and(|form| form == "full");
    let run = || {
        let run = Run::of(host, program.to_owned(), suite.ranks).with("TSAN_OPTIONS", "exitcode=0");
        // UCX, which Debian's MPICH uses, patches functions that the sanitizer wraps. Waiting
        // threads of OpenMP leave the cores to others.
        run.with("UCX_MEM_EVENTS", "no").with("OMP_WAIT_POLICY", "passive")
    };
    let listed = printed(&run().output());
    let cases: Vec<Case> = listed.lines().filter_map(Case::listed).collect();
    assert!(cases.len() >= suite.least, "{listed}");
    let about = |window: &str, cases: &str| format!("RACES_WINDOW={window} {} {cases}", suite.name);
    let judge_one = |case: &Case, window: &str, judged: &mut Judged, wrong: &mut Vec<String>| {
        let run = run().served().with("TRANSOM_CHECK", "1").with("RACES_WINDOW", window);
        let shown =
            done(&run.given(case.arguments.clone(), LIMIT), sanitized, &about(window, &case.arguments.join(" ")));
        if !judged.count(case, is_reported(&shown)) {
            wrong.push(shown);
        }
    };
    let (racy, right): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.is_racy);
    // Each test has another part.
    let first = (2 * usize::from(sanitized) + usize::from(host.name == "mpich")) % suite.part;
    let (skipped, step) = if is_full { (0, 1) } else { (first, suite.part) };
    let wanted = racy.into_iter().filter(|case| sanitized || case.of_operations);
    for (case, &window) in wanted.skip(skipped).step_by(step).zip(suite.windows.iter().cycle()) {
        judge_one(case, window, judged, wrong);
    }
    if is_full || !suite.joins {
        for (case, &window) in right.into_iter().skip(skipped).step_by(step).zip(suite.windows.iter().cycle()) {
            judge_one(case, window, judged, wrong);
        }
        return;
    }
    for &window in suite.windows {
        let run = run().served().with("TRANSOM_CHECK", "1").with("RACES_WINDOW", window);
        let shown = done(&run.given(vec!["right".to_owned()], LIMIT_OF_ALL), sanitized, &about(window, "right"));
        let ran = shown.lines().filter(|line| line.starts_with("right ")).count();
        assert_eq!(ran, right.len(), "{shown}");
        if is_reported(&shown) {
            judged.wrongly_reported += 1;
            wrong.push(shown);
        } else {
            judged.silent += right.len();
        }
    }
}

/// Runs cases to the end; returns their output below `about`. A sanitized job may fail after the
/// cases.
fn done(run: &Run, sanitized: bool, about: &str) -> String {
    let output = run.output();
    let shown = format!("{about}: {}\n{}", output.status, printed(&output));
    assert!(sanitized || output.status.success(), "{shown}");
    assert!(shown.lines().any(|line| line == "done"), "{shown}");
    shown
}

fn is_reported(output: &str) -> bool {
    const REPORTS: [&str; 4] = [
        "transom: conflicting accesses to window",
        "transom: false assertion",
        "share a buffer:",
        "ThreadSanitizer: data race",
    ];
    REPORTS.iter().any(|words| output.contains(words))
}

impl Case {
    /// A case of the program's list: `case ARGUMENTS: racy|right operations|local`.
    fn listed(line: &str) -> Option<Case> {
        let (arguments, what) = line.strip_prefix("case ")?.split_once(": ")?;
        Some(Case {
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            is_racy: what.starts_with("racy"),
            of_operations: what.ends_with("operations"),
        })
    }
}

impl Judged {
    /// Counts a program. Returns whether the checker judged it rightly.
    fn count(&mut self, case: &Case, is_reported: bool) -> bool {
        let counter = match (case.is_racy, is_reported) {
            (true, true) => &mut self.found,
            (true, false) => &mut self.missed,
            (false, true) => &mut self.wrongly_reported,
            (false, false) => &mut self.silent,
        };
        *counter += 1;
        case.is_racy == is_reported
    }
}
