//! Ranks that have used up their descriptors before they contact their peers.

use std::fs::File;
use std::time::Duration;

use rustix::process::Resource;
use transom::{Assert, Info, Job, Op, RawWindow, Result};
use transom_harness::{Outcome, ensure, same, step};

use super::Limited;
use super::memory::{self, Block};

/// More descriptors than a rank has after the start of a job.
const MOST: u64 = 128;
/// Bytes of a part: a word for each origin, then a counter.
const LEN: usize = 512;
const COUNTER: usize = LEN - 8;

/// All descriptors of the process, until this value is dropped.
struct UsedUp(#[allow(dead_code)] Vec<File>, #[allow(dead_code)] Limited);

impl UsedUp {
    fn new() -> UsedUp {
        let limited = Limited::to(Resource::Nofile, MOST).expect("a soft limit can be lowered");
        let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!files.is_empty(), "the process has more than {MOST} descriptors");
        UsedUp(files, limited)
    }
}

/// The windows of a test: over the library's memory, and over the program's.
fn windows(world: &Job, block: Block) -> Result<[RawWindow; 2]> {
    let allocated = RawWindow::allocate(world, LEN, 1, &Info::new())?;
    Ok([allocated, block.window(world, 0, LEN, 1, &Info::new())?])
}

/// Every rank accesses the parts of all ranks, and reads its own.
fn access(world: &Job, win: &RawWindow) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let word = Block::words(1);
    word.store(0, &[7; 8]);
    win.fence(Assert::NONE)?;
    word.put(win, (me + 1) % size, 8)?;
    win.fence(Assert::NONE)?;
    let mut first = [0; 8];
    win.lock_all(Assert::NONE)?;
    memory::get(win, me, 0, &mut first)?;
    win.unlock_all()?;
    same("put by the rank before", &first, &[7; 8])?;
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    for target in 0..size {
        // More than the short writes for which the library reads no protection.
        for _ in 0..100 {
            memory::put(win, target, 8 * me as u64, &(me as u64 + 1).to_ne_bytes())?;
        }
        memory::fetch(win, target, COUNTER as u64, Op::Sum, 1)?;
    }
    win.unlock_all()?;
    world.barrier()?;
    let mut seen = [0; LEN];
    win.lock_all(Assert::NONE)?;
    memory::get(win, me, 0, &mut seen)?;
    win.unlock_all()?;
    let found: Vec<u64> = seen.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    same("the words of the origins", &found[..size].to_vec(), &(1..=size as u64).collect())?;
    same("the counter", &found[COUNTER / 8], &(size as u64))?;
    Ok(world.barrier()?)
}

/// [`access`] to both windows, then to two new ones.
fn access_all(world: &Job, made: [RawWindow; 2]) -> Outcome {
    for (kind, win) in ["allocated", "user memory"].into_iter().zip(made) {
        step(format!("{kind}, created before"));
        access(world, &win)?;
        win.free()?;
    }
    for (kind, win) in ["allocated", "user memory"].into_iter().zip(windows(world, Block::words(LEN / 8))?) {
        step(format!("{kind}, created now"));
        access(world, &win)?;
        win.free()?;
    }
    Ok(())
}

/// Within a node a rank without a free descriptor reaches all ranks, in windows from before and in
/// new ones, and afterwards with descriptors again.
fn access_without_descriptors(world: &Job, is_full: bool, at_once: bool) -> Outcome {
    ensure(world.net().is_none(), "all ranks share memory")?;
    let used_up = (is_full && at_once).then(UsedUp::new);
    let made = windows(world, Block::words(LEN / 8))?;
    let used_up = used_up.or_else(|| is_full.then(UsedUp::new));
    access_all(world, made)?;
    drop(used_up);
    access_all(world, windows(world, Block::words(LEN / 8))?)
}

/// Shows E1.
pub(crate) fn last_after_init(world: &Job) -> Outcome {
    access_without_descriptors(world, world.rank() == world.size() - 1, true)
}

/// Shows E1.
pub(crate) fn last_after_creation(world: &Job) -> Outcome {
    access_without_descriptors(world, world.rank() == world.size() - 1, false)
}

/// Shows E1.
pub(crate) fn all_after_init(world: &Job) -> Outcome {
    access_without_descriptors(world, true, true)
}

/// Over sockets no rank can connect to a rank without a free descriptor. That rank says so. Ranks 1
/// and 4 of six are no partners in barriers, so that they have no connection before the put.
/// Shows E1.
pub(crate) fn over_sockets(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, LEN, 1, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    world.barrier()?;
    let _used_up = (world.rank() == 1).then(UsedUp::new);
    world.barrier()?;
    match world.rank() {
        1 => end_later(),
        4 => memory::put(&win, 1, 0, &[1; 8])?,
        _ => {}
    }
    world.barrier()?;
    win.unlock_all()?;
    Ok(win.free()?)
}

/// Over sockets where no rank has a free descriptor: an error or the warning names the limit.
/// Shows E1.
pub(crate) fn all_over_sockets(world: &Job) -> Outcome {
    let _used_up = UsedUp::new();
    end_later();
    access_all(world, windows(world, Block::words(LEN / 8))?)
}

/// Ends the job, in which ranks wait in vain.
fn end_later() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(10));
        std::process::abort();
    });
}
