//! Laws that hold whatever is asked: bounds, nothing lowered on doubt, more load never gives less, the same question the
//! same answer, the trace adds up, nothing that is not finite.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use loadline::core::advice::{ActionKind, Advice, Outcome};
use loadline::core::request::parse;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

/// Numbers in an answer are finite or null: JSON has no others, so nothing may have been turned into null silently
/// where the type has a number. What can be checked from outside: it serializes, and reads back.
fn well_formed(advice: &Advice) -> Result<(), TestCaseError> {
    let text = serde_json::to_string(advice).expect("an answer is JSON");
    prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    for limit in &advice.limits {
        prop_assert!(limit.at.is_finite() && limit.from != limit.to);
    }
    prop_assert!(!advice.reasons.is_empty(), "an answer without a reason: {text}");
    Ok(())
}

fn policy() -> impl Strategy<Value = Value> {
    (0u64..5, 1u64..60, of(1.0f64..500.0), of(1.0f64..1000.0), prop::bool::ANY, of(1u64..5), of(0.1f64..3.0), 0u32..2).prop_map(|(min, more, per_second, per_backlog, even, step, factor, damp)| {
        let mut policy = json!({ "min": min, "max": min + more, "evenDistribution": even, "scaleUp": { "maxFactor": factor }, "scaleDown": { "stabilization": if damp == 0 { "0s" } else { "5m" }, "maxStep": step } });
        if let Some(rate) = per_second {
            policy["perReplicaPerSecond"] = json!(rate);
        }
        if let Some(backlog) = per_backlog {
            policy["perReplicaBacklog"] = json!(backlog);
        }
        policy
    })
}

fn queue() -> impl Strategy<Value = Value> {
    (of(0i64..1_000_000), of(0.0f64..1e5), of(0.0f64..1e5), of(0.0f64..1.2), of(1u64..200), of(0u64..50), of(0.0f64..1e4)).prop_map(|(backlog, arrival, served, busy, partitions, in_flight, oldest)| {
        json!({ "observedAt": ago(5), "backlog": backlog, "arrivalPerSecond": arrival, "servedPerSecond": served, "busyRatio": busy, "partitions": partitions, "inFlight": in_flight, "oldestSeconds": oldest })
    })
}

fn workers() -> impl Strategy<Value = Vec<Value>> {
    vec((1u64..20, 0u64..25, prop::bool::weighted(0.8)), 0..12).prop_map(|workers| {
        workers
            .into_iter()
            .enumerate()
            .map(|(ordinal, (capacity, used, enabled))| json!({ "host": format!("mm-{ordinal}:8091"), "capacity": capacity, "used": used, "enabled": enabled }))
            .collect()
    })
}

fn vertex(id: usize, inputs: Vec<usize>) -> impl Strategy<Value = Value> {
    (1u64..64, of(0.0f64..1.0), of(0.0f64..1e5), of(0u64..1_000_000), of(1u64..64), prop::bool::ANY).prop_map(move |(parallelism, busy, rate, pending, partitions, keyed)| {
        let edges: Vec<Value> = inputs.iter().map(|from| json!({ "from": format!("v{from}"), "shipStrategy": if keyed { "HASH" } else { "REBALANCE" } })).collect();
        json!({ "id": format!("v{id}"), "parallelism": parallelism, "maxParallelism": 128, "busyRatio": busy.map(|busy| json!({ "max": busy, "avg": busy * 0.8 })),
            "recordsInPerSecond": rate, "recordsOutPerSecond": rate, "pendingRecords": if edges.is_empty() { json!(pending) } else { Value::Null },
            "partitions": if edges.is_empty() { json!(partitions) } else { Value::Null }, "inputs": edges })
    })
}

fn job() -> impl Strategy<Value = Value> {
    (vertex(0, vec![]), vertex(1, vec![0]), vertex(2, vec![]), vertex(3, vec![1, 2]), of(1u64..8), of(1u64..100)).prop_map(|(a, b, c, d, slots, schedulable)| {
        json!({ "observedAt": ago(5), "state": "RUNNING", "runningSince": ago(86_400), "slotsPerTaskManager": slots, "schedulableSlots": schedulable, "vertices": [a, b, c, d] })
    })
}

