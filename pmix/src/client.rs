//! A process's connection to its PMIx server: put, get, fence, and the two ways to leave. Owns the
//! conversion of PMIx's values; memory that libpmix returns is copied and freed here.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use crate::error::Error;
use crate::library::{Library, SONAME};
use crate::sys;

/// The connection of this process.
#[derive(Debug)]
pub struct Client {
    library: Library,
    namespace: [c_char; 256],
    rank: u32,
}

impl Client {
    /// Opens libpmix and joins the job that the environment names. The caller has checked that it
    /// names one (`PMIX_NAMESPACE`, `PMIX_RANK`); otherwise later versions of libpmix start a job
    /// of one process.
    ///
    /// # Errors
    /// `Unavailable` without the library; `Failed` where the server cannot be reached.
    pub fn join() -> Result<Client, Error> {
        let library = Library::open(SONAME)?;
        let mut me = proc([0; 256], 0);
        // SAFETY: `me` is written before the call returns; no information is passed.
        library.check("PMIx_Init", unsafe { (library.call.init)(&raw mut me, ptr::null_mut(), 0) })?;
        Ok(Client { library, namespace: me.nspace, rank: me.rank })
    }

    /// This process's rank in its job.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of processes in the job.
    ///
    /// # Errors
    /// The server does not give it.
    pub fn job_size(&self) -> Result<u32, Error> {
        let value = self.value(sys::PMIX_RANK_WILDCARD, "pmix.job.size", sys::PMIX_UINT32)?;
        // SAFETY: the type was checked.
        Ok(unsafe { value.get().data.uint32 })
    }

    /// The ranks of this job on this node, separated by commas.
    ///
    /// # Errors
    /// The server does not give them.
    pub fn local_peers(&self) -> Result<String, Error> {
        let value = self.value(sys::PMIX_RANK_WILDCARD, "pmix.lpeers", sys::PMIX_STRING)?;
        // SAFETY: the type was checked; a string is null or a C string, which lives as long as
        // `value`.
        let text = unsafe { value.get().data.string };
        // SAFETY: not null, so a C string, which lives as long as `value`.
        Ok(if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() })
    }

    /// Puts `bytes` under `key`, for all processes of the job after the next
    /// [`fence`](Self::fence).
    ///
    /// # Errors
    /// `Failed`.
    ///
    /// # Panics
    /// A key with a zero byte, or longer than PMIx takes.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let key = c_key(key);
        let bo = sys::pmix_byte_object { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        let mut value = sys::pmix_value { kind: sys::PMIX_BYTE_OBJECT, data: sys::Data { bo } };
        // SAFETY: key and value live through the call, which only reads and copies them.
        let status = unsafe { (self.library.call.put)(sys::PMIX_GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", status)
    }

    /// Waits for all processes of the job, and distributes their puts.
    ///
    /// # Errors
    /// `Failed`: the server or a process of the job is gone.
    pub fn fence(&self) -> Result<(), Error> {
        // SAFETY: it takes no argument.
        self.library.check("PMIx_Commit", unsafe { (self.library.call.commit)() })?;
        let collect = flag("pmix.collect");
        // SAFETY: a null process list means the whole job; the information lives through the call.
        let status = unsafe { (self.library.call.fence)(ptr::null(), 0, &raw const collect, 1) };
        self.library.check("PMIx_Fence", status)
    }

    /// The bytes that process `rank` put under `key` before the last fence; `None` where it put
    /// none.
    ///
    /// # Errors
    /// `Failed`, or `Type` for a value that is not bytes.
    pub fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let value = match self.value(rank, key, sys::PMIX_BYTE_OBJECT) {
            Err(Error::Failed { status: sys::PMIX_ERR_NOT_FOUND, .. }) => return Ok(None),
            other => other?,
        };
        // SAFETY: the type was checked.
        let bo = unsafe { value.get().data.bo };
        if bo.bytes.is_null() {
            return Ok(Some(Vec::new()));
        }
        // SAFETY: libpmix gives the length of the bytes, which live as long as `value`.
        Ok(Some(unsafe { std::slice::from_raw_parts(bo.bytes.cast(), bo.size) }.to_vec()))
    }

    /// Asks the server to end all processes of the job with `status`.
    ///
    /// # Errors
    /// `Failed`.
    pub fn abort(&self, status: i32, why: &str) -> Result<(), Error> {
        let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        // SAFETY: a null process list means the whole job; the text lives through the call.
        let status = unsafe { (self.library.call.abort)(status, why.as_ptr(), ptr::null_mut(), 0) };
        self.library.check("PMIx_Abort", status)
    }

    /// Leaves the job in good order. No other call follows.
    ///
    /// # Errors
    /// `Failed`.
    pub fn finalize(&self) -> Result<(), Error> {
        // SAFETY: no information is passed.
        self.library.check("PMIx_Finalize", unsafe { (self.library.call.finalize)(ptr::null(), 0) })
    }

    /// The value of a key, which must be of the type `kind`.
    fn value(&self, rank: u32, key: &str, kind: u16) -> Result<Value, Error> {
        let name = c_key(key);
        let of = proc(self.namespace, rank);
        // A key that the server does not know now will never exist: without this flag the call
        // waits for a put.
        let now = flag("pmix.immediate");
        let mut found = ptr::null_mut();
        // SAFETY: process, key and information live through the call, which writes `found`.
        let status =
            unsafe { (self.library.call.get)(&raw const of, name.as_ptr(), &raw const now, 1, &raw mut found) };
        self.library.check("PMIx_Get", status)?;
        if found.is_null() {
            return self.library.check("PMIx_Get", sys::PMIX_ERR_NOT_FOUND).map(|()| unreachable!("an error"));
        }
        let value = Value(found);
        match value.get().kind {
            found if found == kind => Ok(value),
            found => Err(Error::Type { key: key.to_owned(), found, expected: kind }),
        }
    }
}

