//! What a vertex can do at another parallelism, from what it has shown.
//!
//! Twice the subtasks seldom do twice the work: they share machines, state, and the network. The obvious alternative,
//! capacity in proportion to parallelism, asks for too few, finds that out after a restart, and asks again. So the
//! capacities of earlier stays are kept (`memory.parts[].capacities`) and make a curve through the present one:
//!
//! ```text
//! between two known counts     on the straight line between them, which a curve that flattens never lies below
//! outside the known counts     in proportion to the nearest one
//! ```
//!
//! More parallelism never predicts less, and never more than its share. A pair that breaks this, or that says that
//! doubling brings less than 41 % (an exponent below 0.5), tells of another cost of a record or of another bottleneck
//! than now, and is left out: what is measured now wins. Pairs are forgotten after a day. Without any pair, as at the
//! start, capacity is in proportion. Records per second.
//! Source: `ContTune` (VLDB 2023), `StreamTune` (ICDE 2025); exponents as in Flink's observed scalability, at least 0.5.

use crate::core::memory::CapacityAt;
use crate::core::units::{Count, Timestamp, as_f64, seconds_between};

/// A pair older than this tells nothing of today.
const FORGET_AFTER_SECONDS: f64 = 86_400.0;
/// Exponents of plausible scaling; a little more than proportional is noise.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.5..=1.15;

