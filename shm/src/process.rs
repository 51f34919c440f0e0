//! Access to memory of another process that is not mapped here. The kernel copies up to one page
//! faster through `/proc/PID/mem` than by cross-memory attach, because with an open file the kernel
//! neither looks up the process nor checks permissions at each call. All longer copies, all copies
//! of several pieces, and those that the file refuses use cross-memory attach. If both ways fail,
//! the error of cross-memory attach is reported. While no descriptor is free for the file, all
//! copies use cross-memory attach.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use transom_fabric::{Reason, Span, above_streams};

use crate::bounce;
use crate::cma::{self, RemoteAddress, slice_of, slice_of_mut};
use crate::spare::is_out_of_descriptors;

/// The longest copy through the file. Above a page, cross-memory attach is faster.
const SHORT: usize = 4096;

/// Short writes of a range after which its protection is read.
const TRIALS: u32 = 64;
/// Value of [`Range::writes`] after the protection was read: the process may write the range.
const WRITABLE: u32 = u32::MAX;
/// Value of [`Range::writes`] after the protection was read: the process may not.
const PROTECTED: u32 = u32::MAX - 1;

/// Another process of the node.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pid: i32,
    memory: Arc<MemoryFile>,
}

/// `/proc/PID/mem` of a process.
#[derive(Debug)]
struct MemoryFile {
    /// `None` if it can't be opened. Without a value, no descriptor was free so far.
    file: OnceLock<Option<File>>,
    /// The address of `token` in the process.
    address: u64,
    token: [u8; 16],
}

impl Process {
    /// The process `pid`, which has `token` at `address`. The first access tries both ways.
    ///
    /// # Errors
    /// The reason why cross-memory attach does not reach it.
    pub(crate) fn open(pid: i32, address: u64, token: &[u8; 16]) -> Result<Process, String> {
        let (mut seen, there) = ([0; 16], RemoteAddress { pid, address });
        let refused = |call: &str, error: io::Error| {
            format!(
                "{call} of process {pid}: {error} (is kernel.yama.ptrace_scope above 0, or does a container forbid the call?)"
            )
        };
        cma::read_into(there, &mut seen).map_err(|error| refused("process_vm_readv", error))?;
        if seen != *token {
            return Err(format!("process_vm_readv of process {pid} reads another process's memory"));
        }
        // A container may forbid writes alone. The bytes stay as they are.
        // SAFETY: `seen` is borrowed for the call.
        unsafe { cma::write(there, Span::of_mut(&mut seen)) }.map_err(|error| refused("process_vm_writev", error))?;
        let memory = MemoryFile { file: OnceLock::new(), address, token: *token };
        let process = Process { pid, memory: Arc::new(memory) };
        process.open_memory();
        Ok(process)
    }

    /// Opens the file, unless it was opened or refused before.
    fn open_memory(&self) {
        let MemoryFile { file: kept, address, token } = &*self.memory;
        if kept.get().is_some() {
            return;
        }
        let mut seen = [0; 16];
        let mut proves = |file: &File| file.read_exact_at(&mut seen, *address).is_ok() && seen == *token;
        let path = format!("/proc/{}/mem", self.pid);
        let file = match File::options().read(true).write(true).open(path).and_then(above_streams) {
            Ok(file) => Some(file).filter(&mut proves),
            Err(error) if is_out_of_descriptors(&error) => return,
            Err(_) => None,
        };
        // Another thread may have opened it meanwhile.
        let _ = kept.set(file);
    }

    /// The file, if it was opened.
    fn file(&self) -> Option<&File> {
        self.memory.file.get()?.as_ref()
    }

    /// Its `len` bytes at `address`, which need not be mapped.
    pub(crate) fn range(&self, address: u64, len: u64) -> Range {
        self.open_memory();
        Range { process: self.clone(), address, len, writes: AtomicU32::new(0) }
    }

    /// Whether the process may write all `len` bytes at `address`. `None` if no descriptor is free
    /// to read this.
    fn may_write(&self, address: u64, len: u64) -> Option<bool> {
        match std::fs::read(format!("/proc/{}/maps", self.pid)) {
            Err(error) if is_out_of_descriptors(&error) => None,
            maps => Some(maps.is_ok_and(|maps| is_writable(&maps, address, len))),
        }
    }
}

