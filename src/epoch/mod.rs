//! The access epoch of a window as a pure state machine: which call is allowed where (MPI §11.5). No I/O, no atomics.

/// The access epoch that a process has open on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// None.
    Closed = 0,
    /// A fence was called; whether it opened an epoch depends on what follows (MPI §11.5.1).
    Fenced = 1,
    /// A fence epoch with operations in it: only a fence ends it.
    Fence = 2,
    /// `lock_all`.
    LockAll = 3,
    /// The window is freed: nothing is allowed.
    Freed = 4,
}

/// The calls that an epoch allows or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A put, get or atomic.
    Operation,
    /// A fence that may open an epoch.
    Fence,
    /// A fence after which no epoch follows (`MPI_MODE_NOSUCCEED`).
    LastFence,
    /// `lock_all`.
    LockAll,
    /// `unlock_all`.
    UnlockAll,
    /// A flush of any kind.
    Flush,
    /// `free`.
    Free,
}

impl State {
    /// The state from its number; numbers that are no state count as closed.
    #[inline]
    pub(crate) const fn from_number(number: u8) -> State {
        match number {
            1 => State::Fenced,
            2 => State::Fence,
            3 => State::LockAll,
            4 => State::Freed,
            _ => State::Closed,
        }
    }

    /// The state after `call`.
    ///
    /// # Errors
    /// The rule that the call breaks; the state stays.
    #[inline]
    pub(crate) const fn after(self, call: Call) -> Result<State, &'static str> {
        use State::{Closed, Fence, Fenced, Freed, LockAll};
        match (call, self) {
            (_, Freed) => Err("the window was freed (MPI §11.2.5)"),
            (Call::Operation, Fenced | Fence) => Ok(Fence),
            (Call::Operation, LockAll) => Ok(LockAll),
            (Call::Operation, Closed) => {
                Err("no access epoch is open: operations go between fences or within lock_all (MPI §11.5)")
            }
            (Call::Fence, Closed | Fenced | Fence) => Ok(Fenced),
            (Call::LastFence, Closed | Fenced | Fence) => Ok(Closed),
            (Call::Fence | Call::LastFence, LockAll) => {
                Err("a fence within a lock_all epoch; call unlock_all first (MPI §11.5.1)")
            }
            (Call::LockAll, Closed | Fenced) => Ok(LockAll),
            (Call::LockAll, Fence) => {
                Err("lock_all within a fence epoch that has operations; end it by a fence first (MPI §11.5.3)")
            }
            (Call::LockAll, LockAll) => Err("lock_all twice; epochs of one window are disjoint (MPI §11.5.3)"),
            (Call::UnlockAll, LockAll) => Ok(Closed),
            (Call::UnlockAll, Closed | Fenced | Fence) => Err("unlock_all without lock_all (MPI §11.5.3)"),
            (Call::Flush, LockAll) => Ok(LockAll),
            (Call::Flush, Closed | Fenced | Fence) => {
                Err("a flush outside a passive-target epoch; open one by lock_all (MPI §11.5.4)")
            }
            (Call::Free, Closed | Fenced) => Ok(Freed),
            (Call::Free, Fence) => {
                Err("free within a fence epoch that has operations; end it by a fence first (MPI §11.2.5)")
            }
            (Call::Free, LockAll) => Err("free within a lock_all epoch; call unlock_all first (MPI §11.2.5)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 5] = [State::Closed, State::Fenced, State::Fence, State::LockAll, State::Freed];

    /// The whole table: for each call, the outcome in Closed, Fenced, Fence, LockAll, Freed.
    #[test]
    fn every_transition_is_as_the_chapter_says() {
        use State::{Closed, Fence, Fenced, Freed, LockAll};
        let table: [(Call, [Option<State>; 5]); 7] = [
            (Call::Operation, [None, Some(Fence), Some(Fence), Some(LockAll), None]),
            (Call::Fence, [Some(Fenced), Some(Fenced), Some(Fenced), None, None]),
            (Call::LastFence, [Some(Closed), Some(Closed), Some(Closed), None, None]),
            (Call::LockAll, [Some(LockAll), Some(LockAll), None, None, None]),
            (Call::UnlockAll, [None, None, None, Some(Closed), None]),
            (Call::Flush, [None, None, None, Some(LockAll), None]),
            (Call::Free, [Some(Freed), Some(Freed), None, None, None]),
        ];
        for (call, outcomes) in table {
            for (state, outcome) in STATES.into_iter().zip(outcomes) {
                assert_eq!(state.after(call).ok(), outcome, "{call:?} in {state:?}");
            }
        }
    }

    #[test]
    fn numbers_and_states_are_one_to_one() {
        for state in STATES {
            assert_eq!(State::from_number(state as u8), state);
        }
    }
}
