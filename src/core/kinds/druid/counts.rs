//! The four counts of a pool, kept apart: wanted replicas, ready pods, registered workers, and those that take tasks.
//!
//! Workers that were asked for are credited until `startup` has passed. A pod that is ready and not in the list is not
//! starting: the list is incomplete, and nothing is lowered on it. A worker whose pod is going (its rank is at or above the
//! wanted count) still runs its tasks, and is neither slots to be had nor one of those that are there.
//!
//! Where nobody tells the wanted count, the list does: one more than the highest rank. A disabled worker at the top is
//! then taken for going when its pod drains by itself, or when a lower count has already been recommended. A worker that is
//! in the list no more, and was not disabled and empty when it was last seen, counts on for a while (the longer of `startup`
//! and the stabilization): an Overlord that has just taken over lists few workers, and the number must not follow that.

use std::collections::HashSet;

use super::DruidWorkersSnapshot;
use super::pool::{Pool, Seat};
use crate::core::decide::Case;
use crate::core::policy::Drain;
use crate::core::reasons::{Maybe, Reason, Secs, Workers};
use crate::core::request::Series;
use crate::core::trust;
use crate::core::units::{Amount, Count, seconds_between};

/// The counts of a pool.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The wanted count; the pool's own where it is not told.
    pub current: Count,
    /// Registered workers whose pods stay.
    pub registered: Count,
    /// Wanted and not registered.
    pub missing: Count,
    /// How long they have been missing, in seconds, where known.
    pub missing_seconds: Option<f64>,
    /// True while they may still be starting.
    pub credited: bool,
    /// Why nothing may be lowered: ready pods, or pods that may be ready, are not in the list.
    pub incomplete: Option<Reason>,
    going_from: Count,
}

impl Counts {
    /// Counts.
    #[must_use]
    pub fn of(case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, pool: &Pool<'_>, spec: Option<Count>) -> Self {
        let replicas = &case.request.replicas;
        let starting = replicas.starting.unwrap_or(0);
        let own = own(case, pool);
        let before = if spec.is_none() { before(case, series, pool) } else { 0 };
        let has_vanished = before > own.saturating_add(starting);
        let going_from = if pool.unclear.is_some() && spec.is_some() { Count::MAX } else { spec.unwrap_or_else(|| own.max(before)) };
        let current = spec.unwrap_or_else(|| own.saturating_add(starting).max(before));
        let registered = pool.workers.iter().filter(|worker| worker.rank < going_from).count() as Count;
        let missing = current.saturating_sub(registered).max(starting.min(current));
        let missing_seconds = missing_seconds(case, series, pool, spec).filter(|_| missing > 0);
        let credited = missing_seconds.is_none_or(|seconds| seconds <= case.policy.startup.seconds());
        let lost = match replicas.ready {
            Some(ready) => ready.min(current) > registered,
            // pods of which nobody says whether they are ready may well be, unless they are known to be starting
            None => missing > starting,
        };
        let incomplete = if has_vanished {
            Some(Reason::WorkersVanished { registered: Workers(registered), before, within_seconds: Secs(patience(case)) })
        } else {
            (spec.is_some() && lost).then_some(Reason::WorkerListIncomplete { registered: Workers(registered), ready: Maybe(replicas.ready), wanted: current })
        };
        Self { current, registered, missing, missing_seconds, credited, incomplete, going_from }
    }

    /// False for a worker whose pod is being removed.
    #[must_use]
    pub const fn stays(&self, worker: &Seat<'_>) -> bool {
        worker.rank < self.going_from
    }

    /// False for a worker that cannot be given tasks again by enabling it: its pod is going, or drains by itself, which
    /// enabling does not stop.
    #[must_use]
    pub fn may_be_enabled(&self, case: &Case<'_>, worker: &Seat<'_>) -> bool {
        self.stays(worker) && case.policy.druid.drain != Drain::PreStop
    }
}

/// The count that the list stands for, without workers at the top that are going.
fn own(case: &Case<'_>, pool: &Pool<'_>) -> Count {
    let told = case.memory.and_then(|memory| memory.recommended);
    let drains_itself = case.policy.druid.drain == Drain::PreStop;
    let is_going = |worker: &Seat<'_>| !worker.enabled && (drains_itself || told.is_some_and(|told| worker.rank >= told));
    let last = pool.workers.iter().rev().find(|worker| !is_going(worker));
    last.map_or(0, |worker| worker.rank.saturating_add(1))
}

/// How long a worker that is gone without having been drained counts on, in seconds.
fn patience(case: &Case<'_>) -> f64 {
    case.policy.startup.longer(case.policy.scale_down.stabilization).seconds()
}

/// The count that the lists of the last while stand for, without workers that were last seen disabled and empty.
fn before(case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, pool: &Pool<'_>) -> Count {
    let is_recent = |reading: &&DruidWorkersSnapshot| {
        let age = seconds_between(trust::measured_at(*reading, case.now), case.now);
        (0.0..=patience(case)).contains(&age)
    };
    let is_ranked = pool.unclear.is_none() && pool.workers.iter().all(|worker| worker.ordinal() == Some(worker.rank));
    let mut seen: HashSet<Count> = pool.workers.iter().filter_map(|worker| worker.ordinal()).collect();
    let mut count = 0;
    for reading in series.history.iter().rev().map(AsRef::as_ref).take_while(is_recent) {
        let Some(workers) = pool.then(reading) else { continue };
        if !is_ranked {
            // without ranks that are ordinals only the number tells
            count = count.max(workers.iter().filter(|worker| worker.enabled || worker.busy() > 0).count() as Count);
            continue;
        }
        for (ordinal, worker) in workers.iter().filter_map(|worker| worker.ordinal().map(|ordinal| (ordinal, worker))) {
            // its newest sighting counts
            if seen.insert(ordinal) && (worker.enabled || worker.busy() > 0) {
                count = count.max(ordinal.saturating_add(1));
            }
        }
    }
    count
}

/// How long workers have been missing: as told, else since a reading that listed all of them, else since the wanted count
/// was changed.
fn missing_seconds(case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, pool: &Pool<'_>, spec: Option<Count>) -> Option<f64> {
    let told = case.request.replicas.seconds_since_start.map(Amount::get);
    let complete = || {
        let spec = spec?;
        let listed = |reading: &DruidWorkersSnapshot| pool.listed_then(reading).is_some_and(|count| count >= spec);
        let last = series.history.iter().rev().find(|reading| listed(reading))?;
        Some(seconds_between(trust::measured_at(last.as_ref(), case.now), case.now).max(0.0))
    };
    let seen = || {
        let seen = case.memory.and_then(|memory| memory.spec).filter(|seen| Some(seen.count) == spec)?;
        Some(seconds_between(seen.since, case.now))
    };
    told.or_else(complete).or_else(|| case.seconds_since_change()).or_else(seen)
}
