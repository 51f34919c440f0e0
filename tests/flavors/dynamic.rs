//! Dynamic windows: memory is attached and detached at any time, accessed by address, and by no one where it is not
//! attached (MPI §11.2.4). Over a net the target tells, at the flush; within a node the origin knows.

use transom::{Assert, BasicType, Class, Datatype, Flavor, Info, Job, Op, RawWindow, Window};
use transom_harness::{Outcome, ensure, same, step};

use super::memory::{self, Block};

/// Regions that a rank attaches at once.
const REGIONS: usize = 5000;
/// Bytes from the begin of a region to that of the next: three words, of which two are attached.
const STRIDE: usize = 24;
const REGION: usize = 16;

/// Numbers in an order that a seed decides (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap_or(0)
    }

    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for index in (1..count).rev() {
            order.swap(index, self.below(index + 1));
        }
        order
    }
}

/// The address of each rank's block.
fn addresses(world: &Job, block: Block) -> transom::Result<Vec<u64>> {
    let win = Window::<u64>::create(world, vec![block.address(0)])?;
    let mut all = vec![0; world.size()];
    win.lock_all(|epoch| all.chunks_mut(1).enumerate().try_for_each(|(rank, into)| epoch.get(rank, 0, into)))?;
    win.free()?;
    Ok(all)
}

/// All of it, for another environment.
/// Shows W1.
pub(crate) fn all(world: &Job) -> Outcome {
    thousands(world)?;
    operations(world)?;
    refusals(world)
}

/// REQUIREMENTS W1: any number of regions, attached, accessed and detached in any order.
/// Shows W1, W2, O1.
pub(crate) fn thousands(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let mut dice = Dice(me as u64 + 99);
    let block = Block::words(REGIONS * STRIDE / 8);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let bases = addresses(world, block)?;
    step("attaching");
    for region in dice.order(REGIONS) {
        block.attach(&win, region * STRIDE, REGION)?;
    }
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let next = (me + 1) % size;
    let at = |region: usize| bases[next] + (region * STRIDE) as u64;
    step("random accesses");
    let chosen = dice.order(REGIONS).split_off(REGIONS - 400);
    for &region in &chosen {
        let value = (region * 1000 + me) as u64;
        memory::put(&win, next, at(region), &value.to_ne_bytes())?;
        same("fetch_and_op", &memory::fetch(&win, next, at(region) + 8, Op::Sum, value)?, &0)?;
        let mut back = [0; REGION];
        memory::get(&win, next, at(region), &mut back)?;
        same("both words", &back, &[value; 2].map(u64::to_ne_bytes).concat().try_into().unwrap_or_default())?;
    }
    world.barrier()?;
    let before = (me + size - 1) % size;
    let touched = (0..REGIONS).filter(|region| block.word(region * STRIDE) != 0).collect::<Vec<_>>();
    ensure(touched.len() >= 399, "what the rank before put")?;
    for region in touched {
        same("put here", &block.word(region * STRIDE), &((region * 1000 + before) as u64))?;
        same("between regions", &block.word(region * STRIDE + REGION), &0)?;
    }
    step("detaching");
    // The same order at every rank, so that a peer knows which half is left.
    let order = Dice(5).order(REGIONS);
    let (gone, left) = order.split_at(REGIONS / 2);
    for region in gone {
        block.detach(&win, region * STRIDE)?;
    }
    world.barrier()?;
    for (&gone, &left) in gone.iter().zip(left).take(30) {
        let error = memory::put(&win, next, at(gone), &[1; 8]).err();
        refused(error.as_ref(), next, at(gone), 8)?;
        refused(memory::fetch(&win, next, at(gone), Op::Sum, 1).err().as_ref(), next, at(gone), 8)?;
        memory::put(&win, next, at(left), &[2; 8])?;
    }
    world.barrier()?;
    ensure(gone.iter().all(|region| block.word(region * STRIDE) != u64::from_ne_bytes([1; 8])), "nothing was written")?;
    win.unlock_all()?;
    for region in left {
        block.detach(&win, region * STRIDE)?;
    }
    let twice = block.detach(&win, 0).err().map(|error| error.class());
    same("detached twice", &twice, &Some(Class::RmaAttach))?;
    for region in gone {
        block.attach(&win, region * STRIDE, REGION)?;
    }
    Ok(win.free()?)
}

