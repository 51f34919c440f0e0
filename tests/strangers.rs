//! Processes outside a job attack it over sockets, while the job runs and checks its own data. A
//! process of another user guesses keys of regions and forges messages; connections send nonsense,
//! hang or close; many connections arrive where descriptors are few. The data stays unchanged, the
//! job ends with success, and the attacks cause at most one line of output.
//!
//! Route: tcp.
#![allow(clippy::print_stdout)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use transom_harness::trial;

#[allow(unsafe_code)]
#[path = "strangers/intruder.rs"]
mod intruder;
#[path = "strangers/listeners.rs"]
mod listeners;
#[path = "strangers/sockets.rs"]
mod sockets;
#[path = "strangers/victim.rs"]
mod victim;

/// Longer than any of these jobs takes on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--rank", stop] => return victim::main(stop),
        ["--intruder", what, ports @ ..] => return intruder::main(what, ports),
        _ => {}
    }
    let tests: [(&str, fn()); 8] = [
        ("guessed_keys_give_no_access", guessed_keys_give_no_access),
        ("forged_messages_change_no_memory", forged_messages_change_no_memory),
        ("random_bytes_at_every_listener", random_bytes_at_every_listener),
        ("many_connections_where_descriptors_are_few", many_connections_where_descriptors_are_few),
        ("many_connections_to_the_launcher", many_connections_to_the_launcher),
        ("on_one_machine_no_socket_listens", on_one_machine_no_socket_listens),
        ("too_few_descriptors_name_the_limit", too_few_descriptors_name_the_limit),
        ("a_low_soft_limit_is_raised", a_low_soft_limit_is_raised),
    ];
    let trials = tests.map(|(name, test)| trial(name, test));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// A job of [`victim`]s that work until a stop request, or until this value is dropped.
struct Victims {
    /// `None`: it has ended.
    launcher: Option<Child>,
    printed: BufReader<ChildStdout>,
    stop: PathBuf,
    /// The ranks' processes.
    pids: Vec<u32>,
}

/// A job of this program's ranks, and the file at which the ranks stop. `shell` starts the job: a
/// script in which `"$@"` is the launcher with its options, `$own` this program as a rank, and
/// `$stop` that file.
fn job(name: &str, ranks: usize, shell: &str) -> (Command, PathBuf) {
    let own = std::env::current_exe().expect("a path of this program");
    let stop = std::env::temp_dir().join(format!("transom-{}-{name}", std::process::id()));
    let mut command = Command::new("bash");
    command.args(["-c", shell, "bash", env!("CARGO_BIN_EXE_transom-test-run"), "-n", &ranks.to_string()]);
    command.args(["--bind", "none", "--timeout", &WATCHDOG.as_secs().to_string()]);
    command.env("own", format!("{} --rank {}", own.display(), stop.display())).env("stop", &stop);
    command.env("TRANSOM_TRANSPORTS", "^shm");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, stop)
}

impl Victims {
    /// Starts the job as [`job`] describes, and waits until its ranks work.
    fn start(name: &str, ranks: usize, shell: &str) -> Victims {
        let mut victims = Victims::spawn(name, ranks, shell);
        victims.wait_for(ranks);
        victims
    }

    /// Starts the ranks.
    fn spawn(name: &str, ranks: usize, shell: &str) -> Victims {
        let (mut command, stop) = job(name, ranks, shell);
        let mut launcher = command.spawn().expect("a shell");
        let printed = BufReader::new(launcher.stdout.take().expect("piped"));
        Victims { launcher: Some(launcher), printed, stop, pids: Vec::new() }
    }

    /// Waits until the ranks work.
    fn wait_for(&mut self, ranks: usize) {
        while self.pids.len() < ranks {
            let mut line = String::new();
            if self.printed.read_line(&mut line).expect("a pipe") == 0 {
                let mut why = String::new();
                let stderr = self.launcher.as_mut().and_then(|launcher| launcher.stderr.take());
                let _ = stderr.expect("piped").read_to_string(&mut why);
                panic!("the job ended before it began: {why}");
            }
            self.pids.extend(line.trim().strip_prefix("ready ").map(|pid| pid.parse::<u32>().expect("a number")));
        }
    }

    /// The TCP ports at which the ranks listen.
    fn ports(&self) -> Vec<u16> {
        self.pids.iter().flat_map(|&pid| listeners::of(pid)).map(|listener| listener.port).collect()
    }

    /// Stops the ranks, which must end with success; returns the lines that they and the launcher
    /// wrote on standard error.
    fn stop(mut self) -> Vec<String> {
        std::fs::write(&self.stop, "").expect("a temporary file");
        let mut rest = String::new();
        self.printed.read_to_string(&mut rest).expect("a pipe");
        let launcher = self.launcher.take().expect("it runs");
        let Output { status, stderr, .. } = launcher.wait_with_output().expect("its end");
        let printed = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "{status}: {printed}");
        assert_eq!(rest.matches("unharmed\n").count(), self.pids.len(), "{rest}{printed}");
        printed.lines().map(str::to_owned).collect()
    }

    /// The launcher's process.
    fn launcher(&self) -> u32 {
        self.launcher.as_ref().expect("it runs").id()
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        // A failed test leaves the launcher, which ends the ranks.
        if let Some(mut launcher) = self.launcher.take() {
            let _ = launcher.kill();
            let _ = launcher.wait();
        }
        let _ = std::fs::remove_file(&self.stop);
    }
}

/// The output of a process outside the job that does `what` to the ports. It runs as another user
/// if this process may become one.
fn intrude(what: &str, ports: &[u16]) -> String {
    let own = std::env::current_exe().expect("a path of this program");
    let mut command = Command::new(own);
    command.args(["--intruder", what]).args(ports.iter().map(ToString::to_string));
    let output = command.stdin(Stdio::null()).output().expect("this program");
    let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", output.status, printed(&output.stderr));
    printed(&output.stdout)
}

