//! Every row about Pub/Sub of the vectors, and KEDA's arithmetic as a preset.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use loadline::core::advice::{ActionKind, Advice};
use loadline::core::request::parse;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn ask(spec: u64, snapshot: Value, history: Value, policy: Value) -> Advice {
    let mut whole = json!({ "max": 1000, "startup": "0s", "pause": "0s", "scaleDown": { "stabilization": "0s" } });
    let (Value::Object(into), Value::Object(from)) = (&mut whole, policy) else { panic!("objects") };
    into.extend(from);
    let body = json!({ "kind": "pubsubSubscription", "now": NOW, "replicas": { "spec": spec, "ready": spec }, "snapshot": snapshot, "history": history, "policy": whole });
    match parse(&serde_json::to_vec(&body).expect("a body"), NOW.parse().expect("a time")) {
        Ok(request) => loadline::core::advise(&request),
        Err(error) => panic!("{error:?} in {body:#}"),
    }
}

fn input(advice: &Advice, name: &str) -> Option<f64> {
    advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value)
}

fn said(advice: &Advice) -> String {
    serde_json::to_string_pretty(advice).expect("JSON")
}

fn has(advice: &Advice, action: ActionKind) -> bool {
    advice.actions.iter().any(|step| step.action == action)
}

/// A history of equal steps, of which the last is the reading.
fn steps(inputs: &Value) -> (Value, Value) {
    let step = inputs["sample_s"].as_i64().expect("seconds");
    let waits = inputs["undelivered_history"].as_array().expect("a list");
    let ages = inputs["oldest_age_history_s"].as_array().expect("a list");
    let mut readings: Vec<Value> = (0i64..)
        .zip(waits.iter().zip(ages))
        .map(|(index, (undelivered, age))| {
            let before = i64::try_from(waits.len()).expect("few") - 1 - index;
            json!({ "observedAt": ago(before * step), "undelivered": undelivered, "oldestUnackedSeconds": age,
                    "ackPerSecond": inputs["ack_rate"], "publishPerSecond": inputs["publish_rate"] })
        })
        .collect();
    let latest = readings.pop().expect("a reading");
    (latest, Value::Array(readings))
}

fn sized(inputs: &Value) -> Advice {
    let ack = if inputs["ack_rate"].is_null() { &inputs["publish_rate"] } else { &inputs["ack_rate"] };
    let snapshot = json!({ "undelivered": inputs["undelivered"], "publishPerSecond": inputs["publish_rate"], "ackPerSecond": ack,
                           "expiredAckDeadlinesPerSecond": inputs["expired_ack_rate"] });
    let policy = json!({ "perReplicaPerSecond": inputs["cap"], "targetUtilization": inputs["util"], "catchUpWithin": format!("{}s", inputs["T"]), "evenDistribution": false });
    ask(1, snapshot, json!([]), policy)
}

