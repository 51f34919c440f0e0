//! The ranks of a communicator as ranks of the job, determined once for each communicator and
//! cached with it.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use transom::Job;

use crate::host::{
    Comm, Group, SUCCESS, constants, host_Comm_free_keyval, host_Comm_get_attr, host_Comm_group, host_Comm_set_attr,
    host_Comm_size, host_Comm_test_inter, host_Group_free, host_Group_size, host_Group_translate_ranks,
    host_broadcast_number, host_comm_keyval,
};
use crate::keyvals::Keyval;
use crate::process;

/// The attribute key under which a communicator keeps its job.
static KEYVAL: Keyval = Keyval::none();

/// The reason why the host serves a window.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The library is switched off, or could not start and has reported that.
    Off,
    /// A property of this communicator.
    Why(&'static str),
    /// The host has reported the handle as no communicator, with this code.
    NoComm(c_int),
}

/// Creates the key, after the host's start.
pub(crate) fn begin() {
    let mut keyval = 0;
    // SAFETY: the call writes a number.
    if unsafe { host_comm_keyval(&raw mut keyval) } == SUCCESS {
        KEYVAL.set(keyval);
    }
}

/// Frees the key, before the host's end. No window is created after this.
pub(crate) fn end() {
    if let Some(mut keyval) = KEYVAL.take() {
        // SAFETY: the key is the library's own.
        unsafe { host_Comm_free_keyval(&raw mut keyval) };
    }
}

/// The data of a communicator, cached with it: its ranks never change.
struct Known {
    /// Whether it is no intercommunicator and all its ranks are processes of `MPI_COMM_WORLD`.
    of_world: bool,
    /// The job of its ranks, once a window was created over it.
    job: OnceLock<Job>,
}

/// The job of a communicator's ranks. Collective, with the same result at all of them.
pub(crate) fn job_of(comm: Comm) -> Result<Job, Refused> {
    if comm == constants().null_comm {
        return Err(Refused::Off);
    }
    let Some(process) = process::get() else {
        // No communicator of the World model: the host has not started, or the library is off.
        let is_of_session = comm != constants().world && comm != constants().comm_self && !process::has_begun();
        let why = "the program uses sessions alone, without MPI_Init, so transom does not serve it, and TRANSOM_CHECK does not check it";
        return Err(if is_of_session && !process::is_off() { Refused::Why(why) } else { Refused::Off });
    };
    let world = process.job().ok_or(Refused::Off)?;
    if comm == constants().world {
        return Ok(world);
    }
    let known = known(comm)?;
    if let Some(job) = known.and_then(|known| known.job.get()) {
        return Ok(job.clone());
    }
    let ranks = ranks_of(comm)?;
    // A member's list contains itself, and no rank twice. Several threads may use communicators of
    // the same ranks for the first time at the same time, in a different order at each rank. The
    // communicator itself distinguishes them.
    let job = world
        .subset_agreed(&ranks, |number| broadcast(comm, number))
        .map_err(|_| Refused::Why("the ranks of its communicator can't agree on a number for it"))?;
    if let Some(known) = known {
        // MPI does not let two threads create windows over one communicator at the same time.
        let _ = known.job.set(job.clone());
    }
    Ok(job)
}

/// The number of the communicator's first rank, at all ranks. `number` is this rank's. Collective.
fn broadcast(comm: Comm, mut number: u64) -> Option<u64> {
    // SAFETY: the communicator is valid, and all its ranks call this when they create their first
    // window over it.
    let code = unsafe { host_broadcast_number(comm, &raw mut number) };
    (code == SUCCESS).then_some(number)
}

/// Locked while data is cached with a communicator. Threads that are ranks of one communicator
/// (`MPIX_Threadcomm`) make its collective calls at the same time.
static CACHING: Mutex<()> = Mutex::new(());

