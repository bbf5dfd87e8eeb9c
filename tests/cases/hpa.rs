//! What an HPA does with a number, and what a queue asks of it.

use loadline::core::advice::Outcome;
use serde_json::{Value, json};

use super::{advise, ago, has, immediate, said};

#[test]
fn sc_092_a_huge_backlog_is_a_finite_wish() {
    for backlog in [214_748_365_i64, i64::MAX] {
        let advice = advise(
            &json!({ "kind": "backlog", "replicas": { "spec": 50 }, "snapshot": { "backlog": backlog }, "policy": { "perReplicaBacklog": 0.1, "max": 50 } }),
        );
        assert_eq!(advice.recommended, Some(50));
        assert!(advice.wanted > Some(50));
    }
}

#[test]
fn sc_094_a_missing_signal_may_raise_and_never_lowers() {
    let ask = |cpu: u64| {
        advise(
            &json!({ "kind": "backlog", "replicas": { "spec": 3 }, "snapshot": { "signals": [{ "name": "cpu", "wanted": cpu }, { "name": "backlog", "wanted": null }] },
        "policy": immediate(json!({ "max": 5 })) }),
        )
    };
    let low = ask(1);
    assert_eq!((low.recommended, low.outcome), (Some(3), Outcome::Hold));
    assert!(said(&low).contains("signal backlog"), "{}", said(&low));
    assert_eq!(ask(5).recommended, Some(5));
}

#[test]
fn sc_095_and_097_a_step_that_the_tolerance_swallows_is_said() {
    let ask = |current: u64, wish: u64, tolerance: f64, max: u64| {
        advise(&json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": { "signals": [{ "name": "lag", "wanted": wish }] },
        "policy": { "max": max, "consumer": { "kind": "hpa", "tolerance": tolerance, "max": max } } }))
    };
    for (current, wish, max) in [(63, 64, 64), (10, 11, 40)] {
        let advice = ask(current, wish, 0.1, max);
        assert_eq!(advice.recommended, Some(wish));
        let consumer = advice.consumer.expect("a consumer");
        assert_eq!((consumer.will_hold, consumer.reachable), (current, false));
        assert!(has(&advice, "ConsumerTolerance"));
        assert!(ask(current, wish, 0.0, max).consumer.expect("a consumer").reachable);
    }
}

#[test]
fn sc_098_a_surge_is_not_the_wanted_count() {
    let advice = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 5, "status": 7 }, "snapshot": { "backlog": 500 }, "policy": immediate(json!({ "min": 2, "max": 20, "perReplicaBacklog": 100 })) }),
    );
    assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Keep));
}

#[test]
fn sc_099_a_broken_rollout_is_not_mended_by_more_pods() {
    let advice = advise(&json!({ "kind": "backlog", "replicas": { "spec": 4, "ready": 3, "status": 5, "rolloutSeconds": 600 },
        "snapshot": { "perReplica": [140, 140, 140] }, "policy": { "min": 2, "max": 30, "perReplicaBacklog": 100 } }));
    assert!((Some(4)..=Some(6)).contains(&advice.recommended), "{:?}", advice.recommended);
    assert!(has(&advice, "RolloutInProgress") && said(&advice).contains("3 of 5 pods"), "{}", said(&advice));
}

#[test]
fn sc_100_a_counter_that_went_back_is_a_reset() {
    // unsigned difference: 18446744073709526456 per second
    let advice = advise(&json!({ "kind": "backlog", "replicas": { "spec": 4 },
        "snapshot": { "observedAt": ago(0), "arrivedTotal": 20_000, "backlog": 0 }, "history": [{ "observedAt": ago(60), "arrivedTotal": 1_000_000, "backlog": 0 }],
        "policy": { "max": 50, "perReplicaPerSecond": 200 } }));
    assert!(advice.recommended <= Some(4));
    assert!(has(&advice, "CounterReset"), "{}", said(&advice));
}

#[test]
fn sc_106_a_slow_clock_is_corrected_and_said() {
    let snapshot = |offset: Value| json!({ "observedAt": ago(61), "receivedAt": ago(1), "senderClockOffsetSeconds": offset, "backlog": 12 });
    let ask = |offset: Value| {
        advise(
            &json!({ "kind": "backlog", "replicas": { "spec": 0 }, "snapshot": snapshot(offset), "policy": { "min": 0, "perReplicaBacklog": 10, "staleAfter": "60s" } }),
        )
    };
    let corrected = ask(json!(-60));
    assert_eq!(corrected.recommended, Some(2));
    assert!(has(&corrected, "ClockSkew") && said(&corrected).contains("1m"), "{}", said(&corrected));
    assert_eq!(ask(json!(0)).recommended, Some(0), "without the offset it is stale");
}

#[test]
fn sc_109_only_live_replicas_count() {
    let advice = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 2, "ready": 2 }, "snapshot": { "perReplica": [180, 190] }, "policy": { "min": 2, "max": 10, "perReplicaBacklog": 100 } }),
    );
    assert_eq!(advice.recommended, Some(4));
}

#[test]
fn sc_111_two_quiet_seconds_are_no_window() {
    let advice = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 10 }, "snapshot": { "observedAt": ago(0), "backlog": 0 }, "history": [{ "observedAt": ago(2), "backlog": 0 }],
        "policy": { "min": 0, "max": 50, "perReplicaBacklog": 10, "scaleDown": { "stabilization": "60s" } } }),
    );
    assert_eq!((advice.recommended, advice.outcome), (Some(10), Outcome::Hold));
    assert!(has(&advice, "WindowNotFull") && said(&advice).contains("2 s of 1m"), "{}", said(&advice));
    let busy = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 10 }, "snapshot": { "observedAt": ago(0), "backlog": 200 }, "history": [{ "observedAt": ago(2), "backlog": 200 }],
        "policy": { "min": 0, "max": 50, "perReplicaBacklog": 10, "scaleDown": { "stabilization": "60s" } } }),
    );
    assert_eq!(busy.recommended, Some(20), "raises are allowed in that time");
}

#[test]
fn sc_126_one_missing_value_of_160_is_taken_at_its_target() {
    let mut values = vec![json!(30); 159];
    values.push(Value::Null);
    let advice = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 160, "ready": 160 }, "snapshot": { "perReplica": values }, "policy": immediate(json!({ "min": 10, "max": 160, "perReplicaBacklog": 100 })) }),
    );
    assert_eq!(advice.recommended, Some(49), "{}", said(&advice));
    assert!(said(&advice).contains("1 of 160"), "{}", said(&advice));
}
