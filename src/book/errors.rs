//! Errors: one type, the classes of MPI, and what was wrong in words and numbers.
//!
//! Every call that can fail gives a [`Result`](crate::Result) with an [`Error`](crate::Error). Its text says what was wrong;
//! [`class`](crate::Error::class) is for programs that decide by it, and [`kind`](crate::Error::kind) has the numbers.
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
//! # When
//!
//! - *Wrong arguments and wrong epochs* are errors of the call itself, at this rank, and nothing was done. The window goes on as
//!   if the call had not been.
//! - *Making a window* fails at all ranks or at none. The rank that could not make its part has the cause; the others are told
//!   that one could not, by the class `Other`.
//! - *What the target refuses*, an access by address to what it has not attached, is an error of the call that completes the
//!   operation.
//! - *A transport that fails, or a peer that is gone*, is an error of the class `Other` of the call that meets it. The end of an
//!   epoch gives up its locks all the same.
//! - *The body of an epoch* that fails ends the epoch; its error comes before that of the end.
//!
//! A failure is told once, by whatever covers its operation first. There are no error handlers: an error is a value, and `?` passes
//! it on.
//!
//! A rank that dies is told to every rank that waits for anything: the call, a fence, a flush, a lock that the dead
//! one holds, ends with [`ErrorKind::RankDied`](crate::ErrorKind::RankDied), which names it and its machine. A machine that is gone, or that
//! can't be reached from the start, is [`ErrorKind::RankUnreachable`](crate::ErrorKind::RankUnreachable) after 6 seconds
//! (`TRANSOM_SILENCE`), with the address and the interface that were used. A rank that ends before all have started is an error
//! of [`init`](crate::init) at the others, which names it under `transom-run`. Whoever does not wait is not told, and
//! loads and stores to the dead one's memory within the node go on working. Most launchers end the job first;
//! `transom-run --grace SECONDS` leaves the others time to tell what they see.
//!
//! # Classes
//!
//! [`Class`](crate::Class) has MPI's classes of the one-sided chapter, which [`mpi`](super::mpi#error-classes) lists by MPI's names,
//! and those of other chapters that its calls give: `Type`, `Count`, `Arg`, `InfoValue` and `Other`. Two are never given: `Win`,
//! since a window that does not exist is no value, and `RmaConflict`, since conflicting accesses are not looked for.
