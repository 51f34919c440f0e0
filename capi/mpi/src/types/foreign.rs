//! The basic types that Rust lacks, and their arithmetic in C (`host/arithmetic.c`).

use std::ffi::c_int;

use transom::reduce::foreign::{self, Foreign};
use transom::{BasicType, Op};

use crate::host::{host_combine, host_has_foreign};

/// Registers C's arithmetic for them in this process.
pub(super) fn begin() {
    foreign::serve(combine);
}

fn combine(ty: Foreign, op: Op, target: &mut [u8], operand: &[u8]) {
    let size = BasicType::Foreign(ty).size();
    assert!(target.len() == size && operand.len() == size, "one element of {size} bytes each");
    let (target, operand) = (target.as_mut_ptr().cast(), operand.as_ptr().cast());
    // SAFETY: both point to one element, at any alignment. The compiler has the type: `basic` makes
    // no datatype of others.
    unsafe { host_combine(ty as c_int, op.number().into(), target, operand) }
}

/// The type of a kind (`struct predefined` of host/host.h) and size in bytes, if the compiler has
/// it.
pub(super) fn basic(kind: u8, size: usize) -> Option<BasicType> {
    let ty = match (kind, size) {
        (b'i', 16) => Foreign::Int128,
        (b'b', 2) => Foreign::Logical16,
        (b'b', 4) => Foreign::Logical32,
        (b'b', 8) => Foreign::Logical64,
        (b'b', 16) => Foreign::Logical128,
        (b'f', 2) => Foreign::Float16,
        (b'c', 4) => Foreign::Complex16,
        (b'l', 16) => Foreign::LongDouble,
        (b'm', 32) => Foreign::ComplexLong,
        (b'q', 16) => Foreign::Float128,
        (b'r', 32) => Foreign::Complex128,
        // A `long double` and an `int`, without padding after them.
        (b'X', 20) => Foreign::LongDoubleInt,
        (b'R', 8) => Foreign::TwoFloat,
        (b'R', 16) => Foreign::TwoDouble,
        _ => return None,
    };
    // SAFETY: the call takes the number of a type.
    let has = unsafe { host_has_foreign(ty as c_int) } != 0;
    has.then_some(BasicType::Foreign(ty))
}
