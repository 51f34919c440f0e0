//! Calls that wait for requests or test them. A [`Watch`] holds the requests of a call. When the
//! call has completed some of them, this rank learns their clocks, and their buffers count as
//! returned.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};

use transom::Job;

use super::{Entry, Learns, Name, Receive, entries_of, host_edges_number_copy, in_flight, job, shared, unfinished};
use crate::accesses;
use crate::edges;
use crate::host::{
    RequestHandle, SUCCESS, State, constants, host_status_is_cancelled, host_status_of, host_status_state,
};
use crate::untold;

/// The requests that a call may complete. `None` while the checker is off.
pub(crate) struct Watch(Option<Watched>);

#[derive(Default)]
struct Watched {
    /// The requests in the order of the call.
    names: Vec<Name>,
    handles: Handles,
    /// Those of operations on windows.
    ours: HashSet<RequestHandle>,
}

/// The handles of a call's requests.
#[derive(Default)]
pub(crate) struct Handles {
    all: Vec<RequestHandle>,
    /// The same, if they are many.
    set: HashSet<RequestHandle>,
}

/// The number of handles up to which a search for one visits all.
const FEW: usize = 8;

impl Handles {
    fn of(all: Vec<RequestHandle>) -> Handles {
        let set = if all.len() > FEW { all.iter().copied().collect() } else { HashSet::new() };
        Handles { all, set }
    }

