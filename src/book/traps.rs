//! Traps of one-sided communication, as users of MPI know them.
//!
//! # Traps
//!
//! - **A barrier is no memory synchronization.** Before it the origin flushes or ends its epoch; after it the target calls
//!   [`sync`](crate::Window::sync), or opens an epoch. Without, unified memory usually shows the data, and the separate model shows that it need not.
//! - **Locks order nothing.** An exclusive lock keeps others out while it is held; which of two comes first, it does not say.
//! - **`lock` is an epoch, not a critical section of the program.** What ranks do outside of the window is not protected by it.
//! - **A get's result is not there when the call returns**, but after a flush, a wait or the epoch's end. The borrow checker says so.
//! - **Put is not atomic, however short.** A flag that others poll is written and read by the accumulate family.
//! - **One type for one location.** Atomicity holds between accumulates of the same predefined type: an `i64` counter that is
//!   also added to as two `i32` is not one.
//! - **Different windows over the same memory are strangers**: accumulates by one are not atomic with those by another.
//! - **A collective call that one rank skips hangs the others**: fences, creating, freeing, barriers.
//! - **Polling needs an end.** A rank that waits for another to change a word should give way between looks, since there may be more ranks than
//!   cores; `fetch_value` makes progress, a bare loop of loads does not.
//! - **Put takes what type it is given.** An integer literal is an `i32`: write `1u64` where the window holds `u64`.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! let world = transom::init()?;
//! let win = transom::Window::<u32>::allocate(&world, 2)?;
//! win.lock_all(|epoch| {
//!     epoch.put_value(0, 1, 42u32)?; // the data
//!     epoch.flush(0)?; // is there before
//!     epoch.swap(0, 0, 1u32)?; // the flag says so
//!     while epoch.fetch_value(0, 0)? == 0 {
//!         std::thread::yield_now();
//!     }
//!     let mut data = [0];
//!     epoch.scope(|part| part.get(0, 1, &mut data))?;
//!     assert_eq!(data, [42u32]);
//!     Ok(())
//! })?;
//! win.free()
//! # }
//! ```
