//! Messages arrive once, whole, with their sender; sleepers are woken.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transom_fabric::{Awaited, Domain, Peer, Port, Tally};

use crate::team::{bytes, filled, lengths, pattern};
use crate::{Fixture, Rank, peers, run};

fn arrived<F: Fixture>(rank: &Rank<'_, F>) -> usize {
    let inbox = rank.inbox.lock();
    inbox.unwrap_or_else(PoisonError::into_inner).len()
}

fn take<F: Fixture>(rank: &Rank<'_, F>) -> Vec<(Peer, Vec<u8>)> {
    let inbox = rank.inbox.lock();
    let mut messages = std::mem::take(&mut *inbox.unwrap_or_else(PoisonError::into_inner));
    messages.sort();
    messages
}

/// "It arrives once, in no particular order." All to all, the sender itself included, more than
/// any queue takes at once.
pub fn messages_arrive_once(fixture: &impl Fixture) {
    const EACH: u32 = 200;
    run(fixture, 3, |rank| {
        let text = |from: Peer, to: Peer, at: u32| [from.0, to.0, at].map(u32::to_ne_bytes).concat();
        for at in 0..EACH {
            for to in peers(rank.ranks) {
                rank.send(to, &text(rank.me, to, at));
            }
        }
        let expected: usize = 3 * EACH as usize;
        rank.until("all messages", || arrived(rank) >= expected);
        rank.barrier();
        // A duplicate would have been sent by now.
        for _ in 0..100 {
            rank.progress();
        }
        let mut all: Vec<_> =
            peers(rank.ranks).flat_map(|from| (0..EACH).map(move |at| (from, text(from, rank.me, at)))).collect();
        all.sort();
        assert!(take(rank) == all, "{} got other messages", rank.me);
    });
}

/// "Sends a message of at most `message_max` bytes, copied before this returns."
pub fn messages_of_every_length(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let lengths = lengths(rank.domain().port().limits().message_max);
        if rank.me.0 == 0 {
            for (turn, len) in lengths.iter().enumerate() {
                let mut passing = pattern(turn, *len);
                rank.send(Peer(1), &passing);
                passing.fill(0);
            }
        } else {
            rank.until("all lengths", || arrived(rank) >= lengths.len());
            let mut expected: Vec<_> =
                lengths.iter().enumerate().map(|(turn, len)| (Peer(0), pattern(turn, *len))).collect();
            expected.sort();
            assert!(take(rank) == expected, "the messages differ");
        }
    });
}

/// "A message arrives only when its target has the data of all puts that this process had posted to
/// that target before": bursts of puts of several lengths, each with a message right behind it.
pub fn messages_follow_puts_where_promised(fixture: &impl Fixture) {
    const BURSTS: usize = 40;
    const SMALL: usize = 6;
    run(fixture, 2, |rank| {
        let limits = rank.domain().port().limits();
        let long = limits.transfer_max.min(100_000);
        let step = SMALL * 8 + long.next_multiple_of(8);
        let window = rank.window(BURSTS * step);
        assert_eq!(limits.ordered, fixture.orders().messages, "the promised order");
        if !limits.ordered {
            return rank.report("skipped: the port does not promise that messages follow puts");
        }
        let (remote, tally) = (&window.remotes[1], Tally::new());
        if rank.me.0 == 0 {
            for burst in 0..BURSTS {
                rank.step(format!("burst {burst}"));
                let data = pattern(burst, step);
                // The long put is the first, the last, or absent, in turn.
                let order: &[bool] = [&[true, false][..], &[false, true], &[false]][burst % 3];
                for &is_long in order {
                    if is_long {
                        let part = filled(&data[SMALL * 8..][..long]);
                        rank.put(remote, (burst * step + SMALL * 8) as u64, &part, &tally);
                    } else {
                        for at in (0..SMALL * 8).step_by(8) {
                            rank.put(remote, (burst * step + at) as u64, &filled(&data[at..][..8]), &tally);
                        }
                    }
                }
                rank.send(Peer(1), &[u8::try_from(burst).expect("few bursts")]);
            }
            rank.flush(&tally);
        } else {
            let mut seen = 0;
            while seen < BURSTS {
                rank.until("the next message", || arrived(rank) > 0);
                for (_, message) in take(rank) {
                    let burst = usize::from(message[0]);
                    let len = if burst % 3 == 2 { SMALL * 8 } else { SMALL * 8 + long };
                    let expected = &pattern(burst, step)[..len];
                    assert!(
                        bytes(&window.memory, burst * step, len) == expected,
                        "burst {burst} is behind its message"
                    );
                    seen += 1;
                }
            }
        }
        rank.barrier();
    });
}

