//! Threads of a rank that wait for different counters at the same time.

use std::time::Duration;

use transom::{Job, Notice, Request, Window};
use transom_harness::{Outcome, step};

const TURNS: u64 = 24;

/// Threads wait for a counter each, for one of two, and for two requests. The notices come in turn
/// in each order, in some turns so late that all waiting threads sleep. Each thread sees the data
/// of its notice.
pub(crate) fn apart(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 6)?;
    win.set_num_notify(6)?;
    let found = |at: usize, turn: u64| -> transom::Result<()> {
        let mut word = [0];
        win.load(at, &mut word)?;
        assert_eq!(word, [turn], "the data of counter {at}");
        Ok(())
    };
    for turn in 1..=TURNS {
        step(format!("turn {turn}"));
        let any = 2 + (turn % 2) as usize;
        win.lock_all(|epoch| {
            let (notices, found, value) = (win.notices(), &found, [turn]);
            std::thread::scope(|threads| {
                let alone = [0, 1]
                    .map(|index| threads.spawn(move || notices.wait(index, turn).and_then(|()| found(index, turn))));
                let one_of_two = threads.spawn(|| {
                    // Counters 3 and 2 grow in turn.
                    let place = notices.wait_any(&[(2, turn.div_ceil(2)), (3, turn / 2 + 1)])?;
                    assert_eq!(2 + place, any);
                    found(any, turn)
                });
                let requests = threads.spawn(|| {
                    let mut both = [notices.request(4, turn)?, notices.request(5, turn)?];
                    Request::wait_all(&mut both)?;
                    found(4, turn).and_then(|()| found(5, turn))
                });
                // In every third turn the waiting threads sleep before the first notice.
                std::thread::sleep(Duration::from_millis(if turn % 3 == 0 { 5 } else { 0 }));
                let mut counters = [0, any, 4, 1, 5];
                counters.rotate_left(usize::try_from(turn % 5).unwrap_or(0));
                for index in counters {
                    epoch.scope(|part| part.put_notify(next, index, &value, Notice(index)))?;
                }
                alone.into_iter().chain([one_of_two, requests]).try_for_each(|it| it.join().expect("no thread panics"))
            })
        })?;
        world.barrier()?;
    }
    Ok(win.free()?)
}
