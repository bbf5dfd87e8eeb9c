//! Consumer groups of Kafka.

use loadline::core::advice::Outcome;
use serde_json::{Value, json};

use super::{advise, ago, has, immediate, said};

fn group(spec: u64, snapshot: Value, policy: Value) -> Value {
    json!({ "kind": "kafkaGroup", "replicas": { "spec": spec }, "snapshot": snapshot, "policy": immediate(policy) })
}

/// A topic of partitions with these lags.
fn lags(name: &str, lags: &[Value]) -> Value {
    let partitions: Vec<Value> = lags.iter().enumerate().map(|(partition, lag)| json!({ "partition": partition, "lag": lag })).collect();
    json!({ "name": name, "partitions": partitions })
}

fn numbers(values: &[i64]) -> Vec<Value> {
    values.iter().map(|value| json!(value)).collect()
}

/// The input of that name.
fn input(advice: &loadline::core::advice::Advice, name: &str) -> Option<f64> {
    advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value)
}

#[test]
fn sc_042_kafka_records_that_retention_deleted_are_no_lag() {
    let advice = advise(&group(
        1,
        json!({ "topics": [{ "name": "t", "partitions": [
            { "partition": 0, "committed": null, "logStart": 5_000_000, "logEnd": 5_000_000 },
            { "partition": 1, "committed": null, "logStart": 4_800_000, "logEnd": 4_800_000 },
            { "partition": 2, "committed": 120, "logStart": 0, "logEnd": 150 }] }] }),
        json!({ "min": 0, "max": 20, "perReplicaBacklog": 100, "offsetReset": "earliest" }),
    ));
    assert_eq!((advice.recommended, input(&advice, "backlogRecords")), (Some(1), Some(30.0)), "{}", said(&advice));
}

#[test]
fn sc_044_kafka_a_new_group_that_begins_at_the_end_has_nothing_known_to_wait() {
    let partitions: Vec<Value> = (0..12).map(|partition| json!({ "partition": partition, "committed": null, "logStart": 0, "logEnd": 700_000 })).collect();
    for spec in [0, 1] {
        let advice = advise(&group(
            spec,
            json!({ "topics": [{ "name": "t", "partitions": partitions }] }),
            json!({ "min": 0, "max": 100, "perReplicaBacklog": 5, "offsetReset": "latest" }),
        ));
        assert!(advice.recommended <= Some(1), "{:?}", advice.recommended);
        assert!(has(&advice, "NothingCommitted") && said(&advice).contains("latest"), "{}", said(&advice));
        assert!(!said(&advice).contains(" -1"), "no sentinel appears: {}", said(&advice));
    }
}

#[test]
fn sc_045_kafka_a_single_hot_partition_is_not_relieved_by_replicas() {
    let mut partitions: Vec<Value> = (0..64).map(|partition| json!({ "partition": partition, "lag": 0 })).collect();
    partitions[0] = json!({ "partition": 0, "lag": 1_000_000, "processedPerSecond": 900, "arrivalPerSecond": 1000 });
    let advice = advise(&group(20, json!({ "topics": [{ "name": "t", "partitions": partitions }] }), json!({ "max": 64, "perReplicaBacklog": 3000 })));
    assert_eq!((advice.recommended, advice.outcome), (Some(20), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, "HotPartition") && said(&advice).contains("1 of 64 partitions"), "{}", said(&advice));
}

#[test]
fn sc_046_kafka_there_are_never_more_replicas_than_partitions() {
    for (first, second) in [(6, 5), (11, 10), (15, 14), (500_000_000, 500_000_000), (999_999_999, 1)] {
        let advice = advise(&group(1, json!({ "topics": [lags("t", &numbers(&[first, second]))] }), json!({ "max": 10, "perReplicaBacklog": 10 })));
        assert_eq!(advice.recommended, Some(2), "{first} + {second}: {}", said(&advice));
    }
}

#[test]
fn sc_047_kafka_a_partition_without_an_answer_is_missing_and_not_zero() {
    let ask = |failures: u32| {
        let mut body = group(
            2,
            json!({ "topics": [lags("t", &[json!(0), json!(0), Value::Null])] }),
            json!({ "min": 0, "max": 2, "perReplicaBacklog": 50_000, "onUnknown": { "fallback": 1, "afterFailures": 3 } }),
        );
        body["failure"] = json!({ "kind": "incomplete", "consecutive": failures });
        advise(&body)
    };
    let advice = ask(1);
    assert_eq!((advice.recommended, advice.outcome), (Some(2), Outcome::Hold));
    assert!(has(&advice, "IncompleteReading") && said(&advice).contains("partition t 2"), "{}", said(&advice));
    assert!(ask(3).recommended >= Some(1));
}

