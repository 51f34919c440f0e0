//! Copies: when a load of the target sees a put.
//!
//! A load sees a put if the put is complete *and* the two ranks have synchronized before the load.
//! This chapter shows the pattern, the rule behind it, and a way to test a program.
//!
//! # The pattern that holds under both models
//!
//! One rank puts, another loads from its own part:
//!
//! 1. The origin completes the put: by a flush, or by the end of its epoch.
//! 2. Both ranks synchronize: by a barrier, or by a flag that is set and read by atomics.
//! 3. The target calls [`sync`](crate::Window::sync), or another call that the right column of the
//!    [table](#calls-that-synchronize-the-copies) marks with *yes*. Then the target loads.
//!
//! ```
//! let world = transom::init()?;
//! let (me, size) = (world.rank(), world.size());
//! let win = transom::Window::<usize>::allocate(&world, 1)?;
//! win.lock_all(|epoch| epoch.put_value((me + 1) % size, 0, me))?; // 1: complete at the end
//! world.barrier()?; // 2: all ranks have put
//! win.sync(); // 3
//! let mut left = [0];
//! win.load(0, &mut left)?;
//! assert_eq!(left, [(me + size - 1) % size]);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! A fence is all three steps in one call.
//!
//! # Two copies, two models
//!
//! MPI explains the rule by two copies of each part of a window (§12.4). Operations work on the
//! *public* copy, even operations of the owner. The owner's loads and stores work on the *private*
//! copy: [`load`](crate::Window::load), [`store`](crate::Window::store), and accesses by
//! [`RawWindow::base`](crate::RawWindow::base).
//!
//! - In the **unified** model, the default here, both copies are the same memory. Each side
//!   eventually sees the writes of the other side, in any order. Synchronization determines when
//!   the writes are visible. `sync` is a full memory barrier of this rank: it orders the rank's
//!   loads and stores with other synchronization, such as messages or flags.
//! - In the **separate** model the copies are two blocks of memory, and only some calls make them
//!   equal.
//!
//! All machines on which the library runs have coherent memory and need no second copy. The library
//! has the separate model to find missing synchronization: under the hint `transom_model=separate`
//! a program that leaves out a required call reads old data, on every machine and in every run.
//!
//! ```
//! use transom::{Info, Model, Window};
//!
//! let world = transom::init()?;
//! let me = world.rank();
//! let separate = Info::new().with("transom_model", "separate");
//! let win = Window::<u64>::allocate_with(&world, 1, &separate)?;
//! assert_eq!(win.model(), Model::Separate);
//! let mut loaded = [0];
//!
//! win.lock_all(|epoch| epoch.put_value(me, 0, 7))?; // complete: in the public copy
//! win.load(0, &mut loaded)?;
//! assert_eq!(loaded, [0], "no call has synchronized the copies");
//! win.sync();
//! win.load(0, &mut loaded)?;
//! assert_eq!(loaded, [7]);
//!
//! win.store(0, &[8])?; // the private copy
//! let before = win.lock_all(|epoch| epoch.fetch_value(me, 0))?; // unlock_all publishes the store, lock_all does not
//! let after = win.lock_all(|epoch| epoch.fetch_value(me, 0))?;
//! assert_eq!((before, after), (7, 8));
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Calls that synchronize the copies
//!
//! At the owner of the part (§12.7, rules 5 and 6):
//!
//! | call of the owner | the owner's stores reach the public copy | puts of others reach the private copy |
//! |---|---|---|
//! | fence | yes, before the barrier in it | yes, after it |
//! | `post` | yes | no |
//! | `wait`, and a `test` that returns true | no | yes |
//! | `lock`, `lock_all` (of any target) | no | yes |
//! | `unlock`, `unlock_all` | yes | no |
//! | `sync` | yes | yes |
//! | `start`, `complete`, flushes, [`Job::barrier`](crate::Job::barrier) | no | no |
//!
//! # Limits of the separate model
//!
//! Use this model only for tests: a part takes three times its memory, and each call that
//! synchronizes the copies compares the whole part. A program is wrong if the owner stores into its
//! part while another rank puts there, even if the two change different bytes (§12.7, rule 3). If
//! the bytes do not overlap, this library nevertheless keeps both changes. Shared and dynamic
//! windows are always unified, since loads and stores of other ranks reach the memory of these
//! windows directly. [`model`](crate::Window::model) returns the model of a window.
