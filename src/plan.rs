//! What the ranks agree on at start: who shares a node with whom, and who performs atomics (DESIGN §3, §5). Pure: the
//! same inputs give the same answer at every rank.

use crate::settings::Atomics;

/// Who performs the accumulate family of a window, all its functions, on integers of 64 bits, and of 32 where the device has those; other
/// types are always the CPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The CPU: atomics on mapped memory; for others, messages that the target's CPU executes.
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

/// What one rank says of itself before any transport is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What ranks that could share memory have in common; `None` where shared memory is excluded.
    pub(crate) node: Option<String>,
}

/// For each rank the lowest rank that claims the same node: its node's leader, if mapping the leader's memory proves it.
pub(crate) fn candidates(claims: &[Claim]) -> Vec<usize> {
    let leader = |rank: usize| match &claims[rank].node {
        Some(node) => claims.iter().position(|other| other.node.as_ref() == Some(node)).unwrap_or(rank),
        None => rank,
    };
    (0..claims.len()).map(leader).collect()
}

/// The node of each rank, named by its leader's rank: its candidate where the proof succeeded, else a node of its own.
pub(crate) fn nodes(candidates: &[usize], proven: &[bool]) -> Vec<usize> {
    candidates
        .iter()
        .zip(proven)
        .enumerate()
        .map(|(rank, (&leader, &proven))| if proven { leader } else { rank })
        .collect()
}

/// What atomics the net has, at every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amos {
    /// Not all that a window needs.
    None,
    /// All, performed by the provider's software at the target: no faster than messages of ours.
    Software,
    /// Those of 64 bits but for replacing, performed by the device: what RDMA verbs have.
    Words,
    /// All, performed by the device.
    Native,
}

impl Amos {
    /// The one that `as u8` gives.
    pub(crate) fn of_number(number: u8) -> Option<Amos> {
        [Amos::None, Amos::Software, Amos::Words, Amos::Native].into_iter().find(|amos| *amos as u8 == number)
    }

    /// What it comes to that a libfabric provider has `all` atomics: providers over sockets, and the layers that give others
    /// messages, perform them by software.
    pub fn of_provider(provider: &str, all: bool) -> Amos {
        const SOFTWARE: [&str; 7] = ["ofi_rxm", "ofi_rxd", "tcp", "udp", "net", "sockets", "shm"];
        match all {
            false => Amos::None,
            true if provider.split(';').any(|part| SOFTWARE.contains(&part)) => Amos::Software,
            true => Amos::Native,
        }
    }
}

/// The atomicity actor of integers of 64 bits, and of 32 where the net has those, in windows, and of windows' control words. Other
/// types are always the target CPU's.
///
/// # Errors
/// What was asked for can't be, and why.
pub(crate) fn actor(wanted: Atomics, nodes: &[usize], amos: Amos) -> Result<Actor, String> {
    let alone = nodes.iter().enumerate().all(|(rank, &node)| rank == node);
    let one_node = nodes.iter().all(|&node| node == 0);
    match wanted {
        Atomics::Cpu => Ok(Actor::Cpu),
        Atomics::Auto if one_node || !alone || amos < Amos::Words => Ok(Actor::Cpu),
        Atomics::Auto => Ok(Actor::Nic),
        Atomics::Nic if one_node => {
            Err("atomics by nic are wanted, but all ranks share one node and no net is open".into())
        }
        Atomics::Nic if !alone => {
            Err("atomics by nic are wanted, but ranks share nodes, between which no net leads".into())
        }
        Atomics::Nic if amos == Amos::None => {
            Err("atomics by nic are wanted, but the provider does not perform all atomics".into())
        }
        Atomics::Nic => Ok(Actor::Nic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(nodes: &[Option<&str>]) -> Vec<Claim> {
        nodes.iter().map(|node| Claim { node: node.map(str::to_owned) }).collect()
    }

    #[test]
    fn ranks_of_one_machine_follow_its_lowest_rank_if_proven() {
        let candidates = candidates(&claims(&[Some("a"), Some("b"), Some("a"), None, Some("b"), None]));
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
