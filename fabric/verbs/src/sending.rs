//! The requests of a connection in the order they were posted: what is kept of those in flight, and the newest one, which may
//! be written down and not posted yet. Why it is held: see `link`. Knows nothing of the connection's state.

use std::ffi::c_int;

use transom_fabric::{Peer, TallyRef};

use crate::pair::Pair;
use crate::stock::{Local, Record};
use crate::sys;
use crate::ticket::Ticket;

/// Bytes that a request carries itself, where the device can. As many as leave its place in the device's queue at 128 bytes
/// (mlx5), or 256 (Soft-RoCE).
pub(crate) const INLINE: u32 = 48;
/// Pieces of memory that a request names: their list takes no more room in its place than [`INLINE`].
pub(crate) const LIST: u32 = 3;
const _: () = assert!(LIST as usize * size_of::<sys::ibv_sge>() <= INLINE as usize);
/// Records of requests; one is always free, so that one less are in flight.
const RECORDS: u32 = 64;
/// Requests of one connection in flight at once.
pub(crate) const DEPTH: u32 = RECORDS - 1;
/// Of so many requests one is signaled at least, so that there is room again before all are used.
const SIGNAL_EVERY: u32 = RECORDS / 2;
/// The half of a number that the device is told.
const LOW: u64 = 0xffff_ffff;

/// A request to be posted.
pub(crate) struct Request<'b> {
    pub(crate) opcode: u32,
    pub(crate) target: sys::Target,
    /// A message's sender.
    pub(crate) immediate: u32,
    pub(crate) bytes: Bytes<'b>,
    /// It may wait for the next request or release.
    pub(crate) hold: bool,
    /// Counts the operation; `None` for messages.
    pub(crate) tally: Option<&'b TallyRef>,
    pub(crate) local: Local,
}

/// The local bytes of a request.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'b> {
    /// Carried by the request: at most what the device gave.
    Inline(&'b [u8]),
    /// Reached by the device.
    Element(sys::ibv_sge),
    /// So are these: [`LIST`] at most, one at least.
    List(&'b [sys::ibv_sge]),
}

/// What a link posted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Work requests given to the device.
    pub requests: u64,
    /// Those of them that asked for a completion.
    pub signaled: u64,
}

/// The requests of a connection.
pub(crate) struct Sending {
    records: Box<[Option<Record>; RECORDS as usize]>,
    /// The number of the next request; the device is told its low half.
    head: u64,
    /// The number of the first request for which there is no room: 0 where the connection does not stand.
    limit: u64,
    /// The number of the request before which there is something to see to: `limit`, or a request to be signaled.
    turn: u64,
    /// The number of the oldest request in flight.
    tail: u64,
    /// The number after the last signaled request.
    signaled: u64,
    /// How many were signaled.
    signals: u64,
    /// The newest request is written down below and not posted.
    held: bool,
    /// Somebody will call `release`.
    pub(crate) listed: bool,
    request: sys::ibv_send_wr,
    /// Where its bytes are, unless it carries them.
    list: [sys::ibv_sge; LIST as usize],
    /// Where they are, if it does: in `inline`.
    carried: sys::ibv_sge,
    inline: [u8; INLINE as usize],
}

// SAFETY: the pointers of the request lead to fields of this structure, which stays where it is once it is opened, and to objects
// that any thread may use.
unsafe impl Send for Sending {}

impl Sending {
    /// What the records take.
    pub(crate) const RECORDS_BYTES: usize = RECORDS as usize * size_of::<Option<Record>>();

    /// Of a connection to `peer`, which does not stand yet.
    pub(crate) fn new(peer: Peer) -> Sending {
        // SAFETY: numbers and null pointers.
        let mut request: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = Ticket::Request(peer, 0).encode();
        let nowhere = sys::ibv_sge { addr: 0, length: 0, lkey: 0 };
        Sending {
            records: Box::new([const { None }; RECORDS as usize]),
            head: 0,
            limit: 0,
            turn: 0,
            tail: 0,
            signaled: 0,
            signals: 0,
            held: false,
            listed: false,
            request,
            list: [nowhere; LIST as usize],
            carried: nowhere,
            inline: [0; INLINE as usize],
        }
    }

    /// The connection stands. From now on this structure stays where it is.
    pub(crate) fn open(&mut self) {
        self.carried.addr = self.inline.as_ptr() as u64;
        self.limit = self.tail + u64::from(DEPTH);
        self.plan();
    }

    /// It does not stand any more.
    pub(crate) fn close(&mut self) {
        self.limit = 0;
        self.plan();
    }

