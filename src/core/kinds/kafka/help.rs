//! Can more replicas help, and what must not be lowered: partitions that are stuck or hot, records that nobody can read,
//! transactions that hang, records about to be deleted, producers that have gone silent.
//!
//! A partition has one consumer, so nothing that is wrong with one partition is mended by another replica. What is stuck
//! is set aside from sizing and named, what is hot is named with what would relieve it. Times are in seconds.

use super::delay::Delay;
use super::lag::Lag;
use super::window::{Flow, Flows};
use super::{GroupType, KafkaGroupSnapshot};
use crate::core::advice::{Action, ActionKind};
use crate::core::decide::{Case, Judged};
use crate::core::policy::Isolation;
use crate::core::reasons::{Maybe, Names, Num, Reason, Secs, Share};
use crate::core::units::{Count, Known, as_f64};

/// A partition this many times further behind than the others is hot.
const HOT_FACTOR: f64 = 4.0;
/// Hot partitions hold at least this share of the lag.
const HOT_SHARE: f64 = 0.8;
/// Among fewer partitions than this none is one of many.
const MANY: usize = 4;
/// A lag of so many seconds of arrivals is worth a look at who holds it.
const WORTH_SECONDS: f64 = 30.0;
/// And so many records, whatever arrives.
const WORTH_RECORDS: f64 = 1000.0;
/// From this share of what is retained on a lag is near its loss.
const RETAINED_SHARE: f64 = 0.8;

/// What is set aside from sizing, by partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aside {
    /// Partitions that nobody moves.
    pub stuck: Vec<bool>,
    /// Partitions whose rest nobody can read.
    pub residual: Vec<bool>,
}

impl Aside {
    /// Looks for both.
    #[must_use]
    pub fn of(case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, flows: &Flows, current: Option<Count>) -> Self {
        let kafka = &case.policy.kafka;
        let interval = reading.commit_interval_seconds.known().unwrap_or(0.0);
        let stuck_after = kafka.stuck_after.seconds().max(interval * 3.0);
        let someone = reading.members != Some(0) && current != Some(0);
        let watched = case.seconds_since_change().is_none_or(|seconds| seconds >= stuck_after);
        let still_for = |flow: &Flow| flow.commit_still.is_some_and(|still| still + 1e-6 >= stuck_after);
        let quiet_for = case.policy.idle_before_zero.seconds().max(kafka.stuck_after.seconds());
        let pairs = || lag.parts.iter().zip(&flows.parts);
        let stuck = pairs().map(|(part, flow)| someone && watched && part.lag.is_some_and(|lag| lag > kafka.residual_records) && still_for(flow)).collect();
        let residual = pairs()
            .map(|(part, flow)| {
                let small = part.lag.is_some_and(|lag| lag > 0.0 && lag <= kafka.residual_records);
                let Some(still) = flow.end_still.filter(|still| small && *still >= quiet_for) else { return false };
                // what came while nobody was there is work; what was left by those who were there is not
                current != Some(0) || case.seconds_since_change().is_some_and(|seconds| still > seconds)
            })
            .collect();
        Self { stuck, residual }
    }

    /// True when a partition counts.
    #[must_use]
    pub fn counts(&self, place: usize) -> bool {
        let is = |list: &[bool]| list.get(place).copied().unwrap_or(false);
        !is(&self.stuck) && !is(&self.residual)
    }

    /// Says what is set aside.
    pub fn say(&self, lag: &Lag<'_>, flows: &Flows, judged: &mut Judged) {
        let chosen = |list: &[bool]| list.iter().enumerate().filter(|(_, is)| **is).map(|(place, _)| place).collect::<Vec<usize>>();
        let stuck = chosen(&self.stuck);
        if !stuck.is_empty() {
            let names: Vec<String> = stuck.iter().filter_map(|place| lag.parts.get(*place)).map(|part| format!("partition {}", part.name())).collect();
            let longest = stuck.iter().filter_map(|place| flows.parts.get(*place)?.commit_still).fold(0.0, f64::max);
            let all = Names(names);
            judged.actions.push(Action::new(
                ActionKind::Investigate,
                format!("look at the record after the commit of {all}: it cannot be processed, or its consumer is paused or blocked"),
            ));
            // when they move again what waits on them has to be read
            judged.no_lower.push(Reason::StuckPartition { partition: all.to_string(), stuck_seconds: Secs(longest) });
        }
        let rest: Vec<f64> = chosen(&self.residual).iter().filter_map(|place| lag.parts.get(*place)?.lag).collect();
        if !rest.is_empty() {
            let most = rest.iter().copied().fold(0.0, f64::max);
            judged.notices.push(Reason::ResidualRecords { partitions: rest.len() as Count, records: Num(rest.iter().sum()), most: Num(most) });
        }
    }
}

