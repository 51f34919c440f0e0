//! Operations (MPI-4.1 §12.3). Operations that are contiguous at origin and target, as nearly all
//! are, take the shortest path; all others use the decoded datatypes. Operations on windows that
//! transom does not serve go to the host. The entry points with counts are in `forms`.

use std::ffi::{c_int, c_void};

use transom::{Actor, At, BasicType, Class, CompareSwap, Datatype, Items, Op, PROC_NULL, Request, Route};

use crate::errors::{Failure, Outcome};
use crate::host::{OpHandle, Type, Win, constants, host_Compare_and_swap, host_Fetch_and_op};
use crate::types::{self, DecodedRef};
use crate::windows::{self, Window, coded_at, raise_at};
use crate::{edges, process};

/// The side of an operation at this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginSide {
    pub(crate) base: *mut c_void,
    pub(crate) count: i64,
    pub(crate) ty: Type,
}

/// The side of an operation at the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetSide {
    pub(crate) rank: c_int,
    pub(crate) displacement: isize,
    pub(crate) count: i64,
    pub(crate) ty: Type,
}

impl OriginSide {
    pub(crate) fn new(base: *const c_void, count: impl Into<i64>, ty: Type) -> OriginSide {
        OriginSide { base: base.cast_mut(), count: count.into(), ty }
    }
}

impl TargetSide {
    pub(crate) fn new(rank: c_int, displacement: isize, count: impl Into<i64>, ty: Type) -> TargetSide {
        TargetSide { rank, displacement, count: count.into(), ty }
    }
}

/// The target and the displacement in transom's form.
fn target_location(rank: c_int, displacement: isize) -> Outcome<(usize, u64)> {
    let rank = windows::target_rank(rank)?;
    match u64::try_from(displacement) {
        Ok(displacement) => Ok((rank, displacement)),
        Err(_) if rank == PROC_NULL => Ok((rank, 0)),
        Err(_) => Err(Failure::new(Class::Disp, format!("the displacement {displacement} is negative"))),
    }
}

fn checked_count(count: i64) -> Outcome<usize> {
    usize::try_from(count).map_err(|_| Failure::new(Class::Count, format!("the count {count} is negative")))
}

/// The bytes, target and displacement of a transfer that is contiguous and equally long at both
/// sides; `None` for other transfers, and for those from or to NULL.
#[inline(always)]
pub(crate) fn contiguous_transfer(here: &OriginSide, there: &TargetSide) -> Option<(usize, usize, u64)> {
    let len = types::contiguous_bytes(here.ty, here.count).filter(|&len| len > 0 && !here.base.is_null())?;
    let same = here.ty == there.ty && here.count == there.count;
    if !same && types::contiguous_bytes(there.ty, there.count)? != len {
        return None;
    }
    Some((len, usize::try_from(there.rank).ok()?, u64::try_from(there.displacement).ok()?))
}

/// Fails if a side has data at NULL. A datatype of absolute addresses, as programs use it with
/// `MPI_BOTTOM`, starts elsewhere.
fn check_buffer(base: *const c_void, count: usize, ty: &Datatype) -> Outcome<()> {
    if base.is_null() && count > 0 && ty.size() > 0 && ty.true_lb() == 0 {
        return Err(Failure::null_buffer());
    }
    Ok(())
}

/// Items at an address, which may be null if they have no bytes.
fn items(base: *mut c_void, count: usize, ty: &Datatype) -> Items<'_> {
    let nothing = count == 0 || ty.size() == 0;
    Items::of_mut(if nothing { std::ptr::dangling_mut() } else { base.cast() }, count, ty)
}

/// The two sides of a transfer, as bytes.
pub(crate) struct Sides {
    here: DecodedRef,
    there: DecodedRef,
    counts: (usize, usize),
    at: (usize, u64),
}

impl Sides {
    fn of(here: &OriginSide, there: &TargetSide) -> Outcome<Sides> {
        let (ours, theirs) = (types::find(here.ty)?, types::find(there.ty)?);
        let counts = (checked_count(here.count)?, checked_count(there.count)?);
        let at = target_location(there.rank, there.displacement)?;
        if at.0 != PROC_NULL {
            check_buffer(here.base, counts.0, &ours.bytes)?;
        }
        Ok(Sides { here: ours, there: theirs, counts, at })
    }

