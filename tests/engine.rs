//! The engine in paused time: schedules, isolation, growing distances, reload.

#![expect(clippy::expect_used, clippy::unchecked_time_subtraction, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline::core::advice::Outcome;
use loadline::core::kinds::BacklogSnapshot;
use loadline::core::policy::PolicyInput;
use loadline::core::request::{Kind, Replicas};
use loadline::core::units::Timestamp;
use loadline::engine::source::{BoxFuture, FailureKind, Reading, ReplicaSource, Snapshot, Source, SourceError};
use loadline::engine::store::{SourceHealth, Store};
use loadline::engine::{Clock, Engine, TargetSpec};
use serde_json::json;
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_secs(15);

/// A clock that follows the paused one of the runtime.
fn clock() -> Clock {
    let start = Instant::now();
    let base: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
    Arc::new(move || base + jiff::SignedDuration::try_from(start.elapsed()).expect("a short time"))
}

#[derive(Clone, Copy)]
enum Says {
    Backlog(i64),
    Hangs,
    Fails(Option<u64>),
}

/// A source that says what it is told to, and counts how often and when it is asked.
struct Scripted {
    says: Mutex<Says>,
    asked: AtomicU32,
    at: Mutex<Vec<Duration>>,
    start: Instant,
    clock: Clock,
}

impl Scripted {
    fn new(says: Says, clock: &Clock) -> Arc<Self> {
        Arc::new(Self { says: Mutex::new(says), asked: AtomicU32::new(0), at: Mutex::default(), start: Instant::now(), clock: Arc::clone(clock) })
    }

    fn says(&self, says: Says) {
        *self.says.lock().expect("no panic") = says;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Source for Scripted {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.at.lock().expect("no panic").push(self.start.elapsed());
            let says = *self.says.lock().expect("no panic");
            match says {
                Says::Backlog(backlog) => {
                    let snapshot =
                        Snapshot::Backlog(BacklogSnapshot { observed_at: Some((self.clock)()), backlog: Some(backlog), ..BacklogSnapshot::default() });
                    Ok(Reading { snapshot, calls: 1 })
                }
                Says::Hangs => std::future::pending().await,
                Says::Fails(after) => {
                    let mut error = SourceError::new(FailureKind::Unreachable, "nobody there");
                    error.retry_after = after.map(Duration::from_secs);
                    Err(error)
                }
            }
        })
    }
}

struct Counts(u64);

impl ReplicaSource for Counts {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(async { Ok(Replicas { spec: Some(self.0), ..Replicas::default() }) })
    }
}

fn spec(name: &str, source: Arc<Scripted>, policy: serde_json::Value) -> TargetSpec {
    let given: PolicyInput = serde_json::from_value(policy.clone()).expect("a policy");
    TargetSpec {
        name: name.to_owned(),
        display_name: name.to_owned(),
        namespace: String::new(),
        kind: Kind::Backlog,
        cluster: None,
        policy: given.resolve(Kind::Backlog).expect("a valid policy"),
        given,
        interval: INTERVAL,
        timeout: Duration::from_secs(30),
        configuration: json!({ "policy": policy }),
        source_key: name.to_owned(),
        source,
        replicas: Some(Arc::new(Counts(3))),
        actuator: None,
    }
}

fn policy() -> serde_json::Value {
    json!({ "perReplicaBacklog": 100, "staleAfter": "60s", "max": 50 })
}

