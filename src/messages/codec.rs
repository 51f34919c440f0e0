//! Encoding of messages. Words have the machine's byte order, because all ranks of a job run the
//! same program. Every field of a message is checked; bytes that can't be decoded give `None`.

mod answers;

use std::borrow::Cow;
use std::cell::Cell;

use transom_fabric::{Amo, AmoKind, Width};

pub(super) use self::answers::{add_answer, answers_with_room, encode_answers};
use super::packed;
use super::staging::Piece;
use crate::datatype::Strip;
use crate::error::Refusal;
use crate::reduce::{BasicType, Op};

/// Length of a request in bytes without strips and data.
pub(crate) const OVERHEAD: usize = 29;
/// Length of a strip in bytes.
pub(crate) const STRIP: usize = 32;
/// Maximum number of strips in a list that is not packed.
pub(crate) const MAX_STRIPS: usize = 254;
/// Length of the longest list of strips that is never packed.
pub(crate) const FEW_STRIPS: usize = 8;
/// Value of the number of strips if their list is packed.
const PACKED: u8 = 255;
/// Length in bytes of a request inside another request, without strips and data.
pub(crate) const PART: usize = 13;
/// Upper bound of the bytes by which the end of an epoch lengthens the message of operations.
pub(crate) const CLOSING_OVERHEAD: usize = PART + 8;
/// Length of a reply in bytes without data.
pub(crate) const REPLY_OVERHEAD: usize = 9;
/// Length in bytes of a message of answers, without the tokens and without the message that follows
/// them.
pub(crate) const ANSWERS_OVERHEAD: usize = 9;

