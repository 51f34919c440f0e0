//! The lines about windows that `TRANSOM_INFO=1` prints: one line for each kind, by rank 0 of
//! `MPI_COMM_WORLD`, and at the end of the job the number of further windows of each kind.

use std::sync::{Mutex, PoisonError};

use transom::{Actor, Flavor, Job, RawWindow, Route, diagnostics};

use crate::process;

/// Windows that share a line: of one flavor, with the same routes and the same actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    flavor: Flavor,
    /// Whether all memory that other ranks of the node reach is mapped.
    is_mapped: bool,
    /// Whether ranks are reached by shared memory, and whether by the net.
    routes: [bool; 2],
    actor: Actor,
}

impl Kind {
    /// The kind in words, after the number of windows.
    fn words(self) -> String {
        let routes = match self.routes {
            [true, true] => "by shared memory and the net",
            [true, false] => "by shared memory",
            [false, true] => "by the net",
            [false, false] => "of one rank",
        };
        let how = if self.is_mapped { "" } else { ", not all mapped" };
        format!("{:?} {routes}{how}; atomics {}", self.flavor, self.actor)
    }
}

/// The kinds that have a line, each with the number of later windows.
static LINES: Mutex<Vec<(Kind, u64)>> = Mutex::new(Vec::new());

/// Prints a line about a new window if it is the first of its kind, and counts it otherwise.
pub(crate) fn made(job: &Job, raw: &RawWindow) {
    if !process::get().is_some_and(process::Process::reports) {
        return;
    }
    let count = |route| (0..job.size()).filter(|&rank| raw.route(rank).ok() == Some(route)).count();
    let (near, far) = (count(Route::Shm), count(Route::Net));
    let is_mapped = raw.is_mapped();
    let kind = Kind { flavor: raw.flavor(), is_mapped, routes: [near > 0, far > 0], actor: raw.actor() };
    {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, further)) = lines.iter_mut().find(|(known, _)| *known == kind) {
            *further += 1;
            return;
        }
        lines.push((kind, 0));
    }
    let how = if is_mapped { "" } else { ", not all mapped" };
    diagnostics::print_requested(&format!(
        "transom: window {:?} of {} ranks: from its rank {} {near} by shared memory{how}, {far} by the net; \
         atomics {}",
        kind.flavor,
        job.size(),
        job.rank(),
        kind.actor
    ));
}

/// Prints the number of windows of each kind that have no line.
pub(crate) fn at_end() {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    for (kind, further) in lines.drain(..).filter(|(_, further)| *further > 0) {
        diagnostics::print_requested(&format!("transom: further windows: {further} x {}", kind.words()));
    }
}
