//! Partitioned messages (MPI-4.1 §4.2) of a program. MPICH's `MPI_Testall` fails for the requests
//! of such messages, because `MPI_Testall` reads an error from a status that is not set. In a
//! program that has made such messages, a wait for all of several requests therefore makes progress
//! until the operations on windows are complete, and then calls `MPI_Waitall` once.
//!
//! For the conflict checker, what the sender did before it marked a partition as ready happens
//! before what the receiver does after the partition has arrived.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use transom::Job;

#[cfg(all(large_counts, not(open_mpi)))]
use crate::edges;
use crate::host::RequestHandle;
#[cfg(all(large_counts, not(open_mpi)))]
use crate::host::{Comm, InfoHandle, SUCCESS, Type, host_Precv_init, host_Psend_init};
use crate::messages::{Borrowed, made_partitioned, with_channel};
use crate::process::{self, Process};

static USED: AtomicBool = AtomicBool::new(false);

/// Whether the program has made partitioned messages of MPICH.
pub(crate) fn are_used() -> bool {
    // Relaxed: a thread that waits for such a request got its handle after the change.
    USED.load(Ordering::Relaxed)
}

/// Functions that make requests of such messages, by the host's functions.
#[cfg(all(large_counts, not(open_mpi)))]
macro_rules! made {
    ($($exported:literal $name:ident $buffer:ty, $host:ident $sends:literal;)*) => {$(
        // SAFETY: the name is that of MPI's function with these arguments.
        #[unsafe(export_name = $exported)]
        pub(crate) unsafe extern "C" fn $name(
            buffer: $buffer,
            partitions: c_int,
            count: i64,
            kind: Type,
            rank: c_int,
            tag: c_int,
            comm: Comm,
            info: InfoHandle,
            out: *mut RequestHandle,
        ) -> c_int {
            // Relaxed: see `are_used`.
            USED.store(true, Ordering::Relaxed);
            // SAFETY: the caller's arguments; the host has written a handle.
            unsafe {
                let code = $host(buffer, partitions, count, kind, rank, tag, comm, info, out);
                if code == SUCCESS && edges::is_on() {
                    host_edges_partitioned(comm, rank, tag, *out, $sends, partitions, buffer.cast(), count, kind);
                }
                code
            }
        }
    )*};
}

#[cfg(all(large_counts, not(open_mpi)))]
made! {
    "PMPI_Psend_init" send_init *const c_void, host_Psend_init 1;
    "PMPI_Precv_init" receive_init *mut c_void, host_Precv_init 0;
}

#[cfg(all(large_counts, not(open_mpi)))]
// SAFETY: the declaration is that of host/edges.c.
unsafe extern "C" {
    fn host_edges_partitioned(
        comm: Comm,
        rank: c_int,
        tag: c_int,
        request: RequestHandle,
        sends: c_int,
        partitions: c_int,
        buffer: *const c_void,
        count: i64,
        kind: Type,
    );
}

/// The most partitions whose buffers are told apart.
const LENT: usize = 64;
/// A message in partitions that the conflict checker knows.
pub(crate) struct Channel {
    sends: bool,
    peer: usize,
    /// The number of the message at both ranks.
    key: u64,
    partitions: usize,
    starts: u64,
    /// The number of partitions that are ready.
    ready: usize,
    /// The address of the buffer, and the bytes of a partition.
    buffer: (usize, usize),
    /// The partitions that the message uses.
    lent: Vec<(usize, Borrowed)>,
}

/// A number that is equal at both ranks.
fn hashed(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() | 1 << 63
}

