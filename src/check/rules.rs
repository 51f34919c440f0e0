//! The rules of conflicts: which accesses to the same bytes conflict if neither is ordered before
//! the other (MPI-4.1 §12.7). Pure.

use std::fmt;

use crate::reduce::{BasicType, Op};

/// A call that accesses a window and has buffers at the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Call {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
}

impl Call {
    /// Every call, in the order of their numbers in a record.
    const ALL: [Call; 6] =
        [Call::Put, Call::Get, Call::Accumulate, Call::GetAccumulate, Call::FetchAndOp, Call::CompareAndSwap];

    fn number(self) -> u32 {
        u32::from(self as u8)
    }

    fn from_number(number: u8) -> Call {
        Call::ALL.get(usize::from(number)).copied().unwrap_or(Call::Put)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Put => "put",
            Call::Get => "get",
            Call::Accumulate => "accumulate",
            Call::GetAccumulate => "get_accumulate",
            Call::FetchAndOp => "fetch_and_op",
            Call::CompareAndSwap => "compare_and_swap",
        })
    }
}

/// The number of forms of accesses.
pub(super) const FORMS: usize = 10;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put,
    /// A load of the owner, through this library.
    Load,
    /// A store of the owner, through this library.
    Store,
    /// An atomic of the program's language; `written`: it may change the word.
    Atomic {
        written: bool,
    },
    Combine {
        call: Call,
        /// None for compare-and-swap.
        op: Option<Op>,
        ty: BasicType,
    },
    /// The use of a buffer at the origin by an operation.
    Buffer {
        call: Call,
        written: bool,
    },
}

/// Why two accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// One of them changes the bytes.
    Overlap,
    /// Accumulates on different predefined types, or on elements that overlap in part.
    Types,
    /// Accumulates with different operations.
    Operations,
    /// A buffer of an operation that is not complete is used by another; one of them changes it.
    Buffers,
}

impl Kind {
    /// The use of a buffer at the origin by an operation of this kind.
    pub(super) fn buffer(self, written: bool) -> Kind {
        let call = match self {
            Kind::Get => Call::Get,
            Kind::Combine { call, .. } | Kind::Buffer { call, .. } => call,
            Kind::Put | Kind::Load | Kind::Store | Kind::Atomic { .. } => Call::Put,
        };
        Kind::Buffer { call, written }
    }

    /// Whether the bytes remain as they are.
    #[inline]
    pub(crate) fn only_reads(self) -> bool {
        matches!(
            self,
            Kind::Get
                | Kind::Load
                | Kind::Atomic { written: false }
                | Kind::Combine { op: Some(Op::NoOp), .. }
                | Kind::Buffer { written: false, .. }
        )
    }

    /// Whether the access belongs to the accumulate family, whose accesses are atomic with each
    /// other.
    pub(super) fn combines(self) -> bool {
        matches!(self, Kind::Combine { .. })
    }

    /// Whether this is an accumulate without a result.
    pub(crate) fn is_accumulate(self) -> bool {
        matches!(self, Kind::Combine { call: Call::Accumulate, .. })
    }

