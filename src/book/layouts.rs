//! Layouts: data that is not contiguous, at the origin, at the target, or at both.
//!
//! One operation can move a column of a matrix, a block of it, or the fields of structs. A
//! [`Datatype`](crate::Datatype) describes such data: it lists basic types with their offsets in
//! bytes from a base. These calls build a datatype from a [`BasicType`](crate::BasicType) or from
//! other datatypes: [`contiguous`](crate::Datatype::contiguous),
//! [`vector`](crate::Datatype::vector), [`indexed`](crate::Datatype::indexed),
//! [`structure`](crate::Datatype::structure), [`subarray`](crate::Datatype::subarray) and their
//! relatives. There is no commit and no free: a datatype is ready when it is made, and it is cheap
//! to clone.
//!
//! An operation takes a datatype for each side, origin and target ([`At`](crate::At)), and the
//! number of *items*, which are instances of the datatype. The *signatures* of both sides must be
//! equal: the same basic types in the same order. The offsets may differ. In this example a put
//! writes a contiguous buffer to a column of a matrix, and a get reads the column in reverse order:
//!
//! ```
//! use transom::{At, BasicType, Datatype, Window};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = Window::<f64>::allocate(&world, 3 * 4)?; // 3 rows, 4 columns
//! let number = Datatype::basic(BasicType::Float64);
//! let column = Datatype::vector(3, 1, 4, &number)?;
//! let upwards = Datatype::indexed(&[(1, 2), (1, 1), (1, 0)], &number)?;
//! let mut back = [0.0; 3];
//! win.lock_all(|epoch| {
//!     epoch.put_items(&[1.0, 2.0, 3.0], 3, &number, At::new(me, 1, 1, &column))?; // from element 1 on: the second column
//!     epoch.flush(me)?;
//!     epoch.get_items(&mut back, 1, &upwards, At::new(me, 1, 1, &column))
//! })?;
//! assert_eq!(back, [3.0, 2.0, 1.0]);
//! let mut all = [0.0; 12];
//! win.sync();
//! win.load(0, &mut all)?;
//! assert_eq!(all, [0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Adding to scattered elements
//!
//! The accumulate family takes datatypes too. A program that assembles a matrix, or deposits
//! particles on a grid, adds many numbers to scattered elements of another rank. One
//! [`accumulate_items`](crate::Access::accumulate_items) adds all numbers for one rank:
//!
//! ```
//! use transom::{At, BasicType, Datatype, Window, ops};
//!
//! let world = transom::init()?;
//! let win = Window::<f64>::allocate(&world, 100)?;
//! let number = Datatype::basic(BasicType::Float64);
//! let places = Datatype::indexed_block(1, &[7, 2, 90], &number)?; // each place once
//! let values = [0.5, 1.5, 2.5];
//! win.lock_all(|epoch| epoch.accumulate_items(&values, 3, &number, At::new(0, 0, 1, &places), ops::Sum))?;
//! world.barrier()?; // all ranks have added
//! if world.rank() == 0 {
//!     let mut all = [0.0; 100];
//!     win.sync();
//!     win.load(0, &mut all)?;
//!     assert_eq!(all[7], 0.5 * world.size() as f64);
//! }
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! [`get_accumulate_items`](crate::Access::get_accumulate_items) also gets the previous values.
//!
//! # Extent
//!
//! The second item begins one *extent* after the first. In general the extent is the distance from
//! the lowest byte of the datatype to the end of the highest, gaps included. A structure rounds the
//! extent up to the alignment of its elements, and the extent of a subarray is that of the whole
//! array. [`resized`](crate::Datatype::resized) changes the extent. Two adjacent columns, for
//! example, are two items of a column whose extent is one element:
//!
//! ```
//! use transom::{BasicType, Datatype};
//!
//! let number = Datatype::basic(BasicType::Float64);
//! let column = Datatype::vector(3, 1, 4, &number)?;
//! assert_eq!((column.size(), column.extent()), (3 * 8, 9 * 8));
//! let columns = Datatype::resized(&column, 0, 8)?;
//! assert_eq!(columns.span(2), Some((0, 10 * 8))); // two columns, in the same three rows
//! assert!(columns.matches(2, &number, 6));
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Rules
//!
//! A call that breaks one of these rules fails with the class in parentheses:
//!
//! - The items at the target of a put or an accumulate, and the items of a result, must not overlap
//!   (`Type`). MPI forbids overlapping items at the origin of a get too, but the library accepts
//!   them: a byte that two items share then gets the value of one of the two.
//! - The items must lie within the target's part (`RmaRange`), and in a typed window within the
//!   origin's slice (`Count`).
//! - The accumulate family requires one basic type in all datatypes (`Type`). In a `Window<T>` it
//!   is the basic type of `T`.
//!
//! [`costs`](super::costs) says how many remote operations a layout takes.
