//! The lag of one reading, with its unit: records are summed over partitions, times are not. The largest one counts.
//!
//! Why not one number: summing the milliseconds of ten shards that are each one minute behind says ten minutes, and a
//! negative lag of one partition, read at another moment than the rest, would hide what the others have. A partition
//! that is missing is unknown and never zero; right after a restart of the Overlord that is all of them.

use super::{DruidSupervisorSnapshot, LagUnit};
use crate::core::policy::LagAggregate;
use crate::core::units::{Count, as_f64};

/// A partition this many times further behind than the others is hot.
const HOT_FACTOR: f64 = 4.0;
/// Hot partitions hold at least this share of the lag.
const HOT_SHARE: f64 = 0.8;
/// A lag of so many seconds of arrivals is worth a look at who holds it.
const WORTH_A_LOOK_SECONDS: f64 = 30.0;

/// The lags of one reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag<'a> {
    /// What they count.
    pub unit: LagUnit,
    /// By partition; empty where only the whole is known.
    pub parts: Vec<(&'a str, f64)>,
    /// Records that wait in all, where they are known.
    pub records: Option<f64>,
    /// Names of what is missing.
    pub missing: Option<String>,
}

/// Partitions that hold the lag.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// Their names.
    pub partitions: String,
    /// Their share of the lag; `None` for times, which have no sum.
    pub share: Option<f64>,
    /// Seconds that the furthest is behind, where lag is time.
    pub seconds: Option<f64>,
    /// Seconds that the rest is behind at most, where lag is time.
    pub others_seconds: Option<f64>,
}

impl<'a> Lag<'a> {
    /// The lag of a reading; `None` when it tells none. The error says how it contradicts itself.
    pub fn of(reading: &'a DruidSupervisorSnapshot) -> Result<Option<Self>, String> {
        let unit = reading.unit();
        let told = match reading.backlog_records {
            Some(records) if records < 0 => return Err(format!("the backlog is {records} records, and no backlog is negative")),
            other => other.map(|records| as_f64(records.unsigned_abs())),
        };
        let parts = parts(reading)?;
        let (parts, unread) = parts.unwrap_or_default();
        if parts.is_empty() {
            return Ok(told.map(|records| Self { unit: LagUnit::Records, parts, records: Some(records), missing: None }));
        }
        let known = parts.len() as Count;
        let all = reading.partition_count().unwrap_or(known).max(known.saturating_add(unread));
        let missing = (known < all && told.is_none()).then(|| format!("the lag of {} of {all} partitions", all - known));
        let records = told.filter(|_| known < all || unit == LagUnit::Milliseconds);
        let summed = (unit == LagUnit::Records).then(|| parts.iter().map(|(_, lag)| lag).sum());
        Ok(Some(Self { unit, records: records.or(summed), parts, missing }))
    }

    /// Seconds that the furthest partition is behind, where lag is time.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        (self.unit == LagUnit::Milliseconds).then(|| self.largest() / 1000.0)
    }

    fn largest(&self) -> f64 {
        self.parts.iter().map(|(_, lag)| *lag).fold(0.0, f64::max)
    }

    /// One number in the unit of the lag, as Druid's own autoscaler combines it. Times are never summed.
    #[must_use]
    pub fn combined(&self, aggregate: Option<LagAggregate>) -> f64 {
        let sum = || self.parts.iter().map(|(_, lag)| lag).sum::<f64>();
        match (aggregate, self.unit) {
            _ if self.parts.is_empty() => self.records.unwrap_or(0.0),
            (Some(LagAggregate::Average), _) => sum() / as_f64(self.parts.len() as Count),
            (Some(LagAggregate::Max), _) | (_, LagUnit::Milliseconds) => self.largest(),
            (Some(LagAggregate::Sum) | None, LagUnit::Records) => sum(),
        }
    }

    /// True when most partitions have a part of the lag that is worth the name.
    #[must_use]
    pub fn is_widespread(&self) -> bool {
        let mean = self.parts.iter().map(|(_, lag)| lag).sum::<f64>() / as_f64(self.parts.len().max(1) as Count);
        self.parts.iter().filter(|(_, lag)| lag * 10.0 >= mean).count() * 2 >= self.parts.len()
    }

    /// The few partitions that hold the lag, where it is worth a look at `arrival` records per second.
    #[must_use]
    pub fn hot(&self, arrival: Option<f64>) -> Option<Hot> {
        let most = self.parts.len() / 8;
        let largest = self.largest();
        let worth = match self.unit {
            LagUnit::Milliseconds => largest >= WORTH_A_LOOK_SECONDS * 1000.0,
            LagUnit::Records => largest >= (arrival.unwrap_or(0.0) * WORTH_A_LOOK_SECONDS).max(1000.0),
        };
        let (hot, rest): (Vec<_>, Vec<_>) = self.parts.iter().partition(|(_, lag)| *lag * HOT_FACTOR > largest);
        if !worth || rest.is_empty() || hot.len() > most.max(1) {
            return None;
        }
        let others = rest.iter().map(|(_, lag)| *lag).fold(0.0, f64::max);
        let partitions = hot.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if self.unit == LagUnit::Milliseconds {
            return Some(Hot { partitions, share: None, seconds: Some(largest / 1000.0), others_seconds: Some(others / 1000.0) });
        }
        let sum: f64 = self.parts.iter().map(|(_, lag)| lag).sum();
        let share = hot.iter().map(|(_, lag)| *lag).sum::<f64>() / sum;
        (share >= HOT_SHARE).then_some(Hot { partitions, share: Some(share), seconds: None, others_seconds: None })
    }
}

