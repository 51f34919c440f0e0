//! The loops: one for each operation and type, over bytes at any alignment. Owns the computation of
//! an operation; must know neither the origin of the bytes nor atomicity.
//!
//! [`with_function`] is the one place where an operation and a type become a function; a [`Visit`]
//! applies the function, so that arrays and single elements can't differ. The function is inlined
//! into the loop of its type. The loop uses unaligned loads and stores: on aligned bytes it is as
//! fast as a loop over slices, and no second path is needed.

use super::foreign::Foreign;
use super::op::Op;
use super::types::BasicType;
use bytemuck::{Pod, Zeroable};
use num_complex::Complex;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Range};

/// `target = target op operand`, element by element of type `ty`. Both slices are native-endian,
/// have the same length in bytes, and may have any alignment.
///
/// # Panics
/// Where the lengths differ or are no multiple of the size of `ty`, or MPI does not define `op` on
/// `ty`: callers check.
pub(crate) fn combine(op: Op, ty: BasicType, target: &mut [u8], operand: &[u8]) {
    let (ours, theirs, size) = (target.len(), operand.len(), ty.size());
    assert!(ours == theirs, "{op} of {ours} bytes with {theirs} bytes");
    assert!(ours.is_multiple_of(size), "{ours} bytes are no whole number of {ty} of {size} bytes");
    match op {
        Op::NoOp => {}
        Op::Replace => target.copy_from_slice(operand),
        _ => with_function(op, ty, Arrays { target, operand }),
    }
}

/// Elements that are not in a slice. The implementation applies a function to each element and its
/// operand.
pub(crate) trait Elements {
    fn combine<T: Pod>(self, function: impl Fn(T, T) -> T);
}

/// [`combine`] for elements that are not in a slice, by any operation but `MPI_NO_OP` and
/// `MPI_REPLACE`.
///
/// # Panics
/// Where MPI does not define `op` on `ty`: callers check.
pub(crate) fn combine_elsewhere(op: Op, ty: BasicType, elements: impl Elements) {
    with_function(op, ty, Elsewhere(elements));
}

/// [`combine`] on one element: the new value, from the target's value and the operand. A value is
/// in the low bytes of a word, as many as `ty` has; the other bytes are ignored in arguments and 0
/// in the result.
///
/// # Panics
/// Where `ty` has more than 8 bytes, or MPI does not define `op` on `ty`: callers check.
// Always inlined, here and in `with_function`: with a known operation and type one instruction is
// left.
#[inline(always)]
pub(crate) fn combine_one(op: Op, ty: BasicType, old: u64, operand: u64) -> u64 {
    let size = ty.size();
    assert!(size <= WORD, "an element of {ty} has {size} bytes, a word {WORD}");
    let mask = u64::MAX >> (8 * (WORD - size));
    match op {
        Op::NoOp => old & mask,
        Op::Replace => operand & mask,
        _ => with_function(op, ty, Words { old, operand }),
    }
}

/// The word with `value` in its low bytes, as [`combine_one`] takes it.
///
/// # Panics
/// Where `T` has more than 8 bytes.
#[inline]
pub(crate) fn bits_of<T: Pod>(value: T) -> u64 {
    let mut bytes = [0; WORD];
    bytes[low_bytes(size_of::<T>())].copy_from_slice(bytemuck::bytes_of(&value));
    u64::from_ne_bytes(bytes)
}

/// The value in the low bytes of a word.
///
/// # Panics
/// Where `T` has more than 8 bytes.
#[inline]
pub(crate) fn value_of<T: Pod>(bits: u64) -> T {
    bytemuck::pod_read_unaligned(&bits.to_ne_bytes()[low_bytes(size_of::<T>())])
}

/// Bytes of the word of a single element.
const WORD: usize = 8;

/// The position in memory of the low `size` bytes of a word.
#[inline]
const fn low_bytes(size: usize) -> Range<usize> {
    assert!(size <= WORD, "the element has more bytes than a word");
    if cfg!(target_endian = "little") { 0..size } else { WORD - size..WORD }
}

/// The use of the function of an operation on a type.
trait Visit {
    type Output;
    fn apply<T: Pod>(self, function: impl Fn(T, T) -> T) -> Self::Output;
}

struct Arrays<'a> {
    target: &'a mut [u8],
    operand: &'a [u8],
}