/// A request to a target. Strips give byte offsets in the target's part, or addresses in a dynamic
/// window. A decoded request borrows its data from the message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request<'a> {
    /// Stores the data, strip after strip.
    Scatter { strips: Cow<'a, [Strip]>, data: Cow<'a, [u8]> },
    /// Stores the data at offset `at`, which does not matter without data, then adds one to counter
    /// `index`.
    Notify { index: u64, at: i64, data: Cow<'a, [u8]> },
    /// Answers with the bytes of the strips.
    Gather { strips: Cow<'a, [Strip]> },
    /// Combines each element with the data; answers with the previous values if `fetch`. Empty data
    /// means `MPI_NO_OP`.
    Combine { op: Op, ty: BasicType, fetch: bool, strips: Cow<'a, [Strip]>, data: Cow<'a, [u8]> },
    /// Stores `new` where `expected` is found; answers with the previous value.
    Swap { ty: BasicType, at: u64, expected: u64, new: u64 },
    /// Compare-and-swap of an element wider than a word: the data is the expected value, then the
    /// new one.
    SwapBytes { ty: BasicType, at: u64, data: Cow<'a, [u8]> },
    /// Performs an atomic on a control word.
    Control { at: u64, amo: Amo },
    /// No operation; refused where a block of the strips does not exist.
    Check { strips: Cow<'a, [Strip]> },
    /// Answers with the regions attached to the dynamic window that end after address `from`, in
    /// the order of their addresses, at most `most`. Their number precedes them, plus 1 if there
    /// are more.
    Regions { from: u64, most: u64 },
    /// Takes the window's lock if it is free, performs the operations, and releases the lock again
    /// if `release`. Answers with the outcome of the lock, then of each operation (`carried`).
    Carry { exclusive: bool, release: bool, parts: Vec<Request<'a>> },
    /// Answers with the key of the sender's staging area at the target. The answer is empty if
    /// there is no such area.
    Stage,
    /// Combines the elements of a staged piece with the operands in the sender's staging area; if
    /// `fetch`, the previous values replace the operands there.
    Staged { op: Op, ty: BasicType, fetch: bool, piece: Piece },
    /// Answers with the region of a dynamic window that contains the bytes, with its key for the
    /// net and its number (`memory::attached`). The answer is empty if there is none.
    Key { address: u64, len: u64 },
    /// Forgets the key of a region of the sender, by its number: the sender detaches the region.
    Withdraw { number: u64 },
    /// Copies a staged piece from the sender's staging area; if `fetch`, to the area.
    Copy { fetch: bool, piece: Piece },
    /// Performs a `Scatter`, or a `Combine` without `fetch`, strip by strip: if strips are refused,
    /// the others are performed, and the answer is the first refusal.
    Each(Box<Request<'a>>),
    /// Performs the operations one after another. The answer has the form of the answer to a
    /// request that carries a lock.
    Several { parts: Vec<Request<'a>> },
    /// Performs the operations, then ends the sender's epoch.
    Closing { operations: Box<Request<'a>>, end: End },
}

/// The end of an epoch that a request contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The sender has completed its access epoch ([`PscwNotice::Completed`]).
    Completed,
    /// The sender's signal of the window's barrier ([`Message::Signal`]).
    Signal { slot: u32, value: u32 },
}

impl Request<'_> {
    /// Whether another request may contain this request.
    pub(crate) fn may_be_carried(&self) -> bool {
        use Request::{Combine, Each, Gather, Scatter, Swap, SwapBytes};
        matches!(self, Scatter { .. } | Gather { .. } | Combine { .. } | Swap { .. } | SwapBytes { .. } | Each(_))
    }

    /// Whether the request may be sent with the end of an epoch.
    pub(crate) fn may_close(&self) -> bool {
        use Request::{Combine, Each, Gather, Scatter, Several};
        match self {
            Each(request) => request.may_close(),
            _ => matches!(self, Scatter { .. } | Gather { .. } | Combine { .. } | Several { .. }),
        }
    }

    /// Whether the request keeps its order among others of its origin (MPI-4.1 §12.7.2).
    pub(crate) fn is_ordered(&self) -> bool {
        use Request::{Closing, Combine, Each, Staged, Swap, SwapBytes};
        match self {
            Each(request) | Closing { operations: request, .. } => request.is_ordered(),
            _ => matches!(self, Combine { .. } | Swap { .. } | SwapBytes { .. } | Staged { .. }),
        }
    }

    /// Upper bound of the request's length in bytes, as a message and inside another request.
    pub(crate) fn most_bytes(&self) -> usize {
        let (strips, data) = match self {
            Request::Scatter { strips, data } | Request::Combine { strips, data, .. } => (strips.len(), data.len()),
            Request::Gather { strips } | Request::Check { strips } => (strips.len(), 0),
            Request::SwapBytes { data, .. } => (0, 8 + data.len()),
            Request::Notify { data, .. } => (0, 16 + data.len()),
            Request::Carry { parts, .. } | Request::Several { parts } => {
                (0, parts.iter().map(|part| 8 + part.most_bytes()).sum())
            }
            Request::Staged { .. } | Request::Copy { .. } => (0, 40),
            Request::Each(request) => return request.most_bytes(),
            Request::Closing { operations, .. } => (0, 8 + operations.most_bytes()),
            // Other requests have at most three words.
            _ => (0, 24),
        };
        OVERHEAD + packed::most_len(strips) + data
    }

    /// The request with its own data, which outlives the message.
    pub(crate) fn into_owned(self) -> Request<'static> {
        fn own<T: ToOwned + ?Sized>(operand: Cow<'_, T>) -> Cow<'static, T> {
            Cow::Owned(operand.into_owned())
        }
        let each = |parts: Vec<Request<'_>>| parts.into_iter().map(Request::into_owned).collect();
        match self {
            Request::Scatter { strips, data } => Request::Scatter { strips: own(strips), data: own(data) },
            Request::Notify { index, at, data } => Request::Notify { index, at, data: own(data) },
            Request::Gather { strips } => Request::Gather { strips: own(strips) },
            Request::Combine { op, ty, fetch, strips, data } => {
                Request::Combine { op, ty, fetch, strips: own(strips), data: own(data) }
            }
            Request::Swap { ty, at, expected, new } => Request::Swap { ty, at, expected, new },
            Request::SwapBytes { ty, at, data } => Request::SwapBytes { ty, at, data: own(data) },
            Request::Control { at, amo } => Request::Control { at, amo },
            Request::Check { strips } => Request::Check { strips: own(strips) },
            Request::Regions { from, most } => Request::Regions { from, most },
            Request::Key { address, len } => Request::Key { address, len },
            Request::Withdraw { number } => Request::Withdraw { number },
            Request::Stage => Request::Stage,
            Request::Staged { op, ty, fetch, piece } => Request::Staged { op, ty, fetch, piece },
            Request::Copy { fetch, piece } => Request::Copy { fetch, piece },
            Request::Carry { exclusive, release, parts } => Request::Carry { exclusive, release, parts: each(parts) },
            Request::Each(request) => Request::Each(Box::new(request.into_owned())),
            Request::Several { parts } => Request::Several { parts: each(parts) },
            Request::Closing { operations, end } => {
                Request::Closing { operations: Box::new(operations.into_owned()), end }
            }
        }
    }
}

/// A notice of post-start-complete-wait to another member of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PscwNotice {
    /// The sender exposes its part to the receiver.
    Posted,
    /// The sender's operations on the receiver's part are complete.
    Completed,
}

/// A message.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    /// Slot `slot` of the barrier of the object `key` now holds `value`.
    Signal {
        key: u64,
        slot: u32,
        value: u32,
    },
    /// A notice of a member of the window's group.
    Notice {
        window: u64,
        member: u32,
        notice: PscwNotice,
    },
    /// `order`: 0, or the request's number among the ordered requests of its origin, from 1.
    Request {
        token: u64,
        window: u64,
        order: u64,
        request: Request<'a>,
    },
    Reply {
        token: u64,
        bytes: &'a [u8],
    },
    /// The request could not be executed, with the reason.
    Refusal {
        token: u64,
        reason: Refusal,
    },
    /// Requests that were executed and have no result, and another message unless `rest` is empty.
    Answers {
        tokens: &'a [[u8; 8]],
        rest: &'a [u8],
    },
}

const SIGNAL: u8 = 1;
const NOTICE: u8 = 2;
const SCATTER: u8 = 3;
const GATHER: u8 = 4;
const COMBINE: u8 = 5;
const SWAP: u8 = 6;
const CONTROL: u8 = 7;
const REGIONS: u8 = 8;
const REPLY: u8 = 9;
const REFUSAL: u8 = 10;
const CHECK: u8 = 11;
const SWAP_WIDE: u8 = 12;
const NOTIFY: u8 = 13;
const CARRY: u8 = 14;
const SEVERAL: u8 = 15;
const ANSWERS: u8 = 16;
const STAGE: u8 = 17;
const STAGED: u8 = 18;
const COPY: u8 = 19;
/// [`SCATTER`] and [`COMBINE`], strip by strip.
const SCATTER_EACH: u8 = 20;
const COMBINE_EACH: u8 = 21;
const CLOSING: u8 = 22;
const KEY: u8 = 23;
const WITHDRAW: u8 = 24;
/// The last kind of message.
pub(super) const LAST: u8 = WITHDRAW;

impl<'a> Message<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Message::Signal { key, slot, value } => words(SIGNAL, &[*key, signal_word(*slot, *value)]),
            Message::Notice { window, member, notice } => {
                words(NOTICE, &[*window, u64::from(*member) << 1 | u64::from(*notice == PscwNotice::Completed)])
            }
            Message::Request { token, window, order, request } => encode_request(&[*token, *window, *order], request),
            Message::Reply { token, bytes } => with_bytes(words(REPLY, &[*token]), bytes),
            Message::Refusal { token, reason } => with_words(words(REFUSAL, &[*token]), &reason.to_words()),
            Message::Answers { tokens, rest } => {
                with_bytes(with_bytes(words(ANSWERS, &[tokens.len() as u64]), tokens.as_flattened()), rest)
            }
        }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (&kind, rest) = bytes.split_first()?;
        let mut reader = Reader(rest);
        let first = reader.word()?;
        Some(match kind {
            SIGNAL => {
                let both = reader.word()?;
                Message::Signal { key: first, slot: high(both), value: low(both) }
            }
            NOTICE => {
                let both = reader.word()?;
                let notice = if both & 1 == 1 { PscwNotice::Completed } else { PscwNotice::Posted };
                Message::Notice { window: first, member: low(both >> 1), notice }
            }
            REPLY => Message::Reply { token: first, bytes: reader.0 },
            REFUSAL => Message::Refusal { token: first, reason: reader.refusal()? },
            ANSWERS => {
                let len = usize::try_from(first).ok()?.checked_mul(8)?;
                let (tokens, rest) = reader.0.split_at_checked(len)?;
                // A message of answers does not contain a second one.
                let rest = Some(rest).filter(|rest| rest.first() != Some(&ANSWERS))?;
                Message::Answers { tokens: tokens.as_chunks().0, rest }
            }
            _ => {
                let (window, order) = (reader.word()?, reader.word()?);
                Message::Request { token: first, window, order, request: decode_request(kind, &mut reader)? }
            }
        })
    }
}

