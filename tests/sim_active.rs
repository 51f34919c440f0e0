//! The costs of active target synchronization in remote operations, on simulated nets of 2 to 512
//! ranks: groups, and fences. The tests count operations, and measure no times.
//!
//! Route: sim.

#![allow(unsafe_code)]

use simulated::{Outcome, Rank, contact, cost, messages, net_with, run, same};
use transom::{Assert, Info, RawWindow};
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimOptions};
use transom_fabric::{Coherence, Immediates};

mod simulated;

const SIZES: [usize; 6] = [2, 3, 4, 16, 64, 512];

/// Costs of groups at every rank: one notice of `post` for each origin, one of `complete` for each
/// target, none for `start` and `wait`. `notices(n)` is the cost of `n` notices.
fn groups(world: &Rank, notices: fn(u64) -> SimCounters) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    // A notice may follow an earlier one that is in flight.
    let cost =
        |call: &dyn Fn() -> transom::Result<()>| cost(world, call).map(|found| SimCounters { behind: 0, ..found });
    for members in [0, 1, 2, 9] {
        if members >= size {
            continue;
        }
        let targets: Vec<usize> = (1..=members).map(|step| (me + step) % size).collect();
        let origins: Vec<usize> = (1..=members).map(|step| (me + size - step) % size).collect();
        contact(&win, &targets)?;
        contact(&win, &origins)?;
        world.barrier()?;
        world.step(format!("groups of {members}"));
        let each = notices(members as u64);
        same("post", &cost(&|| win.post(&origins, Assert::NONE))?, &each)?;
        same("start", &cost(&|| win.start(&targets, Assert::NONE))?, &messages(0))?;
        same("complete", &cost(&|| win.complete())?, &each)?;
        same("wait", &cost(&|| win.wait())?, &messages(0))?;
        world.barrier()?;
        same("post without a check", &cost(&|| win.post(&origins, Assert::NOCHECK))?, &messages(0))?;
        world.barrier()?;
        win.start(&targets, Assert::NOCHECK)?;
        same("complete, unchecked", &cost(&|| win.complete())?, &each)?;
        win.wait()?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// A net on which operations are in flight until their targets have polled for long.
fn slow(ordered: bool) -> SimOptions {
    slow_with(SimDelivery { ordered, ..SimDelivery::default() })
}

fn slow_with(delivery: SimDelivery) -> SimOptions {
    SimOptions { delivery, delay: 40, done_one_in: 0, passive_target: false, ..net_with(SimAmo::None) }
}

/// A word of this rank's part.
fn word(win: &RawWindow, at: usize) -> u64 {
    let mut bytes = [0; 8];
    win.load(at * 8, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Puts `value` into this rank's word at `target`, and gets the word behind it into `into`.
fn transfer(win: &RawWindow, me: usize, target: usize, value: &u64, into: Option<&mut u64>) -> transom::Result<()> {
    // SAFETY: the caller keeps the value until the epoch has ended.
    unsafe { win.put(std::ptr::from_ref(value).cast(), 8, target, me as u64)? };
    match into {
        // SAFETY: the caller leaves the location alone until the epoch has ended.
        Some(into) => unsafe { win.get(std::ptr::from_mut(into).cast(), 8, target, 15) },
        None => Ok(()),
    }
}

/// Groups of all other ranks: `complete` costs one notice for each target. The result is the
/// number of these notices that followed puts in flight, in many epochs. `gets`: each epoch has a
/// get in addition to the put.
fn completes(world: &Rank, gets: bool, notices: fn(u64) -> SimCounters) -> Outcome<u64> {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 128, 8, &Info::new())?;
    let others: Vec<usize> = (1..size).map(|step| (me + step) % size).collect();
    let mut behind = 0;
    for turn in 1..=30 {
        world.step(format!("turn {turn}"));
        let (value, mut got) = (turn << 8 | me as u64, vec![7; if gets { size } else { 0 }]);
        win.post(&others, Assert::NONE)?;
        win.start(&others, Assert::NONE)?;
        others.iter().try_for_each(|&to| transfer(&win, me, to, &value, got.get_mut(to)))?;
        let found = cost(world, || win.complete())?;
        behind += found.behind;
        same("complete", &SimCounters { behind: 0, ..found }, &notices(others.len() as u64))?;
        same("gets", &got.iter().filter(|&&got| got == 0).count(), &if gets { others.len() } else { 0 })?;
        win.wait()?;
        let there = others.iter().all(|&from| word(&win, from) == turn << 8 | from as u64);
        same("the data is there when the target has waited", &there, &true)?;
        world.barrier()?;
    }
    win.free()?;
    Ok(behind)
}

/// Fences after puts to the ranks that are `steps` further on. Returns the number of signals of the
/// fences that followed puts in flight, as [`completes`] does for its messages.
fn fences(world: &Rank, steps: &[usize], notices: fn(u64) -> SimCounters) -> Outcome<u64> {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 128, 8, &Info::new())?;
    let rounds = u64::from(size.next_power_of_two().trailing_zeros());
    let mut behind = 0;
    // Where puts carry immediates, the fourth fence contacts the ranks that it signals.
    (0..4).try_for_each(|_| win.fence(Assert::NONE))?;
    for turn in 1..=30 {
        world.step(format!("turn {turn}"));
        let value = turn << 8 | me as u64;
        steps.iter().try_for_each(|step| transfer(&win, me, (me + step) % size, &value, None))?;
        let found = cost(world, || win.fence(Assert::NONE))?;
        behind += found.behind;
        same("fence", &SimCounters { behind: 0, ..found }, &notices(rounds))?;
        let mut origins = steps.iter().map(|step| (me + size - step) % size);
        let there = origins.all(|from| word(&win, from) == turn << 8 | from as u64);
        same("the data is there after the fence", &there, &true)?;
        win.fence(Assert::NONE)?;
    }
    win.fence(Assert::NOSUCCEED)?;
    win.free()?;
    Ok(behind)
}

/// Shows S1, S3.
#[test]
fn groups_cost_a_message_per_member() {
    for ranks in SIZES {
        run(ranks, &net_with(SimAmo::All(Coherence::DeviceOnly)), |world| groups(world, messages));
        run(ranks, &net_with(SimAmo::None), |world| groups(world, messages));
    }
}

/// Puts of no bytes.
fn immediates(puts: u64) -> SimCounters {
    SimCounters { puts, ..SimCounters::default() }
}

/// Where puts carry immediates, a notice of a group or a signal of a fence is a put of no bytes,
/// and no message. The data is there before the notice.
/// Shows S1, S3.
#[test]
fn groups_and_fences_cost_a_put_per_notice_where_puts_carry_immediates() {
    let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
    let device = net_with(SimAmo::All(Coherence::DeviceOnly));
    for ranks in [2, 3, 4, 16, 64] {
        let net = SimOptions { delivery, passive_target: false, ..device.clone() };
        run(ranks, &net, |world| groups(world, immediates));
    }
    for (ordered, gets, step) in [(true, false, 1), (true, true, 2), (false, false, 1)] {
        let net = slow_with(SimDelivery { ordered, ..delivery });
        for ranks in [2, 3, 5] {
            run(ranks, &net, move |world| {
                same("notices followed puts", &(completes(world, gets, immediates)? > 0), &(ordered && !gets))
            });
            run(ranks, &net, move |world| {
                same("signals followed puts", &(fences(world, &[step], immediates)? > 0), &(ordered && step == 1))
            });
        }
    }
}

/// A notice does not wait for puts that the net delivers before it. It waits if the net keeps no
/// order, and for gets in flight, because their target may change the data after the notice.
/// Shows S1.
#[test]
fn complete_follows_puts_where_the_net_keeps_order() {
    for (ordered, gets) in [(true, false), (true, true), (false, false)] {
        for ranks in [2, 3, 5] {
            run(ranks, &slow(ordered), move |world| {
                same("notices followed puts", &(completes(world, gets, messages)? > 0), &(ordered && !gets))
            });
        }
    }
}

/// The first signal of a fence follows puts to its receiver, and waits for puts to any other rank.
/// Shows S1.
#[test]
fn a_fence_follows_puts_to_the_receiver_of_its_first_signal() {
    for (ordered, ranks, step, follows) in
        [(true, 2, 1, true), (true, 3, 1, true), (true, 5, 1, true), (true, 3, 2, false), (false, 2, 1, false)]
    {
        run(ranks, &slow(ordered), move |world| {
            same("signals followed puts", &(fences(world, &[step], messages)? > 0), &follows)
        });
    }
    // Of puts to two ranks, those to the second may be complete before the fence.
    run(5, &slow(true), |world| fences(world, &[1, 2], messages).map(drop));
}
