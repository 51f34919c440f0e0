//! A cache of stack walks, because a walk by unwind tables takes most of a microsecond. A *path* is
//! the result of one walk: the return addresses within the library, and the distance of each on the
//! stack from the frame at which the walk began. The code at a return address has a frame of fixed
//! size. A later call with the same return address at the same distance therefore has the next
//! return address at the recorded distance.

use std::ffi::c_void;

/// A path from a frame of the library to the program.
#[derive(Debug)]
pub(super) struct CallPath {
    /// The return addresses in the library, from the innermost, and the distance of each.
    inside: Vec<(usize, usize)>,
    /// The distance of the return address in the program.
    outside: usize,
    /// The program's return address that was found last, with the number that the caller gave it.
    last: (usize, u32),
}

/// A frame, from which distances count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor(*const c_void);

/// A path that a search finds.
#[derive(Debug, Default)]
pub(super) struct Search {
    inside: Vec<(usize, usize)>,
    is_broken: bool,
}

impl Anchor {
    /// The frame of a function that is not inlined, from one of its variables.
    pub(super) fn of<T>(variable: &T) -> Anchor {
        Anchor(std::ptr::from_ref(variable).cast())
    }

    pub(super) fn address(self) -> usize {
        self.0.addr()
    }

    /// The word at a distance.
    ///
    /// # Safety
    /// The word is on the stack of this thread.
    unsafe fn word(self, distance: usize) -> usize {
        let at = std::ptr::with_exposed_provenance::<usize>(self.0.expose_provenance() + distance);
        // SAFETY: the caller's promise. Frames above change only when this function has returned.
        unsafe { at.read_volatile() }
    }
}

impl Search {
    /// Passes a frame to which a call returns at `address`, with the stack pointer `after` it.
    /// Returns the distance of the address.
    pub(super) fn pass(&mut self, anchor: Anchor, address: usize, after: usize) -> Option<usize> {
        // The call has pushed the address below; other machines keep it elsewhere.
        let is_pushed = cfg!(all(target_arch = "x86_64", not(miri)));
        let distance = after.wrapping_sub(size_of::<usize>()).checked_sub(anchor.0.addr())?;
        // SAFETY: the search has come to this frame of this thread, above the anchor.
        if self.is_broken || !is_pushed || unsafe { anchor.word(distance) } != address {
            self.is_broken = true;
            return None;
        }
        Some(distance)
    }

    /// The frame that was passed is of the library.
    pub(super) fn inside(&mut self, address: usize, distance: Option<usize>) {
        self.inside.extend(distance.map(|distance| (address, distance)));
    }

    /// The path, if the frame that was passed is of the program.
    pub(super) fn ends(self, address: usize, distance: Option<usize>, known: u32) -> Option<CallPath> {
        let (outside, last) = (distance?, (address, known));
        (!self.is_broken && !self.inside.is_empty()).then_some(CallPath { inside: self.inside, outside, last })
    }
}

impl CallPath {
    /// The program's return address, if this path leads there from the anchor's frame.
    pub(super) fn follow(&self, anchor: Anchor) -> Option<usize> {
        for &(address, distance) in &self.inside {
            // SAFETY: the first is the anchor's own return address. Each further one is in the
            // frame of the code that was found at the one before.
            if unsafe { anchor.word(distance) } != address {
                return None;
            }
        }
        // SAFETY: as above.
        Some(unsafe { anchor.word(self.outside) })
    }

    /// Whether the two paths pass the same return addresses in the library at the same distances,
    /// and end at the same distance.
    pub(super) fn is_like(&self, other: &CallPath) -> bool {
        self.inside == other.inside && self.outside == other.outside
    }

    /// The number of an address, if it was found last.
    pub(super) fn known(&self, address: usize) -> Option<u32> {
        (self.last.0 == address).then_some(self.last.1)
    }

    /// Remembers an address.
    pub(super) fn remember(&mut self, address: usize, known: u32) {
        self.last = (address, known);
    }
}
