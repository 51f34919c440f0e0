//! The public and the private copy: other ranks' puts and this rank's loads need not work on the
//! same memory.
//!
//! MPI sees each part of a window as two copies (§12.4). Operations work on the *public* copy, also
//! operations of the owner. The owner's loads and stores work on the *private* copy:
//! [`load`](crate::Window::load), [`store`](crate::Window::store), and accesses by
//! [`RawWindow::base`](crate::RawWindow::base).
//!
//! In the **unified** model, the default here, both are the same memory. Each side eventually sees
//! the writes of the other side, in any order. Synchronization determines when they are visible. In
//! the **separate** model the copies are two blocks of memory, and only some calls make them equal.
//! All machines on which the library runs have coherent memory and need no second copy. The
//! separate model serves to find missing synchronization: under the hint `transom_model=separate` a
//! program without a required call reads old data, on every machine and in every run.
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
//! | call of the owner | the owner's stores become public | puts of others become private |
//! |---|---|---|
//! | fence | yes, before the barrier in it | yes, after it |
//! | `post` | yes | |
//! | `wait`, and a `test` that returns true | | yes |
//! | `lock`, `lock_all` (of any target) | | yes |
//! | `unlock`, `unlock_all` | yes | |
//! | `sync` | yes | yes |
//! | `start`, `complete`, flushes, [`Job::barrier`](crate::Job::barrier) | | |
//!
//! # The pattern that holds under both models
//!
//! One rank puts, another loads from its own part:
//!
//! 1. the origin completes the put: a flush, or the end of its epoch;
//! 2. both ranks synchronize: a barrier, or a flag by an atomic;
//! 3. the target makes one of the calls of the table's last column, for example
//!    [`sync`](crate::Window::sync), and loads.
//!
//! In the unified model `sync` is a full memory barrier of this rank, which orders its loads and
//! stores with synchronization by other means. [The front page](crate#a-first-program) has this
//! pattern as a program; a fence is all three steps in one call.
//!
//! # In the separate model
//!
//! A part takes three times its memory, and each call of the table compares the whole part: this
//! model is for tests, not for speed. A store of the owner and a concurrent put are errors of the
//! program even on different bytes (§12.7, rule 3); this library keeps the change of each byte.
//! Shared and dynamic windows are always unified, since loads and stores of others reach their
//! memory directly. [`model`](crate::Window::model) returns the model of a window.
