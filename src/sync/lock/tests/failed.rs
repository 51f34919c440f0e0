//! A process whose lock fails leaves nothing in the words that keeps other processes out.

use super::*;
use crate::error::ErrorKind;

/// Words of which one step fails without an effect. Steps before it and after it succeed.
struct Failing<'l> {
    words: &'l Local,
    /// The number of steps before the failure.
    left: AtomicU64,
}

impl Failing<'_> {
    fn step<T>(&self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        // Relaxed: one thread.
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(ErrorKind::Epoch { call: "lock", target: None, reason: "a step fails" }.into()),
            _ => step(),
        }
    }
}

impl LockWords for Failing<'_> {
    fn ranks(&self) -> usize {
        RANKS
    }
    fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
        self.step(|| self.words.add(which, delta))
    }
    fn release(&self, which: LockWord, delta: u64) -> Result<()> {
        self.step(|| self.words.release(which, delta))
    }
    fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
        self.step(|| self.words.swap(which, expected, new))
    }
    fn read(&self, which: LockWord) -> Result<u64> {
        self.step(|| self.words.read(which))
    }
    fn pause(&self, turn: u32, apart: Duration) -> Result<()> {
        self.step(|| self.words.pause(turn, apart))
    }
    fn patience(&self) -> &Patience {
        self.words.patience()
    }
    fn now(&self) -> Duration {
        self.words.now()
    }
}

/// A call that waits in vain, with a failure of each of its first steps. `held` makes it wait.
fn fails(what: &str, held: impl Fn(&Local), call: impl Fn(&Failing<'_>) -> Result<()>) {
    for left in 0..3 * u64::from(POLLS_BEFORE_PRIORITY) {
        let words = Local::default();
        held(&words);
        let now = || words.words.lock().expect("no panic").clone();
        let mut before = now();
        call(&Failing { words: &words, left: AtomicU64::new(left) }).expect_err("a step fails");
        let after = now();
        for &key in after.keys() {
            before.entry(key).or_default();
        }
        assert_eq!(after, before, "{what}: step {left} fails");
    }
}

#[test]
fn a_failed_wait_for_a_lock_leaves_the_words_as_they_were() {
    let done = |result: Result<()>| result.expect("local words do not fail");
    let written = |words: &Local| done(first(words, 3, || false));
    let awaited = |words: &Local| {
        done(shared(words, 3, || false));
        words.add(LockWord::Target(3), WAITING_WRITER).expect("local words do not fail");
    };
    fails("a reader behind a writer", written, |words| shared(words, 3, || false));
    fails("a reader behind a waiting writer", awaited, |words| shared(words, 3, || false));
    fails("a writer behind a writer", written, |words| exclusive(words, 3));
    fails("a writer behind a reader", |words| done(shared(words, 3, || false)), |words| exclusive(words, 3));
    fails("a writer beside `lock_all`", |words| done(all(words)), |words| announce(words, || false));
    let claimed = |words: &Local| drop(words.add(LockWord::Master, PRIORITY | ALL));
    fails("a writer behind a `lock_all` with priority", claimed, |words| announce(words, || false));
    fails("`lock_all` beside a writer", written, |words| all(words));
}

/// A `lock_all` that fails while it revokes the bias: a writer that holds a target by the bias
/// still keeps the next `lock_all` out, and the end of the writer lets that one in.
#[test]
fn a_failed_revocation_of_the_bias_is_repeated() {
    let done = |result: Result<()>| result.expect("local words do not fail");
    for left in 0..40 {
        let (words, bias) = (Local::default(), Bias::new(RANKS));
        let mut tries = 0;
        while !by_bias(&words, &bias, 3).expect("local words do not fail") {
            done(by_bias_end(&words, 3, false));
            tries += 1;
            assert!(tries < 10, "no bias");
        }
        all(&Failing { words: &words, left: AtomicU64::new(left) }).expect_err("a step fails");
        let master = words.read(LockWord::Master).expect("local words do not fail");
        assert_eq!(master & (PRIORITY | ALLS | BIASED), BIASED, "step {left}");
        let next = all(&Failing { words: &words, left: AtomicU64::new(100) });
        next.expect_err("the writer holds its target");
        done(by_bias_end(&words, 3, true));
        done(all(&words));
        done(all_end(&words));
    }
}
