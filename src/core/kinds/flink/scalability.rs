//! How well a vertex scales, from what it could do at earlier parallelisms.
//!
//! ```text
//! capacity = base x parallelism x coefficient        base: capacity of one subtask at the smallest parallelism
//! coefficient = sum(parallelism x capacity) / (base x sum(parallelism^2))       by least squares, at most 1
//! ```
//!
//! Twice the subtasks rarely do twice the work: coordination, skew and shared resources take their part. A wish divided
//! by the coefficient asks for that part as well. The obvious alternative, the capacity of the newest parallelism alone,
//! is what the wish is made of already, and knows nothing of the next step. Off by default: three stays at different
//! loads are thin evidence. Pairs are those of the newest three stays of the last 24 hours; the present parallelism is
//! what is being judged, not evidence. Too few pairs give 1. Records per second.
//! Source: flink-autoscaler `JobVertexScaler`, FLINK-37126.

use crate::core::memory::CapacityAt;
use crate::core::policy::FlinkPolicy;
use crate::core::units::{Count, Timestamp, as_f64, seconds_between};

/// The most stays that are looked at, and for how long they are remembered.
const MOST_STAYS: usize = 3;
const OLDEST_SECONDS: f64 = 24.0 * 3600.0;

/// The coefficient that wishes of a vertex are divided by: at most 1, and 1 where it is not asked for or not known.
#[must_use]
pub fn coefficient(capacities: &[CapacityAt], current: Count, now: Timestamp, policy: &FlinkPolicy) -> f64 {
    if !policy.scalability_enabled {
        return 1.0;
    }
    let stays = match capacities.split_last() {
        Some((last, earlier)) if last.parallelism == current => earlier,
        _ => capacities,
    };
    let recent: Vec<(f64, f64)> = stays
        .iter()
        .rev()
        .take_while(|seen| seconds_between(seen.at, now) <= OLDEST_SECONDS)
        .take(MOST_STAYS)
        .map(|seen| (as_f64(seen.parallelism), seen.capacity_per_second))
        .collect();
    let enough = usize::try_from(policy.scalability_min_observations).unwrap_or(usize::MAX);
    if recent.len() < enough { 1.0 } else { fit(&recent, policy.scalability_minimum).unwrap_or(1.0) }
}

/// The coefficient of (parallelism, capacity) pairs, newest first, rounded up to two decimals; between `minimum` and 1.
/// `None` without pairs, or where the smallest parallelism could do nothing.
#[must_use]
pub fn fit(pairs: &[(f64, f64)], minimum: f64) -> Option<f64> {
    // the newest of the smallest: with ties the first one stays
    let (parallelism, capacity) = pairs.iter().copied().reduce(|least, pair| if pair.0 < least.0 { pair } else { least })?;
    let base = capacity / parallelism;
    let (weighted, squares) = pairs.iter().fold((0.0, 0.0), |(weighted, squares), (p, capacity)| (weighted + p * capacity, squares + p * p));
    let coefficient = weighted / (squares * base);
    // a hundredth that is only rounding noise is none
    coefficient.is_finite().then(|| (coefficient.clamp(minimum, 1.0) * 100.0 - 1e-9).ceil() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coefficient_is_the_share_of_a_linear_gain_that_was_seen() {
        for (newest_first, right) in [
            (&[(8.0, 400.0), (2.0, 100.0), (4.0, 200.0)][..], 1.0),
            (&[(8.0, 390.0), (2.0, 99.0), (4.0, 196.0)], 0.99),
            (&[(8.0, 240.0), (2.0, 96.0), (4.0, 160.0)], 0.69),
            (&[(4.0, 100.0)], 1.0),
            (&[(8.0, 100.0), (1.0, 100.0)], 0.5),
        ] {
            assert_eq!(fit(newest_first, 0.5), Some(right), "{newest_first:?}");
        }
        assert_eq!(fit(&[], 0.5), None);
        assert_eq!(fit(&[(4.0, 0.0)], 0.5), None);
    }
}
