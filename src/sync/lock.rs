//! Locks of windows (MPI-4.1 §12.5.3), after the two levels of foMPI (Gerstenberger, Besta and
//! Hoefler, SC'13): a word at each target for its readers and its writer, and a master word at the
//! window's first rank, where holders of all and holders of any exclusive lock exclude each other.
//! Uncontended: shared 1 fetch-add, exclusive 1 compare-and-swap and, for the first one of a
//! process, 1 fetch-add, `lock_all` 1 fetch-add; nothing grows with the ranks. Independent of the
//! way to change a word.
//!
//! No process starves. A writer that has to wait is counted in the word, and later readers stay out
//! until one writer has had its turn. A reader that finds a writer stays in line, and is in before
//! the next writer (phases alternate, as in the phase-fair locks of Brandenburg and Anderson,
//! 2010). A holder of all that was kept out for [`PATIENCE`] looks takes the turn, and new writers
//! stay out until it is in. A process that holds a lock already (`nested`) does not defer to
//! processes that only wait: otherwise two processes that each lock two targets could wait for each
//! other through the waiting ones. Another thread may take such a lock while this thread waits, so
//! each look asks `nested` again.

use crate::error::Result;

/// The word that a step works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The lock of a rank's part.
    Target(usize),
    /// The master word.
    Master,
}

/// Words of any rank, which all ranks change by the same actor.
pub(crate) trait Words {
    /// Adds, wrapping; returns the previous value.
    fn add(&self, place: Place, delta: u64) -> Result<u64>;

    /// Adds at some time before this process's next change of the word; returns no value.
    fn release(&self, place: Place, delta: u64) -> Result<()>;

    /// Stores `new` if the value is `expected`; returns the previous value.
    fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64>;

    /// Reads.
    fn read(&self, place: Place) -> Result<u64>;

    /// Lets others run before the next look; `turn` counts the looks of one wait.
    fn pause(&self, turn: u32) -> Result<()>;
}

/// Looks at the master word before a holder of all takes the turn.
const PATIENCE: u32 = 80;

// A target's word: the writer, the number of waiting writers, the number of readers.
const READER: u64 = 1;
const WRITER: u64 = 1 << 63;
const WAITING_WRITER: u64 = 1 << 32;
const WAITING_WRITERS: u64 = WRITER - WAITING_WRITER;
const READERS: u64 = WAITING_WRITER - READER;

// The master word: the turn, the number of processes that hold or want exclusive locks, the number
// of holders of all.
const TURN: u64 = 1 << 63;
const WRITING: u64 = 1 << 32;
const WRITINGS: u64 = TURN - WRITING;
const ALL: u64 = 1;
const ALLS: u64 = WRITING - 1;

/// Locks a target shared; `nested`: whether this process holds a lock of the window.
#[inline]
pub(crate) fn shared(words: &impl Words, target: usize, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(Place::Target(target), READER)?;
    if found & (WRITER | WAITING_WRITERS) == 0 { Ok(()) } else { shared_later(words, target, nested, found) }
}

/// The rest of [`shared`], where a writer is in or waits; `found`: the word when this reader was
/// added.
#[cold]
fn shared_later(words: &impl Words, target: usize, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    let place = Place::Target(target);
    loop {
        if found & WRITER != 0 {
            // Counted while a writer is in: no other writer gets in before this reader.
            return wait_until(words, place, |word| word & WRITER == 0);
        }
        if found & WAITING_WRITERS == 0 || nested() {
            return Ok(());
        }
        words.add(place, READER.wrapping_neg())?;
        wait_until(words, place, |word| word & WRITER != 0 || word & WAITING_WRITERS == 0 || nested())?;
        found = words.add(place, READER)?;
    }
}

/// Unlocks a target that was locked shared.
#[inline]
pub(crate) fn shared_end(words: &impl Words, target: usize) -> Result<()> {
    words.release(Place::Target(target), READER.wrapping_neg())
}

