//! Rows about what is measured: rates, busy time, capacity, demand over the edges, windows.

use std::collections::BTreeMap;

use loadline::core::decide::Case;
use loadline::core::kind::Kind;
use loadline::core::kinds::flink::{rates, window::Window};
use loadline::core::policy::{FlinkPolicy, PolicyInput};
use loadline::core::request::{Readings, parse};
use loadline::sources::flink::metrics;
use serde_json::{Value, json};

use super::support::*;

fn flink_policy(policy: &Value) -> FlinkPolicy {
    let input: PolicyInput = serde_json::from_value(policy.clone()).expect("a policy");
    input.resolve(Kind::FlinkJob).expect("a valid policy").flink
}

pub fn target_and_catch_up_rates(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    if inputs["samples"].is_null() {
        return propagation(row);
    }
    let samples = list(&inputs["samples"]);
    let last = num(samples.last().expect("a sample"), "t_s");
    let vertices = |sample: &Value| {
        let of = |name: &str| {
            let state = &sample[name];
            json!({ "busyRatio": busy(num(state, "load_ratio")), "recordsIn": state["records_in_total"], "recordsOut": state["records_out_total"], "pendingRecords": state["lag_records"] })
        };
        vec![vertex("source", 10, &[], of("source")), vertex("sink", 10, &[("source", "REBALANCE")], of("sink"))]
    };
    let series: Vec<(f64, Vec<Value>)> = samples.iter().map(|sample| (last - num(sample, "t_s"), vertices(sample))).collect();
    let options = json!({ "catchUpWithin": seconds(num(inputs, "catch_up_duration_s")), "window": "1s" });
    let advice = ask(&readings(&series, json!({}), policy(options)));
    for (id, right) in object(expected) {
        let figures = part(&advice, id).vertex.expect("figures");
        same(&format!("the demand of {id}"), figures.target_per_second, &right["target_data_rate_rps"])?;
        if !right["catch_up_data_rate_rps"].is_null() {
            // the upper threshold at full use is the demand and the catch-up
            let catch_up = figures.scale_up_threshold_per_second.zip(figures.target_per_second).map(|(threshold, demand)| threshold - demand);
            same(&format!("the catch-up of {id}"), catch_up, &right["catch_up_data_rate_rps"])?;
            same(&format!("the busy share of {id}"), figures.busy_ratio, &right["load_ratio"])?;
        }
    }
    Ok(())
}

fn propagation(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (a, b) = (num(&inputs["source_input_rps"], "source1"), num(&inputs["source_input_rps"], "source2"));
    let out = (a + b) * num(inputs, "processor_output_ratio");
    let counters = |elapsed: f64, read: f64, written: f64| json!({ "busyRatio": busy(0.6), "recordsIn": count(read * elapsed), "recordsOut": count(written * elapsed), "pendingRecords": 0 });
    let at_time = |elapsed: f64| {
        vec![
            vertex("source1", 4, &[], counters(elapsed, a, a)),
            vertex("source2", 4, &[], counters(elapsed, b, b)),
            vertex("processor", 4, &[("source1", "REBALANCE"), ("source2", "REBALANCE")], counters(elapsed, a + b, out)),
            vertex("sink", 4, &[("processor", "REBALANCE")], counters(elapsed, out, 0.0)),
        ]
    };
    let advice = ask(&readings(&[(10.0, at_time(0.0)), (0.0, at_time(10.0))], json!({}), policy(json!({ "window": "10s" }))));
    for (id, right) in object(&expected["target_data_rate_rps"]) {
        same(&format!("the demand of {id}"), part(&advice, id).vertex.and_then(|figures| figures.target_per_second), right)?;
    }
    Ok(())
}

