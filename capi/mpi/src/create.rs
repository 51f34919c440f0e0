//! How windows come and go (MPI §11.2): transom's first, since it comes at all ranks or at none, then the face. What transom can't
//! serve is made by the host, which all ranks of the communicator decide alike.

use std::ffi::{c_int, c_void};

use transom::{Class, Info, Job, RawWindow, Route};

use crate::attributes::info_of;
use crate::errors::{Failure, Outcome, coded};
use crate::host::{
    Comm, Group, InfoHandle, SUCCESS, Win, constants, host_Comm_group, host_Comm_rank, host_Win_allocate,
    host_Win_allocate_shared, host_Win_attach, host_Win_create, host_Win_create_dynamic, host_Win_detach,
    host_Win_free,
};
use crate::members::{Refused, job_of};
use crate::process;
use crate::windows::{self, Window};

/// A size and a displacement unit as transom has them.
fn measures(size: isize, unit: isize) -> Outcome<(usize, u32)> {
    let size = usize::try_from(size).map_err(|_| Failure::new(Class::Size, format!("a size of {size} bytes")))?;
    let unit = u32::try_from(unit).map_err(|_| Failure::new(Class::Disp, format!("a displacement unit of {unit}")))?;
    Ok((size, unit))
}

/// Makes a window over a communicator, whose ranks are `job`: by `ours`, or by `theirs` where the host must serve it.
fn make(
    job: Result<Job, Refused>,
    (info, comm, out): (InfoHandle, Comm, *mut Win),
    ours: impl FnOnce(&Job, &Info) -> Outcome<RawWindow>,
    theirs: impl FnOnce() -> c_int,
) -> c_int {
    let job = match job {
        Ok(job) => job,
        Err(refused) => {
            tell_refused(comm, &refused);
            return theirs();
        }
    };
    match ours(&job, &info_of(info)).and_then(|raw| register(&job, comm, raw)) {
        Ok(face) => {
            // SAFETY: the caller has room for a handle, as MPI demands.
            unsafe { *out = face };
            SUCCESS
        }
        Err(failure) => failure.raise_on(comm),
    }
}

/// A job whose ranks share memory all with each other. What all ranks know of nodes is the same.
fn sharing(job: Job) -> Result<Job, Refused> {
    if job.node_ranks().len() == job.size() {
        return Ok(job);
    }
    Err(Refused::Why("the ranks do not share memory by transom"))
}

/// Gives a window its face: a window of this process alone, so that the host sets up nothing between ranks.
fn register(job: &Job, comm: Comm, raw: RawWindow) -> Outcome<Win> {
    let mut face = constants().null_win;
    // SAFETY: zero is a value of a handle.
    let mut group = unsafe { std::mem::zeroed::<Group>() };
    let mut nothing = std::ptr::null_mut::<c_void>();
    // Of all ways to make one, hosts do least in this one, where there is nobody to share with.
    // SAFETY: it writes an address and a handle.
    let code = unsafe {
        let (info, alone, base) = (constants().null_info, constants().alone, (&raw mut nothing).cast());
        host_Win_allocate_shared(0, 1, info, alone, base, &raw mut face)
    };
    if code != SUCCESS {
        raw.free()?;
        return Err(Failure::new(Class::Other, format!("the MPI made no window: error code {code}")));
    }
    // SAFETY: the communicator is the caller's; it writes a group.
    unsafe { host_Comm_group(comm, &raw mut group) };
    tell_made(job, &raw);
    windows::keep(Window::new(raw, face, group))?;
    Ok(face)
}

/// Says what a window is, where the user asked for it.
fn tell_made(job: &Job, raw: &RawWindow) {
    if !process::get().is_some_and(|process| process.info) || job.rank() != 0 {
        return;
    }
    let how = if raw.is_mapped() { "" } else { ", not all mapped" };
    let count = |route| (0..job.size()).filter(|&rank| raw.route(rank).ok() == Some(route)).count();
    eprintln!(
        "transom: window {:?} of {} ranks: from its rank 0 {} by shared memory{how}, {} by the net; atomics {}",
        raw.flavor(),
        job.size(),
        count(Route::Shm),
        count(Route::Net),
        raw.actor()
    );
}

/// One line of warning by rank 0 of a window that the host serves.
fn tell_refused(comm: Comm, refused: &Refused) {
    let Refused::Why(why) = refused else { return };
    let mut rank = 0;
    // SAFETY: the communicator is the caller's; it writes a number.
    unsafe { host_Comm_rank(comm, &raw mut rank) };
    if rank == 0 {
        eprintln!("transom: warning: a window is served by the MPI itself: of its communicator, {why}");
    }
}

/// `MPI_Win_create`, by `theirs` where the host must serve it.
///
/// # Safety
/// The arguments are a program's, as MPI has them.
pub(crate) unsafe fn create_window(
    base: *mut c_void,
    size: isize,
    unit: isize,
    (info, comm, win): (InfoHandle, Comm, *mut Win),
    theirs: impl FnOnce() -> c_int,
) -> c_int {
    let ours = |job: &Job, info: &Info| {
        // Who gives nonsense fails at all ranks, as the core tells them.
        let (size, unit) = measures(size, unit).unwrap_or((0, 0));
        // SAFETY: the program promises that the memory stays until MPI_Win_free (MPI §11.2.1).
        Ok(unsafe { RawWindow::create(job, base.cast(), size, unit, info) }?)
    };
    make(job_of(comm), (info, comm, win), ours, theirs)
}

