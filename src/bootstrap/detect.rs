//! Chooses the [`Bootstrap`] for the launcher that started this process, by the environment. A
//! launcher that is detected but can't be reached is an error: a job of many ranks must never
//! become many jobs of one rank.

use std::path::Path;

use super::pmi1::{Pmi1, SECRET};
use super::pmix::Pmix;
use super::solo::Solo;
use super::{Bootstrap, BootstrapError};

/// The connection to the launcher of this process: [`Pmi1`] where `PMI_FD` or `PMI_PORT` is set,
/// [`Pmix`] where `PMIX_NAMESPACE` is set and no socket at `PMI_FD` is open, [`Solo`] where no
/// launcher is detected. Takes the inherited descriptor, so it works once per process.
///
/// # Errors
/// A launcher that gave no connection to the other ranks (the message names it and gives advice),
/// invalid or contradictory variables, a `PMI_FD` without an answer within 30 s, a PMIx server that
/// cannot be reached.
pub fn detect() -> Result<Box<dyn Bootstrap>, BootstrapError> {
    let read = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    match choose(&read, &is_socket)? {
        Choice::Pmi1 { fd, rank, size } => Ok(Box::new(Pmi1::inherit(fd, rank, size)?)),
        Choice::Pmix { evidence } => {
            let pmix = Pmix::join(evidence)?;
            agree_with_slurm(&read, &PMIX_OF_SLURM, pmix.size())?;
            Ok(Box::new(pmix))
        }
        Choice::Port { port, id } => Ok(Box::new(Pmi1::connect(&port, id, read(SECRET).as_deref())?)),
        Choice::Solo => Ok(Box::new(Solo::new())),
    }
}

/// Whether a launcher is detected, even one that gave no connection to the other ranks. [`detect`]
/// then makes this process a rank, or fails. For programs that start their own ranks if no launcher
/// did.
pub fn is_launched() -> bool {
    let read = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    !matches!(choose(&read, &is_socket), Ok(Choice::Solo))
}

/// The kind of bootstrap that the environment selects.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Pmi1 { fd: i32, rank: usize, size: usize },
    Pmix { evidence: String },
    Port { port: String, id: usize },
    Solo,
}

const ADVICE_PMI: &str = "start it with transom-run -n N PROGRAM, or with a launcher that passes PMI_FD, such as \
                          the mpiexec of MPICH (Hydra)";
const ADVICE_PMIX: &str = "start it with mpirun, prterun, srun --mpi=pmix or transom-run -n N PROGRAM; for a job of one \
                           rank, unset the variables";
const ADVICE_SLURM: &str = "start it with srun --mpi=pmi2 or srun --mpi=pmix, or within one node with transom-run -n N PROGRAM; for a \
                            job of one rank inside an allocation, unset SLURM_PROCID";

/// Whether a descriptor of this process, as text, is an open socket.
fn is_socket(fd: &str) -> bool {
    std::fs::read_link(Path::new("/proc/self/fd").join(fd)).is_ok_and(|of| of.to_string_lossy().starts_with("socket:"))
}

/// `is_socket`: whether a number is that of an open socket.
fn choose(read: &dyn Fn(&str) -> Option<String>, is_socket: &dyn Fn(&str) -> bool) -> Result<Choice, BootstrapError> {
    let by_pmix = read("PMIX_RANK").is_some() && read("PMIX_NAMESPACE").is_some();
    // A launcher that closes inherited descriptors may pass on the variable of another launcher, in
    // whose task it was started.
    if let Some(fd) = read("PMI_FD")
        && (!by_pmix || is_socket(fd.trim()))
    {
        return pmi1(read);
    }
    let seen = |names: &[&str]| {
        let pairs = names.iter().filter_map(|name| read(name).map(|value| format!("{name}={value}")));
        pairs.collect::<Vec<_>>().join(" ")
    };
    let refuse = |launcher, names: &[&str], advice| {
        Err(BootstrapError::UnsupportedLauncher { launcher, evidence: seen(names), advice })
    };
    let many = |name: &str| read(name).is_some_and(|value| value.trim() != "1");
    if let Some(port) = read("PMI_PORT") {
        return Ok(Choice::Port { port, id: number(read, "PMI_ID")? });
    }
    if by_pmix {
        return Ok(Choice::Pmix { evidence: seen(&["PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI4"]) });
    }
    if read("PMIX_RANK").is_some() || read("PMIX_NAMESPACE").is_some() {
        return refuse(
            "a PMIx launcher that set only some of its variables",
            &["PMIX_RANK", "PMIX_NAMESPACE"],
            ADVICE_PMIX,
        );
    }
    if many("OMPI_COMM_WORLD_SIZE") {
        let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
        return refuse("mpirun of Open MPI", &names, ADVICE_PMIX);
    }
    if read("SLURM_PROCID").is_some() && many("SLURM_NTASKS") {
        return refuse("Slurm", &["SLURM_PROCID", "SLURM_NTASKS"], ADVICE_SLURM);
    }
    if read("PMI_RANK").is_some() && many("PMI_SIZE") {
        return refuse("a PMI launcher", &["PMI_RANK", "PMI_SIZE"], ADVICE_PMI);
    }
    Ok(Choice::Solo)
}

