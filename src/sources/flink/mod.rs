//! Flink, over the JobManager's REST API.
//!
//! One reading of V vertices of which S are sources takes about V + S + 6 calls: `/jobs/overview` (which job, and its
//! state), `/jobs/:id` (graph, parallelism, totals), one metrics call a vertex, one a source for its backlog (its name
//! list is asked for once and kept until the graph changes), the job's restarts, and slots and memory of the cluster. At
//! most eight are under way at a time.
//!
//! Three caches lie between the job and the answer. `/jobs/:id` is up to 3 s old, so the state comes from the overview.
//! Metrics are fetched from the TaskManagers only when someone asks, at most each 10 s: after a silence the first answer
//! is as old as the silence, so the source then asks twice. Per-second gauges are averages over a minute. One unknown
//! name makes a metrics answer `[]`: then the names that exist are asked for and nothing else.

mod names;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use self::names::{SourceNames, queries, source_names};
use self::wire::{Aggregate, ClusterOverview, Job, JobLine, JobVertex, JobsOverview, Metric, MetricName, TaskManagers, amount};
use super::http::{Client, Session};
use crate::core::kinds::flink::{Edge, FlinkJobSnapshot, JobMemory, Spread, TaskCounts, Vertex};
use crate::core::units::{Amount, Count, Timestamp, seconds_between};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};

/// Calls under way at a time.
const CALLS_AT_ONCE: usize = 8;
/// After so long a silence the JobManager's metrics are stale.
const SILENCE_SECONDS: f64 = 10.0;
/// Time for the JobManager to fetch metrics that it was just asked for.
const FETCH: Duration = Duration::from_millis(300);

const BUSY: &str = "busyTimeMsPerSecond";
const BACK_PRESSURED: &str = "backPressuredTimeMsPerSecond";
const IN_PER_SECOND: &str = "numRecordsInPerSecond";
const OUT_PER_SECOND: &str = "numRecordsOutPerSecond";
const OF_VERTEX: [&str; 4] = [BUSY, BACK_PRESSURED, IN_PER_SECOND, OUT_PER_SECOND];
const GC: &str = "Status.JVM.GarbageCollector.All.TimeMsPerSecond";
const HEAP_USED: &str = "Status.JVM.Memory.Heap.Used";
const HEAP_MAX: &str = "Status.JVM.Memory.Heap.Max";

/// Which job of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSelector {
    /// By name: the newest that runs, else the newest.
    Name(String),
    /// By id, 32 hex digits.
    Id(String),
}

/// A job of a Flink cluster.
pub struct FlinkSource {
    client: Client,
    job: JobSelector,
    kept: Mutex<Kept>,
}

/// What is kept between readings: never a measured value.
#[derive(Default)]
struct Kept {
    last_asked: Option<Timestamp>,
    /// Metric names of the sources, for one shape of one job.
    shape: String,
    names: HashMap<String, SourceNames>,
    /// TaskManager metrics that exist.
    memory_names: Option<Vec<&'static str>>,
}

impl FlinkSource {
    /// A source for one job.
    #[must_use]
    pub fn new(client: Client, job: JobSelector) -> Self {
        Self { client, job, kept: Mutex::default() }
    }

