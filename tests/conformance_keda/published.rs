//! What Loadline publishes, read as KEDA reads it and followed as an HPA follows it.

use std::sync::Arc;

use axum::body::Body;
use http::Request as HttpRequest;
use http_body_util::BodyExt;
use loadline::core::advice::Advice;
use loadline::core::advise;
use loadline::core::request::{self, Kind, Request};
use loadline::core::sizing::consumer::view;
use loadline::core::units::{Timestamp, shifted};
use loadline::engine::store::{SourceState, Store, Target};
use loadline::surfaces::http::{AppState, ServiceStatus, Setup, router};
use loadline::surfaces::keda::proto::external_scaler_server::ExternalScaler;
use loadline::surfaces::keda::proto::{GetMetricsRequest, ScaledObjectRef};
use loadline::surfaces::keda::{self as scaler, Scaler};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::consumer;
use crate::hpa::{self, Hpa, Tolerance};
use crate::keda::{self, Failed};

const SELECTOR: &str = "loadline_recommended_replicas{target=\"orders\",target_namespace=\"shop\"}";

fn start() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().expect("a time")
}

fn ask(body: &Value) -> Request {
    request::parse(body.to_string().as_bytes(), start()).unwrap_or_else(|error| panic!("{error:?} in {body:#}"))
}

/// What a preset makes of a subscription.
pub fn under_preset(preset: &str, undelivered: u64, per_replica: u64, current: u64) -> u64 {
    let body = json!({ "kind": "pubsubSubscription", "now": start(), "replicas": { "spec": current, "ready": current },
                       "snapshot": { "undelivered": undelivered }, "policy": { "preset": preset, "perReplicaBacklog": per_replica } });
    advise(&ask(&body)).recommended.expect("a number")
}

/// A service with one target for which a count was decided, and the moment at which it is asked.
struct Service {
    store: Arc<Store>,
    now: Timestamp,
}

impl Service {
    fn that_recommends(count: u64) -> Self {
        let body = json!({ "kind": "backlog", "name": "orders", "now": start(), "replicas": { "spec": count, "ready": count },
                           "snapshot": { "observedAt": start(), "backlog": count * 10 }, "policy": { "min": 0, "max": 5000, "perReplicaBacklog": 10 } });
        let request = ask(&body);
        let advice = Advice { recommended: Some(count), ..advise(&request) };
        let store = Arc::new(Store::new());
        let target = Arc::new(Target::new("orders".to_owned(), "orders".to_owned(), "shop".to_owned(), Kind::Backlog, json!({})));
        store.insert(Arc::clone(&target));
        store.publish(&target, Arc::new(request), Arc::new(advice), SourceState::default());
        Self { store, now: start() }
    }

    fn later(self, seconds: f64) -> Self {
        Self { now: shifted(self.now, seconds), ..self }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let mut setup = Setup::new(Arc::clone(&self.store), Arc::new(ServiceStatus::new()), CancellationToken::new());
        let now = self.now;
        setup.clock = Arc::new(move || now);
        let request = HttpRequest::get(path).body(Body::empty()).expect("a request");
        let answer = router(AppState::new(setup)).oneshot(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(bytes.to_vec()).expect("text"))
    }

    /// Type `external`.
    async fn external(&self) -> Result<f64, Failed> {
        let now = self.now;
        let setup = scaler::Setup {
            store: Arc::clone(&self.store),
            clock: Arc::new(move || now),
            limits: scaler::Limits::default(),
            shutdown: CancellationToken::new(),
        };
        let object = ScaledObjectRef { name: "orders".to_owned(), namespace: "shop".to_owned(), ..ScaledObjectRef::default() };
        let question = GetMetricsRequest { scaled_object_ref: Some(object), metric_name: scaler::METRIC.to_owned() };
        let answer = Scaler::new(setup).get_metrics(tonic::Request::new(question)).await.map_err(|_| Failed)?;
        Ok(answer.get_ref().metric_values.iter().map(|value| keda::external(value.metric_value, value.metric_value_float)).sum())
    }