/// "It may post, and must queue a post that is answered `Again`": every message is echoed by its
/// handler.
pub fn a_handler_may_post(fixture: &impl Fixture) {
    const EACH: u8 = 60;
    run(fixture, 3, |rank| {
        // Release: pairs with the Acquire in the handler.
        rank.echo.store(true, Ordering::Release);
        rank.barrier();
        for at in 0..EACH {
            for to in peers(rank.ranks) {
                rank.send(to, &[1, at]);
            }
        }
        let owed = || rank.owed.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        // From every rank its messages, and the echoes of this rank's own.
        let expected = 2 * 3 * usize::from(EACH);
        rank.until("messages and echoes", || {
            while let Some((to, answer)) = owed() {
                rank.send(to, &answer);
            }
            arrived(rank) >= expected
        });
        // This rank may still owe echoes, and more may become due while other ranks send.
        while let Some((to, answer)) = owed() {
            rank.send(to, &answer);
        }
        rank.barrier();
        let mut all: Vec<_> = peers(rank.ranks)
            .flat_map(|from| (0..EACH).flat_map(move |at| [(from, vec![0, at]), (from, vec![1, at])]))
            .collect();
        all.sort();
        assert!(take(rank) == all, "{} got other messages", rank.me);
    });
}

/// "Sleeps until `progress` may find an event": a message ends a wait that would last much longer
/// than the test may.
pub fn a_message_ends_a_wait(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        // Another thread that takes the message would leave the sleeper asleep.
        rank.pause();
        rank.barrier();
        for turn in 0..10 {
            if rank.me.0 == 1 {
                while arrived(rank) <= turn {
                    rank.step(format!("asleep, message {turn}"));
                    rank.domain().port().wait(Duration::from_secs(3600));
                    rank.progress();
                }
            } else {
                std::thread::sleep(Duration::from_millis(turn as u64 % 3));
                rank.send(Peer(1), b"wake up");
            }
            rank.barrier();
        }
        let expected = if rank.me.0 == 1 { 10 } else { 0 };
        assert_eq!(arrived(rank), expected);
    });
}

/// "False where `limit` passed": after traffic has ended, a wait lasts. Regression: over `net` the
/// descriptor stayed readable after the first message, and each wait ended at once.
pub fn a_wait_after_traffic_lasts(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        rank.pause();
        rank.barrier();
        if rank.me.0 == 0 {
            rank.send(Peer(1), b"traffic");
        }
        while rank.me.0 == 1 && arrived(rank) == 0 {
            rank.progress();
        }
        rank.barrier();
        let port = rank.domain().port();
        let lasted = (0..100).any(|turn| {
            rank.step(format!("asleep without traffic, wait {turn}"));
            rank.progress();
            !port.wait_with_descriptor(Duration::from_millis(5), Awaited::Completions, None, || true)
        });
        assert!(lasted, "each of 100 waits ended before its limit");
        rank.barrier();
    });
}

/// "Ends a `wait` of another thread, or the next one."
pub fn wake_ends_a_wait(fixture: &impl Fixture) {
    run(fixture, 1, |rank| {
        let port = rank.domain().port();
        // Another thread in `wait` could take the wake-up.
        rank.pause();
        port.wake();
        rank.step("asleep after a wake");
        port.wait(Duration::from_secs(3600));
        let (turns, slept) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    // Relaxed: the woken thread needs the number only.
                    turns.fetch_add(1, Ordering::Relaxed);
                    port.wake();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            while turns.load(Ordering::Relaxed) < 10 {
                rank.step("asleep until another thread's wake");
                port.wait(Duration::from_secs(3600));
                slept.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_ne!(slept.load(Ordering::Relaxed), 0);
    });
}
