//! The plot of ratios: for each cell that a flush completes, a bar for each MPI, from 1 to the time
//! with the library divided by the time without it. Owns its SVG, which is readable on light and
//! dark pages; must not know the source of the numbers.

use std::fmt::Write;

use super::plan::Line;
use super::table::by_mpi;
use super::{Column, Part};
use crate::chart::{COLORS, Scale, escaped, short};

/// Widths of the names, of the bars and of their numbers, in px.
const NAMES: f64 = 280.0;
const BARS: f64 = 420.0;
const NUMBERS: f64 = 70.0;
/// Heights of the legend, of a title with the scale, of a bar, and of the gap between cells, in px.
const LEGEND: f64 = 28.0;
const TITLE: f64 = 44.0;
const BAR: f64 = 11.0;
const GAP: f64 = 7.0;

const STYLE: &str = "<style>text{fill:#24292f}.rule{stroke:#d0d7de}.one{stroke:#57606a}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.rule{stroke:#30363d}.one{stroke:#8b949e}}</style>";

/// An MPI, without the library and with it.
type Pair<'p> = [&'p Column; 2];

/// The cells to show, as indices of the plan. Of the cells between two ranks: for each function the
/// smallest and the largest size on allocated and created windows, completed by a flush. Of the
/// cells of all ranks: all.
fn cells(lines: &[Line]) -> Vec<usize> {
    let alike = |a: &Line, b: &Line| (a.function, a.window, a.sync) == (b.function, b.window, b.sync);
    let shown = |line: &Line| {
        let sizes = || lines.iter().filter(|other| alike(line, other)).map(|other| other.size);
        let ends = [sizes().min(), sizes().max()];
        line.sync == "flush" && ["allocate", "create"].contains(&line.window) && ends.contains(&Some(line.size))
    };
    let any = |line: &Line| !line.is_between_two_ranks() || line.function != "grid" && shown(line);
    (0..lines.len()).filter(|&index| any(&lines[index])).collect()
}

/// The ratio of a cell, or the word that the table shows instead of it.
fn outcome(index: usize, [without, with]: Pair<'_>) -> Result<f64, &'static str> {
    without.answers[index].value().ok_or(without.answers[index].word())?;
    with.ratios[index].map(|ratio| ratio.median).ok_or(with.answers[index].word())
}

/// The whole plot: a legend, and for each transport a list of cells.
pub(crate) fn svg(parts: &[Part]) -> String {
    let mut body = String::new();
    let mut top = LEGEND;
    let mut names: Vec<&str> = Vec::new();
    for part in parts {
        let pairs: Vec<Pair<'_>> =
            by_mpi(part).filter_map(|group| group.iter().collect::<Vec<_>>().try_into().ok()).collect();
        let cells = cells(&part.lines);
        if pairs.is_empty() || cells.is_empty() {
            continue;
        }
        names = pairs.iter().map(|[without, _]| without.host.as_str()).collect();
        top = list(&mut body, part, &pairs, &cells, top);
    }
    let (wide, high) = (NAMES + BARS + NUMBERS, top + GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high:.0}\" \
         viewBox=\"0 0 {wide} {high:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n{STYLE}\n"
    );
    let mut left = NAMES;
    for (name, color) in names.iter().zip(COLORS.iter().cycle()) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "<rect x=\"{left}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{color}\"/>");
        let _ = writeln!(out, "<text x=\"{}\" y=\"18\">{}</text>", left + 18.0, escaped(name));
        left += 120.0;
    }
    out + &body + "</svg>\n"
}

