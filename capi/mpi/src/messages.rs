//! The conflict checker's (`TRANSOM_CHECK`) record of the host's messages and requests: the
//! receives and collective calls in progress, and their buffers. `host/edges.c` reports each call
//! that begins one, and `requests` each that completes one.

mod watch;

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Job;

use crate::accesses;
use crate::borrowed::{Borrowed, Buffer};
use crate::channels::Channel;
use crate::edges;
use crate::host::{RequestHandle, SUCCESS, Type, constants};
use crate::process::{self, Process};
use crate::types;
pub(crate) use watch::{Done, Watch};

/// The most pieces of a buffer that are distinguished.
const PIECES: usize = 1 << 12;

/// The bit by which the number of a group's persistent calls differs from the group's.
const KEPT: u64 = 1 << 63;

/// The requests under way, in the order in which they began.
static UNDER_WAY: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

thread_local! {
    /// The buffers of the call that this thread makes.
    static LENT: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
    /// The same, of a call that has begun and will have a request.
    static BEGUN: RefCell<Option<Borrowed>> = const { RefCell::new(None) };
}

/// A request of the host, as a call names it. Hosts give one handle to several requests that are
/// complete from the start, such as those of short sends; the program's variables distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    handle: RequestHandle,
    /// The address of the variable.
    at: usize,
}

/// A request of the host.
struct Entry {
    name: Name,
    what: What,
    /// Buffers of a call that can be started again.
    again: Option<Vec<Buffer>>,
    is_active: bool,
    borrowed: Option<Borrowed>,
    /// A message in partitions.
    channel: Option<Channel>,
}

/// The clocks that a rank merges when a request is complete.
#[derive(Clone, Debug)]
enum What {
    /// No clock of another rank. With a stream: each start sends a message of this stream.
    Send(Option<(usize, c_int, u64)>),
    /// The clock with which the receiver began to receive this message.
    Synchronous((usize, c_int, u64)),
    Receive(Receive),
    /// The clocks with which these ranks entered a collective call.
    Collective {
        group: u64,
        turn: u64,
        ranks: Vec<usize>,
    },
    /// As `Collective`; without a turn, the clocks that all ranks have released. The communicator
    /// that the call has stored in `out` gets the number.
    Duplicate {
        out: usize,
        number: u64,
        group: u64,
        turn: u64,
        ranks: Vec<usize>,
    },
    /// The clocks that all ranks have released.
    Any,
}

/// A receive: from a rank of the job, or from one of `sources`; with a tag, or with any.
#[derive(Clone, Debug)]
struct Receive {
    source: Option<usize>,
    /// The ranks of the communicator, where the source is any of them.
    sources: Vec<usize>,
    tag: Option<c_int>,
    group: u64,
}

impl What {
    /// Whether a request that waits for this may be complete from the start.
    fn may_be_shared(&self) -> bool {
        matches!(self, What::Send(_) | What::Synchronous(_) | What::Collective { .. })
    }
}

impl Receive {
    fn may_match(&self, rank: usize, tag: c_int, group: u64) -> bool {
        self.group == group
            && self.source.is_none_or(|source| source == rank)
            && self.tag.is_none_or(|its_tag| its_tag == tag)
    }

    fn is_named(&self) -> bool {
        self.source.is_some() && self.tag.is_some()
    }
}

fn under_way() -> MutexGuard<'static, Vec<Entry>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn job() -> Option<Job> {
    process::get().and_then(Process::job)
}

