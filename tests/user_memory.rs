//! Windows over memory that the program had before. The memory stays as it was while a window
//! exists, and after `free`: system calls in flight, other threads, child processes, `mlock` and
//! `madvise` continue to act on the same pages.

#[path = "user_memory/blocks.rs"]
mod blocks;
#[path = "flavors/memory.rs"]
#[allow(dead_code)]
mod memory;
#[path = "user_memory/process.rs"]
mod process;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memory::Block;
use process::Pages;
use rustix::process::{Pid, Signal, kill_process};
use transom::reduce::DoubleInt;
use transom::{Assert, Info, Job, Op, RawWindow, Route, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

static TESTS: &[Test] = &[
    Test::new("memory_keeps_its_contents_and_peers_change_it", &[1, 2, 3], contents),
    Test::new("windows_that_share_pages", &[1, 2], sharing),
    Test::new("scattered_blocks_arrive_in_their_places", &[1, 2], blocks::scattered),
    Test::new("accumulates_change_their_blocks_alone", &[1, 2], blocks::accumulated),
    Test::new("each_of_several_pairs_is_combined", &[1, 2], pairs),
    Test::new("a_stopped_target_delays_no_origin", &[2], stopped),
    Test::new("memory_is_attached_and_detached", &[1, 2, 3], attached),
    Test::new("system_calls_in_flight_lose_no_data", &[2], in_flight),
    Test::new("children_of_a_threaded_program_have_their_own", &[1, 2], children),
    Test::new("a_semaphore_in_the_memory_wakes_its_waiter", &[1, 2], semaphore),
    Test::new("a_buffer_freed_too_early_spares_the_next_one", &[1, 2], freed_early),
    Test::new("files_opened_meanwhile_change_no_result", &[1, 2], files),
    Test::new("locked_memory_and_advice_are_kept", &[1, 2], advice),
    Test::new("creation_touches_no_page", &[1, 2], untouched),
    Test::new("ranks_that_map_and_ranks_that_do_not_add_exactly", &[3], mixed)
        .with_env(&[("TRANSOM_TEST_WITHOUT_XPMEM", "1")]),
    Test::new("no_memory_is_mapped_where_the_user_forbids_it", &[2], excluded).with_env(&[("TRANSOM_XPMEM", "n")]),
    Test::new("a_target_that_has_ended_causes_no_fault", &[2], ended).failing_with("puts ended without a fault"),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

const PAGE: usize = 4096;
const LEN: usize = 8000;

/// A put by the previous rank, complete in memory when this returns.
fn put_around(world: &Job, win: &RawWindow, at: u64, bytes: &[u8]) -> Outcome {
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    memory::put(win, (world.rank() + 1) % world.size(), at, bytes)?;
    win.unlock_all()?;
    win.sync();
    Ok(world.barrier()?)
}

/// MPI-4.1 §12.2.2: the window shows the memory's contents, and the memory shows the puts of peers;
/// bytes outside of the window do not change.
/// Shows W1, T2.
fn contents(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let block = Block::words(4 * 512);
    block.store(0, &[1; 4 * PAGE]);
    for round in 0..5u8 {
        let win = block.window(world, 100, LEN, 4, &Info::new())?;
        win.lock_all(Assert::NONE)?;
        let mut theirs = vec![0; LEN];
        memory::get(&win, next, 0, &mut theirs)?;
        ensure(theirs == [1 + round; LEN], "the contents came along")?;
        win.unlock_all()?;
        put_around(world, &win, 0, &[200; 4])?;
        let mut four = [0; 4];
        block.load(100, &mut four);
        same("put by the rank before", &four, &[200; 4])?;
        block.store(100, &[2 + round; LEN]);
        win.sync();
        world.barrier()?;
        win.lock_all(Assert::NONE)?;
        memory::get(&win, next, 0, &mut theirs)?;
        win.unlock_all()?;
        ensure(theirs == [2 + round; LEN], "stored by the next rank")?;
        win.free()?;
        step(format!("round {round} is over"));
    }
    let mut all = vec![0; block.len()];
    block.load(0, &mut all);
    let right = all.iter().enumerate().all(|(at, &byte)| byte == if (100..100 + LEN).contains(&at) { 6 } else { 1 });
    ensure(right, "the window's bytes, and those beside it")
}

/// Two windows over the same page, either of which may be freed first.
/// Shows W7, T2.
fn sharing(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    for first in [0, 1] {
        let block = Block::words(4 * 512);
        let wide = block.window(world, 0, 3 * PAGE, 1, &Info::new())?;
        let narrow = block.window(world, PAGE + 64, 512, 1, &Info::new())?;
        let (gone, left, at) = if first == 0 { (&wide, &narrow, 8) } else { (&narrow, &wide, 4096 + 72) };
        gone.free()?;
        left.lock_all(Assert::NONE)?;
        let old = memory::fetch(left, next, at, Op::Sum, 7)?;
        left.unlock_all()?;
        world.barrier()?;
        same("the sum and its value from before", &(old, block.word(PAGE + 72)), &(0, 7))?;
        left.free()?;
    }
    Ok(())
}

/// On a node no thread of the target takes part in operations on its memory: here the target
/// process is stopped.
/// Shows S5, O1, T2.
/// Route: shm.
fn stopped(world: &Job) -> Outcome {
    let (block, more) = (Block::words(4 * 512), Block::words(4 * 512));
    let created = block.window(world, 8, LEN, 1, &Info::new())?;
    let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
    more.attach(&dynamic, 16, LEN)?;
    let words = Window::<u64>::allocate(world, 1)?;
    let pid = exchanged(world, &words, u64::from(std::process::id()), 1)?;
    let address = exchanged(world, &words, more.address(16), 1)?;
    // Over a net the target's progress thread takes part.
    let by_system_calls = created.route(1 - world.rank())? != Route::Net;
    if world.rank() == 0 {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no process")?;
        let windows = [(&created, 0), (&dynamic, address)];
        for (win, at) in windows {
            win.lock_all(Assert::NONE)?;
            memory::put(win, 1, at, &[0; 8])?;
        }
        if by_system_calls {
            kill_process(pid, Signal::STOP)?;
        }
        let done = windows.iter().try_for_each(|&(win, at)| at_stopped(win, at));
        kill_process(pid, Signal::CONT)?;
        done?;
        for (win, _) in windows {
            win.unlock_all()?;
        }
    }
    world.barrier()?;
    if world.rank() == 1 {
        for (block, at) in [(&block, 8), (&more, 16)] {
            let words: Vec<u64> = (0..4).map(|word| block.word(at + 8 * word)).collect();
            same("what was done meanwhile", &words, &vec![5, 9, 70, 3])?;
        }
    }
    dynamic.free()?;
    created.free()?;
    Ok(words.free()?)
}

/// Every kind of operation on a target that is stopped.
fn at_stopped(win: &RawWindow, at: u64) -> Outcome {
    memory::put(win, 1, at, bytemuck::bytes_of(&[5u64, 9, 60, 0]))?;
    memory::accumulate(win, 1, at + 16, &[10], Op::Sum)?;
    let mut back = [0u64; 3];
    memory::get(win, 1, at, bytemuck::bytes_of_mut(&mut back))?;
    same("what comes back", &back, &[5, 9, 70])?;
    same("a fetch", &memory::fetch(win, 1, at + 24, Op::Sum, 2)?, &0)?;
    same("a swap", &memory::swap(win, 1, at + 24, 2, 3)?, &2)
}

/// MPI-4.1 §12.2.4: memory is reachable as long as it is attached, and may be attached again.
/// Shows W1, M3, T2.
fn attached(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let block = Block::words(8 * 512);
    let addresses = Window::<u64>::allocate(world, 1)?;
    for round in 0..4 {
        let at = PAGE * round + 8;
        block.attach(&win, at, PAGE)?;
        let there = exchanged(world, &addresses, block.address(at), next)?;
        win.lock_all(Assert::NONE)?;
        for rank_round in 0..10 {
            let old = memory::fetch(&win, next, there + 64, Op::Sum, 1)?;
            ensure(old >= rank_round, "counted before")?;
            memory::accumulate(&win, next, there, &[1, 2, 3], Op::Sum)?;
        }
        let beyond = memory::put(&win, next, there + 4096, &[1]).err().map(|error| error.class());
        same("a byte past it", &beyond, &Some(transom::Class::RmaRange))?;
        win.unlock_all()?;
        world.barrier()?;
        let words: Vec<u64> = [0, 8, 16, 64].iter().map(|word| block.word(at + word)).collect();
        same("the counts", &words, &vec![10, 20, 30, 10])?;
        block.detach(&win, at)?;
        same("and what was counted", &block.word(at), &10)?;
        world.barrier()?;
        win.lock_all(Assert::NONE)?;
        let gone = memory::put(&win, next, there, &[1; 8]).err().map(|error| error.class());
        same("what is detached", &gone, &Some(transom::Class::RmaRange))?;
        win.unlock_all()?;
        world.barrier()?;
    }
    addresses.free()?;
    Ok(win.free()?)
}

/// The word of rank `from`; every rank contributes one.
fn exchanged(world: &Job, words: &Window<u64>, mine: u64, from: usize) -> Outcome<u64> {
    words.store(0, &[mine])?;
    words.sync();
    world.barrier()?;
    let theirs = words.lock_all(|epoch| epoch.fetch_value(from, 0))?;
    world.barrier()?;
    Ok(theirs)
}

/// Another process writes long blocks into the memory by `process_vm_writev`, which pins the pages
/// while it copies, as a read with `O_DIRECT` does. Windows over the memory are created and freed
/// meanwhile, and each block is read back unchanged.
/// Shows W1, T2.
fn in_flight(world: &Job) -> Outcome {
    let pages = Pages::new(256 * PAGE)?;
    let about = Window::<u64>::allocate(world, 1)?;
    let pid = exchanged(world, &about, u64::from(std::process::id()), 1)?;
    let address = exchanged(world, &about, pages.address(), 1)?;
    let (stop, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let writer = || -> std::io::Result<()> {
        let pid = i32::try_from(pid).map_err(std::io::Error::other)?;
        let (mut back, mut value) = (vec![0; 256 * PAGE], 0u8);
        while !stop.load(Ordering::Relaxed) {
            value = value.wrapping_add(1);
            let block = vec![value; back.len()];
            process::write_other(pid, address, &block)?;
            process::read_other(pid, address, &mut back)?;
            if back != block {
                return Err(std::io::Error::other(format!("block {value} was lost")));
            }
            writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Outcome {
        let writing = (world.rank() == 0).then(|| scope.spawn(writer));
        let some_windows = || -> Outcome<bool> {
            for _ in 0..150 {
                process::window_over(world, pages, 100, pages.len() - 200)?.free()?;
            }
            // Rank 0 knows whether a block was written meanwhile.
            Ok(exchanged(world, &about, u64::from(writes.load(Ordering::Relaxed) > 0), 0)? > 0)
        };
        let mut rounds = (0..100).map(|_| some_windows());
        let written = rounds.find(|round| !matches!(round, Ok(false)));
        stop.store(true, Ordering::Relaxed);
        writing.map_or(Ok(Ok(())), std::thread::ScopedJoinHandle::join).map_err(|_| "the writer panicked")??;
        ensure(written.transpose()?.is_some(), "blocks were written meanwhile")
    })?;
    Ok(about.free()?)
}

/// The address and the value that the first handler of a child writes.
static HANDLER_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    let at = HANDLER_AT.load(Ordering::Relaxed);
    if at != 0 {
        process::fill(at, 0xee, 8);
    }
}

/// `fork` in a program with threads, while a window is over memory that shares pages with the
/// allocator's data. The parent does not see the writes of a child, its earliest handler included,
/// and the child sees the old contents.
/// Shows W1, T2.
fn children(world: &Job) -> Outcome {
    process::first_in_children(in_child)?;
    let pages = Pages::new(8 * PAGE)?;
    pages.fill(7);
    let win = process::window_over(world, pages, 8, pages.len() - 16)?;
    // A small block, on a page with other blocks of the allocator.
    let block = Block::words(64);
    let beside = block.window(world, 0, block.len(), 1, &Info::new())?;
    HANDLER_AT.store(pages.address() + 16, Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::black_box(vec![1u8; 100]);
            }
        });
        let done = (0..20).try_for_each(|round| {
            step(format!("fork {round}"));
            let status = process::forked(|| {
                let same = pages.other_than(7, 24).is_none() && block.word(0) == 0;
                process::fill(pages.address(), 9, 8 * PAGE);
                process::fill(block.address(0), 9, block.len());
                u8::from(!same)
            })?;
            same("the exit status of a child that looks and writes", &status, &0)
        });
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    HANDLER_AT.store(0, Ordering::Relaxed);
    same("bytes that children changed", &(pages.other_than(7, 0), block.word(0)), &(None, 0))?;
    put_around(world, &win, 0, &[3; 8])?;
    ensure(pages.other_than(7, 0) == Some((8, 3)), "peers reach the parent's memory, not a child's")?;
    beside.free()?;
    Ok(win.free()?)
}

/// A thread waits on a semaphore for several processes; the kernel identifies its futex by the
/// page. A window over that page is created and freed.
/// Shows W1, T2.
fn semaphore(world: &Job) -> Outcome {
    for window_lives in [true, false] {
        let pages = Pages::new(4 * PAGE)?;
        process::make_semaphore(pages)?;
        std::thread::scope(|scope| -> Outcome {
            let waiter = scope.spawn(|| process::wait_for_semaphore(pages, 20));
            std::thread::sleep(Duration::from_millis(100));
            let win = process::window_over(world, pages, 0, 4 * PAGE)?;
            if !window_lives {
                win.free()?;
            }
            process::post_semaphore(pages)?;
            let begun = Instant::now();
            waiter.join().map_err(|_| "the waiter panicked")??;
            ensure(begun.elapsed() < Duration::from_secs(10), "it was woken, and not by its time limit")?;
            if window_lives { Ok(win.free()?) } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// A program that unmaps a window's memory before it frees the window, as many do. `free` does not
/// touch new memory at the same addresses, and in a new window over that memory peers reach the
/// right place.
/// Shows W1, W2, T2.
fn freed_early(world: &Job) -> Outcome {
    let pages = Pages::new(16 * PAGE)?;
    for round in 1..6u8 {
        let win = process::window_over(world, pages, 0, 16 * PAGE)?;
        put_around(world, &win, 0, &[round; 100])?;
        let next = pages.replace()?;
        next.fill(0x5a);
        win.free()?;
        same("what free changed of the new memory", &next.other_than(0x5a, 0), &None)?;
    }
    Ok(())
}

/// A ring of io_uring is opened while a window exists, and might keep the window's pages.
/// Afterwards the same addresses are new memory with a window of its own.
/// Shows W1, W7, T2.
fn files(world: &Job) -> Outcome {
    let pages = Pages::new(16 * PAGE)?;
    let mut opened = Vec::new();
    for round in 1..6u8 {
        pages.fill(round);
        let win = process::window_over(world, pages, 0, 16 * PAGE)?;
        opened.push(process::open_ring()?);
        put_around(world, &win, 0, &[100 + round; 100])?;
        let mut seen = [0; 100];
        win.lock_all(Assert::NONE)?;
        memory::get(&win, (world.rank() + 1) % world.size(), 0, &mut seen)?;
        win.unlock_all()?;
        same("read back", &seen, &[100 + round; 100])?;
        same("the first byte without a put", &pages.other_than(100 + round, 0), &Some((100, round)))?;
        win.free()?;
        pages.replace()?;
        same("a byte that is not zero in new memory", &pages.other_than(0, 0), &None)?;
    }
    Ok(())
}

/// The attributes of the mapping remain those that the program set, while a window exists and
/// afterwards.
/// Shows W1, T2.
fn advice(world: &Job) -> Outcome {
    let all = [libc::MADV_DONTFORK, libc::MADV_WIPEONFORK, libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE];
    let pages = Pages::new(8 * PAGE)?;
    pages.lock()?;
    all.iter().try_for_each(|&advice| pages.advise(advice))?;
    pages.fill(1);
    let before = pages.flags()?;
    for flag in ["lo", "dc", "wf", "dd", "nh"] {
        ensure(before.iter().any(|set| set == flag), &format!("{flag} in {before:?}"))?;
    }
    let win = process::window_over(world, pages, 0, 8 * PAGE)?;
    same("while a window is over it", &pages.flags()?, &before)?;
    put_around(world, &win, 0, &[2; 8])?;
    win.free()?;
    same("after the window", &pages.flags()?, &before)
}

/// Within a node a window over 128 MiB, half of which was never touched, allocates no page: no data
/// is copied, neither at creation nor at `free`. The device of a net may need the pages.
/// Shows W1, T2.
fn untouched(world: &Job) -> Outcome {
    let pages = Pages::new(128 << 20)?;
    process::fill(pages.address(), 5, 64 << 20);
    process::window_over(world, pages, 0, PAGE)?.free()?;
    let before = process::page_faults();
    let win = process::window_over(world, pages, 0, 128 << 20)?;
    win.free()?;
    let faults = process::page_faults() - before;
    ensure(world.net().is_some() || faults < 500, &format!("{faults} page faults, of 32768 pages"))
}

/// MPI-4.1 §12.7.1: where the kernel has XPMEM, ranks 0 and 2 map each other's memory, while rank 1
/// uses system calls and is reached by them. All accumulates on a part are still atomic, including
/// those of the part's own rank.
/// Shows M3, T2.
fn mixed(world: &Job) -> Outcome {
    const ROUNDS: u64 = 300;
    let (me, size) = (world.rank(), world.size());
    let block = Block::words(1024);
    let win = block.window(world, 8, 8000, 1, &Info::new())?;
    if std::path::Path::new("/dev/xpmem").exists() && world.net().is_none() {
        let maps = |target: usize| me == target || (me != 1 && target != 1);
        for target in 0..size {
            same("whether it is mapped", &win.shared_query(target).is_ok(), &maps(target))?;
        }
    }
    win.lock_all(Assert::NONE)?;
    for _ in 0..ROUNDS {
        for target in 0..size {
            memory::fetch(&win, target, 0, Op::Sum, 1)?;
            memory::accumulate(&win, target, 0, &[1; 20], Op::Sum)?;
            let mut old = [0; 20];
            memory::get_accumulate(&win, target, 0, &[1; 20], &mut old, Op::Sum)?;
        }
    }
    win.unlock_all()?;
    world.barrier()?;
    let all = size as u64 * ROUNDS;
    same("sums", &(block.word(8), block.word(16), block.word(8 + 19 * 8)), &(3 * all, 2 * all, 2 * all))?;
    Ok(win.free()?)
}

/// Shows T2.
fn excluded(world: &Job) -> Outcome {
    let block = Block::words(1024);
    let win = block.window(world, 0, LEN, 1, &Info::new())?;
    ensure(win.shared_query(1 - world.rank()).is_err(), "load and store do not reach it")?;
    ensure(world.net().is_some() || !win.is_mapped(), "it is not mapped")?;
    put_around(world, &win, 0, &[9; 8])?;
    same("put all the same", &block.word(0), &u64::from_ne_bytes([9; 8]))?;
    Ok(win.free()?)
}

/// Accumulates of several pairs that have padding behind them.
/// Shows O4, T2.
fn pairs(world: &Job) -> Outcome {
    const COUNT: i32 = 9;
    let next = (world.rank() + 1) % world.size();
    let all = |value: i32, index: i32| -> Vec<DoubleInt> {
        (0..COUNT).map(|at| DoubleInt::new(f64::from(value * (at % 2 * 2 - 1)), index + at)).collect()
    };
    let win = Window::create(world, all(1, 100))?;
    let (operands, mut before, mut after) = (all(5, 200), all(0, 0), all(0, 0));
    win.lock_all(|epoch| epoch.accumulate(next, 0, &operands, ops::MaxLoc))?;
    let largest: Vec<_> = (0..COUNT).map(|at| if at % 2 == 1 { (5.0, 200 + at) } else { (-1.0, 100 + at) }).collect();
    win.lock_all(|epoch| epoch.get_accumulate(next, 0, &operands, &mut before, ops::Replace))?;
    win.lock_all(|epoch| epoch.get(next, 0, &mut after))?;
    let seen = |pairs: &[DoubleInt]| pairs.iter().map(|pair| (pair.value(), pair.index())).collect::<Vec<_>>();
    same("the larger pairs", &seen(&before), &largest)?;
    same("the pairs that replaced them", &seen(&after), &seen(&operands))?;
    Ok(win.free()?)
}

/// A rank ends while another one accesses its memory: accesses end without a fault, and a failure
/// is an error.
/// Shows E3, T2.
fn ended(world: &Job) -> Outcome {
    let block = Block::words(1024);
    let win = block.window(world, 8, 8000, 1, &Info::new())?;
    let words = Window::<u64>::allocate(world, 1)?;
    let pid = exchanged(world, &words, u64::from(std::process::id()), 1)?;
    process::ignore_termination();
    win.lock_all(Assert::NONE)?;
    memory::put(&win, 1 - world.rank(), 0, &[1; 100])?;
    if world.rank() == 1 {
        world.barrier()?;
        kill_process(rustix::process::getpid(), Signal::KILL)?;
    }
    world.barrier()?;
    // A zombie has no memory left.
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while !(state().is_empty() || state().contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let threads: Vec<_> = std::thread::scope(|scope| {
        let touch = || win.shared_query(1).map(|part| memory::store_part(&part, &[3; 8000])).is_ok();
        (0..2).map(|_| scope.spawn(touch)).collect::<Vec<_>>().into_iter().map(|it| it.join().is_ok()).collect()
    });
    // One attempt only: before it returns an error, it waits for a report of the rank's death.
    let put = memory::put(&win, 1, 80, &[2; 80]).map_or_else(|error| format!("{error:#}"), |()| "done".to_owned());
    ensure(put == "done" || put.contains("rank 1"), &put)?;
    Err(format!("all puts ended without a fault, in {} threads: {put}", 1 + threads.len()).into())
}
