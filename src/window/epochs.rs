//! The epochs of a typed window as closures, and the calls that each kind adds to the operations.
//! The end of a closure ends its epoch, even if the closure unwinds or fails.

use std::marker::PhantomData;
use std::ops::Deref;

use super::access::Access;
use super::lock::Lock;
use super::passive::Passive;
use super::raw::Assert;
use super::typed::Window;
use super::{core::Core, element::RmaElem};
use crate::epoch::Call;
use crate::error::{ErrorKind, Result};

/// The handle of a `lock_all` epoch (MPI-4.1 §12.5.3). Dereferences to [`Passive`] (flushes,
/// requests, notices), and through it to [`Access`] (put, get, accumulates).
#[derive(Debug)]
pub struct LockAllEpoch<'scope, 'env: 'scope, T>(Passive<'scope, 'env, T>);

/// The handle of a `lock` epoch, for one target (MPI-4.1 §12.5.3). Dereferences to [`Passive`].
#[derive(Debug)]
pub struct LockEpoch<'scope, 'env: 'scope, T>(Passive<'scope, 'env, T>);

/// The handle of an epoch between fences (MPI-4.1 §12.5.1). Dereferences to [`Access`].
#[derive(Debug)]
pub struct FenceEpoch<'scope, 'env: 'scope, T>(Access<'scope, 'env, T>);

/// The handle of an epoch between start and complete (MPI-4.1 §12.5.2). Dereferences to [`Access`].
#[derive(Debug)]
pub struct StartEpoch<'scope, 'env: 'scope, T>(Access<'scope, 'env, T>);

