//! The tests of each requirement, with their routes. Owns the tags that tests may have, their
//! check, and the table. Independent of the content of tests.
//!
//! The tag is a line of its own in a comment, `Shows W1, O7.`, with identifiers of
//! `tests/requirements.txt`:
//! - above a function with `#[test]`;
//! - above the body of a test that a table names, in any file below a folder `tests`:
//!   `test("name", ..., body)`, `Test { name: "name", ..., body: body }`, `("name", body)`; or
//!   above the entry, for that entry alone;
//! - above a function that a package's `macro_rules! conformance` lists in its `src/lib.rs`;
//! - in the head of the file, with `//!`: it applies to all tests of the file; in a file that calls
//!   `conformance!`, to all tests of the suite on that file's route.
//!
//! A test runs on the routes in a line `Route: sim.` above it, else in the head of its file.
//! Without such a line, tests of the package `tests` run on shm, tcp and mixed (both in one job),
//! because ci/test starts them three times; those in files `tests/sim*` run on sim. A conformance
//! test runs on the route of each file that calls `conformance!`: the name of that file, unless its
//! head has a `Route:`. All other tests are `unit`, within one process and without a route.
//! `program` stands for tests that start programs of the package but move no data among ranks. An
//! ignored test shows nothing.

mod found;
mod list;
mod tags;

pub(crate) use list::LIST;

use crate::report::Violation;
use crate::tree::Tree;
use found::Test;
use list::Requirement;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tags::{About, Placed, Tag};

/// The routes, in the order of the table.
const ROUTES: [&str; 8] = ["unit", "program", "sim", "shm", "tcp", "mixed", "hosts", "verbs"];

/// The requirements that the tree's tests show.
pub(crate) struct Shown {
    requirements: Vec<Requirement>,
    /// The tests of each requirement, in the order of the files.
    tests: BTreeMap<String, Vec<Showing>>,
}

/// A test of the table.
#[derive(Debug)]
struct Showing {
    path: String,
    name: String,
    /// In the order of [`ROUTES`].
    routes: Vec<&'static str>,
}

/// Every wrong tag: an unknown requirement or route, or no test at the tag.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    read(tree).1
}

/// The table of the tree's tests, and the complaints of [`check`].
pub(crate) fn read(tree: &Tree) -> (Shown, Vec<Violation>) {
    let text = tree.texts.iter().find(|(path, _)| path == LIST).map_or("", |(_, text)| text);
    let (requirements, mut wrong) = list::parse(text);
    let all = found::tests(tree);
    let mut collected =
        Collected { shows: vec![BTreeSet::new(); all.len()], routes: vec![None; all.len()], files: BTreeMap::new() };
    for source in &tree.sources {
        let (mut tags, complaints) = tags::read(source);
        wrong.extend(complaints);
        // A route at a test replaces the one in the head of the file.
        tags.sort_by_key(|tag| tag.about != About::File);
        for tag in tags {
            let complaint = match &tag.tag {
                Tag::Shows(ids) => unknown(ids, |id| requirements.iter().any(|one| one.id == id), LIST),
                Tag::Route(names) => unknown(names, |name| ROUTES.contains(&name), &ROUTES.join(", ")),
            };
            let complaint = complaint.or_else(|| collected.apply(&all, &source.path, &tag));
            wrong.extend(complaint.map(|what| Violation::new(&source.path, tag.line, "shows", what)));
        }
    }
    let mut tests = BTreeMap::<String, Vec<Showing>>::new();
    for (index, test) in all.iter().enumerate().filter(|(_, test)| !test.ignored) {
        for id in &collected.shows[index] {
            let (path, name) = (test.path.clone(), test.name.clone());
            tests.entry(id.clone()).or_default().push(Showing { path, name, routes: collected.routes(index, test) });
        }
    }
    (Shown { requirements, tests }, wrong)
}

/// A complaint about the items that `known` rejects.
fn unknown(items: &[String], known: impl Fn(&str) -> bool, there: &str) -> Option<String> {
    let strange: Vec<_> = items.iter().map(String::as_str).filter(|item| !known(item)).collect();
    (!strange.is_empty()).then(|| format!("{} is not among: {there}", strange.join(", ")))
}

