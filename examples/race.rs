//! A race that the conflict checker finds.
//!
//! `TRANSOM_CHECK=1 transom-run -n 2 target/debug/examples/race`: each rank adds to a counter of
//! rank 1 by a get and a put, so counts are lost. The checker reports both calls with their lines.
//! With the argument `right` the ranks add by an atomic, and nothing is reported.

use std::io::Write;

use transom::{Job, Window};

/// How often each rank adds.
const TIMES: u64 = 1000;

/// Adds one to the counter. Wrong if another rank adds at the same time.
fn by_get_and_put(win: &Window<u64>, owner: usize) -> transom::Result<()> {
    win.lock_all(|epoch| {
        let mut count = [0];
        epoch.scope(|part| part.get(owner, 0, &mut count))?;
        epoch.put_value(owner, 0, count[0] + 1)?;
        epoch.flush(owner)
    })
}

/// Adds one to the counter.
fn by_atomic(win: &Window<u64>, owner: usize) -> transom::Result<()> {
    win.lock_all(|epoch| epoch.fetch_add(owner, 0, 1).map(drop))
}

fn counted(world: &Job, add: fn(&Window<u64>, usize) -> transom::Result<()>) -> transom::Result<u64> {
    let owner = 1 % world.size();
    let win = Window::<u64>::allocate(world, 1)?;
    for _ in 0..TIMES {
        add(&win, owner)?;
    }
    world.barrier()?;
    let count = win.lock_all(|epoch| epoch.fetch_value(owner, 0))?;
    win.free()?;
    Ok(count)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let add = match std::env::args().nth(1).as_deref() {
        None => by_get_and_put,
        Some("right") => by_atomic,
        Some(other) => return Err(format!("{other:?}: the only argument is `right`").into()),
    };
    let world = transom::init()?;
    let count = counted(&world, add)?;
    if world.rank() == 0 {
        let expected = TIMES * world.size() as u64;
        writeln!(std::io::stdout(), "counted {count} of {expected}")?;
    }
    Ok(world.finalize()?)
}
