//! Creation and end of windows, and queries of them.

use std::ffi::{c_int, c_void};

use transom::{Job, RawWindow};

use crate::constants::{flavor, model, rank};
use crate::error::{Failure, TRANSOM_ERR_WIN, guarded};
use crate::info::{self, InfoHandle, hints};
use crate::job::{JobHandle, job, write_ranks};
use crate::pointers::{Out, borrowed, changed, out, size};

/// A window: memory of each rank of a job that the other ranks access. Several threads may call
/// operations and synchronization at once; collective calls (fence, free) come from one thread at a
/// time.
#[derive(Debug)]
pub struct WindowHandle(RawWindow);

const _: () = {
    const fn by_threads<T: Send + Sync>() {}
    by_threads::<RawWindow>();
};

/// The window of a handle.
///
/// # Safety
/// `window` is NULL or a live handle.
#[inline]
pub(crate) unsafe fn window<'a>(window: *const WindowHandle) -> Result<&'a RawWindow, Failure> {
    // SAFETY: the caller's promise.
    unsafe { borrowed(window, TRANSOM_ERR_WIN, "window") }.map(|window| &window.0)
}

fn give(slot: Out<*mut WindowHandle>, window: RawWindow) {
    slot.set(Box::into_raw(Box::new(WindowHandle(window))));
}

/// The address of a result of a creation. Where it is NULL, the creation fails at all ranks.
fn results<T>(job: &Job, address: Result<Out<T>, Failure>) -> Result<Out<T>, Failure> {
    address.inspect_err(|_| RawWindow::refuse(job))
}

/// Creates a window with the size bytes at base as this rank's part. Other ranks address the part
/// in units of disp_unit bytes. Collective. Sizes and units may differ between ranks. If the bytes
/// are within memory of transom_alloc_mem, ranks of the node map them, and the window keeps the
/// memory. Ranks of the node also map memory of allocated and shared windows, but this window does
/// not keep memory of other ranks, such as that of a contiguous shared window. The error is
/// TRANSOM_ERR_BASE for NULL with a size, TRANSOM_ERR_DISP for a unit of 0,
/// TRANSOM_ERR_INFO_VALUE for an illegal hint, and TRANSOM_ERR_OTHER if another rank has failed;
/// then no rank has the window.
///
/// # Safety
/// `job` is a live handle, `info` one or NULL; `window` points to writable memory. The memory at
/// `base` is readable and writable until transom_window_free has succeeded.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_create(
    job: *const JobHandle,
    base: *mut c_void,
    size: u64,
    disp_unit: u32,
    info: *const InfoHandle,
    window: *mut *mut WindowHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (job, info) = (self::job(job)?, hints(info));
        let slot = results(job, out(window, "window"))?;
        give(slot, RawWindow::create(job, base.cast(), self::size(size)?, disp_unit, &info)?);
        Ok(())
    })
}

/// Creates a window and allocates size zeroed bytes as this rank's part; *base is set to their
/// address. Other ranks address the part in units of disp_unit bytes. Collective.
/// transom_window_free frees the memory.
///
/// # Safety
/// `job` is a live handle, `info` one or NULL; `base` and `window` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_allocate(
    job: *const JobHandle,
    size: u64,
    disp_unit: u32,
    info: *const InfoHandle,
    base: *mut *mut c_void,
    window: *mut *mut WindowHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let job = self::job(job)?;
        let (base, slot) = (results(job, out(base, "base"))?, results(job, out(window, "window"))?);
        let made = RawWindow::allocate(job, self::size(size)?, disp_unit, &hints(info))?;
        base.set(made.base().cast());
        give(slot, made);
        Ok(())
    })
}

/// Creates a window whose memory all ranks load and store; they must be on one node. The parts are
/// contiguous in the order of the ranks, unless the hint alloc_shared_noncontig allows separate
/// parts. *base is set to the address of this rank's part. Collective.
///
/// # Safety
/// `job` is a live handle, `info` one or NULL; `base` and `window` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_allocate_shared(
    job: *const JobHandle,
    size: u64,
    disp_unit: u32,
    info: *const InfoHandle,
    base: *mut *mut c_void,
    window: *mut *mut WindowHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let job = self::job(job)?;
        let (base, slot) = (results(job, out(base, "base"))?, results(job, out(window, "window"))?);
        let made = RawWindow::allocate_shared(job, self::size(size)?, disp_unit, &hints(info))?;
        base.set(made.base().cast());
        give(slot, made);
        Ok(())
    })
}

/// Creates a window without memory, to which each rank attaches regions. Displacements are
/// addresses of the target. Collective.
///
/// # Safety
/// `job` is a live handle, `info` one or NULL; `window` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_create_dynamic(
    job: *const JobHandle,
    info: *const InfoHandle,
    window: *mut *mut WindowHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let job = self::job(job)?;
        let slot = results(job, out(window, "window"))?;
        give(slot, RawWindow::create_dynamic(job, &hints(info))?);
        Ok(())
    })
}

