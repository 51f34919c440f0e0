//! Topology of the machine as the kernel reports it: the processors that the process may use, and
//! the number of NUMA nodes. Makes no decision.

/// The processors that this process may run on (`sched_getaffinity(2)`), in ascending order.
/// Processors beyond the 1024 of the kernel's fixed-size interface are missing. A bound rank sees
/// only its own processors, so take the union over the node's ranks before you compare their number
/// with that of the ranks.
pub fn allowed_cpus() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// The number of NUMA nodes of the machine (`/sys/devices/system/node`), at least 1.
pub fn numa_nodes() -> usize {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/node") else {
        return 1;
    };
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count().max(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_is_at_least_one_processor() {
        let cpus = allowed_cpus();
        assert!(cpus.is_sorted());
        assert!(cpus.contains(&rustix::thread::sched_getcpu()));
        assert!(numa_nodes() >= 1);
    }
}
