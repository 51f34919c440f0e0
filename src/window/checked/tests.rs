//! Two threads of a rank: one makes an accumulate, within which the other one releases. And memory
//! that is attached, or refused.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use transom_fabric::sim::{SimNet, SimOptions};
use transom_fabric::{Memory, Peer};

use crate::bootstrap::local::Board;
use crate::check::{Call, Kind};
use crate::error::{Class, Result};
use crate::flavor::Flavor;
use crate::hints::Info;
use crate::job::Job;
use crate::ops::Sum;
use crate::reduce::{BasicType, Op};
use crate::window::Window;
use crate::window::checked::{Completed, MANY};
use crate::window::core::Core;
use crate::window::create::WindowSpec;

/// Time limit, sufficient on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// How often a test looks, a millisecond apart, for something that must not happen.
const ATTEMPTS: usize = if cfg!(miri) { 5 } else { 100 };

/// Records an accumulate on rank 1's part. Instead of the accumulate, another thread meets rank 1,
/// which then puts and reports that it has put.
type Accumulate = fn(&Window<i64>, Kind, &dyn Fn()) -> Result<()>;

const WAYS: [(Accumulate, Op); 3] = [(within_a_word, Op::NoOp), (within_a_word, Op::Sum), (far, Op::Prod)];

fn within_a_word(win: &Window<i64>, kind: Kind, meanwhile: &dyn Fn()) -> Result<()> {
    let parts = &win.core.parts;
    let target = parts.target("fetch_and_op", 1)?.expect("a rank");
    parts.note_around(target, 0, (kind, BasicType::Int64), meanwhile)
}

fn far(win: &Window<i64>, kind: Kind, meanwhile: &dyn Fn()) -> Result<()> {
    let parts = &win.core.parts;
    let target = parts.target("fetch_and_op", 1)?.expect("a rank");
    parts.note_around_far(target, 0, (kind, BasicType::Int64), || {
        meanwhile();
        Ok(())
    })
}

fn first(world: &Job, win: &Window<i64>, has_put: &Receiver<()>) -> Result<()> {
    for (count, (accumulate, op)) in (1..).zip(WAYS) {
        let kind = Kind::Combine { call: Call::FetchAndOp, op: Some(op), ty: BasicType::Int64 };
        accumulate(win, kind, &|| {
            thread::scope(|scope| scope.spawn(|| world.barrier()).join().expect("no panic")).expect("a barrier");
            has_put.recv_timeout(LIMIT).expect("rank 1 puts");
        })?;
        let found = world.core().block.checker.as_ref().map(|checker| checker.own().noted());
        assert_eq!(found, Some(count), "the put is after the barrier, but not after the accumulate {op}");
        world.barrier()?;
    }
    Ok(())
}

fn second(world: &Job, win: &Window<i64>, has_put: &Sender<()>) -> Result<()> {
    for _ in WAYS {
        world.barrier()?;
        win.lock_all(|epoch| epoch.put_value(1, 0, 5))?;
        has_put.send(()).expect("rank 0 waits");
        world.barrier()?;
    }
    Ok(())
}

