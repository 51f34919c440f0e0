//! The words of a window's locks, and their changes by this rank for the protocol of `sync::lock`.
//! One actor changes a word for all origins: CPUs of its node, the net, or the target's CPU on
//! request by messages.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transom_fabric::{Amo, AmoKind, Post, Tally, TallyRef, Width};

use super::parts::Parts;
use super::target::{Control, Target};
use crate::buffers::{self, Sink};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::messages::{ReplyDestination, Request};
use crate::routes::Actor;
use crate::sync::lock::{self, LockWord, LockWords, Patience};
use crate::sync::words;

/// Polls of a word before the waiter yields, and before it sleeps.
const SPINS: u32 = 32;
const YIELDED: u32 = 64;
/// The first sleep between two polls, and how often it doubles.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const DOUBLINGS: u32 = 5;

impl Parts {
    /// The word of a target's lock, if this CPU changes it. `None` before first contact, and in a
    /// checked window.
    #[inline]
    pub(super) fn here(&self, rank: usize) -> Option<(&Target, Here<'_>)> {
        if self.control == Actor::Nic {
            return None;
        }
        let target = self.fast_target(rank)?;
        Some((target, Here { parts: self, lock: target.words(self)?.word64(words::LOCK) }))
    }

    /// The target and the offset of a lock's word.
    fn word(&self, which: LockWord) -> Result<(&Target, usize)> {
        let (rank, at) = position(which);
        match self.target("lock", rank)? {
            Some(target) => Ok((target, at)),
            None => Err(Error::argument(Class::Rank, "lock", ArgumentError::ProcNull)),
        }
    }

    /// A lock's word, if this CPU changes it. `None` before first contact.
    #[inline]
    fn word_here(&self, which: LockWord) -> Option<&AtomicU64> {
        let (rank, at) = position(which);
        if self.control == Actor::Nic {
            return None;
        }
        Some(self.known(rank)?.words(self)?.word64(at))
    }

    /// Changes a control word and waits for its previous value.
    #[cold]
    fn change(&self, which: LockWord, amo: Amo) -> Result<u64> {
        let (target, at) = self.word(which)?;
        if let Control::Memory(words) = target.control(self)? {
            return Ok(words.amo(at, amo));
        }
        let mut old = 0u64;
        // Not within the target's tally: this call waits for the atomic, so no flush has to.
        let tally = Tally::new();
        buffers::scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = scope.sink(bytemuck::bytes_of_mut(&mut old));
                self.post_control(target, at, amo, into, &tally)
            },
        )?;
        self.job.progress.complete(&tally)?;
        Ok(old)
    }

    /// Releases a target's lock by a request behind the puts in flight to the target, which the net
    /// performs first. Returns whether the request will arrive, even if this call fails. A message
    /// is counted by `by_message`, and an atomic of the device by the target's tally.
    pub(super) fn release_behind(&self, target: &Target, exclusive: bool, by_message: &TallyRef) -> (bool, Result<()>) {
        self.await_drain(target);
        let (at, amo) = (words::LOCK, Amo::new(AmoKind::Sum, Width::W64, lock::released(exclusive)));
        match target.control(self) {
            Ok(Control::Messages) => (true, self.post_control(target, at, amo, Sink::NONE, by_message)),
            Ok(Control::Post(..)) => {
                let posted = self.post_control(target, at, amo, Sink::NONE, &target.tally);
                (posted.is_ok(), posted)
            }
            Ok(Control::Memory(_)) => (false, Ok(())),
            Err(error) => (false, Err(error)),
        }
    }

    /// Posts a release of a lock until the transport takes it, also after the loss of another rank:
    /// other ranks wait for the release.
    fn post_release(&self, target: &Target, post: impl Fn() -> Post) -> Result<()> {
        loop {
            let answer = post();
            let is_broken = matches!(answer, Post::Broken(_));
            match self.job.taken(answer) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if is_broken => return Err(error),
                Err(error) => return self.post_release_on(target, post, error),
            }
        }
    }

    /// [`Parts::post_release`] after `error`, which may be the loss of another rank.
    #[cold]
    fn post_release_on(&self, target: &Target, post: impl Fn() -> Post, mut error: Error) -> Result<()> {
        let (is_taken, is_over) = (Cell::new(false), Cell::new(false));
        let left = || {
            if !is_over.get() {
                match post() {
                    Post::Done | Post::Pending => is_taken.set(true),
                    Post::Again => is_over.set(self.job.progress.lost().contains(&self.targets.job_rank(target))),
                    Post::Broken(_) => is_over.set(true),
                }
                is_over.set(is_over.get() || is_taken.get());
            }
            u64::from(!is_over.get())
        };
        self.job.go_on_after(&mut error, left);
        if is_taken.get() { Ok(()) } else { Err(error) }
    }

    /// Makes progress for the time `apart`, without a poll of the word. `turn`: the number of
    /// earlier polls; after many polls the call sleeps.
    #[cold]
    fn stay_away(&self, turn: u32, apart: Duration) -> Result<()> {
        let begun = Instant::now();
        while let Some(left) = apart.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            if turn >= YIELDED || self.job.spin.spin().is_zero() {
                self.job.progress.sleep(left);
            }
            self.job.progress.poll_between()?;
        }
        Ok(())
    }

    fn post_control(&self, target: &Target, at: usize, amo: Amo, into: Sink, tally: &TallyRef) -> Result<()> {
        match target.control(self)? {
            Control::Memory(words) => {
                into.fill_from(&words.amo(at, amo).to_ne_bytes());
                Ok(())
            }
            Control::Post(block, base) => {
                while !self.job.taken(block.amo(base + at as u64, amo, &into, tally))? {}
                Ok(())
            }
            Control::Messages => {
                self.send(target, &Request::Control { at: at as u64, amo }, ReplyDestination::One(into), tally)
            }
        }
    }
}

