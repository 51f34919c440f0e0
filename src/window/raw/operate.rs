//! The byte-level window's operations, with and without requests. The caller promises that buffers
//! stay valid.

use super::super::accumulate::{Accumulate, MAX_ELEMENT_BYTES, basic_type, is_array};
use super::super::permit::Permit;
use super::super::request::Request;
use super::super::transfer::{CountedBy, Incoming, Outgoing};
use super::{At, Items, RawWindow};
use crate::buffers::{Sink, Source};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::memory::accumulate::{bytes_of, value};
use crate::memory::layout::Layout;
use crate::reduce::{BasicType, CompareSwap, Op};

/// Operations (MPI-4.1 §12.3). A displacement counts the target's displacement units; in a dynamic
/// window it is an address of the target. Operations on [`PROC_NULL`](crate::PROC_NULL) have no
/// effect.
impl RawWindow {
    /// Puts `len` bytes from `origin` at `displacement` of `target` (`MPI_PUT`, MPI-4.1 §12.3.1).
    ///
    /// # Errors
    /// `RmaSync` outside an access epoch, `Rank` for a rank that does not exist, `RmaRange` outside
    /// the target's part; the target is unchanged.
    ///
    /// # Safety
    /// `origin` is readable for `len` bytes, which are not written until the operation is complete
    /// at the origin.
    #[inline]
    pub unsafe fn put(&self, origin: *const u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        let permit = self.core.begin("put", target)?;
        // SAFETY: the caller's promise.
        let outcome =
            self.core.parts.put(permit, displacement, unsafe { Source::promised(origin, len) }, CountedBy::Target);
        self.core.settle(outcome)
    }

    /// Gets `len` bytes from `displacement` of `target` into `origin` (`MPI_GET`, MPI-4.1 §12.3.2).
    ///
    /// # Errors
    /// As for [`RawWindow::put`].
    ///
    /// # Safety
    /// `origin` is writable for `len` bytes, which are not accessed otherwise until the operation
    /// is complete.
    #[inline]
    pub unsafe fn get(&self, origin: *mut u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        let permit = self.core.begin("get", target)?;
        // SAFETY: the caller's promise.
        let outcome =
            self.core.parts.get(permit, displacement, unsafe { Sink::promised(origin, len) }, CountedBy::Target);
        self.core.settle(outcome)
    }

    /// Puts the items of `origin` into the items of `target`. Both sides have the same signature
    /// (`MPI_PUT`, MPI-4.1 §12.3.1).
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `Type` if the signatures differ, or items of the target overlap.
    ///
    /// # Safety
    /// As for [`RawWindow::put`], for the bytes of the items.
    pub unsafe fn put_items(&self, origin: Items<'_>, target: At<'_>) -> Result<()> {
        let permit = self.core.begin("put", target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        let outcome =
            self.core.parts.put_layout(permit, target.displacement, &from, &target.layout(), CountedBy::Target);
        self.core.settle(outcome)
    }

    /// Gets the items of `target` into the items of `origin`. Both sides have the same signature
    /// (`MPI_GET`, MPI-4.1 §12.3.2). Items of the target may overlap.
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `Type` if the signatures differ.
    ///
    /// # Safety
    /// As for [`RawWindow::get`], for the bytes of the items.
    pub unsafe fn get_items(&self, origin: Items<'_>, target: At<'_>) -> Result<()> {
        let permit = self.core.begin("get", target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        let outcome =
            self.core.parts.get_layout(permit, target.displacement, &into, &target.layout(), CountedBy::Target);
        self.core.settle(outcome)
    }

    /// Combines `count` elements of `ty` at `displacement` of `target` with the elements at
    /// `origin` (`MPI_ACCUMULATE`, MPI-4.1 §12.3.4). Each element is combined atomically with
    /// respect to the whole accumulate family on the same type.
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `Op` if the operation is not defined on the type.
    ///
    /// # Safety
    /// As for [`RawWindow::put`], for the bytes of the elements.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        target: usize,
        displacement: u64,
        op: Op,
    ) -> Result<()> {
        let len = elements("accumulate", op, ty, count)?;
        let permit = self.core.begin("accumulate", target)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::promised(origin, len) };
        let outcome = self.core.parts.accumulate_elements(permit, displacement, op, ty, from);
        self.core.settle(outcome)
    }

