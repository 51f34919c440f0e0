//! transom's windows in unchanged MPI programs: a library to be loaded before the program's MPI (`LD_PRELOAD`). It has the functions of
//! MPI's one-sided chapter under their MPI names, and serves them by transom; everything else, and windows that transom can't
//! serve, is the host's: the MPI that the program was linked with, called by its PMPI names (MPI §15.2).
//!
//! Each window has a face, a window of the host without memory over this process alone, whose handle the program gets. So names,
//! attributes, error handlers and whatever else is a process's own keep working. The window itself is a [`transom::RawWindow`], found by the
//! face's handle.
//!
//! | module | what it owns |
//! |---|---|
//! | `host` | the host's types, constants and functions, as `host/host.c` gives them |
//! | `process` | the job of this process: from `MPI_Init` to `MPI_Finalize` |
//! | `boot` | how the job's ranks find each other through the host |
//! | `handles` | the map from handles to what is kept for them |
//! | `members` | the ranks of a communicator as ranks of the job |
//! | `windows`, `create` | windows, and how they come and go |
//! | `memory` | memory that programs ask for ahead of windows |
//! | `types` | datatypes, decoded |
//! | `operate`, `large` | operations, with `int` and with large counts |
//! | `synchronize` | synchronization |
//! | `attributes` | what a window says of itself |
//! | `requests` | requests of the R-forms, and waiting for them among the host's |
//! | `errors` | failures as MPI's error codes |
//! | `fortran` | what Fortran does otherwise than C |
//! | `profiled` | the PMPI names, by which hosts' Fortran comes |

#[allow(unsafe_code)]
mod attributes;
#[allow(unsafe_code)]
mod boot;
#[allow(unsafe_code)]
mod create;
#[allow(unsafe_code)]
mod errors;
#[allow(unsafe_code)]
mod fortran;
#[allow(unsafe_code)]
mod handles;
#[allow(unsafe_code)]
mod host;
#[cfg(large_counts)]
#[allow(unsafe_code)]
mod large;
#[allow(unsafe_code)]
mod members;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod operate;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
mod profiled;
#[allow(unsafe_code)]
mod requests;
#[allow(unsafe_code)]
mod synchronize;
#[allow(unsafe_code)]
mod types;
#[allow(unsafe_code)]
mod windows;