/// The token of a request that could not be decoded; `None` for a message of another or unknown
/// kind.
pub(super) fn token_of_request(bytes: &[u8]) -> Option<u64> {
    let (&kind, rest) = bytes.split_first()?;
    let is_request = (SCATTER..=LAST).contains(&kind) && !matches!(kind, REPLY | REFUSAL | ANSWERS);
    if is_request { Reader(rest).word() } else { None }
}

/// The longest buffer that a thread keeps, in bytes.
const SPARE_MOST: usize = 1024;

thread_local! {
    /// The buffer of a message that this thread has sent.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer with room for `len` bytes.
pub(super) fn buffer(len: usize) -> Vec<u8> {
    if len > SPARE_MOST {
        return Vec::with_capacity(len);
    }
    // A thread that ends has no spare buffer any more.
    let mut out = SPARE.try_with(Cell::take).unwrap_or_default();
    out.clear();
    out.reserve_exact(len);
    out
}

/// Keeps the buffer of a message that was sent for the thread's next message. Long buffers are
/// freed, because the next message may be short and may wait in a queue.
pub(crate) fn reuse_buffer(message: Vec<u8>) {
    if message.capacity() <= SPARE_MOST {
        let _ = SPARE.try_with(|spare| spare.set(message));
    }
}

fn signal_word(slot: u32, value: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(value)
}

/// A request after the words `head`; a request inside another one has no such words.
pub(super) fn encode_request(head: &[u64], request: &Request<'_>) -> Vec<u8> {
    encode_request_behind(buffer(request.most_bytes()), head, request)
}

/// The length of a request as a message.
#[cfg(test)]
pub(crate) fn encoded_len(request: &Request<'_>) -> usize {
    encode_request(&[0; 3], request).len()
}

/// [`encode_request`] that appends to `out`.
pub(super) fn encode_request_behind(mut out: Vec<u8>, head: &[u64], request: &Request<'_>) -> Vec<u8> {
    let start = |kind| {
        out.push(kind);
        with_words(out, head)
    };
    // Four bytes follow the words: operation, type, flag, and number of strips.
    let how = |kind, op: u8, ty: u8, flag: bool| with_bytes(start(kind), &[op, ty, u8::from(flag), 0]);
    let (scatter, combine, request) = match request {
        Request::Each(request) => (SCATTER_EACH, COMBINE_EACH, &**request),
        request => (SCATTER, COMBINE, request),
    };
    match request {
        Request::Scatter { strips, data } => with_bytes(with_strips(how(scatter, 0, 0, false), strips), data),
        Request::Notify { index, at, data } => {
            with_bytes(with_words(how(NOTIFY, 0, 0, false), &[*index, at.cast_unsigned()]), data)
        }
        Request::Gather { strips } => with_strips(how(GATHER, 0, 0, false), strips),
        Request::Check { strips } => with_strips(how(CHECK, 0, 0, false), strips),
        Request::Combine { op, ty, fetch, strips, data } => {
            with_bytes(with_strips(how(combine, op.number(), ty.number(), *fetch), strips), data)
        }
        Request::Swap { ty, at, expected, new } => {
            with_words(how(SWAP, 0, ty.number(), false), &[*at, *expected, *new])
        }
        Request::SwapBytes { ty, at, data } => {
            with_bytes(with_words(how(SWAP_WIDE, 0, ty.number(), false), &[*at]), data)
        }
        Request::Control { at, amo } => {
            let how = how(CONTROL, kind_number(amo.kind), 0, amo.width == Width::W64);
            with_words(how, &[*at, amo.operand, amo.compare])
        }
        Request::Regions { from, most } => with_words(how(REGIONS, 0, 0, false), &[*from, *most]),
        Request::Carry { exclusive, release, parts } => {
            with_parts(how(CARRY, u8::from(*exclusive), 0, *release), parts)
        }
        Request::Key { address, len } => with_words(how(KEY, 0, 0, false), &[*address, *len]),
        Request::Withdraw { number } => with_words(how(WITHDRAW, 0, 0, false), &[*number]),
        Request::Stage => how(STAGE, 0, 0, false),
        Request::Staged { op, ty, fetch, piece } => {
            with_words(how(STAGED, op.number(), ty.number(), *fetch), &piece.to_words())
        }
        Request::Copy { fetch, piece } => with_words(how(COPY, 0, 0, *fetch), &piece.to_words()),
        Request::Several { parts } => with_parts(how(SEVERAL, 0, 0, false), parts),
        Request::Closing { operations, end } => {
            let operations = encode_request(&[], operations);
            match end {
                End::Completed => with_bytes(how(CLOSING, 0, 0, false), &operations),
                End::Signal { slot, value } => {
                    with_bytes(with_words(how(CLOSING, 0, 0, true), &[signal_word(*slot, *value)]), &operations)
                }
            }
        }
        Request::Each(_) => unreachable!("an `Each` inside another one"),
    }
}

fn with_parts(out: Vec<u8>, parts: &[Request<'_>]) -> Vec<u8> {
    parts.iter().fold(out, |out, part| {
        let part = encode_request(&[], part);
        with_bytes(with_words(out, &[part.len() as u64]), &part)
    })
}

/// The requests inside another request.
fn decode_parts<'a>(reader: &mut Reader<'a>) -> Option<Vec<Request<'a>>> {
    let mut parts = Vec::new();
    while !reader.0.is_empty() {
        let len = usize::try_from(reader.word()?).ok()?;
        let (part, rest) = reader.0.split_at_checked(len)?;
        *reader = Reader(rest);
        let (&kind, part) = part.split_first()?;
        // A request inside another one contains no further one.
        let part =
            if matches!(kind, CARRY | SEVERAL | CLOSING) { None } else { decode_request(kind, &mut Reader(part)) };
        parts.push(part.filter(Request::may_be_carried)?);
    }
    Some(parts)
}

