//! Fences over sockets: the message of small operations signals the fence too, and the answer to it
//! may be sent with the next signal in return.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use simulated::{Outcome, Rank, cost, like_sockets, run, same};
use transom::{Assert, Info, RawWindow};
use transom_fabric::sim::{SimDelivery, SimOptions};

mod simulated;

fn net() -> SimOptions {
    SimOptions { transfer_max: 1 << 20, ..like_sockets(true, true) }
}

/// The answer to the message that signals a fence may be sent with the next signal in return. If
/// both ranks put, each waits for an answer in its fence, and no answer waits for its limit.
/// Shows S1, O2.
#[test]
fn answers_are_sent_with_the_next_signals() {
    const TURNS: u64 = 100;
    let saved = |origins, answers_wait| {
        let delivery = SimDelivery { gathers: true, answers_wait, ..SimDelivery::default() };
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        run(2, &SimOptions { delivery, again_one_in: 0, ..net() }, move |world| {
            let messages = puts_between_fences(world, origins, TURNS)?;
            if world.rank() == 1 {
                count.store(messages, Ordering::Relaxed);
            }
            Ok(())
        });
        // Two signals and an answer in each turn.
        (3 * TURNS).saturating_sub(sent.load(Ordering::Relaxed))
    };
    let long = Duration::from_secs(60);
    assert_eq!(saved(1, Duration::ZERO), 0, "answers rode");
    // Where threads wait for a core, a progress thread may send each answer before the signal.
    assert!((0..20).any(|_| saved(1, long) > 0), "no answer rode");
    // Two such waits take longer than the job may.
    saved(2, long);
}

/// The messages of a rank for turns of a put by each of the first `origins` ranks to the other
/// rank, and two fences.
fn puts_between_fences(world: &Rank, origins: usize, turns: u64) -> Outcome<u64> {
    let win = RawWindow::allocate(world, 32, 8, &Info::new())?;
    let me = world.rank();
    win.fence(Assert::NOPRECEDE)?;
    let spent = cost(world, || {
        (1..=turns).try_for_each(|turn| {
            world.step(format!("{origins} origins, turn {turn}"));
            let (from, mut found) = (turn.to_ne_bytes(), [0; 8]);
            if me < origins {
                // SAFETY: the buffer outlives the epoch.
                unsafe { win.put(from.as_ptr(), 8, 1 - me, 0) }?;
            }
            win.fence(Assert::NONE)?;
            win.load(0, &mut found);
            let is_target = me == 1 || origins == 2;
            assert_eq!(found, if is_target { from } else { [0; 8] }, "the put of turn {turn}");
            // The next put of the other rank comes after this.
            win.fence(Assert::NOPUT)
        })
    })?;
    world.barrier()?;
    win.free()?;
    Ok(spent.messages)
}

/// All ranks get into their own parts between fences, and in the next epoch get the results from
/// each other's parts, and put to their places.
/// Shows S1, O2.
#[test]
fn a_fence_signals_behind_the_results_of_gets() {
    const TURNS: u64 = 6;
    for (model, ranks, seed) in ["unified", "separate"]
        .iter()
        .flat_map(|model| [2, 3, 4].map(|ranks| (model, ranks)))
        .flat_map(|(model, ranks)| (0..8).map(move |seed| (*model, ranks, seed)))
    {
        let options = SimOptions { seed, delay: 20, ..net() };
        run(ranks, &options, move |world| {
            let (me, size) = (world.rank(), world.size());
            let win = RawWindow::allocate(world, 64, 8, &Info::new().with("transom_model", model))?;
            let value = |rank: usize, turn: u64| 100 * turn + (rank % size) as u64;
            let word = |at: usize| {
                let mut word = [0; 8];
                win.load(8 * at, &mut word);
                u64::from_ne_bytes(word)
            };
            win.fence(Assert::NOPRECEDE)?;
            for turn in 1..=TURNS {
                world.step(format!("{model}, turn {turn}"));
                win.store(0, &value(me, turn).to_ne_bytes());
                win.fence(Assert::NONE)?;
                let next = (me + 1) % size;
                // SAFETY: word 2 of the part is accessed by this get alone until the fence.
                unsafe { win.get(win.base().add(16), 8, next, 0)? };
                win.fence(Assert::NONE)?;
                same("what the get stored", &word(2), &value(me + 1, turn))?;
                let (mut got, new) = (0u64, value(me, turn) + 7);
                // SAFETY: both outlive the epoch.
                unsafe {
                    win.get((&raw mut got).cast(), 8, next, 2)?;
                    win.put((&raw const new).cast(), 8, (me + 2) % size, 4)?;
                }
                win.fence(Assert::NONE)?;
                same("the result of the next rank's get", &got, &value(me + 2, turn))?;
                same("a put", &word(4), &(value(me + size * 2 - 2, turn) + 7))?;
            }
            win.fence(Assert::NOSUCCEED)?;
            Ok(win.free()?)
        });
    }
}
