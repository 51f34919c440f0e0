//! The requests of a connection in the order of their posts: the records of those in flight, and
//! the newest request, which may be held (see `link`). Independent of the connection's state.

use std::ffi::c_int;

use transom_fabric::{Peer, TallyRef};

use crate::pair::Pair;
use crate::pool::Pools;
use crate::resources::{Local, Record};
use crate::sys;
use crate::wr_id::WrId;

/// Most inline bytes of a request: the largest number with which its entry in the device's queue
/// has 128 bytes (mlx5), or 256 (Soft-RoCE).
pub(crate) const INLINE: u32 = 48;
/// Most ranges of memory in one request: their list takes no more room in its entry than
/// [`INLINE`].
pub(crate) const LIST: u32 = 3;
const _: () = assert!(LIST as usize * size_of::<sys::ibv_sge>() <= INLINE as usize);
/// The number of records. One is always free, so [`DEPTH`] requests can be in flight.
const RECORDS: u32 = 64;
/// Most requests of one connection in flight.
pub(crate) const DEPTH: u32 = RECORDS - 1;
/// One of this many consecutive requests is signaled, so that room is freed in time.
const SIGNAL_EVERY: u32 = RECORDS / 2;
/// The low half of a request's number, which the device returns with the completion.
const LOW: u64 = 0xffff_ffff;

/// A request to be posted.
pub(crate) struct Request<'b> {
    pub(crate) opcode: u32,
    pub(crate) target: sys::Target,
    /// The immediate data of a message or put, in network byte order.
    pub(crate) immediate: u32,
    /// Whether the request wakes a thread at the target that sleeps until a solicited event.
    pub(crate) solicited: bool,
    pub(crate) bytes: Bytes<'b>,
    pub(crate) posting: Posting,
    /// The tally that counts the operation; `None` for messages and limits.
    pub(crate) tally: Option<&'b TallyRef>,
    pub(crate) local: Local,
}

/// When a request is posted, and whether it is signaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// Held until the next request or release.
    Held,
    /// Posted at once, signaled.
    Signaled,
    /// Posted at once, and signaled only if [`Sending::needs_signal`] says so, or if the link can't
    /// be listed.
    Unsignaled,
}

impl Posting {
    /// `small` for a request of few bytes. Larger ones are posted signaled, because their transfer
    /// time matters, and because their buffers are few.
    pub(crate) fn of(len: usize, small: Posting) -> Posting {
        if len <= Pools::SMALL { small } else { Posting::Signaled }
    }
}

/// The local bytes of a request.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'b> {
    /// Inline in the request: at most the length that the device allows.
    Inline(&'b [u8]),
    /// Accessed by the device.
    Element(sys::ibv_sge),
    /// Accessed by the device: 1 to [`LIST`] elements.
    List(&'b [sys::ibv_sge]),
}

/// Counts of a link's posts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Work requests posted to the device.
    pub requests: u64,
    /// Work requests that were signaled.
    pub signaled: u64,
}

/// The requests of a connection.
pub(crate) struct Sending {
    records: Box<[Option<Record>; RECORDS as usize]>,
    /// Number of the next request; the device gets the low half of the number.
    head: u64,
    /// First request for which there is no room; 0 where the connection is not open.
    limit: u64,
    /// First request that needs the slow path: the queue is full (`limit`), or it must be signaled.
    slow_from: u64,
    /// Number of the oldest request in flight.
    tail: u64,
    /// The number after that of the last signaled request.
    signaled: u64,
    /// Count of signaled requests.
    signals: u64,
    /// Whether the newest request is held: written in `request` and not posted.
    held: bool,
    /// Whether the link is listed, so that `progress` releases the held request.
    pub(crate) listed: bool,
    /// The number of [`Posting::Unsignaled`] requests since a thread last awaited completions. If
    /// it is above 0, the link is listed, so that `progress` asks for their completions.
    run: u64,
    /// The length of the previous run.
    last_run: u64,
    request: sys::ibv_send_wr,
    /// Scatter/gather elements of a request whose bytes are not inline.
    list: [sys::ibv_sge; LIST as usize],
    /// The element of a request with inline bytes, which points to `inline`.
    inline_element: sys::ibv_sge,
    inline: [u8; INLINE as usize],
}