fn job_policy() -> impl Strategy<Value = Value> {
    (of(1u64..12), of(1u64..4), of(0.1f64..2.0), prop::bool::ANY, prop::bool::weighted(0.1), of(1u64..40), of(1u64..16), 0usize..4).prop_map(|(max, step, factor, stable, paused, quota, most, alignment)| {
        let alignment = ["samePeak", "balanced", "off", "legacyEvenlySpread"][alignment];
        let mut policy = json!({ "max": max.unwrap_or(1000), "paused": paused, "window": "5m", "alignment": alignment, "hysteresisRatio": if stable { 0.1 } else { 0.0 },
            "scaleUp": { "maxStep": step, "maxFactor": factor }, "scaleDown": { "stabilization": if stable { "1h" } else { "0s" }, "maxStep": step } });
        if let Some(slots) = quota {
            policy["quota"] = json!({ "slots": slots });
        }
        if let Some(most) = most {
            policy["vertexLimits"] = json!({ "v1": { "max": most }, "v2": { "min": 2, "max": most + 2 } });
            policy["excludeVertices"] = json!(if most % 3 == 0 { vec!["v3"] } else { vec![] });
        }
        policy
    })
}

fn consumer_group() -> impl Strategy<Value = Value> {
    let partition = (of(0u64..2_000_000), of(0u64..900_000), of(0u64..2_000_000), of(0.0f64..5e3), of(0.0f64..5e3), of(0.0f64..4e3), of(0u64..6));
    let partitions = vec(partition, 0..14).prop_map(|partitions| {
        partitions
            .into_iter()
            .enumerate()
            .map(|(number, (committed, start, end, arrival, served, still, member))| {
                json!({ "partition": number, "committed": committed, "logStart": start, "logEnd": end, "arrivalPerSecond": arrival, "processedPerSecond": served,
                    "commitUnchangedSeconds": still, "endUnchangedSeconds": still, "member": member.map(|member| format!("m{member}")) })
            })
            .collect::<Vec<Value>>()
    });
    (partitions, of(0i64..1_000_000), of(0u64..12), 0usize..5, of(0.0f64..1.2)).prop_map(|(partitions, total, members, state, busy)| {
        let state = ["Stable", "Empty", "Dead", "PreparingRebalance", "Assigning"][state];
        json!({ "observedAt": ago(5), "state": state, "members": members, "totalLag": total, "busyRatio": busy, "topics": [{ "name": "t", "retentionSeconds": 86_400, "partitions": partitions }] })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_is_answered_within_bounds_and_the_trace_adds_up(snapshot in queue(), policy in policy(), current in 0u64..40) {
        let partitions = snapshot["partitions"].as_u64();
        let body = json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": snapshot, "policy": policy });
        let advice = advise(&body);
        well_formed(&advice)?;
        let recommended = advice.recommended.expect("a count whenever the current one is known");
        let (min, max) = (policy["min"].as_u64().expect("min"), policy["max"].as_u64().expect("max"));
        if advice.wanted.is_some() {
            prop_assert!(recommended <= max.max(current), "{recommended} above {max}");
            prop_assert!(recommended >= min.min(partitions.unwrap_or(u64::MAX)).min(max) || recommended == current, "{recommended} below {min}");
            if let Some(partitions) = partitions.filter(|_| recommended > current) {
                prop_assert!(recommended <= partitions.max(min), "{recommended} of {partitions} partitions");
            }
        }
        if recommended == advice.current.expect("current") {
            prop_assert!(advice.outcome != Outcome::Change);
        } else {
            prop_assert_eq!(advice.outcome, Outcome::Change);
        }
        // from the wish through every limit to the number, without a gap; an unknown demand starts from the present count
        let mut value = advice.wanted.unwrap_or(current);
        for limit in &advice.limits {
            prop_assert_eq!(limit.from, value, "{:?}", advice.limits);
            value = limit.to;
        }
        prop_assert_eq!(value, recommended, "{:?}", advice.limits);
    }

    #[test]
    fn a_pubsub_subscription_is_answered_within_bounds_and_the_trace_adds_up(
        (undelivered, oldest, rates, outstanding, streams, no_data) in (
            of(-5i64..2_000_000), of(0.0f64..1e5), proptest::array::uniform4(of(0.0f64..1e5)),
            of(0u64..3_000_000), of(0u64..50), any::<bool>(),
        ),
        policy in policy(), current in 0u64..40, age in 0i64..400,
    ) {
        let [publish, ack, sent, expired] = rates;
        let observed: jiff::Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
        let now = observed + jiff::SignedDuration::from_secs(age);
        let body = json!({ "kind": "pubsubSubscription", "now": now.to_string(), "replicas": { "spec": current, "ready": current }, "policy": policy,
            "snapshot": { "observedAt": observed.to_string(), "undelivered": undelivered, "oldestUnackedSeconds": oldest, "publishPerSecond": publish,
                "ackPerSecond": ack, "sentPerSecond": sent, "expiredAckDeadlinesPerSecond": expired, "outstanding": outstanding, "openStreams": streams, "noData": no_data } });
        let advice = advise(&body);
        well_formed(&advice)?;
        let recommended = advice.recommended.expect("a count whenever the current one is known");
        prop_assert!(recommended <= policy["max"].as_u64().expect("max").max(current), "{recommended}");
        let mut value = advice.wanted.unwrap_or(current);
        for limit in &advice.limits {
            prop_assert_eq!(limit.from, value, "{:?}", advice.limits);
            value = limit.to;
        }
        prop_assert_eq!(value, recommended, "{:?}", advice.limits);
    }

    #[test]
    fn a_kafka_group_is_answered_within_bounds_and_the_trace_adds_up(snapshot in consumer_group(), policy in policy(), current in 0u64..40, reset in 0usize..4) {
        let mut policy = policy;
        policy["offsetReset"] = json!(["unknown", "earliest", "latest", "none"][reset]);
        let (min, max) = (policy["min"].as_u64().expect("min"), policy["max"].as_u64().expect("max"));
        let ask = |snapshot: &Value| advise(&json!({ "kind": "kafkaGroup", "replicas": { "spec": current }, "snapshot": snapshot, "policy": policy }));
        let advice = ask(&snapshot);
        well_formed(&advice)?;
        let recommended = advice.recommended.expect("a count whenever the current one is known");
        prop_assert!(recommended <= max.max(current), "{recommended} above {max}");
        if let Some(partitions) = advice.bounds.partitions.filter(|_| recommended > current) {
            prop_assert!(recommended <= partitions.max(min), "{recommended} of {partitions} partitions");
        }
        let mut value = advice.wanted.unwrap_or(current);
        for limit in &advice.limits {
            prop_assert_eq!(limit.from, value, "{:?}", advice.limits);
            value = limit.to;
        }
        prop_assert_eq!(value, recommended, "{:?}", advice.limits);
        prop_assert_eq!(serde_json::to_string(&advice).expect("json"), serde_json::to_string(&ask(&snapshot)).expect("json"));
        let mut stale = snapshot.clone();
        stale["observedAt"] = json!(ago(3600));
        for doubtful in [stale, Value::Null] {
            prop_assert!(ask(&doubtful).recommended >= Some(current), "nothing is lowered on doubt");
        }
    }

    #[test]
    fn more_lag_never_gives_a_kafka_group_fewer_replicas(lag in 0i64..100_000, more in 0i64..100_000, arrival in 0.0f64..5000.0, current in 1u64..40, rates in prop::bool::ANY) {
        let ask = |lag: i64| {
            let policy = if rates { json!({ "perReplicaPerSecond": 60, "max": 1000, "evenDistribution": false }) } else { json!({ "perReplicaBacklog": 50, "max": 5000, "evenDistribution": false }) };
            advise(&json!({ "kind": "kafkaGroup", "replicas": { "spec": current }, "snapshot": { "totalLag": lag, "arrivalPerSecond": arrival, "processedPerSecond": arrival }, "policy": policy }))
        };
        prop_assert!(ask(lag + more).recommended >= ask(lag).recommended);
    }

    #[test]
    fn the_same_question_has_the_same_answer(snapshot in queue(), policy in policy(), current in 0u64..40) {
        let body = json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": snapshot, "policy": policy });
        prop_assert_eq!(serde_json::to_string(&advise(&body)).expect("json"), serde_json::to_string(&advise(&body)).expect("json"));
    }

    #[test]
    fn nothing_is_lowered_on_a_stale_or_missing_reading(mut snapshot in queue(), policy in policy(), current in 0u64..40, job in job(), workers in workers()) {
        snapshot["observedAt"] = json!(ago(3600));
        let mut stale_job = job;
        stale_job["observedAt"] = json!(ago(3600));
        let kept = json!({ "min": policy["min"], "max": policy["max"] });
        for body in [
            json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": snapshot, "policy": policy }),
            json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": null, "policy": policy }),
            json!({ "kind": "flinkJob", "replicas": { "spec": current }, "snapshot": stale_job, "policy": kept }),
            json!({ "kind": "flinkJob", "replicas": { "spec": current }, "snapshot": null, "policy": kept }),
            json!({ "kind": "druidWorkers", "replicas": { "spec": current }, "snapshot": { "observedAt": ago(3600), "workers": workers, "pending": { "count": 3 } }, "policy": kept }),
            json!({ "kind": "druidWorkers", "replicas": { "spec": current }, "snapshot": { "pending": { "count": 0 } }, "policy": kept }),
        ] {
            let advice = advise(&body);
            well_formed(&advice)?;
            // without the slots of a TaskManager the answer counts slots, so what is compared is its own "current"
            prop_assert!(advice.current.is_some() && advice.recommended >= advice.current, "{:?} from {:?}: {body:#}", advice.recommended, advice.current);
            for part in &advice.parts {
                prop_assert!(part.recommended >= part.current);
            }
        }
    }

    #[test]
    fn more_load_never_gives_fewer_replicas(backlog in 0i64..100_000, more in 0i64..100_000, arrival in 0.0f64..5000.0, current in 1u64..40, rates in prop::bool::ANY) {
        let ask = |backlog: i64| {
            let policy = if rates { json!({ "perReplicaPerSecond": 60, "max": 1000, "evenDistribution": false }) } else { json!({ "perReplicaBacklog": 50, "max": 5000, "evenDistribution": false }) };
            advise(&json!({ "kind": "backlog", "replicas": { "spec": current }, "snapshot": { "backlog": backlog, "arrivalPerSecond": arrival, "servedPerSecond": arrival }, "policy": policy }))
        };
        prop_assert!(ask(backlog + more).recommended >= ask(backlog).recommended);
    }

    #[test]
    fn a_worker_that_runs_something_or_is_given_tasks_is_never_among_those_that_go(workers in workers(), pending in 0u64..40, extra in 0u64..3, least in 0u64..4, more in 0u64..30, stream in of((1u64..20, of(0u64..2000)))) {
        let spec = workers.len() as u64 + extra;
        let streaming: Vec<Value> = stream.into_iter().map(|(tasks, left)| json!({ "supervisor": "orders", "taskCount": tasks, "rolloverInSeconds": left })).collect();
        let body = json!({ "kind": "druidWorkers", "replicas": { "spec": spec, "ready": workers.len() },
            "snapshot": { "workers": workers, "pending": { "count": pending, "oldestSeconds": 60 }, "streaming": streaming },
            "policy": { "min": least, "max": (least + more).max(1), "scaleDown": { "stabilization": "0s" }, "idleBeforeZero": "0s" } });
        let advice = advise(&body);
        well_formed(&advice)?;
        let recommended = advice.recommended.expect("a count");
        for (ordinal, worker) in workers.iter().enumerate() {
            let goes = ordinal as u64 >= recommended;
            prop_assert!(!goes || (worker["used"] == json!(0) && worker["enabled"] == json!(false)), "worker {ordinal} of {body:#} goes at {recommended}");
        }
        let told = |kind: ActionKind| advice.actions.iter().filter(move |action| action.action == kind).filter_map(|action| action.worker.as_ref()?.ordinal).collect::<Vec<_>>();
        let (enabled, disabled) = (told(ActionKind::EnableWorker), told(ActionKind::DisableWorker));
        prop_assert!(enabled.iter().all(|ordinal| *ordinal < recommended), "{enabled:?} of {body:#} at {recommended}");
        // whatever becomes of the calls to enable, as many as the minimum still take tasks
        let taking = workers.iter().filter(|worker| worker["enabled"] == json!(true)).count();
        prop_assert!(disabled.is_empty() || (taking - disabled.len()) as u64 >= least, "{disabled:?} of {body:#}");
    }

    #[test]
    fn more_pending_tasks_never_give_fewer_workers(workers in workers(), pending in 0u64..200, more in 0u64..200) {
        let ask = |pending: u64| advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": workers.len() }, "snapshot": { "workers": workers, "pending": { "count": pending } }, "policy": { "min": 0, "max": 1000, "scaleDown": { "stabilization": "0s" } } }));
        prop_assert!(ask(pending + more).recommended >= ask(pending).recommended);
    }

    #[test]
    fn limits_lead_from_the_wish_to_the_recommendation_for_a_job_and_for_each_vertex(job in job(), policy in job_policy(), before in of(0.0f64..1.0), managers in of(1u64..40), gc in of(0.0f64..0.6)) {
        let mut job = job;
        job["taskManagers"] = json!(managers);
        job["memory"] = json!({ "gcTimeRatio": gc });
        let mut history = Vec::new();
        if let Some(busy) = before {
            let mut earlier = job.clone();
            earlier["observedAt"] = json!(ago(1500));
            earlier["vertices"][0]["busyRatio"] = json!({ "max": busy, "avg": busy });
            history.push(earlier);
        }
        let advice = advise(&json!({ "kind": "flinkJob", "snapshot": job, "history": history, "policy": policy }));
        well_formed(&advice)?;
        let adds_up = |what: &str, current: Option<u64>, wanted: Option<u64>, recommended: Option<u64>, limits: &[loadline::core::advice::Limit]| {
            let mut value = wanted.or(current);
            for limit in limits {
                prop_assert_eq!(Some(limit.from), value, "{} of {:?}: {:?}", what, wanted, limits);
                value = Some(limit.to);
            }
            prop_assert_eq!(value, recommended, "{} from {:?}: {:?}", what, wanted, limits);
            Ok(())
        };
        for part in &advice.parts {
            adds_up(&part.name, part.current, part.wanted, part.recommended, &part.limits)?;
        }
        adds_up("the job", advice.current, advice.wanted, advice.recommended, &advice.limits)?;
    }

    #[test]
    fn a_job_never_gets_more_than_its_partitions_key_groups_and_slots_allow(job in job()) {
        let body = json!({ "kind": "flinkJob", "snapshot": job, "policy": { "scaleDown": { "stabilization": "0s" }, "max": 1000 } });
        let advice = advise(&body);
        well_formed(&advice)?;
        let vertices = job["vertices"].as_array().expect("vertices");
        for (vertex, part) in vertices.iter().zip(&advice.parts) {
            let recommended = part.recommended.expect("a parallelism");
            prop_assert!((1..=200).contains(&recommended));
            if let Some(partitions) = vertex["partitions"].as_u64() {
                prop_assert!(recommended <= partitions, "{recommended} of {partitions}");
            }
        }
        let most = |of: &dyn Fn(usize) -> u64| (0..vertices.len()).map(of).max().unwrap_or(0);
        let before = most(&|index| advice.parts[index].current.unwrap_or(0));
        let after = most(&|index| advice.parts[index].recommended.unwrap_or(0));
        let schedulable = job["schedulableSlots"].as_u64().unwrap_or(u64::MAX);
        prop_assert!(after <= schedulable.max(before), "{after} slots of {schedulable}, {before} before");
    }
}
