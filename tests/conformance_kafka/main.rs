//! Rows about consumer groups: lag by partition, lag in seconds, rates, capacity, sizing, alignment, skew, bounds, prices.
//!
//! Every row is asked as a request. Rows about other tools (`burrow_status`, `keda_hpa`) are asked for what is right in the
//! same state; KEDA's own arithmetic is the preset `keda-kafka`. Rows of Pub/Sub are counted here and judged with their
//! own kind.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it has checked"
)]

mod asking;
mod lag;
mod price;
mod sizing;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::asking::*;
use crate::lag::*;
use crate::price::*;
use crate::sizing::*;

#[test]
fn every_row_about_kafka_groups_is_asked() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/kafka-pubsub.json")).expect("vectors");
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for row in vectors["cases"].as_array().expect("cases") {
        let category = row["category"].as_str().expect("a category");
        *seen.entry(category).or_default() += 1;
        println!("{category}: {}", row["name"]);
        match category {
            "partition_lag" => partition_lag(row),
            "idle_residual_lag" => idle_residual(row),
            "offset_gap" => offset_gap(row),
            "group_state" => group_state(row),
            "stuck_partition" => stuck(row),
            "burrow_status" => burrow(row),
            "time_lag_interpolation" => interpolation(row),
            "time_lag_rate" => lag_by_rate(row),
            "rates" => rates(row),
            "capacity" => capacity(row),
            "size_rate" => size(row),
            "catch_up" => catch_up(row),
            "partition_alignment" => alignment(row),
            "partition_alignment_need" => alignment_need(row),
            "skew" => skew(row),
            "multi_topic" => several_topics(row),
            "streams" => streams(row),
            "keda_hpa" => keda_against(row),
            "hysteresis" => hysteresis(row),
            "rebalance_cost" => rebalance_cost(row),
            "state_restore" => state_restore(row),
            "retention" => retention(row),
            "heartbeat" => heartbeat(row),
            "share_group" => share_group(row),
            // judged by tests/conformance_pubsub.rs
            "pubsub_size" | "pubsub_staleness" | "pubsub_poison" | "pubsub_concurrency" => {}
            other => panic!("{other} is no category that is known here"),
        }
    }
    let counts = [
        ("burrow_status", 6),
        ("capacity", 4),
        ("catch_up", 3),
        ("group_state", 6),
        ("heartbeat", 2),
        ("hysteresis", 2),
        ("idle_residual_lag", 1),
        ("keda_hpa", 5),
        ("multi_topic", 3),
        ("offset_gap", 1),
        ("partition_alignment", 4),
        ("partition_alignment_need", 3),
        ("partition_lag", 12),
        ("pubsub_concurrency", 3),
        ("pubsub_poison", 2),
        ("pubsub_size", 3),
        ("pubsub_staleness", 3),
        ("rates", 2),
        ("rebalance_cost", 2),
        ("retention", 3),
        ("share_group", 1),
        ("size_rate", 5),
        ("skew", 4),
        ("state_restore", 4),
        ("streams", 1),
        ("stuck_partition", 2),
        ("time_lag_interpolation", 5),
        ("time_lag_rate", 2),
    ];
    assert_eq!(seen, counts.into_iter().collect::<BTreeMap<_, _>>());
}

#[test]
fn the_preset_keda_kafka_publishes_what_keda_does() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/keda-kafka.json")).expect("vectors");
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for row in vectors["cases"].as_array().expect("cases") {
        let (inputs, expected) = (&row["inputs"], &row["expected"]);
        let category = row["category"].as_str().expect("a category");
        *seen.entry(category).or_default() += 1;
        let name = &row["name"];
        if category == "keda-kafka-factor" {
            let partitions = usize::try_from(inputs["partitions"].as_u64().expect("a count")).expect("small");
            let mut parts = vec![json!({ "committed": 0, "logEnd": 0 }); partitions];
            parts[0]["logEnd"] = inputs["totalLag"].clone();
            let advice =
                ask(1, group(parts), json!([]), json!({ "preset": "keda-kafka", "perReplicaBacklog": inputs["lagThreshold"], "evenDistribution": true }));
            assert_eq!(advice.recommended, expected["factor"].as_u64(), "{name}: {}", said(&advice));
            continue;
        }
        let given = list(inputs, "partitions");
        let starts = inputs.get("log_start");
        let commit = |value: &Value| if value.as_i64() == Some(-1) { Value::Null } else { value.clone() };
        let parts = given
            .iter()
            .enumerate()
            .map(|(place, part)| json!({ "committed": commit(&part["committed"]), "logEnd": part["end"], "logStart": starts.and_then(|starts| starts.get(place)) }))
            .collect();
        let before: Vec<Value> = given.iter().map(|part| json!({ "committed": part.get("previous_committed"), "logEnd": part["end"] })).collect();
        let history = if given.iter().any(|part| part.get("previous_committed").is_some()) {
            json!([with(group(before), json!({ "observedAt": ago(30.0) }))])
        } else {
            json!([])
        };
        let is_early = name.as_str().is_some_and(|name| name.ends_with("counts whole log end"));
        let policy = json!({ "preset": "keda-kafka", "min": 0, "perReplicaBacklog": inputs["lagThreshold"], "activationBacklog": inputs["activationLagThreshold"],
            "offsetReset": inputs["offsetResetPolicy"], "allowIdle": inputs["allowIdleConsumers"], "limitToPartitionsWithLag": inputs["limitToPartitionsWithLag"],
            "evenDistribution": inputs["ensureEvenDistributionOfPartitions"],
            "kedaKafka": { "scaleToZeroOnInvalidOffset": inputs["scaleToZeroOnInvalidOffset"], "excludePersistentLag": inputs["excludePersistentLag"], "countDeletedRecords": is_early } });
        let advice = ask(1, with(group(parts), json!({ "observedAt": ago(0.0) })), history, policy);
        let told = values(&advice, "LagPerReplica").expect("KEDA's metric");
        near(told["metric"].as_f64(), &expected["metric_value"], name.as_str().expect("a name"));
        assert_eq!(advice.active, expected["active"].as_bool(), "{name}");
        let needed = told["needed"].as_f64().expect("a count");
        assert_eq!(needed.ceil().to_string(), expected["replicas_ceil_outside_tolerance"].to_string(), "{name}");
        // with activity and a metric it is the recommendation, beyond the partitions where KEDA goes there
        if expected["active"] == true && needed > 0.0 {
            assert_eq!(advice.recommended, expected["replicas_ceil_outside_tolerance"].as_u64(), "{name}: {}", said(&advice));
        }
    }
    assert_eq!(seen, [("keda-kafka", 25), ("keda-kafka-factor", 7)].into_iter().collect());
}