#[test]
fn sc_049_kafka_transaction_markers_are_no_work() {
    let partitions: Vec<Value> = (0..12).map(|partition| json!({ "partition": partition, "lag": 1, "endUnchangedSeconds": 900 })).collect();
    let ask = |partitions: &[Value]| {
        advise(&group(
            1,
            json!({ "topics": [{ "name": "t", "partitions": partitions }] }),
            json!({ "min": 0, "max": 12, "perReplicaBacklog": 100, "idleBeforeZero": "300s" }),
        ))
    };
    let advice = ask(&partitions);
    assert_eq!((advice.recommended, advice.active), (Some(0), Some(false)), "{}", said(&advice));
    assert!(has(&advice, "TransactionMarkers") && said(&advice).contains("12 partitions x 1"), "{}", said(&advice));
    // the same records a moment after they came are work
    let young: Vec<Value> = (0..12).map(|partition| json!({ "partition": partition, "lag": 1, "endUnchangedSeconds": 20 })).collect();
    assert_eq!(ask(&young).recommended, Some(1));
}

#[test]
fn sc_050_kafka_a_stuck_partition_is_set_aside_and_named() {
    let lags = [800_000, 10, 0, 5, 0, 0, 0, 0];
    let partitions: Vec<Value> = lags
        .iter()
        .enumerate()
        .map(|(partition, lag)| json!({ "partition": partition, "lag": lag, "member": format!("c{}", partition / 2), "commitUnchangedSeconds": if partition == 0 { 600 } else { 20 } }))
        .collect();
    let advice = advise(&group(
        4,
        json!({ "state": "Stable", "members": 4, "topics": [{ "name": "t", "partitions": partitions }] }),
        json!({ "max": 24, "perReplicaBacklog": 1000 }),
    ));
    assert_eq!(advice.recommended, Some(4), "{}", said(&advice));
    assert!(has(&advice, "StuckPartition") && said(&advice).contains("partition t 0"), "{}", said(&advice));
    assert!(advice.wanted <= Some(1), "what is stuck asks for nothing");
}

#[test]
fn sc_052_kafka_no_more_replicas_than_partitions_with_lag() {
    let mut values = vec![10_000; 4];
    values.extend([0; 8]);
    let advice = advise(&group(
        3,
        json!({ "topics": [lags("t", &numbers(&values))] }),
        json!({ "max": 12, "perReplicaBacklog": 1000, "limitToPartitionsWithLag": true }),
    ));
    assert_eq!(advice.recommended, Some(4), "{}", said(&advice));
}

#[test]
fn sc_053_kafka_a_count_that_changes_nothing_is_skipped() {
    let advice = advise(&group(4, json!({ "topics": [lags("t", &numbers(&[400; 12]))] }), json!({ "max": 12, "perReplicaBacklog": 1000 })));
    assert_eq!((advice.wanted, advice.recommended), (Some(5), Some(6)), "{}", said(&advice));
}

#[test]
fn sc_056_kafka_a_group_that_keeps_up_is_not_idle() {
    let advice = advise(&group(1, json!({ "totalLag": 0, "processedPerSecond": 16_117, "arrivalPerSecond": 16_100 }), json!({ "min": 0, "max": 10 })));
    assert!(advice.recommended >= Some(1), "{}", said(&advice));
    assert!(has(&advice, "ActiveTraffic"), "{}", said(&advice));
}

#[test]
fn sc_058_kafka_a_topic_that_nobody_reads_any_more_is_left_out() {
    let ask = |abandoned: Value| {
        let mut other = lags("A", &numbers(&[9_000_000]));
        other.as_object_mut().expect("an object").extend(abandoned.as_object().cloned().expect("an object"));
        let b = json!({ "name": "B", "partitions": [{ "partition": 0, "lag": 20, "member": "c" }] });
        advise(&group(2, json!({ "state": "Stable", "members": 2, "topics": [other, b] }), json!({ "max": 20, "perReplicaBacklog": 1000 })))
    };
    // told, and as it follows from who is assigned to what
    for advice in [ask(json!({ "subscribed": false })), ask(json!({}))] {
        assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
        assert!(has(&advice, "NotSubscribed") && said(&advice).contains("A is left out"), "{}", said(&advice));
    }
}

#[test]
fn sc_059_kafka_the_lag_of_a_group_without_members_is_still_there() {
    let partitions: Vec<Value> = (0..10).map(|partition| json!({ "partition": partition, "committed": 1000, "logStart": 0, "logEnd": 1050 })).collect();
    let empty = json!({ "state": "Empty", "members": 0, "topics": [{ "name": "t", "partitions": partitions }] });
    let totals = json!({ "state": "Empty", "members": 0, "totalLag": 500, "topics": [{ "name": "t", "partitionCount": 10 }] });
    for snapshot in [empty, totals] {
        let advice = advise(&group(0, snapshot, json!({ "min": 0, "max": 10, "perReplicaBacklog": 100 })));
        assert_eq!(advice.recommended, Some(5), "{}", said(&advice));
    }
}

#[test]
fn sc_061_kafka_an_old_commit_is_not_an_old_reading() {
    let partition = json!({ "partition": 0, "committed": 70, "logStart": 0, "logEnd": 70, "commitAgeSeconds": 32_400, "commitUnchangedSeconds": 32_400, "endUnchangedSeconds": 32_400 });
    let mut snapshot = json!({ "observedAt": ago(10), "state": "Stable", "members": 1, "topics": [{ "name": "t", "partitions": [partition] }] });
    for _ in 0..2 {
        let advice = advise(&group(1, snapshot, json!({ "max": 8 })));
        assert_eq!((advice.recommended, advice.outcome), (Some(1), Outcome::Keep), "{}", said(&advice));
        assert!(!has(&advice, "StuckPartition"));
        snapshot = json!({ "observedAt": ago(10), "totalLag": 0 });
    }
}