fn decode_request<'a>(kind: u8, reader: &mut Reader<'a>) -> Option<Request<'a>> {
    let each = |request| Request::Each(Box::new(request));
    match kind {
        SCATTER_EACH => decode_one(SCATTER, reader).map(each),
        COMBINE_EACH => {
            let no_fetch = |request: &Request<'_>| !matches!(request, Request::Combine { fetch: true, .. });
            decode_one(COMBINE, reader).filter(no_fetch).map(each)
        }
        _ => decode_one(kind, reader),
    }
}

/// A request that is not performed strip by strip.
fn decode_one<'a>(kind: u8, reader: &mut Reader<'a>) -> Option<Request<'a>> {
    let (how, rest) = reader.0.split_first_chunk::<4>()?;
    *reader = Reader(rest);
    let [op, ty, flag, strips] = *how;
    Some(match kind {
        SCATTER => Request::Scatter { strips: reader.strips(strips)?, data: reader.0.into() },
        NOTIFY => {
            let (index, at) = (reader.word()?, reader.word()?.cast_signed());
            Request::Notify { index, at, data: reader.0.into() }
        }
        GATHER => Request::Gather { strips: reader.strips(strips)? },
        CHECK => Request::Check { strips: reader.strips(strips)? },
        COMBINE => Request::Combine {
            op: Op::from_number(op)?,
            ty: BasicType::from_number(ty)?,
            fetch: flag == 1,
            strips: reader.strips(strips)?,
            data: reader.0.into(),
        },
        SWAP => Request::Swap {
            ty: BasicType::from_number(ty)?,
            at: reader.word()?,
            expected: reader.word()?,
            new: reader.word()?,
        },
        SWAP_WIDE => Request::SwapBytes { ty: BasicType::from_number(ty)?, at: reader.word()?, data: reader.0.into() },
        CONTROL => {
            let (at, operand, compare) = (reader.word()?, reader.word()?, reader.word()?);
            let width = if flag == 1 { Width::W64 } else { Width::W32 };
            Request::Control { at, amo: Amo { kind: *AmoKind::ALL.get(usize::from(op))?, width, operand, compare } }
        }
        REGIONS => Request::Regions { from: reader.word()?, most: reader.word()? },
        CARRY => Request::Carry { exclusive: op == 1, release: flag == 1, parts: decode_parts(reader)? },
        KEY => Request::Key { address: reader.word()?, len: reader.word()? },
        WITHDRAW => Request::Withdraw { number: reader.word()? },
        STAGE => Request::Stage,
        STAGED => Request::Staged {
            op: Op::from_number(op)?,
            ty: BasicType::from_number(ty)?,
            fetch: flag == 1,
            piece: reader.piece()?,
        },
        COPY => Request::Copy { fetch: flag == 1, piece: reader.piece()? },
        SEVERAL => Request::Several { parts: decode_parts(reader)? },
        CLOSING => {
            let end = match flag {
                1 => reader.word().map(|both| End::Signal { slot: high(both), value: low(both) })?,
                _ => End::Completed,
            };
            let (&kind, part) = reader.0.split_first()?;
            let operations = if kind == CLOSING { None } else { decode_request(kind, &mut Reader(part)) };
            Request::Closing { operations: Box::new(operations.filter(Request::may_close)?), end }
        }
        _ => return None,
    })
}

