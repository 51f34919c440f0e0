//! One partitioned message (MPI-4.1 §4.2), as the conflict checker knows it. The sender publishes
//! its clock when it marks a partition as ready. The receiver learns this clock when it finds that
//! the partition has arrived, or that the whole message has.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use transom::Job;

use crate::borrowed::Borrowed;

/// The buffers of messages with more partitions are not recorded.
const LENT_PARTITIONS: usize = 64;

/// A partitioned message at one of its two ranks: a persistent request, which each start uses
/// again.
pub(crate) struct PartitionedMessage {
    sends: bool,
    peer: usize,
    /// Identifies the message at both ranks.
    key: u64,
    partitions: usize,
    /// The number of starts so far.
    starts: u64,
    /// The number of partitions that are ready since the last start.
    ready: usize,
    /// The address of the buffer, and the bytes of a partition.
    buffer: (usize, usize),
    /// The partitions whose buffers the host uses now.
    lent: Vec<(usize, Borrowed)>,
}

/// A hash that is equal at both ranks.
fn hashed(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() | 1 << 63
}

impl PartitionedMessage {
    /// A new message of this rank. Messages between two ranks with one tag match in the order in
    /// which they are made. `buffer`: the address of the buffer, and the bytes of a partition.
    pub(crate) fn new(
        job: &Job,
        (peer, tag, group): (usize, c_int, u64),
        sends: bool,
        partitions: usize,
        buffer: (usize, usize),
    ) -> PartitionedMessage {
        type Made = HashMap<(usize, usize, c_int, u64), u64>;
        static MADE: Mutex<Option<Made>> = Mutex::new(None);
        let (from, to) = if sends { (job.rank(), peer) } else { (peer, job.rank()) };
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        // A message to this rank itself is made twice here: as a send and as a receive.
        let own = if from == to { usize::from(sends) << 32 } else { 0 };
        let number = made.get_or_insert_default().entry((from, to | own, tag, group)).or_default();
        *number += 1;
        let key = hashed((from, to, tag, group, *number));
        PartitionedMessage { sends, peer, key, partitions, starts: 0, ready: 0, buffer, lent: Vec::new() }
    }

    /// Identifies the present start in the checker's table of collective calls, for all partitions
    /// or for one of them.
    fn name(&self, partition: Option<usize>) -> (u64, u64) {
        let turn = self.starts << u32::BITS;
        match partition {
            None => (self.key, turn | 1),
            // The ranks may have different numbers of partitions.
            Some(partition) => (hashed((self.key, self.partitions)), turn | (partition as u64 + 1)),
        }
    }

    /// The host uses the buffer of a partition from now on.
    fn lend(&mut self, job: &Job, partition: usize) {
        let (start, len) = self.buffer;
        if len > 0 && self.partitions <= LENT_PARTITIONS {
            let buffer = (start + partition * len, len, !self.sends);
            self.lent.extend(Borrowed::of(job, vec![buffer]).map(|borrowed| (partition, borrowed)));
        }
    }

    /// The host no longer uses the buffers of the partitions for which `is_over` holds.
    fn give_back(&mut self, job: &Job, is_over: impl Fn(usize) -> bool) {
        let (over, lent) = std::mem::take(&mut self.lent).into_iter().partition(|one| is_over(one.0));
        self.lent = lent;
        let over: Vec<(usize, Borrowed)> = over;
        over.into_iter().for_each(|one| drop(one.1.returns(job)));
    }

    /// The program starts the request.
    pub(crate) fn starts(&mut self, job: &Job) {
        self.starts += 1;
        self.ready = 0;
        if !self.sends {
            (0..self.partitions).for_each(|partition| self.lend(job, partition));
        }
    }

    /// The sender marks a partition as ready.
    pub(crate) fn is_ready(&mut self, job: &Job, partition: usize) {
        self.ready += 1;
        let (group, turn) = self.name(Some(partition));
        job.checker_enters(group, turn);
        if self.ready == self.partitions {
            let (group, turn) = self.name(None);
            job.checker_enters(group, turn);
        }
        self.lend(job, partition);
    }

    /// The receiver finds that a partition has arrived.
    pub(crate) fn has_arrived(&mut self, job: &Job, partition: usize) {
        let (group, turn) = self.name(Some(partition));
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_has_met(&[self.peer], group, turn));
        self.give_back(job, |one| one == partition);
    }

    /// The request is complete.
    pub(crate) fn ends(&mut self, job: &Job) {
        self.give_back(job, |_| true);
        if !self.sends {
            let (group, turn) = self.name(None);
            drop(job.checker_has_met(&[self.peer], group, turn));
        }
    }
}
