//! Windows over memory of `alloc_mem` (MPI-4.1 §9.2): ranks of the node map such parts whatever
//! memory the other parts have, and windows keep the memory alive.

use transom::{Allocation, Assert, Class, Info, Job, Op, Route, Window};
use transom_harness::{Outcome, ensure, gathered, one_node, same, step};

use super::memory::{self, Block};

/// The offset of a rank's part in its memory: across pages, with a different alignment at each
/// rank.
fn begin(rank: usize) -> usize {
    4092 - 4 * rank
}

/// The least displacement that is aligned for a word.
fn first(rank: usize) -> u64 {
    if begin(rank).is_multiple_of(8) { 0 } else { 4 }
}

const LEN: usize = 8000;

/// On one node a job needs no progress thread for mapped windows.
fn no_thread(world: &Job) -> Outcome {
    let needed = world.net().is_some();
    ensure(needed || !world.has_progress_thread(), "a progress thread for parts that are all mapped")
}

/// Every rank counts at every rank, by each function of the family; the sums are exact.
fn count(world: &Job, win: &transom::RawWindow, target: usize, at: u64) -> Outcome {
    let ranks = world.size() as u64;
    win.lock_all(Assert::NONE)?;
    for round in 0..20 {
        memory::fetch(win, target, at, Op::Sum, 1)?;
        memory::accumulate(win, target, at, &[1, 2, 3], Op::Sum)?;
        let mut old = [0; 3];
        memory::get_accumulate(win, target, at, &[1, 2, 3], &mut old, Op::Sum)?;
        ensure(old[1] % 2 == 0 && old[2] % 3 == 0, "an element is whole")?;
        while memory::swap(win, target, at + 24, round, round + 1)? < round {}
    }
    win.unlock_all()?;
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let mut found = [0; 4];
    memory::get(win, target, at, bytemuck::bytes_of_mut(&mut found))?;
    win.unlock_all()?;
    same("the counts", &found, &[60 * ranks, 80 * ranks, 120 * ranks, 20])
}

/// MPI-4.1 §12.2.1, §9.2: ranks of the node map a part at any offset in such memory, which
/// `shared_query` shows. They need no progress thread and no cross-memory attach.
/// Shows W1, W5, M3, T1.
pub(crate) fn mapped(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let given = world.alloc_mem(3 * 4096)?;
    ensure(given.as_ptr().addr().is_multiple_of(4096) && given.len() == 3 * 4096, "a page")?;
    let win = memory::window_over(world, &given, begin(me), LEN, 1, &Info::new())?;
    ensure(win.is_mapped(), "all parts are mapped")?;
    no_thread(world)?;
    win.lock_all(Assert::NONE)?;
    let pattern: Vec<u8> = (0..5000).map(|i: usize| (i * 7 + me).to_le_bytes()[0]).collect();
    memory::put(&win, next, 3000, &pattern)?;
    let mut back = vec![0; 5000];
    memory::get(&win, next, 3000, &mut back)?;
    ensure(back == pattern, "what was put comes back")?;
    win.unlock_all()?;
    world.barrier()?;
    let mut mine = vec![0; 5000];
    given.load(begin(me) + 3000, &mut mine);
    ensure(mine.iter().enumerate().all(|(i, &byte)| byte == (i * 7 + before).to_le_bytes()[0]), "in memory")?;
    for target in 0..size {
        step(format!("counting at {target}"));
        count(world, &win, target, first(target))?;
        // Words that are not aligned.
        count(world, &win, target, 64 + 4 - first(target))?;
    }
    match (win.route(next)?, win.shared_query(next)) {
        (Route::Net, theirs) => same("over a net", &theirs.err().map(|it| it.class()), &Some(Class::RmaShared))?,
        (_, theirs) => {
            let bytes = memory::load_part(&theirs?);
            ensure(bytes[3000..8000] == pattern, "by load")?;
        }
    }
    win.fence(Assert::NONE)?;
    win.fence(Assert::NOSUCCEED)?;
    win.free()?;
    no_thread(world)
}

