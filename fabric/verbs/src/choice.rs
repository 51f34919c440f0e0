//! Which device and port is used: what sysfs says of each, and the choice among them. Safe code; it opens nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;
use transom_fabric::FabricError;

use crate::library::TRANSPORT;

/// Where the kernel shows its devices.
const DEVICES: &str = "/sys/class/infiniband";
/// Where it shows which NUMA node a CPU belongs to.
const CPUS: &str = "/sys/devices/system/cpu";

/// A port of a device, as `transom-info` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The device's name, such as `mlx5_0`.
    pub device: String,
    /// The port's number, from 1.
    pub port: u8,
    /// The link is Ethernet (RoCE), else InfiniBand.
    pub ethernet: bool,
    /// The NUMA node that the device is near to, where the system knows.
    pub numa_node: Option<u32>,
    /// The identifier to use, by its index and value; or why the port can't be used.
    pub gid: Result<(u8, [u8; 16]), String>,
}

/// All ports of all devices, in the order of their names.
pub fn ports() -> Vec<PortInfo> {
    scan(Path::new(DEVICES))
}

/// The port to use: of those that `wanted` names, or of all, the first that works; those near to where this process
/// is bound come first where the user named none.
pub(crate) fn choose(wanted: Option<&str>) -> Result<PortInfo, FabricError> {
    let unavailable = |reason| FabricError::Unavailable { transport: TRANSPORT, reason };
    let found = ports();
    if found.is_empty() {
        return Err(unavailable(format!("this machine has no RDMA device ({DEVICES} is empty)")));
    }
    pick(&found, &Wanted::parse(wanted.unwrap_or_default()).map_err(unavailable)?, near_node()).map_err(unavailable)
}

/// A list of `device[:port]`; with `^` before it, of those that are not wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    exclude: bool,
    list: Vec<(String, Option<u8>)>,
}

impl Wanted {
    fn parse(text: &str) -> Result<Wanted, String> {
        let (exclude, names) = text.strip_prefix('^').map_or((false, text), |names| (true, names));
        let mut list = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            list.push(match name.split_once(':') {
                None => (name.to_owned(), None),
                Some((device, port)) => {
                    let port = port.parse().map_err(|_| format!("`{name}` is not device:port, with a port from 1"))?;
                    (device.to_owned(), Some(port))
                }
            });
        }
        Ok(Wanted { exclude, list })
    }

    /// Where in the list the port is named.
    fn place(&self, info: &PortInfo) -> Option<usize> {
        self.list.iter().position(|(device, port)| *device == info.device && port.is_none_or(|port| port == info.port))
    }
}

fn pick(found: &[PortInfo], wanted: &Wanted, near: Option<u32>) -> Result<PortInfo, String> {
    let mut candidates: Vec<(usize, &PortInfo)> = found
        .iter()
        .filter_map(|info| match wanted.place(info) {
            Some(place) if !wanted.exclude => Some((place, info)),
            None if wanted.exclude || wanted.list.is_empty() => {
                Some((usize::from(near.is_some() && info.numa_node != near), info))
            }
            _ => None,
        })
        .collect();
    // Stable: the order of names decides between equals.
    candidates.sort_by_key(|(order, _)| *order);
    if let Some((_, info)) = candidates.iter().find(|(_, info)| info.gid.is_ok()) {
        return Ok((*info).clone());
    }
    let all: Vec<_> = found
        .iter()
        .map(|info| match &info.gid {
            Ok(_) => format!("{}:{} was not asked for", info.device, info.port),
            Err(reason) => format!("{}:{} {reason}", info.device, info.port),
        })
        .collect();
    Err(format!("no port can be used: {}", all.join("; ")))
}

fn scan(root: &Path) -> Vec<PortInfo> {
    let mut found = Vec::new();
    for device in entries(root) {
        let kind = text(&device.join("node_type"));
        let numa_node = text(&device.join("device/numa_node")).parse().ok();
        for port in entries(&device.join("ports")) {
            let Ok(number) = name(&port).parse() else { continue };
            let ethernet = text(&port.join("link_layer")) == "Ethernet";
            let gid = if kind.starts_with("1:") {
                usable(&port, ethernet)
            } else {
                Err(format!("is no channel adapter (its type is `{kind}`)"))
            };
            found.push(PortInfo { device: name(&device), port: number, ethernet, numa_node, gid });
        }
    }
    found
}

