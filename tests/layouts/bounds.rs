//! Layouts that are refused: overlap at the target, different signatures, and a true span outside
//! the window. Each refusal has its error class and leaves the window unchanged.

use crate::mapped_type::MappedType;
use crate::on_every_window;
use crate::support::byte_window::{ByteWindow, Shape, class};
use crate::support::model::elements;
use crate::{BYTES, step};
use transom::datatype::Order;
use transom::{BasicType, Class, Datatype, Job, Op, PROC_NULL};
use transom_harness::{Outcome, ensure, same};

/// Runs `body` and checks that the target is unchanged.
fn unchanged(win: &ByteWindow, target: usize, body: impl FnOnce() -> Outcome) -> Outcome {
    let before = elements(BasicType::Byte, BYTES, 11);
    win.write(target, 0, &before)?;
    body()?;
    ensure(win.read(target, 0, BYTES)? == before, "the target is as before")
}

/// Error classes of put, accumulate and get with equal layouts.
fn refusals(win: &ByteWindow, target: usize, offset: usize, ours: Shape<'_>, theirs: Shape<'_>) -> [Option<Class>; 3] {
    let (data, mut back) = ([7u8; BYTES], [3u8; BYTES]);
    let all = [
        class(win.put(&data, ours, target, offset, theirs)),
        class(win.accumulate((&data, ours), (target, offset, theirs), Op::Replace)),
        class(win.get(&mut back, ours, target, offset, theirs)),
    ];
    assert!(all[2].is_none() || back == [3; BYTES], "a get that is refused fills nothing");
    all
}

/// MPI-4.1 §12.3.1, §12.3.2, §12.3.4: the entries that are written must not overlap; those of a
/// put's origin and of a get's target may.
/// Shows O5, E1.
pub(crate) fn overlaps(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, _| {
        let long = Datatype::basic(BasicType::Int64);
        let (two, backwards) = (Datatype::contiguous(2, &long)?, Datatype::hvector(3, 1, -4, &long)?);
        let twice = Datatype::vector(3, 2, 1, &long)?;
        let narrow = Datatype::resized(&two, 0, 8)?;
        let same_place = Datatype::indexed(&[(1, 4), (2, 0), (1, 1)], &long)?;
        let four = |count| Shape::new(count, &long);
        unchanged(win, target, || {
            for (what, ours, theirs) in [
                ("a vector that steps less than its blocks", four(6), Shape::new(1, &twice)),
                ("items whose extent is less than their data", four(6), Shape::new(3, &narrow)),
                ("an entry that comes twice", four(4), Shape::new(1, &same_place)),
                ("half of the entry before", four(3), Shape { zero: 64, count: 1, ty: &backwards }),
            ] {
                step(format!("{what} at rank {target}"));
                let refused = Some(Class::Type);
                same(what, &refusals(win, target, 64, ours, theirs), &[refused, refused, None])?;
            }
            Ok(())
        })?;
        // Each of the origin's elements is sent twice.
        let data = elements(BasicType::Int64, 4, 5);
        win.put(&data, Shape::new(1, &twice), target, 0, four(6))?;
        let expected = [&data[..16], &data[8..24], &data[16..32]].concat();
        ensure(win.read(target, 0, 48)? == expected, "what the origin has once")
    })
}

/// MPI-4.1 §12.3.1: both sides have the same basic types in the same order and number.
/// Shows O5, E1.
pub(crate) fn signatures(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, _| {
        let [int, long, double, byte] =
            [BasicType::Int32, BasicType::Int64, BasicType::Float64, BasicType::Byte].map(MappedType::basic);
        let one_way = MappedType::structure(&[(1, 0, int.clone()), (1, 8, long.clone())])?;
        let other_way = MappedType::structure(&[(1, 8, long.clone()), (1, 0, int.clone())])?;
        let padded = one_way.resized(0, 64)?;
        unchanged(win, target, || {
            for (what, ours, theirs) in [
                ("another type", Shape::new(2, &long.ty), Shape::new(2, &double.ty)),
                ("bytes for numbers", Shape::new(16, &byte.ty), Shape::new(2, &long.ty)),
                ("halves", Shape::new(4, &int.ty), Shape::new(2, &long.ty)),
                ("more", Shape::new(3, &long.ty), Shape::new(2, &long.ty)),
                ("less", Shape::new(1, &long.ty), Shape::new(2, &long.ty)),
                ("another order", Shape::new(1, &one_way.ty), Shape::new(1, &other_way.ty)),
                ("all to nothing", Shape::new(1, &one_way.ty), Shape::new(0, &one_way.ty)),
            ] {
                same(what, &refusals(win, target, 64, ours, theirs), &[Some(Class::Type); 3])?;
            }
            Ok(())
        })?;
        // Bounds and gaps are not part of the signature.
        let data = elements(BasicType::Byte, 128, 9);
        win.put(&data, Shape::new(2, &one_way.ty), target, 0, Shape::new(2, &padded.ty))?;
        let found = win.read(target, 64, 16)?;
        ensure(found[..4] == data[16..20] && found[8..] == data[24..32], "the second item")
    })
}