    async fn read_job(&self) -> Result<Reading, SourceError> {
        let session = self.client.session();
        let overview: JobsOverview = session.get_json("/jobs/overview").await?;
        let line = self.choose(overview.jobs)?;
        let id = line.jid.clone();
        let job: Job = session.get_json(&format!("/jobs/{id}")).await?;
        self.refresh(&session, &id, &job).await?;
        let observed = clock::now();

        let names = self.source_names(&session, &id, &job).await?;
        let mut calls: Vec<BoxFuture<'_, Result<Vertex, SourceError>>> = Vec::with_capacity(job.vertices.len());
        for vertex in &job.vertices {
            calls.push(Box::pin(self.vertex(&session, &id, vertex, &job, names.get(&vertex.id))));
        }
        let vertices: Vec<Vertex> = stream::iter(calls).buffered(CALLS_AT_ONCE).try_collect().await?;
        let (restarts, task_managers, cluster, memory) = tokio::join!(
            restarts(&session, &id),
            session.get_json::<TaskManagers>("/taskmanagers"),
            session.get_json::<ClusterOverview>("/overview"),
            self.memory(&session),
        );
        let task_managers = task_managers?.taskmanagers;
        let used = slots_used(&vertices);
        let snapshot = FlinkJobSnapshot {
            observed_at: Some(observed),
            received_at: Some(clock::now()),
            job_id: Some(id),
            running_since: running_since(&job, &line.state),
            restarts,
            tasks: tasks(&line),
            slots_per_task_manager: task_managers
                .first()
                .map(|first| first.slots_number)
                .filter(|slots| task_managers.iter().all(|other| other.slots_number == *slots)),
            task_manager_cpu: task_managers.first().and_then(|first| amount(first.total_resource.as_ref()?.cpu_cores)),
            task_managers: Some(task_managers.len() as Count),
            schedulable_slots: cluster?.slots_available.map(|free| free.saturating_add(if line.state == "RUNNING" { used } else { 0 })),
            memory,
            state: Some(line.state),
            vertices,
            ..FlinkJobSnapshot::default()
        };
        Ok(Reading { snapshot: Snapshot::FlinkJob(snapshot), calls: session.calls() })
    }

    /// The job that is meant: of several of one name the newest that has not ended, else the newest.
    fn choose(&self, jobs: Vec<JobLine>) -> Result<JobLine, SourceError> {
        const ENDED: [&str; 3] = ["FINISHED", "CANCELED", "FAILED"];
        let (what, found): (String, Option<JobLine>) = match &self.job {
            JobSelector::Id(id) => (format!("id {id}"), jobs.into_iter().find(|job| job.jid == *id)),
            JobSelector::Name(name) => {
                let named = jobs.into_iter().filter(|job| job.name == *name);
                (format!("name \"{name}\""), named.max_by_key(|job| (!ENDED.contains(&job.state.as_str()), job.start_time)))
            }
        };
        found.ok_or_else(|| SourceError::new(FailureKind::NotFound, format!("no job of {what} on this cluster")))
    }

