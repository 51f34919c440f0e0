//! The tables: cells with ratios, the grid, and the sums.

use std::io::Write;

use super::answers::Answer;
use super::hosts::Host;
use super::plan::{Line, Unit};
use super::ratios::{Ratio, median, quotient};
use super::{Column, Part};

/// Widths of a number with its word, and of a ratio.
const NUMBER: usize = 13;
const RATIO: usize = 8;

/// Prints the subject of the measurement, and the missing parts.
pub(crate) fn head(out: &mut impl Write, hosts: &[Host], ranks: Option<usize>, quick: bool) -> std::io::Result<()> {
    writeln!(out, "# transom-perf compare {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(
        out,
        "# Plain MPI, {} ranks of one machine, all data verified; +transom: with the interposition library",
        ranks.map_or("two".to_owned(), |ranks| ranks.to_string())
    )?;
    let rounds = if quick { "one round of a few cells (--quick)" } else { "medians of turns in 3 rounds" };
    match ranks {
        None => writeln!(out, "# Times in us, of put_bw and get_bw bandwidths in MB/s; {rounds}")?,
        Some(_) => {
            writeln!(out, "# All ranks at once; {rounds}")?;
            writeln!(
                out,
                "# Millions of operations of all ranks in a second; of put_mbw and get_mbw MB/s of all ranks;"
            )?;
            writeln!(
                out,
                "# of fence_all, pscw_ring, window_create, alltoall and overlap the time of one at the slowest rank in us"
            )?;
        }
    }
    writeln!(
        out,
        "# Ratio: time with transom divided by time without (rates and bandwidths: the inverse), the median of \
         neighbours in time; ~: unsteady"
    )?;
    writeln!(
        out,
        "# Best: the best MPI with transom compared with the best MPI without; of two MPIs, by their medians"
    )?;
    for host in hosts {
        match &host.library {
            Some(path) => writeln!(out, "# {}: {}, {}, {}", host.name, host.mpicc, host.mpiexec, path.display())?,
            None => {
                writeln!(out, "# {}: {}, {}", host.name, host.mpicc, host.mpiexec)?;
                writeln!(
                    out,
                    "# {}: NO interposition library, and no column +transom; build it: {}, or name one: \
                     --library {}=PATH",
                    host.name,
                    host.command(),
                    host.name
                )?;
            }
        }
    }
    out.flush()
}

/// Prints the route.
fn transport(out: &mut impl Write, part: &Part) -> std::io::Result<()> {
    writeln!(out)?;
    writeln!(out, "# {}", part.transport.name())
}

/// The column with the best measured value of all MPIs, with transom or without it.
fn best<'c>(line: &Line, index: usize, columns: &'c [Column], with: bool) -> Option<(&'c Column, f64)> {
    let values = columns.iter().filter(|column| column.with == with && !column.early[index]);
    let values =
        values.filter_map(|column| Some((column, column.answers[index].value().filter(|&value| value > 0.0)?)));
    let by_value = |a: &(&Column, f64), b: &(&Column, f64)| a.1.total_cmp(&b.1);
    if line.higher_is_better() { values.max_by(by_value) } else { values.min_by(by_value) }
}

/// The ratio of the best values. If both are values of one MPI, it is that of neighbours in time.
fn ratio_of_best(line: &Line, index: usize, columns: &[Column]) -> Option<String> {
    let (with, value) = best(line, index, columns, true)?;
    let (without, base) = best(line, index, columns, false)?;
    match with.ratios.get(index) {
        Some(ratio) if with.host == without.host => ratio.as_ref().map(times),
        _ => Some(format!("{:.2}", quotient(line, value, base))),
    }
}

