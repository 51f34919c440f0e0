//! The memory that is available for a window: the rest of the machine's memory, or of the limit of
//! the process's control group. The kernel allocates pages at the first touch, so it grants any
//! size, and kills a process that touches too much. The creation of a window therefore fails if the
//! window is larger than the available memory.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use transom_fabric::{FabricError, Memory};

use crate::cgroups::{self, Chain};
use crate::error::{Error, ErrorKind, Result, TransportError};
use crate::hints::Hints;
use crate::job::{Cause, JobCore};
use crate::transport::{self, Wire};

/// Requests below this number of bytes are checked together when their sum reaches the number,
/// because a check takes as long as the allocation of some pages.
pub(super) const LARGE: u64 = 4 << 20;

/// The sum of requests that were not checked.
#[derive(Debug, Default)]
pub(super) struct Unchecked(AtomicU64);

impl Unchecked {
    pub(super) const fn new() -> Unchecked {
        Unchecked(AtomicU64::new(0))
    }

    /// Adds a request. Returns the sum if it is to be checked now; `None` while it is small.
    pub(super) fn add(&self, bytes: u64) -> Option<u64> {
        // A large request is checked alone, so that no other one fails instead of it.
        if bytes >= LARGE {
            return Some(bytes);
        }
        // Relaxed, both: if two threads exceed the limit at the same time, both check.
        let sum = self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (sum >= LARGE).then(|| {
            self.0.store(0, Ordering::Relaxed);
            sum
        })
    }
}

/// Pause before the available memory is read again, while other ranks return memory.
const PAUSE: Duration = Duration::from_millis(50);
/// Least growth after a pause, in bytes; otherwise no rank is returning memory.
const GROWTH: u64 = 16 << 20;
/// Maximum number of pauses: together 10 s.
const MOST_PAUSES: usize = 200;

/// The bytes that processes can still allocate, as the kernel reports them. `None` where there is
/// no limit, or where the kernel is configured to grant everything (`vm.overcommit_memory` 1, man
/// proc_sys_vm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Available {
    /// The rest of the machine's memory.
    pub(super) machine: Option<u64>,
    /// The rest of the limits of this process's control groups.
    pub(super) group: Option<u64>,
}

