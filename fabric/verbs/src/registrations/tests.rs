//! Kept registrations against a program that changes its mappings. The registration of a test is
//! the number that its buffer holds when it is registered. Each mapping holds a number of its own,
//! so a registration of an earlier mapping has another number than the buffer.

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, mremap_fixed,
    munmap,
};
use transom_fabric::{Domain, Memory, Peer, Port, Post, Region, Span, Tally};

use crate::domain::{VerbsDomain, VerbsOptions};
use crate::standin::Standin;

use super::*;

const LEN: usize = 256 << 10;

/// A mapping's memory, which a test unmaps itself.
struct Buffer(*mut u8);

impl Buffer {
    /// Maps memory and writes a number to it, at an address or, for 0, at a new one. `None` if
    /// another mapping is there. The kernel chooses none of these addresses by itself.
    fn map(at: usize, number: u64) -> Option<Buffer> {
        static FREE: AtomicUsize = AtomicUsize::new(1 << 42);
        let at = if at == 0 { FREE.fetch_add(2 * LEN, Ordering::Relaxed) } else { at };
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
        // SAFETY: the mapping replaces no other.
        let base = unsafe { mmap_anonymous(without_provenance_mut(at), LEN, protection, flags) }.ok()?;
        let buffer = Buffer(base.cast());
        buffer.write(number);
        Some(buffer)
    }

    fn range(&self) -> Range<usize> {
        self.0.addr()..self.0.addr() + LEN
    }

    fn write(&self, number: u64) {
        for page in (0..LEN).step_by(rustix::param::page_size()) {
            // SAFETY: inside the mapping, aligned to pages.
            unsafe { self.0.add(page).cast::<u64>().write_volatile(number) };
        }
    }

    fn number(&self) -> u64 {
        number_at(self.0.addr())
    }

    fn unmap(self) {
        // SAFETY: the mapping's user is this value.
        unsafe { munmap(self.0.cast(), LEN) }.expect("mapped");
    }
}

fn number_at(address: usize) -> u64 {
    // SAFETY: callers pass the address of a mapping.
    unsafe { without_provenance_mut::<u64>(address).read_volatile() }
}

/// Registers by the number in the buffer, and counts.
fn registered(registrations: &Registrations<u64>, buffer: &Buffer, made: &AtomicU64) -> u64 {
    let register = |range: &Range<usize>| {
        made.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ()>((number_at(range.start), true))
    };
    *registrations.get_or_register(buffer.range(), register).expect("never refused")
}

/// A cache, unless this machine's kernel reports no changes to this user: then no test can run.
fn cache(limit: usize) -> Registrations<u64> {
    Changes::open().expect("userfaultfd, without privileges since Linux 5.11");
    Registrations::new(limit)
}

/// Regression: a small window inside a large one hid the large one's registration.
#[test]
fn a_buffer_is_found_in_every_region_that_contains_it() {
    let registrations = Registrations::new(0);
    for (number, range) in (0..).zip([0..100, 10..20, 0..5]) {
        registrations.add_region(range, number, Arc::new(number));
    }
    let found = |buffer: Range<usize>| registrations.find_region(&buffer).map(|found| *found);
    assert_eq!([found(30..40), found(12..14), found(0..6), found(99..101)], [Some(0), Some(1), Some(0), None]);
}

#[test]
fn a_buffer_that_stays_is_registered_once() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let buffer = Buffer::map(0, 7).expect("memory");
    for _ in 0..10 {
        assert_eq!(registered(&registrations, &buffer, &made), 7);
    }
    let part = buffer.range().start + 4096..buffer.range().end;
    assert_eq!(registrations.get_or_register(part, |_| Err("not made again")), Ok(Arc::new(7)));
    assert_eq!(made.load(Ordering::Relaxed), 1);
    buffer.unmap();
}

/// Without a limit nothing is kept.
#[test]
fn a_cache_of_no_bytes_keeps_nothing() {
    let (registrations, made) = (Registrations::new(0), AtomicU64::new(0));
    let buffer = Buffer::map(0, 7).expect("memory");
    registered(&registrations, &buffer, &made);
    registered(&registrations, &buffer, &made);
    assert_eq!(made.load(Ordering::Relaxed), 2);
    buffer.unmap();
}

