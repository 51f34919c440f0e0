//! The place in the program of a call: the innermost function on the stack that does not belong to
//! this library, with its file and line if there is debug information.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::area::Area;
use super::object;
use super::rules::FORMS;
use super::stack::{Anchor, CallPath, Search};

/// Maximum number of frames that a search visits.
const MOST_FRAMES: u32 = 64;
/// Maximum number of known paths (`stack`).
const MAX_PATHS: usize = 32;

/// A place of the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Its number at this rank; 0 if there is none.
    pub(crate) number: u32,
    /// The address to which the call returns.
    pub(crate) address: usize,
}

/// The places of this process in a job.
#[derive(Debug)]
pub(super) struct Places {
    /// Differs from those of the process's other jobs, and from 0.
    id: u64,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// For each return address: the number of its place, or `None` within the library.
    addresses: HashMap<usize, Option<u32>>,
    /// The numbers of texts.
    texts: HashMap<String, u32>,
    /// The number of bytes of stored texts.
    used: usize,
}

/// The paths from the library to the program that a thread has found.
#[derive(Debug)]
struct CallPaths {
    /// The [`Places::id`] of the numbers in the paths, or 0.
    places: u64,
    paths: Vec<CallPath>,
    /// The path that calls of each form took last.
    last: [usize; FORMS],
}

thread_local! {
    /// Each thread has its own paths, so that a call on a known path takes no lock.
    static PATHS: RefCell<CallPaths> = const { RefCell::new(CallPaths::of(0)) };
}

impl Places {
    pub(super) fn new() -> Places {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the number only differs from the others.
        Places { id: LAST.fetch_add(1, Ordering::Relaxed) + 1, found: Mutex::default() }
    }

    /// The place of the program that calls the library. Its text is stored in `area`. `form`: calls
    /// of one form often have the same path.
    #[inline(never)]
    pub(super) fn here(&self, area: Area<'_>, form: usize) -> Place {
        let variable = 0u8;
        let anchor = Anchor::of(std::hint::black_box(&variable));
        let by_paths = |paths: &RefCell<CallPaths>| {
            let paths = &mut paths.borrow_mut();
            paths.by_last(self.id, anchor, form).unwrap_or_else(|| self.by_others(paths, anchor, form, area))
        };
        // A thread that ends may have no paths any more.
        PATHS.try_with(by_paths).unwrap_or_else(|_| self.by_others(&mut CallPaths::of(self.id), anchor, form, area))
    }

    /// The place of the program that has a return address. Its text is stored in `area`.
    pub(super) fn at(&self, area: Area<'_>, address: usize) -> Place {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Place { number: found.place_of(address, area).unwrap_or(0), address }
    }

    /// The place to which another path than the last one leads, or that a search finds.
    #[cold]
    fn by_others(&self, paths: &mut CallPaths, anchor: Anchor, form: usize, area: Area<'_>) -> Place {
        if paths.places != self.id {
            *paths = CallPaths::of(self.id);
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = paths.by_other(&found, anchor, form);
        known.unwrap_or_else(|| found.by_search(paths, anchor, area))
    }
}

impl CallPaths {
    const fn of(places: u64) -> CallPaths {
        CallPaths { places, paths: Vec::new(), last: [0; FORMS] }
    }

    /// The place to which the last path of a form leads, if its number is known.
    #[inline]
    fn by_last(&self, places: u64, anchor: Anchor, form: usize) -> Option<Place> {
        let path = self.paths.get(self.last[form]).filter(|_| self.places == places)?;
        let address = path.follow(anchor)?;
        Some(Place { number: path.known(address)?, address })
    }

    fn by_other(&mut self, found: &Found, anchor: Anchor, form: usize) -> Option<Place> {
        let leads = |path: &CallPath| path.follow(anchor);
        let (at, address) = self.paths.iter().enumerate().find_map(|(at, path)| Some((at, leads(path)?)))?;
        let number = match self.paths[at].known(address) {
            Some(number) => number,
            None => (*found.addresses.get(&address)?)?,
        };
        self.paths[at].remember(address, number);
        self.last[form] = at;
        Some(Place { number, address })
    }

    /// Adds a path, in the place of a known one that differs only in the program's address.
    fn learn(&mut self, path: Option<CallPath>) {
        let Some(path) = path else { return };
        if let Some(known) = self.paths.iter_mut().find(|known| known.is_like(&path)) {
            *known = path;
            return;
        }
        if self.paths.len() == MAX_PATHS {
            self.paths.pop();
        }
        self.paths.push(path);
    }
}

impl Found {
    fn by_search(&mut self, paths: &mut CallPaths, anchor: Anchor, area: Area<'_>) -> Place {
        let (mut place, mut frames, mut search) = (Place::default(), 0, Search::default());
        backtrace::trace(|frame| {
            frames += 1;
            let (address, after) = (frame.ip().addr(), frame.sp().addr());
            let number = self.place_of(address, area);
            if after <= anchor.address() {
                // A frame of the search itself.
                return true;
            }
            let distance = search.pass(anchor, address, after);
            let Some(number) = number else {
                search.inside(address, distance);
                return frames < MOST_FRAMES;
            };
            place = Place { number, address };
            paths.learn(std::mem::take(&mut search).ends(address, distance, number));
            false
        });
        place
    }