    /// Whether a handle is one of these. Called for each operation in flight.
    pub(crate) fn has(&self, handle: RequestHandle) -> bool {
        if self.all.len() > FEW { self.set.contains(&handle) } else { self.all.contains(&handle) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RequestHandle> {
        self.all.iter().copied()
    }
}

/// Which of the requests a call has completed.
#[derive(Clone, Copy)]
pub(crate) enum Done<'i> {
    All,
    One(c_int),
    Some(&'i [c_int]),
}

impl Watch {
    /// The requests of a call, before the call. `ours` selects the requests of operations on
    /// windows.
    ///
    /// # Safety
    /// The requests are readable.
    pub(crate) unsafe fn of(
        requests: *const RequestHandle,
        count: c_int,
        ours: impl FnOnce(&Handles) -> HashSet<RequestHandle>,
    ) -> Watch {
        if !edges::is_on() || requests.is_null() {
            return Watch(None);
        }
        // SAFETY: as the caller says.
        let requests = unsafe { std::slice::from_raw_parts(requests, usize::try_from(count).unwrap_or(0)) };
        let name = |one: &RequestHandle| Name { handle: *one, at: std::ptr::from_ref(one).expose_provenance() };
        let handles = Handles::of(requests.to_vec());
        let ours = ours(&handles);
        Watch(Some(Watched { names: requests.iter().map(name).collect(), handles, ours }))
    }

    /// The watch of a call that completes no request.
    pub(crate) fn nothing() -> Watch {
        Watch(edges::is_on().then(Watched::default))
    }

    /// The requests, while the checker is on.
    pub(crate) fn handles(&self) -> Option<&Handles> {
        self.0.as_ref().map(|all| &all.handles)
    }

    /// The call, with the result `code`, has completed the requests `done`; `statuses` are in the
    /// same order. After a failure some of the requests may be pending. `keeps`: the call leaves
    /// complete requests allocated (`MPI_Request_get_status`).
    pub(crate) fn ended(&self, code: c_int, done: Done<'_>, statuses: *mut c_void, keeps: bool) {
        let (Some(all), Some(job)) = (&self.0, job()) else { return };
        let indices: Vec<usize> = match done {
            Done::All => (0..all.names.len()).collect(),
            Done::One(index) => usize::try_from(index).ok().into_iter().collect(),
            Done::Some(indices) => indices.iter().filter_map(|&index| usize::try_from(index).ok()).collect(),
        };
        let (mut found, mut ours) = (Vec::new(), Vec::new());
        for (nth, index) in indices.into_iter().enumerate() {
            let Some(&name) = all.names.get(index) else { continue };
            let state = match c_int::try_from(nth) {
                // SAFETY: the host has filled the statuses of the requests.
                Ok(nth) if code != SUCCESS => unsafe { host_status_state(statuses, nth, code) },
                _ => State::Complete,
            };
            if state == State::Pending || name.handle == constants().null_request {
                continue;
            }
            if all.ours.contains(&name.handle) {
                if code != SUCCESS && !keeps && all.names.len() > 1 && is_left(name) {
                    continue;
                }
                ours.push(name.handle);
                continue;
            }
            if state == State::Failed {
                // The clock of a message that was not sent or received remains.
                unfinished::lose_clocks();
            }
            found.push((entries_of(&in_flight(), name).first().copied(), nth, name));
        }
        if !ours.is_empty() {
            untold::tell(ours, keeps);
        }
        // Receives take their messages in the order in which they were posted.
        found.sort_by_key(|one| one.0);
        for (place, nth, name) in found {
            match place {
                Some(_) => finish(&job, name, (statuses, nth), keeps),
                // Its entry was finished together with another request of the same handle.
                None if shared().contains(&name.handle) => {}
                // A request that the checker does not know, such as a request of MPI-IO.
                None => drop(job.checker_learns_all()),
            }
        }
    }
}

/// Whether a call on several requests has left a request as it was: the host may refuse all of them
/// for the arguments of the call.
fn is_left(name: Name) -> bool {
    // SAFETY: the address is that of a request of the call, which has not returned to the program.
    unsafe { *std::ptr::with_exposed_provenance::<RequestHandle>(name.at) == name.handle }
}

/// Finishes the entries of a complete request.
fn finish(job: &Job, name: Name, status: (*mut c_void, usize), keeps: bool) {
    let mut all = in_flight();
    // From the last entry on, because finished entries are removed.
    for place in entries_of(&all, name).into_iter().rev() {
        finish_entry(job, &mut all, place, status, keeps);
    }
    unfinished::sweep(&mut all);
}

/// Returns the buffers of an entry and learns its clocks. Removes the entry, unless its request
/// remains.
fn finish_entry(job: &Job, all: &mut Vec<Entry>, place: usize, (statuses, nth): (*mut c_void, usize), keeps: bool) {
    if !std::mem::replace(&mut all[place].is_active, false) {
        if !keeps && all[place].again.is_none() {
            all.remove(place);
        }
        return;
    }
    let (learns, borrowed) = (all[place].learns.clone(), all[place].borrowed.take());
    if let Some(message) = &mut all[place].partitioned {
        message.ends(job);
    }
    let buffers = borrowed.map_or(Vec::new(), |borrowed| borrowed.returns(job));
    // SAFETY: the host has filled the statuses of the requests that are complete.
    let is_cancelled = |nth| unsafe { host_status_is_cancelled(statuses, nth) } != 0;
    let has_no_message = all[place].is_cancelled && c_int::try_from(nth).is_ok_and(is_cancelled);
    let learned = match &learns {
        Learns::Send(_) => Ok(()),
        _ if has_no_message => Ok(()),
        Learns::Synchronous((rank, tag, group)) => job.checker_was_received(*rank, *tag, *group),
        Learns::Any => job.checker_learns_all(),
        Learns::Duplicate { out, number, group, turn, ranks } => {
            // SAFETY: the program keeps the variable until the request is complete, as MPI demands.
            unsafe { host_edges_number_copy(std::ptr::with_exposed_provenance(*out), *number) };
            if *turn == 0 { job.checker_learns_all() } else { job.checker_has_met(ranks, *group, *turn) }
        }
        Learns::Collective { group, turn, ranks } => job.checker_has_met(ranks, *group, *turn),
        Learns::Receive(receive) => match envelope(receive, statuses, nth) {
            Some((rank, tag)) => {
                let by = all[place].posting;
                unfinished::receives(job, all, by, (rank, tag, receive.group), true);
                Ok(())
            }
            None => job.checker_learns_all(),
        },
    };
    // Fails only without the other ranks' memory, which a job with the checker has.
    drop(learned);
    if !has_no_message {
        accesses::record_buffers_of_call(&buffers, true);
    }
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
