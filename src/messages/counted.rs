//! The counters of notified operations to which immediates of the net add. Each immediate names the
//! counters of a window by their place in a table of this rank, and one of these counters. Larger
//! numbers stand for messages (`named`).

use transom_fabric::{Immediate, Immediates, Memory, Places};

use super::named;
use crate::sync::counters;

/// The number of bits of a counter's index.
const INDEX: u32 = counters::MAX_COUNTERS.trailing_zeros();
const _: () = assert!(counters::MAX_COUNTERS.is_power_of_two());

/// The counters of the windows of this rank, by their places.
#[derive(Debug, Default)]
pub(crate) struct Counted(Places<Memory>);

// The place plus one has no more bits than the place, and every place has a number.
const _: () = assert!(Places::<Memory>::MOST < (named::FIRST >> INDEX) as usize);

/// The immediate that adds one to counter `index` of the counters at `place`; `None` if puts with
/// these immediates can't carry it.
#[inline]
pub(crate) fn immediate(immediates: Immediates, place: u32, index: usize) -> Option<Immediate> {
    let number = place << INDEX | u32::try_from(index).ok()?;
    Immediate::new(number).filter(|&immediate| number < named::FIRST && immediates.fit(immediate))
}

impl Counted {
    /// Gives counters a place; `None` if all places are used.
    pub(crate) fn add(&self, counters: Memory) -> Option<u32> {
        self.0.add(counters).and_then(|place| u32::try_from(place).ok())
    }

    /// Frees the place of counters. All immediates that name the place have been counted.
    pub(crate) fn remove(&self, place: u32) {
        self.0.remove(place as usize);
    }

    /// Adds one to the counter that an immediate names; returns whether this rank has it. Takes no
    /// lock.
    pub(super) fn raise(&self, immediate: Immediate) -> bool {
        let (place, index) = (immediate.number() >> INDEX, immediate.number() as usize % counters::MAX_COUNTERS);
        let raise = |counters: &Memory| {
            let exists = index < counters::number(counters);
            if exists {
                counters::raise(counters, index);
            }
            exists
        };
        self.0.read(place as usize, raise).unwrap_or(false)
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
        let raise = |place, index| counted.raise(immediate(Immediates::ALL, place, index).expect("an immediate"));
        assert!(raise(1, 2) && raise(1, 2) && raise(0, 0));
        assert!(!raise(1, 3), "the counter does not exist");
        assert!(!raise(2, 0), "the place is empty");
        assert_eq!([0, 1, 2].map(|index| counters::sum(&first, index)), [1, 0, 0]);
        assert_eq!([0, 1, 2].map(|index| counters::sum(&second, index)), [0, 0, 2]);
    }

    /// Over `psm3` (23 bits) every counter of 2048 windows has a number. With fewer bits later
    /// windows have none.
    #[test]
    fn immediates_of_few_bits_name_the_first_places() {
        let fits = |bits, place, index| immediate(Immediates { bits, follow: 0 }, place, index).is_some();
        assert!(fits(23, 2047, 4095) && !fits(23, 2048, 0));
        assert!(fits(13, 1, 4095) && !fits(13, 2, 0) && !fits(0, 0, 0));
    }

    #[test]
    fn places_are_used_again() {
        let counted = Counted::default();
        let (old, new) = (counters(), counters());
        assert_eq!(counted.add(old.clone()), Some(0));
        counted.remove(0);
        assert_eq!(counted.add(new.clone()), Some(0));
        assert!(counted.raise(immediate(Immediates::ALL, 0, 1).expect("an immediate")));
        assert_eq!((counters::sum(&old, 1), counters::sum(&new, 1)), (0, 1));
    }
}
