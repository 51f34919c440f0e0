//! `transom-tidy [ROOT]` checks the invariants of the tree that the compiler does not check:
//! imports between crates and between the modules of a crate, the places of `unsafe` and their
//! arguments, lengths, leftovers, openings, lints and licences, and the requirements that tests
//! name. It prints `path:line: what` for each violation and exits with 1 if there is one, with 2 if
//! the tree cannot be read.
//! `transom-tidy requirements [--brief] [ROOT]` prints the tests of each requirement instead, and
//! the errors in that table. Each rule is a file or a folder; this file only calls them.

mod imports;
mod leftovers;
mod lengths;
mod manifest;
mod modules;
mod prose;
mod report;
mod requirements;
mod source;
mod tree;
mod unsafety;

use report::Violation;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use tree::Tree;

/// Files without which a release of the repository is incomplete.
const REQUIRED: [&str; 5] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", unsafety::LIST, requirements::LIST];

/// The output that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The violations of all rules.
    Check,
    /// The table of requirements and tests.
    Table,
    /// A line for each requirement that has tests.
    Brief,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let mode = match args.next_if(|arg| arg == "requirements") {
        Some(_) if args.next_if(|arg| arg == "--brief").is_some() => Mode::Brief,
        Some(_) => Mode::Table,
        None => Mode::Check,
    };
    let root = args.next().unwrap_or_else(|| ".".into());
    match run(Path::new(&root), mode, &mut io::stdout().lock()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transom-tidy: {}: {error}", Path::new(&root).display());
            ExitCode::from(2)
        }
    }
}

/// Reads the tree below `root`, writes the output of `mode` to `out`, and returns the number of
/// violations.
fn run(root: &Path, mode: Mode, out: &mut impl Write) -> io::Result<usize> {
    let tree = Tree::read(root)?;
    if !tree.paths.iter().any(|path| path == "Cargo.toml") {
        return Err(io::Error::other("not the root of the workspace: no Cargo.toml here"));
    }
    if mode != Mode::Check {
        return show_requirements(&tree, mode == Mode::Brief, out);
    }
    for note in tree.sources.iter().filter_map(lengths::note) {
        writeln!(out, "{note}")?;
    }
    let violations = check(&tree);
    for violation in &violations {
        writeln!(out, "{violation}")?;
    }
    writeln!(out, "tidy: {} Rust files, {} violations", tree.sources.len(), violations.len())?;
    Ok(violations.len())
}

fn show_requirements(tree: &Tree, brief: bool, out: &mut impl Write) -> io::Result<usize> {
    let (shown, violations) = requirements::read(tree);
    write!(out, "{}", if brief { shown.brief() } else { shown.table() })?;
    for violation in &violations {
        writeln!(out, "{violation}")?;
    }
    Ok(violations.len())
}

/// Every violation in `tree`, sorted by place.
fn check(tree: &Tree) -> Vec<Violation> {
    let list = tree.texts.iter().find(|(path, _)| path == unsafety::LIST).map_or("", |(_, text)| text);
    let mut found = unsafety::check_list(list, &tree.sources);
    for source in &tree.sources {
        let (is_library, is_program) = (tree.is_library(&source.path), tree.is_program(&source.path));
        let mut of_file = imports::check_source(source);
        of_file.extend(unsafety::check_arguments(source));
        of_file.extend(lengths::check(source));
        of_file.extend(leftovers::check(source, is_library, is_program));
        of_file.extend(prose::check(source));
        found.extend(report::apply_exceptions(source, of_file));
    }
    for manifest in tree.manifests.iter().filter(|manifest| manifest.is_package()) {
        found.extend(imports::check_manifest(manifest));
        found.extend(manifest::check(manifest));
    }
    found.extend(modules::check(&tree.sources, &tree.texts));
    found.extend(requirements::check(tree));
    for (path, text) in &tree.texts {
        found.extend(leftovers::private_paths(path, text));
        found.extend(prose::check_text(path, text));
    }
    for path in REQUIRED.iter().filter(|path| !tree.paths.iter().any(|have| have == *path)) {
        found.push(Violation::new(path, 1, "missing-file", "the repository must have this file"));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn a_bare_tree_lacks_its_files() {
        let missing: Vec<_> = check(&Tree::default()).into_iter().map(|v| v.path).collect();
        assert_eq!(missing, REQUIRED);
    }

    #[test]
    fn every_rule_is_called() {
        let text = "fn f() { unsafe { transom_shm::g() } }\n// TODO\n// Shows W1.\n";
        let tree = Tree {
            sources: vec![
                Source::new("src/lib.rs", ""),
                Source::new("src/a.rs", text),
                Source::new("src/b.rs", &"\n".repeat(601)),
            ],
            manifests: vec![manifest::Manifest::parse("Cargo.toml", "[package]\nname = \"new\"")],
            texts: vec![("README.md".to_owned(), format!("/{}/x", "home"))],
            paths: REQUIRED.map(str::to_owned).to_vec(),
        };
        let mut rules: Vec<_> = check(&tree).into_iter().map(|v| v.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let expected = [
            "import",
            "lints",
            "long-file",
            "module",
            "note",
            "opening",
            "path",
            "safety-comment",
            "shows",
            "unsafe-list",
        ];
        assert_eq!(rules, expected);
    }

    #[test]
    fn a_folder_without_a_workspace_is_an_error() {
        let empty = std::env::temp_dir().join(format!("transom-tidy-empty-{}", std::process::id()));
        std::fs::create_dir(&empty).expect("temporary folder");
        let answer = run(&empty, Mode::Check, &mut Vec::new());
        std::fs::remove_dir(&empty).expect("temporary folder removed");
        assert!(answer.expect_err("no workspace there").to_string().contains("Cargo.toml"));
    }
}
