//! Notified operations, of the MPI Forum's draft of RMA notification, under the draft's names and,
//! from `profiled`, with `MPIX_` too. Hosts have no such operations: on a window that the host
//! serves the calls fail. Both forms, with `int` and with large counts, exist under every host.
//! `counters` has the calls on counters.

use std::ffi::{c_int, c_void};

use transom::{Notice, Request};

use crate::counters::{notice, unserved, unserved_request};
use crate::errors::Outcome;
use crate::host::{OpHandle, RequestHandle, Type, Win, constants};
use crate::operate::{AccumulateSides, OriginSide, Sides, TargetSide, contiguous_transfer};
use crate::requests::hand_over;
use crate::windows::{Window, coded_at, find};

/// An operation that is posted with a notice, without a request and with one.
trait Notified {
    /// # Safety
    /// As for the operation's plain form.
    unsafe fn perform(&self, window: &Window, notice: Notice) -> Outcome<()>;

    /// # Safety
    /// As for the operation's plain form.
    unsafe fn request(&self, window: &Window, notice: Notice) -> Outcome<Request>;
}

struct Put(OriginSide, TargetSide);

impl Notified for Put {
    unsafe fn perform(&self, window: &Window, notice: Notice) -> Outcome<()> {
        let Put(here, there) = self;
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return Ok(unsafe { window.raw.put_notify(here.base.cast(), len, rank, displacement, notice) }?);
        }
        let sides = Sides::of_put(here, there)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { window.raw.put_items_notify(sides.items(here.base), sides.at(), notice) }?)
    }

    unsafe fn request(&self, window: &Window, notice: Notice) -> Outcome<Request> {
        let Put(here, there) = self;
        if let Some((len, rank, displacement)) = contiguous_transfer(here, there) {
            // SAFETY: the caller's promise.
            return Ok(unsafe { window.raw.rput_notify(here.base.cast(), len, rank, displacement, notice) }?);
        }
        let sides = Sides::of_put(here, there)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { window.raw.rput_items_notify(sides.items(here.base), sides.at(), notice) }?)
    }
}

struct Get(OriginSide, TargetSide);

impl Notified for Get {
    unsafe fn perform(&self, window: &Window, notice: Notice) -> Outcome<()> {
        let sides = Sides::of_get(&self.0, &self.1)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { window.raw.get_items_notify(sides.items(self.0.base), sides.at(), notice) }?)
    }

    unsafe fn request(&self, window: &Window, notice: Notice) -> Outcome<Request> {
        let sides = Sides::of_get(&self.0, &self.1)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { window.raw.rget_items_notify(sides.items(self.0.base), sides.at(), notice) }?)
    }
}

struct Accumulate(OriginSide, Option<OriginSide>, TargetSide, OpHandle);

impl Accumulate {
    fn sides(&self) -> Outcome<AccumulateSides> {
        AccumulateSides::of(&self.0, self.1.as_ref(), &self.2, self.3)
    }
}

impl Notified for Accumulate {
    unsafe fn perform(&self, window: &Window, notice: Notice) -> Outcome<()> {
        let sides = self.sides()?;
        let (origin, result, at) = sides.arguments()?;
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match result {
                None => window.raw.accumulate_items_notify(origin, at, sides.op, notice),
                Some(result) => window.raw.get_accumulate_items_notify(origin, result, at, sides.op, notice),
            }
        }?)
    }

    unsafe fn request(&self, window: &Window, notice: Notice) -> Outcome<Request> {
        let sides = self.sides()?;
        let (origin, result, at) = sides.arguments()?;
        // SAFETY: the caller's promise.
        Ok(unsafe {
            match result {
                None => window.raw.raccumulate_items_notify(origin, at, sides.op, notice),
                Some(result) => window.raw.rget_accumulate_items_notify(origin, result, at, sides.op, notice),
            }
        }?)
    }
}

