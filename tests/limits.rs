//! What the system refuses at one rank while a window is created: an error at every rank of the collective call, nothing
//! half-done, and the job goes on once there is room again.
//!
//! Shows W2, E1.

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use transom::{Job, Window};
use transom_harness::{Outcome, Test, ensure, step};

static TESTS: &[Test] = &[
    Test { name: "no_address_space_left", ranks: &[2, 3], env: &[], fails: None, body: no_address_space_left },
    Test { name: "no_descriptors_left", ranks: &[2, 3], env: &[], fails: None, body: no_descriptors_left },
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// A soft limit of this process, for as long as this lives.
struct Limited(Resource, Rlimit);

impl Limited {
    fn to(resource: Resource, current: u64) -> std::io::Result<Limited> {
        let before = getrlimit(resource);
        setrlimit(resource, Rlimit { current: Some(current), ..before })?;
        Ok(Limited(resource, before))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // It was in force before.
        let _ = setrlimit(self.0, self.1);
    }
}

/// Creates a window while the last rank is limited; how many ranks have one then: all or none. Without the limit all have.
fn create(world: &Job, limit: impl FnOnce() -> std::io::Result<Limited>, len: usize) -> transom::Result<u64> {
    let (me, size) = (world.rank(), world.size());
    let counting = Window::<u64>::allocate(world, 1)?;
    step("the limited window");
    let limited = (me == size - 1).then(limit).transpose().expect("a soft limit can be lowered");
    let made = Window::<u64>::allocate(world, len);
    if let Ok(window) = &made {
        // First contact comes under the limit too.
        window.fence(|epoch| epoch.put_value((me + 1) % size, 0, 7))?;
        window.fence(|_| Ok(()))?;
    }
    drop(limited);
    if let Err(error) = &made {
        let (error, told) =
            (error.to_string(), if me == size - 1 { "memory".into() } else { format!("rank {}", size - 1) });
        assert!(error.contains(&told), "why, or who could not, is not told: {error}");
    }
    counting.lock_all(|epoch| epoch.fetch_add(0, 0, u64::from(made.is_ok())).map(drop))?;
    world.barrier()?;
    let have = counting.lock_all(|epoch| epoch.fetch_value(0, 0))?;
    counting.free()?;
    made.into_iter().try_for_each(Window::free)?;
    step("the same without a limit");
    let again = Window::<u64>::allocate(world, len)?;
    again.fence(|epoch| epoch.put_value((me + 1) % size, len as u64 - 1, 7))?;
    again.fence(|_| Ok(()))?;
    let mut seen = [0];
    again.load(len - 1, &mut seen)?;
    assert_eq!(seen, [7]);
    again.free()?;
    Ok(have)
}

/// 16 MiB above what the process has, which a window of 64 MiB is not within.
fn no_address_space_left(world: &Job) -> Outcome {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().next().unwrap_or_default().parse()?;
    let most = pages * rustix::param::page_size() as u64 + (16 << 20);
    let have = create(world, || Limited::to(Resource::As, most), (64 << 20) / 8)?;
    ensure(have == 0, &format!("{have} ranks have a window that one could not have"))
}

/// None is needed by a further window, nor by its first operations.
fn no_descriptors_left(world: &Job) -> Outcome {
    let limit = || {
        let limited = Limited::to(Resource::Nofile, 3)?;
        assert!(std::fs::File::open("/dev/null").is_err(), "the limit is in force");
        Ok(limited)
    };
    let have = create(world, limit, 8192)?;
    ensure(have == world.size() as u64, &format!("{have} of {} ranks have a window", world.size()))
}
