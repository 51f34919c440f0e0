//! Programs that use sessions of MPI and not `MPI_Init`.

use super::hosts::{Host, Language};
use super::running::{Run, printed, verified};

/// Regression: no warning said that a program without the World model is not checked.
/// Shows E5.
/// Route: shm.
pub(super) fn alone(host: &'static Host) {
    for (variable, value, warnings) in [("TRANSOM_CHECK", "1", 1), ("TRANSOM_MPI", "off", 0)] {
        let run = Run::of(host, host.program("session", Language::C), 2).served().with(variable, value);
        let run = run.given(vec!["alone".to_owned()], 60);
        // Also without the library, the get of MPICH 4.0 has wrong data.
        let printed = if host.name == "mpich" { printed(&run.output()) } else { verified(&run, false) };
        assert!(printed.contains("ok a window of a session alone"), "{printed}");
        assert!(!printed.contains("watchdog: rank "), "it hung:\n{printed}");
        assert_eq!(printed.matches("the program uses sessions alone").count(), warnings, "{printed}");
    }
}
