//! Faults that a test causes in a net: a rank that takes no messages or can't be reached, and
//! progress that fails. The death of a rank is in `net`.

use std::thread::ThreadId;

use rustix::io::Errno;

use super::net::SimNet;
use crate::{FabricError, Fault, Peer, Reason};

/// The faults of one rank.
#[derive(Default)]
pub(super) struct Faults {
    /// Whether the rank takes no messages.
    pub(super) takes_no_messages: bool,
    /// The number of messages to the rank that are still taken, before all further ones answer
    /// `Broken`; `None`: all are taken.
    messages_until_broken: Option<u32>,
    /// The number of messages to the rank that are still taken, before the rank takes none, and the
    /// peer that the port of the first sender then reports as lost.
    messages_until_stopped: Option<(u32, Peer)>,
    /// The peer that the rank's port reports as lost, and the thread to which the port reports it;
    /// `None`: to all threads.
    lost: Option<(Peer, Option<ThreadId>)>,
    /// A thread, and the number of its next steps of progress that fail.
    failing_progress: Option<(ThreadId, u32)>,
}

impl Faults {
    /// The fault of a message to this rank, which is `to`. Counts the message.
    pub(super) fn of_message(&mut self, to: Peer) -> Option<Fault> {
        match &mut self.messages_until_broken {
            None => None,
            Some(0) => Some(Fault::new(to, Errno::NOMEM)),
            Some(left) => {
                *left -= 1;
                None
            }
        }
    }

    /// Counts a message to this rank. If the rank takes none from now on, returns the peer that the
    /// sender's port reports as lost.
    pub(super) fn stops_before_message(&mut self) -> Option<Peer> {
        match &mut self.messages_until_stopped {
            None => None,
            Some((0, lost)) => {
                let lost = *lost;
                self.messages_until_stopped = None;
                self.takes_no_messages = true;
                Some(lost)
            }
            Some((left, _)) => {
                *left -= 1;
                None
            }
        }
    }

    /// Reports a peer as lost to all threads.
    pub(super) fn lose(&mut self, peer: Peer) {
        self.lost = Some((peer, None));
    }

    /// Fails if the calling thread's step of progress is one that must fail.
    pub(super) fn of_progress(&mut self) -> Result<(), FabricError> {
        match &mut self.failing_progress {
            Some((thread, steps @ 1..)) if *thread == std::thread::current().id() => {
                *steps -= 1;
                Err(FabricError::failed("a step of the simulated net", Errno::NOMEM))
            }
            _ => Ok(()),
        }
    }
}

impl SimNet {
    /// A rank takes no messages from now on, as a stopped process. Messages to it answer `Again`,
    /// or stay in flight on a net with `SimDelivery::slots`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn stop_messages_to(&self, rank: Peer) {
        self.faults(rank, |faults| faults.takes_no_messages = true);
    }

    /// [`SimNet::stop_messages_to`] after the next `messages` attempts to send to the rank. The
    /// port of the rank whose attempt is the first to fail reports `lost` as lost, as after
    /// [`SimNet::report_lost`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn stop_messages_after(&self, rank: Peer, messages: u32, lost: Peer) {
        self.faults(rank, |faults| faults.messages_until_stopped = Some((messages, lost)));
    }

    /// Ends [`SimNet::stop_messages_to`] and [`SimNet::stop_messages_after`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn resume_messages_to(&self, rank: Peer) {
        self.faults(rank, |faults| {
            faults.takes_no_messages = false;
            faults.messages_until_stopped = None;
        });
    }

    /// Messages to a rank answer `Broken` from now on, as if the memory for a connection to it were
    /// lacking.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn break_connection_to(&self, rank: Peer) {
        self.break_connection_after(rank, 0);
    }

    /// [`SimNet::break_connection_to`] after the next `messages` attempts to send to the rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn break_connection_after(&self, rank: Peer, messages: u32) {
        self.faults(rank, |faults| faults.messages_until_broken = Some(messages));
    }

    /// Ends [`SimNet::break_connection_to`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn mend_connection_to(&self, rank: Peer) {
        self.faults(rank, |faults| faults.messages_until_broken = None);
    }

    /// The port of a rank reports a peer as lost from now on.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn report_lost(&self, rank: Peer, peer: Peer) {
        self.faults(rank, |faults| faults.lost = Some((peer, None)));
    }

    /// [`SimNet::report_lost`] for the calling thread alone: other threads of the rank learn of the
    /// loss later.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn report_lost_to_this_thread(&self, rank: Peer, peer: Peer) {
        self.faults(rank, |faults| faults.lost = Some((peer, Some(std::thread::current().id()))));
    }

    /// Ends [`SimNet::report_lost`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn report_none_lost(&self, rank: Peer) {
        self.faults(rank, |faults| faults.lost = None);
    }

    /// The peer that the port of a rank has lost.
    pub(super) fn lost(&self, rank: Peer) -> Option<Fault> {
        let mut lost = None;
        self.faults(rank, |faults| lost = faults.lost);
        let is_told = |thread: Option<ThreadId>| thread.is_none_or(|thread| thread == std::thread::current().id());
        lost.filter(|(_, thread)| is_told(*thread)).map(|(peer, _)| Fault::new(peer, Reason::NotConnected))
    }

    /// The next `steps` calls of a rank's progress in the calling thread are errors.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn fail_progress(&self, rank: Peer, steps: u32) {
        self.faults(rank, |faults| faults.failing_progress = Some((std::thread::current().id(), steps)));
    }
}
