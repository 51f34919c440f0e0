//! Dynamic windows: memory is attached and detached at any time and accessed by address; accesses
//! outside attached memory are errors (MPI-4.1 §12.2.4). Over a net the target reports the error,
//! at the flush; within a node the origin finds it.

use std::sync::atomic::{AtomicBool, Ordering};

use transom::{Assert, BasicType, Class, Datatype, Flavor, Info, Job, Op, RawWindow};
use transom_harness::{Outcome, ensure, gathered, same, step};

use super::memory::{self, Block};

/// Regions that a rank attaches at once.
const REGIONS: usize = 5000;
/// Bytes from the beginning of a region to that of the next: three words, of which two are
/// attached.
const STRIDE: usize = 24;
const REGION: usize = 16;

/// Numbers in an order that a seed determines (xorshift).
struct Rng(u64);

impl Rng {
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

/// All tests of this file, for jobs that run in another environment.
/// Shows W1.
pub(crate) fn all(world: &Job) -> Outcome {
    thousands(world)?;
    operations(world)?;
    refusals(world)?;
    side_by_side(world)
}

/// MPI-4.1 §12.2.4: accesses may span attached regions that are adjacent. The test runs every
/// operation on memory that ranks of the node map and on user memory; an access across a gap is
/// refused as a whole.
/// Shows W1, O1, O2, M4.
pub(crate) fn side_by_side(world: &Job) -> Outcome {
    spanning(world, Block::words(64))?;
    spanning(world, Block::allocated(world, 64)?)
}

/// Regions: [0, 100), [100, 200), [200, 256), a gap, [264, 512). The word at 96 crosses two
/// regions.
fn spanning(world: &Job, block: Block) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    for (at, len) in [(100, 100), (264, 248), (0, 100), (200, 56)] {
        block.attach(&win, at, len)?;
    }
    let base = gathered(world, block.address(0))?[next];
    win.lock_all(Assert::NONE)?;
    step("put and get across regions");
    let words: Vec<u64> = (0..31).map(|word| word * 1000 + me as u64 + 1).collect();
    memory::put(&win, next, base + 8, &bytes(&words))?;
    let mut back = vec![0; 248];
    memory::get(&win, next, base + 8, &mut back)?;
    same("what was put", &back, &bytes(&words))?;
    step("accumulates across regions");
    memory::accumulate(&win, next, base + 8, &words, Op::Sum)?;
    let mut old = vec![0; 31];
    memory::get_accumulate(&win, next, base + 8, &[5; 31], &mut old, Op::Sum)?;
    same("the sums", &old, &words.iter().map(|word| 2 * word).collect::<Vec<_>>())?;
    step("a word in two regions");
    let word = 2 * words[11] + 5;
    same("fetch_and_op", &memory::fetch(&win, next, base + 96, Op::Sum, 4)?, &word)?;
    same("compare_and_swap", &memory::swap(&win, next, base + 96, word + 4, 70)?, &(word + 4))?;
    same("compare_and_swap that fails", &memory::swap(&win, next, base + 96, word, 9)?, &70)?;
    ordered(&win, next, base)?;
    step("a layout across regions");
    let every_other = Datatype::hvector(3, 1, 16, &Datatype::basic(BasicType::Uint64))?;
    memory::put_layout(&win, next, base + 80, &[7, 8, 9], &every_other)?;
    let mut back = [0; 40];
    memory::get(&win, next, base + 80, &mut back)?;
    let sums = |word: usize| 2 * words[word] + 5;
    same("every other word", &back.to_vec(), &bytes(&[7, sums(10), 8, sums(12), 9]))?;
    step("what a gap interrupts");
    for (at, len) in [(192, 72), (96, 408), (240, 24)] {
        refused(memory::put(&win, next, base + at, &vec![0xab; len]).err().as_ref(), next, base + at, len)?;
        let error = memory::accumulate(&win, next, base + at, &vec![1; len / 8], Op::Sum).err();
        refused(error.as_ref(), next, base + at, len)?;
    }
    memory::get(&win, next, base + 192, &mut back)?;
    same("nothing of it was written", &back.to_vec(), &bytes(&(23..28).map(sums).collect::<Vec<_>>()))?;
    detached(world, &win, block, base)?;
    win.unlock_all()?;
    Ok(win.free()?)
}

