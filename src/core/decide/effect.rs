//! What raises have brought: throughput at earlier counts, while work waited.
//!
//! Consumers that write to a database at its limit get slower with each one that is added, and a backlog that drives the
//! count then takes it down. So what all replicas together could do at each count is remembered, and a raise that brought
//! less than a quarter of its share is not followed by another. Items per second of all replicas together. At start and
//! while nothing waits nothing is learned: idle replicas show no limit.

use super::{Case, Judged};
use crate::core::advice::{Action, ActionKind};
use crate::core::memory::{CapacityAt, note_capacity};
use crate::core::reasons::{Rate, Reason};
use crate::core::sizing::capacity::marginal_gain;
use crate::core::units::{Count, seconds_between};

/// Less of the gain that was to be expected than this is none.
const LEAST_GAIN: f64 = 0.25;
/// What was measured longer ago tells nothing of now.
const BELIEVED_SECONDS: f64 = 6.0 * 3600.0;
/// Under this name the throughput of all replicas is remembered.
const PART: &str = "group";

/// Remembers what the replicas do at their present count, and says so where the last raise brought nothing. `told` is what
/// earlier readings show, oldest first; `now` what this one does, where work waits and no change lies within it.
pub fn judge(case: &Case<'_>, told: impl Iterator<Item = CapacityAt>, now: Option<CapacityAt>, judged: &mut Judged) {
    let mut seen: Vec<CapacityAt> = case.memory.and_then(|memory| memory.parts.get(PART)).map(|part| part.capacities.clone()).unwrap_or_default();
    let newest = seen.last().map(|last| last.at);
    for earlier in told.filter(|earlier| newest.is_none_or(|newest| earlier.at > newest)) {
        note_capacity(&mut seen, earlier);
    }
    let Some(now) = now else { return };
    note_capacity(&mut seen, now);
    judged.memory.parts.entry(PART.to_owned()).or_default().capacities.clone_from(&seen);
    let other = seen.iter().rev().find(|earlier| earlier.parallelism != now.parallelism);
    let Some(before) = other.filter(|earlier| seconds_between(earlier.at, now.at) <= BELIEVED_SECONDS) else { return };
    let gain = marginal_gain(before.parallelism, before.capacity_per_second, now.parallelism, now.capacity_per_second);
    if gain.is_none_or(|gain| gain >= LEAST_GAIN) || !is_settled(case) {
        return;
    }
    let (from, to): (Count, Count) = (before.parallelism, now.parallelism);
    let (throughput_before, throughput_after) = (Rate(before.capacity_per_second), Rate(now.capacity_per_second));
    let message = format!("look at what the consumers write to or call: {to} of them do {throughput_after}, {from} did {throughput_before}");
    judged.no_raise.push(Reason::IneffectiveScaling { from, to, throughput_before, throughput_after });
    judged.actions.push(Action::new(ActionKind::Investigate, message));
}

/// True when a change has had its time to work.
fn is_settled(case: &Case<'_>) -> bool {
    let settle = case.policy.startup.seconds() + case.policy.pause.seconds() + 60.0;
    case.seconds_since_change().is_none_or(|seconds| seconds >= settle)
}
