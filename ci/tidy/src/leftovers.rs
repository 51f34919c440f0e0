//! The rules about leftovers: notes to oneself, debugging aids, commented-out code, paths of one
//! machine, output and exits of libraries; and the opening paragraph of every file. Owns the
//! forbidden words.

use crate::report::Violation;
use crate::source::{Source, words};

/// Notes to oneself. The first is permitted with a name in parentheses after it.
const NOTES: [&str; 3] = ["TODO", "FIXME", "XXX"];
const UNFINISHED: [&str; 3] = ["dbg", "todo", "unimplemented"];
/// Folders at the root that exist on one developer's machine only.
const PRIVATE: [&str; 3] = ["work", "home", "root"];

/// Every rule on a Rust file. `is_library`: the file belongs to a library that users' programs
/// link. `is_program`: the file belongs to a program, and may end it.
pub(crate) fn check(source: &Source, is_library: bool, is_program: bool) -> Vec<Violation> {
    let mut found = notes(source);
    found.extend(forbidden_code(source, is_library, is_program));
    found.extend(commented_code(source));
    found.extend(opening(source));
    found.extend(private_paths(&source.path, &source.text));
    found
}

/// Paths that exist on a developer's machine only, in any text file.
pub(crate) fn private_paths(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for folder in PRIVATE.map(|name| format!("/{name}/")) {
            let begins_path = |at: usize| {
                let inside = |c: char| c.is_alphanumeric() || "._-~})*$/".contains(c);
                !line[..at].chars().next_back().is_some_and(inside)
            };
            if line.match_indices(&folder).any(|(at, _)| begins_path(at)) {
                let what = format!("a path below `{folder}` exists on one machine only");
                found.push(Violation::new(path, index + 1, "path", what));
            }
        }
    }
    found
}

fn notes(source: &Source) -> Vec<Violation> {
    let judge = |(at, word): (usize, &str)| {
        let named = |rest: &str| rest.starts_with('(') && rest.find(')').is_some_and(|end| end > 1);
        let is_note = NOTES.contains(&word);
        let excused = word == NOTES[0] && named(&source.comments[at + word.len()..]);
        let what = format!("`{word}` in a comment: do it, or name the issue that will, as in `{}(#12)`", NOTES[0]);
        (is_note && !excused).then(|| Violation::new(&source.path, source.line(at), "note", what))
    };
    words(&source.comments).filter_map(judge).collect()
}

fn forbidden_code(source: &Source, is_library: bool, is_program: bool) -> Vec<Violation> {
    let code = source.code.as_str();
    let mut found = Vec::new();
    for (at, word) in words(code) {
        let before = code[..at].trim_end();
        let after = code[at + word.len()..].trim_start();
        let mut complain = |rule: &'static str, what: String| {
            found.push(Violation::new(&source.path, source.line(at), rule, what));
        };
        let is_macro = after.starts_with('!') && !after.starts_with("!=");
        if is_macro && UNFINISHED.contains(&word) {
            complain("unfinished", format!("`{word}!` left behind"));
        } else if is_macro && is_library && ["print", "println"].contains(&word) {
            complain("print", format!("`{word}!` in a library: its standard output is the program's"));
        } else if is_macro && is_library && ["eprint", "eprintln"].contains(&word) && !may_print(&source.path) {
            complain(
                "print",
                format!("`{word}!` in a library: fabric/src/diagnostics.rs reports to the program's logger"),
            );
        } else if word == "exit" && before.ends_with("process::") && !is_program {
            complain("exit", "`process::exit` outside a program: return an error".to_owned());
        } else if word == "ignore" && before.ends_with("#[") && after.starts_with(']') {
            complain("ignore", "`#[ignore]` without a reason: write `#[ignore = \"why\"]`".to_owned());
        }
    }
    found
}

/// Whether a library may write to the standard error: one of tests, the launcher's, which is the
/// program's own, or the one for unchanged MPI programs, which have no logger of Rust.
fn may_print(path: &str) -> bool {
    ["capi/mpi/src/", "launch/src/", "tests/"].iter().any(|folder| path.starts_with(folder))
}

fn commented_code(source: &Source) -> Vec<Violation> {
    let judge = |(index, line): (usize, &str)| {
        let what = "code in a comment: delete it, history keeps it";
        let comment = line.trim().strip_prefix("// ")?.trim();
        is_statement(comment).then(|| Violation::new(&source.path, index + 1, "commented-code", what))
    };
    source.comments.lines().enumerate().filter_map(judge).collect()
}

