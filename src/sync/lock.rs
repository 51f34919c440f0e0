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
//! 5. One change of the master word grants its lock and clears both bits.
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
//! the lock. Writers among themselves have no order: one that unlocks and locks again at once may
//! overtake writers that sleep.
//!
//! A process that already holds a lock of the window (`nested`) does not wait for processes that
//! only wait. Otherwise two processes that each lock two targets could deadlock through a waiting
//! process. Each poll calls `nested` again, because another thread of the process may take a lock
//! meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::error::Result;

/// A word of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The lock of a rank's part.
    Target(usize),
    /// The master word.
    Master,
    /// The word of the groups whose targets have the bias.
    Groups,
}

/// The words at all ranks. One actor (`routes::Actor`) changes a word, for all ranks.
pub(crate) trait Words {
    /// The number of targets.
    fn ranks(&self) -> usize;

    /// Adds, wrapping; returns the previous value.
    fn add(&self, place: Place, delta: u64) -> Result<u64>;

    /// Adds without waiting. The change and this process's next change of the word may take effect
    /// in either order, so the protocol must allow both.
    fn release(&self, place: Place, delta: u64) -> Result<()>;

    /// Stores `new` if the value is `expected`; returns the previous value.
    fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64>;

    /// Reads.
    fn read(&self, place: Place) -> Result<u64>;

    /// Lets other processes run before the next poll; `turn` counts the polls of one wait.
    fn pause(&self, turn: u32) -> Result<()>;
}

/// Number of polls of the master word before a `lock_all` claims priority.
const POLLS_BEFORE_PRIORITY: u32 = 80;

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

// The word of groups: the number of revocations (wrapping), and the mark of each group.
const GROUPS: usize = 48;
const TAKEN: u64 = 1 << GROUPS;
const MARKS: u64 = TAKEN - 1;

/// The mark of a target's group. A group has one target where a window has at most [`GROUPS`].
const fn mark(target: usize) -> u64 {
    1 << (target % GROUPS)
}

/// A process's guesses about the bias in one window. Threads may overwrite each other's values: a
/// wrong value costs further steps, and never breaks a lock.
#[derive(Debug)]
pub(crate) struct Bias {
    /// Whether the last exclusive lock found its target with the bias.
    expected: AtomicBool,
    /// The number of revocations that this process has seen.
    taken: AtomicU16,
    /// The number of exclusive locks without the bias until this process next decides whether to
    /// grant it.
    left: AtomicU32,
    /// The number of such locks between two decisions. It grows after each revocation, and shrinks
    /// while the bias that this process granted lasts. The cost of revocations is therefore a small
    /// share of the cost of the exclusive locks between them.
    interval: AtomicU32,
    /// Whether this process granted the bias at its last decision.
    gave: AtomicBool,
    /// The shortest interval. It grows with the number of targets in a group, all of which a
    /// revocation visits.
    least: u32,
}

impl Bias {
    /// The number of doublings from the shortest interval to the longest.
    const DOUBLINGS: u32 = 8;

    /// No target of a window of `ranks` ranks has the bias.
    pub(crate) fn new(ranks: usize) -> Bias {
        let least = 4 * u32::try_from(ranks.div_ceil(GROUPS)).unwrap_or(u32::MAX >> (Bias::DOUBLINGS + 2));
        Bias {
            expected: AtomicBool::new(false),
            taken: AtomicU16::new(0),
            left: AtomicU32::new(least),
            interval: AtomicU32::new(least),
            gave: AtomicBool::new(false),
            least,
        }
    }

