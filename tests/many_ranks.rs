//! Many more ranks than cores: a job starts, runs an epoch of each kind and ends, within a minute.
//!
//! Shows B1, S1, S2, S6.
//! Route: shm, tcp.

use std::process::ExitCode;
use std::time::Duration;

use transom::Job;
use transom_harness::{Outcome, Test, step};

#[path = "launchers/epochs.rs"]
mod epochs;

static TESTS: &[Test] = &[
    Test::new("an_epoch_of_each_kind", &[128], an_epoch_of_each_kind),
    Test::new("an_epoch_of_each_kind_over_tcp", &[64], an_epoch_of_each_kind)
        .with_env(&[("TRANSOM_TRANSPORTS", "^shm")]),
];

/// Counted from the start of a rank.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    std::thread::spawn(|| {
        if std::env::args().any(|arg| arg == "--rank") {
            transom_harness::watch(LIMIT);
        }
    });
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

fn an_epoch_of_each_kind(world: &Job) -> Outcome {
    step("fence");
    epochs::fence(world)?;
    step("post, start, complete, wait");
    epochs::post_start(world)?;
    step("lock");
    epochs::lock(world)?;
    step("lock_all and flush");
    epochs::lock_all(world)
}
