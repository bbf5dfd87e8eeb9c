//! Acting on advice, in paused time: what is sent, when it is sent again, and what keeps it from being sent.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline::core::advice::{Action, ActionKind};
use loadline::core::kinds::FlinkJobSnapshot;
use loadline::core::policy::PolicyInput;
use loadline::core::request::Kind;
use loadline::core::units::{Timestamp, shifted};
use loadline::engine::acting::Acting;
use loadline::engine::actuator::{Accepted, Actuator, Effect, Followed, Permit};
use loadline::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use loadline::engine::store::Store;
use loadline::engine::{Clock, Engine, TargetSpec};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_secs(10);

/// A clock that follows the paused one of the runtime.
fn clock() -> Clock {
    let start = Instant::now();
    let base: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
    Arc::new(move || base + jiff::SignedDuration::try_from(start.elapsed()).expect("a short time"))
}

/// A job whose one vertex is saturated at parallelism 2, and the system that can be told to change it.
struct Job {
    clock: Clock,
    answers: AtomicBool,
    state: Mutex<State>,
}

struct State {
    parallelism: u64,
    /// Sent so far, with the time since the start.
    sent: Vec<(Duration, Value)>,
    start: Instant,
    able: Result<(), SourceError>,
    call: Says,
    /// Whether what is asked for comes about at the next reading.
    obeys: bool,
    followed: Option<Followed>,
}

#[derive(Clone, Copy, PartialEq)]
enum Says {
    Accepts,
    Refuses(FailureKind),
    Hangs,
}

impl Job {
    fn new(clock: &Clock) -> Arc<Self> {
        let state = State { parallelism: 2, sent: Vec::new(), start: Instant::now(), able: Ok(()), call: Says::Accepts, obeys: true, followed: None };
        Arc::new(Self { clock: Arc::clone(clock), answers: AtomicBool::new(true), state: Mutex::new(state) })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    fn sent(&self) -> Vec<u64> {
        self.with(|state| state.sent.iter().map(|(at, _)| at.as_secs()).collect())
    }

    fn reading(&self) -> Snapshot {
        let (now, parallelism) = ((self.clock)(), self.with(|state| state.parallelism));
        let vertex = json!({ "id": "v", "name": "window", "parallelism": parallelism, "busyRatio": { "max": if parallelism > 2 { 0.6 } else { 1.0 } },
            "recordsInPerSecond": 1000.0, "pendingRecords": 0 });
        let job = json!({ "observedAt": now, "jobId": "j", "state": "RUNNING", "runningSince": shifted(now, -3600.0), "taskManagers": 2, "slotsPerTaskManager": 4, "vertices": [vertex] });
        Snapshot::FlinkJob(serde_json::from_value::<FlinkJobSnapshot>(job).expect("a reading"))
    }
}

impl Source for Job {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(async {
            let answers = self.answers.load(Ordering::Relaxed);
            if answers { Ok(Reading { snapshot: self.reading(), calls: 1 }) } else { Err(SourceError::new(FailureKind::Unreachable, "nobody there")) }
        })
    }
}

impl Actuator for Job {
    fn performs(&self, action: ActionKind) -> bool {
        action == ActionKind::SetParallelism
    }

    fn able<'a>(&'a self, _: &'a Snapshot) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async { self.with(|state| state.able.clone()) })
    }

    fn perform<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<Accepted, SourceError>> {
        Box::pin(async {
            let body = action.request.as_ref().and_then(|call| call.body.clone()).expect("a body");
            let says = self.with(|state| {
                state.sent.push((state.start.elapsed(), body.clone()));
                if state.call == Says::Accepts && state.obeys {
                    state.parallelism = body.pointer("/v/parallelism/upperBound").and_then(Value::as_u64).expect("a wish");
                }
                state.call
            });
            match says {
                Says::Accepts => Ok(Accepted::Sent),
                Says::Refuses(kind) => Err(SourceError::new(kind, "HTTP 500")),
                Says::Hangs => std::future::pending().await,
            }
        })
    }

    fn effect(&self, action: &Action, snapshot: &Snapshot) -> Effect {
        let wish = action.request.as_ref().and_then(|call| call.body.as_ref()?.pointer("/v/parallelism/upperBound")?.as_u64());
        let Snapshot::FlinkJob(job) = snapshot else { return Effect::Gone };
        if job.vertices.first().map(|vertex| vertex.parallelism) == wish { Effect::Seen } else { Effect::NotYet }
    }

    fn follow<'a>(&'a self, _: &'a Action) -> BoxFuture<'a, Option<Followed>> {
        Box::pin(async {
            sleep(Duration::from_secs(3)).await;
            self.with(|state| state.followed)
        })
    }

    fn effect_within(&self) -> Duration {
        Duration::from_secs(600)
    }
}

