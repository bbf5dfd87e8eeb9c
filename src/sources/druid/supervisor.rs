//! One reading of a streaming supervisor, from the Overlord's API under `/druid/indexer/v1`, directly or through the
//! Router.
//!
//! The spec and the status are needed. Statistics and workers only add to them: without them rates and slots are
//! unknown. For its statistics the Overlord asks every task, and waits for one that hangs; so they have a time of their own,
//! which is not the reading's. The spec is asked for because `taskCount` stands nowhere else; of it nothing is kept but
//! numbers, since it may hold the credentials of the stream.

mod wire;

use std::collections::HashSet;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::core::kinds::DruidSupervisorSnapshot;
use crate::core::kinds::druid::Worker;
use crate::core::kinds::supervisor::WorkerSlots;
use crate::core::units::{Count, Timestamp};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use crate::sources::http::{Answer, Client};

use self::wire::Tasks;

/// The time for the statistics: they must not cost the reading that they only add to.
const STATS_TIME: Duration = Duration::from_secs(2);

/// A supervisor of an Overlord.
#[derive(Clone)]
pub struct DruidSupervisorSource {
    client: Client,
    id: String,
}

impl DruidSupervisorSource {
    /// Asks through `client` for the supervisor of this id. An id that is no segment of a path is no id: see
    /// [`is_supervisor_id`].
    #[must_use]
    pub fn new(client: Client, id: String) -> Self {
        Self { client, id }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        if !is_supervisor_id(&self.id) {
            return Err(SourceError::new(FailureKind::NotFound, "the id of the supervisor is empty, or leads to another path"));
        }
        let session = self.client.session();
        let observed_at = clock::now();
        let base = format!("/druid/indexer/v1/supervisor/{}", utf8_percent_encode(&self.id, NON_ALPHANUMERIC));
        let (status_path, stats_path) = (format!("{base}/status"), format!("{base}/stats"));
        let (spec, status, rates, workers) =
            tokio::join!(session.ask(&base), session.ask(&status_path), in_time(session.get(&stats_path)), session.get("/druid/indexer/v1/workers"));
        let spec = wire::spec(&found(spec?)?)?;
        let status = wire::status(&found(status?)?, observed_at)?;
        let rates = rates.and_then(|answer| wire::stats(&answer, &status.tasks)).inspect_err(|error| super::left_out("supervisor stats", error)).ok();
        let workers = workers.and_then(|answer| super::wire::workers(&answer)).inspect_err(|error| super::left_out("workers", error)).ok();
        let mut snapshot = DruidSupervisorSnapshot {
            observed_at: Some(observed_at),
            received_at: Some(clock::now()),
            supervisor: Some(self.id.clone()),
            processed_per_second: rates.as_ref().and_then(|rates| rates.processed_per_second),
            idle_ratio: rates.as_ref().and_then(|rates| rates.idle_ratio),
            worker_slots: workers.as_deref().map(|workers| slots(workers, &status.tasks, observed_at)),
            reading_tasks: Some(on_workers(workers.as_deref(), status.tasks.reading.keys())),
            publishing_tasks: Some(on_workers(workers.as_deref(), &status.tasks.publishing)),
            ..status.snapshot
        };
        spec.fill(&mut snapshot);
        Ok(Reading { snapshot: Snapshot::DruidSupervisor(Box::new(snapshot)), calls: session.calls() })
    }
}

/// Statistics that take too long are none.
async fn in_time(answer: impl Future<Output = Result<Answer, SourceError>>) -> Result<Answer, SourceError> {
    let late = |_| SourceError::new(FailureKind::Timeout, format!("no answer after {} s", STATS_TIME.as_secs()));
    tokio::time::timeout(STATS_TIME, answer).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

impl Source for DruidSupervisorSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }
}

/// True for an id that stays one segment of a path. `.` and `..` do not, however they are written.
#[must_use]
pub fn is_supervisor_id(id: &str) -> bool {
    !id.is_empty() && id != "." && id != ".." && !id.chars().any(char::is_control)
}

/// A supervisor that is not there is another thing than an Overlord that does not answer.
fn found(answer: Answer) -> Result<Answer, SourceError> {
    if answer.status == 404 {
        return Err(SourceError::new(FailureKind::NotFound, "there is no such supervisor"));
    }
    answer.success()
}

/// Tasks of the status that a worker runs, where the workers are known: the status still lists a task for a while after it
/// has ended, or after its worker has gone, and one that publishes now and then twice.
fn on_workers<'a>(workers: Option<&[Worker]>, listed: impl IntoIterator<Item = &'a String, IntoIter: ExactSizeIterator>) -> Count {
    let listed = listed.into_iter();
    let Some(workers) = workers else { return listed.len() as Count };
    let running: HashSet<&str> = workers.iter().flat_map(|worker| worker.tasks.iter().flatten()).map(|task| task.id.as_str()).collect();
    listed.filter(|id| running.contains(id.as_str())).count() as Count
}

/// Slots of the workers that take tasks, and those that others use.
fn slots(workers: &[Worker], tasks: &Tasks, now: Timestamp) -> WorkerSlots {
    let open = || workers.iter().filter(|worker| worker.enabled && worker.blacklisted_until.is_none_or(|until| until <= now));
    let own = |worker: &Worker| worker.tasks.iter().flatten().filter(|task| tasks.is_own(&task.id)).count() as Count;
    WorkerSlots {
        total: open().fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity)),
        used_by_others: Some(open().fold(0, |sum: Count, worker| sum.saturating_add(worker.used.saturating_sub(own(worker))))),
        coming: None,
    }
}
