//! Progress: handles completions, by which operations end and messages arrive, and posts receives
//! again. Sleeps until a completion arrives.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use transom_fabric::{FabricError, Fault, Handler, Peer, Wake, secret};

use crate::notices::Notices;
use crate::opened::{MESSAGE, Open};
use crate::pacing::Pacing;
use crate::slots::{Local, Purpose, Slot};
use crate::strangers::Strangers;
use crate::{rules, sys};

/// Completions read by one call.
const BATCH: usize = 32;
/// Longest sleep if no descriptor reports completions.
const NAP: Duration = Duration::from_micros(200);

/// The completion queue of an open endpoint, and the descriptors that end a sleep.
#[derive(Debug)]
pub(crate) struct Progress {
    /// For puts that carry notices; `None` if puts carry none. Declared before the endpoint,
    /// because fields drop in order.
    notices: Option<Notices>,
    open: Arc<Open>,
    /// The token that messages to this process must carry. Peers get it with the address, through
    /// the launcher; other processes can't.
    token: u64,
    strangers: Strangers,
    wake: Wake,
    /// The first peer to which a message could not be delivered.
    lost: OnceLock<Fault>,
    /// For connections that the kernel paces; `None` if it paces none.
    pacing: Option<Pacing>,
    /// The length of the completion queue.
    entries: usize,
}

impl Progress {
    /// The progress of rank `me` of `ranks`, with a completion queue of `entries`.
    pub(crate) fn new(open: Arc<Open>, me: Peer, ranks: usize, entries: usize) -> Result<Progress, FabricError> {
        let wake = Wake::new()?;
        let (token, strangers) = (secret::word()?, Strangers::new(me));
        let rules = rules::of(&open.endpoint.info().provider());
        let pacing = if rules.ip { open.endpoint.name().ok().and_then(|name| Pacing::new(&name)) } else { None };
        let share = open.endpoint.info().share();
        let notices = share.map(|share| Notices::new(&open.endpoint, me, (ranks, share), rules.entry())).transpose()?;
        Ok(Progress { open, token, strangers, wake, lost: OnceLock::new(), pacing, notices, entries })
    }

    /// The token for peers.
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// The first peer to which a message could not be delivered.
    pub(crate) fn lost(&self) -> Option<&Fault> {
        self.lost.get()
    }

    /// The looks for connections that the kernel paces; `None` if it paces none.
    #[inline(always)]
    pub(crate) fn pacing(&self) -> Option<&Pacing> {
        self.pacing.as_ref()
    }

    /// For puts that carry notices; `None` if puts carry none.
    #[inline(always)]
    pub(crate) fn notices(&self) -> Option<&Notices> {
        self.notices.as_ref()
    }

    /// Reads and handles completions; returns their number.
    pub(crate) fn poll(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        let Some(notices) = &self.notices else { return self.read(|entry| self.completed(entry, handler)) };
        let Some(_guard) = notices.try_take() else { return Ok(0) };
        self.read_with_data(notices, handler)
    }

