//! Small operations that share messages, over nets on which the target's CPU performs them anyway:
//! all operations over sockets (`Limits::gathers`), accumulates over verbs (`Limits::combines`). An
//! operation is *kept* while operations to its target are in flight, or if others will probably
//! follow: a put or accumulate with its data, a get with its buffer. Every call that waits or polls
//! sends the kept operations, with two exceptions. Operations are kept longer if their message can
//! also end the epoch ([`Towards::closes`]). A flush posts a single kept put or get, except on
//! dynamic windows. The kept accumulates for a target have one sequence number, and are therefore
//! sent before the next ordered request to the target.

mod part;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use transom_fabric::{Fault, Peer, Post, Tally, TallyRef};

use super::carried::Carried;
use super::codec::{CLOSING_OVERHEAD, End, Request};
use super::{Messages, ReplyDestination, Waiting, locked};
use crate::buffers::Sink;
use crate::datatype::Strip;
use crate::reduce::{BasicType, Op};
pub(crate) use part::What;
use part::{Part, Size};

/// Maximum length of a message in bytes, where the net takes longer ones: the target begins later
/// with a longer message.
const MOST: usize = 16640;

/// Maximum number of kept messages: one of puts, one of gets and one of accumulates for each
/// target. Their buffers take some MiB at most.
const MAX_KEPT_MESSAGES: usize = 128;

/// The number of operations for which a new message allocates memory.
const USUAL: usize = 64;

/// An operation that may share a message.
#[derive(Clone, Copy)]
pub(crate) enum Small<'a> {
    Put(&'a [u8]),
    Get(&'a Sink),
    Combine(Combined<'a>),
    Blocks(Blocks<'a>),
}

/// A small operation on several blocks of the target, or with several at the origin.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) what: What,
    /// The blocks in the target's part.
    pub(crate) strips: &'a [Strip],
    /// The data of a put or accumulate, without gaps.
    pub(crate) data: &'a [u8],
    /// The destinations of a result, one after another.
    pub(crate) into: &'a [Sink],
}

/// A small accumulate of contiguous elements.
#[derive(Clone, Copy)]
pub(crate) struct Combined<'a> {
    pub(crate) op: Op,
    pub(crate) ty: BasicType,
    /// The operands; empty for `MPI_NO_OP`.
    pub(crate) from: &'a [u8],
    /// The destination of the previous values.
    pub(crate) into: Option<&'a Sink>,
    /// Bytes at the target.
    pub(crate) len: usize,
}

/// Kept operations that are contiguous at the target: one put or get performs all of them.
#[derive(Debug)]
pub(crate) enum Run<'a> {
    Put(&'a [u8]),
    Get(&'a [Sink]),
}

/// The target of an operation: its rank in the job, the window, and its rank there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Towards {
    pub(crate) peer: Peer,
    pub(crate) window: u64,
    pub(crate) member: usize,
    /// Whether each operation may be refused alone, as on a dynamic window. Each operation then has
    /// its own strip, or its own [`Part`] if it gets data, and none has a request.
    pub(crate) apart: bool,
    /// Whether the operations may be sent with the end of the epoch ([`Messages::close`]).
    /// Unless one of them has a request, they are kept until then, or until a call waits for them.
    /// While they are kept, the tallies count them as puts ([`Tally::only_puts`]).
    pub(crate) closes: bool,
}

/// The tallies that count an operation: the target's, and that of the operation's request if it has
/// one.
#[derive(Clone, Copy)]
pub(crate) struct Counting<'t> {
    pub(crate) target: &'t TallyRef,
    pub(crate) request: Option<&'t TallyRef>,
}

/// The outcome of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// The operation is kept, and its tallies count it.
    Kept,
    /// The message is full and must be sent first.
    Full,
    /// The operation must be posted separately, because [`MAX_KEPT_MESSAGES`] messages are kept
    /// already.
    Refused,
}

/// The outcome of [`Messages::close`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// The kept operations are sent with the end of the epoch.
    Sent,
    /// No operation is kept.
    Nothing,
    /// The kept operations must be sent before the end of the epoch.
    Apart,
}

