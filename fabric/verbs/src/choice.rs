//! The choice of device and port by their attributes in sysfs. Safe code; it opens no device.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use transom_fabric::devices::{DeviceList, Place, entries, line, name, numa_node};
use transom_fabric::{Cause, FabricError};

use crate::library::TRANSPORT;

/// The kernel's folder of RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";
/// The kernel's folder of Slingshot devices.
const SLINGSHOT: &str = "/sys/class/cxi";

/// A port of a device, as `transom-info` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The device's name, such as `mlx5_0`.
    pub device: String,
    /// The port's number, from 1.
    pub port: u8,
    /// Whether the link is Ethernet (RoCE) instead of InfiniBand.
    pub ethernet: bool,
    /// The nearest NUMA node, where the system gives one.
    pub numa_node: Option<u32>,
    /// The rate in Gbit/s; 0 where the system gives none.
    pub rate: u32,
    /// Whether the kernel performs the device's operations in software (Soft-RoCE).
    pub software: bool,
    /// Index and value of the global identifier to use; or the reason why the port can't be used.
    pub gid: Result<(u8, [u8; 16]), String>,
}

/// All ports of all devices, in the order of their names.
pub fn ports() -> Vec<PortInfo> {
    scan(Path::new(DEVICES), None)
}

/// The folder of a port in sysfs.
pub(crate) fn folder(port: &PortInfo) -> PathBuf {
    Path::new(DEVICES).join(&port.device).join("ports").join(port.port.to_string())
}

/// The port to use: the first usable one of the user's list. Without a list, the best network is
/// chosen first (`network_rank`), because all ranks must reach each other. The processes of a
/// machine share the ports of this network, or the ports that the list joins by `+`: each process
/// uses one of its nearest ports.
pub(crate) fn choose(list: Option<&str>, gid_index: Option<u8>, place: &Place) -> Result<PortInfo, FabricError> {
    let unavailable = |text: String| FabricError::unavailable(TRANSPORT, Cause::Setup(text));
    let found = scan(Path::new(DEVICES), gid_index);
    if found.is_empty() {
        return Err(unavailable(format!("this machine has no RDMA device ({DEVICES} is empty)")));
    }
    let list = DeviceList::parse(list.unwrap_or_default()).map_err(unavailable)?;
    if !list.is_allow_list() && !entries(Path::new(SLINGSHOT)).is_empty() {
        return Err(unavailable(format!(
            "this machine has Slingshot devices ({SLINGSHOT}), which libfabric uses; name an RDMA device in \
             TRANSOM_NET_DEVICES to use it instead"
        )));
    }
    pick(&found, &list, place).map_err(unavailable)
}

fn pick(found: &[PortInfo], list: &DeviceList, place: &Place) -> Result<PortInfo, String> {
    let preference = |info: &PortInfo| list.preference(&info.device, info.port);
    let is_usable = |info: &&PortInfo| {
        info.gid.is_ok() && (list.is_allow_list() || !is_omni_path(info)) && preference(info).is_some()
    };
    // The first minimum: equal ports keep the order of their names.
    let best = found.iter().filter(is_usable).min_by_key(|info| (preference(info), network_rank(info)));
    let Some(best) = best else { return Err(none_usable(found, list)) };
    // Joined ports may differ in their rate, but no network has both link layers.
    let is_joined = preference(best).is_some_and(|place| list.is_one_network(place));
    let is_connected = |info: &PortInfo| match is_joined {
        true => info.ethernet == best.ethernet,
        false => are_connected(best, info),
    };
    let is_equal = |info: &&PortInfo| preference(info) == preference(best) && is_connected(info);
    let equal: Vec<_> = found.iter().filter(is_usable).filter(is_equal).collect();
    let nodes: Vec<_> = equal.iter().map(|info| info.numa_node).collect();
    Ok(equal[place.share(&nodes)].clone())
}

/// The sort key of networks; the best network has the smallest key. Hardware is better than
/// software, InfiniBand than Ethernet, routable addresses than link-local ones, and then a higher
/// rate.
fn network_rank(info: &PortInfo) -> (bool, bool, bool, Reverse<u32>) {
    let is_local = info.ethernet && matches!(info.gid, Ok((_, [0xfe, 0x80, ..])));
    (info.software, info.ethernet, is_local, Reverse(info.rate))
}

/// Whether a device is of Omni-Path (`hfi1`), which libfabric serves better (`opx`), or of its
/// predecessor True Scale (`qib`), whose verbs run on the CPU. Such a device is used only if the
/// user names it.
fn is_omni_path(info: &PortInfo) -> bool {
    ["hfi1", "qib"].iter().any(|driver| info.device.starts_with(driver))
}

