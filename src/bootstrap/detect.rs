//! Which launcher started this process, judged by its environment, and the choice of a [`Bootstrap`] for it. A
//! launcher that is seen but cannot be spoken to is an error: many ranks must never become many jobs of one.

use super::pmi1::Pmi1;
use super::solo::Solo;
use super::{Bootstrap, BootstrapError};

/// The connection to the launcher of this process: [`Pmi1`] where `PMI_FD` is set, [`Solo`] where no launcher is seen.
/// It takes the inherited descriptor, so it works once per process.
///
/// # Errors
/// A launcher that this version cannot speak to (its message says which one was seen and what to do), variables that
/// make no sense, a `PMI_FD` that does not answer within 30 s.
pub fn detect() -> Result<Box<dyn Bootstrap>, BootstrapError> {
    let read = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    match choose(&read)? {
        Choice::Pmi1 { fd, rank, size } => Ok(Box::new(Pmi1::inherit(fd, rank, size)?)),
        Choice::Solo => Ok(Box::new(Solo::new())),
    }
}

/// What the environment asks for.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Pmi1 { fd: i32, rank: usize, size: usize },
    Solo,
}

const ADVICE_PMI: &str = "start it with transom-run -n N PROGRAM, or with a launcher that passes PMI_FD, such as \
                          the mpiexec of MPICH (Hydra)";
const ADVICE_PMIX: &str = "start it with transom-run -n N PROGRAM, with the mpiexec of MPICH (Hydra), or with \
                           srun --mpi=pmi2; for a job of one rank, unset PMIX_RANK and PMIX_NAMESPACE";
const ADVICE_SLURM: &str = "start it with srun --mpi=pmi2, or within one node with transom-run -n N PROGRAM; for a \
                            job of one rank inside an allocation, unset SLURM_PROCID";

fn choose(read: &dyn Fn(&str) -> Option<String>) -> Result<Choice, BootstrapError> {
    if read("PMI_FD").is_some() {
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
    if read("PMI_PORT").is_some() {
        return refuse("a PMI launcher that listens on a port", &["PMI_PORT", "PMI_ID"], ADVICE_PMI);
    }
    if read("PMIX_RANK").is_some() || read("PMIX_NAMESPACE").is_some() {
        let names = ["PMIX_RANK", "PMIX_NAMESPACE"];
        return refuse("a PMIx launcher, such as mpirun of Open MPI or srun --mpi=pmix", &names, ADVICE_PMIX);
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
    Ok(Choice::Pmi1 { fd, rank, size })
}

fn number<T: std::str::FromStr>(
    read: &dyn Fn(&str) -> Option<String>,
    variable: &'static str,
) -> Result<T, BootstrapError> {
    let Some(text) = read(variable) else {
        let why = "a launcher that sets PMI_FD sets it too".to_owned();
        return Err(BootstrapError::Environment { variable, found: "not set".to_owned(), why });
    };
    text.trim().parse().map_err(|_| {
        let why = "it is not a number in range".to_owned();
        BootstrapError::Environment { variable, found: format!("{text:?}"), why }
    })
}

#[cfg(test)]
mod tests {
    use super::{BootstrapError, Choice, choose};

    /// Variables with their values.
    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn with(pairs: Pairs<'_>) -> Result<Choice, BootstrapError> {
        choose(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    /// Shows B3.
    #[test]
    fn alone_is_a_job_of_one() {
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

    /// Shows B3.
    #[test]
    fn launchers_that_cannot_be_spoken_to_are_named_with_advice() {
        let cases: [(Pairs<'_>, &str, &str); 5] = [
            (&[("PMI_PORT", "h:1"), ("PMI_ID", "0")], "PMI_PORT=h:1 PMI_ID=0", "transom-run"),
            (&[("PMIX_RANK", "0")], "PMIx", "unset PMIX_RANK"),
            (&[("PMIX_NAMESPACE", "prte")], "PMIX_NAMESPACE=prte", "srun --mpi=pmi2"),
            (&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], "Slurm", "unset SLURM_PROCID"),
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "4")], "PMI_RANK=0 PMI_SIZE=4", "PMI_FD"),
        ];
        for (pairs, seen, advice) in cases {
            let text = with(pairs).unwrap_err().to_string();
            assert!(text.contains(seen) && text.contains(advice) && text.contains("PMI-1 only"), "{text}");
        }
    }

    /// Shows B3.
    #[test]
    fn nonsense_is_refused_with_the_value() {
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
