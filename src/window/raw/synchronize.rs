//! The byte-level window's synchronization calls. Assertions are checked here, epochs by the core.

use super::super::lock::Lock;
use super::{Assert, RawWindow};
use crate::epoch::Call;
use crate::error::{ArgumentError, Class, Error, Result};
use crate::job::Cause;

/// Synchronization (MPI-4.1 §12.5).
impl RawWindow {
    /// Completes the operations that all ranks have called since the last fence, at origin and
    /// target; this rank's loads then see them (`MPI_WIN_FENCE`, MPI-4.1 §12.5.1). Collective. Ends
    /// the fence epoch, and opens the next one unless NOSUCCEED is given. With both NOPRECEDE and
    /// NOSUCCEED the call only ends this rank's fence epoch, and does not wait for other ranks.
    ///
    /// # Errors
    /// `RmaSync` within another epoch; `Assert` for NOCHECK, or for NOPRECEDE after operations; the
    /// error of an operation that could not be completed. Windows with
    /// [`Info::forgiving`](crate::Info::forgiving) accept NOPRECEDE after operations with a
    /// warning.
    pub fn fence(&self, assert: Assert) -> Result<()> {
        let own = Assert::NOSTORE | Assert::NOPUT | Assert::NOPRECEDE | Assert::NOSUCCEED;
        assert.only("fence", own)?;
        if assert.has(Assert::NOPRECEDE) && self.core.in_fence_epoch() {
            self.accept_untrue(Error::argument(Class::Assert, "fence", ArgumentError::OperationsPrecede))?;
        }
        let call = if assert.has(Assert::NOSUCCEED) { Call::LastFence } else { Call::Fence };
        self.core.epochs.step("fence", call)?;
        self.core.parts.asserting(assert, || {
            // With both, the other ranks do not wait either. Operations precede the call only where
            // NOPRECEDE is not true.
            if assert.has(Assert::NOPRECEDE | Assert::NOSUCCEED) {
                self.core.parts.fences();
                self.core.fence_alone()
            } else {
                self.core.fence()
            }
        })
    }

    /// Warns of an assertion that is not true, and lets the call go on, in a window with
    /// [`Info::forgiving`](crate::Info::forgiving). The other ranks may wait for this rank.
    #[cold]
    fn accept_untrue(&self, error: Error) -> Result<()> {
        if !self.core.parts.hints.is_forgiving() {
            return Err(error);
        }
        self.core.parts.job.warn_once(Cause::Assertion, &format!("{error}; the call ignores the assertion"));
        Ok(())
    }

    /// Exposes this rank's part to `origins` without waiting (`MPI_WIN_POST`, MPI-4.1 §12.5.2).
    ///
    /// # Errors
    /// `RmaSync` within an exposure epoch, or while this rank has its own part locked; `Rank` if
    /// `origins` has a rank that does not exist, or one rank twice; `Assert` for an assertion that
    /// is not defined for this call; `Other` if a transport failed. If only some origins could be
    /// notified, the exposure epoch is open to those, and to origins whose notice is sent later.
    pub fn post(&self, origins: &[usize], assert: Assert) -> Result<()> {
        assert.only("post", Assert::NOCHECK | Assert::NOSTORE | Assert::NOPUT)?;
        self.core.parts.asserting(assert, || self.core.post(origins, !assert.has(Assert::NOCHECK)))
    }

    /// Opens an access epoch to `targets` without waiting (`MPI_WIN_START`, MPI-4.1 §12.5.2). The
    /// first operation on a target waits for the target's post; [`RawWindow::complete`] waits for
    /// the posts of targets without operations.
    ///
    /// # Errors
    /// `RmaSync` within another access epoch; `Rank` for an invalid group; `Assert`.
    pub fn start(&self, targets: &[usize], assert: Assert) -> Result<()> {
        assert.only("start", Assert::NOCHECK)?;
        self.core.start(targets, !assert.has(Assert::NOCHECK))
    }

    /// Ends the epoch of [`RawWindow::start`] (`MPI_WIN_COMPLETE`). The epoch's operations are
    /// then complete at origin and target.
    ///
    /// # Errors
    /// `RmaSync` without `start`; the error of an operation that could not be completed.
    pub fn complete(&self) -> Result<()> {
        self.core.complete()
    }

