//! The administrator's settings of a port and of the paths from it, and the resulting address
//! vectors. Safe code; it opens no device.

use std::path::Path;

use transom_fabric::devices::{entries, line, name};

use crate::address::Address;
use crate::sys;

/// The hop limit of packets.
const HOPS: u8 = 64;

/// Settings of a port and of its paths. By default the port's own values hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOptions {
    /// The index of the global identifier in the port's table. `None`: on Ethernet one of RoCE
    /// version 2, of an IPv4 address where there is one; on InfiniBand the first.
    pub gid_index: Option<u8>,
    /// The service level of all packets, 0 to 15.
    pub service_level: u8,
    /// The traffic class of packets with a global header; on RoCE its upper six bits are the DSCP.
    pub traffic_class: u8,
    /// The partition, by its key; the bit of full membership does not count. `None`: the first of
    /// the port's table of which the port is a full member, else the first.
    pub partition: Option<u16>,
    /// The most bytes of a packet: 256, 512, 1024, 2048 or 4096. `None`: the port's value. A
    /// connection uses the smaller value of its two ends.
    pub mtu: Option<u16>,
}

impl PathOptions {
    /// The MTU of a port whose own MTU is `active`; both as verbs' enumeration values.
    pub(crate) fn mtu(&self, active: u8) -> u8 {
        // The value of 256 bytes is 1, and that of each doubling is one more.
        let most = self.mtu.map_or(u8::MAX, |bytes| u8::try_from(bytes.max(256).ilog2() - 7).unwrap_or(1));
        active.min(most)
    }

    /// The address vector from the port `own` to another port. Packets have a global header (GRH)
    /// if one of both ports requires it, on Ethernet, and to another InfiniBand subnet, because
    /// routers forward by this header.
    pub(crate) fn vector(&self, own: &Sender, to: &Address) -> sys::ibv_ah_attr {
        let has_router = !to.ethernet && subnet(&own.gid) != subnet(&to.gid);
        let global = to.ethernet || own.needs_grh || to.needs_grh || has_router;
        let grh = sys::ibv_global_route {
            dgid: sys::ibv_gid(to.gid),
            flow_label: 0,
            sgid_index: own.gid_index,
            hop_limit: HOPS,
            traffic_class: self.traffic_class,
        };
        sys::ibv_ah_attr {
            grh,
            dlid: if has_router { router_lid(&to.gid).unwrap_or(to.lid) } else { to.lid },
            sl: self.service_level,
            src_path_bits: 0,
            static_rate: 0,
            is_global: u8::from(global),
            port_num: own.port,
        }
    }

    /// The index of the partition in the table of a port, by the port's folder in sysfs.
    ///
    /// # Errors
    /// The port is not a member of the partition, with the partitions that it is in.
    pub(crate) fn partition_index(&self, port: &Path) -> Result<u16, String> {
        let key = |entry: &Path| u16::from_str_radix(line(entry).strip_prefix("0x")?, 16).ok();
        let table = entries(&port.join("pkeys"));
        let keys = || table.iter().filter_map(|entry| Some((name(entry).parse::<u16>().ok()?, key(entry)?)));
        let Some(partition) = self.partition else {
            // Full membership is preferred: limited members of a partition can't reach each other.
            return Ok(keys().filter(|(_, key)| key & !PARTITION_BITS != 0).map(|(index, _)| index).min().unwrap_or(0));
        };
        let found = keys().filter(|(_, key)| (key ^ partition) & PARTITION_BITS == 0).max_by_key(|(_, key)| *key);
        found.map(|(index, _)| index).ok_or_else(|| {
            let mut all: Vec<_> = keys().filter(|(_, key)| key & PARTITION_BITS != 0).collect();
            all.sort_unstable();
            let all: Vec<_> = all.iter().map(|(_, key)| format!("{key:#06x}")).collect();
            let all = all.join(", ");
            format!("is not in the partition {partition:#06x} of TRANSOM_RDMA_PARTITION_KEY, but in {all}")
        })
    }
}

/// The local identifier (FLID) by which packets from other subnets reach a port, in a global
/// identifier for routers. `None` if the identifier has none.
fn router_lid(gid: &[u8; 16]) -> Option<u16> {
    let is_site_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0xc0;
    Some(u16::from_be_bytes([gid[4], gid[5]])).filter(|lid| is_site_local && *lid != 0)
}

/// The InfiniBand subnet of a global identifier: its prefix, or the part of it that is the number
/// of the subnet where the prefix also has an identifier for routers.
fn subnet(gid: &[u8; 16]) -> u64 {
    let prefix = u64::from_be_bytes(*gid.first_chunk().unwrap_or(&[0; 8]));
    router_lid(gid).map_or(prefix, |lid| prefix & !(u64::from(lid) << 16))
}

