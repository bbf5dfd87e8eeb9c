//! Draining the workers of a fake Overlord: the calls with their faults, and whole drains through the engine.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod leases;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loadline::actuators::druid::DruidActuator;
use loadline::core::advice::{Action, ActionKind, Advice, ApiCall, Outcome, WorkerRef};
use loadline::core::advise;
use loadline::core::policy::PolicyInput;
use loadline::core::request::{Kind, Replicas, parse};
use loadline::engine::acting::Acting;
use loadline::engine::actuator::{Accepted, Actuator, Permit};
use loadline::engine::source::{BoxFuture, FailureKind, ReplicaSource, SourceError};
use loadline::engine::store::Store;
use loadline::engine::{Engine, TargetSpec, clock};
use loadline::sources::druid::DruidSource;
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

const INTERVAL: Duration = Duration::from_millis(100);

/// A cluster: its workers by ordinal, each with the tasks that run there.
#[derive(Default)]
struct Fake {
    workers: Vec<Worker>,
    pending: usize,
    spec: u64,
    /// Calls that change something, in order, and when they came.
    posts: Vec<(Instant, String)>,
    /// What the next such calls answer instead of doing it.
    faults: Vec<Fault>,
}

struct Worker {
    enabled: bool,
    tasks: usize,
}

#[derive(Clone)]
enum Fault {
    Status(u16),
    Hang,
    Redirect(u16, String),
    LoginPage,
    OtherAnswer,
}

type Shared = Arc<Mutex<Fake>>;

fn host(ordinal: usize) -> String {
    format!("druid-mm-{ordinal}.druid-mm.druid.svc:8091")
}

async fn workers(State(fake): State<Shared>) -> Json<Value> {
    let fake = fake.lock().expect("no panic");
    let rows = fake.workers.iter().enumerate().map(|(ordinal, worker)| {
        let tasks: Vec<String> = (0..worker.tasks).map(|task| format!("index_parallel_{ordinal}_{task}")).collect();
        let version = if worker.enabled { "0" } else { "" };
        json!({ "worker": { "scheme": "http", "host": host(ordinal), "ip": "10.0.0.1", "capacity": 4, "version": version, "category": "_default_worker_category" },
            "currCapacityUsed": worker.tasks, "currParallelIndexCapacityUsed": 0, "availabilityGroups": tasks, "runningTasks": tasks })
    });
    Json(rows.collect())
}

async fn pending(State(fake): State<Shared>) -> Json<Value> {
    let count = fake.lock().expect("no panic").pending;
    let rows = (0..count)
        .map(|n| json!({ "id": format!("index_parallel_p{n}"), "type": "index_parallel", "createdTime": "2026-01-01T00:00:00.000Z", "dataSource": "a" }));
    Json(rows.collect())
}

async fn change(State(fake): State<Shared>, Path((host, verb)): Path<(String, String)>, uri: Uri) -> Response {
    let fault = {
        let mut fake = fake.lock().expect("no panic");
        fake.posts.push((clock::instant(), uri.path().to_owned()));
        if fake.faults.is_empty() { None } else { Some(fake.faults.remove(0)) }
    };
    match fault {
        Some(Fault::Status(status)) => return (StatusCode::from_u16(status).expect("a status"), Json(json!({ "error": "no" }))).into_response(),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Redirect(status, to)) => return (StatusCode::from_u16(status).expect("a status"), [(header::LOCATION, to)]).into_response(),
        Some(Fault::LoginPage) => return Html("<html>sign in</html>").into_response(),
        Some(Fault::OtherAnswer) => return Json(json!({ "error": "no such worker" })).into_response(),
        None => {}
    }
    let mut fake = fake.lock().expect("no panic");
    let enable = verb == "enable";
    if let Some(ordinal) = (0..fake.workers.len()).find(|ordinal| self::host(*ordinal) == host) {
        fake.workers[ordinal].enabled = enable;
    }
    Json(json!({ host: if enable { "enabled" } else { "disabled" } })).into_response()
}

async fn start(fake: Fake) -> (Client, Shared, Url) {
    let fake = Arc::new(Mutex::new(fake));
    let indexer = "/druid/indexer/v1";
    let router = Router::new()
        .route(&format!("{indexer}/workers"), get(workers))
        .route(&format!("{indexer}/pendingTasks"), get(pending))
        .route(&format!("{indexer}/waitingTasks"), get(async || Json(json!([]))))
        .route(&format!("{indexer}/supervisor"), get(async || Json(json!([]))))
        .route(&format!("{indexer}/worker"), get(async || Json(json!({ "type": "default", "selectStrategy": { "type": "fillCapacity" } }))))
        .route(&format!("{indexer}/worker/{{host}}/{{verb}}"), post(change))
        .with_state(Arc::clone(&fake));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("URL");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let options = ClientOptions { timeout: Duration::from_millis(300), ..ClientOptions::default() };
    (Client::new(base.clone(), options).expect("client"), fake, base)
}

