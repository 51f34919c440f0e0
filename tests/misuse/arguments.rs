//! Illegal assertions, ranks, counts and types.

#![allow(unsafe_code)]

use transom::{Assert, At, BasicType, Class, CompareSwap, Datatype, Flavor, Items, Job, Lock, Notice, Op, PROC_NULL};
use transom_harness::{Outcome, same};

use super::fixture::Fixture;
use super::memory;

const ZEROS: CompareSwap<&[u8]> = CompareSwap { expected: &[0; 8], new: &[0; 8] };

/// Each call returns its error class, and no state changes.
/// Shows E1, E2, S4.
pub(crate) fn arguments(world: &Job) -> Outcome {
    let size = world.size();
    let fixture = Fixture::new(world, Flavor::Allocate)?;
    let win = &fixture.win;
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
    for (call, outcome) in
        [("put", memory::put(win, size - 1, 0, &[1])), ("flush", win.flush(size - 1)), ("unlock", win.unlock(size - 1))]
    {
        let text = outcome.expect_err("no epoch is open").to_string();
        same(&text, &text.starts_with(&format!("{call} at rank {}: ", size - 1)), &true)?;
    }
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
    let swap = win.compare_and_swap(ZEROS, &mut [0; 8], BasicType::Float64, 0, 0);
    class("a swap of floats", swap, Class::Type)?;
    let (byte, long) = (Datatype::from(BasicType::Byte), Datatype::from(BasicType::Uint64));
    let data = [7u64; 4];
    // SAFETY: `data` outlives the epoch; both operations are refused.
    let put = |count, at| unsafe { win.put_items(Items::of(data.as_ptr().cast(), count, &byte), at) };
    class("counts that differ", put(7, At::new(0, 0, 8, &byte)), Class::Type)?;
    class("types that differ", put(8, At::new(0, 0, 1, &long)), Class::Type)?;
    class("a count beyond the window", put(32, At::new(0, 1, 32, &byte)), Class::RmaRange)?;
    win.unlock_all()?;
    fixture.untouched()?;
    world.barrier()?;
    fixture.correct(world, 5)?;
    Ok(win.free()?)
}

/// An operation's name, the class of its error, and the operation.
type Refused<'o> = (&'o str, Class, &'o dyn Fn() -> transom::Result<()>);

/// A refused operation begins no fence epoch: after it every call is legal that is legal after the
/// fence. An operation that was performed keeps the epoch open.
/// Shows E1, S1.
pub(crate) fn refused_after_a_fence(world: &Job) -> Outcome {
    let fixture = Fixture::new(world, Flavor::Allocate)?;
    let (win, bytes) = (&fixture.win, [0u8; 32]);
    let (byte, long) = (Datatype::from(BasicType::Byte), Datatype::from(BasicType::Uint64));
    let (items, far) = (|count| Items::of(bytes.as_ptr(), count, &byte), u64::MAX / 2);
    let float = BasicType::Float64;
    // SAFETY: the buffers outlive the epochs; all operations are refused.
    let refused: [Refused<'_>; 10] = unsafe {
        [
            ("put", Class::RmaRange, &|| win.put(bytes.as_ptr(), 8, 0, far)),
            ("get", Class::RmaRange, &|| win.get([0; 8].as_mut_ptr(), 8, 0, far)),
            ("put_items", Class::Type, &|| win.put_items(items(7), At::new(0, 0, 8, &byte))),
            ("accumulate_items", Class::RmaRange, &|| {
                win.accumulate_items(items(8), At::new(0, far, 8, &byte), Op::Bor)
            }),
            ("accumulate", Class::RmaRange, &|| win.accumulate(bytes.as_ptr(), 1, float, 0, far, Op::Sum)),
            ("fetch_and_op", Class::RmaRange, &|| win.fetch_and_op(&[0; 8], &mut [0; 8], float, 0, far, Op::Sum)),
            ("fetch_value", Class::RmaRange, &|| win.fetch_value(1, BasicType::Int64, 0, far, Op::Sum).map(drop)),
            ("compare_and_swap", Class::RmaRange, &|| {
                win.compare_and_swap(ZEROS, &mut [0; 8], BasicType::Int64, 0, far)
            }),
            ("start_compare_and_swap", Class::Type, &|| {
                let values = CompareSwap { expected: ZEROS.expected.as_ptr(), new: ZEROS.new.as_ptr() };
                win.start_compare_and_swap(values, [0; 8].as_mut_ptr(), float, 0, 0)
            }),
            ("a type of a target's items", Class::Type, &|| win.put_items(items(8), At::new(0, 0, 8, &long))),
        ]
    };
    for (call, class, operation) in refused {
        transom_harness::step(format!("a refused {call}"));
        win.fence(Assert::NONE)?;
        for _ in 0..2 {
            same(call, &operation().map_err(|error| error.class()), &Err(class))?;
        }
        win.lock_all(Assert::NONE)?;
        win.unlock_all()?;
        win.fence(Assert::NONE)?;
        same(call, &operation().map_err(|error| error.class()), &Err(class))?;
        win.fence(Assert::NOPRECEDE)?;
        win.fetch_value(0, BasicType::Int64, world.rank(), 0, Op::Sum)?;
        // SAFETY: as above.
        let request = unsafe { win.rput_items_notify(items(8), At::new(world.rank(), 0, 8, &byte), Notice(0)) };
        same("a notified request", &request.map(drop).map_err(|error| error.class()), &Err(Class::RmaSync))?;
        same("lock_all in an epoch", &win.lock_all(Assert::NONE).map_err(|error| error.class()), &Err(Class::RmaSync))?;
        win.fence(Assert::NONE)?;
        win.fetch_value(0, BasicType::Int64, world.rank(), 0, Op::Sum)?;
        same(call, &operation().map_err(|error| error.class()), &Err(class))?;
        same("lock_all in an epoch", &win.lock_all(Assert::NONE).map_err(|error| error.class()), &Err(Class::RmaSync))?;
        win.fence(Assert::NOSUCCEED)?;
        world.barrier()?;
    }
    fixture.untouched()?;
    Ok(win.free()?)
}