/// Bytes of another process.
#[derive(Debug)]
pub(crate) struct Range {
    process: Process,
    address: u64,
    len: u64,
    /// The number of short writes so far; then the protection that was read: [`WRITABLE`] or
    /// [`PROTECTED`].
    writes: AtomicU32,
}

impl Range {
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid
    }

    /// The address of the byte at `offset` in the other process.
    pub(crate) fn address(&self, offset: u64) -> u64 {
        self.address.wrapping_add(offset)
    }

    /// Checks that `len` bytes at `offset` are inside.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> Result<(), Reason> {
        let length = len as u64;
        match offset.checked_add(length) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Reason::Outside { at: offset, length, limit: self.len }),
        }
    }

    /// Fills `into` from the bytes at `offset`, which are inside.
    ///
    /// # Safety
    /// `into` is writable, and not accessed otherwise, during the call.
    ///
    /// # Errors
    /// As for [`cma::read_into`].
    pub(crate) unsafe fn read(&self, offset: u64, into: Span) -> io::Result<()> {
        let address = self.address(offset);
        if let Some(file) = self.process.file()
            && into.len() <= SHORT
            // SAFETY: writable and not accessed otherwise (caller).
            && file.read_at(unsafe { slice_of_mut(into) }, address).is_ok_and(|len| len == into.len())
        {
            return Ok(());
        }
        let from = RemoteAddress { pid: self.process.pid, address };
        if bounce::is_slow(address, into.as_ptr().addr() as u64, into.len()) {
            // SAFETY: the caller's promise.
            return unsafe { bounce::read(from, into) };
        }
        // SAFETY: the caller's promise.
        unsafe { cma::read(from, into) }
    }

    /// Writes the bytes of `from` at `offset`; all are inside.
    ///
    /// # Safety
    /// `from` is readable during the call, and no thread writes it.
    ///
    /// # Errors
    /// As for [`cma::read_into`].
    pub(crate) unsafe fn write(&self, offset: u64, from: Span) -> io::Result<()> {
        let address = self.address(offset);
        if let Some(file) = self.process.file()
            && from.len() <= SHORT
            && self.is_writable()
            // SAFETY: readable and not written (caller).
            && file.write_at(unsafe { slice_of(from) }, address).is_ok_and(|len| len == from.len())
        {
            return Ok(());
        }
        let to = RemoteAddress { pid: self.process.pid, address };
        if bounce::is_slow(from.as_ptr().addr() as u64, address, from.len()) {
            // SAFETY: the caller's promise.
            return unsafe { bounce::write(to, from) };
        }
        // SAFETY: the caller's promise.
        unsafe { cma::write(to, from) }
    }

    /// Whether the whole range is known to be writable by its process. The check is necessary
    /// because through the file the kernel would also write pages that the process may only read.
    /// Reading the protection takes as long as many writes, so the first writes use cross-memory
    /// attach.
    fn is_writable(&self) -> bool {
        match self.writes.load(Ordering::Relaxed) {
            WRITABLE => true,
            PROTECTED => false,
            count if count < TRIALS => {
                // Threads may lose counts, and read the protection later.
                self.writes.store(count + 1, Ordering::Relaxed);
                false
            }
            _ => {
                let writable = self.process.may_write(self.address, self.len);
                let state = match writable {
                    Some(true) => WRITABLE,
                    Some(false) => PROTECTED,
                    // The next attempt follows after `TRIALS` further writes.
                    None => 0,
                };
                self.writes.store(state, Ordering::Relaxed);
                writable == Some(true)
            }
        }
    }
}

/// Whether writable mappings cover all `len` bytes at `address`. `maps` is the text of
/// `/proc/PID/maps` (proc_pid_maps(5)), which is ordered by address.
fn is_writable(maps: &[u8], address: u64, len: u64) -> bool {
    let Some(end) = address.checked_add(len) else { return false };
    let mut from = address;
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((first, last, write)) = parse_mapping(line) else { continue };
        if from < end && first <= from && from < last {
            if !write {
                return false;
            }
            from = last;
        }
    }
    from >= end
}

