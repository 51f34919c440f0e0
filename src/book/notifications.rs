//! Notified operations: an operation that also signals the target.
//!
//! After a put and a flush the data is at the target, but the target's program does not know that
//! the data has arrived. A *notified* operation also signals the target: it performs the put, get
//! or accumulate, and then adds one to a *counter* of the target. This addition is the *notice*.
//! The counter changes after the operation is complete at the target, so a target that reads the
//! new count also sees the data.
//!
//! The operations and counters are those of the MPI Forum's draft of RMA notification, which no
//! released version of MPI contains. The calls `wait`, `wait_any` and `try_wait` are additions of
//! this library. In this program each rank puts its number into the next rank's part, and waits for
//! the number of the previous rank:
//!
//! ```
//! use transom::{Notice, Window};
//!
//! let world = transom::init()?;
//! let (me, size) = (world.rank(), world.size());
//! let win = Window::<usize>::allocate(&world, 1)?;
//! win.set_num_notify(1)?; // one counter at each rank
//! let number = [me];
//! win.lock_all(|epoch| {
//!     epoch.put_notify((me + 1) % size, 0, &number, Notice(0))?;
//!     win.notices().wait(0, 1)?; // until counter 0 has at least the value 1
//!     let mut left = [0];
//!     win.load(0, &mut left)?;
//!     assert_eq!(left, [(me + size - 1) % size]);
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! # The calls
//!
//! In the collective call [`set_num_notify`](crate::Window::set_num_notify) each rank chooses the
//! number of its counters, at most 4096; the numbers may differ. The call zeroes the counters of
//! all ranks. An operation names a counter of its target by a [`Notice`](crate::Notice), which has
//! the index of the counter.
//!
//! Notified operations exist only in passive epochs, those of `lock` and `lock_all`:
//! [`put_notify`](crate::Passive::put_notify), [`get_notify`](crate::Passive::get_notify),
//! [`accumulate_notify`](crate::Passive::accumulate_notify),
//! [`get_accumulate_notify`](crate::Passive::get_accumulate_notify), and, with requests,
//! [`rput_notify`](crate::Passive::rput_notify), [`rget_notify`](crate::Passive::rget_notify),
//! [`raccumulate_notify`](crate::Passive::raccumulate_notify) and
//! [`rget_accumulate_notify`](crate::Passive::rget_accumulate_notify). The notice of a get means
//! that the origin has read the data, so the target may overwrite the data. A notified operation of
//! no elements only changes the counter. The forms with layouts are
//! [`put_items_notify`](crate::Passive::put_items_notify),
//! [`get_items_notify`](crate::Passive::get_items_notify) and
//! [`accumulate_items_notify`](crate::Passive::accumulate_items_notify). The forms whose requests
//! own their buffers are [`rget_owned_notify`](crate::Passive::rget_owned_notify) and
//! [`rget_accumulate_owned_notify`](crate::Passive::rget_accumulate_owned_notify).
//!
//! A counter only grows, until [`reset`](crate::Notices::reset) reads and zeroes it in one step.
//! The target waits through [`notices`](crate::Window::notices), within or outside of an epoch:
//!
//! - [`wait`](crate::Notices::wait) waits until a counter has at least a value, and does not change
//!   it;
//! - [`wait_any`](crate::Notices::wait_any) waits for one of several counters;
//! - [`try_wait`](crate::Notices::try_wait) only tests;
//! - [`request`](crate::Notices::request) returns a request that is complete when a counter has at
//!   least a value. A program can wait for several requests together.
//!
//! If another thread resets a counter right after the counter has reached its value, `wait` and
//! `wait_any` may miss the value, and wait on. A request does not miss the value.
//!
//! All these waits make progress, sleep like other blocking calls, and return an error when a rank
//! dies. In the separate memory model the target calls [`sync`](crate::Window::sync) after the
//! wait, as after every other signal.
//!
//! # An exchange of halos
//!
//! In each step a rank puts its end cells into its neighbours' parts, and waits for the neighbours'
//! end cells. The counters only grow, so the rank waits for a larger value in each step. A notice
//! tells the target that data has arrived. It does not tell the origin that the target has read the
//! previous data, so the program alternates between two pairs of halos. Two suffice: a rank begins
//! step s + 2 only after its neighbours' notices of step s + 1, and a neighbour sends these after
//! it has read the halos of step s.
//!
//! ```
//! use transom::{Notice, Window};
//!
//! let world = transom::init()?;
//! let (me, size) = (world.rank(), world.size());
//! let (left, right) = ((me + size - 1) % size, (me + 1) % size);
//! const FROM_LEFT: usize = 0;
//! const FROM_RIGHT: usize = 1;
//!
//! // Eight cells, with a halo cell at each side. Even and odd steps use different halos.
//! let win = Window::<f64>::allocate(&world, 4)?;
//! win.set_num_notify(2)?;
//! let mut cells = [me as f64; 8];
//! win.lock_all(|epoch| {
//!     for step in 0..10 {
//!         let halo = 2 * (step % 2);
//!         let ends = [cells[0], cells[7]];
//!         epoch.scope(|part| {
//!             part.put_notify(right, halo, &ends[1..], Notice(FROM_LEFT))?;
//!             part.put_notify(left, halo + 1, &ends[..1], Notice(FROM_RIGHT))
//!         })?;
//!         win.notices().wait(FROM_LEFT, step as u64 + 1)?;
//!         win.notices().wait(FROM_RIGHT, step as u64 + 1)?;
//!         let mut edges = [0.0; 2];
//!         win.load(halo, &mut edges)?;
//!         cells[0] = (edges[0] + cells[0]) / 2.0;
//!         cells[7] = (cells[7] + edges[1]) / 2.0;
//!     }
//!     Ok(())
//! })?;
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! `examples/queue.rs` is a larger program: a queue of several producers.
//!
//! # Notices or another signal
//!
//! | signal to a target | suitable for |
//! |---|---|
//! | a notified operation | producer and consumer, halos, queues: the target waits for data, not for ranks |
//! | a fence | all ranks exchange, and all ranks wait for all others |
//! | post/start/complete/wait | both sides know their partners, and the target must first allow the access |
//! | a flush and an atomic | the signal is a value, such as a flag with a state |
//!
//! The program `examples/stencil.rs` exchanges halos in all four of these ways. The table has its
//! times between two ranks with the first three, as multiples of the time with notices, on one
//! machine (docs/measured.md, "Halo exchange"; the times include the computation):
//!
//! | signal | shared memory | TCP |
//! |---|---|---|
//! | notices | 1 | 1 |
//! | post/start/complete/wait | 1.28 | 1.64 |
//! | fences | 1.48 | 1.64 |
//!
//! With more ranks a fence costs more, because all ranks wait for all others. The cost of the other
//! two ways depends only on the number of neighbours. On mapped memory `ci/instructions` permits 37
//! instructions for a put of 8 bytes, and 46 for a notified put. These limits leave room for other
//! compilers.
//!
//! # Costs
//!
//! Over a net the sequence of a put, a flush and an atomic takes one round trip more than a
//! notified put of one message, because the flush waits for the target's answer before the atomic
//! is sent.
//!
//! | route | cost of a notified put |
//! |---|---|
//! | mapped memory | the copy, one atomic, and a wake-up if the target sleeps |
//! | sockets, up to 16 KiB | one message with the data and its notice |
//! | sockets, longer data | the writes, then the message of the notice |
//! | verbs, up to 128 KiB | one write with the data and its notice |
//! | verbs, longer data | the writes, then one that has only the notice |
//! | verbs, in a window with `transom_notify=device` | the writes, then one atomic, which the call posts at once |
//! | libfabric `psm3`, up to 4 KiB | one write with the data and its notice |
//! | libfabric `psm3`, longer data | the call waits for the data, then posts a write that has only the notice |
//! | libfabric `cxi` with `FI_CXI_ENABLE_WRITEDATA=1`, up to 4 KiB | one write with the data and its notice |
//! | libfabric `cxi` with `FI_CXI_ENABLE_WRITEDATA=1`, longer data | the writes, then one that has only the notice |
//! | other providers whose devices perform the atomics | the call waits for the data, then posts one atomic |
//! | other providers, data that fits into one message | one message with the data and its notice |
//! | other providers, longer data | the call waits for the data, then sends the message of the notice |
//!
//! Over verbs the target's CPU adds to the counters, in its calls or in its progress thread. For a
//! target that computes for long, create the window with the [hint](super::windows#hints)
//! `transom_notify=device`: the network device adds, and the target's CPU takes no part. The device
//! does not wake a target that sleeps in a call (docs/limits.md, "Notified operations").
//!
//! # Other interfaces
//!
//! In C the calls are `transom_put_notify`, `transom_window_set_num_notify`,
//! `transom_window_notify_wait` and others. MPI programs under `libtransom_mpi.so` call
//! `MPI_Put_notify`, `MPI_Win_set_num_notify`, `MPI_Win_notify_threshold` and the others of the
//! draft, which `transom_mpi_notify.h` declares.
//!
//! In OpenSHMEM's terms, `put_notify` is `put_signal` with `SHMEM_SIGNAL_ADD`, and `wait` is
//! `signal_wait_until` with `SHMEM_CMP_GE`.