    /// Type `metrics-api` on the advice, as JSON.
    async fn advice(&self, query: &str) -> Result<f64, Failed> {
        let (status, body) = self.get(&format!("/v1/targets/orders/advice{query}")).await;
        keda::metrics_api(status, "json", &body, "recommended")
    }

    /// Type `metrics-api` on the metrics, in their own format.
    async fn gauge(&self) -> Result<f64, Failed> {
        let (status, body) = self.get("/metrics").await;
        keda::metrics_api(status, "prometheus", &body, SELECTOR)
    }

    /// Type `prometheus`: `max(...)` over what a scrape gave. A series that is not there gives no sample.
    async fn prometheus(&self, ignore_null_values: bool) -> Result<f64, Failed> {
        let samples: Vec<Value> = self.gauge().await.into_iter().map(|value| json!({ "metric": {}, "value": [0, value.to_string()] })).collect();
        keda::prometheus(&json!({ "status": "success", "data": { "resultType": "vector", "result": samples } }).to_string(), ignore_null_values)
    }

    async fn all(&self) -> [(&'static str, Result<f64, Failed>); 5] {
        [
            ("external", self.external().await),
            ("metrics-api", self.advice("").await),
            ("metrics-api, strict", self.advice("?strict=true").await),
            ("metrics-api, the gauge", self.gauge().await),
            ("prometheus", self.prometheus(false).await),
        ]
    }
}

#[tokio::test]
async fn by_every_interface_the_hpa_arrives_at_the_recommendation() {
    for recommended in [0, 1, 9, 10, 11, 64, 100, 101, 3500] {
        for (interface, value) in Service::that_recommends(recommended).all().await {
            let milli = hpa::milli(&keda::quantity(value.unwrap_or_else(|Failed| panic!("{interface} fails at {recommended}"))));
            for status in [1, 9, 10, 63, 100, 5000] {
                let came = hpa::average_value(&[milli], 1000, status, Tolerance::NONE).expect("a proposal");
                assert_eq!(came.desired, recommended, "{interface} from {status}");
            }
            assert_eq!(keda::active(value.expect("a value"), 0.0), recommended > 0, "{interface}");
        }
    }
}

#[tokio::test]
async fn by_every_interface_what_is_no_longer_known_holds_the_count() {
    let service = Service::that_recommends(6).later(121.0);
    for (interface, value) in service.all().await {
        assert_eq!(value, Err(Failed), "{interface}");
    }
    assert_eq!(Hpa::new(Tolerance::NONE, 1, 50, 0).sync(0, 17, 17, None), 17);
    // why the examples say ignoreNullValues: "false": the default takes the same for nothing to do
    assert_eq!(service.prometheus(true).await, Ok(0.0));
    assert_eq!(Hpa::new(Tolerance::NONE, 1, 50, 0).sync(0, 17, 17, Some(0)), 1);
}

#[test]
fn what_is_said_of_the_consumer_is_what_the_hpa_does() {
    for (up, down) in [(0.1, 0.1), (0.0, 0.0), (0.0, 0.1), (0.25, 0.05), (0.03, 0.0)] {
        let tolerance = Tolerance { up, down };
        for (status, wish) in (1..160).flat_map(|status| (0..180).map(move |wish| (status, wish))) {
            let held = hpa::average_value(&[wish * 1000], 1000, status, tolerance).expect("a proposal").desired;
            assert_eq!(view(&consumer(tolerance), wish, status).will_hold, held, "{status} -> {wish}, {tolerance:?}");
        }
    }
}

/// Loadline over an HPA that sets the count at once, in steps of 15 s.
struct Loop {
    policy: Value,
    hpa: Hpa,
    spec: u64,
    memory: Value,
    second: u64,
}

impl Loop {
    fn new(policy: Value, hpa: Hpa, spec: u64) -> Self {
        Self { policy, hpa, spec, memory: Value::Null, second: 0 }
    }

