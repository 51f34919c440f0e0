//! The stand-in's net: operations in flight, and the state of each endpoint, all under one lock.
//! The order of execution is random.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, Memory, Span, Width};
use transom_ofi::sys;

use super::model::{FAST, Model};
use super::{Data, EIO, ENOKEY, ENOSPC};

/// The entries of the queue of control events (man fi_cxi, `FI_UNIVERSE_SIZE`).
const EVENTS: usize = 256;
/// The reads of a queue after which a late entry is there.
const LATE: usize = 20;

/// The number of an endpoint or of a domain. An endpoint's address begins with its number.
pub(super) type Id = usize;

pub(super) struct Net {
    pub(super) endpoints: BTreeMap<Id, Port>,
    /// Usable memory and its rights, by its owner and key. The owner is an endpoint where regions
    /// are bound to endpoints, else a domain.
    regions: BTreeMap<(Id, u64), (Memory, u64)>,
    /// The memory of open regions and its rights, by their descriptors.
    descriptors: BTreeMap<usize, (Span, u64)>,
    /// Operations in flight, of all endpoints.
    pub(super) in_flight_operations: Vec<Posted>,
    /// The number that was given last.
    pub(super) last: Id,
    random_state: u64,
}

/// An endpoint.
pub(super) struct Port {
    model: &'static Model,
    domain: Id,
    /// Whether the endpoint's writes to a peer are performed in order.
    ordered: bool,
    /// The entries for which the completion queue has room.
    pub(super) room: usize,
    pub(super) enabled: bool,
    pub(super) done: VecDeque<Done>,
    /// What becomes of peers' writes with data.
    data: Data,
    /// Their entries until this endpoint's queue is read, each with the number of the first read
    /// that finds it.
    events: VecDeque<(usize, Done)>,
    /// The number of reads of the queue.
    reads: usize,
    /// Posted receives, and the messages that arrived before them.
    pub(super) receives: VecDeque<(usize, Span)>,
    pub(super) early: VecDeque<Vec<u8>>,
}

/// An entry of a completion queue.
pub(super) struct Done {
    pub(super) context: usize,
    pub(super) len: usize,
    pub(super) error: c_int,
    /// The data of a write by a peer; such an entry has no context.
    pub(super) data: Option<u64>,
}

pub(super) struct Posted {
    pub(super) origin: Id,
    pub(super) target: Id,
    pub(super) context: usize,
    pub(super) work: Work,
}

/// The place at the target, by offset or by the target's address.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) key: u64,
    pub(super) offset: u64,
    pub(super) len: usize,
}

pub(super) enum Work {
    /// With remote CQ data, if there is any.
    Write(Span, Place, Option<u64>),
    Read(Span, Place),
    Atomic(Amo, Span, Place),
    Send(Vec<u8>),
}

static NET: Mutex<Net> = Mutex::new(Net {
    endpoints: BTreeMap::new(),
    regions: BTreeMap::new(),
    descriptors: BTreeMap::new(),
    in_flight_operations: Vec::new(),
    last: 0,
    random_state: 0x9e37_79b9_7f4a_7c15,
});

