//! Queues of any kind: what one reading more, or the same reading again, tells.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

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
    let reading = json!({ "observedAt": ago(30), "backlog": 400, "servedPerSecond": 50.0 });
    let mut body = json!({ "kind": "backlog", "now": NOW, "replicas": { "spec": 5, "ready": 5 }, "snapshot": reading, "history": [reading] });
    let again = advise(&body);
    assert!(has(&again, ReasonCode::CapacityUnknown), "{}", said(&again));
    // measured a minute earlier it would be one
    body["history"] = json!([{ "observedAt": ago(90), "backlog": 400, "servedPerSecond": 50.0 }]);
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

/// Asks again and again, each time with the memory of the answer before and the count that it gave.
fn follow(steps: u64, start: u64, mut body: impl FnMut(u64, u64) -> Value) -> Vec<u64> {
    let (mut count, mut memory, mut counts) = (start, Value::Null, Vec::new());
    for step in 0..steps {
        let mut asked = body(step, count);
        let now: jiff::Timestamp = NOW.parse().expect("a time");
        let now = now + jiff::SignedDuration::from_secs(i64::try_from(step).expect("few") * 30);
        asked["now"] = json!(now.to_string());
        asked["snapshot"]["observedAt"] = json!(now.to_string());
        asked["memory"] = memory;
        let advice = advise(&asked);
        memory = serde_json::to_value(&advice.memory).expect("JSON");
        count = advice.recommended.expect("a count");
        counts.push(count);
    }
    counts
}

#[test]
fn backlog_a_queue_that_keeps_up_with_a_few_items_in_line_is_not_raised_without_end() {
    let counts = follow(40, 10, |step, count| {
        let waits = [3, 0, 6, 2, 5][usize::try_from(step % 5).expect("few")];
        json!({ "kind": "backlog", "replicas": { "spec": count, "ready": count },
            "snapshot": { "backlog": waits, "arrivalPerSecond": 100.0, "servedPerSecond": 100.0 }, "policy": { "min": 1, "max": 100 } })
    });
    assert!(counts.iter().all(|count| *count <= 10), "a few items in line show no limit of those who serve: {counts:?}");
    let pubsub = follow(40, 3, |_, count| {
        json!({ "kind": "pubsubSubscription", "replicas": { "spec": count, "ready": count },
            "snapshot": { "undelivered": 30, "publishPerSecond": 10.0, "ackPerSecond": 10.0 }, "policy": { "max": 100 } })
    });
    assert!(pubsub.iter().all(|count| *count <= 3), "{pubsub:?}");
}

#[test]
fn backlog_a_capacity_that_is_proved_wrong_is_not_believed() {
    let memory = |at: i64| json!({ "version": 1, "kind": "backlog", "since": ago(40 * 86_400), "capacity": { "perReplicaPerSecond": 10.0, "at": ago(at) } });
    let asked = |at: i64| {
        advise(&json!({ "kind": "backlog", "now": NOW, "replicas": { "spec": 10, "ready": 10 }, "memory": memory(at),
            "snapshot": { "backlog": 0, "arrivalPerSecond": 400.0, "servedPerSecond": 400.0 }, "policy": { "max": 60 } }))
    };
    for at in [600, 30 * 86_400] {
        let advice = asked(at);
        assert!(advice.recommended <= Some(10), "40/s each are done where 10/s were remembered: {}", said(&advice));
        assert!(has(&advice, ReasonCode::CapacityUnknown), "{}", said(&advice));
    }
}

#[test]
fn pubsub_a_late_reading_is_of_the_replicas_that_were_there_then() {
    let asked = |replicas: Value| {
        advise(&json!({ "kind": "pubsubSubscription", "now": NOW,
            "replicas": { "spec": 18, "ready": 18, "lastChange": { "at": ago(175), "from": 3, "to": 18 } },
            "snapshot": { "observedAt": ago(170), "replicas": replicas, "undelivered": 30_000, "publishPerSecond": 400.0, "ackPerSecond": 150.0 },
            "policy": { "min": 1, "max": 50 } }))
    };
    let capacity = |advice: &Advice| advice.inputs.iter().find(|input| input.name == "capacityPerReplicaPerSecond").and_then(|input| input.value);
    assert_eq!(capacity(&asked(json!(3))), Some(50.0), "150/s were done by three");
    let unknown = asked(Value::Null);
    assert_eq!(capacity(&unknown), None, "nobody says of how many it is: {}", said(&unknown));
    assert!(unknown.recommended <= Some(18), "{}", said(&unknown));
}