    /// Like [`RawWindow::accumulate`], and also gets the previous values (`MPI_GET_ACCUMULATE`,
    /// MPI-4.1 §12.3.4). `origin` is ignored for `MPI_NO_OP`.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate`].
    ///
    /// # Safety
    /// As for [`RawWindow::put`], for the bytes of the elements, and as for [`RawWindow::get`] for
    /// `result`, which does not overlap `origin`.
    #[inline]
    #[allow(clippy::too_many_arguments)] // those of MPI_GET_ACCUMULATE, but for the types that are the same
    pub unsafe fn get_accumulate(
        &self,
        origin: *const u8,
        result: *mut u8,
        count: usize,
        ty: BasicType,
        target: usize,
        displacement: u64,
        op: Op,
    ) -> Result<()> {
        let len = elements("get_accumulate", op, ty, count)?;
        let permit = self.core.begin("get_accumulate", target)?;
        // SAFETY: the caller's promise.
        let (from, into) =
            unsafe { ((op != Op::NoOp).then(|| Source::promised(origin, len)), Sink::promised(result, len)) };
        let outcome = self.core.parts.get_accumulate_elements(permit, displacement, op, ty, from, into);
        self.core.settle(outcome)
    }

    /// Like [`RawWindow::accumulate`], with the items of `origin` and of `target`
    /// (`MPI_ACCUMULATE`, MPI-4.1 §12.3.4). Both sides have the same signature.
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`]; `Op` if the operation is not defined on the type; `Type` if
    /// a datatype has more than one predefined type.
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`].
    pub unsafe fn accumulate_items(&self, origin: Items<'_>, target: At<'_>, op: Op) -> Result<()> {
        let permit = self.core.begin("accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.combine(permit, "accumulate", Some(origin), None, target, op, CountedBy::Target) };
        self.core.settle(outcome)
    }

    /// Like [`RawWindow::accumulate_items`], and also gets the previous values
    /// (`MPI_GET_ACCUMULATE`, MPI-4.1 §12.3.4). `origin` is ignored for `MPI_NO_OP`.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate_items`].
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`], and as for [`RawWindow::get_items`] for `result`, which
    /// does not overlap `origin`.
    pub unsafe fn get_accumulate_items(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
    ) -> Result<()> {
        let permit = self.core.begin("get_accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        let outcome = unsafe {
            self.combine(permit, "get_accumulate", Some(origin), Some(result), target, op, CountedBy::Target)
        };
        self.core.settle(outcome)
    }

    /// Combines one element and waits for its previous value (`MPI_FETCH_AND_OP`, MPI-4.1 §12.3.4).
    /// `operand` and the result are the element's bytes. For `PROC_NULL` the result is unchanged.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate`]; `Count` if a slice is not one element long.
    pub fn fetch_and_op(
        &self,
        operand: &[u8],
        result: &mut [u8],
        ty: BasicType,
        target: usize,
        displacement: u64,
        op: Op,
    ) -> Result<()> {
        const CALL: &str = "fetch_and_op";
        one_element(CALL, ty, if op == Op::NoOp { result.len() } else { operand.len() })?;
        one_element(CALL, ty, result.len())?;
        if !op.allows(ty) {
            return Err(Error::argument(Class::Op, CALL, ArgumentError::Undefined { op, ty }));
        }
        let permit = self.core.begin(CALL, target)?;
        let nothing = [0; MAX_ELEMENT_BYTES];
        let operand = if op == Op::NoOp { &nothing[..ty.size()] } else { operand };
        if target == crate::PROC_NULL {
            return Ok(());
        }
        if ty.size() > 8 {
            return self.core.settle(self.core.parts.fetch_bytes(permit, displacement, op, ty, operand, result));
        }
        let outcome = self.core.parts.fetch_op(permit, displacement, op, ty, value(operand));
        let old = self.core.settle(outcome)?;
        result.copy_from_slice(bytes_of(&old.to_ne_bytes(), ty.size()));
        Ok(())
    }

    /// Like [`RawWindow::fetch_and_op`], for an element of at most 8 bytes. `operand` and the
    /// result are numbers, which hold the element's bytes as an unsigned integer of the element's
    /// size. For `PROC_NULL` the result is 0.
    ///
    /// # Errors
    /// As for [`RawWindow::fetch_and_op`]; `Type` for a type of more than 8 bytes.
    #[inline]
    pub fn fetch_value(&self, operand: u64, ty: BasicType, target: usize, displacement: u64, op: Op) -> Result<u64> {
        const CALL: &str = "fetch_and_op";
        let permit = self.core.begin(CALL, target)?;
        // Counters go this way. With a known operation and type, the compiler removes the choice
        // among them.
        let outcome = match (op, ty) {
            (Op::Sum, BasicType::Int64) => {
                self.core.parts.fetch_op(permit, displacement, Op::Sum, BasicType::Int64, operand)
            }
            (Op::Sum, BasicType::Int32) => {
                self.core.parts.fetch_op(permit, displacement, Op::Sum, BasicType::Int32, operand)
            }
            _ if ty.size() > 8 => Err(Error::argument(Class::Type, CALL, ArgumentError::TooWide(ty))),
            _ if !op.allows(ty) => Err(Error::argument(Class::Op, CALL, ArgumentError::Undefined { op, ty })),
            _ => self.core.parts.fetch_op(permit, displacement, op, ty, operand),
        };
        self.core.settle(outcome)
    }

    /// Replaces the element by `values.new` if it equals `values.expected`, and waits for the
    /// previous value, which it stores in `result` (`MPI_COMPARE_AND_SWAP`, MPI-4.1 §12.3.4). Each
    /// slice holds one element's bytes.
    ///
    /// # Errors
    /// As for [`RawWindow::fetch_and_op`]; `Type` for a type other than integers, logical and byte,
    /// which MPI does not allow here.
    pub fn compare_and_swap(
        &self,
        values: CompareSwap<&[u8]>,
        result: &mut [u8],
        ty: BasicType,
        target: usize,
        displacement: u64,
    ) -> Result<()> {
        if !Op::allows_compare_and_swap(ty) {
            return Err(Error::argument(Class::Type, "compare_and_swap", ArgumentError::UndefinedType(ty)));
        }
        self.compare_and_swap_any(values, result, ty, target, displacement)
    }

    /// Like [`RawWindow::compare_and_swap`], but on every type, as some MPIs allow; compares bytes.
    #[doc(hidden)]
    pub fn compare_and_swap_any(
        &self,
        values: CompareSwap<&[u8]>,
        result: &mut [u8],
        ty: BasicType,
        target: usize,
        displacement: u64,
    ) -> Result<()> {
        const CALL: &str = "compare_and_swap";
        for len in [values.new.len(), values.expected.len(), result.len()] {
            one_element(CALL, ty, len)?;
        }
        let permit = self.core.begin(CALL, target)?;
        if target == crate::PROC_NULL {
            return Ok(());
        }
        if ty.size() > 8 {
            let outcome = self.core.parts.compare_swap_bytes(permit, displacement, ty, values, result);
            return self.core.settle(outcome);
        }
        let outcome = self.core.parts.compare_swap(permit, displacement, ty, values.map(value));
        let old = self.core.settle(outcome)?;
        result.copy_from_slice(bytes_of(&old.to_ne_bytes(), ty.size()));
        Ok(())
    }

    /// Like [`RawWindow::fetch_and_op`], but does not wait: the previous value is in `result` when
    /// the operation is complete. `operand` is ignored for `MPI_NO_OP`.
    ///
    /// # Errors
    /// As for [`RawWindow::fetch_and_op`].
    ///
    /// # Safety
    /// `operand` is one readable element, and `result` one writable element, which are not accessed
    /// otherwise until the operation is complete.
    pub unsafe fn start_fetch_and_op(
        &self,
        operand: *const u8,
        result: *mut u8,
        ty: BasicType,
        target: usize,
        displacement: u64,
        op: Op,
    ) -> Result<()> {
        const CALL: &str = "fetch_and_op";
        if !op.allows(ty) {
            return Err(Error::argument(Class::Op, CALL, ArgumentError::Undefined { op, ty }));
        }
        let permit = self.core.begin(CALL, target)?;
        if target == crate::PROC_NULL {
            return Ok(());
        }
        let nothing = [0; MAX_ELEMENT_BYTES];
        // SAFETY: the caller's promise.
        let (from, into) = unsafe { (Source::promised(operand, ty.size()), Sink::promised(result, ty.size())) };
        let operand = if op == Op::NoOp { &nothing[..ty.size()] } else { from.bytes() };
        let outcome = self.core.parts.start_fetch(permit, displacement, op, ty, operand, into);
        self.core.settle(outcome)
    }

    /// Like [`RawWindow::compare_and_swap`], but does not wait: the previous value is in `result`
    /// when the operation is complete.
    ///
    /// # Errors
    /// As for [`RawWindow::compare_and_swap`]; `Type` also for a type of more than 8 bytes.
    ///
    /// # Safety
    /// As for [`RawWindow::start_fetch_and_op`], for both values and for `result`.
    pub unsafe fn start_compare_and_swap(
        &self,
        values: CompareSwap<*const u8>,
        result: *mut u8,
        ty: BasicType,
        target: usize,
        displacement: u64,
    ) -> Result<()> {
        if !Op::allows_compare_and_swap(ty) {
            return Err(Error::argument(Class::Type, "compare_and_swap", ArgumentError::UndefinedType(ty)));
        }
        // SAFETY: the caller's promise.
        unsafe { self.start_compare_and_swap_any(values, result, ty, target, displacement) }
    }

    /// Like [`RawWindow::start_compare_and_swap`], but also on the other types of at most 8 bytes,
    /// which some MPIs allow. Compares the bytes of the values.
    ///
    /// # Errors
    /// `Type` for longer types.
    ///
    /// # Safety
    /// As for [`RawWindow::start_compare_and_swap`].
    #[doc(hidden)]
    pub unsafe fn start_compare_and_swap_any(
        &self,
        values: CompareSwap<*const u8>,
        result: *mut u8,
        ty: BasicType,
        target: usize,
        displacement: u64,
    ) -> Result<()> {
        const CALL: &str = "compare_and_swap";
        if ty.size() > 8 {
            return Err(Error::argument(Class::Type, CALL, ArgumentError::TooWide(ty)));
        }
        let permit = self.core.begin(CALL, target)?;
        if target == crate::PROC_NULL {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let values = values.map(|at| unsafe { Source::promised(at, ty.size()) });
        // SAFETY: the caller's promise.
        let into = unsafe { Sink::promised(result, ty.size()) };
        let reads = [values.new.address(), values.expected.address()].map(Some);
        let values = values.map(|from| value(from.bytes()));
        let outcome = self.core.parts.start_compare_swap(permit, displacement, ty, values, reads, into);
        self.core.settle(outcome)
    }

    /// # Safety
    /// As for the public calls.
    #[allow(clippy::too_many_arguments)] // those of MPI_GET_ACCUMULATE, with the permission and the tally
    pub(super) unsafe fn combine(
        &self,
        permit: Permit,
        call: &'static str,
        origin: Option<Items<'_>>,
        result: Option<Items<'_>>,
        target: At<'_>,
        op: Op,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let none = target.count == 0 || target.ty.size() == 0;
        let ty = match target.ty.uniform() {
            // Without elements their type is unknown. Every operation is defined on some type.
            None if none => BasicType::ALL.into_iter().find(|&ty| op.allows(ty)).unwrap_or(BasicType::Byte),
            _ => basic_type(call, target.ty)?,
        };
        let origin = origin.filter(|_| op != Op::NoOp);
        // SAFETY: the caller's promise.
        let (mut from, mut into) =
            unsafe { (origin.map(|origin| origin.source()), result.map(|result| result.sink())) };
        let mut to = target.layout();
        let mut sides = [origin, result].into_iter().flatten().map(|side| side.ty).chain([target.ty]);
        if sides.all(|side| is_array(side, ty))
            && let Some(len) = target.ty.size().checked_mul(target.count)
        {
            (from, into) =
                (from.map(|it| Outgoing::contiguous(it.bytes)), into.map(|it| Incoming::contiguous(it.bytes)));
            to = Layout::Bytes(len);
        }
        let accumulate = Accumulate { call, op, ty, from, into, to };
        self.core.parts.accumulate(permit, target.displacement, &accumulate, counted_by)
    }
}

