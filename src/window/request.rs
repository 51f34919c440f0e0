//! Requests (MPI-4.1 §12.3.5): a request is the handle of one operation, by which a program tests
//! or waits for this operation alone. Completion concerns the buffer: the buffer of a get has the
//! data, and the buffer of a put may be used again. An operation that this CPU performs on mapped
//! memory is complete when its call returns; its request has no tally. An accumulate by the
//! device's atomics may be in flight, also on mapped memory.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use transom_fabric::{Tally, TallyRef};

use super::checked::last_operation;
use super::core::Core;
use super::element::RmaElem;
use super::thresholds::Threshold;
use super::unreported::Unreported;
use crate::buffers::{Lend, LentBuffer};
use crate::error::{Error, JobError, Result};
use crate::job::{JobCore, peer};

/// The handle of one operation (MPI-4.1 §12.3.5). The buffers of the operation are not in the
/// request: the epoch has borrowed them, or the caller of an unsafe call keeps them. A request may
/// be dropped: the end of the epoch still completes the operation.
///
/// A request that was waited for, or that a test found complete, is inactive. Another wait costs
/// nothing, and the functions on several requests ignore the request.
#[must_use = "an operation is complete when its request was waited for, or its epoch ended"]
pub struct Request {
    /// `ManuallyDrop`, so that the drop of a request without resources is one check.
    /// [`Request::discard`] drops the others.
    state: ManuallyDrop<State>,
}

enum State {
    /// Complete since its creation; neither tested nor waited for yet.
    Done,
    /// Not complete at the last check.
    Pending(Pending),
    /// Its completion was reported.
    Inactive,
}

struct Pending {
    job: Arc<JobCore>,
    until: Until,
}

/// The condition that completes a request.
enum Until {
    /// The operation on this rank of the job is complete. The rank is here because it then needs no
    /// further word.
    Complete { tally: TallyRef, rank: u32 },
    /// A counter of the window has reached a value. Boxed: the common requests are small.
    Counted(Box<CounterWait>),
    /// An operation on a checked window is complete.
    Checked(Box<CheckedOperation>),
}

struct CounterWait {
    window: Arc<Core>,
    threshold: Arc<Threshold>,
}

/// An operation on a checked window, with its number there.
struct CheckedOperation {
    window: Arc<Core>,
    tally: TallyRef,
    number: u64,
}

impl Until {
    /// The condition that this thread's last operation on a checked window is complete.
    #[cold]
    fn checked(core: &Core, tally: TallyRef, rank: u32) -> Until {
        match core.this.upgrade() {
            Some(window) => {
                let number = last_operation().number;
                Until::Checked(Box::new(CheckedOperation { window, tally, number }))
            }
            None => Until::Complete { tally, rank },
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.state {
            State::Done => "Request(complete)",
            State::Pending(Pending { until: Until::Counted(counted), .. }) => {
                return write!(f, "Request({:?})", counted.threshold);
            }
            State::Pending(_) => "Request(in flight)",
            State::Inactive => "Request(inactive)",
        })
    }
}

impl Request {
    /// The request of the last operation on a window, in flight if it has a tally. Only an
    /// operation on an existing target has one.
    #[inline]
    pub(super) fn of(core: &Core, target: usize, tally: Option<TallyRef>) -> Request {
        let state = match tally {
            None => {
                // The program may poll a word by gets: it then sees what the word's origin stored
                // before. x86 keeps the order of loads.
                if cfg!(not(target_arch = "x86_64")) {
                    fence(Ordering::Acquire);
                }
                State::Done
            }
            Some(tally) => {
                let rank = peer(core.parts.team.rank(target)).0;
                let is_checked = core.parts.is_checked();
                let until =
                    if is_checked { Until::checked(core, tally, rank) } else { Until::Complete { tally, rank } };
                State::Pending(Pending { job: Arc::clone(&core.parts.job), until })
            }
        };
        Request { state: ManuallyDrop::new(state) }
    }

    /// A request that is complete when a counter has reached a value.
    pub(super) fn awaiting(core: &Arc<Core>, threshold: Arc<Threshold>) -> Request {
        let until = Until::Counted(Box::new(CounterWait { window: Arc::clone(core), threshold }));
        let state = State::Pending(Pending { job: Arc::clone(&core.parts.job), until });
        Request { state: ManuallyDrop::new(state) }
    }

    /// Whether the target can't be reached, so that nothing may ever end the operation. A test then
    /// fails.
    #[doc(hidden)]
    #[inline]
    pub fn is_given_up(&self) -> bool {
        match &*self.state {
            State::Pending(Pending { job, until: Until::Complete { rank, .. } }) => {
                job.progress.is_silent(*rank as usize)
            }
            _ => false,
        }
    }

