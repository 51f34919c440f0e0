//! Layouts side by side against the naive model, which pairs the bytes of the type maps one by one.

use proptest::prelude::*;

use super::super::walk::Piece;
use super::*;

/// A side of a walk: items of a datatype, or none.
#[derive(Clone, Debug)]
enum Side {
    Items(Made, usize),
    Absent,
}

impl Side {
    /// The offset of each byte; of an absent side the first `most`.
    fn bytes(&self, most: usize) -> Vec<i64> {
        match self {
            Side::Items(made, count) => made.model().bytes(*count),
            Side::Absent => (0..most as i64).collect(),
        }
    }

    fn is_small(&self) -> bool {
        matches!(self, Side::Absent) || self.bytes(0).len() <= 20_000
    }
}

/// A caller's request to a walk.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A piece of at most this many bytes.
    Piece(usize),
    Run,
}

fn side() -> impl Strategy<Value = Side> {
    (nested(), 0..4usize).prop_map(|(made, count)| Side::Items(made, count))
}

fn perhaps() -> impl Strategy<Value = Side> {
    prop_oneof![3 => side(), 1 => Just(Side::Absent)]
}

/// Steps that are taken in turns until the walk ends.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![4 => 1..20usize, 1 => Just(usize::MAX)];
    prop::collection::vec(prop_oneof![2 => length.prop_map(Step::Piece), 1 => Just(Step::Run)], 1..6)
}

/// The bytes of each side of one piece.
fn bytes<const N: usize>((at, length): Piece<N>) -> impl Iterator<Item = [i64; N]> {
    (0..length as i64).map(move |byte| at.map(|at| at + byte))
}

/// The pieces of a run.
fn pieces<const N: usize>(run: Run<N>) -> impl Iterator<Item = Piece<N>> {
    (0..run.count as i64)
        .map(move |index| (std::array::from_fn(|side| run.at[side] + index * run.strides[side]), run.length))
}

