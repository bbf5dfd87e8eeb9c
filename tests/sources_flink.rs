//! Readings of real Flink jobs: answers that were recorded from Flink 2.3.0, and one moment of Flink 1.20.5, are replayed,
//! read by the source and judged by the core. `tests/fixtures/flink/README.md` says what each moment is.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use loadline::core::advice::{Advice, Outcome, Part};
use loadline::core::kinds::FlinkJobSnapshot;
use loadline::core::kinds::flink::{TaskCounts, Vertex};
use loadline::core::units::Timestamp;
use loadline::engine::source::{FailureKind, Snapshot, Source, SourceError};
use loadline::sources::flink::{FlinkCluster, FlinkSource, JobSelector};
use loadline::sources::http::ClientOptions;
use serde_json::{Value, json};

/// One recorded moment, to be asked like the `JobManager` that it came from.
struct Recording {
    job: String,
    captured_at: Timestamp,
    /// Bodies by path, without the metrics.
    bodies: HashMap<String, Value>,
    /// Rows of metric answers by path. A name without a value is left out of the list too.
    metrics: HashMap<String, Vec<Value>>,
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).expect("JSON")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/flink")
}

impl Recording {
    fn open(folder: &str) -> Self {
        Self::of(folder, |_| true)
    }

    /// Only some files of a folder, for one that holds several moments.
    fn of(folder: &str, wanted: impl Fn(&str) -> bool) -> Self {
        let folder = fixtures().join(folder);
        let index = read(&folder.join("_index.json"));
        let mut recording = Self {
            job: index["job"].as_str().unwrap_or_default().to_owned(),
            captured_at: Timestamp::from_millisecond(index["captured_at_ms"].as_i64().unwrap_or(1_796_079_680_000)).expect("a time"),
            // the cluster was the same throughout; not every moment asked for it
            bodies: HashMap::from([("/taskmanagers".to_owned(), read(&fixtures().join("2.3.0/pipeline-backpressured/taskmanagers.json")))]),
            metrics: HashMap::new(),
        };
        for answer in index["answers"].as_array().expect("answers") {
            let (file, path) = (answer["file"].as_str().expect("a file"), answer["path"].as_str().expect("a path"));
            let body = || read(&folder.join(file));
            match path.split_once('?') {
                _ if !wanted(file) => {}
                Some((path, _)) if path.starts_with("/taskmanagers/tm") => {
                    // one TaskManager's heap size and garbage collection, plain, stand for the aggregate of both
                    let rows = body().as_array().expect("rows").clone();
                    let there = |row: &&Value| ["Status.JVM.Memory.Heap.Max", "Status.JVM.GarbageCollector.All.TimeMsPerSecond"].contains(&id(row));
                    let rows = rows.iter().filter(there).map(|row| json!({ "id": row["id"], "max": number(&row["value"]) }));
                    recording.metrics.entry("/taskmanagers/metrics".to_owned()).or_default().extend(rows);
                }
                Some((path, _)) => recording.metrics.entry(path.to_owned()).or_default().extend(body().as_array().expect("rows").clone()),
                None if path.ends_with("/metrics") => {}
                None => drop(recording.bodies.insert(path.to_owned(), body())),
            }
        }
        recording
    }

    async fn serve(self) -> Arc<FlinkCluster> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(Arc::new(self));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Arc::new(FlinkCluster::new(url.parse().expect("a URL"), ClientOptions::default()).expect("a cluster"))
    }

    /// Reads twice, as the second reading uses what the first one kept: both must say the same.
    async fn snapshot(self) -> FlinkJobSnapshot {
        let (job, captured_at) = (JobSelector::Id(self.job.clone()), self.captured_at);
        let source = FlinkSource::new(self.serve().await, job);
        let mut readings = Vec::new();
        for _ in 0..2 {
            let reading = source.read().await.expect("a reading");
            let Snapshot::FlinkJob(mut snapshot) = reading.snapshot else { panic!("another kind") };
            assert!(snapshot.observed_at.is_some() && snapshot.observed_at < snapshot.received_at);
            let sources = snapshot.vertices.iter().filter(|vertex| vertex.is_source()).count();
            // two more for each vertex that lacks a metric, and now and then only
            assert!(usize::try_from(reading.calls).expect("few") <= snapshot.vertices.len() + sources + 5, "{} calls", reading.calls);
            assert!((4..=6).contains(&source.shared_calls()), "{} shared calls", source.shared_calls());
            (snapshot.observed_at, snapshot.received_at) = (Some(captured_at), Some(captured_at));
            readings.push(snapshot);
        }
        assert_eq!(readings[0], readings[1]);
        readings.remove(0)
    }
}