/// The tags of each test, by its index.
struct Collected {
    shows: Vec<BTreeSet<String>>,
    routes: Vec<Option<Vec<String>>>,
    /// Routes in the heads of files.
    files: BTreeMap<String, Vec<String>>,
}

impl Collected {
    /// Adds a tag of the file at `path`; a complaint if no test belongs to it.
    fn apply(&mut self, all: &[Test], path: &str, tag: &Placed) -> Option<String> {
        let is_meant = |test: &Test| match tag.about {
            About::File => test.places.iter().any(|(of, _)| of == path),
            About::Line(line) => test.places.iter().any(|(of, at)| of == path && *at == line),
            About::Nothing => false,
        };
        let meant: Vec<usize> = (0..all.len()).filter(|&index| is_meant(&all[index])).collect();
        match &tag.tag {
            Tag::Shows(ids) => meant.iter().for_each(|&index| self.shows[index].extend(ids.iter().cloned())),
            Tag::Route(names) => {
                meant.iter().for_each(|&index| self.routes[index] = Some(names.clone()));
                if tag.about == About::File {
                    self.files.insert(path.to_owned(), names.clone());
                }
            }
        }
        let place = if tag.about == About::File { "in this file" } else { "directly beneath this line" };
        meant.is_empty().then(|| format!("there is no test {place}"))
    }

    fn routes(&self, index: usize, test: &Test) -> Vec<&'static str> {
        let of_runner = |path: &String| {
            let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
            self.files.get(path).cloned().unwrap_or_else(|| vec![stem.to_owned()])
        };
        let names = match &self.routes[index] {
            Some(names) => names.clone(),
            None if test.runners.is_empty() => test.routes.clone(),
            None => test.runners.iter().flat_map(of_runner).collect(),
        };
        ROUTES.into_iter().filter(|route| names.iter().any(|name| name == route)).collect()
    }
}

impl Shown {
    /// A line for each requirement that has tests.
    pub(crate) fn brief(&self) -> String {
        let mut out = String::new();
        for Requirement { id, .. } in &self.requirements {
            let Some(tests) = self.tests.get(id) else {
                continue;
            };
            let plural = if tests.len() == 1 { "" } else { "s" };
            let routes = ROUTES.iter().filter(|route| tests.iter().any(|test| test.routes.contains(route)));
            let routes: Vec<_> = routes.copied().collect();
            let _ = writeln!(out, "requirement {id}: {} test{plural}, routes: {}", tests.len(), routes.join(" "));
        }
        out
    }

