//! Readings of Overlords: fakes in the documented shapes, and the demonstration, which speaks the same wire.
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use loadline::core::kinds::DruidWorkersSnapshot;
use loadline::core::kinds::druid::Phase;
use loadline::core::units::Amount;
use loadline::engine::source::{FailureKind, Reading, Snapshot, Source, SourceError};
use loadline::sources::druid::DruidSource;
use loadline::sources::http::{Client, ClientOptions};
use serde_json::Value;
use tokio::net::TcpListener;
use url::Url;

type Answers = BTreeMap<String, (StatusCode, String)>;

/// An Overlord that answers from tests/fixtures/druid, which were written after Druid's documentation.
fn overlord() -> Answers {
    let file = |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/druid").join(name)).expect(name);
    [
        ("pendingTasks", "pendingTasks.json"),
        ("waitingTasks", "waitingTasks.json"),
        ("workers", "workers.json"),
        ("worker", "worker.json"),
        ("supervisor", "supervisor.json"),
        ("supervisor/orders/status", "status.json"),
    ]
    .into_iter()
    .map(|(path, name)| (path.to_owned(), (StatusCode::OK, file(name))))
    .chain([("runningTasks".to_owned(), (StatusCode::OK, rows(&RUNNING)))])
    .collect()
}

/// What runs on the workers of `workers.json`.
const RUNNING: [&str; 3] = ["index_kafka_orders_ab12_cd", "index_parallel_clicks_1", "index_kafka_orders_ef34_gh"];

fn rows(ids: &[&str]) -> String {
    let rows: Vec<Value> = ids.iter().map(|id| serde_json::json!({ "id": id, "type": null, "statusCode": "RUNNING" })).collect();
    serde_json::to_string(&rows).expect("JSON")
}