pub(super) fn net() -> MutexGuard<'static, Net> {
    NET.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// A number below `bound` (Marsaglia's xorshift).
    fn below(&mut self, bound: usize) -> usize {
        for shift in [13, -7, 17i32] {
            let x = self.random_state;
            self.random_state ^= if shift > 0 { x << shift } else { x >> -shift };
        }
        usize::try_from(self.random_state >> 33).unwrap_or(0) % bound
    }

    pub(super) fn count_in_flight(&self, origin: Id) -> usize {
        self.in_flight_operations.iter().filter(|posted| posted.origin == origin).count()
    }

    /// A new number for an endpoint, a domain or a provider's key.
    pub(super) fn number(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// Opens an endpoint of a domain.
    pub(super) fn open(&mut self, model: &'static Model, domain: Id, ordered: bool, data: Data) -> Id {
        let (me, room, enabled, reads) = (self.number(), 0, false, 0);
        let (done, events, receives, early) = Default::default();
        let port = Port { model, domain, ordered, room, enabled, done, data, events, reads, receives, early };
        self.endpoints.insert(me, port);
        me
    }

    /// The number of usable regions of an owner.
    pub(super) fn regions_of(&self, owner: Id) -> usize {
        self.regions.range((owner, 0)..=(owner, u64::MAX)).count()
    }

    /// Makes a region usable; the device may have no room for another fast one.
    pub(super) fn enable(&mut self, model: &Model, owner: Id, key: u64, memory: (Memory, u64)) -> c_int {
        let fast = self.regions.range((owner, 0)..(owner, 100)).count();
        if model.few_fast && key < 100 && fast >= FAST {
            return -ENOSPC;
        }
        match self.regions.insert((owner, key), memory) {
            None => 0,
            Some(_) => -ENOKEY,
        }
    }

    pub(super) fn disable(&mut self, owner: Id, key: u64) {
        self.regions.remove(&(owner, key));
    }

    pub(super) fn describe(&mut self, descriptor: usize, memory: Span, access: u64) {
        self.descriptors.insert(descriptor, (memory, access));
    }

    pub(super) fn forget(&mut self, descriptor: usize) {
        self.descriptors.remove(&descriptor);
    }

    /// Whether a buffer may be used by the provider: without the mode of local registration, or
    /// under the descriptor of an open region that holds it and has the `right`.
    pub(super) fn may_use(&self, origin: Id, buffer: Span, descriptor: usize, right: u64) -> bool {
        let Some(port) = self.endpoints.get(&origin) else { return false };
        let holds = |(region, access): &(Span, u64)| {
            if access & right == 0 {
                return false;
            }
            let begin = region.as_ptr() as usize;
            let at = (buffer.as_ptr() as usize).wrapping_sub(begin);
            at <= region.len() && buffer.len() <= region.len() - at
        };
        !port.model.has(sys::FI_MR_LOCAL) || self.descriptors.get(&descriptor).is_some_and(holds)
    }

    /// Performs some of the posted operations, in a call of an endpoint: its own targets' and those
    /// that devices perform alone.
    pub(super) fn step(&mut self, caller: Id) {
        for _ in 0..self.in_flight_operations.len().min(8) {
            let any = self.below(self.in_flight_operations.len());
            let at = self.followed(any).unwrap_or(any);
            let target = self.in_flight_operations[at].target;
            let waits = |port: &Port| !port.model.passive && target != caller;
            if self.endpoints.get(&target).is_some_and(waits) {
                continue;
            }
            let posted = self.in_flight_operations.remove(at);
            let (origin, context) = (posted.origin, posted.context);
            let untouched = self.endpoints.get(&origin).is_none_or(|port| is_marked(port.model, context));
            let error = if self.perform(posted) && untouched { 0 } else { EIO };
            if let Some(port) = self.endpoints.get_mut(&origin) {
                port.push(Done { context, len: 0, error, data: None });
            }
        }
    }

    /// The first write for which an operation has to wait, if there is one.
    fn followed(&self, at: usize) -> Option<usize> {
        let later = &self.in_flight_operations[at];
        let earlier = |posted: &Posted| (posted.origin, posted.target) == (later.origin, later.target);
        let port = self.endpoints.get(&later.origin).filter(|port| port.ordered)?;
        let is_ordered =
            |posted: &Posted| matches!(posted.work, Work::Write(_, place, _) if place.len <= port.model.orders.1);
        let before = &self.in_flight_operations[..at];
        before.iter().position(|it| is_ordered(later) && earlier(it) && is_ordered(it))
    }

    /// Whether the target permitted the operation.
    fn perform(&mut self, posted: Posted) -> bool {
        let Some(port) = self.endpoints.get_mut(&posted.target).filter(|port| port.enabled) else { return false };
        if let Work::Send(bytes) = posted.work {
            port.early.push_back(bytes);
            port.deliver();
            return true;
        }
        let (Work::Write(_, place, _) | Work::Read(_, place) | Work::Atomic(_, _, place)) = posted.work else {
            return false;
        };
        let owner = if port.model.has(sys::FI_MR_ENDPOINT) { posted.target } else { port.domain };
        let Some((memory, access)) = self.regions.get(&(owner, place.key)) else { return false };
        let right = if matches!(posted.work, Work::Read(..)) { sys::FI_REMOTE_READ } else { sys::FI_REMOTE_WRITE };
        if access & right == 0 {
            return false;
        }
        let base = if port.model.has(sys::FI_MR_VIRT_ADDR) { memory.as_ptr() as u64 } else { 0 };
        let at = usize::try_from(place.offset.wrapping_sub(base)).unwrap_or(usize::MAX);
        let Some(part) = memory.slice(at, place.len) else { return false };
        match posted.work {
            Work::Write(from, _, data) => {
                let mut bytes = vec![0; from.len()];
                // SAFETY: the origin keeps its buffer until the completion, which comes later.
                unsafe { from.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
                part.write(0, &bytes);
                if data.is_some() {
                    port.report(Done { context: 0, len: bytes.len(), error: 0, data });
                }
            }
            Work::Read(into, _) => {
                let mut bytes = vec![0; into.len()];
                part.read(0, &mut bytes);
                // SAFETY: the origin keeps its buffer until the completion, which comes later.
                unsafe { into.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            Work::Atomic(amo, into, _) => {
                let old = device_atomic(&part, amo).to_ne_bytes();
                // SAFETY: the origin keeps its buffer until the completion. The value has the width
                // of the atomic, and its low half is first on little-endian machines.
                unsafe { into.as_ptr().copy_from_nonoverlapping(old.as_ptr(), amo.width.bytes()) };
            }
            Work::Send(_) => {}
        }
        true
    }
}

/// Overwrites the provider's part of an operation's context.
///
/// # Safety
/// The context has the room that the model demands, until the completion.
pub(super) unsafe fn mark(model: &Model, context: usize) {
    for word in 0..model.context {
        // SAFETY: the caller's promise.
        unsafe { (context as *mut usize).add(word).write_unaligned(context ^ word) };
    }
}

/// Whether the provider's part of a context has kept its value.
fn is_marked(model: &Model, context: usize) -> bool {
    // SAFETY: the operation is not complete, so that the context is valid.
    (0..model.context).all(|word| unsafe { (context as *const usize).add(word).read_unaligned() } == context ^ word)
}

/// An atomic by the device, not atomic with those of CPUs. The net's lock makes it atomic with
/// those of other devices.
fn device_atomic(memory: &Memory, amo: Amo) -> u64 {
    // Relaxed: a thread that sees the completion has taken the net's lock after this access.
    if amo.width == Width::W64 {
        let old = memory.word64(0).load(Ordering::Relaxed);
        memory.word64(0).store(amo.apply(old), Ordering::Relaxed);
        return old;
    }
    let old = memory.word32(0).load(Ordering::Relaxed);
    memory.word32(0).store(u32::try_from(amo.apply(u64::from(old))).unwrap_or(old), Ordering::Relaxed);
    u64::from(old)
}

impl Port {
    pub(super) fn model(&self) -> &'static Model {
        self.model
    }

    /// Adds an entry to the completion queue.
    fn push(&mut self, done: Done) {
        self.done.push_back(done);
        assert!(self.done.len() <= self.room, "the completion queue is overrun");
    }

    /// Adds the entry of a write with data to the queue of control events, or to a list that is as
    /// long as the completion queue.
    fn report(&mut self, done: Done) {
        let first = match self.data {
            Data::Refused | Data::Unreported => return,
            Data::Reported => 0,
            Data::Late => self.reads + LATE,
        };
        self.events.push_back((first, done));
        let room = if self.model.data.1 { EVENTS } else { self.room };
        assert!(self.events.len() <= room, "the queue of control events is overrun");
    }

    /// Moves control events to the completion queue, which the endpoint reads.
    pub(super) fn take_events(&mut self) {
        self.reads += 1;
        while self.events.front().is_some_and(|(first, _)| *first <= self.reads)
            && let Some((_, done)) = self.events.pop_front()
        {
            self.push(done);
        }
    }

    /// Copies arrived messages into posted receives.
    pub(super) fn deliver(&mut self) {
        while !self.early.is_empty() && !self.receives.is_empty() {
            let (Some(bytes), Some((context, into))) = (self.early.pop_front(), self.receives.pop_front()) else {
                return;
            };
            let len = bytes.len().min(into.len());
            let error = if is_marked(self.model, context) { 0 } else { EIO };
            // SAFETY: a posted receive's buffer is the provider's until the completion.
            unsafe { into.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
            self.push(Done { context, len, error, data: None });
        }
    }
}
