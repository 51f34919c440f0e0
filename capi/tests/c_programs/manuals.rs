//! The manuals against the programs and the header: every option that `--help` shows, every
//! function of the header, and no complaint of mandoc.

use std::process::{Command, Stdio};

use crate::install::{Kind, Language, installed, printed, source};

fn page(name: &str) -> String {
    std::fs::read_to_string(source("man").join(name)).expect("the page is there")
}

/// The functions that the header declares.
pub(crate) fn functions() -> Vec<String> {
    let header = std::fs::read_to_string(source("include/transom.h")).expect("the header is there");
    let declared = header.lines().filter(|line| !line.starts_with("//") && !line.starts_with([' ', '#', '/']));
    let names = declared.filter_map(|line| {
        let before = line.split_once('(')?.0;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("transom_").then(|| name.to_owned())
    });
    names.collect()
}

/// The options and, for subcommands or tests, the possible values that help lists.
fn options(help: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Options are indented; the description may begin a line with one.
    for line in help.lines().filter(|line| line.starts_with("  ")).map(str::trim_start) {
        if let Some(value) = line.strip_prefix("- ") {
            found.extend(value.split_once(':').map(|(name, _)| name.to_owned()).filter(|name| !name.contains(' ')));
        }
        if line.starts_with('-') && !line.starts_with("- ") {
            let words = line.split([' ', ',']).filter(|word| word.len() > 1 && word.starts_with('-'));
            // The help text of an option is on the next line or after two blanks.
            found.extend(words.map(|word| word.trim_start_matches('-').to_owned()));
        }
    }
    found
}

/// Shows P1.
pub(crate) fn manuals_have_every_option() {
    let perf = [None, Some("compare"), Some("model")].map(|subcommand| ("transom-perf", subcommand));
    let programs = [("transom-run", None), ("transom-info", None), ("transom-check", None)].into_iter().chain(perf);
    for (program, subcommand) in programs {
        let mut command = Command::new(installed().prefix.join("bin").join(program));
        let output = command.args(subcommand).arg("--help").stdin(Stdio::null()).output().expect("the program starts");
        assert!(output.status.success(), "{}", printed(&output));
        let page = page(&format!("{program}.1"));
        let words: Vec<_> = page.split(|c: char| c.is_whitespace() || c == ',' || c == '|').collect();
        let options = options(&String::from_utf8_lossy(&output.stdout));
        assert!(options.len() > 3, "{program}: {options:?}");
        for option in options {
            // As mdoc has it: `.It Fl n , -ranks Ar N`; what is no option stands as
            // `Cm put_latency`.
            let there = [option.clone(), format!("-{option}")].iter().any(|form| words.contains(&form.as_str()));
            assert!(there, "{program}.1 lacks `{option}`");
        }
    }
}

/// Shows A2.
pub(crate) fn the_overview_has_every_function() {
    let page = page("transom.3");
    let functions = functions();
    assert!(functions.len() > 60, "{functions:?}");
    for name in functions {
        assert!(page.split_whitespace().any(|word| word == name), "transom.3 lacks {name}");
    }
    for name in page.lines().filter_map(|line| line.strip_prefix(".It Sy ")) {
        assert!(self::functions().iter().any(|known| known == name), "transom.3 has {name}, which the header has not");
    }
}

/// The program in transom.3, as `man` shows it, compiles and runs.
/// Shows A2.
/// Route: shm.
pub(crate) fn the_example_of_the_overview_runs() {
    let page = page("transom.3");
    let (_, rest) = page.split_once(".Bd -literal -offset indent\n").expect("an example");
    let (program, _) = rest.split_once(".Ed").expect("its end");
    let file = installed().work.join("overview.c");
    std::fs::write(&file, program.replace("\\e", "\\")).expect("a file");
    let built = installed().built(file.to_str().expect("a path"), Language::C, Kind::Shared);
    crate::verified(&built, 2, &[], None, "rank 1 has 0").unwrap_or_else(|why| panic!("{why}"));
}

pub(crate) fn manuals_are_clean() {
    for name in ["transom.3", "transom-run.1", "transom-info.1", "transom-check.1", "transom-perf.1"] {
        let mut mandoc = Command::new("mandoc");
        let output = mandoc.args(["-T", "lint", "-W", "warning"]).arg(source("man").join(name)).output();
        let output = output.expect("mandoc starts");
        assert!(output.status.success(), "{}", printed(&output));
    }
}