fn id(row: &Value) -> &str {
    row["id"].as_str().expect("a name")
}

fn number(text: &Value) -> f64 {
    text.as_str().expect("text").parse().expect("a number")
}

/// As Flink answers: names without `get`; plain metrics leave unknown names out; aggregated ones are all or nothing.
async fn answer(State(recording): State<Arc<Recording>>, uri: Uri, Query(query): Query<HashMap<String, String>>) -> Response {
    assert!(uri.to_string().len() < 3000, "a long request line");
    let path = uri.path();
    if path.ends_with("/metrics") {
        let rows = recording.metrics.get(path).cloned().unwrap_or_default();
        let Some(names) = query.get("get") else {
            return Json(rows.iter().map(|row| json!({ "id": row["id"] })).collect::<Value>()).into_response();
        };
        let found: Vec<&Value> = names.split(',').filter_map(|name| rows.iter().find(|row| id(row) == name)).collect();
        let aggregated = path.ends_with("/subtasks/metrics") || path.starts_with("/taskmanagers");
        return Json(if aggregated && found.len() < names.split(',').count() { json!([]) } else { json!(found) }).into_response();
    }
    match recording.bodies.get(path) {
        Some(body) => Json(body).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({ "errors": [format!("NotFoundException: {path}")] }))).into_response(),
    }
}

/// What the core says of one reading, one second later.
fn advise(snapshot: &FlinkJobSnapshot, policy: &Value) -> Advice {
    let now = snapshot.observed_at.expect("a time") + jiff::SignedDuration::from_secs(1);
    let body = json!({ "kind": "flinkJob", "now": now, "snapshot": serde_json::to_value(snapshot).expect("a snapshot"), "policy": policy });
    let request = loadline::core::request::parse(&serde_json::to_vec(&body).expect("a body"), now).unwrap_or_else(|error| panic!("{error:?}"));
    loadline::core::advise(&request)
}

/// The same where a job need not settle after its start.
fn advise_at_once(snapshot: &FlinkJobSnapshot) -> Advice {
    advise(snapshot, &json!({ "stabilizationAfterStart": "0s" }))
}

fn part<'a>(advice: &'a Advice, name: &str) -> &'a Part {
    advice.parts.iter().find(|part| part.name == name).unwrap_or_else(|| panic!("no part {name}"))
}

fn vertex<'a>(snapshot: &'a FlinkJobSnapshot, name: &str) -> &'a Vertex {
    snapshot.vertices.iter().find(|vertex| vertex.label() == name).unwrap_or_else(|| panic!("no vertex {name}"))
}

