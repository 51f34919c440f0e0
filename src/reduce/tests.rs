//! The kernels against a model that works on one element at a time and knows numbers only as `i128`
//! and `f64`: every pair that MPI defines (O3) on every type (O4), at every alignment, single
//! elements too, and the edge cases by hand.

use super::kernel::{bits_of, combine, combine_one, value_of};
use super::types::Class;
use super::*;
use bytemuck::Pod;
use num_complex::Complex;
use std::cmp::Ordering;

/// Values at the edges, chosen often so that ties, zeros, infinities and NaN meet each other.
const INTEGERS: [i64; 9] = [0, 1, 2, -1, 0x7f, -0x8000, i64::MAX, i64::MIN, 0x8000_0000];
const FLOATS: [f64; 10] =
    [0.0, -0.0, 1.0, -1.5, 3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e38, f64::MIN_POSITIVE];

/// A stream of numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    fn integer(&mut self) -> i64 {
        if self.below(2) == 0 { INTEGERS[self.below(INTEGERS.len())] } else { self.next().cast_signed() }
    }

    fn float(&mut self) -> f64 {
        if self.below(2) == 0 { FLOATS[self.below(FLOATS.len())] } else { f64::from_bits(self.next()) }
    }

    /// One element: of the edge values or of any bits.
    #[allow(clippy::cast_possible_truncation)] // any value will do
    fn element(&mut self, ty: BasicType) -> Vec<u8> {
        let index = self.integer() as i32;
        match ty {
            BasicType::Float32 => bytes(self.float() as f32),
            BasicType::Float64 => bytes(self.float()),
            BasicType::Complex32 => bytes([self.float() as f32, self.float() as f32]),
            BasicType::Complex64 => bytes([self.float(), self.float()]),
            BasicType::FloatInt => bytes(FloatInt::new(self.float() as f32, index)),
            BasicType::DoubleInt => bytes(DoubleInt::new(self.float(), index))[..12].to_vec(),
            BasicType::LongInt => bytes(LongInt::new(self.integer(), index))[..12].to_vec(),
            BasicType::TwoInt => bytes(TwoInt::new(self.integer() as i32, index)),
            BasicType::ShortInt => bytes(ShortInt::new(self.integer() as i16, index)),
            _ => {
                let word: [u8; 8] = self.integer().to_ne_bytes();
                let size = ty.size();
                if cfg!(target_endian = "little") { word[..size].to_vec() } else { word[8 - size..].to_vec() }
            }
        }
    }

    fn elements(&mut self, ty: BasicType, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(ty)).collect()
    }
}

fn bytes<T: Pod>(value: T) -> Vec<u8> {
    bytemuck::bytes_of(&value).to_vec()
}

fn read<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}

/// An element of an integer type, or the value of an integer pair, as a number.
fn number(ty: BasicType, of: &[u8]) -> i128 {
    match ty {
        BasicType::Int8 => read::<i8>(of).into(),
        BasicType::Int16 => read::<i16>(of).into(),
        BasicType::Int32 => read::<i32>(of).into(),
        BasicType::Int64 => read::<i64>(of).into(),
        BasicType::Uint8 | BasicType::Bool | BasicType::Byte => of[0].into(),
        BasicType::Uint16 => read::<u16>(of).into(),
        BasicType::Uint32 => read::<u32>(of).into(),
        BasicType::Uint64 => read::<u64>(of).into(),
        _ => unreachable!("{ty} is no integer"),
    }
}

/// The model of `op` on one element.
fn model(op: Op, ty: BasicType, old: &[u8], operand: &[u8]) -> Vec<u8> {
    match (op, ty.class()) {
        (Op::Replace, _) => operand.to_vec(),
        (Op::NoOp, _) => old.to_vec(),
        (_, Class::Integer | Class::Logical | Class::Byte) => {
            let result = of_integers(op, number(ty, old), number(ty, operand)).to_ne_bytes();
            let size = ty.size();
            if cfg!(target_endian = "little") { result[..size].to_vec() } else { result[16 - size..].to_vec() }
        }
        (_, Class::Float) if ty == BasicType::Float32 => {
            // Sums and products of two f32 are exact enough in f64 to be rounded once more.
            let [a, b] = [read::<f32>(old), read::<f32>(operand)].map(f64::from);
            #[allow(clippy::cast_possible_truncation)]
            bytes(of_floats(op, a, b) as f32)
        }
        (_, Class::Float) => bytes(of_floats(op, read(old), read(operand))),
        (_, Class::Complex) if ty == BasicType::Complex32 => {
            let ([a, b], [c, d]) = (read::<[f32; 2]>(old), read::<[f32; 2]>(operand));
            bytes(if op == Op::Sum { [a + c, b + d] } else { [a * c - b * d, a * d + b * c] })
        }
        (_, Class::Complex) => {
            let ([a, b], [c, d]) = (read::<[f64; 2]>(old), read::<[f64; 2]>(operand));
            bytes(if op == Op::Sum { [a + c, b + d] } else { [a * c - b * d, a * d + b * c] })
        }
        (_, Class::Pair) => of_pairs(op, ty, old, operand),
    }
}

