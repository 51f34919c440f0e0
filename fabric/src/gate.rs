//! A gate that belongs to a lock. Frequent short operations pass the gate instead of taking the
//! lock. Operations that need exclusive access take the lock and close the gate.
//!
//! A short operation writes its *visit*, a word that only its thread writes, reads the gate, and
//! ends by clearing the visit. If it finds the gate closed, it takes the lock. An exclusive
//! operation takes the lock, closes the gate and waits for all visits. Only a holder of the lock
//! changes the gate. The visit and the gate are ordered by an asymmetric fence: a visit costs two
//! plain stores and no fence instruction, because the closing side calls [`heavy_fence`]. The
//! kernel then runs a full barrier on every CPU whose thread may be between writing its visit and
//! reading the gate.
//!
//! Knows neither the lock nor the operations. The lock remains valid if its holder dies: the next
//! holder finishes closing the gate.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

#[cfg(not(loom))]
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

/// Short operations take the lock, and no visit is in progress. Zeroed memory is a closed gate.
const CLOSED: u32 = 0;
/// Short operations pass.
const OPEN: u32 = 1;
/// Short operations take the lock, but earlier visits may still be in progress.
const CLOSING: u32 = 2;

/// The value of a visit while no operation is in progress.
pub const NO_VISIT: u32 = 0;

/// A gate, by the word that holds its state.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'w>(&'w AtomicU32);

/// A short operation in progress; dropping it ends the visit.
#[derive(Debug)]
pub struct Visit<'w>(&'w AtomicU32);

