//! Delayed locks: the lock request is sent together with operations. MPI-4.1 §12.5.3 allows a lock
//! to wait for the first operation.
//! 1. If the target's CPU changes the words of the lock, `lock` sends nothing.
//! 2. Small operations are delayed, with their data, as long as they fit into one message.
//! 3. The unlock sends the lock request with these operations and the release.
//! 4. If the lock is free, the target takes it, performs the operations, releases the lock and
//!    answers once.
//! 5. If the lock is not free, the target performs nothing. The origin takes the lock by its words,
//!    and then sends the operations.
//!
//! Three calls send the lock request before the unlock, without the release: a flush, an operation
//! whose call returns its result, and an operation that does not fit into the message. They send
//! the operations that were delayed until then with the lock request.
//!
//! A lock is delayed only if the epoch before it had an operation. Programs also use locks to guard
//! data outside of the window, such as other windows or files, and such epochs have no operations.
//!
//! # Threads
//!
//! A process delays at most one lock of all windows (`job::delayed`). Before a thread waits for
//! another lock, it takes its own delayed lock, so that a process takes locks in the program's
//! order. Otherwise processes that all lock in one order could deadlock.
//!
//! A process delays locks only if one thread makes all of its lock calls. Otherwise thread A, which
//! completes all operations of a window, would often have to take the lock that thread B has
//! delayed. A could then wait for a process that waits for a lock that A holds. For the same
//! reason a thread takes only its own delayed lock before it waits for another lock, and takes
//! another thread's delayed lock to complete operations only if operations wait for that lock.

mod keep;
mod state;
mod take;

use crate::error::{Error, JobError};
pub(super) use state::LockDelay;

/// The error of a call in an epoch whose lock could not be taken.
#[cold]
pub(super) fn not_locked(rank: usize) -> Error {
    JobError::NotLocked { rank }.into()
}

#[cfg(test)]
mod tests;
