//! Records and the accesses that they find, at every size and with too few records.

mod flushes;

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::cells::Cells;
use super::records::LEVELS;
use super::*;
use crate::check::Call;
use crate::check::clock::Shown;
use crate::check::rules::conflict;
use crate::reduce::{BasicType, Op};

const RANKS: usize = 3;
/// The rank of the part.
const OWNER_RANK: usize = 2;
const ROOM_OF_LOG: usize = 2;

fn memory(size: u64, records: usize) -> Memory {
    let memory = Memory::private(bytes(RANKS, size, records, ROOM_OF_LOG));
    Shadow::prepare(&memory, (OWNER_RANK, RANKS), size, records, ROOM_OF_LOG);
    memory
}

fn locked(memory: &Memory) -> Locked<'_> {
    Shadow::of(memory, RANKS).lock(|_| -> Result<(), Infallible> { panic!("nobody holds it") }).expect("free")
}

/// The number of records in chains.
fn live(shadow: &Locked<'_>) -> u64 {
    (0..LEVELS).map(|level| shadow.0.get(LIVE + 8 * level)).sum()
}

/// `record`, with the conflicts as a result.
trait Recorded {
    type Record;
    fn recorded(&self, new: Access, clock: &Clock, done: bool) -> Self::Record;
}

fn ends(done: bool) -> Ends {
    if done { Ends::InCall } else { Ends::WhenTold }
}

/// The result of an attempt to record. A failed one adds no conflict.
fn tried(record: impl FnOnce(&mut Vec<Clash>) -> Option<Record>) -> Option<(Record, Vec<Clash>)> {
    let mut clashes = Vec::new();
    let record = record(&mut clashes);
    assert!(record.is_some() || clashes.is_empty());
    Some((record?, clashes))
}

impl Recorded for Records<'_> {
    type Record = (Record, Vec<Clash>);

    fn recorded(&self, new: Access, clock: &Clock, done: bool) -> (Record, Vec<Clash>) {
        let mut clashes = Vec::new();
        (self.record(new, clock, ends(done), &mut clashes), clashes)
    }
}

impl Recorded for Shadow<'_> {
    type Record = Option<(Record, Vec<Clash>)>;

    fn recorded(&self, new: Access, clock: &Clock, done: bool) -> Option<(Record, Vec<Clash>)> {
        tried(|clashes| self.record(new, clock, ends(done), clashes))
    }
}

impl Recorded for lock::Reading<'_> {
    type Record = Option<(Record, Vec<Clash>)>;

    fn recorded(&self, new: Access, clock: &Clock, done: bool) -> Option<(Record, Vec<Clash>)> {
        tried(|clashes| self.record(new, clock, ends(done), clashes))
    }
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
    let entry = |known| LogEntry { access: put(1, 0, 8), known, done: 2 };
    let held = locked(&memory);
    (0..=ROOM_OF_LOG as u64).for_each(|known| held.log(entry(known)));
    drop(held);
    let shadow = Shadow::of(&memory, RANKS);
    assert!(shadow.has_told());
    assert_eq!(shadow.drain(), [entry(0), entry(1)]);
    assert_eq!((shadow.has_told(), shadow.untold()), (false, 1));
}

#[test]
fn what_a_rank_could_not_read_in_time_is_not_told_later() {
    let memory = memory(64, 4);
    let entry = |known| LogEntry { access: put(1, 0, 8), known, done: 2 };
    let shadow = Shadow::of(&memory, RANKS);
    let held = locked(&memory);
    held.log(entry(1));
    assert_eq!(shadow.drain(), [], "another rank holds the lock");
    held.log(entry(2));
    drop(held);
    assert_eq!(shadow.drain(), [entry(2)]);
    assert_eq!((shadow.has_told(), shadow.untold()), (false, 1));
}

