//! The two copies: the copy on which operations act, the merging of both, user memory as the
//! private copy, and the windows with a single copy (MPI-4.1 §12.4, §12.7).

#![allow(unsafe_code)]

use transom::{Assert, BasicType, CompareSwap, Info, Job, Model, Op, RawWindow, Window};
use transom_harness::word::fetch;
use transom_harness::{Outcome, one_node, same, step};

use super::{OWNER, under_both_models};

/// MPI-4.1 §12.4: put, get and the accumulate family act on the public copy, also at the own rank.
/// Shows M2, M3, O6.
pub(crate) fn operations_on_oneself(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        let me = world.rank();
        fixture.store(1, 50);
        fixture.win.sync();
        fixture.win.lock_all(Assert::NONE)?;
        let (seven, mut got) = (7, 0);
        fixture.put(me, 0, &seven)?;
        fixture.win.flush(me)?;
        fixture.get(me, 0, &mut got)?;
        fixture.win.flush(me)?;
        same("got from oneself", &got, &7)?;
        same("private after a put to oneself", &fixture.load(0), &fixture.by_model(7, 0))?;
        same("fetch_and_op at oneself", &fetch(&fixture.win, me, 1, Op::Sum, 3)?, &50)?;
        same("private after it", &fixture.load(1), &fixture.by_model(53, 50))?;
        let mut old = [0; 8];
        let values = CompareSwap { expected: &53u64.to_ne_bytes()[..], new: &60u64.to_ne_bytes()[..] };
        fixture.win.compare_and_swap(values, &mut old, BasicType::Uint64, me, 1)?;
        same("compare_and_swap at oneself", &u64::from_ne_bytes(old), &53)?;
        fixture.store(2, 9);
        let found = fetch(&fixture.win, me, 2, Op::NoOp, 0)?;
        same("an atomic read of what was only stored", &found, &fixture.by_model(9, 0))?;
        fixture.win.sync();
        let all = [0, 1, 2].map(|at| fixture.load(at));
        same("private after sync", &all, &[7, 60, 9])?;
        same("public after sync", &fetch(&fixture.win, me, 2, Op::NoOp, 0)?, &9)?;
        Ok(fixture.win.unlock_all()?)
    })
}

/// MPI-4.1 §12.7: the owner's stores and puts of others at other locations both survive when the
/// copies are merged; the smallest unit is a byte.
/// Shows M1, M2.
pub(crate) fn both_copies_changes_are_kept(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        fixture.next_turn()?;
        fixture.world.barrier()?;
        if fixture.is_owner() {
            fixture.win.store(9, b"owner");
        } else {
            fixture.win.lock_all(Assert::NONE)?;
            // SAFETY: the bytes are static.
            unsafe { fixture.win.put(b"other".as_ptr(), 5, OWNER, 2)? };
            fixture.win.unlock_all()?;
        }
        fixture.world.barrier()?;
        fixture.win.sync();
        fixture.world.barrier()?;
        let (expected, mut public) = (*b"\0owner\0\0other\0\0\0", [0xee; 16]);
        if fixture.is_owner() {
            let mut private = [0xee; 16];
            fixture.win.load(8, &mut private);
            same("private", &private, &expected)?;
        }
        fixture.win.lock_all(Assert::NONE)?;
        // SAFETY: `public` is read after the epoch.
        unsafe { fixture.win.get(public.as_mut_ptr(), 16, OWNER, 1)? };
        fixture.win.unlock_all()?;
        same("public", &public, &expected)
    })
}

