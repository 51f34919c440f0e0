//! The Rust types of elements: the [`BasicType`] of each, and definitions of the types that Rust
//! and its crates lack. Owns their layouts, which are those of C; must not know the operations on
//! them.

use super::types::BasicType;
use bytemuck::{Pod, Zeroable};
use num_complex::Complex;
use std::fmt;

/// A Rust type that is a predefined type of MPI, byte for byte. Implemented for integers, floats,
/// `Complex` of the crate num-complex, and the types of this module only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no predefined type of MPI, which the accumulate family needs",
    note = "integers of 8 to 64 bits, `f32`, `f64`, `transom::Complex` and the types of `transom::reduce` are; \
            put and get take every element type of the window"
)]
pub trait Element: Pod + Send + Sync + sealed::Sealed {
    /// The predefined type; its size and alignment are those of `Self`.
    const TYPE: BasicType;
}

/// `MPI_C_BOOL`: one byte, like C's `bool`. Every nonzero byte is true, and all true values are
/// equal.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Logical(u8);

impl Logical {
    /// Whether the byte is nonzero.
    #[must_use]
    pub const fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Logical {
    fn from(truth: bool) -> Self {
        Logical(u8::from(truth))
    }
}

impl From<Logical> for bool {
    fn from(logical: Logical) -> Self {
        logical.is_true()
    }
}

impl PartialEq for Logical {
    fn eq(&self, other: &Self) -> bool {
        self.is_true() == other.is_true()
    }
}

impl Eq for Logical {}

impl fmt::Debug for Logical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Logical").field(&self.is_true()).finish()
    }
}

/// `MPI_BYTE`: eight bits that are no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct RawByte(pub u8);

macro_rules! elements {
    ($($element:ty: $ty:ident;)*) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const TYPE: BasicType = BasicType::$ty;
        }
    )*};
}

elements! {
    i8: Int8;
    i16: Int16;
    i32: Int32;
    i64: Int64;
    u8: Uint8;
    u16: Uint16;
    u32: Uint32;
    u64: Uint64;
    f32: Float32;
    f64: Float64;
    Complex<f32>: Complex32;
    Complex<f64>: Complex64;
    Logical: Bool;
    RawByte: Byte;
    FloatInt: FloatInt;
    DoubleInt: DoubleInt;
    LongInt: LongInt;
    TwoInt: TwoInt;
    ShortInt: ShortInt;
}

/// The pairs: the type of the value, and the bytes of padding behind it and behind the index.
macro_rules! pairs {
    ($($(#[$doc:meta])* $pair:ident: $value:ty, $middle:literal, $end:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Pod, Zeroable)]
        #[repr(C)]
        pub struct $pair {
            value: $value,
            middle: [u8; $middle],
            index: i32,
            end: [u8; $end],
        }

        impl $pair {
            /// The pair of `value` and `index`.
            #[must_use]
            pub const fn new(value: $value, index: i32) -> Self {
                $pair { value, middle: [0; $middle], index, end: [0; $end] }
            }

            /// The value, which MAXLOC and MINLOC compare first.
            #[must_use]
            pub const fn value(&self) -> $value {
                self.value
            }

            /// The index, which decides between equal values.
            #[must_use]
            pub const fn index(&self) -> i32 {
                self.index
            }
        }

        /// By value and index; padding has no part in it.
        impl PartialEq for $pair {
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value && self.index == other.index
            }
        }

        impl fmt::Debug for $pair {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($pair)).field("value", &self.value).field("index", &self.index).finish()
            }
        }
    )*};
}

pairs! {
    /// `MPI_FLOAT_INT`, in C `struct { float value; int index; }`.
    FloatInt: f32, 0, 0;
    /// `MPI_DOUBLE_INT`, in C `struct { double value; int index; }`: four bytes of padding at the
    /// end.
    DoubleInt: f64, 0, 4;
    /// `MPI_LONG_INT`, in C `struct { long value; int index; }`: four bytes of padding at the end.
    LongInt: i64, 0, 4;
    /// `MPI_2INT`, in C `struct { int value; int index; }`.
    TwoInt: i32, 0, 0;
    /// `MPI_SHORT_INT`, in C `struct { short value; int index; }`: two bytes of padding in the
    /// middle.
    ShortInt: i16, 2, 0;
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn check<T: Element>(seen: &mut HashSet<BasicType>) {
        assert_eq!(size_of::<T>(), T::TYPE.extent(), "{}", T::TYPE);
        assert_eq!(align_of::<T>(), T::TYPE.align(), "{}", T::TYPE);
        assert!(seen.insert(T::TYPE), "{} has two Rust types", T::TYPE);
    }

    #[test]
    fn every_type_has_one_element_of_its_extent_and_alignment() {
        let mut seen = HashSet::new();
        macro_rules! check_all {
            ($($element:ty)*) => { $(check::<$element>(&mut seen);)* };
        }
        check_all!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 Complex<f32> Complex<f64> Logical RawByte);
        check_all!(FloatInt DoubleInt LongInt TwoInt ShortInt);
        assert_eq!(seen.len(), BasicType::ALL.len());
    }

    #[test]
    fn pairs_have_the_layout_of_c_structs() {
        #[repr(C)]
        struct C<T> {
            value: T,
            index: i32,
        }
        macro_rules! same {
            ($($pair:ident: $value:ty;)*) => {$(
                assert_eq!(std::mem::offset_of!($pair, value), std::mem::offset_of!(C<$value>, value));
                assert_eq!(std::mem::offset_of!($pair, index), std::mem::offset_of!(C<$value>, index));
                assert_eq!(size_of::<$pair>(), size_of::<C<$value>>());
            )*};
        }
        same! { FloatInt: f32; DoubleInt: f64; LongInt: std::ffi::c_long; TwoInt: i32; ShortInt: std::ffi::c_short; }
    }

    #[test]
    fn any_nonzero_byte_is_true() {
        let odd: Logical = bytemuck::cast(0x80_u8);
        assert!(odd.is_true());
        assert_eq!(odd, Logical::from(true));
        assert_ne!(odd, Logical::default());
        assert_eq!(bytemuck::cast::<_, u8>(Logical::from(true)), 1);
        assert!(!bool::from(Logical::from(false)));
    }

    #[test]
    fn padding_does_not_make_pairs_differ() {
        let mut bytes: [u8; 16] = bytemuck::cast(LongInt::new(-7, 3));
        bytes[12..].fill(0xAB);
        assert_eq!(bytemuck::cast::<_, LongInt>(bytes), LongInt::new(-7, 3));
        assert_ne!(LongInt::new(-7, 3), LongInt::new(-7, 4));
        assert_eq!(format!("{:?}", ShortInt::new(2, 5)), "ShortInt { value: 2, index: 5 }");
    }
}
