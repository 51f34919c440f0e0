//! Results of operations (MPI-4.1 §5.9, §12.3.4), written a second time by hand: the tests' own
//! arithmetic on elements as bytes. Takes only the names of operations and types from the library.

use transom::{BasicType, Op};

macro_rules! numbers {
    ($old:ident, $operand:ident, $op:ident, $ty:ty, $plus:expr, $times:expr) => {{
        let (a, b) = (read::<$ty>($old), read::<$ty>($operand));
        let result: $ty = match $op {
            Op::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
            Op::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Op::Sum => $plus(a, b),
            Op::Prod => $times(a, b),
            _ => panic!("{} is not modelled here", $op.name()),
        };
        bytemuck::bytes_of(&result).to_vec()
    }};
}

macro_rules! integer {
    ($old:ident, $operand:ident, $op:ident, $ty:ty) => {{
        let (a, b) = (read::<$ty>($old), read::<$ty>($operand));
        let truth = |is: bool| bytemuck::bytes_of(&<$ty>::from(is)).to_vec();
        match $op {
            Op::Land => truth(a != 0 && b != 0),
            Op::Lor => truth(a != 0 || b != 0),
            Op::Lxor => truth((a != 0) != (b != 0)),
            Op::Band | Op::Bor | Op::Bxor => bitwise($old, $operand, $op),
            _ => numbers!($old, $operand, $op, $ty, <$ty>::wrapping_add, <$ty>::wrapping_mul),
        }
    }};
}

macro_rules! complex {
    ($old:ident, $operand:ident, $op:ident, $ty:ty) => {{
        let ([a, b], [c, d]) = (read::<[$ty; 2]>($old), read::<[$ty; 2]>($operand));
        let result = match $op {
            Op::Sum => [a + c, b + d],
            Op::Prod => [a * c - b * d, a * d + b * c],
            _ => panic!("{} is not modelled on complex numbers", $op.name()),
        };
        bytemuck::bytes_of(&result).to_vec()
    }};
}

macro_rules! pair {
    ($old:ident, $operand:ident, $op:ident, $ty:ty, $index:expr) => {{
        let at = |bytes: &[u8]| (read::<$ty>(&bytes[..size_of::<$ty>()]), read::<i32>(&bytes[$index..$index + 4]));
        let ((a, i), (b, j)) = (at($old), at($operand));
        let better = match $op {
            Op::MaxLoc => b > a,
            Op::MinLoc => b < a,
            _ => panic!("{} is not modelled on pairs", $op.name()),
        };
        if better || a == b && j < i { $operand.to_vec() } else { $old.to_vec() }
    }};
}

/// The result of `op` on `old` and `operand`.
pub(crate) fn combined(op: Op, ty: BasicType, old: &[u8], operand: &[u8]) -> Vec<u8> {
    use BasicType as B;
    match (op, ty) {
        (Op::Replace, _) => operand.to_vec(),
        (Op::NoOp, _) => old.to_vec(),
        (_, B::Int8) => integer!(old, operand, op, i8),
        (_, B::Int16) => integer!(old, operand, op, i16),
        (_, B::Int32) => integer!(old, operand, op, i32),
        (_, B::Int64) => integer!(old, operand, op, i64),
        (_, B::Uint8 | B::Bool | B::Byte) => integer!(old, operand, op, u8),
        (_, B::Uint16) => integer!(old, operand, op, u16),
        (_, B::Uint32) => integer!(old, operand, op, u32),
        (_, B::Uint64) => integer!(old, operand, op, u64),
        (_, B::Float32) => numbers!(old, operand, op, f32, |a, b| a + b, |a, b| a * b),
        (_, B::Float64) => numbers!(old, operand, op, f64, |a, b| a + b, |a, b| a * b),
        (_, B::Complex32) => complex!(old, operand, op, f32),
        (_, B::Complex64) => complex!(old, operand, op, f64),
        (_, B::FloatInt) => pair!(old, operand, op, f32, 4),
        (_, B::DoubleInt) => pair!(old, operand, op, f64, 8),
        (_, B::LongInt) => pair!(old, operand, op, i64, 8),
        (_, B::TwoInt) => pair!(old, operand, op, i32, 4),
        (_, B::ShortInt) => pair!(old, operand, op, i16, 4),
        _ => panic!("{} is not modelled", ty.name()),
    }
}

