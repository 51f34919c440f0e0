//! Datatypes against the naive model: every constructor with its type map written out, and random
//! nested ones; counts beyond any memory; errors.

mod model;
mod walk;

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::error::Class;
use crate::reduce::BasicType::{self, Byte, Float64, Int8, Int16, Int32, Uint8};
use model::{Made, Model};

/// `(offset, type)` of each entry, lower bound, extent.
type Map<'a> = (&'a [(i64, BasicType)], i64, i64);

fn boxed(basic: BasicType) -> Box<Made> {
    Box::new(Made::Basic(basic))
}

fn expand(pieces: impl Iterator<Item = (i64, usize)>) -> Vec<i64> {
    pieces.flat_map(|(at, length)| at..at + length as i64).collect()
}

fn expand_strips(strips: impl Iterator<Item = Strip>) -> Vec<i64> {
    let mut bytes = Vec::new();
    for strip in strips {
        for block in 0..strip.count as i64 {
            let at = strip.offset + block * strip.stride;
            bytes.extend(at..at + strip.block as i64);
        }
    }
    bytes
}

/// The first elements of items with the offsets `bytes`, however many, are their first bytes.
fn check_leading(datatype: &Datatype, bytes: &[i64]) {
    let Some(basic) = datatype.uniform() else {
        assert!(datatype.leading(0).is_err_and(|error| error.class() == Class::Type), "{datatype:?}");
        return;
    };
    for elements in 0..=bytes.len() / basic.size() {
        let leading = datatype.leading(elements).unwrap();
        let expected = &bytes[..elements * basic.size()];
        assert_eq!(expand(leading.pieces(1)), expected, "{elements} elements of {datatype:?}");
        assert_eq!((leading.size(), leading.uniform()), (expected.len(), (elements > 0).then_some(basic)));
    }
}

/// All results of `made` for `count` items agree with its type map.
fn check(made: &Made, model: &Model, count: usize) {
    let datatype = made.datatype();
    let one = model.bytes(1);
    let bytes = model.bytes(count);
    assert_eq!(datatype.size(), one.len(), "size of {made:?}");
    assert_eq!((datatype.lb(), datatype.extent()), (model.lb(), model.extent()), "bounds of {made:?}");
    let low = one.iter().min().copied().unwrap_or(0);
    let end = one.iter().max().map_or(0, |last| last + 1);
    assert_eq!((datatype.true_lb(), datatype.true_extent()), (low, end - low), "true bounds of {made:?}");
    let span = bytes.iter().min().map(|&low| (low, bytes.iter().max().unwrap() + 1));
    assert_eq!(datatype.span(count), span, "span of {count} of {made:?}");
    assert_eq!(expand(datatype.pieces(count)), bytes, "pieces of {count} of {made:?}");
    let strips: Vec<Strip> = datatype.strips(count).collect();
    assert_eq!(expand_strips(strips.iter().copied()), bytes, "strips of {count} of {made:?}");
    assert_eq!(datatype.strips(count).size_hint(), (strips.len(), Some(strips.len())));
    assert_eq!(expand(Pieces::of(Strips::of(&strips))), bytes);
    for strip in strips {
        assert_eq!(Strip::decode(strip.encode()), Some(strip));
    }
    check_leading(&datatype, &bytes);
    let distinct: HashSet<i64> = bytes.iter().copied().collect();
    assert_eq!(datatype.overlaps_itself(count), distinct.len() < bytes.len(), "overlap of {count} of {made:?}");
    let dense: Vec<i64> = (0..one.len() as i64).collect();
    let contiguous = one == dense && model.extent() == one.len() as i64 && model.lb() == 0;
    assert_eq!(datatype.is_contiguous(), contiguous, "{made:?}");
    let kinds: HashSet<BasicType> = model.types(1).into_iter().collect();
    let uniform = if kinds.len() == 1 { kinds.into_iter().next() } else { None };
    assert_eq!(datatype.uniform(), uniform, "{made:?}");
}

fn check_map(made: &Made, (map, lb, extent): Map<'_>) {
    let model = made.model();
    assert_eq!((&model.map[..], model.lb(), model.extent()), (map, lb, extent), "the model of {made:?}");
    for count in [0, 1, 2, 5] {
        check(made, &model, count);
    }
}

