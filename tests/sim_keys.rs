//! Puts and gets on dynamic windows over a net: by messages at first, then by the net as soon as
//! the origin has the key of the region. Their costs, refusals, and the end of a key when its
//! region is detached.
//!
//! Route: sim.

#![allow(unsafe_code)]

use simulated::{Outcome, Rank, cost, gathered, like_sockets, messages, run, same};
use transom::{Assert, At, BasicType, Datatype, Info, Items, Lock, RawWindow};
use transom_fabric::sim::{SimCounters, SimOptions, SimRegions};

mod simulated;

/// Bytes of each rank's memory.
const LEN: usize = 512;

/// The counts of a call that posts only puts.
fn puts(puts: u64) -> SimCounters {
    SimCounters { puts, ..SimCounters::default() }
}

/// The counts of a call that posts only gets.
fn gets(gets: u64) -> SimCounters {
    SimCounters { gets, ..SimCounters::default() }
}

/// A net without atomics on which operations stay in flight for long, and on which no post is
/// refused.
fn net(gathers: bool, ordered: bool) -> SimOptions {
    SimOptions { message_max: 128, delay: 12, passive_target: !gathers, ..like_sockets(gathers, ordered) }
}

/// A dynamic window and each rank's memory.
struct Attached {
    win: RawWindow,
    memory: Box<[u64]>,
    bases: Vec<u64>,
}

impl Attached {
    /// Attaches the regions `lens`, side by side from the beginning of the memory. Collective.
    fn new(world: &Rank, lens: &[usize]) -> Outcome<Attached> {
        let mut memory = vec![0u64; LEN / 8].into_boxed_slice();
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        let mut at = 0;
        for &len in lens {
            // SAFETY: the memory lives as long as the window.
            unsafe { win.attach(memory.as_mut_ptr().cast::<u8>().wrapping_add(at), len)? };
            at += len;
        }
        let bases = gathered(world, memory.as_ptr().addr() as u64)?;
        Ok(Attached { win, memory, bases })
    }

    /// Puts bytes of this value at a rank, and flushes.
    fn put(&self, rank: usize, at: u64, len: usize, value: u8) -> transom::Result<()> {
        let bytes = vec![value; len];
        // SAFETY: the operation is flushed before the call returns.
        let put = unsafe { self.win.put(bytes.as_ptr().cast(), len, rank, self.bases[rank] + at) };
        put.and(self.win.flush(rank))
    }

    /// The byte at an offset of a rank's memory, by a get of `len` bytes that are all equal.
    fn get(&self, rank: usize, at: u64, len: usize) -> transom::Result<u8> {
        let mut bytes = vec![0u8; len];
        // SAFETY: the operation is flushed before the buffer is read.
        let got = unsafe { self.win.get(bytes.as_mut_ptr().cast(), len, rank, self.bases[rank] + at) };
        got.and(self.win.flush(rank))?;
        assert!(bytes.iter().all(|&byte| byte == bytes[0]), "{bytes:?}");
        Ok(bytes[0])
    }

    /// The byte at an offset of this rank's own memory. No operation may be in flight to its word.
    fn own(&self, at: usize) -> u8 {
        let word = self.memory.as_ptr().wrapping_add(at / 8);
        assert!(at / 8 < self.memory.len(), "{at}");
        // SAFETY: within the memory, and no rank writes the word at the same time.
        unsafe { word.read_volatile() }.to_ne_bytes()[at % 8]
    }

    /// Detaches the region at an offset of this rank's memory.
    fn detach(&self, at: usize) -> transom::Result<()> {
        self.win.detach(self.memory.as_ptr().cast::<u8>().wrapping_add(at))
    }

    /// Attaches a region at an offset of this rank's memory.
    fn attach(&mut self, at: usize, len: usize) -> transom::Result<()> {
        // SAFETY: as in `new`.
        unsafe { self.win.attach(self.memory.as_mut_ptr().cast::<u8>().wrapping_add(at), len) }
    }
}

