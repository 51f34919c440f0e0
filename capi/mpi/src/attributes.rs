//! Attributes of a window (MPI-4.1 §12.2.3, §12.2.6, §12.2.7): its predefined attributes, the parts
//! that load and store reach, and its hints. The proxy holds the users' attributes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use transom::{Class, Info};

use crate::accesses;
use crate::errors::{Failure, Outcome, coded};
use crate::host::{
    Group, InfoHandle, Key, SUCCESS, Win, constants, host_Info_get_nkeys, host_Info_get_nthkey, host_Info_get_valuelen,
    host_Info_set, host_Win_get_attr, host_Win_get_group, host_Win_get_info, host_Win_set_info, host_info_get,
};
use crate::proxies;
use crate::windows::{self, Window, find};

/// The value of a predefined attribute of a window that transom serves, or the value's address, as
/// C programs get it (MPI-4.1 §12.2.6).
pub(crate) fn attribute(window: &Window, keyval: c_int) -> Option<*mut c_void> {
    let (host, values) = (constants(), &window.attributes);
    let address = match keyval {
        _ if keyval == host.win_base => return Some(window.raw.base().cast()),
        _ if keyval == host.win_size => (&raw const values.size).cast::<c_void>(),
        _ if keyval == host.win_disp_unit => (&raw const values.unit).cast(),
        _ if keyval == host.win_create_flavor => (&raw const values.flavor).cast(),
        _ if keyval == host.win_model => (&raw const values.model).cast(),
        _ => return None,
    };
    Some(address.cast_mut())
}

/// The keys of the attributes of the draft of RMA notification, as include/transom_mpi_notify.h has
/// them. No host gives an attribute such a key.
const NOTIFICATION_NUM_SB: c_int = -7001;
const NOTIFICATION_NUM_UB: c_int = -7002;
const NOTIFICATION_VALUE_UB: c_int = -7003;

/// The most counters of a window at one rank; fewer are no faster.
static MOST_COUNTERS: c_int = 4096;

/// The highest value of a counter (`MPI_Count`).
static HIGHEST_COUNT: i64 = i64::MAX;

/// The address of the value of one of these attributes.
fn notification(keyval: c_int) -> Option<*mut c_void> {
    let value: *const c_void = match keyval {
        NOTIFICATION_NUM_SB | NOTIFICATION_NUM_UB => (&raw const MOST_COUNTERS).cast(),
        NOTIFICATION_VALUE_UB => (&raw const HIGHEST_COUNT).cast(),
        _ => return None,
    };
    Some(value.cast_mut())
}

#[unsafe(export_name = "PMPI_Win_get_attr")]
pub(crate) unsafe extern "C" fn get_attr(win: Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
    let has_room = !value.is_null() && !flag.is_null();
    if let Some(found) = notification(keyval).filter(|_| win != constants().null_win) {
        if !has_room {
            return Failure::no_room("the value and the flag of an attribute").raise(win);
        }
        // SAFETY: the caller has room for an address and a number. A window of the host lacks the
        // attribute.
        unsafe {
            *flag = c_int::from(find(win).is_some());
            *value.cast::<*mut c_void>() = found;
        }
        return SUCCESS;
    }
    // The host reports null pointers.
    let window = find(win).filter(|_| has_room);
    let Some(found) = window.and_then(|window| attribute(window, keyval)) else {
        // SAFETY: the caller's arguments, as MPI defines them; so in all entry points.
        return unsafe { host_Win_get_attr(win, keyval, value, flag) };
    };
    // SAFETY: the caller has room for an address and a number.
    unsafe {
        *value.cast::<*mut c_void>() = found;
        *flag = 1;
    }
    SUCCESS
}

#[unsafe(export_name = "PMPI_Win_get_group")]
pub(crate) unsafe extern "C" fn get_group(win: Win, group: *mut Group) -> c_int {
    // The host reports a null pointer.
    let Some(window) = find(win).filter(|_| !group.is_null()) else {
        // SAFETY: as in `get_attr`.
        return unsafe { host_Win_get_group(win, group) };
    };
    // SAFETY: the caller has room for a handle, as MPI demands.
    unsafe { *group = window.members.lend() };
    SUCCESS
}

