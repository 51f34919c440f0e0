//! The rules about text: the maximum width of a line of a comment or of Markdown, and the documents
//! that a text may not name. Owns the width and the search for both; knows nothing of the meaning
//! of the text.

use crate::report::Violation;
use crate::source::Source;

/// Columns of a line of a comment or of Markdown.
pub(crate) const WIDTH: usize = 100;
/// Documents that are not in this repository, with the mark that follows their name where a section
/// is meant.
const ABSENT: [(&str, &str); 4] =
    [("DESIGN", " \u{a7}"), ("REQUIREMENTS", " "), ("CONVENTIONS", ":"), ("FACTS", ".md")];

/// Comments of a Rust file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    // Tables of documentation, and examples in it, which are code.
    let mut is_code = false;
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start();
        is_code ^= comment.starts_with("//") && comment.contains("```");
        let counts = comment.starts_with("//") && !is_code && !comment.contains("| ");
        if counts && is_wide(line) && !is_one_word(comment) {
            found.push(wide(&source.path, index + 1, line));
        }
    }
    found.extend(absent(&source.path, &source.comments));
    found
}

/// Markdown outside of tables and examples, and lines of other files that are only a comment.
pub(crate) fn check_text(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_markdown = path.ends_with(".md");
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= is_markdown && line.starts_with("```");
        let counts = if is_markdown { !is_code && !line.starts_with('|') } else { is_comment(path, line) };
        if counts && is_wide(line) && !is_one_word(line) {
            found.push(wide(path, index + 1, line));
        }
    }
    if is_markdown {
        found.extend(absent(path, text));
    }
    found
}

/// Whether a line of C, or of a file whose comments begin with `#`, is only a comment.
fn is_comment(path: &str, line: &str) -> bool {
    let is_c = [".c", ".h", ".cpp"].iter().any(|end| path.ends_with(end));
    let begins: &[&str] = if is_c { &["/* ", "* ", "// "] } else { &["# "] };
    begins.iter().any(|begin| line.trim_start().starts_with(begin))
}

fn is_wide(line: &str) -> bool {
    line.chars().count() > WIDTH
}

/// A link or a path that no line break can shorten.
fn is_one_word(line: &str) -> bool {
    line.trim_start_matches(['/', '!', ' ', '-', '*', '#']).split(' ').count() == 1
}

fn wide(path: &str, line: usize, text: &str) -> Violation {
    let what = format!("{} columns of text, {WIDTH} are the limit", text.chars().count());
    Violation::new(path, line, "wide-text", what)
}

fn absent(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (name, mark) in ABSENT {
            if line.contains(&format!("{name}{mark}")) {
                let what = format!("`{name}` is no document of this repository: name one that is");
                found.push(Violation::new(path, index + 1, "absent-document", what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<&'static str> {
        check(&Source::new("a.rs", text)).iter().map(|v| v.rule).collect()
    }

    fn markdown(text: &str) -> Vec<(usize, &'static str)> {
        check_text("a.md", text).iter().map(|v| (v.line, v.rule)).collect()
    }

    #[test]
    fn a_comment_may_have_a_hundred_columns() {
        let comment = |words: usize| format!("    /// {}\n", "word ".repeat(words).trim_end());
        assert!(rust(&comment(18)).is_empty(), "97 columns");
        assert_eq!(rust(&comment(19)), ["wide-text"]);
        assert!(rust(&format!("f(\"{}\");", "word ".repeat(30))).is_empty(), "code is rustfmt's");
        let example = format!("/// ```\n/// f({});\n/// ```\n", "word, ".repeat(30));
        assert!(rust(&example).is_empty(), "so is an example");
        assert_eq!(rust(&format!("{example}{}", comment(19))), ["wide-text"]);
        assert!(rust(&format!("// https://example.org/{}", "x".repeat(100))).is_empty(), "no break helps");
    }

    #[test]
    fn markdown_outside_of_tables_and_code_counts() {
        let long = "word ".repeat(30);
        assert_eq!(markdown(&format!("short\n{long}\n")), [(2, "wide-text")]);
        assert!(markdown(&format!("| {long} |\n```\n{long}\n```\n")).is_empty());
        assert_eq!(markdown(&format!("```\n{long}\n```\n{long}\n")), [(4, "wide-text")]);
    }

    #[test]
    fn comments_of_other_files_count() {
        let long = "word ".repeat(30);
        let lines = |path: &str, text: &str| check_text(path, text).len();
        for (path, comment) in [("a.c", "/* "), ("a.h", " * "), ("a.cpp", "// "), ("a.toml", "# "), ("ci/a", "    # ")]
        {
            assert_eq!(lines(path, &format!("{comment}{long}\n{comment}word\n")), 1, "{path}");
            assert_eq!(lines(path, &format!("{long}\n")), 0, "{path}");
        }
        assert_eq!(lines("a.c", &format!("# define {long}\n")), 0);
    }

    #[test]
    fn references_to_absent_documents_are_found() {
        assert_eq!(rust("// the actor (DESIGN \u{a7}3)\n"), ["absent-document"]);
        assert_eq!(rust("/// REQUIREMENTS W3: far\n"), ["absent-document"]);
        assert!(rust("const REQUIREMENTS: &str = \"DESIGN \u{a7}3\";\n").is_empty());
        assert_eq!(markdown("see FACTS.md\n"), [(1, "absent-document")]);
    }
}
