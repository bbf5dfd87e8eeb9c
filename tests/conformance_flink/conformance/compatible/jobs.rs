//! Rows about whole jobs: which vertices change, what blocks a change, worked examples, cycles from end to end.

use loadline::core::advice::{ActionKind, Advice, Outcome};
use serde_json::{Value, json};

use super::support::*;

pub fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).collect()
}

fn changed(advice: &Advice) -> Vec<&str> {
    advice.parts.iter().filter(|part| part.recommended != part.current).map(|part| part.id.as_str()).collect()
}

pub fn utilization_bound_decision(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let target = num(inputs, "utilization_target");
    // an edge that is not given lies a boundary away from the target; edges are held to 0 and 1
    let boundary = num_or(inputs, "utilization_boundary", 0.3);
    let most = num_or(inputs, "utilization_max", target + boundary).clamp(0.0, 1.0);
    let least = num_or(inputs, "utilization_min", target - boundary).clamp(0.0, 1.0);
    // the catch-up of these rows is given beside a duration of 0; without a restart any duration gives the same
    let within = 1000.0;
    let options = json!({ "targetUtilization": target, "utilizationMax": most, "utilizationMin": least, "catchUpWithin": seconds(within), "restart": "0s" });
    let p = num(inputs, "parallelism") as u64;
    if inputs["target_data_rate_rps"].is_number() {
        let known = Known::new("v", p, num(inputs, "target_data_rate_rps"), num(inputs, "true_processing_rate_rps"));
        return equal("scaled", &Some(!changed(&ask(&job(&[known], policy(options)))).is_empty()), &expected["scaled"].as_bool());
    }
    let known = |id: &'static str, ship: &'static str| Known {
        ship,
        within,
        catch_up: num(&inputs["catch_up_data_rate_rps"], id),
        ..Known::new(id, p, num(&inputs["target_data_rate_rps"], id), num(&inputs["true_processing_rate_rps"], id))
    };
    let advice = ask(&job(&[known("source", "REBALANCE"), known("sink", "HASH")], policy(options)));
    equal("the vertices that change", &json!(changed(&advice)), &expected["vertices_changed"])
}

pub fn exclusion(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let known: Vec<Known> = ["source", "filter", "sink"]
        .into_iter()
        .map(|id| {
            let [p, demand, capacity] = list(&inputs["vertices"][id]) else { panic!("{id}") };
            Known::new(id, p.as_u64().expect("a parallelism"), demand.as_f64().expect("a rate"), capacity.as_f64().expect("a rate"))
        })
        .collect();
    let mut excluded = vec![json!("feed-*")];
    excluded.extend(list(&inputs["excluded"]).iter().cloned());
    let mut policy = policy(band(num(inputs, "utilization_target"), 0.3));
    merge(&mut policy, &json!({ "excludeVertices": excluded, "catchUpWithin": "0s" }));
    equal("scaled", &Some(!changed(&ask(&job(&known, policy))).is_empty()), &row["expected"]["scaled"].as_bool())
}

fn pressed(inputs: &Value, gc: &Value, heaps: [&Value; 2], gc_limit: f64, heap_limit: f64) -> Advice {
    let known = Known::new("v", 1, num_or(inputs, "target_data_rate_rps", 110.0), num_or(inputs, "true_processing_rate_rps", 100.0));
    let limits = json!({ "memoryPressure": { "gcTimeRatio": gc_limit, "heapUsedRatio": heap_limit }, "catchUpWithin": "0s" });
    let mut body = job(&[known], policy(limits));
    let share = |value: &Value| if value.is_number() { value.clone() } else { Value::Null };
    body["history"][0]["memory"] = json!({ "heapUsedRatio": share(heaps[0]) });
    body["snapshot"]["memory"] = json!({ "gcTimeRatio": share(gc), "heapUsedRatio": share(heaps[1]) });
    ask(&body)
}

pub fn memory_pressure_block(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let heap = &inputs["heap_usage_avg"];
    let advice = pressed(inputs, &inputs["gc_pressure_latest"], [heap, heap], num(inputs, "gc_threshold"), num(inputs, "heap_threshold"));
    equal("scaled", &Some(!changed(&advice).is_empty()), &expected["scaled"].as_bool())?;
    equal("said", &codes(&advice).contains(&"MemoryPressure"), &(expected["event"] == "MemoryPressure"))
}