fn mean(of: Option<loadline::core::kinds::flink::Spread>) -> Option<f64> {
    of?.avg.map(loadline::core::units::Amount::get)
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be unknown")]
fn tasks(total: u64, running: u64, finished: u64) -> Option<TaskCounts> {
    Some(TaskCounts { total, running, finished })
}

fn assert_holds(snapshot: &FlinkJobSnapshot, advice: &Advice, moment: &str) {
    assert_eq!(advice.outcome, Outcome::Hold, "{moment}: {:?}", advice.reasons);
    for (vertex, part) in snapshot.vertices.iter().zip(&advice.parts) {
        assert_eq!((part.current, part.recommended), (Some(vertex.parallelism), Some(vertex.parallelism)), "{moment}: {}", part.name);
    }
}

#[tokio::test]
async fn a_job_that_does_not_run_is_read_and_held_at_its_present_parallelism() {
    for (moment, state, expected, vertices, slots) in [
        ("2.3.0/just-submitted", "RUNNING", tasks(6, 0, 0), 5, 8),
        ("2.3.0/restarting", "RESTARTING", tasks(5, 0, 0), 5, 4),
        ("2.3.0/failed", "FAILED", tasks(5, 0, 0), 5, 1),
        ("2.3.0/canceled", "CANCELED", tasks(4, 0, 0), 2, 5),
        ("2.3.0/batch-running", "RUNNING", tasks(5, 1, 2), 5, 4),
        ("2.3.0/batch-finished", "FINISHED", tasks(5, 0, 5), 5, 4),
        ("2.3.0/waiting-for-slots-default", "RESTARTING", tasks(30, 0, 0), 5, 0),
        ("2.3.0/waiting-for-slots-adaptive", "CREATED", tasks(5, 0, 0), 5, 0),
    ] {
        let snapshot = Recording::open(moment).snapshot().await;
        assert_eq!((snapshot.state.as_deref(), snapshot.tasks, snapshot.vertices.len()), (Some(state), expected, vertices), "{moment}");
        assert_eq!((snapshot.task_managers, snapshot.slots_per_task_manager, snapshot.schedulable_slots), (Some(2), Some(4), Some(slots)), "{moment}");
        assert_eq!(snapshot.running_since.is_some(), state == "RUNNING", "{moment}");
        for vertex in &snapshot.vertices {
            assert_eq!((vertex.busy_ratio, vertex.records_in_per_second, vertex.pending_records), (None, None, None), "{moment}: {}", vertex.label());
            assert_eq!(vertex.max_parallelism, Some(48), "{moment}: {}", vertex.label());
        }
        assert_holds(&snapshot, &advise_at_once(&snapshot), moment);
    }
}

#[tokio::test]
async fn restarts_are_read_of_a_job_that_does_not_run_and_the_totals_of_its_old_attempt_are_not() {
    let restarting = Recording::open("2.3.0/restarting").snapshot().await;
    let enrich = vertex(&restarting, "Enrich");
    assert_eq!((restarting.restarts, enrich.records_in, enrich.records_out, enrich.records_complete), (Some(1), None, None, None));
    assert_eq!(Recording::open("2.3.0/waiting-for-slots-default").snapshot().await.restarts, Some(5));
    assert_eq!(Recording::open("2.3.0/failed").snapshot().await.restarts, None, "a failed job has no metrics");
    let batch = Recording::open("2.3.0/batch-running").snapshot().await;
    let finished: Vec<_> = batch.vertices.iter().map(|vertex| (vertex.finished, vertex.records_complete)).collect();
    assert_eq!(finished[0], (Some(true), Some(true)), "what has finished stays as it is");
    assert_eq!(finished[2], (Some(false), None));
}

#[tokio::test]
async fn a_job_that_only_just_runs_has_no_figures_yet_though_it_looks_busy() {
    let snapshot = Recording::open("2.3.0/just-started").snapshot().await;
    assert_eq!((snapshot.state.as_deref(), snapshot.tasks), (Some("RUNNING"), tasks(6, 6, 0)), "the overview is ahead of the details");
    for vertex in &snapshot.vertices {
        let figures = (vertex.busy_ratio, vertex.records_in_per_second, vertex.records_in, vertex.pending_records);
        assert_eq!(figures, (None, None, None, None), "{}: 1000 ms busy without a record are the artefact of a start", vertex.label());
    }
    assert_holds(&snapshot, &advise_at_once(&snapshot), "just-started");
}

#[tokio::test]
async fn a_reading_is_no_fresher_than_the_metrics_that_the_server_has_fetched() {
    for (moment, seconds) in [("2.3.0/pipeline-backpressured", 0.0), ("2.3.0/adaptive-beyond-slots", 5.27), ("2.3.0/join-steady", 0.542)] {
        let recording = Recording::open(moment);
        let job = JobSelector::Id(recording.job.clone());
        let Snapshot::FlinkJob(snapshot) = FlinkSource::new(recording.serve().await, job).read().await.expect("a reading").snapshot else {
            panic!("another kind")
        };
        let age = snapshot.received_at.expect("a time").duration_since(snapshot.observed_at.expect("a time")).as_secs_f64();
        assert!(age >= seconds && age < seconds + 2.0, "{moment}: {age} s, and the uptime says {seconds} s");
    }
    // without figures the details count, which are cached for 3 s
    let recording = Recording::open("2.3.0/restarting");
    let job = JobSelector::Id(recording.job.clone());
    let Snapshot::FlinkJob(snapshot) = FlinkSource::new(recording.serve().await, job).read().await.expect("a reading").snapshot else { panic!("another kind") };
    assert!(snapshot.received_at.expect("a time").duration_since(snapshot.observed_at.expect("a time")).as_secs_f64() >= 3.0);
}

/// The files of `starting` by the number that they begin with.
fn starting(numbers: &'static [&'static str]) -> Recording {
    let mut recording = Recording::of("2.3.0/starting", |file| numbers.iter().any(|number| file.starts_with(number)));
    "ff2c5b5ed8602d766921db0f75cecba7".clone_into(&mut recording.job);
    recording
}

