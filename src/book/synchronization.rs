//! Choosing a synchronization: fence, post/start/complete/wait, lock, or lock all and flush.
//!
//! | the program | synchronization | ranks that make the calls |
//! |---|---|---|
//! | works in phases, in which each rank accesses several others | [`fence`](crate::Window::fence) | all ranks |
//! | exchanges with a few neighbours at times that both sides know | [`post`](crate::Window::post), [`start`](crate::Window::start), [`wait`](crate::Window::wait) | the neighbours |
//! | reads and writes anywhere, any time, while targets compute: tables, counters, work queues | [`lock_all`](crate::Window::lock_all) once, [`flush`](crate::Passive::flush) as needed | the origin |
//! | changes several locations of one target that belong together | [`lock`](crate::Window::lock) with [`Exclusive`](crate::Lock::Exclusive) | the origin |
//!
//! If you are unsure, open one `lock_all` epoch around the main loop, flush where an operation must
//! be complete, and use the [accumulate family](super::operations#atomicity) for locations that
//! several ranks change. The targets then make no call. A rank pays one atomic to open the epoch,
//! and one atomic to end it.
//!
//! # Fence
//!
//! A fence ends a phase of all ranks and begins the next. Operations that any rank started before
//! the fence are then complete at origin and target, and loads see their effects.
//! [`Window::fence`](crate::Window::fence) performs a fence before its closure and one after it. A
//! program with many phases should call [`FenceEpoch::fence`](crate::FenceEpoch::fence) between the
//! phases of one closure: each phase then costs one fence instead of two.
//!
//! ```
//! let world = transom::init()?;
//! let (me, size) = (world.rank(), world.size());
//! let win = transom::Window::<usize>::allocate(&world, 2)?;
//! let right = (me + 1) % size;
//! win.fence(|epoch| {
//!     epoch.put_value(right, 0, me)?;
//!     epoch.fence()?; // the puts of all ranks are complete
//!     let mut left = [0];
//!     win.load(0, &mut left)?;
//!     epoch.put_value(right, 1, left[0])
//! })?;
//! let mut two_to_the_left = [usize::MAX];
//! win.load(1, &mut two_to_the_left)?;
//! assert_eq!(two_to_the_left, [(me + 2 * size - 2) % size]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Post, start, complete, wait
//!
//! Only the ranks that exchange data take part. The target calls `post` with the list of the
//! origins that may access it, and then `wait`, which returns when these origins have completed
//! their operations. An origin calls `start` with the list of its targets; the end of the closure
//! is MPI's complete.
//!
//! Neither `post` nor `start` waits. The first operation on a target waits for that target's post;
//! the end of the closure waits for the posts of targets without operations.
//!
//! ```
//! let world = transom::init()?;
//! let (me, size) = (world.rank(), world.size());
//! let win = transom::Window::<usize>::allocate(&world, 1)?;
//! let (left, right) = ((me + size - 1) % size, (me + 1) % size);
//! win.post(&[left])?;
//! win.start(&[right], |epoch| epoch.put_value(right, 0, me + 1))?;
//! win.wait()?;
//! let mut got = [0];
//! win.load(0, &mut got)?;
//! assert_eq!(got, [left + 1]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Lock
//!
//! Several origins may hold a shared lock of a target at once; only one origin may hold an
//! exclusive lock. In this example each rank moves an amount between two accounts at rank 0. A rank
//! that holds the lock sees both changes of a transfer, or neither. (One rank alone can't show the
//! exclusion.)
//!
//! ```
//! use transom::{Lock, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<i64>::allocate(&world, 2)?; // at rank 0: two accounts
//! win.lock(Lock::Exclusive, 0, |epoch| {
//!     let mut accounts = [0; 2];
//!     epoch.scope(|part| part.get(0, 0, &mut accounts))?;
//!     epoch.put_value(0, 0, accounts[0] - 5)?;
//!     epoch.put_value(0, 1, accounts[1] + 5)
//! })?;
//! let mut accounts = [1; 2];
//! win.lock(Lock::Shared, 0, |epoch| epoch.get(0, 0, &mut accounts))?;
//! assert_eq!(accounts[0] + accounts[1], 0);
//! # world.barrier()?;
//! # win.lock(Lock::Shared, 0, |epoch| epoch.get(0, 0, &mut accounts))?;
//! # assert_eq!(accounts, [-5 * world.size() as i64, 5 * world.size() as i64]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! Four rules:
//!
//! - A lock excludes only origins that lock. A lock does not stop loads and stores of the target.
//! - If ranks wait for shared and for exclusive locks, holders of the two kinds alternate. A
//!   waiting rank may be overtaken several times, but does not starve.
//! - A rank may lock several targets at once. To avoid deadlock, all ranks lock them in the same
//!   order.
//! - Over a net without atomics, such as TCP, `lock` may return before the lock is acquired. The
//!   lock is then acquired by the first flush, by the first operation that returns its result, or
//!   by the first operation that is too long for a message. If there is none of these, the end of
//!   the epoch acquires it. If a lock also guards files or messages, call a flush at the beginning
//!   of the epoch.
//!
//! # Lock all, and flush
//!
//! `lock_all` takes a shared lock on every rank, and opens an epoch to all ranks. Despite its name
//! the call is not collective: other ranks need not make it. Shared locks exclude only exclusive
//! locks. Within the epoch a [`flush`](crate::Passive::flush) completes the operations on one
//! target. Operations on other targets stay in flight.
//!
//! ```
//! let world = transom::init()?;
//! // At rank 0: a board of 64 places, and the count of those taken.
//! let win = transom::Window::<u64>::allocate(&world, 65)?;
//! let place = win.lock_all(|epoch| {
//!     let place = epoch.fetch_add(0, 64, 1)? as usize; // a different number for each rank
//!     epoch.put_value(0, place, 1000 + world.rank() as u64)?;
//!     epoch.flush(0)?; // the entry is on the board
//!     Ok(place)
//! })?;
//! assert!(place < world.size());
//! let mut entry = [0];
//! win.lock_all(|epoch| epoch.get(0, place, &mut entry))?;
//! assert_eq!(entry, [1000 + world.rank() as u64]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Assertions
//!
//! An assertion is a promise of the program, which lets a call omit work (§12.5.5). In a
//! `Window<T>`, [`post_with`](crate::Window::post_with),
//! [`start_with`](crate::Window::start_with), [`lock_with`](crate::Window::lock_with) and
//! [`lock_all_with`](crate::Window::lock_all_with) take assertions; in a `RawWindow`, `fence`,
//! `post`, `start`, `lock` and `lock_all` do.
//!
//! | assertion | saving |
//! |---|---|
//! | `NOCHECK` of a lock: no other rank holds or requests a conflicting lock during the epoch | the round trip to the lock's word |
//! | `NOCHECK` of both `post` and `start`: the post precedes the start | the message of the post |
//! | `NOPRECEDE` with `NOSUCCEED` of a fence | the barrier of the fence |
//! | `NOPRECEDE` or `NOSUCCEED` alone, `NOSTORE`, `NOPUT` | nothing; they are accepted |
//!
//! Two kinds of assertions are errors of the class [`Assert`](crate::Class::Assert): one that MPI
//! does not define for the call, and one that the library finds to be false. The conflict checker
//! reports assertions that [calls of other ranks make false](super::checking#false-assertions).
//!
//! ```
//! use transom::{Assert, Class, Lock, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<u64>::allocate(&world, 1)?;
//! win.lock_with(Lock::Exclusive, world.rank(), Assert::NOCHECK, |epoch| epoch.put_value(world.rank(), 0, 1))?;
//! let wrong = win.lock_all_with(Assert::NOPUT, |_| Ok(())).expect_err("NOPUT is for fence and post");
//! assert_eq!(wrong.class(), Class::Assert);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
