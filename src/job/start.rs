//! The start of a job: own memory, nodes, the net where one is needed, and the agreement of all
//! ranks. A job on one node opens no net and takes two exchanges. Other jobs take at most three
//! more exchanges and two broadcasts from rank 0, and one more of each for each provider of
//! libfabric that a rank can't open ([`nets`]).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use transom_fabric::devices::{Nodes, Place};
use transom_fabric::sim::SimDomain;
use transom_fabric::{Domain, Memory, Port, diagnostics, gate};

use super::block::{self, Block};
use super::cards::{Card, Required, key_bytes, key_from};
use super::exchange::{Copy, Exchange, HeapCopies};
use super::nets::{self, Wanted};
use super::peers::Peers;
use super::warnings::Warned;
use super::{Delayed, Flags, JobCore, Presence, Team, checked, cpus, descriptors, peer, report, team};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::fields::{pack, unpack};
use crate::cgroups::{self, QUOTAS};
use crate::check;
use crate::environment::Settings;
use crate::error::{Error, JobError, NetName, Result, SharedSettings};
use crate::failures::connections::{Connections, RemoteRank, SILENCE};
use crate::failures::listener::Listener;
use crate::failures::{Detector, Process};
use crate::interfaces::{self, Interface, Site};
use crate::progress::Progress;
use crate::routes::{self, Amos, NetAtomics};
use crate::sync::stripe::{self, Visitor};
use crate::transport::{self, Lane, Net, NetRegion, ShmRegion, SpinBudget, Way, Wire};

type Boot = Box<dyn Bootstrap>;
pub(super) type Exchanging<'a> = Exchange<HeapCopies<'a>>;

/// Starts this rank. `simulated`: the net between nodes, instead of a real one. Every rank is then
/// a separate node without shared memory, unless the settings simulate a number of nodes.
pub(super) fn start(boot: Boot, settings: Settings, simulated: Option<Arc<SimDomain>>) -> Result<Arc<JobCore>> {
    let (rank, size) = (boot.rank(), boot.size());
    // Messages have 32 bits for a rank, and the job's own barrier has slots for 2^32 ranks.
    if size == 0 || u32::try_from(size).is_err() {
        return Err(JobError::NumberOfRanks { ranks: size }.into());
    }
    let shm = match simulated {
        Some(_) if settings.pretended.nodes.is_none() => None,
        _ => Some(transport::open_shm(peer(rank), settings.populate, settings.without_xpmem(rank))?),
    };
    // The job block is registered before the net is open: the net opens after the nodes are known.
    let early = Wire::new(shm.clone(), None);
    let block = early.reserve(checked::bytes(&settings, size))?;
    let block_shm = early.register_shm(&block)?;

    let address = shm.as_ref().map(|(_, domain)| domain.port().address());
    let copies = HeapCopies::new(&early, address.clone().filter(|_| settings.shm));
    let mut boot = Exchange::new(boot, copies)?;
    let mut cards = exchange_cards(&mut boot, &settings, address, &block_shm)?;
    let nodes = find_nodes(&mut boot, &early, &settings, &cards)?;
    let one_node = nodes.iter().all(|&node| node == 0);
    let source = source(&settings, rank, &cards);
    let net = match simulated {
        Some(domain) => Some((Net::Sim(domain), None)),
        None if one_node => None,
        None => {
            let (place, apart) = (place(rank, &cards), apart(&cards, &nodes));
            Some(nets::open(&mut boot, &Wanted { settings: &settings, apart, source: &source, place })?)
        }
    };
    let (net, unused) = net.map_or((None, None), |(net, unused)| (Some(net), unused));
    let on_node = nodes.iter().filter(|&&node| node == nodes[rank]).count();
    descriptors::make_room_for_program(on_node, size - on_node);
    let wire = Arc::new(Wire::new(shm, net));
    let listener = open_listener(&wire, &source, rank, &cards);
    let (block_net, atomics) = join_net(&mut boot, &wire, &block, &mut cards, listener.as_ref())?;
    routes::actor(settings.atomics, one_node, atomics).map_err(JobError::from)?;
    let (boot, copies) = boot.into_parts();
    let on_machine = cards.iter().filter(|card| card.machine == cards[rank].machine).count();
    let core = assemble(Assembly {
        boot,
        settings,
        wire,
        atomics,
        nodes,
        cards,
        block,
        regions: (block_shm, block_net),
        copies: copies.into_copies(),
        on_machine,
        source,
        unused,
        listener,
    })?;
    if core.settings.info && rank == 0 {
        diagnostics::print_requested(&report::in_words(&core));
    }
    Ok(core)
}