#[tokio::test]
async fn a_starting_job_is_not_found_then_has_no_vertices_then_runs() {
    let client = starting(&["0.", "1."]).serve().await;
    let error = FlinkSource::new(client, JobSelector::Name("lab-pipeline".to_owned())).read().await.expect_err("no job");
    assert_eq!(error, SourceError::new(FailureKind::NotFound, "no job \"lab-pipeline\" on this JobManager"));

    let initializing = starting(&["2.", "3.", "4."]).snapshot().await;
    assert_eq!((initializing.state.as_deref(), initializing.tasks, initializing.vertices.len()), (Some("INITIALIZING"), None, 0));
    assert_ne!(advise_at_once(&initializing).outcome, Outcome::Change);

    // the details are cached: the job runs, and they do not know it yet
    let behind = starting(&["2.", "4.", "5."]).snapshot().await;
    assert_eq!((behind.state.as_deref(), behind.tasks, behind.running_since), (Some("RUNNING"), tasks(6, 0, 0), None));
    assert_ne!(advise_at_once(&behind).outcome, Outcome::Change);

    let deploying = starting(&["2.", "5.", "6."]).snapshot().await;
    assert_eq!((deploying.tasks, deploying.vertices.len(), deploying.running_since.is_some()), (tasks(6, 0, 0), 5, true));
    assert_holds(&deploying, &advise_at_once(&deploying), "starting");
}

#[tokio::test]
async fn a_job_held_back_by_one_vertex_has_that_vertex_raised_and_named() {
    for (moment, slots, pending, enrich, source_back_pressured, complete, needed) in [("2.3.0/pipeline-backpressured", 5, 235_854, 1.0, 0.996, true, 4)] {
        let snapshot = Recording::open(moment).snapshot().await;
        let source = vertex(&snapshot, "Source: orders");
        assert_eq!((snapshot.state.as_deref(), snapshot.vertices.len(), snapshot.schedulable_slots), (Some("RUNNING"), 5, Some(slots)), "{moment}");
        assert_eq!((source.pending_records, mean(source.back_pressured_ratio)), (Some(pending), Some(source_back_pressured)), "{moment}");
        assert_eq!(mean(vertex(&snapshot, "Enrich").busy_ratio), Some(enrich), "{moment}");
        assert!(source.records_in_per_second.is_some_and(|rate| rate.get() > 1000.0), "{moment}: 1.20 counts it at the operator only");
        assert!(snapshot.vertices.iter().all(|vertex| vertex.records_complete == Some(complete)), "{moment}");
        assert_eq!(snapshot.vertices.iter().filter(|vertex| vertex.is_keyed()).count(), 1, "{moment}");
        let heap = snapshot.memory.and_then(|memory| memory.heap_used_ratio).expect("the heap");
        assert!(heap.get() > 0.1 && heap.get() < 0.4, "{moment}: {heap:?}");

        let advice = advise_at_once(&snapshot);
        assert_eq!((advice.outcome, part(&advice, "Enrich").recommended), (Outcome::Change, Some(needed)), "{moment}");
        let reason = serde_json::to_value(&advice.reasons[0]).expect("a reason");
        assert!(reason.to_string().contains("Enrich"), "{moment}: {reason}");
        for other in advice.parts.iter().filter(|part| part.name != "Enrich") {
            assert_eq!(other.recommended, other.current, "{moment}: {}", other.name);
        }
    }
}

