//! Populates pages before memory is registered.

use rustix::mm::{Advice, madvise};

/// Populates the pages of a range, as a provider may require (man fi_mr, FI_MR_ALLOCATED);
/// read-only pages for reading. Where populating fails, the provider's own pinning reports the
/// error.
///
/// # Safety
/// The memory stays valid over the call.
pub(crate) unsafe fn populate(base: *const u8, len: usize) {
    let page = rustix::param::page_size();
    let before = base.addr() % page;
    let (first, len) = (base.wrapping_sub(before).cast_mut().cast(), before + len);
    for advice in [Advice::LinuxPopulateWrite, Advice::LinuxPopulateRead] {
        // SAFETY: whole pages of valid memory; populating changes no content.
        if unsafe { madvise(first, len, advice) }.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::io::{Read, Seek, SeekFrom};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::*;

    /// Whether each page from `base` on is present (man proc, `/proc/pid/pagemap`: bit 63 of a
    /// page's word).
    fn present(base: *mut c_void, pages: usize, page: usize) -> Vec<bool> {
        let mut map = std::fs::File::open("/proc/self/pagemap").expect("own pages");
        map.seek(SeekFrom::Start((base.addr() / page * 8) as u64)).expect("a place for each page");
        let mut words = vec![0; pages * 8];
        map.read_exact(&mut words).expect("a word for each page");
        words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) >> 63 != 0).collect()
    }

    /// Man fi_mr, FI_MR_ALLOCATED.
    /// Shows T3.
    #[test]
    fn exactly_the_pages_of_a_range_are_populated() {
        let page = rustix::param::page_size();
        // SAFETY: a fresh mapping at an address of the kernel's choice, which no other code uses,
        // and which stays until the end.
        unsafe {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let base = mmap_anonymous(std::ptr::null_mut(), 6 * page, protection, flags).expect("address space");
            populate(base.cast::<u8>().add(2 * page - 1), page + 2);
            assert_eq!(present(base, 6, page), [false, true, true, true, false, false]);
            munmap(base, 6 * page).expect("its own");
        }
    }
}
