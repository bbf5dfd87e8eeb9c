//! A Flink cluster, as all targets on it share it: one look at what belongs to the whole cluster, few questions on their
//! way at a time, and free slots that are promised once.
//!
//! The look (a *round*) asks for the jobs, the slots, the `TaskManagers` and their memory. Targets of one cluster have the
//! same place in their interval, so that the first of them makes the round and the others take part in it: a cluster of
//! fifty jobs is asked for its overview once an interval.
//!
//! The `JobManager` fetches metrics from the `TaskManagers` only when somebody asks, at most each
//! `metrics.fetcher.update-interval` (10 s), and answers at once from what it has. After a silence the first answer is as
//! old as the silence. So a round asks for one metric first, waits [`FETCH_TIME`], and the jobs are read after that. One
//! such question is enough for all jobs, as the metrics of all are fetched together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use url::Url;

use super::assemble;
use super::metrics::{self, Values};
use super::slots::Promises;
use super::wire::{Config, JobsOverview, Metric, Overview, TaskManagers};
use crate::core::kinds::flink::JobMemory;
use crate::core::units::{Timestamp, as_f64};
use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};
use crate::sources::Timing;
use crate::sources::http::{Client, ClientOptions, Session};

/// What the `JobManager` is given to fetch the metrics of all `TaskManagers` (measured: under 50 ms).
pub const FETCH_TIME: Duration = Duration::from_millis(250);

/// Questions on their way to one cluster at a time.
pub const AT_A_TIME: usize = 8;

/// Jobs that are read at a time: where a cluster is slow, some readings are complete instead of all half done.
const JOBS_AT_A_TIME: usize = 4;

/// A round is taken part in where it is younger than four fifths of an interval, and never when it is older than this.
const OLDEST_ROUND: Duration = Duration::from_secs(5);

/// How long the execution graph is cached where the server does not tell: the default of `web.refresh-interval`.
const GRAPH_AGE: Duration = Duration::from_secs(3);

/// How long that is kept.
const CONFIG_AGE: Duration = Duration::from_secs(600);

/// Counters of garbage collection are compared over at least this time, as they may be up to 10 s old.
const GC_SPAN: Duration = Duration::from_secs(25);

/// A cluster.
pub struct FlinkCluster {
    name: String,
    client: Client,
    round: AsyncMutex<Option<Kept>>,
    known: Mutex<Known>,
    pub(super) readings: Semaphore,
    pub(super) promises: Promises,
    targets: AtomicU64,
}

/// The last round, or why there is none.
struct Kept {
    begun: Instant,
    ended: Instant,
    round: Result<Arc<Round>, SourceError>,
}

/// What is kept from one round to the next.
#[derive(Default)]
struct Known {
    memory: Option<Vec<String>>,
    graph_age: Option<(Instant, Duration)>,
    collected: Option<(Instant, f64)>,
    gc_time_ratio: Option<f64>,
}

/// What belongs to the whole cluster.
pub struct Round {
    /// When it was asked for, on our clock.
    pub asked_at: Timestamp,
    /// All jobs that the cluster remembers.
    pub jobs: JobsOverview,
    /// Slots.
    pub overview: Overview,
    /// Those registered.
    pub managers: TaskManagers,
    /// The worst TaskManager's.
    pub memory: Option<JobMemory>,
    /// How old the details of a job can be.
    pub graph_age: Duration,
    /// Calls that it took.
    pub calls: u32,
}

impl FlinkCluster {
    /// The cluster whose `JobManager` answers at `base`.
    pub fn new(base: Url, options: ClientOptions) -> Result<Self, SourceError> {
        let name = base.as_str().to_owned();
        let client = Client::new(base, ClientOptions { at_a_time: AT_A_TIME, ..options })?;
        Ok(Self {
            name,
            client,
            round: AsyncMutex::default(),
            known: Mutex::default(),
            readings: Semaphore::new(JOBS_AT_A_TIME),
            promises: Promises::default(),
            targets: AtomicU64::new(0),
        })
    }

    /// Its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The questions of one reading.
    pub(super) fn session(&self, timing: Timing) -> Session {
        self.client.with_timeout(timing.timeout).session()
    }

