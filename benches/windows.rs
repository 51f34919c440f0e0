//! The cost of a window in comparison with the bare machine: operations on a rank's own part, in a
//! job of one rank, beside a copy and an atomic on plain memory. There is no pass or fail;
//! transom-perf measures the costs between ranks.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use transom::Window;

fn own_part(criterion: &mut Criterion) {
    let world = transom::init().expect("a job of one rank");
    let win = Window::<u64>::allocate(&world, 512).expect("4 KiB of memory");
    let me = world.rank();

    for len in [1, 512] {
        let source = vec![1u64; len];
        let mut copy = vec![0u64; len];
        criterion.bench_function(&format!("bare copy, {} bytes", len * 8), |bench| {
            bench.iter(|| black_box(&mut copy).copy_from_slice(black_box(&source)));
        });
        win.lock_all(|epoch| {
            criterion.bench_function(&format!("put, {} bytes", len * 8), |bench| {
                bench.iter(|| epoch.put(black_box(me), 0, black_box(&source)));
            });
            criterion.bench_function(&format!("put and flush, {} bytes", len * 8), |bench| {
                bench.iter(|| epoch.put(black_box(me), 0, black_box(&source)).and_then(|()| epoch.flush(me)));
            });
            criterion.bench_function(&format!("get in a scope, {} bytes", len * 8), |bench| {
                bench.iter(|| epoch.scope(|part| part.get(black_box(me), 0, black_box(&mut copy[..]))));
            });
            Ok(())
        })
        .expect("an epoch on this rank's own part");
    }

    let bare = AtomicU64::new(0);
    criterion.bench_function("bare fetch_add", |bench| {
        // Relaxed: only the cost of the operation matters.
        bench.iter(|| black_box(&bare).fetch_add(1, Ordering::Relaxed));
    });
    win.lock_all(|epoch| {
        criterion.bench_function("fetch_add", |bench| bench.iter(|| epoch.fetch_add(black_box(me), 0, 1u64)));
        Ok(())
    })
    .expect("an epoch on this rank's own part");
    win.free().expect("no other rank uses the window");
}

criterion_group!(benches, own_part);
criterion_main!(benches);
