//! What a `HorizontalPodAutoscaler` makes of a published count.
//!
//! With `AverageValue` and target 1 it compares `value / (1 x status.replicas)` with its tolerance band. Inside the
//! band it proposes the *status* count; outside it `ceil(value)`, whatever runs. From 10 replicas on a band of ten
//! percent swallows steps of one, and no trick with the value helps. Source: Kubernetes
//! `pkg/controller/podautoscaler/replica_calculator.go`, `GetExternalPerPodMetricReplicas`.

use crate::core::advice::ConsumerView;
use crate::core::policy::Consumer;
use crate::core::units::{Count, as_f64};

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
    // the band around `status` is left after at most a share of it, so the search is short
    (wish..=max).find(|count| view(consumer, *count, status).reachable).unwrap_or(wish)
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
    fn reachable_counts_around_the_present_one_are_found() {
        assert_eq!(next_reachable(&hpa(0.1), 11, 10, 40), 12);
        assert_eq!(next_reachable(&hpa(0.1), 11, 10, 11), 11, "none within the bound");
        assert_eq!(next_reachable(&hpa(0.1), 16, 15, 40), 17);
    }
}
