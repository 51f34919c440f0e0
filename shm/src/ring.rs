//! The message ring of a heap: bounded, many producers in any process of the node, one consumer at
//! a time.
//!
//! It is D. Vyukov's bounded queue with one consumer: a producer claims a position by moving the
//! tail, writes the cell, and publishes it by the cell's state. States count up from zero, so that
//! fresh memory is an empty ring: in lap `l` a cell is free at `2l` and full at `2l + 1`. All
//! references are offsets, because processes map the ring at different addresses. Must not know the
//! contents of messages.
//!
//! A known limit: a producer that is killed between claiming and publishing stalls the ring,
//! because the consumer can't know that no message will follow. The launcher ends a job after a
//! rank was killed, and this ends the stall.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use transom_fabric::{Memory, Row};

use crate::pipe::{LazyPipe, Pipe, PipeLocation};
use crate::word::{Word32, Word64, fence};

/// The longest message, in bytes.
pub(crate) const MESSAGE_MAX: usize = CELL - PAYLOAD_AT;

/// Number of pages of the heap before the ring.
pub(crate) const OFFSET_PAGES: u64 = 1;

/// The length of a ring in bytes.
pub(crate) const BYTES: u64 = (CELLS_AT + CELL * COUNT) as u64;

/// The number of messages that a ring holds: a power of two.
pub(crate) const COUNT: usize = 128;

// Bytes within the ring: words that different processes write are two cache lines apart (lines are
// prefetched in pairs), then the cells: state (u64), sender (u32), length (u32), payload.
const TAIL_AT: usize = 0;
const HEAD_AT: usize = 128;
const DOORBELL_AT: usize = 256;
const PIPE_AT: usize = 264;
const PIPE_INODE_AT: usize = 272;
const CELLS_AT: usize = 384;
const CELL: usize = 1088;
const SENDER_AT: usize = 8;
const LENGTH_AT: usize = 12;
const PAYLOAD_AT: usize = 16;

/// Bit of the doorbell: a thread sleeps on the word, or is about to.
const ON_FUTEX: u32 = 1;
/// Bit of the doorbell: a thread sleeps on descriptors, among them the owner's pipe, or is about
/// to.
const ON_PIPE: u32 = 2;
/// The bits of the doorbell for sleepers. The bits above count the wakes, so that a thread does not
/// fall asleep after a wake because another thread has announced a sleep since then.
const SLEEPERS: u32 = ON_FUTEX | ON_PIPE;

/// Whether a doorbell of this value has a thread that sleeps, or is about to.
#[inline]
pub(crate) fn has_sleepers(doorbell: u32) -> bool {
    doorbell & SLEEPERS != 0
}

/// Where a ring's words and cells are: in shared memory, or in a loom model.
pub(crate) trait RingMemory {
    type Position: Word64;
    type Doorbell: Word32;
    /// A power of two.
    fn count(&self) -> u64;
    /// The next position to claim.
    fn tail(&self) -> &Self::Position;
    /// The next position to take.
    fn head(&self) -> &Self::Position;
    fn doorbell(&self) -> &Self::Doorbell;
    /// Makes the owner's pipe readable.
    fn make_pipe_readable(&self);
    fn state(&self, cell: usize) -> &Self::Position;
    /// Writes the sender, the length and the bytes of a message into a free cell.
    fn write_message(&self, cell: usize, sender: u32, message: &[u8]);
    /// The sender and the length; the message is copied to the front of `into`.
    fn read_message(&self, cell: usize, into: &mut [u8]) -> (u32, usize);
}

/// A ring in the header of a heap.
#[derive(Clone, Debug)]
pub(crate) struct SharedRing {
    memory: Memory,
    /// The process of the owner.
    pid: i32,
    /// The owner's pipe.
    pipe: Arc<LazyPipe>,
}