// SAFETY: the request's pointers are those of fields of this structure, which does not move once it
// is open, and of objects that any thread may use.
unsafe impl Send for Sending {}

impl Sending {
    /// Memory of the records in bytes.
    pub(crate) const RECORDS_BYTES: usize = RECORDS as usize * size_of::<Option<Record>>();

    /// The requests of a connection to `peer` that is not open yet.
    pub(crate) fn new(peer: Peer) -> Sending {
        // SAFETY: all-zero numbers and null pointers are valid.
        let mut request: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = WrId::Request(peer, 0).encode();
        let nowhere = sys::ibv_sge { addr: 0, length: 0, lkey: 0 };
        Sending {
            records: Box::new([const { None }; RECORDS as usize]),
            head: 0,
            limit: 0,
            slow_from: 0,
            tail: 0,
            signaled: 0,
            signals: 0,
            held: false,
            listed: false,
            run: 0,
            last_run: 1,
            request,
            list: [nowhere; LIST as usize],
            inline_element: nowhere,
            inline: [0; INLINE as usize],
        }
    }

    /// The connection is open. From now on this structure must not move.
    pub(crate) fn open(&mut self) {
        self.inline_element.addr = self.inline.as_ptr() as u64;
        self.limit = self.tail + u64::from(DEPTH);
        self.update_slow_from();
    }

    /// The connection is closed: no request has room. A held request counts as in flight, because
    /// a device may have accepted it although its post failed.
    pub(crate) fn close(&mut self) {
        self.held = false;
        self.limit = 0;
        self.update_slow_from();
    }

    /// Updates `slow_from` after a change of `limit` or `signaled`.
    fn update_slow_from(&mut self) {
        self.slow_from = self.limit.min(self.signaled + u64::from(SIGNAL_EVERY));
    }

    /// Whether one more request may be in flight. If so, and if a signal is due, the held request
    /// is marked as signaled before it is posted.
    #[inline(always)]
    pub(crate) fn has_room(&mut self) -> bool {
        self.head < self.slow_from || self.has_room_slow()
    }