/// Attaches size bytes at base to a dynamic window. Local. The error is TRANSOM_ERR_RMA_ATTACH if
/// the bytes overlap an attached region, and TRANSOM_ERR_RMA_FLAVOR if the window is not dynamic.
///
/// # Safety
/// `window` is a live handle. The memory is readable and writable until it is detached, and no rank
/// accesses the memory afterwards.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_attach(window: *const WindowHandle, base: *mut c_void, size: u64) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { Ok(self::window(window)?.attach(base.cast(), self::size(size)?)?) })
}

/// Detaches the region that begins at base. Not collective. Over a net the call waits for an answer
/// of each rank whose net accesses the region; these ranks need not call anything. The error is
/// TRANSOM_ERR_RMA_ATTACH if no region begins at base, and TRANSOM_ERR_RMA_FLAVOR if the window is
/// not dynamic.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_detach(window: *const WindowHandle, base: *const c_void) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.detach(base.cast())?) })
}

/// Frees the window; collective. The handle becomes NULL, even if the call reports that an
/// operation has failed. Within an epoch the call fails, and the window does not change.
///
/// # Safety
/// `window` points to a live handle, which no other thread uses, or to NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_free(window: *mut *mut WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = changed(window, "window")?;
        let window = self::window(*slot)?;
        let freed = window.free();
        if window.is_freed() {
            drop(Box::from_raw(std::mem::replace(slot, std::ptr::null_mut())));
        }
        Ok(freed?)
    })
}

/// This rank's part: its address, its size in bytes, and its displacement unit. A dynamic window
/// has NULL, 0 and 1.
///
/// # Safety
/// `window` is a live handle; `base`, `size` and `disp_unit` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_part(
    window: *const WindowHandle,
    base: *mut *mut c_void,
    size: *mut u64,
    disp_unit: *mut u32,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        let (base, size, unit) = (out(base, "base")?, out(size, "size")?, out(disp_unit, "disp_unit")?);
        base.set(window.base().cast());
        size.set(window.size() as u64);
        unit.set(window.disp_unit());
        Ok(())
    })
}

/// The part of a rank, at the address at which this process can load and store it. For
/// TRANSOM_PROC_NULL, the part of the lowest rank whose part is not empty and that this process can
/// load and store.
///
/// # Safety
/// `window` is a live handle; `base`, `size` and `disp_unit` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_shared_query(
    window: *const WindowHandle,
    rank: c_int,
    base: *mut *mut c_void,
    size: *mut u64,
    disp_unit: *mut u32,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        let (base, size, unit) = (out(base, "base")?, out(size, "size")?, out(disp_unit, "disp_unit")?);
        let part = window.shared_query(self::rank(rank)?)?;
        base.set(part.base().cast());
        size.set(part.size() as u64);
        unit.set(part.disp_unit());
        Ok(())
    })
}

/// The source of the window's memory: TRANSOM_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC or _SHARED.
///
/// # Safety
/// `window` is a live handle; `flavor` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flavor(window: *const WindowHandle, flavor: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(flavor, "flavor")?);
        slot.set(self::flavor(window.flavor()));
        Ok(())
    })
}

/// The window's memory model: TRANSOM_MODEL_UNIFIED or TRANSOM_MODEL_SEPARATE.
///
/// # Safety
/// `window` is a live handle; `model` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_model(window: *const WindowHandle, model: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(model, "model")?);
        slot.set(self::model(window.model()));
        Ok(())
    })
}

/// The window's ranks, as ranks of the whole job. *count is set to their number, and the first
/// `capacity` of them are written to ranks.
///
/// # Safety
/// `window` is a live handle; `ranks` has room for `capacity` numbers; `count` points to writable
/// memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_group(
    window: *const WindowHandle,
    capacity: c_int,
    ranks: *mut c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { write_ranks(&self::window(window)?.group(), capacity, ranks, count) })
}

/// All hints with the values in force, as a new info, which the caller frees by transom_info_free.
///
/// # Safety
/// `window` is a live handle; `info` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_get_info(window: *const WindowHandle, info: *mut *mut InfoHandle) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(info, "info")?);
        slot.set(info::handle(window.info()));
        Ok(())
    })
}

/// Changes hints: no_locks, accumulate_ordering, accumulate_ops, same_size, same_disp_unit,
/// mpi_assert_max_num_notify and mpi_assert_same_num_notifications. The other hints are fixed at
/// creation. All ranks give equal values; the call does not communicate.
///
/// # Safety
/// `window` is a live handle, `info` one or NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_set_info(window: *const WindowHandle, info: *const InfoHandle) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { Ok(self::window(window)?.set_info(&hints(info))?) })
}
