//! Synchronization among real processes (MPI-4.1 §12.5): fences, groups, locks. The data shows the
//! guarantee of each kind, and the watchdog shows that no rank waits for ever. Every test runs over
//! the route that the environment chooses.

use std::process::ExitCode;

use transom::RawWindow;
use transom_harness::Test;

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

static TESTS: &[Test] = &[
    Test::new("fences_with_every_assertion", &[1, 2, 5], groups::fences_with_every_assertion),
    Test::new("groups_of_every_shape", &[1, 2, 5, 16], groups::groups_of_every_shape),
    Test::new("start_does_not_wait_for_a_late_post", &[2], groups::late_post),
    Test::new("an_exchange_in_opposite_orders", &[2], groups::opposite_orders),
    Test::new("access_and_exposure_overlap", &[1, 2, 5], groups::overlap),
    Test::new("groups_without_a_check", &[1, 2, 5], groups::unchecked),
    Test::new("a_flood_of_posts_to_a_rank_in_a_barrier", &[16], floods::in_a_barrier),
    Test::new("a_flood_of_posts_to_a_computing_rank", &[16], floods::of_a_computing_rank),
    Test::new("exclusive_locks_exclude", &[1, 2, 5, 16], locks::exclusive_locks_exclude),
    Test::new("shared_locks_run_together", &[2, 5], locks::shared_locks_run_together),
    Test::new("many_targets_are_locked_at_once", &[1, 2, 5], locks::many_targets),
    Test::new("nested_locks_in_opposite_orders", &[4, 8], locks::opposite_orders),
    Test::new("readers_of_two_windows_in_a_circle", &[5], locks::readers_in_a_circle),
    Test::new("holders_of_two_windows_in_a_circle", &[5], locks::holders_in_a_circle),
    Test::new("lock_all_excludes_exclusive_locks", &[2, 5], locks::lock_all_excludes),
    Test::new("many_exclusive_locks_and_few_lock_alls", &[2, 5, 8], locks::few_lock_alls),
    Test::new("flushes_complete", &[2], locks::flushes),
    Test::new("a_window_without_locks", &[1, 2], locks::no_locks),
    Test::new("locks_of_a_computing_target", &[3], locks::computing_target),
    Test::new("writers_do_not_starve", &[4, 16], starvation::writers),
    Test::new("writers_among_themselves_do_not_starve", &[2, 4], starvation::writers_among_themselves),
    Test::new("readers_do_not_starve", &[4, 16], starvation::readers),
    Test::new("a_lock_waits_beside_an_unlock", &[2], threads::lock_beside_unlock),
    Test::new("access_and_exposure_of_two_threads", &[2, 5], threads::access_beside_exposure),
    Test::new("locks_of_many_threads", &[1, 2, 5], threads::locks_of_many_threads),
    Test::new("locks_of_one_target_by_two_threads", &[1, 2], threads::locks_of_one_target),
    Test::new("two_barriers_at_once", &[2], threads::barriers_at_once),
    Test::new("threads_share_an_epoch", &[1, 2, 5], collective::threads_share_an_epoch),
    Test::new("collective_calls", &[1, 2, 5], collective::collective_calls),
    Test::new("lock_all_does_not_starve", &[4, 16], starvation::holders_of_all),
    Test::new("notices_within_a_node_end_sleeps_beside_a_net", &[4], neighbours::notices_end_sleeps)
        .with_env(&[("TRANSOM_TEST_NODES", "2"), ("TRANSOM_TRANSPORTS", "shm,ofi")]),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// A word of this rank's part, after `sync`.
fn word(win: &RawWindow, index: usize) -> u64 {
    win.sync();
    transom_harness::word::load(win, index)
}
