//! Setting the parallelism of a job on a fake JobManager in the documented shapes, with its faults.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use loadline::actuators::flink::FlinkActuator;
use loadline::core::advice::{Action, ActionKind, ApiCall};
use loadline::core::kinds::FlinkJobSnapshot;
use loadline::engine::actuator::{Accepted, Actuator, Effect};
use loadline::engine::source::{FailureKind, Snapshot};
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// What the fake says and what it was told.
#[derive(Default)]
struct Fake {
    config: Value,
    scheduler: Value,
    requirements: Option<Value>,
    /// Status of the PUT; 0 hangs.
    put_status: u16,
    redirect: Option<(u16, String)>,
    puts: Vec<Value>,
    /// Answers of `/jobs/overview` in order, the last one again and again: state and running tasks of 3.
    overview: Vec<(&'static str, u64)>,
    looked: usize,
    parallelism: u64,
}

type Shared = Arc<Mutex<Fake>>;

async fn config(State(fake): State<Shared>) -> Json<Value> {
    Json(fake.lock().expect("no panic").config.clone())
}

async fn job(State(fake): State<Shared>, Path(id): Path<String>) -> Json<Value> {
    let fake = fake.lock().expect("no panic");
    let mut job = json!({ "jid": id, "state": "RUNNING", "vertices": [{ "id": "v", "name": "window", "parallelism": fake.parallelism }] });
    if !fake.scheduler.is_null() {
        job["schedulerType"] = fake.scheduler.clone();
    }
    Json(job)
}

async fn overview(State(fake): State<Shared>) -> Json<Value> {
    let mut fake = fake.lock().expect("no panic");
    let (state, running) = fake.overview.get(fake.looked).or(fake.overview.last()).copied().unwrap_or(("RUNNING", 3));
    fake.looked += 1;
    Json(json!({ "jobs": [{ "jid": "j", "name": "orders", "state": state, "tasks": { "total": 3, "running": running, "finished": 0 } }] }))
}

async fn requirements(State(fake): State<Shared>) -> Response {
    match fake.lock().expect("no panic").requirements.clone() {
        Some(body) => Json(body).into_response(),
        None => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "errors": ["UnsupportedOperationException"] }))).into_response(),
    }
}

async fn change(State(fake): State<Shared>, Json(body): Json<Value>) -> Response {
    let (status, redirect) = {
        let mut fake = fake.lock().expect("no panic");
        let redirect = fake.redirect.take();
        if redirect.is_none() {
            fake.puts.push(body);
        }
        (fake.put_status, redirect)
    };
    match (redirect, status) {
        (Some((status, to)), _) => (StatusCode::from_u16(status).expect("a status"), [(header::LOCATION, to)]).into_response(),
        (None, 0) => std::future::pending().await,
        (None, status) => (StatusCode::from_u16(status).expect("a status"), Json(json!({}))).into_response(),
    }
}

async fn start(fake: Fake) -> (FlinkActuator, Shared, Url) {
    let fake = Arc::new(Mutex::new(fake));
    let router = Router::new()
        .route("/config", get(config))
        .route("/jobs/overview", get(overview))
        .route("/jobs/{id}", get(job))
        .route("/jobs/{id}/resource-requirements", get(requirements).put(change))
        .route("/elsewhere", put(change))
        .with_state(Arc::clone(&fake));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("URL");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let options = ClientOptions { timeout: Duration::from_millis(500), ..ClientOptions::default() };
    (FlinkActuator::new(Client::new(base.clone(), options).expect("client")), fake, base)
}

fn adaptive() -> Fake {
    Fake {
        config: json!({ "flink-version": "2.3.0", "features": { "web-rescale": true } }),
        scheduler: json!("Adaptive"),
        requirements: Some(body(2)),
        put_status: 200,
        parallelism: 2,
        ..Fake::default()
    }
}

fn body(upper: u64) -> Value {
    json!({ "v": { "parallelism": { "lowerBound": 1, "upperBound": upper } } })
}

fn step(upper: u64) -> Action {
    let request = ApiCall { method: "PUT", path: "/jobs/j/resource-requirements".to_owned(), body: Some(body(upper)) };
    Action { request: Some(request), ..Action::new(ActionKind::SetParallelism, "set the parallelism of window".to_owned()) }
}

fn reading(id: &str, parallelism: u64) -> Snapshot {
    let job = json!({ "jobId": id, "state": "RUNNING", "vertices": [{ "id": "v", "name": "window", "parallelism": parallelism }] });
    Snapshot::FlinkJob(serde_json::from_value::<FlinkJobSnapshot>(job).expect("a reading"))
}