/// MPI-4.1 §12.2.1: one rank's part is in such memory, another's in user memory, and a third rank
/// has none. Each part has its own route; the results are equal, and all accumulates on a part are
/// atomic.
/// Shows W1, W3, M3, T1, T2.
pub(crate) fn mixed(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let given = world.alloc_mem(3 * 4096)?;
    let own = Block::words(3 * 512);
    let win = match me % 3 {
        0 => memory::window_over(world, &given, begin(me), LEN, 1, &Info::new())?,
        1 => own.window(world, begin(me), LEN, 1, &Info::new())?,
        _ => own.window(world, 0, 0, 1, &Info::new())?,
    };
    if one_node(world)? {
        ensure(!win.is_mapped(), "not all is mapped")?;
        ensure(world.has_progress_thread(), "messages need a thread, also at the sender")?;
    }
    for target in (0..size).filter(|rank| rank % 3 < 2) {
        step(format!("counting at {target}"));
        count(world, &win, target, first(target))?;
        if target != me && one_node(world)? {
            // User memory is mapped too where the kernel has XPMEM.
            let mapped = win.shared_query(target).is_ok();
            ensure(mapped || target % 3 != 0, "memory of the library is mapped")?;
            ensure(!mapped || target % 3 == 0 || xpmem(), "user memory is not")?;
        }
    }
    Ok(win.free()?)
}

/// Whether this kernel maps user memory.
fn xpmem() -> bool {
    std::path::Path::new("/dev/xpmem").exists()
}

/// Such parts are mapped also where cross-memory attach is disabled.
/// Shows T1, T2.
pub(crate) fn without_cross_memory_attach(world: &Job) -> Outcome {
    mapped(world)?;
    mixed(world)
}

/// MPI-4.1 §9.2, §12.2.5: freed memory remains while windows over it exist, and then returns to the
/// system.
/// Shows W2, W7.
pub(crate) fn lifetime(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    // Mappings of heaps only: other threads of the process may map memory at any time.
    let maps = || {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        Ok::<_, std::io::Error>(maps.lines().filter(|line| line.contains("memfd:transom-heap")).count())
    };
    let mut before = 0;
    for round in 0..30u64 {
        // Providers have filled their pools after a few rounds.
        if round == 5 {
            before = maps()?;
        }
        let given = world.alloc_mem(8192)?;
        let whole = Window::<u64>::create_over(world, &given, 0, 1024)?;
        let part = Window::<u32>::create_over(world, &given, 4108, 64)?;
        drop(given);
        let other = world.alloc_mem(8192)?;
        whole.lock_all(|epoch| epoch.put_value(next, 513, round | 9 << 32))?;
        world.barrier()?;
        let mut seen = [0; 2];
        part.load(0, &mut seen)?;
        same("by the other window", &seen, &[9, 0])?;
        whole.free()?;
        part.lock_all(|epoch| epoch.fetch_add(next, 0, 1))?;
        world.barrier()?;
        part.load(0, &mut seen)?;
        same("after one is freed", &seen, &[10, 0])?;
        let mut untouched = [1; 8192];
        other.load(0, &mut untouched);
        ensure(untouched == [0; 8192], "other memory is other memory")?;
        part.free()?;
    }
    ensure(before > 0, "the job has mappings of its own")?;
    same("mappings", &maps()?, &before)
}

/// MPI-4.1 §9.2: a request for more memory than the system has is an error without a leak; the
/// alignment is as requested; a part that is not inside the memory makes creation fail at every
/// rank.
/// Shows W6, E1.
pub(crate) fn refused(world: &Job) -> Outcome {
    let class = |outcome: transom::Result<Allocation>| outcome.err().map(|error| error.class());
    let info = Info::new();
    for bytes in [usize::MAX, usize::MAX - 4096, 1 << 50] {
        same("too much", &class(world.alloc_mem_with(bytes, &info)), &Some(Class::Size))?;
    }
    for (key, value) in [("mpi_minimum_memory_alignment", "48"), ("mpi_minimum_alignment", "0")] {
        let outcome = world.alloc_mem_with(64, &Info::new().with(key, value));
        same("an alignment that can't be", &class(outcome), &Some(Class::InfoValue))?;
    }
    for alignment in [1usize, 64, 1 << 16, 1 << 21] {
        let info = Info::new().with("mpi_minimum_memory_alignment", alignment.to_string());
        let given = world.alloc_mem_with(100, &info)?;
        same("aligned", &(given.as_ptr().addr() % alignment, given.len()), &(0, 100))?;
        let win = Window::<u8>::create_over_with(world, &given, 1, 99, &info)?;
        ensure(win.is_mapped(), "aligned memory is mapped too")?;
        win.free()?;
    }
    let empty = world.alloc_mem_with(0, &info)?;
    ensure(empty.is_empty(), "no bytes")?;
    Window::<u64>::create_over_with(world, &empty, 0, 0, &info)?.free()?;
    let given = world.alloc_mem_with(64, &info)?;
    let len = if world.rank() == world.size() - 1 { 8 } else { 7 };
    let outside = Window::<u64>::create_over_with(world, &given, 8, len, &info).err().map(|error| error.class());
    let expected = if len == 8 { Class::RmaRange } else { Class::Other };
    same("a part that is not inside", &outside, &Some(expected))
}

