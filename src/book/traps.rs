//! Traps: common mistakes, and the correct programs.
//!
//! In most runs on one machine the mistakes of this chapter have no visible effect. Two settings
//! reveal many of them: the hint `transom_model=separate`, under which a load without
//! synchronization reads old data, and `TRANSOM_CHECK=1`, which
//! [reports conflicting accesses](super::checking).
//!
//! # A get and a put are not an atomic update
//!
//! If two ranks at the same time get a counter, increment the value and put it back, one increment
//! may be lost. Flushes in between do not help. One call of the accumulate family is correct for
//! any number of ranks:
//!
//! ```
//! # let world = transom::init()?;
//! let win = transom::Window::<u64>::allocate(&world, 1)?;
//! win.lock_all(|epoch| (0..100).try_for_each(|_| epoch.fetch_add(0, 0, 1).map(drop)))?;
//! world.barrier()?;
//! let count = win.lock_all(|epoch| epoch.fetch_value(0, 0))?;
//! assert_eq!(count, 100 * world.size() as u64);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # A barrier is neither a flush nor a memory synchronization
//!
//! [`Job::barrier`](crate::Job::barrier) ensures only that all ranks have reached the barrier.
//! Operations in flight stay in flight, and loads may not see data that has arrived. First complete
//! the operations, then synchronize the processes, then call [`sync`](crate::Window::sync) ([the
//! pattern](super::copies#the-pattern-that-holds-under-both-models)). In the unified model a
//! program without the `sync` mostly works; the separate model shows the mistake:
//!
//! ```
//! # let world = transom::init()?;
//! let separate = transom::Info::new().with("transom_model", "separate");
//! let win = transom::Window::<u64>::allocate_with(&world, 1, &separate)?;
//! let next = (world.rank() + 1) % world.size();
//! let mut loaded = [0];
//! win.lock_all(|epoch| {
//!     world.barrier()?; // all ranks have opened their epochs, which synchronized their copies
//!     epoch.put_value(next, 0, 5)?;
//!     epoch.flush(next)?;
//!     world.barrier()?;
//!     win.load(0, &mut loaded)?;
//!     assert_eq!(loaded, [0], "old data in spite of flush and barrier");
//!     epoch.sync();
//!     win.load(0, &mut loaded)
//! })?;
//! assert_eq!(loaded, [5]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # The unified model does not make puts visible at once
//!
//! In the unified model the data of a put eventually becomes visible without a further call. Only
//! synchronization determines *which* loads see the data. x86 keeps stores in order and so hides
//! many mistakes; other processors and nets do not. In the separate model a load between the same
//! two fences as the put reads old data on every machine:
//!
//! ```
//! # let world = transom::init()?;
//! let separate = transom::Info::new().with("transom_model", "separate");
//! let win = transom::Window::<u64>::allocate_with(&world, 1, &separate)?;
//! let (mut early, mut late) = ([0], [0]);
//! win.fence(|epoch| {
//!     epoch.put_value(world.rank(), 0, 5)?; // also a put to the own part
//!     win.load(0, &mut early)?;
//!     epoch.fence()?;
//!     win.load(0, &mut late)
//! })?;
//! assert_eq!((early, late), ([0], [5]));
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Concurrent puts to one location have no defined result
//!
//! After two concurrent puts to one location, or a concurrent put and accumulate, the location may
//! have neither of the two values. Two puts of the *same* origin have no order either. If several
//! ranks write one location, all of them must use the accumulate family, with one type. Accumulates
//! of one origin keep the order of their calls.
//!
//! ```
//! # let world = transom::init()?;
//! use transom::ops;
//!
//! let win = transom::Window::<u64>::allocate(&world, 1)?;
//! win.lock_all(|epoch| {
//!     epoch.accumulate(world.rank(), 0, &[1], ops::Replace)?;
//!     epoch.accumulate(world.rank(), 0, &[2], ops::Replace)
//! })?;
//! assert_eq!(win.lock_all(|epoch| epoch.fetch_value(world.rank(), 0))?, 2);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # A flush does not signal the target
//!
//! After a flush the target's memory has the data, but the target's program gets no signal. Set a
//! flag by an atomic after the flush, or use a [notified put](super::notifications). The target
//! polls the flag by an atomic too, and yields between two polls, since there may be more ranks
//! than cores:
//!
//! ```
//! # let world = transom::init()?;
//! let win = transom::Window::<u32>::allocate(&world, 2)?; // data, flag
//! let (me, next) = (world.rank(), (world.rank() + 1) % world.size());
//! win.lock_all(|epoch| {
//!     epoch.put_value(next, 0, 42)?;
//!     epoch.flush(next)?; // the data arrives before the flag
//!     epoch.swap(next, 1, 1)?; // the flag
//!     while epoch.fetch_value(me, 1)? == 0 {
//!         std::thread::yield_now();
//!     }
//!     let mut data = [0];
//!     epoch.scope(|part| part.get(me, 0, &mut data))?;
//!     assert_eq!(data, [42]);
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Further traps
//!
//! - **Local completion is not arrival.** After a completed request or a local flush the buffer may
//!   be used again; the target may not have the data yet.
//! - **Only single elements are atomic.** An accumulate of 100 elements is 100 atomic elements.
//!   Where elements must change together, writers take an exclusive lock and readers a shared one.
//! - **A lock binds only ranks that lock.** A lock excludes neither the owner's loads and stores
//!   nor epochs under `NOCHECK`. A rank that loads its own part while others change the part under
//!   locks must lock the part too.
//! - **A lock does not fix the order of ranks.** Any of the ranks that request a lock may get the
//!   lock first. If one rank must access the data before another, signal this by a notice or a
//!   flag.
//! - **Nested exclusive locks can deadlock.** All ranks must lock the targets in one order, for
//!   example by rank.
//! - **Two windows over the same memory are independent.** A fence of one completes nothing of the
//!   other, and atomicity and order hold only within one window.
//! - **Displacements count the target's unit**, which in a `RawWindow` may differ from the
//!   origin's.
//! - **A collective call that one rank leaves out hangs the others.** Collective calls are fences,
//!   barriers, and the creation and freeing of windows. After an error, `?` skips the calls that
//!   follow. If a skipped call is the `free` of a window, the rank does not wait for the other
//!   ranks, and the launcher ends the job with the error. If another collective call is skipped,
//!   the job hangs until the user or `transom-run --timeout` ends it.
