//! What a window is at one rank, and the operations on it. The hot paths: decide by what [`Target`] says, touch memory,
//! return. Epoch rules are checked by the callers, each in its own way.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

use transom_fabric::{Amo, Memory, PeerMap, Tally, Width};

use super::target::{AmoBy, Flavor, Target};
use crate::buffers::{Sink, Source};
use crate::directory::Part;
use crate::epoch::{Call, State};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{self, JobCore, Route, Words, peer};
use crate::messages::{OVERHEAD, Request};
use crate::plan::Actor;
use crate::sync::barrier;
use crate::wire::{Lane, NetRegion, Remote, ShmRegion};

/// One rank's side of a window.
pub(crate) struct Core {
    pub(crate) job: Arc<JobCore>,
    /// The window's number in the job, from 1.
    pub(crate) id: u64,
    pub(crate) flavor: Flavor,
    /// This rank's part.
    pub(crate) memory: Memory,
    pub(crate) part: Part,
    /// The words that other ranks' fences signal here.
    pub(crate) words: Memory,
    /// What is in flight to all targets.
    pub(crate) tally: Arc<Tally>,
    pub(super) place: usize,
    pub(super) _regions: Regions,
    pub(super) targets: PeerMap<Target>,
    pub(super) epoch: AtomicU8,
    pub(super) fences: AtomicU32,
}

/// What keeps peers' access to this rank's part open.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) shm: Option<ShmRegion>,
    pub(crate) words: Option<ShmRegion>,
    pub(crate) net: Option<NetRegion>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {} ({:?}, {} bytes, unit {})", self.id, self.flavor, self.part.size, self.part.unit)
    }
}

