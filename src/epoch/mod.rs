//! The epochs of a window at one process as pure state machines: the calls that each state allows
//! (MPI-4.1 §12.5). No I/O, no atomics. Access and exposure epochs are independent of each other,
//! except for the combinations that §12.5 forbids.

mod word;

pub(crate) use word::EpochWord;

/// The access epoch that a process has open on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Access {
    /// No access epoch.
    Closed = 0,
    /// A fence was called. The next call decides whether it opened an epoch (MPI-4.1 §12.5.1).
    Fenced = 1,
    /// A fence epoch with operations, which only a fence ends.
    Fence = 2,
    /// Between `lock_all` and `unlock_all`.
    LockAll = 3,
    /// One target or several are locked.
    Lock = 4,
    /// Between `start` and `complete`.
    Start = 5,
    /// The window is freed: no call is allowed.
    Freed = 6,
    /// A fence epoch with one operation, which may still be refused. Otherwise as `Fence`.
    FirstOperation = 7,
}

/// The exposure epoch that `post` opens at a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exposure {
    /// No exposure epoch.
    Closed = 0,
    /// Between `post` and `wait`.
    Posted = 1,
}

/// The calls whose legality depends on the epochs. `held`: this process has the call's target
/// locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A put, get or accumulate.
    Operation,
    /// The refusal of an operation that these rules allowed, for example because of its range.
    Refused,
    /// A request-based put, get or accumulate.
    Request,
    /// A fence that may open an epoch.
    Fence,
    /// A fence after which no epoch follows (`MPI_MODE_NOSUCCEED`).
    LastFence,
    /// `lock_all`.
    LockAll,
    /// `unlock_all`.
    UnlockAll,
    /// `lock` of one target.
    Lock { held: bool, own: bool },
    /// `unlock` of one target. `last`: no other target is locked.
    Unlock { held: bool, last: bool },
    /// A flush of one target.
    Flush { held: bool },
    /// A flush of all targets.
    FlushAll,
    /// `start`.
    Start,
    /// `complete`.
    Complete,
    /// `post`. `own_locked`: this process has its own part locked, as `lock_all` does.
    Post { own_locked: bool },
    /// `wait`, or `test` that has succeeded.
    Wait,
    /// `free`.
    Free,
}

/// Both epochs of a process.
pub(crate) type State = (Access, Exposure);

/// The state after `call`.
///
/// # Errors
/// The rule that the call breaks; the state is unchanged.
#[inline]
pub(crate) const fn after(state: State, call: Call) -> Result<State, &'static str> {
    let (access, exposure) = state;
    if matches!(access, Access::Freed) {
        return Err("the window was freed (MPI-4.1 §12.2.5)");
    }
    match call {
        Call::Operation | Call::Refused | Call::Request | Call::Flush { .. } | Call::FlushAll => {
            match within(state, call) {
                Ok(access) => Ok((access, exposure)),
                Err(reason) => Err(reason),
            }
        }
        Call::Post { .. } | Call::Wait => match expose(state, call) {
            Ok(exposure) => Ok((access, exposure)),
            Err(reason) => Err(reason),
        },
        _ => match switch(state, call) {
            Ok(access) => Ok((access, exposure)),
            Err(reason) => Err(reason),
        },
    }
}

/// Calls that open no epoch, except that a first operation after a fence opens a fence epoch.
#[inline]
const fn within(state: State, call: Call) -> Result<Access, &'static str> {
    use Access::{Fence, Fenced, FirstOperation, Lock, LockAll, Start};
    match (call, state.0) {
        (Call::Operation, Fenced) => Ok(FirstOperation),
        // In a program of one thread the first operation was not refused.
        (Call::Operation, FirstOperation | Fence) => Ok(Fence),
        (Call::Refused, FirstOperation) => Ok(Fenced),
        (Call::Refused, access) => Ok(access),
        (Call::Operation | Call::Request | Call::Flush { .. } | Call::FlushAll, LockAll) => Ok(LockAll),
        // The window checks the targets: that they are locked, or in the group of `start`.
        (Call::Operation | Call::Request | Call::FlushAll, Lock) => Ok(Lock),
        (Call::Operation, Start) => Ok(Start),
        (Call::Flush { held: true }, Lock) => Ok(Lock),
        (Call::Flush { held: false }, Lock) => {
            Err("a flush of a target that is not locked; lock it first (MPI-4.1 §12.5.4)")
        }
        (Call::Request, Fenced | FirstOperation | Fence | Start) => {
            Err("a request-based operation outside a passive-target epoch (MPI-4.1 §12.3.5)")
        }
        (Call::Flush { .. } | Call::FlushAll, _) => {
            Err("a flush outside a passive-target epoch; open one by lock or lock_all (MPI-4.1 §12.5.4)")
        }
        _ => Err(
            "no access epoch is open: operations go between fences, between start and complete, or within a lock (MPI-4.1 §12.5)",
        ),
    }
}

