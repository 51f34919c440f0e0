//! The list of requirements, `tests/requirements.txt`. Owns its format. Independent of tests.
//!
//! A line is an identifier (a capital letter and digits) and a few words. Empty lines and lines
//! that begin with `#` are ignored.

use crate::report::Violation;

/// The path of the list in every tree of the repository.
pub(crate) const LIST: &str = "tests/requirements.txt";

/// A requirement that tests can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// As `W1`.
    pub(crate) id: String,
    /// The requirement in a few words.
    pub(crate) text: String,
}

/// The requirements in `text`, in its order, and the malformed lines.
pub(super) fn parse(text: &str) -> (Vec<Requirement>, Vec<Violation>) {
    let (mut all, mut wrong) = (Vec::<Requirement>::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (id, words) = line.split_once(' ').unwrap_or((line, ""));
        let complaint = if !is_identifier(id) {
            format!("`{id}` is no identifier: a capital letter and digits")
        } else if words.trim().is_empty() {
            format!("{id} has no text")
        } else if all.iter().any(|other| other.id == id) {
            format!("{id} stands above already")
        } else {
            all.push(Requirement { id: id.to_owned(), text: words.trim().to_owned() });
            continue;
        };
        wrong.push(Violation::new(LIST, index + 1, "requirements", complaint));
    }
    (all, wrong)
}

/// Whether `word` has the form of an identifier, such as `W1`.
pub(super) fn is_identifier(word: &str) -> bool {
    let digits = word.strip_prefix(|first: char| first.is_ascii_uppercase()).unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_identifiers_with_words() {
        let (all, wrong) = parse("# Said first.\n\nW1 creation of windows\n  O12  sums \n");
        let listed: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
        assert_eq!(listed, [("W1", "creation of windows"), ("O12", "sums")]);
        assert!(wrong.is_empty());
    }

    #[test]
    fn other_lines_are_named() {
        let (all, wrong) = parse("W1 a\nw2 b\nW b\nW1x b\nW1 again\nW3\n");
        assert_eq!(all.len(), 1);
        let lines: Vec<_> = wrong.iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6]);
        assert!(wrong[3].what.contains("above already"), "{}", wrong[3]);
    }
}
