//! # Windows
//!
//! A window is memory of each rank that the others access. Creating one is collective: all ranks of the job, or of a
//! [subset](crate::Job::subset) of it, make the same call, each with the size it likes; 0 is legal. Freeing it is collective too, and is
//! explicit: a window that is dropped without [`free`](crate::Window::free) warns and keeps its memory, since it can't wait in a drop.
//!
//! | flavor | memory | take it when |
//! |---|---|---|
//! | [`allocate`](crate::Window::allocate) | of the library, mapped by all ranks of the node | always, unless one of the others is needed: it is the fastest on every route |
//! | [`create`](crate::Window::create) | of the caller | the data is in a buffer that can't move; within a node, atomics on it are the target's work |
//! | [`allocate_shared`](crate::Window::allocate_shared) | one segment, all parts one after the other | ranks of one node load and store each other's parts |
//! | [`create_dynamic`](crate::RawWindow::create_dynamic) | attached and detached later, reached by address | memory comes and goes: lists, trees |
//!
//! [`Window<T>`](crate::Window) has elements of one type, displacements that count them, and epochs as closures, so that no call of it is
//! unsafe. [`RawWindow`](crate::RawWindow) has bytes, a displacement unit of each rank's own, buffers by address and explicit
//! calls; the two do the same.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! use transom::{Info, Window};
//!
//! let world = transom::init()?;
//! let info = Info::new().with("mpi_minimum_alignment", "4096").with("no_locks", "true");
//! let grid = Window::<f64>::allocate_with(&world, 100, &info)?;
//! let buffer = Window::create(&world, vec![1u32, 2, 3])?;
//! assert_eq!((grid.len(), buffer.len()), (100, 3));
//! assert_eq!(grid.info().get("no_locks"), Some("true"));
//! assert_eq!(buffer.reclaim()?, [1, 2, 3]); // the buffer comes back
//! grid.free()
//! # }
//! ```
//!
//! ## Hints
//!
//! [`Info`](crate::Info) carries MPI's hints and the library's own; [`info`](crate::Window::info) tells all that are in force. Unknown keys are
//! ignored, a bad value of a known one is an error at every rank.
//!
//! | key | values (default first) | what it does here |
//! |---|---|---|
//! | `no_locks` | `false`, `true` | lock calls are errors |
//! | `accumulate_ordering` | `rar,raw,war,waw`, a part of them, `none` | `none`: requests and the net's atomics may overtake each other |
//! | `accumulate_ops` | `same_op_no_op`, `same_op` | told back |
//! | `same_size`, `same_disp_unit` | `false`, `true` | told back |
//! | `alloc_shared_noncontig` | `false`, `true` | parts of a shared window lie apart, each in its rank's own memory |
//! | `mpi_accumulate_granularity` | `0`, bytes | 1 to 8: aligned words of 4 and 8 bytes go by the CPU's atomics, else by locks and vector code |
//! | `mpi_minimum_alignment` | `1`, a power of two | where allocated memory begins |
//! | `transom_model` | `unified`, `separate` | see [`copies`](super::copies) |
//! | `transom_atomics` | `auto`, `cpu`, `nic` | who performs atomics on integers of 32 and 64 bits |
//!
//! ## Dynamic windows
//!
//! A rank attaches any number of regions that do not overlap; who wants to access one must have been told its address. An access to what is
//! not attached, or no longer, is an error of class `RmaRange` that names rank, address and length: at the call within a node, at the flush
//! between nodes. Nothing of it is done.