/// The few partitions that hold the lag: no other replica can read them. What arrives is reason enough for a raise,
/// whoever holds the lag; `by_arrivals` is the count that it asks for.
pub fn hot(case: &Case<'_>, lag: &Lag<'_>, aside: &Aside, arrival: Option<f64>, by_arrivals: Option<f64>, judged: &mut Judged) {
    let parts: Vec<(usize, f64)> =
        lag.parts.iter().enumerate().filter(|(place, _)| aside.counts(*place)).filter_map(|(place, part)| Some((place, part.lag?))).collect();
    let largest = parts.iter().map(|(_, lag)| *lag).fold(0.0, f64::max);
    let worth = case.policy.per_replica_backlog.unwrap_or_else(|| (arrival.unwrap_or(0.0) * WORTH_SECONDS).max(WORTH_RECORDS));
    let hot: Vec<&(usize, f64)> = parts.iter().filter(|(_, lag)| *lag * HOT_FACTOR > largest).collect();
    if largest <= worth || parts.len() < MANY || hot.len() == parts.len() || hot.len() > (parts.len() / 8).max(1) {
        return;
    }
    let share = hot.iter().map(|(_, lag)| lag).sum::<f64>() / parts.iter().map(|(_, lag)| lag).sum::<f64>();
    if share < HOT_SHARE {
        return;
    }
    let names: Vec<String> = hot.iter().filter_map(|(place, _)| lag.parts.get(*place)).map(super::lag::Part::name).collect();
    let reason = Reason::HotPartitions { hot: hot.len() as Count, of: parts.len() as Count, share: Share(share), partitions: Names(names.clone()) };
    let current = as_f64(judged.current.unwrap_or(0));
    if by_arrivals.is_none_or(|needed| needed <= current) {
        judged.no_raise.push(reason.clone());
    }
    judged.no_lower.push(reason);
    relieve(&Names(names), judged);
}

/// What relieves a hot partition.
pub fn relieve(names: &Names, judged: &mut Judged) {
    let message = format!("relieve partition {names}: another key, a faster handler, or one that works on the records of a partition in parallel");
    judged.actions.push(Action::new(ActionKind::Investigate, message));
}

/// Partitions on which more arrives than one consumer can read at all.
#[must_use]
pub fn overloaded(lag: &Lag<'_>, flows: &Flows, per_consumer: f64) -> Vec<usize> {
    let arrives = |place: usize| flows.parts.get(place).and_then(|flow| flow.arrival);
    (0..lag.parts.len()).filter(|place| arrives(*place).is_some_and(|rate| rate > per_consumer * (1.0 + 1e-9))).collect()
}

/// Transactions that are open: committed readers cannot go past them.
pub fn transactions(case: &Case<'_>, lag: &Lag<'_>, flows: &Flows, judged: &mut Judged) {
    if case.policy.kafka.isolation != Isolation::ReadCommitted {
        return;
    }
    let stuck_after = case.policy.kafka.stuck_after.seconds();
    let open: Vec<usize> = (0..lag.parts.len()).filter(|place| lag.parts.get(*place).is_some_and(|part| part.behind_transaction > 0.0)).collect();
    let hangs = |place: &&usize| {
        let at_the_end = lag.parts.get(**place).is_some_and(|part| part.lag == Some(0.0));
        at_the_end && flows.parts.get(**place).and_then(|flow| flow.commit_still).is_some_and(|still| still >= stuck_after)
    };
    let name = |place: &usize| lag.parts.get(*place).map(super::lag::Part::name);
    let hanging: Vec<String> = open.iter().filter(hangs).filter_map(name).collect();
    if !hanging.is_empty() {
        let names = Names(hanging);
        judged
            .actions
            .push(Action::new(ActionKind::Investigate, format!("end the transaction that hangs on {names} (kafka-transactions.sh find-hanging, then abort)")));
        judged.no_lower.push(Reason::HangingTransaction { partition: format!("partition {names}") });
    } else if !open.is_empty() {
        let records = open.iter().filter_map(|place| lag.parts.get(*place)).map(|part| part.behind_transaction).sum();
        judged.notices.push(Reason::OpenTransaction { records: Num(records), partitions: Names(open.iter().filter_map(name).collect()) });
    }
}

/// Records that are deleted before they are read, unless something happens soon.
pub fn retention(case: &Case<'_>, lag: &Lag<'_>, flows: &Flows, delay: Option<Delay>, judged: &mut Judged) {
    let grows = flows.arrival.zip(flows.served).is_some_and(|(arrival, served)| arrival > served);
    for topic in &lag.topics {
        let behind = lag.known().filter(|(part, lag)| part.topic.name == topic.name && *lag > case.policy.kafka.residual_records);
        let Some((name, ratio, margin)) = behind
            .map(|(part, lag)| {
                let start = part.reading.log_start;
                let retained = part.reading.log_end.zip(start).map(|(end, start)| as_f64(end.saturating_sub(start))).filter(|retained| *retained > 0.0);
                let margin = part.reading.committed.zip(start).map(|(committed, start)| as_f64(committed.saturating_sub(start)));
                (part.name(), retained.map(|retained| lag / retained), margin)
            })
            .max_by(|a, b| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0)))
        else {
            continue;
        };
        if topic.is_compacted_only() {
            continue;
        }
        if let (Some(retention), Some(delay)) = (topic.retention_seconds.known(), delay) {
            let left = (retention - delay.seconds).max(0.0);
            if left <= case.policy.catch_up_within.seconds() * 2.0 || (grows && left <= retention * 0.1) {
                judged.notices.push(Reason::RetentionNear {
                    topic: topic.name.clone(),
                    left_seconds: Secs(left),
                    retention_seconds: Secs(retention),
                    lag_seconds: Secs(delay.seconds),
                });
                judged.actions.push(Action::new(ActionKind::Investigate, format!("lengthen the retention of {} until the group has caught up", topic.name)));
            }
        } else if let (Some(ratio), Some(margin)) = (ratio.filter(|ratio| *ratio >= RETAINED_SHARE), margin) {
            judged.notices.push(Reason::RetentionShare { partition: name, share: Share(ratio), margin: Num(margin) });
        }
    }
}

