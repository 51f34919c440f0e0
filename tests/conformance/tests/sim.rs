//! The contract's tests over the adversarial backend: 20 seeds, each with its own mix of options.

use std::sync::Arc;

use transom_conformance::{Fixture, conformance};
use transom_fabric::sim::{SimAmo, SimDomain, SimMail, SimNet, SimOptions, SimRegions};
use transom_fabric::{Coherence, Domain, Memory, Peer, Port};

struct Sim(SimOptions);

impl Fixture for Sim {
    type Domain = SimDomain;

    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<SimDomain>> {
        let net = SimNet::new(ranks, self.0.clone());
        let peers = || (0..u32::try_from(ranks).expect("few ranks")).map(Peer);
        let domains: Vec<_> = peers().map(|peer| net.domain(peer).expect("opened once")).collect();
        for domain in &domains {
            for (peer, other) in peers().zip(&domains) {
                let address = other.port().address();
                domain.port().connect(peer, &address).expect("its address");
            }
        }
        domains
    }

    fn memory(&self, _domain: &SimDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

/// Every seed has a different mix of options; each option is combined with each value of the
/// neighbouring options.
fn mixes() -> impl Iterator<Item = Sim> {
    let amo = [
        SimAmo::All(Coherence::WithCpu),
        SimAmo::All(Coherence::DeviceOnly),
        SimAmo::Only64(Coherence::WithCpu),
        SimAmo::None,
    ];
    (0..20).map(move |seed: u32| {
        let small = SimOptions::default();
        Sim(SimOptions {
            seed: u64::from(seed),
            delay: [0, 1, 3, 8][seed as usize / 5],
            again_one_in: [8, 0, 2, 30][seed as usize % 4],
            done_one_in: [0, 3, 8][seed as usize % 3],
            reorder: seed % 5 != 4,
            tear_words: seed.is_multiple_of(2),
            passive_target: seed % 3 != 1,
            packed_max: [100, 5000][seed as usize % 2],
            transfer_max: [1000, 70_000][seed as usize / 10],
            mail: SimMail {
                most: (seed % 7 == 6).then_some(16),
                ordered: seed % 4 < 2,
                gathers: false,
                amos_ordered: !seed.is_multiple_of(3),
                holds: seed % 5 == 3,
                ..SimMail::default()
            },
            amo: amo[(seed as usize + seed as usize / 4) % 4],
            regions: SimRegions { most: (seed % 4 == 3).then_some(1), ..small.regions },
            ..small
        })
    })
}

/// The limits of Slingshot's provider.
fn like_cxi() -> impl Iterator<Item = Sim> {
    (0..4).map(|seed| Sim(SimOptions { seed, ..SimOptions::like_cxi() }))
}

conformance!(super::mixes().chain(super::like_cxi()));
