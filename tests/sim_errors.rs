//! The errors of failed transports as a program sees them: the kind, the chain of sources and the
//! texts; and calls whose hook panics. Ranks are threads on the simulated net.
//!
//! Route: sim.

use std::error::Error;
use std::iter::successors;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use simulated::{Rank, await_flag, calm, peer, raise, run, run_on, same};
use transom::{Class, ErrorKind, Info, Job, RawWindow, TransportError, Window, ops};
use transom_fabric::sim::{SimAmo, SimOptions, SimRegions};

mod simulated;

/// The text of each layer.
fn layers(error: &(dyn Error + 'static)) -> Vec<String> {
    successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

/// Shows E1.
#[test]
fn a_full_device_is_the_last_source() {
    let calm = SimOptions::default();
    let regions = SimRegions { most: Some(8), ..calm.regions };
    run(2, &SimOptions { regions, ..calm }, |world| {
        let mut live = Vec::new();
        let error = loop {
            match Window::<u64>::allocate(world, 4) {
                Ok(win) => live.push(win),
                Err(error) => break error,
            }
        };
        same("class", &error.class(), &Class::Other)?;
        let boxed: Box<dyn Error + Send + Sync> = error.into();
        let error = boxed.downcast_ref::<transom::Error>().ok_or("it is this crate's error")?;
        let messages = layers(error);
        same("layers", &messages.len(), &2)?;
        same("the whole", &format!("{error:#}"), &messages.join(": "))?;
        let action = messages[0].starts_with("registering 32 bytes at ") && messages[0].ends_with(" failed");
        same("the action", &action, &true)?;
        same("the reason", &messages[1].as_str(), &"the device's limit of 8 regions is reached")?;
        let ErrorKind::Transport(source) = error.kind() else { return Err(format!("{error:?}").into()) };
        same("an action", &matches!(source, TransportError::Action { .. }), &true)?;
        same("no answer of the system", &source.system().is_none(), &true)?;
        let found = error.source().and_then(|source| source.downcast_ref::<TransportError>());
        same("the first source", &found.is_some(), &true)?;
        Ok(live.into_iter().try_for_each(Window::free)?)
    });
}

/// Shows E1.
#[test]
fn a_rank_that_is_cut_off_is_named() {
    let idle = AtomicBool::new(false);
    run(2, &SimOptions::default(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        win.lock_all(|epoch| epoch.put_value(1, 0, 5))?;
        world.barrier()?;
        if world.rank() == 1 {
            // This rank makes no further call on the net.
            raise(&idle);
        } else {
            await_flag(&idle);
            world.kill(1);
            let error = win.lock_all(|epoch| epoch.put_value(1, 0, 7)).expect_err("the rank is unreachable");
            let named = matches!(error.kind(), ErrorKind::Peer { rank: 1, .. });
            same(&format!("{error:?}"), &(named, error.class()), &(true, Class::Other))?;
            let expected =
                ["an operation at rank 1 failed", "the rank's process has ended"].map(str::to_owned).to_vec();
            same("layers", &layers(&error), &expected)?;
            same("the whole", &format!("{error:#}"), &expected.join(": "))?;
        }
        // `free` would wait for the rank that is cut off. At that rank the drop too would wait, for
        // operations in flight, which can't be completed.
        if world.rank() == 1 {
            std::mem::forget(win);
        }
        Ok(())
    });
}

/// Creates a window of a flavor; returns the error, which must not be missing.
fn refused<W>(made: transom::Result<W>) -> Result<transom::Error, Box<dyn Error>> {
    made.err().ok_or_else(|| "a window was created".into())
}

/// The errors of all creations of windows with an info.
fn creations(world: &Rank, info: &Info) -> Result<Vec<transom::Error>, Box<dyn Error>> {
    let mut errors = vec![
        refused(Window::<u64>::allocate_with(world, 1, info))?,
        refused(Window::create_with(world, vec![0u64], info))?,
        refused(RawWindow::create_dynamic(world, info))?,
    ];
    for noncontig in ["true", "false"] {
        let info = info.clone().with("alloc_shared_noncontig", noncontig);
        errors.push(refused(Window::<u64>::allocate_shared_with(world, 1, &info))?);
    }
    Ok(errors)
}

/// Rank 0's directory is full. If rank 1 fails for another reason, no rank reports a full
/// directory, for which a program may create the window otherwise at all ranks (MPI-4.1 §12.2.1).
/// Shows W2, E1.
#[test]
fn all_ranks_report_a_full_directory_or_none() {
    run_on(Some(1), 3, &SimOptions::default(), |world| {
        let (me, own) = (world.rank(), world.subset(&[world.rank()])?);
        let most = if me == 0 { usize::MAX } else { 0 };
        let windows: Vec<_> = (0..most).map_while(|_| Window::<u64>::allocate(&own, 0).ok()).collect();
        let before = world.regions();
        world.step("a full directory and an invalid hint");
        let hint = if me == 1 { "nowhere" } else { "cpu" };
        for error in creations(world, &Info::new().with("transom_atomics", hint))? {
            let is_full = matches!(error.kind(), ErrorKind::TooManyWindows { .. });
            same(&format!("{error}"), &is_full, &false)?;
            match me {
                1 => same("of the hint", &error.class(), &Class::InfoValue)?,
                _ => same(&format!("{error} names rank 1"), &error.to_string().contains("rank 1"), &true)?,
            }
        }
        world.step("a full directory");
        for error in creations(world, &Info::new())? {
            same(&format!("{error}"), &matches!(error.kind(), ErrorKind::TooManyWindows { .. }), &true)?;
        }
        same("regions", &world.regions(), &before)?;
        world.step("room again");
        windows.into_iter().try_for_each(Window::free)?;
        let win = Window::<u64>::allocate(world, 1)?;
        Ok(win.free()?)
    });
}

/// A rank whose part would be longer than any memory fails, and the others learn of it.
/// Shows W2, E1.
#[test]
fn a_shared_part_that_is_too_long_fails_at_all_ranks() {
    run_on(Some(1), 2, &SimOptions::default(), |world| {
        for noncontig in ["true", "false"] {
            let info = Info::new().with("alloc_shared_noncontig", noncontig);
            let len = if world.rank() == 0 { usize::MAX } else { 1 };
            world.step(noncontig);
            let error = refused(Window::<u64>::allocate_shared_with(world, len, &info))?;
            same(&format!("{error}"), &(error.class() == Class::Size), &(world.rank() == 0))?;
        }
        Ok(())
    });
}

/// The number of further windows for which this rank's directory has room.
fn room(own: &Job) -> Result<usize, Box<dyn Error>> {
    let mut windows = Vec::new();
    while let Ok(win) = Window::<u64>::allocate(own, 0) {
        windows.push(win);
    }
    let count = windows.len();
    windows.into_iter().try_for_each(Window::free)?;
    Ok(count)
}

/// A rank that fails in the barrier of creation exposes no part, because the program may free the
/// part's memory.
/// Shows W2, E1.
#[test]
fn a_creation_whose_barrier_fails_exposes_nothing() {
    static FAILED: AtomicBool = AtomicBool::new(false);
    run(2, &calm(), |world| {
        let own = world.subset(&[world.rank()])?;
        world.barrier()?;
        if world.rank() == 1 {
            let before = (room(&own)?, world.regions());
            world.fail_next_progress();
            drop(refused(Window::<u64>::allocate(world, 1))?);
            same("room and regions", &(room(&own)?, world.regions()), &before)?;
            raise(&FAILED);
        } else {
            // Rank 0 calls after rank 1 has failed for lack of its signal.
            await_flag(&FAILED);
            // Rank 1 has passed its signal on before it failed.
            std::mem::forget(Window::<u64>::allocate(world, 1)?);
        }
        Ok(world.barrier()?)
    });
}

/// The memory of a freed window may be gone: a load, store or synchronization of it panics.
#[test]
fn a_freed_window_is_not_loaded() {
    run(2, &SimOptions::default(), |world| {
        let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
        win.free()?;
        assert!(win.is_freed());
        let calls: [&dyn Fn(); 3] = [&|| win.load(0, &mut [0; 8]), &|| win.store(0, &[0; 8]), &|| win.sync()];
        for call in calls {
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        }
        Ok(())
    });
}

/// A hook of the program panics in a call whose result lies on the stack. The call unwinds only
/// when its operation is complete.
/// Shows O6.
#[test]
fn a_hook_that_panics_leaves_no_operation_in_flight() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let net = SimOptions { amo: SimAmo::None, ..calm() };
    run(2, &net, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                epoch.fetch_value(1, 0)?;
                let net = world.net();
                world.while_waiting(move || {
                    // Relaxed: one thread calls the hook.
                    assert_ne!(CALLS.fetch_add(1, Ordering::Relaxed), 0, "the hook's first call panics");
                    net.resume_messages_to(peer(0));
                });
                world.net().stop_messages_to(peer(0));
                let fetched = catch_unwind(AssertUnwindSafe(|| epoch.fetch_and_op(1, 0, 5, ops::Sum)));
                assert!(fetched.is_err() && CALLS.load(Ordering::Relaxed) > 1, "the call waited after the panic");
                assert_eq!(epoch.fetch_value(1, 0)?, 5);
                Ok(())
            })?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}
