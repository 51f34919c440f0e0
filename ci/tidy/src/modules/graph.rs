//! The graph of a crate's top-level modules: an edge for each module that names another. Owns the
//! mapping from files to modules, and the search for cycles. Independent of rules.

use super::facade;
use super::paths::{firsts, from_root, split, test_files};
use crate::source::{Source, words};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The root of a crate in the graph: the items that it defines itself.
const ROOT: &str = "the root";

/// A module that names another, with the first place where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// The modules of one crate, and an edge for each pair of which one names the other.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) modules: BTreeSet<String>,
    pub(crate) edges: Vec<Edge>,
}

impl Graph {
    /// The crate whose files are those of `sources` below the folder `root`.
    pub(crate) fn of_crate(root: &str, sources: &[Source]) -> Graph {
        let tests: Vec<String> = sources.iter().flat_map(tests_of).collect();
        let is_test = |path: &str| tests.iter().any(|test| path.strip_prefix(test).is_some_and(is_module));
        let files = || {
            let placed = sources.iter().filter_map(|source| Some((source, place(root, &source.path)?)));
            placed.filter(|(source, _)| !is_test(&source.path))
        };
        let mut graph =
            Graph { modules: files().map(|(_, (module, _))| module.to_owned()).collect(), edges: Vec::new() };
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{root}{name}"));
        let of_root = || sources.iter().filter(|source| roots.contains(&source.path));
        let hidden: BTreeMap<&str, &str> = of_root().flat_map(|it| exports(&it.code)).collect();
        let items: BTreeSet<&str> = of_root().flat_map(|it| facade::items(&it.code)).collect();
        for (source, (module, depth)) in files() {
            for named in from_root(&source.code, depth) {
                let to = *hidden.get(named.first).unwrap_or(&named.first);
                let line = source.line(named.at);
                if named.first == "*" {
                    let all: Vec<_> = graph.modules.iter().filter(|to| *to != module).cloned().collect();
                    all.iter().for_each(|to| graph.add(module, to, &source.path, line));
                } else if to != module && graph.modules.contains(to) {
                    graph.add(module, to, &source.path, line);
                } else if items.contains(named.first) {
                    graph.add(module, ROOT, &source.path, line);
                }
            }
        }
        for source in of_root() {
            for used in facade::used(&source.code) {
                let to = if used.begins { Some(&used.name) } else { hidden.get(used.name) };
                if let Some(to) = to.filter(|&&to| graph.modules.contains(to)) {
                    graph.add(ROOT, to, &source.path, source.line(used.at));
                }
            }
        }
        graph
    }

    fn add(&mut self, from: &str, to: &str, path: &str, line: usize) {
        if !self.edges.iter().any(|edge| edge.from == from && edge.to == to) {
            self.edges.push(Edge { from: from.to_owned(), to: to.to_owned(), path: path.to_owned(), line });
        }
    }

    /// A shortest cycle through each edge that lies on one, without those already reported.
    pub(crate) fn cycles(&self) -> Vec<Vec<&Edge>> {
        let mut found: Vec<Vec<&Edge>> = Vec::new();
        for edge in &self.edges {
            let is_reported = found.iter().flatten().any(|known| *known == edge);
            if !is_reported && let Some(back) = self.way(&edge.to, &edge.from) {
                found.push([vec![edge], back].concat());
            }
        }
        found
    }

    /// The edges of a shortest path between two modules.
    fn way(&self, from: &str, to: &str) -> Option<Vec<&Edge>> {
        let mut came: BTreeMap<&str, &Edge> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(here) = next.pop_front() {
            if here == to {
                let mut way = Vec::new();
                let mut at = to;
                while at != from {
                    way.push(came[at]);
                    at = &came[at].from;
                }
                way.reverse();
                return Some(way);
            }
            for edge in self.edges.iter().filter(|edge| edge.from == here) {
                if edge.to != from && !came.contains_key(edge.to.as_str()) {
                    came.insert(&edge.to, edge);
                    next.push_back(&edge.to);
                }
            }
        }
        None
    }
}

/// The top-level module of a file, and how many modules below the root the file is. `None` for the
/// root itself, for programs below `bin`, and for files of other crates.
fn place<'p>(root: &str, path: &'p str) -> Option<(&'p str, usize)> {
    let below = path.strip_prefix(root)?.strip_suffix(".rs")?;
    let below = below.strip_suffix("/mod").unwrap_or(below);
    let mut parts = below.split('/');
    let module = parts.next().filter(|module| !["lib", "main", "bin"].contains(module))?;
    Some((module, 1 + parts.count()))
}

