//! Errors: one type, with MPI's error classes, a message and details as data.
//!
//! Every call that can fail returns a [`Result`](crate::Result) with an [`Error`](crate::Error).
//! The text of the error is for users and names the cause. A program should branch on the
//! [`class`](crate::Error::class), which is MPI's error class, or on the
//! [`kind`](crate::Error::kind), which has the numbers of the text as data.
//!
//! ```
//! use transom::{Class, ErrorKind, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<u64>::allocate(&world, 4)?;
//! let outside = win.lock_all(|epoch| epoch.put(0, 3, &[1, 2])).expect_err("two elements from the last on");
//! assert_eq!(outside.class(), Class::RmaRange);
//! assert_eq!(
//!     outside.to_string(),
//!     "put: 16 bytes at displacement 3 (unit 8) are outside the window of rank 0, which has 32 bytes"
//! );
//! assert!(matches!(outside.kind(), ErrorKind::Range { limit: 32, .. }));
//!
//! let inner = win.fence(|_| win.lock_all(|_| Ok(()))).expect_err("a lock within a fence epoch");
//! assert_eq!(inner.class(), Class::RmaSync);
//!
//! let mut part = [9; 4];
//! win.load(0, &mut part)?;
//! assert_eq!(part, [0; 4]); // the put wrote nothing
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! `{error}` prints the error's own message. `{error:#}` and the debug form, which `main` prints,
//! add the messages of its sources. A failure of a transport is a
//! [`TransportError`](crate::TransportError); if a system call failed, its last source is the
//! `std::io::Error`. Every reason is data: an [`ArgumentError`](crate::ArgumentError) has the
//! numbers of the argument, a [`Refusal`](crate::Refusal) the numbers that the target sent.
//!
//! Errors of arguments, of epochs and of ranges number ranks as the window does. Failures of ranks,
//! of transports and of memory, refusals by the target (`Refused`), and failed creations number
//! ranks as the whole job does; for a window of a subset the two differ
//! ([`Window::group`](crate::Window::group) has both).
//!
//! # Which call reports an error, and at which ranks
//!
//! - *Wrong arguments and wrong epochs* are errors of the call itself, at this rank; the call has
//!   no effect on the window.
//! - *Creation of a window* fails at all ranks or at none, unless a barrier of the creation itself
//!   fails (docs/limits.md, "Memory"). The rank that could not make its part returns the cause. The
//!   other ranks return an error of the class `Other` that names this rank. Two failures return the
//!   same error at all ranks: a hint that differs among the ranks (`InfoValue`), and a process that
//!   has reached the limit of windows (`Other`). Two mistakes are errors of the class `Arg` at the
//!   calling rank only. First, another thread of the rank is in a barrier or a window creation of
//!   the same ranks. Second, in C the job is NULL: the rank then takes no part in the creation, and
//!   the other ranks wait for this rank. If another required pointer is NULL in C, the creation
//!   fails at all ranks.
//! - *Accesses to memory that is not attached*: within a node the call of the operation returns the
//!   error. Over a net the target refuses the access, and the call that completes the operation
//!   returns the error.
//! - *The failure of a transport or the loss of a peer* is an error of the class `Other`, returned
//!   by the call that finds the failure. The end of an epoch releases its locks even after an
//!   error.
//! - *A closure that fails* ends its epoch. If the end of the epoch fails too, the error of the
//!   closure is returned. The closure's errors are those of this library; it returns an error of
//!   another type as a value, `Ok(Err(error))`, and the caller writes `win.lock_all(...)??`.
//!
//! A failure is reported once: by the first wait for a request, flush or end of an epoch that
//! completes the operation. A call that completes operations on several targets returns the first
//! failure. The other failures then count as reported. There are no error handlers: an error is a
//! value, and `?` passes it on.
//!
//! # The death of a rank
//!
//! A waiting call reports the death of a rank as
//! [`ErrorKind::RankDied`](crate::ErrorKind::RankDied), and a machine that does not answer as
//! [`ErrorKind::RankUnreachable`](crate::ErrorKind::RankUnreachable). A rank that does not wait
//! gets no report, and a waiting rank watches at most 256 ranks of other machines (docs/limits.md,
//! "Failures"). A flush and the end of an epoch first complete the operations on live ranks.
//! [`Error::lost_rank`](crate::Error::lost_rank) returns the number of the lost rank.
//!
//! Most launchers end the job before such an error is printed; `transom-run --grace SECONDS` gives
//! the other ranks time to report it. The section "When a rank fails" of docs/running.md has the
//! details.
//!
//! Ranks that know of a death do not wait for the others when they drop or finalize the job,
//! because the launcher's barrier may wait for the dead rank for ever. The launcher then ends the
//! job.
//!
//! # Warnings
//!
//! Problems that no call can return, such as a window dropped without `free` or a slower route than
//! expected, are warnings: records for the program's logger (crate `log`, targets `transom::...`).
//! Without a logger or without the feature `log` they are lines on the standard error.
//! `TRANSOM_WARNINGS=n` turns warnings off.
//!
//! # Classes
//!
//! [`Class`](crate::Class) has three groups of classes:
//!
//! - those of MPI's one-sided chapter, which [`mpi`](super::mpi#error-classes) lists by MPI's
//!   names;
//! - those of other chapters that one-sided calls return: `Rank`, `Type`, `Count`, `Op`, `Arg`,
//!   `InfoValue` and `Other`;
//! - `RmaNotification` of [notified operations](super::notifications).
//!
//! Two classes are never returned: `Win`, because no handle of a window is invalid, and
//! `RmaConflict`, because the [conflict checker](super::checking) prints its reports.
