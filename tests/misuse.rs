//! Epoch misuse (REQUIREMENTS E2): every call in every state of a window where MPI does not allow it gives its error class, hangs nowhere,
//! and leaves the window as it was: correct epochs follow, and their data is checked.

#![allow(unsafe_code)]

use std::process::ExitCode;

use transom::{Assert, At, BasicType, Class, Datatype, Info, Items, Job, Lock, Op, PROC_NULL, RawWindow, Window};
use transom_harness::{Outcome, Test, same, step};

static TESTS: &[Test] = &[
    Test { name: "every_illegal_call_of_an_allocated_window", ranks: &[1, 2, 3], env: &[], body: allocated },
    Test { name: "every_illegal_call_of_a_created_window", ranks: &[1, 2, 3], env: &[], body: created },
    Test { name: "arguments_that_cannot_be", ranks: &[1, 2], env: &[], body: arguments },
    Test { name: "closures_within_closures", ranks: &[1, 2], env: &[], body: closures },
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// The states of a window at a process, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Fenced,
    Fence,
    LockAll,
    Lock,
    Start,
    Posted,
    Both,
    Freed,
}

const STATES: [State; 9] = [
    State::Closed,
    State::Fenced,
    State::Fence,
    State::LockAll,
    State::Lock,
    State::Start,
    State::Posted,
    State::Both,
    State::Freed,
];

/// The ranks of a table: the one that epochs of one target have, and this one, which they do not have.
struct Place<'w> {
    win: &'w RawWindow,
    me: usize,
    next: usize,
    before: usize,
}

static BYTE: [u8; 1] = [0xbb];

impl Place<'_> {
    fn put(&self, target: usize) -> transom::Result<()> {
        // SAFETY: `BYTE` is never written.
        unsafe { self.win.put(BYTE.as_ptr(), 1, target, 31) }
    }

    fn rput(&self, target: usize) -> transom::Result<()> {
        let byte = Datatype::from(BasicType::Byte);
        // SAFETY: `BYTE` is never written.
        unsafe { self.win.rput(Items::of(BYTE.as_ptr(), 1, &byte), At::new(target, 31, 1, &byte)) }
            .and_then(|mut request| request.wait())
    }

    fn fetch(&self, target: usize) -> transom::Result<()> {
        self.win.fetch_and_op(&[0; 8], &mut [0; 8], BasicType::Uint64, target, 0, Op::Sum)
    }
}

/// A call, by its name; what it does; and for each state whether it is allowed (`+`), or `RmaSync` (`-`); `?`: it is for one rank, and not
/// for more. A `*` before the name: only where this rank is another than the next one.
type Row = (&'static str, fn(&Place<'_>) -> transom::Result<()>, &'static str);

/// Columns: Closed, Fenced, Fence, LockAll, Lock, Start, Posted, Both, Freed.
const TABLE: [Row; 24] = [
    ("put", |p| p.put(p.next), "-++++ + - + -"),
    ("*put to another", |p| p.put(p.me), "-+++- - - - -"),
    ("rput", |p| p.rput(p.next), "---++ - - - -"),
    ("*rput to another", |p| p.rput(p.me), "---+- - - - -"),
    ("fetch_and_op", |p| p.fetch(p.next), "-++++ + - + -"),
    ("fence", |p| p.win.fence(Assert::NONE), "+++-- - - - -"),
    ("last fence", |p| p.win.fence(Assert::NOSUCCEED), "+++-- - - - -"),
    ("empty fence", |p| p.win.fence(Assert::NOPUT | Assert::NOSUCCEED), "+++-- - - - -"),
    ("lock_all", |p| p.win.lock_all(Assert::NONE), "++--- - - - -"),
    ("unlock_all", |p| p.win.unlock_all(), "---+- - - - -"),
    ("lock", |p| p.win.lock(Lock::Shared, p.next, Assert::NONE), "++--- - ? - -"),
    ("*lock of another", |p| p.win.lock(Lock::Exclusive, p.me, Assert::NOCHECK), "++--+ - - - -"),
    ("unlock", |p| p.win.unlock(p.next), "----+ - - - -"),
    ("*unlock of another", |p| p.win.unlock(p.me), "----- - - - -"),
    ("flush", |p| p.win.flush(p.next), "---++ - - - -"),
    ("*flush of another", |p| p.win.flush(p.me), "---+- - - - -"),
    ("flush_local", |p| p.win.flush_local(p.next), "---++ - - - -"),
    ("flush_all", |p| p.win.flush_all().and(p.win.flush_local_all()), "---++ - - - -"),
    ("start", |p| p.win.start(&[p.next], Assert::NONE), "++--- - + - -"),
    ("complete", |p| p.win.complete(), "----- + - + -"),
    ("post", |p| p.win.post(&[p.before], Assert::NONE), "++--? + - - -"),
    ("wait", |p| p.win.wait(), "----- - + + -"),
    ("test", |p| p.win.test().map(drop), "----- - + + -"),
    ("free", |p| p.win.free(), "++--- - - - -"),
];

/// Shows E2.
fn allocated(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 32, 1, &Info::new())?;
    table(world, &win)
}