/// MPI-4.1 §12.2.1, §12.4: the memory handed to create is the private copy, which the process loads
/// and stores; freeing updates it.
/// Shows M2, W1, W4.
pub(crate) fn user_memory_is_the_private_copy(world: &Job) -> Outcome {
    let me = world.rank();
    under_both_models(world, |fixture| {
        let base = fixture.win.base().cast::<u64>();
        if base.cast_const() != fixture.memory.as_ptr() {
            // The memory is the library's: stores through the window are visible at its base.
            fixture.store(3, 44);
            // SAFETY: the base of the eight words of this rank's part.
            return same("at the base", &unsafe { base.add(3).read_volatile() }, &44);
        }
        let from = (me + 1) % world.size();
        // SAFETY: the words of `memory`, which lives as long as the window. Before the barrier
        // peers write only word 4 of the public copy, which may be this memory.
        let (write, read) =
            (|at, value| unsafe { base.add(at).write_volatile(value) }, |at| unsafe { base.add(at).read_volatile() });
        write(3, 33);
        same("loaded", &fixture.load(3), &33)?;
        fixture.win.sync();
        world.barrier()?;
        fixture.put_now(from, 4, 44)?;
        same("stored by pointer, and got", &fixture.get_now(from, 3)?, &33)?;
        world.barrier()?;
        fixture.win.sync();
        same("by pointer, after sync", &read(4), &44)
    })?;
    for model in ["unified", "separate"] {
        let win = Window::create_with(world, vec![me as u64; 5], &Info::new().with("transom_model", model))?;
        let next = (me + 1) % world.size();
        win.lock_all(|epoch| epoch.put_value(next, 2, 70 + me as u64))?;
        world.barrier()?;
        let before = (me + world.size() - 1) % world.size();
        let expected = vec![me as u64, me as u64, 70 + before as u64, me as u64, me as u64];
        same(&format!("{model}: given back by free"), &win.reclaim()?, &expected)?;
    }
    Ok(())
}

/// MPI-4.1 §12.7: in the separate model each window over the same memory has its own public copy.
/// Data put through one window becomes visible in the other when the owner synchronizes on both.
/// Shows M2, W7.
pub(crate) fn overlapping_windows(world: &Job) -> Outcome {
    for (model, separate) in [("unified", false), ("separate", true)] {
        step(model);
        let info = Info::new().with("transom_model", model);
        let mut memory = Box::new([0u64; 2]);
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: `memory` lives until both windows are freed.
        let (first, second) =
            unsafe { (RawWindow::create(world, base, 16, 8, &info)?, RawWindow::create(world, base, 16, 8, &info)?) };
        let read = |win: &RawWindow| -> transom::Result<u64> {
            win.lock_all(Assert::NONE)?;
            let value = fetch(win, OWNER, 0, Op::NoOp, 0);
            win.unlock_all()?;
            value
        };
        if world.rank() != OWNER {
            first.lock_all(Assert::NONE)?;
            fetch(&first, OWNER, 0, Op::Replace, 5)?;
            first.unlock_all()?;
            same("by the window of the update", &read(&first)?, &5)?;
            same("by the other window", &read(&second)?, if separate { &0 } else { &5 })?;
        }
        world.barrier()?;
        if world.rank() == OWNER {
            first.sync();
            second.sync();
        }
        world.barrier()?;
        same("by the other window, after syncs of both", &read(&second)?, &5)?;
        world.barrier()?;
        first.free()?;
        second.free()?;
        drop(memory);
    }
    Ok(())
}

/// MPI-4.1 §12.2.3, §12.2.4: other ranks load and store a shared window directly, and a dynamic
/// window has any attached memory. Both are always unified, also under the hint.
/// Shows M1, M2, W4.
pub(crate) fn always_unified(world: &Job) -> Outcome {
    let info = Info::new().with("transom_model", "separate");
    let dynamic = RawWindow::create_dynamic(world, &info)?;
    same("a dynamic window", &dynamic.model(), &Model::Unified)?;
    same("its hint in force", &dynamic.info().get("transom_model"), &Some("unified"))?;
    dynamic.free()?;
    for noncontig in ["false", "true"] {
        if !one_node(world)? {
            continue;
        }
        let info = info.clone().with("alloc_shared_noncontig", noncontig);
        let shared = RawWindow::allocate_shared(world, 64, 8, &info)?;
        same("a shared window", &shared.model(), &Model::Unified)?;
        same("its hint in force", &shared.info().get("transom_model"), &Some("unified"))?;
        shared.free()?;
    }
    for (model, expected) in [("unified", Model::Unified), ("separate", Model::Separate)] {
        let typed = Window::<u64>::allocate_with(world, 4, &Info::new().with("transom_model", model))?;
        same("a typed window", &typed.model(), &expected)?;
        typed.free()?;
    }
    Ok(())
}