#[tokio::test]
async fn only_a_job_under_the_adaptive_scheduler_can_be_told() {
    let (flink, fake, _) = start(adaptive()).await;
    flink.able(&reading("j", 2)).await.expect("adaptive");
    // 1.x does not name the scheduler of a job
    fake.lock().expect("no panic").scheduler = Value::Null;
    flink.able(&reading("j", 2)).await.expect("adaptive by the cluster's word");

    fake.lock().expect("no panic").scheduler = json!("Default");
    let error = flink.able(&reading("j", 2)).await.expect_err("another scheduler");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Unsupported, "the job runs under the scheduler Default: expected Adaptive"));

    for config in [json!({ "features": { "web-rescale": false } }), json!({ "features": {} }), json!({})] {
        fake.lock().expect("no panic").config = config;
        let error = flink.able(&reading("j", 2)).await.expect_err("not adaptive");
        assert_eq!(error.kind, FailureKind::Unsupported);
        assert!(error.message.contains("web-rescale"), "{error}");
    }
}

#[tokio::test]
async fn the_exact_body_is_put_and_not_once_more_where_flink_has_the_wish() {
    let (flink, fake, _) = start(adaptive()).await;
    assert_eq!(flink.perform(&step(4)).await.expect("accepted"), Accepted::Sent);
    assert_eq!(fake.lock().expect("no panic").puts, [body(4)]);
    fake.lock().expect("no panic").requirements = Some(body(4));
    assert_eq!(flink.perform(&step(4)).await.expect("known"), Accepted::AlreadyAsked);
    assert_eq!(fake.lock().expect("no panic").puts.len(), 1);
    // other bounds are another wish
    fake.lock().expect("no panic").requirements = Some(json!({ "v": { "parallelism": { "lowerBound": 4, "upperBound": 4 } } }));
    assert_eq!(flink.perform(&step(4)).await.expect("accepted"), Accepted::Sent);
}

#[tokio::test]
async fn a_call_that_fails_says_how() {
    for (status, kind) in
        [(400, FailureKind::Status), (409, FailureKind::Status), (500, FailureKind::Status), (403, FailureKind::Unauthorized), (0, FailureKind::Timeout)]
    {
        let (flink, _, _) = start(Fake { put_status: status, requirements: None, ..adaptive() }).await;
        assert_eq!(flink.perform(&step(4)).await.expect_err("refused").kind, kind, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_that_keeps_the_call_is_followed_with_its_body_and_another_is_refused() {
    let (flink, fake, base) = start(adaptive()).await;
    let to = base.join("/elsewhere").expect("URL").to_string();
    for status in [307, 308] {
        fake.lock().expect("no panic").redirect = Some((status, to.clone()));
        assert_eq!(flink.perform(&step(4)).await.expect("followed"), Accepted::Sent);
    }
    assert_eq!(fake.lock().expect("no panic").puts, [body(4), body(4)]);
    for (status, to) in [(302, to.as_str()), (303, to.as_str()), (307, "http://elsewhere.example/"), (307, "ftp://127.0.0.1/")] {
        fake.lock().expect("no panic").redirect = Some((status, to.to_owned()));
        assert_eq!(flink.perform(&step(4)).await.expect_err("not followed").kind, FailureKind::Redirect, "{status} {to}");
    }
    assert_eq!(fake.lock().expect("no panic").puts.len(), 2);
}

#[tokio::test]
async fn a_rescale_is_followed_to_the_moment_at_which_everything_runs_again() {
    // it runs on while Flink waits for a checkpoint, then stops, and its tasks come back one after the other
    let looks = vec![("RUNNING", 3), ("RUNNING", 3), ("RESTARTING", 0), ("RUNNING", 1), ("RUNNING", 3)];
    let (flink, fake, _) = start(Fake { overview: looks, ..adaptive() }).await;
    let action = step(4);
    let followed = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        fake.lock().expect("no panic").parallelism = 4;
    };
    let (followed, ()) = tokio::join!(flink.follow(&action), followed);
    let downtime = followed.and_then(|followed| followed.downtime_seconds).expect("it was down");
    // three distances of looks lie between the last and the first look at which everything ran
    assert!((0.7..=1.1).contains(&downtime), "{downtime}");
}

#[tokio::test]
async fn a_job_that_does_not_change_is_followed_without_an_end_and_not_more_than_a_few_times_a_second() {
    let (flink, fake, _) = start(adaptive()).await;
    let action = step(4);
    assert!(tokio::time::timeout(Duration::from_secs(3), flink.follow(&action)).await.is_err());
    let looked = fake.lock().expect("no panic").looked;
    assert!((6..=13).contains(&looked), "{looked} looks in 3 s");
}

#[tokio::test]
async fn a_reading_shows_the_effect_and_that_of_another_job_shows_none() {
    let (flink, _, _) = start(adaptive()).await;
    assert_eq!(flink.effect(&step(4), &reading("j", 2)), Effect::NotYet);
    assert_eq!(flink.effect(&step(4), &reading("j", 4)), Effect::Seen);
    assert_eq!(flink.effect(&step(4), &reading("k", 4)), Effect::Gone);
}
