//! poll(2) for any number of descriptors. The kernel refuses a call with more descriptors than
//! `RLIMIT_NOFILE`, which a program may lower below the number of descriptors that are open.

use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The longest sleep between two polls where the kernel refuses to poll all descriptors at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits up to `limit` until a descriptor is ready. May return earlier, also if none is ready.
pub(super) fn poll_all(fds: &mut [PollFd<'_>], limit: Option<Duration>) {
    let whole = limit.and_then(|limit| Timespec::try_from(limit).ok());
    if let Ok(_) | Err(Errno::INTR) = poll(fds, whole.as_ref()) {
        return;
    }
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    // A part that the kernel refuses too, for lack of memory, has no ready descriptor yet.
    let ready: usize = fds.chunks_mut(most.max(1)).map(|part| poll(part, Some(&now)).unwrap_or(0)).sum();
    if ready == 0 {
        std::thread::sleep(limit.map_or(PAUSE, |limit| limit.min(PAUSE)));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Runs the test `name` in a process of its own, because the limit of descriptors holds for all
    /// threads; returns whether this is that process.
    pub(crate) fn is_alone(name: &str) -> bool {
        const ALONE: &str = "TRANSOM_TEST_ALONE";
        if std::env::var_os(ALONE).is_some() {
            return true;
        }
        let own = std::env::current_exe().expect("this program");
        let output = Command::new(own).args(["--exact", name, "--test-threads=1"]).env(ALONE, "1").output();
        let output = output.expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        false
    }

    /// Calls `body` under a limit of `most` descriptors.
    pub(crate) fn limited<T>(most: u64, body: impl FnOnce() -> T) -> T {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..before }).expect("a lower limit");
        let result = body();
        setrlimit(Resource::Nofile, before).expect("the limit of before");
        result
    }
}
