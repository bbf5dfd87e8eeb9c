//! Whole timelines of real jobs, second by second: a start, failures, rescales, a TaskManager that is lost. Each recorded
//! row is served as a `JobManager` would, read by the source, and judged by the core with all that was read before.
//!
//! Recorded are parallelism, tasks and metrics. The moments at which the attempts began are not; they are given here, as
//! the rows show them, and with them the `start-time`s and the `uptime` that go with each fetch of the metrics.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use loadline::core::advice::{Advice, Outcome};
use loadline::core::kinds::FlinkJobSnapshot;
use loadline::core::units::Amount;
use loadline::engine::source::{Snapshot, Source};
use loadline::sources::flink::{FlinkCluster, FlinkSource, JobSelector};
use loadline::sources::http::ClientOptions;
use serde_json::{Map, Value, json};

const JOB: &str = "40d44e561948ec3e9d5932f6dc04929e";

/// One timeline: the file, when its attempts began (seconds in the file), and how often it restarted before.
struct Timeline {
    file: &'static str,
    attempts: &'static [f64],
}

/// What the server says at one moment.
#[derive(Default)]
struct Served {
    job: Value,
    state: String,
    metrics: HashMap<String, Vec<Value>>,
    said: Value,
}

/// One reading and what was made of it.
struct Step {
    t: f64,
    /// Seconds from the start of the attempt to the fetch of the metrics.
    lived: f64,
    snapshot: FlinkJobSnapshot,
    advice: Advice,
}

fn base() -> Timestamp {
    Timestamp::from_second(1_796_078_000).expect("a time")
}

fn millis(seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "minutes")]
    let millis = (seconds * 1000.0).round() as i64;
    base().as_millisecond() + millis
}

/// The vertices of the lab's pipeline: ids by place, as each has the one before it for its input.
fn vertex_id(place: usize) -> String {
    format!("{place:032x}")
}