fn rank_of(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Handles that several requests had at the same time: they are of complete requests.
static SHARED: Mutex<Vec<RequestHandle>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<RequestHandle>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entries of a request: its own if the variable distinguishes it, otherwise all that have its
/// handle. The program may have copied its variable.
fn entries_of(all: &[Entry], name: Name) -> Vec<usize> {
    let those = |is: &dyn Fn(&Entry) -> bool| -> Vec<usize> {
        all.iter().enumerate().filter(|(_, entry)| is(entry)).map(|(place, _)| place).collect()
    };
    let own = those(&|entry| entry.name == name);
    if own.len() == 1 { own } else { those(&|entry| entry.name.handle == name.handle) }
}

/// How many messages of a stream the receives of `earlier` take; `None` if that is not known.
fn ahead<'e>(earlier: impl Iterator<Item = &'e Entry>, rank: usize, tag: c_int, group: u64) -> Option<usize> {
    let mut ahead = 0;
    for entry in earlier.filter(|entry| entry.is_active) {
        match &entry.what {
            What::Receive(receive) if receive.may_match(rank, tag, group) => {
                if !receive.is_named() {
                    return None;
                }
                ahead += 1;
            }
            _ => {}
        }
    }
    Some(ahead)
}

/// Adds a buffer of the call that this thread makes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_lends(address: *const c_void, count: i64, ty: Type, written: c_int) {
    if !job().is_some_and(|job| job.checker_watches()) {
        return;
    }
    let count = usize::try_from(count).unwrap_or(0);
    let Ok(decoded) = types::find(ty) else { return };
    let pieces = match decoded.dense {
        0 => decoded.bytes.pieces_at(address.addr(), count),
        size => vec![(address.addr(), size * count)],
    };
    let buffers = pieces.into_iter().filter(|piece| piece.1 > 0).take(PIECES).map(|(at, len)| (at, len, written != 0));
    // A thread that ends keeps none.
    let _ = LENT.try_with(|lent| lent.borrow_mut().extend(buffers));
}

/// The call uses its buffers until it returns.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_uses() {
    let _ = LENT.try_with(|lent| {
        accesses::read(&lent.borrow());
        uses(&lent.borrow());
    });
}

/// The call has returned. The uses are reported to ThreadSanitizer again: it remembers the last
/// access to a byte, and suppresses reports on accesses of the host's libraries, which came in
/// between.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_used() {
    uses(&lent());
}

/// Takes the buffers of the call that this thread makes.
fn lent() -> Vec<Buffer> {
    LENT.try_with(RefCell::take).unwrap_or_default()
}

fn uses(buffers: &[Buffer]) {
    if let Some(job) = job().filter(|_| !buffers.is_empty()) {
        job.checker_uses(buffers);
    }
}

/// The call uses its buffers until its request is complete.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_begins() {
    let lent = lent();
    let Some(job) = job() else { return };
    // A call that failed has left the earlier ones.
    let begun = Borrowed::of(&job, lent);
    if let Ok(Some(earlier)) = BEGUN.try_with(|place| place.replace(begun)) {
        earlier.returns(&job);
    }
}

/// A request has begun; one that can be started again, if `persistent` is set.
fn requested(name: Name, what: What, persistent: bool) {
    let (again, borrowed) =
        if persistent { (Some(lent()), None) } else { (None, BEGUN.try_with(RefCell::take).unwrap_or_default()) };
    let mut all = under_way();
    let others = entries_of(&all, Name { at: 0, ..name });
    if !persistent && what.may_be_shared() && others.iter().all(|&place| all[place].what.may_be_shared()) {
        let mut shared = shared();
        if !others.is_empty() && !shared.contains(&name.handle) {
            shared.push(name.handle);
        }
    } else {
        // A call that the library does not see has ended the variable's request. The host may also
        // have given the handle of a request again whose wait in another thread has not returned.
        let ended = |all: &[Entry], place: usize| name.at == 0 || all[place].name.at == name.at;
        others.into_iter().rev().for_each(|place| {
            if ended(&all, place) {
                forget(&mut all, place);
            }
        });
    }
    all.push(Entry { name, what, again, is_active: !persistent, borrowed, channel: None });
}

/// The program has no request for this any more.
fn forget(all: &mut Vec<Entry>, place: usize) {
    if let (Some(borrowed), Some(job)) = (all.remove(place).borrowed, job()) {
        borrowed.returns(&job);
    }
}

