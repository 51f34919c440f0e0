//! One Rust file, split into the text that the compiler reads and the text for people. Owns the
//! scanner that distinguishes code from comments, strings, character literals and lifetimes.
//! Independent of the rules.

use std::ops::Range;

/// A Rust file in three views of equal length, so that offsets and line numbers are the same in
/// each.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path below the root of the tree, with `/` between folders.
    pub(crate) path: String,
    /// The whole file.
    pub(crate) text: String,
    /// The file with comments and the insides of literals blanked out.
    pub(crate) code: String,
    /// The file with everything but its comments blanked out.
    pub(crate) comments: String,
    /// Offset of the first byte of each line.
    starts: Vec<usize>,
}

/// The kind of a run of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Scans `text`, the content of the file at `path`.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut code = blank(text);
        let mut comments = code.clone();
        for (kind, range) in runs(text.as_bytes()) {
            match kind {
                Kind::Code => code[range.clone()].copy_from_slice(&text.as_bytes()[range]),
                Kind::Comment => comments[range.clone()].copy_from_slice(&text.as_bytes()[range]),
                Kind::Literal => {}
            }
        }
        let newlines = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i + 1);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: String::from_utf8_lossy(&code).into_owned(),
            comments: String::from_utf8_lossy(&comments).into_owned(),
            starts: std::iter::once(0).chain(newlines).collect(),
        }
    }

    /// Number of the line that holds the byte at `offset`; the first line is 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// Lines of the file, including a last one without line feed.
    pub(crate) fn line_count(&self) -> usize {
        self.text.lines().count()
    }
}

/// Identifiers, keywords and numbers of `code` with their offsets.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &code[start..at]))
    })
}

/// Offset of the brace that closes the one at `open` of `code`; the end of `code` if there is none.
pub(crate) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return i,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// As many spaces as `text` has bytes; line feeds are kept.
fn blank(text: &str) -> Vec<u8> {
    text.bytes().map(|b| if b == b'\n' { b } else { b' ' }).collect()
}

/// The whole of `text` as runs of one kind, in order. The delimiters of a literal are code, its
/// content is not.
fn runs(text: &[u8]) -> Vec<(Kind, Range<usize>)> {
    let mut runs = Vec::new();
    let mut code_from = 0;
    let mut at = 0;
    while at < text.len() {
        if let Some((kind, inside)) = literal_or_comment(text, at) {
            runs.push((Kind::Code, code_from..inside.start));
            code_from = inside.end;
            at = match kind {
                Kind::Literal => after_delimiter(text, inside.clone()),
                _ => inside.end,
            };
            runs.push((kind, inside));
        } else {
            at += 1;
        }
    }
    runs.push((Kind::Code, code_from..text.len()));
    runs
}

/// Skips the quote and hashes that close a literal; they remain code.
fn after_delimiter(text: &[u8], inside: Range<usize>) -> usize {
    let mut end = (inside.end + 1).min(text.len());
    let mut before = inside.start - 1;
    while before > 0 && text[before - 1] == b'#' && text.get(end) == Some(&b'#') {
        before -= 1;
        end += 1;
    }
    end
}