/// The table of cells, and a summary for each MPI.
pub(crate) fn cells(out: &mut impl Write, part: &Part) -> std::io::Result<()> {
    transport(out, part)?;
    if !has_results(part) {
        return no_results(out, part);
    }
    let has_library = part.columns.iter().any(|column| column.with);
    write!(out, "{:<18}{:<10}{:<7}{:>8}", "# Function", "Window", "Sync", "Size")?;
    for group in by_mpi(part) {
        write!(out, "{:>NUMBER$}", group[0].host)?;
        if group.len() > 1 {
            write!(out, "{:>NUMBER$}{:>RATIO$}", "+transom", "Ratio")?;
        }
    }
    writeln!(out, "{}", if has_library { format!("{:>RATIO$}", "Best") } else { String::new() })?;
    for (index, line) in part.lines.iter().enumerate() {
        write!(out, "{:<18}{:<10}{:<7}{:>8}", line.function, line.window, line.sync, line.size)?;
        for group in by_mpi(part) {
            write!(out, "{:>NUMBER$}", shown(line, &group[0], index))?;
            if let Some(with) = group.get(1) {
                let ratio = with.ratios[index].as_ref().map_or_else(none, times);
                write!(out, "{:>NUMBER$}{ratio:>RATIO$}", shown(line, with, index))?;
            }
        }
        let by_best = ratio_of_best(line, index, &part.columns).unwrap_or_else(none);
        writeln!(out, "{}", if has_library { format!("{by_best:>RATIO$}") } else { String::new() })?;
    }
    for group in by_mpi(part) {
        if let [without, with] = group {
            summary(out, part, without, with)?;
        }
    }
    reasons(out, part)
}

/// The columns of each MPI: without the library, and with it if it exists.
pub(super) fn by_mpi(part: &Part) -> impl Iterator<Item = &[Column]> {
    part.columns.chunk_by(|_, next| next.with)
}

/// Whether a cell has a number or wrong data.
fn has_results(part: &Part) -> bool {
    let mut all = part.columns.iter().flat_map(|column| &column.answers);
    all.any(|answer| answer.is_measured() || *answer == Answer::Wrong)
}

/// Prints the reasons instead of a table without a number.
fn no_results(out: &mut impl Write, part: &Part) -> std::io::Result<()> {
    writeln!(out, "# Nothing was measured")?;
    reasons(out, part)
}

/// The value of a cell, with a mark if its operations were complete before their data had arrived.
fn shown(line: &Line, column: &Column, index: usize) -> String {
    let mark = if column.early[index] { "!" } else { "" };
    match column.answers[index].value() {
        Some(value) if line.unit() == Unit::Bandwidth => format!("{value:.1}{mark}"),
        Some(value) => format!("{value:.3}{mark}"),
        None => column.answers[index].word().to_owned(),
    }
}

fn times(ratio: &Ratio) -> String {
    format!("{:.2}{}", ratio.median, if ratio.is_unsteady() { "~" } else { "" })
}

fn none() -> String {
    "-".to_owned()
}

/// Prints how many cells are slower with transom and how many are unsteady, the median of all
/// cells, and the worst ratio of a cell that is not unsteady. Cells whose data had not arrived when
/// they were complete are not among them.
fn summary(out: &mut impl Write, part: &Part, without: &Column, with: &Column) -> std::io::Result<()> {
    let ratios = with.ratios.iter().zip(&part.lines).zip(&without.early);
    let mut all: Vec<_> =
        ratios.filter(|(_, early)| !**early).filter_map(|((ratio, line), _)| Some((ratio.as_ref()?, line))).collect();
    all.sort_by(|a, b| a.0.median.total_cmp(&b.0.median));
    let steady = || all.iter().filter(|(ratio, _)| !ratio.is_unsteady());
    let (count, unsteady) = (all.len(), all.len() - steady().count());
    let mut medians: Vec<f64> = all.iter().map(|(ratio, _)| ratio.median).collect();
    let Some(middle) = median(&mut medians) else { return Ok(()) };
    let slower = steady().filter(|(ratio, _)| ratio.median > 1.0).count();
    write!(
        out,
        "# {}: of {count} cells, {slower} slower with transom, {unsteady} unsteady (not counted as slower); \
         median ratio {middle:.2}",
        with.host
    )?;
    if let Some((worst, Line { function, window, sync, size, .. })) = steady().next_back() {
        write!(out, ", worst {:.2} ({function} {window} {sync} {size})", worst.median)?;
    }
    writeln!(out)?;
    let none = "a flush or an unlock returned before the data of its put had arrived at a target that computed";
    for column in [without, with].into_iter().filter(|column| column.early.contains(&true)) {
        let count = column.early.iter().filter(|early| **early).count();
        let counted = if column.with { "WRONG" } else { "not counted" };
        writeln!(out, "# {}: {count} cells with the mark !, {counted}: {none}", column.name())?;
    }
    Ok(())
}