/// The kept operations.
#[derive(Default)]
pub(super) struct Gathering {
    /// Whether an operation is kept.
    holds: AtomicBool,
    kept: Mutex<KeptMessages>,
}

#[derive(Default)]
struct KeptMessages {
    list: Vec<KeptMessage>,
    /// The index of the message that was found last, with which the next search begins: programs
    /// often operate on the same target again, or on all targets in turn.
    last: usize,
}

/// Kept puts, or gets, or accumulates, for one target of one window.
struct KeptMessage {
    to: Towards,
    /// The sequence number of a message of accumulates; 0 for puts and gets.
    order: u64,
    /// The kind of the first operation.
    what: What,
    /// One, except for accumulates that differ in operation or type, and for operations that get
    /// data where each stays apart ([`Towards::apart`]).
    parts: Vec<Part>,
    size: Size,
    /// The target's tally, which counts the message as one operation.
    tally: TallyRef,
    /// The requests among the operations. Each counts its own operation.
    requests: Vec<TallyRef>,
    /// Whether each operation has a request.
    all_requested: bool,
}

impl Small<'_> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Small::Put(bytes) => bytes.len(),
            Small::Get(into) => into.len(),
            Small::Combine(it) => it.len,
            Small::Blocks(it) => it.data.len().max(it.result_len()),
        }
    }

    #[inline]
    fn what(&self) -> What {
        match self {
            Small::Put(_) => What::Put,
            Small::Get(_) => What::Get,
            Small::Combine(Combined { op, ty, into, .. }) => What::Combine { op: *op, ty: *ty, fetch: into.is_some() },
            Small::Blocks(it) => it.what,
        }
    }

    #[inline]
    fn data(&self) -> &[u8] {
        match self {
            Small::Put(bytes) => bytes,
            Small::Get(_) => &[],
            Small::Combine(it) => it.from,
            Small::Blocks(it) => it.data,
        }
    }

    /// The destination of the result, if it is one.
    #[inline]
    fn result(&self) -> Option<&Sink> {
        match self {
            Small::Put(_) | Small::Blocks(_) => None,
            Small::Get(into) => Some(into),
            Small::Combine(it) => it.into,
        }
    }

    /// Whether the operation gets data.
    #[inline]
    pub(crate) fn gets(&self) -> bool {
        match self {
            Small::Blocks(it) => !it.into.is_empty(),
            _ => self.result().is_some(),
        }
    }
}

impl Blocks<'_> {
    fn result_len(&self) -> usize {
        self.into.iter().map(Sink::len).sum()
    }
}

impl KeptMessage {
    /// Whether the message has operations of this kind and tally.
    #[inline]
    fn takes(&self, small: &Small<'_>, tally: &TallyRef) -> bool {
        std::ptr::eq(&raw const *self.tally, &raw const **tally) && self.what.takes(small.what())
    }

    /// Counts an operation of the message in the tally of its request until the message is
    /// complete.
    #[inline]
    fn count(&mut self, request: Option<&TallyRef>) {
        let Some(request) = request else {
            self.all_requested = false;
            return;
        };
        request.begin();
        // A notice may follow a posted put without a wait, but not a kept operation.
        request.mix();
        self.requests.push(request.clone());
    }

    /// Adds an operation unless request or reply would then exceed `most` bytes.
    #[inline]
    fn add(&mut self, at: i64, small: &Small<'_>, most: usize) -> bool {
        // Puts, the most frequent operations, have one `Part`. The compiler drops other kinds here.
        if let Small::Put(bytes) = small
            && !self.to.apart
            && let Some(part) = self.parts.first_mut()
        {
            return part.push(at, &Small::Put(bytes), &mut self.size, most, false);
        }
        self.add_to_last(at, small, most)
    }