fn pmi1(read: &dyn Fn(&str) -> Option<String>) -> Result<Choice, BootstrapError> {
    let fd = number(read, "PMI_FD")?;
    let size: usize = number(read, "PMI_SIZE")?;
    let rank: usize = number(read, "PMI_RANK")?;
    let wrong = |variable, value: usize, why: String| {
        Err(BootstrapError::Environment { variable, found: format!("{value:?}"), why })
    };
    if size == 0 {
        return wrong("PMI_SIZE", size, "a job has at least one rank".to_owned());
    }
    if rank >= size {
        return wrong("PMI_RANK", rank, format!("ranks of a job of PMI_SIZE={size} are 0 to {}", size - 1));
    }
    agree_with_slurm(read, &PMI_OF_SLURM, size)?;
    Ok(Choice::Pmi1 { fd, rank, size })
}

/// The name of a protocol, and the test that Slurm itself opened the connection: a variable that
/// consists of `prefix` and Slurm's numbers of job and step.
struct Way {
    name: &'static str,
    variable: &'static str,
    prefix: &'static str,
}

const PMI_OF_SLURM: Way = Way { name: "PMI", variable: "PMI_JOBID", prefix: "" };
const PMIX_OF_SLURM: Way = Way { name: "PMIx", variable: "PMIX_NAMESPACE", prefix: "slurm.pmix." };

/// Compares Slurm's number of tasks with the `size` that one of its plugins gave. Other launchers
/// start any number of ranks within a step; the plugin is not Slurm's then.
fn agree_with_slurm(read: &dyn Fn(&str) -> Option<String>, way: &Way, size: usize) -> Result<(), BootstrapError> {
    let (Some(job), Some(step), Some(tasks)) =
        (read("SLURM_JOB_ID"), read("SLURM_STEP_ID"), read("SLURM_STEP_NUM_TASKS"))
    else {
        return Ok(());
    };
    let of_step = read(way.variable).is_some_and(|value| value == format!("{}{job}.{step}", way.prefix));
    // Hydra and transom-run; tasks of a heterogeneous job are counted by component.
    let within = ["MPI_LOCALNRANKS", "TRANSOM_LAUNCHER", "SLURM_HET_SIZE"].iter().any(|name| read(name).is_some());
    if !of_step || within || tasks.trim() == size.to_string() {
        return Ok(());
    }
    let first = format!("{} says that the job has {size} ranks", way.name);
    let second = format!("Slurm says that its step {job}.{step} has {tasks} tasks (SLURM_STEP_NUM_TASKS)");
    Err(BootstrapError::Contradiction { first, second, advice: ADVICE_SLURM })
}

fn number<T: std::str::FromStr>(
    read: &dyn Fn(&str) -> Option<String>,
    variable: &'static str,
) -> Result<T, BootstrapError> {
    let Some(text) = read(variable) else {
        let why = "a launcher that sets PMI_FD or PMI_PORT sets it too".to_owned();
        return Err(BootstrapError::Environment { variable, found: "not set".to_owned(), why });
    };
    text.trim().parse().map_err(|_| {
        let why = "the value must be a number in range".to_owned();
        BootstrapError::Environment { variable, found: format!("{text:?}"), why }
    })
}

#[cfg(test)]
mod tests {
    use super::{BootstrapError, Choice, PMI_OF_SLURM, PMIX_OF_SLURM, agree_with_slurm, choose};

    /// Variables with their values.
    type Pairs<'a> = &'a [(&'a str, &'a str)];

    /// A descriptor that is not open.
    const CLOSED: &str = "99";

    fn with(pairs: Pairs<'_>) -> Result<Choice, BootstrapError> {
        let read = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        choose(&read, &|fd| fd != CLOSED)
    }