#[test]
fn repeating_constructors_have_the_type_maps_of_section_5_1_2() {
    check_map(&Made::Basic(Float64), (&[(0, Float64)], 0, 8));
    check_map(&Made::Contiguous(3, boxed(Int16)), (&[(0, Int16), (2, Int16), (4, Int16)], 0, 6));
    check_map(&Made::Vector(2, 2, 3, boxed(Int32)), (&[(0, Int32), (4, Int32), (12, Int32), (16, Int32)], 0, 20));
    check_map(&Made::Vector(3, 1, -2, boxed(Int16)), (&[(0, Int16), (-4, Int16), (-8, Int16)], -8, 10));
    check_map(&Made::Hvector(2, 2, 9, boxed(Int32)), (&[(0, Int32), (4, Int32), (9, Int32), (13, Int32)], 0, 17));
    check_map(&Made::Contiguous(0, boxed(Int32)), (&[], 0, 0));
}

#[test]
fn scattering_constructors_have_the_type_maps_of_section_5_1_2() {
    check_map(
        &Made::Indexed(vec![(2, 4), (0, 90), (1, 0)], boxed(Int16)),
        (&[(8, Int16), (10, Int16), (0, Int16)], 0, 12),
    );
    check_map(&Made::Hindexed(vec![(1, 5), (2, 16)], boxed(Int32)), (&[(5, Int32), (16, Int32), (20, Int32)], 5, 19));
    check_map(
        &Made::IndexedBlock(2, vec![3, 0], boxed(Uint8)),
        (&[(3, Uint8), (4, Uint8), (0, Uint8), (1, Uint8)], 0, 5),
    );
    check_map(&Made::HindexedBlock(1, vec![7, 7, -1], boxed(Byte)), (&[(7, Byte), (7, Byte), (-1, Byte)], -1, 9));
}

#[test]
fn structures_are_padded_and_markers_rule_bounds() {
    let part = |count, place, basic| (count, place, Made::Basic(basic));
    check_map(
        &Made::Structure(vec![part(1, 0, Float64), part(2, 8, Int8)]),
        (&[(0, Float64), (8, Int8), (9, Int8)], 0, 16),
    );
    let resized = Made::Resized(-3, 9, boxed(Int32));
    check_map(&resized, (&[(0, Int32)], -3, 9));
    check_map(&Made::Contiguous(2, Box::new(resized.clone())), (&[(0, Int32), (9, Int32)], -3, 18));
    check_map(&Made::Structure(vec![(1, 0, resized), part(1, 100, Int8)]), (&[(0, Int32), (100, Int8)], -3, 9));
}

#[test]
fn subarrays_have_the_type_map_of_section_5_1_3() {
    let dimensions = vec![(3, 2, 1), (4, 2, 2)];
    let c = [(6, Byte), (7, Byte), (10, Byte), (11, Byte)];
    check_map(&Made::Subarray(dimensions.clone(), Order::C, boxed(Byte)), (&c, 0, 12));
    let fortran = [(7, Byte), (8, Byte), (10, Byte), (11, Byte)];
    check_map(&Made::Subarray(dimensions, Order::Fortran, boxed(Byte)), (&fortran, 0, 12));
    let cube = Made::Subarray(vec![(4, 2, 1), (5, 3, 1), (6, 2, 3)], Order::C, boxed(Int16));
    check(&cube, &cube.model(), 3);
    assert_eq!(cube.datatype().strips(1).count(), 2, "a strip of rows for each of two planes");
}

#[test]
fn adjacent_strips_are_merged() {
    let int = Datatype::from(Int32);
    let vector = Datatype::vector(1000, 2, 5, &int).unwrap();
    let one = |datatype: &Datatype, count| {
        let strips: Vec<Strip> = datatype.strips(count).collect();
        assert_eq!(strips.len(), 1, "{strips:?}");
        strips[0]
    };
    assert_eq!(one(&vector, 1), Strip { offset: 0, block: 8, count: 1000, stride: 20 });
    let goes_on = Datatype::resized(&vector, 0, 20_000).unwrap();
    assert_eq!(one(&goes_on, 7), Strip { offset: 0, block: 8, count: 7000, stride: 20 });
    let places: Vec<isize> = (0..100).map(|i| 3 + 4 * i).collect();
    let even = Datatype::indexed_block(1, &places, &int).unwrap();
    assert_eq!(one(&even, 1), Strip { offset: 12, block: 4, count: 100, stride: 16 });
    let long = Datatype::contiguous(100, &int).unwrap();
    assert!(long.is_contiguous());
    assert_eq!(one(&long, 9), Strip::one(0, 3600));
    let dense = Datatype::indexed(&[(2, 0), (3, 2), (1, 5)], &int).unwrap();
    assert!(dense.is_contiguous());
    assert_eq!(one(&dense, 1), Strip::one(0, 24));
    let backwards = Datatype::indexed_block(1, &[1, 0], &int).unwrap();
    assert!(!backwards.is_contiguous());
    assert_eq!(backwards.pieces(1).collect::<Vec<_>>(), [(4, 4), (0, 4)]);
    let parts = [(1, 0, vector.clone()), (1, 20_000, vector)];
    assert_eq!(one(&Datatype::structure(&parts).unwrap(), 1), Strip { offset: 0, block: 8, count: 2000, stride: 20 });
}

