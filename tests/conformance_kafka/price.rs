//! KEDA on the same states, hysteresis, the price of a change, retention, producers, share groups.

use loadline::core::advice::{ActionKind, Advice};
use serde_json::{Value, json};

use crate::asking::*;

pub fn keda_against(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let partitions = usize::try_from(inputs["partitions"].as_u64().expect("partitions")).expect("small");
    let keda = |parts: Vec<Value>, policy: Value| {
        ask(1, group(parts), json!([]), with(json!({ "preset": "keda-kafka", "min": 0, "perReplicaBacklog": inputs["lag_threshold"] }), policy))
    };
    let metric = |advice: &Advice| values(advice, "LagPerReplica").expect("KEDA's metric")["metric"].as_f64();
    let one_of = |lag: &Value| {
        let mut parts = vec![json!({ "committed": 0, "logStart": 0, "logEnd": 0 }); partitions];
        parts[0]["logEnd"] = lag.clone();
        parts
    };
    match row["name"].as_str().expect("a name") {
        "keda_stuck_63_of_64" => {
            let hpa = json!({ "max": 64, "consumer": { "kind": "hpa", "tolerance": inputs["tolerance"], "max": 64 } });
            let body = json!({ "kind": "kafkaGroup", "replicas": { "spec": 63 }, "snapshot": group(one_of(&inputs["total_lag"])), "policy": with(json!({ "preset": "keda-kafka", "perReplicaBacklog": inputs["lag_threshold"] }), hpa) });
            let advice = advise(&body);
            near(metric(&advice), &expected["metric"], "metric");
            assert_eq!(advice.consumer.expect("an HPA").will_hold, 63);
            let right = ask(1, group(one_of(&inputs["total_lag"])), json!([]), json!({ "perReplicaBacklog": inputs["lag_threshold"] }));
            assert_eq!(right.recommended, expected["useful_by_skew"].as_u64(), "{}", said(&right));
        }
        "keda_idle_partitions_count" => {
            let silent = usize::try_from(inputs["uncommitted"].as_u64().expect("a count")).expect("small");
            let parts: Vec<Value> =
                (0..partitions).map(|place| json!({ "committed": if place < silent { Value::Null } else { json!(7) }, "logStart": 0, "logEnd": 7 })).collect();
            let advice = keda(parts.clone(), json!({}));
            near(metric(&advice), &expected["keda_metric"], "metric");
            assert_eq!(advice.recommended, expected["keda_replicas"].as_u64());
            let right = ask(9, group(parts), json!([]), json!({ "perReplicaBacklog": 10, "offsetReset": "latest" }));
            near(input(&right, "backlogRecords"), &expected["advisor_lag"], "lag");
            assert_eq!(right.recommended, Some(1), "{}", said(&right));
        }
        "keda_even_distribution" => {
            let advice = keda(one_of(&inputs["total_lag"]), json!({ "evenDistribution": true }));
            near(metric(&advice), &expected["metric"], "metric");
            assert_eq!(advice.recommended, expected["factor"].as_u64());
        }
        "keda_lag_blind_to_rate" => {
            assert_eq!(keda(one_of(&inputs["total_lag"]), json!({})).recommended, expected["keda_replicas"].as_u64());
            let right = loaded(&with(inputs.clone(), json!({ "backlog": inputs["total_lag"], "T": 300 })), 1, json!({}));
            assert_eq!(right.recommended, expected["rate_replicas_T300"].as_u64(), "{}", said(&right));
        }
        "keda_lag_too_late" => {
            assert_eq!(keda(one_of(&inputs["total_lag"]), json!({ "min": 2 })).recommended, Some(2), "lag 0 means the minimum");
            let right = loaded(inputs, 20, json!({ "evenDistribution": false }));
            assert_eq!(right.recommended, expected["rate_replicas"].as_u64(), "{}", said(&right));
        }
        other => panic!("{other} is not known here"),
    }
}

/// The busy share after a cut is bounded by `hysteresisRatio`: 0.7 of 0.8 is one eighth below.
pub fn hysteresis(row: &Value) {
    let inputs = &row["inputs"];
    let advice =
        loaded(inputs, inputs["current"].as_u64().expect("a count"), json!({ "hysteresisRatio": 0.125, "scaleDown": { "stabilization": "0s", "maxStep": 1 } }));
    let allowed = row["expected"]["allow"] == true;
    assert_eq!(advice.recommended, Some(if allowed { 4 } else { 5 }), "{}", said(&advice));
    assert_eq!(has(&advice, "Hysteresis"), !allowed);
}