/// Puts a message into the ring and wakes its consumer; `false` where the ring is full. Any thread
/// of any process.
pub(crate) fn send(ring: &impl RingMemory, sender: u32, message: &[u8]) -> bool {
    // Relaxed: an estimate; the cell's state shows whether it is right.
    let mut position = ring.tail().load(Ordering::Relaxed);
    let cell = loop {
        let (cell, free) = cell_of(ring, position);
        // Acquire: pairs with the Release in `receive` that frees the cell, so that the last
        // message was read before this one is written.
        let state = ring.state(cell).load(Ordering::Acquire);
        if state == free {
            // Relaxed: claims only; the cell's state publishes.
            match ring.tail().compare_exchange(position, position + 1, Ordering::Relaxed) {
                Ok(_) => break cell,
                Err(moved) => position = moved,
            }
        } else if state < free {
            return false;
        } else {
            position = ring.tail().load(Ordering::Relaxed);
        }
    };
    let (_, free) = cell_of(ring, position);
    ring.write_message(cell, sender, message);
    // Release: pairs with the Acquire in `receive`.
    ring.state(cell).store(free + 1, Ordering::Release);
    wake_sleepers(ring);
    true
}

/// Takes the next message to the front of `into` (at least [`MESSAGE_MAX`] bytes): its sender and
/// length. One thread at a time.
pub(crate) fn receive(ring: &impl RingMemory, into: &mut [u8]) -> Option<(u32, usize)> {
    // Relaxed: only consumers write it, one after the other under the caller's lock.
    let position = ring.head().load(Ordering::Relaxed);
    let (cell, free) = cell_of(ring, position);
    // Acquire: pairs with the Release in `send`, so that the message is whole.
    if ring.state(cell).load(Ordering::Acquire) != free + 1 {
        return None;
    }
    let taken = ring.read_message(cell, into);
    // Release: pairs with the Acquire in `send`: the cell was read before it is free for the next
    // lap.
    ring.state(cell).store(free + 2, Ordering::Release);
    // Relaxed: see above; a thread in `may_sleep` that reads an old value finds a cell that was
    // taken.
    ring.head().store(position + 1, Ordering::Relaxed);
    Some(taken)
}

/// Sleeps until a message arrives, a process calls [`wake_sleepers`], or `limit` has passed.
/// `still_idle` is called after the sleep was announced, and sees all stores before a wake. The
/// sleep may end early.
pub(crate) fn sleep(ring: &impl RingMemory, limit: Option<Duration>, still_idle: impl FnOnce() -> bool) {
    // Relaxed: the fence in `may_sleep` orders it.
    let doorbell = ring.doorbell().fetch_or(ON_FUTEX, Ordering::Relaxed) | ON_FUTEX;
    if may_sleep(ring, still_idle) {
        // If another thread begins to sleep elsewhere at that moment, this returns early.
        ring.doorbell().sleep(doorbell, limit);
    }
}

/// Announces a sleep on descriptors, which include the owner's pipe. The caller then calls
/// [`may_sleep`], and sleeps if it returns true. For the owner only.
pub(crate) fn announce_pipe_sleep(ring: &impl RingMemory) {
    // Release: pairs with the Acquire in `wake_announced`, so that the pipe's location is there.
    ring.doorbell().fetch_or(ON_PIPE, Ordering::Release);
}

/// Withdraws the announcement: the last thread that slept on descriptors has woken.
pub(crate) fn withdraw_pipe_sleep(ring: &impl RingMemory) {
    // Relaxed: a waker that reads an old value fills the pipe without a sleeper, which ends the
    // next sleep early.
    ring.doorbell().fetch_and(!ON_PIPE, Ordering::Relaxed);
}

/// Whether a waker has ended the announced sleeps on descriptors.
pub(crate) fn have_pipe_sleeps_ended(ring: &impl RingMemory) -> bool {
    // Relaxed: the pipe ends the sleeps themselves.
    ring.doorbell().load(Ordering::Relaxed) & ON_PIPE == 0
}

/// Whether the caller may sleep after it has announced the sleep: no message has arrived, and
/// `still_idle` returns true.
pub(crate) fn may_sleep(ring: &impl RingMemory, still_idle: impl FnOnce() -> bool) -> bool {
    // SeqCst: pairs with the fence in `wake_sleepers`. The sleeper announces its sleep, passes its
    // fence, and looks for a message. The sender publishes its message, passes its fence, and looks
    // at the doorbell. The two fences are ordered, and the thread of the later one sees what the
    // other thread wrote before its fence: either the sleeper sees the message, or the sender sees
    // the announcement. A wake after the sleeper's look changes the word that the futex compares,
    // or fills the pipe.
    fence(Ordering::SeqCst);
    let (cell, free) = cell_of(ring, ring.head().load(Ordering::Relaxed));
    // Relaxed: the message is taken by `receive`, which acquires. If another consumer has taken the
    // cell, the head is an old one, and a message may wait behind the cell.
    ring.state(cell).load(Ordering::Relaxed) == free && still_idle()
}

