//! Repetition of posts that a transport answers with `Again`, and the wait for operations whose
//! buffers return to the program.

use std::time::{Duration, Instant};

use transom_fabric::{Immediate, Post, Tally, backoff, diagnostics};

use super::{JobCore, peer};
use crate::buffers::AtEnd;
use crate::error::{Error, Result};
use crate::failures::Attempts;
use crate::messages::PscwNotice;
use crate::transport::{Lane, SpinBudget};

/// In a wait that goes on after the loss of a rank: time without progress after which it gives up.
const LINGER: Duration = Duration::from_secs(10);
/// Sleep between two polls of such a wait.
const NAP: Duration = Duration::from_millis(1);

/// Longest time for which events of other ranks count as progress of such a wait.
const PROLONGED: Duration = Duration::from_secs(300);

/// Measures the time without progress, in a wait that goes on after the loss of a rank.
struct Stillness {
    begun: Instant,
    attempts: Attempts,
    /// The smallest number of operations that were left so far.
    least: u64,
}

impl Stillness {
    fn begin(now: Instant, left: u64) -> Stillness {
        Stillness { begun: now, attempts: Attempts::begin(now), least: left }
    }

    /// Records a check of the number of operations left. `came`: events of any rank were processed
    /// since the last check.
    fn looked(&mut self, now: Instant, left: u64, came: bool) {
        if left < self.least || (came && now.duration_since(self.begun) < PROLONGED) {
            self.attempts = Attempts::begin(now);
        } else {
            self.attempts.failed(now);
        }
        self.least = self.least.min(left);
    }

    fn is_over(&self) -> bool {
        self.attempts.time() > LINGER
    }
}

/// The outcome of sending a notice.
#[derive(Debug)]
#[must_use]
pub(crate) enum Notified {
    /// It was sent, or a thread will send it.
    Sent,
    /// The call failed, and progress will send the notice later.
    Owed(Error),
    /// It will never be sent.
    Failed(Error),
}

impl Notified {
    /// The result of the call that notifies.
    pub(crate) fn outcome(self) -> Result<()> {
        match self {
            Notified::Sent => Ok(()),
            Notified::Owed(error) | Notified::Failed(error) => Err(error),
        }
    }
}

impl JobCore {
    /// Whether the transport has taken an operation. If not, makes progress, and the caller posts
    /// the operation again.
    ///
    /// # Errors
    /// The reason why the transport will never take it.
    #[inline]
    pub(crate) fn taken(&self, answer: Post) -> Result<bool> {
        match answer {
            Post::Done | Post::Pending => Ok(true),
            refused => self.again(refused, &mut 0).map(|()| false),
        }
    }

    /// [`taken`](JobCore::taken) for a message, for which its receiver may first have to empty a
    /// cell of its ring. `failed`: the number of failed attempts so far, at first 0.
    #[inline]
    pub(crate) fn taken_at_last(&self, answer: Post, failed: &mut u32) -> Result<bool> {
        match answer {
            Post::Done | Post::Pending => Ok(true),
            refused => self.again(refused, failed).map(|()| false),
        }
    }

    /// [`JobCore::pause_before_retry`] for an operation that the transport did not take.
    ///
    /// # Errors
    /// Also the reason why the transport will never take it.
    #[cold]
    fn again(&self, answer: Post, failed: &mut u32) -> Result<()> {
        match answer {
            Post::Broken(fault) => Err(self.progress.explained(*fault)),
            Post::Done | Post::Pending | Post::Again => self.pause_before_retry(failed),
        }
    }

