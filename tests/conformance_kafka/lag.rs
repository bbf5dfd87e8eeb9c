//! Lag by partition and in seconds, the states of a group, and rates.

use loadline::core::advice::{ActionKind, Confidence, Outcome};
use serde_json::{Value, json};

use crate::asking::*;

pub fn partition_lag(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let isolation = if inputs["isolation"] == "read_committed" { "readCommitted" } else { "readUncommitted" };
    let reset = inputs["reset"].as_str().unwrap_or("unknown");
    let advice = ask(3, group(vec![offsets(inputs)]), json!([]), json!({ "perReplicaBacklog": 100, "isolation": isolation, "offsetReset": reset }));
    near(input(&advice, "backlogRecords"), &expected["lag"], "lag");
    let lost = values(&advice, "RetentionLoss").map_or(json!(0), |values| values.get("lost").cloned().unwrap_or(json!(0)));
    assert_eq!(lost.as_f64(), expected["lost"].as_f64(), "{}", said(&advice));
    let doubtful = state(&advice, "backlogRecords") != "fresh";
    assert_eq!(doubtful, expected["known"] == false, "{}", said(&advice));
    let flags: Vec<String> = list(expected, "flags").iter().map(|flag| flag.as_str().expect("text").to_owned()).collect();
    let flag = |name: &str| flags.iter().any(|flag| flag == name);
    assert_eq!(has(&advice, "NothingCommitted"), flag("no_commit"), "{}", said(&advice));
    for (name, word) in [("reset_earliest", "earliest"), ("reset_latest", "latest"), ("reset_none_consumer_will_fail", "consumers fail")] {
        assert_eq!(said(&advice).contains(word), flag(name), "{}", said(&advice));
    }
    assert_eq!(values(&advice, "RetentionLoss").is_some_and(|values| values["lost"].is_number()), flag("data_loss"));
    assert_eq!(has(&advice, "InconsistentReading"), flag("committed_ahead_of_end"));
    assert_eq!(has(&advice, "HangingTransaction"), flag("open_transaction"));
    // what is not known lowers nothing
    if expected["known"] == false {
        assert_eq!(advice.recommended, Some(3), "{}", said(&advice));
    }
}

pub fn idle_residual(row: &Value) {
    let inputs = &row["inputs"];
    let window = inputs["window_s"].clone();
    let lags = list(inputs, "lag_per_partition");
    let partitions = lags.iter().map(|lag| json!({ "lag": lag, "endUnchangedSeconds": window, "arrivalPerSecond": 0, "processedPerSecond": 0 })).collect();
    let advice = ask(
        3,
        with(group(partitions), json!({ "members": inputs["members"] })),
        json!([]),
        json!({ "min": 0, "residualRecords": inputs["residual_tolerance"] }),
    );
    near(input(&advice, "backlogRecords"), &row["expected"]["effective_lag"], "lag");
    assert_eq!((advice.active, advice.recommended), (Some(false), Some(0)), "{}", said(&advice));
    assert!(has(&advice, "TransactionMarkers"));
}

pub fn offset_gap(row: &Value) {
    let inputs = &row["inputs"];
    let ask = |ratio: Value| {
        let mut one = topic("t", vec![json!({ "committed": inputs["committed"], "logStart": 0, "logEnd": inputs["high_watermark"] })]);
        extend(&mut one, json!({ "cleanupPolicy": inputs["cleanup_policy"], "recordsPerOffset": ratio }));
        ask(2, json!({ "topics": [one] }), json!([]), json!({ "perReplicaBacklog": 10_000 }))
    };
    let (bound, sampled) = (ask(Value::Null), ask(inputs["records_in_range_sampled_ratio"].clone()));
    near(input(&bound, "backlogRecords"), &row["expected"]["offset_lag"], "the upper bound");
    assert!(said(&bound).contains("at most that much"));
    near(input(&sampled, "backlogRecords"), &row["expected"]["estimated_records"], "records");
    assert_eq!((bound.confidence, sampled.confidence), (Confidence::Low, Confidence::Low));
}

