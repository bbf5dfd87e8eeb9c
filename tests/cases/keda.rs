//! What the interface to KEDA has to survive.

use loadline::core::advice::Outcome;
use loadline::core::request::Refusal;
use serde_json::json;

use super::{NOW, advise, ago, has, immediate, refusal, said};

#[test]
fn sc_077_an_unreachable_source_holds_and_says_so() {
    let advice = advise(&json!({ "kind": "backlog", "replicas": { "spec": 6 }, "snapshot": null, "failure": { "kind": "timeout", "consecutive": 3 },
        "history": [{ "observedAt": ago(90), "backlog": 600 }], "policy": { "min": 0, "max": 8, "perReplicaBacklog": 100, "staleAfter": "300s" } }));
    assert_eq!((advice.recommended, advice.outcome, advice.active), (Some(6), Outcome::Hold, None));
    assert!(has(&advice, "NoReading"));
    assert_eq!(advice.valid_until, Some(NOW.parse::<jiff::Timestamp>().expect("a time") + jiff::SignedDuration::from_secs(210)), "a hold does not extend it");
}

#[test]
fn sc_079_a_metric_in_the_quintillions_is_no_zero() {
    let advice = advise(
        &json!({ "kind": "backlog", "replicas": { "spec": 5 }, "snapshot": { "backlog": 1_200_000_000_000_000_000_i64 }, "policy": { "max": 30, "perReplicaBacklog": 1000 } }),
    );
    assert_eq!(advice.recommended, Some(30));
}

#[test]
fn sc_080_nan_never_enters() {
    let Refusal::Invalid(problems) = refusal(&json!({ "kind": "backlog", "snapshot": { "backlog": "NaN" } })) else { panic!("a refusal that names the field") };
    assert!(problems.iter().any(|problem| problem.path == "snapshot.backlog" && problem.message.contains("NaN")), "{problems:?}");
}

#[test]
fn sc_087_the_fallback_works_at_zero_too() {
    let advice = advise(&json!({ "kind": "backlog", "replicas": { "spec": 0 }, "snapshot": null, "failure": { "kind": "refused", "consecutive": 5 },
        "policy": { "min": 0, "max": 6, "onUnknown": { "fallback": 1, "afterFailures": 3 } } }));
    assert_eq!(advice.recommended, Some(1));
    assert!(has(&advice, "Fallback") && said(&advice).contains("5 failures"), "{}", said(&advice));
}

#[test]
fn sc_088_active_means_above_the_threshold() {
    for (backlog, active) in [(0, false), (1, true)] {
        let advice = advise(
            &json!({ "kind": "backlog", "replicas": { "spec": 1 }, "snapshot": { "backlog": backlog }, "policy": { "min": 0, "activationBacklog": 0, "perReplicaBacklog": 5 } }),
        );
        assert_eq!(advice.active, Some(active));
    }
}

#[test]
fn sc_090_a_new_workload_is_not_stopped_before_it_has_started() {
    let ask = |now: i64, memory: serde_json::Value| {
        advise(&json!({ "kind": "backlog", "now": ago(-now), "replicas": { "spec": 1 }, "snapshot": { "backlog": 0 }, "memory": memory,
        "policy": immediate(json!({ "min": 0, "perReplicaBacklog": 5, "idleBeforeZero": "300s" })) }))
    };
    let first = ask(0, json!(null));
    assert_eq!(first.recommended, Some(1));
    let memory = serde_json::to_value(&first.memory).expect("memory");
    let later = ask(20, memory.clone());
    assert_eq!((later.recommended, later.outcome), (Some(1), Outcome::Hold));
    assert!(serde_json::to_string(&later.reasons).expect("json").contains("280"), "{}", said(&later));
    assert_eq!(ask(301, memory).recommended, Some(0));
}

#[test]
fn sc_091_one_failed_poll_is_no_outage() {
    let ask = |consecutive: u32, behavior: &str| {
        advise(&json!({ "kind": "backlog", "replicas": { "spec": 10 }, "snapshot": null, "failure": { "kind": "timeout", "consecutive": consecutive },
        "history": [{ "observedAt": ago(30), "backlog": 100 }], "policy": { "max": 20, "onUnknown": { "fallback": 2, "afterFailures": 3, "behavior": behavior } } }))
    };
    assert_eq!(ask(1, "static").recommended, Some(10));
    let fallen = ask(3, "static");
    assert_eq!(fallen.recommended, Some(2));
    assert!(said(&fallen).contains("configured fallback"));
    assert_eq!(ask(3, "currentReplicasIfHigher").recommended, Some(10));
}

#[test]
fn sc_121_impossible_bounds_are_refused_by_name() {
    let Refusal::Invalid(problems) = refusal(&json!({ "kind": "backlog", "policy": { "min": 0, "max": -3, "perReplicaBacklog": 10 } })) else {
        panic!("a refusal that names the field")
    };
    assert!(problems.iter().any(|problem| problem.path == "policy.max" && problem.message.contains("-3")), "{problems:?}");
}

#[test]
fn the_figures_of_the_documented_example_come_out() {
    let advice = advise(&json!({ "kind": "backlog", "replicas": { "spec": 5, "ready": 5 },
        "snapshot": { "backlog": 12_000, "arrivalPerSecond": 330, "servedPerSecond": 300, "busyRatio": 1, "partitions": 8 }, "policy": { "min": 1, "max": 24 } }));
    assert_eq!((advice.current, advice.recommended, advice.wanted), (Some(5), Some(8), Some(9)));
    let forecast = advice.forecast;
    assert_eq!((forecast.catches_up_now, forecast.catch_up_seconds_now), (Some(false), None));
    assert!(forecast.catch_up_seconds_recommended.is_some_and(|seconds| (seconds - 184.0).abs() < 0.5), "{forecast:?}");
    assert!(forecast.utilization_recommended.is_some_and(|share| (share - 0.69).abs() < 0.005));
    assert!(said(&advice).contains("needs 8.4 replicas at 80 % of 60/s"), "{}", said(&advice));
}
