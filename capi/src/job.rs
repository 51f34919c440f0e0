//! The job: its ranks, subsets of them, the barrier, and the rank of which an error says that it is
//! lost.

use std::ffi::c_int;

use transom::Job;

use crate::constants::{self, TRANSOM_PROC_NULL};
use crate::error::{Failure, TRANSOM_ERR_ARG, guarded, lost_rank};
use crate::pointers::{array_mut, borrowed, changed, out, ranks};

/// One rank's membership in a job, or in a subset of its ranks. Several threads may use a handle at
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

/// Writes the first `capacity` ranks to an array, and the number of all ranks to `count`.
///
/// # Safety
/// `ranks` has room for `capacity` numbers; `count` points to writable memory.
pub(crate) unsafe fn write_ranks(
    found: &[usize],
    capacity: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> Result<(), Failure> {
    let capacity = u64::try_from(capacity)
        .map_err(|_| Failure::new(TRANSOM_ERR_ARG, format!("the capacity {capacity} for ranks is negative")))?;
    // SAFETY: the caller's promises.
    let (count, ranks) = unsafe { (out(count, "count")?, array_mut(ranks, capacity, "ranks")?) };
    for (slot, &rank) in ranks.iter_mut().zip(found) {
        *slot = constants::number(rank);
    }
    count.set(constants::number(found.len()));
    Ok(())
}

/// Joins the job in which transom-run or another launcher has started this process. Without a
/// launcher the process is a job of one rank. A process calls this once.
///
/// # Safety
/// `job` points to writable memory.
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

/// Leaves the job; collective. Free all windows before this call. The handle becomes NULL, even if
/// the call fails. For the handle of a subset the call is local and frees only the handle.
///
/// # Safety
/// `job` points to a live handle, which no other thread uses, or to NULL.
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

/// This process's rank, from 0: its rank in the subset if the handle is that of a subset.
///
/// # Safety
/// `job` is a live handle; `rank` points to writable memory.
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
/// `job` is a live handle; `size` points to writable memory.
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

/// Creates a job of some ranks, for windows and barriers among them. The array ranks has ranks of
/// the whole job, and its order numbers the ranks of the subset. All ranks of the array, and no
/// others, make the call, with equal arrays; the call does not communicate. The n-th call with an
/// array at one rank matches the n-th call with this array at the others. Threads that may call at
/// the same time use transom_job_subset_tagged. transom_finalize frees the handle.
///
/// # Safety
/// `job` is a live handle; `ranks` has `count` numbers; `subset` points to writable memory.
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

/// transom_job_subset with a tag, like that of MPI_Comm_create_group: all members make calls with
/// one list and one tag in the same order; calls with different tags may be in any order.
/// transom_job_subset uses tag 0.
///
/// # Safety
/// `job` is a live handle; `ranks` has `count` numbers; `subset` points to writable memory.
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

/// The ranks of a job or subset, as ranks of the whole job, in the order of their numbers in job.
/// *count is set to their number, and the first `capacity` of them are written to ranks.
///
/// # Safety
/// `job` is a live handle; `ranks` has room for `capacity` numbers; `count` points to writable
/// memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_group(
    job: *const JobHandle,
    capacity: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { write_ranks(&self::job(job)?.group(), capacity, ranks, count) })
}

/// The ranks of job that are on this rank's node, and so can share memory with it, as ranks of the
/// whole job. Their order is that of job. *count is set to their number, and the first `capacity`
/// of them are written to ranks.
///
/// # Safety
/// `job` is a live handle; `ranks` has room for `capacity` numbers; `count` points to writable
/// memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_node_ranks(
    job: *const JobHandle,
    capacity: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { write_ranks(&self::job(job)?.node_ranks(), capacity, ranks, count) })
}

/// Waits until all ranks have made this call. The barrier synchronizes processes and not memory: to
/// see the puts of other ranks, end an epoch or call transom_window_sync.
///
/// # Safety
/// `job` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_job_barrier(job: *const JobHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::job(job)?.barrier()?) })
}

/// The route to a rank: TRANSOM_ROUTE_OWN, TRANSOM_ROUTE_SHM or TRANSOM_ROUTE_NET.
///
/// # Safety
/// `job` is a live handle; `route` points to writable memory.
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

/// The rank that caused this thread's last error: the rank has died, can't be reached, or an
/// operation at the rank has failed. *rank is set to its number in the whole job; of several such
/// ranks, to the number of the first. *rank is set to TRANSOM_PROC_NULL if the error had another
/// reason, or no call has failed. After such an error operations on other ranks go on.
///
/// # Safety
/// `rank` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_last_error_rank(rank: *mut c_int) -> c_int {
    let lost = lost_rank().map_or(TRANSOM_PROC_NULL, constants::number);
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        out(rank, "rank")?.set(lost);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{TRANSOM_ERR_OTHER, TRANSOM_SUCCESS};

    fn lost() -> c_int {
        let mut rank = -99;
        // SAFETY: the address of a number.
        assert_eq!(unsafe { transom_last_error_rank(&raw mut rank) }, TRANSOM_SUCCESS);
        rank
    }

    /// Shows E3.
    #[test]
    fn the_rank_of_the_last_error() {
        assert_eq!(lost(), TRANSOM_PROC_NULL, "no call has failed");
        let died = || transom::Error::from(transom::ErrorKind::RankDied { ranks: vec![7, 3], host: "here".into() });
        assert_eq!(guarded(|| Err(died().into())), TRANSOM_ERR_OTHER);
        assert_eq!(lost(), 7);
        assert_eq!(guarded(|| Ok(())), TRANSOM_SUCCESS);
        assert_eq!(lost(), 7, "what succeeds leaves the rank");
        assert_eq!(guarded(|| Err(Failure::new(TRANSOM_ERR_ARG, "another"))), TRANSOM_ERR_ARG);
        assert_eq!(lost(), TRANSOM_PROC_NULL);
    }
}
