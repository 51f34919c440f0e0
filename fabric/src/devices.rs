//! The choice among a machine's devices, by the user's list and by nearness to the CPUs of this
//! process. Shared by the backends that have devices.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;

/// The kernel's folder of CPUs, which shows the NUMA node of each.
const CPUS: &str = "/sys/devices/system/cpu";

/// The user's list of `device[:port]`. With `^` before it, the list excludes its devices; else it
/// allows only these. An empty list allows all devices.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeviceList {
    /// Whether the list excludes its devices.
    exclude: bool,
    /// Names of devices, each with one of its ports or, for `None`, with all.
    list: Vec<(String, Option<u8>)>,
}

impl DeviceList {
    /// Parses a list.
    ///
    /// # Errors
    /// A port is not a number.
    pub fn parse(text: &str) -> Result<DeviceList, String> {
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
        Ok(DeviceList { exclude, list })
    }

    /// Whether only the listed devices are allowed.
    pub fn is_allow_list(&self) -> bool {
        !self.exclude && !self.list.is_empty()
    }

    /// The preference for a port of a device; smaller is better. The preference is the position in
    /// a list of allowed devices, else 0 for a device that is `near` and 1 for others. `None`: the
    /// user excludes the port.
    pub fn preference(&self, device: &str, port: u8, near: bool) -> Option<usize> {
        let named = |(name, only): &(String, Option<u8>)| name == device && only.is_none_or(|only| only == port);
        match self.list.iter().position(named) {
            Some(place) if !self.exclude => Some(place),
            None if self.exclude || self.list.is_empty() => Some(usize::from(!near)),
            _ => None,
        }
    }
}

/// The NUMA node to which this process is bound; `None` if the process may run on several nodes.
pub fn near_node() -> Option<u32> {
    let bound = rustix::thread::sched_getaffinity(None).ok()?;
    let mut nodes = (0..CpuSet::MAX_CPU).filter(|cpu| bound.is_set(*cpu)).map(|cpu| node_of(Path::new(CPUS), cpu));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
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

/// The NUMA node of a CPU, by the folder of CPUs in sysfs.
fn node_of(cpus: &Path, cpu: usize) -> Option<u32> {
    entries(&cpus.join(format!("cpu{cpu}"))).iter().find_map(|entry| name(entry).strip_prefix("node")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_devices_keep_their_order_and_others_are_ranked_by_nearness() {
        let list = |text| DeviceList::parse(text).expect("a list");
        assert_eq!(list("").preference("a", 1, true), Some(0));
        assert_eq!(list("").preference("a", 1, false), Some(1));
        assert_eq!(list("b, a").preference("a", 1, false), Some(1));
        assert_eq!(list("b:1,a").preference("b", 2, true), None);
        assert_eq!(list("^b").preference("b", 2, true), None);
        assert_eq!(list("^b").preference("a", 1, false), Some(1));
        assert!(DeviceList::parse("b:x").is_err());
    }

    #[test]
    fn the_node_of_a_cpu_and_of_a_device_are_read_from_sysfs() {
        let root = std::env::temp_dir().join(format!("transom-devices-{}", std::process::id()));
        for folder in ["cpu7/cache/index0", "cpu7/node1", "cxi0/device", "cxi1/device"] {
            fs::create_dir_all(root.join(folder)).expect("a folder for temporary files");
        }
        fs::write(root.join("cxi0/device/numa_node"), "3\n").expect("a file");
        fs::write(root.join("cxi1/device/numa_node"), "-1\n").expect("a file");
        assert_eq!((node_of(&root, 7), node_of(&root, 8)), (Some(1), None));
        assert_eq!([0, 1, 2].map(|number| numa_node(&root.join(format!("cxi{number}")))), [Some(3), None, None]);
        fs::remove_dir_all(&root).expect("made by this test");
    }
}
