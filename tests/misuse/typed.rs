//! The same table for epochs as closures, as far as the types permit illegal calls: calls that
//! would open an inner epoch, and operations on ranks outside the epoch. The outer epoch continues.

use transom::{Access, Assert, Class, Flavor, Job, Lock, Passive, Window, ops};
use transom_harness::{Outcome, ensure, same, step};

use super::fixture::constant;
use super::table::{Call, NamedRank, STATES, State, forbidden, section};

struct Typed<'w> {
    job: &'w Job,
    win: &'w Window<u64>,
    next: usize,
}

/// The access that the open closure lends.
#[derive(Clone, Copy)]
enum Handle<'h, 'scope, 'env> {
    Nothing,
    Active(&'h Access<'scope, 'env, u64>),
    Passive(&'h Passive<'scope, 'env, u64>),
}

/// Shows E2, A1.
pub(crate) fn closures(world: &Job) -> Outcome {
    for flavor in [Flavor::Allocate, Flavor::Create, Flavor::Shared] {
        step(format!("{flavor:?}"));
        match flavor {
            Flavor::Shared => {
                let node = world.subset(&world.node_ranks())?;
                table(&node, Window::allocate_shared(&node, 2)?)?;
            }
            Flavor::Create => table(world, Window::create(world, vec![0; 2])?)?,
            _ => table(world, Window::allocate(world, 2)?)?,
        }
    }
    Ok(())
}

fn table(job: &Job, win: Window<u64>) -> Outcome {
    let (me, size) = (job.rank(), job.size());
    win.store(0, &[constant(me)])?;
    win.sync();
    job.barrier()?;
    let typed = Typed { job, win: &win, next: (me + 1) % size };
    for (turn, state) in (1u64..).zip(STATES) {
        // Closures have no fence without an epoch, and end with the window; this rank is the only
        // one that can be locked.
        let skipped = matches!(state, State::Fenced | State::FencedPosted | State::FencePosted | State::Freed)
            || size == 1 && matches!(state, State::Lock | State::LockPosted);
        if !skipped {
            step(format!("{state:?}"));
            typed.state(state)?;
            job.barrier()?;
            win.fence(|epoch| epoch.put_value(typed.next, 1, turn))?;
            let mut found = [0; 2];
            win.load(0, &mut found)?;
            same("the part, after an epoch that is correct", &found, &[constant(me), turn])?;
        }
        job.barrier()?;
    }
    Ok(win.free()?)
}

impl Typed<'_> {
    /// Runs the rows of a state in that state.
    fn state(&self, state: State) -> Outcome {
        let Typed { job, win, next } = *self;
        let (me, before) = (job.rank(), (job.rank() + job.size() - 1) % job.size());
        let first = me == 0 || job.size() == 1;
        let mut outcome = Ok(());
        match state {
            State::Fence => win.fence(|epoch| {
                outcome = self.check_forbidden_calls(state, Handle::Active(epoch));
                let inner = win.fence(|_| Ok(())).map_err(|error| error.class());
                outcome =
                    std::mem::replace(&mut outcome, Ok(())).and(same("fence in fence", &inner, &Err(Class::RmaSync)));
                Ok(())
            })?,
            State::LockAll => win.lock_all(|epoch| {
                outcome = self.check_forbidden_calls(state, Handle::Passive(epoch));
                Ok(())
            })?,
            State::Lock | State::LockOwn => {
                win.lock(Lock::Exclusive, if state == State::Lock { next } else { me }, |epoch| {
                    outcome = self.check_forbidden_calls(state, Handle::Passive(epoch));
                    Ok(())
                })?;
            }
            State::LockPosted if first => {
                win.post(&[before])?;
                win.lock(Lock::Exclusive, next, |epoch| {
                    outcome = self.check_forbidden_calls(state, Handle::Passive(epoch));
                    Ok(())
                })?;
                job.barrier()?;
                win.wait()?;
            }
            State::LockPosted => {
                job.barrier()?;
                if next == 0 {
                    win.start(&[0], |_| Ok(()))?;
                }
            }
            State::Start => win.start(&[next], |epoch| {
                outcome = self.check_forbidden_calls(state, Handle::Active(epoch));
                win.post(&[before])?;
                epoch.fetch_value(next, 0).map(drop)
            })?,
            State::StartPosted => {
                win.post(&[before])?;
                win.start(&[next], |epoch| {
                    outcome = self.check_forbidden_calls(state, Handle::Active(epoch));
                    job.barrier()
                })?;
            }
            State::Posted => {
                win.post(&[before])?;
                outcome = self.check_forbidden_calls(state, Handle::Nothing);
                job.barrier()?;
                win.start(&[next], |epoch| epoch.fetch_value(next, 0).map(drop))?;
            }
            _ => outcome = self.check_forbidden_calls(state, Handle::Nothing),
        }
        if matches!(state, State::Start | State::StartPosted | State::Posted) {
            win.wait()?;
        }
        outcome
    }

    /// Every call that the state forbids and the types permit, each followed by a legal one.
    fn check_forbidden_calls(&self, state: State, handle: Handle<'_, '_, '_>) -> Outcome {
        let (me, mut calls) = (self.job.rank(), 0);
        for (call, named, rule) in forbidden(state, self.job.size() == 1) {
            let what = format!("{call:?} of {named:?} in {state:?}");
            step(&what);
            let rank = if (named == NamedRank::Target) == (state == State::LockOwn) { me } else { self.next };
            let Some(outcome) = self.run(handle, call, rank) else { continue };
            let error = outcome.err().ok_or(format!("{what} is allowed"))?;
            same(&format!("{what}: {error}"), &error.class(), &Class::RmaSync)?;
            ensure(error.to_string().contains(section(rule)), &format!("{what}: {error} names {}", section(rule)))?;
            let mut found = [0];
            self.win.load(0, &mut found)?;
            same(&format!("the part after {what}"), &found[0], &constant(me))?;
            self.allowed(state, handle)?;
            calls += 1;
        }
        ensure(calls > 0, &format!("some call is illegal in {state:?}"))
    }

    /// A legal call that changes neither the state nor data.
    fn allowed(&self, state: State, handle: Handle<'_, '_, '_>) -> Outcome {
        let target = if state == State::LockOwn { self.job.rank() } else { self.next };
        let found = match (handle, state) {
            // The targets post later.
            (_, State::Start) => None,
            (Handle::Active(epoch), _) => Some(epoch.fetch_value(target, 0)?),
            (Handle::Passive(epoch), _) => Some(epoch.fetch_value(target, 0)?),
            (Handle::Nothing, State::Closed) => Some(self.win.lock_all(|epoch| epoch.fetch_value(target, 0))?),
            _ => None,
        };
        ensure(
            found.is_none_or(|found| found == constant(target)),
            "an operation that is allowed reads what must be there",
        )?;
        if matches!(state, State::Posted | State::LockPosted | State::StartPosted) {
            same("the exposure epoch has ended", &self.win.test()?, &false)?;
        }
        Ok(())
    }

    /// The call, where the types permit it.
    fn run(&self, handle: Handle<'_, '_, '_>, call: Call, rank: usize) -> Option<transom::Result<()>> {
        let win = self.win;
        let synchronized = match call {
            Call::Fence => Some(win.fence(|_| Ok(()))),
            Call::LockAll => Some(win.lock_all(|_| Ok(()))),
            Call::Lock => Some(win.lock(Lock::Shared, rank, |_| Ok(()))),
            Call::LockUnchecked => Some(win.lock_with(Lock::Exclusive, rank, Assert::NOCHECK, |_| Ok(()))),
            Call::Start => Some(win.start(&[rank], |_| Ok(()))),
            Call::Post => Some(win.post(&[rank])),
            Call::Wait => Some(win.wait()),
            Call::Test => Some(win.test().map(drop)),
            _ => None,
        };
        synchronized.or_else(|| match handle {
            Handle::Nothing => None,
            Handle::Active(epoch) => operate(epoch, call, rank),
            Handle::Passive(epoch) => operate(epoch, call, rank).or_else(|| request(epoch, call, rank)),
        })
    }
}

