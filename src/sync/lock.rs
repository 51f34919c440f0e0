//! The protocol of a window's locks (MPI-4.1 §12.5.3), in two levels as in foMPI (Gerstenberger,
//! Besta and Hoefler, SC'13). Independent of the transport that changes the words.
//!
//! Each target has a word, which counts its shared holders (*readers*) and shows its exclusive
//! holder (*writer*). The *master word* at the window's first rank excludes `lock_all` and
//! exclusive locks from each other. A process *announces* itself in the master word before its
//! first exclusive lock, and withdraws the announcement after its last one. Without contention the
//! costs do not depend on the number of ranks:
//! - shared lock: 1 fetch-add at the target
//! - exclusive lock: 1 compare-and-swap at the target, and 1 fetch-add for the announcement if the
//!   process has not announced itself yet
//! - `lock_all`: 1 fetch-add at the master word
//!
//! # Bias
//!
//! An exclusive lock of a target that has the *bias* needs no announcement: it is 1
//! compare-and-swap at the target, so that locks of different targets share no word (after the
//! reader bias of BRAVO, Dice and Kogan, 2019). [`Bias`] decides when a target gets the bias. A bit
//! of the master word shows whether any target has it. A further word at the first rank has a bit,
//! its *mark*, for each group of targets.
//!
//! A writer grants the bias to a target (`give`) while the writer is announced and holds the
//! target. It sets the bit of the master word, then the mark of the target's group, then the bias
//! in the target's word. It grants nothing while a `lock_all` has *priority*, a further bit of the
//! master word.
//!
//! A `lock_all` that finds the bit of the bias in the master word revokes the bias (`take`):
//! 1. It claims priority.
//! 2. It waits until no writer is announced.
//! 3. It removes the bias from each target of the marked groups.
//! 4. It waits for the writers that hold one of these targets by the bias, and removes the marks.
//! 5. One change of the master word grants its lock and clears the bit of the bias. It clears the
//!    bit of priority too, unless the `lock_all` has waited for long (section *Fairness*).
//!
//! No target gets the bias between steps 2 and 5. After the claim, `give` fails. A writer whose
//! `give` has set the bit before the claim is still announced, so step 2 waits for it. A writer
//! without an announcement that waits for a target while the target loses the bias stops waiting,
//! announces itself and requests the lock again.
//!
//! # Fairness
//!
//! Readers and writers do not starve each other. A target's word counts waiting writers, and
//! readers that come later wait until one of these writers has held the lock. A reader that finds
//! the target held by a writer stays counted, so it gets the lock before the next writer (phases
//! alternate, as in the phase-fair locks of Brandenburg and Anderson, 2010). A `lock_all` that has
//! waited for [`POLLS_BEFORE_PRIORITY`] polls claims priority; new writers then wait until it holds
//! the lock. This `lock_all` keeps the priority for [`BATCH`] further polls, so that other waiting
//! `lock_all`s are granted too. Otherwise the next writer would often announce itself before their
//! next poll. Writers have no order among themselves, but none is overtaken for ever: a process
//! that has repeatedly taken the lock before waiting writers for [`OVERTAKES`] lets one of them go
//! first.
//!
//! # Waiting for processes that only wait
//!
//! A process that already holds a lock of the window (`nested`) does not wait for processes that
//! only wait. Otherwise two processes that each lock two targets could deadlock through a waiting
//! process. Each poll calls `nested` again, because another thread of the process may take a lock
//! meanwhile.
//!
//! A lock of another window, or a message, can cause the same deadlock, and the words do not show
//! it. A process therefore waits only for a limited number of polls, its *patience* ([`Patience`]),
//! for processes that may themselves only wait. When its patience has ended:
//! - A reader no longer waits for writers that only wait.
//! - A writer that only waits, for its announcement or for its target, withdraws its announcement
//!   while a `lock_all` has priority, and stands aside.
//! - A writer that stands aside or comes later than the `lock_all` then announces itself.
//!
//! The patience doubles each time that it ends. It therefore becomes longer than the time for which
//! others hold their locks, and no process starves. A wait that succeeds makes the patience short
//! again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Result;