pub fn edge_output_ratio(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let (from, to) = (text(inputs, "from"), text(inputs, "to"));
    let edges = object(&inputs["inputs_of"]);
    let is_source = |id: &str| !edges.contains_key(id);
    let state = |id: &str, counters: &Value, moment: usize| {
        let given = |name: &str| counters.get(name).map_or(Value::Null, |values| values[moment].clone());
        // what arrives at the other sources is nothing, so that the demand is that of one edge alone
        let backlog = if is_source(id) && id != from && is_source(from) { [100_000, 99_900][moment] } else { 0 };
        let from: Vec<(&str, &str)> = edges.get(id).map(list).unwrap_or_default().iter().map(|input| (input.as_str().expect("a name"), "REBALANCE")).collect();
        let mut vertex = vertex(id, 4, &from, json!({ "busyRatio": busy(0.5), "recordsIn": given("in"), "recordsOut": given("out") }));
        if from.is_empty() {
            // the source that falls behind by as much as it reads has no demand
            vertex["pendingRecords"] = json!(backlog);
        }
        vertex
    };
    let counters: BTreeMap<&String, &Value> = object(&inputs["counters_at_1s_2s"]).iter().collect();
    let at_moment = |moment: usize| counters.iter().map(|(id, counters)| state(id, counters, moment)).collect::<Vec<_>>();
    let advice = ask(&readings(&[(1.0, at_moment(0)), (0.0, at_moment(1))], json!({}), policy(json!({ "window": "1s" }))));
    let demand = |id: &str| part(&advice, id).vertex.and_then(|figures| figures.target_per_second);
    let ratio = demand(to).zip(demand(from)).map(|(to, from)| to / from);
    same("the ratio", ratio, &row["expected"]["output_ratio"])
}

pub fn counter_rate(row: &Value) -> Result<(), String> {
    let samples = list(&row["inputs"]["samples_t_s_value"]);
    let value = |time: u64| samples.iter().find(|sample| sample[0].as_u64() == Some(time)).map_or(Value::Null, |sample| sample[1].clone());
    let series: Vec<(f64, Vec<Value>)> = (1..=3)
        .map(|time| (3.0 - time as f64, vec![vertex("v", 4, &[], json!({ "busyRatio": busy(0.5), "recordsIn": value(time), "pendingRecords": 0 }))]))
        .collect();
    let advice = ask(&readings(&series, json!({}), policy(json!({ "window": "2s" }))));
    same("the rate", part(&advice, "v").vertex.and_then(|figures| figures.target_per_second), &row["expected"]["rate_per_s"])
}

/// Known numbers are `Some`, a NaN of the row is unknown; infinity stays what it is.
fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

fn exactly(what: &str, ours: Option<f64>, expected: &Value) -> Result<(), String> {
    let right = if expected == "nan" { None } else { Some(expected.as_f64().unwrap_or(f64::INFINITY)) };
    match (ours, right) {
        (Some(ours), Some(right)) if ours.is_infinite() || right.is_infinite() => equal(what, &ours, &right),
        (ours, right) => same(what, ours, &right.map_or(Value::Null, |right| json!(right))),
    }
}

pub fn true_processing_rate(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]["true_processing_rate_rps"]);
    let (share, rate) = (num(inputs, "busy_ms_per_s") / 1000.0, num(inputs, "input_rate_rps"));
    let observed: Vec<f64> = list(&inputs["observed_tpr_samples_rps"]).iter().map(|sample| sample.as_f64().expect("a rate")).collect();
    let options = json!({ "observedRate": { "switchRatio": inputs["switch_threshold"], "minObservations": inputs["min_observations"] }, "window": "10s" });
    let policy = policy(options);
    let flink = flink_policy(&policy);
    let enough = observed.len() >= flink.observed_min_observations as usize && !observed.is_empty();
    let mean = enough.then(|| observed.iter().sum::<f64>() / observed.len() as f64);
    exactly("the capacity by the formula", rates::true_processing_rate(known(share), known(rate), mean, &flink), expected)?;
    // the same as a job: each observation is a reading with a standing backlog and without back-pressure
    let state = |index: usize| {
        let gauge = observed.get(index).map_or(Value::Null, |rate| json!(rate));
        let records = known(rate).map_or(Value::Null, |rate| json!(count(rate * 10.0 * index as f64)));
        let more = json!({ "busyRatio": busy(share), "backPressuredRatio": busy(0.0), "recordsInPerSecond": gauge, "recordsIn": records, "pendingRecords": 1_000_000 });
        vec![vertex("v", 4, &[], more)]
    };
    let advice = ask(&readings(&[(10.0, state(0)), (0.0, state(1))], json!({}), policy));
    same("the capacity in a job", part(&advice, "v").vertex.and_then(|figures| figures.capacity_per_second), expected)
}

