//! # The two copies
//!
//! MPI describes a window by two copies (§11.4): the *public* one, which operations of all ranks access, and the *private* one, which
//! its owner loads and stores. In the **unified** model they are the same memory: what one side writes, the other sees, some time
//! later and in any order, until a synchronization says when. In the **separate** model they differ until a call brings them together.
//!
//! This library's windows are unified: all machines that it runs on have coherent memory. With `transom_model=separate` both
//! copies really exist, so that a program which relies on what only unified memory gives shows it on a laptop.
//!
//! | direction | calls of the owner that bring it about |
//! |---|---|
//! | stores become visible to others (§11.7 rule 5) | `post`, a fence, `unlock`, `unlock_all`, `sync` |
//! | what others put becomes visible to loads (rule 6) | `wait`, a fence, `lock`, `lock_all`, `sync` |
//!
//! Under either model a barrier of processes moves no memory. What another rank has put is there to load after it completed (its
//! flush or the end of its epoch), then a barrier or a message, then one of the calls of the table.
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! use transom::{Info, Model, Window};
//!
//! let world = transom::init()?;
//! let info = Info::new().with("transom_model", "separate");
//! let win = Window::<u64>::create_with(&world, vec![1, 2], &info)?;
//! assert_eq!(win.model(), Model::Separate);
//! win.lock_all(|epoch| epoch.put_value(world.rank(), 0, 9u64))?; // public
//! let mut mine = [0; 2];
//! win.load(0, &mut mine)?; // private
//! assert_eq!(mine, [1, 2], "nothing has brought them together");
//! win.sync();
//! win.load(0, &mut mine)?;
//! assert_eq!(mine, [9, 2]);
//! win.free()
//! # }
//! ```
//!
//! Shared and dynamic windows are always unified: others reach the memory itself. In the separate model a store and a put to
//! one window at the same time are errors of the program even where they do not touch the same bytes (rule 3); here each byte keeps the
//! change that was made to it.
