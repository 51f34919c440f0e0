//! Binds ranks to CPUs. A child inherits the affinity of the thread that starts it. This thread's
//! affinity is set during the start, so that no code runs between fork and exec.
//!
//! Without a resource manager several jobs of a machine are allowed the same CPUs. If each launcher
//! bound its first rank to the first CPU, the jobs would share few CPUs and leave the others idle.
//! A launcher therefore claims the CPUs to which it binds, and by default it binds to no CPU that
//! another launcher has claimed. A claim is the name of a socket, because the kernel gives a name
//! to one socket only, and frees the name with the launcher's process, however that ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::job::Bind;

/// The CPUs to which ranks are bound.
#[derive(Debug)]
pub(super) struct Places<C = Claim> {
    /// The CPU of each rank, by rank.
    pub(super) cpus: Vec<usize>,
    /// The claims to these CPUs, which end when this value is dropped.
    _claims: Vec<C>,
}

/// A CPU to which other launchers do not bind their ranks by default, until the claim is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Claims a CPU; `None` if another launcher has claimed it.
    pub(super) fn of(cpu: usize) -> Option<Claim> {
        let name = SocketAddr::from_abstract_name(format!("transom-run/cpu{cpu}")).ok()?;
        UnixDatagram::bind_addr(&name).ok().map(|socket| Claim { _socket: socket })
    }
}

/// The CPU of each rank; `None` where ranks are not bound. `allowed` are the CPUs of this process.
/// Claims the CPUs by `claim`. By default ranks that exceed `quota`, the CPUs whose time the
/// control groups grant, are not bound: the kernel stops all of them when they have used the time.
pub(super) fn plan<C>(
    bind: Bind,
    size: usize,
    allowed: &[usize],
    quota: Option<usize>,
    claim: impl Fn(usize) -> Option<C>,
) -> Option<Places<C>> {
    match bind {
        Bind::Auto if size <= allowed.len().min(quota.unwrap_or(usize::MAX)) => {
            let free = allowed.iter().filter_map(|&cpu| Some((cpu, claim(cpu)?)));
            let (cpus, claims): (Vec<_>, Vec<_>) = free.take(size).unzip();
            (cpus.len() == size).then_some(Places { cpus, _claims: claims })
        }
        Bind::Core if !allowed.is_empty() => {
            let cpus = allowed.iter().copied().cycle().take(size).collect();
            Some(Places { cpus, _claims: allowed.iter().take(size).filter_map(|&cpu| claim(cpu)).collect() })
        }
        Bind::Auto | Bind::Core | Bind::None => None,
    }
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
    use super::{Bind, Bound, Claim, allowed_cpus, plan};

    #[test]
    fn ranks_are_bound_by_default_where_there_are_enough_cpus() {
        let cpus = |bind, size, allowed: &[usize]| plan(bind, size, allowed, None, Some).map(|places| places.cpus);
        assert_eq!(cpus(Bind::Auto, 2, &[4, 6]), Some(vec![4, 6]));
        assert_eq!(cpus(Bind::Auto, 1, &[4, 6]), Some(vec![4]));
        assert_eq!(cpus(Bind::Auto, 3, &[4, 6]), None);
        assert_eq!(cpus(Bind::Core, 3, &[4, 6]), Some(vec![4, 6, 4]));
        assert_eq!(cpus(Bind::Core, 3, &[]), None);
        assert_eq!(cpus(Bind::None, 1, &[4, 6]), None);
    }

    /// Regression: ranks were bound to CPUs whose time their control group did not grant.
    #[test]
    fn ranks_are_bound_by_default_within_their_quota() {
        let cpus = |bind, size| plan(bind, size, &[4, 6, 8], Some(2), Some).map(|places| places.cpus);
        assert_eq!(cpus(Bind::Auto, 2), Some(vec![4, 6]));
        assert_eq!(cpus(Bind::Auto, 3), None);
        assert_eq!(cpus(Bind::Core, 3), Some(vec![4, 6, 8]), "the user demands it");
    }

    /// Regression: the ranks of two jobs were bound to the same CPUs, and the other CPUs were idle.
    #[test]
    fn ranks_are_not_bound_to_the_cpus_of_other_jobs_by_default() {
        let others = |cpu| (cpu != 6).then_some(cpu);
        let cpus = |bind, size| plan(bind, size, &[4, 6, 8, 9], None, others).map(|places| places.cpus);
        assert_eq!(cpus(Bind::Auto, 3), Some(vec![4, 8, 9]));
        assert_eq!(cpus(Bind::Auto, 4), None, "too few are free");
        assert_eq!(cpus(Bind::Core, 3), Some(vec![4, 6, 8]), "the user demands it");
    }

    #[test]
    fn a_cpu_is_claimed_once_until_the_claim_ends() {
        // No machine has such a CPU, so no other launcher claims it.
        let number = 1 << 20 | std::process::id() as usize;
        let first = Claim::of(number);
        assert!(first.is_some() && Claim::of(number).is_none() && Claim::of(number + (1 << 32)).is_some());
        drop(first);
        assert!(Claim::of(number).is_some());
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
