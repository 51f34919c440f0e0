//! Transom's windows in unchanged MPI programs: a library to be loaded before the program's MPI
//! (`LD_PRELOAD`). The library defines the functions of MPI's one-sided chapter under their MPI
//! names, and serves them by transom. The host is the MPI that the program was linked with. The
//! host serves all other functions, and the windows that transom can't serve; the library calls the
//! host by the PMPI names (MPI-4.1 §15.2).
//!
//! Each window has a proxy: a window of the host without memory, over this process alone, whose
//! handle the program gets. Names, attributes, error handlers and other local properties of a
//! window are the proxy's, so they keep working. The window itself is a [`transom::RawWindow`],
//! found by the proxy's handle.
//!
//! | module | owns |
//! |---|---|
//! | `host` | the host's types, constants and functions, as `host/host.c` gives them |
//! | `lifecycle` | the start of this process's job in `MPI_Init`, and its end |
//! | `identity` | the MPI that the library was built for, against the program's |
//! | `process` | the job of this process: from `MPI_Init` to `MPI_Finalize` |
//! | `polls` | progress of transom while the program waits in the host |
//! | `boot` | the bootstrap of the job through the host |
//! | `handles` | the map from handles to values |
//! | `members` | the ranks of a communicator as ranks of the job |
//! | `windows`, `create` | windows, their creation and end |
//! | `proxies` | the creation of proxies |
//! | `report` | the lines of `TRANSOM_INFO=1` about windows |
//! | `memory` | memory that programs allocate before windows |
//! | `types` | datatypes, decoded |
//! | `operate` | operations |
//! | `notified`, `counters` | notified operations, and their counters |
//! | `forms` | the entry points that MPI has with `int` and with large counts |
//! | `synchronize` | synchronization |
//! | `attributes` | predefined attributes, parts and hints of a window |
//! | `groups` | the groups of windows, and references to them |
//! | `cached` | the order in which the program's attributes of a window are deleted |
//! | `requests` | requests of request-based operations, and waiting for them and for the host's |
//! | `turns` | calls of the host that wait for other ranks, while transom is polled in between |
//! | `completion` | the end of such a wait, and the failures of the operations |
//! | `edges` | the host's functions that order the ranks, for the conflict checker |
//! | `messages`, `borrowed`, `channels` | the host's messages and requests, their buffers, and messages in partitions, for the conflict checker |
//! | `accesses` | the program's loads, stores and atomics on window memory, for the conflict checker |
//! | `openmp` | threads of OpenMP, as ThreadSanitizer sees them while the checker is on |
//! | `errors` | failures as MPI's error codes |
//! | `fortran` | the functions whose form in Fortran differs from that in C |
//! | `profiled` | the MPI names, and the PMPI names that the hosts' Fortran calls |

mod accesses;
#[allow(unsafe_code)]
mod attributes;
#[allow(unsafe_code)]
mod boot;
mod borrowed;
#[cfg(not(open_mpi))]
#[allow(unsafe_code)]
mod cached;
mod channels;
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
#[allow(unsafe_code)]
mod windows;