    /// Ends the epoch of [`RawWindow::post`] after all its origins have completed (`MPI_WIN_WAIT`).
    ///
    /// # Errors
    /// `RmaSync` without `post`; the error of a transport that failed.
    pub fn wait(&self) -> Result<()> {
        self.core.wait()
    }

    /// If all origins of [`RawWindow::post`] have completed, ends the epoch and returns true;
    /// otherwise returns false (`MPI_WIN_TEST`).
    ///
    /// # Errors
    /// As for [`RawWindow::wait`].
    pub fn test(&self) -> Result<bool> {
        self.core.test()
    }

    /// Opens a passive access epoch to `target` (`MPI_WIN_LOCK`, MPI-4.1 §12.5.3). A process may
    /// lock several targets at once. An exclusive lock excludes all other locks of the target's
    /// part; a shared lock excludes exclusive locks. Over a net without atomics the lock may be
    /// acquired as late as the unlock; a flush acquires it. A lock does not order accesses outside
    /// of the window.
    ///
    /// # Errors
    /// `RmaSync` within another epoch, or if this process has the target locked; `LockType` if the
    /// info says `no_locks`; `Rank`; `Assert`.
    pub fn lock(&self, kind: Lock, target: usize, assert: Assert) -> Result<()> {
        assert.only("lock", Assert::NOCHECK)?;
        self.core.parts.look_on(target);
        self.core.lock(kind, target, !assert.has(Assert::NOCHECK))
    }

    /// Completes all operations to `target` at origin and target, and ends its epoch
    /// (`MPI_WIN_UNLOCK`).
    ///
    /// # Errors
    /// `RmaSync` if the target is not locked; the error of an operation that could not be
    /// completed. Even then the lock is released.
    pub fn unlock(&self, target: usize) -> Result<()> {
        self.core.unlock(target)
    }

    /// Opens a passive access epoch to all ranks (`MPI_WIN_LOCK_ALL`, MPI-4.1 §12.5.3). Not
    /// collective. The call takes one atomic at the window's first rank, or none with NOCHECK. The
    /// first `lock_all` after many exclusive locks may take more (docs/protocols.md, "Locks").
    ///
    /// # Errors
    /// As for [`RawWindow::lock`].
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        assert.only("lock_all", Assert::NOCHECK)?;
        self.core.lock_all(!assert.has(Assert::NOCHECK))
    }

    /// Completes all operations at origin and target, and ends the epoch of [`RawWindow::lock_all`]
    /// (`MPI_WIN_UNLOCK_ALL`, MPI-4.1 §12.5.3).
    ///
    /// # Errors
    /// `RmaSync` without `lock_all`; the error of an operation that could not be completed.
    pub fn unlock_all(&self) -> Result<()> {
        self.core.unlock_all()
    }

    /// Completes operations to `target` at origin and target (`MPI_WIN_FLUSH`, MPI-4.1 §12.5.4).
    ///
    /// # Errors
    /// `RmaSync` outside a passive epoch; `Rank`; the error of an operation that could not be
    /// completed.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        let permit = self.core.may_flush("flush", target)?;
        self.core.parts.look_on(target);
        self.core.parts.flush("flush", permit)
    }

    /// Completes operations to all targets at origin and target (`MPI_WIN_FLUSH_ALL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.core.epochs.check("flush_all", Call::FlushAll)?;
        self.core.parts.job.progress.look_beside();
        self.core.flush_epoch()
    }

    /// Completes operations to `target` at the origin, whose buffers may then be used again
    /// (`MPI_WIN_FLUSH_LOCAL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local(&self, target: usize) -> Result<()> {
        let permit = self.core.may_flush("flush_local", target)?;
        self.core.parts.look_on(target);
        self.core.parts.flush("flush_local", permit)
    }

    /// Completes operations to all targets at the origin (`MPI_WIN_FLUSH_LOCAL_ALL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        self.core.epochs.check("flush_local_all", Call::FlushAll)?;
        self.core.parts.job.progress.look_beside();
        self.core.flush_epoch_locally()
    }

    /// Orders this rank's loads and stores with the accesses of other processes (`MPI_WIN_SYNC`,
    /// MPI-4.1 §12.5.4). In the separate model it also makes both copies equal.
    ///
    /// # Panics
    /// If the window was freed.
    pub fn sync(&self) {
        self.assert_not_freed("sync");
        self.core.parts.sync();
    }
}
