//! A window's epochs and locks at one process as one word: both epochs, the number of locked
//! targets, and the number of exclusive locks. Every change is one atomic exchange of the word.
//! Threads that synchronize at the same time therefore need no lock, and a waiting thread holds
//! none. Pure: the window owns the atomic.

use super::{Access, Exposure, State, from_number, number};

/// The word of the epochs: 8 bits for the state of the epochs, 28 for the number of locked targets,
/// 28 for the number of exclusive locks that the announcement in the master word covers. An
/// exclusive lock by a target's bias counts as a locked target alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochWord(pub(crate) u64);

const LOCK: u64 = 1 << 8;
const EXCLUSIVE: u64 = 1 << 36;
const STATE: u64 = LOCK - 1;

impl EpochWord {
    /// No epoch is open and no target is locked.
    pub(crate) const CLOSED: EpochWord = EpochWord::of((Access::Closed, Exposure::Closed));
    /// One target is locked, without an announcement.
    pub(crate) const SINGLE: EpochWord = EpochWord(EpochWord::of((Access::Lock, Exposure::Closed)).0 + LOCK);
    /// One target is locked, exclusively after an announcement.
    pub(crate) const ANNOUNCED: EpochWord = EpochWord(EpochWord::SINGLE.0 + EXCLUSIVE);

    /// The epoch word of a state without locks.
    pub(crate) const fn of(state: State) -> EpochWord {
        EpochWord(number(state) as u64)
    }

    /// Both epochs.
    #[inline]
    pub(crate) const fn state(self) -> State {
        let [state, ..] = self.0.to_le_bytes();
        from_number(state)
    }

    /// Another state, with the same locks.
    #[inline]
    pub(crate) const fn with(self, state: State) -> EpochWord {
        EpochWord(self.0 & !STATE | number(state) as u64)
    }

    /// The number of locked targets. A lock counts when it is granted, and not while a thread waits
    /// for it.
    pub(crate) const fn locks(self) -> u64 {
        (self.0 & (EXCLUSIVE - 1)) / LOCK
    }

    /// The number of announced exclusive locks, including those that threads wait for under the
    /// same announcement.
    pub(crate) const fn exclusives(self) -> u64 {
        self.0 / EXCLUSIVE
    }

    pub(crate) const fn with_lock(self) -> EpochWord {
        EpochWord(self.0 + LOCK)
    }

    pub(crate) const fn without_lock(self) -> EpochWord {
        EpochWord(self.0 - LOCK)
    }

    pub(crate) const fn with_exclusive(self) -> EpochWord {
        EpochWord(self.0 + EXCLUSIVE)
    }

    pub(crate) const fn without_exclusive(self) -> EpochWord {
        EpochWord(self.0 - EXCLUSIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_state_do_not_change_each_other() {
        let posted = (Access::Lock, Exposure::Posted);
        let word = EpochWord::ANNOUNCED.with_lock().with_lock().with_exclusive().with(posted);
        assert_eq!((word.state(), word.locks(), word.exclusives()), (posted, 3, 2));
        let word = word.without_exclusive().without_lock().with((Access::Lock, Exposure::Closed));
        assert_eq!((word.locks(), word.exclusives()), (2, 1));
        assert_eq!(word.without_lock(), EpochWord::ANNOUNCED);
        assert_eq!(EpochWord::ANNOUNCED.without_exclusive(), EpochWord::SINGLE);
        let closed = EpochWord::SINGLE.without_lock().with((Access::Closed, Exposure::Closed));
        assert_eq!((closed, closed.0), (EpochWord::CLOSED, 0));
    }
}