/// Locks a target exclusively, for a process that has announced itself.
#[inline]
pub(crate) fn exclusive(words: &impl Words, target: usize) -> Result<()> {
    if words.swap(Place::Target(target), 0, WRITER)? == 0 { Ok(()) } else { exclusive_later(words, target) }
}

/// Unlocks a target that was locked exclusively; `last`: this process holds no other exclusive lock
/// of the window.
#[inline]
pub(crate) fn exclusive_end(words: &impl Words, target: usize, last: bool) -> Result<()> {
    words.release(Place::Target(target), WRITER.wrapping_neg())?;
    if last { announced_end(words) } else { Ok(()) }
}

/// Locks all targets shared.
pub(crate) fn all(words: &impl Words) -> Result<()> {
    let mut looks = 0;
    while looks < PATIENCE {
        if words.add(Place::Master, ALL)? & WRITINGS == 0 {
            return Ok(());
        }
        words.add(Place::Master, ALL.wrapping_neg())?;
        while looks < PATIENCE && words.read(Place::Master)? & WRITINGS != 0 {
            words.pause(looks)?;
            looks += 1;
        }
        looks += 1;
    }
    // Takes the turn, waits for the present writers, and returns the turn when it is in.
    change(words, |word| (word & TURN == 0).then_some(word | TURN))?;
    change(words, |word| (word & WRITINGS == 0).then_some((word & !TURN) + ALL))
}

/// Unlocks all targets.
pub(crate) fn all_end(words: &impl Words) -> Result<()> {
    words.release(Place::Master, ALL.wrapping_neg())
}

/// Announces this process as a writer in the master word, and waits for the holders of all, before
/// its first exclusive lock.
#[inline]
pub(crate) fn announce(words: &impl Words, nested: impl Fn() -> bool) -> Result<()> {
    let found = words.add(Place::Master, WRITING)?;
    if found & (TURN | ALLS) == 0 { Ok(()) } else { announce_later(words, nested, found) }
}

/// Takes the announcement back.
pub(crate) fn announced_end(words: &impl Words) -> Result<()> {
    words.release(Place::Master, WRITING.wrapping_neg())
}

/// The rest of [`announce`], where a process holds all or has the turn; `found`: the word when this
/// writer was added.
#[cold]
fn announce_later(words: &impl Words, nested: impl Fn() -> bool, mut found: u64) -> Result<()> {
    loop {
        if found & TURN == 0 || nested() {
            return match found & ALLS {
                0 => Ok(()),
                _ => wait_until(words, Place::Master, |word| word & ALLS == 0),
            };
        }
        words.add(Place::Master, WRITING.wrapping_neg())?;
        wait_until(words, Place::Master, |word| word & TURN == 0 || nested())?;
        found = words.add(Place::Master, WRITING)?;
    }
}

