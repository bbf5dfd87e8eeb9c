//! What raises have brought to a group: what it reads at earlier counts, while records waited ([`effect`]).

use super::KafkaGroupSnapshot;
use super::lag::Lag;
use crate::core::decide::{Case, Judged, effect};
use crate::core::memory::CapacityAt;
use crate::core::request::Series;
use crate::core::trust;
use crate::core::units::{Known, Timestamp};

/// So many seconds of reading that wait keep every member busy.
const STANDS_SECONDS: f64 = 10.0;

/// Remembers what the group does at its present count, and says so where the last raise brought nothing.
pub fn judge(
    case: &Case<'_>,
    series: &Series<KafkaGroupSnapshot>,
    reading: &KafkaGroupSnapshot,
    lag: &Lag<'_>,
    (served, is_mixed): (Option<f64>, bool),
    is_behind: bool,
    at: Timestamp,
    judged: &mut Judged,
) {
    let count = reading.replicas.or(case.request.replicas.ready).or(judged.current).filter(|count| *count > 0);
    let (Some(parallelism), Some(served)) = (count, served.filter(|rate| *rate > 0.0)) else { return };
    // readings that say how many there were tell of counts that this service has not seen
    let told = series.history.iter().filter_map(|reading| {
        let capacity_per_second = reading.processed_per_second.known().filter(|rate| *rate > 0.0)?;
        let records = Lag::of(reading, &case.policy.kafka).ok().and_then(|lag| lag.records());
        let stood = records.is_none_or(|records| records > capacity_per_second * STANDS_SECONDS);
        let parallelism = reading.replicas.filter(|count| *count > 0 && stood)?;
        Some(CapacityAt { parallelism, capacity_per_second, at: trust::measured_at(reading.as_ref(), case.now) })
    });
    // what is measured across a change is of neither count
    let is_mixed = is_mixed && reading.processed_per_second.is_none();
    let stands = is_behind || lag.records().is_some_and(|records| records > served * STANDS_SECONDS);
    let now = (stands && !is_mixed).then_some(CapacityAt { parallelism, capacity_per_second: served, at });
    effect::judge(case, told, now, judged);
}
