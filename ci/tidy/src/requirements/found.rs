//! The tests of the tree. Owns the recognition of tests and their default routes. Independent of
//! requirements.

use crate::source::{Source, words};
use crate::tree::Tree;

/// A test, and the lines above which a comment about it may stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// The file that names the test.
    pub(super) path: String,
    pub(super) name: String,
    /// The beginnings of the test, by file and line: its function, and its entry in a table.
    pub(super) places: Vec<(String, usize)>,
    /// The routes of the test if no comment names any.
    pub(super) routes: Vec<String>,
    /// The files whose `Route:` replaces those routes, one run each: the backends of a conformance
    /// test.
    pub(super) runners: Vec<String>,
    /// Whether the test has `#[ignore]`: then it shows no requirement.
    pub(super) ignored: bool,
}

/// A function and the line of its `fn`.
struct Function {
    name: String,
    line: usize,
    is_test: bool,
    ignored: bool,
}

/// A line of a table of tests: the name, and the function that is its body, with the module before
/// the function, if any.
struct Entry {
    name: String,
    body: String,
    module: Option<String>,
    line: usize,
}

/// All tests of the tree, by path and line.
pub(super) fn tests(tree: &Tree) -> Vec<Test> {
    let functions: Vec<_> = tree.sources.iter().map(|source| (source, functions(source))).collect();
    let mut tests = Vec::new();
    for (source, own) in &functions {
        let new = |name: &str, places| Test {
            path: source.path.clone(),
            name: name.to_owned(),
            places,
            routes: default_routes(tree, &source.path),
            runners: Vec::new(),
            ignored: false,
        };
        for function in own.iter().filter(|function| function.is_test) {
            let test = new(&function.name, vec![(source.path.clone(), function.line)]);
            tests.push(Test { ignored: function.ignored, ..test });
        }
        if source.path.starts_with("tests/") || source.path.contains("/tests/") {
            for entry in entries(source) {
                if let Some(place) = body(&functions, &source.path, &entry) {
                    tests.push(new(&entry.name, vec![(source.path.clone(), entry.line), place]));
                }
            }
        }
        let (runners, listed) = conformance(tree, &source.path);
        for function in own.iter().filter(|function| listed.contains(&function.name.as_str())) {
            let test = new(&function.name, vec![(source.path.clone(), function.line)]);
            // A test is repeated for each backend: tags in that file's head apply on the file's
            // route only.
            tests.extend(runners.iter().map(|runner| Test {
                path: runner.clone(),
                places: vec![(runner.clone(), 0)],
                runners: vec![runner.clone()],
                ..new(&function.name, Vec::new())
            }));
            tests.push(Test { runners: runners.clone(), ..test });
        }
    }
    tests
}

/// Folder, with its slash, of the package that the file belongs to.
fn package_of<'t>(tree: &'t Tree, path: &str) -> &'t str {
    let folders = tree.manifests.iter().filter(|one| one.is_package()).map(|one| {
        let end = one.path.rfind('/').map_or(0, |slash| slash + 1);
        &one.path[..end]
    });
    folders.filter(|folder| path.starts_with(folder)).max_by_key(|folder| folder.len()).unwrap_or("")
}

/// The groups of ci/test run the tests of the package `tests` among processes over shared memory,
/// over tcp, and over both, and the tests of simulated jobs once.
fn default_routes(tree: &Tree, path: &str) -> Vec<String> {
    let among_processes = package_of(tree, path) == "tests/";
    let routes: &[&str] = match among_processes {
        true if path.starts_with("tests/sim") => &["sim"],
        true => &["shm", "tcp", "mixed"],
        false => &["unit"],
    };
    routes.iter().map(|&route| route.to_owned()).collect()
}

/// For a file of a conformance suite: the files that run it, and the names of its tests, which the
/// suite's `macro_rules! conformance` lists.
fn conformance<'t>(tree: &'t Tree, path: &str) -> (Vec<String>, Vec<&'t str>) {
    let package = package_of(tree, path);
    let library = format!("{package}src/lib.rs");
    let Some(library) = tree.sources.iter().find(|source| source.path == library && source.path != path) else {
        return (Vec::new(), Vec::new());
    };
    let Some(open) = library.code.find("macro_rules! conformance {").map(|at| at + "macro_rules! conformance ".len())
    else {
        return (Vec::new(), Vec::new());
    };
    let close = group_end(&library.code, open).unwrap_or(library.code.len());
    let runs = |source: &&Source| source.path.starts_with(&format!("{package}tests/"));
    let uses = |source: &&Source| source.code.contains("conformance!");
    let runners = tree.sources.iter().filter(runs).filter(uses).map(|source| source.path.clone()).collect();
    let list = &library.code[open..close];
    // A colon follows the name of a module.
    let is_test = |&(at, word): &(usize, &str)| list[at + word.len()..].trim_start().starts_with([',', ';']);
    (runners, words(list).filter(is_test).map(|(_, word)| word).collect())
}