    /// Whether the operation is over and has failed, and a wait may report the failure. Another
    /// call may report it before, as a flush does.
    #[doc(hidden)]
    #[inline]
    pub fn has_failed(&self) -> bool {
        match &*self.state {
            State::Pending(Pending { until: Until::Complete { tally, .. }, .. }) => tally.idle() && tally.has_failed(),
            _ => false,
        }
    }

    /// Whether the request waits for the value of a counter, so that no operation belongs to it.
    #[doc(hidden)]
    pub fn awaits_counter(&self) -> bool {
        matches!(*self.state, State::Pending(Pending { until: Until::Counted(_), .. }))
    }

    /// Whether the request is active: no wait or test has reported the end of the operation yet.
    pub fn is_active(&self) -> bool {
        !matches!(*self.state, State::Inactive)
    }

    /// Whether the operation is complete, without making progress. [`Request::wait`] and
    /// [`Request::test`] then return at once. True for an inactive request.
    #[inline]
    pub fn is_complete(&self) -> bool {
        if self.is_over() {
            return true;
        }
        // Over verbs only a poll for completions reports the completion of an unsignaled put.
        if !self.awaits_counter()
            && let Some(job) = self.job()
        {
            job.progress.ask();
        }
        false
    }

    /// [`Request::is_complete`] for a caller that polls for completions itself.
    #[doc(hidden)]
    #[inline]
    pub fn is_known_complete(&self) -> bool {
        self.is_over()
    }

    /// Waits until the operation is complete (`MPI_WAIT`).
    ///
    /// # Errors
    /// The operation failed, because the target has ended or has refused the operation: the request
    /// is then inactive. The call also fails if another rank is lost, or a transport fails, while
    /// the operation is in flight: the request then stays active, and can be tested or waited for
    /// again.
    #[inline]
    pub fn wait(&mut self) -> Result<()> {
        if let State::Pending(_) = *self.state {
            return self.wait_pending();
        }
        self.state = ManuallyDrop::new(State::Inactive);
        Ok(())
    }

    #[cold]
    fn wait_pending(&mut self) -> Result<()> {
        let mut unreported = Unreported::default();
        self.wait_untold(&mut unreported).and(unreported.tell())
    }

    /// [`Request::wait`] for a caller that tells the conflict checker later: adds the completion to
    /// `unreported`.
    ///
    /// # Errors
    /// As for [`Request::wait`].
    #[doc(hidden)]
    #[cold]
    pub fn wait_untold(&mut self, unreported: &mut Unreported) -> Result<()> {
        let State::Pending(Pending { job, until }) = &*self.state else {
            self.state = ManuallyDrop::new(State::Inactive);
            return Ok(());
        };
        let waited = match until {
            Until::Complete { tally, .. } => job.progress.complete(tally),
            Until::Counted(counted) => counted.window.parts.await_threshold(&counted.threshold),
            Until::Checked(one) => job.progress.complete(&one.tally),
        };
        if waited.is_err() && !self.is_over() {
            return waited;
        }
        if let Until::Checked(one) = until {
            unreported.add(Arc::clone(&one.window), one.number);
        }
        self.discard();
        waited
    }

    /// Whether the operation is complete (`MPI_TEST`); makes progress, does not wait. True for an
    /// inactive request. The loss of a rank ends only the operations on that rank.
    ///
    /// # Errors
    /// The operation failed: the request is then inactive. The call also fails if a transport
    /// failed, if the target can't be reached, or, for a request that waits for notifications, if
    /// any rank is lost: the request then stays active.
    pub fn test(&mut self) -> Result<bool> {
        if self.poll()? { self.wait().map(|()| true) } else { Ok(false) }
    }

    /// Makes progress like [`Request::test`], and returns whether the operation is over. A failure
    /// of the operation is left to a later call.
    ///
    /// # Errors
    /// As for [`Request::test`], except that the operation's failure is no error.
    #[doc(hidden)]
    pub fn poll(&self) -> Result<bool> {
        if let Some(job) = self.job()
            && !self.is_over()
        {
            let polled = job.progress.poll_and_leave().and_then(|_| job.progress.look());
            if !self.is_over() {
                return match polled {
                    Err(error) if !self.goes_on_after(&error) => Err(error),
                    _ => Ok(false),
                };
            }
        }
        Ok(true)
    }

    /// Whether a test of this request in flight fails if progress fails with the error.
    #[doc(hidden)]
    pub fn ends_by(&self, error: &Error) -> bool {
        !self.goes_on_after(error)
    }

