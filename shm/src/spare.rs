//! A file descriptor in reserve, by which heaps of peers can be opened after the program has used
//! up its descriptors. A heap needs the descriptor only while it is opened and mapped.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{DupFlags, Errno, dup3, fcntl_dupfd_cloexec};

use crate::heap::{Heap, Token};

/// The reserve: a duplicate of the own heap's descriptor. `None` while no descriptor is free for
/// it.
#[derive(Debug)]
pub(crate) struct Spare {
    heap: Arc<Heap>,
    reserve: Mutex<Option<OwnedFd>>,
}

/// An open file.
#[derive(Debug)]
pub(crate) enum Opened<'s> {
    /// By a descriptor of its own.
    Own(File),
    /// By the descriptor in reserve, which returns when the value is dropped.
    Lent(Lent<'s>),
}

#[derive(Debug)]
pub(crate) struct Lent<'s> {
    /// There until the drop.
    file: Option<File>,
    spare: &'s Spare,
    reserve: MutexGuard<'s, Option<OwnedFd>>,
}

/// Whether an error says that no descriptor is free: in the process (EMFILE), or in the system.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl Spare {
    pub(crate) fn new(heap: Arc<Heap>) -> Spare {
        let reserve = Mutex::new(duplicate(&heap));
        Spare { heap, reserve }
    }

    /// Calls `open`. If no descriptor is free, closes the reserve and calls `open` again. Threads
    /// call one after another, so that none takes the descriptor that another has given up.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn open(&self, open: impl Fn() -> io::Result<File>) -> io::Result<Opened<'_>> {
        let mut reserve = self.reserve();
        match open() {
            Ok(file) => {
                // Another thread of the program may have taken the one in reserve.
                if reserve.is_none() {
                    *reserve = duplicate(&self.heap);
                }
                Ok(Opened::Own(file))
            }
            Err(error) if is_out_of_descriptors(&error) => {
                *reserve = None;
                match open() {
                    Ok(file) => Ok(Opened::Lent(Lent { file: Some(file), spare: self, reserve })),
                    Err(error) => {
                        *reserve = duplicate(&self.heap);
                        Err(error)
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Whether this is the token of the own heap.
    pub(crate) fn is_own_heap(&self, token: Token) -> bool {
        self.heap.token() == token
    }

    /// The own heap, by another descriptor.
    ///
    /// # Errors
    /// Those of dup(2).
    pub(crate) fn open_own_heap(&self) -> io::Result<Opened<'_>> {
        self.open(|| Ok(File::from(fcntl_dupfd_cloexec(self.heap.fd(), 3)?)))
    }

    fn reserve(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` where no descriptor is free. Above the standard streams, also if one of them is closed.
fn duplicate(heap: &Heap) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(heap.fd(), 3).ok()
}

impl Opened<'_> {
    /// The file, if it may stay open.
    pub(crate) fn keep(self) -> Option<File> {
        match self {
            Opened::Own(file) => Some(file),
            Opened::Lent(_) => None,
        }
    }
}

impl Deref for Opened<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Opened::Own(file) => file,
            Opened::Lent(lent) => lent.file.as_ref().expect("there until the drop"),
        }
    }
}

impl Drop for Lent<'_> {
    /// The descriptor's number refers to the own heap again. It is never free meanwhile, so that no
    /// other thread can take it.
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let mut fd = OwnedFd::from(file);
        // EBUSY (dup(2)): the program has closed this descriptor, and another thread is opening a
        // file under its number. That file is then closed.
        let replaced = loop {
            match dup3(self.spare.heap.fd(), &mut fd, DupFlags::CLOEXEC) {
                Err(Errno::BUSY | Errno::INTR) => {}
                other => break other,
            }
        };
        *self.reserve = replaced.ok().map(|()| fd);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::HeapOptions;

    fn lacking() -> io::Result<File> {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }

    fn has_reserve(spare: &Spare) -> bool {
        spare.reserve().is_some()
    }

    /// Opens a file if the reserve was given up.
    #[test]
    fn the_reserve_is_lent_and_returns() {
        let spare = Spare::new(Heap::create(HeapOptions::default()).expect("a heap"));
        let calls = std::cell::Cell::new(0);
        let open = || {
            calls.set(calls.get() + 1);
            if calls.get() % 2 == 1 { lacking() } else { File::open("/dev/null") }
        };
        for _ in 0..3 {
            let opened = spare.open(open).expect("by the reserve");
            opened.metadata().expect("an open file");
            assert!(matches!(opened, Opened::Lent(_)));
            assert!(opened.keep().is_none());
            let kept = rustix::fs::fstat(spare.reserve().as_ref().expect("returned")).expect("open");
            let heap = rustix::fs::fstat(spare.heap.fd()).expect("open");
            assert_eq!((kept.st_dev, kept.st_ino), (heap.st_dev, heap.st_ino));
        }
        spare.open(lacking).expect_err("no descriptor by the reserve either");
        assert!(has_reserve(&spare));
        *spare.reserve() = None;
        let opened = spare.open(|| File::open("/dev/null")).expect("descriptors are free");
        assert!(opened.keep().is_some() && has_reserve(&spare), "replenished");
    }
}
