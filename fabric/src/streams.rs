//! The standard streams of a program that has closed one of them, and still writes to it. The
//! kernel gives the lowest free number to the next descriptor, and the program's text would go into
//! that descriptor's file. So no descriptor that stays open has a number of a standard stream.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;

/// The lowest number that no standard stream has.
const FIRST: i32 = 3;

/// The same file by a descriptor that is no standard stream. Other descriptors are returned as they
/// are.
///
/// # Errors
/// No descriptor is free.
pub fn above_streams<F: From<OwnedFd> + Into<OwnedFd>>(file: F) -> io::Result<F> {
    let fd: OwnedFd = file.into();
    if fd.as_raw_fd() >= FIRST {
        return Ok(F::from(fd));
    }
    Ok(F::from(fcntl_dupfd_cloexec(&fd, FIRST)?))
}

/// Opens `/dev/null` in place of each standard stream that is closed, as Rust's own programs do
/// when they start: the descriptors of libraries may not be above the streams.
pub fn fill_streams() {
    while let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        if null.as_raw_fd() >= FIRST {
            return;
        }
        // It stays open for the rest of the program.
        let _ = null.into_raw_fd();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    // The other case is in the test programs that close a stream: the tests have all of theirs.
    #[test]
    fn a_descriptor_above_the_streams_stays() {
        let file = File::open("/dev/null").expect("a descriptor is free");
        let number = file.as_raw_fd();
        let kept = above_streams(file).expect("no other is needed");
        assert!(number >= FIRST);
        assert_eq!(kept.as_raw_fd(), number);
    }
}
