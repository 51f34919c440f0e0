//! Small operations of several blocks, such as columns of a matrix, on nets where the target's CPU
//! performs small operations: they share messages, and their message ends the epoch. What
//! `complete` awaits after such a message.
//!
//! Route: sim.

use simulated::{Outcome, Rank, cost, like_sockets, on_every_net, run, same};
use transom::{Access, Assert, At, BasicType, Datatype, Window, ops};
use transom_fabric::sim::{SimCounters, SimOptions};

mod simulated;

/// Rows and columns of the matrix that is a rank's part.
const SIDE: usize = 8;

/// An operation on column `at` of the matrix of a rank.
type Operation = for<'s> fn(&Access<'_, 's, i64>, to: At<'_>, &'s mut Vec<i64>) -> transom::Result<()>;

const PUT: Operation = |epoch, to, values| epoch.put_items(values, SIDE, &element(), to);
const GET: Operation = |epoch, to, values| epoch.get_items(values, SIDE, &element(), to);
const ADD: Operation = |epoch, to, values| epoch.accumulate_items(values, SIDE, &element(), to, ops::Sum);

fn element() -> Datatype {
    Datatype::basic(BasicType::Int64)
}

fn column() -> Datatype {
    Datatype::vector(SIDE, 1, SIDE as isize, &element()).expect("a vector")
}

fn messages(messages: u64) -> SimCounters {
    SimCounters { messages, ..SimCounters::default() }
}

/// The columns of the matrix of rank 0, whose element `at` of row `row` is 100 times the row and
/// `at`, plus `more`.
fn columns(more: i64) -> Vec<Vec<i64>> {
    (0..SIDE as i64).map(|at| (0..SIDE as i64).map(|row| 100 * row + at + more).collect()).collect()
}

fn matrix(win: &Window<i64>) -> transom::Result<Vec<Vec<i64>>> {
    let mut all = vec![0; SIDE * SIDE];
    win.load(0, &mut all)?;
    Ok((0..SIDE).map(|at| all.iter().skip(at).step_by(SIDE).copied().collect()).collect())
}

/// The puts, gets or accumulates of all columns are one request and one reply. While the first one
/// is in flight, the others are kept.
/// Shows O1, O2, O3, O5.
#[test]
fn operations_on_columns_share_a_message() {
    fn body(world: &Rank) -> Outcome {
        let win = Window::<i64>::allocate(world, SIDE * SIDE)?;
        let column = column();
        for (name, operation, more) in [("put", PUT, 0), ("get", GET, 0), ("add", ADD, 1)] {
            let mut costs = Vec::new();
            for turn in 0..10 {
                world.step(format!("{name}, turn {turn}"));
                if world.rank() == 0 && name == "add" {
                    let rows: Vec<i64> = (0..SIDE * SIDE).map(|at| (100 * (at / SIDE) + at % SIDE) as i64).collect();
                    win.store(0, &rows)?;
                }
                world.barrier()?;
                let mut values = match name {
                    "put" => columns(0),
                    "get" => vec![vec![-1; SIDE]; SIDE],
                    _ => vec![vec![1; SIDE]; SIDE],
                };
                if world.rank() == 1 {
                    win.lock_all(|epoch| {
                        let spent = cost(world, || {
                            epoch.scope(|part| {
                                (0..)
                                    .zip(&mut values)
                                    .try_for_each(|(at, it)| operation(part, At::new(0, at, 1, &column), it))
                            })
                        })?;
                        costs.push(spent);
                        Ok(())
                    })?;
                    if name == "get" {
                        same("the columns", &values, &columns(0))?;
                    }
                }
                world.barrier()?;
                if world.rank() == 0 {
                    same(name, &matrix(&win)?, &columns(more))?;
                }
                world.barrier()?;
            }
            if world.rank() == 1 {
                same(&format!("1 message: {costs:?}"), &costs.contains(&messages(1)), &true)?;
                let few = costs.iter().all(|cost| cost.messages <= 2);
                same(&format!("at first 2 messages: {costs:?}"), &few, &true)?;
            }
        }
        Ok(win.free()?)
    }
    run(2, &SimOptions { delay: 40, ..like_sockets(true, false) }, body);
}

/// Puts the columns `0..count` of the matrix of rank 1.
fn put_columns<'s>(epoch: &Access<'_, 's, i64>, values: &'s [Vec<i64>], count: usize) -> transom::Result<()> {
    let column = column();
    let mut some = (0..).zip(&values[..count]);
    some.try_for_each(|(at, it)| epoch.put_items(it, SIDE, &element(), At::new(1, at, 1, &column)))
}

