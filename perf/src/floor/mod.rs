//! The performance of the machine without the library, between the same two processes: mapped
//! memory of the other process, bare verbs on the same device, or bare libfabric calls on the same
//! provider.

#[allow(unsafe_code)]
mod all_ranks;
#[allow(unsafe_code)]
mod bare_ofi;
#[allow(unsafe_code)]
mod bare_shm;
#[allow(unsafe_code)]
mod bare_verbs;
#[allow(unsafe_code)]
pub(crate) mod loops;
mod mapped;

use transom::{Job, Route, Window};

use crate::kinds::Test;
use crate::measure::Batch;
use crate::options::Options;
use crate::outcome::Outcome;
pub(crate) use all_ranks::AllRanks;
use bare_ofi::BareOfi;
use bare_shm::BareShm;
use bare_verbs::BareVerbs;
pub(crate) use mapped::Mapped;

/// The bare route between ranks 0 and 1.
pub(crate) enum Floor {
    Shm(BareShm),
    Verbs(BareVerbs),
    Ofi(BareOfi),
}

impl Floor {
    /// Opens the floor of the job's route, with `room` bytes at each of ranks 0 and 1, and as many
    /// for each of `flight` gets. Collective; usable after the next barrier. On libfabric a thread
    /// of rank 1 serves the origin, except in tests whose floor both ranks call
    /// ([`Floor::together`]).
    pub(crate) fn open(world: &Job, test: Test, room: usize, flight: usize) -> Outcome<Option<Floor>> {
        let exchange = |mine: &[u8]| exchange_of_two(world, mine);
        if world.rank() > 1 {
            exchange_of_two(world, &[])?;
            return Ok(None);
        }
        Ok(Some(match world.route(1 - world.rank())? {
            Route::Shm => Floor::Shm(BareShm::open(world.rank(), room, flight, exchange)?),
            _ if world.net().is_some_and(|net| net.starts_with("verbs")) => {
                Floor::Verbs(BareVerbs::open(world, room, flight, exchange)?)
            }
            _ => {
                let serve = world.rank() == 1 && !matches!(test, Test::FenceLatency | Test::NotifyPingpong);
                Floor::Ofi(BareOfi::open(world, room, flight, serve, exchange)?)
            }
        }))
    }

    /// Performs the test's operation `count` times on the bare route. Called by the origin.
    pub(crate) fn batch(&self, options: &Options, size: usize, count: usize) -> Outcome<()> {
        match self {
            Floor::Shm(shm) => shm.batch(options.test, size, options.window, count),
            Floor::Verbs(verbs) => verbs.batch(options.test, size, options.window, count)?,
            Floor::Ofi(ofi) => ofi.batch(options.test, size, options.window, count)?,
        }
        Ok(())
    }

    /// [`Floor::batch`] as a value, if there is a floor and the test has one on this route.
    pub(crate) fn batches<'f>(floor: Option<&'f Floor>, options: &'f Options, size: usize) -> Option<Box<Batch<'f>>> {
        let floor = floor.filter(|floor| floor.has(options.test))?;
        Some(Box::new(move |count| floor.batch(options, size, count)))
    }

    /// Whether the floor has a thread at the target that would compete with the library. The
    /// library is then measured first, while that thread sleeps.
    pub(crate) fn disturbs(&self) -> bool {
        matches!(self, Floor::Ofi(_))
    }

    /// Whether the test has a floor on this route.
    pub(crate) fn has(&self, test: Test) -> bool {
        match (self, test) {
            // The floor of a request is the library's own plain call; the floor of accumulates and
            // strides works on the window itself.
            (_, Test::Passive | Test::Floor | Test::RequestPut | Test::RequestGet) => false,
            (_, Test::Accumulate | Test::StridedPut) => false,
            (Floor::Shm(_), _) => true,
            (Floor::Verbs(verbs), Test::FopLatency | Test::CasLatency) => verbs.has_atomics(),
            (Floor::Verbs(_), Test::Lock | Test::Pscw | Test::FenceLatency) => false,
            (Floor::Verbs(_), _) => true,
            (Floor::Ofi(ofi), Test::FopLatency | Test::CasLatency) => ofi.has_atomics(),
            (Floor::Ofi(_), Test::Lock | Test::Pscw) => false,
            (Floor::Ofi(ofi), Test::FenceLatency | Test::NotifyPingpong) => ofi.tells_of_writes(),
            (Floor::Ofi(_), _) => true,
        }
    }

    /// Takes part in `count` bare synchronizations of the test, a fence,
    /// post-start-complete-wait or a round trip; both sides call it.
    pub(crate) fn together(&self, test: Test, count: usize) -> Outcome<()> {
        match (self, test) {
            (Floor::Shm(shm), Test::Pscw) => shm.turns(count),
            (Floor::Shm(shm), Test::NotifyPingpong) => shm.pingpong(count),
            (Floor::Shm(shm), _) => shm.barriers(count),
            (Floor::Ofi(ofi), Test::FenceLatency) => ofi.barriers(count)?,
            (Floor::Ofi(ofi), Test::NotifyPingpong) => ofi.pingpong(count)?,
            (Floor::Verbs(verbs), Test::NotifyPingpong) => verbs.pingpong(count)?,
            (Floor::Verbs(_) | Floor::Ofi(_), _) => {}
        }
        Ok(())
    }
}

/// Exchanges some bytes between ranks 0 and 1; returns the other rank's.
pub(crate) fn exchange_of_two(world: &Job, mine: &[u8]) -> Outcome<Vec<u8>> {
    Ok(allgather(world, 2, mine)?.swap_remove(1 - world.rank().min(1)))
}

/// Exchanges some bytes among the first `ranks` ranks; returns those of each. Collective over all.
fn allgather(world: &Job, ranks: usize, mine: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    const ROOM: usize = 1024;
    let win = Window::<u8>::allocate(world, ROOM * ranks)?;
    let mut block = vec![0; ROOM];
    block[..8].copy_from_slice(&(mine.len() as u64).to_le_bytes());
    block[8..8 + mine.len()].copy_from_slice(mine);
    if world.rank() < ranks {
        win.lock_all(|epoch| (0..ranks).try_for_each(|rank| epoch.put(rank, ROOM * world.rank(), &block)))?;
    }
    world.barrier()?;
    let mut blocks = vec![0; ROOM * ranks];
    win.load(0, &mut blocks)?;
    win.free()?;
    let one = |block: &[u8]| {
        let (len, rest) = block.split_first_chunk::<8>().ok_or("the address that another rank sent has no length")?;
        Ok(rest[..usize::try_from(u64::from_le_bytes(*len))?].to_vec())
    };
    blocks.chunks_exact(ROOM).map(one).collect()
}
