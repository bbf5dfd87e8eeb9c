//! The target of several pools: the sum of what they differ by, within the bounds of the target.
//!
//! What nobody tells of a single pool is told of the target: the wanted count, the ready pods, those that start. So a
//! raise first takes what is starting, and nothing is lowered while workers are missing from the list.

use std::collections::{BTreeMap, BTreeSet};

use super::pool::{Pool, own_count};
use super::{DruidWorkersSnapshot, Worker};
use crate::core::advice::{Action, ActionKind, Advice, Direction, Limit, Outcome, Unit};
use crate::core::decide::{Case, Judged, conclude};
use crate::core::memory::{PartMemory, Wishes};
use crate::core::reasons::{LimitCode, Maybe, Reason, Secs, Workers};
use crate::core::request::Series;
use crate::core::sizing::consumer;
use crate::core::trust::Trust;
use crate::core::units::{Amount, Count};

/// The answer for the target from those of its pools.
pub fn sum(case: &Case<'_>, pools: &[Pool<'_>], answers: Vec<Advice>) -> Advice {
    let (mut more, mut less): (Count, Count) = (0, 0);
    let mut parts = BTreeMap::new();
    let mut total: Option<Advice> = None;
    for mut advice in answers {
        let (from, to) = (advice.current.unwrap_or(0), advice.recommended.or(advice.current).unwrap_or(0));
        more = more.saturating_add(to.saturating_sub(from));
        less = less.saturating_add(from.saturating_sub(to));
        advice.actions.retain(|action| action.action != ActionKind::Scale);
        if let Some(part) = advice.parts.first() {
            parts.insert(
                part.id.clone(),
                PartMemory { wishes: advice.memory.wishes.clone(), last_active_at: advice.memory.last_active_at, ..PartMemory::default() },
            );
        }
        total = Some(match total {
            None => advice,
            Some(sum) => join(sum, advice),
        });
    }
    let Some(mut total) = total else {
        // a policy with pools of which no worker is registered and no task waits
        let judged = Judged::begin(case, &Series::<DruidWorkersSnapshot>::empty(), Unit::Replicas);
        let trust = Trust { observed_at: None, age_seconds: None, doubts: Vec::new(), notices: Vec::new() };
        return conclude(case, &trust, judged, |count, _, _| count);
    };
    settle(case, &Listed::of(case, pools), &mut total, more, less);
    total.reasons.dedup();
    total.bounds.min = case.min;
    total.bounds.max = case.policy.max;
    total.memory.wishes = Wishes::default();
    total.memory.parts = parts;
    total
}

/// The workers of all pools against the count that is wanted of the target. A pod that is listed twice is one.
struct Listed {
    /// The wanted count; what the list stands for where it is not told.
    current: Count,
    /// Workers within it.
    registered: Count,
    /// Workers that it cannot be about: of a rank that it has not, or of several sets that are more than it.
    beyond: Count,
}

impl Listed {
    fn of(case: &Case<'_>, pools: &[Pool<'_>]) -> Self {
        let seats = || pools.iter().flat_map(|pool| &pool.workers);
        let all = seats().count() as Count;
        let replicas = &case.request.replicas;
        let Some(spec) = replicas.spec else {
            let workers: Vec<Worker> = seats().map(|seat| Worker::clone(seat)).collect();
            let current = own_count(&workers).saturating_add(replicas.starting.unwrap_or(0));
            return Self { current, registered: all, beyond: 0 };
        };
        let names: BTreeSet<&str> = seats().filter_map(|seat| seat.set()).collect();
        // of one set the ordinal tells which are within the count
        let beyond = if names.len() == 1 {
            seats().filter(|seat| seat.ordinal().is_some_and(|ordinal| ordinal >= spec)).count() as Count
        } else {
            all.saturating_sub(spec)
        };
        Self { current: spec, registered: all.saturating_sub(beyond), beyond }
    }
}

