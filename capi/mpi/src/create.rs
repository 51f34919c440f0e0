//! Creation and end of windows (MPI-4.1 §12.2), and memory that is attached to them. A rank makes
//! all that may fail at this rank alone, such as the proxy, before it takes part in the creation of
//! transom's window, which succeeds at all ranks or at none. The host creates the windows that
//! transom can't serve. All ranks of the communicator make the same choice.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(not(open_mpi))]
use transom::Flavor;
use transom::{Class, ErrorKind, Info, Job, RawWindow, diagnostics};

use crate::attributes::info_of;
#[cfg(not(open_mpi))]
use crate::cached;
use crate::errors::{Failure, Outcome, coded};
use crate::groups::Members;
use crate::host::{
    Comm, InfoHandle, SUCCESS, Win, constants, host_Comm_rank, host_Win_attach, host_Win_create_dynamic,
    host_Win_detach, host_Win_free,
};
use crate::members::{Refused, job_of};
use crate::windows::{self, Window};
use crate::{accesses, edges, fatal, outliving, process, proxies, report};

/// The target of this module's warnings.
const TARGET: &str = "transom::mpi";

/// How long a rank that may not free a window waits for the others before its error.
const PATIENCE: Duration = Duration::from_secs(2);

/// A size and a displacement unit in transom's form.
fn size_and_unit(size: isize, unit: isize) -> Outcome<(usize, u32)> {
    let size = usize::try_from(size).map_err(|_| Failure::new(Class::Size, format!("the size {size} is negative")))?;
    let unit = u32::try_from(unit).map_err(|_| {
        Failure::new(Class::Disp, format!("the displacement unit {unit} is not a number from 1 to {}", u32::MAX))
    })?;
    Ok((size, unit))
}

/// [`size_and_unit`] for a collective call. Invalid arguments become (0, 0), which creation rejects
/// at all ranks; this rank then raises its own failure, which is the second value.
fn collective_size_and_unit(size: isize, unit: isize) -> ((usize, u32), Option<Failure>) {
    match size_and_unit(size, unit) {
        Ok(valid) => (valid, None),
        Err(failure) => ((0, 0), Some(failure)),
    }
}

/// [`collective_size_and_unit`] for a call that stores the window's address at `base`.
fn collective_size_and_unit_into(base: *mut c_void, size: isize, unit: isize) -> ((usize, u32), Option<Failure>) {
    if base.is_null() {
        return ((0, 0), Some(Failure::no_room("the window's address")));
    }
    collective_size_and_unit(size, unit)
}

/// Creates a window over a communicator, whose ranks are `job`: by `by_transom`, or by `by_host` if
/// the host must serve the window. `own` is the failure of this rank's arguments.
fn make(
    job: Result<Job, Refused>,
    (info, comm, out): (InfoHandle, Comm, *mut Win),
    own: Option<Failure>,
    by_transom: impl FnOnce(&Job, &Info) -> transom::Result<RawWindow>,
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let mut no_info = None;
    let made = job.and_then(|job| {
        let hints = info_of(info).map_err(|none| no_info = Some(none)).ok().filter(|_| !out.is_null());
        let local = Local::of(comm);
        // The other ranks wait in the creation, so this rank must take part. An illegal hint makes
        // the creation fail at all ranks.
        let hints = hints.filter(|_| local.is_ok());
        let hints = hints.unwrap_or_else(|| Info::new().with("no_locks", "an invalid argument"));
        match by_transom(&job, &hints) {
            // All ranks get this error.
            Err(error) if matches!(error.kind(), ErrorKind::TooManyWindows { .. }) => {
                report_full(&error);
                Err(Refused::Off)
            }
            Err(error) => Ok(Err(own.or(local.err()).unwrap_or_else(|| error.into()))),
            Ok(raw) => Ok(local.and_then(|local| local.register(&job, info, raw))),
        }
    });
    if out.is_null() {
        return by_host();
    }
    if let Some(none) = no_info {
        // SAFETY: as below.
        unsafe { *out = constants().null_win };
        return none.code(by_host);
    }
    match made {
        Ok(Ok(proxy)) => {
            // SAFETY: the caller has room for a handle, as MPI demands.
            unsafe { *out = proxy };
            SUCCESS
        }
        Ok(Err(failure)) => {
            // SAFETY: the caller has room for a handle, as MPI demands. Written first, because an
            // error handler may never return.
            unsafe { *out = constants().null_win };
            failure.raise_on(comm)
        }
        Err(Refused::NoComm(code)) => {
            // SAFETY: as above.
            unsafe { *out = constants().null_win };
            code
        }
        Err(refused) => {
            report_refused(comm, &refused);
            // Hosts that refuse the window too leave the argument as it is.
            // SAFETY: as above. Written first, because an error handler may never return.
            unsafe { *out = constants().null_win };
            let code = by_host();
            if code == SUCCESS {
                // SAFETY: the host has written a handle.
                windows::forget(unsafe { *out });
            }
            code
        }
    }
}