impl Visit for Arrays<'_> {
    type Output = ();

    fn apply<T: Pod>(self, function: impl Fn(T, T) -> T) {
        let size = size_of::<T>();
        for (target, operand) in self.target.chunks_exact_mut(size).zip(self.operand.chunks_exact(size)) {
            let new = function(bytemuck::pod_read_unaligned(target), bytemuck::pod_read_unaligned(operand));
            target.copy_from_slice(bytemuck::bytes_of(&new));
        }
    }
}

struct Elsewhere<E>(E);

impl<E: Elements> Visit for Elsewhere<E> {
    type Output = ();

    #[inline]
    fn apply<T: Pod>(self, function: impl Fn(T, T) -> T) {
        self.0.combine(function);
    }
}

struct Words {
    old: u64,
    operand: u64,
}

impl Visit for Words {
    type Output = u64;

    #[inline]
    fn apply<T: Pod>(self, function: impl Fn(T, T) -> T) -> u64 {
        bits_of(function(value_of(self.old), value_of(self.operand)))
    }
}

/// Passes the function of `op` on `ty` to `visit`. The function's first argument is the target's
/// value.
#[inline(always)]
fn with_function<V: Visit>(op: Op, ty: BasicType, visit: V) -> V::Output {
    match ty {
        BasicType::Int8 => integer::<i8, V>(op, visit),
        BasicType::Int16 => integer::<i16, V>(op, visit),
        BasicType::Int32 => integer::<i32, V>(op, visit),
        BasicType::Int64 => integer::<i64, V>(op, visit),
        BasicType::Uint8 => integer::<u8, V>(op, visit),
        BasicType::Uint16 => integer::<u16, V>(op, visit),
        BasicType::Uint32 => integer::<u32, V>(op, visit),
        BasicType::Uint64 => integer::<u64, V>(op, visit),
        BasicType::Float32 => float::<f32, V>(op, visit),
        BasicType::Float64 => float::<f64, V>(op, visit),
        BasicType::Complex32 => number::<Complex<f32>, V>(op, visit),
        BasicType::Complex64 => number::<Complex<f64>, V>(op, visit),
        BasicType::Bool => truth::<u8, V>(op, visit),
        BasicType::Byte => bits::<u8, V>(op, visit),
        BasicType::FloatInt => pair::<Located<f32, [u8; 0]>, V>(op, visit),
        BasicType::DoubleInt => pair::<Located<f64, [u8; 0]>, V>(op, visit),
        BasicType::LongInt => pair::<Located<i64, [u8; 0]>, V>(op, visit),
        BasicType::TwoInt => pair::<Located<i32, [u8; 0]>, V>(op, visit),
        BasicType::ShortInt => pair::<Located<i16, [u8; 2]>, V>(op, visit),
        BasicType::Foreign(ty) => foreign(op, ty, visit),
    }
}

/// Elements as bytes, each combined by a call.
#[cold]
#[inline(never)]
fn foreign<V: Visit>(op: Op, ty: Foreign, visit: V) -> V::Output {
    match ty.size() {
        2 => each::<2, V>(op, ty, visit),
        4 => each::<4, V>(op, ty, visit),
        8 => each::<8, V>(op, ty, visit),
        16 => each::<16, V>(op, ty, visit),
        20 => each::<20, V>(op, ty, visit),
        _ => each::<32, V>(op, ty, visit),
    }
}

fn each<const N: usize, V: Visit>(op: Op, ty: Foreign, visit: V) -> V::Output
where
    [u8; N]: Pod,
{
    visit.apply(|mut old: [u8; N], operand| {
        ty.combine(op, &mut old, &operand);
        old
    })
}

#[inline]
fn integer<T: Integer, V: Visit>(op: Op, visit: V) -> V::Output {
    match op {
        Op::Max => visit.apply(T::larger),
        Op::Min => visit.apply(T::smaller),
        Op::Sum => visit.apply(T::plus),
        Op::Prod => visit.apply(T::times),
        Op::Land | Op::Lor | Op::Lxor => truth::<T, V>(op, visit),
        _ => bits::<T, V>(op, visit),
    }
}

#[inline]
fn float<T: Ranked + Add<Output = T> + Mul<Output = T>, V: Visit>(op: Op, visit: V) -> V::Output {
    match op {
        Op::Max => visit.apply(T::larger),
        Op::Min => visit.apply(T::smaller),
        _ => number::<T, V>(op, visit),
    }
}

