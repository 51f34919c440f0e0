//! The data that is put and got, and how it is verified.

use crate::outcome::Outcome;

/// Fills `bytes` with a pattern of their offsets. `turn`, the number of the measured size, selects
/// the pattern, so that data of an earlier size does not pass for right.
pub(crate) fn fill(bytes: &mut [u8], turn: usize) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = value(at, turn);
    }
}

fn value(at: usize, turn: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 8) ^ turn.wrapping_mul(31)).to_le_bytes()[0] | 1
}

/// Fails if bytes are not those of the turn.
pub(crate) fn verify(what: &str, bytes: &[u8], turn: usize) -> Outcome<()> {
    match bytes.iter().enumerate().find(|&(at, &byte)| byte != value(at, turn)) {
        None => Ok(()),
        Some((at, &found)) => {
            let expected = value(at, turn);
            Err(format!("{what}: {} bytes: byte {at} is {found:#04x}, not {expected:#04x}", bytes.len()).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_or_turn_is_found() {
        let mut bytes = vec![0; 300];
        fill(&mut bytes, 3);
        assert!(verify("test", &bytes, 3).is_ok());
        assert!(verify("test", &bytes, 4).is_err());
        bytes[299] ^= 2;
        assert!(verify("test", &bytes, 3).is_err());
        assert!(verify("test", &[0; 8], 0).is_err());
    }
}
