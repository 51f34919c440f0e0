//! `transom-check`: the reports of the conflict checker with the lines of the program's source.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;

/// Show the reports of the conflict checker (TRANSOM_CHECK_REPORT) with the lines of the source.
///
/// Each pair of places in the program is shown once, with the number of its reports. The file may
/// have the reports of several jobs.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The file that TRANSOM_CHECK_REPORT named.
    report: PathBuf,
    /// Show this number of source lines before and after each place.
    #[arg(long, value_name = "LINES", default_value_t = 2)]
    context: usize,
    /// Look for source files in this directory if they are not at their recorded paths. May be
    /// given several times.
    #[arg(long, value_name = "DIRECTORY")]
    source: Vec<PathBuf>,
}

/// Reports of the same places.
struct Group {
    text: String,
    count: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shown = std::fs::read_to_string(&arguments.report)
        .map_err(|error| format!("{}: {error}", arguments.report.display()))
        .and_then(|reports| show(&reports, &mut Sources::new(&arguments)));
    let outcome = match shown {
        Ok(text) => io::stdout().lock().write_all(text.as_bytes()),
        Err(reason) => {
            eprintln!("transom-check: {reason}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        // The reader closed the pipe, as in `transom-check | head`.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("transom-check: writing to the standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// All reports in words, each pair of places once.
fn show(reports: &str, sources: &mut Sources<'_>) -> Result<String, String> {
    let (mut groups, mut known) = (Vec::<Group>::new(), HashMap::new());
    for (number, line) in reports.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |reason: String| format!("line {}: {reason}", number + 1);
        let report: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let (key, text) =
            one(&report, sources).ok_or_else(|| wrong("it is not a report of the conflict checker".into()))?;
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Group { text, count: 0 });
            groups.len() - 1
        });
        groups[at].count += 1;
    }
    let mut out = String::new();
    for Group { text, count } in &groups {
        out += text;
        if *count > 1 {
            let _ = writeln!(out, "  reported {count} times");
        }
        out.push('\n');
    }
    let plural = if groups.len() == 1 { "" } else { "s" };
    let _ = writeln!(out, "{} report{plural}", groups.len());
    Ok(out)
}

/// A report in words, and its places, which tell it from others. `None` for other JSON.
fn one(report: &Value, sources: &mut Sources<'_>) -> Option<(String, String)> {
    if let Some(waits) = report.get("deadlock") {
        return deadlock(waits.as_array()?, sources);
    }
    let (window, target) = (report.get("window")?.as_str()?, report.get("target")?.as_u64()?);
    let rule = report.get("rule")?.as_str()?;
    // A call with a false assertion has no bytes of its own.
    let has_bytes = report.get("first")?.get("start").is_some();
    let what = if has_bytes { "conflict in" } else { "false assertion about" };
    let mut text = format!("{what} window {window} at rank {target}: {rule}\n");
    let mut key = Vec::new();
    for side in ["first", "second"] {
        let side = report.get(side)?;
        let number = |name| side.get(name)?.as_u64();
        let (call, place) = (side.get("call")?.as_str()?, side.get("place")?.as_str()?);
        let bytes = match (number("start"), number("end")) {
            (Some(start), Some(end)) => format!(" of bytes {start}..{end}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "  rank {}: {call}{bytes}, {place}", number("rank")?);
        text += &sources.lines_of(place);
        key.push(format!("{call} {place}"));
    }
    // The ranks may find the two places in either order.
    key.sort_unstable();
    Some((key.join("\n"), text))
}

/// The calls of a deadlock.
fn deadlock(waits: &[Value], sources: &mut Sources<'_>) -> Option<(String, String)> {
    let (mut text, mut key) = (String::from("deadlock: ranks wait for each other\n"), Vec::new());
    for wait in waits {
        let (rank, call) = (wait.get("rank")?.as_u64()?, wait.get("call")?.as_str()?);
        let place = wait.get("place")?.as_str()?;
        let window = wait.get("window").and_then(Value::as_str);
        let peer = wait.get("for").and_then(Value::as_u64);
        let _ = write!(text, "  rank {rank}: {call}");
        if let Some(window) = window {
            let _ = write!(text, " of window {window}");
        }
        if let Some(peer) = peer {
            let _ = write!(text, ", waits for rank {peer}");
        }
        let _ = writeln!(text, ", {place}");
        text += &sources.lines_of(place);
        key.push(format!("{rank} {call} {place}"));
    }
    Some((key.join("\n"), text))
}

/// The source files that were read.
struct Sources<'a> {
    arguments: &'a Arguments,
    files: HashMap<String, Option<Vec<String>>>,
}

impl Sources<'_> {
    fn new(arguments: &Arguments) -> Sources<'_> {
        Sources { arguments, files: HashMap::new() }
    }

    /// The lines around a place such as `main at a.c:7`; empty where the file can't be read.
    fn lines_of(&mut self, place: &str) -> String {
        let Some((file, line)) = place.rsplit_once(" at ").and_then(|(_, at)| at.rsplit_once(':')) else {
            return String::new();
        };
        let Ok(line) = line.parse::<usize>() else { return String::new() };
        let arguments = self.arguments;
        let read = || read(Path::new(file), &arguments.source);
        let Some(lines) = self.files.entry(file.to_owned()).or_insert_with(read) else { return String::new() };
        let (first, last) = (line.saturating_sub(arguments.context).max(1), line.saturating_add(arguments.context));
        let mut text = String::new();
        for (number, source) in (1..).zip(lines.iter()).skip(first - 1).take_while(|(number, _)| *number <= last) {
            let mark = if number == line { '>' } else { ' ' };
            let _ = writeln!(text, "{}", format!("    {mark}{number:>6} | {source}").trim_end());
        }
        text
    }
}

/// The lines of a file at its path, or at the longest end of its path under a directory.
fn read(file: &Path, directories: &[PathBuf]) -> Option<Vec<String>> {
    let parts: Vec<_> = file.components().collect();
    let under = |directory: &PathBuf| {
        let ends = (0..parts.len()).map(|from| directory.join(parts[from..].iter().collect::<PathBuf>()));
        ends.filter(|path| path.starts_with(directory)).collect::<Vec<_>>()
    };
    let mut candidates = vec![file.to_owned()];
    candidates.extend(directories.iter().flat_map(under));
    let bytes = candidates.iter().find_map(|path| std::fs::read(path).ok())?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