    /// Whether the next exclusive lock is likely to need the target's word alone.
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.load(Ordering::Relaxed)
    }

    /// Records that a target was found without the bias.
    pub(crate) fn is_lost(&self) {
        self.expected.store(false, Ordering::Relaxed);
    }

    /// Locks a target exclusively by its word alone, if it has the bias. Returns false without a
    /// lock if it has none.
    #[inline]
    pub(crate) fn exclusive(&self, words: &impl Words, target: usize) -> Result<bool> {
        // Relaxed, as for all fields: the values are guesses.
        if !self.expected.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let found = words.swap(Place::Target(target), BIAS, BIAS | WRITER)?;
        if found == BIAS { Ok(true) } else { self.exclusive_slow(words, target, found) }
    }

    /// Slow path of [`Bias::exclusive`]: other processes hold the lock or wait for it, or the
    /// target has no bias. `found`: the target's word.
    #[cold]
    fn exclusive_slow(&self, words: &impl Words, target: usize, found: u64) -> Result<bool> {
        let had = found & BIAS != 0 && exclusive_slow(words, target, BIAS)?.is_some();
        self.expected.store(had, Ordering::Relaxed);
        Ok(had)
    }

    /// Locks a target exclusively, for a process that has announced itself. After an interval of
    /// such locks, decides whether to grant the bias.
    #[inline]
    pub(crate) fn announced_exclusive(&self, words: &impl Words, target: usize) -> Result<()> {
        if exclusive(words, target)? {
            self.expected.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 {
            self.left.store(left - 1, Ordering::Relaxed);
            return Ok(());
        }
        self.decide(words, target).inspect_err(|_| drop(words.release(Place::Target(target), WRITER.wrapping_neg())))
    }

    /// Grants the bias to a target that this process holds, unless the bias was revoked since the
    /// last decision.
    #[cold]
    fn decide(&self, words: &impl Words, target: usize) -> Result<()> {
        let taken = taken(words.read(Place::Groups)?);
        let since = taken.wrapping_sub(self.taken.swap(taken, Ordering::Relaxed));
        let before = self.interval.load(Ordering::Relaxed);
        let mut given = false;
        let interval = if since > 0 {
            // One doubling for each revocation, which may be another target's.
            let doublings = u32::from(since).min(Bias::DOUBLINGS);
            before.saturating_mul(1 << doublings).min(self.least << Bias::DOUBLINGS)
        } else {
            given = give(words, target)?;
            if self.gave.load(Ordering::Relaxed) { (before / 2).max(self.least) } else { before }
        };
        self.gave.store(given, Ordering::Relaxed);
        self.expected.store(given, Ordering::Relaxed);
        self.interval.store(interval, Ordering::Relaxed);
        self.left.store(interval, Ordering::Relaxed);
        Ok(())
    }
}

/// The number of revocations, from the word of groups.
#[allow(clippy::cast_possible_truncation)]
fn taken(groups: u64) -> u16 {
    (groups >> GROUPS) as u16
}

/// Locks a target shared. `nested`: whether this process holds a lock of the window.
#[inline]
pub(crate) fn shared(words: &impl Words, target: usize, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(Place::Target(target), READER)?;
    if found & (WRITER | WAITING_WRITERS) == 0 { Ok(()) } else { shared_slow(words, target, nested, found) }
}

/// Slow path of [`shared`]: a writer has the lock or waits. `found`: the word before this reader
/// was counted.
#[cold]
fn shared_slow(words: &impl Words, target: usize, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    let place = Place::Target(target);
    loop {
        if found & WRITER != 0 {
            // This reader stays counted, so no other writer gets the lock before it.
            let waited = wait_until(words, place, |word| word & WRITER == 0);
            return or_withdrawn(words, place, READER, waited);
        }
        if found & WAITING_WRITERS == 0 || nested() {
            return Ok(());
        }
        or_withdrawn(words, place, READER, words.add(place, READER.wrapping_neg()))?;
        wait_until(words, place, |word| word & WRITER != 0 || word & WAITING_WRITERS == 0 || nested())?;
        found = words.add(place, READER)?;
    }
}

/// Unlocks a target that was locked shared.
#[inline]
pub(crate) fn shared_end(words: &impl Words, target: usize) -> Result<()> {
    words.release(Place::Target(target), READER.wrapping_neg())
}

/// Locks a target exclusively, for a process that has announced itself. Returns whether the target
/// has the bias.
#[inline]
fn exclusive(words: &impl Words, target: usize) -> Result<bool> {
    match words.swap(Place::Target(target), 0, WRITER)? {
        0 => Ok(false),
        BIAS if words.swap(Place::Target(target), BIAS, BIAS | WRITER)? == BIAS => Ok(true),
        _ => Ok(exclusive_slow(words, target, 0)?.is_some_and(|word| word & BIAS != 0)),
    }
}