impl<'w> Gate<'w> {
    /// The gate whose state is `word`.
    #[inline(always)]
    pub fn at(word: &'w AtomicU32) -> Gate<'w> {
        Gate(word)
    }

    /// Whether the gate is open at this moment: a hint.
    #[inline(always)]
    pub fn is_open(self) -> bool {
        self.0.load(Ordering::Relaxed) == OPEN
    }

    /// Passes the gate if it is open; `None` if it is not. `visit` is the word of the calling
    /// thread, whose process has called [`register_process`]. `name` is not [`NO_VISIT`].
    #[inline(always)]
    pub fn pass(self, visit: &'w AtomicU32, name: u32) -> Option<Visit<'w>> {
        visit.store(name, Ordering::Relaxed);
        light_fence();
        let visit = Visit(visit);
        // Acquire: pairs with the Release in `open`, so that the work of earlier holders of the
        // lock is visible.
        (self.0.load(Ordering::Acquire) == OPEN).then_some(visit)
    }

    /// Opens the gate. The caller holds the lock, and performs only short operations while it still
    /// holds it.
    #[inline]
    pub fn open(self) {
        // Release: pairs with the Acquire in `pass`.
        self.0.store(OPEN, Ordering::Release);
    }

    /// Whether the gate is closed, so that no visit can be in progress. The caller holds the lock.
    #[inline(always)]
    pub fn is_closed(self) -> bool {
        // Relaxed: the lock orders the changes of the gate among its holders.
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    /// Marks the gate as closing. The caller holds the lock. Next it calls [`heavy_fence`], waits
    /// with [`is_over`] for every visit, and calls [`Gate::close`].
    pub fn begin_to_close(self) {
        self.0.store(CLOSING, Ordering::Relaxed);
    }

    /// Marks the gate as closed. The caller holds the lock, and all visits are over.
    pub fn close(self) {
        // Relaxed: only holders of the lock distinguish the two states that are not open.
        self.0.store(CLOSED, Ordering::Relaxed);
    }
}

impl Drop for Visit<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_over`: the operation precedes all accesses after
        // the closing.
        self.0.store(NO_VISIT, Ordering::Release);
    }
}

/// Whether no operation is in progress by the word of a visit; the error is the visit's name.
pub fn is_over(visit: &AtomicU32) -> Result<(), u32> {
    // Acquire: pairs with the Release of a visit's end.
    match visit.load(Ordering::Acquire) {
        NO_VISIT => Ok(()),
        name => Err(name),
    }
}

/// The light side of the asymmetric fence: orders the write of the visit before the read of the
/// gate, together with [`heavy_fence`]. The compiler may not exchange the two accesses. If the CPU
/// does, the barrier of `heavy_fence` runs before or after both of them: in the first case the read
/// finds the gate closing, in the second the closing side finds the visit.
#[inline(always)]
fn light_fence() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    // The models have no barrier of the kernel. Here a fence stands for it.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Whether this kernel has the barrier that [`heavy_fence`] needs.
#[cfg(not(loom))]
pub fn is_supported() -> bool {
    membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED)
}

/// Registers this process, so that the [`heavy_fence`] of other processes reaches its threads.
/// False if the kernel refuses: then this process may not [`Gate::pass`].
#[cfg(not(loom))]
pub fn register_process() -> bool {
    static ENROLLED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ENROLLED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// The heavy side of the asymmetric fence: runs a full barrier on every CPU that runs a thread of a
/// registered process, and on this CPU.
///
/// # Panics
/// If the kernel refuses although [`is_supported`] returned true.
pub fn heavy_fence() {
    #[cfg(not(loom))]
    if let Err(error) = membarrier(MembarrierCommand::GlobalExpedited) {
        panic!("the kernel offered membarrier and refuses it now: {error}");
    }
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_passed_while_it_is_open() {
        let (word, visit) = (AtomicU32::new(0), AtomicU32::new(0));
        let gate = Gate::at(&word);
        assert!(gate.is_closed() && gate.pass(&visit, 7).is_none(), "zeroed memory is a closed gate");
        assert_eq!(is_over(&visit), Ok(()), "an operation that did not pass makes no visit");
        gate.open();
        let inside = gate.pass(&visit, 7).expect("open");
        gate.begin_to_close();
        assert!(!gate.is_closed() && gate.pass(&AtomicU32::new(0), 8).is_none());
        assert_eq!(is_over(&visit), Err(7));
        drop(inside);
        assert_eq!(is_over(&visit), Ok(()));
        gate.close();
        assert!(gate.is_closed());
    }

    /// Two threads count in a cell by atomics while a third closes the gate and counts by loads and
    /// stores.
    #[test]
    fn short_and_exclusive_operations_lose_no_update() {
        if !(is_supported() && register_process()) {
            return;
        }
        let [word, lock, count] = [const { AtomicU32::new(0) }; 3];
        let visits = [const { AtomicU32::new(0) }; 2];
        let gate = Gate::at(&word);
        let locked = |work: &dyn Fn()| {
            while lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                std::thread::yield_now();
            }
            work();
            lock.store(0, Ordering::Release);
        };
        std::thread::scope(|scope| {
            for visit in &visits {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        match gate.pass(visit, 1) {
                            Some(_visit) => _ = count.fetch_add(1, Ordering::Relaxed),
                            None => locked(&|| {
                                count.fetch_add(1, Ordering::Relaxed);
                                gate.open();
                            }),
                        }
                    }
                });
            }
            for _ in 0..2000 {
                locked(&|| {
                    gate.begin_to_close();
                    heavy_fence();
                    visits.iter().for_each(|visit| while is_over(visit).is_err() {});
                    gate.close();
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(count.into_inner(), 42_000);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        lock: AtomicU32,
        gate: AtomicU32,
        visits: [AtomicU32; 2],
        count: AtomicU32,
    }

    fn shared() -> Arc<Shared> {
        let word = || AtomicU32::new(0);
        Arc::new(Shared { lock: word(), gate: word(), visits: [word(), word()], count: word() })
    }

    impl Shared {
        fn locked(&self, work: impl FnOnce()) {
            while self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                thread::yield_now();
            }
            work();
            self.lock.store(0, Ordering::Release);
        }

        /// Adds 1 by one atomic, as a short operation.
        fn short(&self, visit: usize) {
            let gate = Gate::at(&self.gate);
            match gate.pass(&self.visits[visit], 1) {
                Some(_visit) => _ = self.count.fetch_add(1, Ordering::Relaxed),
                None => self.locked(|| {
                    self.count.fetch_add(1, Ordering::Relaxed);
                    gate.open();
                }),
            }
        }

        /// Adds 1 by a load and a store, alone.
        fn alone(&self) {
            let gate = Gate::at(&self.gate);
            self.locked(|| {
                if !gate.is_closed() {
                    gate.begin_to_close();
                    heavy_fence();
                    for visit in &self.visits {
                        while is_over(visit).is_err() {
                            thread::yield_now();
                        }
                    }
                    gate.close();
                }
                self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            });
        }
    }

    fn model() -> loom::model::Builder {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model
    }

    #[test]
    fn loom_a_short_and_an_exclusive_operation_lose_no_update() {
        model().check(|| {
            let shared = shared();
            Gate::at(&shared.gate).open();
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.short(0);
                    shared.short(0);
                })
            };
            shared.alone();
            other.join().expect("no panic");
            assert_eq!(shared.count.load(Ordering::Relaxed), 3);
        });
    }

    /// A holder that died between closing and waiting leaves the gate closing.
    #[test]
    fn loom_the_next_holder_closes_the_gate_of_a_dead_holder() {
        model().check(|| {
            let shared = shared();
            let gate = Gate::at(&shared.gate);
            gate.open();
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.short(0))
            };
            gate.begin_to_close();
            shared.alone();
            other.join().expect("no panic");
            assert_eq!(shared.count.load(Ordering::Relaxed), 2);
        });
    }

    /// Short operations that pass later see the stores of an exclusive operation.
    #[test]
    fn loom_passing_an_open_gate_sees_earlier_exclusive_work() {
        model().check(|| {
            let shared = shared();
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    if let Some(_visit) = Gate::at(&shared.gate).pass(&shared.visits[0], 1) {
                        assert_eq!(shared.count.load(Ordering::Relaxed), 1);
                    }
                })
            };
            shared.locked(|| {
                shared.count.store(1, Ordering::Relaxed);
                Gate::at(&shared.gate).open();
            });
            other.join().expect("no panic");
        });
    }
}
