//! The functions with large counts (MPI-4.1 §12), on top of `operate`, `requests`, `create` and
//! `attributes`, which take every count as a large one.

use std::ffi::{c_int, c_void};

use crate::attributes::query;
use crate::create::{allocate_shared_window, allocate_window, create_window};
use crate::host::{
    Comm, InfoHandle, OpHandle, RequestHandle, Type, Win, host_Accumulate_c, host_Get_accumulate_c, host_Get_c,
    host_Put_c, host_Raccumulate_c, host_Rget_accumulate_c, host_Rget_c, host_Rput_c, host_Win_allocate_c,
    host_Win_allocate_shared_c, host_Win_create_c, host_Win_shared_query_c,
};
use crate::operate::{Here, There, Typed};
use crate::requests::hand_over;
use crate::windows::find;

#[unsafe(export_name = "PMPI_Put_c")]
pub(crate) unsafe extern "C" fn put(
    origin: *const c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    win: Win,
) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them; so in all entry points.
    unsafe {
        let Some(window) = find(win) else {
            return host_Put_c(origin, count, ty, target, displacement, target_count, target_ty, win);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        window.put(&here, &there)
    }
}

#[unsafe(export_name = "PMPI_Get_c")]
pub(crate) unsafe extern "C" fn get(
    origin: *mut c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    win: Win,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Get_c(origin, count, ty, target, displacement, target_count, target_ty, win);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        window.get(&here, &there)
    }
}

#[unsafe(export_name = "PMPI_Accumulate_c")]
pub(crate) unsafe extern "C" fn accumulate(
    origin: *const c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    op: OpHandle,
    win: Win,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Accumulate_c(origin, count, ty, target, displacement, target_count, target_ty, op, win);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        window.accumulate(&here, None, &there, op)
    }
}

#[unsafe(export_name = "PMPI_Get_accumulate_c")]
pub(crate) unsafe extern "C" fn get_accumulate(
    origin: *const c_void,
    count: i64,
    ty: Type,
    result: *mut c_void,
    result_count: i64,
    result_ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    op: OpHandle,
    win: Win,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Get_accumulate_c(
                origin,
                count,
                ty,
                result,
                result_count,
                result_ty,
                target,
                displacement,
                target_count,
                target_ty,
                op,
                win,
            );
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        window.accumulate(&here, Some(&Here::new(result, result_count, result_ty)), &there, op)
    }
}

#[unsafe(export_name = "PMPI_Rput_c")]
pub(crate) unsafe extern "C" fn rput(
    origin: *const c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    win: Win,
    out: *mut RequestHandle,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Rput_c(origin, count, ty, target, displacement, target_count, target_ty, win, out);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        hand_over((win, target), window.rput(&here, &there), out)
    }
}

#[unsafe(export_name = "PMPI_Rget_c")]
pub(crate) unsafe extern "C" fn rget(
    origin: *mut c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    win: Win,
    out: *mut RequestHandle,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Rget_c(origin, count, ty, target, displacement, target_count, target_ty, win, out);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        hand_over((win, target), window.rget(&here, &there), out)
    }
}

#[unsafe(export_name = "PMPI_Raccumulate_c")]
pub(crate) unsafe extern "C" fn raccumulate(
    origin: *const c_void,
    count: i64,
    ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    op: OpHandle,
    win: Win,
    out: *mut RequestHandle,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Raccumulate_c(origin, count, ty, target, displacement, target_count, target_ty, op, win, out);
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        let typed = Typed::of(&here, None, &there, op);
        hand_over((win, target), typed.and_then(|it| it.request(window)), out)
    }
}

#[unsafe(export_name = "PMPI_Rget_accumulate_c")]
pub(crate) unsafe extern "C" fn rget_accumulate(
    origin: *const c_void,
    count: i64,
    ty: Type,
    result: *mut c_void,
    result_count: i64,
    result_ty: Type,
    target: c_int,
    displacement: isize,
    target_count: i64,
    target_ty: Type,
    op: OpHandle,
    win: Win,
    out: *mut RequestHandle,
) -> c_int {
    // SAFETY: as in the first entry point.
    unsafe {
        let Some(window) = find(win) else {
            return host_Rget_accumulate_c(
                origin,
                count,
                ty,
                result,
                result_count,
                result_ty,
                target,
                displacement,
                target_count,
                target_ty,
                op,
                win,
                out,
            );
        };
        let (here, there) = (Here::new(origin, count, ty), There::new(target, displacement, target_count, target_ty));
        let typed = Typed::of(&here, Some(&Here::new(result, result_count, result_ty)), &there, op);
        hand_over((win, target), typed.and_then(|it| it.request(window)), out)
    }
}

#[unsafe(export_name = "PMPI_Win_create_c")]
pub(crate) unsafe extern "C" fn create(
    base: *mut c_void,
    size: isize,
    unit: isize,
    info: InfoHandle,
    comm: Comm,
    win: *mut Win,
) -> c_int {
    // SAFETY: as in `put`.
    unsafe {
        let theirs = || host_Win_create_c(base, size, unit, info, comm, win);
        create_window(base, size, unit, (info, comm, win), theirs)
    }
}

#[unsafe(export_name = "PMPI_Win_allocate_c")]
pub(crate) unsafe extern "C" fn allocate(
    size: isize,
    unit: isize,
    info: InfoHandle,
    comm: Comm,
    base: *mut c_void,
    win: *mut Win,
) -> c_int {
    // SAFETY: as in `put`.
    unsafe {
        let theirs = || host_Win_allocate_c(size, unit, info, comm, base, win);
        allocate_window(size, unit, (info, comm, base, win), theirs)
    }
}

#[unsafe(export_name = "PMPI_Win_allocate_shared_c")]
pub(crate) unsafe extern "C" fn allocate_shared(
    size: isize,
    unit: isize,
    info: InfoHandle,
    comm: Comm,
    base: *mut c_void,
    win: *mut Win,
) -> c_int {
    // SAFETY: as in `put`.
    unsafe {
        let theirs = || host_Win_allocate_shared_c(size, unit, info, comm, base, win);
        allocate_shared_window(size, unit, (info, comm, base, win), theirs)
    }
}

#[unsafe(export_name = "PMPI_Win_shared_query_c")]
pub(crate) unsafe extern "C" fn shared_query(
    win: Win,
    rank: c_int,
    size: *mut isize,
    unit: *mut isize,
    base: *mut c_void,
) -> c_int {
    // SAFETY: as in `put`.
    unsafe {
        match find(win) {
            Some(window) => query(window, rank, (size, base), |step| *unit = step),
            None => host_Win_shared_query_c(win, rank, size, unit, base),
        }
    }
}
