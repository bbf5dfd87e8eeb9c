//! Flink jobs.

use loadline::core::advice::{ActionKind, Advice, Outcome};
use serde_json::{Value, json};

use super::{advise, ago, has, immediate, said};

/// A vertex of parallelism `p` that is `busy` and reads so many records per second.
fn vertex(id: &str, p: u64, busy: f64, rate: f64) -> Value {
    json!({ "id": id, "name": id, "parallelism": p, "busyRatio": { "max": busy, "avg": busy }, "recordsInPerSecond": rate, "recordsOutPerSecond": rate, "inputs": [] })
}

fn with(mut vertex: Value, extra: Value) -> Value {
    let (Value::Object(into), Value::Object(from)) = (&mut vertex, extra) else { panic!("objects") };
    into.extend(from);
    vertex
}

fn job(vertices: Vec<Value>, extra: Value) -> Value {
    with(json!({ "state": "RUNNING", "runningSince": ago(86_400), "vertices": vertices }), extra)
}

fn ask(job: Value, policy: Value) -> Advice {
    advise(&json!({ "kind": "flinkJob", "snapshot": job, "policy": immediate(policy) }))
}

fn parallelism(advice: &Advice, id: &str) -> u64 {
    advice.parts.iter().find(|part| part.id == id).and_then(|part| part.recommended).expect(id)
}

fn part_has(advice: &Advice, id: &str, code: &str) -> bool {
    let part = advice.parts.iter().find(|part| part.id == id).expect(id);
    part.reasons.iter().any(|reason| reason.code().name() == code) || part.limits.iter().any(|limit| limit.code.name() == code)
}

#[test]
fn sc_028_zeros_that_are_flagged_incomplete_are_no_throughput() {
    let source = json!({ "id": "source-map", "name": "source-map", "parallelism": 24, "inputs": [], "busyRatio": { "max": 0.95, "avg": 0.95 },
        "recordsIn": 0, "recordsOut": 0, "recordsComplete": false, "pendingRecords": 0 });
    let advice = ask(job(vec![source], json!({})), json!({ "vertexMax": 96 }));
    assert_eq!((parallelism(&advice, "source-map"), advice.outcome), (24, Outcome::Hold));
    assert!(has(&advice, "IncompleteReading") || said(&advice).contains("not known"), "{}", said(&advice));
}

#[test]
fn sc_029_a_source_never_has_more_subtasks_than_partitions() {
    // the cap bounds the search and not the result: 180
    for (rate, low, high) in [(1.8, 15, 15), (0.5, 15, 15), (0.1, 10, 15)] {
        // at 100 subtasks and 100 % aimed utilization the wish is rate x 100
        let source = with(vertex("kafka-source", 100, 0.7, 1000.0), json!({ "partitions": 15, "maxParallelism": 180, "pendingRecords": 0 }));
        let advice = ask(
            job(vec![source], json!({})),
            json!({ "sourceRates": {}, "growthRatio": 0, "targetUtilization": 0.7, "catchUpWithin": "0s", "vertexMax": 180, "scaleDown": { "stabilization": "0s", "maxFactor": 1 } }),
        );
        let got = parallelism(&advice, "kafka-source");
        assert!((low..=high).contains(&got), "{rate}: {got}");
        assert!(part_has(&advice, "kafka-source", "PartitionLimit"));
    }
}

#[test]
fn sc_031_one_idle_vertex_does_not_stop_the_evaluation() {
    let idle = with(vertex("idle", 2, 0.0, 0.0), json!({ "pendingRecords": 0 }));
    let hot = with(vertex("hot", 4, 1.0, 1000.0), json!({ "pendingRecords": 0 }));
    let advice = ask(
        job(vec![idle, hot], json!({})),
        json!({ "targetUtilization": 0.5, "utilizationMin": 0.0, "utilizationMax": 0.9, "catchUpWithin": "0s", "vertexMax": 32 }),
    );
    assert_eq!((parallelism(&advice, "hot"), parallelism(&advice, "idle")), (8, 2), "{}", said(&advice));
    assert!(!serde_json::to_string(&advice).expect("json").contains("NaN"));
}

#[test]
fn sc_032_a_ratio_with_nothing_below_the_line_is_unknown_and_not_huge() {
    let source = with(vertex("splitter", 2, 0.3, 0.0), json!({ "recordsOutPerSecond": 5.0, "pendingRecords": 0 }));
    let after = with(vertex("after", 3, 0.5, 5.0), json!({ "inputs": [{ "from": "splitter", "shipStrategy": "REBALANCE" }] }));
    let advice = ask(job(vec![source, after], json!({})), json!({ "vertexMax": 200 }));
    assert_eq!(parallelism(&advice, "after"), 3, "{}", said(&advice));
}

