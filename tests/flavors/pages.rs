//! Pages of the node's memory that a rank touches or maps when it creates a shared window, at first
//! contact and at `free`. The kernel reports them for this process (proc(5)).

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use transom::{Assert, Info, Job, RawWindow, Window};
use transom_harness::{Mapping, Outcome, bytes_of_proc, ensure, one_node, same, step};

use crate::memory::put;
use crate::shared::refused;

/// A page is on the NUMA node of the rank that touches it first: the rank in whose part the page
/// begins.
/// Shows W1.
/// Route: shm.
pub(crate) fn touched_by_their_owner(world: &Job) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let (me, page) = (world.rank(), rustix::param::page_size());
    // Parts that end within pages, that begin and end within one page, and that have many pages.
    for unit in [page + 100, 40, 300 * page + 8] {
        let len = |rank: usize| unit * (rank + 1) - rank;
        step(format!("parts of {unit} bytes and more"));
        let win = RawWindow::allocate_shared(world, len(me), 1, &Info::new())?;
        let begin: usize = (0..me).map(len).sum();
        let all: usize = (0..world.size()).map(len).sum();
        let touched = present(win.shared_query(0)?.base().addr(), all.div_ceil(page))?;
        let own = (0..all.div_ceil(page)).filter(|at| (begin..begin + len(me)).contains(&(at * page)));
        same("pages that this rank has touched", &touched, &own.collect::<Vec<_>>())?;
        win.free()?;
    }
    untouched_if_one_rank_has_all(world)
}

/// Ranks may use a part that is the whole of a long segment as if it were shared out: each page is
/// on the NUMA node of the rank that uses it first.
fn untouched_if_one_rank_has_all(world: &Job) -> Outcome {
    const LONG: usize = 2 << 20;
    if world.size() == 1 {
        return Ok(());
    }
    step("all bytes at rank 0");
    let len = if world.rank() == 0 { LONG } else { 0 };
    let win = RawWindow::allocate_shared(world, len, 1, &Info::new())?;
    let base = win.shared_query(0)?.base().addr();
    let touched = present(base, LONG / rustix::param::page_size())?;
    same("pages that this rank has touched", &touched, &Vec::new())?;
    Ok(win.free()?)
}

/// Regression: first contact touched all of a peer's ring, job block and part, which took 0.4 ms.
/// Shows T2.
pub(crate) fn few_at_first_contact(world: &Job) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let win = Window::<u64>::allocate(world, 1 << 17)?;
    let others = || (0..world.size()).filter(|&rank| rank != world.rank());
    win.lock_all(|epoch| others().try_for_each(|rank| epoch.put_value(rank, 0, 1)))?;
    let mut bytes = 0;
    for mapping in mappings_of_peers()? {
        bytes += usize::try_from(mapping.resident()?)?;
    }
    let (pages, peers) = (bytes / rustix::param::page_size(), world.size() - 1);
    // The ring, the words of the job and of the window, the directory, and the word that was put.
    ensure((peers..=8 * peers).contains(&pages), &format!("few pages of {peers} peers are mapped, not {pages}"))?;
    Ok(win.free()?)
}

/// Regression: each window had a mapping for each target, so that 510 windows with 128 targets used
/// up a process's mappings. Here windows of all ranks grow and shrink beside each other.
/// Shows W7.
pub(crate) fn few_mappings(world: &Job) -> Outcome {
    const WINDOWS: usize = 200;
    let (me, size) = (world.rank(), world.size());
    let mut windows: Vec<Option<Window<u64>>> = Vec::new();
    let words = |number: usize| if number % 50 == 7 { 1 << 20 } else { 1 + size + number * 20 };
    let check = |win: &Window<u64>, number: usize| -> Outcome {
        let (next, mut first, mut last) = ((me + 1) % size, [0], vec![0; size]);
        win.lock_all(|epoch| epoch.get(next, 0, &mut first))?;
        same("the next rank's word", &first, &[(next + number) as u64])?;
        win.load(words(number) - size, &mut last)?;
        same("the words of all ranks", &last, &vec![number as u64; size])
    };
    for number in 0..2 * WINDOWS {
        step(format!("window {number}"));
        let win = Window::<u64>::allocate(world, words(number))?;
        win.store(0, &[(me + number) as u64])?;
        win.fence(|epoch| (0..size).try_for_each(|rank| epoch.put_value(rank, words(number) - 1 - me, number as u64)))?;
        win.fence(|_| Ok(()))?;
        windows.push(Some(win));
        // The first windows end in another order than that of their creation, and later windows lie
        // at their places.
        let ended = number * 37 % WINDOWS;
        if number >= WINDOWS
            && let Some(win) = windows[ended].take()
        {
            check(&win, ended)?;
            win.free()?;
        }
    }
    let (maps, most) = (mappings_of_peers()?.len(), 6 * (size - 1));
    ensure(maps <= most, &format!("{maps} mappings of peers' memory are more than {most}"))?;
    for (number, win) in windows.into_iter().enumerate() {
        let Some(win) = win else { continue };
        check(&win, number)?;
        win.free()?;
    }
    Ok(())
}