#[tokio::test]
async fn in_its_first_minute_a_job_has_a_backlog_and_totals_and_no_averages() {
    for (moment, pending) in [("2.3.0/adaptive-steady", 69_311), ("1.20.5/adaptive-backpressured", 23_172)] {
        let snapshot = Recording::open(moment).snapshot().await;
        let source = vertex(&snapshot, "Source: orders");
        assert_eq!((source.pending_records, source.busy_ratio, source.records_in_per_second), (Some(pending), None, None), "{moment}");
        assert!(source.records_in.is_some() && source.back_pressured_ratio.is_none(), "{moment}");
        let heap = snapshot.memory.and_then(|memory| memory.heap_used_ratio).expect("the heap");
        assert!(heap.get() > 0.1 && heap.get() < 0.4, "{moment}: {heap:?}");
        assert_eq!(
            (snapshot.task_manager_cpu.map(loadline::core::units::Amount::get), snapshot.task_manager_memory_bytes),
            (Some(4.0), Some(1_073_741_824)),
            "{moment}"
        );
        assert_holds(&snapshot, &advise_at_once(&snapshot), moment);
    }
}

#[tokio::test]
async fn a_job_that_keeps_up_is_never_raised() {
    for (moment, total, vertices, enrich, complete, slots) in [
        ("2.3.0/healthy", 6, 5, None, false, 6),
        ("2.3.0/join-steady", 7, 7, None, true, 4),
        ("2.3.0/chained", 4, 3, None, true, 6),
        ("2.3.0/adaptive-after-rescale", 7, 5, Some(0.586_333_333_333_333_4), true, 8),
        ("2.3.0/adaptive-beyond-slots", 10, 5, Some(0.8795), true, 2),
    ] {
        let snapshot = Recording::open(moment).snapshot().await;
        assert_eq!((snapshot.state.as_deref(), snapshot.tasks, snapshot.vertices.len()), (Some("RUNNING"), tasks(total, total, 0), vertices), "{moment}");
        assert_eq!((mean(vertex(&snapshot, "Enrich").busy_ratio), snapshot.schedulable_slots), (enrich, Some(slots)), "{moment}");
        for vertex in &snapshot.vertices {
            assert_eq!(vertex.records_complete, Some(complete), "{moment}: {}", vertex.label());
            assert_eq!(vertex.pending_records.is_some_and(|waiting| waiting < 100), vertex.is_source(), "{moment}: {}", vertex.label());
        }
        for part in &advise_at_once(&snapshot).parts {
            assert!(part.recommended <= part.current, "{moment}: {} to {:?}", part.name, part.recommended);
        }
    }
    let rescaled = Recording::open("2.3.0/adaptive-after-rescale").snapshot().await;
    assert_eq!((rescaled.restarts, vertex(&rescaled, "Enrich").parallelism), (Some(1), 3), "a rescale counts as a restart");
}