impl<T: RmaElem> Window<T> {
    /// Runs `body` in a passive access epoch to all ranks, by shared locks (`MPI_WIN_LOCK_ALL`,
    /// MPI-4.1 §12.5.3). Not collective. All operations of the epoch are complete at both sides on
    /// return.
    ///
    /// # Errors
    /// Those of `body`, `RmaSync` within another epoch of this window, `LockType` where the hint
    /// `no_locks` is set, or an error of completion.
    pub fn lock_all<'s, R>(&'s self, body: impl for<'e> FnOnce(&LockAllEpoch<'e, 's, T>) -> Result<R>) -> Result<R> {
        self.lock_all_with(Assert::NONE, body)
    }

    /// [`Window::lock_all`] with an assertion. With NOCHECK, the only assertion that is allowed,
    /// the call takes no lock.
    ///
    /// # Errors
    /// As for [`Window::lock_all`]; `Assert` for another assertion.
    pub fn lock_all_with<'s, R>(
        &'s self,
        assert: Assert,
        body: impl for<'e> FnOnce(&LockAllEpoch<'e, 's, T>) -> Result<R>,
    ) -> Result<R> {
        assert.only("lock_all", Assert::NOCHECK)?;
        self.core.lock_all(!assert.has(Assert::NOCHECK))?;
        let end = |core: &Core| {
            core.parts.settle();
            core.unlock_all()
        };
        Access::run(&self.core, false, end, |access| body(&LockAllEpoch(Passive(access.again()))))
    }

    /// Runs `body` in a passive access epoch to `target` (`MPI_WIN_LOCK`, MPI-4.1 §12.5.3). `body`
    /// may lock other targets. All operations on the target are complete at both sides on return.
    /// An exclusive lock excludes all other locks of the target's part; a shared lock excludes
    /// exclusive locks. Over a net without atomics the lock may be acquired as late as the end of
    /// the epoch; a flush acquires it. A lock does not order accesses outside of the window.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<i64>) -> transom::Result<()> {
    /// // Moves 5 from the first account of rank 0 to the second.
    /// win.lock(transom::Lock::Exclusive, 0, |epoch| {
    ///     let mut accounts = [0; 2];
    ///     epoch.scope(|part| part.get(0, 0, &mut accounts))?;
    ///     epoch.put_value(0, 0, accounts[0] - 5)?;
    ///     epoch.put_value(0, 1, accounts[1] + 5)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Window::lock_all`]; `RmaSync` if this rank holds a lock on the target; `Rank` for a
    /// rank that does not exist.
    pub fn lock<'s, R>(
        &'s self,
        kind: Lock,
        target: usize,
        body: impl for<'e> FnOnce(&LockEpoch<'e, 's, T>) -> Result<R>,
    ) -> Result<R> {
        self.lock_with(kind, target, Assert::NONE, body)
    }

    /// [`Window::lock`] with an assertion. With NOCHECK, the only assertion that is allowed, the
    /// call takes no lock.
    ///
    /// # Errors
    /// As for [`Window::lock`]; `Assert` for another assertion.
    pub fn lock_with<'s, R>(
        &'s self,
        kind: Lock,
        target: usize,
        assert: Assert,
        body: impl for<'e> FnOnce(&LockEpoch<'e, 's, T>) -> Result<R>,
    ) -> Result<R> {
        assert.only("lock", Assert::NOCHECK)?;
        self.core.lock(kind, target, !assert.has(Assert::NOCHECK))?;
        let end = |core: &Core| core.unlock_lent(target);
        Access::run(&self.core, true, end, |access| body(&LockEpoch(Passive(access.again()))))
    }

    /// Runs `body` in an epoch between two fences (`MPI_WIN_FENCE`, MPI-4.1 §12.5.1).
    /// [`FenceEpoch::fence`] separates phases within the epoch. A loop within one epoch needs one
    /// fence in each step, and a loop around this call two. Collective. The closing fence also runs
    /// if `body` fails, because the other ranks wait in this fence.
    ///
    /// # Errors
    /// Those of `body`, `RmaSync` within another epoch of this window, or an error of completion.
    pub fn fence<'s, R>(&'s self, body: impl for<'e> FnOnce(&FenceEpoch<'e, 's, T>) -> Result<R>) -> Result<R> {
        if self.core.in_fence_epoch() {
            // The end of the inner epoch would close the outer one, whose handle is still in use.
            let reason = "a fence epoch within one; its phases are separated by FenceEpoch::fence (MPI-4.1 §12.5.1)";
            return Err(ErrorKind::Epoch { call: "fence", target: None, reason }.into());
        }
        self.core.epochs.step("fence", Call::Fence)?;
        self.core.epochs.step("fence", Call::Operation)?;
        let end = |core: &Core| {
            let fenced = core.last_fence();
            core.epochs.step("fence", Call::LastFence).and(fenced)
        };
        Access::run(&self.core, false, end, |access| {
            self.core.fence()?;
            body(&FenceEpoch(access.again()))
        })
    }

    /// Runs `body` in an access epoch to `targets`, which expose their parts to this rank by
    /// [`Window::post`] (`MPI_WIN_START` and `MPI_WIN_COMPLETE`, MPI-4.1 §12.5.2). The first
    /// operation on a target waits for the target's post; the end of the epoch waits for the posts
    /// of targets without operations.
    ///
    /// # Errors
    /// Those of `body`; `RmaSync` within another access epoch; `Rank` if `targets` has a rank that
    /// does not exist, or one rank twice; an error of completion.
    pub fn start<'s, R>(
        &'s self,
        targets: &[usize],
        body: impl for<'e> FnOnce(&StartEpoch<'e, 's, T>) -> Result<R>,
    ) -> Result<R> {
        self.start_with(targets, Assert::NONE, body)
    }

    /// [`Window::start`] with an assertion. With NOCHECK, the only assertion that is allowed, the
    /// program promises that all targets have called [`Window::post_with`] with NOCHECK before, and
    /// the epoch waits for no post.
    ///
    /// # Errors
    /// As for [`Window::start`]; `Assert` for another assertion.
    pub fn start_with<'s, R>(
        &'s self,
        targets: &[usize],
        assert: Assert,
        body: impl for<'e> FnOnce(&StartEpoch<'e, 's, T>) -> Result<R>,
    ) -> Result<R> {
        assert.only("start", Assert::NOCHECK)?;
        self.core.start(targets, !assert.has(Assert::NOCHECK))?;
        Access::run(&self.core, true, Core::complete_lent, |access| body(&StartEpoch(access.again())))
    }

    /// Exposes this rank's part to `origins` until [`Window::wait`] (`MPI_WIN_POST`, MPI-4.1
    /// §12.5.2), without waiting.
    ///
    /// ```
    /// let world = transom::init()?;
    /// let (me, size) = (world.rank(), world.size());
    /// let win = transom::Window::<usize>::allocate(&world, 1)?;
    /// let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    /// win.post(&[left])?;
    /// win.start(&[right], |epoch| epoch.put_value(right, 0, me + 1))?;
    /// win.wait()?; // the put of the left rank is complete
    /// let mut got = [0];
    /// win.load(0, &mut got)?;
    /// assert_eq!(got, [left + 1]);
    /// win.free()?;
    /// # Ok::<(), transom::Error>(())
    /// ```
    ///
    /// # Errors
    /// `RmaSync` within an exposure epoch, or while this rank has its own part locked; `Rank` if
    /// `origins` has a rank that does not exist, or one rank twice; `Other` if a transport failed.
    /// If only some origins could be notified, the exposure epoch is open to those, and to origins
    /// whose notice is sent later.
    pub fn post(&self, origins: &[usize]) -> Result<()> {
        self.post_with(origins, Assert::NONE)
    }

    /// [`Window::post`] with assertions: NOCHECK, NOSTORE and NOPUT. With NOCHECK the call sends no
    /// message; the origins then call [`Window::start_with`] with NOCHECK, after this call.
    ///
    /// # Errors
    /// As for [`Window::post`]; `Assert` for another assertion.
    pub fn post_with(&self, origins: &[usize], assert: Assert) -> Result<()> {
        assert.only("post", Assert::NOCHECK | Assert::NOSTORE | Assert::NOPUT)?;
        self.core.parts.asserting(assert, || self.core.post(origins, !assert.has(Assert::NOCHECK)))
    }

    /// Waits until all origins of [`Window::post`] have completed, and ends the exposure epoch
    /// (`MPI_WIN_WAIT`, MPI-4.1 §12.5.2).
    ///
    /// # Errors
    /// `RmaSync` without `post`; `Other` if a transport failed.
    pub fn wait(&self) -> Result<()> {
        self.core.wait()
    }

    /// If all origins have completed, ends the exposure epoch and returns true; otherwise returns
    /// false (`MPI_WIN_TEST`, MPI-4.1 §12.5.2).
    ///
    /// # Errors
    /// As for [`Window::wait`].
    pub fn test(&self) -> Result<bool> {
        self.core.test()
    }
}