/// The rank that has a lock's word, and the word's offset among the rank's control words.
#[inline]
fn position(which: LockWord) -> (usize, usize) {
    match which {
        LockWord::Target(rank) => (rank, words::LOCK),
        LockWord::Master => (0, words::MASTER),
        LockWord::Groups => (0, words::GROUPS),
    }
}

impl LockWords for Parts {
    fn ranks(&self) -> usize {
        self.team.size
    }

    // SeqCst, like the changes of these words by the net and by messages: a lock orders all
    // accesses before it with all accesses after it.
    #[inline]
    fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
        if let Some(word) = self.word_here(which) {
            return Ok(word.fetch_add(delta, Ordering::SeqCst));
        }
        self.change(which, Amo::new(AmoKind::Sum, Width::W64, delta))
    }

    #[inline]
    fn release(&self, which: LockWord, delta: u64) -> Result<()> {
        if let Some(word) = self.word_here(which) {
            word.fetch_add(delta, Ordering::SeqCst);
            return Ok(());
        }
        let (target, at) = self.word(which)?;
        let amo = Amo::new(AmoKind::Sum, Width::W64, delta);
        self.await_drain(target);
        match target.control(self)? {
            Control::Post(block, base) => {
                self.post_release(target, || block.amo(base + at as u64, amo, &Sink::NONE, &target.tally))?;
            }
            Control::Memory(_) | Control::Messages => {
                self.post_control(target, at, amo, Sink::NONE, &target.tally)?;
            }
        }
        if self.control != Actor::Cpu {
            // A port may delay the request until this rank makes progress, and other ranks wait for
            // the lock.
            self.job.progress.poll_and_leave()?;
        }
        Ok(())
    }

    #[inline]
    fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
        if let Some(word) = self.word_here(which) {
            let swapped = word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
            return Ok(swapped.unwrap_or_else(|found| found));
        }
        self.change(which, Amo::compare_swap(Width::W64, expected, new))
    }

    fn read(&self, which: LockWord) -> Result<u64> {
        let (target, at) = self.word(which)?;
        if let Control::Memory(words) = target.control(self)? {
            self.patience.read_took(Duration::ZERO);
            return Ok(load(words, at));
        }
        let begun = Instant::now();
        let word = self.change(which, Amo::new(AmoKind::Read, Width::W64, 0));
        self.patience.read_took(begun.elapsed());
        word
    }

    fn pause(&self, turn: u32, apart: Duration) -> Result<()> {
        self.job.progress.poll_between()?;
        if apart > Duration::ZERO {
            self.stay_away(turn, apart)?;
        }
        match turn {
            ..YIELDED if apart > Duration::ZERO => {
                self.job.progress.look()?;
                self.job.progress.call_hook();
            }
            ..SPINS if !self.job.spin.spin().is_zero() => std::hint::spin_loop(),
            ..YIELDED => std::thread::yield_now(),
            _ => {
                self.job.progress.look()?;
                self.job.progress.call_hook();
                let doublings = ((turn - YIELDED) / 16).min(DOUBLINGS);
                std::thread::sleep((FIRST_SLEEP * (1 << doublings)).saturating_sub(apart));
            }
        }
        Ok(())
    }

    fn patience(&self) -> &Patience {
        &self.patience
    }

    fn now(&self) -> Duration {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed()
    }
}

/// The lock words of a window. This CPU changes the word `lock` of one target; other words are
/// changed through `parts`.
pub(super) struct Here<'p> {
    parts: &'p Parts,
    lock: &'p AtomicU64,
}

impl LockWords for Here<'_> {
    fn ranks(&self) -> usize {
        self.parts.ranks()
    }

    #[inline]
    fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
        match which {
            // SeqCst here and below, as in the implementation for `Parts`.
            LockWord::Target(_) => Ok(self.lock.fetch_add(delta, Ordering::SeqCst)),
            LockWord::Master | LockWord::Groups => self.parts.add(which, delta),
        }
    }

    #[inline]
    fn release(&self, which: LockWord, delta: u64) -> Result<()> {
        match which {
            LockWord::Target(_) => {
                self.lock.fetch_add(delta, Ordering::SeqCst);
                Ok(())
            }
            LockWord::Master | LockWord::Groups => self.parts.release(which, delta),
        }
    }

    #[inline]
    fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
        match which {
            LockWord::Target(_) => {
                let swapped = self.lock.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
                Ok(swapped.unwrap_or_else(|found| found))
            }
            LockWord::Master | LockWord::Groups => self.parts.swap(which, expected, new),
        }
    }

    fn read(&self, which: LockWord) -> Result<u64> {
        self.parts.read(which)
    }

    fn pause(&self, turn: u32, apart: Duration) -> Result<()> {
        self.parts.pause(turn, apart)
    }

    fn patience(&self) -> &Patience {
        &self.parts.patience
    }

    fn now(&self) -> Duration {
        self.parts.now()
    }
}

fn load(words: words::Words<'_>, at: usize) -> u64 {
    // Acquire: pairs with the holder's release by `amo`, which is SeqCst.
    words.word64(at).load(Ordering::Acquire)
}
