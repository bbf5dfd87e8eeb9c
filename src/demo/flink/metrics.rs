//! The metric endpoints of the `JobManager`: names without `get`, values with it, aggregated where Flink aggregates.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::wire::{failure, is_ours};
use super::{Job, PARTITIONS, Phase, TASK_MANAGERS, Vertex};
use crate::demo::{Shared, float, whole};

/// The heap of a `TaskManager` in bytes.
pub(super) const HEAP_MAX: u64 = 324_403_200;
/// The aggregations that Flink knows.
const AGGREGATIONS: [&str; 5] = ["min", "max", "avg", "sum", "skew"];

/// `?get=a,b&agg=max,avg`.
#[derive(Deserialize)]
pub(super) struct Asked {
    get: Option<String>,
    agg: Option<String>,
}

impl Asked {
    fn names(&self) -> Option<Vec<&str>> {
        self.get.as_ref().map(|names| names.split(',').collect())
    }
}

/// A metric over the subtasks: the sum over them, and how many they are.
struct Metric {
    name: String,
    /// None: a value that is no number.
    sum: Option<f64>,
    over: f64,
}

/// `/jobs/:id/metrics`: values are text; unknown names are left out.
pub(super) async fn of_job(State(shared): State<Shared<Job>>, Path(id): Path<String>, Query(asked): Query<Asked>) -> Json<Value> {
    if !is_ours(&id) {
        return Json(json!([]));
    }
    let job = shared.now();
    let down = matches!(job.phase, Phase::Restarting { .. });
    let up = if down { 0 } else { whole((job.time - job.deployed_at) * 1000.0) };
    let rows = [("numRestarts", job.restarts), ("numRescales", job.restarts), ("uptime", up), ("runningTime", up), ("downtime", 0), ("restartingTime", 0)];
    let Some(names) = asked.names() else {
        return Json(rows.iter().map(|(name, _)| json!({ "id": name })).collect());
    };
    Json(rows.iter().filter(|(name, _)| names.contains(name)).map(|(name, value)| json!({ "id": name, "value": value.to_string() })).collect())
}

/// `/jobs/:id/vertices/:vid/subtasks/metrics`.
pub(super) async fn of_subtasks(State(shared): State<Shared<Job>>, Path((id, vertex)): Path<(String, String)>, Query(asked): Query<Asked>) -> Response {
    let job = shared.now();
    let found = job.vertices.iter().find(|each| each.kind.id == vertex);
    // a task that is only being deployed has registered no metric yet
    let all = found.filter(|_| is_ours(&id) && job.is_processing()).map(|vertex| vertex_metrics(&job, vertex)).unwrap_or_default();
    answer(&all, &asked)
}

/// `/taskmanagers/metrics`.
pub(super) async fn of_task_managers(State(shared): State<Shared<Job>>, Query(asked): Query<Asked>) -> Response {
    let managers = float(TASK_MANAGERS);
    // a heap that fills and is collected, a little fuller than half
    let heap = float(HEAP_MAX) * (0.4 + 0.2 * (shared.now().time / 20.0).fract());
    let metric = |name: &str, each: f64| Metric { name: name.to_owned(), sum: Some(each * managers), over: managers };
    let all = [
        metric("Status.JVM.CPU.Load", 0.2),
        metric("Status.JVM.Memory.Heap.Used", heap.floor()),
        metric("Status.JVM.Memory.Heap.Max", float(HEAP_MAX)),
        metric("Status.JVM.GarbageCollector.All.TimeMsPerSecond", 8.0),
    ];
    answer(&all, &asked)
}

