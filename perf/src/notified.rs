//! Notified puts: a ping-pong between ranks 0 and 1, compared with one of stores and flags.

use transom::{Job, Notice};

use crate::floor::Floor;
use crate::iterations::window;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;
use crate::rounds::{alternate_rounds, per_round};

/// Number of different values that are put.
const VALUES: u64 = 256;

/// Round trips of 8 bytes: a notified put, for whose notice rank 1 waits, and a notified put back.
/// The buffers live as long as the epoch, so no rank waits for the completion of its put. Both
/// ranks alternate a round of the library and a round of the floor.
pub(crate) fn pingpong(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    win.set_num_notify(1)?;
    let (me, each) = (world.rank(), per_round(options));
    let floor = floor.filter(|floor| floor.has(Test::NotifyPingpong));
    let mut turn = 0u64;
    // Ranks 0 and 1 exchange puts; the other ranks only enter the barriers.
    let turns = if me < 2 { each } else { 0 };
    let values: Vec<u64> = (0..VALUES).collect();
    let rounds = win.lock_all(|epoch| {
        let round_trips = || {
            (0..turns).try_for_each(|_| {
                turn += 1;
                if me == 1 {
                    win.notices().wait(0, turn)?;
                }
                let value = &values[(turn % VALUES) as usize];
                epoch.put_notify(1 - me, 0, std::slice::from_ref(value), Notice(0))?;
                if me == 0 { win.notices().wait(0, turn) } else { Ok(()) }
            })
        };
        // The barrier before each round of the floor lets the targets answer the last put, so that
        // this answer takes no time of the floor.
        let bare = || floor.map_or(Ok(()), |floor| floor.together(Test::NotifyPingpong, each));
        alternate_rounds(round_trips, || world.barrier(), bare)
    })?;
    let row = rounds.row(each, floor.is_some())?;
    world.barrier()?;
    let mut last = [0];
    win.load(0, &mut last)?;
    let counted = win.notices().value(0)?;
    if options.check && me < 2 && (last[0], counted) != (turn % VALUES, turn) {
        return Err(format!("after {turn} puts the last value is {}, and the counter is {counted}", last[0]).into());
    }
    world.barrier()?;
    win.free()?;
    Ok((me == 0).then_some(row))
}