    /// The place of a return address, or `None` within the library.
    fn place_of(&mut self, address: usize, area: Area<'_>) -> Option<u32> {
        if let Some(known) = self.addresses.get(&address) {
            return *known;
        }
        let text = if object::has(address) { None } else { text_of(address) };
        let place = text.map(|text| self.number(text, area));
        self.addresses.insert(address, place);
        place
    }

    fn number(&mut self, text: String, area: Area<'_>) -> u32 {
        if let Some(number) = self.texts.get(&text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX - 1) + 1;
        // Without room, reports show the place as unknown.
        self.used = area.show(number, &text, self.used).unwrap_or(self.used);
        self.texts.insert(text, number);
        number
    }
}

/// The text of a return address, or `None` within the library.
fn text_of(address: usize) -> Option<String> {
    let (mut text, mut is_named) = (None, false);
    backtrace::resolve(std::ptr::with_exposed_provenance_mut(address), |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        is_named |= name.is_some();
        // A call that was inlined comes before the function that contains it.
        let is_ours = name.as_deref().is_some_and(is_library) || symbol.filename().is_some_and(is_of_library);
        if text.is_some() || is_ours {
            return;
        }
        let name = name.unwrap_or_else(|| "unknown function".into());
        text = Some(match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!("{} at {}:{line}", shortened(&name), file.display()),
            _ => without_line(shortened(&name), address),
        });
    });
    match text {
        None if !is_named => Some(without_line("a function without a symbol", address)),
        text => text,
    }
}

/// The text of a place without debug information. The address distinguishes the calls of one
/// function. It is relative to its file, because ranks have the file at different addresses.
fn without_line(name: &str, address: usize) -> String {
    let place = object::distance(address).unwrap_or_else(|| format!("address {address:#x}"));
    format!("{name} at {place}")
}

/// The beginning of a name, which may have many parameters of types.
fn shortened(name: &str) -> &str {
    const MOST: usize = 200;
    name.char_indices().nth(MOST).map_or(name, |(end, _)| &name[..end])
}

/// Whether a file belongs to this library or to Rust's. The names of inlined functions may lack
/// their paths.
fn is_of_library(file: &Path) -> bool {
    const OWN: [&str; 6] = ["src", "fabric", "shm", "capi/src", "capi/mpi/src", "capi/mpi/host"];
    let own = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).is_ok_and(|file| OWN.iter().any(|it| file.starts_with(it)));
    let rust = |part: &std::ffi::OsStr| part.as_bytes().starts_with(b"backtrace-");
    own || file.starts_with("/rustc") || file.iter().any(rust)
}

/// Whether a function belongs to this library, to an MPI's names, or to Rust's libraries.
fn is_library(name: &str) -> bool {
    const PATHS: [&str; 7] =
        ["transom::", "transom_mpi::", "transom_capi::", "core::", "std::", "alloc::", "backtrace::"];
    const NAMES: [&str; 7] = ["transom_", "host_edges_", "MPI_", "PMPI_", "MPIX_", "mpi_", "pmpi_"];
    let path = name.trim_start_matches('<');
    // Those of capi/mpi/host/edges.c.
    let of_edges = name.strip_prefix("edge_").is_some_and(|call| call.starts_with(char::is_uppercase));
    PATHS.iter().any(|prefix| path.starts_with(prefix))
        || of_edges
        || (!name.contains("::") && NAMES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_learned_once() {
        let variable = [0usize; 4];
        let anchor = Anchor::of(&variable);
        let path = |inside, outside, number| {
            let mut search = Search::default();
            search.inside(inside, Some(8));
            search.ends(outside, Some(16), number)
        };
        let mut paths = CallPaths::of(1);
        for (inside, at, number) in [(1, 10, 1), (1, 11, 2), (2, 10, 1), (1, 10, 1)] {
            paths.learn(path(inside, at, number));
        }
        assert_eq!(paths.paths.len(), 2, "one for each chain of calls within the library");
        assert_eq!(paths.paths[0].known(10), Some(1), "the program's last address");
        assert!(paths.by_last(1, anchor, 0).is_none(), "this stack has no such calls");
        assert!(paths.by_other(&Found::default(), anchor, 0).is_none());
    }

    #[test]
    fn files_of_the_library_are_known_by_their_folder() {
        assert!(is_of_library(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/access.rs"))));
        assert!(is_of_library(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/capi/mpi/src/operate.rs"))));
        assert!(is_of_library(Path::new("/rustc/59807616e1/library/core/src/ops/function.rs")));
        assert!(is_of_library(Path::new("/registry/src/x/backtrace-0.3.77/src/backtrace/mod.rs")));
        assert!(!is_of_library(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/race.rs"))));
        assert!(!is_of_library(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/capi/mpi/tests/programs/races.c"))));
        assert!(!is_of_library(Path::new("src/main.rs")));
    }

    #[test]
    fn functions_of_the_library_are_known_by_name() {
        for name in [
            "transom::window::Core::put",
            "<transom::Window<T>>::store",
            "MPI_Put",
            "mpi_put_",
            "transom_get",
            "edge_Bcast",
        ] {
            assert!(is_library(name), "{name}");
        }
        for name in ["main", "transom_tests::checker::body", "my_transom_put", "solver::step", "MPIDI_x::y", "edge_cut"]
        {
            assert!(!is_library(name), "{name}");
        }
    }
}