/// The bits of a partition key that identify the partition. The highest bit means full membership.
const PARTITION_BITS: u16 = 0x7fff;

/// The local port, from which packets are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) gid: [u8; 16],
    pub(crate) gid_index: u8,
    pub(crate) port: u8,
    /// Whether the port requires that all packets have a global header (GRH).
    pub(crate) needs_grh: bool,
}

#[cfg(test)]
mod applied;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SUBNET: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const OTHER: [u8; 16] = [0xfe, 0xc0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2];

    fn sender(needs_grh: bool) -> Sender {
        Sender { gid: SUBNET, gid_index: 3, port: 2, needs_grh }
    }

    fn to(gid: [u8; 16], ethernet: bool) -> Address {
        Address { gid, ethernet, lid: 9, ..Address::default() }
    }

    /// Infiniband architecture 1.5, 8.4: packets between subnets have the global header.
    #[test]
    fn packets_have_a_global_header_where_required() {
        let global = |own: &Sender, to: &Address| PathOptions::default().vector(own, to).is_global;
        assert_eq!(global(&sender(false), &to(SUBNET, false)), 0);
        assert_eq!(global(&sender(false), &to(OTHER, false)), 1, "a router is between");
        assert_eq!(global(&sender(true), &to(SUBNET, false)), 1, "the port requires it");
        assert_eq!(global(&sender(false), &to(SUBNET, true)), 1, "RoCE");
    }

    /// Regression: a virtual port, which requires the header, got packets without it.
    #[test]
    fn the_peers_port_may_require_the_global_header() {
        let to = Address { needs_grh: true, ..to(SUBNET, false) };
        assert_eq!(PathOptions::default().vector(&sender(false), &to).is_global, 1);
    }

    /// The identifier for routers (FLID) is in bytes 4 and 5 of the peer's global identifier, and
    /// the number of the subnet in bytes 6 and 7.
    #[test]
    fn packets_to_another_subnet_have_the_local_identifier_for_routers() {
        let gid = |lid: u8, subnet: u8| [0xfe, 0xc0, 0, 0, 0, lid, 0, subnet, 0, 0, 0, 0, 0, 0, 0, 2];
        let own = Sender { gid: gid(4, 7), ..sender(false) };
        let lid = |to: &Address| {
            let vector = PathOptions::default().vector(&own, to);
            (vector.dlid, vector.is_global)
        };
        assert_eq!([lid(&to(gid(5, 8), false)), lid(&to(gid(5, 7), false))], [(5, 1), (9, 0)]);
        assert_eq!([lid(&to(OTHER, false)), lid(&to(gid(0, 8), false))], [(9, 0), (9, 1)], "without it");
    }

    #[test]
    fn the_administrators_settings_are_in_the_address_vector() {
        let settings = PathOptions { service_level: 5, traffic_class: 104, ..PathOptions::default() };
        let vector = settings.vector(&sender(false), &to(OTHER, false));
        assert_eq!((vector.sl, vector.grh.traffic_class, vector.grh.sgid_index), (5, 104, 3));
        assert_eq!((vector.dlid, vector.port_num, vector.grh.hop_limit, vector.grh.dgid.0), (9, 2, 64, OTHER));
    }

    #[test]
    fn the_packet_size_is_limited_by_port_and_administrator() {
        let mtu = |bytes, active| PathOptions { mtu: bytes, ..PathOptions::default() }.mtu(active);
        assert_eq!([mtu(None, 5), mtu(Some(256), 5), mtu(Some(1024), 5), mtu(Some(4096), 3)], [5, 1, 3, 3]);
    }

    #[test]
    fn the_partition_is_found_by_its_key() {
        let port = std::env::temp_dir().join(format!("transom-pkeys-{}", std::process::id()));
        fs::create_dir_all(port.join("pkeys")).expect("a folder");
        for (index, key) in ["0xffff", "0x0007", "0x8007", "0x0000"].iter().enumerate() {
            fs::write(port.join(format!("pkeys/{index}")), format!("{key}\n")).expect("a file");
        }
        let index = |key| PathOptions { partition: key, ..PathOptions::default() }.partition_index(&port);
        assert_eq!([index(None), index(Some(0x7fff)), index(Some(0xffff))], [Ok(0), Ok(0), Ok(0)]);
        assert_eq!([index(Some(7)), index(Some(0x8007))], [Ok(2), Ok(2)], "full membership before limited");
        let refused = index(Some(0x8009)).expect_err("no member");
        assert!(refused.contains("0x8009") && refused.contains("0x0007, 0x8007"), "{refused}");
        fs::write(port.join("pkeys/0"), "0x7fff\n").expect("a file");
        assert_eq!(index(None), Ok(2), "the first of full membership");
        fs::remove_dir_all(port).expect("made by this test");
    }
}
