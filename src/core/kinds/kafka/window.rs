//! What the readings of a while tell together: what arrives and what is read on each partition, what stands still, and
//! who was always behind.
//!
//! ```text
//! arrival = (end now - end then) / seconds            read = (commit now - commit then) / seconds
//! ```
//!
//! `then` is the newest reading that is three commit intervals and a minute back: commits come in steps, and over less
//! than that a consumer that commits once a minute seems to stand and to race in turns. What was read before the last
//! rebalance tells nothing of now. Rates that the source tells take precedence. An end that fell is another topic of the
//! same name: its rates are void. At start there is one reading and no rate. Records per second, times in seconds.

use std::collections::HashMap;
use std::sync::Arc;

use super::lag::{Basis, Lag, Part};
use super::{GroupState, KafkaGroupSnapshot, KafkaPartition, KafkaTopic};
use crate::core::decide::Case;
use crate::core::reasons::{Num, Reason};
use crate::core::request::Series;
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, Known, Timestamp, as_f64, seconds_between};

/// Rates are measured over at least so long, where readings reach as far back.
const MEASURE_OVER_SECONDS: f64 = 60.0;
/// Commit intervals that a rate has to span.
const COMMITS_SPANNED: f64 = 3.0;
/// What arrives in so many seconds always stands somewhere between a fetch and a commit.
const ALWAYS_THERE_SECONDS: f64 = 10.0;
/// Backlog for so many seconds of reading keeps a consumer busy for as long.
const BUSY_FOR_SECONDS: f64 = 60.0;

/// Where a partition is found in earlier readings.
type Key<'a> = (&'a str, Count);
type Index<'a> = HashMap<Key<'a>, (&'a KafkaTopic, &'a KafkaPartition)>;

/// What a partition did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Records that arrive per second.
    pub arrival: Option<f64>,
    /// Records that are read per second.
    pub served: Option<f64>,
    /// For how long its end has been the same, at least.
    pub end_still: Option<f64>,
    /// For how long its commit has been the same, at least.
    pub commit_still: Option<f64>,
    /// True when records have waited on it all the time.
    pub always_behind: bool,
    /// True when nothing has come or gone: it neither shows nor denies that its consumer is busy.
    pub is_silent: bool,
}

/// What the readings tell together.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// By partition, in the order of the lag's.
    pub parts: Vec<Flow>,
    /// Records that arrive per second.
    pub arrival: Option<f64>,
    /// True when more may arrive: some partitions tell nothing.
    pub at_least: bool,
    /// Records that are read per second.
    pub served: Option<f64>,
    /// Offsets that went back.
    pub resets: Vec<Reason>,
    /// True when the reading that rates are measured against was taken before the newest change of the count had settled.
    pub spans_change: bool,
}

/// Seconds of arrivals below which a lag says nothing.
#[must_use]
pub fn quiet_seconds(reading: &KafkaGroupSnapshot) -> f64 {
    (reading.commit_interval_seconds.known().unwrap_or(0.0) * 2.0).max(ALWAYS_THERE_SECONDS)
}