    fn add_to_last(&mut self, at: i64, small: &Small<'_>, most: usize) -> bool {
        let apart = self.to.apart;
        let push = |part: &mut Part, size: &mut Size| match small {
            // On windows where each operation may be refused alone, its blocks would be separate.
            Small::Blocks(_) if apart => false,
            Small::Blocks(blocks) => part.push_blocks(blocks, size, most),
            _ => part.push(at, small, size, most, apart),
        };
        let begins = self.parts.last().is_none_or(|last| last.what != small.what() || apart && small.gets());
        if !begins {
            return self.parts.last_mut().is_some_and(|last| push(last, &mut self.size));
        }
        let mut size = self.size.with_part(self.parts.len());
        let usual = if self.parts.is_empty() && !(apart && small.gets()) { USUAL } else { 1 };
        let mut part = Part::new(small, usual);
        let fits = push(&mut part, &mut size);
        if fits {
            self.size = size;
            self.parts.push(part);
        }
        fits
    }

    /// Whether the operations are kept for the message that ends the epoch.
    fn awaits_end(&self) -> bool {
        self.to.closes && self.requests.is_empty()
    }

    /// Whether an operation gets data.
    fn gets(&self) -> bool {
        self.parts.iter().any(|part| !part.buffers.is_empty())
    }

    /// The offset and the operations, if the net may perform them: they are contiguous in the
    /// target's part, and have no requests.
    fn run(&self) -> Option<(u64, Run<'_>)> {
        if self.to.apart || !self.requests.is_empty() {
            return None;
        }
        let [Part { what, strips, data, buffers }] = &self.parts[..] else { return None };
        let [strip @ Strip { count: 1, .. }] = &strips[..] else { return None };
        let run = match what {
            What::Put => Run::Put(data),
            What::Get => Run::Get(buffers),
            What::Combine { .. } => return None,
        };
        Some((strip.offset.cast_unsigned(), run))
    }

    fn into_request(self) -> (Request<'static>, Waiting) {
        let apart = self.to.apart;
        let (mut parts, mut destinations): (Vec<_>, Vec<_>) =
            self.parts.into_iter().map(|part| part.into_request(apart)).unzip();
        let (request, into) = match (parts.pop(), destinations.pop()) {
            (Some(request), Some(into)) if parts.is_empty() => (request, into),
            (last, into) => {
                parts.extend(last);
                destinations.extend(into);
                (Request::Several { parts }, ReplyDestination::Carried(Arc::new(Carried::new(destinations))))
            }
        };
        let KeptMessage { to, tally, requests, all_requested, .. } = self;
        (request, Waiting { from: to.peer, into, tally, requests, all_requested, is_counted: true })
    }
}

impl Messages {
    /// Keeps an operation at offset `at` of the target's part, which the tallies of `counting`
    /// count. `most` is the maximum length of a message; `order` gives the number of a new message
    /// of accumulates.
    pub(crate) fn gather(
        &self,
        to: Towards,
        at: u64,
        small: &Small<'_>,
        most: usize,
        counting: Counting<'_>,
        order: impl FnOnce() -> u64,
    ) -> Gather {
        let at = at.cast_signed();
        let mut kept = locked(&self.gathering.kept);
        if let Some(message) = kept.find(|message| message.takes(small, counting.target)) {
            if !message.add(at, small, most) {
                return Gather::Full;
            }
            message.count(counting.request);
            counting.target.follow(true);
            return Gather::Kept;
        }
        let (what, parts, tally, requests) = (small.what(), Vec::new(), counting.target.clone(), Vec::new());
        let size = Size::EMPTY;
        let mut message = KeptMessage { to, order: 0, what, parts, size, tally, requests, all_requested: true };
        // Messages that are kept for the end of an epoch leave room for others.
        let room = if to.closes { MAX_KEPT_MESSAGES / 2 } else { MAX_KEPT_MESSAGES };
        if kept.list.len() >= room || !message.add(at, small, most) {
            return Gather::Refused;
        }
        if matches!(message.what, What::Combine { .. }) {
            message.order = order();
        }
        message.tally.follow(!message.tally.idle());
        // Each call that waits for the tally sends the message.
        message.tally.begin();
        if !to.closes {
            message.tally.mix();
        }
        message.count(counting.request);
        kept.list.push(message);
        // Relaxed: the thread that waits for the operation began it, or the program orders the two
        // threads.
        self.gathering.holds.store(true, Ordering::Relaxed);
        Gather::Kept
    }