mod bias;

pub(crate) use bias::Bias;

/// A word of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWord {
    /// The lock of a rank's part.
    Target(usize),
    /// The master word.
    Master,
    /// The word of the groups whose targets have the bias.
    Groups,
}

/// The words at all ranks. One actor (`routes::Actor`) changes a word, for all ranks.
pub(crate) trait LockWords {
    /// The number of targets.
    fn ranks(&self) -> usize;

    /// Adds, wrapping; returns the previous value.
    fn add(&self, which: LockWord, delta: u64) -> Result<u64>;

    /// Adds without waiting. The change and this process's next change of the word may take effect
    /// in either order, so the protocol must allow both.
    fn release(&self, which: LockWord, delta: u64) -> Result<()>;

    /// Stores `new` if the value is `expected`; returns the previous value.
    fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64>;

    /// Reads.
    fn read(&self, which: LockWord) -> Result<u64>;

    /// Lets other processes run before the next poll, at least for the time `apart`; `turn` counts
    /// the polls of one wait.
    fn pause(&self, turn: u32, apart: Duration) -> Result<()>;

    /// The patience of this process with others that may only wait.
    fn patience(&self) -> &Patience;

    /// A monotonic time, from an arbitrary origin.
    fn now(&self) -> Duration;
}

/// How a process waits: the number of polls for which it waits for processes that may only wait,
/// and the time between its polls of a word of another node.
#[derive(Debug)]
pub(crate) struct Patience {
    /// The number of polls of the first wait.
    least: u32,
    /// How often the patience has ended since such a wait succeeded. Relaxed: an estimate, which
    /// threads may overwrite.
    lost: AtomicU32,
    /// The duration of the last remote read of a word, in nanoseconds. Relaxed, as `lost`.
    round_trip: AtomicU32,
}

/// The longest time between two polls because of other waiters. It is short compared with
/// [`DEFERS`].
const APART_MAX: Duration = Duration::from_micros(640);

/// How often the limit doubles: to some seconds. In some programs every wait ends by its limit,
/// because the holder of the lock waits for the process that waits here.
const MOST_DOUBLINGS: u32 = 3;

impl Default for Patience {
    /// Some tenths of a second.
    fn default() -> Patience {
        Patience::new(500)
    }
}

impl Patience {
    const fn new(least: u32) -> Patience {
        Patience { least, lost: AtomicU32::new(0), round_trip: AtomicU32::new(0) }
    }

    /// Whether a process continues to wait after `turn` polls. A process that has given way
    /// (`aside`) waits longer than one that has not, so that several processes that give way do so
    /// at the same time.
    fn lasts(&self, turn: u32, aside: bool) -> bool {
        let doublings = self.lost.load(Ordering::Relaxed) + if aside { 2 } else { 0 };
        turn < self.least.saturating_mul(1 << doublings)
    }

