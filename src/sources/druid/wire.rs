//! What Druid's Overlord sends, as far as it is read. Fields come and go between versions, so only what is needed is
//! asked for, and unknown ones are skipped.
//!
//! Source: Druid's API, `/druid/indexer/v1/*` (24 and later).

use serde::Deserialize;
use serde_json::Value;

use crate::core::units::{Count, Timestamp};

/// A registered worker, with what runs on it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerInfo {
    /// The worker itself.
    pub worker: Worker,
    /// Slots in use.
    pub curr_capacity_used: Count,
    /// Slots used by `index_parallel` supervisor tasks, from 0.20 on.
    #[serde(default)]
    pub curr_parallel_index_capacity_used: Option<Count>,
    /// Availability groups that run on it.
    #[serde(default)]
    pub availability_groups: Vec<String>,
    /// Ids of its tasks.
    #[serde(default)]
    pub running_tasks: Vec<String>,
    /// Until when it gets no tasks.
    #[serde(default)]
    pub blacklisted_until: Option<Timestamp>,
}

/// A worker as it announces itself.
#[derive(Debug, Deserialize)]
pub struct Worker {
    /// Host and port.
    pub host: String,
    /// Its slots.
    pub capacity: Count,
    /// Its version; empty while it is disabled.
    #[serde(default)]
    pub version: String,
    /// Its category, from 0.17 on.
    #[serde(default)]
    pub category: Option<String>,
}

/// A task in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// When it was created. `queueInsertionTime` is often the epoch, and is not read.
    #[serde(default)]
    pub created_time: Option<Timestamp>,
    /// The data source it writes.
    #[serde(default)]
    pub data_source: Option<String>,
}

/// The dynamic configuration; null when it was never set.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerConfig {
    /// How workers are chosen.
    #[serde(default)]
    pub select_strategy: Option<SelectStrategy>,
}

/// How workers are chosen.
#[derive(Debug, Deserialize)]
pub struct SelectStrategy {
    /// Its type, for example `fillCapacity`.
    #[serde(rename = "type")]
    pub name: String,
}

/// A supervisor with its specification.
#[derive(Debug, Deserialize)]
pub struct Supervisor {
    /// Its id.
    pub id: String,
    /// True while it is suspended.
    #[serde(default)]
    pub suspended: bool,
    /// What it was submitted with.
    #[serde(default)]
    pub spec: Value,
}

/// A streaming supervisor's settings, from its specification.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IoConfig {
    /// Task groups that read at a time; 1 where it is not set.
    #[serde(default = "one")]
    pub task_count: Count,
    /// Copies of each.
    #[serde(default = "one")]
    pub replicas: Count,
    /// Groups that stop at a time at a hand-over.
    #[serde(default)]
    pub stop_task_count: Option<Count>,
}

const fn one() -> Count {
    1
}

impl Supervisor {
    /// The settings of a streaming supervisor; `None` for other kinds, such as compaction. They stand in `spec.ioConfig`
    /// of the answer, or one `spec` deeper.
    #[must_use]
    pub fn io_config(&self) -> Option<IoConfig> {
        let io = self.spec.get("ioConfig").or_else(|| self.spec.get("spec")?.get("ioConfig"))?;
        serde_json::from_value(io.clone()).ok()
    }
}

/// The status of a streaming supervisor.
#[derive(Debug, Deserialize)]
pub struct Status {
    /// Its tasks.
    #[serde(default)]
    pub payload: Option<Payload>,
}

/// The tasks of a streaming supervisor.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// Tasks that read.
    pub active_tasks: Vec<SupervisorTask>,
    /// Tasks that publish their segments.
    pub publishing_tasks: Vec<SupervisorTask>,
}

/// A task of a supervisor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SupervisorTask {
    /// Its id.
    pub id: String,
    /// Seconds until it stops reading; null or not positive while it publishes.
    #[serde(default)]
    pub remaining_seconds: Option<f64>,
}

/// An error as Druid words it. Only its kind is looked at; the text goes nowhere.
#[derive(Debug, Deserialize)]
pub struct ErrorBody {
    /// The words.
    #[serde(default)]
    pub error: Option<String>,
}