    /// Whether an accumulate returns the previous value.
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Kind::Combine { call: Call::GetAccumulate | Call::FetchAndOp | Call::CompareAndSwap, .. })
    }

    /// Whether the operation is complete at the target when its result has arrived. If it also
    /// changes the target, the arrival says nothing of the change (MPI-4.1 §12.3.5).
    pub(crate) fn ends_with_result(self) -> bool {
        let fetches = matches!(self, Kind::Get | Kind::Combine { call: Call::GetAccumulate | Call::FetchAndOp, .. });
        fetches && self.only_reads()
    }

    /// The number of the form of an access, less than [`FORMS`]. Accesses of one form are made by
    /// one call.
    #[inline]
    pub(crate) fn form(self) -> usize {
        match self {
            Kind::Load => 6,
            Kind::Store => 7,
            Kind::Atomic { written } => 8 + usize::from(written),
            Kind::Put => 0,
            Kind::Get => 1,
            Kind::Combine { call, .. } | Kind::Buffer { call, .. } => usize::from(call as u8),
        }
    }

    /// The kind as a number of 16 bits that is not 0, which [`Kind::decode`] reads: form, call,
    /// operation and type.
    #[inline]
    pub(crate) fn encode(self) -> u32 {
        match self {
            Kind::Get => GET,
            Kind::Put => 2,
            Kind::Load => 3,
            Kind::Store => 4,
            Kind::Combine { call, op, ty } => {
                let op = op.map_or(0, |op| op.number() + 1);
                COMBINE | call.number() << CALL | u32::from(op) << OP | u32::from(ty.number()) << TYPE
            }
            Kind::Buffer { call, written } => 6 | call.number() << CALL | u32::from(written) << OP,
            Kind::Atomic { written } => 7 | u32::from(written) << OP,
        }
    }

    #[inline]
    pub(super) fn decode(word: u32) -> Kind {
        let [call, op, ty] = [word >> CALL & 7, operation(word), word >> TYPE & 63].map(|it| it.to_le_bytes()[0]);
        match word & FORM {
            GET => Kind::Get,
            2 => Kind::Put,
            3 => Kind::Load,
            4 => Kind::Store,
            COMBINE => Kind::Combine {
                call: Call::from_number(call),
                op: op.checked_sub(1).and_then(Op::from_number),
                ty: BasicType::from_number(ty).unwrap_or(BasicType::Byte),
            },
            7 => Kind::Atomic { written: op != 0 },
            _ => Kind::Buffer { call: Call::from_number(call), written: op != 0 },
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::Get => f.write_str("get"),
            Kind::Put => f.write_str("put"),
            Kind::Load => f.write_str("load"),
            Kind::Store => f.write_str("store"),
            Kind::Atomic { written: false } => f.write_str("atomic load"),
            Kind::Atomic { written: true } => f.write_str("atomic store"),
            Kind::Buffer { call, .. } => write!(f, "{call}"),
            Kind::Combine { call, op: Some(op), ty } => write!(f, "{call} ({op}, {ty})"),
            Kind::Combine { call, op: None, ty } => write!(f, "{call} ({ty})"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Overlap => "one of two concurrent accesses changes bytes of the other (MPI-4.1 §12.7)",
            Rule::Types => "concurrent accumulates differ in their predefined type or element (MPI-4.1 §12.7.1)",
            Rule::Operations => {
                "concurrent accumulates differ in their operation, and none is MPI_NO_OP (accumulate_ops, MPI-4.1 §12.2.1)"
            }
            Rule::Buffers => {
                "a buffer belongs to an operation until the operation is complete at the origin (MPI-4.1 §12.3)"
            }
        })
    }
}

/// The fields of an encoded kind: the bits of the form, and the first bits of the others.
const FORM: u32 = 7;
const CALL: u32 = 3;
const OP: u32 = 6;
const TYPE: u32 = 10;
/// An encoded get, and the form of an accumulate.
const GET: u32 = 1;
const COMBINE: u32 = 5;
/// The encoded operation of an accumulate that only reads.
const NO_OP: u32 = Op::NoOp.number() as u32 + 1;

/// Whether two encoded kinds are gets, or accumulates of one predefined type that agree in their
/// operation: the commonest pairs that do not conflict. The elements must begin at one byte.
#[inline]
pub(super) fn agree(one: u32, other: u32) -> bool {
    // Compare-and-swap has no operation.
    let is_free = |kind| operation(kind) == 0 || operation(kind) == NO_OP;
    (one == GET && other == GET)
        || (are_combined(one, other) && (!differ(one, other) || is_free(one) || is_free(other)))
}

/// Whether each access that conflicts with an accumulate of kind `older` also conflicts with one of
/// kind `new` on the same bytes. Both kinds are encoded.
#[inline]
pub(super) fn includes(new: u32, older: u32) -> bool {
    // Compare-and-swap conflicts with no operation.
    let stricter = operation(older) == 0 && operation(new) != NO_OP;
    are_combined(new, older) && (!differ(new, older) || operation(older) == NO_OP || stricter)
}