/// The error text for ports of which none is usable.
fn none_usable(found: &[PortInfo], list: &DeviceList) -> String {
    let all: Vec<_> = found
        .iter()
        .map(|info| match &info.gid {
            Ok(_) if list.preference(&info.device, info.port).is_some() => {
                format!(
                    "{0}:{1} is of Omni-Path, which libfabric uses, or of True Scale; TRANSOM_NET_DEVICES={0}:{1} uses \
                     it by verbs",
                    info.device, info.port
                )
            }
            Ok(_) => format!("{}:{} is excluded by TRANSOM_NET_DEVICES", info.device, info.port),
            Err(reason) => format!("{}:{} {reason}", info.device, info.port),
        })
        .collect();
    format!("no port can be used: {}", all.join("; "))
}

/// Whether ranks are distributed over two ports: both are in one InfiniBand subnet, where every
/// port reaches every other one, and have the same rate. Ethernet interfaces may belong to
/// networks that are not connected, so only one of them is used unless the user joins several.
fn are_connected(first: &PortInfo, other: &PortInfo) -> bool {
    let subnet = |info: &PortInfo| info.gid.as_ref().ok().filter(|_| !info.ethernet).map(|(_, gid)| gid[..8].to_vec());
    let same = std::ptr::eq(first, other);
    same || (first.rate == other.rate && subnet(first).is_some() && subnet(first) == subnet(other))
}

/// All ports of the devices in a folder like [`DEVICES`]. `index` requests a global identifier.
fn scan(root: &Path, index: Option<u8>) -> Vec<PortInfo> {
    let mut found = Vec::new();
    for device in entries(root) {
        let kind = line(&device.join("node_type"));
        let (numa_node, software) = (numa_node(&device), !device.join("device").exists());
        for port in entries(&device.join("ports")) {
            let Ok(number) = name(&port).parse() else { continue };
            let ethernet = line(&port.join("link_layer")) == "Ethernet";
            let gid = if kind.starts_with("1:") {
                usable_gid(&port, ethernet, index)
            } else {
                Err(format!("is no channel adapter (its type is `{kind}`)"))
            };
            let rate = rate_of(&line(&port.join("rate")));
            found.push(PortInfo { device: name(&device), port: number, ethernet, numa_node, rate, software, gid });
        }
    }
    found
}

/// The global identifier (GID) of an active port, with its index in the port's table. With an
/// `index`, the identifier there, of any kind. Else on Ethernet one of RoCE version 2: preferably
/// of an IPv4 address, and a link-local one last.
///
/// # Errors
/// The reason why the port can't be used.
fn usable_gid(port: &Path, ethernet: bool, index: Option<u8>) -> Result<(u8, [u8; 16]), String> {
    let state = line(&port.join("state"));
    if !state.starts_with("4:") {
        return Err(format!("is not active (`{state}`)"));
    }
    let gid = |index: u8| gid_of(&line(&port.join(format!("gids/{index}")))).filter(|gid| gid[8..] != [0; 8]);
    if let Some(index) = index {
        return gid(index)
            .map(|gid| (index, gid))
            .ok_or_else(|| format!("has no global identifier {index}, which TRANSOM_RDMA_GID_INDEX requests"));
    }
    if !ethernet {
        return gid(0).map(|gid| (0, gid)).ok_or_else(|| "has no global identifier".into());
    }
    let routable = |index: &u8| line(&port.join(format!("gid_attrs/types/{index}"))) == "RoCE v2";
    // The table has up to 256 entries, most of which are usually empty, so the search ends early.
    let length = u8::try_from(entries(&port.join("gids")).len()).unwrap_or(u8::MAX);
    let mut best = None;
    for (index, gid) in (0..length).filter(routable).filter_map(|index| Some((index, gid(index)?))) {
        let rank = match gid {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => return Ok((index, gid)),
            [0xfe, 0x80, ..] => 2,
            _ => 1,
        };
        if best.is_none_or(|(other, _)| rank < other) {
            best = Some((rank, (index, gid)));
        }
    }
    best.map(|(_, found)| found).ok_or_else(|| "has no identifier for RoCE version 2".into())
}

/// A rate as sysfs prints it, such as `2.5 Gb/sec (1X SDR)`, in whole Gbit/s.
fn rate_of(text: &str) -> u32 {
    text.split(['.', ' ']).next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
}

