//! Accumulates on single elements in a checked window: their records, and the clocks that a rank
//! learns from fetched values.
//!
//! The record of an access that is complete in its call has the number of the rank's releases. If
//! another thread of the rank releases before the access is performed, a rank that learns of this
//! release would take the access for an earlier one. The access is then recorded again, with the
//! new number.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::target::Target;
use super::{End, Parts};
use crate::check::{Access, Call, Checker, Clock, Ends, Kind, Shadow, Slot, WordAccess};
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::reduce::{BasicType, Op};

/// An accumulate on one element. The caller knows the call and the operation, so the compiler
/// computes most of this.
struct Element {
    kind: Kind,
    len: usize,
    /// The kind, encoded, and its form.
    encoded: u32,
    form: usize,
    changes: bool,
}

/// Prefetches the cache lines that an access at byte `at` of the target needs, if they exist.
/// `slot`: the first clock of the word.
#[inline]
pub(super) fn prefetch(shadow: Shadow<'_>, slot: Slot<'_>, (target, at): (&Target, u64)) {
    shadow.prefetch(at, slot);
    if let Some(memory) = target.reach.memory()
        && let Some(at) = usize::try_from(at).ok().filter(|&at| at < memory.len())
    {
        memory.prefetch(at);
    }
}

impl Parts {
    /// [`Parts::note`] for one element of an accumulate with a request. `changes`: whether the
    /// accumulate changes the element, as its kind says.
    #[inline]
    pub(in crate::window) fn note_one(&self, target: &Target, at: u64, kind: Kind, changes: bool) -> Result<()> {
        let Kind::Combine { ty, .. } = kind else { return Ok(()) };
        if !self.is_checked() {
            return Ok(());
        }
        self.note_checked(target, at.cast_signed(), &Layout::Bytes(ty.size()), kind, (End::Alone, changes)).map(drop)
    }

    /// Performs an accumulate on one element of `ty` that is complete when `atomic` returns.
    #[inline]
    pub(in crate::window) fn note_around<R>(
        &self,
        target: &Target,
        at: u64,
        (kind, ty): (Kind, BasicType),
        atomic: impl FnOnce() -> R,
    ) -> Result<R> {
        if !self.is_checked() {
            return Ok(atomic());
        }
        self.note_attempt(target, at, (kind, ty), !kind.only_reads(), atomic)
    }

    /// [`Parts::note_around`] in a checked window. `changes`: whether the accumulate changes the
    /// element, as its kind says.
    pub(in crate::window) fn note_attempt<R>(
        &self,
        target: &Target,
        at: u64,
        (kind, ty): (Kind, BasicType),
        changes: bool,
        atomic: impl FnOnce() -> R,
    ) -> Result<R> {
        let (encoded, form) = (kind.encode(), kind.form());
        self.around_checked(target, at, &Element { kind, len: ty.size(), encoded, form, changes }, atomic)
    }

    // Not cold: the compiler does not inline into cold functions.
    #[inline(never)]
    fn around_checked<R>(&self, target: &Target, at: u64, element: &Element, atomic: impl FnOnce() -> R) -> Result<R> {
        let Some((checked, checker)) = self.checker() else { return Ok(atomic()) };
        let shadow = checked.shadow(target.rank())?;
        checker.learn_polled();
        if shadow.has_noput() && element.changes {
            let at =
                (at.cast_signed(), &Layout::Bytes(element.len), element.kind, checker.place_of(element.kind).number);
            self.changes_in_spite((checked, checker), (target, shadow), at)?;
        }
        let Some((words, released)) = self.note_in_call(checker, shadow, (target, at), element)? else {
            let Element { kind, len, changes, .. } = *element;
            return self.around_far(target, at, (kind, len), changes, || Ok(atomic()));
        };
        let value = atomic();
        if checker.released() != released {
            self.note_again(target, at, (element.kind, element.len))?;
        }
        self.learn_if_news(checker, words, shadow, (at, at + element.len as u64));
        if element.kind.fetches() && shadow.may_have_flags() {
            self.learn_stored(checked, checker, target.rank())?;
        }
        Ok(value)
    }

