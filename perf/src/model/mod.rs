//! `transom-perf model`: time and memory of a window's calls for any number of ranks, computed from
//! the counts of remote operations and the LogGP parameters of a net. Owns the command line, the
//! table and the plot. The counts are those that tests assert on the simulated net.

mod counts;
mod goal;
mod loggp;
mod measured;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::chart::{self, Axis, BOTTOM, COLORS, Curve, HEIGHT, LEFT, RIGHT, TOP, WIDTH};
use crate::outcome::Outcome;
use crate::output::{output, parsed};
use counts::{Call, shape};
use goal::Schedule;
use loggp::LogGp;
use measured::Measured;

/// Computes, for any number of ranks, the time of window creation, fence, locks,
/// post-start-complete-wait and start-up, and the memory of a window.
///
/// The remote operations of each call are those of docs/protocols.md, which tests assert on the
/// simulated net for 2 to 512 ranks. The time of an operation comes from the LogGP model: a message
/// takes L + 2o + (bytes - 1) G, a rank sends one message in the time g, and the answer to a put or
/// an atomic takes a further L. The model assumes that locks are not contended, and that all ranks
/// enter a collective call at the same time.
#[derive(Clone, Debug, Parser)]
#[command(name = "transom-perf model", bin_name = "transom-perf model", version)]
struct Options {
    /// Fewest and most ranks; the table has these numbers and the powers of two between them.
    #[arg(long, value_name = "FROM..TO", value_parser = ranks, default_value = "2..1000000")]
    ranks: (u64, u64),
    /// L, o and g in us, and G in ns for each byte. By default these are measured between two ranks
    /// over the route that TRANSOM_TRANSPORTS chooses: o and g from puts in flight, G from a long
    /// put, L from a fence and from a put of 8 bytes (the longer of the two times). Within a node
    /// puts and atomics take less time than the model computes; the head of the table shows the
    /// measured times.
    #[arg(long, value_name = "L,o,g,G", value_parser = LogGp::parse)]
    loggp: Option<LogGp>,
    /// Time in us in which the launcher answers one request of one rank.
    #[arg(long, value_name = "US", default_value_t = 20.0)]
    request: f64,
    /// Neighbours of a rank in post-start-complete-wait.
    #[arg(long, value_name = "RANKS", default_value_t = 1)]
    neighbours: u64,
    /// Draw the times over the number of ranks, with the published curves of foMPI, to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the table to a file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a schedule for the smallest number of ranks to a file, in GOAL, the language of
    /// LogGOPSim and ATLAHS.
    #[arg(long, value_name = "FILE")]
    goal: Option<PathBuf>,
    /// The call that the schedule describes.
    #[arg(long, value_enum, default_value_t = Schedule::Fence)]
    schedule: Schedule,
}

/// Largest number of ranks of a schedule, whose file has a line for each message of each rank.
const GOAL_RANKS: u64 = 1 << 16;

fn ranks(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    if from < 2 || from > to || to > 1 << 32 {
        return Err(format!("{from}..{to} is not a range of ranks from 2 to 2^32"));
    }
    Ok((from, to))
}

