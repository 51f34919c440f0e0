//! Failures of transports on the simulated net: the kind, the chain of sources and the texts of an
//! error.
//!
//! Route: sim.

use std::error::Error;
use std::iter::successors;
use std::sync::atomic::{AtomicBool, Ordering};

use simulated::{run, same};
use transom::{Class, ErrorKind, TransportError, Window};
use transom_fabric::sim::{SimOptions, SimRegions};

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
            // Relaxed: no other data is published with the flag.
            idle.store(true, Ordering::Relaxed);
        } else {
            // Relaxed: pairs with the store of rank 1, which makes no call on the net after it.
            while !idle.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
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
