//! Every row of the vectors about KEDA and the HPA, other than those of its Kafka trigger (`conformance_kafka`).
//!
//! They say how the consumers of a published count behave, defects included. Two simulators stand for them, `hpa` and `keda`;
//! the rows judge the simulators, and what Loadline says of its consumers (`core::sizing::consumer`) along with them. Then what
//! Loadline publishes goes through the simulators (`published`).

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod hpa;
mod keda;
mod published;

use std::collections::BTreeMap;

use loadline::core::policy::{Consumer, ConsumerKind};
use loadline::core::sizing::consumer::{next_reachable, proposes, view};
use serde_json::{Value, json};

use self::hpa::Tolerance;
use self::keda::Failed;

/// How many rows there are of each kind.
const ROWS: [(&str, usize); 18] = [
    ("hpa-drift", 4),
    ("hpa-external-averagevalue", 30),
    ("hpa-external-value", 4),
    ("hpa-multi", 4),
    ("hpa-ratelimit", 4),
    ("hpa-reachable", 7),
    ("hpa-stabilization", 2),
    ("keda-activation", 1),
    ("keda-external-value", 3),
    ("keda-fallback", 6),
    ("keda-fallback-gate", 1),
    ("keda-kafka", 25),
    ("keda-kafka-factor", 7),
    ("keda-metric-name", 2),
    ("keda-metrics-api", 9),
    ("keda-prometheus", 6),
    ("keda-pubsub", 6),
    ("keda-quantity", 7),
];

fn rows() -> Vec<Value> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/keda.json")).expect("tests/vectors/keda.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["cases"].as_array().expect("rows").clone()
}

#[test]
fn the_vectors_have_as_many_rows_of_each_kind_as_are_judged() {
    let mut counted = BTreeMap::new();
    for row in rows() {
        *counted.entry(row["category"].as_str().expect("a kind").to_owned()).or_insert(0) += 1;
    }
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), ROWS.map(|(kind, count)| (kind.to_owned(), count)));
}

