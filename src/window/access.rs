//! Operations within epochs of a typed window. An [`Access`] is the right to call operations within
//! an epoch or a part of one. Operations borrow their buffers for the lifetime of the access. The
//! end of the access waits for all operations in flight, also when the stack unwinds. The borrow
//! checker, not a destructor, keeps a buffer alive.

use std::cell::Cell;
use std::marker::PhantomData;

use super::accumulate::{Accumulate, MAX_ELEMENT_BYTES};
use super::core::Core;
use super::element::RmaElem;
use super::raw::At;
use super::transfer::{CountedBy, Incoming, Outgoing};
use crate::buffers::{self, AtEnd, Scope, Sink, Source};
use crate::datatype::Datatype;
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::reduce::kernel::{bits_of, value_of};
use crate::reduce::ops::{self, Reduction, Swappable};
use crate::reduce::{CompareSwap, Element, Op};

/// The operations of an epoch: put, get and the accumulate family. The closure of an epoch gets a
/// handle ([`LockAllEpoch`](crate::LockAllEpoch), [`LockEpoch`](crate::LockEpoch),
/// [`FenceEpoch`](crate::FenceEpoch) or [`StartEpoch`](crate::StartEpoch)) that dereferences to an
/// `Access`. Targets are ranks of the window's group; displacements count elements `T`.
///
/// ```no_run
/// # fn try_it(win: &transom::Window<u64>) -> transom::Result<()> {
/// let data = [1, 2, 3];
/// let mut back = [0; 3];
/// win.lock_all(|epoch| {
///     epoch.put(1, 10, &data)?; // elements 10 to 12 of rank 1
///     epoch.flush(1)?; // the put is complete
///     epoch.get(1, 10, &mut back)
/// }) // the get is complete
/// # }
/// ```
///
/// Operations complete at the end of the epoch, at a flush, or at the end of [`Access::scope`];
/// their buffers are borrowed until the end of the epoch or scope. Operations on
/// [`PROC_NULL`](crate::PROC_NULL) have no effect; calls that return a value return 0.
///
/// ```compile_fail
/// # fn try_it(win: &transom::Window<u64>) -> transom::Result<()> {
/// win.lock_all(|epoch| {
///     let short_lived = [1u64; 4];
///     epoch.put(1, 0, &short_lived) // does not outlive the epoch: refused
/// })
/// # }
/// ```
///
/// ```compile_fail
/// # fn try_it(win: &transom::Window<u64>) -> transom::Result<()> {
/// win.lock_all(|epoch| epoch.put_value(1, 0, 7u8)) // not the window's type: refused
/// # }
/// ```
#[derive(Debug)]
pub struct Access<'scope, 'env: 'scope, T> {
    pub(super) core: &'env Core,
    pub(super) scope: &'scope Scope<'scope, 'env>,
    /// Whether the epoch covers only some targets, so that each operation checks its target.
    pub(super) checked: bool,
    pub(super) _elements: PhantomData<fn() -> T>,
}

impl<'scope, 'env, T: RmaElem> Access<'scope, 'env, T> {
    /// Puts the elements of `source` at `displacement` of `target`: element i of `source` becomes
    /// element `displacement + i` of the target's part (MPI-4.1 §12.3.1).
    ///
    /// # Errors
    /// `RmaRange` outside the target's part, `Rank` for a rank that does not exist, `Other` from
    /// the transport; the target is unchanged. `RmaSync` in an epoch that does not include the
    /// target.
    #[inline(always)]
    pub fn put(&self, target: usize, displacement: usize, source: &'scope [T]) -> Result<()> {
        let permit = self.admit("put", target)?;
        self.core.parts.put(
            permit,
            displacement as u64,
            self.scope.source(bytemuck::cast_slice(source)),
            CountedBy::Target,
        )
    }

    /// Puts one value, which is copied: no buffer is borrowed. The call waits for the put if the
    /// value is longer than 4 KiB, or if only messages reach the target (a window over user memory
    /// whose target is on this node, where the kernel refuses cross-memory attach).
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn put_value(&self, target: usize, displacement: usize, value: T) -> Result<()> {
        let permit = self.admit("put", target)?;
        self.core.parts.put_copied(permit, displacement as u64, bytemuck::bytes_of(&value))
    }

    /// Gets `result.len()` elements of `target`, from `displacement` on (MPI-4.1 §12.3.2). The
    /// elements are in `result` when the operation is complete.
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn get(&self, target: usize, displacement: usize, result: &'scope mut [T]) -> Result<()> {
        let permit = self.admit("get", target)?;
        self.core.parts.get(
            permit,
            displacement as u64,
            self.scope.sink(bytemuck::cast_slice_mut(result)),
            CountedBy::Target,
        )
    }

