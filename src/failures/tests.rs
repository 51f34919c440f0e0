//! Tests of the failure detector with processes of this machine. Must not know transports.

use super::*;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};

use crate::interfaces::Interface;

use super::polling::tests::{is_alone, limited};

fn sleeper() -> (Child, Process) {
    let child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = i32::try_from(child.id()).expect("a process number");
    (child, Process { pid, began: began(pid).expect("it runs"), ..Process::own() })
}

/// Checks until the detector reports a death: checks within one period return the previous
/// answer.
fn until_dead(detector: &Detector) -> String {
    loop {
        if let Err(died) = detector.look(Duration::ZERO) {
            return died.to_string();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A machine has several ranks, and all of them are lost with it. Regression: the operations to
/// the first one alone were ended.
/// Shows E3.
#[test]
fn all_ranks_of_a_silent_machine_are_lost() {
    let listener = std::net::TcpListener::bind((Interface::loopback().address, 0)).expect("a socket");
    let at = listener.local_addr().expect("it is bound");
    drop(listener);
    let place = |rank| RemoteRank { rank, host: "there".into(), at, token: [0; 16] };
    let remote = Connections::new(0, Interface::loopback(), connections::SILENCE, true, vec![place(1), place(2)]);
    let detector = Detector::new(0, &[Process::own()], Some(remote));
    let begun = Instant::now();
    while detector.all_silent().len() < 2 && begun.elapsed() < Duration::from_secs(10) {
        let _ = detector.look(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(detector.all_silent(), [1, 2]);
    assert!((1..3).all(|rank| detector.is_silent(rank)) && !detector.is_silent(3));
    let error = detector.known().expect_err("two ranks are lost");
    assert!(matches!(error, ErrorKind::RankUnreachable { rank: 1 | 2, .. }), "{error}");
}

/// The kernel cuts process names after 15 bytes, also within a character. Such a name must not
/// hide the start time.
#[test]
fn the_start_time_is_found_whatever_the_process_name() {
    let folder = std::env::temp_dir().join(format!("transom-age-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("é".repeat(12));
    let path = std::env::var_os("PATH").expect("a path");
    let sleep = std::env::split_paths(&path).map(|folder| folder.join("sleep")).find(|path| path.exists());
    std::os::unix::fs::symlink(sleep.expect("sleep"), &program).expect("a link");
    let mut child = Command::new(program).arg("60").spawn().expect("it starts");
    let pid = i32::try_from(child.id()).expect("a process number");
    let (until, stat) = (Instant::now() + Duration::from_secs(10), format!("/proc/{pid}/stat"));
    let has_name = || std::str::from_utf8(&std::fs::read(&stat).expect("it runs")).is_err();
    // The kernel continues the parent a little before it gives the child its name.
    while !has_name() && Instant::now() < until {
        std::thread::yield_now();
    }
    let (is_cut, age) = (has_name(), began(pid));
    child.kill().and_then(|()| child.wait()).expect("it ends");
    std::fs::remove_dir_all(folder).expect("it was made here");
    assert!(is_cut && age.is_some_and(|age| age > 0), "{age:?}");
}

/// Shows E3.
#[test]
fn the_end_of_a_process_is_detected_and_final() {
    let (mut first, a) = sleeper();
    let (mut second, b) = sleeper();
    let host = a.host.clone();
    let detector = Detector::new(0, &[Process::own(), a, b], None);
    detector.look(Duration::ZERO).expect("both live");
    // Not reaped: a zombie counts as dead.
    second.kill().expect("ours");
    let text = until_dead(&detector);
    assert!(text.contains("rank 2") && text.contains(&host), "{text}");
    assert_eq!(detector.look(Duration::ZERO).map_err(|died| died.to_string()), Err(text));
    for child in [&mut first, &mut second] {
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
}

/// Where the kernel refuses pidfds, processes are watched by their numbers.
/// Shows E3.
#[test]
fn the_end_of_a_process_without_a_pidfd_is_detected() {
    let (mut first, a) = sleeper();
    let (mut second, b) = sleeper();
    let detector = Detector::new(0, &[Process::own(), a.clone(), b.clone()], None);
    *detector.state() = State { unopened: vec![0, 1], opened: 2, ..State::default() };
    detector.look(Duration::from_millis(120)).expect("both live");
    // A zombie first, then a process that is reaped.
    second.kill().expect("ours");
    let text = until_dead(&detector);
    assert!(text.contains("rank 2"), "{text}");
    first.kill().and_then(|()| first.wait()).expect("ours");
    assert!(a.has_ended() && b.has_ended());
    second.wait().expect("ours");
    let reused = Process { began: 1, ..Process::own() };
    assert!(reused.has_ended() && !Process::own().has_ended());
}

/// Regression: each check of each rank read two files of each other rank of the machine, or
/// opened all pidfds in one call.
#[test]
fn a_check_looks_at_few_of_many_ranks() {
    let reused = Process { began: 1, ..Process::own() };
    let ranks = (1..=20).map(|rank| (rank, if rank == 20 { reused.clone() } else { Process::own() }));
    let detector = Detector { ranks: ranks.collect(), ..Detector::default() };
    let without = || State { unopened: (0..20).collect(), opened: 20, ..State::default() };
    let mut state = without();
    let mut dead_after = || {
        detector.poll_ranks(&mut state, Duration::ZERO);
        state.dead.len()
    };
    assert_eq!([dead_after(), dead_after(), dead_after(), dead_after()], [0, 0, 1, 1]);
    let mut state = without();
    detector.poll_ranks(&mut state, Duration::from_millis(1));
    assert_eq!(state.dead.len(), 1, "a wait for a death looks at all");
    let mut state = State::default();
    detector.poll_ranks(&mut state, Duration::ZERO);
    assert!(state.opened <= OPENED_AT_ONCE && state.dead.is_empty());
    detector.poll_ranks(&mut state, Duration::ZERO);
    assert_eq!((state.opened, state.dead.len()), (20, 1));
}

/// The detector also finds a rank that died before the first check, or whose process number is
/// reused.
/// Shows E3.
#[test]
fn a_death_before_the_first_check_is_detected() {
    let (mut child, mut process) = sleeper();
    process.began += 1;
    let detector = Detector::new(0, &[Process::own(), process.clone()], None);
    assert!(until_dead(&detector).contains("rank 1"));
    child.kill().expect("ours");
    child.wait().expect("ours");
    process.began -= 1;
    assert!(until_dead(&Detector::new(0, &[Process::own(), process], None)).contains("rank 1"));
}

/// A process number that is reused is found also where the pidfd takes the last free
/// descriptor, once another one is free. In a process of its own, because the limit of
/// descriptors holds for all threads.
/// Shows E3.
#[test]
fn a_reused_number_is_found_where_the_pidfd_takes_the_last_descriptor() {
    const NAME: &str = "failures::tests::a_reused_number_is_found_where_the_pidfd_takes_the_last_descriptor";
    if !is_alone(NAME) {
        return;
    }
    let (mut child, mut process) = sleeper();
    process.began += 1;
    let detector = Detector::new(0, &[Process::own(), process], None);
    let free = std::fs::File::open("/dev/null").expect("a free descriptor");
    let limit = u64::try_from(free.as_raw_fd()).expect("a number") + 1;
    drop(free);
    limited(limit, || detector.look(Duration::ZERO)).expect("unknown yet");
    let found = detector.look(Duration::from_millis(1)).map_err(|died| died.to_string());
    child.kill().and_then(|()| child.wait()).expect("ours");
    assert!(found.as_ref().is_err_and(|died| died.contains("rank 1")), "{found:?}");
}

/// Regression: where the program lowered the limit of descriptors below the number of ranks of
/// the node, no death was detected.
/// Shows E3.
#[test]
fn more_ranks_than_the_limit_of_descriptors_are_watched() {
    if !is_alone("failures::tests::more_ranks_than_the_limit_of_descriptors_are_watched") {
        return;
    }
    let (mut children, ranks): (Vec<_>, Vec<_>) = (0..3).map(|_| sleeper()).unzip();
    let detector = Detector::new(0, &[vec![Process::own()], ranks].concat(), None);
    detector.look(Duration::from_millis(1)).expect("all live");
    children[2].kill().expect("ours");
    let found = limited(2, || detector.look(Duration::from_secs(10))).map_err(|died| died.to_string());
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).expect("ours");
    }
    assert!(found.as_ref().is_err_and(|died| died.contains("rank 3")), "{found:?}");
}

/// Processes of other machines, or of an unknown machine, are not looked up on this machine:
/// their numbers have no meaning here.
#[test]
fn other_machines_are_not_watched() {
    let foreign = Process { kernel: "another".into(), pid: i32::MAX, ..Process::default() };
    let unknown = Process { kernel: String::new(), ..Process::own() };
    for [own, other] in
        [[Process::own(), foreign.clone()], [unknown.clone(), Process { pid: foreign.pid, ..unknown.clone() }]]
    {
        Detector::new(0, &[own, other], None)
            .look(Duration::from_millis(1))
            .expect("no process of this machine can die");
    }
}

/// Where the kernel gives no start times, pidfds still detect deaths.
/// Shows E3.
#[test]
fn processes_of_unknown_start_time_are_watched() {
    let (mut child, process) = sleeper();
    let detector = Detector::new(0, &[Process::own(), Process { began: 0, ..process }], None);
    detector.look(Duration::from_millis(1)).expect("it lives");
    child.kill().expect("ours");
    assert!(until_dead(&detector).contains("rank 1"));
    child.wait().expect("ours");
}
