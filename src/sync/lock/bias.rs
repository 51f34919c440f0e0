//! The bias of targets: exclusive locks by the target's word alone, and when a process grants it.
//! The words, and the steps of granting and of revoking, are described in [the protocol](super).

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::*;

// The word of groups: the number of revocations (wrapping), and the mark of each group.
const GROUPS: usize = 48;
const TAKEN: u64 = 1 << GROUPS;
const MARKS: u64 = TAKEN - 1;

/// The mark of a target's group. A group has one target where a window has at most [`GROUPS`].
pub(super) const fn mark(target: usize) -> u64 {
    1 << (target % GROUPS)
}

/// A process's guesses about the bias in one window. Threads may overwrite each other's values: a
/// wrong value costs further steps, and never breaks a lock.
#[derive(Debug)]
pub(crate) struct Bias {
    /// Whether the last exclusive lock found its target with the bias.
    pub(super) expected: AtomicBool,
    /// The number of revocations that this process has seen.
    taken: AtomicU16,
    /// The number of exclusive locks without the bias until this process next decides whether to
    /// grant it.
    pub(super) left: AtomicU32,
    /// The number of such locks between two decisions. It grows after each revocation, and shrinks
    /// while the bias that this process granted lasts. The cost of revocations is therefore a small
    /// share of the cost of the exclusive locks between them.
    interval: AtomicU32,
    /// Whether this process granted the bias at its last decision.
    gave: AtomicBool,
    /// The beginning of the period in which this process arrives after waiting writers, in
    /// microseconds; 0 outside such a period.
    overtakes: AtomicU64,
    /// The number of such arrivals in this period.
    arrivals: AtomicU32,
    /// The shortest interval. It grows with the number of targets in a group, because a revocation
    /// accesses the words of all targets of a group.
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
            overtakes: AtomicU64::new(0),
            arrivals: AtomicU32::new(0),
            least,
        }
    }

    /// Whether the next exclusive lock is likely to need the target's word alone.
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.load(Ordering::Relaxed)
    }

    /// Records that a target was found without the bias.
    pub(crate) fn record_lost(&self) {
        self.expected.store(false, Ordering::Relaxed);
    }

    /// Locks a target exclusively by its word alone, if it has the bias. Returns false without a
    /// lock if it has none.
    #[inline]
    pub(crate) fn exclusive(&self, words: &impl LockWords, target: usize) -> Result<bool> {
        // Relaxed, as for all fields: the values are guesses.
        if !self.expected.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let found = words.swap(LockWord::Target(target), BIAS, BIAS | WRITER)?;
        if found == BIAS { Ok(true) } else { self.exclusive_slow(words, target, found) }
    }

    /// Slow path of [`Bias::exclusive`]: other processes hold the lock or wait for it, or the
    /// target has no bias. `found`: the target's word.
    #[cold]
    fn exclusive_slow(&self, words: &impl LockWords, target: usize, found: u64) -> Result<bool> {
        let had = found & BIAS != 0 && matches!(self.exclusive_waits(words, target, BIAS, || false)?, Waited::Taken(_));
        self.expected.store(had, Ordering::Relaxed);
        Ok(had)
    }

    /// Locks a target exclusively, for a process that has announced itself. After an interval of
    /// such locks, decides whether to grant the bias.
    ///
    /// Returns false without the lock if the process has waited long and a `lock_all` has priority.
    /// The caller then withdraws the announcement, [stands aside](stand_aside), and announces
    /// itself again. `only_waits`: whether this process holds no lock by its announcement.
    #[inline]
    pub(crate) fn announced_exclusive(
        &self,
        words: &impl LockWords,
        target: usize,
        only_waits: impl Fn() -> bool,
    ) -> Result<bool> {
        let found = match words.swap(LockWord::Target(target), 0, WRITER)? {
            0 => 0,
            BIAS if words.swap(LockWord::Target(target), BIAS, BIAS | WRITER)? == BIAS => BIAS,
            _ => match self.exclusive_waits(words, target, 0, only_waits)? {
                Waited::Taken(found) => found,
                Waited::GaveWay | Waited::NoBias => return Ok(false),
            },
        };
        if found & BIAS != 0 {
            self.expected.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 {
            self.left.store(left - 1, Ordering::Relaxed);
            return Ok(true);
        }
        let decided = self.decide(words, target);
        decided.inspect_err(|_| drop(words.release(LockWord::Target(target), WRITER.wrapping_neg())))?;
        Ok(true)
    }

    /// Slow path of an exclusive lock: other processes hold the target or wait for it. Waits while
    /// the target has the bits `needs`. `gives_way`: whether this process may give way to a
    /// `lock_all` that has priority.
    #[cold]
    fn exclusive_waits(
        &self,
        words: &impl LockWords,
        target: usize,
        needs: u64,
        gives_way: impl Fn() -> bool,
    ) -> Result<Waited> {
        let which = LockWord::Target(target);
        let word = words.add(which, WAITING_WRITER)?.wrapping_add(WAITING_WRITER);
        let defers = self.defers(words, word);
        or_withdrawn(words, which, WAITING_WRITER, exclusive_waiting(words, which, needs, word, defers, gives_way))
    }

    /// Whether this process, which waits as a writer, lets another one go first. `word`: the
    /// target's word on arrival.
    fn defers(&self, words: &impl LockWords, word: u64) -> bool {
        if !others_wait(word) {
            self.arrivals.store(0, Ordering::Relaxed);
            self.overtakes.store(0, Ordering::Relaxed);
            return false;
        }
        // Short locks do not read the clock each time.
        let arrivals = self.arrivals.load(Ordering::Relaxed).wrapping_add(1);
        self.arrivals.store(arrivals, Ordering::Relaxed);
        if !arrivals.is_power_of_two() && !arrivals.is_multiple_of(64) {
            return false;
        }
        let (now, since) = (words.now(), self.overtakes.load(Ordering::Relaxed));
        let defers = since != 0 && now > Duration::from_micros(since) + OVERTAKES;
        if defers {
            self.arrivals.store(0, Ordering::Relaxed);
        }
        if since == 0 || defers {
            let begun = if defers { 0 } else { u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(1) };
            self.overtakes.store(begun, Ordering::Relaxed);
        }
        defers
    }

    /// Grants the bias to a target that this process holds, unless the bias was revoked since the
    /// last decision.
    #[cold]
    fn decide(&self, words: &impl LockWords, target: usize) -> Result<()> {
        let taken = taken(words.read(LockWord::Groups)?);
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
pub(super) fn taken(groups: u64) -> u16 {
    (groups >> GROUPS) as u16
}

/// Grants the bias to a target that this process holds after an announcement. Returns false, and
/// grants nothing, while a `lock_all` has priority.
fn give(words: &impl LockWords, target: usize) -> Result<bool> {
    let mut word = words.read(LockWord::Master)?;
    while word & PRIORITY == 0 {
        let found = words.swap(LockWord::Master, word, word | BIASED)?;
        if found == word {
            change(words, LockWord::Groups, |groups| Some(groups | mark(target)))?;
            words.add(LockWord::Target(target), BIAS)?;
            return Ok(true);
        }
        word = found;
    }
    Ok(false)
}

/// Revokes the bias of all targets, for the process that has priority, and waits for the writers
/// that hold a target by the bias.
pub(super) fn take(words: &impl LockWords) -> Result<()> {
    let groups = words.read(LockWord::Groups)?;
    let mut written = Vec::new();
    take_marked(words, groups, &mut written).inspect_err(|_| {
        // The next revocation must find these writers. The first failure is reported; a further one
        // is dropped.
        written.iter().for_each(|&which| drop(words.add(which, BIAS)));
    })
}

/// Revokes the bias of the targets of the marked `groups`. `written` gets the targets that lost the
/// bias while a writer held them.
fn take_marked(words: &impl LockWords, groups: u64, written: &mut Vec<LockWord>) -> Result<()> {
    for target in (0..words.ranks()).filter(|&target| groups & mark(target) != 0) {
        let which = LockWord::Target(target);
        let mut found = words.swap(which, BIAS, 0)?;
        if found != BIAS && found & BIAS != 0 {
            found = words.add(which, BIAS.wrapping_neg())?;
        }
        if found & BIAS != 0 && found & WRITER != 0 {
            written.push(which);
        }
    }
    for &which in &*written {
        wait_until(words, which, |word| word & WRITER == 0)?;
    }
    words.add(LockWord::Groups, TAKEN.wrapping_sub(groups & MARKS)).map(drop)
}