    /// Puts `count` items of `ty` from `source` into the items of `target` (MPI-4.1 §12.3.1 with
    /// derived datatypes). The offsets in `ty` are bytes from the beginning of `source`.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<f64>, matrix: &[f64]) -> transom::Result<()> {
    /// use transom::{At, BasicType, Datatype};
    /// // Column 2 of a matrix of 10 rows of 8 numbers becomes elements 0 to 9 of rank 1.
    /// let number = Datatype::basic(BasicType::Float64);
    /// let column = Datatype::vector(10, 1, 8, &number)?;
    /// win.lock_all(|epoch| epoch.put_items(&matrix[2..], 1, &column, At::new(1, 0, 10, &number)))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::put`]; `Type` if the signatures differ or items of the target overlap;
    /// `Count` if the items extend beyond `source`.
    pub fn put_items(&self, source: &'scope [T], count: usize, ty: &Datatype, target: At<'_>) -> Result<()> {
        let permit = self.admit("put", target.rank)?;
        let bytes = bytemuck::cast_slice(source);
        let from = Outgoing { bytes: self.scope.source(bytes), low: 0, layout: Layout::Items(ty, count) };
        self.core.parts.put_layout(permit, target.displacement, &from, &target.layout(), CountedBy::Target)
    }

    /// Gets the items of `target` into `count` items of `ty` in `result` (MPI-4.1 §12.3.2 with
    /// derived datatypes). The offsets in `ty` are bytes from the beginning of `result`. Items of
    /// the target may overlap.
    ///
    /// # Errors
    /// As for [`Access::put`]; `Type` if the signatures differ; `Count` if the items extend beyond
    /// `result`.
    pub fn get_items(&self, result: &'scope mut [T], count: usize, ty: &Datatype, target: At<'_>) -> Result<()> {
        let permit = self.admit("get", target.rank)?;
        let bytes = bytemuck::cast_slice_mut(result);
        let into = Incoming { bytes: self.scope.sink(bytes), low: 0, layout: Layout::Items(ty, count) };
        self.core.parts.get_layout(permit, target.displacement, &into, &target.layout(), CountedBy::Target)
    }