    /// The sides of a put. The target's side may be longer than the data (MPI-4.1 §12.3.1): what
    /// follows the data is not written.
    pub(crate) fn of_put(here: &OriginSide, there: &TargetSide) -> Outcome<Sides> {
        let mut sides = Sides::of(here, there)?;
        let len = sides.counts.0.saturating_mul(sides.here.bytes.size());
        shorten_receiver(&mut sides.there, &mut sides.counts.1, len)?;
        Ok(sides)
    }

    /// The sides of a get. The origin's side may be longer than the data (MPI-4.1 §12.3.2).
    pub(crate) fn of_get(here: &OriginSide, there: &TargetSide) -> Outcome<Sides> {
        let mut sides = Sides::of(here, there)?;
        let len = sides.counts.1.saturating_mul(sides.there.bytes.size());
        shorten_receiver(&mut sides.here, &mut sides.counts.0, len)?;
        Ok(sides)
    }

    pub(crate) fn items(&self, base: *mut c_void) -> Items<'_> {
        items(base, self.counts.0, &self.here.bytes)
    }

    pub(crate) fn at(&self) -> At<'_> {
        At::new(self.at.0, self.at.1, self.counts.1, &self.there.bytes)
    }
}

/// Shortens a receiving side of `count` items to the part that `len` bytes fill. A side that is too
/// short remains, and the operation refuses it.
fn shorten_receiver(ty: &mut DecodedRef, count: &mut usize, len: usize) -> Outcome<()> {
    let size = ty.bytes.size();
    let Some(items) = len.checked_div(size).filter(|items| items < count) else { return Ok(()) };
    if items * size == len {
        *count = items;
    } else {
        (*ty, *count) = (ty.leading(len)?, 1);
    }
    Ok(())
}

/// A side of an accumulate at this process: its datatype, address and number of items.
type Side = (DecodedRef, *mut c_void, usize);

/// The two or three sides of an accumulate, as elements of basic types.
pub(crate) struct AccumulateSides {
    /// `None` for `MPI_NO_OP`, which ignores it.
    origin: Option<Side>,
    result: Option<Side>,
    there: DecodedRef,
    count: usize,
    at: (usize, u64),
    pub(crate) op: Op,
    /// Whether bytes are moved instead of elements.
    as_bytes: bool,
}

impl AccumulateSides {
    pub(crate) fn of(
        origin: &OriginSide,
        result: Option<&OriginSide>,
        there: &TargetSide,
        op: OpHandle,
    ) -> Outcome<AccumulateSides> {
        let op = operation(op)?;
        let at = target_location(there.rank, there.displacement)?;
        let side = |side: &OriginSide| {
            let (ty, count) = (types::find(side.ty)?, checked_count(side.count)?);
            if at.0 != PROC_NULL {
                check_buffer(side.base, count, &ty.bytes)?;
            }
            Ok::<_, Failure>((ty, side.base, count))
        };
        let unused = op == Op::NoOp && result.is_some();
        if op == Op::NoOp && !unused {
            let text = "an accumulate takes no MPI_NO_OP, which only fetches; use MPI_Get_accumulate";
            return Err(Failure::new(Class::Op, text));
        }
        let (mut target, mut count) = (types::find(there.ty)?, checked_count(there.count)?);
        // An accumulate of no elements is allowed on any type, as in the MPIs.
        let op = match check_defined(&target, op) {
            Err(_) if count == 0 => Op::Replace,
            found => found.map(|()| op)?,
        };
        let origin = if unused { None } else { Some(side(origin)?) };
        let mut result = result.map(side).transpose()?;
        // The sides that receive may be longer than the data, as those of a put or get.
        match (&origin, &mut result) {
            (_, Some((ty, _, room))) => shorten_receiver(ty, room, count.saturating_mul(target.bytes.size()))?,
            (Some((ty, _, given)), None) => {
                shorten_receiver(&mut target, &mut count, given.saturating_mul(ty.bytes.size()))?;
            }
            (None, None) => {}
        }
        let as_bytes = only_moves(op) && !have_one_basic_type(&origin, &result, &target);
        Ok(AccumulateSides { origin, result, there: target, count, at, op, as_bytes })
    }

