//! Memory that programs ask the MPI for (`MPI_Alloc_mem`, MPI §9.2): transom's while the job is up, so that windows over it are mapped by the
//! ranks of the node. What transom can't give, and what it did not give, is the host's.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Allocation;

use crate::attributes::info_of;
use crate::host::{InfoHandle, SUCCESS, host_Alloc_mem, host_Free_mem};
use crate::process;

/// How many pieces transom gives at once at most: each is a mapping of its own, of which the kernel lets a process have 65,530
/// (`vm.max_map_count`), whatever they are for.
const MOST: usize = 16_384;

/// The pieces that programs have, by their address.
static GIVEN: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

fn given() -> MutexGuard<'static, BTreeMap<usize, Allocation>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of memory of transom, if there is some; none for no bytes, for which hosts have answers of their own.
fn allocated(size: isize, info: InfoHandle) -> Option<*mut u8> {
    let bytes = usize::try_from(size).ok().filter(|&bytes| bytes > 0)?;
    let job = process::get()?.job()?;
    if given().len() >= MOST {
        return None;
    }
    let memory = job.alloc_mem(bytes, &info_of(info)).ok()?;
    let first = memory.as_ptr();
    given().insert(first.addr(), memory);
    Some(first)
}

#[unsafe(export_name = "MPI_Alloc_mem")]
pub(crate) unsafe extern "C" fn alloc_mem(size: isize, info: InfoHandle, base: *mut c_void) -> c_int {
    match allocated(size, info) {
        Some(first) => {
            // SAFETY: the caller has room for an address there, as MPI demands.
            unsafe { base.cast::<*mut u8>().write(first) };
            SUCCESS
        }
        // SAFETY: the caller's arguments, as MPI has them.
        None => unsafe { host_Alloc_mem(size, info, base) },
    }
}

/// Windows over the memory keep it.
#[unsafe(export_name = "MPI_Free_mem")]
pub(crate) unsafe extern "C" fn free_mem(base: *mut c_void) -> c_int {
    let ours = given().remove(&base.addr());
    match ours {
        Some(_) => SUCCESS,
        // SAFETY: as in `alloc_mem`.
        None => unsafe { host_Free_mem(base) },
    }
}