    /// Passes the kept operations as messages to [`Messages::send_deferred`], except those that are
    /// kept for the end of the epoch ([`Towards::closes`]).
    #[inline]
    pub(crate) fn end_gathering(&self) {
        self.end_gathering_of(|message| !message.awaits_end());
    }

    /// [`Messages::end_gathering`] of all operations that `tally` counts, because a call waits for
    /// them.
    #[inline]
    pub(crate) fn end_gathering_in(&self, tally: &Tally) {
        self.end_gathering_of(|message| message.tally.is_within(tally));
    }

    #[inline]
    fn end_gathering_of(&self, wanted: impl Fn(&KeptMessage) -> bool) {
        // Relaxed: as in `gather`.
        if self.gathering.holds.load(Ordering::Relaxed) {
            self.defer_gathered(wanted);
        }
    }

    #[cold]
    fn defer_gathered(&self, wanted: impl Fn(&KeptMessage) -> bool) {
        for message in self.take_gathered(wanted) {
            self.defer_message(message);
        }
    }

    fn defer_message(&self, message: KeptMessage) {
        let peer = message.to.peer;
        let (token, bytes) = self.requested_message(message);
        self.defer(peer, bytes, Some(token));
    }

    fn requested_message(&self, message: KeptMessage) -> (u64, Vec<u8>) {
        let (window, order) = (message.to.window, message.order);
        let (request, waiting) = message.into_request();
        self.counted(window, order, &request, waiting)
    }

    /// Whether operations are kept that `tally`, a target's, counts.
    pub(crate) fn keeps_for(&self, tally: &Tally) -> bool {
        // Relaxed: as in `gather`.
        self.gathering.holds.load(Ordering::Relaxed)
            && locked(&self.gathering.kept).list.iter().any(|message| message.tally.is_within(tally))
    }

    /// Sends the kept operations that `tally`, a target's, counts, together with the end of the
    /// epoch, in a message of at most `most` bytes; only if nothing else that is in flight to the
    /// target may arrive after the message. `ordered`: messages arrive after earlier puts. With
    /// [`End::Completed`] the tally counts the message no longer, unless the answer brings data or
    /// may be a refusal.
    pub(crate) fn close(&self, tally: &Tally, end: End, most: usize, ordered: bool) -> Close {
        // Acquire: pairs with `Gathering::take`. If another thread has taken the operations, the
        // tally shows it.
        if !self.gathering.holds.load(Ordering::Acquire) {
            return Close::Nothing;
        }
        let taken = {
            let mut kept = locked(&self.gathering.kept);
            let mut those = kept.list.iter().filter(|message| message.tally.is_within(tally));
            let Some(message) = those.next() else { return Close::Nothing };
            let arrives_last = tally.outstanding() == 1 || (ordered && tally.only_puts());
            // Later signals follow the signal of a fence, and their receivers may access what an
            // operation stores at this rank.
            let stores_here = matches!(end, End::Signal { .. }) && message.gets();
            if !(message.awaits_end()
                && !stores_here
                && message.size.request + CLOSING_OVERHEAD <= most
                && those.next().is_none()
                && arrives_last)
            {
                return Close::Apart;
            }
            self.gathering.take(&mut kept, |message| message.tally.is_within(tally))
        };
        for message in taken {
            let (Towards { peer, window, .. }, order) = (message.to, message.order);
            let is_news = message.gets() || message.to.apart || matches!(end, End::Signal { .. });
            let (operations, mut waiting) = message.into_request();
            if !is_news {
                waiting.await_no_more();
            }
            let request = Request::Closing { operations: Box::new(operations), end };
            let (token, bytes) = self.counted(window, order, &request, waiting);
            self.defer(peer, self.closing_behind_answers(peer, bytes, most), Some(token));
        }
        Close::Sent
    }

