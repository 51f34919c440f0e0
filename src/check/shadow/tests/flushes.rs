//! Operations that end at a flush, by the flushes that a part remembers, and by a list of the
//! operations in flight.

use super::*;
use crate::check::shadow::flushes::room;

/// What a random program does: an access of a rank to a word, whether the rank flushes before,
/// whether the access is in flight, whether it then ends alone, and from which other rank the rank
/// learns.
type Step = (usize, usize, usize, bool, bool, bool, Option<usize>);

/// How the program's operations in flight end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A flush visits their records.
    List,
    /// A flush is remembered.
    Flushes,
    /// The same, and accumulates take the fast path if it suffices.
    Word,
}

/// A conflict: the older access and the rule.
type Found = (u64, u64, usize, u32, String);

struct Program {
    form: Form,
    memory: Memory,
    clocks: [Clock; RANKS],
    /// The records in flight, by their numbers among all accesses.
    pending: [Vec<(Option<Record>, usize)>; RANKS],
    all: Vec<(Access, u64)>,
    /// An operation that ends alone, before the next step.
    alone: Option<(Record, usize, usize)>,
}

impl Program {
    fn new(form: Form) -> Program {
        let clocks = [0; RANKS].map(|_| Clock::new(RANKS));
        let pending = [const { Vec::new() }; RANKS];
        Program { form, memory: memory(64, 64), clocks, pending, all: Vec::new(), alone: None }
    }

    fn flush(&mut self, origin: usize) {
        let releases = self.clocks[origin].of(origin);
        let flushed = std::mem::take(&mut self.pending[origin]);
        for &(record, number) in &flushed {
            record.into_iter().for_each(|record| locked(&self.memory).complete(record, releases));
            self.all[number].1 = releases;
        }
        if flushed.iter().any(|(record, _)| record.is_none()) {
            Shadow::of(&self.memory, RANKS).flushes(origin, releases + 1);
        }
        if !flushed.is_empty() {
            self.clocks[origin].advance(origin);
        }
    }

    /// The conflicts of the next access, and whether the list of all accesses has one.
    fn step(&mut self, &(origin, word, kind, flushes, later, alone, teacher): &Step) -> (Vec<Found>, bool) {
        let of = |call, op| Kind::Combine { call, op: Some(op), ty: BasicType::Int32 };
        let [sum, product] = [Op::Sum, Op::Prod].map(|op| of(Call::Accumulate, op));
        let kinds = [Kind::Put, Kind::Get, sum, product, of(Call::FetchAndOp, Op::Sum), Kind::Store];
        if let Some((record, number, origin)) = self.alone.take() {
            let releases = self.clocks[origin].of(origin);
            locked(&self.memory).complete(record, releases);
            self.all[number].1 = releases;
        }
        if flushes {
            self.flush(origin);
        }
        if let Some(teacher) = teacher {
            self.clocks[teacher].advance(teacher);
            let known = self.clocks[teacher].clone();
            self.clocks[origin].join(known.counts());
        }
        let (start, len) = [(0, 4), (0, 8), (4, 4), (4, 8), (0, 16)][word % 5];
        let start = start + 24 * (word as u64 / 5);
        let new = Access { kind: kinds[kind], ..put(origin, start, start + len) };
        let later = later && kind < 4;
        // An operation that ends alone may take the place of others in a list, which restores them.
        let alone = alone && later && self.form != Form::List && new.kind != Kind::Get;
        let ends = match (later, new.kind) {
            (false, _) => Ends::InCall,
            (true, Kind::Get) => Ends::WhenTold,
            _ if alone || self.form == Form::List => Ends::WhenTold,
            _ => Ends::AtFlush,
        };
        let expected = self.expects(&new);
        let number = self.all.len();
        self.all.push((new, if later { IN_FLIGHT } else { self.clocks[origin].of(origin) }));
        let (record, clashes) = self.record(new, ends);
        if alone {
            self.alone = record.map(|record| (record, number, origin));
        } else if later {
            self.pending[origin].push((record, number));
        }
        let found = |Clash { older, rule }: Clash| {
            (older.start, older.end, older.origin, older.kind.encode(), format!("{rule:?}"))
        };
        let mut clashes: Vec<_> = clashes.into_iter().map(found).collect();
        clashes.sort();
        (clashes, expected)
    }

    /// Whether an earlier access conflicts with a new one.
    fn expects(&self, new: &Access) -> bool {
        self.all.iter().any(|&(older, ended)| {
            let (own, clock) = (older.origin == new.origin, &self.clocks[new.origin]);
            let ordered = ended != IN_FLIGHT && (own || clock.of(older.origin) > ended);
            let overlaps = older.start < new.end && new.start < older.end;
            overlaps && !ordered && conflict((older.kind, older.start), (new.kind, new.start), own).is_some()
        })
    }

