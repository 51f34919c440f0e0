//! Bounce buffers for cross-memory attach. The kernel's copy is slow between some addresses
//! (`is_close_behind`). Long copies between such addresses go through a buffer of the calling
//! thread, at an offset in a page for which the kernel's copy is fast.

use std::cell::OnceCell;
use std::io;

use transom_fabric::{Memory, Span, is_close_behind};

use crate::cma::{RemoteAddress, Vector, slice_of, slice_of_mut};

/// Shorter copies go directly.
const LONG: usize = 16 << 10;
/// Bytes that one system call moves.
const PIECE: usize = 64 << 10;
/// Bytes of a page.
const PAGE: usize = 4096;

thread_local! {
    /// Room for a piece, from any offset in a page on.
    static BUFFER: OnceCell<Memory> = const { OnceCell::new() };
}

/// Whether a copy of `len` bytes between these addresses is long, and slow for the kernel.
#[inline]
pub(crate) fn is_slow(from: u64, to: u64, len: usize) -> bool {
    len >= LONG && is_close_behind(from, to)
}

/// Fills `into` from the other process.
///
/// # Safety
/// `into` is writable, and not accessed otherwise, during the call.
///
/// # Errors
/// As for [`crate::cma::read_into`]; a part may have been filled.
pub(crate) unsafe fn read(from: RemoteAddress, into: Span) -> io::Result<()> {
    in_pieces(from, into, |mut vector, buffer, place, piece| {
        // SAFETY: the vector has a range of the buffer, which this thread alone uses.
        unsafe { vector.read(from.pid) }?;
        // SAFETY: writable and not accessed otherwise (caller).
        buffer.read(place, unsafe { slice_of_mut(piece) });
        Ok(())
    })
}

/// Writes the bytes of `from` into the other process.
///
/// # Safety
/// `from` is readable during the call, and no thread writes it.
///
/// # Errors
/// As for [`crate::cma::read_into`]; a part may have been written.
pub(crate) unsafe fn write(to: RemoteAddress, from: Span) -> io::Result<()> {
    in_pieces(to, from, |mut vector, buffer, place, piece| {
        // SAFETY: readable and not written (caller).
        buffer.write(place, unsafe { slice_of(piece) });
        // SAFETY: the vector has a range of the buffer, which this thread alone uses.
        unsafe { vector.write(to.pid) }
    })
}

/// Calls `step` for each piece of `ours`, with the piece's part of the buffer as a vector with the
/// other process's address, and with the offset of that part.
fn in_pieces(
    there: RemoteAddress,
    ours: Span,
    step: impl Fn(Vector<1>, &Memory, usize, Span) -> io::Result<()>,
) -> io::Result<()> {
    let new = || Memory::private(PIECE + PAGE);
    // A thread that ends has no buffer any more.
    let buffer = BUFFER.try_with(|buffer| buffer.get_or_init(new).clone()).unwrap_or_else(|_| new());
    for at in (0..ours.len()).step_by(PIECE) {
        let address = there.address + at as u64;
        // The part of the buffer begins at the same offset in a page as the other side, which suits
        // the kernel.
        #[allow(clippy::cast_possible_truncation)] // less than a page
        let place = (address.wrapping_sub(buffer.as_ptr().addr() as u64) % PAGE as u64) as usize;
        let len = PIECE.min(ours.len() - at);
        let (Some(part), Some(piece)) = (buffer.span().slice(place, len), ours.slice(at, len)) else {
            unreachable!("{len} bytes at {place} of the buffer, at {at} of {} bytes", ours.len())
        };
        step(Vector::of(part, address), &buffer, place, piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        i32::try_from(std::process::id()).expect("a process number")
    }

    /// Copies between two buffers of this process, at offsets for which the kernel's copy is slow.
    #[test]
    fn long_copies_are_whole_at_places_that_are_slow() {
        for (behind, len) in [(1, LONG), (16, PIECE), (31, 2 * PIECE + 4097), (16, PIECE - 1)] {
            let source: Vec<u8> = (0..251).cycle().skip(behind).take(len + PAGE).collect();
            let mut target = vec![0u8; len + 2 * PAGE];
            let start = source.as_ptr().addr().wrapping_add(behind).wrapping_sub(target.as_ptr().addr()) % PAGE;
            let (from, to) = (source.as_ptr().addr() as u64, target.as_ptr().addr() as u64 + start as u64);
            assert_eq!(is_slow(from, to, len), cfg!(target_arch = "x86_64"));
            assert!(!is_slow(from, to, LONG - 1) && !is_slow(from, to + 32, len));
            // SAFETY: `len` bytes of the vector.
            unsafe { read(RemoteAddress { pid: own(), address: from }, Span::of_mut(&mut target[start..start + len])) }
                .expect("own memory");
            assert!(target[start..start + len] == source[..len], "reading {len} bytes");
            assert!(target[..start].iter().chain(&target[start + len..]).all(|&byte| byte == 0), "{len} bytes");
            target.fill(0);
            // SAFETY: `len` bytes of the vector.
            unsafe { write(RemoteAddress { pid: own(), address: to }, Span::of(&source[..len])) }.expect("own memory");
            assert!(target[start..start + len] == source[..len], "writing {len} bytes");
            assert!(target[..start].iter().chain(&target[start + len..]).all(|&byte| byte == 0), "{len} bytes");
        }
    }
}
