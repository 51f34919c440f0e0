//! Loom models of the ring: all interleavings, with the reorderings that the memory model allows.

use super::*;
use crate::word::model::ModelFutex;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64 as ModelU64;
use loom::thread;

/// Two cells. Payloads are relaxed words: one that is read before it was published shows as an
/// old value.
struct Model {
    tail: ModelU64,
    head: ModelU64,
    doorbell: ModelFutex,
    /// 1 where it is readable.
    pipe: ModelFutex,
    states: [ModelU64; 2],
    payloads: [ModelU64; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        let word = || ModelU64::new(0);
        Arc::new(Model {
            tail: word(),
            head: word(),
            doorbell: ModelFutex::new(),
            pipe: ModelFutex::new(),
            states: [word(), word()],
            payloads: [word(), word()],
        })
    }
}

impl RingMemory for Model {
    type Position = ModelU64;
    type Doorbell = ModelFutex;

    fn count(&self) -> u64 {
        2
    }
    fn tail(&self) -> &ModelU64 {
        &self.tail
    }
    fn head(&self) -> &ModelU64 {
        &self.head
    }
    fn doorbell(&self) -> &ModelFutex {
        &self.doorbell
    }
    fn make_pipe_readable(&self) {
        self.pipe.swap(1, Ordering::SeqCst);
        self.pipe.wake_all();
    }
    fn state(&self, cell: usize) -> &ModelU64 {
        &self.states[cell]
    }
    fn write_message(&self, cell: usize, sender: u32, message: &[u8]) {
        let word = u64::from(sender) << 8 | u64::from(message[0]);
        self.payloads[cell].store(word, Ordering::Relaxed);
    }
    fn read_message(&self, cell: usize, into: &mut [u8]) -> (u32, usize) {
        let word = self.payloads[cell].load(Ordering::Relaxed);
        into[0] = word.to_le_bytes()[0];
        (u32::from(word.to_le_bytes()[1]), 1)
    }
}

fn take(ring: &Model) -> (u32, u8) {
    let mut byte = [0];
    loop {
        if let Some((sender, 1)) = receive(ring, &mut byte) {
            return (sender, byte[0]);
        }
        thread::yield_now();
    }
}

#[test]
fn loom_two_producers_and_a_consumer() {
    loom::model(|| {
        let ring = Model::new();
        let producers: Vec<_> = (1..=2u8)
            .map(|sender| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || assert!(send(&*ring, sender.into(), &[10 + sender])))
            })
            .collect();
        let mut taken = [take(&ring), take(&ring)];
        taken.sort_unstable();
        assert_eq!(taken, [(1, 11), (2, 12)]);
        for producer in producers {
            producer.join().expect("no panic");
        }
    });
}

/// Three messages through two cells: a cell is used again only after its message was read.
#[test]
fn loom_cells_are_used_again_in_order() {
    loom::model(|| {
        let ring = Model::new();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                for number in 1..=3 {
                    while !send(&*ring, 1, &[number]) {
                        thread::yield_now();
                    }
                }
            })
        };
        for number in 1..=3 {
            assert_eq!(take(&ring), (1, number));
        }
        producer.join().expect("no panic");
    });
}

/// A lost wake is a model that stops with the consumer asleep, which loom reports as a
/// deadlock.
#[test]
fn loom_no_message_is_missed_by_a_sleeper_on_the_word() {
    loom::model(|| {
        let ring = Model::new();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(send(&*ring, 1, &[5])))
        };
        let mut byte = [0];
        while receive(&*ring, &mut byte).is_none() {
            sleep(&*ring, None, || true);
        }
        assert_eq!(byte, [5]);
        producer.join().expect("no panic");
    });
}

/// Sleeps on a net's descriptors, with the pipe emptied after each sleep.
#[test]
fn loom_no_message_is_missed_by_a_sleeper_on_descriptors() {
    loom::model(|| {
        let ring = Model::new();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(send(&*ring, 1, &[5])))
        };
        let mut byte = [0];
        while receive(&*ring, &mut byte).is_none() {
            announce_pipe_sleep(&*ring);
            if may_sleep(&*ring, || true) {
                ring.pipe.sleep(0, None);
            }
            withdraw_pipe_sleep(&*ring);
            ring.pipe.swap(0, Ordering::SeqCst);
        }
        assert_eq!(byte, [5]);
        producer.join().expect("no panic");
    });
}

/// Another consumer has taken the first of two messages. A thread that reads the old head finds the
/// taken cell, and does not sleep beside the second message.
#[test]
fn loom_a_message_behind_a_taken_one_prevents_the_sleep() {
    loom::model(|| {
        let ring = Model::new();
        assert!(send(&*ring, 1, &[5]) && send(&*ring, 1, &[6]));
        let consumer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(receive(&*ring, &mut [0]).is_some()))
        };
        sleep(&*ring, None, || true);
        consumer.join().expect("no panic");
    });
}

/// Two threads sleep on the word, and wait for one flag each. Regression: a thread was about to
/// sleep when the wake came. Then the other thread announced its sleep, the doorbell was as before,
/// and the first thread slept on.
#[test]
fn loom_an_announcement_does_not_hide_a_wake() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (ring, flags) = (Model::new(), Arc::new([ModelU64::new(0), ModelU64::new(0)]));
        let await_flag = |ring: &Model, flag: &ModelU64| {
            while flag.load(Ordering::Acquire) == 0 {
                sleep(ring, None, || flag.load(Ordering::Acquire) == 0);
            }
        };
        let raise = |ring: &Model, flag: &ModelU64| {
            flag.store(1, Ordering::Release);
            wake_sleepers(ring);
        };
        let second = {
            let (ring, flags) = (Arc::clone(&ring), Arc::clone(&flags));
            thread::spawn(move || await_flag(&ring, &flags[1]))
        };
        let knocker = {
            let (ring, flags) = (Arc::clone(&ring), Arc::clone(&flags));
            thread::spawn(move || raise(&ring, &flags[0]))
        };
        await_flag(&ring, &flags[0]);
        raise(&ring, &flags[1]);
        second.join().expect("no panic");
        knocker.join().expect("no panic");
    });
}

#[test]
fn loom_sleepers_on_the_word_and_on_descriptors_are_both_woken() {
    // All interleavings of three threads take minutes; bugs need few preemptions.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (ring, flag) = (Model::new(), Arc::new(ModelU64::new(0)));
        let sleeper = {
            let (ring, flag) = (Arc::clone(&ring), Arc::clone(&flag));
            thread::spawn(move || {
                while flag.load(Ordering::Acquire) == 0 {
                    sleep(&*ring, None, || flag.load(Ordering::Acquire) == 0);
                }
            })
        };
        let knocker = {
            let (ring, flag) = (Arc::clone(&ring), Arc::clone(&flag));
            thread::spawn(move || {
                flag.store(1, Ordering::Release);
                wake_sleepers(&*ring);
            })
        };
        while flag.load(Ordering::Acquire) == 0 {
            announce_pipe_sleep(&*ring);
            if may_sleep(&*ring, || flag.load(Ordering::Acquire) == 0) {
                ring.pipe.sleep(0, None);
            }
            withdraw_pipe_sleep(&*ring);
            ring.pipe.swap(0, Ordering::SeqCst);
        }
        sleeper.join().expect("no panic");
        knocker.join().expect("no panic");
    });
}