/// Whether two encoded kinds are accumulates on one predefined type.
#[inline]
fn are_combined(one: u32, other: u32) -> bool {
    one & FORM == COMBINE && (one ^ other) & (FORM | 63 << TYPE) == 0
}

/// Whether the operations of two encoded accumulates differ.
#[inline]
fn differ(one: u32, other: u32) -> bool {
    (one ^ other) >> OP & 15 != 0
}

/// The operation of an encoded accumulate.
#[inline]
fn operation(kind: u32) -> u32 {
    kind >> OP & 15
}

/// The rule that two overlapping accesses break if neither is ordered before the other. Each access
/// is given by its kind and its first byte.
pub(crate) fn conflict(one: (Kind, u64), other: (Kind, u64), same_origin: bool) -> Option<Rule> {
    if let (Kind::Atomic { written }, with) | (with, Kind::Atomic { written }) = (one.0, other.0) {
        return conflicts_with_atomic(written, with, same_origin).then_some(Rule::Overlap);
    }
    if one.0.only_reads() && other.0.only_reads() {
        return None;
    }
    if let Kind::Buffer { .. } = other.0 {
        return Some(Rule::Buffers);
    }
    let (Kind::Combine { op: first, ty, .. }, Kind::Combine { op: second, ty: theirs, .. }) = (one.0, other.0) else {
        return Some(Rule::Overlap);
    };
    if ty != theirs || !one.1.abs_diff(other.1).is_multiple_of(ty.size() as u64) {
        return Some(Rule::Types);
    }
    // Accumulates of one origin are ordered (§12.7.2). Compare-and-swap has no operation that could
    // differ.
    let agree = match (first, second) {
        (Some(first), Some(second)) => first == second || [first, second].contains(&Op::NoOp),
        _ => true,
    };
    if same_origin || agree { None } else { Some(Rule::Operations) }
}

