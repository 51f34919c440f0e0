//! The slots of operations in flight, each with the operation's record and a buffer. A fixed pool,
//! so that a post allocates no memory, and an empty pool is back-pressure.
//!
//! libfabric returns an operation's context pointer with the completion. The pointer is that of the
//! slot, whose first bytes the provider may use (FI_CONTEXT2). A slot belongs to its operation
//! until the operation completes.
//!
//! Most slots, the *common* ones, are taken without regard to the peer. When all of these are in
//! flight, each peer gets only a share of the other slots, the *reserve*. If no operation to one
//! peer completes, slots are therefore left for the other peers. The hot path keeps no count per
//! peer.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use transom_fabric::{Peer, PeerMap, Span, TallyRef, share};

use crate::endpoint::Registration;
use crate::notices::Line;

/// Padding after each buffer. If the buffers began at distances of a power of two, their first
/// bytes would compete for a few sets of each cache.
const STAGGER: usize = 64;
/// No slot.
const NONE: u32 = u32::MAX;

/// Length of a message's header: the sender's rank and the receiver's token.
pub(crate) const HEADER: usize = 16;

/// The record of an operation in flight: its peer, the tally to lower at the completion, and the
/// handling of the origin's bytes.
#[derive(Debug)]
pub(crate) struct Purpose {
    pub(crate) peer: Peer,
    /// The tally that counts the operation; `None` for messages, and for [`Local::Taken`].
    pub(crate) tally: Option<TallyRef>,
    pub(crate) local: Local,
}

/// The handling of the origin's bytes when the operation is over.
#[derive(Debug)]
pub(crate) enum Local {
    /// None is needed.
    Nothing,
    /// Copies bytes from this offset of the slot's buffer to the span.
    Result(usize, Span),
    /// Scatters the slot's buffer over these spans, one after another.
    Scattered(Box<[Span]>),
    /// None is needed. The put carries a notice, which the peer does not count if the put fails.
    Notice,
    /// Takes the word in the slot's buffer as the number of notices that a peer has taken.
    Taken(Arc<Line>),
    /// Ends the registration, which was made for this operation, and then drops the reference,
    /// which counts such operations.
    Registered(Registration, Arc<()>),
}

impl Local {
    /// Ends the registration that was made for this operation, if there is one. The caller does
    /// this before the tally falls, because the program may then unmap the buffer.
    pub(crate) fn end(self) {
        if let Local::Registered(registration, count) = self {
            drop((registration, count));
        }
    }
}

/// A slot. The address of its first field is the operation's context pointer.
#[repr(C)]
pub(crate) struct Slot {
    /// Reserved for the provider.
    context: UnsafeCell<[u64; 8]>,
    purpose: UnsafeCell<Option<Purpose>>,
    /// This slot's buffer, a part of the pool's allocation.
    buffer: NonNull<u8>,
}

/// The pool of slots.
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    /// The slot that was freed last, or [`NONE`]. It is taken first, because it is in the caches.
    last: AtomicU32,
    /// The other free slots that are not in the reserve.
    free: ArrayQueue<u32>,
    /// The number of common slots. Slots from this index on are the reserve.
    common: usize,
    reserve: Reserve,
    /// The allocation of all buffers.
    buffers: NonNull<u8>,
    layout: Layout,
}

/// The slots from which peers get shares.
struct Reserve {
    free: ArrayQueue<u32>,
    /// The number of the reserve's slots that a peer holds.
    held: PeerMap<(Peer, AtomicUsize)>,
}

// SAFETY: the thread that took a slot touches its cells first, then the thread that got the
// completion; the queue, and the provider between them, order the two.
unsafe impl Sync for Slots {}
// SAFETY: as for `Sync`; spans are used under the promises of the contract's callers.
unsafe impl Send for Slots {}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({} of {} free)", self.count_free(), self.slots.len())
    }
}

impl Slot {
    /// The context pointer of the operation.
    pub(crate) fn context(&self) -> *mut c_void {
        self.context.get().cast()
    }

    /// The buffer, which belongs to the provider while an operation uses it.
    pub(crate) fn buffer(&self) -> *mut u8 {
        self.buffer.as_ptr()
    }
}

impl Slots {
    /// A pool of `count` slots with buffers of `len` bytes each, a multiple of 8. The kernel
    /// supplies pages at first touch.
    pub(crate) fn new(count: u32, len: usize) -> Slots {
        Slots::with_reserve(count, 0, len)
    }

