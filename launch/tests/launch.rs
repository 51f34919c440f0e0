//! The launcher from outside: the real `transom-run`, with shells or this program itself
//! (`--rank BODY`) as ranks, under watchdogs. The tests check what a job prints, how it ends, and
//! that nothing is left of it, whichever way it is killed.
//!
//! Shows B1.
//! Route: program.
#![allow(clippy::print_stdout)]

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};
use transom::Job;
use transom::bootstrap::counted::{Counted, noise};
use transom::bootstrap::{Bootstrap, BootstrapError, MAX_GATHERED, detect};

#[path = "launch/signals.rs"]
mod signals;

/// Longer than any of these jobs takes on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).take(2).collect();
    if let [first, body] = &args[..]
        && first == "--rank"
    {
        return rank_body(&body.to_string_lossy());
    }
    let tests: [(&str, fn()); 36] = [
        ("lines_are_whole_and_tagged", lines_are_whole_and_tagged),
        ("a_rank_alone_is_passed_through", a_rank_alone_is_passed_through),
        ("options_of_the_program_are_untouched", options_of_the_program_are_untouched),
        ("the_first_failing_rank_gives_the_status", the_first_failing_rank_gives_the_status),
        ("a_killed_rank_is_named", a_killed_rank_is_named),
        ("a_rank_that_does_not_finalize_is_named", a_rank_that_does_not_finalize_is_named),
        ("an_abort_has_status_and_reason", an_abort_has_status_and_reason),
        ("a_barrier_that_cannot_complete_ends_the_job", a_barrier_that_cannot_complete_ends_the_job),
        ("killing_the_launcher_leaves_no_process", killing_the_launcher_leaves_no_process),
        ("grandchildren_end_with_the_job", grandchildren_end_with_the_job),
        ("signals_end_the_job", signals::signals_end_the_job),
        ("a_second_interrupt_kills_at_once", signals::a_second_interrupt_kills_at_once),
        ("other_signals_are_passed_on", signals::other_signals_are_passed_on),
        ("other_signals_reach_other_machines", signals::other_signals_reach_other_machines),
        ("a_stopped_launcher_stops_its_ranks", signals::a_stopped_launcher_stops_its_ranks),
        ("statuses_are_kept_where_sigchld_is_ignored", signals::statuses_are_kept_where_sigchld_is_ignored),
        ("groups_that_ranks_lead_end_with_the_job", signals::groups_that_ranks_lead_end_with_the_job),
        ("groups_whose_leaders_have_ended", signals::groups_whose_leaders_have_ended_end_with_the_job),
        ("a_signal_ends_the_grace", signals::a_signal_ends_the_grace),
        ("ranks_that_ignore_sigterm_are_killed", ranks_that_ignore_sigterm_are_killed),
        ("timeout_names_the_ranks", timeout_names_the_ranks),
        ("timeout_ends_the_wait_for_a_reader", timeout_ends_the_wait_for_a_reader),
        ("orphans_are_reaped_while_the_job_runs", orphans_are_reaped_while_the_job_runs),
        ("a_closed_output_ends_quietly", a_closed_output_ends_quietly),
        ("programs_that_cannot_start", programs_that_cannot_start),
        ("ranks_are_counted_as_mpi_users_type_it", ranks_are_counted_as_mpi_users_type_it),
        ("an_output_on_a_full_disk_is_an_error", an_output_on_a_full_disk_is_an_error),
        ("wrong_command_lines", wrong_command_lines),
        ("ranks_exchange_values", ranks_exchange_values),
        ("many_ranks_gather_and_start", many_ranks_gather_and_start),
        ("binding_and_environment", binding_and_environment),
        ("jobs_of_one_machine_are_bound_to_different_cpus", signals::jobs_of_one_machine_are_bound_to_different_cpus),
        ("bytes_that_are_not_utf8_pass_through", bytes_that_are_not_utf8_pass_through),
        ("hosts_and_agents_may_have_any_bytes", hosts_and_agents_may_have_any_bytes),
        ("an_agent_that_reads_nothing_delays_no_other", an_agent_that_reads_nothing_delays_no_other),
        ("a_rank_starts_under_any_environment_and_name", a_rank_starts_under_any_environment_and_name),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// The bodies that this program runs as a rank.
fn rank_body(body: &str) -> ExitCode {
    if body == "start" {
        return start();
    }
    let done: Result<(), BootstrapError> = detect().and_then(|mut boot| match body {
        "exchange" => exchange(boot.as_mut()),
        "gather" => gather(boot),
        "forget" => boot.barrier(),
        "abort" => abort(boot.as_mut()),
        "skip-barrier" => skip_barrier(boot.as_mut()),
        other => panic!("no body is called {other:?}"),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", transom::diagnostics::chain(&error));
            ExitCode::from(9)
        }
    }
}

fn exchange(boot: &mut dyn Bootstrap) -> Result<(), BootstrapError> {
    let (me, size) = (boot.rank(), boot.size());
    boot.put(&format!("k{me}"), &[u8::try_from(me).unwrap(), 0, b' ', b'\n'])?;
    boot.put(&format!("empty{me}"), b"")?;
    boot.barrier()?;
    for rank in 0..size {
        assert_eq!(boot.get(rank, &format!("k{rank}"))?, Some(vec![u8::try_from(rank).unwrap(), 0, b' ', b'\n']));
        assert_eq!(boot.get(rank, &format!("empty{rank}"))?, Some(Vec::new()));
    }
    assert_eq!(boot.get(0, "nobody")?, None);
    let twice = boot.put(&format!("k{me}"), b"x");
    assert!(matches!(twice, Err(BootstrapError::DuplicateKey { .. })), "{twice:?}");
    let long = boot.put("long", &vec![0; boot.value_limit() + 1]);
    assert!(matches!(long, Err(BootstrapError::TooLong { .. })), "{long:?}");
    // Lengths that differ by rank: nothing, one fragment, two fragments, and the largest.
    let limit = boot.value_limit().min(MAX_GATHERED);
    let length = |rank: usize| [0, limit / 2, limit, MAX_GATHERED][rank % 4];
    let value = |rank: usize| noise(rank, length(rank));
    let all = boot.allgather("lengths", &value(me))?;
    assert_eq!(all, (0..size).map(value).collect::<Vec<_>>());
    println!("rank {me} of {size} verified");
    boot.finalize()?;
    assert!(matches!(boot.barrier(), Err(BootstrapError::Finalized { .. })));
    Ok(())
}

/// Gathers and starts a job, each rank as if alone on its machine, and counts the requests to the
/// launcher.
fn gather(boot: Box<dyn Bootstrap>) -> Result<(), BootstrapError> {
    let mut boot = Counted::new(boot, 1);
    let (me, size, request_counts) = (boot.rank(), boot.size(), boot.request_counts());
    let value = |rank: usize| format!("card of rank {rank}, as long as an address is: {}", "x".repeat(64)).into_bytes();
    let all = boot.allgather("cards", &value(me))?;
    assert_eq!(all, (0..size).map(value).collect::<Vec<_>>());
    let gathered = request_counts();
    let world = Job::with_bootstrap(Box::new(boot)).unwrap();
    println!("gathered {}: {} requests, {} to start", all.len(), gathered.requests(), request_counts().requests());
    world.finalize().unwrap();
    Ok(())
}

/// Starts a job and leaves it.
fn start() -> ExitCode {
    match transom::init() {
        Ok(world) => {
            println!("rank {} of {} started", world.rank(), world.size());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", transom::diagnostics::chain(&error));
            ExitCode::from(9)
        }
    }
}

fn abort(boot: &mut dyn Bootstrap) -> Result<(), BootstrapError> {
    if boot.rank() == 1 {
        boot.abort(42, "the answer is too large")?;
    }
    std::thread::sleep(WATCHDOG);
    Ok(())
}

fn skip_barrier(boot: &mut dyn Bootstrap) -> Result<(), BootstrapError> {
    if boot.rank() != 2 {
        boot.barrier()?;
    }
    boot.finalize()
}

/// `transom-run` with these arguments.
fn launcher(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-run"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `transom-run -n RANKS` with this program as the ranks' program, running `body`.
fn bodies(ranks: &str, body: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    launcher(&["-n", ranks, own.to_str().unwrap(), "--rank", body])
}

/// Runs to the end, or kills the process when the watchdog expires.
fn finish(mut command: Command) -> Output {
    finish_child(command.spawn().unwrap())
}

fn finish_child(child: Child) -> Output {
    let pid = Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(WATCHDOG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            kill_process(pid, Signal::KILL).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    watchdog.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit status, standard output and standard error of `transom-run` with these arguments.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = finish(launcher(args));
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A job that has printed the numbers of all its processes: `processes` lines of output, one number
/// each. The time limit ends the job of a failed test.
fn started(args: &[&str], processes: usize) -> (Child, Vec<u32>) {
    let mut child = launcher(&[&["--timeout", "120"], args].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut pids = Vec::new();
    while pids.len() < processes {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the job ended early, after {pids:?}");
        pids.push(line.trim().parse().unwrap());
    }
    child.stdout = Some(lines.into_inner());
    (child, pids)
}

/// Whether no process with this number runs. A zombie counts as ended: an init may not reap it.
fn is_gone(pid: u32) -> bool {
    match std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

fn assert_all_gone(pids: &[u32]) {
    let limit = Instant::now() + WATCHDOG;
    while let Some(pid) = pids.iter().find(|pid| !is_gone(**pid)) {
        assert!(Instant::now() < limit, "process {pid} is left of {pids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The children of `pid`, including the guard.
fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Two processes per rank, which print their numbers and never end by themselves.
const TWO_SLEEPERS: &str = "sleep 1000 & echo $!; echo $$; sleep 1000";

fn lines_are_whole_and_tagged() {
    let script = r#"i=0; while [ $i -lt 200 ]; do printf 'rank %s ' $PMI_RANK; printf 'line %s\n' $i; i=$((i+1)); done;
                    printf last"#;
    let (status, out, err) = run(&["-n", "4", "--tag-output", "sh", "-c", script]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    for rank in 0..4 {
        let tag = format!("[{rank}] ");
        let own: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix(&tag)).collect();
        let mut expected: Vec<String> = (0..200).map(|line| format!("rank {rank} line {line}")).collect();
        expected.push("last".to_owned());
        assert_eq!(own, expected);
    }
    assert_eq!(out.lines().count(), 4 * 201);
}

fn a_rank_alone_is_passed_through() {
    let mut command = launcher(&["-n", "1", "sh", "-c", "cat; printf 'a\\rb' >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"no newline\0\xff").unwrap();
    drop(input);
    let output = finish_child(child);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"no newline\0\xff"[..], &b"a\rb"[..]));
}

fn options_of_the_program_are_untouched() {
    let (status, out, _) = run(&["-n", "1", "echo", "-n", "7", "--help", "--", "--tag-output"]);
    assert_eq!((status, out.as_str()), (Some(0), "7 --help -- --tag-output"));
}

fn the_first_failing_rank_gives_the_status() {
    let script = "[ $PMI_RANK = 2 ] && { echo bad >&2; exit 7; }; sleep 1000; exit 8";
    let (status, _, err) = run(&["-n", "4", "sh", "-c", script]);
    assert_eq!(status, Some(7));
    assert!(err.starts_with("bad\ntransom-run: rank 2 (pid "), "{err}");
    assert!(err.ends_with(") exited with status 7; ending ranks 0-1, 3, which still run\n"), "{err}");
}

fn a_killed_rank_is_named() {
    let (status, _, err) = run(&["-n", "2", "sh", "-c", "[ $PMI_RANK = 1 ] && kill -9 $$; sleep 1000"]);
    assert_eq!(status, Some(128 + 9));
    assert!(err.contains("rank 1 (pid ") && err.contains("was killed by signal 9 (SIGKILL)"), "{err}");
}

fn a_rank_that_does_not_finalize_is_named() {
    let output = finish(bodies("2", "forget"));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("without finalizing"), "{err}");
}

fn an_abort_has_status_and_reason() {
    let output = finish(bodies("3", "abort"));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(42), "{err}");
    assert!(err.contains("rank 1 (pid "), "{err}");
    assert!(err.contains("aborted the job with status 42: the answer is too large; ending ranks 0-2"), "{err}");
}

fn a_barrier_that_cannot_complete_ends_the_job() {
    let output = finish(bodies("3", "skip-barrier"));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("rank 2 (pid ") && err.contains("waits for it in a barrier"), "{err}");
}

/// Shows E4.
fn killing_the_launcher_leaves_no_process() {
    let (mut child, mut pids) = started(&["-n", "3", "sh", "-c", TWO_SLEEPERS], 6);
    let direct = children(child.id());
    assert_eq!(direct.len(), 4, "three ranks and the guard");
    pids.extend(direct);
    assert!(pids.iter().all(|pid| !is_gone(*pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_all_gone(&pids);
}

/// Shows E4.
fn grandchildren_end_with_the_job() {
    let (child, pids) = started(&["-n", "2", "sh", "-c", "sleep 1000 & echo $!"], 2);
    assert_eq!(finish_child(child).status.code(), Some(0));
    assert_all_gone(&pids);
}

fn ranks_that_ignore_sigterm_are_killed() {
    let script = "trap '' TERM; [ $PMI_RANK = 0 ] && { sleep 0.1; exit 3; }; sleep 1000";
    let (status, _, err) = run(&["-n", "2", "sh", "-c", script]);
    assert_eq!(status, Some(3), "{err}");
}

/// Orphans that the ranks leave in their group, and orphans in sessions of their own.
/// Regression: the launcher reaped them only at the job's end.
fn orphans_are_reaped_while_the_job_runs() {
    let script = "for i in 1 2 3 4; do (sleep 0.1 & setsid sleep 0.1 &); done; echo $$; sleep 1000";
    for options in [&["-n", "2"][..], &["-n", "2", "--host", "here:2", "--launch-agent", "env HOST={host}"]] {
        let (mut child, pids) = started(&[options, &["sh", "-c", script]].concat(), 2);
        let parent = std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap();
        let launcher = parent.rsplit_once(") ").unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        // The guard and the ranks stay.
        while children(launcher).len() > 3 {
            assert!(Instant::now() < limit, "children are left: {:?}", children(launcher));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(pids.iter().all(|pid| !is_gone(*pid)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_all_gone(&pids);
    }
}

/// Regression: the time limit did not end the wait for a reader after a rank had failed.
fn timeout_ends_the_wait_for_a_reader() {
    let script = "head -c 200000 /dev/zero; exit 7";
    let mut child = launcher(&["-n", "1", "--timeout", "2", "sh", "-c", script]).spawn().unwrap();
    let _unread = child.stdout.take();
    assert_eq!(finish_child(child).status.code(), Some(7));
}

fn timeout_names_the_ranks() {
    let script = "[ $PMI_RANK = 1 ] || sleep 1000";
    let (status, _, err) = run(&["-n", "3", "--timeout", "0.7", "sh", "-c", script]);
    assert_eq!(status, Some(124));
    assert_eq!(err, "transom-run: timeout after 0.7 s: ending ranks 0, 2, which still run\n");
}

fn a_closed_output_ends_quietly() {
    let mut child = launcher(&["-n", "2", "yes"]).spawn().unwrap();
    let mut some = [0; 2];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    drop(child.stdout.take());
    let output = finish_child(child);
    assert_eq!(output.status.code(), Some(128 + 13));
    assert_eq!(text(&output.stderr), "");
}

fn programs_that_cannot_start() {
    let (status, _, err) = run(&["-n", "2", "no-such-program"]);
    assert_eq!(status, Some(127));
    assert!(err.starts_with("transom-run: cannot start no-such-program: "), "{err}");
    let (status, _, err) = run(&["-n", "2", "/etc/passwd"]);
    assert_eq!(status, Some(126));
    assert!(err.contains("/etc/passwd: Permission denied"), "{err}");
    let (status, _, err) = run(&["-n", "1", "--host", "a", "--launch-agent", "no-such-agent", "true"]);
    assert_eq!(status, Some(127));
    assert!(err.starts_with("transom-run: cannot start the launch agent \"no-such-agent\": "), "{err}");
    let (status, _, err) = run(&["-n", "3", "--host", "a:2", "--launch-agent", "no-such-agent", "true"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("the job has 3 ranks, but its machines have room for 2"), "{err}");
}

/// Options in the spelling of other launchers; arguments after the program belong to the program.
fn ranks_are_counted_as_mpi_users_type_it() {
    for count in [&["-np", "2"][..], &["--np", "2"], &["--np=2"], &["-n2"], &["-np2"], &["--tag-output", "-np", "2"]] {
        let (status, out, err) = run(&[count, &["echo", "-np", "7"]].concat());
        assert_eq!((status, err.as_str()), (Some(0), ""), "{count:?}");
        assert_eq!(out.matches("-np 7\n").count(), 2, "{count:?}: {out}");
    }
}

/// Regression: it ended with 141 and no message, as if the reader of its output had gone.
fn an_output_on_a_full_disk_is_an_error() {
    for ranks in ["1", "2"] {
        let mut command = launcher(&["-n", ranks, "echo", "text"]);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let output = finish(command);
        assert_eq!(output.status.code(), Some(1));
        let printed = text(&output.stderr);
        assert!(
            printed.starts_with("transom-run: writing to the standard output: No space left on device"),
            "{printed}"
        );
    }
}

fn wrong_command_lines() {
    for (args, word) in [
        (&["-n", "0", "true"][..], "at least 1 rank"),
        (&["-n", "x", "true"], "a number of ranks"),
        (&["true"], "--ranks <N>"),
        (&["-n", "2"], "PROGRAM"),
        (&["-n", "2", "--env", "novalue", "true"], "NAME=VALUE"),
        (&["-n", "2", "--timeout", "-1", "true"], "--timeout"),
        (&["-n", "2", "--bogus", "true"], "--bogus"),
        (&["-n", "2", "--host", "a:0", "true"], "HOST:RANKS"),
        (&["-n", "2", "--host", "a", "--launch-agent", " ", "true"], "a command is needed"),
    ] {
        let (status, _, err) = run(args);
        assert_eq!(status, Some(2), "{args:?}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
}

fn ranks_exchange_values() {
    let output = finish(bodies("4", "exchange"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""));
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..4).map(|rank| format!("rank {rank} of 4 verified")).collect::<Vec<_>>());
}

/// The number of requests grows with the logarithm of the ranks: of 65 ranks some make blocks of 8,
/// one also makes a block of 64, and 2 are left over. A start on one node takes two exchanges and a
/// barrier, whatever route other tests take.
fn many_ranks_gather_and_start() {
    let mut launcher = bodies("65", "gather");
    launcher.env("TRANSOM_TRANSPORTS", "shm").env_remove("TRANSOM_TEST_NODES");
    let output = finish(launcher);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let mut lines: Vec<(usize, usize)> = Vec::new();
    for line in text(&output.stdout).lines() {
        let numbers = line.strip_prefix("gathered 65: ").and_then(|rest| rest.split_once(" requests, "));
        let (requests, start) = numbers.and_then(|(one, two)| Some((one, two.strip_suffix(" to start")?))).unwrap();
        lines.push((requests.parse().unwrap(), start.parse().unwrap()));
    }
    assert_eq!(lines.len(), 65);
    for (requests, start) in lines {
        assert!(requests <= 3 + 3 + 14 + 1, "{requests} of 65 ranks");
        assert_eq!(start, 3 * requests + 2, "{requests} for one");
    }
}

fn binding_and_environment() {
    let script = "echo $PMI_RANK/$PMI_SIZE $TRANSOM_LAUNCHER $A $(grep Cpus_allowed_list /proc/self/status)";
    let (status, out, _) = run(&["-n", "2", "--bind", "core", "--env", "A=b=c", "sh", "-c", script]);
    assert_eq!(status, Some(0));
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    for (rank, line) in lines.iter().enumerate() {
        let (head, cpus) = line.rsplit_once(' ').unwrap();
        assert_eq!(head, format!("{rank}/2 transom-run b=c Cpus_allowed_list:"));
        assert!(cpus.parse::<u32>().is_ok(), "bound to one CPU, not to {cpus}");
    }
    assert_eq!(lines.len(), 2);
}

/// Bytes that are not UTF-8, as names of old files have them.
const LATIN: &[u8] = b"caf\xe9";

fn latin(before: &str) -> OsString {
    OsString::from_vec([before.as_bytes(), LATIN].concat())
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A shell script that can be executed.
fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Regression: `transom-run` refused such values of `--env`.
fn bytes_that_are_not_utf8_pass_through() {
    let folder = folder("bytes");
    let program = folder.join(latin("echo-"));
    script(&program, r#"printf '%s|%s|%s\n' "$FROM_OPTION" "$FROM_OUTSIDE" "$1""#);
    let mut command = launcher(&["-n", "1", "--env"]);
    command.arg(latin("FROM_OPTION=")).arg(&program).arg(latin("-")).env("FROM_OUTSIDE", OsStr::from_bytes(LATIN));
    let output = finish(command);
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(output.stdout, [LATIN, b"|", LATIN, b"|-", LATIN, b"\n"].concat());
}

/// The agent gets the machine's name, and the ranks get the variables, byte by byte.
fn hosts_and_agents_may_have_any_bytes() {
    let folder = folder("agent");
    let agent = folder.join(latin("agent-"));
    script(&agent, r#"printf 'host %s\n' "$1"; shift; exec "$@""#);
    let mut command = launcher(&["-n", "1", "--host"]);
    command.arg(latin("host-")).arg("--launch-agent").arg(&agent);
    let command_line = r#"printf 'variable %s\n' "$TRANSOM_TEST_BYTES""#;
    command.args(["sh", "-c", command_line]).env("TRANSOM_TEST_BYTES", OsStr::from_bytes(LATIN));
    let output = finish(command);
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    for line in [&b"host host-"[..], b"variable "] {
        let expected = [line, LATIN, b"\n"].concat();
        assert!(contains(&output.stdout, &expected), "{:?}", text(&output.stdout));
    }
}

/// Regression: the launcher waited until each agent had read its order, and served nothing else
/// meanwhile. A pipe holds 64 KiB of an order, and variables make orders longer.
fn an_agent_that_reads_nothing_delays_no_other() {
    let folder = folder("deaf");
    let agent = folder.join("agent");
    script(&agent, r#"[ "$1" = deaf ] && exec sleep 1000; shift; exec "$@""#);
    let mut command = launcher(&["-n", "2", "--host", "deaf,other", "--launch-agent"]);
    command.arg(&agent);
    for name in ["A", "B", "C"] {
        command.args(["--env", &format!("{name}={}", "x".repeat(100_000))]);
    }
    // The whole order arrives at the machine that reads it.
    command.args(["sh", "-c", "exit $(( (${#A} + ${#B} + ${#C}) / 100000 ))"]);
    let output = finish(command);
    std::fs::remove_dir_all(folder).unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.starts_with("transom-run: rank 1 ") && err.contains("ending rank 0, which still runs"), "{err}");
}

/// Regression: a variable that is not UTF-8 ended every program. The kernel cuts process names
/// within a character.
fn a_rank_starts_under_any_environment_and_name() {
    let folder = folder("names");
    // The kernel keeps the first 15 bytes of the name: seven and a half characters.
    let program = folder.join("é".repeat(12));
    symlink(std::env::current_exe().unwrap(), &program).unwrap();
    let start = |name: &str, value: &OsStr| {
        let mut command = launcher(&["-n", "2"]);
        command.arg(&program).args(["--rank", "start"]).env(name, value);
        finish(command)
    };
    let output = start("NAME_OF_A_FILE", OsStr::from_bytes(LATIN));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let mut lines: Vec<String> = text(&output.stdout).lines().map(String::from).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 of 2 started", "rank 1 of 2 started"]);
    for variable in ["TRANSOM_PROVIDER", "TRANSOM_MPI", "FI_TCP_IFACE"] {
        let output = start(variable, OsStr::from_bytes(LATIN));
        assert_eq!(output.status.code(), Some(9), "{variable}");
        let printed = text(&output.stderr);
        assert!(printed.contains(&format!("{variable}=caf\u{fffd}: the value is not UTF-8")), "{printed}");
    }
    let output = start("TRANSOM_NO_SUCH", OsStr::from_bytes(LATIN));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("TRANSOM_NO_SUCH is not a variable"), "{}", text(&output.stderr));
    std::fs::remove_dir_all(folder).unwrap();
}
