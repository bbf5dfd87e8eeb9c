//! The tasks of streaming supervisors on a pool: slots that are needed although nothing is pending.
//!
//! A supervisor wants `taskCount x replicas` tasks at any time, and more of them while they hand over. A task that it is
//! about to start is in no list yet: for a moment neither running nor pending. So what its spec asks for is held, and
//! nothing that it will need is given back; nothing is bought for it before it is pending. Task ids tell whose a task is:
//! `index_kafka_orders_…` of the supervisor `orders`, unless there is one called `orders_eu` that fits better.

use super::pool::Pool;
use super::{Phase, RunningTask, Streaming};
use crate::core::units::Count;

const TYPES: [&str; 4] = ["index_kafka_", "index_kinesis_", "index_rabbit_", "index_pubsub_"];

/// The supervisor whose task this is, by the task's id.
#[must_use]
pub fn owner<'s>(streams: impl Iterator<Item = &'s Streaming>, id: &str) -> Option<&'s Streaming> {
    let rest = TYPES.iter().find_map(|kind| id.strip_prefix(kind))?;
    let fits = |stream: &&Streaming| rest.strip_prefix(stream.supervisor.as_str()).is_some_and(|rest| rest.starts_with('_'));
    streams.filter(fits).max_by_key(|stream| stream.supervisor.len())
}

/// Slots that the tasks of a supervisor ask for which are pending.
#[must_use]
pub fn pending_of(pool: &Pool<'_>, stream: &Streaming) -> Count {
    let own = pool.tasks.iter().filter(|task| is_of(pool, stream, &task.id));
    own.fold(0, |sum, task| sum.saturating_add(task.slots()))
}

/// Slots for tasks that the specs ask for and that neither run nor wait.
#[must_use]
pub fn not_yet_there(pool: &Pool<'_>) -> Count {
    let wanted = |stream: &Streaming| stream.task_count.saturating_mul(stream.replicas);
    let lists: Option<Vec<&[RunningTask]>> = pool.workers.iter().map(|worker| worker.tasks.as_deref()).collect();
    let Some(lists) = lists else {
        // whose tasks run is not known: all of them may be theirs
        let all = pool.streams.iter().fold(0, |sum: Count, stream| sum.saturating_add(wanted(stream)));
        return all.saturating_sub(pool.used()).saturating_sub(pool.pending_slots());
    };
    let missing = |stream: &Streaming| {
        let reads = |task: &&RunningTask| task.phase != Some(Phase::Publishing) && is_of(pool, stream, &task.id);
        let running = lists.iter().flat_map(|tasks| tasks.iter()).filter(reads).count() as Count;
        wanted(stream).saturating_sub(running).saturating_sub(pending_of(pool, stream))
    };
    pool.streams.iter().fold(0, |sum: Count, stream| sum.saturating_add(missing(stream)))
}

fn is_of(pool: &Pool<'_>, stream: &Streaming, id: &str) -> bool {
    owner(pool.streams.iter().copied(), id).is_some_and(|owner| owner.supervisor == stream.supervisor)
}