/// Regression: creation touched all pages of windows of up to 64 MiB, which took most of the time
/// of an application that creates large windows and uses little of them.
/// Shows W1.
pub(crate) fn of_large_windows_at_use(world: &Job) -> Outcome {
    const PAGES: usize = 8192;
    let page = rustix::param::page_size();
    let win = RawWindow::allocate(world, PAGES * page, 1, &Info::new())?;
    let touched = || present(win.base().addr(), PAGES);
    same("pages touched by the creation", &touched()?, &vec![])?;
    win.store(3000 * page, &[1]);
    same("pages touched", &touched()?, &vec![3000])?;
    Ok(win.free()?)
}

/// A part whose hint requests huge pages has the advice for them and is aligned to a huge page. The
/// hint in force says whether the kernel provides them for shared memory. Other parts are not
/// advised.
/// Shows W6, T9.
pub(crate) fn huge_on_request(world: &Job) -> Outcome {
    const HUGE: &str = "transom_huge_pages";
    const BYTES: usize = 5 << 20;
    if !one_node(world)? {
        return refused(world);
    }
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    let known = setting.is_ok();
    let given = setting.is_ok_and(|values| !values.contains("[never]") && !values.contains("[deny]"));
    let next = (world.rank() + 1) % world.size();
    for (requested, bytes) in [("true", BYTES), ("true", 5000), ("false", BYTES)] {
        let info = Info::new().with(HUGE, requested);
        let windows = [
            RawWindow::allocate(world, bytes, 1, &info)?,
            RawWindow::allocate_shared(world, bytes, 1, &info)?,
            RawWindow::allocate_shared(world, bytes, 1, &info.clone().with("alloc_shared_noncontig", "true"))?,
        ];
        for (number, win) in windows.iter().enumerate() {
            step(format!("window {number} of {bytes} bytes, requested: {requested}"));
            let expected = if given { requested } else { "false" };
            same("the hint in force", &win.info().get(HUGE), &Some(expected))?;
            let advised = Mapping::at(win.base().addr())?.flags()?.iter().any(|flag| flag == "hg");
            same("advised", &advised, &(known && requested == "true"))?;
            if requested == "true" && bytes == BYTES && (number != 1 || world.rank() == 0) {
                same("the begin in a huge page", &(win.base().addr() % (2 << 20)), &0)?;
            }
            let mut seen = vec![1; bytes];
            win.load(0, &mut seen);
            ensure(seen.iter().all(|&byte| byte == 0), "zeroed")?;
            world.barrier()?;
            win.lock_all(Assert::NONE)?;
            put(win, next, bytes as u64 - 1, &[1 + u8::try_from(world.rank())?])?;
            win.unlock_all()?;
            world.barrier()?;
            let before = (world.rank() + world.size() - 1) % world.size();
            win.load(bytes - 1, &mut seen[..1]);
            same("the last byte", &usize::from(seen[0]), &(before + 1))?;
        }
        windows.iter().try_for_each(RawWindow::free)?;
    }
    let own = RawWindow::create_dynamic(world, &Info::new().with(HUGE, "true"))?;
    same("memory of the program", &own.info().get(HUGE), &Some("false"))?;
    Ok(own.free()?)
}

/// Regression: `free` mapped the parts of the ranks with which it synchronizes.
/// Shows T2.
pub(crate) fn none_at_free(world: &Job) -> Outcome {
    // More than twice the 128 MiB that the C library maps for a moment when a thread first
    // allocates.
    const BYTES: usize = 320 << 20;
    if !one_node(world)? {
        return refused(world);
    }
    let win = Window::<u8>::allocate(world, BYTES)?;
    let (before, size) = (status("VmPeak:")?, status("VmSize:")?);
    ensure(before < size + BYTES / 2, "a mapping more would be the most that this process ever had")?;
    win.free()?;
    let after = status("VmPeak:")?;
    ensure(after < before + BYTES / 2, &format!("{} bytes were mapped to free a window", after - before))
}

/// The pages of a range that this process's page table has.
fn present(address: usize, pages: usize) -> Outcome<Vec<usize>> {
    const PRESENT: u64 = 1 << 63;
    let mut entries = vec![0; 8 * pages];
    let first = address / rustix::param::page_size();
    fs::File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, 8 * first as u64)?;
    let (entries, _) = entries.as_chunks::<8>();
    Ok((0..pages).filter(|&at| u64::from_ne_bytes(entries[at]) & PRESENT != 0).collect())
}

/// This process's mappings of other ranks' heaps.
fn mappings_of_peers() -> Outcome<Vec<Mapping>> {
    let opened = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.path());
    let heaps = opened.filter(|path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(HEAP)));
    // This process opened its own heap first.
    let own = heaps.min_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let own = own.map(fs::metadata).transpose()?.map(|own| own.ino());
    let mut all = Mapping::all()?;
    all.retain(|mapping| mapping.path.contains(HEAP) && Some(mapping.inode) != own);
    Ok(all)
}

/// In the name of each heap.
const HEAP: &str = "transom-heap";

/// A size that the kernel reports of this process, in bytes.
fn status(line: &str) -> Outcome<usize> {
    Ok(bytes_of_proc("/proc/self/status", line)?.try_into()?)
}