/// The rest of [`exclusive`], where others are in or wait.
#[cold]
fn exclusive_later(words: &impl Words, target: usize) -> Result<()> {
    let place = Place::Target(target);
    let mut word = words.add(place, WAITING_WRITER)?.wrapping_add(WAITING_WRITER);
    let mut turn = 0;
    loop {
        if word & (WRITER | READERS) == 0 {
            let found = words.swap(place, word, word - WAITING_WRITER + WRITER)?;
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

/// Changes the master word as soon as `to` gives a new value.
fn change(words: &impl Words, to: impl Fn(u64) -> Option<u64>) -> Result<()> {
    let mut turn = 0;
    let mut word = words.read(Place::Master)?;
    loop {
        if let Some(new) = to(word) {
            let found = words.swap(Place::Master, word, new)?;
            if found == word {
                return Ok(());
            }
            word = found;
        } else {
            words.pause(turn)?;
            turn += 1;
            word = words.read(Place::Master)?;
        }
    }
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
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

    /// Words of one process; counts the steps.
    #[derive(Default)]
    struct Local {
        words: Mutex<HashMap<usize, u64>>,
        steps: AtomicU64,
    }

    impl Local {
        fn step(&self, place: Place, change: impl FnOnce(u64) -> u64) -> u64 {
            // Relaxed: a count.
            self.steps.fetch_add(1, Ordering::Relaxed);
            let at = if let Place::Target(rank) = place { rank } else { usize::MAX };
            let mut words = self.words.lock().expect("no panic");
            let word = words.entry(at).or_default();
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
    fn first(words: &Local, target: usize, nested: impl Fn() -> bool) -> Result<()> {
        announce(words, nested)?;
        exclusive(words, target)
    }

    impl Words for Local {
        fn add(&self, place: Place, delta: u64) -> Result<u64> {
            Ok(self.step(place, |word| word.wrapping_add(delta)))
        }
        fn release(&self, place: Place, delta: u64) -> Result<()> {
            self.add(place, delta).map(drop)
        }
        fn swap(&self, place: Place, expected: u64, new: u64) -> Result<u64> {
            Ok(self.step(place, |word| if word == expected { new } else { word }))
        }
        fn read(&self, place: Place) -> Result<u64> {
            Ok(self.step(place, |word| word))
        }
        fn pause(&self, _turn: u32) -> Result<()> {
            std::thread::yield_now();
            Ok(())
        }
    }

    /// What an uncontended lock costs.
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

    /// Threads take every kind of lock on two targets. A writer is always alone, and no reader
    /// meets a writer.
    /// Shows S2.
    #[test]
    fn writers_are_alone_and_all_come_through() {
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

    fn seen(words: &Local, place: Place, wanted: impl Fn(u64) -> bool) {
        wait_until(words, place, wanted).expect("local words do not fail");
    }

    /// A reader that came while a writer was in goes before the writer that waits; one that came
    /// after that waiting writer goes after it.
    /// Shows S2.
    #[test]
    fn readers_and_writers_take_turns() {
        let words = Local::default();
        let place = Place::Target(0);
        std::thread::scope(|scope| {
            first(&words, 0, || false).expect("free");
            let waiting = begun(scope, || first(&words, 0, || false));
            seen(&words, place, |word| word & WAITING_WRITERS == WAITING_WRITER);
            let reader = begun(scope, || shared(&words, 0, || false));
            seen(&words, place, |word| word & READERS == 1);
            exclusive_end(&words, 0, true).expect("held");
            reader.join().expect("the reader is in, though a writer waits");
            // A polite reader sees no writer in, and one that waits.
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

    /// Writers that change the master word all the time do not keep out a `lock_all`, and its turn
    /// does not keep out a rank that holds a lock.
    /// Shows S2.
    #[test]
    fn a_holder_of_all_takes_the_turn() {
        let words = Local::default();
        std::thread::scope(|scope| {
            first(&words, 0, || false).expect("free");
            let all = begun(scope, || all(&words));
            seen(&words, Place::Master, |word| word & TURN != 0);
            let late = begun(scope, || first(&words, 1, || false));
            // It holds a shared lock of another target in the place of some process.
            shared(&words, 2, || false).expect("free");
            first(&words, 3, || true).expect("nested: past the turn");
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
    /// A thread that waits behind processes that only wait stops deferring to them when another
    /// thread of its process gets a lock: they may wait for that lock. Shows S2.
    #[test]
    fn a_lock_of_another_thread_ends_the_deference() {
        let words = Local::default();
        let nested = AtomicBool::new(false);
        // SeqCst: the test's own flag; the strongest order keeps it out of question.
        let is_nested = || nested.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            shared(&words, 0, || false).expect("free");
            let writer = begun(scope, || first(&words, 0, || false));
            seen(&words, Place::Target(0), |word| word & WAITING_WRITERS == WAITING_WRITER);
            let all = begun(scope, || all(&words));
            seen(&words, Place::Master, |word| word & TURN != 0);
            let reader = begun(scope, || shared(&words, 0, is_nested));
            let other = begun(scope, || first(&words, 1, is_nested));
            (0..1000).for_each(|_| std::thread::yield_now());
            assert!(!reader.is_finished() && !other.is_finished());
            nested.store(true, Ordering::SeqCst);
            reader.join().expect("the reader is in beside the first, before the writer that waits");
            other.join().expect("the writer of the other target is in, past the turn");
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
}
