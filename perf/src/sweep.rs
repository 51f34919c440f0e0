//! A test of all ranks with several numbers of ranks, one job after another, and the picture of
//! their results. Is no rank of a job.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use transom_launch as launch;

use crate::options::Options;
use crate::outcome::Outcome;
use crate::picture::{self, Point, Series};

/// Runs the test with each number of ranks.
pub(crate) fn main(options: &Options) -> ExitCode {
    match options.check().map_err(Into::into).and_then(|()| run(options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("transom-perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the jobs. Returns the status of the first that fails, or 0.
fn run(options: &Options) -> Outcome<u8> {
    let folder = std::env::temp_dir().join(format!("transom-sweep-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let outcome = all(options, &folder.join("result.json"));
    // If the folder can't be removed, it remains among the temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn all(options: &Options, file: &Path) -> Outcome<u8> {
    let arguments = without(std::env::args_os().skip(1), &["--svg", "--ranks"]);
    let mut series: Vec<Series> = Vec::new();
    for &ranks in &options.picture.counts {
        let job = launch::Job::new(std::env::current_exe()?, ranks);
        let status = job.args(&arguments).args(["--json".as_ref(), file.as_os_str()]).run()?.status();
        if status != 0 {
            return Ok(status);
        }
        let document: serde_json::Value = serde_json::from_slice(&std::fs::read(file)?)?;
        for (index, line) in document["lines"].as_array().into_iter().flatten().enumerate() {
            let value = line["value"].as_f64().ok_or_else(|| format!("no result of {ranks} ranks in {line}"))?;
            if series.len() == index {
                let name = match options.sizes().len() {
                    1 => "transom".into(),
                    _ => format!("{} bytes", line["size"]),
                };
                series.push(Series { name, points: Vec::new() });
            }
            series[index].points.push(Point { at: ranks, value, floor: line["floor"].as_f64() });
        }
    }
    picture::over_ranks(options, &series)?;
    Ok(0)
}

/// The arguments without some options and their values.
fn without(arguments: impl Iterator<Item = OsString>, names: &[&str]) -> Vec<OsString> {
    let (mut left, mut is_value) = (Vec::new(), false);
    for argument in arguments {
        let name = argument.to_string_lossy();
        let (name, has_value) = name.split_once('=').map_or((&*name, false), |(name, _)| (name, true));
        let is_one = names.contains(&name);
        if !is_value && !is_one {
            left.push(argument.clone());
        }
        is_value = !is_value && is_one && !has_value;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_removed_with_their_values() {
        let arguments = ["fop_hot", "--svg", "a.svg", "-c", "--ranks=2,4", "--svg=--ranks", "-W", "1"];
        let left = without(arguments.into_iter().map(OsString::from), &["--svg", "--ranks"]);
        assert_eq!(left, ["fop_hot", "-c", "-W", "1"]);
    }
}
