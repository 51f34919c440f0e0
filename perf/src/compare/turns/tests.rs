//! Scripts stand in for launchers and the benchmark.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::super::{hosts, plan};
use super::*;

/// The begin of a script: `$dir` is the folder of the job. `command` waits for a command, of which
/// it sets the words; `say` answers.
const HEAD: &str = "#!/bin/bash
    if [[ $* = *LD_PRELOAD* ]]; then dir=$6 with=yes; else dir=$4 with=; fi
    exec 3<$dir/gate-0 4>$dir/answers
    command() { read -r word number function window sync size <&3; }
    say() { echo $* >&4; }
";
/// The rest of a script in which `line` is called for each line, and `value` before each turn.
const LOOP: &str = "
    while command; do
        case $word in
            line) say begin $number; at=$number; line; say ready $at 2;;
            turn) value; say turn $at $value;;
            check) say checked $at right;;
            end) exit 0;;
        esac
    done
";

/// Measures the lines by a script, in two rounds if there is no time limit.
fn part(script: &str, lines: &[Line], time: Option<Duration>, with: bool) -> Part {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: it only distinguishes the folders of the tests.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("transom-compare-test-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let mpiexec = folder.join("mpiexec");
    std::fs::write(&mpiexec, format!("{HEAD}{script}{LOOP}")).expect("a script");
    std::fs::set_permissions(&mpiexec, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut host = hosts::named(&format!("mine=cc,{}", mpiexec.display())).expect("an MPI");
    host.library = with.then(|| "library.so".into());
    let bench = Bench::of_scripts(folder);
    let deadline = time.map(|time| Instant::now() + time);
    let setting = Setting { bench: &bench, transport: Transport::Shm, lines, deadline };
    measured(setting, &[host], if time.is_some() { 1 } else { 2 }).expect("a part")
}

/// The answers of an MPI without its library.
fn answers(script: &str, lines: &[Line]) -> Vec<Answer> {
    part(script, lines, None, false).columns.remove(0).answers
}

#[test]
fn after_a_line_that_ends_the_job_a_new_job_measures_the_rest() {
    let lines = &plan::cells(true)[..4];
    let script = "value() { value=2; }
        line() { case \"$function $window $sync $size\" in
            'put allocate flush 65536') echo broken >&2; exit 9;;
            'put allocate fence 8') say hang $at; exit 4;; esac; }";
    let found = answers(script, lines);
    assert_eq!(found[0], Answer::Value(2.0));
    assert_eq!(found[1], Answer::Dies("exit status: 9: broken".into()));
    assert_eq!(found[2..], [Answer::Hangs, Answer::Value(2.0)]);
}

/// The values are the numbers of turns over all jobs, in the order of their measurement.
#[test]
fn jobs_with_and_without_the_library_take_turns() {
    let lines = &plan::cells(true)[..2];
    let script = "line() { :; }
        value() { echo >>$dir/../turns; value=$(wc -l <$dir/../turns); }";
    let part = part(script, lines, None, true);
    let [without, with] = &part.columns[..] else { panic!("{:?}", part.columns) };
    // Turns 1, 3, 9 and 11 of the first line are without the library, and 2, 4, 10 and 12 with it.
    assert_eq!(without.answers, [Answer::Value(6.0), Answer::Value(10.0)]);
    assert_eq!(with.answers, [Answer::Value(7.0), Answer::Value(11.0)]);
    let ratio = with.ratios[0].expect("a ratio");
    // The ratios are 2/1, 2/3, 4/3, 10/9, 10/11 and 12/11.
    assert!((ratio.median - f64::midpoint(10.0 / 9.0, 12.0 / 11.0)).abs() < 1e-9, "{ratio:?}");
}

/// With the library the job ends in its second turn.
#[test]
fn the_other_side_of_a_job_that_ends_goes_on() {
    let lines = &plan::cells(true)[..1];
    let script = "line() { :; }
        value() { value=3; [[ $with ]] || return; [[ -e $dir/turned ]] && exit 7; >$dir/turned; }";
    let part = part(script, lines, None, true);
    assert_eq!(part.columns[0].answers, [Answer::Value(3.0)]);
    assert_eq!(part.columns[1].answers, [Answer::Dies("exit status: 7: no output".into())]);
    assert_eq!(part.columns[1].ratios, [None]);
}

