//! # What calls cost
//!
//! Costs that grow with the job are counted, by tests, in remote operations. Times depend on the machine: `transom-perf` measures them beside
//! what the machine can do without the library.
//!
//! | call | within a node | between nodes |
//! |---|---|---|
//! | put, get | one copy | one remote operation |
//! | put, get with small strided blocks | a loop of loads and stores | as few messages as carry the data |
//! | one atomic | a lock word, a load, a store | a request and its reply, or one atomic of the device |
//! | accumulate of many elements | vector code, 4 KiB under a lock at a time | messages of up to 16 KiB, executed by the target |
//! | flush, flush of all | nothing: stores are in order | waits for what is in flight; sends nothing |
//! | `lock_all`, `lock` shared, their unlock | one atomic | one atomic, or a request and its reply |
//! | `lock` exclusive | two atomics | the same |
//! | fence, barrier, creating and freeing a window | ceil(log2 p) stores | ceil(log2 p) messages |
//! | `post`, `complete` | a message for each rank of the group | the same |
//! | `start`, `wait`, `sync` | nothing is sent | the same |
//!
//! A window takes less than 4 KiB at each rank beside its memory, plus what is known of the targets that were touched. Targets are contacted at first
//! use; nothing is exchanged among all ranks when a window is created.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! let world = transom::init()?;
//! let win = transom::Window::<u64>::allocate(&world, 1000)?;
//! let data = [7u64; 100];
//! win.lock_all(|epoch| {
//!     for block in 0..10 {
//!         epoch.put(0, block * 100, &data)?; // ten in flight
//!     }
//!     epoch.flush(0) // one wait for all ten
//! })?;
//! # world.barrier()?;
//! let mut last = [0];
//! win.load(999, &mut last)?;
//! assert_eq!(last, [7]);
//! win.free()
//! # }
//! ```
//!
//! Where a job needs a net, one thread of each process serves requests while the program computes; it sleeps until there is traffic, and
//! keeps away while the program itself waits in a call. Within a node only created and dynamic windows need such a thread.