impl Timeline {
    fn rows(&self) -> Vec<Value> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/flink").join(self.file);
        let rows: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).expect("JSON");
        rows.into_iter().filter(|row| row.get("request").is_none()).collect()
    }

    /// The attempt that runs at a moment: its number and its start.
    fn attempt(&self, t: f64) -> (usize, f64) {
        let number = self.attempts.iter().filter(|start| **start <= t).count().saturating_sub(1);
        (number, self.attempts[number])
    }

    /// The row as the server would tell it, metrics that were fetched at `fetched` included.
    fn served(&self, row: &Value, t: f64, fetched: f64) -> Served {
        let (_, began) = self.attempt(t);
        let (restarts, fetched_began) = self.attempt(fetched);
        let state = row["state"].as_str().expect("a state").to_owned();
        let running = state == "RUNNING";
        let mut metrics = HashMap::new();
        let (mut vertices, mut nodes) = (Vec::new(), Vec::new());
        for (place, vertex) in row["vertices"].as_array().expect("vertices").iter().enumerate() {
            let values = vertex["sum_min_max"].as_object().cloned().unwrap_or_default();
            let parallelism = vertex["parallelism"].as_u64().expect("a parallelism");
            let rows = values.iter().map(|(name, values)| aggregate(name, values, parallelism)).collect::<Vec<_>>();
            metrics.insert(vertex_id(place), rows);
            let total = |name: &str| values.get(name).map_or(json!(0), |values| json!(values[0].as_f64().unwrap_or(0.0)));
            let capital: Map<String, Value> =
                vertex["tasks"].as_object().expect("tasks").iter().map(|(state, count)| (state.to_uppercase(), count.clone())).collect();
            vertices.push(json!({
                "id": vertex_id(place), "name": vertex["name"], "parallelism": parallelism, "maxParallelism": 48, "slotSharingGroupId": "a",
                "status": if running { "RUNNING" } else { "CANCELED" }, "start-time": millis(began), "tasks": capital,
                // the accumulated times were not recorded
                "metrics": {
                    "read-records": total("numRecordsIn"), "read-records-complete": !values.is_empty(),
                    "write-records": total("numRecordsOut"), "write-records-complete": !values.is_empty(), "accumulated-busy-time": "NaN",
                },
            }));
            nodes.push(if place == 0 {
                json!({ "id": vertex_id(0) })
            } else {
                json!({ "id": vertex_id(place), "inputs": [{ "id": vertex_id(place - 1), "ship_strategy": if place == 3 { "HASH" } else { "REBALANCE" } }] })
            });
        }
        let any = metrics.values().any(|rows| !rows.is_empty());
        // the uptime belongs to the same fetch: 0 while the job was down, whatever it does now
        let busy = metrics.values().flatten().any(|row| row["id"] == "busyTimeMsPerSecond");
        let uptime = if busy { millis(fetched) - millis(fetched_began) } else { 0 };
        let said =
            if any { json!([{ "id": "numRestarts", "value": restarts.to_string() }, { "id": "uptime", "value": uptime.to_string() }]) } else { json!([]) };
        let job = json!({
            "jid": JOB, "state": state, "now": millis(t), "timestamps": { "RUNNING": if running { millis(began) } else { 0 } }, "vertices": vertices, "plan": { "nodes": nodes },
        });
        Served { job, state, metrics, said }
    }

    /// Reads and judges every `every` seconds.
    async fn replay(&self, every: f64) -> Vec<Step> {
        let served = Arc::new(Mutex::new(Served::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&served));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let cluster = Arc::new(FlinkCluster::new(url.parse().expect("a URL"), ClientOptions::default()).expect("a cluster"));
        let source = FlinkSource::new(cluster, JobSelector::Id(JOB.to_owned()));

        let rows = self.rows();
        let time = |row: &Value, name: &str| row[name].as_f64();
        let end = rows.iter().filter_map(|row| time(row, "until").or_else(|| time(row, "t"))).fold(0.0, f64::max);
        let (mut steps, mut history, mut memory) = (Vec::<Step>::new(), Vec::<Value>::new(), Value::Null);
        let (mut t, mut fetched, mut shown) = (0.0, 0.0, Value::Null);
        while t <= end {
            let row = rows.iter().rev().find(|row| time(row, "t").is_some_and(|at| at <= t)).expect("a row");
            // metrics were fetched when they first changed
            let at = time(row, "t").expect("a time");
            let metrics: Value = row["vertices"].as_array().expect("vertices").iter().map(|vertex| vertex["sum_min_max"].clone()).collect();
            if metrics != shown {
                (fetched, shown) = (at, metrics);
            }
            *served.lock().expect("no panic") = self.served(row, t, fetched);
            let Snapshot::FlinkJob(mut snapshot) = source.read().await.expect("a reading").snapshot else { panic!("another kind") };
            // the age as the source tells it, at the time of the recording
            let age = snapshot.received_at.expect("a time").duration_since(snapshot.observed_at.expect("a time"));
            let now = Timestamp::from_millisecond(millis(t)).expect("a time");
            (snapshot.observed_at, snapshot.received_at) = (Some(now - age), Some(now));
            let told = serde_json::to_value(&snapshot).expect("a snapshot");
            let policy =
                json!({ "stabilizationAfterStart": "0s", "window": "60s", "catchUpWithin": "10m", "restart": "10s", "scaleDown": { "stabilization": "30s" } });
            let body = json!({ "kind": "flinkJob", "now": now, "snapshot": told, "history": history, "memory": memory, "policy": policy });
            let request = loadline::core::request::parse(&serde_json::to_vec(&body).expect("a body"), now).unwrap_or_else(|error| panic!("{error:?}"));
            let advice = loadline::core::advise(&request);
            history.push(told);
            memory = serde_json::to_value(&advice.memory).expect("a memory");
            assert!(age < SignedDuration::from_secs(20), "{} at {t}: {age:?} old", self.file);
            steps.push(Step { t, lived: fetched - self.attempt(t).1, snapshot, advice });
            t += every;
        }
        steps
    }
}

fn aggregate(name: &str, values: &Value, parallelism: u64) -> Value {
    let value = |place: usize| values[place].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let avg = value(0) / parallelism as f64;
    // while the metrics are of the attempt before, the sum is over its subtasks
    let avg = avg.clamp(value(1), value(2));
    json!({ "id": name, "sum": value(0), "min": value(1), "max": value(2), "avg": avg })
}

