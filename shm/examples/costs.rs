//! Measures the cost of shared memory on this machine. Run it with `--release`, on two processors
//! without other load.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use transom_fabric::{Domain as _, Peer, Port as _, Region as _};
use transom_shm::event::{self, SpinBudget};
use transom_shm::{Heap, HeapOptions, ShmDomain, topology};

const LONG: Duration = Duration::from_secs(20);

/// The best of five runs, in nanoseconds for each iteration.
fn best(turns: u32, mut turn: impl FnMut(u32)) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..turns).for_each(&mut turn);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(turns)
        })
        .fold(f64::INFINITY, f64::min)
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(errno) = sched_setaffinity(None, &set) {
        println!("not pinned to processor {cpu}: {errno}");
    }
}

fn main() -> Result<(), transom_fabric::FabricError> {
    let cpus = topology::allowed_cpus();
    println!("processors {cpus:?}, NUMA nodes {}", topology::numa_nodes());
    let (here, there) = (cpus[0], cpus[cpus.len() - 1]);
    pin(here);
    let heap = Heap::create(HeapOptions::default())?;
    let a = ShmDomain::new(Heap::create(HeapOptions::default())?, Peer(0))?;
    let b = ShmDomain::new(heap, Peer(1))?;
    a.port().connect(Peer(1), &b.port().address())?;
    let block = b.heap().allocate(4096)?;
    let region = b.register(&block)?;
    let remote = a.port().import(Peer(1), &region.key())?;
    let tally = transom_fabric::Tally::new();

    let memory = a.port().direct(&remote).expect("mapped");
    let write = best(5_000_000, |n| {
        black_box(memory).write(64, &u64::from(n).to_ne_bytes());
    });
    let put = best(5_000_000, |n| {
        let bytes = u64::from(black_box(n)).to_ne_bytes();
        let _ = black_box(a.port().put_inline(&remote, 64, &bytes, &tally));
    });
    println!("8-byte write to the mapping {write:.2} ns, by put_inline {put:.2} ns");

    for (name, budget) in [("spinning", SpinBudget::choose(2, 2)), ("sleeping", SpinBudget::NONE)] {
        const ROUNDS: u32 = 20_000;
        let theirs = block.clone();
        let other = thread::spawn(move || {
            pin(there);
            for n in 1..=5 * ROUNDS {
                event::wait(theirs.word32(0), n, budget, LONG, || ());
                event::signal(theirs.word32(128), n);
            }
        });
        let mut n = 0;
        let round = best(ROUNDS, |_| {
            n += 1;
            event::signal(block.word32(0), n);
            event::wait(block.word32(128), n, budget, LONG, || ());
        });
        other.join().expect("the other side ends");
        block.write(0, &[0; 256]);
        println!("event there and back, {name} {round:.0} ns");
    }

    for len in [4096, 1 << 20] {
        let cost = best(500, |_| drop(black_box(b.heap().allocate(len))));
        println!("allocate and free {len} bytes {:.2} us", cost / 1000.0);
    }
    Ok(())
}
