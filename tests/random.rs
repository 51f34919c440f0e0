//! Random programs on real routes. A failure prints the seed and the program.
//! `TRANSOM_TEST_SEED=0x... cargo test --test random` runs that program again,
//! `TRANSOM_TEST_SEEDS=N` more programs. `tests/sim_random.rs` shrinks programs on simulated nets.

use std::process::ExitCode;

use transom::Job;
use transom_harness::{Outcome, Test, step};

#[allow(dead_code)] // shrinking is for simulated jobs
#[path = "random/mod.rs"]
mod random;

use random::Program;

const TESTS: &[Test] = &[
    Test::new("programs_do_what_the_memory_model_allows", &[1, 2, 3, 5], programs),
    Test::new("the_checker_reports_nothing_of_right_programs", &[2, 4], checked)
        .with_env(&[("TRANSOM_CHECK", "fail"), ("TRANSOM_CHECK_SUPPRESS", LOADS)]),
];

/// Functions whose loads are left out of the check for races: the programs load whole parts during
/// updates, and use only the bytes that no rank updates.
const LOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/random/loads.txt");

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// All ranks generate and run the same programs.
/// Shows M1, M3, M4, O1, O2, O5, S1, S2, S3.
fn programs(world: &Job) -> Outcome {
    run(world)
}

/// Where ranks share no memory, the checker is off.
/// Shows E5.
/// Route: shm.
fn checked(world: &Job) -> Outcome {
    run(world)
}

fn run(world: &Job) -> Outcome {
    for seed in random::seeds(40) {
        let program = Program::new(seed, world.size());
        random::execute(world, &program, &|position| step(position)).map_err(|error| {
            format!("{}={seed:#x} with {} ranks: {error}\n{program:#?}", random::SEED, world.size())
        })?;
    }
    Ok(())
}
