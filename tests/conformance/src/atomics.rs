//! Atomics: their effect, their results, and their atomicity with other accesses. An atomic that is
//! absent is asserted to be absent everywhere, and its name is printed.

use std::sync::atomic::Ordering;

use transom_fabric::{Amo, AmoKind, Coherence, Domain, Memory, Port, Region, Tally, Width};

use crate::team::{bytes, filled, pattern};
use crate::{Fixture, Rank, Window, run};

const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

/// The atomic as the port offers it. If the port lacks it, the region must lack it too, and the
/// report names the atomic.
fn offered<F: Fixture>(rank: &Rank<'_, F>, window: &Window<F>, kind: AmoKind, width: Width) -> Option<Coherence> {
    let target = window.remotes.len() - 1;
    let answer = rank.domain().port().amo_on(&window.remotes[target], kind, width);
    if answer.is_none() {
        rank.report(&format!("absent: {kind:?} {width:?}"));
        assert_eq!(window.region.amo(kind, width), None, "{kind:?} {width:?}");
    }
    answer
}

fn value(memory: &Memory, at: usize, width: Width) -> u64 {
    let mut word = [0; 8];
    let bytes = bytes(memory, at, width.bytes());
    if cfg!(target_endian = "little") {
        word[..bytes.len()].copy_from_slice(&bytes);
    } else {
        word[8 - bytes.len()..].copy_from_slice(&bytes);
    }
    u64::from_ne_bytes(word)
}

fn set(memory: &Memory, at: usize, width: Width, value: u64) {
    match u32::try_from(width.truncate(value)) {
        Ok(half) if width == Width::W32 => memory.write(at, &half.to_ne_bytes()),
        _ => memory.write(at, &value.to_ne_bytes()),
    }
}

/// Performs one atomic on rank `target` and waits for it; returns the previous value.
fn perform<F: Fixture>(rank: &Rank<'_, F>, window: &Window<F>, target: usize, offset: u64, amo: Amo) -> u64 {
    let (old, tally) = (Memory::private(amo.width.bytes()), Tally::new());
    rank.amo(&window.remotes[target], offset, amo, &old, &tally);
    rank.flush(&tally);
    value(&old, 0, amo.width)
}

/// "Performs an atomic at the target and stores the previous value in `into`, whose length is the
/// atomic's width, or 0 where the value is not wanted."
pub fn every_kind_does_what_apply_says(fixture: &impl Fixture) {
    const CASES: [(u64, u64, u64); 4] =
        [(5, 7, 5), (5, 7, 6), (u64::MAX, 2, u64::MAX), (0x8000_0000_7fff_ffff, 0xffff_ffff_8000_0001, 0x7fff_ffff)];
    run(fixture, 2, |rank| {
        let window = rank.window(32);
        for width in WIDTHS {
            for kind in AmoKind::ALL {
                if offered(rank, &window, kind, width).is_none() {
                    continue;
                }
                for (before, operand, compare) in CASES {
                    window.memory.write(0, &[0xEE; 32]);
                    set(&window.memory, 16, width, before);
                    rank.barrier();
                    let amo = Amo { kind, width, operand: width.truncate(operand), compare: width.truncate(compare) };
                    if rank.me.0 == 0 {
                        let old = perform(rank, &window, 1, 16, amo);
                        assert_eq!(old, width.truncate(before), "{amo:?}");
                        let unwanted = Memory::private(0);
                        let tally = Tally::new();
                        rank.amo(&window.remotes[1], 16, amo, &unwanted, &tally);
                        rank.flush(&tally);
                    }
                    rank.barrier();
                    if rank.me.0 == 1 {
                        let expected = amo.apply(amo.apply(width.truncate(before)));
                        let found = value(&window.memory, 16, width);
                        assert_eq!(found, expected, "{amo:?} on {before:#x}, twice");
                        let end = 16 + width.bytes();
                        assert_eq!(bytes(&window.memory, 0, 16), [0xEE; 16], "{amo:?}");
                        assert_eq!(bytes(&window.memory, end, 32 - end), vec![0xEE; 32 - end]);
                    }
                    rank.barrier();
                }
            }
        }
    });
}