/// The count of the target: the present one, more and less of what its pools ask for, within its bounds.
fn settle(case: &Case<'_>, listed: &Listed, total: &mut Advice, more: Count, less: Count) {
    let replicas = &case.request.replicas;
    let Listed { current, registered, beyond } = *listed;
    let missing = current.saturating_sub(registered);
    let wanted = current.saturating_add(more).saturating_sub(less);
    let mut told = wanted;
    if beyond > 0 && less > 0 {
        // the wanted count is not one of all these workers: which of them it would take away is not known
        total.actions.retain(|action| action.action != ActionKind::DisableWorker);
        told = current.saturating_add(more);
        total.reasons.insert(0, Reason::WorkersBeyondCount { registered: Workers(registered.saturating_add(beyond)), wanted: current });
    }
    if missing > 0 {
        // those that are missing may be starting, for a pool that nobody tells: they are neither bought twice nor given up
        // nor is a worker drained for a count that does not fall
        total.actions.retain(|action| action.action != ActionKind::DisableWorker);
        let since = replicas.seconds_since_start.map(Amount::get).or_else(|| case.seconds_since_change());
        let reason = if let Some(since) = since.filter(|since| *since > case.policy.startup.seconds()) {
            told = registered.saturating_add(more).max(current);
            Reason::CapacityNotArriving { missing: Workers(missing), since_seconds: Secs(since), startup_seconds: case.policy.startup.into() }
        } else {
            told = current.saturating_add(more.saturating_sub(missing));
            Reason::WorkerListIncomplete { registered: Workers(registered), ready: Maybe(replicas.ready), wanted: current }
        };
        total.reasons.insert(0, reason);
    }
    if case.policy.paused {
        told = current;
    } else {
        for (code, to) in [(LimitCode::MinReplicas, told.max(case.min)), (LimitCode::MaxReplicas, told.max(case.min).min(case.policy.max))] {
            if to != told {
                total.limits.push(Limit { code, from: told, to, at: crate::core::units::as_f64(to) });
                told = to;
            }
        }
    }
    total.current = Some(current);
    total.wanted = Some(wanted);
    total.recommended = Some(told);
    if told != current {
        total.outcome = Outcome::Change;
        let message = format!("set the count from {current} to {told}");
        total.actions.insert(0, Action { to: Some(told), ..Action::new(ActionKind::Scale, message) });
    } else if missing > 0 || (beyond > 0 && less > 0) {
        total.outcome = Outcome::Hold;
    } else if total.outcome == Outcome::Change && less == 0 {
        total.outcome = Outcome::Keep;
    }
    total.direction = match told.cmp(&current) {
        std::cmp::Ordering::Greater if less > 0 => Direction::Mixed,
        std::cmp::Ordering::Greater => Direction::Up,
        std::cmp::Ordering::Less => Direction::Down,
        std::cmp::Ordering::Equal if more > 0 && less > 0 => Direction::Mixed,
        std::cmp::Ordering::Equal => Direction::None,
    };
    let status = replicas.status.unwrap_or(current);
    total.consumer = case.policy.consumer.as_ref().map(|consumer| consumer::view(consumer, told, status));
    total.memory.recommended = Some(told);
}

fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Change => 0,
        Outcome::Hold => 1,
        Outcome::Keep => 2,
        Outcome::Unknown => 3,
    }
}

/// Two answers in one: the reasons of the more urgent one first.
fn join(mut total: Advice, advice: Advice) -> Advice {
    total.active = match (total.active, advice.active) {
        (Some(a), Some(b)) => Some(a || b),
        (Some(true), _) | (_, Some(true)) => Some(true),
        _ => None,
    };
    if rank(advice.outcome) < rank(total.outcome) {
        let mut reasons = advice.reasons;
        reasons.append(&mut total.reasons);
        total.reasons = reasons;
        total.outcome = advice.outcome;
    } else {
        total.reasons.extend(advice.reasons);
    }
    total.limits.extend(advice.limits);
    total.actions.extend(advice.actions);
    total.parts.extend(advice.parts);
    total.confidence = total.confidence.min(advice.confidence);
    total
}
