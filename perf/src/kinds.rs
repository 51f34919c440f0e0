//! The tests by name, with their properties.

use clap::ValueEnum;

/// The tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Test {
    /// Time of a put and its completion.
    PutLatency,
    /// Time of a get and its completion.
    GetLatency,
    /// Fetch-and-add of 8 bytes.
    FopLatency,
    /// Compare-and-swap of 8 bytes.
    CasLatency,
    /// Accumulate of doubles by SUM and its completion.
    Accumulate,
    /// Put of 8-byte blocks to every other 8 bytes (a vector datatype) and its completion; sizes
    /// are those of the data.
    StridedPut,
    /// Put with a request, and the wait for it; its floor is the plain put and flush.
    RequestPut,
    /// Get with a request, and the wait for it; its floor is the plain get in a scope.
    RequestGet,
    /// Lock and unlock, exclusive and shared, and lock_all and unlock_all, without contention.
    Lock,
    /// A fence with one put of 8 bytes.
    FenceLatency,
    /// Post, start, one put of 8 bytes, complete, wait.
    Pscw,
    /// A notified put of 8 bytes, for which the target waits, and a notified put back.
    NotifyPingpong,
    /// Bandwidth of puts, -W of them before one completion.
    PutBw,
    /// Bandwidth of gets, -W of them before one completion.
    GetBw,
    /// Operations while the target computes and makes no call; --grid measures all 36 cases.
    Passive,
    /// The bare operations of the machine without the library.
    Floor,
    /// All ranks: rate of puts of 8 bytes to the right neighbour, -W of them before a flush.
    PutMr,
    /// All ranks: rate of gets of 8 bytes from the right neighbour, -W of them before their
    /// completion.
    GetMr,
    /// All ranks: fetch-and-add on one word of rank 0.
    FopHot,
    /// All ranks: fetch-and-add on a word of the right neighbour, which no other rank uses.
    FopSpread,
    /// All ranks: compare-and-swap on one word of rank 0. Each rank expects the value that its
    /// previous operation returned.
    CasHot,
    /// All ranks: accumulate by SUM on the same 8 doubles of rank 0.
    AccumulateHot,
    /// All ranks: exclusive lock of rank 0, get, put of the incremented value, unlock.
    LockHot,
    /// All ranks: exclusive lock of the right neighbour, get, put of the incremented value, unlock;
    /// no other rank locks this neighbour.
    LockSpread,
    /// All ranks: bandwidth of puts to the right neighbour, -W of them before a flush.
    PutMbw,
    /// All ranks: bandwidth of gets from the right neighbour, -W of them before their completion.
    GetMbw,
    /// All ranks: a put of 8 bytes to the right neighbour and a fence.
    Fence,
    /// All ranks: post to the left neighbour; start, put of 8 bytes and complete to the right one;
    /// wait.
    PscwRing,
    /// All ranks: notified puts of 8 bytes to the right neighbour, -W of them before a flush.
    NotifyRate,
    /// All ranks: a notified put of 8 bytes to the right neighbour, and the wait for the notice of
    /// the left neighbour; the time is that of one direction.
    NotifyLatency,
    /// All ranks: a put to each rank and a fence; sizes are those of one put.
    Alltoall,
    /// All ranks: accumulates of 1 on random words of random ranks; sizes are those of a rank's
    /// table.
    Gups,
    /// All ranks: creation and freeing of a window; sizes are those of a rank's part.
    WindowCreate,
    /// All ranks: a put to the right neighbour, computation that takes about as long, and a flush.
    Overlap,
}

/// The unit of a test's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Microseconds for one operation.
    Latency,
    /// Millions of operations a second, of all ranks together.
    Rate,
    /// 10^6 bytes a second, of all ranks together.
    Bandwidth,
}

impl Unit {
    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Unit::Latency => "us",
            Unit::Rate => "Mop/s",
            Unit::Bandwidth => "MB/s",
        }
    }
}

/// Properties of a test of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllRanksProperties {
    pub(crate) unit: Unit,
    /// Smallest and largest size by default, in bytes.
    pub(crate) sizes: (usize, usize),
    /// Whether -m changes the sizes.
    pub(crate) is_sized: bool,
    pub(crate) floor: &'static str,
}

