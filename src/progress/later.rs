//! A temporary thread that sends messages to ranks of the node whose message ring was full, in a
//! job without a progress thread. The thread exists only while there are such messages. It tries
//! repeatedly, because no event reports that a ring has a free cell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use transom_fabric::threads;

use super::thread::{RETRY, longer};
use crate::messages::Messages;
use crate::transport::Wire;

/// The sender of deferred messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Later(Arc<Mutex<Sender>>);

#[derive(Debug, Default)]
struct Sender {
    /// Whether the thread will look for deferred messages once more.
    runs: bool,
    thread: Option<JoinHandle<()>>,
}

impl Later {
    /// Has a thread send the messages that were deferred before this call. Returns false if the
    /// kernel refuses the thread.
    pub(super) fn begin(&self, wire: &Arc<Wire>, messages: &Arc<Messages>, stop: &Arc<AtomicBool>) -> bool {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.runs {
            return true;
        }
        join(sender.thread.take());
        let (later, wire, messages, stop) = (self.clone(), Arc::clone(wire), Arc::clone(messages), Arc::clone(stop));
        let body = move || {
            let mut nap = RETRY;
            while later.goes_on(&messages, &stop) {
                std::thread::sleep(nap);
                let sent = messages.send_deferred(|peer, bytes| wire.send(peer, bytes));
                nap = if sent > 0 { RETRY } else { longer(nap) };
            }
        };
        sender.thread = threads::spawn("transom-sender", body).ok();
        sender.runs = sender.thread.is_some();
        sender.runs
    }

    /// Whether messages are left. If not, the next [`Later::begin`] starts another thread: the lock
    /// decides whether this thread sees a message that is deferred at the same time.
    fn goes_on(&self, messages: &Messages, stop: &AtomicBool) -> bool {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Acquire: pairs with the Release in `stop`.
        sender.runs = messages.owes_answers() && !stop.load(Ordering::Acquire);
        sender.runs
    }

    /// Waits for the end of the thread, after `stop` was set.
    pub(super) fn end(&self) {
        // The lock is free before the join, because the thread takes it.
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
        join(thread);
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        // A panic of the thread was already reported.
        let _ = thread.join();
    }
}