fn functions(source: &Source) -> Vec<Function> {
    let code = source.code.as_str();
    let mut found = Vec::new();
    // The first line of the next function's attributes, if the function is a test.
    let mut tests = code.match_indices("#[test]").map(|(at, _)| at).peekable();
    let mut all = words(code).peekable();
    while let Some((at, word)) = all.next() {
        if word != "fn" {
            continue;
        }
        let mut attribute = None;
        while let Some(before) = tests.next_if(|&before| before < at) {
            attribute = Some(before);
        }
        // Neither the type of a function nor `fn $name` in a macro.
        let Some(&(next, name)) = all.peek() else { break };
        if !code[at + word.len()..next].trim().is_empty() {
            continue;
        }
        let ignored = attribute.is_some_and(|from| code[from..at].contains("#[ignore"));
        found.push(Function { name: name.to_owned(), line: source.line(at), is_test: attribute.is_some(), ignored });
    }
    found
}

/// Entries `test("name", ..., body)`, `Test { name: "name", ..., body: body }` and
/// `("name", body)`.
fn entries(source: &Source) -> Vec<Entry> {
    let code = source.code.as_str();
    let quotes: Vec<usize> = code.match_indices('"').map(|(at, _)| at).collect();
    let entry = |pair: &[usize]| {
        let &[from, to] = pair else { return None };
        let name = &source.text[from + 1..to];
        let before = code[..from].trim_end();
        let open = match before.strip_suffix("name:") {
            Some(field) => field.trim_end().strip_suffix('{')?.len(),
            None => before.strip_suffix('(')?.len(),
        };
        let (body, module) = last_path(&code[to + 1..group_end(code, open)?])?;
        let entry = Entry { name: name.to_owned(), body, module, line: source.line(open) };
        is_name(name).then_some(entry)
    };
    quotes.chunks(2).filter_map(entry).collect()
}

/// The path of a function at the end of `inside`, the text in a group after the name: the
/// function's name and the module before it.
fn last_path(inside: &str) -> Option<(String, Option<String>)> {
    let inside = inside.trim_end().trim_end_matches(',').trim_end();
    let inside = if inside.ends_with('>') { &inside[..inside.rfind("::<")?] } else { inside };
    let path = inside.rsplit(|c: char| !(c == '_' || c == ':' || c.is_ascii_alphanumeric())).next()?;
    if !inside[..inside.len() - path.len()].trim_end_matches('&').trim_end().ends_with([',', ':']) {
        return None;
    }
    let mut parts = path.rsplit("::");
    let name = parts.next().filter(|name| is_name(name))?;
    let module = parts.next().filter(|module| !["crate", "self", "super"].contains(module));
    Some((name.to_owned(), module.map(str::to_owned)))
}

/// File and line of the function that is the body of an entry of the file at `path`: a function of
/// that file, or the only one with its name below `tests`, in the module that the entry names.
fn body(functions: &[(&Source, Vec<Function>)], path: &str, entry: &Entry) -> Option<(String, usize)> {
    let named = functions.iter().flat_map(|(source, own)| {
        let fits = own.iter().filter(|one| one.name == entry.body && !one.is_test);
        fits.map(|one| (source.path.as_str(), one.line))
    });
    let all: Vec<_> = named.collect();
    let place = |&(path, line): &(&str, usize)| (path.to_owned(), line);
    if let Some(own) = all.iter().find(|(of, _)| *of == path && entry.module.is_none()) {
        return Some(place(own));
    }
    let folder = &path[..path.find("tests/")? + "tests/".len()];
    let in_module = |of: &str| {
        let mut parts = of.trim_end_matches(".rs").rsplit('/');
        entry.module.as_deref().is_none_or(|module| parts.any(|part| part == module))
    };
    let mut elsewhere = all.iter().filter(|(of, _)| of.starts_with(folder) && in_module(of));
    let first = elsewhere.next()?;
    elsewhere.next().is_none().then(|| place(first))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first == '_' || first.is_ascii_lowercase())
        && word.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Offset of the bracket that closes the one at `open`.