/// "An atomic is performed only when its target has the data of all puts that this process had
/// posted to that target before": bursts of puts of several lengths, each with an atomic right
/// behind it.
pub fn atomics_follow_puts_where_promised(fixture: &impl Fixture) {
    const BURSTS: usize = 40;
    const SMALL: usize = 6;
    /// Where the data begins, behind the count.
    const DATA: usize = 64;
    run(fixture, 2, |rank| {
        let limits = rank.domain().port().limits();
        let long = limits.transfer_max.min(200_000);
        let step = SMALL * 8 + long.next_multiple_of(8);
        let window = rank.window(DATA + BURSTS * step);
        assert_eq!(limits.amos_ordered, fixture.orders().atomics, "the promised order");
        if !limits.amos_ordered {
            return rank.report("skipped: the port does not promise that atomics follow puts");
        }
        if offered(rank, &window, AmoKind::Sum, Width::W64).is_none() {
            return;
        }
        let part = |burst: usize| if burst.is_multiple_of(3) { SMALL * 8 } else { SMALL * 8 + long };
        if rank.me.0 == 0 {
            let tally = Tally::new();
            for burst in 0..BURSTS {
                rank.step(format!("burst {burst}"));
                let (from, at) = (pattern(burst, step), (DATA + burst * step) as u64);
                if part(burst) > SMALL * 8 {
                    let from = filled(&from[SMALL * 8..][..long]);
                    rank.put(&window.remotes[1], at + SMALL as u64 * 8, &from, &tally);
                }
                for word in (0..SMALL * 8).step_by(8) {
                    rank.put(&window.remotes[1], at + word as u64, &filled(&from[word..][..8]), &tally);
                }
                let unwanted = Memory::private(0);
                rank.amo(&window.remotes[1], 8, Amo::new(AmoKind::Sum, Width::W64, 1), &unwanted, &tally);
            }
            rank.flush(&tally);
        } else {
            // Acquire: the atomic is performed after the puts.
            let came = || usize::try_from(window.memory.word64(8).load(Ordering::Acquire)).expect("few bursts");
            let mut seen = 0;
            while seen < BURSTS {
                rank.until("the next atomic", || came() > seen);
                let len = part(seen);
                let found = bytes(&window.memory, DATA + seen * step, len);
                assert!(found == pattern(seen, step)[..len], "burst {seen} is behind its atomic");
                seen += 1;
            }
        }
        rank.barrier();
    });
}

/// "Atomics of this process on one location of a peer are performed in the order of their posts":
/// sums, reads and compare-and-swaps of one word, of two ranks at once on words of their own.
pub fn atomics_of_a_location_keep_order_where_promised(fixture: &impl Fixture) {
    const BURSTS: usize = 10;
    run(fixture, 3, |rank| {
        let window = rank.window(32);
        let limits = rank.domain().port().limits();
        assert_eq!(limits.amos_in_order, fixture.orders().atomics_of_a_location, "the promised order");
        if !limits.amos_in_order {
            return rank.report("skipped: the port does not promise that atomics follow each other");
        }
        if offered(rank, &window, AmoKind::CompareSwap, Width::W64).is_none() {
            return;
        }
        // Of every four atomics one exchange succeeds, and one does not.
        let amos: Vec<Amo> = (0..40)
            .map(|number: u64| match number % 4 {
                0 => Amo::new(AmoKind::Sum, Width::W64, number + 1),
                1 => Amo::new(AmoKind::Read, Width::W64, 0),
                2 => Amo::compare_swap(Width::W64, 1000 * (number / 4) + number - 1, 1000 * (number / 4 + 1)),
                _ => Amo::compare_swap(Width::W64, 7, 8),
            })
            .collect();
        let at = 8 * u64::from(rank.me.0);
        let zero = Memory::private(8);
        for burst in 0..BURSTS {
            rank.step(format!("burst {burst}"));
            let tally = Tally::new();
            rank.put(&window.remotes[2], at, &zero, &tally);
            rank.flush(&tally);
            let found: Vec<_> = amos.iter().map(|_| Memory::private(8)).collect();
            for (amo, old) in amos.iter().zip(&found) {
                rank.amo(&window.remotes[2], at, *amo, old, &tally);
            }
            rank.flush(&tally);
            let mut expected = 0;
            for (number, (amo, old)) in amos.iter().zip(&found).enumerate() {
                assert_eq!(value(old, 0, Width::W64), expected, "atomic {number} of burst {burst}");
                expected = amo.apply(expected);
            }
        }
        rank.barrier();
    });
}