    /// Makes progress before another attempt at an operation, or pauses. `failed`: the number of
    /// preceding attempts without progress, at first 0.
    ///
    /// # Errors
    /// Progress failed.
    #[cold]
    pub(crate) fn pause_before_retry(&self, failed: &mut u32) -> Result<()> {
        let is_quiet = self.progress.poll_between()? == 0;
        if self.progress.count_repeat() || is_quiet {
            self.progress.look()?;
            self.progress.call_hook();
        }
        if is_quiet {
            let is_crowded = self.spin == SpinBudget::NONE;
            backoff::pause_by(*failed, is_crowded, |limit| self.progress.sleep(limit));
            *failed = failed.saturating_add(1);
        } else {
            self.progress.progressed();
            *failed = 0;
        }
        Ok(())
    }

    /// Waits until nothing of `tally` is in flight, because lent buffers can't be returned before.
    /// If that is impossible, the process aborts.
    #[inline]
    pub(crate) fn finish(&self, tally: &Tally) {
        if !tally.idle() {
            self.outlast(|| tally.outstanding());
        }
    }

    /// [`JobCore::until_all_complete`]. If that is impossible, the process aborts. The program's
    /// hook, which the wait calls, may panic. The call waits again before it unwinds; if the hook
    /// panics again, the process aborts.
    #[cold]
    pub(crate) fn outlast(&self, left: impl Fn() -> u64) {
        // Dropped only if the wait unwinds. A panic of the second wait is one during a panic.
        let again = AtEnd(|| self.wait_or_abort(&left));
        self.wait_or_abort(&left);
        std::mem::forget(again);
    }

    fn wait_or_abort(&self, left: impl Fn() -> u64) {
        if let Err(error) = self.until_all_complete(left) {
            // The process aborts next, so there is no caller to return the error to.
            let what = format!("rank {}: operations in flight can't be completed: {error:#}", self.rank);
            diagnostics::error("transom::progress", &what);
            std::process::abort();
        }
    }

    /// Waits until `left`, the number of operations in flight, is 0, also after a rank was lost.
    ///
    /// # Errors
    /// A transport failed, or nothing has moved for [`LINGER`].
    #[cold]
    pub(crate) fn until_all_complete(&self, left: impl Fn() -> u64) -> Result<()> {
        let Err(mut error) = self.progress.until(|| left() == 0) else { return Ok(()) };
        if self.go_on_after(&mut error, left) { Ok(()) } else { Err(error) }
    }

    /// Continues a wait that `error` has ended, if the error is the loss of a rank: the operations
    /// may be those on other ranks, which still answer. Returns whether `left`, the number of
    /// awaited operations, has become 0. If not, a transport failed, or nothing has moved for long;
    /// `error` is then the last failure.
    #[cold]
    pub(crate) fn go_on_after(&self, error: &mut Error, left: impl Fn() -> u64) -> bool {
        let mut stillness = Stillness::begin(Instant::now(), left());
        while left() > 0 {
            if error.lost_rank().is_none() || stillness.is_over() {
                return false;
            }
            self.progress.call_hook();
            let polled = self.progress.poll_on(NAP);
            let came = matches!(polled, Ok(true));
            if let Some(failure) = self.progress.look().err().or(polled.err()) {
                *error = failure;
            }
            stillness.looked(Instant::now(), left(), came);
        }
        true
    }

