//! A session cluster with fifty jobs, in the test's own process: every job answers as one that was recorded from a real
//! Flink. Jobs come, go, are deployed anew and have names that collide; the cluster counts what it is asked.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use loadline::core::advice::Outcome;
use loadline::core::policy::PolicyInput;
use loadline::core::request::{Kind, Readings};
use loadline::engine::store::{SourceHealth, Store, Target};
use loadline::engine::{Engine, EntrySpec, Plan, TargetSpec, clock};
use loadline::sources::flink::{FlinkCluster, FlinkJobs, FlinkSource, JobPattern, JobSelector, Timing};
use loadline::sources::http::ClientOptions;
use serde_json::{Value, json};

const INTERVAL: Duration = Duration::from_secs(2);
const TIMING: Timing = Timing { interval: INTERVAL, timeout: Duration::from_secs(5) };
/// Vertices of the recorded job; one of them is a source.
const VERTICES: usize = 5;

/// A job of the cluster.
#[derive(Clone)]
struct FakeJob {
    id: String,
    name: String,
    state: &'static str,
    /// When it began, in milliseconds since 1970.
    began: i64,
}

/// The cluster, and what it was asked.
#[derive(Clone)]
struct Fake(Arc<Inner>);

struct Inner {
    jobs: Mutex<Vec<FakeJob>>,
    free_slots: AtomicUsize,
    asked: Mutex<BTreeMap<String, usize>>,
    now: AtomicUsize,
    most: AtomicUsize,
    down: Mutex<bool>,
    job: Value,
    metrics: HashMap<String, Vec<Value>>,
}

fn recorded(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/flink/2.3.0/pipeline-backpressured").join(file);
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).expect("JSON")
}

/// The id of a job, with a number in front so that six digits tell jobs apart.
fn id(number: usize) -> String {
    format!("{number:06x}{:026x}", number + 1)
}

fn job(number: usize, name: &str) -> FakeJob {
    FakeJob { id: id(number), name: name.to_owned(), state: "RUNNING", began: clock::now().as_millisecond() - 600_000 }
}

impl Fake {
    fn new(jobs: Vec<FakeJob>) -> Self {
        let mut metrics: HashMap<String, Vec<Value>> = HashMap::new();
        for answer in recorded("_index.json")["answers"].as_array().expect("answers") {
            let path = answer["path"].as_str().expect("a path");
            if let Some((_, rest)) = path.split_once("/vertices/")
                && let Some((vertex, _)) = rest.split_once("/subtasks/metrics?get=")
            {
                metrics.entry(vertex.to_owned()).or_default().extend(recorded(answer["file"].as_str().expect("a file")).as_array().expect("rows").clone());
            }
        }
        Self(Arc::new(Inner {
            jobs: Mutex::new(jobs),
            free_slots: AtomicUsize::new(3),
            asked: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            down: Mutex::new(false),
            job: recorded("job.json"),
            metrics,
        }))
    }

    async fn serve(&self) -> Arc<FlinkCluster> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Arc::new(FlinkCluster::new(url.parse().expect("a URL"), ClientOptions::default()).expect("a cluster"))
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<FakeJob>> {
        self.0.jobs.lock().expect("no panic")
    }

    fn asked(&self, path: &str) -> usize {
        self.0.asked.lock().expect("no panic").get(path).copied().unwrap_or(0)
    }

    /// Calls about one job, by the job.
    fn of_job(&self, id: &str) -> usize {
        let prefix = format!("/jobs/{id}");
        self.0.asked.lock().expect("no panic").iter().filter(|(path, _)| path.starts_with(&prefix)).map(|(_, count)| count).sum()
    }

    fn forget(&self) {
        self.0.asked.lock().expect("no panic").clear();
    }

    fn is_down(&self, down: bool) {
        *self.0.down.lock().expect("no panic") = down;
    }

    /// The details of a job, as recorded, with its id, moved to when it began, and with totals that grow.
    fn details(&self, job: &FakeJob) -> Value {
        let mut body = self.0.job.clone();
        let now = clock::now().as_millisecond();
        let since = u64::try_from(now % 100_000_000).expect("a time");
        let seconds = Duration::from_millis(since).as_secs_f64();
        body["jid"] = json!(job.id);
        body["name"] = json!(job.name);
        body["state"] = json!(job.state);
        body["now"] = json!(now);
        body["timestamps"]["RUNNING"] = json!(job.began);
        for vertex in body["vertices"].as_array_mut().expect("vertices") {
            vertex["start-time"] = json!(job.began);
            let rows = &self.0.metrics[vertex["id"].as_str().expect("an id")];
            let busy = rows.iter().find(|row| row["id"] == "busyTimeMsPerSecond").and_then(|row| row["sum"].as_f64());
            let totals = &mut vertex["metrics"];
            totals["accumulated-busy-time"] = json!(busy.expect("a busy time") * seconds);
            for name in ["read-records", "write-records"] {
                // 4000 in a second, as recorded, but where nothing is written
                let recorded = totals[name].as_u64().expect("a total");
                totals[name] = json!(if recorded > 100_000 { since * 4 } else { recorded });
            }
        }
        body
    }

