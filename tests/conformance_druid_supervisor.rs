//! Rows about streaming supervisors: Druid's own autoscalers, and the sizing of tasks without partitions.
//!
//! The `lagBased` rows are decisions, and the preset makes the same. The `costBased` rows are figures of cost functions
//! that changed four times within a year; no policy here has them. Where such a row shows what is right or wrong, the
//! decision is asked for; the others are counted, named and explained in the documentation of the kind.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it has checked"
)]

use std::collections::BTreeMap;

use loadline::core::advice::{Advice, Outcome};
use loadline::core::request::parse;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn ago(seconds: u64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(i64::try_from(seconds).expect("a short time"))).to_string()
}

fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

fn number(row: &Value, name: &str) -> u64 {
    row["inputs"][name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// The samples of a row as readings that fill the window, judged by the preset.
fn lag_based(row: &Value) -> Advice {
    let samples = row["inputs"]["lag_samples_records"].as_array().expect("samples");
    let current = number(row, "current_task_count");
    let reading = |index: usize| {
        json!({ "observedAt": ago(30 * (samples.len() - 1 - index) as u64), "state": "RUNNING", "taskCount": current,
            "partitions": number(row, "partition_count"), "backlogRecords": samples[index] })
    };
    let history: Vec<Value> = (0..samples.len() - 1).map(reading).collect();
    let thresholds = json!({
        "scaleOutThreshold": row["inputs"]["scale_out_threshold_records"], "scaleInThreshold": row["inputs"]["scale_in_threshold_records"],
        "triggerScaleOutFractionThreshold": row["inputs"]["trigger_scale_out_fraction"], "triggerScaleInFractionThreshold": row["inputs"]["trigger_scale_in_fraction"],
        "scaleOutStep": row["inputs"]["scale_out_step_tasks"], "scaleInStep": row["inputs"]["scale_in_step_tasks"],
        "useNearestFactorScaling": row["inputs"]["use_nearest_factor_scaling"] });
    advise(&json!({ "kind": "druidSupervisor", "snapshot": reading(samples.len() - 1), "history": history,
        "policy": { "preset": "druid-lag-based", "taskCountMin": number(row, "task_count_min"), "taskCountMax": number(row, "task_count_max"),
            "window": format!("{}s", 30 * (samples.len() - 1)), "lagBased": thresholds } }))
}

fn same_decision(row: &Value) {
    let advice = lag_based(row);
    let current = number(row, "current_task_count");
    let expected = row["expected"]["desired_task_count"].as_i64().expect("a count");
    let right = u64::try_from(expected).unwrap_or(current);
    assert_eq!(advice.recommended, Some(right), "{}: {:?} {:?}", row["name"], advice.reasons, advice.limits);
}

fn same_raw_and_clamped(row: &Value) {
    let advice = lag_based(row);
    assert_eq!(advice.wanted, row["expected"]["raw_desired_task_count"].as_u64(), "{}", row["name"]);
    assert_eq!(advice.recommended, row["expected"]["after_supervisor_clamp_to_min_max"].as_u64(), "{}: {:?}", row["name"], advice.limits);
}

/// The preset's window holds as many samples as Druid's ring, at its interval.
fn same_window(row: &Value) {
    let interval = number(row, "lag_collection_interval_ms") / 1000;
    let slots = row["expected"]["ring_buffer_slots"].as_u64().expect("slots");
    let ask = |samples: u64| {
        let reading = |back: u64| json!({ "observedAt": ago(back * interval), "taskCount": 4, "partitions": 24, "backlogRecords": 9_000_000 });
        let history: Vec<Value> = (1..samples).rev().map(reading).collect();
        advise(
            &json!({ "kind": "druidSupervisor", "snapshot": reading(0), "history": history, "policy": { "preset": "druid-lag-based", "minReadings": slots } }),
        )
    };
    let (short, full, long) = (ask(slots - 1), ask(slots), ask(slots + 10));
    assert_eq!((short.recommended, short.outcome), (Some(4), Outcome::Hold), "{}: the window is not full", row["name"]);
    assert_eq!(full.recommended, Some(6), "{}: {:?}", row["name"], full.reasons);
    let readings = |advice: &Advice| serde_json::to_value(&advice.reasons[0]).expect("json")["values"]["readings"].as_u64();
    assert_eq!((readings(&full), readings(&long)), (Some(slots), Some(slots)), "older samples do not count");
}

/// Tasks without partitions: required rate over the rate of a saturated task.
fn sized(row: &Value) {
    let advice = advise(&json!({ "kind": "druidSupervisor",
        "snapshot": { "stream": "pubsub", "taskCount": 1, "backlogRecords": number(row, "num_undelivered_messages"), "arrivalPerSecond": number(row, "publish_rate_msgs_per_s") },
        "policy": { "perReplicaPerSecond": number(row, "ack_rate_per_task_at_saturation_msgs_per_s"), "catchUpWithin": format!("{}s", number(row, "drain_target_s")),
            "targetUtilization": row["inputs"]["utilisation_target"], "min": number(row, "min_tasks"), "startup": "0s", "pause": "0s" } }));
    assert_eq!(advice.recommended, row["expected"]["tasks"].as_u64(), "{}: {:?}", row["name"], advice.reasons);
}

/// What a row of the cost functions shows, as a decision; false where it is a figure only.
fn shown_by_cost(row: &Value) -> bool {
    let ask = |snapshot: Value, policy: Value| {
        let mut reading = json!({ "state": "RUNNING", "stream": "kafka", "taskCount": 10, "readingTasks": 10, "partitions": 100, "backlogRecords": 0 });
        reading.as_object_mut().expect("an object").extend(snapshot.as_object().cloned().expect("an object"));
        advise(&json!({ "kind": "druidSupervisor", "snapshot": reading, "policy": policy }))
    };
    match row["name"].as_str().expect("a name") {
        // fewer tasks than the work needs cost nothing there; here they are not had
        "cost_linear_idle_clamped_to_zero" => {
            let idle = row["inputs"]["poll_idle_ratio"].clone();
            let stepped = ask(json!({ "idleRatio": idle }), json!({ "preset": "druid-lag-based", "lagBased": { "scaleInStep": 8 } }));
            assert_eq!(stepped.recommended, Some(6), "10 tasks that are 60 % busy have work for 6: {:?}", stepped.limits);
        }
        // a missing idle ratio is neither 0.5 nor 0, and decides nothing
        "cost_linear_idle_missing_10" | "cost_linear_idle_missing_20" | "cost_poll_idle_missing" => {
            let advice = ask(json!({}), json!({}));
            assert_eq!((advice.recommended, advice.outcome), (Some(10), Outcome::Hold));
        }
        // without a rate the present count stays, there because all others cost infinitely much
        "cost_linear_no_rate_keeps_current" | "cost_moving_average_missing" => {
            let advice = ask(json!({ "processedPerSecond": 0, "backlogRecords": 10_000_000 }), json!({}));
            assert_eq!((advice.recommended, advice.outcome), (Some(10), Outcome::Hold));
        }
        // all candidates lie within the partitions and the bounds
        "cost_candidates_2p_5t_over_partitioned" => {
            let advice = ask(json!({ "taskCount": 5, "readingTasks": 2, "partitions": 2, "arrivalPerSecond": 9000 }), json!({ "perReplicaPerSecond": 1000 }));
            assert_eq!(advice.recommended, Some(2));
        }
        "cost_candidates_min_bound" => {
            let advice = ask(json!({ "arrivalPerSecond": 100 }), json!({ "perReplicaPerSecond": 1000, "min": 10, "max": 100 }));
            assert_eq!(advice.recommended, Some(10));
        }
        "cost_candidates_both_bounds" => {
            let advice = ask(json!({ "arrivalPerSecond": 90_000 }), json!({ "perReplicaPerSecond": 1000, "min": 10, "max": 12 }));
            assert_eq!(advice.recommended, Some(12));
        }
        _ => return false,
    }
    true
}

#[test]
fn rows_about_supervisors_hold_or_are_named() {
    let vectors: Value = serde_json::from_str(include_str!("vectors/druid-supervisor.json")).expect("the rows are JSON");
    let mut rows: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for row in vectors["cases"].as_array().expect("rows") {
        let category = row["category"].as_str().expect("a category");
        let held = match category {
            "druid_lag_based" => {
                same_decision(row);
                true
            }
            "druid_lag_based_newest" => {
                same_raw_and_clamped(row);
                true
            }
            "druid_lag_based_config" => {
                same_window(row);
                true
            }
            "pubsub_sizing_proposal" => {
                sized(row);
                true
            }
            cost if cost.starts_with("druid_cost_") => shown_by_cost(row),
            other => panic!("{other} is not checked"),
        };
        let count = rows.entry(category).or_default();
        if held { count.0 += 1 } else { count.1 += 1 }
    }
    for (category, (held, figures)) in &rows {
        println!("{category}: {held} hold, {figures} are figures of a cost function that no policy here has");
    }
    let expected = BTreeMap::from([
        ("druid_lag_based", (14, 0)),
        ("druid_lag_based_newest", (3, 0)),
        ("druid_lag_based_config", (1, 0)),
        ("pubsub_sizing_proposal", (4, 0)),
        ("druid_cost_linear_idle", (4, 4)),
        ("druid_cost_candidates", (3, 4)),
        ("druid_cost_candidates_headroom", (0, 3)),
        ("druid_cost_burst_ln", (0, 7)),
        ("druid_cost_inputs", (2, 3)),
        ("druid_cost_ushape", (0, 5)),
        ("druid_cost_ushape_lag", (0, 3)),
        ("druid_cost_sublinear_idle", (0, 3)),
        ("druid_cost_idle_from_rate", (0, 3)),
        ("druid_cost_critical_lag", (0, 1)),
    ]);
    assert_eq!(rows, expected, "no row is skipped");
}
