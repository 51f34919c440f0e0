//! Entry points that MPI has with `int` and with large counts (`_c`, MPI-4.1 §12). `operate`,
//! `requests`, `create` and `attributes` do the work with large counts.

use std::ffi::{c_int, c_void};

use crate::attributes::query;
use crate::create::{allocate_shared_window, allocate_window, create_window};
use crate::errors::Failure;
use crate::host::{Comm, InfoHandle, OpHandle, RequestHandle, Type, Win};
use crate::operate::{AccumulateSides, OriginSide, TargetSide};
use crate::requests::hand_over;
use crate::windows::find;

both_forms! {
    large_if large_counts;

    fn put = "Put" as by_host(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, win: Win,
    ) {
        let Some(window) = find(win) else { return by_host() };
        window.put(&OriginSide::new(origin, n, ty), &TargetSide::new(rank, at, m, target_ty))
    }

    fn get = "Get" as by_host(
        origin: *mut c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, win: Win,
    ) {
        let Some(window) = find(win) else { return by_host() };
        window.get(&OriginSide::new(origin, n, ty), &TargetSide::new(rank, at, m, target_ty))
    }

    fn accumulate = "Accumulate" as by_host(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, op: OpHandle,
        win: Win,
    ) {
        let Some(window) = find(win) else { return by_host() };
        window.accumulate(&OriginSide::new(origin, n, ty), None, &TargetSide::new(rank, at, m, target_ty), op)
    }

    fn get_accumulate = "Get_accumulate" as by_host(
        origin: *const c_void, n: Count, ty: Type, result: *mut c_void, k: Count, result_ty: Type, rank: c_int,
        at: isize, m: Count, target_ty: Type, op: OpHandle, win: Win,
    ) {
        let Some(window) = find(win) else { return by_host() };
        let result = OriginSide::new(result, k, result_ty);
        window.accumulate(&OriginSide::new(origin, n, ty), Some(&result), &TargetSide::new(rank, at, m, target_ty), op)
    }

    fn rput = "Rput" as by_host(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, win: Win,
        out: *mut RequestHandle,
    ) {
        let Some(window) = find(win) else { return by_host() };
        hand_over((win, rank), out, || window.rput(&OriginSide::new(origin, n, ty), &TargetSide::new(rank, at, m, target_ty)))
    }

    fn rget = "Rget" as by_host(
        origin: *mut c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, win: Win,
        out: *mut RequestHandle,
    ) {
        let Some(window) = find(win) else { return by_host() };
        hand_over((win, rank), out, || window.rget(&OriginSide::new(origin, n, ty), &TargetSide::new(rank, at, m, target_ty)))
    }

    fn raccumulate = "Raccumulate" as by_host(
        origin: *const c_void, n: Count, ty: Type, rank: c_int, at: isize, m: Count, target_ty: Type, op: OpHandle,
        win: Win, out: *mut RequestHandle,
    ) {
        let Some(window) = find(win) else { return by_host() };
        let sides = AccumulateSides::of(&OriginSide::new(origin, n, ty), None, &TargetSide::new(rank, at, m, target_ty), op);
        hand_over((win, rank), out, || sides.and_then(|sides| sides.request(window)))
    }

    fn rget_accumulate = "Rget_accumulate" as by_host(
        origin: *const c_void, n: Count, ty: Type, result: *mut c_void, k: Count, result_ty: Type, rank: c_int,
        at: isize, m: Count, target_ty: Type, op: OpHandle, win: Win, out: *mut RequestHandle,
    ) {
        let Some(window) = find(win) else { return by_host() };
        let (result, there) = (OriginSide::new(result, k, result_ty), TargetSide::new(rank, at, m, target_ty));
        let sides = AccumulateSides::of(&OriginSide::new(origin, n, ty), Some(&result), &there, op);
        hand_over((win, rank), out, || sides.and_then(|sides| sides.request(window)))
    }

    fn create = "Win_create" as by_host(
        base: *mut c_void, size: isize, unit: Unit, info: InfoHandle, comm: Comm, win: *mut Win,
    ) {
        create_window(base, size, unit as isize, (info, comm, win), by_host)
    }

    fn allocate = "Win_allocate" as by_host(
        size: isize, unit: Unit, info: InfoHandle, comm: Comm, base: *mut c_void, win: *mut Win,
    ) {
        allocate_window(size, unit as isize, (info, comm, base, win), by_host)
    }

    fn allocate_shared = "Win_allocate_shared" as by_host(
        size: isize, unit: Unit, info: InfoHandle, comm: Comm, base: *mut c_void, win: *mut Win,
    ) {
        allocate_shared_window(size, unit as isize, (info, comm, base, win), by_host)
    }

    fn shared_query = "Win_shared_query" as by_host(
        win: Win, rank: c_int, size: *mut isize, unit: *mut Unit, base: *mut c_void,
    ) {
        let Some(window) = find(win) else { return by_host() };
        if size.is_null() || unit.is_null() || base.is_null() {
            return Failure::no_room("the size, unit and address of a part").raise(win);
        }
        query(window, rank, (size, base), |step| *unit = Unit::try_from(step).unwrap_or(Unit::MAX))
    }
}
