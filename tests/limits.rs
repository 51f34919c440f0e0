//! Resources that the system refuses at one rank while a window is created. Every rank of the
//! collective call gets an error, no window is created in part, and the job continues when the
//! resource is available again. A rank without a free descriptor still reaches its node.
//!
//! Shows W2, E1.

#[path = "limits/contacts.rs"]
mod contacts;
#[path = "limits/descriptors.rs"]
mod descriptors;
#[path = "flavors/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use transom::{Job, Window};
use transom_harness::{Outcome, Test, bytes_of_proc, ensure, same, step};

static TESTS: &[Test] = &[
    Test::new("without_address_space_no_rank_gets_a_window", &[2, 3], no_address_space_left),
    Test::new("a_window_beyond_memory_is_refused", &[2, 3], no_memory_left),
    Test::new("windows_that_together_exceed_memory_are_refused", &[2, 3], no_memory_left_together),
    Test::new("windows_that_together_exceed_memory_are_refused_without_shared_memory", &[2, 3], no_memory_for_all)
        .with_env(&[("TRANSOM_TRANSPORTS", "^shm"), ("TRANSOM_TEST_NODES", "1")]),
    Test::new("only_devices_need_lockable_memory", &[2, 3], no_locked_memory_left),
    Test::new("a_window_needs_no_descriptor", &[2, 3], no_descriptors_left),
];

/// The tests within a node, which run where all ranks share memory.
static WITHIN_A_NODE: &[Test] = &[
    used_up("a_rank_without_descriptors_after_init_reaches_its_node", descriptors::last_after_init),
    used_up("a_rank_without_descriptors_after_creation_reaches_its_node", descriptors::last_after_creation),
    used_up("ranks_without_descriptors_reach_their_node", descriptors::all_after_init),
    used_up("locked_memory_maps_no_pages_of_other_ranks", locked_memory_maps_no_pages),
    // A new thread's arena of malloc takes 64 MiB of address space.
    used_up("windows_take_no_more_address_space_than_their_parts", limited_address_space)
        .with_env(&[("MALLOC_ARENA_MAX", "1")]),
    Test::new("all_leave_a_barrier_in_whose_first_round_a_contact_fails", &[3, 4, 5], contacts::barrier::<0>),
    Test::new("all_leave_a_barrier_in_whose_second_round_a_contact_fails", &[3, 4, 5], contacts::barrier::<1>),
    Test::new("all_leave_a_barrier_in_whose_third_round_a_contact_fails", &[5], contacts::barrier::<2>),
    Test::new("all_leave_a_subsets_barrier_in_which_a_contact_fails", &[4, 5], contacts::barrier_of_subset),
    Test::new("no_rank_gets_a_window_if_a_contact_fails", &[3, 5], contacts::creation),
    Test::new("no_rank_gets_a_large_window_if_a_contact_fails", &[4, 5], contacts::large_creation)
        .failing_with("no longer agree on the next one"),
];

/// The tests over sockets, which run where the test program is started without shared memory.
static OVER_SOCKETS: &[Test] = &[
    over_sockets(
        "a_rank_without_descriptors_says_so_over_sockets",
        &[6],
        "no free descriptor",
        descriptors::over_sockets,
    ),
    over_sockets(
        "the_limit_of_descriptors_is_named_over_sockets",
        &[3],
        "RLIMIT_NOFILE",
        descriptors::all_over_sockets,
    ),
];

const fn used_up(name: &'static str, body: fn(&Job) -> Outcome) -> Test {
    Test::new(name, &[2, 5], body)
}

const fn over_sockets(
    name: &'static str,
    ranks: &'static [usize],
    why: &'static str,
    body: fn(&Job) -> Outcome,
) -> Test {
    let env = &[("TRANSOM_TRANSPORTS", "^shm,verbs"), ("TRANSOM_PROVIDER", "tcp;ofi_rxm")];
    Test::new(name, ranks, body).with_env(env).failing_with(why)
}

/// Drops the capability to lock any amount of memory, which ranks started by root have, and sets a
/// limit that still permits locking, which the tests then lower. The capability is dropped at the
/// start, because a device refuses processes whose rights change later.
fn main() -> ExitCode {
    let limit = getrlimit(Resource::Memlock);
    let rights = capabilities(None).expect("this process's own");
    if rights.effective.contains(CapabilitySet::IPC_LOCK | CapabilitySet::SYS_RESOURCE) {
        setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).expect("CAP_SYS_RESOURCE");
        let bound = CapabilitySets { effective: rights.effective - CapabilitySet::IPC_LOCK, ..rights };
        set_capabilities(None, bound).expect("rights can be given up");
    } else {
        setrlimit(Resource::Memlock, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    }
    let further = match std::env::var("TRANSOM_TRANSPORTS") {
        Ok(list) if list.starts_with("^shm") => OVER_SOCKETS,
        Ok(_) => &[],
        Err(_) if std::env::var_os("TRANSOM_TEST_NODES").is_some() => &[],
        Err(_) => WITHIN_A_NODE,
    };
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), [TESTS, further].concat().leak())
}