/// An operation on the word that must not change.
fn operate(epoch: &Access<'_, '_, u64>, call: Call, rank: usize) -> Option<transom::Result<()>> {
    let mut old = [0];
    Some(match call {
        Call::Put => epoch.put_value(rank, 0, 1),
        Call::Get => epoch.scope(|part| part.get(rank, 0, &mut old)),
        Call::Accumulate => epoch.scope(|part| part.accumulate(rank, 0, &[1], ops::Sum)),
        Call::GetAccumulate => epoch.scope(|part| part.get_accumulate(rank, 0, &[1], &mut old, ops::Sum)),
        Call::FetchAndOp => epoch.fetch_add(rank, 0, 1).map(drop),
        Call::CompareAndSwap => epoch.compare_and_swap(rank, 0, constant(rank), 1).map(drop),
        _ => return None,
    })
}

fn request(epoch: &Passive<'_, '_, u64>, call: Call, rank: usize) -> Option<transom::Result<()>> {
    Some(match call {
        Call::Rput => epoch.rput_owned(rank, 0, vec![1]).map(drop),
        Call::Rget => epoch.rget_owned(rank, 0, vec![1]).map(drop),
        Call::Flush => epoch.flush(rank),
        Call::FlushLocal => epoch.flush_local(rank),
        _ => return None,
    })
}
