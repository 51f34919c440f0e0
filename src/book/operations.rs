//! # Operations
//!
//! All operations are nonblocking but those that give a value: `fetch_and_op` and its short forms, and `compare_and_swap`. A buffer that is lent
//! to an operation stays borrowed until the epoch, or the [`scope`](crate::Access::scope) that it was lent in, ends.
//!
//! ## Atomicity
//!
//! The accumulate family (accumulate, get-accumulate, fetch-and-op, compare-and-swap, and their request forms) is atomic for each
//! element, between all origins, the target included, as long as they use one predefined type on a location. Put and get are not: two puts to
//! one location, or a put and a get, at the same time leave anything. To read what others accumulate use
//! [`get_atomic`](crate::Access::get_atomic) or [`fetch_value`](crate::Access::fetch_value), to write it
//! [`Replace`](crate::ops::Replace).
//!
//! What one origin does to one location by the family happens in the order of its calls, unless the hint `accumulate_ordering`
//! relaxes it. Puts and gets have no order between flushes.
//!
//! Types and operations are MPI's (§5.9.2): a pair that MPI does not define does not compile in a typed window, and is an error of class `Op`
//! by [`RawWindow`](crate::RawWindow).
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! use transom::{Window, ops};
//!
//! let world = transom::init()?;
//! let win = Window::<f64>::allocate(&world, 3)?;
//! let (mine, mut before) = ([1.5, 2.5, 3.5], [0.0; 3]);
//! win.lock_all(|epoch| {
//!     epoch.accumulate(0, 0, &mine, ops::Sum)?;
//!     epoch.get_accumulate(0, 0, &mine, &mut before, ops::Max) // after the sum: order is kept
//! })?;
//! # if world.size() == 1 {
//! assert_eq!(before, mine);
//! # }
//! win.free()
//! # }
//! ```
//!
//! ## Layouts
//!
//! A [`Datatype`](crate::Datatype) says where the data of an item lies: vectors, indexed blocks, structures, parts of arrays, nested. Both sides
//! of an operation have one; the sequence of predefined types must be the same. Bounds are checked by the bytes that are really touched, and
//! nothing is written where they are outside.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! use transom::{At, BasicType, Datatype, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<u32>::allocate(&world, 16)?; // a plane of 4 by 4
//! let element = Datatype::basic(BasicType::Uint32);
//! let column = Datatype::vector(4, 1, 4, &element)?;
//! let values = [1u32, 2, 3, 4];
//! win.lock_all(|epoch| epoch.put_items(&values, 4, &element, At::new(0, 2, 1, &column)))?;
//! let mut plane = [0; 16];
//! win.load(0, &mut plane)?;
//! assert_eq!([plane[2], plane[6], plane[10], plane[14]], values);
//! win.free()
//! # }
//! ```
//!
//! ## Requests
//!
//! In passive epochs an operation may have a [`Request`](crate::Request), to wait for it alone. The forms that own their buffer give it back from
//! [`wait`](crate::BufferRequest::wait), so that a few buffers can turn within one epoch. A request that was waited for is inactive and costs
//! nothing more.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! let world = transom::init()?;
//! let win = transom::Window::<u64>::create(&world, (0..100).collect())?;
//! let sum = win.lock_all(|epoch| {
//!     let mut next = epoch.rget(0, 0, vec![0u64; 10])?;
//!     let mut sum = 0;
//!     for step in 1..=10 {
//!         let buffer = next.wait()?;
//!         sum += buffer.iter().sum::<u64>();
//!         // The next ten come while these are worked on.
//!         next = epoch.rget(0, (step % 10) * 10, buffer)?;
//!     }
//!     next.wait()?;
//!     Ok(sum)
//! })?;
//! assert_eq!(sum, 4950);
//! win.free()
//! # }
//! ```