    /// A side's datatype: with its elements, or as bytes.
    fn ty<'t>(&self, found: &'t DecodedRef) -> Outcome<&'t Datatype> {
        if self.as_bytes { Ok(&found.bytes) } else { typed(found) }
    }

    fn items<'t>(&'t self, side: &'t Option<Side>) -> Outcome<Items<'t>> {
        match side {
            Some((ty, base, count)) => Ok(items(*base, *count, self.ty(ty)?)),
            None => Ok(items(std::ptr::null_mut(), 0, self.ty(&self.there)?)),
        }
    }

    /// The arguments of transom's call: origin, result, target.
    pub(crate) fn arguments(&self) -> Outcome<(Items<'_>, Option<Items<'_>>, At<'_>)> {
        let result = self.result.is_some().then(|| self.items(&self.result)).transpose()?;
        let at = At::new(self.at.0, self.at.1, self.count, self.ty(&self.there)?);
        Ok((self.items(&self.origin)?, result, at))
    }

    /// # Safety
    /// As for [`transom::RawWindow::accumulate_items`] and `get_accumulate_items`.
    unsafe fn perform(&self, window: &Window) -> Outcome<()> {
        let (origin, result, at) = self.arguments()?;
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match result {
                None => window.raw.accumulate_items(origin, at, self.op),
                Some(result) => window.raw.get_accumulate_items(origin, result, at, self.op),
            }
        }?)
    }

    /// # Safety
    /// As for [`transom::RawWindow::raccumulate_items`] and `rget_accumulate_items`.
    pub(crate) unsafe fn request(&self, window: &Window) -> Outcome<Request> {
        let (origin, result, at) = self.arguments()?;
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match result {
                None => window.raw.raccumulate_items(origin, at, self.op),
                Some(result) => window.raw.rget_accumulate_items(origin, result, at, self.op),
            }
        }?)
    }
}

/// Whether an operation only moves data.
fn only_moves(op: Op) -> bool {
    matches!(op, Op::Replace | Op::NoOp)
}

/// Whether all sides are of one basic type, which accumulates need (MPI-4.1 §12.3.4). Programs
/// replace data of other types too, as with a put, and MPIs perform it.
fn have_one_basic_type(origin: &Option<Side>, result: &Option<Side>, target: &DecodedRef) -> bool {
    let basic = |found: &DecodedRef| found.typed.as_ref().and_then(Datatype::uniform);
    let wanted = basic(target);
    wanted.is_some() && [origin, result].into_iter().flatten().all(|(ty, ..)| basic(ty) == wanted)
}

/// Fails if a type has elements on which `op` is not defined.
fn check_defined(ty: &DecodedRef, op: Op) -> Outcome<()> {
    if ty.allows(op) || ty.bytes.size() == 0 || ty.basic.is_none() && typed(ty)?.uniform().is_none() {
        return Ok(());
    }
    Err(Failure::new(Class::Op, format!("{} is not defined on the datatype (MPI-4.1 §6.9.2)", op.name())))
}

fn typed(decoded: &DecodedRef) -> Outcome<&Datatype> {
    let why = "the datatype has a basic type on which transom has no accumulates";
    decoded.typed.as_ref().ok_or_else(|| Failure::new(Class::Type, why))
}

/// The operation of a handle. User-defined operations are not valid for accumulates (MPI-4.1
/// §12.3.4).
fn operation(op: OpHandle) -> Outcome<Op> {
    let place = constants().ops.iter().position(|&known| known == op);
    let number = place.and_then(|place| Op::from_number(u8::try_from(place).ok()?));
    number.ok_or_else(|| {
        Failure::new(
            Class::Op,
            "the operation is not predefined; accumulates take predefined operations only (MPI-4.1 §12.3.4)",
        )
    })
}

