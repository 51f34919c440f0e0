//! Transom's windows in unchanged MPI programs: a library to be loaded before the program's MPI
//! (`LD_PRELOAD`). The library defines the functions of MPI's one-sided chapter under their MPI
//! names, and serves them by transom. The *host* is the MPI that the program was linked with. The
//! host serves all other functions, and the windows that transom can't serve. The library calls the
//! host by the PMPI names (MPI-4.1 §15.2). docs/mpi-programs.md describes how both work together.
//!
//! Each window has a *proxy*: a window of the host without memory, over this process alone, whose
//! handle the program gets. Names, attributes, error handlers and other local properties of a
//! window are the proxy's, so they keep working. The window itself is a [`transom::RawWindow`],
//! found by the proxy's handle.
//!
//! | module | owns |
//! |---|---|
//! | **the host** | |
//! | `host` | the host's types, constants and functions, as the C files of `host/` give them |
//! | `identity` | the check that the library was built for the program's MPI |
//! | `errors` | failures as MPI's error codes |
//! | `handles` | the map from handles of the host to values |
//! | **the job** | |
//! | `lifecycle` | the start of this process's job in `MPI_Init`, and its end in `MPI_Finalize` |
//! | `process` | the state between the two |
//! | `outliving` | progress for windows of sessions after `MPI_Finalize` |
//! | `keyvals` | the keys under which the library keeps attributes with objects of the host |
//! | `boot` | the bootstrap of the job through the host |
//! | `members` | the ranks of a communicator as ranks of the job |
//! | **windows** | |
//! | `windows`, `create` | windows, their creation and end |
//! | `proxies` | the creation of proxies |
//! | `attributes`, `cached` | predefined attributes, parts and hints; the deletion order of the program's attributes |
//! | `fatal` | windows on which the program has set `MPI_ERRORS_ARE_FATAL` |
//! | `groups` | the groups of windows, and references to them |
//! | `memory` | `MPI_Alloc_mem` |
//! | `report` | the lines of `TRANSOM_INFO=1` about windows |
//! | **operations** | |
//! | `types` | datatypes, decoded |
//! | `operate` | operations |
//! | `notified`, `counters` | notified operations, and their counters |
//! | `synchronize` | synchronization |
//! | **requests, and waits in the host** | |
//! | `requests`, `completion` | requests of operations; waits and tests of requests; failures of operations with requests |
//! | `polls` | progress of transom while the program waits in the host |
//! | `turns` | waits of the host's blocking calls that alternate with polls of transom |
//! | `partitioned` | requests that MPICH can't test together with others |
//! | **the conflict checker** | |
//! | `edges` | the host's functions that order the ranks; `host/edges.c` wraps them |
//! | `messages`, `borrowed` | the host's requests in flight, and the buffers that the host uses |
//! | `untold` | completions that no call of the program has returned yet |
//! | `accesses` | the program's loads, stores and atomics on window memory |
//! | `openmp` | the synchronization of OpenMP threads, for ThreadSanitizer |
//! | **names** | |
//! | `entry_points` | the macro for entry points that MPI has with `int` and with large counts |
//! | `forms` | entry points of the host's functions with counts |
//! | `fortran` | functions whose form in Fortran differs from that in C |
//! | `profiled` | the MPI names, and the PMPI names that the hosts' Fortran bindings call |

// Before the modules that use its macros.
#[macro_use]
mod entry_points;

mod accesses;
#[allow(unsafe_code)]
mod attributes;
#[allow(unsafe_code)]
mod boot;
mod borrowed;
#[cfg(not(open_mpi))]
#[allow(unsafe_code)]
mod cached;
#[allow(unsafe_code)]
mod completion;
#[allow(unsafe_code)]
mod counters;
#[allow(unsafe_code)]
mod create;
#[allow(unsafe_code)]
mod edges;
#[allow(unsafe_code)]
mod errors;
#[allow(unsafe_code)]
mod fatal;
#[allow(unsafe_code)]
mod forms;
#[allow(unsafe_code)]
mod fortran;
#[allow(unsafe_code)]
mod groups;
#[allow(unsafe_code)]
mod handles;
#[allow(unsafe_code)]
mod host;
#[allow(unsafe_code)]
mod identity;
mod keyvals;
#[allow(unsafe_code)]
mod lifecycle;
#[allow(unsafe_code)]
mod members;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod messages;
#[allow(unsafe_code)]
mod notified;
#[cfg(feature = "openmp")]
#[allow(unsafe_code)]
mod openmp;
#[allow(unsafe_code)]
mod operate;
#[allow(unsafe_code)]
mod outliving;
#[allow(unsafe_code)]
mod partitioned;
#[allow(unsafe_code)]
mod polls;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
mod profiled;
#[allow(unsafe_code)]
mod proxies;
mod report;
#[allow(unsafe_code)]
mod requests;
#[allow(unsafe_code)]
mod synchronize;
#[allow(unsafe_code)]
mod turns;
#[allow(unsafe_code)]
mod types;
mod untold;
#[allow(unsafe_code)]
mod windows;