pub fn rebalance_cost(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let pause = inputs.get("stop_the_world_s").or(inputs.get("pause_s")).and_then(Value::as_u64).expect("seconds");
    let cooperative = inputs.get("moved").is_some();
    let snapshot = json!({ "totalLag": 0, "arrivalPerSecond": inputs["arrival"], "processedPerSecond": inputs["arrival"],
        "assignor": if cooperative { "cooperative-sticky" } else { "range" }, "topics": [{ "name": "t", "partitionCount": 12 }] });
    let policy = json!({ "perReplicaPerSecond": inputs["cap"], "targetUtilization": 0.7, "catchUpWithin": "10h", "pause": format!("{pause}s") });
    let advice = ask(5, snapshot, json!([]), policy);
    assert_eq!(advice.recommended, inputs["n_after"].as_u64(), "{}", said(&advice));
    let price = values(&advice, "RebalancePrice").expect("a price");
    near(price["delayedRecords"].as_f64(), &expected["backlog"], "records");
    near(price["goneSeconds"].as_f64(), &expected["drain_s"], "seconds");
    if cooperative {
        assert_eq!(price["movedPartitions"], inputs["moved"]);
    }
}

pub fn state_restore(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let bytes = inputs["ledger_bytes"].as_f64();
    match row["name"].as_str().expect("a name") {
        "state_restore_sharded" => {
            let state = json!({ "shardBytes": bytes.expect("bytes") / 24.0, "restoreBytesPerSecond": inputs["restore_bytes_per_s"] });
            let advice = loaded(&json!({ "arrival": 640, "mu_now": 640, "cap": 100, "partitions": 24 }), 6, json!({ "state": state }));
            assert_eq!(advice.recommended, inputs["replicas_after"].as_u64(), "{}", said(&advice));
            near(values(&advice, "RebalancePrice").expect("a price")["restoreSeconds"].as_f64(), &expected["restore_s"], "seconds");
        }
        "state_memory_scale_in" => {
            let state = json!({ "shardBytes": bytes.expect("bytes") / 24.0, "limitBytes": inputs["mem_limit_bytes"] });
            let advice =
                loaded(&json!({ "arrival": 400, "mu_now": 400, "cap": 100, "partitions": 24 }), 6, json!({ "state": state, "evenDistribution": false }));
            assert_eq!((advice.wanted, advice.recommended), (inputs["replicas_after"].as_u64(), Some(6)), "{}", said(&advice));
            assert!(has(&advice, "MemoryFloor"));
        }
        "state_whole_ledger" => {
            let state = json!({ "shardBytes": bytes.expect("bytes") / 12.0, "restoreBytesPerSecond": inputs["restore_bytes_per_s"], "pattern": "wholeLedger" });
            for count in list(inputs, "replicas") {
                let count = count.as_u64().expect("a count");
                let advice =
                    loaded(&json!({ "arrival": 4000, "mu_now": 4000, "backlog": 90_000, "cap": 100, "partitions": 12 }), count, json!({ "state": state }));
                assert_eq!((advice.recommended, has(&advice, "PerInstanceGroup")), (Some(count), true), "{}", said(&advice));
                near(values(&advice, "BacklogCatchUp").expect("the wish is told")["startupSeconds"].as_f64(), &expected["start_delay_s"], "seconds");
            }
        }
        "ledger_partition_mismatch" => {
            let ask = |ledger: u64| {
                let topics = json!([{ "name": "stream", "partitionCount": inputs["stream_partitions"] }, { "name": "ledger", "partitionCount": ledger }]);
                let policy = json!({ "topics": ["stream"], "coPartitioned": [["stream", "ledger"]], "perReplicaPerSecond": 100 });
                ask(12, json!({ "totalLag": 0, "arrivalPerSecond": 1500, "processedPerSecond": 1200, "topics": topics }), json!([]), policy)
            };
            let differs = ask(inputs["ledger_partitions"].as_u64().expect("a count"));
            assert!(!acts(&differs, ActionKind::Repartition) && said(&differs).contains("no partitions are added to one of them alone"), "{}", said(&differs));
            let alike = ask(12);
            let advised = alike.actions.iter().find(|action| action.action == ActionKind::Repartition).expect("advice");
            assert_eq!(advised.to, Some(24), "1500/s at 80 % of 100/s are 19, and the next multiple of 12 is 24");
            assert!(advised.message.contains("stream, ledger"), "{}", advised.message);
            let order: Vec<ActionKind> = alike.actions.iter().map(|action| action.action).collect();
            assert!(
                order.iter().position(|kind| *kind == ActionKind::TuneConsumer) < order.iter().position(|kind| *kind == ActionKind::Repartition),
                "tuning comes first"
            );
        }
        other => panic!("{other} is not known here"),
    }
}