/// The parts of a job, before it is assembled.
struct Assembly {
    boot: Boot,
    settings: Settings,
    wire: Arc<Wire>,
    atomics: NetAtomics,
    nodes: Vec<usize>,
    cards: Vec<Card>,
    block: Memory,
    regions: (Option<ShmRegion>, Option<NetRegion>),
    copies: Vec<Copy>,
    on_machine: usize,
    source: Interface,
    unused: Option<String>,
    listener: Option<Listener>,
}

fn assemble(parts: Assembly) -> Result<Arc<JobCore>> {
    let (me, size) = (parts.boot.rank(), parts.boot.size());
    let crowded = cpus::are_crowded(me, &parts.cards, &cgroups::cpu_quotas());
    stripe::begin(crowded);
    let spin = if crowded { SpinBudget::NONE } else { SpinBudget::choose(parts.on_machine, parts.on_machine) };
    let messages = super::staging::messages(&parts.wire);
    let has_net = parts.wire.has(Lane::Net);
    let serve = parts.wire.net().is_some_and(Net::needs_service);
    let processes: Vec<Process> = parts.cards.iter().map(|card| card.process.clone()).collect();
    let strict = parts.wire.net().is_some_and(Net::uses_ip);
    let silence = parts.settings.silence.unwrap_or(SILENCE);
    let remote = parts
        .listener
        .is_some()
        .then(|| Connections::new(me, parts.source.clone(), silence, strict, remote_ranks(me, &parts.cards)));
    let detector = Detector::new(me, &processes, remote);
    let alone = parts.nodes.iter().filter(|&&node| node == parts.nodes[me]).count() == 1;
    let progress = Progress::new(Arc::clone(&parts.wire), Arc::clone(&messages), detector, me, crowded, alone);
    parts.wire.set_addresses(addresses(me, &parts.nodes, &parts.cards));
    let visitor = visitor(me, &parts.nodes, &parts.cards);
    let checker = checked::checker(&parts.settings, me, &parts.nodes, &parts.cards, &parts.block);
    let core = Arc::new(JobCore {
        rank: me,
        size,
        world: Arc::new(Team::world(me, size)),
        wire: parts.wire,
        messages,
        progress,
        spin,
        settings: parts.settings,
        atomics: parts.atomics,
        peers: Peers::new(me, parts.nodes, parts.cards),
        block: Block::new(me, size, parts.block, visitor, checker),
        presence: Presence {
            source: parts.source,
            unused: parts.unused,
            _regions: parts.regions,
            _copies: parts.copies,
            _listener: parts.listener,
        },
        team_names: team::TeamNames::default(),
        delayed: Delayed::default(),
        flags: Flags {
            serial: AtomicBool::new(false),
            polls: AtomicBool::new(has_net),
            warned: Warned::default(),
            leaked_window: AtomicBool::new(false),
            left: AtomicBool::new(false),
            serves_on: AtomicBool::new(false),
        },
        bootstrap: Mutex::new(parts.boot),
    });
    if serve {
        core.serve(Lane::Net)?;
    }
    Ok(core)
}

/// The position of this rank's visits among the ranks of its node.
fn visitor(me: usize, nodes: &[usize], cards: &[Card]) -> Visitor {
    let of_node = || (0..nodes.len()).filter(|&rank| nodes[rank] == nodes[me]);
    let index = of_node().take_while(|&rank| rank < me).count();
    block::visitor(index, of_node().count(), of_node().all(|rank| cards[rank].has_barrier))
}

/// The first rank of another machine than rank 0's, or else of another node; or else rank 0.
fn apart(cards: &[Card], nodes: &[usize]) -> usize {
    let machine = cards.iter().position(|card| card.machine != cards[0].machine);
    machine.or_else(|| nodes.iter().position(|&node| node != nodes[0])).unwrap_or(0)
}

/// The place of rank `me` among the ranks of its machine.
fn place(me: usize, cards: &[Card]) -> Place {
    let of_machine = cards[..me].iter().filter(|card| card.machine == cards[me].machine);
    Place { near: cards[me].near, before: of_machine.map(|card| card.near).collect() }
}

/// The remote ranks, with their addresses.
fn remote_ranks(me: usize, cards: &[Card]) -> Vec<RemoteRank> {
    let elsewhere = |(rank, card): (usize, &Card)| {
        let is_remote = rank != me && !card.process.is_seen_by(&cards[me].process);
        card.listener.filter(|_| is_remote).map(|(at, token)| RemoteRank {
            rank,
            host: card.process.host.clone(),
            at,
            token,
        })
    };
    cards.iter().enumerate().filter_map(elsewhere).collect()
}

