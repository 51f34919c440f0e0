//! Windows of every flavor among real processes (MPI-4.1 §12.2): shared and dynamic windows, many
//! windows and several over the same memory, windows over subsets of the ranks, hints, and the end
//! of windows. The tests run on every route.

#[path = "flavors/alloc_mem.rs"]
mod alloc_mem;
#[path = "flavors/dynamic.rs"]
mod dynamic;
#[path = "flavors/ends.rs"]
mod ends;
#[path = "flavors/hints.rs"]
mod hints;
#[path = "flavors/many.rs"]
mod many;
#[path = "flavors/memory.rs"]
mod memory;
#[path = "flavors/pages.rs"]
mod pages;
#[path = "flavors/shared.rs"]
mod shared;
#[path = "flavors/teams.rs"]
mod teams;

use std::process::ExitCode;

use transom_harness::Test;

static TESTS: &[Test] = &[
    Test::new("contiguous_parts_are_adjacent", &[1, 2, 3, 7], shared::contiguous),
    Test::new("noncontiguous_parts_are_shared_too", &[1, 3], shared::noncontiguous),
    Test::new("operations_on_shared_windows", &[1, 2, 3], shared::operations),
    // Route: tcp.
    Test::new("shared_windows_need_shared_memory", &[2, 3], shared::refused)
        .with_env(&[("TRANSOM_TRANSPORTS", "^shm")]),
    Test::new("pages_of_a_segment_are_touched_by_their_owner", &[1, 3], pages::touched_by_their_owner),
    Test::new("pages_of_large_windows_are_touched_at_use", &[1, 2], pages::of_large_windows_at_use),
    Test::new("parts_are_in_huge_pages_on_request", &[2], pages::huge_on_request),
    Test::new("first_contact_touches_few_pages", &[2, 3], pages::few_at_first_contact),
    Test::new("windows_share_the_mappings_of_peers", &[2, 4], pages::few_mappings),
    Test::new("free_maps_no_part", &[2], pages::none_at_free),
    Test::new("shared_windows_over_the_ranks_of_a_node", &[1, 3], shared::of_a_node),
    Test::new("failed_creations_of_shared_windows_leave_nothing", &[1, 2], shared::failed_creations),
    Test::new("shared_query_of_other_flavors", &[1, 2], shared::query_of_other_flavors),
    Test::new("shared_parts_past_four_gibibytes", &[2], shared::four_gibibytes),
    Test::new("thousands_of_attached_regions", &[1, 2, 3], dynamic::thousands),
    Test::new("regions_attached_one_by_one", &[2, 3], dynamic::one_by_one),
    Test::new("regions_detached_beside_a_thread_with_many_pieces", &[2, 3], dynamic::by_threads),
    Test::new("every_operation_by_address", &[1, 2], dynamic::operations),
    Test::new("accesses_outside_attached_memory_are_refused", &[1, 2, 3], dynamic::refusals),
    Test::new("attaching_and_detaching_is_checked", &[1, 2], dynamic::attaching),
    Test::new("accesses_across_regions_side_by_side", &[1, 2, 3], dynamic::side_by_side),
    // Shows W1.
    // Route: shm.
    Test::new("accesses_across_regions_by_cross_memory_attach", &[2], dynamic::side_by_side)
        .with_env(&[("TRANSOM_ADOPT", "n")]),
    // Shows T2.
    // Route: shm.
    Test::new("dynamic_windows_without_cross_memory_attach", &[2], dynamic::all).with_env(&[("TRANSOM_CMA", "n")]),
    // Shows W1, M4.
    // Route: shm.
    Test::new("accumulates_keep_their_order_beside_a_thread_that_reads_the_list", &[2], dynamic::order_beside_a_thread)
        .with_env(&[("TRANSOM_CMA", "n")]),
    Test::new("a_thousand_windows_at_once", &[1, 2], many::thousand),
    Test::new("windows_over_the_same_memory", &[1, 2], many::same_memory),
    Test::new("windows_without_bytes", &[1, 2], many::without_bytes),
    Test::new("user_memory_past_four_gibibytes", &[2], many::four_gibibytes),
    Test::new("attributes_describe_the_window", &[1, 3], many::attributes),
    Test::new("windows_of_subsets", &[1, 2, 4, 5], teams::subsets),
    Test::new("synchronization_within_a_subset", &[3, 4], teams::synchronization),
    Test::new("subsets_by_threads_in_any_order", &[1, 2, 5], teams::by_threads),
    Test::new("illegal_lists_make_no_subset", &[1, 3], teams::refused),
    Test::new("hints_in_force_are_returned_and_changed", &[1, 2], hints::in_force),
    Test::new("bad_hints_make_no_window", &[1, 2, 3], hints::refused),
    Test::new("alignment_is_kept", &[1, 2], hints::alignment),
    Test::new("hints_that_differ_make_no_window", &[1, 2, 3, 4], hints::differing),
    Test::new("parts_of_allocated_memory_are_mapped", &[1, 2, 3, 5], alloc_mem::mapped),
    // Shows T2.
    Test::new("parts_of_allocated_memory_beside_others", &[2, 3, 5], alloc_mem::mixed),
    // Shows T2.
    // Route: shm.
    Test::new("parts_of_allocated_memory_without_cross_memory_attach", &[2, 3], alloc_mem::without_cross_memory_attach)
        .with_env(&[("TRANSOM_CMA", "n")]),
    Test::new("windows_keep_allocated_memory", &[1, 2, 3], alloc_mem::lifetime),
    Test::new("allocating_memory_is_checked", &[1, 2, 3], alloc_mem::refused),
    Test::new("memory_models_over_allocated_memory", &[1, 2], alloc_mem::models),
    Test::new("windows_over_memory_of_a_window", &[1, 2], alloc_mem::over_a_window),
    Test::new("windows_over_a_shared_window", &[1, 2, 3], alloc_mem::over_a_shared_window),
    // Shows T2.
    // Route: shm.
    Test::new("windows_over_a_shared_window_without_cross_memory_attach", &[3], alloc_mem::over_a_shared_window)
        .with_env(&[("TRANSOM_CMA", "n")]),
    Test::new("dropping_any_window_without_free", &[1, 2, 3], ends::dropped),
    Test::new("dropping_a_window_within_an_epoch", &[2], ends::dropped_within_an_epoch),
    Test::new("free_within_an_epoch_is_refused", &[1, 2], ends::free_within_an_epoch),
    Test::new("free_waits_for_all", &[2, 3], ends::free_waits),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}
