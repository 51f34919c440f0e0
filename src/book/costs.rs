//! Costs: what each call does on each route, a flush first.
//!
//! Counts only; those of remote operations are held by tests on simulated nets of up to 512 ranks (`tests/sim.rs`,
//! `tests/sim_costs.rs`). Times are a machine's: `transom-perf` measures them beside what it can do without the library.
//!
//! # Flush
//!
//! Each target has a count of operations in flight, and the window has their sum. A flush of one target waits until its count is
//! zero, a flush of all until the sum is. No flush sends anything.
//!
//! | route to the target | a flush |
//! |---|---|
//! | [`Own`](crate::Route::Own), the rank itself; [`Shm`](crate::Route::Shm), mapped memory of the node | nothing is ever in flight: it is a barrier of memory order, which on x86 only keeps the compiler from moving stores |
//! | [`Shm`](crate::Route::Shm), created and attached memory that is not mapped | everything is done by system calls before it returns; where the kernel forbids those, messages, whose replies it waits for |
//! | [`Net`](crate::Route::Net), by verbs or libfabric | waits for what is in flight; each completion already says that the target has the data |
//!
//! So one flush after many operations costs the time of the last one. [`route`](crate::Window::route) tells the way to a rank.
//! A job of one rank has the first row only:
//!
//! ```
//! use transom::{Route, Window};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = Window::<u64>::allocate(&world, 1000)?;
//! assert_eq!(win.route(me)?, Route::Own);
//! let data = [7; 100];
//! win.lock_all(|epoch| {
//!     for block in 0..10 {
//!         epoch.put(me, block * 100, &data)?; // on the net: ten in flight
//!     }
//!     epoch.flush(me)?; // one wait for all ten
//!     let mut last = [0];
//!     epoch.scope(|part| part.get(me, 999, &mut last))?;
//!     assert_eq!(last, [7]);
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Operations
//!
//! Mapped is memory of the library, also that of [`alloc_mem`](crate::Job::alloc_mem) in created windows; and other created or attached memory where
//! the library may exchange its pages for its own, which takes a copy of them at creation and another one at the end (some 0.3 ms and as long as the copies, for
//! creation or `attach`). That is where all of this holds; `TRANSOM_INFO=1` tells what does not, and `TRANSOM_ADOPT=n` forbids it:
//!
//! - it is plain memory of the process: of `malloc` or the global allocator, or variables without an initial value; not the stack of who creates the window, not a file,
//!   not huge pages of `hugetlbfs`;
//! - no device can know its pages: the process has none open, and no pinned memory; it is on one NUMA node;
//! - the kernel (5.19 or later) lets the user protect memory against writes of the kernel too, with `userfaultfd`: as root, or where
//!   `vm.unprivileged_userfaultfd` is 1, or with access to `/dev/userfaultfd`;
//! - a page of it is not already of another window that does not have all of it;
//! - copies have taken less than an eighth of the process's time so far, after the first half second.
//!
//! `transom-info` tries it. A child of `fork` gets a copy, as of other memory, for which its parent waits.
//!
//! | call | mapped memory | other created or attached memory of the node | net |
//! |---|---|---|---|
//! | put, get | a copy | a system call (cross-memory attach); messages where it is forbidden | one remote write or read, cut at the provider's limit |
//! | put, get with [layouts](super::layouts) | a loop of copies | a system call for 64 blocks | blocks of 1 KiB and more one by one; smaller ones together, in few puts, gets or messages. Over verbs blocks up to 128 KiB (4 KiB with on-demand paging) go together too, where they are one run at the target |
//! | one element of the accumulate family | a lock word, a load, a store | a lock word, two system calls | a request and its reply |
//! | many elements | vector code, 4 KiB under a lock word at a time | lock words and two system calls for 64 KiB, or 64 blocks | messages of up to 16 KiB |
//! | either, where [`actor`](crate::Window::actor) is [`Nic`](crate::Actor::Nic), on integers of 64 bits, and of 32 if the device has those | as on the net | ranks share no node then | one atomic of the device an element; for operations that it does not have, a loop of its compare-and-swap |
//!
//! Requests are executed by the target's CPU: by its progress thread while its program computes. Such a thread exists where a job
//! needs a net, and within a node for dynamic windows and created ones that are not all mapped (these need it where the kernel forbids
//! cross-memory attach, or the hint `mpi_accumulate_granularity` asks for the CPU's atomics); it sleeps until there is traffic.
//!
//! # Synchronization
//!
//! `p` is the number of ranks of the window. A *signal* is a store within a node and a message between nodes. A *word* is one
//! atomic on a control word of another rank: the CPU's within a node; between nodes the device's where it performs atomics, else a
//! request and its reply.
//!
//! | call | of one rank |
//! |---|---|
//! | creating a window, fence, `free`, [`Job::barrier`](crate::Job::barrier) | ceil(log2 p) signals; creating a contiguous shared window: three times as many |
//! | `lock`, shared | 1 word at the target |
//! | `lock`, exclusive | 1 word at the target, and for the first that this rank holds 1 at rank 0 of the window |
//! | `lock_all` | 1 word at rank 0 of the window |
//! | `unlock`, `unlock_all` | the flush, then as many words as the lock; they are not waited for |
//! | locks with `NOCHECK`, and their ends | the flush |
//! | `post` | an atomic within a node, a message between nodes, to each origin |
//! | `complete` | the flush, then likewise to each target |
//! | `start`, `wait`, `test`, `sync` | nothing is sent |
//! | first contact with a rank of a window | a read of a directory there, and on the node a mapping |
//!
//! These are counts without contention; who finds a lock held looks again, with pauses that grow. Barriers of a subset of ranks, and
//! so the making of its windows, go by messages within a node too; their fences do not.
//!
//! # Memory
//!
//! Beside its part a window takes less than 4 KiB at each rank, and some 128 bytes for each target that was touched. Nothing is
//! exchanged or kept for the others. At most 2048 windows live at once.
