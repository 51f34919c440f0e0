//! The rules about `unsafe`: only in listed files, and always with a written argument. Owns the
//! list's format. Checks the presence of the argument, not its correctness.

use crate::report::Violation;
use crate::source::{Source, words};

/// Path of the list below the root of the tree.
pub(crate) const LIST: &str = "ci/unsafe-files.txt";

/// How far above the keyword its SAFETY comment may end.
const REACH: usize = 8;

/// The attribute that gives a function the name of another library's function, whose header states
/// the callers' obligations.
const BORROWED: &str = "export_name";

/// Compares the list with the files: `unsafe` in an unlisted file, a listed file without `unsafe`,
/// and a line without a reason are violations. A line of the list is a path, blanks, and the
/// reason; blank lines and lines that begin with `#` are ignored.
pub(crate) fn check_list(list: &str, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut listed = Vec::new();
    for (index, line) in list.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (path, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let mut complain = |what: String| found.push(Violation::new(LIST, index + 1, "unsafe-list", what));
        match sources.iter().find(|source| source.path == path) {
            None => complain(format!("`{path}` does not exist: remove the line")),
            Some(source) if keywords(source).next().is_none() => {
                complain(format!("`{path}` has no `unsafe`: remove the line"));
            }
            Some(_) if listed.contains(&path) => complain(format!("`{path}` is listed twice")),
            Some(_) if reason.trim().len() < 8 => {
                complain(format!("`{path}` needs a reason on its line"));
            }
            Some(_) => {}
        }
        listed.push(path);
    }
    for source in sources.iter().filter(|source| !listed.contains(&source.path.as_str())) {
        if let Some(at) = keywords(source).next() {
            let what = format!("`unsafe` in a file that is not in {LIST}");
            found.push(Violation::new(&source.path, source.line(at), "unsafe-list", what));
        }
    }
    found
}

/// Every `unsafe` of `source` against the comments around it.
pub(crate) fn check_arguments(source: &Source) -> Vec<Violation> {
    let comments: Vec<&str> = source.comments.lines().collect();
    let judge = |at: usize| {
        let line = source.line(at);
        let (argued, what) = match purpose(&source.code, at) {
            Purpose::Type => return None,
            Purpose::Promise => {
                let argued = comments[line.saturating_sub(1 + REACH)..line].iter().any(|c| c.contains("SAFETY:"));
                (argued, format!("`unsafe` without a `SAFETY:` comment on its line or in the {REACH} above"))
            }
            Purpose::Demand => {
                let what = "an unsafe function or trait without a `# Safety` section in its documentation";
                (has_safety_section(source, line), what.to_owned())
            }
        };
        (!argued).then(|| Violation::new(&source.path, line, "safety-comment", what))
    };
    keywords(source).filter_map(judge).collect()
}

/// The meaning of an `unsafe`.
#[derive(Debug, PartialEq, Eq)]
enum Purpose {
    /// The author asserts that requirements are met: a block, an impl, an extern block, an
    /// attribute.
    Promise,
    /// Callers or implementors must meet requirements: a function, a trait.
    Demand,
    /// Neither: a function pointer, or a function whose requirements are stated in another
    /// declaration.
    Type,
}

fn keywords(source: &Source) -> impl Iterator<Item = usize> {
    words(&source.code).filter(|&(_, word)| word == "unsafe").map(|(at, _)| at)
}

fn purpose(code: &str, at: usize) -> Purpose {
    let mut rest = code[at + "unsafe".len()..].trim_start();
    if let Some(after) = rest.strip_prefix("extern") {
        // The ABI is a string whose content the scanner has blanked out.
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == '"' || c == '#' || c == 'r');
    }
    if words(rest).next() == Some((0, "trait")) {
        return Purpose::Demand;
    }
    if rest.strip_prefix('(').is_some_and(|rest| rest.trim_start().starts_with(BORROWED)) {
        return Purpose::Type;
    }
    let Some(after) = rest.strip_prefix("fn") else {
        return Purpose::Promise;
    };
    if after.trim_start().starts_with('(') || attributes(code, at).contains(BORROWED) {
        return Purpose::Type;
    }
    let header = enclosing_header(code, at);
    let has = |keyword: &str| words(header).any(|(_, word)| word == keyword);
    if has("extern") || has("impl") && has("for") { Purpose::Type } else { Purpose::Demand }
}

/// The text between the item at `at` and the end of the previous one.
fn attributes(code: &str, at: usize) -> &str {
    let from = code[..at].rfind(['}', '{', ';']).map_or(0, |before| before + 1);
    &code[from..at]
}

