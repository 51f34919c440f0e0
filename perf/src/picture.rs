//! The picture of one test: its results, and the floor's, over the sizes or over the number of
//! ranks. Owns the curves' meaning and the legend; must not measure.

use std::fmt::Write;

use crate::chart::{self, Axis, BOTTOM, BYTES, COLORS, Curve, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escaped};
use crate::options::Options;
use crate::outcome::Outcome;

/// The width of the legend, and the height of a line of it, in px.
const LEGEND: (f64, f64) = (210.0, 20.0);

/// A result at a size or at a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: usize,
    pub(crate) value: f64,
    pub(crate) floor: Option<f64>,
}

/// Results of the same size, or of the same number of ranks.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// Draws the results over the sizes, if a picture is requested.
pub(crate) fn over_sizes(options: &Options, points: Vec<Point>) -> Outcome<()> {
    write(options, BYTES, &[Series { name: "transom".into(), points }])
}

/// Draws the results over the number of ranks, if a picture is requested.
pub(crate) fn over_ranks(options: &Options, series: &[Series]) -> Outcome<()> {
    write(options, Axis { name: "ranks", base: 2.0 }, series)
}

fn write(options: &Options, across: Axis<'_>, series: &[Series]) -> Outcome<()> {
    let Some(path) = &options.picture.svg else { return Ok(()) };
    let title = format!("{} ({})", options.test.name(), options.test.unit().symbol());
    let text = svg(&title, across, series);
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A panel with a line for each series, a dashed one for its floor, and the legend.
fn svg(title: &str, across: Axis<'_>, series: &[Series]) -> String {
    let mut curves = Vec::new();
    for (index, Series { name, points }) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        // Logarithmic scales have no 0.
        let points = || points.iter().filter(|point| point.at > 0);
        #[allow(clippy::cast_precision_loss)] // sizes and ranks are small
        let at = |point: &Point| point.at as f64;
        let values = points().map(|point| (at(point), point.value)).collect();
        curves.push((name.clone(), Curve { points: values, color, dashed: false }));
        let floor: Vec<_> = points().filter_map(|point| Some((at(point), point.floor?))).collect();
        if !floor.is_empty() {
            curves.push((format!("{name}: floor"), Curve { points: floor, color, dashed: true }));
        }
    }
    let mut out = chart::begin(LEFT + WIDTH + RIGHT + LEGEND.0, TOP + HEIGHT + BOTTOM);
    let drawn: Vec<_> = curves.iter().map(|(_, curve)| curve.clone()).collect();
    chart::panel(&mut out, title, across, &drawn, (LEFT, TOP));
    let (left, mut at) = (LEFT + WIDTH + RIGHT, TOP + 8.0);
    for (name, curve) in &curves {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<path d=\"M{left} {at}h40\" {}/>", chart::stroke(curve.color, curve.dashed));
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", left + 48.0, at + 4.0, escaped(name));
        at += LEGEND.1;
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_a_line_and_one_for_its_floor() {
        let point = |at, floor| Point { at, value: 2.5, floor };
        let with = Series { name: "a<b".into(), points: vec![point(0, Some(1.0)), point(2, Some(1.0))] };
        let without = Series { name: "c".into(), points: vec![point(2, None), point(4, None)] };
        let text = svg("title", BYTES, &[with, without]);
        assert_eq!(text.matches("<polyline").count(), 3, "{text}");
        // Each point and each line of the legend, without the size 0.
        assert_eq!((text.matches("<circle").count(), text.matches("h40").count()), (4, 3), "{text}");
        assert!(text.contains("a&lt;b: floor") && !text.contains("c: floor"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf") && text.trim_end().ends_with("</svg>"), "{text}");
    }
}
