//! Signals between origin and target without the library: words in memory that both have mapped,
//! whichever route the window uses. Each word has one writer. Numbers of repetitions and of cases
//! only grow within a run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transom::Job;

use crate::floor::{Mapped, exchange_of_two};
use crate::outcome::Outcome;

/// Bytes between words.
const LINE: usize = 64;
/// Time limit of a wait for the other rank.
const DEADLINE: Duration = Duration::from_secs(20);

/// The words, each in the memory of the rank that reads it.
#[derive(Clone, Copy)]
pub(super) enum Word {
    /// To the target: the repetition that the origin has completed.
    Completed,
    /// To the origin: the repetition that it may now do; the target computes, and has checked the
    /// previous one.
    Ready,
    /// To the origin: the case whose computing has ended.
    Ended,
    /// To the origin: the beginning of the target's part, for windows that are addressed by it.
    Base,
    /// To the origin: the repetitions that completed while the target computed.
    During,
    /// To the origin: 1 where all the target's checks succeeded.
    Right,
}

/// The words between ranks 0 and 1.
pub(super) struct Signals(Mapped);

impl Signals {
    /// Opens them. Collective; `None` at ranks that take no part.
    pub(super) fn open(world: &Job) -> Outcome<Option<Signals>> {
        let exchange = |mine: &[u8]| exchange_of_two(world, mine);
        if world.rank() > 1 {
            exchange_of_two(world, &[])?;
            return Ok(None);
        }
        Ok(Some(Signals(Mapped::open(world.rank(), 4096, exchange)?)))
    }

    /// Signals the other rank.
    pub(super) fn store(&self, word: Word, value: u64) {
        // Release: pairs with the Acquire in `load`, so that a rank that reads the word also sees
        // the writes before it.
        self.0.theirs.word64(word as usize * LINE).store(value, Ordering::Release);
    }

    /// The other rank's last value of the signal.
    pub(super) fn load(&self, word: Word) -> u64 {
        // Acquire: pairs with the Release in `store`.
        self.0.mine.word64(word as usize * LINE).load(Ordering::Acquire)
    }

    /// Waits until the repetition `number` may be done; returns false where the computing of `case`
    /// has ended.
    pub(super) fn may_go(&self, number: u64, case: u64) -> Outcome<bool> {
        self.wait(|| match self.load(Word::Ready) >= number {
            true => Some(true),
            false => (self.load(Word::Ended) >= case).then_some(false),
        })
    }

    /// Waits until the computing of `case` has ended.
    pub(super) fn ended(&self, case: u64) -> Outcome<()> {
        self.wait(|| (self.load(Word::Ended) >= case).then_some(()))
    }

    fn wait<R>(&self, mut look: impl FnMut() -> Option<R>) -> Outcome<R> {
        let start = Instant::now();
        loop {
            if let Some(seen) = look() {
                return Ok(seen);
            }
            if start.elapsed() > DEADLINE {
                return Err(format!("no signal from the other rank for {} s", DEADLINE.as_secs()).into());
            }
            std::thread::yield_now();
        }
    }
}
