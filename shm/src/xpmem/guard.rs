//! Handlers of SIGBUS and SIGSEGV on peers' memory that XPMEM has mapped. When a process ends, the
//! module removes the process's pages from the processes that have mapped them, and the next access
//! there raises SIGBUS. The handler maps zeroed pages instead, so that the access completes. The
//! next call that waits reports the death. A fault while the owner is alive means that the owner
//! has unmapped memory of a window. The process then ends with a message that names this reason.
//!
//! While the pages are replaced, the range is not mapped. An access of another thread then raises
//! SIGSEGV, whose handler waits and repeats the access. The program's handlers serve all other
//! faults, and signals that a process has sent. A program that later installs its own handlers
//! removes the guard.

use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::{Permit, sys};

/// The most pieces that a process may have mapped at once, far below `vm.max_map_count` (65,530
/// by default).
const MAX_PIECES: usize = 4096;

/// The states of a table entry.
const FREE: u8 = 0;
const TAKEN: u8 = 1;
const LIVE: u8 = 2;
/// A thread is mapping zeroed pages there.
const ENDING: u8 = 3;
const ENDED: u8 = 4;

/// A mapped piece, as a signal handler can read it.
#[derive(Debug)]
pub(super) struct Entry {
    state: AtomicU8,
    peer: AtomicU32,
    base: AtomicUsize,
    len: AtomicUsize,
    segment: AtomicI64,
}

static TABLE: [Entry; MAX_PIECES] = [const {
    Entry {
        state: AtomicU8::new(FREE),
        peer: AtomicU32::new(0),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        segment: AtomicI64::new(0),
    }
}; MAX_PIECES];

/// The descriptor of the device, for handlers.
static DEVICE: AtomicI32 = AtomicI32::new(-1);

/// Guards a range that is about to be mapped; `None` if the table is full.
pub(super) fn insert(base: usize, len: usize, permit: &Permit) -> Option<&'static Entry> {
    install(permit);
    let free = |entry: &&Entry| entry.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let entry = TABLE.iter().find(free)?;
    entry.peer.store(permit.peer, Ordering::Relaxed);
    entry.base.store(base, Ordering::Relaxed);
    entry.len.store(len, Ordering::Relaxed);
    entry.segment.store(permit.segment, Ordering::Relaxed);
    // Release: pairs with the load in `entry_at`: a handler that sees LIVE sees the fields.
    entry.state.store(LIVE, Ordering::Release);
    Some(entry)
}

/// Ends the guard of a range that is no longer used. Returns whether the range is still mapped.
pub(super) fn remove(entry: &Entry) -> bool {
    let was = entry.state.swap(TAKEN, Ordering::AcqRel);
    entry.state.store(FREE, Ordering::Release);
    was == LIVE
}

/// The previous actions for SIGBUS and SIGSEGV.
static mut BEFORE: [MaybeUninit<libc::sigaction>; 2] = [const { MaybeUninit::uninit() }; 2];
const SIGNALS: [i32; 2] = [libc::SIGBUS, libc::SIGSEGV];

fn install(permit: &Permit) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        DEVICE.store(permit.xpmem.fd().as_raw_fd(), Ordering::Relaxed);
        install_handlers();
    });
}

/// Installs [`on_fault`]. Called once in a process.
fn install_handlers() {
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: zero is a value of all fields. The handler has the signature that SA_SIGINFO
        // demands. BEFORE is written only here, by one thread, and read by the handler, which
        // the call installs after it has filled BEFORE.
        unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = on_fault as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            let before = (&raw mut BEFORE).cast::<libc::sigaction>().add(index);
            libc::sigaction(signal, std::ptr::null(), before);
            libc::sigaction(signal, &raw const ours, std::ptr::null_mut());
        }
    }
}

/// The signal handler, which calls only functions that are allowed in handlers, and restores
/// `errno`.
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's structure. A signal that a process has sent has no address
    // (sigaction(2): `si_code` is not positive).
    let at = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    // SAFETY: this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let again = at.and_then(entry_at).is_some_and(|entry| may_retry(entry, signal));
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    if !again {
        pass_on(signal, at.is_none(), info, context);
    }
}

/// The guarded piece that contains an address.
fn entry_at(at: usize) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| {
        // Acquire: pairs with the store in `insert`.
        entry.state.load(Ordering::Acquire) >= LIVE
            && at.wrapping_sub(entry.base.load(Ordering::Relaxed)) < entry.len.load(Ordering::Relaxed)
    })
}

