//! Druid `MiddleManagers` and Indexers: task slots against pending tasks.
//!
//! The wish upwards is what the pending tasks need beyond the slots that can be had without buying: usable free slots
//! first, then draining workers that are enabled again, then workers that are starting, and only then new ones; all
//! pending tasks are packed at once. The wish downwards is the smallest number of the lowest ordinals whose slots hold,
//! within the headroom, everything that runs (see `fit`), once nothing waits. Why not `registered + ceil(pending / slots)`, as MIDAS has it:
//! it buys for tasks that fit, and takes a missing worker for one that was never wanted.
//!
//! Nothing that runs is ever killed: see `drain`. At start, workers are credited until `startup` has passed; an idle
//! pool goes to zero only after `idleBeforeZero`. Slots are whole; `used` may exceed `capacity`.
//! Source: `PlaySimple`'s MIDAS; Druid `PendingTaskBasedWorkerProvisioningStrategy`, `Worker`, `ImmutableWorkerInfo`.

mod counts;
mod drain;
mod fit;
pub mod midas;
mod need;
mod packing;
mod pool;
mod reading;
mod streams;
mod total;

pub use self::reading::*;

use self::counts::Counts;
use self::fit::Fit;
use self::need::View;
use self::pool::{Pool, Pools, takes_tasks};
use crate::core::advice::{Advice, Input, InputState, Part, Unit};
use crate::core::decide::{Case, Judged, conclude};
use crate::core::policy::{Policy, PoolInput, Sizing};
use crate::core::reasons::{Names, Num, PendingTasks, Reason, Slots};
use crate::core::request::{Request, Series};
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, Timestamp, as_f64};

/// Judges the workers of a cluster.
#[must_use]
pub fn advise(request: &Request, series: &Series<DruidWorkersSnapshot>) -> Advice {
    let case = Case::new(request);
    let trust = trust::look(series, request);
    let Some((reading, workers, pending)) = usable(series, &trust) else {
        let mut judged = Judged::begin(&case, series, Unit::Replicas);
        judged.notices.extend(trust.notices.iter().cloned());
        judged.hold.extend(trust.doubts.iter().cloned());
        // where nobody tells the count, the last list of workers does: a failed reading takes no number away
        let lists = || series.latest.iter().chain(series.history.iter().rev()).find_map(|reading| reading.workers.as_deref());
        judged.current = judged.current.or_else(|| lists().map(pool::own_count));
        if let Some(latest) = series.latest.as_deref() {
            judged.complete = latest.workers.is_some() && latest.pending.is_some();
            if !judged.complete {
                judged.hold.push(Reason::IncompleteReading { missing: Names(missing(latest)) });
            }
        }
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    if let Some((before, reason)) = emptied(&case, series, workers) {
        let mut judged = Judged::begin(&case, series, Unit::Replicas);
        judged.notices.extend(trust.notices.iter().cloned());
        judged.hold.push(reason);
        judged.current = Some(before);
        return conclude(&case, &trust, judged, |count, _, _| count);
    }
    if case.policy.druid.sizing == Sizing::Midas {
        return midas::advise(&case, &trust, series, workers, pending);
    }
    let Pools { pools, said } = Pool::split(reading, workers, pending, &case.policy.druid, case.now);
    let mut advice = match pools.as_slice() {
        [pool] => one_pool(&case, &trust, series, reading, pool, request.replicas.spec),
        pools => many_pools(&case, &trust, series, reading, pools),
    };
    advice.reasons.extend(said);
    let fields = request.given.without_effect(crate::core::kind::Kind::DruidWorkers);
    if !fields.is_empty() {
        advice.reasons.push(Reason::PolicyWithoutEffect { fields: Names(fields) });
    }
    advice
}

/// The parts that nothing can be decided without.
fn usable<'a>(series: &'a Series<DruidWorkersSnapshot>, trust: &Trust) -> Option<(&'a DruidWorkersSnapshot, &'a [Worker], &'a Pending)> {
    let reading = series.latest.as_deref().filter(|_| trust.is_fresh())?;
    Some((reading, reading.workers.as_deref()?, reading.pending.as_ref()?))
}

/// A list that has become empty where nobody tells the wanted count, and what stood in it before. A new leader of the Overlord
/// knows no worker for a moment.
fn emptied(case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, workers: &[Worker]) -> Option<(Count, Reason)> {
    if !workers.is_empty() || case.spec.is_some() {
        return None;
    }
    let last = series.history.iter().rev().find_map(|reading| reading.workers.as_deref().filter(|workers| !workers.is_empty()));
    let drained = last.is_some_and(|workers| workers.iter().all(|worker| !worker.enabled && worker.busy() == 0));
    // lists that were empty all along are those of a pool that is only starting
    let listed = last.map(pool::own_count).or_else(|| case.memory?.recommended.filter(|_| series.history.is_empty()));
    let before = listed.filter(|before| *before > 0 && !drained)?;
    Some((before, Reason::SuddenZero { name: "the list of workers".to_owned(), before: Num(as_f64(before)) }))
}

fn missing(reading: &DruidWorkersSnapshot) -> Vec<String> {
    let mut missing = Vec::new();
    if reading.workers.is_none() {
        missing.push("workers (an unknown list is not an empty one)".to_owned());
    }
    if reading.pending.is_none() {
        missing.push("pending.count".to_owned());
    }
    missing
}

