//! libfabric, opened at run time: a program starts without the library, and reports it missing on
//! use.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

use libloading::Library as Dynamic;
use transom_fabric::{Cause, FabricError};

use crate::rules::Hints;
use crate::signals::keeping_handlers;
use crate::sys;

/// The library's name for the dynamic loader.
pub const SONAME: &str = "libfabric.so.1";
/// The transport's name in errors.
const TRANSPORT: &str = "libfabric";
/// The oldest version that is used.
const OLDEST: u32 = sys::version(1, 15);

/// `fi_getinfo`.
pub type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const sys::fi_info, *mut *mut sys::fi_info) -> c_int;

/// The library's functions that are in no object's table.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, missing_docs)]
pub struct Functions {
    pub getinfo: GetInfo,
    pub freeinfo: unsafe extern "C" fn(*mut sys::fi_info),
    pub dupinfo: unsafe extern "C" fn(*const sys::fi_info) -> *mut sys::fi_info,
    pub fabric: unsafe extern "C" fn(*mut sys::fi_fabric_attr, *mut *mut sys::fid_fabric, *mut c_void) -> c_int,
    pub strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// The opened library, which is never unloaded.
pub struct Library {
    version: u32,
    functions: Functions,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "libfabric {}", self.version())
    }
}

/// An entry of `fi_getinfo`'s list, owned.
pub struct Info {
    raw: *mut sys::fi_info,
    library: Arc<Library>,
    /// Order that the provider promises without atomics, in addition to the entry's order.
    order_without_atomics: u64,
    /// If puts carry notices, the most unread notices of an origin at this process.
    share: Option<u64>,
}

// SAFETY: the structure is owned and not tied to a thread.
unsafe impl Send for Info {}
// SAFETY: the structure changes only by `&mut self`.
unsafe impl Sync for Info {}

impl Library {
    /// Opens the library.
    ///
    /// # Errors
    /// `Unavailable`, with instructions to install it.
    pub fn open(soname: &str) -> Result<Arc<Library>, FabricError> {
        let missing = |error: libloading::Error| {
            let text = format!("{}; on Debian: apt-get install libfabric1", loader_message(&error));
            FabricError::unavailable(TRANSPORT, Cause::Setup(text))
        };
        // SAFETY: libfabric's initializers only register providers; no other thread depends on
        // their order.
        let dynamic = keeping_handlers(|| unsafe { Dynamic::new(soname) }).map_err(missing)?;
        // SAFETY: the types are those of man fi_getinfo, fi_version, fi_fabric, fi_errno; the
        // default symbol versions of 1.x and 2.x keep them for the structures declared in `sys`.
        unsafe {
            let version = *dynamic.get::<unsafe extern "C" fn() -> u32>(b"fi_version\0").map_err(missing)?;
            let functions = Functions {
                getinfo: *dynamic.get(b"fi_getinfo\0").map_err(missing)?,
                freeinfo: *dynamic.get(b"fi_freeinfo\0").map_err(missing)?,
                dupinfo: *dynamic.get(b"fi_dupinfo\0").map_err(missing)?,
                fabric: *dynamic.get(b"fi_fabric\0").map_err(missing)?,
                strerror: *dynamic.get(b"fi_strerror\0").map_err(missing)?,
            };
            // The library is never unloaded: its initializers allocate at each load, and its
            // threads outlive its objects.
            std::mem::forget(dynamic);
            let version = version();
            check_version(version)?;
            Ok(Library::of(version, functions))
        }
    }

