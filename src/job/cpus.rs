//! Whether ranks of a machine have to share CPUs. Such ranks sleep early when they wait, because
//! polling would take the CPU from the rank for which they wait.

use super::cards::Card;
use crate::cgroups::Quota;
use crate::transport::topology;

/// The CPUs on which this process may run, as a number: equal for equal sets.
pub(super) fn own() -> u64 {
    // FNV-1a, in steps of words.
    topology::allowed_cpus()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, cpu| (hash ^ cpu as u64).wrapping_mul(0x0100_0000_01b3))
}

/// Whether rank `me` has to share CPUs. `quotas`: the limits of its control groups.
pub(super) fn are_crowded(me: usize, cards: &[Card], quotas: &[Quota]) -> bool {
    let here = || cards.iter().filter(|card| card.machine == cards[me].machine);
    let alike = here().filter(|card| card.cpus == cards[me].cpus).count();
    exceed(alike, topology::allowed_cpus().len(), here().count(), online())
        || quotas.iter().any(|&quota| exceed_quota(here(), quota))
}

/// Whether the ranks whose CPU time `quota` limits exceed its CPUs. Ranks that are bound to
/// different CPUs also use up one quota, and the kernel then stops all of them for a time.
fn exceed_quota<'c>(here: impl Iterator<Item = &'c Card>, quota: Quota) -> bool {
    here.filter(|card| card.quota_groups.contains(&quota.group)).count() > quota.cpus
}

/// Whether the ranks that are bound to the same CPUs, `alike`, exceed the number of these CPUs,
/// `allowed`, or all ranks of the machine exceed its CPUs. A launcher may bind each rank to several
/// hardware threads, or all ranks of a socket to its CPUs.
fn exceed(alike: usize, allowed: usize, on_machine: usize, online: usize) -> bool {
    alike > allowed || on_machine > online
}

/// The machine's CPUs, whatever CPUs this process is bound to.
fn online() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let count = |range: &str| match range.split_once('-') {
        Some((low, high)) => Some(high.parse::<usize>().ok()?.checked_sub(low.parse().ok()?)? + 1),
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    list.trim().split(',').filter_map(count).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_crowded_if_they_exceed_the_cpus_that_they_share() {
        assert!(!exceed(1, 2, 64, 128), "each rank on both threads of a core");
        assert!(!exceed(32, 32, 64, 64), "two sockets");
        assert!(exceed(33, 32, 64, 128), "one socket has more ranks than CPUs");
        assert!(!exceed(1, 1, 64, 64), "each on its own CPU");
        assert!(exceed(2, 1, 2, 64), "both on one CPU");
        assert!(!exceed(64, 64, 64, 64) && exceed(65, 64, 65, 64), "not bound");
        assert!(exceed(1, 1, 3, 2), "more ranks than CPUs");
    }

    #[test]
    fn ranks_with_other_cpus_share_none() {
        let card = |machine: &str, cpus| Card { machine: machine.into(), cpus, ..Card::default() };
        let many = online() + 1;
        let apart: Vec<_> = (0..many).map(|rank| card(&format!("machine {rank}"), own())).collect();
        let together: Vec<_> = (0..many).map(|_| card("machine", own())).collect();
        assert!(!are_crowded(0, &apart, &[]) && are_crowded(0, &together, &[]));
    }

    /// Regression: ranks that were each bound to one CPU polled until their quota was used up.
    #[test]
    fn ranks_are_crowded_if_they_exceed_their_quota() {
        let card =
            |cpus, group| Card { machine: "machine".into(), cpus, quota_groups: [group, 9, 0, 0], ..Card::default() };
        let cards = [card(0, 7), card(1, 7), card(2, 8)];
        let exceed = |cpus| exceed_quota(cards.iter(), Quota { cpus, group: 7 });
        assert!(exceed(1), "two ranks, one CPU");
        assert!(!exceed(2), "the third rank has a quota of its own");
        assert!(are_crowded(0, &cards, &[Quota { cpus: 1, group: 7 }]));
        let nested = |cpus| exceed_quota(cards.iter(), Quota { cpus, group: 9 });
        assert!(nested(2) && !nested(3), "all three are below one group");
    }
}