/// Memory that the device may only read is registered each time.
#[test]
fn registrations_that_may_not_write_are_not_kept() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let buffer = Buffer::map(0, 7).expect("memory");
    for _ in 0..2 {
        let register = |_: &Range<usize>| Ok::<_, ()>((made.fetch_add(1, Ordering::Relaxed), false));
        registrations.get_or_register(buffer.range(), register).expect("never refused");
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
    buffer.unmap();
}

/// After each way to return memory to the system, the next registration is of the new memory.
#[test]
fn memory_that_is_replaced_is_registered_again() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let mut buffer = Buffer::map(0, 1).expect("memory");
    let at = buffer.0.addr();
    assert_eq!(registered(&registrations, &buffer, &made), 1);

    buffer.unmap();
    buffer = Buffer::map(at, 2).expect("the address is free");
    assert_eq!(registered(&registrations, &buffer, &made), 2, "after munmap");

    // SAFETY: this test's own mapping.
    unsafe { madvise(buffer.0.cast(), LEN, Advice::LinuxDontNeed) }.expect("mapped");
    assert_eq!(buffer.number(), 0);
    buffer.write(3);
    assert_eq!(registered(&registrations, &buffer, &made), 3, "after MADV_DONTNEED");

    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: replaces this test's own mapping.
    unsafe { mmap_anonymous(buffer.0.cast(), LEN, protection, flags) }.expect("replaced");
    buffer.write(4);
    assert_eq!(registered(&registrations, &buffer, &made), 4, "after another mapping was put there");

    let other = Buffer::map(0, 5).expect("memory");
    let moved = MremapFlags::MAYMOVE;
    // SAFETY: both are this test's own mappings; the first is replaced by the second.
    unsafe { mremap_fixed(other.0.cast(), LEN, LEN, moved, buffer.0.cast()) }.expect("moved");
    assert_eq!(registered(&registrations, &buffer, &made), 5, "after other memory was moved there");

    let half = LEN / 2;
    // SAFETY: this test's own mapping.
    unsafe { munmap(buffer.0.cast::<u8>().add(half).cast(), half) }.expect("mapped");
    // SAFETY: the range was unmapped above.
    unsafe { mmap_anonymous(buffer.0.add(half).cast(), half, protection, flags) }.expect("mapped");
    buffer.write(6);
    assert_eq!(registered(&registrations, &buffer, &made), 6, "after a part was replaced");
    assert_eq!(made.load(Ordering::Relaxed), 6);
    buffer.unmap();
}

/// The kernel reports an unmapping after it has taken effect. Another thread that maps memory at
/// the address meanwhile never finds the former registration.
#[test]
fn memory_that_is_mapped_before_the_report_is_registered_again() {
    const ROUNDS: u64 = 1000;
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let first = Buffer::map(0, 1).expect("memory");
    let (at, mapped, over) = (first.0.addr(), AtomicU64::new(1), AtomicBool::new(false));
    registered(&registrations, &first, &made);
    std::thread::scope(|scope| {
        // The other thread ends also where an assertion fails.
        let _over = Over(&over);
        scope.spawn(|| {
            let mut round = 1;
            while !over.load(Ordering::Acquire) {
                if mapped.load(Ordering::Acquire) == round {
                    Buffer(without_provenance_mut(at)).unmap();
                    round += 1;
                }
            }
        });
        for round in 2..=ROUNDS {
            // Waits until the other thread's unmapping has taken effect, not until it has returned.
            let buffer = std::iter::repeat_with(|| Buffer::map(at, round)).take(100_000_000).flatten().next();
            let buffer = buffer.expect("the other thread unmaps");
            for _ in 0..2 {
                assert_eq!(registered(&registrations, &buffer, &made), round);
            }
            mapped.store(round, Ordering::Release);
        }
    });
}

