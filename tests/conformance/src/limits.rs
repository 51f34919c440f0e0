//! The limits of a port, and the calls that it must refuse.

use transom_fabric::{Domain, Peer, Port, Region, RegionKey, Tally};

use crate::team::{bytes, pattern};
use crate::{Fixture, run};

/// "Limits of a port in bytes"; "The address, which peers hand to `connect`; at most 4096 bytes."
pub fn limits_are_consistent(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let port = rank.domain().port();
        let limits = port.limits();
        assert!(limits.inline_max <= limits.transfer_max, "{limits:?}");
        assert!(limits.packed_max >= 1 && limits.transfer_max >= 8, "{limits:?}");
        assert!(limits.copied_max <= limits.packed_max, "{limits:?}");
        assert!(limits.list_max >= 1, "{limits:?}");
        assert!(limits.message_max >= 64, "{limits:?}");
        let address = port.address();
        assert!((1..=4096).contains(&address.len()), "{} bytes", address.len());
    });
}

/// "Makes a peer reachable. Idempotent."
pub fn connecting_twice_changes_nothing(fixture: &impl Fixture) {
    run(fixture, 1, |rank| {
        let window = rank.window(16);
        let port = rank.domain().port();
        for _ in 0..3 {
            let address = port.address();
            port.connect(Peer(0), &address).expect("known already");
        }
        let tally = Tally::new();
        let data = crate::team::filled(&pattern(4, 9));
        rank.put(&window.remotes[0], 1, &data, &tally);
        rank.flush(&tally);
        assert_eq!(bytes(&window.memory, 1, 9), pattern(4, 9));
    });
}

/// "The key is not one of this backend, the peer is not connected": no other bytes are accepted as
/// a region.
pub fn foreign_keys_are_refused(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let window = rank.window(64);
        let port = rank.domain().port();
        let keys =
            [RegionKey::default(), RegionKey([u64::MAX; 4]), RegionKey([1, 2, 3, 4]), RegionKey([0xdead_beef; 4])];
        for key in keys {
            let refused = port.import(Peer(1), &key).map(drop);
            refused.expect_err("a key that no backend wrote");
        }
        let unknown = Peer(12_345);
        let refused = port.import(unknown, &window.region.key()).map(drop);
        let error = format!("{:#}", refused.expect_err("no peer has this number"));
        assert!(error.contains("12345"), "it names the peer: {error}");
    });
}

/// "Drop ends the access": a thousand regions, one after the other, each of which works.
pub fn regions_come_and_go(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        for turn in 0..1000 {
            let window = rank.window(64);
            if rank.me.0 == 0 && turn % 50 == 0 {
                let tally = Tally::new();
                let data = crate::team::filled(&pattern(turn, 8));
                rank.put(&window.remotes[1], 8, &data, &tally);
                rank.flush(&tally);
            }
            rank.barrier();
            if rank.me.0 == 1 && turn % 50 == 0 {
                assert_eq!(bytes(&window.memory, 8, 8), pattern(turn, 8), "turn {turn}");
            }
        }
    });
}
