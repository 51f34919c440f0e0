//! The pipe that wakes a rank from a sleep on a net's descriptors. The rank sleeps on the pipe too,
//! and a peer of the node ends the sleep by a write into the pipe. Each process has one descriptor
//! of the pipe, open for both directions, so that a write has a reader even after the owner has
//! ended. Must not know rings or sleeping threads.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::sync::OnceLock;

use rustix::fs::OFlags;
use transom_fabric::above_streams;

/// One process's descriptor of a rank's pipe.
#[derive(Debug)]
pub(crate) struct Pipe(File);

impl Pipe {
    /// A pipe of this process, and the location at which peers find it.
    pub(crate) fn create() -> io::Result<(Pipe, PipeLocation)> {
        let (reader, _writer) = io::pipe()?;
        let pipe = Pipe(open(&format!("/proc/self/fd/{}", reader.as_raw_fd()))?);
        let inode = pipe.0.metadata()?.ino();
        let place = PipeLocation { number: u64::from(pipe.0.as_raw_fd().cast_unsigned()), inode };
        Ok((pipe, place))
    }

    /// The pipe of process `pid`.
    ///
    /// # Errors
    /// The pipe can't be opened, or the descriptor is another file by now.
    pub(crate) fn of_process(pid: i32, place: PipeLocation) -> io::Result<Pipe> {
        let PipeLocation { number, inode } = place;
        let path = format!("/proc/{pid}/fd/{number}");
        // Another file is not opened, which may have effects.
        if std::fs::read_link(&path)?.to_str() != Some(&format!("pipe:[{inode}]")) {
            return Err(io::Error::other(format!("{path} is not pipe {inode}")));
        }
        open(&path).map(Pipe)
    }

    /// Makes the pipe readable.
    pub(crate) fn make_readable(&self) {
        // The write fails if the pipe is full; the pipe is then readable anyway.
        let _ = (&self.0).write(&[1]);
    }

    /// Empties the pipe.
    pub(crate) fn drain(&self) {
        // The read fails if the pipe is empty. Bytes that remain end one further sleep.
        let _ = (&self.0).read(&mut [0; 64]);
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A pipe that is made or opened at the first use, or at a later one if the system gives none then.
#[derive(Debug, Default)]
pub(crate) struct LazyPipe(OnceLock<Pipe>);

impl LazyPipe {
    /// The pipe. If there is none yet, `make` gives one, whose location `publish` gets.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn get(
        &self,
        make: impl FnOnce() -> io::Result<(Pipe, PipeLocation)>,
        publish: impl FnOnce(PipeLocation),
    ) -> io::Result<&Pipe> {
        if let Some(pipe) = self.0.get() {
            return Ok(pipe);
        }
        let (pipe, place) = make()?;
        // If another thread was faster, this pipe is closed.
        Ok(self.0.get_or_init(|| {
            publish(place);
            pipe
        }))
    }
}

/// The location of a pipe in its owner's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipeLocation {
    /// The descriptor's number.
    pub(crate) number: u64,
    pub(crate) inode: u64,
}

fn open(path: &str) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(path).and_then(above_streams)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Heap, HeapOptions, ShmDomain};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};
    use transom_fabric::{Domain as _, Peer, Port as _};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn another_file_is_not_opened() {
        let (pipe, place) = Pipe::create().expect("a pipe");
        let own = rustix::process::getpid().as_raw_pid();
        Pipe::of_process(own, place).expect("this process's").make_readable();
        assert_eq!((&pipe.0).read(&mut [0; 8]).expect("filled"), 1);
        let inode = place.inode + 1;
        assert!(Pipe::of_process(own, PipeLocation { inode, ..place }).is_err());
    }

    /// A process that has too many open files for a pipe gets the pipe after it has closed some.
    #[test]
    fn a_pipe_that_could_not_be_made_is_made_later() {
        let (lazy, mut places) = (LazyPipe::default(), Vec::new());
        let refused = lazy.get(|| Err(Errno::MFILE.into()), |_| panic!("no pipe")).expect_err("no pipe");
        assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        lazy.get(Pipe::create, |place| places.push(place)).expect("a pipe").make_readable();
        let own = rustix::process::getpid().as_raw_pid();
        let peer = Pipe::of_process(own, places[0]).expect("the place of that pipe");
        let same = lazy.get(|| panic!("there is one"), |_| panic!("it is published")).expect("a pipe");
        assert_eq!((&peer.0).read(&mut [0; 8]).expect("filled"), 1);
        same.drain();
    }

    /// Two threads sleep on the pipe and one on the ring: a wake ends all three sleeps.
    #[test]
    fn a_wake_ends_sleeps_on_the_pipe() {
        const ROUNDS: u32 = 200;
        let [a, b] = [0, 1].map(|rank| {
            let heap = Heap::create(HeapOptions::default()).expect("a heap");
            ShmDomain::new(heap, Peer(rank)).expect("a domain")
        });
        a.port().connect(Peer(1), &b.port().address()).expect("connected");
        let (round, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let timed_out = AtomicU32::new(0);
        let long = Timespec::try_from(LONG).expect("20 s");
        let sleep = |pipe: Option<BorrowedFd<'_>>| {
            let pipe = pipe.expect("a pipe");
            let ended = poll(&mut [PollFd::from_borrowed_fd(pipe, PollFlags::IN)], Some(&long)).expect("poll");
            timed_out.fetch_add(u32::from(ended == 0), Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for sleeper in 0..3 {
                let (round, done, b) = (&round, &done, &b);
                let sleep = &sleep;
                scope.spawn(move || {
                    for seen in 0..ROUNDS {
                        while round.load(Ordering::SeqCst) == seen {
                            let still_idle = || round.load(Ordering::SeqCst) == seen;
                            if sleeper == 2 {
                                b.port().wait_while(LONG, still_idle);
                            } else {
                                b.port().wait_on_descriptors(still_idle, sleep);
                            }
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let start = Instant::now();
            for next in 1..=ROUNDS {
                round.store(next, Ordering::SeqCst);
                a.port().wake_peer(Peer(1));
                while done.load(Ordering::SeqCst) < 3 * next && start.elapsed() < 3 * LONG {
                    thread::yield_now();
                }
            }
            assert!(start.elapsed() < LONG, "a sleep lasted to its limit");
        });
        assert_eq!(timed_out.load(Ordering::SeqCst), 0);
    }
}
