//! Lists of strips in few bytes. Each strip is encoded relative to the one before it: the offset as
//! a difference, and fields only where they change. Numbers are LEB128: seven bits in each byte,
//! the lowest first; the top bit says that more follow. Signed numbers are zigzag-encoded.

use super::codec::{MAX_STRIPS, Reader, STRIP};
use crate::datatype::Strip;

/// Most bytes of a strip in a packed list: one for the fields that follow, ten for each field.
pub(crate) const PACKED_MOST: usize = 41;
/// Most bytes of the number of strips of a packed list.
pub(crate) const PACKED_COUNT: usize = 2;
/// The most strips of a packed list.
pub(crate) const MAX_PACKED: usize = (1 << (7 * PACKED_COUNT)) - 1;

/// The strip has another block length than the one before.
const BLOCK: u8 = 1;
/// The strip has several blocks: count and stride follow.
const SEVERAL: u8 = 2;

/// Appends a list of at most [`MAX_PACKED`] strips.
pub(super) fn pack(out: &mut Vec<u8>, strips: &[Strip]) {
    assert!(strips.len() <= MAX_PACKED, "at most MAX_PACKED");
    push_leb128(out, strips.len() as u64);
    let mut before = Strip::one(0, 0);
    for strip in strips {
        let block = if strip.block == before.block { 0 } else { BLOCK };
        let several = if strip.count == 1 { 0 } else { SEVERAL };
        out.push(block | several);
        push_leb128(out, zigzag(strip.offset.wrapping_sub(before.offset)));
        if block != 0 {
            push_leb128(out, strip.block as u64);
        }
        if several != 0 {
            push_leb128(out, strip.count as u64);
            push_leb128(out, zigzag(strip.stride));
        }
        before = *strip;
    }
}

/// The number of bytes of `strip` in a packed list, after the strip `before`.
pub(crate) fn packed_len(before: Option<&Strip>, strip: &Strip) -> usize {
    let (offset, block) = before.map_or((0, 0), |before| (before.offset, before.block));
    let mut len = 1 + leb128_len(zigzag(strip.offset.wrapping_sub(offset)));
    if strip.block != block {
        len += leb128_len(strip.block as u64);
    }
    if strip.count != 1 {
        len += leb128_len(strip.count as u64) + leb128_len(zigzag(strip.stride));
    }
    len
}

/// The most bytes of `count` strips in a request.
pub(super) fn most_len(count: usize) -> usize {
    if count <= MAX_STRIPS { STRIP * count } else { PACKED_COUNT + PACKED_MOST * count }
}

impl Reader<'_> {
    /// The strips of a packed list.
    pub(super) fn packed(&mut self) -> Option<Vec<Strip>> {
        let count = usize::try_from(self.leb128()?).ok()?;
        // A strip has at least two bytes, so that a false number reserves no memory.
        let mut strips = Vec::with_capacity(count.min(self.0.len() / 2));
        let (mut offset, mut block) = (0i64, 0);
        for _ in 0..count {
            let (&fields, rest) = self.0.split_first()?;
            self.0 = rest;
            if fields & !(BLOCK | SEVERAL) != 0 {
                return None;
            }
            offset = offset.wrapping_add(unzigzag(self.leb128()?));
            if fields & BLOCK != 0 {
                block = self.leb128()?;
            }
            let (count, stride) =
                if fields & SEVERAL == 0 { (1, 0) } else { (self.leb128()?, unzigzag(self.leb128()?)) };
            strips.push(Strip::decode([offset.cast_unsigned(), block, count, stride.cast_unsigned()])?);
        }
        Some(strips)
    }

    fn leb128(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for place in 0..10 {
            let (&digit, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(digit & 0x7f);
            // The tenth digit has one bit.
            if place == 9 && bits > 1 {
                return None;
            }
            number |= bits << (7 * place);
            if digit < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[allow(clippy::cast_possible_truncation)] // the lowest bits
fn push_leb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number of bytes of a LEB128 number.
fn leb128_len(number: u64) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

/// Zigzag encoding: numbers near 0, of either sign, become small numbers.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(strips: &[Strip]) {
        let mut bytes = Vec::new();
        pack(&mut bytes, strips);
        let before = |at: usize| at.checked_sub(1).map(|at| &strips[at]);
        let len: usize = strips.iter().enumerate().map(|(at, strip)| packed_len(before(at), strip)).sum();
        assert_eq!(bytes.len(), leb128_len(strips.len() as u64) + len);
        let mut reader = Reader(&bytes);
        let found = reader.packed().expect("packed");
        assert!(reader.0.is_empty());
        assert_eq!(found, strips);
        for len in 0..bytes.len() {
            assert_eq!(Reader(&bytes[..len]).packed(), None, "cut after {len} bytes");
        }
    }

    #[test]
    fn numbers_of_every_length_are_kept() {
        for bits in 0..64 {
            for number in [1u64 << bits, (1 << bits) - 1] {
                let mut bytes = Vec::new();
                push_leb128(&mut bytes, number);
                assert_eq!(bytes.len(), leb128_len(number));
                assert_eq!(Reader(&bytes).leb128(), Some(number));
                assert_eq!(unzigzag(zigzag(number.cast_signed())), number.cast_signed());
            }
        }
        assert_eq!(Reader(&[0xff; 20]).leb128(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3]).leb128(), None);
    }

    #[test]
    fn neighbouring_blocks_take_two_or_three_bytes() {
        let strips: Vec<_> = (0..100).map(|at| Strip::one(at * 24, 8)).collect();
        let mut bytes = Vec::new();
        pack(&mut bytes, &strips);
        assert_eq!(bytes.len(), 1 + 3 + 99 * 2);
        round_trip(&strips);
        let far = Strip { offset: i64::MIN, block: 1, count: 2, stride: 1 };
        round_trip(&[Strip::one(i64::MAX - 8, 8), far, Strip::one(0, 8)]);
    }

    #[test]
    fn false_lists_are_refused() {
        // More strips than bytes, unknown fields, a block of no bytes.
        for bytes in [&[0x7f, 0, 0][..], &[1, 4, 0], &[1, 0, 0], &[1, 3, 0, 8, 0, 0]] {
            assert_eq!(Reader(bytes).packed(), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn lists_are_kept(parts in prop::collection::vec((-1i64 << 40..1 << 40, 1usize..1 << 20, 1usize..9, -1i64 << 30..1 << 30), 0..40)) {
            let strip = |&(offset, block, count, stride): &_| Strip { offset, block, count, stride: if count == 1 { 0 } else { stride } };
            round_trip(&parts.iter().map(strip).collect::<Vec<_>>());
        }
    }
}
