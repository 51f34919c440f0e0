//! Windows: memory of each rank that the other ranks may access.
//!
//! Creating a window is collective: all ranks of a [`Job`](crate::Job) make the same call, and all
//! create their windows in the same order. Each rank chooses the length of its own part, which may
//! be 0. In this example each rank has ten elements, and puts three into the next rank's part:
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
//! # Typed or raw
//!
//! There are two types of windows:
//!
//! - [`Window<T>`](crate::Window) has elements of one type, epochs as closures, and no unsafe call.
//!   Begin with this type. `T` is any type for which every bit pattern is a valid value
//!   ([`RmaElem`](crate::RmaElem)); accumulates work on MPI's types ([`Element`](crate::Element)).
//! - [`RawWindow`](crate::RawWindow) has MPI's calls one by one: windows of bytes, types at run
//!   time, explicit epochs, buffers by address. [Dynamic windows](super::dynamic), accumulates with
//!   [layouts](super::layouts) and most assertions exist only there.
//!
//! # Flavors
//!
//! The flavor determines the memory of a window:
//!
//! | flavor | made by | memory | when to use it |
//! |---|---|---|---|
//! | [`Allocate`](crate::Flavor::Allocate) | [`Window::allocate`](crate::Window::allocate) | of the library, zeroed | the default choice: within a node it is the fastest, and over a net no flavor is faster |
//! | [`Create`](crate::Flavor::Create) | [`Window::create`](crate::Window::create) | of the caller | the data is in a buffer that can't move |
//! | [`Shared`](crate::Flavor::Shared) | [`Window::allocate_shared`](crate::Window::allocate_shared) | of the library, zeroed, one segment | ranks of one node load and store each other's parts: [`shared`](super::shared) |
//! | [`Dynamic`](crate::Flavor::Dynamic) | [`RawWindow::create_dynamic`](crate::RawWindow::create_dynamic) | attached later, region by region | memory that is allocated and freed, lists and trees: [`dynamic`](super::dynamic) |
//!
//! Within a node an allocated window is the fastest because the other ranks map memory that the
//! library has allocated, so a put is a store. A buffer of the caller can be mapped only if the
//! kernel has the XPMEM module. Without XPMEM other ranks reach the buffer by system calls, or by
//! messages if the kernel forbids these system calls. The tables in [`costs`](super::costs) show
//! the difference.
//!
//! # Memory for several windows
//!
//! [`Job::alloc_mem`](crate::Job::alloc_mem) allocates memory of the library without a window
//! (`MPI_ALLOC_MEM`). A window that is created over this memory, or over any range of it, is as
//! fast as an allocated one. Several windows may use the same memory. The memory lives as long as
//! the [`Allocation`](crate::Allocation) or one of the windows. Each rank decides for its own part
//! whether to use such memory. If all parts of a window are memory of the library, the ranks of a
//! node map the parts without XPMEM, and [`is_mapped`](crate::Window::is_mapped) is true.
//!
//! ```
//! use transom::Window;
//!
//! let world = transom::init()?;
//! let memory = world.alloc_mem(1 << 16)?;
//! memory.store(0, b"a header");
//! // The elements begin after the header.
//! let win = Window::<f64>::create_over(&world, &memory, 64, 1000)?;
//! assert!(win.is_mapped());
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Displacements
//!
//! In a `Window<T>` a displacement counts elements. In a `RawWindow` it counts the *target's*
//! displacement unit, which may differ from rank to rank. The origin checks the range of each
//! operation against the size of the target's part before the operation writes anything.
//!
//! # Freeing a window
//!
//! [`free`](crate::Window::free) is collective and waits until no rank accesses the window any
//! more. [`reclaim`](crate::Window::reclaim) also returns the buffer of a created window. Call one
//! of the two. If a program only drops a window, the library prints a warning and keeps the memory
//! of the window, because peers may still write there. The drop waits for this rank's operations in
//! flight, but not for peers.
//!
//! ```
//! let world = transom::init()?;
//! let win = transom::Window::create(&world, vec![1.5; 4])?;
//! win.fence(|epoch| epoch.put_value(world.rank(), 3, 2.5))?;
//! assert_eq!(win.reclaim()?, [1.5, 1.5, 1.5, 2.5]);
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Windows of some ranks
//!
//! [`Job::subset`](crate::Job::subset) makes a job of some ranks. Windows and barriers of this job
//! concern only its ranks. The ranks of the subset are renumbered from 0, in the order of the list.
//! Operations on its windows name targets by the new numbers;
//! [`group`](crate::Window::group) returns the corresponding ranks of the whole job.
//!
//! All ranks in the list make the call with the same list, and no other rank does. The n-th call
//! with a list at one rank belongs to the n-th call with this list at the others. Threads that may
//! call at the same time therefore pass different tags to
//! [`Job::subset_tagged`](crate::Job::subset_tagged). Neither call communicates.
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
//! A hint is a promise or a request of the program, and may make a window faster. An
//! [`Info`](crate::Info) has pairs of a key and a value: MPI's hints and hints of this library.
//!
//! - `allocate_with`, `create_with`, `create_over`, `allocate_shared`, `alloc_mem`, and the calls
//!   of `RawWindow` that create a window, take an `Info`.
//! - [`info`](crate::Window::info) returns all hints with their current values.
//! - [`set_info`](crate::Window::set_info) changes the first five hints of the table, and the two
//!   hints about counters (`mpi_assert_...`).
//!
//! Unknown keys are ignored. Creation fails at all ranks if a known key has an illegal value at one
//! rank, or if the values of a key that the table marks with * have different effects at different
//! ranks. Some MPI programs break the promises of their hints. For such programs there is
//! [`Info::forgiving`](crate::Info::forgiving): the window then relies on no promise.
//!
//! | key | values, the default first | effect |
//! |---|---|---|
//! | `no_locks` | `false`, `true` | `true`: locks are errors of the class `LockType` |
//! | `accumulate_ordering` | `rar,raw,war,waw`, a part of them, `none` | `none`: [no order](super::operations#order) is kept; each other value keeps all four orders |
//! | `accumulate_ops` | `same_op_no_op`, `same_op` | no effect; `info` reports it. Different operations on one location are always atomic with each other |
//! | `same_size` | `false`, `true` | no effect; `info` reports it |
//! | `same_disp_unit` | `false`, `true` | no effect; `info` reports it |
//! | `alloc_shared_noncontig` * | `false`, `true` | `true`: each part of a shared window is a separate allocation |
//! | `mpi_accumulate_granularity` * | `0`, a number of bytes | 1 to 8: CPU atomics combine [single elements](super::operations#vector-code-or-cpu-atomics) |
//! | `mpi_minimum_memory_alignment` | `1`, a power of two up to 2^30 | alignment of the library's memory, at least a page; in a contiguous shared window, of the first part. This library also accepts the key `mpi_minimum_alignment` |
//! | `mpi_assert_max_num_notify` | a number of counters, no default | no effect; `info` reports it if it was given |
//! | `mpi_assert_same_num_notifications` | `false`, `true` | no effect; `info` reports it if it was given |
//! | `transom_huge_pages` | `false`, `true` | `true`: an allocated or shared part of 2 MiB or more uses huge pages of 2 MiB. The kernel must permit them for memfds (`/sys/kernel/mm/transparent_hugepage/shmem_enabled` is not `never`); otherwise `info` reports `false` |
//! | `transom_model` * | `unified`, `separate` | [the two copies](super::copies) |
//! | `transom_atomics` * | `auto`, `cpu`, `nic` | `auto`: the job's setting (`TRANSOM_ATOMICS`). `cpu`: CPUs perform the accumulates. `nic`: the network device performs atomics on integers of 64 bits, and of 32 bits if it has those; creation fails (`InfoValue`) if no net is open or the net lacks atomics |
//! | `transom_notify` | `auto`, `cpu`, `device` | which hardware adds to counters of [notified operations](super::notifications) between nodes. `cpu`: the target's CPU, which takes part. `device`: the target's network device, so that the target's CPU takes no part; the CPU if the device lacks atomics. `auto`: `cpu` where puts carry notices, as over verbs; else the hardware that performs the job's atomics |
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