/// The cached data of a communicator, which the first collective call on it determines. `None` if
/// nothing can be kept with it.
fn known(comm: Comm) -> Result<Option<&'static Known>, Refused> {
    let Some(keyval) = KEYVAL.get() else { return Ok(None) };
    let cached = || {
        let (mut value, mut flag) = (std::ptr::null_mut::<c_void>(), -1);
        // SAFETY: the host reports a handle that is no communicator; the calls write an address and
        // a number.
        let code = unsafe { host_Comm_get_attr(comm, keyval, (&raw mut value).cast(), &raw mut flag) };
        // MPICH 5 returns success after an error handler of the program.
        if code != SUCCESS || flag < 0 { Err(Refused::NoComm(code)) } else { Ok((value, flag != 0)) }
    };
    let (mut value, mut is_cached) = cached()?;
    let _caching = (!is_cached).then(|| CACHING.lock().unwrap_or_else(PoisonError::into_inner));
    if !is_cached {
        (value, is_cached) = cached()?;
    }
    if !is_cached {
        let known = Known { of_world: ranks_of(comm).is_ok(), job: OnceLock::new() };
        value = Box::into_raw(Box::new(known)).cast();
        // SAFETY: the communicator is valid. On success `transom_forget_comm` frees the box, else
        // it is freed here.
        unsafe {
            if host_Comm_set_attr(comm, keyval, value) != SUCCESS {
                drop(Box::from_raw(value.cast::<Known>()));
                return Ok(None);
            }
        }
    }
    // SAFETY: the attribute is a box of this function. It lives as long as the communicator, and
    // callers use it within a call on that.
    Ok(unsafe { value.cast::<Known>().as_ref() })
}

/// Called at the end of a communicator.
///
/// # Safety
/// `kept` is a box of [`known`], and is passed here once.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_forget_comm(kept: *mut c_void) {
    // SAFETY: it is a box of `known`, and is passed here once.
    drop(unsafe { Box::from_raw(kept.cast::<Known>()) });
}

/// Whether all ranks of a communicator, which is no intercommunicator, are of `MPI_COMM_WORLD`. The
/// answer is equal at all its ranks. The error is that of a handle that is no communicator, which
/// the host has reported.
pub(crate) fn are_of_world(comm: Comm) -> Result<bool, c_int> {
    // The call that gets the null handle reports it.
    if comm == constants().null_comm {
        return Ok(false);
    }
    if comm == constants().world {
        return Ok(true);
    }
    match known(comm) {
        Ok(Some(known)) => Ok(known.of_world),
        Ok(None) => Ok(ranks_of(comm).is_ok()),
        Err(Refused::NoComm(code)) => Err(code),
        Err(_) => Ok(false),
    }
}

/// The ranks of a communicator, as ranks of `MPI_COMM_WORLD`.
fn ranks_of(comm: Comm) -> Result<Vec<usize>, Refused> {
    let mut inter = 0;
    // SAFETY: the communicator is the caller's; the call writes a number.
    if unsafe { host_Comm_test_inter(comm, &raw mut inter) } != SUCCESS || inter != 0 {
        return Err(Refused::Why("its communicator is an intercommunicator"));
    }
    // SAFETY: zero is a value of a handle; the calls write groups.
    let (mut here, mut all) = unsafe { (std::mem::zeroed::<Group>(), std::mem::zeroed::<Group>()) };
    let mut size = 0;
    // SAFETY: the communicators are valid; the calls write a number and groups.
    unsafe {
        host_Comm_size(comm, &raw mut size);
        host_Comm_group(comm, &raw mut here);
        host_Comm_group(constants().world, &raw mut all);
    }
    let ranks = translated(here, all);
    // SAFETY: both are groups that are not used any more.
    unsafe {
        host_Group_free(&raw mut here);
        host_Group_free(&raw mut all);
    }
    let ranks = ranks.ok_or(Refused::Why("some ranks of its communicator are not in MPI_COMM_WORLD"))?;
    // MPICH has such communicators from 4.1 on (MPIX_Threadcomm_init). Their group is that of the
    // processes, and nonblocking collective calls on them are those of the processes.
    if usize::try_from(size) != Ok(ranks.len()) {
        return Err(Refused::Why("the ranks of its communicator are threads"));
    }
    Ok(ranks)
}

/// The members of a group by their ranks in another; `None` if a member is not in it.
pub(crate) fn translated(from: Group, to: Group) -> Option<Vec<usize>> {
    let mut count = 0;
    // SAFETY: both are groups; there is room for the answers.
    let ranks = unsafe {
        host_Group_size(from, &raw mut count);
        let members: Vec<c_int> = (0..count).collect();
        let mut ranks = members.clone();
        let code = host_Group_translate_ranks(from, count, members.as_ptr(), to, ranks.as_mut_ptr());
        if code == SUCCESS { ranks } else { return None }
    };
    // MPI_UNDEFINED is negative.
    ranks.into_iter().map(|rank| usize::try_from(rank).ok()).collect()
}