pub fn group_state(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    match row["name"].as_str().expect("a name") {
        "lag_topic_deleted" => {
            let gone = with(topic("orders", vec![json!({ "committed": 500 })]), json!({ "deleted": true }));
            let present = with(topic("payments", vec![json!({ "committed": 9, "logStart": 0, "logEnd": 9 })]), json!({ "subscribed": true }));
            let advice = ask(1, json!({ "state": "Stable", "members": 1, "topics": [gone, present] }), json!([]), json!({ "perReplicaBacklog": 10 }));
            near(input(&advice, "backlogRecords"), &expected["lag_total"], "lag");
            assert!(said(&advice).contains("orders is left out: it no longer exists"), "{}", said(&advice));
        }
        "lag_stale_topic_in_group" => {
            let of = |name: &str| {
                let from = &inputs["partitions"][format!("{name}-0")];
                let partition = json!({ "committed": from["committed"], "logStart": 0, "logEnd": from["end"], "processedPerSecond": from["commit_rate"] });
                with(topic(name, vec![partition]), json!({ "subscribed": list(inputs, "members_subscribe").contains(&json!(name)) }))
            };
            let advice =
                ask(1, json!({ "state": "Stable", "members": 1, "topics": [of("first"), of("second")] }), json!([]), json!({ "perReplicaBacklog": 1000 }));
            near(input(&advice, "backlogRecords"), &expected["lag_total"], "lag");
            assert!(has(&advice, "NotSubscribed") && said(&advice).contains("first is left out"));
        }
        "lag_partition_added" => {
            let (commits, ends) = (list(inputs, "commits"), list(inputs, "ends"));
            let partitions = commits.iter().zip(&ends).map(|(committed, end)| json!({ "committed": committed, "logStart": 0, "logEnd": end })).collect();
            let advice = ask(1, group(partitions), json!([]), json!({ "perReplicaBacklog": 1000, "offsetReset": "latest" }));
            near(input(&advice, "backlogRecords"), &expected["lag_known"], "lag");
            assert_eq!(advice.bounds.partitions, expected["upper_bound_replicas"].as_u64());
            assert!(said(&advice).contains("on 2 of 6 partitions") && said(&advice).contains("up to 30 records"), "{}", said(&advice));
        }
        "group_empty_with_lag" => {
            for min in [1, 3] {
                let advice = ask(0, json!({ "state": "Empty", "members": 0, "totalLag": inputs["lag_total"] }), json!([]), json!({ "min": min }));
                assert_eq!(advice.recommended, Some(min), "{}", said(&advice));
                assert_eq!(input(&advice, "capacityPerReplicaPerSecond"), None, "nobody has shown one");
            }
        }
        "group_dead_classic_api" => {
            let advice =
                ask(2, json!({ "type": "consumer", "state": "Dead", "members": 0, "totalLag": 90_000 }), json!([]), json!({ "perReplicaBacklog": 10 }));
            assert_eq!((advice.recommended, advice.outcome), (Some(2), Outcome::Hold));
            assert!(said(&advice).contains("its own describe call"), "{}", said(&advice));
        }
        "group_rebalance_storm" => {
            let advice = ask(
                2,
                json!({ "state": "Stable", "members": 2, "totalLag": 90_000, "rebalancesLast10Minutes": inputs["rebalances_in_window"] }),
                json!([]),
                json!({ "perReplicaBacklog": 10 }),
            );
            assert_eq!((advice.recommended, advice.outcome), (Some(2), Outcome::Hold));
            assert!(has(&advice, "RebalanceStorm") && acts(&advice, ActionKind::TuneConsumer));
        }
        other => panic!("{other} is not known here"),
    }
}

pub fn stuck(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (commits, ends) = (list(inputs, "committed_history"), list(inputs, "end_history"));
    let step = inputs["sample_s"].as_u64().expect("seconds");
    let samples = commits.len() as u64;
    let sibling = inputs["other_partitions_commit_rate"].as_u64();
    let reading = |place: u64| {
        let back = (samples - 1 - place) * step;
        let at = usize::try_from(place).expect("small");
        let mut partitions = vec![json!({ "committed": commits[at], "logStart": 0, "logEnd": ends[at], "member": "a" })];
        if let Some(rate) = sibling {
            partitions.push(json!({ "committed": 9000 + place * step * rate, "logStart": 0, "logEnd": 9000 + place * step * rate, "member": "b" }));
        }
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let at = ago(back as f64);
        with(
            group(partitions),
            json!({ "observedAt": at, "members": inputs["members"].as_u64().unwrap_or(1), "commitIntervalSeconds": inputs["commit_interval_s"] }),
        )
    };
    let history: Vec<Value> = (0..samples - 1).map(reading).collect();
    let policy = json!({ "stuckAfter": format!("{}s", (samples - 1) * step), "window": "10m" });
    let advice = ask(inputs["members"].as_u64().unwrap_or(1), reading(samples - 1), json!(history), policy);
    let is_stuck = expected["status"] == "stalled";
    assert_eq!(has(&advice, "StuckPartition"), is_stuck, "{}", said(&advice));
    if is_stuck {
        near(input(&advice, "backlogRecords"), &json!(0), "what is stuck is set aside");
        assert!(acts(&advice, ActionKind::Investigate));
    } else {
        near(input(&advice, "backlogRecords"), &expected["lag"], "lag");
        near(input(&advice, "servedPerSecond"), &expected["commit_rate"], "rate");
    }
}

