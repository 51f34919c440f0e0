//! The cost of locks in steps, the order of waiters, and mutual exclusion, over words of one
//! process. Knows no window.

use super::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The changes of a struct's `words`, which are [`Local`].
macro_rules! of_local {
    () => {
        fn ranks(&self) -> usize {
            RANKS
        }
        fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
            self.words.add(which, delta)
        }
        fn release(&self, which: LockWord, delta: u64) -> Result<()> {
            self.words.release(which, delta)
        }
        fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
            self.words.swap(which, expected, new)
        }
        fn read(&self, which: LockWord) -> Result<u64> {
            self.words.read(which)
        }
    };
}

mod batch;
mod explored;
mod failed;

/// Words of one process. Counts all steps, and the steps at the master word and the word of groups.
#[derive(Default)]
struct Local {
    words: Mutex<HashMap<usize, u64>>,
    steps: AtomicU64,
    common: AtomicU64,
}

const RANKS: usize = 8;

/// The index of a word.
fn key(which: LockWord) -> usize {
    match which {
        LockWord::Target(rank) => rank,
        LockWord::Master => usize::MAX,
        LockWord::Groups => usize::MAX - 1,
    }
}

impl Local {
    fn step(&self, which: LockWord, change: impl FnOnce(u64) -> u64) -> u64 {
        // Relaxed: a count.
        self.steps.fetch_add(1, Ordering::Relaxed);
        if !matches!(which, LockWord::Target(_)) {
            self.common.fetch_add(1, Ordering::Relaxed);
        }
        let mut words = self.words.lock().expect("no panic");
        let word = words.entry(key(which)).or_default();
        let old = *word;
        *word = change(old);
        old
    }

    fn counted(&self, what: impl FnOnce()) -> u64 {
        let before = self.steps.load(Ordering::Relaxed);
        what();
        self.steps.load(Ordering::Relaxed) - before
    }
}

/// The first exclusive lock of a process.
fn first(words: &impl LockWords, target: usize, nested: impl Fn() -> bool) -> Result<()> {
    announce(words, nested)?;
    exclusive(words, target)
}

/// An exclusive lock of a process that is announced and grants no bias.
fn exclusive(words: &impl LockWords, target: usize) -> Result<()> {
    let locked = Bias::new(RANKS).announced_exclusive(words, target, || false)?;
    assert!(locked, "only a process that only waits gives way");
    Ok(())
}

/// Takes an exclusive lock as a window does, for a process without other locks. Returns whether the
/// target had the bias.
fn by_bias(words: &impl LockWords, bias: &Bias, target: usize) -> Result<bool> {
    if bias.exclusive(words, target)? {
        return Ok(true);
    }
    loop {
        announce(words, || false)?;
        if bias.announced_exclusive(words, target, || true)? {
            return Ok(false);
        }
        announced_end(words)?;
        stand_aside(words)?;
    }
}

/// The end of [`by_bias`].
fn by_bias_end(words: &impl LockWords, target: usize, biased: bool) -> Result<()> {
    if biased { biased_end(words, target) } else { exclusive_end(words, target, true) }
}

