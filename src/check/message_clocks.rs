//! The clocks of messages that another library (an MPI) sends between ranks of the node. The sender
//! of a message writes an *entry* with its clock, and the receiver reads it. Messages of one
//! *stream*, which have the same receiver, tag and group, are received in the order in which they
//! are sent, and so are their entries.
//!
//! Threads that send at the same time may write their entries in one order and send their messages
//! in another. An entry therefore has the number of the oldest entry of its stream whose call had
//! not returned when this entry was written. Let k be the number of the entry that a receiver
//! takes. The received message has entry k, an older one, or a younger one that overtook entry k
//! or an older entry: the call of the overtaken entry had not returned, so the number in the
//! younger entry is at most k. The receiver reads the clocks of all these younger entries too. It
//! need not read older entries, because the clocks of a rank grow.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};

/// Bounds of the number of entries of a rank.
const FEWEST: usize = 256;
const MOST: usize = 4096;
/// Bytes of the entries of a rank, within these bounds.
const BYTES: usize = 1 << 20;
/// The words before the entries: the count of messages, and of the entries that have been in use.
const COUNT: usize = 0;
const USED: usize = 8;
const ENTRIES: usize = 16;
/// The words of an entry before its clock: the entry's number, its stream, and the number of the
/// oldest entry of the stream that a call still sent.
const NUMBER: usize = 0;
const FOR: usize = 8;
const GROUP: usize = 16;
const OLDEST: usize = 24;
const CLOCK: usize = 32;
/// The number of an entry that is being written or read.
const TAKEN: u64 = u64::MAX;

/// The clocks of the messages that a rank has sent and whose receivers have not read them yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageClocks<'m> {
    pub(super) memory: &'m Memory,
    pub(super) base: usize,
    pub(super) ranks: usize,
}

/// The bytes of the entries of a rank in a job of `ranks` ranks.
pub(super) const fn bytes(ranks: usize) -> usize {
    ENTRIES + most(ranks) * entry_bytes(ranks)
}

const fn entry_bytes(ranks: usize) -> usize {
    CLOCK + slot_bytes(ranks)
}

/// The number of entries of a rank.
const fn most(ranks: usize) -> usize {
    match BYTES / entry_bytes(ranks) {
        fit if fit < FEWEST => FEWEST,
        fit if fit > MOST => MOST,
        fit => fit,
    }
}

/// The messages of a rank to another one that are received in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) to: usize,
    pub(crate) tag: i32,
    /// The number of the ranks' group.
    pub(crate) group: u64,
}

/// A message whose call has not returned: its stream, and the number of its entry.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sending([u64; 2], u64);

/// The messages of this rank that calls are sending.
#[derive(Debug, Default)]
pub(super) struct Sends(Mutex<BTreeSet<Sending>>);

impl Sends {
    fn all(&self) -> MutexGuard<'_, BTreeSet<Sending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins to send a message. Returns the number of the oldest entry of the stream that
    /// a call sends.
    pub(super) fn begin(&self, sending: Sending) -> u64 {
        let mut all = self.all();
        all.insert(sending);
        all.range(Sending(sending.0, 0)..).next().map_or(sending.1, |oldest| oldest.1)
    }

    /// The call has returned.
    pub(super) fn end(&self, sending: Sending) {
        self.all().remove(&sending);
    }
}

/// An entry that waits for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    number: u64,
    oldest: u64,
    at: usize,
}

impl Stream {
    fn words(self) -> [u64; 2] {
        [(self.to as u64) << 32 | u64::from(self.tag.cast_unsigned()), self.group]
    }
}

