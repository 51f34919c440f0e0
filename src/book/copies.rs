//! The two copies: what others put, and what this rank loads, need not be the same memory.
//!
//! MPI sees each part of a window as two copies (§11.4). The *public* copy is what operations work on, those of the own rank
//! included. The *private* copy is what the owner's loads and stores work on: [`load`](crate::Window::load),
//! [`store`](crate::Window::store), and accesses by [`RawWindow::base`](crate::RawWindow::base).
//!
//! In the **unified** model, the default here, both are the same memory. What one side writes, the other sees: some time later and
//! in any order, until a synchronization says when. In the **separate** model they are two blocks of memory, and only some calls
//! bring them together. All machines that the library runs on have coherent memory and need no second copy. It is here to find
//! missing calls: under the hint `transom_model=separate` a program that forgets one sees old data, on every machine, every
//! time.
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
//! assert_eq!(loaded, [0], "nothing has brought them together");
//! win.sync();
//! win.load(0, &mut loaded)?;
//! assert_eq!(loaded, [7]);
//!
//! win.store(0, &[8])?; // the private copy
//! let before = win.lock_all(|epoch| epoch.fetch_value(me, 0))?; // its end publishes, its begin does not
//! let after = win.lock_all(|epoch| epoch.fetch_value(me, 0))?;
//! assert_eq!((before, after), (7, 8));
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # Which call brings what together
//!
//! At the rank whose part it is (§11.7, rules 5 and 6):
//!
//! | call of the owner | its stores become public | what others put becomes private |
//! |---|---|---|
//! | fence | yes, before the barrier in it | yes, after it |
//! | `post` | yes | |
//! | `wait`, and a `test` that says true | | yes |
//! | `lock`, `lock_all` (of any target) | | yes |
//! | `unlock`, `unlock_all` | yes | |
//! | `sync` | yes | yes |
//! | `start`, `complete`, flushes, [`Job::barrier`](crate::Job::barrier) | | |
//!
//! # The pattern that holds under both models
//!
//! One rank puts, another loads from its own part:
//!
//! 1. the origin completes: a flush, or the end of its epoch;
//! 2. both meet: a barrier, or a flag by an atomic;
//! 3. the target makes one of the calls of the table's last column, for example [`sync`](crate::Window::sync), and loads.
//!
//! In the unified model `sync` is a full memory barrier of this rank, which orders its own loads and stores with what it has
//! learned by other means. [The front page](crate#a-first-program) has this pattern as a program; a fence is all three steps in
//! one call.
//!
//! # In the separate model
//!
//! A part takes three times its memory, and each call of the table compares the whole part: it is not for speed. A store of the
//! owner and a put at the same time are errors of the program even on different bytes (rule 3 there); here each byte keeps the
//! change that was made to it. Shared and dynamic windows are always unified, since loads and stores of others reach their
//! memory itself. [`model`](crate::Window::model) tells which it is.
