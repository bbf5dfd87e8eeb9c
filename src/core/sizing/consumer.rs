//! What a `HorizontalPodAutoscaler` makes of a published count.
//!
//! With `AverageValue` and target 1 it compares `value / (1 x status.replicas)` with its tolerance band. Inside the
//! band it proposes the *status* count; outside it `ceil(value)`, whatever runs. From 10 replicas on a band of ten
//! percent swallows steps of one, and no trick with the value helps. Source: Kubernetes
//! `pkg/controller/podautoscaler/replica_calculator.go`, `GetExternalPerPodMetricReplicas`.

use crate::core::advice::ConsumerView;
use crate::core::policy::Consumer;
use crate::core::units::{Count, as_f64, ceil_count};

/// The count that the HPA proposes for a published `value` when `status` replicas exist, without its bounds.
#[must_use]
pub fn proposes(consumer: &Consumer, value: Count, status: Count) -> Count {
    if status == 0 {
        return value;
    }
    let ratio = as_f64(value) / as_f64(status);
    if 1.0 - consumer.tolerance_down <= ratio && ratio <= 1.0 + consumer.tolerance_up { status } else { value }
}

/// What it will hold, its bounds included.
#[must_use]
pub fn view(consumer: &Consumer, recommended: Count, status: Count) -> ConsumerView {
    let proposed = proposes(consumer, recommended, status);
    let will_hold = proposed.min(consumer.max.unwrap_or(Count::MAX)).max(consumer.min.unwrap_or(0));
    ConsumerView { will_hold, reachable: will_hold == recommended }
}

/// The next count from `wish` upwards that it will take, at most `max`; `wish` itself where there is none.
#[must_use]
pub fn next_reachable(consumer: &Consumer, wish: Count, status: Count, max: Count) -> Count {
    let most = max.min(consumer.max.unwrap_or(Count::MAX));
    // what is not taken lies inside the band, or below the least; beyond both everything is taken
    let end_of_band = ceil_count(as_f64(status) * (1.0 + consumer.tolerance_up));
    let around = (0..6).map(|step| end_of_band.saturating_sub(2).saturating_add(step));
    let candidates = [wish, wish.saturating_add(1), status, consumer.min.unwrap_or(0)].into_iter().chain(around);
    let taken = |count: &Count| (wish..=most).contains(count) && view(consumer, *count, status).reachable;
    candidates.filter(taken).min().unwrap_or(wish)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::ConsumerKind;

    fn hpa(tolerance: f64) -> Consumer {
        Consumer { kind: ConsumerKind::Hpa, tolerance_up: tolerance, tolerance_down: tolerance, min: None, max: None, round_to_reachable: false }
    }

    #[test]
    fn a_band_of_ten_percent_swallows_steps_of_one_from_ten_replicas_on() {
        for (status, value, holds) in [(10, 11, 10), (10, 12, 12), (10, 9, 10), (10, 8, 8), (9, 10, 10), (63, 64, 63), (0, 3, 3)] {
            assert_eq!(view(&hpa(0.1), value, status).will_hold, holds, "{status} -> {value}");
        }
        assert_eq!(view(&hpa(0.0), 11, 10).will_hold, 11);
    }

    #[test]
    fn the_search_is_short_however_large_the_bound() {
        let bounded = Consumer { max: Some(5), ..hpa(0.1) };
        assert_eq!(next_reachable(&bounded, 11, 10, 1 << 40), 11, "beyond what it may hold");
        assert_eq!(next_reachable(&hpa(0.1), 1_000_000_001, 1_000_000_000, 1 << 40), 1_100_000_001);
        for (status, wish) in (1..60).flat_map(|status| (1..90).map(move |wish| (status, wish))) {
            let slow = (wish..=200).find(|count| view(&hpa(0.1), *count, status).reachable).unwrap_or(wish);
            assert_eq!(next_reachable(&hpa(0.1), wish, status, 200), slow, "{status} -> {wish}");
        }
    }

    #[test]
    fn reachable_counts_around_the_present_one_are_found() {
        assert_eq!(next_reachable(&hpa(0.1), 11, 10, 40), 12);
        assert_eq!(next_reachable(&hpa(0.1), 11, 10, 11), 11, "none within the bound");
        assert_eq!(next_reachable(&hpa(0.1), 16, 15, 40), 17);
    }
}
