//! Requests on shared memory allocate no memory, so a program may use a request for each operation
//! of its inner loop: a request is one word that records completion (MPI-4.1 §12.3.5). The test
//! installs an allocator that counts.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::ExitCode;

use transom::{At, BasicType, Datatype, Job, Notice, Request, Route, Window, ops};
use transom_harness::{Outcome, Test, ensure, same};

/// The system's allocator, counting the allocations of this thread.
struct Counting;

thread_local! {
    /// The allocations of this thread.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

impl Counting {
    fn count() {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
}

// SAFETY: every call is forwarded to the system's allocator; counting touches a thread-local word
// that needs neither allocation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller upholds the requirements of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller upholds the requirements of `dealloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the requirements of the call.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static TESTS: &[Test] = &[Test::new("requests_allocate_nothing", &[1, 2], requests_allocate_nothing)];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// Notified operations, and the calls of the counters, at a target in mapped memory.
fn notified_operations_allocate_nothing(win: &Window<u64>, target: usize) -> transom::Result<()> {
    let counters = win.notices();
    win.lock_all(|epoch| {
        type Call<'c> = &'c dyn Fn() -> transom::Result<()>;
        let calls: [(&str, Call<'_>); 8] = [
            ("put_notify", &|| epoch.put_notify(target, 0, &[7; 4], Notice(0))),
            ("accumulate_notify", &|| epoch.accumulate_notify(target, 0, &[0; 4], ops::Sum, Notice(1))),
            ("rput_notify", &|| epoch.rput_notify(target, 0, &[7; 4], Notice(0))?.wait()),
            ("flush", &|| epoch.flush(target)),
            ("value", &|| counters.value(0).map(drop)),
            ("try_wait", &|| counters.try_wait(1, 0).map(drop)),
            ("wait", &|| counters.wait(0, 0)),
            ("wait_any", &|| counters.wait_any(&[(0, 0), (1, 0)]).map(drop)),
        ];
        for (name, call) in calls {
            let hundred = || (0..100).try_for_each(|_| call());
            // First uses allocate: the contact with the target's counters, the detector of deaths.
            hundred()?;
            assert_eq!(allocations(hundred)?, 0, "allocations in 100 calls of {name}");
        }
        Ok(())
    })
}

/// The number of allocations that `body` makes.
fn allocations(body: impl FnOnce() -> transom::Result<()>) -> transom::Result<usize> {
    let before = ALLOCATIONS.get();
    body()?;
    Ok(ALLOCATIONS.get() - before)
}

/// MPI-4.1 §12.3.5: each request-based operation, posted and waited for, on mapped memory, and its
/// form without a request.
/// Route: shm.
/// Shows O2.
fn requests_allocate_nothing(world: &Job) -> Outcome {
    const LEN: usize = 1000;
    let win = Window::<u64>::allocate(world, 2 * LEN)?;
    let target = world.size() - 1;
    // Each rank queries the route to its next rank, so that all ranks take one branch.
    if win.route((world.rank() + 1) % world.size())? == Route::Net {
        ensure(world.size() > 1, "a rank reaches its own part without a net")?;
        return Ok(win.free()?);
    }
    win.set_num_notify(2)?;
    if world.rank() == 0 {
        let source = vec![2u64; LEN];
        let (mut buffer, mut old) = (vec![0u64; LEN], vec![0u64; LEN]);
        let word = Datatype::basic(BasicType::Uint64);
        let every_other = Datatype::vector(LEN, 1, 2, &word)?;
        win.lock_all(|epoch| {
            // First contact allocates the state that a rank keeps for a target.
            epoch.put_value(target, 0, 0u64)?;
            let counted = allocations(|| {
                for _ in 0..100 {
                    epoch.rput(target, 0, &source)?.wait()?;
                    buffer = epoch.rget_owned(target, 0, std::mem::take(&mut buffer))?.wait()?;
                    buffer = epoch.rput_owned(target, 0, std::mem::take(&mut buffer))?.wait()?;
                    let mut both =
                        [epoch.raccumulate(target, 0, &source, ops::Sum)?, epoch.rput(target, LEN, &source)?];
                    Request::wait_all(&mut both)?;
                    old = epoch
                        .rget_accumulate_owned(target, 0, &source, std::mem::take(&mut old), ops::Replace)?
                        .wait()?;
                }
                Ok(())
            })?;
            assert_eq!(counted, 0, "allocations in 100 rounds of 6 requests");
            // The first use of a type checks it for overlapping entries; the type caches the
            // result.
            epoch.put_items(&source, LEN, &word, At::new(target, 0, 1, &every_other))?;
            let plain = allocations(|| {
                epoch.accumulate(target, 0, &source, ops::Sum)?;
                epoch.put_items(&source, LEN, &word, At::new(target, 0, 1, &every_other))?;
                epoch.fetch_add(target, 0, 1u64)?;
                epoch.flush(target)
            })?;
            assert_eq!(plain, 0, "allocations of an accumulate, a strided put, a fetch_add and a flush");
            Ok(())
        })?;
        notified_operations_allocate_nothing(&win, target)?;
        same("what every accumulate found", &old, &vec![4; LEN])?;
        same("what every get brought", &buffer, &vec![2; LEN])?;
    }
    world.barrier()?;
    Ok(win.free()?)
}