impl MessageClocks<'_> {
    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.word64(at)
    }

    fn place(&self, index: usize) -> usize {
        self.base + ENTRIES + entry_bytes(self.ranks) * index
    }

    /// The entries that have been in use.
    fn places(&self) -> impl Iterator<Item = usize> {
        // Acquire: pairs with the Release of `free`, so that a receiver sees the entry of each
        // message that it has received.
        let used = self.word(self.base + USED).load(Ordering::Acquire);
        (0..usize::try_from(used).unwrap_or(usize::MAX).min(most(self.ranks))).map(|index| self.place(index))
    }

    /// Takes an entry that is not in use.
    fn free(&self) -> Option<usize> {
        let used = self.word(self.base + USED);
        loop {
            if let Some(at) = self.places().find(|&at| self.turn(at, 0, TAKEN)) {
                return Some(at);
            }
            let found = used.load(Ordering::Relaxed);
            if found >= most(self.ranks) as u64 {
                return None;
            }
            // Another thread of the rank may have added an entry. Release: pairs with the Acquire
            // of `places`.
            let _ = used.compare_exchange(found, found + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Changes an entry's number, if it is `from`.
    fn turn(&self, at: usize, from: u64, to: u64) -> bool {
        // Acquire: pairs with the Release of the rank that used the entry before.
        self.word(at + NUMBER).compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Writes an entry. The caller holds the lock of the rank's clock, so clocks grow with the
    /// numbers of entries. `None`: no entry is free.
    pub(super) fn send(&self, stream: Stream, clock: &Clock, sends: &Sends) -> Option<Sending> {
        let number = self.word(self.base + COUNT).fetch_add(1, Ordering::Relaxed) + 1;
        let at = self.free()?;
        let [receiver, group] = stream.words();
        let sending = Sending([receiver, group], number);
        self.word(at + FOR).store(receiver, Ordering::Relaxed);
        self.word(at + GROUP).store(group, Ordering::Relaxed);
        self.word(at + OLDEST).store(sends.begin(sending), Ordering::Relaxed);
        clock.store(Slot { memory: self.memory, at: at + CLOCK });
        // Release: pairs with the Acquire of `waiting`.
        self.word(at + NUMBER).store(number, Ordering::Release);
        Some(sending)
    }

    /// The entries of a stream, in the order in which they were written.
    fn waiting(&self, stream: Stream) -> Vec<Waiting> {
        let read = |at: usize| {
            let number = self.word(at + NUMBER).load(Ordering::Acquire);
            let is_here = number != 0 && number != TAKEN;
            // Relaxed: after the Acquire.
            let words = [FOR, GROUP].map(|word| self.word(at + word).load(Ordering::Relaxed));
            let oldest = self.word(at + OLDEST).load(Ordering::Relaxed);
            (is_here && words == stream.words()).then_some(Waiting { number, oldest, at })
        };
        let mut found: Vec<_> = self.places().filter_map(read).collect();
        found.sort_unstable();
        found
    }

    fn clock_at(&self, at: usize) -> Vec<u64> {
        (0..self.ranks).map(|rank| self.word(at + CLOCK + 8 * rank).load(Ordering::Acquire)).collect()
    }

    /// Removes the entry of a stream that is behind `ahead` others, and returns its clock.
    pub(crate) fn take(&self, stream: Stream, ahead: usize) -> Option<Vec<u64>> {
        let &Waiting { number, at, .. } = self.waiting(stream).get(ahead)?;
        if !self.turn(at, number, TAKEN) {
            return None;
        }
        let clock = self.clock_at(at);
        self.word(at + NUMBER).store(0, Ordering::Release);
        Some(clock)
    }

    /// The clocks of the entries of a stream that are behind `least` to `most` others, and of the
    /// entries whose messages may have overtaken those. The entries remain.
    pub(crate) fn read(&self, stream: Stream, least: usize, most: usize) -> Vec<Vec<u64>> {
        let waiting = self.waiting(stream);
        let Some(last) = waiting.len().checked_sub(1).filter(|&last| least <= last) else { return Vec::new() };
        let (read, younger) = waiting[least..].split_at(most.min(last) - least + 1);
        let taken = read.last().map_or(0, |entry| entry.number);
        let overtakes = younger.iter().filter(|entry| entry.oldest <= taken);
        read.iter().chain(overtakes).map(|entry| self.clock_at(entry.at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_their_stream() {
        let memory = Memory::private(64 + bytes(2));
        let entries = MessageClocks { memory: &memory, base: 64, ranks: 2 };
        let stream = |to, tag, group| Stream { to, tag, group };
        let (mut clock, sends) = (Clock::new(2), Sends::default());
        for of in [stream(1, 5, 1), stream(1, 7, 1), stream(1, 5, 1), stream(0, 5, 1), stream(1, 5, 2), stream(1, 5, 1)]
        {
            clock.advance(0);
            sends.end(entries.send(of, &clock, &sends).expect("a free entry"));
        }
        let seen =
            |least, most| entries.read(stream(1, 5, 1), least, most).iter().map(|one| one[0]).collect::<Vec<_>>();
        assert_eq!((seen(0, 9), seen(1, 1), seen(3, 3)), (vec![1, 3, 6], vec![3], vec![]));
        let take = |of, ahead| entries.take(of, ahead).map_or(0, |clock| clock[0]);
        assert_eq!(take(stream(1, 5, 1), 1), 3, "the receive that was posted second");
        assert_eq!([take(stream(1, 5, 1), 0), take(stream(1, 5, 1), 0), take(stream(1, 5, 1), 0)], [1, 6, 0]);
        assert_eq!([take(stream(0, 5, 1), 0), take(stream(1, 5, 2), 0), take(stream(1, 7, 1), 0)], [4, 5, 2]);
        assert_eq!((0..=most(2)).filter(|_| entries.send(stream(1, 0, 1), &clock, &sends).is_some()).count(), most(2));
    }

    #[test]
    fn a_receiver_reads_the_entries_of_messages_that_may_have_overtaken_others() {
        let memory = Memory::private(64 + bytes(2));
        let entries = MessageClocks { memory: &memory, base: 64, ranks: 2 };
        let (mut clock, sends) = (Clock::new(2), Sends::default());
        let stream = |tag| Stream { to: 1, tag, group: 1 };
        let mut send = |tag| {
            clock.advance(0);
            entries.send(stream(tag), &clock, &sends).expect("a free entry")
        };
        // The calls of entries 1 and 3 overlap, and so do those of entries 3 and 4.
        let first = send(5);
        sends.end(send(7));
        let third = send(5);
        sends.end(first);
        let fourth = send(5);
        [third, fourth].into_iter().for_each(|sending| sends.end(sending));
        sends.end(send(5));
        let seen = |least, most| entries.read(stream(5), least, most).iter().map(|one| one[0]).collect::<Vec<_>>();
        assert_eq!([seen(0, 0), seen(1, 1), seen(2, 2), seen(3, 3)], [vec![1, 3], vec![3, 4], vec![4], vec![5]]);
        assert_eq!(seen(0, 1), [1, 3, 4]);
    }
}
