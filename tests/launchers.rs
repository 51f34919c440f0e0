//! Programs under common launchers: Hydra, Open MPI's `mpirun`, PRRTE's `prterun`, and Slurm's
//! `srun` with both of its plugins. The tests cover each kind of epoch over both routes, the
//! failures of jobs, and launchers that can't be reached, which is an error at every rank. A test
//! whose launcher is not installed is ignored by name; `ci/slurm` runs this program under Slurm.
//!
//! Shows B2, B3.
//! Route: program.
#![allow(clippy::print_stdout)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Trial};
use transom_harness::{WATCHDOG, example, printed, trial};

#[path = "launchers/bodies.rs"]
mod bodies;
#[path = "launchers/epochs.rs"]
mod epochs;

/// A launcher's command line, up to the number of ranks.
struct Launcher {
    name: &'static str,
    call: &'static [&'static str],
}

static HYDRA: Launcher = Launcher { name: "hydra", call: &["mpiexec.hydra"] };
static HYDRA_PORT: Launcher = Launcher { name: "hydra_port", call: &["mpiexec.hydra", "-pmi-port"] };
static OPEN_MPI: Launcher = Launcher {
    name: "open_mpi",
    call: &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
};
static PRRTE: Launcher = Launcher {
    name: "prrte",
    call: &["prterun", "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"],
};
static SLURM_PMI2: Launcher = Launcher { name: "slurm_pmi2", call: &["srun", "--mpi=pmi2"] };
static SLURM_PMIX: Launcher = Launcher { name: "slurm_pmix", call: &["srun", "--mpi=pmix"] };

/// The variable in which a shell finds its rank.
const RANK: &str = "${PMI_RANK:-${PMI_ID:-$PMIX_RANK}}";

const RANKS: usize = 4;
/// Enough ranks for an exchange in groups.
const MANY: usize = 20;

