//! Windows of programs whose hints may be wrong ([`Info::forgiving`]): a wrong hint leads to a
//! warning, and the window still works.

use std::sync::Arc;

use super::super::core::Core;
use super::super::create::WindowSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::flavor::Flavor;
use crate::hints::{Hints, Info};
use crate::job::{Cause, Job, JobCore, Team};

/// Creates a window by `make`. If a forgiving info differs among the ranks, creation is repeated
/// with the value that is correct for all ranks. The barrier reports the hint to every rank, so
/// that all ranks repeat the creation with equal hints.
pub(super) fn agreeing(
    job: &Job,
    spec: &WindowSpec<'_>,
    make: impl Fn(&WindowSpec<'_>) -> Result<Arc<Core>>,
) -> Result<Arc<Core>> {
    let core = agreed(job, spec, make)?;
    core.parts.lends_buffers();
    Ok(core)
}

fn agreed(job: &Job, spec: &WindowSpec<'_>, make: impl Fn(&WindowSpec<'_>) -> Result<Arc<Core>>) -> Result<Arc<Core>> {
    if !spec.info.is_forgiving() {
        return make(spec);
    }
    let mut info = usable(job.core(), job.team(), spec.flavor, spec.info);
    loop {
        match make(&WindowSpec { info: &info, ..*spec }) {
            Err(error) => match error.kind() {
                ErrorKind::Differs { hint, .. } => {
                    let common = common(hint);
                    warn(
                        job.core(),
                        Cause::DifferentHint,
                        &format!("the hint {hint} of a window differs among its ranks; the value {common} is used"),
                    );
                    info = info.with(*hint, common);
                }
                _ => return Err(error),
            },
            made => return made,
        }
    }
}

/// The value of a hint on which the ranks disagree: one that is correct for every program.
fn common(hint: &str) -> &'static str {
    match hint {
        "mpi_accumulate_granularity" => "0",
        "alloc_shared_noncontig" => "false",
        "transom_model" => "unified",
        _ => "cpu",
    }
}

/// The hints with legal values. The others are dropped with a warning.
pub(super) fn usable(job: &JobCore, team: &Team, flavor: Flavor, info: &Info) -> Info {
    let fits = |one: &Info| {
        let hints = Hints::at_creation(one, flavor)?;
        job.actor_for(team, hints.atomics).map(drop)
    };
    let (usable, wrong): (Info, Option<Error>) = info.usable(fits);
    if let Some(wrong) = wrong {
        warn(job, Cause::Hint, &format!("a hint of a window is ignored: {wrong}"));
    }
    usable
}

/// Prints a warning, once for all ranks.
fn warn(job: &JobCore, cause: Cause, what: &str) {
    if job.rank == 0 {
        job.warn_once(cause, what);
    }
}
