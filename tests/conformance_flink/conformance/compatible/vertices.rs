//! Rows about single vertices: thresholds, new parallelism, alignment, delay, effect of a raise, scalability.

use loadline::core::kinds::flink::scalability;
use loadline::core::memory::{DelayedCut, Wishes};
use loadline::core::sizing::align::{self, FlinkMode};
use loadline::core::units::Duration;
use serde_json::{Value, json};

use super::support::*;

pub fn rate_thresholds(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let (demand, within) = (num(inputs, "target_data_rate_rps"), num(inputs, "catch_up_duration_s"));
    let known = Known { catch_up: num(inputs, "catch_up_data_rate_rps"), within, ..Known::new("v", 10, demand, 1000.0) };
    // the flag is of the whole job, so another source sets it
    let other = Known { catch_up: 1e6, within: within.max(1.0), ..Known::new("other", 1, 1.0, 1.0) };
    let backlog = inputs["processing_backlog"] == true;
    let mut policy = policy(json!({
        "targetUtilization": num(inputs, "utilization_target"), "utilizationMax": num(inputs, "utilization_max"), "utilizationMin": num(inputs, "utilization_min"),
        "catchUpWithin": seconds(within), "restart": seconds(num(inputs, "restart_time_s")),
        "backlogThreshold": if backlog { "100h" } else { "1000000h" }, "excludeVertices": ["feed-*", "other"],
    }));
    let tracked = text(row, "name").contains("tracked");
    if tracked {
        merge(&mut policy, &json!({ "restart": "1s", "trackRestart": true }));
    }
    let vertices = if backlog { vec![known, other] } else { vec![known] };
    let mut body = job(&vertices, policy);
    if tracked {
        body["memory"] = memory(json!({}), json!({ "restartSeconds": num(inputs, "restart_time_s") }));
    }
    let advice = ask(&body);
    let figures = part(&advice, "v").vertex.expect("figures");
    same("the upper threshold", figures.scale_up_threshold_per_second, &row["expected"]["scale_up_rate_threshold_rps"])?;
    same("the lower threshold", figures.scale_down_threshold_per_second, &row["expected"]["scale_down_rate_threshold_rps"])
}

/// The vertex of a row, and the options that the row names.
fn of_row(inputs: &Value) -> (Known, Value) {
    let ships = inputs["input_ship_strategies"].as_array().cloned().unwrap_or_default();
    let known = Known {
        max_parallelism: num_or(inputs, "max_parallelism", 720.0) as u64,
        ship: if ships.iter().any(|ship| ship == "HASH") { "HASH" } else { "REBALANCE" },
        partitions: num_or(inputs, "source_partitions", 0.0) as u64,
        ..Known::new("v", num(inputs, "current_parallelism") as u64, num(inputs, "target_data_rate_rps"), num(inputs, "true_processing_rate_rps"))
    };
    let mut policy = policy(band(num(inputs, "utilization_target"), 0.3));
    merge(
        &mut policy,
        &json!({
            "catchUpWithin": seconds(num_or(inputs, "catch_up_duration_s", 0.0)), "alignment": alignment(inputs["alignment_mode"].as_str().unwrap_or("BALANCED")),
            "vertexMin": num_or(inputs, "vertex_min_parallelism", 1.0) as u64, "vertexMax": num_or(inputs, "vertex_max_parallelism", 200.0) as u64,
            "scaleDown": { "maxFactor": num_or(inputs, "max_scale_down_factor", 1.0), "stabilization": seconds(num_or(inputs, "scale_down_interval_s", 0.0)) },
            "scaleUp": { "maxFactor": num_or(inputs, "max_scale_up_factor", 2_147_483_647.0) },
        }),
    );
    (known, policy)
}

/// What the vertex of a row is given while another one moves, and whether it would move alone.
fn decided(body: impl Fn(&[Known]) -> Value, known: &Known) -> (u64, bool) {
    let alone = ask(&body(std::slice::from_ref(known)));
    let beside = ask(&body(&[known.clone(), driver()]));
    (parallelism(&beside, "v"), parallelism(&alone, "v") != known.parallelism)
}