impl Core {
    /// Passes `call` through the epoch's state machine.
    #[inline]
    pub(crate) fn step(&self, name: &'static str, call: Call) -> Result<()> {
        // Relaxed: a window's synchronization calls come from one thread at a time (MPI §11.5); the state orders nothing.
        let state = State::from_number(self.epoch.load(Ordering::Relaxed));
        match state.after(call) {
            Ok(next) => {
                if next != state {
                    self.epoch.store(next as u8, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(reason) => Err(ErrorKind::Epoch { call: name, reason }.into()),
        }
    }

    /// The target, contacted before or now.
    #[inline]
    pub(crate) fn target(&self, call: &'static str, rank: usize) -> Result<&Target> {
        if rank < self.job.size
            && let Some(target) = self.targets.get(peer(rank))
        {
            return Ok(target);
        }
        self.contact(call, rank)
    }

    #[cold]
    fn contact(&self, call: &'static str, rank: usize) -> Result<&Target> {
        self.job.check_rank(call, rank)?;
        self.targets.get_or_try_insert(peer(rank), || {
            if rank == self.job.rank { Target::own(self) } else { Target::contact(self, rank) }
        })
    }

    /// The target and the byte offset of an access of `len` bytes, checked against the target's size (REQUIREMENTS O7).
    #[inline]
    fn locate(&self, call: &'static str, rank: usize, displacement: u64, len: usize) -> Result<(&Target, u64)> {
        let target = self.target(call, rank)?;
        match displacement.checked_mul(u64::from(target.unit)) {
            Some(at) if at <= target.size && len as u64 <= target.size - at => Ok((target, at)),
            _ => Err(outside(call, target, displacement, len)),
        }
    }

    /// Puts (MPI §11.3.1).
    #[inline]
    pub(crate) fn put(&self, rank: usize, displacement: u64, from: Source) -> Result<()> {
        let (target, at) = self.locate("put", rank, displacement, from.len())?;
        if let Remote::Memory(memory) = &target.data {
            memory.write(index(at), from.bytes());
            return Ok(());
        }
        self.put_far(target, at, from)
    }

    /// Puts bytes that are copied before this returns.
    #[inline]
    pub(crate) fn put_copied(&self, rank: usize, displacement: u64, bytes: &[u8]) -> Result<()> {
        let (target, at) = self.locate("put", rank, displacement, bytes.len())?;
        if let Remote::Memory(memory) = &target.data {
            memory.write(index(at), bytes);
            return Ok(());
        }
        if bytes.len() <= target.data.inline_max() {
            return self.job.post(|| target.data.put_inline(at, bytes, &target.tally));
        }
        crate::buffers::scoped(|| self.job.finish(&target.tally), |scope| self.put_far(target, at, scope.source(bytes)))
    }

    #[inline(never)]
    fn put_far(&self, target: &Target, at: u64, from: Source) -> Result<()> {
        let most = self.transfer_max(target);
        let mut done = 0;
        while done < from.len() {
            let part = from.part(done, most);
            let offset = at + done as u64;
            done += part.len();
            match target.data {
                Remote::Messages => {
                    self.ask(target, Request::Put { at: offset, bytes: part.bytes() }, Sink::NONE)?;
                }
                _ => self.job.post(|| target.data.put(offset, part, &target.tally))?,
            }
        }
        Ok(())
    }

    /// Gets (MPI §11.3.2).
    #[inline]
    pub(crate) fn get(&self, rank: usize, displacement: u64, into: Sink) -> Result<()> {
        let (target, at) = self.locate("get", rank, displacement, into.len())?;
        if let Remote::Memory(memory) = &target.data {
            into.fill(memory, index(at));
            return Ok(());
        }
        self.get_far(target, at, &into)
    }

    #[inline(never)]
    fn get_far(&self, target: &Target, at: u64, into: &Sink) -> Result<()> {
        let most = self.transfer_max(target);
        let mut done = 0;
        while done < into.len() {
            let part = into.part(done, most);
            let offset = at + done as u64;
            done += part.len();
            match target.data {
                Remote::Messages => {
                    let len = part.len() as u64;
                    self.ask(target, Request::Get { at: offset, len }, part)?;
                }
                _ => self.job.post(|| target.data.get(offset, &part, &target.tally))?,
            }
        }
        Ok(())
    }

    /// Performs an atomic whose old value goes into `into` when the operation completes (MPI §11.3.4).
    #[inline]
    pub(crate) fn amo(&self, call: &'static str, rank: usize, displacement: u64, amo: Amo, into: Sink) -> Result<()> {
        let (target, at) = self.locate_amo(call, rank, displacement, amo.width)?;
        if let AmoBy::Memory(memory) = &target.amo {
            let old = memory.amo(index(at), amo).to_ne_bytes();
            into.fill_from(low_bytes(&old, amo.width));
            return Ok(());
        }
        self.amo_far(target, at, amo, into)
    }

    /// Performs an atomic and waits for its old value.
    #[inline]
    pub(crate) fn amo_now(&self, call: &'static str, rank: usize, displacement: u64, amo: Amo) -> Result<u64> {
        let (target, at) = self.locate_amo(call, rank, displacement, amo.width)?;
        if let AmoBy::Memory(memory) = &target.amo {
            return Ok(memory.amo(index(at), amo));
        }
        self.amo_now_far(target, at, amo)
    }

    #[inline(never)]
    fn amo_now_far(&self, target: &Target, at: u64, amo: Amo) -> Result<u64> {
        let mut old = [0; 8];
        let into = match amo.width {
            Width::W32 => &mut old[..4],
            Width::W64 => &mut old[..],
        };
        crate::buffers::scoped(
            || self.job.finish(&target.tally),
            |scope| self.amo_far(target, at, amo, scope.sink(into)),
        )?;
        self.job.progress.complete(&target.tally)?;
        Ok(match amo.width {
            Width::W32 => u64::from(u32::from_ne_bytes([old[0], old[1], old[2], old[3]])),
            Width::W64 => u64::from_ne_bytes(old),
        })
    }

    #[inline(never)]
    fn amo_far(&self, target: &Target, at: u64, amo: Amo, into: Sink) -> Result<()> {
        match &target.amo {
            AmoBy::Post(remote) => self.job.post(|| remote.amo(at, amo, &into, &target.tally)),
            AmoBy::Messages | AmoBy::Memory(_) => self.ask(target, Request::Amo { at, amo }, into),
        }
    }

    #[inline]
    fn locate_amo(&self, call: &'static str, rank: usize, displacement: u64, width: Width) -> Result<(&Target, u64)> {
        let (target, at) = self.locate(call, rank, displacement, width.bytes())?;
        if (at + u64::from(target.skew)) & (width.bytes() as u64 - 1) != 0 {
            return Err(misaligned(call, target, displacement, width));
        }
        Ok((target, at))
    }

    /// Sends a request that the target's CPU executes.
    fn ask(&self, target: &Target, request: Request<'_>, into: Sink) -> Result<()> {
        // The link was made at first contact; an atomic of the own part never comes here.
        let (token, message) = self.job.messages.request(self.id, request, into, &target.tally);
        self.job.send(target.rank, &message).inspect_err(|error| {
            let fault = transom_fabric::Fault { peer: peer(target.rank), reason: error.to_string() };
            self.job.messages.fail(token, &fault);
        })
    }

    fn transfer_max(&self, target: &Target) -> usize {
        target.data.transfer_max().unwrap_or_else(|| {
            let lane = self.job.lane(target.rank).unwrap_or(Lane::Shm);
            self.job.wire.message_max(lane).saturating_sub(OVERHEAD).max(1)
        })
    }

    /// Completes all operations to `rank`, at both sides (MPI §11.5.4).
    #[inline]
    pub(crate) fn flush(&self, call: &'static str, rank: usize) -> Result<()> {
        // Stores to mapped memory are in program order for every observer that synchronizes after us: on x86 this
        // keeps the compiler from moving them and costs no instruction; elsewhere it is the store barrier that is needed.
        fence(Ordering::AcqRel);
        match self.targets.get(peer(rank)) {
            Some(target) if target.rank == rank => self.job.progress.complete(&target.tally),
            // Never contacted: nothing is in flight.
            _ => self.job.check_rank(call, rank),
        }
    }

    /// Completes all operations to all targets.
    #[inline]
    pub(crate) fn flush_all(&self) -> Result<()> {
        fence(Ordering::AcqRel);
        self.job.progress.complete(&self.tally)
    }

    /// Waits until no operation is in flight, errors or not: lent buffers go back.
    #[inline]
    pub(crate) fn settle(&self) {
        self.job.finish(&self.tally);
    }

    /// Orders this rank's loads and stores of its window with what others did (MPI §11.5.4, `MPI_WIN_SYNC`).
    #[inline]
    pub(crate) fn sync(&self) {
        fence(Ordering::SeqCst);
    }

    /// The fence's work: completes what this rank started, then a barrier of the window's ranks (MPI §11.5.1).
    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        let flushed = self.flush_all();
        self.barrier()?;
        flushed
    }

    #[inline]
    pub(crate) fn barrier(&self) -> Result<()> {
        let theirs = |rank| match self.job.lane(rank) {
            Some(Lane::Net) => Ok(None),
            _ => Ok(self.target("fence", rank)?.words.as_ref()),
        };
        let words = Words { job: &self.job, key: self.id, mine: &self.words, theirs };
        barrier::dissemination(self.job.rank, self.job.size, job::next(&self.fences), false, &words).map(drop)
    }

    /// The way to a rank's data.
    pub(crate) fn route(&self, rank: usize) -> Result<Route> {
        self.job.check_rank("route", rank)?;
        Ok(match self.job.lane(rank) {
            None => Route::Own,
            Some(Lane::Shm) => Route::Shm,
            Some(Lane::Net) => Route::Net,
        })
    }

    pub(crate) fn actor(&self) -> Actor {
        self.job.actor
    }
}

/// A checked offset as an index: it is below the size of memory that is mapped here.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn index(at: u64) -> usize {
    at as usize
}

/// The bytes of a register that are its value at this width.
#[inline]
fn low_bytes(value: &[u8; 8], width: Width) -> &[u8] {
    let from = if cfg!(target_endian = "big") { 8 - width.bytes() } else { 0 };
    &value[from..from + width.bytes()]
}

#[cold]
fn outside(call: &'static str, target: &Target, displacement: u64, length: usize) -> Error {
    let Target { rank, unit, size: limit, .. } = *target;
    ErrorKind::Range { call, rank, displacement, unit, length, limit }.into()
}

#[cold]
fn misaligned(call: &'static str, target: &Target, displacement: u64, width: Width) -> Error {
    let Target { rank, unit, size: limit, .. } = *target;
    ErrorKind::Misaligned { call, rank, displacement, unit, width: width.bytes(), limit }.into()
}