    /// Runs `body` as a part of the epoch. At the end of the scope its operations are complete, and
    /// their buffers may be used again.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>) -> transom::Result<u64> {
    /// win.lock_all(|epoch| {
    ///     let mut seen = [0u64];
    ///     epoch.scope(|part| part.get(1, 0, &mut seen))?;
    ///     Ok(seen[0])
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body` and of completing its operations.
    #[inline]
    pub fn scope<'s, R>(&'s self, body: impl for<'part> FnOnce(&Access<'part, 's, T>) -> Result<R>) -> Result<R> {
        // Runs also if `body` unwinds: no kept operation may refer to a buffer of this scope
        // afterwards.
        let ends = || {
            drop(self.core.complete_delayed());
            self.core.parts.settle();
        };
        buffers::scoped(ends, |scope| {
            let done = body(&Access { core: self.core, scope, checked: self.checked, _elements: PhantomData });
            let flushed = self.core.complete_delayed().and(self.core.parts.flush_all());
            done.and_then(|done| flushed.map(|()| done))
        })
    }

    /// Runs `body` with an access to the window, then `end`, which ends the epoch; also if `body`
    /// unwinds. On return no operation of `body` is in flight, even if `end` fails early. An error
    /// of `body` takes precedence over one of `end`.
    #[inline]
    pub(super) fn run<R>(
        core: &'env Core,
        checked: bool,
        end: impl Fn(&Core) -> Result<()>,
        body: impl for<'part> FnOnce(&Access<'part, 'env, T>) -> Result<R>,
    ) -> Result<R> {
        let ended = Cell::new(Ok(()));
        let done = buffers::scoped(
            || core.parts.settle(),
            |scope| {
                let _ends = AtEnd(|| {
                    core.complete_others();
                    ended.set(end(core));
                });
                body(&Access { core, scope, checked, _elements: PhantomData })
            },
        );
        done.and_then(|done| ended.into_inner().map(|()| done))
    }
}

/// The accumulate family (MPI-4.1 §12.3.4), for windows of MPI's predefined types.
impl<'scope, T: Element> Access<'scope, '_, T> {
    /// Combines `source.len()` elements of `target`, from `displacement` on, with the elements of
    /// `source` by an operation of [`ops`] (`MPI_ACCUMULATE`, MPI-4.1 §12.3.4). Each element is
    /// combined atomically with respect to all calls of the accumulate family on the same type. A
    /// pair of operation and type that MPI does not define does not compile.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<f64>) -> transom::Result<()> {
    /// let mine = vec![0.5; 1000];
    /// win.lock_all(|epoch| epoch.accumulate(1, 0, &mine, transom::ops::Sum))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn accumulate<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        _op: R,
    ) -> Result<()> {
        let permit = self.admit("accumulate", target)?;
        let source = self.scope.source(bytemuck::cast_slice(source));
        self.core.parts.accumulate_elements(permit, displacement as u64, R::OP, T::TYPE, source)
    }

    /// Like [`Access::accumulate`], and also gets the previous values into `result`
    /// (`MPI_GET_ACCUMULATE`, MPI-4.1 §12.3.4). Both buffers have the same length. The values are
    /// in `result` when the operation is complete.
    ///
    /// # Errors
    /// As for [`Access::accumulate`]; `Type` if the lengths differ.
    pub fn get_accumulate<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: &'scope mut [T],
        _op: R,
    ) -> Result<()> {
        let permit = self.admit("get_accumulate", target)?;
        let from = self.scope.source(bytemuck::cast_slice(source));
        let into = self.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = whole::<T>("get_accumulate", R::OP, Some(from), Some(into), size_of_val(source));
        self.core.parts.accumulate(permit, displacement as u64, &accumulate, CountedBy::Target)
    }

    /// Like [`Access::accumulate`], with `count` items of `ty` in `source` and the items of
    /// `target` (`MPI_ACCUMULATE` with derived datatypes, MPI-4.1 §12.3.4). The offsets in `ty` are
    /// bytes from the beginning of `source`. Both sides consist of elements `T`.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<f64>) -> transom::Result<()> {
    /// use transom::{At, BasicType, Datatype, ops};
    /// // Adds three numbers to elements 7, 2 and 90 of rank 1.
    /// let number = Datatype::basic(BasicType::Float64);
    /// let places = Datatype::indexed_block(1, &[7, 2, 90], &number)?;
    /// let target = At::new(1, 0, 1, &places);
    /// win.lock_all(|epoch| epoch.accumulate_items(&[0.5, 1.5, 2.5], 3, &number, target, ops::Sum))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::accumulate`]; `Type` if the sides have different numbers of elements, or
    /// elements of another type than `T`, or items of the target overlap; `Count` if the items
    /// extend beyond `source`.
    pub fn accumulate_items<R: Reduction<T>>(
        &self,
        source: &'scope [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        _op: R,
    ) -> Result<()> {
        let permit = self.admit("accumulate", target.rank)?;
        let from = self.scope.source(bytemuck::cast_slice(source));
        let accumulate = items::<T>("accumulate", R::OP, (count, ty), Some(from), None, target)?;
        self.core.parts.accumulate(permit, target.displacement, &accumulate, CountedBy::Target)
    }

    /// Like [`Access::accumulate_items`], and also gets the previous values into `count` items of
    /// `ty` in `result` (`MPI_GET_ACCUMULATE` with derived datatypes, MPI-4.1 §12.3.4). `source`
    /// and `result` have the same layout. With `NO_OP` `source` may be empty.
    ///
    /// # Errors
    /// As for [`Access::accumulate_items`], for both buffers; `Type` if items of `result` overlap.
    pub fn get_accumulate_items<R: Reduction<T>>(
        &self,
        source: &'scope [T],
        result: &'scope mut [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        _op: R,
    ) -> Result<()> {
        let permit = self.admit("get_accumulate", target.rank)?;
        let from = self.scope.source(bytemuck::cast_slice(source));
        let into = self.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = items::<T>("get_accumulate", R::OP, (count, ty), Some(from), Some(into), target)?;
        self.core.parts.accumulate(permit, target.displacement, &accumulate, CountedBy::Target)
    }

    /// Gets `result.len()` elements of `target`, from `displacement` on, each of them atomically
    /// (`MPI_GET_ACCUMULATE` with `MPI_NO_OP`, MPI-4.1 §12.3.4).
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    pub fn get_atomic(&self, target: usize, displacement: usize, result: &'scope mut [T]) -> Result<()> {
        let permit = self.admit("get_accumulate", target)?;
        let len = size_of_val(result);
        let into = self.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = whole::<T>("get_accumulate", Op::NoOp, None, Some(into), len);
        self.core.parts.accumulate(permit, displacement as u64, &accumulate, CountedBy::Target)
    }

    /// Combines the element at `displacement` of `target` with `operand`, waits for the element's
    /// previous value and returns this value (`MPI_FETCH_AND_OP`, MPI-4.1 §12.3.4).
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn fetch_and_op<R: Reduction<T>>(&self, target: usize, displacement: usize, operand: T, _op: R) -> Result<T> {
        let permit = self.admit("fetch_and_op", target)?;
        if size_of::<T>() <= 8 {
            return self
                .core
                .parts
                .fetch_op(permit, displacement as u64, R::OP, T::TYPE, bits_of(operand))
                .map(value_of);
        }
        let mut old = [0; MAX_ELEMENT_BYTES];
        let (operand, data) = (bytemuck::bytes_of(&operand), T::TYPE.size());
        let (parts, at) = (&self.core.parts, displacement as u64);
        parts.fetch_bytes(permit, at, R::OP, T::TYPE, &operand[..data], &mut old[..data])?;
        Ok(bytemuck::pod_read_unaligned(&old[..size_of::<T>()]))
    }

    /// Like [`Access::fetch_and_op`], but does not wait: the previous value is in `result` when the
    /// operation is complete.
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn start_fetch_and_op<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        operand: T,
        result: &'scope mut T,
        _op: R,
    ) -> Result<()> {
        let permit = self.admit("fetch_and_op", target)?;
        let data = T::TYPE.size();
        let into = self.scope.sink(&mut bytemuck::bytes_of_mut(result)[..data]);
        let operand = &bytemuck::bytes_of(&operand)[..data];
        self.core.parts.start_fetch(permit, displacement as u64, R::OP, T::TYPE, operand, into)
    }

    /// Adds `operand` to the element at `displacement` of `target`, waits for the element's
    /// previous value and returns this value (`MPI_FETCH_AND_OP` with `MPI_SUM`, MPI-4.1 §12.3.4).
    /// Integers wrap.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>) -> transom::Result<u64> {
    /// win.lock_all(|epoch| epoch.fetch_add(0, 0, 1)) // a different ticket for each caller
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn fetch_add(&self, target: usize, displacement: usize, operand: T) -> Result<T>
    where
        ops::Sum: Reduction<T>,
    {
        self.fetch_and_op(target, displacement, operand, ops::Sum)
    }

    /// Replaces the element at `displacement` of `target` by `operand`, waits for the element's
    /// previous value and returns this value (`MPI_FETCH_AND_OP` with `MPI_REPLACE`, MPI-4.1
    /// §12.3.4).
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn swap(&self, target: usize, displacement: usize, operand: T) -> Result<T>
    where
        ops::Replace: Reduction<T>,
    {
        self.fetch_and_op(target, displacement, operand, ops::Replace)
    }

    /// Reads the element at `displacement` of `target` atomically, waits for its value and returns
    /// it (`MPI_FETCH_AND_OP` with `MPI_NO_OP`, MPI-4.1 §12.3.4).
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn fetch_value(&self, target: usize, displacement: usize) -> Result<T>
    where
        ops::NoOp: Reduction<T>,
    {
        self.core.parts.look_on(target);
        self.fetch_and_op(target, displacement, T::zeroed(), ops::NoOp)
    }
}

