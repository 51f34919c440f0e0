//! The paths of a Rust file that begin at the root of its crate, but for those of its unit tests,
//! which may use any module. Owns the reader for `crate::x`, `crate::{x, y::z}`, and `super::x`
//! from the depth at which it stands. Independent of modules and rules.

use std::ops::Range;

use crate::source::{closing_brace, words};

/// A path below the root of the crate: its first segment, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named<'c> {
    /// The first segment below the root; `*` for everything.
    pub(crate) first: &'c str,
    /// Offset in the code.
    pub(crate) at: usize,
}

/// The paths of `code` that begin at the root. `depth`: how many modules the file is below the
/// root.
pub(crate) fn from_root(code: &str, depth: usize) -> Vec<Named<'_>> {
    let (inner, tests) = (inner_modules(code), in_unit_tests(code));
    let mut found = Vec::new();
    let mut supers = 0;
    for (at, word) in words(code) {
        let rest = code[at + word.len()..].trim_start();
        let Some(rest) = rest.strip_prefix("::") else {
            supers = 0;
            continue;
        };
        supers = match word {
            "super" if supers == 0 || code[..at].trim_end().ends_with("::") => supers + 1,
            "super" => 1,
            _ => 0,
        };
        if tests.iter().any(|test| test.contains(&at)) {
            continue;
        }
        let nested = inner.iter().filter(|&&(open, close)| open < at && at < close).count();
        // `pub(in crate::x)` is a visibility.
        let is_visibility = code[..at].trim_end().ends_with("(in");
        if word == "crate" && !is_visibility || word == "super" && supers == depth + nested {
            found.extend(firsts(rest).into_iter().map(|first| Named { first, at }));
        }
    }
    // In a chain of `super`, a later one may climb to the root; `super` itself is no module.
    found.retain(|named| !["super", "self"].contains(&named.first));
    found
}

/// The first segments of the paths that begin here: one, or those of a group.
pub(crate) fn firsts(rest: &str) -> Vec<&str> {
    let rest = rest.trim_start();
    if rest.starts_with('*') {
        return vec![&rest[..1]];
    }
    if !rest.starts_with('{') {
        return words(rest).next().filter(|&(at, _)| at == 0).map(|(_, word)| word).into_iter().collect();
    }
    let inside = &rest[1..closing_brace(rest, 0)];
    split(inside).into_iter().flat_map(firsts).collect()
}

/// The parts of a group between commas outside of inner groups.
pub(crate) fn split(inside: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_usize, 0, Vec::new());
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[from..]);
    parts
}

/// The bodies of modules that are written in the file and for tests only.
pub(crate) fn in_unit_tests(code: &str) -> Vec<Range<usize>> {
    let inner = inner_modules(code).into_iter().filter(|&(open, _)| is_for_tests(&code[..open]));
    inner.map(|(open, close)| open..close).collect()
}

/// The modules of `code` that are files of their own and for tests only.
pub(crate) fn test_files(code: &str) -> Vec<&str> {
    let mut all = words(code).peekable();
    let mut found = Vec::new();
    while let Some((at, word)) = all.next() {
        if word == "mod"
            && let Some(&(next, name)) = all.peek()
            && code[next + name.len()..].trim_start().starts_with(';')
            && is_for_tests(&code[..at])
        {
            found.push(name);
        }
    }
    found
}

/// Whether an item whose text begins or opens at the end of `before` is under `cfg(test)`.
fn is_for_tests(before: &str) -> bool {
    let item = before.rfind([';', '}']).map_or(before, |end| &before[end..]);
    let attribute = item.rfind("#[cfg(").map(|at| &item[at..]);
    attribute.is_some_and(|attribute| {
        let condition = &attribute[..attribute.find(']').unwrap_or(attribute.len())];
        words(condition).any(|(_, word)| word == "test") && !condition.contains("not(test")
    })
}

/// The bodies of modules that are written in the file: the offsets of their braces.
fn inner_modules(code: &str) -> Vec<(usize, usize)> {
    let mut all = words(code).peekable();
    let mut found = Vec::new();
    while let Some((_, word)) = all.next() {
        if word == "mod"
            && let Some(&(at, name)) = all.peek()
            && let Some(open) = code[at + name.len()..].find(|c: char| !c.is_whitespace())
            && code[at + name.len() + open..].starts_with('{')
        {
            let open = at + name.len() + open;
            found.push((open, closing_brace(code, open)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str, depth: usize) -> Vec<&str> {
        from_root(code, depth).into_iter().map(|named| named.first).collect()
    }

    #[test]
    fn paths_by_crate_alone_and_in_groups() {
        assert_eq!(names("use crate::a::B; fn f() { crate::c::g() }", 1), ["a", "c"]);
        assert_eq!(names("use crate::{a, b::{self, c}, D as E, *};", 1), ["a", "b", "D", "*"]);
        assert_eq!(names("pub(crate) fn f() {} pub(in crate::a) fn g() {}", 1), [""; 0]);
    }

    #[test]
    fn super_counts_where_it_is_the_root() {
        assert_eq!(names("use super::a; use super::{b, c::D};", 1), ["a", "b", "c"]);
        assert_eq!(names("use super::a; use super::super::b;", 2), ["b"]);
        assert_eq!(names("use super::super::super::a;", 2), [""; 0]);
    }

    #[test]
    fn unit_tests_do_not_count() {
        let code =
            "use crate::a; #[cfg(test)] mod tests { use crate::b; } #[cfg(test)]\nmod more; mod kept; use super::c;";
        assert_eq!(names(code, 1), ["a", "c"]);
        assert_eq!(test_files(code), ["more"]);
        assert_eq!(names("#[cfg(not(test))] mod real { use crate::b; }", 1), ["b"]);
    }

    #[test]
    fn modules_in_the_file_are_one_deeper() {
        let code = "mod tests { use super::a; use super::super::b; } use super::c;";
        assert_eq!(names(code, 1), ["b", "c"]);
    }
}