impl Window {
    /// # Safety
    /// As for [`transom::RawWindow::put_items`].
    #[inline]
    pub(crate) unsafe fn put(&self, here: &OriginSide, there: &TargetSide) -> c_int {
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return match unsafe { self.raw.put(here.base.cast(), len, rank, displacement) } {
                Ok(()) => 0,
                Err(error) => raise_at(&error.into(), self.proxy, there.rank),
            };
        }
        // SAFETY: the caller's promise.
        let put = |sides: Sides| Ok(unsafe { self.raw.put_items(sides.items(here.base), sides.at()) }?);
        coded_at(self.proxy, there.rank, Sides::of_put(here, there).and_then(put))
    }

    /// # Safety
    /// As for [`transom::RawWindow::get_items`].
    #[inline]
    pub(crate) unsafe fn get(&self, here: &OriginSide, there: &TargetSide) -> c_int {
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return match unsafe { self.raw.get(here.base.cast(), len, rank, displacement) } {
                Ok(()) if process::has_early_reads() => coded_at(self.proxy, there.rank, self.complete_early(rank)),
                Ok(()) => 0,
                Err(error) => raise_at(&error.into(), self.proxy, there.rank),
            };
        }
        let get = |sides: Sides| {
            // SAFETY: the caller's promise.
            unsafe { self.raw.get_items(sides.items(here.base), sides.at()) }?;
            if process::has_early_reads() { self.complete_early(sides.at.0) } else { Ok(()) }
        };
        coded_at(self.proxy, there.rank, Sides::of_get(here, there).and_then(get))
    }

    /// Completes a get whose buffer the program reads too early. Only passive-target epochs have
    /// flushes (MPI-4.1 §12.5.4): in other epochs the get remains in flight.
    #[cold]
    fn complete_early(&self, rank: usize) -> Outcome<()> {
        match self.raw.flush_local(rank) {
            Err(error) if error.class() == Class::RmaSync => Ok(()),
            done => Ok(done?),
        }
    }

    /// # Safety
    /// As for [`transom::RawWindow::rput_items`].
    pub(crate) unsafe fn rput(&self, here: &OriginSide, there: &TargetSide) -> Outcome<Request> {
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return Ok(unsafe { self.raw.rput(here.base.cast(), len, rank, displacement) }?);
        }
        let sides = Sides::of_put(here, there)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.raw.rput_items(sides.items(here.base), sides.at()) }?)
    }

    /// # Safety
    /// As for [`transom::RawWindow::rget_items`].
    pub(crate) unsafe fn rget(&self, here: &OriginSide, there: &TargetSide) -> Outcome<Request> {
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return Ok(unsafe { self.raw.rget(here.base.cast(), len, rank, displacement) }?);
        }
        let sides = Sides::of_get(here, there)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.raw.rget_items(sides.items(here.base), sides.at()) }?)
    }

    /// # Safety
    /// As for [`transom::RawWindow::accumulate_items`], and `get_accumulate_items` with a result.
    pub(crate) unsafe fn accumulate(
        &self,
        origin: &OriginSide,
        result: Option<&OriginSide>,
        there: &TargetSide,
        op: OpHandle,
    ) -> c_int {
        if let Some((ty, count, op)) = uniform_elements(origin, result, there, op) {
            let done = if count == 1 && self.can_load_and_store(there.rank) {
                let mut old = [0u64; LARGEST / 8];
                let into = result.map_or(old.as_mut_ptr().cast(), |result| result.base);
                // SAFETY: the caller's promise; each side is one element.
                unsafe { self.fetch(origin.base, into, there, (ty, op)) }.map_err(|failure| {
                    failure.named("fetch_and_op", if result.is_some() { "get_accumulate" } else { "accumulate" })
                })
            } else {
                // SAFETY: the caller's promise.
                unsafe { self.accumulate_elements(origin, result, there, (ty, count, op)) }
            };
            return coded_at(self.proxy, there.rank, done);
        }
        // SAFETY: the caller's promise.
        let done = AccumulateSides::of(origin, result, there, op).and_then(|sides| unsafe { sides.perform(self) });
        coded_at(self.proxy, there.rank, done)
    }

    /// Accumulates elements of one type, contiguous at origin and target.
    ///
    /// # Safety
    /// As for [`transom::RawWindow::accumulate`] and `get_accumulate`.
    unsafe fn accumulate_elements(
        &self,
        origin: &OriginSide,
        result: Option<&OriginSide>,
        there: &TargetSide,
        (ty, count, op): (BasicType, usize, Op),
    ) -> Outcome<()> {
        let (rank, displacement) = target_location(there.rank, there.displacement)?;
        let from = origin.base.cast();
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match result {
                None => self.raw.accumulate(from, count, ty, rank, displacement, op),
                Some(result) => {
                    let into = result.base.cast();
                    self.raw.get_accumulate(from, into, count, ty, rank, displacement, op)
                }
            }
        }?)
    }

    /// Whether this process accumulates on a rank's memory by load and store. Fetching the value is
    /// then the fastest way to accumulate one element. False where the device performs accumulates,
    /// also within a node: the fetch would wait for it. False under the conflict checker, which
    /// needs to know the buffers.
    #[inline]
    fn can_load_and_store(&self, rank: c_int) -> bool {
        let route = || self.raw.route(usize::try_from(rank).ok()?).ok();
        self.is_by_cpu() && !edges::is_on() && route().is_some_and(|route| route != Route::Net)
    }

    /// Whether a call that fetches a value from a rank returns before it has the value: over a net,
    /// and within a node if the device performs accumulates. Many such calls then share a round
    /// trip. Under the conflict checker this holds for all ranks.
    #[inline]
    fn fetches_late(&self, rank: usize) -> bool {
        let by_net = || self.raw.route(rank).is_ok_and(|route| route == Route::Net);
        let is_far = || self.raw.actor() == Actor::Nic || by_net();
        edges::is_on() || process::has_late_values() && is_far()
    }

    /// # Safety
    /// `origin`, unless the operation is `MPI_NO_OP`, and `result` are one element of the type,
    /// unless the target is `MPI_PROC_NULL`.
    unsafe fn fetch(
        &self,
        origin: *const c_void,
        result: *mut c_void,
        there: &TargetSide,
        (ty, op): (BasicType, Op),
    ) -> Outcome<()> {
        let (rank, displacement) = target_location(there.rank, there.displacement)?;
        if rank != PROC_NULL && (result.is_null() || op != Op::NoOp && origin.is_null()) {
            return Err(Failure::null_buffer());
        }
        if self.fetches_late(rank) {
            let (operand, into) = (origin.cast(), result.cast());
            // SAFETY: the caller's promise.
            return Ok(unsafe { self.raw.start_fetch_and_op(operand, into, ty, rank, displacement, op) }?);
        }
        if let wide @ (4 | 8) = ty.size() {
            // SAFETY: the caller's promise.
            let operand = unsafe {
                match (op, wide) {
                    _ if rank == PROC_NULL => 0,
                    (Op::NoOp, _) => 0,
                    (_, 8) => origin.cast::<u64>().read_unaligned(),
                    _ => u64::from(origin.cast::<u32>().read_unaligned()),
                }
            };
            let old = self.raw.fetch_value(operand, ty, rank, displacement, op)?;
            // SAFETY: the caller's promise. The value of an element of 4 bytes is in the low bytes.
            unsafe {
                match wide {
                    _ if rank == PROC_NULL => {}
                    8 => result.cast::<u64>().write_unaligned(old),
                    #[allow(clippy::cast_possible_truncation)]
                    _ => result.cast::<u32>().write_unaligned(old as u32),
                }
            }
            return Ok(());
        }
        let (mut old, mut operand) = ([0; LARGEST], [0; LARGEST]);
        let (old, operand) = (&mut old[..ty.size()], &mut operand[..ty.size()]);
        if op != Op::NoOp && rank != PROC_NULL {
            // SAFETY: the caller's promise.
            unsafe { origin.cast::<u8>().copy_to_nonoverlapping(operand.as_mut_ptr(), ty.size()) };
        }
        self.raw.fetch_and_op(operand, old, ty, rank, displacement, op)?;
        if rank != PROC_NULL {
            // SAFETY: the caller's promise.
            unsafe { result.cast::<u8>().copy_from_nonoverlapping(old.as_ptr(), ty.size()) };
        }
        Ok(())
    }

    /// # Safety
    /// `new`, `expected` and `result` are one element of the type, unless the target is
    /// `MPI_PROC_NULL`.
    unsafe fn swap(
        &self,
        new: *const c_void,
        expected: *const c_void,
        result: *mut c_void,
        there: &TargetSide,
    ) -> Outcome<()> {
        let ty = basic_type(there.ty, |ty| match ty.has_compare_and_swap() {
            true => Ok(()),
            false => Err(Failure::new(Class::Type, "the datatype can't be compared and swapped (MPI-4.1 §12.3.4)")),
        })?;
        let (rank, displacement) = target_location(there.rank, there.displacement)?;
        if rank != PROC_NULL && (new.is_null() || expected.is_null() || result.is_null()) {
            return Err(Failure::null_buffer());
        }
        if ty.size() <= 8 && self.fetches_late(rank) {
            let (values, into) = (CompareSwap { expected: expected.cast(), new: new.cast() }, result.cast());
            // SAFETY: the caller's promise.
            return Ok(unsafe { self.raw.start_compare_and_swap_any(values, into, ty, rank, displacement) }?);
        }
        let mut words = [[0; LARGEST]; 3];
        let [given, wanted, old] = words.each_mut().map(|word| &mut word[..ty.size()]);
        if rank != PROC_NULL {
            // SAFETY: the caller's promise.
            unsafe {
                new.cast::<u8>().copy_to_nonoverlapping(given.as_mut_ptr(), given.len());
                expected.cast::<u8>().copy_to_nonoverlapping(wanted.as_mut_ptr(), wanted.len());
            }
        }
        self.raw.compare_and_swap_any(CompareSwap { expected: wanted, new: given }, old, ty, rank, displacement)?;
        if rank != PROC_NULL {
            // SAFETY: the caller's promise.
            unsafe { result.cast::<u8>().copy_from_nonoverlapping(old.as_ptr(), old.len()) };
        }
        Ok(())
    }
}

