//! What arrives: completions, messages, hellos and events of the device; and sleeping until something does.

use std::os::fd::AsFd;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use transom_fabric::{FabricError, Handler, Peer};

use crate::port::{MESSAGE, VerbsPort};
use crate::sys;
use crate::ticket::Ticket;

/// Completions taken at once.
const BATCH: usize = 32;
/// The longest sleep while a handshake is under way, which is repeated by time.
const OPENING_NAP: Duration = Duration::from_millis(5);

/// Completions that were taken from the queue and are not dealt with yet. Who has its lock makes progress.
#[derive(Default)]
pub(crate) struct Taken {
    entries: [sys::ibv_wc; BATCH],
    count: usize,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taken({})", self.count)
    }
}

impl VerbsPort {
    /// One round of progress; how many completions there were.
    pub(crate) fn take_all(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.release_held();
        if let Some(trouble) = self.trouble.get() {
            return Err(FabricError::failed(format!("{:?}", self.device), trouble));
        }
        // One at a time: completions of a link are told in their order.
        let mut taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        if taken.count == 0 {
            taken.count = self.queue.poll(&mut taken.entries)?;
        }
        let count = std::mem::take(&mut taken.count);
        let mut outcome = Ok(());
        for entry in &taken.entries[..count] {
            // None is left out: each is told once.
            outcome = outcome.and(self.completed(entry, handler));
        }
        if self.contacts.is_opening() {
            self.contacts.tick(&self.stock);
        }
        outcome.map(|()| count)
    }

    /// Posts what links hold.
    fn release_held(&self) {
        for link in self.stock.listed().filter_map(|peer| self.contacts.link(peer)) {
            link.release(&self.stock);
        }
    }

    fn completed(&self, entry: &sys::ibv_wc, handler: &impl Handler) -> Result<(), FabricError> {
        let success = entry.status == sys::IBV_WC_SUCCESS;
        match Ticket::decode(entry.wr_id) {
            Ticket::Request(peer, number) => {
                let Some(link) = self.contacts.link(peer) else { return Ok(()) };
                if success {
                    link.complete(number, None, &self.stock);
                } else {
                    let status = self.device.library.status(entry.status);
                    let (code, vendor) = (entry.status, entry.vendor_err);
                    let reason = format!("{status} (completion status {code}, vendor's {vendor:#x})");
                    link.complete(number, Some(&reason), &self.stock);
                }
            }
            Ticket::Message(buffer) => {
                if success {
                    let len = (entry.byte_len as usize).min(MESSAGE);
                    // SAFETY: the receive is complete and not posted again before this ends: nobody else has the buffer.
                    let bytes = unsafe { std::slice::from_raw_parts(self.messages.buffer(buffer), len) };
                    handler.message(Peer(u32::from_be(entry.imm_data)), bytes);
                }
                self.expect_message(buffer)?;
            }
            Ticket::Said(buffer) => self.contacts.greeter().said(buffer),
            Ticket::Heard(buffer) if success => {
                if let Some(hello) = self.contacts.greeter().heard(buffer, entry.byte_len as usize)? {
                    self.contacts.hear(&hello, &self.stock);
                }
            }
            Ticket::Heard(buffer) => self.contacts.greeter().listen(buffer)?,
        }
        Ok(())
    }

    /// Posts a receive for a message.
    pub(crate) fn expect_message(&self, buffer: u32) -> Result<(), FabricError> {
        // SAFETY: the buffer is the device's until its completion; the receives are closed before the buffers go.
        unsafe { self.receives.post(Ticket::Message(buffer).encode(), self.messages.element(buffer, MESSAGE)) }
    }

    /// Sleeps until there is something to take, a wake, or the limit.
    pub(crate) fn sleep(&self, limit: Duration) {
        self.release_held();
        if self.trouble.get().is_some() || !self.may_sleep() {
            return;
        }
        let limit = if self.contacts.is_opening() { limit.min(OPENING_NAP) } else { limit };
        let (events, wake) = (self.device.events(), self.wake.as_fd());
        let mut fds = [self.queue.as_fd(), wake, events].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = Timespec::try_from(limit).ok();
        // An interrupted poll is an early return, which is allowed.
        if rustix::event::poll(&mut fds, limit.as_ref()).is_err() {
            return;
        }
        let [queue, wake, events] = fds.map(|fd| !fd.revents().is_empty());
        if queue {
            self.queue.take_event();
        }
        if wake {
            // Empty by now where another thread took it.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        if events {
            self.take_events();
        }
    }

    /// Asks for an event at the next completion; `false` where there is something to take already.
    fn may_sleep(&self) -> bool {
        let mut taken: MutexGuard<'_, _> = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.count > 0 || self.queue.arm().is_err() {
            return false;
        }
        // What came before the queue was armed makes no event.
        match self.queue.poll(&mut taken.entries) {
            Ok(count) => {
                taken.count = count;
                count == 0
            }
            // `progress` will find it broken, too.
            Err(_) => false,
        }
    }

    /// Takes the device's asynchronous events.
    fn take_events(&self) {
        while let Some((event, peer)) = self.device.event() {
            let name = || self.device.library.event(event);
            match (event, peer) {
                (sys::IBV_EVENT_CQ_ERR | sys::IBV_EVENT_SRQ_ERR | sys::IBV_EVENT_DEVICE_FATAL, _) => {
                    // The first event tells what happened.
                    let _ = self.trouble.set(name());
                }
                (_, Some(peer)) => {
                    if let Some(link) = self.contacts.link(peer) {
                        link.give_up(&name(), &self.stock);
                    }
                }
                // A port that goes down shows by what does not complete, and may come back before that.
                _ => {}
            }
        }
    }
}
