//! The book: one-sided communication with this library, chapter by chapter. Text and examples, no
//! code.
//!
//! A *job* is a set of processes, called *ranks*. Each rank opens memory to the others: its *part*
//! of a *window*. One rank, the *origin*, calls an operation on a window (put, get, accumulate);
//! the operation works on the part of another rank, the *target*, which makes no call for it.
//! Origin and target may be the same rank. A *displacement* gives the place in the target's part.
//! Operations are allowed within *epochs*. They continue in the background after their call, and
//! are *complete* at the end of their epoch or at a *flush*. *Synchronization* decides when the
//! target's own program may read the data.
//!
//! In reading order:
//!
//! 1. [`windows`]: the four flavors, displacements, subsets of ranks, hints.
//! 2. [`copies`]: the public and the private copy, the unified and the separate model.
//! 3. [`epochs`]: when operations are allowed, and when they are complete.
//! 4. [`synchronization`]: fence, post/start/complete/wait, locks, flush; how to choose.
//! 5. [`costs`]: the cost of each call on each route, a flush first.
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
//! Every example runs, with its assertions, as a job of one rank, which is its own target. All
//! examples are written for any number of ranks and hold under `transom-run -n 4` too; the text
//! says where one rank can't show the point. Sections (§) are those of MPI-4.1.

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
