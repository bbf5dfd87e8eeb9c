//! The arithmetic of KEDA's Kafka scaler, as the preset `keda-kafka`.
//!
//! ```text
//! total  = sum of end - committed, never clamped; without a commit 1, or all of it with earliest
//! total := f x threshold                    with evenDistribution: the smallest divisor f of P that covers it
//! if total / threshold (whole) > bound: total := bound x threshold     bound: P, or partitions with lag
//! replicas = ceil(total / threshold)
//! ```
//!
//! Its faults are kept, among them one replica too many where the division leaves a rest, so that one can see what it
//! would do. What is added is only what unknown means: a reading that has failed or is too old holds. Source: KEDA,
//! `pkg/scalers/kafka_scaler.go`.

use super::{KafkaGroupSnapshot, KafkaPartition};
use crate::core::decide::{Case, Fit, Judged};
use crate::core::policy::{KedaKafka, OffsetReset};
use crate::core::reasons::{Num, Reason};
use crate::core::request::Series;
use crate::core::units::{Count, as_f64};

/// The metric that KEDA publishes, and what it takes for activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The value.
    pub value: f64,
    /// The lag that decides on activity.
    pub persistent: f64,
}

/// The metric of a reading.
#[must_use]
pub fn metric(case: &Case<'_>, rule: KedaKafka, series: &Series<KafkaGroupSnapshot>, reading: &KafkaGroupSnapshot, threshold: f64) -> Metric {
    let policy = case.policy;
    let wanted = |name: &str| policy.kafka.topics.is_empty() || policy.kafka.topics.iter().any(|topic| topic == name);
    let before = series.history.last();
    let (mut total, mut persistent): (f64, f64) = (0.0, 0.0);
    let (mut parts, mut lagging): (Count, Count) = (0, 0);
    for topic in reading.topics.iter().flatten().filter(|topic| wanted(&topic.name)) {
        for partition in topic.listed() {
            let Some((lag, held)) = lag(rule, policy.kafka.offset_reset, partition, || {
                let earlier = before?.topics.iter().flatten().find(|earlier| earlier.name == topic.name)?;
                earlier.partition(partition.partition)?.committed
            }) else {
                continue;
            };
            parts += 1;
            lagging += Count::from(lag > 0.0);
            total += lag;
            persistent += held;
        }
    }
    if parts == 0 {
        (total, persistent) = reading.total_lag.map_or((0.0, 0.0), |lag| (signed(lag), signed(lag)));
    }
    let even = policy.even_distribution && parts > 0;
    if even {
        let factor = (1..=parts).filter(|factor| parts.is_multiple_of(*factor)).find(|factor| as_f64(*factor) * threshold >= total).unwrap_or(parts);
        total = as_f64(factor) * threshold;
    }
    let bound = if policy.kafka.limit_to_partitions_with_lag { lagging } else { parts };
    let is_capped = parts > 0 && (!policy.kafka.allow_idle || policy.kafka.limit_to_partitions_with_lag || even);
    if is_capped && (total / threshold).floor() > as_f64(bound) {
        total = as_f64(bound) * threshold;
    }
    Metric { value: total, persistent }
}

/// What a partition counts, without and with lag that does not move; `None` where it has no end and is left out.
fn lag(rule: KedaKafka, reset: OffsetReset, partition: &KafkaPartition, previous: impl FnOnce() -> Option<Count>) -> Option<(f64, f64)> {
    let Some(end) = partition.log_end else {
        return partition.lag.map(|lag| (signed(lag), signed(lag)));
    };
    let Some(committed) = partition.committed else {
        let whole = if rule.count_deleted_records { as_f64(end) } else { as_f64(end.saturating_sub(partition.log_start.unwrap_or(0))) };
        let lag = match reset {
            _ if rule.scale_to_zero_on_invalid_offset => 0.0,
            OffsetReset::Earliest => whole,
            _ => 1.0,
        };
        return Some((lag, lag));
    };
    let lag = if end >= committed { as_f64(end - committed) } else { -as_f64(committed - end) };
    if rule.exclude_persistent_lag && previous() == Some(committed) {
        return Some((0.0, lag));
    }
    Some((lag, lag))
}

fn signed(value: i64) -> f64 {
    let size = as_f64(value.unsigned_abs());
    if value < 0 { -size } else { size }
}

/// Judges by it.
pub fn judge(case: &Case<'_>, rule: KedaKafka, series: &Series<KafkaGroupSnapshot>, reading: &KafkaGroupSnapshot, judged: &mut Judged) {
    let threshold = case.policy.per_replica_backlog.unwrap_or(10.0);
    let metric = metric(case, rule, series, reading, threshold);
    let needed = (metric.value / threshold).max(0.0);
    let is_active = metric.persistent > case.policy.activation_backlog;
    judged.active = Some(is_active);
    judged.fit = Fit::Any;
    judged.why.push(Reason::KedaMetric { metric: Num(metric.value), lag: Num(metric.persistent), threshold: Num(threshold), needed: Num(needed) });
    // without activity KEDA goes to its minimum, with it to one at least
    judged.wish = Some(if is_active {
        needed.max(1.0)
    } else if case.min == 0 {
        0.0
    } else {
        needed
    });
    if judged.wish.is_some_and(|wish| wish <= 0.0) && case.min == 0 {
        let quiet = |reading: &KafkaGroupSnapshot| self::metric(case, rule, series, reading, threshold).persistent <= case.policy.activation_backlog;
        judged.idle_for(case.idle_seconds(series, quiet), case.policy);
    }
}
