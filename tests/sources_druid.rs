//! The Druid source against a server that speaks the documented shapes of the Overlord's API (they are written from the
//! documentation, not recorded), and against the demonstration's Druid.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use loadline::core::kinds::druid::{DruidWorkersSnapshot, Phase};
use loadline::core::units::Amount;
use loadline::demo::{self, Pace};
use loadline::engine::source::{FailureKind, Snapshot, Source, SourceError};
use loadline::sources::druid::DruidSource;
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn start(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn read(address: SocketAddr, options: ClientOptions) -> Result<(DruidWorkersSnapshot, u32), SourceError> {
    let client = Client::new(format!("http://{address}").parse().expect("an address"), options).expect("a client");
    let reading = DruidSource::new(client).read().await?;
    match reading.snapshot {
        Snapshot::DruidWorkers(snapshot) => Ok((snapshot, reading.calls)),
        other => panic!("{other:?}"),
    }
}

fn answers(value: Value) -> axum::routing::MethodRouter {
    get(move || async move { axum::Json(value) })
}

fn workers() -> Value {
    json!([
        { "worker": { "scheme": "http", "host": "druid-mm-0.druid-mm.druid.svc:8091", "ip": "10.1.4.7", "capacity": 15, "version": "0", "category": "_default_worker_category" },
          "currCapacityUsed": 2, "currParallelIndexCapacityUsed": 1, "availabilityGroups": ["index_kafka_orders_ab12"],
          "runningTasks": ["index_kafka_orders_ab12_cd", "index_kafka_orders_ab12_pub"], "lastCompletedTaskTime": "2026-03-02T09:58:11.001Z", "blacklistedUntil": null },
        { "worker": { "host": "druid-mm-1.druid-mm.druid.svc:8091", "capacity": 15, "version": "" }, "currCapacityUsed": 0, "runningTasks": [] }
    ])
}

fn overlord() -> Router {
    let task = json!({ "id": "t1", "groupId": "t1", "type": "index_parallel", "createdTime": "2026-03-02T10:00:04.120Z", "queueInsertionTime": "1970-01-01T00:00:00.000Z",
        "statusCode": "RUNNING", "status": "RUNNING", "runnerStatusCode": "PENDING", "duration": -1, "location": { "host": null, "port": -1, "tlsPort": -1 }, "dataSource": "a", "errorMsg": null });
    let supervisors = json!([
        { "id": "orders", "state": "RUNNING", "healthy": true, "suspended": false, "spec": { "type": "kafka", "spec": { "ioConfig": { "taskCount": 4, "replicas": 1, "stopTaskCount": null } } } },
        { "id": "sleeping", "suspended": true, "spec": { "ioConfig": { "taskCount": 9 } } },
        { "id": "compaction", "suspended": false, "spec": { "type": "autocompact" } }
    ]);
    let status = json!({ "id": "orders", "payload": { "activeTasks": [{ "id": "index_kafka_orders_ab12_cd", "remainingSeconds": 600, "type": "ACTIVE" }], "publishingTasks": [{ "id": "index_kafka_orders_ab12_pub", "remainingSeconds": null }] } });
    Router::new()
        .route("/druid/indexer/v1/workers", answers(workers()))
        .route("/druid/indexer/v1/pendingTasks", answers(json!([task])))
        .route("/druid/indexer/v1/waitingTasks", answers(json!([])))
        .route("/druid/indexer/v1/worker", answers(json!({ "type": "default", "selectStrategy": { "type": "fillCapacity" }, "autoScaler": null })))
        .route("/druid/indexer/v1/supervisor", answers(supervisors))
        .route("/druid/indexer/v1/supervisor/orders/status", answers(status))
}

#[tokio::test]
async fn one_reading_tells_workers_tasks_and_hand_overs() {
    let (snapshot, calls) = read(start(overlord()).await, ClientOptions::default()).await.expect("a reading");
    let workers = snapshot.workers.as_ref().expect("a list");
    assert_eq!(calls, 6);
    assert_eq!((workers[0].ordinal(), workers[0].capacity, workers[0].used, workers[0].enabled), (Some(0), 15, 2, true));
    let phases: Vec<_> = workers[0].tasks.iter().flatten().map(|task| task.phase).collect();
    assert_eq!(phases, [Some(Phase::Reading), Some(Phase::Publishing)]);
    assert!(!workers[1].enabled, "an empty version is a disabled worker");
    let pending = snapshot.pending.as_ref().expect("pending tasks");
    assert_eq!((pending.count, snapshot.waiting_count, snapshot.select_strategy.as_deref()), (1, Some(0), Some("fillCapacity")));
    assert!(pending.oldest_seconds.is_some_and(|age| age.get() > 1000.0), "from createdTime, not from the epoch");
    assert_eq!(snapshot.streaming.len(), 1, "suspended ones and other kinds are none");
    assert_eq!((snapshot.streaming[0].task_count, snapshot.streaming[0].rollover_in_seconds.map(Amount::get)), (4, Some(600.0)));
}

#[tokio::test]
async fn a_runner_without_workers_is_not_an_empty_cluster() {
    let router = overlord_without_workers(|| async {
        (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(json!({ "error": "Task Runner does not support worker listing" }))).into_response()
    });
    assert_eq!(read(start(router).await, ClientOptions::default()).await.expect_err("no workers").kind, FailureKind::Unsupported);
}

fn overlord_without_workers<F, R>(workers: F) -> Router
where
    F: Fn() -> R + Clone + Send + Sync + 'static,
    R: Future<Output = axum::response::Response> + Send + 'static,
{
    Router::new()
        .route("/druid/indexer/v1/workers", get(workers))
        .route("/druid/indexer/v1/pendingTasks", answers(json!([])))
        .route("/druid/indexer/v1/worker", answers(Value::Null))
}

#[tokio::test]
async fn a_leader_that_is_not_ready_gives_no_reading() {
    let router = overlord_without_workers(|| async { StatusCode::SERVICE_UNAVAILABLE.into_response() });
    let error = read(start(router).await, ClientOptions::default()).await.expect_err("no reading");
    assert_eq!(error.kind, FailureKind::Status);
    assert!(error.message.contains("HTTP 503"), "{error}");
}

#[tokio::test]
async fn a_part_that_fails_fails_the_whole_reading() {
    let router = Router::new().route("/druid/indexer/v1/workers", answers(workers())).route("/druid/indexer/v1/worker", answers(Value::Null));
    assert_eq!(read(start(router).await, ClientOptions::default()).await.expect_err("no pending tasks").kind, FailureKind::Status);
}

#[tokio::test]
async fn what_is_beside_the_point_stays_unknown_when_it_fails() {
    let router = overlord_without_workers(|| async { axum::Json(workers()).into_response() });
    let (snapshot, _) = read(start(router).await, ClientOptions::default()).await.expect("a reading");
    assert_eq!((snapshot.waiting_count, snapshot.streaming.len()), (None, 0));
    assert_eq!(snapshot.select_strategy.as_deref(), Some("equalDistribution"), "what holds when none was ever set");
    let tasks = snapshot.workers.as_ref().and_then(|workers| workers[0].tasks.as_ref()).expect("tasks");
    assert!(tasks.iter().all(|task| task.phase.is_none()), "whether they read or publish is not known");
}

#[tokio::test]
async fn the_redirect_of_a_follower_leads_to_an_allowed_leader() {
    let leader = start(overlord()).await;
    let follower = start(Router::new().fallback(move |request: axum::extract::Request| async move {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Redirect::temporary(&format!("http://{leader}{path}"))
    }))
    .await;
    let refused = read(follower, ClientOptions::default()).await.expect_err("another host");
    assert_eq!(refused.kind, FailureKind::Redirect);
    let options = ClientOptions { allowed_hosts: vec![leader.to_string()], ..ClientOptions::default() };
    assert!(read(follower, options).await.is_ok());
}

#[tokio::test]
async fn the_druid_of_the_demonstration_speaks_the_same_wire() {
    let demo = demo::start(Pace { day: Duration::from_secs(120) }, |_| None).await.expect("the demonstration");
    let (snapshot, calls) = read(demo.druid, ClientOptions::default()).await.expect("a reading");
    assert!(!snapshot.workers.expect("a list").is_empty());
    assert_eq!((snapshot.streaming.len(), calls), (1, 6));
}