/// The range from the lowest byte to the highest is checked, not the size and not the extent.
/// Shows O7, O5, E1.
pub(crate) fn spans(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, index| {
        let one = Datatype::basic(BasicType::Int64);
        let data = [7u8; 64];
        let size = isize::try_from(BYTES)?;
        let far = Datatype::hvector(2, 1, size, &one)?;
        let before = Datatype::hindexed(&[(1, 0), (1, -8)], &one)?;
        let shifted = Datatype::hindexed(&[(1, size - 8), (1, 0)], &one)?;
        let two = Shape::new(2, &one);
        unchanged(win, target, || {
            for (what, offset, theirs) in [
                ("a size that fits, a span that does not", 0, Shape::new(1, &far)),
                ("the second item", BYTES - 8, Shape::new(2, &one)),
                ("below the begin", 0, Shape::new(1, &before)),
                ("by one byte", 8, Shape::new(1, &shifted)),
            ] {
                step(format!("{what} at rank {target}"));
                same(what, &refusals(win, target, offset, two, theirs), &[Some(Class::RmaRange); 3])?;
            }
            Ok(())
        })?;
        for (what, ty, count, offset, places) in [
            ("to both ends", &shifted, 1, 0, [BYTES - 8, 0]),
            ("an extent that no window has", &Datatype::resized(&before, 0, 1 << 40)?, 1, 8, [8, 0]),
            ("a lower bound far below", &Datatype::resized(&before, -(1 << 40), 1 << 41)?, 1, 8, [8, 0]),
            ("items backwards", &Datatype::resized(&one, 0, -16)?, 2, BYTES - 8, [BYTES - 8, BYTES - 24]),
            (
                "the corners of a plane",
                &Datatype::subarray(&[1 << 20, 2], &[1, 2], &[0, 0], Order::C, &one)?,
                1,
                0,
                [0, 8],
            ),
        ] {
            step(format!("{what} at rank {target}"));
            win.write(target, 0, &[1; BYTES])?;
            win.put(&data, two, target, offset, Shape::new(count, ty))?;
            let mut expected = vec![1; BYTES];
            places.iter().for_each(|&at| expected[at..at + 8].copy_from_slice(&data[..8]));
            ensure(win.read(target, 0, BYTES)? == expected, what)?;
        }
        // A dynamic window has no end: such a location is another address.
        if index != 2 {
            let behind = Datatype::hindexed(&[(2, -64)], &one)?;
            win.put(&data, two, target, BYTES + 32, Shape::new(1, &behind))?;
            ensure(win.read(target, BYTES - 32, 16)? == data[..16], "a displacement behind the end, data within")?;
        }
        Ok(())
    })
}

/// Spans beyond any address space are ordinary errors; no arithmetic overflows.
/// Shows O7, E1.
pub(crate) fn absurd(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, _| {
        let one = Datatype::basic(BasicType::Byte);
        let wide = Datatype::resized(&one, 0, 1 << 62)?;
        let back = Datatype::resized(&one, 0, -(1 << 62))?;
        let data = Shape::new(9, &one);
        unchanged(win, target, || {
            for (what, theirs) in [("forwards", Shape::new(9, &wide)), ("backwards", Shape::new(9, &back))] {
                step(format!("{what} at rank {target}"));
                same(what, &refusals(win, target, 64, data, theirs), &[Some(Class::RmaRange); 3])?;
            }
            Ok(())
        })?;
        let nowhere = refusals(win, PROC_NULL, 0, data, Shape::new(9, &wide));
        same("no target", &nowhere, &[None; 3])
    })
}
