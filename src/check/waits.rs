//! Detection of deadlocks. Each rank records in the area of rank 0 in which call it waits, for
//! whom, and which locks it holds. A thread of rank 0 reads these entries periodically. It reports
//! calls in which ranks have waited for `TRANSOM_CHECK_WAIT` in two cases:
//! - some ranks wait for each other in a circle ([`circle`]), whatever the others do;
//! - all ranks wait. If all are in the same collective call, there is no report, because such a
//!   call may take long.
//!
//! A rank whose other threads, or processes outside of the job, may end its wait does not count as
//! waiting ([`WaitingCalls::is_helped`]).

mod circle;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use transom_fabric::Memory;
use transom_fabric::threads::{self, Identity};

use super::report::quoted;

/// The words of a rank's entry: a counter that each call raises twice, and that is odd while a call
/// waits; the window plus 1; for whom the call waits ([`Awaited`]), as a kind and a number; the
/// lengths of the texts of the call and of its place.
const TURN: usize = 0;
const WINDOW: usize = 8;
const KIND: usize = 16;
const NUMBER: usize = 24;
const LENGTHS: [usize; 2] = [32, 40];
const TEXTS: [usize; 2] = [48, 96];
/// The locks that the rank holds: for each the window plus 1, or 0, and the lock ([`Held`]).
const HELD: usize = 256;
/// The most locks that an entry has. Further ones are not recorded, so a circle through them is not
/// found.
const MOST_HELD: usize = 16;
/// The bytes of a rank's entry.
const ENTRY: usize = HELD + 16 * MOST_HELD;

/// The number of looks, after the first one, that must find the same calls before the thread
/// reports these calls.
const LOOKS: u32 = 4;

/// The entries of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits<'m> {
    pub(super) memory: &'m Memory,
    pub(super) base: usize,
    pub(super) ranks: usize,
}

/// The bytes of the entries in a job of `ranks` ranks.
pub(super) const fn bytes(ranks: usize) -> usize {
    ENTRY * ranks
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait<'c> {
    pub(crate) call: &'c str,
    pub(crate) window: Option<u64>,
    pub(crate) awaited: Awaited,
}

/// For whom a call waits. Ranks are those of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// For ranks that are not known, or for any of several.
    Unknown,
    /// For a call of this rank.
    Rank(usize),
    /// For the holders of locks that exclude this one.
    Lock(Held),
    /// For all ranks that make the call together: their number, or 0 where it is not known.
    Meeting(usize),
}

/// A lock of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The rank whose part is locked; `None`: all of the window, by `lock_all`.
    pub(crate) target: Option<usize>,
    pub(crate) is_exclusive: bool,
}

const UNKNOWN: u64 = 0;
const RANK: u64 = 1;
const LOCK: u64 = 2;
const MEETING: u64 = 3;
const EXCLUSIVE: u64 = 1 << 63;

impl Held {
    fn encode(self) -> u64 {
        self.target.map_or(0, |target| target as u64 + 1) | if self.is_exclusive { EXCLUSIVE } else { 0 }
    }

    fn decode(word: u64) -> Held {
        Held { target: from_word((word & !EXCLUSIVE).checked_sub(1)), is_exclusive: word & EXCLUSIVE != 0 }
    }

    /// Whether one rank can't have this lock while another has `other`.
    fn excludes(self, other: Held) -> bool {
        let meet = self.target.is_none() || other.target.is_none() || self.target == other.target;
        meet && (self.is_exclusive || other.is_exclusive)
    }
}

fn from_word(word: Option<u64>) -> Option<usize> {
    word.and_then(|word| usize::try_from(word).ok())
}

impl Awaited {
    fn encode(self) -> (u64, u64) {
        match self {
            Awaited::Unknown => (UNKNOWN, 0),
            Awaited::Rank(rank) => (RANK, rank as u64),
            Awaited::Lock(held) => (LOCK, held.encode()),
            Awaited::Meeting(ranks) => (MEETING, ranks as u64),
        }
    }

