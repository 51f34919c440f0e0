//! The calls that wait for requests or test them: what the program learns from the requests that a
//! call has completed.

use std::ffi::{c_int, c_void};

use transom::Job;

use super::{Entry, Name, Receive, What, ahead, entries_of, host_edges_duplicated, job, shared, under_way};
use crate::edges;
use crate::host::{RequestHandle, constants, host_status_of};

/// Requests that a call may complete. `None` while the checker is off.
pub(crate) struct Watch(Option<Vec<(Name, bool)>>);

/// Which of the requests a call has completed.
#[derive(Clone, Copy)]
pub(crate) enum Done<'i> {
    All,
    One(c_int),
    Some(&'i [c_int]),
}

impl Watch {
    /// Looks at the requests before the call. `is_ours`: those of windows.
    ///
    /// # Safety
    /// The requests are readable.
    pub(crate) unsafe fn of(
        requests: *const RequestHandle,
        count: c_int,
        is_ours: impl Fn(&RequestHandle) -> bool,
    ) -> Watch {
        if !edges::is_on() || requests.is_null() {
            return Watch(None);
        }
        // SAFETY: as the caller says.
        let requests = unsafe { std::slice::from_raw_parts(requests, usize::try_from(count).unwrap_or(0)) };
        let name = |one: &RequestHandle| Name { handle: *one, at: std::ptr::from_ref(one).addr() };
        Watch(Some(requests.iter().map(|one| (name(one), is_ours(one))).collect()))
    }

    /// A call that completes none.
    pub(crate) fn nothing() -> Watch {
        Watch(edges::is_on().then(Vec::new))
    }

    /// The requests, while the checker is on.
    pub(crate) fn handles(&self) -> Option<Vec<RequestHandle>> {
        self.0.as_ref().map(|all| all.iter().map(|one| one.0.handle).collect())
    }

    /// The call has completed some. `statuses` are theirs, in the order of `done`. `keeps`: the
    /// requests remain.
    pub(crate) fn ended(&self, done: Done<'_>, statuses: *mut c_void, keeps: bool) {
        let (Some(all), Some(job)) = (&self.0, job()) else { return };
        let (first, count) = (0, all.len());
        let indices: Vec<usize> = match done {
            Done::All => (first..count).collect(),
            Done::One(index) => usize::try_from(index).ok().into_iter().collect(),
            Done::Some(indices) => indices.iter().filter_map(|&index| usize::try_from(index).ok()).collect(),
        };
        let mut found = Vec::new();
        for (nth, index) in indices.into_iter().enumerate() {
            let Some(&(name, ours)) = all.get(index) else { continue };
            if ours || name.handle == constants().null_request {
                continue;
            }
            found.push((entries_of(&under_way(), name).first().copied(), nth, name));
        }
        // Receives take their messages in the order in which they were posted.
        found.sort_by_key(|one| one.0);
        for (place, nth, name) in found {
            match place {
                Some(_) => finish(&job, name, (statuses, nth), keeps),
                // Ended with another one of the handle.
                None if shared().contains(&name.handle) => {}
                // A request that the checker does not know, as of a file.
                None => drop(job.checker_learns_all()),
            }
        }
    }
}

/// A request is complete.
fn finish(job: &Job, name: Name, status: (*mut c_void, usize), keeps: bool) {
    let mut all = under_way();
    // From the last on: an entry that is over is removed.
    for place in entries_of(&all, name).into_iter().rev() {
        finish_entry(job, &mut all, place, status, keeps);
    }
}

fn finish_entry(job: &Job, all: &mut Vec<Entry>, place: usize, (statuses, nth): (*mut c_void, usize), keeps: bool) {
    if !std::mem::replace(&mut all[place].is_active, false) {
        if !keeps && all[place].again.is_none() {
            all.remove(place);
        }
        return;
    }
    let (what, borrowed) = (all[place].what.clone(), all[place].borrowed.take());
    if let Some(channel) = &mut all[place].channel {
        channel.ends(job);
    }
    if let Some(borrowed) = borrowed {
        borrowed.returns(job);
    }
    let learned = match &what {
        What::Send(_) => Ok(()),
        What::Synchronous((rank, tag, group)) => job.checker_was_received(*rank, *tag, *group),
        What::Any => job.checker_learns_all(),
        What::Duplicate { out, number, group, turn, ranks } => {
            // SAFETY: the program keeps the variable until the request is complete, as MPI demands.
            unsafe { host_edges_duplicated(std::ptr::with_exposed_provenance(*out), *number) };
            if *turn == 0 { job.checker_learns_all() } else { job.checker_has_met(ranks, *group, *turn) }
        }
        What::Collective { group, turn, ranks } => job.checker_has_met(ranks, *group, *turn),
        What::Receive(receive) => match envelope(receive, statuses, nth) {
            Some((rank, tag)) => {
                let ahead = ahead(all[..place].iter(), rank, tag, receive.group);
                job.checker_receives(rank, (tag, receive.group), ahead, true)
            }
            None => job.checker_learns_all(),
        },
    };
    // Fails only without the other ranks' memory, which a job with the checker has.
    drop(learned);
    if !keeps && all[place].again.is_none() {
        all.remove(place);
    }
}

/// The source and the tag of a message that was received.
fn envelope(receive: &Receive, statuses: *mut c_void, nth: usize) -> Option<(usize, c_int)> {
    if let (Some(source), Some(tag)) = (receive.source, receive.tag) {
        return Some((source, tag));
    }
    let (mut source, mut tag) = (0, 0);
    // SAFETY: the host has filled the statuses of the requests that are complete.
    if unsafe { host_status_of(statuses, c_int::try_from(nth).ok()?, &raw mut source, &raw mut tag) } == 0 {
        return None;
    }
    let source = receive.source.or_else(|| receive.sources.get(usize::try_from(source).ok()?).copied())?;
    Some((source, tag))
}
