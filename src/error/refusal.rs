//! Why a target refuses a request. A refusal is sent as four words: a code and its numbers.

use super::Class;
use crate::reduce::{BasicType, Op};

/// Why a target refused an operation: the reason in
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused). No memory was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A code that this version does not know.
    #[error("the reason has code {code}, which this version does not know")]
    Unknown {
        /// The code.
        code: u64,
    },
    /// The window does not exist there.
    #[error("the window does not exist at the target; was it freed there?")]
    NoWindow,
    /// Bytes outside of the window's part.
    #[error("{length} bytes at offset {at} are outside the target's part of the window, which has {limit} bytes")]
    Outside {
        /// The offset in bytes.
        at: i64,
        /// The length of the access.
        length: u64,
        /// The size of the part.
        limit: u64,
    },
    /// Bytes that are not attached.
    #[error("the {length} bytes at address {address:#x} are not attached to the dynamic window at the target")]
    NotAttached {
        /// The address.
        address: u64,
        /// The length of the access.
        length: u64,
    },
    /// An operation that is not defined on the type.
    #[error("{} is not defined on {}", op.name(), ty.name())]
    Undefined {
        /// The operation.
        op: Op,
        /// The type.
        ty: BasicType,
    },
    /// Data and target differ in length.
    #[error("the origin's data has {data} bytes, but the operation is on {target} bytes of the target")]
    Lengths {
        /// The bytes of the data.
        data: u64,
        /// The bytes of the target.
        target: u64,
    },
    /// Bytes that are no multiple of the type's size.
    #[error("{length} bytes are not a whole number of elements of {}", ty.name())]
    NotWhole {
        /// The number of bytes.
        length: u64,
        /// The type.
        ty: BasicType,
    },
    /// More bytes than a message can move.
    #[error("the operation needs more than {limit} bytes in one message")]
    TooLong {
        /// The most bytes.
        limit: u64,
    },
    /// A control word that the window does not have.
    #[error("the target has no control word at offset {at}")]
    NoWord {
        /// The requested offset in bytes.
        at: u64,
    },
    /// A counter of notified operations that the target does not have.
    #[error("the target has no counter {index}")]
    NoCounter {
        /// The counter's index.
        index: u64,
    },
    /// A request for the regions of a window that has none.
    #[error("only a dynamic window has regions")]
    NoRegions,
    /// The target has no staging area for the origin's operands.
    #[error("the target has no staging area for this origin")]
    NoArea,
    /// The target could not decode the request.
    #[error("the target could not decode the request; do both ranks have the same version of the library?")]
    NotDecoded,
}

impl Refusal {
    /// The MPI class of an operation that is refused for this reason.
    pub(super) fn class(self) -> Class {
        match self {
            Refusal::Unknown { .. } | Refusal::NoWindow | Refusal::NotDecoded => Class::Other,
            Refusal::Undefined { .. } => Class::Op,
            Refusal::Lengths { .. } | Refusal::NotWhole { .. } => Class::Type,
            Refusal::NoCounter { .. } => Class::RmaNotification,
            Refusal::Outside { .. } | Refusal::NotAttached { .. } | Refusal::TooLong { .. } => Class::RmaRange,
            Refusal::NoWord { .. } | Refusal::NoRegions | Refusal::NoArea => Class::RmaRange,
        }
    }

    /// Code and numbers, as a message carries them.
    pub(crate) fn to_words(self) -> [u64; 4] {
        let of = |ty: BasicType| u64::from(ty.number());
        match self {
            Refusal::Unknown { code } => [code, 0, 0, 0],
            Refusal::NoWindow => [1, 0, 0, 0],
            Refusal::Outside { at, length, limit } => [2, at.cast_unsigned(), length, limit],
            Refusal::NotAttached { address, length } => [3, address, length, 0],
            Refusal::Undefined { op, ty } => [5, op.number().into(), of(ty), 0],
            Refusal::Lengths { data, target } => [6, data, target, 0],
            Refusal::NotWhole { length, ty } => [7, length, of(ty), 0],
            Refusal::TooLong { limit } => [8, limit, 0, 0],
            Refusal::NoWord { at } => [9, at, 0, 0],
            Refusal::NoRegions => [10, 0, 0, 0],
            Refusal::NoCounter { index } => [11, index, 0, 0],
            Refusal::NoArea => [12, 0, 0, 0],
            Refusal::NotDecoded => [13, 0, 0, 0],
        }
    }

    /// The refusal that a message carries.
    pub(crate) fn of_words([code, a, b, c]: [u64; 4]) -> Refusal {
        let ty = |word: u64| u8::try_from(word).ok().and_then(BasicType::from_number);
        let op = |word: u64| u8::try_from(word).ok().and_then(Op::from_number);
        let known = match code {
            1 => Some(Refusal::NoWindow),
            2 => Some(Refusal::Outside { at: a.cast_signed(), length: b, limit: c }),
            3 => Some(Refusal::NotAttached { address: a, length: b }),
            5 => op(a).zip(ty(b)).map(|(op, ty)| Refusal::Undefined { op, ty }),
            6 => Some(Refusal::Lengths { data: a, target: b }),
            7 => ty(b).map(|ty| Refusal::NotWhole { length: a, ty }),
            8 => Some(Refusal::TooLong { limit: a }),
            9 => Some(Refusal::NoWord { at: a }),
            10 => Some(Refusal::NoRegions),
            11 => Some(Refusal::NoCounter { index: a }),
            12 => Some(Refusal::NoArea),
            13 => Some(Refusal::NotDecoded),
            _ => None,
        };
        known.unwrap_or(Refusal::Unknown { code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn refusals_round_trip() {
        let ty = BasicType::Int64;
        for refusal in [
            Refusal::Unknown { code: 77 },
            Refusal::NoWindow,
            Refusal::Outside { at: -1, length: 8, limit: 16 },
            Refusal::NotAttached { address: u64::MAX, length: 3 },
            Refusal::Undefined { op: Op::Max, ty: BasicType::Complex32 },
            Refusal::Lengths { data: 4, target: 8 },
            Refusal::NotWhole { length: 7, ty },
            Refusal::TooLong { limit: 1 << 18 },
            Refusal::NoWord { at: 24 },
            Refusal::NoRegions,
            Refusal::NoCounter { index: u64::MAX },
            Refusal::NoArea,
            Refusal::NotDecoded,
        ] {
            assert_eq!(Refusal::of_words(refusal.to_words()), refusal);
        }
        assert_eq!(Refusal::of_words([5, 1 << 40, 0, 0]), Refusal::Unknown { code: 5 }, "no such operation");
        assert_eq!(Refusal::of_words([7, 8, 255, 0]), Refusal::Unknown { code: 7 }, "no such type");
    }

    #[test]
    fn the_class_of_a_refusal_is_that_of_its_reason() {
        let class = |reason| Error::from(ErrorKind::Refused { rank: 1, reason }).class();
        let ty = BasicType::Int64;
        assert_eq!(class(Refusal::NoCounter { index: 3 }), Class::RmaNotification);
        assert_eq!(class(Refusal::NotWhole { length: 7, ty }), Class::Type);
        assert_eq!(class(Refusal::Lengths { data: 4, target: 8 }), Class::Type);
        assert_eq!(class(Refusal::NoWindow), Class::Other);
        assert_eq!(class(Refusal::Outside { at: -1, length: 8, limit: 16 }), Class::RmaRange);
        assert_eq!(class(Refusal::NotAttached { address: 8, length: 3 }), Class::RmaRange);
    }
}
