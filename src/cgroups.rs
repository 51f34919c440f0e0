//! The control groups of this process (man cgroups; versions 1 and 2): the folders of its groups,
//! their limits of CPU time, and the group that limits its memory.

use std::fs::{metadata, read_to_string};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version of a hierarchy of control groups, which decides the names of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// The folders of this process's group and of its ancestors, from the group to the root.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) version: Version,
    pub(crate) groups: Vec<PathBuf>,
}

/// The limit of CPU time of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The number of CPUs that the group's processes may keep busy together, at least 1.
    pub(crate) cpus: usize,
    /// A number that identifies the group among all groups of the machine; not 0.
    pub(crate) group: u64,
}

/// The chains of this process for a controller. `proc` and `root`: the root folders of procfs and
/// of control groups.
pub(crate) fn chains(proc: &Path, root: &Path, controller: &str) -> Vec<Chain> {
    let memberships = read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    memberships.lines().filter_map(|line| chain(root, line, controller)).collect()
}

/// The chain of a line of /proc/self/cgroup, if its hierarchy has the controller.
fn chain(root: &Path, line: &str, controller: &str) -> Option<Chain> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (version, root) = match controllers {
        "" => (Version::Two, root.to_owned()),
        several if several.split(',').any(|one| one == controller) => (Version::One, root.join(controller)),
        _ => return None,
    };
    let own = root.join(path.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|group| group.starts_with(&root)).map(Path::to_owned).collect();
    Some(Chain { version, groups })
}

/// The most limits of CPU time on a path of groups that count. More are unusual.
pub(crate) const QUOTAS: usize = 4;

impl Version {
    /// The files of a group with the limit of its memory and with the memory in use.
    pub(crate) fn memory_files(self) -> (&'static str, &'static str) {
        match self {
            Version::Two => ("memory.max", "memory.current"),
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        }
    }
}

