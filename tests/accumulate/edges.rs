//! Edge cases of accumulates: no elements, no target, displacements past 2^31.

use crate::on_every_window;
use crate::support::byte_window::{ByteWindow, Shape, class, targets};
use crate::support::model::{all_combined, elements};
use transom::{BasicType, Class, Datatype, Flavor, Info, Job, Op, PROC_NULL};
use transom_harness::{Outcome, ensure, same, step};

/// MPI-4.1 §12.3: a count of 0 and `MPI_PROC_NULL` are legal; both leave the window and result
/// buffers unchanged.
/// Shows O6.
pub(crate) fn no_elements(world: &Job) -> Outcome {
    on_every_window(world, 64, |world, win, what| {
        let long = Datatype::basic(BasicType::Int64);
        let mixed = Datatype::structure(&[(1, 0, long.clone()), (1, 8, Datatype::basic(BasicType::Int32))])?;
        let empty = Datatype::contiguous(0, &long)?;
        let data = [1u8; 16];
        let before = elements(BasicType::Uint64, 8, 3);
        for target in targets(world) {
            step(format!("{what} rank {target}"));
            win.write(target, 0, &before)?;
            let mut old = [9u8; 16];
            for none in [Shape::new(0, &long), Shape::new(0, &mixed), Shape::new(3, &empty)] {
                for offset in [0, 8, 64] {
                    win.accumulate((&data, none), (target, offset, none), Op::Sum)?;
                    win.raccumulate((&data, none), (target, offset, none), Op::Sum)?;
                    win.get_accumulate((&data, none), (&mut old, none), (target, offset, none), Op::Replace)?;
                    win.rget_accumulate((&data, none), (&mut old, none), (target, offset, none), Op::NoOp)?;
                    win.put(&data, none, target, offset, none)?;
                    win.get(&mut old, none, target, offset, none)?;
                }
            }
            same("the results", &old, &[9; 16])?;
            ensure(win.read(target, 0, 64)? == before, "no elements change nothing")?;
        }
        proc_null(win)
    })
}

fn proc_null(win: &ByteWindow) -> Outcome {
    let long = Datatype::basic(BasicType::Int64);
    let two = Shape::new(2, &long);
    let (data, mut old) = ([1u8; 16], [9u8; 16]);
    win.accumulate((&data, two), (PROC_NULL, 1 << 40, two), Op::Sum)?;
    win.raccumulate((&data, two), (PROC_NULL, 3, two), Op::Sum)?;
    win.get_accumulate((&data, two), (&mut old, two), (PROC_NULL, 0, two), Op::Sum)?;
    win.rget_accumulate((&data, two), (&mut old, two), (PROC_NULL, 0, two), Op::Sum)?;
    win.get(&mut old, two, PROC_NULL, 0, two)?;
    same("the results", &old, &[9; 16])?;
    same("fetch", &win.fetch(&data[..8], BasicType::Int64, PROC_NULL, 1, Op::Sum)?, &vec![0xee; 8])?;
    same("swap", &win.swap(&data[..8], &data[8..], BasicType::Int64, PROC_NULL, 1)?, &vec![0xee; 8])?;
    // An argument that is illegal for every target is still an error.
    let refused = win.accumulate((&data, two), (PROC_NULL, 0, two), Op::MaxLoc);
    same("no pairs", &class(refused), &Some(Class::Op))
}

/// Displacements past 32 bits, in memory that has pages only where it was touched.
/// Shows O1, W3.
pub(crate) fn far_displacements(world: &Job) -> Outcome {
    let bytes = (3usize << 30) + 64;
    let target = world.size() - 1;
    let allocated =
        ByteWindow::new(world, Flavor::Allocate, if world.rank() == target { bytes } else { 0 }, &Info::new())?;
    let win = allocated.ok_or("no window")?;
    if world.rank() == 0 {
        let long = Datatype::basic(BasicType::Int64);
        // Two elements with more than 2^31 bytes between them.
        let apart = Datatype::hvector(2, 1, (1 << 31) + 4096, &long)?;
        for offset in [(1usize << 31) - 8, 1 << 31, (3 << 30) - 8] {
            step(format!("at {offset}"));
            let (one, count) = (elements(BasicType::Int64, 9, 1), elements(BasicType::Int64, 9, 2));
            let nine = Shape::new(9, &long);
            win.accumulate((&one, nine), (target, offset, nine), Op::Replace)?;
            let mut old = vec![0; 72];
            win.get_accumulate((&count, nine), (&mut old, nine), (target, offset, nine), Op::Sum)?;
            ensure(old == one, &format!("replaced at {offset}"))?;
            let sums = all_combined(Op::Sum, BasicType::Int64, &one, &count);
            ensure(win.read(target, offset, 72)? == sums, &format!("sums at {offset}"))?;
            let last = win.fetch(&one[..8], BasicType::Int64, target, offset + 64, Op::Replace)?;
            ensure(last == sums[64..], "the last one")?;
        }
        let (data, mut old) = (elements(BasicType::Int64, 2, 7), [9; 16]);
        let (two, one) = (Shape::new(2, &long), Shape::new(1, &apart));
        win.accumulate((&data, two), (target, 128, one), Op::Sum)?;
        win.get_accumulate((&data, two), (&mut old, two), (target, 128, one), Op::NoOp)?;
        ensure(old == data[..], "elements that are far from each other")?;
        ensure(win.read(target, 128 + (1 << 31) + 4096, 8)? == data[8..], "the second of them")?;
        let past = win.accumulate((&data, two), (target, 1 << 30, one), Op::Sum);
        same("the second one outside", &class(past), &Some(Class::RmaRange))?;
        ensure(win.read(target, 1 << 30, 8)? == [0; 8], "nothing was written")?;
    }
    world.barrier()?;
    Ok(win.free()?)
}