    /// Whether a test of this request in flight succeeds although progress failed. The loss of
    /// another rank does not end the operation. If the operation's target has died, the transport
    /// ends the operation; if the target is silent, nothing may ever end it.
    fn goes_on_after(&self, error: &Error) -> bool {
        let State::Pending(Pending { job, until }) = &*self.state else { return true };
        match until {
            Until::Complete { rank, .. } => {
                let rank = *rank as usize;
                error.lost_rank().is_some() && !error.is_unreachable(rank) && !job.progress.is_silent(rank)
            }
            Until::Checked(_) => error.lost_rank().is_some(),
            Until::Counted(_) => false,
        }
    }

    /// Waits for all requests (`MPI_WAITALL`). All are inactive on return, except for those whose
    /// operations are in flight after a failure, as for [`Request::wait`].
    ///
    /// # Errors
    /// The first failure, in the order of the requests.
    pub fn wait_all<'r, R: AnyRequest + 'r>(requests: impl IntoIterator<Item = &'r mut R>) -> Result<()> {
        let mut requests = requests.into_iter();
        while let Some(request) = requests.next() {
            let request = request.request_mut();
            if let State::Pending(_) = *request.state {
                return Request::wait_rest(request, requests);
            }
            request.state = ManuallyDrop::new(State::Inactive);
        }
        Ok(())
    }

    /// [`Request::wait_all`] from the first pending request on.
    #[cold]
    fn wait_rest<'r, R: AnyRequest + 'r>(first: &mut Request, rest: impl Iterator<Item = &'r mut R>) -> Result<()> {
        let mut unreported = Unreported::default();
        let mut outcome = first.wait_untold(&mut unreported);
        for request in rest {
            outcome = outcome.and(request.request_mut().wait_untold(&mut unreported));
        }
        outcome.and(unreported.tell())
    }

    /// Waits for one active request and returns its index, or `None` if none is active
    /// (`MPI_WAITANY`). The requests may own buffers:
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>) -> transom::Result<u64> {
    /// win.lock_all(|epoch| {
    ///     let mut gets = vec![epoch.rget_owned(1, 0, vec![0])?, epoch.rget_owned(2, 0, vec![0])?];
    ///     let mut sum = 0;
    ///     while let Some(first) = transom::Request::wait_any(&mut gets)? {
    ///         sum += gets.swap_remove(first).wait()?[0]; // in the order in which they come
    ///     }
    ///     Ok(sum)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Request::wait`], of the request that completed. The error has no index: the request
    /// that failed is inactive.
    pub fn wait_any<R: AnyRequest>(requests: &mut [R]) -> Result<Option<usize>> {
        let Some(first) = await_some(requests)? else { return Ok(None) };
        requests[first].request_mut().wait().map(|()| Some(first))
    }

    /// Waits for at least one active request, and returns the indices of all complete ones; returns
    /// an empty vector if no request is active (`MPI_WAITSOME`).
    ///
    /// # Errors
    /// As for [`Request::wait_all`], of the requests that completed.
    pub fn wait_some<R: AnyRequest>(requests: &mut [R]) -> Result<Vec<usize>> {
        if await_some(requests)?.is_none() {
            return Ok(Vec::new());
        }
        Request::test_some(requests)
    }

    /// The indices of the active requests that are complete (`MPI_TESTSOME`), without waiting.
    ///
    /// # Errors
    /// As for [`Request::wait_some`].
    pub fn test_some<R: AnyRequest>(requests: &mut [R]) -> Result<Vec<usize>> {
        if let Some(job) = requests.iter().find_map(|request| request.request().job()) {
            let mut polled = job.progress.poll_and_leave().map(drop);
            let active = || requests.iter().map(R::request).filter(|request| request.is_active());
            if !active().any(Request::is_over) {
                polled = polled.and_then(|()| job.progress.look());
                if let Err(error) = polled
                    && !active().all(|request| request.goes_on_after(&error))
                {
                    return Err(error);
                }
            }
        }
        let mut done = Vec::new();
        let (mut outcome, mut unreported) = (Ok(()), Unreported::default());
        for (index, request) in requests.iter_mut().map(R::request_mut).enumerate() {
            if request.is_active() && request.is_over() {
                done.push(index);
                outcome = outcome.and(request.wait_untold(&mut unreported));
            }
        }
        outcome.and(unreported.tell()).map(|()| done)
    }

    /// Drops the resources of a request in flight.
    #[cold]
    fn discard(&mut self) {
        *self.state = State::Inactive;
    }

    fn job(&self) -> Option<&JobCore> {
        match &*self.state {
            State::Pending(pending) => Some(&pending.job),
            _ => None,
        }
    }

    fn is_over(&self) -> bool {
        match &*self.state {
            State::Pending(Pending { until: Until::Complete { tally, .. }, .. }) => tally.idle(),
            State::Pending(Pending { until: Until::Counted(counted), .. }) => {
                counted.window.parts.is_past(&counted.threshold)
            }
            State::Pending(Pending { until: Until::Checked(one), .. }) => one.tally.idle(),
            _ => true,
        }
    }
}

