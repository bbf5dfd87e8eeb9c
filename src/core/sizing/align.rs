//! How a count fits partitions or key groups.
//!
//! `P` partitions over `n` members give the busiest of them `ceil(P/n)`: the *peak*. Between two counts of the same
//! peak nothing gets faster, so the smaller one is as good, as long as its busiest member is not overloaded.
//!
//! The obvious alternative, only counts that divide `P`, jumps from 6 to 12 of 12 and is stuck at 1 or 13 of 13.
//! Flink's own modes are kept beside it for its preset; they look at `floor(P/n)`, which misses that the busiest member
//! holds the rounded-up share. Source: Flink Kubernetes operator, module flink-autoscaler, package alignment.

use crate::core::units::{Count, as_f64};

/// `ceil(parts / n)`: what the busiest of `n` members holds.
#[must_use]
pub const fn peak(parts: Count, n: Count) -> Count {
    if n == 0 { parts } else { parts.div_ceil(n) }
}

/// The smallest count with the peak of `wish`, if its busiest member stays at or below the peak limit
/// `target + 2/3 x (most - target)`; else the smallest count of the next lower peak.
///
/// `demand` is the unrounded wish (replicas at `target` utilization), so the busiest member is predicted at
/// `target x demand x peak / parts`. `wish` must be at least 1 and at most `parts`.
#[must_use]
pub fn same_peak(parts: Count, wish: Count, demand: f64, target: f64, most: f64) -> Count {
    if parts == 0 || wish == 0 || wish >= parts {
        return wish;
    }
    let held = peak(parts, wish);
    let limit = target + (most - target).max(0.0) * 2.0 / 3.0;
    let busiest = target * demand * as_f64(held) / as_f64(parts);
    if busiest <= limit + 1e-9 || held <= 1 { parts.div_ceil(held) } else { parts.div_ceil(held - 1) }
}

/// The next count from `wish` upwards that lowers the peak below that of one fewer: in threshold mode, where no
/// utilization can be predicted.
#[must_use]
pub const fn next_useful(parts: Count, wish: Count) -> Count {
    if parts == 0 || wish <= 1 || wish >= parts {
        return wish;
    }
    if peak(parts, wish) < peak(parts, wish - 1) { wish } else { parts.div_ceil(peak(parts, wish) - 1) }
}

/// Flink's own modes of alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlinkMode {
    /// `BALANCED`.
    Balanced,
    /// `EVENLY_SPREAD`.
    EvenlySpread,
    /// `EVENLY_SPREAD` of release 1.15.
    LegacyEvenlySpread,
    /// `MAXIMIZE_UTILISATION` of release 1.15.
    LegacyMaximizeUtilisation,
}

/// What Flink's autoscaler makes of `target` for a vertex at `current`, with `parts` partitions or key groups, at most
/// `upper` and at least `lower` subtasks. `current` itself means that the decision is given up.
#[must_use]
pub fn flink(mode: FlinkMode, parts: Count, current: Count, target: Count, lower: Count, upper: Count) -> Count {
    if parts == 0 || target == 0 || target == current {
        return target;
    }
    let reduces_load = matches!(mode, FlinkMode::Balanced | FlinkMode::LegacyMaximizeUtilisation);
    let bound = parts.min(upper);
    let end = if target > current { bound } else { current.min(bound) };
    let found = (target..=end).find(|q| parts.is_multiple_of(*q) || (reduces_load && parts / q < parts / target));
    match (found, mode) {
        (Some(q), _) => q,
        (None, FlinkMode::Balanced | FlinkMode::EvenlySpread) => target,
        (None, FlinkMode::LegacyEvenlySpread | FlinkMode::LegacyMaximizeUtilisation) => legacy_relaxed(parts, current, target, lower),
    }
}

/// The earlier modes look below the target when nothing above it fits, and give up when the direction would turn.
fn legacy_relaxed(parts: Count, current: Count, target: Count, lower: Count) -> Count {
    let mut relaxed = target;
    while relaxed > 0 && parts / relaxed == parts / target {
        relaxed -= 1;
    }
    if relaxed > 0 && !parts.is_multiple_of(relaxed) {
        relaxed += 1;
    }
    let relaxed = relaxed.max(lower).max(1);
    let keeps_direction = (target > current && relaxed > current) || (target < current && relaxed < current);
    if keeps_direction { relaxed } else { current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_count_of_the_same_peak_is_taken_while_its_busiest_member_is_not_overloaded() {
        // (partitions, wish, right answer); all of them lead today's tools astray
        let table = [(13, 4, 4), (13, 7, 7), (7, 4, 4), (12, 5, 4), (12, 7, 6), (60, 13, 12), (15, 10, 15), (11, 5, 6), (15, 15, 15)];
        for (parts, wish, right) in table {
            assert_eq!(same_peak(parts, wish, as_f64(wish), 0.7, 1.0), right, "{wish} of {parts}");
        }
    }

    #[test]
    fn without_a_prediction_the_next_count_that_changes_anything_is_taken() {
        assert_eq!(next_useful(12, 5), 6);
        assert_eq!(next_useful(12, 4), 4);
        assert_eq!(next_useful(12, 7), 12);
        assert_eq!(next_useful(13, 4), 4);
        assert_eq!(next_useful(1, 1), 1);
    }
}