impl Test {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The properties of a test in which all ranks take part.
    pub(crate) fn all_ranks_properties(self) -> Option<AllRanksProperties> {
        use Unit::{Bandwidth, Latency, Rate};
        let sized = |unit, sizes, floor| Some(AllRanksProperties { unit, sizes, is_sized: true, floor });
        let word = |unit, floor| Some(AllRanksProperties { unit, sizes: (8, 8), is_sized: false, floor });
        match self {
            Test::PutMr => sized(Rate, (8, 8), "stores to the right neighbour's mapped memory"),
            Test::GetMr => sized(Rate, (8, 8), "loads from the right neighbour's mapped memory"),
            Test::FopHot => word(Rate, "an atomic add of the CPU (lock xadd) on one word"),
            Test::FopSpread => word(Rate, "an atomic add of the CPU on a word of the right neighbour"),
            Test::CasHot => word(Rate, "a compare-and-exchange of the CPU on one word"),
            Test::AccumulateHot => word(Rate, "a spin lock and eight adds"),
            Test::LockHot => word(Rate, "a spin lock, a load and a store"),
            Test::LockSpread => word(Rate, "a spin lock of the right neighbour, a load and a store"),
            Test::PutMbw => sized(Bandwidth, (65536, 1 << 20), "memcpy to the right neighbour's mapped memory"),
            Test::GetMbw => sized(Bandwidth, (65536, 1 << 20), "memcpy from the right neighbour's mapped memory"),
            Test::Fence => word(Latency, "a store, and a barrier of flags by dissemination"),
            Test::PscwRing => word(Latency, "a flag to the left, a store and a flag to the right"),
            Test::NotifyRate => word(Rate, "a store and an atomic add at the right neighbour"),
            Test::NotifyLatency => word(Latency, "a store and a flag to the right, and the wait for one from the left"),
            Test::Alltoall => sized(Bandwidth, (64, 4096), "memcpy to each rank, and a barrier of flags"),
            Test::Gups => sized(Rate, (1 << 20, 1 << 20), "atomic adds of the CPU on random words of random ranks"),
            Test::WindowCreate => sized(Latency, (4096, 4096), "private memory, between two barriers of flags"),
            Test::Overlap => sized(Latency, (1 << 20, 1 << 20), "memcpy, then the same computing"),
            _ => None,
        }
    }

    /// Whether all ranks take part in the test.
    pub(crate) fn is_of_all_ranks(self) -> bool {
        self.all_ranks_properties().is_some()
    }

    /// Whether the table is in MB/s.
    pub(crate) fn is_bandwidth(self) -> bool {
        matches!(self, Test::PutBw | Test::GetBw)
    }

    /// The unit of the table.
    pub(crate) fn unit(self) -> Unit {
        let between_two = if self.is_bandwidth() { Unit::Bandwidth } else { Unit::Latency };
        self.all_ranks_properties().map_or(between_two, |test| test.unit)
    }

    /// Whether there is one size only.
    pub(crate) fn is_word(self) -> bool {
        use Test::{CasLatency, FenceLatency, FopLatency, Lock, NotifyPingpong, Pscw};
        let word = matches!(self, FopLatency | CasLatency | FenceLatency | Lock | Pscw | NotifyPingpong);
        word || self.all_ranks_properties().is_some_and(|test| !test.is_sized)
    }

    /// Whether sizes are of whole words of 8 bytes.
    pub(crate) fn is_of_words(self) -> bool {
        matches!(self, Test::Accumulate | Test::StridedPut) || self.is_of_all_ranks()
    }

    /// Whether `-s` changes the test.
    pub(crate) fn takes_synchronization(self) -> bool {
        use Test::{FenceLatency, Floor, Lock, NotifyPingpong, Passive, Pscw, RequestGet, RequestPut};
        !matches!(self, FenceLatency | Pscw | NotifyPingpong | Lock | RequestPut | RequestGet | Passive | Floor)
            && !self.is_of_all_ranks()
    }

    /// A description of the floor, if it is not the bare form of the operation.
    pub(crate) fn floor(self) -> Option<&'static str> {
        Some(match self {
            test if test.is_of_all_ranks() => return test.all_ranks_properties().map(|test| test.floor),
            Test::Accumulate => "a vector add loop over the same memory",
            Test::StridedPut => "a copy loop to the same memory",
            Test::RequestPut => "the plain put and flush of the library",
            Test::RequestGet => "the plain get of the library in a scope, whose end completes it",
            Test::Lock => "one atomic add and one atomic subtract on the other process's memory",
            Test::FenceLatency => "a barrier of two flags",
            Test::Pscw => "a flag there, a store and a flag back",
            Test::NotifyPingpong => {
                "a write that the target notices there, and one back, without an answer for the origin"
            }
            _ => return None,
        })
    }
}