#[test]
fn backlog_a_counter_of_arrivals_works_through_memory_alone() {
    let counts = follow(6, 1, |step, count| {
        json!({ "kind": "backlog", "replicas": { "spec": count, "ready": count }, "snapshot": { "backlog": 0, "arrivedTotal": 3000 * step },
            "policy": { "perReplicaPerSecond": 25, "max": 20 } })
    });
    // 100/s at 20/s each, and what the change itself lets wait
    assert!(counts.last().is_some_and(|count| (5..=6).contains(count)), "{counts:?}");
}

#[test]
fn backlog_replicas_of_which_none_tells_anything_are_unknown() {
    let advice = advise(&json!({ "kind": "backlog", "now": NOW, "replicas": { "spec": 6, "ready": 6 }, "snapshot": { "perReplica": [null, null, null] },
        "policy": { "perReplicaBacklog": 10 } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(6), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, ReasonCode::DemandUnknown), "{}", said(&advice));
}

#[test]
fn backlog_a_history_of_unknowns_is_no_full_window() {
    for earlier in [json!(null), json!(-5)] {
        let history: Vec<Value> = (1..=12).rev().map(|step| json!({ "observedAt": ago(step * 30), "backlog": earlier })).collect();
        let advice = advise(&json!({ "kind": "backlog", "now": NOW, "replicas": { "spec": 5, "ready": 5 }, "history": history,
            "snapshot": { "backlog": 0, "arrivalPerSecond": 10.0, "servedPerSecond": 10.0 }, "policy": { "perReplicaPerSecond": 100 } }));
        assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Hold), "{}", said(&advice));
        assert!(has(&advice, ReasonCode::WindowNotFull), "{}", said(&advice));
    }
}

#[test]
fn pubsub_no_data_that_means_idle_leads_to_zero_with_rates_as_well() {
    let history: Vec<Value> = (1..=12).rev().map(|step| json!({ "observedAt": ago(step * 60), "noData": true })).collect();
    let advice = advise(&json!({ "kind": "pubsubSubscription", "now": NOW, "replicas": { "spec": 6, "ready": 6 }, "snapshot": { "noData": true },
        "history": history, "policy": { "min": 0, "noData": 0, "perReplicaPerSecond": 50 } }));
    assert_eq!(advice.recommended, Some(0), "{}", said(&advice));
}

#[test]
fn a_kafka_group_at_zero_is_started_whatever_says_that_more_will_not_help() {
    let partition = |number: u64, waits: u64| json!({ "partition": number, "committed": 1_000, "logStart": 0, "logEnd": 1_000 + waits });
    let partitions: Vec<Value> = (0..8).map(|number| partition(number, if number == 0 { 90_000 } else { 0 })).collect();
    let advice = advise(&json!({ "kind": "kafkaGroup", "now": NOW, "replicas": { "spec": 0, "ready": 0 },
        "snapshot": { "observedAt": ago(5), "type": "classic", "state": "Empty", "members": 0, "topics": [{ "name": "orders", "partitions": partitions }] },
        "policy": { "min": 0, "max": 24 } }));
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
}

#[test]
fn a_kafka_group_is_not_cut_by_what_arrives_on_a_part_of_its_partitions() {
    let partition = |number: u64| {
        let rate = if number < 4 { json!(10.0) } else { Value::Null };
        json!({ "partition": number, "lag": 0, "arrivalPerSecond": rate, "processedPerSecond": rate })
    };
    let reading = |at: i64| json!({ "observedAt": ago(at), "group": "orders", "topics": [{ "name": "orders", "partitions": (0..12).map(partition).collect::<Vec<_>>() }] });
    let history: Vec<Value> = (1..=12).rev().map(|step| reading(5 + step * 30)).collect();
    let advice = advise(&json!({ "kind": "kafkaGroup", "now": NOW, "replicas": { "spec": 12, "ready": 12 }, "snapshot": reading(5), "history": history,
        "policy": { "min": 1, "perReplicaPerSecond": 20 } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(12), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, ReasonCode::IncompleteReading), "{}", said(&advice));
}
