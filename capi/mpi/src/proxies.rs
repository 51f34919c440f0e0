//! Creation of proxies. A proxy is a window of the host over this process alone, without memory.
//! The program gets its handle as the handle of a window that transom serves. For such a window the
//! host sets up nothing between ranks.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transom::Class;

use crate::errors::{Failure, Outcome};
use crate::fatal;
use crate::host::{
    Comm, Errhandler, InfoHandle, SUCCESS, Win, constants, host_Comm_dup, host_Comm_free, host_Comm_set_errhandler,
    host_Errhandler_free, host_Win_allocate, host_Win_allocate_shared, host_Win_create, host_Win_free,
    host_Win_get_errhandler, host_Win_set_errhandler, host_Win_set_info,
};
#[cfg(not(open_mpi))]
use crate::host::{host_Info_create, host_Info_free, host_Info_set};

/// The host's calls that create a window without memory.
#[derive(Clone, Copy, Debug)]
enum Way {
    AllocateShared,
    Allocate,
    Create,
}

/// The calls in the order in which they are tried. Open MPI does least in the first; a component
/// that the user chooses may not have all of them. MPICH 4.0 ends the process in the others if no
/// context identifier is left; this call returns an error.
const WAYS: &[Way] = if cfg!(open_mpi) { &[Way::AllocateShared, Way::Allocate, Way::Create] } else { &[Way::Create] };