impl LockWords for Local {
    fn ranks(&self) -> usize {
        RANKS
    }
    fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
        Ok(self.step(which, |word| word.wrapping_add(delta)))
    }
    fn release(&self, which: LockWord, delta: u64) -> Result<()> {
        self.add(which, delta).map(drop)
    }
    fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
        Ok(self.step(which, |word| if word == expected { new } else { word }))
    }
    fn read(&self, which: LockWord) -> Result<u64> {
        Ok(self.step(which, |word| word))
    }
    fn pause(&self, _turn: u32, _apart: Duration) -> Result<()> {
        std::thread::yield_now();
        Ok(())
    }
    fn patience(&self) -> &Patience {
        static ENDLESS: Patience = Patience::new(u32::MAX);
        &ENDLESS
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// The cost of an uncontended lock.
/// Shows S2.
#[test]
fn uncontended_locks_take_one_or_two_steps() {
    let words = Local::default();
    let done = |result: Result<()>| result.expect("local words do not fail");
    assert_eq!(words.counted(|| done(shared(&words, 3, || false))), 1);
    assert_eq!(words.counted(|| done(shared_end(&words, 3))), 1);
    assert_eq!(words.counted(|| done(first(&words, 3, || false))), 2);
    assert_eq!(words.counted(|| done(exclusive(&words, 4))), 1);
    assert_eq!(words.counted(|| done(exclusive_end(&words, 3, false))), 1);
    assert_eq!(words.counted(|| done(exclusive_end(&words, 4, true))), 2);
    assert_eq!(words.counted(|| done(all(&words))), 1);
    assert_eq!(words.counted(|| done(all_end(&words))), 1);
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}

/// Of processes that wait for a word of another node, each polls in proportion to their number; one
/// that waits alone polls as fast as it can.
/// Shows S2.
#[test]
fn polls_of_many_waiters_are_apart() {
    let patience = Patience::default();
    assert_eq!(patience.apart(100), Duration::ZERO, "no remote word was read");
    patience.read_took(Duration::from_micros(2));
    let micros = |others| patience.apart(others).as_micros();
    assert_eq!((micros(0), micros(15), micros(127), micros(1 << 30)), (0, 30, 254, 640));
    let (target, master) = (LockWord::Target(3), LockWord::Master);
    assert_eq!(beside(target, WRITER + WAITING_WRITER), 0);
    assert_eq!(beside(target, BIAS + WRITER + 3 * WAITING_WRITER + 2 * READER), 4, "readers wait too");
    assert_eq!(beside(target, 3 * WAITING_WRITER + 2 * READER), 2, "readers hold the lock");
    assert_eq!(beside(target, 0), 0);
    assert_eq!(beside(master, PRIORITY + 5 * WRITING + 2 * ALL), 4);
    assert_eq!(beside(master, BIASED + 5 * WRITING), 0, "writers are awaited");
}

/// The cost of a lock on a target that has the bias: no step at words that targets share. A
/// `lock_all` pays for each target that has the bias, once.
/// Shows S2.
#[test]
fn a_lock_by_the_bias_changes_the_targets_word_alone() {
    let (words, bias) = (Local::default(), Bias::new(RANKS));
    let done = |result: Result<()>| result.expect("local words do not fail");
    let lock = |target| {
        let biased = by_bias(&words, &bias, target).expect("local words do not fail");
        done(by_bias_end(&words, target, biased));
        biased
    };
    for target in [3, 5] {
        let before = (0..20).take_while(|_| !lock(target)).count();
        assert!((1..=5).contains(&before), "{before} locks before one by the bias");
    }
    let common = words.common.load(Ordering::Relaxed);
    for target in [3, 5, 3] {
        assert_eq!(words.counted(|| assert!(lock(target))), 2, "a lock and its unlock");
    }
    assert_eq!(words.common.load(Ordering::Relaxed), common, "at words that targets share");
    // Two steps find the bias; nine take it from two targets and grant the lock.
    assert_eq!(words.counted(|| done(all(&words))), 11);
    done(all_end(&words));
    assert_eq!(words.counted(|| done(all(&words))), 1);
    done(all_end(&words));
    assert!(!lock(3) && !lock(5), "the bias is gone");
    assert!((0..100).any(|_| lock(3)), "it comes again");
}

/// Exclusive locks and `lock_all` alternate: the steps of taking the bias are a small share of
/// those that the locks take without any bias, however they are mixed.
/// Shows S2.
#[test]
fn alternating_locks_cost_little_more_than_without_a_bias() {
    for (writers, exclusives, alls) in [(1, 1, 1), (1, 10, 1), (7, 1, 1), (7, 5, 1), (3, 100, 1), (3, 1, 100)] {
        let words = Local::default();
        let biases: Vec<_> = (0..writers).map(|_| Bias::new(RANKS)).collect();
        let rounds = 20_000 / (writers * exclusives + alls);
        let steps = words.counted(|| {
            for _ in 0..rounds {
                for (target, bias) in biases.iter().enumerate() {
                    for _ in 0..exclusives {
                        let biased = by_bias(&words, bias, target).expect("local words do not fail");
                        by_bias_end(&words, target, biased).expect("held");
                    }
                }
                (0..alls).for_each(|_| all(&words).and_then(|()| all_end(&words)).expect("local words do not fail"));
            }
        });
        let without = (rounds * (writers * exclusives * 4 + alls * 2)) as u64;
        assert!(steps * 100 <= without * 110, "{steps} steps, {without} without: {writers}, {exclusives}, {alls}");
    }
}

/// Threads take every kind of lock on two targets. A writer excludes all other writers and readers.
/// Shows S2.
#[test]
fn writers_exclude_all_others_and_make_progress() {
    let words = Local::default();
    let (readers, writers) = ([AtomicU32::new(0), AtomicU32::new(0)], [AtomicU32::new(0), AtomicU32::new(0)]);
    let ok = AtomicBool::new(true);
    // SeqCst: the counts are the test's own; the strongest order keeps them out of question.
    let look = |target: usize, write: bool| {
        let mine = if write { &writers[target] } else { &readers[target] };
        let before = mine.fetch_add(1, Ordering::SeqCst);
        let others = if write { before + readers[target].load(Ordering::SeqCst) } else { 0 };
        let writing = if write { 0 } else { writers[target].load(Ordering::SeqCst) };
        std::thread::yield_now();
        if others + writing != 0 {
            ok.store(false, Ordering::SeqCst);
        }
        mine.fetch_sub(1, Ordering::SeqCst);
    };
    let turn = |number: u32, target: usize| -> Result<()> {
        match number % 4 {
            0 => {
                all(&words)?;
                look(0, false);
                look(1, false);
                all_end(&words)
            }
            1 => {
                shared(&words, target, || false)?;
                look(target, false);
                shared_end(&words, target)
            }
            2 => {
                first(&words, 0, || false)?;
                exclusive(&words, 1)?;
                look(1, true);
                exclusive_end(&words, 1, false)?;
                look(0, true);
                exclusive_end(&words, 0, true)
            }
            _ => {
                first(&words, target, || false)?;
                look(target, true);
                exclusive_end(&words, target, true)
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let turn = &turn;
            scope.spawn(move || (0..100).for_each(|i| turn(thread + i / 25, (i % 2) as usize).expect("local")));
        }
    });
    assert!(ok.load(Ordering::SeqCst), "somebody was beside a writer");
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}

/// Runs `body` in a thread.
fn begun<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    body: impl FnOnce() -> Result<()> + Send + 's,
) -> std::thread::ScopedJoinHandle<'s, ()> {
    scope.spawn(|| body().expect("local words do not fail"))
}

