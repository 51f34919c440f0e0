//! Types that C and Fortran have and Rust lacks: `long double`, IEEE numbers of 16 and 128 bits,
//! Fortran's LOGICAL and pairs. Owns their sizes and classes. A library outside of this crate
//! supplies the functions that combine two elements, once for a process ([`serve`]):
//! `libtransom_mpi` contains them, compiled by the C compiler of the program's MPI. Without the
//! functions no call can name such a type, and messages that name one are refused.

use std::sync::OnceLock;

use super::op::Op;
use super::types::Class;

/// Defines the enumeration and the properties of its types from one table: for each type its name
/// in MPI, its size in bytes and its class.
macro_rules! table {
    ($($(#[$doc:meta])+ $name:ident = $mpi:literal, $size:literal, $class:ident;)+) => {
        /// A predefined type that Rust lacks. `enum foreign` of capi/mpi/host/host.h has the same
        /// order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Foreign {
            $($(#[$doc])+ $name,)+
        }

        impl Foreign {
            /// Every type, in the order of their numbers.
            pub const ALL: [Foreign; [$($size),+].len()] = [$(Foreign::$name),+];

            pub(super) const fn size(self) -> usize {
                match self { $(Foreign::$name => $size,)+ }
            }

            /// As [`BasicType::extent`](super::BasicType::extent).
            pub(super) const fn extent(self) -> usize {
                match self {
                    Foreign::LongDoubleInt => 32,
                    _ => self.size(),
                }
            }

            pub(super) const fn name(self) -> &'static str {
                match self { $(Foreign::$name => $mpi,)+ }
            }

            pub(super) const fn class(self) -> Class {
                match self { $(Foreign::$name => Class::$class,)+ }
            }
        }
    };
}

table! {
    /// `MPI_LONG_DOUBLE`, where it has 16 bytes.
    LongDouble = "MPI_LONG_DOUBLE", 16, Float;
    /// `MPI_C_LONG_DOUBLE_COMPLEX`: two `long double`.
    ComplexLong = "MPI_C_LONG_DOUBLE_COMPLEX", 32, Complex;
    /// `MPI_LONG_DOUBLE_INT`: a `long double` and its index, and 12 bytes of padding behind them.
    LongDoubleInt = "MPI_LONG_DOUBLE_INT", 20, Pair;
    /// `MPI_REAL16`: IEEE binary128.
    Float128 = "MPI_REAL16", 16, Float;
    /// `MPI_COMPLEX32`: two IEEE binary128 numbers.
    Complex128 = "MPI_COMPLEX32", 32, Complex;
    /// `MPI_REAL2`: IEEE binary16.
    Float16 = "MPI_REAL2", 2, Float;
    /// `MPI_COMPLEX4`: two IEEE binary16 numbers.
    Complex16 = "MPI_COMPLEX4", 4, Complex;
    /// `MPI_INTEGER16`.
    Int128 = "MPI_INTEGER16", 16, Integer;
    /// `MPI_LOGICAL2`.
    Logical16 = "MPI_LOGICAL2", 2, Logical;
    /// `MPI_LOGICAL4`.
    Logical32 = "MPI_LOGICAL4", 4, Logical;
    /// `MPI_LOGICAL8`.
    Logical64 = "MPI_LOGICAL8", 8, Logical;
    /// `MPI_LOGICAL16`.
    Logical128 = "MPI_LOGICAL16", 16, Logical;
    /// `MPI_2REAL`: an `f32` and its index, also an `f32`.
    TwoFloat = "MPI_2REAL", 8, Pair;
    /// `MPI_2DOUBLE_PRECISION`: an `f64` and its index, also an `f64`.
    TwoDouble = "MPI_2DOUBLE_PRECISION", 16, Pair;
}

/// Combines one element of the type by an operation: the first slice is the target's value and
/// receives the new value, the second slice is the operand. Both are one element long, and may have
/// any alignment.
pub type Combine = fn(Foreign, Op, &mut [u8], &[u8]);

static COMBINE: OnceLock<Combine> = OnceLock::new();

/// Sets the function that combines elements of these types in this process. Only the first call has
/// an effect. All ranks of a job must serve these types, or none.
pub fn serve(combine: Combine) {
    // An earlier call has set a function for these types.
    let _ = COMBINE.set(combine);
}

impl Foreign {
    /// The type with this index in [`Foreign::ALL`], where this process serves it.
    pub(super) fn served(place: usize) -> Option<Foreign> {
        COMBINE.get().and_then(|_| Foreign::ALL.get(place).copied())
    }

    /// Combines one element.
    ///
    /// # Panics
    /// Where no library serves these types; then no value of this type exists.
    pub(super) fn combine(self, op: Op, target: &mut [u8], operand: &[u8]) {
        let combine = COMBINE.get().expect("only a process that serves these types names them");
        combine(self, op, target, operand);
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{combine, combine_one};
    use super::Foreign::{Int128, Logical16};
    use super::*;
    use crate::reduce::BasicType;

    /// Sums of integers and of pairs of `f64`.
    fn sums(ty: Foreign, op: Op, target: &mut [u8], operand: &[u8]) {
        assert_eq!((target.len(), operand.len()), (ty.size(), ty.size()), "one element of {}", ty.name());
        match (ty, op) {
            (Int128, Op::Sum) => {
                let [a, b] = [&*target, operand].map(|of| i128::from_ne_bytes(of.try_into().expect("16 bytes")));
                target.copy_from_slice(&a.wrapping_add(b).to_ne_bytes());
            }
            _ => target.copy_from_slice(operand),
        }
    }

    #[test]
    fn elements_are_combined_one_by_one_at_any_alignment() {
        serve(sums);
        let of = |numbers: &[i128]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
        let mut bytes = [vec![7], of(&[1, -5, i128::MAX]), vec![9]].concat();
        let ty = BasicType::Foreign(Int128);
        combine(Op::Sum, ty, &mut bytes[1..49], &of(&[2, 3, 1]));
        assert_eq!(bytes, [vec![7], of(&[3, -2, i128::MIN]), vec![9]].concat());
        assert_eq!(combine_one(Op::Lor, BasicType::Foreign(Logical16), 1, 0x7_0000), 0, "only the element's bytes");
    }

    #[test]
    fn numbers_and_names_are_unique() {
        serve(sums);
        for (place, foreign) in Foreign::ALL.into_iter().enumerate() {
            let ty = BasicType::Foreign(foreign);
            assert_eq!(usize::from(ty.number()), BasicType::ALL.len() + place);
            assert_eq!(BasicType::from_number(ty.number()), Some(ty));
            assert!(ty.align() == 1 && ty.extent().is_power_of_two() && ty.size() <= ty.extent() && ty.extent() <= 32);
            assert!(BasicType::ALL.iter().all(|other| other.name() != ty.name()), "{ty}");
            assert!(Op::Replace.allows(ty) && Op::ALL.into_iter().filter(|op| op.allows(ty)).count() > 3, "{ty}");
        }
        assert_eq!(BasicType::from_number(33), None);
    }
}
