//! First contact with a peer: opens and verifies the peer's heap, and maps the peer's ring.
//! Independent of the keys of regions.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::OnceLock;

use rustix::fs::OFlags;
use rustix::io::Errno;
use transom_fabric::{Cause, FabricError, Memory, Peer, Span, above_streams};

use crate::heap::{MAGIC, NAME, Token};
use crate::mapping;
use crate::node::Address;
use crate::pieces::{self, Pieces};
use crate::process::Process;
use crate::ring::SharedRing;
use crate::spare::{Opened, Spare};
use crate::xpmem::{PeerMemory, Xpmem};

/// A peer whose heap is open here.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) address: Address,
    pub(crate) ring: SharedRing,
    /// `None` where no descriptor was free: each mapping then opens the heap again.
    file: Option<File>,
    pieces: Pieces,
    process: OnceLock<Result<Process, String>>,
    user: OnceLock<Result<PeerMemory, String>>,
}

impl Contact {
    /// Opens and proves the heap at `address`, and maps its ring.
    ///
    /// # Errors
    /// The reason why this process can't reach the peer's memory.
    pub(crate) fn open(address: Address, me: &Address, spare: &Spare) -> Result<Contact, String> {
        address.may_share_with(me)?;
        let file = open(&address, spare)?;
        let header = 0..address.header_len;
        let mapped = pieces::map_dedicated(file.as_fd(), &header)
            .map_err(|errno| format!("{:#}", unmapped(&header, &file, errno)))?;
        let ring = SharedRing::in_header(&mapped, address.pid)
            .ok_or("the header of the peer's heap is too short for a message ring")?;
        let pieces = Pieces::new(header.end..address.capacity);
        Ok(Contact { address, ring, file: file.keep(), pieces, process: OnceLock::new(), user: OnceLock::new() })
    }

    /// The range `[offset, offset + len)` of the peer's heap as memory of this process.
    /// `dedicated`: in a mapping of its own, so that advice to the kernel concerns no other range.
    ///
    /// # Errors
    /// The range is not inside the heap, or there is no address space or mapping for it. Where the
    /// heap is opened again, those of [`Contact::open`].
    pub(crate) fn map(&self, offset: u64, len: u64, dedicated: bool, spare: &Spare) -> Result<Memory, Cause> {
        let capacity = self.address.capacity;
        let end = offset.checked_add(len).filter(|&end| end <= capacity);
        let outside =
            || Cause::Setup(format!("{len} bytes at offset {offset} are outside the peer's heap of {capacity} bytes"));
        let range = offset..end.ok_or_else(outside)?;
        // A mapped piece needs no descriptor.
        if !dedicated && let Some(memory) = self.pieces.mapped(&range) {
            return Ok(memory);
        }
        let map = |file: &File| {
            let memory =
                if dedicated { pieces::map_dedicated(file.as_fd(), &range) } else { self.pieces.map(file, &range) };
            memory.map_err(|errno| unmapped(&range, file, errno).into())
        };
        match &self.file {
            Some(file) => map(file),
            None => map(&*open(&self.address, spare).map_err(Cause::Setup)?),
        }
    }

    /// The bytes at these addresses of this process, if they are mapped from the peer's heap, and
    /// their offset in it.
    pub(crate) fn mapped_at(&self, span: Span) -> Option<(u64, Memory)> {
        self.pieces.at(span)
    }

    /// Maps the peer's bytes `[at, at + len)` of any of its memory by XPMEM. `peer`: the peer's
    /// rank, for messages.
    ///
    /// # Errors
    /// The reason why they can't be mapped.
    pub(crate) fn user_memory(&self, xpmem: &'static Xpmem, peer: Peer, at: u64, len: u64) -> Result<Memory, String> {
        let open = || match self.address.segment {
            0 => Err(format!("{peer} does not share its memory by XPMEM")),
            segment => xpmem.peer(peer.0, segment),
        };
        self.user.get_or_init(open).as_ref().map_err(String::clone)?.memory(at, len)
    }

    /// The peer's process, if cross-memory attach reaches it. The first call tries it, on the
    /// peer's token.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(crate) fn process(&self) -> Result<&Process, String> {
        let Address { pid, header_at, token: [a, b], .. } = self.address;
        let mut token = [0; 16];
        token[..8].copy_from_slice(&a.to_ne_bytes());
        token[8..].copy_from_slice(&b.to_ne_bytes());
        let open = || Process::open(pid, header_at + 8, &token);
        self.process.get_or_init(open).as_ref().map_err(String::clone)
    }
}

/// Opens the heap at `address`, and proves that it is the peer's.
fn open<'s>(address: &Address, spare: &'s Spare) -> Result<Opened<'s>, String> {
    // The own heap needs no `/proc`.
    if spare.is_own_heap(address.token) {
        return spare.open_own_heap().map_err(|error| format!("duplicating a descriptor of the own heap: {error}"));
    }
    let path = format!("/proc/{}/fd/{}", address.pid, address.fd);
    let cannot = |what: &str, error: io::Error| format!("{what} {path}: {error}");
    // The process-id may have been reused. The descriptor of another process must not be opened.
    let target = std::fs::read_link(&path).map_err(|error| cannot("reading", error))?;
    if !target.to_string_lossy().starts_with(&format!("/memfd:{NAME}")) {
        return Err(format!("{path} is not a heap of transom, but {}", target.display()));
    }
    let flags = OFlags::NOCTTY.bits().cast_signed();
    let file = spare
        .open(|| File::options().read(true).write(true).custom_flags(flags).open(&path).and_then(above_streams))
        .map_err(|error| cannot("opening", error))?;
    let found = identity(&file).map_err(|error| cannot("reading the token of", error))?;
    if found != (MAGIC, address.token) {
        return Err(format!("{path} is another heap: its token is not the peer's"));
    }
    let size = file.metadata().map_err(|error| cannot("measuring", error))?.len();
    if size != address.capacity {
        let claimed = address.capacity;
        return Err(format!("{path} has {size} bytes, but the peer announced {claimed}"));
    }
    Ok(file)
}

/// The first three words of a heap: magic and token.
fn identity(file: &File) -> io::Result<(u64, Token)> {
    let mut words = [[0; 8]; 3];
    file.read_exact_at(words.as_flattened_mut(), 0)?;
    let [magic, a, b] = words.map(u64::from_ne_bytes);
    Ok((magic, [a, b]))
}

/// The failure to map a range of the peer's heap.
fn unmapped(range: &Range<u64>, file: &File, errno: Errno) -> FabricError {
    let (len, fd) = (range.end - range.start, file.as_raw_fd());
    let what = format!("mapping {len} bytes at {} of the peer's heap (descriptor {fd})", range.start);
    FabricError::failed(what, mapping::refusal(errno))
}