/// Whether it is the error of an access to what is not attached: it names rank, address and length.
fn refused(error: Option<&transom::Error>, rank: usize, address: u64, len: usize) -> Outcome {
    let error = error.ok_or(format!("{len} bytes at {address:#x} of rank {rank} were not refused"))?;
    let (class, text) = (error.class(), error.to_string());
    ensure(matches!(class, Class::RmaRange | Class::RmaAttach), &format!("{class:?}: {text}"))?;
    for part in [format!("rank {rank}"), format!("{address:#x}"), format!("{len} bytes")] {
        ensure(text.contains(&part), &format!("{text:?} names {part:?}"))?;
    }
    Ok(())
}

/// MPI §11.2.4: every operation by address, short and long, in one attached region and in parts of it.
/// Shows W1, W4, O1.
pub(crate) fn operations(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let words = (1 << 17) + 64;
    let block = Block::words(words);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    same("size, unit, flavor", &(win.size(), win.disp_unit(), win.flavor()), &(0, 1, Flavor::Dynamic))?;
    ensure(win.base().is_null(), "the base is bottom")?;
    block.attach(&win, 0, block.len())?;
    let base = addresses(world, block)?[next];
    win.lock_all(Assert::NONE)?;
    let long: Vec<u64> = (0..1 << 17).map(|i| i * 3 + me as u64).collect();
    step("put of 1 MiB");
    memory::put(&win, next, base + 8, &bytes(&long))?;
    step("get of 1 MiB");
    let mut back = vec![0; 1 << 20];
    memory::get(&win, next, base + 8, &mut back)?;
    ensure(back == bytes(&long), "1 MiB back")?;
    step("accumulate of 1 MiB");
    memory::accumulate(&win, next, base + 8, &long, Op::Sum)?;
    let mut old = vec![0; 1 << 17];
    step("get_accumulate of 1 MiB");
    memory::get_accumulate(&win, next, base + 8, &vec![1; 1 << 17], &mut old, Op::Sum)?;
    ensure(old.iter().zip(&long).all(|(old, put)| *old == 2 * put), "each element from before")?;
    step("short ones");
    same("fetch_and_op", &memory::fetch(&win, next, base, Op::Sum, 4)?, &0)?;
    same("compare_and_swap", &memory::swap(&win, next, base, 4, 6)?, &4)?;
    same("compare_and_swap that fails", &memory::swap(&win, next, base, 4, 9)?, &6)?;
    memory::put(&win, next, base + block.len() as u64 - 3, b"end")?;
    for at in [1, 4] {
        let crooked = memory::fetch(&win, next, base + at, Op::Sum, 1).err().map(|error| error.class());
        same("a misaligned atomic", &crooked, &Some(Class::Type))?;
    }
    memory::put(&win, next, 0, &[])?;
    win.unlock_all()?;
    world.barrier()?;
    same("the first word", &block.word(0), &6)?;
    for at in [0usize, 1, 77_777, (1 << 17) - 1] {
        same("a long one's word", &block.word(8 + 8 * at), &(2 * (at as u64 * 3 + before as u64) + 1))?;
    }
    let mut end = [0; 3];
    block.load(block.len() - 3, &mut end);
    same("the last bytes", &&end, &b"end")?;
    Ok(win.free()?)
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// MPI §11.2.4, REQUIREMENTS O7: an access that is not within one attached region is an error that names it; nothing is written,
/// and the window goes on.
/// Shows W1, O7, E1.
pub(crate) fn refusals(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let len = 1 << 21;
    let block = Block::words(len / 8);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let base = addresses(world, block)?[next];
    // [0, 64) and [64, 128) touch each other; [1 MiB, 1 MiB + 512 KiB) is long; what is between is not attached.
    let (middle, long) = (1usize << 20, 1usize << 19);
    for (at, len) in [(0, 64), (64, 64), (middle, long)] {
        block.attach(&win, at, len)?;
    }
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let accesses = [
        (128, 1, "behind a region"),
        (56, 16, "across two regions"),
        (120, 9, "one byte too far"),
        (0, 128, "two whole regions"),
        (middle - 8, 16, "from before a region"),
        (middle + long - 8, 16, "past the end of a region"),
        (middle + long / 2, long, "long, half within a region"),
        (middle - 64, long, "long, from before a region"),
        (512, 8, "nowhere"),
        (512, long, "long, nowhere"),
    ];
    for (at, len, what) in accesses {
        step(what);
        let (address, data) = (base + at as u64, vec![0xabu8; len]);
        refused(memory::put(&win, next, address, &data).err().as_ref(), next, address, len)?;
        let mut back = vec![5; len];
        refused(memory::get(&win, next, address, &mut back).err().as_ref(), next, address, len)?;
        if len.is_multiple_of(8) {
            let words = vec![1; len / 8];
            let error = memory::accumulate(&win, next, address, &words, Op::Sum).err();
            refused(error.as_ref(), next, address, len)?;
        }
        if len == 8 {
            refused(memory::fetch(&win, next, address, Op::Sum, 1).err().as_ref(), next, address, 8)?;
            refused(memory::swap(&win, next, address, 0, 1).err().as_ref(), next, address, 8)?;
        }
        // The window goes on, to the same target.
        memory::put(&win, next, base, &7u64.to_ne_bytes())?;
    }
    layouts(&win, next, base)?;
    for address in [8, u64::MAX - 7, 1 << 63] {
        let error = memory::put(&win, next, address, &[1]).err().ok_or("an address without memory was not refused")?;
        same(&format!("{error}"), &error.class(), &Class::RmaRange)?;
    }
    win.unlock_all()?;
    world.barrier()?;
    same("what was allowed", &block.word(0), &7)?;
    let mut found = vec![0; len - 8];
    block.load(8, &mut found);
    same("the first byte that was written", &found.iter().position(|&byte| byte != 0), &None)?;
    Ok(win.free()?)
}

/// Words at irregular places, few and many, of which only the last is not attached.
fn layouts(win: &RawWindow, next: usize, base: u64) -> Outcome {
    let word = Datatype::basic(BasicType::Uint64);
    for count in [3isize, 100, 700] {
        step(format!("a layout of {count} words"));
        let start = 1isize << 20;
        let places: Vec<(usize, isize)> =
            (0..count).map(|at| (1, start + 24 * at + 8 * (at % 2))).chain([(1, 512)]).collect();
        let (ty, words) = (Datatype::hindexed(&places, &word)?, vec![9; places.len()]);
        refused(memory::put_layout(win, next, base, &words, &ty).err().as_ref(), next, base + 512, 8)?;
    }
    Ok(())
}

/// MPI §11.2.4: regions do not overlap, memory is detached by where it begins, and only dynamic windows have any of it.
/// Shows W1, E1.
pub(crate) fn attaching(world: &Job) -> Outcome {
    let block = Block::words(16);
    let (win, second) =
        (RawWindow::create_dynamic(world, &Info::new())?, RawWindow::create_dynamic(world, &Info::new())?);
    let class = |outcome: transom::Result<()>| outcome.err().map(|error| error.class());
    block.attach(&win, 32, 32)?;
    for (at, len) in [(32, 32), (0, 33), (63, 1), (40, 8), (0, 128), (32, 1)] {
        let error = block.attach(&win, at, len).err().ok_or(format!("{len} bytes at {at} were attached"))?;
        same(&format!("{error}"), &error.class(), &Class::RmaAttach)?;
        for part in [format!("{len} bytes"), format!("{:#x}", block.address(at)), format!("{:#x}", block.address(32))] {
            ensure(error.to_string().contains(&part), &format!("{error} names {part}"))?;
        }
    }
    same("no bytes", &class(block.attach(&win, 0, 0)), &Some(Class::RmaAttach))?;
    // Memory may be in several windows, and beside what is attached.
    block.attach(&second, 0, 128)?;
    block.attach(&win, 0, 32)?;
    block.attach(&win, 64, 8)?;
    for at in [8, 40, 96] {
        let error = block.detach(&win, at).err().ok_or("detached where nothing begins")?;
        same(&format!("{error}"), &error.class(), &Class::RmaAttach)?;
        ensure(error.to_string().contains(&format!("{:#x}", block.address(at))), &error.to_string())?;
    }
    block.detach(&win, 32)?;
    same("a detached region", &class(block.detach(&win, 32)), &Some(Class::RmaAttach))?;
    block.attach(&win, 40, 16)?;
    let fixed = RawWindow::allocate(world, 8, 1, &Info::new())?;
    same("attach to another flavor", &class(block.attach(&fixed, 0, 8)), &Some(Class::RmaFlavor))?;
    same("detach from another flavor", &class(block.detach(&fixed, 0)), &Some(Class::RmaFlavor))?;
    fixed.free()?;
    win.free()?;
    // Freeing detached everything there, and nothing in the other window.
    let me = world.rank();
    second.lock_all(Assert::NONE)?;
    same("the other window's", &memory::fetch(&second, me, block.address(120), Op::Replace, 3)?, &0)?;
    second.unlock_all()?;
    second.free()?;
    same("a freed window takes nothing", &class(block.attach(&second, 0, 8)), &Some(Class::RmaSync))?;
    let third = RawWindow::create_dynamic(world, &Info::new())?;
    block.attach(&third, 0, 128)?;
    Ok(third.free()?)
}
