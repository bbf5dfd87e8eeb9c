//! One reading of a Druid cluster, from the Overlord's API under `/druid/indexer/v1`, directly or through the Router.
//!
//! `pendingTasks` and `workers` are needed: without one of them there is no reading. `worker` (how tasks are placed, for
//! which Druid asks the right to read its configuration), `waitingTasks` and the supervisors only add to it: where they
//! fail, what they would have said stays unknown. Where the supervisors cannot be had for the moment, or tasks are hidden
//! from this account (see `sight`), that is in the reading as `missing`, and nothing is lowered on it.
//!
//! The pending tasks are asked for before the workers. A task that is placed between the two answers is then seen
//! twice; the other way round it would be seen nowhere, and a busy cluster would look idle.

mod sight;
mod spec;
pub mod supervisor;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::core::kinds::DruidWorkersSnapshot;
use crate::core::kinds::druid::{Phase, RunningTask, Streaming, Worker};
use crate::core::units::{Amount, Count};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use crate::sources::http::{Client, Session};

use self::sight::Sight;
use self::wire::{Groups, Supervisor};

/// Supervisors whose status is asked for; of the others the rollover and the phases of the tasks stay unknown.
const MAX_STATUSES: usize = 1000;

/// Questions for a status at a time.
const STATUSES_AT_A_TIME: usize = 8;

/// The time for all of them: they must not cost the reading that they only add to.
const STATUSES_TIME: Duration = Duration::from_secs(2);

/// An Overlord.
#[derive(Clone)]
pub struct DruidSource {
    client: Client,
    sight: Arc<Sight>,
}

impl DruidSource {
    /// Asks through `client`, whose base is an Overlord, a Coordinator that acts as one, or a Router with the
    /// management proxy.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, sight: Arc::default() }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let session = self.client.session();
        let observed_at = clock::now();
        let mut pending = wire::pending(&session.get("/druid/indexer/v1/pendingTasks").await?, clock::now())?;
        let mut workers = wire::workers(&wire::accept_workers(session.ask("/druid/indexer/v1/workers").await?)?)?;
        let (config, waiting, supervisors, ()) = tokio::join!(
            session.get("/druid/indexer/v1/worker"),
            session.get("/druid/indexer/v1/waitingTasks"),
            session.get("/druid/indexer/v1/supervisor?full"),
            self.look(&session, &workers)
        );
        let placement = config.and_then(|answer| wire::placement(&answer)).inspect_err(|error| left_out("worker", error)).ok();
        let waiting_count = waiting.and_then(|answer| wire::count(&answer)).inspect_err(|error| left_out("waitingTasks", error)).ok();
        let supervisors = supervisors.and_then(|answer| wire::supervisors(&answer)).inspect_err(|error| left_out("supervisor", error));
        let missing = missing(supervisors.as_ref().err(), self.sight.is_partial());
        let known = statuses(&session, supervisors.unwrap_or_default()).await;
        refine(&mut workers, &known);
        if let Some(placement) = &placement {
            for task in pending.tasks.iter_mut().flatten() {
                task.category = task.task_type.as_deref().and_then(|kind| placement.category(kind, task.data_source.as_deref()));
            }
        }
        let streaming = |(supervisor, groups): (Supervisor, Option<Groups>)| {
            // its id is that of its data source, unless its spec says otherwise
            let category = placement.as_ref().and_then(|placement| placement.category(&supervisor.task_type, Some(&supervisor.streaming.supervisor)));
            with_status(Streaming { category, ..supervisor.streaming }, groups.as_ref())
        };
        let snapshot = DruidWorkersSnapshot {
            observed_at: Some(observed_at),
            received_at: Some(clock::now()),
            workers: Some(workers),
            pending: Some(pending),
            waiting_count,
            select_strategy: placement.as_ref().map(|placement| placement.strategy.clone()),
            streaming: known.into_iter().map(streaming).collect(),
            missing,
            ..DruidWorkersSnapshot::default()
        };
        Ok(Reading { snapshot: Snapshot::DruidWorkers(snapshot), calls: session.calls() })
    }

    /// Finds out whether this account is shown all tasks, where that is not known.
    async fn look(&self, session: &Session, workers: &[Worker]) {
        if !self.sight.is_due(workers, clock::instant()) {
            return;
        }
        let listed = session.get("/druid/indexer/v1/runningTasks").await.and_then(|answer| wire::ids(&answer));
        match listed {
            Ok(listed) => self.sight.look(workers, &listed, clock::instant()),
            Err(error) => left_out("runningTasks", &error),
        }
    }
}

