//! Random programs on adversarial simulated nets. A failing program is shrunk and printed with its
//! seed and net. `TRANSOM_TEST_SEED=0x... cargo test --test sim_random` runs that seed again,
//! `TRANSOM_TEST_SEEDS=N` more seeds.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transom::Job;
use transom::bootstrap::local::Board;
use transom_fabric::sim::{SimAmo, SimMail, SimNet, SimOptions};
use transom_fabric::{Coherence, Peer};

#[path = "random/mod.rs"]
mod random;

use random::Program;

/// Time limit of a program: longer than any needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a shrunk program, which may hang for the reason for which the larger one failed.
const SHORT: Duration = Duration::from_secs(5);
/// The number of smaller programs to try.
const TRIES: usize = 80;

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
        mail: SimMail {
            most: (seed >> 36 & 3 == 0).then_some(3),
            slots: None,
            ordered: seed >> 52 & 1 == 0,
            gathers: seed >> 53 & 1 == 0,
            amos_ordered: seed >> 54 & 1 == 0,
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

fn peer(rank: usize) -> Peer {
    Peer(u32::try_from(rank).unwrap_or(u32::MAX))
}

/// Runs a program with its ranks as threads; returns the failure and the position of each rank.
fn run(program: &Program, limit: Duration) -> Result<(), String> {
    let (ranks, program) = (program.ranks, Arc::new(program.clone()));
    let (net, board) = (SimNet::new(ranks, net(program.seed)), Board::new(ranks));
    let positions: Arc<Vec<Mutex<String>>> = Arc::new((0..ranks).map(|_| Mutex::default()).collect());
    let (sender, receiver) = mpsc::channel();
    for rank in 0..ranks {
        let (net, board, program, positions) =
            (Arc::clone(&net), Arc::clone(&board), Arc::clone(&program), Arc::clone(&positions));
        let sender = sender.clone();
        std::thread::spawn(move || {
            let step = |at: String| *positions[rank].lock().unwrap_or_else(PoisonError::into_inner) = at;
            let outcome = (|| {
                let job = Job::simulated(net.domain(peer(rank))?, Box::new(board.rank(rank)))?;
                let done = random::execute(&job, &program, &step);
                if done.is_err() {
                    // Leaving would wait for the other ranks, which may wait for this one.
                    std::mem::forget(job);
                    return done;
                }
                Ok(job.finalize()?)
            })();
            // A runner that gave up no longer receives.
            let _ = sender.send((rank, outcome.map_err(|error| format!("{error:#}"))));
        });
    }
    drop(sender);
    let deadline = Instant::now() + limit;
    for _ in 0..ranks {
        let failed = match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((_, Ok(()))) => continue,
            Ok((rank, Err(error))) => format!("rank {rank}: {error}"),
            Err(RecvTimeoutError::Timeout) => format!("not done after {limit:?}"),
            Err(RecvTimeoutError::Disconnected) => "a rank panicked".to_owned(),
        };
        let found = positions.iter().map(|position| position.lock().unwrap_or_else(PoisonError::into_inner).clone());
        return Err(format!("{failed}\n  positions of the ranks: {:?}", found.collect::<Vec<_>>()));
    }
    Ok(())
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