/// Capacity over parallelism.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// (parallelism, capacity), both rising.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve of a vertex that can do `capacity` at parallelism `current`; `seen` is what it has shown before, oldest
    /// first. `None` where the capacity tells nothing.
    #[must_use]
    pub fn of(current: Count, capacity: f64, seen: &[CapacityAt], now: Timestamp) -> Option<Self> {
        if !(capacity.is_finite() && capacity > 0.0) || current == 0 {
            return None;
        }
        let here = as_f64(current);
        let mut points = vec![(here, capacity)];
        for pair in seen.iter().rev().filter(|pair| pair.parallelism != current && pair.parallelism > 0) {
            let (at, can) = (as_f64(pair.parallelism), pair.capacity_per_second);
            #[expect(clippy::float_cmp, reason = "whole numbers")]
            let known = points.iter().any(|(parallelism, _)| *parallelism == at);
            let exponent = (can / capacity).ln() / (at / here).ln();
            if !known && PLAUSIBLE.contains(&exponent) && seconds_between(pair.at, now) <= FORGET_AFTER_SECONDS {
                points.push((at, can));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut curve = Self { points };
        curve.settle(here);
        Some(curve)
    }

    /// Away from the present count, each point lies between no gain and its share of the one before.
    fn settle(&mut self, here: f64) {
        let (mut near, mut rest) = (None, self.points.as_mut_slice());
        let middle = rest.iter().position(|point| point.0 >= here).unwrap_or(0);
        let (left, right) = rest.split_at_mut(middle);
        rest = right;
        for point in rest.iter_mut() {
            if let Some((parallelism, capacity)) = near {
                point.1 = f64::clamp(point.1, capacity, capacity * point.0 / parallelism);
            }
            near = Some(*point);
        }
        near = rest.first().copied();
        for point in left.iter_mut().rev() {
            if let Some((parallelism, capacity)) = near {
                point.1 = f64::clamp(point.1, capacity * point.0 / parallelism, capacity);
            }
            near = Some(*point);
        }
    }

    /// What it can do at a parallelism.
    #[must_use]
    pub fn capacity(&self, parallelism: Count) -> f64 {
        self.read(as_f64(parallelism), |point| point.0, |point| point.1)
    }

    /// The smallest parallelism, unrounded, that can do so much.
    #[must_use]
    pub fn parallelism(&self, capacity: f64) -> f64 {
        self.read(capacity, |point| point.1, |point| point.0)
    }

    /// True when more than the present measurement is known.
    #[must_use]
    pub const fn is_learned(&self) -> bool {
        self.points.len() > 1
    }

    fn read(&self, x: f64, over: impl Fn((f64, f64)) -> f64, value: impl Fn((f64, f64)) -> f64) -> f64 {
        let (mut low, mut found) = ((0.0, 0.0), None);
        for point in self.points.iter().copied() {
            if x <= over(point) {
                found = Some(point);
                break;
            }
            low = point;
        }
        let Some(high) = found else { return value(low) / over(low) * x };
        let width = over(high) - over(low);
        if width <= 0.0 { value(low) } else { value(low) + (x - over(low)) / width * (value(high) - value(low)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("a time")
    }

    fn pair(parallelism: Count, capacity_per_second: f64, hours_ago: i64) -> CapacityAt {
        CapacityAt { parallelism, capacity_per_second, at: Timestamp::from_second(1_800_000_000 - 3600 * hours_ago).expect("a time") }
    }

    fn curve(current: Count, capacity: f64, seen: &[CapacityAt]) -> Curve {
        Curve::of(current, capacity, seen, now()).expect("a curve")
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn without_pairs_capacity_is_in_proportion() {
        let curve = curve(4, 400.0, &[]);
        assert!(near(curve.capacity(8), 800.0) && near(curve.capacity(1), 100.0) && near(curve.parallelism(650.0), 6.5));
        assert!(!curve.is_learned());
        assert_eq!(Curve::of(4, f64::INFINITY, &[], now()), None);
    }

    #[test]
    fn between_known_counts_it_is_on_the_line_and_outside_in_proportion_to_the_nearest() {
        let curve = curve(8, 560.0, &[pair(2, 200.0, 1), pair(4, 340.0, 1)]);
        assert!(near(curve.capacity(6), 450.0) && near(curve.parallelism(450.0), 6.0));
        assert!(near(curve.capacity(1), 100.0) && near(curve.capacity(16), 1120.0) && near(curve.parallelism(1120.0), 16.0));
    }

    #[test]
    fn a_curve_that_flattens_is_never_over_estimated_between_its_points() {
        let real = |p: Count| 100.0 * as_f64(p).powf(0.8);
        let curve = curve(13, real(13), &[pair(1, real(1), 2), pair(8, real(8), 1)]);
        for p in 1..=13 {
            assert!(curve.capacity(p) <= real(p) + 1e-9, "{p}");
        }
    }

    #[test]
    fn what_contradicts_the_present_measurement_is_left_out() {
        for stale in [pair(4, 600.0, 1), pair(4, 100.0, 1), pair(4, 540.0, 1), pair(4, 340.0, 25)] {
            assert!(!curve(8, 560.0, &[stale]).is_learned(), "{stale:?}");
        }
        assert!(near(curve(8, 560.0, &[pair(4, 260.0, 1)]).capacity(4), 280.0), "a little less than its share is noise");
    }

    #[test]
    fn the_newest_pair_at_a_parallelism_counts() {
        assert!(near(curve(8, 560.0, &[pair(4, 300.0, 3), pair(4, 340.0, 1)]).capacity(4), 340.0));
    }

    #[test]
    fn more_parallelism_never_predicts_less_nor_more_than_its_share() {
        let curve = curve(6, 500.0, &[pair(3, 340.0, 5), pair(4, 330.0, 4), pair(9, 640.0, 3), pair(10, 620.0, 2), pair(20, 1800.0, 1)]);
        for p in 1..40 {
            assert!(curve.capacity(p + 1) >= curve.capacity(p), "{p}: {curve:?}");
            assert!(curve.capacity(p + 1) / as_f64(p + 1) <= curve.capacity(p) / as_f64(p) + 1e-9, "{p}: {curve:?}");
            let wish = curve.parallelism(curve.capacity(p));
            assert!(wish <= as_f64(p) + 1e-9 && near(curve.capacity(p), curve.read(wish, |point| point.0, |point| point.1)));
        }
    }
}