impl Flows {
    /// What the readings tell.
    #[must_use]
    pub fn of(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, trust: &Trust) -> Self {
        let at = trust.observed_at.unwrap_or(case.now);
        let earlier = earlier(case, series, at);
        let indexes: Vec<(Timestamp, Index<'_>)> = earlier.iter().map(|(then, reading)| (*then, index(reading))).collect();
        let interval = reading.commit_interval_seconds.known().unwrap_or(0.0);
        let reach = (interval * COMMITS_SPANNED).max(MEASURE_OVER_SECONDS);
        let then = indexes.iter().rposition(|(then, _)| seconds_between(*then, at) >= reach - 1e-6).or(if indexes.is_empty() { None } else { Some(0) });
        let quiet = quiet_seconds(reading);
        let mut flows = Self::default();
        // all stop while partitions move; where members are not told it is the wanted count that tells when they changed
        let differs = |(_, earlier): &&(Timestamp, &KafkaGroupSnapshot)| earlier.members != reading.members;
        let changed_at = if reading.members.is_some() { earlier.iter().rev().find(differs).map(|(then, _)| *then) } else { case.changed_at };
        let settles = case.policy.startup.seconds() + case.policy.pause.seconds();
        let reference = then.and_then(|place| indexes.get(place));
        flows.spans_change = reference.zip(changed_at).is_some_and(|((then, _), changed)| seconds_between(changed, *then) < settles);
        let past = then.and_then(|place| indexes.get(place..)).unwrap_or_default();
        for part in &lag.parts {
            let flow = flow(part, past, &indexes, at, (quiet, case.policy.kafka.residual_records, reach), &mut flows.resets);
            flows.parts.push(flow);
        }
        flows.total(case, reading, lag, &earlier, at);
        flows
    }

    fn total(&mut self, case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, earlier: &[(Timestamp, &KafkaGroupSnapshot)], at: Timestamp) {
        let sum = |of: &dyn Fn(&Flow) -> Option<f64>| {
            let known: Vec<f64> = self.parts.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| (known.iter().sum::<f64>(), known.len() == self.parts.len()))
        };
        let (arrives, read) = (sum(&|flow| flow.arrival), sum(&|flow| flow.served));
        self.served = reading.processed_per_second.known().or(read.map(|(rate, _)| rate));
        if let Some(told) = reading.arrival_per_second.known() {
            self.arrival = Some(told);
        } else if let Some((rate, is_all)) = arrives {
            (self.arrival, self.at_least) = (Some(rate), !is_all);
        } else if let (Some(served), Some(backlog), true) = (self.served, lag.records(), self.resets.is_empty()) {
            // what is read plus what the lag grew by; of a lag that stood before nothing is known at start
            let of_history = earlier.iter().find_map(|(then, reading)| Some((*then, Lag::of(reading, &case.policy.kafka).ok()?.records()?)));
            let of_memory = || case.memory?.backlog.filter(|seen| seen.at < at).map(|seen| (seen.at, as_f64(seen.value)));
            let before = of_history.or_else(of_memory).filter(|(then, _)| seconds_between(*then, at) > 0.0);
            self.at_least = before.is_none() && backlog > 0.0;
            self.arrival = Some(before.map_or(served, |(then, before)| (served + (backlog - before) / seconds_between(then, at)).max(0.0)));
        }
    }

    /// For how long nothing has come or gone on any partition, at least.
    #[must_use]
    pub fn still_seconds(&self) -> Option<f64> {
        self.parts.iter().map(|flow| Some(flow.end_still?.min(flow.commit_still.unwrap_or(f64::INFINITY)))).reduce(|a, b| Some(a?.min(b?))).flatten()
    }
}

/// The readings that may be compared with the newest: within the window, and since the last rebalance that they show.
fn earlier<'a>(case: &Case<'_>, series: &'a Series<KafkaGroupSnapshot>, at: Timestamp) -> Vec<(Timestamp, &'a KafkaGroupSnapshot)> {
    let reach = case.policy.kafka.window.seconds().max(case.policy.kafka.stuck_after.seconds()).max(MEASURE_OVER_SECONDS * 10.0);
    let timed = series.history.iter().map(Arc::as_ref).map(|reading| (trust::measured_at(reading, case.now), reading));
    let mut readings: Vec<_> = timed.filter(|(then, _)| *then < at && seconds_between(*then, at) <= reach + 1e-6).collect();
    if let Some(rebalance) = readings.iter().rposition(|(_, reading)| reading.doing() == Some(GroupState::Rebalancing)) {
        readings.drain(..=rebalance);
    }
    readings
}

fn index(reading: &KafkaGroupSnapshot) -> Index<'_> {
    let topics = reading.topics.iter().flatten();
    topics.flat_map(|topic| topic.listed().iter().map(move |partition| ((topic.name.as_str(), partition.partition), (topic, partition)))).collect()
}

