//! On which NUMA node pages are, and where pages to come shall be. Only asked where the machine has several nodes.

use std::ops::Range;

use rustix::io::Errno;

/// How many pages are looked at, evenly spread.
const SAMPLES: usize = 1024;

/// The one node that all of these pages are on that are anywhere, as far as samples tell; `None` where none is yet.
///
/// # Errors
/// They are on several, or the kernel does not say.
pub(crate) fn node_of(pages: &Range<usize>) -> Result<Option<u32>, String> {
    let step = (pages.len() / SAMPLES).next_multiple_of(rustix::param::page_size()).max(rustix::param::page_size());
    let sampled: Vec<usize> = pages.clone().step_by(step).collect();
    let mut status = vec![0i32; sampled.len()];
    // SAFETY: as many addresses as places for answers; without nodes to move to the call only tells (move_pages(2)).
    let done = unsafe {
        let (all, nowhere) = (sampled.as_ptr(), std::ptr::null::<i32>());
        libc::syscall(libc::SYS_move_pages, 0, sampled.len(), all, nowhere, status.as_mut_ptr(), 0)
    };
    if done != 0 {
        return Err(format!("move_pages: {}", std::io::Error::last_os_error()));
    }
    let mut nodes = status.into_iter().filter_map(|node| u32::try_from(node).ok());
    let first = nodes.next();
    if nodes.any(|node| Some(node) != first) {
        return Err("they are on several NUMA nodes, where copies would not be".into());
    }
    Ok(first)
}

/// Pages that come to a mapping from now on are preferably of this node; `None`: as the process has it. Of a memfd this is said of its pages,
/// whoever maps them.
///
/// # Errors
/// What `mbind` answers.
pub(crate) fn prefer(pages: &Range<usize>, node: Option<u32>) -> Result<(), Errno> {
    let mut mask = [0u64; 16];
    let policy = match node {
        None => libc::MPOL_DEFAULT,
        Some(node) => {
            let word = mask.get_mut(node as usize / 64).ok_or(Errno::INVAL)?;
            *word = 1 << (node % 64);
            libc::MPOL_PREFERRED
        }
    };
    let bits = 64 * mask.len();
    // SAFETY: the mask has as many bits as are said; of the pages only the policy changes.
    let done = unsafe { libc::syscall(libc::SYS_mbind, pages.start, pages.len(), policy, mask.as_ptr(), bits, 0) };
    if done == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn pages_are_where_they_were_asked_for() {
        let mapping = Mapping::private(8 << 20).expect("8 MiB");
        let pages = mapping.address()..mapping.address() + (8 << 20);
        assert_eq!(node_of(&pages), Ok(None), "nobody touched them");
        // Node 0 is there on every machine that has nodes at all; kernels without them have neither call.
        if prefer(&pages, Some(0)) == Err(Errno::NOSYS) {
            return;
        }
        mapping.populate().expect("8 MiB of memory");
        assert_eq!(node_of(&pages), Ok(Some(0)));
        assert_eq!(prefer(&pages, None), Ok(()));
        assert_eq!(prefer(&pages, Some(5000)), Err(Errno::INVAL));
    }
}