/// Accumulates on the word in two regions keep their order relative to those on words of one
/// region.
fn ordered(win: &RawWindow, next: usize, base: u64) -> Outcome {
    step("order across regions");
    let mut before = [0; 24];
    memory::get(win, next, base + 88, &mut before)?;
    for turn in 0..50u64 {
        memory::accumulate(win, next, base + 88, &[turn; 3], Op::Replace)?;
        same("replaced", &memory::fetch(win, next, base + 96, Op::Sum, 1)?, &turn)?;
        same("beside", &memory::fetch(win, next, base + 88, Op::Sum, 1)?, &turn)?;
        memory::put(win, next, base + 96, &(turn + 9).to_ne_bytes())?;
        let mut back = [0; 24];
        memory::get(win, next, base + 88, &mut back)?;
        same("all three", &back.to_vec(), &bytes(&[turn + 1, turn + 9, turn]))?;
    }
    Ok(memory::put(win, next, base + 88, &before)?)
}

/// After the middle region is detached, accesses across it are refused and all others work.
fn detached(world: &Job, win: &RawWindow, block: Block, base: u64) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    world.barrier()?;
    block.detach(win, 100)?;
    world.barrier()?;
    step("the region in between is detached");
    for (at, len) in [(96u64, 8), (0, 200), (192, 16)] {
        refused(memory::put(win, next, base + at, &vec![1; len]).err().as_ref(), next, base + at, len)?;
    }
    memory::put(win, next, base + 88, &[1; 8])?;
    memory::put(win, next, base + 200, &[2; 56])?;
    world.barrier()?;
    Ok(())
}

