//! OpenMP's tasks. A task is ordered after all that its creator did before it created the task.

use std::ffi::{c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::regions::Body;
use super::{HERE, Mark, Team, marks, spread};

/// Copies the data of a task: to, and from.
pub(super) type Copier = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// The marks of a running task for which others wait.
#[derive(Default)]
pub(super) struct Node {
    /// The children that have ended.
    children: Mark,
    ended: Mark,
    is_final: bool,
    /// The taskgroups in which its children are, the innermost last.
    groups: Mutex<Vec<Arc<Mark>>>,
}

impl Node {
    fn groups(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Mark>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that will run.
struct Planned {
    body: Body,
    copier: Option<Copier>,
    /// The data that the copier reads.
    data: *mut c_void,
    /// Where the copy begins behind the head, and its length.
    offset: usize,
    size: usize,
    begins: Mark,
    node: Arc<Node>,
    parent: Arc<Node>,
    /// The team of the creator, which outlives the task. A thread may run it at the end of the
    /// region, when it has left the team.
    team: *const Team,
    depends: Dependences,
}

impl Planned {
    fn team(&self) -> Option<&Team> {
        // SAFETY: the region ends after all its tasks.
        unsafe { self.team.as_ref() }
    }
}

/// The flags of a task.
const FINAL: u32 = 1 << 1;
const DEPENDS: u32 = 1 << 3;
const DETACHED: u32 = 1 << 6;

/// The arguments of `GOMP_task`.
pub(super) struct Given {
    pub(super) body: Body,
    pub(super) data: *mut c_void,
    pub(super) copier: Option<Copier>,
    pub(super) size: c_long,
    pub(super) align: c_long,
    /// Whether the creator does not wait for the task.
    pub(super) is_deferred: bool,
    pub(super) flags: u32,
    pub(super) depend: *mut *mut c_void,
}

/// The objects on which a task depends, and whether it changes each (`out`, `inout`).
#[derive(Default)]
pub(super) struct Dependences(Vec<(*mut c_void, bool)>);

impl Dependences {
    /// The dependences of a list of gcc. First form: the length, the number of objects that the
    /// task changes, and the objects, those first. Second form: 0, the length, two numbers of
    /// objects that the task changes, a word that is not used here, and the objects, those first.
    ///
    /// # Safety
    /// The list is one of gcc's.
    pub(super) unsafe fn of(list: *mut *mut c_void) -> Dependences {
        // SAFETY: the caller's promise.
        let number = |at: usize| unsafe { list.add(at).read() }.addr();
        let (count, changed, first) = match number(0) {
            0 => (number(1), number(2) + number(3), 5),
            count => (count, number(1), 2),
        };
        // SAFETY: as above.
        Dependences((0..count).map(|at| (unsafe { list.add(first + at).read() }, at < changed)).collect())
    }

    /// Orders this task after all that changed these objects and, where it changes an object, after
    /// all that used it.
    fn acquire(&self) {
        for &(object, changes) in &self.0 {
            marks::acquire(object);
            if changes {
                marks::acquire(object.wrapping_byte_add(USED));
            }
        }
    }

    fn release(&self) {
        self.0.iter().for_each(|&(object, changes)| {
            marks::release(if changes { object } else { object.wrapping_byte_add(USED) });
        });
    }
}

/// The offset from an object to the mark of the tasks that only use it, in bytes.
const USED: usize = 1;

/// Makes a task by `make`, which passes the arguments to the OpenMP library.
pub(super) fn task(given: Given, make: impl FnOnce(Given)) {
    if given.flags & DETACHED != 0 {
        return make(given);
    }
    let (parent, flags) = (HERE.with(|here| here.task()), given.flags);
    let groups = parent.groups().last().cloned().into_iter().collect();
    let is_final = flags & FINAL != 0 || parent.is_final;
    let node = Arc::new(Node { is_final, groups: Mutex::new(groups), ..Node::default() });
    let align = usize::try_from(given.align).unwrap_or(1).max(align_of::<usize>());
    let size = usize::try_from(given.size).unwrap_or(0);
    let offset = size_of::<usize>().next_multiple_of(align);
    let planned = Box::new(Planned {
        body: given.body,
        copier: given.copier,
        data: given.data,
        offset,
        size,
        begins: Mark::default(),
        node: node.clone(),
        parent: parent.clone(),
        team: HERE.with(|here| here.team.get()),
        // SAFETY: the flag says that the program gives them.
        depends: if flags & DEPENDS != 0 { unsafe { Dependences::of(given.depend) } } else { Dependences::default() },
    });
    let waits = !given.is_deferred || parent.is_final;
    if let Some(team) = planned.team() {
        team.waiting.fetch_add(1, Ordering::Relaxed);
    }
    let mut head = Box::into_raw(planned);
    let total = |bytes: usize| c_long::try_from(bytes).unwrap_or(c_long::MAX);
    make(Given {
        body: run,
        data: (&raw mut head).cast(),
        // The sanitizer sees the copies that the library makes itself.
        copier: Some(copy),
        size: total(offset + size),
        align: total(align),
        is_deferred: given.is_deferred,
        flags,
        depend: given.depend,
    });
    if waits {
        node.ended.acquire();
    }
}

/// The head of a task is the address of its [`Planned`]. Makes a copy of the head and the data.
///
/// # Safety
/// `from` is a head of [`task`], `to` has room for it with its data.
unsafe extern "C" fn copy(to: *mut c_void, from: *mut c_void) {
    // SAFETY: as the caller says. The task has not run.
    unsafe {
        let head = from.cast::<*mut Planned>().read();
        to.cast::<*mut Planned>().write(head);
        let Planned { copier, offset, size, data, begins, .. } = &*head;
        let copied = to.byte_add(*offset);
        match copier {
            Some(copier) => copier(copied, *data),
            None => copied.cast::<u8>().copy_from_nonoverlapping(data.cast(), *size),
        }
        begins.release();
    }
}

/// Runs a task.
///
/// # Safety
/// `head` is one of [`task`], or its copy, and runs once.
unsafe extern "C" fn run(head: *mut c_void) {
    // SAFETY: as the caller says.
    let planned = unsafe { Box::from_raw(head.cast::<*mut Planned>().read()) };
    let Planned { body, offset, begins, node, parent, depends, .. } = &*planned;
    let team = planned.team();
    HERE.with(|here| {
        let (outer, outside) = (here.task.replace(Some(node.clone())), here.team.replace(planned.team));
        let sections = here.sections.replace(0);
        if let Some(team) = team {
            team.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        begins.acquire();
        depends.acquire();
        // SAFETY: the function that the program gave, and its data.
        unsafe { body(head.byte_add(*offset)) };
        if let Some(team) = team {
            team.tasks.release();
        }
        depends.release();
        node.ended.release();
        parent.children.release();
        // The group in which the parent made the task. The task's own groups have ended.
        if let Some(group) = node.groups().first() {
            group.release();
        }
        here.task.set(outer);
        here.team.set(outside);
        here.sections.set(sections);
        if team.is_some_and(|team| team.waiting.load(Ordering::Relaxed) > 0) {
            spread(|| false);
        }
    });
}

/// Waits for the children of the calling thread's task by `wait`. `depends`: for those only on
/// which it depends.
pub(super) fn wait(depends: Option<&Dependences>, wait: impl FnOnce()) {
    HERE.with(|here| {
        if let Some(team) = here.team() {
            team.let_others_take_tasks();
        }
        wait();
        match depends {
            Some(depends) => depends.acquire(),
            None => here.task().children.acquire(),
        }
    });
}

/// Begins a taskgroup.
pub(super) fn group_begins() {
    HERE.with(|here| here.task().groups().push(Arc::default()));
}

/// Ends one by `wait`.
pub(super) fn group_ends(wait: impl FnOnce()) {
    wait();
    let group = HERE.with(|here| here.task().groups().pop());
    if let Some(group) = group {
        group.acquire();
    }
}

/// The number of task loops that are distinguished by the functions that gcc makes of their bodies.
const LOOPS: usize = 16;
static LOOPS_SEEN: [OnceLock<Loop>; LOOPS] = [const { OnceLock::new() }; LOOPS];
/// The function that the tasks of each loop run.
const CHUNKS: [Body; LOOPS] = [
    chunk::<0>,
    chunk::<1>,
    chunk::<2>,
    chunk::<3>,
    chunk::<4>,
    chunk::<5>,
    chunk::<6>,
    chunk::<7>,
    chunk::<8>,
    chunk::<9>,
    chunk::<10>,
    chunk::<11>,
    chunk::<12>,
    chunk::<13>,
    chunk::<14>,
    chunk::<15>,
];

/// A loop whose iterations are tasks. The library makes them, so that each gets no head.
struct Loop {
    body: Body,
    begins: Mark,
    ends: Mark,
    /// The tasks that no group waits for end with the region of the last call.
    team: AtomicPtr<Team>,
}

/// Makes the tasks of a loop by `make`, which gets what the library is to run, and waits for them
/// if `waits` is set.
pub(super) fn in_loop(body: Body, waits: bool, make: impl FnOnce(Body)) {
    let is_it = |one: &&OnceLock<Loop>| {
        let one = one.get_or_init(|| Loop {
            body,
            begins: Mark::default(),
            ends: Mark::default(),
            team: AtomicPtr::default(),
        });
        std::ptr::fn_addr_eq(one.body, body)
    };
    let Some(at) = LOOPS_SEEN.iter().position(|one| is_it(&one)) else { return make(body) };
    let Some(it) = LOOPS_SEEN[at].get() else { return make(body) };
    it.team.store(HERE.with(|here| here.team.get()).cast_mut(), Ordering::Relaxed);
    it.begins.release();
    make(CHUNKS[at]);
    if waits {
        it.ends.acquire();
    }
}

/// Runs a task of a loop.
///
/// # Safety
/// The data are those for the body of the loop.
unsafe extern "C" fn chunk<const AT: usize>(data: *mut c_void) {
    let Some(it) = LOOPS_SEEN[AT].get() else { return };
    HERE.with(|here| {
        let (outer, sections) = (here.task.take(), here.sections.replace(0));
        it.begins.acquire();
        // SAFETY: the function that the program gave, and its data.
        unsafe { (it.body)(data) };
        // Relaxed: set before the task was made.
        // SAFETY: the region ends after all its tasks.
        if let Some(team) = unsafe { it.team.load(Ordering::Relaxed).as_ref() } {
            team.tasks.release();
        }
        it.ends.release();
        here.task.set(outer);
        here.sections.set(sections);
        spread(|| false);
    });
}
