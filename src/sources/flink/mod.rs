//! One reading of a Flink job, from the REST API of its `JobManager`
//! (<https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/>).
//!
//! What belongs to the whole cluster is asked for once for all of its targets ([`FlinkCluster`]). A job of V vertices, S of
//! them sources, then takes V + 2 calls: its own metrics, its details with all totals, and the metrics of each vertex; and
//! now and then one more for each source, whose metric names are listed anew once they are [`NAMES_AGE`] old, or where the
//! vertices, their parallelism or their attempt changed. At most V + S + 3, but for a vertex that lacks a metric, which
//! takes two more once in that time.
//!
//! `observedAt` is the moment at which the server fetched the figures, as far as it tells (`attempt`), never the moment
//! at which we asked. The state of the job is newer, and its details are up to 3 s older than that.

mod assemble;
mod attempt;
mod cluster;
mod jobs;
pub mod metrics;
mod slots;
pub mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub use self::cluster::{AT_A_TIME, FETCH_TIME, FlinkCluster};
pub use self::jobs::{FlinkJobs, JobPattern, JobSelector};
pub use super::Timing;

use self::attempt::{Attempt, Availability, Fetched};
use self::cluster::Round;
use self::metrics::{OF_TASKS, Values};
use self::wire::{Job, JobVertex, Metric};
use crate::core::kinds::FlinkJobSnapshot;
use crate::core::kinds::flink::Vertex;
use crate::core::units::{Count, Timestamp, shifted};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError, Turn};
use crate::sources::http::Session;

/// How long the metric names of a source are kept: partitions and connectors register theirs when they first read.
pub const NAMES_AGE: Duration = Duration::from_secs(60);

/// Vertices asked for at a time.
const VERTICES_AT_A_TIME: usize = 6;

/// A job of a cluster.
pub struct FlinkSource {
    cluster: Arc<FlinkCluster>,
    job: JobSelector,
    timing: Timing,
    grows: bool,
    /// Its number among the targets of the cluster.
    target: u64,
    known: Mutex<Known>,
}

/// What is kept from one reading to the next.
#[derive(Default)]
struct Known {
    topology: Topology,
    names: HashMap<String, Names>,
    attempt: Attempt,
    /// The last fetch, and its moment on our clock.
    fetched: Option<(Fetched, Timestamp)>,
    shared_calls: u32,
}

/// What the names of metrics and the totals depend on: the job, and for each vertex its id, parallelism and the start of
/// its attempt.
type Topology = (String, Vec<(String, Option<Count>, Option<Count>)>);

/// What is asked of a vertex.
#[derive(Clone)]
struct Names {
    wanted: Vec<String>,
    partitions: BTreeMap<String, Count>,
    listed: Instant,
}

impl FlinkSource {
    /// One job of a cluster. Each reading makes a look at the cluster of its own, until [`FlinkSource::timed`] says
    /// how often it is read.
    #[must_use]
    pub fn new(cluster: Arc<FlinkCluster>, job: JobSelector) -> Self {
        let target = cluster.next_target();
        let timing = Timing { interval: Duration::ZERO, timeout: Duration::from_secs(5) };
        Self { cluster, job, timing, grows: false, target, known: Mutex::default() }
    }

