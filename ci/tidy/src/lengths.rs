//! The rules about size: lines of a file and of a function. Owns the limits and the search for
//! functions. Independent of the meaning of functions.

use crate::report::Violation;
use crate::source::{Source, closing_brace, words};

/// A longer file gets a note.
pub(crate) const SOFT_FILE: usize = 400;
/// A longer file needs another design.
pub(crate) const HARD_FILE: usize = 800;
/// From the line of `fn` to that of the closing brace.
pub(crate) const FUNCTION: usize = 70;

/// The file and each of its functions against the hard limits.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines = source.line_count();
    if lines > HARD_FILE {
        let what = format!("the file has {lines} lines, {HARD_FILE} are the limit: divide it");
        found.push(Violation::new(&source.path, HARD_FILE + 1, "long-file", what));
    }
    for (name, first, last) in functions(source) {
        let lines = last - first + 1;
        if lines > FUNCTION {
            let what = format!("function `{name}` has {lines} lines, {FUNCTION} are the limit");
            found.push(Violation::new(&source.path, first, "long-function", what));
        }
    }
    found
}

/// A note on a file that nears the limit.
pub(crate) fn note(source: &Source) -> Option<String> {
    let lines = source.line_count();
    let long = lines > SOFT_FILE && lines <= HARD_FILE;
    long.then(|| format!("{}: note: {lines} lines, aim at {SOFT_FILE}", source.path))
}

/// Name, first line and last line of each function with a body, nested ones included.
fn functions(source: &Source) -> Vec<(&str, usize, usize)> {
    let code = source.code.as_str();
    let find = |(at, word): (usize, &str)| {
        if word != "fn" {
            return None;
        }
        let rest = code[at + word.len()..].trim_start();
        let rest = rest.strip_prefix("r#").or(rest.strip_prefix('$')).unwrap_or(rest);
        let (_, name) = words(rest).next().filter(|&(offset, _)| offset == 0)?;
        let signature = code.len() - rest.len() + name.len();
        let open = body(code, signature)?;
        Some((name, source.line(at), source.line(closing_brace(code, open))))
    };
    words(code).filter_map(find).collect()
}

/// Offset of the brace that opens the body of the function whose parameters begin at `from`; `None`
/// for a declaration.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(i),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(usize, &'static str)> {
        check(&Source::new("a.rs", text)).iter().map(|v| (v.line, v.rule)).collect()
    }

    /// A function of `lines` lines with the lines `inner` inside.
    fn function(lines: usize, inner: &str) -> String {
        format!("fn long() {{\n{}}}\n", format!("{inner}\n").repeat(lines - 2))
    }

    #[test]
    fn a_function_may_have_seventy_lines() {
        assert!(rules(&function(70, "x();")).is_empty());
        assert_eq!(rules(&format!("\n{}", function(71, "x();"))), [(2, "long-function")]);
    }

    #[test]
    fn braces_in_strings_and_comments_do_not_end_a_function() {
        assert_eq!(rules(&function(71, "f(\"}\", '}', r\"}\"); // }")), [(1, "long-function")]);
        assert_eq!(rules(&format!("{}{}", function(40, "f(\"{\"); // {"), function(40, "x();"))), []);
    }

    #[test]
    fn declarations_pointers_and_array_types_are_understood() {
        let names = |text: &str| functions(&Source::new("a.rs", text)).iter().map(|f| (f.1, f.2)).collect::<Vec<_>>();
        assert!(names("trait T { fn f(x: [u8; 4]); }\ntype F = fn(u8) -> u8;\n").is_empty());
        assert_eq!(names("fn f<'a>(x: [u8; 4]) -> [u8; 2] where X: Y {\n}\n"), [(1, 2)]);
        assert_eq!(names("m! {\nfn $name() {\n}\nfn r#type() {}\n}"), [(2, 3), (4, 4)]);
    }

    #[test]
    fn nested_functions_are_judged_by_themselves() {
        let text = format!("mod tests {{\n#[test]\n{}}}\n", function(71, "x();"));
        assert_eq!(rules(&text), [(3, "long-function")]);
    }

    #[test]
    fn a_file_may_have_eight_hundred_lines() {
        assert!(rules(&"\n".repeat(800)).is_empty());
        assert_eq!(rules(&"\n".repeat(801)), [(801, "long-file")]);
    }

    #[test]
    fn a_note_from_four_hundred_lines_on() {
        let noted = |lines: usize| note(&Source::new("a.rs", &"\n".repeat(lines))).is_some();
        assert_eq!([400, 401, 800, 801].map(noted), [false, true, true, false]);
    }
}