/// The range of addresses in a line of `/proc/PID/maps`, and whether it is writable.
fn parse_mapping(line: &[u8]) -> Option<(u64, u64, bool)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (range, protection) = (str::from_utf8(fields.next()?).ok()?, fields.next()?);
    let (first, last) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(first)?, number(last)?, protection.get(1) == Some(&b'w')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    const PAGE: usize = 1 << 16;

    /// This process, which all calls reach as they reach another one.
    fn own() -> Process {
        let token = [7; 16];
        let pid = i32::try_from(std::process::id()).expect("a pid");
        Process::open(pid, token.as_ptr().addr() as u64, &token).expect("this process")
    }

    fn write(range: &Range, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: `bytes` is borrowed for the call.
        unsafe { range.write(offset, Span::of(bytes)) }
    }

    fn read(range: &Range, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        // SAFETY: `bytes` is this function's own.
        unsafe { range.read(offset, Span::of_mut(&mut bytes)) }.map(|()| bytes)
    }

    /// Lengths around the limit, before and after the protection was read.
    #[test]
    fn copies_of_every_length_arrive() {
        let (process, mut memory) = (own(), vec![0; 1 << 15]);
        let range = process.range(memory.as_mut_ptr().addr() as u64, memory.len() as u64);
        for round in 0..TRIALS + 8 {
            for len in [0, 1, 8, 1000, SHORT - 1, SHORT, SHORT + 1] {
                let bytes: Vec<u8> = (0..=250).cycle().skip(round as usize).take(len).collect();
                let offset = u64::from(round % 5);
                write(&range, offset, &bytes).expect("written");
                assert_eq!(read(&range, offset, len).expect("read"), bytes);
            }
        }
        let file = File::options().read(true).write(true).open("/proc/self/mem");
        assert_eq!(process.file().is_some(), file.is_ok());
        let expected = if file.is_ok() { WRITABLE } else { 0 };
        assert_eq!(range.writes.load(Ordering::Relaxed), expected);
    }

    /// Memory that its process may only read stays as it is, however often it is written.
    #[test]
    fn protected_memory_refuses_every_write() {
        let (process, protection) = (own(), ProtFlags::READ);
        // SAFETY: a new mapping.
        let page =
            unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, protection, MapFlags::PRIVATE) }.expect("a page");
        let range = process.range(page.addr() as u64, PAGE as u64);
        for _ in 0..3 * TRIALS {
            let error = write(&range, 8, &[1; 8]).expect_err("protected");
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        }
        assert_eq!(read(&range, 0, 24).expect("readable"), [0; 24]);
        // SAFETY: the mapping from above, to which nothing refers.
        unsafe { munmap(page, PAGE) }.expect("unmapped");
        assert_eq!(read(&range, 0, 8).expect_err("unmapped").raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn another_token_is_another_process() {
        let token = [7; 16];
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let error = Process::open(pid, token.as_ptr().addr() as u64, &[8; 16]).expect_err("another token");
        assert!(error.contains("reads another process's memory"), "{error}");
    }

    #[test]
    fn writable_ranges_are_found_in_the_maps() {
        let maps = b"1000-3000 rw-p 00000000 00:00 0 \n3000-4000 rw-s 0 0 7 /a file\n4000-5000 r--p 0 0 9 /\xff\n\
            6000-7000 rw-p 0 0 0\n";
        for (address, len, writable) in [
            (0x1000, 0x2000, true),
            (0x1008, 0x2ff8, true),
            (0x1008, 0x2ff9, false),
            (0x4000, 1, false),
            (0x4fff, 2, false),
            (0x5000, 8, false),
            (0x6ff8, 8, true),
            (0x6ff8, 9, false),
            (0x800, 0x900, false),
            (0x6000, u64::MAX, false),
        ] {
            assert_eq!(is_writable(maps, address, len), writable, "{len:#x} bytes at {address:#x}");
        }
    }
}