    fn decode(kind: u64, number: u64) -> Awaited {
        let rank = usize::try_from(number).unwrap_or(usize::MAX);
        match kind {
            RANK => Awaited::Rank(rank),
            LOCK => Awaited::Lock(Held::decode(number)),
            MEETING => Awaited::Meeting(rank),
            _ => Awaited::Unknown,
        }
    }
}

/// The waiting calls of this rank.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls {
    /// The thread that has made a call.
    thread: Option<Identity>,
    /// Whether this rank's other threads, or processes outside of the job, may end its waits.
    is_helped: bool,
    /// The number of nested waiting calls of the thread.
    depth: u32,
    /// At rank 0 the thread that searches for a deadlock.
    _watcher: Option<Watcher>,
}

impl WaitingCalls {
    /// No calls.
    pub(super) fn new(watcher: Option<Watcher>) -> WaitingCalls {
        WaitingCalls { _watcher: watcher, ..WaitingCalls::default() }
    }

    /// Begins a call. Returns whether the call is to be recorded: nested calls are not.
    pub(super) fn begin(&mut self) -> bool {
        let this = threads::identity();
        self.is_helped |= *self.thread.get_or_insert(this) != this;
        self.depth += 1;
        self.depth == 1 && !self.is_helped
    }

    /// Ends a call. Returns whether the recorded call has ended.
    pub(super) fn end(&mut self) -> bool {
        self.depth = self.depth.saturating_sub(1);
        self.depth == 0
    }

    /// Records that processes outside of the job may end this rank's waits.
    pub(super) fn gets_help(&mut self) {
        self.is_helped = true;
    }

    /// Whether a waiting call is no evidence of a deadlock.
    pub(super) fn is_helped(&self) -> bool {
        self.is_helped
    }
}

