//! What is asked for, unrounded: by KEDA's arithmetic with its preset, by a threshold, by rates, and by the delay
//! objective. The largest counts, and each says why.
//!
//! With a lower bound of the capacity alone the count is raised when the lag says so, and lowered one useful step at a time
//! after a quiet window, watching what follows: so a group that always keeps up is probed down and never cut in one go.

use std::sync::Arc;

use super::KafkaGroupSnapshot;
use super::bounds::Bounds;
use super::delay::Delay;
use super::help;
use super::lag::Lag;
use super::load::Demand;
use super::window::{Flows, quiet_seconds};
use crate::core::advice::Confidence;
use crate::core::decide::settle::Wish;
use crate::core::decide::{Case, Fit, Judged};
use crate::core::reasons::{Maybe, Num, Rate, Reason, Secs, Share};
use crate::core::request::Series;
use crate::core::sizing::align;
use crate::core::sizing::capacity::Capacity;
use crate::core::sizing::rate::{self, Load, Need};
use crate::core::sizing::wish::{self, Unreachable, Why};
use crate::core::trust;
use crate::core::units::{Count, Known, Timestamp, as_f64, ceil_count};

/// A change shows at the latest so long after it has settled.
const PROOF_SECONDS: f64 = 300.0;

/// What all ways of looking at a group have in common.
pub struct Ask<'a> {
    /// The question.
    pub case: &'a Case<'a>,
    /// Its readings.
    pub series: &'a Series<KafkaGroupSnapshot>,
    /// The newest.
    pub reading: &'a KafkaGroupSnapshot,
    /// What waits.
    pub lag: &'a Lag<'a>,
    /// What moves.
    pub flows: &'a Flows,
    /// What counts of it.
    pub demand: &'a Demand,
    /// How old what waits is.
    pub delay: Option<Delay>,
    /// What bounds the count.
    pub bounds: Bounds,
    /// Age of the reading in seconds.
    pub age_seconds: f64,
}

/// All wishes. Empty where nothing can be said.
pub fn of(ask: &Ask<'_>, judged: &mut Judged) -> Vec<Wish> {
    let mut wishes = Vec::new();
    if let Some(per_replica) = ask.case.policy.per_replica_backlog {
        by_threshold(ask, per_replica, judged, &mut wishes);
    } else {
        by_rates(ask, judged, &mut wishes);
    }
    by_delay(ask, judged, &mut wishes);
    wishes
}

/// How far the answer carries: each estimate takes a step off.
fn confidence(ask: &Ask<'_>, estimates: usize, one_shot: bool) -> Confidence {
    let doubts = usize::from(ask.flows.at_least) + usize::from(!ask.lag.missing.is_empty()) + if ask.lag.is_compacted() { 2 } else { 0 };
    match estimates + doubts {
        0 if one_shot => Confidence::Medium,
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    }
}

fn by_threshold(ask: &Ask<'_>, per_replica: f64, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = ask.case.policy;
    judged.fit = if policy.even_distribution && ask.bounds.is_even { Fit::NextUseful } else { Fit::Any };
    let Some(backlog) = ask.demand.backlog else { return };
    let needed = backlog / per_replica;
    wishes.push((needed, Reason::LagPerReplica { backlog_records: Num(backlog), per_replica_backlog: Num(per_replica), needed: Num(needed) }));
    judged.confidence = confidence(ask, 0, judged.one_shot);
    judged.past = past(ask, |_, backlog| backlog / per_replica);
}

/// Wishes of earlier readings, rounded up.
fn past(ask: &Ask<'_>, wish: impl Fn(&KafkaGroupSnapshot, f64) -> f64) -> Vec<(Timestamp, Count)> {
    let readings = ask.series.history.iter().map(Arc::as_ref);
    let asked = readings.filter_map(|reading| {
        let backlog = Lag::of(reading, &ask.case.policy.kafka).ok()?.records()?;
        Some((trust::measured_at(reading, ask.case.now), ceil_count(wish(reading, backlog))))
    });
    asked.collect()
}