/// A permit that can be taken away.
struct Switch(Mutex<Result<Option<Duration>, String>>);

impl Permit for Switch {
    fn check(&self) -> Result<Option<Duration>, String> {
        self.0.lock().expect("no panic").clone()
    }

    fn identity(&self) -> &'static str {
        "pod-a_1"
    }
}

struct World {
    job: Arc<Job>,
    store: Arc<Store>,
    engine: Engine,
    permit: Arc<Switch>,
}

fn spec(job: &Arc<Job>, policy: Value) -> TargetSpec {
    let given: PolicyInput = serde_json::from_value(policy.clone()).expect("a policy");
    TargetSpec {
        name: "orders".to_owned(),
        display_name: "orders".to_owned(),
        namespace: String::new(),
        cluster: None,
        kind: Kind::FlinkJob,
        policy: given.resolve(Kind::FlinkJob).expect("a valid policy"),
        given,
        interval: INTERVAL,
        timeout: Duration::from_secs(5),
        configuration: json!({ "policy": policy }),
        source_key: "orders".to_owned(),
        source: Arc::clone(job) as Arc<dyn Source>,
        replicas: None,
        actuator: Some(Arc::clone(job) as Arc<dyn Actuator>),
    }
}

fn policy() -> Value {
    json!({ "apply": "perform", "staleAfter": "30s", "missingBacklogIsZero": true })
}

/// A world before its first reading.
fn world(prepare: impl FnOnce(&mut State), policy: Value) -> World {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let job = Job::new(&clock);
    job.with(prepare);
    let permit = Arc::new(Switch(Mutex::new(Ok(None))));
    let engine = Engine::new(Arc::clone(&store), clock).with_permit(Arc::clone(&permit) as Arc<dyn Permit>);
    engine.apply(vec![spec(&job, policy)]);
    World { job, store, engine, permit }
}

impl World {
    fn acting(&self) -> Acting {
        self.store.target("orders").expect("a target").acting(Acting::clone)
    }

