//! The host's requests in flight, for the conflict checker (`TRANSOM_CHECK`). Each request has an
//! [`Entry`]: the buffers that the host uses until the request is complete, and the clocks that
//! this rank then learns, such as the clock of a received message. `host/edges.c` reports each call
//! that makes a request, and each message without a request. `requests` reports the calls that
//! complete requests, by a [`Watch`].

mod learns;
mod partitioned_message;
mod posting;
mod sends;
mod unfinished;
mod watch;

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Job;

use crate::accesses;
use crate::borrowed::{Borrowed, Buffer};
use crate::edges;
use crate::host::{RequestHandle, SUCCESS, Type, constants};
use crate::process::{self, Process};
use crate::types;
use learns::{Learns, Receive, Stream};
pub(crate) use partitioned_message::PartitionedMessage;
use posting::Posting;
pub(crate) use watch::{Done, Handles, Watch};

/// Maximum number of contiguous pieces of a buffer that the checker records.
const PIECES: usize = 1 << 12;

/// Bit that distinguishes the persistent collective calls of a communicator from its other calls.
const PERSISTENT_CALLS: u64 = 1 << 63;

/// The requests in the order in which they began: requests in flight, and all persistent requests.
static IN_FLIGHT: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

thread_local! {
    /// The buffers of the call that this thread is about to make.
    static LENT: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
    /// The buffers of a nonblocking call that this thread makes, before its request is known.
    static BEGUN: RefCell<Option<Borrowed>> = const { RefCell::new(None) };
}

/// Identifies a request. Hosts give one handle to several requests that are complete from the
/// start, such as those of short sends. The variables in which the program keeps the handle
/// distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    handle: RequestHandle,
    /// The address of the program's variable; 0 if it is unknown.
    at: usize,
}

/// A request of the host.
struct Entry {
    name: Name,
    learns: Learns,
    /// The buffers of a persistent request, which each start uses.
    again: Option<Vec<Buffer>>,
    is_active: bool,
    /// Whether the program has cancelled the request, which may take a message nevertheless.
    is_cancelled: bool,
    /// Whether the program has freed the request, whose receive still takes a message.
    is_freed: bool,
    posting: Posting,
    borrowed: Option<Borrowed>,
    partitioned: Option<PartitionedMessage>,
}

impl Entry {
    /// An active request without a name and without buffers.
    fn new(learns: Learns) -> Entry {
        let name = Name { handle: constants().null_request, at: 0 };
        let (is_active, is_cancelled, is_freed) = (true, false, false);
        let (again, borrowed, partitioned) = (None, None, None);
        Entry { name, learns, again, is_active, is_cancelled, is_freed, posting: Posting::now(), borrowed, partitioned }
    }
}

fn in_flight() -> MutexGuard<'static, Vec<Entry>> {
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn job() -> Option<Job> {
    process::get().and_then(Process::job)
}

fn rank_of(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Handles that several requests had at the same time. These requests were complete from the start.
static SHARED: Mutex<Vec<RequestHandle>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<RequestHandle>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The places of a request's entry: one, if the variable distinguishes the request. Otherwise, for
/// example because the program has copied its variable, all entries with the same handle.
fn entries_of(all: &[Entry], name: Name) -> Vec<usize> {
    let those = |is: &dyn Fn(&Entry) -> bool| -> Vec<usize> {
        all.iter().enumerate().filter(|(_, entry)| is(entry)).map(|(place, _)| place).collect()
    };
    let own = those(&|entry| entry.name == name);
    if own.len() == 1 { own } else { those(&|entry| entry.name.handle == name.handle) }
}

/// Adds a buffer to the call that this thread is about to make.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_adds_buffer(address: *const c_void, count: i64, ty: Type, written: c_int) {
    if !job().is_some_and(|job| job.checker_watches()) {
        return;
    }
    let count = usize::try_from(count).unwrap_or(0);
    let Ok(decoded) = types::find(ty) else { return };
    let pieces = match decoded.size_if_contiguous {
        0 => decoded.bytes.pieces_at(address.addr(), count),
        size => vec![(address.addr(), size * count)],
    };
    let buffers = pieces.into_iter().filter(|piece| piece.1 > 0).take(PIECES).map(|(at, len)| (at, len, written != 0));
    // A thread that ends keeps none.
    let _ = LENT.try_with(|lent| lent.borrow_mut().extend(buffers));
}