/// All bytes of a walk in these steps.
fn walked<const N: usize>(mut walk: Walk<'_, N>, steps: &[Step]) -> Vec<[i64; N]> {
    let mut all = Vec::new();
    for step in steps.iter().cycle() {
        let before = all.len();
        match step {
            Step::Piece(most) => {
                assert_eq!(walk.next_at_most(0), None, "no bytes are no step");
                let piece = walk.next_at_most(*most);
                assert!(piece.is_none_or(|(_, length)| (1..=*most).contains(&length)), "{piece:?} of {most} bytes");
                all.extend(piece.into_iter().flat_map(bytes));
            }
            Step::Run => all.extend(walk.next_run().into_iter().flat_map(pieces).flat_map(bytes)),
        }
        if all.len() == before {
            assert_eq!((walk.next(), walk.next_run()), (None, None), "the end is the end");
            break;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_layouts_are_walked_side_by_side(a in side(), b in side(), steps in steps()) {
        prop_assume!(a.is_small() && b.is_small());
        let pairs: Vec<_> = a.bytes(0).into_iter().zip(b.bytes(0)).map(|(a, b)| [a, b]).collect();
        let (Side::Items(a, n), Side::Items(b, m)) = (a, b) else { unreachable!("two sides with items") };
        let (a, b) = (a.datatype(), b.datatype());
        let walk = Walk::of([a.pieces(n), b.pieces(m)]);
        prop_assert_eq!(walked(walk.clone(), &steps), &pairs[..]);
        prop_assert_eq!(walk.flat_map(bytes).collect::<Vec<_>>(), pairs);
    }

    /// A target, and an origin and a result that may be absent.
    #[test]
    fn three_layouts_are_walked_side_by_side(target in side(), origin in perhaps(), result in perhaps(), steps in steps()) {
        let sides = [target, origin, result];
        prop_assume!(sides.iter().all(Side::is_small));
        let most = sides[0].bytes(0).len();
        let columns = sides.each_ref().map(|side| side.bytes(most));
        let length = columns.iter().map(Vec::len).min().unwrap_or(0);
        let rows: Vec<_> = (0..length).map(|byte| columns.each_ref().map(|column| column[byte])).collect();
        let types = sides.map(|side| match side {
            Side::Items(made, count) => Some((made.datatype(), count)),
            Side::Absent => None,
        });
        let of = |side: &Option<(Datatype, usize)>| side.clone();
        let kept = types.each_ref().map(of);
        let pieces = kept.each_ref().map(|side| side.as_ref().map_or_else(Pieces::endless, |(ty, count)| ty.pieces(*count)));
        prop_assert_eq!(walked(Walk::of(pieces), &steps), rows);
    }

    /// A strip describes its pieces, also if one side has a single block.
    #[test]
    fn two_strips_are_one_run_where_their_blocks_fit(
        block in 1..9usize, count in 1..5usize, strides in prop::array::uniform2(-40..40i64), whole in 0..3usize,
    ) {
        let strip = |side: usize| match whole == side {
            true => Strip::one(100, block * count),
            false => Strip { offset: -7, block, count, stride: if count > 1 { strides[side] } else { 0 } },
        };
        let both = [strip(0), strip(1)];
        let run = Run::of(both[0], both[1]).expect("equal blocks, or a single one");
        let walk = Walk::of(both.each_ref().map(|strip| Pieces::of(Strips::of(std::slice::from_ref(strip)))));
        prop_assert_eq!(pieces(run).flat_map(bytes).collect::<Vec<_>>(), walk.flat_map(bytes).collect::<Vec<_>>());
    }
}

/// More than 2^31 elements take as many steps as there are strips.
#[test]
fn counts_beyond_31_bits_are_walked_in_few_steps() {
    let (int, many) = (Datatype::from(Int32), (1usize << 31) + 5);
    let column = Datatype::vector(many, 1, 3, &int).unwrap();
    let back = Datatype::hvector(many, 1, -16, &int).unwrap();
    let mut walk = Walk::of([column.pieces(1), int.pieces(many), back.pieces(1)]);
    let run = Run { at: [0, 0, 0], length: 4, count: many, strides: [12, 4, -16] };
    assert_eq!(walk.clone().next_run(), Some(run));
    // The rest of a piece that was cut is returned alone, the others together.
    assert_eq!(walk.next_at_most(3), Some(([0, 0, 0], 3)));
    assert_eq!(walk.next_run(), Some(Run { at: [3, 3, 3], length: 1, count: 1, strides: [0, 1, 0] }));
    assert_eq!(walk.next_run(), Some(Run { at: [12, 4, -16], count: many - 1, ..run }));
    assert_eq!((walk.next_run(), walk.next()), (None, None));
    let mut contiguous = Walk::of([int.pieces(many), Pieces::contiguous(4 * many), Pieces::endless()]);
    assert_eq!(contiguous.next_at_most(1 << 33), Some(([0; 3], 1 << 33)));
    assert_eq!(contiguous.next(), Some(([1 << 33; 3], 20)));
    assert_eq!(contiguous.next(), None);
    let item = Datatype::resized(&Datatype::vector(2, 1, 3, &int).unwrap(), -4, 24).unwrap();
    let mut items = Walk::of([item.pieces(many), int.pieces(2 * many)]);
    assert_eq!(items.next_run(), Some(Run { at: [0, 0], length: 4, count: 2 * many, strides: [12, 4] }));
    assert_eq!(items.next_run(), None);
}

#[test]
fn no_items_end_a_walk_at_once() {
    let int = Datatype::from(Int32);
    let nothing = Datatype::contiguous(0, &int).unwrap();
    for empty in [int.pieces(0), nothing.pieces(1 << 40), Pieces::contiguous(0)] {
        for mut walk in [Walk::of([empty.clone(), Pieces::endless()]), Walk::of([Pieces::endless(), empty.clone()])] {
            assert_eq!((walk.next(), walk.next_run()), (None, None));
        }
    }
}
