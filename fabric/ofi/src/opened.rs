//! An open endpoint with its pools of slots: for operations, for messages sent, and for posted
//! receives.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use transom_fabric::{FabricError, Peer, diagnostics};

use crate::endpoint::{Endpoint, Registration};
use crate::offer::Offer;
use crate::sending::Sending;
use crate::slots::{Slot, Slots};
use crate::sys;

/// Most operations in flight.
const OPERATIONS: u32 = 1024;
/// Number of operations' slots in the reserve, of which each peer gets only a share.
const RESERVED: u32 = 256;
/// Longest inline or packed put, in bytes.
pub(crate) const PACKED: usize = 4096;
/// Most outgoing messages in flight.
const SENDS: u32 = 128;
/// Most posted receives, and so most messages that can arrive before `progress` takes them. The
/// buffers take 3 MiB.
const RECEIVES: u32 = 192;
/// Longest message in bytes, with its header: 16 KiB of data, a common size in programs, and the
/// request around the data.
pub(crate) const MESSAGE: usize = 16384 + 256;
/// Longest message for providers whose eager protocol ends at 16 KiB, such as `cxi`.
pub(crate) const EAGER: usize = 16384;

/// Largest number of receives that wait to be posted again by the next call of progress. Beyond it,
/// the call that takes a message posts the message's receive at once.
const LATER: usize = 8;

/// Time between two attempts to post receives while none is posted, so that no message ends a
/// sleep.
const RETRY: Duration = Duration::from_millis(1);

/// Settings of a port, which are known before the provider is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortSettings {
    /// Whether puts, gets and atomics complete while the target makes no call.
    pub(crate) passive: bool,
    /// Whether a probe has shown that the atomics do not work.
    pub(crate) atomics_fail: bool,
    /// This process's rank.
    pub(crate) rank: Peer,
    /// The number of ranks of the job.
    pub(crate) ranks: usize,
    /// Whether a wait sleeps on a descriptor, if the provider has one.
    pub(crate) descriptor: bool,
}

/// The endpoint and its buffers. Regions keep it, so that no memory that the provider uses is
/// freed. Fields drop in order: registrations, then the endpoint with the operations in flight,
/// then the buffers.
#[derive(Debug)]
pub(crate) struct Open {
    /// The registrations of the pools' buffers, in the order of [`Pool`]; `None` if the provider
    /// does not require registered origin buffers.
    local: Option<[Registration; 3]>,
    pub(crate) endpoint: Endpoint,
    pub(crate) operations: Slots,
    pub(crate) sends: Sending,
    pub(crate) receives: Slots,
    unposted: Unposted,
}

/// The receives that are not posted: the next progress posts those whose messages were taken, and
/// each progress tries to post those that the provider has refused.
#[derive(Debug)]
struct Unposted {
    /// The length of `slots`, readable without the lock.
    count: AtomicUsize,
    /// The slots of these receives, by index.
    slots: Mutex<Vec<usize>>,
    /// Whether a refusal was reported.
    reported: Once,
}

impl Unposted {
    /// Adds the receive of slot `index`, one of `all` receives. Returns whether no receive is
    /// posted any more.
    fn keep(&self, index: usize, all: usize) -> bool {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(index);
        // Relaxed: the count is a hint for threads without the lock (`Open::post_unposted`).
        self.count.store(slots.len(), Ordering::Relaxed);
        slots.len() == all
    }

    /// The longest sleep: `limit`, or less if none of the `all` receives is posted.
    fn sleep_limit(&self, limit: Duration, all: usize) -> Duration {
        // Relaxed: as in `post_unposted`.
        if self.count.load(Ordering::Relaxed) < all { limit } else { limit.min(RETRY) }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.operations.abandon();
    }
}

/// The pool to which a buffer belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pool {
    Operations,
    Sends,
    Receives,
}

impl Open {
    /// Makes the pools, registers them where the provider requires it, and posts the receives.
    pub(crate) fn new(endpoint: Endpoint, offer: &Offer) -> Result<Arc<Open>, FabricError> {
        let operations = Slots::with_reserve(OPERATIONS, RESERVED, PACKED);
        let most = u32::try_from(offer.receives).unwrap_or(RECEIVES).clamp(1, RECEIVES);
        let (sends, receives) = (Sending::new(SENDS, MESSAGE), Slots::new(most, MESSAGE));
        let local = match endpoint.registering().local {
            false => None,
            true => Some([
                register(&endpoint, &operations)?,
                register(&endpoint, &sends.slots)?,
                register(&endpoint, &receives)?,
            ]),
        };
        let unposted = Unposted { count: AtomicUsize::new(0), slots: Mutex::default(), reported: Once::new() };
        let open = Arc::new(Open { local, endpoint, operations, sends, receives, unposted });
        for slot in open.receives.all() {
            match open.try_receive(slot) {
                Ok(()) => {}
                // The result says whether sleeping threads must be woken, and no thread sleeps yet.
                Err(sys::FI_EAGAIN) => drop(open.keep_unposted(slot)),
                Err(code) => return Err(open.refused_receive(code)),
            }
        }
        Ok(open)
    }

    /// Whether the provider requires registered origin buffers.
    pub(crate) fn registers_origins(&self) -> bool {
        self.local.is_some()
    }

