//! Traps: mistakes that others have made, and what to do instead.
//!
//! # A window is not just shared memory
//!
//! Reading a counter, adding, and writing it back loses counts as soon as two ranks do it, under every route and model, and whatever is
//! flushed in between. One rank alone gets away with it. One call of the accumulate family is right with any number:
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
//! # A barrier is no flush, and no memory synchronization
//!
//! [`Job::barrier`](crate::Job::barrier) says that all ranks have come so far. What is in flight stays in flight, and no copy moves.
//! First complete, then meet, then [`sync`](crate::Window::sync): [the pattern](super::copies#the-pattern-that-holds-under-both-models).
//! In the unified model a program without the `sync` mostly works; the separate one shows what it relies on:
//!
//! ```
//! # let world = transom::init()?;
//! let separate = transom::Info::new().with("transom_model", "separate");
//! let win = transom::Window::<u64>::allocate_with(&world, 1, &separate)?;
//! let next = (world.rank() + 1) % world.size();
//! let mut loaded = [0];
//! win.lock_all(|epoch| {
//!     world.barrier()?; // all have opened their epoch, which brought their copies together
//!     epoch.put_value(next, 0, 5)?;
//!     epoch.flush(next)?;
//!     world.barrier()?;
//!     win.load(0, &mut loaded)?;
//!     assert_eq!(loaded, [0], "all have put and met, and still");
//!     epoch.sync();
//!     win.load(0, &mut loaded)
//! })?;
//! assert_eq!(loaded, [5]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Unified does not mean at once, and x86 is not the rule
//!
//! One copy means that what was put arrives without a further call, some time. *Which* loads see it is decided by synchronization.
//! x86 keeps stores in order and so forgives much; other processors and nets do not. Run tests under `transom_model=separate`: there
//! a load within the phase that puts is too early, on every machine.
//!
//! ```
//! # let world = transom::init()?;
//! let separate = transom::Info::new().with("transom_model", "separate");
//! let win = transom::Window::<u64>::allocate_with(&world, 1, &separate)?;
//! let (mut early, mut late) = ([0], [0]);
//! win.fence(|epoch| {
//!     epoch.put_value(world.rank(), 0, 5)?; // even its own
//!     win.load(0, &mut early)?;
//!     epoch.fence()?;
//!     win.load(0, &mut late)
//! })?;
//! assert_eq!((early, late), ([0], [5]));
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # The last writer does not win
//!
//! Two puts to one place, or a put beside an accumulate, have no defined result, perhaps not even one of the two values. Nor does a
//! second put of the *same* origin come after its first. Where several write one place, all use the accumulate family, with one type;
//! there the order of one origin's calls is kept.
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
//! # A flush tells the target nothing
//!
//! After it the data is there, and the target's program does not know. Set a flag by an atomic after it. Who polls a flag uses an atomic
//! too, and lets others run between two looks, since there may be more ranks than cores:
//!
//! ```
//! # let world = transom::init()?;
//! let win = transom::Window::<u32>::allocate(&world, 2)?; // data, flag
//! let (me, next) = (world.rank(), (world.rank() + 1) % world.size());
//! win.lock_all(|epoch| {
//!     epoch.put_value(next, 0, 42)?;
//!     epoch.flush(next)?; // the data is there before
//!     epoch.swap(next, 1, 1)?; // the flag that says so
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
//! # And some more
//!
//! - **Local completion is not arrival.** A request that was waited for, or a local flush, gives the buffer back, and promises no more.
//! - **Atomic is not whole.** An accumulate of 100 elements is 100 atomic elements. Where they must change together, writers lock
//!   exclusively and readers shared.
//! - **A lock binds only who locks.** It keeps out no loads and stores of the owner, and nobody under `NOCHECK`. Who loads its own part
//!   while others change it under locks locks it too.
//! - **A lock orders nothing.** It keeps others out while it is held; who comes first, it does not say.
//! - **Nested exclusive locks can wait for each other for ever.** All ranks lock in one order, for example that of the ranks.
//! - **Two windows over the same memory are strangers.** A fence of one completes nothing of the other, and atomicity and order hold
//!   within one.
//! - **Displacements count the target's unit**, which in a `RawWindow` may differ from the origin's.
//! - **A collective call that one rank leaves out hangs the others**: fences, barriers, making and freeing windows. A `?` before it does
//!   that on errors. Where it jumps over the `free` of a window, its rank does not wait for the others, and the launcher ends the job
//!   with the error; else the launcher's `--timeout` does.