fn by_rates(ask: &Ask<'_>, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let (policy, demand) = (ask.case.policy, ask.demand);
    let current = judged.current.unwrap_or(0);
    let Some(backlog) = demand.backlog else { return };
    let Some(arrival) = demand.arrival else {
        by_backlog_alone(ask, backlog, judged, wishes);
        return;
    };
    let Some(capacity) = demand.capacity else {
        judged.notices.push(Reason::CapacityUnknown { detail: "nothing has been read yet, and perReplicaPerSecond is not declared".to_owned() });
        if arrival > 0.0 || backlog > policy.activation_backlog {
            // nobody has shown what one can do: one is started and measured, and those that run stay
            wishes.push((as_f64(current.max(1)), Reason::ActiveTraffic { arrival_per_second: Maybe(Some(Rate(arrival))), in_flight: 0 }));
        } else {
            wishes.push((0.0, Reason::SpareCapacity { current, needed: Num(0.0) }));
        }
        return;
    };
    let Some(load) = demand.load(capacity.per_replica) else { return };
    // of what no replica can read there is nothing to foretell
    judged.load = Some(load).filter(|_| demand.overloaded.is_empty());
    judged.confidence = confidence(ask, capacity.estimates(), judged.one_shot);
    let mut by = wish::by_rates(load, policy, current, demand.is_quiet);
    if by.why == Why::CatchUp
        && let Some(reason) = under_way(ask)
    {
        // what piles up before new members work is no reason for more of them; what arrives is
        let arrives = load.arrival * (1.0 + policy.growth_ratio) / (policy.target_utilization * load.capacity);
        by.needed = arrives.max(as_f64(current));
        by.why = if ceil_count(by.needed) > current { Why::Arrival } else { Why::Within };
        judged.notices.push(reason);
    }
    unreachable(ask, load, by.need, judged);
    if capacity.is_lower_bound() {
        by_lower_bound(ask, load, capacity, by.need, judged, wishes);
        return;
    }
    if current > 0 && policy.even_distribution && ask.bounds.is_even {
        // what is kept is not moved by what a change would cost
        judged.fit = Fit::SamePeak(if by.why == Why::Within { by.need.when_kept.min(by.needed) } else { by.needed });
    }
    judged.past = past(ask, |reading, backlog| {
        let arrival = reading.arrival_per_second.known().unwrap_or(load.arrival);
        rate::need(Load { arrival, backlog, served: arrival, ..load }, policy).when_changed
    });
    let reason = match by.why {
        Why::Spare => Reason::SpareCapacity { current, needed: Num(by.needed) },
        Why::Within => Reason::WithinTarget { current, wanted: ceil_count(by.needed) },
        Why::Arrival => Reason::DemandAboveCapacity {
            arrival_per_second: Rate(load.arrival),
            capacity_per_replica_per_second: Rate(load.capacity),
            target_utilization: Share(policy.target_utilization),
            needed: Num(by.needed),
        },
        Why::CatchUp => catch_up(ask, load, by.needed),
    };
    wishes.push((by.needed, reason));
    by_skew(ask, load, by.needed, judged, wishes);
    not_worthwhile(ask, load, by.why, by.needed, judged);
}

fn catch_up(ask: &Ask<'_>, load: Load, needed: f64) -> Reason {
    let policy = ask.case.policy;
    Reason::BacklogCatchUp {
        backlog_records: Num(load.backlog),
        arrival_per_second: Rate(load.arrival),
        capacity_per_replica_per_second: Rate(load.capacity),
        catch_up_within_seconds: policy.catch_up_within.into(),
        startup_seconds: policy.startup.into(),
        pause_seconds: policy.pause.into(),
        target_utilization: Share(policy.target_utilization),
        needed: Num(needed),
    }
}

/// Partitions that are unlike each other: an assignor counts them, and may give the busiest ones to one member. A group
/// that keeps up where it is shows that it does not.
fn by_skew(ask: &Ask<'_>, load: Load, needed: f64, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = ask.case.policy;
    let current = judged.current.unwrap_or(0);
    let wish = ceil_count(needed);
    if !policy.even_distribution || policy.threads_per_replica > 1 || ask.demand.is_weighted || wish == 0 || (wish == current && ask.demand.is_quiet) {
        return;
    }
    let limit = load.capacity * (policy.target_utilization + (1.0 - policy.target_utilization) * 2.0 / 3.0);
    // even partitions are what the same-peak rule looks after
    let rates: Vec<f64> = ask.flows.parts.iter().filter_map(|flow| flow.arrival).collect();
    let (least, most) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    if most <= least * 1.5 {
        return;
    }
    let Some((count, busiest)) = help::by_skew(ask.reading, ask.lag, ask.flows, &ask.demand.overloaded, current, wish, limit) else { return };
    // what keeps up as it is, is not raised for what could happen
    let count = if ask.demand.is_quiet { count.min(current.max(wish)) } else { count };
    if count > wish {
        let reason =
            Reason::SkewedArrival { replicas: wish, busiest_per_second: Rate(busiest), capacity_per_replica_per_second: Rate(load.capacity), needed: count };
        judged.fit = Fit::Any;
        wishes.push((as_f64(count), reason));
    }
}