#[test]
fn every_row_about_the_hpa_and_keda_comes_out() {
    let mut failures = Vec::new();
    let mut judged = 0;
    for row in rows() {
        let (name, kind) = (row["name"].as_str().expect("a name"), row["category"].as_str().expect("a kind"));
        let (inputs, expected) = (&row["inputs"], &row["expected"]);
        let came = match kind {
            "keda-kafka" | "keda-kafka-factor" => continue,
            "hpa-external-averagevalue" => average_value(inputs),
            "hpa-external-value" => value(inputs),
            "hpa-ratelimit" => rate_limit(inputs),
            "hpa-stabilization" => stabilization(inputs),
            "hpa-multi" => several(inputs),
            "hpa-reachable" => reachable(inputs),
            "hpa-drift" => drift(inputs),
            "keda-quantity" => quantity(inputs),
            "keda-external-value" => json!({ "value": keda::external(inputs["metricValue"].as_i64().expect("a number"), number(&inputs["metricValueFloat"])) }),
            "keda-metric-name" => metric_name(inputs),
            "keda-fallback" => fallback(inputs),
            "keda-fallback-gate" => gate(inputs),
            "keda-metrics-api" => metrics_api(inputs),
            "keda-activation" => json!({ "active": keda::active(number(&inputs["value"]), number(&inputs["activationTargetValue"])) }),
            "keda-prometheus" => json!({ "value": told(keda::prometheus(text(&inputs["body"]), inputs["ignoreNullValues"].as_bool().expect("a bool"))) }),
            "keda-pubsub" => pubsub(inputs),
            other => panic!("nothing judges {other}"),
        };
        judged += 1;
        if !same(&came, expected) {
            failures.push(format!("{name}: {came} in place of {expected}"));
        }
    }
    assert!(failures.is_empty(), "{} of {judged} rows:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(judged, 96);
}

/// Numbers alike to six digits, all else the same.
fn same(came: &Value, expected: &Value) -> bool {
    match (came, expected) {
        (Value::Number(came), Value::Number(expected)) => (came.as_f64().expect("a number") - expected.as_f64().expect("a number")).abs() < 1e-6,
        (Value::Object(came), Value::Object(expected)) => {
            came.len() == expected.len() && expected.iter().all(|(key, value)| came.get(key).is_some_and(|came| same(came, value)))
        }
        _ => came == expected,
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn counts(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(count).collect()
}

fn told(value: Result<f64, Failed>) -> Value {
    value.map_or_else(|Failed| json!("error"), |value| json!(value))
}

fn tolerance(inputs: &Value) -> Tolerance {
    let of = |name: &str| inputs.get(name).or_else(|| inputs.get("tolerance")).map_or(0.1, number);
    Tolerance { up: of("tolerance_up"), down: of("tolerance_down") }
}

fn items(inputs: &Value) -> Vec<u64> {
    let items = inputs["values"].as_array().expect("a list");
    items.iter().map(|item| hpa::milli(&item.as_str().map_or_else(|| item.to_string(), str::to_owned))).collect()
}

/// The consumer of a policy with this band.
fn consumer(tolerance: Tolerance) -> Consumer {
    Consumer { kind: ConsumerKind::Hpa, tolerance_up: tolerance.up, tolerance_down: tolerance.down, min: None, max: None, round_to_reachable: false }
}

fn proposal(proposal: Option<hpa::Proposal>) -> Value {
    let proposal = proposal.expect("a proposal");
    json!({ "desired": proposal.desired, "ratio": proposal.ratio.is_finite().then_some(proposal.ratio) })
}

fn average_value(inputs: &Value) -> Value {
    let (items, target, status, tolerance) = (items(inputs), count(&inputs["target"]), count(&inputs["status_replicas"]), tolerance(inputs));
    let came = hpa::average_value(&items, target * 1000, status, tolerance);
    // what we tell of our consumer is the same, wherever such a value is ours: one item, whole, with a target of 1
    if let ([item], 1) = (items.as_slice(), target)
        && item % 1000 == 0
    {
        assert_eq!(Some(proposes(&consumer(tolerance), item / 1000, status)), came.map(|came| came.desired), "{inputs}");
    }
    proposal(came)
}

fn value(inputs: &Value) -> Value {
    let target = count(&inputs["target"]) * 1000;
    proposal(hpa::value(&items(inputs), target, count(&inputs["spec_replicas"]), count(&inputs["ready_pods"]), tolerance(inputs)))
}

fn rate_limit(inputs: &Value) -> Value {
    let (current, desired) = (count(&inputs["current"]), count(&inputs["desired"]));
    if let Some(policy) = inputs.get("policy") {
        assert_eq!(text(policy), "Percent 10 / 60 s");
        return json!({ "allowed": desired.max(hpa::percent_down_limit(current, 10)) });
    }
    let limit = if inputs.get("scaleUp").is_some() { hpa::default_up_limit(current) } else { hpa::legacy_up_limit(current) };
    json!({ "allowed": desired.min(limit).min(count(&inputs["max"])) })
}

fn stabilization(inputs: &Value) -> Value {
    let new = count(&inputs["new"]);
    let window = |seconds: &Value| {
        let past = inputs.get(format!("recommendations_last_{}s", count(seconds))).map(counts).unwrap_or_default();
        [past, vec![new]].concat()
    };
    json!({ "stabilized": hpa::stabilized(count(&inputs["current"]), &window(&inputs["up_window_s"]), &window(&inputs["down_window_s"])) })
}

fn several(inputs: &Value) -> Value {
    let current = count(&inputs["current"]);
    if let Some(items) = inputs.get("items") {
        assert_eq!(hpa::average_value(&counts(items), 1000, current, Tolerance::DEFAULT), None);
        assert_eq!(hpa::largest(&[None], current), None);
        return json!({ "desired": current, "condition": "FailedGetExternalMetric" });
    }
    let proposals: Vec<Option<u64>> = inputs["proposals"].as_array().expect("a list").iter().map(Value::as_u64).collect();
    match hpa::largest(&proposals, current) {
        Some(desired) => json!({ "desired": desired }),
        None => json!({ "desired": current, "ScalingActive": false }),
    }
}

fn reachable(inputs: &Value) -> Value {
    let (status, tolerance) = (count(&inputs["status_replicas"]), tolerance(inputs));
    let reached = |wish: &u64| hpa::average_value(&[wish * 1000], 1000, status, tolerance).is_some_and(|came| came.desired == *wish);
    let up = (status + 1..=2 * status + 2).find(reached).expect("one above");
    let down = (0..status).rev().find(reached).expect("one below");
    assert_eq!(next_reachable(&consumer(tolerance), status + 1, status, 1000), up, "what roundToReachable publishes");
    assert!(view(&consumer(tolerance), down, status).reachable && (down + 1 == status || !view(&consumer(tolerance), down + 1, status).reachable));
    json!({ "next_up": up, "next_down": down })
}

fn drift(inputs: &Value) -> Value {
    let (recommended, tolerance) = (count(&inputs["recommended"]), tolerance(inputs));
    let rests = |status: &u64| hpa::average_value(&[recommended * 1000], 1000, *status, tolerance).is_some_and(|came| came.desired == *status);
    let resting: Vec<u64> = (1..=2 * recommended).filter(rests).collect();
    let ours: Vec<u64> = (1..=2 * recommended).filter(|status| view(&consumer(tolerance), recommended, *status).will_hold == *status).collect();
    assert_eq!(resting, ours);
    json!({ "can_rest_at_min": resting.first(), "can_rest_at_max": resting.last() })
}

fn quantity(inputs: &Value) -> Value {
    let quantity = keda::quantity(text(&inputs["float"]).parse().expect("a double"));
    let milli = hpa::milli(&quantity);
    json!({ "quantity": quantity, "milli": milli, "replicas_at_target_1": milli.div_ceil(1000) })
}

fn metric_name(inputs: &Value) -> Value {
    let trigger = count(&inputs["trigger_index"]);
    match inputs.get("metricName") {
        Some(name) => {
            let metric = keda::metric_name(trigger, text(name));
            json!({ "hpa_metric": metric, "sent_to_scaler": keda::asked_name(&metric) })
        }
        None => json!({ "hpa_metric": keda::metric_name(trigger, &keda::metrics_api_name(text(&inputs["valueLocation"]))) }),
    }
}

fn fallback(inputs: &Value) -> Value {
    assert!(keda::fallback_active(count(&inputs["failures"]), count(&inputs["failureThreshold"])));
    let current = count(&inputs["current_replicas"]);
    // one row needs no count of its own
    let replicas = keda::fallback_replicas(text(&inputs["behavior"]), inputs.get("fallback_replicas").map_or(0, count), current);
    let metric = keda::fallback_metric(number(&inputs["target"]), replicas, inputs.get("ready").and_then(Value::as_u64));
    if inputs.get("fallback_replicas").is_some() {
        return json!({ "metric_value": metric });
    }
    let desired =
        hpa::average_value(&[hpa::milli(&keda::quantity(metric))], count(&inputs["target"]) * 1000, current, Tolerance::DEFAULT).expect("a proposal").desired;
    json!({ "metric_value": metric, "hpa_desired": desired })
}

fn gate(inputs: &Value) -> Value {
    let active = keda::fallback_active(count(&inputs["failures"]), count(&inputs["failureThreshold"]));
    json!({ "fallback_active": active, "metric": if active { "fallback" } else { "error to HPA" } })
}

fn metrics_api(inputs: &Value) -> Value {
    let status = inputs.get("status").map_or(200, |status| u16::try_from(count(status)).expect("a status"));
    let format = inputs.get("format").map_or("json", text);
    let body = inputs.get("body").or_else(|| inputs.get("series")).map(text).expect("a body").replace(" ; ", "\n");
    json!({ "value": told(keda::metrics_api(status, format, &body, inputs.get("valueLocation").map_or("", text))) })
}

fn pubsub(inputs: &Value) -> Value {
    if let Some(mode) = inputs.get("mode") {
        return json!({ "metricType": keda::pubsub_metric(text(mode), text(&inputs["resource"])) });
    }
    if let Some(undelivered) = inputs.get("undelivered") {
        let (target, current) = (count(&inputs["value"]), count(&inputs["current"]));
        let came = hpa::average_value(&[count(undelivered) * 1000], target * 1000, current, Tolerance::DEFAULT).expect("a proposal");
        assert_eq!(published::under_preset("keda-gcp-pubsub", count(undelivered), target, current), came.desired, "the preset of that name");
        return json!({ "hpa_desired": came.desired });
    }
    assert_eq!(count(&inputs["series"]), 0);
    match keda::no_series(inputs["valueIfNull"].as_f64()) {
        Ok(value) => json!({ "value": value, "active": keda::active(value, 0.0) }),
        Err(Failed) => json!({ "value": "error" }),
    }
}