/// A soft limit of this process, at most the hard one; dropping it restores the previous limit.
struct Limited(Resource, Rlimit);

impl Limited {
    fn to(resource: Resource, current: u64) -> std::io::Result<Limited> {
        let before = getrlimit(resource);
        let current = before.maximum.map_or(current, |most| current.min(most));
        setrlimit(resource, Rlimit { current: Some(current), ..before })?;
        Ok(Limited(resource, before))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The restored limit was in force before.
        let _ = setrlimit(self.0, self.1);
    }
}

/// Creates a window of `len` bytes while the last rank is limited; a failure has the message `why`.
/// Returns how many ranks got a window: all or none. Without the limit all ranks get one.
fn create(
    world: &Job,
    limit: impl FnOnce() -> std::io::Result<Limited>,
    len: usize,
    why: &str,
) -> transom::Result<u64> {
    let (me, size) = (world.rank(), world.size());
    let counting = Window::<u64>::allocate(world, 1)?;
    step("the limited window");
    let limited = (me == size - 1).then(limit).transpose().expect("a soft limit can be lowered");
    let made = Window::<u64>::allocate(world, len);
    if let Ok(window) = &made {
        // First contact runs under the limit too.
        window.fence(|epoch| epoch.put_value((me + 1) % size, 0, 7))?;
        window.fence(|_| Ok(()))?;
    }
    drop(limited);
    if let Err(error) = &made {
        let (error, expected) =
            (format!("{error:#}"), if me == size - 1 { why.into() } else { format!("rank {}", size - 1) });
        assert!(error.contains(&expected), "neither the reason nor the rank is in the error: {error}");
    }
    counting.lock_all(|epoch| epoch.fetch_add(0, 0, u64::from(made.is_ok())).map(drop))?;
    world.barrier()?;
    let have = counting.lock_all(|epoch| epoch.fetch_value(0, 0))?;
    counting.free()?;
    made.into_iter().try_for_each(Window::free)?;
    step("the same without a limit");
    let again = Window::<u64>::allocate(world, len)?;
    again.fence(|epoch| epoch.put_value((me + 1) % size, len - 1, 7))?;
    again.fence(|_| Ok(()))?;
    let mut seen = [0];
    again.load(len - 1, &mut seen)?;
    assert_eq!(seen, [7]);
    again.free()?;
    Ok(have)
}

/// The bytes of address space that the process has mapped. The smallest of several readings: a
/// thread's first allocation maps twice the heap that it keeps, for a moment.
fn mapped() -> std::io::Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..20 {
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let pages = statm.split_whitespace().next().and_then(|pages| pages.parse::<u64>().ok());
        least = least.min(pages.expect("proc(5) has the size first") * rustix::param::page_size() as u64);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(least)
}

/// A limit 16 MiB above the current size of the process, so that a window of 64 MiB does not fit.
fn no_address_space_left(world: &Job) -> Outcome {
    let limit = || Limited::to(Resource::As, mapped()? + (16 << 20));
    let have = create(world, limit, (64 << 20) / 8, "memory")?;
    ensure(have == 0, &format!("{have} ranks have a window that one could not have"))
}

/// The bytes that a line of a file of procfs states; 0 if the kernel has no such line.
fn field(file: &str, line: &str) -> u64 {
    bytes_of_proc(file, line).unwrap_or(0)
}

/// The memory that the machine can still give, swap included.
fn free() -> u64 {
    field("/proc/meminfo", "MemAvailable:") + field("/proc/meminfo", "SwapFree:")
}

/// Whether the kernel is set to grant requests of any size; then this library grants them too.
fn granted() -> bool {
    std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "1")
}

/// Requests a window of `bytes` here and touches no page of it. All ranks agree on the outcome;
/// returns the error if there is one. Small windows still work.
fn request(world: &Job, bytes: u64) -> transom::Result<Option<String>> {
    let counting = Window::<u64>::allocate(world, 1)?;
    step(format!("{bytes} bytes"));
    let made = Window::<u8>::allocate(world, usize::try_from(bytes).expect("an address space"));
    counting.lock_all(|epoch| epoch.fetch_add(0, 0, u64::from(made.is_ok())).map(drop))?;
    world.barrier()?;
    let have = counting.lock_all(|epoch| epoch.fetch_value(0, 0))?;
    counting.free()?;
    assert_eq!(
        have,
        if made.is_ok() { world.size() as u64 } else { 0 },
        "some ranks have a window that others have not"
    );
    match made {
        Ok(window) => window.free().map(|()| None),
        Err(error) => Ok(Some(format!("{error:#}"))),
    }
}

