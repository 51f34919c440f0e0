//! The target's side of a window: its memory, and the execution of requests on it. Requests run the
//! code that origins on mapped memory run (`memory`), so that both are atomic with each other. This
//! module sends nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::slice::from_ref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use transom_fabric::{Memory, Peer};

use super::codec::{PscwNotice, Request};
use super::keys::KeyHolder;
use super::staging::Piece;
use super::{carried, locked};
use crate::datatype::{Pieces, Strip, Strips, Walk};
use crate::error::Refusal;
use crate::memory::accumulate::{AtomicMemory, Operand, bytes_of};
use crate::memory::attached::Attached;
use crate::reduce::{BasicType, CompareSwap, Op};
use crate::sync::lock::{self, Tried};
use crate::sync::stripe::Visitor;
use crate::sync::words::{self, Words};
use crate::sync::{counters, pscw_words};

/// Most bytes that a request moves: more than fit any port's message.
const MOST: usize = 1 << 18;

/// Bytes of a staging area that are copied or combined at a time.
const CHUNK: usize = 4096;

/// The memory on which requests act.
#[derive(Debug)]
pub(crate) enum Space {
    /// A window's part, by offsets.
    Part(Memory),
    /// The regions attached to a dynamic window, by addresses.
    Attached(Arc<Attached>),
}

/// A window at this rank, as the target of requests.
#[derive(Debug)]
pub(crate) struct Exposed {
    pub(crate) space: Space,
    pub(crate) words: Memory,
    atomicity: Atomicity,
    /// Ordered requests, by origin.
    orders: Mutex<HashMap<Peer, Order>>,
    /// Posts by message. Posts from ranks of this node are in control words while slots are free.
    posts: Mutex<Posts>,
    /// The number of posts that have arrived as messages, so that a rank that waits for a post in a
    /// control word takes no lock.
    posts_by_message: AtomicU32,
    /// The number of completions that this rank has waited for.
    awaited: AtomicU64,
    /// The counters of notified operations.
    counters: OnceLock<Memory>,
    /// The keys of other ranks' regions, in a dynamic window that a net reaches.
    pub(super) keys: OnceLock<Arc<dyn KeyHolder>>,
}

/// Where a post has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    InWords,
    ByMessage,
}

/// Posts by message.
#[derive(Debug, Default)]
struct Posts {
    /// Posts that no operation or `complete` has consumed, by member.
    arrived: HashMap<u32, u32>,
    /// Posts that are consumed on arrival, by member.
    skipped: HashMap<u32, SkippedPosts>,
}

/// Posts of a member that have not arrived before their access epochs ended.
#[derive(Debug)]
struct SkippedPosts {
    /// The number of these epochs.
    epochs: u32,
    /// This rank's number in the window.
    own: u32,
}

/// The discipline that makes accumulates on the part atomic.
#[derive(Debug)]
pub(crate) struct Atomicity {
    /// This rank's job block, and the offset of the window's words in it.
    pub(crate) block: Memory,
    pub(crate) words_at: usize,
    pub(crate) visitor: Visitor,
    pub(crate) per_element: bool,
}

/// The ordered requests of one origin.
#[derive(Debug, Default)]
struct Order {
    /// The last executed request.
    done: u64,
    /// Requests that arrived before earlier ones in the order.
    early: BTreeMap<u64, Early>,
}

/// A request that arrived before an earlier one in the order.
#[derive(Debug)]
struct Early {
    token: u64,
    request: Request<'static>,
}

/// The memory of one block of a request: the whole memory, the block's offset in it, and the offset
/// from which stripes are counted.
struct Block {
    memory: Memory,
    at: usize,
    base: usize,
}

/// The block that was found last, at this address or offset: the next one is often in the same
/// region.
#[derive(Default)]
struct Near(Option<(i64, Block)>);

/// The sequence number after `order`: from 1 to 2^32, then from 1 again.
fn successor(order: u64) -> u64 {
    order % (1 << 32) + 1
}

#[cfg(test)]
impl Atomicity {
    /// For words that are in no job block.
    pub(super) fn of_words(words: &Memory, per_element: bool) -> Atomicity {
        Atomicity { block: words.clone(), words_at: 0, visitor: Visitor::NONE, per_element }
    }
}