/// A blocking call begins. It may read its buffers at once. It writes buffers when its messages
/// have arrived, and those order the writes: see [`transom_edge_call_returned`].
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_blocking_call_begins() {
    let read = LENT.try_with(|lent| lent.borrow().iter().filter(|buffer| !buffer.2).copied().collect());
    let read: Vec<_> = read.unwrap_or_default();
    accesses::record_buffers_of_call(&read, false);
    uses(&read);
}

/// The host's call has returned. Reports the reads to ThreadSanitizer again, before this rank
/// learns: ThreadSanitizer remembers only the last access to a byte, which may be the host's, and
/// reports on accesses of the host are suppressed.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_call_has_read() {
    let read = LENT.try_with(|lent| {
        let (written, read) = lent.take().into_iter().partition(|buffer| buffer.2);
        lent.replace(written);
        read
    });
    uses(&read.unwrap_or_default());
}

/// The call has written only so many bytes of its buffers.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_has_written(bytes: c_int) {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    // A thread that ends keeps none.
    let _ = LENT.try_with(|lent| {
        lent.borrow_mut().retain_mut(|buffer| {
            buffer.1 = buffer.1.min(left);
            left -= buffer.1;
            buffer.1 > 0
        });
    });
}

/// The call has returned, and this rank has learned the clocks of the call's messages. Reports the
/// writes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_call_returned() {
    let lent = lent();
    accesses::record_buffers_of_call(&lent, true);
    uses(&lent);
}

/// Takes the buffers of this thread's call.
fn lent() -> Vec<Buffer> {
    LENT.try_with(RefCell::take).unwrap_or_default()
}

fn uses(buffers: &[Buffer]) {
    if let Some(job) = job().filter(|_| !buffers.is_empty()) {
        job.checker_uses(buffers);
    }
}

/// A nonblocking call begins, which uses its buffers until its request is complete.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_nonblocking_call_begins() {
    let lent = lent();
    let Some(job) = job() else { return };
    // An earlier call that failed has left its buffers.
    let begun = Borrowed::of(&job, lent);
    if let Ok(Some(earlier)) = BEGUN.try_with(|place| place.replace(begun)) {
        earlier.returns(&job);
    }
}

/// Adds the entry of a new request.
fn add_request(name: Name, learns: Learns, persistent: bool) {
    let (again, borrowed) =
        if persistent { (Some(lent()), None) } else { (None, BEGUN.try_with(RefCell::take).unwrap_or_default()) };
    let mut all = in_flight();
    let others = entries_of(&all, Name { at: 0, ..name });
    if !persistent
        && learns.may_complete_at_once()
        && others.iter().all(|&place| all[place].learns.may_complete_at_once())
    {
        let mut shared = shared();
        if !others.is_empty() && !shared.contains(&name.handle) {
            shared.push(name.handle);
        }
    } else {
        // Old entries are left if a call that the library does not see has completed the variable's
        // request, or if the host has reused the handle of a request whose wait in another thread
        // has not returned yet.
        let ended = |all: &[Entry], place: usize| name.at == 0 || all[place].name.at == name.at;
        others.into_iter().rev().for_each(|place| {
            if ended(&all, place) {
                forget(&mut all, place);
            }
        });
    }
    let (place, posting) = match learns {
        Learns::Receive(_) if !persistent => posting::take(&mut all),
        _ => None,
    }
    .unwrap_or_else(|| (all.len(), Posting::now()));
    let entry = Entry { name, again, is_active: !persistent, posting, borrowed, ..Entry::new(learns) };
    all.insert(place, entry);
}

/// Removes an entry whose request no longer exists.
fn forget(all: &mut Vec<Entry>, place: usize) {
    if let (Some(borrowed), Some(job)) = (all.remove(place).borrowed, job()) {
        borrowed.returns(&job);
    }
}

/// The name of the request in a variable.
///
/// # Safety
/// The request is readable.
unsafe fn name_of(request: *const RequestHandle) -> Name {
    // SAFETY: as the caller says.
    Name { handle: unsafe { *request }, at: request.addr() }
}

/// If `code` is success, adds a request of this library that is complete from the start and teaches
/// no clock. Returns the code.
///
/// # Safety
/// The request is readable.
pub(crate) unsafe fn add_complete(code: c_int, request: *const RequestHandle) -> c_int {
    if code == SUCCESS && edges::is_on() {
        // SAFETY: as the caller says.
        add_request(unsafe { name_of(request) }, Learns::Send(None), false);
    }
    code
}

