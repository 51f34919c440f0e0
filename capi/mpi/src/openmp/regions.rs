//! Parallel regions, barriers, and sections.

use std::ffi::c_void;

use super::{HERE, Team, spread};

/// A function that gcc makes of the body of a region or a task.
pub(super) type Body = unsafe extern "C" fn(*mut c_void);

/// A region that begins.
#[repr(C)]
struct Region {
    body: Body,
    data: *mut c_void,
    team: Team,
}

/// Runs a parallel region by `run`, which gets the function and the data for its threads.
pub(super) fn within<R>(body: Body, data: *mut c_void, run: impl FnOnce(Body, *mut c_void) -> R) -> R {
    let region = Region { body, data, team: Team::default() };
    region.team.begins.release();
    let done = run(member, (&raw const region).cast_mut().cast());
    region.team.ends.acquire();
    region.team.tasks.acquire();
    done
}

/// The function that each thread of a region runs.
///
/// # Safety
/// `region` is a [`Region`], which outlives the call.
unsafe extern "C" fn member(region: *mut c_void) {
    // SAFETY: as the caller says.
    let region = unsafe { &*region.cast::<Region>() };
    HERE.with(|here| {
        let outer = (here.team.replace(&raw const region.team), here.barriers.replace(0));
        let (task, sections) = (here.task.replace(None), here.sections.replace(0));
        region.team.begins.acquire();
        // SAFETY: what the program gave to the region.
        unsafe { (region.body)(region.data) };
        region.team.let_others_take_tasks();
        region.team.ends.release();
        here.team.set(outer.0);
        here.barriers.set(outer.1);
        here.task.set(task);
        here.sections.set(sections);
    });
}

/// Passes a barrier by `wait`.
pub(super) fn barrier<R>(wait: impl FnOnce() -> R) -> R {
    HERE.with(|here| {
        here.sections.set(0);
        let Some(team) = here.team() else { return wait() };
        team.let_others_take_tasks();
        let turn = here.barriers.get();
        let mark = &team.barriers[turn % 2];
        mark.release();
        let done = wait();
        mark.acquire();
        team.tasks.acquire();
        here.barriers.set(turn + 1);
        done
    })
}

/// Asks for a section by `next`, which returns 0 if there is none.
pub(super) fn section(next: impl FnOnce() -> u32) -> u32 {
    HERE.with(|here| {
        if here.sections.replace(here.sections.get() + 1) > 0 {
            spread(|| false);
        }
        next()
    })
}

/// Orders this thread's next work in an ordered region after the work of other threads in theirs.
pub(super) fn ordered(begins: bool) {
    HERE.with(|here| match here.team() {
        Some(team) if begins => team.ordered.acquire(),
        Some(team) => team.ordered.release(),
        None => {}
    });
}

/// One thread copies data to all.
pub(super) fn copied(gives: bool) {
    HERE.with(|here| match here.team() {
        Some(team) if gives => team.copied.release(),
        Some(team) => team.copied.acquire(),
        None => {}
    });
}
