//! The parts of a message of small operations. Each part has operations of one kind, in their
//! order. Knows neither targets nor tallies.

use super::super::ReplyDestination;
use super::super::carried::CARRIED;
use super::super::codec::{MAX_STRIPS, OVERHEAD, PART, REPLY_OVERHEAD, Request, STRIP};
use super::{Blocks, MOST, Small};
use crate::buffers::Sink;
use crate::datatype::Strip;
use crate::reduce::{BasicType, Op};

/// The effect of an operation at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Put,
    Get,
    Combine { op: Op, ty: BasicType, fetch: bool },
}

/// Operations of one kind in their order: the bytes at the target, their data, and the
/// destinations of the reply.
pub(super) struct Part {
    pub(super) what: What,
    pub(super) strips: Vec<Strip>,
    pub(super) data: Vec<u8>,
    pub(super) buffers: Vec<Sink>,
}

/// The lengths of request and reply of a message.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) request: usize,
    pub(super) reply: usize,
}

impl What {
    /// Whether a message of operations of this kind may have one of the other kind too.
    #[inline]
    pub(super) fn takes(self, other: What) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Size {
    /// A request of one [`Part`] and its reply, without strips, data and results.
    pub(super) const EMPTY: Size = Size { request: OVERHEAD, reply: REPLY_OVERHEAD };

    /// The size with one [`Part`] more than `parts`. A single [`Part`] has no separate head.
    #[cold]
    pub(super) fn with_part(self, parts: usize) -> Size {
        let (heads, more) = match parts {
            0 => (0, 0),
            1 => (2, 1),
            _ => (1, 0),
        };
        Size { request: self.request + heads * PART, reply: self.reply + more + heads * CARRIED }
    }
}

impl Part {
    /// A [`Part`] with room for `usual` operations like this one.
    pub(super) fn new(small: &Small<'_>, usual: usize) -> Part {
        let data = Vec::with_capacity(MOST.min(usual * small.data().len()));
        let buffers = Vec::with_capacity(if small.gets() { usual } else { 0 });
        Part { what: small.what(), strips: Vec::with_capacity(usual), data, buffers }
    }

    /// Adds an operation unless request or reply would then exceed `most` bytes. Except `apart`, an
    /// operation that begins where the previous one ends extends its strip.
    #[inline(always)]
    pub(super) fn push(&mut self, at: i64, small: &Small<'_>, size: &mut Size, most: usize, apart: bool) -> bool {
        let request = size.request + STRIP + small.data().len();
        let reply = size.reply + small.result().map_or(0, Sink::len);
        if request.max(reply) > most.min(MOST) {
            return false;
        }
        let full = self.strips.len() == MAX_STRIPS;
        match self.strips.last_mut() {
            Some(last) if !apart && last.count == 1 && last.offset + last.block as i64 == at => {
                last.block += small.len();
                size.request = request - STRIP;
            }
            _ if full => return false,
            _ => {
                self.strips.push(Strip::one(at, small.len()));
                size.request = request;
            }
        }
        size.reply = reply;
        self.data.extend_from_slice(small.data());
        if let Some(into) = small.result() {
            self.buffers.push(into.part(0, into.len()));
        }
        true
    }

    /// Adds an operation of several blocks, as [`Part::push`]. A list of strips that will be packed
    /// counts as one that is not.
    pub(super) fn push_blocks(&mut self, blocks: &Blocks<'_>, size: &mut Size, most: usize) -> bool {
        let Blocks { strips, data, into, .. } = *blocks;
        let request = size.request + strips.len() * STRIP + data.len();
        let reply = size.reply + blocks.result_len();
        if request.max(reply) > most.min(MOST) || self.strips.len() + strips.len() > MAX_STRIPS {
            return false;
        }
        *size = Size { request, reply };
        self.strips.extend_from_slice(strips);
        self.data.extend_from_slice(data);
        self.buffers.extend(into.iter().map(|into| into.part(0, into.len())));
        true
    }

    pub(super) fn into_request(self, apart: bool) -> (Request<'static>, ReplyDestination) {
        let each = |request| if apart { Request::Each(Box::new(request)) } else { request };
        let (strips, data) = (self.strips.into(), self.data.into());
        match self.what {
            What::Put => (each(Request::Scatter { strips, data }), ReplyDestination::Nowhere),
            What::Combine { op, ty, fetch: false } => {
                (each(Request::Combine { op, ty, fetch: false, strips, data }), ReplyDestination::Nowhere)
            }
            What::Get => (Request::Gather { strips }, ReplyDestination::Pieces(self.buffers)),
            What::Combine { op, ty, fetch } => {
                (Request::Combine { op, ty, fetch, strips, data }, ReplyDestination::Pieces(self.buffers))
            }
        }
    }
}
