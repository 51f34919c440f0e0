//! The arguments of an accumulate: its buffers, the layouts of its sides, and their checks (MPI-4.1
//! §12.3.4).

use std::sync::OnceLock;

use crate::buffers::{Sink, Source};
use crate::datatype::{Datatype, Walk};
use crate::error::{ArgumentError, Class, Error, Result, Side};
use crate::memory::accumulate::value;
use crate::memory::layout::{Layout, walk_sides};
use crate::messages::Combined;
use crate::reduce::{BasicType, Op};
use crate::window::accumulate::REGISTER_BYTES;
use crate::window::layouts::{holds, no_overlap};
use crate::window::transfer::{Incoming, Outgoing};

/// An accumulate with its buffers.
pub(crate) struct Accumulate<'a> {
    pub(crate) call: &'static str,
    pub(crate) op: Op,
    pub(crate) ty: BasicType,
    /// The operands; `None` for `MPI_NO_OP`.
    pub(crate) from: Option<Outgoing<'a>>,
    /// The destination of the previous values.
    pub(crate) into: Option<Incoming<'a>>,
    pub(crate) to: Layout<'a>,
}

impl<'a> Accumulate<'a> {
    /// An accumulate on arrays of `ty`; `len` is the length of the target's array in bytes. An
    /// array has the padding between its elements, and may have padding after the last one.
    pub(in crate::window) fn of_array(
        call: &'static str,
        op: Op,
        ty: BasicType,
        from: Option<Source>,
        into: Option<Sink>,
        len: usize,
    ) -> Accumulate<'a> {
        let layout = |len: usize| match is_padded(ty, len) {
            false => Layout::Bytes(len),
            true => Layout::Items(padded_pair(ty), len.div_ceil(ty.extent())),
        };
        let from = from.map(|bytes| Outgoing { layout: layout(bytes.len()), ..Outgoing::contiguous(bytes) });
        let into = into.map(|bytes| Incoming { layout: layout(bytes.len()), ..Incoming::contiguous(bytes) });
        Accumulate { call, op, ty, from, into, to: layout(len) }
    }

    /// An accumulate of `count` items of `items` in each buffer of the origin, on a target in a
    /// window of elements `ty`. Fails if a buffer is shorter than its items, or the target has
    /// elements of another type.
    pub(in crate::window) fn of_items(
        (call, op, ty): (&'static str, Op, BasicType),
        (count, items): (usize, &'a Datatype),
        from: Option<Source>,
        into: Option<Sink>,
        (to_count, to): (usize, &'a Datatype),
    ) -> Result<Accumulate<'a>> {
        if to_count > 0 && to.size() > 0 {
            let found = basic_type(call, to)?;
            if found != ty {
                return Err(Error::argument(Class::Type, call, ArgumentError::OtherElements(found, ty)));
            }
        }
        let layout = Layout::Items(items, count);
        for len in [from.as_ref().map(Source::len), into.as_ref().map(Sink::len)].into_iter().flatten() {
            holds(call, len, 0, &layout)?;
        }
        if is_array(items, ty)
            && is_array(to, ty)
            && let (Some(len), Some(at_target)) = (items.size().checked_mul(count), to.size().checked_mul(to_count))
        {
            // A buffer may be longer than its items.
            let from = from.map(|bytes| Outgoing::contiguous(bytes.part(0, len)));
            let into = into.map(|bytes| Incoming::contiguous(bytes.part(0, len)));
            return Ok(Accumulate { call, op, ty, from, into, to: Layout::Bytes(at_target) });
        }
        let from = from.map(|bytes| Outgoing { bytes, low: 0, layout });
        let into = into.map(|bytes| Incoming { bytes, low: 0, layout });
        Ok(Accumulate { call, op, ty, from, into, to: Layout::Items(to, to_count) })
    }

    /// The pieces of the accumulate: offsets at the target, in the origin and in the result, and
    /// lengths of whole elements.
    pub(in crate::window) fn pieces(&self) -> Walk<'a, 3> {
        let (from, into) = (self.from.as_ref(), self.into.as_ref());
        walk_sides(&self.to, from.map(|from| &from.layout), into.map(|into| &into.layout))
    }

    /// The operand of an accumulate of one element that fits into a register, without a result.
    pub(in crate::window) fn one_element(&self) -> Option<u64> {
        let it = self.contiguous().filter(|it| it.into.is_none() && it.len == it.ty.size())?;
        (it.len <= REGISTER_BYTES && it.from.len() == it.len).then(|| value(it.from))
    }

    /// The accumulate if all its sides are contiguous.
    pub(in crate::window) fn contiguous(&self) -> Option<Combined<'_>> {
        let (from, into) = (self.from.as_ref(), self.into.as_ref());
        let all = self.to.is_contiguous()
            && from.is_none_or(|from| from.layout.is_contiguous() && from.low == 0)
            && into.is_none_or(|into| into.layout.is_contiguous() && into.low == 0);
        all.then(|| Combined {
            op: self.op,
            ty: self.ty,
            from: from.map_or(&[][..], |from| from.bytes.bytes()),
            into: into.map(|into| &into.bytes),
            len: self.to.len(),
        })
    }
}

/// Whether any number of items of a datatype is an array of `ty`, without padding.
pub(in crate::window) fn is_array(of: &Datatype, ty: BasicType) -> bool {
    of.is_contiguous() && of.uniform() == Some(ty) && ty.size() == ty.extent()
}

/// Whether an array of `len` bytes has padding between its elements or after the last one.
#[inline]
pub(super) fn is_padded(ty: BasicType, len: usize) -> bool {
    ty.size() < ty.extent() && len != ty.size()
}

/// The datatype of one pair with the padding after it.
fn padded_pair(ty: BasicType) -> &'static Datatype {
    static PAIRS: [OnceLock<Datatype>; 3] = [const { OnceLock::new() }; 3];
    let place = match ty {
        BasicType::DoubleInt => 0,
        BasicType::LongInt => 1,
        _ => 2,
    };
    PAIRS[place].get_or_init(|| Datatype::basic(ty))
}

/// The one basic type of both sides, which accumulates need (MPI-4.1 §12.3.4).
pub(crate) fn basic_type(call: &'static str, ty: &Datatype) -> Result<BasicType> {
    ty.uniform().ok_or_else(|| Error::argument(Class::Type, call, ArgumentError::NotUniform))
}

pub(super) fn check(it: &Accumulate<'_>) -> Result<()> {
    let call = it.call;
    if !it.op.allows(it.ty) {
        return Err(Error::argument(Class::Op, call, ArgumentError::Undefined { op: it.op, ty: it.ty }));
    }
    let len = it.to.len();
    let (from, into) = (it.from.as_ref().map(|from| from.layout), it.into.as_ref().map(|into| into.layout));
    for (side, layout) in [(Side::Origin, from), (Side::Result, into)] {
        let Some(layout) = layout else { continue };
        let same = match layout {
            Layout::Bytes(bytes) => bytes == len,
            Layout::Items(ty, count) => {
                ty.size().checked_mul(count) == Some(len) && (len == 0 || ty.uniform() == Some(it.ty))
            }
        };
        if !same {
            let reason = ArgumentError::Unmatched { side, length: layout.len(), target: len, ty: it.ty };
            return Err(Error::argument(Class::Type, call, reason));
        }
    }
    if !len.is_multiple_of(it.ty.size()) {
        return Err(Error::argument(Class::Type, call, ArgumentError::NotWhole { length: len, ty: it.ty }));
    }
    if let Some(into) = &it.into {
        no_overlap(call, Side::Result, &into.layout)?;
    }
    Ok(())
}
