//! Lowering without killing: which workers go, what still runs there, and what has to happen first.
//!
//! A `StatefulSet` always removes its highest ordinal. So the count may fall to `n` only when every worker of a rank of at
//! least `n` has been disabled *and* is empty. Empty but enabled is not enough: a task may be assigned between the
//! reading and the removal. With `drain: preStop` the pods see to that themselves, and the count falls as far as what
//! runs fits on those that stay.
//!
//! Workers that stay take tasks: as many as the minimum asks for, and as many as the slots in use need. A drain is
//! cancelled for that before anything is bought. What is to be enabled counts only once a reading shows it enabled, for the
//! call may fail: until then nothing is disabled on it. Everything is read from Druid anew each time and nothing from memory:
//! a restart forgets no drain. Publishing is work: a task that reads no more may still need half an hour for it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Worker;
use super::fit::Fit;
use super::need::View;
use super::pool::{Seat, takes_tasks};
use crate::core::advice::{Action, ActionKind, ApiCall, WorkerRef};
use crate::core::policy::Drain;
use crate::core::reasons::{FreeSlots, Maybe, Reason, Secs, Tasks};
use crate::core::units::Count;

/// What cannot stand in a part of a path as it is.
const NOT_IN_A_PATH: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The smallest safe count at or above `target`, with the reasons and the steps that lead there.
pub fn plan(fit: &Fit<'_, '_>, view: &View, target: Count, reasons: &mut Vec<Reason>, actions: &mut Vec<Action>) -> Count {
    keep_enough(fit, view, target, reasons, actions);
    if target >= fit.counts.current {
        return target;
    }
    if fit.case.policy.druid.drain == Drain::PreStop {
        return by_themselves(fit, view, target, reasons);
    }
    if let Some(reason) = &fit.pool.unclear {
        reasons.push(reason.clone());
        return fit.counts.current;
    }
    let goes = |worker: &&Seat<'_>| worker.rank >= target;
    let mut taking = Taking::of(fit);
    let mut is_draining = fit.pool.workers.iter().filter(goes).any(|worker| !worker.enabled && worker.busy() > 0);
    for worker in fit.pool.workers.iter().rev().filter(goes) {
        if !worker.enabled {
            if worker.busy() > 0 {
                actions.push(wait(worker));
            }
            continue;
        }
        let rest = taking.without(fit, worker);
        let has_room = fit.is_enough(rest.slots, view.held);
        // a bound below what is needed leaves no headroom to drain within: one at a time then, and the next once that is empty
        let is_forced = target < view.needed;
        if rest.workers < fit.case.min || (!has_room && (!is_forced || is_draining)) {
            break;
        }
        is_draining |= !has_room;
        actions.push(disable(worker));
        taking = rest;
    }
    let is_done = |worker: &Seat<'_>| !worker.enabled && worker.busy() == 0 && !view.enabled_again.contains(&worker.rank);
    // a pod that is not registered and not ready holds no work; one that is going already may still hold some
    let Some(blocker) = fit.pool.workers.iter().rev().filter(goes).find(|worker| !is_done(worker)) else { return target };
    say_why(fit, blocker, reasons);
    blocker.rank.saturating_add(1).clamp(target, fit.counts.current)
}

/// Workers that take tasks in this reading and whose pods stay, and their slots.
#[derive(Clone, Copy)]
struct Taking {
    workers: Count,
    slots: Count,
}

impl Taking {
    fn of(fit: &Fit<'_, '_>) -> Self {
        let taking = fit.pool.workers.iter().filter(|worker| Self::includes(fit, worker));
        taking.fold(Self { workers: 0, slots: 0 }, |sum, worker| Self { workers: sum.workers + 1, slots: sum.slots.saturating_add(worker.capacity) })
    }

    fn includes(fit: &Fit<'_, '_>, worker: &Seat<'_>) -> bool {
        takes_tasks(worker, fit.case.now, fit.reading) && fit.counts.stays(worker)
    }

    /// What is left without one of them.
    fn without(self, fit: &Fit<'_, '_>, worker: &Seat<'_>) -> Self {
        if !Self::includes(fit, worker) {
            return self;
        }
        Self { workers: self.workers.saturating_sub(1), slots: self.slots.saturating_sub(worker.capacity) }
    }
}

