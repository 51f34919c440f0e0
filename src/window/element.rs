//! The types that windows hold and the integers that atomics work on.

use transom_fabric::Width;

/// A type that windows can hold: any bytes are a value of it, since peers may write any.
pub trait RmaElem: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> RmaElem for T {}

/// An integer that atomics work on: `i32`, `u32`, `i64`, `u64`. Sums wrap, as MPI's do on two's complement machines.
pub trait RmaInt: RmaElem + sealed::Sealed + PartialEq + std::fmt::Debug {
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($int:ty, $unsigned:ty, $width:expr;)*) => {$(
        impl sealed::Sealed for $int {}
        impl RmaInt for $int {
            const WIDTH: Width = $width;
            #[inline]
            fn to_bits(self) -> u64 {
                u64::from(self.cast_unsigned_bits())
            }
            #[inline]
            #[allow(clippy::cast_possible_truncation)] // the low bits are the value
            fn from_bits(bits: u64) -> Self {
                bits as $unsigned as $int
            }
        }
        impl Bits for $int {
            type Unsigned = $unsigned;
            #[inline]
            fn cast_unsigned_bits(self) -> $unsigned {
                self as $unsigned
            }
        }
    )*};
}

/// The bits of an integer, without extending its sign.
trait Bits {
    type Unsigned;
    fn cast_unsigned_bits(self) -> Self::Unsigned;
}

integers! {
    i32, u32, Width::W32;
    u32, u32, Width::W32;
    i64, u64, Width::W64;
    u64, u64, Width::W64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_and_signs_are_not_extended() {
        assert_eq!((-1i32).to_bits(), 0xffff_ffff);
        assert_eq!(i32::from_bits(0x1_ffff_fffe), -2);
        assert_eq!(i64::from_bits((-5i64).to_bits()), -5);
        assert_eq!(u32::from_bits(7u32.to_bits()), 7);
    }
}