impl<'scope, T: Swappable> Access<'scope, '_, T> {
    /// Replaces the element at `displacement` of `target` by `new` if the element equals
    /// `expected`, bit for bit. Waits for the element's previous value and returns this value
    /// (`MPI_COMPARE_AND_SWAP`, MPI-4.1 §12.3.4). The element was replaced if the result equals
    /// `expected`.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>, me: u64) -> transom::Result<bool> {
    /// // Claims entry 3 of rank 0, which is 0 while it is free.
    /// win.lock_all(|epoch| Ok(epoch.compare_and_swap(0, 3, 0, me)? == 0))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    #[inline]
    pub fn compare_and_swap(&self, target: usize, displacement: usize, expected: T, new: T) -> Result<T> {
        let permit = self.admit("compare_and_swap", target)?;
        self.core
            .parts
            .compare_swap(permit, displacement as u64, T::TYPE, CompareSwap { expected, new }.map(bits_of))
            .map(value_of)
    }

    /// Like [`Access::compare_and_swap`], but does not wait: the previous value is in `result` when
    /// the operation is complete.
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    pub fn start_compare_and_swap(
        &self,
        target: usize,
        displacement: usize,
        expected: T,
        new: T,
        result: &'scope mut T,
    ) -> Result<()> {
        let permit = self.admit("compare_and_swap", target)?;
        let into = self.scope.sink(bytemuck::bytes_of_mut(result));
        let values = CompareSwap { expected, new }.map(bits_of);
        self.core.parts.start_compare_swap(permit, displacement as u64, T::TYPE, values, [None, None], into)
    }
}

/// An accumulate of contiguous elements.
pub(super) fn whole<'a, T: Element>(
    call: &'static str,
    op: Op,
    from: Option<Source>,
    into: Option<Sink>,
    len: usize,
) -> Accumulate<'a> {
    Accumulate::of_array(call, op, T::TYPE, from.filter(|_| op != Op::NoOp), into, len)
}

/// An accumulate of items.
pub(super) fn items<'a, T: Element>(
    call: &'static str,
    op: Op,
    ours: (usize, &'a Datatype),
    from: Option<Source>,
    into: Option<Sink>,
    target: At<'a>,
) -> Result<Accumulate<'a>> {
    let from = from.filter(|_| op != Op::NoOp);
    Accumulate::of_items((call, op, T::TYPE), ours, from, into, (target.count, target.ty))
}
