//! Derived layouts at both ends (MPI §11.3.1, §11.3.4; REQUIREMENTS O5, O7): put, get and accumulate against a copy element by
//! element, for layouts of every constructor and for random ones; what overlaps, differs or reaches outside is refused.

use std::process::ExitCode;

use transom::datatype::Order;
use transom::{At, BasicType, Class, Datatype, Info, Items, Job, Lock, Op, RawWindow, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], body }
}

const TESTS: &[Test] = &[
    test("every_constructor_against_contiguous_data", &[1, 2], constructors),
    test("random_layouts_at_both_ends", &[1, 2], random_layouts),
    test("halos_of_a_plane", &[1, 4], halos),
    test("what_cannot_be_is_refused", &[1, 2], refused),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// Elements of the windows.
const LEN: usize = 4000;

/// A layout of `u64`, and where its elements are, counted in elements from its begin.
struct Known {
    ty: Datatype,
    places: Vec<usize>,
}

fn element() -> Datatype {
    Datatype::basic(BasicType::Uint64)
}

fn known(ty: Datatype, places: impl IntoIterator<Item = usize>) -> Known {
    Known { ty, places: places.into_iter().collect() }
}

/// One of each constructor, with the places written out.
fn catalogue() -> transom::Result<Vec<Known>> {
    let one = element();
    let column = Datatype::vector(5, 1, 4, &one)?;
    let wide = Datatype::resized(0, 24, &one)?;
    Ok(vec![
        known(Datatype::contiguous(12, &one)?, 0..12),
        known(Datatype::vector(6, 2, 5, &one)?, (0..6).flat_map(|block| [block * 5, block * 5 + 1])),
        known(Datatype::hvector(4, 3, 40, &one)?, (0..4).flat_map(|block| (0..3).map(move |i| block * 5 + i))),
        known(Datatype::indexed(&[(2, 7), (1, 0), (3, 20)], &one)?, [7, 8, 0, 20, 21, 22]),
        known(Datatype::hindexed(&[(1, 80), (2, 8)], &one)?, [10, 1, 2]),
        known(Datatype::indexed_block(2, &[9, 3, 30], &one)?, [9, 10, 3, 4, 30, 31]),
        known(
            Datatype::structure(&[(2, 16, one.clone()), (1, 80, column.clone())])?,
            [2, 3].into_iter().chain((0..5).map(|row| 10 + row * 4)),
        ),
        known(
            Datatype::subarray(&[5, 6], &[3, 2], &[1, 3], Order::C, &one)?,
            (1..4).flat_map(|row| [row * 6 + 3, row * 6 + 4]),
        ),
        known(
            Datatype::subarray(&[4, 4, 4], &[2, 2, 1], &[1, 0, 2], Order::Fortran, &one)?,
            (0..2).flat_map(|y| (1..3).map(move |x| x + 4 * y + 32)),
        ),
        known(Datatype::contiguous(4, &wide)?, (0..4).map(|i| i * 3)),
        known(Datatype::vector(3, 1, 30, &column)?, (0..3).flat_map(|b| (0..5).map(move |row| b * 30 * 17 + row * 4))),
    ])
}

/// Puts, gets and adds a layout at the target from contiguous data, and the other way round.
/// Shows O5.
fn constructors(world: &Job) -> Outcome {
    let target = world.size() - 1;
    for Known { ty, places } in catalogue()? {
        step(format!("{ty:?}"));
        let win = Window::<u64>::allocate(world, LEN)?;
        let data: Vec<u64> = (1..=places.len() as u64).collect();
        let mut back = vec![0u64; places.len()];
        let mut spread = vec![0u64; LEN];
        if world.rank() == 0 {
            win.lock(Lock::Exclusive, target, |epoch| {
                epoch.put_items(&data, data.len(), &element(), At::new(target, 10, 1, &ty))?;
                epoch.flush(target)?;
                epoch.get_items(&mut back, places.len(), &element(), At::new(target, 10, 1, &ty))?;
                epoch.get_items(&mut spread, 1, &ty, At::new(target, 10, 1, &ty))
            })?;
            same("what came back", &back, &data)?;
            let mut expected = vec![0; LEN];
            places.iter().zip(&data).for_each(|(&place, &value)| expected[place] = value);
            ensure(spread == expected, "a layout at both ends")?;
        }
        world.barrier()?;
        win.sync();
        let mut expected = vec![0; LEN];
        if world.rank() == target {
            places.iter().zip(&data).for_each(|(&place, &value)| expected[10 + place] = value);
        }
        let mut found = vec![0; LEN];
        win.load(0, &mut found)?;
        ensure(found == expected, &format!("{ty:?} at the target"))?;
        world.barrier()?;
        add_twice(world, &win, &ty, &places, &expected)?;
        win.free()?;
    }
    Ok(())
}

/// Adds 5 to every place of the layout, from the byte-level call's layout at the origin too.
fn add_twice(world: &Job, win: &Window<u64>, ty: &Datatype, places: &[usize], before: &[u64]) -> Outcome {
    let target = world.size() - 1;
    let raw = RawWindow::allocate(world, LEN * 8, 8, &Info::new())?;
    let mut fives = vec![0u64; LEN];
    places.iter().for_each(|&place| fives[place] = 5);
    if world.rank() == 0 {
        raw.lock(Lock::Shared, target, transom::Assert::NONE)?;
        for op in [Op::Sum, Op::Sum] {
            let origin = Items::of(fives.as_ptr().cast(), 1, ty);
            accumulate(&raw, origin, At::new(target, 10, 1, ty), op)?;
        }
        raw.unlock(target)?;
    }
    world.barrier()?;
    let mut found = vec![0u64; LEN];
    raw.load(0, bytemuck::cast_slice_mut(&mut found));
    let added = |at: usize| at >= 10 && places.contains(&(at - 10)) && world.rank() == target;
    ensure(found.iter().enumerate().all(|(at, &value)| value == if added(at) { 10 } else { 0 }), "sums of a layout")?;
    world.barrier()?;
    raw.free()?;
    let mut untouched = vec![0; LEN];
    win.load(0, &mut untouched)?;
    ensure(untouched == before, "the other window")
}

#[allow(unsafe_code)]
fn accumulate(win: &RawWindow, origin: Items<'_>, target: At<'_>, op: Op) -> transom::Result<()> {
    // SAFETY: the caller's buffer outlives the epoch, which it ends; nobody writes it meanwhile.
    unsafe { win.accumulate(origin, target, op) }
}

/// A generator whose numbers are the same everywhere.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*state >> 33) % below as u64).unwrap_or(0)
}

