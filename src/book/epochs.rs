//! Epochs: when operations are allowed, and when they are complete.
//!
//! The call of an operation only *starts* it. It may go on in the background, with the caller's buffer, until a synchronization call
//! completes it. So every operation belongs to an *access epoch* of its origin. In *active target* synchronization the target
//! takes part by an *exposure epoch*; in *passive target* synchronization it calls nothing, may compute, and everything
//! completes all the same, locks included.
//!
//! | access epoch | opened and ended by | targets | the target calls |
//! |---|---|---|---|
//! | fence | [`fence`](crate::Window::fence), collective | all | the same fences |
//! | start | [`start`](crate::Window::start) | those listed | [`post`](crate::Window::post) and [`wait`](crate::Window::wait) |
//! | lock | [`lock`](crate::Window::lock) | one; others may be locked within it | nothing: passive |
//! | lock all | [`lock_all`](crate::Window::lock_all) | all | nothing: passive |
//!
//! [`synchronization`](super::synchronization) says which to choose.
//!
//! # Closures
//!
//! A `Window<T>` has epochs as closures. The end of the closure ends the epoch, also when it fails or panics. A buffer is borrowed
//! by the epoch that it was lent to: the compiler refuses one that would be gone too early, and a look at a get's result before
//! it is there.
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::<u16>::allocate(&world, 100)?;
//! let next = (world.rank() + 1) % world.size();
//! let squares: Vec<u16> = (0..100).map(|x| x * x).collect();
//! let mut back = [0; 3];
//! win.lock_all(|epoch| {
//!     epoch.put(next, 0, &squares)?;
//!     epoch.flush(next)?; // the put is complete, so that the get finds it
//!     epoch.get(next, 5, &mut back)
//! })?; // the get is complete
//! assert_eq!(back, [25, 36, 49]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! A value that is needed within the epoch is got in a [`scope`](crate::Access::scope): what was started in it is complete at its
//! end, and its buffers are free again.
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
//! # Explicit calls
//!
//! A [`RawWindow`](crate::RawWindow) has MPI's calls, each with its [assertions](crate::Assert). Here the program promises that
//! buffers live long enough.
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
//! // SAFETY: as above.
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
//! - Access epochs of one window at one rank are disjoint: one kind at a time. Epochs of different windows know nothing of each other.
//! - An access and an exposure epoch may overlap. A rank's part is not locked by itself while it is exposed.
//! - A call in the wrong epoch is an error of the class [`RmaSync`](crate::Class::RmaSync) that names the rule, and changes
//!   nothing.
//! - Synchronization calls on one window come from one thread at a time.
//!
//! # Degrees of completion
//!
//! *Complete at the origin*: the buffer may be used again. *Complete at the target*: the data is in its public copy. The end of an access
//! epoch, and a flush, give both for its operations; a fence gives it for those of all ranks, to all ranks. A local flush and a
//! request promise the first only. No transport here knows it earlier than the second, so that they wait as long.
