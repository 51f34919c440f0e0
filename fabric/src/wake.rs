//! Sleeps on descriptors that other threads of the process can end. An eventfd ends the sleeps.
//! Each sleeping thread polls the eventfd separately, so the eventfd must stay readable until all
//! threads that slept when it was written have ended their sleep. Must not know the other
//! descriptors.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{FabricError, above_streams, diagnostics};

/// The most descriptors on which a thread sleeps in addition to the eventfd.
const OTHERS: usize = 3;
/// The longest sleep that no event can end.
const BLIND: Duration = Duration::from_millis(1);

/// An eventfd on which threads of this process sleep, together with other descriptors.
#[derive(Debug)]
pub struct Wake {
    event: OwnedFd,
    sleepers: Mutex<Sleepers>,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// The number of threads that sleep or are about to sleep.
    count: u32,
    /// Whether one of these threads has found the eventfd readable.
    woken: bool,
}

/// How a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    /// Whether the time has passed and nothing else has happened.
    pub passed: bool,
    /// Which of the other descriptors are readable.
    pub readable: [bool; OTHERS],
}

impl Slept {
    /// The sleep ended early, for a reason that the caller finds by another poll.
    const EARLY: Slept = Slept { passed: false, readable: [false; OTHERS] };
}

impl Wake {
    /// A wake on which no thread sleeps yet.
    ///
    /// # Errors
    /// This process has too many open files.
    pub fn new() -> Result<Wake, FabricError> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)
            .and_then(above_streams)
            .map_err(|error| FabricError::failed("eventfd", error))?;
        Ok(Wake { event, sleepers: Mutex::default() })
    }

    /// Ends the sleeps of all threads; if no thread sleeps, the next sleep.
    pub fn end_sleeps(&self) {
        // The write fails only where 2^64 - 2 wakes are pending, and then the descriptor is
        // readable.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Ends the sleeps of the other threads, if any. Called by a thread that has woken and taken an
    /// event for which all threads slept: a thread that the kernel has not resumed yet would find
    /// no event, and sleep on.
    pub fn end_other_sleeps(&self) {
        if self.sleepers().count > 0 {
            self.end_sleeps();
        }
    }

    /// Sleeps until one of the descriptors is readable, [`Wake::end_sleeps`] is called, or the time
    /// that `limit` returns has passed; `None`: no sleep. `limit` is called after the sleep was
    /// announced: a change by another thread that calls [`Wake::end_sleeps`] afterwards is seen by
    /// `limit`, or ends the sleep.
    pub fn sleep(&self, others: [Option<BorrowedFd<'_>>; OTHERS], limit: impl FnOnce() -> Option<Duration>) -> Slept {
        let mut sleepers = self.sleepers();
        if sleepers.woken {
            // The woken threads have not left yet.
            return Slept::EARLY;
        }
        sleepers.count += 1;
        drop(sleepers);
        let slept = limit().map(|limit| self.poll(others, limit));
        let mut sleepers = self.sleepers();
        sleepers.count -= 1;
        sleepers.woken |= matches!(slept, Some((true, _)));
        if sleepers.count == 0 && std::mem::take(&mut sleepers.woken) {
            // The read can't fail: only the last thread reads a descriptor that was readable.
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
        slept.map_or(Slept::EARLY, |(_, slept)| slept)
    }

    /// Sleeps. Returns whether the eventfd is readable, and how the sleep has ended.
    fn poll(&self, others: [Option<BorrowedFd<'_>>; OTHERS], limit: Duration) -> (bool, Slept) {
        let wake = self.event.as_fd();
        // The eventfd takes the place of an absent descriptor.
        let [first, second, third] = others.map(|other| other.unwrap_or(wake));
        let mut fds = [first, second, third, wake].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // A time that is too long for the kernel means no limit.
        let ready = match rustix::event::poll(&mut fds, Timespec::try_from(limit).ok().as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INVAL) => return (false, sleep_without_descriptors(limit)),
            // An interrupted poll is an early end.
            Err(_) => return (false, Slept::EARLY),
        };
        let [first, second, third, woken] = fds.map(|fd| !fd.revents().is_empty());
        let mut readable = [first, second, third];
        for (readable, other) in readable.iter_mut().zip(others) {
            *readable &= other.is_some();
        }
        (woken, Slept { passed: ready == 0, readable })
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps where the kernel refuses to poll as many descriptors, because the program has lowered its
/// limit of open files (poll(2)). The sleep is short, as no event ends it.
#[cold]
fn sleep_without_descriptors(limit: Duration) -> Slept {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let limit = getrlimit(Resource::Nofile).current.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        let text = format!(
            "the limit of open files (RLIMIT_NOFILE) is {limit}, so waiting calls can't sleep until an event, and look \
             for events every millisecond: raise the limit to {} or more (ulimit -n)",
            OTHERS + 1
        );
        diagnostics::warn("transom::progress", &text);
    });
    std::thread::sleep(limit.min(BLIND));
    Slept { passed: limit <= BLIND, ..Slept::EARLY }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Instant;

    use rustix::process::{Rlimit, setrlimit};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Regression: of several threads that slept, the first one consumed the wake. Threads that are
    /// about to sleep when another thread wakes see the change, or are woken too.
    #[test]
    fn a_wake_ends_the_sleeps_of_all_threads() {
        const ROUNDS: u32 = 300;
        const THREADS: u32 = 3;
        let (wake, round, done, passed) =
            (Wake::new().expect("a descriptor"), AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for seen in 0..ROUNDS {
                        while round.load(Ordering::SeqCst) == seen {
                            let limit = || (round.load(Ordering::SeqCst) == seen).then_some(LONG);
                            passed.fetch_add(u32::from(wake.sleep([None; OTHERS], limit).passed), Ordering::SeqCst);
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let start = Instant::now();
            for next in 1..=ROUNDS {
                if next % 2 == 0 {
                    // Most threads sleep by now.
                    thread::sleep(Duration::from_micros(200));
                }
                round.store(next, Ordering::SeqCst);
                wake.end_sleeps();
                while done.load(Ordering::SeqCst) < THREADS * next && start.elapsed() < 3 * LONG {
                    thread::yield_now();
                }
            }
            assert!(start.elapsed() < LONG, "a sleep lasted to its limit");
        });
        assert_eq!(passed.load(Ordering::SeqCst), 0);
    }

    /// Regression: a program that had lowered its limit of open files made waiting calls occupy
    /// their CPU. The limit holds for the whole process, so a child of the test runs the body.
    #[test]
    fn a_limit_of_few_open_files_does_not_end_sleeps() {
        const CHILD: &str = "TRANSOM_TEST_FEW_FILES";
        if std::env::var_os(CHILD).is_none() {
            let name = "wake::tests::a_limit_of_few_open_files_does_not_end_sleeps";
            let mut child = std::process::Command::new(std::env::current_exe().expect("a path"));
            let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("it starts");
            let printed = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{printed}");
            assert!(printed.contains("RLIMIT_NOFILE) is 3") && printed.contains("ulimit -n"), "{printed}");
            return;
        }
        let wake = Wake::new().expect("a descriptor");
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).expect("a lower limit");
        assert_eq!(wake.sleep([None; OTHERS], || Some(BLIND)), Slept { passed: true, ..Slept::EARLY });
        assert_eq!(wake.sleep([None; OTHERS], || Some(LONG)), Slept::EARLY);
    }

    #[test]
    fn a_wake_before_a_sleep_ends_it_and_no_further_one() {
        let wake = Wake::new().expect("a descriptor");
        wake.end_sleeps();
        wake.end_sleeps();
        assert_eq!(wake.sleep([None; OTHERS], || Some(LONG)), Slept::EARLY);
        let short = Duration::from_millis(1);
        assert_eq!(wake.sleep([None; OTHERS], || Some(short)), Slept { passed: true, ..Slept::EARLY });
        assert_eq!(wake.sleep([None; OTHERS], || None), Slept::EARLY);
    }

    /// Regression: one of two threads took the event for which both slept, and the other slept on.
    #[test]
    fn the_thread_that_takes_an_event_ends_the_other_sleeps() {
        let (wake, event) = (Wake::new().expect("a descriptor"), Wake::new().expect("a descriptor"));
        wake.end_other_sleeps();
        let short = Duration::from_millis(1);
        assert!(wake.sleep([None; OTHERS], || Some(short)).passed, "a wake without a sleeper is none");
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| wake.sleep([Some(event.event.as_fd()), None, None], || Some(LONG)));
            while wake.sleepers().count == 0 {
                thread::yield_now();
            }
            // This thread has taken the event: the descriptor was never readable for the sleeper.
            wake.end_other_sleeps();
            assert_eq!(sleeper.join().expect("no panic"), Slept::EARLY);
        });
    }

    #[test]
    fn readable_descriptors_are_named() {
        let (wake, other) = (Wake::new().expect("a descriptor"), Wake::new().expect("a descriptor"));
        other.end_sleeps();
        let others = [None, Some(other.event.as_fd()), None];
        assert_eq!(wake.sleep(others, || Some(LONG)).readable, [false, true, false]);
        wake.end_sleeps();
        assert_eq!(wake.sleep(others, || Some(LONG)).readable, [false, true, false], "nor absent ones");
    }
}
