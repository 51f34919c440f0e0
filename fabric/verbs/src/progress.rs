//! Processes completions, messages, hellos and the device's events, and sleeps until one arrives.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use transom_fabric::{Awaited, Cause, FabricError, Handler, Immediate, Peer};

use crate::credits;
use crate::domain::COMPLETIONS;
use crate::library::LIBRARY;
use crate::link::Refused;
use crate::opened::{BATCH, Broken, Open, Polled};
use crate::queue::Events;
use crate::sys;
use crate::wr_id::{REFUSED, WrId};

/// The longest sleep during a handshake, because hellos are repeated after a time.
const OPENING_NAP: Duration = Duration::from_millis(5);

/// Counts a thread whose sleep every event ends ([`Events::All`]). The count ends with this value.
struct Watch<'o>(Option<&'o AtomicU32>);

impl<'o> Watch<'o> {
    fn begin(watching: &'o AtomicU32, events: Events) -> Watch<'o> {
        Watch::count(watching, events == Events::All)
    }

    /// Counts the thread in `count` if `counts`.
    fn count(count: &'o AtomicU32, counts: bool) -> Watch<'o> {
        let counted = counts.then_some(count);
        if let Some(count) = counted {
            // Relaxed: see `arm_for_sleep`, and `Resources::are_completions_awaited`.
            count.fetch_add(1, Ordering::Relaxed);
        }
        Watch(counted)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            // Relaxed: until it is seen, sleeps end by more events, and requests are signaled.
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Open {
    /// One round of progress; returns the number of completions.
    pub(crate) fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.release_held();
        if let Some(device_failure) = self.device_failure.get() {
            return Err(FabricError::failed(format!("{:?}", self.device), device_failure.clone()));
        }
        // One thread at a time: completions of a link are processed in their order.
        match self.polled.try_lock() {
            Ok(mut polled) => self.process(&mut polled, handler),
            Err(TryLockError::Poisoned(poisoned)) => self.process(&mut poisoned.into_inner(), handler),
            Err(TryLockError::WouldBlock) => Ok(0),
        }
    }

    /// Processes all completions that have arrived, those included that another thread is
    /// processing.
    pub(crate) fn settle(&self, handler: &impl Handler) -> Result<(), FabricError> {
        let mut polled = self.polled.lock().unwrap_or_else(PoisonError::into_inner);
        // After as many batches as the queue holds, only completions are left that arrived after
        // the call began.
        for _ in 0..=COMPLETIONS as usize / BATCH {
            // The first batch may be one that a thread polled before it went to sleep. It says
            // nothing about the queue.
            let polls = polled.count == 0;
            if self.process(&mut polled, handler)? < BATCH && polls {
                break;
            }
        }
        Ok(())
    }

    /// Processes a batch of completions; returns their number.
    fn process(&self, polled: &mut Polled, handler: &impl Handler) -> Result<usize, FabricError> {
        let Polled { entries, count, broken, due } = polled;
        let polls = *count == 0;
        if polls {
            // Taken before the poll, so that the poll finds all completions from before the links
            // broke.
            broken.extend(self.resources.take_broken().map(|peer| Broken { peer, reset: false }));
            *count = self.queue.poll(entries)?;
        }
        let count = std::mem::take(count);
        let mut outcome = Ok(());
        for entry in &entries[..count] {
            // Each completion is processed, also after an error, because the queue reports it once.
            outcome = outcome.and(self.completed(entry, handler, due));
        }
        if polls && count < BATCH && !broken.is_empty() {
            self.end_broken(broken);
        }
        if !due.is_empty() {
            due.retain(|&peer| self.renew_limit(peer));
            if !due.is_empty() {
                self.resources.await_room();
            }
        }
        if self.resources.flow.has_refused() {
            self.relieve();
        }
        if self.connections.is_opening() {
            self.connections.tick(&self.resources);
        }
        self.registrations.drop_removed();
        outcome.map(|()| count)
    }

    /// Takes the next step to end the requests of each broken link (see `link`). All completions
    /// from before the previous step were processed.
    #[cold]
    fn end_broken(&self, broken: &mut Vec<Broken>) {
        broken.retain_mut(|broken| {
            let Some(link) = self.connections.link(broken.peer) else { return false };
            if broken.reset {
                link.fail_in_flight(&self.resources);
            }
            if link.is_idle() {
                link.credits.end(&self.resources.flow);
                return false;
            }
            match link.pair.reset() {
                Ok(()) => broken.reset = true,
                // The device may go on using buffers of requests in flight, so these can't end.
                Err(error) => drop(self.device_failure.set(error.into())),
            }
            true
        });
    }

    /// Writes a peer's next limit to the peer; returns true if there is no room, so that the limit
    /// is still due.
    fn renew_limit(&self, peer: Peer) -> bool {
        let Some(link) = self.connections.link(peer) else { return false };
        link.renew(&self.resources) == Err(Refused::Again)
    }

    /// Ends the sleeps of threads whose messages found no credit and find it now; returns whether
    /// there are any.
    #[cold]
    fn relieve(&self) -> bool {
        let may_send = |peer| {
            let Some(link) = self.connections.link(peer) else { return true };
            let takes = link.takes_messages();
            if takes {
                link.credits.relieved();
            }
            takes
        };
        let relieved = self.resources.flow.relieve(may_send);
        if relieved {
            self.resources.wake.end_sleeps();
        }
        relieved
    }

    /// Has the device report the completions of all requests that were posted unsignaled.
    #[inline]
    pub(crate) fn request_completions(&self) {
        for link in self.resources.take_unsignaled().filter_map(|peer| self.connections.link(peer)) {
            link.request_completions(&self.resources);
        }
    }

    /// Posts the held requests of all links.
    fn release_held(&self) {
        for link in self.resources.take_held().filter_map(|peer| self.connections.link(peer)) {
            link.release(&self.resources);
        }
    }

    /// Processes a completion. Adds the message's sender to `due` if its next limit is due.
    fn completed(&self, entry: &sys::ibv_wc, handler: &impl Handler, due: &mut Vec<Peer>) -> Result<(), FabricError> {
        let success = entry.status == sys::IBV_WC_SUCCESS;
        match WrId::decode(entry.wr_id) {
            WrId::Request(peer, number) => {
                let Some(link) = self.connections.link(peer) else { return Ok(()) };
                self.resources.made_room();
                if success {
                    link.complete(number, None, &self.resources);
                } else {
                    let status = self.device.library.status_text(entry.status);
                    let (code, vendor) = (entry.status, entry.vendor_err);
                    let text = format!("{status} (completion status {code}, vendor's {vendor:#x})");
                    let reason = Cause::Library { library: LIBRARY, code: code.into(), text };
                    link.complete(number, Some(&reason), &self.resources);
                }
            }
            WrId::Message(buffer) if success && entry.opcode == sys::IBV_WC_RECV_RDMA_WITH_IMM => {
                let (link, number) = (self.connections.link_of_pair(entry.qp_num), u32::from_be(entry.imm_data));
                if let (Some(link), Some(immediate)) = (link, Immediate::new(number & !REFUSED)) {
                    handler.immediate(link.peer(), immediate);
                }
                self.inbox.post(buffer)?;
                if let Some(link) = link.filter(|link| link.credits.taken(number & REFUSED != 0, &self.resources.flow))
                {
                    due.push(link.peer());
                }
            }
            WrId::Message(buffer) if success => {
                let sender = u32::from_be(entry.imm_data);
                let (peer, was_refused) = (Peer(sender & !REFUSED), sender & REFUSED != 0);
                self.inbox.taken(buffer, entry.byte_len as usize, |bytes| handler.message(peer, bytes))?;
                // The message is counted after its receive was posted again.
                let link = self.connections.link(peer);
                if link.is_some_and(|link| link.credits.taken(was_refused, &self.resources.flow)) {
                    due.push(peer);
                }
            }
            WrId::Message(buffer) => self.inbox.post(buffer)?,
            WrId::HelloSent(buffer) => self.connections.datagrams().sent(buffer),
            WrId::HelloReceived(buffer) if success => {
                if let Some(hello) = self.connections.datagrams().received(buffer, entry.byte_len as usize)? {
                    self.connections.receive(&hello, &self.resources);
                }
            }
            WrId::HelloReceived(buffer) => self.connections.datagrams().post_receive(buffer)?,
        }
        Ok(())
    }

    /// Sleeps until one of these completions or an event of the device arrives, `wake` is called,
    /// `other` is readable, or `limit` has passed, as
    /// [`Port::wait_with_descriptor`](transom_fabric::Port::wait_with_descriptor) does. Returns
    /// false if the limit has passed.
    pub(crate) fn sleep(
        &self,
        limit: Duration,
        events: Events,
        awaited: Awaited,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        // Unsignaled puts may have the buffers for which a message waits, and cause no event.
        let wants_completions = awaited == Awaited::Completions || self.resources.awaits_room();
        let _awaits = Watch::count(&self.resources.awaiting, wants_completions);
        if wants_completions {
            // Pairs with the fence in `are_completions_awaited`: either this thread finds the link
            // of another thread's request listed, or the other thread has the request signaled.
            fence(Ordering::SeqCst);
            self.request_completions();
        }
        self.release_held();
        let relieved = self.resources.flow.has_refused() && self.relieve();
        if relieved || self.device_failure.get().is_some() {
            return true;
        }
        let limit = if self.connections.is_opening() { limit.min(OPENING_NAP) } else { limit };
        let limit = if self.resources.flow.has_refused() { limit.min(credits::NAP) } else { limit };
        let others = [Some(self.queue.as_fd()), Some(self.device.events()), other];
        let _watch = Watch::begin(&self.watching, events);
        // Armed after the sleep was announced, so that a thread that takes the event ends this
        // sleep too.
        let slept = self.resources.wake.sleep(others, || (still_idle() && self.arm_for_sleep()).then_some(limit));
        let [queue, device, _] = slept.readable;
        if queue {
            self.queue.take_event();
            // However many threads slept, the queue makes one event, and must then be armed again.
            self.resources.wake.end_other_sleeps();
        }
        if device {
            self.take_events();
        }
        !slept.passed
    }

    /// Arms the queue for an event at the next completion for which a thread sleeps. Returns false
    /// if the caller must not sleep: a completion is available, or requests of broken links are to
    /// be ended.
    fn arm_for_sleep(&self) -> bool {
        let mut polled: MutexGuard<'_, _> = self.polled.lock().unwrap_or_else(PoisonError::into_inner);
        // A device may keep only the newest request for an event, so this thread also asks for the
        // events of the other threads that sleep. Relaxed: a thread that is not counted yet arms
        // the queue later, under the lock. Limits and messages that found no room wait for
        // completions of requests, so all events are needed for them too.
        let waits_for_room = !polled.due.is_empty() || self.resources.awaits_room();
        let all = self.watching.load(Ordering::Relaxed) > 0 || waits_for_room;
        let events = if all { Events::All } else { Events::Solicited };
        if polled.count > 0 || !polled.broken.is_empty() || self.queue.arm(events).is_err() {
            return false;
        }
        // Completions from before the queue was armed make no event, so it is polled again.
        match self.queue.poll(&mut polled.entries) {
            Ok(count) => {
                polled.count = count;
                count == 0
            }
            // `progress` gets this error too, and reports it.
            Err(_) => false,
        }
    }

    /// Processes the device's asynchronous events.
    fn take_events(&self) {
        while let Some((event, peer)) = self.device.event() {
            let cause = || self.device.library.event_cause(event);
            match (event, peer) {
                (sys::IBV_EVENT_CQ_ERR | sys::IBV_EVENT_SRQ_ERR | sys::IBV_EVENT_DEVICE_FATAL, _) => {
                    // Only the first event is kept: it names the cause.
                    let _ = self.device_failure.set(cause());
                }
                (_, Some(peer)) => {
                    if let Some(link) = self.connections.link(peer) {
                        link.give_up(cause(), &self.resources);
                    }
                }
                // Failing operations show that a port went down; before that, the port may become
                // active again.
                _ => {}
            }
        }
    }
}
