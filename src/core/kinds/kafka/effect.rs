//! What raises have brought: throughput at earlier counts, while records waited.
//!
//! Consumers that write to a database at its limit get slower with each one that is added, and a lag that drives the count
//! then takes it down. So what the group could do at each count is remembered, and a raise that brought less than a
//! quarter of its share is not followed by another. Records per second of all replicas together.

use super::KafkaGroupSnapshot;
use super::lag::Lag;
use crate::core::advice::{Action, ActionKind};
use crate::core::decide::{Case, Judged};
use crate::core::memory::{CapacityAt, note_capacity};
use crate::core::reasons::{Rate, Reason};
use crate::core::request::Series;
use crate::core::sizing::capacity::marginal_gain;
use crate::core::trust;
use crate::core::units::{Count, Known, Timestamp, seconds_between};

/// Less of the gain that was to be expected than this is none.
const LEAST_GAIN: f64 = 0.25;
/// What was measured longer ago tells nothing of now.
const BELIEVED_SECONDS: f64 = 6.0 * 3600.0;
/// Under this name the throughput of the group is remembered.
const PART: &str = "group";

/// Remembers what the group does at its present count, and says so where the last raise brought nothing.
pub fn judge(
    case: &Case<'_>,
    series: &Series<KafkaGroupSnapshot>,
    reading: &KafkaGroupSnapshot,
    lag: &Lag<'_>,
    (served, is_mixed): (Option<f64>, bool),
    is_behind: bool,
    at: Timestamp,
    judged: &mut Judged,
) {
    let count = reading.replicas.or(case.request.replicas.ready).or(judged.current).filter(|count| *count > 0);
    let (Some(count), Some(served)) = (count, served.filter(|rate| *rate > 0.0)) else { return };
    let mut seen: Vec<CapacityAt> = case.memory.and_then(|memory| memory.parts.get(PART)).map(|part| part.capacities.clone()).unwrap_or_default();
    // readings that say how many there were tell of counts that this service has not seen
    let told = series.history.iter().filter_map(|reading| {
        let capacity_per_second = reading.processed_per_second.known().filter(|rate| *rate > 0.0)?;
        let stood = Lag::of(reading, &case.policy.kafka).ok().and_then(|lag| lag.records()).is_none_or(|records| records > capacity_per_second * 10.0);
        Some(CapacityAt {
            parallelism: reading.replicas.filter(|count| *count > 0 && stood)?,
            capacity_per_second,
            at: trust::measured_at(reading.as_ref(), case.now),
        })
    });
    // what is measured across a change is of neither count
    let is_mixed = is_mixed && reading.processed_per_second.is_none();
    let newest = seen.last().map(|last| last.at);
    for earlier in told.filter(|earlier| newest.is_none_or(|newest| earlier.at > newest)) {
        note_capacity(&mut seen, earlier);
    }
    let stands = is_behind || lag.records().is_some_and(|records| records > served * 10.0);
    if !stands || is_mixed {
        return;
    }
    let now = CapacityAt { parallelism: count, capacity_per_second: served, at };
    note_capacity(&mut seen, now);
    judged.memory.parts.entry(PART.to_owned()).or_default().capacities.clone_from(&seen);
    let before = seen.iter().rev().find(|earlier| earlier.parallelism != count).filter(|earlier| seconds_between(earlier.at, at) <= BELIEVED_SECONDS);
    let Some(before) = before else { return };
    let gain = marginal_gain(before.parallelism, before.capacity_per_second, count, served);
    if gain.is_none_or(|gain| gain >= LEAST_GAIN) || !is_settled(case) {
        return;
    }
    let (from, to): (Count, Count) = (before.parallelism, count);
    judged.no_raise.push(Reason::IneffectiveScaling { from, to, throughput_before: Rate(before.capacity_per_second), throughput_after: Rate(served) });
    let message = format!("look at what the consumers write to or call: {to} of them do {}, {from} did {}", Rate(served), Rate(before.capacity_per_second));
    judged.actions.push(Action::new(ActionKind::Investigate, message));
}

/// True when a change has had its time to work.
fn is_settled(case: &Case<'_>) -> bool {
    let settle = case.policy.startup.seconds() + case.policy.pause.seconds() + 60.0;
    case.seconds_since_change().is_none_or(|seconds| seconds >= settle)
}