/// The modules of a file that are files of their own and for tests only, as paths without ending.
fn tests_of(source: &Source) -> Vec<String> {
    let path = source.path.strip_suffix(".rs").unwrap_or_default();
    let folder = ["/mod", "/lib", "/main"].iter().find_map(|name| path.strip_suffix(name)).unwrap_or(path);
    test_files(&source.code).into_iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Whether a module's path goes on like this, to its own file or into its folder.
fn is_module(rest: &str) -> bool {
    rest == ".rs" || rest.starts_with('/')
}

/// What the root takes from its modules by `use`: the names, each with its module.
fn exports(code: &str) -> Vec<(&str, &str)> {
    let uses = words(code).filter(|&(_, word)| word == "use");
    let paths = uses.flat_map(|(at, _)| {
        let path = &code[at + "use".len()..];
        leaves(&path[..path.find(';').unwrap_or(path.len())])
    });
    paths.filter(|(name, module)| name != module).collect()
}

/// The names that a path or group gives, each with the first segment of its path.
fn leaves(path: &str) -> Vec<(&str, &str)> {
    let path = path.trim();
    let path = path.strip_prefix("crate::").or_else(|| path.strip_prefix("self::")).unwrap_or(path);
    if let Some(inside) = path.strip_prefix('{') {
        return split(inside.trim_end().trim_end_matches('}')).into_iter().flat_map(leaves).collect();
    }
    let Some(&first) = firsts(path).first() else { return Vec::new() };
    let keywords = ["as", "self"];
    let ends = |part: &'_ str| words(part).last().map(|(at, word)| (at, word.len()));
    let Some(open) = path.find('{') else {
        return words(path).last().map(|(_, name)| (name, first)).into_iter().collect();
    };
    let inside = path[open + 1..].trim_end().trim_end_matches('}');
    let parts = split(inside).into_iter().filter_map(|part| ends(part).map(|(at, len)| &part[at..at + len]));
    parts.filter(|name| !keywords.contains(name)).map(|name| (name, first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        Graph::of_crate("a/src/", &sources)
    }

    fn edges(files: &[(&str, &str)]) -> Vec<(String, String)> {
        graph(files).edges.into_iter().map(|edge| (edge.from, edge.to)).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.to_owned(), to.to_owned())
    }

    #[test]
    fn files_of_a_folder_are_their_top_level_module() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c;"),
            ("a/src/b/mod.rs", "use super::c::X;"),
            ("a/src/b/d.rs", "use super::e; use super::super::c;"),
            ("a/src/c.rs", "fn f() {}"),
            ("a/src/bin/p.rs", "use crate::c;"),
            ("a/tests/t.rs", "use crate::c;"),
        ];
        assert_eq!(edges(&files), [pair("b", "c")]);
        assert!(graph(&files).cycles().is_empty());
    }

    #[test]
    fn reexports_of_the_root_hide_no_edge() {
        let root = "pub use b::{Job, inner::Deep as Renamed}; use c::Other; mod b; mod c; mod d; mod e;";
        let files = [
            ("a/src/lib.rs", root),
            ("a/src/b.rs", ""),
            ("a/src/c.rs", "fn f(job: &crate::Job) {}"),
            ("a/src/d.rs", "use crate::{Renamed};"),
            ("a/src/e.rs", "use super::Other;"),
        ];
        assert_eq!(edges(&files), [pair("c", "b"), pair("d", "b"), pair("e", "c"), pair(ROOT, "c")]);
    }

    #[test]
    fn each_cycle_is_reported_once_with_its_places() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c; mod d; mod e;"),
            ("a/src/b.rs", "\nuse crate::c;"),
            ("a/src/c.rs", "use crate::d;"),
            ("a/src/d.rs", "use crate::b; use crate::e;"),
            ("a/src/e.rs", ""),
        ];
        let graph = graph(&files);
        let cycles = graph.cycles();
        assert_eq!(cycles.len(), 1);
        let steps: Vec<_> = cycles[0].iter().map(|edge| (edge.to.as_str(), edge.line)).collect();
        assert_eq!(steps, [("c", 2), ("d", 1), ("b", 1)]);
    }

    #[test]
    fn files_of_unit_tests_do_not_count() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c; #[cfg(test)] mod whole;"),
            ("a/src/b.rs", "#[cfg(test)] mod tests; mod real;"),
            ("a/src/b/tests.rs", "use crate::c;"),
            ("a/src/b/real.rs", ""),
            ("a/src/c.rs", "use crate::b;"),
            ("a/src/whole/mod.rs", "use crate::c;"),
        ];
        assert_eq!(edges(&files), [pair("c", "b")]);
    }

    #[test]
    fn an_item_of_the_root_and_its_use_of_a_module_are_a_cycle() {
        let c = ("a/src/c.rs", "");
        for (root, module, cycles) in [
            ("mod b; mod c; struct S; fn f() { b::g() }", "use crate::S;", 1),
            ("mod b; mod c; use b::B; type S = B;", "fn f(it: &super::S) {}", 1),
            ("mod b; mod c; pub use b::B; pub struct S; pub fn f(it: B) {}", "use crate::S;", 1),
            // A re-export alone is no use.
            ("mod b; mod c; pub use b::B; struct S; fn f() { c::g() }", "use crate::S;", 0),
            ("mod b; mod c; struct S; #[cfg(test)] mod tests { use crate::b::B; }", "use crate::S;", 0),
        ] {
            let graph = graph(&[("a/src/lib.rs", root), ("a/src/b.rs", module), c]);
            assert_eq!(graph.cycles().len(), cycles, "{root}");
        }
    }

    #[test]
    fn everything_of_the_root_is_every_module() {
        let files = [("a/src/lib.rs", ""), ("a/src/b.rs", "use crate::*;"), ("a/src/c.rs", "")];
        assert_eq!(edges(&files), [pair("b", "c")]);
    }
}
