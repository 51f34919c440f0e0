//! The book: one-sided communication with this library, chapter by chapter. Text and examples, no code.
//!
//! A *job* is some processes, its *ranks*. Each of them opens some of its memory to the others: its *part* of a *window*. An
//! operation on a window (put, get, accumulate) is called by one rank, its *origin*, and works on the part of another, its
//! *target*, which calls nothing for it; both may be the same rank. It says where in the part by a *displacement*. Operations
//! are allowed within *epochs*. They go on in the background after their call, and are *complete* at the end of their epoch or
//! at a *flush*. When the target's own program may look at what has arrived is a question of its own, of *synchronization*.
//!
//! In reading order:
//!
//! 1. [`windows`]: the four flavors, displacements, subsets of ranks, hints.
//! 2. [`copies`]: the public and the private copy, the unified and the separate model.
//! 3. [`epochs`]: when operations are allowed, and when they are complete.
//! 4. [`synchronization`]: fence, post/start/complete/wait, locks, flush; which to choose.
//! 5. [`costs`]: what each call costs on each route, a flush first.
//! 6. [`operations`]: put, get and the accumulate family; what is atomic and what is ordered.
//! 7. [`layouts`]: data that is not contiguous.
//! 8. [`requests`]: waiting for one operation.
//! 9. [`shared`]: loads and stores in parts of other ranks.
//! 10. [`dynamic`]: memory that comes and goes.
//! 11. [`errors`]: classes, and what is left undone.
//! 12. [`traps`]: mistakes that others have made.
//! 13. [`mpi`]: every name of MPI's one-sided chapter, and what it is here.
//!
//! In a hurry: [`synchronization`] and [`traps`]. Coming from MPI: [`mpi`].
//!
//! Every example runs, with its assertions, as a job of one rank, which is its own target. All are written for any number of
//! ranks, and hold under `transom-run -n 4` too; where one rank can't show the point, the text says so. Sections (§) are those of
//! MPI 3.1.

pub mod copies;
pub mod costs;
pub mod dynamic;
pub mod epochs;
pub mod errors;
pub mod layouts;
pub mod mpi;
pub mod operations;
pub mod requests;
pub mod shared;
pub mod synchronization;
pub mod traps;
pub mod windows;
