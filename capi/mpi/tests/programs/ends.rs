//! Windows whose end is refused.

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
