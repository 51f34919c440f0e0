//! Binds ranks to CPUs. A child inherits the affinity of the thread that starts it. This thread's
//! affinity is set during the start, so that no code runs between fork and exec.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::job::Bind;

/// The CPU of each rank, by rank; `None` where ranks are not bound. `allowed` are the CPUs of this
/// process.
pub(super) fn plan(bind: Bind, size: usize, allowed: &[usize]) -> Option<Vec<usize>> {
    let bound = match bind {
        Bind::Auto => size <= allowed.len(),
        Bind::Core => !allowed.is_empty(),
        Bind::None => false,
    };
    bound.then(|| allowed.iter().copied().cycle().take(size).collect())
}

/// The CPUs that this thread may use, ascending; empty where the system gives none.
pub(super) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// This thread, bound to one CPU until it is dropped.
#[derive(Debug)]
pub(super) struct Bound {
    before: CpuSet,
}

impl Bound {
    pub(super) fn to(cpu: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // If the former affinity is refused, the launcher stays on this CPU.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bind, Bound, allowed_cpus, plan};

    #[test]
    fn ranks_are_bound_by_default_where_there_are_enough_cpus() {
        assert_eq!(plan(Bind::Auto, 2, &[4, 6]), Some(vec![4, 6]));
        assert_eq!(plan(Bind::Auto, 1, &[4, 6]), Some(vec![4]));
        assert_eq!(plan(Bind::Auto, 3, &[4, 6]), None);
        assert_eq!(plan(Bind::Core, 3, &[4, 6]), Some(vec![4, 6, 4]));
        assert_eq!(plan(Bind::Core, 3, &[]), None);
        assert_eq!(plan(Bind::None, 1, &[4, 6]), None);
    }

    #[test]
    fn binding_ends_with_the_value() {
        let before = allowed_cpus();
        let last = *before.last().unwrap();
        let bound = Bound::to(last).unwrap();
        assert_eq!(allowed_cpus(), [last]);
        drop(bound);
        assert_eq!(allowed_cpus(), before);
    }
}
