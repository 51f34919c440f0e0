//! The predefined operations by name, and the table of types on which MPI defines each operation.
//! Must not know their computation.

use super::types::{BasicType, Class};
use Op::{Band, Bor, Bxor, Land, Lor, Lxor, Max, MaxLoc, Min, MinLoc, NoOp, Prod, Replace, Sum};

/// A predefined operation, which computes the new value of the target's element from the old value
/// and the origin's element. Accumulates do not take user-defined operations (MPI-4.1 §12.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// `MPI_MAX`: the larger one.
    Max,
    /// `MPI_MIN`: the smaller one.
    Min,
    /// `MPI_SUM`; integers wrap.
    Sum,
    /// `MPI_PROD`; integers wrap.
    Prod,
    /// `MPI_LAND`: 1 if both are true (nonzero), else 0.
    Land,
    /// `MPI_BAND`: bitwise and.
    Band,
    /// `MPI_LOR`: 1 if one or both are true, else 0.
    Lor,
    /// `MPI_BOR`: bitwise or.
    Bor,
    /// `MPI_LXOR`: 1 if exactly one is true, else 0.
    Lxor,
    /// `MPI_BXOR`: bitwise exclusive or.
    Bxor,
    /// `MPI_MAXLOC`: the pair with the larger value; of equal values the one with the smaller index
    /// (MPI-4.1 §6.9.4).
    MaxLoc,
    /// `MPI_MINLOC`: the pair with the smaller value; of equal values the one with the smaller
    /// index (MPI-4.1 §6.9.4).
    MinLoc,
    /// `MPI_REPLACE`: the origin's element (MPI-4.1 §12.3.4).
    Replace,
    /// `MPI_NO_OP`: the old value; a fetch becomes an atomic read (MPI-4.1 §12.3.4).
    NoOp,
}

impl Op {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Op; 14] = [Max, Min, Sum, Prod, Land, Band, Lor, Bor, Lxor, Bxor, MaxLoc, MinLoc, Replace, NoOp];

    /// Whether MPI defines the operation on elements of type `ty` (MPI-4.1 §6.9.2, §6.9.4,
    /// §12.3.4).
    #[must_use]
    pub const fn allows(self, ty: BasicType) -> bool {
        let class = ty.class();
        match self {
            Max | Min => matches!(class, Class::Integer | Class::Float),
            Sum | Prod => matches!(class, Class::Integer | Class::Float | Class::Complex),
            Land | Lor | Lxor => matches!(class, Class::Integer | Class::Logical),
            Band | Bor | Bxor => matches!(class, Class::Integer | Class::Byte),
            MaxLoc | MinLoc => matches!(class, Class::Pair),
            Replace | NoOp => true,
        }
    }

    /// Whether MPI defines a compare-and-swap of one element of type `ty`: integers, logical, byte
    /// (MPI-4.1 §12.3.4).
    #[must_use]
    pub const fn allows_compare_and_swap(ty: BasicType) -> bool {
        matches!(ty.class(), Class::Integer | Class::Logical | Class::Byte)
    }

    /// The name that MPI has for the operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Max => "MPI_MAX",
            Min => "MPI_MIN",
            Sum => "MPI_SUM",
            Prod => "MPI_PROD",
            Land => "MPI_LAND",
            Band => "MPI_BAND",
            Lor => "MPI_LOR",
            Bor => "MPI_BOR",
            Lxor => "MPI_LXOR",
            Bxor => "MPI_BXOR",
            MaxLoc => "MPI_MAXLOC",
            MinLoc => "MPI_MINLOC",
            Replace => "MPI_REPLACE",
            NoOp => "MPI_NO_OP",
        }
    }

    /// The operation's number in messages: its index in [`Op::ALL`].
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The operation with an [`Op::number`]; `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Op> {
        Op::ALL.get(usize::from(number)).copied()
    }
}

/// As [`Op::name`].
impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{BasicType, Op};

    /// The rows of the table in MPI-4.1 §6.9.2, and the pairs of §6.9.4, by the names in the text.
    const INTEGERS: &str =
        "MPI_INT8_T MPI_INT16_T MPI_INT32_T MPI_INT64_T MPI_UINT8_T MPI_UINT16_T MPI_UINT32_T MPI_UINT64_T";
    const FLOATS: &str = "MPI_FLOAT MPI_DOUBLE";
    const COMPLEX: &str = "MPI_C_FLOAT_COMPLEX MPI_C_DOUBLE_COMPLEX";
    const LOGICAL: &str = "MPI_C_BOOL";
    const BYTE: &str = "MPI_BYTE";
    const PAIRS: &str = "MPI_FLOAT_INT MPI_DOUBLE_INT MPI_LONG_INT MPI_2INT MPI_SHORT_INT";

    /// Each operation with its allowed types.
    const TABLE: [(&str, &[&str]); 14] = [
        ("MPI_MAX", &[INTEGERS, FLOATS]),
        ("MPI_MIN", &[INTEGERS, FLOATS]),
        ("MPI_SUM", &[INTEGERS, FLOATS, COMPLEX]),
        ("MPI_PROD", &[INTEGERS, FLOATS, COMPLEX]),
        ("MPI_LAND", &[INTEGERS, LOGICAL]),
        ("MPI_LOR", &[INTEGERS, LOGICAL]),
        ("MPI_LXOR", &[INTEGERS, LOGICAL]),
        ("MPI_BAND", &[INTEGERS, BYTE]),
        ("MPI_BOR", &[INTEGERS, BYTE]),
        ("MPI_BXOR", &[INTEGERS, BYTE]),
        ("MPI_MAXLOC", &[PAIRS]),
        ("MPI_MINLOC", &[PAIRS]),
        ("MPI_REPLACE", &[INTEGERS, FLOATS, COMPLEX, LOGICAL, BYTE, PAIRS]),
        ("MPI_NO_OP", &[INTEGERS, FLOATS, COMPLEX, LOGICAL, BYTE, PAIRS]),
    ];

    fn lists(rows: &[&str], ty: BasicType) -> bool {
        rows.iter().flat_map(|row| row.split(' ')).any(|name| name == ty.name())
    }

    #[test]
    fn exactly_the_pairs_of_the_table_are_allowed() {
        let mut legal = 0;
        for op in Op::ALL {
            let rows: Vec<_> = TABLE.iter().filter(|(name, _)| *name == op.name()).collect();
            assert_eq!(rows.len(), 1, "{op} stands in the table once");
            for ty in BasicType::ALL {
                assert_eq!(op.allows(ty), lists(rows[0].1, ty), "{op} on {ty}");
                legal += usize::from(op.allows(ty));
            }
        }
        assert_eq!(legal, 2 * 10 + 2 * 12 + 3 * 9 + 3 * 9 + 2 * 5 + 2 * 19);
    }

    #[test]
    fn compare_and_swap_takes_integers_logical_and_byte() {
        for ty in BasicType::ALL {
            assert_eq!(Op::allows_compare_and_swap(ty), lists(&[INTEGERS, LOGICAL, BYTE], ty), "{ty}");
        }
    }

    #[test]
    fn numbers_of_operations_are_unique() {
        for (place, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(op.number()), place, "{op}");
            assert_eq!(Op::from_number(op.number()), Some(op));
        }
        for number in 14..=u8::MAX {
            assert_eq!(Op::from_number(number), None);
        }
    }
}
