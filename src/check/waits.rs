//! Detection of deadlocks. Each rank records in the area of rank 0 in which call it waits, and for
//! which rank. A thread of rank 0 reads these entries periodically. If each rank has waited in its
//! present call for `TRANSOM_CHECK_WAIT`, the thread reports the calls. It reports nothing if all
//! ranks are in the same collective call, because such a call may take long, or if another thread
//! or process may end a wait ([`WaitingCalls::is_helped`]).

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use transom_fabric::Memory;
use transom_fabric::threads::{self, Identity};

use super::report::quoted;

/// The words of a rank's entry: a counter that each call raises twice, and that is odd while a call
/// waits; the window plus 1; the awaited rank plus 1; whether the call is collective; the lengths
/// of the texts of the call and of its place.
const TURN: usize = 0;
const WINDOW: usize = 8;
const PEER: usize = 16;
const COLLECTIVE: usize = 24;
const LENGTHS: [usize; 2] = [32, 40];
const TEXTS: [usize; 2] = [48, 96];
/// The bytes of a rank's entry.
const ENTRY: usize = 256;

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
    /// The rank of the job for which the call waits, if it waits for one rank.
    pub(crate) peer: Option<usize>,
    /// Whether all ranks of the window or the job make the call together.
    pub(crate) is_collective: bool,
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
        self.word(rank, PEER).store(wait.peer.map_or(0, |peer| peer as u64 + 1), Ordering::Relaxed);
        self.word(rank, COLLECTIVE).store(u64::from(wait.is_collective), Ordering::Relaxed);
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

    /// For each rank the number of its call; `None` unless all ranks wait.
    fn all(self) -> Option<Vec<u64>> {
        // Acquire: pairs with the Release of `begin`.
        let turns = (0..self.ranks).map(|rank| self.word(rank, TURN).load(Ordering::Acquire));
        turns.map(|turn| (turn % 2 == 1).then_some(turn)).collect()
    }

    /// Whether all ranks are in the same collective call.
    fn have_met(self) -> bool {
        let value = |rank, at| self.word(rank, at).load(Ordering::Relaxed);
        let is_same = |rank| value(rank, WINDOW) == value(0, WINDOW) && self.text(rank, 0) == self.text(0, 0);
        (0..self.ranks).all(|rank| value(rank, COLLECTIVE) != 0 && is_same(rank))
    }

    fn text(self, rank: usize, index: usize) -> String {
        let len = usize::try_from(self.word(rank, LENGTHS[index]).load(Ordering::Relaxed)).unwrap_or(0);
        let mut text = vec![0; len.min(room(index))];
        self.memory.read(self.base + ENTRY * rank + TEXTS[index], &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The calls of all ranks, as text and as a line of JSON.
    fn report(self, patience: Duration) -> (String, String) {
        let seconds = patience.as_secs_f32();
        let mut text =
            format!("transom: each rank has waited in its present call for {seconds} s, as in a deadlock:\n");
        let mut json = String::from(r#"{"deadlock":["#);
        for rank in 0..self.ranks {
            let [window, peer] = [WINDOW, PEER].map(|at| self.word(rank, at).load(Ordering::Relaxed).checked_sub(1));
            let [call, place] = [0, 1].map(|index| self.text(rank, index));
            let of = window.map_or(String::new(), |window| format!(" of window {window:x}"));
            let whom = peer.map_or(String::new(), |peer| format!(", waits for rank {peer}"));
            // A `String` takes all text.
            let _ = writeln!(text, "  rank {rank}: {call}{of}{whom}, {place}");
            let comma = if rank == 0 { "" } else { "," };
            let (call, place) = (quoted(&call), quoted(&place));
            let window = window.map_or("null".to_owned(), |window| format!("\"{window:x}\""));
            let peer = peer.map_or("null".to_owned(), |peer| peer.to_string());
            let entry =
                format!(r#"{comma}{{"rank":{rank},"call":{call},"window":{window},"for":{peer},"place":{place}}}"#);
            json.push_str(&entry);
        }
        json.push_str("]}\n");
        (text.trim_end().to_owned(), json)
    }
}

/// Maximum number of bytes of a text.
fn room(index: usize) -> usize {
    TEXTS.get(index + 1).copied().unwrap_or(ENTRY) - TEXTS[index]
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
            let (mut last, mut equal) = (None, 0);
            while ends.recv_timeout(patience / LOOKS) == Err(RecvTimeoutError::Timeout) {
                let now = waits.all();
                equal = if now.is_some() && now == last { equal + 1 } else { 0 };
                if equal == LOOKS && !waits.have_met() {
                    let (text, json) = waits.report(patience);
                    report(&text, &json);
                }
                last = now;
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

    const FENCE: Wait<'static> = Wait { call: "fence", window: Some(1), peer: None, is_collective: true };
    const START: Wait<'static> = Wait { call: "start", window: Some(0x1f), peer: Some(0), is_collective: false };

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

    #[test]
    fn long_texts_are_cut() {
        let memory = Memory::private(bytes(2));
        let waits = Waits { memory: &memory, base: 0, ranks: 2 };
        for rank in 0..2 {
            waits.begin(rank, &Wait { call: &"é".repeat(99), ..FENCE }, &"x".repeat(ENTRY));
        }
        let (text, _) = waits.report(Duration::from_secs(1));
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
