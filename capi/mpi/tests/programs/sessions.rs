//! Programs that use sessions of MPI and not `MPI_Init`.

use super::hosts::{Host, Language};
use super::running::{Run, printed};

/// Regression: a program of sessions alone was not told that it is not checked. The
/// program uses no sessions with Open MPI, whose version 5 implements MPI 3.1.
/// Shows E5.
/// Route: shm.
pub(super) fn alone(host: &'static Host) {
    for (variable, value, warnings) in [("TRANSOM_CHECK", "1", 1), ("TRANSOM_MPI", "off", 0)] {
        let run = Run::of(host, host.program("session", Language::C), 2).served().with(variable, value);
        let printed = printed(&run.given(vec!["alone".to_owned()], 60).output());
        let expected = if host.name.starts_with("open_mpi") { 0 } else { warnings };
        assert_eq!(printed.matches("the program uses sessions alone").count(), expected, "{printed}");
    }
}
