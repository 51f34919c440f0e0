//! Shared windows: loads and stores in the parts of other ranks of the node.
//!
//! Ranks of one node can load and store each other's parts like their own memory.
//! [`Window::allocate_shared`](crate::Window::allocate_shared) makes one segment for all ranks of a
//! job, which must all be on one node. [`Job::node_ranks`](crate::Job::node_ranks) with
//! [`Job::subset`](crate::Job::subset) makes such a job:
//!
//! ```
//! use transom::Window;
//!
//! let world = transom::init()?;
//! let node = world.subset(&world.node_ranks())?;
//! let (me, right) = (node.rank() as i64, (node.rank() + 1) % node.size());
//! let win = Window::<i64>::allocate_shared(&node, 4)?;
//! win.store(0, &[me, me + 1, me + 2, me + 3])?;
//! win.sync(); // orders my stores before the barrier
//! node.barrier()?;
//! win.sync(); // orders the barrier before my loads
//! let mut theirs = [0; 2];
//! win.load_from(right, 2, &mut theirs)?;
//! assert_eq!(theirs, [right as i64 + 2, right as i64 + 3]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! The parts are adjacent, in the order of the ranks. With the hint `alloc_shared_noncontig=true`
//! ([`allocate_shared_with`](crate::Window::allocate_shared_with)) each part is a separate
//! allocation.
//!
//! # Pointers
//!
//! [`load_from`](crate::Window::load_from) and [`store_to`](crate::Window::store_to) are safe
//! calls. [`shared_query`](crate::RawWindow::shared_query) gives access by pointers: it returns the
//! base, size and displacement unit of a rank's part. For [`PROC_NULL`](crate::PROC_NULL) it
//! returns those of the lowest rank whose part is not empty; this part begins the segment.
//!
//! ```
//! use transom::{Info, PROC_NULL, RawWindow};
//!
//! let world = transom::init()?;
//! let node = world.subset(&world.node_ranks())?;
//! let win = RawWindow::allocate_shared(&node, 256, 8, &Info::new())?;
//! let first = win.shared_query(PROC_NULL)?;
//! assert_eq!((first.rank(), first.size(), first.disp_unit()), (0, 256, 8));
//! let mine = win.shared_query(node.rank())?;
//! assert_eq!(mine.base(), first.base().wrapping_add(256 * node.rank()));
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! `load_from`, `store_to` and `shared_query` also work on other windows:
//!
//! - in the unified model, between ranks of a node, on allocated windows, on parts within memory of
//!   [`Job::alloc_mem`](crate::Job::alloc_mem) or of an allocated or shared window, and, where
//!   XPMEM maps them, on other created parts;
//! - on a rank's own part of every window that is not dynamic.
//!
//! For a part that loads and stores can't reach, the error is `RmaShared`.
//!
//! # Visibility of stores
//!
//! Put, get and the accumulate family also work on a shared window. Its memory model is always
//! unified. Plain loads and stores of several ranks race like those of several threads. To order
//! these accesses, call `sync`, then a call that synchronizes the processes, then `sync` again, as
//! in the first example. Alternatively write a flag by [`swap`](crate::Access::swap) and poll it by
//! [`fetch_value`](crate::Access::fetch_value), with a `sync` between flag and data at both sides.
//! One rank alone can't show such a race.