#[test]
fn huge_counts_take_no_more_memory() {
    let double = Datatype::from(Float64);
    let vector = Datatype::vector(1_000_000_000, 1, 2, &double).unwrap();
    assert_eq!((vector.size(), vector.extent()), (8_000_000_000, 15_999_999_992));
    assert_eq!(vector.strips(1).count(), 1);
    assert_eq!(vector.span(1_000_000), Some((0, 15_999_999_992_000_000)));
    assert!(!vector.overlaps_itself(1_000_000_000));
    assert!(vector.matches(1, &double, 1_000_000_000));
    let pair = Datatype::structure(&[(1, 0, Datatype::from(Int32)), (1, 8, double.clone())]).unwrap();
    let pairs = Datatype::contiguous(5_000_000_000, &pair).unwrap();
    let grid = Datatype::hvector(1 << 20, 1, 1 << 37, &pairs).unwrap();
    assert_eq!(grid.size(), (12 * 5_000_000_000) << 20);
    assert_eq!((grid.layout_size(), grid.strips(1).size_hint().0), (4, 10_000_000_000 << 20));
    assert!(!grid.overlaps_itself(1));
    assert!(grid.matches(1, &pair, 5_000_000_000 << 20));
    assert!(!grid.matches(1, &pair, 5_000_000_001 << 20));
    let packed = Datatype::resized(&pair, 0, 12).unwrap();
    let unlike = Datatype::structure(&[(1, 0, double), (1, 8, Datatype::from(Int32))]).unwrap();
    assert!(packed.matches(1 << 40, &pair, 1 << 40) && !packed.matches(1 << 40, &unlike, 1 << 40));
    // Columns of a matrix: items interleave without overlap.
    let column = Datatype::vector(1_000_000, 1, 1_000_000, &Datatype::from(Int32)).unwrap();
    let columns = Datatype::resized(&column, 0, 4).unwrap();
    assert!(!columns.overlaps_itself(1_000_000));
    assert!(columns.overlaps_itself(1_000_001));
    // Two fields of records, record after record and field after field.
    let field = |at| (1, at, Datatype::hvector(1_000_000_000, 1, 16, &Datatype::from(Int32)).unwrap());
    assert!(!Datatype::structure(&[field(0), field(8)]).unwrap().overlaps_itself(1));
    assert!(Datatype::structure(&[field(0), field(15_999_999_986)]).unwrap().overlaps_itself(1));
}

#[test]
fn data_beyond_the_range_of_offsets_is_an_error() {
    let double = Datatype::from(Float64);
    let max = isize::MAX;
    let far = [
        Datatype::contiguous(usize::MAX, &double),
        Datatype::contiguous(usize::MAX / 16, &double).and_then(|half| Datatype::contiguous(3, &half)),
        Datatype::vector(2, 1, max, &double),
        Datatype::hvector(3, 1, max, &double),
        Datatype::hvector(usize::MAX, 1, 0, &Datatype::from(Byte)),
        Datatype::hindexed(&[(1, max - 7)], &double),
        Datatype::hindexed(&[(1, max - 8), (1, -8)], &double),
        Datatype::indexed(&[(1, max / 2)], &double),
        Datatype::structure(&[(1, max - 8, double.clone()), (1, isize::MIN, double.clone())]),
        Datatype::resized(&double, max, 1),
        Datatype::subarray(&[1 << 31, 1 << 31, 4], &[1, 1, 1], &[0, 0, 0], Order::C, &double),
    ];
    for (index, datatype) in far.into_iter().enumerate() {
        let error = datatype.expect_err(&format!("number {index} is too large"));
        assert_eq!(error.class(), Class::Count, "{error}");
    }
    let whole = Datatype::hindexed(&[(1, max - 8)], &double).unwrap();
    assert_eq!(whole.span(1), Some((i64::MAX - 8, i64::MAX)));
    let huge = Datatype::resized(&double, 0, max).unwrap();
    assert_eq!(huge.span(usize::MAX), Some((0, i64::MAX)));
}