/// The cells of a transport from `top` on; returns where they end.
fn list(out: &mut String, part: &Part, pairs: &[Pair<'_>], cells: &[usize], top: f64) -> f64 {
    let all = || cells.iter().flat_map(|&at| pairs.iter().filter_map(move |pair| outcome(at, *pair).ok()));
    // 1 is always on the scale.
    let scale = Scale::around(all().chain([1.0]), NAMES, NAMES + BARS);
    #[allow(clippy::cast_precision_loss)] // a few
    let row = pairs.len() as f64 * BAR + GAP;
    #[allow(clippy::cast_precision_loss)] // some dozens
    let bottom = top + TITLE + cells.len() as f64 * row;
    let title = format!("{}: time with transom by time without", part.transport.name());
    let _ = writeln!(
        out,
        "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{title}; left of 1 transom is faster</text>",
        top + 14.0
    );
    for tick in scale.ticks() {
        let (at, is_one) = (scale.place(tick), (tick - 1.0).abs() < 1e-9);
        let class = if is_one { "one" } else { "rule" };
        let _ = writeln!(out, "<path class=\"{class}\" d=\"M{at:.1} {}V{bottom:.1}\"/>", top + TITLE - 4.0);
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            top + TITLE - 8.0,
            short(tick)
        );
    }
    let mut at = top + TITLE;
    for &cell in cells {
        let line = &part.lines[cell];
        let name = format!("{} of {}, {} window", line.function, size(line.size), line.window);
        let middle = at + (row - GAP) / 2.0 + 4.0;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>", NAMES - 8.0);
        for (pair, color) in pairs.iter().zip(COLORS.iter().cycle()) {
            bar(out, &scale, outcome(cell, *pair), color, at);
            at += BAR;
        }
        at += GAP;
    }
    bottom
}

/// A bar between 1 and the ratio, with the number behind its end.
fn bar(out: &mut String, scale: &Scale, outcome: Result<f64, &'static str>, color: &str, top: f64) {
    let one = scale.place(1.0);
    let (from, to) = match outcome {
        Ok(ratio) => (scale.place(ratio).min(one), scale.place(ratio).max(one)),
        Err(_) => (one, one),
    };
    let text = match outcome {
        Ok(ratio) if ratio < 0.0005 => "<0.001".to_owned(),
        Ok(ratio) if ratio < 0.095 => format!("{ratio:.3}"),
        Ok(ratio) => format!("{ratio:.2}"),
        Err(word) => word.to_owned(),
    };
    let (wide, high) = (to - from, BAR - 1.0);
    let _ =
        writeln!(out, "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high}\" fill=\"{color}\"/>");
    let _ =
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>", to + 4.0, top + 9.0, escaped(&text));
}

/// A number of bytes in B, KiB or MiB.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answers::Answer;
    use super::super::ratios::Ratio;
    use super::super::{Transport, plan};
    use super::*;

    #[test]
    fn each_cell_has_a_bar_for_each_mpi_with_its_library() {
        let lines = plan::cells(true);
        let values = |value| vec![Answer::Value(value); lines.len()];
        let column = |host: &str, with, answers| {
            let ratio = |line: &Line| if line.higher_is_better() { 4.0 } else { 0.25 };
            let ratio = |line: &Line| Some(Ratio { median: ratio(line), low: 0.2, high: 5.0 });
            let (early, ratios) = (vec![false; lines.len()], lines.iter().map(ratio).collect());
            Column { host: host.into(), with, answers, early, ratios }
        };
        let columns = vec![
            column("a<b", false, values(2.0)),
            column("a<b", true, values(0.5)),
            column("c", false, values(1.0)),
            Column { ratios: vec![None; lines.len()], ..column("c", true, vec![Answer::Hangs; lines.len()]) },
            column("alone", false, values(3.0)),
        ];
        let part = Part { transport: Transport::Shm, lines: lines.clone(), columns };
        let grid = Part { transport: Transport::Shm, lines: plan::grid(), columns: Vec::new() };
        let text = svg(&[part, grid]);
        // Three functions of two sizes, two of words, two of bandwidth, in two windows.
        assert_eq!(cells(&lines).len(), 20);
        // Times with the library are a quarter of those without, and so are bandwidths, whose ratio
        // is therefore four.
        let count = |number: &str| text.matches(&format!(">{number}</text>")).count();
        assert_eq!([count("0.25"), count("4.00"), count("hangs")], [16, 4, 20]);
        assert_eq!(text.matches("<rect").count(), 2 + 40);
        assert!(text.contains("a&lt;b") && !text.contains("alone") && !text.contains("NaN") && !text.contains("inf"));
        assert!(text.contains("put of 64 KiB, create window") && text.contains("prefers-color-scheme:dark"));
        assert!(svg(&[]).contains("</svg>"));
    }
}
