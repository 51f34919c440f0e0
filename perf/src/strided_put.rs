//! Puts with a stride. If the target's memory is mapped, the floor is the loop that a program would
//! write over this memory.

use transom::{At, BasicType, Datatype, Job, SharedPart};

use crate::floor::loops;
use crate::iterations::{against_stores, complete, counts, window};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;

/// Measures puts of `size` bytes, in blocks of 8 to every other 8 of the target. Returns the row at
/// the origin.
pub(crate) fn measure(world: &Job, options: &Options, size: usize) -> Outcome<Option<Row>> {
    let len = size / 8;
    let win = window::<u64>(world, options, 2 * len)?;
    let word = Datatype::basic(BasicType::Uint64);
    let every_other = Datatype::vector(len, 1, 2, &word)?;
    let source = &(1..=len as u64).collect::<Vec<_>>()[..];
    world.barrier()?;
    let row = if world.rank() == 0 {
        let floor = |part: &SharedPart, count: usize| (0..count).for_each(|_| loops::every_other(part, source));
        let (library, floor) = against_stores(options, &win, counts(options, size), floor, |epoch| {
            epoch.put_items(source, len, &word, At::new(1, 0, 1, &every_other))?;
            complete(options, epoch)
        })?;
        Some(Row::new(size, library, floor))
    } else {
        None
    };
    world.barrier()?;
    if options.check && world.rank() == 1 {
        let mut words = vec![0; 2 * len];
        win.load(0, &mut words)?;
        let wrong = |&(index, pair): &(usize, &[u64; 2])| *pair != [source[index], 0];
        if let Some((index, pair)) = words.as_chunks::<2>().0.iter().enumerate().find(wrong) {
            return Err(
                format!("block {index} and the gap behind it have {pair:?} instead of [{}, 0]", source[index]).into()
            );
        }
    }
    world.barrier()?;
    win.free()?;
    Ok(row)
}
