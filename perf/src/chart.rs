//! Panels of curves on logarithmic scales, as SVG. This module must not know the meaning of the
//! curves.

use std::fmt::Write;

/// A panel's area for the lines, and its margins, in px.
pub(crate) const WIDTH: f64 = 330.0;
pub(crate) const HEIGHT: f64 = 230.0;
pub(crate) const LEFT: f64 = 62.0;
pub(crate) const RIGHT: f64 = 18.0;
pub(crate) const TOP: f64 = 46.0;
pub(crate) const BOTTOM: f64 = 46.0;
/// Colors that red-green color-blind readers can distinguish.
pub(crate) const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];

/// A scale of powers of a base, from pixel to pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    base: f64,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that contains all values, from one power of ten to another. `from`, `to`: the pixels
    /// of its ends.
    pub(crate) fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        Scale::of(10.0, values, from, to)
    }

    /// [`Scale::around`] for powers of another base.
    fn of(base: f64, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let logs = values.filter(|value| *value > 0.0).map(|value| value.log(base));
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        if low > high {
            return Scale { base, low: 0.0, high: 1.0, from, to };
        }
        let (low, high) = ((low - 1e-9).floor(), (high + 1e-9).ceil());
        Scale { base, low, high: if high > low { high } else { low + 1.0 }, from, to }
    }

    /// The pixel of a value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        self.from + (value.log(self.base) - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The powers on the scale.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut power = self.low;
        while power <= self.high + 1e-9 {
            ticks.push(self.base.powf(power));
            power += 1.0;
        }
        ticks
    }
}

/// A line of a panel.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// In the units of the axes; all above 0.
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) color: &'static str,
    pub(crate) dashed: bool,
}

/// An axis for numbers: its name, and the number whose powers are its ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'t> {
    pub(crate) name: &'t str,
    pub(crate) base: f64,
}

/// Bytes.
pub(crate) const BYTES: Axis<'static> = Axis { name: "bytes", base: 10.0 };

/// The attributes of a line.
pub(crate) fn stroke(color: &str, dashed: bool) -> String {
    let dash = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    format!("stroke=\"{color}\" stroke-width=\"2\"{dash}")
}

/// The first line of a picture, with a white ground.
pub(crate) fn begin(wide: f64, high: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>\n"
    )
}

/// A panel; the corner is the beginning of its area.
pub(crate) fn panel(out: &mut String, title: &str, across: Axis<'_>, curves: &[Curve], (left, top): (f64, f64)) {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let x = Scale::of(across.base, all().map(|point| point.0), left, left + WIDTH);
    let y = Scale::around(all().map(|point| point.1), top + HEIGHT, top);
    // Writing to a string cannot fail, here and below.
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
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        top + HEIGHT + 32.0,
        escaped(across.name)
    );
    for Curve { points, color, dashed } in curves.iter().filter(|curve| !curve.points.is_empty()) {
        let path: Vec<_> = points.iter().map(|&(at, value)| (x.place(at), y.place(value))).collect();
        let text: Vec<_> = path.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(out, "<polyline points=\"{}\" fill=\"none\" {}/>", text.join(" "), stroke(color, *dashed));
        for (x, y) in path {
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{color}\"/>");
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

/// A power of ten in a short form, with k or M.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 0.99e6 => format!("{:.0}M", value / 1e6),
        value if value >= 0.99e3 => format!("{:.0}k", value / 1e3),
        value if value >= 0.99 => format!("{value:.0}"),
        value => format!("{value}"),
    }
}

/// A text in which the special characters of XML are escaped.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_consist_of_whole_powers() {
        let scale = Scale::around([0.03, 700.0].into_iter(), 0.0, 100.0);
        assert_eq!((scale.low, scale.high), (-2.0, 3.0));
        assert_eq!(scale.ticks().len(), 6);
        assert!((scale.place(10.0) - 60.0).abs() < 1e-9);
        let one = Scale::around([100.0].into_iter(), 0.0, 100.0);
        assert!(one.high > one.low && one.place(100.0).is_finite());
        assert!(Scale::around(std::iter::empty(), 0.0, 1.0).place(1.0).is_finite());
    }
}