/// The heap in the mean over the window and garbage collection now are what the limits are compared with: a limit just
/// below either blocks, one just above does not. Bytes of memory are for memory tuning, which is not done here.
pub fn global_metrics(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let none = Value::Null;
    let blocks = |gc: &Value, heaps: [&Value; 2], limits: (f64, f64)| codes(&pressed(inputs, gc, heaps, limits.0, limits.1)).contains(&"MemoryPressure");
    if inputs["samples"].is_null() {
        let ratio = num(&inputs["heap_used_bytes"], "max") / num(&inputs["heap_max_bytes"], "max");
        same("the share of the heap", Some(ratio), &expected["heap_usage_ratio"])?;
        let ratio = json!(ratio);
        return equal("edge", &(blocks(&none, [&ratio, &ratio], (1.0, 0.499)), blocks(&none, [&ratio, &ratio], (1.0, 0.501))), &(true, false));
    }
    let samples = list(&inputs["samples"]);
    let (first, last) = (samples.first().ok_or("no sample")?, samples.last().ok_or("no sample")?);
    let heaps = [&first["heap_usage"], &last["heap_usage"]];
    if samples.len() == 1 {
        return equal("unknown memory blocks nothing", &blocks(&none, heaps, (0.001, 0.001)), &false);
    }
    let (heap, gc) = (num(expected, "heap_usage_avg"), num(expected, "gc_pressure_latest"));
    equal("the heap", &(blocks(&none, heaps, (1.0, heap - 0.001)), blocks(&none, heaps, (1.0, heap + 0.001))), &(true, false))?;
    let now = &last["gc_pressure"];
    equal("collection", &(blocks(now, heaps, (gc - 0.001, 1.0)), blocks(now, heaps, (gc + 0.001, 1.0))), &(true, false))
}

fn bytes(text: &str) -> u64 {
    text.strip_suffix('g').and_then(|size| size.parse::<u64>().ok()).expect("gigabytes") << 30
}

pub fn resource_quota(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let groups = if inputs["slot_sharing"] == "shared" { ["a", "a"] } else { ["a", "b"] };
    let known: Vec<Known> = list(&inputs["vertices"])
        .iter()
        .zip([("v0", groups[0]), ("v1", groups[1])])
        .map(|(vertex, (id, group))| Known {
            group,
            ..Known::new(id, num(vertex, "parallelism") as u64, num(vertex, "target_data_rate_rps"), num(vertex, "true_processing_rate_rps"))
        })
        .collect();
    let mut policy = policy(band(num(inputs, "utilization_target"), 0.3));
    merge(&mut policy, &json!({ "catchUpWithin": "0s", "quota": { "cpu": inputs["cpu_quota"], "memoryBytes": inputs["memory_quota"].as_str().map(bytes) } }));
    let mut body = job(&known, policy);
    let managers = json!({ "slotsPerTaskManager": inputs["slots_per_tm"], "taskManagerCpu": inputs["tm_cpu"], "taskManagerMemoryBytes": bytes(text(inputs, "tm_memory")) });
    merge(&mut body["snapshot"], &managers);
    let advice = ask(&body);
    equal("blocked", &Some(changed(&advice).is_empty()), &row["expected"]["blocked"].as_bool())?;
    let named = advice.parts.iter().flat_map(|part| &part.limits).any(|limit| limit.code.name() == "Quota");
    equal("the quota is named", &Some(named), &row["expected"]["blocked"].as_bool())
}

