//! Signals to the launcher and their effect on the ranks, and two jobs at the same time.
//!
//! Shows E4.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{TWO_SLEEPERS, WATCHDOG, assert_all_gone, finish, finish_child, folder, script, started, text};

/// Shows E4.
pub(super) fn signals_end_the_job() {
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        let (child, pids) = started(&["-n", "2", "sh", "-c", TWO_SLEEPERS], 4);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = finish_child(child);
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()));
        let err = text(&output.stderr);
        assert_eq!(err, format!("transom-run: {name}: ending ranks 0-1, which still run\n"));
        assert_all_gone(&pids);
    }
}

/// Shows E4.
pub(super) fn a_second_interrupt_kills_at_once() {
    let script = "trap 'echo 0' TERM; echo $$; while :; do sleep 0.01; done";
    let (mut child, pids) = started(&["-n", "1", "sh", "-c", script], 1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The rank prints that it has seen SIGTERM and goes on.
    let mut answer = [0; 2];
    child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"0\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(finish_child(child).status.code(), Some(130));
    assert_all_gone(&pids);
}

/// A daemon may have started the launcher with SIGCHLD ignored, so that the kernel reaps children.
/// Shows E4.
pub(super) fn statuses_are_kept_where_sigchld_is_ignored() {
    let here = env!("CARGO_BIN_EXE_transom-run");
    for options in ["-n 2", "-n 2 --host here:2 --launch-agent 'env HOST={host}'"] {
        let script = format!("trap '' CHLD; exec {here} {options} sh -c 'kill -KILL $$'");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(shell);
        assert_eq!(output.status.code(), Some(128 + 9), "{options}: {}", text(&output.stderr));
    }
}

/// A rank may lead a process group of its own, as a program under `timeout` does.
/// Shows E4.
pub(super) fn groups_that_ranks_lead_end_with_the_job() {
    let script = "trap '' TERM; echo $$; while :; do sleep 0.01; done";
    let (child, pids) = started(&["-n", "1", "timeout", "1000", "sh", "-c", script], 1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(finish_child(child).status.code(), Some(130));
    assert_all_gone(&pids);
}

/// Regression: `timeout` ends at once if a signal arrives right after it has started its program.
/// Shows E4.
pub(super) fn groups_whose_leaders_have_ended_end_with_the_job() {
    let member = "trap '' TERM; echo $$; while :; do sleep 0.01; done";
    let leader = "trap 'exit 0' TERM; sh -c \"$0\" & wait";
    for machines in [&[][..], &["--host", "here", "--launch-agent", "env HOST={host}"]] {
        let arguments = [&["-n", "1"], machines, &["setsid", "sh", "-c", leader, member]].concat();
        let (child, pids) = started(&arguments, 1);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(finish_child(child).status.code(), Some(130), "{machines:?}");
        assert_all_gone(&pids);
    }
}

/// Shows E4.
pub(super) fn a_signal_ends_the_grace() {
    let script = "echo $$; [ $PMI_RANK = 1 ] && exit 3; sleep 1000";
    let (mut child, pids) = started(&["-n", "2", "--grace", "600", "sh", "-c", script], 2);
    // The launcher has reported the failed rank when the signal arrives.
    let mut first = [0; 1];
    child.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(finish_child(child).status.code(), Some(3));
    assert_all_gone(&pids);
}

/// A shell that prints its process number, and ends with status 0 when this signal arrives.
fn until_signalled(signal: Signal) -> String {
    // A shell that starts programs meanwhile may be in vfork, in which it can't be stopped.
    format!("exec 2>/dev/null; trap 'kill $!; exit 0' {}; sleep 60 & echo $$; wait", signal.as_raw())
}

/// Batch systems send such signals before a time limit. Regression: they ended the launcher.
/// Shows E4.
pub(super) fn other_signals_are_passed_on() {
    for signal in [Signal::USR1, Signal::USR2, Signal::QUIT] {
        let (child, pids) = started(&["-n", "2", "sh", "-c", &until_signalled(signal)], 2);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = finish_child(child);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{signal:?}");
        assert_all_gone(&pids);
    }
}

/// Shows E4.
pub(super) fn other_signals_reach_other_machines() {
    let folder = folder("signals");
    let agent = folder.join("agent");
    script(&agent, r#"shift; exec "$@""#);
    let agent = agent.to_str().unwrap();
    let script = until_signalled(Signal::USR1);
    let (child, _) = started(&["-n", "2", "--host", "a,b", "--launch-agent", agent, "sh", "-c", &script], 2);
    kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
    let output = finish_child(child);
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

/// Whether a process is stopped.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
}

/// As Ctrl-Z and `fg` of a shell have it.
/// Shows E4.
pub(super) fn a_stopped_launcher_stops_its_ranks() {
    let (child, ranks) = started(&["-n", "2", "sh", "-c", &until_signalled(Signal::USR1)], 2);
    let launcher = Pid::from_child(&child);
    let all = [&[child.id()], &ranks[..]].concat();
    for (signal, stopped) in [(Signal::TSTP, true), (Signal::CONT, false), (Signal::TSTP, true), (Signal::CONT, false)]
    {
        kill_process(launcher, signal).unwrap();
        let begun = Instant::now();
        while all.iter().any(|&pid| is_stopped(pid) != stopped) {
            assert!(begun.elapsed() < WATCHDOG, "{signal:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    kill_process(launcher, Signal::USR1).unwrap();
    assert_eq!(finish_child(child).status.code(), Some(0));
    assert_all_gone(&ranks);
}

/// Regression: the first rank of each job was bound to the first CPU.
pub(super) fn jobs_of_one_machine_are_bound_to_different_cpus() {
    let cpus = |pid: u32| -> Vec<String> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        list.trim().split([',', '-']).map(str::to_owned).collect()
    };
    let jobs = [0; 2].map(|_| started(&["-n", "1", "sh", "-c", &until_signalled(Signal::USR1)], 1));
    let bound = jobs.each_ref().map(|(_, pids)| cpus(pids[0]));
    for (child, _) in jobs {
        kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        assert_eq!(finish_child(child).status.code(), Some(0));
    }
    // Jobs of other tests may hold the other CPUs, so that a rank is not bound.
    let [first, second] = &bound;
    assert!(first != second || first.len() > 1, "{bound:?}");
}
