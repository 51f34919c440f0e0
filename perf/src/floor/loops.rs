//! The loops that a program would write over mapped memory of the other process, here the memory of
//! the library's window.

use std::hint::black_box;

use transom::SharedPart;

/// Adds a vector to the beginning of the part; the compiler vectorizes the loop.
pub(crate) fn add(part: &SharedPart, from: &[f64]) {
    let base = part.base().cast::<f64>();
    assert!(size_of_val(from) <= part.size() && base.is_aligned(), "{} elements at {base:p}", from.len());
    // SAFETY: inside the part (asserted), aligned, and mapped as long as `part` lives; no other
    // code accesses the part meanwhile, and the reference ends with this call.
    let to = unsafe { std::slice::from_raw_parts_mut(black_box(base), from.len()) };
    for (to, from) in to.iter_mut().zip(black_box(from)) {
        *to += *from;
    }
}

/// Stores words to every other word of the part.
pub(crate) fn every_other(part: &SharedPart, from: &[u64]) {
    let base = part.base().cast::<u64>();
    assert!(2 * size_of_val(from) <= part.size() && base.is_aligned(), "{} blocks at {base:p}", from.len());
    // SAFETY: inside the part (asserted), aligned, and mapped as long as `part` lives; no other
    // code accesses the part meanwhile.
    let to = unsafe { std::slice::from_raw_parts_mut(black_box(base), 2 * from.len()) };
    for (to, from) in to.chunks_exact_mut(2).zip(black_box(from)) {
        to[0] = *from;
    }
}
