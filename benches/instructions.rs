//! The hot path of shared memory, operation by operation, and that of puts over a net, for
//! callgrind to count. Each function runs one operation on the other rank's part, [`TURNS`] times
//! in all. ci/instructions runs the program as two ranks under callgrind, which counts within one
//! function, and does the arithmetic. The program itself only checks the results. With `--sim` the
//! two ranks are threads of one process on the simulated net.

use transom::bootstrap::local::Board;
use transom::{At, BasicType, Datatype, Job, Lock, LockAllEpoch, Notice, Route, Window};
use transom_fabric::Peer;
use transom_fabric::sim::{SimNet, SimOptions};

/// Turns of each function; ci/instructions reads the number from the output.
const TURNS: usize = 1000;

/// Puts over a net without a wait between them: few enough that all are in flight at the same time.
const BATCH: usize = 25;
/// Blocks of the strided put.
const BLOCKS: usize = 64;
/// The operands of accumulates.
static ONE: [u64; 1] = [1];

fn main() -> transom::Result<()> {
    if !std::env::args().any(|argument| argument == "--sim") {
        return rank(transom::init()?);
    }
    let (net, board) = (SimNet::new(2, SimOptions { again_one_in: 0, ..SimOptions::default() }), Board::new(2));
    let start = |number: u32| -> transom::Result<Job> {
        Job::simulated(net.domain(Peer(number))?, Box::new(board.rank(number as usize)))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rank(start(1)?));
        rank(start(0)?).and_then(|()| other.join().expect("rank 1 panicked"))
    })
}

/// What each rank does.
fn rank(world: Job) -> transom::Result<()> {
    let win = Window::<u64>::allocate(&world, 2 + 2 * BLOCKS)?;
    win.set_num_notify(1)?;
    if world.rank() == 0 {
        let target = world.size() - 1;
        let source = [7u64];
        if win.route(target)? == Route::Net {
            over_net(&win, target, &source)?;
            return finish(world, win);
        }
        let many = [3u64; BLOCKS];
        let word = Datatype::basic(BasicType::Uint64);
        let every_other = Datatype::vector(BLOCKS, 1, 2, &word)?;
        let mut result = [0u64; TURNS];
        let counted = win.lock_all(|epoch| {
            // First contact is not part of the hot path.
            epoch.put(target, 0, &source)?;
            epoch.fetch_add(target, 1, 0u64)?;
            epoch.put_notify(target, 0, &source, Notice(0))?;
            epoch.flush(target)?;
            measured::empty(target);
            measured::put(epoch, target, &source)?;
            measured::put_notify(epoch, target, &source)?;
            measured::flush(epoch, target)?;
            measured::get(epoch, target, &mut result)?;
            measured::fetch_add(epoch, target)?;
            measured::accumulate(epoch, target, &ONE)?;
            measured::rput(epoch, target, &source)?;
            measured::strided_put(epoch, &many, &word, At::new(target, 2, 1, &every_other))?;
            epoch.fetch_value(target, 1)
        })?;
        assert_eq!(result, [7; TURNS], "every get found what was put");
        assert_eq!(counted, 2 * TURNS as u64, "every fetch_add and every accumulate counted");
        win.lock(Lock::Shared, target, |_| Ok(()))?;
        measured::lock_shared(&win, target)?;
        measured::lock_exclusive(&win, target)?;
    }
    finish(world, win)
}

fn finish(world: Job, win: Window<u64>) -> transom::Result<()> {
    if world.rank() == 0 {
        eprintln!("turns {TURNS}");
    }
    world.barrier()?;
    if world.rank() + 1 == world.size() && win.route(0)? != Route::Net {
        assert_eq!(win.notices().value(0)?, TURNS as u64 + 1, "every notified put counted");
    }
    win.free()?;
    world.finalize()
}

/// Batches of puts, with a flush after each that is not counted.
fn over_net(win: &Window<u64>, target: usize, source: &[u64]) -> transom::Result<()> {
    win.lock_all(|epoch| {
        epoch.put(target, 0, source)?;
        epoch.flush(target)?;
        measured::empty(target);
        for _ in 0..TURNS / BATCH {
            measured::put_net(epoch, target, source)?;
            epoch.flush(target)?;
        }
        Ok(())
    })
}

/// The counted functions; callgrind switches its counting on and off by their names.
mod measured {
    use super::{At, BATCH, BLOCKS, Datatype, Lock, LockAllEpoch, Notice, TURNS, Window};
    use std::hint::black_box;
    use transom::{Result, ops};

    /// The empty loop, whose cost is subtracted from the others'.
    #[inline(never)]
    pub(super) fn empty(target: usize) {
        for turn in 0..TURNS {
            black_box((target, turn));
        }
    }

    #[inline(never)]
    pub(super) fn put<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..TURNS {
            epoch.put(black_box(target), 0, black_box(source))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn put_notify<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..TURNS {
            epoch.put_notify(black_box(target), 0, black_box(source), Notice(0))?;
        }
        Ok(())
    }

    /// A batch of puts.
    #[inline(never)]
    pub(super) fn put_net<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..BATCH {
            epoch.put(black_box(target), 0, black_box(source))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn flush(epoch: &LockAllEpoch<'_, '_, u64>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            epoch.flush(black_box(target))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn get<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, result: &'e mut [u64]) -> Result<()> {
        for one in result.chunks_exact_mut(1) {
            epoch.get(black_box(target), 0, black_box(one))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn fetch_add(epoch: &LockAllEpoch<'_, '_, u64>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            black_box(epoch.fetch_add(black_box(target), 1, black_box(1u64))?);
        }
        Ok(())
    }

    /// One element.
    #[inline(never)]
    pub(super) fn accumulate<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..TURNS {
            epoch.accumulate(black_box(target), 1, black_box(source), ops::Sum)?;
        }
        Ok(())
    }

    /// Including its wait.
    #[inline(never)]
    pub(super) fn rput<'e>(epoch: &LockAllEpoch<'e, '_, u64>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..TURNS {
            epoch.rput(black_box(target), 0, black_box(source))?.wait()?;
        }
        Ok(())
    }

    /// [`BLOCKS`] of 8 bytes each.
    #[inline(never)]
    pub(super) fn strided_put<'e>(
        epoch: &LockAllEpoch<'e, '_, u64>,
        source: &'e [u64],
        word: &Datatype,
        target: At<'_>,
    ) -> Result<()> {
        for _ in 0..TURNS {
            epoch.put_items(black_box(source), BLOCKS, word, black_box(target))?;
        }
        Ok(())
    }

    /// An epoch to one target without operations.
    #[inline(never)]
    pub(super) fn lock_shared(win: &Window<u64>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            win.lock(Lock::Shared, black_box(target), |_| Ok(()))?;
        }
        Ok(())
    }

    /// The same with an exclusive lock.
    #[inline(never)]
    pub(super) fn lock_exclusive(win: &Window<u64>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            win.lock(Lock::Exclusive, black_box(target), |_| Ok(()))?;
        }
        Ok(())
    }
}
