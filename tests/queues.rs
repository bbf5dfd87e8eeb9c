//! Queues of any kind: what one reading more, or the same reading again, tells.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use loadline::core::advice::{Advice, Outcome};
use loadline::core::reasons::ReasonCode;
use loadline::core::request::parse;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn advise(body: &Value) -> Advice {
    let bytes = serde_json::to_vec(body).expect("JSON");
    match parse(&bytes, NOW.parse().expect("a time")) {
        Ok(request) => loadline::core::advise(&request),
        Err(error) => panic!("{error:?} in {body:#}"),
    }
}

fn has(advice: &Advice, code: ReasonCode) -> bool {
    advice.reasons.iter().any(|reason| reason.code() == code)
}

fn said(advice: &Advice) -> String {
    serde_json::to_string_pretty(advice).expect("JSON")
}

#[test]
fn backlog_a_reading_seen_twice_is_no_queue_that_stands_still() {
    let reading = json!({ "observedAt": ago(30), "backlog": 20, "servedPerSecond": 50.0 });
    let mut body = json!({ "kind": "backlog", "now": NOW, "replicas": { "spec": 5, "ready": 5 }, "snapshot": reading, "history": [reading] });
    let again = advise(&body);
    assert!(has(&again, ReasonCode::CapacityUnknown), "{}", said(&again));
    // measured a minute earlier it would be one
    body["history"] = json!([{ "observedAt": ago(90), "backlog": 20, "servedPerSecond": 50.0 }]);
    let standing = advise(&body);
    assert!(!has(&standing, ReasonCode::CapacityUnknown), "{}", said(&standing));
}

#[test]
fn backlog_a_raise_that_brought_nothing_is_not_followed_by_another() {
    let reading = |at: i64, replicas: u64, served: f64| json!({ "observedAt": ago(at), "backlog": 60_000, "arrivalPerSecond": 500.0, "servedPerSecond": served, "replicas": replicas });
    let asked = |served: f64| {
        advise(&json!({
            "kind": "backlog", "now": NOW, "replicas": { "spec": 8, "ready": 8, "lastChange": { "at": ago(600), "from": 4, "to": 8 } },
            "snapshot": reading(5, 8, served), "history": [reading(900, 4, 400.0), reading(700, 4, 400.0)],
            "policy": { "max": 50, "scaleDown": { "stabilization": "1m" } } }))
    };
    let nothing = asked(410.0);
    assert_eq!((nothing.recommended, nothing.outcome), (Some(8), Outcome::Hold), "{}", said(&nothing));
    assert!(has(&nothing, ReasonCode::IneffectiveScaling), "{}", said(&nothing));
    let proportional = asked(800.0);
    assert!(!has(&proportional, ReasonCode::IneffectiveScaling), "{}", said(&proportional));
    assert!(proportional.recommended > Some(8), "{}", said(&proportional));
}

#[test]
fn pubsub_an_old_message_is_seen_also_where_each_number_is_read_twice() {
    let reading =
        |at: i64| json!({ "observedAt": ago(at), "undelivered": 12, "oldestUnackedSeconds": 900 - at, "publishPerSecond": 400.0, "ackPerSecond": 400.0 });
    let history: Vec<Value> = [240, 240, 180, 180, 120].into_iter().map(reading).collect();
    let advice = advise(&json!({
        "kind": "pubsubSubscription", "now": NOW, "replicas": { "spec": 6, "ready": 6 }, "snapshot": reading(120), "history": history,
        "policy": { "perReplicaPerSecond": 120, "maxLagSeconds": 60, "scaleDown": { "stabilization": "2m" } } }));
    assert!(has(&advice, ReasonCode::PoisonMessage), "{}", said(&advice));
    // 400/s at 96/s each: the age asks for nothing more
    assert_eq!(advice.recommended, Some(5), "{}", said(&advice));
}

#[test]
fn pubsub_no_rates_are_idle_only_where_the_policy_says_what_no_data_means() {
    let asked = |policy: Value| {
        let reading = |at: i64| json!({ "observedAt": ago(at), "undelivered": 0 });
        let history: Vec<Value> = (1..=10).rev().map(|step| reading(60 + step * 60)).collect();
        advise(
            &json!({ "kind": "pubsubSubscription", "now": NOW, "replicas": { "spec": 3, "ready": 3 }, "snapshot": reading(60), "history": history, "policy": policy }),
        )
    };
    let unknown = asked(json!({ "min": 0, "perReplicaPerSecond": 100 }));
    assert_eq!((unknown.recommended, unknown.outcome), (Some(3), Outcome::Hold), "{}", said(&unknown));
    let idle = asked(json!({ "min": 0, "perReplicaPerSecond": 100, "noData": 0 }));
    assert_eq!(idle.recommended, Some(0), "{}", said(&idle));
}

#[test]
fn pubsub_without_a_data_point_what_was_last_seen_to_wait_starts_one_from_zero() {
    let asked = |waited: u64, current: u64| {
        let history = json!([{ "observedAt": ago(400), "undelivered": waited }, { "observedAt": ago(200), "undelivered": waited }]);
        advise(&json!({ "kind": "pubsubSubscription", "now": NOW, "replicas": { "spec": current, "ready": current }, "snapshot": { "noData": true },
            "history": history, "policy": { "min": 0, "perReplicaBacklog": 100 } }))
    };
    let waits = asked(5_000, 0);
    assert_eq!((waits.recommended, waits.active), (Some(1), Some(true)), "{}", said(&waits));
    assert_eq!((asked(0, 0).recommended, asked(0, 0).active), (Some(0), None));
    let running = asked(5_000, 7);
    assert_eq!((running.recommended, running.outcome, running.active), (Some(7), Outcome::Hold, None), "{}", said(&running));
}

#[test]
fn backlog_zeros_over_many_targets_at_once_lower_none_of_them() {
    // an exporter that has just started reports zeros for all that it watches; none of them was served in that time
    let bodies: Vec<Value> = (1..=100)
        .map(|number| {
            let reading = |at: i64, backlog: i64| json!({ "observedAt": ago(at), "backlog": backlog, "arrivalPerSecond": 0.0, "servedPerSecond": 0.0 });
            json!({ "kind": "backlog", "name": format!("queue-{number}"), "now": NOW, "replicas": { "spec": 5, "ready": 5 }, "snapshot": reading(5, 0),
                "history": [reading(600, 100 * number), reading(35, 100 * number)], "policy": { "min": 0, "perReplicaPerSecond": 50, "idleBeforeZero": "0s", "damping": "consumer" } })
        })
        .collect();
    for body in &bodies {
        let advice = advise(body);
        assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Hold), "{}", said(&advice));
        assert!(has(&advice, ReasonCode::SuddenZero), "{}", said(&advice));
    }
    // one that was seen to be worked off is believed
    let mut served = bodies[0].clone();
    served["snapshot"]["servedPerSecond"] = json!(20.0);
    assert!(!has(&advise(&served), ReasonCode::SuddenZero));
}