/// A global identifier as sysfs prints it: 8 groups of 4 hexadecimal digits.
fn gid_of(text: &str) -> Option<[u8; 16]> {
    let mut gid = [0; 16];
    let mut groups = text.split(':');
    for pair in gid.chunks_exact_mut(2) {
        pair.copy_from_slice(&u16::from_str_radix(groups.next()?, 16).ok()?.to_be_bytes());
    }
    groups.next().is_none().then_some(gid)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use transom_fabric::devices::Nodes;

    use super::*;

    fn info(device: &str, numa: u32) -> PortInfo {
        let (device, gid) = (device.into(), Ok((1, [1; 16])));
        PortInfo { device, port: 1, ethernet: true, numa_node: Some(numa), rate: 100, software: false, gid }
    }

    /// The place of the `rank`th process of a machine, whose processes are bound to a NUMA node.
    fn place(near: Option<u32>, rank: usize) -> Place {
        let near = near.map_or(Nodes::default(), |node| Nodes(1 << node));
        Place { near, before: vec![near; rank] }
    }

    fn chosen(found: &[PortInfo], list: &str, near: Option<u32>) -> Result<String, String> {
        let list = DeviceList::parse(list)?;
        pick(found, &list, &place(near, 1)).map(|info| format!("{}:{}", info.device, info.port))
    }

    #[test]
    fn the_first_ethernet_port_is_chosen_unless_the_user_names_another() {
        let mut found = vec![info("a", 0), info("b", 1), info("c", 1)];
        found[2].port = 2;
        assert_eq!(chosen(&found, "", Some(1)).as_deref(), Ok("a:1"), "ranks of both nodes meet there");
        assert_eq!(chosen(&found, "", None).as_deref(), Ok("a:1"));
        assert_eq!(chosen(&found, "c,a", Some(1)).as_deref(), Ok("c:2"));
        assert_eq!(chosen(&found, "c:1, a:1", Some(1)).as_deref(), Ok("a:1"));
        assert_eq!(chosen(&found, "^b,a", None).as_deref(), Ok("c:2"));
        found[0].gid = Err("is not active (`1: DOWN`)".into());
        assert_eq!(chosen(&found, "", Some(1)).as_deref(), Ok("b:1"));
        let error = chosen(&found, "a", None).expect_err("it is down");
        assert!(
            error.contains("a:1 is not active (`1: DOWN`)") && error.contains("b:1 is excluded by TRANSOM_NET_DEVICES"),
            "{error}"
        );
        assert!(chosen(&found, "b:x", None).is_err());
    }

    /// Ranks of all NUMA nodes choose the same network, whatever is near.
    #[test]
    fn the_best_network_is_chosen() {
        let local = |device| PortInfo {
            gid: Ok((0, [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
            ..info(device, 0)
        };
        let software = PortInfo { software: true, ..info("a_rxe0", 0) };
        let slow = PortInfo { rate: 25, ..info("c", 0) };
        let band = PortInfo { ethernet: false, rate: 200, ..info("e", 1) };
        let slow_band = PortInfo { ethernet: false, rate: 56, ..info("d", 0) };
        let mut found = vec![software, local("b"), slow, slow_band, band, info("f", 1)];
        for (gone, expected) in [("", "e:1"), ("e", "d:1"), ("d", "f:1"), ("f", "c:1"), ("c", "b:1"), ("b", "a_rxe0:1")]
        {
            found.retain(|info| info.device != gone);
            for near in [None, Some(0), Some(1)] {
                assert_eq!(chosen(&found, "", near).as_deref(), Ok(expected));
            }
        }
    }

    #[test]
    fn omni_path_is_used_if_the_user_names_it() {
        let found = [PortInfo { ethernet: false, ..info("hfi1_0", 0) }];
        assert_eq!(chosen(&found, "hfi1_0", None).as_deref(), Ok("hfi1_0:1"));
        let error = chosen(&found, "", None).expect_err("libfabric is better");
        assert!(error.contains("hfi1_0:1 is of Omni-Path, which libfabric uses"), "{error}");
    }

    /// Four ports of InfiniBand, two at each NUMA node, one of which is of another subnet.
    #[test]
    fn ranks_are_distributed_over_equal_ports_of_a_subnet() {
        let port = |number: u32| PortInfo { ethernet: false, ..info(&format!("mlx5_{number}"), number / 2) };
        let mut found: Vec<_> = (0..4).map(port).collect();
        let of = |found: &[PortInfo], list, near, rank| {
            pick(found, &DeviceList::parse(list).expect("a list"), &place(near, rank)).expect("a port").device
        };
        assert_eq!([0, 1, 2].map(|rank| of(&found, "", Some(1), rank)), ["mlx5_2", "mlx5_3", "mlx5_2"]);
        assert_eq!([0, 3, 5].map(|rank| of(&found, "", None, rank)), ["mlx5_0", "mlx5_3", "mlx5_1"]);
        assert_eq!([0, 1].map(|rank| of(&found, "mlx5_3,mlx5_1", Some(1), rank)), ["mlx5_3", "mlx5_3"]);
        found[3].gid = Ok((0, [2; 16]));
        assert_eq!([0, 1].map(|rank| of(&found, "", Some(1), rank)), ["mlx5_2", "mlx5_2"]);
        found[2].ethernet = true;
        assert_eq!([0, 1].map(|rank| of(&found, "", Some(1), rank)), ["mlx5_0", "mlx5_1"], "none of them is near");
    }

    /// The ports of a node with several RoCE adapters, each with a port for itself.
    #[test]
    fn ranks_are_distributed_over_ports_that_the_user_joins() {
        let mut found: Vec<_> = (0..4).map(|number| info(&format!("mlx5_{number}"), number / 2)).collect();
        let of = |found: &[PortInfo], list, near| {
            let list = DeviceList::parse(list).expect("a list");
            [0, 1, 2].map(|rank| pick(found, &list, &place(near, rank)).map(|info| info.device).expect("a port"))
        };
        assert_eq!(of(&found, "", None), ["mlx5_0"; 3], "nobody says that the networks are connected");
        assert_eq!(of(&found, "mlx5_1,mlx5_2", None), ["mlx5_1"; 3], "an order of preference");
        assert_eq!(of(&found, "mlx5_0+mlx5_1", None), ["mlx5_0", "mlx5_1", "mlx5_0"]);
        let all = "mlx5_0+mlx5_1+mlx5_2+mlx5_3";
        assert_eq!(of(&found, all, Some(1)), ["mlx5_2", "mlx5_3", "mlx5_2"], "the nearest ones");
        assert_eq!(of(&found, "mlx5_9,mlx5_1:1+mlx5_3:1", None), ["mlx5_1", "mlx5_3", "mlx5_1"]);
        (found[0].rate, found[1].gid) = (25, Err("is not active (`1: DOWN`)".into()));
        assert_eq!(of(&found, all, Some(0)), ["mlx5_0"; 3], "a port that is down is left out, a slow one is not");
        found[0].ethernet = false;
        assert_eq!(of(&found, all, None), ["mlx5_0"; 3], "InfiniBand and Ethernet do not meet");
    }

    /// A tree as in sysfs, in a temporary folder that drop removes.
    struct Tree(PathBuf);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("transom-verbs-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for temporary files");
                fs::write(path, format!("{text}\n")).expect("a file");
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("made by this test");
        }
    }

    #[test]
    fn devices_are_read_from_sysfs() {
        let v4 = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
        let tree = Tree::new(&[
            ("rxe0/node_type", "1: CA"),
            ("rxe0/device/numa_node", "-1"),
            ("rxe0/ports/1/state", "4: ACTIVE"),
            ("rxe0/ports/1/link_layer", "Ethernet"),
            ("rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001"),
            ("rxe0/ports/1/gids/1", v4),
            ("rxe0/ports/1/gids/2", v4),
            ("rxe0/ports/1/gid_attrs/types/0", "RoCE v2"),
            ("rxe0/ports/1/gid_attrs/types/1", "IB/RoCE v1"),
            ("rxe0/ports/1/gid_attrs/types/2", "RoCE v2"),
            ("mlx5_1/node_type", "1: CA"),
            ("mlx5_1/device/numa_node", "3"),
            ("mlx5_1/ports/2/state", "1: DOWN"),
            ("siw0/node_type", "4: RNIC"),
            ("siw0/ports/1/state", "4: ACTIVE"),
        ]);
        let found = scan(&tree.0, None);
        let names: Vec<_> = found.iter().map(|info| (info.device.as_str(), info.port, info.numa_node)).collect();
        assert_eq!(names, [("mlx5_1", 2, Some(3)), ("rxe0", 1, None), ("siw0", 1, None)]);
        assert_eq!(found[1].gid, Ok((2, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1])));
        assert_eq!(found[0].gid, Err("is not active (`1: DOWN`)".into()));
        assert_eq!(found[2].gid, Err("is no channel adapter (its type is `4: RNIC`)".into()));
        let second = |index| scan(&tree.0, Some(index)).remove(1).gid;
        assert_eq!(second(1).map(|(index, _)| index), Ok(1), "of the older RoCE, since it is asked for");
        assert_eq!(second(9), Err("has no global identifier 9, which TRANSOM_RDMA_GID_INDEX requests".into()));
        assert!(scan(&tree.0.join("none"), None).is_empty());
    }
}
