//! Synchronization among real processes (MPI-4.1 §12.5): fences, groups, locks. The data shows the
//! guarantee of each kind, and the watchdog shows that no rank waits for ever. Every test runs over
//! the route that the environment chooses.

use std::process::ExitCode;

use transom::{BasicType, Job, Op, RawWindow};
use transom_harness::{Outcome, Test};

#[path = "synchronization/collective.rs"]
mod collective;
#[path = "synchronization/floods.rs"]
mod floods;
#[path = "synchronization/groups.rs"]
mod groups;
#[path = "synchronization/locks.rs"]
mod locks;
#[path = "synchronization/neighbours.rs"]
mod neighbours;
#[path = "synchronization/starvation.rs"]
mod starvation;
#[path = "synchronization/threads.rs"]
mod threads;

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], fails: None, body }
}

static TESTS: &[Test] = &[
    test("fences_with_every_assertion", &[1, 2, 5], groups::fences_with_every_assertion),
    test("groups_of_every_shape", &[1, 2, 5, 16], groups::groups_of_every_shape),
    test("start_does_not_wait_for_a_late_post", &[2], groups::late_post),
    test("an_exchange_in_opposite_orders", &[2], groups::opposite_orders),
    test("access_and_exposure_overlap", &[1, 2, 5], groups::overlap),
    test("groups_without_a_check", &[1, 2, 5], groups::unchecked),
    test("a_flood_of_posts_to_a_rank_in_a_barrier", &[16], floods::in_a_barrier),
    test("a_flood_of_posts_to_a_computing_rank", &[16], floods::of_a_computing_rank),
    test("exclusive_locks_exclude", &[1, 2, 5, 16], locks::exclusive_locks_exclude),
    test("shared_locks_run_together", &[2, 5], locks::shared_locks_run_together),
    test("many_targets_are_locked_at_once", &[1, 2, 5], locks::many_targets),
    test("nested_locks_in_opposite_orders", &[4, 8], locks::opposite_orders),
    test("readers_of_two_windows_in_a_circle", &[5], locks::readers_in_a_circle),
    test("holders_of_two_windows_in_a_circle", &[5], locks::holders_in_a_circle),
    test("lock_all_excludes_exclusive_locks", &[2, 5], locks::lock_all_excludes),
    test("many_exclusive_locks_and_few_of_all", &[2, 5, 8], locks::few_of_all),
    test("flushes_complete", &[2], locks::flushes),
    test("a_window_without_locks", &[1, 2], locks::no_locks),
    test("locks_of_a_computing_target", &[3], locks::computing_target),
    test("writers_do_not_starve", &[4, 16], starvation::writers),
    test("writers_among_themselves_do_not_starve", &[2, 4], starvation::writers_among_themselves),
    test("readers_do_not_starve", &[4, 16], starvation::readers),
    test("a_lock_waits_beside_an_unlock", &[2], threads::lock_beside_unlock),
    test("access_and_exposure_of_two_threads", &[2, 5], threads::access_beside_exposure),
    test("locks_of_many_threads", &[1, 2, 5], threads::locks_of_a_crowd),
    test("locks_of_one_target_by_two_threads", &[1, 2], threads::locks_of_one_target),
    test("two_barriers_at_once", &[2], threads::barriers_at_once),
    test("threads_share_an_epoch", &[1, 2, 5], collective::threads_share_an_epoch),
    test("collective_calls", &[1, 2, 5], collective::collective_calls),
    test("lock_all_does_not_starve", &[4, 16], starvation::holders_of_all),
    Test {
        name: "notices_within_a_node_end_sleeps_beside_a_net",
        ranks: &[4],
        env: &[("TRANSOM_TEST_NODES", "2"), ("TRANSOM_TRANSPORTS", "shm,ofi")],
        fails: None,
        body: neighbours::notices_end_sleeps,
    },
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// `fetch_and_op` of 64 bits on a byte-level window.
fn fetch(win: &RawWindow, target: usize, at: u64, op: Op, operand: u64) -> transom::Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_ne_bytes(), &mut old, BasicType::Uint64, target, at, op)?;
    Ok(u64::from_ne_bytes(old))
}

/// A word of this rank's part.
fn word(win: &RawWindow, index: usize) -> u64 {
    let mut bytes = [0; 8];
    win.sync();
    win.load(index * 8, &mut bytes);
    u64::from_ne_bytes(bytes)
}
