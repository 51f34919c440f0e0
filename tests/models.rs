//! The memory models (MPI-4.1 §12.4, §12.7). Each point where unified and separate differ is one
//! body that runs under both models and states both outcomes. Two ranks: the owner of the observed
//! words, and the other one.

#![allow(unsafe_code)]

use std::process::ExitCode;

use transom::{Assert, Info, Job, Lock, Model, RawWindow};
use transom_harness::{Outcome, Test, same, step, word};

#[path = "models/copies.rs"]
mod copies;
#[path = "models/publish.rs"]
mod publish;
#[path = "models/refresh.rs"]
mod refresh;
#[path = "models/typed.rs"]
mod typed;

static TESTS: &[Test] = &[
    Test::new("stores_become_public", &[2], publish::stores_become_public),
    Test::new("calls_that_do_not_publish_stores", &[2], publish::calls_that_do_not_publish_stores),
    Test::new("puts_become_private", &[2], refresh::puts_become_private),
    Test::new("calls_that_do_not_refresh_the_private_copy", &[2], refresh::calls_that_do_not_refresh_the_private_copy),
    Test::new("operations_on_oneself_act_on_the_public_copy", &[1, 2], copies::operations_on_oneself),
    Test::new("both_copies_changes_are_kept", &[2], copies::both_copies_changes_are_kept),
    Test::new("user_memory_is_the_private_copy", &[1, 2], copies::user_memory_is_the_private_copy),
    Test::new("overlapping_windows_have_public_copies_of_their_own", &[2], copies::overlapping_windows),
    Test::new("shared_and_dynamic_windows_are_unified", &[1, 2], copies::always_unified),
    Test::new("stores_become_public_in_epochs_as_closures", &[1, 2, 3], typed::stores),
    Test::new("puts_become_private_in_epochs_as_closures", &[1, 2, 3], typed::puts),
    Test::new("a_fence_keeps_what_both_copies_have", &[1, 2], typed::both),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// The rank that owns the observed words.
const OWNER: usize = 1;

/// A window of eight words per rank under a model, and the memory that `MPI_WIN_CREATE` was given.
struct Fixture<'w> {
    world: &'w Job,
    win: RawWindow,
    separate: bool,
    /// The caller's memory of a created window; accessed only through the window and by pointer.
    memory: Box<[u64; 8]>,
    /// The number of turns so far; each turn has values of its own.
    turn: u64,
}

/// Runs `body` under both models, on allocated and on created windows.
fn under_both_models(world: &Job, body: impl Fn(&mut Fixture<'_>) -> Outcome) -> Outcome {
    for (model, name) in [(Model::Unified, "unified"), (Model::Separate, "separate")] {
        for create in [false, true] {
            step(format!("{name}, {}", if create { "create" } else { "allocate" }));
            let info = Info::new().with("transom_model", name);
            let mut memory = Box::new([0u64; 8]);
            let win = match create {
                false => RawWindow::allocate(world, 64, 8, &info)?,
                // SAFETY: `memory` lives until the window is freed below, or is leaked where the
                // body fails.
                true => unsafe { RawWindow::create(world, memory.as_mut_ptr().cast(), 64, 8, &info)? },
            };
            same("the model", &win.model(), &model)?;
            same("the hint", &win.info().get("transom_model"), &Some(name))?;
            let mut fixture = Fixture { world, win, separate: model == Model::Separate, memory, turn: 0 };
            if let Err(error) = body(&mut fixture) {
                std::mem::forget(fixture);
                return Err(format!("{name}, create: {create}: {error}").into());
            }
            fixture.win.free()?;
            drop(fixture.memory);
        }
    }
    Ok(())
}

impl Fixture<'_> {
    fn is_owner(&self) -> bool {
        self.world.rank() == OWNER
    }

    /// The value that is expected under the fixture's model.
    fn by_model(&self, unified: u64, separate: u64) -> u64 {
        if self.separate { separate } else { unified }
    }

    fn store(&self, at: usize, value: u64) {
        self.win.store(at * 8, &value.to_ne_bytes());
    }

    fn load(&self, at: usize) -> u64 {
        word::load(&self.win, at)
    }

    /// A put within the open epoch, complete at the epoch's end or at a flush; `value` is copied
    /// before the call returns.
    fn put(&self, target: usize, at: u64, value: &u64) -> transom::Result<()> {
        // SAFETY: the callers keep `value` until the end of the epoch.
        unsafe { self.win.put(std::ptr::from_ref(value).cast(), 8, target, at) }
    }

    /// A get within the open epoch.
    fn get(&self, target: usize, at: u64, into: &mut u64) -> transom::Result<()> {
        // SAFETY: the callers read `into` only after the end of the epoch.
        unsafe { self.win.get(std::ptr::from_mut(into).cast(), 8, target, at) }
    }

    /// A get in a passive epoch of its own.
    fn get_now(&self, target: usize, at: u64) -> transom::Result<u64> {
        let mut value = u64::MAX;
        self.win.lock(Lock::Shared, target, Assert::NONE)?;
        self.get(target, at, &mut value)?;
        self.win.unlock(target)?;
        Ok(value)
    }

    /// A put in a passive epoch of its own.
    fn put_now(&self, target: usize, at: u64, value: u64) -> transom::Result<()> {
        self.win.lock(Lock::Shared, target, Assert::NONE)?;
        self.put(target, at, &value)?;
        self.win.unlock(target)
    }

    /// Begins a turn, in which both copies of all words agree. Returns a value that no earlier turn
    /// had, equal at both ranks.
    fn next_turn(&mut self) -> transom::Result<u64> {
        self.world.barrier()?;
        self.win.sync();
        self.world.barrier()?;
        self.turn += 1;
        Ok(self.turn * 1000)
    }
}
