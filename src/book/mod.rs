//! A short book on one-sided communication with this library. Read in order, or look things up:
//!
//! 1. [`windows`]: the flavors of windows, and which to take.
//! 2. [`copies`]: the public and the private copy, and which call brings them together.
//! 3. [`epochs`]: when operations are allowed, and which synchronization to choose.
//! 4. [`costs`]: what each call does on each route.
//! 5. [`operations`]: put, get, the accumulate family, layouts and requests; what is atomic and what keeps its order.
//! 6. [`traps`]: mistakes that others have made.
//! 7. [`mpi`]: every name of MPI's one-sided chapter, and where it is here.
//!
//! The examples run as jobs of one rank, whose only target is itself; with more ranks (`transom-run -n 4 PROGRAM`) they are the same
//! programs. Sections are those of the MPI-3.1 text.

pub mod copies;
pub mod costs;
pub mod epochs;
pub mod mpi;
pub mod operations;
pub mod traps;
pub mod windows;