fn cluster(tasks: &[usize]) -> Fake {
    let workers: Vec<Worker> = tasks.iter().map(|tasks| Worker { enabled: true, tasks: *tasks }).collect();
    Fake { spec: workers.len() as u64, workers, ..Fake::default() }
}

fn disable(ordinal: usize) -> Action {
    let request = ApiCall { method: "POST", path: format!("/druid/indexer/v1/worker/{}/disable", host(ordinal)), body: None };
    let worker = WorkerRef { host: host(ordinal), ordinal: Some(ordinal as u64) };
    Action { worker: Some(worker), request: Some(request), ..Action::new(ActionKind::DisableWorker, "disable it".to_owned()) }
}

#[tokio::test]
async fn a_call_that_fails_says_how_and_a_page_that_is_no_answer_is_no_success() {
    for (fault, kind) in [
        (Fault::Status(409), FailureKind::Status),
        (Fault::Status(500), FailureKind::Status),
        (Fault::Status(401), FailureKind::Unauthorized),
        (Fault::Hang, FailureKind::Timeout),
        (Fault::LoginPage, FailureKind::NotJson),
        (Fault::OtherAnswer, FailureKind::Unexpected),
        (Fault::Redirect(302, "/elsewhere".to_owned()), FailureKind::Redirect),
        (Fault::Redirect(307, "http://overlord-1.example/x".to_owned()), FailureKind::Redirect),
    ] {
        let (client, fake, _) = start(Fake { faults: vec![fault], ..cluster(&[0, 0]) }).await;
        assert_eq!(DruidActuator::new(client).perform(&disable(1)).await.expect_err("a fault").kind, kind);
        assert!(fake.lock().expect("no panic").workers[1].enabled);
    }
}

#[tokio::test]
async fn an_overlord_that_does_not_lead_sends_the_call_on() {
    let (client, fake, base) = start(cluster(&[0, 0])).await;
    let leader = base.join(&format!("/druid/indexer/v1/worker/{}/disable", host(1))).expect("URL");
    // the leader is reached by another name of the same host
    let mut other = leader.clone();
    other.set_query(Some("forwarded"));
    fake.lock().expect("no panic").faults = vec![Fault::Redirect(307, other.to_string())];
    assert_eq!(DruidActuator::new(client).perform(&disable(1)).await.expect("followed"), Accepted::Sent);
    assert!(!fake.lock().expect("no panic").workers[1].enabled);
}

struct Spec(Shared);

impl ReplicaSource for Spec {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        let fake = self.0.lock().expect("no panic");
        let replicas = Replicas { spec: Some(fake.spec), ready: Some(fake.spec), ..Replicas::default() };
        Box::pin(async { Ok(replicas) })
    }
}

struct World {
    client: Client,
    fake: Shared,
    store: Arc<Store>,
    engine: Engine,
}

fn spec(client: &Client, fake: &Shared) -> TargetSpec {
    let policy = json!({ "drain": "perform", "min": 1, "max": 8, "staleAfter": "10s", "scaleDown": { "stabilization": "0s" }, "pendingGrace": "0s" });
    let given: PolicyInput = serde_json::from_value(policy.clone()).expect("a policy");
    TargetSpec {
        name: "mm".to_owned(),
        display_name: "mm".to_owned(),
        namespace: String::new(),
        cluster: None,
        kind: Kind::DruidWorkers,
        policy: given.resolve(Kind::DruidWorkers).expect("a valid policy"),
        given,
        interval: INTERVAL,
        timeout: Duration::from_secs(1),
        configuration: json!({ "policy": policy }),
        source_key: "mm".to_owned(),
        source: Arc::new(DruidSource::new(client.clone())),
        replicas: Some(Arc::new(Spec(Arc::clone(fake)))),
        actuator: Some(Arc::new(DruidActuator::new(client.clone()))),
    }
}

async fn world(fake: Fake) -> World {
    let (client, fake, _) = start(fake).await;
    let store = Arc::new(Store::new());
    let engine = Engine::new(Arc::clone(&store), Arc::new(clock::now));
    engine.apply(vec![spec(&client, &fake)]);
    World { client, fake, store, engine }
}

