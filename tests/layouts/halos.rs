//! Halo exchanges of grid programs by subarrays, with one call for each side. Programs rely on the
//! untouched inner cells.

use crate::support::byte_window::class;
use transom::datatype::Order;
use transom::{At, BasicType, Datatype, Job, Window};
use transom_harness::{Outcome, ensure, step};

/// Rows and columns of a rank's part of the plane, halo included.
const ROWS: usize = 9;
const COLUMNS: usize = 12;

fn subarray(sizes: &[usize], part: &[usize], starts: &[usize]) -> transom::Result<Datatype> {
    Datatype::subarray(sizes, part, starts, Order::C, &Datatype::basic(BasicType::Float64))
}

/// The value of a rank at a location.
fn value(rank: usize, at: usize) -> f64 {
    f64::from(u32::try_from(rank * 10_000 + at).expect("small"))
}

/// Ranks in a ring put their inner columns into the halos of both neighbours, and get the
/// neighbours' rows as a check.
/// Shows O5, O1, O6.
pub(crate) fn plane(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    let win = Window::<f64>::allocate(world, ROWS * COLUMNS)?;
    let column = |at| subarray(&[ROWS, COLUMNS], &[ROWS - 2, 1], &[1, at]);
    let [halo_left, first, last, halo_right] = [column(0)?, column(1)?, column(COLUMNS - 2)?, column(COLUMNS - 1)?];
    let mine: Vec<_> = (0..ROWS * COLUMNS).map(|at| value(me, at)).collect();
    win.store(0, &mine)?;
    win.fence(|epoch| {
        step("fence");
        epoch.fence()?;
        epoch.put_items(&mine, 1, &last, At::new(right, 0, 1, &halo_left))?;
        epoch.put_items(&mine, 1, &first, At::new(left, 0, 1, &halo_right))
    })?;
    let mut found = vec![0.0; mine.len()];
    win.load(0, &mut found)?;
    for (at, &number) in found.iter().enumerate() {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let inner = (1..ROWS - 1).contains(&row);
        let expected = match column {
            0 if inner => value(left, row * COLUMNS + COLUMNS - 2),
            _ if inner && column == COLUMNS - 1 => value(right, row * COLUMNS + 1),
            _ => value(me, at),
        };
        ensure(
            number.to_bits() == expected.to_bits(),
            &format!("row {row}, column {column}: {number} not {expected}"),
        )?;
    }
    // A column of the neighbour becomes a row here.
    let row = subarray(&[ROWS, COLUMNS], &[1, ROWS - 2], &[4, 2])?;
    let mut turned = vec![0.0f64; ROWS * COLUMNS];
    win.lock_all(|epoch| epoch.scope(|part| part.get_items(&mut turned, 1, &row, At::new(right, 0, 1, &first))))?;
    for (at, &number) in turned.iter().enumerate() {
        let inside = (4 * COLUMNS + 2..4 * COLUMNS + ROWS).contains(&at);
        let expected = if inside { value(right, (at - 4 * COLUMNS - 1) * COLUMNS + 1) } else { 0.0 };
        ensure(number.to_bits() == expected.to_bits(), &format!("turned, at {at}: {number} not {expected}"))?;
    }
    let short = win.lock_all(|epoch| epoch.put_items(&mine[..COLUMNS], 1, &last, At::new(right, 0, 1, &halo_left)));
    ensure(class(short) == Some(transom::Class::Count), "a buffer that the layout reaches out of")?;
    Ok(win.free()?)
}

/// Each of the three kinds of faces of a cube, into the opposite face of the next rank.
/// Shows O5, O1.
pub(crate) fn cube(world: &Job) -> Outcome {
    const EDGE: usize = 7;
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let sizes = [EDGE; 3];
    for axis in 0..3 {
        step(format!("axis {axis}"));
        let win = Window::<f64>::create(world, vec![-1.0; EDGE * EDGE * EDGE])?;
        let face = |at: usize| {
            let (mut part, mut starts) = ([EDGE - 2; 3], [1; 3]);
            (part[axis], starts[axis]) = (1, at);
            subarray(&sizes, &part, &starts)
        };
        let (top, bottom) = (face(EDGE - 2)?, face(0)?);
        let mine: Vec<_> = (0..EDGE * EDGE * EDGE).map(|at| value(me, at)).collect();
        win.fence(|epoch| epoch.put_items(&mine, 1, &top, At::new(next, 0, 1, &bottom)))?;
        let strides = [EDGE * EDGE, EDGE, 1];
        for (at, number) in win.reclaim()?.into_iter().enumerate() {
            let place = strides.map(|stride| at / stride % EDGE);
            let inner = |other: usize| other == axis || (1..EDGE - 1).contains(&place[other]);
            let expected = match place[axis] == 0 && (0..3).all(inner) {
                true => value(before, at + (EDGE - 2) * strides[axis]),
                false => -1.0,
            };
            ensure(number.to_bits() == expected.to_bits(), &format!("{place:?}: {number} instead of {expected}"))?;
        }
    }
    Ok(())
}