/// Sets the flag when it is dropped.
struct Over<'f>(&'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Kept registrations end when others need their room, and after their memory was unmapped.
#[test]
fn registrations_end_that_were_removed_or_are_too_many() {
    let registrations = cache(4 * LEN);
    let mut buffers: Vec<_> = (0..6).map(|number| Buffer::map(0, number).expect("memory")).collect();
    let weak = |buffer: &Buffer| {
        let made = registrations.get_or_register(buffer.range(), |range| Ok::<_, ()>((number_at(range.start), true)));
        Arc::downgrade(&made.expect("never refused"))
    };
    let made: Vec<_> = buffers.iter().map(weak).collect();
    let live = || made.iter().map(|one| one.strong_count() > 0).collect::<Vec<_>>();
    assert_eq!(live(), [false, false, true, true, true, true], "the oldest make room");
    // The thread that reads the reports removes what they name.
    let until = |wanted: [bool; 6]| {
        let ended = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            registrations.drop_removed();
            live() == wanted
        });
        assert!(ended, "{:?} and not {wanted:?}", live());
    };
    buffers.pop().expect("6 buffers").unmap();
    until([false, false, true, true, true, false]);
    buffers.into_iter().for_each(Buffer::unmap);
    until([false; 6]);
}

/// The pages of a file can be replaced without a change of the mapping, so they are not kept.
#[test]
fn shared_memory_is_registered_each_time() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let file = rustix::fs::memfd_create("transom-test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&file, LEN as u64).expect("memory");
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let buffer = Buffer(unsafe { mmap(null_mut(), LEN, protection, flags, &file, 0) }.expect("mapped").cast());
    buffer.write(8);
    assert_eq!(registered(&registrations, &buffer, &made), 8);
    rustix::fs::ftruncate(&file, 0).expect("emptied");
    rustix::fs::ftruncate(&file, LEN as u64).expect("memory");
    buffer.write(9);
    assert_eq!(registered(&registrations, &buffer, &made), 9);
    buffer.unmap();
}

#[test]
fn buffers_inside_a_region_have_its_registration() {
    let registrations = Registrations::new(0);
    registrations.add_region(1000..3000, 1, Arc::new(1));
    registrations.add_region(3000..4000, 2, Arc::new(2));
    let of = |range| registrations.get_or_register(range, |_| Ok::<_, ()>((0, true))).map(|found| *found);
    assert_eq!((of(1000..3000), of(1500..2000), of(3500..4000)), (Ok(1), Ok(1), Ok(2)));
    assert_eq!((of(2500..3500), of(900..1100), of(4000..4100)), (Ok(0), Ok(0), Ok(0)));
    registrations.remove_region(1000, 1);
    assert_eq!(of(1500..2000), Ok(0));
}

/// The device keeps the registration of a region whose key a peer may still use. The program may
/// map other memory at the region's addresses, so buffers there are registered anew. Regression:
/// they had the registration of the region.
#[test]
fn a_leaked_region_serves_no_buffer() {
    let (registrations, leaked) = (Registrations::new(0), Arc::new(1));
    registrations.add_region(1000..3000, 1, Arc::clone(&leaked));
    registrations.add_region(1000..2000, 2, Arc::new(2));
    let of = |range| registrations.get_or_register(range, |_| Ok::<_, ()>((0, true))).map(|found| *found);
    registrations.remove_region(1000, 2);
    assert_eq!(of(1500..2000), Ok(1));
    registrations.leak_region(1000, 1);
    assert_eq!(of(1500..2000), Ok(0));
    assert_eq!(Arc::strong_count(&leaked), 2, "the registration has not ended");
}

/// If a registration fails for lack of lockable memory, the kept registrations are ended and the
/// registration is tried again.
#[test]
fn kept_registrations_make_room_for_others() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let (old, new) = (Buffer::map(0, 1).expect("memory"), Buffer::map(0, 2).expect("memory"));
    registered(&registrations, &old, &made);
    let refused = AtomicBool::new(false);
    let once = |_: &Range<usize>| if refused.swap(true, Ordering::Relaxed) { Ok((3, true)) } else { Err("no memory") };
    assert_eq!(registrations.get_or_register(new.range(), once), Ok(Arc::new(3)));
    registered(&registrations, &old, &made);
    assert_eq!(made.load(Ordering::Relaxed), 2, "the old one had to end");
    assert_eq!(registrations.get_or_register(0x1000..0x2000, |_| Err::<(u64, _), _>("none")), Err("none"));
    old.unmap();
    new.unmap();
}