impl World {
    fn with<T>(&self, change: impl FnOnce(&mut Fake) -> T) -> T {
        change(&mut self.fake.lock().expect("no panic"))
    }

    fn advice(&self) -> Option<Arc<Advice>> {
        self.store.target("mm").and_then(|target| target.state().advice.clone())
    }

    fn acting(&self) -> Acting {
        self.store.target("mm").expect("a target").acting(Acting::clone)
    }

    /// Lets some decisions pass. At any moment the count may only have fallen past workers that are disabled and empty.
    async fn pass(&self, rounds: u32) {
        for _ in 0..rounds * 4 {
            tokio::time::sleep(INTERVAL / 4).await;
            let Some(advice) = self.advice() else { continue };
            let recommended = usize::try_from(advice.recommended.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            self.with(|fake| {
                for (ordinal, worker) in fake.workers.iter().enumerate().skip(recommended) {
                    assert!(!worker.enabled && worker.tasks == 0, "{recommended} recommended while worker {ordinal} may have work");
                }
            });
        }
    }

    /// The same until something has come about, and three decisions more.
    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let limit = clock::instant() + Duration::from_secs(20);
        while !is_so(self) {
            assert!(clock::instant() < limit, "not within 20 s: {what}; {:?}", self.verbs());
            self.pass(1).await;
        }
        self.pass(3).await;
    }

    fn recommended(&self) -> Option<u64> {
        self.advice().and_then(|advice| advice.recommended)
    }

    fn verbs(&self) -> Vec<String> {
        self.with(|fake| {
            fake.posts.iter().map(|(_, path)| path.trim_start_matches("/druid/indexer/v1/worker/druid-mm-").replace(".druid-mm.druid.svc:8091", "")).collect()
        })
    }
}

#[tokio::test]
async fn workers_are_disabled_once_and_the_count_falls_only_when_they_are_empty() {
    let world = world(cluster(&[2, 2, 0, 1])).await;
    world.until("two workers are disabled", |world| world.verbs().len() == 2).await;
    assert_eq!(world.verbs(), ["3/disable", "2/disable"], "two workers hold it all within the headroom");
    let advice = world.advice().expect("an advice");
    assert_eq!((advice.outcome, advice.recommended), (Outcome::Hold, Some(4)), "worker 3 still runs a task");
    assert!(world.acting().under_way.is_empty(), "the readings show both as disabled");

    world.with(|fake| fake.workers[3].tasks = 0);
    world.until("both go", |world| world.recommended() == Some(2)).await;
    assert_eq!(world.verbs().len(), 2, "nothing is sent twice");
}

#[tokio::test]
async fn a_restart_forgets_no_drain_and_gives_the_workers_back_when_there_is_work() {
    let mut world = world(cluster(&[2, 2, 0, 1])).await;
    world.until("two workers are disabled", |world| world.verbs().len() == 2).await;
    world.engine.stop().await;
    world.store = Arc::new(Store::new());
    world.engine = Engine::new(Arc::clone(&world.store), Arc::new(clock::now));
    world.engine.apply(vec![spec(&world.client, &world.fake)]);
    world.until("it decides again", |world| world.advice().is_some()).await;
    assert_eq!(world.verbs(), ["3/disable", "2/disable"], "what is disabled is read from Druid");

    // six tasks wait and four slots are free on the workers that take tasks
    world.with(|fake| fake.pending = 6);
    world.until("a worker is given back", |world| world.verbs().len() > 2).await;
    assert_eq!(world.verbs(), ["3/disable", "2/disable", "2/enable"], "the lowest ordinal first, and no more than needed");
    assert_eq!(world.recommended(), Some(4), "nothing is bought");
}

#[tokio::test]
async fn a_worker_that_cannot_be_told_is_tried_again_at_growing_distances_and_keeps_the_count() {
    let world = world(Fake { faults: vec![Fault::Status(500), Fault::Hang], ..cluster(&[1, 0]) }).await;
    world.until("it is disabled in the end", |world| world.recommended() == Some(1)).await;
    assert_eq!(world.verbs(), ["1/disable", "1/disable", "1/disable"]);
    let at: Vec<Instant> = world.with(|fake| fake.posts.iter().map(|(at, _)| *at).collect());
    let gaps: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // nothing is tried at the next decision
    assert!(gaps[0] >= INTERVAL * 3 / 2 && gaps[1] >= INTERVAL * 7 / 2, "{gaps:?}");
    let counts = world.acting().counts;
    let of = |result| counts.get(&(ActionKind::DisableWorker, result)).copied();
    assert_eq!((of("status"), of("timeout"), of("accepted")), (Some(1), Some(1), Some(1)));
}