/// Wakes the threads that sleep on the ring. The caller has published its message before.
pub(crate) fn wake_sleepers(ring: &impl RingMemory) {
    // SeqCst: pairs with the fence in `may_sleep`.
    fence(Ordering::SeqCst);
    // Relaxed: ordered by the fence.
    if has_sleepers(ring.doorbell().load(Ordering::Relaxed)) {
        wake_announced(ring);
    }
}

/// Clears the bits of the sleepers in the doorbell, and wakes them.
#[cold]
pub(crate) fn wake_announced(ring: &impl RingMemory) {
    // Relaxed: the exchange below decides.
    let mut sleepers = ring.doorbell().load(Ordering::Relaxed);
    // If several threads wake the sleepers at the same time, one of them finds the bits set.
    while has_sleepers(sleepers) {
        // The bits are cleared, and the wake is counted. Acquire: pairs with the Release in
        // `announce_pipe_sleep`.
        match ring.doorbell().compare_exchange(sleepers, (sleepers | SLEEPERS).wrapping_add(1), Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => sleepers = now,
        }
    }
    if sleepers & ON_FUTEX != 0 {
        ring.doorbell().wake_all();
    }
    if sleepers & ON_PIPE != 0 {
        ring.make_pipe_readable();
    }
}

/// The cell of a position, and the state at which it is free for it.
fn cell_of(ring: &impl RingMemory, position: u64) -> (usize, u64) {
    let count = ring.count();
    #[allow(clippy::cast_possible_truncation)] // less than `count`, which is small
    let cell = (position & (count - 1)) as usize;
    (cell, position / count * 2)
}

impl SharedRing {
    /// The ring in the header, which begins at page 0, of a heap of process `pid`.
    pub(crate) fn in_header(header: &Memory, pid: i32) -> Option<SharedRing> {
        let page = rustix::param::page_size();
        let at = page * usize::try_from(OFFSET_PAGES).ok()?;
        let memory = header.slice(at, usize::try_from(BYTES).ok()?)?;
        Some(SharedRing { memory, pid, pipe: Arc::default() })
    }

    /// The doorbell as a row of one word.
    pub(crate) fn doorbell_word(&self) -> Option<Row<AtomicU32, 4, 1>> {
        Row::of(&self.memory, DOORBELL_AT)
    }

    /// The owner's pipe, for the owner.
    ///
    /// # Errors
    /// The system gives none now, for example because this process has too many open files.
    pub(crate) fn own_pipe(&self) -> io::Result<&Pipe> {
        self.pipe.get(Pipe::create, |place| {
            // Relaxed, twice: the Release in `announce_pipe_sleep` follows.
            self.memory.word64(PIPE_AT).store(place.number, Ordering::Relaxed);
            self.memory.word64(PIPE_INODE_AT).store(place.inode, Ordering::Relaxed);
        })
    }

    /// The owner's pipe, for a peer that has read that the owner sleeps on it. `None` where it
    /// can't be opened now.
    fn pipe_of_owner(&self) -> Option<&Pipe> {
        let open = || {
            // Relaxed, twice: the Acquire in `wake_announced` precedes.
            let number = self.memory.word64(PIPE_AT).load(Ordering::Relaxed);
            let inode = self.memory.word64(PIPE_INODE_AT).load(Ordering::Relaxed);
            let place = PipeLocation { number, inode };
            Ok((Pipe::of_process(self.pid, place)?, place))
        };
        self.pipe.get(open, |_| {}).ok()
    }

    fn cell_at(cell: usize) -> usize {
        CELLS_AT + cell * CELL
    }
}

impl RingMemory for SharedRing {
    type Position = AtomicU64;
    type Doorbell = AtomicU32;

    fn count(&self) -> u64 {
        COUNT as u64
    }

    fn tail(&self) -> &AtomicU64 {
        self.memory.word64(TAIL_AT)
    }

    fn head(&self) -> &AtomicU64 {
        self.memory.word64(HEAD_AT)
    }

    fn doorbell(&self) -> &AtomicU32 {
        self.memory.word32(DOORBELL_AT)
    }

    fn make_pipe_readable(&self) {
        // Where it can't be opened, the owner's sleep ends at its limit.
        if let Some(pipe) = self.pipe_of_owner() {
            pipe.make_readable();
        }
    }

