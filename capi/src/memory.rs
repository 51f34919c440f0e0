//! Memory that is allocated before its windows. C programs free such memory by its address, so this
//! file keeps a list of all allocations.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Allocation;

use crate::error::{Failure, TRANSOM_ERR_BASE, guarded};
use crate::info::{InfoHandle, hints};
use crate::job::{JobHandle, job};
use crate::pointers::{out, size};

/// The memory that programs hold, by its address.
static ALLOCATED: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

fn allocated() -> MutexGuard<'static, BTreeMap<usize, Allocation>> {
    ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates size zeroed bytes, which other ranks of the node can map; *base is set to the address,
/// or to NULL if size is 0. Windows over this memory, or over a range of it, are as fast as
/// allocated windows. The address is a multiple of the size of a page, or of the hint
/// mpi_minimum_memory_alignment if the hint is larger. Local.
///
/// # Safety
/// `job` is a live handle, `info` one or NULL; `base` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_alloc_mem(
    job: *const JobHandle,
    size: u64,
    info: *const InfoHandle,
    base: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, slot) = (self::job(job)?, out(base, "base")?);
        let memory = job.alloc_mem_with(self::size(size)?, &hints(info))?;
        if memory.is_empty() {
            slot.set(std::ptr::null_mut());
            return Ok(());
        }
        let first = memory.as_ptr();
        allocated().insert(first.addr(), memory);
        slot.set(first.cast());
        Ok(())
    })
}

/// Frees memory of transom_alloc_mem; NULL is legal and has no effect. Windows over the memory keep
/// it until they are freed. Local.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn transom_free_mem(base: *mut c_void) -> c_int {
    guarded(|| {
        let memory = allocated().remove(&base.addr());
        if memory.is_none() && !base.is_null() {
            return Err(Failure::new(
                TRANSOM_ERR_BASE,
                format!("the base {base:p} was not returned by transom_alloc_mem, or was freed before"),
            ));
        }
        Ok(())
    })
}
