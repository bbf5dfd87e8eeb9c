//! Streaming supervisors of Druid.

use super::{advise, ago, has, immediate, refusal, said};
use loadline::core::advice::{ActionKind, Outcome};
use serde_json::{Value, json};

/// A body about a supervisor; `snapshot` and `policy` are laid over what all of them share.
fn body(snapshot: &Value, policy: Value) -> Value {
    let mut reading = json!({ "observedAt": ago(5), "supervisor": "orders", "state": "RUNNING", "stream": "kafka" });
    reading.as_object_mut().expect("an object").extend(snapshot.as_object().cloned().expect("an object"));
    json!({ "kind": "druidSupervisor", "snapshot": reading, "policy": immediate(policy) })
}

/// Lags of as many partitions.
fn lags(values: &[i64]) -> Value {
    values.iter().enumerate().map(|(index, lag)| (index.to_string(), json!(lag))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn sc_014_a_minimum_above_the_partitions_creates_no_tasks_that_read_nothing() {
    // naive: 10, again and again, each time with an early publish
    let advice = advise(&body(&json!({ "taskCount": 6, "partitions": 6, "partitionLag": lags(&[0; 6]) }), json!({ "taskCountMin": 10, "taskCountMax": 20 })));
    assert_eq!((advice.current, advice.recommended), (Some(6), Some(6)));
    assert!(advice.actions.iter().all(|action| action.action != ActionKind::Scale), "{}", said(&advice));
    assert!(has(&advice, "MinAbovePartitions") && said(&advice).contains("at least 10 are kept") && said(&advice).contains("above the 6"), "{}", said(&advice));
}

#[test]
fn sc_015_a_tenth_of_the_agreed_window_changes_nothing() {
    // naive: three of three are above the limit, so tasks are added
    let reading = |seconds: i64| json!({ "observedAt": ago(seconds), "state": "RUNNING", "taskCount": 4, "partitions": 24, "backlogRecords": 9_000_000 });
    for preset in [json!("druid-lag-based"), Value::Null] {
        let mut request = body(&reading(5), json!({ "taskCountMin": 2, "taskCountMax": 12, "minReadings": 20, "preset": preset, "perReplicaPerSecond": 1000 }));
        request["snapshot"]["arrivalPerSecond"] = json!(5000);
        request["history"] = json!([reading(65), reading(35)]);
        let advice = advise(&request);
        assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{}", said(&advice));
        assert!(has(&advice, "WindowNotFull") && said(&advice).contains("3 of 20 samples are present"), "{}", said(&advice));
    }
}

#[test]
fn sc_016_after_a_restart_of_the_overlord_the_count_of_the_spec_stands() {
    // naive: no task reads, so the count starts again from the minimum of 2
    let snapshot = json!({ "taskCount": 8, "readingTasks": 0, "publishingTasks": 8, "partitions": 16, "backlogRecords": 400_000, "overlordUptimeSeconds": 45 });
    let advice = advise(&body(&snapshot, json!({ "taskCountMin": 2, "taskCountMax": 16 })));
    assert_eq!((advice.current, advice.recommended, advice.outcome), (Some(8), Some(8), Outcome::Hold));
    assert!(said(&advice).contains("restarted 45s ago") && said(&advice).contains("handing off: 8"), "{}", said(&advice));
}

#[test]
fn sc_017_a_negative_lag_is_a_contradiction_and_offsets_no_other_partition() {
    // naive: the sum is -850, far below the limit: one task fewer
    let snapshot = json!({ "taskCount": 4, "partitions": 4, "partitionLag": lags(&[-1200, 300, 0, 50]), "offsetsAgeSeconds": 5, "processedPerSecond": 10, "idleRatio": 0.9 });
    for policy in [json!({}), json!({ "preset": "druid-lag-based", "lagBased": { "scaleInThreshold": 1000 } })] {
        let mut bounds = json!({ "taskCountMin": 2, "taskCountMax": 8 });
        bounds.as_object_mut().expect("an object").extend(policy.as_object().cloned().expect("an object"));
        let advice = advise(&body(&snapshot, bounds));
        assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{}", said(&advice));
        assert!(has(&advice, "InconsistentReading") && said(&advice).contains("partition 0 is -1200 behind"), "{}", said(&advice));
    }
}

#[test]
fn sc_021_lag_in_time_is_combined_by_maximum() {
    // naive: ten shards at one minute are ten minutes, above the limit of five
    let snapshot = json!({ "stream": "kinesis", "taskCount": 5, "partitions": 10, "partitionLag": lags(&[60_000; 10]), "lagUnit": "milliseconds" });
    let thresholds = json!({ "preset": "druid-lag-based", "lagBased": { "scaleOutThreshold": 300_000, "scaleInThreshold": 10_000, "lagAggregate": "sum" }, "taskCountMin": 1, "taskCountMax": 10 });
    for policy in [thresholds, json!({ "maxLagSeconds": 300, "taskCountMin": 1, "taskCountMax": 10 })] {
        let advice = advise(&body(&snapshot, policy));
        assert_eq!(advice.recommended, Some(5), "{}", said(&advice));
    }
    let late = json!({ "stream": "kinesis", "taskCount": 5, "partitions": 10, "partitionLag": lags(&[400_000; 10]) });
    let advice = advise(&body(&late, json!({ "maxLagSeconds": 300, "taskCountMin": 1, "taskCountMax": 10 })));
    assert!(advice.recommended > Some(5) && has(&advice, "LagObjective"), "a lag of 400 s is beyond the objective: {}", said(&advice));
}

#[test]
fn sc_023_a_step_larger_than_the_count_never_goes_below_the_minimum() {
    // naive: 2 - 4 = -2 tasks
    let snapshot = json!({ "taskCount": 2, "partitions": 8, "partitionLag": lags(&[0; 8]) });
    let advice = advise(&body(&snapshot, json!({ "preset": "druid-lag-based", "lagBased": { "scaleInStep": 4 }, "taskCountMin": 1, "taskCountMax": 8 })));
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
}

#[test]
fn sc_024_busy_tasks_without_lag_are_not_halved() {
    // naive: predicted idle time is clamped at zero, so fewer tasks always look cheaper
    let snapshot = json!({ "taskCount": 10, "readingTasks": 10, "partitions": 30, "partitionLag": lags(&[0; 30]), "idleRatio": 0.05 });
    let advice = advise(&body(&snapshot, json!({ "taskCountMin": 1, "taskCountMax": 30 })));
    assert!(advice.recommended >= Some(10), "{}", said(&advice));
    let stepped = advise(&body(&snapshot, json!({ "preset": "druid-lag-based", "lagBased": { "scaleInStep": 5 }, "taskCountMin": 1, "taskCountMax": 30 })));
    assert_eq!(stepped.recommended, Some(10), "half of them would be 190 % busy: {}", said(&stepped));
    assert!(has(&stepped, "BusyRatioLimit"), "{}", said(&stepped));
    // and what is declared is not believed where the tasks show otherwise
    let declared = advise(&body(
        &{
            let mut with = snapshot;
            with["processedPerSecond"] = json!(1000);
            with["arrivalPerSecond"] = json!(1000);
            with
        },
        json!({ "perReplicaPerSecond": 500, "max": 30 }),
    ));
    assert_eq!(declared.recommended, Some(10), "{}", said(&declared));
}

#[test]
fn sc_025_a_rate_that_is_not_known_yet_is_not_divided_by() {
    // naive: 500000 / 0 is infinite, and any candidate wins
    let snapshot = json!({ "taskCount": 4, "readingTasks": 4, "partitions": 16, "backlogRecords": 500_000, "processedPerSecond": 0, "taskAgeSeconds": 40 });
    let advice = advise(&body(&snapshot, json!({ "taskCountMin": 1, "taskCountMax": 16 })));
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, "CapacityUnknown") && said(&advice).contains("no processing rate has been measured yet"), "{}", said(&advice));
}

