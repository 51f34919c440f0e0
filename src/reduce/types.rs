//! The predefined types by name, size and class. Must not know the operations.

use super::foreign;
use BasicType::{
    Bool, Byte, Complex32, Complex64, DoubleInt, Float32, Float64, FloatInt, Foreign, Int8, Int16, Int32, Int64,
    LongInt, ShortInt, TwoInt, Uint8, Uint16, Uint32, Uint64,
};

/// A predefined type: the type of one element of an accumulate. The layout in memory is that of the
/// C type on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BasicType {
    /// `MPI_INT8_T`.
    Int8,
    /// `MPI_INT16_T`.
    Int16,
    /// `MPI_INT32_T`.
    Int32,
    /// `MPI_INT64_T`.
    Int64,
    /// `MPI_UINT8_T`.
    Uint8,
    /// `MPI_UINT16_T`.
    Uint16,
    /// `MPI_UINT32_T`.
    Uint32,
    /// `MPI_UINT64_T`.
    Uint64,
    /// `MPI_FLOAT`.
    Float32,
    /// `MPI_DOUBLE`.
    Float64,
    /// `MPI_C_FLOAT_COMPLEX`: two `f32`, the real part first.
    Complex32,
    /// `MPI_C_DOUBLE_COMPLEX`: two `f64`, the real part first.
    Complex64,
    /// `MPI_C_BOOL`: one byte; any nonzero value is true.
    Bool,
    /// `MPI_BYTE`: eight uninterpreted bits.
    Byte,
    /// `MPI_FLOAT_INT`: an `f32` and its index.
    FloatInt,
    /// `MPI_DOUBLE_INT`: an `f64` and its index.
    DoubleInt,
    /// `MPI_LONG_INT`: an `i64` and its index.
    LongInt,
    /// `MPI_2INT`: an `i32` and its index.
    TwoInt,
    /// `MPI_SHORT_INT`: an `i16` and its index.
    ShortInt,
    /// A type that Rust lacks and C compilers have; occurs only in MPI programs.
    #[doc(hidden)]
    Foreign(foreign::Foreign),
}

/// The classes of types in the table of operations (MPI-4.1 §6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Integer,
    Float,
    Complex,
    Logical,
    Byte,
    Pair,
}

impl BasicType {
    /// Every type that Rust has, in the order of their numbers.
    pub const ALL: [BasicType; 19] = [
        Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, Complex32, Complex64, Bool, Byte,
        FloatInt, DoubleInt, LongInt, TwoInt, ShortInt,
    ];

    /// Bytes of an element from its beginning to the end of its data. The padding behind a pair is
    /// no part of it: no operation reads or changes this padding.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Int8 | Uint8 | Bool | Byte => 1,
            Int16 | Uint16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 | Complex32 | FloatInt | TwoInt | ShortInt => 8,
            DoubleInt | LongInt => 12,
            Complex64 => 16,
            Foreign(foreign) => foreign.size(),
        }
    }

    /// Bytes from one element of an array to the next. For a pair this is the size of the C struct.
    #[must_use]
    pub const fn extent(self) -> usize {
        match self {
            DoubleInt | LongInt => 16,
            Foreign(foreign) => foreign.extent(),
            _ => self.size(),
        }
    }

    /// The alignment of an element in memory that was allocated for elements of this type, in
    /// bytes.
    #[must_use]
    pub const fn align(self) -> usize {
        match self {
            // These types are loaded and stored byte by byte.
            Int8 | Uint8 | Bool | Byte | Foreign(_) => 1,
            Int16 | Uint16 => 2,
            Int32 | Uint32 | Float32 | Complex32 | FloatInt | TwoInt | ShortInt => 4,
            Int64 | Uint64 | Float64 | Complex64 | DoubleInt | LongInt => 8,
        }
    }

    /// The name that MPI has for the type in C.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Int8 => "MPI_INT8_T",
            Int16 => "MPI_INT16_T",
            Int32 => "MPI_INT32_T",
            Int64 => "MPI_INT64_T",
            Uint8 => "MPI_UINT8_T",
            Uint16 => "MPI_UINT16_T",
            Uint32 => "MPI_UINT32_T",
            Uint64 => "MPI_UINT64_T",
            Float32 => "MPI_FLOAT",
            Float64 => "MPI_DOUBLE",
            Complex32 => "MPI_C_FLOAT_COMPLEX",
            Complex64 => "MPI_C_DOUBLE_COMPLEX",
            Bool => "MPI_C_BOOL",
            Byte => "MPI_BYTE",
            FloatInt => "MPI_FLOAT_INT",
            DoubleInt => "MPI_DOUBLE_INT",
            LongInt => "MPI_LONG_INT",
            TwoInt => "MPI_2INT",
            ShortInt => "MPI_SHORT_INT",
            Foreign(foreign) => foreign.name(),
        }
    }

    /// The type's number in messages: its index in [`BasicType::ALL`].
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Int8 => 0,
            Int16 => 1,
            Int32 => 2,
            Int64 => 3,
            Uint8 => 4,
            Uint16 => 5,
            Uint32 => 6,
            Uint64 => 7,
            Float32 => 8,
            Float64 => 9,
            Complex32 => 10,
            Complex64 => 11,
            Bool => 12,
            Byte => 13,
            FloatInt => 14,
            DoubleInt => 15,
            LongInt => 16,
            TwoInt => 17,
            ShortInt => 18,
            // After all others.
            Foreign(foreign) => 19 + foreign as u8,
        }
    }

    /// The type with a [`BasicType::number`]; `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<BasicType> {
        let place = usize::from(number);
        let foreign = || foreign::Foreign::served(place - BasicType::ALL.len()).map(Foreign);
        BasicType::ALL.get(place).copied().or_else(foreign)
    }

    pub(super) const fn class(self) -> Class {
        match self {
            Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64 => Class::Integer,
            Float32 | Float64 => Class::Float,
            Complex32 | Complex64 => Class::Complex,
            Bool => Class::Logical,
            Byte => Class::Byte,
            FloatInt | DoubleInt | LongInt | TwoInt | ShortInt => Class::Pair,
            Foreign(foreign) => foreign.class(),
        }
    }
}

/// As [`BasicType::name`].
impl std::fmt::Display for BasicType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::BasicType;

    #[test]
    fn numbers_of_types_are_unique() {
        for (place, ty) in BasicType::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(ty.number()), place, "{ty}");
            assert_eq!(BasicType::from_number(ty.number()), Some(ty));
        }
        for number in 33..=u8::MAX {
            assert_eq!(BasicType::from_number(number), None);
        }
    }

    #[test]
    fn names_differ() {
        for ty in BasicType::ALL {
            assert!(ty.name().starts_with("MPI_"), "{ty:?}");
            assert_eq!(BasicType::ALL.into_iter().filter(|other| other.name() == ty.name()).count(), 1, "{ty}");
        }
    }
}