/// What a real Overlord answered at a moment, to the user whose answers are named so.
fn recorded(moment: &str, who: &str) -> Answers {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/druid").join(moment);
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{moment}/{name}: {error}"));
    let index: Value = serde_json::from_str(&text("_index.json")).expect("an index");
    let mut answers = Answers::new();
    for answer in index["answers"].as_array().expect("answers") {
        let (file, path) = (answer["file"].as_str().unwrap_or_default(), answer["path"].as_str().expect("a path"));
        let (path, query) = path.split_once('?').unwrap_or((path, "full"));
        let Some(path) = path.strip_prefix("/druid/indexer/v1/") else { continue };
        if answer["method"] == "GET" && file.starts_with(who) && query == "full" {
            let status = u16::try_from(answer["status"].as_u64().expect("a status")).expect("a status");
            answers.insert(path.to_owned(), (StatusCode::from_u16(status).expect("a status"), text(file)));
        }
    }
    answers
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn answering(answers: Answers) -> String {
    async fn answer(State(answers): State<Answers>, uri: Uri) -> Response {
        let path = uri.path().strip_prefix("/druid/indexer/v1/").expect("the Overlord's API");
        let (status, body) = answers.get(path).cloned().unwrap_or((StatusCode::NOT_FOUND, String::new()));
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
    serve(Router::new().fallback(answer).with_state(answers)).await
}

async fn read_at(address: &str, options: ClientOptions) -> Result<Reading, SourceError> {
    DruidSource::new(Client::new(Url::parse(&format!("http://{address}")).expect("URL"), options).expect("client")).read().await
}

async fn read(answers: Answers) -> Result<DruidWorkersSnapshot, SourceError> {
    read_at(&answering(answers).await, ClientOptions::default()).await.map(snapshot)
}

fn snapshot(reading: Reading) -> DruidWorkersSnapshot {
    match reading.snapshot {
        Snapshot::DruidWorkers(snapshot) => snapshot,
        other => panic!("a reading of {:?}", other.kind()),
    }
}

fn with(path: &str, status: u16, body: &str) -> Answers {
    let mut answers = overlord();
    answers.insert(path.to_owned(), (StatusCode::from_u16(status).expect("a status"), body.to_owned()));
    answers
}

#[tokio::test]
async fn a_reading_puts_all_answers_together() {
    let reading = read_at(&answering(overlord()).await, ClientOptions::default()).await.expect("a reading");
    assert_eq!(reading.calls, 7, "the suspended supervisor is not asked for its tasks");
    let snapshot = snapshot(reading);
    assert!(snapshot.observed_at.expect("set") <= snapshot.received_at.expect("set"));
    let workers = snapshot.workers.expect("workers");
    assert_eq!(workers.iter().map(|worker| (worker.ordinal(), worker.used, worker.enabled)).collect::<Vec<_>>(), [(Some(0), 2, true), (Some(1), 1, false)]);
    let tasks: Vec<_> =
        workers.iter().flat_map(|worker| worker.tasks.iter().flatten()).map(|task| (task.phase, task.remaining_seconds.map(Amount::get))).collect();
    assert_eq!(tasks, [(Some(Phase::Reading), Some(2400.0)), (Some(Phase::Running), None), (Some(Phase::Publishing), None)]);
    let pending = snapshot.pending.expect("pending");
    assert_eq!(pending.count, 1);
    assert!(pending.oldest_seconds.expect("an age").get() > 0.0);
    assert_eq!((snapshot.waiting_count, snapshot.select_strategy.as_deref()), (Some(1), Some("fillCapacityWithCategorySpec")));
    assert_eq!(snapshot.streaming.len(), 1);
    let orders = &snapshot.streaming[0];
    assert_eq!((orders.supervisor.as_str(), orders.task_count, orders.replicas, orders.rollover_in_seconds.map(Amount::get)), ("orders", 2, 1, Some(2400.0)));
}

#[tokio::test]
async fn a_runner_without_workers_is_unsupported_and_not_an_empty_cluster() {
    let error = read(with("workers", 500, r#"{"error":"Task Runner does not support worker listing"}"#)).await.expect_err("no workers");
    assert_eq!(error.kind, FailureKind::Unsupported);
}

#[tokio::test]
async fn a_leader_that_is_not_ready_gives_no_reading() {
    for path in ["pendingTasks", "workers"] {
        let error = read(with(path, 503, "")).await.expect_err(path);
        assert_eq!((error.kind, error.message.as_str()), (FailureKind::Status, format!("HTTP 503 (/druid/indexer/v1/{path})").as_str()), "{path}");
    }
}

#[tokio::test]
async fn needed_answers_of_another_shape_give_no_reading() {
    for (path, body, kind) in [
        ("pendingTasks", "{}", FailureKind::Unexpected),
        ("workers", "{}", FailureKind::Unexpected),
        ("workers", "", FailureKind::NotJson),
        ("pendingTasks", "<html>sign in</html>", FailureKind::NotJson),
    ] {
        assert_eq!(read(with(path, 200, body)).await.expect_err(path).kind, kind, "{path}: {body}");
    }
}

#[tokio::test]
async fn what_only_adds_to_a_reading_stays_unknown_where_it_fails() {
    for (status, body) in [(500, ""), (403, ""), (200, "<html>"), (200, r#"{"a":1}"#)] {
        assert_eq!(read(with("waitingTasks", status, body)).await.expect("a reading").waiting_count, None);
        let strategy = read(with("worker", status, body)).await.expect("a reading").select_strategy;
        // `{"a":1}` is a configuration without a strategy, which is the default
        assert_eq!(strategy.as_deref(), (body == r#"{"a":1}"#).then_some("equalDistribution"), "{status} {body}");
        let snapshot = read(with("supervisor", status, body)).await.expect("a reading");
        assert!(snapshot.streaming.is_empty());
        let phases: Vec<_> = snapshot.workers.expect("workers").into_iter().flat_map(|worker| worker.tasks.expect("tasks")).map(|task| task.phase).collect();
        assert_eq!(phases, [None, Some(Phase::Running), None], "a streaming task is not said to read");
        let snapshot = read(with("supervisor/orders/status", status, body)).await.expect("a reading");
        assert_eq!((snapshot.streaming[0].task_count, snapshot.streaming[0].rollover_in_seconds), (2, None));
    }
}

#[tokio::test]
async fn an_overlord_that_does_not_lead_is_followed_to_a_leader_that_is_allowed() {
    let leader = answering(overlord()).await.replace("127.0.0.1", "localhost");
    let to = leader.clone();
    let follower = serve(Router::new().fallback(move |uri: Uri| {
        let location = format!("http://{to}{uri}");
        async move { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]) }
    }))
    .await;
    let reading = read_at(&follower, ClientOptions { allowed_hosts: vec![leader], ..ClientOptions::default() }).await.expect("a reading");
    assert_eq!(reading.calls, 14, "each question was asked twice");
    let error = read_at(&follower, ClientOptions::default()).await.expect_err("not allowed");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Redirect, "redirect to another host: localhost (/druid/indexer/v1/pendingTasks)"));
}

#[tokio::test]
async fn who_may_not_read_the_configuration_still_reads_the_workers() {
    let snapshot = read(recorded("37.0.0/security", "viewer.")).await.expect("a reading");
    assert_eq!(snapshot.workers.expect("workers").iter().map(|worker| worker.used).collect::<Vec<_>>(), [2]);
    assert_eq!(snapshot.select_strategy, None, "not the default: it is not known");
    let error = read(recorded("37.0.0/security", "nobody.")).await.expect_err("no credentials");
    assert_eq!(error.kind, FailureKind::Unauthorized);
}

#[tokio::test]
async fn an_account_that_is_shown_no_tasks_is_not_told_of_an_empty_queue() {
    // recorded: three tasks, two of them on the worker; this account may read another data source only
    let snapshot = read(recorded("37.0.0/security", "viewer.")).await.expect("a reading");
    assert_eq!(snapshot.pending.map(|pending| pending.count), Some(0), "which is what Druid says");
    assert!(snapshot.missing.iter().any(|what| what.starts_with("pending tasks of data sources")), "{:?}", snapshot.missing);
    let snapshot = read(recorded("37.0.0/security", "admin.")).await.expect("a reading");
    assert_eq!((snapshot.pending.map(|pending| pending.count), snapshot.missing), (Some(1), Vec::new()));
}

#[tokio::test]
async fn one_task_that_is_not_listed_may_just_have_ended_and_twice_is_hidden() {
    let address = answering(with("runningTasks", 200, &rows(&RUNNING[..2]))).await;
    let source = DruidSource::new(Client::new(Url::parse(&format!("http://{address}")).expect("URL"), ClientOptions::default()).expect("client"));
    let missing = async || snapshot(source.read().await.expect("a reading")).missing.len();
    assert_eq!((missing().await, missing().await), (0, 1));
}

#[tokio::test]
async fn the_last_task_that_ended_while_it_was_looked_for_hides_nothing_for_ever() {
    let answers = std::sync::Arc::new(std::sync::Mutex::new(with("runningTasks", 200, "[]")));
    let shared = std::sync::Arc::clone(&answers);
    let address = serve(Router::new().fallback(move |uri: Uri| {
        let path = uri.path().strip_prefix("/druid/indexer/v1/").expect("the Overlord's API").to_owned();
        let answer = shared.lock().expect("no panic").get(&path).cloned().unwrap_or((StatusCode::NOT_FOUND, String::new()));
        async move { answer }
    }))
    .await;
    let source = DruidSource::new(Client::new(Url::parse(&format!("http://{address}")).expect("URL"), ClientOptions::default()).expect("client"));
    let missing = async || snapshot(source.read().await.expect("a reading")).missing.len();
    assert_eq!(missing().await, 1, "all that runs is not listed");
    let mut idle: Value = serde_json::from_str(&overlord()["workers"].1).expect("workers");
    for worker in idle.as_array_mut().expect("workers") {
        worker["runningTasks"] = serde_json::json!([]);
    }
    answers.lock().expect("no panic").insert("workers".to_owned(), (StatusCode::OK, idle.to_string()));
    assert_eq!(missing().await, 0, "and nothing runs any more");
}

#[tokio::test]
async fn what_runs_is_compared_once_in_a_while_and_not_each_time() {
    let address = answering(overlord()).await;
    let source = DruidSource::new(Client::new(Url::parse(&format!("http://{address}")).expect("URL"), ClientOptions::default()).expect("client"));
    let calls = async || source.read().await.expect("a reading").calls;
    assert_eq!((calls().await, calls().await), (7, 6));
}

#[tokio::test]
async fn a_list_of_supervisors_that_fails_is_missing_and_one_that_is_forbidden_is_not_there() {
    for (status, missing) in [(500, 1), (503, 1), (403, 0), (200, 0)] {
        let body = if status == 200 { "[]" } else { "" };
        let snapshot = read(with("supervisor", status, body)).await.expect("a reading");
        assert_eq!(snapshot.missing.len(), missing, "{status}: {:?}", snapshot.missing);
    }
}

#[tokio::test]
async fn pending_tasks_are_of_the_category_whose_workers_alone_may_take_them() {
    // recorded: noop tasks may run on workers of the category stream only; slots of the other category are free
    let snapshot = read(recorded("33.0.0/categories", "indexer.")).await.expect("a reading");
    let tasks = snapshot.pending.expect("pending").tasks.expect("tasks");
    assert_eq!(tasks.iter().map(|task| task.category.as_deref()).collect::<Vec<_>>(), [Some("stream"), Some("stream")]);
}

#[tokio::test]
async fn an_idle_supervisor_keeps_no_slots_and_taskcount_is_no_more_than_its_partitions() {
    let list =
        |state: &str, count: u64| format!(r#"[{{"id":"orders","state":"{state}","spec":{{"type":"kafka","spec":{{"ioConfig":{{"taskCount":{count}}}}}}}}}]"#);
    assert!(read(with("supervisor", 200, &list("IDLE", 2))).await.expect("a reading").streaming.is_empty());
    let many = read(with("supervisor", 200, &list("RUNNING", 40))).await.expect("a reading");
    assert_eq!(many.streaming[0].task_count, 12, "it reads twelve partitions");
}

#[tokio::test]
async fn a_task_that_publishes_says_nothing_of_how_long_it_still_takes() {
    // Druid counts down half an hour for it, of which it needs seconds
    let snapshot = read(recorded("33.0.0/supervisor-publishing", "indexer.")).await.expect("a reading");
    let workers = snapshot.workers.expect("workers");
    let publishing: Vec<_> = workers.iter().filter(|worker| worker.publishing() > 0).map(|worker| (worker.ordinal(), worker.drain_seconds())).collect();
    assert_eq!(publishing, [(Some(0), None)]);
}

#[tokio::test]
async fn a_supervisor_with_an_odd_name_is_asked_for_by_its_whole_name() {
    let list = r#"[{"id":"a/b?c","state":"RUNNING","spec":{"type":"kafka","spec":{"ioConfig":{"taskCount":1}}}}]"#;
    let mut answers = with("supervisor", 200, list);
    let status = answers.remove("supervisor/orders/status").expect("a status");
    answers.insert("supervisor/a%2Fb%3Fc/status".to_owned(), status);
    assert_eq!(read(answers).await.expect("a reading").streaming[0].rollover_in_seconds.map(Amount::get), Some(2400.0));
}

#[tokio::test]
async fn the_demonstration_is_read_like_a_real_overlord() {
    let demo = loadline::demo::start(loadline::demo::Pace { day: std::time::Duration::from_secs(120) }, |_| None).await.expect("a demonstration");
    let snapshot = read_at(&demo.druid.to_string(), ClientOptions::default()).await.map(snapshot).expect("a reading");
    assert!(!snapshot.workers.expect("workers").is_empty());
    assert_eq!(snapshot.select_strategy.as_deref(), Some("fillCapacity"));
    assert_eq!(snapshot.streaming.iter().map(|row| row.supervisor.as_str()).collect::<Vec<_>>(), ["orders"]);
}
