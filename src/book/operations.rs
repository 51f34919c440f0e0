//! Operations: put, get and the accumulate family; atomicity and order.
//!
//! | call | effect | MPI |
//! |---|---|---|
//! | [`put`](crate::Access::put), [`put_value`](crate::Access::put_value) | writes | `MPI_Put` |
//! | [`get`](crate::Access::get) | reads | `MPI_Get` |
//! | [`accumulate`](crate::Access::accumulate) | combines elements of the target with those of the origin | `MPI_Accumulate` |
//! | [`get_accumulate`](crate::Access::get_accumulate), [`get_atomic`](crate::Access::get_atomic) | accumulates, and gets the previous values; `get_atomic` changes nothing | `MPI_Get_accumulate` |
//! | [`fetch_and_op`](crate::Access::fetch_and_op), [`fetch_add`](crate::Access::fetch_add), [`swap`](crate::Access::swap), [`fetch_value`](crate::Access::fetch_value) | changes one element and gives its previous value | `MPI_Fetch_and_op` |
//! | [`compare_and_swap`](crate::Access::compare_and_swap) | replaces one element if it has the expected value; gives its previous value | `MPI_Compare_and_swap` |
//! | [`start_fetch_and_op`](crate::Access::start_fetch_and_op), [`start_compare_and_swap`](crate::Access::start_compare_and_swap) | `fetch_and_op` and `compare_and_swap` without the wait for the value, as in MPI | `MPI_Fetch_and_op`, `MPI_Compare_and_swap` |
//!
//! A call that returns a value waits for this value; all other operations may be incomplete when
//! their calls return. Which operations a program needs depends on the accesses of other ranks:
//!
//! - If one rank at a time accesses a location, put and get are enough.
//! - If several ranks may change a location at the same time, use the accumulate family (all rows
//!   but the first two): its changes are atomic.
//!
//! An operation on [`PROC_NULL`](crate::PROC_NULL) succeeds and has no effect. `RawWindow` has the
//! same operations on bytes, with [`Op`](crate::Op) and [`BasicType`](crate::BasicType) as values.
//!
//! ```
//! use transom::{Window, ops};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = Window::<i32>::allocate(&world, 4)?;
//! let mut before = [0; 4];
//! win.lock_all(|epoch| {
//!     epoch.accumulate(me, 0, &[5, 6, 7, 8], ops::Sum)?;
//!     epoch.get_accumulate(me, 0, &[6, 6, 6, 6], &mut before, ops::Max)?; // after the sum: one origin, one location
//!     assert_eq!(epoch.compare_and_swap(me, 3, 8, -1)?, 8);
//!     assert_eq!(epoch.swap(me, 0, 100)?, 6);
//!     assert_eq!(epoch.fetch_value(me, 0)?, 100);
//!     Ok(())
//! })?;
//! assert_eq!(before, [5, 6, 7, 8]);
//! let mut after = [0; 4];
//! win.sync();
//! win.load(0, &mut after)?;
//! assert_eq!(after, [100, 6, 7, -1]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Operations and types
//!
//! The operations of accumulates are the types of [`ops`](crate::ops), such as `ops::Sum`. Their
//! elements are integers of 8 to 64 bits, `f32`, `f64`, [`Complex`](crate::Complex),
//! [`Logical`](crate::reduce::Logical), [`RawByte`](crate::reduce::RawByte), and the pairs of
//! `MaxLoc` and `MinLoc`. An element may have any alignment at the target, as in a packed
//! structure; integers of 4 and 8 bytes are faster if they are aligned.
//!
//! MPI does not define every operation on every type (§6.9.2). An undefined pair, such as the sum
//! of two logical values, does not compile. In a `RawWindow` it is an error of the class `Op`;
//! [`Op::allows`](crate::Op::allows) tells in advance whether a pair is defined.
//! [`reduce`](crate::reduce) defines cases that MPI leaves open: overflow, NaN, the sign of zero.
//!
//! # Atomicity
//!
//! Operations of the accumulate family are atomic with respect to each other, element by element,
//! if all of them access the location with the same predefined type. The origins may be any ranks,
//! including the target. A whole call is not atomic: two accumulates of many elements may
//! interleave. A put or a get is not atomic, even of a single element. The table says what happens
//! if two ranks access one location at the same time:
//!
//! | on the same location, without synchronization between them | result |
//! |---|---|
//! | two of the accumulate family, same type | some sequential order of the two, element by element |
//! | two of the accumulate family, different types | not defined |
//! | two gets | defined |
//! | two puts; a put and a get; an accumulate and a put or get | not defined |
//! | an operation that writes, and a local load or store | not defined; in the unified model a load is allowed, and sees old, new or mixed bytes |
//!
//! To read a location to which others accumulate, use [`get_atomic`](crate::Access::get_atomic) or
//! [`fetch_value`](crate::Access::fetch_value). To write a location that others poll, use
//! [`swap`](crate::Access::swap), or `accumulate` with [`ops::Replace`](crate::ops::Replace).
//!
//! # Order
//!
//! Puts and gets have no order, not even from one origin to one location; a flush between them
//! orders them. Accumulates of one origin on one location keep the order of their calls, unless the
//! hint `accumulate_ordering` is `none`. A put is never ordered with an accumulate: put the data,
//! flush, set the flag.
//!
//! ```
//! use transom::{Info, Window, ops};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let hints = Info::new().with("accumulate_ordering", "none");
//! let win = Window::<u64>::allocate_with(&world, 9, &hints)?; // eight places for data, and a flag
//! win.lock_all(|epoch| {
//!     epoch.put(me, 0, &[1, 2, 3, 4, 5, 6, 7, 8])?;
//!     epoch.flush(me)?;
//!     epoch.accumulate(me, 8, &[1], ops::Replace)?; // a rank that sees the flag finds the data
//!     epoch.flush(me)?; // without order, the next accumulate needs a flush
//!     assert_eq!(epoch.fetch_value(me, 8)?, 1);
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # A sum over all ranks in each step
//!
//! [`Job::all_reduce`](crate::Job::all_reduce) gives all ranks a sum or a maximum, but creates two
//! windows in each call. A program that needs a sum in each step, for example to learn whether any
//! rank still has work, should keep one window for all steps. The steps use three elements in turn.
//! While the ranks add to one element, the next element is already zero, and slow ranks may still
//! read the previous one.
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::<u64>::allocate(&world, 3)?; // only rank 0's part is used
//! let mut work = world.rank() as u64; // the items that this rank still has
//! let mut step = 0;
//! win.lock_all(|epoch| {
//!     loop {
//!         epoch.fetch_add(0, step % 3, work)?;
//!         world.barrier()?; // all ranks have added
//!         if epoch.fetch_value(0, step % 3)? == 0 {
//!             return Ok(());
//!         }
//!         if world.rank() == 0 {
//!             epoch.swap(0, (step + 2) % 3, 0)?; // all ranks have read it in the step before
//!         }
//!         work = work.saturating_sub(1);
//!         step += 1;
//!     }
//! })?;
//! assert_eq!(step, world.size() - 1);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Vector code or CPU atomics
//!
//! On *mapped* memory, which the origin can load and store, the hint `mpi_accumulate_granularity`
//! chooses between two implementations of accumulates:
//!
//! - By default an accumulate locks one block of 4 KiB at a time, and long accumulates run as
//!   vector code. If several ranks contend for single integers, the library bypasses the lock for
//!   these integers, and changes them by CPU atomics.
//! - Under the hint `mpi_accumulate_granularity` of 1 to 8, CPU atomics combine aligned elements of
//!   4 or 8 bytes one by one. This may be faster where many ranks contend for single floating-point
//!   numbers, and is slower for long vectors.
//!
//! Between nodes a network device may perform the atomics on integers of 64 bits, and of 32 bits if
//! it has such atomics. [`actor`](crate::Window::actor) says whether the CPU, the device, or both
//! perform them. CPUs perform the atomics on all other types and on misaligned elements.
