//! The book: one-sided communication with this library, chapter by chapter.
//!
//! # What one-sided communication is
//!
//! Two processes usually exchange data by a send and a matching receive. In one-sided communication
//! one process makes the transfer alone: its call states which memory of the other process to read
//! or to write. Separate calls synchronize the processes, so that each knows when the data may be
//! used. One-sided calls suit programs in which only one side knows the location of the data
//! (tables, counters, work queues, graphs), and programs whose transfers should overlap with
//! computation.
//!
//! # A first program
//!
//! Each process puts its number into the memory of the next one:
//!
//! ```
//! let world = transom::init()?; // this process joins its job
//! let (me, size) = (world.rank(), world.size());
//! let win = transom::Window::<usize>::allocate(&world, 1)?; // one element at each rank
//! win.fence(|epoch| epoch.put_value((me + 1) % size, 0, me))?; // an epoch of all ranks
//! let mut left = [0];
//! win.load(0, &mut left)?; // after the fence the data is here
//! println!("rank {me} has {left:?}");
//! assert_eq!(left, [(me + size - 1) % size]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! To try it, make a package. `DIRECTORY` is the absolute path of your clone of the repository:
//!
//! ```text
//! cargo install --path DIRECTORY/launch   # installs transom-run
//! cargo new ring && cd ring
//! cargo add transom --path DIRECTORY
//! # src/main.rs: the lines above, in fn main() -> transom::Result<()>, with Ok(()) at the end
//! cargo build
//! transom-run -n 4 target/debug/ring      # prints "rank 0 has [3]", "rank 1 has [0]", ...
//! ```
//!
//! Without a launcher the program is a job of one rank.
//!
//! A rank leaves the job when its [`Job`](crate::Job) and all clones of it are dropped. The last
//! drop waits until the other ranks leave the job too, and can't return an error.
//! [`Job::finalize`](crate::Job::finalize) waits in the same way, and returns errors. A longer
//! program therefore calls `finalize` at the end of `main`.
//!
//! In this program the processes of a *job*, called *ranks*, create a *window* together. Each rank
//! is the *origin* of one put, which writes a number into the *part* of the next rank, the
//! *target*. The put belongs to an *epoch*, and the fence at the end of the epoch completes the
//! put. [`glossary`] explains these and all other terms.
//!
//! # The chapters
//!
//! To begin with, in this order:
//!
//! 1. [`windows`]: making windows; the four flavors, displacements, subsets of ranks, hints.
//! 2. [`epochs`]: when operations are allowed, and when they are complete.
//! 3. [`synchronization`]: fence, post/start/complete/wait, locks, flush; how to choose.
//! 4. [`operations`]: put, get and the accumulate family; atomicity and order.
//! 5. [`copies`]: when a load of the target sees a put.
//! 6. [`traps`]: common mistakes, and the correct programs.
//!
//! For particular needs:
//!
//! - [`layouts`]: data that is not contiguous.
//! - [`requests`]: waiting for one operation.
//! - [`notifications`]: an operation that also signals the target.
//! - [`shared`]: loads and stores in the parts of other ranks.
//! - [`dynamic`]: memory that is attached and detached.
//!
//! For reference:
//!
//! - [`glossary`]: the terms.
//! - [`errors`]: error classes, and the state after an error.
//! - [`conflicts`]: which accesses conflict, and what orders them.
//! - [`checking`]: the conflict checker, which reports conflicting accesses.
//! - [`costs`]: what operations and synchronization cost.
//! - [`mpi`]: the names of MPI's one-sided chapter, and their equivalents here. If you know MPI,
//!   begin there.
//!
//! The examples are correct for any number of ranks. Every example is also a test, which runs as a
//! job of one rank; this rank is then its own target. The text says where one rank can't show the
//! effect. Sections (§) are those of MPI-4.1.

pub mod checking;
pub mod conflicts;
pub mod copies;
pub mod costs;
pub mod dynamic;
pub mod epochs;
pub mod errors;
#[doc = include_str!("../../docs/glossary.md")]
pub mod glossary {}
pub mod layouts;
pub mod mpi;
pub mod notifications;
pub mod operations;
pub mod requests;
pub mod shared;
pub mod synchronization;
pub mod traps;
pub mod windows;