#[test]
fn an_access_that_all_know_to_be_complete_has_no_record_after_the_next_one() {
    let memory = memory(64, 4);
    let shadow = locked(&memory);
    let mut clock = Clock::new(RANKS);
    let add = |op| Access { kind: accumulate(op), ..put(0, 4, 20) };
    for op in [Op::Sum, Op::Prod] {
        shadow.recorded(add(op), &clock, true);
    }
    clock.advance(0);
    let counts = clock.counts().to_vec();
    assert_eq!(live(&shadow), 2);
    clock.join_common(&counts);
    assert!(shadow.recorded(add(Op::Max), &clock, true).1.is_empty());
    assert_eq!(live(&shadow), 1);
}

#[test]
fn a_put_in_flight_meets_a_put_that_overlaps_it() {
    let memory = memory(4096, 16);
    let shadow = locked(&memory);
    let clock = Clock::new(RANKS);
    let (_, clashes) = shadow.recorded(put(0, 8, 16), &clock, false);
    assert!(clashes.is_empty());
    assert!(shadow.recorded(put(1, 16, 24), &clock, false).1.is_empty(), "adjacent");
    let (_, clashes) = shadow.recorded(put(1, 12, 13), &clock, false);
    assert_eq!(clashes.len(), 1);
    assert_eq!((clashes[0].older, clashes[0].rule), (put(0, 8, 16), Rule::Overlap));
}

#[test]
fn an_access_is_ordered_behind_a_completed_one_only_by_knowledge_of_a_later_release() {
    let memory = memory(4096, 16);
    let shadow = locked(&memory);
    let (mut first, mut second) = (Clock::new(RANKS), Clock::new(RANKS));
    let (record, _) = shadow.recorded(put(0, 0, 8), &first, false);
    shadow.complete(record, first.of(0));
    assert!(shadow.recorded(put(0, 0, 4), &first, false).1.is_empty(), "its own, which is complete");
    assert_eq!(shadow.recorded(put(1, 4, 8), &second, false).1.len(), 1, "no release");
    first.advance(0);
    second.join(first.counts());
    assert!(shadow.recorded(put(2, 6, 8), &second, false).1.iter().all(|clashes| clashes.older.origin == 1));
}

/// A buffer in the own part, whose record is forgotten at the end of an exposure, covers a put that
/// a rank does not know about.
#[test]
fn an_access_that_is_forgotten_stands_for_no_other_one() {
    // In a cell, and in a chain.
    for len in [8, 24] {
        let memory = memory(4096, 16);
        let shadow = locked(&memory);
        let (mut first, mut owner) = (Clock::new(RANKS), Clock::new(RANKS));
        let (record, _) = shadow.recorded(put(0, 0, len), &first, false);
        shadow.complete(record, first.of(0));
        first.advance(0);
        owner.join(first.counts());
        let buffer = Access { kind: Kind::Store, origin: OWNER_RANK, ..put(0, 0, len) };
        let mut clashes = Vec::new();
        let record = shadow.record_passing(buffer, &owner, &mut clashes);
        assert!(clashes.is_empty(), "{clashes:?}");
        shadow.forget(record);
        let found = shadow.recorded(put(1, 0, len), &Clock::new(RANKS), true).1;
        assert_eq!(found.iter().map(|clash| clash.older.origin).collect::<Vec<_>>(), [0]);
    }
}