#[test]
fn a_release_by_another_thread_hides_no_accumulate() {
    let (net, board) = (SimNet::new(2, SimOptions::default()), Board::new(2));
    let (puts, has_put) = channel();
    let (ends, ended) = channel();
    let mut sides = [None, Some(puts)].into_iter().zip([Some(has_put), None]);
    for rank in 0..2u32 {
        let (domain, boot) = (net.domain(Peer(rank)).expect("a rank"), Box::new(Board::rank(&board, rank as usize)));
        let ((puts, has_put), ends) = (sides.next().expect("two ranks"), ends.clone());
        thread::spawn(move || {
            let world = Job::checked(domain, boot).expect("a job");
            let win = Window::<i64>::allocate(&world, 1).expect("a window");
            let outcome = match (puts, has_put) {
                (Some(puts), _) => second(&world, &win, &puts),
                (None, Some(has_put)) => first(&world, &win, &has_put),
                (None, None) => Ok(()),
            };
            outcome.and_then(|()| win.free()).expect("a window");
            ends.send(world.finalize()).expect("the test waits");
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(LIMIT).expect("both ranks end").expect("a job");
    }
}

/// The element that two ranks change, and the element of a flag.
const DATA: usize = 0;
const FLAG: usize = 1;

/// A part of a test at one rank. The ranks meet at the barrier, of which the checker does not know.
type Body = fn(&Window<i64>, &Barrier) -> Result<()>;

/// Runs two ranks of a job whose program passes addresses. Returns the number of reports.
fn reports_of(bodies: [Body; 2]) -> Option<u64> {
    let (net, board) = (SimNet::new(2, SimOptions::default()), Board::new(2));
    let (meeting, (ends, ended)) = (Arc::new(Barrier::new(2)), channel());
    for (rank, body) in (0..2u32).zip(bodies) {
        let (domain, boot) = (net.domain(Peer(rank)).expect("a rank"), Box::new(Board::rank(&board, rank as usize)));
        let (meeting, ends) = (meeting.clone(), ends.clone());
        thread::spawn(move || {
            let world = Job::checked(domain, boot).expect("a job");
            let win = Window::<i64>::allocate(&world, 2).expect("a window");
            win.core.parts.lends_buffers();
            body(&win, &meeting).and_then(|()| win.free()).expect("a window");
            let found = world.core().block.checker.as_ref().map(|checker| checker.own().noted());
            world.finalize().expect("a job");
            ends.send((rank, found)).expect("the test waits");
        });
    }
    let found = [0, 1].map(|_| ended.recv_timeout(LIMIT).expect("both ranks end"));
    found.into_iter().min().and_then(|(_, found)| found)
}

/// Polls the flag of rank 1, and then puts.
fn await_and_put(win: &Window<i64>, meeting: &Barrier) -> Result<()> {
    win.lock_all(|epoch| {
        while epoch.fetch_value(1, FLAG)? == 0 {
            thread::yield_now();
        }
        meeting.wait();
        meeting.wait();
        epoch.put_value(1, DATA, 5)?;
        epoch.flush(1)?;
        meeting.wait();
        Ok(())
    })
}

/// Stores the flag by a pointer.
fn store(win: &Window<i64>) {
    win.core.parts.own.local().write(size_of::<i64>() * FLAG, &1_i64.to_ne_bytes());
}

/// Adds, flushes and stores the flag.
fn add_and_store(win: &Window<i64>, meeting: &Barrier, flushes_all: bool) -> Result<()> {
    win.lock_all(|epoch| {
        epoch.fetch_add(1, DATA, 1)?;
        if flushes_all { epoch.flush_all() } else { epoch.flush(1) }?;
        store(win);
        (0..3).for_each(|_| {
            meeting.wait();
        });
        Ok(())
    })
}

fn store_and_add(win: &Window<i64>, meeting: &Barrier) -> Result<()> {
    win.lock_all(|epoch| {
        store(win);
        meeting.wait();
        epoch.fetch_add(1, DATA, 1)?;
        epoch.flush(1)?;
        meeting.wait();
        meeting.wait();
        Ok(())
    })
}

/// Regression: a flush after an operation that was complete in its call released no clock. The
/// operation was then reported against those of a rank that had read a later flag.
#[test]
fn a_flag_behind_a_flush_orders_operations_that_were_complete_in_their_calls() {
    let with_flush: Body = |win, meeting| add_and_store(win, meeting, false);
    let with_flush_all: Body = |win, meeting| add_and_store(win, meeting, true);
    assert_eq!(reports_of([await_and_put, store_and_add]), Some(1), "an addition behind the flag");
    assert_eq!(reports_of([await_and_put, with_flush]), Some(0), "an addition before the flag");
    assert_eq!(reports_of([await_and_put, with_flush_all]), Some(0), "with a flush of all members");
}

/// Regression: the checker kept memory whose attachment was refused until the window was freed,
/// even if the program had freed the memory.
#[test]
fn the_checker_does_not_keep_memory_that_was_not_attached() {
    let (net, board) = (SimNet::new(1, SimOptions::default()), Board::new(1));
    let (domain, boot) = (net.domain(Peer(0)).expect("a rank"), Box::new(Board::rank(&board, 0)));
    let world = Job::checked(domain, boot).expect("a job");
    let spec = WindowSpec { flavor: Flavor::Dynamic, unit: 1, info: &Info::new() };
    let core = Core::create(&world, &spec, |_, _| Ok(Memory::private(0))).expect("a window");
    let memory = Memory::private(64);
    let address = memory.as_ptr().addr();
    let known = || {
        let checker = world.core().block.checker.as_ref().expect("the job is checked");
        [0, 16].map(|at| checker.exposed(core.parts.id, address + at, 4).is_some())
    };
    core.attach(memory.slice(0, 8).expect("inside")).expect("it is attached");
    let refused = core.attach(memory.slice(4, 60).expect("inside")).expect_err("it overlaps");
    assert_eq!((refused.class(), known()), (Class::RmaAttach, [true, false]));
    core.detach(address).expect("it is detached");
    assert_eq!(known(), [false, false]);
    core.free().expect("a window");
    world.finalize().expect("a job");
}

/// Regression: each operation left a record of its buffer until the next flush.
///
/// Shows E5.
#[test]
fn repeated_uses_of_buffers_need_a_bounded_number_of_records() {
    const TIMES: usize = if cfg!(miri) { 600 } else { 20_000 };
    let counts: Body = |win, _| {
        let (from, more) = (vec![1_i64; 1], vec![1_i64; 4 * MANY]);
        let loans = |win: &Window<i64>| win.core.parts.checked.as_ref().expect("checked").loans().len();
        if win.core.parts.team.me == 1 {
            return Ok(());
        }
        win.lock_all(|epoch| {
            (0..TIMES).try_for_each(|_| epoch.accumulate(1, DATA, &from, Sum))?;
            assert_eq!(loans(win), 0, "one run");
            // Every second element, so that no buffer touches another.
            let apart = |turn: usize| 2 * (turn * 7919 % (more.len() / 2));
            (0..TIMES).try_for_each(|turn| epoch.accumulate(1, DATA, &more[apart(turn)..=apart(turn)], Sum))?;
            let most = 2 * MANY.max(more.len());
            assert!(loans(win) <= most, "{} loans of {} buffers", loans(win), more.len() / 2);
            epoch.flush(1)?;
            assert_eq!(loans(win), 0);
            Ok(())
        })?;
        Ok(())
    };
    assert_eq!(reports_of([counts, counts]), Some(0));
}

/// Regression: a flush took the mark of a put, and then waited for the clock to make its release. A
/// flush of another thread meanwhile found no mark and returned, and the put, although complete,
/// was reported against this thread's next operation.
///
/// Shows E5.
#[test]
fn a_flush_takes_the_mark_of_operations_only_with_the_clock() {
    let flushes: Body = |win, _| {
        let parts = &win.core.parts;
        if parts.team.me == 1 {
            return Ok(());
        }
        let (checked, checker) = parts.checker().expect("the job is checked");
        let is_marked = || checked.unflushed[1].load(Ordering::Relaxed);
        win.lock_all(|epoch| {
            epoch.put_value(1, DATA, 5)?;
            assert!(is_marked(), "the put ends at a flush");
            let clock = checker.clock();
            let released = checker.released();
            let kept = thread::scope(|scope| {
                let flush = scope.spawn(|| parts.completed(1, Completed::All));
                let kept = (0..ATTEMPTS).all(|_| {
                    thread::sleep(Duration::from_millis(1));
                    is_marked()
                });
                // Before an assertion, so that a failure leaves no thread that waits.
                drop(clock);
                flush.join().expect("no panic").map(|()| kept)
            })?;
            assert!(kept, "another thread's flush would find no mark, and no release");
            assert!(!is_marked() && checker.released() > released, "the flush made its release");
            Ok(())
        })?;
        Ok(())
    };
    assert_eq!(reports_of([flushes, flushes]), Some(0));
}
