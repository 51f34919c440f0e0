//! The program's own loads, stores and atomics on the memory of a checked window, by pointers.
//! Another library (an MPI's interposition) sees them by the calls that a compiler inserts for
//! ThreadSanitizer, and reports them here. Loads and stores are recorded as those of the library's
//! own functions are. `atomics` has the program's atomics.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::{Access, Checked, Checker, Clash, Clock, End, Kind, LogEntry, Parts, Pending, Record};
use crate::error::Result;
use crate::job::Cause;

/// The number of accesses that a thread remembers, a power of two.
const RECENT: usize = 256;

/// A load or store of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::window) struct Touch {
    pub(in crate::window) member: usize,
    pub(in crate::window) at: usize,
    pub(in crate::window) len: usize,
    pub(in crate::window) written: bool,
    pub(in crate::window) is_atomic: bool,
}

/// An access that a thread has recorded, with the number of the rank's releases at that time.
#[derive(Clone, Copy)]
struct Recent {
    window: u64,
    touch: Touch,
    released: u64,
}

const NONE: Recent = Recent {
    window: 0,
    touch: Touch { member: 0, at: 0, len: 0, written: false, is_atomic: false },
    released: u64::MAX,
};

thread_local! {
    /// The record of an access stands for its repetitions until the next release of the rank.
    /// `RECENT` entries, allocated at the first record: thread-local memory counts against the
    /// stack size of each thread, which may be `PTHREAD_STACK_MIN`.
    static LATEST: RefCell<Vec<Recent>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread has recorded the access, or a store of the same bytes, since the last
/// release. Remembers the access.
pub(super) fn is_repeated(window: u64, touch: Touch, released: u64) -> bool {
    let slot = (touch.at >> 2) % RECENT;
    let check = |latest: &RefCell<Vec<Recent>>| {
        let mut latest = latest.borrow_mut();
        if latest.is_empty() {
            latest.resize(RECENT, NONE);
        }
        let known = &mut latest[slot];
        let stored = Touch { written: true, ..touch };
        let same = known.touch == touch || known.touch == stored;
        let is_known = known.window == window && known.released == released && same;
        if !is_known {
            *known = Recent { window, touch, released };
        }
        is_known
    };
    // A thread that ends remembers nothing.
    LATEST.try_with(check).unwrap_or(false)
}

impl Parts {
    /// Records a load or store by a pointer. `address`: the address in the program to which the
    /// access returns; `None` if the program has called a function that makes the access.
    pub(in crate::window) fn touches(&self, touch: Touch, address: Option<usize>) {
        let Some((checked, checker)) = self.checker() else { return };
        if touch.len == 0 || is_repeated(self.id, touch, checker.released()) {
            return;
        }
        if let Err(error) = self.record_touch(checked, checker, touch, address) {
            self.job.warn_once(Cause::Unchecked, &format!("a load or store was not checked: {error:#}"));
        }
    }

    fn record_touch(&self, checked: &Checked, checker: &Checker, touch: Touch, address: Option<usize>) -> Result<()> {
        let new = self.touched(checker, touch, address);
        self.record_in_call(checked, checker, (touch.member, new), true)
    }

    pub(super) fn touched(&self, checker: &Checker, touch: Touch, address: Option<usize>) -> Access {
        let kind = match touch {
            Touch { is_atomic: true, written, .. } => Kind::Atomic { written },
            Touch { written: true, .. } => Kind::Store,
            _ => Kind::Load,
        };
        let place = address.map_or_else(|| checker.place_of(kind), |address| checker.place_at(address));
        let start = touch.at as u64;
        Access { start, end: start + touch.len as u64, kind, origin: self.job.rank, place: place.number }
    }

    /// Records that a buffer of an operation is in a part. Returns the number of this use, which
    /// [`Parts::return_part`] ends.
    pub(in crate::window) fn lends_part(&self, touch: Touch) -> Option<u64> {
        let (checked, checker) = self.checker().filter(|_| touch.len > 0)?;
        let new = self.touched(checker, touch, None);
        let number = checked.operations.fetch_add(1, Ordering::Relaxed) + 1;
        let recorded = self.record_use(checked, checker, (touch.member, new), number);
        if let Err(error) = recorded {
            self.job.warn_once(Cause::Unchecked, &format!("a buffer was not checked: {error:#}"));
            return None;
        }
        Some(number)
    }

    fn record_use(
        &self,
        checked: &Checked,
        checker: &Checker,
        (member, new): (usize, Access),
        number: u64,
    ) -> Result<()> {
        let mut pending = checked.pending();
        let conflicts =
            self.record_as(checked, checker, (member, new), End::Alone, |(record, by_address), clock| {
                pending[self.team.size + member].push(Pending {
                    record,
                    ends_with_result: false,
                    ends_with_exposure: false,
                    operation: number,
                    is_alone: true,
                    access: new,
                    known: clock.of(self.team.rank(member)),
                    by_address,
                });
                Ok(())
            })?;
        drop(pending);
        self.report_all(checker, member, conflicts)
    }

    /// Ends uses of a part by buffers. The numbers are in increasing order.
    pub(in crate::window) fn return_part(&self, member: usize, numbers: &[u64]) {
        let Some((checked, checker)) = self.checker() else { return };
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(checked.complete_uses(checker, member, numbers));
    }

    /// Records an access to a member's part that is complete in its call. `is_told`: the member's
    /// ThreadSanitizer, if there is one, learns of it.
    pub(super) fn record_in_call(
        &self,
        checked: &Checked,
        checker: &Checker,
        (member, new): (usize, Access),
        is_told: bool,
    ) -> Result<()> {
        let pending = checked.pending();
        let conflicts = self.record_as(checked, checker, (member, new), End::InCall, |_, clock| {
            let shadow = checked.shadow(member)?;
            if is_told && member != self.team.me && shadow.has_log() {
                let known = clock.of(self.team.rank(member));
                checked.lock(shadow)?.log(LogEntry { access: new, known, done: clock.of(new.origin) });
            }
            Ok(())
        })?;
        drop(pending);
        self.report_all(checker, member, conflicts)
    }

    /// Records an access to a member's part. `then` gets its records, in the part and by address.
    /// Returns the conflicts. The caller holds the lock of `pending`.
    pub(super) fn record_as(
        &self,
        checked: &Checked,
        checker: &Checker,
        (member, new): (usize, Access),
        end: End,
        then: impl FnOnce((Record, Option<Record>), &Clock) -> Result<()>,
    ) -> Result<Vec<(Access, Clash, bool)>> {
        let shadow = checked.shadow(member)?;
        let (mut conflicts, mut clashes) = (Vec::new(), Vec::new());
        let by_addresses = if shadow.shared().is_some() { checked.by_address(checker, member)? } else { None };
        let clock = checker.clock();
        let record = checked.record(shadow, new, (&clock, end), &mut clashes)?;
        conflicts.extend(clashes.into_iter().map(|clash| (new, clash, false)));
        let mut by_address = None;
        if let (Some(base), Some(memory)) = (shadow.shared(), &by_addresses) {
            by_address = Some(checked.record_by_address(memory, base, new, (&clock, end), &mut conflicts)?);
        }
        if end == End::InCall {
            checker.has_done();
        }
        then((record, by_address), &clock)?;
        Ok(conflicts)
    }
}
