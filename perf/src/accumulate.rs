//! Accumulates of vectors. If the target's memory is mapped, the floor is the loop that a program
//! would write over this memory.

use std::cell::Cell;

use transom::{Job, SharedPart, ops};

use crate::floor::loops;
use crate::iterations::{against_stores, complete, counts, window};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;

/// Measures accumulates of `size` bytes of f64 by SUM. Returns the row at the origin.
pub(crate) fn measure(world: &Job, options: &Options, size: usize) -> Outcome<Option<Row>> {
    let len = size / 8;
    let win = window::<f64>(world, options, len)?;
    world.barrier()?;
    let done = &Cell::new(0.0);
    let row = if world.rank() == 0 {
        let source = &vec![1.0; len][..];
        let floor = |part: &SharedPart, count: usize| {
            (0..count).for_each(|_| loops::add(part, source));
            done.set(done.get() + count as f64);
        };
        let (library, floor) = against_stores(options, &win, counts(options, size), floor, |epoch| {
            done.set(done.get() + 1.0);
            epoch.accumulate(1, 0, source, ops::Sum)?;
            complete(options, epoch)
        })?;
        Some(Row::new(size, library, floor))
    } else {
        None
    };
    world.barrier()?;
    if options.check && world.rank() == 0 {
        let mut sums = vec![0.0; len];
        win.lock_all(|epoch| epoch.get_atomic(1, 0, &mut sums))?;
        if let Some(index) = sums.iter().position(|&sum: &f64| sum.to_bits() != f64::to_bits(done.get())) {
            return Err(format!(
                "after accumulates of 1, element {index} is {} instead of {}",
                sums[index],
                done.get()
            )
            .into());
        }
    }
    world.barrier()?;
    win.free()?;
    Ok(row)
}
