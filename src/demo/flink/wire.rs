//! The `JobManager`'s answers: the paths that a Flink source asks, in the shapes of Flink 2.3.
//!
//! Kept from the real one because a reader must cope with it: an aggregated metric query with one unknown or not numeric
//! name answers `[]` with status 200; so do the metrics of an unknown job or vertex; plain metrics are strings, aggregated
//! ones numbers; a fresh attempt has no metrics at all, and its totals carry `-complete: false`.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::metrics;
use super::{DEPLOY_SECONDS, JOB_NAME, Job, MAX_PARALLELISM, Phase, SLOTS, TASK_MANAGERS, Vertex};
use crate::demo::{Shared, whole};

type JobManager = State<Shared<Job>>;

/// The job's id.
const JOB_ID: &str = "16d9559c14643195b6df2168ca584687";
/// The states of a task, as Flink lists them.
const TASK_STATES: [&str; 10] = ["CANCELED", "SCHEDULED", "DEPLOYING", "RUNNING", "INITIALIZING", "CANCELING", "CREATED", "FAILED", "FINISHED", "RECONCILING"];

/// The paths of the REST API.
pub(in crate::demo) fn router(job: Shared<Job>) -> Router {
    Router::new()
        .route("/config", get(config))
        .route("/overview", get(overview))
        .route("/jobs/overview", get(jobs_overview))
        .route("/jobs/{job}", get(job_details))
        .route("/jobs/{job}/status", get(job_status))
        .route("/jobs/{job}/metrics", get(metrics::of_job))
        .route("/jobs/{job}/vertices/{vertex}/subtasks/metrics", get(metrics::of_subtasks))
        .route("/jobs/{job}/resource-requirements", get(requirements).put(set_requirements))
        .route("/taskmanagers", get(task_managers))
        .route("/taskmanagers/metrics", get(metrics::of_task_managers))
        .fallback(|uri: Uri| async move { failure(StatusCode::NOT_FOUND, &format!("Unable to load requested file {}.", uri.path())) })
        .with_state(job)
}

/// Flink's error body.
pub(super) fn failure(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "errors": [message] }))).into_response()
}

/// True for the one job there is.
pub(super) fn is_ours(job: &str) -> bool {
    job == JOB_ID
}

impl Job {
    fn state(&self) -> &'static str {
        match self.phase {
            Phase::Running | Phase::Rescaling { .. } => "RUNNING",
            // the first half of the downtime cancels the old tasks, the second waits for slots
            Phase::Restarting { until } if until - self.time > super::DOWNTIME_SECONDS / 2.0 => "RESTARTING",
            Phase::Restarting { .. } => "CREATED",
        }
    }

    fn task_state(&self) -> &'static str {
        match self.phase {
            Phase::Restarting { .. } => "CREATED",
            _ if self.time < self.deployed_at + DEPLOY_SECONDS => "INITIALIZING",
            _ => "RUNNING",
        }
    }
}

async fn config() -> Json<Value> {
    Json(json!({
        "refresh-interval": 3000, "timezone-name": "Coordinated Universal Time", "timezone-offset": 0,
        "flink-version": "2.3.0", "flink-revision": "simulated",
        "features": { "web-submit": false, "web-cancel": false, "web-rescale": true, "web-history": false },
    }))
}

async fn overview(State(shared): JobManager) -> Json<Value> {
    let total = TASK_MANAGERS * SLOTS;
    Json(json!({
        "taskmanagers": TASK_MANAGERS, "slots-total": total, "slots-available": total - shared.now().slots_used(),
        "jobs-running": 1, "jobs-finished": 0, "jobs-cancelled": 0, "jobs-failed": 0,
        "flink-version": "2.3.0", "flink-commit": "simulated",
    }))
}

async fn jobs_overview(State(shared): JobManager) -> Json<Value> {
    let job = shared.now();
    let total: u64 = job.vertices.iter().map(|vertex| vertex.parallelism).sum();
    let mut tasks = task_counts(job.task_state(), total, str::to_lowercase);
    tasks.insert("total".to_owned(), Value::from(total));
    Json(json!({ "jobs": [{
        "jid": JOB_ID, "name": JOB_NAME, "jobType": "STREAMING", "schedulerType": "Adaptive",
        "start-time": millis(&shared, 0.0), "end-time": -1, "duration": whole(job.time * 1000.0), "state": job.state(),
        "last-modification": millis(&shared, job.deployed_at), "tasks": tasks, "pending-operators": 0,
    }] }))
}

