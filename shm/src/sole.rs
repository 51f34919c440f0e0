//! Whether pages of this process are known to nobody but its page tables: then they can be exchanged for others with the same contents,
//! and nobody notices. Devices, pinned memory and other NUMA nodes say no, and so does whatever is not known here. Asks
//! `/proc/self`; changes nothing.

use std::ops::Range;

/// Devices that keep nothing of who opens them.
const DEVICES: [&str; 10] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts/",
    "/dev/shm/",
    "/dev/console",
];

/// Files without a name that know no memory.
const NAMELESS: [&str; 8] =
    ["[eventfd]", "[eventpoll]", "[timerfd]", "[signalfd]", "inotify", "[fanotify]", "[pidfd]", "[perf_event]"];

/// Whether these are plain memory, and nobody knows them.
///
/// # Errors
/// Who else may know the pages, or what they are instead.
pub(crate) fn are_sole(pages: &Range<usize>) -> Result<(), String> {
    plain(&read("/proc/self/maps")?, pages)?;
    are_unknown()
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// Whether there is nobody who could know pages of this process.
///
/// # Errors
/// Who could.
pub(crate) fn are_unknown() -> Result<(), String> {
    unpinned(&read("/proc/self/status")?)?;
    let opened = std::fs::read_dir("/proc/self/fd").map_err(|error| format!("/proc/self/fd: {error}"))?;
    for entry in opened.flatten() {
        // One that was closed meanwhile has no link any more.
        if let Ok(target) = std::fs::read_link(entry.path())
            && !harmless(&target.to_string_lossy())
        {
            return Err(format!("the process has {} open, which may know them", target.display()));
        }
    }
    Ok(())
}

/// Whether all of the pages are plain memory in a table of `/proc/<pid>/maps`.
fn plain(maps: &str, pages: &Range<usize>) -> Result<(), String> {
    let mut next = pages.start;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.and_then(|(start, end)| Some((number(start)?, number(end)?))) else { continue };
        if end <= next || start >= pages.end {
            continue;
        }
        let (rights, inode) = (fields.next().unwrap_or_default(), fields.nth(2).unwrap_or_default());
        let name = fields.next().unwrap_or_default();
        let usual = name.is_empty() || name == "[heap]" || name.starts_with("[anon");
        if start > next || rights != "rw-p" || inode != "0" || !usual {
            let what = if start > next { "nothing" } else { line };
            return Err(format!("they are not plain memory of the process: {what}"));
        }
        next = end;
    }
    if next < pages.end { Err("they are not all mapped".into()) } else { Ok(()) }
}

/// Whether no memory of the process is pinned, by its `/proc/<pid>/status`.
fn unpinned(status: &str) -> Result<(), String> {
    let pinned = status.lines().find_map(|line| line.strip_prefix("VmPin:")).map(str::trim);
    match pinned {
        Some("0 kB") => Ok(()),
        Some(pinned) => Err(format!("{pinned} of the process are pinned, perhaps for a device")),
        None => Err("the kernel does not tell whether memory of the process is pinned".into()),
    }
}

/// Whether an open file, by its link in `/proc/<pid>/fd`, knows no memory.
fn harmless(link: &str) -> bool {
    if let Some(kind) = link.strip_prefix("anon_inode:") {
        return NAMELESS.contains(&kind);
    }
    !link.starts_with("/dev/")
        || DEVICES.iter().any(|device| link == *device || (device.ends_with('/') && link.starts_with(device)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 r-xp 00000000 fe:00 77                         /bin/true
3000-5000 rw-p 00000000 00:00 0                          [heap]
5000-6000 rw-p 00000000 00:00 0
7000-8000 rw-s 00000000 00:01 9                          /memfd:transom-heap (deleted)
8000-9000 rw-p 00000000 00:00 0                          [stack]
a000-c000 rw-p 00000000 00:00 0                          [anon: glibc: malloc]
c000-d000 ---p 00000000 00:00 0
";

    #[test]
    fn only_plain_memory_is_exchanged() {
        let of = |pages: Range<usize>| plain(MAPS, &pages);
        for fine in [0x3000..0x5000, 0x4000..0x6000, 0x5000..0x6000, 0xb000..0xc000] {
            assert_eq!(of(fine.clone()), Ok(()), "{fine:x?}");
        }
        for other in [
            0x2000..0x4000,
            0x5000..0x7000,
            0x6000..0x7000,
            0x7000..0x8000,
            0x8000..0x9000,
            0xb000..0xd000,
            0xd000..0xe000,
        ] {
            assert!(of(other.clone()).is_err(), "{other:x?}");
        }
        let error = of(0x7000..0x8000).expect_err("shared");
        assert!(error.contains("transom-heap"), "{error}");
    }

    #[test]
    fn what_may_know_memory_is_told_from_what_does_not() {
        for fine in [
            "/dev/null",
            "/dev/pts/0",
            "/dev/shm/x",
            "pipe:[77]",
            "/etc/hosts",
            "anon_inode:[eventfd]",
            "anon_inode:inotify",
        ] {
            assert!(harmless(fine), "{fine}");
        }
        for other in [
            "/dev/infiniband/uverbs0",
            "/dev/nvidia0",
            "/dev/nullx",
            "/dev/cxi0",
            "anon_inode:[io_uring]",
            "anon_inode:kvm-vm",
        ] {
            assert!(!harmless(other), "{other}");
        }
        assert_eq!(unpinned("Name:\tx\nVmPin:\t       0 kB\n"), Ok(()));
        assert!(unpinned("VmPin:\t      64 kB\n").is_err() && unpinned("").is_err());
    }

    #[test]
    fn memory_of_this_test_is_its_own() {
        let bytes = vec![1u8; 1 << 20];
        let at = bytes.as_ptr().addr().next_multiple_of(4096);
        // No other test has a userfaultfd open meanwhile.
        let _alone = crate::forked::exchanged();
        assert_eq!(are_sole(&(at..at + 4096)), Ok(()));
        let code = (are_sole as fn(_) -> _ as usize) / 4096 * 4096;
        assert!(are_sole(&(code..code + 4096)).is_err());
    }
}
