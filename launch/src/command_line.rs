//! The command line of `transom-run`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use crate::hosts::{Host, REMOTE};
use crate::job::{Bind, Job};
use crate::outcome::LaunchError;
use crate::remote::serve as serve_remote;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, ValueEnum};

/// The text after the options in `--help`.
const AFTER_HELP: &str = "\
Examples:
  transom-run -n 4 ./app                   four ranks on this machine
  transom-run -n 4 --host a:2,b:2 ./app    two ranks on machine a, two on machine b

Several machines (--host): Each machine needs transom-run and the program at the same paths as on
this machine, and a network route to one of this machine's addresses. Ranks start in a directory
with the same path as the current directory. Ranks get the variables TRANSOM_..., FI_... and those
of --env, and an empty standard input. Ranks join the job with a secret, which appears on no command
line. If a machine does not answer for 6 s, it counts as lost, and the job ends.

The end of a job: When a rank fails, the others get SIGTERM (after --grace) and, a second later,
SIGKILL. When transom-run gets SIGINT, SIGTERM or SIGHUP, the ranks get SIGTERM at once and SIGKILL
a second later. A SIGINT while the job is ending kills the ranks at once. When transom-run is
killed, all processes in the ranks' process groups die with it.

Other signals: transom-run passes SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP and SIGCONT on to all ranks.
SIGTSTP also stops transom-run.

Environment of the ranks: Ranks find each other through PMI-1 (PMI_FD, PMI_RANK, PMI_SIZE; on other
machines PMI_PORT, PMI_ID). Ranks also get TRANSOM_LAUNCHER=transom-run and, if the standard error
is a terminal, TRANSOM_STDERR_IS_TERMINAL=1.

Exit status:
  0             all ranks exited with 0
  1             the job can't be started, or the standard output can't be written; or a rank exited
                with 0 without leaving the job, or while another rank waited for it in a barrier; or
                a rank sent something other than PMI-1 to the launcher
  2             wrong command line
  124           the time of --timeout was over
  126           PROGRAM, or the command of --launch-agent, can't be executed
  127           PROGRAM, or the command of --launch-agent, is not found
  128 + signal  a signal ended transom-run, or killed the first rank that failed
  141           the reader of the standard output closed it
  else          the status with which the first failed rank exited or aborted the job; or the status
                of the command of --launch-agent, if it ended before the ranks of its machine";

/// Start N ranks of a program, on this machine or on several, and wait for their end.
///
/// transom-run forwards the ranks' output in whole lines. Rank 0 reads the standard input; with
/// --host, no rank does. PROGRAM gets all arguments after its name unchanged.
#[derive(Debug, Parser)]
#[command(
    name = "transom-run",
    version,
    override_usage = "transom-run -n N [OPTIONS] PROGRAM [ARGS]...",
    after_help = AFTER_HELP
)]
struct Options {
    /// Number of ranks, at least 1
    #[arg(short = 'n', long = "ranks", visible_alias = "np", value_name = "N", value_parser = ranks)]
    ranks: usize,

    /// Put `[rank] ` before each line of output
    #[arg(long)]
    tag_output: bool,

    /// Start the ranks on these machines by the command of --launch-agent, filling one machine
    /// after the other. a:2,b:2 allows two ranks on each machine, a,b one rank on each. An IPv6
    /// address with a number of ranks stands in brackets: [fd00::1]:2
    #[arg(long, alias = "hosts", value_name = "HOST[:RANKS],...", value_parser = OsStringValueParser::new().try_map(hosts))]
    host: Option<Hosts>,

    /// The command that starts a program on another machine, as words separated by blanks. {host}
    /// stands for the machine's name; without {host} the name is added as the last word. The
    /// command starts transom-run on that machine, at the path that it has here, and must not ask
    /// questions at the terminal
    #[arg(long, alias = "agent", value_name = "COMMAND", default_value = "ssh -oBatchMode=yes", value_parser = OsStringValueParser::new().try_map(agent))]
    launch_agent: OsString,

    /// Bind ranks to the CPUs that the launcher may use. core: rank i to CPU i modulo the number of
    /// these CPUs; none: no binding. By default each rank is bound to a CPU of its own, among the
    /// CPUs to which no other transom-run has bound a rank; if these are too few, no rank is bound
    #[arg(long, value_enum)]
    bind: Option<Binding>,

    /// Set a variable in the environment of the ranks; may be given several times
    #[arg(long, value_name = "K=V", value_parser = OsStringValueParser::new().try_map(pair))]
    env: Vec<(OsString, OsString)>,

    /// End the job after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    timeout: Option<Duration>,

    /// After a rank has failed, give the others this much time to report the failure and to end by
    /// themselves
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    grace: Option<Duration>,

    /// The program to start, by path or name, and its arguments
    #[arg(value_name = "PROGRAM [ARGS]", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Binding {
    Core,
    None,
}

/// The value of `--host`.
#[derive(Debug, Clone)]
struct Hosts(Vec<Host>);