/// Shows E2.
fn created(world: &Job) -> Outcome {
    let mut memory = vec![0u64; 4];
    // SAFETY: the memory outlives the table, which frees the window; nobody refers to it meanwhile.
    let win = unsafe { RawWindow::create(world, memory.as_mut_ptr().cast(), 32, 1, &Info::new()) }?;
    table(world, &win)?;
    same("the byte that no refused put wrote", &memory[3].to_ne_bytes()[7], &0xcc)
}

fn table(world: &Job, win: &RawWindow) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let place = Place { win, me, next: (me + 1) % size, before: (me + size - 1) % size };
    for (column, state) in STATES.into_iter().enumerate() {
        step(format!("entering {state:?}"));
        enter(&place, state)?;
        for (name, call, row) in TABLE {
            let sign = row.chars().filter(|sign| *sign != ' ').nth(column);
            let refused = sign == Some('-') || (sign == Some('?') && size == 1);
            if !refused || (name.starts_with('*') && size == 1) {
                continue;
            }
            step(format!("{name} in {state:?}"));
            let outcome = call(&place).map_err(|error| error.class());
            same(&format!("{name} in {state:?}"), &outcome, &Err(Class::RmaSync))?;
        }
        step(format!("leaving {state:?}"));
        leave(&place, state)?;
        if state != State::Freed {
            world.barrier()?;
            correct(world, &place, column as u64 + 1)?;
        }
    }
    Ok(())
}

fn enter(place: &Place<'_>, state: State) -> transom::Result<()> {
    let win = place.win;
    match state {
        State::Closed => Ok(()),
        State::Fenced => win.fence(Assert::NONE),
        State::Fence => win.fence(Assert::NONE).and_then(|()| place.fetch(place.next)),
        State::LockAll => win.lock_all(Assert::NONE),
        State::Lock => win.lock(Lock::Exclusive, place.next, Assert::NONE),
        State::Start => win.start(&[place.next], Assert::NONE),
        State::Posted => win.post(&[place.before], Assert::NONE),
        State::Both => {
            win.post(&[place.before], Assert::NONE)?;
            win.start(&[place.next], Assert::NONE)
        }
        State::Freed => win.free(),
    }
}

/// Ends the state's epochs, with an operation in each that may have one.
fn leave(place: &Place<'_>, state: State) -> transom::Result<()> {
    let win = place.win;
    match state {
        State::Closed | State::Freed => return Ok(()),
        State::Start => win.post(&[place.before], Assert::NONE)?,
        State::Posted => win.start(&[place.next], Assert::NONE)?,
        _ => {}
    }
    place.fetch(place.next)?;
    match state {
        State::Fenced | State::Fence => win.fence(Assert::NOSUCCEED),
        State::LockAll => win.unlock_all(),
        State::Lock => win.unlock(place.next),
        _ => {
            win.complete()?;
            win.wait()
        }
    }
}

/// An epoch of each kind, with data.
fn correct(world: &Job, place: &Place<'_>, value: u64) -> Outcome {
    let win = place.win;
    let put = |at: u64, value: u64| {
        win.fetch_and_op(&value.to_ne_bytes(), &mut [0; 8], BasicType::Uint64, place.next, at, Op::Replace)
    };
    win.fence(Assert::NONE)?;
    put(8, value)?;
    win.fence(Assert::NOSUCCEED)?;
    win.lock(Lock::Exclusive, place.next, Assert::NONE)?;
    put(16, value + 1)?;
    win.unlock(place.next)?;
    world.barrier()?;
    win.post(&[place.before], Assert::NONE)?;
    win.start(&[place.next], Assert::NONE)?;
    put(24, 0xcc << 56)?;
    win.complete()?;
    win.wait()?;
    win.lock_all(Assert::NONE)?;
    win.flush_all()?;
    win.unlock_all()?;
    let mut found = [0u64; 4];
    for (index, word) in found.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        win.load(index * 8, &mut bytes);
        *word = u64::from_ne_bytes(bytes);
    }
    same("the data of correct epochs", &found, &[0, value, value + 1, 0xcc << 56])?;
    Ok(world.barrier()?)
}

