//! Operations on blocks of user memory that lie close together, far apart, or in descending order.

use transom::{Assert, At, BasicType, Datatype, Info, Job, Op, Window};
use transom_harness::{Outcome, ensure};

use super::memory::Block;
use super::process;

/// The memory of each rank in bytes: words, of which lists of blocks need the first ones.
const BYTES: usize = 37_600 * 8;

/// The byte of a rank's memory at an offset.
fn byte(rank: usize, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0] ^ rank.to_le_bytes()[0]
}

/// Lists of blocks, each with its length and offset.
fn lists() -> [Vec<(usize, isize)>; 5] {
    let mut at = 0;
    let uneven: Vec<(usize, isize)> = (0..200)
        .map(|turn| {
            let (len, gap) = (1 + turn % 7, [0, 1, 2048, 40, 3, 2049, 600, 5][turn % 8]);
            at += (len + gap).cast_signed();
            (len, at - len.cast_signed())
        })
        .collect();
    [
        (0..4096).map(|turn| (8, 72 * turn)).collect(),
        (0..90).map(|turn| (8, 3000 * turn)).collect(),
        (0..3).map(|turn| (100, 200 * turn)).collect(),
        uneven.iter().rev().copied().collect(),
        uneven,
    ]
}

/// The offsets of all bytes of a list of blocks.
fn offsets(blocks: &[(usize, isize)]) -> impl Iterator<Item = usize> {
    blocks.iter().flat_map(|&(len, at)| (at.cast_unsigned()..).take(len))
}

/// Gets and puts.
/// Shows O5, T2.
pub(crate) fn scattered(world: &Job) -> Outcome {
    let (me, bytes) = (world.rank(), Datatype::basic(BasicType::Byte));
    let next = (me + 1) % world.size();
    let mut own: Vec<u8> = (0..BYTES).map(|at| byte(me, at)).collect();
    let win = Window::create(world, own.clone())?;
    for (number, blocks) in lists().iter().enumerate() {
        let ty = Datatype::hindexed(blocks, &bytes)?;
        let mut got = vec![0u8; ty.size()];
        let (count, target) = (got.len(), At::new(next, 0, 1, &ty));
        win.lock_all(|epoch| epoch.get_items(&mut got, count, &bytes, target))?;
        let expected: Vec<u8> = offsets(blocks).map(|at| byte(next, at)).collect();
        ensure(got == expected, &format!("list {number}"))?;
        world.barrier()?;
        let other: Vec<u8> = expected.iter().map(|byte| !byte).collect();
        win.lock_all(|epoch| epoch.put_items(&other, count, &bytes, target))?;
        world.barrier()?;
        offsets(blocks).for_each(|at| own[at] = !byte(me, at));
        let mut seen = vec![0; BYTES];
        win.load(0, &mut seen)?;
        ensure(seen == own, &format!("the put of list {number}"))?;
        offsets(blocks).for_each(|at| own[at] = byte(me, at));
        win.store(0, &own)?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// Accumulates with and without a result. All ranks add to the blocks of each rank at the same
/// time, and no addition is lost.
/// Shows O5, M3, T2.
pub(crate) fn accumulated(world: &Job) -> Outcome {
    const TURNS: u8 = 3;
    let (me, size, element) = (world.rank(), world.size(), Datatype::basic(BasicType::Uint8));
    let block = Block::words(BYTES / 8);
    let initial: Vec<u8> = (0..BYTES).map(|at| byte(me, at)).collect();
    let win = block.window(world, 0, BYTES, 1, &Info::new())?;
    for (number, blocks) in lists().iter().enumerate() {
        block.store(0, &initial);
        world.barrier()?;
        let ty = Datatype::hindexed(blocks, &element)?;
        let (ones, mut before) = (vec![1u8; ty.size()], vec![0; ty.size()]);
        win.lock_all(Assert::NONE)?;
        for rank in (0..TURNS).flat_map(|_| 0..size) {
            let target = At::new(rank, 0, 1, &ty);
            process::accumulate(&win, &ones, &element, None, target, Op::Sum)?;
            process::accumulate(&win, &ones, &element, Some(&mut before), target, Op::Sum)?;
            let added = before.iter().zip(offsets(blocks)).map(|(seen, at)| seen.wrapping_sub(byte(rank, at)));
            let most = 2 * TURNS * u8::try_from(size)?;
            ensure(added.into_iter().all(|added| (1..most).contains(&added)), &format!("results of list {number}"))?;
        }
        win.unlock_all()?;
        world.barrier()?;
        let mut expected = initial.clone();
        let all = 2 * TURNS * u8::try_from(size)?;
        offsets(blocks).for_each(|at| expected[at] = byte(me, at).wrapping_add(all));
        let mut seen = vec![0; BYTES];
        block.load(0, &mut seen);
        ensure(seen == expected, &format!("the sums of list {number}"))?;
        world.barrier()?;
    }
    Ok(win.free()?)
}