/// By message an operation is one request and one reply, in which the target also refuses memory
/// that is not attached. An operation of several messages begins with a request for a check, and
/// has no effect if a part of it is refused. The second operation asks for the region's key; with
/// the key an operation is one transfer of the net. A region of a key contains the whole operation.
/// An error is reported once.
/// Shows W1, O7.
#[test]
fn operations_by_address_cost_a_request_or_a_transfer() {
    run(2, &net(false, true), |world| {
        let here = Attached::new(world, &[256, 128])?;
        world.barrier()?;
        if world.rank() == 0 {
            here.win.lock_all(Assert::NOCHECK)?;
            let put = |len, at| here.put(1, at, len, 7);
            put(8, 0)?;
            let asks = SimCounters { puts: 1, ..messages(1) };
            same("the second put, which asks", &cost(world, || put(8, 0))?, &asks)?;
            for len in [8, 67, 200] {
                same("a put by the net", &cost(world, || put(len, 0))?, &puts(1))?;
                same("a get by the net", &cost(world, || here.get(1, 0, len).map(drop))?, &gets(1))?;
            }
            // The second access asks for a key in vain; the next request comes four accesses later.
            for (len, at, needed) in [(8, 377, 1), (8, 4096, 2), (200, 185, 1), (200, 4096, 1)] {
                let refused = cost(world, || {
                    let error = put(len, at).expect_err("it is not attached");
                    assert_eq!(error.class(), transom::Class::RmaRange, "{error}");
                    here.win.flush(1).and(here.win.flush_all())
                });
                same("a refusal, reported once", &refused?, &messages(needed))?;
            }
            same("of two regions", &cost(world, || put(67, 220))?, &messages(1))?;
            same("in three messages, after a request", &cost(world, || put(200, 150))?, &messages(5))?;
            same("in three messages", &cost(world, || put(200, 150))?, &messages(4))?;
            here.win.unlock_all()?;
        }
        world.barrier()?;
        let Attached { win, memory, .. } = here;
        win.free()?;
        let written = if world.rank() == 1 { 350 } else { 0 };
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
        same("bytes written", &bytes.iter().position(|&byte| byte == 0), &Some(written))?;
        same("and no others", &bytes.iter().filter(|&&byte| byte != 0).count(), &written)
    });
}

/// Where the target's CPU performs puts, only operations that are too long to share a message use
/// keys.
#[test]
fn small_operations_share_messages_in_spite_of_keys() {
    let wide = SimOptions { message_max: 1 << 15, transfer_max: 1 << 20, ..net(true, true) };
    run(2, &wide, |world| {
        const LONG: usize = 8192;
        let mut memory = vec![0u64; LONG / 8];
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        // SAFETY: the memory outlives the window.
        unsafe { win.attach(memory.as_mut_ptr().cast(), LONG)? };
        let base = gathered(world, memory.as_ptr().addr() as u64)?[1];
        if world.rank() == 0 {
            win.lock_all(Assert::NOCHECK)?;
            let bytes = vec![7u8; LONG];
            // SAFETY: the operation is flushed before the call returns.
            let put = |len| unsafe { win.put(bytes.as_ptr().cast(), len, 1, base) }.and(win.flush(1));
            put(LONG)?;
            put(LONG)?;
            same("a long put", &cost(world, || put(LONG))?, &puts(1))?;
            same("a short one", &cost(world, || put(4096))?, &messages(1))?;
            win.unlock_all()?;
        }
        world.barrier()?;
        win.free()?;
        same(
            "the data",
            &memory.iter().all(|&word| word == if world.rank() == 1 { 0x0707_0707_0707_0707 } else { 0 }),
            &true,
        )
    });
}

/// A small get that is probably alone is posted by the key also where small operations share
/// messages: a request and its reply take longer. Gets that follow each other share a message.
/// Shows W1, T4.
#[test]
fn a_lone_small_get_goes_by_key() {
    for ordered in [true, false] {
        let wide = SimOptions { message_max: 1 << 15, delay: 40, ..net(true, ordered) };
        run(2, &wide, |world| {
            let here = Attached::new(world, &[256])?;
            world.barrier()?;
            if world.rank() == 0 {
                here.win.lock_all(Assert::NOCHECK)?;
                here.put(1, 0, 256, 7)?;
                let get = || cost(world, || here.get(1, 8, 8).map(drop));
                let mut found = [[0u8; 8]; 4];
                let burst = |found: &mut [[u8; 8]; 4]| {
                    cost(world, || {
                        for (at, into) in (0..).zip(found) {
                            // SAFETY: the operation is flushed before the buffer is read.
                            unsafe { here.win.get(into.as_mut_ptr(), 8, 1, here.bases[1] + 16 * at)? };
                        }
                        here.win.flush(1)
                    })
                };
                same("the first get", &get()?, &messages(1))?;
                let asks = SimCounters { gets: 1, ..messages(1) };
                same("the second get, which asks", &get()?, &asks)?;
                same("later gets", &[get()?, get()?, get()?], &[gets(1); 3])?;
                same("the first burst", &burst(&mut found)?, &asks)?;
                same("the second burst", &burst(&mut found)?, &messages(1))?;
                same("a get after a burst", &get()?, &messages(1))?;
                same("the get after it", &get()?, &gets(1))?;
                same("a put", &cost(world, || here.put(1, 0, 8, 7))?, &messages(1))?;
                same("the data", &found, &[[7; 8]; 4])?;
                here.win.unlock_all()?;
            }
            world.barrier()?;
            if world.rank() == 1 {
                here.detach(0)?;
            }
            world.barrier()?;
            if world.rank() == 0 {
                here.win.lock_all(Assert::NOCHECK)?;
                let refused = here.get(1, 8, 8).expect_err("it is detached");
                same("the error", &refused.class(), &transom::Class::RmaRange)?;
                here.win.unlock_all()?;
            }
            world.barrier()?;
            let Attached { win, memory, .. } = here;
            win.free()?;
            drop(memory);
            Ok(())
        });
    }
}