fn words(kind: u8, words: &[u64]) -> Vec<u8> {
    let mut out = buffer(64);
    out.push(kind);
    with_words(out, words)
}

fn with_words(mut out: Vec<u8>, words: &[u64]) -> Vec<u8> {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
    out
}

fn with_bytes(mut out: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    out.extend_from_slice(bytes);
    out
}

/// Appends strips to the four bytes, the last of which is their number, or [`PACKED`] if their
/// packed list is not longer.
fn with_strips(mut out: Vec<u8>, strips: &[Strip]) -> Vec<u8> {
    let (count, begun) = (out.len() - 1, out.len());
    if strips.len() > FEW_STRIPS {
        packed::pack(&mut out, strips);
        if strips.len() > MAX_STRIPS || out.len() - begun <= STRIP * strips.len() {
            out[count] = PACKED;
            return out;
        }
        out.truncate(begun);
    }
    out[count] = u8::try_from(strips.len()).expect("at most MAX_STRIPS");
    strips.iter().fold(out, |out, strip| with_words(out, &strip.encode()))
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    pub(super) fn refusal(&mut self) -> Option<Refusal> {
        Some(Refusal::of_words([self.word()?, self.word()?, self.word()?, self.word()?]))
    }

    fn piece(&mut self) -> Option<Piece> {
        Some(Piece::from_words([self.word()?, self.word()?, self.word()?, self.word()?, self.word()?]))
    }

    fn strips(&mut self, count: u8) -> Option<Cow<'static, [Strip]>> {
        if count == PACKED {
            return self.packed().map(Cow::from);
        }
        (0..count).map(|_| Strip::decode([self.word()?, self.word()?, self.word()?, self.word()?])).collect()
    }
}

#[allow(clippy::cast_possible_truncation)] // the half that is asked for
fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    low(word >> 32)
}

/// The kind's index in [`AmoKind::ALL`].
fn kind_number(kind: AmoKind) -> u8 {
    match kind {
        AmoKind::Sum => 0,
        AmoKind::Replace => 1,
        AmoKind::Read => 2,
        AmoKind::CompareSwap => 3,
    }
}

#[cfg(test)]
mod tests;