/// Calls that open or end an access epoch.
#[inline]
const fn switch(state: State, call: Call) -> Result<Access, &'static str> {
    use Access::{Closed, Fence, Fenced, FirstOperation, Freed, Lock, LockAll, Start};
    match (call, state.0) {
        (Call::Fence | Call::LastFence | Call::Free, _) if matches!(state.1, Exposure::Posted) => Err(match call {
            Call::Free => "free within an exposure epoch; call wait first (MPI-4.1 §12.2.5)",
            _ => "a fence within an exposure epoch; call wait first (MPI-4.1 §12.5.1)",
        }),
        (Call::Fence, Closed | Fenced | FirstOperation | Fence) => Ok(Fenced),
        (Call::LastFence, Closed | Fenced | FirstOperation | Fence) => Ok(Closed),
        (Call::Fence | Call::LastFence, LockAll | Lock) => {
            Err("a fence within a passive-target epoch; unlock first (MPI-4.1 §12.5.1)")
        }
        (Call::Fence | Call::LastFence, Start) => {
            Err("a fence within an epoch of start; call complete first (MPI-4.1 §12.5.1)")
        }
        (Call::LockAll | Call::Lock { .. } | Call::Start, FirstOperation | Fence) => {
            Err("a call within a fence epoch that has operations; end the epoch by a fence first: \
             epochs of one window are disjoint (MPI-4.1 §12.5)")
        }
        (Call::LockAll, Closed | Fenced) if matches!(state.1, Exposure::Posted) => Err(
            "lock_all, which locks this process's own part, within its exposure epoch; call wait first (MPI-4.1 §12.5.3)",
        ),
        (Call::LockAll, Closed | Fenced) => Ok(LockAll),
        (Call::LockAll, LockAll) => Err("lock_all twice; epochs of one window are disjoint (MPI-4.1 §12.5.3)"),
        (Call::LockAll, Lock) => Err("lock_all while a target is locked; unlock it first (MPI-4.1 §12.5.3)"),
        (Call::LockAll | Call::Lock { .. }, Start) => {
            Err("a lock within an epoch of start; call complete first (MPI-4.1 §12.5.3)")
        }
        (Call::UnlockAll, LockAll) => Ok(Closed),
        (Call::UnlockAll, _) => Err("unlock_all without lock_all (MPI-4.1 §12.5.3)"),
        (Call::Lock { own: true, .. }, _) if matches!(state.1, Exposure::Posted) => {
            Err("a lock of this process's own part within its exposure epoch; call wait first (MPI-4.1 §12.5.3)")
        }
        (Call::Lock { held: true, .. }, _) => Err("the target is locked by this process already (MPI-4.1 §12.5.3)"),
        (Call::Lock { held: false, .. }, Closed | Fenced | Lock) => Ok(Lock),
        (Call::Lock { .. }, LockAll) => Err("a lock within a lock_all epoch; call unlock_all first (MPI-4.1 §12.5.3)"),
        (Call::Unlock { held: true, last }, Lock) => Ok(if last { Closed } else { Lock }),
        (Call::Unlock { .. }, _) => Err("unlock of a target that is not locked (MPI-4.1 §12.5.3)"),
        (Call::Start, Closed | Fenced) => Ok(Start),
        (Call::Start, Start) => Err("start twice; call complete first (MPI-4.1 §12.5.2)"),
        (Call::Start, LockAll | Lock) => Err("start within a passive-target epoch; unlock first (MPI-4.1 §12.5.2)"),
        (Call::Complete, Start) => Ok(Closed),
        (Call::Complete, _) => Err("complete without start (MPI-4.1 §12.5.2)"),
        (Call::Free, Closed | Fenced) => Ok(Freed),
        (Call::Free, FirstOperation | Fence) => {
            Err("free within a fence epoch that has operations; end it by a fence first (MPI-4.1 §12.2.5)")
        }
        (Call::Free, LockAll | Lock) => Err("free within a passive-target epoch; unlock first (MPI-4.1 §12.2.5)"),
        (Call::Free, Start) => Err("free within an epoch of start; call complete first (MPI-4.1 §12.2.5)"),
        _ => Err("the window was freed (MPI-4.1 §12.2.5)"),
    }
}

/// Calls that open or end an exposure epoch.
#[inline]
const fn expose(state: State, call: Call) -> Result<Exposure, &'static str> {
    match (call, state) {
        (Call::Post { .. }, (_, Exposure::Posted)) => Err("post twice; call wait first (MPI-4.1 §12.5.2)"),
        (Call::Post { own_locked: true }, _) => {
            Err("post while this process has its own part locked; unlock it first (MPI-4.1 §12.5.3)")
        }
        (Call::Post { .. }, _) => Ok(Exposure::Posted),
        (_, (_, Exposure::Posted)) => Ok(Exposure::Closed),
        _ => Err("wait or test without post (MPI-4.1 §12.5.2)"),
    }
}

/// The state as one number, for an atomic.
#[inline]
pub(crate) const fn number(state: State) -> u8 {
    state.0 as u8 | (state.1 as u8) << 7
}

/// The state of a number that [`number`] gave.
#[inline]
pub(crate) const fn from_number(number: u8) -> State {
    let access = match number & 0x7f {
        0 => Access::Closed,
        1 => Access::Fenced,
        2 => Access::Fence,
        3 => Access::LockAll,
        4 => Access::Lock,
        5 => Access::Start,
        6 => Access::Freed,
        _ => Access::FirstOperation,
    };
    (access, if number & 0x80 == 0 { Exposure::Closed } else { Exposure::Posted })
}

#[cfg(test)]
mod tests;