/// Slots after a rescale. The peer guesses from the slots in use whether the vertices share slots; here the job tells.
pub fn slot_estimate(row: &Value) -> Result<(), String> {
    let inputs = &row["inputs"];
    let (source, sink) = (num(&inputs["parallelism"], "source") as u64, num(&inputs["parallelism"], "sink") as u64);
    let shared = inputs["slots_used"].as_u64() == Some(source.max(sink));
    let (a, b) = if shared { ("a", "a") } else { ("a", "b") };
    let wanted = num(inputs, "new_source_parallelism");
    let known = [
        Known { group: a, ..Known::new("source", source, wanted * 100.0, source as f64 * 100.0) },
        Known { group: b, ..Known::new("sink", sink, sink as f64 * 100.0, sink as f64 * 100.0) },
    ];
    let exact = json!({ "targetUtilization": 1.0, "utilizationMax": 1.0, "utilizationMin": 1.0, "catchUpWithin": "0s" });
    equal("slots", &ask(&job(&known, policy(exact))).recommended, &row["expected"]["slots_after"].as_u64())
}

pub fn restart_time(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    if !inputs["target_parallelism"].is_null() {
        return recorded_restart(row);
    }
    let observed = list(&inputs["observed_restarts_s"]).iter().filter_map(Value::as_f64).reduce(f64::max);
    // a restart of r seconds adds r to a demand of 1000/s that is to be caught up in 1000 s
    let known = Known::new("v", 10, 1000.0, 1000.0);
    let options = json!({
        "catchUpWithin": "1000s", "restart": seconds(num(inputs, "configured_restart_s")), "trackRestart": inputs["tracking_enabled"],
        "restartLimit": seconds(num(inputs, "limit_s")), "utilizationMin": 0.4,
    });
    let mut body = job(&[known], policy(options));
    body["memory"] = memory(json!({}), observed.map_or(json!({}), |longest| json!({ "restartSeconds": longest })));
    let threshold = part(&ask(&body), "v").vertex.and_then(|figures| figures.scale_down_threshold_per_second);
    same("the restart", threshold.map(|threshold| threshold - 2500.0), &expected["restart_time_s"])
}

/// A change is advised, the job is restarted, and runs again some time later.
fn recorded_restart(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let (target, actual) = (&inputs["target_parallelism"], &inputs["actual_parallelism"]);
    let known = |id: &'static str| Known::new(id, 1, num(target, id) * 100.0, 100.0);
    let exact = json!({ "targetUtilization": 1.0, "utilizationMax": 1.0, "utilizationMin": 1.0, "catchUpWithin": "0s", "trackRestart": true });
    let before = job(&[known("a"), known("b")], policy(exact));
    let advice = ask(&before);
    for id in ["a", "b"] {
        equal(&format!("advised for {id}"), &Some(parallelism(&advice, id)), &target[id].as_u64())?;
    }
    let (running, now) = (num(inputs, "job_running_at_s") - num(inputs, "scaled_at_s"), 90.0);
    let mut after = before.clone();
    after["now"] = json!(at(-now));
    after["history"] = json!([before["snapshot"]]);
    after["snapshot"]["observedAt"] = json!(at(-now));
    after["snapshot"]["runningSince"] = json!(at(-running));
    for vertex in after["snapshot"]["vertices"].as_array_mut().expect("vertices") {
        let id = vertex["id"].as_str().expect("an id").to_owned();
        if let Some(count) = actual[id.as_str()].as_u64() {
            vertex["parallelism"] = json!(count);
        }
    }
    after["memory"] = serde_json::to_value(&advice.memory).expect("a memory");
    let first = ask(&after);
    same("the restart", first.memory.restart_seconds, &expected["recorded_restart_s"])?;
    // and it stays so with the next reading
    let mut later = after.clone();
    later["now"] = json!(at(-now - 10.0));
    later["history"] = json!([before["snapshot"], after["snapshot"]]);
    later["snapshot"]["observedAt"] = json!(at(-now - 10.0));
    later["memory"] = serde_json::to_value(&first.memory).expect("a memory");
    same("the restart, later", ask(&later).memory.restart_seconds, &expected["recorded_restart_s"])
}

