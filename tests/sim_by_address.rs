//! Small operations on dynamic windows share messages where the target's CPU performs them: their
//! costs, and the refusal of single operations of a message.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use simulated::{Outcome, Rank, cost, like_sockets, peer, run, same};
use transom::{Assert, BasicType, Class, CompareSwap, Info, Lock, Op, RawWindow, Window};
use transom_fabric::sim::{SimDelivery, SimOptions};

mod simulated;

/// The words that each rank attaches, and the bytes of the longest message.
const ATTACHED: usize = 64;
const MOST: usize = 1024;

/// A net on which operations stay in flight until their targets have polled for long.
fn net(ordered: bool) -> SimOptions {
    let net = like_sockets(true, ordered);
    SimOptions { message_max: MOST, delay: 40, delivery: SimDelivery { slots: Some(1000), ..net.delivery }, ..net }
}

/// The window of the test at rank 1, and the address of rank 0's memory.
struct Origin<'w> {
    win: &'w RawWindow,
    base: u64,
}

impl Origin<'_> {
    fn at(&self, word: usize) -> u64 {
        self.base + 8 * word as u64
    }

    /// Puts values, or adds them, at words 0, 1, ... The second half of the sums has another type.
    fn change(&self, values: &[u64], adds: bool) -> transom::Result<()> {
        let outcome = values.iter().enumerate().try_for_each(|(word, value)| {
            let from = std::ptr::from_ref(value).cast();
            let ty = if 2 * word < ATTACHED { BasicType::Uint64 } else { BasicType::Int64 };
            // SAFETY: the values outlive the flush below.
            unsafe {
                match adds {
                    false => self.win.put(from, 8, 0, self.at(word)),
                    true => self.win.accumulate(from, 1, ty, 0, self.at(word), Op::Sum),
                }
            }
        });
        outcome.and(self.win.flush(0))
    }

    /// Adds 0 to words and gets their values, beside accumulates without results.
    fn fetch(&self, into: &mut [u64]) -> transom::Result<()> {
        let (zero, ty) = ([0u64], BasicType::Uint64);
        let from = zero.as_ptr().cast();
        let outcome = into.iter_mut().enumerate().try_for_each(|(word, into)| {
            let (into, at) = (std::ptr::from_mut(into).cast(), self.at(word));
            // SAFETY: the words and the operand outlive the flush below.
            unsafe {
                self.win.accumulate(from, 1, ty, 0, at, Op::Bxor)?;
                self.win.get_accumulate(from, into, 1, ty, 0, at, Op::Sum)
            }
        });
        outcome.and(self.win.flush(0))
    }

    /// Gets words in descending order.
    fn get(&self, into: &mut [u64]) -> transom::Result<()> {
        let outcome = into.iter_mut().enumerate().rev().try_for_each(|(word, into)| {
            // SAFETY: the words outlive the flush below.
            unsafe { self.win.get(std::ptr::from_mut(into).cast(), 8, 0, self.at(word)) }
        });
        outcome.and(self.win.flush(0))
    }

    /// Operations on attached words, then on these and as many words behind them. Returns the
    /// messages of the puts, the accumulates and the gets on attached words.
    fn turn(&self, world: &Rank, turn: u64) -> Outcome<[u64; 3]> {
        world.step(format!("turn {turn}"));
        let values: Vec<u64> = (0..2 * ATTACHED as u64).map(|at| 1000 + at).collect();
        let (attached, mut found) = (&values[..ATTACHED], vec![7; 2 * ATTACHED]);
        let put = cost(world, || self.change(attached, false))?;
        let add = cost(world, || self.change(&[turn; ATTACHED], true))?;
        let get = cost(world, || self.get(&mut found[..ATTACHED]))?;
        let sums: Vec<u64> = attached.iter().map(|value| value + turn).collect();
        same("the sums", &found[..ATTACHED].to_vec(), &sums)?;
        found[..ATTACHED].fill(7);
        self.fetch(&mut found[..ATTACHED])?;
        same("the sums that accumulates get", &found[..ATTACHED].to_vec(), &sums)?;

        world.step(format!("turn {turn}, words that are not attached"));
        for adds in [false, true] {
            let error = self.change(&values, adds).expect_err("half of the words are not attached");
            same("the error's class", &error.class(), &Class::RmaRange)?;
            self.win.flush(0)?;
        }
        let sums: Vec<u64> = attached.iter().map(|value| 2 * value).collect();
        for get in [Self::get, Self::fetch] {
            found.fill(7);
            let error = get(self, &mut found).expect_err("half of the words are not attached");
            same("the error's class", &error.class(), &Class::RmaRange)?;
            same("the words that are attached", &found[..ATTACHED].to_vec(), &sums)?;
            same("the others", &found[ATTACHED..].to_vec(), &vec![7; ATTACHED])?;
        }
        Ok([put, add, get].map(|cost| cost.messages))
    }

    /// Accumulates of a message, and a `compare_and_swap`, which is sent alone, take effect in the
    /// order of the program, also where the target refuses one in between (MPI-4.1 §12.7.2).
    fn in_order(&self, turn: u64) -> Outcome {
        let (ty, values) = (BasicType::Uint64, [100, 101, 102, 103].map(|value| 1000 * turn + value));
        let mut before = [7; 3];
        let [first, second, third] = before.each_mut().map(|word| std::ptr::from_mut(word).cast::<u8>());
        let from = |index: usize| std::ptr::from_ref(&values[index]).cast::<u8>();
        let (at, beyond) = (self.at(1), self.at(ATTACHED));
        // SAFETY: the values and the results outlive the flush below.
        unsafe {
            self.win.accumulate(from(3), 1, ty, 0, self.at(2), Op::Replace)?;
            self.win.accumulate(from(0), 1, ty, 0, at, Op::Replace)?;
            self.win.get_accumulate(from(1), first, 1, ty, 0, at, Op::Replace)?;
            self.win.accumulate(from(0), 1, ty, 0, beyond, Op::Replace)?;
            self.win.get_accumulate(from(2), second, 1, ty, 0, at, Op::Replace)?;
        }
        let mut swapped = [0; 8];
        let [expected, new] = [values[2], values[3]].map(u64::to_ne_bytes);
        self.win.compare_and_swap(CompareSwap { expected: &expected, new: &new }, &mut swapped, ty, 0, at)?;
        // SAFETY: as above.
        unsafe { self.win.get_accumulate(from(3), third, 1, ty, 0, at, Op::NoOp)? };
        same("the flush", &self.win.flush(0).map_err(|error| error.class()), &Err(Class::RmaRange))?;
        same("the value that was swapped", &u64::from_ne_bytes(swapped), &values[2])?;
        same("the previous values", &before, &[values[0], values[1], values[3]])
    }

    /// While a flush of one thread waits for long, a put or get of another thread is held back: it
    /// would share a message for which the flush had to wait too.
    fn held_back(&self, world: &Rank, other: &Window<u64>) -> Outcome {
        /// Long enough for a wait to hold operations back, with much to spare.
        const LONG: Duration = Duration::from_millis(400);
        let (value, word) = ([5u64], AtomicU64::new(0));
        // SAFETY: the value and the word outlive the flushes below.
        let put = || unsafe { self.win.put(value.as_ptr().cast(), 8, 0, self.at(3)) };
        // SAFETY: as above.
        let get = || unsafe { self.win.get(word.as_ptr().cast(), 8, 0, self.at(3)) };
        for gets in [false, true] {
            world.step(format!("a flush beside another thread's put or get ({gets})"));
            let (is_flushing, is_begun) = (AtomicBool::new(true), AtomicBool::new(false));
            world.net().stop_messages_to(peer(0));
            put()?;
            std::thread::scope(|scope| {
                let flushes = scope.spawn(|| self.win.flush(0));
                // Relaxed, here and below: the flags publish no data. Answers of rank 2 wake the
                // flush again and again.
                let wakes = scope.spawn(|| {
                    other.lock(Lock::Shared, 2, |epoch| {
                        while is_flushing.load(Ordering::Relaxed) {
                            epoch.fetch_add(2, 0, 1)?;
                        }
                        Ok(())
                    })
                });
                std::thread::sleep(LONG);
                let begins = scope.spawn(|| {
                    let outcome = if gets { get() } else { put() };
                    is_begun.store(true, Ordering::Relaxed);
                    outcome
                });
                std::thread::sleep(LONG);
                let is_early = is_begun.load(Ordering::Relaxed);
                is_flushing.store(false, Ordering::Relaxed);
                world.net().resume_messages_to(peer(0));
                let all = [flushes, wakes, begins].map(|thread| thread.join().expect("no thread panics"));
                same("the operation waits for the flush", &is_early, &false)?;
                Ok::<_, Box<dyn std::error::Error>>(all.into_iter().collect::<transom::Result<()>>()?)
            })?;
            self.win.flush(0)?;
        }
        same("the get", &word.into_inner(), &5)
    }

    /// Requests of good operations succeed beside operations that the target refuses.
    fn requests(&self) -> Outcome {
        let values: Vec<u64> = (0..2 * ATTACHED as u64).collect();
        // SAFETY: the call is refused.
        let far = unsafe { self.win.put(values.as_ptr().cast(), 8, 0, i64::MAX.cast_unsigned() - 3) };
        same("no address", &far.map_err(|error| error.class()), &Err(Class::RmaRange))?;
        let put = |(word, value): (usize, &u64)| {
            let from = std::ptr::from_ref(value).cast();
            // SAFETY: the values outlive the requests.
            unsafe {
                self.win.put(from, 8, 0, self.at(word))?;
                Ok((word, self.win.rput(from, 8, 0, self.at(word))?))
            }
        };
        let requests: transom::Result<Vec<_>> = values.iter().enumerate().map(put).collect();
        for (word, mut request) in requests?.into_iter().rev() {
            same(&format!("the request of word {word}"), &request.wait().is_ok(), &(word < ATTACHED))?;
        }
        same("the flush", &self.win.flush(0).map_err(|error| error.class()), &Err(Class::RmaRange))?;
        Ok(self.win.flush(0)?)
    }
}

