//! Keeps the program's signal handlers while libfabric is opened. Some libraries to which libfabric
//! links (PSM of old InfiniBand cards) install handlers when they are loaded. On a SIGSEGV these
//! handlers write a file into the working directory and exit with status 1.

use std::mem::MaybeUninit;

/// The signals whose handlers such libraries replace, and similar signals.
const KEPT: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGTERM,
];

/// Runs `open`, then restores the handlers that were installed before.
pub(crate) fn keeping_handlers<T>(open: impl FnOnce() -> T) -> T {
    let before = KEPT.map(|signal| (signal, handler(signal)));
    let opened = open();
    for (signal, before) in before {
        if let Some(before) = before {
            // SAFETY: the kernel returned this action for this signal before. A failure leaves the
            // other handler, which is valid too.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
    }
    opened
}

/// The action that is installed for a signal.
fn handler(signal: i32) -> Option<libc::sigaction> {
    let mut found = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: room for one action, read only where the call succeeds.
    unsafe { (libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows T3.
    #[test]
    fn handlers_outlive_the_opening() {
        extern "C" fn other(_: i32) {}
        let before = handler(libc::SIGHUP).expect("a signal").sa_sigaction;
        let within = keeping_handlers(|| {
            // SAFETY: the handler has no effect.
            unsafe { libc::signal(libc::SIGHUP, other as *const () as usize) };
            handler(libc::SIGHUP).expect("a signal").sa_sigaction
        });
        assert_ne!(within, before);
        assert_eq!(handler(libc::SIGHUP).expect("a signal").sa_sigaction, before);
    }
}
