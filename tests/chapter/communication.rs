//! Examples 11.1 to 11.3 (numbers of MPI-3.1): A = B(map) for arrays in equal blocks over the
//! ranks, and sums through the map.

use transom::{At, BasicType, Datatype, Job, Window, ops};
use transom_harness::{Outcome, same};

/// Elements of each rank's block.
const BLOCK: usize = 50;

fn value(index: usize) -> f64 {
    index as f64 * 1.5 + 1.0
}

/// This rank's block of a permutation of all indices; each entry is a rank and a position in that
/// rank's block.
fn map(world: &Job) -> Vec<(usize, usize)> {
    let all = BLOCK * world.size();
    (0..BLOCK)
        .map(|at| (world.rank() * BLOCK + at) * 7 % all)
        .map(|index| if all.is_multiple_of(7) { index / 7 } else { index })
        .map(|index| (index / BLOCK, index % BLOCK))
        .collect()
}

fn window(world: &Job) -> transom::Result<Window<f64>> {
    Window::create(world, (0..BLOCK).map(|at| value(world.rank() * BLOCK + at)).collect())
}

fn check(map: &[(usize, usize)], found: &[f64]) -> Outcome {
    let expected: Vec<f64> = map.iter().map(|&(rank, at)| value(rank * BLOCK + at)).collect();
    same("A", &found.to_vec(), &expected)
}

/// One get from each rank, by index lists at both ends.
/// Shows M5, O5.
pub(crate) fn map_values(world: &Job) -> Outcome {
    let (win, map) = (window(world)?, map(world));
    let one = Datatype::basic(BasicType::Float64);
    let mut mine = vec![0.0; BLOCK];
    let mut types = Vec::new();
    for rank in 0..world.size() {
        let picked: Vec<usize> = (0..BLOCK).filter(|&at| map[at].0 == rank).collect();
        let here: Vec<isize> = picked.iter().map(|&at| isize::try_from(at).unwrap_or(0)).collect();
        let there: Vec<isize> = picked.iter().map(|&at| isize::try_from(map[at].1).unwrap_or(0)).collect();
        types.push((Datatype::indexed_block(1, &here, &one)?, Datatype::indexed_block(1, &there, &one)?));
    }
    win.fence(|epoch| {
        for (rank, (here, there)) in types.iter().enumerate() {
            epoch.scope(|part| part.get_items(&mut mine, 1, here, At::new(rank, 0, 1, there)))?;
        }
        Ok(())
    })?;
    check(&map, &mine)?;
    Ok(win.free()?)
}

/// A get of each element.
/// Shows M5, O1.
pub(crate) fn map_values_simply(world: &Job) -> Outcome {
    let (win, map) = (window(world)?, map(world));
    let mut mine = vec![0.0; BLOCK];
    win.fence(|epoch| {
        mine.chunks_mut(1).zip(&map).try_for_each(|(element, &(rank, at))| epoch.get(rank, at, element))
    })?;
    check(&map, &mine)?;
    Ok(win.free()?)
}

/// B(j) = the sum of A(i) over all i with map(i) = j; here map(i) = i / 2, so that two addends have
/// one target element.
/// Shows M5, O1, M3.
pub(crate) fn sums(world: &Job) -> Outcome {
    let win = Window::<f64>::allocate(world, BLOCK)?;
    let index = |at: usize| world.rank() * BLOCK + at;
    let mine: Vec<f64> = (0..BLOCK).map(|at| value(index(at))).collect();
    win.fence(|epoch| {
        mine.chunks(1).enumerate().try_for_each(|(at, element)| {
            let to = index(at) / 2;
            epoch.accumulate(to / BLOCK, to % BLOCK, element, ops::Sum)
        })
    })?;
    let mut found = vec![0.0; BLOCK];
    win.load(0, &mut found)?;
    let half = BLOCK * world.size() / 2;
    let sum = |to: usize| if to < half { value(2 * to) + value(2 * to + 1) } else { 0.0 };
    same("B", &found, &(0..BLOCK).map(|at| sum(index(at))).collect())?;
    Ok(win.free()?)
}
