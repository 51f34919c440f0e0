//! Starts the library's threads, and gives each thread of the process an identity. A thread of the
//! library blocks the program's signals, so that the threads of the program get them.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// The signals that a thread of the library does not block: those that a fault of the thread itself
/// raises, and those of profilers. All other signals are for the program's threads: a program that
/// waits for a signal by `sigwait` has blocked the signal in its own threads only.
const UNBLOCKED: [Signal; 8] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGSYS,
    Signal::SIGPROF,
];

/// The identity of a thread, which no other thread of this process has or will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64);

/// The identity of the calling thread. Also works in destructors of thread-specific data
/// (`pthread_key_create`), where `std::thread::current` panics, because the thread's data of `std`
/// are destroyed already.
pub fn identity() -> Identity {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        // A value without a destructor lives as long as its thread.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        // Relaxed: only the uniqueness of the numbers matters.
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    Identity(NUMBER.get())
}

/// Starts a thread to which the kernel delivers no signal of the program.
///
/// # Errors
/// The kernel refuses a further thread.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut blocked = SigSet::all();
    UNBLOCKED.into_iter().for_each(|signal| blocked.remove(signal));
    // A thread begins with the mask of the thread that starts it.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let thread = Builder::new().name(name.into()).spawn(body);
    if let Ok(before) = before {
        before.thread_set_mask()?;
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_identity_and_no_other_has_it() {
        let mine = identity();
        assert_eq!(identity(), mine);
        let theirs = std::thread::spawn(identity).join().expect("no panic");
        assert_ne!(theirs, mine);
    }

    #[test]
    fn a_thread_of_the_library_gets_no_signal_of_the_program() {
        let mine = SigSet::thread_get_mask().expect("a mask");
        let theirs = std::sync::Arc::new(std::sync::Mutex::new(None));
        let seen = std::sync::Arc::clone(&theirs);
        let look = move || *seen.lock().expect("no panic") = SigSet::thread_get_mask().ok();
        spawn("of-the-library", look).expect("a thread").join().expect("no panic");
        let theirs = theirs.lock().expect("no panic").expect("a mask");
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1, Signal::SIGCHLD, Signal::SIGALRM] {
            assert!(theirs.contains(signal), "{signal} is blocked");
        }
        assert!(UNBLOCKED.into_iter().all(|signal| !theirs.contains(signal)), "faults end the process at once");
        assert_eq!(SigSet::thread_get_mask().expect("a mask"), mine, "the caller's mask is as before");
    }
}
