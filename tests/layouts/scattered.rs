//! Accumulates on scattered elements of a typed window, as in the assembly of finite elements.

use transom::{At, BasicType, Class, Datatype, Job, Notice, Result, Window, ops};
use transom_harness::{Outcome, same, step};

/// Elements of a rank's part.
const LEN: usize = 500;

/// The places to which each rank adds, in no order and without a pattern.
fn places() -> Vec<isize> {
    (0..40)
        .map(|at: isize| (at * at * 7 + at) % 491)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .rev()
        .collect()
}

/// Each rank adds to scattered elements of every rank at the same time, by each form of the call;
/// no addition is lost, and no other element changes.
/// Shows O5, M3, O2, N1.
pub(crate) fn sums(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<f64>::allocate(world, LEN)?;
    win.set_num_notify(1)?;
    let (number, places) = (Datatype::basic(BasicType::Float64), places());
    let scattered = Datatype::indexed_block(1, &places, &number)?;
    let every_other = Datatype::vector(places.len(), 1, 2, &number)?;
    // In the origin every other value counts; the values between must not be added.
    let values: Vec<_> = (0..2 * places.len()).map(|at| if at % 2 == 0 { at as f64 } else { 1e9 }).collect();
    let dense: Vec<_> = values.iter().copied().step_by(2).collect();
    for target in 0..size {
        step(format!("target {target}"));
        let there = At::new(target, 0, 1, &scattered);
        win.lock_all(|epoch| {
            epoch.accumulate_items(&values, 1, &every_other, there, ops::Sum)?;
            epoch.accumulate_items(&dense, dense.len(), &number, there, ops::Sum)?;
            epoch.raccumulate_items(&values, 1, &every_other, there, ops::Sum)?.wait()?;
            epoch.accumulate_items_notify(&values, 1, &every_other, there, ops::Sum, Notice(0))
        })?;
    }
    win.notices().wait(0, size as u64)?;
    world.barrier()?;
    let ours = At::new((me + 1) % size, 0, 1, &scattered);
    let (mut before, mut again, mut got) = (vec![0.0; 2 * dense.len()], vec![0.0; dense.len()], vec![0.0; dense.len()]);
    win.lock_all(|epoch| {
        epoch.get_accumulate_items(&[], &mut before, 1, &every_other, ours, ops::NoOp)?;
        epoch.get_accumulate_items(&dense, &mut again, dense.len(), &number, ours, ops::NoOp)?;
        epoch.scope(|part| part.rget_items(&mut got, dense.len(), &number, ours)?.wait())
    })?;
    let sum: Vec<_> = dense.iter().map(|value| 4.0 * size as f64 * value).collect();
    same("before", &before, &sum.iter().flat_map(|&value| [value, 0.0]).collect())?;
    same("again", &again, &sum)?;
    same("got", &got, &sum)?;
    world.barrier()?;
    let mut all = vec![0.0; LEN];
    win.load(0, &mut all)?;
    let mut expected = vec![0.0; LEN];
    for (&place, value) in places.iter().zip(&sum) {
        expected[place.cast_unsigned()] = *value;
    }
    same("the part", &all, &expected)?;
    Ok(win.free()?)
}

/// The calls refuse buffers that are too short, other types than the window's, and places that
/// occur twice, and change nothing.
/// Shows O3, O5.
pub(crate) fn refused(world: &Job) -> Outcome {
    let win = Window::<i32>::allocate(world, 8)?;
    let target = world.size() - 1;
    let number = Datatype::basic(BasicType::Int32);
    let (float, twice) = (Datatype::basic(BasicType::Float32), Datatype::indexed_block(1, &[3, 3], &number)?);
    let mixed = Datatype::structure(&[(1, 0, number.clone()), (1, 4, float.clone())])?;
    let before = Datatype::indexed_block(1, &[-1], &number)?;
    let (data, mut old) = ([1; 4], [9; 4]);
    let class = |done: Result<()>| done.err().map(|error| error.class());
    let at = |count, ty| At::new(target, 0, count, ty);
    win.lock_all(|epoch| {
        let add = |count, ty, to| class(epoch.accumulate_items(&data, count, ty, to, ops::Sum));
        assert_eq!(add(5, &number, at(5, &number)), Some(Class::Count), "beyond the source");
        assert_eq!(add(1, &before, at(1, &number)), Some(Class::Count), "before the source");
        assert_eq!(add(4, &number, at(3, &number)), Some(Class::Type), "other numbers of elements");
        assert_eq!(add(4, &float, at(4, &float)), Some(Class::Type), "another type at both sides");
        assert_eq!(add(4, &float, at(4, &number)), Some(Class::Type), "another type at the origin");
        assert_eq!(add(4, &number, at(4, &float)), Some(Class::Type), "another type at the target");
        assert_eq!(add(2, &number, at(1, &mixed)), Some(Class::Type), "two types at the target");
        assert_eq!(add(2, &number, at(1, &twice)), Some(Class::Type), "one place twice");
        assert_eq!(add(4, &number, At::new(target, 6, 4, &number)), Some(Class::RmaRange), "beyond the part");
        assert_eq!(add(0, &number, at(0, &mixed)), None, "no elements have no type");
        epoch.scope(|part| {
            let done = part.get_accumulate_items(&data, &mut old, 5, &number, at(5, &number), ops::NoOp);
            assert_eq!(class(done), Some(Class::Count), "beyond the result");
            Ok(())
        })
    })?;
    world.barrier()?;
    let mut all = [7; 8];
    win.load(0, &mut all)?;
    same("nothing changed", &(all, old), &([0; 8], [9; 4]))?;
    Ok(win.free()?)
}
