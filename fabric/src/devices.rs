//! The choice among a machine's devices, by the user's list and by nearness to the CPUs of this
//! process. Shared by the backends that have devices.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;

/// The kernel's folder of NUMA nodes, which shows the CPUs of each and its distances.
const NODES: &str = "/sys/devices/system/node";

/// The user's list of `device[:port]`. With `^` before it, the list excludes its devices; else it
/// allows only these. An empty list allows all devices. Devices joined by `+` are of one network:
/// the user says that each of them reaches the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeviceList {
    /// Whether the list excludes its devices.
    exclude: bool,
    /// The entries, each with the devices that `+` joins.
    list: Vec<Vec<Listed>>,
}

/// The name of a device, with one of its ports or, for `None`, with all.
type Listed = (String, Option<u8>);

impl DeviceList {
    /// Parses a list.
    ///
    /// # Errors
    /// A port is not a number.
    pub fn parse(text: &str) -> Result<DeviceList, String> {
        let (exclude, names) = text.strip_prefix('^').map_or((false, text), |names| (true, names));
        let parts = |entry: &str, by: char| -> Vec<String> {
            entry.split(by).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let entry = |entry: &String| parts(entry, '+').iter().map(|name| listed(name)).collect();
        let list: Result<Vec<Vec<Listed>>, String> = parts(names, ',').iter().map(entry).collect();
        Ok(DeviceList { exclude, list: list?.into_iter().filter(|entry| !entry.is_empty()).collect() })
    }

    /// Whether only the listed devices are allowed.
    pub fn is_allow_list(&self) -> bool {
        !self.exclude && !self.list.is_empty()
    }

    /// The preference for a port of a device; smaller is better: the position in a list of allowed
    /// devices, else 0. `None`: the user excludes the port.
    pub fn preference(&self, device: &str, port: u8) -> Option<usize> {
        let named = |(name, only): &Listed| name == device && only.is_none_or(|only| only == port);
        match self.list.iter().position(|entry| entry.iter().any(named)) {
            Some(place) if !self.exclude => Some(place),
            None if self.exclude || self.list.is_empty() => Some(0),
            _ => None,
        }
    }

    /// Whether the devices of a preference are of one network by the user's word.
    pub fn is_one_network(&self, preference: usize) -> bool {
        !self.exclude && self.list.get(preference).is_some_and(|entry| entry.len() > 1)
    }
}

/// A device of the list, `device` or `device:port`.
fn listed(name: &str) -> Result<Listed, String> {
    let Some((device, port)) = name.split_once(':') else { return Ok((name.to_owned(), None)) };
    let port = port.parse().map_err(|_| format!("`{name}` is not device:port, with a port from 1"))?;
    Ok((device.to_owned(), Some(port)))
}

/// A set of NUMA nodes, as bits. Nodes from 64 on belong to no set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes(pub u64);

impl Nodes {
    /// The nodes of the CPUs on which this process may run; empty where the kernel does not report
    /// them.
    pub fn own() -> Nodes {
        let Ok(bound) = rustix::thread::sched_getaffinity(None) else { return Nodes::default() };
        Nodes::of(Path::new(NODES), |cpu| cpu < CpuSet::MAX_CPU && bound.is_set(cpu))
    }

    /// The nodes that have one of the CPUs, by the folder of nodes in sysfs.
    fn of(root: &Path, has: impl Fn(usize) -> bool) -> Nodes {
        let nodes = numbered(root).filter(|(_, node)| cpus(&line(&node.join("cpulist"))).any(&has));
        Nodes(nodes.fold(0, |bits, (number, _)| bits | 1u64.checked_shl(number).unwrap_or(0)))
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |node| self.0 >> node & 1 != 0)
    }
}

/// The place of a process among those of its job on this machine, over whose devices they are
/// distributed.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The NUMA nodes of this process.
    pub near: Nodes,
    /// The NUMA nodes of each process of the machine that has a lower rank.
    pub before: Vec<Nodes>,
}