#[test]
fn an_access_is_ordered_behind_one_of_an_exposure_epoch_only_by_knowledge_of_the_epochs_end() {
    // In a cell, and in a chain.
    for len in [8, 24] {
        let memory = memory(4096, 16);
        let shadow = locked(&memory);
        let (mut origin, mut owner) = (Clock::new(RANKS), Clock::new(RANKS));
        (0..5).for_each(|_| owner.advance(OWNER_RANK));
        shadow.0.begin_exposure();
        let (record, _) = shadow.recorded(put(0, 0, len), &origin, false);
        shadow.complete(record, shadow.0.ends_with_exposure());
        assert!(shadow.recorded(put(0, 0, 4), &origin, true).1.is_empty(), "its own, which is complete");
        origin.advance(0);
        let found = |clock: &Clock| shadow.recorded(put(1, len - 1, len), clock, true).1.len();
        assert_eq!(found(&origin), 1, "the end of the access epoch does not suffice");
        origin.join(owner.counts());
        assert_eq!(found(&origin), 1, "nor do the owner's releases before");
        // Ends of exposure epochs of other parts, or other releases.
        (0..5000).for_each(|_| owner.advance(OWNER_RANK));
        assert_eq!(found(&owner), 1, "nor releases during the epoch");
        shadow.0.end_exposure(owner.of(OWNER_RANK) + 1);
        assert_eq!(found(&owner), 1, "nor do releases before the end");
        owner.advance(OWNER_RANK);
        owner.join(&[1, 0, 0]);
        let clash = shadow.recorded(put(2, 0, len), &owner, true).1;
        assert!(clash.iter().all(|clash| clash.older.origin == 1), "{clash:?}");
    }
}

#[test]
fn a_shadow_without_a_free_record_drops_one_and_counts_what_may_be_missed() {
    let memory = memory(4096, 4);
    let shadow = locked(&memory);
    let mut clock = Clock::new(RANKS);
    for step in 0..4 {
        let (record, _) = shadow.recorded(put(0, 64 * step, 64 * step + 24), &clock, false);
        shadow.complete(record, clock.of(0));
    }
    clock.advance(0);
    shadow.recorded(put(0, 1000, 1024), &clock, false);
    assert_eq!(shadow.0.dropped(), 0, "its access is known to be complete");
    for step in 0..4 {
        shadow.recorded(put(0, 2000 + 24 * step, 2024 + 24 * step), &clock, false);
    }
    assert_eq!(shadow.0.dropped(), 1);
}

#[test]
fn a_complete_access_anywhere_in_the_chains_is_dropped_before_one_that_may_conflict() {
    const MANY: u64 = 200;
    const COMPLETE: u64 = 150;
    let memory = memory(1 << 16, usize::try_from(MANY).unwrap());
    let shadow = Shadow::of(&memory, RANKS);
    let mut clock = Clock::new(RANKS);
    let held = locked(&memory);
    for step in 0..MANY {
        held.recorded(put(1, 64 + 64 * step, 88 + 64 * step), &clock, step == COMPLETE);
    }
    clock.learn_of(1, 1);
    // More reads of a word than its cell has records; none covers the one before.
    let get = |len| Access { kind: Kind::Get, ..put(0, 0, len) };
    let is_in_cell = |record: Record| matches!(record.place, In::Cell { .. });
    let in_cell = (2..=8).rev().take_while(|&len| is_in_cell(held.recorded(get(len), &clock, false).0)).count();
    assert!((2..6).contains(&in_cell), "{in_cell}");
    drop(held);
    assert_eq!((shadow.dropped(), live(&locked(&memory))), (0, MANY), "in the place of the complete access");
    let by_reader = |len| shadow.read(0).and_then(|it| it.recorded(get(len), &clock, false));
    assert!(by_reader(1).is_some(), "all records in chains are of accesses in flight");
    assert_eq!(shadow.dropped(), 1);
}

