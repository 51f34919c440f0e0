//! User memory of other processes of the node, mapped by the XPMEM kernel module. Large aligned
//! pieces of each peer's memory are mapped and kept, and all windows share them: a few mappings for
//! each peer, not one for each window. Must not know regions. The module's call for a mapping is
//! named attach; an *attached region* of a dynamic window is something else.
//!
//! The module follows the owner's page tables: after the owner has unmapped memory, mapped it anew,
//! or copied it on write after `fork`, the next access uses the owner's current pages. A child made
//! by `fork` does not inherit the mappings. Mapped memory of a peer can't be registered with a
//! device. A process that closes any descriptor of `/dev/xpmem` loses all its mappings of peers'
//! memory, through whichever descriptor it made them.

mod guard;
mod sys;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use transom_fabric::Memory;

/// The size and alignment of mapped pieces. A piece is address space; only touched pages are
/// mapped.
const PIECE: u64 = 1 << 30;

/// The addresses of pieces begin here, below all other mappings of a process unless its address
/// space is full. No other mapping is then placed in a hole between pieces (see `guard`).
const PIECES_FROM: usize = 0x2000_0000_0000;

/// The module, as this process has opened it.
#[derive(Debug)]
pub(crate) struct Xpmem {
    /// Never closed, since closing unmaps all peers' memory of the process.
    device: File,
    segment: i64,
}

/// The mapped user memory of a peer.
#[derive(Debug)]
pub(crate) struct PeerMemory {
    permit: Arc<Permit>,
    /// By the peer's address of the first byte.
    pieces: Mutex<BTreeMap<u64, Arc<Piece>>>,
}

/// A permit to map memory of one peer.
#[derive(Debug)]
struct Permit {
    xpmem: &'static Xpmem,
    access: i64,
    segment: i64,
    peer: u32,
}

/// A range of a peer's addresses, mapped here until it is dropped.
#[derive(Debug)]
struct Piece {
    permit: Arc<Permit>,
    base: NonNull<u8>,
    len: usize,
    entry: &'static guard::Entry,
}

// SAFETY: a piece is an address range of the process, which any thread may use and unmap.
unsafe impl Send for Piece {}
// SAFETY: any thread may use the piece; `&Piece` gives no access to the bytes by itself.
unsafe impl Sync for Piece {}

/// The module, opened by this process at the first call.
///
/// # Errors
/// The reason why it is missing.
pub(crate) fn module() -> Result<&'static Xpmem, String> {
    static MODULE: OnceLock<Result<Xpmem, String>> = OnceLock::new();
    MODULE.get_or_init(open).as_ref().map_err(String::clone)
}

fn open() -> Result<Xpmem, String> {
    let cannot = |what: &str, error: Error| format!("{what} {}: {error}", sys::DEVICE);
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(sys::DEVICE)
        .map_err(|error| cannot("opening", error))?;
    let segment = sys::make_all(device.as_fd()).map_err(|error| cannot("sharing memory by", error))?;
    Ok(Xpmem { device, segment })
}

impl Xpmem {
    /// The segment by which peers map memory of this process; never 0.
    pub(crate) fn segment(&self) -> i64 {
        self.segment
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Opens access to the memory of `peer`, which made `segment`.
    ///
    /// # Errors
    /// The module's error: the process has ended, or belongs to another user.
    pub(crate) fn peer(&'static self, peer: u32, segment: i64) -> Result<PeerMemory, String> {
        let access = sys::get(self.fd(), segment)
            .map_err(|error| format!("getting access to the memory of rank {peer} by XPMEM: {error}"))?;
        let permit = Arc::new(Permit { xpmem: self, access, segment, peer });
        Ok(PeerMemory { permit, pieces: Mutex::default() })
    }
}

impl PeerMemory {
    /// The peer's bytes `[address, address + len)` as memory of this process.
    ///
    /// # Errors
    /// The reason why they can't be mapped.
    pub(crate) fn memory(&self, address: u64, len: u64) -> Result<Memory, String> {
        let outside = || format!("{len} bytes at address {address:#x} are outside the peer's memory");
        let end = address.checked_add(len).filter(|&end| end < i64::MAX.cast_unsigned()).ok_or_else(outside)?;
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            pieces.range(..=address).map(|(&at, piece)| (at, piece)).find(|(at, piece)| end - at <= piece.len as u64);
        let (at, piece) = match found {
            Some((at, piece)) => (at, Arc::clone(piece)),
            None => {
                let (first, last) = (address / PIECE * PIECE, end.next_multiple_of(PIECE));
                let piece = Arc::new(Piece::attach(&self.permit, first, last - first)?);
                pieces.insert(first, Arc::clone(&piece));
                (first, piece)
            }
        };
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| outside());
        let (base, whole) = (piece.base, piece.len);
        // SAFETY: the range is mapped readable and writable until `piece`, the owner, is dropped.
        // The guard handles pages that the peer does not have: the process ends with a message, or
        // they are zero after the end of the peer.
        let memory = unsafe { Memory::new(base, whole, Some(piece)) };
        memory.slice(size(address - at)?, size(len)?).ok_or_else(outside)
    }
}

impl Piece {
    fn attach(permit: &Arc<Permit>, from: u64, len: u64) -> Result<Piece, String> {
        let failed = |reason: &dyn std::fmt::Display| {
            format!("attaching {len} bytes at address {from:#x} of rank {} by XPMEM: {reason}", permit.peer)
        };
        let len = usize::try_from(len).map_err(|error| failed(&error))?;
        let range = ReservedRange::new(len).map_err(|errno| failed(&errno))?;
        let entry = guard::insert(range.base.as_ptr().addr(), len, permit)
            .ok_or_else(|| failed(&"this process has attached as many pieces as it can"))?;
        let at = range.base.as_ptr().addr();
        // SAFETY: the range was just reserved, and only this function uses it.
        if let Err(error) = unsafe { sys::attach(permit.xpmem.fd(), permit.access, from, len, at) } {
            guard::remove(entry);
            return Err(failed(&error));
        }
        let base = range.base;
        std::mem::forget(range);
        Ok(Piece { permit: Arc::clone(permit), base, len, entry })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let at = self.base.as_ptr().addr();
        if guard::remove(self.entry) {
            // SAFETY: Memory, the only way to the bytes, keeps this value alive.
            let detached = unsafe { sys::detach(self.permit.xpmem.fd(), at) };
            debug_assert!(detached.is_ok(), "detaching {self:?}: {detached:?}");
        } else {
            // SAFETY: no reference to the bytes outlives this value; the guard has put plain memory
            // there.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok(), "munmap of {self:?}: {unmapped:?}");
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Fails if the peer has ended: the module has then removed the permit.
        let _ = sys::release(self.xpmem.fd(), self.access);
    }
}

/// Reserved address space, unmapped when it is dropped.
struct ReservedRange {
    base: NonNull<u8>,
    len: usize,
}

impl ReservedRange {
    fn new(len: usize) -> Result<ReservedRange, rustix::io::Errno> {
        static NEXT: AtomicUsize = AtomicUsize::new(PIECES_FROM);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        loop {
            // Relaxed: the numbers need only differ.
            let at = NEXT.fetch_add(len, Ordering::Relaxed);
            let hint = std::ptr::with_exposed_provenance_mut(at);
            // SAFETY: no existing mapping is replaced.
            match unsafe { mmap_anonymous(hint, len, ProtFlags::empty(), flags) } {
                Ok(base) => {
                    let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
                    return Ok(ReservedRange { base, len });
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Drop for ReservedRange {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not in use.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of {len} reserved bytes: {unmapped:?}", len = self.len);
    }
}
