//! The exposure epochs of a part. `MPI_WIN_COMPLETE` completes operations at the origin only; at
//! the target they are complete when the epoch ends. Epochs of several windows of a rank may
//! overlap, so a record has the number of the epoch, and the part has the releases with which its
//! last epochs ended.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{EXPOSURES, LINE, OF_OWNER, OWNER, Shadow, limited};

/// The number of exposure epochs of the part so far.
const COUNT: usize = EXPOSURES;
/// The ends of the last epochs: the number of the owner's release with which the epoch ended, or 0
/// while it lasts.
const FIRST: usize = EXPOSURES + 8;
const ENDS: u64 = 8;
/// The bytes of these words, in whole cache lines.
pub(super) const BYTES: usize = 2 * LINE;

impl<'m> Shadow<'m> {
    /// An exposure epoch of the part begins.
    pub(crate) fn begin_exposure(self) {
        let epoch = self.get(COUNT) + 1;
        // The post of the epoch orders these before the accesses of its origins. Release: whoever
        // finds the place of an older epoch in use again also finds the number of the epoch before.
        self.end_of(epoch).store(0, Ordering::Release);
        self.set(COUNT, epoch);
    }

    /// The last exposure epoch of the part ends with this release of the part's rank, which comes
    /// next.
    pub(crate) fn end_exposure(self, release: u64) {
        // The release makes it visible. Release: as in `begin_exposure`.
        self.end_of(self.get(COUNT)).store(release, Ordering::Release);
    }

    /// The number of the release with which an exposure epoch ended.
    fn end_of(self, epoch: u64) -> &'m AtomicU64 {
        self.word(FIRST + usize::try_from(epoch % ENDS).unwrap_or(0) * 8)
    }

    /// The rank whose releases tell that an access is complete, and the number of releases that
    /// ranks must exceed that know it. `ended`: as in a record. `None`: the exposure epoch of the
    /// access lasts.
    #[inline]
    pub(super) fn completed_by(self, ended: u64, origin: usize) -> Option<(usize, u64)> {
        if ended & OF_OWNER == 0 { Some((origin, ended)) } else { self.end_of_exposure(ended & (OF_OWNER - 1)) }
    }

    #[cold]
    fn end_of_exposure(self, epoch: u64) -> Option<(usize, u64)> {
        let owner = self.count(OWNER);
        // Acquire: pairs with the Release of the stores above, so that the number is read later.
        let end = self.end_of(epoch).load(Ordering::Acquire);
        // The end of an older epoch is forgotten, or will be as soon as the next epoch begins. It
        // counts as known to every rank that knows of any release.
        if self.get(COUNT).saturating_sub(epoch) >= ENDS - 1 {
            return Some((owner, 0));
        }
        Some((owner, end.checked_sub(1)?))
    }

    /// The end of accesses in a record: the exposure epoch of the part ends.
    pub(crate) fn ends_with_exposure(self) -> u64 {
        OF_OWNER | limited(self.get(COUNT))
    }
}
