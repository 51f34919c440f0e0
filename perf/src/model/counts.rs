//! Remote operations of the calls of a window, for any number of ranks, and the bytes that a window
//! keeps. tests/sim_model.rs and tests/sim_costs.rs assert these formulas on simulated nets of 2 to
//! 512 ranks. Imports nothing, so that the tests and the model share this one table.

/// How the remote operations of a call follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Number of signals of every rank; each is sent after the signal of the previous round has
    /// arrived.
    Rounds(u64),
    /// Number of signals that a rank sends one after the other without a wait.
    Burst(u64),
    /// Number of atomics; each is answered before the next one is posted.
    RoundTrips(u64),
}

impl Shape {
    /// Atomics and signals.
    pub(crate) fn operations(self) -> (u64, u64) {
        match self {
            Shape::RoundTrips(atomics) => (atomics, 0),
            Shape::Rounds(signals) | Shape::Burst(signals) => (0, signals),
        }
    }
}

/// A call of which the remote operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Creation of a window, and `free`.
    Creation,
    /// A fence, and a barrier.
    Fence,
    /// `lock_all`, and `unlock_all`.
    LockAll,
    /// Shared lock of another rank, and its unlock.
    LockShared,
    /// First exclusive lock of a process, and the unlock of the last.
    LockExclusive,
    /// A later exclusive lock, and its unlock.
    LockFurther,
    /// `post` to this number of origins, and `complete` to as many targets.
    Post(u64),
    /// `start`, `wait` and flush.
    Local,
}

/// ceil(log2 ranks).
pub(crate) fn rounds(ranks: u64) -> u64 {
    u64::from(ranks.next_power_of_two().trailing_zeros())
}

/// The remote operations of one rank.
pub(crate) fn shape(call: Call, ranks: u64) -> Shape {
    match call {
        Call::Creation | Call::Fence => Shape::Rounds(rounds(ranks)),
        Call::LockAll | Call::LockShared | Call::LockFurther => Shape::RoundTrips(1),
        Call::LockExclusive => Shape::RoundTrips(2),
        Call::Post(members) => Shape::Burst(members),
        Call::Local => Shape::Burst(0),
    }
}

/// Most requests of one rank to the launcher until the job has started.
pub(crate) fn launcher_requests(ranks: u64) -> u64 {
    3 * (3 * u64::from(ranks.max(1).ilog2()) + 10)
}

/// Bytes of a window's control words and directory slot in the job's block of each rank.
pub(crate) fn control_bytes(ranks: u64) -> u64 {
    896 + 128 * rounds(ranks) + 128
}

/// Largest number of bytes that a window keeps in addition to those for each target.
pub(crate) const WINDOW_BYTES: u64 = 1920;

/// Most bytes for each target that a window has contacted.
pub(crate) const TARGET_BYTES: u64 = 128;
