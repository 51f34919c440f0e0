//! The job: its ranks, subsets of them, and the barrier.

use std::ffi::c_int;

use transom::Job;

use crate::constants;
use crate::error::{Failure, TRANSOM_ERR_ARG, guarded};
use crate::pointers::{array_mut, borrowed, changed, out, ranks};

/// One rank's membership in a job, or in a subset of its ranks. May be used by several threads at
/// once.
#[derive(Debug)]
pub struct JobHandle(Job);

/// The job of a handle.
///
/// # Safety
/// `job` is NULL or a live handle.
pub(crate) unsafe fn job<'a>(job: *const JobHandle) -> Result<&'a Job, Failure> {
    // SAFETY: the caller's promise.
    unsafe { borrowed(job, TRANSOM_ERR_ARG, "job") }.map(|job| &job.0)
}

/// Writes ranks to an array that has room for some, and how many there are.
///
/// # Safety
/// `ranks` has room for `room` numbers; `count` may be written.
pub(crate) unsafe fn write_ranks(
    found: &[usize],
    room: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> Result<(), Failure> {
    let room = u64::try_from(room).map_err(|_| Failure::new(TRANSOM_ERR_ARG, format!("room for {room} ranks")))?;
    // SAFETY: the caller's promises.
    let (count, ranks) = unsafe { (out(count, "count")?, array_mut(ranks, room, "ranks")?) };
    for (slot, &rank) in ranks.iter_mut().zip(found) {
        *slot = constants::number(rank);
    }
    count.set(constants::number(found.len()));
    Ok(())
}

/// Joins the job that this process was started in, by transom-run or another launcher; alone it is
/// a job of one rank. Once per process.
///
/// # Safety
/// `job` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_init(job: *mut *mut JobHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = out(job, "job")?;
        slot.set(Box::into_raw(Box::new(JobHandle(transom::init()?))));
        Ok(())
    })
}

/// Leaves the job; collective. The handle becomes NULL, also where it fails. Free windows before
/// it. A subset's handle only ends.
///
/// # Safety
/// `job` points to a live handle or to NULL, which no other thread uses.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_finalize(job: *mut *mut JobHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = changed(job, "job")?;
        if slot.is_null() {
            return Err(Failure::new(TRANSOM_ERR_ARG, "job is NULL"));
        }
        let handle = Box::from_raw(std::mem::replace(slot, std::ptr::null_mut()));
        Ok(handle.0.finalize()?)
    })
}

/// This rank, from 0; in a subset its number there.
///
/// # Safety
/// `job` is a live handle; `rank` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_rank(job: *const JobHandle, rank: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, rank) = (self::job(job)?, out(rank, "rank")?);
        rank.set(constants::number(job.rank()));
        Ok(())
    })
}

/// The number of ranks.
///
/// # Safety
/// `job` is a live handle; `size` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_size(job: *const JobHandle, size: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, size) = (self::job(job)?, out(size, "size")?);
        size.set(constants::number(job.size()));
        Ok(())
    })
}

/// Some ranks as a job of their own, for windows and barriers among them, numbered in the order of
/// ranks, which are ranks of the whole job. Called by exactly these ranks, with the same list; it
/// communicates nothing. transom_finalize ends the handle. Calls with the same list come in the
/// same order at all of them: where threads may call at the same time, transom_job_subset_tagged
/// tells them apart.
///
/// # Safety
/// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_subset(
    job: *const JobHandle,
    count: c_int,
    ranks: *const c_int,
    subset: *mut *mut JobHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, slot) = (self::job(job)?, out(subset, "subset")?);
        let some = job.subset(&self::ranks(ranks, count, "ranks")?)?;
        slot.set(Box::into_raw(Box::new(JobHandle(some))));
        Ok(())
    })
}

/// transom_job_subset with a tag, as MPI_Comm_create_group has one: calls with the same list and
/// the same tag come in the same order at all members, those with different tags in any.
/// transom_job_subset has tag 0.
///
/// # Safety
/// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_subset_tagged(
    job: *const JobHandle,
    count: c_int,
    ranks: *const c_int,
    tag: u64,
    subset: *mut *mut JobHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, slot) = (self::job(job)?, out(subset, "subset")?);
        let some = job.subset_tagged(&self::ranks(ranks, count, "ranks")?, tag)?;
        slot.set(Box::into_raw(Box::new(JobHandle(some))));
        Ok(())
    })
}

/// The ranks, as the whole job counts, that share this one's node and so can share memory with it,
/// in the order of the job: *count of them, of which the first `room` are written to ranks.
///
/// # Safety
/// `job` is a live handle; `ranks` has room for `room` numbers; `count` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_node_ranks(
    job: *const JobHandle,
    room: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { write_ranks(&self::job(job)?.node_ranks(), room, ranks, count) })
}

/// Waits until all ranks are here. It synchronizes processes; to see their puts, end an epoch or
/// call transom_window_sync.
///
/// # Safety
/// `job` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_barrier(job: *const JobHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::job(job)?.barrier()?) })
}

/// The way to a rank: TRANSOM_ROUTE_OWN, TRANSOM_ROUTE_SHM or TRANSOM_ROUTE_NET.
///
/// # Safety
/// `job` is a live handle; `route` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_route(job: *const JobHandle, rank: c_int, route: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, slot) = (self::job(job)?, out(route, "route")?);
        slot.set(constants::route(job.route(constants::rank(rank)?)?));
        Ok(())
    })
}
