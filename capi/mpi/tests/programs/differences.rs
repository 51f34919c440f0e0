//! The table of differences, and the check of outcomes against it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::cases::Outcomes;

/// One paragraph of the table.
#[derive(Default)]
struct Row {
    hosts: Vec<String>,
    cases: Vec<String>,
    /// The host's outcome; `-` if the case does not run without the library.
    host: Vec<String>,
    library: Vec<String>,
    /// The difference may be absent: it depends on timing, or on cases that do not always run.
    may: bool,
    line: usize,
}

pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn read() -> Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/mpi/tests/programs/sweep-differences.txt");
        let text = std::fs::read_to_string(&path).expect("the table can be read");
        let mut rows = Vec::new();
        let mut row = Row::default();
        let mut why = false;
        for (number, line) in text.lines().chain([""]).enumerate() {
            if line.starts_with('#') {
                continue;
            }
            if line.is_empty() {
                if row.line > 0 {
                    let is_whole = ![&row.hosts, &row.cases, &row.host, &row.library].iter().any(|it| it.is_empty());
                    assert!(is_whole && why, "line {}: a row has hosts, cases, host, library and why", row.line);
                    rows.push(std::mem::take(&mut row));
                    why = false;
                }
                continue;
            }
            if row.line == 0 {
                row.line = number + 1;
            }
            if line.starts_with(' ') {
                continue;
            }
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            match key {
                "hosts" => row.hosts.extend(value.split(' ').map(str::to_owned)),
                "cases" => row.cases.push(value.to_owned()),
                "host" => row.host.push(value.to_owned()),
                "library" => row.library.push(value.to_owned()),
                "may" => row.may = true,
                "why" => why = !value.is_empty(),
                _ => panic!("line {}: {line}", number + 1),
            }
        }
        Table(rows)
    }
}

/// Whether the text matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    (0..=text.len()).filter(|&at| text.is_char_boundary(at)).any(|at| matches(rest, &text[at..]))
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// Whether the host reports some of the library's errors, in their order, and no others: it lets
/// the other calls pass.
fn is_part(host: &str, library: &str) -> bool {
    let mut words = library.split(' ');
    host.split(' ').filter(|&word| word != "ok").all(|word| words.any(|it| it == word))
}

/// The library's outcome that a case requires: its parameter `wants`, with `+` between words.
fn wanted(case: &str) -> Option<String> {
    case.split_once(" wants=").map(|(_, wants)| wants.replace('+', " "))
}

/// A difference without a row: the outcomes of host and library.
type Difference = (String, String);

/// Checks the outcomes of one host's cases against the table.
pub(crate) struct Judge<'a> {
    table: &'a Table,
    host: &'static str,
    is_legal: bool,
    used: Vec<usize>,
    equal: usize,
    unexplained: BTreeMap<Difference, Vec<String>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(table: &'a Table, host: &'static str, is_legal: bool) -> Judge<'a> {
        Judge { table, host, is_legal, used: vec![0; table.0.len()], equal: 0, unexplained: BTreeMap::new() }
    }

    fn rows_of<'b>(&'b self, case: &'b str) -> impl Iterator<Item = (usize, &'a Row)> + 'b {
        let rows = self.table.0.iter().enumerate();
        rows.filter(move |(_, row)| any(&row.hosts, self.host) && any(&row.cases, case))
    }

    /// Whether a case runs without the library: the table may say that the host crashes in it.
    pub(crate) fn asks_host(&self, case: &str) -> bool {
        !self.rows_of(case).any(|(_, row)| row.host == ["-"])
    }

    /// Compares the outcomes without and with the library. `is_hosts`: the host serves the window
    /// of a case also with the library, so the outcomes must be equal.
    pub(crate) fn compare(
        &mut self,
        ranks: usize,
        cases: &[String],
        numbers: &[usize],
        (alone, served): (&Outcomes, &Outcomes),
        is_hosts: impl Fn(&str) -> bool,
    ) {
        for &number in numbers {
            let text = &cases[number];
            let case = format!("{text} ranks={ranks}");
            let (host, library) = (alone.get(number), served.get(number));
            // If a case has `wants`, every row requires that outcome of the library.
            let wanted = wanted(text).filter(|_| !is_hosts(text));
            let is_wanted = wanted.as_deref().is_none_or(|wanted| library == wanted);
            let of_host =
                |row: &Row| any(&row.host, host) || row.host.iter().any(|it| it == "part") && is_part(host, library);
            let fits = |row: &Row| of_host(row) && any(&row.library, library);
            let row = self.rows_of(text).find(|(_, row)| is_wanted && fits(row));
            if host == library && is_wanted && (library == "ok" || !self.is_legal) {
                self.equal += 1;
            } else if let Some((place, _)) = row {
                self.used[place] += 1;
            } else {
                let cases = self.unexplained.entry((host.to_owned(), library.to_owned())).or_default();
                cases.push(format!("{number} {case}"));
            }
        }
    }

    /// The number of equal cases, and the number that each row explains.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{}: {} cases are equal", self.host, self.equal);
        for (row, used) in self.table.0.iter().zip(&self.used).filter(|(_, used)| **used > 0) {
            write!(text, ", {used} by line {}", row.line).expect("a string takes all");
        }
        text
    }

    /// Fails if a difference has no row, or if a row has no case although all cases of the sweep
    /// ran (`whole`).
    pub(crate) fn conclude(self, sweep: &str, whole: bool) {
        let mut text = String::new();
        for ((host, library), cases) in &self.unexplained {
            writeln!(text, "{} cases: host: {host}; library: {library}", cases.len()).expect("a string takes all");
            for case in cases.iter().take(6) {
                writeln!(text, "    {case}").expect("a string takes all");
            }
        }
        assert!(text.is_empty(), "{}: differences without a row in the table\n{text}", self.host);
        let is_here = |row: &Row| any(&row.hosts, self.host) && row.cases.iter().any(|case| case.starts_with(sweep));
        let rows = self.table.0.iter().zip(&self.used);
        let stale: Vec<_> = rows.filter(|(row, used)| whole && **used == 0 && !row.may && is_here(row)).collect();
        let lines: Vec<_> = stale.iter().map(|(row, _)| row.line).collect();
        assert!(lines.is_empty(), "{}: rows of the table that match no case: lines {lines:?}", self.host);
    }
}
