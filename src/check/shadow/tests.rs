//! Records and the accesses that they find, at every size and with too few records.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::check::Call;
use crate::reduce::{BasicType, Op};

const RANKS: usize = 3;
const ROOM_OF_LOG: usize = 2;

fn memory(size: u64, records: usize) -> Memory {
    let memory = Memory::private(bytes(RANKS, size, records, ROOM_OF_LOG));
    Shadow::prepare(&memory, RANKS, size, records, ROOM_OF_LOG);
    memory
}

fn locked(memory: &Memory) -> Locked<'_> {
    Shadow::of(memory, RANKS).lock(|_| -> Result<(), Infallible> { panic!("nobody holds it") }).expect("free")
}

fn put(origin: usize, start: u64, end: u64) -> Access {
    Access { start, end, kind: Kind::Put, origin, place: 7 }
}

fn accumulate(op: Op) -> Kind {
    Kind::Combine { call: Call::Accumulate, op: Some(op), ty: BasicType::Int64 }
}

#[test]
fn one_holder_has_the_lock_until_it_lets_go() {
    let memory = memory(64, 4);
    let held = locked(&memory);
    let mut turns = 0;
    let refused = Shadow::of(&memory, RANKS).lock(|turn| {
        turns = turn;
        if turn < 3 { Ok(()) } else { Err(()) }
    });
    assert!(refused.is_err() && turns == 3);
    drop(held);
    drop(locked(&memory));
}

