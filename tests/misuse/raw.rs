//! Every call of the byte-level window in every state that forbids it. The error has the class and
//! the section of the rule, no byte changes, and the legal calls of the state still work.

#![allow(unsafe_code)]

use transom::{Assert, At, BasicType, Class, CompareSwap, Datatype, Flavor, Items, Job, Lock, Op};
use transom_harness::{Outcome, ensure, same, step};

use super::fixture::{Fixture, constant};
use super::table::{Call, NamedRank, STATES, State, forbidden, section};

/// Shows E2.
pub(crate) fn allocated(world: &Job) -> Outcome {
    table(world, Flavor::Allocate)
}

/// Shows E2.
pub(crate) fn created(world: &Job) -> Outcome {
    table(world, Flavor::Create)
}

/// Shows E2.
pub(crate) fn dynamic(world: &Job) -> Outcome {
    table(world, Flavor::Dynamic)
}

/// Among the ranks of a node; on a net each rank is alone on its node.
/// Shows E2.
pub(crate) fn shared(world: &Job) -> Outcome {
    table(&world.subset(&world.node_ranks())?, Flavor::Shared)
}

fn table(job: &Job, flavor: Flavor) -> Outcome {
    let fixture = Fixture::new(job, flavor)?;
    for (turn, state) in STATES.into_iter().enumerate() {
        if fixture.size == 1 && matches!(state, State::Lock | State::LockPosted | State::FencePosted) {
            // This rank is the only one that can be locked or accessed.
            continue;
        }
        if one_sided(&fixture, state) && fixture.me != 0 {
            step(format!("the other side of {state:?}"));
            other_side(job, &fixture, state)?;
        } else {
            step(format!("entering {state:?}"));
            enter(job, &fixture, state)?;
            check_forbidden_calls(&fixture, state)?;
            step(format!("leaving {state:?}"));
            leave(job, &fixture, state)?;
        }
        if state != State::Freed {
            job.barrier()?;
            fixture.untouched()?;
            fixture.correct(job, 10 * turn as u64 + 1)?;
        }
    }
    Ok(())
}

/// Whether only the first rank can be in the state, while the others make the calls of its
/// partners.
fn one_sided(fixture: &Fixture, state: State) -> bool {
    fixture.size > 1 && matches!(state, State::Start | State::LockPosted | State::FencePosted)
}

/// Whether the state has an exposure epoch of `post`.
fn is_posted(state: State) -> bool {
    use State::{FencePosted, FencedPosted, LockPosted, Posted, StartPosted};
    matches!(state, Posted | FencedPosted | FencePosted | LockPosted | StartPosted)
}

/// Every call that the state forbids, each followed by a legal one.
fn check_forbidden_calls(fixture: &Fixture, state: State) -> Outcome {
    for (call, named, rule) in forbidden(state, fixture.size == 1) {
        let what = format!("{call:?} of {named:?} in {state:?}");
        step(&what);
        let rank = if (named == NamedRank::Target) == (state == State::LockOwn) { fixture.me } else { fixture.next };
        let error = run(fixture, call, rank).err().ok_or(format!("{what} is allowed"))?;
        same(&format!("{what}: {error}"), &error.class(), &Class::RmaSync)?;
        ensure(error.to_string().contains(section(rule)), &format!("{what}: {error} names {}", section(rule)))?;
        if state != State::Freed {
            fixture.untouched()?;
            allowed(fixture, state)?;
        }
    }
    Ok(())
}

/// A legal call that changes neither the state nor data.
fn allowed(fixture: &Fixture, state: State) -> Outcome {
    let win = &fixture.win;
    match state {
        State::Closed => {
            win.lock_all(Assert::NONE)?;
            fixture.read(fixture.next)?;
            win.unlock_all()?;
        }
        // All ranks come here after the same calls.
        State::Fenced => win.fence(Assert::NONE)?,
        State::LockOwn => fixture.read(fixture.me).and(Ok(win.flush(fixture.me)?))?,
        State::LockAll | State::Lock | State::LockPosted => fixture.read(fixture.next).and(Ok(win.flush_all()?))?,
        // In a job of one rank the target's post comes later.
        State::Start if fixture.size == 1 => {}
        State::Fence | State::FencePosted | State::Start | State::StartPosted => fixture.read(fixture.next)?,
        State::Posted | State::FencedPosted | State::Freed => {}
    }
    if is_posted(state) {
        same("the exposure epoch has ended", &win.test()?, &false)?;
    }
    Ok(())
}

fn enter(job: &Job, fixture: &Fixture, state: State) -> Outcome {
    let win = &fixture.win;
    if matches!(state, State::Fenced | State::Fence | State::FencedPosted | State::FencePosted) {
        win.fence(Assert::NONE)?;
    }
    if is_posted(state) {
        win.post(&[fixture.before], Assert::NONE)?;
    }
    match state {
        State::Closed | State::Fenced | State::Posted | State::FencedPosted => {}
        State::Fence | State::FencePosted => fixture.read(fixture.next)?,
        State::LockAll => win.lock_all(Assert::NONE)?,
        State::Lock | State::LockPosted => win.lock(Lock::Exclusive, fixture.next, Assert::NONE)?,
        State::LockOwn => win.lock(Lock::Exclusive, fixture.me, Assert::NONE)?,
        State::Start | State::StartPosted => win.start(&[fixture.next], Assert::NONE)?,
        State::Freed => win.free()?,
    }
    if state != State::Freed {
        job.barrier()?;
    }
    Ok(())
}

