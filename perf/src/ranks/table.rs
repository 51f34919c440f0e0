//! The table of a test of all ranks, and its JSON.

use std::io::Write;

use serde::Serialize;
use transom::Job;

use super::as_f64;
use super::clock::SHARES;
use crate::kinds::{Test, Unit};
use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::picture::Point;
use crate::report;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// Size in bytes.
    pub(crate) size: usize,
    /// The result with the library, in the unit of the test.
    pub(crate) value: f64,
    /// The result of the floor, in the unit of the test.
    pub(crate) floor: Option<f64>,
    /// Time of an operation with the library divided by the floor's time.
    pub(crate) ratio: Option<f64>,
    /// The 50th, 90th, 99th and 99.9th percentile of single operations, in us.
    pub(crate) percentiles: Option<[f64; 4]>,
    pub(crate) note: Option<String>,
    /// The time of one operation of a rank, over the rounds.
    pub(crate) times: Times,
}

/// The content of the JSON file.
#[derive(Serialize)]
struct Document<'d> {
    test: String,
    ranks: usize,
    unit: Unit,
    route: String,
    window: String,
    checked: bool,
    lines: &'d [Line],
}

impl Line {
    pub(super) fn new(
        options: &Options,
        ranks: usize,
        size: usize,
        times: Times,
        floor: Option<&Times>,
        percentiles: Option<[f64; 4]>,
        note: Option<String>,
    ) -> Line {
        let value = |times: &Times| value(options.test, ranks, size, times.median_ns);
        let ratio = floor.map(|floor| times.median_ns / floor.median_ns);
        Line { size, value: value(&times), floor: floor.map(value), ratio, percentiles, note, times }
    }

    /// The line in a picture over sizes.
    pub(super) fn point(&self) -> Point {
        Point { at: self.size, value: self.value, floor: self.floor }
    }
}

/// Converts the time of one operation of each rank to the unit of the test.
fn value(test: Test, ranks: usize, size: usize, nanoseconds: f64) -> f64 {
    let blocks = if test == Test::Alltoall { ranks } else { 1 };
    match test.unit() {
        Unit::Latency => nanoseconds / 1000.0,
        Unit::Rate => as_f64(ranks) * 1000.0 / nanoseconds,
        Unit::Bandwidth => as_f64(ranks * blocks * size) * 1000.0 / nanoseconds,
    }
}

/// Prints the lines above the table.
pub(super) fn head(out: &mut impl Write, options: &Options, world: &Job, has_floor: bool) -> Outcome<()> {
    report::head(options, world)?;
    writeln!(out, "# Ranks: {}; window creation: {:?}", world.size(), options.creation)?;
    if let Some(floor) = options.test.floor().filter(|_| options.vs_floor) {
        match has_floor {
            true => writeln!(out, "# Floor: {floor}")?,
            false => writeln!(out, "# Floor: none, because not all ranks are on one node")?,
        }
    }
    let unit = match options.test.unit() {
        Unit::Latency => "Latency (us)",
        Unit::Rate => "All ranks (Mop/s)",
        Unit::Bandwidth => "All ranks (MB/s)",
    };
    write!(out, "{:<10}{unit:>20}", "# Size")?;
    if options.vs_floor {
        write!(out, "{:>20}{:>20}", "Floor", "Time / floor")?;
    }
    if options.percentiles {
        for share in SHARES {
            write!(out, "{:>12}", format!("p{} (us)", as_f64(usize::try_from(share)?) / 10.0))?;
        }
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Prints one line.
pub(super) fn line(out: &mut impl Write, options: &Options, line: &Line) -> Outcome<()> {
    write!(out, "{:<10}{:>20.4}", line.size, line.value)?;
    if options.vs_floor {
        match line.floor.zip(line.ratio) {
            Some((floor, ratio)) => write!(out, "{floor:>20.4}{ratio:>20.2}")?,
            None => write!(out, "{:>20}{:>20}", "-", "-")?,
        }
    }
    for time in line.percentiles.iter().flatten() {
        write!(out, "{time:>12.3}")?;
    }
    writeln!(out, "{}", line.note.as_ref().map(|note| format!("   {note}")).unwrap_or_default())?;
    Ok(out.flush()?)
}

/// Writes the JSON file if one is requested.
pub(super) fn json(options: &Options, world: &Job, lines: &[Line]) -> Outcome<()> {
    let document = Document {
        test: options.test.name(),
        ranks: world.size(),
        unit: options.test.unit(),
        route: report::route(world)?,
        window: format!("{:?}", options.creation),
        checked: options.check,
        lines,
    };
    report::write_json(options, &document)
}