fn one_pool(
    case: &Case<'_>,
    trust: &Trust,
    series: &Series<DruidWorkersSnapshot>,
    reading: &DruidWorkersSnapshot,
    pool: &Pool<'_>,
    spec: Option<Count>,
) -> Advice {
    let policy = with_bounds(case.policy, pool.bounds);
    let case = Case { policy: &policy, min: case.min.max(pool.bounds.min.unwrap_or(0)), ..clone(case) };
    let mut judged = Judged::begin(&case, series, Unit::Replicas);
    judged.notices.extend(trust.notices.iter().cloned());
    judged.hold.extend(case.older_than_change(trust));
    judged.no_lower.extend(case.window_not_full(series, policy.scale_down.stabilization));
    judged.complete = true;
    let counts = Counts::of(&case, series, pool, spec);
    let view = View::of(&case, series, reading, pool, &counts);
    let fit = Fit { case: &case, reading, pool, counts: &counts };
    judged.current = Some(counts.current);
    judged.past = past(&fit, series);
    view.fill(&case, series, pool, &mut judged);
    inputs(&mut judged, trust, &fit, view.free_slots);
    let mut advice = conclude(&case, trust, judged, |target, reasons, actions| drain::plan(&fit, &view, target, reasons, actions));
    advice.parts = vec![part(&advice, pool)];
    advice
}

/// Each pool is judged by itself, by its own bounds and its own wishes of the past; the target's count is the present one
/// and what its pools differ by.
fn many_pools(case: &Case<'_>, trust: &Trust, series: &Series<DruidWorkersSnapshot>, reading: &DruidWorkersSnapshot, pools: &[Pool<'_>]) -> Advice {
    let mut answers = Vec::with_capacity(pools.len());
    let mut foreign = (0, 0);
    let has_workers = pools.iter().any(|pool| !pool.workers.is_empty());
    for pool in pools {
        // a category that has no worker beside others that do, and that the policy does not name, is none that this target can
        // start; where there is no worker at all, nothing tells
        if has_workers && pool.workers.is_empty() && !pool.takes_unnamed && case.policy.druid.pools.is_none() {
            foreign = (foreign.0 + pool.pending_tasks(), foreign.1 + pool.pending_slots());
            continue;
        }
        let mut memory = case.memory.cloned();
        if let Some(memory) = &mut memory {
            let part = memory.parts.get(&pool.category).cloned().unwrap_or_default();
            memory.wishes = part.wishes;
            memory.last_active_at = part.last_active_at.or(memory.last_active_at);
            // what was recommended for the target tells nothing of one pool
            memory.recommended = None;
        }
        let of_pool = Case { memory: memory.as_ref(), min: 0, ..clone(case) };
        answers.push(one_pool(&of_pool, trust, series, reading, pool, None));
    }
    let mut advice = total::sum(case, pools, answers);
    if foreign.1 > 0 {
        advice.reasons.push(Reason::NotPlaceable { tasks: PendingTasks(foreign.0), slots: Slots(foreign.1) });
    }
    advice
}

fn with_bounds(policy: &Policy, bounds: PoolInput) -> Policy {
    Policy { min: bounds.min.unwrap_or(policy.min), max: bounds.max.unwrap_or(policy.max), ..policy.clone() }
}

/// A copy of the facts for a part of the question.
const fn clone<'a>(case: &Case<'a>) -> Case<'a> {
    Case {
        request: case.request,
        policy: case.policy,
        now: case.now,
        spec: case.spec,
        memory: case.memory,
        min: case.min,
        floored: case.floored,
        changed_at: case.changed_at,
    }
}

/// How many workers earlier readings would have asked for.
fn past(fit: &Fit<'_, '_>, series: &Series<DruidWorkersSnapshot>) -> Vec<(Timestamp, Count)> {
    let now = fit.case.now;
    series.history.iter().filter_map(|reading| Some((trust::measured_at(reading.as_ref(), now), fit::smallest(fit, fit.pool.slots_then(reading)?)))).collect()
}

fn inputs(judged: &mut Judged, trust: &Trust, fit: &Fit<'_, '_>, free_slots: Count) {
    let Fit { case, reading, pool, .. } = *fit;
    let mut add = |name, value: Option<Count>| {
        let state = if value.is_some() { InputState::Fresh } else { InputState::Missing };
        judged.inputs.push(Input { name, value: value.map(as_f64), age_seconds: trust.age_seconds, state });
    };
    add("pendingTasks", Some(pool.pending_tasks()));
    add("pendingSlots", Some(pool.pending_slots()));
    add("usedSlots", Some(pool.used()));
    add("freeSlots", Some(free_slots));
    add("wantedReplicas", case.request.replicas.spec);
    add("readyPods", case.request.replicas.ready);
    add("registeredWorkers", Some(pool.workers.len() as Count));
    add("enabledWorkers", Some(pool.workers.iter().filter(|worker| takes_tasks(worker, case.now, reading)).count() as Count));
    if let Some(waiting) = reading.waiting_count {
        add("waitingTasks", Some(waiting));
    }
}

fn part(advice: &Advice, pool: &Pool<'_>) -> Part {
    Part {
        id: pool.category.clone(),
        name: pool.category.clone(),
        current: advice.current,
        recommended: advice.recommended,
        wanted: advice.wanted,
        reasons: advice.reasons.first().cloned().into_iter().collect(),
        limits: advice.limits.clone(),
        vertex: None,
    }
}