/// Any number of regions, attached, accessed and detached in any order.
/// Shows W1, W2, O1.
pub(crate) fn thousands(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let mut rng = Rng(me as u64 + 99);
    let block = Block::words(REGIONS * STRIDE / 8);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let bases = gathered(world, block.address(0))?;
    step("attaching");
    for region in rng.order(REGIONS) {
        block.attach(&win, region * STRIDE, REGION)?;
    }
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let next = (me + 1) % size;
    let at = |region: usize| bases[next] + (region * STRIDE) as u64;
    step("random accesses");
    let chosen = rng.order(REGIONS).split_off(REGIONS - 400);
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
    // One order at every rank, so that a peer knows which half is still attached.
    let order = Rng(5).order(REGIONS);
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

/// Each region is accessed as soon as it is attached, and earlier ones again. Then regions are
/// detached, and others attached at their addresses.
/// Shows W1.
pub(crate) fn one_by_one(world: &Job) -> Outcome {
    const COUNT: usize = 150;
    let (me, size) = (world.rank(), world.size());
    let block = Block::words(COUNT * STRIDE / 8);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let next = (me + 1) % size;
    let base = gathered(world, block.address(0))?[next];
    let at = |region: usize| base + (region * STRIDE) as u64;
    let add = |region: usize| memory::fetch(&win, next, at(region), Op::Sum, 1);
    win.lock_all(Assert::NONE)?;
    for region in Rng(7).order(COUNT) {
        step(format!("region {region}"));
        block.attach(&win, region * STRIDE, REGION)?;
        world.barrier()?;
        same("a new region", &add(region)?, &0)?;
        world.barrier()?;
    }
    for region in 0..COUNT {
        same("an earlier region", &add(region)?, &1)?;
    }
    world.barrier()?;
    for region in (0..COUNT).step_by(3) {
        step(format!("again region {region}"));
        block.detach(&win, region * STRIDE)?;
        // Longer by the gap, and beside the next region.
        block.attach(&win, region * STRIDE, STRIDE)?;
        world.barrier()?;
        same("longer", &memory::fetch(&win, next, at(region) + REGION as u64, Op::Sum, 1)?, &0)?;
        same("the same bytes", &add(region)?, &2)?;
        if region > 0 {
            same("before", &add(region - 1)?, &2)?;
            let beyond = at(region) - 8;
            refused(memory::fetch(&win, next, beyond, Op::Sum, 1).err().as_ref(), next, beyond, 8)?;
        }
        world.barrier()?;
    }
    win.unlock_all()?;
    (0..COUNT).try_for_each(|region| block.detach(&win, region * STRIDE))?;
    Ok(win.free()?)
}

/// A thread accesses a region in many pieces. Another thread finds meanwhile that other regions
/// were detached, and reads the beginning of the list again, which lacks the first thread's region.
/// Shows W1.
pub(crate) fn by_threads(world: &Job) -> Outcome {
    const COUNT: usize = 150;
    const PIECES: usize = 2000;
    const ROUNDS: usize = 400;
    let next = (world.rank() + 1) % world.size();
    let long = COUNT * STRIDE;
    let block = Block::allocated(world, long / 8 + 2 * PIECES)?;
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    for region in 0..COUNT {
        block.attach(&win, region * STRIDE, REGION)?;
    }
    block.attach(&win, long, 16 * PIECES)?;
    let base = gathered(world, block.address(0))?[next];
    win.lock_all(Assert::NONE)?;
    let every_second = Datatype::vector(PIECES, 1, 2, &Datatype::basic(BasicType::Uint64))?;
    let words: Vec<u64> = (1..=PIECES as u64).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let pieces = threads.spawn(|| {
            // At least one put, also where the thread starts late.
            loop {
                memory::put_layout(&win, next, base + long as u64, &words, &every_second)?;
                // Relaxed, as below: the flag orders no other access.
                if done.load(Ordering::Relaxed) {
                    return Ok::<_, transom::Error>(());
                }
            }
        });
        step("detaching, and accesses to the first region");
        let rounds = (0..ROUNDS as u64).try_for_each(|round| {
            block.detach(&win, STRIDE)?;
            block.attach(&win, STRIDE, REGION)?;
            memory::put(&win, next, base, &round.to_ne_bytes())
        });
        done.store(true, Ordering::Relaxed);
        pieces.join().expect("no thread panics").and(rounds)
    })?;
    world.barrier()?;
    same("the first region", &block.word(0), &(ROUNDS as u64 - 1))?;
    let found: Vec<u64> = (0..PIECES).map(|piece| block.word(long + 16 * piece)).collect();
    ensure(found == words, "every piece of the last region")?;
    win.unlock_all()?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.7.2: accumulates of one thread keep their order while another thread finds that the
/// target has detached its only region that is not mapped, so that accesses become direct again.
/// Needs a job without cross-memory attach.
/// Shows W1, M4.
pub(crate) fn order_beside_a_thread(world: &Job) -> Outcome {
    const ROUNDS: u64 = 120;
    const WORDS: usize = 12_000;
    let me = world.rank();
    let (mapped, unmapped) = (Block::allocated(world, WORDS + 1)?, Block::words(8));
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    mapped.attach(&win, 0, mapped.len())?;
    let (base, beside) = (gathered(world, mapped.address(0))?[1], gathered(world, unmapped.address(0))?[1]);
    win.lock_all(Assert::NONE)?;
    for round in 0..ROUNDS {
        step(format!("round {round}"));
        if me == 1 {
            unmapped.attach(&win, 0, 64)?;
        }
        world.barrier()?;
        if me == 0 {
            memory::put(&win, 1, beside, &[1; 8])?;
        }
        world.barrier()?;
        if me == 0 {
            two_threads(&win, base, WORDS)?;
        } else {
            // Different moments of the other rank's accumulates.
            (0..round * 3000).for_each(|_| std::hint::spin_loop());
            unmapped.detach(&win, 0)?;
        }
        world.barrier()?;
    }
    win.unlock_all()?;
    Ok(win.free()?)
}