    /// Records the duration of a remote read of a word.
    pub(crate) fn read_took(&self, time: Duration) {
        self.round_trip.store(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The time between two polls of a word for which `others` wait too. A word thus serves about
    /// one poll in a round trip, however many processes wait, and the pause of a single waiter is
    /// not longer for it.
    fn apart(&self, others: u64) -> Duration {
        let nanos = u64::from(self.round_trip.load(Ordering::Relaxed)).saturating_mul(others);
        Duration::from_nanos(nanos).min(APART_MAX)
    }

    /// Records the end of a wait: whether the process has lost its patience.
    fn ends(&self, lost: bool) {
        let times = if lost { (self.lost.load(Ordering::Relaxed) + 1).min(MOST_DOUBLINGS) } else { 0 };
        self.lost.store(times, Ordering::Relaxed);
    }
}

/// Maximum time for which a process overtakes waiting writers: takes the lock although they came
/// first. It is long compared with the sleeps of a waiting writer, during which the lock may be
/// free.
const OVERTAKES: Duration = Duration::from_millis(20);
/// Time for which the process then leaves a free lock to the waiting writers: longer than such a
/// sleep.
const DEFERS: Duration = Duration::from_millis(2);

/// Number of polls of the master word before a `lock_all` claims priority.
const POLLS_BEFORE_PRIORITY: u32 = 80;
/// Number of polls for which that `lock_all` keeps the priority after the grant: about 1 ms, which
/// is longer than most sleeps between two polls.
const BATCH: u32 = 12;

// A target's word, from the highest bit: whether a writer holds the target, whether the target has
// the bias, the number of waiting writers, the number of readers.
const READER: u64 = 1;
const WRITER: u64 = 1 << 63;
const BIAS: u64 = 1 << 62;
const WAITING_WRITER: u64 = 1 << 32;
const WAITING_WRITERS: u64 = BIAS - WAITING_WRITER;
const READERS: u64 = WAITING_WRITER - READER;

// The master word, from the highest bit: whether a `lock_all` has priority, whether targets have
// the bias, the number of announced processes, the number of holders of `lock_all`.
const PRIORITY: u64 = 1 << 63;
const BIASED: u64 = 1 << 62;
const WRITING: u64 = 1 << 32;
const WRITINGS: u64 = BIASED - WRITING;
const ALL: u64 = 1;
const ALLS: u64 = WRITING - 1;

/// The number of other processes that poll a word for which the calling process waits. A waiting
/// `lock_all` is not counted, because the word does not show it.
fn beside(which: LockWord, word: u64) -> u64 {
    let waiting = match which {
        LockWord::Target(_) => {
            let readers = if word & WRITER == 0 { 0 } else { word & READERS };
            (word & WAITING_WRITERS) / WAITING_WRITER + readers
        }
        LockWord::Master if word & ALLS != 0 => (word & WRITINGS) / WRITING,
        LockWord::Master | LockWord::Groups => 0,
    };
    waiting.saturating_sub(1)
}

/// Maximum number of round trips between two polls of a process that gets the lock together with
/// others, such as a reader. The next holder waits for the last of these processes.
const TOGETHER: u64 = 4;

/// Pauses before the next poll of a word, which had this value.
fn pause(words: &impl LockWords, which: LockWord, word: u64, turn: u32) -> Result<()> {
    words.pause(turn, words.patience().apart(beside(which, word)))
}

/// Locks a target shared. `nested`: whether this process holds a lock of the window.
#[inline]
pub(crate) fn shared(words: &impl LockWords, target: usize, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(LockWord::Target(target), READER)?;
    if found & (WRITER | WAITING_WRITERS) == 0 { Ok(()) } else { shared_slow(words, target, nested, found) }
}

/// Slow path of [`shared`]: a writer has the lock or waits. `found`: the word before this reader
/// was counted.
#[cold]
fn shared_slow(words: &impl LockWords, target: usize, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    let which = LockWord::Target(target);
    let mut patient = true;
    loop {
        if found & WRITER != 0 {
            // This reader stays counted, so no other writer gets the lock before it.
            let waited = wait_until(words, which, |word| word & WRITER == 0);
            return or_withdrawn(words, which, READER, waited);
        }
        if found & WAITING_WRITERS == 0 || !patient || nested() {
            return Ok(());
        }
        or_withdrawn(words, which, READER, words.add(which, READER.wrapping_neg()))?;
        let may_enter = |word| word & WRITER != 0 || word & WAITING_WRITERS == 0 || nested();
        patient = wait_patiently(words, which, false, may_enter)?;
        found = words.add(which, READER)?;
    }
}

/// What unlocking a target adds to its word.
pub(crate) const fn released(exclusive: bool) -> u64 {
    if exclusive { WRITER.wrapping_neg() } else { READER.wrapping_neg() }
}

/// Unlocks a target that was locked shared.
#[inline]
pub(crate) fn shared_end(words: &impl LockWords, target: usize) -> Result<()> {
    words.release(LockWord::Target(target), released(false))
}

/// Unlocks a target that was locked exclusively after an announcement. `last`: this process holds
/// no other such lock of the window, so the announcement ends.
#[inline]
pub(crate) fn exclusive_end(words: &impl LockWords, target: usize, last: bool) -> Result<()> {
    let released = biased_end(words, target);
    // The announcement ends also after a failed release, because every `lock_all` waits for it.
    released.and(if last { announced_end(words) } else { Ok(()) })
}

/// Unlocks a target that was locked exclusively by the bias. The target may have lost the bias
/// meanwhile.
#[inline]
pub(crate) fn biased_end(words: &impl LockWords, target: usize) -> Result<()> {
    words.release(LockWord::Target(target), released(true))
}

/// Locks all targets shared.
#[inline]
pub(crate) fn all(words: &impl LockWords) -> Result<()> {
    if words.add(LockWord::Master, ALL)? & (WRITINGS | BIASED) == 0 { Ok(()) } else { all_slow(words) }
}

/// Slow path of [`all`]: writers are announced, or targets have the bias.
#[cold]
fn all_slow(words: &impl LockWords) -> Result<()> {
    let step_back = || or_withdrawn(words, LockWord::Master, ALL, words.add(LockWord::Master, ALL.wrapping_neg()));
    step_back()?;
    let mut polls = 0;
    let mut word = words.read(LockWord::Master)?;
    loop {
        if word & (WRITINGS | BIASED) == 0 {
            if words.add(LockWord::Master, ALL)? & (WRITINGS | BIASED) == 0 {
                return Ok(());
            }
            step_back()?;
        } else if word & PRIORITY == 0 && (polls >= POLLS_BEFORE_PRIORITY || word & BIASED != 0) {
            // Waiting does not end the bias, so a `lock_all` claims priority at once.
            let found = words.swap(LockWord::Master, word, word | PRIORITY)?;
            if found == word {
                break;
            }
            word = found;
            continue;
        }
        pause(words, LockWord::Master, word, polls)?;
        polls = polls.saturating_add(1);
        word = words.read(LockWord::Master)?;
    }
    let batch = if polls < POLLS_BEFORE_PRIORITY { 0 } else { BATCH };
    or_withdrawn(words, LockWord::Master, PRIORITY, all_by_priority(words, word, batch))
}

/// Locks all targets shared, for the process that has priority, and ends the priority. `word`: the
/// master word before the claim; `batch`: the number of polls between the grant and the end.
fn all_by_priority(words: &impl LockWords, word: u64, batch: u32) -> Result<()> {
    if word & BIASED != 0 {
        wait_until(words, LockWord::Master, |word| word & WRITINGS == 0)?;
        bias::take(words)?;
    }
    let ended = if batch == 0 { PRIORITY } else { 0 };
    change(words, LockWord::Master, |word| (word & WRITINGS == 0).then_some((word & !(ended | BIASED)) + ALL))?;
    if batch == 0 {
        return Ok(());
    }
    let mut waited = (0..batch).try_for_each(|turn| words.pause(POLLS_BEFORE_PRIORITY + turn, Duration::ZERO));
    waited = waited.and_then(|()| words.add(LockWord::Master, PRIORITY.wrapping_neg()).map(drop));
    or_withdrawn(words, LockWord::Master, ALL, waited)
}

/// Unlocks all targets.
pub(crate) fn all_end(words: &impl LockWords) -> Result<()> {
    words.release(LockWord::Master, ALL.wrapping_neg())
}

/// Announces this process as a writer in the master word, before its first exclusive lock, and
/// waits until no process holds `lock_all`.
#[inline]
pub(crate) fn announce(words: &impl LockWords, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(LockWord::Master, WRITING)?;
    if found & (PRIORITY | ALLS) == 0 { Ok(()) } else { announce_slow(words, nested, found) }
}

/// Withdraws the announcement.
pub(crate) fn announced_end(words: &impl LockWords) -> Result<()> {
    words.release(LockWord::Master, WRITING.wrapping_neg())
}

/// Slow path of [`announce`]: a process holds `lock_all` or has priority. `found`: the word before
/// this writer was counted.
#[cold]
fn announce_slow(words: &impl LockWords, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    let or_withdrawn = |outcome| or_withdrawn(words, LockWord::Master, WRITING, outcome);
    let mut defers = true;
    loop {
        let waits = found & PRIORITY == 0 || !defers || nested();
        if waits && found & ALLS == 0 {
            return Ok(());
        }
        let announced = |word, turn| match word {
            _ if word & ALLS == 0 => Some(true),
            _ => (word & PRIORITY != 0 && !words.patience().lasts(turn, false)).then_some(false),
        };
        if waits {
            if or_withdrawn(poll(words, LockWord::Master, announced))? {
                return Ok(());
            }
            words.patience().ends(true);
        }
        or_withdrawn(words.add(LockWord::Master, WRITING.wrapping_neg()).map(|_| true))?;
        // The `lock_all` with priority may hold a lock of another window that keeps others waiting.
        defers = wait_patiently(words, LockWord::Master, waits, |word| word & PRIORITY == 0 || !waits && nested())?;
        found = words.add(LockWord::Master, WRITING)?;
    }
}

/// Waits, after this process has withdrawn its announcement, until no `lock_all` has priority. The
/// wait is limited, because the process of that `lock_all` may wait for a lock of this process.
pub(crate) fn stand_aside(words: &impl LockWords) -> Result<()> {
    wait_patiently(words, LockWord::Master, true, |word| word & PRIORITY == 0).map(drop)
}

/// How a wait for an exclusive lock has ended.
enum Waited {
    /// With the lock. The target's word before.
    Taken(u64),
    /// Without it: the target has no bias.
    NoBias,
    /// Without it, after a long wait: a `lock_all` has priority.
    GaveWay,
}

/// Whether writers wait in addition to the calling one, which is counted as waiting.
const fn others_wait(word: u64) -> bool {
    word & WAITING_WRITERS > WAITING_WRITER
}

/// [`Bias::exclusive_waits`] of a writer that is counted as waiting. `needs`: the bits of the word
/// without which it stops waiting; `word`: the target's word; `defers`: whether another waiting
/// writer goes first; `gives_way`: whether this process may give way to a `lock_all`.
fn exclusive_waiting(
    words: &impl LockWords,
    which: LockWord,
    needs: u64,
    mut word: u64,
    mut defers: bool,
    gives_way: impl Fn() -> bool,
) -> Result<Waited> {
    let mut turn = 0;
    let mut free_since = None;
    loop {
        if word & needs != needs {
            words.add(which, WAITING_WRITER.wrapping_neg())?;
            return Ok(Waited::NoBias);
        }
        if !words.patience().lasts(turn, false) && gives_way() && words.read(LockWord::Master)? & PRIORITY != 0 {
            words.patience().ends(true);
            words.add(which, WAITING_WRITER.wrapping_neg())?;
            return Ok(Waited::GaveWay);
        }
        let is_free = word & (WRITER | READERS) == 0;
        if defers {
            // The lock was free, and another writer has taken it. A reader may be counted for a
            // moment only: it finds the waiting writer and withdraws.
            let has_deferred = free_since.is_some() && word & WRITER != 0;
            free_since = free_since.or_else(|| is_free.then(|| words.now()));
            let lasts = free_since.is_none_or(|since| words.now() < since + DEFERS);
            defers = !has_deferred && others_wait(word) && lasts;
        }
        if is_free && !defers {
            let found = words.swap(which, word, word - WAITING_WRITER + WRITER)?;
            if found == word {
                return Ok(Waited::Taken(word));
            }
            word = found;
        } else {
            pause(words, which, word, turn)?;
            turn += 1;
            word = words.read(which)?;
        }
    }
}

/// Result of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The lock was free, and is taken.
    Taken,
    /// Other processes have the lock or wait for it.
    Busy,
    /// The target has no bias, without which an exclusive lock needs the master word.
    NoBias,
}

/// Takes a shared lock if no writer has the lock or waits. For the target's CPU, which acts for an
/// origin and never waits.
pub(crate) fn try_shared(word: &AtomicU64) -> Tried {
    // SeqCst, as all changes of these words.
    let free = |word: u64| (word & (WRITER | WAITING_WRITERS) == 0).then(|| word + READER);
    match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free) {
        Ok(_) => Tried::Taken,
        Err(_) => Tried::Busy,
    }
}