impl Available {
    pub(super) fn now() -> Available {
        of(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
    }

    /// The bytes that this process can still allocate.
    fn least(self) -> Option<u64> {
        [self.machine, self.group].into_iter().flatten().min()
    }
}

/// Memory of the library, with the alignment of the hints. The error names the call and the size.
pub(super) fn allocated(job: &JobCore, call: &'static str, bytes: usize, hints: &Hints) -> Result<Memory> {
    aligned(job, call, bytes, hints, if hints.huge_pages.is_some() { Wire::allocate_huge } else { Wire::allocate })
}

/// [`allocated`] by a given function of the transport.
pub(super) fn aligned(
    job: &JobCore,
    call: &'static str,
    bytes: usize,
    hints: &Hints,
    make: fn(&Wire, usize) -> std::result::Result<Memory, FabricError>,
) -> Result<Memory> {
    let failed = |source| Error::from(ErrorKind::Memory { call, rank: job.rank, bytes, source });
    static UNCHECKED: Unchecked = Unchecked::new();
    if let Some(sum) = UNCHECKED.add(bytes as u64)
        && let Some(available) = lacking(sum, || Available::now().least())
    {
        return Err(failed(TransportError::OutOfMemory { available }));
    }
    // Blocks begin on pages.
    let alignment = hints.alignment_of(bytes);
    if alignment <= 4096 || bytes == 0 {
        return make(&job.wire, bytes).map_err(|error| failed(error.into()));
    }
    let room = bytes.checked_add(alignment).ok_or_else(|| failed(TransportError::SizeOverflow))?;
    let block = make(&job.wire, room).map_err(|error| failed(error.into()))?;
    let skip = block.as_ptr().addr().next_multiple_of(alignment) - block.as_ptr().addr();
    block.slice(skip, bytes).ok_or_else(|| failed(TransportError::SizeOverflow))
}

/// The available memory, if it is less than `bytes`. The call waits while the available memory
/// grows: another rank of the machine may still be returning the memory of a window that the ranks
/// have just freed.
fn lacking(bytes: u64, available: impl Fn() -> Option<u64>) -> Option<u64> {
    let mut before = available().filter(|&available| bytes > available)?;
    for _ in 0..MOST_PAUSES {
        std::thread::sleep(PAUSE);
        let now = available().filter(|&available| bytes > available)?;
        if now < before.saturating_add(GROWTH) {
            return Some(now);
        }
        before = now;
    }
    Some(before)
}

/// Whether the kernel provides huge pages on request. One line of warning reports that it does not.
pub(super) fn has_huge_pages(job: &JobCore) -> bool {
    let given = transport::huge_pages();
    if let Err(reason) = &given {
        job.warn_once(Cause::HugePages, &format!("transom_huge_pages has no effect: {reason}"));
    }
    given.is_ok()
}

/// [`Available::now`] with the root folders of procfs and of control groups.
fn of(proc: &Path, groups: &Path) -> Available {
    if read_to_string(proc.join("sys/vm/overcommit_memory")).is_ok_and(|mode| mode.trim() == "1") {
        return Available::default();
    }
    let machine = read_to_string(proc.join("meminfo")).ok().and_then(|info| {
        let field = |name| kibibytes(&info, name);
        Some(field("MemAvailable:")?.saturating_add(field("SwapFree:").unwrap_or(0)))
    });
    let group = cgroups::chains(proc, groups, "memory").iter().filter_map(of_chain).min();
    Available { machine, group }
}

/// A number of /proc/meminfo, in bytes.
fn kibibytes(info: &str, name: &str) -> Option<u64> {
    let value = info.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least memory left to a control group and to its ancestors.
fn of_chain(chain: &Chain) -> Option<u64> {
    let (limit, usage) = chain.version.memory_files();
    chain.groups.iter().filter_map(|group| left(group, limit, usage)).min()
}

/// The memory left to a control group. Memory that the kernel takes back when the group needs it
/// counts as free: cached files, and caches of the kernel.
fn left(group: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |name| read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // Most groups have no limit. Their statistics, which are costly to the kernel, are not read.
    let (limit, usage) = (number(limit)?, number(usage)?);
    let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    // Version 1 has separate sums over the group and its children.
    let cached = |name: &str| field(&format!("total_{name}")).or_else(|| field(name)).unwrap_or(0);
    let free: u64 = ["inactive_file", "active_file", "slab_reclaimable"].map(cached).iter().sum();
    Some(limit.saturating_sub(usage.saturating_sub(free)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::tests::Files;

    fn available_of(files: &Files) -> Option<u64> {
        let (proc, groups) = files.roots();
        of(&proc, &groups).least()
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:   4096 kB\nSwapFree:  1024 kB\n");

    #[test]
    fn free_memory_is_available_memory_plus_swap() {
        assert_eq!(available_of(&Files::new("machine", &[MEMINFO])), Some(5 << 20));
        let granted = ("proc/sys/vm/overcommit_memory", "1\n");
        assert_eq!(available_of(&Files::new("granted", &[MEMINFO, granted])), None);
        assert_eq!(available_of(&Files::new("nothing", &[])), None);
    }

    /// The parent group has less memory left than the process's group: 2 MiB, 512 KiB of which are
    /// cached files.
    #[test]
    fn the_smallest_remainder_of_all_groups_counts() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "0::/job/step\n"),
            ("groups/job/step/memory.max", "max\n"),
            ("groups/job/step/memory.current", "1000\n"),
            ("groups/job/memory.max", "4194304\n"),
            ("groups/job/memory.current", "2621440\n"),
            ("groups/job/memory.stat", "anon 7\ninactive_file 262144\nactive_file 131072\nslab_reclaimable 131072\n"),
        ];
        assert_eq!(available_of(&Files::new("groups", &files)), Some(2 << 20));
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n"),
            ("groups/memory/job/memory.limit_in_bytes", "3145728\n"),
            ("groups/memory/job/memory.usage_in_bytes", "1572864\n"),
            ("groups/memory/job/memory.stat", "active_file 7\ntotal_active_file 524288\n"),
        ];
        assert_eq!(available_of(&Files::new("old", &files)), Some(2 << 20));
    }

    /// Many small requests are checked as a large one is.
    #[test]
    fn small_requests_are_checked_in_sum() {
        let unchecked = Unchecked::new();
        assert_eq!(unchecked.add(LARGE), Some(LARGE));
        let sums: Vec<_> = (0..128).filter_map(|_| unchecked.add(64 << 10)).collect();
        assert_eq!(sums, [LARGE, LARGE]);
    }

    #[test]
    fn memory_that_is_being_returned_is_awaited() {
        let readings = |all: &'static [u64]| {
            let next = std::cell::Cell::new(0);
            move || Some(all[next.replace(next.get() + 1)])
        };
        assert_eq!(lacking(100 << 20, readings(&[40 << 20, 60 << 20, 120 << 20])), None, "another rank returned it");
        assert_eq!(
            lacking(100 << 20, readings(&[40 << 20, 60 << 20, 61 << 20])),
            Some(61 << 20),
            "nobody returns more"
        );
        assert_eq!(lacking(100 << 20, || None), None);
    }

    /// Shows W2.
    #[test]
    fn this_machine_reports_its_free_memory() {
        let granted = read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "1");
        assert_eq!(Available::now().least().is_none(), granted);
    }
}