/// Prints each reason of a failure or crash once, with its number of cells.
fn reasons(out: &mut impl Write, part: &Part) -> std::io::Result<()> {
    for column in &part.columns {
        let mut notes: Vec<(String, usize, usize)> = Vec::new();
        for (index, answer) in column.answers.iter().enumerate() {
            let words = match answer {
                Answer::Fails(why) => format!("fails: {why}"),
                Answer::Dies(why) => format!("dies: {why}"),
                Answer::Hangs => "hangs".to_owned(),
                Answer::Wrong => "wrong data".to_owned(),
                Answer::Skipped => "skipped: the time of --quick was over".to_owned(),
                _ => continue,
            };
            match notes.iter_mut().find(|(known, ..)| *known == words) {
                Some((_, count, _)) => *count += 1,
                None => notes.push((words, 1, index)),
            }
        }
        for (words, count, first) in notes {
            let line = part.lines[first].text();
            writeln!(out, "# {}: {count} x {words}; first: {}", column.name(), line.trim())?;
        }
    }
    out.flush()
}

/// Prints the grid: for each case whether it is passive, and the latency with a computing target.
pub(crate) fn grid(out: &mut impl Write, part: &Part) -> std::io::Result<()> {
    transport(out, part)?;
    if !has_results(part) {
        return no_results(out, part);
    }
    writeln!(
        out,
        "# A target that computes and calls nothing: passive (yes, late: NO, data missing: DATA), and the latency in us"
    )?;
    write!(out, "{:<10}{:<7}{:<18}", "# Window", "Sync", "Operation")?;
    for column in &part.columns {
        let name = if column.with { "+transom" } else { &column.host };
        write!(out, "{name:>19}")?;
    }
    writeln!(out)?;
    for (index, line) in part.lines.iter().enumerate() {
        write!(out, "{:<10}{:<7}{:<18}", line.window, line.sync, line.operation)?;
        for column in &part.columns {
            write!(out, "{:>19}", case(&column.answers[index]))?;
        }
        writeln!(out)?;
    }
    for column in &part.columns {
        let passive = column.answers.iter().filter(|answer| is_passive(answer)).count();
        writeln!(out, "# passive, {}: {passive} of {}", column.name(), part.lines.len())?;
        let prompt = column.answers.iter().filter(|answer| is_passive(answer) && is_prompt(answer)).count();
        writeln!(out, "# at most 3 times as late as with a waiting target, {}: {prompt}", column.name())?;
    }
    reasons(out, part)
}

fn is_passive(answer: &Answer) -> bool {
    matches!(answer, Answer::Case { passive: true, data: true, .. })
}

fn is_prompt(answer: &Answer) -> bool {
    matches!(*answer, Answer::Case { computing_us, attentive_us, .. } if crate::grid::is_prompt(computing_us, attentive_us))
}

