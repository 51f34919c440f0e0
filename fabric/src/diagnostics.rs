//! Warnings and failures that no caller gets as a value, for example from `drop` or from the
//! progress thread. Only this module writes to the standard error, except the signal handlers of
//! `transom-shm`, which must not allocate. It must not know the subjects of the messages.
//!
//! Where the program has installed a logger of the crate `log` (feature `log`), messages are
//! records of that logger, and the library writes nothing itself.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::threads;

/// Whether warnings are reported.
static WARNINGS: AtomicBool = AtomicBool::new(true);

/// Turns warnings on or off for the process. Errors are always reported.
pub fn show_warnings(on: bool) {
    // Relaxed: an independent switch; no other data is published with it.
    WARNINGS.store(on, Ordering::Relaxed);
}

/// Reports that the library continues, but not as the user would expect. `target` is the module,
/// such as `transom::job`.
#[cold]
pub fn warn(target: &'static str, text: &dyn fmt::Display) {
    if WARNINGS.load(Ordering::Relaxed) && !logged(false, target, text) {
        write_line(format_args!("transom: warning: {text}"));
    }
}

/// Warns, from a thread of its own, if the returned value is not dropped within `time`.
#[must_use]
pub fn warn_after(time: Duration, target: &'static str, text: String) -> Sender<()> {
    let (sender, ended) = mpsc::channel();
    let tell = move || {
        if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            warn(target, &text);
        }
    };
    // Without the thread the warning is missing.
    drop(threads::spawn("transom-late", tell));
    sender
}

/// Reports a failure that ends the process, or a part of the library's work.
#[cold]
pub fn error(target: &'static str, text: &dyn fmt::Display) {
    if !logged(true, target, text) {
        write_line(format_args!("transom: {text}"));
    }
}

/// An error in words with all its sources, separated by colons.
pub fn chain(error: &dyn Error) -> String {
    let sources = std::iter::successors(error.source(), |&source| source.source());
    sources.fold(error.to_string(), |text, source| text + ": " + &source.to_string())
}

/// Writes output that the user requested by a `TRANSOM_` variable, such as `TRANSOM_INFO` or
/// `TRANSOM_CHECK`. A logger does not get it.
pub fn print_requested(text: &str) {
    write_line(format_args!("{text}"));
}

/// Passes a message to the program's logger. Returns whether there is a logger.
#[cfg(feature = "log")]
fn logged(is_error: bool, target: &str, text: &dyn fmt::Display) -> bool {
    // Without a logger the level is `Off`. A program that wants silence sets TRANSOM_WARNINGS=n.
    if log::max_level() == log::LevelFilter::Off {
        return false;
    }
    let level = if is_error { log::Level::Error } else { log::Level::Warn };
    log::log!(target: target, level, "{text}");
    if is_error {
        // The process may end next.
        log::logger().flush();
    }
    true
}

#[cfg(not(feature = "log"))]
fn logged(_is_error: bool, _target: &str, _text: &dyn fmt::Display) -> bool {
    false
}

/// Writes a line by one system call, so that lines of several ranks do not mix. If the standard
/// error is closed, or its reader has ended, the line is lost.
fn write_line(text: fmt::Arguments<'_>) {
    let mut line = text.to_string();
    if !line.ends_with('\n') {
        line.push('\n');
    }
    let _ = std::io::stderr().write_all(line.as_bytes());
}