    fn state(&self, cell: usize) -> &AtomicU64 {
        self.memory.word64(SharedRing::cell_at(cell))
    }

    fn write_message(&self, cell: usize, sender: u32, message: &[u8]) {
        let at = SharedRing::cell_at(cell);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        assert!(message.len() <= MESSAGE_MAX, "a message of {length} bytes");
        self.memory.write(at + SENDER_AT, &sender.to_ne_bytes());
        self.memory.write(at + LENGTH_AT, &length.to_ne_bytes());
        self.memory.write(at + PAYLOAD_AT, message);
    }

    fn read_message(&self, cell: usize, into: &mut [u8]) -> (u32, usize) {
        let at = SharedRing::cell_at(cell);
        let (mut sender, mut length) = ([0; 4], [0; 4]);
        self.memory.read(at + SENDER_AT, &mut sender);
        self.memory.read(at + LENGTH_AT, &mut length);
        // The values of another process are checked.
        let length = (u32::from_ne_bytes(length) as usize).min(MESSAGE_MAX);
        self.memory.read(at + PAYLOAD_AT, &mut into[..length]);
        (u32::from_ne_bytes(sender), length)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    fn ring() -> SharedRing {
        let bytes = usize::try_from(BYTES).expect("small") + rustix::param::page_size();
        SharedRing::in_header(&Memory::private(bytes), rustix::process::getpid().as_raw_pid()).expect("room for a ring")
    }

    #[test]
    fn a_full_ring_refuses_and_goes_on_after_the_first_is_taken() {
        let ring = ring();
        let mut buffer = [0; MESSAGE_MAX];
        for lap in 0..5u8 {
            for i in 0..COUNT {
                let message = vec![lap; i * 8];
                assert!(send(&ring, 3, &message), "message {i} of lap {lap}");
            }
            assert!(!send(&ring, 3, &[9]), "the ring is full");
            for i in 0..COUNT {
                assert_eq!(receive(&ring, &mut buffer), Some((3, i * 8)));
                assert!(buffer[..i * 8].iter().all(|&byte| byte == lap));
            }
            assert_eq!(receive(&ring, &mut buffer), None);
        }
    }

    /// Four producers, far more messages than cells: the messages of each producer arrive once,
    /// whole and in order.
    #[test]
    fn producers_keep_their_order_under_back_pressure() {
        const EACH: u64 = 2_000;
        let ring = ring();
        let producers: Vec<_> = (0..4)
            .map(|sender| {
                let ring = ring.clone();
                thread::spawn(move || {
                    let deadline = Instant::now() + LONG;
                    for number in 0..EACH {
                        while !send(&ring, sender, &number.to_ne_bytes()) {
                            assert!(Instant::now() < deadline, "stuck at {number}");
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let (mut next, mut buffer) = ([0; 4], [0; MESSAGE_MAX]);
        let deadline = Instant::now() + LONG;
        while next.iter().sum::<u64>() < 4 * EACH {
            assert!(Instant::now() < deadline, "arrived: {next:?}");
            let Some((sender, length)) = receive(&ring, &mut buffer) else {
                sleep(&ring, Some(Duration::from_millis(100)), || true);
                continue;
            };
            assert_eq!(length, 8);
            assert_eq!(buffer[..8], next[sender as usize].to_ne_bytes());
            next[sender as usize] += 1;
        }
        for producer in producers {
            producer.join().expect("no panic");
        }
        assert_eq!(next, [EACH; 4]);
        assert_eq!(receive(&ring, &mut buffer), None);
    }

    #[test]
    fn a_message_ends_a_sleep() {
        let ring = ring();
        let sender = {
            let ring = ring.clone();
            thread::spawn(move || {
                let deadline = Instant::now() + LONG;
                while !has_sleepers(ring.doorbell().load(Ordering::Relaxed)) && Instant::now() < deadline {
                    thread::yield_now();
                }
                send(&ring, 1, b"up")
            })
        };
        let start = Instant::now();
        let mut buffer = [0; MESSAGE_MAX];
        while receive(&ring, &mut buffer).is_none() {
            assert!(start.elapsed() < LONG, "slept through");
            sleep(&ring, Some(LONG), || true);
        }
        assert_eq!(&buffer[..2], b"up");
        assert!(sender.join().expect("no panic"));
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