/// A process of another user tries the keys 0 to 1000 on each endpoint of a running job: to read,
/// and to write.
fn guessed_keys_give_no_access() {
    let victims = Victims::start("keys", 2, "exec \"$@\" $own");
    let ports = victims.ports();
    assert!(!ports.is_empty(), "ranks over sockets listen");
    let printed = intrude("keys", &ports);
    let warnings = victims.stop();
    assert!(!printed.contains("read") && !printed.contains("wrote"), "{printed}");
    assert_eq!(printed.matches("tried 1001 keys").count(), ports.len(), "{printed}");
    assert_few(&warnings);
}

/// Each rank prints at most one line about strangers, and one about the end of their connections,
/// which the provider may report as a failed receive.
fn assert_few(warnings: &[String]) {
    for what in ["a process outside of this job", "a message could not be received"] {
        assert!(warnings.iter().filter(|line| line.contains(what)).count() <= 2, "too many lines: {warnings:?}");
    }
    assert!(warnings.len() <= 4, "other lines: {warnings:?}");
}

/// A process of another user sends messages as rank 0 and rank 1 would, to windows with the numbers
/// that windows have.
fn forged_messages_change_no_memory() {
    let victims = Victims::start("messages", 2, "exec \"$@\" $own");
    let printed = intrude("messages", &victims.ports());
    let warnings = victims.stop();
    assert!(printed.contains("sent"), "{printed}");
    assert!(
        warnings.iter().any(|line| line.contains("refused a message from a process outside of this job")),
        "none came"
    );
    assert_few(&warnings);
}

/// Connections that send nonsense, that hang, and that close at once, on every port of the job,
/// again and again.
fn random_bytes_at_every_listener() {
    let victims = Victims::start("nonsense", 2, "exec \"$@\" $own");
    let until = Instant::now() + Duration::from_secs(2);
    let mut hanging = Vec::new();
    while Instant::now() < until {
        for port in victims.ports() {
            hanging.extend(sockets::open_hostile(port));
        }
    }
    assert!(!hanging.is_empty());
    let printed = victims.stop();
    assert!(printed.len() <= 2, "a line for each rank at most: {printed:?}");
}

/// More connections than a rank has descriptors: its connections with its peers keep working.
fn many_connections_where_descriptors_are_few() {
    let victims = Victims::start("flood", 2, "exec \"$@\" bash -c \"ulimit -n 64; exec $own\"");
    let open: Vec<_> = victims.ports().into_iter().flat_map(sockets::many).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(open.len() >= 64, "{} connections", open.len());
    let printed = victims.stop();
    assert!(printed.len() <= 2, "a line for each rank at most: {printed:?}");
}

/// The launcher of ranks on other machines listens at the interface that leads to them until all
/// ranks have joined. Meanwhile it gets more connections from outside than it has descriptors. They
/// keep no rank from joining, and the launcher does not spin.
fn many_connections_to_the_launcher() {
    let mut victims = Victims::spawn(
        "launcher",
        2,
        r#"ulimit -n 60; exec "$@" --host 127.0.0.1:2 --launch-agent "env PART={host}" \
               bash -c "while [ ! -e $stop.go ]; do sleep 0.05; done; exec $own""#,
    );
    let (launcher, until) = (victims.launcher(), Instant::now() + Duration::from_secs(20));
    let mut listeners = Vec::new();
    while listeners.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        listeners = listeners::of(launcher);
    }
    assert!(matches!(&listeners[..], [one] if one.address == listeners::LOOPBACK), "{listeners:?}");
    let open = sockets::many(listeners[0].port);
    assert!(open.len() > 60, "{} connections", open.len());
    let before = listeners::ticks(launcher);
    std::thread::sleep(Duration::from_secs(1));
    let busy = listeners::ticks(launcher) - before;
    assert!(busy < 30, "{busy} ticks of a second, with nothing to do");
    let go = victims.stop.with_file_name(format!("{}.go", victims.stop.file_name().expect("a file").display()));
    std::fs::write(&go, "").expect("a temporary file");
    victims.wait_for(2);
    let left = listeners::of(launcher);
    let printed = victims.stop();
    let _ = std::fs::remove_file(go);
    assert!(left.is_empty(), "all have joined: {left:?}");
    assert!(printed.len() <= 2, "{printed:?}");
    drop(open);
}

/// A job on one machine opens no TCP port, neither in its launcher nor in its ranks.
fn on_one_machine_no_socket_listens() {
    let victims = Victims::start("memory", 2, "export TRANSOM_TRANSPORTS=shm,ofi; exec \"$@\" $own");
    let all = [&victims.pids[..], &[victims.launcher()]].concat();
    let listeners: Vec<_> = all.into_iter().flat_map(listeners::of).collect();
    assert!(victims.stop().is_empty() && listeners.is_empty(), "{listeners:?}");
}

fn too_few_descriptors_name_the_limit() {
    let (mut command, _) = job("few", 2, "exec \"$@\" bash -c \"ulimit -n 24; exec $own\"");
    let output = command.output().expect("a shell");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{printed}");
    for part in
        ["needs at least ", "file descriptors for 2 ranks", "(RLIMIT_NOFILE) is 24, the hard limit 24", "ulimit -n "]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

fn a_low_soft_limit_is_raised() {
    let victims = Victims::start("soft", 2, "exec \"$@\" bash -c \"ulimit -Sn 24; exec $own\"");
    assert!(victims.stop().is_empty());
}

/// Flushes the output of a process of a test.
fn print_flushed(what: &str) {
    println!("{what}");
    let _ = std::io::stdout().flush();
}