    /// Makes the JobManager fetch metrics when it has not been asked for long.
    async fn refresh(&self, session: &Session, id: &str, job: &Job) -> Result<(), SourceError> {
        let now = clock::now();
        let silent = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.last_asked.replace(now).is_none_or(|last| seconds_between(last, now) > SILENCE_SECONDS)
        };
        if let (true, Some(vertex)) = (silent, job.vertices.first()) {
            session.get(&format!("/jobs/{id}/vertices/{}/subtasks/metrics", vertex.id)).await?;
            tokio::time::sleep(FETCH).await;
        }
        Ok(())
    }

    /// Metric names of the sources; asked for again when the job, its vertices or their parallelism have changed, and as
    /// long as a source has shown none.
    async fn source_names(&self, session: &Session, id: &str, job: &Job) -> Result<HashMap<String, SourceNames>, SourceError> {
        let shape = job.vertices.iter().fold(id.to_owned(), |shape, vertex| format!("{shape} {}:{}", vertex.id, vertex.parallelism));
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.shape == shape && kept.names.values().all(|names| *names != SourceNames::default()) {
                return Ok(kept.names.clone());
            }
        }
        let mut calls: Vec<BoxFuture<'_, Result<(String, SourceNames), SourceError>>> = Vec::new();
        for vertex in &job.vertices {
            if inputs(vertex, job).is_empty() {
                calls.push(Box::pin(list_names(session, id, &vertex.id)));
            }
        }
        let names: HashMap<String, SourceNames> = stream::iter(calls).buffered(CALLS_AT_ONCE).try_collect().await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.shape = shape;
        kept.names.clone_from(&names);
        Ok(names)
    }

    async fn vertex(&self, session: &Session, id: &str, vertex: &JobVertex, job: &Job, names: Option<&SourceNames>) -> Result<Vertex, SourceError> {
        let metrics = aggregates(session, id, &vertex.id, &OF_VERTEX).await?;
        let inputs = inputs(vertex, job);
        let totals = &vertex.metrics;
        let complete = totals.read_records_complete.zip(totals.write_records_complete).map(|(read, written)| read && written);
        let mut records_in = totals.read_records;
        let mut pending = None;
        if let Some(names) = names {
            pending = sum(session, id, &vertex.id, &names.pending).await?;
            if records_in == Some(0) {
                // the task's own counter of a source says nothing before 2.0
                records_in = sum(session, id, &vertex.id, &names.records_in).await?.filter(|count| *count > 0).or(totals.write_records);
            }
        }
        Ok(Vertex {
            id: vertex.id.clone(),
            name: Some(vertex.name.clone()),
            parallelism: vertex.parallelism.max(1),
            max_parallelism: Count::try_from(vertex.max_parallelism).ok().filter(|most| *most > 0),
            slot_sharing_group: vertex.slot_sharing_group_id.clone(),
            finished: Some(vertex.status == "FINISHED"),
            inputs,
            busy_ratio: share(metrics.get(BUSY)),
            back_pressured_ratio: share(metrics.get(BACK_PRESSURED)),
            accumulated_busy_seconds: amount(totals.accumulated_busy_time.map(|millis| millis / 1000.0)),
            records_in_per_second: metrics.get(IN_PER_SECOND).and_then(|metric| amount(metric.sum)),
            records_out_per_second: metrics.get(OUT_PER_SECOND).and_then(|metric| amount(metric.sum)),
            records_in,
            records_out: totals.write_records,
            records_complete: complete,
            pending_records: pending,
            partitions: None,
            partitions_by_topic: names.map(|names| names.partitions.clone()).unwrap_or_default(),
        })
    }

    /// Memory of the worst TaskManager; unknown where the metrics do not exist or cannot be had.
    async fn memory(&self, session: &Session) -> Option<JobMemory> {
        let known = self.kept.lock().unwrap_or_else(PoisonError::into_inner).memory_names.clone();
        let names = if let Some(names) = known {
            names
        } else {
            let list: Vec<MetricName> = session.get_json("/taskmanagers/metrics").await.ok()?;
            let found: Vec<&'static str> = [GC, HEAP_USED, HEAP_MAX].into_iter().filter(|wanted| list.iter().any(|name| name.id == *wanted)).collect();
            if !list.is_empty() {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).memory_names = Some(found.clone());
            }
            found
        };
        if names.is_empty() {
            return None;
        }
        let query = queries(names.iter().copied()).into_iter().next()?;
        let metrics: Vec<Aggregate> = session.get_json(&format!("/taskmanagers/metrics?{query}&agg=max")).await.ok()?;
        let largest = |name: &str| metrics.iter().find(|metric| metric.id == name).and_then(|metric| metric.max);
        Some(JobMemory {
            gc_time_ratio: amount(largest(GC).map(|millis| (millis / 1000.0).min(1.0))),
            heap_used_ratio: amount(largest(HEAP_USED).zip(largest(HEAP_MAX)).and_then(|(used, most)| (most > 0.0).then(|| (used / most).min(1.0)))),
        })
    }
}

impl Source for FlinkSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.read_job())
    }
}

async fn list_names(session: &Session, id: &str, vertex: &str) -> Result<(String, SourceNames), SourceError> {
    let list: Vec<MetricName> = session.get_json(&format!("/jobs/{id}/vertices/{vertex}/subtasks/metrics")).await?;
    Ok((vertex.to_owned(), source_names(list.iter().map(|name| name.id.as_str()))))
}