/// A region of whose bytes the net has served puts is detached, and a region that begins 8 bytes
/// later is attached. An access to the first 8 bytes is refused, and the others go to the new
/// region. The owner sends one message to each rank that has the key.
#[test]
fn a_key_ends_with_its_region() {
    fn body(world: &Rank) -> Outcome {
        const ROUNDS: u8 = 8;
        let mut here = Attached::new(world, &[64])?;
        let right = (world.rank() + 1) % world.size();
        for round in 1..=ROUNDS {
            world.step(format!("round {round}"));
            world.barrier()?;
            here.win.lock_all(Assert::NONE)?;
            let (at, len) = (8 * u64::from(round - 1), 64);
            let refused = |at| {
                let outside = here.put(right, at, 8, 0).expect_err("it is not attached");
                same("the error", &outside.class(), &transom::Class::RmaRange)
            };
            if round > 1 {
                refused(at - 8)?;
            }
            let mut by_key = 0;
            for value in 0..10 {
                by_key += cost(world, || here.put(right, at, len, 16 * round + value))?.puts;
                same("the bytes", &here.get(right, at, len)?, &(16 * round + value))?;
            }
            same("the net has performed puts", &(by_key > 0), &true)?;
            refused(at + 64)?;
            here.win.unlock_all()?;
            world.barrier()?;
            for word in 0..usize::from(round) {
                // A word keeps the last value of the last round in which it was attached.
                let last = u8::try_from(word + 1).map(|last| last.min(round))?;
                same(&format!("word {word}"), &here.own(8 * word), &(16 * last + 9))?;
            }
            // In turns, so that no rank counts its answers to the others' requests.
            for turn in 0..world.size() {
                if turn == world.rank() {
                    let spent = cost(world, || here.detach(8 * usize::from(round - 1)))?;
                    // Besides, this rank may answer to the ends of the others' locks.
                    same("the rank that has the key is told", &(spent.messages >= 1), &true)?;
                }
                world.barrier()?;
            }
            let again = cost(world, || here.attach(8 * usize::from(round), 64))?;
            same("an attach is local", &again, &SimCounters::default())?;
        }
        world.barrier()?;
        Ok(here.win.free()?)
    }
    const NETS: [(u32, u32, u32); 4] = [(3, 8, 0), (0, 0, 0), (9, 8, 2), (40, 0, 0)];
    for (seed, &(delay, again_one_in, done_one_in)) in (0..12).zip(NETS.iter().cycle()) {
        run(3, &SimOptions { seed, delay, again_one_in, done_one_in, ..net(false, seed % 3 != 0) }, body);
    }
}

/// The owner of a region replaces it under an exclusive lock for which an origin waits: the origin
/// uses no key that it had before.
#[test]
fn a_region_may_be_replaced_under_a_lock() {
    fn body(world: &Rank) -> Outcome {
        let mut here = Attached::new(world, &[256])?;
        if world.rank() == 1 {
            here.win.lock(Lock::Exclusive, 0, Assert::NONE)?;
            (0..10).try_for_each(|value| here.put(0, 0, 200, value))?;
            here.win.unlock(0)?;
        }
        world.barrier()?;
        for round in 0..6u8 {
            world.step(format!("round {round}"));
            if world.rank() == 0 {
                here.win.lock(Lock::Exclusive, 0, Assert::NONE)?;
                world.barrier()?;
                here.detach(0)?;
                here.attach(0, if round % 2 == 0 { 512 } else { 256 })?;
                here.win.unlock(0)?;
            } else {
                world.barrier()?;
                here.win.lock(Lock::Exclusive, 0, Assert::NONE)?;
                for value in 0..4 {
                    here.put(0, 0, 200, 8 * round + value)?;
                }
                same("the bytes", &here.get(0, 0, 200)?, &(8 * round + 3))?;
                here.win.unlock(0)?;
            }
            world.barrier()?;
        }
        Ok(here.win.free()?)
    }
    for seed in 0..8 {
        run(2, &SimOptions { seed, ..net(false, seed % 2 == 0) }, body);
    }
}

