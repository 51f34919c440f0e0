//! Dynamic windows: created without memory; each rank attaches memory at any time.
//!
//! Use a dynamic window where the memory is not known at creation, for example for the nodes of a
//! list. If the sizes are known in advance, an allocated window is faster.
//!
//! [`RawWindow::create_dynamic`](crate::RawWindow::create_dynamic) is collective;
//! [`attach`](crate::RawWindow::attach) and [`detach`](crate::RawWindow::detach) are local calls. A
//! displacement is an *address* at the target, which the target must send to the origins, usually
//! through another window.
//!
//! ```
//! use transom::{Assert, Class, Info, RawWindow};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let win = RawWindow::create_dynamic(&world, &Info::new())?;
//! let mut list = vec![0u64; 8];
//! let base = list.as_mut_ptr().cast::<u8>();
//! // SAFETY: `list` lives until it is detached, and is not read before.
//! unsafe { win.attach(base, 64)? };
//!
//! win.lock_all(Assert::NONE)?;
//! let value = 9u64.to_ne_bytes();
//! let third = base.addr() as u64 + 16;
//! // SAFETY: `value` lives until the flush.
//! unsafe { win.put(value.as_ptr(), 8, me, third)? };
//! win.flush(me)?;
//! win.detach(base)?;
//! // SAFETY: `value` lives until the end of the epoch.
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
//! - Attached regions of one rank do not overlap; otherwise the error is `RmaAttach`. A region of
//!   no bytes may be attached and detached, but no operation can access it.
//! - An access may span adjacent regions. If these regions are mapped, such an access is a message
//!   to the target, and the call waits until the access is complete.
//! - An access to memory that is not attached is an error of the class `RmaRange`. Between ranks of
//!   a node the call itself reports the error, as in the example. Over a net the target checks the
//!   access, and the flush or the end of the epoch reports the error. A refused access has no
//!   effect.
//! - Detach a region only when no operation on it is in flight or can arrive. The program must
//!   synchronize to ensure this. `free` detaches all regions.
//! - The window itself has a null base and a size of 0, and its model is always unified.
//!   [`shared_query`](crate::RawWindow::shared_query) is an error of the class `RmaFlavor`.
//!
//! # Cost
//!
//! - **Attaching** sends nothing and leaves the memory unchanged.
//! - **Within the node** an origin keeps a copy of the target's list of regions. Each access loads
//!   one word of the target. This word changes when the target detaches a region, and only then
//!   does the origin fetch the list again. If the list lacks a region, the origin asks the target
//!   about it. Regions in memory of [`alloc_mem`](crate::Job::alloc_mem) or of an allocated or
//!   shared window, and others where the kernel has XPMEM, are mapped at the first access and then
//!   accessed like an allocated window. Other regions are accessed by system calls.
//! - **Over a net** the first operations are messages that the target's CPU executes. Later puts
//!   and gets on the same region are performed by the net, as on an allocated window. Over sockets
//!   those of up to 4 KiB remain messages, except a get that is probably the only operation before
//!   a flush. Accumulates, and accesses that span several regions, always remain messages.
//! - **Detaching** sends a message to each rank whose net accesses the region, and waits for the
//!   answers (docs/protocols.md, "Keys of dynamic windows"). Otherwise it sends nothing.