/// Unlocks a target that was locked exclusively after an announcement. `last`: this process holds
/// no other such lock of the window, so the announcement ends.
#[inline]
pub(crate) fn exclusive_end(words: &impl Words, target: usize, last: bool) -> Result<()> {
    let released = biased_end(words, target);
    // The announcement ends also after a failed release, because every `lock_all` waits for it.
    released.and(if last { announced_end(words) } else { Ok(()) })
}

/// Unlocks a target that was locked exclusively by the bias. The target may have lost the bias
/// meanwhile.
#[inline]
pub(crate) fn biased_end(words: &impl Words, target: usize) -> Result<()> {
    words.release(Place::Target(target), WRITER.wrapping_neg())
}

/// Locks all targets shared.
#[inline]
pub(crate) fn all(words: &impl Words) -> Result<()> {
    if words.add(Place::Master, ALL)? & (WRITINGS | BIASED) == 0 { Ok(()) } else { all_slow(words) }
}

/// Slow path of [`all`]: writers are announced, or targets have the bias.
#[cold]
fn all_slow(words: &impl Words) -> Result<()> {
    let step_back = || or_withdrawn(words, Place::Master, ALL, words.add(Place::Master, ALL.wrapping_neg()));
    step_back()?;
    let mut polls = 0;
    let mut word = words.read(Place::Master)?;
    loop {
        if word & (WRITINGS | BIASED) == 0 {
            if words.add(Place::Master, ALL)? & (WRITINGS | BIASED) == 0 {
                return Ok(());
            }
            step_back()?;
        } else if word & PRIORITY == 0 && (polls >= POLLS_BEFORE_PRIORITY || word & BIASED != 0) {
            // Waiting does not end the bias, so a `lock_all` claims priority at once.
            let found = words.swap(Place::Master, word, word | PRIORITY)?;
            if found == word {
                break;
            }
            word = found;
            continue;
        }
        words.pause(polls)?;
        polls = polls.saturating_add(1);
        word = words.read(Place::Master)?;
    }
    or_withdrawn(words, Place::Master, PRIORITY, all_by_priority(words, word))
}

/// Locks all targets shared, for the process that has priority. The change that grants the lock
/// also ends the priority. `word`: the master word before the claim.
fn all_by_priority(words: &impl Words, word: u64) -> Result<()> {
    if word & BIASED != 0 {
        wait_until(words, Place::Master, |word| word & WRITINGS == 0)?;
        take(words)?;
    }
    change(words, Place::Master, |word| (word & WRITINGS == 0).then_some((word & !(PRIORITY | BIASED)) + ALL))
}

/// Grants the bias to a target that this process holds after an announcement. Returns false, and
/// grants nothing, while a `lock_all` has priority.
fn give(words: &impl Words, target: usize) -> Result<bool> {
    let mut word = words.read(Place::Master)?;
    while word & PRIORITY == 0 {
        let found = words.swap(Place::Master, word, word | BIASED)?;
        if found == word {
            change(words, Place::Groups, |groups| Some(groups | mark(target)))?;
            words.add(Place::Target(target), BIAS)?;
            return Ok(true);
        }
        word = found;
    }
    Ok(false)
}

/// Revokes the bias of all targets, for the process that has priority, and waits for the writers
/// that hold a target by the bias.
fn take(words: &impl Words) -> Result<()> {
    let groups = words.read(Place::Groups)?;
    let mut written = Vec::new();
    take_marked(words, groups, &mut written).inspect_err(|_| {
        // The next revocation must find these writers. The first failure is reported; a further one
        // is dropped.
        written.iter().for_each(|&place| drop(words.add(place, BIAS)));
    })
}

/// Revokes the bias of the targets of the marked `groups`. `written` gets the targets that lost the
/// bias while a writer held them.
fn take_marked(words: &impl Words, groups: u64, written: &mut Vec<Place>) -> Result<()> {
    for target in (0..words.ranks()).filter(|&target| groups & mark(target) != 0) {
        let place = Place::Target(target);
        let mut found = words.swap(place, BIAS, 0)?;
        if found != BIAS && found & BIAS != 0 {
            found = words.add(place, BIAS.wrapping_neg())?;
        }
        if found & BIAS != 0 && found & WRITER != 0 {
            written.push(place);
        }
    }
    for &place in &*written {
        wait_until(words, place, |word| word & WRITER == 0)?;
    }
    words.add(Place::Groups, TAKEN.wrapping_sub(groups & MARKS)).map(drop)
}