#[test]
fn sc_026_each_direction_has_a_cooldown_of_its_own() {
    // naive: one cooldown of 900 s blocks the urgent raise
    let ask = |arrival: u64| {
        let snapshot = json!({ "taskCount": 8, "readingTasks": 8, "partitions": 32, "partitionLag": lags(&[0; 32]), "arrivalPerSecond": arrival });
        let mut request = body(&snapshot, json!({ "taskCountMin": 2, "taskCountMax": 32, "perReplicaPerSecond": 1000, "pause": "0s" }));
        request["replicas"] = json!({ "spec": 8, "lastChange": { "at": ago(120), "from": 4, "to": 8 } });
        request["policy"]["scaleUp"] = json!({ "cooldown": "60s" });
        request["policy"]["scaleDown"] = json!({ "cooldown": "900s", "stabilization": "0s" });
        advise(&request)
    };
    assert_eq!(ask(12_800).recommended, Some(16));
    let down = ask(3_200);
    assert_eq!((down.wanted, down.recommended, down.outcome), (Some(4), Some(8), Outcome::Hold));
    assert!(said(&down).contains("13m are left"), "780 s: {}", said(&down));
}

#[test]
fn sc_027_a_raise_is_cut_to_the_worker_slots_and_more_workers_are_asked_for() {
    // naive: 20 slots are asked for, and 8 tasks stay pending
    let snapshot = json!({ "taskCount": 4, "replicas": 2, "readingTasks": 8, "partitions": 40, "partitionLag": lags(&[0; 40]), "arrivalPerSecond": 8000,
        "workerSlots": { "total": 14, "usedByOthers": 2 } });
    let advice = advise(&body(&snapshot, json!({ "taskCountMin": 1, "taskCountMax": 20, "perReplicaPerSecond": 1000, "pause": "0s" })));
    assert_eq!((advice.wanted, advice.recommended), (Some(10), Some(6)), "{}", said(&advice));
    let limit = advice.limits.iter().find(|limit| limit.code.name() == "WorkerSlots").expect("a limit");
    assert_eq!((limit.from, limit.to), (10, 6));
    assert!(said(&advice).contains("more workers are needed, with 8 slots"), "{}", said(&advice));
}

