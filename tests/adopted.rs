//! User memory that ranks of the node map in its place while windows are over it (`TRANSOM_ADOPT`). Needs a kernel that lets this user
//! protect pages against writes (userfaultfd): without it nothing here can hold.

#[path = "flavors/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::process::ExitCode;

use memory::Block;
use rustix::process::{Pid, Signal, kill_process};
use transom::{Assert, Info, Job, Op, RawWindow, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], fails: None, body }
}

static TESTS: &[Test] = &[
    test("user_memory_is_mapped_as_long_as_a_window_is_over_it", &[2, 3], mapped),
    test("windows_that_share_pages", &[2], sharing),
    // Shows T1, S5.
    Test {
        name: "a_stopped_target_delays_nobody",
        ranks: &[2],
        env: &[("TRANSOM_CMA", "n")],
        fails: None,
        body: stopped,
    },
    test("attached_memory_comes_and_goes", &[2, 3], attached),
    Test {
        name: "nothing_is_mapped_where_the_user_says_so",
        ranks: &[2],
        env: &[("TRANSOM_ADOPT", "n")],
        fails: None,
        body: excluded,
    },
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

const LEN: usize = 8000;

/// Whether an address is of a heap's pages, by the kernel's table.
fn in_a_heap(address: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
        range.is_some_and(|(start, end)| (number(start)..number(end)).contains(&address))
            && line.contains("/memfd:transom-heap")
    })
}

/// MPI §11.2.1, MPI-4.1 §12.2.3: what the memory had before is in the window, what peers and this process store is seen by both, and
/// afterwards the memory has what was stored last, and is as it was.
/// Shows W1, W5, T1.
fn mapped(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let block = Block::words(4 * 512);
    block.store(0, &[1; 4 * 4096]);
    for round in 0..5u8 {
        let win = block.window(world, 100, LEN, 4, &Info::new())?;
        ensure(win.is_mapped() && in_a_heap(block.address(100)), "mapped by others")?;
        ensure(world.net().is_some() || !world.has_progress_thread(), "nobody has to be served")?;
        let theirs = win.shared_query(next)?;
        let bytes = memory::load_part(&theirs);
        ensure(bytes == [1 + round; LEN], "the contents came along")?;
        world.barrier()?;
        win.lock_all(Assert::NONE)?;
        memory::put(&win, next, 0, &[200; 4])?;
        win.unlock_all()?;
        world.barrier()?;
        let mut four = [0; 4];
        block.load(100, &mut four);
        same("put by the rank before", &four, &[200; 4])?;
        block.store(100, &[2 + round; LEN]);
        win.sync();
        world.barrier()?;
        win.sync();
        ensure(memory::load_part(&theirs) == [2 + round; LEN], "stored by the next rank")?;
        world.barrier()?;
        win.free()?;
        ensure(!in_a_heap(block.address(100)), "its own again")?;
        step(format!("round {round} is over"));
    }
    let mut all = vec![0; block.len()];
    block.load(0, &mut all);
    let right = all.iter().enumerate().all(|(at, &byte)| byte == if (100..100 + LEN).contains(&at) { 6 } else { 1 });
    ensure(right, "neither the window's bytes nor those beside it were lost")
}

/// Two windows whose memory is on the same pages are mapped both, and either may end first.
/// Shows W7.
fn sharing(world: &Job) -> Outcome {
    let next = 1 - world.rank();
    for first in [0, 1] {
        let block = Block::words(4 * 512);
        let wide = block.window(world, 0, 3 * 4096, 1, &Info::new())?;
        let narrow = block.window(world, 4096 + 64, 512, 1, &Info::new())?;
        ensure(wide.is_mapped() && narrow.is_mapped(), "both are mapped")?;
        let (gone, left, at) = if first == 0 { (&wide, &narrow, 8) } else { (&narrow, &wide, 4096 + 72) };
        gone.free()?;
        ensure(in_a_heap(block.address(4096 + 64)), "kept by the other one")?;
        left.lock_all(Assert::NONE)?;
        let old = memory::fetch(left, next, at, Op::Sum, 7)?;
        left.unlock_all()?;
        world.barrier()?;
        same("the sum and its value from before", &(old, block.word(4096 + 72)), &(0, 7))?;
        left.free()?;
        ensure(!in_a_heap(block.address(4096 + 64)), "nobody's but its own")?;
    }
    Ok(())
}