fn flow(
    part: &Part<'_>,
    seen_before: &[(Timestamp, Index<'_>)],
    all: &[(Timestamp, Index<'_>)],
    at: Timestamp,
    (quiet, residual, reach): (f64, f64, f64),
    resets: &mut Vec<Reason>,
) -> Flow {
    let (reading, key) = (part.reading, (part.topic.name.as_str(), part.reading.partition));
    let mut flow = Flow {
        arrival: reading.arrival_per_second.known(),
        served: reading.processed_per_second.known(),
        end_still: reading.end_unchanged_seconds.known(),
        commit_still: reading.commit_unchanged_seconds.known(),
        ..Flow::default()
    };
    // gaps of compaction are no records
    let share = part.topic.records_per_offset.known().unwrap_or(1.0).min(1.0);
    let before = seen_before.iter().find_map(|(then, index)| index.get(&key).map(|(topic, partition)| (*then, *topic, *partition)));
    let mut is_void = false;
    if let Some((then, topic, partition)) = before {
        let seconds = seconds_between(then, at);
        let anew = topic.id.is_some() && part.topic.id.is_some() && topic.id != part.topic.id;
        if let (Some(before), Some(now)) = (partition.log_end, reading.log_end) {
            if now < before || anew {
                is_void = true;
                resets.push(Reason::TopicRecreated { partition: part.name(), before: Num(as_f64(before)), now: Num(as_f64(now)) });
            } else {
                flow.arrival = flow.arrival.or(Some(as_f64(now - before) / seconds * share));
            }
        }
    }
    // a group that has just begun had no commit in the first of these readings
    let committed = seen_before.iter().find_map(|(then, index)| Some((*then, index.get(&key)?.1.committed?)));
    if let (Some((then, before)), Some(now), false) = (committed, reading.committed, is_void)
        && now >= before
    {
        flow.served = flow.served.or(Some(as_f64(now - before) / seconds_between(then, at) * share));
    }
    // a commit that went back is not regained before it has passed where it was
    let peak = all.iter().filter_map(|(_, index)| index.get(&key)?.1.committed).max();
    if let (Some(peak), Some(now)) = (peak.filter(|_| !is_void), reading.committed)
        && now < peak
    {
        resets.push(Reason::CommitWentBack { partition: part.name(), before: Num(as_f64(peak)), now: Num(as_f64(now)) });
    }
    if !is_void {
        let still = |same: &dyn Fn(&KafkaPartition) -> bool| {
            let run = all.iter().rev().map_while(|(then, index)| index.get(&key).filter(|(_, partition)| same(partition)).map(|_| *then));
            run.last().map(|since| seconds_between(since, at))
        };
        if let Some(end) = reading.log_end {
            flow.end_still = flow.end_still.or_else(|| still(&|partition| partition.log_end == Some(end)));
        }
        if let Some(committed) = reading.committed {
            flow.commit_still = flow.commit_still.or_else(|| still(&|partition| partition.committed == Some(committed)));
        }
    }
    // what has stood for as long as a rate is measured over has no rate
    let stood = |still: Option<f64>| still.filter(|still| *still + 1e-6 >= reach).map(|_| 0.0);
    flow.arrival = flow.arrival.or_else(|| stood(flow.end_still).filter(|_| !is_void));
    flow.served = flow.served.or_else(|| stood(flow.commit_still).filter(|_| !is_void));
    let (arrival, served) = (flow.arrival, flow.served);
    flow.is_silent = part.lag.is_none_or(|lag| lag <= residual) && arrival.is_none_or(|rate| rate <= 0.0) && served.is_none_or(|rate| rate <= 0.0);
    flow.always_behind = part.lag.is_some_and(|lag| {
        let stands = lag > residual && lag > arrival.unwrap_or(0.0) * quiet;
        let waits = |partition: &KafkaPartition| match (partition.lag, partition.log_end.zip(partition.committed)) {
            (_, Some((end, committed))) => as_f64(end.saturating_sub(committed)) > residual,
            (Some(lag), None) => lag > 0 && as_f64(lag.unsigned_abs()) > residual,
            (None, None) => false,
        };
        let seen: Vec<bool> = seen_before.iter().filter_map(|(_, index)| index.get(&key).map(|(_, partition)| waits(partition))).collect();
        let waited = if seen.is_empty() {
            // one reading alone: it falls behind, or has enough to read for longer than a rate is measured over
            match (arrival, served) {
                (Some(arrival), Some(served)) => stands && (arrival >= served || lag >= served * BUSY_FOR_SECONDS),
                (None, Some(served)) => lag >= served * BUSY_FOR_SECONDS,
                _ => false,
            }
        } else {
            lag > residual && seen.iter().all(|waited| *waited)
        };
        waited && part.basis != Basis::BeyondEnd
    });
    flow
}