/// The route to each rank: shared memory within the node, else the net. On the net a rank may be
/// its own peer.
fn addresses(me: usize, nodes: &[usize], cards: &[Card]) -> Vec<Option<Way>> {
    let way = |(rank, card): (usize, &Card)| {
        if rank != me && nodes[rank] == nodes[me] {
            Some((Lane::Shm, card.shm_address.clone()))
        } else {
            Some((Lane::Net, card.net_address.clone())).filter(|(_, address)| !address.is_empty())
        }
    };
    cards.iter().enumerate().map(way).collect()
}

/// The identity that ranks must share to map each other's memory: the running kernel and the
/// process namespace. Tests that pretend several nodes on one machine add the rank's pretended
/// node.
fn machine_identity(kernel: &str, rank: usize, pretended: Option<usize>) -> String {
    let node = pretended.map(|nodes| format!(" node {}", rank % nodes)).unwrap_or_default();
    format!("{kernel}{node}")
}

fn exchange_cards(
    boot: &mut Exchanging<'_>,
    settings: &Settings,
    address: Option<Vec<u8>>,
    block: &Option<ShmRegion>,
) -> Result<Vec<Card>> {
    let mine = own_card(settings, address, block).encode(&Required::own(settings));
    let mut cards = Vec::with_capacity(boot.size());
    for (rank, value) in boot.allgather("transom.card", &mine)?.iter().enumerate() {
        let (mut card, required) = Card::decode(value).ok_or_else(|| unreadable(rank))?;
        if let Err(error) = agreed(settings, boot.rank(), rank, &required) {
            // Every rank finds a rank whose settings differ from its own. All ranks pass a barrier
            // before any of them ends: otherwise a launcher would end the others before they have
            // printed the error.
            drop(boot.barrier());
            return Err(error.into());
        }
        card.machine = machine_identity(&card.process.kernel, rank, settings.pretended.nodes);
        cards.push(card);
    }
    Ok(cards)
}

/// This rank's card, as far as it is known before the net is open. `address` and `block`: this rank
/// and its job block within the node.
fn own_card(settings: &Settings, address: Option<Vec<u8>>, block: &Option<ShmRegion>) -> Card {
    let mut quota_groups = [0; QUOTAS];
    for (group, quota) in quota_groups.iter_mut().zip(cgroups::cpu_quotas()) {
        *group = quota.group;
    }
    Card {
        process: Process::own(),
        has_barrier: gate::is_supported(),
        has_sanitizer: settings.check.on && check::has_sanitizer(),
        cpus: cpus::own(),
        quota_groups,
        memory_group: cgroups::memory_group(),
        near: Nodes::own(),
        // Simulated ranks are threads of this process.
        site: if address.is_some() { Site::own(settings.interfaces.as_deref()) } else { Site::default() },
        shm_address: address.unwrap_or_default(),
        shm_block: block.as_ref().map(transport::shm_key).unwrap_or_default(),
        ..Card::default()
    }
}

pub(super) fn unreadable(rank: usize) -> Error {
    JobError::Unreadable { rank }.into()
}

/// Ranks of each node: claimed by identity, proven by mapping the leader's memory.
fn find_nodes(boot: &mut Exchanging<'_>, wire: &Wire, settings: &Settings, cards: &[Card]) -> Result<Vec<usize>> {
    let shares = |card: &Card| settings.shm && !card.shm_address.is_empty();
    let candidates = routes::candidates(cards.iter().map(|card| shares(card).then_some(card.machine.as_str())));
    let (rank, leader) = (boot.rank(), candidates[boot.rank()]);
    let proof = if leader == rank { Ok(()) } else { wire.connect(Lane::Shm, peer(leader), &cards[leader].shm_address) };
    let own = match &proof {
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}"),
    };
    let reasons = boot.allgather("transom.node", own.as_bytes())?;
    let proven: Vec<bool> = reasons.iter().map(Vec::is_empty).collect();
    if rank == 0 {
        for (rank, reason) in reasons.iter().enumerate().filter(|(_, reason)| !reason.is_empty()) {
            // A fallback is never silent (requirement T5)
            let reason = String::from_utf8_lossy(reason);
            let what = format!("rank {rank} does not share memory with the ranks of its node: {reason}");
            diagnostics::warn("transom::job", &what);
        }
    }
    Ok(routes::nodes(&candidates, &proven))
}

/// The interface by which other ranks reach this rank.
fn source(settings: &Settings, me: usize, cards: &[Card]) -> Interface {
    let sites: Vec<Site> = cards.iter().map(|card| card.site.clone()).collect();
    interfaces::choose(me, &sites, settings.interfaces.is_some())
}