/// The main function of this subcommand; `args` are those from its name on.
pub(crate) fn main(args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let options: Options = match parsed("transom-perf model", args) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transom-perf model: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The times of a number of ranks in us, and bytes at each rank.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Line {
    ranks: u64,
    creation_us: f64,
    fence_us: f64,
    lock_all_us: f64,
    lock_shared_us: f64,
    lock_exclusive_us: f64,
    pscw_us: f64,
    start_up_us: f64,
    window_bytes: u64,
    /// foMPI's published fence.
    fompi_fence_us: f64,
}

/// foMPI on Gemini (Gerstenberger, Besta and Hoefler, SC'13): a fence takes 2.9 us for each
/// doubling of the ranks, `lock_all` 2.7 us, a put 1 us and 0.16 ns for each byte.
const FOMPI: (f64, f64, f64, f64) = (2.9, 2.7, 1.0, 0.000_16);

fn line(net: &LogGp, options: &Options, ranks: u64) -> Line {
    let time = |call| net.time(shape(call, ranks));
    let members = options.neighbours.min(ranks - 1);
    #[allow(clippy::cast_precision_loss)] // counts are small
    let float = |count: u64| count as f64;
    Line {
        ranks,
        creation_us: time(Call::Creation),
        fence_us: time(Call::Fence),
        lock_all_us: time(Call::LockAll),
        lock_shared_us: time(Call::LockShared),
        lock_exclusive_us: time(Call::LockExclusive),
        // Post, a put to each target and its completion, complete.
        pscw_us: 2.0 * time(Call::Post(members)) + 2.0 * time(Call::Local) + net.put(8.0),
        start_up_us: float(counts::launcher_requests(ranks)) * options.request,
        window_bytes: counts::control_bytes(ranks) + counts::WINDOW_BYTES,
        fompi_fence_us: FOMPI.0 * float(ranks).log2(),
    }
}

fn lines(net: &LogGp, options: &Options) -> Vec<Line> {
    let (from, to) = options.ranks;
    let mut all = vec![from];
    all.extend((1..=32).map(|power| 1 << power).filter(|ranks| (from + 1..to).contains(ranks)));
    if to > from {
        all.push(to);
    }
    all.into_iter().map(|ranks| line(net, options, ranks)).collect()
}

fn run(options: &Options) -> Outcome<()> {
    let here = if options.loggp.is_none() { Some(measured::measure()?) } else { None };
    let net = options.loggp.or(here.map(|here| here.net)).ok_or("no parameters")?;
    let lines = lines(&net, options);
    table(&mut output(), &net, here, &lines)?;
    if let Some(path) = &options.svg {
        std::fs::write(path, svg(&lines)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &options.json {
        let document = serde_json::json!({ "loggp_us": net, "lines": lines });
        let text = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &options.goal {
        let ranks = options.ranks.0;
        if ranks > GOAL_RANKS {
            return Err(format!("--goal is for at most {GOAL_RANKS} ranks; --ranks begins with {ranks}").into());
        }
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(named)?);
        goal::write(&mut file, options.schedule, ranks).map_err(named)?;
    }
    Ok(())
}

fn table(out: &mut impl Write, net: &LogGp, here: Option<Measured>, lines: &[Line]) -> Outcome<()> {
    writeln!(out, "# transom-perf model {}", env!("CARGO_PKG_VERSION"))?;
    let LogGp { latency, overhead, gap, per_byte } = net;
    let how = if here.is_some() { "measured here between two ranks" } else { "given" };
    writeln!(
        out,
        "# LogGP, {how}: L {latency:.3} us, o {overhead:.3} us, g {gap:.3} us, G {:.4} ns/B",
        per_byte * 1000.0
    )?;
    if let Some(Measured { fence, put, .. }) = here {
        let model = net.time(shape(Call::Fence, 2));
        writeln!(out, "# A fence of two ranks: {model:.3} us by the model, {fence:.3} us measured here")?;
        let model = net.put(8.0);
        writeln!(out, "# A put of 8 B and its completion: {model:.3} us by the model, {put:.3} us measured here")?;
    }
    let put = |bytes: f64| net.put(bytes);
    writeln!(out, "# Put and completion: 8 B {:.3} us, 1 MiB {:.1} us", put(8.0), put(1_048_576.0))?;
    let (_, all, base, byte) = FOMPI;
    writeln!(
        out,
        "# foMPI on Gemini, published: lock_all {all} us, put 8 B {:.3} us, 1 MiB {:.1} us",
        base + 8.0 * byte,
        base + 1_048_576.0 * byte
    )?;
    writeln!(
        out,
        "# Times in us; bytes of a window at each rank, and up to {} more for each target that it contacts",
        counts::TARGET_BYTES
    )?;
    let names = ["Creation", "Fence", "Lock_all", "Shared", "Exclusive", "PSCW", "Start-up", "Bytes", "foMPI fence"];
    write!(out, "{:<12}", "# Ranks")?;
    names.iter().try_for_each(|name| write!(out, "{name:>12}"))?;
    writeln!(out)?;
    for line in lines {
        write!(out, "{:<12}", line.ranks)?;
        let times = [line.creation_us, line.fence_us, line.lock_all_us, line.lock_shared_us, line.lock_exclusive_us];
        for time in times.into_iter().chain([line.pscw_us, line.start_up_us]) {
            write!(out, "{time:>12.3}")?;
        }
        writeln!(out, "{:>12}{:>12.3}", line.window_bytes, line.fompi_fence_us)?;
    }
    Ok(out.flush()?)
}

const RANKS: Axis<'_> = Axis { name: "ranks", base: 10.0 };

/// Times over ranks: a line for each call; foMPI's are dashed.
fn svg(lines: &[Line]) -> String {
    type Value = fn(&Line) -> f64;
    let curves: [(&str, Value, usize, bool); 6] = [
        ("fence, window creation", |line| line.fence_us, 0, false),
        ("lock_all", |line| line.lock_all_us, 1, false),
        ("lock, exclusive", |line| line.lock_exclusive_us, 2, false),
        ("post-start-complete-wait", |line| line.pscw_us, 3, false),
        ("fence of foMPI on Gemini, published", |line| line.fompi_fence_us, 0, true),
        ("lock_all of foMPI on Gemini, published", |_| FOMPI.1, 1, true),
    ];
    #[allow(clippy::cast_precision_loss)] // for a picture
    let points = |value: Value| lines.iter().map(|line| (line.ranks as f64, value(line))).collect();
    let drawn = curves.map(|(_, value, color, dashed)| Curve { points: points(value), color: COLORS[color], dashed });
    let (wide, high) = (LEFT + WIDTH + RIGHT + 300.0, TOP + HEIGHT + BOTTOM);
    let mut out = chart::begin(wide, high);
    chart::panel(&mut out, "time of a call by the model (us)", RANKS, &drawn, (LEFT, TOP));
    let left = LEFT + WIDTH + RIGHT;
    let mut at = TOP + 8.0;
    for (name, _, color, dashed) in curves {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<path d=\"M{left} {at}h40\" {}/>\n<text x=\"{}\" y=\"{}\">{name}</text>",
            chart::stroke(COLORS[color], dashed),
            left + 48.0,
            at + 4.0
        );
        at += 20.0;
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Options {
        Options::parse_from(["model"].iter().chain(args))
    }

    #[test]
    fn lines_are_at_powers_of_two_and_at_both_ends() {
        let options = options(&["--ranks", "3..20", "--loggp", "1,0.5,0.5,0.16"]);
        let net = options.loggp.expect("given");
        let all = lines(&net, &options);
        assert_eq!(all.iter().map(|line| line.ranks).collect::<Vec<_>>(), [3, 4, 8, 16, 20]);
        // 2, 2, 3, 4 and 5 rounds.
        let first = all[0].fence_us / 2.0;
        assert!(all.iter().zip([2.0, 2.0, 3.0, 4.0, 5.0]).all(|(line, by)| (line.fence_us - by * first).abs() < 1e-9));
        assert!(all.windows(2).all(|pair| (pair[0].lock_all_us - pair[1].lock_all_us).abs() < 1e-12));
        assert!((all[2].fompi_fence_us - 8.7).abs() < 1e-9);
        let picture = svg(&all);
        assert_eq!(picture.matches("<polyline").count(), 6);
        assert!(picture.trim_end().ends_with("</svg>") && !picture.contains("NaN"));
        for wrong in ["1..4", "9..8", "x", "2..99999999999"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
    }
}
