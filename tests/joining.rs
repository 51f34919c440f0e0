//! A job that starts over a connection of the program's own instead of a launcher's. A process has
//! one job, so there is one test.
//!
//! Route: unit.

use transom::bootstrap::solo::Solo;
use transom::{Job, Window};

/// Shows B3.
#[test]
fn a_job_over_the_programs_own_bootstrap() {
    let world = Job::with_bootstrap(Box::new(Solo::new())).expect("a job of one");
    assert_eq!((world.rank(), world.size()), (0, 1));
    let win = Window::<u64>::allocate(&world, 2).expect("a window");
    win.lock_all(|epoch| epoch.put_value(0, 1, 7)).expect("a put");
    let mut got = [0; 2];
    win.load(0, &mut got).expect("inside");
    assert_eq!(got, [0, 7]);
    win.free().expect("all ranks free the window");
    world.finalize().expect("all ranks leave");
    for second in [Job::with_bootstrap(Box::new(Solo::new())), transom::init()] {
        let error = second.expect_err("a process has one job").to_string();
        assert!(error.contains("has started a job before"), "{error}");
    }
}