/// A long accumulate and then one of its last word by one thread; gets of a word that no
/// accumulate changes by another.
fn two_threads(win: &RawWindow, base: u64, words: usize) -> Outcome {
    let (last, other) = (base + 8 * (words as u64 - 1), base + 8 * words as u64);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            // Relaxed, as below: the flag orders no other access.
            while !done.load(Ordering::Relaxed) {
                memory::fetch(win, 1, other, Op::NoOp, 0)?;
            }
            Ok::<_, transom::Error>(())
        });
        let pairs = (0..8).try_for_each(|pair| {
            memory::accumulate_both(win, 1, (base, &vec![2 * pair; words]), (last, &[2 * pair + 1]))?;
            same("the later accumulate", &memory::fetch(win, 1, last, Op::NoOp, 0)?, &(2 * pair + 1))
        });
        done.store(true, Ordering::Relaxed);
        reader.join().expect("no thread panics")?;
        pairs
    })
}

/// Whether this is the error of an access to memory that is not attached: it names rank, address
/// and length.
fn refused(error: Option<&transom::Error>, rank: usize, address: u64, len: usize) -> Outcome {
    let error = error.ok_or(format!("{len} bytes at {address:#x} of rank {rank} were not refused"))?;
    let (class, text) = (error.class(), error.to_string());
    ensure(matches!(class, Class::RmaRange | Class::RmaAttach), &format!("{class:?}: {text}"))?;
    for part in [format!("rank {rank}"), format!("{address:#x}"), format!("{len} bytes")] {
        ensure(text.contains(&part), &format!("{text:?} names {part:?}"))?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.4: every operation by address, short and long, on a whole attached region and on
/// parts of it.
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
    let base = gathered(world, block.address(0))?[next];
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
    // The first word and the second, which has what the accumulates left: the bytes of a misaligned
    // element are read and written as they are.
    for at in [1, 4] {
        let mut before = [0; 8];
        memory::get(&win, next, base + at, &mut before)?;
        let before = u64::from_ne_bytes(before);
        same("a misaligned atomic", &memory::fetch(&win, next, base + at, Op::Sum, 1)?, &before)?;
        same("a misaligned swap", &memory::swap(&win, next, base + at, before + 1, before)?, &(before + 1))?;
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

/// An access outside attached regions is an error that names the access; it writes nothing, and the
/// window keeps working.
/// Shows W1, O7, E1.
pub(crate) fn refusals(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let len = 1 << 21;
    let block = Block::words(len / 8);
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let base = gathered(world, block.address(0))?[next];
    // [0, 64) and [64, 128) are adjacent; [1 MiB, 1 MiB + 512 KiB) is long; the memory between them
    // is not attached.
    let (middle, long) = (1usize << 20, 1usize << 19);
    for (at, len) in [(0, 64), (64, 64), (middle, long)] {
        block.attach(&win, at, len)?;
    }
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let accesses = [
        (128, 1, "behind a region"),
        (120, 9, "one byte too far"),
        (0, 136, "two whole regions and a word"),
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
        // The window keeps working for the same target.
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

/// Words at irregular offsets, few and many, of which only the last is not attached.
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

/// MPI-4.1 §12.2.4: regions do not overlap, memory is detached by its first address, and only
/// dynamic windows attach.
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
    for size in [usize::MAX, usize::MAX / 2 + 1] {
        let error = memory::attach_beyond_memory(&win, size).expect_err("no process has so much memory");
        same(&format!("{error}"), &error.class(), &Class::RmaAttach)?;
        ensure(error.to_string().contains(&format!("{size} bytes")), &error.to_string())?;
    }
    same("no bytes", &class(block.attach(&win, 0, 0)), &None)?;
    same("no bytes, detached", &class(block.detach(&win, 0)), &None)?;
    same("and gone", &class(block.detach(&win, 0)), &Some(Class::RmaAttach))?;
    // Memory may be attached to several windows, and adjacent to other attached memory.
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
    // Freeing the window detached all its regions, and no region of the other window.
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
