//! The registration cache: registrations of origin buffers, kept for later transfers. The
//! registrations of this process's regions, which also serve transfers, are in a table of their
//! own. Independent of the type `R` of registrations.
//!
//! A kept registration pins pages. If the program unmaps the buffer and maps other memory at its
//! address, the device would access the former pages. A registration is therefore kept only if the
//! kernel reports such changes (`changes`), and only if the buffer is private memory without a
//! file, because the pages of a file can be replaced without a change of the mapping.
//!
//! A transfer looks a kept registration up under the lock, and only if no change is pending. A
//! report is read under the same lock, together with the removal of the registrations that it
//! concerns. A registration that is found is therefore valid, unless the program uses a buffer
//! while another thread unmaps it.
//!
//! A thread that unmaps watched memory waits until the *reader*, a separate thread, has read the
//! report. The reader must not unmap memory, nor wait for a thread that may do so: under the lock,
//! nothing is allocated, freed or registered. Removed registrations are therefore dropped by
//! threads that make transfers ([`Registrations::drop_removed`]).
//!
//! Only memory of kept registrations is watched. All watches end before the reader ends, so no
//! later change waits for a reader, even if a forked child keeps the descriptor open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Error;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use transom_fabric::threads;

use crate::changes::Changes;

/// Largest number of kept and of removed registrations together. Removed ones count until they are
/// dropped.
const MOST: usize = 1024;

/// Most regions that are looked at for one buffer.
const OVERLAPPING: usize = 16;

/// The registrations of a process.
#[derive(Debug)]
pub(crate) struct Registrations<R> {
    /// Registered regions, by address and in the order of their registration.
    regions: Mutex<BTreeMap<(usize, u64), Region<R>>>,
    /// Most bytes of kept registrations; 0: none is kept.
    limit: usize,
    /// The cache, which is made for the first buffer; `None` where the kernel reports no changes.
    cache: OnceLock<Option<CacheAndReader<R>>>,
    /// The number of registrations of buffers so far.
    registered: AtomicU64,
}

/// The end of a region, and its registration.
type Region<R> = (usize, Arc<R>);

/// The cache, and the thread that reads the kernel's reports for it.
#[derive(Debug)]
struct CacheAndReader<R> {
    cache: Arc<Cache<R>>,
    reader: Option<JoinHandle<()>>,
}

/// The cache of registrations of buffers.
#[derive(Debug)]
struct Cache<R> {
    changes: Changes,
    table: Mutex<Table<R>>,
    /// Whether the table has removed registrations.
    has_removed: AtomicBool,
    /// An eventfd whose event ends the reader.
    end: OwnedFd,
}

/// The kept and the removed registrations. The vectors never grow, because nothing may be allocated
/// under the lock.
#[derive(Debug)]
struct Table<R> {
    entries: Vec<Entry<R>>,
    /// Registrations whose memory has changed, until [`Registrations::drop_removed`] drops them.
    removed: Vec<Arc<R>>,
    /// Bytes of all entries.
    bytes: usize,
    /// A clock that advances with each look-up and each new entry.
    time: u64,
    /// The number of reports, and of ranges whose watch has ended.
    reports: u64,
}

#[derive(Debug)]
struct Entry<R> {
    range: Range<usize>,
    registration: Arc<R>,
    /// The time of the last use.
    used: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Send + Sync + 'static> Registrations<R> {
    /// Keeps at most `limit` bytes registered for later transfers.
    pub(crate) fn new(limit: usize) -> Registrations<R> {
        Registrations { regions: Mutex::default(), limit, cache: OnceLock::new(), registered: AtomicU64::new(0) }
    }

    /// The number of registrations of buffers so far.
    pub(crate) fn registered(&self) -> u64 {
        // Relaxed: a statistic.
        self.registered.load(Ordering::Relaxed)
    }

    /// Adds the registration of a region, until it is removed.
    pub(crate) fn add_region(&self, range: Range<usize>, number: u64, registration: Arc<R>) {
        lock(&self.regions).insert((range.start, number), (range.end, registration));
    }

    /// Removes the registration of a region.
    pub(crate) fn remove_region(&self, start: usize, number: u64) {
        let removed = lock(&self.regions).remove(&(start, number));
        drop(removed);
    }

    /// Ends the use of a region's registration for buffers, but not the registration.
    pub(crate) fn leak_region(&self, start: usize, number: u64) {
        let removed = lock(&self.regions).remove(&(start, number));
        std::mem::forget(removed);
    }

