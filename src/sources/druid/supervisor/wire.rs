//! Druid's answers about a supervisor as they are, and what of them counts: pure functions of an answer.
//!
//! What is not known yet looks like nothing: right after a start the status has an `aggregateLag` of 0, an empty
//! `minimumLag` and 0 partitions. Only `offsetsLastUpdated` tells that the offsets were ever fetched. A task that has no
//! `startTime` waits for a slot. The moving averages of 5 and 15 minutes start at the first tick of a task and follow
//! slowly, so a young task is told by the one of a minute.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::core::kinds::DruidSupervisorSnapshot;
use crate::core::kinds::supervisor::{LagUnit, SpecAutoscaler, Stream};
use crate::core::units::{Amount, Count, Timestamp, seconds_between};
use crate::engine::source::SourceError;
use crate::sources::druid::spec::Spec as Written;
use crate::sources::http::Answer;

/// From this age on a task's average of five minutes is full.
const FULL_AVERAGE_SECONDS: f64 = 300.0;

/// What counts of a spec.
#[derive(Debug, PartialEq)]
pub(super) struct Spec {
    stream: Option<Stream>,
    task_count: Count,
    replicas: Count,
    stop_task_count: Option<Count>,
    autoscaler: Option<SpecAutoscaler>,
}

/// The spec of a supervisor.
pub(super) fn spec(answer: &Answer) -> Result<Spec, SourceError> {
    let written: Written = answer.json()?;
    let stream = match written.kind.as_deref() {
        Some("kafka") => Some(Stream::Kafka),
        Some("kinesis") => Some(Stream::Kinesis),
        Some("rabbit") => Some(Stream::Rabbit),
        Some("pubsub") => Some(Stream::Pubsub),
        _ => None,
    };
    let Some(io) = written.io() else {
        return Err(SourceError::new(crate::engine::source::FailureKind::Unsupported, "the supervisor reads no stream: its spec has no ioConfig"));
    };
    Ok(Spec {
        stream,
        task_count: io.task_count(),
        replicas: io.replicas(),
        stop_task_count: io.stop_task_count,
        autoscaler: io.auto_scaler_config.map(|own| SpecAutoscaler {
            enabled: own.enabled,
            strategy: own.strategy,
            task_count_min: own.task_count_min,
            task_count_max: own.task_count_max,
        }),
    })
}

