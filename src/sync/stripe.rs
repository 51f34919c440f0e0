//! Locks over stripes of a rank's part, which make accumulates atomic for each element. An
//! accumulate takes the lock of its block and may run vector code over the whole block. A lock is a
//! word in shared memory, and an uncontended operation needs one locked instruction for it. The
//! word has the process number of the holder, so that a waiter can take over the lock of a dead
//! process. Elements are stored whole, so only the dead rank's own accumulate is incomplete. Knows
//! no types.
//!
//! Where ranks contend for a lock, short operations (one element that is a word of the CPU) bypass
//! the lock through the gate of the stripe (`transom_fabric::gate`). The gate opens after [`FIRST`]
//! short operations have found the lock held, without a longer operation in between. A longer
//! operation closes the gate; closing costs about a microsecond. Each closing doubles the number of
//! short operations that open the gate again, up to a limit. This bounds the cost for programs that
//! mix short and longer operations; a program that stops mixing them gets an open gate again. The
//! word of a free lock shows whether the gate may be open, so an uncontended operation needs no
//! further step for the gate.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use transom_fabric::gate::{self, Gate, Visit};

use super::words::{GATE, LINE, STRIPE_GATES, STRIPE_LOCKS, STRIPES, Words};
use crate::failures;

/// Bytes of a block, which one lock covers.
pub(crate) const BLOCK: usize = 4096;

/// The number of consecutive short operations that open a gate for the first time.
const FIRST: u32 = 64;
/// Maximum number of doublings of [`FIRST`].
const DOUBLINGS: u32 = 7;
/// Words of a stripe in addition to its lock: the number of consecutive operations on one element
/// that found the lock held, and the number of doublings. Both are changed under the lock.
const ROW: usize = 4;
const DOUBLED: usize = 8;

/// A free lock whose gate is closed, and one whose gate may be open.
const FREE: u32 = 0;
const FREE_GATE_OPEN: u32 = 1 << 30;
/// Largest number of CPU pauses between two polls of a lock. The number of pauses doubles from poll
/// to poll, so that waiters disturb the holder less the longer they wait.
const LONGEST_PAUSE: u32 = 64;
/// Number of polls before the waiter yields.
const SPINS: u32 = 64;
/// [`SPINS`] where ranks share cores.
const SPINS_CROWDED: u32 = 4;
/// Number of polls before the waiter sleeps.
const YIELDED: u32 = 128;
/// Number of polls, each after a sleep, between checks whether the holder's process lives.
const POLLS_BETWEEN_CHECKS: u32 = 256;

/// Bit of a held lock, in addition to the process number in the word.
const HELD: u32 = 1 << 31;

/// This process's number, which is stored in the locks that the process takes; 0 before
/// [`begin`]. No waiter takes over a lock with number 0.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Whether ranks of this machine share cores.
static CROWDED: AtomicBool = AtomicBool::new(false);

/// From now on, locks that this process takes have its number. `crowded`: ranks of this machine
/// share cores. Waiters then yield their core early, because the holder may need the core.
pub(crate) fn begin(crowded: bool) {
    // Relaxed both: a lock that this process took earlier lacks the number, and the second value
    // decides only how waiters wait.
    OWN.store(std::process::id(), Ordering::Relaxed);
    CROWDED.store(crowded, Ordering::Relaxed);
}

/// A held lock; dropping it unlocks.
pub(crate) struct Held<'m> {
    word: &'m AtomicU32,
    /// The word of the free lock: [`FREE`] where the gate is closed, which only a holder changes.
    free: u32,
}

