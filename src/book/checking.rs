//! Checking: a program whose accesses conflict, found by the library.
//!
//! Two accesses to the same bytes of a window *conflict* if one of them changes the bytes and no
//! synchronization orders them (MPI-4.1 §12.7). The result of such a program is undefined. It often
//! looks right on one machine, and is wrong on the next. With `TRANSOM_CHECK=1` in the environment
//! the library watches the accesses of a job on one node, and reports each pair of places in the
//! program whose accesses conflict:
//!
//! ```text
//! $ TRANSOM_CHECK=1 transom-run -n 2 target/debug/examples/race
//! transom: conflicting accesses to window 1 at rank 1:
//!   rank 0: put of bytes 0..8, race::by_get_and_put::{{closure}} at examples/race.rs:22
//!   rank 1: get of bytes 0..8, race::by_get_and_put::{{closure}} at examples/race.rs:21
//!   one of two concurrent accesses changes bytes of the other (MPI-4.1 §12.7)
//!   No synchronization orders the two
//! transom: the checker found conflicting accesses; pairs of places: 1
//! ```
//!
//! The function is the innermost one that does not belong to the library. File and line appear if
//! the program has debug information. Ranks are those of the job. Reports go to the standard error,
//! at most 100 of them, and none twice. With `TRANSOM_CHECK=fail` the job also ends with an error:
//! [`finalize`](crate::Job::finalize) fails at rank 0. `TRANSOM_CHECK_REPORT` names a file that
//! gets the reports as lines of JSON too, and `TRANSOM_CHECK_SUPPRESS` a file with texts: a
//! conflict is not reported if one of its places contains one of them.
//!
//! # What orders two accesses
//!
//! The first access must be complete, and the rank of the second must know it. An operation of
//! another rank is complete by a flush, or by the end of its epoch; a put is not complete by
//! [`flush_local`](crate::Passive::flush_local) or by the wait for its request. The knowledge
//! passes from rank to rank by
//!
//! - fences, [`Job::barrier`](crate::Job::barrier), and the creation and end of windows;
//! - `post` and `start`, `complete` and `wait`;
//! - locks: the next holder knows what the last one did, if one of the two locks was exclusive;
//! - notices of notified operations;
//! - atomics: an operation that fetches a value knows what the ranks did that changed it before.
//!
//! In MPI programs, which `libtransom_mpi` serves, messages and collective calls of the MPI pass it
//! on too.
//!
//! In this program the flag orders the get behind the put, since the put is complete before the
//! flag is set:
//!
//! ```
//! # let world = transom::init()?;
//! let win = transom::Window::<u64>::allocate(&world, 2)?;
//! let last = world.size() - 1;
//! let mut got = [0];
//! win.lock_all(|epoch| {
//!     if world.rank() == 0 {
//!         epoch.put_value(0, 1, 5)?;
//!         epoch.flush(0)?; // without it the checker reports the put and the get
//!         epoch.swap(0, 0, 1)?;
//!     }
//!     if world.rank() == last {
//!         while epoch.fetch_value(0, 0)? == 0 {
//!             std::thread::yield_now();
//!         }
//!         epoch.get(0, 1, &mut got)?;
//!     }
//!     Ok(())
//! })?;
//! assert!(world.rank() != last || got == [5]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # What conflicts
//!
//! Gets and loads do not conflict with each other. A put conflicts with every access to its bytes,
//! also of the same rank. Accumulates of one predefined type do not conflict if their operations
//! are equal or one is `NO_OP`, or if one is a compare-and-swap, or if they come from one rank,
//! whose accumulates are ordered. Loads and stores are those of
//! [`Window::load`](crate::Window::load) and its siblings. Loads of up to 8 bytes are not checked
//! in the unified model, because a program may poll a word for an update;
//! [`sync`](crate::Window::sync) after it passes on the knowledge of the operations that are
//! complete at this rank.
//!
//! # What is not seen
//!
//! - Loads and stores through pointers, and uses of an operation's buffer before it is complete.
//!   The borrow checker excludes both in safe Rust.
//! - Synchronization outside of the library, such as sockets and files. Accesses that it orders may
//!   be reported.
//! - Accesses of two windows that share memory, and of two threads of a rank, whose clock is one.
//! - Jobs over several nodes or without shared memory: the variable has no effect there, and rank 0
//!   prints a warning.
//!
//! The checker remembers 65536 accesses to each rank's part of a window, each in 48 bytes, and
//! replaces an access by a later one of the same place. If it must forget an access that may still
//! conflict, the end of the window reports how many; `TRANSOM_CHECK_RECORDS` sets another number.
//! Without the variable a window has no trace of the checker. With it a process has at most 1024
//! windows.
