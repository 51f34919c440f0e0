//! Dynamic windows: made without memory, to which each rank attaches what it likes, when it likes.
//!
//! [`RawWindow::create_dynamic`](crate::RawWindow::create_dynamic) is collective; [`attach`](crate::RawWindow::attach) and
//! [`detach`](crate::RawWindow::detach) concern one rank alone. A displacement is an *address* of the target, which the target must tell
//! to the origins: usually through another window. The window itself has a null base and a size of 0.
//!
//! ```
//! use transom::{Assert, Class, Info, RawWindow};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = RawWindow::create_dynamic(&world, &Info::new())?;
//! let mut list = vec![0u64; 8];
//! let base = list.as_mut_ptr().cast::<u8>();
//! // SAFETY: `list` stays until it is detached, and is not looked at before.
//! unsafe { win.attach(base, 64)? };
//!
//! win.lock_all(Assert::NONE)?;
//! let value = 9u64.to_ne_bytes();
//! let third = base.addr() as u64 + 16;
//! // SAFETY: `value` lives until the flush.
//! unsafe { win.put(value.as_ptr(), 8, me, third)? };
//! win.flush(me)?;
//! win.detach(base)?;
//! // SAFETY: as above.
//! let gone = unsafe { win.put(value.as_ptr(), 8, me, third) };
//! assert_eq!(gone.expect_err("it is detached").class(), Class::RmaRange);
//! win.unlock_all()?;
//! assert_eq!(list[2], 9);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Rules
//!
//! - Attached regions of one rank do not overlap, and have at least one byte; else the error is `RmaAttach`.
//! - Each contiguous piece of an access lies within one region. Two regions that touch are still two.
//! - An access to what is not attached is an error of the class `RmaRange`: at the call, as in the example, for ranks of the same node;
//!   at the flush or the end of the epoch across the net, where the target checks. What is refused is not done.
//! - Detach when no operation on the region is in flight or can come: the program synchronizes. `free` detaches all.
//! - [`shared_query`](crate::RawWindow::shared_query) is an error of the class `RmaFlavor`, and the model is always unified.
//!
//! # Cost
//!
//! Within the node an origin knows the target's list of regions; each access looks at one word of
//! the target, by a load, and asks for the list again only where it changed. Regions that can be mapped (see [`costs`](super::costs#operations)) are mapped at
//! the first access, and accessed as an allocated window is then, after a look at the list; others go by cross-memory attach. Across the net operations are
//! messages that the target's CPU executes. Attaching sends nothing, but takes some 0.3 ms where it makes memory mappable: attach few large regions rather than many
//! small ones, or memory of [`alloc_mem`](crate::Job::alloc_mem). Where sizes are known, an allocated window is faster.