#[tokio::test(start_paused = true)]
async fn one_source_that_hangs_delays_no_other_target() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let sources: Vec<Arc<Scripted>> = (0..20).map(|n| Scripted::new(if n == 0 { Says::Hangs } else { Says::Backlog(500) }, &clock)).collect();
    engine.apply(sources.iter().enumerate().map(|(n, source)| spec(&format!("target-{n}"), Arc::clone(source), policy())).collect::<Vec<_>>());
    sleep(INTERVAL * 20).await;
    for source in &sources[1..] {
        assert!((19..=21).contains(&source.asked()), "{} readings in 20 intervals", source.asked());
        let at = source.at.lock().expect("no panic").clone();
        for pair in at.windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= INTERVAL - Duration::from_secs(2) && gap <= INTERVAL + Duration::from_secs(2), "{gap:?}");
        }
    }
    let hanging = store.target("target-0").expect("a target").state();
    assert_eq!(hanging.source.health, SourceHealth::Down);
    assert_eq!(hanging.advice.as_ref().map(|advice| (advice.outcome, advice.recommended)), Some((Outcome::Hold, Some(3))));
    let well = store.target("target-7").expect("a target").state();
    assert_eq!(well.advice.as_ref().and_then(|advice| advice.recommended), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_failing_source_is_asked_at_growing_distances_and_seen_at_once_when_it_is_back() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let source = Scripted::new(Says::Fails(None), &clock);
    engine.apply(vec![spec("orders", Arc::clone(&source), policy())]);
    sleep(INTERVAL * 40).await;
    let at = source.at.lock().expect("no panic").clone();
    let gaps: Vec<u64> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs() / INTERVAL.as_secs()).collect();
    assert_eq!(gaps.get(..5), Some(&[1, 2, 4, 8, 8][..]), "{gaps:?}");
    // decisions go on while the source rests, so that holds age
    assert!(store.target("orders").expect("a target").state().past.len() >= 38);

    source.says(Says::Backlog(700));
    sleep(INTERVAL * 9).await;
    let state = store.target("orders").expect("a target").state();
    assert_eq!((state.source.health, state.advice.as_ref().and_then(|advice| advice.recommended)), (SourceHealth::Up, Some(7)));
    let before = source.asked();
    sleep(INTERVAL * 4).await;
    assert!(source.asked() >= before + 3, "back to every interval");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let source = Scripted::new(Says::Fails(Some(300)), &clock);
    engine.apply(vec![spec("orders", Arc::clone(&source), policy())]);
    sleep(Duration::from_secs(310)).await;
    assert_eq!(source.asked(), 1);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(source.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_source_holds_until_the_number_expires() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let source = Scripted::new(Says::Backlog(300), &clock);
    engine.apply(vec![spec("orders", Arc::clone(&source), policy())]);
    sleep(INTERVAL * 3).await;
    source.says(Says::Fails(None));
    sleep(INTERVAL).await;
    let target = store.target("orders").expect("a target");
    let advice = target.advice_at(clock()).expect("an advice");
    assert_eq!((advice.outcome, advice.recommended), (Outcome::Hold, Some(3)));
    sleep(Duration::from_secs(60)).await;
    let expired = target.advice_at(clock()).expect("an advice");
    assert_eq!((expired.outcome, expired.recommended, expired.active), (Outcome::Hold, None, None));
    assert_eq!(target.recommended_at(clock()), None);
}

#[tokio::test(start_paused = true)]
async fn windows_start_at_registration() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let source = Scripted::new(Says::Backlog(100), &clock);
    engine.apply(vec![spec("orders", source, json!({ "perReplicaBacklog": 100, "scaleDown": { "stabilization": "120s" } }))]);
    sleep(INTERVAL * 2).await;
    let target = store.target("orders").expect("a target");
    let early = target.state().advice.clone().expect("an advice");
    assert_eq!((early.outcome, early.recommended, early.wanted), (Outcome::Hold, Some(3), Some(1)), "one would do, and the window is not full");
    sleep(Duration::from_secs(150)).await;
    assert_eq!(target.state().advice.as_ref().and_then(|advice| advice.recommended), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_what_is_unchanged_and_the_memory_of_what_is_the_same_thing() {
    let (clock, store) = (clock(), Arc::new(Store::new()));
    let engine = Engine::new(Arc::clone(&store), Arc::clone(&clock));
    let source = Scripted::new(Says::Backlog(100), &clock);
    engine.apply(vec![
        spec("kept", Arc::clone(&source), policy()),
        spec("changed", Arc::clone(&source), policy()),
        spec("gone", Arc::clone(&source), policy()),
    ]);
    sleep(INTERVAL * 4).await;
    let since = |name: &str| store.target(name).expect("a target").state().advice.as_ref().map(|advice| advice.memory.since);
    let (kept, changed) = (since("kept"), since("changed"));
    let same = store.target("kept").expect("a target");

    engine.apply(vec![
        spec("kept", Arc::clone(&source), policy()),
        spec("changed", Arc::clone(&source), json!({ "perReplicaBacklog": 10 })),
        spec("new", source, policy()),
    ]);
    assert!(store.target("gone").is_none(), "its series go with it");
    assert!(Arc::ptr_eq(&same, &store.target("kept").expect("a target")));
    sleep(INTERVAL * 3).await;
    assert_eq!((since("kept"), since("changed")), (kept, changed), "windows do not start anew");
    assert!(since("new") > kept);
    let advice = store.target("changed").expect("a target").state().advice.clone().expect("an advice");
    assert_eq!(advice.recommended, Some(10), "the new policy is in force");
    engine.stop().await;
}
