//! MPI's one-sided communication as a Rust library: put, get, accumulate and atomics on the memory
//! of other processes. No MPI installation is needed.
//!
//! A *job* is a set of processes, called *ranks*. A *window* consists of one part of memory at each
//! rank. All ranks create the window together. Every rank may access every part, even while the
//! owner of the part computes. Within a node, puts and gets on memory that the library has
//! allocated are stores and loads. Between nodes, puts and gets are operations of libibverbs or
//! libfabric, or messages that the library executes at the target. The library has all of MPI's
//! one-sided chapter, except for the names that [`book::mpi`] marks with *not here*.
//!
//! # A first program
//!
//! ```
//! fn main() -> transom::Result<()> {
//!     let world = transom::init()?; // started without a launcher: a job of one rank
//!     let (me, size) = (world.rank(), world.size());
//!     let win = transom::Window::<u64>::allocate(&world, 2)?;
//!     let next = (me + 1) % size;
//!     win.lock_all(|epoch| {
//!         epoch.put_value(next, 0, me as u64)?;
//!         epoch.fetch_add(next, 1, 1)
//!     })?; // here all operations are complete at origin and target
//!     world.barrier()?; // all ranks have put
//!     win.sync(); // later loads see the data
//!     let mut got = [0; 2];
//!     win.load(0, &mut got)?;
//!     assert_eq!(got, [((me + size - 1) % size) as u64, 1]);
//!     win.free()
//! }
//! ```
//!
//! # Starting a job
//!
//! `cargo install --path launch`, run in the repository, installs the launcher. `transom-run -n 4
//! PROGRAM` starts four ranks on this machine; with `--host a:2,b:2` two of the four ranks run on
//! machine a, and two on machine b. Launchers that speak PMI-1 (Hydra's `mpiexec`,
//! `srun --mpi=pmi2`) or PMIx (`mpirun` of Open MPI, `prterun`, `srun --mpi=pmix`) start jobs too.
//! Without a launcher a program is a job of one rank; the examples of this documentation run that
//! way. `transom-info` lists the transports of this machine; `transom-info --env` lists the
//! `TRANSOM_` variables.
//!
//! # Platforms
//!
//! The library supports Linux on x86-64 and AArch64; a build for another platform fails with a
//! message. libfabric, libibverbs and libpmix are opened at run time, so a program also starts
//! where these libraries are missing.
//!
//! # The book
//!
//! [`book`] explains the terms step by step. Its examples are tests:
//!
//! | to begin with | |
//! |---|---|
//! | [windows](book::windows) | the four flavors, displacements, subsets of ranks, hints |
//! | [epochs](book::epochs) | when operations are allowed, and when they are complete |
//! | [synchronization](book::synchronization) | the choice among fence, post/start/complete/wait, lock, and flush |
//! | [operations](book::operations) | atomicity and order |
//! | [copies](book::copies) | when a load of the target sees a put |
//! | [traps](book::traps) | common mistakes |
//!
//! | for particular needs | |
//! |---|---|
//! | [layouts](book::layouts), [requests](book::requests) | data that is not contiguous; waiting for one operation |
//! | [notifications](book::notifications) | data and its signal in one operation |
//! | [shared](book::shared) and [dynamic](book::dynamic) windows | loads and stores within the node; memory that is attached and detached |
//!
//! | for reference | |
//! |---|---|
//! | [glossary](book::glossary) | the terms |
//! | [errors](book::errors) | error classes, and the state after an error |
//! | [conflicts](book::conflicts), [checking](book::checking) | which accesses conflict; the conflict checker, which reports them |
//! | [costs](book::costs) | what operations and synchronization cost |
//! | [from MPI](book::mpi) | the names of MPI's chapter, and their equivalents here |
//!
//! Begin with the types [`Job`], [`Window`] and [`Access`]. [`RawWindow`] has a method for each of
//! MPI's calls. ARCHITECTURE.md in the repository is the map of the code.

pub mod book;
pub mod bootstrap;
#[allow(unsafe_code)]
mod buffers;
mod cgroups;
mod check;
pub mod datatype;
mod directory;
mod environment;
mod epoch;
mod error;
mod failures;
mod flavor;
mod hints;
#[doc(hidden)]
pub mod info;
mod interfaces;
mod job;
#[doc(hidden)]
pub mod launching;
mod memory;
mod messages;
mod progress;
pub mod reduce;
mod routes;
mod sync;
mod transport;
mod window;

pub use bytemuck;
#[doc(hidden)]
pub use check::{PartUse, Sending};
pub use datatype::Datatype;
pub use error::{
    ArgumentError, AtomicsError, Class, Error, ErrorKind, JobError, NetName, Refusal, Result, SettingError,
    SharedSettings, Side, TransportError, TransportReason, UnreachableError,
};
pub use flavor::Flavor;
pub use hints::{Info, Model};
#[doc(hidden)]
pub use job::CheckedBuffers;
pub use job::{Job, PROC_NULL, Route, init};
pub use num_complex::Complex;
pub use reduce::{BasicType, CompareSwap, Element, Op, ops};
pub use routes::Actor;
pub use transport::Posted;
#[doc(hidden)]
pub use window::Unreported;
pub use window::{
    Access, Allocation, AnyRequest, Assert, At, BufferRequest, FenceEpoch, Items, Lock, LockAllEpoch, LockEpoch,
    Notice, Notices, Passive, RawWindow, Request, RmaElem, SharedPart, StartEpoch, Window,
};

/// Public for libtransom_mpi alone.
#[doc(hidden)]
pub use transom_fabric::{backoff, diagnostics};