    /// Hands all notices that have arrived to the handler, those included that another thread is
    /// taking.
    pub(crate) fn settle(&self, handler: &impl Handler) -> Result<(), FabricError> {
        let Some(notices) = &self.notices else { return Ok(()) };
        let _guard = notices.take();
        // After as many reads as the queue has entries, only completions are left that arrived
        // after the call began.
        for _ in 0..self.entries {
            if self.read_with_data(notices, handler)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads and handles completions of a queue whose entries have data.
    fn read_with_data(&self, notices: &Notices, handler: &impl Handler) -> Result<usize, FabricError> {
        self.read(|sys::fi_cq_data_entry { head, data, .. }| {
            if head.flags & sys::FI_REMOTE_CQ_DATA == 0 {
                self.completed(head, handler);
            } else if !notices.arrived(*data, handler) {
                self.strangers.report_refused("notice");
            }
        })
    }

    /// Reads completions as entries of the queue's format, and hands each to `handle`. Returns
    /// their number.
    #[inline]
    fn read<E: Copy>(&self, handle: impl Fn(&E)) -> Result<usize, FabricError> {
        let mut entries = [const { MaybeUninit::<E>::uninit() }; BATCH];
        let guard = self.open.endpoint.region_lock.lock();
        // SAFETY: an open queue of this format (see the callers), room for BATCH entries.
        let status = unsafe {
            let read = (*(*self.open.endpoint.cq).ops).read.expect("read");
            read(self.open.endpoint.cq, entries.as_mut_ptr().cast(), BATCH)
        };
        drop(guard);
        self.open.post_unposted();
        match usize::try_from(status) {
            Ok(count) => {
                for entry in &entries[..count.min(BATCH)] {
                    // SAFETY: the call has written the first `count` entries.
                    handle(unsafe { entry.assume_init_ref() });
                }
                Ok(count)
            }
            Err(_) if -status == sys::FI_EAGAIN => Ok(0),
            Err(_) if -status == sys::FI_EAVAIL => Ok(usize::from(self.failed())),
            Err(_) => Err(FabricError::failed("fi_cq_read", self.open.endpoint.library().strerror(status))),
        }
    }

    /// Sleeps until a completion may have arrived, `wake` is called, `other` is readable, or
    /// `limit` has passed, as
    /// [`Port::wait_with_descriptor`](transom_fabric::Port::wait_with_descriptor) does. Returns
    /// false if none of the first three has happened when the sleep ends.
    pub(crate) fn wait(
        &self,
        limit: Duration,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        if let Some(pacing) = &self.pacing {
            pacing.look();
        }
        let endpoint = &self.open.endpoint;
        let (queue, limit) = match endpoint.wait_fd().and_then(|queue| Some((queue, endpoint.may_sleep()?))) {
            Some((queue, true)) => (Some(queue), limit),
            Some((_, false)) => return true,
            None => (None, limit.min(NAP)),
        };
        let limit = || still_idle().then(|| self.open.sleep_limit(limit));
        !self.wake.sleep([queue, other, None], limit).passed
    }

    /// Ends the sleeps of all threads, or the next one.
    pub(crate) fn wake(&self) {
        self.wake.end_sleeps();
    }

    /// Handles a completion.
    fn completed(&self, entry: &sys::fi_cq_msg_entry, handler: &impl Handler) {
        if let Some(slot) = self.open.receives.of_context(entry.op_context) {
            self.arrived(slot, entry.len, handler);
            if !self.open.post_later(slot) {
                self.post_receive(slot);
            }
        } else if let Some(slot) = self.open.operations.of_context(entry.op_context) {
            if let Some(Purpose { tally: Some(tally), local, .. }) = self.open.operations.give_back(slot, true) {
                local.end();
                tally.finish();
            }
        } else if let Some(slot) = self.open.sends.slots.of_context(entry.op_context) {
            self.open.sends.give_back(slot);
        }
    }

    /// Posts a receive. If none is posted, ends the sleeps of threads.
    fn post_receive(&self, slot: &Slot) {
        if !self.open.post_receive(slot) {
            // A thread that began to sleep before relies on a message that would end its sleep.
            self.wake();
        }
    }

    /// Delivers the message of a completed receive.
    fn arrived(&self, slot: &Slot, len: usize, handler: &impl Handler) {
        // SAFETY: the receive is complete and is not posted again before this returns, so the
        // buffer has no other user.
        let bytes = unsafe { std::slice::from_raw_parts(slot.buffer(), len.min(MESSAGE)) };
        match split_header(bytes) {
            Some((from, token, message)) if token == self.token => handler.message(from, message),
            _ => self.strangers.report_refused("message"),
        }
    }

    /// Reads and handles one error completion. Returns false if the queue had announced one and had
    /// none. Otherwise a call that waits would count the announcement as progress, and never sleep.
    #[cold]
    fn failed(&self) -> bool {
        // SAFETY: an all-zero entry is valid (integers and null pointers), and offers no buffer for
        // error data.
        let mut entry: sys::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: an open queue; the entry is larger than any version writes.
        let status = unsafe {
            let read = (*(*self.open.endpoint.cq).ops).readerr.expect("readerr");
            read(self.open.endpoint.cq, &raw mut entry, 0)
        };
        if status != 1 {
            return false;
        }
        let reason = self.open.endpoint.library().strerror(entry.err as isize);
        let context = entry.op_context;
        let operation = self.open.operations.of_context(context);
        if let Some(purpose) = operation.and_then(|slot| self.open.operations.give_back(slot, false)) {
            let Purpose { peer, tally, local } = purpose;
            let fault = Fault::new(peer, reason);
            match &local {
                Local::Taken(line) => line.fail(fault.clone()),
                Local::Notice => self.notices.iter().for_each(|notices| notices.put_back(peer)),
                _ => {}
            }
            local.end();
            // The others are reads of the number of notices that a peer has taken.
            let Some(tally) = tally else { return true };
            self.open.sends.record_failure(peer, &fault);
            tally.fail(&fault);
        } else if let Some(slot) = self.open.sends.slots.of_context(context) {
            if let Some(peer) = self.open.sends.give_back(slot) {
                // Only the first fault is kept.
                let _ = self.lost.set(Fault::new(peer, reason));
            }
        } else if let Some(slot) = self.open.receives.of_context(context) {
            // The sender is unknown, and may be outside of the job, so no peer counts as lost.
            if entry.err != libc::ECANCELED {
                self.strangers.report_receive(&reason);
            }
            self.post_receive(slot);
        } else {
            self.strangers.report_failure(&reason);
        }
        true
    }
}

/// Splits a message into the header, which consists of the sender's rank and the receiver's token,
/// and the content.
fn split_header(bytes: &[u8]) -> Option<(Peer, u64, &[u8])> {
    let (rank, rest) = bytes.split_first_chunk::<8>()?;
    let (token, message) = rest.split_first_chunk()?;
    let rank = u32::try_from(u64::from_le_bytes(*rank)).ok()?;
    Some((Peer(rank), u64::from_le_bytes(*token), message))
}
