//! Memory that a process had before, as part of its heap: its pages are exchanged for pages of the heap at the same addresses, with the same
//! contents, so that peers can map them; at the end they are exchanged back. A window over the user's memory is then as fast within
//! the node as one over memory of the library. Where it can't be done safely it is not done.

use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::fs::SeekFrom;
use transom_fabric::{Memory, Span};

use super::{Block, Core, Heap};
use crate::exchange::{Pages, exchange};
use crate::forked::{Exchanged, exchanged};
use crate::mapping::Mapping;
use crate::{placement, sole, topology};

/// How much of a process's time exchanges may take: this much, and a part of the time since its heap was made. A program that makes windows
/// over the same large memory again and again does not wait for copies of it.
const AT_ONCE: Duration = Duration::from_millis(500);
const PART: u32 = 8;

/// Memory of the user that is the heap's as long as this lives. It stays what it is for the process itself, then and later.
#[derive(Debug)]
pub struct Adopted {
    /// First dropped: the pages are exchanged back while the memory is still there.
    _adoption: Arc<Adoption>,
    _memory: Memory,
}

#[derive(Debug)]
struct Adoption {
    core: Arc<Core>,
    /// Until the pages are the user's again.
    block: Option<Block>,
    pages: Span,
}

/// Adopted pages in the book, by their first address.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) len: usize,
    adoption: Weak<Adoption>,
}

impl Heap {
    /// Makes the pages that the bytes of `memory` lie on pages of this heap, where [`Heap::offset_of`] finds them until the
    /// result is dropped, and all others for bytes of the same pages. What else lies on the pages is not disturbed, whoever reads and
    /// writes it meanwhile.
    ///
    /// # Errors
    /// In words why the pages stay as they are: what else they are than plain memory, who else may know them, what the system
    /// lacks.
    pub fn adopt(&self, memory: &Memory) -> Result<Adopted, String> {
        let pages = whole_pages(memory.span()).ok_or("it has no bytes")?;
        // Held to the end: no other exchange, and no fork.
        let mut list = exchanged();
        let adopted = |adoption| Adopted { _adoption: adoption, _memory: memory.clone() };
        if let Some(adoption) = self.core.adoption(pages) {
            return Ok(adopted(adoption));
        }
        let begun = Instant::now();
        self.core.affords(begun)?;
        let addresses = pages.as_ptr().addr()..pages.as_ptr().addr() + pages.len();
        sole::are_sole(&addresses)?;
        let node = if topology::numa_nodes() > 1 { placement::node_of(&addresses)? } else { None };
        let (block, new) = self.pages_for(pages.len(), node)?;
        let offset = block.offset();
        // SAFETY: `memory` keeps the pages, all of which its bytes touch; nobody knows which they are, as was found just now.
        unsafe { exchange(pages, Pages::Private, new, |at| Some(at..pages.len())) }?;
        if node.is_some() {
            // What comes to these pages of the heap later is as for other blocks. That it fails after it was possible is not known of.
            let _ = placement::prefer(&addresses, None);
        }
        list.push(Exchanged { pages, fd: self.core.fd.as_raw_fd(), offset });
        let adoption = Arc::new(Adoption { core: Arc::clone(&self.core), block: Some(block), pages });
        let mut book = self.core.book();
        let entry = Entry { offset, len: pages.len(), adoption: Arc::downgrade(&adoption) };
        book.adopted.insert(pages.as_ptr().addr(), entry);
        book.exchanging += begun.elapsed();
        Ok(adopted(adoption))
    }

    /// Pages of the heap that are to take the place of others, on their NUMA node.
    fn pages_for(&self, len: usize, node: Option<u32>) -> Result<(Block, Mapping), String> {
        let block =
            Core::take(&self.core, len).ok_or_else(|| format!("no range of {len} bytes is free in the heap"))?;
        let new = Mapping::new(self.core.fd.as_fd(), block.offset(), len).map_err(|errno| format!("mmap: {errno}"))?;
        if node.is_some() {
            let pages = new.address()..new.address() + len;
            placement::prefer(&pages, node).map_err(|errno| format!("mbind: {errno}"))?;
        }
        Ok((block, new))
    }
}

impl Core {
    /// The adoption that these pages are part of.
    fn adoption(&self, pages: Span) -> Option<Arc<Adoption>> {
        self.book().adopted_at(pages).and_then(|(_, entry)| entry.adoption.upgrade())
    }