/// The last rank requests more than the machine has, the others little.
fn no_memory_left(world: &Job) -> Outcome {
    let greedy = world.size() - 1;
    let requested = if world.rank() == greedy { 2 * free() } else { 64 };
    let why = request(world, requested)?;
    if granted() {
        return same("the refusal", &why, &None);
    }
    let expected = if world.rank() == greedy { "bytes of memory are available" } else { &format!("rank {greedy}") };
    ensure(why.as_ref().is_some_and(|why| why.contains(expected)), &format!("{expected} is not in {why:?}"))
}

/// Each rank requests less than the machine has, but the ranks of one machine request more
/// together. Over sockets each rank is on a machine of its own.
/// Route: shm, mixed.
fn no_memory_left_together(world: &Job) -> Outcome {
    if world.node_ranks().len() > 1 {
        return no_memory_for_all(world);
    }
    request(world, free() / 5 * 3)?;
    Ok(())
}

/// [`no_memory_left_together`] where all ranks are on one machine.
fn no_memory_for_all(world: &Job) -> Outcome {
    let why = request(world, free() / 5 * 4)?;
    if granted() {
        return Ok(());
    }
    let expected = ["are available", "could not create its part"];
    ensure(
        why.as_ref().is_some_and(|why| expected.iter().any(|part| why.contains(part))),
        &format!("none of {expected:?} is in {why:?}"),
    )
}

/// A limit 16 MiB above the memory that the process has locked. Only a device locks the memory of a
/// window.
fn no_locked_memory_left(world: &Job) -> Outcome {
    let most = field("/proc/self/status", "VmPin:") + (16 << 20);
    let locks = world.net().is_some_and(|net| net.contains("verbs"));
    let have = create(world, || Limited::to(Resource::Memlock, most), (64 << 20) / 8, "RLIMIT_MEMLOCK")?;
    let expected = if locks { 0 } else { world.size() as u64 };
    ensure(have == expected, &format!("{have} ranks have a window, where {expected} can"))
}

/// A further window and its first operations need no more locked memory.
fn no_descriptors_left(world: &Job) -> Outcome {
    let limit = || {
        let limited = Limited::to(Resource::Nofile, 3)?;
        assert!(std::fs::File::open("/dev/null").is_err(), "the limit is in force");
        Ok(limited)
    };
    let have = create(world, limit, 8192, "descriptors")?;
    ensure(have == world.size() as u64, &format!("{have} of {} ranks have a window", world.size()))
}

/// The bytes that this process's page table has of shared memory.
fn shared_pages() -> u64 {
    field("/proc/self/status", "RssShmem:")
}

/// A put of one word into the large window of each other rank.
fn touch_others(world: &Job, win: &Window<u64>) -> transom::Result<()> {
    let others = (0..world.size()).filter(|&rank| rank != world.rank());
    win.lock_all(|epoch| others.into_iter().try_for_each(|rank| epoch.put_value(rank, 1 << 20, 7)))
}

/// In a process that has locked its future memory (mlockall(2)) a mapping gets all of its pages at
/// once. The pieces of other ranks' heaps get none.
fn locked_memory_maps_no_pages(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, (64 << 20) / 8)?;
    world.barrier()?;
    let before = shared_pages();
    if getrlimit(Resource::Memlock).current.is_none() {
        rustix::mm::mlockall(rustix::mm::MlockAllFlags::FUTURE)?;
    }
    let touched = touch_others(world, &win);
    let grown = shared_pages().saturating_sub(before);
    rustix::mm::munlockall()?;
    touched?;
    ensure(grown < 8 << 20, &format!("{grown} bytes of shared memory were mapped for a few words"))?;
    Ok(win.free()?)
}

/// Under a limit of address space, windows take no more of it than their parts have.
fn limited_address_space(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, (64 << 20) / 8)?;
    world.barrier()?;
    let parts = (64 << 20) * (world.size() as u64 - 1);
    let limited = Limited::to(Resource::As, mapped()? + parts + (8 << 20))?;
    let touched = touch_others(world, &win);
    drop(limited);
    touched?;
    world.barrier()?;
    let mut found = [0];
    win.load(1 << 20, &mut found)?;
    same("the word that the others put", &found, &[7])?;
    Ok(win.free()?)
}