/// Notices and signals follow puts by key where the net keeps order, and the puts are at the target
/// when the epoch ends there.
#[test]
fn epochs_end_after_puts_by_key() {
    fn body(world: &Rank) -> Outcome {
        let here = Attached::new(world, &[LEN])?;
        let (me, size) = (world.rank(), world.size());
        let (right, left) = ((me + 1) % size, (me + size - 1) % size);
        let put = |value: u8| {
            let bytes = vec![value; 200];
            // SAFETY: `complete` and `fence` complete the operation at this rank before the vector
            // is dropped, which the callers see to.
            (unsafe { here.win.put(bytes.as_ptr().cast(), 200, right, here.bases[right] + 100) }, bytes)
        };
        for round in 1..20u8 {
            world.step(format!("round {round}"));
            here.win.post(&[left], Assert::NONE)?;
            here.win.start(&[right], Assert::NONE)?;
            let (posted, bytes) = put(round);
            here.win.complete()?;
            drop(bytes);
            posted?;
            here.win.wait()?;
            same("the first and the last byte", &(here.own(100), here.own(299)), &(round, round))?;
            here.win.fence(Assert::NONE)?;
            let (posted, bytes) = put(100 + round);
            here.win.fence(Assert::NONE)?;
            drop(bytes);
            posted?;
            same("after the fence", &(here.own(100), here.own(299)), &(100 + round, 100 + round))?;
            world.barrier()?;
        }
        Ok(here.win.free()?)
    }
    for (seed, ranks) in (0..9).zip([2, 3, 5].into_iter().cycle()) {
        for gathers in [false, true] {
            run(ranks, &SimOptions { seed, ..net(gathers, seed % 3 != 0) }, body);
        }
    }
}

/// Long puts by key, and short ones that share a message, end an epoch together: the target has all
/// data when its wait returns. So do layouts, with a block before the displacement or by absolute
/// addresses, and a put across two regions. The same holds if the net can register few regions.
#[test]
fn long_and_short_puts_end_an_epoch_together() {
    const LONG: usize = 8192;
    const ALL: usize = 3 * LONG;
    const BLOCK: usize = 2304;
    fn body(world: &Rank) -> Outcome {
        let mut memory = vec![0u64; ALL / 8];
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the memory outlives the window.
        unsafe { win.attach(base, 2 * LONG).and_then(|()| win.attach(base.add(2 * LONG), LONG))? };
        let (to, from) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
        let there = gathered(world, base.addr() as u64)?[to];
        let bytes = Datatype::basic(BasicType::Byte);
        let absolute = |at: usize| isize::try_from(there + at as u64).unwrap_or(0);
        let around = Datatype::hindexed(&[(BLOCK, -2048), (BLOCK, 1000)], &bytes)?;
        let far = Datatype::hindexed(&[(BLOCK, absolute(LONG + 100)), (BLOCK, absolute(LONG + 3000))], &bytes)?;
        let mut model = vec![0u8; ALL];
        for round in 1..13u8 {
            world.step(format!("round {round}"));
            let (long, short) = (vec![round; LONG], [100 + round; 64]);
            let mut put = |bytes: &[u8], at: usize| {
                model[at..at + bytes.len()].copy_from_slice(bytes);
                // SAFETY: `complete` comes before the end of the buffers.
                unsafe { win.put(bytes.as_ptr().cast(), bytes.len(), to, there + at as u64) }
            };
            win.post(&[from], Assert::NONE)?;
            win.start(&[to], Assert::NONE)?;
            put(&long, 0)?;
            put(&short, LONG)?;
            let (at, ty, blocks) = match round % 3 {
                0 => (there + (LONG + 4096) as u64, &around, [LONG + 2048, LONG + 5096]),
                1 => (0, &far, [LONG + 100, LONG + 3000]),
                _ => {
                    put(&long, LONG + 4096)?;
                    (there, &bytes, [0, 0])
                }
            };
            if round % 3 < 2 {
                let items = Items::of(long.as_ptr(), 2 * BLOCK, &bytes);
                // SAFETY: as above.
                unsafe { win.put_items(items, At::new(to, at, 1, ty))? };
                blocks.iter().for_each(|&at| model[at..at + BLOCK].fill(round));
            }
            win.complete()?;
            win.wait()?;
            // SAFETY: within the memory, to which no operation is in flight before the barrier.
            let found = unsafe { std::slice::from_raw_parts(base, ALL) }.to_vec();
            let wrong = found.iter().zip(&model).position(|(found, expected)| found != expected);
            same("the first wrong byte", &wrong, &None)?;
            world.barrier()?;
        }
        Ok(win.free()?)
    }
    for (seed, most) in (0..24).zip([None, None, Some(9)].into_iter().cycle()) {
        let net = net(seed % 2 == 0, seed % 4 < 2);
        let regions = SimRegions { most, ..net.regions };
        run(2, &SimOptions { seed, message_max: 1 << 14, transfer_max: 1 << 20, regions, ..net }, body);
    }
}
