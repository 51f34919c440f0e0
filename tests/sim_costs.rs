//! The costs of synchronization in remote operations, and of a window in bytes, on simulated nets
//! of 2 to 512 ranks. The tests count operations and bytes, and measure no times.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

use simulated::{Outcome, Rank, complete_all, contact, cost, messages, net_with, run, same};
use transom::{Assert, BasicType, Info, Lock, Notice, Op, RawWindow, Window};
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimOptions};
use transom_fabric::{Coherence, Immediates};

#[path = "../perf/src/model/counts.rs"]
#[allow(dead_code)]
mod counts;
mod simulated;

/// Counts the live bytes of this program.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is forwarded to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: barriers order the accesses before every read.
        LIVE.fetch_add(layout.size().cast_signed() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the requirements of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the requirements of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the running test, because live bytes are counted for the whole program.
static ONE_TEST: Mutex<()> = Mutex::new(());

const SIZES: [usize; 6] = [2, 3, 4, 16, 64, 512];

fn amos(amos: u64) -> SimCounters {
    SimCounters { amos, ..SimCounters::default() }
}

/// A word of this rank's part.
fn word(win: &RawWindow, at: usize) -> u64 {
    let mut bytes = [0; 8];
    win.load(at * 8, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Costs of uncontended locks. `one(n)` is the cost of `n` operations on control words of other
/// ranks. Rank 1 counts while the others wait for it, so that its count has no answers to their
/// messages.
fn locks(world: &Rank, one: fn(u64) -> SimCounters) -> Outcome {
    let size = world.size();
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    if world.rank() == 1 {
        // The part of another rank, and where there are three ranks, of a third; the master word is
        // at rank 0.
        let (first, second) = (0, size - 1);
        contact(&win, &[first, second])?;
        let lock = |kind, rank| cost(world, || win.lock(kind, rank, Assert::NONE));
        let unlock = |rank| cost(world, || win.unlock(rank));
        same("lock shared", &lock(Lock::Shared, first)?, &one(1))?;
        same("flush", &cost(world, || win.flush(first))?, &one(0))?;
        same("flush_all", &cost(world, || win.flush_all())?, &one(0))?;
        same("unlock shared", &unlock(first)?, &one(1))?;
        complete_all(&win)?;
        same("the first exclusive lock", &lock(Lock::Exclusive, first)?, &one(2))?;
        if size > 2 {
            same("the next exclusive lock", &lock(Lock::Exclusive, second)?, &one(1))?;
            same("unlock of one of two", &unlock(second)?, &one(1))?;
        }
        same("unlock of the last", &unlock(first)?, &one(2))?;
        complete_all(&win)?;
        same("lock_all", &cost(world, || win.lock_all(Assert::NONE))?, &one(1))?;
        same("flush_all", &cost(world, || win.flush_all())?, &one(0))?;
        same("flush_local", &cost(world, || win.flush_local(second))?, &one(0))?;
        same("unlock_all", &cost(world, || win.unlock_all())?, &one(1))?;
        complete_all(&win)?;
        let unchecked = cost(world, || {
            win.lock(Lock::Exclusive, first, Assert::NOCHECK)?;
            win.unlock(first)
        })?;
        same("a lock without a check", &unchecked, &one(0))?;
        locks_by_the_bias(world, &win, one)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// After some exclusive locks of a target, each costs one operation on its word, and none at the
/// first rank. The `lock_all` that takes the bias visits targets, and the next one does not.
fn locks_by_the_bias(world: &Rank, win: &RawWindow, one: fn(u64) -> SimCounters) -> Outcome {
    // Not this rank, whose words no operation of the net changes.
    let target = if world.size() > 2 { world.size() - 1 } else { 0 };
    let lock = || cost(world, || win.lock(Lock::Exclusive, target, Assert::NONE));
    let unlock = || cost(world, || win.unlock(target));
    for _ in 0..64 {
        lock().and_then(|_| unlock())?;
    }
    complete_all(win)?;
    same("an exclusive lock by the bias", &lock()?, &one(1))?;
    same("its unlock", &unlock()?, &one(1))?;
    complete_all(win)?;
    win.lock_all(Assert::NONE)?;
    win.unlock_all()?;
    complete_all(win)?;
    same("lock_all, later", &cost(world, || win.lock_all(Assert::NONE))?, &one(1))?;
    same("unlock_all, later", &cost(world, || win.unlock_all())?, &one(1))?;
    Ok(complete_all(win)?)
}

/// Three exchanges with the launcher, and no operation on the net.
/// Shows S1.
#[test]
fn a_start_costs_requests_by_the_logarithm() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    for ranks in SIZES {
        run(ranks, &net_with(SimAmo::None), move |world| {
            let (requests, most) = (world.requests.requests(), 3 * (3 * ranks.ilog2() as usize + 10));
            if requests > most {
                return Err(format!("{:?} are more than {most} requests", world.requests).into());
            }
            same("what it posted", &world.counters(), &SimCounters::default())
        });
    }
}

/// Shows S2, S3.
#[test]
fn locks_cost_one_or_two_atomics_of_the_net() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    for ranks in SIZES {
        run(ranks, &net_with(SimAmo::All(Coherence::DeviceOnly)), |world| locks(world, amos));
    }
}

/// Shows S2, S3.
#[test]
fn locks_cost_one_or_two_messages_where_the_net_has_no_atomics() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    for ranks in SIZES {
        run(ranks, &net_with(SimAmo::None), |world| locks(world, messages));
    }
}

/// A net whose device performs atomics at once, and whose completions only calls that await them
/// take. `in_order`: it keeps the order of atomics.
fn device(in_order: bool) -> SimOptions {
    let delivery = SimDelivery { amos_in_order: in_order, immediates: Immediates::ALL, ..SimDelivery::default() };
    SimOptions {
        delivery,
        delay: 0,
        again_one_in: 0,
        done_one_in: 0,
        ..net_with(SimAmo::Only64(Coherence::DeviceOnly))
    }
}

/// Additions to words of several targets in turn. Returns the number of polls for completions
/// before the flush.
fn additions(world: &Rank, targets: usize, place: fn(u64) -> u64) -> Outcome<u64> {
    const WORDS: usize = 64;
    static ONE: [u8; 8] = 1u64.to_ne_bytes();
    let win = RawWindow::allocate(world, 8 * WORDS, 8, &Info::new())?;
    let mut polls = 0;
    if world.rank() == 0 {
        win.lock_all(Assert::NONE)?;
        let add = |number: u64, target| {
            // SAFETY: the operand is constant.
            unsafe { win.accumulate(ONE.as_ptr(), 1, BasicType::Uint64, target, place(number), Op::Sum) }
        };
        (1..=targets).try_for_each(|target| add(0, target))?;
        win.flush_all()?;
        let before = world.completion_polls();
        for number in 0..WORDS as u64 {
            (1..=targets).try_for_each(|target| add(number, target))?;
        }
        polls = world.completion_polls() - before;
        win.unlock_all()?;
    }
    world.barrier()?;
    let sum: u64 = (0..WORDS).map(|at| word(&win, at)).sum();
    same("the sum", &sum, &if (1..=targets).contains(&world.rank()) { WORDS as u64 + 1 } else { 0 })?;
    world.barrier()?;
    win.free()?;
    Ok(polls)
}

/// Atomics by the device, to words of four targets in turn, and all to one word of each. A device
/// that keeps their order never waits. Otherwise an atomic waits for an earlier one on the same
/// word of the same target, and for few on other words. Regression: the filter of words did not
/// tell targets apart, and was full soon after, so that nearly each atomic waited.
/// Shows M4.
#[test]
fn atomics_of_the_device_wait_rarely() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    run(5, &device(true), |world| {
        same("one word, in order", &additions(world, 4, |_| 0)?, &0)?;
        same("all words, in order", &additions(world, 4, |number| number)?, &0)
    });
    run(5, &device(false), |world| {
        let polls = additions(world, 4, |number| number)?;
        same(&format!("{polls} polls for 256 additions"), &(polls <= 64), &true)
    });
}

/// Sets a bit of many words twice, by an operation for which the device has no atomic. The elements
/// of a call share round trips: a read and a swap for each 64. The second call changes nothing and
/// swaps nothing. Regression: each element waited for two round trips of its own.
/// Shows M3.
#[test]
fn operations_without_an_atomic_share_round_trips() {
    const WORDS: usize = 640;
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    // The net applies one atomic in a step if it keeps their order.
    for (in_order, most) in [(false, 100), (true, 2 * WORDS as u64)] {
        run(2, &device(in_order), move |world| {
            let win = RawWindow::allocate(world, 8 * WORDS, 8, &Info::new())?;
            if world.rank() == 0 {
                let operands = [4u64; WORDS];
                win.lock_all(Assert::NONE)?;
                for (call, amos) in [("first", 2 * WORDS as u64), ("second", WORDS as u64)] {
                    let before = world.completion_polls();
                    // SAFETY: the flush completes the operation while the operands live.
                    let bits =
                        || unsafe { win.accumulate(operands.as_ptr().cast(), WORDS, BasicType::Uint64, 1, 0, Op::Bor) };
                    same(call, &cost(world, bits)?.amos, &amos)?;
                    win.flush(1)?;
                    let polls = world.completion_polls() - before;
                    same(&format!("{call}: {polls} polls for 20 round trips"), &(polls <= most), &true)?;
                }
                win.unlock_all()?;
            }
            world.barrier()?;
            let part = (0..WORDS).map(|at| word(&win, at));
            same("the bits", &part.filter(|&word| word == if world.rank() == 1 { 4 } else { 0 }).count(), &WORDS)?;
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// Regression: a window and its counters had the same first slot in the directory, so the first
/// contact read as many slots as there were windows with counters.
/// Shows S1.
#[test]
fn first_contact_reads_few_slots_of_the_directory() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    run(2, &net_with(SimAmo::None), |world| {
        let (mut windows, mut reads) = (Vec::with_capacity(400), Vec::with_capacity(400));
        for number in 0..400 {
            world.step(format!("window {number}"));
            let win = Window::<u64>::allocate(world, 1)?;
            win.set_num_notify(1)?;
            let data = [number];
            if world.rank() == 0 {
                let contact = || {
                    win.lock_all_with(Assert::NOCHECK, |epoch| {
                        epoch.scope(|part| part.put_notify(1, 0, &data, Notice(0)))
                    })
                };
                reads.push(cost(world, contact)?.gets);
            }
            world.barrier()?;
            windows.push(win);
        }
        let (first, most) = (reads.first().copied().unwrap_or(0), reads.iter().copied().max().unwrap_or(0));
        same(&format!("{most} reads at most, {first} of the first window"), &(most <= first + 8), &true)?;
        Ok(windows.into_iter().try_for_each(Window::free)?)
    });
}

/// Puts a word to the next targets, this rank first.
fn contact_next(world: &Rank, win: &Window<u64>, targets: usize) -> transom::Result<()> {
    win.lock_all_with(Assert::NOCHECK, |epoch| {
        (0..targets).try_for_each(|step| epoch.put_value((world.rank() + step) % world.size(), 0, 1))
    })
}

/// The bytes that a window of 64 bytes keeps at all ranks, and those that contacts with `targets`
/// of each rank add. The first window also starts shared parts; the median excludes the net's
/// queues.
fn bytes_of_a_window(
    world: &Rank,
    meet: &Barrier,
    targets: usize,
    windows: &mut Vec<Window<u64>>,
) -> Outcome<(i64, i64)> {
    let (mut kept, mut reached) = (Vec::with_capacity(7), Vec::with_capacity(7));
    for _ in 0..7 {
        let before = live_bytes(meet);
        let win = Window::<u64>::allocate(world, 8)?;
        world.barrier()?;
        let made = live_bytes(meet);
        contact_next(world, &win, targets)?;
        world.barrier()?;
        reached.push(live_bytes(meet) - made);
        kept.push(made - before);
        windows.push(win);
    }
    kept.sort_unstable();
    reached.sort_unstable();
    Ok((kept[3], reached[3]))
}

/// The bytes that contacts of rank 0 with `targets` add. The first round, which makes most
/// contacts, and changes of the queues are left out.
fn bytes_of_contacts(world: &Rank, meet: &Barrier, targets: usize, windows: &mut Vec<Window<u64>>) -> Outcome<i64> {
    let mut bytes = Vec::with_capacity(4);
    for _ in 0..4 {
        let win = Window::<u64>::allocate(world, 8)?;
        world.barrier()?;
        let before = live_bytes(meet);
        if world.rank() == 0 {
            contact_next(world, &win, targets)?;
        }
        world.barrier()?;
        bytes.push(live_bytes(meet) - before);
        windows.push(win);
    }
    Ok(bytes[1..].iter().copied().min().unwrap_or(0))
}

/// Bytes that a window of 64 bytes keeps at a rank, and bytes per contacted target. The control
/// words and the directory slot lie in the job's block, which exists before, and are added: 896
/// bytes, 128 for each doubling of the ranks, and 128.
/// Shows W1.
#[test]
fn state_is_bounded() {
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    for ranks in [2usize, 16, 128, 512] {
        let meet = Barrier::new(ranks);
        run(ranks, &net_with(SimAmo::All(Coherence::DeviceOnly)), move |world| {
            let (size, touched) = (world.size(), world.size().min(12));
            let mut windows = Vec::with_capacity(7);
            let (kept, reached) = bytes_of_a_window(world, &meet, touched, &mut windows)?;
            // Rank 0 contacts all others, or one more than fits before the table of targets grows.
            let grown = if size > 16 { size / 8 * 7 + 1 } else { size };
            let all = bytes_of_contacts(world, &meet, size, &mut windows)?;
            let most = bytes_of_contacts(world, &meet, grown, &mut windows)?;
            let (block, ranks) = (i64::try_from(counts::control_bytes(size as u64))?, i64::try_from(size)?);
            let (window, some) = (kept / ranks + block, reached / ranks);
            if world.rank() == 0 {
                eprintln!(
                    "{size} ranks: {window} bytes a window, {block} of them in the job's block; {some} for {touched} targets, {all} for all, {most} for {grown}"
                );
            }
            same("a window in 4 KiB", &(window <= 4096), &true)?;
            same("what the model says", &(kept / ranks <= counts::WINDOW_BYTES.cast_signed()), &true)?;
            let (touched, grown) = (i64::try_from(touched)?, i64::try_from(grown)?);
            for (bytes, targets, each) in [(some, touched, TARGET), (all, ranks, TARGET), (most, grown, GROWN)] {
                let (whole, most) = (window + bytes, 4096 + targets * each);
                same(&format!("{whole} bytes with {targets} targets"), &(whole <= most), &true)?;
            }
            Ok(windows.into_iter().try_for_each(Window::free)?)
        });
    }
}

/// A request that is dropped, and one that is refused, frees its buffer.
/// Shows O6.
#[test]
fn a_dropped_request_frees_its_buffer() {
    const BYTES: usize = 1 << 16;
    let _running = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    let meet = Barrier::new(2);
    run(2, &net_with(SimAmo::None), move |world| {
        let win = Window::<u64>::allocate(world, BYTES / 8)?;
        let buffer = || vec![0u64; BYTES / 8];
        win.lock_all(|epoch| {
            let next = 1 - world.rank();
            let each = |_| -> transom::Result<()> {
                drop(epoch.rput_owned(next, 0, buffer())?);
                drop(epoch.rput_owned(world.rank(), 0, buffer())?);
                drop(epoch.rget_owned(next, 0, buffer())?);
                assert!(epoch.rget_owned(next, 1, buffer()).is_err(), "one element too far");
                Ok(())
            };
            // The first ones make room for queues.
            (0..3).try_for_each(each)?;
            let before = live_bytes(&meet);
            (0..30).try_for_each(each)?;
            let kept = live_bytes(&meet) - before;
            assert!(kept < 10 * BYTES.cast_signed() as i64, "{kept} bytes after 240 requests of {BYTES} bytes");
            Ok(())
        })?;
        Ok(win.free()?)
    });
}

/// The bytes that all ranks hold, measured by all ranks at one time, when they no longer change:
/// the progress threads first empty the net's queues.
fn live_bytes(meet: &Barrier) -> i64 {
    const STEADY: u32 = 8;
    if meet.wait().is_leader() {
        let (mut last, mut steady) = (LIVE.load(Ordering::Relaxed), 0);
        for _ in 0..400 {
            std::thread::sleep(Duration::from_millis(3));
            let now = LIVE.load(Ordering::Relaxed);
            steady = if now == last { steady + 1 } else { 0 };
            last = now;
            if steady == STEADY {
                break;
            }
        }
    }
    meet.wait();
    let live = LIVE.load(Ordering::Relaxed);
    meet.wait();
    live
}

/// Upper bound of a window's bytes per contacted target.
const TARGET: i64 = 128;
/// Upper bound just after the table of targets has grown: the table and its predecessors, which
/// readers may still hold, are then largest in proportion to the number of targets.
const GROWN: i64 = 133;
