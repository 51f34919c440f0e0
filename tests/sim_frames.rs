//! The path of an operation to a net: the functions from the public call to the port's, counted in
//! a backtrace that is taken within the post.
//!
//! Route: sim.

use std::backtrace::Backtrace;
use std::sync::{Arc, Mutex, PoisonError};

use simulated::{Outcome, Rank, peer, run};
use transom::{Window, ops};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimOptions};

mod simulated;

/// The most functions from the public call to the port's, both included. The port of libfabric has
/// one more, `Open::write`, before the provider's call (tests/conformance/tests/providers.rs).
const FUNCTIONS: usize = 7;

/// The backtraces of rank 0's posts.
type Seen = Arc<Mutex<Vec<Backtrace>>>;

/// The functions of a backtrace, from the port's to the public one.
fn path(backtrace: &Backtrace, port: &str, public: &str) -> Option<Vec<String>> {
    let text = backtrace.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("at "));
    let names: Vec<&str> = lines.map(|line| line.split_once(": ").map_or(line, |(_, name)| name)).collect();
    let first = names.iter().position(|name| name.contains("SimPort") && name.ends_with(port))?;
    let last = first + names[first..].iter().position(|name| name.contains("Access<") && name.ends_with(public))?;
    Some(names[first..=last].iter().map(|&name| name.to_owned()).collect())
}

/// Fails unless the last post went from `public` to `port` by at most `most` functions.
fn by_few(seen: &Seen, public: &str, port: &str, most: usize) -> Outcome {
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let last = seen.last().ok_or("no operation was posted")?;
    let path = path(last, port, public).ok_or_else(|| format!("no way from {public} to {port}: {last}"))?;
    // Some functions lie between: a shorter path is one that the backtrace does not show.
    if (3..=most).contains(&path.len()) {
        return Ok(());
    }
    Err(format!("{} functions from {public} to {port}: {path:#?}", path.len()).into())
}

fn operations(world: &Rank) -> Outcome {
    let seen = Seen::default();
    if world.rank() == 0 {
        let seen = Arc::clone(&seen);
        world.on_post(move |origin| {
            if origin == peer(0) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(Backtrace::force_capture());
            }
        });
    }
    let win = Window::<u64>::allocate(world, 2)?;
    if world.rank() == 0 {
        let (source, mut result, mut old) = ([7], [0], 0);
        let paths = win.lock_all(|epoch| {
            // First contact is not part of the path.
            epoch.fetch_value(1, 0)?;
            epoch.put(1, 0, &source)?;
            let put = by_few(&seen, "::put", "::put", FUNCTIONS);
            let lower = by_few(&seen, "::put", "::put", FUNCTIONS - 1);
            let exact = lower.err().map(drop).ok_or_else(|| "a put takes fewer functions than the bound".into());
            epoch.get(1, 0, &mut result)?;
            let get = by_few(&seen, "::get", "::get", FUNCTIONS);
            epoch.start_fetch_and_op(1, 1, 1, &mut old, ops::Sum)?;
            Ok([put, exact, get, by_few(&seen, "::start_fetch_and_op", "::amo", FUNCTIONS)])
        })?;
        paths.into_iter().collect::<Result<(), _>>()?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// The bound is exact for a put: one lower, it fails.
#[test]
fn a_put_a_get_and_an_atomic_reach_the_port_by_seven_functions() {
    let options = SimOptions { amo: SimAmo::All(Coherence::DeviceOnly), again_one_in: 0, ..SimOptions::default() };
    run(2, &options, operations);
}