pub fn vertex_target_parallelism(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (known, mut policy) = of_row(inputs);
    let mut memory_of_row = Value::Null;
    if inputs["observed_scalability_enabled"] == true {
        merge(&mut policy, &json!({ "observedScalability": { "enabled": true } }));
        memory_of_row = memory(json!({ "v": { "capacities": history(inputs) } }), json!({}));
    }
    let body = |vertices: &[Known]| {
        let mut body = job(vertices, policy.clone());
        body["memory"] = memory_of_row.clone();
        body
    };
    let (ours, moves) = decided(body, &known);
    equal("the new parallelism", &Some(ours), &expected["new_parallelism"].as_u64())?;
    if let Some(outside) = expected["outside_utilization_bound"].as_bool() {
        equal("outside its band", &moves, &outside)?;
    }
    if let Some(rate) = expected["expected_processing_rate_rps"].as_f64() {
        let advice = ask(&body(&[known]));
        let effect = advice.memory.parts.get("v").and_then(|part| part.effect).ok_or("the effect is not remembered")?;
        same("the expected processing rate", Some(effect.capacity_expected), &json!(rate))?;
    }
    Ok(())
}

/// Earlier stays at a parallelism, the newest an hour ago.
fn history(inputs: &Value) -> Value {
    let stays = list(&inputs["history_oldest_first"]);
    let pair = |(index, stay): (usize, &Value)| {
        let ago = 3600.0 * (stays.len() - index) as f64;
        json!({ "parallelism": stay["parallelism"], "capacityPerSecond": stay["true_processing_rate_rps"], "at": at(ago) })
    };
    stays.iter().enumerate().map(pair).collect()
}

pub fn observed_scalability_coefficient(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let right = num(expected, "coefficient_exact_by_formula");
    let stays: Vec<(f64, f64)> =
        list(&inputs["history_oldest_first"]).iter().rev().map(|stay| (num(stay, "parallelism"), num(stay, "true_processing_rate_rps"))).collect();
    let fitted = scalability::fit(&stays, num(inputs, "coefficient_min")).ok_or("no coefficient")?;
    same("the coefficient", Some(fitted), &json!(right))?;
    if let Some([low, high]) = expected["coefficient_asserted_range_exclusive"].as_array().map(Vec::as_slice) {
        equal("inside the range", &(low.as_f64() < Some(fitted) && Some(fitted) < high.as_f64()), &true)?;
    }
    // the same through a whole job: the wish is larger by the coefficient
    let known = Known::new("v", 10, 1_000_000.0, 1_000.0);
    let enabled = json!({ "observedScalability": { "enabled": true, "minObservations": inputs["min_observations"], "minimum": inputs["coefficient_min"] }, "catchUpWithin": "0s", "targetUtilization": 1.0 });
    let mut body = job(&[known], policy(enabled));
    body["memory"] = memory(json!({ "v": { "capacities": history(inputs) } }), json!({}));
    equal("the wish", &part(&ask(&body), "v").wanted, &Some((10_000.0 / right).ceil() as u64))
}

fn mode(name: &str) -> Option<FlinkMode> {
    match name {
        "BALANCED" => Some(FlinkMode::Balanced),
        "EVENLY_SPREAD" => Some(FlinkMode::EvenlySpread),
        "LEGACY_EVENLY_SPREAD" => Some(FlinkMode::LegacyEvenlySpread),
        "LEGACY_MAXIMIZE_UTILISATION" => Some(FlinkMode::LegacyMaximizeUtilisation),
        "OFF" => None,
        other => panic!("{other} is no mode"),
    }
}