/// A raise that would not have the backlog gone sooner. What arrives may ask for it all the same: then it is not the backlog
/// that it is for.
fn not_worthwhile(ask: &Ask<'_>, load: Load, why: Why, needed: f64, judged: &mut Judged) {
    let policy = ask.case.policy;
    let current = judged.current.unwrap_or(0);
    let arrives = load.arrival * (1.0 + policy.growth_ratio) / (policy.target_utilization * load.capacity);
    if why != Why::CatchUp || current == 0 || ceil_count(arrives) > current {
        return;
    }
    let count = ceil_count(needed).min(policy.max).min(ask.bounds.useful.unwrap_or(Count::MAX));
    let now = rate::catch_up(load, current, 0.0, 0.0);
    let after = rate::catch_up(load, count, policy.startup.seconds(), policy.pause.seconds());
    if let Some(now) = now
        && after.is_none_or(|after| now <= after)
        && count > current
    {
        let detail = format!("what waits is gone in {} as it is, and not sooner with {count} replicas", Secs(now));
        judged.no_raise.push(Reason::ChangeNotWorthwhile { detail });
    }
}

/// Says when no count that may be had meets the objective, and keeps what there is while it is missed.
fn unreachable(ask: &Ask<'_>, load: Load, need: Need, judged: &mut Judged) {
    let policy = ask.case.policy;
    let most = policy.max.min(ask.bounds.useful.unwrap_or(Count::MAX));
    let Some(why) = wish::unreachable(load, need, most, policy) else { return };
    let (reachable, detail) = match why {
        Unreachable::ShorterThanChange(seconds) => (Some(seconds), "catchUpWithin is not longer than startup and pause together".to_owned()),
        Unreachable::AtMost(seconds) => {
            let spare = as_f64(most) * load.capacity - load.arrival;
            let detail = if spare > 0.0 {
                format!("{most} replicas are the most that partitions and bounds allow, and have {} to spare", Rate(spare))
            } else {
                format!("{most} replicas are the most that partitions and bounds allow, and what waits grows by {}", Rate(-spare))
            };
            (seconds, detail)
        }
    };
    let reason = Reason::ObjectiveUnreachable { objective_seconds: policy.catch_up_within.into(), reachable_seconds: Maybe(reachable.map(Secs)), detail };
    // an objective that cannot be met is no reason to have fewer
    let list = if load.backlog > 0.0 && matches!(why, Unreachable::ShorterThanChange(_)) { &mut judged.no_lower } else { &mut judged.notices };
    list.push(reason);
}

/// With a lower bound alone: raise when the lag says so, else probe down one step after a quiet window.
fn by_lower_bound(ask: &Ask<'_>, load: Load, capacity: Capacity, need: Need, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let current = judged.current.unwrap_or(0);
    let detail = format!("a replica has been seen to read {}, which is a lower bound", Rate(capacity.per_replica));
    judged.notices.push(Reason::CapacityUnknown { detail });
    if !ask.demand.is_quiet {
        // what replicas do while they also wait makes too little of them: no more than twice as many at once, and none
        // before the last change has shown what it brings
        let most = if under_way(ask).is_some() || ask.flows.spans_change { current } else { current.saturating_mul(2) };
        let needed = need.when_changed.clamp(as_f64(current), as_f64(most.max(1)));
        let reason = if ceil_count(needed) > current { catch_up(ask, load, needed) } else { Reason::WithinTarget { current, wanted: current } };
        wishes.push((needed, reason));
        return;
    }
    let quiet = quiet_seconds(ask.reading);
    let was_quiet = ask.series.history.iter().all(|reading| {
        let records = Lag::of(reading, &ask.case.policy.kafka).ok().and_then(|lag| lag.records());
        records.is_some_and(|records| records <= (load.arrival * quiet).max(ask.case.policy.kafka.residual_records))
    });
    // each step is watched for a window of its own, whoever damps the others
    let watched = ask.case.seconds_since_change().is_none_or(|seconds| seconds >= ask.case.policy.scale_down.stabilization.seconds());
    let probe = !judged.one_shot && was_quiet && watched;
    let needed = if load.arrival <= 0.0 && load.backlog <= 0.0 {
        0
    } else if probe {
        // what leaves the busiest member as it is comes first
        let parts = ask.bounds.useful.filter(|_| ask.bounds.is_even && current > 1);
        parts.map_or(current.saturating_sub(1), |parts| next_below(parts, current)).clamp(1, current.max(1))
    } else {
        current
    };
    let reason =
        if needed < current { Reason::SpareCapacity { current, needed: Num(as_f64(needed)) } } else { Reason::WithinTarget { current, wanted: needed } };
    wishes.push((as_f64(needed), reason));
}