    /// [`Parts::note`] and [`Parts::lent`] for an accumulate of one element without a result, which
    /// is complete at the next flush. `address`: that of the operand. Returns false if nothing is
    /// recorded: the caller has to use these functions.
    #[inline]
    pub(in crate::window) fn note_later(
        &self,
        target: &Target,
        at: u64,
        (op, ty): (Op, BasicType),
        address: usize,
    ) -> Result<bool> {
        let Some((checked, checker)) = self.checker() else { return Ok(false) };
        let (member, origin, len) = (target.rank(), self.job.rank, ty.size());
        let (shadow, kind) = (checked.shadow(member)?, Kind::Combine { call: Call::Accumulate, op: Some(op), ty });
        checker.learn_polled();
        if self.ends_at_flush((checker, target), shadow, (kind, End::Later)) != End::AtFlush
            || shadow.has_noput()
            || checker.watches()
        {
            return Ok(false);
        }
        let Some((slot, words)) = shadow.clocks_in_word(at, len as u64) else { return Ok(false) };
        // The cache lines arrive while this rank searches for the place of the call.
        prefetch(shadow, slot, (target, at));
        let place = checker.place_of_form(kind.form());
        // The accumulate passes on what this rank has done before it.
        let clock = checker.release_news();
        clock.teach_words(origin, words);
        let new = WordAccess {
            start: at,
            len: len as u64,
            kind: kind.encode(),
            origin,
            place: place.number,
            released: clock.of(origin),
            is_later: true,
        };
        if shadow.record_word(&new, &*clock) {
            drop(clock);
        } else if self.note_in_cell(checker, clock, shadow, (target, &new, kind), words)?.is_none() {
            return Ok(false);
        }
        // Relaxed: this thread's next flush comes after it.
        checked.unflushed[member].store(true, Ordering::Relaxed);
        self.lent_element((checked, checker), (target, at), (kind, place), (address, len)).map(|()| true)
    }

    /// [`Parts::note_around`] for an accumulate that may be a message.
    pub(in crate::window) fn note_around_far<R>(
        &self,
        target: &Target,
        at: u64,
        (kind, ty): (Kind, BasicType),
        atomic: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if self.is_checked() { self.around_far(target, at, (kind, ty.size()), true, atomic) } else { atomic() }
    }

    #[cold]
    fn around_far<R>(
        &self,
        target: &Target,
        at: u64,
        (kind, len): (Kind, usize),
        changes: bool,
        atomic: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let end = (End::InCall, changes);
        let released = self.note_checked(target, at.cast_signed(), &Layout::Bytes(len), kind, end)?;
        let value = atomic()?;
        if let Some((_, checker)) = self.checker()
            && checker.released() != released
        {
            self.note_again(target, at, (kind, len))?;
        }
        self.fetched_one(target, at, len).map(|()| value)
    }

