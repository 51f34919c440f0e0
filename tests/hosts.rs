//! Jobs over several machines, which are network namespaces of this one (`ci/hosts`); only a
//! network connects them. Where the system does not permit namespaces, all tests are ignored and
//! ci/test says so. The group `hosts` of ci/test runs the tests of other programs there too.
//!
//! Route: hosts.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use transom::{Job, Route, Window};
use transom_harness::{Outcome, printed, trial};

#[path = "hosts/launcher.rs"]
mod launcher;

/// Seconds; longer than any of these jobs takes on a busy machine.
const WATCHDOG: &str = "100";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [rank, body] = args.as_slice()
        && rank == "--rank"
    {
        return as_rank(body);
    }
    let tests: [(&str, fn()); 13] = [
        ("memory_within_and_the_net_between", memory_within_and_the_net_between),
        ("the_network_that_others_share_is_chosen", the_network_that_others_share_is_chosen),
        ("the_user_chooses_the_interfaces", the_user_chooses_the_interfaces),
        ("an_unreachable_address_is_named", an_unreachable_address_is_named),
        ("a_machine_that_vanishes_is_named", a_machine_that_vanishes_is_named),
        ("killed_hosts_leave_no_process", killed_hosts_leave_no_process),
        ("a_launcher_of_several_machines", launcher::several_machines),
        ("a_rank_that_dies_elsewhere_ends_the_job", launcher::dying_elsewhere),
        ("a_killed_launcher_ends_ranks_elsewhere", launcher::killed),
        ("a_signal_ends_ranks_elsewhere", launcher::signalled),
        ("processes_without_the_secret_do_not_join", launcher::strangers),
        ("a_death_that_is_reported_late_is_the_reason", launcher::late_report),
        ("a_machine_that_vanishes_ends_the_job", launcher::vanishing),
    ];
    let permitted = Command::new(hosts()).arg("--check").output().is_ok_and(|output| output.status.success());
    let trials = tests.map(|(name, test)| trial(name, test).with_ignored_flag(!permitted));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/hosts")
}

/// A job of `ranks` ranks, placed on two machines in turn, each of which runs `body`. Of the
/// shell's variables it gets those in `env`, which may distinguish ranks by `PMI_RANK`.
fn job(ranks: &str, body: &str, env: &str) -> Output {
    let own = std::env::current_exe().expect("a path");
    let script = format!("{env}\nexec \"$@\"");
    let mut command = Command::new(hosts());
    command.args(["-n", "2", "--", env!("CARGO_BIN_EXE_transom-test-run"), "-n", ranks, "--tag-output"]);
    command.args(["--bind", "none", "--timeout", WATCHDOG, "--grace", "60"]).arg(hosts()).arg("--enter-by-rank");
    command.args(["sh", "-c", &script, "sh"]).arg(own).args(["--rank", body]);
    for variable in transom::info::VARIABLES {
        command.env_remove(variable.name);
    }
    command.stdin(Stdio::null()).output().expect("it starts")
}

/// The output of the job, which must have succeeded.
fn success(ranks: &str, body: &str, env: &str) -> String {
    let output = job(ranks, body, env);
    let printed = printed(&output);
    assert!(output.status.success(), "{}: {printed}", output.status);
    printed
}

