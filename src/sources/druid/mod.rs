//! Druid, over the API of the Overlord or of a Router that forwards to it.
//!
//! One reading takes `workers`, `pendingTasks` and the dynamic `worker` configuration, all three or none, and beside them
//! `waitingTasks` and the streaming supervisors, which stay unknown where they cannot be had. A task runner that has no
//! workers (Kubernetes jobs) says so with 500: that is no empty list. A leader without a queue yet answers 503 with an
//! empty body; one that is not the leader redirects, and the client follows to allowed hosts only.

mod wire;

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::wire::{ErrorBody, Payload, Status, Supervisor, Task, WorkerConfig, WorkerInfo};
use super::http::{Client, Session, json};
use crate::core::kinds::druid::{DruidWorkersSnapshot, Pending, PendingTask, Phase, RunningTask, Streaming, Worker};
use crate::core::units::{Amount, Count, Timestamp, seconds_between};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};

/// The most supervisors whose status is asked for.
const MOST_SUPERVISORS: usize = 50;
/// Status calls under way at a time.
const CALLS_AT_ONCE: usize = 4;
/// The strategy in force when none was ever set.
const DEFAULT_STRATEGY: &str = "equalDistribution";

const WORKERS: &str = "/druid/indexer/v1/workers";
const PENDING: &str = "/druid/indexer/v1/pendingTasks";
const WAITING: &str = "/druid/indexer/v1/waitingTasks";
const CONFIG: &str = "/druid/indexer/v1/worker";
const SUPERVISORS: &str = "/druid/indexer/v1/supervisor?full";

/// The workers of a Druid cluster.
pub struct DruidSource {
    client: Client,
}

/// A streaming supervisor with its tasks, where they are known.
struct Stream {
    supervisor: Supervisor,
    status: Option<Payload>,
}

impl DruidSource {
    /// A source for the cluster that the client asks.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn read_workers(&self) -> Result<Reading, SourceError> {
        let session = self.client.session();
        let observed = clock::now();
        // pending tasks before workers: one that is placed in between is counted twice, and never missed
        let pending = session.get_json::<Vec<Task>>(PENDING).await?;
        let (workers, config, waiting, streams) =
            tokio::join!(workers(&session), session.get_json::<Option<WorkerConfig>>(CONFIG), session.get_json::<Vec<Task>>(WAITING), streams(&session),);
        let (workers, config) = (workers?, config?);
        let received = clock::now();
        let snapshot = DruidWorkersSnapshot {
            observed_at: Some(observed),
            received_at: Some(received),
            workers: Some(workers.into_iter().map(|info| worker(info, streams.as_deref())).collect()),
            pending: Some(pending_tasks(pending, received)),
            waiting_count: waiting.ok().map(|tasks| tasks.len() as Count),
            select_strategy: Some(config.and_then(|config| config.select_strategy).map_or_else(|| DEFAULT_STRATEGY.to_owned(), |strategy| strategy.name)),
            streaming: streams.unwrap_or_default().iter().filter_map(streaming).collect(),
            ..DruidWorkersSnapshot::default()
        };
        Ok(Reading { snapshot: Snapshot::DruidWorkers(snapshot), calls: session.calls() })
    }
}

impl Source for DruidSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.read_workers())
    }
}

/// The worker list, or why there is none.
async fn workers(session: &Session) -> Result<Vec<WorkerInfo>, SourceError> {
    let (status, body) = session.get_with_status(WORKERS).await?;
    if status == 500 {
        let words = serde_json::from_slice::<ErrorBody>(&body).ok().and_then(|body| body.error).unwrap_or_default();
        if words.contains("does not support") {
            return Err(SourceError::new(FailureKind::Unsupported, "the task runner has no workers to list: this cluster runs its tasks elsewhere"));
        }
    }
    match status {
        200..=299 => json(&body, WORKERS),
        401 | 403 => Err(SourceError::new(FailureKind::Unauthorized, format!("HTTP {status} for {WORKERS}: the credentials are missing or refused"))),
        _ => Err(SourceError::new(FailureKind::Status, format!("HTTP {status} for {WORKERS}"))),
    }
}