    fn body(&self, path: &str, query: &HashMap<String, String>) -> Option<Value> {
        let jobs = self.jobs().clone();
        let row =
            |job: &FakeJob| json!({ "jid": job.id, "name": job.name, "state": job.state, "start-time": job.began, "tasks": { "total": 6, "running": 6 } });
        match path {
            "/jobs/overview" => return Some(json!({ "jobs": jobs.iter().map(row).collect::<Vec<_>>() })),
            "/overview" => return Some(json!({ "slots-total": 103, "slots-available": self.0.free_slots.load(Ordering::SeqCst) })),
            "/taskmanagers" => return Some(recorded("taskmanagers.json")),
            "/taskmanagers/metrics" => return Some(rows(&recorded("taskmanagers.metrics.get.json").as_array().expect("rows").clone(), query, true)),
            "/config" => return Some(json!({ "refresh-interval": 3000 })),
            _ => {}
        }
        let (id, rest) = path.strip_prefix("/jobs/")?.split_once('/').unwrap_or((path.strip_prefix("/jobs/")?, ""));
        let job = jobs.iter().find(|job| job.id == id)?;
        if rest.is_empty() {
            return Some(self.details(job));
        }
        if rest == "metrics" {
            return Some(json!([{ "id": "numRestarts", "value": "0" }, { "id": "uptime", "value": (clock::now().as_millisecond() - job.began).to_string() }]));
        }
        let vertex = rest.strip_prefix("vertices/")?.strip_suffix("/subtasks/metrics")?;
        Some(rows(self.0.metrics.get(vertex)?, query, true))
    }
}

/// As Flink answers: names without `get`; aggregated ones are all or nothing.
fn rows(rows: &[Value], query: &HashMap<String, String>, all_or_nothing: bool) -> Value {
    let Some(names) = query.get("get") else { return rows.iter().map(|row| json!({ "id": row["id"] })).collect() };
    let found: Vec<&Value> = names.split(',').filter_map(|name| rows.iter().find(|row| row["id"] == name)).collect();
    if all_or_nothing && found.len() < names.split(',').count() { json!([]) } else { json!(found) }
}

async fn answer(State(fake): State<Fake>, uri: Uri, Query(query): Query<HashMap<String, String>>) -> Response {
    assert!(uri.to_string().len() < 4000, "Flink refuses request lines over 4096 bytes");
    let on_their_way = fake.0.now.fetch_add(1, Ordering::SeqCst) + 1;
    fake.0.most.fetch_max(on_their_way, Ordering::SeqCst);
    *fake.0.asked.lock().expect("no panic").entry(uri.path().to_owned()).or_default() += 1;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let down = *fake.0.down.lock().expect("no panic");
    let body = if down { None } else { fake.body(uri.path(), &query) };
    fake.0.now.fetch_sub(1, Ordering::SeqCst);
    match body {
        Some(body) => Json(body).into_response(),
        None if down => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({ "errors": ["not found"] }))).into_response(),
    }
}

/// An entry `session` for jobs of the cluster.
fn entry(cluster: &Arc<FlinkCluster>, pattern: JobPattern) -> EntrySpec {
    let given: PolicyInput = serde_json::from_value(json!({ "stabilizationAfterStart": "0s", "staleAfter": "10s" })).expect("a policy");
    let prototype = TargetSpec {
        name: "session".to_owned(),
        display_name: "session".to_owned(),
        namespace: "flink".to_owned(),
        kind: Kind::FlinkJob,
        cluster: None,
        policy: given.resolve(Kind::FlinkJob).expect("a valid policy"),
        given,
        interval: TIMING.interval,
        timeout: TIMING.timeout,
        configuration: json!({ "job": pattern.job, "include": pattern.include, "exclude": pattern.exclude }),
        source_key: cluster.name().to_owned(),
        source: Arc::new(FlinkSource::new(Arc::clone(cluster), JobSelector::Name(pattern.job.clone()))),
        replicas: None,
        actuator: None,
    };
    EntrySpec { prototype, discovery: Arc::new(FlinkJobs::new(Arc::clone(cluster), pattern, TIMING, false)) }
}