    /// [`Slots::new`] with `reserved` slots of `count` in the reserve.
    pub(crate) fn with_reserve(count: u32, reserved: u32, len: usize) -> Slots {
        assert!(count > 0 && len > 0 && len.is_multiple_of(8), "{count} slots of {len} bytes");
        let stride = len + STAGGER;
        let layout = Layout::array::<u64>(count as usize * stride / 8).expect("pools are small");
        // SAFETY: the layout is not empty.
        let buffers = unsafe { NonNull::new(alloc_zeroed(layout)) }.unwrap_or_else(|| handle_alloc_error(layout));
        let slots = (0..count as usize)
            .map(|index| Slot {
                context: UnsafeCell::new([0; 8]),
                purpose: UnsafeCell::new(None),
                // SAFETY: within the allocation of `count` times `stride` bytes.
                buffer: unsafe { buffers.add(index * stride) },
            })
            .collect();
        // The queues have room for all slots.
        let queue = |range: std::ops::Range<u32>| {
            let queue = ArrayQueue::new(range.len().max(1));
            range.for_each(|index| _ = queue.push(index));
            queue
        };
        let common = count - reserved;
        let reserve = Reserve { free: queue(common..count), held: PeerMap::new() };
        let (free, common) = (queue(0..common), common as usize);
        Slots { slots, last: AtomicU32::new(NONE), free, common, reserve, buffers, layout }
    }

    /// Lets operations on a peer take slots of the reserve.
    pub(crate) fn meet(&self, peer: Peer) {
        let met = self.reserve.held.get_or_try_insert(peer, || Ok((peer, AtomicUsize::new(0))));
        met.map_or_else(|never: std::convert::Infallible| match never {}, drop);
    }

    /// Takes a slot for an operation; `None` if all slots that the peer may take are in flight.
    pub(crate) fn take(&self, purpose: Purpose) -> Option<&Slot> {
        // Acquire: pairs with the Release in `give_back`.
        let last = self.last.swap(NONE, Ordering::Acquire);
        let index = match last {
            NONE => self.free.pop().or_else(|| self.reserve.take(purpose.peer))?,
            last => last,
        };
        let slot = &self.slots[index as usize];
        // SAFETY: the slot was free, so no other thread touches it until it is given back.
        unsafe { *slot.purpose.get() = Some(purpose) };
        Some(slot)
    }

    /// Whether a slot is free for an operation on a peer at the moment.
    pub(crate) fn has_free(&self, peer: Peer) -> bool {
        // Relaxed: other threads may take the slot before the caller does.
        self.last.load(Ordering::Relaxed) != NONE || !self.free.is_empty() || self.reserve.room(peer).is_some()
    }

    /// The number of free slots at the moment, without the reserve.
    pub(crate) fn count_free(&self) -> usize {
        // Relaxed: as in `has_free`.
        self.free.len() + usize::from(self.last.load(Ordering::Relaxed) != NONE)
    }

    /// Frees a slot whose operation completed or was never posted, and returns its purpose. A
    /// successful operation's result is copied to its destination. `None`: the slot was free.
    pub(crate) fn give_back(&self, slot: &Slot, success: bool) -> Option<Purpose> {
        // SAFETY: the operation is over, and only the thread that got its completion is here.
        let purpose = unsafe { (*slot.purpose.get()).take() };
        // A provider may report an operation twice, or one whose post it has refused.
        let purpose = purpose?;
        if let Local::Taken(line) = &purpose.local {
            // SAFETY: the operation is over, so the buffer, which is aligned to 8, is ours.
            line.read(success.then(|| unsafe { slot.buffer().cast::<u64>().read() }));
        }
        let (mut from, places) = match &purpose.local {
            Local::Result(from, to) if success => (*from, std::slice::from_ref(to)),
            Local::Scattered(places) if success => (0, &**places),
            _ => (0, &[][..]),
        };
        for to in places {
            // SAFETY: the operation is over, so the buffer is ours, and the copied bytes are within
            // it (see `port`). The caller that requested the result promised that its buffers are
            // valid until the tally falls.
            unsafe { std::ptr::copy_nonoverlapping(slot.buffer().add(from), to.as_ptr(), to.len()) };
            from += to.len();
        }
        let index = self.index(slot);
        if index >= self.common {
            self.reserve.give_back(index, purpose.peer);
            return Some(purpose);
        }
        // The index is below 2^32 by `new`. Release: the thread that takes the slot sees that its
        // operation is over. Acquire: so does the thread that takes `before` from the queue.
        let before = self.last.swap(u32::try_from(index).unwrap_or(NONE), Ordering::AcqRel);
        if before != NONE {
            // A slot is in the queue at most once, so there is room.
            let _ = self.free.push(before);
        }
        Some(purpose)
    }

    /// The slot of a completion's context; `None` where the context belongs to no slot of this
    /// pool.
    pub(crate) fn of_context(&self, context: *mut c_void) -> Option<&Slot> {
        let offset = (context as usize).checked_sub(self.slots.as_ptr() as usize)?;
        self.slots.get(offset / size_of::<Slot>()).filter(|_| offset.is_multiple_of(size_of::<Slot>()))
    }

