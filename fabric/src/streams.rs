//! Keeps descriptors of the library off the numbers 0, 1 and 2. A program that has closed a
//! standard stream may still write to the stream's number. The kernel gives the lowest free number
//! to the next descriptor, so the program's text would go into the file of that descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;

/// The lowest number that no standard stream has.
const FIRST: i32 = 3;

/// Duplicates a descriptor that has the number of a standard stream to a higher number. Returns
/// other descriptors as they are.
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

/// Opens `/dev/null` in place of each standard stream that is closed, as Rust programs do at start.
/// Other libraries may open descriptors that [`above_streams`] does not move.
pub fn fill_streams() {
    while let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        if null.as_raw_fd() >= FIRST {
            return;
        }
        // The descriptor stays open until the process ends.
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
