//! The rule that dependencies point one way: fabric, then the backends, then transom, then its
//! users. Owns the two tables of permitted crate names, for paths in the code and for manifests.
//! Independent of files on disk.

use crate::manifest::Manifest;
use crate::report::Violation;
use crate::source::{Source, words};

const RULE: &str = "import";

const FABRIC: &str = "transom_fabric";
const OFI: &str = "transom_ofi";
const VERBS: &str = "transom_verbs";
const SHM: &str = "transom_shm";
const PMIX: &str = "transom_pmix";
const TRANSOM: &str = "transom";
const LAUNCH: &str = "transom_launch";
const HARNESS: &str = "transom_harness";
const CONFORMANCE: &str = "transom_conformance";

/// The crates that files whose path begins with `prefix` may name.
struct Area {
    prefix: &'static str,
    /// The crate of these files, which its own tests and programs name.
    own: &'static str,
    may: &'static [&'static str],
}

/// The first area that matches a path applies.
const AREAS: &[Area] = &[
    Area { prefix: "fabric/ofi/", own: OFI, may: &[FABRIC] },
    Area { prefix: "fabric/verbs/", own: VERBS, may: &[FABRIC] },
    Area { prefix: "fabric/", own: FABRIC, may: &[] },
    Area { prefix: "shm/", own: SHM, may: &[FABRIC] },
    Area { prefix: "pmix/", own: PMIX, may: &[] },
    // Pure logic: testable without any transport.
    Area { prefix: "src/epoch", own: "", may: &[] },
    Area { prefix: "src/datatype", own: "", may: &[] },
    Area { prefix: "src/reduce", own: "", may: &[] },
    // The only code that talks to launchers; it has no transport.
    Area { prefix: "src/bootstrap", own: "", may: &[PMIX] },
    // The only place where backends become the routes of a job.
    Area { prefix: "src/transport", own: "", may: &[FABRIC, OFI, VERBS, SHM] },
    Area { prefix: "src/", own: "", may: &[FABRIC] },
    // Prints the devices that each backend finds on this machine, without a job.
    Area { prefix: "launch/src/bin/transom-info", own: LAUNCH, may: &[TRANSOM, FABRIC, OFI, VERBS, SHM, PMIX] },
    Area { prefix: "launch/", own: LAUNCH, may: &[TRANSOM] },
    // Measures the performance of the machine below transom, so it uses the backends directly.
    Area { prefix: "perf/", own: "transom_perf", may: &[TRANSOM, LAUNCH, FABRIC, OFI, VERBS, SHM, HARNESS] },
    // A separate workspace, whose tests belong to `transom-tests`.
    Area { prefix: "capi/mpi/", own: "transom_mpi", may: &[TRANSOM] },
    // C programs see the library's public interface only.
    Area { prefix: "capi/", own: "transom_c", may: &[TRANSOM] },
    Area { prefix: "benches/", own: TRANSOM, may: &[FABRIC, OFI, SHM, HARNESS] },
    Area { prefix: "tests/harness/", own: HARNESS, may: &[TRANSOM] },
    Area { prefix: "tests/conformance/", own: CONFORMANCE, may: &[FABRIC, OFI, VERBS, SHM, HARNESS] },
    // The launcher, for tests.
    Area { prefix: "tests/src/", own: "transom_tests", may: &[LAUNCH] },
    // A process outside the job speaks to the endpoints of a job.
    Area { prefix: "tests/strangers/", own: TRANSOM, may: &[FABRIC, OFI] },
    Area { prefix: "tests/", own: TRANSOM, may: &[FABRIC, HARNESS] },
    Area { prefix: "examples/", own: TRANSOM, may: &[] },
    Area { prefix: "ci/tidy/", own: "transom_tidy", may: &[] },
];