/// A layout of `count` elements in blocks at growing places.
fn some_layout(state: &mut u64, count: usize) -> transom::Result<Known> {
    let (mut blocks, mut places, mut at) = (Vec::new(), Vec::new(), 0);
    while places.len() < count {
        at += random(state, 4);
        let len = (1 + random(state, 5)).min(count - places.len());
        blocks.push((len, isize::try_from(at).unwrap_or(0)));
        places.extend(at..at + len);
        at += len;
    }
    Ok(Known { ty: Datatype::indexed(&blocks, &element())?, places })
}

/// Shows O5.
fn random_layouts(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let win = Window::<u64>::allocate(world, LEN)?;
    for seed in 0..40u64 {
        step(format!("seed {seed}"));
        let mut state = seed;
        let count = 1 + random(&mut state, 300);
        let (ours, theirs) = (some_layout(&mut state, count)?, some_layout(&mut state, count)?);
        let first = random(&mut state, 100);
        win.store(0, &[0; LEN])?;
        world.barrier()?;
        let mut source = vec![0; LEN];
        ours.places.iter().enumerate().for_each(|(index, &place)| source[place] = index as u64 + 1);
        let mut back = vec![0; LEN];
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                epoch.put_items(&source, 1, &ours.ty, At::new(target, first as u64, 1, &theirs.ty))?;
                epoch.flush(target)?;
                epoch.get_items(&mut back, 1, &ours.ty, At::new(target, first as u64, 1, &theirs.ty))
            })?;
            ensure(back == source, &format!("seed {seed}: there and back"))?;
        }
        world.barrier()?;
        win.sync();
        let mut found = vec![0; LEN];
        win.load(0, &mut found)?;
        let mut expected = vec![0; LEN];
        if world.rank() == target {
            theirs.places.iter().enumerate().for_each(|(index, &place)| expected[first + place] = index as u64 + 1);
        }
        ensure(found == expected, &format!("seed {seed}: at the target"))?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// Each rank gives its borders to its neighbours of a ring: columns, whose elements are apart at both ends.