    /// Drops the records of operations in flight, and with them their registrations. libfabric
    /// requires that registrations are closed before their endpoint.
    pub(crate) fn abandon(&mut self) {
        for slot in &mut self.slots {
            *slot.purpose.get_mut() = None;
        }
    }

    /// Every slot.
    pub(crate) fn all(&self) -> &[Slot] {
        &self.slots
    }

    /// The address and the length in bytes of the allocation of all buffers.
    pub(crate) fn buffers(&self) -> (*const u8, usize) {
        (self.buffers.as_ptr(), self.layout.size())
    }

    /// The index of a slot of this pool.
    pub(crate) fn index(&self, slot: &Slot) -> usize {
        (std::ptr::from_ref(slot) as usize - self.slots.as_ptr() as usize) / size_of::<Slot>()
    }
}

impl Reserve {
    /// The count of slots that a peer holds, if the peer may take one more.
    fn room(&self, peer: Peer) -> Option<&AtomicUsize> {
        let (_, held) = self.held.get(peer)?;
        // Relaxed, as below: a count. Threads that take slots at the same time may exceed the share
        // by one each.
        share::allows(held.load(Ordering::Relaxed), self.free.len()).then_some(held)
    }

    /// Takes a slot for a peer, within the peer's share.
    #[cold]
    fn take(&self, peer: Peer) -> Option<u32> {
        let held = self.room(peer)?;
        let index = self.free.pop()?;
        held.fetch_add(1, Ordering::Relaxed);
        Some(index)
    }

    /// Frees a slot whose operation had this purpose.
    #[cold]
    fn give_back(&self, index: usize, peer: Peer) {
        if let Some((_, held)) = self.held.get(peer) {
            held.fetch_sub(1, Ordering::Relaxed);
        }
        // A slot is in the queue at most once, so there is room. The index is below 2^32 by `new`.
        let _ = self.free.push(u32::try_from(index).unwrap_or(NONE));
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; the pool's owner has closed the endpoint
        // that used it.
        unsafe { dealloc(self.buffers.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(rank: u32) -> Purpose {
        Purpose { peer: Peer(rank), tally: None, local: Local::Nothing }
    }

    #[test]
    fn all_slots_are_free_again_in_whatever_order_they_are_given_back() {
        let slots = Slots::new(3, 64);
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let taken: Vec<_> = (0..3).map(|rank| slots.take(purpose(rank)).expect("free")).collect();
            assert!(slots.take(purpose(9)).is_none() && !slots.has_free(Peer(9)));
            for index in order {
                let given = slots.give_back(taken[index], true).map(|purpose| purpose.peer.index());
                assert!(given == Some(index) && slots.has_free(Peer(9)));
                assert!(slots.give_back(taken[index], true).is_none(), "it was free");
            }
            assert_eq!(format!("{slots:?}"), "Slots(3 of 3 free)");
        }
    }

    /// Peers of which no operation completes hold all common slots and their shares of the reserve.
    /// An operation to another peer finds a slot.
    #[test]
    fn peers_of_which_nothing_completes_leave_slots_to_others() {
        let slots = Slots::with_reserve(64, 16, 64);
        (0..5).for_each(|peer| slots.meet(Peer(peer)));
        let fill = |peer| std::iter::from_fn(|| slots.take(purpose(peer))).collect::<Vec<_>>();
        let held: Vec<_> = (0..4).map(fill).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [48 + 8, 4, 2, 1]);
        assert!(!slots.has_free(Peer(0)) && slots.has_free(Peer(4)) && slots.take(purpose(9)).is_none());
        for _ in 0..100 {
            let slot = slots.take(purpose(4)).expect("left by the others");
            assert_eq!(slots.give_back(slot, true).map(|purpose| purpose.peer), Some(Peer(4)));
        }
        held.into_iter().flatten().for_each(|slot| drop(slots.give_back(slot, true)));
        assert_eq!(fill(4).len(), 48 + 8, "the shares are free again");
    }

    #[test]
    fn slots_are_limited_and_found_by_their_context() {
        let slots = Slots::new(2, 64);
        let first = slots.take(purpose(7)).expect("free");
        let second = slots.take(purpose(8)).expect("free");
        assert!(slots.take(purpose(9)).is_none());
        let found = slots.of_context(first.context()).expect("ours");
        assert_eq!(slots.give_back(found, true).map(|purpose| purpose.peer), Some(Peer(7)));
        let again = slots.take(purpose(9)).expect("the slot that was freed");
        assert!(std::ptr::eq(again, first) && slots.take(purpose(9)).is_none());
        assert!(slots.of_context(second.buffer().cast()).is_none());
        assert!(slots.of_context(std::ptr::null_mut()).is_none());
        assert_eq!(slots.buffers().1, 256);
        assert_eq!(second.buffer() as usize - first.buffer() as usize, 128);
    }
}