fn seen(words: &Local, which: LockWord, condition: impl Fn(u64) -> bool) {
    wait_until(words, which, condition).expect("local words do not fail");
}

/// A reader that arrives while a writer holds the lock goes before a waiting writer; a reader that
/// arrives after the waiting writer goes after it.
/// Shows S2.
#[test]
fn readers_and_writers_take_turns() {
    let words = Local::default();
    let which = LockWord::Target(0);
    std::thread::scope(|scope| {
        first(&words, 0, || false).expect("free");
        let waiting = begun(scope, || first(&words, 0, || false));
        seen(&words, which, |word| word & WAITING_WRITERS == WAITING_WRITER);
        let reader = begun(scope, || shared(&words, 0, || false));
        seen(&words, which, |word| word & READERS == 1);
        exclusive_end(&words, 0, true).expect("held");
        reader.join().expect("the reader has the lock, though a writer waits");
        // A reader without other locks waits behind a writer that only waits.
        let polite = begun(scope, || shared(&words, 0, || false));
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(!polite.is_finished() && !waiting.is_finished());
        // A holder of a lock does not defer to processes that only wait.
        shared(&words, 0, || true).expect("nested");
        shared_end(&words, 0).expect("held");
        shared_end(&words, 0).expect("held");
        waiting.join().expect("the writer is in next");
        exclusive_end(&words, 0, true).expect("held");
        polite.join().expect("then the polite reader");
        shared_end(&words, 0).expect("held");
    });
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}

