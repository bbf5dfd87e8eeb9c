//! Subscriptions of Pub/Sub.

use loadline::core::advice::Outcome;
use loadline::core::reasons::ReasonCode;
use serde_json::{Value, json};

use super::{advise, ago, has, immediate, said};

fn subscription(spec: u64, snapshot: Value, policy: Value) -> Value {
    json!({ "kind": "pubsubSubscription", "replicas": { "spec": spec }, "snapshot": snapshot, "policy": immediate(policy) })
}

#[test]
fn sc_069_pubsub_no_data_point_is_no_empty_subscription() {
    let advice = advise(&subscription(3, json!({ "noData": true }), json!({ "max": 3, "perReplicaBacklog": 50_000 })));
    assert_eq!((advice.recommended, advice.outcome), (Some(3), Outcome::Hold), "{}", said(&advice));
    assert!(said(&advice).contains("no data point"), "{}", said(&advice));
}

#[test]
fn sc_070_pubsub_no_data_is_zero_where_the_policy_says_so() {
    let asked = |no_data: Value| {
        let mut body =
            subscription(1, json!({ "noData": true }), json!({ "min": 0, "max": 5, "perReplicaBacklog": 100, "idleBeforeZero": "10m", "noData": no_data }));
        let history: Vec<Value> = (1..=4).rev().map(|step| json!({ "observedAt": ago(step * 200), "noData": true })).collect();
        body["history"] = json!(history);
        advise(&body)
    };
    let advice = asked(json!(0));
    assert_eq!(advice.recommended, Some(0), "{}", said(&advice));
    assert!(has(&advice, "NoDataConfigured"), "{}", said(&advice));
    assert_eq!(asked(Value::Null).recommended, Some(1));
}

#[test]
fn sc_071_pubsub_the_level_counts_not_its_change() {
    let advice = advise(&subscription(5, json!({ "undelivered": 900_000 }), json!({ "min": 0, "max": 20, "perReplicaBacklog": 10_000 })));
    assert_eq!((advice.recommended, advice.wanted), (Some(20), Some(90)), "{}", said(&advice));
}

#[test]
fn sc_072_pubsub_a_reading_from_before_the_last_change_is_not_acted_on_again() {
    let mut body = subscription(1, json!({ "observedAt": ago(120), "undelivered": 3 }), json!({ "max": 10, "perReplicaBacklog": 1 }));
    assert_eq!(advise(&body).recommended, Some(3), "the number by itself asks for three");
    body["replicas"]["lastChange"] = json!({ "at": ago(60), "from": 0, "to": 1 });
    let advice = advise(&body);
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
    assert!(has(&advice, "ReadingOlderThanLastChange"), "{}", said(&advice));
}

#[test]
fn sc_073_pubsub_one_old_message_is_not_an_amount() {
    let advice = advise(&subscription(1, json!({ "undelivered": 1, "oldestUnackedSeconds": 3600 }), json!({ "max": 50, "maxLagSeconds": 10 })));
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
    assert!(has(&advice, "PoisonMessage"), "{}", said(&advice));
}

#[test]
fn sc_076_pubsub_without_partitions_nothing_is_bound_by_them() {
    let advice = advise(&subscription(2, json!({ "undelivered": 4000 }), json!({ "max": 12, "perReplicaBacklog": 500 })));
    assert_eq!(advice.recommended, Some(8), "{}", said(&advice));
}

#[test]
fn pubsub_subscribers_that_do_not_pull_are_not_multiplied() {
    let silent = json!({ "undelivered": 90_000, "openStreams": 0, "ackPerSecond": 0.0, "publishPerSecond": 500.0 });
    let mut body = subscription(4, silent, json!({ "max": 50, "perReplicaPerSecond": 100 }));
    body["replicas"]["ready"] = json!(4);
    let advice = advise(&body);
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, "NoMembers"), "{}", said(&advice));
    // just started ones have not had the time
    body["replicas"]["lastChange"] = json!({ "at": ago(1), "from": 0, "to": 4 });
    body["policy"]["startup"] = json!("1m");
    assert!(!has(&advise(&body), "NoMembers"));
}

#[test]
fn pubsub_without_a_data_point_it_is_said_once() {
    let advice = advise(&subscription(3, json!({ "noData": true }), json!({ "perReplicaBacklog": 100 })));
    let told = advice.reasons.iter().filter(|reason| reason.code() == ReasonCode::DemandUnknown).count();
    assert_eq!(told, 1, "{}", said(&advice));
}