/// Streaming supervisors and their tasks; `None` when they cannot be listed.
async fn streams(session: &Session) -> Option<Vec<Stream>> {
    let supervisors: Vec<Supervisor> = session.get_json(SUPERVISORS).await.ok()?;
    let mut calls: Vec<BoxFuture<'_, Stream>> = Vec::new();
    for (index, supervisor) in supervisors.into_iter().filter(|supervisor| !supervisor.suspended && supervisor.io_config().is_some()).enumerate() {
        calls.push(Box::pin(async move {
            let id = utf8_percent_encode(&supervisor.id, NON_ALPHANUMERIC).to_string();
            let status =
                if index < MOST_SUPERVISORS { session.get_json::<Status>(&format!("/druid/indexer/v1/supervisor/{id}/status")).await.ok() } else { None };
            Stream { supervisor, status: status.and_then(|status| status.payload) }
        }));
    }
    Some(stream::iter(calls).buffered(CALLS_AT_ONCE).collect().await)
}

/// Seconds that are left; not positive is none to count on.
fn remaining(seconds: Option<f64>) -> Option<Amount> {
    seconds.filter(|seconds| *seconds > 0.0).and_then(Amount::new)
}

fn worker(info: WorkerInfo, streams: Option<&[Stream]>) -> Worker {
    let phases: HashMap<&str, (Phase, Option<Amount>)> = streams
        .unwrap_or_default()
        .iter()
        .filter_map(|stream| stream.status.as_ref())
        .flat_map(|status| {
            let reading = status.active_tasks.iter().map(|task| (task.id.as_str(), (Phase::Reading, remaining(task.remaining_seconds))));
            let publishing = status.publishing_tasks.iter().map(|task| (task.id.as_str(), (Phase::Publishing, None)));
            reading.chain(publishing)
        })
        .collect();
    let tasks = info
        .running_tasks
        .into_iter()
        .map(|id| {
            let seen = phases.get(id.as_str());
            let is_streaming = task_type(&id).is_some_and(|kind| STREAMING.contains(&kind));
            // a streaming task whose supervisor tells nothing may read or publish: its phase is unknown
            let phase = seen.map(|(phase, _)| *phase).or((!is_streaming).then_some(Phase::Running));
            RunningTask { task_type: task_type(&id).map(str::to_owned), phase, remaining_seconds: seen.and_then(|(_, left)| *left), id }
        })
        .collect();
    Worker {
        ordinal: None,
        capacity: info.worker.capacity,
        used: info.curr_capacity_used,
        // a disabled worker announces an empty version
        enabled: !info.worker.version.is_empty(),
        version: Some(info.worker.version),
        category: info.worker.category,
        blacklisted_until: info.blacklisted_until,
        availability_groups: info.availability_groups,
        parallel_index_used: info.curr_parallel_index_capacity_used,
        tasks: Some(tasks),
        host: info.worker.host,
    }
}

const STREAMING: [&str; 4] = ["index_kafka", "index_kinesis", "index_rabbit", "index_pubsub"];

/// The type at the beginning of a generated id: `index_kafka_orders_ab12_cd`.
fn task_type(id: &str) -> Option<&'static str> {
    const TYPES: [&str; 6] = ["index_kafka", "index_kinesis", "index_rabbit", "index_pubsub", "index_parallel", "compact"];
    TYPES.into_iter().find(|kind| id.strip_prefix(kind).is_some_and(|rest| rest.starts_with('_')))
}