/// The program frees a request. When its operation ends is not known then, so its buffers count as
/// returned. A receive still takes a message of its stream, so its entry stays, without a name.
///
/// # Safety
/// The request is readable, or its address is null.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_frees(request: *const RequestHandle) {
    if request.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    let name = unsafe { name_of(request) };
    let mut all = under_way();
    for place in entries_of(&all, name).into_iter().rev() {
        let entry = &mut all[place];
        if !entry.is_active || !matches!(entry.what, What::Receive(_)) {
            forget(&mut all, place);
            continue;
        }
        entry.name = Name { handle: constants().null_request, at: 0 };
        if let (Some(borrowed), Some(job)) = (entry.borrowed.take(), job()) {
            borrowed.returns(&job);
        }
    }
}

/// A request by its variable.
///
/// # Safety
/// The request is readable.
unsafe fn name_of(request: *const RequestHandle) -> Name {
    // SAFETY: as the caller says.
    Name { handle: unsafe { *request }, at: request.addr() }
}

/// The program has a request of this library that is complete from the start and orders no ranks,
/// if `code` is that of a success. Returns the code.
///
/// # Safety
/// The request is readable.
pub(crate) unsafe fn made_complete(code: c_int, request: *const RequestHandle) -> c_int {
    if code == SUCCESS && edges::is_on() {
        // SAFETY: as the caller says.
        requested(unsafe { name_of(request) }, What::Send(None), false);
    }
    code
}

/// A message in partitions has a request, which can be started again.
pub(crate) fn made_partitioned(handle: RequestHandle, channel: Option<Channel>, is_known: bool) {
    requested(Name { handle, at: 0 }, if is_known { What::Send(None) } else { What::Any }, true);
    if let Some(entry) = under_way().iter_mut().find(|entry| entry.name.handle == handle) {
        entry.channel = channel;
    }
}

/// Calls `with` for a message in partitions; returns whether the request is one.
pub(crate) fn with_channel(handle: RequestHandle, with: impl FnOnce(&mut Channel)) -> bool {
    let mut all = under_way();
    let found = all.iter_mut().find(|entry| entry.name.handle == handle).and_then(|entry| entry.channel.as_mut());
    found.map(with).is_some()
}

/// A request of a send has begun, or of a call that takes no message.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_sends(request: *const RequestHandle) {
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, What::Send(None), false);
}

/// A call has begun a request, and the checker does not know for which ranks the request waits.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_waits_for_any(request: *const RequestHandle) {
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, What::Any, false);
}

/// A communicator is being copied to `out`, and will have that number. The copy is the call `turn`
/// of the group, in which the ranks `from` meet; 0 if they are not known.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_duplicates(
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
    requested(name, What::Duplicate { out: out.expose_provenance(), number, group, turn, ranks }, false);
}

// SAFETY: the declaration is that of host/edges.c.
unsafe extern "C" {
    fn host_edges_duplicated(out: *const c_void, number: u64);
}

/// The peer of a message to `MPI_PROC_NULL`, or from it.
const NOBODY: c_int = -2;

fn what_of(stream: Option<(usize, c_int, u64)>, waits: bool) -> What {
    match stream {
        Some(stream) if waits => What::Synchronous(stream),
        None => What::Any,
        stream => What::Send(stream),
    }
}

/// A request of a synchronous send has begun. `group` is 0 if it is not known.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_sends_synchronously(
    request: *const RequestHandle,
    rank: c_int,
    tag: c_int,
    group: u64,
) {
    // SAFETY: as the caller says.
    requested(
        unsafe { name_of(request) },
        what_of((group != 0 && rank >= 0).then(|| (rank_of(rank), tag, group)), true),
        false,
    );
}

/// A synchronous send is over.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_was_received(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_was_received(rank_of(rank), tag, group));
    }
}

/// This rank begins to receive a message. `rank` or `tag` is negative for any, `group` is 0 if none
/// of it is known.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_begins_to_receive(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        let matching = (usize::try_from(rank).ok(), (tag >= 0).then_some(tag), group);
        job.checker_begins_to_receive((group != 0).then_some(matching));
    }
}