/// The identifier of an active port: on Ethernet one of RoCE version 2, of an IPv4 address if there is one, and a
/// link-local one last.
fn usable(port: &Path, ethernet: bool) -> Result<(u8, [u8; 16]), String> {
    let state = text(&port.join("state"));
    if !state.starts_with("4:") {
        return Err(format!("is not active (`{state}`)"));
    }
    let gid = |index: u8| gid_of(&text(&port.join(format!("gids/{index}")))).filter(|gid| gid[8..] != [0; 8]);
    if !ethernet {
        return gid(0).map(|gid| (0, gid)).ok_or_else(|| "has no global identifier".into());
    }
    let routable = |index: &u8| text(&port.join(format!("gid_attrs/types/{index}"))) == "RoCE v2";
    (0..=u8::MAX)
        .filter(routable)
        .filter_map(|index| Some((index, gid(index)?)))
        .min_by_key(|(_, gid)| match gid {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => 0,
            [0xfe, 0x80, ..] => 2,
            _ => 1,
        })
        .ok_or_else(|| "has no identifier for RoCE version 2".into())
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

/// The NUMA node that this process is bound to; `None` where it may run on several, and none is nearer.
fn near_node() -> Option<u32> {
    let bound = rustix::thread::sched_getaffinity(None).ok()?;
    let mut nodes = (0..CpuSet::MAX_CPU).filter(|cpu| bound.is_set(*cpu)).map(|cpu| node_of(Path::new(CPUS), cpu));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

fn node_of(cpus: &Path, cpu: usize) -> Option<u32> {
    entries(&cpus.join(format!("cpu{cpu}"))).iter().find_map(|entry| name(entry).strip_prefix("node")?.parse().ok())
}

/// What is in a folder, by name; nothing where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file of one line; empty where it can't be read.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(device: &str, numa: u32) -> PortInfo {
        PortInfo { device: device.into(), port: 1, ethernet: true, numa_node: Some(numa), gid: Ok((1, [1; 16])) }
    }

    fn chosen(found: &[PortInfo], wanted: &str, near: Option<u32>) -> Result<String, String> {
        let wanted = Wanted::parse(wanted)?;
        pick(found, &wanted, near).map(|info| format!("{}:{}", info.device, info.port))
    }

    #[test]
    fn the_near_one_is_taken_unless_the_user_names_another() {
        let mut found = vec![info("a", 0), info("b", 1), info("c", 1)];
        found[2].port = 2;
        assert_eq!(chosen(&found, "", Some(1)).as_deref(), Ok("b:1"));
        assert_eq!(chosen(&found, "", None).as_deref(), Ok("a:1"));
        assert_eq!(chosen(&found, "c,a", Some(1)).as_deref(), Ok("c:2"));
        assert_eq!(chosen(&found, "c:1, a:1", Some(1)).as_deref(), Ok("a:1"));
        assert_eq!(chosen(&found, "^b,a", None).as_deref(), Ok("c:2"));
        found[1].gid = Err("is not active (`1: DOWN`)".into());
        assert_eq!(chosen(&found, "", Some(1)).as_deref(), Ok("c:2"));
        let error = chosen(&found, "b", None).expect_err("it is down");
        assert!(error.contains("b:1 is not active (`1: DOWN`)") && error.contains("a:1 was not asked for"), "{error}");
        assert!(chosen(&found, "b:x", None).is_err());
    }

    /// A tree as sysfs has it, in a folder of its own; removed at the end.
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
            ("cpu7/cache/index0/level", "1"),
            ("cpu7/node1/numastat", ""),
        ]);
        let found = scan(&tree.0);
        let names: Vec<_> = found.iter().map(|info| (info.device.as_str(), info.port, info.numa_node)).collect();
        assert_eq!(names, [("mlx5_1", 2, Some(3)), ("rxe0", 1, None), ("siw0", 1, None)]);
        assert_eq!(found[1].gid, Ok((2, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1])));
        assert_eq!(found[0].gid, Err("is not active (`1: DOWN`)".into()));
        assert_eq!(found[2].gid, Err("is no channel adapter (its type is `4: RNIC`)".into()));
        assert!(scan(&tree.0.join("none")).is_empty());
        assert_eq!((node_of(&tree.0, 7), node_of(&tree.0, 8)), (Some(1), None));
    }
}
