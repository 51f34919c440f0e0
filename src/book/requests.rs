//! Requests: waiting for one operation of an epoch.
//!
//! A flush waits for all operations on a target. A program that waits for one operation calls the
//! form of the operation whose name begins with `r`, for example `rput`. This form returns a
//! request, for which the program waits. Such forms exist only in passive epochs, those of `lock`
//! and `lock_all` (§12.3.5).
//!
//! A request is complete when its buffer may be used again; the buffer of a get then has the data.
//! A complete request of a put does *not* mean that the target has the data: that requires a flush
//! or the end of the epoch.
//!
//! # Requests that own their buffers
//!
//! In a `Window<T>`, the calls whose names end in `_owned` take a buffer and give it back through a
//! [`BufferRequest`](crate::BufferRequest): [`rget_owned`](crate::Passive::rget_owned),
//! [`rput_owned`](crate::Passive::rput_owned) and
//! [`rget_accumulate_owned`](crate::Passive::rget_accumulate_owned). A program can thus fetch one
//! block while it processes another, and two buffers suffice for any number of blocks:
//!
//! ```
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = transom::Window::<u64>::create(&world, (0..1000).collect())?;
//! let sum = win.lock_all(|epoch| {
//!     let (mut sum, mut spare) = (0, vec![0; 100]);
//!     let mut next = epoch.rget_owned(me, 0, vec![0; 100])?;
//!     for block in 1..10 {
//!         let ahead = epoch.rget_owned(me, 100 * block, spare)?;
//!         spare = std::mem::replace(&mut next, ahead).wait()?;
//!         sum += spare.iter().sum::<u64>(); // while the next block is in flight
//!     }
//!     Ok(sum + next.wait()?.iter().sum::<u64>())
//! })?;
//! assert_eq!(sum, 999 * 1000 / 2);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Requests that borrow their buffers
//!
//! [`rput`](crate::Passive::rput), [`rget`](crate::Passive::rget),
//! [`raccumulate`](crate::Passive::raccumulate) and
//! [`rget_accumulate`](crate::Passive::rget_accumulate) borrow their buffers until the epoch or
//! scope ends, and return a [`Request`](crate::Request). The request-based calls of `RawWindow`
//! also return a `Request`; their buffers are addresses. A program can wait for several requests of
//! one kind together: for [all](crate::Request::wait_all), for [any](crate::Request::wait_any), for
//! [some](crate::Request::wait_some).
//!
//! ```
//! use transom::{Request, ops};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = transom::Window::<f32>::allocate(&world, 8)?;
//! win.lock_all(|epoch| {
//!     let mut sums = Vec::new();
//!     for half in 0..2 {
//!         sums.push(epoch.raccumulate(me, 4 * half, &[0.5; 4], ops::Sum)?);
//!     }
//!     Request::wait_all(&mut sums)?;
//!     assert!(sums.iter().all(|sum| !sum.is_active()));
//!     epoch.flush(me)?; // so that the gets read the sums
//!
//!     let mut gets = vec![epoch.rget_owned(me, 0, vec![0.0; 4])?, epoch.rget_owned(me, 4, vec![0.0; 4])?];
//!     while let Some(first) = Request::wait_any(&mut gets)? {
//!         assert_eq!(gets.swap_remove(first).wait()?, [0.5; 4]); // in the order of completion
//!     }
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # The life of a request
//!
//! A request that was waited for, or that a test found complete, is inactive and costs nothing. A
//! `Request` may be dropped: the end of the epoch still completes its operation. Dropping a
//! `BufferRequest` waits, since it owns the buffer. On mapped memory, and on memory that the kernel
//! copies, an operation and its request are complete when the call returns. A request stays in
//! flight only on a net, where the operation is a message to the target, or where the network
//! device performs an accumulate ([`actor`](crate::Window::actor)).