/// Shows O5.
fn halos(world: &Job) -> Outcome {
    const SIDE: usize = 34;
    let win = Window::<f64>::allocate(world, SIDE * SIDE)?;
    let (me, size) = (world.rank(), world.size());
    let column = Datatype::vector(SIDE - 2, 1, isize::try_from(SIDE)?, &Datatype::basic(BasicType::Float64))?;
    let mut plane = vec![0.0; SIDE * SIDE];
    for (at, value) in plane.iter_mut().enumerate() {
        *value = (me * 10_000 + at) as f64;
    }
    win.store(0, &plane)?;
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    win.fence(|epoch| {
        // My first inner column is my left neighbour's right border, my last one my right neighbour's left.
        epoch.put_items(&plane[SIDE + 1..], 1, &column, At::new(left, (2 * SIDE - 1) as u64, 1, &column))?;
        epoch.put_items(&plane[2 * SIDE - 2..], 1, &column, At::new(right, SIDE as u64, 1, &column))
    })?;
    win.load(0, &mut plane)?;
    for row in 1..SIDE - 1 {
        let (from_left, from_right) = (plane[row * SIDE], plane[row * SIDE + SIDE - 1]);
        let expected = ((left * 10_000 + row * SIDE + SIDE - 2) as f64, (right * 10_000 + row * SIDE + 1) as f64);
        same(&format!("the borders of row {row}"), &(from_left, from_right), &expected)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Shows O5, O7, E1.
fn refused(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    let target = world.size() - 1;
    let data = vec![7u64; 200];
    let one = element();
    let class = |outcome: transom::Result<()>| outcome.map_err(|error| error.class());
    // 10 elements over 91 places: the size fits from place 9 on, the span does from there, not from 10.
    let wide = Datatype::vector(10, 1, 10, &one)?;
    let overlapping = Datatype::indexed(&[(2, 0), (2, 1)], &one)?;
    let narrow = Datatype::resized(0, 8, &Datatype::contiguous(2, &one)?)?;
    let ints = Datatype::basic(BasicType::Int64);
    let far = Datatype::resized(0, 8000, &one)?;
    win.lock_all(|epoch| {
        let put = |count: usize, at: At<'_>| class(epoch.put_items(&data, count, &one, at));
        assert_eq!(put(10, At::new(target, 10, 1, &wide)), Err(Class::RmaRange));
        assert_eq!(put(9, At::new(target, 9, 1, &wide)), Err(Class::Type), "9 elements for 10");
        assert_eq!(put(4, At::new(target, 0, 1, &overlapping)), Err(Class::Type), "overlapping at the target");
        assert_eq!(put(4, At::new(target, 0, 2, &narrow)), Err(Class::Type), "items that overlap each other");
        assert_eq!(put(1, At::new(target, 0, 1, &ints)), Err(Class::Type), "another signature");
        assert_eq!(class(epoch.put_items(&data[..3], 4, &one, At::new(target, 0, 4, &one))), Err(Class::Count));
        Ok(())
    })?;
    world.barrier()?;
    let mut found = vec![1; 100];
    win.load(0, &mut found)?;
    same("nothing was written", &found, &vec![0; 100])?;
    world.barrier()?;
    if world.rank() == 0 {
        win.lock_all(|epoch| {
            epoch.put_items(&data, 10, &one, At::new(target, 9, 1, &wide))?;
            // The extent reaches far outside, the one element does not.
            epoch.put_items(&data, 1, &one, At::new(target, 0, 1, &far))
        })?;
    }
    world.barrier()?;
    win.sync();
    win.load(0, &mut found)?;
    let written = if world.rank() == target { 11 } else { 0 };
    same("elements written", &found.iter().filter(|&&value| value == 7).count(), &written)?;
    world.barrier()?;
    Ok(win.free()?)
}