pub fn busy_time_average(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let samples = list(&inputs["samples"]);
    let last = num(samples.last().expect("a sample"), "t_s");
    let series: Vec<(f64, Vec<Value>)> = samples
        .iter()
        .map(|sample| {
            let more = json!({ "busyRatio": busy(num(sample, "load_ratio")), "accumulatedBusySeconds": num(sample, "accumulated_busy_ms") / 1000.0 });
            (last - num(sample, "t_s"), vec![vertex("v", num(inputs, "parallelism") as u64, &[], more)])
        })
        .collect();
    let options = json!({ "busyAggregator": text(inputs, "aggregator").to_lowercase(), "window": "2s" });
    let advice = ask(&readings(&series, json!({}), policy(options)));
    let share = part(&advice, "v").vertex.and_then(|figures| figures.busy_ratio);
    same("busy", share, &json!(num(&row["expected"], "busy_ms_per_s") / 1000.0))
}

pub fn tpr_input_rate(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let samples = list(&inputs["samples"]);
    let last = num(samples.last().expect("a sample"), "t_s");
    let series: Vec<(f64, Vec<Value>)> = samples
        .iter()
        .map(|sample| {
            let time = num(sample, "t_s");
            // always busy, so that the capacity is the rate
            let more = json!({
                "busyRatio": busy(1.0), "accumulatedBusySeconds": 4.0 * time, "recordsIn": sample["records_in_total"], "recordsInPerSecond": sample["records_in_per_s"],
            });
            let source = vertex("source", 1, &[], json!({ "busyRatio": busy(1.0), "recordsIn": sample["records_in_total"], "pendingRecords": 0 }));
            (last - time, vec![source, vertex("v", 4, &[("source", "REBALANCE")], more)])
        })
        .collect();
    let options = json!({ "busyAggregator": text(inputs, "aggregator").to_lowercase(), "window": "1s" });
    let advice = ask(&readings(&series, json!({}), policy(options)));
    same("the rate", part(&advice, "v").vertex.and_then(|figures| figures.capacity_per_second), &row["expected"]["input_rate_rps"])
}

pub fn observed_tpr_sample(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let flink = flink_policy(&policy(json!({ "observedRate": { "lagThreshold": seconds(num_or(inputs, "lag_threshold_s", 30.0)) } })));
    let rate = num(inputs, "records_in_per_s");
    if let Some(steps) = inputs["steps"].as_array() {
        let mut observed = rates::Observations::default();
        for (index, (step, right)) in steps.iter().zip(list(&expected["observed_tpr_rps_per_step"])).enumerate() {
            let seen = rates::observe(rate, num(step, "backpressure_ms_per_s") / 1000.0, num(step, "lag_records"), &flink);
            let value = observed.add(index as f64, Some(rates::Seen(seen)), 900.0, &flink);
            exactly(&format!("the observation {index}"), value, right)?;
        }
        return Ok(());
    }
    // without a backlog in the row the formula alone is meant
    let lag = num_or(inputs, "lag_records", f64::INFINITY);
    let held = num(inputs, "backpressure_ms_per_s") / 1000.0;
    let seen = rates::observe(rate, held, lag, &flink);
    let previous = inputs["previous_average_rps"].as_f64();
    exactly("the observation", seen.or(previous), &expected["observed_tpr_rps"])?;
    let Some(previous) = previous else { return Ok(()) };
    // the same as a job: two earlier observations of that mean, then the row; what it is seen to do is the mean of the three
    let state = |rate: f64, lag: f64, held: f64| {
        vec![vertex("v", 4, &[], json!({ "recordsInPerSecond": rate, "backPressuredRatio": busy(held), "pendingRecords": count(lag), "recordsIn": 0 }))]
    };
    let series = [(20.0, state(previous, 1e9, 0.0)), (10.0, state(previous, 1e9, 0.0)), (0.0, state(rate, lag, held))];
    let options = json!({ "observedRate": { "lagThreshold": seconds(num_or(inputs, "lag_threshold_s", 30.0)) }, "window": "20s" });
    let advice = ask(&readings(&series, json!({}), policy(options)));
    let mean = match expected["observed_tpr_rps"].as_f64() {
        Some(right) => (2.0 * previous + right) / 3.0,
        None => previous,
    };
    same("the mean in a job", part(&advice, "v").vertex.and_then(|figures| figures.capacity_per_second), &json!(mean))
}

