//! The hot path of shared memory, operation by operation, for callgrind to count: each function runs [`TURNS`] turns
//! of one operation on the other rank's part. ci/instructions runs it as two ranks under callgrind, which counts within
//! one of the functions, and does the arithmetic. The program knows no callgrind: it only checks the results.

use transom::{LockAllEpoch, Route, Window};

/// Turns of each function; ci/instructions reads it from the output.
const TURNS: usize = 1000;

fn main() -> transom::Result<()> {
    let world = transom::init()?;
    let win = Window::<u64>::allocate(&world, 2)?;
    if world.rank() == 0 {
        let target = world.size() - 1;
        assert_ne!(win.route(target)?, Route::Net, "memory is shared: what is counted is a store");
        let source = [7u64];
        let mut result = [0u64; TURNS];
        let counted = win.lock_all(|epoch| {
            // First contact is not the hot path.
            epoch.put(target, 0, &source)?;
            epoch.fetch_add(target, 1, 0u64)?;
            epoch.flush(target)?;
            measured::empty(target);
            measured::put(epoch, target, &source)?;
            measured::flush(epoch, target)?;
            measured::get(epoch, target, &mut result)?;
            measured::fetch_add(epoch, target)?;
            epoch.fetch_value::<u64>(target, 1)
        })?;
        assert_eq!(result, [7; TURNS], "every get found what was put");
        assert_eq!(counted, TURNS as u64, "every fetch_add counted");
        eprintln!("turns {TURNS}");
    }
    world.barrier()?;
    win.free()?;
    world.finalize()
}

/// What is counted: functions of their own names, which callgrind switches its counting by.
mod measured {
    use super::{LockAllEpoch, TURNS};
    use std::hint::black_box;
    use transom::Result;

    /// The loop, whose cost is taken off the others'.
    #[inline(never)]
    pub(super) fn empty(target: usize) {
        for turn in 0..TURNS {
            black_box((target, turn));
        }
    }

    #[inline(never)]
    pub(super) fn put<'e>(epoch: &LockAllEpoch<'e, '_>, target: usize, source: &'e [u64]) -> Result<()> {
        for _ in 0..TURNS {
            epoch.put(black_box(target), 0, black_box(source))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn flush(epoch: &LockAllEpoch<'_, '_>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            epoch.flush(black_box(target))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn get<'e>(epoch: &LockAllEpoch<'e, '_>, target: usize, result: &'e mut [u64]) -> Result<()> {
        for one in result.chunks_exact_mut(1) {
            epoch.get(black_box(target), 0, black_box(one))?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn fetch_add(epoch: &LockAllEpoch<'_, '_>, target: usize) -> Result<()> {
        for _ in 0..TURNS {
            black_box(epoch.fetch_add(black_box(target), 1, black_box(1u64))?);
        }
        Ok(())
    }
}
