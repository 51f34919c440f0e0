//! The lock of a shadow: a big-reader lock. A reader announces itself in a cache line of its rank,
//! and then looks for a writer. A writer takes the lock, and then waits until no reader is
//! announced. Readers of different ranks share no line that one of them writes.
//!
//! A reader may change what the records of its rank say, but no range and no chain. This suffices
//! for an access that its rank has made before, which is the commonest one.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, Record, Records, Shadow};
use super::{
    DONE, END, IN_FLIGHT, IN_USE, KIND, LINE, LOCK, NEXT, PLACE, SHIFTS, START, low, number_of, origin_of, readers_at,
};
use crate::check::clock::Clock;
use crate::check::rules::{Kind, agree, conflict};

/// What [`IN_USE`] is where all records are of the first level, and each is within its block.
const ONE_CHAIN: u64 = 1;

/// The right to read and change the records.
#[derive(Debug)]
pub(crate) struct Locked<'m>(Records<'m>);

/// The right to read the records, and to change what those of one rank say.
#[derive(Debug)]
pub(crate) struct Reading<'m> {
    records: Records<'m>,
    announced: &'m AtomicU64,
}

impl<'m> Deref for Locked<'m> {
    type Target = Records<'m>;

    fn deref(&self) -> &Records<'m> {
        &self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: pairs with the next holder's and the next reader's look at the lock.
        self.0.0.word(LOCK).store(0, Ordering::Release);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Release: pairs with the look of a holder of the lock.
        self.announced.store(0, Ordering::Release);
    }
}

impl<'m> Shadow<'m> {
    /// Takes the lock of the records. `wait` is called between attempts.
    pub(crate) fn lock<E>(self, mut wait: impl FnMut(u32) -> Result<(), E>) -> Result<Locked<'m>, E> {
        let mut turns = 0..u32::MAX;
        let mut wait = || wait(turns.next().unwrap_or(u32::MAX));
        // SeqCst: of a holder and a reader that begin at once, one sees the other.
        while self.word(LOCK).compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            wait()?;
        }
        let locked = Locked(Records(self));
        for rank in 0..self.ranks {
            while self.reader(rank).load(Ordering::SeqCst) != 0 {
                wait()?;
            }
        }
        Ok(locked)
    }

    /// Reads the records, unless the lock is taken. One thread of `rank` at a time may do this.
    #[inline]
    pub(crate) fn read(self, rank: usize) -> Option<Reading<'m>> {
        let announced = self.reader(rank);
        // SeqCst: as for the holder.
        announced.store(1, Ordering::SeqCst);
        let reading = Reading { records: Records(self), announced };
        (self.word(LOCK).load(Ordering::SeqCst) == 0).then_some(reading)
    }

    fn reader(self, rank: usize) -> &'m AtomicU64 {
        self.word(readers_at(self.ranks) + LINE * rank)
    }
}

impl Reading<'_> {
    /// [`Records::record`] for an access of the reader's rank. Its last one of this kind and range
    /// has a record. `None` where there is none, or more is to be done.
    pub(crate) fn again(&self, new: &Access, clock: &Clock, done: bool) -> Option<Record> {
        let records = &self.records;
        let block = new.start >> SHIFTS[0];
        if (new.end - 1) >> SHIFTS[0] != block || records.get(IN_USE) != ONE_CHAIN {
            return None;
        }
        let first = records.count(records.chain(0, block));
        let (word, mut next) = (new.word(), first);
        let mine = loop {
            let index = next.checked_sub(1)?;
            let at = records.at(index);
            if records.get(at + START) == new.start
                && records.get(at + END) == new.end
                && records.get(at + KIND) == word
            {
                break index;
            }
            next = records.count(at + NEXT);
        };
        let state = records.state(mine);
        let last @ (ended, place) = (records.get(state + DONE), records.get(state + PLACE));
        let is_free = ended != IN_FLIGHT || (!done && conflict((new.kind, 0), (new.kind, 0), true).is_none());
        if !is_free {
            return None;
        }
        let number = number_of(place).wrapping_add(1);
        let ended = if done { clock.of(new.origin) } else { IN_FLIGHT };
        self.say(state, (ended, u64::from(new.place) | u64::from(number) << 32));
        if !self.is_alone((new, word), first, mine, clock) {
            // Whoever has the lock looks at all again.
            self.say(state, last);
            return None;
        }
        Some(Record { index: u32::try_from(mine).unwrap_or(u32::MAX), number })
    }

    fn say(&self, state: usize, (ended, place): (u64, u64)) {
        self.records.set(state + PLACE, place);
        // SeqCst: of two readers whose accesses conflict, one sees the other's.
        self.records.0.word(state + DONE).store(ended, Ordering::SeqCst);
    }

    /// Whether no other record of the chain that begins with `next` has to do with an access.
    fn is_alone(&self, (new, word): (&Access, u64), mut next: usize, mine: usize, clock: &Clock) -> bool {
        let records = &self.records;
        while let Some(index) = next.checked_sub(1) {
            let at = records.at(index);
            next = records.count(at + NEXT);
            let start = records.get(at + START);
            if index == mine || start >= new.end || new.start >= records.get(at + END) {
                continue;
            }
            let theirs = records.get(at + KIND);
            if start == new.start && agree(low(theirs), low(word)) {
                continue;
            }
            // SeqCst: as in `say`.
            let ended = records.0.word(records.state(index) + DONE).load(Ordering::SeqCst);
            let (origin, completes) = (origin_of(theirs), ended != IN_FLIGHT);
            let own = origin == new.origin;
            let ordered = completes && (own || clock.of(origin) > ended);
            let over = completes && clock.common_of(origin) > ended;
            let theirs = Kind::decode(low(theirs));
            if over || (!ordered && conflict((theirs, start), (new.kind, new.start), own).is_some()) {
                return false;
            }
        }
        true
    }

    /// [`Records::complete`] for an access of the reader's rank.
    pub(crate) fn complete(&self, record: Record, releases: u64) {
        self.records.complete(record, releases);
    }
}