/// What the reading lacks and must not be lowered without. An account without the right to see supervisors is none of
/// that: what they would say stays unknown for good.
fn missing(supervisors: Option<&SourceError>, is_partial: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if let Some(error) = supervisors.filter(|error| error.kind != FailureKind::Unauthorized) {
        missing.push(format!("the list of supervisors ({})", error.message));
    }
    if is_partial {
        missing.push("pending tasks of data sources that this account may not read (tasks run that it is not shown)".to_owned());
    }
    missing
}

impl Source for DruidSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }
}

fn left_out(part: &str, error: &SourceError) {
    tracing::debug!(part, kind = error.kind.name(), error = error.message, "a part of the Druid reading stays unknown");
}

/// Supervisors in their order, with their tasks where those are known.
async fn statuses(session: &Session, supervisors: Vec<Supervisor>) -> Vec<(Supervisor, Option<Groups>)> {
    let ids: Vec<String> = supervisors.iter().take(MAX_STATUSES).map(|supervisor| supervisor.streaming.supervisor.clone()).collect();
    let asked = stream::iter(ids).map(|id| async move { (status(session, &id).await, id) }).buffer_unordered(STATUSES_AT_A_TIME);
    let mut known: HashMap<String, Groups> = asked
        .take_until(tokio::time::sleep(STATUSES_TIME))
        .filter_map(|(answer, id)| async move { Some((id, answer.inspect_err(|error| left_out("supervisor status", error)).ok()?)) })
        .collect()
        .await;
    supervisors.into_iter().map(|supervisor| (known.remove(&supervisor.streaming.supervisor), supervisor)).map(|(groups, row)| (row, groups)).collect()
}

async fn status(session: &Session, id: &str) -> Result<Groups, SourceError> {
    let path = format!("/druid/indexer/v1/supervisor/{}/status", utf8_percent_encode(id, NON_ALPHANUMERIC));
    wire::status(&session.get(&path).await?)
}

/// With what its status tells: when its tasks hand over, and that there are no more groups than partitions.
fn with_status(streaming: Streaming, groups: Option<&Groups>) -> Streaming {
    let most = groups.and_then(|groups| groups.partitions).unwrap_or(Count::MAX);
    Streaming { rollover_in_seconds: groups.and_then(Groups::rollover), task_count: streaming.task_count.min(most), ..streaming }
}

/// Tells the running tasks what their supervisors know: type, phase and the seconds left. The phase of a streaming
/// task that no supervisor answered for stays unknown.
fn refine(workers: &mut [Worker], known: &[(Supervisor, Option<Groups>)]) {
    let mut by_id: HashMap<&str, (&str, Phase, Option<f64>)> = HashMap::new();
    for (supervisor, groups) in known {
        let Some(groups) = groups else { continue };
        for (phase, tasks) in [(Phase::Reading, &groups.active), (Phase::Publishing, &groups.publishing)] {
            by_id.extend(tasks.iter().map(|(id, left)| (id.as_str(), (supervisor.task_type.as_str(), phase, *left))));
        }
    }
    for task in workers.iter_mut().filter_map(|worker| worker.tasks.as_mut()).flatten() {
        let facts = by_id.get(task.id.as_str()).copied();
        match facts {
            Some((task_type, phase, left)) => {
                task.task_type.get_or_insert_with(|| task_type.to_owned());
                task.phase = Some(phase);
                // zero or less means overdue, not done; and of a task that publishes Druid counts down the time that it
                // may take, not what it needs
                task.remaining_seconds = left.filter(|seconds| phase == Phase::Reading && *seconds > 0.0).and_then(Amount::new);
            }
            None if is_batch(task) => task.phase = Some(Phase::Running),
            None => {}
        }
    }
}

fn is_batch(task: &RunningTask) -> bool {
    task.task_type.as_deref().is_some_and(|name| !wire::STREAMING_TYPES.contains(&name))
}