fn as_rank(body: &str) -> ExitCode {
    let body: fn(&Job) -> Outcome = match body {
        "exchange" => |world| exchange(world, |one, other| one % 2 == other % 2),
        "exchange_of_blocks" => |world| exchange(world, |one, other| one / 2 == other / 2),
        "vanish" => vanish,
        other => panic!("no body is called {other:?}"),
    };
    let done = transom::init().map_err(Into::into).and_then(|world| {
        // A rank that got an error can't leave the job collectively.
        body(&world).inspect_err(|_| std::mem::forget(world.clone()))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reported: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Every rank puts to every rank, and adds at the first; each uses memory within its machine and
/// the net to the other machine.
fn exchange(world: &Job, share: fn(usize, usize) -> bool) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    for rank in 0..size {
        let expected = match rank {
            own if own == me => Route::Own,
            other if share(other, me) => Route::Shm,
            _ => Route::Net,
        };
        assert_eq!(world.route(rank)?, expected, "from {me} to {rank}");
    }
    let win = Window::<u64>::allocate(world, size + 1)?;
    for round in 1..=20 {
        win.lock_all(|epoch| {
            for rank in 0..size {
                epoch.put_value(rank, me, (round * size + me) as u64)?;
            }
            epoch.fetch_add(0, size, 1).map(drop)
        })?;
        world.barrier()?;
        win.sync();
        let mut seen = vec![0; size + 1];
        win.load(0, &mut seen)?;
        let expected: Vec<_> = (0..size).map(|rank| (round * size + rank) as u64).collect();
        assert_eq!(seen[..size], expected, "at {me} in round {round}");
        if me == 0 {
            assert_eq!(seen[size], (round * size) as u64);
        }
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// The last rank disconnects its machine from the network, and all ranks wait for each other.
fn vanish(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == world.size() - 1 {
        let down = Command::new("ip").args(["link", "set", "eth0", "down"]).status()?;
        assert!(down.success());
    }
    win.fence(|_| Ok(()))?;
    Ok(win.free()?)
}

/// Shows W1, O1, T1, T3.
fn memory_within_and_the_net_between() {
    let text = success("5", "exchange", "export TRANSOM_INFO=1");
    assert!(text.contains("2 ranks of its node: shared memory") && text.contains("2 other ranks: libfabric"), "{text}");
}

/// hosta has two more networks: one that no other machine has, and one that exists on every machine
/// and connects none. Their names sort first.
/// Shows T3, T5.
fn the_network_that_others_share_is_chosen() {
    let text = success("2", "exchange", "export TRANSOM_INFO=1");
    assert!(text.contains("at eth0=10.77.0.1/24"), "{text}");
}

/// Shows T3, T5.
fn the_user_chooses_the_interfaces() {
    for list in ["eth0", "10.77.0.0/16", "^docker0,alone0"] {
        let text = success("2", "exchange", &format!("export TRANSOM_INFO=1 TRANSOM_NET_INTERFACES={list}"));
        assert!(text.contains("at eth0=10.77.0.1/24"), "{list}: {text}");
    }
    let output = job("2", "exchange", "export TRANSOM_NET_INTERFACES=eth7");
    let text = printed(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("TRANSOM_NET_INTERFACES=eth7: no interface in the list is up"), "{text}");
    assert!(text.contains("eth0=10.77.0."), "{text}");
}

/// The first rank is made to publish an address to which the other machine's packets are lost; the
/// user sets the time after which silence is an error.
/// Shows E3, T3.
fn an_unreachable_address_is_named() {
    let setup = "export TRANSOM_SILENCE=3; [ $PMI_RANK = 1 ] || export TRANSOM_NET_INTERFACES=alone0";
    let output = job("2", "exchange", setup);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for part in [
        "[1] reported: rank 0 on hosta can't be reached at 10.99.0.1 from eth0=10.77.0.2/24: ",
        "[0] reported: rank 1 on hostb can't be reached at 10.77.0.2 from alone0=10.99.0.1/24: ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.contains("no answer within 3 s"), "{text}");
}

/// No process has ended and no connection was closed, but the machine does not answer any more.
/// Shows E3.
fn a_machine_that_vanishes_is_named() {
    let output = job("4", "vanish", "");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for rank in [0, 2] {
        let one = |lost| {
            text.contains(&format!("[{rank}] reported: rank {lost} on hostb can't be reached at 10.77.0.2 from "))
        };
        assert!(one(1) || one(3) || neighbour_died(&text, rank), "rank {rank} reported no error:\n{text}");
    }
}

/// A rank may name its neighbour, which detected the vanished rank earlier and ended.
fn neighbour_died(text: &str, rank: usize) -> bool {
    let neighbour = (rank + 2) % 4;
    text.contains(&format!("[{rank}] reported: rank {neighbour} on hosta died"))
        && text.contains(&format!("[{neighbour}] reported: "))
}

/// Kills the namespaces' first process by SIGKILL while the machines work.
/// Shows E4.
fn killed_hosts_leave_no_process() {
    let links = || printed(&Command::new("ip").args(["-oneline", "link", "show"]).output().expect("iproute2"));
    let names = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| line.split(':').nth(1)).map(|name| name.trim().to_owned()).collect()
    };
    let before = names(&links());
    let script = r#"for host in hosta hostb; do "$TRANSOM_TEST_ENTER" --enter $host readlink /proc/self/ns/net; done
                    readlink /proc/self/ns/net; sleep 1000"#;
    let mut child = Command::new(hosts())
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let namespaces: BTreeSet<String> = lines.take(3).map(|line| line.expect("text")).collect();
    assert_eq!(namespaces.len(), 3, "two hosts and the network between: {namespaces:?}");
    assert!(!members(&namespaces).is_empty(), "they live");
    child.kill().expect("ours");
    child.wait().expect("ours");
    let limit = Instant::now() + Duration::from_secs(60);
    while !members(&namespaces).is_empty() {
        assert!(Instant::now() < limit, "processes {:?} are left", members(&namespaces));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(names(&links()), before);
}

/// The processes of these network namespaces. The kernel removes a namespace without processes,
/// with its interfaces.
fn members(namespaces: &BTreeSet<String>) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let member = |process: &std::fs::DirEntry| {
        let link = std::fs::read_link(process.path().join("ns/net")).unwrap_or_default();
        namespaces.contains(&*link.to_string_lossy())
    };
    processes.filter(member).map(|process| process.file_name().to_string_lossy().into_owned()).collect()
}
