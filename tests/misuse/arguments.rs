//! Illegal assertions, ranks, counts and types.

#![allow(unsafe_code)]

use transom::{Assert, At, BasicType, Class, Datatype, Flavor, Items, Job, Lock, Op, PROC_NULL};
use transom_harness::{Outcome, same};

use super::memory;
use super::place::Place;

/// Each call returns its error class, and no state changes.
/// Shows E1, E2, S4.
pub(crate) fn arguments(world: &Job) -> Outcome {
    let size = world.size();
    let place = Place::new(world, Flavor::Allocate)?;
    let win = &place.win;
    let class = |what: &str, outcome: transom::Result<()>, expected: Class| {
        same(what, &outcome.map_err(|error| error.class()), &Err(expected))
    };
    let flags = [Assert::NOCHECK, Assert::NOSTORE, Assert::NOPUT, Assert::NOPRECEDE, Assert::NOSUCCEED];
    for (index, flag) in flags.into_iter().enumerate() {
        if index == 0 {
            class("fence", win.fence(flag | Assert::NOPUT), Class::Assert)?;
        } else {
            class("start", win.start(&[0], flag | Assert::NOCHECK), Class::Assert)?;
            class("lock", win.lock(Lock::Shared, 0, flag), Class::Assert)?;
            class("lock_all", win.lock_all(flag | Assert::NOCHECK), Class::Assert)?;
        }
        if index > 2 {
            class("post", win.post(&[0], flag), Class::Assert)?;
        }
    }
    for group in [&[size][..], &[0, size], &[0, 0], &[PROC_NULL]] {
        class("post", win.post(group, Assert::NONE), Class::Rank)?;
        class("start", win.start(group, Assert::NONE), Class::Rank)?;
    }
    class("lock", win.lock(Lock::Shared, size, Assert::NONE), Class::Rank)?;
    class("unlock", win.unlock(size), Class::Rank)?;
    class("wait after a post that failed", win.wait(), Class::RmaSync)?;
    class("complete after a start that failed", win.complete(), Class::RmaSync)?;
    win.fence(Assert::NONE)?;
    let fetch = |operand: &[u8], rank, ty, op| win.fetch_and_op(operand, &mut [0; 8], ty, rank, 0, op);
    class("fetch_and_op", fetch(&[0; 8], size, BasicType::Uint64, Op::Sum), Class::Rank)?;
    class("put", memory::put(win, size, 0, &[1]), Class::Rank)?;
    win.lock_all(Assert::NONE)?;
    class("put in lock_all", memory::put(win, size, 0, &[1]), Class::Rank)?;
    class("flush", win.flush(size), Class::Rank)?;
    class("an operand that is too short", fetch(&[0; 4], 0, BasicType::Uint64, Op::Sum), Class::Count)?;
    class("an operand that is too long", fetch(&[0; 16], 0, BasicType::Uint64, Op::Sum), Class::Count)?;
    class("a bitwise operation on floats", fetch(&[0; 8], 0, BasicType::Float64, Op::Band), Class::Op)?;
    let swap = win.compare_and_swap(&[0; 8], &[0; 8], &mut [0; 8], BasicType::Float64, 0, 0);
    class("a swap of floats", swap, Class::Type)?;
    let (byte, long) = (Datatype::from(BasicType::Byte), Datatype::from(BasicType::Uint64));
    let data = [7u64; 4];
    // SAFETY: `data` outlives the epoch; both operations are refused.
    let put = |count, at| unsafe { win.put_items(Items::of(data.as_ptr().cast(), count, &byte), at) };
    class("counts that differ", put(7, At::new(0, 0, 8, &byte)), Class::Type)?;
    class("types that differ", put(8, At::new(0, 0, 1, &long)), Class::Type)?;
    class("a count beyond the window", put(32, At::new(0, 1, 32, &byte)), Class::RmaRange)?;
    win.unlock_all()?;
    place.untouched()?;
    world.barrier()?;
    place.correct(world, 5)?;
    Ok(win.free()?)
}