    /// The whole table, followed by the requirements without a test.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let width = self.tests.values().flatten().map(|test| test.routes.join(" ").len()).max().unwrap_or(0);
        for Requirement { id, text } in &self.requirements {
            let _ = writeln!(out, "{id:<3} {text}");
            for Showing { path, name, routes } in self.tests.get(id).into_iter().flatten() {
                let _ = writeln!(out, "      {:<width$}  {path}: {name}", routes.join(" "));
            }
        }
        let without: Vec<_> = self.requirements.iter().filter(|one| !self.tests.contains_key(&one.id)).collect();
        let _ = writeln!(out, "\nwithout a test: {} of {}", without.len(), self.requirements.len());
        for Requirement { id, text } in without {
            let _ = writeln!(out, "{id:<3} {text}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use crate::source::Source;

    const REQUIREMENTS: &str = "W1 windows\nO7 ranges\nB2 launchers\n";

    fn sample(files: &[(&str, &str)]) -> (Shown, Vec<Violation>) {
        let package = |path| Manifest::parse(path, "[package]\nname = \"a\"\n");
        read(&Tree {
            sources: files.iter().map(|(path, text)| Source::new(path, text)).collect(),
            manifests: ["Cargo.toml", "tests/Cargo.toml", "tests/suite/Cargo.toml"].map(package).into(),
            texts: vec![(LIST.to_owned(), REQUIREMENTS.to_owned())],
            ..Tree::default()
        })
    }

    fn brief(files: &[(&str, &str)]) -> String {
        let (shown, wrong) = sample(files);
        assert!(wrong.is_empty(), "{wrong:?}");
        shown.brief()
    }

    fn complaints(text: &str) -> Vec<(usize, String)> {
        sample(&[("tests/a.rs", text)]).1.into_iter().map(|one| (one.line, one.what)).collect()
    }

    #[test]
    fn tests_are_counted_with_their_routes() {
        let table = "//! Owns.\n//! Shows O7.\n[test(\"a\", f), test(\"b\", f),\n// Shows B2.\ntest(\"c\", g)]\n\
                     /// Shows W1.\nfn f() {}\nfn g() {}\n";
        let unit = "#[test]\nfn f() {}\n/// Shows W1.\n#[test]\nfn g() {}\n";
        assert_eq!(
            brief(&[("src/a.rs", unit), ("tests/a.rs", table)]),
            "requirement W1: 3 tests, routes: unit shm tcp mixed\nrequirement O7: 3 tests, routes: shm tcp mixed\n\
             requirement B2: 1 test, routes: shm tcp mixed\n"
        );
    }

    #[test]
    fn a_route_at_the_test_overrides_that_of_the_file() {
        let text = "/// Shows W1.\n/// Route: program.\n#[test]\nfn f() {}\n//\n/// Shows O7.\n#[test]\nfn g() {}\n";
        assert_eq!(
            brief(&[("tests/a.rs", &format!("//! Owns.\n//! Route: sim.\n\n{text}"))]),
            "requirement W1: 1 test, routes: program\nrequirement O7: 1 test, routes: sim\n"
        );
    }

    #[test]
    fn conformance_tests_take_the_routes_of_their_runners() {
        let list = "macro_rules! conformance {\n() => { put: whole; }\n}";
        let text = brief(&[
            ("tests/suite/src/lib.rs", list),
            ("tests/suite/src/put.rs", "//! Owns.\n\n/// Shows O7.\npub fn whole() {}"),
            ("tests/suite/tests/shm.rs", "conformance!([Shm]);"),
            ("tests/suite/tests/net.rs", "//! Owns.\n//! Shows B2.\n//! Route: tcp.\nconformance!([Net]);"),
        ]);
        assert_eq!(text, "requirement O7: 1 test, routes: shm tcp\nrequirement B2: 1 test, routes: tcp\n");
    }

    #[test]
    fn ignored_tests_show_nothing() {
        assert_eq!(brief(&[("tests/a.rs", "\n/// Shows W1.\n#[test]\n#[ignore = \"slow\"]\nfn f() {}")]), "");
    }

    #[test]
    fn the_table_names_requirements_without_tests() {
        let (shown, _) = sample(&[("tests/a.rs", "\n/// Shows O7.\n#[test]\nfn f() {}\n")]);
        let expected = "W1  windows\nO7  ranges\n      shm tcp mixed  tests/a.rs: f\nB2  launchers\n\n\
                        without a test: 2 of 3\nW1  windows\nB2  launchers\n";
        assert_eq!(shown.table(), expected);
    }

    #[test]
    fn tags_without_a_test_are_violations() {
        for text in [
            "\n// Shows W1.\n#[test]\n\nfn f() {}",
            "\n// Shows W1.\nfn f() {}",
            "\n// Shows W1.\nstruct A;\n#[test]\nfn f() {}",
            "//! Owns.\n//! Shows W1.\nfn f() {}",
            "\n// Route: sim.\nfn f() {}",
        ] {
            let found = complaints(text);
            assert!(matches!(&found[..], [(2, what)] if what.contains("no test")), "{text:?}: {found:?}");
        }
    }

    #[test]
    fn unknown_names_are_violations() {
        let found = complaints("// Shows W1, W9, Z1.\n// Route: ether.\n#[test]\nfn f() {}");
        assert_eq!(found[0], (1, format!("W9, Z1 is not among: {LIST}")));
        assert!(found[1].1.starts_with("ether is not among: unit, "), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}
