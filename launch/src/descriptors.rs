//! The limit of open files. Independent of what the descriptors are.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::outcome::{LaunchError, io_error};

/// Descriptors of the launcher itself, with those of a rank that is being started.
const OWN: usize = 32;

/// The descriptors for ranks of this machine: four for each, and one for its CPU.
pub(super) fn of_ranks(ranks: usize) -> usize {
    5 * ranks
}

/// The descriptors for other machines and their ranks.
pub(super) fn of_machines(machines: usize, ranks: usize) -> usize {
    5 * machines + ranks
}

/// Raises the limit of open files for `ranks` ranks that need this number of descriptors.
///
/// # Errors
/// The hard limit is lower.
pub(super) fn raise_limit(ranks: usize, descriptors: usize) -> Result<(), LaunchError> {
    let needed = (OWN + descriptors) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = maximum.filter(|maximum| *maximum < needed) {
        return Err(LaunchError::TooManyRanks { size: ranks, needed, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(io_error("raising RLIMIT_NOFILE"))
}
