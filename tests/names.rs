//! The documents have every name. The book's tables that lead from MPI's names to ours have those
//! of the list `mpi-names.txt`, so that a reader who comes from MPI finds every name once, with its
//! counterpart or the reason for its absence. docs/running.md has the environment variables.
//! rustdoc checks the links.

/// A row of a table: section, name, text.
type Row = (&'static str, &'static str, &'static str);

/// The rows that begin with a name in code, each with the heading above it.
fn rows(chapter: &'static str) -> Vec<Row> {
    let mut section = "";
    let mut rows = Vec::new();
    for line in chapter.lines() {
        if let Some(heading) = line.strip_prefix("//! # ") {
            section = heading;
        } else if let Some((name, text)) = line.strip_prefix("//! | `").and_then(|rest| rest.split_once('`')) {
            let text = text.strip_suffix(" |").expect("a row ends with its last cell");
            rows.push((section, name, text.rsplit(" | ").next().unwrap_or(text)));
        }
    }
    rows
}

/// The tables of names and of hints.
fn tables() -> Vec<Row> {
    let hints = rows(include_str!("../src/book/windows.rs")).into_iter().filter(|(section, ..)| *section == "Hints");
    rows(include_str!("../src/book/mpi.rs")).into_iter().chain(hints).collect()
}

/// The list: each name with its section.
fn list() -> Vec<(&'static str, &'static str)> {
    let mut section = "";
    let mut names = Vec::new();
    for line in include_str!("mpi-names.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(heading) => section = heading,
            None => names.push((section, line)),
        }
    }
    names
}

/// The tables have every name of the list once and no other name.
#[test]
fn the_tables_have_the_names_of_the_list() {
    let (mut listed, mut described) =
        (list(), tables().into_iter().map(|(section, name, _)| (section, name)).collect());
    for names in [&mut listed, &mut described] {
        names.sort_unstable();
    }
    let missing: Vec<_> = listed.iter().filter(|name| !described.contains(name)).collect();
    let more: Vec<_> = described.iter().filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty() && more.is_empty(), "not in the tables: {missing:?}; not in the list: {more:?}");
    assert_eq!(listed, described, "a name is listed twice");
    assert!(listed.len() > 120, "{} names: the list and the tables were not read", listed.len());
}

/// Every row says what the name is, or begins with `not here, because`.
#[test]
fn every_row_has_an_equivalent_or_a_reason() {
    for (_, name, text) in tables() {
        let missing = text.starts_with("not here");
        assert!(text.len() > 3 && missing == text.starts_with("not here, because "), "{name}: {text}");
    }
}

/// Functions have links to both forms, or the row says that there is only one.
#[test]
fn functions_have_a_typed_and_a_raw_form() {
    let functions = tables().into_iter().filter(|(section, ..)| *section == "Functions");
    for (_, name, text) in
        functions.filter(|(_, name, text)| !text.starts_with("not here") && *name != "MPI_Win_get_attr")
    {
        let typed = ["Window", "Access", "Passive"].iter().any(|owner| text.contains(&format!("](crate::{owner}::")));
        let raw = text.contains("](crate::RawWindow::");
        assert!(raw && typed != text.ends_with("; there is no typed form"), "{name}: {text}");
    }
}

/// The label of a link is the name of the item to which it leads.
#[test]
fn links_name_their_target() {
    let mut links = 0;
    for (_, name, text) in tables() {
        for link in text.split("[`").skip(1) {
            let (label, rest) = link.split_once("`](").expect("a label in code is a link's");
            let target = rest.split_once(')').expect("a link ends").0;
            let same = target.strip_prefix("crate::").is_some_and(|path| path.ends_with(label));
            assert!(same, "{name}: {label} leads to {target}");
            links += 1;
        }
    }
    assert!(links > 100, "{links} links: the tables were not read");
}

/// The table of environment variables has the text of `transom-info --env`.
#[test]
fn the_manual_lists_every_variable() {
    let page = include_str!("../docs/running.md");
    let section = page.split("\n## Environment variables\n").nth(1).expect("the section").split("\n#").next();
    let listed: Vec<_> = section.into_iter().flat_map(str::lines).filter(|line| line.starts_with("| `")).collect();
    let described = transom::info::VARIABLES
        .map(|variable| format!("| `{}` | {} | {} |", variable.name, variable.default, variable.meaning));
    assert_eq!(listed, described, "the table must have these rows:\n{}", described.join("\n"));
}
