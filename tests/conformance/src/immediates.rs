//! Puts that carry a number to the target's handler. A port without them refuses them.

use std::sync::PoisonError;

use transom_fabric::{Domain, Immediate, Peer, Port, Post, Reason, Tally};

use crate::team::{bytes, filled, pattern};
use crate::{Fixture, Rank, Window, run};

/// Whether the port takes immediates, as the fixture says. Asserts a port's refusal.
fn takes<F: Fixture>(rank: &Rank<'_, F>, window: &Window<F>) -> bool {
    let port = rank.domain().port();
    let takes = port.limits().immediates.any();
    assert_eq!(takes, fixture_takes(rank), "what the port promises");
    if !takes {
        let tally = Tally::new();
        let answer = port.put_immediate(&window.remotes[1], 0, &[1; 8], number(1), &tally);
        let Post::Broken(fault) = answer else { panic!("answered {answer:?}") };
        let reason = format!("{:?}", Reason::NoImmediates);
        assert!(format!("{:?}", fault.cause).contains(&reason), "{fault:?}");
        assert!(tally.idle());
    } else if let Some(wide) = Immediate::new(1 << port.limits().immediates.bits) {
        let (tally, target) = (Tally::new(), &window.remotes[(rank.me.index() + 1) % window.remotes.len()]);
        let answer = port.put_immediate(target, 0, &[1; 8], wide, &tally);
        assert!(matches!(answer, Post::Broken(_)) && tally.idle(), "a number of too many bits: {answer:?}");
    }
    takes
}

fn fixture_takes<F: Fixture>(rank: &Rank<'_, F>) -> bool {
    rank.fixture().orders().immediates
}

fn number(number: usize) -> Immediate {
    Immediate::new(u32::try_from(number).expect("a small number")).expect("an immediate")
}

/// The immediates that have come so far, each with its origin.
fn came<F: Fixture>(rank: &Rank<'_, F>) -> Vec<(Peer, u32)> {
    let immediates = rank.immediates.lock().unwrap_or_else(PoisonError::into_inner);
    immediates.iter().map(|&(from, immediate)| (from, immediate.number())).collect()
}

/// "The target's handler gets `immediate` once the target has these bytes and those of the puts of
/// at most `Immediates::follow` bytes that this process had posted to the target before": bursts of
/// puts of several lengths, each with an immediate right behind it, from two origins.
pub fn immediates_follow_puts(fixture: &impl Fixture) {
    const BURSTS: usize = 60;
    const SMALL: usize = 4;
    run(fixture, 3, |rank| {
        let limits = rank.domain().port().limits();
        let long = limits.transfer_max.min(100_000).min(limits.immediates.follow);
        let carried = limits.packed_max.min(700);
        let step = (SMALL * 8 + long + carried).next_multiple_of(8);
        let window = rank.window(2 * BURSTS * step);
        if !takes(rank, &window) {
            return;
        }
        let place = |from: usize, burst: usize| ((from - 1) * BURSTS + burst) * step;
        // Some immediates carry no bytes, others as many as they can.
        let tail = |burst: usize| [0, 8, carried][burst % 3];
        if rank.me.0 != 0 {
            let tally = Tally::new();
            for burst in 0..BURSTS {
                rank.step(format!("burst {burst}"));
                let (from, at) = (pattern(burst, step), place(rank.me.index(), burst) as u64);
                let target = &window.remotes[0];
                if burst.is_multiple_of(4) {
                    rank.put(target, at + (SMALL * 8) as u64, &filled(&from[SMALL * 8..][..long]), &tally);
                }
                for word in (0..SMALL * 8).step_by(8) {
                    rank.put(target, at + word as u64, &filled(&from[word..][..8]), &tally);
                }
                let (offset, carries) = (SMALL * 8 + long, number(burst));
                let bytes = &from[offset..][..tail(burst)];
                rank.post(|port| port.put_immediate(target, at + offset as u64, bytes, carries, &tally));
            }
            rank.flush(&tally);
        } else {
            // Two threads could pass their immediates to the handler in another order.
            rank.pause();
            let mut next = [0, 0, 0];
            while next != [0, BURSTS, BURSTS] {
                let seen = next[1] + next[2];
                rank.until("the next immediate", || came(rank).len() > seen);
                let (from, burst) = came(rank)[seen];
                assert_eq!(next[from.index()], burst as usize, "immediates of {from} keep their order");
                next[from.index()] += 1;
                let (burst, at) = (burst as usize, place(from.index(), burst as usize));
                let expected = pattern(burst, step);
                let first = if burst.is_multiple_of(4) { SMALL * 8 + long } else { SMALL * 8 };
                assert!(bytes(&window.memory, at, first) == expected[..first], "burst {burst} of {from}");
                let offset = SMALL * 8 + long;
                let last = bytes(&window.memory, at + offset, tail(burst));
                assert!(last == expected[offset..][..tail(burst)], "the last bytes of burst {burst} of {from}");
            }
            rank.resume();
        }
        rank.barrier();
    });
}

/// "When the call returns, the handler has had them all": the origins have completed their puts,
/// while other threads of the target may be taking the immediates.
pub fn settled_immediates_are_all_there(fixture: &impl Fixture) {
    const ROUNDS: usize = 40;
    const EACH: usize = 70;
    // Fewer than the immediates of one origin that may be unread.
    const LAST: usize = 30;
    run(fixture, 3, |rank| {
        let window = rank.window(64);
        if !takes(rank, &window) {
            return;
        }
        for round in 1..=ROUNDS {
            if rank.me.0 != 0 {
                let tally = Tally::new();
                for at in 0..EACH {
                    rank.post(|port| port.put_immediate(&window.remotes[0], 0, &[7; 8], number(at), &tally));
                }
                rank.flush(&tally);
            } else {
                // The origins need progress here: their immediates are more than wait at once.
                rank.until("most immediates", || came(rank).len() >= 2 * round * EACH - LAST);
            }
            rank.barrier();
            if rank.me.0 == 0 {
                rank.domain().port().settle(rank).expect("no failure");
                assert_eq!(came(rank).len(), 2 * round * EACH, "round {round}");
            }
            rank.barrier();
        }
    });
}
