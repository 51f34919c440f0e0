//! The operations as types, so that a pair that MPI does not define does not compile. Owns the
//! traits that name the elements of each operation; [`Op::allows`] is the same table by value.
//!
//! ```
//! use transom::reduce::{Op, ops::{Max, Reduction, Sum}};
//! assert_eq!(<Sum as Reduction<u64>>::OP, Op::Sum);
//! assert_eq!(<Max as Reduction<f32>>::OP, Op::Max);
//! ```
//!
//! Logical values have no sum:
//! ```compile_fail
//! use transom::reduce::{Logical, ops::{Reduction, Sum}};
//! let op = <Sum as Reduction<Logical>>::OP;
//! ```
//!
//! Complex numbers have no maximum:
//! ```compile_fail
//! use transom::reduce::ops::{Max, Reduction};
//! let op = <Max as Reduction<num_complex::Complex<f64>>>::OP;
//! ```

use super::elements::{DoubleInt, Element, FloatInt, Logical, LongInt, RawByte, ShortInt, TwoInt};
use super::op::Op;
use num_complex::Complex;

/// An operation that MPI defines on elements of type `T`. Implemented for the types of this module
/// only.
#[diagnostic::on_unimplemented(message = "MPI does not define the operation `{Self}` on elements of type `{T}`")]
pub trait Reduction<T: Element>: sealed::Sealed {
    /// The operation by value.
    const OP: Op;
}

macro_rules! operations {
    ($($op:ident)*) => {$(
        #[doc = concat!("[`Op::", stringify!($op), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $op;

        impl sealed::Sealed for $op {}
    )*};
}

operations! { Max Min Sum Prod Land Band Lor Bor Lxor Bxor MaxLoc MinLoc Replace NoOp }

/// Each trait with its operations and the elements that implement it.
macro_rules! domains {
    ($($(#[$doc:meta])* $domain:ident [$($op:ident)*]: $($element:ty),*;)*) => {
        $(
            $(#[$doc])*
            pub trait $domain: Element {}

            $(impl $domain for $element {})*
            domains! { @open $domain $($op)* }
        )*

        #[cfg(test)]
        const DOMAINS: &[(&[Op], &[super::BasicType])] =
            &[$((&[$(Op::$op),*], &[$(<$element as Element>::TYPE),*])),*];
    };
    (@open $domain:ident $($op:ident)*) => {$(
        impl<T: $domain> Reduction<T> for $op {
            const OP: Op = Op::$op;
        }
    )*};
}

domains! {
    /// Integers and floats: elements that `MPI_MAX` and `MPI_MIN` order.
    Ordered [Max Min]: i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    /// Integers, floats and complex numbers: elements with sums and products.
    Arithmetic [Sum Prod]: i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, Complex<f32>, Complex<f64>;
    /// Integers and [`Logical`]: elements that are true or false.
    Truth [Land Lor Lxor]: i8, i16, i32, i64, u8, u16, u32, u64, Logical;
    /// Integers and [`RawByte`]: elements with bitwise operations.
    Bitwise [Band Bor Bxor]: i8, i16, i32, i64, u8, u16, u32, u64, RawByte;
    /// The pairs of a value and an index.
    Located [MaxLoc MinLoc]: FloatInt, DoubleInt, LongInt, TwoInt, ShortInt;
    /// Integers, [`Logical`] and [`RawByte`]: elements of a compare-and-swap (MPI-4.1 §12.3.4).
    Swappable []: i8, i16, i32, i64, u8, u16, u32, u64, Logical, RawByte;
}

impl<T: Element> Reduction<T> for Replace {
    const OP: Op = Op::Replace;
}

impl<T: Element> Reduction<T> for NoOp {
    const OP: Op = Op::NoOp;
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::super::BasicType;
    use super::{DOMAINS, Op};

    #[test]
    fn exactly_the_pairs_that_mpi_defines_compile() {
        for op in Op::ALL {
            // These two are implemented for every element.
            let every = matches!(op, Op::Replace | Op::NoOp);
            let listed: Vec<_> = DOMAINS.iter().filter(|(ops, _)| ops.contains(&op)).collect();
            assert_eq!(listed.len(), usize::from(!every), "{op} belongs to one domain");
            for ty in BasicType::ALL {
                let compiles = every || listed[0].1.contains(&ty);
                assert_eq!(compiles, op.allows(ty), "{op} on {ty}");
            }
        }
    }

    #[test]
    fn exactly_the_types_of_compare_and_swap_are_swappable() {
        let (_, swappable) = DOMAINS.iter().find(|(ops, _)| ops.is_empty()).expect("one domain has no operation");
        for ty in BasicType::ALL {
            assert_eq!(swappable.contains(&ty), Op::allows_compare_and_swap(ty), "{ty}");
        }
    }
}