/// The job, if all its ranks share memory with each other. All ranks have equal data about the
/// nodes, so they make the same choice.
fn sharing(job: Job) -> Result<Job, Refused> {
    if job.node_ranks().len() == job.size() {
        return Ok(job);
    }
    Err(Refused::Why("the ranks of its communicator do not all share memory by transom"))
}

/// What a window needs at this rank besides transom's window. Made before that, because it may fail
/// at this rank alone.
struct Local {
    proxy: Reserved,
    members: Members,
}

impl Local {
    fn of(comm: Comm) -> Outcome<Local> {
        Ok(Local { proxy: Reserved::new()?, members: Members::of(comm)? })
    }

    /// Enters `raw` as the window that serves the proxy.
    fn register(self, job: &Job, info: InfoHandle, raw: RawWindow) -> Outcome<Win> {
        let Local { proxy, members } = self;
        #[cfg(not(open_mpi))]
        if matches!(raw.flavor(), Flavor::Allocate | Flavor::Shared) {
            proxies::hint_shared_memory(proxy.0);
        }
        proxies::hint(proxy.0, info);
        report::made(job, &raw);
        accesses::watch(windows::insert(Window::new(raw, proxy.0, members))?);
        Ok(ManuallyDrop::new(proxy).0)
    }
}

/// A proxy with a place in the map of windows. Freed on drop, if no window was created for it.
struct Reserved(Win);

impl Reserved {
    fn new() -> Outcome<Reserved> {
        let reserved = Reserved(proxies::create()?);
        windows::reserve(reserved.0)?;
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Before the proxy is freed: another thread's new window may then get the same handle.
        windows::forget(self.0);
        proxies::free(self.0);
    }
}

/// Prints one warning for all windows that the host serves because transom has no room for them.
fn report_full(error: &transom::Error) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let first = process::get().and_then(process::Process::job).is_some_and(|world| world.rank() == 0);
    if first && !REPORTED.swap(true, Ordering::Relaxed) {
        diagnostics::warn(TARGET, &format_args!("windows are served by the MPI itself: {error:#}"));
    }
}

/// Prints a warning, by rank 0, for the first window that the host serves for a reason.
fn report_refused(comm: Comm, refused: &Refused) {
    static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let Refused::Why(why) = refused else { return };
    {
        let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.contains(why) {
            return;
        }
        reported.push(why);
    }
    let mut rank = 0;
    // SAFETY: the communicator is the caller's; the call writes a number.
    unsafe { host_Comm_rank(comm, &raw mut rank) };
    if rank == 0 {
        let what = format_args!("a window is served by the MPI itself: {why}");
        diagnostics::warn(TARGET, &what);
    }
}