impl Exposed {
    pub(crate) fn new(space: Space, words: Memory, atomicity: Atomicity) -> Exposed {
        let (orders, posts, posts_by_message, awaited) = Default::default();
        Exposed {
            space,
            words,
            atomicity,
            orders,
            posts,
            posts_by_message,
            awaited,
            counters: OnceLock::new(),
            keys: OnceLock::new(),
        }
    }

    /// Lets notified operations count in this memory.
    pub(crate) fn count_in(&self, counters: Memory) {
        // Set once, by the first `set_num_notify`.
        let _ = self.counters.set(counters);
    }

    /// Stores the data of a notified put, then adds one to its counter.
    fn notify(&self, index: u64, at: i64, data: &[u8]) -> Result<Vec<u8>, Refusal> {
        let counter = usize::try_from(index).unwrap_or(usize::MAX);
        let counters = self.counters.get().filter(|&memory| counter < counters::number(memory));
        let counters = counters.ok_or(Refusal::NoCounter { index })?;
        if !data.is_empty() {
            let block = self.block(at, data.len())?;
            block.memory.write(block.at, data);
        }
        counters::raise(counters, counter);
        Ok(Vec::new())
    }

    /// Accepts an ordered request. If it is the next one in the order, runs `execute` on it, and
    /// then on the requests that waited for it.
    pub(super) fn in_order(
        &self,
        from: Peer,
        order: u64,
        (token, request): (u64, Request<'_>),
        mut execute: impl FnMut(u64, &Request<'_>),
    ) {
        let mut orders = locked(&self.orders);
        let mine = orders.entry(from).or_default();
        if order != successor(mine.done) {
            mine.early.insert(order, Early { token, request: request.into_owned() });
            return;
        }
        execute(token, &request);
        mine.done = order;
        while let Some(Early { token, request }) = mine.early.remove(&successor(mine.done)) {
            execute(token, &request);
            mine.done = successor(mine.done);
        }
    }

    /// Records a notice of `member`. If it is a post whose access epoch has ended before
    /// ([`Exposed::skip_post`]), returns this rank's number in the window: the caller notifies the
    /// member that this rank has completed.
    pub(crate) fn notice(&self, member: u32, notice: PscwNotice) -> Option<u32> {
        if notice == PscwNotice::Completed {
            self.completed();
            return None;
        }
        let mut posts = locked(&self.posts);
        if let Some(skipped) = posts.skipped.get_mut(&member) {
            let own = skipped.own;
            skipped.epochs -= 1;
            if skipped.epochs == 0 {
                posts.skipped.remove(&member);
            }
            return Some(own);
        }
        *posts.arrived.entry(member).or_default() += 1;
        // Release: pairs with the Acquire in `take_post_by_message`.
        self.posts_by_message.fetch_add(1, Ordering::Release);
        None
    }

    /// Notes that an origin has completed its access epoch.
    pub(crate) fn completed(&self) {
        pscw_words::complete(Words::at(&self.words, 0));
    }

    /// Whether `member` has posted. A post by message is consumed by this call; a post in a control
    /// word is consumed later, by [`Exposed::take_post`], because the change of the word would
    /// delay the origin.
    #[inline]
    pub(crate) fn sees_post(&self, member: u32) -> Option<Posted> {
        match pscw_words::has_post(Words::at(&self.words, 0), member) {
            true => Some(Posted::InWords),
            false => self.take_post_by_message(member).then_some(Posted::ByMessage),
        }
    }

    /// Consumes the post of `member` whose access epoch ends although the wait for the post has
    /// failed. Returns whether the post had arrived. If not, [`Exposed::notice`] consumes it on
    /// arrival. Only then may the member get the notice that the epoch has ended: a target only
    /// counts such notices, so an earlier notice would end the epoch of another origin. `own`: this
    /// rank's number in the window.
    #[cold]
    pub(crate) fn skip_post(&self, member: u32, own: u32) -> bool {
        // No later post comes in a word, where nothing would report it.
        pscw_words::close_slots(Words::at(&self.words, 0));
        let mut posts = locked(&self.posts);
        if self.take_post(member) || self.take_arrived(&mut posts, member) {
            return true;
        }
        posts.skipped.entry(member).or_insert(SkippedPosts { epochs: 0, own }).epochs += 1;
        false
    }

    /// Consumes a post of `member` in a control word.
    pub(crate) fn take_post(&self, member: u32) -> bool {
        pscw_words::take_post(Words::at(&self.words, 0), member)
    }

    /// Consumes a post of `member` that came as a message; returns whether there was one.
    fn take_post_by_message(&self, member: u32) -> bool {
        // Acquire: pairs with the Release in `notice`.
        if self.posts_by_message.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.take_arrived(&mut locked(&self.posts), member)
    }

    fn take_arrived(&self, posts: &mut Posts, member: u32) -> bool {
        let Some(count) = posts.arrived.get_mut(&member) else { return false };
        // Relaxed: the lock orders the changes.
        self.posts_by_message.fetch_sub(1, Ordering::Relaxed);
        *count -= 1;
        if *count == 0 {
            posts.arrived.remove(&member);
        }
        true
    }

    /// Consumes `wanted` completions, if that many have arrived.
    #[inline]
    pub(crate) fn take_completions(&self, wanted: u32) -> bool {
        let arrived = pscw_words::completions(Words::at(&self.words, 0));
        // Another thread may have waited for later completions meanwhile.
        let left = |awaited: u64| arrived.saturating_sub(awaited);
        let taken = |awaited: u64| (left(awaited) >= wanted.into()).then(|| awaited + u64::from(wanted));
        // Relaxed: a count of this process. The load of `arrived` has acquired the origins' stores.
        self.awaited.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Executes a request and returns the bytes of the answer.
    ///
    /// # Errors
    /// The reason why it can't be executed; it then had no effect.
    pub(super) fn execute(&self, request: &Request<'_>) -> Result<Vec<u8>, Refusal> {
        match request {
            Request::Scatter { strips, data } => {
                self.each_block(strips, data.len(), |memory, at, _, part| memory.write(at, &data[part]))?;
                Ok(Vec::new())
            }
            Request::Notify { index, at, data } => self.notify(*index, *at, data),
            Request::Gather { strips } => {
                let len = bytes(strips)?;
                let mut data = vec![0; len];
                self.each_block(strips, len, |memory, at, _, part| memory.read(at, &mut data[part]))?;
                Ok(data)
            }
            Request::Combine { op, ty, fetch, strips, data } => self.combine(*op, *ty, *fetch, strips, data),
            Request::Swap { ty, at, expected, new } => {
                if ty.size() > size_of::<u64>() {
                    let (data, target) = (size_of::<u64>() as u64, ty.size() as u64);
                    return Err(Refusal::Lengths { data, target });
                }
                let block = self.block(i64::try_from(*at).unwrap_or(-1), ty.size())?;
                let values = CompareSwap { expected: *expected, new: *new };
                let old = self.atomic(&block.memory, block.base).swap_anywhere(block.at, *ty, values);
                Ok(bytes_of(&old.to_ne_bytes(), ty.size()).to_vec())
            }
            Request::SwapBytes { ty, at, data } => {
                let size = ty.size();
                let both = data.split_at_checked(size).filter(|(_, new)| new.len() == size);
                let (expected, new) = both.ok_or_else(|| lengths(data.len(), 2 * size))?;
                let block = self.block(i64::try_from(*at).unwrap_or(-1), size)?;
                let mut old = vec![0; size];
                self.atomic(&block.memory, block.base).swap_bytes(block.at, CompareSwap { expected, new }, &mut old);
                Ok(old)
            }
            Request::Control { at, amo } => {
                let last = self.words.len().checked_sub(8);
                let word = usize::try_from(*at).ok().filter(|&at| Some(at) <= last && at.is_multiple_of(8));
                let at = word.ok_or(Refusal::NoWord { at: *at })?;
                Ok(self.words.amo(at, *amo).to_ne_bytes().to_vec())
            }
            Request::Check { strips } => {
                strips.iter().try_for_each(|strip| self.check(strip))?;
                Ok(Vec::new())
            }
            Request::Regions { from, most } => {
                let Space::Attached(attached) = &self.space else {
                    return Err(Refusal::NoRegions);
                };
                let (regions, more) = attached.list(*from, usize::try_from(*most).unwrap_or(usize::MAX));
                let words = regions.iter().flat_map(|region| region.to_words());
                let count = (regions.len() + usize::from(more)) as u64;
                Ok(std::iter::once(count).chain(words).flat_map(u64::to_ne_bytes).collect())
            }
            Request::Carry { exclusive, release, parts } => Ok(self.carry(*exclusive, *release, parts)),
            // `messages` executes these requests, because they concern their sender.
            Request::Stage | Request::Staged { .. } | Request::Copy { .. } => Err(Refusal::NoArea),
            Request::Key { .. } | Request::Withdraw { .. } => Err(Refusal::NoRegions),
            Request::Each(request) => self.each_strip(request),
            Request::Several { parts } => Ok(carried::answer(parts.iter().map(|part| self.execute(part)))),
            // `messages` ends the epoch.
            Request::Closing { operations, .. } => self.execute(operations),
        }
    }

    /// Performs a scatter or a combine strip by strip, and returns the first refusal.
    fn each_strip(&self, request: &Request<'_>) -> Result<Vec<u8>, Refusal> {
        let (strips, all) = match request {
            Request::Scatter { strips, data } | Request::Combine { strips, data, .. } => (strips, data),
            _ => return self.execute(request),
        };
        let (len, mut done, mut outcome, mut near) = (bytes(strips)?, 0, Ok(()), Near::default());
        if all.len() != len && !all.is_empty() {
            return Err(lengths(all.len(), len));
        }
        for strip in strips.iter() {
            // `MPI_NO_OP` has no data.
            let end = if all.is_empty() { 0 } else { done + strip.block * strip.count };
            let (data, strips) = (&all[done..end], from_ref(strip).into());
            let one = match *request {
                Request::Combine { op, ty, fetch, .. } => {
                    self.execute(&Request::Combine { op, ty, fetch, strips, data: data.into() }).map(drop)
                }
                _ if strip.count == 1 => near.write(self, strip.offset, data),
                _ => self.execute(&Request::Scatter { strips, data: data.into() }).map(drop),
            };
            outcome = outcome.and(one);
            done = end;
        }
        outcome.map(|()| Vec::new())
    }

    /// Performs operations under the window's lock. Takes the lock only if it is free, because the
    /// execution of a request never waits.
    fn carry(&self, exclusive: bool, release: bool, parts: &[Request<'_>]) -> Vec<u8> {
        let word = Words::at(&self.words, 0).word64(words::LOCK);
        let tried = if exclusive { lock::try_biased(word) } else { lock::try_shared(word) };
        if tried != Tried::Taken {
            return carried::refused(tried);
        }
        let answer = carried::answer(parts.iter().map(|part| self.execute(part)));
        if release {
            lock::tried_end(word, exclusive);
        }
        answer
    }

    /// Combines elements with operands in a staging area, which the peer may write at any time.
    pub(super) fn combine_staged(
        &self,
        (op, ty): (Op, BasicType),
        fetch: bool,
        piece: &Piece,
        area: &Memory,
    ) -> Result<Vec<u8>, Refusal> {
        if !op.allows(ty) {
            return Err(Refusal::Undefined { op, ty });
        }
        let (operands, len) = staged_bytes(area, piece)?;
        if !len.is_multiple_of(ty.size()) {
            return Err(Refusal::NotWhole { length: piece.len, ty });
        }
        let block = self.block_of(piece)?;
        let atomic = self.atomic(&block.memory, block.base);
        if !fetch && atomic.combine_in_memory(block.at, op, ty, &operands) {
            return Ok(Vec::new());
        }
        let mut chunk = [0; CHUNK];
        for done in (0..len).step_by(CHUNK / ty.size() * ty.size()) {
            let chunk = &mut chunk[..(CHUNK / ty.size() * ty.size()).min(len - done)];
            operands.read(done, chunk);
            let operand = if op == Op::NoOp { Operand::Nothing(chunk.len()) } else { Operand::Bytes(chunk) };
            let mut old = |at: usize, bytes: &[u8]| operands.write(done + at, bytes);
            atomic.many(block.at + done, op, ty, operand, if fetch { Some(&mut old) } else { None });
        }
        Ok(Vec::new())
    }

    /// Copies bytes from a staging area, or to the area if `fetch`.
    pub(super) fn copy_staged(&self, fetch: bool, piece: &Piece, area: &Memory) -> Result<Vec<u8>, Refusal> {
        let (staged, len) = staged_bytes(area, piece)?;
        let Block { memory, at, .. } = self.block_of(piece)?;
        let mut chunk = [0; CHUNK];
        for done in (0..len).step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(len - done)];
            if fetch {
                memory.read(at + done, chunk);
                staged.write(done, chunk);
            } else {
                staged.read(done, chunk);
                memory.write(at + done, chunk);
            }
        }
        Ok(Vec::new())
    }

    fn combine(&self, op: Op, ty: BasicType, fetch: bool, strips: &[Strip], data: &[u8]) -> Result<Vec<u8>, Refusal> {
        let len = bytes(strips)?;
        if !op.allows(ty) {
            return Err(Refusal::Undefined { op, ty });
        }
        if data.len() != len && !(data.is_empty() && matches!(op, Op::NoOp)) {
            return Err(lengths(data.len(), len));
        }
        if let Some(strip) = strips.iter().find(|strip| !strip.block.is_multiple_of(ty.size())) {
            return Err(Refusal::NotWhole { length: strip.block as u64, ty });
        }
        let mut before = Vec::with_capacity(if fetch { len } else { 0 });
        self.each_block(strips, len, |memory, at, base, part| {
            let operand = data.get(part.clone()).map_or(Operand::Nothing(part.len()), Operand::Bytes);
            let mut old = |_: usize, bytes: &[u8]| before.extend_from_slice(bytes);
            self.atomic(memory, base).many(at, op, ty, operand, if fetch { Some(&mut old) } else { None });
        })?;
        Ok(before)
    }

    /// The [`AtomicMemory`] for accumulates on a memory whose stripes are counted from `base`.
    fn atomic<'a>(&'a self, memory: &'a Memory, base: usize) -> AtomicMemory<'a> {
        let Atomicity { block: of_rank, words_at, visitor, per_element } = &self.atomicity;
        AtomicMemory { memory, words: Words::at(of_rank, *words_at), visitor, per_element: *per_element, base }
    }

    /// Calls `each` with the blocks of the strips: the memory, the offset in it, the offset from
    /// which stripes are counted, and the block's range within `len` bytes of data.
    ///
    /// # Errors
    /// A block does not exist; `each` was not called then.
    fn each_block(
        &self,
        strips: &[Strip],
        len: usize,
        mut each: impl FnMut(&Memory, usize, usize, Range<usize>),
    ) -> Result<(), Refusal> {
        let there = bytes(strips)?;
        if there != len {
            return Err(lengths(len, there));
        }
        if let [Strip { offset, count: 1, .. }] = *strips {
            let Block { memory, at, base } = self.block(offset, len)?;
            each(&memory, at, base, 0..len);
            return Ok(());
        }
        let sides = Walk::of([Pieces::of(Strips::of(strips)), Pieces::contiguous(len)]);
        if let Space::Part(memory) = &self.space {
            sides.clone().try_for_each(|([at, _], len)| inside(memory, at, len).map(drop))?;
            let mut sides = sides;
            return sides.try_for_each(|([at, done], len)| {
                each(memory, inside(memory, at, len)?, 0, range(done, len));
                Ok(())
            });
        }
        let blocks = sides.map(|([at, done], len)| Ok((self.block(at, len)?, range(done, len))));
        for (Block { memory, at, base }, part) in blocks.collect::<Result<Vec<_>, _>>()? {
            each(&memory, at, base, part);
        }
        Ok(())
    }

    /// Fails where the target does not have all bytes of a strip. Adjacent regions usually have
    /// everything between the first block and the last, so that one look-up suffices for a strip
    /// of any number of blocks.
    fn check(&self, strip: &Strip) -> Result<(), Refusal> {
        let (low, end) = strip.span();
        if usize::try_from(end.abs_diff(low)).is_ok_and(|len| self.block(low, len).is_ok()) {
            return Ok(());
        }
        Pieces::of(Strips::of(from_ref(strip))).try_for_each(|(at, len)| self.block(at, len).map(drop))
    }

    /// The memory of a staged piece, if the target has all bytes of the piece's operation: either
    /// all pieces of an operation are performed, or none.
    fn block_of(&self, piece: &Piece) -> Result<Block, Refusal> {
        let missing = Refusal::NotAttached { address: piece.at, length: piece.len };
        let size = |word: u64| usize::try_from(word).map_err(|_| missing);
        let (first, all) = piece.operation().ok_or(missing)?;
        let block = self.block(first.cast_signed(), size(all)?)?;
        Ok(Block { at: block.at + size(piece.before)?, ..block })
    }

    fn block(&self, at: i64, len: usize) -> Result<Block, Refusal> {
        match &self.space {
            Space::Part(memory) => Ok(Block { memory: memory.clone(), at: inside(memory, at, len)?, base: 0 }),
            Space::Attached(attached) => {
                let address = at.cast_unsigned();
                let missing = Refusal::NotAttached { address, length: len as u64 };
                let (memory, base) = attached.find(address, len).ok_or(missing)?;
                let inside = usize::try_from(address - base).map_err(|_| missing)?;
                Ok(Block { memory, at: inside, base: usize::try_from(base).map_err(|_| missing)? })
            }
        }
    }
}

impl Near {
    /// Stores the data of a put at one block.
    fn write(&mut self, of: &Exposed, at: i64, data: &[u8]) -> Result<(), Refusal> {
        let within = |(from, block): &(i64, Block)| {
            inside(&block.memory, at.checked_sub(*from)?.checked_add(block.at as i64)?, data.len()).ok()
        };
        let to = match self.0.as_ref().and_then(within) {
            Some(to) => to,
            None => self.0.insert((at, of.block(at, data.len())?)).1.at,
        };
        if let Some((_, block)) = &self.0 {
            block.memory.write(to, data);
        }
        Ok(())
    }
}

/// The offset of a block of the window's part, if all of the block is inside.
fn inside(memory: &Memory, at: i64, len: usize) -> Result<usize, Refusal> {
    let found = usize::try_from(at).ok().filter(|&at| at <= memory.len() && len <= memory.len() - at);
    found.ok_or(Refusal::Outside { at, length: len as u64, limit: memory.len() as u64 })
}

/// The sum of the bytes of all blocks.
///
/// # Errors
/// More bytes than fit a message or a reply.
fn bytes(strips: &[Strip]) -> Result<usize, Refusal> {
    // The product of a decoded strip does not overflow; the sum of several may.
    let sum = strips.iter().try_fold(0usize, |sum, strip| sum.checked_add(strip.block.checked_mul(strip.count)?));
    sum.filter(|&sum| sum <= MOST).ok_or(Refusal::TooLong { limit: MOST as u64 })
}

/// The bytes of a staged piece in its staging area, and their number.
fn staged_bytes(area: &Memory, &Piece { from, len, .. }: &Piece) -> Result<(Memory, usize), Refusal> {
    let outside = Refusal::Outside { at: from.cast_signed(), length: len, limit: area.len() as u64 };
    let size = |word: u64| usize::try_from(word).map_err(|_| outside);
    let (from, len) = (size(from)?, size(len)?);
    Ok((area.slice(from, len).ok_or(outside)?, len))
}

/// `len` bytes from offset `at` of a message's data, which is at most [`MOST`] long.
fn range(at: i64, len: usize) -> Range<usize> {
    let at = usize::try_from(at).unwrap_or(MOST);
    at..at + len
}

/// The refusal of data that has another length than the target.
fn lengths(data: usize, target: usize) -> Refusal {
    Refusal::Lengths { data: data as u64, target: target as u64 }
}

#[cfg(test)]
mod tests;
