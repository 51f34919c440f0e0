//! Accumulates on single elements in a checked window: their records, and the clocks that a rank
//! learns from fetched values.

use std::convert::Infallible;

use super::super::target::Target;
use super::{End, Parts};
use crate::check::{Access, At, Kind};
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::reduce::BasicType;

impl Parts {
    /// [`Parts::note`] for one element of an accumulate.
    #[inline]
    pub(in crate::window) fn note_one(&self, target: &Target, at: u64, kind: Kind, end: End) -> Result<()> {
        let Kind::Combine { ty, .. } = kind else { return Ok(()) };
        if !self.is_checked() {
            return Ok(());
        }
        if end == End::InCall && self.note_in_call(target, at, kind, ty.size())? {
            return Ok(());
        }
        self.note_checked(target, at.cast_signed(), &Layout::Bytes(ty.size()), kind, end)
    }

    /// [`Parts::note_checked`] for an access that is complete when its call returns. Returns false
    /// if the caller has to call [`Parts::note_checked`] instead.
    fn note_in_call(&self, target: &Target, at: u64, kind: Kind, len: usize) -> Result<bool> {
        let Some((checked, checker)) = self.checker() else { return Ok(true) };
        let member = target.rank();
        let shadow = checked.shadow(member)?;
        // The cache lines arrive while `place_of` searches for the place, which takes as long as a
        // cache miss.
        shadow.prefetch(at);
        if let Some(memory) = target.reach.memory()
            && let Ok(at) = usize::try_from(at)
        {
            memory.prefetch(at);
        }
        let place = checker.place_of(kind);
        if shadow.shared().is_some() || shadow.has_log() {
            return Ok(false);
        }
        let new = Access { start: at, end: at + len as u64, kind, origin: self.job.rank, place: place.number };
        let clock = if kind.only_reads() { checker.clock() } else { checker.release() };
        if !kind.only_reads() {
            // The atomic passes on what this rank has done before it.
            match shadow.clock_of(new.start, new.end) {
                Some(slot) => clock.teach_by(self.job.rank, slot),
                None => shadow.clocks_of(new.start, new.end).for_each(|slot| clock.teach_by(self.job.rank, slot)),
            }
        }
        let mut clashes = Vec::new();
        if shadow.record(new, &clock, true, &mut clashes).is_none() {
            return Ok(false);
        }
        drop(clock);
        if !clashes.is_empty() {
            clashes.into_iter().try_for_each(|clash| self.conflict(checker, member, new, clash))?;
        }
        Ok(true)
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
        let Some((checked, _)) = self.checker() else { return Ok(()) };
        let shadow = checked.shadow(target.rank())?;
        let Some(slot) = shadow.clock_of(at, at + len as u64) else {
            return self.fetched_checked(target, at.cast_signed(), &Layout::Bytes(len));
        };
        self.job.learns(|clock| {
            clock.learn(slot);
            clock.learn(shadow.clock(At::Long));
        });
        Ok(())
    }

    #[cold]
    fn fetched_checked(&self, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        let Some((checked, _)) = self.checker() else { return Ok(()) };
        let shadow = checked.shadow(target.rank())?;
        self.job.learns(|clock| {
            let Ok(()) = layout.each_piece(|offset, len| {
                let start = at.wrapping_add(offset).cast_unsigned();
                shadow.clocks_of(start, start + len as u64).for_each(|slot| clock.learn(slot));
                clock.learn(shadow.clock(At::Long));
                Ok::<(), Infallible>(())
            });
        });
        Ok(())
    }
}
