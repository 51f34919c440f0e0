//! The progress thread, which serves origins while the program's threads compute. While the
//! program's calls follow each other, the thread leaves polling to these calls, because each look
//! at the ports by the thread delays a call that polls on the same core.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transom_fabric::{Awaited, diagnostics};

use crate::messages::Messages;
use crate::transport::{Lane, Wire};

use super::rhythm::Rhythm;

/// Initial time for which the thread leaves polling to threads that post, and answers to the next
/// call.
const KEEP_AWAY: Duration = Duration::from_micros(32);
/// Time for which the thread leaves polling to callers. The calls between two phases of computing
/// seldom take longer: a look at them in between would delay one of them. The end of a single
/// longer call wakes the thread.
const KEEP_AWAY_MAX: Duration = Duration::from_micros(256);
/// [`KEEP_AWAY_MAX`] where a call is running at each check of the thread, or where calls or posts
/// are dense: at least one in each [`DENSE`] on average. Such calls serve origins soon enough.
/// Dense posts and the thread would wait for the same locks of the net.
const KEEP_AWAY_DENSE: Duration = Duration::from_micros(1024);
const DENSE: Duration = Duration::from_micros(64);
/// More posts than this between two checks are a stream, whose next post may take longer than
/// [`KEEP_AWAY`].
const FEW_POSTS: u32 = 2;
/// Maximum number of counted calls: this many are dense even over the longest sleep,
/// [`KEEP_AWAY_DENSE`].
const MANY_CALLS: u32 = 16;
/// A poll with this many events may have left others. The thread then polls again, at most
/// [`ROUNDS`] times: while it kept away, events of all operations in flight may have come.
const MANY: usize = 32;
const ROUNDS: u32 = 64;
/// Maximum sleep of the thread.
const IDLE: Duration = Duration::from_millis(500);
/// Initial sleep of the thread where replies wait for room at their origins, which no event
/// reports. The sleep doubles while no room appears.
pub(super) const RETRY: Duration = Duration::from_micros(64);
/// Maximum of the sleep that begins with [`RETRY`]. A target that computes for long and then polls
/// gets the reply after this time at the latest.
const RETRY_MAX: Duration = Duration::from_millis(16);

/// The threads inside blocking calls (*callers*), which poll by themselves. The progress thread
/// waits here until all callers have left.
#[derive(Default)]
pub(super) struct Callers {
    pub(super) inside: AtomicU32,
    /// Grows with every call.
    pub(super) calls: AtomicU32,
    /// Whether the net's progress thread wants to know when the next call begins.
    expected: AtomicBool,
    /// When the first call since then began.
    began: Mutex<Option<Instant>>,
    /// Whether progress threads may wait for the last caller to leave.
    waiting: AtomicBool,
    /// Whether the progress thread of each lane sleeps until something arrives.
    dozing: [AtomicBool; 2],
    /// Whether such a sleep ends soon, because the thread had answers to send before.
    retrying: [AtomicBool; 2],
    /// Whether [`Request::is_complete`](crate::Request::is_complete) was asked for an operation in
    /// flight. The next poll then reports completions too.
    asked: AtomicBool,
    /// Whether the lane has, or had, a progress thread.
    served: [AtomicBool; 2],
    /// The number of progress threads that have not stopped.
    pub(super) serving: AtomicU32,
    lock: Mutex<()>,
    left: Condvar,
}

/// Counts a blocking call until it is dropped.
pub(super) struct CallerGuard<'c>(&'c Callers);