async fn job_status(State(shared): JobManager, Path(id): Path<String>) -> Response {
    if is_ours(&id) { Json(json!({ "status": shared.now().state() })).into_response() } else { not_found(&id) }
}

async fn job_details(State(shared): JobManager, Path(id): Path<String>) -> Response {
    if !is_ours(&id) {
        return not_found(&id);
    }
    let job = shared.now();
    let deployed = millis(&shared, job.deployed_at);
    let mut since = task_counts("", 0, str::to_owned);
    since.insert("INITIALIZING".to_owned(), Value::from(millis(&shared, 0.0)));
    since.insert("CREATED".to_owned(), Value::from(deployed));
    since.insert("RUNNING".to_owned(), if matches!(job.phase, Phase::Restarting { .. }) { Value::from(0) } else { Value::from(deployed) });
    let rows: Vec<Value> = job.vertices.iter().map(|vertex| vertex_row(&job, vertex, deployed)).collect();
    let count = u64::try_from(rows.len()).unwrap_or(0);
    Json(json!({
        "jid": JOB_ID, "name": JOB_NAME, "isStoppable": false, "state": job.state(), "job-type": "STREAMING", "schedulerType": "Adaptive",
        "start-time": millis(&shared, 0.0), "end-time": -1, "duration": whole(job.time * 1000.0), "maxParallelism": MAX_PARALLELISM,
        "now": millis(&shared, job.time), "timestamps": since, "vertices": rows,
        "status-counts": task_counts(job.task_state(), count, str::to_owned),
        "plan": { "jid": JOB_ID, "name": JOB_NAME, "type": "STREAMING", "nodes": plan(&job) }, "pending-operators": 0,
    }))
    .into_response()
}

fn vertex_row(job: &Job, vertex: &Vertex, deployed: u64) -> Value {
    let complete = job.is_processing();
    let totals = vertex.totals;
    json!({
        "id": vertex.kind.id, "slotSharingGroupId": "73148dafbcf7d3696cdb06cde5079eba", "name": vertex.kind.name,
        "maxParallelism": MAX_PARALLELISM, "parallelism": vertex.parallelism, "status": job.task_state(),
        "start-time": deployed, "end-time": -1, "duration": whole((job.time - job.deployed_at) * 1000.0),
        "tasks": task_counts(job.task_state(), vertex.parallelism, str::to_owned),
        "metrics": {
            "read-bytes": whole(totals.read * 21.0), "read-bytes-complete": complete,
            "write-bytes": whole(totals.written * 21.0), "write-bytes-complete": complete,
            "read-records": whole(totals.read), "read-records-complete": complete,
            "write-records": whole(totals.written), "write-records-complete": complete,
            "accumulated-backpressured-time": whole(totals.back_pressured), "accumulated-idle-time": whole(totals.idle),
            "accumulated-busy-time": totals.busy,
        },
    })
}