/// `MPI_Win_create`, by `by_host` if the host must serve the window.
///
/// # Safety
/// The arguments are a program's, as MPI defines them.
pub(crate) unsafe fn create_window(
    base: *mut c_void,
    size: isize,
    unit: isize,
    (info, comm, win): (InfoHandle, Comm, *mut Win),
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let ((size, unit), own) = collective_size_and_unit(size, unit);
    let by_transom = |job: &Job, info: &Info| {
        // SAFETY: the program promises that the memory stays until MPI_Win_free (MPI-4.1 §12.2.1).
        unsafe { RawWindow::create(job, base.cast(), size, unit, info) }
    };
    make(job_of(comm), (info, comm, win), own, by_transom, by_host)
}

/// `MPI_Win_allocate`, by `by_host` if the host must serve the window.
///
/// # Safety
/// The arguments are a program's, as MPI defines them.
pub(crate) unsafe fn allocate_window(
    size: isize,
    unit: isize,
    (info, comm, base, win): (InfoHandle, Comm, *mut c_void, *mut Win),
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let ((size, unit), own) = collective_size_and_unit_into(base, size, unit);
    let by_transom = |job: &Job, info: &Info| {
        let raw = RawWindow::allocate(job, size, unit, info)?;
        // SAFETY: the caller has room for an address there, as MPI demands; a unit of 0, for NULL,
        // is rejected.
        unsafe { *base.cast::<*mut u8>() = raw.base() };
        Ok(raw)
    };
    make(job_of(comm), (info, comm, win), own, by_transom, by_host)
}

/// `MPI_Win_allocate_shared`, by `by_host` if the host must serve the window.
///
/// # Safety
/// The arguments are a program's, as MPI defines them.
pub(crate) unsafe fn allocate_shared_window(
    size: isize,
    unit: isize,
    (info, comm, base, win): (InfoHandle, Comm, *mut c_void, *mut Win),
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let ((size, unit), own) = collective_size_and_unit_into(base, size, unit);
    let by_transom = |job: &Job, info: &Info| {
        let raw = RawWindow::allocate_shared(job, size, unit, info)?;
        // SAFETY: as in `allocate_window`.
        unsafe { *base.cast::<*mut u8>() = raw.base() };
        Ok(raw)
    };
    make(job_of(comm).and_then(sharing), (info, comm, win), own, by_transom, by_host)
}

#[unsafe(export_name = "PMPI_Win_create_dynamic")]
pub(crate) unsafe extern "C" fn create_dynamic(info: InfoHandle, comm: Comm, win: *mut Win) -> c_int {
    let by_transom = |job: &Job, info: &Info| RawWindow::create_dynamic(job, info);
    // SAFETY: the caller's arguments, as MPI defines them; so in all entry points.
    make(job_of(comm), (info, comm, win), None, by_transom, || unsafe { host_Win_create_dynamic(info, comm, win) })
}

#[unsafe(export_name = "PMPI_Win_attach")]
pub(crate) unsafe extern "C" fn attach(win: Win, base: *mut c_void, size: isize) -> c_int {
    let Some(window) = windows::find(win) else {
        // SAFETY: as in `create_dynamic`.
        return unsafe { host_Win_attach(win, base, size) };
    };
    // SAFETY: the program promises that the memory stays until it is detached (MPI-4.1 §12.2.4).
    let attach = |(size, _)| unsafe { window.raw.attach(base.cast(), size) }.map_err(Failure::from).map(|()| size);
    let attached = size_and_unit(size, 1).and_then(attach);
    coded(win, attached.map(|size| accesses::watch_attached(window, base.addr(), size)))
}

#[unsafe(export_name = "PMPI_Win_detach")]
pub(crate) unsafe extern "C" fn detach(win: Win, base: *const c_void) -> c_int {
    match windows::find(win) {
        Some(window) => {
            accesses::forget_attached(window, base.addr());
            coded(win, window.raw.detach(base.cast()).map_err(Failure::from))
        }
        // SAFETY: as in `create_dynamic`.
        None => unsafe { host_Win_detach(win, base) },
    }
}