fn case(answer: &Answer) -> String {
    match answer {
        Answer::Case { computing_us, passive, data, .. } => {
            let word = match (*passive, *data) {
                (true, true) => "yes",
                (true, false) => "DATA",
                (false, _) => "NO",
            };
            format!("{word} {computing_us:.1}")
        }
        other => other.word().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Transport, plan};
    use super::*;

    fn column(host: &str, with: bool, answers: Vec<Answer>) -> Column {
        Column { host: host.into(), with, early: vec![false; answers.len()], answers, ratios: Vec::new() }
    }

    /// A ratio with equal quartiles.
    fn steady(median: f64) -> Option<Ratio> {
        Some(Ratio { median, low: median, high: median })
    }

    fn text(show: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
        let mut out = Vec::new();
        show(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    /// Two MPIs, the second without its library; a put, one that died, and a bandwidth.
    #[test]
    fn ratios_are_of_times_and_the_best_is_of_all_mpis() {
        let all = plan::cells(true);
        let bandwidth = all.iter().find(|line| line.higher_is_better()).expect("one");
        let dies = || Answer::Dies("exit status: 139: Segmentation fault".into());
        let part = Part {
            transport: Transport::Shm,
            lines: vec![all[0], all[1], *bandwidth],
            columns: vec![
                column("a", false, vec![Answer::Value(2.0), dies(), Answer::Value(1000.0)]),
                Column {
                    ratios: vec![steady(0.27), None, steady(0.25)],
                    ..column("a", true, vec![Answer::Value(0.5), Answer::Value(7.0), Answer::Value(4000.0)])
                },
                column("b", false, vec![Answer::Value(0.25), Answer::Value(1.0), Answer::Value(500.0)]),
            ],
        };
        let text = text(|out| cells(out, &part));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |function: &str, size: &str| {
            rows.iter().find(|row| row[..].len() > 4 && row[0] == function && row[3] == size)
        };
        let put = row("put", "8").expect("a row");
        assert_eq!(put[4..], ["2.000", "0.500", "0.27", "0.250", "2.00"]);
        let died = row("put", "65536").expect("a row");
        assert_eq!(died[4..], ["dies", "7.000", "-", "1.000", "7.00"]);
        let stream = row("put_bw", "65536").expect("a row");
        assert_eq!(stream[4..], ["1000.0", "4000.0", "0.25", "500.0", "0.25"]);
        let summary = "# a: of 2 cells, 0 slower with transom, 0 unsteady (not counted as slower); \
                       median ratio 0.26, worst 0.27 (put ";
        assert!(text.contains(summary), "{text}");
        assert!(text.contains("# a: 1 x dies: exit status: 139: Segmentation fault; first: put allocate"), "{text}");
    }

    #[test]
    fn an_unsteady_cell_has_a_mark_and_is_not_slower() {
        let lines = plan::cells(true)[..3].to_vec();
        let values = || vec![Answer::Value(1.0); 3];
        let ratios = vec![steady(1.5), Some(Ratio { median: 2.0, low: 1.0, high: 3.0 }), steady(0.5)];
        let with = Column { ratios, ..column("a", true, values()) };
        let columns = vec![column("a", false, values()), with];
        let text =
            text(|out| cells(out, &Part { transport: Transport::Shm, lines: lines.clone(), columns: columns.clone() }));
        let ratios: Vec<_> = text.lines().filter(|line| line.starts_with("put ")).map(|line| &line[69..]).collect();
        assert_eq!(ratios, ["    1.50    1.50", "   2.00~   2.00~", "    0.50    0.50"]);
        let summary = "# a: of 3 cells, 1 slower with transom, 1 unsteady (not counted as slower); \
                       median ratio 1.50, worst 1.50 (put allocate ";
        assert!(text.contains(summary), "{text}");
    }

    #[test]
    fn a_cell_that_is_complete_too_early_has_a_mark_and_is_not_counted() {
        let lines = plan::cells(true)[..3].to_vec();
        let values = || vec![Answer::Value(1.0); 3];
        let with = Column { ratios: vec![steady(1.5), steady(2.0), steady(0.5)], ..column("a", true, values()) };
        let without = Column { early: vec![false, true, false], ..column("a", false, values()) };
        let part = Part { transport: Transport::Tcp, lines, columns: vec![without, with] };
        let shown = text(|out| cells(out, &part));
        let rows: Vec<_> = shown.lines().filter(|line| line.starts_with("put ")).collect();
        assert!(rows[1].contains("1.000!") && !rows[0].contains('!') && !rows[2].contains('!'), "{shown}");
        assert!(shown.contains("# a: of 2 cells, 1 slower with transom"), "{shown}");
        assert!(shown.contains("# a: 1 cells with the mark !, not counted: "), "{shown}");
    }

    #[test]
    fn the_grid_shows_passive_cases() {
        let case = |passive, data| Answer::Case { computing_us: 12.34, attentive_us: 1.0, passive, data };
        let prompt = Answer::Case { computing_us: 2.5, attentive_us: 0.1, passive: true, data: true };
        let lines = plan::grid()[..5].to_vec();
        let answers = vec![case(true, true), case(true, false), case(false, true), Answer::Hangs, prompt];
        let columns = vec![column("a", false, answers)];
        let text =
            text(|out| grid(out, &Part { transport: Transport::Tcp, lines: lines.clone(), columns: columns.clone() }));
        let shown = ["yes 12.3", "DATA 12.3", "NO 12.3", "hangs", "yes 2.5", "# passive, a: 2 of 5", "target, a: 1\n"];
        for words in shown {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(!text.contains("transom"), "{text}");
    }

    #[test]
    fn an_empty_table_has_two_lines() {
        let lines = plan::sample();
        let columns = vec![column("a", false, vec![Answer::Skipped; lines.len()])];
        let part = Part { transport: Transport::Shm, lines, columns };
        for text in [text(|out| grid(out, &part)), text(|out| cells(out, &part))] {
            let (first, rest) = text.trim_start().split_once('\n').expect("lines");
            assert_eq!(first, "# shm");
            assert!(rest.starts_with("# Nothing was measured\n# a: 6 x skipped: "), "{text}");
            assert_eq!(rest.lines().count(), 2, "{text}");
        }
    }
}