async fn answer(State(served): State<Arc<Mutex<Served>>>, uri: Uri, Query(query): Query<HashMap<String, String>>) -> Response {
    let served = served.lock().expect("no panic");
    let path = uri.path();
    let body = match path {
        "/jobs/overview" => {
            let sum =
                |state: &str| served.job["vertices"].as_array().expect("vertices").iter().filter_map(|vertex| vertex["tasks"][state].as_u64()).sum::<u64>();
            let total: u64 = served.job["vertices"].as_array().expect("vertices").iter().filter_map(|vertex| vertex["parallelism"].as_u64()).sum();
            json!({ "jobs": [{ "jid": JOB, "name": "lab", "state": served.state, "start-time": 1, "tasks": { "total": total, "running": sum("RUNNING") } }] })
        }
        "/overview" => json!({ "slots-total": 48, "slots-available": 40 }),
        "/taskmanagers" => json!({ "taskmanagers": (0..12).map(|_| json!({ "slotsNumber": 4 })).collect::<Vec<_>>() }),
        "/taskmanagers/metrics" | "/config" => json!([]),
        _ if path.ends_with(&format!("{JOB}/metrics")) => served.said.clone(),
        _ if path.ends_with("/subtasks/metrics") => {
            let vertex = path.rsplit('/').nth(2).expect("a vertex");
            let rows = served.metrics.get(vertex).cloned().unwrap_or_default();
            match query.get("get") {
                None => rows.iter().map(|row| json!({ "id": row["id"] })).collect(),
                Some(names) => {
                    let found: Vec<&Value> = names.split(',').filter_map(|name| rows.iter().find(|row| row["id"] == name)).collect();
                    if found.len() < names.split(',').count() { json!([]) } else { json!(found) }
                }
            }
        }
        _ => served.job.clone(),
    };
    Json(body).into_response()
}

/// No figure of the artefact period is taken for a fact, and nothing is changed for it.
fn artefacts_stay_out(timeline: &Timeline, steps: &[Step]) {
    for Step { t, lived, snapshot, advice } in steps.iter().filter(|step| step.lived < 15.0) {
        let at = format!("{} at {t} s, {lived} s after the start", timeline.file);
        for vertex in &snapshot.vertices {
            let figures = (vertex.busy_ratio, vertex.records_in_per_second, vertex.records_in, vertex.pending_records);
            assert_eq!(figures, (None, None, None, None), "{at}: {}", vertex.label());
        }
        assert_ne!(advice.outcome, Outcome::Change, "{at}: {:?}", advice.reasons);
        assert!(advice.parts.iter().all(|part| part.recommended == part.current), "{at}: {:?}", advice.parts);
    }
    // averages over 60 s climb from 0 until then
    for Step { t, snapshot, .. } in steps.iter().filter(|step| step.lived < 70.0) {
        for vertex in &snapshot.vertices {
            assert!(vertex.busy_ratio.is_none_or(|busy| busy.max.is_none()), "{} at {t}: {}", timeline.file, vertex.label());
        }
    }
}

/// The rates that come from totals are the true ones, within a tenth.
fn rates_are(steps: &[Step], place: usize, from: f64, truth: f64) {
    let known: Vec<&Step> = steps.iter().filter(|step| step.lived >= from && step.lived < 70.0).collect();
    let rates: Vec<f64> = known.iter().filter_map(|step| step.snapshot.vertices[place].records_in_per_second.map(Amount::get)).collect();
    assert!(rates.len() > known.len() / 2, "{} of {} readings have a rate", rates.len(), known.len());
    for rate in rates {
        assert!((rate / truth - 1.0).abs() < 0.1, "{rate}/s, and {truth}/s are true");
    }
}

fn recommended(step: &Step, place: usize) -> u64 {
    step.advice.parts[place].recommended.expect("a number")
}

