//! Faults that a test causes in a net: a rank that takes no messages or can't be reached, and
//! progress that fails.
//! The death of a rank is in `net`.

use std::thread::ThreadId;

use rustix::io::Errno;

use super::net::SimNet;
use crate::{FabricError, Fault, Peer, Reason};

/// The faults of one rank.
#[derive(Default)]
pub(super) struct Faults {
    /// Whether the rank takes no messages.
    pub(super) shut: bool,
    /// The number of messages to the rank until all further ones answer `Broken`; `None`: they are
    /// taken.
    cut: Option<u32>,
    /// The peer that the rank's port reports as lost, and the only thread to which it does.
    lost: Option<(Peer, Option<ThreadId>)>,
    /// A thread, and the number of its next steps of progress that fail.
    trips: Option<(ThreadId, u32)>,
}

impl Faults {
    /// The reason why a message to this rank, which is `to`, can't be sent.
    pub(super) fn of_message(&mut self, to: Peer) -> Option<Fault> {
        match &mut self.cut {
            None => None,
            Some(0) => Some(Fault::new(to, Errno::NOMEM)),
            Some(left) => {
                *left -= 1;
                None
            }
        }
    }

    /// The error of the calling thread's progress.
    pub(super) fn of_progress(&mut self) -> Result<(), FabricError> {
        match &mut self.trips {
            Some((thread, steps @ 1..)) if *thread == std::thread::current().id() => {
                *steps -= 1;
                Err(FabricError::failed("a step of the simulated net", Errno::NOMEM))
            }
            _ => Ok(()),
        }
    }
}

impl SimNet {
    /// A rank takes no messages from now on, as a stopped process, or takes messages again. Until
    /// then messages to it answer `Again`, or stay in flight on a net with `SimMail::slots`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn shut(&self, rank: Peer, shut: bool) {
        self.faults(rank, |faults| faults.shut = shut);
    }

    /// Messages to a rank answer `Broken` from now on, as if the memory for a connection to it were
    /// lacking, or are sent again.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn cut(&self, rank: Peer, cut: bool) {
        self.faults(rank, |faults| faults.cut = cut.then_some(0));
    }

    /// [`SimNet::cut`] after the next `messages` attempts to send to the rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn cut_after(&self, rank: Peer, messages: u32) {
        self.faults(rank, |faults| faults.cut = Some(messages));
    }

    /// The port of a rank reports a peer as lost from now on, or none.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn lose(&self, rank: Peer, peer: Option<Peer>) {
        self.faults(rank, |faults| faults.lost = peer.map(|peer| (peer, None)));
    }

    /// [`SimNet::lose`] for the calling thread alone: other threads of the rank learn of the loss
    /// later.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn lose_here(&self, rank: Peer, peer: Peer) {
        self.faults(rank, |faults| faults.lost = Some((peer, Some(std::thread::current().id()))));
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
    pub fn trip(&self, rank: Peer, steps: u32) {
        self.faults(rank, |faults| faults.trips = Some((std::thread::current().id(), steps)));
    }
}