/// Alignment of a target alone.
fn aligned(inputs: &Value, target: u64) -> u64 {
    let whole = |name: &str| num(inputs, name) as u64;
    let (partitions, most, current) = (whole("source_partitions"), whole("max_parallelism"), whole("current_parallelism"));
    let (lower, upper) = (whole("parallelism_lower_limit"), whole("parallelism_upper_limit"));
    let keyed = list(&inputs["input_ship_strategies"]).iter().any(|ship| ship == "HASH");
    let target = target.max(lower).min(most.min(upper));
    match mode(text(inputs, "alignment_mode")) {
        Some(mode) if target != current && (partitions > 0 || keyed) => {
            let parts = if partitions > 0 { partitions } else { most };
            align::flink(mode, parts, current, target, lower, most.min(upper))
        }
        _ => target,
    }
}

pub fn parallelism_alignment(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (current, factor) = (num(inputs, "current_parallelism"), num(inputs, "scale_factor"));
    let (lower, upper) = (num(inputs, "parallelism_lower_limit"), num(inputs, "parallelism_upper_limit"));
    let mut policy = policy(json!({
        "vertexMin": lower as u64, "vertexMax": upper as u64, "alignment": alignment(text(inputs, "alignment_mode")),
        "targetUtilization": 1.0, "utilizationMax": 1.0, "utilizationMin": 1.0, "catchUpWithin": "0s",
    }));
    // capacities at which every factor of the rows is a whole number of records
    let capacity = 10_000.0;
    let ships = list(&inputs["input_ship_strategies"]);
    let known = Known {
        max_parallelism: num(inputs, "max_parallelism") as u64,
        ship: if ships.iter().any(|ship| ship == "HASH") { "HASH" } else { "REBALANCE" },
        partitions: num(inputs, "source_partitions") as u64,
        ..Known::new("v", current as u64, (factor.min(1e6) * capacity).round(), capacity)
    };
    if expected["error"].is_string() {
        let refused = try_ask(&job(&[known], policy)).expect_err("a lower bound above the upper one");
        return equal("the field at fault is named", &(refused.contains("vertexMax") && refused.contains("vertexMin 500")), &true);
    }
    let right = expected["new_parallelism"].as_u64().ok_or("no parallelism")?;
    let target = (factor * current).ceil().min(2_147_483_647.0) as u64;
    equal("aligned alone", &aligned(inputs, target), &right)?;
    // in a job a lower bound never moves a vertex up, so such a row is asked of the alignment alone
    if lower > current {
        return Ok(());
    }
    merge(&mut policy, &json!({ "max": 1_000_000_000 }));
    equal("in a job", &parallelism(&ask(&job(&[known], policy)), "v"), &right)
}

pub fn parallelism_alignment_from_target(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let target = num(inputs, "computed_target_parallelism") as u64;
    let right = expected["new_parallelism"].as_u64().ok_or("no parallelism")?;
    equal("aligned alone", &aligned(inputs, target), &right)?;
    // a source has partitions and no keyed input, a keyed vertex has key groups: what counts is the number
    let current = num(inputs, "current_parallelism");
    let known = Known {
        max_parallelism: num(inputs, "max_parallelism") as u64,
        ship: "HASH",
        partitions: num(inputs, "source_partitions") as u64,
        ..Known::new("v", current as u64, target as f64 * 1000.0, current * 1000.0)
    };
    let policy = policy(json!({
        "vertexMin": inputs["parallelism_lower_limit"], "vertexMax": inputs["parallelism_upper_limit"], "alignment": alignment(text(inputs, "alignment_mode")),
        "targetUtilization": 1.0, "utilizationMax": 1.0, "utilizationMin": 1.0, "catchUpWithin": "0s",
    }));
    let advice = ask(&job(&[known], policy));
    equal("in a job", &parallelism(&advice, "v"), &right)?;
    if expected["events"].is_array() {
        let limits: Vec<_> = part(&advice, "v").limits.iter().map(|limit| (limit.code.name(), limit.from, limit.to)).collect();
        equal("the limits", &limits, &vec![("EvenDistribution", target, right)])?;
    }
    Ok(())
}