/// The separate model over such memory: its copies agree after synchronization and only then.
/// Accumulates have element granularity.
/// Shows M2, M3.
pub(crate) fn models(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let given = world.alloc_mem(64)?;
    let separate = Info::new().with("transom_model", "separate");
    let win = Window::<u64>::create_over_with(world, &given, 0, 8, &separate)?;
    let mut word = [0; 8];
    if world.rank() == 0 {
        win.lock_all(|epoch| epoch.put_value(next, 0, 5))?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        given.load(0, &mut word);
        same("before the synchronization", &u64::from_ne_bytes(word), &0)?;
    }
    win.sync();
    if world.rank() == next {
        given.load(0, &mut word);
        same("after it", &u64::from_ne_bytes(word), &5)?;
    }
    win.free()?;
    let elements = Info::new().with("mpi_accumulate_granularity", "8");
    let win = memory::window_over(world, &given, 0, 64, 1, &elements)?;
    win.lock_all(Assert::NONE)?;
    memory::put(&win, next, 0, &[0; 64])?;
    win.unlock_all()?;
    world.barrier()?;
    count(world, &win, 0, 8)?;
    Ok(win.free()?)
}

/// A part of an allocated window's memory in another window: mapped as well, and kept alive.
/// Shows W7.
pub(crate) fn over_a_window(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let first = transom::RawWindow::allocate(world, 4096, 1, &Info::new())?;
    let second = memory::window_over_part(world, &first, 1024, 64)?;
    ensure(second.is_mapped(), "memory of the library")?;
    first.free()?;
    second.lock_all(Assert::NONE)?;
    memory::put(&second, next, 60, &[1, 2, 3, 4])?;
    second.unlock_all()?;
    world.barrier()?;
    let mut last = [0; 4];
    second.load(60, &mut last);
    same("after the first is freed", &last, &[1, 2, 3, 4])?;
    Ok(second.free()?)
}

/// MPI-4.1 §12.2.1, §12.2.3, §12.2.4: windows over the memory of a shared window, the own part or
/// another rank's. Whichever rank's heap has the memory, the ranks of the node map it, and need no
/// progress thread and no cross-memory attach.
/// Shows W1, W5, M3, T1.
pub(crate) fn over_a_shared_window(world: &Job) -> Outcome {
    let node = world.subset(&world.node_ranks())?;
    let next = (node.rank() + 1) % node.size();
    let shared = transom::RawWindow::allocate_shared(&node, 64, 8, &Info::new())?;
    for owner in [node.rank(), next] {
        step(format!("over the part of the node's rank {owner}"));
        let part = shared.shared_query(owner)?;
        let win = memory::window_over_shared(world, &part)?;
        ensure(win.is_mapped(), "all parts are mapped")?;
        no_thread(world)?;
        for target in 0..world.size() {
            count(world, &win, target, 0)?;
        }
        win.free()?;
        memory::store_part(&part, &[0; 64]);
        shared.sync();
        world.barrier()?;
    }
    for owner in [node.rank(), next] {
        step(format!("attached, of the node's rank {owner}"));
        let part = shared.shared_query(owner)?;
        let win = transom::RawWindow::create_dynamic(world, &Info::new())?;
        memory::attach_shared(&win, &part)?;
        for (target, &address) in gathered(world, part.base().addr() as u64)?.iter().enumerate() {
            win.lock_all(Assert::NONE)?;
            memory::put(&win, target, address + 8 * world.rank() as u64, &[target.to_le_bytes()[0] + 1; 8])?;
            win.unlock_all()?;
        }
        world.barrier()?;
        shared.sync();
        let mut expected = [0; 64];
        expected[..8 * world.size()].fill(world.rank().to_le_bytes()[0] + 1);
        same("attached memory", &memory::load_part(&part), &expected.to_vec())?;
        win.detach(part.base())?;
        win.free()?;
    }
    Ok(shared.free()?)
}
