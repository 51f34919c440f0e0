//! Copies of bytes by this CPU: libc's `memcpy`, except in two cases in which `memcpy` is slow. If
//! `rep movsb` would be slow between the addresses (`is_close_behind`), a loop of this module
//! copies. Other copies of more than `PIECE` are split, so that libc does not use non-temporal
//! stores.

use std::ptr::copy_nonoverlapping;

/// Shortest copy for which libc may be slow: glibc's threshold for `rep movsb` is 2112 bytes or
/// more.
const LONG: usize = 2112;

/// The most bytes of one `memcpy`. From sizes that depend on the cache on, libc uses loops of wide
/// stores, and then non-temporal stores. A copy of 1 MiB by non-temporal stores takes a fifth
/// longer than a copy in pieces of this size.
pub(crate) const PIECE: usize = 128 << 10;

/// Bytes that the loop of `copy_backwards` copies in each iteration.
const STEP: usize = 64;

/// Copies bytes. Out of line, so that callers, whose hot path stores one word, save registers for
/// at most one call, as for `memcpy` itself.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline(never)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len >= LONG {
        // SAFETY: the caller's promise.
        return unsafe { copy_long(from, to, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy_nonoverlapping(from, to, len) }
}

/// # Safety
/// As for [`copy`].
#[cold]
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    if is_close_behind(from.addr() as u64, to.addr() as u64) {
        // SAFETY: the caller's promise.
        return unsafe { copy_backwards(from, to, len) };
    }
    for at in (0..len).step_by(PIECE) {
        // SAFETY: the caller's promise; `at` is inside.
        unsafe { copy_nonoverlapping(from.add(at), to.add(at), PIECE.min(len - at)) };
    }
}

/// Whether a copy's target address exceeds its source address by 1 to 31 bytes, modulo 4 KiB.
/// `rep movsb`, by which libc and the kernel copy, then moves 2 to 3 GB/s on AMD's Zen 3 instead of
/// 40 GB/s. The CPU first compares only the low 12 bits of addresses, and therefore takes each load
/// for a load of the bytes that were just stored. A common case is a get from the start of a
/// window, which begins with a page, into a large block of `malloc`, which begins 16 bytes after
/// the start of a page. Another case is a row that moves by one element.
#[inline]
pub fn is_close_behind(from: u64, to: u64) -> bool {
    cfg!(target_arch = "x86_64") && (1..32).contains(&(to.wrapping_sub(from) % 4096))
}

/// Copies the last bytes first, so that no load follows a store to an address with the same low 12
/// bits.
///
/// # Safety
/// As for [`copy`].
unsafe fn copy_backwards(from: *const u8, to: *mut u8, len: usize) {
    let steps = len / STEP;
    // SAFETY: the caller's promise; the offset is inside.
    unsafe { copy_nonoverlapping(from.add(steps * STEP), to.add(steps * STEP), len % STEP) };
    for step in (0..steps).rev() {
        // SAFETY: the caller's promise; the step is inside. Unaligned accesses need no alignment.
        unsafe {
            let (from, to) = (from.add(step * STEP).cast::<u128>(), to.add(step * STEP).cast::<u128>());
            let words = [0, 1, 2, 3].map(|word| from.add(word).read_unaligned());
            for word in [3, 2, 1, 0] {
                to.add(word).write_unaligned(words[word]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_at_any_distance_of_the_places_in_pages() {
        let source: Vec<u8> = (0..251).cycle().take(4 * LONG + 4096).collect();
        for (behind, len) in [0, 1, 16, 31, 32, 4095]
            .into_iter()
            .flat_map(|behind| [LONG - 1, LONG, LONG + 1, LONG + STEP - 1, 3 * LONG + 77].map(|len| (behind, len)))
        {
            let mut target = vec![0; 2 * 4096 + len + STEP];
            let (from, base) = (source.as_ptr().wrapping_add(5), target.as_mut_ptr());
            let at = from.addr().wrapping_add(behind).wrapping_sub(base.addr()) % 4096;
            let to = base.wrapping_add(at);
            let is_close = is_close_behind(from.addr() as u64, to.addr() as u64);
            assert_eq!(is_close, cfg!(target_arch = "x86_64") && (1..32).contains(&behind));
            // SAFETY: `len` bytes of the source from 5 on, and of the target from `at` on.
            unsafe { copy(from, to, len) };
            assert!(target[at..at + len] == source[5..5 + len], "{len} bytes, {behind} behind");
            let untouched = target[..at].iter().chain(&target[at + len..]).all(|&byte| byte == 0);
            assert!(untouched, "{len} bytes, {behind} behind: bytes beside the target");
        }
    }
}
