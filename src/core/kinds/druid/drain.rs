//! Lowering without killing: which workers go, what still runs there, and what has to happen first.
//!
//! A `StatefulSet` always removes its highest ordinal. So the count may fall to `n` only when every worker of an ordinal of
//! at least `n` has been disabled *and* is empty. Empty but enabled is not enough: a task may be assigned between
//! the reading and the removal. With `drain: preStop` the pods see to that themselves.
//!
//! Everything is read from Druid anew each time and nothing from memory: a restart forgets no drain. Publishing is
//! work: a task that reads no more may still need half an hour to publish its segments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::counts::Counts;
use super::pool::Pool;
use super::{DruidWorkersSnapshot, Worker};
use crate::core::advice::{Action, ActionKind, ApiCall, WorkerRef};
use crate::core::policy::{Drain, Policy};
use crate::core::reasons::{Maybe, Reason, Secs};
use crate::core::units::Count;

/// What cannot stand in a part of a path as it is.
const NOT_IN_A_PATH: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The smallest safe count at or above `target`, with the reasons and the steps that lead further down.
pub fn hold_back(
    policy: &Policy,
    reading: &DruidWorkersSnapshot,
    pool: &Pool<'_>,
    counts: &Counts,
    min: Count,
    target: Count,
    reasons: &mut Vec<Reason>,
    actions: &mut Vec<Action>,
) -> Count {
    if target >= counts.current || policy.druid.drain == Drain::PreStop {
        return target;
    }
    if pool.workers.iter().any(|worker| worker.ordinal().is_none()) {
        reasons.push(Reason::NoOrdinals { workers: counts.registered });
        return counts.current;
    }
    let mut safe = counts.current;
    let mut blocker: Option<&Worker> = None;
    while safe > target {
        match pool.workers.iter().find(|worker| worker.ordinal() == Some(safe - 1)) {
            // a pod that is not registered and not ready holds no work
            None => safe -= 1,
            Some(worker) if !worker.enabled && worker.busy() == 0 => safe -= 1,
            Some(worker) => {
                blocker = Some(worker);
                break;
            }
        }
    }
    // disabling must leave the minimum of workers that take tasks, scheduled floors included
    let min = min.max(policy.min);
    let going = |worker: &&Worker| worker.ordinal().is_some_and(|ordinal| ordinal >= target && ordinal < safe);
    let mut enabled = pool.workers.iter().filter(|worker| worker.enabled).count() as Count;
    let mut instead = pool.workers.iter().filter(|worker| !worker.enabled && worker.ordinal().is_some_and(|ordinal| ordinal < target));
    for worker in pool.workers.iter().rev().copied().filter(going) {
        if worker.enabled {
            if enabled <= min {
                // one that stays takes the place of the one that goes
                let Some(other) = instead.next() else { continue };
                actions.push(enable(other));
                enabled += 1;
            }
            enabled -= 1;
            actions.push(disable(worker));
        } else if worker.busy() > 0 {
            actions.push(wait(worker));
        }
    }
    if let Some(worker) = blocker {
        reasons.push(why_not(worker));
        if let Some(strategy) = reading.select_strategy.as_ref().filter(|strategy| !strategy.starts_with("fillCapacity"))
            && worker.busy() > 0
        {
            reasons.insert(0, Reason::SelectStrategy { strategy: strategy.clone() });
        }
    }
    safe
}

fn why_not(worker: &Worker) -> Reason {
    let host = worker.host.clone();
    if worker.publishing() > 0 {
        Reason::PublishingTasks { worker: host, tasks: worker.publishing() }
    } else if worker.busy() == 0 {
        Reason::NotYetDisabled { worker: host }
    } else if worker.enabled {
        Reason::BusyWorker { worker: host, tasks: worker.busy(), drain_seconds: Maybe(worker.drain_seconds().map(Secs)) }
    } else {
        Reason::Draining { worker: host, tasks: worker.busy() }
    }
}

fn call(worker: &Worker, verb: &str) -> ApiCall {
    // a host is one part of the path, whatever the list of workers calls it; an IPv6 address has brackets
    let host = utf8_percent_encode(&worker.host, &NOT_IN_A_PATH);
    ApiCall { method: "POST", path: format!("/druid/indexer/v1/worker/{host}/{verb}"), body: None }
}

fn disable(worker: &Worker) -> Action {
    let message = if worker.busy() == 0 {
        format!("disable {}: it is empty, and must not be given a task before it goes", worker.host)
    } else {
        let until = worker.drain_seconds().map_or_else(|| "at an unknown time".to_owned(), |seconds| format!("in about {}", Secs(seconds)));
        format!("disable {}: its {} tasks run on, and it is empty {until}", worker.host, worker.busy())
    };
    Action { worker: Some(worker_ref(worker)), request: Some(call(worker, "disable")), ..Action::new(ActionKind::DisableWorker, message) }
}

/// The step that gives a draining worker tasks again.
#[must_use]
pub fn enable(worker: &Worker) -> Action {
    let message = format!("enable {} again: it has {} free slots", worker.host, worker.capacity.saturating_sub(worker.busy()));
    Action { worker: Some(worker_ref(worker)), request: Some(call(worker, "enable")), ..Action::new(ActionKind::EnableWorker, message) }
}

fn wait(worker: &Worker) -> Action {
    let until = worker.drain_seconds().map_or_else(|| "an unknown time".to_owned(), |seconds| Secs(seconds).to_string());
    let message = format!("wait until the {} tasks of {} have ended, in {until}", worker.busy(), worker.host);
    Action { worker: Some(worker_ref(worker)), ..Action::new(ActionKind::WaitForDrain, message) }
}

/// How an action names a worker.
fn worker_ref(worker: &Worker) -> WorkerRef {
    WorkerRef { host: worker.host.clone(), ordinal: worker.ordinal() }
}