/// The limits of CPU time of this process's group and of its ancestors, the smallest first. Each
/// limits the processes of all groups below its group.
pub(crate) fn cpu_quotas() -> Vec<Quota> {
    quotas_of(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn quotas_of(proc: &Path, root: &Path) -> Vec<Quota> {
    let chains = chains(proc, root, "cpu");
    let groups = chains.iter().flat_map(|chain| chain.groups.iter().map(|group| (group, chain.version)));
    let quota =
        |(group, version): (&PathBuf, Version)| Some(Quota { cpus: limit(group, version)?, group: number(group) });
    let mut quotas: Vec<_> = groups.filter_map(quota).collect();
    quotas.sort_by_key(|quota| quota.cpus);
    quotas.truncate(QUOTAS);
    quotas
}

/// The number of a group, not 0. Processes that see different mounts of one group find the same
/// inode.
fn number(group: &Path) -> u64 {
    metadata(group).map_or(1, |folder| folder.ino().max(1))
}

/// The number of the innermost group of this process whose memory is limited; 0: there is none.
pub(crate) fn memory_group() -> u64 {
    memory_group_of(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn memory_group_of(proc: &Path, root: &Path) -> u64 {
    // Version 1 writes about 2^63 for no limit.
    let is_limit = |text: String| text.trim().parse::<u64>().is_ok_and(|limit| limit < 1 << 62);
    let chains = chains(proc, root, "memory");
    let mut groups = chains.iter().flat_map(|chain| chain.groups.iter().map(|group| (group, chain.version)));
    let limited = groups.find(|(group, version)| {
        let (limit, _) = version.memory_files();
        read_to_string(group.join(limit)).is_ok_and(is_limit)
    });
    limited.map_or(0, |(group, _)| number(group))
}

/// The whole CPUs that a group's limit of time allows, at least 1.
fn limit(group: &Path, version: Version) -> Option<usize> {
    let text = |name| read_to_string(group.join(name)).ok();
    // Microseconds per period. No limit is `max`, or -1 in version 1.
    let (quota, period) = match version {
        Version::Two => {
            let both = text("cpu.max")?;
            let (quota, period) = both.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Version::One => (text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")?),
    };
    let (quota, period) = (quota.trim().parse::<usize>().ok()?, period.trim().parse::<usize>().ok()?);
    Some(quota.checked_div(period)?.max(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A folder with these files, removed at the end.
    pub(crate) struct Files(PathBuf);

    impl Files {
        pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Files {
            // Tests of one process run at the same time.
            static FOLDERS: AtomicUsize = AtomicUsize::new(0);
            let (process, number) = (std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(format!("transom-room-{name}-{process}-{number}"));
            for (path, text) in files {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
                std::fs::write(path, text).expect("a file");
            }
            Files(folder)
        }

        /// The root folders of procfs and of control groups.
        pub(crate) fn roots(&self) -> (PathBuf, PathBuf) {
            (self.0.join("proc"), self.0.join("groups"))
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn quota(name: &str, files: &[(&str, &str)]) -> Option<(usize, bool)> {
        let files = Files::new(name, files);
        let (proc, root) = files.roots();
        let parent = metadata(root.join("job")).map(|folder| folder.ino()).ok();
        quotas_of(&proc, &root).first().map(|quota| (quota.cpus, Some(quota.group) == parent))
    }

    #[test]
    fn the_smallest_quota_of_all_groups_counts() {
        let of_job = ("groups/job/cpu.max", "250000 100000\n");
        let own = ("proc/self/cgroup", "0::/job/step\n");
        let unlimited = ("groups/job/step/cpu.max", "max 100000\n");
        assert_eq!(quota("parent", &[own, of_job, unlimited]), Some((2, true)), "2.5 CPUs");
        let smaller = ("groups/job/step/cpu.max", "50000 100000\n");
        assert_eq!(quota("own", &[own, of_job, smaller]), Some((1, false)), "half a CPU");
        assert_eq!(quota("none", &[own, unlimited]), None);
        assert_eq!(quota("nothing", &[]), None);
    }

    /// Regression: only the smallest limit of a path counted, although ranks in other groups below
    /// the larger limit share it.
    #[test]
    fn limits_of_all_groups_of_the_path_count() {
        let files = Files::new(
            "nested",
            &[
                ("proc/self/cgroup", "0::/job/step/task\n"),
                ("groups/job/cpu.max", "600000 100000\n"),
                ("groups/job/step/cpu.max", "max 100000\n"),
                ("groups/job/step/task/cpu.max", "400000 100000\n"),
                ("groups/job/memory.max", "1048576\n"),
                ("groups/job/step/memory.max", "4194304\n"),
                ("groups/job/step/task/memory.max", "max\n"),
            ],
        );
        let (proc, root) = files.roots();
        let quotas = quotas_of(&proc, &root);
        let number_of = |path: &str| number(&root.join(path));
        let (task, job) = (number_of("job/step/task"), number_of("job"));
        assert_eq!(quotas, [Quota { cpus: 4, group: task }, Quota { cpus: 6, group: job }]);
        assert_eq!(memory_group_of(&proc, &root), number_of("job/step"));
        assert_eq!(memory_group_of(&proc, &proc), 0);
    }

    #[test]
    fn quotas_of_version_1_count_too() {
        let own = ("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/job\n");
        let period = ("groups/cpu/job/cpu.cfs_period_us", "50000\n");
        let files = [own, period, ("groups/cpu/job/cpu.cfs_quota_us", "200000\n")];
        assert_eq!(quota("old", &files).map(|found| found.0), Some(4));
        let files = [own, period, ("groups/cpu/job/cpu.cfs_quota_us", "-1\n")];
        assert_eq!(quota("unlimited", &files), None);
        // In a container the root of the hierarchy is the container's group.
        let files = [own, ("groups/cpu/cpu.cfs_quota_us", "300000"), ("groups/cpu/cpu.cfs_period_us", "100000")];
        assert_eq!(quota("container", &files).map(|found| found.0), Some(3));
    }
}
