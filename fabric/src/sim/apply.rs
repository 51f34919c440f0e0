//! The origin's buffers, and the port whose unsafe calls pass them in. No other file of the
//! simulator accesses these buffers: the net gets values with safe methods.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::domain::SimRemote;
use super::flight::{Source, Work};
use super::net::{SimNet, Step};
use crate::{
    Amo, AmoKind, Awaited, Coherence, FabricError, Fault, Handler, Immediate, Limits, Memory, Peer, Port, Post, Reason,
    RegionKey, Span, TallyRef, Width,
};

/// The content of a get's buffer until the data arrives.
const GARBAGE: u8 = 0xA5;

/// The longest wait for a net and a descriptor, which the net does not watch.
const BESIDE: Duration = Duration::from_millis(1);

/// The buffers that an origin has lent until the operation completes, one after another.
#[derive(Debug)]
pub(super) struct Lent(Vec<Span>);

impl Lent {
    /// # Safety
    /// Until the operation to which the spans are lent is complete, they are readable, also
    /// writable where they are written, and not otherwise used. The net drops the operation, and
    /// this value with it, before it lowers the tally.
    unsafe fn new(spans: &[Span]) -> Lent {
        Lent(spans.to_vec())
    }

    fn len(&self) -> usize {
        self.0.iter().map(|span| span.len()).sum()
    }

    /// The parts of the spans that hold the `len` bytes at `at`, each with its offset in these
    /// bytes.
    fn pieces(&self, at: usize, len: usize) -> Vec<(Span, usize)> {
        assert!(at + len <= self.len(), "{len} bytes at {at} of a lent buffer of {}", self.len());
        let (mut skip, mut done, mut pieces) = (at, 0, Vec::new());
        for span in &self.0 {
            let begin = skip.min(span.len());
            skip -= begin;
            let piece = span.slice(begin, (span.len() - begin).min(len - done)).unwrap_or(Span::EMPTY);
            pieces.push((piece, done));
            done += piece.len();
        }
        pieces
    }

    /// The bytes at the time of the call.
    pub(super) fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        for (piece, done) in self.pieces(range.start, range.len()) {
            let to = &mut bytes[done..done + piece.len()];
            // SAFETY: the piece is inside a span, which is readable (`new`); the target is in a
            // fresh vector.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to.as_mut_ptr(), to.len()) };
        }
        bytes
    }

    /// Stores `bytes` at `at`.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        for (piece, done) in self.pieces(at, bytes.len()) {
            let from = &bytes[done..done + piece.len()];
            // SAFETY: the piece is inside a span, which is writable and not otherwise used (`new`),
            // so `bytes` does not overlap it.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), piece.as_ptr(), from.len()) };
        }
    }

    /// Stores an atomic's old value, if the origin has requested it.
    pub(super) fn write_value(&self, value: u64, width: Width) {
        if self.len() == 0 {
            return;
        }
        match width {
            Width::W64 => self.write(0, &value.to_ne_bytes()),
            Width::W32 => {
                let value = u32::try_from(width.truncate(value)).unwrap_or_default();
                self.write(0, &value.to_ne_bytes());
            }
        }
    }

    /// Overwrites the buffer with garbage, as an operation in flight may.
    pub(super) fn spoil(&self) {
        self.write(0, &vec![GARBAGE; self.len()]);
    }
}

/// The port of a rank of the simulated net. Lengths above the limits, misaligned atomics and
/// atomics that the region lacks are the caller's mistakes: they panic.
#[derive(Debug)]
pub struct SimPort {
    pub(super) net: Arc<SimNet>,
    pub(super) me: Peer,
    pub(super) limits: Limits,
    /// Read-locked by the threads that take events and pass them to a handler.
    pub(super) handling: RwLock<()>,
}

impl SimPort {
    /// A step of progress, for a caller that awaits completions or not; returns the number of
    /// events.
    fn advance(&self, handler: &impl Handler, awaited: bool) -> Result<usize, FabricError> {
        let Step { completed, messages, immediates } = self.net.advance(self.me, awaited)?;
        for message in &messages {
            handler.message(message.from, &message.bytes);
        }
        for &(from, immediate) in &immediates {
            handler.immediate(from, immediate);
        }
        Ok(completed + messages.len() + immediates.len())
    }
}

/// Panics if a length exceeds a limit.
fn within(what: &str, len: usize, limit: usize) {
    assert!(len <= limit, "{what} of {len} bytes, the limit is {limit}");
}