/// The crates of this workspace that a package may depend on, and those that only its tests may.
struct Package {
    name: &'static str,
    may: &'static [&'static str],
    tests_may: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    Package { name: "transom_fabric", may: &[], tests_may: &[] },
    Package { name: "transom_ofi", may: &[FABRIC], tests_may: &[HARNESS] },
    Package { name: "transom_verbs", may: &[FABRIC], tests_may: &[HARNESS] },
    Package { name: "transom_shm", may: &[FABRIC], tests_may: &[HARNESS] },
    Package { name: "transom_pmix", may: &[], tests_may: &[] },
    Package { name: "transom", may: &[FABRIC, OFI, VERBS, SHM, PMIX], tests_may: &[HARNESS] },
    Package { name: "transom_launch", may: &[TRANSOM, FABRIC, OFI, VERBS, SHM, PMIX], tests_may: &[] },
    Package { name: "transom_perf", may: &[TRANSOM, LAUNCH, FABRIC, OFI, VERBS, SHM], tests_may: &[HARNESS] },
    Package { name: "transom_capi", may: &[TRANSOM], tests_may: &[] },
    Package { name: "transom_mpi", may: &[TRANSOM], tests_may: &[] },
    Package { name: "transom_harness", may: &[TRANSOM], tests_may: &[] },
    Package { name: "transom_tests", may: &[LAUNCH], tests_may: &[TRANSOM, FABRIC, OFI, HARNESS] },
    Package { name: "transom_conformance", may: &[FABRIC, OFI, VERBS, SHM], tests_may: &[HARNESS] },
    Package { name: "transom_tidy", may: &[], tests_may: &[] },
];

/// Crates of the workspace that the code of `source` names against the table.
pub(crate) fn check_source(source: &Source) -> Vec<Violation> {
    let Some(area) = AREAS.iter().find(|area| source.path.starts_with(area.prefix)) else {
        let what = "this folder is not in the table of permitted imports: add it in ci/tidy/src/imports.rs";
        return vec![Violation::new(&source.path, 1, RULE, what)];
    };
    let judge = |(at, word): (usize, &str)| {
        if !names_crate(&source.code, at, word) || word == area.own || area.may.contains(&word) {
            return None;
        }
        let what = format!("`{}*` may not name `{word}`; it may name {}", area.prefix, list(area.may));
        Some(Violation::new(&source.path, source.line(at), RULE, what))
    };
    words(&source.code).filter_map(judge).collect()
}

/// Crates of the workspace that `manifest` depends on against the table.
pub(crate) fn check_manifest(manifest: &Manifest) -> Vec<Violation> {
    let name = manifest.package.replace('-', "_");
    let Some(package) = PACKAGES.iter().find(|package| package.name == name) else {
        let what = format!(
            "package `{}` is not in the table of permitted dependencies: add it in ci/tidy/src/imports.rs",
            manifest.package
        );
        return vec![Violation::new(&manifest.path, 1, RULE, what)];
    };
    let judge = |dependency: &crate::manifest::Dependency| {
        let on = dependency.name.replace('-', "_");
        let for_tests = dependency.only_tests && package.tests_may.contains(&on.as_str());
        // A package's own features for its tests.
        let is_itself = dependency.only_tests && on == name;
        if !is_ours(&on) || package.may.contains(&on.as_str()) || for_tests || is_itself {
            return None;
        }
        let what = format!("`{name}` may not depend on `{on}`; it may on {}", list(package.may));
        Some(Violation::new(&manifest.path, dependency.line, RULE, what))
    };
    manifest.dependencies.iter().filter_map(judge).collect()
}

fn is_ours(name: &str) -> bool {
    name == TRANSOM || PACKAGES.iter().any(|package| package.name == name)
}