impl Place {
    /// The place of a process without others on this machine.
    pub fn alone() -> Place {
        Place { near: Nodes::own(), before: Vec::new() }
    }

    /// The index of the device for this process among equally good ones, which are given by their
    /// NUMA nodes. A process uses its nearest devices. The processes with the same nearest devices
    /// are distributed over them.
    pub fn share(&self, devices: &[Option<u32>]) -> usize {
        self.share_by(&Distances::read(Path::new(NODES)), devices)
    }

    fn share_by(&self, distances: &Distances, devices: &[Option<u32>]) -> usize {
        let nearest = distances.nearest(self.near, devices);
        let alike = |near: &&Nodes| distances.nearest(**near, devices) == nearest;
        let turn = self.before.iter().filter(alike).count();
        nearest.get(turn % nearest.len().max(1)).copied().unwrap_or(0)
    }
}

/// The kernel's distances between NUMA nodes: the row of each node, in the order of the nodes.
#[derive(Debug, Default)]
struct Distances(Vec<(u32, Vec<u32>)>);

impl Distances {
    fn read(root: &Path) -> Distances {
        let row = |node: PathBuf| line(&node.join("distance")).split_whitespace().flat_map(str::parse).collect();
        Distances(numbered(root).map(|(number, node)| (number, row(node))).collect())
    }

    /// The distance between two nodes. If the kernel does not report distances, only a node itself
    /// is near.
    fn between(&self, first: u32, second: u32) -> u32 {
        let place = |node| self.0.iter().position(|(number, _)| *number == node);
        let told = place(first).zip(place(second)).and_then(|(row, column)| self.0[row].1.get(column).copied());
        told.unwrap_or(if first == second { 10 } else { 20 })
    }

    /// The indices of the devices that are nearest to a set of nodes. A device of an unknown node
    /// is farther than all others.
    fn nearest(&self, near: Nodes, devices: &[Option<u32>]) -> Vec<usize> {
        let distance = |device: &Option<u32>| {
            let to = |node| device.map(|device| self.between(node, device));
            near.iter().filter_map(to).min().unwrap_or(u32::MAX)
        };
        let all: Vec<u32> = devices.iter().map(distance).collect();
        let least = all.iter().min();
        (0..all.len()).filter(|&at| Some(&all[at]) == least).collect()
    }
}

/// The folders `node0`, `node1` and so on, with their numbers, in the order of the numbers.
fn numbered(root: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let number = |path: PathBuf| Some((name(&path).strip_prefix("node")?.parse().ok()?, path));
    let mut nodes: Vec<_> = entries(root).into_iter().filter_map(number).collect();
    nodes.sort();
    nodes.into_iter()
}

/// The CPUs of a list like `0-3,8`.
fn cpus(list: &str) -> impl Iterator<Item = usize> {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
}

/// The NUMA node of a device, by its folder in sysfs; `None` where the system gives none.
pub fn numa_node(device: &Path) -> Option<u32> {
    line(&device.join("device/numa_node")).parse().ok()
}