    /// A library with other functions. Tests use it to replace a provider that the machine lacks.
    ///
    /// # Safety
    /// The functions behave as libfabric documents.
    pub unsafe fn of(version: u32, functions: Functions) -> Arc<Library> {
        Arc::new(Library { version, functions })
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The library's version, as `1.17`.
    pub fn version(&self) -> String {
        version_text(self.version)
    }

    /// The version as a number.
    pub(crate) fn number(&self) -> u32 {
        self.version
    }

    /// Whether the library is older than `version`.
    pub(crate) fn is_before(&self, version: u32) -> bool {
        self.version < version
    }

    /// The requested API version: 1.17, or the library's own version if that is older.
    pub fn api(&self) -> u32 {
        api_for(self.version)
    }

    /// An error number of the library, negative or positive, as the cause of a failure.
    pub fn strerror(&self, error: isize) -> Cause {
        let number = c_int::try_from(error.abs()).unwrap_or(c_int::MAX);
        // SAFETY: the library returns a static string for every number.
        let text = unsafe { CStr::from_ptr((self.functions.strerror)(number)) };
        // Providers cancel the operations in flight on a connection that ends.
        let ended = if number == libc::ECANCELED { ": the connection to the peer has ended" } else { "" };
        Cause::library("libfabric", error as i64, format!("{} ({error}){ended}", text.to_string_lossy()), number)
    }

    /// The library's answer to `hints`: at least one entry.
    ///
    /// # Errors
    /// The error number: 61 (`FI_ENODATA`) where no provider fits.
    pub(crate) fn query(self: &Arc<Self>, hints: &Hints<'_>) -> Result<Vec<Info>, isize> {
        let node = hints.node.and_then(|node| CString::new(node).ok());
        let name = CString::new(hints.provider).map_err(|_| -22isize)?;
        let mut found = std::ptr::null_mut();
        // SAFETY: `dupinfo(null)` makes empty hints with all attribute structures. `freeinfo` frees
        // the provider's name by C's `free`, so C's `strdup` makes the copy.
        let status = unsafe {
            let wanted = (self.functions.dupinfo)(std::ptr::null());
            if wanted.is_null() {
                return Err(-12);
            }
            (*(*wanted).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            (*wanted).caps = hints.caps;
            (*wanted).mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
            (*(*wanted).ep_attr).type_ = sys::FI_EP_RDM;
            (*(*wanted).tx_attr).msg_order = hints.order;
            (*(*wanted).rx_attr).msg_order = hints.order;
            let domain = &mut *(*wanted).domain_attr;
            domain.mr_mode = hints.mr_mode;
            domain.cq_data_size = hints.data;
            domain.threading = sys::FI_THREAD_SAFE;
            domain.data_progress = hints.progress;
            domain.av_type = sys::FI_AV_TABLE;
            let (node, flags) = node.as_ref().map_or((std::ptr::null(), 0), |node| (node.as_ptr(), sys::FI_SOURCE));
            let status = (self.functions.getinfo)(self.api(), node, std::ptr::null(), flags, wanted, &raw mut found);
            (self.functions.freeinfo)(wanted);
            status
        };
        if status != 0 || found.is_null() {
            return Err(status as isize);
        }
        Ok(self.entries(found))
    }

    /// Duplicates each entry of a list and frees the list.
    fn entries(self: &Arc<Self>, list: *mut sys::fi_info) -> Vec<Info> {
        let list = self.entry(list);
        let mut entries = Vec::new();
        let mut entry = list.raw;
        while !entry.is_null() {
            // SAFETY: an entry of the list, which lives until the end of this function;
            // `fi_dupinfo` copies only this entry (man fi_getinfo).
            unsafe {
                let raw = (self.functions.dupinfo)(entry);
                entry = (*entry).next;
                if !raw.is_null() {
                    entries.push(self.entry(raw));
                }
            }
        }
        entries
    }

    /// Takes the ownership of an entry that is not null.
    fn entry(self: &Arc<Self>, raw: *mut sys::fi_info) -> Info {
        Info { raw, library: Arc::clone(self), order_without_atomics: 0, share: None }
    }
}

/// A version, as `1.17`.
fn version_text(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// The API version to request from a library of this version: 1.17, or the library's own version if
/// that is older.
fn api_for(version: u32) -> u32 {
    version.min(sys::version(1, 17))
}

/// Checks that a library is not older than the structures of `sys`, which are those of 1.15 to 2.x.
fn check_version(version: u32) -> Result<(), FabricError> {
    if version >= OLDEST {
        return Ok(());
    }
    let why =
        format!("libfabric {} is too old; {} is the oldest that is used", version_text(version), version_text(OLDEST));
    Err(FabricError::unavailable(TRANSPORT, Cause::Setup(why)))
}

/// The loader's message, which is the source of the error and not part of its text.
fn loader_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

impl Info {
    /// The structure.
    pub fn as_ptr(&self) -> *mut sys::fi_info {
        self.raw
    }

    /// The library that made the entry.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The main part.
    pub fn main(&self) -> &sys::fi_info {
        // SAFETY: not null (`query`), owned until drop.
        unsafe { &*self.raw }
    }

    /// The domain's attributes.
    pub fn domain(&self) -> &sys::fi_domain_attr {
        // SAFETY: `fi_getinfo` fills every attribute pointer (man fi_getinfo).
        unsafe { &*self.main().domain_attr }
    }

    /// The endpoint's attributes.
    pub fn endpoint(&self) -> &sys::fi_ep_attr {
        // SAFETY: `fi_getinfo` fills every attribute pointer (man fi_getinfo).
        unsafe { &*self.main().ep_attr }
    }

    /// The transmit side's attributes.
    pub fn transmit(&self) -> &sys::fi_tx_attr {
        // SAFETY: `fi_getinfo` fills every attribute pointer (man fi_getinfo).
        unsafe { &*self.main().tx_attr }
    }

    /// The receive side's attributes.
    pub fn receive(&self) -> &sys::fi_rx_attr {
        // SAFETY: `fi_getinfo` fills every attribute pointer (man fi_getinfo).
        unsafe { &*self.main().rx_attr }
    }

    /// The order that is kept between operations on one peer, as bits (man fi_endpoint).
    pub(crate) fn order(&self) -> u64 {
        self.transmit().msg_order | self.order_without_atomics
    }

    /// Adds order that the provider promises to an endpoint without atomics.
    pub(crate) fn add_order(&mut self, order: u64) {
        self.order_without_atomics |= order;
    }

    /// If puts carry notices, the most unread notices of an origin at this process.
    pub(crate) fn share(&self) -> Option<u64> {
        self.share
    }

    /// Whether puts carry notices.
    pub(crate) fn carries(&self) -> bool {
        self.share.is_some()
    }

    /// Has puts carry notices. `fi_writedata` takes no flags, so delivery complete becomes the
    /// default of all calls without flags.
    pub(crate) fn let_carry(&mut self, share: u64) {
        self.share = Some(share);
        // SAFETY: the entry is owned, and `fi_getinfo` fills every attribute pointer.
        unsafe { (*(*self.raw).tx_attr).op_flags |= sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION };
    }

    /// The domain's name.
    pub fn domain_name(&self) -> String {
        text(self.domain().name)
    }

    /// The provider's name.
    pub fn provider(&self) -> String {
        // SAFETY: `fi_getinfo` fills every attribute pointer (man fi_getinfo).
        text(unsafe { (*self.main().fabric_attr).prov_name })
    }
}

/// A name in an entry as a string.
fn text(name: *const c_char) -> String {
    // SAFETY: names are C strings of their entry, or null (man fi_getinfo).
    unsafe { if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() } }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Info({})", self.provider())
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: from `fi_getinfo`, freed once.
        unsafe { (self.library.functions.freeinfo)(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Man fi_getinfo: the requested version is at most the library's.
    /// Shows T3.
    #[test]
    fn the_interface_version_is_the_lower_of_both() {
        let versions = [(1, 15), (1, 17), (1, 22), (2, 0), (2, 5)].map(|(major, minor)| sys::version(major, minor));
        let known = sys::version(1, 17);
        assert_eq!(versions.map(api_for), [versions[0], known, known, known, known]);
        assert!(versions.map(check_version).iter().all(Result::is_ok));
    }

    /// Shows T3.
    #[test]
    fn a_library_that_is_too_old_is_refused_by_its_version() {
        for (major, minor) in [(0, 0), (1, 14)] {
            let error = check_version(sys::version(major, minor)).expect_err("too old");
            let error = format!("{error:#}");
            assert!(error.contains(&format!("libfabric {major}.{minor} is too old; 1.15 is")), "{error}");
        }
    }
}
