//! OpenMP's threads and tasks as ThreadSanitizer sees them, for programs that gcc compiled. The
//! OpenMP library of gcc synchronizes threads by means that the sanitizer does not see, so the
//! sanitizer reports correct programs. While the conflict checker (`TRANSOM_CHECK`) is on, this
//! module wraps the library's functions that gcc calls, and tells the sanitizer what the functions
//! order (OpenMP 5.1 §1.4): the begin and the end of parallel regions, barriers, tasks, critical
//! and ordered regions, locks. Tasks and sections that one thread runs appear to the sanitizer in
//! the order of that thread. Threads therefore leave tasks and sections to other threads for a
//! short time, so that more conflicts are found.
//!
//! While the checker is off, a wrapper only calls the library's function.

mod marks;
#[allow(non_snake_case, reason = "the names of another library")]
mod names;
mod regions;
mod tasks;

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use marks::Mark;
use tasks::Node;

/// Whether the sanitizer is told.
static ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Where in the program's regions and tasks this thread is. Without a destructor: functions of
    /// `atexit` may have constructs too.
    static HERE: ManuallyDrop<Here> = const { ManuallyDrop::new(Here::new()) };
}

/// Starts or stops telling the sanitizer, if the program has it.
pub(crate) fn begin(on: bool) {
    // Relaxed: set at the start and at the end, when no other thread calls.
    ON.store(on && marks::are_there(), Ordering::Relaxed);
    if is_on() {
        transom::Job::checker_pauses_by(pause);
    }
}

fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Where a thread is.
struct Here {
    team: Cell<*const Team>,
    /// The number of barriers that the thread has passed in its team.
    barriers: Cell<usize>,
    task: Cell<Option<Arc<Node>>>,
    /// The sections for which the thread has asked in a construct.
    sections: Cell<usize>,
}

/// The threads of a parallel region, and what its constructs order.
#[derive(Default)]
struct Team {
    begins: Mark,
    ends: Mark,
    /// Barriers use the two marks in turn, so that a thread that is late at one barrier is not
    /// ordered after threads at the next.
    barriers: [Mark; 2],
    /// The tasks that have ended.
    tasks: Mark,
    ordered: Mark,
    copied: Mark,
    /// The tasks that no thread has begun.
    waiting: AtomicUsize,
}

impl Team {
    fn let_others_take_tasks(&self) {
        // Relaxed: a thread that sees an old value only waits for nothing, or does not wait.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            spread(|| self.waiting.load(Ordering::Relaxed) == 0);
        }
    }
}

/// Lets the other threads of a region make calls before operations of this one are complete.
fn pause() {
    if HERE.with(|here| here.team().is_some()) {
        spread(|| false);
    }
}

/// Leaves work to other threads until `is_done`, for a short time, and not often.
fn spread(is_done: impl Fn() -> bool) {
    const MOST: usize = 100;
    const TIME: Duration = Duration::from_millis(5);
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    if !is_done() && TIMES.fetch_add(1, Ordering::Relaxed) < MOST {
        std::thread::sleep(TIME);
    }
}

impl Here {
    const fn new() -> Here {
        Here {
            team: Cell::new(std::ptr::null()),
            barriers: Cell::new(0),
            task: Cell::new(None),
            sections: Cell::new(0),
        }
    }

    /// The team of the region in which this thread is.
    fn team(&self) -> Option<&Team> {
        // SAFETY: the team is in the frame of `regions::within`, which ends after all its threads
        // and tasks have.
        unsafe { self.team.get().as_ref() }
    }

    /// The task that this thread runs.
    fn task(&self) -> Arc<Node> {
        let task = self.task.take().unwrap_or_default();
        self.task.set(Some(task.clone()));
        task
    }
}