    /// The same, read at these times.
    #[must_use]
    pub fn timed(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The same for a cluster whose TaskManagers are the scale target, or come on demand: the slots of today are no limit.
    #[must_use]
    pub fn growing(mut self, grows: bool) -> Self {
        self.grows = grows;
        self
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let round = self.cluster.round(self.timing).await?;
        let row = jobs::choose(&round.jobs, &self.job).ok_or_else(|| self.not_found())?;
        self.known().shared_calls = round.calls;
        // the semaphore is never closed
        let _turn = self.cluster.readings.acquire().await.ok();
        let session = self.cluster.session(self.timing);
        let job_path = format!("/jobs/{}", part(&row.jid));
        // the uptime first: what is asked for later is no older than what it tells
        let said = Availability::of(&session.get_json::<Vec<Metric>>(&format!("{job_path}/metrics?get=numRestarts,uptime")).await?);
        let asked_at = clock::now();
        let job = self.details(&session, &job_path).await?;
        let mut snapshot = assemble::job(row, &job);
        let fetched = self.notice(&job, said).filter(|_| row.state == "RUNNING");
        snapshot.vertices = self.vertices(&session, &job_path, &job, fetched, snapshot.vertices).await?;
        snapshot.restarts = said.restarts;
        snapshot.memory = round.memory;
        put_cluster(&mut snapshot, &round, &job, self.grows);
        snapshot.observed_at = Some(self.observed_at(asked_at, fetched, &round));
        snapshot.received_at = Some(clock::now());
        Ok(Reading { snapshot: Snapshot::FlinkJob(snapshot), calls: session.calls() })
    }

    async fn details(&self, session: &Session, job_path: &str) -> Result<Job, SourceError> {
        let answer = session.ask(job_path).await?;
        if answer.status == 404 {
            return Err(self.not_found());
        }
        answer.success()?.json()
    }

    /// Forgets what belongs to another attempt, and tells which moment the figures are of.
    fn notice(&self, job: &Job, said: Availability) -> Option<Fetched> {
        let vertices = job.vertices.iter().map(|vertex| (vertex.id.clone(), vertex.parallelism.count(), vertex.start_time.count())).collect();
        let topology = (job.jid.clone(), vertices);
        let mut known = self.known();
        if known.topology != topology {
            known.topology = topology;
            known.names.clear();
            known.attempt.forget_totals();
        }
        known.attempt.fetched(job, said)
    }

    /// The vertices with their figures, as far as those are facts.
    async fn vertices(
        &self,
        session: &Session,
        job_path: &str,
        job: &Job,
        fetched: Option<Fetched>,
        vertices: Vec<Vertex>,
    ) -> Result<Vec<Vertex>, SourceError> {
        let asked: Vec<_> = job.vertices.iter().zip(vertices).map(|(row, vertex)| self.measured(session, job_path, row, fetched, vertex)).collect();
        stream::iter(asked).buffered(VERTICES_AT_A_TIME).try_collect().await
    }

    async fn measured(&self, session: &Session, job_path: &str, row: &JobVertex, fetched: Option<Fetched>, mut vertex: Vertex) -> Result<Vertex, SourceError> {
        if vertex.finished == Some(true) {
            return Ok(vertex);
        }
        let Some(fetched) = fetched.filter(|fetched| fetched.settled(row)) else {
            return Ok(assemble::without_figures(vertex));
        };
        let path = format!("{job_path}/vertices/{}/subtasks/metrics", part(&vertex.id));
        let mut names = self.kept(&vertex);
        let listed_now = names.is_none() && vertex.is_source();
        if listed_now {
            names = Some(self.list(session, &path, &vertex).await?);
        }
        let mut rows = match &names {
            Some(names) => ask(session, &path, &names.wanted).await?,
            None => ask(session, &path, &OF_TASKS).await?,
        };
        if rows.is_none() && !listed_now {
            // one name that is not there makes the whole answer empty: ask for those that are
            let anew = self.list(session, &path, &vertex).await?;
            rows = ask(session, &path, &anew.wanted).await?;
            if rows.is_some() && !anew.wanted.is_empty() {
                self.known().names.insert(vertex.id.clone(), anew.clone());
            }
            names = Some(anew);
        }
        Values::new(rows.unwrap_or_default()).fill(&mut vertex);
        if !fetched.averaged(row) {
            assemble::without_averages(&mut vertex);
            self.known().attempt.put_rates(&mut vertex, fetched);
        }
        if let Some(names) = names.filter(|_| vertex.is_source()) {
            let sum: Count = names.partitions.values().sum();
            vertex.partitions = Some(sum).filter(|sum| *sum > 0);
            vertex.partitions_by_topic = names.partitions;
        }
        Ok(vertex)
    }

    /// Lists the metric names of a vertex. Those of a source are kept once there is a backlog.
    async fn list(&self, session: &Session, path: &str, vertex: &Vertex) -> Result<Names, SourceError> {
        let rows: Vec<Metric> = session.get_json(path).await?;
        let all: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        let is_source = vertex.is_source();
        let partitions = if is_source { metrics::partitions(&all) } else { BTreeMap::new() };
        let names = Names { wanted: metrics::wanted(&all, is_source), partitions, listed: clock::instant() };
        if is_source && metrics::has_pending(&all) {
            self.known().names.insert(vertex.id.clone(), names.clone());
        }
        Ok(names)
    }

    fn kept(&self, vertex: &Vertex) -> Option<Names> {
        self.known().names.get(&vertex.id).filter(|names| clock::instant().duration_since(names.listed) < NAMES_AGE).cloned()
    }

    /// The moment that a reading is of: that of its figures; where it has none, the earliest that its details can be of.
    /// Readings of one fetch are of one moment, to the last digit.
    fn observed_at(&self, asked_at: Timestamp, fetched: Option<Fetched>, round: &Round) -> Timestamp {
        let Some(fetched) = fetched else { return shifted(asked_at, -round.graph_age.as_secs_f64()).min(round.asked_at) };
        let mut known = self.known();
        if let Some((_, at)) = known.fetched.filter(|(before, _)| before.is_same(fetched)) {
            return at;
        }
        let at = shifted(asked_at, -fetched.age_seconds());
        known.fetched = Some((fetched, at));
        at
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_found(&self) -> SourceError {
        SourceError::new(FailureKind::NotFound, format!("no {} on this JobManager", self.job))
    }
}

impl Source for FlinkSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }

    fn shared_calls(&self) -> u32 {
        self.known().shared_calls
    }

    fn phase(&self) -> Option<&str> {
        Some(self.cluster.name())
    }

    fn turn(&self) -> Option<Box<dyn Turn + '_>> {
        Some(Box::new(self.cluster.promises.turn(self.target)))
    }
}

impl Drop for FlinkSource {
    fn drop(&mut self) {
        self.cluster.promises.withdraw(self.target);
    }
}

/// Puts the slots of the cluster and the size of its TaskManagers into the reading.
fn put_cluster(snapshot: &mut FlinkJobSnapshot, round: &Round, job: &Job, grows: bool) {
    assemble::put_slots(snapshot, assemble::slots_in_use(job), &round.overview, &round.managers);
    if grows {
        snapshot.schedulable_slots = None;
    }
}

/// The values of some metrics; none where an answer was empty, which means that a name is not there.
async fn ask<S: AsRef<str>>(session: &Session, path: &str, names: &[S]) -> Result<Option<Vec<Metric>>, SourceError> {
    let mut all = Vec::new();
    for list in metrics::lists(names) {
        let rows: Vec<Metric> = session.get_json(&format!("{path}?get={list}&agg=min,max,avg,sum")).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        all.extend(rows);
    }
    Ok(Some(all))
}

/// An id as a part of a path: the server gave it, and it is to stay one part.
fn part(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
