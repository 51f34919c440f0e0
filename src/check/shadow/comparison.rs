//! The comparison of a new access with the record of an earlier one.

use super::{Access, IN_FLIGHT, LATER, Shadow};
use crate::check::clock::Clock;
use crate::check::rules::{Kind, Rule, agree, conflict, includes};

/// An earlier access, from its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Older {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Encoded.
    pub(super) kind: u32,
    pub(super) origin: usize,
    /// The number of releases that its origin had made when it was complete;
    /// [`OF_OWNER`](super::OF_OWNER) and an exposure epoch; [`LATER`] and a number of releases; or
    /// [`IN_FLIGHT`].
    pub(super) ended: u64,
}

/// The end of a new access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// In its call: it is complete at the next release of its rank.
    InCall,
    /// At the next flush of the part by its rank ([`Shadow::flushes`]).
    AtFlush,
    /// When [`Records::complete`](super::Records::complete) is called.
    WhenTold,
}

/// A new access, with the clock of its rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'c> {
    pub(super) access: Access,
    /// The kind, encoded.
    pub(super) kind: u32,
    pub(super) clock: &'c Clock,
    pub(super) ends: Ends,
    /// Whether its record may be forgotten before all ranks know of the older accesses. It then
    /// stands for none of them.
    pub(super) is_passing: bool,
    pub(super) shadow: Shadow<'c>,
}

/// The comparison of a new access with the record of an older one that it overlaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// The rule that the two accesses break.
    pub(super) rule: Option<Rule>,
    /// Whether the older record is of no further use.
    pub(super) is_replaced: bool,
}

impl<'c> New<'c> {
    #[inline]
    pub(super) fn of(shadow: Shadow<'c>, access: Access, clock: &'c Clock, ends: Ends) -> New<'c> {
        New { access, kind: access.kind.encode(), clock, ends, is_passing: false, shadow }
    }

    /// The value of [`Older::ended`] for this access.
    #[inline]
    pub(super) fn ends(&self) -> u64 {
        let released = Shadow::ends_with_release(self.clock.of(self.access.origin));
        match self.ends {
            Ends::InCall => released,
            Ends::AtFlush => LATER | released,
            Ends::WhenTold => IN_FLIGHT,
        }
    }

    pub(super) fn overlaps(&self, older: &Older) -> bool {
        older.start < self.access.end && self.access.start < older.end
    }

    /// Whether every rank knows that the older access is complete: no further access is concurrent
    /// with it.
    #[inline]
    pub(super) fn is_behind(&self, older: &Older) -> bool {
        self.shadow.is_over(older, |rank| self.clock.common_of(rank))
    }

    /// Whether this rank knows that the older access is complete.
    #[inline]
    pub(super) fn knows(&self, older: &Older) -> bool {
        self.shadow.is_over(older, |rank| self.clock.of(rank))
    }

    #[inline(always)]
    pub(super) fn judge(&self, older: &Older) -> Verdict {
        let New { access: new, kind, ends, .. } = self;
        let own = older.origin == new.origin;
        let ordered = (own && older.ended < LATER) || self.knows(older);
        let agrees = ordered || (older.start == new.start && agree(older.kind, *kind));
        let rule = if agrees { None } else { self.broken_rule(older) };
        let covered = new.start <= older.start && older.end <= new.end;
        // Accesses that may end at different times do not stand for each other.
        let as_long = match ends {
            Ends::InCall => false,
            Ends::AtFlush => older.ended >= LATER && older.ended != IN_FLIGHT,
            Ends::WhenTold => older.ended == IN_FLIGHT,
        };
        let again = own && as_long && older.kind == *kind;
        let stands = ordered && !self.is_passing && self.stands_for(older);
        let is_replaced = (covered && (again || stands)) || self.is_behind(older);
        Verdict { rule, is_replaced }
    }

    #[cold]
    fn broken_rule(&self, older: &Older) -> Option<Rule> {
        let New { access: new, .. } = self;
        conflict((Kind::decode(older.kind), older.start), (new.kind, new.start), older.origin == new.origin)
    }

    /// Whether each later access that conflicts with `older` also conflicts with this one. `older`
    /// is ordered before this access, and within its range.
    #[inline]
    fn stands_for(&self, older: &Older) -> bool {
        let New { access: new, kind, .. } = self;
        matches!(new.kind, Kind::Put | Kind::Store)
            || (*kind == older.kind && new.origin == older.origin)
            || (new.start == older.start && new.end == older.end && includes(*kind, older.kind))
    }
}

impl Older {
    /// The access, whose place is `place`.
    pub(super) fn access(&self, place: u32) -> Access {
        let Older { start, end, kind, origin, .. } = *self;
        Access { start, end, kind: Kind::decode(kind), origin, place }
    }
}