/// Locks the block of byte `at` of the part; `words` are the part's control words.
#[inline]
pub(crate) fn lock(words: Words<'_>, at: usize) -> Held<'_> {
    try_lock(words, at).unwrap_or_else(|| wait(words, at))
}

/// Locks all blocks of byte ranges, each given by its beginning and length. All holders of several
/// locks take them in one order, so that no cycle of waiters arises. With a visitor the call also
/// closes the gates, so that no operation bypasses the locks.
pub(crate) fn lock_all(
    words: Words<'_>,
    places: impl IntoIterator<Item = (usize, usize)>,
    alone: Option<Visitor>,
) -> [Option<Held<'_>>; STRIPES] {
    let mut touched = [false; STRIPES];
    for (at, len) in places.into_iter().filter(|(_, len)| *len > 0) {
        let (first, last) = (at / BLOCK, (at + (len - 1)) / BLOCK);
        (first..=last).take(STRIPES).for_each(|block| touched[block % STRIPES] = true);
    }
    std::array::from_fn(|stripe| {
        touched[stripe].then(|| {
            let mut held = lock(words, stripe * BLOCK);
            if let Some(visitor) = alone {
                exclude_visits(&mut held, words, stripe * BLOCK, visitor);
            }
            held
        })
    })
}

/// The words in which the threads of a node's ranks record their *visits*, the operations that
/// bypass a lock (`transom_fabric::gate`). They are in the target's job block: a cache line for
/// each rank, with a word for each thread ([`seat`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// The offset of the first rank's line in a job block, and the number of lines.
    first: u32,
    lines: u32,
    /// The offset of this rank's line; 0 where this rank takes locks.
    own: u32,
}

impl Visitor {
    /// A rank that always takes locks, on memory where no rank bypasses them.
    #[cfg(test)]
    pub(crate) const NONE: Visitor = Visitor { first: 0, lines: 0, own: 0 };

    /// A rank with line `own` of the lines that begin at `first`. `None`: it always takes locks.
    #[allow(clippy::cast_possible_truncation)] // offsets below the job block's directory
    pub(crate) fn new(first: usize, lines: usize, own: Option<usize>) -> Visitor {
        let at = |line: usize| (first + line * LINE) as u32;
        Visitor { first: at(0), lines: lines as u32, own: own.map_or(0, at) }
    }

    /// The word of the calling thread.
    #[inline(always)]
    fn word(self, words: Words<'_>) -> Option<&AtomicU32> {
        let seat = seat();
        (seat < LINE && self.own != 0).then(|| words.of_memory(self.own as usize + seat))
    }

    /// The words of all ranks' threads.
    fn words(self, words: Words<'_>) -> impl Iterator<Item = &AtomicU32> {
        (0..self.lines as usize * LINE).step_by(4).map(move |at| words.of_memory(self.first as usize + at))
    }
}