    /// The descriptor of a pool's buffers; null where the provider requires none.
    pub(crate) fn descriptor(&self, pool: Pool) -> *mut c_void {
        self.local.as_ref().map_or(std::ptr::null_mut(), |pools| pools[pool as usize].descriptor())
    }

    /// Posts a receive into a slot's buffer. If the provider refuses it,
    /// [`Open::post_unposted`] posts it later. Returns false if no receive is posted any more, so
    /// that threads that sleep must post one: no message will end their sleeps.
    #[must_use]
    pub(crate) fn post_receive(&self, slot: &Slot) -> bool {
        let Err(code) = self.try_receive(slot) else { return true };
        let is_last = self.keep_unposted(slot);
        if code != sys::FI_EAGAIN {
            self.unposted.reported.call_once(|| {
                let error = self.refused_receive(code);
                diagnostics::warn(
                    "transom::net",
                    &format!("posting a receive failed: {error:#}; it is tried again, without further reports"),
                );
            });
        }
        !is_last
    }

    /// Leaves the posting of a receive, whose message was taken, to the next progress, so that a
    /// call that waits for the message returns sooner. Returns false, without effect, if too few
    /// receives would remain posted.
    #[must_use]
    pub(crate) fn post_later(&self, slot: &Slot) -> bool {
        let all = self.receives.all().len();
        // Relaxed: a count. Threads that take messages at the same time may exceed it by one each.
        let may = all >= 4 * LATER && self.unposted.count.load(Ordering::Relaxed) < LATER;
        if may {
            // Most of the others are posted, so no sleep depends on this one.
            let _ = self.unposted.keep(self.receives.index(slot), all);
        }
        may
    }

    /// Posts the receives that are not posted. Called after a read of the completion queue, which a
    /// provider that has refused a receive may require first (man fi_msg, FI_EAGAIN).
    #[inline]
    pub(crate) fn post_unposted(&self) {
        // Relaxed: a thread that misses a slot posts it at its next progress.
        if self.unposted.count.load(Ordering::Relaxed) > 0 {
            self.try_unposted();
        }
    }

    /// The longest sleep: `limit`, or less if receives have to be posted after it.
    pub(crate) fn sleep_limit(&self, limit: Duration) -> Duration {
        self.unposted.sleep_limit(limit, self.receives.all().len())
    }

    #[inline(never)]
    fn try_unposted(&self) {
        let mut slots = self.unposted.slots.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(&index) = slots.last()
            && self.try_receive(&self.receives.all()[index]).is_ok()
        {
            slots.pop();
        }
        // Relaxed: as in `post_unposted`; the lock orders the slots.
        self.unposted.count.store(slots.len(), Ordering::Relaxed);
    }

    #[cold]
    fn keep_unposted(&self, slot: &Slot) -> bool {
        self.unposted.keep(self.receives.index(slot), self.receives.all().len())
    }

    /// Posts a receive, or returns the provider's code.
    fn try_receive(&self, slot: &Slot) -> Result<(), isize> {
        // A message may have waited for a receive. The provider then processes what arrived behind
        // it, operations on regions too.
        let _guard = self.endpoint.region_lock.lock();
        // SAFETY: the slot's buffer and context belong to the provider until the completion; the
        // pool lives as long as the endpoint is open (see Drop).
        let status = unsafe {
            let receive = (*(*self.endpoint.ep).msg).recv.expect("recv");
            receive(
                self.endpoint.ep,
                slot.buffer().cast(),
                MESSAGE,
                self.descriptor(Pool::Receives),
                u64::MAX,
                slot.context(),
            )
        };
        if status == 0 { Ok(()) } else { Err(-status) }
    }

    fn refused_receive(&self, code: isize) -> FabricError {
        FabricError::failed("fi_recv", self.endpoint.library().strerror(-code))
    }
}

fn register(endpoint: &Endpoint, slots: &Slots) -> Result<Registration, FabricError> {
    let (at, len) = slots.buffers();
    // SAFETY: the pool and its registration are fields of one `Open`, whose drop closes the
    // registration first.
    unsafe { endpoint.register_own(at, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call that keeps the last receive returns that no receive is posted.
    #[test]
    fn the_last_receive_is_noticed_each_time() {
        let unposted = Unposted { count: AtomicUsize::new(0), slots: Mutex::default(), reported: Once::new() };
        assert_eq!([0, 1, 2].map(|index| unposted.keep(index, 3)), [false, false, true]);
        unposted.slots.lock().expect("not poisoned").pop();
        assert!(unposted.keep(2, 3));
    }

    /// Without a posted receive nothing arrives, so that nothing would end a long sleep.
    #[test]
    fn a_sleep_without_a_posted_receive_is_short() {
        let sleep = |count| {
            let unposted = Unposted { count: AtomicUsize::new(count), slots: Mutex::default(), reported: Once::new() };
            [Duration::from_micros(3), Duration::from_millis(500)].map(|limit| unposted.sleep_limit(limit, 192))
        };
        assert_eq!(sleep(191), [Duration::from_micros(3), Duration::from_millis(500)]);
        assert_eq!(sleep(192), [Duration::from_micros(3), RETRY]);
    }
}