/// The metrics of a vertex by name. An answer of `[]` means that one of the names does not exist: then those that do are
/// asked for.
async fn aggregates(session: &Session, id: &str, vertex: &str, wanted: &[&str]) -> Result<BTreeMap<String, Aggregate>, SourceError> {
    let path = format!("/jobs/{id}/vertices/{vertex}/subtasks/metrics");
    let mut answer: Vec<Aggregate> = session.get_json(&format!("{path}?get={}", wanted.join(","))).await?;
    if answer.is_empty() {
        let list: Vec<MetricName> = session.get_json(&path).await?;
        let existing: Vec<&str> = wanted.iter().copied().filter(|name| list.iter().any(|known| known.id == *name)).collect();
        if !existing.is_empty() {
            answer = session.get_json(&format!("{path}?get={}", existing.join(","))).await?;
        }
    }
    Ok(answer.into_iter().map(|metric| (metric.id.clone(), metric)).collect())
}

/// The sum over all names and all subtasks; unknown when there is no such metric, or one of them gives no number.
async fn sum(session: &Session, id: &str, vertex: &str, names: &[String]) -> Result<Option<Count>, SourceError> {
    let mut total = 0.0;
    let mut seen = 0;
    for query in queries(names.iter().map(String::as_str)) {
        let metrics: Vec<Aggregate> = session.get_json(&format!("/jobs/{id}/vertices/{vertex}/subtasks/metrics?{query}&agg=sum")).await?;
        for metric in metrics {
            let Some(value) = metric.sum else { return Ok(None) };
            total += value.max(0.0);
            seen += 1;
        }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of counters, clamped to what fits")]
    Ok((seen > 0 && seen == names.len()).then_some(total.min(9e18) as Count))
}

async fn restarts(session: &Session, id: &str) -> Option<Count> {
    let metrics: Vec<Metric> = session.get_json(&format!("/jobs/{id}/metrics?get=numRestarts")).await.ok()?;
    let value = metrics.iter().find(|metric| metric.id == "numRestarts")?.value?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter, clamped to what fits")]
    (value >= 0.0).then_some(value.min(9e18) as Count)
}

/// Milliseconds in a second over the subtasks, as shares of the time.
fn share(metric: Option<&Aggregate>) -> Option<Spread> {
    let metric = metric?;
    let ratio = |value: Option<f64>| value.and_then(|millis| Amount::new((millis / 1000.0).clamp(0.0, 1.0)));
    let spread = Spread { max: ratio(metric.max), avg: ratio(metric.avg), min: ratio(metric.min) };
    (spread != Spread::default()).then_some(spread)
}

fn inputs(vertex: &JobVertex, job: &Job) -> Vec<Edge> {
    let node = job.plan.nodes.iter().find(|node| node.id == vertex.id);
    let known = |id: &str| job.vertices.iter().any(|vertex| vertex.id == id);
    node.map(|node| {
        node.inputs.iter().filter(|input| known(&input.id)).map(|input| Edge { from: input.id.clone(), ship_strategy: input.ship_strategy.clone() }).collect()
    })
    .unwrap_or_default()
}

/// Since when the job runs, while it does.
fn running_since(job: &Job, state: &str) -> Option<Timestamp> {
    let millis = job.timestamps.get("RUNNING").copied().filter(|millis| *millis > 0 && state == "RUNNING")?;
    Timestamp::from_millisecond(millis).ok()
}

fn tasks(line: &JobLine) -> Option<TaskCounts> {
    let of = |state: &str| line.tasks.get(state).copied().unwrap_or(0);
    let total = line.tasks.get("total").copied().filter(|total| *total > 0)?;
    Some(TaskCounts { total, running: of("running"), finished: of("finished") })
}

fn slots_used(vertices: &[Vertex]) -> Count {
    let mut groups: BTreeMap<&str, Count> = BTreeMap::new();
    for vertex in vertices.iter().filter(|vertex| vertex.finished != Some(true)) {
        let group = groups.entry(vertex.slot_sharing_group.as_deref().unwrap_or_default()).or_default();
        *group = (*group).max(vertex.parallelism);
    }
    groups.values().sum()
}