#[test]
fn sc_033_memory_pressure_is_not_mended_by_parallelism() {
    let source = with(vertex("window", 10, 1.0, 1000.0), json!({ "pendingRecords": 3_000_000 }));
    let advice = ask(job(vec![source], json!({ "memory": { "gcTimeRatio": 0.4, "heapUsedRatio": 0.97 } })), json!({ "vertexMax": 64 }));
    assert_eq!((parallelism(&advice, "window"), advice.outcome), (10, Outcome::Hold));
    assert!(has(&advice, "MemoryPressure") && advice.actions.iter().any(|action| action.action == ActionKind::AddMemory), "{}", said(&advice));
    assert!(advice.parts[0].wanted > Some(10), "the wish is still shown");
}

#[test]
fn sc_034_never_more_than_the_slots_that_can_be_had() {
    let source = with(vertex("all", 32, 1.0, 1400.0), json!({ "pendingRecords": 0 }));
    let advice = ask(
        job(vec![source], json!({ "schedulableSlots": 40 })),
        json!({ "targetUtilization": 0.5, "utilizationMax": 0.9, "catchUpWithin": "0s", "vertexMax": 128 }),
    );
    let got = parallelism(&advice, "all");
    assert!((32..=40).contains(&got), "{got}");
    assert_eq!(advice.parts[0].wanted, Some(64));
    assert!(part_has(&advice, "all", "SchedulableSlots") && serde_json::to_string(&advice.parts).expect("json").contains("40 slots"));
}

#[test]
fn sc_035_running_with_tasks_that_do_not_run_is_not_running() {
    let source = with(vertex("source", 4, 1.0, 1000.0), json!({ "pendingRecords": 900_000 }));
    let advice = ask(job(vec![source], json!({ "tasks": { "total": 12, "running": 9, "finished": 0 } })), json!({}));
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (4, Outcome::Hold));
    assert!(said(&advice).contains("9 of 12 tasks"));
}

#[test]
fn sc_037_the_largest_wish_of_the_window_counts_not_of_all_time() {
    // 40 of seventy minutes ago, or 20 of now
    let step = |minutes_ago: i64, wish: f64, memory: &Value| {
        let at = ago(60 * minutes_ago);
        let source = with(vertex("source", 40, 0.1, 1000.0), json!({ "pendingRecords": 0 }));
        let mut snapshot = job(vec![source], json!({ "observedAt": at, "taskManagers": 40, "slotsPerTaskManager": 1 }));
        // busy so that the wish comes out as named: 1000/s need `wish` subtasks of 1000 / (busy x 40) each at 70 %
        snapshot["vertices"][0]["busyRatio"] = json!({ "max": wish * 0.7 / 40.0, "avg": wish * 0.7 / 40.0 });
        advise(&json!({ "kind": "flinkJob", "now": at, "snapshot": snapshot, "memory": memory,
            "policy": { "catchUpWithin": "0s", "scaleDown": { "stabilization": "60m", "maxFactor": 1 }, "utilizationMin": 0.7, "window": "1m" } }))
    };
    let first = step(80, 40.0, &Value::Null);
    let mut memory = serde_json::to_value(&first.memory).expect("memory");
    let mut last = first;
    for (minutes_ago, wish) in [(70, 39.9), (50, 22.0), (30, 26.0), (10, 18.0), (0, 20.0)] {
        last = step(minutes_ago, wish, &memory);
        memory = serde_json::to_value(&last.memory).expect("memory");
    }
    assert_eq!(parallelism(&last, "source"), 26, "{}", said(&last));
}

#[test]
fn sc_039_key_groups_matter_only_where_records_come_by_key() {
    let map = |strategy: &str| {
        let source = with(vertex("source", 1, 0.1, 1000.0), json!({ "pendingRecords": 0 }));
        let map = with(vertex("stateless-map", 30, 1.0, 1000.0), json!({ "maxParallelism": 128, "inputs": [{ "from": "source", "shipStrategy": strategy }] }));
        // 1000/s at 33.3/s a subtask and 60 % need fifty
        let advice = ask(job(vec![source, map], json!({})), json!({ "targetUtilization": 0.6, "utilizationMax": 0.9, "catchUpWithin": "0s" }));
        parallelism(&advice, "stateless-map")
    };
    assert_eq!(map("REBALANCE"), 50);
    // of 50 the busiest holds ceil(128/50) = 3 key groups, as with 43, at 70 %: cheaper than 64, and as fast
    assert_eq!(map("HASH"), 43);
}
