//! The agreement of the ranks at start: which ranks share a node, and which actor performs atomics.
//! Pure: equal inputs give equal results at every rank.

use std::collections::HashMap;
use std::hash::Hash;

use crate::environment::Atomics;
use crate::error::AtomicsError;

/// The hardware that performs the accumulates of a window on integers of 64 bits, and of 32 bits
/// where the device has such atomics: the CPU, the network device, or both. The CPU performs
/// accumulates on all other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The CPU: by atomics on mapped memory, else by messages that the target's CPU executes.
    Cpu,
    /// The provider or device. The device also performs the atomics on a rank's own part and those
    /// between ranks of a node, through its loopback.
    Nic,
    /// The CPU within a node and the device between nodes, on the same words: for devices whose
    /// atomics are atomic with those of the CPU (in verbs' terms, `IBV_ATOMIC_GLOB`).
    Both,
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Actor::Cpu => "cpu",
            Actor::Nic => "nic",
            Actor::Both => "cpu and nic",
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
/// separate node.
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

    /// The atomics of a libfabric provider. `all`: whether the provider offers all atomics.
    /// Providers over sockets perform them in software. So do the layers that add messages to other
    /// providers, and the libraries of EFA and Omni-Path, whose devices have no atomics.
    pub fn of_provider(provider: &str, all: bool) -> Amos {
        const SOFTWARE: [&str; 12] =
            ["ofi_rxm", "ofi_rxd", "tcp", "udp", "net", "sockets", "shm", "efa", "opx", "psm2", "psm3", "lnx"];
        match all {
            false => Amos::None,
            true if provider.split(';').any(|part| SOFTWARE.contains(&part)) => Amos::Software,
            true => Amos::Native,
        }
    }
}

/// The atomics of a net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetAtomics {
    /// The atomics that the net has at every rank.
    pub amos: Amos,
    /// Whether these are atomic with the CPU's on the same word, at every rank.
    pub coherent: bool,
}

impl NetAtomics {
    /// No net is open.
    pub(crate) const NO_NET: NetAtomics = NetAtomics { amos: Amos::None, coherent: false };
}

/// The actor of accumulates on integers of 64 bits, and of 32 bits where the net has those, and of
/// atomics on windows' control words. The target's CPU performs accumulates on all other types.
/// `one_node`: whether the window's ranks share a node.
///
/// # Errors
/// The reason why the requested actor is impossible.
pub(crate) fn actor(requested: Atomics, one_node: bool, net: NetAtomics) -> Result<Actor, AtomicsError> {
    match requested {
        Atomics::Cpu => Ok(Actor::Cpu),
        Atomics::Auto if one_node || net.amos < Amos::Words => Ok(Actor::Cpu),
        Atomics::Auto if net.coherent => Ok(Actor::Both),
        Atomics::Auto => Ok(Actor::Nic),
        Atomics::Nic if net.amos == Amos::None && one_node => Err(AtomicsError::OneNode),
        Atomics::Nic if net.amos == Amos::None => Err(AtomicsError::Provider),
        Atomics::Nic => Ok(Actor::Nic),
    }
}

/// The reason of the choice of [`actor`], in words.
pub(crate) fn reason(requested: Atomics, one_node: bool, net: NetAtomics) -> &'static str {
    match requested {
        Atomics::Cpu | Atomics::Nic => "as TRANSOM_ATOMICS asks",
        Atomics::Auto if one_node => "all ranks share a node",
        Atomics::Auto => match net.amos {
            Amos::None => "the net lacks atomics",
            Amos::Software => "the provider performs atomics by software",
            Amos::Words | Amos::Native if net.coherent => "the device's atomics are atomic with the CPU's",
            Amos::Words | Amos::Native => "the device's atomics are not atomic with the CPU's",
        },
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
        assert_eq!(
            ["tcp;ofi_rxm", "verbs;ofi_rxm", "sockets", "efa", "opx", "psm3", "lnx"].map(all),
            [Amos::Software; 7]
        );
        assert_eq!(all("cxi"), Amos::Native);
        assert_eq!(Amos::of_provider("cxi", false), Amos::None);
    }

    #[test]
    fn the_actor_follows_the_rules() {
        use Amos::{Native, None, Software, Words};
        use Atomics::{Auto, Cpu, Nic};
        let [apart, one_node] = [false, true];
        let net = |amos| NetAtomics { amos, coherent: false };
        let coherent = |amos| NetAtomics { amos, coherent: true };
        assert_eq!(actor(Auto, one_node, net(Native)), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, one_node, coherent(Native)), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, apart, net(Native)), Ok(Actor::Nic));
        assert_eq!(actor(Auto, apart, net(Words)), Ok(Actor::Nic));
        assert_eq!(actor(Auto, apart, coherent(Words)), Ok(Actor::Both));
        assert_eq!(actor(Auto, apart, coherent(Software)), Ok(Actor::Cpu));
        assert_eq!(actor(Auto, apart, NetAtomics::NO_NET), Ok(Actor::Cpu));
        assert_eq!(actor(Cpu, apart, coherent(Native)), Ok(Actor::Cpu));
        assert_eq!(actor(Nic, apart, net(Software)), Ok(Actor::Nic));
        assert_eq!(actor(Nic, apart, coherent(Words)), Ok(Actor::Nic), "a program may ask for the device alone");
        assert_eq!(actor(Nic, one_node, net(Native)), Ok(Actor::Nic), "the device's loopback");
        assert!(actor(Nic, apart, net(None)).is_err() && actor(Nic, one_node, NetAtomics::NO_NET).is_err());
        let reasons = [(Auto, one_node, Native), (Auto, apart, Words), (Auto, apart, Software), (Nic, apart, Native)]
            .map(|(requested, one_node, amos)| reason(requested, one_node, net(amos)));
        assert!(reasons.iter().enumerate().all(|(i, one)| !reasons[..i].contains(one)), "{reasons:?}");
    }
}