pub fn retention(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    match row["name"].as_str().expect("a name") {
        "retention_time_left" => {
            let partition = json!({ "lag": inputs["lag"], "arrivalPerSecond": inputs["arrival"], "processedPerSecond": inputs["capacity"] });
            let one = with(topic("t", vec![partition]), json!({ "retentionSeconds": inputs["retention_s"] }));
            let advice = ask(1, json!({ "lagSeconds": inputs["time_lag_s"], "topics": [one] }), json!([]), json!({}));
            near(values(&advice, "RetentionLoss").expect("urgent")["leftSeconds"].as_f64(), &expected["seconds_to_loss"], "seconds");
        }
        "retention_ratio" => {
            let advice = ask(1, group(vec![offsets(inputs)]), json!([]), json!({ "perReplicaBacklog": 1000 }));
            near(input(&advice, "backlogRecords"), &expected["lag"], "lag");
            let near_loss = values(&advice, "RetentionLoss").expect("said");
            near(near_loss["share"].as_f64(), &expected["ratio"], "share");
            near(near_loss["margin"].as_f64(), &expected["margin"], "margin");
        }
        "offsets_expire_scaled_to_zero" => {
            let snapshot = json!({ "state": "Empty", "members": 0, "totalLag": 0, "emptySeconds": inputs["empty_s"], "offsetsRetentionSeconds": inputs["offsets_retention_s"] });
            let advice = ask(0, snapshot, json!([]), json!({ "min": 0, "offsetReset": "latest" }));
            near(values(&advice, "NothingCommitted").expect("said")["leftSeconds"].as_f64(), &expected["seconds_to_commit_loss"], "seconds");
        }
        other => panic!("{other} is not known here"),
    }
}

pub fn heartbeat(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let partition = json!({ "lag": 0, "arrivalPerSecond": inputs["arrival"], "processedPerSecond": inputs["arrival"], "lastRecordAgeSeconds": inputs["last_record_age_s"], "endUnchangedSeconds": inputs["last_record_age_s"] });
    let policy = json!({ "min": 0, "idleBeforeZero": "0s", "perReplicaPerSecond": 100,
        "heartbeat": { "interval": format!("{}s", inputs["expected_heartbeat_s"]), "grace": format!("{}s", inputs["grace_s"]) } });
    let advice = ask(1, group(vec![partition]), json!([]), policy);
    assert_eq!(advice.recommended, Some(1), "never to zero: {}", said(&advice));
    let silent = expected["queue_state"] == "producer_suspect";
    assert_eq!((has(&advice, "ProducerSilent"), acts(&advice, ActionKind::AlertProducer)), (silent, silent), "{}", said(&advice));
    if let Some(business) = expected.get("business_arrival") {
        near(input(&advice, "arrivalPerSecond"), business, "arrivals");
    }
}

pub fn share_group(row: &Value) {
    let inputs = &row["inputs"];
    let partition = json!({ "committed": inputs["share_start_offset"], "logStart": 0, "logEnd": inputs["end_offset"], "completedAfterStart": inputs["delivery_complete_after_start"] });
    let advice = ask(1, with(group(vec![partition]), json!({ "type": "share" })), json!([]), json!({ "perReplicaBacklog": 10 }));
    near(input(&advice, "backlogRecords"), &row["expected"]["lag"], "lag");
    assert_eq!((advice.bounds.partitions, advice.recommended), (None, Some(25)), "partitions are no bound");
}
