//! One reading of a streaming supervisor of Druid, and of the stream that it reads.
//!
//! Source: Druid's Overlord API (`/druid/indexer/v1/supervisor/{id}`, its `status` and its `stats`, `workers`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::units::{Amount, Count, Timestamp};

/// A supervisor and its stream. Absent is unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DruidSupervisorSnapshot {
    /// When the Overlord was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// When the answer arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_at: Option<Timestamp>,
    /// The sender's clock minus ours, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_clock_offset_seconds: Option<f64>,
    /// The supervisor's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// Its state as Druid names it: `RUNNING`, `IDLE`, `SUSPENDED`, `UNHEALTHY_TASKS`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its detailed state where that is another one: `CONNECTING_TO_STREAM`, `CREATING_TASKS`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_state: Option<String>,
    /// The system that it reads from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// `taskCount` of its spec: task groups that read at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_count: Option<Count>,
    /// Copies of each task group; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
    /// Groups that stop at a time at a rollover; all of them if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_task_count: Option<Count>,
    /// The autoscaler in its spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<SpecAutoscaler>,
    /// Its whole spec, for a ready-made call. It may hold credentials of the stream, so no source fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<serde_json::Map<String, serde_json::Value>>,
    /// Tasks that read, copies included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading_tasks: Option<Count>,
    /// Tasks that publish their segments, copies included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publishing_tasks: Option<Count>,
    /// For how long the youngest reading task has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_age_seconds: Option<Amount>,
    /// For how long a task reads before it hands over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_duration_seconds: Option<Amount>,
    /// For how long the Overlord has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlord_uptime_seconds: Option<Amount>,
    /// Partitions or shards; absent when nothing bounds how many tasks can read (Pub/Sub, `RabbitMQ` queues).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Count>,
    /// The lag of each partition in `lagUnit`. A negative one contradicts itself and is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_lag: Option<BTreeMap<String, i64>>,
    /// What `partitionLag` counts; `milliseconds` for Kinesis, else `records`, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_unit: Option<LagUnit>,
    /// The end of each partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_offsets: Option<BTreeMap<String, Count>>,
    /// How far each partition has been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_offsets: Option<BTreeMap<String, Count>>,
    /// Records that wait, where partitions do not tell it. Negative contradicts itself and is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_records: Option<i64>,
    /// How long ago the supervisor fetched the offsets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets_age_seconds: Option<Amount>,
    /// Records that arrive per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_per_second: Option<Amount>,
    /// Records that are read per second, summed over the reading tasks, copies included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processed_per_second: Option<Amount>,
    /// The mean share of the time in which a reading task waits for records, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ratio: Option<Amount>,
    /// Slots of the workers that its tasks run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_slots: Option<WorkerSlots>,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// The common fields. `replicas` is another thing here, so the ready count of a reading is not told.
impl crate::core::kinds::Observed for DruidSupervisorSnapshot {
    fn observed_at(&self) -> Option<Timestamp> {
        self.observed_at
    }
    fn received_at(&self) -> Option<Timestamp> {
        self.received_at
    }
    fn clock_offset_seconds(&self) -> Option<f64> {
        self.sender_clock_offset_seconds
    }
    fn replicas(&self) -> Option<Count> {
        None
    }
    fn missing(&self) -> &[String] {
        &self.missing
    }
}

/// Systems that supervisors read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Stream {
    /// Kafka topics.
    Kafka,
    /// A Kinesis stream: lag is time.
    Kinesis,
    /// A Pub/Sub subscription: no partitions.
    Pubsub,
    /// A `RabbitMQ` stream, or a queue without partitions.
    #[serde(alias = "rabbitmq")]
    Rabbit,
}

/// What a lag counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LagUnit {
    /// Records: summed over partitions.
    Records,
    /// Milliseconds: the largest of the partitions counts.
    Milliseconds,
}

/// The autoscaler in a supervisor's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpecAutoscaler {
    /// Is it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its strategy, for example `lagBased`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Its lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_count_min: Option<Count>,
    /// Its upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_count_max: Option<Count>,
}

/// Slots of the workers that a supervisor's tasks run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerSlots {
    /// Slots of workers that take tasks.
    pub total: Count,
    /// Those in use by other tasks than this supervisor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by_others: Option<Count>,
    /// Slots of workers that are on their way or about to be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coming: Option<Count>,
}

impl WorkerSlots {
    /// Slots that this supervisor's tasks can have.
    #[must_use]
    pub fn available(&self) -> Count {
        self.total.saturating_add(self.coming.unwrap_or(0)).saturating_sub(self.used_by_others.unwrap_or(0))
    }
}

impl DruidSupervisorSnapshot {
    /// Copies of each task group, at least 1.
    #[must_use]
    pub fn copies(&self) -> Count {
        self.replicas.unwrap_or(1).max(1)
    }

    /// What its lags count.
    #[must_use]
    pub fn unit(&self) -> LagUnit {
        self.lag_unit.unwrap_or(if self.stream == Some(Stream::Kinesis) { LagUnit::Milliseconds } else { LagUnit::Records })
    }

    /// Partitions, where there are any.
    #[must_use]
    pub fn partition_count(&self) -> Option<Count> {
        self.partitions.filter(|count| *count > 0)
    }

    /// Reading tasks that should be there: no group is without a partition.
    #[must_use]
    pub fn expected_tasks(&self) -> Option<Count> {
        let groups = self.task_count?.min(self.partition_count().unwrap_or(Count::MAX));
        Some(groups.saturating_mul(self.copies()))
    }

    /// The state in which nothing is to be judged, where it is in one.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        let sound = |state: &&str| matches!(*state, "RUNNING" | "IDLE" | "SUSPENDED");
        self.detailed_state.as_deref().filter(|state| !sound(state)).or_else(|| self.state.as_deref().filter(|state| !sound(state)))
    }

    /// True when it hands over a few groups at a time.
    #[must_use]
    pub fn rolls(&self) -> bool {
        self.stop_task_count.zip(self.task_count).is_some_and(|(stop, count)| stop < count)
    }
}