fn of_integers(op: Op, a: i128, b: i128) -> i128 {
    match op {
        Op::Max => a.max(b),
        Op::Min => a.min(b),
        Op::Sum => a + b,
        Op::Prod => a.wrapping_mul(b),
        Op::Land => i128::from(a != 0 && b != 0),
        Op::Lor => i128::from(a != 0 || b != 0),
        Op::Lxor => i128::from((a != 0) != (b != 0)),
        Op::Band => a & b,
        Op::Bor => a | b,
        Op::Bxor => a ^ b,
        _ => unreachable!("{op} is modelled elsewhere"),
    }
}

fn of_floats(op: Op, a: f64, b: f64) -> f64 {
    match op {
        Op::Sum => a + b,
        Op::Prod => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        // The order of the standard library has -0 below +0.
        Op::Max if a.total_cmp(&b) == Ordering::Less => b,
        Op::Min if a.total_cmp(&b) == Ordering::Greater => b,
        _ => a,
    }
}

fn of_pairs(op: Op, ty: BasicType, old: &[u8], operand: &[u8]) -> Vec<u8> {
    let float = |a: f64, b: f64| {
        let nan = if op == Op::MaxLoc { a.is_nan().cmp(&b.is_nan()) } else { b.is_nan().cmp(&a.is_nan()) };
        a.partial_cmp(&b).unwrap_or(nan)
    };
    let index = |pair: &[u8]| if ty.size() == 8 { read::<i32>(&pair[4..]) } else { read(&pair[8..12]) };
    let values = match ty {
        BasicType::FloatInt => float(read::<f32>(&old[..4]).into(), read::<f32>(&operand[..4]).into()),
        BasicType::DoubleInt => float(read(&old[..8]), read(&operand[..8])),
        BasicType::LongInt => read::<i64>(&old[..8]).cmp(&read(&operand[..8])),
        BasicType::TwoInt => read::<i32>(&old[..4]).cmp(&read(&operand[..4])),
        _ => read::<i16>(&old[..2]).cmp(&read(&operand[..2])),
    };
    let prefers = if op == Op::MaxLoc { values } else { values.reverse() };
    let keeps = prefers.then(index(operand).cmp(&index(old))) != Ordering::Less;
    if keeps { old.to_vec() } else { operand.to_vec() }
}

/// The numbers of an element, with every NaN replaced by the same NaN, because the bits of a NaN
/// are unspecified.
fn canonical(ty: BasicType, elements: &[u8]) -> Vec<u8> {
    match ty {
        BasicType::Float32 | BasicType::Complex32 => elements
            .chunks_exact(4)
            .flat_map(|part| if read::<f32>(part).is_nan() { bytes(f32::NAN) } else { part.to_vec() })
            .collect(),
        BasicType::Float64 | BasicType::Complex64 => elements
            .chunks_exact(8)
            .flat_map(|part| if read::<f64>(part).is_nan() { bytes(f64::NAN) } else { part.to_vec() })
            .collect(),
        _ => elements.to_vec(),
    }
}

fn legal_pairs() -> impl Iterator<Item = (Op, BasicType)> {
    Op::ALL.into_iter().flat_map(|op| BasicType::ALL.map(|ty| (op, ty))).filter(|(op, ty)| op.allows(*ty))
}

#[test]
fn every_legal_pair_agrees_with_the_model() {
    let mut random = Random(1);
    for (op, ty) in legal_pairs() {
        for count in [0, 1, 2, 3, 7, 16, 33, 500] {
            let (old, operand) = (random.elements(ty, count), random.elements(ty, count));
            let each = old.chunks_exact(ty.size()).zip(operand.chunks_exact(ty.size()));
            let expected: Vec<u8> = each.flat_map(|(a, b)| model(op, ty, a, b)).collect();
            let mut target = old.clone();
            combine(op, ty, &mut target, &operand);
            for (i, (got, want)) in target.chunks(ty.size()).zip(expected.chunks(ty.size())).enumerate() {
                let at = i * ty.size()..(i + 1) * ty.size();
                let (a, b) = (&old[at.clone()], &operand[at]);
                assert_eq!(canonical(ty, got), canonical(ty, want), "{op} on {ty}: element {i}, {a:x?} with {b:x?}");
            }
            assert_eq!(target.len(), expected.len());
        }
    }
}