/// Writers that change the master word all the time do not keep out a `lock_all`, and its priority
/// does not keep out a rank that holds a lock.
/// Shows S2.
#[test]
fn lock_all_takes_the_turn() {
    let words = Local::default();
    std::thread::scope(|scope| {
        first(&words, 0, || false).expect("free");
        let all = begun(scope, || all(&words));
        seen(&words, LockWord::Master, |word| word & PRIORITY != 0);
        let late = begun(scope, || first(&words, 1, || false));
        // This thread stands for a process that holds a shared lock of another target.
        shared(&words, 2, || false).expect("free");
        first(&words, 3, || true).expect("nested: past the priority");
        exclusive_end(&words, 3, true).expect("held");
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(!late.is_finished() && !all.is_finished());
        exclusive_end(&words, 0, true).expect("held");
        all.join().expect("all are held");
        assert!(!late.is_finished());
        all_end(&words).expect("held");
        late.join().expect("the late writer is in");
        exclusive_end(&words, 1, true).expect("held");
        shared_end(&words, 2).expect("held");
    });
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}
/// A thread that waits behind processes that only wait stops deferring to them when another thread
/// of its process gets a lock: they may wait for that lock.
/// Shows S2.
#[test]
fn a_lock_of_another_thread_ends_the_wait_behind_waiting_writers() {
    let words = Local::default();
    let nested = AtomicBool::new(false);
    // SeqCst: the test's own flag; the strongest order keeps it out of question.
    let is_nested = || nested.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        shared(&words, 0, || false).expect("free");
        let writer = begun(scope, || first(&words, 0, || false));
        seen(&words, LockWord::Target(0), |word| word & WAITING_WRITERS == WAITING_WRITER);
        let all = begun(scope, || all(&words));
        seen(&words, LockWord::Master, |word| word & PRIORITY != 0);
        let reader = begun(scope, || shared(&words, 0, is_nested));
        let other = begun(scope, || first(&words, 1, is_nested));
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(!reader.is_finished() && !other.is_finished());
        nested.store(true, Ordering::SeqCst);
        reader.join().expect("the reader is in beside the first, before the writer that waits");
        other.join().expect("the writer of the other target is in, past the priority");
        exclusive_end(&words, 1, true).expect("held");
        shared_end(&words, 0).expect("held");
        shared_end(&words, 0).expect("held");
        writer.join().expect("the writer is in when both readers are out");
        exclusive_end(&words, 0, true).expect("held");
        all.join().expect("all are held");
        all_end(&words).expect("held");
    });
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}

/// Words beside which another writer waits, asleep for [`SLEEPS`] polls of this process at a time.
struct Beside<'l> {
    words: &'l Local,
    /// Whether a reader comes at every second poll, and withdraws before the next one.
    reads: bool,
    /// The polls until that writer looks, and its locks.
    left: AtomicU32,
    locks: AtomicU32,
    micros: AtomicU64,
}

const SLEEPS: u32 = 40;

impl LockWords for Beside<'_> {
    of_local!();
    fn pause(&self, _turn: u32, _apart: Duration) -> Result<()> {
        // Relaxed here and below: one thread.
        self.micros.fetch_add(20, Ordering::Relaxed);
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        if self.reads {
            let change = if left.is_multiple_of(2) { READER } else { READER.wrapping_neg() };
            self.words.add(LockWord::Target(0), change)?;
        }
        if left > 1 {
            return Ok(());
        }
        self.left.store(SLEEPS, Ordering::Relaxed);
        let free = self.words.read(LockWord::Target(0))? & (WRITER | READERS) == 0;
        // The other process locks, unlocks, and waits again.
        self.locks.fetch_add(u32::from(free), Ordering::Relaxed);
        Ok(())
    }
    fn patience(&self) -> &Patience {
        self.words.patience()
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

/// A process that unlocks and locks again at once does not overtake a sleeping writer for ever,
/// however long it holds the lock, and although readers look whether it is free.
/// Shows S2.
#[test]
fn a_writer_that_sleeps_is_not_overtaken_for_ever() {
    for (held, reads) in [(1, false), (100, false), (10_000, false), (100, true), (10_000, true)] {
        let local = Local::default();
        local.add(LockWord::Target(0), WAITING_WRITER).expect("local words do not fail");
        let (left, locks, micros) = (AtomicU32::new(SLEEPS), AtomicU32::new(0), AtomicU64::new(1));
        let words = Beside { words: &local, reads, left, locks, micros };
        let bias = Bias::new(RANKS);
        let rounds = 200_000 / held + 40;
        for _ in 0..rounds {
            let biased = by_bias(&words, &bias, 0).expect("local words do not fail");
            words.micros.fetch_add(held, Ordering::Relaxed);
            by_bias_end(&words, 0, biased).expect("held");
        }
        let (locks, time) = (words.locks.load(Ordering::Relaxed), rounds * held);
        // The clock is read at every 64th arrival at least.
        let least = time / (2 * u64::try_from(OVERTAKES.as_micros()).expect("short")).max(2 * held + 1);
        assert!(u64::from(locks) + 1 >= least, "{locks} locks beside {rounds} locks of {held} us, {reads}");
    }
}

/// The words as a process of long holds sees them: the sleep between two polls, and a patience that
/// is shorter than a hold.
struct Slow<'l> {
    words: &'l Local,
    patience: Patience,
}