/// The comment or the content of the literal that begins at `at`, if there is one.
fn literal_or_comment(text: &[u8], at: usize) -> Option<(Kind, Range<usize>)> {
    let rest = &text[at..];
    let boundary = at == 0 || !is_word(text[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            let length = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            Some((Kind::Comment, at..at + length))
        }
        b'/' if rest.starts_with(b"/*") => Some((Kind::Comment, at..at + block_comment_length(rest))),
        b'"' => Some((Kind::Literal, at + 1..quoted_end(text, at + 1, b'"'))),
        b'\'' if opens_char(rest) => Some((Kind::Literal, at + 1..quoted_end(text, at + 1, b'\''))),
        b'r' | b'b' | b'c' if boundary => raw_string(text, at),
        _ => None,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Whether the quote that `rest` begins with opens a character literal and not a lifetime.
fn opens_char(rest: &[u8]) -> bool {
    let Some(&first) = rest.get(1) else {
        return false;
    };
    let width = match first {
        b'\\' => return true,
        b'\'' => return false,
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    };
    rest.get(1 + width) == Some(&b'\'')
}

/// Offset of the quote that ends a literal whose inside begins at `at`.
fn quoted_end(text: &[u8], mut at: usize, quote: u8) -> usize {
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// The inside of a raw string (`r"`, `br#"`, `cr##"`) that begins at `at`.
fn raw_string(text: &[u8], at: usize) -> Option<(Kind, Range<usize>)> {
    let mut open = at;
    if text[open] != b'r' {
        open += 1;
    }
    if text.get(open) != Some(&b'r') {
        return None;
    }
    let hashes = text[open + 1..].iter().take_while(|&&b| b == b'#').count();
    let start = open + 1 + hashes + 1;
    if text.get(start - 1) != Some(&b'"') {
        return None;
    }
    let closes =
        |&i: &usize| text[i] == b'"' && text[i + 1..].iter().take(hashes).filter(|&&b| b == b'#').count() == hashes;
    let end = (start..text.len()).find(closes).unwrap_or(text.len());
    Some((Kind::Literal, start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::new("a.rs", text);
        assert_eq!(source.code.len(), text.len(), "views differ in length");
        assert_eq!(source.comments.len(), text.len(), "views differ in length");
        source.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn strings_lose_their_insides() {
        assert_eq!(code(r#"f("unsafe \" {", 1)"#), r#"f(" ", 1)"#);
        assert_eq!(code("f(b\"x\\\\\", c\"}\") }"), "f(b\" \", c\" \") }");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        assert_eq!(code("r#\"a \" unsafe\"# + x"), "r#\" \"# + x");
        assert_eq!(code("br##\"a \"# {\"## + x"), "br##\" \"## + x");
        assert_eq!(code("r\"\\\" + x"), "r\" \" + x");
        assert_eq!(code("r\"\" + x"), "r\"\" + x");
    }

    #[test]
    fn raw_identifiers_and_words_that_end_in_r_are_code() {
        assert_eq!(code("r#type + attr#x"), "r#type + attr#x");
        assert_eq!(code("br + cr + r"), "br + cr + r");
    }

    #[test]
    fn lifetimes_are_not_character_literals() {
        assert_eq!(code("fn f<'a, 'b>(x: &'a u8) {}"), "fn f<'a, 'b>(x: &'a u8) {}");
        assert_eq!(code("'outer: loop { break 'outer; }"), "'outer: loop { break 'outer; }");
    }

    #[test]
    fn character_literals_hide_quotes_and_braces() {
        assert_eq!(code("('{', '\"', '\\'', b'}', '\u{e9}', 'a')"), "(' ', ' ', ' ', b' ', ' ', ' ')");
        assert_eq!(code("'\\u{7d}' x"), "' ' x");
    }

    #[test]
    fn comments_nest_and_hold_quotes() {
        assert_eq!(code("a /* x /* unsafe */ \" */ b // it's {\nc"), "a b c");
        assert_eq!(code("/// don't\nfn f() {}"), "fn f() {}");
    }

    #[test]
    fn a_string_may_hold_a_comment_and_lines() {
        assert_eq!(code("f(\"// no\n/* no\") // yes"), "f(\" \")");
        assert_eq!(Source::new("a.rs", "f(\"// no\") // yes").comments.trim(), "// yes");
    }

    #[test]
    fn unfinished_literals_reach_the_end() {
        assert_eq!(code("x \"abc"), "x \"");
        assert_eq!(code("x /* abc"), "x");
        assert_eq!(code("x \"abc\\"), "x \"");
        assert_eq!(code("r#\"abc"), "r#\"");
    }

    #[test]
    fn lines_count_from_one() {
        let source = Source::new("a.rs", "a\nb\n\nc");
        let lines: Vec<_> = [0, 1, 2, 4, 5].map(|i| source.line(i)).to_vec();
        assert_eq!(lines, [1, 1, 2, 3, 4]);
        assert_eq!(source.line_count(), 4);
    }

    #[test]
    fn words_and_braces() {
        let found: Vec<_> = words("a_b(0x1f); unsafe{c}").collect();
        assert_eq!(found, [(0, "a_b"), (4, "0x1f"), (11, "unsafe"), (18, "c")]);
        assert_eq!(closing_brace("f { { } } }", 2), 8);
        assert_eq!(closing_brace("f { {", 2), 5);
    }
}