pub fn load_sample(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let spread = &inputs["busy_ms_per_s"];
    let shares = match spread {
        Value::String(_) => Value::Null,
        spread => json!({ "max": num(spread, "max") / 1000.0, "avg": num(spread, "avg") / 1000.0, "min": num(spread, "min") / 1000.0 }),
    };
    let more = |records: u64| json!({ "busyRatio": shares, "recordsIn": records, "pendingRecords": 0 });
    let vertices = |records: u64| {
        vec![
            vertex("source", 40, &[], more(records)),
            vertex("sink", 40, &[("source", "REBALANCE")], json!({ "busyRatio": busy(0.01), "recordsIn": records })),
            // something that moves, so that only what is excluded stays
            vertex("other", 40, &[("source", "REBALANCE")], json!({ "busyRatio": busy(0.01), "recordsIn": records })),
        ]
    };
    let excluded = inputs["already_excluded"].as_array().cloned().unwrap_or_default();
    let options = json!({ "busyAggregator": text(inputs, "aggregator").to_lowercase(), "window": "10s", "excludeVertices": excluded });
    let advice = ask(&readings(&[(10.0, vertices(1000)), (0.0, vertices(2000))], json!({}), policy(options)));
    let share = part(&advice, "source").vertex.and_then(|figures| figures.busy_ratio);
    same("busy", share, &expected["load_ratio"])?;
    if let Some(excluded) = expected["excluded_vertices"].as_array() {
        let mut stay: Vec<&str> = advice.parts.iter().filter(|part| part.recommended == part.current).map(|part| part.id.as_str()).collect();
        stay.sort_unstable();
        equal("what stays", &json!(stay), &json!(excluded))?;
    }
    Ok(())
}

pub fn processing_backlog_flag(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let rate = num(inputs, "source_input_rate_rps");
    let state = |elapsed: f64| {
        let more = json!({ "busyRatio": busy(0.5), "recordsIn": count(rate * elapsed), "pendingRecords": inputs["source_lag_records"] });
        vec![vertex("v", 4, &[], more)]
    };
    let options = json!({ "backlogThreshold": seconds(num(inputs, "backlog_lag_threshold_s")), "window": "10s" });
    let advice = ask(&readings(&[(10.0, state(0.0)), (0.0, state(10.0))], json!({}), policy(options)));
    // while a backlog is worked off no capacity is too large
    let flag = part(&advice, "v").vertex.expect("figures").scale_down_threshold_per_second.is_none();
    equal("the flag", &Some(flag), &row["expected"]["processing_backlog"].as_bool())
}

pub fn finished_vertex(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let finished = text(inputs, "execution_state") == "FINISHED";
    let state = |records: u64| {
        let done = json!({ "finished": finished, "busyRatio": busy(1.0), "recordsIn": records, "recordsOut": records, "pendingRecords": records, "accumulatedBusySeconds": records });
        vec![vertex("done", 40, &[], done), vertex("other", 40, &[], json!({ "busyRatio": busy(0.01), "recordsIn": records, "pendingRecords": 0 }))]
    };
    let advice = ask(&readings(&[(10.0, state(1000)), (0.0, state(2000))], json!({}), policy(json!({ "window": "10s" }))));
    let part = part(&advice, "done");
    let figures = part.vertex.expect("figures");
    equal("it stays although another moves", &(part.recommended == part.current), &(expected["excluded_from_scaling"] == true))?;
    equal("the other moves", &(parallelism(&advice, "other") < 40), &true)?;
    same("busy", figures.busy_ratio, &expected["load_ratio"])?;
    same("the capacity", figures.capacity_per_second, &expected["observed_tpr_rps"])?;
    // no records in or out, no backlog, no busy time: no demand
    same("the demand", figures.target_per_second, &expected["records_in_total"])?;
    same("the threshold", figures.scale_up_threshold_per_second, &expected["lag_records"])
}