impl<'scope, 'env, T> Access<'scope, 'env, T> {
    pub(super) fn again(&self) -> Access<'scope, 'env, T> {
        Access { core: self.core, scope: self.scope, checked: self.checked, _elements: PhantomData }
    }
}

impl<T> FenceEpoch<'_, '_, T> {
    /// Ends one phase and begins the next (`MPI_WIN_FENCE`, MPI-4.1 §12.5.1). Collective. On return
    /// the operations that all ranks called in the phase before are complete, at origin and target.
    /// Buffers of operations stay borrowed until the epoch ends. To change a buffer between two
    /// fences, call its operations in an [`Access::scope`]:
    ///
    /// ```
    /// # let world = transom::init()?;
    /// # let next = (world.rank() + 1) % world.size();
    /// let win = transom::Window::<u64>::allocate(&world, 1)?;
    /// let mut data = [world.rank() as u64];
    /// win.fence(|epoch| {
    ///     for _ in 0..world.size() {
    ///         epoch.scope(|part| part.put(next, 0, &data))?;
    ///         epoch.fence()?; // all puts are complete
    ///         win.load(0, &mut data)?;
    ///         epoch.fence()?; // all ranks have loaded
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(data, [world.rank() as u64]); // once around
    /// win.free()?;
    /// # Ok::<(), transom::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Other` for an operation or a barrier that could not be completed.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        self.0.core.fence()
    }
}

impl<'scope, 'env, T> Deref for LockAllEpoch<'scope, 'env, T> {
    type Target = Passive<'scope, 'env, T>;
    #[inline]
    fn deref(&self) -> &Passive<'scope, 'env, T> {
        &self.0
    }
}

impl<'scope, 'env, T> Deref for LockEpoch<'scope, 'env, T> {
    type Target = Passive<'scope, 'env, T>;
    #[inline]
    fn deref(&self) -> &Passive<'scope, 'env, T> {
        &self.0
    }
}

impl<'scope, 'env, T> Deref for FenceEpoch<'scope, 'env, T> {
    type Target = Access<'scope, 'env, T>;
    #[inline]
    fn deref(&self) -> &Access<'scope, 'env, T> {
        &self.0
    }
}

impl<'scope, 'env, T> Deref for StartEpoch<'scope, 'env, T> {
    type Target = Access<'scope, 'env, T>;
    #[inline]
    fn deref(&self) -> &Access<'scope, 'env, T> {
        &self.0
    }
}