pub fn effective_job_status(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], text(&row["expected"], "effective_status"));
    let tasks = object(&inputs["tasks"]);
    let of = |state: &str| tasks.get(state).and_then(Value::as_u64).unwrap_or(0);
    let total: u64 = tasks.values().filter_map(Value::as_u64).sum();
    let mut body = job(&[driver()], policy(json!({})));
    merge(&mut body["snapshot"], &json!({ "state": inputs["status"], "tasks": { "total": total, "running": of("RUNNING"), "finished": of("FINISHED") } }));
    let advice = ask(&body);
    let held = match expected {
        // it runs, and is decided
        "RUNNING" => (Outcome::Change, None),
        // some of its tasks do not run yet
        "CREATED" => (Outcome::Hold, Some("TasksNotRunning")),
        _ => (Outcome::Hold, Some("NotRunning")),
    };
    equal("the outcome", &advice.outcome, &held.0)?;
    equal("said", &held.1.is_none_or(|code| codes(&advice).first() == Some(&code)), &true)
}

/// What a user sets by hand is what the job runs with, and an excluded vertex keeps what it runs with.
pub fn parallelism_overrides(row: &Value) -> Result<(), String> {
    let (inputs, applied) = (&row["inputs"], object(&row["expected"]["applied"]));
    let known: Vec<Known> = ["v1", "v2"]
        .into_iter()
        .map(|id| {
            let runs = inputs["user_overrides"][id].as_u64().unwrap_or(1);
            Known::new(id, runs, num(&inputs["autoscaler_overrides"], id) * 100.0, runs as f64 * 100.0)
        })
        .collect();
    let mut excluded = vec![json!("feed-*")];
    excluded.extend(list(&inputs["excluded"]).iter().cloned());
    let exact = json!({ "targetUtilization": 1.0, "utilizationMax": 1.0, "utilizationMin": 1.0, "catchUpWithin": "0s", "excludeVertices": excluded });
    let mut body = job(&known, policy(exact));
    body["snapshot"]["jobId"] = json!("f1a30000000000000000000000000001");
    let advice = ask(&body);
    let action = advice.actions.iter().find(|action| action.action == ActionKind::SetParallelism).ok_or("no action")?;
    let overrides = action.overrides.as_deref().ok_or("no overrides")?;
    let requirements = action.request.as_ref().and_then(|request| request.body.as_ref()).ok_or("no call")?;
    for (id, right) in applied {
        equal(id, &overrides.split(',').any(|pair| pair == format!("{id}:{right}")), &true)?;
        equal(id, &requirements[id], &json!({ "parallelism": { "lowerBound": 1, "upperBound": right } }))?;
    }
    Ok(())
}

pub fn job_decision(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    if !expected["parallelism_overrides"].is_null() {
        let known: Vec<Known> = [("source", "REBALANCE"), ("filter", "REBALANCE"), ("sink", "HASH")]
            .into_iter()
            .map(|(id, ship)| {
                let vertex = &inputs["vertices"][id];
                let known = Known::new(id, num(vertex, "parallelism") as u64, num(vertex, "target_data_rate_rps"), num(vertex, "true_processing_rate_rps"));
                Known { ship, max_parallelism: num(inputs, "max_parallelism") as u64, ..known }
            })
            .collect();
        let mut policy = policy(band(num(inputs, "utilization_target"), 0.3));
        merge(&mut policy, &json!({ "catchUpWithin": "0s", "alignment": alignment(text(inputs, "alignment_mode")) }));
        let advice = ask(&job(&known, policy));
        for (id, right) in object(&expected["parallelism_overrides"]) {
            equal(id, &Some(parallelism(&advice, id)), &right.as_u64())?;
        }
        return Ok(());
    }
    let source = &inputs["vertices"]["source"];
    let samples: Vec<(f64, f64, f64)> = match inputs["samples"].as_array() {
        Some(samples) => samples.iter().map(|sample| (num(sample, "t_s"), num(sample, "records_in_total"), num(sample, "max_busy_ms_per_s"))).collect(),
        None => [0.0, 2.0].map(|time| (time, num(inputs, "records_in_per_s") * time, num(inputs, "max_busy_ms_per_s"))).to_vec(),
    };
    let series: Vec<(f64, Vec<Value>)> = samples
        .iter()
        .map(|(time, records, busy_ms)| {
            let more = json!({ "busyRatio": busy(busy_ms / 1000.0), "recordsIn": count(*records), "recordsOut": count(*records), "maxParallelism": source["max_parallelism"] });
            (2.0 - time, vec![vertex("source", num(source, "parallelism") as u64, &[], more)])
        })
        .collect();
    let options = json!({
        "window": "2s", "catchUpWithin": seconds(num_or(inputs, "catch_up_duration_s", 1800.0)), "restart": seconds(num_or(inputs, "restart_time_s", 300.0)),
        "scaleDown": { "stabilization": seconds(num(inputs, "scale_down_interval_s")), "maxFactor": num(inputs, "max_scale_down_factor") },
    });
    let advice = ask(&readings(&series, json!({}), policy(options)));
    let figures = part(&advice, "source").vertex.expect("figures");
    same("the demand", figures.target_per_second, &expected["target_data_rate_rps"])?;
    same("the capacity", figures.capacity_per_second, &expected["true_processing_rate_rps"])?;
    same("the upper threshold", figures.scale_up_threshold_per_second, &expected["scale_up_rate_threshold_rps"])?;
    same("the lower threshold", figures.scale_down_threshold_per_second, &expected["scale_down_rate_threshold_rps"])?;
    equal("the new parallelism", &Some(parallelism(&advice, "source")), &expected["new_parallelism"].as_u64())
}

