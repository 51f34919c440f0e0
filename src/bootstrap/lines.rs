//! The text format of PMI-1, for both sides: lines of `key=value` words; bytes in base 64 within
//! values, hexadecimal elsewhere. Knows neither commands nor connections.

/// Longest line sent to a launcher that announces no limit, newline included. PMI-1 implementations
/// read lines into buffers of 1,024 bytes.
pub(crate) const MAX_LINE: usize = 1000;

/// Longest accepted line, newline included.
pub const MAX_ACCEPTED: usize = 64 * 1024;

/// The URL- and filename-safe alphabet: its characters have no meaning to any launcher.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// One line, cut into words. Words without `=` are skipped; the first of equal keys counts.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// The words of a line.
    pub fn new(line: &'a str) -> Self {
        Self(line)
    }

    /// The value of `key`, up to the next white space.
    pub fn get(self, key: &str) -> Option<&'a str> {
        let mut pairs = self.0.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// Lines from a byte stream that arrives in arbitrary parts.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl LineBuffer {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line without its newline; `None` until the rest arrives. Bytes that are not
    /// UTF-8 are replaced.
    pub fn next_line(&mut self) -> Option<String> {
        let rest = &self.bytes[self.start..];
        let length = rest.iter().position(|&byte| byte == b'\n')?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.start += length + 1;
        Some(line)
    }

    /// Whether a whole line has arrived.
    pub fn has_line(&self) -> bool {
        self.bytes[self.start..].contains(&b'\n')
    }

    /// Whether an incomplete line is longer than accepted.
    pub fn overflows(&self) -> bool {
        self.bytes.len() - self.start > MAX_ACCEPTED
    }
}

/// `bytes` as lower-case hexadecimal digits, two for each.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of the hexadecimal digits `text`; `None` where it is not an even number of hexadecimal
/// digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

/// `bytes` in base 64, four digits for three of them, without padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let digits = |chunk: &[u8]| {
        let word = chunk.iter().enumerate().fold(0, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        (0..=chunk.len()).map(move |at| char::from(BASE64[(word >> (18 - 6 * at)) as usize & 63])).collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(digits).collect()
}

/// The bytes that [`to_base64`] encoded as `text`; `None` for an invalid encoding.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for (at, digit) in chunk.iter().enumerate() {
            let value = BASE64.iter().position(|known| known == digit)?;
            word |= u32::try_from(value).ok()? << (18 - 6 * at);
        }
        let [_, three @ ..] = word.to_be_bytes();
        let (whole, rest) = three.split_at(chunk.len() - 1);
        if whole.is_empty() || rest.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(whole);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, MAX_ACCEPTED, Words, from_base64, from_hex, to_base64, to_hex};

    #[test]
    fn words_come_in_any_order_and_empty_values_are_values() {
        let words = Words::new("rc=0  value=(vector,(0,1,2)) junk a=b=c empty= cmd=get_result rc=9");
        assert_eq!(words.get("cmd"), Some("get_result"));
        assert_eq!(words.get("value"), Some("(vector,(0,1,2))"));
        assert_eq!(words.get("a"), Some("b=c"));
        assert_eq!(words.get("empty"), Some(""));
        assert_eq!(words.get("rc"), Some("0"));
        assert_eq!(words.get("junk"), None);
    }

    #[test]
    fn hexadecimal_round_trip_and_refusals() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)).as_deref(), Some(&all[..]));
        assert_eq!(from_hex("fF").as_deref(), Some(&[255][..]));
        assert_eq!(from_hex("").as_deref(), Some(&[][..]));
        for bad in ["f", "fg", "+1", " 1", "é"] {
            assert_eq!(from_hex(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn base_64_round_trip_and_refusals() {
        let all: Vec<u8> = (0..=255).rev().collect();
        for length in 0..=all.len() {
            let text = to_base64(&all[..length]);
            assert_eq!(text.len(), (4 * length).div_ceil(3));
            assert_eq!(from_base64(&text).as_deref(), Some(&all[..length]), "{text}");
        }
        assert_eq!(to_base64(b"\xfb\xff\xfe~"), "-__-fg");
        for bad in ["a", "abcde", "ab=", "ab==", "a b", "ab+/", "ab", "abd", "é"] {
            assert_eq!(from_base64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = b"cmd=a x=1\n\ncmd=b\ncmd=c tail\nrest";
        for part in 1..=stream.len() {
            let mut buffer = LineBuffer::default();
            let mut lines = Vec::new();
            for bytes in stream.chunks(part) {
                buffer.push(bytes);
                lines.extend(std::iter::from_fn(|| buffer.next_line()));
            }
            assert_eq!(lines, ["cmd=a x=1", "", "cmd=b", "cmd=c tail"], "parts of {part}");
            assert!(!buffer.overflows());
        }
    }

    #[test]
    fn an_endless_line_is_detected() {
        let mut buffer = LineBuffer::default();
        buffer.push(&vec![b'x'; MAX_ACCEPTED]);
        assert!(!buffer.overflows());
        buffer.push(b"x");
        assert!(buffer.overflows() && buffer.next_line().is_none());
    }
}