/// A send that can be started again.
///
/// # Safety
/// The request is readable.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_send_made(
    request: *const RequestHandle,
    rank: c_int,
    tag: c_int,
    group: u64,
    waits: c_int,
) {
    let stream = (group != 0 && rank >= 0).then(|| (rank_of(rank), tag, group));
    let what = if rank == NOBODY { What::Send(None) } else { what_of(stream, waits != 0) };
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, what, true);
}

/// A receive has begun; one that can be started again, if `persistent` is not 0. `rank` or `tag` is
/// negative for any. `sources` are the ranks of the communicator.
///
/// # Safety
/// The request is readable, and there are `size` sources.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_posts(
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
    let what = if group == 0 { What::Any } else { What::Receive(receive) };
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, what, persistent != 0);
}

/// # Safety
/// There are `size` numbers.
unsafe fn ranks(numbers: *const c_int, size: c_int) -> Vec<usize> {
    if numbers.is_null() || size <= 0 {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(numbers, rank_of(size)) }.iter().map(|&rank| rank_of(rank)).collect()
}

/// A collective call has begun, after which this rank has the clocks with which the ranks `from`
/// entered the call.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_meets(
    request: *const RequestHandle,
    group: u64,
    turn: u64,
    from: *const c_int,
    size: c_int,
) {
    // SAFETY: as the caller says.
    let ranks = unsafe { ranks(from, size) };
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, What::Collective { group, turn, ranks }, false);
}

/// A collective call that can be started again, the `call`th of its group. When the call is
/// complete, this rank knows what the ranks `from` knew when they started their calls. `group` is 0
/// if it is not known.
///
/// # Safety
/// The request is readable, and there are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_kept(
    request: *const RequestHandle,
    group: u64,
    call: u64,
    from: *const c_int,
    size: c_int,
) {
    // SAFETY: as the caller says.
    let ranks = unsafe { ranks(from, size) };
    let what = match group {
        0 => What::Any,
        _ => What::Collective { group: group | KEPT, turn: call << u32::BITS, ranks },
    };
    // SAFETY: as the caller says.
    requested(unsafe { name_of(request) }, what, true);
}

/// A collective call is over, after which this rank has the clocks with which the ranks `from`
/// entered the call.
///
/// # Safety
/// There are `size` ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_met(group: u64, turn: u64, from: *const c_int, size: c_int) {
    if let Some(job) = job() {
        // SAFETY: as the caller says.
        let ranks = unsafe { ranks(from, size) };
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_has_met(&ranks, group, turn));
    }
}

/// This rank enters a collective call.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_enters(group: u64, turn: u64) {
    if let Some(job) = job() {
        job.checker_enters(group, turn);
    }
}

/// Starts a request again, before the host does.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_starts(handle: RequestHandle) {
    let Some(job) = job() else { return };
    let mut all = under_way();
    let Some(place) = all.iter().position(|entry| entry.name.handle == handle) else { return };
    let mut entry = all.remove(place);
    entry.is_active = true;
    entry.borrowed = entry.again.clone().and_then(|buffers| Borrowed::of(&job, buffers));
    if let Some(channel) = &mut entry.channel {
        channel.starts(&job);
    }
    match &mut entry.what {
        What::Collective { group, turn, .. } => {
            *turn += 1;
            job.checker_enters(*group, *turn);
        }
        What::Send(Some((rank, tag, group))) | What::Synchronous((rank, tag, group)) => {
            job.checker_sends(*rank, *tag, *group);
        }
        What::Receive(receive) => {
            job.checker_begins_to_receive(Some((receive.source, receive.tag, receive.group)));
        }
        _ => {}
    }
    all.push(entry);
}

/// Counts a release that goes with a message to a rank.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_sent(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        job.checker_sends(rank_of(rank), tag, group);
    }
}

/// Merges the clock of a message of a rank, which was received or only probed.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_received(rank: c_int, tag: c_int, group: u64, takes: c_int) {
    if let Some(job) = job() {
        let ahead = ahead(under_way().iter(), rank_of(rank), tag, group);
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_receives(rank_of(rank), (tag, group), ahead, takes != 0));
    }
}