/// Enables workers that stay and do not take tasks, lowest rank first, until the minimum does and what runs has its
/// headroom.
fn keep_enough(fit: &Fit<'_, '_>, view: &View, target: Count, reasons: &mut Vec<Reason>, actions: &mut Vec<Action>) {
    let stays = |worker: &&Seat<'_>| worker.rank < target && fit.counts.stays(worker);
    let takes = |worker: &Seat<'_>| takes_tasks(worker, fit.case.now, fit.reading) || view.enabled_again.contains(&worker.rank);
    let (mut count, mut capacity): (Count, Count) = (0, 0);
    for worker in fit.pool.workers.iter().filter(stays).filter(|worker| takes(worker)) {
        count += 1;
        capacity = capacity.saturating_add(worker.capacity);
    }
    for worker in fit.pool.workers.iter().filter(stays).filter(|worker| !takes(worker) && !worker.enabled && fit.can_have_tasks(worker)) {
        if count >= fit.case.min && fit.is_enough(capacity, view.held) {
            break;
        }
        count += 1;
        capacity = capacity.saturating_add(worker.capacity);
        reasons.push(Reason::WorkerReenabled { worker: worker.host.clone(), free_slots: FreeSlots(worker.capacity.saturating_sub(worker.busy())) });
        actions.push(enable(worker));
    }
}

/// The count under `preStop`: as low as what runs fits, with the minimum of workers that take tasks.
fn by_themselves(fit: &Fit<'_, '_>, view: &View, target: Count, reasons: &mut Vec<Reason>) -> Count {
    let current = fit.counts.current;
    let mut safe = target.max(view.needed.min(current));
    let taking = |count: Count| fit.pool.workers.iter().filter(|worker| worker.rank < count && takes_tasks(worker, fit.case.now, fit.reading)).count() as Count;
    while safe < current && taking(safe) < fit.case.min {
        safe += 1;
    }
    if safe > target
        && let Some(worker) = fit.pool.workers.iter().rev().find(|worker| worker.rank < safe)
    {
        say_why(fit, worker, reasons);
    }
    safe
}

/// Why a worker cannot go: the select strategy first where it is what keeps workers from becoming empty.
fn say_why(fit: &Fit<'_, '_>, worker: &Worker, reasons: &mut Vec<Reason>) {
    let spreads = fit.reading.select_strategy.as_ref().filter(|strategy| !strategy.starts_with("fillCapacity"));
    if let Some(strategy) = spreads.filter(|_| worker.busy() > 0) {
        reasons.push(Reason::SelectStrategy { strategy: strategy.clone() });
    }
    reasons.push(why_not(worker));
}

fn why_not(worker: &Worker) -> Reason {
    let host = worker.host.clone();
    let drain_seconds = Maybe(worker.drain_seconds().map(Secs));
    if worker.publishing() > 0 {
        Reason::PublishingTasks { worker: host, tasks: Tasks(worker.publishing()) }
    } else if worker.busy() == 0 {
        Reason::NotYetDisabled { worker: host }
    } else if worker.enabled {
        Reason::BusyWorker { worker: host, tasks: Tasks(worker.busy()), drain_seconds }
    } else {
        Reason::Draining { worker: host, tasks: Tasks(worker.busy()), drain_seconds }
    }
}

fn call(worker: &Worker, verb: &str) -> ApiCall {
    // a host is one part of the path, whatever the list of workers calls it; an IPv6 address has brackets
    let host = utf8_percent_encode(&worker.host, &NOT_IN_A_PATH);
    ApiCall { method: "POST", path: format!("/druid/indexer/v1/worker/{host}/{verb}"), body: None }
}

/// The step that keeps new tasks off a worker.
#[must_use]
pub fn disable(worker: &Worker) -> Action {
    let message = if worker.busy() == 0 {
        format!("disable {}: it is empty, and must not be given a task before it goes", worker.host)
    } else {
        format!("disable {}: it finishes {} and is then empty, {}", worker.host, Tasks(worker.busy()), until(worker))
    };
    Action { worker: Some(worker_ref(worker)), request: Some(call(worker, "disable")), ..Action::new(ActionKind::DisableWorker, message) }
}

/// The step that gives a draining worker tasks again.
#[must_use]
pub fn enable(worker: &Worker) -> Action {
    let message = format!("enable {} again: it has {}", worker.host, FreeSlots(worker.capacity.saturating_sub(worker.busy())));
    Action { worker: Some(worker_ref(worker)), request: Some(call(worker, "enable")), ..Action::new(ActionKind::EnableWorker, message) }
}

fn wait(worker: &Worker) -> Action {
    let message = format!("wait until {} has finished {}, {}", worker.host, Tasks(worker.busy()), until(worker));
    Action { worker: Some(worker_ref(worker)), ..Action::new(ActionKind::WaitForDrain, message) }
}

/// When its last task ends; a task that reads still publishes after that.
fn until(worker: &Worker) -> String {
    match worker.drain_seconds() {
        None => "at an unknown time".to_owned(),
        Some(seconds) if worker.is_reading() => format!("in about {} and the time to publish", Secs(seconds)),
        Some(seconds) => format!("in about {}", Secs(seconds)),
    }
}

/// How an action names a worker.
fn worker_ref(worker: &Worker) -> WorkerRef {
    WorkerRef { host: worker.host.clone(), ordinal: worker.ordinal() }
}