/// Adds the persistent request of a partitioned message. `is_known`: the checker knows the peer, or
/// the peer is `MPI_PROC_NULL`.
pub(crate) fn add_partitioned(handle: RequestHandle, message: Option<PartitionedMessage>, is_known: bool) {
    add_request(Name { handle, at: 0 }, if is_known { Learns::Send(None) } else { Learns::Any }, true);
    if let Some(entry) = in_flight().iter_mut().find(|entry| entry.name.handle == handle) {
        entry.partitioned = message;
    }
}

/// Calls `with` if the request is that of a partitioned message. Returns whether it is.
pub(crate) fn with_partitioned(handle: RequestHandle, with: impl FnOnce(&mut PartitionedMessage)) -> bool {
    let mut all = in_flight();
    let found = all.iter_mut().find(|entry| entry.name.handle == handle).and_then(|entry| entry.partitioned.as_mut());
    found.map(with).is_some()
}

/// Adds the request of a call that receives no message, such as a send.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_learns_nothing(request: *const RequestHandle) {
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, Learns::Send(None), false);
}

/// Adds a request that waits for unknown ranks.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_learns_all(request: *const RequestHandle) {
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, Learns::Any, false);
}

/// Adds the request of `MPI_Comm_idup`. The copy, which the call stores at `out`, will have the
/// number `number`. The call is number `turn` of the communicator and waits for the ranks `from`;
/// `turn` is 0 if these are unknown.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_duplicate(
    request: *const RequestHandle,
    out: *const c_void,
    number: u64,
    group: u64,
    turn: u64,
    from: *const c_int,
    size: c_int,
) {
    // SAFETY: as the caller says.
    let (name, ranks) = unsafe { (name_of(request), ranks(from, size)) };
    add_request(name, Learns::Duplicate { out: out.expose_provenance(), number, group, turn, ranks }, false);
}

// SAFETY: the declaration is that of host/communicators.c.
unsafe extern "C" {
    fn host_edges_number_copy(out: *const c_void, number: u64);
}

/// The peer of a message to or from `MPI_PROC_NULL`.
const NO_PEER: c_int = -2;

/// What a send with a request teaches. `waits`: the send is synchronous.
fn learned_of_send(stream: Option<Stream>, waits: bool) -> Learns {
    match stream {
        Some(stream) if waits => Learns::Synchronous(stream),
        None => Learns::Any,
        stream => Learns::Send(stream),
    }
}

/// Adds the request of a synchronous send. `group` is 0 if the communicator has no number.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_synchronous_send(
    request: *const RequestHandle,
    rank: c_int,
    tag: c_int,
    group: u64,
) {
    // SAFETY: as the caller says.
    add_request(
        unsafe { name_of(request) },
        learned_of_send((group != 0 && rank >= 0).then(|| (rank_of(rank), tag, group)), true),
        false,
    );
}

/// A blocking synchronous send has returned. This rank learns the clock with which the receive
/// began.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_synchronous_send_ends(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_was_received(rank_of(rank), tag, group));
    }
}

/// This rank begins to receive a message. A negative `rank` or `tag` means any. `group` is 0 if
/// source, tag and communicator are unknown.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_receive_begins(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        let matching = (usize::try_from(rank).ok(), (tag >= 0).then_some(tag), group);
        job.checker_begins_to_receive((group != 0).then_some(matching));
    }
}

/// This thread begins a call that may take a message. A negative `rank` or `tag` means any.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_receive_is_posted(rank: c_int, tag: c_int, group: u64) {
    let (source, tag) = (usize::try_from(rank).ok(), (tag >= 0).then_some(tag));
    posting::begins(Receive { source, sources: Vec::new(), tag, group });
}

/// The call of [`transom_edge_receive_is_posted`] is over.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_receive_was_posted() {
    posting::ends();
}

/// Adds the request of a persistent send.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_persistent_send(
    request: *const RequestHandle,
    rank: c_int,
    tag: c_int,
    group: u64,
    waits: c_int,
) {
    let stream = (group != 0 && rank >= 0).then(|| (rank_of(rank), tag, group));
    let learns = if rank == NO_PEER { Learns::Send(None) } else { learned_of_send(stream, waits != 0) };
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, learns, true);
}

