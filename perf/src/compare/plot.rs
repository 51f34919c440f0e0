//! The plot: latency and bandwidth over the size, on logarithmic scales, a line for each MPI with
//! the library and without. Owns its SVG; must not know the source of the numbers.

use std::fmt::Write;

use super::plan::Line;
use super::{Column, Part};
use crate::chart::{self, BOTTOM, COLORS, Curve, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escaped};

/// The height of a line of the legend.
const LEGEND: f64 = 20.0;

/// The content of a row's panels: the function, and the name of the axis.
const PANELS: [(&str, &str, &str); 3] =
    [("put", "put and flush", "us"), ("get", "get and flush", "us"), ("put_bw", "puts in flight", "MB/s")];

/// The points of a line: size and value.
fn points(part: &Part, column: &Column, function: &str) -> Vec<(f64, f64)> {
    let of = |line: &&Line| line.function == function && line.window == "allocate" && line.sync == "flush";
    let all = part.lines.iter().zip(&column.answers).filter(|(line, _)| of(line));
    #[allow(clippy::cast_precision_loss)] // sizes are small
    let all = all.filter_map(|(line, answer)| Some((line.size as f64, answer.value().filter(|value| *value > 0.0)?)));
    all.collect()
}

/// The whole plot: a row of panels for each transport, and a legend.
pub(crate) fn svg(parts: &[Part]) -> String {
    let rows: Vec<&Part> = parts.iter().filter(|part| part.lines.iter().any(|line| line.function != "grid")).collect();
    let columns = rows.first().map_or(0, |part| part.columns.len());
    #[allow(clippy::cast_precision_loss)] // a few
    let (count, entries, across) = (rows.len() as f64, columns.div_ceil(2) as f64, PANELS.len() as f64);
    let (wide, high) = (across * (LEFT + WIDTH + RIGHT), count * (TOP + HEIGHT + BOTTOM) + (entries + 1.0) * LEGEND);
    let mut out = chart::begin(wide, high);
    let mut top = 0.0;
    for part in &rows {
        for (index, (function, title, unit)) in PANELS.into_iter().enumerate() {
            #[allow(clippy::cast_precision_loss)] // a few
            let left = index as f64 * (LEFT + WIDTH + RIGHT);
            let title = format!("{title}, {} ({unit})", part.transport.name());
            let curves: Vec<_> = (0..part.columns.len()).map(|index| curve(part, index, function)).collect();
            chart::panel(&mut out, &title, chart::BYTES, &curves, (left + LEFT, top + TOP));
        }
        top += TOP + HEIGHT + BOTTOM;
    }
    if let Some(part) = rows.first() {
        legend(&mut out, &part.columns, top);
    }
    out.push_str("</svg>\n");
    out
}

/// The curve of a column in the panel of a function.
fn curve(part: &Part, index: usize, function: &str) -> Curve {
    let column = &part.columns[index];
    let color = COLORS[color(&part.columns, index) % COLORS.len()];
    Curve { points: points(part, column, function), color, dashed: !column.with }
}

/// Without the library a line is dashed.
fn stroke(columns: &[Column], index: usize) -> String {
    chart::stroke(COLORS[color(columns, index) % COLORS.len()], !columns[index].with)
}

/// The number of a column's MPI: each begins with its column without the library.
fn color(columns: &[Column], index: usize) -> usize {
    columns[1..=index].iter().filter(|column| !column.with).count()
}

fn legend(out: &mut String, columns: &[Column], top: f64) {
    for (index, column) in columns.iter().enumerate() {
        #[allow(clippy::cast_precision_loss)] // a few
        let (left, at) = (LEFT + (index % 2) as f64 * 300.0, top + (index / 2) as f64 * LEGEND + LEGEND / 2.0);
        let name = if column.with { format!("{} with transom", column.host) } else { column.host.clone() };
        let none = if column.answers.iter().any(super::Answer::is_measured) { "" } else { " (not measured)" };
        let _ = writeln!(out, "<path d=\"M{left} {at}h40\" {}/>", stroke(columns, index));
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{}{none}</text>", left + 48.0, at + 4.0, escaped(&name));
    }
}

#[cfg(test)]
mod tests {
    use super::super::answers::Answer;
    use super::super::{Transport, plan};
    use super::*;

    #[test]
    fn every_measured_column_is_a_line_in_each_panel() {
        let lines = plan::cells(false);
        #[allow(clippy::cast_precision_loss)]
        let values =
            |by: f64| lines.iter().map(|line| Answer::Value(by * (1.0 + line.size as f64))).collect::<Vec<_>>();
        let column = |host: &str, with, answers| Column {
            host: host.into(),
            with,
            early: vec![false; lines.len()],
            answers,
            ratios: Vec::new(),
        };
        let columns = vec![
            column("a<b", false, values(1.0)),
            column("a<b", true, values(0.1)),
            column("c", false, values(2.0)),
            column("c", true, vec![Answer::Skipped; lines.len()]),
            column("d", false, values(3.0)),
        ];
        let part = Part { transport: Transport::Shm, lines: lines.clone(), columns };
        let grid = Part { transport: Transport::Shm, lines: plan::grid(), columns: Vec::new() };
        let text = svg(&[part, grid]);
        assert_eq!(text.matches("<polyline").count(), 12);
        // Each column has a line in three panels and in the legend.
        let strokes = |color: &str, dashed: bool| {
            let lines = text.lines().filter(|line| line.contains(&format!("stroke=\"{color}\" stroke-width=\"2\"")));
            lines.filter(|line| line.contains("dasharray") == dashed).count()
        };
        let seen = COLORS[..3].iter().map(|color| [strokes(color, true), strokes(color, false)]);
        assert_eq!(seen.collect::<Vec<_>>(), [[4, 4], [4, 1], [4, 0]]);
        assert_eq!(text.matches("not measured").count(), 1);
        assert!(text.contains("a&lt;b with transom") && !text.contains("NaN") && !text.contains("inf"));
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
        assert!(svg(&[]).contains("</svg>"));
    }
}