/// A test of a launcher.
type LauncherTest = (&'static str, fn(&Launcher));

/// A test of a launcher on a route, which a wrapper around the rank's program sets.
type RouteTest = (&'static str, fn(&Launcher, &[&str]));

/// The tests of every launcher on every route.
const ON_ROUTES: [RouteTest; 5] =
    [("gups", gups), ("fence", fence), ("post_start", post_start), ("lock", lock), ("lock_all", lock_all)];

const ROUTES: [(&str, &[&str]); 2] =
    [("shm", &[]), ("tcp", &["env", "TRANSOM_TRANSPORTS=^shm", "TRANSOM_PROVIDER=tcp;ofi_rxm"])];

/// The tests of every launcher on one route.
const ON_ONE_ROUTE: [LauncherTest; 5] = [
    ("values_of_any_length", values_of_any_length),
    ("transom_perf_is_a_rank", perf),
    ("a_failing_rank_ends_the_job", failing_rank),
    ("an_abort_ends_the_job", abort),
    ("ranks_that_differ_in_transports", differing_transports),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [rank, body] = args.as_slice()
        && rank == "--rank"
    {
        let Err(error) = bodies::run(body) else { return ExitCode::SUCCESS };
        eprintln!("{body}: {error:#}");
        return ExitCode::from(bodies::STATUS);
    }
    let mut trials = vec![trial("no_launcher::a_server_that_is_gone", || {
        let mut rank = rank_of("fence");
        rank.envs([("PMIX_NAMESPACE", "gone"), ("PMIX_RANK", "0"), ("PMIX_SERVER_URI4", "gone.0;tcp4://127.0.0.1:9")]);
        refused(
            &rank.output().expect("it starts"),
            &["PMIx launcher that started this process", "PMIX_NAMESPACE=gone PMIX_RANK=0"],
        );
    })];
    for (launcher, own) in [
        (&HYDRA, &[("a_closed_connection", closed_connection as fn(&Launcher))][..]),
        (&HYDRA_PORT, &[]),
        (&OPEN_MPI, &[("a_missing_library", missing_library), ("a_server_that_is_gone", server_gone)]),
        (&PRRTE, &[("a_server_that_is_gone", server_gone)]),
        (&SLURM_PMI2, &[("a_contradiction", contradiction), ("no_plugin", no_plugin)]),
        (&SLURM_PMIX, &[("a_server_that_is_gone", server_gone)]),
    ] {
        trials.extend(launcher.trials(own));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn output(job: &mut Command) -> Output {
    job.output().expect("coreutils' timeout starts")
}

impl Launcher {
    fn trials(&'static self, own: &[LauncherTest]) -> Vec<Trial> {
        let name = self.name;
        if !self.is_here() {
            let why = if self.call[0] == "srun" { "ci_slurm_does_not_run_this" } else { "not_installed" };
            return vec![trial(format!("{name}::{why}"), || ()).with_ignored_flag(true)];
        }
        let routed = ROUTES.iter().flat_map(|&(route, through)| {
            let all = ON_ROUTES.iter();
            all.map(move |&(what, test)| trial(format!("{name}::{route}::{what}"), move || test(self, through)))
        });
        let others = ON_ONE_ROUTE.iter().chain(own);
        let others = others.map(|&(what, test)| trial(format!("{name}::{what}"), move || test(self)));
        routed.chain(others).collect()
    }

    fn is_here(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|folder| folder.join(self.call[0]).is_file());
        found && (self.call[0] != "srun" || std::env::var_os("SLURM_CONF").is_some())
    }

    /// Runs one of this project's programs as a job, under the command `through`.
    fn job(&self, through: &[&str], program: &Path, args: &[&str]) -> Output {
        self.job_of(RANKS, through, program, args)
    }

    fn job_of(&self, ranks: usize, through: &[&str], program: &Path, args: &[&str]) -> Output {
        let mut job = Command::new("timeout");
        job.args(["--verbose", "--kill-after=5", "55"]).args(self.call).args(["-n", &ranks.to_string()]);
        job.args(through).arg(program).args(args).stdin(Stdio::null());
        let Some(own) = self.own_folder() else { return output(&mut job) };
        job.env("TMPDIR", &own);
        let done = output(&mut job);
        fs::remove_dir_all(&own).expect("the job's folder");
        done
    }

    /// A folder for the files of one job. Open MPI 4 keeps them in one folder of all its jobs, and
    /// jobs that start at the same time fail where neither finds it.
    fn own_folder(&self) -> Option<PathBuf> {
        static JOBS: AtomicUsize = AtomicUsize::new(0);
        if self.name != OPEN_MPI.name {
            return None;
        }
        let job = JOBS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("transom-launchers-{}-{job}", std::process::id()));
        fs::create_dir(&folder).expect("a folder in the temporary directory");
        Some(folder)
    }

    fn succeeds(&self, through: &[&str], body: &str) {
        self.succeeds_with(RANKS, through, body);
    }

    fn succeeds_with(&self, ranks: usize, through: &[&str], body: &str) {
        let output = self.job_of(ranks, through, &this(), &["--rank", body]);
        let printed = printed(&output);
        assert!(output.status.success(), "{}\n{printed}", output.status);
        for rank in 0..ranks {
            assert!(printed.contains(&format!("joined as rank {rank} of {ranks}")), "{printed}");
        }
    }

    /// The job ends by itself, with a nonzero status, and prints these words.
    fn fails(&self, body: &str, words: &[&str]) {
        failed(&self.job(&[], &this(), &["--rank", body]), words);
    }

    /// The job ends as in `fails`, before any rank has joined a job.
    fn refuses(&self, script: &str, words: &[&str]) {
        let script = format!("{script}; exec \"$@\"");
        refused(&self.job(&["sh", "-c", &script, "sh"], &this(), &["--rank", "fence"]), words);
    }
}

fn failed(output: &Output, words: &[&str]) {
    let printed = printed(output);
    let is_stuck = ["timeout: sending signal", WATCHDOG].iter().any(|words| printed.contains(words));
    assert!(!is_stuck, "it did not end:\n{printed}");
    assert!(!output.status.success(), "{printed}");
    for word in words {
        assert!(printed.contains(word), "{word:?} is missing in\n{printed}");
    }
}

fn refused(output: &Output, words: &[&str]) {
    failed(output, words);
    assert!(!printed(output).contains("joined as rank"), "{}", printed(output));
}

fn gups(launcher: &Launcher, through: &[&str]) {
    let output = launcher.job(through, &example("gups"), &["8"]);
    let printed = printed(&output);
    assert!(output.status.success() && printed.contains("Verification: passed"), "{}\n{printed}", output.status);
    assert!(printed.contains(&format!("{RANKS} ranks")), "{printed}");
}

fn fence(launcher: &Launcher, through: &[&str]) {
    launcher.succeeds(through, "fence");
}

fn post_start(launcher: &Launcher, through: &[&str]) {
    launcher.succeeds(through, "post_start");
}

fn lock(launcher: &Launcher, through: &[&str]) {
    launcher.succeeds(through, "lock");
}

fn lock_all(launcher: &Launcher, through: &[&str]) {
    launcher.succeeds(through, "lock_all");
}

fn values_of_any_length(launcher: &Launcher) {
    launcher.succeeds_with(MANY, &[], "values");
}

/// `mpirun` starts the ranks itself here: one job, not one for each rank.
fn perf(launcher: &Launcher) {
    let program = example("gups").parent().and_then(Path::parent).map(|built| built.join("transom-perf"));
    let output = launcher.job(&[], &program.expect("where examples are"), &["cas_latency", "-i", "50", "--check"]);
    let printed = printed(&output);
    assert!(output.status.success(), "{}\n{printed}", output.status);
    assert_eq!(printed.matches("# transom-perf cas_latency").count(), 1, "{printed}");
}

fn failing_rank(launcher: &Launcher) {
    launcher.fails("fail", &[bodies::REASON]);
}

fn abort(launcher: &Launcher) {
    launcher.fails("abort", &[bodies::REASON]);
}

fn differing_transports(launcher: &Launcher) {
    let script = format!("test $(({RANK} % 2)) = 0 || export TRANSOM_TRANSPORTS=^shm");
    launcher.refuses(&script, &["the ranks differ in their settings", "shm=true", "shm=false"]);
}

fn closed_connection(launcher: &Launcher) {
    launcher.refuses("eval \"exec $PMI_FD<&-\"", &["PMI_FD=", "cannot be used", "the descriptor is not open"]);
}

/// The loader finds an empty file before the library.
fn missing_library(launcher: &Launcher) {
    let folder = std::env::temp_dir().join(format!("transom-without-pmix-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    fs::write(folder.join("libpmix.so.2"), "").expect("a temporary file");
    let script = format!("export LD_LIBRARY_PATH={}", folder.display());
    let done = std::panic::catch_unwind(|| {
        launcher.refuses(
            &script,
            &["PMIX_NAMESPACE=", "libpmix, which connects a process to a PMIx launcher", "apt-get install libpmix2"],
        );
    });
    drop(fs::remove_dir_all(folder));
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn server_gone(launcher: &Launcher) {
    let script = "for name in $(env | sed -n 's/^\\(PMIX_SERVER_URI[0-9]*\\)=.*/\\1/p'); \
                  do export \"$name=gone.0;tcp4://127.0.0.1:9\"; done";
    launcher.refuses(script, &["PMIX_NAMESPACE=", "127.0.0.1:9", "PMIx_Init failed"]);
}

/// Slurm started four tasks, but the variables state one.
fn contradiction(launcher: &Launcher) {
    let words = ["PMI says that the job has 1 ranks", "has 4 tasks (SLURM_STEP_NUM_TASKS)"];
    launcher.refuses("export PMI_SIZE=1 PMI_RANK=0", &words);
}

fn no_plugin(_: &Launcher) {
    let bare = Launcher { name: "slurm", call: &["srun", "--mpi=none"] };
    bare.refuses(":", &["Slurm", "SLURM_NTASKS=4", "srun --mpi=pmi2"]);
}

fn this() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// This program as a rank.
fn rank_of(body: &str) -> Command {
    let mut rank = Command::new(this());
    rank.args(["--rank", body]).stdin(Stdio::null());
    rank
}