/// Adds the request of a receive, which may be persistent. A negative `rank` or `tag` means any.
/// `sources` are the ranks of the communicator.
///
/// # Safety
/// The request is readable, and there are `size` sources.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_receive(
    request: *const RequestHandle,
    rank: c_int,
    tag: c_int,
    group: u64,
    sources: *const c_int,
    size: c_int,
    persistent: c_int,
) {
    // SAFETY: as the caller says.
    let sources = unsafe { ranks(sources, if rank < 0 { size } else { 0 }) };
    let source = usize::try_from(rank).ok();
    let receive = Receive { source, sources, tag: (tag >= 0).then_some(tag), group };
    let learns = if group == 0 { Learns::Any } else { Learns::Receive(receive) };
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, learns, persistent != 0);
}

/// Ranks from an array of C.
///
/// # Safety
/// There are `size` numbers.
unsafe fn ranks(numbers: *const c_int, size: c_int) -> Vec<usize> {
    if numbers.is_null() || size <= 0 {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(numbers, rank_of(size)) }.iter().map(|&rank| rank_of(rank)).collect()
}

/// Adds the request of a collective call: number `turn` of its communicator, which waits for the
/// ranks `from`. At its end this rank learns the clocks with which these ranks entered the call.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_collective(
    request: *const RequestHandle,
    group: u64,
    turn: u64,
    from: *const c_int,
    size: c_int,
) {
    // SAFETY: as the caller says.
    let ranks = unsafe { ranks(from, size) };
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, Learns::Collective { group, turn, ranks }, false);
}

/// Adds the request of a persistent collective call, number `call` of its communicator. At its end
/// this rank learns the clocks that the ranks `from` had when they started their requests. `group`
/// is 0 if the communicator has no number.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_of_persistent_collective(
    request: *const RequestHandle,
    group: u64,
    call: u64,
    from: *const c_int,
    size: c_int,
) {
    // SAFETY: as the caller says.
    let ranks = unsafe { ranks(from, size) };
    let learns = match group {
        0 => Learns::Any,
        _ => Learns::Collective { group: group | PERSISTENT_CALLS, turn: call << u32::BITS, ranks },
    };
    // SAFETY: as the caller says.
    add_request(unsafe { name_of(request) }, learns, true);
}

/// A blocking collective call has ended. This rank learns the clocks with which the ranks `from`
/// entered the call.
///
/// # Safety
/// There are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_collective_ends(group: u64, turn: u64, from: *const c_int, size: c_int) {
    if let Some(job) = job() {
        // SAFETY: as the caller says.
        let ranks = unsafe { ranks(from, size) };
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_has_met(&ranks, group, turn));
    }
}

/// This rank enters a collective call: publishes its clock for the others.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_collective_begins(group: u64, turn: u64) {
    if let Some(job) = job() {
        job.checker_enters(group, turn);
    }
}

/// The program is about to start a persistent request.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_request_starts(handle: RequestHandle) {
    let Some(job) = job() else { return };
    let mut all = in_flight();
    let Some(place) = all.iter().position(|entry| entry.name.handle == handle) else { return };
    let mut entry = all.remove(place);
    (entry.is_active, entry.is_cancelled, entry.posting) = (true, false, Posting::starts());
    entry.borrowed = entry.again.clone().and_then(|buffers| Borrowed::of(&job, buffers));
    if let Some(message) = &mut entry.partitioned {
        message.starts(&job);
    }
    match &mut entry.learns {
        Learns::Collective { group, turn, .. } => {
            *turn += 1;
            job.checker_enters(*group, *turn);
        }
        Learns::Send(Some(stream)) | Learns::Synchronous(stream) => sends::begins(&job, *stream),
        Learns::Receive(receive) => {
            job.checker_begins_to_receive(Some((receive.source, receive.tag, receive.group)));
        }
        _ => {}
    }
    all.push(entry);
}

/// Learns the clock of a message, which was received or, if `takes` is 0, only probed.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_message_received(rank: c_int, tag: c_int, group: u64, takes: c_int) {
    if let Some(job) = job() {
        let (mut all, stream) = (in_flight(), (rank_of(rank), tag, group));
        unfinished::receives(&job, &mut all, posting::of_this_thread(), stream, takes != 0);
        unfinished::sweep(&mut all);
    }
}