#[test]
fn readers_and_the_holder_of_the_lock_exclude_each_other() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    let memory = memory(64, 4);
    let shadow = Shadow::of(&memory, RANKS);
    let (is_held, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for rank in 0..RANKS - 1 {
            let [is_held, ends] = [&is_held, &ends];
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    if let Some(_reading) = shadow.read(rank) {
                        assert!(!is_held.load(Ordering::Relaxed), "rank {rank} reads while the lock is held");
                    }
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..ROUNDS {
            let held = shadow.lock(|_| Ok::<(), Infallible>(()));
            is_held.store(true, Ordering::Relaxed);
            assert!(shadow.read(RANKS - 1).is_none(), "the lock is held");
            is_held.store(false, Ordering::Relaxed);
            drop(held);
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_others_do_is_told_in_order_and_what_is_too_much_is_counted() {
    let memory = memory(64, 4);
    let told = |known| Told { access: put(1, 0, 8), known, done: 2 };
    let held = locked(&memory);
    (0..=ROOM_OF_LOG as u64).for_each(|known| held.tell(told(known)));
    drop(held);
    let shadow = Shadow::of(&memory, RANKS);
    assert!(shadow.has_told());
    assert_eq!(shadow.drain(), [told(0), told(1)]);
    assert_eq!((shadow.has_told(), shadow.untold()), (false, 1));
}

#[test]
fn an_access_that_all_know_to_be_complete_has_no_record_after_the_next_one() {
    let memory = memory(64, 4);
    let shadow = locked(&memory);
    let mut clock = Clock::new(RANKS);
    let add = |op| Access { kind: accumulate(op), ..put(0, 0, 8) };
    for op in [Op::Sum, Op::Prod] {
        let (record, _) = shadow.record(add(op), &clock, true);
        assert!(shadow.is(record));
    }
    clock.advance(0);
    let counts = clock.counts().to_vec();
    assert_eq!(shadow.get(LIVE), 2);
    clock.join_common(&counts);
    assert!(shadow.record(add(Op::Max), &clock, true).1.is_empty());
    assert_eq!(shadow.get(LIVE), 1);
}

#[test]
fn a_put_in_flight_meets_a_put_that_overlaps_it() {
    let memory = memory(4096, 16);
    let shadow = locked(&memory);
    let clock = Clock::new(RANKS);
    let (_, met) = shadow.record(put(0, 8, 16), &clock, false);
    assert!(met.is_empty());
    assert!(shadow.record(put(1, 16, 24), &clock, false).1.is_empty(), "adjacent");
    let (_, met) = shadow.record(put(1, 12, 13), &clock, false);
    assert_eq!(met.len(), 1);
    assert_eq!((met[0].older, met[0].rule), (put(0, 8, 16), Rule::Overlap));
}

#[test]
fn an_access_is_ordered_behind_a_completed_one_only_by_knowledge_of_a_later_release() {
    let memory = memory(4096, 16);
    let shadow = locked(&memory);
    let (mut first, mut second) = (Clock::new(RANKS), Clock::new(RANKS));
    let (record, _) = shadow.record(put(0, 0, 8), &first, false);
    shadow.complete(record, first.of(0));
    assert!(shadow.record(put(0, 0, 4), &first, false).1.is_empty(), "its own, which is complete");
    assert_eq!(shadow.record(put(1, 4, 8), &second, false).1.len(), 1, "no release");
    first.advance(0);
    second.join(first.counts());
    assert!(shadow.record(put(2, 6, 8), &second, false).1.iter().all(|met| met.older.origin == 1));
}

#[test]
fn a_shadow_without_a_free_record_drops_one_and_counts_what_may_be_missed() {
    let memory = memory(4096, 4);
    let shadow = locked(&memory);
    let mut clock = Clock::new(RANKS);
    for step in 0..4 {
        let (record, _) = shadow.record(put(0, 64 * step, 64 * step + 8), &clock, false);
        shadow.complete(record, clock.of(0));
    }
    clock.advance(0);
    shadow.record(put(0, 1000, 1008), &clock, false);
    assert_eq!(shadow.get(DROPPED), 0, "its access is known to be complete");
    for step in 0..4 {
        shadow.record(put(0, 2000 + 8 * step, 2008 + 8 * step), &clock, false);
    }
    assert_eq!(shadow.get(DROPPED), 1);
}

#[test]
fn records_of_one_place_are_replaced() {
    let memory = memory(4096, 8);
    let shadow = locked(&memory);
    let clock = Clock::new(RANKS);
    let sum = accumulate(Op::Sum);
    for _ in 0..1000 {
        let access = Access { kind: sum, ..put(0, 8, 16) };
        assert!(shadow.record(access, &clock, false).1.is_empty());
    }
    assert_eq!((shadow.get(DROPPED), shadow.get(LIVE)), (0, 1));
}

/// What a random program does: an access of a rank to a word, what the rank completes before, and
/// from which other rank it learns.
type Step = (usize, u64, usize, bool, bool, Option<usize>);

/// The conflicts of a random program, with readers where they can be had, and without.
fn conflicts(steps: &[Step], reads: bool) -> Vec<Vec<(usize, Kind)>> {
    let kinds = [Kind::Put, Kind::Get, accumulate(Op::Sum), accumulate(Op::Prod), accumulate(Op::NoOp)];
    let memory = memory(64, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let mut clocks = [0; RANKS].map(|_| Clock::new(RANKS));
    let mut pending = [const { Vec::new() }; RANKS];
    let step = |&(origin, word, kind, completes, later, teacher): &Step| {
        if completes {
            let releases = clocks[origin].of(origin);
            pending[origin].drain(..).for_each(|record| locked(&memory).complete(record, releases));
        }
        if let Some(teacher) = teacher {
            clocks[teacher].advance(teacher);
            let known = clocks[teacher].clone();
            clocks[origin].join(known.counts());
        }
        let new = Access { kind: kinds[kind], ..put(origin, 8 * word, 8 * word + 8) };
        let again = shadow.read(origin).filter(|_| reads).and_then(|it| it.again(&new, &clocks[origin], !later));
        let (record, met) = match again {
            Some(record) => (record, Vec::new()),
            None => locked(&memory).record(new, &clocks[origin], !later),
        };
        if later {
            pending[origin].push(record);
        }
        let mut met: Vec<_> = met.into_iter().map(|met| (met.older.origin, met.older.kind)).collect();
        met.sort_by_key(|(origin, kind)| (*origin, kind.encode()));
        met
    };
    steps.iter().map(step).collect()
}

proptest! {
    /// A reader finds the conflicts that the holder of the lock finds.
    #[test]
    fn readers_miss_no_conflict(steps in prop::collection::vec(
        (0..RANKS, 0u64..3, 0usize..5, any::<bool>(), any::<bool>(), prop::option::of(0..RANKS)),
        1..80,
    )) {
        for (fast, slow) in conflicts(&steps, true).into_iter().zip(conflicts(&steps, false)) {
            prop_assert!(slow.iter().all(|met| fast.contains(met)), "{fast:?} {slow:?}");
            prop_assert_eq!(fast.is_empty(), slow.is_empty());
        }
    }

    /// The records that overlap a range are those that a list finds, at every size.
    #[test]
    fn overlapping_records_are_found(accesses in prop::collection::vec((0u64..1 << 20, 1u64..1 << 18, 0u32..19), 1..60)) {
        let memory = memory(1 << 20, 64);
        let shadow = locked(&memory);
        let clock = Clock::new(RANKS);
        let ranges: Vec<_> = accesses.iter().map(|&(start, len, shift)| (start, start + (len >> shift).max(1))).collect();
        let records: Vec<_> = ranges.iter().map(|&(start, end)| {
            let access = Access { kind: Kind::Get, place: u32::try_from(start).unwrap(), ..put(0, start, end) };
            shadow.add(access, IN_FLIGHT, &clock)
        }).collect();
        for (start, end) in ranges.iter().copied() {
            let mut found = Vec::new();
            shadow.overlapping(start, end, |index| found.push(index));
            found.sort_unstable();
            let expected: Vec<_> = (0..ranges.len()).filter(|&at| ranges[at].0 < end && start < ranges[at].1).collect();
            prop_assert_eq!(found, expected);
        }
        for record in records {
            prop_assert!(shadow.is(record));
            shadow.remove(record.index as usize);
            prop_assert!(!shadow.is(record));
        }
        prop_assert!((0..LEVELS).all(|level| shadow.get(LIVE + 8 * level) == 0));
    }
}
