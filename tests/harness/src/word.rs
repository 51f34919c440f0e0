//! Operations of the byte-level window on one aligned word of 64 bits, for tests.

use transom::{BasicType, CompareSwap, Op, RawWindow, Result};

/// `fetch_and_op`; returns the previous value.
///
/// # Errors
/// Those of the call.
pub fn fetch(win: &RawWindow, target: usize, at: u64, op: Op, operand: u64) -> Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_ne_bytes(), &mut old, BasicType::Uint64, target, at, op)?;
    Ok(u64::from_ne_bytes(old))
}

/// `compare_and_swap`; returns the previous value.
///
/// # Errors
/// Those of the call.
pub fn swap(win: &RawWindow, target: usize, at: u64, expected: u64, new: u64) -> Result<u64> {
    let mut old = [0; 8];
    let values = CompareSwap { expected: &expected.to_ne_bytes()[..], new: &new.to_ne_bytes()[..] };
    win.compare_and_swap(values, &mut old, BasicType::Uint64, target, at)?;
    Ok(u64::from_ne_bytes(old))
}

/// Loads a word of this rank's part, `index` words after its beginning.
pub fn load(win: &RawWindow, index: usize) -> u64 {
    let mut bytes = [0; 8];
    win.load(index * 8, &mut bytes);
    u64::from_ne_bytes(bytes)
}