pub fn partition_discovery(row: &Value) -> Result<(), String> {
    let mut names = Vec::new();
    for entry in list(&row["inputs"]["distinct_cluster_topic_partition"]) {
        let entry = entry.as_str().expect("text");
        let consumers = if entry.contains("two consumers") { 2 } else { 1 };
        let mut parts: Vec<&str> = entry.split(' ').next().expect("a name").split(':').collect();
        let partitions: Vec<u32> = match parts.pop().expect("partitions") {
            range if range.contains("..") => {
                let (first, last) = range.split_once("..").expect("a range");
                (first.parse().expect("a number")..=last.parse().expect("a number")).collect()
            }
            listed => listed.split(',').map(|number| number.parse().expect("a number")).collect(),
        };
        for partition in partitions {
            match parts.as_slice() {
                [cluster, topic] => {
                    names.push(format!(
                        "1.Source__Kafka_Source_({topic}).kafkaCluster.{cluster}.KafkaSourceReader.topic.{topic}.partition.{partition}.currentOffset"
                    ));
                    names.push(format!(
                        "2.Source__Kafka_Source_({topic}).kafkaCluster.{cluster}.KafkaSourceReader.topic.{topic}.partition.{partition}.currentOffset"
                    ));
                }
                [topic] => names.extend((0..consumers).map(|consumer| {
                    format!("0.Source__pulsar_source[1].PulsarConsumer.persistent_//public/default/{topic}-partition-{partition}.c{consumer}.numMsgsReceived")
                })),
                other => return Err(format!("{other:?} is no topic")),
            }
        }
    }
    let found: u64 = metrics::partitions(&names).values().sum();
    equal("partitions", &Some(found), &row["expected"]["partitions"].as_u64())
}

pub fn metric_window(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (times, unit) = if inputs["collect_at_s"].is_null() { ("collect_at_ms", 0.001) } else { ("collect_at_s", 1.0) };
    let option = |name: &str| seconds(num_or(inputs, &format!("{name}_s"), num_or(inputs, &format!("{name}_ms"), 0.0) / 1000.0));
    let policy = policy(json!({ "stabilizationAfterStart": option("stabilization"), "window": option("window") }));
    let times: Vec<f64> = list(&inputs[times]).iter().map(|time| time.as_f64().expect("a time") * unit).collect();
    let reading = |time: f64| {
        let more =
            json!({ "busyRatio": busy(1.0), "recordsIn": count((time * 100_000.0).round()), "recordsInPerSecond": 100_000.0, "pendingRecords": 1_000_000_000 });
        json!({ "observedAt": at(-time), "state": "RUNNING", "runningSince": at(0.0), "vertices": [vertex("v", 4, &[], more)] })
    };
    let (mut kept, mut full) = (Vec::new(), Vec::new());
    for (index, time) in times.iter().enumerate() {
        let history: Vec<Value> = times.iter().take(index).map(|time| reading(*time)).collect();
        let body = json!({ "kind": "flinkJob", "now": at(-time), "snapshot": reading(*time), "history": history, "policy": policy });
        let request = parse(&serde_json::to_vec(&body).expect("a body"), NOW.parse().expect("a time")).map_err(|error| format!("{error:?}"))?;
        let Readings::FlinkJob(series) = &request.readings else { return Err("another kind".to_owned()) };
        let latest = series.latest.as_deref().ok_or("no reading")?;
        kept.push(Window::collect(&Case::new(&request), series, latest).samples.len());
        // the source is far too small, and is raised once the window is full
        full.push(index > 0 && parallelism(&ask(&body), "v") > 4);
    }
    equal("readings kept", &json!(kept), &expected["samples_kept_after_each"])?;
    if !expected["fully_collected_after_each"].is_null() {
        equal("full", &json!(full), &expected["fully_collected_after_each"])?;
    }
    Ok(())
}
