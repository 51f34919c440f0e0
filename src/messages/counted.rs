//! The counters of notified operations to which immediates of the net add. Each immediate names the
//! counters of a window by their place in a table of this rank, and one of these counters.

use std::sync::Mutex;

use transom_fabric::{Immediate, Memory};

use super::locked;
use crate::sync::counters;

/// The number of bits of a counter's index.
const INDEX: u32 = counters::MAX_COUNTERS.trailing_zeros();
const _: () = assert!(counters::MAX_COUNTERS.is_power_of_two());

/// The counters of the windows of this rank, by their places.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Vec<Option<Memory>>>);

/// The immediate that adds one to counter `index` of the counters at `place`.
#[inline]
pub(crate) fn immediate(place: u32, index: usize) -> Option<Immediate> {
    Immediate::new(place << INDEX | u32::try_from(index).ok()?)
}

impl Counted {
    /// Gives counters a place; `None` if no immediate can name a further one.
    pub(crate) fn add(&self, counters: Memory) -> Option<u32> {
        let mut all = locked(&self.0);
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        // One less, so that the place plus one has no more bits than the place.
        let place = u32::try_from(free).ok().filter(|&place| place < (Immediate::LIMIT >> INDEX) - 1)?;
        if free == all.len() {
            all.push(None);
        }
        all[free] = Some(counters);
        Some(place)
    }

    /// Frees the place of counters. All immediates that name the place have been counted.
    pub(crate) fn remove(&self, place: u32) {
        if let Some(slot) = locked(&self.0).get_mut(place as usize) {
            *slot = None;
        }
    }

    /// Adds one to the counter that an immediate names; returns whether this rank has it.
    pub(super) fn raise(&self, immediate: Immediate) -> bool {
        let (place, index) = (immediate.number() >> INDEX, immediate.number() as usize % counters::MAX_COUNTERS);
        let all = locked(&self.0);
        let Some(counters) = all.get(place as usize).and_then(Option::as_ref) else { return false };
        let exists = index < counters::number(counters);
        if exists {
            counters::raise(counters, index);
        }
        exists
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Memory {
        let memory = Memory::private(counters::BYTES);
        counters::set_number(&memory, 3);
        memory
    }

    #[test]
    fn an_immediate_adds_to_the_counter_that_it_names() {
        let counted = Counted::default();
        let (first, second) = (counters(), counters());
        let places = [&first, &second].map(|memory| counted.add(memory.clone()).expect("a place"));
        assert_eq!(places, [0, 1]);
        let raise = |place, index| counted.raise(immediate(place, index).expect("an immediate"));
        assert!(raise(1, 2) && raise(1, 2) && raise(0, 0));
        assert!(!raise(1, 3), "the counter does not exist");
        assert!(!raise(2, 0), "the place is empty");
        assert_eq!([0, 1, 2].map(|index| counters::sum(&first, index)), [1, 0, 0]);
        assert_eq!([0, 1, 2].map(|index| counters::sum(&second, index)), [0, 0, 2]);
    }

    #[test]
    fn places_are_used_again() {
        let counted = Counted::default();
        let (old, new) = (counters(), counters());
        assert_eq!(counted.add(old.clone()), Some(0));
        counted.remove(0);
        assert_eq!(counted.add(new.clone()), Some(0));
        assert!(counted.raise(immediate(0, 1).expect("an immediate")));
        assert_eq!((counters::sum(&old, 1), counters::sum(&new, 1)), (0, 1));
    }
}
