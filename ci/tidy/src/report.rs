//! A violation at a place in the tree, and the one way to exempt a place from a rule. Owns the
//! exceptions, and the names of the rules that permit them. Independent of the rules themselves.
//!
//! An exception is a comment `tidy-allow(RULE): REASON` on the line in question or above it, with
//! only comments and attributes between them. An exception is itself a violation if it has no
//! reason, names a rule that permits none, or exempts nothing.

use crate::source::Source;
use std::fmt;

/// Rules that permit exceptions. The other rules are invariants of the tree.
const EXCEPTABLE: &[&str] = &["long-function", "exit", "print", "path", "commented-code"];

/// A breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// Path below the root of the tree.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Name of the rule.
    pub(crate) rule: &'static str,
    /// What is wrong, in words.
    pub(crate) what: String,
}

impl Violation {
    /// A breach of `rule` at `line` of the file at `path`.
    pub(crate) fn new(path: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.what, self.rule)
    }
}

/// The violations of one file without those that its exceptions cover, plus the violations of the
/// exceptions.
pub(crate) fn apply_exceptions(source: &Source, found: Vec<Violation>) -> Vec<Violation> {
    let mut left = found;
    for exception in exceptions(source) {
        let complain = |what: String| Violation::new(&source.path, exception.first, "tidy-allow", what);
        let rule = &exception.rule;
        if !EXCEPTABLE.contains(&rule.as_str()) {
            left.push(complain(format!("`{rule}` permits no exception; these do: {}", EXCEPTABLE.join(", "))));
        } else if !exception.has_reason {
            left.push(complain(format!("an exception from `{rule}` needs a reason after a colon")));
        } else {
            let before = left.len();
            left.retain(|v| v.rule != rule.as_str() || !(exception.first..=exception.last).contains(&v.line));
            if left.len() == before {
                left.push(complain(format!("nothing to except from `{rule}` here: remove the comment")));
            }
        }
    }
    left
}

/// An exception and the lines that it covers.
struct Exception {
    rule: String,
    has_reason: bool,
    first: usize,
    last: usize,
}

fn exceptions(source: &Source) -> Vec<Exception> {
    let code: Vec<&str> = source.code.lines().map(str::trim).collect();
    let parse = |(index, comment): (usize, &str)| {
        let (rule, rest) = comment.trim().strip_prefix("// tidy-allow(")?.split_once(')')?;
        let is_target = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let ahead = code[index..].iter().position(is_target).unwrap_or(0);
        Some(Exception {
            rule: rule.to_owned(),
            has_reason: rest.strip_prefix(':').is_some_and(|reason| reason.trim().len() >= 8),
            first: index + 1,
            last: index + 1 + ahead,
        })
    };
    source.comments.lines().enumerate().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str, line: usize, rule: &'static str) -> Vec<&'static str> {
        let found = vec![Violation::new("a.rs", line, rule, "wrong")];
        let left = apply_exceptions(&Source::new("a.rs", text), found);
        left.iter().map(|v| v.rule).collect()
    }

    #[test]
    fn an_exception_reaches_over_attributes_to_one_line() {
        let text = "// tidy-allow(print): the user asked for it\n#[inline]\nfn f() {}\nfn g() {}\n";
        assert!(left(text, 3, "print").is_empty());
        assert_eq!(left(text, 4, "print"), ["print", "tidy-allow"]);
        assert!(left("f(); // tidy-allow(exit): the last line of a program", 1, "exit").is_empty());
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_rule_that_permits_it() {
        assert_eq!(left("// tidy-allow(print)\nf();", 2, "print"), ["print", "tidy-allow"]);
        assert_eq!(left("// tidy-allow(print): \nf();", 2, "print"), ["print", "tidy-allow"]);
        let text = "// tidy-allow(unsafe): because I can do it\nf();";
        assert_eq!(left(text, 2, "unsafe"), ["unsafe", "tidy-allow"]);
    }

    #[test]
    fn an_exception_in_a_string_is_none() {
        assert_eq!(left("f(\"// tidy-allow(print): a good reason\");", 1, "print"), ["print"]);
    }

    #[test]
    fn a_violation_prints_as_path_line_what() {
        let text = Violation::new("src/a.rs", 7, "print", "wrong").to_string();
        assert!(text.starts_with("src/a.rs:7: wrong"), "{text}");
    }
}
