//! C programs with the installed library: the C compiler builds each with the files that
//! `capi/install` has copied, and `transom-run` runs it as a job. The programs verify themselves;
//! this file builds and starts them, and checks the manuals.
//!
//! Route: program.

mod install;
mod manuals;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use install::{Kind, Language, installed, printed, source};
use libtest_mimic::{Arguments, Failed, Trial};

/// A program of `tests/` or `examples/` with its arguments, and the last line that rank 0 prints.
struct Program(&'static str, &'static [&'static str], &'static str);

/// The name of a test, and its program.
type Named = (&'static str, fn() -> Program);

const PROGRAMS: [Named; 9] = [
    ("windows", windows),
    ("synchronization", synchronization),
    ("operations", operations),
    ("layouts", layouts),
    ("requests", requests),
    ("notified", notified),
    ("errors", errors),
    ("threads", threads),
    ("gups", gups),
];

/// Shows A2, W1, W4, W5, W6.
/// Route: shm, tcp.
fn windows() -> Program {
    Program("tests/windows.c", &[], "windows: passed")
}

/// Shows A2, S1, S2, S3.
/// Route: shm, tcp.
fn synchronization() -> Program {
    Program("tests/synchronization.c", &[], "synchronization: passed")
}

/// Shows A2, O1, O6, M3.
/// Route: shm, tcp.
fn operations() -> Program {
    Program("tests/operations.c", &[], "operations: passed")
}

/// Shows A2, O5.
/// Route: shm, tcp.
fn layouts() -> Program {
    Program("tests/layouts.c", &[], "layouts: passed")
}

/// Shows A2, O2.
/// Route: shm, tcp.
fn requests() -> Program {
    Program("tests/requests.c", &[], "requests: passed")
}

/// Shows A2, O1, O2, O6, E1.
/// Route: shm, tcp.
fn notified() -> Program {
    Program("tests/notified.c", &[], "notified: passed")
}

/// Shows A2, E1, E2, O7.
/// Route: shm, tcp.
fn errors() -> Program {
    Program("tests/errors.c", &[], "errors: passed")
}

/// Shows A2, M3.
/// Route: shm, tcp.
fn threads() -> Program {
    Program("tests/threads.c", &[], "threads: passed")
}

/// Shows A2.
/// Route: shm, tcp.
fn gups() -> Program {
    Program("examples/gups.c", &["10"], "Verification: passed")
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (title, program) in PROGRAMS {
        let Program(file, args, says) = program();
        for (route, transports, sizes) in [("shm", None, &[1, 2, 3][..]), ("tcp", Some("^shm"), &[2, 3][..])] {
            for &ranks in sizes {
                let name = format!("{route}::{title}::ranks_{ranks}");
                trials.push(Trial::test(name, move || {
                    let built = installed().built(file, Language::C, Kind::Shared);
                    verified(&built, ranks, args, transports, says).map_err(Failed::from)
                }));
            }
        }
    }
    let tests: [(&str, fn()); 10] = [
        ("a_program_is_linked_statically", a_program_is_linked_statically),
        ("a_program_of_cplusplus", a_program_of_cplusplus),
        ("the_header_is_clean_by_itself", the_header_is_clean_by_itself),
        ("pkg_config_tells_the_same", pkg_config_tells_the_same),
        ("programs_ask_for_the_number_of_the_interface", programs_ask_for_the_number_of_the_interface),
        ("the_library_shows_no_other_names", the_library_shows_no_other_names),
        ("manuals_have_every_option", manuals::manuals_have_every_option),
        ("the_overview_has_every_function", manuals::the_overview_has_every_function),
        ("the_example_of_the_overview_runs", manuals::the_example_of_the_overview_runs),
        ("manuals_are_clean", manuals::manuals_are_clean),
    ];
    let needs = [("pkg_config_tells_the_same", "pkg-config"), ("manuals_are_clean", "mandoc")];
    trials.extend(tests.map(|(name, test)| {
        let missing = needs.iter().any(|(of, tool)| *of == name && !exists(tool));
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Whether a tool is installed: it starts, even if it does not know `--version`.
fn exists(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdin(Stdio::null()).output().is_ok()
}

/// Runs a program as a job, which must succeed and print `says`.
fn verified(program: &Path, ranks: usize, args: &[&str], transports: Option<&str>, says: &str) -> Result<(), String> {
    let mut launcher = Command::new(installed().prefix.join("bin/transom-run"));
    launcher.args(["-n", &ranks.to_string(), "--bind", "none", "--tag-output", "--timeout", "110"]);
    launcher.arg(program).args(args).stdin(Stdio::null());
    if let Some(transports) = transports {
        launcher.env("TRANSOM_TRANSPORTS", transports);
    }
    let output = launcher.output().map_err(|error| format!("transom-run: {error}"))?;
    let printed = printed(&output);
    if output.status.success() && printed.contains(says) {
        return Ok(());
    }
    Err(format!("{} with {ranks} ranks: {}\n{printed}", program.display(), output.status))
}

/// The archive needs only the libraries that the pkg-config file lists.
/// Shows A2.
/// Route: shm.
fn a_program_is_linked_statically() {
    let built = installed().built("tests/operations.c", Language::C, Kind::Static);
    let bytes = std::fs::read(&built).expect("the program is there");
    assert!(!contains(&bytes, b"libtransom.so"), "it asks for the shared library");
    verified(&built, 2, &[], None, "operations: passed").unwrap_or_else(|why| panic!("{why}"));
}

/// Shows A2.
/// Route: shm.
fn a_program_of_cplusplus() {
    for kind in [Kind::Shared, Kind::Static] {
        let built = installed().built("tests/cplusplus.cpp", Language::Cplusplus, kind);
        verified(&built, 3, &[], None, "cplusplus: passed").unwrap_or_else(|why| panic!("{why}"));
    }
}

/// The header compiles as C99 and C++11 without another header before it.
/// Shows A2.
fn the_header_is_clean_by_itself() {
    let install = installed();
    for (language, name) in [(Language::C, "alone.c"), (Language::Cplusplus, "alone.cpp")] {
        let file = install.work.join(name);
        let text = "#include <transom.h>\n#include <transom.h>\nint f(transom_window *window) { return transom_window_fence(window, 0); }\n";
        std::fs::write(&file, text).expect("a file");
        let output = install.compiler(language).arg("-c").arg(&file).args(["-o", "/dev/null"]).output();
        let output = output.expect("a compiler");
        assert!(output.status.success(), "{}", printed(&output));
    }
}

fn pkg_config_tells_the_same() {
    let install = installed();
    let ask = |options: &[&str]| {
        let mut tool = Command::new("pkg-config");
        tool.args(options).arg("transom").env("PKG_CONFIG_PATH", install.prefix.join("lib/pkgconfig"));
        let output = tool.output().expect("pkg-config starts");
        assert!(output.status.success(), "{}", printed(&output));
        String::from_utf8(output.stdout).expect("text").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let lib = format!("-L{}", install.prefix.join("lib").display());
    assert_eq!(ask(&["--cflags"]), [format!("-I{}", install.prefix.join("include").display())]);
    assert_eq!(ask(&["--libs"]), [lib.clone(), "-ltransom".to_owned()]);
    assert_eq!(ask(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let mut all = vec![lib, "-ltransom".to_owned()];
    all.extend(install::NATIVE.map(str::to_owned));
    assert_eq!(ask(&["--static", "--libs"]), all);
}

/// A program asks the dynamic linker for the interface of its version, so that a library of another
/// version does not serve it. Before 1.0 each minor version has an interface of its own. The link
/// without a number is for compilers only.
fn programs_ask_for_the_number_of_the_interface() {
    let install = installed();
    let built = install.built("tests/windows.c", Language::C, Kind::Shared);
    let bytes = std::fs::read(built).expect("the program is there");
    let number = match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    };
    let name = format!("libtransom.so.{number}");
    assert!(contains(&bytes, format!("\0{name}\0").as_bytes()), "{name}");
    let link = |name: &str| std::fs::read_link(install.prefix.join("lib").join(name)).expect("a link");
    assert_eq!(link("libtransom.so").to_str(), Some(name.as_str()));
    assert_eq!(link(&name).to_str(), Some(concat!("libtransom.so.", env!("CARGO_PKG_VERSION"))));
    let mut all: Vec<_> = std::fs::read_dir(install.prefix.join("lib"))
        .expect("a folder")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter(|name| name.starts_with("libtransom.so"))
        .collect();
    all.sort();
    assert_eq!(all, ["libtransom.so", &name, concat!("libtransom.so.", env!("CARGO_PKG_VERSION"))]);
}

/// The shared library exports exactly the functions that the header declares.
fn the_library_shows_no_other_names() {
    let install = installed();
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(install.prefix.join("lib/libtransom.so")).output();
    let output = output.expect("nm, which comes with the linker");
    let mut defined: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
        .collect();
    let mut declared = manuals::functions();
    defined.sort();
    declared.sort();
    assert_eq!(defined, declared);
    assert!(source("include/transom.h").exists());
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
