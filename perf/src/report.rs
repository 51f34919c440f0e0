//! Tables of the OSU form, and JSON.

use std::io::Write;

use serde::Serialize;
use transom::{Job, Route};

use crate::kinds::Test;
use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::output::output;
use crate::perftest::Perftest;
use crate::picture::{self, Point};

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The operation, in tables of several operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) what: Option<String>,
    /// The size in bytes.
    pub(crate) size: usize,
    /// The times of the library; in the floor's table, of the floor.
    pub(crate) library: Times,
    /// The times of the floor.
    pub(crate) floor: Option<Times>,
    /// The time of the library divided by that of the floor: above 1 the library is slower.
    pub(crate) ratio: Option<f64>,
    /// perftest's number, in microseconds or 10^6 bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) perftest: Option<f64>,
}

#[derive(Serialize)]
struct Document<'d> {
    test: String,
    route: &'d str,
    actor: String,
    window: String,
    synchronization: String,
    operations_in_flight: usize,
    checked: bool,
    rows: &'d [Row],
}

impl Row {
    pub(crate) fn new(size: usize, library: Times, floor: Option<Times>) -> Row {
        let ratio = floor.as_ref().map(|floor| library.median_ns / floor.median_ns);
        Row { what: None, size, library, floor, ratio, perftest: None }
    }
}

/// The route between the two ranks, in words.
pub(crate) fn route(world: &Job) -> Outcome<String> {
    Ok(match world.route(1 - world.rank().min(1))? {
        Route::Shm => "shared memory".into(),
        _ => world.net().unwrap_or_else(|| "unknown".into()),
    })
}

/// Prints the subject of the measurement, and the machines.
pub(crate) fn head(options: &Options, world: &Job) -> Outcome<()> {
    let mut out = output();
    writeln!(out, "# transom-perf {} {}", options.test.name(), env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "# Route: {}; atomics: {}; checked: {}", route(world)?, world.actor(), options.check)?;
    Ok(out.flush()?)
}

/// Prints the lines above a table. `apart`: the floor is measured after the library.
pub(crate) fn header(options: &Options, world: &Job, perftest: Option<&Perftest>, apart: bool) -> Outcome<()> {
    head(options, world)?;
    // The test has windows of both kinds, and a flush.
    if options.test == Test::Passive {
        return Ok(());
    }
    let mut out = output();
    writeln!(out, "# Window creation: {:?}", options.creation)?;
    if options.test.takes_synchronization() {
        writeln!(out, "# Synchronization: {:?}", options.synchronization)?;
    }
    if let Some(floor) = options.test.floor().filter(|_| options.vs_floor) {
        writeln!(out, "# Floor: {floor}")?;
    }
    if apart {
        writeln!(out, "# Floor: measured after the library, whose rounds the floor's polling target would disturb")?;
    }
    if let Some(perftest) = perftest {
        writeln!(out, "# perftest: {}", perftest.means())?;
    }
    let unit = if options.test.is_bandwidth() { "Bandwidth (MB/s)" } else { "Latency (us)" };
    write!(out, "{:<10}{unit:>20}", "# Size")?;
    if options.vs_floor {
        write!(out, "{:>20}{:>20}", "Floor", "Time / floor")?;
    }
    if perftest.is_some() {
        write!(out, "{:>20}", "perftest")?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Prints one line.
pub(crate) fn line(options: &Options, row: &Row) -> Outcome<()> {
    let mut out = output();
    write!(out, "{:<10}{:>20}", row.size, number(options, row.size, &row.library))?;
    if let (Some(floor), Some(ratio)) = (&row.floor, row.ratio) {
        write!(out, "{:>20}{ratio:>20.2}", number(options, row.size, floor))?;
    }
    if let Some(perftest) = row.perftest {
        write!(out, "{perftest:>20.2}")?;
    }
    writeln!(out, "{}", row.what.as_ref().map(|what| format!("   {what}")).unwrap_or_default())?;
    Ok(out.flush()?)
}

/// Prints a remark below the line that it concerns.
pub(crate) fn note(text: &str) -> Outcome<()> {
    let mut out = output();
    writeln!(out, "# {text}")?;
    Ok(out.flush()?)
}

/// OSU prints two decimals, which are too few below a microsecond, so latencies have four.
fn number(options: &Options, size: usize, times: &Times) -> String {
    let value = value(options, size, times);
    if options.test.is_bandwidth() { format!("{value:.2}") } else { format!("{value:.4}") }
}

/// The result in the unit of the test.
fn value(options: &Options, size: usize, times: &Times) -> f64 {
    #[allow(clippy::cast_precision_loss)] // sizes up to 1 GiB
    let bytes = size as f64 * options.window as f64;
    if options.test.is_bandwidth() { bytes / times.median_ns * 1000.0 } else { times.median_ns / 1000.0 }
}

/// Draws the rows, if a picture is requested.
pub(crate) fn draw(options: &Options, rows: &[Row]) -> Outcome<()> {
    let point = |row: &Row| {
        let of = |times: &Times| value(options, row.size, times);
        Point { at: row.size, value: of(&row.library), floor: row.floor.as_ref().map(of) }
    };
    picture::over_sizes(options, rows.iter().map(point).collect())
}

/// Writes the rows to the JSON file, if one is requested.
pub(crate) fn json(options: &Options, world: &Job, rows: &[Row]) -> Outcome<()> {
    let document = Document {
        test: options.test.name(),
        route: &route(world)?,
        actor: world.actor().to_string(),
        window: format!("{:?}", options.creation),
        synchronization: format!("{:?}", options.synchronization),
        operations_in_flight: if options.test.is_bandwidth() { options.window } else { 1 },
        checked: options.check,
        rows,
    };
    write_json(options, &document)
}

/// Writes a document to the JSON file, if one is requested.
pub(crate) fn write_json(options: &Options, document: &impl Serialize) -> Outcome<()> {
    let Some(path) = &options.json else { return Ok(()) };
    let text = serde_json::to_string_pretty(document)?;
    std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()).into())
}