/// Deletes the attributes of a window. The ranks agree whether this has succeeded at all of them.
#[cfg(not(open_mpi))]
fn delete_attributes(proxy: Win, window: Option<&Window>) -> Result<(), c_int> {
    let own = cached::delete_all(proxy);
    match window.map_or(Ok(true), |window| window.raw.all_agree(own == SUCCESS)) {
        _ if own != SUCCESS => Err(own),
        Ok(true) => Ok(()),
        Ok(false) => {
            let text = "a delete function of the window's attributes failed at another rank, so the window remains";
            Err(Failure::new(Class::Other, text).raise(proxy))
        }
        Err(error) => Err(Failure::from(error).raise(proxy)),
    }
}

/// Whether this rank may free a window. The call waits for the other ranks only while the conflict
/// checker is on.
fn may_free(window: &Window) -> Outcome<()> {
    let own = window.raw.may_free().map_err(Failure::from);
    if !edges::is_on() {
        return own;
    }
    if own.is_err() {
        // This rank's own failure comes first.
        drop(all_may_free(window, false));
        return own;
    }
    // As without the checker, this rank waits until a refused rank calls the function again.
    while !all_may_free(window, true)? {}
    Ok(())
}

/// Whether all ranks may free a window; `own`: whether this rank may. If not, the ranks first
/// exchange their accesses and report conflicts, because an error handler may then end the job. A
/// rank that may not free the window waits only for [`PATIENCE`]: the mistake for which it is
/// refused may keep the others from this call.
fn all_may_free(window: &Window, own: bool) -> transom::Result<bool> {
    if !window.raw.assemble_to_free((!own).then_some(PATIENCE))? {
        return Ok(false);
    }
    let all = window.raw.all_agree(own)?;
    if !all {
        window.raw.all_agree(true)?;
    }
    Ok(all)
}

#[unsafe(export_name = "PMPI_Win_free")]
pub(crate) unsafe extern "C" fn free(win: *mut Win) -> c_int {
    if win.is_null() {
        // SAFETY: the host reports the null pointer.
        return unsafe { host_Win_free(win) };
    }
    // SAFETY: the caller has a handle there.
    let proxy = unsafe { *win };
    let window = windows::find(proxy);
    if let Some(Err(failure)) = window.map(may_free) {
        return failure.raise(proxy);
    }
    // The program's delete functions may still use the window. If one of them fails at any rank,
    // the window remains at all ranks.
    #[cfg(not(open_mpi))]
    if let Err(code) = delete_attributes(proxy, window) {
        return code;
    }
    let handler = window.map(|_| proxies::Handler::of(proxy));
    // Before the host may give the handle to another window.
    let was_fatal = fatal::forget(proxy);
    // MPICH 5 crashes where a thread frees a window while another one creates one. Open MPI would
    // call the program's delete functions, which may create windows, under the lock.
    let lock = (!cfg!(open_mpi) && window.is_some()).then(proxies::lock);
    // SAFETY: as in `create_dynamic`.
    let free = || unsafe { host_Win_free(win) };
    #[cfg(not(open_mpi))]
    let code = cached::forget_freed(proxy, free);
    #[cfg(open_mpi)]
    let code = free();
    drop(lock);
    if code != SUCCESS && was_fatal {
        fatal::remember(proxy);
    }
    let Some((window, handler)) = window.zip(handler) else { return code };
    if code != SUCCESS {
        return code;
    }
    accesses::forget(window);
    let freed = window.raw.free();
    if window.raw.is_freed() {
        // SAFETY: all ranks have freed the window, and MPI forbids calls that race with that.
        unsafe { windows::remove(proxy, window) };
    }
    if !windows::any_exists() {
        outliving::end();
    }
    match freed {
        Ok(()) => SUCCESS,
        // The proxy, which had the error handler, has ended.
        Err(error) => handler.raise(&error.into()),
    }
}
