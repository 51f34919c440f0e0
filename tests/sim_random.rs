//! Random programs on adversarial simulated nets. A failing program is shrunk and printed with its
//! seed and net. `TRANSOM_TEST_SEED=0x... cargo test --test sim_random` runs that seed again,
//! `TRANSOM_TEST_SEEDS=N` more seeds.

use std::time::Duration;

use random::Program;
use transom_fabric::sim::{SimAmo, SimDelivery, SimOptions};
use transom_fabric::{Coherence, Immediates};

#[path = "random/mod.rs"]
mod random;
mod simulated;

/// Time limit of a program: longer than any needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a shrunk program, which may hang for the reason for which the larger one failed.
const SHORT: Duration = Duration::from_secs(5);
/// The number of smaller programs to try.
const TRIES: usize = 80;

/// Immediates that name the counters of two windows, and follow short puts only.
const FEW: Immediates = Immediates { bits: 13, follow: 64 };

/// The net of a seed.
fn net(seed: u64) -> SimOptions {
    let amo = match (seed >> 8) % 4 {
        0 => SimAmo::All(Coherence::DeviceOnly),
        1 => SimAmo::Only64(Coherence::DeviceOnly),
        _ => SimAmo::None,
    };
    let hostile = SimOptions {
        seed,
        delay: u32::try_from((seed >> 16 & 7) << (seed >> 48 & 3)).unwrap_or(0),
        again_one_in: [0, 3, 8][usize::try_from((seed >> 20) % 3).unwrap_or(0)],
        done_one_in: if seed >> 24 & 3 == 0 { 3 } else { 0 },
        ..SimOptions::default()
    };
    if seed >> 50 & 3 == 0 {
        let SimOptions { delay, again_one_in, done_one_in, .. } = hostile;
        return SimOptions { seed, delay, again_one_in, done_one_in, ..SimOptions::like_cxi() };
    }
    SimOptions {
        reorder: seed >> 28 & 7 != 0,
        passive_target: seed >> 32 & 1 == 0,
        delivery: SimDelivery {
            most: (seed >> 36 & 3 == 0).then_some(3),
            slots: None,
            ordered: seed >> 52 & 1 == 0,
            gathers: seed >> 53 & 1 == 0,
            combines: seed >> 60 & 1 == 0,
            amos_ordered: seed >> 54 & 1 == 0,
            amos_in_order: seed >> 59 & 1 == 0,
            immediates: match seed >> 58 & 9 {
                0 => Immediates::ALL,
                8 => FEW,
                _ => Immediates::NONE,
            },
            without_immediates: None,
            answers_wait: Duration::from_secs(seed >> 55 & 1),
            holds: seed >> 56 & 3 == 0,
        },
        inline_max: [24, 4][usize::try_from(seed >> 44 & 1).unwrap_or(0)],
        packed_max: [100, 32][usize::try_from(seed >> 45 & 1).unwrap_or(0)],
        transfer_max: [1000, 128][usize::try_from(seed >> 46 & 1).unwrap_or(0)],
        message_max: [128, 400][usize::try_from(seed >> 47 & 1).unwrap_or(0)],
        amo,
        ..hostile
    }
}

/// Runs a program with its ranks as threads; a failure has the position of each rank.
fn run(program: &Program, limit: Duration) -> Result<(), String> {
    let program_of_ranks = program.clone();
    simulated::try_run(None, program.ranks, &net(program.seed), limit, move |rank| {
        random::execute(rank, &program_of_ranks, &|position| rank.step(position))
    })
}

/// The smallest program found that still fails, and its failure.
fn shrunk(program: &Program, why: String) -> (Program, String) {
    let (mut program, mut why, mut tries) = (program.clone(), why, 0);
    'smaller: loop {
        for less in program.smaller() {
            tries += 1;
            if tries > TRIES {
                return (program, why);
            }
            if let Err(reason) = run(&less, SHORT) {
                (program, why) = (less, reason);
                continue 'smaller;
            }
        }
        return (program, why);
    }
}

/// Shows M1, M3, M4, O1, O2, O5, S1, S2, S3.
#[test]
fn programs_do_what_the_memory_model_allows() {
    for seed in random::seeds(150) {
        let program = Program::new(seed, 2 + usize::try_from(seed >> 40 & 3).unwrap_or(0));
        if let Err(why) = run(&program, LIMIT) {
            let (small, reason) = shrunk(&program, why.clone());
            panic!(
                "{}={seed:#x} with {} ranks on {:?}\n{why}\nshrunk from {} to {} operations: {reason}\n{small:#?}",
                random::SEED,
                program.ranks,
                net(seed),
                program.len(),
                small.len()
            );
        }
    }
}