/// The states of Burrow as what is said here of the same readings; the window of a stop is a time, not a count.
pub fn burrow(row: &Value) {
    let inputs = &row["inputs"];
    let (commits, times) = (list(inputs, "offsets"), list(inputs, "timestamps_ms"));
    let time = |value: &Value| value.as_f64().expect("a time") / 1000.0;
    let now = time(&inputs["now_ms"]);
    let end = list(inputs, "recent_broker_offsets")[0].clone();
    let (first, last) = (time(&times[0]), time(times.last().expect("times")));
    let since = commits.iter().zip(&times).rev().take_while(|(commit, _)| *commit == commits.last().expect("commits")).last().map_or(last, |(_, at)| time(at));
    let reading = |committed: &Value, end: Value, at: f64| {
        with(group(vec![json!({ "committed": committed, "logStart": 0, "logEnd": end, "member": "a" })]), json!({ "observedAt": ago(now - at), "members": 1 }))
    };
    let history: Vec<Value> = commits
        .iter()
        .zip(&times)
        .enumerate()
        .map(|(place, (committed, at))| {
            let lag = inputs["lags"].get(place).and_then(Value::as_u64).unwrap_or(200);
            reading(committed, json!(committed.as_u64().expect("an offset") + lag), time(at))
        })
        .collect();
    let mut snapshot = reading(commits.last().expect("commits"), end, now);
    // a stop is judged by the last commit, as Burrow does; a stall by the last move
    snapshot["topics"][0]["partitions"][0]["commitUnchangedSeconds"] = json!(now - since);
    if row["expected"]["status"] == "WARN" {
        // commits come every 100 s, so less than three of them tell no rate
        snapshot["commitIntervalSeconds"] = json!(100);
    }
    let stop = (last - first + 1.0).max(1.0);
    let stuck_after = if row["expected"]["status"] == "STALL" { 300.0 } else { stop };
    let advice = ask(1, snapshot, json!(history), json!({ "stuckAfter": format!("{stuck_after}s"), "window": "20m" }));
    let expected = row["expected"]["status"].as_str().expect("a status");
    assert_eq!(has(&advice, "StuckPartition"), matches!(expected, "STOP" | "STALL"), "{expected}: {}", said(&advice));
    assert_eq!(has(&advice, "CounterReset"), expected == "REWIND", "{expected}: {}", said(&advice));
    if expected == "WARN" {
        assert!(input(&advice, "arrivalPerSecond") > input(&advice, "servedPerSecond"), "it falls behind: {}", said(&advice));
    }
}

pub fn interpolation(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let reading = |committed: &Value, end: &Value, back: f64| {
        with(group(vec![json!({ "committed": committed, "logStart": 0, "logEnd": end })]), json!({ "observedAt": ago(back) }))
    };
    if row["name"] == "timelag_window_cap" {
        let span = inputs["table_span_s"].as_f64().expect("seconds");
        let flat = |back: f64| reading(&json!(500), &json!(1000), back);
        let advice = ask(1, flat(0.0), json!([flat(span), flat(span / 2.0)]), json!({ "perReplicaBacklog": 1000, "stuckAfter": "10h" }));
        near(input(&advice, "lagSeconds"), &expected["lower_bound_s"], "seconds");
        assert_eq!(values(&advice, "LagEstimated").expect("said")["atLeast"], true);
        return;
    }
    let table = list(inputs, "table");
    let observed = inputs["observed_at"].as_f64().expect("a time");
    let at = |point: &Value| observed - point[1].as_f64().expect("a time");
    let newest = table.last().expect("a table");
    let history: Vec<Value> = table[..table.len() - 1].iter().map(|point| reading(&inputs["committed"], &point[0], at(point))).collect();
    // an end that has not moved since is read again, where there is more than one point
    let back = if table.len() > 1 { 0.0 } else { at(newest) };
    let advice = ask(1, reading(&inputs["committed"], &newest[0], back), json!(history), json!({ "perReplicaBacklog": 1000, "stuckAfter": "10h" }));
    near(input(&advice, "lagSeconds"), &expected["time_lag"], "seconds");
    if expected["confidence"] == "extrapolated" {
        assert!(said(&advice).contains("extrapolated"));
    }
    if expected["time_lag"].is_null() {
        assert_eq!(state(&advice, "lagSeconds"), "missing");
    }
}

pub fn lag_by_rate(row: &Value) {
    let inputs = &row["inputs"];
    let advice = ask(1, json!({ "totalLag": inputs["lag"], "arrivalPerSecond": inputs["arrival_rate"] }), json!([]), json!({ "perReplicaBacklog": 1000 }));
    near(input(&advice, "lagSeconds"), &row["expected"]["time_lag"], "seconds");
}

pub fn rates(row: &Value) {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let seconds = inputs["t1"].as_f64().expect("t1") - inputs["t0"].as_f64().expect("t0");
    let at = |place: usize| {
        list(inputs, "end")
            .iter()
            .zip(list(inputs, "committed"))
            .map(|(end, committed)| json!({ "committed": committed[place], "logStart": 0, "logEnd": end[place] }))
            .collect()
    };
    let history = json!([with(group(at(0)), json!({ "observedAt": ago(seconds) }))]);
    let advice = ask(1, with(group(at(1)), json!({ "observedAt": ago(0.0) })), history, json!({}));
    near(input(&advice, "arrivalPerSecond"), &expected["arrival_rate"], "arrivals");
    near(input(&advice, "servedPerSecond"), &expected["consumption_rate"], "reads");
    if let Some(lag) = expected.get("lag_t1") {
        near(input(&advice, "backlogRecords"), lag, "lag");
        near(input(&advice, "arrivalPerSecond").zip(input(&advice, "servedPerSecond")).map(|(a, b)| a - b), &expected["lag_growth"], "growth");
    } else {
        assert!(has(&advice, "CounterReset"), "{}", said(&advice));
    }
}
