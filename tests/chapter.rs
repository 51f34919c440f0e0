//! The examples of MPI's one-sided chapter as programs, each with the outcome that the text states,
//! and the chapter's figures on progress. A reader of the chapter finds each example here by its
//! number in MPI-3.1. Examples about visibility run under both memory models.

use std::process::ExitCode;

use transom_harness::Test;

#[path = "chapter/active.rs"]
mod active;
#[path = "chapter/algorithms.rs"]
mod algorithms;
#[path = "chapter/communication.rs"]
mod communication;
#[path = "chapter/patterns.rs"]
mod patterns;
#[path = "chapter/visibility.rs"]
mod visibility;

const TESTS: &[Test] = &[
    Test::new("example_11_01_indirect_assignment_by_datatypes", &[1, 2, 4], communication::map_values),
    Test::new("example_11_02_indirect_assignment_by_elements", &[1, 2, 4], communication::map_values_simply),
    Test::new("example_11_03_sums_by_accumulate", &[1, 2, 4], communication::sums),
    Test::new("example_11_04_start_puts_complete", &[3], active::start_put_complete),
    Test::new("example_11_05_lock_put_unlock", &[2], active::lock_put_unlock),
    Test::new("example_11_06_a_store_between_locks", &[2], visibility::store_between_locks),
    Test::new("example_11_07_a_store_before_a_barrier", &[2], visibility::store_before_a_barrier),
    Test::new("example_11_08_a_load_between_locks", &[2], visibility::load_between_locks),
    Test::new("example_11_09_a_load_after_a_barrier", &[2], visibility::load_after_a_barrier),
    Test::new("example_11_10_a_store_before_a_lock", &[2], visibility::store_before_a_lock),
    Test::new("example_11_11_a_store_and_another_ranks_lock", &[3], visibility::store_and_anothers_lock),
    Test::new("example_11_12_loads_within_an_exposure", &[2], visibility::load_within_an_exposure),
    Test::new("examples_11_13_and_14_phases_by_fences", &[1, 2, 4], active::phases_by_fences),
    Test::new("examples_11_15_and_16_phases_by_post_and_start", &[2, 3, 4], active::phases_by_posts),
    Test::new("example_11_17_double_buffers", &[2, 4], active::double_buffers),
    Test::new("example_11_18_a_counting_semaphore", &[2, 5], algorithms::semaphore),
    Test::new("example_11_19_petersons_algorithm", &[2], algorithms::peterson),
    Test::new("example_11_20_a_critical_region_by_compare_and_swap", &[2, 5], algorithms::critical_region),
    Test::new("example_11_21_requests_with_several_buffers", &[1, 2], algorithms::several_buffers),
    Test::new("example_11_22_a_shared_linked_list", &[1, 2, 4], algorithms::linked_list),
    Test::new("figure_11_6_symmetric_exchange", &[2], active::symmetric_exchange),
    Test::new("figure_11_7_wait_waits_for_complete", &[2], active::wait_waits_for_complete),
    Test::new("figure_11_8_complete_does_not_wait_for_wait", &[2], active::complete_does_not_wait),
    Test::new("pattern_plain_loads_after_a_put", &[1, 2, 4], patterns::plain_loads_after_a_put),
    Test::new("pattern_store_sync_barrier_sync_load", &[1, 2, 4], patterns::store_sync_barrier_sync_load),
    Test::new("pattern_one_rank_initializes_for_the_node", &[1, 2, 4], patterns::one_rank_initializes_for_the_node),
    Test::new("pattern_a_flag_announces_data", &[2], patterns::a_flag_tells_of_data),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}