#[tokio::test]
async fn nothing_is_disabled_while_ready_workers_are_missing_from_the_list() {
    let mut fake = cluster(&[1, 0, 0]);
    fake.spec = 4;
    let world = world(fake).await;
    world.until("it decides", |world| world.advice().is_some()).await;
    assert_eq!(world.verbs(), Vec::<String>::new());
}

#[tokio::test]
async fn of_two_instances_one_acts_and_the_other_says_that_it_is_not_the_active_one() {
    let (client, fake, _) = start(cluster(&[2, 2, 0, 1])).await;
    let api = leases::Api::start().await;
    let mut instances = Vec::new();
    for identity in ["a", "b"] {
        let (lease, stop, store) = (api.lease(identity), CancellationToken::new(), Arc::new(Store::new()));
        let engine = Engine::new(Arc::clone(&store), Arc::new(clock::now)).with_permit(Arc::clone(&lease) as Arc<dyn Permit>);
        engine.apply(vec![spec(&client, &fake)]);
        let task = tokio::spawn(Arc::clone(&lease).run(stop.clone()));
        instances.push((identity, World { client: client.clone(), fake: Arc::clone(&fake), store, engine }, stop, task));
    }
    instances[0].1.until("two workers are disabled", |world| world.verbs().len() == 2).await;
    instances[0].1.pass(5).await;
    assert_eq!(instances[0].1.verbs(), ["3/disable", "2/disable"], "each call is sent once");
    let active = instances.iter().position(|(_, world, ..)| world.acting().last.is_some()).expect("one acts");
    let (acts, waits) = (&instances[active], &instances[1 - active]);
    assert_eq!(waits.1.acting().last, None);
    let why = format!("not the active instance: {} holds the lease streams/loadline", acts.0);
    assert_eq!((acts.1.acting().notice, waits.1.acting().notice), (None, Some(why)));
    assert_eq!(waits.1.recommended(), Some(4), "it advises as ever");

    // the one that acts ends; there is work again, and the other one gives a worker back
    acts.1.engine.stop().await;
    acts.2.cancel();
    fake.lock().expect("no panic").pending = 6;
    waits.1.until("a worker is given back", |world| world.verbs().len() > 2).await;
    assert_eq!(waits.1.verbs(), ["3/disable", "2/disable", "2/enable"]);
    assert_eq!(waits.1.acting().notice, None);
    waits.3.abort();
}

#[test]
fn a_host_is_one_part_of_the_path_whatever_it_is_called() {
    let body = json!({
        "kind": "druidWorkers", "replicas": { "spec": 2, "ready": 2 },
        "snapshot": {
            "workers": [
                { "host": "druid-mm-0:8091", "capacity": 4, "used": 1 },
                { "host": "[fd00::1]:8091/../x?y", "ordinal": 1, "capacity": 4, "used": 0 }
            ],
            "pending": { "count": 0 }
        }
    });
    let request = parse(body.to_string().as_bytes(), clock::now()).expect("a request");
    let advice = advise(&request);
    let step = advice.actions.iter().find(|step| step.action == ActionKind::DisableWorker).expect("it is disabled first");
    let path = step.request.as_ref().map(|call| call.path.as_str());
    assert_eq!(path, Some("/druid/indexer/v1/worker/%5Bfd00::1%5D:8091%2F..%2Fx%3Fy/disable"));
}

#[test]
fn a_drain_leaves_as_many_workers_that_take_tasks_as_a_scheduled_floor_asks_for() {
    // somebody has disabled worker 1: it takes the place of one of those that go, once it is seen to take tasks
    let workers: Vec<Value> = (0..6).map(|n| json!({ "host": host(n), "capacity": 4, "used": u64::from(n == 0), "enabled": n != 1 })).collect();
    let body = json!({
        "kind": "druidWorkers", "now": "2026-11-30T10:00:00Z", "replicas": { "spec": 6, "ready": 6 },
        "snapshot": { "observedAt": "2026-11-30T09:59:55Z", "workers": workers, "pending": { "count": 0 } },
        "policy": { "min": 1, "max": 8, "floors": [{ "period": "09:00-11:00", "min": 4 }] }
    });
    let request = parse(body.to_string().as_bytes(), clock::now()).expect("a request");
    let advice = advise(&request);
    let of = |kind| advice.actions.iter().filter(|step| step.action == kind).filter_map(|step| step.worker.as_ref()?.ordinal).collect::<Vec<u64>>();
    assert_eq!((of(ActionKind::EnableWorker), of(ActionKind::DisableWorker)), (vec![1], vec![5]), "{:?}", advice.actions);
}
