//! The plot: latency and bandwidth over the size, on logarithmic scales, a line for each MPI with
//! the library and without. Owns its SVG; knows nothing of how the numbers came about.

use std::fmt::Write;

use super::plan::Line;
use super::{Column, Part};

/// A panel's area for the lines, and what is around it, in px.
const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 46.0;
/// The height of a line of the legend.
const LEGEND: f64 = 20.0;

/// What the panels of a row show: the function, and the axis' name.
const PANELS: [(&str, &str, &str); 3] =
    [("put", "put and flush", "us"), ("get", "get and flush", "us"), ("put_bw", "puts in flight", "MB/s")];

/// A color for each MPI, told apart by people who see red and green alike.
pub(super) const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];

/// A scale of powers of ten, from pixel to pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// One on which all values lie, from a power of ten to another.
    pub(super) fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let logs = values.filter(|value| *value > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        if low > high {
            return Scale { low: 0.0, high: 1.0, from, to };
        }
        let (low, high) = ((low - 1e-9).floor(), (high + 1e-9).ceil());
        Scale { low, high: if high > low { high } else { low + 1.0 }, from, to }
    }

    /// The pixel of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The powers of ten on it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut power = self.low;
        while power <= self.high + 1e-9 {
            ticks.push(10f64.powf(power));
            power += 1.0;
        }
        ticks
    }
}

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
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>"
    );
    let mut top = 0.0;
    for part in &rows {
        for (index, (function, title, unit)) in PANELS.into_iter().enumerate() {
            #[allow(clippy::cast_precision_loss)] // a few
            let left = index as f64 * (LEFT + WIDTH + RIGHT);
            let title = format!("{title}, {} ({unit})", part.transport.name());
            panel(&mut out, part, function, &title, (left + LEFT, top + TOP));
        }
        top += TOP + HEIGHT + BOTTOM;
    }
    if let Some(part) = rows.first() {
        legend(&mut out, &part.columns, top);
    }
    out.push_str("</svg>\n");
    out
}

/// A panel whose area begins at a corner.
fn panel(out: &mut String, part: &Part, function: &str, title: &str, (left, top): (f64, f64)) {
    let lines: Vec<_> = part.columns.iter().map(|column| points(part, column, function)).collect();
    let all = || lines.iter().flatten();
    let x = Scale::around(all().map(|point| point.0), left, left + WIDTH);
    let y = Scale::around(all().map(|point| point.1), top + HEIGHT, top);
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{}</text>", top - 12.0, escaped(title));
    for tick in x.ticks() {
        let (at, bottom) = (x.place(tick), top + HEIGHT);
        let _ = writeln!(out, "<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#ddd\"/>");
        let _ =
            writeln!(out, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", bottom + 16.0, short(tick));
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = writeln!(out, "<path d=\"M{left} {at:.1}H{}\" stroke=\"#ddd\"/>", left + WIDTH);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            short(tick)
        );
    }
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#888\"/>"
    );
    let middle = left + WIDTH / 2.0;
    let _ = writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">bytes</text>", top + HEIGHT + 32.0);
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let path: Vec<_> =
            line.iter().map(|&(size, value)| format!("{:.1},{:.1}", x.place(size), y.place(value))).collect();
        let _ =
            writeln!(out, "<polyline points=\"{}\" fill=\"none\" {}/>", path.join(" "), stroke(&part.columns, index));
        for point in path {
            let (cx, cy) = point.split_once(',').unwrap_or_default();
            let _ = writeln!(
                out,
                "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.5\" fill=\"{}\"/>",
                COLORS[color(&part.columns, index) % COLORS.len()]
            );
        }
    }
    if all().next().is_none() {
        let at = top + HEIGHT / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle}\" y=\"{at}\" text-anchor=\"middle\" fill=\"#888\">nothing measured</text>"
        );
    }
}

/// Without the library a line is dashed.
fn stroke(columns: &[Column], index: usize) -> String {
    let dash = if columns[index].with { "" } else { " stroke-dasharray=\"6 4\"" };
    format!("stroke=\"{}\" stroke-width=\"2\"{dash}", COLORS[color(columns, index) % COLORS.len()])
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

/// A power of ten for people.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 0.99e6 => format!("{:.0}M", value / 1e6),
        value if value >= 0.99e3 => format!("{:.0}k", value / 1e3),
        value if value >= 0.99 => format!("{value:.0}"),
        value => format!("{value}"),
    }
}

/// A text as SVG takes it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::answers::Answer;
    use super::super::{Transport, plan};
    use super::*;

    #[test]
    fn scales_are_of_whole_powers() {
        let scale = Scale::around([0.03, 700.0].into_iter(), 0.0, 100.0);
        assert_eq!((scale.low, scale.high), (-2.0, 3.0));
        assert_eq!(scale.ticks().len(), 6);
        assert!((scale.place(10.0) - 60.0).abs() < 1e-9);
        let one = Scale::around([100.0].into_iter(), 0.0, 100.0);
        assert!(one.high > one.low && one.place(100.0).is_finite());
        assert!(Scale::around(std::iter::empty(), 0.0, 1.0).place(1.0).is_finite());
    }

    #[test]
    fn every_measured_column_is_a_line_in_each_panel() {
        let lines = plan::cells(false);
        #[allow(clippy::cast_precision_loss)]
        let values =
            |by: f64| lines.iter().map(|line| Answer::Value(by * (1.0 + line.size as f64))).collect::<Vec<_>>();
        let column = |host: &str, with, answers| Column { host: host.into(), with, answers };
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
        // Three panels and the legend, of each of them.
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
