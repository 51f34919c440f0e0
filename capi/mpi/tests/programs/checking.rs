//! The conflict checker on MPI programs: calls of the MPI order the accesses of some, and do not
//! order those of others.

use std::path::Path;

use super::hosts::{Host, Language};
use super::running::{Run, printed, refused, verified};

/// The checker reports the racy cases, and none that the host's calls order.
/// Shows E5.
/// Route: shm.
pub(super) fn checked(host: &'static Host) {
    const RACY: [&str; 3] = ["unflushed", "unordered", "bcast_of_last"];
    const RIGHT: [&str; 15] = [
        "barrier",
        "all_reduce",
        "bcast",
        "reduce",
        "scan",
        "split",
        "ibarrier",
        "message",
        "later_message",
        "chain",
        "flag",
        "locks",
        "fences",
        "groups",
        "twins",
    ];
    let program = host.program("checked", Language::C);
    for case in RACY.into_iter().chain(RIGHT) {
        let run = Run::of(host, program.clone(), 3).served().with("TRANSOM_CHECK", "1");
        let printed = verified(&run.given(vec![case.to_owned()], 60), false);
        let reports = printed.matches("transom: conflicting accesses to window").count();
        assert_eq!(reports, usize::from(RACY.contains(&case)), "{case}\n{printed}");
    }
    for (case, fails) in [("unordered", true), ("barrier", false)] {
        let run = Run::of(host, program.clone(), 3).served().with("TRANSOM_CHECK", "fail");
        let run = run.given(vec![case.to_owned()], 60);
        if fails {
            refused(&run, "the conflict checker has made reports")
        } else {
            verified(&run, false)
        };
    }
    places_without_debug_information(host, &program);
    let ending = Run::of(host, host.program("thread_ends", Language::C), 2).served();
    verified(&ending.with("TRANSOM_CHECK", "1"), false);
    // Tried with these versions only.
    if host.is_old {
        verified(&Run::of(host, host.program("between", Language::C), 4).served().with("TRANSOM_CHECK", "1"), false);
    }
    let run = Run::of(host, program, 3).served().with("TRANSOM_CHECK", "1").with("TRANSOM_CHECK_WAIT", "1");
    let printed = printed(&run.given(vec!["deadlock".to_owned()], 60).output());
    for call in ["rank 0: MPI_Recv, deadlock", "rank 1: MPI_Barrier, barrier", "rank 2: fence of window 2, deadlock"] {
        assert!(printed.contains(call), "{call:?} is not in\n{printed}");
    }
}

/// Users may have a library without debug information.
fn places_without_debug_information(host: &'static Host, program: &Path) {
    let run = Run::of(host, program.to_owned(), 3).with("LD_PRELOAD", host.stripped_library());
    let printed = verified(&run.with("TRANSOM_CHECK", "1").given(vec!["unordered".to_owned()], 60), false);
    for call in ["put of bytes 0..8, put at ", "get of bytes 0..8, get at "] {
        let line = printed.lines().find(|line| line.contains(call)).unwrap_or_default();
        assert!(line.contains("programs/checked.c:"), "{call:?} names no place of the program in\n{printed}");
    }
}