/// REQUIREMENTS S5: where the target is mapped, none of its threads takes part: it is stopped. By system calls nothing could go here, by
/// messages nothing would come back.
/// Shows S5, O1.
fn stopped(world: &Job) -> Outcome {
    let (block, more) = (Block::words(4 * 512), Block::words(4 * 512));
    let created = block.window(world, 8, LEN, 1, &Info::new())?;
    let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
    more.attach(&dynamic, 16, LEN)?;
    let told = Window::<u64>::allocate(world, 2)?;
    told.store(0, &[u64::from(std::process::id()), more.address(16)])?;
    world.barrier()?;
    if world.rank() == 0 {
        let mut of_target = [0; 2];
        told.load_from(1, 0, &mut of_target)?;
        let pid = i32::try_from(of_target[0]).ok().and_then(Pid::from_raw).ok_or("no process")?;
        let windows = [(&created, 0), (&dynamic, of_target[1])];
        for (win, at) in windows {
            win.lock_all(Assert::NONE)?;
            memory::put(win, 1, at, &[0; 8])?;
        }
        kill_process(pid, Signal::STOP)?;
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
    Ok(told.free()?)
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

/// MPI §11.2.4: regions are mapped when they are touched, not before, and not longer than they are attached; the same memory may
/// come again, and memory of `alloc_mem` is mapped likewise.
/// Shows W1, M3, T1.
fn attached(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let block = Block::words(8 * 512);
    let addresses = Window::<u64>::allocate(world, 1)?;
    for round in 0..4 {
        let at = 4096 * round + 8;
        block.attach(&win, at, 4096)?;
        ensure(in_a_heap(block.address(at)), "part of the heap while it is attached")?;
        addresses.store(0, &[block.address(at)])?;
        world.barrier()?;
        let mut there = [0];
        addresses.load_from(next, 0, &mut there)?;
        win.lock_all(Assert::NONE)?;
        for rank_round in 0..10 {
            let old = memory::fetch(&win, next, there[0] + 64, Op::Sum, 1)?;
            ensure(old >= rank_round, "counted before")?;
            memory::accumulate(&win, next, there[0], &[1, 2, 3], Op::Sum)?;
        }
        let beyond = memory::put(&win, next, there[0] + 4096, &[1]).err().map(|error| error.class());
        same("a byte past it", &beyond, &Some(transom::Class::RmaRange))?;
        win.unlock_all()?;
        world.barrier()?;
        let words: Vec<u64> = [0, 8, 16, 64].iter().map(|word| block.word(at + word)).collect();
        same("the counts", &words, &vec![10, 20, 30, 10])?;
        block.detach(&win, at)?;
        ensure(!in_a_heap(block.address(at)), "its own again")?;
        same("and what was counted", &block.word(at), &10)?;
        world.barrier()?;
        win.lock_all(Assert::NONE)?;
        let gone = memory::put(&win, next, there[0], &[1; 8]).err().map(|error| error.class());
        same("what is detached", &gone, &Some(transom::Class::RmaRange))?;
        win.unlock_all()?;
        world.barrier()?;
    }
    addresses.free()?;
    Ok(win.free()?)
}

/// Shows T2.
fn excluded(world: &Job) -> Outcome {
    let block = Block::words(4 * 512);
    let win = block.window(world, 0, LEN, 1, &Info::new())?;
    ensure(!win.is_mapped() && !in_a_heap(block.address(0)), "it stays its own")?;
    win.lock_all(Assert::NONE)?;
    memory::put(&win, 1 - world.rank(), 0, &[9; 8])?;
    win.unlock_all()?;
    world.barrier()?;
    same("put all the same", &block.word(0), &u64::from_ne_bytes([9; 8]))?;
    Ok(win.free()?)
}
