//! Windows within the limits that libfabric documents for Slingshot's provider `cxi`: keys of
//! regions are small numbers that are reused, and the first hundred are fast. The test has not run
//! on such hardware. All programs on simulated nets run with the other properties of that net
//! (`simulated::nets`).
//!
//! Route: sim.

use simulated::{Outcome, Rank, like_cxi, run, same};
use transom::{Actor, Class, Window};
use transom_fabric::sim::{SimOptions, SimRegions};

mod simulated;

/// Words of each window.
const WORDS: usize = 4;

/// Puts, adds and reads through each window in turn, each window with separate values.
fn use_all(world: &Rank, windows: &[Window<u64>], turn: u64) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    for (number, win) in (0u64..).zip(windows) {
        let added = win.lock_all(|epoch| {
            epoch.put_value(next, 0, turn + number)?;
            epoch.put_value(next, 2, !number)?;
            // No other rank adds there.
            let before = epoch.fetch_add(next, 1, number)?;
            Ok(epoch.fetch_add(next, 1, 0)? - before)
        })?;
        same(&format!("added by window {number} of turn {turn}"), &added, &number)?;
    }
    world.barrier()?;
    for (number, win) in (0u64..).zip(windows) {
        let mut found = [0; WORDS];
        win.load(0, &mut found)?;
        same(&format!("window {number} of turn {turn}"), &(found[0], found[2]), &(turn + number, !number))?;
    }
    Ok(world.barrier()?)
}

/// 1,000 windows live at once, each with one region at each rank, in addition to the job's own. The
/// first windows have the fast keys; the others have slow keys and behave alike.
/// Shows W7, T3.
#[test]
fn a_thousand_windows_exceed_the_fast_keys() {
    run(2, &SimOptions { delay: 1, again_one_in: 0, ..like_cxi(0) }, |world| {
        same("before", &world.regions(), &[1, 0])?;
        let mut all = (0..1000).map(|_| Window::<u64>::allocate(world, WORDS)).collect::<Result<Vec<_>, _>>()?;
        same("the device performs atomics", &all[999].actor(), &Actor::Nic)?;
        same("fast and other keys", &world.regions(), &[100, 901])?;
        use_all(world, &all, 5000)?;
        let slow = all.split_off(99);
        slow.into_iter().try_for_each(Window::free)?;
        same("after the slow ones", &world.regions(), &[100, 0])?;
        use_all(world, &all, 7000)?;
        all.into_iter().try_for_each(Window::free)?;
        same("after all", &world.regions(), &[1, 0])
    });
}

/// Windows are created and freed in different orders: a reused key belongs to its current window.
/// Shows W2, W7, T3.
#[test]
fn keys_are_used_again() {
    for seed in 0..4 {
        run(3, &like_cxi(seed), |world| {
            let make = || Window::<u64>::allocate(world, WORDS);
            let mut live = (0..5).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
            for turn in 0..12 {
                world.step(format!("turn {turn}"));
                use_all(world, &live, 100 * turn)?;
                live.swap_remove(usize::try_from(turn * 7 % 5)?).free()?;
                live.push(make()?);
                same("fast and other keys", &world.regions(), &[6, 0])?;
            }
            Ok(live.into_iter().try_for_each(Window::free)?)
        });
    }
}

/// Where a device has no room for another region, creation fails at all ranks with an error.
/// Existing windows keep working, and freeing one makes room again.
/// Shows E1, W2, T3.
#[test]
fn a_full_device_refuses_new_windows_and_keeps_old_ones() {
    let cxi = like_cxi(1);
    let regions = SimRegions { most: Some(104), ..cxi.regions };
    run(2, &SimOptions { regions, ..cxi }, |world| {
        let mut live = Vec::new();
        let error = loop {
            match Window::<u64>::allocate(world, WORDS) {
                Ok(win) => live.push(win),
                Err(error) => break error,
            }
        };
        same("windows that fit", &(live.len(), world.regions()), &(103, [100, 4]))?;
        same("class", &error.class(), &Class::Other)?;
        same("words", &format!("{error:#}").contains("limit of 104 regions"), &true)?;
        use_all(world, &live, 1)?;
        live.swap_remove(40).free()?;
        live.push(Window::allocate(world, WORDS)?);
        use_all(world, &live, 2)?;
        Ok(live.into_iter().try_for_each(Window::free)?)
    });
}
