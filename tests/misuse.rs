//! Epoch misuse (requirement E2). Every call in every state in which MPI does not allow it returns
//! its error class, never hangs, and leaves the window and its data unchanged: legal calls of the
//! state still work, and correct epochs follow.

use std::process::ExitCode;

use transom_harness::Test;

#[allow(dead_code)] // what other tests need of it
#[path = "flavors/memory.rs"]
mod memory;

#[path = "misuse/arguments.rs"]
mod arguments;
#[path = "misuse/fixture.rs"]
mod fixture;
#[path = "misuse/raw.rs"]
mod raw;
#[path = "misuse/table.rs"]
mod table;
#[path = "misuse/typed.rs"]
mod typed;

static TESTS: &[Test] = &[
    Test::new("every_illegal_call_of_an_allocated_window", &[1, 2, 3], raw::allocated),
    Test::new("every_illegal_call_of_a_created_window", &[1, 2, 3], raw::created),
    Test::new("every_illegal_call_of_a_dynamic_window", &[1, 2, 3], raw::dynamic),
    Test::new("every_illegal_call_of_a_shared_window", &[1, 2, 3], raw::shared),
    Test::new("every_illegal_call_within_closures", &[1, 2, 3], typed::closures),
    Test::new("illegal_arguments_are_refused", &[1, 2], arguments::arguments),
    Test::new("a_refused_operation_opens_no_epoch", &[1, 2], arguments::refused_after_a_fence),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}