fn pattern(job: &str, exclude: &[&str]) -> JobPattern {
    JobPattern { job: job.to_owned(), include: Vec::new(), exclude: exclude.iter().map(|text| (*text).to_owned()).collect() }
}

fn start(cluster: &Arc<FlinkCluster>, pattern: JobPattern) -> (Engine, Arc<Store>) {
    let store = Arc::new(Store::new());
    let engine = Engine::new(Arc::clone(&store), Arc::new(clock::now));
    engine.apply(Plan { targets: Vec::new(), entries: vec![entry(cluster, pattern)] });
    (engine, store)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not after 20 s: {what}");
}

fn names(store: &Store) -> Vec<String> {
    store.targets().keys().cloned().collect()
}

/// The job that the latest reading of a target is of.
fn job_of(target: &Target) -> Option<String> {
    match &target.state().request.as_ref()?.readings {
        Readings::FlinkJob(series) => series.latest.as_ref()?.job_id.clone(),
        _ => None,
    }
}

fn has_readings(store: &Store, count: usize) -> bool {
    let targets = store.targets();
    targets.len() == count && targets.values().all(|target| job_of(target).is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_jobs_are_read_within_the_budget_of_calls_and_the_cluster_is_looked_at_once_an_interval() {
    let fake = Fake::new(
        (0..50).map(|n| job(n, &format!("orders-{n:02}"))).chain([job(50, "test-orders"), FakeJob { state: "CANCELED", ..job(51, "old") }]).collect(),
    );
    let cluster = fake.serve().await;
    let (engine, store) = start(&cluster, pattern("*", &["test-*"]));
    until("fifty targets with a reading each", || has_readings(&store, 50)).await;
    // names of metrics are known now: what follows is every interval's
    tokio::time::sleep(INTERVAL).await;
    fake.forget();
    let began = clock::instant();
    tokio::time::sleep(INTERVAL * 4).await;
    // one may be under way at either end
    let turns = usize::try_from(began.elapsed().as_millis() / INTERVAL.as_millis()).expect("few") + 2;
    for path in ["/overview", "/jobs/overview", "/taskmanagers"] {
        let asked = fake.asked(path);
        assert!((2..=turns).contains(&asked), "{path}: {asked} times in {turns} intervals");
    }
    for number in 0..50 {
        let calls = fake.of_job(&id(number));
        assert!(calls >= VERTICES + 2 && calls <= (VERTICES + 1 + 3) * turns, "job {number}: {calls} calls in {turns} intervals");
    }
    assert!(fake.0.most.load(Ordering::SeqCst) <= 8, "{} requests at a time", fake.0.most.load(Ordering::SeqCst));
    let target = store.target("session.orders-07").expect("a target");
    let source = target.state().source.clone();
    assert_eq!((source.health, usize::try_from(source.calls_per_reading).expect("few")), (SourceHealth::Up, VERTICES + 2));
    assert!((4..=6).contains(&source.shared_calls_per_reading), "{} shared calls", source.shared_calls_per_reading);
    assert_eq!((target.display_name.as_str(), target.namespace.as_str(), target.configuration["entry"].as_str()), ("orders-07", "flink", Some("session")));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_slots_are_promised_once_however_many_jobs_want_them() {
    let fake = Fake::new((0..12).map(|n| job(n, &format!("orders-{n:02}"))).collect());
    let cluster = fake.serve().await;
    let (engine, store) = start(&cluster, pattern("*", &[]));
    until("twelve targets with a reading each", || has_readings(&store, 12)).await;
    // what all of them together are promised, and how many are told that others were
    let promised_and_told = || {
        let (mut promised, mut told) = (0, 0);
        for target in store.targets().values() {
            let state = target.state();
            // all vertices share slots: the widest counts. Every job has Enrich at 2 and wants more
            let widest = state.advice.iter().flat_map(|advice| &advice.parts).filter_map(|part| part.recommended).max().unwrap_or(0);
            promised += widest.saturating_sub(2);
            let Readings::FlinkJob(series) = &state.request.as_ref().expect("a request").readings else { panic!("another kind") };
            told += usize::from(series.latest.as_ref().is_some_and(|job| job.slots_promised_to_others.is_some()));
        }
        assert!(promised <= 3, "{promised} slots are promised, and three are free");
        (promised, told)
    };
    // those that decided before the first promise was made are told in their next turn
    until("three slots are promised, and nearly all others are told", || {
        let (promised, told) = promised_and_told();
        promised == 3 && told >= 9
    })
    .await;
    for _ in 0..3 {
        tokio::time::sleep(INTERVAL).await;
        // a reading that a busy machine missed is made up for; more than three are promised at no time
        until("they are promised to those that have them", || promised_and_told().0 == 3).await;
    }
    fake.0.free_slots.store(100, Ordering::SeqCst);
    let all_raised = || store.targets().values().all(|target| target.state().advice.as_ref().is_some_and(|advice| advice.outcome == Outcome::Change));
    until("with slots for all of them all are raised", all_raised).await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_come_go_and_are_deployed_anew_have_their_targets() {
    let fake = Fake::new(vec![job(1, "Orders"), job(2, "orders"), job(3, "bills")]);
    let cluster = fake.serve().await;
    let (engine, store) = start(&cluster, pattern("*", &["test-*"]));
    until("three targets", || has_readings(&store, 3)).await;
    assert_eq!(names(&store), ["session.bills", "session.orders", "session.orders-000001"]);
    assert_eq!(store.target("session.orders").and_then(|target| job_of(&target)), Some(id(2)), "it bears the name as it is written");
    let since = |name: &str| store.target(name).and_then(|target| Some(target.state().advice.as_ref()?.memory.since));
    let (before, past) = (since("session.bills"), store.target("session.bills").expect("a target").state().past.len());

    // deployed anew: first it is gone, then there is another id of that name
    fake.jobs().retain(|job| job.name != "bills");
    let failing = || store.target("session.bills").is_some_and(|target| target.state().source.health == SourceHealth::Down);
    until("its target stays while it is gone", failing).await;
    let gone = store.target("session.bills").expect("a target").state().source.last_error.clone().unwrap_or_default();
    assert!(gone.contains(&id(3)), "{gone}");
    fake.jobs().push(job(4, "bills"));
    until("the target reads the new job", || store.target("session.bills").and_then(|target| job_of(&target)) == Some(id(4))).await;
    assert_eq!(since("session.bills"), before, "it keeps its memory");
    assert!(store.target("session.bills").expect("a target").state().past.len() > past, "and its history");

    fake.jobs().push(job(5, "clicks"));
    fake.jobs().push(job(6, "test-clicks"));
    until("a new job has a target", || store.target("session.clicks").is_some()).await;
    assert!(store.target("session.test-clicks").is_none(), "it is excluded");

    // a cluster that does not answer has not lost its jobs
    fake.is_down(true);
    until("the entry is down", || store.entries().get("session").is_some_and(|entry| entry.health == SourceHealth::Down)).await;
    assert_eq!(names(&store).len(), 4);
    let error = store.entries()["session"].last_error.clone().unwrap_or_default();
    assert!(error.contains("503") && error.contains("(/"), "it names the place: {error}");
    fake.is_down(false);
    until("the entry is up again", || store.entries().get("session").is_some_and(|entry| entry.health == SourceHealth::Up && entry.found == 5 - 1)).await;

    // another pattern in force: what it no longer stands for goes at once, the rest keeps what it knew
    let kept = since("session.bills");
    engine.apply(Plan { targets: Vec::new(), entries: vec![entry(&cluster, pattern("*s", &["clicks", "test-*"]))] });
    assert_eq!(names(&store), ["session.bills", "session.orders", "session.orders-000001"]);
    until("it is read under the new configuration", || store.target("session.bills").is_some_and(|target| job_of(&target).is_some())).await;
    assert_eq!(since("session.bills"), kept);
    engine.apply(Plan::default());
    assert!(store.targets().is_empty() && store.entries().is_empty());
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_jobs_than_an_entry_can_stand_for_are_counted_and_named() {
    let fake = Fake::new((0..205).map(|n| FakeJob { state: "CREATED", ..job(n, &format!("job-{n:03}")) }).collect());
    let cluster = fake.serve().await;
    let (engine, store) = start(&cluster, pattern("*", &[]));
    until("the entry is up", || store.entries().get("session").is_some_and(|entry| entry.health == SourceHealth::Up)).await;
    let entry = store.entries()["session"].clone();
    assert_eq!((entry.found, entry.targets, entry.left_out, entry.left_out_names.len()), (205, 200, 5, 5));
    assert_eq!((store.targets().len(), entry.left_out_names[0].as_str()), (200, "job-200"));
    engine.stop().await;
}
