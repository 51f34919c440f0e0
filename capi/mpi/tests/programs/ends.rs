//! Ends of windows that are refused, and of programs after an error.

use super::hosts::{Host, Language};
use super::running::{Run, refused, verified};

/// Regression: with the checker a refused rank waited for ever for ranks that waited for it, and
/// printed no reason.
/// Shows E1, E5.
/// Route: shm.
pub(super) fn refused_free(host: &'static Host) {
    let run = |how: &str, check: &str| {
        let run = Run::of(host, host.program("refused_free", Language::C), 3).served().info();
        run.with("TRANSOM_CHECK", check).given(vec![how.to_owned()], 60)
    };
    for check in ["0", "1"] {
        for how in ["wait", "lock"] {
            refused(&run(how, check), "transom: free: free within ");
        }
        for how in ["message", "free"] {
            verified(&run(how, check), true);
        }
    }
}

/// Without a handler of a window's own, MPICH applies that of `MPI_COMM_WORLD`; Open MPI ends the
/// program, as MPI requires (MPI-4.1 §9.3).
/// Shows E1.
/// Route: shm.
pub(super) fn failure(host: &'static Host) {
    const TEXT: &str = "put at rank 0: no access epoch is open";
    let run = || Run::of(host, host.program("fatal", Language::C), 2);
    let given = |run: Run, how: &str| run.given(vec![how.to_owned()], 60);
    refused(&run().served(), TEXT);
    // Regression: freeing a second window in a function of atexit ended the program.
    verified(&given(run().served(), "exit"), false);
    match host.interface() {
        "open_mpi" => _ = refused(&given(run().served(), "world"), TEXT),
        _ => {
            for how in ["world", "self"] {
                [run(), run().served()].map(|run| verified(&given(run, how), false)).into_iter().for_each(drop);
            }
            refused(&given(run().served(), "set"), TEXT);
            // Regression: MPI_ERRORS_ABORT, which only a program sets, counted as no handler. MPICH
            // 4.0 itself fails an assertion when it is set.
            if host.name != "mpich" {
                refused(&given(run().served(), "abort"), TEXT);
            }
        }
    }
}