pub fn events(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    if text(row, "name") == "scaling_report_numbers" {
        let known = Known { within: 1800.0, ..Known::new("v", 1, num(inputs, "target_data_rate_rps"), num(inputs, "true_processing_rate_rps")) };
        let advice = ask(&job(&[known], policy(json!({ "targetUtilization": num(inputs, "utilization_target") }))));
        let (part, figures) = (part(&advice, "v"), part(&advice, "v").vertex.expect("figures"));
        equal("now", &part.current, &expected["current"].as_u64())?;
        equal("then", &part.recommended, &expected["new"].as_u64())?;
        same("the capacity now", figures.capacity_per_second, &expected["capacity_before_rps"])?;
        same("the target", figures.target_per_second, &expected["target_rps"])?;
        let effect = advice.memory.parts.get("v").and_then(|part| part.effect).ok_or("the effect is not remembered")?;
        return same("the capacity then", Some(effect.capacity_expected), &expected["capacity_after_rps"]);
    }
    let (known, policy) = of_row(inputs);
    let advice = ask(&job(&[known], policy));
    let limit = part(&advice, "v").limits.iter().find(|limit| limit.code.name() == "EvenDistribution").ok_or("the limit is not named")?;
    equal("the parallelism", &part(&advice, "v").recommended, &expected["new_parallelism"].as_u64())?;
    equal("wanted", &Some(limit.from), &expected["event_expected_parallelism"].as_u64())?;
    equal("given", &Some(limit.to), &expected["event_actual_parallelism"].as_u64())?;
    same("partitions", Some(limit.at), &expected["event_partitions"])
}

pub fn ineffective_scaling(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let (known, mut policy) = of_row(inputs);
    merge(&mut policy, &json!({ "ineffective": { "threshold": inputs["effectiveness_threshold"], "block": inputs["detection_enabled"] } }));
    let last = &inputs["last_scaling"];
    let remembered = if last.is_null() {
        Value::Null
    } else {
        let effect = json!({
            "from": last["from_parallelism"], "to": last["to_parallelism"], "capacityBefore": last["true_processing_rate_rps_before"],
            "capacityExpected": last["expected_processing_rate_rps"],
        });
        memory(json!({ "v": { "effect": effect } }), json!({}))
    };
    let body = |vertices: &[Known]| {
        let mut body = job(vertices, policy.clone());
        body["memory"] = remembered.clone();
        body
    };
    let (ours, _) = decided(body, &known);
    equal("the new parallelism", &Some(ours), &row["expected"]["new_parallelism"].as_u64())
}

pub fn delayed_scale_down(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    if inputs["steps"].is_null() {
        return seven_windows(row);
    }
    let interval = num(inputs, "scale_down_interval_s");
    let mut carried = Value::Null;
    let mut ours = Vec::new();
    for step in list(&inputs["steps"]) {
        let known = Known::new("v", num(inputs, "current_parallelism") as u64, num(step, "target_data_rate_rps"), num(inputs, "true_processing_rate_rps"));
        let mut policy = policy(band(num(inputs, "utilization_target"), 0.3));
        merge(&mut policy, &json!({ "catchUpWithin": "0s", "scaleDown": { "stabilization": seconds(interval) } }));
        // another vertex is outside its band, so that what this one is given shows even inside its own
        let mut body = job(&[known, driver()], policy);
        shift(&mut body, num(step, "t_s"));
        body["memory"] = carried;
        let advice = ask(&body);
        ours.push(parallelism(&advice, "v"));
        carried = serde_json::to_value(&advice.memory).expect("a memory");
    }
    equal("the parallelisms", &json!(ours), &expected["new_parallelism_per_step"])
}

/// The same job so many seconds later.
fn shift(body: &mut Value, by: f64) {
    body["now"] = json!(at(-by));
    body["snapshot"]["observedAt"] = json!(at(-by));
    body["history"][0]["observedAt"] = json!(at(SPAN - by));
}