/// Takes an exclusive lock by the bias if the lock is free and no process waits.
pub(crate) fn try_biased(word: &AtomicU64) -> Tried {
    match word.compare_exchange(BIAS, BIAS | WRITER, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => Tried::Taken,
        Err(found) if found & BIAS == 0 => Tried::NoBias,
        Err(_) => Tried::Busy,
    }
}

/// Releases a lock that [`try_shared`] or [`try_biased`] has taken.
pub(crate) fn tried_end(word: &AtomicU64, exclusive: bool) {
    word.fetch_sub(if exclusive { WRITER } else { READER }, Ordering::SeqCst);
}

/// Polls a word until `to` gives a new value for it, and stores that value.
fn change(words: &impl LockWords, which: LockWord, to: impl Fn(u64) -> Option<u64>) -> Result<()> {
    let mut turn = 0;
    let mut word = words.read(which)?;
    loop {
        if let Some(new) = to(word) {
            let found = words.swap(which, word, new)?;
            if found == word {
                return Ok(());
            }
            word = found;
        } else {
            pause(words, which, word, turn)?;
            turn += 1;
            word = words.read(which)?;
        }
    }
}

/// Takes back an addition of this process to a word after an error, because other processes would
/// wait for this process. A failed change had no effect on the word, or the word can't be reached
/// any more.
fn or_withdrawn<T>(words: &impl LockWords, which: LockWord, added: u64, outcome: Result<T>) -> Result<T> {
    // The first failure is reported; a failure of the release is dropped.
    outcome.inspect_err(|_| drop(words.release(which, added.wrapping_neg())))
}

fn wait_until(words: &impl LockWords, which: LockWord, done: impl Fn(u64) -> bool) -> Result<()> {
    poll(words, which, |word, _| done(word).then_some(()))
}

/// Polls a word until `done`. Returns false if the process lost its patience before.
fn wait_patiently(words: &impl LockWords, which: LockWord, aside: bool, done: impl Fn(u64) -> bool) -> Result<bool> {
    let patience = words.patience();
    let end = |word, turn| if done(word) { Some(true) } else { (!patience.lasts(turn, aside)).then_some(false) };
    let patient = poll(words, which, end)?;
    patience.ends(!patient);
    Ok(patient)
}

/// Polls a word until `end` returns an outcome for the word and the number of earlier polls.
fn poll<T>(words: &impl LockWords, which: LockWord, end: impl Fn(u64, u32) -> Option<T>) -> Result<T> {
    let mut turn = 0;
    loop {
        let word = words.read(which)?;
        if let Some(outcome) = end(word, turn) {
            return Ok(outcome);
        }
        words.pause(turn, words.patience().apart(beside(which, word).min(TOGETHER)))?;
        turn += 1;
    }
}

#[cfg(test)]
mod tests;