/// Lags by partition, and how many partitions have an end but no position.
type Parts<'a> = (Vec<(&'a str, f64)>, Count);

fn parts(reading: &DruidSupervisorSnapshot) -> Result<Option<Parts<'_>>, String> {
    let negative = |name: &str, lag: i128| format!("partition {name} is {lag} behind, and no lag is negative");
    if let Some(lags) = &reading.partition_lag {
        let mut parts = Vec::with_capacity(lags.len());
        for (name, lag) in lags {
            if *lag < 0 {
                return Err(negative(name, i128::from(*lag)));
            }
            parts.push((name.as_str(), as_f64(lag.unsigned_abs())));
        }
        return Ok(Some((parts, 0)));
    }
    let (Some(latest), Some(current)) = (&reading.latest_offsets, &reading.current_offsets) else { return Ok(None) };
    let mut parts = Vec::with_capacity(latest.len());
    let mut unread = 0;
    for (name, end) in latest {
        match current.get(name) {
            Some(position) if position > end => return Err(negative(name, i128::from(*end) - i128::from(*position))),
            Some(position) => parts.push((name.as_str(), as_f64(end - position))),
            None => unread += 1,
        }
    }
    Ok(Some((parts, unread)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(json: serde_json::Value) -> DruidSupervisorSnapshot {
        serde_json::from_value(json).expect("a reading")
    }

    #[test]
    fn records_are_summed_and_times_are_not() {
        let records = reading(serde_json::json!({ "stream": "kafka", "partitionLag": { "0": 5, "1": 7 } }));
        let lag = Lag::of(&records).expect("consistent").expect("known");
        assert_eq!((lag.records, lag.seconds(), lag.combined(None)), (Some(12.0), None, 12.0));
        let times = reading(serde_json::json!({ "stream": "kinesis", "partitionLag": { "a": 60_000, "b": 60_000 } }));
        let lag = Lag::of(&times).expect("consistent").expect("known");
        assert_eq!((lag.records, lag.seconds()), (None, Some(60.0)));
        assert!((lag.combined(Some(LagAggregate::Sum)) - 60_000.0).abs() < 1e-9, "times have no sum");
    }

    #[test]
    fn offsets_give_the_lag_where_it_is_not_told_and_a_partition_without_a_position_is_missing() {
        let offsets = reading(serde_json::json!({ "latestOffsets": { "0": 1000, "1": 50 }, "currentOffsets": { "0": 880 } }));
        let lag = Lag::of(&offsets).expect("consistent").expect("known");
        assert_eq!(lag.records, Some(120.0));
        assert_eq!(lag.missing.as_deref(), Some("the lag of 1 of 2 partitions"));
        let ahead = reading(serde_json::json!({ "latestOffsets": { "0": 1000 }, "currentOffsets": { "0": 1001 } }));
        assert!(Lag::of(&ahead).expect_err("negative").contains("partition 0 is -1 behind"));
    }

    #[test]
    fn an_empty_map_is_unknown_and_not_zero() {
        assert_eq!(Lag::of(&reading(serde_json::json!({ "partitions": 4, "partitionLag": {} }))), Ok(None));
    }

    #[test]
    fn the_few_partitions_that_hold_the_lag_are_named() {
        let lags: serde_json::Map<String, serde_json::Value> =
            (0..24).map(|n| (n.to_string(), serde_json::json!(if n == 7 { 400_000 } else { 900 }))).collect();
        let one = reading(serde_json::json!({ "partitionLag": lags }));
        let hot = Lag::of(&one).expect("consistent").expect("known").hot(Some(1000.0)).expect("hot");
        assert_eq!(hot.partitions, "7");
        let even = reading(serde_json::json!({ "partitionLag": { "0": 50_000, "1": 60_000, "2": 55_000 } }));
        assert_eq!(Lag::of(&even).expect("consistent").expect("known").hot(Some(10.0)), None);
    }
}