fn group_end(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth <= 1 => return Some(at),
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let package = |path| Manifest::parse(path, "[package]\nname = \"a\"\n");
        Tree {
            sources: files.iter().map(|(path, text)| Source::new(path, text)).collect(),
            manifests: ["Cargo.toml", "fabric/Cargo.toml", "tests/Cargo.toml", "tests/suite/Cargo.toml"]
                .map(package)
                .into(),
            ..Tree::default()
        }
    }

    fn found(files: &[(&str, &str)]) -> Vec<(String, Vec<usize>, String)> {
        let found =
            |test: Test| (test.name, test.places.iter().map(|(_, line)| *line).collect(), test.routes.join(" "));
        tests(&tree(files)).into_iter().map(found).collect()
    }

    fn names(text: &str) -> Vec<String> {
        found(&[("tests/a.rs", text)]).into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn functions_with_the_attribute_are_tests() {
        let text = "#[cfg(test)]\nmod tests {\n#[test]\n#[should_panic]\n    fn f() { g() }\n    fn g(x: fn(u8)) {}\n}";
        assert_eq!(found(&[("src/a.rs", text)]), [("f".to_owned(), vec![5], "unit".to_owned())]);
        assert_eq!(names("proptest! {\n#[test]\nfn f(x in 0..4) {}\n}"), ["f"]);
        assert!(names("macro_rules! m { ($t:ident) => { #[test] fn $t() {} } }\nfn f() {}").is_empty());
        let ignored = tests(&tree(&[("src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n#[test]\nfn g() {}")]));
        assert_eq!(ignored.iter().map(|test| test.ignored).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn entries_of_tables_are_tests() {
        let text = "const T: &[Test] = &[\n    test(\"one\", &[1, 2], first),\n    Test {\n        name: \"two\",\n        \
                    env: &[(\"A\", \"n\")],\n        body: first,\n    },\n];\nfn first() {}\n";
        let both = [("one".to_owned(), vec![2, 9]), ("two".to_owned(), vec![3, 9])];
        let listed: Vec<_> = found(&[("tests/a.rs", text)]).into_iter().map(|(name, lines, _)| (name, lines)).collect();
        assert_eq!(listed, both);
        assert_eq!(names("let t = [(\"a\", a), (\"b\", c::<u8>)];\nfn a() {}\nfn c() {}"), ["a", "b"]);
        for text in ["same(\"a b\", x, f);\nfn f() {}", "same(\"a\", &f());\nfn f() {}", "same(\"a\", x, y);", "a(f)"] {
            assert!(names(text).is_empty(), "{text}");
        }
        assert!(found(&[("src/a.rs", "test(\"a\", f);\nfn f() {}")]).is_empty(), "no table in a library");
    }

    #[test]
    fn bodies_may_stand_in_modules_of_the_program() {
        let table = "&[test(\"a\", &[1], other::f), test(\"b\", &[1], g)]";
        let other = ("tests/a/other.rs", "//! Owns.\nfn f() {}\nfn g() {}");
        let places = |files: &[(&str, &str)]| -> Vec<_> {
            tests(&tree(files)).into_iter().map(|test| test.places[1].clone()).collect()
        };
        let expected = [(other.0.to_owned(), 2), (other.0.to_owned(), 3)];
        assert_eq!(places(&[("tests/a/main.rs", table), other]), expected);
        // Two functions `g` match, so none is chosen.
        assert_eq!(places(&[("tests/a/main.rs", table), other, ("tests/b.rs", "fn f() {}\nfn g() {}")]), expected[..1]);
    }

    #[test]
    fn conformance_tests_run_where_they_are_used() {
        let list = "macro_rules! conformance {\n() => { put: whole, torn; }\n}\npub use team::run;";
        let suite = [
            ("tests/suite/src/lib.rs", list),
            ("tests/suite/src/put.rs", "pub fn whole() {}\npub fn torn() {}\npub fn run() {}\nfn put() {}"),
            ("tests/suite/tests/shm.rs", "conformance!([Shm]);"),
            ("tests/suite/tests/other.rs", "fn f() {}"),
        ];
        let all = tests(&tree(&suite));
        let listed: Vec<_> = all.iter().map(|test| (test.path.as_str(), test.name.as_str())).collect();
        let (shm, put) = ("tests/suite/tests/shm.rs", "tests/suite/src/put.rs");
        assert_eq!(listed, [(shm, "whole"), (put, "whole"), (shm, "torn"), (put, "torn")]);
        assert!(all.iter().all(|test| test.runners == [shm]));
    }

    #[test]
    fn the_file_of_a_test_determines_its_routes() {
        for (path, routes) in [
            ("src/a.rs", "unit"),
            ("tests/a.rs", "shm tcp mixed"),
            ("tests/a/b.rs", "shm tcp mixed"),
            ("tests/sim_a.rs", "sim"),
            ("tests/simulated/b.rs", "sim"),
            ("fabric/tests/a.rs", "unit"),
            ("tests/suite/src/a.rs", "unit"),
        ] {
            assert_eq!(found(&[(path, "#[test]\nfn f() {}")])[0].2, routes, "{path}");
        }
    }
}