/// [`combined`] for each element of an array. The padding of `old` stays.
pub(crate) fn all_combined(op: Op, ty: BasicType, old: &[u8], operand: &[u8]) -> Vec<u8> {
    let extent = ty.extent();
    let elements = old.chunks(extent).zip(operand.chunks(extent)).flat_map(|(old, operand)| {
        let mut new = combined(op, ty, old, operand);
        new[ty.size()..].copy_from_slice(&old[ty.size()..]);
        new
    });
    elements.collect()
}

/// An array with `padding` behind the data of each element.
pub(crate) fn with_padding(ty: BasicType, mut array: Vec<u8>, padding: u8) -> Vec<u8> {
    array.chunks_mut(ty.extent()).for_each(|element| element[ty.size()..].fill(padding));
    array
}

/// Elements of a type by a seed: small numbers, so that floats are exact, some of them equal,
/// negative ones where the type has them, and integers that wrap. Padding has any value.
pub(crate) fn elements(ty: BasicType, count: usize, seed: u64) -> Vec<u8> {
    (0..count as u64).flat_map(|index| element(ty, mixed(seed.wrapping_mul(0x1_0001).wrapping_add(index)))).collect()
}

fn element(ty: BasicType, random: u64) -> Vec<u8> {
    use BasicType as B;
    // Halves of small numbers and their products are exact.
    let small = i16::from((random % 17).to_le_bytes()[0]) - 8;
    let other = i16::from((random / 17 % 9).to_le_bytes()[0]) - 4;
    let index = i32::from((random / 170 % 5).to_le_bytes()[0]);
    let mut bytes = match ty {
        B::Float32 => bytemuck::bytes_of(&(f32::from(small) / 2.0)).to_vec(),
        B::Float64 => bytemuck::bytes_of(&(f64::from(small) / 2.0)).to_vec(),
        B::Complex32 => bytemuck::bytes_of(&[f32::from(small), f32::from(other)]).to_vec(),
        B::Complex64 => bytemuck::bytes_of(&[f64::from(small), f64::from(other)]).to_vec(),
        B::FloatInt => [bytemuck::bytes_of(&f32::from(small)), bytemuck::bytes_of(&index)].concat(),
        B::DoubleInt => [bytemuck::bytes_of(&f64::from(small)), bytemuck::bytes_of(&index)].concat(),
        B::LongInt => [bytemuck::bytes_of(&i64::from(small)), bytemuck::bytes_of(&index)].concat(),
        B::TwoInt => [bytemuck::bytes_of(&i32::from(small)), bytemuck::bytes_of(&index)].concat(),
        B::ShortInt => [bytemuck::bytes_of(&small), &[0; 2], bytemuck::bytes_of(&index)].concat(),
        B::Bool => vec![(random % 3).to_le_bytes()[0] * 7],
        // Sometimes zero, for logical operations.
        _ if random.is_multiple_of(5) => Vec::new(),
        _ => mixed(random).to_ne_bytes()[..ty.size()].to_vec(),
    };
    bytes.resize(ty.size(), 0);
    bytes.resize(ty.extent(), random.to_le_bytes()[3]);
    bytes
}

/// Whether arrays are equal, but for the gaps of `MPI_SHORT_INT`.
pub(crate) fn equal(ty: BasicType, a: &[u8], b: &[u8]) -> bool {
    let gap = if ty == BasicType::ShortInt { 2..4 } else { 0..0 };
    let counts = |at: usize| !gap.contains(&(at % ty.extent()));
    a.len() == b.len() && a.iter().zip(b).enumerate().all(|(at, (a, b))| !counts(at) || a == b)
}

/// A pseudo-random number (splitmix64's finalizer).
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn read<T: bytemuck::Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}

fn bitwise(old: &[u8], operand: &[u8], op: Op) -> Vec<u8> {
    let one = |(a, b): (&u8, &u8)| match op {
        Op::Band => a & b,
        Op::Bor => a | b,
        _ => a ^ b,
    };
    old.iter().zip(operand).map(one).collect()
}
