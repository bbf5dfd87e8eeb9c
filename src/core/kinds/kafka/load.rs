//! What the group has to do and what one replica can do of it: the load that is sized.
//!
//! Partitions that are set aside do not count, heartbeats are no work, and of a partition on which more arrives than one
//! consumer can read only that much counts, since more consumers would not read more of it. Where records of one topic cost
//! more than those of another (`topicPerReplicaPerSecond`), they count as so many more. Records per second and replica.

use std::collections::BTreeMap;

use super::KafkaGroupSnapshot;
use super::help::{self, Aside};
use super::lag::{Lag, Part};
use super::window::{Flows, quiet_seconds};
use crate::core::decide::Case;
use crate::core::sizing::capacity::{self, Capacity, Source, Worked};
use crate::core::sizing::rate::Load;
use crate::core::units::{Count, Known, as_f64};

/// Below this busy share a capacity worked out from it is a wild guess.
const LEAST_BUSY: f64 = 0.05;
/// What is read in this time has to wait before a total lag shows that all are busy.
const BUSY_FOR_SECONDS: f64 = 60.0;

/// What is known of the load.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Records that wait and count.
    pub backlog: Option<f64>,
    /// Records that arrive per second and count.
    pub arrival: Option<f64>,
    /// Of these, and of what waits, what no count of replicas can read.
    pub beyond: (f64, f64),
    /// Records that are read per second.
    pub served: Option<f64>,
    /// What one replica can do.
    pub capacity: Option<Capacity>,
    /// Places of partitions on which more arrives than one consumer can read.
    pub overloaded: Vec<usize>,
    /// True when what waits says nothing.
    pub is_quiet: bool,
    /// True when records have waited for someone all the time.
    pub is_behind: bool,
    /// True when topics are weighed against each other.
    pub is_weighted: bool,
}