/// The length of all parts together.
fn together(parts: &[Span]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

impl SimPort {
    /// The number of bytes of a list, which must keep the limits.
    fn listed(&self, what: &str, parts: &[Span]) -> usize {
        assert!(
            parts.len() <= self.limits.list_max,
            "{what} of {} parts; at most {}",
            parts.len(),
            self.limits.list_max
        );
        let len = together(parts);
        within(what, len, self.limits.transfer_max);
        len
    }
}

impl Port for SimPort {
    type Remote = SimRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.net.address(self.me)
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        self.net.connect(self.me, peer, address)
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<SimRemote, FabricError> {
        self.net.import(self.me, peer, key)
    }

    fn direct<'r>(&self, _remote: &'r SimRemote) -> Option<&'r Memory> {
        None
    }

    fn amo_on(&self, _remote: &SimRemote, kind: AmoKind, width: Width) -> Option<Coherence> {
        self.net.options().amo.coherence(kind, width)
    }

    fn put_inline(&self, to: &SimRemote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post {
        within("an inline put", bytes.len(), self.limits.inline_max);
        let work = || Work::Put(Source::Copied(bytes.to_vec()), None);
        self.net.post(self.me, to, offset, bytes.len(), work, tally)
    }

    fn put_packed(
        &self,
        to: &SimRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post {
        within("a packed put", len, self.limits.packed_max);
        let mut bytes = vec![GARBAGE; len];
        // `fill` is also called for a post that is refused, which discards the bytes.
        fill(&mut bytes);
        self.net.post(self.me, to, offset, len, || Work::Put(Source::Copied(bytes), None), tally)
    }

    fn put_immediate(&self, to: &SimRemote, offset: u64, bytes: &[u8], immediate: Immediate, tally: &TallyRef) -> Post {
        if !self.limits.immediates.fit(immediate) {
            return Post::Broken(Box::new(Fault::new(to.peer, Reason::NoImmediates)));
        }
        within("a put with an immediate", bytes.len(), self.limits.packed_max);
        let work = || Work::Put(Source::Copied(bytes.to_vec()), Some(immediate));
        self.net.post(self.me, to, offset, bytes.len(), work, tally)
    }

    unsafe fn put(&self, to: &SimRemote, offset: u64, from: Span, tally: &TallyRef) -> Post {
        within("a put", from.len(), self.limits.transfer_max);
        // SAFETY: the caller promises that `from` is readable until the tally is idle; a put only
        // reads it.
        let work = || Work::Put(Source::Lent(unsafe { Lent::new(&[from]) }), None);
        self.net.post(self.me, to, offset, from.len(), work, tally)
    }

    unsafe fn get(&self, from: &SimRemote, offset: u64, into: Span, tally: &TallyRef) -> Post {
        within("a get", into.len(), self.limits.transfer_max);
        // SAFETY: the caller promises that `into` is writable and not otherwise used until the
        // tally is idle.
        let work = || Work::Get(unsafe { Lent::new(&[into]) });
        self.net.post(self.me, from, offset, into.len(), work, tally)
    }

    unsafe fn put_list(&self, to: &SimRemote, offset: u64, from: &[Span], tally: &TallyRef) -> Post {
        let len = self.listed("a put of a list", from);
        // SAFETY: the caller promises that `from` is readable until the tally is idle; a put only
        // reads it.
        let work = || Work::Put(Source::Lent(unsafe { Lent::new(from) }), None);
        self.net.post(self.me, to, offset, len, work, tally)
    }

    unsafe fn get_list(&self, from: &SimRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        let len = self.listed("a get into a list", into);
        // SAFETY: the caller promises that `into` is writable and not otherwise used until the
        // tally is idle.
        let work = || Work::Get(unsafe { Lent::new(into) });
        self.net.post(self.me, from, offset, len, work, tally)
    }

    unsafe fn get_scattered(&self, from: &SimRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        let len = together(into);
        within("a scattered get", len, self.limits.packed_max);
        // SAFETY: the caller promises that `into` is writable and not otherwise used until the
        // tally is idle.
        let work = || Work::Get(unsafe { Lent::new(into) });
        self.net.post(self.me, from, offset, len, work, tally)
    }

    unsafe fn amo(&self, on: &SimRemote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post {
        let width = amo.width.bytes();
        let Some(coherence) = self.amo_on(on, amo.kind, amo.width) else {
            panic!("{:?} on {:?}, which amo_on denies", amo.kind, amo.width);
        };
        assert!(into.is_empty() || into.len() == width, "a result of {} bytes for an atomic of {width}", into.len());
        // SAFETY: the caller promises that `into` is writable and not otherwise used until the
        // tally is idle.
        let work = || Work::Amo(amo, coherence, unsafe { Lent::new(&[into]) });
        self.net.post(self.me, on, offset, width, work, tally)
    }

    fn release(&self, _to: &SimRemote) {
        self.net.release(self.me);
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        within("a message", message.len(), self.limits.message_max);
        self.net.send(self.me, to, message)
    }

    fn lost(&self) -> Option<Fault> {
        self.net.lost(self.me)
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        let _handling = self.handling.read().unwrap_or_else(PoisonError::into_inner);
        self.advance(handler, true)
    }

    fn progress_arrivals(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        let _handling = self.handling.read().unwrap_or_else(PoisonError::into_inner);
        self.advance(handler, false)
    }

    fn settle(&self, handler: &impl Handler) -> Result<(), FabricError> {
        // Other threads have passed the events that they had taken to their handlers.
        let _alone = self.handling.write().unwrap_or_else(PoisonError::into_inner);
        self.advance(handler, false).map(drop)
    }

    fn wait(&self, limit: Duration) {
        self.net.wait(self.me, limit, Awaited::Arrivals, || true);
    }

    /// The net does not watch the descriptor, so the wait with a descriptor is short, and its
    /// result is always true.
    fn wait_with_descriptor(
        &self,
        limit: Duration,
        awaited: Awaited,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        let limit = if other.is_some() { limit.min(BESIDE) } else { limit };
        self.net.count_wait(self.me);
        self.net.wait(self.me, limit, awaited, still_idle) || other.is_some()
    }

    fn wake(&self) {
        self.net.wake(self.me);
    }
}