/// The counter of an index at a rank; any at `MPI_PROC_NULL`, which has none.
#[inline]
fn notice_at(rank: c_int, index: c_int) -> Outcome<Notice> {
    if rank == constants().proc_null { Ok(Notice(0)) } else { notice(index) }
}

/// # Safety
/// As for the operation's plain form.
#[inline]
unsafe fn perform(operation: &impl Notified, win: Win, rank: c_int, index: c_int) -> c_int {
    let Some(window) = find(win) else { return unserved(win) };
    // SAFETY: the caller's promise.
    coded_at(win, rank, notice_at(rank, index).and_then(|notice| unsafe { operation.perform(window, notice) }))
}

/// # Safety
/// As for the operation's plain form; there is room for a handle.
unsafe fn request(operation: &impl Notified, win: Win, rank: c_int, index: c_int, out: *mut RequestHandle) -> c_int {
    // SAFETY: the caller's promise.
    let Some(window) = find(win) else { return unsafe { unserved_request(win, out) } };
    // SAFETY: the caller's promise.
    let made = || notice_at(rank, index).and_then(|notice| unsafe { operation.request(window, notice) });
    hand_over((win, rank), out, made)
}

both_forms! {
    fn put = "Put_notify"(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, index: c_int,
        win: Win,
    ) {
        perform(&Put(OriginSide::new(origin, n, ty), TargetSide::new(rank, at, m, target_ty)), win, rank, index)
    }

    fn get = "Get_notify"(
        origin: *mut c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, index: c_int,
        win: Win,
    ) {
        perform(&Get(OriginSide::new(origin, n, ty), TargetSide::new(rank, at, m, target_ty)), win, rank, index)
    }

    fn accumulate = "Accumulate_notify"(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, op: OpHandle,
        index: c_int, win: Win,
    ) {
        let there = TargetSide::new(rank, at, m, target_ty);
        perform(&Accumulate(OriginSide::new(origin, n, ty), None, there, op), win, rank, index)
    }

    fn get_accumulate = "Get_accumulate_notify"(
        origin: *const c_void, n: Count, ty: Type, result: *mut c_void, k: Count, result_ty: Type, rank: c_int,
        at: isize, m: Count, target_ty: Type, op: OpHandle, index: c_int, win: Win,
    ) {
        let (result, there) = (OriginSide::new(result, k, result_ty), TargetSide::new(rank, at, m, target_ty));
        perform(&Accumulate(OriginSide::new(origin, n, ty), Some(result), there, op), win, rank, index)
    }

    fn rput = "Rput_notify"(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, index: c_int,
        win: Win, out: *mut RequestHandle,
    ) {
        request(&Put(OriginSide::new(origin, n, ty), TargetSide::new(rank, at, m, target_ty)), win, rank, index, out)
    }

    fn rget = "Rget_notify"(
        origin: *mut c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, index: c_int,
        win: Win, out: *mut RequestHandle,
    ) {
        request(&Get(OriginSide::new(origin, n, ty), TargetSide::new(rank, at, m, target_ty)), win, rank, index, out)
    }

    fn raccumulate = "Raccumulate_notify"(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, op: OpHandle,
        index: c_int, win: Win, out: *mut RequestHandle,
    ) {
        let there = TargetSide::new(rank, at, m, target_ty);
        request(&Accumulate(OriginSide::new(origin, n, ty), None, there, op), win, rank, index, out)
    }

    fn rget_accumulate = "Rget_accumulate_notify"(
        origin: *const c_void, n: Count, ty: Type, result: *mut c_void, k: Count, result_ty: Type, rank: c_int,
        at: isize, m: Count, target_ty: Type, op: OpHandle, index: c_int, win: Win, out: *mut RequestHandle,
    ) {
        let (result, there) = (OriginSide::new(result, k, result_ty), TargetSide::new(rank, at, m, target_ty));
        request(&Accumulate(OriginSide::new(origin, n, ty), Some(result), there, op), win, rank, index, out)
    }
}