    /// Whether there is time for another exchange.
    fn affords(&self, now: Instant) -> Result<(), String> {
        let spent = self.book().exchanging;
        if spent > AT_ONCE + now.duration_since(self.made) / PART {
            return Err(format!("exchanging pages has taken {spent:?} so far, more than an eighth of the time"));
        }
        Ok(())
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        let mut list = exchanged();
        let begun = Instant::now();
        let (core, pages) = (&self.core, self.pages);
        let Some(block) = self.block.take() else { return };
        let offset = block.offset();
        // Who has come to know the pages meanwhile keeps those that he knows.
        let new =
            sole::are_unknown().and_then(|()| Mapping::private(pages.len()).map_err(|errno| format!("mmap: {errno}")));
        let back = new.and_then(|new| {
            // SAFETY: the memory is dropped after this; the pages are those that `adopt` put there.
            unsafe { exchange(pages, Pages::Shared, new, |at| core.data(offset, at)) }
        });
        let mut book = core.book();
        book.exchanging += begun.elapsed();
        if back.is_err() {
            // They stay the heap's: the process sees no difference, and its children get copies.
            drop(book);
            std::mem::forget((Arc::clone(core), block));
            return;
        }
        book.adopted.remove(&pages.as_ptr().addr());
        list.retain(|it| it.pages.as_ptr() != pages.as_ptr());
        drop(book);
        drop(block);
    }
}

impl Core {
    /// The next bytes of a block that have memory, from `at` on.
    fn data(&self, offset: u64, at: usize) -> Option<Range<usize>> {
        let start = rustix::fs::seek(&self.fd, SeekFrom::Data(offset + at as u64)).ok()?;
        let end = rustix::fs::seek(&self.fd, SeekFrom::Hole(start)).ok()?;
        let inside = |place: u64| usize::try_from(place - offset).unwrap_or(usize::MAX);
        Some(inside(start)..inside(end))
    }
}