    #[cold]
    fn has_room_slow(&mut self) -> bool {
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

    /// The counts of posts so far.
    pub(crate) fn posted(&self) -> Posted {
        Posted { requests: self.head - u64::from(self.held), signaled: self.signals }
    }

    /// Writes a new request and holds it. There must be room, and no held request.
    pub(crate) fn write(&mut self, request: Request<'_>) {
        self.request.imm_data = request.immediate;
        self.request.wr = request.target;
        match request.bytes {
            Bytes::Inline(bytes) => self.set_inline(bytes),
            Bytes::Element(element) => self.set_elements(&[element]),
            Bytes::List(list) => self.set_elements(list),
        }
        if request.solicited {
            self.request.send_flags |= sys::IBV_SEND_SOLICITED;
        }
        self.hold(request.opcode, Record { tally: request.tally.cloned(), local: request.local });
    }

    /// [`Sending::write`] for a put whose bytes are inline in the request.
    #[inline(always)]
    pub(crate) fn write_inline(&mut self, to: sys::Rdma, bytes: &[u8], tally: &TallyRef) {
        self.request.wr.rdma = to;
        self.set_inline(bytes);
        self.hold(sys::IBV_WR_RDMA_WRITE, Record { tally: Some(tally.clone()), local: Local::Nothing });
    }

    /// Lets the request access the bytes of `list`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most LIST
    fn set_elements(&mut self, list: &[sys::ibv_sge]) {
        self.list[..list.len()].copy_from_slice(list);
        self.request.sg_list = self.list.as_mut_ptr();
        self.request.num_sge = list.len() as c_int;
        self.request.send_flags = 0;
    }

    /// Copies `bytes` for the request, which contains them inline.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // at most INLINE bytes
    fn set_inline(&mut self, bytes: &[u8]) {
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) => self.inline[..8].copy_from_slice(&word),
            Err(_) => self.inline[..bytes.len()].copy_from_slice(bytes),
        }
        self.inline_element.length = bytes.len() as u32;
        self.request.sg_list = &raw mut self.inline_element;
        self.request.num_sge = 1;
        self.request.send_flags = sys::IBV_SEND_INLINE;
    }

    /// Holds the written request: gives it its number, and stores its record.
    #[inline(always)]
    fn hold(&mut self, opcode: u32, record: Record) {
        let number = self.head;
        self.head = number + 1;
        self.request.wr_id = self.request.wr_id & !LOW | number & LOW;
        self.request.opcode = opcode;
        // The replaced record is `None`. The compiler does not know this and would add drop code.
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
        // SAFETY: the request is well-formed; inline bytes are copied. Other bytes stay until the
        // record's completion: a block's because it is in use, the caller's by its promise.
        unsafe { pair.post(&mut self.request) }?;
        self.held = false;
        Ok(())
    }

    /// Marks the held request as signaled.
    pub(crate) fn signal(&mut self) {
        // A request is counted once, although it is marked again if the next request found no room.
        self.signals += u64::from(self.request.send_flags & sys::IBV_SEND_SIGNALED == 0);
        self.request.send_flags |= sys::IBV_SEND_SIGNALED;
        // Set before the post. If the post fails, no later request is posted.
        self.signaled = self.head;
        self.update_slow_from();
    }

    /// Whether a run of requests has begun that need no signal each.
    pub(crate) fn is_in_run(&self) -> bool {
        self.run > 0
    }

    /// Counts the written request in the run, and returns whether the request must be signaled: its
    /// completion will probably be awaited, because the previous run was as long, or a signal is
    /// due. A request that takes the last room in the queue is signaled, so that an empty request
    /// always has room behind an unsignaled one.
    pub(crate) fn needs_signal(&mut self) -> bool {
        self.run += 1;
        let is_due = self.head - self.signaled >= u64::from(SIGNAL_EVERY);
        self.run == self.last_run || is_due || self.head >= self.limit
    }

    /// Ends the run.
    pub(crate) fn end_run(&mut self) {
        self.last_run = std::mem::take(&mut self.run);
    }

    /// Whether the newest request is posted and not signaled.
    pub(crate) fn is_unsignaled(&self) -> bool {
        !self.held && self.head > self.signaled
    }

    /// Writes a request without bytes, whose completion covers all requests before it, and holds
    /// it.
    pub(crate) fn write_empty(&mut self) {
        // The target remains that of the put before it.
        self.set_inline(&[]);
        self.hold(sys::IBV_WR_RDMA_WRITE, Record { tally: None, local: Local::Unreported });
    }

    /// The number of requests that end with the completion of the request whose number has this low
    /// half; 0 if that request is not in flight.
    #[allow(clippy::cast_possible_truncation)] // low halves
    pub(crate) fn ended_by(&self, number: u32) -> u32 {
        let count = number.wrapping_sub(self.tail as u32).wrapping_add(1);
        if u64::from(count) > self.head - self.tail { 0 } else { count }
    }

    /// The number of requests that were posted or are held.
    #[allow(clippy::cast_possible_truncation)] // at most DEPTH
    pub(crate) fn in_flight(&self) -> u32 {
        (self.head - self.tail) as u32
    }

    /// Removes the oldest request in flight, and returns its record.
    pub(crate) fn take_oldest(&mut self) -> Option<Record> {
        let number = self.tail;
        self.tail = number + 1;
        if self.limit > 0 {
            self.limit += 1;
            self.update_slow_from();
        }
        self.record(number).take()
    }
}