/// Whether a comment reads as a statement and not as a sentence.
fn is_statement(comment: &str) -> bool {
    let Some(inside) = comment.strip_suffix([';', '{']) else {
        return false;
    };
    let Some((keyword, rest)) = inside.trim_start_matches("pub ").split_once(' ') else {
        return false;
    };
    match keyword {
        "let" => rest.contains('=') || !rest.trim_start_matches("mut ").trim().contains(' '),
        "fn" => rest.contains('('),
        "use" => rest.contains("::") || !rest.trim().contains(' '),
        _ => false,
    }
}

fn opening(source: &Source) -> Option<Violation> {
    let first = source.text.lines().next().unwrap_or("");
    let opens = first.strip_prefix("//!").is_some_and(|text| text.contains(' ') && text.trim().len() >= 8);
    let what = "a file opens with a `//!` paragraph: what it owns and what it must not know";
    (!opens).then(|| Violation::new(&source.path, 1, "opening", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules that `text` breaks as a library, below a proper opening.
    fn library(text: &str) -> Vec<&'static str> {
        rules(text, true, false)
    }

    fn rules(text: &str, is_library: bool, is_program: bool) -> Vec<&'static str> {
        let source = Source::new("a.rs", &format!("//! Owns nothing much.\n{text}"));
        check(&source, is_library, is_program).iter().map(|v| v.rule).collect()
    }

    #[test]
    fn todo_comments_are_violations() {
        for text in ["// TODO later", "/* TODO: x */", "/// FIXME", "f(); // XXX", "// TODO() x"] {
            assert_eq!(library(text), ["note"], "{text}");
        }
        for text in ["// TODO(#12) later", "// TODO(verbs) x", "f(\"TODO\", \"XXX\");", "// XXXXXX", "let TODO = 1;"] {
            assert!(library(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn unfinished_code_is_found() {
        for text in ["dbg!(x);", "todo!()", "unimplemented ! ()"] {
            assert_eq!(library(text), ["unfinished"], "{text}");
        }
        for text in ["// dbg!(x)", "f(\"todo!()\")", "if todo != 1 {}", "my_dbg!(x)"] {
            assert!(library(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_ignored_test_needs_a_reason() {
        assert_eq!(library("#[test]\n#[ignore]\nfn f() {}"), ["ignore"]);
        assert!(library("#[ignore = \"needs a device\"]\nfn f() {}").is_empty());
    }

    #[test]
    fn libraries_neither_print_nor_exit() {
        assert_eq!(library("println!(\"x\");"), ["print"]);
        assert_eq!(library("std::process::exit(1);"), ["exit"]);
        assert_eq!(rules("process::exit(1);", false, false), ["exit"]);
        assert!(rules("println!(\"x\"); process::exit(1);", false, true).is_empty());
        assert_eq!(library("eprintln!(\"x\");"), ["print"]);
        let for_c = Source::new("capi/mpi/src/a.rs", "//! Owns nothing much.\neprintln!(\"x\");");
        assert!(check(&for_c, true, false).is_empty());
        assert!(library("/// println!(\"x\");\n// eprintln!(\"x\")\nloop_.exit();").is_empty());
    }

    #[test]
    fn code_in_comments_is_found_and_prose_is_not() {
        let code =
            ["// let x = 1;", "    // fn f(x: u8) {", "// use a::b;", "// pub fn f() {", "// let x;", "// use a;"];
        for text in code {
            assert_eq!(library(text), ["commented-code"], "{text}");
        }
        for text in
            ["// let us see;", "// use the lock;", "/// let x = 1;", "// fn pointers differ;", "f(\"// let x = 1;\")"]
        {
            assert!(library(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_file_opens_with_a_paragraph() {
        let first =
            |text: &str| check(&Source::new("a.rs", text), true, false).iter().map(|v| v.rule).collect::<Vec<_>>();
        for text in ["", "use a::b;\n", "// Owns it.\n", "//!\n", "\n//! Owns the map.\n", "/// Owns the map.\n"] {
            assert_eq!(first(text), ["opening"], "{text}");
        }
        assert!(first("//! Owns the map.\n").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found_anywhere() {
        for folder in PRIVATE {
            for text in [format!("f(\"/{folder}/a\")"), format!("// see /{folder}/a"), format!("A=/{folder}/x")] {
                assert_eq!(library(&text), ["path"], "{text}");
            }
            for text in
                [format!("// a/{folder}/b"), format!("// https://a.org/{folder}/b"), format!("// $HOME/{folder}/b")]
            {
                assert!(library(&text).is_empty(), "{text}");
            }
        }
    }
}
