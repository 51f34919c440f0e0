//! Costs of operations in work requests and completions, counted where requests are given to an
//! RDMA device ([`Job::posted`]). On other routes the operations run, and the counts must be
//! absent. The data is checked on all routes.
//!
//! Route: verbs.

use std::process::ExitCode;

use transom::{Actor, At, BasicType, Datatype, Job, Lock, LockAllEpoch, Posted, Route, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, body: fn(&Job) -> Outcome) -> Test {
    Test::new(name, &[2], body)
}

static TESTS: &[Test] = &[
    test("a_contiguous_put_or_get_is_one_request", contiguous),
    test("many_operations_and_a_flush_are_as_many_requests_and_one_completion", many),
    test("an_atomic_of_the_device_is_one_request", atomics),
    test("accumulates_of_reals_share_requests", reals),
    test("many_blocks_for_one_run_of_the_target_are_one_request", blocks),
    test("complete_and_fence_send_their_message_behind_the_puts", behind_puts),
    test("the_release_of_a_lock_is_posted_when_unlock_returns", releases),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// Repetitions of a burst: sometimes the progress thread posts held requests before the flush does.
const ROUNDS: usize = 20;
/// The operations of a burst: too few to fill the queue, so none of them requests a completion to
/// make room.
const MANY: usize = 30;

/// The requests that `operations` of rank 0 on rank 1 have posted when they are complete; `None`
/// where no device counts.
fn cost(world: &Job, operations: impl FnOnce() -> transom::Result<()>) -> transom::Result<Option<Posted>> {
    let before = world.posted(1)?;
    operations()?;
    let after = world.posted(1)?;
    Ok(before.zip(after).map(|(before, after)| Posted {
        requests: after.requests - before.requests,
        signaled: after.signaled - before.signaled,
    }))
}

/// The expected counts: `posted` if verbs reaches rank 1, else none.
fn counted(world: &Job, posted: Posted) -> transom::Result<Option<Posted>> {
    let verbs = world.route(1)? == Route::Net && world.net().is_some_and(|net| net.starts_with("verbs "));
    Ok(verbs.then_some(posted))
}

/// Rank 0 works on a window of `len` words at rank 1 after first contact; rank 1 waits, because its
/// messages would count.
fn at_the_origin(
    world: &Job,
    len: usize,
    work: impl FnOnce(&LockAllEpoch<'_, '_, u64>) -> transom::Result<Outcome>,
) -> Outcome {
    let win = Window::<u64>::allocate(world, len)?;
    let mut outcome = Ok(());
    if world.rank() == 0 {
        outcome = win.lock_all(|epoch| {
            epoch.put_value(1, 0, 0)?;
            epoch.flush(1)?;
            work(epoch)
        })?;
    }
    world.barrier()?;
    win.free()?;
    outcome
}

/// Contiguous puts and gets of any length: inline in the request, copied, or read from the user's
/// memory.
/// Shows T4.
fn contiguous(world: &Job) -> Outcome {
    const WORDS: usize = 1 << 17;
    let source: Vec<u64> = (1..=WORDS as u64).collect();
    let one = counted(world, Posted { requests: 1, signaled: 1 })?;
    at_the_origin(world, WORDS, |epoch| {
        let mut outcome = Ok(());
        for len in [1, 6, 7, 512, 513, 8192, WORDS] {
            step(format!("{len} words"));
            let mut back = vec![0; len];
            let put = cost(world, || epoch.scope(|part| part.put(1, 0, &source[..len])))?;
            let get = cost(world, || epoch.scope(|part| part.get(1, 0, &mut back)))?;
            outcome = outcome
                .and(same(&format!("put of {len} words"), &put, &one))
                .and(same(&format!("get of {len} words"), &get, &one))
                .and(ensure(back == source[..len], "what was put is there"));
        }
        Ok(outcome)
    })
}

/// Short blocks, and long blocks that every device's port copies: one of the sizes is 64 blocks of
/// 2 KiB.
/// Shows T4, O5.
fn blocks(world: &Job) -> Outcome {
    const WORDS: usize = 1 << 14;
    let source: Vec<u64> = (1..=2 * WORDS as u64).collect();
    let one = counted(world, Posted { requests: 1, signaled: 1 })?;
    at_the_origin(world, WORDS, |epoch| {
        let word = Datatype::basic(BasicType::Uint64);
        let run = Datatype::contiguous(WORDS, &word)?;
        let mut outcome = Ok(());
        for block in [8, 256, 512] {
            step(format!("blocks of {block} words"));
            // Words at a stride of two.
            let apart = Datatype::vector(WORDS / block, block, 2 * block.cast_signed(), &word)?;
            let (mut there, mut back) = (vec![0; WORDS], vec![0; 2 * WORDS]);
            let target = || At::new(1, 0, 1, &run);
            let put = cost(world, || epoch.scope(|part| part.put_items(&source, 1, &apart, target())))?;
            epoch.scope(|part| part.get(1, 0, &mut there))?;
            let get = cost(world, || epoch.scope(|part| part.get_items(&mut back, 1, &apart, target())))?;
            let sent = |at: usize| (at / block).is_multiple_of(2);
            let fine = (0..2 * WORDS).all(|at| back[at] == if sent(at) { source[at] } else { 0 });
            let packed = (0..2 * WORDS).filter(|&at| sent(at)).map(|at| source[at]);
            outcome = outcome
                .and(same(&format!("put of blocks of {block} words"), &put, &one))
                .and(same(&format!("get of blocks of {block} words"), &get, &one))
                .and(ensure(packed.eq(there), "what was put is there"))
                .and(ensure(fine, "what came back is in its places"));
        }
        Ok(outcome)
    })
}

/// Many puts, or many gets, before one flush.
/// Shows T4.
fn many(world: &Job) -> Outcome {
    let all = counted(world, Posted { requests: MANY as u64, signaled: 1 })?;
    at_the_origin(world, 64, |epoch| {
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        let mut back = [0; MANY];
        for round in 0..ROUNDS as u64 {
            step(format!("round {round}"));
            puts.push(cost(world, || {
                (0..MANY).try_for_each(|at| epoch.put_value(1, at, round + at as u64))?;
                epoch.flush(1)
            })?);
            gets.push(cost(world, || {
                epoch.scope(|part| (0..).zip(back.chunks_mut(1)).try_for_each(|(at, word)| part.get(1, at, word)))
            })?);
        }
        let last: Vec<u64> = (0..MANY as u64).map(|at| ROUNDS as u64 - 1 + at).collect();
        Ok(best("puts", &puts, &all).and(best("gets", &gets, &all)).and(same("what was got", &&back[..], &&last[..])))
    })
}

/// Every round has as many requests as `all`, and the undisturbed one as few completions.
fn best(what: &str, rounds: &[Option<Posted>], all: &Option<Posted>) -> Outcome {
    let requests = |posted: &Option<Posted>| posted.map(|posted| posted.requests);
    for round in rounds {
        same(what, &requests(round), &requests(all))?;
    }
    let least = rounds.iter().min_by_key(|posted| posted.map(|posted| posted.signaled));
    same(what, &least, &Some(all))
}

/// Atomics, on devices that perform them.
/// Shows T4.
fn atomics(world: &Job) -> Outcome {
    let one = counted(world, Posted { requests: 1, signaled: 1 })?;
    let device = world.actor() != Actor::Cpu || one.is_none();
    ensure(device, "the device performs atomics where every rank is a node of its own")?;
    at_the_origin(world, 1, |epoch| {
        let (mut added, mut swapped) = (0, 0);
        let add = cost(world, || epoch.fetch_add(1, 0, 7u64).map(|old| added = old + 7))?;
        let swap = cost(world, || epoch.compare_and_swap(1, 0, 7u64, 9).map(|old| swapped = old))?;
        let put = cost(world, || epoch.accumulate(1, 0, &[1], ops::Sum).and_then(|()| epoch.flush(1)))?;
        let last = epoch.fetch_value(1, 0)?;
        Ok(same("fetch-and-add", &add, &one)
            .and(same("compare-and-swap", &swap, &one))
            .and(same("accumulate", &put, &one))
            .and(same("values", &(added, swapped, last), &(7, 7, 10))))
    })
}

/// Accumulates that the target's CPU performs share messages.
/// Shows T4.
fn reals(world: &Job) -> Outcome {
    const SUMS: usize = 64;
    let is_counted = counted(world, Posted { requests: 1, signaled: 1 })?.is_some();
    let win = Window::<f64>::allocate(world, SUMS)?;
    let (mut requests, mut found) = (Vec::new(), vec![0.0; SUMS]);
    if world.rank() == 0 {
        win.lock_all(|epoch| {
            epoch.put_value(1, 0, 0.0)?;
            epoch.flush(1)?;
            for round in 0..ROUNDS {
                step(format!("round {round}"));
                let add = || (0..SUMS).try_for_each(|at| epoch.accumulate(1, at, &[0.5], ops::Sum));
                requests.push(cost(world, || add().and(epoch.flush(1)))?.map(|posted| posted.requests));
            }
            epoch.scope(|part| part.get(1, 0, &mut found))
        })?;
    }
    world.barrier()?;
    win.free()?;
    if world.rank() == 0 {
        same("the sums", &found, &vec![0.5 * ROUNDS as f64; SUMS])?;
        let few = requests.iter().all(|requests| is_counted == requests.is_some() && requests.unwrap_or(0) <= 8);
        ensure(few, &format!("at most 8 requests: {requests:?}"))?;
    }
    Ok(())
}

/// The ends of epochs do not wait for the last put: their message is the only signaled request.
/// Shows S1.
fn behind_puts(world: &Job) -> Outcome {
    let completed = counted(world, Posted { requests: 2, signaled: 1 })?;
    // The fences before and after the put have a message each.
    let fenced = counted(world, Posted { requests: 3, signaled: 2 })?;
    let (me, win) = (world.rank(), Window::<u64>::allocate(world, 1)?);
    let (mut completes, mut fences) = (Vec::new(), Vec::new());
    let loaded = || {
        let mut value = [0];
        win.load(0, &mut value).map(|()| value[0])
    };
    for round in 0..ROUNDS as u64 {
        step(format!("round {round}"));
        if me == 0 {
            completes.push(cost(world, || win.start(&[1], |epoch| epoch.put_value(1, 0, round)))?);
        } else {
            win.post(&[0])?;
            win.wait()?;
            same("put before complete", &loaded()?, &round)?;
        }
        let fence = || win.fence(|epoch| if me == 0 { epoch.put_value(1, 0, round + 1) } else { Ok(()) });
        if me == 0 {
            fences.push(cost(world, fence)?);
        } else {
            fence()?;
            same("put before a fence", &loaded()?, &(round + 1))?;
        }
        world.barrier()?;
    }
    win.free()?;
    // The first rounds make the contact, and others may renew the credit of rank 1.
    let least =
        |costs: &[Option<Posted>]| costs.iter().copied().flatten().min_by_key(|cost| (cost.signaled, cost.requests));
    if me == 0 {
        same("complete", &least(&completes), &completed)?;
        same("fence", &least(&fences), &fenced)?;
    }
    Ok(())
}

/// The device changes the lock's word. The origin makes no call after the unlock, so a request that
/// the port still held would let other origins wait for the lock.
/// Shows S2.
fn releases(world: &Job) -> Outcome {
    let one = counted(world, Posted { requests: 1, signaled: 0 })?.map(|posted| posted.requests);
    let win = Window::<u64>::allocate(world, 1)?;
    let mut posted = Vec::new();
    if world.rank() == 0 {
        for round in 0..ROUNDS as u64 {
            for kind in [Lock::Exclusive, Lock::Shared] {
                step(format!("round {round}, {kind:?}"));
                let flushed = win.lock(kind, 1, |epoch| {
                    epoch.put_value(1, 0, round)?;
                    epoch.flush(1)?;
                    world.posted(1)
                })?;
                let requests = flushed.zip(world.posted(1)?).map(|(before, after)| after.requests - before.requests);
                // The first round makes the contact.
                if round > 0 {
                    posted.push(requests);
                }
            }
        }
    }
    world.barrier()?;
    win.free()?;
    // Rarely the progress thread is about to post the request that it has found held.
    let others: Vec<_> = posted.iter().filter(|&&requests| requests != one).collect();
    let rare = others.len() <= posted.len() / 8 && others.iter().all(|&&requests| requests == Some(0));
    ensure(rare, &format!("the requests of each unlock are {one:?}: {posted:?}"))
}
