//! The settings of a port as queue pairs and address handles get them, recorded by the stand-in.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transom_fabric::{Domain, Handler, Peer, Port};

use super::PathOptions;
use crate::domain::{VerbsDomain, VerbsOptions};
use crate::standin::{Net, Standin};
use crate::sys::*;

struct Nobody;

impl Handler for Nobody {
    fn message(&self, _from: Peer, _bytes: &[u8]) {}
}

const PORT: u8 = 2;
const GID_INDEX: u8 = 3;
const PARTITION: u16 = 5;

/// A connected job of two ranks, each with its own settings.
fn connected(settings: [PathOptions; 2]) -> Net {
    let open = |(rank, paths)| {
        let (device, standin) = Standin::open_with(paths, PORT, GID_INDEX, PARTITION);
        let options = VerbsOptions { rank: Peer(rank), silence: Duration::from_secs(8), ..VerbsOptions::default() };
        (VerbsDomain::on(device, &options).expect("a stand-in"), standin)
    };
    let (domains, standins): (Vec<Arc<VerbsDomain>>, _) = (0..).zip(settings).map(open).unzip();
    let mut net = Net { domains, standins, not_ready: 0 };
    let address = net.domains[1].port().address();
    net.domains[0].port().connect(Peer(1), &address).expect("a queue pair");
    // Hellos are repeated after a time.
    let end = Instant::now() + Duration::from_secs(60);
    while net.domains[0].port().is_opening(Peer(1)) || net.domains[1].port().is_opening(Peer(0)) {
        assert!(Instant::now() < end, "connecting takes too long");
        net.carry();
        for domain in &net.domains {
            domain.port().progress(&Nobody).expect("progress");
        }
        std::thread::yield_now();
    }
    net
}

/// The attributes with which a queue pair got the one of this bit: a connection's, or those of the
/// pair for datagrams.
fn set(standin: &Standin, of: Option<Peer>, bit: c_int) -> ibv_qp_attr {
    let state = standin.state();
    let found = state.applied.pairs.iter().rfind(|(peer, mask, _)| *peer == of && mask & bit != 0);
    found.expect("the attribute was set").2
}

/// Shows T4.
#[test]
fn every_setting_reaches_the_device() {
    let paths = PathOptions { service_level: 3, traffic_class: 104, mtu: Some(512), ..PathOptions::default() };
    // The port of the stand-in has packets of 1024 bytes.
    let net = connected([paths, PathOptions::default()]);
    for (rank, level, class) in [(0, 3, 104), (1, 0, 0)] {
        let (standin, other) = (net.standins[rank], Some(Peer(1 - u32::from(rank == 1))));
        for pair in [other, None] {
            assert_eq!(set(standin, pair, IBV_QP_PKEY_INDEX).pkey_index, PARTITION, "rank {rank}, {pair:?}");
            assert_eq!(set(standin, pair, IBV_QP_PORT).port_num, PORT, "rank {rank}, {pair:?}");
        }
        assert_eq!(set(standin, other, IBV_QP_PATH_MTU).path_mtu, 2, "512 bytes, the smaller value of both ends");
        let retries = (set(standin, other, IBV_QP_TIMEOUT).timeout, set(standin, other, IBV_QP_RETRY_CNT).retry_cnt);
        assert_eq!(retries, (18, 6), "seven times 1.07 s");
        assert_eq!(set(standin, other, IBV_QP_RNR_RETRY).rnr_retry, 7, "without limit");
        let vector = set(standin, other, IBV_QP_AV).ah_attr;
        let handles = standin.state().applied.handles.clone();
        assert!(!handles.is_empty(), "hellos are datagrams");
        for vector in handles.iter().chain([&vector]) {
            let route = vector.grh;
            assert_eq!((vector.sl, vector.port_num, vector.is_global), (level, PORT, 1), "rank {rank}");
            assert_eq!((route.traffic_class, route.sgid_index), (class, GID_INDEX), "rank {rank}");
        }
    }
}
