//! The LogGP parameters of this machine, from tests of this program between two ranks.

use std::path::Path;

use transom_launch as launch;

use super::loggp::LogGp;
use crate::outcome::Outcome;

/// Bytes of a long put, whose time is dominated by its bytes.
const LONG: f64 = 1_048_576.0;
/// Operations in flight in the bandwidth tests.
const FLIGHT: f64 = 64.0;

/// The measured times in us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) net: LogGp,
    /// A fence of two ranks with a put of 8 bytes.
    pub(super) fence: f64,
    /// A put of 8 bytes and its completion.
    pub(super) put: f64,
}

/// Measures between two ranks.
pub(super) fn measure() -> Outcome<Measured> {
    let folder = std::env::temp_dir().join(format!("transom-model-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let found = all(&folder);
    // If the folder can't be removed, it remains among the temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    found
}

fn all(folder: &Path) -> Outcome<Measured> {
    let short = median(folder, &["put_latency", "-m", "8:8"])?;
    let long = median(folder, &["put_latency", "-m", "1048576:1048576"])?;
    let gap = median(folder, &["put_bw", "-m", "8:8"])? / FLIGHT;
    let fence = median(folder, &["fence_latency"])?;
    let per_byte = ((long - short) / LONG).max(0.0);
    // A processor is busy with a put as long as with each of those in flight.
    let overhead = gap;
    // A put and its completion take 2 L + 2 o over a net, and a fence of two ranks L + 2 o. Over
    // mapped memory a put is a store, and only the fence shows how long a signal takes.
    let latency = (short / 2.0 - overhead).max(fence - 2.0 * overhead).max(0.0);
    Ok(Measured { net: LogGp { latency, overhead, gap, per_byte }, fence, put: short })
}

/// The median of a test's first line, in us.
fn median(folder: &Path, test: &[&str]) -> Outcome<f64> {
    let file = folder.join("result.json");
    let table = folder.join("table");
    // The ranks' tables are of no interest: a shell sends them to a file.
    let script = format!("exec \"$0\" \"$@\" >'{}'", table.display());
    let program = std::env::current_exe()?;
    let mut job = launch::Job::new("sh", 2).args(["-c", &script]).args([program.as_os_str()]);
    job = job.args(test).args(["--json".as_ref(), file.as_os_str()]);
    let outcome = job.run()?;
    if outcome.status() != 0 {
        return Err(format!("{}: the ranks ended with status {}", test[0], outcome.status()).into());
    }
    let text = std::fs::read(&file)?;
    let document: serde_json::Value = serde_json::from_slice(&text)?;
    let median = document["rows"][0]["library"]["median_ns"].as_f64();
    Ok(median.ok_or_else(|| format!("{}: no number in {}", test[0], file.display()))? / 1000.0)
}