impl<'m> Waits<'m> {
    fn word(self, rank: usize, at: usize) -> &'m AtomicU64 {
        self.memory.word64(self.base + ENTRY * rank + at)
    }

    /// Records that a rank waits, at a place of the program.
    pub(super) fn begin(self, rank: usize, wait: &Wait<'_>, place: &str) {
        // Relaxed: the Release below orders these stores, and pairs with the Acquire in `all`.
        self.word(rank, WINDOW).store(wait.window.map_or(0, |window| window + 1), Ordering::Relaxed);
        let (kind, number) = wait.awaited.encode();
        self.word(rank, KIND).store(kind, Ordering::Relaxed);
        self.word(rank, NUMBER).store(number, Ordering::Relaxed);
        for (index, text) in [wait.call, place].into_iter().enumerate() {
            let room = room(index).min(text.len());
            let len = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            self.memory.write(self.base + ENTRY * rank + TEXTS[index], &text.as_bytes()[..len]);
            self.word(rank, LENGTHS[index]).store(len as u64, Ordering::Relaxed);
        }
        self.word(rank, TURN).fetch_or(1, Ordering::Release);
    }

    /// Records that the wait of a rank is over.
    pub(super) fn end(self, rank: usize) {
        let turn = self.word(rank, TURN);
        // Relaxed: only this rank changes the word.
        turn.store((turn.load(Ordering::Relaxed) | 1).wrapping_add(1), Ordering::Relaxed);
    }

    /// Records that a rank holds a lock from here on.
    pub(super) fn holds(self, rank: usize, window: u64, held: Held) {
        // Relaxed: only this rank changes its words. The Release of `begin` orders them for a
        // watcher that finds this rank waiting.
        if let Some(slot) = self.slots(rank).find(|&at| self.word(rank, at).load(Ordering::Relaxed) == 0) {
            self.word(rank, slot + 8).store(held.encode(), Ordering::Relaxed);
            self.word(rank, slot).store(window + 1, Ordering::Relaxed);
        }
    }

    /// Records that a rank is about to release its lock of a target, or that of `lock_all`.
    pub(super) fn releases(self, rank: usize, window: u64, target: Option<usize>) {
        let is_it = |&at: &usize| {
            self.word(rank, at).load(Ordering::Relaxed) == window + 1
                && Held::decode(self.word(rank, at + 8).load(Ordering::Relaxed)).target == target
        };
        if let Some(slot) = self.slots(rank).find(is_it) {
            self.word(rank, slot).store(0, Ordering::Relaxed);
        }
    }

    fn slots(self, rank: usize) -> impl Iterator<Item = usize> {
        debug_assert!(rank < self.ranks);
        (0..MOST_HELD).map(|slot| HELD + 16 * slot)
    }

    /// The ranks other than `rank` that hold locks of the window which exclude this one.
    fn holders(self, rank: usize, window: u64, lock: Held) -> impl Iterator<Item = usize> {
        let holds = move |other: usize| {
            self.slots(other).any(|at| {
                self.word(other, at).load(Ordering::Relaxed) == window
                    && Held::decode(self.word(other, at + 8).load(Ordering::Relaxed)).excludes(lock)
            })
        };
        (0..self.ranks).filter(move |&other| other != rank && holds(other))
    }

    /// The number of the call in which a rank waits; `None` if it does not wait.
    fn turn(self, rank: usize) -> Option<u64> {
        // Acquire: pairs with the Release of `begin`.
        Some(self.word(rank, TURN).load(Ordering::Acquire)).filter(|turn| turn % 2 == 1)
    }

    /// For each rank the number of its call; `None` unless all ranks wait.
    fn all(self) -> Option<Vec<u64>> {
        (0..self.ranks).map(|rank| self.turn(rank)).collect()
    }

    /// For whom the call of a rank waits.
    fn awaited(self, rank: usize) -> Awaited {
        let [kind, number] = [KIND, NUMBER].map(|at| self.word(rank, at).load(Ordering::Relaxed));
        Awaited::decode(kind, number)
    }

    fn window(self, rank: usize) -> u64 {
        self.word(rank, WINDOW).load(Ordering::Relaxed)
    }

    /// Whether two ranks are in the same collective call.
    fn meet(self, one: usize, other: usize) -> bool {
        let both = [one, other];
        both.into_iter().all(|rank| self.turn(rank).is_some() && matches!(self.awaited(rank), Awaited::Meeting(_)))
            && self.window(one) == self.window(other)
            && self.text(one, 0) == self.text(other, 0)
    }

    /// Whether all ranks are in the same collective call.
    fn have_met(self) -> bool {
        (0..self.ranks).all(|rank| self.meet(0, rank))
    }

    fn text(self, rank: usize, index: usize) -> String {
        let len = usize::try_from(self.word(rank, LENGTHS[index]).load(Ordering::Relaxed)).unwrap_or(0);
        let mut text = vec![0; len.min(room(index))];
        self.memory.read(self.base + ENTRY * rank + TEXTS[index], &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// These ranks' calls, as text below `head`, and as a line of JSON.
    fn report(self, head: &str, ranks: &[usize]) -> (String, String) {
        let (mut text, mut json) = (format!("transom: {head}, as in a deadlock:\n"), String::from(r#"{"deadlock":["#));
        for (index, &rank) in ranks.iter().enumerate() {
            let window = self.window(rank).checked_sub(1);
            let [call, place] = [0, 1].map(|index| self.text(rank, index));
            let of = window.map_or(String::new(), |window| format!(" of window {window:x}"));
            let (whom, awaited) = self.whom(rank);
            // A `String` takes all text.
            let _ = writeln!(text, "  rank {rank}: {call}{of}{whom}, {place}");
            let comma = if index == 0 { "" } else { "," };
            let (call, place) = (quoted(&call), quoted(&place));
            let window = window.map_or("null".to_owned(), |window| format!("\"{window:x}\""));
            let peer = awaited.map_or("null".to_owned(), |peer| peer.to_string());
            let entry =
                format!(r#"{comma}{{"rank":{rank},"call":{call},"window":{window},"for":{peer},"place":{place}}}"#);
            json.push_str(&entry);
        }
        json.push_str("]}\n");
        (text.trim_end().to_owned(), json)
    }

    /// For whom the call of a rank waits, as words, and the rank if it is one.
    fn whom(self, rank: usize) -> (String, Option<usize>) {
        let at = |held: Held| held.target.map_or(String::new(), |target| format!(" at rank {target}"));
        match self.awaited(rank) {
            Awaited::Unknown | Awaited::Meeting(_) => (String::new(), None),
            Awaited::Rank(peer) => (format!(", waits for rank {peer}"), Some(peer)),
            Awaited::Lock(lock) => {
                let holders: Vec<_> = self.holders(rank, self.window(rank), lock).collect();
                match holders[..] {
                    [] => (at(lock), None),
                    [one] => (format!("{}, waits for rank {one}, which holds a lock", at(lock)), Some(one)),
                    [first, ref others @ ..] => {
                        let others: String = others.iter().map(|other| format!(", {other}")).collect();
                        (format!("{}, waits for ranks {first}{others}, which hold locks", at(lock)), None)
                    }
                }
            }
        }
    }
}

/// Maximum number of bytes of a text.
fn room(index: usize) -> usize {
    TEXTS.get(index + 1).copied().unwrap_or(HELD) - TEXTS[index]
}

/// What a thread finds again and again.
#[derive(Default)]
struct Steady<T> {
    last: Option<T>,
    equal: u32,
}

impl<T: PartialEq> Steady<T> {
    /// Records what is found now, and counts how often it was found again.
    fn sees(&mut self, now: Option<T>) {
        self.equal = if now.is_some() && now == self.last { self.equal.saturating_add(1) } else { 0 };
        self.last = now;
    }
}

/// The thread that searches for a deadlock.
#[derive(Debug)]
pub(super) struct Watcher {
    life: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Looks until it is dropped. `report` is called with the text and the JSON of a deadlock.
    pub(super) fn start(
        (memory, base, ranks): (Memory, usize, usize),
        patience: Duration,
        report: impl Fn(&str, &str) + Send + 'static,
    ) -> Option<Watcher> {
        let (life, ends) = channel();
        let look = move || {
            let waits = Waits { memory: &memory, base, ranks };
            let seconds = patience.as_secs_f32();
            let (mut all, mut some, mut told) = (Steady::default(), Steady::default(), None);
            while ends.recv_timeout(patience / LOOKS) == Err(RecvTimeoutError::Timeout) {
                all.sees(waits.all());
                some.sees(waits.circle());
                if some.last != told {
                    told = None;
                }
                // A circle explains why other ranks wait later. If all ranks wait, the report has
                // all of them.
                let (head, ranks) = match (&all.last, &some.last) {
                    _ if told.is_some() => continue,
                    (Some(_), _) if all.equal == LOOKS && !waits.have_met() => {
                        ("each rank has waited in its present call", (0..waits.ranks).collect())
                    }
                    (None, Some(circle)) if some.equal >= LOOKS => {
                        let ranks: Vec<_> = circle.iter().map(|&(rank, _)| rank).collect();
                        ("these ranks have waited for each other", ranks)
                    }
                    _ => continue,
                };
                let (text, json) = waits.report(&format!("{head} for {seconds} s"), &ranks);
                report(&text, &json);
                told.clone_from(&some.last);
            }
        };
        let thread = threads::spawn("transom-check", look).ok()?;
        Some(Watcher { life: Some(life), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.life.take());
        // A thread that panicked has printed its message.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: Wait<'static> = Wait { call: "fence", window: Some(1), awaited: Awaited::Meeting(2) };
    const START: Wait<'static> = Wait { call: "start", window: Some(0x1f), awaited: Awaited::Rank(0) };

    #[test]
    fn a_deadlock_is_reported_once_and_ends_when_a_rank_goes_on() {
        let memory = Memory::private(64 + bytes(2));
        let waits = Waits { memory: &memory, base: 64, ranks: 2 };
        let (told, reports) = channel();
        let watcher = Watcher::start((memory.clone(), 64, 2), Duration::from_millis(20), move |text, json| {
            drop(told.send((text.to_owned(), json.to_owned())));
        });
        waits.begin(0, &FENCE, "main at a.c:3");
        assert!(waits.all().is_none(), "rank 1 does not wait");
        waits.begin(1, &START, "main at \"b\".c:4");
        let (text, json) = reports.recv().expect("a report");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "  rank 0: fence of window 1, main at a.c:3",
                "  rank 1: start of window 1f, waits for rank 0, main at \"b\".c:4"
            ]
        );
        assert!(
            json.starts_with(
                r#"{"deadlock":[{"rank":0,"call":"fence","window":"1","for":null,"place":"main at a.c:3"},"#
            ),
            "{json}"
        );
        assert!(json.ends_with("\"window\":\"1f\",\"for\":0,\"place\":\"main at \\\"b\\\".c:4\"}]}\n"), "{json}");
        let before = waits.all();
        waits.end(1);
        assert!(waits.all().is_none());
        waits.begin(1, &START, "");
        assert_ne!(waits.all(), before);
        assert!(reports.recv().is_ok(), "a further one");
        drop(watcher);
        assert!(reports.recv().is_err(), "none after the end");
    }

    /// Rank 2 computes, and waits later. The circle is reported once.
    #[test]
    fn ranks_that_wait_for_each_other_are_reported_while_others_compute() {
        let memory = Memory::private(bytes(3));
        let waits = Waits { memory: &memory, base: 0, ranks: 3 };
        let (told, reports) = channel();
        let watcher = Watcher::start((memory.clone(), 0, 3), Duration::from_millis(20), move |text, _| {
            drop(told.send(text.to_owned()));
        });
        let locks = [0, 1].map(|target| Held { target: Some(target), is_exclusive: true });
        for rank in 0..2 {
            waits.holds(rank, 6, locks[rank]);
            let awaited = Awaited::Lock(locks[1 - rank]);
            waits.begin(rank, &Wait { call: "lock, exclusive,", window: Some(6), awaited }, "main at a.c:3");
        }
        let text = reports.recv().expect("a report");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "  rank 0: lock, exclusive, of window 6 at rank 1, waits for rank 1, which holds a lock, main at a.c:3",
                "  rank 1: lock, exclusive, of window 6 at rank 0, waits for rank 0, which holds a lock, main at a.c:3"
            ]
        );
        assert!(lines[0].starts_with("transom: these ranks have waited for each other for 0.02 s"), "{text}");
        waits.begin(2, &FENCE, "");
        drop(watcher);
        assert!(reports.recv().is_err(), "one report");
    }

    #[test]
    fn long_texts_are_cut() {
        let memory = Memory::private(bytes(2));
        let waits = Waits { memory: &memory, base: 0, ranks: 2 };
        for rank in 0..2 {
            waits.begin(rank, &Wait { call: &"é".repeat(99), ..FENCE }, &"x".repeat(HELD));
        }
        let (text, _) = waits.report("", &[0, 1]);
        let line = format!("  rank 0: {} of window 1, {}", "é".repeat(24), "x".repeat(160));
        assert_eq!(text.lines().nth(1), Some(line.as_str()));
    }

    #[test]
    fn a_collective_call_of_all_ranks_is_no_deadlock() {
        let memory = Memory::private(bytes(2));
        let waits = Waits { memory: &memory, base: 0, ranks: 2 };
        waits.begin(0, &FENCE, "here");
        waits.begin(1, &FENCE, "there");
        assert!(waits.have_met());
        waits.begin(1, &Wait { window: Some(2), ..FENCE }, "there");
        assert!(!waits.have_met(), "another window");
        waits.begin(1, &Wait { call: "barrier", ..FENCE }, "there");
        assert!(!waits.have_met(), "another call");
        (0..2).for_each(|rank| waits.begin(rank, &START, ""));
        assert!(!waits.have_met(), "not collective");
    }

    #[test]
    fn calls_of_several_threads_are_not_shown() {
        let mut shown = WaitingCalls::default();
        assert!(shown.begin() && !shown.begin(), "one within the other");
        assert!(!shown.end() && shown.end());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!shown.begin()));
        });
        assert!(shown.is_helped() && shown.end() && !shown.begin());
    }
}
