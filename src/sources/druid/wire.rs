//! Druid's answers as they are, and what of them counts: pure functions of an answer.
//!
//! Fields that are not needed are not read, and new ones do no harm. A pending task has the status `RUNNING`: only the
//! list that it is in tells. `queueInsertionTime` is often the epoch, so ages are taken from `createdTime`.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::spec::Spec;
use crate::core::kinds::druid::{Pending, PendingTask, RunningTask, Streaming, Worker};
use crate::core::units::{Amount, Count, Timestamp, seconds_between};
use crate::engine::source::{FailureKind, SourceError};
use crate::sources::http::Answer;

/// What the Overlord says when its tasks do not run on workers.
const NO_WORKERS: &[u8] = b"does not support worker listing";

/// The strategy of an Overlord that was never told another one.
const DEFAULT_STRATEGY: &str = "equalDistribution";

/// The types of tasks that streaming supervisors start.
pub(super) const STREAMING_TYPES: [&str; 4] = ["index_kafka", "index_kinesis", "index_rabbit", "index_pubsub"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkerRow {
    worker: WorkerInfo,
    curr_capacity_used: Count,
    curr_parallel_index_capacity_used: Option<Count>,
    availability_groups: Option<Vec<String>>,
    running_tasks: Option<Vec<String>>,
    blacklisted_until: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WorkerInfo {
    host: String,
    capacity: Count,
    version: String,
    category: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskRow {
    id: String,
    #[serde(rename = "type")]
    task_type: Option<String>,
    data_source: Option<String>,
    created_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkerConfig {
    select_strategy: Option<Strategy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Strategy {
    #[serde(rename = "type")]
    name: String,
    worker_category_spec: Option<CategorySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CategorySpec {
    category_map: Option<HashMap<String, CategoryConfig>>,
    strong: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CategoryConfig {
    default_category: Option<String>,
    category_affinity: Option<HashMap<String, String>>,
}

/// How the Overlord places tasks.
#[derive(Default)]
pub(super) struct Placement {
    /// The type of its strategy.
    pub(super) strategy: String,
    categories: HashMap<String, CategoryConfig>,
}

impl Placement {
    /// The only category of workers that may take a task. `None` where others may too: a weak category is a preference.
    pub(super) fn category(&self, task_type: &str, data_source: Option<&str>) -> Option<String> {
        let config = self.categories.get(task_type)?;
        let by_source = || config.category_affinity.as_ref()?.get(data_source?);
        by_source().or(config.default_category.as_ref()).cloned()
    }
}

/// The error of a worker list that cannot be had.
pub(super) fn accept_workers(answer: Answer) -> Result<Answer, SourceError> {
    if !(200..300).contains(&answer.status) && answer.bytes.windows(NO_WORKERS.len()).any(|part| part == NO_WORKERS) {
        return Err(SourceError::new(FailureKind::Unsupported, "the task runner of this Overlord has no workers to list"));
    }
    answer.success()
}

/// The registered workers with the tasks that run on them.
pub(super) fn workers(answer: &Answer) -> Result<Vec<Worker>, SourceError> {
    Ok(answer.json::<Vec<WorkerRow>>()?.into_iter().map(WorkerRow::worker).collect())
}

impl WorkerRow {
    fn worker(self) -> Worker {
        let running = |id: String| RunningTask { task_type: type_of(&id), id, phase: None, remaining_seconds: None };
        Worker {
            host: self.worker.host,
            ordinal: None,
            capacity: self.worker.capacity,
            used: self.curr_capacity_used,
            // a disabled worker announces an empty version
            enabled: !self.worker.version.is_empty(),
            version: Some(self.worker.version).filter(|version| !version.is_empty()),
            category: self.worker.category,
            blacklisted_until: self.blacklisted_until,
            availability_groups: self.availability_groups.unwrap_or_default(),
            parallel_index_used: self.curr_parallel_index_capacity_used,
            tasks: self.running_tasks.map(|ids| ids.into_iter().map(running).collect()),
        }
    }
}

/// The type that a task's id begins with, where it is one of Druid's own.
fn type_of(id: &str) -> Option<String> {
    // the longer ones first: each is compared with an underscore after it
    const TYPES: [&str; 13] = [
        "index_hadoop",
        "index_kafka",
        "index_kinesis",
        "index_rabbit",
        "index_pubsub",
        "index_parallel",
        "single_phase_sub_task",
        "partial_index_generate",
        "partial_index_generic_merge",
        "coordinator-issued_compact",
        "compact",
        "kill",
        "index",
    ];
    let found = TYPES.iter().find(|name| id.strip_prefix(**name).is_some_and(|rest| rest.starts_with('_')))?;
    Some(match *found {
        "coordinator-issued_compact" => "compact".to_owned(),
        name => name.to_owned(),
    })
}

/// The tasks that wait for a slot.
pub(super) fn pending(answer: &Answer, now: Timestamp) -> Result<Pending, SourceError> {
    let rows: Vec<TaskRow> = answer.json()?;
    let oldest = rows.iter().filter_map(|row| row.created_time).min();
    let tasks: Vec<PendingTask> = rows.into_iter().map(TaskRow::pending).collect();
    Ok(Pending {
        count: tasks.len() as Count,
        // a clock that is ahead of ours makes no negative age
        oldest_seconds: oldest.and_then(|created| Amount::new(seconds_between(created, now).max(0.0))),
        tasks: Some(tasks),
    })
}

impl TaskRow {
    fn pending(self) -> PendingTask {
        // the list tells neither the slots that a task needs nor the workers that may take it
        PendingTask {
            id: self.id,
            task_type: self.task_type,
            data_source: self.data_source,
            category: None,
            required_capacity: None,
            availability_group: None,
            placeable: None,
            created_time: self.created_time,
        }
    }
}

/// The ids of the tasks of a list.
pub(super) fn ids(answer: &Answer) -> Result<HashSet<String>, SourceError> {
    Ok(answer.json::<Vec<TaskRow>>()?.into_iter().map(|row| row.id).collect())
}

/// How many tasks a list has.
pub(super) fn count(answer: &Answer) -> Result<Count, SourceError> {
    Ok(answer.json::<Vec<serde::de::IgnoredAny>>()?.len() as Count)
}

/// How the Overlord chooses workers. `null` means that it was never told, and an empty answer the same.
pub(super) fn placement(answer: &Answer) -> Result<Placement, SourceError> {
    let config: Option<WorkerConfig> = if answer.bytes.is_empty() { None } else { answer.json()? };
    let Some(strategy) = config.and_then(|config| config.select_strategy) else {
        return Ok(Placement { strategy: DEFAULT_STRATEGY.to_owned(), ..Placement::default() });
    };
    let strong = strategy.worker_category_spec.filter(|spec| spec.strong == Some(true));
    Ok(Placement { strategy: strategy.name, categories: strong.and_then(|spec| spec.category_map).unwrap_or_default() })
}

#[derive(Deserialize)]
struct SupervisorRow {
    id: String,
    suspended: Option<bool>,
    state: Option<String>,
    spec: Option<Spec>,
}

/// A streaming supervisor that is neither suspended nor idle.
#[derive(Debug, PartialEq)]
pub(super) struct Supervisor {
    pub(super) task_type: String,
    pub(super) streaming: Streaming,
}

/// The streaming supervisors of a full list. A row that cannot be read is an error of the whole: a supervisor must not
/// vanish from the forecast.
pub(super) fn supervisors(answer: &Answer) -> Result<Vec<Supervisor>, SourceError> {
    Ok(answer.json::<Vec<SupervisorRow>>()?.into_iter().filter_map(SupervisorRow::streaming).collect())
}

impl SupervisorRow {
    fn streaming(self) -> Option<Supervisor> {
        let spec = self.spec?;
        // one that is idle has no tasks and starts none before something arrives
        let rests = matches!(self.state.as_deref(), Some("SUSPENDED" | "IDLE"));
        let suspended = self.suspended == Some(true) || spec.suspended == Some(true) || rests;
        let task_type = match spec.kind.as_deref()? {
            kind @ ("kafka" | "kinesis" | "rabbit" | "pubsub") => format!("index_{kind}"),
            _ => return None,
        };
        if suspended {
            return None;
        }
        let io = spec.io()?;
        let streaming = Streaming {
            supervisor: self.id,
            category: None,
            task_count: io.task_count(),
            replicas: io.replicas(),
            stop_task_count: io.stop_task_count,
            next_task_count: None,
            rollover_in_seconds: None,
        };
        Some(Supervisor { task_type, streaming })
    }
}

#[derive(Deserialize)]
struct Status {
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    partitions: Option<Count>,
    active_tasks: Option<Vec<Group>>,
    publishing_tasks: Option<Vec<Group>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    id: String,
    remaining_seconds: Option<f64>,
}

/// A task of a supervisor and its `remainingSeconds` as Druid counts them: below zero once it is overdue.
pub(super) type Left = (String, Option<f64>);

/// The tasks of a supervisor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Groups {
    pub(super) partitions: Option<Count>,
    pub(super) active: Vec<Left>,
    pub(super) publishing: Vec<Left>,
}

/// The tasks of a supervisor: those that read and those that publish.
pub(super) fn status(answer: &Answer) -> Result<Groups, SourceError> {
    let Status { payload } = answer.json()?;
    let all = |groups: Option<Vec<Group>>| groups.unwrap_or_default().into_iter().map(|group| (group.id, group.remaining_seconds)).collect();
    Ok(Groups { partitions: payload.partitions.filter(|count| *count > 0), active: all(payload.active_tasks), publishing: all(payload.publishing_tasks) })
}

impl Groups {
    /// Seconds until the tasks hand over: those of the first to stop, and 0 for one that is overdue.
    pub(super) fn rollover(&self) -> Option<Amount> {
        let first = self.active.iter().filter_map(|(_, left)| *left).reduce(f64::min)?;
        Amount::new(first.max(0.0))
    }
}
