//! One reading of a Flink job, from the REST API of its `JobManager`
//! (<https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/>).
//!
//! How old the figures are: the `JobManager` fetches metrics from the `TaskManagers` only when somebody asks, at most
//! each `metrics.fetcher.update-interval` (10 s), and answers at once from what it has. After a silence the first answer
//! is therefore as old as the silence. So each reading asks for one metric first, waits [`FETCH_TIME`], and then reads.
//! `observedAt` is the time of that read, unless the totals are to the last digit those of the reading before: then
//! nothing was fetched in between, since a task that runs is busy, idle or held back all the time, and the figures are
//! as old as they were. Without that a counter would seem to stand still for one reading and to leap in the next. What
//! remains: where somebody else asks, the figures may be up to one interval older than `observedAt`; `/jobs/:id` is
//! cached for 3 s besides, so that it may be that much behind the state, which is taken from `/jobs/overview`; and rates
//! are averages over the last 60 s.
//!
//! A job of V vertices takes V + 7 calls, and now and then one more for each source, whose metric names are listed
//! anew once they are [`NAMES_AGE`] old, or where the vertices, their parallelism or their attempt changed.

mod assemble;
pub mod metrics;
pub mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::metrics::{OF_TASKS, Values};
use self::wire::{Job, JobRow, JobsOverview, Metric, Overview, TaskManagers};
use crate::core::kinds::flink::{JobMemory, Vertex};
use crate::core::units::{Count, Timestamp};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use crate::sources::http::{Client, Session};

/// What the `JobManager` is given to fetch the metrics of all `TaskManagers` (measured: under 50 ms).
pub const FETCH_TIME: Duration = Duration::from_millis(250);

/// How long the metric names of a source are kept: partitions and connectors register theirs when they first read.
pub const NAMES_AGE: Duration = Duration::from_secs(60);

/// Vertices asked for at a time; two more calls run beside them.
const VERTICES_AT_A_TIME: usize = 6;

/// Which job is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSelector {
    /// By name: the newest of that name that has not ended, else the newest.
    Name(String),
    /// By id, 32 hex digits.
    Id(String),
}

impl std::fmt::Display for JobSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "job \"{name}\""),
            Self::Id(id) => write!(f, "job {id}"),
        }
    }
}

/// A job of a `JobManager`.
pub struct FlinkSource {
    client: Client,
    job: JobSelector,
    known: Mutex<Known>,
    grows: bool,
}

/// What is kept from one reading to the next.
#[derive(Default)]
struct Known {
    topology: Topology,
    names: HashMap<String, Names>,
    memory: Option<Vec<&'static str>>,
    /// The totals as they were last fetched, and when they were first read.
    fetched: Option<(Totals, Timestamp)>,
}

/// The totals of all vertices of a job, exactly as they were sent: equal ones are of one fetch.
type Totals = (String, Vec<[u64; 5]>);

/// What the names of metrics depend on: the job, and for each vertex its id, parallelism and the start of its attempt.
type Topology = (String, Vec<(String, Option<Count>, Option<Count>)>);

/// What is asked of a vertex.
#[derive(Clone)]
struct Names {
    wanted: Vec<String>,
    partitions: BTreeMap<String, Count>,
    listed: Instant,
}

impl FlinkSource {
    /// Asks through `client`, whose base is the `JobManager`'s REST address, for one job.
    #[must_use]
    pub fn new(client: Client, job: JobSelector) -> Self {
        Self { client, job, known: Mutex::default(), grows: false }
    }

