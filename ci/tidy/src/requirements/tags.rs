//! The comment lines that name a test's requirements and routes. Owns their format and the search
//! for the item below them. Independent of the lists of requirements and tests.

use super::list::is_identifier;
use crate::report::Violation;
use crate::source::{Source, words};

/// The content of a tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// `Shows W1, O7.`: identifiers of requirements.
    Shows(Vec<String>),
    /// `Route: shm, tcp.`: names of routes.
    Route(Vec<String>),
}

/// The item to which a tag belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The tag is in the head of the file: all tests of the file.
    File,
    /// The tag is above the code that begins in this line, with only comments and attributes
    /// between them.
    Line(usize),
    /// No code follows the tag.
    Nothing,
}

/// One tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Its line number, from 1.
    pub(super) line: usize,
    pub(super) tag: Tag,
    pub(super) about: About,
}

/// All tags of a file, and lines that only resemble one.
pub(super) fn read(source: &Source) -> (Vec<Placed>, Vec<Violation>) {
    let lines = Lines {
        text: source.text.lines().collect(),
        code: source.code.lines().collect(),
        head: source.text.lines().take_while(|line| line.starts_with("//!")).count(),
    };
    let (mut tags, mut wrong) = (Vec::new(), Vec::new());
    for (index, comment) in source.comments.lines().enumerate() {
        let Some(tag) = parse(comment) else {
            continue;
        };
        let alone = lines.code[index].trim().is_empty();
        let complaint = match tag {
            Ok(tag) if alone => {
                tags.push(Placed { line: index + 1, tag, about: lines.about(index) });
                continue;
            }
            Ok(_) => "the requirements of a test are in a separate comment line, above the test".to_owned(),
            Err(complaint) => complaint,
        };
        wrong.push(Violation::new(&source.path, index + 1, "shows", complaint));
    }
    (tags, wrong)
}

struct Lines<'s> {
    text: Vec<&'s str>,
    code: Vec<&'s str>,
    /// The number of lines in the head of the file.
    head: usize,
}

impl Lines<'_> {
    fn about(&self, index: usize) -> About {
        if index < self.head {
            return About::File;
        }
        if self.text[index].trim_start().starts_with("//!") {
            return About::Nothing;
        }
        // Depth in the brackets of an attribute of several lines.
        let mut depth = 0_usize;
        for below in index + 1..self.text.len() {
            let code = self.code[below].trim();
            let is_attribute = depth > 0 || code.starts_with('#');
            if self.text[below].trim().is_empty() {
                return About::Nothing;
            } else if !code.is_empty() && (!is_attribute || words(code).any(|(_, word)| word == "fn")) {
                return About::Line(below + 1);
            }
            depth = (depth + code.matches('[').count()).saturating_sub(code.matches(']').count());
        }
        About::Nothing
    }
}

/// The tag in a line of a comment, if there is one; for a line that only resembles a tag, the
/// correct form in words.
fn parse(comment: &str) -> Option<Result<Tag, String>> {
    let text = comment.trim().strip_prefix("//")?.trim_start_matches(['/', '!']).trim();
    let (first, rest) = text.split_once(char::is_whitespace)?;
    let keyword = first.trim_end_matches(':').to_ascii_lowercase();
    let items: Option<Vec<String>> = rest.strip_suffix('.').map(|list| list.split(", ").map(str::to_owned).collect());
    match keyword.as_str() {
        "shows" if is_identifier(rest.split([',', '.', ':', ' ']).next().unwrap_or("")) => Some(
            items
                .filter(|items| first == "Shows" && items.iter().all(|item| is_identifier(item)))
                .map(Tag::Shows)
                .ok_or_else(|| "write identifiers between `Shows` and a full stop, as in `Shows W1, O7.`".to_owned()),
        ),
        "route" | "routes" if first.ends_with(':') => Some(
            items
                .filter(|_| first == "Route:")
                .map(Tag::Route)
                .ok_or_else(|| "write names between `Route:` and a full stop, as in `Route: shm, tcp.`".to_owned()),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Vec<Placed> {
        let (tags, wrong) = read(&Source::new("a.rs", text));
        assert!(wrong.is_empty(), "{wrong:?}");
        tags
    }

    fn owned(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    #[test]
    fn a_tag_is_about_the_code_below_it() {
        let text = "\n/// A sum.\n/// Shows W1, O7.\n// By the way.\n#[cfg_attr(\n    x, y\n)]\n#[test]\nfn f() {}\n";
        assert_eq!(tags(text), [Placed { line: 3, tag: Tag::Shows(owned(&["W1", "O7"])), about: About::Line(9) }]);
        let entry = "static T: &[Test] = &[\n    // Shows T2.\n    test(\"a\", f),\n];";
        assert_eq!(tags(entry)[0].about, About::Line(3));
        assert_eq!(tags("\n// Shows T2.\n#[test] fn f() {}")[0].about, About::Line(3));
    }

    #[test]
    fn a_tag_in_the_head_is_about_the_file() {
        let text = "//! Owns it.\n//!\n//! Shows B1.\n//! Route: sim.\n\nfn f() {}\n//! Shows B3.\n";
        let found: Vec<_> = tags(text).into_iter().map(|tag| (tag.line, tag.about)).collect();
        assert_eq!(found, [(3, About::File), (4, About::File), (7, About::Nothing)]);
        assert_eq!(tags(text)[1].tag, Tag::Route(owned(&["sim"])));
    }

    #[test]
    fn a_tag_above_an_empty_line_or_the_end_has_no_subject() {
        for text in ["\n// Shows W1.\n\nfn f() {}", "\n// Shows W1.\n// More.", "\n// Shows W1.\n#[test]\n\nfn f() {}"]
        {
            assert_eq!(tags(text)[0].about, About::Nothing, "{text:?}");
        }
    }

    #[test]
    fn text_that_resembles_a_tag_is_reported() {
        for text in [
            "// Shows W1, O7",
            "/// Shows W1 and O7.",
            "// Shows: W1.",
            "// shows W1.",
            "// Shows W1, fences.",
            "f(); // Shows W1.",
            "// Route: sim",
            "// route: sim.",
        ] {
            let (tags, wrong) = read(&Source::new("a.rs", text));
            assert_eq!((tags.len(), wrong.len()), (0, 1), "{text}");
        }
        for text in ["// Shows a target.", "/// Shows that W1 holds.", "f(\"// Shows W1.\");", "// Route by route."] {
            assert!(tags(text).is_empty(), "{text}");
        }
    }
}