    /// A registration of a buffer: that of a region that contains the buffer, a kept one, or a new
    /// one by `register`, which gets the range to register. `register` also returns whether the
    /// device may write. If it may not, the registration is not kept, because read-only memory may
    /// get other pages at its first write.
    ///
    /// # Errors
    /// The error of `register`, which is called again after the kept registrations have ended.
    pub(crate) fn get_or_register<E>(
        &self,
        buffer: Range<usize>,
        register: impl Fn(&Range<usize>) -> Result<(R, bool), E>,
    ) -> Result<Arc<R>, E> {
        if let Some(found) = self.find_region(&buffer) {
            return Ok(found);
        }
        let register = |range: &Range<usize>| {
            self.registered.fetch_add(1, Ordering::Relaxed);
            register(range)
        };
        let cache = if self.limit == 0 { None } else { self.cache() };
        let Some(cache) = cache.filter(|_| buffer.len() <= self.limit) else {
            return register(&buffer).map(|(registration, _)| Arc::new(registration));
        };
        if let Some(found) = cache.find(&buffer) {
            return Ok(found);
        }
        self.drop_removed();
        cache.make_room(self.limit - buffer.len());
        // The watch begins before the registration, so that every later change is reported.
        let before = cache.reports();
        let pages = pages(&buffer);
        let is_watched = cache.changes.watch(&pages).is_ok();
        let registered = register(&buffer).or_else(|error| {
            // Kept registrations lock memory, of which a process may lock only a part.
            if cache.make_room(0) { register(&buffer) } else { Err(error) }
        });
        let (registration, writable) = registered.inspect_err(|_| {
            if is_watched {
                cache.unwatch(&mut lock(&cache.table), pages.clone());
            }
        })?;
        let registration = Arc::new(registration);
        let is_kept =
            is_watched && writable && is_private(&pages) && cache.insert(buffer, &registration, before, self.limit);
        if is_watched && !is_kept {
            cache.unwatch(&mut lock(&cache.table), pages);
        }
        self.drop_removed();
        Ok(registration)
    }

    /// The registration of a region that contains the buffer. Regions may overlap, so those that
    /// begin before the buffer are looked at, the nearest first.
    fn find_region(&self, buffer: &Range<usize>) -> Option<Arc<R>> {
        let regions = lock(&self.regions);
        let mut nearest = regions.range(..=(buffer.start, u64::MAX)).rev().take(OVERLAPPING);
        let (_, (_, registration)) = nearest.find(|(_, (end, _))| buffer.end <= *end)?;
        Some(Arc::clone(registration))
    }

    fn cache(&self) -> Option<&Cache<R>> {
        self.cache.get_or_init(|| CacheAndReader::start().ok()).as_ref().map(|both| &*both.cache)
    }

    /// Drops the removed registrations, whose buffers were unmapped. Called regularly, by a thread
    /// that holds no lock.
    pub(crate) fn drop_removed(&self) {
        let Some(Some(CacheAndReader { cache, .. })) = self.cache.get() else { return };
        // Relaxed: a later call sees what this one misses. The table's lock orders the rest.
        while cache.has_removed.load(Ordering::Relaxed) {
            let mut table = lock(&cache.table);
            let removed = table.removed.pop();
            cache.has_removed.store(!table.removed.is_empty(), Ordering::Relaxed);
            drop(table);
            drop(removed);
        }
    }
}

impl<R: Send + Sync + 'static> CacheAndReader<R> {
    fn start() -> Result<CacheAndReader<R>, Error> {
        let table = Table {
            entries: Vec::with_capacity(MOST),
            removed: Vec::with_capacity(MOST),
            bytes: 0,
            time: 0,
            reports: 0,
        };
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let changes = Changes::open()?;
        let cache = Arc::new(Cache { changes, table: Mutex::new(table), has_removed: AtomicBool::new(false), end });
        let readers = Arc::clone(&cache);
        let reader = threads::spawn("transom-unmap", move || readers.read_until_end())?;
        Ok(CacheAndReader { cache, reader: Some(reader) })
    }
}