/// The elements of an accumulate whose sides have the same number of elements of one basic type, as
/// nearly all have; `None` for other accumulates.
#[inline]
fn uniform_elements(
    origin: &OriginSide,
    result: Option<&OriginSide>,
    there: &TargetSide,
    op: OpHandle,
) -> Option<(BasicType, usize, Op)> {
    let same = |side: &OriginSide| side.ty == there.ty && side.count == there.count;
    let op = operation(op).ok()?;
    let unused = op == Op::NoOp && result.is_some();
    let origin_fits = unused || same(origin) && !origin.base.is_null();
    if !origin_fits || !result.is_none_or(|result| same(result) && !result.base.is_null()) {
        return None;
    }
    let ty = types::find(there.ty).ok().filter(|ty| ty.allows(op) && (op != Op::NoOp || result.is_some()))?;
    // Between pairs there may be padding.
    let basic = ty.basic.filter(|basic| there.count == 1 || basic.size() == basic.extent())?;
    Some((basic, usize::try_from(there.count).ok()?, op))
}

/// The bytes of the largest basic type.
const LARGEST: usize = 32;

/// The basic type of a predefined datatype, after `check` has accepted the datatype.
fn basic_type(ty: Type, check: impl FnOnce(&DecodedRef) -> Outcome<()>) -> Outcome<BasicType> {
    let why = "the call needs a predefined type on which accumulates are defined";
    let found = types::find(ty)?;
    check(&found)?;
    found.basic.ok_or_else(|| Failure::new(Class::Type, why))
}

#[unsafe(export_name = "PMPI_Fetch_and_op")]
pub(crate) unsafe extern "C" fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    ty: Type,
    target: c_int,
    displacement: isize,
    op: OpHandle,
    win: Win,
) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them.
    unsafe {
        let Some(window) = windows::find(win) else {
            return host_Fetch_and_op(origin, result, ty, target, displacement, op, win);
        };
        let there = TargetSide::new(target, displacement, 1, ty);
        let what = operation(op).and_then(|op| Ok((basic_type(ty, |ty| check_defined(ty, op))?, op)));
        coded_at(win, target, what.and_then(|what| window.fetch(origin, result, &there, what)))
    }
}

#[unsafe(export_name = "PMPI_Compare_and_swap")]
pub(crate) unsafe extern "C" fn compare_and_swap(
    new: *const c_void,
    expected: *const c_void,
    result: *mut c_void,
    ty: Type,
    target: c_int,
    displacement: isize,
    win: Win,
) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them.
    unsafe {
        let Some(window) = windows::find(win) else {
            return host_Compare_and_swap(new, expected, result, ty, target, displacement, win);
        };
        coded_at(win, target, window.swap(new, expected, result, &TargetSide::new(target, displacement, 1, ty)))
    }
}