#[test]
fn alignment_makes_no_difference_and_nothing_outside_changes() {
    let mut random = Random(2);
    for (op, ty) in legal_pairs() {
        let (old, operand) = (random.elements(ty, 19), random.elements(ty, 19));
        let mut expected = old.clone();
        combine(op, ty, &mut expected, &operand);
        for (ours, theirs) in [(0, 0), (1, 0), (0, 3), (5, 7), (8, 4), (2, 2)] {
            let len = old.len();
            let (mut target, mut source) = (vec![0xEE; len + 16], vec![0xDD; len + 16]);
            target[ours..ours + len].copy_from_slice(&old);
            source[theirs..theirs + len].copy_from_slice(&operand);
            combine(op, ty, &mut target[ours..ours + len], &source[theirs..theirs + len]);
            let got = canonical(ty, &target[ours..ours + len]);
            assert_eq!(got, canonical(ty, &expected), "{op} on {ty} at {ours} and {theirs}");
            assert!(target[..ours].iter().chain(&target[ours + len..]).all(|&byte| byte == 0xEE), "{op} on {ty}");
        }
    }
}

#[test]
fn single_elements_agree_with_arrays() {
    let mut random = Random(3);
    let mut pairs = 0;
    for (op, ty) in legal_pairs().filter(|(_, ty)| ty.size() <= 8) {
        pairs += 1;
        for _ in 0..200 {
            let (mut target, operand) = (random.element(ty), random.element(ty));
            // The bits above the value must not matter.
            let (old, other) = (word(&target, random.next()), word(&operand, random.next()));
            let got = combine_one(op, ty, old, other);
            combine(op, ty, &mut target, &operand);
            assert_eq!(got, word(&unword(got, ty.size()), 0), "{op} on {ty}: zeros above the value");
            let got = canonical(ty, &unword(got, ty.size()));
            assert_eq!(got, canonical(ty, &target), "{op} on {ty}: {old:x} with {other:x}");
        }
    }
    assert_eq!(pairs, 2 * 10 + 2 * 11 + 3 * 9 + 3 * 9 + 2 * 3 + 2 * 16);
}

/// The word with `value` in its low bytes and bits of `above` in the others.
fn word(value: &[u8], above: u64) -> u64 {
    let mut bytes = above.to_ne_bytes();
    let size = value.len();
    let low = if cfg!(target_endian = "little") { 0..size } else { 8 - size..8 };
    bytes[low].copy_from_slice(value);
    u64::from_ne_bytes(bytes)
}

fn unword(word: u64, size: usize) -> Vec<u8> {
    let bytes = word.to_ne_bytes();
    if cfg!(target_endian = "little") { bytes[..size].to_vec() } else { bytes[8 - size..].to_vec() }
}

/// `old op operand` of one element.
fn one<T: Element>(op: Op, old: T, operand: T) -> T {
    let (mut target, size) = ([old], T::TYPE.size());
    combine(op, T::TYPE, &mut bytemuck::cast_slice_mut(&mut target)[..size], &bytemuck::bytes_of(&operand)[..size]);
    target[0]
}

#[test]
fn integers_wrap() {
    assert_eq!(one(Op::Sum, i64::MAX, 1), i64::MIN);
    assert_eq!(one(Op::Sum, 250_u8, 10), 4);
    assert_eq!(one(Op::Prod, i16::MIN, -1), i16::MIN);
    assert_eq!(one(Op::Prod, 0x8000_0001_u32, 2), 2);
    assert_eq!(combine_one(Op::Sum, BasicType::Int8, 0x7f, 1), 0x80);
}

#[test]
fn signs_count_in_max_and_min() {
    assert_eq!(one(Op::Max, -1_i8, 1), 1);
    assert_eq!(one(Op::Max, 0xff_u8, 1), 0xff);
    assert_eq!(combine_one(Op::Min, BasicType::Int32, 5, 0xffff_fff0), 0xffff_fff0);
    assert_eq!(combine_one(Op::Min, BasicType::Uint32, 5, 0xffff_fff0), 5);
}

#[test]
fn max_and_min_of_floats_do_not_depend_on_the_order() {
    for op in [Op::Max, Op::Min] {
        for a in FLOATS {
            for b in FLOATS {
                assert_eq!(one(op, a, b).to_bits(), one(op, b, a).to_bits(), "{op} of {a} and {b}");
            }
            assert!(one(op, a, f64::NAN).is_nan() && one(op, f64::NAN, a).is_nan(), "{op} of {a} and NaN");
        }
    }
    assert!(one(Op::Max, -0.0_f32, 0.0).is_sign_positive());
    assert!(one(Op::Min, 0.0_f32, -0.0).is_sign_negative());
    let (first, second) = (f32::from_bits(0x7fc0_0001), f32::from_bits(0x7fc0_0002));
    assert_eq!(one(Op::Max, first, second).to_bits(), first.to_bits(), "of two NaN the target's stays");
}