    /// The same for a cluster whose TaskManagers are the scale target, or come on demand: the slots of today are no limit.
    #[must_use]
    pub fn growing(self, grows: bool) -> Self {
        Self { grows, ..self }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let session = self.client.session();
        let jobs: JobsOverview = session.get_json("/jobs/overview").await?;
        let row = assemble::choose(&jobs, &self.job).ok_or_else(|| self.not_found())?;
        let job_path = format!("/jobs/{}", part(&row.jid));
        let prompt = format!("{job_path}/metrics?get=numRestarts");
        let prompted = async {
            session.get_json::<Vec<Metric>>(&prompt).await?;
            tokio::time::sleep(FETCH_TIME).await;
            Ok(())
        };
        let ((), overview, managers) =
            tokio::try_join!(prompted, session.get_json::<Overview>("/overview"), session.get_json::<TaskManagers>("/taskmanagers"))?;

        // the overview again would show a state that changed meanwhile, at the price of a call: the next reading sees it
        let asked_at = clock::now();
        let job = self.details(&session, &job_path).await?;
        let observed_at = self.fetched_at(&job, asked_at);
        let mut snapshot = assemble::job(row, &job);
        self.forget_unless_same(&job);
        let (vertices, restarts, memory) =
            tokio::try_join!(self.vertices(&session, &job_path, row, snapshot.vertices), restarts(&session, &job_path), async {
                Ok(self.memory(&session).await)
            })?;
        snapshot.vertices = vertices;
        snapshot.restarts = restarts;
        snapshot.memory = memory;
        assemble::put_slots(&mut snapshot, assemble::slots_in_use(&job), &overview, &managers);
        if self.grows {
            snapshot.schedulable_slots = None;
        }
        snapshot.observed_at = Some(observed_at);
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

    /// The vertices with their metrics. Those of a job that does not run are of the attempt before, or none: not asked.
    async fn vertices(&self, session: &Session, job_path: &str, row: &JobRow, vertices: Vec<Vertex>) -> Result<Vec<Vertex>, SourceError> {
        if row.state != "RUNNING" {
            return Ok(vertices);
        }
        let asked: Vec<_> = vertices.into_iter().map(|vertex| self.measured(session, job_path, vertex)).collect();
        stream::iter(asked).buffered(VERTICES_AT_A_TIME).try_collect().await
    }

    async fn measured(&self, session: &Session, job_path: &str, mut vertex: Vertex) -> Result<Vertex, SourceError> {
        if vertex.finished == Some(true) {
            return Ok(vertex);
        }
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
            names = Some(anew);
        }
        Values::new(rows.unwrap_or_default()).fill(&mut vertex);
        if let Some(names) = names.filter(|_| vertex.is_source()) {
            let sum: Count = names.partitions.values().sum();
            vertex.partitions = Some(sum).filter(|sum| *sum > 0);
            vertex.partitions_by_topic = names.partitions;
        }
        Ok(vertex)
    }

    /// Lists the metric names of a vertex. Kept where they are all there: those of a source once there is a backlog.
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

    /// When the totals of this answer were fetched: when they were first read, as far as they tell.
    fn fetched_at(&self, job: &Job, asked_at: Timestamp) -> Timestamp {
        let totals = assemble::totals(job).map(|totals| (job.jid.clone(), totals));
        let mut known = self.known();
        if let (Some(totals), Some((before, at))) = (&totals, &known.fetched)
            && totals == before
        {
            return *at;
        }
        known.fetched = totals.map(|totals| (totals, asked_at));
        asked_at
    }

    fn forget_unless_same(&self, job: &Job) {
        let vertices = job.vertices.iter().map(|vertex| (vertex.id.clone(), vertex.parallelism.count(), vertex.start_time.count())).collect();
        let topology = (job.jid.clone(), vertices);
        let mut known = self.known();
        if known.topology != topology {
            known.topology = topology;
            known.names.clear();
        }
    }

    /// Memory pressure; it only adds to the reading, so that a failure leaves it unknown.
    async fn memory(&self, session: &Session) -> Option<JobMemory> {
        let kept = self.known().memory.clone();
        let names = match kept {
            Some(names) => names,
            None => memory_names(session).await.inspect_err(left_out).ok()?,
        };
        let mut rows: Vec<Metric> = Vec::new();
        for list in metrics::lists(&names) {
            rows.extend(session.get_json::<Vec<Metric>>(&format!("/taskmanagers/metrics?get={list}&agg=max")).await.inspect_err(left_out).ok()?);
        }
        self.known().memory = Some(names).filter(|names| !names.is_empty() && !rows.is_empty());
        assemble::memory(&Values::new(rows))
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

/// Restarts so far. Read together with the uptime, which is there exactly when the job ran.
async fn restarts(session: &Session, job_path: &str) -> Result<Option<Count>, SourceError> {
    let rows: Vec<Metric> = session.get_json(&format!("{job_path}/metrics?get=numRestarts,uptime")).await?;
    Ok(rows.iter().find(|row| row.id == "numRestarts").and_then(|row| row.value.count()))
}

async fn memory_names(session: &Session) -> Result<Vec<&'static str>, SourceError> {
    let rows: Vec<Metric> = session.get_json("/taskmanagers/metrics").await?;
    let there = |name: &&str| rows.iter().any(|row| row.id == **name);
    Ok([assemble::GC, assemble::HEAP_USED, assemble::HEAP_MAX].into_iter().filter(there).collect())
}

fn left_out(error: &SourceError) {
    tracing::debug!(kind = error.kind.name(), error = error.message, "the memory of the TaskManagers stays unknown");
}

/// An id as a part of a path: the server gave it, and it is to stay one part.
fn part(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
