//! Notified operations on simulated nets, which deliver late and in another order: a counter never
//! moves before the data is there. No real transport is used.
//!
//! Route: sim.

use simulated::{on_every_net, same};
use transom::{Notice, Window, ops};

mod simulated;
mod support;
#[path = "notify/visible.rs"]
mod visible;

/// Each rank checks all data as soon as the counter has moved; operations that are not notified are
/// in flight beside.
#[test]
fn the_counter_moves_after_the_data() {
    on_every_net(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let win = Window::<u64>::allocate(world, 3000)?;
        win.set_num_notify(3)?;
        let value = |rank: usize, round: usize| (rank * 1000 + round) as u64 + 1;
        win.lock_all(|epoch| {
            for (round, len) in [1, 40, 1000, 2, 300].into_iter().cycle().take(10).enumerate() {
                world.step("a round");
                let data = vec![value(me, round); len];
                let other = vec![7; 1000];
                epoch.scope(|part| {
                    part.put(next, 2000, &other)?;
                    part.put_notify(next, 0, &data, Notice(0))?;
                    part.accumulate_notify(next, 1000, &data, ops::Replace, Notice(1))
                })?;
                win.notices().wait(0, round as u64 + 1)?;
                let mut came = vec![0; len];
                win.load(0, &mut came)?;
                assert!(came.iter().all(|&it| it == value(before, round)), "round {round}: {:?}", &came[..1]);
                win.notices().wait(1, round as u64 + 1)?;
                win.load(1000, &mut came)?;
                assert!(came.iter().all(|&it| it == value(before, round)), "round {round}, replaced");
                epoch.scope(|part| part.put_notify(before, 0, &[], Notice(2)))?;
                win.notices().wait(2, round as u64 + 1)?;
            }
            Ok(())
        })?;
        world.barrier()?;
        let counts = (0..3).map(|index| win.notices().reset(index)).collect::<transom::Result<Vec<_>>>()?;
        same("counts", &counts, &vec![10; 3])?;
        Ok(win.free()?)
    });
}

/// Every operation in every layout: shorter than a message, and in several transfers.
#[test]
fn the_data_of_every_operation_and_layout_comes_first() {
    on_every_net(2, |world| visible::data_first(world, &[3, 150], &|what| world.step(what)));
}

#[test]
fn as_many_puts_in_flight_are_complete_as_are_counted() {
    on_every_net(2, |world| {
        [3, 300].into_iter().try_for_each(|len| visible::in_flight(world, len, &|what| world.step(what)))
    });
}

/// A get's notice says that the data has been read: the target may overwrite it.
#[test]
fn what_was_got_may_be_overwritten() {
    on_every_net(2, |world| {
        let other = 1 - world.rank();
        let win = Window::<u64>::allocate(world, 200)?;
        win.set_num_notify(1)?;
        for round in 1..=8u64 {
            win.store(0, &vec![round; 200])?;
            win.sync();
            world.barrier()?;
            let mut got = vec![0; 200];
            win.lock_all(|epoch| {
                epoch.scope(|part| part.get_notify(other, 0, &mut got, Notice(0)))?;
                win.notices().wait(0, round)
            })?;
            win.store(0, &[99; 200])?;
            same("got", &got, &vec![round; 200])?;
        }
        Ok(win.free()?)
    });
}