/// Seconds since anything was produced, where the policy says that something is to come all the time. Returns true when
/// the producer is in doubt.
pub fn heartbeat(case: &Case<'_>, lag: &Lag<'_>, flows: &Flows, judged: &mut Judged) -> bool {
    let Some(heartbeat) = case.policy.kafka.heartbeat else { return false };
    let ages = lag.parts.iter().zip(&flows.parts).filter_map(|(part, flow)| part.reading.last_record_age_seconds.known().or(flow.end_still));
    let Some(silent) = ages.reduce(f64::min).filter(|age| *age > heartbeat.grace.seconds()) else { return false };
    judged.no_lower.push(Reason::ProducerSilent { silent_seconds: Secs(silent) });
    let message = format!("look at the producers: a record is to come every {}, and none has for {}", heartbeat.interval, Secs(silent));
    judged.actions.push(Action::new(ActionKind::AlertProducer, message));
    true
}

/// Where a record spends its time, where the caller tells both parts.
pub fn delays(case: &Case<'_>, reading: &KafkaGroupSnapshot, judged: &mut Judged) {
    if let (Some(queue), Some(processing)) = (reading.queue_delay_seconds.known(), reading.processing_seconds.known()) {
        let reason = if processing > queue {
            Reason::ProcessingDelay { queue_delay_seconds: Secs(queue), processing_seconds: Secs(processing) }
        } else {
            Reason::QueueDelay { queue_delay_seconds: Secs(queue), processing_seconds: Secs(processing) }
        };
        judged.notices.push(reason);
    }
    let Some(most) = case.policy.max_lag_seconds else { return };
    if let Some(processing) = reading.processing_seconds.known().filter(|seconds| *seconds > most) {
        judged.notices.push(Reason::ObjectiveUnreachable {
            objective_seconds: Secs(most),
            reachable_seconds: Maybe(Some(Secs(processing))),
            detail: "working on one record takes longer than that, with any number of replicas".to_owned(),
        });
        judged.actions.push(Action::new(ActionKind::TuneConsumer, "make the handler faster: what one record takes is longer than the objective".to_owned()));
    }
}

/// The smallest count from `wish` upwards whose busiest member, by the real assignment at the present count and by the
/// worst that counting partitions allows at another, stays at or below `limit` records per second. What no replica can
/// read alone (`overloaded`) is not spread by another one, and does not count.
#[must_use]
pub fn by_skew(
    reading: &KafkaGroupSnapshot,
    lag: &Lag<'_>,
    flows: &Flows,
    overloaded: &[usize],
    current: Count,
    wish: Count,
    limit: f64,
) -> Option<(Count, f64)> {
    let rates: Vec<f64> = flows.parts.iter().map(|flow| flow.arrival).collect::<Option<Vec<f64>>>()?;
    if rates.is_empty() || wish == 0 || reading.kind() == GroupType::Share || reading.stream_tasks().is_some() {
        return None;
    }
    let rate = |place: usize| if overloaded.contains(&place) { 0.0 } else { rates.get(place).copied().unwrap_or(0.0) };
    let mut members: std::collections::BTreeMap<Option<&str>, f64> = std::collections::BTreeMap::new();
    for (place, part) in lag.parts.iter().enumerate() {
        *members.entry(part.reading.member.as_deref()).or_default() += rate(place);
    }
    let is_assigned = !members.contains_key(&None);
    let now = members.into_values().reduce(f64::max).filter(|_| is_assigned);
    let mut falling: Vec<f64> = (0..rates.len()).map(rate).collect();
    falling.sort_by(|a, b| b.total_cmp(a));
    let worst = |held: Count| falling.iter().take(usize::try_from(held).unwrap_or(usize::MAX)).sum::<f64>();
    let parts = rates.len() as Count;
    let mut count = wish.min(parts);
    let first = worst(parts.div_ceil(count));
    loop {
        let held = parts.div_ceil(count);
        let busiest = now.filter(|_| count == current).unwrap_or_else(|| worst(held));
        if busiest <= limit * (1.0 + 1e-9) || held <= 1 {
            return (count > wish).then_some((count, first));
        }
        count = parts.div_ceil(held - 1);
    }
}