impl Spec {
    /// Adds to a reading what only the spec tells.
    pub(super) fn fill(self, snapshot: &mut DruidSupervisorSnapshot) {
        snapshot.stream = self.stream;
        snapshot.task_count = Some(self.task_count);
        snapshot.replicas = Some(self.replicas);
        snapshot.stop_task_count = self.stop_task_count;
        snapshot.autoscaler = self.autoscaler;
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusWire {
    generation_time: Option<Timestamp>,
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    partitions: Option<Count>,
    duration_seconds: Option<Amount>,
    active_tasks: Option<Vec<TaskWire>>,
    publishing_tasks: Option<Vec<TaskWire>>,
    latest_offsets: Option<BTreeMap<String, Value>>,
    minimum_lag: Option<BTreeMap<String, i64>>,
    minimum_lag_millis: Option<BTreeMap<String, i64>>,
    offsets_last_updated: Option<Timestamp>,
    suspended: Option<bool>,
    state: Option<String>,
    detailed_state: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire {
    id: String,
    start_time: Option<Timestamp>,
    current_offsets: Option<BTreeMap<String, Value>>,
}

/// The tasks of a supervisor by id.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tasks {
    /// Those that read, with their age in seconds.
    pub(super) reading: BTreeMap<String, f64>,
    /// Those that wait for a slot.
    pub(super) waiting: HashSet<String>,
    /// Those that are said to publish.
    pub(super) publishing: HashSet<String>,
}

impl Tasks {
    /// True for a task of this supervisor.
    pub(super) fn is_own(&self, id: &str) -> bool {
        self.reading.contains_key(id) || self.publishing.contains(id) || self.waiting.contains(id)
    }

    fn youngest(&self) -> Option<f64> {
        self.reading.values().copied().reduce(f64::min)
    }
}

/// What counts of a status.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) snapshot: DruidSupervisorSnapshot,
    pub(super) tasks: Tasks,
}

/// The status of a supervisor. Ages are taken on the Overlord's own clock.
pub(super) fn status(answer: &Answer, now: Timestamp) -> Result<Status, SourceError> {
    let StatusWire { generation_time, payload } = answer.json()?;
    let there = generation_time.unwrap_or(now);
    let age = |at: Timestamp| seconds_between(at, there).max(0.0);
    let mut tasks = Tasks::default();
    let mut current: BTreeMap<String, Count> = BTreeMap::new();
    for task in payload.active_tasks.into_iter().flatten() {
        for (partition, offset) in whole(task.current_offsets).into_iter().flatten() {
            // of several copies the furthest counts
            let furthest = current.entry(partition).or_default();
            *furthest = (*furthest).max(offset);
        }
        match task.start_time {
            Some(at) => _ = tasks.reading.insert(task.id, age(at)),
            None => _ = tasks.waiting.insert(task.id),
        }
    }
    tasks.publishing.extend(payload.publishing_tasks.into_iter().flatten().map(|task| task.id));
    let fetched = payload.offsets_last_updated;
    let (lag_unit, lags) = match payload.minimum_lag_millis {
        Some(lags) => (LagUnit::Milliseconds, Some(lags)),
        None => (LagUnit::Records, payload.minimum_lag),
    };
    let state = if payload.suspended == Some(true) { Some("SUSPENDED".to_owned()) } else { payload.state };
    let snapshot = DruidSupervisorSnapshot {
        detailed_state: payload.detailed_state.filter(|detailed| Some(detailed) != state.as_ref()),
        state,
        task_age_seconds: tasks.youngest().and_then(Amount::new),
        task_duration_seconds: payload.duration_seconds,
        partitions: payload.partitions.filter(|count| *count > 0),
        partition_lag: lags.filter(|lags| !lags.is_empty() && fetched.is_some()),
        lag_unit: Some(lag_unit),
        latest_offsets: fetched.and_then(|_| whole(payload.latest_offsets)),
        current_offsets: fetched.map(|_| current).filter(|offsets| !offsets.is_empty()),
        offsets_age_seconds: fetched.and_then(|at| Amount::new(age(at))),
        ..DruidSupervisorSnapshot::default()
    };
    Ok(Status { snapshot, tasks })
}

/// Offsets, where all of them are whole numbers: sequence numbers of Kinesis are text, and have no difference.
fn whole(offsets: Option<BTreeMap<String, Value>>) -> Option<BTreeMap<String, Count>> {
    let offsets = offsets.filter(|offsets| !offsets.is_empty())?;
    offsets.into_iter().map(|(partition, offset)| Some((partition, offset.as_u64()?))).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatsWire {
    moving_averages: Option<BTreeMap<String, BTreeMap<String, Average>>>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Average {
    processed: Option<f64>,
}

/// What counts of the statistics.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stats {
    pub(super) processed_per_second: Option<Amount>,
    pub(super) idle_ratio: Option<Amount>,
}

/// The statistics of the tasks that read. A sum with a part missing is no sum, and neither is a mean.
pub(super) fn stats(answer: &Answer, tasks: &Tasks) -> Result<Stats, SourceError> {
    let groups: BTreeMap<String, BTreeMap<String, StatsWire>> = answer.json()?;
    let by_id: BTreeMap<&str, &StatsWire> = groups.values().flatten().map(|(id, stats)| (id.as_str(), stats)).collect();
    if tasks.reading.is_empty() {
        return Ok(Stats::default());
    }
    let rates: Option<Vec<f64>> = tasks.reading.iter().map(|(id, age)| rate(by_id.get(id.as_str())?, *age)).collect();
    let idle: Option<Vec<f64>> = tasks.reading.keys().map(|id| by_id.get(id.as_str())?.more.iter().find_map(|(name, value)| idle_leaf(name, value))).collect();
    Ok(Stats {
        processed_per_second: rates.and_then(|rates| Amount::new(rates.iter().sum())),
        idle_ratio: idle.and_then(|shares| Amount::new(shares.iter().sum::<f64>() / crate::core::units::as_f64(shares.len() as Count))),
    })
}

fn rate(stats: &StatsWire, age: f64) -> Option<f64> {
    let averages = stats.moving_averages.as_ref()?.get("buildSegments")?;
    let preferred = if age >= FULL_AVERAGE_SECONDS { ["5m", "1m", "15m"] } else { ["1m", "5m", "15m"] };
    preferred.iter().find_map(|name| averages.get(*name)?.processed)
}

/// The first share whose name speaks of idle time: its exact name differs between versions.
fn idle_leaf(name: &str, value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) if name.to_ascii_lowercase().contains("idle") => number.as_f64().filter(|share| (0.0..=1.0).contains(share)),
        Value::Object(members) => members.iter().find_map(|(name, value)| idle_leaf(name, value)),
        _ => None,
    }
}
