//! MPI's one-sided windows as a native library: put, get and atomics on memory of other processes.
//!
//! An operation becomes loads, stores or CPU atomics between ranks of a node, and one remote operation of libfabric
//! between others; a flush waits for what is in flight and nothing else. The whole chapter is here: windows of all flavors, fence,
//! post-start-complete-wait, locks and flushes, the accumulate family on all types, derived layouts, requests.
//!
//! ```no_run
//! # fn main() -> transom::Result<()> {
//! let world = transom::init()?; // one rank of a job; alone: a job of one
//! let win = transom::Window::<u64>::allocate(&world, 4)?;
//! let next = (world.rank() + 1) % world.size();
//! win.lock_all(|epoch| {
//!     epoch.put_value(next, 0, world.rank() as u64)?;
//!     epoch.fetch_add(next, 1, 1u64)
//! })?; // everything is complete at both sides here
//! world.barrier()?;
//! win.sync();
//! let mut got = [0u64; 2];
//! win.load(0, &mut got)?;
//! win.free()
//! # }
//! ```
//!
//! Start it by `transom-run -n 4 PROGRAM`. [`book`] is the manual, with every name of MPI's chapter in [`book::mpi`]; ARCHITECTURE.md in the
//! repository is the map of the code.

pub mod book;
pub mod bootstrap;
#[allow(unsafe_code)]
mod buffers;
pub mod datatype;
mod directory;
mod epoch;
mod error;
mod hints;
pub mod info;
mod job;
pub mod launch;
mod messages;
mod plan;
mod progress;
pub mod reduce;
mod rma;
mod settings;
mod sync;
mod window;
mod wire;

pub use datatype::Datatype;
pub use error::{Class, Error, ErrorKind, Result};
pub use hints::{Info, Model};
pub use job::{Job, PROC_NULL, Route, init};
pub use num_complex::Complex;
pub use plan::Actor;
pub use reduce::{BasicType, Element, Op, ops};
pub use window::{
    Access, AnyRequest, Assert, At, BufferRequest, FenceEpoch, Flavor, Items, Lock, LockAllEpoch, LockEpoch, Passive,
    RawWindow, Request, RmaElem, SharedPart, StartEpoch, Window,
};