    fn plan(&mut self) {
        self.turn = self.limit.min(self.signaled + u64::from(SIGNAL_EVERY));
    }

    /// Whether one more may be in flight. Then what is held is ready to be posted before it: signaled, where it is time.
    #[inline(always)]
    pub(crate) fn has_room(&mut self) -> bool {
        self.head < self.turn || self.has_room_now()
    }

    #[cold]
    fn has_room_now(&mut self) -> bool {
        let room = self.head < self.limit;
        if room && self.held {
            self.signal();
        }
        room
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// What was posted so far.
    pub(crate) fn posted(&self) -> Posted {
        Posted { requests: self.head - u64::from(self.held), signaled: self.signals }
    }

    /// Writes the newest request down, where there is room and none is held.
    pub(crate) fn write(&mut self, request: Request<'_>) {
        self.request.imm_data = request.immediate;
        self.request.wr = request.target;
        match request.bytes {
            Bytes::Inline(bytes) => self.carry(bytes),
            Bytes::Element(element) => self.name(&[element]),
            Bytes::List(list) => self.name(list),
        }
        self.keep(request.opcode, Record { tally: request.tally.cloned(), local: request.local });
    }

    /// The same for a put whose bytes the request carries.
    #[inline(always)]
    pub(crate) fn write_carried(&mut self, to: sys::Rdma, bytes: &[u8], tally: &TallyRef) {
        self.request.wr.rdma = to;
        self.carry(bytes);
        self.keep(sys::IBV_WR_RDMA_WRITE, Record { tally: Some(tally.clone()), local: Local::Nothing });
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most LIST
    fn name(&mut self, list: &[sys::ibv_sge]) {
        self.list[..list.len()].copy_from_slice(list);
        self.request.sg_list = self.list.as_mut_ptr();
        self.request.num_sge = list.len() as c_int;
        self.request.send_flags = 0;
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // at most INLINE bytes
    fn carry(&mut self, bytes: &[u8]) {
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) => self.inline[..8].copy_from_slice(&word),
            Err(_) => self.inline[..bytes.len()].copy_from_slice(bytes),
        }
        self.carried.length = bytes.len() as u32;
        self.request.sg_list = &raw mut self.carried;
        self.request.num_sge = 1;
        self.request.send_flags = sys::IBV_SEND_INLINE;
    }

    #[inline(always)]
    fn keep(&mut self, opcode: u32, record: Record) {
        let number = self.head;
        self.head = number + 1;
        self.request.wr_id = self.request.wr_id & !LOW | number & LOW;
        self.request.opcode = opcode;
        // Its place is empty, which the compiler does not know: there is nothing to drop.
        std::mem::forget(self.record(number).replace(record));
        self.held = true;
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below RECORDS
    fn record(&mut self, number: u64) -> &mut Option<Record> {
        &mut self.records[(number % u64::from(RECORDS)) as usize]
    }

    /// Posts the held request.
    #[inline(always)]
    pub(crate) fn post(&mut self, pair: &Pair) -> Result<(), std::io::Error> {
        // SAFETY: the request is whole; inline bytes are copied; others stay until the record's completion: a block's by
        // being in use, the caller's by its promise.
        unsafe { pair.post(&mut self.request) }?;
        self.held = false;
        Ok(())
    }

    /// The held request is to tell of its completion.
    pub(crate) fn signal(&mut self) {
        // Nothing that is asked twice, where the request after it found no room, is counted twice.
        self.signals += u64::from(self.request.send_flags & sys::IBV_SEND_SIGNALED == 0);
        self.request.send_flags |= sys::IBV_SEND_SIGNALED;
        // Before it is posted: where that fails, nothing more is.
        self.signaled = self.head;
        self.plan();
    }

    /// How many requests are over when the one with this low half of its number is: none where it is not in flight.
    #[allow(clippy::cast_possible_truncation)] // low halves
    pub(crate) fn over(&self, number: u32) -> u32 {
        let count = number.wrapping_sub(self.tail as u32).wrapping_add(1);
        if u64::from(count) > self.head - self.tail { 0 } else { count }
    }

    /// Takes the oldest request out.
    pub(crate) fn oldest(&mut self) -> Option<Record> {
        let number = self.tail;
        self.tail = number + 1;
        if self.limit > 0 {
            self.limit += 1;
            self.plan();
        }
        self.record(number).take()
    }

    /// Takes the held request out, which will never be posted.
    pub(crate) fn take_held(&mut self) -> Option<Record> {
        if !std::mem::take(&mut self.held) {
            return None;
        }
        self.head -= 1;
        self.record(self.head).take()
    }
}