impl Channel {
    /// The message that this rank makes; the ranks' messages with one tag match in the order in
    /// which they are made.
    fn new(job: &Job, (peer, tag, group): (usize, c_int, u64), sends: bool, partitions: usize) -> Channel {
        type Made = HashMap<(usize, usize, c_int, u64), u64>;
        static MADE: Mutex<Option<Made>> = Mutex::new(None);
        let (from, to) = if sends { (job.rank(), peer) } else { (peer, job.rank()) };
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        // A message to this rank itself is counted twice.
        let own = if from == to { usize::from(sends) << 32 } else { 0 };
        let number = made.get_or_insert_default().entry((from, to | own, tag, group)).or_default();
        *number += 1;
        let key = hashed((from, to, tag, group, *number));
        Channel { sends, peer, key, partitions, starts: 0, ready: 0, buffer: (0, 0), lent: Vec::new() }
    }

    /// The name of the present message in the table of meetings, for all partitions or one of them.
    fn name(&self, partition: Option<usize>) -> (u64, u64) {
        let turn = self.starts << u32::BITS;
        match partition {
            None => (self.key, turn | 1),
            // The ranks may have different numbers of partitions.
            Some(partition) => (hashed((self.key, self.partitions)), turn | (partition as u64 + 1)),
        }
    }

    fn lend(&mut self, job: &Job, partition: usize) {
        let (start, len) = self.buffer;
        if len > 0 && self.partitions <= LENT {
            let buffer = (start + partition * len, len, !self.sends);
            self.lent.extend(Borrowed::of(job, vec![buffer]).map(|borrowed| (partition, borrowed)));
        }
    }

    fn give_back(&mut self, job: &Job, is_over: impl Fn(usize) -> bool) {
        let (over, lent) = std::mem::take(&mut self.lent).into_iter().partition(|one| is_over(one.0));
        self.lent = lent;
        let over: Vec<(usize, Borrowed)> = over;
        over.into_iter().for_each(|one| one.1.returns(job));
    }

    pub(crate) fn starts(&mut self, job: &Job) {
        self.starts += 1;
        self.ready = 0;
        if !self.sends {
            (0..self.partitions).for_each(|partition| self.lend(job, partition));
        }
    }

    fn is_ready(&mut self, job: &Job, partition: usize) {
        self.ready += 1;
        let (group, turn) = self.name(Some(partition));
        job.checker_enters(group, turn);
        if self.ready == self.partitions {
            let (group, turn) = self.name(None);
            job.checker_enters(group, turn);
        }
        self.lend(job, partition);
    }

    fn has_arrived(&mut self, job: &Job, partition: usize) {
        let (group, turn) = self.name(Some(partition));
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_has_met(&[self.peer], group, turn));
        self.give_back(job, |one| one == partition);
    }

    pub(crate) fn ends(&mut self, job: &Job) {
        self.give_back(job, |_| true);
        if !self.sends {
            let (group, turn) = self.name(None);
            drop(job.checker_has_met(&[self.peer], group, turn));
        }
    }
}

fn job() -> Option<Job> {
    process::get().and_then(Process::job)
}

/// A message in partitions has a request. `peer` is -1 for none, and -2 for an unknown one. A
/// partition of the buffer has `bytes` bytes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_partitioned(
    handle: RequestHandle,
    peer: c_int,
    tag: c_int,
    group: u64,
    sends: c_int,
    partitions: c_int,
    buffer: *const c_void,
    bytes: i64,
) {
    let Some(job) = job() else { return };
    let partitions = usize::try_from(partitions).unwrap_or(0);
    let known = usize::try_from(peer).ok();
    let channel = known.map(|peer| Channel {
        buffer: (buffer.addr(), usize::try_from(bytes).unwrap_or(0)),
        ..Channel::new(&job, (peer, tag, group), sends != 0, partitions)
    });
    made_partitioned(handle, channel, peer >= -1);
}

/// A partition is ready.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_ready(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition)) {
        with_channel(handle, |channel| channel.is_ready(&job, partition));
    }
}

/// A partition has arrived.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_arrived(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition))
        && !with_channel(handle, |channel| channel.has_arrived(&job, partition))
    {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_learns_all());
    }
}
