//! Windows: memory of each rank that the others access.
//!
//! Making a window is collective: all ranks of a [`Job`](crate::Job) make the same call, in the same order among their windows,
//! each with the length it likes for its own part. 0 is legal.
//!
//! [`Window<T>`](crate::Window) has elements of one type, epochs as closures, and no unsafe call: begin with it. `T` is any type of
//! which all bytes are a value ([`RmaElem`](crate::RmaElem)); accumulates work on MPI's types ([`Element`](crate::Element)).
//! [`RawWindow`](crate::RawWindow) has MPI's calls one by one: bytes, types at run time, explicit epochs, buffers by address.
//! [Dynamic windows](super::dynamic), accumulates with [layouts](super::layouts) and most assertions are its alone.
//!
//! ```
//! use transom::{Flavor, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<u32>::allocate(&world, 10)?; // ten zeroed elements at this rank
//! assert_eq!((win.len(), win.flavor()), (10, Flavor::Allocate));
//! let next = (world.rank() + 1) % world.size();
//! win.fence(|epoch| epoch.put(next, 4, &[1, 2, 3]))?; // into the next rank's part
//! let mut part = [0; 10];
//! win.load(0, &mut part)?;
//! assert_eq!(part, [0, 0, 0, 0, 1, 2, 3, 0, 0, 0]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Flavors
//!
//! | flavor | made by | memory | take it when |
//! |---|---|---|---|
//! | [`Allocate`](crate::Flavor::Allocate) | [`Window::allocate`](crate::Window::allocate) | of the library, zeroed | nothing speaks against it: it is the fastest on every route |
//! | [`Create`](crate::Flavor::Create) | [`Window::create`](crate::Window::create) | of the caller | the data is in a buffer that can't move |
//! | [`Shared`](crate::Flavor::Shared) | [`Window::allocate_shared`](crate::Window::allocate_shared) | of the library, zeroed, one segment | ranks of one node load and store each other's parts: [`shared`](super::shared) |
//! | [`Dynamic`](crate::Flavor::Dynamic) | [`RawWindow::create_dynamic`](crate::RawWindow::create_dynamic) | attached later, piece by piece | memory comes and goes, lists and trees: [`dynamic`](super::dynamic) |
//!
//! Within a node, allocated and shared parts are mapped by the other ranks, so that a put is a store. So is created and attached memory
//! where that can be done safely: its pages become pages of the library, at the addresses that they have and with their contents, until the window is freed or
//! the region detached, and the program sees no difference. Elsewhere the others reach it by a system call (cross-memory attach), or by messages where the kernel forbids
//! that. [`costs`](super::costs) has the table, and when which is.
//!
//! # Memory ahead of its windows
//!
//! [`Job::alloc_mem`](crate::Job::alloc_mem) gives memory of the library without a window (`MPI_ALLOC_MEM`). A window that is created over it, or
//! over any part of it, is mapped as an allocated one is; several windows may have the same memory, and keep it after the [`Allocation`](crate::Allocation) is
//! dropped. Each rank decides for its own part: others of the node map those that are in such memory, whatever this system lets the library do
//! with other memory, and at no cost to creation.
//! [`is_mapped`](crate::Window::is_mapped) tells whether all are mapped.
//!
//! ```
//! use transom::{Info, Window};
//!
//! let world = transom::init()?;
//! let memory = world.alloc_mem(1 << 16, &Info::new())?;
//! memory.store(0, b"a header");
//! let win = Window::<f64>::create_over(&world, &memory, 64, 1000, &Info::new())?; // behind the header
//! assert!(win.is_mapped());
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Displacements
//!
//! In a `Window<T>` a displacement counts elements. In a `RawWindow` it counts the *target's* displacement unit, which may differ
//! from rank to rank. Each operation is checked against the size of the target's part, at the origin, before anything is
//! written.
//!
//! # The end
//!
//! [`free`](crate::Window::free) is collective and waits until no rank accesses the window any more.
//! [`reclaim`](crate::Window::reclaim) also gives the buffer of a created window back. A window that is dropped without them
//! prints a warning and keeps its memory: peers may still write there, and a drop can't wait for them.
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::create(&world, vec![1.5; 4])?;
//! win.fence(|epoch| epoch.put_value(world.rank(), 3, 2.5))?;
//! assert_eq!(win.reclaim()?, [1.5, 1.5, 1.5, 2.5]);
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Some of the ranks
//!
//! [`Job::subset`](crate::Job::subset) makes a job of some ranks, numbered in the order of the list. Exactly these call it, with the
//! same list; it sends nothing. Windows and barriers of a subset concern its ranks only. Targets are numbers of the subset;
//! [`group`](crate::Window::group) tells which ranks of the whole job they are.
//!
//! ```
//! let world = transom::init()?;
//! // Ranks of the same parity, highest first.
//! let mine: Vec<usize> = (0..world.size()).rev().filter(|rank| rank % 2 == world.rank() % 2).collect();
//! let half = world.subset(&mine)?;
//! let win = transom::Window::<u64>::allocate(&half, 1)?;
//! assert_eq!(win.group(), mine);
//! win.lock_all(|epoch| epoch.fetch_add(0, 0, 1))?; // at the highest rank of this parity
//! half.barrier()?;
//! let count = win.lock_all(|epoch| epoch.fetch_value(0, 0))?;
//! assert_eq!(count, half.size() as u64);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Hints
//!
//! [`Info`](crate::Info) has MPI's hints and the library's own. `allocate_with`, `create_with`, `allocate_shared` and the calls of
//! `RawWindow` take it, [`info`](crate::Window::info) tells all with the values in force, and
//! [`set_info`](crate::Window::set_info) changes the first five of the table. Unknown keys are ignored. A bad value of a known one,
//! or one that differs where all ranks must give the same (marked *), fails the making of the window at every rank.
//!
//! | key | values, the default first | what it does |
//! |---|---|---|
//! | `no_locks` | `false`, `true` | `true`: locks are errors of the class `LockType` |
//! | `accumulate_ordering` | `rar,raw,war,waw`, a part of them, `none` | `none`: [no order](super::operations#order) is kept; a part keeps all four |
//! | `accumulate_ops` | `same_op_no_op`, `same_op` | told back; all mixtures are atomic |
//! | `same_size` | `false`, `true` | told back |
//! | `same_disp_unit` | `false`, `true` | told back |
//! | `alloc_shared_noncontig` * | `false`, `true` | `true`: parts of a shared window lie apart |
//! | `mpi_accumulate_granularity` * | `0`, a number of bytes | 1 to 8: [single elements](super::operations#long-or-single) go by the CPU's atomics |
//! | `mpi_minimum_alignment` | `1`, a power of two up to 2^30 | where the library's memory begins: at a page at least; of a contiguous shared window, its first part. `mpi_minimum_memory_alignment` is the same |
//! | `transom_model` * | `unified`, `separate` | [the two copies](super::copies) |
//! | `transom_atomics` * | `auto`, `cpu`, `nic` | who performs atomics on integers of 64 bits, and of 32 if the device has those, instead of the job's setting |
//!
//! ```
//! use transom::{Class, Info, Window};
//!
//! let world = transom::init()?;
//! let info = Info::new().with("no_locks", "true").with("color", "green");
//! let win = Window::<f64>::allocate_with(&world, 100, &info)?;
//! assert_eq!(win.info().get("no_locks"), Some("true"));
//! assert_eq!(win.info().get("color"), None);
//! let refused = win.lock_all(|_| Ok(())).expect_err("promised");
//! assert_eq!(refused.class(), Class::LockType);
//! win.set_info(&Info::new().with("no_locks", "false"))?;
//! win.lock_all(|_| Ok(()))?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
