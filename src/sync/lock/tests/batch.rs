//! A `lock_all` that has waited for long, beside other processes that poll as often as it pauses: a
//! writer that ends, another waiting `lock_all`, and a further writer.

use super::*;
use crate::error::ErrorKind;

/// The pause in which the first writer ends: after the claim of priority.
const ENDS: u32 = POLLS_BEFORE_PRIORITY + 20;

struct Beside<'l> {
    words: &'l Local,
    /// The pauses so far.
    pauses: AtomicU32,
    /// The pause that fails.
    fails: u32,
    /// Whether the other `lock_all` is granted.
    granted: AtomicBool,
}

impl Beside<'_> {
    fn new(words: &Local, fails: u32) -> Beside<'_> {
        words.add(LockWord::Master, WRITING).expect("local words do not fail");
        Beside { words, pauses: AtomicU32::new(0), fails, granted: AtomicBool::new(false) }
    }
}

impl LockWords for Beside<'_> {
    of_local!();
    // Relaxed: one thread.
    fn pause(&self, _turn: u32, _apart: Duration) -> Result<()> {
        let pause = self.pauses.fetch_add(1, Ordering::Relaxed);
        if pause == self.fails {
            return Err(ErrorKind::Epoch { call: "lock_all", target: None, reason: "a pause fails" }.into());
        }
        let word = self.words.read(LockWord::Master)?;
        if word & (WRITINGS | BIASED) == 0 && !self.granted.load(Ordering::Relaxed) {
            self.words.add(LockWord::Master, ALL)?;
            self.granted.store(true, Ordering::Relaxed);
        }
        if pause == ENDS {
            self.words.add(LockWord::Master, WRITING.wrapping_neg())?;
        } else if word & PRIORITY == 0 && pause > ENDS {
            self.words.add(LockWord::Master, WRITING)?;
        }
        Ok(())
    }
    fn patience(&self) -> &Patience {
        self.words.patience()
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// The other `lock_all` is granted before the further writer announces itself. Regression: only the
/// `lock_all` with priority was granted.
/// Shows S2.
#[test]
fn a_lock_all_that_has_waited_lets_others_in() {
    let words = Local::default();
    let beside = Beside::new(&words, u32::MAX);
    all(&beside).expect("no pause fails");
    assert!(beside.granted.load(Ordering::Relaxed));
    assert_eq!(words.read(LockWord::Master).expect("local words do not fail"), 2 * ALL, "and the priority has ended");
}

/// A failure after the grant leaves neither the lock nor the priority.
#[test]
fn a_lock_all_that_fails_after_its_grant_leaves_the_words_as_they_were() {
    for fails in ENDS + 1..=ENDS + BATCH {
        let words = Local::default();
        let beside = Beside::new(&words, fails);
        all(&beside).expect_err("a pause fails");
        let others = if beside.granted.load(Ordering::Relaxed) { ALL } else { 0 };
        assert_eq!(words.read(LockWord::Master).expect("local words do not fail"), others, "pause {fails}");
    }
}