/// `MPI_Win_allocate`, likewise.
///
/// # Safety
/// The arguments are a program's, as MPI has them.
pub(crate) unsafe fn allocate_window(
    size: isize,
    unit: isize,
    (info, comm, base, win): (InfoHandle, Comm, *mut c_void, *mut Win),
    theirs: impl FnOnce() -> c_int,
) -> c_int {
    let ours = |job: &Job, info: &Info| {
        let (size, unit) = measures(size, unit).unwrap_or((0, 0));
        let raw = RawWindow::allocate(job, size, unit, info)?;
        // SAFETY: the caller has room for an address there, as MPI demands.
        unsafe { *base.cast::<*mut u8>() = raw.base() };
        Ok(raw)
    };
    make(job_of(comm), (info, comm, win), ours, theirs)
}

/// `MPI_Win_allocate_shared`, likewise.
///
/// # Safety
/// The arguments are a program's, as MPI has them.
pub(crate) unsafe fn allocate_shared_window(
    size: isize,
    unit: isize,
    (info, comm, base, win): (InfoHandle, Comm, *mut c_void, *mut Win),
    theirs: impl FnOnce() -> c_int,
) -> c_int {
    let ours = |job: &Job, info: &Info| {
        let (size, unit) = measures(size, unit).unwrap_or((0, 0));
        let raw = RawWindow::allocate_shared(job, size, unit, info)?;
        // SAFETY: as in `allocate_window`.
        unsafe { *base.cast::<*mut u8>() = raw.base() };
        Ok(raw)
    };
    make(job_of(comm).and_then(sharing), (info, comm, win), ours, theirs)
}

#[unsafe(export_name = "MPI_Win_create")]
pub(crate) unsafe extern "C" fn create(
    base: *mut c_void,
    size: isize,
    unit: c_int,
    info: InfoHandle,
    comm: Comm,
    win: *mut Win,
) -> c_int {
    // SAFETY: the caller's arguments, as MPI has them; so in all entry points.
    unsafe {
        let theirs = || host_Win_create(base, size, unit, info, comm, win);
        create_window(base, size, unit as isize, (info, comm, win), theirs)
    }
}

#[unsafe(export_name = "MPI_Win_allocate")]
pub(crate) unsafe extern "C" fn allocate(
    size: isize,
    unit: c_int,
    info: InfoHandle,
    comm: Comm,
    base: *mut c_void,
    win: *mut Win,
) -> c_int {
    // SAFETY: as in `create`.
    unsafe {
        let theirs = || host_Win_allocate(size, unit, info, comm, base, win);
        allocate_window(size, unit as isize, (info, comm, base, win), theirs)
    }
}

#[unsafe(export_name = "MPI_Win_allocate_shared")]
pub(crate) unsafe extern "C" fn allocate_shared(
    size: isize,
    unit: c_int,
    info: InfoHandle,
    comm: Comm,
    base: *mut c_void,
    win: *mut Win,
) -> c_int {
    // SAFETY: as in `create`.
    unsafe {
        let theirs = || host_Win_allocate_shared(size, unit, info, comm, base, win);
        allocate_shared_window(size, unit as isize, (info, comm, base, win), theirs)
    }
}

#[unsafe(export_name = "MPI_Win_create_dynamic")]
pub(crate) unsafe extern "C" fn create_dynamic(info: InfoHandle, comm: Comm, win: *mut Win) -> c_int {
    let ours = |job: &Job, info: &Info| Ok(RawWindow::create_dynamic(job, info)?);
    // SAFETY: as in `create`.
    make(job_of(comm), (info, comm, win), ours, || unsafe { host_Win_create_dynamic(info, comm, win) })
}

#[unsafe(export_name = "MPI_Win_attach")]
pub(crate) unsafe extern "C" fn attach(win: Win, base: *mut c_void, size: isize) -> c_int {
    let Some(window) = windows::find(win) else {
        // SAFETY: as in `create`.
        return unsafe { host_Win_attach(win, base, size) };
    };
    // SAFETY: the program promises that the memory stays until it is detached (MPI §11.2.4).
    let attach = |(size, _)| unsafe { window.raw.attach(base.cast(), size) }.map_err(Failure::from);
    coded(win, measures(size, 1).and_then(attach))
}

#[unsafe(export_name = "MPI_Win_detach")]
pub(crate) unsafe extern "C" fn detach(win: Win, base: *const c_void) -> c_int {
    match windows::find(win) {
        Some(window) => coded(win, window.raw.detach(base.cast()).map_err(Failure::from)),
        // SAFETY: as in `create`.
        None => unsafe { host_Win_detach(win, base) },
    }
}

#[unsafe(export_name = "MPI_Win_free")]
pub(crate) unsafe extern "C" fn free(win: *mut Win) -> c_int {
    // SAFETY: the caller has a handle there.
    let face = unsafe { *win };
    if let Some(window) = windows::find(face) {
        let freed = {
            let _turn = window.turn();
            window.raw.free()
        };
        if let Err(error) = freed {
            return Failure::from(error).raise(face);
        }
        windows::forget(face);
    }
    // SAFETY: as in `create`.
    unsafe { host_Win_free(win) }
}