/// Seven windows of ten minutes, a reading a minute: the cut comes with the last reading, and to the busiest window.
fn seven_windows(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let windows = list(&inputs["sink_busy_ms_per_10min_window"]);
    let (target, width) = (num(inputs, "utilization_target"), num(inputs, "utilization_band"));
    let mut policy = policy(band(target, width));
    merge(
        &mut policy,
        &json!({
            "window": seconds(num(inputs, "window_s")), "catchUpWithin": "0s", "restart": "0s", "vertexMax": 10_000,
            "scaleDown": { "stabilization": seconds(num(inputs, "scale_down_interval_s")) },
        }),
    );
    let (per_minute, source, sink) = (num(inputs, "records_per_minute"), num(inputs, "source_parallelism") as u64, num(inputs, "sink_parallelism") as u64);
    let minutes = windows.len() * 10;
    let reading = |minute: usize| {
        // the first reading is before the first window, and counts nothing
        let (records, busy_ms) = match minute.checked_sub(1) {
            None => (0.0, 800.0),
            Some(before) => (before as f64 * per_minute, windows[before / 10].as_f64().expect("busy time")),
        };
        let source_busy = num(inputs, "source_busy_ms_per_s") / 1000.0;
        json!({
            "observedAt": at((minutes - minute) as f64 * 60.0), "state": "RUNNING", "runningSince": at(minutes as f64 * 60.0),
            "vertices": [
                vertex("source", source, &[], json!({ "maxParallelism": 4000, "busyRatio": busy(source_busy), "recordsIn": count(records), "recordsOut": count(records), "pendingRecords": 0 })),
                vertex("sink", sink, &[("source", "REBALANCE")], json!({ "maxParallelism": 4000, "busyRatio": busy(busy_ms / 1000.0), "recordsIn": count(records) })),
            ],
        })
    };
    let mut carried = Value::Null;
    for minute in 1..=minutes {
        let history: Vec<Value> = (minute.saturating_sub(12)..minute).map(reading).collect();
        let body = json!({ "kind": "flinkJob", "now": at((minutes - minute) as f64 * 60.0), "snapshot": reading(minute), "history": history, "policy": policy, "memory": carried });
        let advice = ask(&body);
        let right = if minute == minutes { expected["sink_parallelism_after_last_sample"].as_u64().expect("a parallelism") } else { sink };
        equal(&format!("the sink after {minute} minutes"), &parallelism(&advice, "sink"), &right)?;
        equal(&format!("the source after {minute} minutes"), &parallelism(&advice, "source"), &source)?;
        carried = serde_json::to_value(&advice.memory).expect("a memory");
    }
    Ok(())
}

pub fn delayed_scale_down_window(row: &Value) -> Result<(), String> {
    let recommendations = list(&row["inputs"]["recommendations"]);
    let time = |seconds: f64| at(-seconds).parse::<jiff::Timestamp>().expect("a time");
    let last = recommendations.iter().map(|wish| num(wish, "t_s")).fold(0.0, f64::max);
    let from = num(&row["inputs"], "window_start_s");
    let window = Duration::parse(&seconds(last - from)).expect("a window");
    let right = row["expected"]["max_parallelism_in_window"].as_u64();
    let mut wishes = Wishes::default();
    let mut cut: Option<DelayedCut> = None;
    for wish in recommendations {
        let (at, count) = (time(num(wish, "t_s")), wish["parallelism"].as_u64().expect("a count"));
        wishes.record(at, count, Duration::parse("1h").expect("a window"));
        cut.get_or_insert_with(|| DelayedCut::new(100, at)).record(at, count, true);
    }
    equal("the largest wish", &wishes.largest(time(last), window).map(|(_, wish)| wish), &right)?;
    equal("the largest delayed wish", &cut.and_then(|cut| cut.largest(time(last), window)).map(|(wish, _)| wish), &right)
}