/// The part of a rank: size in bytes, displacement unit, first byte. The size is 0 if load and
/// store do not reach it (MPI-4.1 §12.2.6).
fn shared_part(window: &'static Window, rank: c_int) -> Outcome<(isize, isize, *mut u8)> {
    let whole = |number: usize| isize::try_from(number).unwrap_or(isize::MAX);
    match window.raw.shared_query(windows::target_rank(rank)?) {
        Ok(part) => {
            accesses::watch_queried(window, &part);
            Ok((whole(part.size()), whole(part.disp_unit() as usize), part.base()))
        }
        Err(error) if error.class() == Class::RmaShared => {
            Ok((0, whole(window.raw.disp_unit() as usize), std::ptr::null_mut()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Answers a query of a window that transom serves. `store` gets the displacement unit.
///
/// # Safety
/// There is room for the answers.
pub(crate) unsafe fn query(
    window: &'static Window,
    rank: c_int,
    (size, base): (*mut isize, *mut c_void),
    store: impl FnOnce(isize),
) -> c_int {
    let part = shared_part(window, rank);
    let (bytes, unit, first) = *part.as_ref().unwrap_or(&(0, 1, std::ptr::null_mut()));
    // SAFETY: the caller's promise. Written after a failure too, since an error handler may read
    // them.
    unsafe {
        *size = bytes;
        *base.cast::<*mut u8>() = first;
    }
    store(unit);
    coded(window.proxy, part.map(drop))
}

#[unsafe(export_name = "PMPI_Win_set_info")]
pub(crate) unsafe extern "C" fn set_info(win: Win, info: InfoHandle) -> c_int {
    // Hosts refuse the null handle.
    match find(win).filter(|_| info != constants().null_info) {
        Some(window) => match info_of(info) {
            Ok(read) => {
                proxies::hint(win, info);
                coded(win, window.raw.set_info(&read).map_err(Failure::from))
            }
            // SAFETY: as in `get_attr`.
            Err(none) => none.code(|| unsafe { host_Win_set_info(win, info) }),
        },
        // SAFETY: as in `get_attr`.
        None => unsafe { host_Win_set_info(win, info) },
    }
}

#[unsafe(export_name = "PMPI_Win_get_info")]
pub(crate) unsafe extern "C" fn get_info(win: Win, info: *mut InfoHandle) -> c_int {
    let Some(window) = find(win) else {
        // SAFETY: as in `get_attr`.
        return unsafe { host_Win_get_info(win, info) };
    };
    // SAFETY: the caller has room for a handle, and the texts live through the calls.
    unsafe {
        // The host's own hints are those of the proxy.
        let code = host_Win_get_info(win, info);
        if code != SUCCESS {
            return code;
        }
        for (key, value) in window.raw.info().iter() {
            if let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) {
                host_Info_set(*info, key.as_ptr(), value.as_ptr());
            }
        }
    }
    SUCCESS
}

/// The program's handle is not that of an info. Hosts report this to different error handlers.
#[derive(Debug)]
pub(crate) enum NoInfo {
    /// The host has reported it, with this code.
    Reported(c_int),
    /// The host reports it if the program's call is passed on to the host.
    Unreported,
}

impl NoInfo {
    /// The code of the program's call, which is `by_host` at the host.
    pub(crate) fn code(self, by_host: impl FnOnce() -> c_int) -> c_int {
        match self {
            NoInfo::Reported(code) => code,
            NoInfo::Unreported => by_host(),
        }
    }
}

/// The keys and values of an info of the host.
pub(crate) fn info_of(info: InfoHandle) -> Result<Info, NoInfo> {
    let mut read = Info::new().forgiving();
    if info == constants().null_info {
        return Ok(read);
    }
    // Open MPI reports a null pointer to the handler of the call's communicator or window. The call
    // below reports to the handler of `MPI_COMM_WORLD`, as MPICH does in every call.
    if cfg!(open_mpi) && info.key() == 0 {
        return Err(NoInfo::Unreported);
    }
    let mut count = -1;
    // SAFETY: the info is the caller's; the call writes a number.
    let code = unsafe { host_Info_get_nkeys(info, &raw mut count) };
    // MPICH 5 returns success after an error handler of the program.
    if code != SUCCESS || count < 0 {
        return Err(NoInfo::Reported(code));
    }
    let room = usize::try_from(constants().max_info_key).unwrap_or_default() + 1;
    for number in 0..count {
        let mut key = vec![0u8; room];
        // SAFETY: there is room for a key and its terminator.
        if unsafe { host_Info_get_nthkey(info, number, key.as_mut_ptr().cast::<c_char>()) } != SUCCESS {
            continue;
        }
        if let (Some(value), Ok(key)) = (value_of(info, &key), CStr::from_bytes_until_nul(&key)) {
            read = read.with(key.to_string_lossy(), value);
        }
    }
    Ok(read)
}

/// The value of a key that ends with a zero byte.
fn value_of(info: InfoHandle, key: &[u8]) -> Option<String> {
    let key = CStr::from_bytes_until_nul(key).ok()?.as_ptr();
    let (mut length, mut flag) = (0, 0);
    // SAFETY: the key is terminated; the calls write a text of that length, and numbers.
    let value = unsafe {
        host_Info_get_valuelen(info, key, &raw mut length, &raw mut flag);
        let mut value = vec![0u8; usize::try_from(length).ok()? + 1];
        host_info_get(info, key, length, value.as_mut_ptr().cast::<c_char>(), &raw mut flag);
        value
    };
    let text = CStr::from_bytes_until_nul(&value).ok()?;
    (flag != 0).then(|| text.to_string_lossy().into_owned())
}