#[inline]
fn number<T: Pod + Add<Output = T> + Mul<Output = T>, V: Visit>(op: Op, visit: V) -> V::Output {
    match op {
        Op::Sum => visit.apply(|old: T, operand| old + operand),
        Op::Prod => visit.apply(|old: T, operand| old * operand),
        _ => undefined(op, "floats or complex numbers"),
    }
}

#[inline]
fn truth<T: Integer, V: Visit>(op: Op, visit: V) -> V::Output {
    let is = |value: T| value != T::zeroed();
    match op {
        Op::Land => visit.apply(|old: T, operand| T::from(is(old) & is(operand))),
        Op::Lor => visit.apply(|old: T, operand| T::from(is(old) | is(operand))),
        Op::Lxor => visit.apply(|old: T, operand| T::from(is(old) ^ is(operand))),
        _ => undefined(op, "logical values"),
    }
}

#[inline]
fn bits<T: Integer, V: Visit>(op: Op, visit: V) -> V::Output {
    match op {
        Op::Band => visit.apply(|old: T, operand| old & operand),
        Op::Bor => visit.apply(|old: T, operand| old | operand),
        Op::Bxor => visit.apply(|old: T, operand| old ^ operand),
        _ => undefined(op, "integers or bytes"),
    }
}

#[inline]
fn pair<T: Pair, V: Visit>(op: Op, visit: V) -> V::Output {
    // For equal values the smaller index wins; for equal indices the target keeps its element
    // (MPI-4.1 §6.9.4).
    let first = |old: &T, operand: &T| operand.index() < old.index();
    match op {
        Op::MaxLoc => visit.apply(|mut old: T, operand: T| {
            let wins =
                operand.value().above(old.value()) || (!old.value().above(operand.value()) && first(&old, &operand));
            if wins {
                old.take(&operand);
            }
            old
        }),
        Op::MinLoc => visit.apply(|mut old: T, operand: T| {
            let wins =
                operand.value().below(old.value()) || (!old.value().below(operand.value()) && first(&old, &operand));
            if wins {
                old.take(&operand);
            }
            old
        }),
        _ => undefined(op, "pairs"),
    }
}

#[cold]
fn undefined(op: Op, what: &str) -> ! {
    panic!("MPI does not define {op} on {what}")
}

/// Values that MAX and MIN choose from.
trait Ranked: Pod {
    /// Whether MAX prefers `self` to `other`; NaN is above every number.
    fn above(self, other: Self) -> bool;
    /// Whether MIN prefers `self` to `other`; NaN is below every number.
    fn below(self, other: Self) -> bool;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

trait Integer:
    Ranked + PartialEq + From<bool> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl Ranked for $int {
            #[inline]
            fn above(self, other: Self) -> bool {
                self > other
            }

            #[inline]
            fn below(self, other: Self) -> bool {
                self < other
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
        }

        impl Integer for $int {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Ranked for $float {
            #[inline]
            fn above(self, other: Self) -> bool {
                (self > other) | (self.is_nan() & !other.is_nan())
            }

            #[inline]
            fn below(self, other: Self) -> bool {
                (self < other) | (self.is_nan() & !other.is_nan())
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                // Equal values have equal bits, but for the sign of 0: the larger zero has no sign
                // bit.
                let equal = <$float>::from_bits(self.to_bits() & other.to_bits());
                if self == other { equal } else if other.above(self) { other } else { self }
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                let equal = <$float>::from_bits(self.to_bits() | other.to_bits());
                if self == other { equal } else if other.below(self) { other } else { self }
            }
        }
    )*};
}

floats! { f32 f64 }

trait Pair: Pod {
    type Value: Ranked;
    fn value(&self) -> Self::Value;
    fn index(&self) -> i32;
    fn take(&mut self, other: &Self);
}

/// A value and its index. `G`: the gap between them. The padding that some C structs have behind
/// the index is no part of it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, packed)]
struct Located<T, G> {
    value: T,
    gap: G,
    index: i32,
}

impl<T: Ranked, G: Pod> Pair for Located<T, G> {
    type Value = T;

    #[inline]
    fn value(&self) -> T {
        self.value
    }

    #[inline]
    fn index(&self) -> i32 {
        self.index
    }

    /// The gap stays, because it may be the program's memory.
    #[inline]
    fn take(&mut self, other: &Self) {
        (self.value, self.index) = (other.value, other.index);
    }
}