impl Drop for Request {
    #[inline]
    fn drop(&mut self) {
        if let State::Pending(_) = *self.state {
            self.discard();
        }
    }
}

/// A [`Request`] or a [`BufferRequest`], for the functions on several requests.
pub trait AnyRequest: sealed::Sealed {}

impl AnyRequest for Request {}
impl<T: RmaElem> AnyRequest for BufferRequest<T> {}

mod sealed {
    use super::{BufferRequest, Request, RmaElem};

    /// Sealed, so that users can't exchange requests in place: a buffer is returned by the
    /// operation to which it was lent.
    pub trait Sealed {
        fn request(&self) -> &Request;
        fn request_mut(&mut self) -> &mut Request;
    }

    impl Sealed for Request {
        fn request(&self) -> &Request {
            self
        }
        fn request_mut(&mut self) -> &mut Request {
            self
        }
    }

    impl<T: RmaElem> Sealed for BufferRequest<T> {
        fn request(&self) -> &Request {
            &self.request
        }
        fn request_mut(&mut self) -> &mut Request {
            &mut self.request
        }
    }
}

/// Waits until an active request is complete and returns the first such index; `None` where none is
/// active.
fn await_some<R: AnyRequest>(requests: &[R]) -> Result<Option<usize>> {
    let over = || requests.iter().map(R::request).position(|request| request.is_active() && request.is_over());
    if let (None, Some(job)) = (over(), requests.iter().find_map(|request| request.request().job())) {
        job.progress.until(|| over().is_some())?;
    }
    Ok(over())
}

/// The handle of one operation of a typed window, which owns the operation's buffer until the
/// operation is complete: [`BufferRequest::wait`] returns the buffer. Dropping the request waits
/// for the operation; `mem::forget` leaks the buffer.
#[must_use = "the buffer comes back from wait"]
pub struct BufferRequest<T: RmaElem> {
    request: Request,
    buffer: Option<LentBuffer<T>>,
    /// The job that makes progress for the counted operations; `None` where the operation was
    /// complete at once.
    job: Option<Arc<JobCore>>,
}

impl<T: RmaElem> fmt::Debug for BufferRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

impl<T: RmaElem> BufferRequest<T> {
    /// Lends `buffer` to the operations that `post` posts and counts.
    #[inline]
    pub(super) fn lend(
        core: &Core,
        target: usize,
        buffer: Vec<T>,
        post: impl FnOnce(Lend, &mut Option<TallyRef>) -> Result<()>,
    ) -> Result<BufferRequest<T>> {
        let mut tally = None;
        let (buffer, posted) = LentBuffer::lend(buffer, &mut tally, post);
        let pending = tally.is_some().then(|| Arc::clone(&core.parts.job));
        let request = BufferRequest { request: Request::of(core, target, tally), buffer: Some(buffer), job: pending };
        // If `post` failed after it had posted some transfers, the drop waits for these.
        posted.map(|()| request)
    }

    /// Whether the operation is complete (`MPI_TEST`); makes progress, does not wait.
    ///
    /// # Errors
    /// As for [`Request::test`]. The request keeps the buffer.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Waits until the operation is complete, and returns the buffer (`MPI_WAIT`). After a get the
    /// buffer has the data.
    ///
    /// # Errors
    /// As for [`Request::wait`], also if an earlier call, such as a flush, has reported that the
    /// operation failed. The buffer is then lost, also if the error is the loss of another rank.
    /// [`BufferRequest::test`] does not fail because of other ranks: a program that goes on after a
    /// loss calls it until it is true, and then this function.
    #[inline]
    pub fn wait(mut self) -> Result<Vec<T>> {
        self.request.wait()?;
        if self.buffer.as_ref().and_then(LentBuffer::tally).is_some_and(Tally::has_ever_failed) {
            return Err(JobError::Failed.into());
        }
        Ok(self.buffer.take().map(LentBuffer::take).unwrap_or_default())
    }
}

impl<T: RmaElem> Drop for BufferRequest<T> {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if let (Some(job), Some(tally)) = (&self.job, buffer.tally()) {
            job.finish(tally);
        }
        drop(buffer.take());
    }
}