/// The pages that bytes lie on.
fn whole_pages(bytes: Span) -> Option<Span> {
    let page = rustix::param::page_size();
    let before = bytes.as_ptr().addr() % page;
    let len = before.checked_add(bytes.len())?.checked_next_multiple_of(page)?;
    (!bytes.is_empty()).then(|| Span::from_raw(bytes.as_ptr().wrapping_sub(before), len))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::HeapOptions;

    const PAGE: usize = 4096;

    fn heap() -> Arc<Heap> {
        Heap::create(HeapOptions::default()).expect("a heap")
    }

    /// Memory that is the test's own, as whole pages with others before and after.
    fn memory(pages: usize) -> Memory {
        let whole = Memory::private((pages + 3) * PAGE);
        let before = whole.as_ptr().addr().next_multiple_of(PAGE) - whole.as_ptr().addr();
        whole.slice(before + PAGE, pages * PAGE).expect("inside")
    }

    /// What a peer sees: another mapping of the same pages.
    fn mapped(heap: &Heap, memory: &Memory) -> Memory {
        let offset = heap.offset_of(memory).expect("adopted");
        let lead = usize::try_from(offset).expect("small") % PAGE;
        let len = (lead + memory.len()).next_multiple_of(PAGE);
        let mapping = Mapping::new(heap.core.fd.as_fd(), offset - lead as u64, len).expect("the heap's pages");
        mapping.into_memory(len, ()).slice(lead, memory.len()).expect("inside")
    }

    #[test]
    fn peers_share_what_is_adopted_and_nobody_does_afterwards() {
        let (heap, memory) = (heap(), memory(3));
        let part = memory.slice(104, 2 * PAGE).expect("inside");
        memory.write(0, &[7; 200]);
        let before = heap.resident().expect("fstat");
        assert_eq!(heap.offset_of(&part), None);
        let adopted = heap.adopt(&part).expect("plain memory");
        let peer = mapped(&heap, &part);
        let seen = |memory: &Memory, at| memory.word64(at).load(Ordering::Relaxed);
        assert_eq!(seen(&peer, 0), u64::from_ne_bytes([7; 8]), "the contents came along");
        peer.write(PAGE, &[9; 8]);
        assert_eq!(seen(&part, PAGE), u64::from_ne_bytes([9; 8]), "a peer's store is seen");
        part.write(PAGE + 8, &[5; 8]);
        assert_eq!(seen(&peer, PAGE + 8), u64::from_ne_bytes([5; 8]), "and so is the peer's by it");
        drop(adopted);
        assert_eq!(heap.offset_of(&part), None);
        assert_eq!(seen(&part, PAGE), u64::from_ne_bytes([9; 8]), "what a peer stored stays");
        part.write(PAGE, &[4; 8]);
        assert_eq!(heap.resident().expect("fstat"), before);
        assert_eq!(seen(&peer, PAGE), 0, "the heap's pages are empty");
        let pages = whole_pages(part.span()).expect("bytes");
        let _alone = exchanged();
        assert_eq!(sole::are_sole(&(pages.as_ptr().addr()..pages.as_ptr().addr() + pages.len())), Ok(()));
    }

    #[test]
    fn memory_on_adopted_pages_is_adopted_with_them() {
        let (heap, memory) = (heap(), memory(2));
        let (first, second) = (memory.slice(8, PAGE).expect("inside"), memory.slice(PAGE + 64, 64).expect("inside"));
        let one = heap.adopt(&first).expect("plain memory");
        let two = heap.adopt(&second).expect("on its second page");
        let peer = mapped(&heap, &second);
        drop(one);
        assert!(heap.offset_of(&first).is_some(), "the other one keeps it");
        second.write(0, &[3; 8]);
        assert_eq!(peer.word64(0).load(Ordering::Relaxed), u64::from_ne_bytes([3; 8]));
        drop(two);
        assert_eq!(heap.offset_of(&second), None);
        let across = heap.adopt(&second).expect("alone now");
        let error = heap.adopt(&memory).expect_err("one of its pages is the heap's, the other not");
        assert!(error.contains("transom-heap"), "{error}");
        drop(across);
    }

    #[test]
    fn untouched_memory_takes_none() {
        let (heap, memory) = (heap(), memory(16 << 10));
        memory.write(40 << 20, &[1]);
        let before = heap.resident().expect("fstat");
        let adopted = heap.adopt(&memory).expect("plain memory");
        assert_eq!(heap.resident().expect("fstat"), before + PAGE as u64);
        drop(adopted);
        let mut byte = [0];
        memory.read(40 << 20, &mut byte);
        assert_eq!(byte, [1]);
    }

    #[test]
    fn other_memory_than_plain_is_refused() {
        let heap = heap();
        let block = heap.allocate(PAGE).expect("a page");
        assert!(heap.adopt(&block).is_err_and(|why| why.contains("transom-heap")));
        assert!(heap.adopt(&Memory::private(0)).is_err());
        heap.core.book().exchanging = Duration::from_secs(3600);
        assert!(heap.adopt(&memory(1)).is_err_and(|why| why.contains("an eighth")));
    }

    /// No store of a thread, and none of the kernel for one, is lost between the old pages and the new ones.
    #[test]
    fn who_writes_meanwhile_loses_nothing() {
        const TIMES: usize = 20;
        let (heap, memory) = (heap(), memory(2048));
        memory.write(0, &vec![0x55; memory.len()]);
        for at in [0, 64, 30 * PAGE, memory.len() - 8] {
            memory.write(at, &[0; 8]);
        }
        // The window begins and ends within pages that others write to.
        let part = memory.slice(512, memory.len() - 1024).expect("inside");
        let stop = AtomicBool::new(false);
        let ends = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for at in [0, 30 * PAGE, memory.len() - 8] {
                let (word, stop, ends) = (memory.slice(at, 8).expect("inside"), &stop, &ends);
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        count += 1;
                        // Not one atomic: a store of its own, which must go to where the next load comes from.
                        let seen = word.word64(0).load(Ordering::Relaxed);
                        word.word64(0).store(seen + 1, Ordering::Relaxed);
                    }
                    assert_eq!(word.word64(0).load(Ordering::Relaxed), count, "increments at {at}");
                    ends.fetch_add(1, Ordering::Relaxed);
                });
            }
            let (into, stop, ends) = (memory.slice(64, 8).expect("inside"), &stop, &ends);
            scope.spawn(move || {
                let (mut from, mut to) = std::io::pipe().expect("a pipe");
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    to.write_all(&count.to_ne_bytes()).expect("room in the pipe");
                    let done = crate::exchange::tests::read_into(&from, &into);
                    assert_eq!((done, into.word64(0).load(Ordering::Relaxed)), (8, count), "by the kernel");
                }
                drop(to);
                assert_eq!(from.read(&mut [0]).expect("the end"), 0);
                ends.fetch_add(1, Ordering::Relaxed);
            });
            for _ in 0..TIMES {
                heap.core.book().exchanging = Duration::ZERO;
                drop(heap.adopt(&part).expect("plain memory"));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(ends.load(Ordering::Relaxed), 4);
    }
}
