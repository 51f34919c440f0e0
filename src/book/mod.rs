//! The book: one-sided communication with this library, chapter by chapter.
//!
//! In one-sided communication one process reads or writes the memory of another process, which
//! makes no call for it. This suits programs whose accesses are known at one side only (tables,
//! counters, work queues, graphs), and programs whose transfers should overlap with computation.
//!
//! A *job* is a set of processes, called *ranks*. Together they create a *window*: each rank opens
//! a *part* of its memory to the others. An operation (put, get, accumulate) is called by the
//! *origin* and works on the part of the *target*; both may be the same rank. A *displacement*
//! gives the place in the target's part.
//!
//! The call of an operation only starts it. Operations are allowed within *epochs*, and are
//! *complete* at the end of their epoch or at a *flush*. *Synchronization* decides when the
//! target's own program may read the data. In this program each rank puts its number into the part
//! of the next rank:
//!
//! ```
//! let world = transom::init()?; // this process joins its job
//! let (me, size) = (world.rank(), world.size());
//! let win = transom::Window::<usize>::allocate(&world, 1)?; // one element at each rank
//! win.fence(|epoch| epoch.put_value((me + 1) % size, 0, me))?; // an epoch of all ranks
//! let mut left = [0];
//! win.load(0, &mut left)?; // after the fence the data is here
//! assert_eq!(left, [(me + size - 1) % size]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! Started alone it is a job of one rank; `transom-run -n 4 PROGRAM` starts four.
//!
//! In reading order:
//!
//! 1. [`windows`]: the four flavors, displacements, subsets of ranks, hints.
//! 2. [`copies`]: the public and the private copy, the unified and the separate model.
//! 3. [`epochs`]: when operations are allowed, and when they are complete.
//! 4. [`synchronization`]: fence, post/start/complete/wait, locks, flush; how to choose.
//! 5. [`costs`]: the number of remote operations of each call on each route.
//! 6. [`operations`]: put, get and the accumulate family; atomicity and order.
//! 7. [`layouts`]: data that is not contiguous.
//! 8. [`requests`]: waiting for one operation.
//! 9. [`notifications`]: data and its signal in one operation.
//! 10. [`shared`]: loads and stores in the parts of other ranks.
//! 11. [`dynamic`]: memory that is attached and detached.
//! 12. [`errors`]: error classes, and the state after an error.
//! 13. [`traps`]: common mistakes.
//! 14. [`checking`]: reports of conflicting accesses.
//! 15. [`mpi`]: every name of MPI's one-sided chapter, and its equivalent here.
//!
//! In a hurry: [`synchronization`] and [`traps`]. Coming from MPI: [`mpi`].
//!
//! Every example is a test: it runs as a job of one rank, which is its own target, and is correct
//! for any number of ranks. The text says where one rank can't show the point. Sections (§) are
//! those of MPI-4.1.

pub mod checking;
pub mod copies;
pub mod costs;
pub mod dynamic;
pub mod epochs;
pub mod errors;
pub mod layouts;
pub mod mpi;
pub mod notifications;
pub mod operations;
pub mod requests;
pub mod shared;
pub mod synchronization;
pub mod traps;
pub mod windows;
