//! What operations and synchronization cost, for each route and kind of memory.
//!
//! This chapter helps to choose between two ways to write a program. Times depend on the machine:
//! `transom-perf` measures each operation with the library and, with `--vs-floor`, without the
//! library.
//!
//! Three rules of thumb:
//!
//! - Start many operations before one flush: they are in flight together. Small operations are an
//!   exception: those of at most 4 KiB over sockets, and over verbs accumulates that CPUs perform.
//!   The library may keep small operations until the next call that waits or polls, and in epochs
//!   of fences and of `start` until the end of the epoch. Kept operations do not overlap with
//!   computation.
//! - Use memory of the library (allocated windows, `alloc_mem`): the ranks of a node map it.
//! - Open `lock_all` once, not around each operation: over a net a lock takes a round trip.
//!
//! # Flush
//!
//! Each target has a count of operations in flight, and the window has their sum. A flush of one
//! target waits until the target's count is zero; a flush of all targets waits until the sum is
//! zero. A flush itself sends nothing, except operations and locks that the library has kept so
//! that they share a message, for example over sockets (docs/protocols.md, "Small operations" and
//! "Delayed locks").
//!
//! | route to the target | a flush |
//! |---|---|
//! | [`Own`](crate::Route::Own), the rank itself | a memory barrier: nothing is ever in flight |
//! | [`Shm`](crate::Route::Shm), mapped memory of the node | a memory barrier: nothing is ever in flight |
//! | [`Shm`](crate::Route::Shm), created and attached memory that is not mapped | nothing: operations by system call are complete on return |
//! | the same, where the kernel forbids that system call | waits for the replies, because operations are messages |
//! | [`Net`](crate::Route::Net), by verbs or libfabric | waits for the operations in flight; a completion means that the target has the data |
//!
//! On x86-64 this memory barrier is no instruction; it only restrains the compiler. The first three
//! rows have one exception: where the device performs the window's accumulates
//! ([`actor`](crate::Window::actor)), a flush also waits for the accumulates in flight.
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
//! # Which memory is mapped within a node
//!
//! - Memory of the library is mapped, also in created windows and attached regions: memory of
//!   [`alloc_mem`](crate::Job::alloc_mem), and of allocated and shared windows.
//! - Other memory of the program is mapped where the kernel has the XPMEM module, at the price of a
//!   page fault for each page at the first touch. `transom-info` shows whether the kernel has
//!   XPMEM; `TRANSOM_XPMEM=n` turns XPMEM off.
//! - Without XPMEM other ranks reach memory of the program by system calls.
//!
//! The creation of a window over memory of the program copies no data and moves no page.
//!
//! # Operations
//!
//! | call | mapped memory | other created or attached memory of the node | net |
//! |---|---|---|---|
//! | put, get | a copy | a system call | one remote write or read |
//! | put, get with [layouts](super::layouts) | a loop of copies | a system call for each 64 blocks | one operation for each block of 1 KiB or more |
//! | one element of the accumulate family | a lock word, a load, a store | a lock word, two system calls | a request and its reply |
//! | many elements | vector code, 4 KiB under a lock word at a time | lock words, and two system calls for each 64 KiB or 64 blocks | messages of up to 16 KiB |
//! | one or many elements by the device | as on the net, through the device's loopback | as on the net, through the device's loopback | one atomic of the device for each element |
//!
//! Exceptions to the rows:
//!
//! - Where the kernel forbids the system calls, operations on memory that is not mapped are
//!   messages.
//! - A put or get over the net takes several operations where the provider limits the length.
//!   Several puts, gets or accumulates of at most 4 KiB share a message over sockets; over verbs
//!   several accumulates that CPUs perform do.
//! - Blocks of a layout that are smaller than 1 KiB are packed into few puts, gets or messages.
//!   Longer blocks share an operation if they are contiguous at the target (docs/protocols.md,
//!   "Layouts").
//! - On mapped memory an operation on one contended integer is one CPU atomic.
//! - Over sockets and verbs an accumulate of more than 32 KiB of contiguous elements that a CPU
//!   performs takes a put, a request and a reply for each 512 KiB.
//! - The row *by the device* applies if [`actor`](crate::Window::actor) is
//!   [`Nic`](crate::Actor::Nic), to integers of 64 bits, and of 32 bits if the device has such
//!   atomics. An operation that the device lacks is a loop of the device's compare-and-swap: the
//!   call waits for two round trips for each 64 elements.
//!
//! The target's CPU executes requests: in a call of the program, or in a progress thread of the
//! library while the program computes. This thread sleeps until a request arrives, and exists only
//! where requests may arrive:
//!
//! - in a job that needs a net;
//! - within a node, for dynamic windows;
//! - within a node, for created windows with a nonempty part in user memory, even if XPMEM or
//!   cross-memory attach reaches this part.
//!
//! # Synchronization
//!
//! - A fence, a barrier, `free` and the creation of a window take ceil(log2 p) signals at each of p
//!   ranks. All ranks wait for all others.
//! - A lock takes a round trip to the target. An exclusive lock of a target without the *bias*
//!   ([`glossary`](super::glossary)) takes a second round trip, to rank 0 of the window. A target
//!   gets the bias after some exclusive locks. `lock_all` takes a round trip to rank 0, and further
//!   ones if it must revoke the bias of targets (docs/protocols.md, "Locks"). Locks with `NOCHECK`
//!   send nothing.
//! - `post` and `complete` send one notice to each partner. `start`, `wait`, `test` and `sync` send
//!   nothing.
//! - Over nets without atomics, such as TCP, a lock, small operations and `unlock` may take one
//!   request and one reply together. The call of `lock` then sends nothing (docs/protocols.md,
//!   "Delayed locks").
//!
//! The file docs/protocols.md of the repository has the table of all calls, with the tests that
//! assert the numbers on simulated nets of up to 512 ranks.
//!
//! # Memory
//!
//! In addition to its part a window takes less than 4 KiB at each rank, and about 128 bytes for
//! each target that the rank has accessed. For other targets nothing is exchanged or stored. At
//! most 2048 windows exist at once in a process; a window counts once more if it has counters of
//! [notified operations](super::notifications), and once more under the conflict checker. The first
//! `set_num_notify` of a window adds 32 KiB, and reserves 257 KiB of address space.