#[test]
fn subarrays_outside_their_array_are_errors_of_class_arg() {
    let int = Datatype::from(Int32);
    let shapes: [(&[usize], &[usize], &[usize]); 5] =
        [(&[], &[], &[]), (&[4], &[1, 1], &[0]), (&[4], &[0], &[0]), (&[4], &[5], &[0]), (&[4, 4], &[1, 2], &[0, 3])];
    for (sizes, subsizes, starts) in shapes {
        let error = Datatype::subarray(sizes, subsizes, starts, Order::C, &int).unwrap_err();
        assert_eq!(error.class(), Class::Arg, "{error}");
    }
    let error = Datatype::subarray(&[4, 4], &[1, 2], &[0, 3], Order::C, &int).unwrap_err().to_string();
    assert_eq!(
        error,
        "subarray: dimension 1 has 4 elements, too few for a subarray of 2 elements that starts at element 3"
    );
}

#[test]
fn strips_that_no_datatype_has_are_not_decoded() {
    let far = i64::MAX as u64;
    for words in [
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [far, 1, 1, 0],
        [0, 8, 1 << 62, 8],
        [0, 1 << 62, 4, 0],
        [0, far, 1, 0].map(|w| w + 1),
    ] {
        assert_eq!(Strip::decode(words), None, "{words:?}");
    }
    assert_eq!(Strip::decode([u64::MAX, 1, 2, u64::MAX]), Some(Strip { offset: -1, block: 1, count: 2, stride: -1 }));
}

#[test]
fn a_contiguous_buffer_is_one_piece_and_can_be_cut() {
    let mut buffer = Pieces::contiguous(10);
    assert_eq!(buffer.next_at_most(4), Some((0, 4)));
    assert_eq!(buffer.next_at_most(0), None);
    assert_eq!(buffer.clone().collect::<Vec<_>>(), [(4, 6)]);
    assert_eq!(Pieces::contiguous(0).next(), None);
}

fn basics() -> impl Strategy<Value = Made> {
    use BasicType::{Complex32, FloatInt};
    prop::sample::select(vec![Int8, Byte, Int16, Int32, Float64, Complex32, FloatInt]).prop_map(Made::Basic)
}

fn nested() -> impl Strategy<Value = Made> {
    basics().prop_recursive(4, 24, 3, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let blocks = |far: isize| prop::collection::vec((0..3usize, -far..far), 0..5);
        let places = |far: isize| prop::collection::vec(-far..far, 0..5);
        let dimension =
            (1..4usize, 0..3usize, 0..3usize).prop_map(|(sub, before, after)| (before + sub + after, sub, before));
        let order = prop::sample::select(vec![Order::C, Order::Fortran]);
        prop_oneof![
            (0..4usize, old.clone()).prop_map(|(count, old)| Made::Contiguous(count, old)),
            (0..4usize, 0..3usize, -4..5isize, old.clone()).prop_map(|(n, m, s, old)| Made::Vector(n, m, s, old)),
            (0..4usize, 0..3usize, -40..60isize, old.clone()).prop_map(|(n, m, s, old)| Made::Hvector(n, m, s, old)),
            (blocks(6), old.clone()).prop_map(|(blocks, old)| Made::Indexed(blocks, old)),
            (blocks(60), old.clone()).prop_map(|(blocks, old)| Made::Hindexed(blocks, old)),
            (1..3usize, places(6), old.clone()).prop_map(|(n, places, old)| Made::IndexedBlock(n, places, old)),
            (1..3usize, places(60), old.clone()).prop_map(|(n, places, old)| Made::HindexedBlock(n, places, old)),
            prop::collection::vec((0..3usize, -64..64isize, inner), 0..4).prop_map(Made::Structure),
            (prop::collection::vec(dimension, 1..4), order, old.clone())
                .prop_map(|(d, o, old)| Made::Subarray(d, o, old)),
            (-16..17isize, -20..60isize, old).prop_map(|(lb, extent, old)| Made::Resized(lb, extent, old)),
        ]
    })
}