/// Whether the access may be tried again.
fn may_retry(entry: &Entry, signal: i32) -> bool {
    let peer = entry.peer.load(Ordering::Relaxed);
    let first = entry.state.compare_exchange(LIVE, ENDING, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        while entry.state.load(Ordering::Acquire) == ENDING {
            std::hint::spin_loop();
        }
        return entry.state.load(Ordering::Acquire) == ENDED;
    }
    let gone = signal == libc::SIGBUS && has_ended(entry.segment.load(Ordering::Relaxed));
    let done = gone && put_zeroes(entry);
    entry.state.store(if done { ENDED } else { LIVE }, Ordering::Release);
    if !done {
        let why: &[u8] = match (signal, gone) {
            (libc::SIGBUS, false) => b" which that rank has unmapped before it freed the window over it\n",
            (_, true) => b" which has ended, and its pages could not be replaced\n",
            _ => b" which has been detached, because /dev/xpmem was closed\n",
        };
        report(peer, why);
    }
    done
}

/// Whether the process that made a segment has ended.
fn has_ended(segment: i64) -> bool {
    // SAFETY: the descriptor is never closed.
    let device = unsafe { BorrowedFd::borrow_raw(DEVICE.load(Ordering::Relaxed)) };
    match sys::get(device, segment) {
        Ok(access) => {
            let _ = sys::release(device, access);
            false
        }
        Err(error) => error.raw_os_error() == Some(libc::ENOENT),
    }
}

/// Unmaps a piece, and maps zeroed pages instead.
fn put_zeroes(entry: &Entry) -> bool {
    let (base, len) = (entry.base.load(Ordering::Relaxed), entry.len.load(Ordering::Relaxed));
    // SAFETY: the descriptor is never closed.
    let device = unsafe { BorrowedFd::borrow_raw(DEVICE.load(Ordering::Relaxed)) };
    // SAFETY: a thread that accesses the range meanwhile waits in `may_retry` for the new pages.
    if unsafe { sys::detach(device, base) }.is_err() {
        return false;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: no existing mapping is replaced.
    unsafe { mmap_anonymous(std::ptr::with_exposed_provenance_mut(base), len, protection, flags) }.is_ok()
}

/// Reports the error without allocating.
fn report(peer: u32, why: &[u8]) {
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    let room = rest.len();
    let written = write!(rest, "transom: an access to memory of rank {peer},").and_then(|()| rest.write_all(why));
    let len = room - rest.len();
    if written.is_ok() {
        // SAFETY: the bytes are this function's own.
        unsafe { libc::write(2, line.as_ptr().cast(), len) };
    }
}

/// Passes the signal to the action that was in force before this handler. `sent`: the signal comes
/// from a process, so no access is tried again.
fn pass_on(signal: i32, sent: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    // SAFETY: filled before this handler was installed, and never written again.
    let before = unsafe { (&raw const BEFORE).cast::<libc::sigaction>().add(index).read() };
    match before.sa_sigaction {
        libc::SIG_IGN if sent => {}
        // The access is tried again, and ends the process. A sent signal is sent again: it is not
        // blocked in this handler (SA_NODEFER).
        // SAFETY: the previous action, and calls that are allowed in handlers.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if sent {
                libc::raise(signal);
            }
        },
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler with this signature, as its flags say.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler of one argument, as its flags say.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SIGNALS, install_handlers};

    /// The wait status of a child that has set `action`, installed the handlers, and sent itself
    /// `signal`.
    fn status_after(signal: i32, action: usize) -> i32 {
        // SAFETY: the child makes only calls that are allowed after a fork, and does not return.
        // The parent waits for the child.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::signal(signal, action);
                install_handlers();
                libc::raise(signal);
                libc::_exit(7);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child, "a child");
            status
        }
    }

    extern "C" fn exit_with_8(_: i32) {
        // SAFETY: allowed in handlers.
        unsafe { libc::_exit(8) }
    }

    /// Regression: the first signal that was sent to a process without a handler had no effect.
    #[test]
    fn a_sent_signal_has_the_effect_of_the_previous_action() {
        for signal in SIGNALS {
            let ended = status_after(signal, libc::SIG_DFL);
            assert!(libc::WIFSIGNALED(ended) && libc::WTERMSIG(ended) == signal, "{ended}");
            let ignored = status_after(signal, libc::SIG_IGN);
            assert!(libc::WIFEXITED(ignored) && libc::WEXITSTATUS(ignored) == 7, "{ignored}");
            let handled = status_after(signal, exit_with_8 as *const () as usize);
            assert!(libc::WIFEXITED(handled) && libc::WEXITSTATUS(handled) == 8, "{handled}");
        }
    }
}