/// Whether an atomic of the program's language conflicts with an access. A program may poll by
/// atomic loads, and may change what others get (MPI-4.1 §12.7, unified model). It must not change
/// what others update. ThreadSanitizer compares the accesses of the threads of one rank.
fn conflicts_with_atomic(written: bool, with: Kind, same_origin: bool) -> bool {
    match with {
        Kind::Atomic { .. } | Kind::Get | Kind::Buffer { .. } => false,
        Kind::Load => written && !same_origin,
        Kind::Store => !same_origin,
        Kind::Put | Kind::Combine { .. } => written && !with.only_reads(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(ty: BasicType) -> Kind {
        Kind::Combine { call: Call::Accumulate, op: Some(Op::Sum), ty }
    }

    #[test]
    fn kinds_round_trip() {
        let atomics = [false, true].map(|written| Kind::Atomic { written });
        let mut kinds = vec![Kind::Get, Kind::Put, Kind::Load, Kind::Store, atomics[0], atomics[1]];
        for call in Call::ALL {
            kinds.extend(Op::ALL.map(|op| Kind::Combine { call, op: Some(op), ty: BasicType::Float64 }));
        }
        let types = (0..=u8::MAX).filter_map(BasicType::from_number);
        kinds.extend(types.map(|ty| Kind::Combine { call: Call::FetchAndOp, op: Some(Op::Sum), ty }));
        kinds.push(Kind::Combine { call: Call::CompareAndSwap, op: None, ty: BasicType::Int32 });
        kinds.extend(kinds.clone().into_iter().map(|kind| kind.buffer(true)));
        for &kind in &kinds {
            assert_eq!(Kind::decode(kind.encode()), kind);
            assert!((1..1 << 16).contains(&kind.encode()), "{kind}");
            for &other in &kinds {
                let is_free = conflict((kind, 8), (other, 8), false).is_none();
                assert!(is_free || !agree(kind.encode(), other.encode()), "{kind} {other}");
            }
        }
    }

    #[test]
    fn reads_conflict_only_with_changes() {
        let read = Kind::Combine { call: Call::FetchAndOp, op: Some(Op::NoOp), ty: BasicType::Int64 };
        for (one, other) in [(Kind::Get, Kind::Get), (Kind::Get, read), (Kind::Load, Kind::Get), (read, read)] {
            assert_eq!(conflict((one, 0), (other, 0), false), None, "{one} {other}");
        }
        for write in [Kind::Put, Kind::Store, sum(BasicType::Int64)] {
            assert_eq!(conflict((write, 0), (Kind::Get, 0), false), Some(Rule::Overlap));
            assert_eq!(conflict((Kind::Get, 0), (write, 0), true), Some(Rule::Overlap));
        }
        assert_eq!(conflict((Kind::Put, 0), (Kind::Put, 0), true), Some(Rule::Overlap));
    }

    #[test]
    fn an_atomic_may_poll_and_must_not_change_what_others_update() {
        let [load, store] = [false, true].map(|written| (Kind::Atomic { written }, 0));
        let read = Kind::Combine { call: Call::FetchAndOp, op: Some(Op::NoOp), ty: BasicType::Int64 };
        let updates = [Kind::Put, sum(BasicType::Int64)];
        assert!(updates.iter().all(|&kind| conflict((kind, 0), store, true).is_some()));
        assert!(updates.iter().all(|&kind| conflict(load, (kind, 0), false).is_none()));
        assert!([Kind::Get, read, load.0, store.0].iter().all(|&kind| conflict(store, (kind, 0), false).is_none()));
        let found = |kind, same_origin| [load, store].map(|one| conflict(one, (kind, 0), same_origin).is_some());
        assert_eq!([found(Kind::Load, false), found(Kind::Store, false)], [[false, true], [true, true]]);
        assert_eq!([found(Kind::Load, true), found(Kind::Store, true)], [[false, false]; 2]);
    }

    #[test]
    fn a_result_completes_only_what_reads_the_target() {
        let of = |call, op| Kind::Combine { call, op: Some(op), ty: BasicType::Int64 };
        let swap = Kind::Combine { call: Call::CompareAndSwap, op: None, ty: BasicType::Int64 };
        let ends = [Kind::Get, of(Call::FetchAndOp, Op::NoOp), of(Call::GetAccumulate, Op::NoOp)];
        let go_on = [Kind::Put, swap, of(Call::FetchAndOp, Op::Sum), of(Call::GetAccumulate, Op::Replace)];
        assert!(ends.into_iter().all(Kind::ends_with_result));
        assert!(!go_on.into_iter().any(Kind::ends_with_result));
    }

    #[test]
    fn a_buffer_that_is_only_read_may_be_shared() {
        let [sent, filled] = [(Kind::Put, false), (Kind::Get, true)].map(|(kind, written)| (kind.buffer(written), 0));
        assert_eq!(conflict(sent, sent, true), None);
        assert_eq!(conflict(sent, filled, true), Some(Rule::Buffers));
        assert_eq!(conflict(filled, filled, true), Some(Rule::Buffers));
    }

    #[test]
    fn accumulates_meet_with_one_type_and_one_operation() {
        let int = |op| Kind::Combine { call: Call::FetchAndOp, op: Some(op), ty: BasicType::Int32 };
        let swap = Kind::Combine { call: Call::CompareAndSwap, op: None, ty: BasicType::Int32 };
        assert_eq!(conflict((int(Op::Sum), 4), (int(Op::Sum), 8), false), None);
        assert_eq!(conflict((int(Op::Sum), 4), (int(Op::NoOp), 4), false), None);
        assert_eq!(conflict((int(Op::Replace), 4), (swap, 4), false), None);
        assert_eq!(conflict((int(Op::Sum), 4), (int(Op::Prod), 4), false), Some(Rule::Operations));
        assert_eq!(conflict((int(Op::Sum), 4), (int(Op::Prod), 4), true), None, "ordered at one origin");
        assert_eq!(conflict((int(Op::Sum), 4), (int(Op::Sum), 6), false), Some(Rule::Types), "parts of elements");
        let wide = sum(BasicType::Int64);
        assert_eq!(conflict((int(Op::Sum), 0), (wide, 0), true), Some(Rule::Types));
        assert_eq!(conflict((Kind::Put, 0), (wide, 0), false), Some(Rule::Overlap));
    }
}
