//! # Epochs
//!
//! Operations are allowed within an access epoch, and complete at its end or at a flush. MPI has three ways to open one (§11.5).
//!
//! | | who takes part | take it when |
//! |---|---|---|
//! | [`fence`](crate::Window::fence) | all ranks | phases of computing and communicating alternate, most ranks talk to several others |
//! | [`post`](crate::Window::post), [`start`](crate::Window::start), [`wait`](crate::Window::wait) | a target and the origins that it names | the same, but each talks to a few: neighbours of a grid |
//! | [`lock_all`](crate::Window::lock_all) with flushes | the origin alone | targets do not know who comes: tables, counters, work queues. Open it once, flush often |
//! | [`lock`](crate::Window::lock) | the origin alone | a target's data must be changed by one at a time ([`Exclusive`](crate::Lock::Exclusive)), or only by readers |
//!
//! The last two are *passive*: the target may compute and call nothing, and everything completes all the same, locks included.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! use transom::{Lock, Window};
//!
//! let world = transom::init()?;
//! let win = Window::<u64>::allocate(&world, 2)?;
//! let right = (world.rank() + 1) % world.size();
//!
//! win.fence(|epoch| epoch.put_value(right, 0, world.rank() as u64 + 1))?;
//!
//! win.post(&[right])?; // with more ranks: the left neighbour's epoch
//! win.start(&[right], |epoch| epoch.put_value(right, 1, 5u64))?;
//! win.wait()?;
//!
//! let sum = win.lock(Lock::Exclusive, right, |epoch| {
//!     let mut both = [0u64; 2];
//!     epoch.scope(|part| part.get(right, 0, &mut both))?;
//!     epoch.put_value(right, 0, both[0] + both[1])?; // nobody else is in
//!     Ok(both[0] + both[1])
//! })?;
//! # if world.size() == 1 {
//! assert_eq!(sum, 6);
//! # }
//! win.free()
//! # }
//! ```
//!
//! ## Rules
//!
//! - Access epochs of one window at one rank are disjoint; locks of several targets may be held together. An access epoch and an exposure epoch
//!   (between `post` and `wait`) may overlap.
//! - A call in the wrong epoch is an error of class `RmaSync` that names the rule, and changes nothing.
//! - `start` does not wait: the first operation on a target does, until its `post`. `complete` waits for the posts of those without operations.
//! - Exclusive locks are alone, shared ones run together; neither readers, writers nor holders of all starve. Who locks several targets
//!   must do it in an order that all keep, as with any lock.
//! - Within a closure, [`scope`](crate::Access::scope) completes a part of the epoch, so that its buffers can be used again.
//!
//! ## Assertions
//!
//! [`Assert`](crate::Assert) takes MPI's modes where they save work: NOCHECK on a lock takes no word and sends nothing, on `post` and `start`
//! (on both) it sends no notice; a fence with NOPRECEDE and NOSUCCEED does nothing at all. NOSTORE and NOPUT are accepted. An
//! assertion that does not belong to the call, or that is seen not to hold, is an error of class `Assert`.
