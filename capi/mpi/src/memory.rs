//! Memory that programs allocate through MPI (`MPI_Alloc_mem`, MPI-4.1 §9.2). While the job runs,
//! transom allocates this memory, so that ranks of the node can map windows over it. The host
//! allocates memory if transom can't, and frees memory that transom did not allocate.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Allocation;

use crate::attributes::{NoInfo, info_of};
use crate::host::{InfoHandle, SUCCESS, host_Alloc_mem, host_Free_mem};
use crate::process;

/// The most allocations that transom makes at once. Each is a mapping of its own, and the kernel
/// lets a process have 65,530 mappings for all purposes (`vm.max_map_count`).
const MOST: usize = 16_384;

/// The programs' allocations, by address.
static GIVEN: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

fn given() -> MutexGuard<'static, BTreeMap<usize, Allocation>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of a new allocation, if transom can make it; `None` for 0 bytes, for which hosts
/// have answers of their own. The error is that of a handle that is not an info's.
fn allocated(size: isize, info: InfoHandle) -> Option<Result<*mut u8, NoInfo>> {
    let bytes = usize::try_from(size).ok().filter(|&bytes| bytes > 0)?;
    let job = process::get()?.job()?;
    if given().len() >= MOST {
        return None;
    }
    let info = match info_of(info) {
        Ok(info) => info,
        Err(none) => return Some(Err(none)),
    };
    let memory = job.alloc_mem_with(bytes, &info).ok()?;
    let first = memory.as_ptr();
    job.checker_memory(true);
    given().insert(first.addr(), memory);
    Some(Ok(first))
}

#[unsafe(export_name = "PMPI_Alloc_mem")]
pub(crate) unsafe extern "C" fn alloc_mem(size: isize, info: InfoHandle, base: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them.
    let by_host = || unsafe { host_Alloc_mem(size, info, base) };
    if base.is_null() {
        return by_host();
    }
    match allocated(size, info) {
        Some(Ok(first)) => {
            // SAFETY: the caller has room for an address there, as MPI demands.
            unsafe { base.cast::<*mut u8>().write(first) };
            SUCCESS
        }
        Some(Err(none)) => none.code(by_host),
        None => by_host(),
    }
}

/// Windows over the memory keep it.
#[unsafe(export_name = "PMPI_Free_mem")]
pub(crate) unsafe extern "C" fn free_mem(base: *mut c_void) -> c_int {
    if let Some(job) = process::get().and_then(process::Process::job)
        && given().contains_key(&base.addr())
    {
        job.checker_memory(false);
    }
    let ours = given().remove(&base.addr());
    match ours {
        Some(_) => SUCCESS,
        // SAFETY: as in `alloc_mem`.
        None => unsafe { host_Free_mem(base) },
    }
}