impl Slow<'_> {
    const POLL: Duration = Duration::from_micros(200);
    const HOLD: Duration = Duration::from_millis(20);

    fn new(words: &Local) -> Slow<'_> {
        Slow { words, patience: Patience::new(20) }
    }
}

impl LockWords for Slow<'_> {
    of_local!();
    fn pause(&self, _turn: u32, _apart: Duration) -> Result<()> {
        std::thread::sleep(Slow::POLL);
        Ok(())
    }
    fn patience(&self) -> &Patience {
        &self.patience
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// Several processes hold locks in turns for longer than patience lasts, so that one of them holds
/// its lock at nearly every moment. `one` waits for all.
fn beside_long_holds(holds: fn(&Slow<'_>, usize) -> Result<()>, one: fn(&Slow<'_>) -> Result<()>) {
    const HOLDERS: u32 = 4;
    const MOST: u32 = 200;
    let words = Local::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let holder = |me: u32| {
            let words = Slow::new(&words);
            // Each begins within the holds of the others.
            std::thread::sleep(Slow::HOLD / HOLDERS * me);
            let rounds = (0..MOST).take_while(|_| {
                holds(&words, me as usize).expect("local words do not fail");
                // SeqCst: the test's own flag.
                !done.load(Ordering::SeqCst)
            });
            rounds.count()
        };
        let holders: Vec<_> = (0..HOLDERS).map(|me| scope.spawn(move || holder(me))).collect();
        let words = Slow::new(&words);
        std::thread::sleep(Slow::HOLD);
        for _ in 0..3 {
            one(&words).expect("local words do not fail");
        }
        done.store(true, Ordering::SeqCst);
        for holder in holders {
            let rounds = holder.join().expect("no panic");
            assert!(rounds < MOST as usize, "the others had to end first");
        }
    });
    assert!(words.words.lock().expect("no panic").values().all(|&word| word == 0), "all words are as at first");
}

/// A wait that always ends by its limit does not grow without end: the process that it waits for
/// may wait for this one.
/// Shows S2.
#[test]
fn the_limit_of_a_wait_is_bounded() {
    let patience = Patience::new(10);
    for lost in 0..100 {
        let polls = 10 << lost.min(3);
        assert!(patience.lasts(polls - 1, false) && !patience.lasts(polls, false), "after {lost} lost waits");
        patience.ends(true);
    }
    patience.ends(false);
    assert!(!patience.lasts(10, false), "a wait that succeeds begins anew");
}

/// Patience that ends does not let writers keep out a `lock_all` for ever.
/// Shows S2.
#[test]
fn lock_all_is_granted_beside_writers_that_hold_for_long() {
    beside_long_holds(
        |words, target| {
            first(words, target, || false)?;
            std::thread::sleep(Slow::HOLD);
            exclusive_end(words, target, true)
        },
        |words| all(words).and_then(|()| all_end(words)),
    );
}

/// Patience that ends does not let readers keep out a writer for ever.
/// Shows S2.
#[test]
fn a_writer_is_granted_beside_readers_that_hold_for_long() {
    beside_long_holds(
        |words, _| {
            shared(words, 0, || false)?;
            std::thread::sleep(Slow::HOLD);
            shared_end(words, 0)
        },
        |words| {
            first(words, 0, || false)?;
            exclusive_end(words, 0, true)
        },
    );
}