impl Callers {
    pub(super) fn enter(&self) -> CallerGuard<'_> {
        // Relaxed: shows the progress thread that callers poll, and decides only how long the
        // thread leaves the polling to them.
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Relaxed: a thread that misses the increment polls once more in parallel with the caller.
        self.inside.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the lock orders the time.
        if self.expected.load(Ordering::Relaxed) {
            self.note_begin();
        }
        CallerGuard(self)
    }

    /// Notes that the lane gets a progress thread.
    pub(super) fn serve(&self, lane: Lane) {
        // Relaxed: decides only whether calls poll.
        self.served[lane as usize].store(true, Ordering::Relaxed);
    }

    /// Whether the lane has, or had, a progress thread.
    pub(super) fn is_served(&self, lane: Lane) -> bool {
        // Relaxed: as in `serve`.
        self.served[lane as usize].load(Ordering::Relaxed)
    }

    /// Whether the progress thread of the lane sleeps until something arrives.
    pub(super) fn is_dozing(&self, lane: Lane) -> bool {
        // SeqCst: pairs with those in `serve`.
        self.dozing[lane as usize].load(Ordering::SeqCst)
    }

    /// Whether the progress thread of the lane sleeps, and had no answers to send before.
    pub(super) fn is_idle(&self, lane: Lane) -> bool {
        // SeqCst: pairs with those in `serve`. The thread sets `retrying` to false before it dozes,
        // so the value is not that of an earlier sleep.
        self.is_dozing(lane) && !self.retrying[lane as usize].load(Ordering::SeqCst)
    }

    /// Notes that the program has asked whether an operation is complete, by a call without a poll.
    pub(super) fn ask(&self) {
        // Relaxed both: any later poll takes the completion.
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
    }

    /// What a poll for `awaited` reports.
    #[inline]
    pub(super) fn reported(&self, awaited: Awaited) -> Awaited {
        // Relaxed both: as in `ask`.
        let is_asked = || self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed);
        if awaited == Awaited::Arrivals && !is_asked() { Awaited::Arrivals } else { Awaited::Completions }
    }

    #[cold]
    fn note_begin(&self) {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.get_or_insert_with(Instant::now);
        // Relaxed: the lock orders it.
        self.expected.store(false, Ordering::Relaxed);
    }

    /// When the first call began since this function was called before.
    fn first_call(&self) -> Option<Instant> {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: a call that misses it is not noted.
        self.expected.store(true, Ordering::Relaxed);
        began.take()
    }

    /// Waits until the last caller leaves, `wake` is called, or `limit` has passed. It does not
    /// wait if no caller is inside. It waits once: if new callers have entered by the time that the
    /// thread runs, calls are short, and the end of each would wake the thread again.
    fn wait_until_left(&self, stop: &AtomicBool, limit: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SeqCst: pairs with the SeqCst in `CallerGuard::drop`: either the caller sees the waiting
        // thread, or this thread sees that the caller has left.
        self.waiting.store(true, Ordering::SeqCst);
        // SeqCst: pairs with the SeqCst in `CallerGuard::drop`. Acquire: pairs with the Release in
        // `stop`, whose wake takes the lock.
        if self.inside.load(Ordering::SeqCst) > 0 && !stop.load(Ordering::Acquire) {
            // Whether the wait timed out does not matter, because the caller checks again.
            drop(self.left.wait_timeout(guard, limit));
        }
    }

    #[cold]
    pub(super) fn wake(&self) {
        // A waiting thread has either seen the change, or sleeps by the time that the lock is free.
        // One wake is enough for all that wait: a woken thread may need a while to get a core, and
        // the calls that end meanwhile need not wake it again. Relaxed: the lock orders the store.
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.store(false, Ordering::Relaxed);
        drop(guard);
        self.left.notify_all();
    }
}

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        // SeqCst both: pair with those in `wait_until_left`.
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.waiting.load(Ordering::SeqCst) {
            self.0.wake();
        }
    }
}

/// The progress thread: it sleeps until messages arrive, and does not poll while callers do.
pub(super) fn serve(wire: &Wire, lane: Lane, messages: &Messages, callers: &Callers, stop: &AtomicBool) {
    // The usual timer slack of 50 us would be longer than the shortest sleep; where it is refused,
    // that sleep takes twice as long.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
    let (mut seen, mut retry, mut rhythm) = (Seen::default(), RETRY, Rhythm::default());
    // Acquire: pairs with the Release in `stop`.
    while !stop.load(Ordering::Acquire) {
        // SeqCst for all: either a caller that leaves finds this thread asleep, or this thread
        // finds the answers that the caller has left to it.
        let doze = |asleep| callers.dozing[lane as usize].store(asleep, Ordering::SeqCst);
        if lane == Lane::Net {
            callers.first_call().into_iter().for_each(|began| rhythm.began(began));
        }
        let retries = |owing| callers.retrying[lane as usize].store(owing, Ordering::SeqCst);
        retries(false);
        doze(true);
        let owes = || messages.owes_answers() || messages.keeps_answers();
        let owing = owes();
        retries(owing);
        let limit = if owing { retry } else { IDLE };
        wire.wait_on(lane, rhythm.until_expected(Instant::now()).map_or(limit, |until| until.min(limit)));
        doze(false);
        if let (Some(rest), false) = (rhythm.rest_of_expected(Instant::now()), owing || owes()) {
            // Arrivals would only wake this thread at the beginning of the program's next calls,
            // and so delay them.
            std::thread::sleep(rest);
        }
        keep_away(callers, messages, &mut seen, stop, || wire.posts(lane));
        let (mut sent, mut came) = (0, 0);
        for _ in 0..ROUNDS {
            // This thread awaits no completion: a call that does so polls for it.
            let is_asked = lane == Lane::Net && callers.reported(Awaited::Arrivals) == Awaited::Completions;
            let polled = if is_asked { wire.poll(lane, messages) } else { wire.poll_arrivals(lane, messages) };
            let events = match polled {
                Ok(events) => events,
                Err(error) => {
                    diagnostics::error("transom::progress", &format!("the progress thread has stopped: {error:#}"));
                    return;
                }
            };
            // A caller that began to wait meanwhile may sleep although its event was processed
            // here. Relaxed: if it is missed, the caller's sleep is short.
            if events > 0 && callers.inside.load(Ordering::Relaxed) > 0 {
                wire.end_sleeps();
            }
            came += events;
            messages.stop_keeping_answers();
            sent += messages.send_deferred(|peer, bytes| wire.send(peer, bytes));
            if events < MANY {
                break;
            }
        }
        // This thread's own answers are posts too.
        seen.posts = wire.posts(lane);
        // New answers may wait in the queue behind answers to ranks that take none.
        retry = if sent + came == 0 && owing { longer(retry) } else { RETRY };
    }
}

