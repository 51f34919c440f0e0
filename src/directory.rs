//! A rank's table of its parts of windows. Peers read it at first contact, by loads or by one RDMA
//! read, so that the creation of a window exchanges nothing of size O(p). Knows no transport.

use std::ops::Range;
use std::sync::atomic::Ordering;

use transom_fabric::{Memory, RegionKey};

/// Maximum number of windows that exist at once in a process.
pub(crate) const SLOTS: usize = 2048;
/// Bytes of one slot.
pub(crate) const SLOT_BYTES: usize = 128;
const WORDS: usize = SLOT_BYTES / 8;

/// A rank's part of a window, as its peers need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Displacement unit in bytes.
    pub(crate) unit: u32,
    /// The address of the first byte modulo 8, to compute alignment from offsets.
    pub(crate) skew: u8,
    /// Whether immediates of the net name the window by the slot.
    pub(crate) is_named: bool,
    /// The data for ranks of the node.
    pub(crate) shm: RegionKey,
    /// The data for others.
    pub(crate) net: RegionKey,
    /// The offset of the part in the shared segment of rank 0, in bytes, for a contiguous shared
    /// window.
    pub(crate) offset: u64,
}

/// A slot's words: 0 the window's id (0: free), 1 size, 2 unit, skew and `is_named`, 3.. the keys,
/// 11 the offset.
pub(crate) type Slot = [u64; WORDS];

impl Part {
    pub(crate) fn encode(&self, id: u64) -> Slot {
        let mut slot = [0; WORDS];
        slot[0] = id;
        slot[1] = self.size;
        slot[2] = u64::from(self.unit) | u64::from(self.skew) << 32 | u64::from(self.is_named) << 40;
        slot[3..7].copy_from_slice(&self.shm.0);
        slot[7..11].copy_from_slice(&self.net.0);
        slot[11] = self.offset;
        slot
    }

    /// The part, if the slot is that of window `id`.
    pub(crate) fn decode(slot: &Slot, id: u64) -> Option<Part> {
        let key = |from: usize| RegionKey([slot[from], slot[from + 1], slot[from + 2], slot[from + 3]]);
        let [unit @ .., _, _, _, _] = slot[2].to_le_bytes();
        let [_, _, _, _, skew, is_named, ..] = slot[2].to_le_bytes();
        (slot[0] == id).then(|| Part {
            size: slot[1],
            unit: u32::from_le_bytes(unit),
            skew,
            is_named: is_named != 0,
            shm: key(3),
            net: key(7),
            offset: slot[11],
        })
    }
}

/// The slots in which window `id` may be, the most likely first.
pub(crate) fn places(id: u64) -> impl Iterator<Item = usize> {
    let first = home(id);
    (0..SLOTS).map(move |step| (first + step) % SLOTS)
}

/// The slots of [`places`] as ranges of at most `most` slots, the most likely range first.
pub(crate) fn ranges(id: u64, most: usize) -> impl Iterator<Item = Range<usize>> {
    let first = home(id);
    let cut = move |row: Range<usize>| row.clone().step_by(most).map(move |at| at..(at + most).min(row.end));
    [first..SLOTS, 0..first].into_iter().flat_map(cut)
}

/// The part of window `id` in a table whose slots `slot` reads, and its place.
pub(crate) fn find(id: u64, slot: impl Fn(usize) -> Slot) -> Option<(Part, usize)> {
    places(id).find_map(|place| Some((Part::decode(&slot(place), id)?, place)))
}

/// The first slot of window `id`. Four numbers in a row have neighbouring slots, so that few
/// windows use few pages. The fours are spread evenly by Fibonacci hashing, so that windows which
/// stay do not fill long rows of slots, which a later number would have to pass. The numbers of a
/// window, of its counters and of its shadow differ in high bits only, and these decide the place
/// of the four too.
fn home(id: u64) -> usize {
    /// 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let four = (id / 4).wrapping_mul(FACTOR) >> (u64::BITS - (SLOTS / 4).ilog2());
    #[allow(clippy::cast_possible_truncation)] // below SLOTS
    let slot = (four * 4 + id % 4) as usize;
    slot
}

const _: () = assert!(SLOTS.is_power_of_two());

/// Reads the slot at `place` of a table that load and store reach.
pub(crate) fn load(table: &Memory, base: usize, place: usize) -> Slot {
    let word = |index: usize, order| table.word64(base + place * SLOT_BYTES + index * 8).load(order);
    let mut slot = [0; WORDS];
    // Acquire: pairs with the Release in `publish`; the other words are read after it.
    slot[0] = word(0, Ordering::Acquire);
    for (index, value) in slot.iter_mut().enumerate().skip(1) {
        *value = word(index, Ordering::Relaxed);
    }
    slot
}

