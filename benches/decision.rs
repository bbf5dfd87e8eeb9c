//! One decision, in memory: without and with the text of the answer.
//!
//! `cargo bench --bench decision`. The request is parsed beforehand; `judge` is `core::advise` alone, `answer` also
//! writes the JSON with all sentences. `read` is the measure to compare with: `serde_json` reads the newest reading of the same
//! job into its bare types, which nobody can do without who decides on it.

#![expect(clippy::expect_used, clippy::cast_precision_loss, clippy::indexing_slicing, reason = "a bench fails by panicking, and its numbers are small")]

use divan::{Bencher, black_box};
use loadline::core::kinds::FlinkJobSnapshot;
use loadline::core::request::{Request, parse};
use serde_json::{Value, json};

fn main() {
    divan::main();
}

const NOW: &str = "2026-11-30T10:00:00Z";

fn request(body: &Value) -> Request {
    parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time")).expect("a request")
}

fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// One reading of a job of `vertices` in a row with a source every tenth.
fn flink_reading(vertices: usize, seconds_ago: i64, names: bool) -> Value {
    let elapsed = 1000 - seconds_ago;
    let list: Vec<Value> = (0..vertices)
        .map(|index| {
            let source = index % 10 == 0;
            let mut vertex = json!({
                "id": format!("{index:032x}"), "parallelism": 8 + index % 5, "maxParallelism": 720, "slotSharingGroup": "default",
                "inputs": if source { json!([]) } else { json!([{ "from": format!("{:032x}", index - 1), "shipStrategy": if index % 3 == 0 { "HASH" } else { "REBALANCE" } }]) },
                "busyRatio": { "max": 0.5 + 0.05 * (index % 10) as f64, "avg": 0.4 + 0.05 * (index % 10) as f64 }, "backPressuredRatio": { "max": 0.1, "avg": 0.05 },
                "accumulatedBusySeconds": elapsed as f64 * 4.0, "recordsInPerSecond": 900.0, "recordsOutPerSecond": 900.0,
                "recordsIn": elapsed * 900, "recordsOut": elapsed * 900, "recordsComplete": true,
            });
            if source {
                vertex["pendingRecords"] = json!(5000 + elapsed * 10);
                vertex["partitions"] = json!(24);
            }
            if names {
                vertex["name"] = json!(format!("vertex {index}"));
            }
            vertex
        })
        .collect();
    json!({ "observedAt": ago(seconds_ago), "jobId": "f1a3", "state": "RUNNING", "runningSince": ago(86_400), "slotsPerTaskManager": 4, "taskManagers": 4, "vertices": list })
}

/// That job over 15 readings of a full window.
fn flink(vertices: usize) -> Request {
    let history: Vec<Value> = (1..15).rev().map(|index| flink_reading(vertices, index * 65, false)).collect();
    request(
        &json!({ "kind": "flinkJob", "snapshot": flink_reading(vertices, 0, true), "history": history, "policy": { "window": "15m", "scaleDown": { "stabilization": "0s" } } }),
    )
}

fn druid(workers: usize, pending: usize) -> Request {
    let list: Vec<Value> = (0..workers).map(|index| json!({ "host": format!("mm-{index}:8091"), "capacity": 15, "used": if index % 7 == 0 { 12 } else { 15 }, "availabilityGroups": ["orders"] })).collect();
    let tasks: Vec<Value> = (0..pending)
        .map(|index| json!({ "id": format!("t{index}"), "type": "index_kafka", "requiredCapacity": 1 + index % 2, "createdTime": ago(60) }))
        .collect();
    request(
        &json!({ "kind": "druidWorkers", "replicas": { "spec": workers, "ready": workers }, "snapshot": { "observedAt": ago(2), "workers": list, "pending": { "count": pending, "tasks": tasks } }, "policy": { "max": 2000 } }),
    )
}

/// A group over `partitions`, with 15 earlier readings.
fn kafka(partitions: usize) -> Request {
    let reading = |seconds_ago: i64| {
        let list: Vec<Value> = (0..partitions)
            .map(|index| json!({ "partition": index, "committed": 100_000 - seconds_ago * 95, "logStart": 0, "logEnd": 110_000 - seconds_ago * 100, "member": format!("c{}", index % 12) }))
            .collect();
        json!({ "observedAt": ago(seconds_ago), "state": "Stable", "members": 12, "topics": [{ "name": "orders", "retentionSeconds": 604_800, "partitions": list }] })
    };
    let history: Vec<Value> = (1..16).rev().map(|index| reading(index * 30)).collect();
    request(&json!({ "kind": "kafkaGroup", "replicas": { "spec": 12, "ready": 12 }, "snapshot": reading(0), "history": history, "policy": { "max": 64 } }))
}

#[divan::bench(args = [12, 1000])]
fn kafka_judge(bencher: Bencher, partitions: usize) {
    let request = kafka(partitions);
    bencher.bench(|| loadline::core::advise(black_box(&request)));
}

fn backlog() -> Request {
    request(&json!({ "kind": "backlog", "replicas": { "spec": 5, "ready": 5 },
        "snapshot": { "observedAt": ago(5), "backlog": 12_000, "arrivalPerSecond": 330.0, "servedPerSecond": 300.0, "busyRatio": 1.0, "partitions": 24 }, "policy": { "max": 24 } }))
}

#[divan::bench(args = [4, 20, 100, 1000])]
fn flink_read(bencher: Bencher, vertices: usize) {
    let reading = serde_json::to_vec(&flink_reading(vertices, 0, true)).expect("a body");
    bencher.bench(|| serde_json::from_slice::<FlinkJobSnapshot>(black_box(&reading)).expect("a reading"));
}

#[divan::bench(args = [4, 20, 100, 1000])]
fn flink_judge(bencher: Bencher, vertices: usize) {
    let request = flink(vertices);
    bencher.bench(|| loadline::core::advise(black_box(&request)));
}

#[divan::bench(args = [4, 20, 100, 1000])]
fn flink_answer(bencher: Bencher, vertices: usize) {
    let request = flink(vertices);
    bencher.bench(|| serde_json::to_vec(&loadline::core::advise(black_box(&request))));
}

#[divan::bench(args = [(10, 20), (300, 5000)])]
fn druid_judge(bencher: Bencher, (workers, pending): (usize, usize)) {
    let request = druid(workers, pending);
    bencher.bench(|| loadline::core::advise(black_box(&request)));
}

#[divan::bench]
fn backlog_judge(bencher: Bencher) {
    let request = backlog();
    bencher.bench(|| loadline::core::advise(black_box(&request)));
}

#[divan::bench]
fn backlog_answer(bencher: Bencher) {
    let request = backlog();
    bencher.bench(|| serde_json::to_vec(&loadline::core::advise(black_box(&request))));
}
