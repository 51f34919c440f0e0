//! The MPI that the library was built for, and the MPI of the process. Handles and constants differ
//! between MPICH, Open MPI and the standard ABI, and between major versions of MPICH. A library
//! that was built for another MPI ends the program at its start, and so does one that was built for
//! an older version without some function on windows or requests: the program's calls of that
//! function would bypass the library.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use transom::diagnostics;

use crate::host::{host_at_build, host_defines, host_name};

/// The binary interface of an MPI, which determines its handles and constants.
#[derive(Debug, PartialEq, Eq)]
enum Interface<'t> {
    StandardAbi,
    OpenMpi,
    /// MPICH of a major version.
    Mpich(&'t str),
}

impl Interface<'_> {
    /// The interface of the MPI that describes itself by `name`. `None` for other MPIs: those that
    /// derive from MPICH have its interface and names of their own.
    fn of(name: &str) -> Option<Interface<'_>> {
        if name.starts_with("Open MPI") {
            return Some(Interface::OpenMpi);
        }
        if name == "standard ABI" {
            return Some(Interface::StandardAbi);
        }
        let version = name.strip_prefix("MPICH Version:")?;
        Some(Interface::Mpich(version.trim().split('.').next()?))
    }
}

/// Whether a library built for the MPI `built` may serve programs of the MPI `here`.
fn agree(built: &str, here: &str) -> bool {
    match (Interface::of(built), Interface::of(here)) {
        (Some(built), Some(here)) => built == here,
        _ => true,
    }
}

/// Functions that came with later versions of MPIs, and whether the library has them.
const LATER: [(bool, &CStr); 2] =
    [(cfg!(has_large_puts), c"PMPI_Put_c"), (cfg!(has_status_of_several), c"PMPI_Request_get_status_all")];

/// The first function that the MPI of the process has and this library lacks.
fn missing() -> Option<String> {
    // SAFETY: the names are constant texts.
    let there = |name: &CStr| unsafe { !host_defines(name.as_ptr()).is_null() };
    let (_, name) = LATER.into_iter().find(|&(is_here, name)| !is_here && there(name))?;
    Some(name.to_string_lossy().trim_start_matches('P').to_owned())
}

/// An MPI's name in messages: without the details that follow its version.
fn shown(name: &str) -> String {
    let name = name.split(',').next().unwrap_or(name);
    name.replace("Version:", "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether this process prints a message that concerns all ranks. The MPI has not started, so
/// launchers' variables tell the rank.
fn is_first() -> bool {
    let ranks = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];
    ranks.iter().find_map(std::env::var_os).is_none_or(|rank| rank == "0")
}

/// The time for which the other ranks wait before they end, so that rank 0 prints the message
/// first.
const HEAD_START: Duration = Duration::from_secs(1);

/// Ends the program with a message if the library was built for another MPI.
pub(crate) fn check() {
    let mut text: [c_char; 512] = [0; 512];
    // SAFETY: the first call returns a constant text; the second writes a text of at most 512
    // bytes.
    let (built, here) = unsafe {
        host_name(text.as_mut_ptr());
        (CStr::from_ptr(host_at_build()), CStr::from_ptr(text.as_ptr()))
    };
    let (built, here) = (built.to_string_lossy(), here.to_string_lossy());
    let (agree, missing) = (agree(&built, &here), missing());
    if agree && missing.is_none() {
        return;
    }
    if is_first() {
        let lacks = missing.filter(|_| agree).map(|name| format!(", and without {name}")).unwrap_or_default();
        let what = format_args!(
            "libtransom_mpi.so was built for another MPI than the program's: for {}, not for {}{lacks}; build it with \
             MPICC naming the compiler wrapper of the program's MPI",
            shown(&built),
            shown(&here),
        );
        diagnostics::error("transom::mpi", &what);
    } else {
        // A launcher ends the job when the first process fails, and may do so before rank 0 has
        // written its line.
        std::thread::sleep(HEAD_START);
    }
    std::process::exit(1) // tidy-allow(exit): the handles of every later call would be misread
}
