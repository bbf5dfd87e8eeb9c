//! A service in the test's own process, with a clock that stands still and decisions made by hand.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use loadline::core::advice::*;
use loadline::core::memory::Memory;
use loadline::core::reasons::{LimitCode, Reason};
use loadline::core::request::{self, Kind};
use loadline::core::units::{Timestamp, shifted};
use loadline::engine::store::{SourceHealth, SourceState, Store, Target};
use loadline::surfaces::http::{AppState, Limits, ServiceStatus, Setup, router};
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The moment at which the tests happen.
pub fn now() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().expect("a time")
}

/// A service under test.
pub struct Service {
    pub store: Arc<Store>,
    pub status: Arc<ServiceStatus>,
    pub shutdown: CancellationToken,
    pub router: Router,
}

impl Service {
    pub fn new() -> Self {
        Self::with(Limits::default(), None)
    }

    pub fn with(limits: Limits, token: Option<&str>) -> Self {
        let (store, status, shutdown) = (Arc::new(Store::new()), Arc::new(ServiceStatus::new()), CancellationToken::new());
        status.loaded(now());
        let mut setup = Setup::new(Arc::clone(&store), Arc::clone(&status), shutdown.clone());
        setup.clock = Arc::new(now);
        setup.limits = limits;
        setup.token = token.map(SecretString::from);
        Self { store, status, shutdown, router: router(AppState::new(setup)) }
    }

    pub async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.send(Request::get(path).body(Body::empty()).expect("a request")).await).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        Answer::of(self.send(Request::builder().method(Method::POST).uri(path).body(body.into()).expect("a request")).await).await
    }
}

/// An answer that was read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: http::HeaderMap,
    pub text: String,
}

impl Answer {
    pub async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        Self { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).expect("text") }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// A problem document of this status and code.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        for member in ["title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {problem}");
        }
        assert!(problem["errors"].is_array());
        problem
    }

    /// The paths of a problem document's errors.
    #[track_caller]
    pub fn paths(&self) -> Vec<String> {
        self.json()["errors"].as_array().expect("errors").iter().map(|error| error["path"].as_str().expect("a path").to_owned()).collect()
    }
}

pub const QUESTION: &str = r#"{"kind":"backlog","name":"orders","now":"2026-11-30T10:00:00Z","replicas":{"spec":5,"ready":5},
    "snapshot":{"observedAt":"2026-11-30T09:59:55Z","backlog":4000,"arrivalPerSecond":200.0,"servedPerSecond":180.0},"policy":{"min":2,"max":24}}"#;

/// A target without any decision.
pub fn bare(name: &str) -> Arc<Target> {
    let configuration = serde_json::json!({ "source": "demo", "policy": { "min": 2, "max": 24 } });
    Arc::new(Target::new(name.to_owned(), format!("{name} for people"), "shop".to_owned(), Kind::Backlog, configuration))
}

/// A target with a decision that is valid for another two minutes.
pub fn decided(service: &Service, name: &str) -> Arc<Target> {
    with_advice(service, name, advice(name))
}

/// The same with a given decision.
pub fn with_advice(service: &Service, name: &str, advice: Advice) -> Arc<Target> {
    let target = bare(name);
    service.store.insert(Arc::clone(&target));
    publish(service, &target, advice);
    target
}

pub fn publish(service: &Service, target: &Target, advice: Advice) {
    let source = SourceState {
        health: SourceHealth::Up,
        observed_at: advice.observed_at,
        next_reading_at: Some(shifted(now(), 25.0)),
        calls_per_reading: 1,
        ..SourceState::default()
    };
    let request = request::parse(QUESTION.as_bytes(), now()).expect("a valid question");
    service.store.publish(target, Arc::new(request), Arc::new(advice), source);
}

/// A decision with something in every field.
pub fn advice(name: &str) -> Advice {
    let input = |name, value, state| Input { name, value: Some(value), age_seconds: Some(5.0), state };
    Advice {
        kind: Kind::Backlog,
        name: Some(name.to_owned()),
        outcome: Outcome::Change,
        current: Some(5),
        recommended: Some(8),
        wanted: Some(9),
        direction: Direction::Up,
        unit: Unit::Replicas,
        active: Some(true),
        bounds: Bounds { min: 2, max: 24, partitions: Some(8) },
        // the same code twice: still one series
        reasons: vec![Reason::SpareCapacity { current: 5, needed: loadline::core::reasons::Num(8.4) }, Reason::Paused {}, Reason::Paused {}],
        limits: vec![Limit { code: LimitCode::PartitionLimit, from: 9, to: 8, at: 8.0 }],
        actions: vec![Action { to: Some(8), ..Action::new(ActionKind::Scale, "scale to 8".to_owned()) }],
        parts: vec![Part {
            id: "p\"1\\\n".to_owned(),
            name: "map \u{2192} sink".to_owned(),
            current: Some(2),
            recommended: Some(4),
            wanted: None,
            reasons: vec![],
            limits: vec![],
            vertex: None,
        }],
        forecast: Forecast { utilization_now: Some(1.0), ..Forecast::default() },
        inputs: vec![
            input("backlogRecords", 4000.0, InputState::Fresh),
            input("lagSeconds", 30.5, InputState::Stale),
            input("arrivalPerSecond", f64::INFINITY, InputState::Fresh),
            input("capacityPerReplicaPerSecond", 60.0, InputState::Assumed),
        ],
        confidence: Confidence::Medium,
        consumer: Some(ConsumerView { will_hold: 8, reachable: true }),
        evaluated_at: now(),
        observed_at: Some(shifted(now(), -5.0)),
        valid_until: Some(shifted(now(), 115.0)),
        memory: Memory::new(Kind::Backlog, now()),
    }
}

/// The same, three minutes too old.
pub fn expired(name: &str) -> Advice {
    Advice { observed_at: Some(shifted(now(), -300.0)), valid_until: Some(shifted(now(), -180.0)), ..advice(name) }
}