    /// Sends a notice of `post` or `complete` to a rank that was contacted before: as an immediate,
    /// or as the message `bytes`. If the immediate is not taken in this call, the message is sent
    /// later in its place.
    ///
    /// A notice for which a rank of the node has no room is sent later by a thread, also if
    /// progress has failed meanwhile, perhaps because of another rank: `post` must not wait for
    /// other ranks (MPI-4.1 §12.5.2), and the receiver may sleep or compute until this rank goes
    /// on. A notice of `complete` to a rank that can't be reached is sent later too, because the
    /// receiver waits for it.
    ///
    /// Later messages may overtake the notice, which is harmless: receivers only count notices.
    /// When a window is freed, no notice of it is left, unless a synchronization call on it has
    /// failed.
    pub(crate) fn notify(
        &self,
        rank: usize,
        bytes: Vec<u8>,
        immediate: Option<Immediate>,
        notice: PscwNotice,
    ) -> Notified {
        let (to, is_of_node) = (peer(rank), self.lane(rank) == Some(Lane::Shm));
        let (mut failure, mut failed) = (None, 0);
        loop {
            let posted = immediate.and_then(|immediate| self.post_immediate(rank, immediate).ok());
            match posted.unwrap_or_else(|| self.wire.send(to, &bytes)) {
                Post::Done | Post::Pending => return Notified::Sent,
                Post::Broken(fault) => {
                    let owed = matches!(notice, PscwNotice::Completed);
                    match owed {
                        true => self.messages.defer(to, bytes, None),
                        false => self.messages.notice_unsent(to, &bytes),
                    }
                    self.progress.send_later();
                    let error = self.progress.explained(*fault);
                    return if owed { Notified::Owed(error) } else { Notified::Failed(error) };
                }
                Post::Again if is_of_node => break,
                Post::Again => failure = self.pause_before_retry(&mut failed).err(),
            }
            if failure.is_some() {
                break;
            }
        }
        self.messages.defer(to, bytes, None);
        let (has_sender, end) = (self.progress.send_later(), self.messages.next_deferred());
        while !has_sender && failure.is_none() && self.messages.owes(to, end) {
            failure = self.pause_before_retry(&mut failed).err();
        }
        failure.map_or(Notified::Sent, Notified::Owed)
    }

    /// Posts an immediate that stands for a signal of a barrier.
    pub(crate) fn signal_by_immediate(&self, rank: usize, immediate: Immediate) -> Result<()> {
        let mut failed = 0;
        while !self.taken_at_last(self.post_immediate(rank, immediate)?, &mut failed)? {}
        Ok(())
    }

    /// Posts a put of no bytes with an immediate to a rank of another node.
    fn post_immediate(&self, rank: usize, immediate: Immediate) -> Result<Post> {
        // The net delivers an immediate after earlier puts to any memory of the rank.
        Ok(self.block_by_net(rank)?.put_immediate(0, &[], immediate, self.progress.notices()))
    }

    /// Sends a signal of a barrier, in one message with the answers that wait for such a message.
    pub(crate) fn signal(&self, rank: usize, signal: Vec<u8>) -> Result<()> {
        let message = self.messages.behind_answers(peer(rank), signal);
        self.send(rank, &message).inspect_err(|_| {
            self.messages.notice_unsent(peer(rank), &message);
            self.progress.send_later();
        })
    }

    /// Sends a message to a rank that was contacted before.
    pub(crate) fn send(&self, rank: usize, bytes: &[u8]) -> Result<()> {
        let mut failed = 0;
        while !self.taken_at_last(self.wire.send(peer(rank), bytes), &mut failed)? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: operations of more than 10 s ended the process after another rank was lost,
    /// although operations were completed meanwhile.
    #[test]
    fn a_wait_gives_up_only_if_nothing_has_moved() {
        let begun = Instant::now();
        let mut stillness = Stillness::begin(begun, 3);
        let mut wait = |from: u64, to: u64, left: u64, came_at: Option<u64>| {
            (from..to).any(|second| {
                stillness.looked(begun + Duration::from_secs(second), left, came_at == Some(second));
                stillness.is_over()
            })
        };
        assert!(!wait(1, 10, 3, None));
        assert!(!wait(10, 19, 2, None), "an operation is complete");
        assert!(!wait(19, 29, 2, Some(19)), "an event came");
        assert!(!wait(29, 30, 4, None), "another thread's operations");
        assert!(wait(30, 33, 4, None), "nothing has moved");
        let mut stillness = Stillness::begin(begun, 1);
        let over = (1..400).find(|&second| {
            stillness.looked(begun + Duration::from_secs(second), 1, true);
            stillness.is_over()
        });
        assert!(over.is_some_and(|second| second > 300), "events of other ranks do not prolong it for ever");
    }
}