    /// A number that no other target on this cluster has.
    pub(super) fn next_target(&self) -> u64 {
        self.targets.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes part in a round that is young enough for this interval, or makes one. A round that failed is shared as well,
    /// so that a cluster that does not answer is not asked by each of its targets in turn.
    pub async fn round(&self, timing: Timing) -> Result<Arc<Round>, SourceError> {
        let called = clock::instant();
        let young = (timing.interval * 4 / 5).min(OLDEST_ROUND);
        let mut kept = self.round.lock().await;
        if let Some(kept) = kept.as_ref() {
            let since = if kept.round.is_ok() { kept.begun } else { kept.ended };
            if called.saturating_duration_since(since) < young {
                return kept.round.clone();
            }
        }
        let begun = clock::instant();
        let round = self.ask(timing).await.map(Arc::new);
        *kept = Some(Kept { begun, ended: clock::instant(), round: round.clone() });
        round
    }

    async fn ask(&self, timing: Timing) -> Result<Round, SourceError> {
        let session = self.session(timing);
        let names = self.memory_names(&session).await?;
        let graph_age = self.graph_age(&session).await;
        tokio::time::sleep(FETCH_TIME).await;
        let asked_at = clock::now();
        let (jobs, overview, managers, rows) = tokio::try_join!(
            session.get_json::<JobsOverview>("/jobs/overview"),
            session.get_json::<Overview>("/overview"),
            session.get_json::<TaskManagers>("/taskmanagers"),
            async { Ok(memory_rows(&session, &names).await) }
        )?;
        let memory = self.memory(names, rows, &managers);
        Ok(Round { asked_at, jobs, overview, managers, memory, graph_age, calls: session.calls() })
    }

    /// Asks for the metrics of the TaskManagers, which makes the server fetch those of all jobs: by the names that are
    /// known, else for the names. Memory only adds to a reading, so that it may fail; a server that is not there may not.
    async fn memory_names(&self, session: &Session) -> Result<Vec<String>, SourceError> {
        let kept = self.known().memory.clone();
        let asked = match kept.filter(|names| !names.is_empty()) {
            Some(names) => memory_rows(session, &names).await.map(|_| names),
            None => session.get_json::<Vec<Metric>>("/taskmanagers/metrics").await.map(|rows| assemble::memory_names(&rows)),
        };
        asked.or_else(|error| match error.kind {
            FailureKind::Timeout | FailureKind::Unreachable | FailureKind::Tls | FailureKind::Unauthorized | FailureKind::Redirect => Err(error),
            _ => {
                tracing::debug!(kind = error.kind.name(), error = error.message, "the memory of the TaskManagers stays unknown");
                Ok(Vec::new())
            }
        })
    }

    fn memory(&self, names: Vec<String>, rows: Result<Vec<Metric>, SourceError>, managers: &TaskManagers) -> Option<JobMemory> {
        let rows = rows.unwrap_or_default();
        let values = Values::new(rows);
        let mut known = self.known();
        // one name that is not there makes the answer empty: the names are asked for anew
        known.memory = Some(names).filter(|names| values.has(names));
        let gc = assemble::gc_time_ratio(&values).or_else(|| known.gc_from_counters(&values, managers.taskmanagers.len()));
        assemble::memory(&values, gc)
    }

    async fn graph_age(&self, session: &Session) -> Duration {
        let kept = self.known().graph_age;
        if let Some((_, age)) = kept.filter(|(asked, _)| clock::instant().saturating_duration_since(*asked) < CONFIG_AGE) {
            return age;
        }
        let config = session.get_json::<Config>("/config").await.ok();
        let age = config.and_then(|config| config.refresh_interval.count()).map_or(GRAPH_AGE, Duration::from_millis);
        self.known().graph_age = Some((clock::instant(), age));
        age
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Where Flink has only counters of garbage collection (before 1.18): the mean over the TaskManagers since the last
    /// time. The worst one cannot be told from sums.
    fn gc_from_counters(&mut self, values: &Values, managers: usize) -> Option<f64> {
        let millis = assemble::gc_millis(values)?;
        let now = clock::instant();
        match self.collected {
            Some((at, before)) if millis >= before => {
                let span = now.saturating_duration_since(at);
                if span >= GC_SPAN {
                    self.gc_time_ratio = Some((millis - before) / (span.as_secs_f64() * 1000.0 * as_f64(managers.max(1) as u64)));
                    self.collected = Some((now, millis));
                }
            }
            // a TaskManager has gone, with its counters
            _ => (self.collected, self.gc_time_ratio) = (Some((now, millis)), None),
        }
        self.gc_time_ratio
    }
}

async fn memory_rows(session: &Session, names: &[String]) -> Result<Vec<Metric>, SourceError> {
    let mut rows = Vec::new();
    for list in metrics::lists(names) {
        rows.extend(session.get_json::<Vec<Metric>>(&format!("/taskmanagers/metrics?get={list}&agg=max,sum")).await?);
    }
    Ok(rows)
}