fn pending_tasks(tasks: Vec<Task>, now: Timestamp) -> Pending {
    let oldest = tasks.iter().filter_map(|task| task.created_time).min();
    Pending {
        count: tasks.len() as Count,
        oldest_seconds: oldest.and_then(|at| Amount::new(seconds_between(at, now).max(0.0))),
        tasks: Some(
            tasks
                .into_iter()
                .map(|task| PendingTask {
                    id: task.id,
                    task_type: task.kind,
                    data_source: task.data_source,
                    category: None,
                    required_capacity: None,
                    availability_group: None,
                    placeable: None,
                    created_time: task.created_time,
                })
                .collect(),
        ),
    }
}

fn streaming(stream: &Stream) -> Option<Streaming> {
    let io = stream.supervisor.io_config()?;
    let left = stream.status.as_ref().and_then(|status| {
        // one task that does not say leaves the hand-over unknown
        status.active_tasks.iter().map(|task| remaining(task.remaining_seconds)).reduce(|a, b| a.zip(b).map(|(a, b)| if a < b { a } else { b })).flatten()
    });
    Some(Streaming {
        supervisor: stream.supervisor.id.clone(),
        task_count: io.task_count,
        replicas: io.replicas,
        stop_task_count: io.stop_task_count,
        rollover_in_seconds: left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> WorkerInfo {
        serde_json::from_str(text).expect("a worker")
    }

    #[test]
    fn an_empty_version_is_a_disabled_worker() {
        let disabled =
            worker(info(r#"{"worker":{"host":"mm-0:8091","capacity":4,"version":""},"currCapacityUsed":1,"runningTasks":["index_kafka_orders_1"]}"#), None);
        assert!(!disabled.enabled);
        assert_eq!(disabled.tasks.as_ref().map(|tasks| (tasks[0].task_type.clone(), tasks[0].phase)), Some((Some("index_kafka".to_owned()), None)));
        assert!(worker(info(r#"{"worker":{"host":"mm-0:8091","capacity":4,"version":"0"},"currCapacityUsed":0}"#), None).enabled);
    }

    #[test]
    fn tasks_of_supervisors_tell_their_phase_and_what_is_left() {
        let status: Status = serde_json::from_str(r#"{"payload":{"activeTasks":[{"id":"index_kafka_a_1","remainingSeconds":1200}],"publishingTasks":[{"id":"index_kafka_a_0","remainingSeconds":-3}]}}"#).expect("a status");
        let supervisor: Supervisor = serde_json::from_str(r#"{"id":"a","spec":{"ioConfig":{"taskCount":2,"replicas":1}}}"#).expect("a supervisor");
        let streams = [Stream { supervisor, status: status.payload }];
        let worker = worker(
            info(
                r#"{"worker":{"host":"mm-0:8091","capacity":4,"version":"0"},"currCapacityUsed":3,"runningTasks":["index_kafka_a_1","index_kafka_a_0","noop_1"]}"#,
            ),
            Some(&streams),
        );
        let tasks: Vec<_> = worker.tasks.iter().flatten().map(|task| (task.phase, task.remaining_seconds.map(Amount::get))).collect();
        assert_eq!(tasks, [(Some(Phase::Reading), Some(1200.0)), (Some(Phase::Publishing), None), (Some(Phase::Running), None)]);
        assert_eq!(streaming(&streams[0]).and_then(|stream| stream.rollover_in_seconds).map(Amount::get), Some(1200.0));
    }

    #[test]
    fn the_age_of_the_oldest_pending_task_comes_from_its_creation() {
        let tasks: Vec<Task> = serde_json::from_str(
            r#"[{"id":"a","type":"index_parallel","createdTime":"2026-11-30T10:00:00.120Z","queueInsertionTime":"1970-01-01T00:00:00.000Z","dataSource":"d"}]"#,
        )
        .expect("tasks");
        let pending = pending_tasks(tasks, "2026-11-30T10:00:40.120Z".parse().expect("a time"));
        assert_eq!((pending.count, pending.oldest_seconds.map(Amount::get)), (1, Some(40.0)));
    }
}
