//! The program `transom-run`: a command line over `transom::launch`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use transom::launch::{Bind, Host, Job, LaunchError, REMOTE, serve_remote};

/// Start N ranks of a program, on this machine or on several, and see them to their end.
///
/// Lines of the ranks' output are forwarded whole. Rank 0 reads the standard input, but with --host. Everything after PROGRAM is
/// passed to it untouched.
#[derive(Debug, Parser)]
#[command(
    version,
    override_usage = "transom-run -n N [OPTIONS] PROGRAM [ARGS]...",
    after_help = "Ranks find each other through PMI-1 (PMI_FD, PMI_RANK, PMI_SIZE; on other machines PMI_PORT, PMI_ID), and see \
TRANSOM_LAUNCHER=transom-run and, if the standard error is a terminal, TRANSOM_STDERR_IS_TERMINAL=1.\n\
Ranks on machines of --host start in the folder of the same name, with the variables TRANSOM_..., FI_... and those of --env, and \
read no input. Each machine needs transom-run and the program by the same paths, and a way to one of this machine's addresses, \
where ranks join with a secret that is on no command line. A machine that is silent for 6 s is lost, and ends the job.\n\
When a rank fails, the others get SIGTERM (after --grace) and, a second later, SIGKILL; so they do on SIGINT (at once on a second \
one), SIGTERM or SIGHUP to transom-run. When transom-run is killed, all processes of the ranks' process group die \
with it.\n\n\
Exit status: 0 if all ranks exit with 0, else that of the first rank that fails (128 + signal if a signal killed \
it); 128 + signal if transom-run is told to end; 124 after --timeout; 127 if PROGRAM is not found, 126 if it cannot \
be executed; 2 for a wrong command line."
)]
struct Options {
    /// Number of ranks, at least 1
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = ranks)]
    ranks: usize,

    /// Put `[rank] ` before each line of output
    #[arg(long)]
    tag_output: bool,

    /// Put the ranks onto these machines, which --launch-agent reaches, filling each in turn: a:2,b:2, or a,b with one rank each
    #[arg(long, alias = "hosts", value_name = "HOST[:RANKS],...", value_parser = hosts)]
    host: Option<Hosts>,

    /// What reaches a machine, as a command whose words are divided by blanks; {host} in them is its name, else that comes after them.
    /// It starts transom-run there, by the path that it has here
    #[arg(long, alias = "agent", value_name = "COMMAND", default_value = "ssh", value_parser = agent)]
    launch_agent: String,

    /// Bind ranks to CPUs, round robin, or not at all; default: rank i to CPU i if there are enough, else not at all
    #[arg(long, value_enum)]
    bind: Option<Binding>,

    /// Set a variable in the environment of the ranks; may be given several times
    #[arg(long, value_name = "K=V", value_parser = pair)]
    env: Vec<(String, String)>,

    /// End the job after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    timeout: Option<Duration>,

    /// Once a rank has failed, leave the others so long to tell what they see of it, and to end by themselves
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

/// The list of an option.
#[derive(Debug, Clone)]
struct Hosts(Vec<Host>);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == REMOTE) && args.next().is_none() {
        // As another machine's launcher starts this one.
        return serve_remote().map_or_else(refused, ExitCode::from);
    }
    let options = Options::parse();
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

#[allow(clippy::needless_pass_by_value)] // as `map_or_else` gives it
fn refused(error: LaunchError) -> ExitCode {
    eprintln!("transom-run: {error}");
    error.status().into()
}

fn agent(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("a command is needed".to_owned()) } else { Ok(text.to_owned()) }
}

fn hosts(text: &str) -> Result<Hosts, String> {
    Host::list(text).map(Hosts)
}

fn ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a job has at least 1 rank".to_owned()),
        Ok(ranks) => Ok(ranks),
        Err(_) => Err("a number of ranks is needed".to_owned()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is needed".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| "a positive number of seconds is needed".to_owned())
}
