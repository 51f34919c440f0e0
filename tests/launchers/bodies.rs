//! The bodies of ranks under a launcher: each kind of epoch once, and the ways in which jobs fail.

use std::time::Duration;

use transom::Job;
use transom::bootstrap::counted::noise;
use transom::bootstrap::{Bootstrap, MAX_GATHERED, detect};
use transom_harness::{Outcome, step};

use crate::epochs;

/// The output and the exit status of a failing rank.
pub(super) const REASON: &str = "the answer is too large";
pub(super) const STATUS: u8 = 42;

/// Longer than any of these jobs takes on a busy machine, and shorter than the limit of the job, at
/// which no rank prints its position.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs the body `name` as a rank.
pub(super) fn run(name: &str) -> Outcome {
    std::thread::spawn(|| transom_harness::watch(LIMIT));
    step(name);
    match name {
        "fence" => job(epochs::fence),
        "post_start" => job(epochs::post_start),
        "lock" => job(epochs::lock),
        "lock_all" => job(epochs::lock_all),
        "fail" => job(fail),
        "values" => values(detect()?.as_mut()),
        "abort" => abort(detect()?.as_mut()),
        other => Err(format!("no body is called {other:?}").into()),
    }
}

fn job(body: fn(&Job) -> Outcome) -> Outcome {
    let world = transom::init()?;
    println!("joined as rank {} of {}", world.rank(), world.size());
    if let Err(error) = body(&world) {
        // Where no window was dropped without free, leaving would wait for the other ranks, which
        // may wait for this one.
        std::mem::forget(world);
        return Err(error);
    }
    Ok(world.finalize()?)
}

/// One rank ends with an error while the others wait for it.
fn fail(world: &Job) -> Outcome {
    step("the barrier before the failure");
    world.barrier()?;
    step("after that barrier");
    if world.rank() == 1 {
        return Err(REASON.into());
    }
    Ok(world.barrier()?)
}

fn abort(boot: &mut dyn Bootstrap) -> Outcome {
    boot.barrier()?;
    if boot.rank() == 1 {
        boot.abort(STATUS.into(), REASON)?;
        return Err("aborted".into());
    }
    // The launcher ends it.
    std::thread::sleep(2 * LIMIT);
    Ok(())
}

/// The launcher's key-value store: any bytes, of any length; a key that was never written; a key
/// written twice.
fn values(boot: &mut dyn Bootstrap) -> Outcome {
    let (me, size) = (boot.rank(), boot.size());
    boot.put(&format!("k{me}"), &[u8::try_from(me)?, 0, b' ', b'\n'])?;
    boot.put(&format!("empty{me}"), b"")?;
    boot.barrier()?;
    for rank in 0..size {
        assert_eq!(boot.get(rank, &format!("k{rank}"))?, Some(vec![u8::try_from(rank)?, 0, b' ', b'\n']));
        assert_eq!(boot.get(rank, &format!("empty{rank}"))?, Some(Vec::new()));
        assert_eq!(boot.get(rank, "nobody")?, None);
    }
    assert!(boot.put(&format!("k{me}"), b"x").is_err());
    // Nothing, one fragment, two fragments, and the largest.
    let limit = boot.value_limit().min(MAX_GATHERED);
    let length = |rank: usize| [0, limit / 2, limit, MAX_GATHERED][rank % 4];
    let value = |rank: usize| noise(rank, length(rank));
    assert!(boot.allgather("lengths", &value(me))?.into_iter().eq((0..size).map(value)));
    println!("joined as rank {me} of {size}");
    Ok(boot.finalize()?)
}