/// A value that libpmix allocated.
struct Value(*mut sys::pmix_value);

impl Value {
    fn get(&self) -> &sys::pmix_value {
        // SAFETY: PMIx_Get gave it, not null, and this owns it until drop.
        unsafe { &*self.0 }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let inner = match self.get() {
            // SAFETY: the type selects this member of the union.
            value if value.kind == sys::PMIX_STRING => unsafe { value.data.string },
            // SAFETY: the type selects this member of the union.
            value if value.kind == sys::PMIX_BYTE_OBJECT => unsafe { value.data.bo.bytes },
            // Numbers own no memory. Memory of other types leaks, once for each answer of a wrong
            // type.
            _ => ptr::null_mut(),
        };
        // SAFETY: libpmix allocated both for the caller, which frees them by `free`, as
        // PMIX_VALUE_RELEASE does.
        unsafe {
            libc::free(inner.cast());
            libc::free(self.0.cast());
        }
    }
}

fn proc(nspace: [c_char; 256], rank: u32) -> sys::pmix_proc {
    sys::pmix_proc { nspace, rank }
}

/// A key as a C string.
fn c_key(key: &str) -> CString {
    assert!(key.len() <= sys::PMIX_MAX_KEYLEN, "a key has at most {} bytes", sys::PMIX_MAX_KEYLEN);
    CString::new(key).expect("a key without zeros")
}

/// An information entry with the value true.
fn flag(key: &str) -> sys::pmix_info {
    let mut data = sys::Data { room: [0; 3] };
    data.flag = true;
    let value = sys::pmix_value { kind: sys::PMIX_BOOL, data };
    let mut info = sys::pmix_info { key: [0; sys::PMIX_MAX_KEYLEN + 1], flags: 0, value };
    for (to, from) in info.key.iter_mut().zip(key.bytes()) {
        // C's `char` is signed on some processors and unsigned on others.
        *to = c_char::from_ne_bytes([from]);
    }
    info
}