#[test]
fn a_lock_whose_holder_has_ended_is_waited_for_once() {
    let memory = memory(64, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let clock = Clock::new(RANKS);
    for rank in 0..2 {
        shadow.recorded(Access { kind: Kind::Get, ..put(rank, 0, 8) }, &clock, false);
    }
    Cells::of(shadow).strand(0);
    let held = locked(&memory);
    assert!(held.recorded(put(0, 0, 8), &clock, false).1.is_empty(), "the records of the cell are lost");
    assert_eq!(shadow.dropped(), 2);
    for (turn, rank) in [1, 2, 1].into_iter().enumerate() {
        assert_eq!(held.recorded(put(rank, 0, 8), &clock, false).1.len(), turn + 1, "the chains have the others");
    }
    assert_eq!(shadow.dropped(), 2, "the lock was not waited for again");
}

#[test]
fn two_threads_in_one_cell_find_each_other() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 5_000 };
    let memory = memory(64, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let turn = std::sync::Barrier::new(2);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (turn, found) = (&turn, &found);
            scope.spawn(move || {
                let mut clock = Clock::new(RANKS);
                for round in 0..ROUNDS {
                    turn.wait();
                    let access = put(rank, 8 * (round as u64 % 8), 8 + 8 * (round as u64 % 8));
                    let by_cell = shadow.recorded(access, &clock, true);
                    let lock = || shadow.lock(|_| Ok::<(), Infallible>(())).expect("no refusal");
                    let (_, clashes) = by_cell.unwrap_or_else(|| lock().recorded(access, &clock, true));
                    found.fetch_add(clashes.len() as u64, Ordering::Relaxed);
                    turn.wait();
                    (0..2).for_each(|rank| clock.advance(rank));
                    let counts = clock.counts().to_vec();
                    clock.join_common(&counts);
                }
            });
        }
    });
    assert_eq!(found.into_inner(), ROUNDS as u64, "one of two puts finds the other");
}

#[test]
fn the_fast_path_leaves_conflicts_and_accesses_in_flight_to_the_slower_one() {
    let memory = memory(4096, 16);
    let shadow = Shadow::of(&memory, RANKS);
    let mut clock = Clock::new(RANKS);
    let of = |origin, start, op| Access { kind: accumulate(op), ..put(origin, start, start + 8) };
    assert!(!by_word(shadow, of(0, 8, Op::Sum), &clock), "no block has the cell");
    assert!(shadow.recorded(of(0, 8, Op::Sum), &clock, true).is_some());
    assert!(by_word(shadow, of(1, 8, Op::Sum), &clock), "one operation");
    assert!(by_word(shadow, of(0, 0, Op::Prod), &clock), "another word of the block");
    assert!(!by_word(shadow, of(2, 8, Op::Prod), &clock), "a conflict");
    assert_eq!(shadow.recorded(of(2, 8, Op::Prod), &clock, true).expect("room").1.len(), 2);
    for rank in 0..RANKS {
        clock.learn_of(rank, 1);
    }
    assert!(by_word(shadow, of(1, 8, Op::Prod), &clock), "all other accesses are known to be complete");
    assert!(shadow.recorded(of(1, 0, Op::Prod), &clock, false).is_some());
    assert!(!by_word(shadow, of(1, 0, Op::Prod), &clock), "an access in flight");
    let held = locked(&memory);
    held.recorded(put(1, 100, 200), &clock, false);
    drop(held);
    assert!(!by_word(shadow, of(1, 8, Op::Prod), &clock), "a record in a chain");
}

/// Two threads of a rank read a word by atomics. The first one has read the number of the rank's
/// releases before the second one releases, and is recorded last.
#[test]
fn an_access_with_an_older_count_does_not_replace_one_of_another_thread() {
    let memory = memory(64, 4);
    let shadow = Shadow::of(&memory, RANKS);
    let read = Access { kind: accumulate(Op::NoOp), ..put(0, 0, 8) };
    let Access { start, kind, origin, place, .. } = read;
    let of = |released| WordAccess { start, len: 8, kind: kind.encode(), origin, place, released, is_later: false };
    let mut clock = Clock::new(RANKS);
    clock.advance(0);
    assert!(shadow.recorded(read, &clock, true).is_some());
    let known = Shown::new(0, RANKS);
    assert!(!shadow.record_word(&of(0), &known), "the record of the other thread is of use");
    assert!(shadow.record_word(&of(1), &known), "the same count");
    let mut other = Clock::new(RANKS);
    other.learn_of(0, 1);
    assert_eq!(shadow.recorded(put(1, 0, 8), &other, true).expect("room").1.len(), 1, "after one release only");
}

