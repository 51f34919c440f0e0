//! Combines the elements of two arrays, by the widest vectors of the CPU. Owns no memory;
//! independent of operations and types.

/// Length in bytes from which wide vectors are used.
#[cfg(any(test, target_arch = "x86_64"))]
const WIDE: usize = 256;

/// Replaces each `T` in the `len` bytes at `to` by `function` of this `T` and of the `T` at the
/// same offset from `from`. The addresses may have any alignment.
///
/// # Safety
/// During the call, `len` bytes at `from` are readable and `len` bytes at `to` are readable and
/// writable, without other accesses, and the two do not overlap.
#[inline]
pub(crate) unsafe fn combine<T: bytemuck::Pod>(to: *mut u8, from: *const u8, len: usize, function: impl Fn(T, T) -> T) {
    #[cfg(target_arch = "x86_64")]
    if len >= WIDE && std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is the caller's promise.
        return unsafe { combine_avx2(to, from, len, function) };
    }
    // SAFETY: the caller's promise.
    unsafe { combine_each(to, from, len, function) }
}

/// The loop with AVX2, which most x86-64 processors of the last ten years have; its vectors are
/// twice as wide as those of the baseline.
///
/// # Safety
/// As for [`combine`], on a processor with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_avx2<T: bytemuck::Pod>(to: *mut u8, from: *const u8, len: usize, function: impl Fn(T, T) -> T) {
    // SAFETY: the caller's promise.
    unsafe { combine_each(to, from, len, function) }
}

/// The loop over the elements, compiled for the caller's instruction set.
///
/// # Safety
/// As for [`combine`].
#[inline(always)]
unsafe fn combine_each<T: bytemuck::Pod>(to: *mut u8, from: *const u8, len: usize, function: impl Fn(T, T) -> T) {
    let (to, from) = (to.cast::<T>(), from.cast::<T>());
    for index in 0..len.checked_div(size_of::<T>()).unwrap_or(0) {
        // SAFETY: `len` bytes hold all of these `T`s (caller); any bytes are a valid `T`, and
        // unaligned accesses have no other requirement.
        unsafe {
            let new = function(to.add(index).read_unaligned(), from.add(index).read_unaligned());
            to.add(index).write_unaligned(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WIDE;
    use crate::Memory;

    /// Both loops, at any alignment, change the right elements and no other bytes.
    #[test]
    fn short_and_long_arrays_give_equal_results() {
        for len in [0usize, 1, 7, 8, 31, WIDE - 1, WIDE, WIDE + 1, 10 * WIDE + 13] {
            for skew in [0, 1, 5] {
                let operand: Vec<u8> = (0..251).cycle().step_by(37).take(len + skew).collect();
                let before: Vec<u8> = (0..253).cycle().step_by(11).take(len + skew + 8).collect();
                let memory = Memory::private(before.len());
                memory.write(0, &before);
                memory.combine(skew, &operand[skew..], |a: u32, b: u32| a.wrapping_sub(b));
                let mut after = vec![0; before.len()];
                memory.read(0, &mut after);
                let whole = skew + len / 4 * 4;
                for at in (skew..whole).step_by(4) {
                    let word = |bytes: &[u8]| bytemuck::pod_read_unaligned::<u32>(&bytes[at..at + 4]);
                    assert_eq!(word(&after), word(&before).wrapping_sub(word(&operand)), "at {at} of {len}");
                }
                assert_eq!((&after[..skew], &after[whole..]), (&before[..skew], &before[whole..]), "{len} bytes");
            }
        }
    }
}
