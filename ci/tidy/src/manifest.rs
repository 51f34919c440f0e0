//! The parts of a `Cargo.toml` that tidy needs: its package, its dependencies with their lines, its
//! lints. Owns the reader for the subset of TOML in manifests of this workspace. Independent of the
//! rules on dependencies.

use crate::report::Violation;

/// One manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Path below the root of the tree.
    pub(crate) path: String,
    /// Name of the package; empty when the manifest has none.
    pub(crate) package: String,
    /// Every dependency of any kind.
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether the manifest has `[lints] workspace = true`.
    inherits_lints: bool,
    /// Whether a manifest other than the root's has `[workspace]`.
    is_workspace: bool,
}

/// A line that makes a package depend on another one.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Name of the package depended on, also where the manifest renames it.
    pub(crate) name: String,
    /// Line in the manifest, from 1.
    pub(crate) line: usize,
    /// A dev-dependency.
    pub(crate) only_tests: bool,
}

impl Manifest {
    /// Reads `text`, the content of the manifest at `path`.
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let mut manifest = Self {
            path: path.to_owned(),
            package: String::new(),
            dependencies: Vec::new(),
            inherits_lints: false,
            is_workspace: false,
        };
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or(line).trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']').trim_start_matches('[').trim().to_owned();
                manifest.take_header(&section, index + 1);
            } else {
                manifest.take_line(&section, line, index + 1);
            }
        }
        manifest
    }

    /// Whether the manifest belongs to a package, and not only to a workspace.
    pub(crate) fn is_package(&self) -> bool {
        !self.package.is_empty()
    }

    /// `[dependencies.NAME]` is a dependency by itself.
    fn take_header(&mut self, section: &str, line: usize) {
        self.is_workspace |= section == "workspace" && self.path != "Cargo.toml";
        if let Some((table, name)) = section.rsplit_once('.')
            && let Some(only_tests) = dependency_table(table)
        {
            self.dependencies.push(Dependency { name: unquoted(name), line, only_tests });
        }
    }

    fn take_line(&mut self, section: &str, line: &str, number: usize) {
        let Some((key, value)) = line.split_once('=') else {
            return;
        };
        let (key, value) = (key.trim(), value.trim());
        match (section, key) {
            ("package", "name") => self.package = unquoted(value),
            ("lints", "workspace") => self.inherits_lints = value == "true",
            _ => {}
        }
        if let Some(only_tests) = dependency_table(section) {
            let name = renamed(value).unwrap_or_else(|| unquoted(key.split('.').next().unwrap_or(key)));
            self.dependencies.push(Dependency { name, line: number, only_tests });
        }
    }
}

/// Fails unless the package takes its lints from the workspace, or is a separate workspace with
/// lints of its own.
pub(crate) fn check(manifest: &Manifest) -> Vec<Violation> {
    if manifest.inherits_lints || manifest.is_workspace {
        return Vec::new();
    }
    let what = "the package does not inherit the lints: add `[lints]` with `workspace = true`";
    vec![Violation::new(&manifest.path, 1, "lints", what)]
}

/// For the name of a table of dependencies: whether only tests use the table. `None` for other
/// tables.
fn dependency_table(section: &str) -> Option<bool> {
    if section.starts_with("workspace") {
        return None;
    }
    match section.rsplit('.').next()? {
        "dependencies" | "build-dependencies" => Some(false),
        "dev-dependencies" => Some(true),
        _ => None,
    }
}

/// The name after `package =` in an inline table.
fn renamed(value: &str) -> Option<String> {
    let (_, rest) = value.split_once("package")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(name, _)| name.to_owned())
}

fn unquoted(text: &str) -> String {
    text.trim_matches(['"', '\'', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[workspace.dependencies]
nobody = "1"
[package]
name = "a-b" # its name
[features]
default = ["x"]
[dependencies]
x.workspace = true
"y" = "1"
z = { package = "real", version = "1" }
[target.'cfg(unix)'.dev-dependencies]
t = "1"
[build-dependencies.cc]
version = "1"
[lints]
workspace = true
"#;

    #[test]
    fn every_kind_of_dependency_is_read() {
        let manifest = Manifest::parse("Cargo.toml", TEXT);
        let found: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.line, d.only_tests)).collect();
        assert_eq!(manifest.package, "a-b");
        let expected = [("x", 9, false), ("y", 10, false), ("real", 11, false), ("t", 13, true), ("cc", 14, false)];
        assert_eq!(found, expected);
    }

    #[test]
    fn lints_must_be_inherited() {
        assert!(check(&Manifest::parse("Cargo.toml", TEXT)).is_empty());
        for text in ["[package]\nname = \"a\"", "[lints]\nworkspace = false", "[lints.rust]\nworkspace = true"] {
            assert_eq!(check(&Manifest::parse("Cargo.toml", text)).len(), 1, "{text}");
        }
    }
}
