//! Which of a user's pages are pages of a heap at present, and the children of `fork(2)`: a child is to have a copy of them, as of all
//! other memory of its parent. So it maps them for itself alone and copies them, and its parent waits until it has.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::pipe::PipeFlags;
use transom_fabric::Span;

/// Pages of a memfd that stand in the place of a user's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchanged {
    pub(crate) pages: Span,
    /// The memfd, which stays open for as long as they are in the list.
    pub(crate) fd: RawFd,
    pub(crate) offset: u64,
}

/// All there are in this process. Who exchanges pages holds it meanwhile, so that no fork comes between.
static EXCHANGED: Mutex<Vec<Exchanged>> = Mutex::new(Vec::new());

/// How long a parent waits for its child: a limit for when the child was stopped within its first instructions.
const LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// A fork under way.
struct Fork {
    all: MutexGuard<'static, Vec<Exchanged>>,
    /// What the child closes when it has its copies, and what of it the parent sees.
    ends: Option<(OwnedFd, OwnedFd)>,
}

thread_local! {
    /// From before the fork to after it.
    static FORK: Cell<Option<Fork>> = const { Cell::new(None) };
}

/// The list, for who is about to change it.
pub(crate) fn exchanged() -> MutexGuard<'static, Vec<Exchanged>> {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the functions are there as long as the process; in the child they call only what `fork` allows there.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    });
    lock()
}

fn lock() -> MutexGuard<'static, Vec<Exchanged>> {
    EXCHANGED.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before() {
    let all = lock();
    let ends = if all.is_empty() { None } else { rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok() };
    FORK.set(Some(Fork { all, ends }));
}

extern "C" fn after() {
    let Some(Fork { all, ends }) = FORK.take() else { return };
    if let Some((seen, closed)) = ends {
        drop(closed);
        // The end of the pipe, which comes with the child's end too, or with there being no child. Errors only end the wait.
        let _ = rustix::event::poll(&mut [PollFd::new(&seen, PollFlags::IN)], Some(&LIMIT));
    }
    drop(all);
}

extern "C" fn in_child() {
    let Some(Fork { mut all, ends }) = FORK.take() else { return };
    for it in all.iter() {
        if copied(it).is_err() {
            // What it would go on with is its parent's memory.
            std::process::abort();
        }
    }
    all.clear();
    drop(ends);
}

/// Makes pages this process's own, with their contents.
fn copied(it: &Exchanged) -> rustix::io::Result<()> {
    let (at, len) = (it.pages.as_ptr(), it.pages.len());
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: the descriptor is the heap's, as the list's entry says.
    let fd = unsafe { BorrowedFd::borrow_raw(it.fd) };
    // SAFETY: the same pages of the same file as before, in one step; only writes go elsewhere from now on.
    unsafe { rustix::mm::mmap(at.cast(), len, protection, flags, fd, it.offset)? };
    // SAFETY: the pages that were just mapped: a write fault for each copies it and changes no content.
    unsafe { rustix::mm::madvise(at.cast(), len, Advice::LinuxPopulateWrite) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Heap, HeapOptions};
    use transom_fabric::Memory;

    /// A child has what its parent had when it forked, and each its own from then on.
    #[test]
    fn a_child_has_a_copy() {
        let heap = Heap::create(HeapOptions::default()).expect("a heap");
        let memory = Memory::private(64 << 10);
        memory.write(0, &[1; 64 << 10]);
        let adopted = heap.adopt(&memory).expect("plain memory");
        let (seen, told) = rustix::pipe::pipe().expect("a pipe");
        // SAFETY: the child only stores, writes to a pipe and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut bytes = [0; 1];
            memory.read(60 << 10, &mut bytes);
            memory.write(0, &[3; 64 << 10]);
            let _ = rustix::io::write(&told, &bytes);
            // SAFETY: ends the child without anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        memory.write(60 << 10, &[2; 1]);
        let mut bytes = [0; 1];
        assert_eq!(rustix::io::read(&seen, &mut bytes).expect("the child's word"), 1);
        assert_eq!(bytes, [1], "as it was at the fork");
        let mut status = 0;
        // SAFETY: waits for this test's own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        let mut all = vec![0; 64 << 10];
        memory.read(0, &mut all);
        assert!(all.iter().enumerate().all(|(at, &byte)| byte == if at == 60 << 10 { 2 } else { 1 }));
        drop(adopted);
        memory.read(0, &mut all);
        assert_eq!((all[0], all[60 << 10]), (1, 2));
    }
}