/// Assertions, ranks, counts and types that cannot be: the class of each, and no state is changed.
/// Shows E1, E2, S4.
fn arguments(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 32, 1, &Info::new())?;
    let place = Place { win: &win, me, next: (me + 1) % size, before: (me + size - 1) % size };
    let class = |what: &str, outcome: transom::Result<()>, expected: Class| {
        same(what, &outcome.map_err(|error| error.class()), &Err(expected))
    };
    let flags = [Assert::NOCHECK, Assert::NOSTORE, Assert::NOPUT, Assert::NOPRECEDE, Assert::NOSUCCEED];
    for (index, flag) in flags.into_iter().enumerate() {
        if index == 0 {
            class("fence", win.fence(flag | Assert::NOPUT), Class::Assert)?;
        } else {
            class("start", win.start(&[0], flag | Assert::NOCHECK), Class::Assert)?;
            class("lock", win.lock(Lock::Shared, 0, flag), Class::Assert)?;
            class("lock_all", win.lock_all(flag | Assert::NOCHECK), Class::Assert)?;
        }
        if index > 2 {
            class("post", win.post(&[0], flag), Class::Assert)?;
        }
    }
    for group in [&[size][..], &[0, size], &[0, 0], &[PROC_NULL]] {
        class("post", win.post(group, Assert::NONE), Class::Rank)?;
        class("start", win.start(group, Assert::NONE), Class::Rank)?;
    }
    class("lock", win.lock(Lock::Shared, size, Assert::NONE), Class::Rank)?;
    class("unlock", win.unlock(size), Class::Rank)?;
    class("wait after a post that failed", win.wait(), Class::RmaSync)?;
    class("complete after a start that failed", win.complete(), Class::RmaSync)?;
    win.fence(Assert::NONE)?;
    class("put", place.put(size), Class::Rank)?;
    class("fetch_and_op", place.fetch(size), Class::Rank)?;
    win.lock_all(Assert::NONE)?;
    class("put in lock_all", place.put(size), Class::Rank)?;
    class("flush", win.flush(size), Class::Rank)?;
    let fetch = |operand: &[u8], ty, op| win.fetch_and_op(operand, &mut [0; 8], ty, 0, 0, op);
    class("an operand that is too short", fetch(&[0; 4], BasicType::Uint64, Op::Sum), Class::Count)?;
    class("an operand that is too long", fetch(&[0; 16], BasicType::Uint64, Op::Sum), Class::Count)?;
    class("a bitwise operation on floats", fetch(&[0; 8], BasicType::Float64, Op::Band), Class::Op)?;
    let swap = win.compare_and_swap(&[0; 8], &[0; 8], &mut [0; 8], BasicType::Float64, 0, 0);
    class("a swap of floats", swap, Class::Type)?;
    let (byte, long) = (Datatype::from(BasicType::Byte), Datatype::from(BasicType::Uint64));
    let data = [7u64; 4];
    // SAFETY: `data` outlives the epoch; both are refused.
    let put = |count, at| unsafe { win.put_items(Items::of(data.as_ptr().cast(), count, &byte), at) };
    class("counts that differ", put(7, At::new(0, 0, 8, &byte)), Class::Type)?;
    class("types that differ", put(8, At::new(0, 0, 1, &long)), Class::Type)?;
    class("a count beyond the window", put(32, At::new(0, 1, 32, &byte)), Class::RmaRange)?;
    win.unlock_all()?;
    let mut found = [1; 32];
    win.load(0, &mut found);
    same("nothing was written", &found, &[0; 32])?;
    world.barrier()?;
    correct(world, &place, 5)?;
    Ok(win.free()?)
}

/// An epoch that is opened within another that excludes it is `RmaSync`, and the outer one goes on.
/// Shows E2, A1.
fn closures(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = Window::<u64>::allocate(world, 4)?;
    let inner = |locks: bool| -> Outcome {
        let class = |what: &str, outcome: transom::Result<()>| {
            same(what, &outcome.map_err(|error| error.class()), &Err(Class::RmaSync))
        };
        class("lock_all", win.lock_all(|_| Ok(())))?;
        class("fence", win.fence(|_| Ok(())))?;
        class("start", win.start(&[next], |_| Ok(())))?;
        if locks {
            class("the same lock", win.lock(Lock::Shared, next, |_| Ok(())))?;
        }
        class("wait", win.wait())
    };
    let judge = |outcome: Outcome| outcome.unwrap_or_else(|error| panic!("{error}"));
    win.lock_all(|epoch| {
        judge(inner(true));
        epoch.put_value(next, 0, 1u64)
    })?;
    win.lock(Lock::Shared, next, |epoch| {
        judge(inner(true));
        if size > 1 {
            let other = epoch.put_value(me, 1, 9u64).map_err(|error| error.class());
            judge(same("a put to a target that is not locked", &other, &Err(Class::RmaSync)));
            win.lock(Lock::Shared, me, |both| both.put_value(next, 3, 4u64))?;
        }
        epoch.put_value(next, 1, 2u64)
    })?;
    world.barrier()?;
    win.fence(|epoch| {
        judge(inner(true));
        epoch.put_value(next, 2, 3u64)
    })?;
    let mut found = [0; 4];
    win.load(0, &mut found)?;
    same("what the outer epochs put", &found, &[1, 2, 3, if size > 1 { 4 } else { 0 }])?;
    win.post(&[before])?;
    win.start(&[next], |epoch| {
        let class = |outcome: transom::Result<()>| outcome.map_err(|error| error.class());
        judge(same("lock in start", &class(win.lock(Lock::Shared, next, |_| Ok(()))), &Err(Class::RmaSync)));
        judge(same("start in start", &class(win.start(&[next], |_| Ok(()))), &Err(Class::RmaSync)));
        judge(same("post twice", &class(win.post(&[before])), &Err(Class::RmaSync)));
        epoch.put_value(next, 0, 6u64)
    })?;
    win.wait()?;
    win.load(0, &mut found[..1])?;
    same("what the epoch of start put", &found[0], &6)?;
    Ok(win.free()?)
}