/// Runs `transom-run` with the arguments of this process, and returns its exit status.
pub fn main() -> ExitCode {
    crate::orphans::own_all_children();
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == REMOTE) && args.next().is_none() {
        // Another machine's launcher starts this program with this argument.
        return serve_remote().map_or_else(refused, ExitCode::from);
    }
    let options = Options::parse_from(as_mpi_users_type(std::env::args_os()));
    let mut command = options.command.into_iter();
    let program = command.next().unwrap_or_default();
    let mut job = Job::new(program, options.ranks).args(command).tag_output(options.tag_output);
    job = job.bind(match options.bind {
        None => Bind::Auto,
        Some(Binding::Core) => Bind::Core,
        Some(Binding::None) => Bind::None,
    });
    for (name, value) in options.env {
        job = job.env(name, value);
    }
    if let Some(limit) = options.timeout {
        job = job.timeout(limit);
    }
    job = job.grace(options.grace.unwrap_or_default());
    if let Some(Hosts(hosts)) = options.host {
        let own = std::env::current_exe().unwrap_or_else(|_| "transom-run".into());
        job = job.on(hosts, options.launch_agent, own);
    }
    job.run().map_or_else(refused, |outcome| outcome.status().into())
}

/// Accepts `-np 4` for `-n 4` before the program.
fn as_mpi_users_type(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const VALUED: [&str; 12] = [
        "-n",
        "--ranks",
        "--np",
        "--host",
        "--hosts",
        "--launch-agent",
        "--agent",
        "--bind",
        "--env",
        "--timeout",
        "--grace",
        "-np",
    ];
    let mut args: Vec<OsString> = args.collect();
    let mut at = 1;
    while let Some(arg) = args.get(at).filter(|arg| arg.as_bytes().starts_with(b"-") && *arg != "--") {
        let step = if VALUED.iter().any(|name| arg == name) { 2 } else { 1 };
        if let Some(rest) = arg.as_bytes().strip_prefix(b"-np") {
            args[at] = OsStr::from_bytes(&[b"-n", rest].concat()).to_owned();
        }
        at += step;
    }
    args
}

#[allow(clippy::needless_pass_by_value)] // as `map_or_else` gives it
fn refused(error: LaunchError) -> ExitCode {
    eprintln!("transom-run: {}", transom::diagnostics::chain(&error));
    error.status().into()
}

fn agent(text: OsString) -> Result<OsString, String> {
    if text.as_bytes().trim_ascii().is_empty() { Err("a command is needed".to_owned()) } else { Ok(text) }
}

#[allow(clippy::needless_pass_by_value)] // as clap gives it
fn hosts(text: OsString) -> Result<Hosts, String> {
    Host::list(&text).map(Hosts)
}

fn ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a job has at least 1 rank".to_owned()),
        Ok(ranks) => Ok(ranks),
        Err(_) => Err(format!("{text:?} is not a number of ranks, such as 4")),
    }
}

#[allow(clippy::needless_pass_by_value)] // as clap gives it
fn pair(text: OsString) -> Result<(OsString, OsString), String> {
    let bytes = text.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) if at > 0 => {
            let part = |bytes| OsStr::from_bytes(bytes).to_owned();
            Ok((part(&bytes[..at]), part(&bytes[at + 1..])))
        }
        _ => Err(format!("{text:?} is not NAME=VALUE, such as OMP_NUM_THREADS=4")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong = || format!("{text:?} is not a number of seconds above 0, such as 30 or 0.5");
    limit.filter(|limit| !limit.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::outcome::{Failure, Outcome};

    /// The text of the help for an exit status.
    fn meaning(status: u8) -> String {
        let (_, statuses) = AFTER_HELP.split_once("Exit status:\n").expect("the last paragraph");
        let mut found = String::new();
        let mut wanted = false;
        for line in statuses.lines() {
            let (key, text) = line.split_at(16);
            if !key.trim().is_empty() {
                wanted = key.trim() == status.to_string();
            }
            if wanted {
                found.extend([text, " "]);
            }
        }
        found
    }

    #[test]
    fn the_help_says_the_meaning_of_each_status() {
        let failed = |failure| Outcome::RankFailed { rank: 0, pid: 1, failure }.status();
        let lacks = |kind: io::ErrorKind| LaunchError::Agent { agent: "ssh".into(), source: kind.into() }.status();
        for (status, words) in [
            (Outcome::Success.status(), "all ranks"),
            (LaunchError::NoCpus.status(), "can't be started"),
            (Outcome::OutputFailed(String::new()).status(), "standard output"),
            (failed(Failure::NotFinalized), "without leaving the job"),
            (failed(Failure::LeftBarrier { waiting: 1 }), "waited for it in a barrier"),
            (Outcome::TimedOut.status(), "--timeout"),
            (lacks(io::ErrorKind::NotFound), "--launch-agent, is not found"),
            (lacks(io::ErrorKind::PermissionDenied), "--launch-agent, can't be executed"),
            (Outcome::OutputClosed.status(), "closed it"),
        ] {
            assert!(meaning(status).contains(words), "{status}: {:?} lacks {words:?}", meaning(status));
        }
    }
}