/// All metrics of a vertex: those of the task, and those of its operator under the operator's name.
fn vertex_metrics(job: &Job, vertex: &Vertex) -> Vec<Metric> {
    let subtasks = float(vertex.parallelism);
    let sum = |name: String, sum: f64| Metric { name, sum: Some(sum), over: subtasks };
    let each = |name: &str, each: f64| Metric { name: name.to_owned(), sum: Some(each * subtasks), over: subtasks };
    let (totals, rates) = (vertex.totals, vertex.gauges.read());
    let operator = vertex.kind.name.replace([' ', ':'], "_");
    let mut all = vec![
        each("busyTimeMsPerSecond", rates.busy.round()),
        each("backPressuredTimeMsPerSecond", rates.back_pressured.round()),
        each("softBackPressuredTimeMsPerSecond", rates.back_pressured.round()),
        each("hardBackPressuredTimeMsPerSecond", 0.0),
        each("idleTimeMsPerSecond", rates.idle.round()),
        Metric { name: "isBackPressured".to_owned(), sum: None, over: subtasks },
        sum("accumulateBusyTimeMs".to_owned(), totals.busy.floor()),
        sum("accumulateBackPressuredTimeMs".to_owned(), totals.back_pressured.floor()),
        sum("accumulateIdleTimeMs".to_owned(), totals.idle.floor()),
    ];
    for prefix in [String::new(), format!("{operator}.")] {
        all.push(sum(format!("{prefix}numRecordsIn"), totals.read.floor()));
        all.push(sum(format!("{prefix}numRecordsOut"), totals.written.floor()));
        all.push(sum(format!("{prefix}numRecordsInPerSecond"), rates.read));
        all.push(sum(format!("{prefix}numRecordsOutPerSecond"), rates.written));
    }
    if vertex.kind.ship_strategy.is_empty() {
        all.push(sum(format!("{operator}.pendingRecords"), job.backlog().floor()));
        let offset = (job.read / float(PARTITIONS)).floor();
        for partition in 0..PARTITIONS {
            // only the subtask that reads the partition has this one
            let name = format!("{operator}.KafkaSourceReader.topic.orders.partition.{partition}.currentOffset");
            all.push(Metric { name, sum: Some(offset), over: 1.0 });
        }
    }
    all
}

/// Names without `get`. With it all or nothing: one name that is unknown or no number makes the whole answer empty.
fn answer(all: &[Metric], asked: &Asked) -> Response {
    let wanted: Vec<&str> = asked.agg.as_ref().map_or_else(|| AGGREGATIONS.to_vec(), |agg| agg.split(',').collect());
    if let Some(unknown) = wanted.iter().find(|each| !AGGREGATIONS.contains(each)) {
        let message = format!("Bad request, could not parse parameters: Cannot resolve query parameter (agg) from value \"{unknown}\".");
        return failure(StatusCode::BAD_REQUEST, &message);
    }
    let Some(names) = asked.names() else {
        return Json(all.iter().map(|metric| json!({ "id": metric.name })).collect::<Value>()).into_response();
    };
    let rows: Option<Vec<Value>> = names.iter().map(|name| all.iter().find(|metric| metric.name == *name)?.row(&wanted)).collect();
    Json(rows.unwrap_or_default()).into_response()
}

impl Metric {
    fn row(&self, wanted: &[&str]) -> Option<Value> {
        let sum = self.sum?;
        let mut row = Map::new();
        row.insert("id".to_owned(), Value::from(self.name.as_str()));
        for aggregation in wanted {
            let value = match *aggregation {
                "sum" => sum,
                // the model knows no skew: every subtask does the same
                "skew" => 0.0,
                _ => sum / self.over,
            };
            row.insert((*aggregation).to_owned(), Value::from(value));
        }
        Some(Value::Object(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Metric {
        Metric { name: "busy".to_owned(), sum: Some(1200.0), over: 3.0 }
    }

    #[test]
    fn an_aggregated_row_has_what_is_asked_for() {
        assert_eq!(busy().row(&["max", "sum"]).unwrap(), json!({ "id": "busy", "max": 400.0, "sum": 1200.0 }));
    }

    #[test]
    fn a_metric_that_is_no_number_has_no_row() {
        assert!(Metric { sum: None, ..busy() }.row(&["max"]).is_none());
    }

    #[test]
    fn a_source_has_pending_records_and_a_partition_offset_each_and_other_vertices_do_not() {
        let job = Job::new(crate::demo::Pace::default());
        let ending = |place: usize, end: &str| vertex_metrics(&job, &job.vertices[place]).iter().filter(|metric| metric.name.ends_with(end)).count();
        assert_eq!((ending(0, ".pendingRecords"), ending(0, ".currentOffset")), (1, 12));
        assert_eq!((ending(2, ".pendingRecords"), ending(2, ".currentOffset")), (0, 0));
    }
}
