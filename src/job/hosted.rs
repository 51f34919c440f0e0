//! Calls for a program that also waits in another library, such as an MPI.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Cause, Job};
use crate::error::Result;
use crate::transport::SpinBudget;

impl Job {
    /// Sets a hook that waiting calls of this library run in the waiting thread: first after about
    /// 50 us, then about once a millisecond. The hook is for another library, such as an MPI, that
    /// makes progress only within its own calls. `hook` must not wait, and must not call this
    /// library: the waiting call may hold a lock, for example that of a dynamic window's list of a
    /// target's regions. Only the first hook of a job is used.
    pub fn while_waiting(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.core.progress.while_waiting(Box::new(hook));
    }

    /// Keeps the progress threads running when this rank leaves the job, for windows that outlive
    /// the job: those of an MPI's session after `MPI_Finalize`. Deaths are no longer detected,
    /// because other ranks may end without an error. The program calls [`Job::stop_serving`] before
    /// the process ends.
    #[doc(hidden)]
    pub fn serve_on(&self) {
        // Relaxed: this thread leaves the job after this call.
        self.core.flags.serves_on.store(true, Ordering::Relaxed);
        // Before the barrier at the end, after which other ranks exit.
        self.core.progress.detect_no_more();
    }

    /// Ends the progress threads that [`Job::serve_on`] has kept.
    #[doc(hidden)]
    pub fn stop_serving(&self) {
        self.core.progress.stop();
    }

    /// Promises that synchronization calls on windows created after this call come from one thread
    /// at a time, as under `MPI_THREAD_SERIALIZED` (MPI-4.1 §11.2.1). A lock and its unlock then
    /// take two atomic instructions fewer. Without the promise any thread may call at any time.
    pub fn synchronize_serially(&self) {
        // Relaxed: the program's own synchronization orders the promise before another thread's
        // creation of windows.
        self.core.flags.serial.store(true, Ordering::Relaxed);
    }

    /// Whether ranks of this rank's machine have to share CPUs. A program that waits in another
    /// library should then yield its CPU early.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.core.spin == SpinBudget::NONE
    }

    /// Makes progress as [`Request::test`](crate::Request::test) does, for all requests of the job.
    ///
    /// # Errors
    /// Another rank is lost, or a transport failed. `Request::ends_by` tells whether a request in
    /// flight ends by the error.
    #[doc(hidden)]
    pub fn poll_requests(&self) -> Result<()> {
        self.core.progress.poll_and_leave().and_then(|_| self.core.progress.look())
    }

    /// Returns a function that makes progress for this job once, without waiting. A program that
    /// waits in another library may call the function repeatedly, so that requests of other ranks
    /// do not have to wake the progress thread. The function returns whether a message arrived; if
    /// so, further messages may follow. The function runs no hook, and has no effect after the end
    /// of the job.
    pub fn poller(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let core = Arc::downgrade(&self.core);
        move || {
            let Some(core) = core.upgrade() else { return false };
            core.progress.poll_once().unwrap_or_else(|error| {
                core.warn_once(Cause::Progress, &format!("making progress failed: {error:#}"));
                false
            })
        }
    }
}
