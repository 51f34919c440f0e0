//! Epochs: when operations are allowed, and when they are complete.
//!
//! A call only *starts* an operation. The operation may use the caller's buffer in the background
//! until a synchronization call completes the operation. Every operation therefore belongs to an
//! *access epoch* of its origin, which the program opens and ends. There are four kinds of access
//! epochs:
//!
//! | access epoch | opened and ended by | targets | the target calls |
//! |---|---|---|---|
//! | fence | [`fence`](crate::Window::fence), collective | all | the same fences |
//! | start | [`start`](crate::Window::start) | those listed | [`post`](crate::Window::post) and [`wait`](crate::Window::wait) |
//! | lock | [`lock`](crate::Window::lock) | one; the rank may lock others at the same time | nothing: passive |
//! | lock all | [`lock_all`](crate::Window::lock_all) | all | nothing: passive |
//!
//! In the first two kinds (*active target*) the target takes part: it exposes its part during an
//! *exposure epoch*. In the other two (*passive target*) the target makes no call and may compute;
//! operations and locks complete nevertheless. [`synchronization`](super::synchronization) says how
//! to choose.
//!
//! # An epoch is a closure
//!
//! In a `Window<T>` the closure is the epoch. The end of the closure ends the epoch, even if the
//! closure fails or panics. An epoch borrows the buffers of its operations: the compiler refuses a
//! buffer that would be dropped too early, and a read of a get's result before the get is complete.
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::<u16>::allocate(&world, 100)?;
//! let next = (world.rank() + 1) % world.size();
//! let squares: Vec<u16> = (0..100).map(|x| x * x).collect();
//! let mut back = [0; 3];
//! win.lock_all(|epoch| {
//!     epoch.put(next, 0, &squares)?;
//!     epoch.flush(next)?; // the put is complete, so the get reads its data
//!     epoch.get(next, 5, &mut back)
//! })?; // the get is complete
//! assert_eq!(back, [25, 36, 49]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! To use the result of a get within the epoch, call the get in a [`scope`](crate::Access::scope).
//! At the end of the scope its operations are complete, and their buffers are no longer borrowed:
//!
//! ```
//! # let world = transom::init()?;
//! # let win = transom::Window::<u16>::allocate(&world, 4)?;
//! # win.store(2, &[11])?;
//! let me = world.rank();
//! let doubled = win.lock_all(|epoch| {
//!     let mut seen = [0];
//!     epoch.scope(|part| part.get(me, 2, &mut seen))?;
//!     epoch.put_value(me, 3, 2 * seen[0])?;
//!     Ok(2 * seen[0])
//! })?;
//! assert_eq!(doubled, 22);
//! # win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # When is an operation complete?
//!
//! There are two degrees of completion. *Complete at the origin*: the buffer may be used again.
//! *Complete at the target*: the data is in the target's memory.
//!
//! | call | completes |
//! |---|---|
//! | the end of an access epoch | this rank's operations of the epoch at both sides |
//! | [`flush`](crate::Passive::flush) | this rank's operations on one target at both sides |
//! | fence | the operations of all ranks at both sides |
//! | [`flush_local`](crate::Passive::flush_local) | as `flush`, at the origin only |
//! | the wait for a [request](super::requests) | the operation of the request at the origin |
//!
//! MPI promises less for `complete`, which ends a `start` epoch: the operations are complete at the
//! origin. At the target they are complete when `wait` returns (MPI-4.1 §12.5.2).
//!
//! No transport of this library reports completion at the origin before completion at the target,
//! so `flush_local` takes as long as `flush`. Completion does not notify the target's program:
//! [`copies`](super::copies) says when the target's loads see the data.
//!
//! # Explicit calls
//!
//! A [`RawWindow`](crate::RawWindow) has MPI's calls that open and end epochs, with
//! [assertions](crate::Assert) where MPI has them. Operations that may use their buffer after the
//! call returns are unsafe: the program must keep the buffer alive until the operation is complete.
//!
//! ```
//! use transom::{Assert, Class, Info, RawWindow};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = RawWindow::allocate(&world, 64, 8, &Info::new())?;
//! let value = 5u64.to_ne_bytes();
//! // SAFETY: `value` lives, unchanged, until the fence that completes the put.
//! let early = unsafe { win.put(value.as_ptr(), 8, me, 1) };
//! assert_eq!(early.expect_err("no epoch is open").class(), Class::RmaSync);
//!
//! win.fence(Assert::NOPRECEDE)?;
//! // SAFETY: `value` lives, unchanged, until the fence that completes the put.
//! unsafe { win.put(value.as_ptr(), 8, me, 1)? };
//! win.fence(Assert::NOSUCCEED)?;
//! let mut found = [0; 8];
//! win.load(8, &mut found); // bytes: displacement 1, unit 8
//! assert_eq!(found, value);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Rules
//!
//! - A rank has access epochs of only one kind open on a window at a time. Epochs of different
//!   windows are independent.
//! - An access and an exposure epoch may overlap. A rank may not lock its own part while the part
//!   is exposed.
//! - A call in the wrong epoch changes nothing and returns an error of the class
//!   [`RmaSync`](crate::Class::RmaSync), whose text names the rule.
//!
//! # Threads
//!
//! Threads of a rank may share a window, and one epoch of it: [`Access`](crate::Access) and the
//! epochs are `Sync`. Any thread may call operations, flushes and
//! [`Access::scope`](crate::Access::scope) at any time. A flush completes the operations of all
//! threads of the rank whose calls have returned before the flush (§12.5.4). Accumulates of one
//! thread keep their order; accumulates of two threads have no order unless the program makes one.
//!
//! Calls that open or end epochs may also come from several threads at the same time: for example
//! locks of different targets, or an access epoch and an exposure epoch. A waiting call does not
//! block the others. Epochs that exclude each other within a thread also exclude each other between
//! threads: the later call is an error. Only one thread at a time may make collective calls on a
//! job or window (MPI-4.1 §11.6.2). If two threads of a rank call a barrier or create a window over
//! the same job at the same time, the later call is an error of the class
//! [`Arg`](crate::Class::Arg). Threads that need collective calls of their own make subsets by
//! [`Job::subset_tagged`](crate::Job::subset_tagged).
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::<u64>::allocate(&world, 1)?;
//! win.lock_all(|epoch| {
//!     std::thread::scope(|threads| {
//!         for _ in 0..4 {
//!             threads.spawn(|| epoch.fetch_add(0, 0, 1).expect("rank 0 has a word"));
//!         }
//!     });
//!     Ok(())
//! })?;
//! world.barrier()?; // all ranks have added
//! let sum = win.lock_all(|epoch| epoch.fetch_value(0, 0))?;
//! assert_eq!(sum, 4 * world.size() as u64);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