    /// Returns the next sequence number to a target, from `order`, and passes the requests of the
    /// accumulates that are kept for the target to `send`, with their tokens. Both happen under one
    /// lock: an accumulate that another thread keeps afterwards has a later number.
    pub(crate) fn number(
        &self,
        (peer, window): (Peer, u64),
        order: impl FnOnce() -> u64,
        mut send: impl FnMut(u64, &[u8]),
    ) -> u64 {
        let combines = |message: &KeptMessage| matches!(message.what, What::Combine { .. });
        let wanted =
            |message: &KeptMessage| message.to.peer == peer && message.to.window == window && combines(message);
        let (number, taken) = {
            let mut kept = locked(&self.gathering.kept);
            (order(), self.gathering.take(&mut kept, wanted))
        };
        for message in taken {
            let (token, bytes) = self.requested_message(message);
            send(token, &bytes);
        }
        number
    }

    /// Passes kept operations of the window to `post`, with the target's rank in the window and the
    /// offset: those that have remained alone, and those that are contiguous with all others of
    /// their kind and target. If `post` answers `Again`, the operation becomes a request.
    pub(crate) fn post_runs(&self, window: u64, post: impl Fn(usize, u64, Run<'_>, &TallyRef) -> Post) {
        // Relaxed: as in `gather`.
        if !self.gathering.holds.load(Ordering::Relaxed) {
            return;
        }
        for message in self.take_gathered(|message| message.to.window == window && message.run().is_some()) {
            let posted =
                message.run().map_or(Post::Again, |(at, run)| post(message.to.member, at, run, &message.tally));
            match posted {
                // The post is counted, so the tally does not become idle before it is complete.
                Post::Done | Post::Pending => message.tally.finish(),
                Post::Broken(fault) => message.tally.fail(&fault),
                Post::Again => self.defer_message(message),
            }
        }
    }

    /// Fails the kept operations for a peer that died. Returns whether there were any.
    pub(super) fn give_up_gathered(&self, fault: &Fault) -> bool {
        let lost = self.take_gathered(|message| message.to.peer == fault.peer);
        let any = !lost.is_empty();
        for message in lost {
            message.into_request().1.end_failed(|tally| tally.fail(fault));
        }
        any
    }

    fn take_gathered(&self, wanted: impl Fn(&KeptMessage) -> bool) -> Vec<KeptMessage> {
        let mut kept = locked(&self.gathering.kept);
        self.gathering.take(&mut kept, wanted)
    }
}

impl KeptMessages {
    /// A message for which `is_it`.
    #[inline]
    fn find(&mut self, is_it: impl Fn(&KeptMessage) -> bool) -> Option<&mut KeptMessage> {
        if !self.list.get(self.last).is_some_and(&is_it) {
            self.last = self.search(is_it)?;
        }
        self.list.get_mut(self.last)
    }

    /// The index of a message for which `is_it`. The search begins after the message that was found
    /// last.
    #[inline(never)]
    fn search(&self, is_it: impl Fn(&KeptMessage) -> bool) -> Option<usize> {
        let (earlier, later) = self.list.split_at((self.last + 1).min(self.list.len()));
        let found = later.iter().position(&is_it).map(|index| earlier.len() + index);
        found.or_else(|| earlier.iter().position(is_it))
    }
}

impl Gathering {
    /// Takes operations out of the locked list. They are no longer counted as puts.
    fn take(&self, kept: &mut KeptMessages, wanted: impl Fn(&KeptMessage) -> bool) -> Vec<KeptMessage> {
        let taken: Vec<_> = kept.list.extract_if(.., |message| wanted(message)).collect();
        taken.iter().for_each(|message| message.tally.mix());
        // Release: pairs with the load in `close`. The lock is held, so the flag misses no later
        // message.
        self.holds.store(!kept.list.is_empty(), Ordering::Release);
        taken
    }
}

#[cfg(test)]
mod tests;