/// Ends the state's epochs, each by its own call.
fn leave(job: &Job, fixture: &Fixture, state: State) -> Outcome {
    let win = &fixture.win;
    if state == State::Freed {
        return Ok(());
    }
    // Before this barrier no rank completes an epoch that another one has posted.
    job.barrier()?;
    match state {
        State::Fenced | State::Fence => win.fence(Assert::NOSUCCEED)?,
        State::LockAll => win.unlock_all()?,
        State::Lock | State::LockPosted => win.unlock(fixture.next)?,
        State::LockOwn => win.unlock(fixture.me)?,
        State::Start if fixture.size == 1 => {
            win.post(&[fixture.me], Assert::NONE)?;
            fixture.read(fixture.me)?;
            win.complete()?;
            win.wait()?;
        }
        State::Posted | State::FencedPosted => win.start(&[fixture.next], Assert::NONE)?,
        _ => {}
    }
    if matches!(state, State::Posted | State::FencedPosted | State::StartPosted) {
        fixture.read(fixture.next)?;
    }
    if fixture.size > 1 && state == State::Start
        || matches!(state, State::Posted | State::FencedPosted | State::StartPosted)
    {
        win.complete()?;
    }
    if is_posted(state) {
        win.wait()?;
    }
    if matches!(state, State::FencedPosted | State::FencePosted) {
        win.fence(Assert::NOSUCCEED)?;
    }
    Ok(())
}

/// The calls of the other ranks while only the first one is in the state.
fn other_side(job: &Job, fixture: &Fixture, state: State) -> Outcome {
    let (target, origin) = (fixture.before == 0, fixture.next == 0);
    if state == State::FencePosted {
        fixture.win.fence(Assert::NONE)?;
    }
    if state == State::Start && target {
        fixture.win.post(&[0], Assert::NONE)?;
    }
    job.barrier()?;
    job.barrier()?;
    if state == State::Start && target {
        fixture.win.wait()?;
    }
    if matches!(state, State::LockPosted | State::FencePosted) && origin {
        fixture.win.start(&[0], Assert::NONE)?;
        fixture.win.complete()?;
    }
    if state == State::FencePosted {
        fixture.win.fence(Assert::NOSUCCEED)?;
    }
    Ok(())
}

/// The call; an operation would change the word that must not change.
fn run(fixture: &Fixture, call: Call, rank: usize) -> transom::Result<()> {
    let win = &fixture.win;
    match call {
        Call::Fence => win.fence(Assert::NONE),
        Call::LastFence => win.fence(Assert::NOSUCCEED),
        Call::EmptyFence => win.fence(Assert::NOPUT | Assert::NOSUCCEED),
        Call::LockAll => win.lock_all(Assert::NONE),
        Call::UnlockAll => win.unlock_all(),
        Call::Lock => win.lock(Lock::Shared, rank, Assert::NONE),
        Call::LockUnchecked => win.lock(Lock::Exclusive, rank, Assert::NOCHECK),
        Call::Unlock => win.unlock(rank),
        Call::Flush => win.flush(rank),
        Call::FlushLocal => win.flush_local(rank),
        Call::FlushAll => win.flush_all(),
        Call::FlushLocalAll => win.flush_local_all(),
        Call::Start => win.start(&[rank], Assert::NONE),
        Call::Complete => win.complete(),
        Call::Post => win.post(&[fixture.before], Assert::NONE),
        Call::Wait => win.wait(),
        Call::Test => win.test().map(drop),
        Call::Free => win.free(),
        _ => operate(fixture, call, rank),
    }
}

/// An operation that is refused.
fn operate(fixture: &Fixture, call: Call, rank: usize) -> transom::Result<()> {
    static ONE: u64 = 1;
    let (win, at, word) = (&fixture.win, fixture.at(rank, 0), Datatype::basic(BasicType::Uint64));
    let (one, to) = (Items::of((&raw const ONE).cast(), 1, &word), At::new(rank, at, 1, &word));
    // Leaked, because a get that is wrongly accepted may fill it at any time.
    let into: *mut u8 = Box::leak(Box::new(0u64) as Box<u64>) as *mut u64 as *mut u8;
    let result = Items::of_mut(into, 1, &word);
    // SAFETY: `ONE` is never written, and the result buffer is this call's own and never freed.
    unsafe {
        match call {
            Call::Put => win.put((&raw const ONE).cast(), 8, rank, at),
            Call::Get => win.get(into, 8, rank, at),
            Call::Accumulate => win.accumulate_items(one, to, Op::Sum),
            Call::GetAccumulate => win.get_accumulate_items(one, result, to, Op::Sum),
            Call::FetchAndOp => win.fetch_and_op(&[1; 8], &mut [0; 8], BasicType::Uint64, rank, at, Op::Sum),
            Call::CompareAndSwap => {
                let expected = constant(rank).to_ne_bytes();
                win.compare_and_swap(
                    CompareSwap { expected: &expected, new: &[1; 8] },
                    &mut [0; 8],
                    BasicType::Uint64,
                    rank,
                    at,
                )
            }
            Call::Rput => win.rput_items(one, to).map(drop),
            Call::Rget => win.rget_items(result, to).map(drop),
            Call::Raccumulate => win.raccumulate_items(one, to, Op::Sum).map(drop),
            _ => win.rget_accumulate_items(one, result, to, Op::Sum).map(drop),
        }
    }
}
