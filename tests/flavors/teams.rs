//! Windows over some of the ranks, together with windows over all (MPI-4.1 §12.2: the group of the
//! communicator of a window).

use transom::{Class, Info, Job, Lock, RawWindow, Window};
use transom_harness::{Outcome, ensure, same, step};

/// Lists of ranks without the empty ones: halves, odd and even ranks, overlapping lists,
/// permutations, single ranks, and some lists twice.
fn lists(size: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..size).collect();
    let pick = |keep: &dyn Fn(usize) -> bool| all.iter().copied().filter(|&rank| keep(rank)).collect::<Vec<_>>();
    let mut lists = vec![
        pick(&|rank| rank < size / 2),
        pick(&|rank| rank >= size / 2),
        pick(&|rank| rank % 2 == 0),
        pick(&|rank| rank % 2 == 1),
        pick(&|rank| rank + 1 < size),
        pick(&|rank| rank > 0),
        all.iter().rev().copied().collect(),
        pick(&|rank| rank % 2 == 0),
        all.clone(),
        (0..size).map(|index| (index + 1) % size).collect(),
    ];
    lists.extend(all.iter().map(|&rank| vec![rank]));
    lists.retain(|list| !list.is_empty());
    lists
}

/// Each subset has its own windows and barriers, which do not mix with those of other subsets with
/// the same ranks. Members are numbered in the order of the list.
/// Shows W4, W7.
pub(crate) fn subsets(world: &Job) -> Outcome {
    let whole = Window::<u64>::allocate(world, 1)?;
    let mut mine = Vec::new();
    for (index, list) in lists(world.size()).into_iter().enumerate().filter(|(_, list)| list.contains(&world.rank())) {
        step(format!("making {list:?}"));
        let job = world.subset(&list)?;
        let place = list.iter().position(|&rank| rank == world.rank());
        same("the number here", &(Some(job.rank()), job.size()), &(place, list.len()))?;
        same("the group of the subset", &job.group(), &list)?;
        let first = Window::<u64>::allocate(&job, job.size() + 1)?;
        let second = Window::<u64>::create(&job, vec![0; job.size()])?;
        same("the group", &first.group(), &list)?;
        mine.push((index, list, job, first, second));
    }
    for (index, list, job, first, second) in &mine {
        step(format!("using {list:?}"));
        let tag = |from: usize, to: usize| (index * 10_000 + from * 100 + to) as u64;
        first.lock_all(|epoch| {
            (0..job.size()).try_for_each(|to| {
                epoch.put_value(to, job.rank(), tag(job.rank(), to))?;
                epoch.fetch_add(to, job.size(), 1u64).map(drop)
            })
        })?;
        second
            .fence(|epoch| (0..job.size()).try_for_each(|to| epoch.put_value(to, job.rank(), tag(to, job.rank()))))?;
        whole.lock_all(|epoch| epoch.fetch_add(list[0], 0, 1u64))?;
        let unknown = first.lock_all(|epoch| epoch.put_value(job.size(), 0, 1u64)).err().map(|error| error.class());
        same("a rank of the job that is not of the subset", &unknown, &Some(Class::Rank))?;
        for turn in 0..3 {
            step(format!("barrier {turn} of {list:?}"));
            job.barrier()?;
        }
        let mut found = vec![0; job.size() + 1];
        first.load(0, &mut found)?;
        let expected: Vec<u64> = (0..job.size()).map(|from| tag(from, job.rank())).chain([job.size() as u64]).collect();
        same("what members put", &found, &expected)?;
        second.load(0, &mut found[..job.size()])?;
        let expected: Vec<u64> = (0..job.size()).map(|from| tag(job.rank(), from)).collect();
        same("what members put in a fence epoch", &&found[..job.size()], &&expected[..])?;
    }
    world.barrier()?;
    let expected: usize = lists(world.size()).iter().filter(|list| list[0] == world.rank()).map(Vec::len).sum();
    let count = whole.lock_all(|epoch| epoch.fetch_value(world.rank(), 0))?;
    same("the window of all, used beside", &count, &(expected as u64))?;
    // All ranks free the windows in the same order, which is not that of creation.
    for (_, list, _, first, second) in mine.into_iter().rev() {
        step(format!("freeing {list:?}"));
        second.free()?;
        first.free()?;
    }
    Ok(whole.free()?)
}

