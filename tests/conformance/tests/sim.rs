//! The contract's tests over the simulated net, which does the worst that the contract permits: 20
//! seeds, each with other options.

use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::sim::{SimAmo, SimDelivery, SimDomain, SimNet, SimOptions, SimRegions};
use transom_fabric::{Coherence, Immediates, Memory};

struct Sim(SimOptions);

impl Fixture for Sim {
    type Domain = SimDomain;

    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<SimDomain>> {
        let net = SimNet::new(ranks, self.0.clone());
        let domains: Vec<_> = peers(ranks).map(|peer| net.domain(peer).expect("opened once")).collect();
        connect_all(&domains);
        domains
    }

    fn orders(&self) -> Orders {
        let SimDelivery { ordered, amos_ordered, amos_in_order, immediates, .. } = self.0.delivery;
        let immediates = immediates.any();
        Orders { messages: ordered, atomics: amos_ordered, atomics_of_a_location: amos_in_order, immediates }
    }

    fn memory(&self, _domain: &SimDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

/// Immediates of few bits, which follow short puts only.
const FEW: Immediates = Immediates { bits: 9, follow: 100 };

/// A net for each seed. Every seed has other options; each option is combined with each value of
/// the neighbouring options.
fn adversarial_nets() -> impl Iterator<Item = Sim> {
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
            delivery: SimDelivery {
                most: (seed % 7 == 6).then_some(16),
                ordered: seed % 4 < 2,
                amos_ordered: !seed.is_multiple_of(3),
                amos_in_order: seed % 7 < 4,
                immediates: [Immediates::ALL, Immediates::NONE, FEW, Immediates::NONE][seed as usize % 4],
                holds: seed % 5 == 3,
                ..SimDelivery::default()
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

conformance!(super::adversarial_nets().chain(super::like_cxi()));
