//! The Overlord's answers: the paths that a Druid source asks, in Druid's own shapes.
//!
//! A disabled worker announces the version `""`, and a pending task has the status `RUNNING` (only `runnerStatusCode`
//! tells them apart): both as Druid does.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::stream::{GROUPS, PARTITIONS};
use super::{CAPACITY, Cluster, HOUR, Task, Work, host_of};
use crate::demo::{Shared, whole};

type Overlord = State<Shared<Cluster>>;

/// The supervisor's id, which is its data source's name too.
const SUPERVISOR: &str = "orders";

/// The paths under `/druid/indexer/v1`.
pub(in crate::demo) fn router(cluster: Shared<Cluster>) -> Router {
    let api = Router::new()
        .route("/workers", get(workers))
        .route("/worker", get(worker_config))
        .route("/worker/{host}/disable", post(|overlord: Overlord, host: Path<String>| async move { set_enabled(&overlord, &host, false) }))
        .route("/worker/{host}/enable", post(|overlord: Overlord, host: Path<String>| async move { set_enabled(&overlord, &host, true) }))
        .route("/pendingTasks", get(pending_tasks))
        .route("/runningTasks", get(running_tasks))
        .route("/waitingTasks", get(|| async { Json(json!([])) }))
        .route("/supervisor", get(supervisors))
        .route("/supervisor/{id}/status", get(supervisor_status));
    Router::new().nest("/druid/indexer/v1", api).with_state(cluster)
}

async fn workers(State(shared): Overlord) -> Json<Value> {
    let cluster = shared.now();
    let registered = cluster.pods.iter().enumerate().filter(|(_, pod)| pod.is_registered(cluster.time));
    let rows = registered.map(|(ordinal, pod)| {
        let parallel = pod.tasks.iter().filter(|task| task.work == Work::Batch).count();
        // no task here has replicas or sub tasks: each is a group of its own
        let ids: Vec<&str> = pod.tasks.iter().map(|task| task.id.as_str()).collect();
        json!({
            "worker": {
                "scheme": "http", "host": host_of(ordinal), "ip": format!("10.1.4.{}", ordinal + 10), "capacity": CAPACITY,
                "version": if pod.enabled { "0" } else { "" }, "category": "_default_worker_category",
            },
            "currCapacityUsed": pod.tasks.len(),
            "currParallelIndexCapacityUsed": parallel,
            "availabilityGroups": ids,
            "runningTasks": ids,
            "lastCompletedTaskTime": stamp(&shared, pod.last_completed.unwrap_or(0.0)),
            "blacklistedUntil": null,
        })
    });
    Json(rows.collect())
}

async fn worker_config() -> Json<Value> {
    Json(json!({ "type": "default", "selectStrategy": { "type": "fillCapacity", "affinityConfig": null }, "autoScaler": null }))
}

