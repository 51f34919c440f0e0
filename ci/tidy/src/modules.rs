//! The rule that the top-level modules of a crate import one way: no crate has a cycle of modules,
//! in which its root, with the items that it defines, counts as one; and the modules of `src` obey
//! an order of layers and stand in the map of ARCHITECTURE.md. Owns that order. Independent of
//! files on disk.

mod facade;
mod graph;
mod map;
mod paths;

use crate::report::Violation;
use crate::source::Source;
use graph::{Edge, Graph};

const RULE: &str = "module";

/// The modules of `src`, from the bottom to the top. A module may name modules of the rows above
/// its own, and no other module of its row.
const LAYERS: &[&[&str]] = &[
    // Values and pure logic.
    &["bootstrap", "cgroups", "epoch", "flavor", "reduce"],
    &["directory", "error"],
    &["datatype", "environment", "interfaces"],
    // Decisions, from what users ask and what is there.
    &["failures", "hints", "launching", "routes"],
    &["info"],
    // What happens in memory: the protocols over control words, and the effect of operations.
    &["buffers", "check", "sync"],
    &["memory"],
    // The ways to other ranks.
    &["messages", "transport"],
    &["progress"],
    // MPI's objects.
    &["job"],
    &["window"],
    // The manual.
    &["book"],
];

/// Circles of modules, in every crate among `sources`, and imports against the layers of `src`.
/// `texts`: path and content of the documents, of which one has the map.
pub(crate) fn check(sources: &[Source], texts: &[(String, String)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for root in sources.iter().filter_map(root_of) {
        let graph = Graph::of_crate(root, sources);
        found.extend(graph.cycles().iter().map(|cycle| in_cycle(root, cycle)));
        if root == "src/" {
            found.extend(against_layers(&graph, LAYERS));
            found.extend(map::check(&graph.modules, texts));
        }
    }
    found
}

/// The folder, with its slash, of the crate whose root is `source`.
fn root_of(source: &Source) -> Option<&str> {
    let folder = source.path.strip_suffix("lib.rs").or_else(|| source.path.strip_suffix("main.rs"))?;
    (folder == "src/" || folder.ends_with("/src/")).then_some(folder)
}

fn in_cycle(root: &str, cycle: &[&Edge]) -> Violation {
    let steps: Vec<_> = cycle.iter().map(|edge| format!("{} ({}:{})", edge.to, edge.path, edge.line)).collect();
    let what = format!("the modules of `{root}` form a cycle: {} -> {}", cycle[0].from, steps.join(" -> "));
    Violation::new(&cycle[0].path, cycle[0].line, RULE, what)
}

fn against_layers(graph: &Graph, layers: &[&[&str]]) -> Vec<Violation> {
    let row = |module: &str| layers.iter().position(|row| row.contains(&module));
    let mut found = Vec::new();
    for module in graph.modules.iter().filter(|module| row(module).is_none()) {
        let what = format!("`{module}` is not in tidy's table of layers: add it there");
        found.push(Violation::new(&format!("src/{module}"), 1, RULE, what));
    }
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (row(&edge.from), row(&edge.to))
            && from <= to
        {
            let what = format!("`{}` may not name `{}`, which is not below it in tidy's layers", edge.from, edge.to);
            found.push(Violation::new(&edge.path, edge.line, RULE, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        check(&sources, &[]).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_cycle_of_any_crate_is_a_violation() {
        for root in ["fabric/src/lib.rs", "perf/src/main.rs"] {
            let folder = root.rsplit_once('/').expect("a folder").0;
            let (a, b) = (format!("{folder}/a.rs"), format!("{folder}/b.rs"));
            let found = messages(&[(root, "pub use b::B;"), (&a, "use crate::B;"), (&b, "use super::a;")]);
            assert_eq!(found, [format!("the modules of `{folder}/` form a cycle: a -> b ({a}:1) -> a ({b}:1)")]);
            assert!(messages(&[(root, "pub use b::B;"), (&a, "use crate::B;"), (&b, "")]).is_empty());
        }
    }

    #[test]
    fn the_modules_of_src_keep_to_the_layers() {
        let below = ("src/error.rs", "use crate::window::Window;");
        let above = ("src/window/mod.rs", "use crate::job::Job;");
        let found = messages(&[("src/lib.rs", ""), below, above, ("src/job.rs", "")]);
        assert_eq!(found, ["`error` may not name `window`, which is not below it in tidy's layers"]);
        let beside = messages(&[("src/lib.rs", ""), ("src/epoch.rs", "use super::reduce;"), ("src/reduce.rs", "")]);
        assert_eq!(beside.len(), 1);
    }

    #[test]
    fn a_new_module_of_src_must_have_a_layer() {
        let found = messages(&[("src/lib.rs", ""), ("src/new.rs", "")]);
        assert_eq!(found, ["`new` is not in tidy's table of layers: add it there"]);
    }
}