/// Whether changes of the mapping at an address are reported (proc_pid_smaps(5), `VmFlags`).
fn is_watched(at: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
    let mut inside = false;
    for line in maps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).unwrap_or_default();
            inside = (number(start)..number(end)).contains(&at);
        } else if inside && first == "VmFlags:" {
            return line.split_whitespace().any(|flag| flag == "uw");
        }
    }
    panic!("no mapping at {at:#x}")
}

/// A thread that changes watched memory waits until the cache has read the report. After the end of
/// the cache nothing reads reports, so no memory may stay watched: neither the rest of a mapping,
/// nor a moved mapping, nor a later one.
#[test]
fn only_memory_of_kept_registrations_is_watched() {
    let (registrations, made) = (cache(8 * LEN), AtomicU64::new(0));
    let [kept, half, moved, place] = [1, 2, 3, 4].map(|number| Buffer::map(0, number).expect("memory"));
    for buffer in [&kept, &half, &moved] {
        assert!(!is_watched(buffer.0.addr()));
        registered(&registrations, buffer, &made);
        assert!(is_watched(buffer.0.addr()));
    }
    // SAFETY: this test's own mapping.
    unsafe { munmap(half.0.cast(), LEN / 2) }.expect("mapped");
    // SAFETY: both are this test's own mappings; the first is replaced by the second.
    unsafe { mremap_fixed(moved.0.cast(), LEN, LEN, MremapFlags::MAYMOVE, place.0.cast()) }.expect("moved");
    let rests = [half.0.addr() + LEN / 2, place.0.addr()];
    let ends = || {
        std::thread::sleep(Duration::from_millis(1));
        !rests.into_iter().any(is_watched)
    };
    assert!((0..10_000).any(|_| ends()), "the rest of a mapping, and a moved one");
    assert!(is_watched(kept.0.addr()));
    drop(registrations);
    assert!(!is_watched(kept.0.addr()), "after the end");
    kept.unmap();
    place.unmap();
    half.unmap();
}

#[test]
fn memory_is_not_watched_after_its_registration_has_failed() {
    let registrations = cache(8 * LEN);
    let buffer = Buffer::map(0, 1).expect("memory");
    let range = buffer.0.addr()..buffer.0.addr() + LEN;
    let register = |_: &Range<usize>| {
        assert!(is_watched(buffer.0.addr()), "the watch begins first");
        Err::<(u64, bool), _>("refused")
    };
    assert_eq!(registrations.get_or_register(range, register), Err("refused"));
    assert!(!is_watched(buffer.0.addr()));
    buffer.unmap();
}

/// Memory that the program may only read is registered for reads: it is the source of puts, and not
/// the destination of gets.
#[test]
fn read_only_memory_is_the_source_of_puts() {
    let domain = VerbsDomain::on(Standin::open().0, &VerbsOptions::default()).expect("a stand-in");
    let (peer, tally) = (Peer(1), Tally::new());
    let region = domain.register(&Memory::private(LEN)).expect("memory of this process");
    domain.port().connect(peer, &domain.port().address()).expect("a queue pair");
    let remote = domain.port().import(peer, &region.key()).expect("connected");
    remote.link.open();
    let buffer = Buffer::map(0, 7).expect("a new address");
    let span = Span::from_raw(buffer.0, LEN);
    // SAFETY: the mapping is the buffer's, which stays until the domain has ended.
    let (get, put) = unsafe {
        mprotect(buffer.0.cast(), LEN, MprotectFlags::READ).expect("mapped");
        (domain.port().get(&remote, 0, span, &tally), domain.port().put(&remote, 0, span, &tally))
    };
    assert!(matches!((&get, &put), (Post::Broken(_), Post::Pending)), "{get:?}, {put:?}");
    drop((remote, region, domain));
    buffer.unmap();
}
