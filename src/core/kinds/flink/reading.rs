//! One reading of a Flink job.
//!
//! Source: Flink's REST API (`/jobs/:id`, `/jobs/:id/vertices/:vid/subtasks/metrics`, `/overview`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::kinds::observed;
use crate::core::units::{Amount, Count, Timestamp};

/// A job, its vertices and the slots that it runs in. Absent is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FlinkJobSnapshot {
    /// When the metrics were fetched by the `JobManager`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// When the answer arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_at: Option<Timestamp>,
    /// The sender's clock minus ours, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_clock_offset_seconds: Option<f64>,
    /// The ready count then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
    /// The job's id, 32 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The job's state as Flink names it, for example `RUNNING`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Since when it is in the state RUNNING.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// Restarts so far (`numRestarts`); rescales count too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Count>,
    /// Seconds without service in the newest rescale, where whoever rescaled the job has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_seconds: Option<Amount>,
    /// Tasks by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskCounts>,
    /// `TaskManagers` registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_managers: Option<Count>,
    /// Slots of one `TaskManager`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_per_task_manager: Option<Count>,
    /// CPUs of one `TaskManager`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_manager_cpu: Option<Amount>,
    /// Memory of one `TaskManager` in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_manager_memory_bytes: Option<Count>,
    /// Slots that this job can have in all, its own included; absent means no known limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable_slots: Option<Count>,
    /// Free slots that the latest advice for other jobs of the cluster takes; they are not in `schedulableSlots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_promised_to_others: Option<Count>,
    /// Memory pressure of the `TaskManagers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<JobMemory>,
    /// The job's vertices.
    pub vertices: Vec<Vertex>,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

observed!(FlinkJobSnapshot, missing);

/// Tasks of the job by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskCounts {
    /// All tasks.
    pub total: Count,
    /// Those that run.
    pub running: Count,
    /// Those that have finished.
    #[serde(default)]
    pub finished: Count,
}

/// Memory pressure, the worst `TaskManager`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobMemory {
    /// Share of the time spent in garbage collection, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_time_ratio: Option<Amount>,
    /// Heap in use by heap size, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_used_ratio: Option<Amount>,
}

/// A vertex of the job graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vertex {
    /// The vertex' id, 32 hex digits.
    pub id: String,
    /// Its name; may be left out in history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Subtasks now.
    pub parallelism: Count,
    /// The most subtasks it can have: its number of key groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallelism: Option<Count>,
    /// Vertices of one slot-sharing group share slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_sharing_group: Option<String>,
    /// True when all of its subtasks have finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<bool>,
    /// The edges into it; none makes it a source.
    #[serde(default)]
    pub inputs: Vec<Edge>,
    /// Busy share of the time over the subtasks, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<Spread>,
    /// Share of the time waiting for a slower vertex downstream, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_pressured_ratio: Option<Spread>,
    /// Busy seconds since the last start, summed over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accumulated_busy_seconds: Option<Amount>,
    /// Records read per second, summed over the subtasks (an average over the last minute).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_in_per_second: Option<Amount>,
    /// Records written per second, summed over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_out_per_second: Option<Amount>,
    /// Records read since the last start, summed over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_in: Option<Count>,
    /// Records written since the last start, summed over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_out: Option<Count>,
    /// False: Flink says that the counters are not all there; the numbers beside it mean nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_complete: Option<bool>,
    /// Records that wait at the source; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_records: Option<Count>,
    /// Partitions or splits that the source reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Count>,
    /// The same by topic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions_by_topic: BTreeMap<String, Count>,
}

impl Vertex {
    /// The name for people: as given, else the id.
    #[must_use]
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// True for a vertex without inputs.
    #[must_use]
    pub fn is_source(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Partitions that bound its parallelism: as given, else the sum over topics.
    #[must_use]
    pub fn partition_count(&self) -> Option<Count> {
        self.partitions
            .or_else(|| (!self.partitions_by_topic.is_empty()).then(|| self.partitions_by_topic.values().fold(0, |sum: Count, n| sum.saturating_add(*n))))
            .filter(|n| *n > 0)
    }

    /// True when records reach it by key, so that key groups bound how evenly they are shared out.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        self.inputs.iter().any(|edge| edge.ship_strategy.as_deref() == Some("HASH"))
    }
}

/// An edge of the job graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edge {
    /// The id of the vertex that sends.
    pub from: String,
    /// How records are shared out: `HASH`, `REBALANCE`, `FORWARD`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ship_strategy: Option<String>,
}

/// A metric over the subtasks of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spread {
    /// The largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Amount>,
    /// The mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg: Option<Amount>,
    /// The smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Amount>,
}