/// The next count below that changes anything: the smallest that leaves the busiest member as it is, else the largest that
/// gives it one partition more.
fn next_below(parts: Count, current: Count) -> Count {
    let held = align::peak(parts, current);
    let same = parts.div_ceil(held.max(1));
    if same < current { same } else { parts.div_ceil(held + 1) }
}

/// The last raise, where it has not had the time to show.
fn under_way(ask: &Ask<'_>) -> Option<Reason> {
    let case = ask.case;
    let settles = case.policy.startup.seconds() + case.policy.pause.seconds();
    // and for as long as what is read cannot be told from what was read before it
    let is_mixed = |seconds: f64| ask.flows.spans_change && seconds < settles + PROOF_SECONDS;
    let since = case.seconds_since_change().filter(|seconds| *seconds < settles || is_mixed(*seconds))?;
    let told = case.request.replicas.last_change.and_then(|change| Some(change.to? > change.from?));
    let seen = || {
        case.memory
            .and_then(|memory| memory.spec)
            .zip(case.spec)
            .map(|(seen, spec)| if seen.count == spec { seen.before.unwrap_or(spec) < spec } else { seen.count < spec })
    };
    let raised = told.or_else(seen).unwrap_or(false);
    raised.then_some(Reason::RaiseUnderWay { change_age_seconds: Secs(since), settles_seconds: Secs(settles) })
}

/// What arrives is not known: the backlog alone may raise, and nothing is lowered.
fn by_backlog_alone(ask: &Ask<'_>, backlog: f64, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = ask.case.policy;
    let current = judged.current.unwrap_or(0);
    judged.no_lower.push(Reason::DemandUnknown { detail: "what arrives is not known".to_owned() });
    judged.confidence = confidence(ask, 2, judged.one_shot);
    let needed = ask
        .demand
        .capacity
        .map(|capacity| (capacity, rate::need(Load { arrival: 0.0, backlog, served: 0.0, capacity: capacity.per_replica }, policy).when_changed));
    match needed {
        Some((capacity, needed)) if needed > as_f64(current) => {
            let (backlog_records, capacity_per_replica_per_second) = (Num(backlog), Rate(capacity.per_replica));
            let reason = Reason::BacklogAlone {
                backlog_records,
                capacity_per_replica_per_second,
                catch_up_within_seconds: policy.catch_up_within.into(),
                needed: Num(needed),
            };
            wishes.push((needed, reason));
        }
        // nothing waits, whatever arrives: those that run keep up
        _ if current > 0 && (ask.demand.is_quiet || needed.is_some()) => wishes.push((as_f64(current), Reason::WithinTarget { current, wanted: current })),
        _ => {}
    }
}

/// The delay objective: what has waited for longer than it may has to be worked off in time.
fn by_delay(ask: &Ask<'_>, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = ask.case.policy;
    let (Some(most), Some(delay)) = (policy.max_lag_seconds, ask.delay) else { return };
    // a commit interval always passes before a lag can be seen to fall
    let floor = ask.reading.commit_interval_seconds.known().unwrap_or(0.0);
    let reachable = (policy.startup.seconds() + ask.age_seconds).max(floor);
    if most < reachable {
        judged.notices.push(Reason::ObjectiveUnreachable {
            objective_seconds: Secs(most),
            reachable_seconds: Maybe(Some(Secs(reachable))),
            detail: "starting a replica, the age of the reading and the commit interval take longer than that".to_owned(),
        });
    }
    let current = judged.current.unwrap_or(1).max(1);
    if delay.seconds <= most.max(floor) && !(delay.at_least && delay.seconds >= most) {
        if wishes.is_empty() {
            wishes.push((as_f64(current), Reason::WithinTarget { current, wanted: current }));
        }
        return;
    }
    let wish = wish::by_delay(judged.load, delay.seconds, most, current, policy);
    let reason = Reason::LagObjective { lag_seconds: Secs(delay.seconds), max_lag_seconds: Secs(most), needed: Num(wish) };
    // while it is missed nothing is lowered, whatever else would do with less
    judged.no_lower.push(reason.clone());
    wishes.push((wish, reason));
}
