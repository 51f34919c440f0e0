//! The root of a crate as a part of the graph of modules: the items that it defines, which modules
//! may name, and the modules that its own code uses. A re-export alone is not a use. Independent of
//! files on disk.

use super::paths::{firsts, in_unit_tests};
use crate::source::{closing_brace, words};

/// A word of the root's code, outside of its re-exports and unit tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Used<'c> {
    pub(crate) name: &'c str,
    /// Whether a path begins with the word.
    pub(crate) begins: bool,
    /// Offset in the code.
    pub(crate) at: usize,
}

/// The items that the root defines, outside of modules, functions and other bodies.
pub(crate) fn items(code: &str) -> Vec<&str> {
    let kinds = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    let (mut found, mut end) = (Vec::new(), 0);
    let all: Vec<_> = words(code).collect();
    for pair in all.windows(2) {
        let [(at, word), (next, name)] = *pair else { continue };
        if let Some(open) = code[end..at.max(end)].find('{') {
            end = closing_brace(code, end + open) + 1;
        }
        let gap = code[at + word.len()..next].trim();
        if at >= end && kinds.contains(&word) && gap.is_empty() && !kinds.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The words of the root's code that may name modules, or items that it has from them.
pub(crate) fn used(code: &str) -> Vec<Used<'_>> {
    let tests = in_unit_tests(code);
    let (mut found, mut end, mut is_item) = (Vec::new(), 0, false);
    for (at, word) in words(code) {
        let was_item = std::mem::replace(&mut is_item, word == "mod");
        if at < end || was_item || tests.iter().any(|test| test.contains(&at)) {
            continue;
        }
        let (before, after) = (code[..at].trim_end(), &code[at + word.len()..]);
        if word == "use" {
            let len = after.find(';').unwrap_or(after.len());
            end = at + word.len() + len;
            if !before.ends_with("pub") && !before.ends_with(')') {
                found.extend(firsts(own(&after[..len])).into_iter().map(|name| Used { name, begins: true, at }));
            }
            continue;
        }
        let path = before.strip_suffix("::").map(str::trim_end);
        let of_root = path.is_none_or(|path| path.ends_with("crate") || path.ends_with("self"));
        if of_root && !before.ends_with('.') {
            found.push(Used { name: word, begins: after.trim_start().starts_with("::"), at });
        }
    }
    found
}

/// A path without the words for the root itself.
fn own(path: &str) -> &str {
    let path = path.trim();
    path.strip_prefix("crate::").or_else(|| path.strip_prefix("self::")).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_inside_functions_are_not_items_of_the_root() {
        let code = "mod a; pub struct S { x: u8 } impl S { fn f() {} } const fn g() { const C: u8 = 1; } type T = u8; \
                    mod inner { fn h() {} }";
        assert_eq!(items(code), ["S", "g", "T"]);
    }

    #[test]
    fn re_exports_and_unit_tests_are_no_uses() {
        let code = "mod a; pub use b::B; pub(crate) use c::C; use d::{D, e::E}; fn f() { crate::g::h(); i::j(); x.k() } \
                    #[cfg(test)] mod tests { use l::M; }";
        let paths: Vec<_> = used(code).into_iter().filter(|used| used.begins).map(|used| used.name).collect();
        assert_eq!(paths, ["d", "crate", "g", "i"]);
        assert!(!used(code).iter().any(|used| ["a", "B", "C", "k", "M"].contains(&used.name)));
    }
}
