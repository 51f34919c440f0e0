//! The naive model of MPI-4.1 §5.1: a datatype as its whole type map. Knows nothing of the
//! implementation but its constructors.

use super::super::{Datatype, Order};
use crate::reduce::BasicType;

/// How a datatype is made.
#[derive(Clone, Debug)]
pub(super) enum Made {
    Basic(BasicType),
    Contiguous(usize, Box<Made>),
    Vector(usize, usize, isize, Box<Made>),
    Hvector(usize, usize, isize, Box<Made>),
    Indexed(Vec<(usize, isize)>, Box<Made>),
    Hindexed(Vec<(usize, isize)>, Box<Made>),
    IndexedBlock(usize, Vec<isize>, Box<Made>),
    HindexedBlock(usize, Vec<isize>, Box<Made>),
    Structure(Vec<(usize, isize, Made)>),
    /// Per dimension `(size, subsize, start)`.
    Subarray(Vec<(usize, usize, usize)>, Order, Box<Made>),
    Resized(isize, isize, Box<Made>),
}

/// The type map, and `(lower bound, upper bound, whether by markers)`.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) map: Vec<(i64, BasicType)>,
    pub(super) bounds: Option<(i64, i64, bool)>,
}

impl Made {
    pub(super) fn datatype(&self) -> Datatype {
        let made = match self {
            Made::Basic(basic) => Ok(Datatype::from(*basic)),
            Made::Contiguous(count, old) => Datatype::contiguous(*count, &old.datatype()),
            Made::Vector(count, length, stride, old) => Datatype::vector(*count, *length, *stride, &old.datatype()),
            Made::Hvector(count, length, stride, old) => Datatype::hvector(*count, *length, *stride, &old.datatype()),
            Made::Indexed(blocks, old) => Datatype::indexed(blocks, &old.datatype()),
            Made::Hindexed(blocks, old) => Datatype::hindexed(blocks, &old.datatype()),
            Made::IndexedBlock(length, places, old) => Datatype::indexed_block(*length, places, &old.datatype()),
            Made::HindexedBlock(length, places, old) => Datatype::hindexed_block(*length, places, &old.datatype()),
            Made::Structure(parts) => {
                let parts: Vec<_> =
                    parts.iter().map(|(count, place, part)| (*count, *place, part.datatype())).collect();
                Datatype::structure(&parts)
            }
            Made::Subarray(dimensions, order, old) => {
                let column =
                    |pick: fn(&(usize, usize, usize)) -> usize| dimensions.iter().map(pick).collect::<Vec<_>>();
                Datatype::subarray(&column(|d| d.0), &column(|d| d.1), &column(|d| d.2), *order, &old.datatype())
            }
            Made::Resized(lb, extent, old) => Datatype::resized(&old.datatype(), *lb, *extent),
        };
        made.expect("small datatypes can be made")
    }

    pub(super) fn model(&self) -> Model {
        match self {
            Made::Basic(basic) => {
                Model { map: vec![(0, *basic)], bounds: Some((0, i64::try_from(basic.size()).unwrap(), false)) }
            }
            Made::Contiguous(count, old) => run(*count, 0, 1, &old.model()),
            Made::Vector(count, length, stride, old) => {
                let old = old.model();
                blocks((0..*count as i64).map(|i| (*length, i * *stride as i64 * old.extent())), &old)
            }
            Made::Hvector(count, length, stride, old) => {
                blocks((0..*count as i64).map(|i| (*length, i * *stride as i64)), &old.model())
            }
            Made::Indexed(list, old) => {
                let old = old.model();
                blocks(list.iter().map(|&(length, place)| (length, place as i64 * old.extent())), &old)
            }
            Made::Hindexed(list, old) => {
                blocks(list.iter().map(|&(length, place)| (length, place as i64)), &old.model())
            }
            Made::IndexedBlock(length, list, old) => {
                let old = old.model();
                blocks(list.iter().map(|&place| (*length, place as i64 * old.extent())), &old)
            }
            Made::HindexedBlock(length, list, old) => {
                blocks(list.iter().map(|&place| (*length, place as i64)), &old.model())
            }
            Made::Structure(parts) => structure(parts),
            Made::Subarray(dimensions, order, old) => subarray(dimensions, *order, &old.model()),
            Made::Resized(lb, extent, old) => {
                let (lb, extent) = (*lb as i64, *extent as i64);
                Model { bounds: Some((lb, lb + extent, true)), ..old.model() }
            }
        }
    }
}

impl Model {
    pub(super) fn lb(&self) -> i64 {
        self.bounds.map_or(0, |bounds| bounds.0)
    }

    pub(super) fn extent(&self) -> i64 {
        self.bounds.map_or(0, |bounds| bounds.1 - bounds.0)
    }

    /// The offset of each byte of `count` items, in the order of the data.
    pub(super) fn bytes(&self, count: usize) -> Vec<i64> {
        run(count, 0, 1, self).map.iter().flat_map(|&(at, basic)| at..at + basic.size() as i64).collect()
    }

    pub(super) fn types(&self, count: usize) -> Vec<BasicType> {
        (0..count).flat_map(|_| self.map.iter().map(|entry| entry.1)).collect()
    }

    fn add(&mut self, part: &Model, by: i64) {
        self.map.extend(part.map.iter().map(|&(at, basic)| (at + by, basic)));
        let Some((lb, ub, marked)) = part.bounds else { return };
        let (lb, ub) = (lb + by, ub + by);
        self.bounds = match self.bounds {
            Some((a, b, before)) if before == marked => Some((a.min(lb), b.max(ub), marked)),
            Some(markers @ (_, _, true)) => Some(markers),
            _ => Some((lb, ub, marked)),
        };
    }
}

/// `count` items from `start` on, each `pace` extents after the one before.
fn run(count: usize, start: i64, pace: i64, old: &Model) -> Model {
    let mut all = Model::default();
    for i in 0..count as i64 {
        all.add(old, start + i * pace * old.extent());
    }
    all
}

fn blocks(list: impl Iterator<Item = (usize, i64)>, old: &Model) -> Model {
    let mut all = Model::default();
    for (length, place) in list {
        all.add(&run(length, place, 1, old), 0);
    }
    all
}

fn structure(parts: &[(usize, isize, Made)]) -> Model {
    let mut all = Model::default();
    for (count, place, part) in parts {
        all.add(&run(*count, *place as i64, 1, &part.model()), 0);
    }
    if let Some((lb, ub, false)) = all.bounds {
        let align = all.map.iter().map(|entry| entry.1.align() as i64).max().unwrap_or(1);
        let padded = (0..).map(|epsilon| ub + epsilon).find(|ub| (ub - lb) % align == 0).unwrap();
        all.bounds = Some((lb, padded, false));
    }
    all
}

/// Looks at each element of the array: is it in the part?
fn subarray(dimensions: &[(usize, usize, usize)], order: Order, old: &Model) -> Model {
    let elements: usize = dimensions.iter().map(|dimension| dimension.0).product();
    let mut all = Model::default();
    for element in 0..elements {
        let mut rest = element;
        let mut inside = true;
        let mut visit = |&(size, subsize, start): &(usize, usize, usize)| {
            inside &= (start..start + subsize).contains(&(rest % size));
            rest /= size;
        };
        match order {
            Order::C => dimensions.iter().rev().for_each(&mut visit),
            Order::Fortran => dimensions.iter().for_each(&mut visit),
        }
        if inside {
            all.add(old, element as i64 * old.extent());
        }
    }
    Model { bounds: Some((0, elements as i64 * old.extent(), true)), ..all }
}