impl<R> Drop for CacheAndReader<R> {
    fn drop(&mut self) {
        self.cache.make_room(0);
        // The write fails only if the count of the eventfd is full; then the reader is awake.
        let _ = rustix::io::write(&self.cache.end, &1u64.to_ne_bytes());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl<R> Cache<R> {
    /// The loop of the reader: reads reports until `end` has an event.
    fn read_until_end(&self) {
        loop {
            let fds = [self.changes.as_fd(), self.end.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // An interrupted poll finds nothing.
            let _ = poll(&mut fds, None);
            if fds[1].revents().contains(PollFlags::IN) {
                return;
            }
            self.read_reports(&mut lock(&self.table));
        }
    }

    /// Reads the reports, removes the registrations that they concern, and ends the watch of the
    /// rest of these ranges. A moved mapping is still watched at its new address.
    fn read_reports(&self, table: &mut Table<R>) {
        while let Some(changed) = self.changes.next() {
            table.reports += 1;
            for range in changed {
                while let Some(removed) = table.remove(&range) {
                    self.unwatch(table, pages(&removed));
                }
                self.unwatch(table, range);
            }
        }
        self.has_removed.store(!table.removed.is_empty(), Ordering::Relaxed);
    }

    /// The locked table, after the reports were read; `None` if a change is still pending.
    fn current(&self) -> Option<MutexGuard<'_, Table<R>>> {
        let mut table = lock(&self.table);
        if !self.changes.pending() {
            return Some(table);
        }
        self.read_reports(&mut table);
        (!self.changes.pending()).then_some(table)
    }

    fn reports(&self) -> u64 {
        lock(&self.table).reports
    }

    /// A kept registration that contains a buffer.
    fn find(&self, buffer: &Range<usize>) -> Option<Arc<R>> {
        let mut table = self.current()?;
        table.time += 1;
        let time = table.time;
        let contains = |entry: &Entry<R>| entry.range.start <= buffer.start && buffer.end <= entry.range.end;
        let at = table.entries.iter().position(contains)?;
        table.entries[at].used = time;
        let found = Arc::clone(&table.entries[at].registration);
        // Buffers in use move to the front.
        table.entries.swap(at, at / 2);
        Some(found)
    }

    /// Keeps a registration whose watch began after report number `before`, unless a later report
    /// may concern the registration. Returns whether the registration is kept.
    fn insert(&self, range: Range<usize>, registration: &Arc<R>, before: u64, limit: usize) -> bool {
        let Some(mut table) = self.current() else { return false };
        let is_full = table.entries.len() + table.removed.len() >= MOST || table.bytes + range.len() > limit;
        if table.reports != before || is_full {
            return false;
        }
        table.time += 1;
        let used = table.time;
        table.bytes += range.len();
        table.entries.push(Entry { range, registration: Arc::clone(registration), used });
        true
    }

    /// Ends the watch of pages that no entry contains. A registration that is being made may rely
    /// on this watch, so the end of the watch counts as a report.
    fn unwatch(&self, table: &mut Table<R>, range: Range<usize>) {
        table.reports += 1;
        let mut at = range.start;
        while at < range.end {
            let others = || table.entries.iter().map(|entry| pages(&entry.range));
            if let Some(other) = others().find(|other| other.contains(&at)) {
                at = other.end;
                continue;
            }
            let next = others().map(|other| other.start).filter(|&start| start > at).min();
            let end = next.map_or(range.end, |next| next.min(range.end));
            self.changes.unwatch(&(at..end));
            at = end;
        }
    }

    /// Removes the least recently used entries until the others have at most `bytes` and there is
    /// room for one more entry; returns whether any were removed. A removed registration ends now,
    /// or with the last transfer that uses it.
    fn make_room(&self, bytes: usize) -> bool {
        let mut removed_any = false;
        loop {
            let mut table = lock(&self.table);
            let is_full = table.entries.len() + table.removed.len() >= MOST;
            if table.bytes <= bytes && !is_full {
                return removed_any;
            }
            let oldest = (0..table.entries.len()).min_by_key(|&at| table.entries[at].used);
            let Some(entry) = oldest.map(|at| table.entries.swap_remove(at)) else { return removed_any };
            table.bytes -= entry.range.len();
            self.unwatch(&mut table, pages(&entry.range));
            drop(table);
            drop(entry);
            removed_any = true;
        }
    }
}

impl<R> Table<R> {
    /// Removes an entry that overlaps a range, to be dropped later, and returns its range. Both
    /// vectors together have at most [`MOST`] elements.
    fn remove(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        let at = self.entries.iter().position(|entry| overlap(&entry.range, range))?;
        let entry = self.entries.swap_remove(at);
        self.bytes -= entry.range.len();
        self.removed.push(entry.registration);
        Some(entry.range)
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The whole pages that contain a buffer.
fn pages(buffer: &Range<usize>) -> Range<usize> {
    let page = rustix::param::page_size();
    buffer.start & !(page - 1)..buffer.end.next_multiple_of(page)
}

/// Whether all pages are there, private and without a file (proc_pid_pagemap(5)).
fn is_private(pages: &Range<usize>) -> bool {
    const PRESENT: u64 = 1 << 63;
    const FILE_OR_SHARED: u64 = 1 << 61;
    let Ok(file) = File::open("/proc/self/pagemap") else { return false };
    let page = rustix::param::page_size();
    let (mut at, end) = (pages.start / page, pages.end / page);
    let mut bytes = [0; 4096];
    while at < end {
        let count = (end - at).min(bytes.len() / 8);
        if file.read_exact_at(&mut bytes[..count * 8], at as u64 * 8).is_err() {
            return false;
        }
        let entries = bytes[..count * 8].chunks_exact(8);
        let mut flags = entries.map(|entry| u64::from_ne_bytes(entry.try_into().unwrap_or_default()));
        if !flags.all(|entry| entry & (PRESENT | FILE_OR_SHARED) == PRESENT) {
            return false;
        }
        at += count;
    }
    true
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