/// Unlocks all targets.
pub(crate) fn all_end(words: &impl Words) -> Result<()> {
    words.release(Place::Master, ALL.wrapping_neg())
}

/// Announces this process as a writer in the master word, before its first exclusive lock, and
/// waits until no process holds `lock_all`.
#[inline]
pub(crate) fn announce(words: &impl Words, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(Place::Master, WRITING)?;
    if found & (PRIORITY | ALLS) == 0 { Ok(()) } else { announce_slow(words, nested, found) }
}

/// Withdraws the announcement.
pub(crate) fn announced_end(words: &impl Words) -> Result<()> {
    words.release(Place::Master, WRITING.wrapping_neg())
}

/// Slow path of [`announce`]: a process holds `lock_all` or has priority. `found`: the word before
/// this writer was counted.
#[cold]
fn announce_slow(words: &impl Words, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    loop {
        if found & PRIORITY == 0 || nested() {
            return match found & ALLS {
                0 => Ok(()),
                _ => {
                    let waited = wait_until(words, Place::Master, |word| word & ALLS == 0);
                    or_withdrawn(words, Place::Master, WRITING, waited)
                }
            };
        }
        or_withdrawn(words, Place::Master, WRITING, words.add(Place::Master, WRITING.wrapping_neg()))?;
        wait_until(words, Place::Master, |word| word & PRIORITY == 0 || nested())?;
        found = words.add(Place::Master, WRITING)?;
    }
}

/// Slow path of an exclusive lock: other processes hold the target or wait for it. Returns the word
/// before this writer got the lock. `None`, without a lock, if the target lacks the bits `needs`.
#[cold]
fn exclusive_slow(words: &impl Words, target: usize, needs: u64) -> Result<Option<u64>> {
    let place = Place::Target(target);
    let word = words.add(place, WAITING_WRITER)?.wrapping_add(WAITING_WRITER);
    or_withdrawn(words, place, WAITING_WRITER, exclusive_waiting(words, place, needs, word))
}

/// [`exclusive_slow`] of a writer that is counted as waiting. `word`: the target's word.
fn exclusive_waiting(words: &impl Words, place: Place, needs: u64, mut word: u64) -> Result<Option<u64>> {
    let mut turn = 0;
    loop {
        if word & needs != needs {
            words.add(place, WAITING_WRITER.wrapping_neg())?;
            return Ok(None);
        }
        if word & (WRITER | READERS) == 0 {
            let found = words.swap(place, word, word - WAITING_WRITER + WRITER)?;
            if found == word {
                return Ok(Some(word));
            }
            word = found;
        } else {
            words.pause(turn)?;
            turn += 1;
            word = words.read(place)?;
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
fn change(words: &impl Words, place: Place, to: impl Fn(u64) -> Option<u64>) -> Result<()> {
    let mut turn = 0;
    let mut word = words.read(place)?;
    loop {
        if let Some(new) = to(word) {
            let found = words.swap(place, word, new)?;
            if found == word {
                return Ok(());
            }
            word = found;
        } else {
            words.pause(turn)?;
            turn += 1;
            word = words.read(place)?;
        }
    }
}

/// Takes back an addition of this process to a word after an error, because other processes would
/// wait for this process. A failed change had no effect on the word, or the word can't be reached
/// any more.
fn or_withdrawn<T>(words: &impl Words, place: Place, added: u64, outcome: Result<T>) -> Result<T> {
    // The first failure is reported; a failure of the release is dropped.
    outcome.inspect_err(|_| drop(words.release(place, added.wrapping_neg())))
}

fn wait_until(words: &impl Words, place: Place, done: impl Fn(u64) -> bool) -> Result<()> {
    let mut turn = 0;
    while !done(words.read(place)?) {
        words.pause(turn)?;
        turn += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
