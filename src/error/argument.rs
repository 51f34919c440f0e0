//! Why a call refuses an argument: one variant for each rule, with its numbers.

use crate::error::SettingError;
use crate::flavor::Flavor;
use crate::reduce::{BasicType, Op};

/// A side of an operation on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The caller's data.
    Origin,
    /// The caller's buffer for previous values.
    Result,
    /// The target's part of the window.
    Target,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Origin => "origin",
            Side::Result => "result",
            Side::Target => "target",
        })
    }
}

/// Why an argument is invalid: the reason in [`ErrorKind::Argument`](crate::ErrorKind::Argument).
///
/// One enum has all rules, because one call may break rules of several topics: a put may break
/// those of its target, its buffers and its layouts. Programs that branch on the topic match the
/// MPI class, which `ErrorKind::Argument` has in addition to the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// `PROC_NULL` where a rank is needed.
    #[error("PROC_NULL is not a rank of the window")]
    ProcNull,
    /// A rank is listed twice.
    #[error("the list of ranks contains rank {0} twice")]
    ListedTwice(usize),
    /// The caller is not in its own list.
    #[error("the list of ranks {ranks:?} lacks rank {rank}, which makes the call")]
    NotListed {
        /// The caller.
        rank: usize,
        /// The list.
        ranks: Vec<usize>,
    },
    /// Two threads of a process are in collective calls of one set of ranks.
    #[error(
        "another thread of this process is in a barrier of the same job or subset, or creates a window over it; make these \
         calls one after the other, or give each thread a subset of its own (Job::subset_tagged)"
    )]
    ConcurrentCollective,
    /// A key of an info has an illegal value.
    #[error("{key}={value}: {reason}")]
    Hint {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The legal values.
        reason: SettingError,
    },
    /// The hint `transom_atomics` requires atomics by the device where this is impossible.
    #[error(transparent)]
    Atomics(#[from] AtomicsError),
    /// A displacement unit of 0.
    #[error("the displacement unit is 0; it must be at least 1 byte")]
    NoUnit,
    /// A null base for memory that has bytes.
    #[error("the base is null, but the size is {size} bytes")]
    NullBase {
        /// The size.
        size: usize,
    },
    /// Addresses without memory.
    #[error("the {size} bytes at {address:#x} are not memory of this process")]
    NotMemory {
        /// The first address.
        address: usize,
        /// The number of bytes.
        size: usize,
    },
    /// More elements than a size in bytes can express.
    #[error("{count} elements of {size} bytes exceed the address space")]
    TooManyElements {
        /// The number of elements.
        count: usize,
        /// The size of one element in bytes.
        size: usize,
    },
    /// More counters than a rank of a window can have.
    #[error("{number} counters are requested; a rank has at most {most} in a window")]
    TooManyCounters {
        /// The requested number.
        number: usize,
        /// The most counters.
        most: usize,
    },
    /// A wait for one of several counters, with an empty list.
    #[error("the list of counters to wait for is empty")]
    NoCounters,
    /// The parts of a shared window are together larger than an address space.
    #[error(
        "the part of rank {rank} has {size} bytes, and the parts of lower ranks {before} bytes; together they exceed \
         the address space"
    )]
    PartsOverflow {
        /// The first rank whose part does not fit.
        rank: usize,
        /// The bytes of its part.
        size: u64,
        /// The bytes of the parts of lower ranks.
        before: u64,
    },
    /// The machine lacks memory for the parts of its ranks.
    #[error(
        "window {window:x}: its parts on the machine of rank {rank} need {needed} bytes of memory, of which {available} \
         are available"
    )]
    PartsTooLarge {
        /// The window's number in the job.
        window: u64,
        /// The rank that found the shortage.
        rank: usize,
        /// The bytes of all parts there.
        needed: u64,
        /// The bytes that are available.
        available: u64,
    },
    /// Ranks of a shared window do not share memory.
    #[error("ranks {rank} and {other} do not share memory; all ranks of a shared window must be on one node")]
    Apart {
        /// A rank.
        rank: usize,
        /// A rank of another node.
        other: usize,
    },
    /// The segment of a shared window can't be mapped.
    #[error("the memory of the shared window, which rank {rank} has created, can't be mapped")]
    SegmentUnmapped {
        /// The rank that created the memory.
        rank: usize,
    },
    /// The segment of a shared window is shorter than the parts in it.
    #[error("the part of {size} bytes at offset {at} ends after the {limit} bytes of the shared window's memory")]
    SegmentShort {
        /// The offset of this rank's part.
        at: usize,
        /// The bytes of this rank's part.
        size: u64,
        /// The bytes of the window's memory.
        limit: usize,
    },
    /// A region to attach overlaps an attached one.
    #[error("{length} bytes at address {address:#x} overlap the attached region of {other_length} bytes at {other:#x}")]
    AttachedTwice {
        /// The region's address.
        address: usize,
        /// Its length.
        length: usize,
        /// The attached region's address.
        other: u64,
        /// Its length.
        other_length: u64,
    },
    /// No attached region begins at the address.
    #[error("no attached region begins at address {address:#x}")]
    NoRegion {
        /// The address.
        address: usize,
    },
    /// An access that attached regions do not contain.
    #[error("{length} bytes at address {address:#x} are not within regions that rank {rank} has attached")]
    NotAttached {
        /// The target.
        rank: usize,
        /// The address.
        address: u64,
        /// The length of the access.
        length: usize,
    },
    /// An access to a region that was detached during the call.
    #[error("rank {rank} detached the {length} bytes at address {address:#x} while the operation was in flight")]
    Detached {
        /// The target.
        rank: usize,
        /// The address.
        address: u64,
        /// The length of the access.
        length: usize,
    },
    /// A call for dynamic windows on another one.
    #[error("the call requires a dynamic window, and the window's flavor is {0:?}")]
    NotDynamic(Flavor),
    /// The memory of dynamic windows is not shared.
    #[error("the memory of a dynamic window is not shared; access it by put and get")]
    DynamicUnshared,
    /// Load and store do not reach the copy that operations change.
    #[error(
        "in the separate memory model this process can't load and store the public copy of rank {rank}'s part; use put \
         and get"
    )]
    SeparateCopy {
        /// The rank.
        rank: usize,
    },
    /// Load and store do not reach a rank's part.
    #[error(
        "this process can't load and store the part of rank {rank}, because the part is not mapped; use put and get"
    )]
    NotShared {
        /// The rank.
        rank: usize,
    },
    /// A lock on a window that promised to have none.
    #[error("the window was created with the hint no_locks=true, so it can't be locked (MPI-4.1 §12.2.1)")]
    NoLocks,
    /// Assertions that the call does not take.
    #[error("Assert({bits}) has assertions that are not defined for this call (MPI-4.1 §12.5.5)")]
    ForeignAssertions {
        /// The assertions' bits.
        bits: u8,
    },
    /// NOPRECEDE at a fence that operations precede.
    #[error("the assertion NOPRECEDE is wrong: operations of this process precede the fence (MPI-4.1 §12.5.5)")]
    OperationsPrecede,
    /// Items that reach outside of their buffer.
    #[error("the items reach from byte {begin} to byte {end}, but the buffer has {length} bytes")]
    OutsideBuffer {
        /// The first byte.
        begin: i64,
        /// The byte after the last.
        end: i64,
        /// The buffer's length.
        length: usize,
    },
    /// Bytes that are not within an allocation.
    #[error("{length} bytes at offset {at} are outside the allocation of {size} bytes")]
    OutsideAllocation {
        /// The first byte.
        at: usize,
        /// The number of bytes.
        length: usize,
        /// The size of the allocation.
        size: usize,
    },
    /// The type signatures of origin and target differ.
    #[error(
        "the type signatures of origin and target differ in their length or predefined types: the origin has {origin} \
         bytes, the target {target}"
    )]
    Signatures {
        /// The origin's bytes.
        origin: usize,
        /// The target's bytes.
        target: usize,
    },
    /// A side's items overlap each other.
    #[error("{count} items of the {side} datatype have entries that overlap each other")]
    Overlap {
        /// The side.
        side: Side,
        /// The number of items.
        count: usize,
    },
    /// A side of an accumulate does not match the target.
    #[error("the {side} has {length} bytes; it must have {target} bytes, all of {}, like the target", ty.name())]
    Unmatched {
        /// The side.
        side: Side,
        /// Its bytes.
        length: usize,
        /// The target's bytes.
        target: usize,
        /// The target's type.
        ty: BasicType,
    },
    /// Bytes that are no multiple of the type's size.
    #[error("{length} bytes are not a whole number of elements of {}", ty.name())]
    NotWhole {
        /// The number of bytes.
        length: usize,
        /// The type.
        ty: BasicType,
    },
    /// Bytes that are not exactly one element.
    #[error("{length} bytes are not one element of {}, which has {}", ty.name(), ty.size())]
    NotOneElement {
        /// The number of bytes.
        length: usize,
        /// The type.
        ty: BasicType,
    },
    /// A derived type of several predefined ones in an accumulate.
    #[error("the datatype has several predefined types; accumulates require a single one")]
    NotUniform,
    /// The target's datatype has elements of another type than the window.
    #[error("the target's datatype has elements of {}, and the window has elements of {}", .0.name(), .1.name())]
    OtherElements(BasicType, BasicType),
    /// An operation that is not defined on the type.
    #[error("{} is not defined on {}", op.name(), ty.name())]
    Undefined {
        /// The operation.
        op: Op,
        /// The type.
        ty: BasicType,
    },
    /// The call is not defined on the type.
    #[error("the call is not defined on {}", .0.name())]
    UndefinedType(BasicType),
    /// The type does not fit in 64 bits.
    #[error("a value of type {} does not fit in 64 bits", .0.name())]
    TooWide(BasicType),
    /// An operation that does not combine.
    #[error("the operation {0} does not combine the values of two ranks; use an operation such as Sum")]
    CombinesNothing(Op),
    /// The data of two ranks differ in length.
    #[error("this rank has {here} elements, rank {rank} has {there}; the numbers must be equal")]
    LengthsDiffer {
        /// The caller's elements.
        here: u64,
        /// The other rank's.
        there: u64,
        /// The other rank.
        rank: usize,
    },
    /// A subarray's lists differ in length, or are empty.
    #[error(
        "the numbers of sizes ({sizes}), subsizes ({subsizes}) and starts ({starts}) must be equal, and at least 1"
    )]
    Dimensions {
        /// The number of sizes.
        sizes: usize,
        /// The number of subsizes.
        subsizes: usize,
        /// The number of starts.
        starts: usize,
    },
    /// A subarray that is not within the array.
    #[error(
        "dimension {dimension} has {size} elements, too few for a subarray of {subsize} elements that starts at \
         element {start}"
    )]
    Subarray {
        /// The dimension.
        dimension: usize,
        /// The array's elements.
        size: usize,
        /// The subarray's elements.
        subsize: usize,
        /// Its first element.
        start: usize,
    },
    /// A byte or a bound of a layout is outside the range of offsets.
    #[error("a byte or a bound of the datatype is at an offset outside {} to {}", i64::MIN, i64::MAX)]
    BeyondOffsets,
    /// A layout with more data than an offset can address.
    #[error("the datatype has more than {} bytes of data", i64::MAX)]
    TooMuchData,
    /// A layout of too many strips.
    #[error("the layout has {strips} runs of equal blocks at equal distances; the limit is {limit}")]
    TooManyStrips {
        /// The strips.
        strips: usize,
        /// The most that a layout can have.
        limit: usize,
    },
}

/// Why the device can't perform the atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AtomicsError {
    /// All ranks share one node.
    #[error(
        "TRANSOM_ATOMICS or the hint transom_atomics requires atomics by nic, but all ranks share one node and no net \
         is open"
    )]
    OneNode,
    /// The provider lacks atomics.
    #[error(
        "TRANSOM_ATOMICS or the hint transom_atomics requires atomics by nic, but the provider does not perform all \
         atomics"
    )]
    Provider,
}
