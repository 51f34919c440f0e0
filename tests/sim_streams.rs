//! Long puts and gets over a net that is slower with them while others are in flight
//! (`Limits::stream_max`): they are cut, unless they are alone or very long.
//!
//! Route: sim.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use simulated::{cost, run, same};
use transom::Window;
use transom_fabric::sim::{SimMail, SimOptions};

mod simulated;

/// Elements of 8 bytes: three pieces.
const LEN: usize = 3000;
const PIECE: usize = 8192;
/// More than what is cut.
const LONG: usize = 70_000;
/// The target may poll at any time, from a thread of its own, and the first transfer is then
/// complete before the second one. This happens seldom, so it does not happen in every turn.
const TURNS: usize = 20;

fn net() -> SimOptions {
    SimOptions {
        transfer_max: 1 << 20,
        again_one_in: 0,
        done_one_in: 0,
        // Nothing is complete before the target polls.
        passive_target: false,
        mail: SimMail { ordered: true, stream_max: Some(PIECE), ..SimMail::default() },
        ..SimOptions::default()
    }
}

/// Shows O1, O2.
#[test]
fn long_transfers_are_cut_beside_others() {
    // The number of turns whose transfers are posted.
    let posted = Arc::new(AtomicUsize::new(0));
    run(2, &net(), move |world| {
        let win = Window::<u64>::allocate(world, LONG)?;
        let values: Vec<u64> = (0..LONG as u64).map(|value| value * 3).collect();
        let mut found = [vec![0; LEN], vec![0; LEN], vec![0; LONG]];
        let [first, second, long] = &mut found;
        if world.rank() == 0 {
            // The first contact.
            win.lock_all(|epoch| epoch.put(1, 0, &[1]))?;
        }
        let mut most = [(0, 0); 2];
        for turn in 0..TURNS {
            world.barrier()?;
            if world.rank() == 1 {
                while posted.load(Ordering::Acquire) <= turn {
                    std::thread::yield_now();
                }
                continue;
            }
            let spent = cost(world, || {
                win.lock_all(|epoch| {
                    epoch.scope(|part| {
                        if turn % 2 == 0 {
                            part.put(1, 0, &values[..LEN])?;
                            part.put(1, LEN, &values[LEN..2 * LEN])?;
                        } else {
                            part.get(1, 0, &mut *first)?;
                            part.get(1, LEN, &mut *second)?;
                        }
                        posted.store(turn + 1, Ordering::Release);
                        Ok(())
                    })
                })
            })?;
            most[turn % 2] = most[turn % 2].max((spent.puts, spent.gets));
        }
        world.barrier()?;
        if world.rank() == 0 {
            // The first transfer is alone, the second one takes three pieces.
            same("transfers", &most, &[(1 + 3, 0), (0, 1 + 3)])?;
            let put = cost(world, || win.lock_all(|epoch| epoch.put(1, 0, &values)))?;
            let get = cost(world, || win.lock_all(|epoch| epoch.get(1, 0, long)))?;
            same("long ones", &(put.puts, get.gets), &(1, 1))?;
            same("the first get", &found[0], &values[..LEN].to_vec())?;
            same("the second get", &found[1], &values[LEN..2 * LEN].to_vec())?;
            same("the long get", &found[2], &values)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}