/// The message of columns ends the epoch of `start`, and of fences where the first signal goes to
/// their target.
/// Shows S1, S2, O5.
#[test]
fn the_message_of_columns_ends_the_epoch() {
    fn body(world: &Rank) -> Outcome {
        let win = Window::<i64>::allocate(world, SIDE * SIDE)?;
        // First contact.
        win.fence(|epoch| epoch.put_value(1 - world.rank(), 0, 0))?;
        for (turn, count) in [(1, 1), (2, 2), (3, 1), (4, 8)] {
            let values = columns(turn);
            world.step(format!("turn {turn}, start"));
            world.barrier()?;
            if world.rank() == 0 {
                let spent = cost(world, || win.start(&[1], |epoch| put_columns(epoch, &values, count)))?;
                same("1 message for the columns and the end", &spent, &messages(1))?;
            } else {
                win.post(&[0])?;
                win.wait()?;
                same("after wait", &&matrix(&win)?[..count], &&values[..count])?;
            }
            world.step(format!("turn {turn}, fences"));
            let values = columns(10 * turn);
            let spent = cost(world, || {
                win.fence(|epoch| if world.rank() == 0 { put_columns(epoch, &values, count) } else { Ok(()) })
            })?;
            if world.rank() == 0 {
                same("no message more than an empty epoch", &spent, &cost(world, || win.fence(|_| Ok(())))?)?;
            } else {
                same("after the fence", &&matrix(&win)?[..count], &&values[..count])?;
                win.fence(|_| Ok(()))?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    run(2, &like_sockets(true, true), body);
}

/// `complete` sends the message of puts or accumulates that ends the epoch, and does not wait for
/// the answer. It waits for the data of gets. The operations are there when `wait` returns.
/// Shows S2, O1, O2, O3.
#[test]
fn complete_waits_only_for_answers_with_data() {
    type Operation = for<'s> fn(&Access<'_, 's, u64>, &'s mut [u64; 1]) -> transom::Result<()>;
    const OPERATIONS: [(Operation, bool); 4] = [
        (|epoch, value| epoch.put(1, 0, value), false),
        (|epoch, value| epoch.accumulate(1, 1, value, ops::Sum), false),
        (|epoch, value| epoch.get(1, 2, value), true),
        (|epoch, value| epoch.put(1, 0, value), false),
    ];
    for ordered in [true, false] {
        run(2, &SimOptions { delay: 40, ..like_sockets(true, ordered) }, |world| {
            let win = Window::<u64>::allocate(world, 4)?;
            win.fence(|epoch| epoch.put_value(1 - world.rank(), 3, 0))?;
            for (turn, (operate, waits)) in (1..).zip(OPERATIONS) {
                world.step(format!("epoch {turn}"));
                world.barrier()?;
                if world.rank() == 1 {
                    win.post_with(&[0], Assert::NOCHECK)?;
                }
                world.barrier()?;
                if world.rank() == 1 {
                    win.wait()?;
                    let sum = if turn > 1 { 2 } else { 0 };
                    let put = if turn > 3 { 4 } else { 1 };
                    let mut found = [0; 2];
                    win.load(0, &mut found)?;
                    same("after wait", &found, &[put, sum])?;
                    continue;
                }
                let mut value = [turn];
                let before = world.completion_polls();
                win.start_with(&[1], Assert::NOCHECK, |epoch| operate(epoch, &mut value))?;
                let polls = world.completion_polls() - before;
                same(&format!("more than 3 polls: {polls}"), &(polls > 3), &waits)?;
                same("what a get finds", &value, &[if waits { 0 } else { turn }])?;
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// Irregular blocks, more than a list of a message has, and columns beside other operations, on all
/// kinds of net.
/// Shows O1, O2, O5.
#[test]
fn blocks_of_all_kinds_arrive_beside_others() {
    on_every_net(3, |world| {
        const LEN: usize = 2048;
        let win = Window::<i64>::allocate(world, LEN)?;
        let to = (world.rank() + 1) % 3;
        for (turn, blocks) in (1i64..).zip([3, 20, 100, 300, 7]) {
            world.step(format!("turn {turn}, {blocks} blocks"));
            let places: Vec<usize> = (0..blocks).map(|at| 4 * at + at % 3).collect();
            let at: Vec<isize> = places.iter().map(|place| place.cast_signed()).collect();
            let some = Datatype::indexed_block(1, &at, &element())?;
            let values: Vec<i64> = places.iter().map(|&place| 1000 * turn + place as i64).collect();
            let mut found = vec![0; blocks];
            win.store(0, &[0; LEN])?;
            world.barrier()?;
            win.lock_all(|epoch| {
                epoch.put_value(to, LEN - 1, turn)?;
                epoch.put_items(&values, blocks, &element(), At::new(to, 0, 1, &some))?;
                epoch.put_value(to, LEN - 2, turn)?;
                epoch.accumulate_items(&values, blocks, &element(), At::new(to, 0, 1, &some), ops::Sum)?;
                epoch.flush(to)?;
                epoch.scope(|part| part.get_items(&mut found, blocks, &element(), At::new(to, 0, 1, &some)))
            })?;
            world.barrier()?;
            let mut all = vec![0; LEN];
            win.load(0, &mut all)?;
            same("the puts of single elements", &[all[LEN - 2], all[LEN - 1]], &[turn, turn])?;
            let there: Vec<i64> = places.iter().map(|&place| all[place]).collect();
            // Nothing orders a put and an accumulate: the sum, or the put alone.
            let right = |value: &i64, expected: &i64| *value == *expected || *value == 2 * *expected;
            same("the blocks", &there.iter().zip(&values).all(|(value, it)| right(value, it)), &true)?;
            same("the other elements", &(all.iter().sum::<i64>() - 2 * turn), &there.iter().sum())?;
            same("the gets", &found.iter().zip(&values).all(|(value, it)| right(value, it)), &true)?;
            world.barrier()?;
        }
        Ok(win.free()?)
    });
}