    /// Records an access. The record is `None` if it ends at a flush.
    fn record(&self, new: Access, ends: Ends) -> (Option<Record>, Vec<Clash>) {
        let (shadow, clock) = (Shadow::of(&self.memory, RANKS), &self.clocks[new.origin]);
        let Access { start, end, kind, origin, place } = new;
        let (len, is_later) = (end - start, ends == Ends::AtFlush);
        let word = WordAccess { start, len, kind: kind.encode(), origin, place, released: clock.of(origin), is_later };
        let fits = kind.combines() && ends != Ends::WhenTold && shadow.clocks_in_word(start, len).is_some();
        if self.form == Form::Word && fits && shadow.record_word(&word, clock) {
            return (None, Vec::new());
        }
        let mut clashes = Vec::new();
        let by_cell = shadow.record(new, clock, ends, &mut clashes);
        let record = by_cell.unwrap_or_else(|| locked(&self.memory).record(new, clock, ends, &mut clashes));
        ((ends == Ends::WhenTold).then_some(record), clashes)
    }
}

proptest! {
    /// Shows E5.
    #[test]
    fn a_remembered_flush_ends_what_a_list_of_operations_ends(steps in prop::collection::vec(
        (0..RANKS, 0usize..10, 0usize..6, any::<bool>(), any::<bool>(), Just(false), prop::option::of(0..RANKS)),
        1..80,
    )) {
        let [mut list, mut flushes, mut word] = [Form::List, Form::Flushes, Form::Word].map(Program::new);
        for (number, step) in steps.iter().enumerate() {
            let (found, expected) = list.step(step);
            prop_assert_eq!(!found.is_empty(), expected, "list, step {}", number);
            prop_assert_eq!(flushes.step(step).0, found.clone(), "flushes, step {}", number);
            prop_assert_eq!(word.step(step).0, found, "word, step {}", number);
        }
    }

    /// Shows E5.
    #[test]
    fn operations_that_end_alone_hide_none_that_end_at_a_flush(steps in prop::collection::vec(
        (
            0..RANKS, 0usize..10, 0usize..6, prop::bool::weighted(0.2), any::<bool>(), any::<bool>(),
            prop::option::of(0..RANKS),
        ),
        1..80,
    )) {
        for form in [Form::Flushes, Form::Word] {
            let mut program = Program::new(form);
            for (number, step) in steps.iter().enumerate() {
                let (found, expected) = program.step(step);
                prop_assert_eq!(!found.is_empty(), expected, "{:?}, step {}", form, number);
            }
        }
    }
}

/// Shows E5.
#[test]
fn an_operation_is_ordered_by_the_first_flush_after_it_even_if_many_follow() {
    let memory = memory(4096, 16);
    let shadow = Shadow::of(&memory, RANKS);
    let mut clock = Clock::new(RANKS);
    // In a cell, and in a chain.
    let ranges = [(0, 8), (64, 88)];
    let held = locked(&memory);
    clock.advance(0);
    for (start, end) in ranges {
        held.record(put(0, start, end), &clock, Ends::AtFlush, &mut Vec::new());
    }
    let conflicts = |known| {
        let mut other = Clock::new(RANKS);
        other.learn_of(0, known);
        let found = ranges.map(|(start, end)| {
            let new = Access { kind: Kind::Get, ..put(1, start, end) };
            let mut clashes = Vec::new();
            let record = held.record(new, &other, Ends::WhenTold, &mut clashes);
            held.forget(record);
            clashes.len()
        });
        assert_eq!(found[0], found[1], "the cell and the chain tell the same");
        found[0]
    };
    assert_eq!([1, 2, 9].map(conflicts), [1, 1, 1], "no flush");
    shadow.flushes(0, 3);
    assert_eq!([1, 2, 3, 4].map(conflicts), [1, 1, 0, 0]);
    let room = room(RANKS) as u64;
    (0..room - 3).for_each(|turn| shadow.flushes(0, 4 + turn));
    assert_eq!([1, 2, 3, 4].map(conflicts), [1, 1, 0, 0], "the first flush is still known");
    (0..3).for_each(|turn| shadow.flushes(0, room + 1 + turn));
    assert_eq!([1, 2, 3].map(conflicts), [1, 0, 0], "the first flush is forgotten: any later release counts");
}

/// Shows E5.
#[test]
fn flushes_are_found_while_others_follow() {
    const FLUSHES: u64 = if cfg!(miri) { 100 } else { 100_000 };
    let memory = memory(64, 4);
    let shadow = Shadow::of(&memory, RANKS);
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for release in 1..=FLUSHES {
                shadow.flushes(0, 2 * release);
                made.store(release, Ordering::Release);
            }
        });
        loop {
            let known = made.load(Ordering::Acquire);
            if known > 0 {
                // Release 2 * known - 1 is no flush, and the next one is.
                assert!(shadow.is_flushed(0, 2 * known - 1, 2 * known), "{known}");
                assert!(!shadow.is_flushed(0, 2 * known, 2 * known), "a later flush");
            }
            if known == FLUSHES {
                break;
            }
        }
    });
}