/// Fetch-adds of all ranks at the same time give every value exactly once.
/// Shows M3.
pub fn tickets_are_given_once(fixture: &impl Fixture) {
    const EACH: usize = 50;
    run(fixture, 3, |rank| {
        for width in WIDTHS {
            let window = rank.window(8 + 8 * 3 * EACH);
            if offered(rank, &window, AmoKind::Sum, width).is_none() {
                continue;
            }
            rank.barrier();
            let tally = Tally::new();
            let one = Amo::new(AmoKind::Sum, width, 1);
            let tickets: Vec<_> = (0..EACH).map(|_| Memory::private(width.bytes())).collect();
            for ticket in &tickets {
                rank.amo(&window.remotes[2], 0, one, ticket, &tally);
            }
            rank.flush(&tally);
            // Each ticket's slot at rank 2 gets the number of its owner.
            let mark = [u8::try_from(rank.me.0 + 1).expect("3 ranks")];
            for ticket in &tickets {
                let slot = 8 + 8 * value(ticket, 0, width);
                assert!(slot < 8 + 8 * 3 * EACH as u64, "ticket of slot {slot}");
                rank.put(&window.remotes[2], slot, &filled(&mark), &tally);
            }
            rank.flush(&tally);
            rank.barrier();
            if rank.me.0 == 2 {
                assert_eq!(value(&window.memory, 0, width), 3 * EACH as u64);
                let mut owned = [0; 4];
                for slot in 0..3 * EACH {
                    owned[usize::from(bytes(&window.memory, 8 + 8 * slot, 1)[0])] += 1;
                }
                assert_eq!(owned, [0, EACH, EACH, EACH], "tickets by owner");
            }
            rank.barrier();
        }
    });
}

/// Increments by compare-and-swap, of all ranks at the same time, are not lost.
/// Shows M3.
pub fn compare_swap_increments_are_not_lost(fixture: &impl Fixture) {
    const EACH: u64 = 20;
    run(fixture, 3, |rank| {
        for width in WIDTHS {
            let window = rank.window(8);
            if offered(rank, &window, AmoKind::CompareSwap, width).is_none() {
                continue;
            }
            rank.barrier();
            for _ in 0..EACH {
                let mut guess = 0;
                loop {
                    let swap = Amo::compare_swap(width, guess, guess + 1);
                    let found = perform(rank, &window, 2, 0, swap);
                    if found == guess {
                        break;
                    }
                    guess = found;
                }
            }
            rank.barrier();
            if rank.me.0 == 2 {
                assert_eq!(value(&window.memory, 0, width), 3 * EACH, "{width:?}");
            }
            rank.barrier();
        }
    });
}

/// "Whether peers can perform this atomic on the region" has equal answers at both sides, for every
/// rank.
pub fn both_sides_report_the_same_atomics(fixture: &impl Fixture) {
    run(fixture, 3, |rank| {
        let window = rank.window(64);
        for width in WIDTHS {
            for kind in AmoKind::ALL {
                let claimed = window.region.amo(kind, width);
                for (peer, remote) in window.remotes.iter().enumerate() {
                    let seen = rank.domain().port().amo_on(remote, kind, width);
                    assert_eq!(seen, claimed, "{kind:?} {width:?} on rank {peer}");
                }
            }
        }
    });
}

/// "`WithCpu`: also with atomics that the target's CPU performs on the same location."
/// Shows M3.
/// Route: sim, shm.
pub fn device_atomics_are_coherent_with_the_cpu_where_promised(fixture: &impl Fixture) {
    const EACH: u64 = 300;
    run(fixture, 2, |rank| {
        for width in WIDTHS {
            let window = rank.window(8);
            let offer = offered(rank, &window, AmoKind::Sum, width);
            if offer != Some(Coherence::WithCpu) {
                rank.report(&format!("skipped: no {width:?} atomics that are coherent with the CPU: {offer:?}"));
                continue;
            }
            rank.barrier();
            let one = Amo::new(AmoKind::Sum, width, 1);
            for _ in 0..EACH {
                if rank.me.0 == 0 {
                    perform(rank, &window, 1, 0, one);
                } else {
                    window.memory.amo(0, one);
                    std::thread::yield_now();
                }
            }
            rank.barrier();
            if rank.me.0 == 1 {
                assert_eq!(value(&window.memory, 0, width), 2 * EACH, "{width:?}");
            }
            rank.barrier();
        }
    });
}