#[test]
fn the_count_is_set_by_posting_the_whole_spec() {
    let snapshot = json!({ "taskCount": 4, "readingTasks": 4, "partitions": 32, "partitionLag": lags(&[0; 32]), "arrivalPerSecond": 6400 });
    let policy = json!({ "perReplicaPerSecond": 1000 });
    let told = advise(&body(&snapshot, policy.clone()));
    assert!(said(&told).contains("get the spec from /druid/indexer/v1/supervisor/orders, set ioConfig.taskCount in it"), "{}", said(&told));
    assert_eq!(told.actions[0].request, None);
    let mut with = snapshot;
    with["spec"] = json!({ "type": "kafka", "spec": { "dataSchema": { "dataSource": "orders" }, "ioConfig": { "topic": "orders", "taskCount": 4 } } });
    let ready = advise(&body(&with, policy));
    let call = ready.actions[0].request.as_ref().expect("a call");
    assert_eq!((call.method, call.path.as_str()), ("POST", "/druid/indexer/v1/supervisor"));
    let sent = call.body.as_ref().expect("a body");
    assert_eq!((&sent["spec"]["ioConfig"]["taskCount"], &sent["spec"]["dataSchema"]["dataSource"]), (&json!(8), &json!("orders")));
}

#[test]
fn two_names_for_one_bound_are_refused() {
    let request = body(&json!({ "taskCount": 1 }), json!({ "min": 1, "taskCountMin": 1, "max": 3, "taskCountMax": 3 }));
    let text = format!("{:?}", refusal(&request));
    assert!(text.contains("policy.taskCountMin") && text.contains("policy.taskCountMax"), "{text}");
}