#[tokio::test]
async fn after_a_start_nothing_is_concluded_from_metrics_that_climb() {
    let timeline = Timeline { file: "2.3.0/timeline-after-start.json", attempts: &[-1.0] };
    let steps = timeline.replay(5.0).await;
    artefacts_stay_out(&timeline, &steps);
    // 6000/s arrive, and Enrich at 2 does 4000/s of them; the gauges say 963/s at first
    rates_are(&steps, 2, 25.0, 4000.0);
    for step in &steps {
        for place in [0, 1, 3, 4] {
            assert_eq!(recommended(step, place), 1, "at {}: {}", step.t, step.advice.parts[place].name);
        }
        assert!(recommended(step, 2) <= 6, "at {}: {}", step.t, recommended(step, 2));
    }
}

#[tokio::test]
async fn after_a_rescale_the_old_metrics_and_the_artefacts_of_the_new_ones_are_left_out() {
    for (timeline, place) in [
        (Timeline { file: "2.3.0/timeline-rescale-up.json", attempts: &[-60.0, 8.2] }, 2),
        (Timeline { file: "1.20.5/timeline-rescale-up.json", attempts: &[-30.0, 5.4] }, 2),
    ] {
        let steps = timeline.replay(5.0).await;
        artefacts_stay_out(&timeline, &steps);
        // 3500/s at 500 us a record and 70 % busy need 2.5 subtasks: 3, which it has
        for step in steps.iter().filter(|step| step.t > 10.0) {
            assert_eq!(step.snapshot.vertices[place].parallelism, 3, "{} at {}", timeline.file, step.t);
            assert_eq!(recommended(step, place), 3, "{} at {}: {:?}", timeline.file, step.t, step.advice.reasons);
        }
        let last = steps.last().expect("steps");
        assert_eq!(last.snapshot.restarts, Some(1), "a rescale counts");
    }
}

#[tokio::test]
async fn busy_times_of_exactly_zero_after_a_wide_rescale_are_no_reason_to_lower() {
    let timeline = Timeline { file: "2.3.0/timeline-rescale-beyond-slots.json", attempts: &[-90.0, 62.5] };
    let steps = timeline.replay(5.0).await;
    artefacts_stay_out(&timeline, &steps);
    for step in &steps {
        assert_ne!(step.advice.outcome, Outcome::Change, "at {}: {:?}", step.t, step.advice.reasons);
        let enrich = &step.snapshot.vertices[2];
        assert!(enrich.busy_ratio.is_none_or(|busy| busy.max.is_none_or(|busy| busy.get() > 0.5)), "at {}: {enrich:?}", step.t);
    }
    rates_are(&steps, 0, 25.0, 3500.0);
}

#[tokio::test]
async fn a_job_that_fails_again_and_again_is_left_alone() {
    let timeline = Timeline { file: "2.3.0/timeline-failing.json", attempts: &[0.0, 35.5, 71.5] };
    let steps = timeline.replay(2.0).await;
    artefacts_stay_out(&timeline, &steps);
    for step in &steps {
        assert_eq!(step.advice.outcome, Outcome::Hold, "at {}: {:?}", step.t, step.advice.reasons);
    }
    assert!(steps.iter().any(|step| step.snapshot.state.as_deref() == Some("RESTARTING")));
}

#[tokio::test]
async fn a_task_manager_that_is_lost_is_noticed_though_every_state_says_running() {
    let timeline = Timeline { file: "2.3.0/timeline-taskmanager-lost.json", attempts: &[-680.0, 17.0] };
    let steps = timeline.replay(5.0).await;
    assert!(steps.iter().all(|step| step.snapshot.state.as_deref() == Some("RUNNING")));
    artefacts_stay_out(&timeline, &steps);
    let restarts = |step: &Step| step.snapshot.restarts;
    assert_eq!((restarts(&steps[0]), restarts(steps.last().expect("steps"))), (Some(0), Some(1)));
    // before and after it is a job that cannot do what arrives; never a vertex but Enrich is meant
    for step in &steps {
        for place in [0, 1, 3, 4] {
            assert_eq!(recommended(step, place), 1, "at {}", step.t);
        }
        assert!((2..=8).contains(&recommended(step, 2)), "at {}: {}", step.t, recommended(step, 2));
    }
}
