//! How a window comes and goes: each rank publishes its part, a barrier makes all parts known, and a barrier before the
//! end makes sure that nobody accesses what goes (MPI §11.2.1, §11.2.5). One barrier each: O(log p) signals per rank.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use transom_fabric::{Memory, PeerMap, RegionKey, Tally};

use super::core::{Core, Regions};
use super::target::Flavor;
use crate::directory::Part;
use crate::epoch::{Call, State};
use crate::error::{Class, Error, ErrorKind, Result};
use crate::job::{Job, JobCore, WORDS_BYTES};
use crate::plan::Actor;
use crate::wire::{Lane, NetRegion};

impl Core {
    /// Creates this rank's side of a window over all ranks. A rank that can't create its part says so in the barrier, and
    /// then no rank has the window: nobody waits later for a rank that is not in it.
    pub(crate) fn create(
        job: &Job,
        flavor: Flavor,
        unit: u32,
        memory: impl FnOnce(&JobCore) -> Result<Memory>,
    ) -> Result<Arc<Core>> {
        let job = Arc::clone(job.core());
        let id = job.next_window();
        let made = if unit == 0 {
            Err(Error::argument(Class::Disp, "creating a window", "the displacement unit is 0; it is at least 1 byte"))
        } else {
            memory(&job).and_then(|memory| Core::open(&job, id, flavor, unit, memory))
        };
        let failed = job.barrier_telling(made.is_err())?;
        match made {
            Ok(core) if failed => {
                core.withdraw();
                let why =
                    format!("window {id}: another rank could not create its part, so that no rank has the window");
                Err(ErrorKind::Job(why).into())
            }
            made => made.map(Arc::new),
        }
    }

    fn open(job: &Arc<JobCore>, id: u64, flavor: Flavor, unit: u32, memory: Memory) -> Result<Core> {
        let wire = &job.wire;
        let words = wire.allocate(WORDS_BYTES)?;
        let regions = Regions {
            shm: wire.register_shm(&memory)?,
            words: wire.register_shm(&words)?,
            net: wire.register_net(&memory)?,
        };
        let key =
            |region: &Option<crate::wire::ShmRegion>| region.as_ref().map(crate::wire::shm_key).unwrap_or_default();
        let part = Part {
            size: memory.len() as u64,
            unit,
            skew: memory.as_ptr().addr().to_le_bytes()[0] % 8,
            shm: key(&regions.shm),
            net: regions.net.as_ref().map_or(RegionKey::default(), NetRegion::key),
            words: key(&regions.words),
        };
        job.messages.expose(id, memory.clone());
        if flavor == Flavor::Create && job.has_neighbours() {
            job.serve(Lane::Shm)?;
        }
        if job.actor == Actor::Cpu && wire.has(Lane::Net) {
            job.serve(Lane::Net)?;
        }
        Ok(Core {
            place: job.publish(id, &part)?,
            job: Arc::clone(job),
            id,
            flavor,
            memory,
            part,
            words,
            tally: Tally::new(),
            _regions: regions,
            targets: PeerMap::new(),
            epoch: AtomicU8::new(State::Closed as u8),
            fences: AtomicU32::new(0),
        })
    }

    /// Ends peers' access, after a barrier in which each rank says that it accesses no more.
    pub(crate) fn free(&self) -> Result<()> {
        let before = self.epoch.load(Ordering::Relaxed);
        self.step("free", Call::Free)?;
        // Until the barrier is past the window is as it was: an error leaves it, and its memory, to the peers.
        self.epoch.store(before, Ordering::Relaxed);
        let flushed = self.flush_all();
        self.barrier()?;
        self.withdraw();
        flushed
    }

    /// Takes this rank's part away, once no peer uses it.
    fn withdraw(&self) {
        self.job.retract(self.place);
        self.job.messages.forget(self.id);
        // Relaxed: read by this thread's drop of the window.
        self.epoch.store(State::Freed as u8, Ordering::Relaxed);
    }

    /// Whether `free` came to its end.
    pub(crate) fn is_freed(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) == State::Freed as u8
    }

    /// For a window that is dropped without `free`: says so, and keeps its memory, since peers may still access it.
    pub(crate) fn abandon(core: &Arc<Core>) {
        if core.is_freed() {
            return;
        }
        core.settle();
        std::mem::forget(Arc::clone(core));
        if !std::thread::panicking() {
            // A drop can't return it
            eprintln!("transom: rank {}: {core:?} was dropped without free; its memory is kept", core.job.rank);
        }
    }
}
