//! A window's epochs and locks at one process as one word, the books: both epochs, the number of
//! locked targets, and the number of exclusive locks. Every change is one atomic exchange of the
//! word, so that threads that synchronize at the same time need no lock, and a waiting thread holds
//! nothing. Pure: the window owns the atomic.

use super::{Access, Exposure, State, from_number, number};

/// The books: 8 bits for the state of the epochs, 28 for the number of locked targets, 28 for the
/// number of exclusive locks that the announcement in the master word covers. An exclusive lock by
/// a target's bias counts as a locked target alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Books(pub(crate) u64);

const LOCK: u64 = 1 << 8;
const EXCLUSIVE: u64 = 1 << 36;
const STATE: u64 = LOCK - 1;

impl Books {
    /// No epoch is open and no target is locked.
    pub(crate) const CLOSED: Books = Books::of((Access::Closed, Exposure::Closed));
    /// One target is locked, without an announcement.
    pub(crate) const SINGLE: Books = Books(Books::of((Access::Lock, Exposure::Closed)).0 + LOCK);
    /// One target is locked, exclusively after an announcement.
    pub(crate) const ANNOUNCED: Books = Books(Books::SINGLE.0 + EXCLUSIVE);

    /// The books of a state without locks.
    pub(crate) const fn of(state: State) -> Books {
        Books(number(state) as u64)
    }

    /// Both epochs.
    #[inline]
    pub(crate) const fn state(self) -> State {
        let [state, ..] = self.0.to_le_bytes();
        from_number(state)
    }

    /// Another state, with the same locks.
    #[inline]
    pub(crate) const fn with(self, state: State) -> Books {
        Books(self.0 & !STATE | number(state) as u64)
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

    pub(crate) const fn with_lock(self) -> Books {
        Books(self.0 + LOCK)
    }

    pub(crate) const fn without_lock(self) -> Books {
        Books(self.0 - LOCK)
    }

    pub(crate) const fn with_exclusive(self) -> Books {
        Books(self.0 + EXCLUSIVE)
    }

    pub(crate) const fn without_exclusive(self) -> Books {
        Books(self.0 - EXCLUSIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_state_do_not_change_each_other() {
        let posted = (Access::Lock, Exposure::Posted);
        let books = Books::ANNOUNCED.with_lock().with_lock().with_exclusive().with(posted);
        assert_eq!((books.state(), books.locks(), books.exclusives()), (posted, 3, 2));
        let books = books.without_exclusive().without_lock().with((Access::Lock, Exposure::Closed));
        assert_eq!((books.locks(), books.exclusives()), (2, 1));
        assert_eq!(books.without_lock(), Books::ANNOUNCED);
        assert_eq!(Books::ANNOUNCED.without_exclusive(), Books::SINGLE);
        let closed = Books::SINGLE.without_lock().with((Access::Closed, Exposure::Closed));
        assert_eq!((closed, closed.0), (Books::CLOSED, 0));
    }
}