/// Bypasses the lock of byte `at` for an operation by one atomic on one element; `None` where the
/// operation has to take the lock.
#[inline(always)]
pub(crate) fn pass(words: Words<'_>, at: usize, visitor: Visitor) -> Option<Visit<'_>> {
    let gate = gate(words, at);
    if !gate.is_open() {
        return None;
    }
    gate.pass(visitor.word(words)?, own())
}

/// Whether operations on one element may bypass the lock of byte `at` at this moment: a hint.
#[inline]
pub(crate) fn is_open(words: Words<'_>, at: usize) -> bool {
    gate(words, at).is_open()
}

/// Counts a short operation that found the lock held, and opens the gate after enough of them. The
/// holder changes the element by one atomic, because other operations may then bypass the lock.
#[inline]
pub(crate) fn count_one(held: &mut Held<'_>, words: Words<'_>, at: usize, visitor: Visitor) {
    // Relaxed, here and below: the lock orders its holders.
    let (row, doubled) = (beside(words, at, ROW), beside(words, at, DOUBLED));
    let count = row.load(Ordering::Relaxed).saturating_add(1);
    row.store(count, Ordering::Relaxed);
    if count >= FIRST << doubled.load(Ordering::Relaxed).min(DOUBLINGS) && visitor.own != 0 {
        held.free = FREE_GATE_OPEN;
        gate(words, at).open();
    }
}

/// Closes the gate, if it may be open, and waits until no operation bypasses the lock any more. If
/// the gate is closed already, the count of short operations continues (see [`end_row`]).
#[inline]
pub(crate) fn exclude_visits(held: &mut Held<'_>, words: Words<'_>, at: usize, visitor: Visitor) {
    if held.free != FREE {
        close(held, words, at, visitor);
    }
}

/// Resets the count of consecutive short operations.
#[inline]
pub(crate) fn end_row(_held: &Held<'_>, words: Words<'_>, at: usize) {
    beside(words, at, ROW).store(0, Ordering::Relaxed);
}

#[cold]
fn close(held: &mut Held<'_>, words: Words<'_>, at: usize, visitor: Visitor) {
    let gate = gate(words, at);
    gate.begin_to_close();
    gate::heavy_fence();
    for visit in visitor.words(words) {
        let mut polls = 0;
        while let Err(name) = gate::is_over(visit) {
            if holder_has_ended(name, polls) {
                // Relaxed: the dead process made no store after its last atomic.
                let _ = visit.compare_exchange(name, gate::NO_VISIT, Ordering::Relaxed, Ordering::Relaxed);
            }
            polls = pause(polls);
        }
    }
    gate.close();
    held.free = FREE;
    end_row(held, words, at);
    let doubled = beside(words, at, DOUBLED);
    doubled.store(doubled.load(Ordering::Relaxed).saturating_add(1).min(DOUBLINGS), Ordering::Relaxed);
}

/// [`lock`] without waiting, where the gate is closed; `None` where the lock is held or its gate
/// may be open.
#[inline(always)]
pub(crate) fn try_lock(words: Words<'_>, at: usize) -> Option<Held<'_>> {
    let word = word(words, at);
    // Relaxed: a plain read, which leaves the cache line with the ranks that bypass the lock.
    if word.load(Ordering::Relaxed) != FREE {
        return None;
    }
    // Acquire: pairs with the Release in `drop`: the previous holder's writes are visible.
    match word.compare_exchange(FREE, own(), Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Some(Held { word, free: FREE }),
        Err(_) => None,
    }
}

/// The word of a lock that this process holds. No branch: it is on the path of every accumulate.
#[inline(always)]
fn own() -> u32 {
    OWN.load(Ordering::Relaxed) | HELD
}

#[inline(always)]
fn word(words: Words<'_>, at: usize) -> &AtomicU32 {
    beside(words, at, 0)
}

/// A word of the line of the lock of byte `at`.
#[inline(always)]
fn beside(words: Words<'_>, at: usize, word: usize) -> &AtomicU32 {
    words.word32(STRIPE_LOCKS + at / BLOCK % STRIPES * LINE + word)
}

#[inline(always)]
fn gate(words: Words<'_>, at: usize) -> Gate<'_> {
    Gate::at(words.word32(STRIPE_GATES + at / BLOCK % STRIPES * GATE))
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_lock` and `wait`.
        self.word.store(self.free, Ordering::Release);
    }
}

#[cold]
fn wait(words: Words<'_>, at: usize) -> Held<'_> {
    let word = word(words, at);
    let mut polls = 0u32;
    loop {
        // Relaxed: a read without ordering; the exchange orders.
        let holder = word.load(Ordering::Relaxed);
        let free = holder & HELD == 0 || holder_has_ended(holder, polls);
        if free && word.compare_exchange(holder, own(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // A holder that died may have left the gate closing.
            let free = if gate(words, at).is_closed() { FREE } else { FREE_GATE_OPEN };
            return Held { word, free };
        }
        polls = pause(polls);
    }
}

/// Whether the process whose number is in a lock word has ended. Asks the kernel only after many
/// polls.
fn holder_has_ended(holder: u32, polls: u32) -> bool {
    polls > YIELDED && polls.is_multiple_of(POLLS_BETWEEN_CHECKS) && failures::has_ended(holder & !HELD)
}

/// Pauses after a number of polls of a word that another process will change; returns that number
/// plus 1.
fn pause(polls: u32) -> u32 {
    // Relaxed: as in `begin`.
    let spins = if CROWDED.load(Ordering::Relaxed) { SPINS_CROWDED } else { SPINS };
    match polls {
        _ if polls < spins => (0..LONGEST_PAUSE.min(1 << polls.min(31))).for_each(|_| std::hint::spin_loop()),
        ..YIELDED => std::thread::yield_now(),
        // The holder was descheduled, or is in system calls (cross-memory attach): its work takes
        // some hundred nanoseconds, or some ten microseconds.
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
    polls.checked_add(1).unwrap_or(YIELDED)
}

/// The value of a thread without a seat that has not requested one. A larger value: the thread
/// requested a seat, and all were taken.
const NOT_ASKED: usize = LINE;
const REFUSED: usize = LINE + 4;

/// The number of threads of a process that can have a seat at once. Others take locks.
const THREADS: u32 = 16;
const _: () = assert!(THREADS as usize * 4 == LINE);

/// The seats that threads of this process have, by bits.
static SEATS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SEAT: Cell<usize> = const { Cell::new(NOT_ASKED) };
    static SEAT_GUARD: SeatGuard = const { SeatGuard };
}

/// Gives the seat of a thread back when the thread ends.
struct SeatGuard;

/// The offset of the calling thread's word in a line of visits: below [`LINE`], where it has one.
#[inline(always)]
fn seat() -> usize {
    let seat = SEAT.get();
    if seat == NOT_ASKED { take_seat() } else { seat }
}

#[cold]
fn take_seat() -> usize {
    // A thread that is ending can't give a seat back.
    let may_sit = gate::register_process() && SEAT_GUARD.try_with(|_| ()).is_ok();
    let free = |taken: u32| (may_sit && taken.trailing_ones() < THREADS).then_some(taken | (taken + 1));
    // Acquire: pairs with the Release in `drop`: the thread that had the seat has ended its visits.
    let taken = SEATS.fetch_update(Ordering::Acquire, Ordering::Relaxed, free);
    let seat = taken.map_or(REFUSED, |taken| taken.trailing_ones() as usize * 4);
    SEAT.set(seat);
    seat
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        let seat = SEAT.replace(REFUSED);
        if seat < LINE {
            // Release: pairs with the Acquire in `take_seat`.
            SEATS.fetch_and(!(1 << (seat / 4)), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Memory;

    use super::*;

    #[test]
    fn blocks_of_a_stripe_exclude_each_other_and_others_do_not() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let held = lock(words, 5);
        let other = lock(words, BLOCK);
        drop(other);
        let count = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _held = lock(words, BLOCK * STRIPES + 1);
                count.load(Ordering::Relaxed)
            });
            std::thread::sleep(Duration::from_millis(5));
            count.store(1, Ordering::Relaxed);
            drop(held);
            assert_eq!(waiter.join().expect("no panic"), 1, "it came in before the holder went");
        });
    }

    #[test]
    fn many_places_lock_each_of_their_blocks_once() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let locked = || (0..STRIPES).filter(|stripe| try_lock(words, stripe * BLOCK).is_none()).collect::<Vec<_>>();
        for (places, expected) in [
            (&[(5, 0)][..], &[][..]),
            (&[(BLOCK - 1, 1)], &[0]),
            (&[(BLOCK - 1, 2)], &[0, 1]),
            (&[(9 * BLOCK, 1), (BLOCK, 8), (7 * BLOCK, 2 * BLOCK)], &[0, 1, 7]),
            (&[(3, 100 * BLOCK)], &[0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            let held = lock_all(words, places.iter().copied(), None);
            assert_eq!(locked(), expected, "{places:?}");
            drop(held);
            assert_eq!(locked(), [0; 0], "after {places:?}");
        }
    }

    /// Whether or not its parent has waited for the dead process.
    /// Shows E3.
    #[test]
    fn locks_of_dead_processes_are_taken_over() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let mut dead = [0; 2].map(|_| std::process::Command::new("true").spawn().expect("true"));
        dead[0].wait().expect("it ends");
        for child in &dead {
            word(words, 0).store(child.id() | HELD, Ordering::Relaxed);
            drop(lock(words, 0));
            assert_eq!(word(words, 0).load(Ordering::Relaxed), FREE);
        }
        dead[1].wait().expect("it ends");
    }

    /// Words of a window, and behind them the lines of two visitors.
    fn with_visitors() -> (Memory, [Visitor; 2]) {
        let first = crate::sync::words::bytes(1);
        (Memory::private(first + 2 * LINE), [0, 1].map(|own| Visitor::new(first, 2, Some(own))))
    }

    /// Operations on one element until the gate is open.
    fn open(words: Words<'_>, visitor: Visitor) -> u32 {
        (0..)
            .find(|_| {
                is_open(words, 0) || {
                    count_one(&mut lock(words, 0), words, 0, visitor);
                    false
                }
            })
            .expect("it opens")
    }

    #[test]
    fn single_element_operations_open_the_gate_and_each_closing_doubles_their_number() {
        let (memory, [visitor, _]) = with_visitors();
        let words = Words::at(&memory, 0);
        for doubled in [0, 1, 2, 3, 4, 5, 6, 7, 7] {
            assert!(pass(words, 0, visitor).is_none());
            assert_eq!(open(words, visitor), FIRST << doubled);
            assert!(pass(words, 0, visitor).is_some() && pass(words, BLOCK, visitor).is_none());
            exclude_visits(&mut lock(words, 0), words, 0, visitor);
        }
        let locking = Visitor::new(crate::sync::words::bytes(1), 2, None);
        (0..FIRST << DOUBLINGS).for_each(|_| count_one(&mut lock(words, 0), words, 0, locking));
        assert!(!is_open(words, 0), "a rank that may not pass opens no gate");
    }

    #[test]
    fn a_long_operation_resets_the_count() {
        let (memory, [visitor, _]) = with_visitors();
        let words = Words::at(&memory, 0);
        (1..FIRST).for_each(|_| count_one(&mut lock(words, 0), words, 0, visitor));
        end_row(&lock(words, 0), words, 0);
        assert_eq!(open(words, visitor), FIRST);
    }

    /// The closing of a gate does not wait for a rank that died during a visit.
    /// Shows E3.
    #[test]
    fn a_gate_with_a_dead_visitor_can_be_closed() {
        let (memory, [visitor, other]) = with_visitors();
        let words = Words::at(&memory, 0);
        open(words, visitor);
        let mut dead = std::process::Command::new("true").spawn().expect("true");
        dead.wait().expect("it ends");
        words.of_memory(other.own as usize + 8).store(dead.id() | HELD, Ordering::Relaxed);
        exclude_visits(&mut lock(words, 0), words, 0, visitor);
        assert!(pass(words, 0, other).is_none());
        assert!(visitor.words(words).all(|visit| visit.load(Ordering::Relaxed) == gate::NO_VISIT));
    }

    #[test]
    fn a_thread_keeps_its_word_until_it_ends() {
        let seats = || std::thread::spawn(|| [seat(), seat()]).join().expect("no panic");
        let [first, again] = seats();
        assert!(first == again && first < LINE, "{first}");
        for _ in 0..2 * THREADS {
            assert!(seats()[0] < LINE, "ended threads have left their seats");
        }
    }

    /// Threads of two ranks count by atomics, bypassing the lock where possible, and others by
    /// loads and stores.
    #[test]
    fn no_update_is_lost_while_operations_bypass_the_lock() {
        let (memory, visitors) = with_visitors();
        let words = Words::at(&memory, 0);
        let (count, passed) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for visitor in [visitors[0], visitors[0], visitors[1]] {
                let (count, passed) = (&count, &passed);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Some(_visit) = pass(words, 0, visitor) {
                            count.fetch_add(1, Ordering::Relaxed);
                            passed.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let mut held = lock(words, 0);
                            count.fetch_add(1, Ordering::Relaxed);
                            count_one(&mut held, words, 0, visitor);
                        }
                    }
                });
            }
            for _ in 0..200 {
                let mut held = lock(words, 0);
                exclude_visits(&mut held, words, 0, visitors[1]);
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        });
        assert_eq!(count.into_inner(), 60_200);
        assert!(passed.into_inner() > 0, "no operation has passed the lock");
    }

    #[test]
    fn no_update_is_lost_under_contention() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let data = Memory::private(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let _held = lock(words, 0);
                        let mut value = [0; 8];
                        data.read(0, &mut value);
                        data.write(0, &(u64::from_ne_bytes(value) + 1).to_ne_bytes());
                    }
                });
            }
        });
        let mut value = [0; 8];
        data.read(0, &mut value);
        assert_eq!(u64::from_ne_bytes(value), 8000);
    }
}
