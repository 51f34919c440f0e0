//! A window: transom's, the face that the host has of it, and what calls on it need of both.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::{Class, Flavor, Model, PROC_NULL, RawWindow};

use crate::errors::{Failure, Outcome};
use crate::handles::Handles;
use crate::host::{Group, Win, constants, host_Group_free};
use crate::{members, process};

/// The windows that transom serves, by their faces.
static WINDOWS: Handles<Window> = Handles::new();

/// A window that transom serves.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) raw: RawWindow,
    /// The window of the host that the program knows.
    pub(crate) face: Win,
    /// Its ranks, of which the face knows nothing.
    pub(crate) group: Group,
    /// Held by synchronization calls where they may come from several threads at once.
    turn: Mutex<()>,
    pub(crate) attributes: Attributes,
    mapped: bool,
}

/// The values of the predefined attributes (MPI §11.2.6), whose addresses programs get.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) size: isize,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}

// SAFETY: handles are numbers, or addresses that only the host follows.
unsafe impl Send for Win {}
// SAFETY: as above.
unsafe impl Sync for Win {}

impl Window {
    /// A window with its face and the group of its ranks, which it frees.
    pub(crate) fn new(raw: RawWindow, face: Win, group: Group) -> Window {
        let host = constants();
        let flavor = match raw.flavor() {
            Flavor::Create => host.flavor_create,
            Flavor::Dynamic => host.flavor_dynamic,
            Flavor::Shared => host.flavor_shared,
            _ => host.flavor_allocate,
        };
        let attributes = Attributes {
            size: isize::try_from(raw.size()).unwrap_or(isize::MAX),
            unit: c_int::try_from(raw.disp_unit()).unwrap_or(c_int::MAX),
            flavor,
            model: if raw.model() == Model::Separate { host.separate } else { host.unified },
        };
        let mapped = raw.is_mapped();
        Window { raw, face, group, turn: Mutex::new(()), attributes, mapped }
    }

    /// Whether ranks of the node map each other's parts.
    #[inline]
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// The turn of a synchronization call: on one window the core takes them from one thread at a time.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        process::is_multiple().then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The members of a group as ranks of the window.
    pub(crate) fn ranks(&self, group: Group) -> Outcome<Vec<usize>> {
        let missing = || Failure::new(Class::Rank, "the group has ranks that are not in the window");
        members::translated(group, self.group).ok_or_else(missing)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the group was made for this window.
        unsafe { host_Group_free(&raw mut self.group) };
    }
}

/// The window with this face, if transom serves it.
#[inline]
pub(crate) fn find(face: Win) -> Option<&'static Window> {
    WINDOWS.get(face)
}

/// Keeps a window; whether there was room.
pub(crate) fn keep(window: Window) -> Outcome<()> {
    let face = window.face;
    WINDOWS.insert(face, window).map(drop).map_err(|_| Failure::new(Class::Win, "too many windows live"))
}

/// Forgets a window.
pub(crate) fn forget(face: Win) {
    WINDOWS.remove(face);
}

/// A target as transom has it.
#[inline]
pub(crate) fn rank(target: c_int) -> Outcome<usize> {
    match usize::try_from(target) {
        Ok(rank) => Ok(rank),
        Err(_) if target == constants().proc_null => Ok(PROC_NULL),
        Err(_) => Err(Failure::new(Class::Rank, format!("there is no rank {target}"))),
    }
}
