//! Notified puts: a ping-pong between ranks 0 and 1, compared with one of stores and flags.

use std::time::Instant;

use transom::{Job, Notice};

use crate::floor::Floor;
use crate::iterations::window;
use crate::kinds::Test;
use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;
use crate::synchronization::{ROUNDS, per_round};

/// Round trips of 8 bytes: a notified put, for whose notice rank 1 waits, and a notified put back.
/// Both ranks alternate a round of the library and a round of the floor.
pub(crate) fn pingpong(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    win.set_num_notify(1)?;
    let (me, each) = (world.rank(), per_round(options));
    let floor = floor.filter(|floor| floor.has(Test::NotifyPingpong));
    let (mut turn, mut times) = (0u64, (Vec::new(), Vec::new()));
    // Only two ranks play; all pass the barriers.
    let turns = if me < 2 { each } else { 0 };
    // The failure of a bare round. It fails at both ranks, since each waits for the other.
    let mut failed = None;
    win.lock_all(|epoch| {
        for round in 0..=ROUNDS {
            let start = Instant::now();
            for _ in 0..turns {
                turn += 1;
                if me == 1 {
                    win.notices().wait(0, turn)?;
                }
                let data = [turn];
                epoch.scope(|part| part.put_notify(1 - me, 0, &data, Notice(0)))?;
                if me == 0 {
                    win.notices().wait(0, turn)?;
                }
            }
            let library = start.elapsed();
            // The last put is answered here, and not while the floor is measured.
            world.barrier()?;
            let start = Instant::now();
            let floor = floor.filter(|_| failed.is_none());
            if let Some(Err(error)) = floor.map(|floor| floor.together(Test::NotifyPingpong, each)) {
                failed = Some(error);
            }
            // The first round warms up.
            if round > 0 && failed.is_none() {
                times.0.push(library);
                times.1.push(start.elapsed());
            }
        }
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    world.barrier()?;
    let mut last = [0];
    win.load(0, &mut last)?;
    let counted = win.notices().value(0)?;
    if options.check && me < 2 && (last[0], counted) != (turn, turn) {
        return Err(format!("after {turn} puts the last value is {}, and the counter is {counted}", last[0]).into());
    }
    world.barrier()?;
    win.free()?;
    let bare = floor.map(|_| Times::of_durations(&times.1, each));
    Ok((me == 0).then(|| Row::new(8, Times::of_durations(&times.0, each), bare)))
}