#[test]
fn halves_of_a_word_and_long_accumulates_have_clocks_of_their_own() {
    let memory = memory(1 << 16, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let mut clock = Clock::new(RANKS);
    clock.advance(0);
    let teach = |start, end| shadow.clocks_of(start, end).for_each(|slot| clock.teach(slot));
    let learned = |start, end| {
        let mut other = Clock::new(RANKS);
        shadow.clocks_for(start, end).for_each(|slot| other.learn(slot));
        let mut by_words = Clock::new(RANKS);
        let words = shadow.clocks_in_word(start, end - start).map(|(_, words)| words);
        words.into_iter().for_each(|words| by_words.learn_words(words));
        assert!(by_words.of(0) <= other.of(0));
        (other.of(0), by_words.of(0))
    };
    teach(4, 8);
    assert_eq!([learned(0, 4), learned(4, 8), learned(0, 8), learned(8, 16)], [(0, 0), (1, 1), (1, 1), (0, 0)]);
    teach(24, 32);
    assert_eq!([learned(24, 28), learned(28, 32), learned(29, 30)], [(1, 1); 3]);
    teach(1024, 1124);
    assert_eq!([learned(1016, 1024), learned(1056, 1064), learned(1124, 1128)], [(0, 0), (1, 0), (0, 0)]);
    assert_eq!([learned(64, 1025).0, learned(512, 1024).0, learned(0, 600).0, learned(600, 1 << 30).0], [1, 0, 1, 1]);
}

#[test]
fn blocks_that_share_a_cell_keep_their_conflicts_apart() {
    let memory = memory(1 << 16, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let clock = Clock::new(RANKS);
    let bytes = 16 * shadow.get(CELLS);
    assert!(bytes < 1 << 16, "blocks share cells");
    let record =
        |new| shadow.recorded(new, &clock, false).unwrap_or_else(|| locked(&memory).recorded(new, &clock, false));
    assert!(record(put(0, 8, 16)).1.is_empty());
    assert!(record(put(1, 8 + bytes, 16 + bytes)).1.is_empty(), "another block of the cell");
    assert!(record(put(2, 8 + 2 * bytes, 16 + 2 * bytes)).1.is_empty(), "a third block");
    for (rank, word) in [(1, 0), (0, 1), (0, 2)] {
        let (_, clashes) = record(put(rank, 8 + word * bytes, 16 + word * bytes));
        assert_eq!(clashes.iter().map(|clash| clash.older.start).collect::<Vec<_>>(), [8 + word * bytes]);
    }
    assert_eq!(shadow.dropped(), 0);
}

#[test]
fn records_of_one_place_are_replaced() {
    let memory = memory(4096, 8);
    let shadow = locked(&memory);
    let clock = Clock::new(RANKS);
    let sum = accumulate(Op::Sum);
    for _ in 0..1000 {
        for (start, end) in [(8, 16), (16, 40)] {
            let access = Access { kind: sum, ..put(0, start, end) };
            assert!(shadow.recorded(access, &clock, false).1.is_empty());
        }
    }
    assert_eq!((shadow.0.dropped(), live(&shadow)), (0, 1));
}

/// What a random program does: an access of a rank to a word, what the rank completes before, and
/// from which other rank it learns.
type Step = (usize, usize, usize, bool, bool, Option<usize>);

/// How a random program records its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Lock,
    Reader,
    Cell,
    /// By the fast path of accumulates within one word, if possible.
    Word,
}

/// Records an access by the fast path, if that suffices.
fn by_word(shadow: Shadow<'_>, new: Access, clock: &Clock) -> bool {
    let Access { start, end, kind, origin, place } = new;
    let word = WordAccess {
        start,
        len: end - start,
        kind: kind.encode(),
        origin,
        place,
        released: clock.of(origin),
        is_later: false,
    };
    if !kind.combines() || shadow.clocks_in_word(start, end - start).is_none() {
        return false;
    }
    let shown = Shown::new(origin, RANKS);
    shown.show(clock);
    if kind.only_reads() { shadow.record_word(&word, &shown) } else { shadow.record_word(&word, clock) }
}

/// Whether each access of a random program has conflicts: as found, and by a list of all accesses.
fn conflicts(steps: &[Step], by: By) -> Vec<(bool, bool)> {
    let fetch = |op| Kind::Combine { call: Call::FetchAndOp, op, ty: BasicType::Int32 };
    let [sum, product, read, swap] = [Some(Op::Sum), Some(Op::Prod), Some(Op::NoOp), None].map(fetch);
    let kinds = [Kind::Put, Kind::Get, sum, product, read, swap, Kind::Store];
    let memory = memory(64, 64);
    let shadow = Shadow::of(&memory, RANKS);
    let mut clocks = [0; RANKS].map(|_| Clock::new(RANKS));
    let mut pending: [Vec<(Record, usize)>; RANKS] = [const { Vec::new() }; RANKS];
    let mut all: Vec<(Access, u64)> = Vec::new();
    let step = |&(origin, word, kind, completes, later, teacher): &Step| {
        if completes {
            let releases = clocks[origin].of(origin);
            for (record, number) in pending[origin].drain(..) {
                locked(&memory).complete(record, releases);
                all[number].1 = releases;
            }
        }
        if let Some(teacher) = teacher {
            clocks[teacher].advance(teacher);
            let known = clocks[teacher].clone();
            clocks[origin].join(known.counts());
        }
        // Of several sizes, some of which no word has as a whole.
        let (start, len) = [(0, 8), (0, 4), (4, 4), (8, 8), (4, 8), (0, 16)][word % 6];
        let start = start + 24 * (word as u64 / 6);
        let new = Access { kind: kinds[kind], ..put(origin, start, start + len) };
        let clock = &clocks[origin];
        let concerns = |&(older, ended): &(Access, u64)| {
            let own = older.origin == origin;
            let ordered = ended != IN_FLIGHT && (own || clock.of(older.origin) > ended);
            let overlaps = older.start < new.end && new.start < older.end;
            overlaps && !ordered && conflict((older.kind, older.start), (new.kind, new.start), own).is_some()
        };
        let expected = all.iter().any(concerns);
        all.push((new, if later { IN_FLIGHT } else { clock.of(origin) }));
        if by == By::Word && !later && by_word(shadow, new, clock) {
            return (false, expected);
        }
        let found = match by {
            By::Lock => None,
            By::Reader => shadow.read(origin).and_then(|it| it.recorded(new, clock, !later)),
            By::Cell | By::Word => shadow.recorded(new, clock, !later),
        };
        let (record, clashes) = found.unwrap_or_else(|| locked(&memory).recorded(new, clock, !later));
        if later {
            pending[origin].push((record, all.len() - 1));
        }
        (!clashes.is_empty(), expected)
    };
    steps.iter().map(step).collect()
}

proptest! {
    /// An access has conflicts if one of all accesses before it conflicts.
    #[test]
    fn no_conflict_is_missed_or_invented(steps in prop::collection::vec(
        (0..RANKS, 0usize..12, 0usize..7, any::<bool>(), any::<bool>(), prop::option::of(0..RANKS)),
        1..80,
    )) {
        for by in [By::Lock, By::Reader, By::Cell, By::Word] {
            for (step, (found, expected)) in conflicts(&steps, by).into_iter().enumerate() {
                prop_assert_eq!(found, expected, "{:?}, step {}", by, step);
            }
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
            shadow.forget(record);
            prop_assert!(!shadow.is(record));
        }
        prop_assert_eq!(live(&shadow), 0);
    }
}