/// Whether the word at `at` names a crate of the workspace: the bare name of the root crate is also
/// an ordinary word.
fn names_crate(code: &str, at: usize, word: &str) -> bool {
    if word != TRANSOM {
        return is_ours(word);
    }
    let before = code[..at].trim_end();
    let after = code[at + word.len()..].trim_start();
    let imported = ["use", "use ::", "crate"].iter().any(|keyword| before.ends_with(keyword));
    (after.starts_with("::") || imported) && !before.ends_with("crate::")
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "no crate of the workspace".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check_source(&Source::new(path, text)).iter().map(|v| v.line).collect()
    }

    fn dependencies(package: &str, rest: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        let manifest = Manifest::parse("a/Cargo.toml", &text);
        check_manifest(&manifest).iter().map(|v| v.line).collect()
    }

    #[test]
    fn backends_do_not_import_each_other() {
        assert_eq!(lines("shm/src/lib.rs", "\nuse transom_ofi::Domain;"), [2]);
        assert_eq!(lines("fabric/ofi/src/lib.rs", "fn f() { transom_shm::f() }"), [1]);
        assert!(lines("shm/src/lib.rs", "use transom_fabric::Port;").is_empty());
    }

    #[test]
    fn the_contract_imports_no_crate_and_no_crate_imports_upwards() {
        assert_eq!(lines("fabric/src/lib.rs", "use transom_shm::Map;"), [1]);
        assert_eq!(lines("fabric/src/lib.rs", "use transom::Window;"), [1]);
        assert_eq!(lines("shm/src/lib.rs", "pub use ::transom::{Window};"), [1]);
        assert!(lines("fabric/tests/sim.rs", "use transom_fabric::sim;").is_empty());
    }

    #[test]
    fn only_transport_and_info_name_backends() {
        for path in ["src/memory/put.rs", "src/lib.rs", "launch/src/bin/transom-run.rs", "tests/put.rs"] {
            assert_eq!(lines(path, "use transom_shm as s;"), [1], "{path}");
        }
        for path in ["src/transport.rs", "src/transport/net.rs", "launch/src/bin/transom-info.rs", "perf/src/floor.rs"]
        {
            assert!(lines(path, "use transom_shm as s;").is_empty(), "{path}");
        }
    }

    #[test]
    fn pure_logic_imports_no_transport() {
        for path in ["src/epoch.rs", "src/epoch/access.rs", "src/datatype/mod.rs", "src/reduce.rs"] {
            assert_eq!(lines(path, "use transom_fabric::Op;"), [1], "{path}");
        }
        assert!(lines("src/memory.rs", "use transom_fabric::Op;").is_empty());
    }

    #[test]
    fn names_in_comments_strings_and_other_words_do_not_count() {
        let text = "//! transom_shm::x\n// use transom_shm;\nlet a = \"transom_shm::x\";\nmy_transom_shm::f();";
        assert!(lines("fabric/src/lib.rs", text).is_empty());
        assert!(lines("fabric/src/lib.rs", "let transom = 1; crate::transom::f();").is_empty());
    }

    #[test]
    fn a_new_folder_needs_an_entry_in_the_table() {
        assert_eq!(lines("new/src/lib.rs", "fn f() {}"), [1]);
    }

    #[test]
    fn manifests_obey_the_same_directions() {
        assert_eq!(dependencies("transom-shm", "[dependencies]\ntransom-ofi.workspace = true\n"), [4]);
        assert_eq!(dependencies("transom-fabric", "[dev-dependencies]\ntransom = { path = \"..\" }\n"), [4]);
        assert!(dependencies("transom-shm", "[dependencies]\ntransom-fabric.workspace = true\n").is_empty());
        assert_eq!(dependencies("transom-new", "[dependencies]\n"), [1]);
    }

    #[test]
    fn the_harness_is_for_tests_only() {
        assert_eq!(dependencies("transom", "[dependencies]\ntransom-harness.workspace = true\n"), [4]);
        assert!(dependencies("transom", "[dev-dependencies]\ntransom-harness.workspace = true\n").is_empty());
    }

    #[test]
    fn a_renamed_dependency_is_seen() {
        let rest = "[dependencies]\ns = { package = \"transom-ofi\", path = \"../o\" }\n";
        assert_eq!(dependencies("transom-shm", rest), [4]);
        assert_eq!(dependencies("transom-shm", "[dependencies.transom-ofi]\npath = \"../o\"\n"), [3]);
    }
}
