//! The agreement of the ranks at start: which ranks share a node, and which actor performs atomics.
//! Pure: the same inputs give the same answer at every rank.

use std::collections::HashMap;
use std::hash::Hash;

use crate::environment::Atomics;
use crate::error::AtomicsError;

/// The actor that performs all accumulate functions of a window on integers of 64 bits, and of 32
/// bits where the device has those. The CPU performs them on all other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The CPU: by atomics on mapped memory, else by messages that the target's CPU executes.
    Cpu,
    /// The provider or device, also for a rank's own part.
    Nic,
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Actor::Cpu => "cpu",
            Actor::Nic => "nic",
        })
    }
}

/// For each rank the lowest rank with an equal claim. That rank is the leader of its node, if
/// mapping the leader's memory proves that they share memory. Ranks that could share memory have
/// equal claims; the claim is `None` where shared memory is excluded. Linear in the number of
/// ranks.
pub(crate) fn candidates<N: Eq + Hash>(claims: impl IntoIterator<Item = Option<N>>) -> Vec<usize> {
    let mut leaders = HashMap::new();
    let leader = |(rank, claim): (usize, Option<N>)| claim.map_or(rank, |node| *leaders.entry(node).or_insert(rank));
    claims.into_iter().enumerate().map(leader).collect()
}

/// The node of each rank, named by its leader's rank: the candidate if the proof succeeded, else a
/// node of the rank's own.
pub(crate) fn nodes(candidates: &[usize], proven: &[bool]) -> Vec<usize> {
    candidates
        .iter()
        .zip(proven)
        .enumerate()
        .map(|(rank, (&leader, &proven))| if proven { leader } else { rank })
        .collect()
}

/// The atomics that the net has at every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amos {
    /// Fewer than a window needs.
    None,
    /// All, performed by the provider's software at the target: no faster than this library's
    /// messages.
    Software,
    /// 64-bit fetch-add and compare-and-swap in hardware, no swap: RDMA verbs.
    Words,
    /// All, performed by the device.
    Native,
}

impl Amos {
    /// The value whose `as u8` is `number`.
    pub(crate) fn of_number(number: u8) -> Option<Amos> {
        [Amos::None, Amos::Software, Amos::Words, Amos::Native].into_iter().find(|amos| *amos as u8 == number)
    }

    /// The atomics of a libfabric provider, of which `all` says whether it offers all. Providers
    /// over sockets perform them by software, and so do the layers that add messages to other
    /// providers.
    pub fn of_provider(provider: &str, all: bool) -> Amos {
        const SOFTWARE: [&str; 7] = ["ofi_rxm", "ofi_rxd", "tcp", "udp", "net", "sockets", "shm"];
        match all {
            false => Amos::None,
            true if provider.split(';').any(|part| SOFTWARE.contains(&part)) => Amos::Software,
            true => Amos::Native,
        }
    }
}

/// The actor of accumulates on integers of 64 bits, and of 32 bits where the net has those, and of
/// atomics on windows' control words. The target's CPU performs accumulates on all other types.
///
/// # Errors
/// The reason why the wanted actor is impossible.
pub(crate) fn actor(wanted: Atomics, nodes: &[usize], amos: Amos) -> Result<Actor, AtomicsError> {
    let alone = nodes.iter().enumerate().all(|(rank, &node)| rank == node);
    let one_node = nodes.iter().all(|&node| node == 0);
    match wanted {
        Atomics::Cpu => Ok(Actor::Cpu),
        Atomics::Auto if one_node || !alone || amos < Amos::Words => Ok(Actor::Cpu),
        Atomics::Auto => Ok(Actor::Nic),
        Atomics::Nic if one_node => Err(AtomicsError::OneNode),
        Atomics::Nic if !alone => Err(AtomicsError::SharedNodes),
        Atomics::Nic if amos == Amos::None => Err(AtomicsError::Provider),
        Atomics::Nic => Ok(Actor::Nic),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    /// A node that counts its hashes and comparisons.
    #[derive(Clone)]
    struct Counted<'c> {
        node: usize,
        looks: &'c Cell<usize>,
    }

    impl Counted<'_> {
        fn look(&self) -> usize {
            self.looks.set(self.looks.get() + 1);
            self.node
        }
    }

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.look() == other.node
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.look().hash(state);
        }
    }

    /// Comparing each rank with all ranks before it took 5.7 s for 32,768 ranks.
    #[test]
    fn leaders_are_found_in_linear_time() {
        const RANKS: usize = 32_768;
        for per_node in [1, 2, 64, RANKS] {
            let looks = Cell::new(0);
            let claims = (0..RANKS).map(|rank| Some(Counted { node: rank / per_node, looks: &looks }));
            let found = candidates(claims);
            assert!(found.into_iter().enumerate().all(|(rank, leader)| leader == rank / per_node * per_node));
            // One hash for each rank and each growth of the table, and a comparison or two.
            assert!(looks.get() <= 6 * RANKS, "{} looks, {per_node} ranks a node", looks.get());
        }
    }

    #[test]
    fn ranks_of_one_machine_follow_its_lowest_rank_if_proven() {
        let candidates = candidates([Some("a"), Some("b"), Some("a"), None, Some("b"), None]);
        assert_eq!(candidates, [0, 1, 0, 3, 1, 5]);
        assert_eq!(nodes(&candidates, &[true; 6]), [0, 1, 0, 3, 1, 5]);
        assert_eq!(nodes(&candidates, &[true, true, false, true, true, true]), [0, 1, 2, 3, 1, 5]);
    }

    #[test]
    fn atomics_are_the_devices_unless_a_provider_is_known_to_emulate_them() {
        let all = |provider| Amos::of_provider(provider, true);
        assert_eq!(["tcp;ofi_rxm", "verbs;ofi_rxm", "sockets"].map(all), [Amos::Software; 3]);
        assert_eq!(all("cxi"), Amos::Native);
        assert_eq!(Amos::of_provider("cxi", false), Amos::None);
    }

    #[test]
    fn the_actor_follows_the_three_rules() {
        use Amos::{Native, None, Software, Words};
        use Atomics::{Auto, Cpu, Nic};
        assert_eq!(actor(Auto, &[0, 0, 0], Native), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, &[0, 1, 2], Native), Ok(Actor::Nic));
        assert_eq!(actor(Auto, &[0, 1, 2], Words), Ok(Actor::Nic));
        assert_eq!(actor(Auto, &[0, 1, 2], Software), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, &[0, 1, 2], None), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, &[0, 0, 2], Native), Ok(Actor::Cpu));
        assert_eq!(actor(Cpu, &[0, 1, 2], Native), Ok(Actor::Cpu));
        assert_eq!(actor(Nic, &[0, 1, 2], Software), Ok(Actor::Nic));
        assert!(actor(Nic, &[0, 1, 2], None).is_err() && actor(Nic, &[0, 0], Native).is_err());
        assert!(actor(Nic, &[0, 0, 2], Native).is_err(), "ranks of one node reach each other by no net");
    }
}
