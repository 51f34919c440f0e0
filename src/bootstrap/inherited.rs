//! Takes ownership of the descriptor that the launcher left open in this process: the only place
//! that turns a number from the environment into an owned descriptor. Independent of the protocol.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};

/// Set by the first adoption that succeeds. A process inherits one connection to its launcher.
static ADOPTED: AtomicBool = AtomicBool::new(false);

/// The socket that the launcher left open under the number `raw`, now closed on exec so that
/// children of this rank do not hold it. A process can do this once.
///
/// # Errors
/// A number of a standard stream, of no open descriptor or of something other than a socket; a
/// second adoption.
pub(super) fn adopt_socket(raw: i32) -> io::Result<OwnedFd> {
    if raw < 3 {
        return Err(io::Error::other("descriptors 0 to 2 are the standard streams"));
    }
    let kind = fs::read_link(format!("/proc/self/fd/{raw}")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if !fs::exists("/proc/self").unwrap_or(false) => {
            io::Error::other("no /proc of this process's namespace is mounted")
        }
        io::ErrorKind::NotFound => io::Error::other(
            "the descriptor is not open; was this process started by a rank, whose environment it inherited?",
        ),
        _ => error,
    })?;
    if !kind.to_string_lossy().starts_with("socket:") {
        return Err(io::Error::other(format!("the descriptor is not a socket, but {}", kind.display())));
    }
    // Relaxed: the flag guards no other memory; the swap alone decides which caller is first.
    if ADOPTED.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("this process has taken the connection to its launcher already"));
    }
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. Open: checked above
    // through /proc, and only an owner closes a launcher's descriptor. No other owner: the number
    // comes from PMI_FD, by which the launcher passes the descriptor to this process, and ADOPTED
    // admits one caller in the lifetime of the process.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::adopt_socket;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    // One test, because adoption works once per process and a refusal must not use it up.
    #[test]
    fn only_an_open_socket_and_only_once() {
        let pipe = std::io::pipe().unwrap();
        for (raw, word) in [(0, "standard"), (1_000_000, "not open"), (pipe.0.as_raw_fd(), "not a socket")] {
            let error = adopt_socket(raw).unwrap_err().to_string();
            assert!(error.contains(word), "{raw}: {error}");
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let raw = ours.into_raw_fd();
        let fd = adopt_socket(raw).unwrap();
        assert_eq!(fd.as_raw_fd(), raw);
        assert_eq!(rustix::io::fcntl_getfd(&fd).unwrap(), rustix::io::FdFlags::CLOEXEC);
        assert!(adopt_socket(raw).unwrap_err().to_string().contains("already"));
    }
}