    /// Shows B3.
    #[test]
    fn without_a_launcher_the_job_has_one_rank() {
        assert_eq!(with(&[]).unwrap(), Choice::Solo);
        assert_eq!(with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]).unwrap(), Choice::Solo);
        assert_eq!(with(&[("SLURM_NTASKS", "8")]).unwrap(), Choice::Solo);
    }

    #[test]
    fn pmi_fd_wins_over_every_other_sign() {
        let pairs =
            [("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        assert_eq!(with(&pairs).unwrap(), Choice::Pmi1 { fd: 7, rank: 1, size: 2 });
    }

    #[test]
    fn a_port_is_taken_with_the_number_that_the_launcher_knows() {
        let port = with(&[("PMI_PORT", "h:1"), ("PMI_ID", "3"), ("PMI_RANK", "7"), ("PMI_SIZE", "8")]).unwrap();
        assert_eq!(port, Choice::Port { port: "h:1".into(), id: 3 });
        assert!(with(&[("PMI_PORT", "h:1")]).unwrap_err().to_string().contains("PMI_ID is not set"));
    }

    #[test]
    fn pmix_is_taken_where_both_variables_are() {
        let pairs = [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "prte"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        assert_eq!(with(&pairs).unwrap(), Choice::Pmix { evidence: "PMIX_NAMESPACE=prte PMIX_RANK=1".to_owned() });
    }

    /// `mpirun` in a task of `srun --mpi=pmi2` passes Slurm's variables on, and no descriptor.
    #[test]
    fn pmix_is_taken_where_an_inherited_descriptor_is_closed() {
        let pmix = [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "prte"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        let with_fd = |fd| with(&[&pmix[..], &[("PMI_FD", fd)]].concat()).unwrap();
        assert!(matches!(with_fd(CLOSED), Choice::Pmix { .. }));
        assert_eq!(with_fd("4"), Choice::Pmi1 { fd: 4, rank: 0, size: 1 });
        let without_pmix = with(&[("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("PMI_FD", CLOSED)]).unwrap();
        assert_eq!(without_pmix, Choice::Pmi1 { fd: 99, rank: 0, size: 1 });
    }

    /// Shows B3.
    #[test]
    fn launchers_without_a_supported_protocol_are_named_with_advice() {
        let cases: [(Pairs<'_>, &str, &str); 5] = [
            (&[("PMIX_RANK", "0")], "PMIX_RANK=0", "unset the variables"),
            (&[("PMIX_NAMESPACE", "prte")], "PMIX_NAMESPACE=prte", "srun --mpi=pmix"),
            (&[("OMPI_COMM_WORLD_SIZE", "2")], "OMPI_COMM_WORLD_SIZE=2", "srun --mpi=pmix"),
            (&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], "Slurm", "unset SLURM_PROCID"),
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "4")], "PMI_RANK=0 PMI_SIZE=4", "PMI_FD"),
        ];
        for (pairs, seen, advice) in cases {
            let text = with(pairs).unwrap_err().to_string();
            assert!(
                text.contains(seen) && text.contains(advice) && text.contains("no connection to the other ranks"),
                "{text}"
            );
        }
    }

    /// Shows B3.
    #[test]
    fn a_size_that_contradicts_slurm_is_refused_with_both_sizes() {
        let slurm = [("SLURM_JOB_ID", "12"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        let step = |more: Pairs<'static>| {
            let pairs: Vec<_> = slurm.iter().chain(more).copied().collect();
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let of_slurm = step(&[("PMI_JOBID", "12.0"), ("PMIX_NAMESPACE", "slurm.pmix.12.0")]);
        for way in [&PMI_OF_SLURM, &PMIX_OF_SLURM] {
            let name = way.name;
            let text = agree_with_slurm(&of_slurm, way, 1).unwrap_err().to_string();
            assert!(
                text.contains(&format!("{name} says that the job has 1 ranks")) && text.contains("has 4"),
                "{text}"
            );
        }
        assert!(agree_with_slurm(&of_slurm, &PMI_OF_SLURM, 4).is_ok());
        // Other launchers that were started within a Slurm step.
        for more in [&[("PMI_JOBID", "12.0"), ("MPI_LOCALNRANKS", "1")][..], &[], &[("PMIX_NAMESPACE", "prte.12.0")]] {
            assert!(agree_with_slurm(&step(more), &PMI_OF_SLURM, 1).is_ok(), "{more:?}");
            assert!(agree_with_slurm(&step(more), &PMIX_OF_SLURM, 1).is_ok(), "{more:?}");
        }
    }

    /// Shows B3.
    #[test]
    fn invalid_variables_are_refused_with_the_value() {
        let cases: [(Pairs<'_>, &str); 5] = [
            (&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD is \"x\""),
            (&[("PMI_FD", "7"), ("PMI_SIZE", "1")], "PMI_RANK is not set"),
            (&[("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "0")], "at least one rank"),
            (&[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")], "are 0 to 1"),
            (&[("PMI_FD", "7"), ("PMI_RANK", "-1"), ("PMI_SIZE", "2")], "PMI_RANK is \"-1\""),
        ];
        for (pairs, word) in cases {
            let text = with(pairs).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
