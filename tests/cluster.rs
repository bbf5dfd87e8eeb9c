//! Targets of one Druid cluster know of each other: what supervisors want next is counted by the workers, and what the
//! workers are about to have is counted by the supervisors.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline::core::advice::Advice;
use loadline::core::cluster::{Peer, relate};
use loadline::core::policy::PolicyInput;
use loadline::core::request::{Kind, Readings, Replicas, parse};
use loadline::core::units::Timestamp;
use loadline::engine::source::{BoxFuture, Reading, ReplicaSource, Snapshot, Source, SourceError};
use loadline::engine::store::Store;
use loadline::engine::{Clock, Engine, TargetSpec};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_secs(15);

fn clock() -> Clock {
    let start = Instant::now();
    let base: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
    Arc::new(move || base + jiff::SignedDuration::try_from(start.elapsed()).expect("a short time"))
}

/// A source that gives the reading it was told last, as of now.
struct Told {
    kind: Kind,
    reading: Mutex<Value>,
    clock: Clock,
}

impl Source for Told {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(async {
            let mut reading = self.reading.lock().expect("no panic").clone();
            reading["observedAt"] = json!((self.clock)());
            let snapshot = match self.kind {
                Kind::DruidWorkers => Snapshot::DruidWorkers(serde_json::from_value(reading).expect("workers")),
                _ => Snapshot::DruidSupervisor(serde_json::from_value(reading).expect("a supervisor")),
            };
            Ok(Reading { snapshot, calls: 1 })
        })
    }
}

struct Counts(Arc<Mutex<u64>>);

impl ReplicaSource for Counts {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(async { Ok(Replicas { spec: Some(*self.0.lock().expect("no panic")), ..Replicas::default() }) })
    }
}

/// A cluster of workers with four slots each, and one supervisor.
struct Cluster {
    store: Arc<Store>,
    engine: Engine,
    workers: Arc<Told>,
    supervisor: Arc<Told>,
    replicas: Arc<Mutex<u64>>,
}

impl Cluster {
    fn start(names: [Option<&str>; 2], workers_policy: &Value) -> Self {
        let (clock, store) = (clock(), Arc::new(Store::new()));
        let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
        let told = |kind| Arc::new(Told { kind, reading: Mutex::new(Value::Null), clock: Arc::clone(&clock) });
        let cluster = Self { store, engine, workers: told(Kind::DruidWorkers), supervisor: told(Kind::DruidSupervisor), replicas: Arc::new(Mutex::new(2)) };
        cluster.runs(2, 4);
        let counts: Arc<dyn ReplicaSource> = Arc::new(Counts(Arc::clone(&cluster.replicas)));
        cluster.engine.apply(vec![
            spec("workers", names[0], Arc::clone(&cluster.workers), Some(counts), workers_policy),
            spec(
                "orders",
                names[1],
                Arc::clone(&cluster.supervisor),
                None,
                &json!({ "max": 20, "perReplicaPerSecond": 1000, "pause": "0s", "minReadings": 1 }),
            ),
        ]);
        cluster
    }

    /// So many workers, and a supervisor of so many tasks that needs ten.
    fn runs(&self, workers: u64, tasks: u64) {
        let total = workers * 4;
        let list: Vec<Value> =
            (0..workers).map(|n| json!({ "host": format!("mm-{n}:8091"), "capacity": 4, "used": tasks.saturating_sub(n * 4).min(4) })).collect();
        let streaming = json!([{ "supervisor": "orders", "taskCount": tasks, "replicas": 1, "rolloverInSeconds": 3000 }]);
        *self.workers.reading.lock().expect("no panic") =
            json!({ "workers": list, "pending": { "count": tasks.saturating_sub(total), "oldestSeconds": 10 }, "streaming": streaming });
        *self.supervisor.reading.lock().expect("no panic") = json!({ "supervisor": "orders", "state": "RUNNING", "stream": "kafka", "taskCount": tasks,
            "readingTasks": tasks.min(total), "publishingTasks": 0, "partitions": 40, "backlogRecords": 0, "arrivalPerSecond": 8000, "workerSlots": { "total": total, "usedByOthers": 0 } });
        *self.replicas.lock().expect("no panic") = workers;
    }

    fn advice(&self, name: &str) -> Arc<Advice> {
        self.store.target(name).expect("a target").state().advice.clone().expect("an advice")
    }
}

fn spec(name: &str, cluster: Option<&str>, source: Arc<Told>, replicas: Option<Arc<dyn ReplicaSource>>, policy: &Value) -> TargetSpec {
    let given: PolicyInput = serde_json::from_value(policy.clone()).expect("a policy");
    TargetSpec {
        name: name.to_owned(),
        display_name: name.to_owned(),
        namespace: String::new(),
        kind: source.kind,
        cluster: cluster.map(str::to_owned),
        policy: given.resolve(source.kind).expect("a valid policy"),
        given,
        interval: INTERVAL,
        timeout: Duration::from_secs(30),
        configuration: json!({ "policy": policy }),
        source_key: name.to_owned(),
        source,
        actuator: None,
        replicas,
    }
}

fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).chain(advice.limits.iter().map(|limit| limit.code.name())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_needs_more_slots_gets_them_before_any_task_is_pending() {
    let cluster = Cluster::start([Some("main"), Some("main")], &json!({ "max": 8 }));
    sleep(INTERVAL * 5).await;
    // ten tasks are wanted, eight slots are there: one more worker, and then all ten
    let (workers, orders) = (cluster.advice("workers"), cluster.advice("orders"));
    assert_eq!((workers.current, workers.recommended), (Some(2), Some(3)), "{:?}", workers.reasons);
    assert!(
        workers.reasons.iter().any(|reason| serde_json::to_value(reason).expect("json")["values"] == json!({ "slots": 6, "supervisors": ["orders"] })),
        "{:?}",
        workers.reasons
    );
    assert_eq!((orders.current, orders.recommended), (Some(4), Some(10)), "{:?} {:?}", orders.reasons, orders.limits);

    // both are done: nothing more is asked for
    cluster.runs(3, 10);
    sleep(INTERVAL * 5).await;
    let (workers, orders) = (cluster.advice("workers"), cluster.advice("orders"));
    assert_eq!((workers.recommended, orders.recommended), (Some(3), Some(10)), "{:?} {:?}", workers.reasons, orders.reasons);
    cluster.engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slots_that_the_workers_may_not_have_cut_the_raise() {
    let cluster = Cluster::start([Some("main"), Some("main")], &json!({ "max": 2 }));
    sleep(INTERVAL * 5).await;
    let (workers, orders) = (cluster.advice("workers"), cluster.advice("orders"));
    assert_eq!(workers.recommended, Some(2), "{:?}", workers.reasons);
    assert_eq!((orders.wanted, orders.recommended), (Some(10), Some(8)), "{:?}", orders.limits);
    assert!(codes(&orders).contains(&"WorkerSlots"));
    cluster.engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn targets_of_different_clusters_or_of_none_do_not_meet() {
    for names in [[Some("main"), Some("other")], [None, None]] {
        let cluster = Cluster::start(names, &json!({ "max": 8 }));
        sleep(INTERVAL * 5).await;
        let (workers, orders) = (cluster.advice("workers"), cluster.advice("orders"));
        assert_eq!((workers.recommended, orders.recommended), (Some(2), Some(8)), "{names:?}");
        cluster.engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_learnt_of_the_others_stands_in_the_question() {
    let cluster = Cluster::start([Some("main"), Some("main")], &json!({ "max": 8 }));
    sleep(INTERVAL * 5).await;
    let request = |name: &str| cluster.store.target(name).expect("a target").state().request.clone().expect("a question");
    for name in ["workers", "orders"] {
        let asked = request(name);
        let body = serde_json::to_vec(&asked.body()).expect("a body");
        let again = parse(&body, asked.now).expect("a valid question");
        assert_eq!(loadline::core::advise(&again).recommended, cluster.advice(name).recommended, "{name}");
    }
    let Readings::DruidSupervisor(series) = &request("orders").readings else { unreachable!("a supervisor") };
    assert_eq!(series.latest.as_ref().and_then(|latest| latest.worker_slots?.coming), Some(4));
    cluster.engine.stop().await;
}

#[test]
fn slots_that_are_there_are_not_coming_as_well_whoever_lists_the_workers() {
    let now: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
    let ask = |body: Value| parse(&serde_json::to_vec(&body).expect("a body"), now).expect("a question");
    let list: Vec<Value> = ["main", "other"]
        .iter()
        .flat_map(|pool| (0..5).map(move |n| json!({ "host": format!("{pool}-{n}:8091"), "capacity": 4, "used": 2, "category": pool })))
        .collect();
    // two targets on one Overlord, each with its own pool; one of them is to grow by two workers
    let workers = |pool: &str, pending: u64| {
        let tasks: Vec<Value> = (0..pending).map(|n| json!({ "id": format!("t{n}"), "category": pool })).collect();
        ask(json!({ "kind": "druidWorkers", "now": now, "replicas": { "spec": 5, "ready": 5 }, "policy": { "max": 20, "pools": { pool: {} } },
            "snapshot": { "observedAt": now, "workers": list, "pending": { "count": pending, "oldestSeconds": 60, "tasks": tasks } } }))
    };
    let coming = |pending: u64| {
        let requests = [workers("main", 0), workers("other", pending)];
        let answers: Vec<Advice> = requests.iter().map(loadline::core::advise).collect();
        let peers: Vec<Peer<'_>> = requests.iter().zip(&answers).map(|(request, advice)| Peer { request, advice }).collect();
        let mut question =
            ask(json!({ "kind": "druidSupervisor", "now": now, "snapshot": { "observedAt": now, "workerSlots": { "total": 40, "usedByOthers": 12 } } }));
        relate(&mut question.readings, &peers);
        let Readings::DruidSupervisor(series) = &question.readings else { unreachable!("a supervisor") };
        series.latest.as_ref().and_then(|latest| latest.worker_slots?.coming)
    };
    assert_eq!(coming(0), None);
    assert_eq!(coming(18), Some(8), "ten slots are free, and eight tasks take two workers");
}
