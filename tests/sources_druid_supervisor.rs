//! Readings of a supervisor: what a real Druid answered at many moments, and what is decided on each of them alone.
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use loadline::core::advice::Advice;
use loadline::core::kinds::DruidSupervisorSnapshot;
use loadline::core::units::Amount;
use loadline::engine::source::{FailureKind, Reading, Snapshot, Source, SourceError};
use loadline::sources::druid::supervisor::{DruidSupervisorSource, is_supervisor_id};
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// Answers by path.
type Answers = BTreeMap<String, (StatusCode, String)>;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/druid")
}

/// What a real Overlord answered at a moment.
fn moment(folder: &Path) -> Answers {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{}/{name}: {error}", folder.display()));
    let index: Value = serde_json::from_str(&text("_index.json")).expect("an index");
    let mut answers = Answers::new();
    for answer in index["answers"].as_array().expect("answers") {
        let path = answer["path"].as_str().expect("a path").split('?').next().expect("a path").to_owned();
        // one that was given up says nothing in time
        let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(504);
        let status = StatusCode::from_u16(status).expect("a status");
        let with_query = answer["path"].as_str().is_some_and(|path| path.contains('?'));
        if answer["method"] == json!("GET") && !(with_query && answers.contains_key(&path)) {
            answers.insert(path, (status, answer["file"].as_str().map(text).unwrap_or_default()));
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
        let (status, body) = answers.get(uri.path()).cloned().unwrap_or((StatusCode::NOT_FOUND, String::new()));
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
    serve(Router::new().fallback(answer).with_state(answers)).await
}

async fn read_at(address: &str, id: &str, options: ClientOptions) -> Result<Reading, SourceError> {
    let client = Client::new(Url::parse(&format!("http://{address}")).expect("URL"), options).expect("client");
    DruidSupervisorSource::new(client, id.to_owned()).read().await
}

async fn read(answers: Answers) -> Result<DruidSupervisorSnapshot, SourceError> {
    let status = answers.keys().find_map(|path| path.strip_prefix("/druid/indexer/v1/supervisor/")?.strip_suffix("/status"));
    let id = status.unwrap_or("orders").to_owned();
    read_at(&answering(answers).await, &id, ClientOptions::default()).await.map(snapshot)
}

fn snapshot(reading: Reading) -> DruidSupervisorSnapshot {
    match reading.snapshot {
        Snapshot::DruidSupervisor(snapshot) => *snapshot,
        other => panic!("a reading of {:?}", other.kind()),
    }
}

/// What is decided on a reading, with earlier ones where there are any.
fn advise(snapshot: &DruidSupervisorSnapshot, history: &[DruidSupervisorSnapshot], policy: &Value) -> Advice {
    let body = json!({ "kind": "druidSupervisor", "now": snapshot.received_at, "snapshot": snapshot, "history": history, "policy": policy });
    let text = serde_json::to_vec(&body).expect("a body");
    let request = loadline::core::request::parse(&text, loadline::core::units::Timestamp::UNIX_EPOCH).unwrap_or_else(|error| panic!("{error:?}"));
    loadline::core::advise(&request)
}

fn moments() -> Vec<PathBuf> {
    let versions = std::fs::read_dir(fixtures()).expect("fixtures").map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let mut found: Vec<PathBuf> = versions
        .flat_map(|version| std::fs::read_dir(version).expect("moments"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("supervisor-")))
        .collect();
    found.sort();
    found
}

/// One moment: tasks of the spec, reading, publishing; the whole lag; the outcome, and the code that decided.
type Row = (&'static str, u64, u64, u64, Option<i64>, &'static str, &'static str);

const ROWS: [Row; 31] = [
    ("supervisor-after-rollover", 1, 1, 1, Some(63_905), "hold", "PublishingTasks"),
    ("supervisor-broker-lost", 6, 4, 0, Some(16_142), "hold", "TasksNotRunning"),
    ("supervisor-drained", 2, 2, 0, Some(0), "keep", "WithinTarget"),
    ("supervisor-just-started", 1, 1, 0, None, "hold", "IncompleteReading"),
    ("supervisor-just-submitted", 1, 0, 0, None, "hold", "NotRunning"),
    ("supervisor-lag-growing", 1, 1, 0, Some(34_195), "change", "BacklogCatchUp"),
    ("supervisor-no-broker", 1, 0, 0, None, "hold", "NotRunning"),
    ("supervisor-overlord-restarted", 2, 0, 0, None, "hold", "NotRunning"),
    ("supervisor-overlord-restarted-10s", 2, 2, 0, None, "hold", "IncompleteReading"),
    ("supervisor-overlord-restarted-40s", 2, 2, 0, Some(161), "keep", "WithinTarget"),
    ("supervisor-publishing", 1, 0, 1, Some(63_905), "hold", "PublishingTasks"),
    ("supervisor-rescaling", 2, 0, 2, None, "hold", "PublishingTasks"),
    ("supervisor-resumed", 2, 2, 0, Some(11), "hold", "CapacityUnknown"),
    ("supervisor-saturated", 1, 1, 0, Some(54_387), "change", "BacklogCatchUp"),
    ("supervisor-short-of-slots", 6, 4, 0, Some(8_885), "hold", "TasksNotRunning"),
    ("supervisor-short-of-slots-80s", 6, 4, 0, Some(20_449), "hold", "TasksNotRunning"),
    ("supervisor-suspended", 2, 0, 2, None, "hold", "Suspended"),
    ("supervisor-suspended-idle", 2, 0, 0, None, "hold", "Suspended"),
    ("supervisor-two-tasks", 2, 2, 2, Some(68_796), "hold", "PublishingTasks"),
    ("supervisor-autoscaler-after", 2, 2, 0, Some(15_215), "hold", "CapacityUnknown"),
    ("supervisor-autoscaler-scaled", 2, 0, 1, Some(14_827), "hold", "PublishingTasks"),
    ("supervisor-autoscaler-start", 1, 1, 0, Some(7_182), "hold", "CapacityUnknown"),
    ("supervisor-broker-lost-110s", 6, 4, 0, Some(16_142), "hold", "TasksNotRunning"),
    ("supervisor-hot-partition", 4, 4, 0, Some(19_869), "hold", "HotPartition"),
    ("supervisor-idle", 1, 2, 0, Some(0), "keep", "Idle"),
    ("supervisor-no-topic", 1, 0, 0, None, "hold", "NotRunning"),
    ("supervisor-no-topic-later", 1, 0, 0, None, "hold", "NotRunning"),
    ("supervisor-replicas", 1, 2, 0, Some(0), "hold", "DemandUnknown"),
    ("supervisor-steady", 3, 3, 0, Some(0), "hold", "DemandUnknown"),
    ("supervisor-worker-killed", 3, 2, 0, Some(1_019), "hold", "TasksNotRunning"),
    ("supervisor-worker-killed-52s", 3, 2, 0, Some(9_058), "hold", "TasksNotRunning"),
];

#[tokio::test]
async fn every_recorded_moment_is_read_and_none_alone_lowers_anything() {
    let found = moments();
    let mut checked = 0;
    for folder in &found {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let reading = read(moment(folder)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let advice = advise(&reading, &[], &json!({ "max": 12 }));
        assert!(advice.recommended >= advice.current && advice.current.is_some(), "{name}: {:?}", advice.reasons);
        let Some((_, tasks, reads, publishes, lag, outcome, code)) = ROWS.iter().find(|row| row.0 == name) else { continue };
        checked += 1;
        let whole = reading.partition_lag.as_ref().map(|lags| lags.values().sum::<i64>());
        assert_eq!(
            (reading.task_count, reading.reading_tasks, reading.publishing_tasks, whole),
            (Some(*tasks), Some(*reads), Some(*publishes), *lag),
            "{name}"
        );
        assert_eq!((advice.outcome.name(), advice.reasons[0].code().name()), (*outcome, *code), "{name}: {:?}", advice.reasons);
        assert!(matches!(reading.worker_slots.map(|slots| slots.total), Some(4 | 8)), "{name}");
    }
    assert_eq!(checked, ROWS.len(), "{found:?}");
}

/// A recorded moment as it was read when it was recorded.
async fn recorded(name: &str) -> DruidSupervisorSnapshot {
    let folder = fixtures().join("33.0.0").join(name);
    let answers = moment(&folder);
    let status: Value = serde_json::from_str(&answers["/druid/indexer/v1/supervisor/orders/status"].1).expect("a status");
    let at = serde_json::from_value(status["generationTime"].clone()).expect("a time");
    let reading = read(answers).await.expect("a reading");
    DruidSupervisorSnapshot { observed_at: Some(at), received_at: Some(at), ..reading }
}

fn input(advice: &Advice, name: &str) -> f64 {
    advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value).unwrap_or_else(|| panic!("{name} in {:?}", advice.inputs))
}

#[tokio::test]
async fn two_moments_tell_what_arrives_and_what_a_saturated_task_reads() {
    // 800 records a second arrive, and a task can read about 500; its own average of a minute says 444
    let (earlier, later) = (recorded("supervisor-lag-growing").await, recorded("supervisor-saturated").await);
    let advice = advise(&later, &[earlier], &json!({ "max": 12, "minReadings": 2, "catchUpWithin": "10m" }));
    let (arrives, reads) = (input(&advice, "arrivalPerSecond"), input(&advice, "capacityPerReplicaPerSecond"));
    assert!((780.0..820.0).contains(&arrives), "{arrives}/s arrive");
    assert!((440.0..520.0).contains(&reads), "a task reads {reads}/s");
    assert_eq!((advice.recommended, advice.reasons[0].code().name()), (Some(3), "BacklogCatchUp"), "{:?}", advice.reasons);
}

#[tokio::test]
async fn what_only_adds_to_a_reading_stays_unknown_where_it_fails() {
    let folder = fixtures().join("33.0.0/supervisor-lag-growing");
    for (status, body) in [(500, ""), (403, ""), (200, "<html>"), (200, "[1]")] {
        let mut answers = moment(&folder);
        for path in ["/druid/indexer/v1/supervisor/orders/stats", "/druid/indexer/v1/workers"] {
            answers.insert(path.to_owned(), (StatusCode::from_u16(status).expect("a status"), body.to_owned()));
        }
        let reading = read(answers).await.expect("a reading");
        assert_eq!((reading.processed_per_second, reading.idle_ratio, reading.worker_slots), (None, None, None));
        assert_eq!(reading.reading_tasks, Some(1));
    }
}

#[tokio::test]
async fn what_is_needed_gives_no_reading_where_it_fails() {
    let folder = fixtures().join("33.0.0/supervisor-lag-growing");
    for path in ["/druid/indexer/v1/supervisor/orders", "/druid/indexer/v1/supervisor/orders/status"] {
        for (status, body, kind) in [
            (404, "", FailureKind::NotFound),
            (503, "", FailureKind::Status),
            (403, "", FailureKind::Unauthorized),
            (200, "<html>sign in</html>", FailureKind::NotJson),
            (200, "[]", FailureKind::Unexpected),
        ] {
            let mut answers = moment(&folder);
            answers.insert(path.to_owned(), (StatusCode::from_u16(status).expect("a status"), body.to_owned()));
            assert_eq!(read(answers).await.expect_err(path).kind, kind, "{path} {status} {body}");
        }
    }
}

#[tokio::test]
async fn a_supervisor_without_a_stream_is_not_supported() {
    let mut answers = moment(&fixtures().join("33.0.0/supervisor-lag-growing"));
    answers.insert("/druid/indexer/v1/supervisor/orders".to_owned(), (StatusCode::OK, r#"{"type":"autocompact","spec":{"dataSource":"a"}}"#.to_owned()));
    assert_eq!(read(answers).await.expect_err("no stream").kind, FailureKind::Unsupported);
}

#[tokio::test]
async fn an_id_is_one_segment_of_a_path_or_none() {
    let mut answers = moment(&fixtures().join("33.0.0/supervisor-lag-growing"));
    for part in ["", "/status", "/stats"] {
        let answer = answers.remove(&format!("/druid/indexer/v1/supervisor/orders{part}")).expect("an answer");
        answers.insert(format!("/druid/indexer/v1/supervisor/a%2Fb%3Fc%2E{part}"), answer);
    }
    let address = answering(answers).await;
    let reading = read_at(&address, "a/b?c.", ClientOptions::default()).await.expect("a reading");
    assert_eq!(reading.calls, 4);
    assert_eq!(snapshot(reading).supervisor.as_deref(), Some("a/b?c."));
    for id in ["", ".", "..", "a\nb"] {
        assert!(!is_supervisor_id(id));
        assert_eq!(read_at(&address, id, ClientOptions::default()).await.expect_err(id).kind, FailureKind::NotFound);
    }
}

#[tokio::test]
async fn an_overlord_that_does_not_lead_is_followed_to_a_leader_that_is_allowed() {
    let leader = answering(moment(&fixtures().join("33.0.0/supervisor-lag-growing"))).await.replace("127.0.0.1", "localhost");
    let to = leader.clone();
    let follower = serve(Router::new().fallback(move |uri: Uri| {
        let location = format!("http://{to}{uri}");
        async move { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]) }
    }))
    .await;
    let reading = read_at(&follower, "orders", ClientOptions { allowed_hosts: vec![leader], ..ClientOptions::default() }).await.expect("a reading");
    assert_eq!(reading.calls, 8, "each question was asked twice");
    assert_eq!(read_at(&follower, "orders", ClientOptions::default()).await.expect_err("not allowed").kind, FailureKind::Redirect);
}

/// Answers in the documented shapes of what no recorded cluster has: time lag, copies, an autoscaler, idle ratios.
fn documented() -> Answers {
    let spec = json!({ "type": "kinesis", "spec": { "ioConfig": { "taskCount": 2, "replicas": 2, "stopTaskCount": 1, "consumerProperties": { "password": "hunter2" },
        "autoScalerConfig": { "enableTaskAutoScaler": true, "autoScalerStrategy": "costBased", "taskCountMin": 2, "taskCountMax": 6 } } } });
    let task = |id: &str, group: &str| json!({ "id": id, "startTime": "2026-03-02T10:00:00.000Z", "remainingSeconds": 2400, "type": "ACTIVE", "currentOffsets": { group: "49546" } });
    let status = json!({ "id": "orders", "generationTime": "2026-03-02T10:20:00.000Z", "payload": { "partitions": 2, "replicas": 2, "durationSeconds": 3600,
        "activeTasks": [task("a0", "s0"), task("a1", "s0"), task("b0", "s1"), task("b1", "s1")], "publishingTasks": [],
        "minimumLagMillis": { "s0": 60_000, "s1": 30_000 }, "aggregateLagMillis": 90_000, "offsetsLastUpdated": "2026-03-02T10:19:55.000Z", "suspended": false, "state": "RUNNING", "detailedState": "RUNNING" } });
    let of_task = |idle: f64| json!({ "movingAverages": { "buildSegments": { "1m": { "processed": 10.0 }, "5m": { "processed": 100.0 } } }, "autoScalerMetrics": { "pollIdleRatioAvg": idle } });
    let rates = json!({ "0": { "a0": of_task(0.2), "a1": of_task(0.4) }, "1": { "b0": of_task(0.3), "b1": of_task(0.5) } });
    [("", spec), ("/status", status), ("/stats", rates)]
        .into_iter()
        .map(|(part, body)| (format!("/druid/indexer/v1/supervisor/orders{part}"), (StatusCode::OK, body.to_string())))
        .collect()
}

#[tokio::test]
async fn time_lag_copies_idle_ratios_and_the_autoscaler_of_the_spec_are_read() {
    let reading = read(documented()).await.expect("a reading");
    assert_eq!((reading.task_count, reading.replicas, reading.reading_tasks, reading.stop_task_count), (Some(2), Some(2), Some(4), Some(1)));
    assert_eq!((reading.latest_offsets.as_ref(), reading.current_offsets.as_ref()), (None, None), "sequence numbers are no offsets");
    assert_eq!((reading.processed_per_second.map(Amount::get), reading.offsets_age_seconds.map(Amount::get)), (Some(400.0), Some(5.0)));
    assert!((reading.idle_ratio.map_or(0.0, Amount::get) - 0.35).abs() < 1e-9);
    assert!(!serde_json::to_string(&reading).expect("json").contains("hunter2"), "no part of the spec but numbers is kept");
    let advice = advise(&reading, &[], &json!({}));
    assert_eq!((advice.bounds.min, advice.bounds.max), (2, 6), "the bounds of the autoscaler, where the policy has none");
    assert_eq!((advise(&reading, &[], &json!({ "max": 9 })).bounds.max, advise(&reading, &[], &json!({ "taskCountMin": 1 })).bounds.min), (9, 1));
    assert!((input(&advice, "lagSeconds") - 60.0).abs() < 1e-9, "the larger one, not the sum");
}

#[tokio::test]
async fn a_rate_or_a_share_of_some_tasks_is_none_of_all() {
    let mut answers = documented();
    let path = "/druid/indexer/v1/supervisor/orders/stats";
    let mut stats: Value = serde_json::from_str(&answers[path].1).expect("json");
    stats["1"].as_object_mut().expect("a group").remove("b1");
    answers.insert(path.to_owned(), (StatusCode::OK, stats.to_string()));
    let reading = read(answers).await.expect("a reading");
    assert_eq!((reading.processed_per_second, reading.idle_ratio), (None, None));
}

#[tokio::test]
async fn statistics_that_hang_cost_the_rates_and_not_the_reading() {
    let folder = fixtures().join("33.0.0/supervisor-steady");
    let upstream = answering(moment(&folder)).await;
    let hanging = serve(Router::new().fallback(move |uri: Uri| {
        let url = format!("http://{upstream}{uri}");
        async move {
            if uri.path().ends_with("/stats") {
                std::future::pending::<()>().await;
            }
            let answer = reqwest::get(url).await.expect("an answer");
            (StatusCode::from_u16(answer.status().as_u16()).expect("a status"), answer.text().await.expect("a body"))
        }
    }))
    .await;
    // the time that a reading has where nothing else is configured
    let reading = tokio::time::timeout(std::time::Duration::from_secs(5), read_at(&hanging, "steady", ClientOptions::default()));
    let reading = reading.await.expect("in time").map(snapshot).expect("a reading");
    assert_eq!((reading.processed_per_second, reading.task_count), (None, Some(3)));
}
