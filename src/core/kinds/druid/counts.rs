//! The four counts of a pool, kept apart: wanted replicas, ready pods, registered workers, and what is missing between them.
//!
//! Workers that were asked for are credited until `startup` has passed. A pod that is ready and not in the list is not
//! starting: the list is incomplete, and nothing is lowered on it.

use super::pool::Pool;
use crate::core::decide::Case;
use crate::core::reasons::{Maybe, Reason};
use crate::core::units::{Amount, Count, seconds_between};

/// The four counts: wanted, ready, registered, and what is missing between them.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The wanted count; the pool's own where it is not told.
    pub current: Count,
    /// Registered workers.
    pub registered: Count,
    /// Wanted and not registered.
    pub missing: Count,
    /// How long they have been missing, where known.
    pub missing_seconds: Option<f64>,
    /// True while they may still be starting.
    pub credited: bool,
    /// Why nothing may be lowered: ready pods, or pods that may be ready, are not in the list.
    pub incomplete: Option<Reason>,
}

impl Counts {
    /// Counts.
    #[must_use]
    pub fn of(case: &Case<'_>, pool: &Pool<'_>, spec: Option<Count>) -> Self {
        let replicas = &case.request.replicas;
        let registered = pool.workers.len() as Count;
        let highest = pool.workers.iter().filter_map(|worker| worker.ordinal()).max().map_or(0, |ordinal| ordinal.saturating_add(1));
        let told = spec.is_some();
        let starting = replicas.starting.unwrap_or(0);
        let current = spec.unwrap_or_else(|| highest.max(registered).saturating_add(starting));
        let missing = current.saturating_sub(registered).max(if told { starting.min(current) } else { starting });
        let seen = case.memory.and_then(|memory| memory.spec).filter(|seen| Some(seen.count) == spec).map(|seen| seconds_between(seen.since, case.now));
        let missing_seconds = replicas.seconds_since_start.map(Amount::get).or_else(|| case.seconds_since_change()).or(seen).filter(|_| missing > 0);
        let credited = missing_seconds.is_none_or(|seconds| seconds <= case.policy.startup.seconds());
        let lost = match replicas.ready {
            Some(ready) => ready.min(current) > registered,
            // pods of which nobody says whether they are ready may well be, unless they are known to be starting
            None => missing > replicas.starting.unwrap_or(0),
        };
        let incomplete = (told && lost).then_some(Reason::WorkerListIncomplete { registered, ready: Maybe(replicas.ready), wanted: current });
        Self { current, registered, missing, missing_seconds, credited, incomplete }
    }
}