/// The text before the brace that opens the innermost block around `at`; empty at the top of a
/// file.
fn enclosing_header(code: &str, at: usize) -> &str {
    let mut depth = 0_usize;
    for (i, byte) in code[..at].bytes().enumerate().rev() {
        match byte {
            b'}' => depth += 1,
            b'{' if depth == 0 => {
                let from = code[..i].rfind([';', '{', '}']).map_or(0, |before| before + 1);
                return &code[from..i];
            }
            b'{' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// Whether the documentation above `line` has the section; attributes may stand between them.
fn has_safety_section(source: &Source, line: usize) -> bool {
    let text: Vec<&str> = source.text.lines().map(str::trim).collect();
    text[..line - 1]
        .iter()
        .rev()
        .take_while(|above| above.starts_with("//") || above.starts_with("#[") || above.ends_with(")]"))
        .any(|above| above.strip_prefix("///").is_some_and(|doc| doc.trim() == "# Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(list: &str, text: &str) -> Vec<String> {
        let found = check_list(list, &[Source::new("src/a.rs", text)]);
        found.into_iter().map(|v| format!("{}:{}", v.path, v.line)).collect()
    }

    fn arguments(text: &str) -> Vec<usize> {
        check_arguments(&Source::new("a.rs", text)).iter().map(|v| v.line).collect()
    }

    #[test]
    fn unsafe_only_in_listed_files() {
        assert_eq!(listed("", "\nfn f() { unsafe { g() } }"), ["src/a.rs:2"]);
        assert!(listed("# files\nsrc/a.rs  maps memory of others\n", "unsafe {}").is_empty());
    }

    #[test]
    fn other_words_comments_and_strings_are_not_unsafe() {
        let text = "#![allow(unsafe_code)]\n// unsafe\n/* unsafe /* unsafe */ */\n\
                    fn f<'a>() { g(\"unsafe\", r#\"unsafe \" \"#, '\"', unsafe_g()) }\n";
        assert!(listed("", text).is_empty());
        assert!(arguments(text).is_empty());
    }

    #[test]
    fn unused_entries_are_violations() {
        assert_eq!(listed("src/a.rs maps memory", "fn f() {}"), ["ci/unsafe-files.txt:1"]);
        assert_eq!(listed("\nsrc/gone.rs maps memory", "fn f() {}"), ["ci/unsafe-files.txt:2"]);
        let twice = "src/a.rs maps memory\nsrc/a.rs maps memory";
        assert_eq!(listed(twice, "unsafe {}"), ["ci/unsafe-files.txt:2"]);
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert_eq!(listed("src/a.rs", "unsafe {}"), ["ci/unsafe-files.txt:1"]);
    }

    #[test]
    fn a_block_needs_its_comment() {
        assert_eq!(arguments("fn f() {\n    unsafe { g() }\n}"), [2]);
        assert!(arguments("// SAFETY: g asks for nothing.\nunsafe { g() }").is_empty());
        assert!(arguments("unsafe { g() } // SAFETY: g asks for nothing.").is_empty());
        assert_eq!(arguments("f(\"SAFETY: no\");\nunsafe { g() }"), [2]);
    }

    #[test]
    fn a_safety_comment_is_found_up_to_eight_lines_above() {
        let at = |blanks: usize| arguments(&format!("// SAFETY: fine.{}unsafe {{}}", "\n".repeat(blanks)));
        assert!(at(8).is_empty());
        assert_eq!(at(9), [10]);
    }

    #[test]
    fn unsafe_impls_attributes_and_extern_blocks_need_a_comment() {
        assert_eq!(arguments("unsafe impl Send for A {}"), [1]);
        assert_eq!(arguments("unsafe extern \"C\" {\n    fn f();\n}"), [1]);
        assert_eq!(arguments("#[unsafe(no_mangle)]\nfn f() {}"), [1]);
    }

    #[test]
    fn a_c_function_by_its_headers_name_needs_no_safety_section() {
        assert!(arguments("#[unsafe(export_name = \"MPI_Put\")]\npub unsafe extern \"C\" fn put() {}").is_empty());
        let next = "#[unsafe(export_name = \"MPI_Put\")]\nunsafe extern \"C\" fn put() {}\nunsafe fn own() {}";
        assert_eq!(arguments(next), [3]);
    }

    #[test]
    fn functions_and_traits_need_a_safety_section() {
        assert_eq!(arguments("/// Reads.\npub unsafe fn f() {}"), [2]);
        assert_eq!(arguments("/// Plain memory.\nunsafe trait Plain {}"), [2]);
        assert_eq!(arguments("pub const unsafe extern \"C\" fn f() {}"), [1]);
        assert!(arguments("/// Reads.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\nunsafe fn f() {}").is_empty());
        assert_eq!(arguments("/// # Safety\nfn g() {}\nunsafe fn f() {}"), [3]);
    }

    #[test]
    fn pointers_bindings_and_implemented_functions_need_none() {
        assert!(arguments("type F = unsafe fn(u8);\ntype G = Option<unsafe extern \"C\" fn(u8)>;").is_empty());
        let text = "// SAFETY: it forwards.\nunsafe impl Alloc for A {\n    unsafe fn f() {}\n}";
        assert!(arguments(text).is_empty());
        assert_eq!(arguments("impl A {\n    fn g() {}\n    unsafe fn f() {}\n}"), [3]);
    }
}