/// A free slot for window `id` in this rank's own table; `None` where the table is full.
pub(crate) fn free_place(table: &Memory, base: usize, id: u64) -> Option<usize> {
    places(id).find(|&place| table.word64(base + place * SLOT_BYTES).load(Ordering::Relaxed) == 0)
}

/// Publishes this rank's part of window `id` in a free slot of its own table.
pub(crate) fn publish(table: &Memory, base: usize, place: usize, id: u64, part: &Part) {
    update(table, base, place, id, part);
    // Release: pairs with the Acquire in `load`. RDMA reads are ordered by the barrier that
    // follows.
    table.word64(base + place * SLOT_BYTES).store(id, Ordering::Release);
}

/// Publishes a part again in its slot, which no peer reads during the call.
pub(crate) fn update(table: &Memory, base: usize, place: usize, id: u64, part: &Part) {
    for (index, value) in part.encode(id).into_iter().enumerate().skip(1) {
        // Relaxed: ordered by the barrier that lets peers read it.
        table.word64(base + place * SLOT_BYTES + index * 8).store(value, Ordering::Relaxed);
    }
}

/// Takes a part back.
pub(crate) fn retract(table: &Memory, base: usize, place: usize) {
    table.word64(base + place * SLOT_BYTES).store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(size: u64) -> Part {
        let key = |n| RegionKey([n, n + 1, n + 2, n + 3]);
        Part { size, unit: 8, skew: 3, is_named: true, shm: key(10), net: key(20), offset: 9 }
    }

    /// A search by ranges reads the same slots in the same order.
    #[test]
    fn ranges_have_all_places_in_order() {
        for (id, most) in [(1, 1), (2, 7), (77, 16), (2000, 16), (5, SLOTS)] {
            let all: Vec<_> = ranges(id, most).flatten().collect();
            assert_eq!(all, places(id).collect::<Vec<_>>(), "{id}, {most}");
            assert!(ranges(id, most).all(|range| (1..=most).contains(&range.len())));
        }
    }

    #[test]
    fn parts_round_trip_and_colliding_windows_are_distinguished() {
        let table = Memory::private(64 + SLOTS * SLOT_BYTES);
        // Three windows whose numbers collide at slot 1, and one window of slot 2.
        let of = |slot| (1..).filter(move |&id| home(id) == slot);
        let ids: Vec<u64> = of(1).take(3).chain(of(2).take(1)).collect();
        let place = |&id: &u64| {
            let place = free_place(&table, 64, id).expect("room");
            publish(&table, 64, place, id, &part(id));
            place
        };
        let placed: Vec<_> = ids.iter().map(place).collect();
        let find = |id| find(id, |place| load(&table, 64, place)).map(|(part, _)| part);
        assert!(ids.iter().all(|&id| find(id) == Some(part(id))));
        retract(&table, 64, placed[0]);
        assert_eq!(find(ids[0]), None);
        assert_eq!(find(ids[2]), Some(part(ids[2])), "found past the slot that became free");
    }

    /// The most slots that a look-up passes before that of a new window, its counters or its
    /// shadow, while `kept` windows with the numbers 1 to `kept` stay and later ones do not.
    fn passed(kept: u64, tags: &[u64]) -> usize {
        let table = Memory::private(SLOTS * SLOT_BYTES);
        let ids = |window: u64| tags.iter().map(move |tag| window | tag);
        for id in (1..=kept).flat_map(ids) {
            let place = free_place(&table, 0, id).expect("room");
            publish(&table, 0, place, id, &part(id));
        }
        let distance = |id| {
            let place = free_place(&table, 0, id).expect("room");
            (place + SLOTS - home(id)) % SLOTS
        };
        (kept + 1..kept + 10_000).flat_map(ids).map(distance).max().expect("some windows")
    }

    #[test]
    fn windows_that_stay_do_not_lengthen_look_ups() {
        const COUNTERS: u64 = 1 << 62;
        const SHADOW: u64 = 1 << 61;
        for (kept, tags) in
            [(500, &[0][..]), (1000, &[0]), (500, &[0, COUNTERS]), (500, &[0, SHADOW]), (300, &[0, COUNTERS, SHADOW])]
        {
            let passed = passed(kept, tags);
            assert!(passed <= 16, "{passed} slots are passed, with {kept} windows of {} slots", tags.len());
        }
    }

    #[test]
    fn a_full_table_is_reported() {
        let table = Memory::private(SLOTS * SLOT_BYTES);
        for id in 1..=SLOTS as u64 {
            let place = free_place(&table, 0, id).expect("room");
            publish(&table, 0, place, id, &part(id));
        }
        assert_eq!(free_place(&table, 0, 9999), None);
    }
}
