//! Conflicts: which accesses to a window conflict, and what orders them.
//!
//! Two accesses to the same bytes of a window *conflict* if one of them changes the bytes and no
//! synchronization orders them (MPI-4.1 §12.7). The result of such a program is undefined: it may
//! be right on one machine and wrong on another. The [conflict checker](super::checking) reports
//! conflicting accesses.
//!
//! # What conflicts
//!
//! Gets and loads do not conflict with each other. A put conflicts with every other access to its
//! bytes, even one of the same rank; the only exceptions are atomic loads of the language (below).
//! An accumulate that changes bytes conflicts with every get, load and store of these bytes. Two
//! accumulates of one predefined type, on elements that begin at the same byte or do not overlap,
//! do not conflict if
//!
//! - their operations are equal, or one is `NO_OP`, or one is a compare-and-swap; or
//! - they come from one rank, and the hint `accumulate_ordering` keeps their order.
//!
//! All other pairs of accumulates conflict: MPI leaves their result undefined under the default
//! value of the hint `accumulate_ops`. This library nevertheless [performs pairs of one type
//! atomically](super::operations#atomicity).
//!
//! In MPI programs with ThreadSanitizer the checker also sees atomics of the program's language:
//!
//! - An atomic load conflicts with plain stores of other ranks, and with no operation: a program
//!   may poll a word that operations change.
//! - An atomic store, or another atomic that changes the word, conflicts with plain loads and
//!   stores of other ranks, and with puts and accumulates that change the word. It does not
//!   conflict with gets, nor with an update that the storing rank has already read.
//!
//! The buffers of an operation belong to the operation until it is complete at the origin (MPI-4.1
//! §12.3): until then no other operation may write the buffer of a put, or access the buffer of a
//! get. In C and MPI programs the conflict checker reports two operations that break this rule as
//! operations that share a buffer. In safe Rust the borrow checker excludes such pairs.
//!
//! # What orders two accesses
//!
//! To order two accesses, complete the first access, and then synchronize with the rank that makes
//! the second access.
//!
//! An operation that changes another rank's part is complete after a flush, or at the end of its
//! epoch. The operation is not complete after [`flush_local`](crate::Passive::flush_local) or after
//! the wait for its request, even if its result has arrived.
//!
//! An operation of a `start` epoch is complete at the target when `wait` has returned, or `test`
//! has succeeded, there: MPI promises no more (MPI-4.1 §12.5.2). This library completes such
//! operations in `complete`, but the checker follows MPI.
//!
//! These synchronizations order the earlier accesses of one rank before the later accesses of
//! another rank:
//!
//! - fences, [`Job::barrier`](crate::Job::barrier), and the creation and end of windows;
//! - `post` and `start`, `complete` and `wait`;
//! - locks: the next holder comes after the previous one, if one of the two locks was exclusive;
//! - notices of notified operations: a rank that reads the value of a counter or waits for a value
//!   comes after the notices that the value counts;
//! - atomics: an operation that fetches a value comes after the operations that had changed the
//!   value. A compare-and-swap that fails has changed nothing.
//!
//! In this program the flag orders the get after the put, because the put is complete before the
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
//! # Messages and collective calls of MPI programs
//!
//! In MPI programs under `libtransom_mpi`, messages and collective calls of the MPI order accesses
//! too:
//!
//! - what the sender did before a send happens before what the receiver does after the receive, for
//!   all forms of sends and receives, probes and persistent requests;
//! - what the receiver did before the receive happens before what the sender does after a
//!   synchronous send (`MPI_Ssend`); after any other send, the sender is not ordered after the
//!   receive;
//! - what a rank did before a collective call happens before what the other ranks do after it, or
//!   after the wait for its request if the call is nonblocking.
//!
//! Some collective calls order less. A broadcast or a scatter orders only what the root did before
//! the call. A reduction to a root or a gather orders only what the root does after the call. A
//! scan orders only lower ranks before higher ranks. A neighborhood collective call orders only
//! what the neighbours did.
//!
//! A persistent collective call orders what a rank did before the start of the call. A partition of
//! a message orders what the sender did before it marked the partition as ready.