/// The nodes of the plan; each vertex reads the one before it.
fn plan(job: &Job) -> Vec<Value> {
    let mut before: Option<&str> = None;
    let node = |vertex: &Vertex| {
        let mut node = json!({
            "id": vertex.kind.id, "operator": "", "parallelism": vertex.parallelism, "operator_strategy": "",
            "description": format!("{}<br/>", vertex.kind.name), "optimizer_properties": {},
        });
        if let (Some(from), Some(node)) = (before, node.as_object_mut()) {
            let edge = json!([{ "id": from, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": vertex.kind.ship_strategy }]);
            node.insert("inputs".to_owned(), edge);
        }
        before = Some(vertex.kind.id);
        node
    };
    job.vertices.iter().map(node).collect()
}

async fn task_managers(State(shared): JobManager) -> Json<Value> {
    let job = shared.now();
    let (used, now) = (job.slots_used(), millis(&shared, job.time));
    let rows = (0..TASK_MANAGERS).map(|number| {
        let taken = used.saturating_sub(number * SLOTS).min(SLOTS);
        let resources = |slots: u64| {
            json!({
                "cpuCores": slots, "taskHeapMemory": 48 * slots, "taskOffHeapMemory": 0, "managedMemory": 16 * slots,
                "networkMemory": 16 * slots, "extendedResources": {},
            })
        };
        json!({
            "id": format!("tm-{}", number + 1), "path": "pekko.tcp://flink@127.0.0.1:6122/user/rpc/taskmanager_0", "dataPort": 6121, "jmxPort": -1,
            "timeSinceLastHeartbeat": now, "slotsNumber": SLOTS, "freeSlots": SLOTS - taken, "assignedTasks": taken,
            "totalResource": resources(SLOTS), "freeResource": resources(SLOTS - taken),
            "hardware": { "cpuCores": 4, "physicalMemory": 8_589_934_592_u64, "freeMemory": metrics::HEAP_MAX, "managedMemory": 67_108_864 },
            "memoryConfiguration": {
                "frameworkHeap": 134_217_728, "taskHeap": 201_326_592, "frameworkOffHeap": 134_217_728, "taskOffHeap": 0, "networkMemory": 67_108_864,
                "managedMemory": 67_108_864, "jvmMetaspace": 268_435_456, "jvmOverhead": 201_326_592, "totalFlinkMemory": 603_979_776,
                "totalProcessMemory": 1_073_741_824,
            },
        })
    });
    Json(json!({ "taskmanagers": rows.collect::<Vec<_>>() }))
}

/// The bounds of a vertex in `resource-requirements`.
#[derive(Deserialize)]
struct Requirement {
    parallelism: Range,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Range {
    lower_bound: u64,
    upper_bound: u64,
}

async fn requirements(State(shared): JobManager, Path(id): Path<String>) -> Response {
    if !is_ours(&id) {
        return failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("FlinkJobNotFoundException: Could not find Flink job ({id})"));
    }
    let bounds = |vertex: &Vertex| (vertex.kind.id.to_owned(), json!({ "parallelism": { "lowerBound": vertex.lower, "upperBound": vertex.upper } }));
    Json(Value::Object(shared.now().vertices.iter().map(bounds).collect())).into_response()
}

/// Accepts requirements, which is not yet carrying them out: all vertices must be named, with bounds that can be met.
async fn set_requirements(State(shared): JobManager, Path(id): Path<String>, body: axum::body::Bytes) -> Response {
    if !is_ours(&id) {
        return failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("FlinkJobNotFoundException: Could not find Flink job ({id})"));
    }
    let wanted: BTreeMap<String, Requirement> = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &format!("Request did not match expected format: {error}")),
    };
    let mut job = shared.now();
    if wanted.len() != job.vertices.len() || !job.vertices.iter().all(|vertex| wanted.contains_key(vertex.kind.id)) {
        return failure(StatusCode::BAD_REQUEST, "the request must name exactly the vertices of the job");
    }
    if let Some((vertex, _)) = wanted
        .iter()
        .find(|(_, Requirement { parallelism: range })| range.lower_bound == 0 || range.lower_bound > range.upper_bound || range.upper_bound > MAX_PARALLELISM)
    {
        return failure(StatusCode::BAD_REQUEST, &format!("bounds of job vertex [{vertex}] must be 1 to {MAX_PARALLELISM}, the lower one first"));
    }
    for vertex in &mut job.vertices {
        if let Some(Requirement { parallelism: range }) = wanted.get(vertex.kind.id) {
            (vertex.lower, vertex.upper) = (range.lower_bound, range.upper_bound);
        }
    }
    Json(json!({})).into_response()
}

/// Tasks by state, all of them in the one given.
fn task_counts(state: &str, count: u64, name: fn(&str) -> String) -> Map<String, Value> {
    TASK_STATES.iter().map(|each| (name(each), Value::from(if *each == state { count } else { 0 }))).collect()
}

fn not_found(id: &str) -> Response {
    if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return failure(StatusCode::NOT_FOUND, &format!("NotFoundException: Job {id} not found"));
    }
    failure(StatusCode::BAD_REQUEST, &format!("Bad request, could not parse parameters: Cannot resolve path parameter (jobid) from value \"{id}\"."))
}

/// A time as Flink writes it: milliseconds since 1970.
fn millis(shared: &Shared<Job>, seconds: f64) -> u64 {
    u64::try_from(shared.at(seconds).as_millisecond()).unwrap_or(0)
}