/// The sleep after a sleep of `retry` in which no room appeared.
pub(super) fn longer(retry: Duration) -> Duration {
    (retry * 2).min(RETRY_MAX)
}

/// What the progress thread has seen of other threads: the number of calls, and `Port::posts`.
#[derive(Default)]
struct Seen {
    calls: u32,
    posts: u32,
}

/// The longest time for which the thread leaves polling to callers.
fn most_away(dense: bool) -> Duration {
    if dense { KEEP_AWAY_DENSE } else { KEEP_AWAY_MAX }
}

/// Returns when callers neither poll nor post. While short calls follow each other, the thread
/// sleeps between checks, because otherwise the end of each call would wake it; the end of a long
/// call wakes it. Threads that post without polling keep it away for a limited time.
fn keep_away(callers: &Callers, messages: &Messages, seen: &mut Seen, stop: &AtomicBool, posts: impl Fn() -> u32) {
    let (mut nap, mut slept, mut posting, mut streams) = (KEEP_AWAY, IDLE, Duration::ZERO, false);
    // Acquire: pairs with the Release in `stop`.
    while !stop.load(Ordering::Acquire) {
        // Relaxed both: they show which callers poll, and order no other access.
        let (calls, inside) = (callers.calls.load(Ordering::Relaxed), callers.inside.load(Ordering::Relaxed));
        let now = Seen { calls, posts: posts() };
        let polls = calls != seen.calls || inside > 0;
        // A single call may have ended long ago: the thread then soon looks whether others follow.
        if inside > 0 || calls.wrapping_sub(seen.calls) > 1 {
            nap = nap.max(KEEP_AWAY_MAX);
        }
        // The next sleep is short if the last caller has left answers to this thread. A caller that
        // is inside sends them itself.
        let kept = inside == 0 && (messages.keeps_answers() || messages.owes_answers());
        let is_dense = |count: u32| DENSE * count.min(MANY_CALLS) >= slept;
        let posts_since = now.posts.wrapping_sub(seen.posts);
        streams = posts_since > FEW_POSTS || polls && streams;
        let most_posting = most_away(is_dense(posts_since));
        let posted = now.posts != seen.posts && !kept && posting < most_posting;
        if !polls && !posted {
            *seen = now;
            return;
        }
        let shortest = if streams { KEEP_AWAY_MAX } else { KEEP_AWAY };
        if calls == seen.calls && inside > 0 && nap >= KEEP_AWAY_MAX {
            callers.wait_until_left(stop, IDLE);
            // The next call or post may follow at once.
            if !messages.keeps_answers() && !messages.owes_answers() {
                std::thread::sleep(shortest);
            }
            slept = if streams { shortest } else { IDLE };
        } else {
            let most = most_away(inside > 0 || is_dense(calls.wrapping_sub(seen.calls).saturating_add(posts_since)));
            slept = match (kept, polls) {
                (true, _) => KEEP_AWAY,
                (false, true) => nap.min(most),
                (false, false) => posting.max(shortest).min(most_posting.saturating_sub(posting)),
            };
            std::thread::sleep(slept);
            nap = if kept { nap } else { (nap * 2).max(KEEP_AWAY_MAX).min(most) };
            posting = if polls { Duration::ZERO } else { posting + slept };
        }
        *seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin whose replies have found no room for long gets them soon after it has made room.
    #[test]
    fn replies_are_tried_again_soon_after_any_time_without_room() {
        let naps: Vec<_> = std::iter::successors(Some(RETRY), |&nap| Some(longer(nap))).take(20).collect();
        assert!(naps.is_sorted() && naps[1] == 2 * RETRY);
        assert_eq!(naps.last(), Some(&Duration::from_millis(16)));
    }
}