#[test]
fn sc_063_kafka_an_unknown_lag_in_seconds_is_unknown_and_spoils_nothing() {
    let advice = advise(&group(2, json!({ "lagSeconds": null, "totalLag": 0 }), json!({ "max": 8, "maxLagSeconds": 60, "perReplicaBacklog": 100 })));
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
    // nothing waits, so that a lag of no records is no old one; with records and no rate it is unknown
    let waiting = advise(&group(2, json!({ "lagSeconds": null, "totalLag": 50 }), json!({ "max": 8, "maxLagSeconds": 60, "perReplicaBacklog": 100 })));
    let lag = waiting.inputs.iter().find(|input| input.name == "lagSeconds").expect("it is listed");
    assert_eq!((lag.value, serde_json::to_value(lag.state).expect("json")), (None, json!("missing")));
}

#[test]
fn sc_064_kafka_topics_of_one_group_are_added_up() {
    let advice = advise(&group(
        4,
        json!({ "topics": [lags("A", &numbers(&[500; 10])), lags("B", &numbers(&[600; 10]))] }),
        json!({ "max": 30, "perReplicaBacklog": 1000 }),
    ));
    assert_eq!((advice.recommended, advice.bounds.partitions), (Some(11), Some(20)), "{}", said(&advice));
}

#[test]
fn sc_065_kafka_a_raise_that_lowered_the_throughput_is_not_followed_by_another() {
    let history = json!([
        { "observedAt": ago(1800), "replicas": 8, "processedPerSecond": 4000, "totalLag": 900_000 },
        { "observedAt": ago(300), "replicas": 16, "processedPerSecond": 2500, "totalLag": 900_000 }]);
    let mut body = group(
        16,
        json!({ "observedAt": ago(5), "replicas": 16, "processedPerSecond": 2500, "totalLag": 900_000, "topics": [{ "name": "t", "partitionCount": 64 }] }),
        json!({ "min": 2, "max": 64, "perReplicaBacklog": 1000 }),
    );
    body["replicas"]["lastChange"] = json!({ "at": ago(900), "from": 8, "to": 16 });
    body["history"] = history;
    let advice = advise(&body);
    assert_eq!((advice.recommended, advice.outcome), (Some(16), Outcome::Hold), "{}", said(&advice));
    assert!(has(&advice, "IneffectiveScaling") && said(&advice).contains("4000/s") && said(&advice).contains("2500/s"), "{}", said(&advice));
}

#[test]
fn sc_066_kafka_replicas_that_have_not_joined_are_not_joined_by_more() {
    let mut body =
        group(5, json!({ "members": 3, "totalLag": 9000, "topics": [{ "name": "t", "partitionCount": 10 }] }), json!({ "max": 10, "perReplicaBacklog": 1000 }));
    body["replicas"] = json!({ "spec": 5, "ready": 5, "lastChange": { "at": ago(1200), "from": 4, "to": 5 } });
    let advice = advise(&body);
    assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Hold), "{}", said(&advice));
    assert!(said(&advice).contains("only 3 of 5 replicas are members of the group"), "{}", said(&advice));
    // just after a change the missing ones are on their way
    body["replicas"]["lastChange"]["at"] = json!(ago(20));
    assert!(!has(&advise(&body), "MembersMissing"));
}

#[test]
fn sc_067_kafka_negative_lags_are_reported_and_never_summed() {
    let advice = advise(&group(4, json!({ "topics": [lags("t", &numbers(&[-300, 120, 200, -5]))] }), json!({ "max": 8, "perReplicaBacklog": 100 })));
    assert_eq!(advice.recommended, Some(4), "{}", said(&advice));
    assert!(has(&advice, "InconsistentReading") && said(&advice).contains("partition t 0 is -300 behind") && said(&advice).contains("partition t 3 is -5"));
}

#[test]
fn sc_123_kafka_too_few_readings_are_said_and_decide_nothing() {
    let policy = json!({ "max": 20, "perReplicaBacklog": 10, "minReadings": 5, "window": "2m" });
    let mut body = group(3, Value::Null, policy);
    body["failure"] = json!({ "kind": "timeout" });
    let advice = advise(&body);
    assert_eq!((advice.recommended, advice.outcome), (Some(3), Outcome::Hold));
    assert!(said(&advice).contains("0 of 5 samples"), "{}", said(&advice));
    body["snapshot"] = json!({ "totalLag": 1000 });
    assert!(said(&advise(&body)).contains("1 of 5 samples"));
    body["history"] = (1..5).rev().map(|back| json!({ "observedAt": ago(25 * back), "totalLag": 1000 })).collect();
    assert_eq!(advise(&body).recommended, Some(20));
}