fn set_enabled(shared: &Shared<Cluster>, host: &str, enabled: bool) -> Response {
    if shared.now().enable(host, enabled) {
        let mut answer = Map::new();
        answer.insert(host.to_owned(), Value::from(if enabled { "enabled" } else { "disabled" }));
        return Json(Value::Object(answer)).into_response();
    }
    (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": format!("no worker {host}") }))).into_response()
}

/// `?type=` of a task list.
#[derive(Deserialize)]
struct TaskFilter {
    #[serde(rename = "type")]
    task_type: Option<String>,
}

impl TaskFilter {
    fn takes(&self, task: &Task) -> bool {
        self.task_type.as_ref().is_none_or(|wanted| wanted == task.type_name())
    }
}

async fn pending_tasks(State(shared): Overlord, Query(filter): Query<TaskFilter>) -> Json<Value> {
    let cluster = shared.now();
    Json(cluster.pending.iter().filter(|task| filter.takes(task)).map(|task| task_status(&shared, task, None)).collect())
}

async fn running_tasks(State(shared): Overlord, Query(filter): Query<TaskFilter>) -> Json<Value> {
    let cluster = shared.now();
    let running = cluster.pods.iter().enumerate().flat_map(|(ordinal, pod)| pod.tasks.iter().map(move |task| (ordinal, task)));
    Json(running.filter(|(_, task)| filter.takes(task)).map(|(ordinal, task)| task_status(&shared, task, Some(ordinal))).collect())
}

fn task_status(shared: &Shared<Cluster>, task: &Task, ordinal: Option<usize>) -> Value {
    let host = ordinal.map(|ordinal| host_of(ordinal).replace(":8091", ""));
    let port = if ordinal.is_some() { 8100 } else { -1 };
    json!({
        "id": task.id, "groupId": task.id, "type": task.type_name(),
        "createdTime": stamp(shared, task.created), "queueInsertionTime": "1970-01-01T00:00:00.000Z",
        "statusCode": "RUNNING", "status": "RUNNING", "runnerStatusCode": if ordinal.is_some() { "RUNNING" } else { "PENDING" },
        "duration": -1, "location": { "host": host, "port": port, "tlsPort": -1 },
        "dataSource": task.data_source(), "errorMsg": null,
    })
}

/// `?full` of the supervisor list: given without a value.
#[derive(Deserialize)]
struct Detail {
    full: Option<String>,
}

async fn supervisors(State(shared): Overlord, Query(detail): Query<Detail>) -> Json<Value> {
    if detail.full.is_none() {
        return Json(json!([SUPERVISOR]));
    }
    let hour = whole(shared.now().pace.real(HOUR));
    let io_config = json!({
        "type": "kafka", "topic": SUPERVISOR, "taskCount": GROUPS, "replicas": 1, "taskDuration": format!("PT{hour}S"),
        "stopTaskCount": null, "autoScalerConfig": null,
    });
    let data_schema = json!({ "dataSource": SUPERVISOR });
    // Druid repeats the members of `spec` beside it, for old clients
    let spec = json!({
        "type": "kafka", "suspended": false, "dataSchema": data_schema, "ioConfig": io_config, "tuningConfig": { "type": "kafka" },
        "spec": { "dataSchema": data_schema, "ioConfig": io_config, "tuningConfig": { "type": "kafka" } },
    });
    Json(json!([{ "id": SUPERVISOR, "state": "RUNNING", "detailedState": "RUNNING", "healthy": true, "suspended": false, "spec": spec }]))
}

async fn supervisor_status(State(shared): Overlord, Path(id): Path<String>) -> Response {
    if id != SUPERVISOR {
        return (StatusCode::NOT_FOUND, Json(json!({ "error": format!("[{id}] does not exist") }))).into_response();
    }
    let cluster = shared.now();
    let hour = cluster.pace.real(HOUR);
    let (mut active, mut publishing) = (Vec::new(), Vec::new());
    for task in cluster.pods.iter().flat_map(|pod| &pod.tasks) {
        let Work::Stream { group } = task.work else { continue };
        let done = task.is_publishing(cluster.time, hour);
        let left = whole((task.started + hour - cluster.time).max(0.0));
        let partitions = |value: fn(u64, u64) -> u64| -> Map<String, Value> {
            cluster.stream.partitions(group).map(|(partition, latest, current)| (partition.to_string(), Value::from(value(latest, current)))).collect()
        };
        let row = json!({
            "id": task.id, "startTime": stamp(&shared, task.started), "remainingSeconds": if done { Value::Null } else { Value::from(left) },
            "type": if done { "PUBLISHING" } else { "ACTIVE" },
            "currentOffsets": partitions(|_, current| current),
            "lag": if done { Value::Null } else { Value::Object(partitions(u64::saturating_sub)) },
        });
        if done { publishing.push(row) } else { active.push(row) }
    }
    let all: Vec<(usize, u64, u64)> = (0..GROUPS).flat_map(|group| cluster.stream.partitions(group)).collect();
    let by_partition = |value: fn(u64, u64) -> u64| -> Map<String, Value> {
        all.iter().map(|(partition, latest, current)| (partition.to_string(), Value::from(value(*latest, *current)))).collect()
    };
    let lag: u64 = all.iter().map(|(_, latest, current)| latest.saturating_sub(*current)).sum();
    let now = stamp(&shared, cluster.time);
    Json(json!({
        "id": SUPERVISOR, "generationTime": now,
        "payload": {
            "dataSource": SUPERVISOR, "stream": SUPERVISOR, "partitions": PARTITIONS, "replicas": 1, "durationSeconds": whole(hour),
            "activeTasks": active, "publishingTasks": publishing,
            "latestOffsets": by_partition(|latest, _| latest), "minimumLag": by_partition(u64::saturating_sub),
            "aggregateLag": lag, "offsetsLastUpdated": now,
            "suspended": false, "healthy": true, "state": "RUNNING", "detailedState": "RUNNING", "recentErrors": [],
        },
    }))
    .into_response()
}

/// A time as Druid writes it: always three digits of a second.
fn stamp(shared: &Shared<Cluster>, seconds: f64) -> String {
    shared.at(seconds).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