impl Demand {
    /// The load of a reading.
    #[must_use]
    pub fn of(case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, flows: &Flows, aside: &Aside) -> Self {
        let weights = weights(case, lag);
        let mut demand = Self { is_weighted: weights.is_some(), ..Self::default() };
        let weight = |part: &Part<'_>| weights.as_ref().and_then(|weights| weights.get(part.topic.name.as_str()).copied()).unwrap_or(1.0);
        let counted = || lag.parts.iter().enumerate().filter(|(place, _)| aside.counts(*place));
        let by_parts = lag.parts.iter().any(|part| part.lag.is_some());
        demand.backlog = if by_parts { Some(counted().filter_map(|(_, part)| Some(part.lag? * weight(part))).sum()) } else { lag.records() };
        let told = reading.arrival_per_second.known();
        let sum = |of: &dyn Fn(usize) -> Option<f64>| {
            let known: Vec<f64> = counted().filter_map(|(place, part)| Some(of(place)? * weight(part))).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let flow = |place: usize| flows.parts.get(place).copied().unwrap_or_default();
        demand.arrival = if told.is_some() && weights.is_none() { told } else { sum(&|place| flow(place).arrival).or(flows.arrival) };
        demand.served = if weights.is_some() { sum(&|place| flow(place).served).or(flows.served) } else { flows.served };
        let residual = case.policy.kafka.residual_records;
        let quiet = (demand.arrival.unwrap_or(0.0) * quiet_seconds(reading)).max(if lag.parts.is_empty() { 1.0 } else { residual });
        demand.is_quiet = demand.backlog.is_none_or(|backlog| backlog <= quiet);
        demand.capacity = demand.measure(case, reading, lag, flows, weights.is_some());
        if let (Some(capacity), None) = (demand.capacity.filter(|capacity| !capacity.is_lower_bound()), told.filter(|_| lag.parts.is_empty())) {
            let per_consumer = capacity.per_replica / as_f64(case.policy.threads_per_replica.max(1));
            if weights.is_none() && reading.kind() != super::GroupType::Share {
                demand.without_overload(lag, flows, aside, per_consumer, case.policy.target_utilization);
            }
        }
        if let Some(heartbeat) = case.policy.kafka.heartbeat {
            demand.arrival = demand.arrival.map(|rate| (rate - 1.0 / heartbeat.interval.seconds()).max(0.0));
        }
        demand
    }

    /// Takes off what no count of replicas can read.
    fn without_overload(&mut self, lag: &Lag<'_>, flows: &Flows, aside: &Aside, per_consumer: f64, utilization: f64) {
        self.overloaded = help::overloaded(lag, flows, per_consumer).into_iter().filter(|place| aside.counts(*place)).collect();
        for place in &self.overloaded {
            let (rate, waits) = (flows.parts.get(*place).and_then(|flow| flow.arrival).unwrap_or(0.0), lag.parts.get(*place).and_then(|part| part.lag));
            self.beyond.0 += (rate - per_consumer * utilization).max(0.0);
            self.beyond.1 += waits.unwrap_or(0.0);
        }
    }

    /// The load that is sized: what replicas can read of what arrives and waits.
    #[must_use]
    pub fn load(&self, capacity: f64) -> Option<Load> {
        let arrival = (self.arrival? - self.beyond.0).max(0.0);
        let backlog = (self.backlog? - self.beyond.1).max(0.0);
        Some(Load { arrival, backlog, served: self.served.unwrap_or(arrival), capacity })
    }

    fn measure(&mut self, case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, flows: &Flows, weighted: bool) -> Option<Capacity> {
        let threads = as_f64(case.policy.threads_per_replica.max(1));
        let seen = self.seen(case, reading, lag, flows, threads);
        self.is_behind = seen.is_some_and(|capacity| capacity.is_fresh_measure());
        if let Some(declared) = case.policy.per_replica_per_second.or_else(|| reference(case).filter(|_| weighted)) {
            return Capacity::new(declared, Source::Declared, 0.0);
        }
        if self.is_behind {
            return seen;
        }
        let busy = reading.busy_ratio.known().filter(|busy| *busy >= LEAST_BUSY);
        if let (Some(each), Some(busy)) = (seen, busy) {
            return Capacity::new(each.per_replica / busy.min(1.0), Source::Measured { saturated: 0, of: 0 }, 0.0);
        }
        if let Some(known) = case.memory.and_then(|memory| memory.capacity) {
            return capacity::remembered(known.per_replica_per_second, known.at, seen.map(|seen| seen.per_replica), case.now);
        }
        seen
    }

    /// What replicas are seen to do: a measure where records have waited for them all the time.
    fn seen(&self, case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, flows: &Flows, threads: f64) -> Option<Capacity> {
        let mut members: BTreeMap<&str, (f64, bool)> = BTreeMap::new();
        let mut is_complete = !lag.parts.is_empty();
        for (part, flow) in lag.parts.iter().zip(&flows.parts) {
            let (Some(member), Some(rate)) = (part.reading.member.as_deref(), flow.served) else {
                is_complete = false;
                continue;
            };
            let entry = members.entry(member).or_insert((0.0, false));
            entry.0 += rate;
            // records that wait on one of its partitions, and are read, keep a member busy whatever the others have
            entry.1 |= flow.always_behind && rate > 0.0;
        }
        // what was measured across a change of the count is of neither count
        let told = reading.processed_per_second.is_some() || lag.parts.iter().all(|part| part.reading.processed_per_second.is_some());
        let usable = told || !flows.spans_change;
        if is_complete && reading.processed_per_second.is_none() {
            let worked: Vec<Worked> =
                members.into_values().map(|(rate, behind)| Worked { per_second: rate * threads, always_behind: behind && usable }).collect();
            return capacity::of_members(&worked);
        }
        let consumers = reading.members.filter(|members| *members > 0).map(as_f64);
        let replicas = case.request.replicas.ready.or(reading.replicas).or(case.spec).filter(|count| *count > 0).map(as_f64);
        let parts = lag.topics.iter().filter_map(|topic| topic.count()).sum::<Count>();
        let busy_at_most = |consumers: f64| if parts > 0 { consumers.min(as_f64(parts)) } else { consumers };
        let working = busy_at_most(consumers.or_else(|| replicas.map(|replicas| replicas * threads))?) / threads;
        let each = self.served? / working;
        let behind = if flows.parts.iter().any(|flow| flow.served.is_some() || flow.always_behind) {
            flows.parts.iter().any(|flow| flow.always_behind) && flows.parts.iter().all(|flow| flow.always_behind || flow.is_silent)
        } else {
            let served = self.served.unwrap_or(0.0);
            let outrun = self.arrival.is_some_and(|arrival| arrival >= served) && !flows.at_least;
            self.backlog.is_some_and(|backlog| !self.is_quiet && (outrun || backlog >= served * BUSY_FOR_SECONDS))
        };
        let count = crate::core::units::ceil_count(working);
        let source = if behind && usable { Source::Measured { saturated: count, of: count } } else { Source::LowerBound };
        Capacity::new(each, source, 0.0)
    }
}

/// The capacity that other topics are weighed against.
fn reference(case: &Case<'_>) -> Option<f64> {
    let largest = case.policy.kafka.topic_capacities.iter().map(|(_, rate)| *rate).reduce(f64::max);
    largest.map(|largest| case.policy.per_replica_per_second.unwrap_or(largest))
}

/// How many records of the reference one record of each topic stands for; `None` where topics are alike.
fn weights<'a>(case: &'a Case<'_>, lag: &Lag<'a>) -> Option<BTreeMap<&'a str, f64>> {
    let reference = reference(case)?;
    let given = &case.policy.kafka.topic_capacities;
    let weight = |name: &'a str| (name, given.iter().find(|(topic, _)| topic == name).map_or(1.0, |(_, rate)| reference / rate));
    Some(lag.topics.iter().map(|topic| weight(topic.name.as_str())).collect())
}