fn row(name: &str, inputs: &Value, expected: &Value) {
    match name {
        "pubsub_steady" | "pubsub_catch_up" | "pubsub_redelivery" => {
            let advice = sized(inputs);
            assert_eq!(advice.recommended, expected["replicas"].as_u64(), "{name}: {}", said(&advice));
            if let Some(rate) = expected["effective_rate"].as_f64() {
                assert_eq!(input(&advice, "arrivalPerSecond").map(f64::round), Some(rate), "{name}");
                assert!(has(&advice, ActionKind::TuneConsumer), "{name}: {}", said(&advice));
            }
        }
        "pubsub_projection_stale" | "pubsub_projection_floor" => {
            let age = inputs["metric_age_s"].as_i64().expect("seconds");
            let snapshot = json!({ "observedAt": ago(age), "undelivered": inputs["undelivered_observed"],
                                   "publishPerSecond": inputs["publish_rate"], "ackPerSecond": inputs["capacity_now"] });
            let advice = ask(8, snapshot, json!([]), json!({ "perReplicaPerSecond": 100 }));
            assert_eq!(input(&advice, "backlogRecords"), expected["projected_undelivered"].as_f64(), "{name}: {}", said(&advice));
        }
        "pubsub_no_data" => {
            let current = inputs["current_replicas"].as_u64().expect("a count");
            let advice = ask(current, json!({ "noData": true }), json!([]), json!({ "perReplicaBacklog": 100 }));
            assert_eq!((advice.recommended, input(&advice, "backlogRecords")), (expected["replicas"].as_u64(), None), "{name}: {}", said(&advice));
            assert!(said(&advice).contains("no data point"), "{name}: {}", said(&advice));
        }
        "pubsub_poison" | "pubsub_behind" => {
            let (latest, history) = steps(inputs);
            let advice = ask(6, latest, history, json!({ "perReplicaPerSecond": 120, "maxLagSeconds": 60 }));
            let grows = advice.recommended > Some(6);
            assert_eq!(grows, name == "pubsub_behind", "{name}: {}", said(&advice));
            assert_eq!(said(&advice).contains("PoisonMessage"), name == "pubsub_poison", "{name}: {}", said(&advice));
        }
        "pubsub_littles_law" => {
            let policy = json!({ "targetUtilization": inputs["util"], "maxOutstandingPerReplica": inputs["max_outstanding_per_replica"], "perReplicaPerSecond": 1000, "ackDeadline": "600s" });
            let snapshot =
                json!({ "undelivered": 0, "publishPerSecond": inputs["rate"], "ackPerSecond": inputs["rate"], "processingSeconds": inputs["processing_s"] });
            let advice = ask(1, snapshot, json!([]), policy);
            assert_eq!(advice.recommended, expected["replicas"].as_u64(), "{name}: {}", said(&advice));
        }
        "pubsub_stream_throughput_bound" => {
            let snapshot =
                json!({ "undelivered": 0, "publishPerSecond": inputs["rate"], "ackPerSecond": inputs["rate"], "messageBytes": inputs["message_bytes"] });
            let advice = ask(1, snapshot, json!([]), json!({ "perReplicaPerSecond": 1_000_000 }));
            assert_eq!(advice.recommended, expected["min_replicas"].as_u64(), "{name}: {}", said(&advice));
        }
        "pubsub_ack_deadline_vs_buffer" => {
            let policy = json!({ "maxOutstandingPerReplica": inputs["max_outstanding"], "threadsPerReplica": inputs["handler_threads"],
                                 "ackDeadline": format!("{}s", inputs["ack_deadline_s"]), "perReplicaPerSecond": 10 });
            let snapshot = json!({ "undelivered": 0, "publishPerSecond": 5, "ackPerSecond": 5, "processingSeconds": inputs["processing_s"] });
            let advice = ask(1, snapshot, json!([]), policy);
            assert!(has(&advice, ActionKind::TuneConsumer), "{name}: {}", said(&advice));
            assert!(said(&advice).contains(&format!("at most {}", expected["safe_max_outstanding"])), "{name}: {}", said(&advice));
        }
        other => panic!("{other} is not judged"),
    }
}

#[test]
fn pubsub_every_row_of_the_vectors_holds() {
    let vectors: Value = serde_json::from_str(include_str!("vectors/kafka-pubsub.json")).expect("JSON");
    let rows: Vec<&Value> =
        vectors["cases"].as_array().expect("rows").iter().filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with("pubsub_"))).collect();
    assert_eq!(rows.len(), 11);
    for entry in rows {
        row(entry["name"].as_str().expect("a name"), &entry["inputs"], &entry["expected"]);
    }
}

#[test]
fn pubsub_kedas_arithmetic_divides_the_number_as_it_was_published() {
    let snapshot = json!({ "observedAt": ago(120), "undelivered": 95, "publishPerSecond": 1, "ackPerSecond": 5 });
    let advice = ask(3, snapshot, json!([]), json!({ "preset": "keda-gcp-pubsub" }));
    assert_eq!(advice.recommended, Some(10), "{}", said(&advice));
}

#[test]
fn pubsub_kedas_value_if_null_is_what_no_data_means_and_without_it_the_demand_is_unknown() {
    let none = json!({ "noData": true });
    let advice = ask(3, none.clone(), json!([]), json!({ "preset": "keda-gcp-pubsub" }));
    assert_eq!((advice.recommended, advice.active), (Some(3), None), "{}", said(&advice));
    let advice = ask(3, none, json!([]), json!({ "preset": "keda-gcp-pubsub", "noData": 0 }));
    assert_eq!((input(&advice, "backlogRecords"), advice.active), (Some(0.0), Some(false)), "{}", said(&advice));
}
