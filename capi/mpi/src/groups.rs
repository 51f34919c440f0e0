//! The groups of windows, as `MPI_Win_get_group` gives them to programs. A window keeps one handle
//! of the host, and each call lends the program a reference to it: programs ask for the group
//! before each operation, and some never free it. The host would make a new group for each call.
//! `MPI_Group_free` returns lent references first, and then the host's own. The host counts all
//! references to a group alike, so it does not matter which of these references a program frees.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Class;

use crate::errors::{Failure, Outcome};
use crate::host::{Comm, Group, Key, SUCCESS, constants, host_Comm_group, host_Group_free};

/// The group of a window: a reference of the host.
#[derive(Debug)]
pub(crate) struct Members(Group);

/// The users of a group of the host.
#[derive(Default)]
struct Users {
    windows: u64,
    /// The references that programs have.
    lent: u64,
    /// The references of windows that have ended, to be freed after the last lent one.
    kept: u64,
}

/// The users of each window's group, by its handle.
static USERS: Mutex<BTreeMap<usize, Users>> = Mutex::new(BTreeMap::new());

/// The lock is not held while the host is called.
fn users() -> MutexGuard<'static, BTreeMap<usize, Users>> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Members {
    /// The group of a communicator.
    pub(crate) fn of(comm: Comm) -> Outcome<Members> {
        let mut group = constants().null_group;
        // SAFETY: the communicator is the caller's; the call writes a group.
        let code = unsafe { host_Comm_group(comm, &raw mut group) };
        if code != SUCCESS {
            let text = format!("the MPI could not make the group of the communicator: error code {code}");
            return Err(Failure::new(Class::Other, text));
        }
        users().entry(group.key()).or_default().windows += 1;
        Ok(Members(group))
    }

    pub(crate) fn group(&self) -> Group {
        self.0
    }

    /// A reference for the program.
    pub(crate) fn lend(&self) -> Group {
        users().entry(self.0.key()).or_default().lent += 1;
        self.0
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if !is_free(self.0) {
            return;
        }
        // SAFETY: the reference is this value's own.
        unsafe { host_Group_free(&raw mut self.0) };
    }
}

/// Ends a window's use of a group. Whether the window's reference is to be freed now.
fn is_free(group: Group) -> bool {
    let mut all = users();
    let Some(users) = all.get_mut(&group.key()) else { return true };
    users.windows -= 1;
    if users.lent > 0 {
        users.kept += 1;
        return false;
    }
    if users.windows == 0 {
        all.remove(&group.key());
    }
    true
}

/// Takes a lent reference back. Returns the number of references that are to be freed now; `None`
/// if no reference to the group is lent.
fn take_back(group: Group) -> Option<u64> {
    let mut all = users();
    let users = all.get_mut(&group.key()).filter(|users| users.lent > 0)?;
    users.lent -= 1;
    if users.lent > 0 {
        return Some(0);
    }
    let kept = std::mem::take(&mut users.kept);
    if users.windows == 0 {
        all.remove(&group.key());
    }
    Some(kept)
}

#[unsafe(export_name = "PMPI_Group_free")]
pub(crate) unsafe extern "C" fn free(group: *mut Group) -> c_int {
    // SAFETY: the caller has a handle there, as MPI demands. The host reports a null pointer.
    let held = unsafe { group.as_ref() }.copied();
    let Some((held, kept)) = held.and_then(|held| Some((held, take_back(held)?))) else {
        // SAFETY: the caller's argument.
        return unsafe { host_Group_free(group) };
    };
    for _ in 0..kept {
        let mut reference = held;
        // SAFETY: a reference of a window that has ended, freed once.
        unsafe { host_Group_free(&raw mut reference) };
    }
    // SAFETY: as above.
    unsafe { *group = constants().null_group };
    SUCCESS
}
