//! The stand-in's net: operations in flight, and the state of each endpoint, all under one lock.
//! The order of execution is random.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, Memory, Span, Width};

use super::{EIO, ENOKEY, ENOSPC, FAST};

/// An endpoint of a process, identified by its number, which is its address.
pub(super) type Pid = usize;

#[derive(Default)]
pub(super) struct Net {
    pub(super) endpoints: BTreeMap<Pid, Port>,
    pub(super) underway: Vec<Posted>,
    pub(super) last: Pid,
    chance: u64,
}

/// An endpoint.
#[derive(Default)]
pub(super) struct Port {
    pub(super) enabled: bool,
    pub(super) regions: BTreeMap<u64, Region>,
    pub(super) done: VecDeque<Done>,
    /// Posted receives, and the messages that arrived before them.
    pub(super) receives: VecDeque<(usize, Span)>,
    pub(super) early: VecDeque<Vec<u8>>,
}

/// Memory under a key, usable once it is enabled.
pub(super) struct Region {
    pub(super) memory: Memory,
    pub(super) enabled: bool,
}

/// An entry of a completion queue.
pub(super) struct Done {
    pub(super) context: usize,
    pub(super) len: usize,
    pub(super) error: c_int,
}

pub(super) struct Posted {
    pub(super) origin: Pid,
    pub(super) target: Pid,
    pub(super) context: usize,
    pub(super) work: Work,
}

/// The place at the target, by offset.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) key: u64,
    pub(super) offset: u64,
    pub(super) len: usize,
}

pub(super) enum Work {
    Write(Span, Place),
    Read(Span, Place),
    Atomic(Amo, Span, Place),
    Send(Vec<u8>),
}

static NET: Mutex<Net> =
    Mutex::new(Net { endpoints: BTreeMap::new(), underway: Vec::new(), last: 0, chance: 0x9e37_79b9_7f4a_7c15 });

pub(super) fn net() -> MutexGuard<'static, Net> {
    NET.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// A number below `bound` (Marsaglia's xorshift).
    fn below(&mut self, bound: usize) -> usize {
        for shift in [13, -7, 17i32] {
            let x = self.chance;
            self.chance ^= if shift > 0 { x << shift } else { x >> -shift };
        }
        usize::try_from(self.chance >> 33).unwrap_or(0) % bound
    }

    pub(super) fn in_flight(&self, origin: Pid) -> usize {
        self.underway.iter().filter(|posted| posted.origin == origin).count()
    }

    /// Performs some of the posted operations of any endpoint.
    pub(super) fn step(&mut self) {
        for _ in 0..self.underway.len().min(8) {
            let at = self.below(self.underway.len());
            let posted = self.underway.swap_remove(at);
            let (origin, context) = (posted.origin, posted.context);
            let error = match self.perform(posted) {
                true => 0,
                false => EIO,
            };
            if let Some(port) = self.endpoints.get_mut(&origin) {
                port.done.push_back(Done { context, len: 0, error });
            }
        }
    }

    /// Whether the target permitted the operation.
    fn perform(&mut self, posted: Posted) -> bool {
        let Some(port) = self.endpoints.get_mut(&posted.target).filter(|port| port.enabled) else { return false };
        if let Work::Send(bytes) = posted.work {
            port.early.push_back(bytes);
            port.deliver();
            return true;
        }
        let (Work::Write(_, place) | Work::Read(_, place) | Work::Atomic(_, _, place)) = posted.work else {
            return false;
        };
        let found = port.regions.get(&place.key).filter(|region| region.enabled);
        let at = usize::try_from(place.offset).unwrap_or(usize::MAX);
        let Some(part) = found.and_then(|region| region.memory.slice(at, place.len)) else { return false };
        match posted.work {
            Work::Write(from, _) => {
                let mut bytes = vec![0; from.len()];
                // SAFETY: the origin keeps its buffer until the completion, which comes later.
                unsafe { from.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
                part.write(0, &bytes);
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
    /// Copies arrived messages into posted receives.
    pub(super) fn deliver(&mut self) {
        while !self.early.is_empty() && !self.receives.is_empty() {
            let (Some(bytes), Some((context, into))) = (self.early.pop_front(), self.receives.pop_front()) else {
                return;
            };
            let len = bytes.len().min(into.len());
            // SAFETY: a posted receive's buffer is the provider's until the completion.
            unsafe { into.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
            self.done.push_back(Done { context, len, error: 0 });
        }
    }

    /// Makes a region usable; the device may have no room for another fast one.
    pub(super) fn enable(&mut self, key: u64, memory: Memory) -> c_int {
        let fast = self.regions.keys().filter(|&&other| other < 100).count();
        if key < 100 && fast >= FAST {
            return -ENOSPC;
        }
        match self.regions.insert(key, Region { memory, enabled: true }) {
            None => 0,
            Some(_) => -ENOKEY,
        }
    }
}