/// How proxies are created.
#[derive(Debug)]
struct Chosen {
    /// A duplicate of `MPI_COMM_SELF` whose error handler returns, so that the library reports
    /// failures to the program's handler.
    comm: Comm,
    way: Way,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

// SAFETY: handles are numbers, or addresses that only the host dereferences.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

/// A window of the library that gets the hints of proxies first. Its error handler returns, so a
/// hint that the host refuses does no harm.
struct Trial(Win);

// SAFETY: as above.
unsafe impl Send for Trial {}

/// `None` before the first proxy can be created, and after the last one.
static TRIAL: Mutex<Option<Trial>> = Mutex::new(None);

fn trial() -> MutexGuard<'static, Option<Trial>> {
    TRIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while a proxy is created or freed.
static PROXIES: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread holds the lock.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// The lock, or nothing where this thread has held the lock before.
pub(crate) struct Held(Option<MutexGuard<'static, ()>>);

/// The lock under which proxies are created and freed: Open MPI 5 crashes if threads create windows
/// at the same time. A thread that holds the lock may take it again: the host calls delete
/// functions of the program where it frees a proxy, and such a function may create a window.
pub(crate) fn lock() -> Held {
    if HOLDS.replace(true) {
        return Held(None);
    }
    Held(Some(PROXIES.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0.is_some() {
            HOLDS.set(false);
        }
    }
}

/// Finds a way to create proxies, by a trial. Called after the host's start.
pub(crate) fn begin() -> Outcome<()> {
    let mut comm = constants().null_comm;
    // SAFETY: the host has started; the call writes a handle, which the next one gets.
    let code = unsafe {
        match host_Comm_dup(constants().comm_self, &raw mut comm) {
            SUCCESS => host_Comm_set_errhandler(comm, constants().errors_return),
            code => code,
        }
    };
    let mut last = code;
    for &way in WAYS.iter().filter(|_| code == SUCCESS) {
        match create_window(comm, way) {
            Ok(window) => {
                // SAFETY: a window of this process, which no other code uses.
                unsafe { host_Win_set_errhandler(window, constants().errors_return) };
                *trial() = Some(Trial(window));
                // Called once, so nothing is chosen yet.
                let _ = CHOSEN.set(Chosen { comm, way });
                return Ok(());
            }
            Err(code) => last = code,
        }
    }
    if comm != constants().null_comm {
        // SAFETY: the communicator is the library's own and not used any more.
        unsafe { host_Comm_free(&raw mut comm) };
    }
    Err(refused(last))
}

/// Frees the library's own window and the communicator of the proxies. No window is created after
/// this.
pub(crate) fn end() {
    if let Some(Trial(mut window)) = trial().take() {
        let _lock = lock();
        // SAFETY: the window is the library's own and not used any more.
        unsafe { host_Win_free(&raw mut window) };
    }
    if let Some(chosen) = CHOSEN.get() {
        let mut comm = chosen.comm;
        // SAFETY: the communicator is the library's own and not used any more.
        unsafe { host_Comm_free(&raw mut comm) };
    }
}

/// Creates a proxy.
pub(crate) fn create() -> Outcome<Win> {
    let none = || Failure::new(Class::Other, "transom does not serve windows in this process");
    // After the end the communicator is gone.
    let chosen = CHOSEN.get().filter(|_| trial().is_some()).ok_or_else(none)?;
    let _lock = lock();
    create_window(chosen.comm, chosen.way).map_err(refused)
}

/// Frees a proxy whose window was not created.
pub(crate) fn free(mut proxy: Win) {
    let _lock = lock();
    // SAFETY: a window of this process, which no other code uses. A failure leaves it.
    unsafe {
        host_Win_set_errhandler(proxy, constants().errors_return);
        host_Win_free(&raw mut proxy);
    }
}

/// The error handler of a window, for failures after the end of the proxy.
pub(crate) struct Handler {
    handler: Errhandler,
    /// Whether the program has set a handler that ends the program.
    is_set: bool,
}

impl Handler {
    pub(crate) fn of(proxy: Win) -> Handler {
        let mut handler = constants().errors_are_fatal;
        // SAFETY: a window of this process; the call writes a handle.
        unsafe { host_Win_get_errhandler(proxy, &raw mut handler) };
        Handler { handler, is_set: fatal::is_set(proxy) }
    }

    /// Passes a failure to the handler, with a new window instead of the proxy that has ended.
    /// Returns the code, if the handler returns. After `MPI_Finalize` no object of the host is left
    /// to call a handler on, so the call returns the code.
    pub(crate) fn raise(&self, failure: &Failure) -> c_int {
        let Ok(instead) = create() else {
            return if trial().is_some() { failure.raise_on(constants().world) } else { failure.code() };
        };
        // MPICH handles an error otherwise if the program has set this handler itself.
        if self.is_set || self.handler != constants().errors_are_fatal {
            // SAFETY: a window of this process, and the handler that this value holds.
            unsafe { fatal::set_errhandler(instead, self.handler) };
        }
        let code = failure.raise(instead);
        fatal::forget(instead);
        free(instead);
        code
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: the reference is this value's own.
        unsafe { host_Errhandler_free(&raw mut self.handler) };
    }
}

/// Gives the proxy the hints of its window, so that `MPI_Win_get_info` also returns those that only
/// the host knows. Hints that the host refuses are not given: the proxy's error handler is the
/// program's, and learns of no refusal.
pub(crate) fn hint(proxy: Win, info: InfoHandle) {
    if info == constants().null_info {
        return;
    }
    // SAFETY: both are windows of this process; the info is the caller's.
    unsafe {
        if trial().as_ref().is_some_and(|trial| host_Win_set_info(trial.0, info) == SUCCESS) {
            host_Win_set_info(proxy, info);
        }
    }
}

/// Gives the proxy of an allocated or shared window the hint that MPICH reports of such windows by
/// default. Called before [`hint`], whose hints replace this one.
#[cfg(not(open_mpi))]
pub(crate) fn hint_shared_memory(proxy: Win) {
    let mut info = constants().null_info;
    // SAFETY: the calls write a handle and copy the texts; the info is used and freed here.
    unsafe {
        if host_Info_create(&raw mut info) != SUCCESS {
            return;
        }
        host_Info_set(info, c"alloc_shm".as_ptr(), c"true".as_ptr());
        hint(proxy, info);
        host_Info_free(&raw mut info);
    }
}

fn refused(code: c_int) -> Failure {
    Failure::new(Class::Other, format!("the MPI could not create a window: error code {code}"))
}

/// Creates a window of the host, or returns its error code.
fn create_window(comm: Comm, way: Way) -> Result<Win, c_int> {
    let mut win = constants().null_win;
    let mut nothing = std::ptr::null_mut::<c_void>();
    let (info, base) = (constants().null_info, (&raw mut nothing).cast());
    // SAFETY: the calls write an address and a handle.
    let code = unsafe {
        match way {
            Way::AllocateShared => host_Win_allocate_shared(0, 1, info, comm, base, &raw mut win),
            Way::Allocate => host_Win_allocate(0, 1, info, comm, base, &raw mut win),
            Way::Create => host_Win_create(std::ptr::null_mut(), 0, 1, info, comm, &raw mut win),
        }
    };
    if code == SUCCESS { Ok(win) } else { Err(code) }
}