/// MPI-4.1 §12.5: locks, post-start-complete-wait and requests of a subset name its own ranks.
/// Shows W7, S1, S2.
pub(crate) fn synchronization(world: &Job) -> Outcome {
    let list: Vec<usize> = (1..world.size()).rev().collect();
    if world.rank() == 0 {
        // The other members work without this rank, which is in a barrier of all ranks.
        return Ok(world.barrier()?);
    }
    let job = world.subset(&list)?;
    let (me, size) = (job.rank(), job.size());
    let win = Window::<u64>::allocate(&job, size + 1)?;
    step("locks");
    for _ in 0..50 {
        win.lock(Lock::Exclusive, 0, |epoch| {
            let mut count = [0];
            epoch.scope(|part| part.get(0, 0, &mut count))?;
            epoch.put_value(0, 0, count[0] + 1)
        })?;
    }
    job.barrier()?;
    let count = win.lock(Lock::Shared, 0, |epoch| epoch.fetch_value(0, 0))?;
    same("increments under exclusive locks", &count, &(50 * size as u64))?;
    job.barrier()?;
    step("post and start");
    let others: Vec<usize> = (0..size).filter(|&rank| rank != me).collect();
    for turn in 0..10u64 {
        win.post(&others)?;
        win.start(&others, |epoch| {
            others.iter().try_for_each(|&to| epoch.put_value(to, 1 + me, turn * 100 + me as u64))
        })?;
        win.wait()?;
        let mut found = vec![0; size];
        win.load(1, &mut found)?;
        for &from in &others {
            same("put by a member", &found[from], &(turn * 100 + from as u64))?;
        }
    }
    step("free");
    win.free()?;
    Ok(world.barrier()?)
}

/// Threads make subsets of the same list at the same time, in a different order at each rank. Tags,
/// or a number that the ranks agreed on otherwise, distinguish the subsets and their windows.
/// Shows W7.
pub(crate) fn by_threads(world: &Job) -> Outcome {
    const THREADS: usize = 3;
    let mut right = true;
    let (me, size) = (world.rank(), world.size());
    let all: Vec<usize> = (0..size).collect();
    let agreed = Window::<u64>::allocate(world, 4 * THREADS)?;
    agreed.lock_all(|epoch| {
        // A broadcast of the first rank's number, counted from 1.
        let agree = |place: usize, number: u64| -> transom::Result<u64> {
            if me == 0 {
                (0..size).try_for_each(|to| epoch.put_value(to, place, number + 1))?;
                epoch.flush_all()?;
            }
            loop {
                match epoch.fetch_value(me, place)? {
                    0 => std::thread::yield_now(),
                    number => return Ok(number - 1),
                }
            }
        };
        let body = |thread: usize, turn: usize| -> transom::Result<bool> {
            let job = if turn.is_multiple_of(2) {
                world.subset_tagged(&all, thread as u64)?
            } else {
                world.subset_agreed(&all, |number| agree(turn * THREADS + thread, number).ok())?
            };
            exchanged(&job, thread)
        };
        for turn in 0..4 {
            step(format!("turn {turn}"));
            std::thread::scope(|scope| {
                let begin = |index: usize| {
                    // Which list comes first differs between ranks and between turns.
                    std::thread::sleep(std::time::Duration::from_millis(if index == 0 { 0 } else { 20 }));
                    let body = &body;
                    scope.spawn(move || body((index + me + turn) % THREADS, turn))
                };
                let threads: Vec<_> = (0..THREADS).map(begin).collect();
                for thread in threads {
                    right &= thread.join().is_ok_and(|done| done.is_ok_and(|right| right));
                }
            });
        }
        Ok(())
    })?;
    ensure(right, "each window has what its own members put")?;
    Ok(agreed.free()?)
}

/// Whether a window over `job` holds the values that `thread` of each member puts into it.
fn exchanged(job: &Job, thread: usize) -> transom::Result<bool> {
    let (me, size) = (job.rank(), job.size());
    let win = Window::<u64>::allocate(job, size + thread)?;
    win.fence(|epoch| (0..size).try_for_each(|to| epoch.put_value(to, me + thread, (100 * thread + me) as u64)))?;
    let mut found = vec![0; size];
    win.load(thread, &mut found)?;
    job.barrier()?;
    win.free()?;
    Ok((0..size).all(|from| found[from] == (100 * thread + from) as u64))
}

/// An illegal list is an error at the caller alone; a part that can't be allocated is an error for
/// the subset alone.
/// Shows W7, E1.
pub(crate) fn refused(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    for list in [vec![me, size], vec![me, me], vec![], vec![usize::MAX, me]] {
        let error = world.subset(&list).err().ok_or(format!("{list:?} is a subset"))?;
        same(&format!("{list:?}: {error}"), &error.class(), &Class::Rank)?;
    }
    if size > 1 {
        ensure(world.subset(&[(me + 1) % size]).is_err(), "a list without the caller")?;
    }
    if me + 1 == size && size > 1 {
        return working(world);
    }
    let job = world.subset(&(0..size.max(2) - 1).collect::<Vec<_>>())?;
    let failed = RawWindow::allocate(&job, 8, u32::from(me > 0), &Info::new());
    ensure(failed.is_err(), "a unit of 0 at the subset's first rank")?;
    working(&job)?;
    if size > 1 { working(world) } else { Ok(()) }
}

/// Windows of the job can still be created, used and freed.
fn working(job: &Job) -> Outcome {
    let win = Window::<u64>::allocate(job, 1)?;
    win.fence(|epoch| epoch.put_value((job.rank() + 1) % job.size(), 0, 6u64))?;
    let mut found = [0];
    win.load(0, &mut found)?;
    same("put before a fence", &found, &[6])?;
    Ok(win.free()?)
}