pub fn end_to_end_two_vertex(row: &Value) -> Result<(), String> {
    let (inputs, expected) = (&row["inputs"], &row["expected"]);
    let config = &inputs["config"];
    let samples = list(&inputs["samples"]);
    let times: Vec<f64> = samples.iter().map(|sample| num(sample, "t_s")).collect();
    let (first, last) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
    let window = num_or(inputs, "window_s", last - first);
    let vertices = |sample: &Value| {
        let p = |id: &str| num(&inputs["vertices"][id], "parallelism") as u64;
        let share = |id: &str| busy(num(&inputs["vertices"][id], "max_busy_ms_per_s") / 1000.0);
        let source = json!({
            "busyRatio": share("source"), "backPressuredRatio": busy(0.0), "recordsIn": sample["source_in_total"], "recordsOut": sample["source_in_total"],
            "recordsInPerSecond": inputs["source_records_in_per_s_gauge"], "pendingRecords": sample["pending"],
        });
        vec![
            vertex("source", p("source"), &[], source),
            vertex("sink", p("sink"), &[("source", "REBALANCE")], json!({ "busyRatio": share("sink"), "recordsIn": sample["sink_in_total"] })),
        ]
    };
    let options = json!({
        "window": seconds(window), "restart": seconds(num(config, "restart_time_s")), "catchUpWithin": seconds(num(config, "catch_up_duration_s")),
        "targetUtilization": num(config, "utilization_target"), "utilizationMax": num(config, "utilization_max"), "utilizationMin": num(config, "utilization_min"),
        "backlogThreshold": seconds(num_or(config, "backlog_lag_threshold_s", 300.0)),
        "scaleDown": { "stabilization": seconds(num(config, "scale_down_interval_s")), "maxFactor": num(config, "max_scale_down_factor") },
    });
    // each reading is a decision; only once the window is full is there one
    for until in 2..=samples.len() {
        let now = times[until - 1];
        let series: Vec<(f64, Vec<Value>)> = samples.iter().take(until).map(|sample| (now - num(sample, "t_s"), vertices(sample))).collect();
        let advice = ask(&readings(&series, json!({}), policy(options.clone())));
        if now - first < window {
            equal(&format!("nothing changes at {now} s"), &changed(&advice).is_empty(), &true)?;
            // where something else is wished for, it is said why it has to wait
            if advice.parts.iter().any(|part| part.wanted != part.current) {
                equal(&format!("said at {now} s"), &codes(&advice).first(), &Some(&"WindowNotFull"))?;
            }
            continue;
        }
        if until < samples.len() {
            continue;
        }
        let right = if expected["parallelism"].is_null() { &expected["recommended_parallelism"] } else { &expected["parallelism"] };
        for (id, right) in object(right) {
            equal(id, &Some(parallelism(&advice, id)), &right.as_u64())?;
        }
        if expected["decision"].is_string() {
            equal("a change", &!changed(&advice).is_empty(), &(expected["decision"] == "scale"))?;
        }
    }
    Ok(())
}