    /// One step with so many waiting.
    fn step(&mut self, backlog: u64) -> Advice {
        let now = shifted(start(), self.second as f64);
        let body = json!({ "kind": "backlog", "now": now, "replicas": { "spec": self.spec, "ready": self.spec, "status": self.spec },
                           "snapshot": { "observedAt": now, "backlog": backlog }, "policy": self.policy, "memory": self.memory });
        let advice = advise(&ask(&body));
        self.memory = serde_json::to_value(&advice.memory).expect("JSON");
        self.spec = self.hpa.sync(self.second, self.spec, self.spec, advice.recommended.map(|count| count * 1000));
        self.second += 15;
        advice
    }

    /// Seconds from a fall of the backlog until the count follows.
    fn delay_of_lowering(mut self) -> u64 {
        for _ in 0..60 {
            self.step(200);
        }
        assert_eq!(self.spec, 20, "at rest");
        let fell = self.second;
        for _ in 0..120 {
            self.step(50);
            if self.spec < 20 {
                return self.second - 15 - fell;
            }
        }
        panic!("never lowered")
    }
}

#[test]
fn one_place_stabilizes_and_two_in_a_row_wait_twice_as_long() {
    let policy = |consumer: bool| {
        let consumer = if consumer { json!({ "kind": "hpa", "tolerance": 0 }) } else { Value::Null };
        json!({ "min": 1, "max": 50, "perReplicaBacklog": 10, "scaleDown": { "stabilization": "5m" }, "consumer": consumer })
    };
    let delay = |consumer: bool, window: u64| Loop::new(policy(consumer), Hpa::new(Tolerance::NONE, 1, 50, window), 20).delay_of_lowering();
    for (consumer, window) in [(false, 0), (true, 300)] {
        let waited = delay(consumer, window);
        assert!((285..=330).contains(&waited), "{waited} s with consumer {consumer} and a window of {window} s");
    }
    let both = delay(false, 300);
    assert!((570..=630).contains(&both), "{both} s");
}

#[test]
fn the_hpa_ends_where_the_answer_says_and_rounding_to_what_is_reachable_gets_there() {
    for (tolerance, round) in [(0.0, false), (0.1, false), (0.1, true)] {
        let policy = json!({ "min": 1, "max": 200, "perReplicaBacklog": 10, "consumer": { "kind": "hpa", "tolerance": tolerance, "roundToReachable": round } });
        let mut run = Loop::new(policy, Hpa::new(Tolerance { up: tolerance, down: tolerance }, 1, 200, 0), 10);
        for backlog in [100, 110, 120, 121, 400, 410, 440, 441, 450, 300, 299, 271, 270, 20, 10, 900, 910, 1000] {
            let advice = run.step(backlog);
            let said = advice.consumer.expect("a consumer is declared");
            let recommended = advice.recommended.expect("a number");
            assert_eq!(run.spec, said.will_hold, "backlog {backlog}, tolerance {tolerance}");
            assert_eq!(said.reachable, run.spec == recommended, "backlog {backlog}, tolerance {tolerance}");
            assert!(tolerance > 0.0 || run.spec == recommended, "without a band every number is reached");
            assert!(!round || run.spec * 10 >= backlog, "{} for a backlog of {backlog}: rounded up it is enough", run.spec);
        }
    }
}

#[test]
fn the_fallback_of_the_examples_never_lowers() {
    for current in 1..40 {
        let replicas = keda::fallback_replicas("currentReplicasIfHigher", 6, current);
        let milli = hpa::milli(&keda::quantity(keda::fallback_metric(1.0, replicas, None)));
        let held = Hpa::new(Tolerance::NONE, 1, 50, 0).sync(0, current, current, Some(milli));
        assert_eq!(held, current.max(6));
    }
}