fn body(world: &Rank) -> Outcome {
    let mut memory = vec![0u64; 2 * ATTACHED];
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    // SAFETY: the vector outlives the window, and is not used before the window's end.
    unsafe { win.attach(memory.as_mut_ptr().cast(), 8 * ATTACHED)? };
    let bases = Window::<u64>::create(world, vec![memory.as_ptr().addr() as u64])?;
    world.barrier()?;
    if world.rank() == 1 {
        let mut base = [0];
        bases.lock_all(|epoch| epoch.get(0, 0, &mut base))?;
        let origin = Origin { win: &win, base: base[0] };
        win.lock_all(Assert::NOCHECK)?;
        let costs = (0..10).map(|turn| origin.turn(world, turn)).collect::<Result<Vec<_>, _>>()?;
        // The first operation is sent at once, and those that find it in flight share messages, in
        // which each takes 58 bytes at most. One that is complete early lets the next one be sent
        // alone.
        let most = 1 + ATTACHED.div_ceil(MOST / 58 - 1) as u64;
        for kind in 0..3 {
            let few = costs.iter().any(|cost| cost[kind] <= most);
            same(&format!("at most {most} messages of kind {kind}: {costs:?}"), &few, &true)?;
        }
        (1..10).try_for_each(|turn| origin.in_order(turn))?;
        origin.requests()?;
        origin.held_back(world, &bases)?;
        win.unlock_all()?;
    }
    world.barrier()?;
    bases.free()?;
    win.free()?;
    same("what is not attached", &memory[ATTACHED..].iter().all(|&word| word == 0), &true)
}

/// Small operations on a dynamic window share messages. The target performs each of them whose
/// memory is attached, whatever others of the message it refuses (MPI-4.1 §12.2.4).
/// Shows W1, O7.
#[test]
fn operations_by_address_share_messages() {
    for ordered in [true, false] {
        run(3, &net(ordered), body);
    }
}

/// A refused `set_num_notify` reports the failures of operations too: its flush has taken them.
/// Shows S2, E1.
#[test]
fn a_refused_number_of_counters_hides_no_failure() {
    run(2, &net(true), |world| {
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        let from = [1u64];
        win.lock_all(Assert::NONE)?;
        if world.rank() == 1 {
            // SAFETY: the value outlives the call below, which flushes.
            unsafe { win.put(from.as_ptr().cast(), 8, 0, 64) }?;
        }
        let class = win.set_num_notify(1 << 20).map_err(|error| error.class());
        let expected = if world.rank() == 1 { Class::RmaRange } else { Class::Arg };
        same("the class", &class, &Err(expected))?;
        win.unlock_all()?;
        Ok(win.free()?)
    });
}
