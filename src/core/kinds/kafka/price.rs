//! What a change costs, and what to do where partitions are the bound.
//!
//! ```text
//! records that wait = arrival x pause             all members stop (eager assignors)
//!                   = arrival x pause x moved / P only what moves stops (cooperative, assigned by the broker)
//! restore           = bytes of the partitions of a new replica / bytes per second
//! partitions        = ceil(arrival x (1 + growth) / (utilization x capacity)), rounded up to a multiple
//! ```
//!
//! More partitions change where keys go, for ever and for every topic that is joined with this one, so tuning comes first
//! and the advice names all of them.

use super::bounds::{self, Bounds};
use super::load::Demand;
use super::{GroupType, KafkaGroupSnapshot};
use crate::core::advice::{Action, ActionKind, Advice};
use crate::core::decide::Case;
use crate::core::policy::Policy;
use crate::core::reasons::{Gone, LimitCode, Maybe, Num, Reason, Secs};
use crate::core::sizing::rate::Load;
use crate::core::units::{Count, Known, as_f64, ceil_count};

/// Below this busy share consumers wait for records or for others, and tuning comes before partitions.
const WAITS_BELOW_BUSY: f64 = 0.7;

/// True when members go on reading while partitions move.
fn is_cooperative(reading: &KafkaGroupSnapshot) -> bool {
    reading.kind() != GroupType::Classic || reading.assignor.as_deref().is_some_and(|assignor| assignor.contains("cooperative") || assignor.contains("stream"))
}

/// What a change from `from` to `to` costs; `None` where what arrives or what one can do is not known.
#[must_use]
pub fn of(case: &Case<'_>, reading: &KafkaGroupSnapshot, bounds: Bounds, load: Option<Load>, from: Count, to: Count) -> Option<Reason> {
    let load = load.filter(|load| load.arrival > 0.0 && from != to && to > 0)?;
    let (pause, restore) = (case.request.policy.pause.seconds(), restore(case, reading, bounds, to).filter(|_| to > from));
    let (moved, of) = bounds.parts.map_or((1, 1), |parts| (bounds::moved(parts, from, to), parts));
    let share = if is_cooperative(reading) && of > 0 { as_f64(moved) / as_f64(of) } else { 1.0 };
    // a member that has left without saying so keeps its partitions until its session ends
    let leaves = reading.session_timeout_seconds.known().filter(|_| to < from && reading.static_members == Some(true)).unwrap_or(0.0);
    let records = load.arrival * pause * share + load.arrival * leaves * as_f64(moved) / as_f64(of.max(1));
    let free = as_f64(to) * load.capacity - load.arrival;
    let gone = (free > 0.0).then(|| records / free);
    Some(Reason::RebalancePrice {
        pause_seconds: Secs(pause + leaves),
        moved_partitions: moved,
        of_partitions: of,
        delayed_records: Num(records),
        gone_seconds: Gone(gone),
        restore_seconds: Maybe(restore.map(Secs)),
    })
}

/// Seconds in which a new replica of `count` reads its state.
#[must_use]
pub fn restore(case: &Case<'_>, reading: &KafkaGroupSnapshot, bounds: Bounds, count: Count) -> Option<f64> {
    // a share group hands out records, not partitions, and has no state of them
    let parts = bounds.parts.filter(|_| reading.kind() != GroupType::Share)?;
    Some(bounds::restore_bytes(parts, count, case.policy)? / case.policy.kafka.restore_bytes_per_second?)
}

/// What would lift the bound of the partitions: tuning first, then more of them.
pub fn lift_partitions(policy: &Policy, reading: &KafkaGroupSnapshot, demand: &Demand, bounds: Bounds, topics: &[&super::KafkaTopic], advice: &mut Advice) {
    let is_bound = advice.limits.iter().any(|limit| limit.code == LimitCode::PartitionLimit && limit.from > limit.to);
    let (true, Some(parts)) = (is_bound, bounds.parts) else { return };
    if policy.kafka.limit_to_partitions_with_lag || policy.kafka.keda.is_some() || reading.stream_tasks().is_some() {
        return;
    }
    let waits = reading.busy_ratio.known().is_none_or(|busy| busy < WAITS_BELOW_BUSY);
    if waits {
        let message = "before more partitions, let each consumer do more: larger batches (max.poll.records, fetch.min.bytes), work on several records at a time, larger batches and linger.ms where it produces";
        advice.actions.push(Action::new(ActionKind::TuneConsumer, message.to_owned()));
    }
    let Some((arrival, capacity)) = demand.arrival.zip(demand.capacity) else { return };
    let consumers = as_f64(policy.threads_per_replica.max(1));
    let needed = ceil_count(arrival * (1.0 + policy.growth_ratio) * consumers / (policy.target_utilization * capacity.per_replica));
    let to = needed.div_ceil(parts) * parts;
    let Some(topic) = topics.first().filter(|_| needed > parts) else { return };
    let alike = policy.kafka.co_partitioned.iter().find(|set| set.contains(&topic.name));
    // of several topics each would need a size of its own, unless they go together
    if topics.iter().any(|other| other.name != topic.name && alike.is_none_or(|set| !set.contains(&other.name))) {
        return;
    }
    let counts: Vec<(&str, Count)> = alike.into_iter().flatten().filter_map(|name| Some((name.as_str(), count_of(reading, name)?))).collect();
    let own = topic.count().unwrap_or(parts);
    if let Some((other, count)) = counts.iter().find(|(_, count)| *count != own) {
        let message = format!(
            "{} has {own} partitions and {other} {count}, and the two have to be partitioned alike: no partitions are added to one of them alone",
            topic.name
        );
        advice.actions.push(Action::new(ActionKind::Investigate, message));
        return;
    }
    let named = alike.map_or_else(|| topic.name.clone(), |set| set.join(", "));
    let (from, to) = (own, to / parts * own);
    let message = format!("give {named} {to} partitions instead of {from}; keys move to other partitions, so state that follows them has to be rebuilt");
    advice.actions.push(Action { to: Some(to), ..Action::new(ActionKind::Repartition, message) });
}

fn count_of(reading: &KafkaGroupSnapshot, name: &str) -> Option<Count> {
    reading.topics.iter().flatten().find(|topic| topic.name == name)?.count()
}