#[test]
fn a_line_with_wrong_data_has_no_value() {
    let script = "line() { say ready $at 1; command; say turn $at 1; command; say checked $at wrong; command; exit; }
        value() { :; }";
    assert_eq!(answers(script, &plan::cells(true)[..1]), [Answer::Wrong]);
}

#[test]
fn lines_without_time_left_are_skipped() {
    let script = "value() { value=1.5; }
        line() { [[ $at = 0 ]] || exec sleep 100; }";
    let lines = plan::cells(true);
    let found = part(script, &lines, Some(Duration::from_secs(2)), false).columns.remove(0).answers;
    assert!([Answer::Value(1.5), Answer::Skipped].contains(&found[0]), "{:?}", found[0]);
    assert!(found[1..].iter().all(|answer| *answer == Answer::Skipped), "{:?}", found[1]);
}

#[test]
fn a_window_that_fails_ends_all_its_lines() {
    let lines = plan::cells(true);
    let script = "value() { value=1; }
        line() { [[ $window = allocate ]] || return; say nowindow $at MPI_Win_allocate: no memory; exit 3; }";
    for (line, answer) in lines.iter().zip(answers(script, &lines)) {
        let expected = match line.window {
            "allocate" => Answer::Fails("MPI_Win_allocate: no memory".into()),
            _ => Answer::Value(1.0),
        };
        assert_eq!(answer, expected, "{line:?}");
    }
}

#[test]
fn cases_are_answers_without_turns() {
    let script = "line() { say case $at 1.5 0.5 1 1; command; [[ $word = end ]] && exit; }
        value() { :; }";
    let case = Answer::Case { computing_us: 1.5, attentive_us: 0.5, passive: true, data: true };
    assert_eq!(answers(script, &plan::grid()[..1]), [case]);
}

/// The first job ends on line 1, and all later ones before they begin a line.
#[test]
fn measured_cells_keep_their_values_if_no_job_starts_any_more() {
    let script = "echo >>$dir/../starts; [[ $(wc -l <$dir/../starts) = 1 ]] || exit 5
        value() { value=2; }
        line() { [[ $at = 0 ]] || exit 9; }";
    let found = answers(script, &plan::cells(true)[..4]);
    let dies = |status| Answer::Dies(format!("exit status: {status}: no output"));
    assert_eq!(found, [Answer::Value(2.0), dies(9), dies(5), dies(5)]);
}

/// The window of a kind can be created in the first round only; the second round ends on line 0.
#[test]
fn measured_cells_keep_their_values_if_another_cell_has_no_window() {
    let lines: Vec<_> = plan::cells(true).into_iter().filter(|line| line.window == "allocate").take(3).collect();
    let script = "echo >>$dir/../starts; starts=$(wc -l <$dir/../starts); [[ $starts -le 2 ]] || exit 5
        value() { value=2; }
        line() { [[ $starts = 1 ]] || { say nowindow $at no memory; exit 3; }; }";
    let expected = [Answer::Fails("no memory".into()), Answer::Value(2.0), Answer::Value(2.0)];
    assert_eq!(answers(script, &lines), expected);
}

#[test]
fn a_job_that_hangs_before_its_first_line_is_a_failed_start() {
    let found = answers("say hang 0; exit 4", &plan::cells(true));
    let expected = Answer::Dies("the job did not start within the limit".into());
    assert!(found.iter().all(|answer| *answer == expected), "{:?}", found[0]);
}

#[test]
fn starts_of_a_failing_launcher_are_limited() {
    let found = answers("echo '[vm:17] *** no such thing ***' >&2; exit 1", &plan::cells(true));
    let expected = Answer::Dies("exit status: 1: no such thing".into());
    assert!(found.iter().all(|answer| *answer == expected), "{:?}", found[0]);
}
