//! The number of remote operations of each call on each route.
//!
//! This chapter helps to choose between two ways to write a program. The tables count remote
//! operations. Tests check the counts on simulated nets of up to 512 ranks (`tests/sim.rs`,
//! `tests/sim_costs.rs`). Times depend on the machine: `transom-perf` measures each operation with
//! the library and, with `--vs-floor`, without the library.
//!
//! Three rules of thumb follow from the tables:
//!
//! - Start many operations before one flush: they are in flight together.
//! - Use memory of the library (allocated windows, `alloc_mem`): the ranks of a node map it.
//! - Open `lock_all` once, not around each operation: over a net a lock takes a round trip.
//!
//! # Flush
//!
//! Each target has a count of operations in flight, and the window has their sum. A flush of one
//! target waits until the target's count is zero; a flush of all targets waits until the sum is
//! zero. A flush itself sends nothing, except operations and locks that were held back to share a
//! message, as over sockets (docs/protocols.md, "Small operations" and "Delayed locks").
//!
//! | route to the target | a flush |
//! |---|---|
//! | [`Own`](crate::Route::Own), the rank itself | a memory barrier: nothing is ever in flight |
//! | [`Shm`](crate::Route::Shm), mapped memory of the node | a memory barrier: nothing is ever in flight |
//! | [`Shm`](crate::Route::Shm), created and attached memory that is not mapped | nothing: operations by system call are complete on return |
//! | the same, where the kernel forbids that system call | waits for the replies, because operations are messages |
//! | [`Net`](crate::Route::Net), by verbs or libfabric | waits for the operations in flight; a completion means that the target has the data |
//!
//! On x86 this memory barrier is only a compiler fence.
//!
//! Operations before one flush are in flight together, so the flush takes only as long as the
//! slowest of them. [`route`](crate::Window::route) returns the route to a rank. In a job of one
//! rank, as in this example, only the first row applies:
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
//! Which memory is mapped within a node?
//!
//! - Memory of the library is mapped, including memory of [`alloc_mem`](crate::Job::alloc_mem) in
//!   created windows and attached regions.
//! - Other memory of the program is mapped where the kernel has the XPMEM module, at the price of a
//!   page fault for each page at the first touch. `transom-info` shows whether the kernel has
//!   XPMEM; `TRANSOM_XPMEM=n` turns XPMEM off.
//! - Without XPMEM other ranks reach memory of the program by system calls.
//!
//! A window over memory of the program copies no data, and the memory keeps its pages.
//!
//! | call | mapped memory | other created or attached memory of the node | net |
//! |---|---|---|---|
//! | put, get | a copy | a system call | one remote write or read |
//! | put, get with [layouts](super::layouts) | a loop of copies | a system call for 64 blocks | one operation for each block of 1 KiB or more |
//! | one element of the accumulate family | a lock word, a load, a store | a lock word, two system calls | a request and its reply |
//! | many elements | vector code, 4 KiB under a lock word at a time | lock words and two system calls for 64 KiB, or 64 blocks | messages of up to 16 KiB |
//! | one or many elements by the device | as on the net, through the device's loopback | as on the net, through the device's loopback | one atomic of the device for each element |
//!
//! Exceptions to the rows:
//!
//! - Where the kernel forbids the system calls, operations on memory that is not mapped are
//!   messages.
//! - A put or get over the net takes several operations where the provider limits the length. Over
//!   sockets several puts or gets of at most 1 KiB share a message.
//! - Blocks of a layout that are smaller than 1 KiB are packed into few puts, gets or messages.
//!   Over verbs, blocks up to 128 KiB (4 KiB with on-demand paging) are combined too if they are
//!   contiguous at the target.
//! - On mapped memory an operation on one contended integer is one CPU atomic.
//! - Over sockets more than 32 KiB of contiguous elements take a put and a message for each 128
//!   KiB.
//! - The row *by the device* applies if [`actor`](crate::Window::actor) is
//!   [`Nic`](crate::Actor::Nic), to integers of 64 bits, and of 32 bits if the device has such
//!   atomics. An operation that the device lacks is a loop of the device's compare-and-swap.
//!
//! The target's CPU executes requests: in a call of the program, or in a progress thread of the
//! library while the program computes. This thread sleeps until a request arrives, and exists only
//! where requests may arrive:
//!
//! - in a job that needs a net;
//! - within a node, for dynamic windows;
//! - within a node, for created windows with unmapped parts, where the kernel forbids cross-memory
//!   attach or the hint `mpi_accumulate_granularity` selects the CPU's atomics.
//!
//! # Synchronization
//!
//! `p` is the number of ranks of the window. A *signal* is a store within a node and a message
//! between nodes. A *word* is one atomic on a control word of another rank. Within a node the CPU
//! performs this atomic. Between nodes the device performs the atomic; if the device has no
//! atomics, a request and its reply replace the atomic. In a window across nodes whose device is
//! not atomic with the CPU, the device performs the atomics on all words.
//!
//! | call | cost at one rank |
//! |---|---|
//! | fence, `free`, [`Job::barrier`](crate::Job::barrier), creating a window | ceil(log2 p) signals |
//! | creating a contiguous shared window | 3 ceil(log2 p) signals |
//! | allocating a window with a part above `TRANSOM_POPULATE` (1 MiB by default), or creating one of which ranks of a node map only some parts | ceil(log2 p) signals more |
//! | `lock`, shared | 1 word at the target |
//! | `lock`, exclusive | 1 word at the target, and 1 word at rank 0 of the window |
//! | the same, if the rank holds another exclusive lock, or the target has the *bias* of exclusive locks (docs/protocols.md) | 1 word at the target |
//! | `lock_all` | 1 word at rank 0 of the window; more where targets have the bias |
//! | `unlock`, `unlock_all` | the flush, then as many words as for the lock, without a wait for their results |
//! | locks with `NOCHECK`, and their ends | the flush |
//! | `post`, to each origin of the node | an atomic; a message if all 8 slots of the origin are taken |
//! | `post`, to each other origin | a message |
//! | `complete`, to each target | the flush, and an atomic within a node or a message between nodes |
//! | `start`, `wait`, `test`, `sync` | nothing is sent |
//! | first contact with a rank of a window | a read of the rank's directory of windows; within the node also a mapping of its memory, if the piece is not mapped yet |
//!
//! `complete` sends its message before the flush where the net delivers messages after earlier
//! puts.
//!
//! These counts hold without contention. A rank that finds a lock held tries again, with growing
//! pauses. Where a word takes a request and a reply, `lock` may send nothing: the lock, small
//! operations and `unlock` then take one request and one reply together. Barriers of a subset of
//! ranks, and therefore the creation of its windows, use messages within a node too; fences of
//! these windows do not.
//!
//! # Memory
//!
//! In addition to its part a window takes less than 4 KiB at each rank, and about 128 bytes for
//! each target that the rank has accessed. For other targets nothing is exchanged or stored. At
//! most 2048 windows exist at once in a process; a window with counters of
//! [notified operations](super::notifications) counts as two.
