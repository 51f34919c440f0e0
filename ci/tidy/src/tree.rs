//! The files of the repository, read once. Owns the selection of files, and the crate to which a
//! file belongs. Independent of the rules.

use crate::manifest::Manifest;
use crate::source::Source;
use std::fs;
use std::io;
use std::path::Path;

/// Text files with paths in them, besides Rust and Cargo files.
const TEXTS: [&str; 11] = ["md", "sh", "toml", "txt", "json", "yml", "c", "h", "cpp", "1", "3"];

/// All files to which rules apply, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Rust files.
    pub(crate) sources: Vec<Source>,
    /// Manifests of packages and of the workspace.
    pub(crate) manifests: Vec<Manifest>,
    /// Path and content of the other texts.
    pub(crate) texts: Vec<(String, String)>,
    /// Path of every file.
    pub(crate) paths: Vec<String>,
}

impl Tree {
    /// Reads the tree below `root`. Hidden folders other than `.ci`, and build output, are not part
    /// of it.
    ///
    /// # Errors
    ///
    /// A folder or a Rust file that cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        walk(root, "", &mut tree.paths)?;
        tree.paths.sort();
        for path in &tree.paths {
            let (name, extension) = parts(path);
            let in_ci = (path.starts_with("ci/") || path.starts_with(".ci/")) && extension.is_empty();
            if extension == "rs" {
                tree.sources.push(Source::new(path, &fs::read_to_string(root.join(path))?));
            } else if TEXTS.contains(&extension) || in_ci {
                // Some files below ci are binary.
                let Ok(text) = fs::read_to_string(root.join(path)) else {
                    continue;
                };
                if name == "Cargo.toml" {
                    tree.manifests.push(Manifest::parse(path, &text));
                }
                tree.texts.push((path.clone(), text));
            }
        }
        Ok(tree)
    }

    /// Whether the file belongs to a library: below `src` of a package that has one, and not part
    /// of a program.
    pub(crate) fn is_library(&self, path: &str) -> bool {
        let Some(package) = package_folder(path) else {
            return false;
        };
        let has_library = self.paths.contains(&format!("{package}src/lib.rs"));
        has_library && !is_main(&path[package.len()..])
    }

    /// Whether the file belongs to a program: an example, a benchmark, or a file below `src`
    /// outside the library.
    pub(crate) fn is_program(&self, path: &str) -> bool {
        let of_cargo = ["examples/", "benches/"].iter().any(|folder| path.starts_with(folder));
        of_cargo || package_folder(path).is_some() && !self.is_library(path)
    }
}

/// The folder, with its slash, of the package whose `src` holds the file; `None` for tests,
/// examples and benches.
fn package_folder(path: &str) -> Option<&str> {
    if path.starts_with("src/") {
        return Some("");
    }
    path.find("/src/").map(|at| &path[..=at])
}

fn is_main(below_package: &str) -> bool {
    below_package == "src/main.rs" || below_package.starts_with("src/bin/")
}

/// File name and extension; a name without a dot has an empty one.
fn parts(path: &str) -> (&str, &str) {
    let name = path.rsplit('/').next().unwrap_or(path);
    (name, name.rsplit_once('.').map_or("", |(_, extension)| extension))
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && path != ".ci";
            let build_output = entry.path().join("CACHEDIR.TAG").exists() || path == "target";
            if !hidden && !build_output {
                walk(root, &path, paths)?;
            }
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_programs_are_distinguished() {
        let paths = ["src/lib.rs", "perf/src/main.rs"].map(str::to_owned).to_vec();
        let tree = Tree { paths, ..Tree::default() };
        for (path, library, program) in [
            ("src/memory/put.rs", true, false),
            ("src/bin/transom-run.rs", false, true),
            ("perf/src/floor.rs", false, true),
            ("examples/gups.rs", false, true),
            ("tests/put.rs", false, false),
        ] {
            assert_eq!((tree.is_library(path), tree.is_program(path)), (library, program), "{path}");
        }
    }

    #[test]
    fn a_tree_is_read_without_build_output() {
        let root = std::env::temp_dir().join(format!("transom-tidy-{}", std::process::id()));
        for (path, text) in [
            ("src/a.rs", "//! A file.\n"),
            ("target/b.rs", ""),
            ("other/CACHEDIR.TAG", ""),
            ("other/c.rs", ""),
            (".git/d.rs", ""),
            (".ci/run", "#!/bin/sh\n"),
            ("Cargo.toml", "[package]\nname = \"a\"\n"),
        ] {
            let file = root.join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("temporary folder");
            fs::write(file, text).expect("temporary file");
        }
        let tree = Tree::read(&root);
        fs::remove_dir_all(&root).expect("temporary folder removed");
        let tree = tree.expect("a readable tree");
        assert_eq!(tree.paths, [".ci/run", "Cargo.toml", "src/a.rs"]);
        assert_eq!(tree.sources.len(), 1);
        assert_eq!(tree.manifests[0].package, "a");
        assert_eq!(tree.texts.len(), 2);
    }
}