/// The entries of a folder, sorted by name; empty where the folder does not exist.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The last part of a path.
pub fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The content of a file of one line; empty if it can't be read.
pub fn line(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_devices_keep_their_order() {
        let list = |text| DeviceList::parse(text).expect("a list");
        assert_eq!(list("").preference("a", 1), Some(0));
        assert_eq!(list("b, a").preference("a", 1), Some(1));
        assert_eq!(list("b:1,a").preference("b", 2), None);
        assert_eq!(list("^b").preference("b", 2), None);
        assert_eq!(list("^b").preference("a", 1), Some(0));
        assert!(DeviceList::parse("b:x").is_err() && DeviceList::parse("a+b:x").is_err());
    }

    #[test]
    fn joined_devices_have_one_preference() {
        let list = DeviceList::parse("c:2, b + a:1,+,d").expect("a list");
        assert_eq!(["c", "b", "a", "d"].map(|name| list.preference(name, 1)), [None, Some(1), Some(1), Some(2)]);
        assert_eq!([0, 1, 2, 3].map(|preference| list.is_one_network(preference)), [false, true, false, false]);
        let excluded = DeviceList::parse("^a+b").expect("a list");
        assert_eq!(["a", "b", "c"].map(|name| excluded.preference(name, 1)), [None, None, Some(0)]);
        assert!(!excluded.is_one_network(0), "the devices that remain are not in the list");
    }

    #[test]
    fn the_nodes_of_cpus_and_devices_are_read_from_sysfs() {
        let root = std::env::temp_dir().join(format!("transom-devices-{}", std::process::id()));
        let files = [
            ("node0/cpulist", "0-3,8"),
            ("node0/distance", "10 12 32"),
            ("node2/cpulist", "4"),
            ("node2/distance", "12 10 32"),
            ("node10/cpulist", ""),
            ("node10/distance", "32 32 10"),
            ("cxi0/device/numa_node", "3"),
            ("cxi1/device/numa_node", "-1"),
        ];
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for temporary files");
            fs::write(path, format!("{text}\n")).expect("a file");
        }
        let of = |cpus: &[usize]| Nodes::of(&root, |cpu| cpus.contains(&cpu));
        assert_eq!([of(&[8]), of(&[3, 4]), of(&[9])], [Nodes(1), Nodes(0b101), Nodes(0)]);
        let distances = Distances::read(&root);
        assert_eq!([(0, 2), (2, 2), (10, 2), (0, 5)].map(|(a, b)| distances.between(a, b)), [12, 10, 32, 20]);
        assert_eq!([0, 1, 2].map(|number| numa_node(&root.join(format!("cxi{number}")))), [Some(3), None, None]);
        fs::remove_dir_all(&root).expect("made by this test");
    }

    /// Two sockets of four NUMA nodes each.
    fn sockets() -> Distances {
        let distance = |a: u32, b: u32| if a == b { 10 } else { [32, 12][usize::from(a / 4 == b / 4)] };
        Distances((0..8).map(|a| (a, (0..8).map(|b| distance(a, b)).collect())).collect())
    }

    /// The devices of all processes of a machine, by the NUMA nodes of each.
    fn shares(near: &[Nodes], devices: &[Option<u32>]) -> Vec<usize> {
        let place = |me: usize| Place { near: near[me], before: near[..me].to_vec() };
        (0..near.len()).map(|me| place(me).share_by(&sockets(), devices)).collect()
    }

    /// Regressions: half of the devices were idle where ranks were bound to the sockets in turn,
    /// and a process whose own NUMA node has no device used those of the other socket too.
    #[test]
    fn all_devices_are_used_and_the_nearest_first() {
        let both = [Some(0), Some(0), Some(4), Some(4)];
        let cyclic: Vec<_> = (0..8).map(|rank| Nodes([0x0f, 0xf0][rank % 2])).collect();
        assert_eq!(shares(&cyclic, &both), [0, 2, 1, 3, 0, 2, 1, 3], "bound to sockets in turn");
        let nodes: Vec<_> = (0..8).map(|rank| Nodes(1 << rank)).collect();
        assert_eq!(shares(&nodes, &[Some(1), Some(6)]), [0, 0, 0, 0, 1, 1, 1, 1], "devices of other NUMA nodes");
        assert_eq!(shares(&nodes[..4], &[Some(5), Some(6)]), [0, 1, 0, 1], "both are equally far");
        assert_eq!(shares(&[Nodes(0xff); 3], &both), [0, 1, 2], "not bound");
        assert_eq!(shares(&[Nodes(0); 3], &[None, None]), [0, 1, 0], "the system tells no node");
        assert_eq!(shares(&[Nodes(1); 2], &[None, Some(7)]), [1, 1]);
        assert_eq!(Place::default().share(&[]), 0);
    }
}
