//! Forwards a terminal's input to rank 0, from the poll loop. Used only where the launcher's
//! standard input is a terminal; rank 0 inherits every other input.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::tcgetpgrp;

/// The forwarding from the terminal to rank 0.
#[derive(Debug)]
pub(super) struct Input {
    /// Rank 0's standard input; `None` once either side is closed.
    pipe: Option<OwnedFd>,
    waiting: Vec<u8>,
}

impl Input {
    pub(super) fn new(pipe: Option<OwnedFd>) -> Self {
        let pipe = pipe.filter(|pipe| ioctl_fionbio(pipe, true).is_ok());
        Self { pipe, waiting: Vec::new() }
    }

    /// The descriptor to poll, and the events; `None` where no input can be forwarded now.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let pipe = self.pipe.as_ref()?;
        if !self.waiting.is_empty() {
            return Some((pipe.as_fd(), PollFlags::OUT));
        }
        in_foreground().then(|| (stdin(), PollFlags::IN))
    }

    /// Whether the terminal belongs to another process group now, so that it must be checked again
    /// later.
    pub(super) fn is_suspended(&self) -> bool {
        self.pipe.is_some() && self.waiting.is_empty() && !in_foreground()
    }

    /// Forwards the available input, after a poll found it ready.
    pub(super) fn forward(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        if self.waiting.is_empty() {
            let mut bytes = [0; 4096];
            match read(stdin(), &mut bytes) {
                Ok(got @ 1..) => self.waiting.extend_from_slice(&bytes[..got]),
                Err(Errno::INTR | Errno::AGAIN) => return,
                Ok(0) | Err(_) => {
                    self.pipe = None;
                    return;
                }
            }
        }
        match write(pipe, &self.waiting) {
            Ok(count) => drop(self.waiting.drain(..count)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.pipe = None,
        }
    }
}

/// Whether this process may read the terminal without being stopped.
fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}
