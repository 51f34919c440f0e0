//! Ratios of turns that are neighbours in time. Pure: knows numbers of turns, and neither jobs nor
//! tables.

use serde::Serialize;

use super::plan::Line;

/// A cell is unsteady if the upper quartile of its ratios is more than this multiple of the lower
/// one.
const UNSTEADY: f64 = 1.25;

/// The ratios of a cell: time with transom by time without; for bandwidths and rates the inverse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    /// The quartiles.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    /// The ratio of a cell, from the values of the turns of each round. `None` if there are no
    /// neighbours, or a value is not positive.
    pub(crate) fn of_rounds(line: &Line, without: &[Vec<f64>], with: &[Vec<f64>]) -> Option<Ratio> {
        let mut all: Vec<f64> =
            without.iter().zip(with).flat_map(|(without, with)| neighbours(line, without, with)).collect();
        if all.is_empty() || !all.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
            return None;
        }
        all.sort_by(f64::total_cmp);
        let (low, high) = (all[(all.len() - 1) / 4], all[all.len() - 1 - (all.len() - 1) / 4]);
        Some(Ratio { median: median(&mut all)?, low, high })
    }

    /// Whether the turns differ so much that the median says little.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.high > UNSTEADY * self.low
    }
}

/// The ratios of neighbours in time within a round. The turns alternate, and the first is one
/// without the library: so the turn `k` with the library lies between the turns `k` and `k + 1`
/// without.
fn neighbours(line: &Line, without: &[f64], with: &[f64]) -> Vec<f64> {
    let before = without.iter().zip(with);
    let behind = without.iter().skip(1).zip(with);
    before.chain(behind).map(|(&without, &with)| quotient(line, with, without)).collect()
}

/// The time with transom divided by the time without it; for bandwidths and rates the inverse.
pub(crate) fn quotient(line: &Line, with: f64, without: f64) -> f64 {
    if line.higher_is_better() { without / with } else { with / without }
}

/// The median, for which the values are sorted.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    fn put() -> Line {
        plan::cells(true)[0]
    }

    #[test]
    fn medians_are_between_the_middle_values() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 8.0]), Some(3.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn each_turn_is_compared_with_the_turns_before_and_behind_it() {
        assert_eq!(neighbours(&put(), &[1.0, 2.0], &[4.0, 8.0]), [4.0, 4.0, 2.0]);
        // A job has ended before its last turn.
        assert_eq!(neighbours(&put(), &[1.0, 2.0], &[4.0]), [4.0, 2.0]);
        assert_eq!(neighbours(&put(), &[1.0], &[4.0, 8.0]), [4.0]);
        let stream = plan::cells(true).into_iter().find(Line::higher_is_better).expect("one");
        assert_eq!(neighbours(&stream, &[1.0], &[4.0]), [0.25]);
    }

    /// The machine becomes slower between two turns, which alternate at 1.1.
    #[test]
    fn a_change_of_the_machines_speed_does_not_change_the_ratio() {
        let speed = |turn: usize| if turn < 5 { 8.5 } else { 11.4 };
        let without: Vec<f64> = (0..8).map(|turn| speed(2 * turn)).collect();
        let with: Vec<f64> = (0..8).map(|turn| 1.1 * speed(2 * turn + 1)).collect();
        let ratio = Ratio::of_rounds(&put(), &[without], &[with]).expect("a ratio");
        assert!((ratio.median - 1.1).abs() < 1e-9 && !ratio.is_unsteady(), "{ratio:?}");
        // Rounds at different speeds.
        let rounds = |by: f64| vec![vec![8.5 * by; 4], vec![11.4 * by; 4]];
        let ratio = Ratio::of_rounds(&put(), &rounds(1.0), &rounds(1.1)).expect("a ratio");
        assert!((ratio.high - 1.1).abs() < 1e-9 && !ratio.is_unsteady(), "{ratio:?}");
    }

    #[test]
    fn a_cell_whose_turns_differ_is_unsteady() {
        let ratio = |without: &[f64]| {
            Ratio::of_rounds(&put(), &[without.into()], &[vec![10.0; without.len()]]).expect("a ratio")
        };
        assert!(ratio(&[8.0, 12.0, 8.0, 12.0]).is_unsteady());
        assert!(!ratio(&[10.0, 10.0, 20.0, 10.0, 10.0, 10.0, 10.0, 10.0]).is_unsteady());
    }

    #[test]
    fn no_turns_have_no_ratio() {
        assert_eq!(Ratio::of_rounds(&put(), &[], &[]), None);
        assert_eq!(Ratio::of_rounds(&put(), &[vec![1.0]], &[vec![]]), None);
        assert_eq!(Ratio::of_rounds(&put(), &[vec![0.0]], &[vec![1.0]]), None);
    }
}