    /// Until the first call: a few readings come before the first raise.
    async fn first_call(&self) {
        let limit = Instant::now() + INTERVAL * 20;
        while self.job.sent().is_empty() {
            assert!(Instant::now() < limit, "nothing is sent");
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn notice(&self) -> String {
        self.acting().notice.unwrap_or_default()
    }

    fn count(&self, result: &'static str) -> Option<u64> {
        self.acting().counts.get(&(ActionKind::SetParallelism, result)).copied()
    }
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_sent_once_and_told_with_its_downtime() {
    let world = world(|state| state.followed = Some(Followed { downtime_seconds: Some(0.4) }), policy());
    world.first_call().await;
    sleep(INTERVAL * 6).await;
    assert_eq!(world.job.sent().len(), 1, "{:?}", world.job.sent());
    let acting = world.acting();
    let last = acting.last.clone().expect("it acted");
    assert_eq!((last.action, last.result, last.by.as_str(), last.error.as_deref()), (ActionKind::SetParallelism, "accepted", "pod-a_1", None));
    assert_eq!(last.request, "PUT /jobs/j/resource-requirements");
    assert!(last.effective_at.is_some_and(|at| at > last.at), "{last:?}");
    assert_eq!(last.downtime_seconds, Some(0.4));
    assert!(acting.under_way.is_empty() && acting.notice.is_none());
    assert_eq!(world.count("accepted"), Some(1));
    // what was measured is what the next decisions reckon with
    let state = world.store.target("orders").expect("a target").state();
    assert_eq!(state.advice.as_ref().and_then(|advice| advice.memory.restart_seconds), Some(0.4));
}

#[tokio::test(start_paused = true)]
async fn while_a_wish_is_under_way_nothing_is_sent_and_after_ten_minutes_it_is_named_and_sent_again_later() {
    let world = world(|state| state.obeys = false, policy());
    world.first_call().await;
    sleep(Duration::from_secs(585)).await;
    assert_eq!(world.job.sent().len(), 1, "one wish is under way");
    assert_eq!(world.acting().under_way.len(), 1);
    sleep(Duration::from_secs(25)).await;
    let last = world.acting().last.expect("it acted");
    assert_eq!((last.result, last.effective_at), ("noEffect", None));
    assert_eq!((world.count("accepted"), world.count("noEffect")), (Some(1), Some(1)));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.job.sent().len(), 2, "a new decision sends it again");
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_tried_again_by_later_decisions_at_growing_distances() {
    let world = world(|state| state.call = Says::Refuses(FailureKind::Status), policy());
    world.first_call().await;
    sleep(Duration::from_secs(600)).await;
    let sent = world.job.sent();
    let gaps: Vec<u64> = sent.windows(2).map(|pair| (pair[1] - pair[0]) / INTERVAL.as_secs()).collect();
    assert_eq!(gaps, [2, 4, 8, 16], "{sent:?}");
    assert_eq!(world.count("status"), Some(5));
    let last = world.acting().last.expect("it acted");
    assert_eq!((last.result, last.error.as_deref()), ("status", Some("HTTP 500")));
    // once it is taken the distance is forgotten
    world.job.with(|state| state.call = Says::Accepts);
    sleep(Duration::from_secs(400)).await;
    assert_eq!(world.acting().last.map(|last| last.result), Some("accepted"));
}

#[tokio::test(start_paused = true)]
async fn a_system_that_cannot_be_told_is_only_advised_and_that_is_said() {
    let world = world(|state| state.able = Err(SourceError::new(FailureKind::Unsupported, "the scheduler is not adaptive")), policy());
    sleep(INTERVAL * 10).await;
    assert_eq!(world.job.sent(), Vec::<u64>::new());
    assert_eq!(world.notice(), "the scheduler is not adaptive");
    let state = world.store.target("orders").expect("a target").state();
    assert!(state.advice.as_ref().is_some_and(|advice| advice.actions.iter().any(|action| action.action == ActionKind::SetParallelism)), "it still advises");
    world.job.with(|state| state.able = Ok(()));
    sleep(INTERVAL * 2).await;
    assert_eq!((world.job.sent().len(), world.notice().as_str()), (1, ""));
}

#[tokio::test(start_paused = true)]
async fn without_the_permit_nothing_is_sent_and_with_it_nothing_is_lost() {
    let world = world(|_| {}, policy());
    *world.permit.0.lock().expect("no panic") = Err("not the active instance".to_owned());
    sleep(INTERVAL * 10).await;
    assert_eq!((world.job.sent().len(), world.notice().as_str()), (0, "not the active instance"));
    *world.permit.0.lock().expect("no panic") = Ok(Some(Duration::from_secs(10)));
    sleep(INTERVAL).await;
    assert_eq!((world.job.sent().len(), world.notice().as_str()), (1, ""));
}

#[tokio::test(start_paused = true)]
async fn a_call_has_no_longer_than_the_permit() {
    let world = world(|state| state.call = Says::Hangs, policy());
    *world.permit.0.lock().expect("no panic") = Ok(Some(Duration::from_secs(2)));
    world.first_call().await;
    sleep(Duration::from_secs(3)).await;
    let last = world.acting().last.expect("it acted");
    assert_eq!((last.result, last.error.as_deref()), ("timeout", Some("the permit to act ended before the answer: whether it was performed is not known")));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_paused_while_readings_fail_or_where_only_advice_is_asked_for() {
    let mut paused = policy();
    paused["paused"] = json!(true);
    let paused = world(|_| {}, paused);
    sleep(INTERVAL * 10).await;
    assert_eq!(paused.job.sent(), Vec::<u64>::new(), "paused");

    let mut fallback = policy();
    fallback["onUnknown"] = json!({ "fallback": 4, "afterFailures": 2 });
    let failing = world(|_| {}, fallback);
    failing.job.answers.store(false, Ordering::Relaxed);
    sleep(INTERVAL * 6).await;
    assert_eq!(failing.job.sent(), Vec::<u64>::new(), "no reading");
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_what_is_under_way() {
    let world = world(|state| state.obeys = false, policy());
    world.first_call().await;
    sleep(INTERVAL).await;
    let mut changed = policy();
    changed["max"] = json!(50);
    world.engine.apply(vec![spec(&world.job, changed)]);
    sleep(INTERVAL * 6).await;
    assert_eq!(world.job.sent().len(), 1, "it is still under way");
    world.job.with(|state| state.parallelism = state.sent.first().and_then(|(_, body)| body.pointer("/v/parallelism/upperBound")?.as_u64()).expect("a wish"));
    sleep(INTERVAL * 2).await;
    assert!(world.acting().last.is_some_and(|last| last.effective_at.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_call_for_a_moment_and_tells_that_its_result_is_unknown() {
    let world = world(|state| state.call = Says::Hangs, policy());
    world.first_call().await;
    let began = Instant::now();
    world.engine.stop().await;
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    let last = world.acting().last.expect("it is told");
    assert_eq!(last.error.as_deref(), Some("the service stopped before the answer: whether it was performed is not known"));
}