#[tokio::test]
async fn a_source_of_the_old_kind_has_no_busy_time_and_no_backlog_and_is_held() {
    let snapshot = Recording::open("2.3.0/sql-steady").snapshot().await;
    let source = vertex(&snapshot, "Source: orders[1] -> Calc[2]");
    assert_eq!((source.busy_ratio, source.accumulated_busy_seconds, source.pending_records), (None, None, None));
    assert_eq!(source.records_in_per_second.map(loadline::core::units::Amount::get), Some(2000.0), "what it writes stands for what it reads");
    assert_eq!((source.records_in, snapshot.tasks, source.records_complete), (Some(285_000), tasks(4, 4, 0), Some(true)));
    assert_holds(&snapshot, &advise_at_once(&snapshot), "sql-steady");
}

#[tokio::test]
async fn one_metric_that_is_not_there_costs_two_calls_and_not_the_others() {
    let mut recording = Recording::open("2.3.0/adaptive-after-rescale");
    let path = recording.metrics.keys().find(|path| path.contains("e778491b")).expect("Enrich").clone();
    recording.metrics.get_mut(&path).expect("rows").retain(|row| id(row) != "backPressuredTimeMsPerSecond");
    let snapshot = recording.snapshot().await;
    let enrich = vertex(&snapshot, "Enrich");
    assert_eq!((mean(enrich.busy_ratio), enrich.back_pressured_ratio), (Some(0.586_333_333_333_333_4), None));
}

#[tokio::test]
async fn an_unknown_job_is_not_found_and_named() {
    for wanted in [JobSelector::Name("orders".to_owned()), JobSelector::Id("00000000000000000000000000000001".to_owned())] {
        let source = FlinkSource::new(Recording::open("2.3.0/healthy").serve().await, wanted.clone());
        let error = source.read().await.expect_err("no such job");
        assert_eq!((error.kind, error.message), (FailureKind::NotFound, format!("no {wanted} on this JobManager")));
    }
    let source = FlinkSource::new(Recording::open("2.3.0/batch-finished").serve().await, JobSelector::Name("lab-batch".to_owned()));
    assert!(source.read().await.is_ok(), "an ended job is there as long as the JobManager remembers it");
}

#[tokio::test]
async fn the_simulated_job_is_read_with_its_partitions_in_as_many_calls_as_documented() {
    let demo = loadline::demo::start(loadline::demo::Pace::default(), |_| None).await.expect("a simulation");
    let cluster = FlinkCluster::new(format!("http://{}", demo.flink).parse().expect("a URL"), ClientOptions::default()).expect("a cluster");
    let source = FlinkSource::new(Arc::new(cluster), JobSelector::Name("demo-orders".to_owned()));
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    let snapshot = loop {
        let Snapshot::FlinkJob(snapshot) = source.read().await.expect("a reading").snapshot else { panic!("another kind") };
        if snapshot.vertices.iter().all(|vertex| vertex.busy_ratio.is_some()) {
            break snapshot;
        }
        assert!(tokio::time::Instant::now() < deadline, "its figures are facts after some seconds: {snapshot:?}");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    let sources: Vec<_> = snapshot.vertices.iter().filter(|vertex| vertex.is_source()).collect();
    assert_eq!(sources.len(), 1);
    assert!(sources[0].partitions_by_topic.contains_key("orders"), "{:?}", sources[0]);
    assert_eq!(sources[0].partition_count(), sources[0].partitions);
    let second = source.read().await.expect("a reading").calls;
    assert_eq!(usize::try_from(second).expect("few"), snapshot.vertices.len() + 2);
}

#[tokio::test]
async fn a_reading_for_which_nothing_was_fetched_is_as_old_as_the_one_before() {
    let recording = Recording::open("2.3.0/chained");
    let job = JobSelector::Id(recording.job.clone());
    let source = FlinkSource::new(recording.serve().await, job);
    let observed = |reading: loadline::engine::source::Reading| match reading.snapshot {
        Snapshot::FlinkJob(snapshot) => (snapshot.observed_at, snapshot.received_at),
        other => panic!("{other:?}"),
    };
    let first = observed(source.read().await.expect("a reading"));
    let second = observed(source.read().await.expect("a reading"));
    assert_eq!(first.0, second.0, "the totals are those of the first reading, to the last digit");
    assert!(second.1 > first.1, "it arrived later all the same");
}