/// Bytes, two strides and an extent: items that interleave in all ways.
fn interleaved() -> impl Strategy<Value = Made> {
    let level = || (1..5usize, 1..40isize);
    (1..4usize, level(), level(), 0..40isize).prop_map(|(bytes, (n, s), (m, t), extent)| {
        let block = Box::new(Made::Contiguous(bytes, boxed(Byte)));
        let inner = Box::new(Made::Hvector(n, 1, s, block));
        Made::Resized(0, extent, Box::new(Made::Hvector(m, 1, t, inner)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_datatypes_agree_with_their_type_maps(made in nested(), count in 0..4usize) {
        let model = made.model();
        prop_assume!(model.map.len() <= 2000);
        check(&made, &model, count);
    }

    #[test]
    fn interleaved_items_overlap_where_their_bytes_do(made in interleaved(), count in 1..6usize) {
        check(&made, &made.model(), count);
    }

    #[test]
    fn signatures_match_where_the_basic_types_do(a in nested(), b in nested(), n in 0..4usize, m in 0..4usize) {
        let (first, second) = (a.model(), b.model());
        prop_assume!(first.map.len() <= 2000 && second.map.len() <= 2000);
        let same = first.types(n) == second.types(m);
        prop_assert_eq!(a.datatype().matches(n, &b.datatype(), m), same);
        // The same sequence, entry by entry elsewhere; and with one entry more, less or changed.
        let entries = first.types(n);
        let written = |types: &[BasicType]| {
            Made::Structure(types.iter().rev().enumerate().map(|(at, &basic)| (1, 16 * at as isize, Made::Basic(basic))).rev().collect())
        };
        let entry = |types: &[BasicType]| a.datatype().matches(n, &written(types).datatype(), 1);
        prop_assert!(entry(&entries));
        if let Some((last, rest)) = entries.split_last() {
            prop_assert!(!entry(rest));
            let other = if *last == Int8 { Byte } else { Int8 };
            prop_assert!(!entry(&[rest, &[other]].concat()));
        }
    }

    #[test]
    fn pieces_are_cut_where_asked(made in nested(), count in 0..4usize, most in 1..20usize) {
        let model = made.model();
        prop_assume!(model.map.len() <= 2000);
        let datatype = made.datatype();
        let mut pieces = datatype.pieces(count);
        let pieces = std::iter::from_fn(|| pieces.next_at_most(most)).inspect(|piece| assert!((1..=most).contains(&piece.1)));
        prop_assert_eq!(expand(pieces), model.bytes(count));
    }
}

impl Datatype {
    /// Strips and loops that are kept.
    fn layout_size(&self) -> usize {
        self.0.layout.strips.len() + self.0.layout.loops.len()
    }
}

/// The bytes of a type have its layout and bounds, and the signature of as many bytes.
#[test]
fn a_type_as_bytes_keeps_its_layout() {
    let [double, int] = [Float64, Int32].map(Datatype::basic);
    let mixed = Datatype::structure(&[(2, 0, int.clone()), (1, 16, double.clone())]).expect("a structure");
    let types = [
        Datatype::vector(3, 2, 4, &double).expect("a vector"),
        Datatype::resized(&mixed, -8, 64).expect("a resized type"),
        Datatype::hvector(3, 2, 4, &double).expect("an overlapping type"),
        Datatype::indexed(&[(2, 5), (1, -3), (4, 20)], &int).expect("an indexed type"),
        Datatype::contiguous(0, &mixed).expect("no data"),
        mixed,
    ];
    for ty in types {
        let bytes = ty.as_bytes();
        for count in [1, 3] {
            assert_eq!(expand(bytes.pieces(count)), expand(ty.pieces(count)), "{ty:?}");
            assert_eq!(bytes.overlaps_itself(count), ty.overlaps_itself(count), "{ty:?}");
            assert!(bytes.matches(count, &Datatype::basic(Byte), count * ty.size()), "{ty:?}");
        }
        let bounds = |ty: &Datatype| (ty.lb(), ty.extent(), ty.true_lb(), ty.true_extent(), ty.size());
        assert_eq!(bounds(&bytes), bounds(&ty));
        assert_eq!(bytes.uniform(), (ty.size() > 0).then_some(Byte), "{ty:?}");
    }
}
