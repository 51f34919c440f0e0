//! The rules about size: lines of a file and of a function, fields of a struct. Owns the limits and
//! the search for functions and structs. Independent of their meaning.

use crate::report::Violation;
use crate::source::{Source, closing_brace, words};
use std::ops::Range;

/// A longer file gets a note.
pub(crate) const SOFT_FILE: usize = 400;
/// A longer file needs another design.
pub(crate) const HARD_FILE: usize = 600;
/// From the line of `fn` to that of the closing brace.
pub(crate) const FUNCTION: usize = 70;
/// A struct with more fields must be split.
const FIELDS: usize = 16;
/// Files whose structs mirror structures of another language, and where those are.
const LAYOUTS: [(&str, &str); 2] = [
    ("capi/mpi/src/host/constants.rs", "`struct constants` of capi/mpi/host/host.h"),
    ("fabric/verbs/src/sys.rs", "structures and functions of infiniband/verbs.h"),
];

/// The file, each of its functions and each of its structs against the hard limits.
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
            let what = format!("function `{name}` has {lines} lines; the limit is {FUNCTION}: divide it");
            found.push(Violation::new(&source.path, first, "long-function", what));
        }
    }
    let layout = LAYOUTS.iter().find(|(path, _)| *path == source.path);
    let long: Vec<_> = structs(source).into_iter().filter(|&(.., fields)| fields > FIELDS).collect();
    match layout {
        Some((_, whose)) if long.is_empty() => {
            let what = format!("no struct has more than {FIELDS} fields: take it from the list of {whose}");
            found.push(Violation::new(&source.path, 1, "many-fields", what));
        }
        Some(_) => {}
        None => found.extend(long.into_iter().map(|(name, line, fields)| {
            let what = format!("struct `{name}` has {fields} fields, {FIELDS} are the limit: take it apart");
            Violation::new(&source.path, line, "many-fields", what)
        })),
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
    let found = items(&source.code, "fn");
    found.map(|(name, at, inside)| (name, source.line(at), source.line(inside.end))).collect()
}

/// Name, line and number of fields of each struct whose fields have names.
fn structs(source: &Source) -> Vec<(&str, usize, usize)> {
    let found = items(&source.code, "struct");
    found.map(|(name, at, inside)| (name, source.line(at), fields(&source.code[inside]))).collect()
}

/// Name, offset and the inside of the braces of each item that `keyword` begins.
fn items<'s>(code: &'s str, keyword: &'static str) -> impl Iterator<Item = (&'s str, usize, Range<usize>)> {
    words(code).filter_map(move |(at, word)| {
        if word != keyword {
            return None;
        }
        let rest = code[at + word.len()..].trim_start();
        let rest = rest.strip_prefix("r#").or(rest.strip_prefix('$')).unwrap_or(rest);
        let (_, name) = words(rest).next().filter(|&(offset, _)| offset == 0)?;
        let open = body(code, code.len() - rest.len() + name.len())?;
        Some((name, at, open + 1..closing_brace(code, open)))
    })
}

/// The number of fields between a struct's braces: colons that are neither doubled nor inside of
/// brackets, as those of a function's parameters are.
fn fields(inside: &str) -> usize {
    let (mut depth, mut count, bytes) = (0_usize, 0, inside.as_bytes());
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                let doubled = bytes.get(i + 1) == Some(&b':') || i > 0 && bytes[i - 1] == b':';
                count += usize::from(!doubled);
            }
            _ => {}
        }
    }
    count
}

/// Offset of the brace that opens the body of the item whose signature goes on at `from`; `None`
/// for one without braces.
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
    fn a_file_may_have_six_hundred_lines() {
        assert!(rules(&"\n".repeat(600)).is_empty());
        assert_eq!(rules(&"\n".repeat(601)), [(601, "long-file")]);
    }

    #[test]
    fn files_above_four_hundred_lines_get_a_note() {
        let noted = |lines: usize| note(&Source::new("a.rs", &"\n".repeat(lines))).is_some();
        assert_eq!([400, 401, 600, 601].map(noted), [false, true, true, false]);
    }

    /// A struct of `fields` fields.
    fn structure(fields: usize) -> String {
        format!("struct S<T> where T: U {{\n{}}}\n", "    #[f(x: y)]\n    a: m::B<fn(x: T)>,\n".repeat(fields))
    }

    #[test]
    fn a_struct_may_have_sixteen_fields() {
        assert!(rules(&structure(16)).is_empty());
        assert_eq!(rules(&format!("struct Unit;\nstruct T(u8);\n{}", structure(17))), [(3, "many-fields")]);
    }

    #[test]
    fn exceptions_for_foreign_layouts_must_be_needed() {
        let listed = |text: &str| check(&Source::new("fabric/verbs/src/sys.rs", text)).len();
        assert_eq!([structure(17), structure(16)].map(|text| listed(&text)), [0, 1]);
    }
}