#[test]
fn equal_values_give_the_smaller_index() {
    for op in [Op::MaxLoc, Op::MinLoc] {
        for (ours, theirs) in [(3, 8), (8, 3), (-2, 3), (3, 3)] {
            let smaller = ours.min(theirs);
            assert_eq!(one(op, TwoInt::new(7, ours), TwoInt::new(7, theirs)), TwoInt::new(7, smaller));
            assert_eq!(one(op, DoubleInt::new(0.0, ours), DoubleInt::new(-0.0, theirs)).index(), smaller);
            assert_eq!(one(op, FloatInt::new(f32::NAN, ours), FloatInt::new(f32::NAN, theirs)).index(), smaller);
        }
        assert_eq!(one(op, FloatInt::new(1.0, 1), FloatInt::new(f32::NAN, 9)).index(), 9, "{op}: NaN wins");
        assert_eq!(one(op, FloatInt::new(f32::NAN, 9), FloatInt::new(f32::INFINITY, 1)).index(), 9, "{op}: NaN wins");
    }
    assert_eq!(one(Op::MaxLoc, LongInt::new(5, 1), LongInt::new(6, 9)), LongInt::new(6, 9));
    assert_eq!(one(Op::MinLoc, ShortInt::new(-5, 9), ShortInt::new(6, 1)), ShortInt::new(-5, 9));
}

#[test]
fn logical_operations_give_one_or_zero() {
    let odd: Logical = bytemuck::cast(0x40_u8);
    let byte = |op, a: Logical, b: Logical| bytemuck::cast::<_, u8>(one(op, a, b));
    let [yes, no] = [true, false].map(Logical::from);
    assert_eq!([byte(Op::Land, odd, yes), byte(Op::Lor, no, odd), byte(Op::Lxor, odd, yes)], [1, 1, 0]);
    assert_eq!([byte(Op::Land, odd, no), byte(Op::Lor, no, no), byte(Op::Lxor, no, odd)], [0, 0, 1]);
    assert_eq!([one(Op::Land, 6_i64, -3), one(Op::Lor, 0, -3), one(Op::Lxor, 6_i64, 9)], [1, 1, 0]);
    assert_eq!(combine_one(Op::Land, BasicType::Int16, 0x1_0000, 1), 0, "bits above the value do not make it true");
}

#[test]
fn complex_products_are_those_of_complex_numbers() {
    let product = one(Op::Prod, Complex::new(1.0_f64, 2.0), Complex::new(3.0, -1.0));
    assert_eq!(product, Complex::new(5.0, 5.0));
}

#[test]
fn words_hold_values_of_up_to_eight_bytes() {
    assert_eq!(bits_of(-1_i16), 0xffff);
    assert_eq!(value_of::<i16>(0xabcd_ffff), -1);
    assert_eq!(value_of::<f64>(bits_of(-2.5_f64)).to_bits(), (-2.5_f64).to_bits());
    assert_eq!(value_of::<TwoInt>(bits_of(TwoInt::new(-4, 6))), TwoInt::new(-4, 6));
}

/// The message of a call that panics.
fn panics(call: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let cause = std::panic::catch_unwind(call).expect_err("the call panics");
    cause.downcast_ref::<String>().expect("a formatted message").clone()
}

#[test]
fn calls_that_the_caller_should_have_refused_panic_with_the_reason() {
    let message = panics(|| combine(Op::Sum, BasicType::Int32, &mut [0; 8], &[0; 4]));
    assert_eq!(message, "MPI_SUM of 8 bytes with 4 bytes");
    let message = panics(|| combine(Op::Sum, BasicType::Int32, &mut [0; 6], &[0; 6]));
    assert_eq!(message, "6 bytes are no whole number of MPI_INT32_T of 4 bytes");
    let message = panics(|| assert_eq!(combine_one(Op::Sum, BasicType::Complex64, 0, 0), 0));
    assert_eq!(message, "an element of MPI_C_DOUBLE_COMPLEX has 16 bytes, a word 8");
    for op in Op::ALL {
        for ty in BasicType::ALL {
            if !op.allows(ty) {
                let message = panics(|| combine(op, ty, &mut vec![0; ty.size()], &vec![0; ty.size()]));
                assert!(message.starts_with(&format!("MPI does not define {op} on ")), "{op} on {ty}: {message}");
            }
        }
    }
}