    /// Records a complete accumulate again, because this rank has released its clock since the
    /// first record.
    #[cold]
    fn note_again(&self, target: &Target, at: u64, (kind, len): (Kind, usize)) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let (member, place) = (target.rank(), checker.place_of(kind).number);
        let new = Access { start: at, end: at + len as u64, kind, origin: self.job.rank, place };
        self.record_in_call(checked, checker, (member, new), true)
    }

    /// Merges the clocks of earlier accumulates on a word. `words`: the words of that word's
    /// clocks.
    #[inline]
    fn learn_if_news(&self, checker: &Checker, words: &[AtomicU64], shadow: Shadow<'_>, (start, end): (u64, u64)) {
        let long = shadow.long(start, end);
        if checker.is_news(words) || long.is_some_and(|long| checker.is_news(shadow.words_of(long))) {
            self.learn_of_word(words, long);
        }
    }

    #[cold]
    fn learn_of_word(&self, words: &[AtomicU64], long: Option<Slot<'_>>) {
        self.job.learns(|clock| {
            clock.learn_words(words);
            long.into_iter().for_each(|slot| clock.learn(slot));
        });
    }

    /// [`Parts::note_checked`] for an access within a word that is complete when its call returns.
    /// Returns the words of the word's clocks, and the number of releases in the record. `None`:
    /// the caller has to call [`Parts::note_checked`].
    #[inline(never)]
    fn note_in_call<'s>(
        &self,
        checker: &Checker,
        shadow: Shadow<'s>,
        (target, at): (&Target, u64),
        element: &Element,
    ) -> Result<Option<(&'s [AtomicU64], u64)>> {
        let len = element.len as u64;
        let Some((slot, words)) = shadow.clocks_in_word(at, len) else { return Ok(None) };
        // The cache lines arrive while this rank searches for the place of the call.
        prefetch(shadow, slot, (target, at));
        let place = checker.place_of_form(element.form).number;
        if !shadow.is_plain() {
            return Ok(None);
        }
        let origin = self.job.rank;
        let new =
            |released| WordAccess { start: at, len, kind: element.encoded, origin, place, released, is_later: false };
        if !element.changes {
            let new = new(checker.released());
            if shadow.record_word(&new, checker.known()) {
                checker.has_done();
                return Ok(Some((words, new.released)));
            }
            return self.note_in_cell(checker, checker.clock(), shadow, (target, &new, element.kind), words);
        }
        // The atomic passes on what this rank has done before it.
        let clock = checker.release_by_operation();
        clock.teach_words(origin, words);
        let new = new(clock.of(origin));
        if shadow.record_word(&new, &*clock) {
            checker.has_done();
            return Ok(Some((words, new.released)));
        }
        self.note_in_cell(checker, clock, shadow, (target, &new, element.kind), words)
    }

    /// [`Parts::note_in_call`] where the fast path does not suffice.
    #[cold]
    #[inline(never)]
    fn note_in_cell<'s>(
        &self,
        checker: &Checker,
        clock: impl Deref<Target = Clock>,
        shadow: Shadow<'s>,
        (target, new, kind): (&Target, &WordAccess, Kind),
        words: &'s [AtomicU64],
    ) -> Result<Option<(&'s [AtomicU64], u64)>> {
        let WordAccess { start, len, origin, place, is_later, .. } = *new;
        let new = Access { start, end: start + len, kind, origin, place };
        let mut clashes = Vec::new();
        let ends = if is_later { Ends::AtFlush } else { Ends::InCall };
        if shadow.record(new, &clock, ends, &mut clashes).is_none() {
            return Ok(None);
        }
        if !is_later {
            checker.has_done();
        }
        let released = clock.of(origin);
        drop(clock);
        self.report_all(checker, target.rank(), clashes.into_iter().map(|clash| (new, clash, false)).collect())?;
        Ok(Some((words, released)))
    }

    /// Learns the clocks of earlier accumulates on a range whose values have arrived.
    #[inline]
    pub(in crate::window) fn layout_fetched(&self, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        if self.is_checked() { self.fetched_checked(target, at, layout) } else { Ok(()) }
    }

    /// [`Parts::layout_fetched`] for one element.
    #[inline]
    pub(in crate::window) fn fetched(&self, target: &Target, at: u64, ty: BasicType) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        self.fetched_one(target, at, ty.size())
    }

    #[cold]
    fn fetched_one(&self, target: &Target, at: u64, len: usize) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let shadow = checked.shadow(target.rank())?;
        let Some((_, words)) = shadow.clocks_in_word(at, len as u64) else {
            return self.fetched_checked(target, at.cast_signed(), &Layout::Bytes(len));
        };
        self.learn_if_news(checker, words, shadow, (at, at + len as u64));
        self.learn_stored(checked, checker, target.rank())?;
        if checker.has_seen_atomics() {
            checked.sees(checker, target.rank(), at, at + len as u64)?;
        }
        Ok(())
    }

    #[cold]
    fn fetched_checked(&self, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let shadow = checked.shadow(target.rank())?;
        self.job.learns(|clock| {
            let Ok(()) = layout.each_piece(|offset, len| {
                let start = at.wrapping_add(offset).cast_unsigned();
                shadow.clocks_for(start, start + len as u64).for_each(|slot| clock.learn(slot));
                Ok::<(), Infallible>(())
            });
        });
        self.learn_stored(checked, checker, target.rank())?;
        if !checker.has_seen_atomics() {
            return Ok(());
        }
        layout.each_piece(|offset, len| {
            let start = at.wrapping_add(offset).cast_unsigned();
            checked.sees(checker, target.rank(), start, start + len as u64)
        })
    }
}
