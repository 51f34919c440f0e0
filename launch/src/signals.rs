//! Signals to the launcher as bytes, for a poll loop. Owns the registration; independent of what
//! the signals mean for a job.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::{RecvFlags, recv};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::low_level::{pipe, signal_name, unregister};

/// Signals that end the job.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Signals that are passed on to the ranks, whose programs decide on the effect. Batch systems send
/// some of them before a time limit, and shells those of job control.
const PASSED_ON: [i32; 5] = [SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP, SIGCONT];

/// Whether a watched signal is passed on to the ranks; the others end the job.
pub(super) fn is_passed_on(signal: i32) -> bool {
    PASSED_ON.contains(&signal)
}

/// One descriptor for each watched signal. Drop ends the watch; signal-hook leaves its handlers in
/// place, which then have no effect.
#[derive(Debug)]
pub(super) struct Signals {
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    signal: i32,
    arrived: UnixStream,
    id: SigId,
}

impl Signals {
    /// Watches the signals that end the job or are passed on, except those that this process
    /// inherited as ignored (`nohup`, `&`).
    pub(super) fn watch() -> io::Result<Self> {
        let ignored = ignored_signals();
        keep_statuses_of_children()?;
        let mut signals = Self { watched: Vec::new() };
        for signal in ENDING.into_iter().chain(PASSED_ON) {
            if ignored >> (signal - 1) & 1 == 1 {
                continue;
            }
            let (arrived, write) = UnixStream::pair()?;
            let id = pipe::register(signal, write)?;
            signals.watched.push(Watched { signal, arrived, id });
        }
        Ok(signals)
    }

    /// The descriptors to poll for input, in the order of [`take`](Self::take)'s index.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.watched.iter().map(|watched| watched.arrived.as_fd())
    }

    /// The signal at `index`, once for each arrival.
    pub(super) fn take(&self, index: usize) -> Option<i32> {
        let watched = &self.watched[index];
        match recv(&watched.arrived, &mut [0_u8][..], RecvFlags::DONTWAIT) {
            Ok((1.., _)) => Some(watched.signal),
            _ => None,
        }
    }

    /// Takes one arrival of this signal; false if there is none.
    pub(super) fn take_of(&self, signal: i32) -> bool {
        let index = self.watched.iter().position(|watched| watched.signal == signal);
        index.is_some_and(|index| self.take(index).is_some())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for watched in &self.watched {
            unregister(watched.id);
        }
    }
}

/// The name of `signal`, such as SIGKILL, or its number.
pub(super) fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// The ignored signals of this process, bit `n - 1` for signal `n`; empty where the system does not
/// tell.
fn ignored_signals() -> u64 {
    // The process's name in this file need not be UTF-8.
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// Ends the disposition to ignore SIGCHLD, which this process may have inherited: with it the
/// kernel reaps children itself, and their statuses are lost. Programs that are executed get the
/// default disposition.
pub(super) fn keep_statuses_of_children() -> io::Result<()> {
    if ignored_signals() >> (SIGCHLD - 1) & 1 == 1 {
        signal_hook::flag::register(SIGCHLD, Arc::default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Signals, name};
    use signal_hook::consts::SIGTERM;

    #[test]
    fn a_signal_arrives_once_for_each_time() {
        let signals = Signals::watch().unwrap();
        let term = signals.watched.iter().position(|watched| watched.signal == SIGTERM).unwrap();
        assert_eq!(signals.take(term), None);
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!([signals.take(term), signals.take(term), signals.take(term)], [Some(SIGTERM), Some(SIGTERM), None]);
    }

    #[test]
    fn names() {
        assert_eq!((name(9).as_str(), name(63).as_str()), ("SIGKILL", "signal 63"));
    }
}
