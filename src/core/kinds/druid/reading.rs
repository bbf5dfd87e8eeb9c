//! One reading of a Druid cluster's workers and of the tasks that wait for them.
//!
//! Source: Druid's Overlord API (`/druid/indexer/v1/workers`, `/pendingTasks`, `/worker`, supervisor status).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::kinds::observed;
use crate::core::units::{Amount, Count, Timestamp};

/// The category of workers and tasks that name none.
pub const DEFAULT_CATEGORY: &str = "_default_worker_category";

/// Workers, pending tasks and the configuration that decides where tasks go. Absent is unknown, never empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DruidWorkersSnapshot {
    /// When the Overlord was asked.
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
    /// The registered workers; absent means that the list is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<Worker>>,
    /// Tasks that wait for a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Tasks that wait for a lock or for the queue: no demand for slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_count: Option<Count>,
    /// The type of the Overlord's `selectStrategy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_strategy: Option<String>,
    /// Workers of a lower version get no tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_worker_version: Option<String>,
    /// The share of a worker's slots that `index_parallel` supervisor tasks may take, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_index_task_slot_ratio: Option<Amount>,
    /// Streaming supervisors whose tasks run on these workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streaming: Vec<Streaming>,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

observed!(DruidWorkersSnapshot);

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Worker {
    /// Host and port, as the Overlord names it.
    pub host: String,
    /// The ordinal in its `StatefulSet`; taken from the host name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<Count>,
    /// Task slots.
    pub capacity: Count,
    /// Slots in use; may exceed `capacity`.
    pub used: Count,
    /// False while it drains: it gets no new tasks.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The version it announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The category of tasks it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Until when it gets no tasks because too many failed on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blacklisted_until: Option<Timestamp>,
    /// Availability groups of the tasks that run on it: a group has at most one task on a worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub availability_groups: Vec<String>,
    /// Slots used by `index_parallel` supervisor tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_index_used: Option<Count>,
    /// The tasks that run on it, where known; then their number counts as well as `used`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<RunningTask>>,
}

const fn yes() -> bool {
    true
}

impl Worker {
    /// Slots or tasks in use, whichever is more: work that must not be killed.
    #[must_use]
    pub fn busy(&self) -> Count {
        let tasks = self.tasks.as_ref().map_or(0, |tasks| tasks.len() as Count);
        self.used.max(tasks)
    }

    /// Tasks that publish their segments: work in hand although nothing is read any more.
    #[must_use]
    pub fn publishing(&self) -> Count {
        self.tasks.iter().flatten().filter(|task| task.phase == Some(Phase::Publishing)).count() as Count
    }

    /// True when one of its tasks reads, and will publish once it stops.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.tasks.iter().flatten().any(|task| task.phase == Some(Phase::Reading))
    }

    /// Slots that `index_parallel` supervisor tasks use: as told, else as its tasks tell.
    #[must_use]
    pub fn parallel_index(&self) -> Count {
        let listed = || self.tasks.iter().flatten().filter(|task| task.task_type.as_deref() == Some("index_parallel")).count() as Count;
        self.parallel_index_used.unwrap_or_else(listed)
    }

    /// Its pod's name, where the host name tells the ordinal: the host without its port.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        self.set()?;
        self.host.split(':').next()
    }

    /// The name of its `StatefulSet`, where the host name tells the ordinal: `druid-mm` of `druid-mm-3.druid-mm.druid.svc`.
    #[must_use]
    pub fn set(&self) -> Option<&str> {
        self.named_ordinal().map(|(set, _)| set)
    }

    /// The seconds until its last task ends, where all of them say so. What a publishing task has left is the time that it
    /// may take, not what it takes: unknown.
    #[must_use]
    pub fn drain_seconds(&self) -> Option<f64> {
        let tasks = self.tasks.as_ref().filter(|tasks| tasks.len() as Count >= self.used)?;
        let left = |task: &RunningTask| task.remaining_seconds.map(Amount::get).filter(|_| task.phase != Some(Phase::Publishing));
        tasks.iter().map(left).try_fold(0.0, |longest: f64, seconds| Some(longest.max(seconds?)))
    }

    /// The ordinal in its `StatefulSet`: as given, else the number at the end of the host's first label
    /// (`druid-mm-3.druid-mm.druid.svc:8091` is 3).
    #[must_use]
    pub fn ordinal(&self) -> Option<Count> {
        self.ordinal.or_else(|| self.named_ordinal().map(|(_, ordinal)| ordinal))
    }

    fn named_ordinal(&self) -> Option<(&str, Count)> {
        let label = self.host.split(['.', ':']).next()?;
        let (name, digits) = label.rsplit_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // `ip-10-0-0-12` is the address of a machine
        let is_address = name.rsplit('-').take(3).filter(|part| is_number(part)).count() == 3;
        if name.is_empty() || !is_number(digits) || is_address {
            return None;
        }
        Some((name, digits.parse().ok()?))
    }
}

/// A task that runs on a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunningTask {
    /// The task's id.
    pub id: String,
    /// Its type, for example `index_kafka`.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub task_type: Option<String>,
    /// What it does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Seconds until it stops reading, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<Amount>,
}

/// What a running task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// A streaming task that reads.
    Reading,
    /// A streaming task that publishes its segments: it may take half an hour, and must not be killed.
    Publishing,
    /// Any other running task.
    Running,
}

/// Tasks that the Overlord has accepted and not yet placed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pending {
    /// How many.
    pub count: Count,
    /// Age of the oldest, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seconds: Option<Amount>,
    /// The tasks themselves, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<PendingTask>>,
}

/// A task that waits for a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PendingTask {
    /// The task's id.
    pub id: String,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub task_type: Option<String>,
    /// The data source it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<String>,
    /// The category of workers that may take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Slots it needs; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_capacity: Option<Count>,
    /// Its availability group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_group: Option<String>,
    /// False: no worker that this target can add may take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeable: Option<bool>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Timestamp>,
}

impl PendingTask {
    /// Slots that it needs.
    #[must_use]
    pub fn slots(&self) -> Count {
        self.required_capacity.unwrap_or(1).max(1)
    }
}

/// A streaming supervisor whose tasks run on these workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Streaming {
    /// The supervisor's id.
    pub supervisor: String,
    /// The category of workers that take its tasks; taken from the workers that run them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Task groups that read at a time.
    pub task_count: Count,
    /// Copies of each group; 1 if absent.
    #[serde(default = "one")]
    pub replicas: Count,
    /// Groups that stop at a time at a rollover; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_task_count: Option<Count>,
    /// Task groups that it is going to have, where its own advice says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_task_count: Option<Count>,
    /// Seconds until the tasks hand over to new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollover_in_seconds: Option<Amount>,
}

const fn one() -> Count {
    1
}