/// Opens this process's part of the failure detector if the job has other machines.
fn open_listener(wire: &Wire, source: &Interface, me: usize, cards: &[Card]) -> Option<Listener> {
    let own = &cards[me].process;
    if wire.net().is_none() || cards.iter().enumerate().all(|(rank, card)| rank == me || card.process.is_seen_by(own)) {
        return None;
    }
    let listener = Listener::open(source.address);
    // A machine may have a device and no network address. Ranks of other machines then do not
    // detect the death of this process.
    listener
        .inspect_err(|error| {
            let what = format!(
                "rank {me}: ranks of other machines will not notice if this rank dies: listening on {source}: {error}"
            );
            diagnostics::warn("transom::job", &what);
        })
        .ok()
}

/// Whether another rank has this version, and the settings that must be the same.
fn agreed(
    settings: &Settings,
    own_rank: usize,
    rank: usize,
    Required { version, settings: shared }: &Required,
) -> std::result::Result<(), JobError> {
    let own = env!("CARGO_PKG_VERSION");
    if version != own.as_bytes() {
        let theirs = String::from_utf8_lossy(version).into_owned();
        return Err(JobError::VersionsDiffer { rank, theirs, own_rank, own });
    }
    let (theirs, own) = (SharedSettings::decode(shared).ok_or(JobError::Unreadable { rank })?, settings.shared());
    if theirs == own { Ok(()) } else { Err(JobError::SettingsDiffer { rank, theirs, own_rank, own }) }
}

/// Exchanges the net's addresses and the atomics that it has at all ranks.
fn join_net(
    boot: &mut Exchanging<'_>,
    wire: &Wire,
    block: &Memory,
    cards: &mut [Card],
    listener: Option<&Listener>,
) -> Result<(Option<NetRegion>, NetAtomics)> {
    let Some(net) = wire.net() else { return Ok((None, NetAtomics::NO_NET)) };
    let region = wire.register_net(block)?;
    let key = region.as_ref().map(NetRegion::key).unwrap_or_default();
    let mut all = region.as_ref().map_or(NetAtomics::NO_NET, |region| net.atomics(region));
    let name = net.shared_name();
    let seen_at = listener.map(|listener| listener.at.to_string()).unwrap_or_default();
    let token = listener.map(|listener| &listener.token[..]).unwrap_or_default();
    let mine = pack(&[
        name.encode().as_slice(),
        &[all.amos as u8, u8::from(all.coherent)],
        &net.address(),
        &key_bytes(&key),
        seen_at.as_bytes(),
        token,
    ]);
    for (rank, value) in boot.allgather("transom.net", &mine)?.iter().enumerate() {
        let [theirs, atomics, address, key, seen_at, token] = unpack::<6>(value).ok_or_else(|| unreadable(rank))?;
        let theirs = NetName::decode(&theirs);
        if theirs != name {
            let (theirs, own) = (Box::new(theirs), Box::new(name));
            return Err(JobError::NetsDiffer { rank, theirs, own_rank: boot.rank(), own }.into());
        }
        let amos = atomics.first().copied().and_then(Amos::of_number);
        all.amos = all.amos.min(amos.unwrap_or(Amos::None));
        all.coherent &= atomics.get(1) == Some(&1);
        cards[rank].net_address = address;
        cards[rank].net_block = key_from(&key);
        cards[rank].listener = String::from_utf8_lossy(&seen_at).parse().ok().zip(token.try_into().ok());
    }
    // The Nic actor accesses this rank's own part through the net too.
    net.connect(peer(boot.rank()), &net.address())?;
    Ok((region, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_versions_or_settings_are_errors_that_name_both() {
        let settings = Settings::default();
        let own = env!("CARGO_PKG_VERSION");
        let with = |version: &str, shared: &[u8]| {
            agreed(&settings, 2, 1, &Required { version: version.into(), settings: shared.into() })
        };
        assert_eq!(agreed(&settings, 2, 1, &Required::own(&settings)), Ok(()));
        let other = with("0.1.9", &[]);
        assert_eq!(other, Err(JobError::VersionsDiffer { rank: 1, theirs: "0.1.9".into(), own_rank: 2, own }));
        let theirs = SharedSettings { cma: !settings.cma, ..settings.shared() };
        let differs = JobError::SettingsDiffer { rank: 1, theirs, own_rank: 2, own: settings.shared() };
        assert_eq!(with(own, &theirs.encode()), Err(differs));
        assert_eq!(with(own, &[7]), Err(JobError::Unreadable { rank: 1 }));
    }
}