/// Request-based operations (MPI-4.1 §12.3.5), in passive epochs only; windows of a
/// [forgiving](crate::Info::forgiving) info perform them in every access epoch. A request is
/// complete when its buffers may be used again; if the operation gets data, when the data has
/// arrived.
impl RawWindow {
    /// Like [`RawWindow::put`], and returns a request (`MPI_RPUT`).
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::put`].
    #[inline]
    pub unsafe fn rput(&self, origin: *const u8, len: usize, target: usize, displacement: u64) -> Result<Request> {
        let permit = self.core.begin_request("rput", target)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::promised(origin, len) };
        let made = self.requested(target, |counted_by| self.core.parts.put(permit, displacement, from, counted_by));
        self.core.settle(made)
    }

    /// Like [`RawWindow::get`], and returns a request (`MPI_RGET`).
    ///
    /// # Errors
    /// As for [`RawWindow::get`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::get`].
    #[inline]
    pub unsafe fn rget(&self, origin: *mut u8, len: usize, target: usize, displacement: u64) -> Result<Request> {
        let permit = self.core.begin_request("rget", target)?;
        // SAFETY: the caller's promise.
        let into = unsafe { Sink::promised(origin, len) };
        let made = self.requested(target, |counted_by| self.core.parts.get(permit, displacement, into, counted_by));
        self.core.settle(made)
    }

    /// Like [`RawWindow::put_items`], and returns a request (`MPI_RPUT`).
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`].
    pub unsafe fn rput_items(&self, origin: Items<'_>, target: At<'_>) -> Result<Request> {
        let permit = self.core.begin_request("rput", target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        let made = self.requested(target.rank, |counted_by| {
            self.core.parts.put_layout(permit, target.displacement, &from, &target.layout(), counted_by)
        });
        self.core.settle(made)
    }

    /// Like [`RawWindow::get_items`], and returns a request (`MPI_RGET`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::get_items`].
    pub unsafe fn rget_items(&self, origin: Items<'_>, target: At<'_>) -> Result<Request> {
        let permit = self.core.begin_request("rget", target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        let made = self.requested(target.rank, |counted_by| {
            self.core.parts.get_layout(permit, target.displacement, &into, &target.layout(), counted_by)
        });
        self.core.settle(made)
    }

    /// Like [`RawWindow::accumulate_items`], and returns a request (`MPI_RACCUMULATE`).
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::accumulate_items`].
    pub unsafe fn raccumulate_items(&self, origin: Items<'_>, target: At<'_>, op: Op) -> Result<Request> {
        let permit = self.core.begin_request("raccumulate", target.rank)?;
        // SAFETY: the caller's promise.
        let made = self.requested(target.rank, |counted_by| unsafe {
            self.combine(permit, "raccumulate", Some(origin), None, target, op, counted_by)
        });
        self.core.settle(made)
    }

    /// Like [`RawWindow::get_accumulate_items`], and returns a request (`MPI_RGET_ACCUMULATE`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_accumulate_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::get_accumulate_items`].
    pub unsafe fn rget_accumulate_items(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
    ) -> Result<Request> {
        let permit = self.core.begin_request("rget_accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        let made = self.requested(target.rank, |counted_by| unsafe {
            self.combine(permit, "rget_accumulate", Some(origin), Some(result), target, op, counted_by)
        });
        self.core.settle(made)
    }

    #[inline]
    pub(super) fn requested(&self, target: usize, post: impl FnOnce(CountedBy<'_>) -> Result<()>) -> Result<Request> {
        let mut tally = None;
        post(CountedBy::Request(&mut tally))?;
        Ok(Request::of(&self.core, target, tally))
    }
}

/// The number of bytes of an array of `count` elements of a type on which `op` is defined, without
/// padding after the last element.
#[inline]
fn elements(call: &'static str, op: Op, ty: BasicType, count: usize) -> Result<usize> {
    if !op.allows(ty) {
        return Err(Error::argument(Class::Op, call, ArgumentError::Undefined { op, ty }));
    }
    let size = ty.extent();
    let refused = || Error::argument(Class::Count, call, ArgumentError::TooManyElements { count, size });
    let whole = count.checked_mul(size).ok_or_else(refused)?;
    Ok(whole.saturating_sub(size - ty.size()))
}

fn one_element(call: &'static str, ty: BasicType, len: usize) -> Result<()> {
    if len == ty.size() {
        return Ok(());
    }
    Err(Error::argument(Class::Count, call, ArgumentError::NotOneElement { length: len, ty }))
}
