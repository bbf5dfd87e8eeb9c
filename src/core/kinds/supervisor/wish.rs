//! How many tasks are wanted, unrounded: by rates, by busy share, or by the delay objective. The largest counts.
//!
//! By rates it is the required rate over the capacity of a task ([`rate`]): what arrives, and a lag that has to be gone
//! within `catchUpWithin`. Why not Druid's own rules: fixed steps at record thresholds take hours where one step is
//! enough, and a cost of idle tasks shrinks a busy supervisor as long as it has no lag. A task that is still starting has
//! no rate, and nothing is divided by it; an idle stream wants the minimum.

use super::DruidSupervisorSnapshot;
use super::capacity::{Capacity, Source, Work, is_quiet};
use super::lag::Lag;
use super::window::{Arrival, Window};
use crate::core::advice::Confidence;
use crate::core::decide::{Case, Fit, Judged};
use crate::core::reasons::{Maybe, Num, Rate, Reason, Secs, Share};
use crate::core::sizing::rate::{self, Load};
use crate::core::units::{Count, Timestamp, as_f64, ceil_count};

/// What is known of the demand.
pub struct Demand<'a> {
    /// The newest reading.
    pub reading: &'a DruidSupervisorSnapshot,
    /// The readings of the window.
    pub window: Window<'a>,
    /// Its lag.
    pub lag: Lag<'a>,
    /// What is read per second, each record counted once.
    pub served: Option<f64>,
    /// What arrives.
    pub arrival: Arrival,
    /// How busy the tasks are.
    pub work: Work,
    /// What one task can read.
    pub capacity: Option<Capacity>,
    /// Age of the offsets in seconds.
    pub age_seconds: f64,
}

impl Demand<'_> {
    /// Records that wait; a lag in time stands for what arrived in it.
    #[must_use]
    pub fn backlog(&self) -> Option<f64> {
        self.lag.records.or_else(|| Some(self.lag.seconds()? * self.arrival.per_second?))
    }

    /// Seconds until what arrives now is read.
    #[must_use]
    pub fn lag_seconds(&self) -> Option<f64> {
        if let Some(seconds) = self.lag.seconds() {
            return Some(seconds);
        }
        match (self.lag.records?, self.served) {
            (records, _) if records <= 0.0 => Some(0.0),
            (records, Some(served)) if served > 0.0 => Some(records / served),
            _ => None,
        }
    }

    /// Is there demand.
    #[must_use]
    pub fn active(&self, case: &Case<'_>) -> Option<bool> {
        let arrives = self.arrival.per_second.is_some_and(|rate| rate > 0.0);
        let waits = match (self.lag.records, self.lag.seconds()) {
            (Some(records), _) => Some(records > case.policy.activation_backlog),
            (None, Some(seconds)) => Some(seconds > 0.0),
            (None, None) => None,
        };
        if arrives { Some(true) } else { waits }
    }
}

/// A wish with its reason, where there is one.
pub type Wish = (f64, Reason);

/// What is asked for, unrounded, the largest first. Empty when the demand is unknown; then `judged.hold` says why.
pub fn wishes(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged) -> Vec<Wish> {
    let mut wishes = Vec::new();
    match (demand.arrival.per_second, demand.backlog(), demand.capacity) {
        (Some(arrival), Some(backlog), Some(capacity)) => by_rates(case, demand, judged, arrival, backlog, capacity, &mut wishes),
        (None, Some(backlog), Some(capacity)) => by_lag_alone(case, judged, backlog, capacity, &mut wishes),
        (Some(arrival), Some(backlog), None) if arrival <= 0.0 && backlog <= 0.0 => {
            wishes.push((0.0, Reason::TasksSpare { current: judged.current.unwrap_or(0), arrival_per_second: Maybe(Some(Rate(0.0))), needed: Num(0.0) }));
        }
        _ => by_busy(case, demand, judged, &mut wishes),
    }
    by_delay(case, demand, judged, &mut wishes);
    wishes.sort_by(|a, b| b.0.total_cmp(&a.0));
    wishes
}

fn by_rates(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged, arrival: f64, backlog: f64, capacity: Capacity, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let served = demand.served.unwrap_or(arrival);
    let load = Load { arrival, backlog, served, capacity: capacity.per_task };
    judged.load = Some(load);
    let need = rate::need(load, policy);
    let current = judged.current.unwrap_or(0);
    let estimates = usize::from(matches!(capacity.source, Source::Declared | Source::Estimated))
        + if capacity.source == Source::LowerBound { 2 } else { 0 }
        + usize::from(demand.arrival.at_least || demand.arrival.estimated)
        // what others use of the slots is taken for nothing where nobody tells
        + usize::from(demand.reading.worker_slots.is_some_and(|slots| slots.used_by_others.is_none()));
    judged.confidence = match (estimates, judged.one_shot) {
        (0, false) => Confidence::High,
        (0, true) | (1, _) => Confidence::Medium,
        _ => Confidence::Low,
    };
    unreachable(case, judged, load, need);
    if capacity.source == Source::LowerBound {
        by_lower_bound(case, demand, judged, load, need, wishes);
        return;
    }
    if current > 0 && policy.even_distribution {
        judged.fit = Fit::SamePeak(need.when_changed);
    }
    judged.past = past(case, demand, load);
    // staying costs neither a start nor a pause: the present count is kept as long as it is enough by itself
    let is_enough = current > 0 && ceil_count(need.when_changed) > current && ceil_count(need.when_kept) <= current;
    let needed = if is_enough { as_f64(current) } else { need.when_changed };
    let wanted = ceil_count(needed);
    let per_task = Rate(load.capacity);
    let utilization = Share(policy.target_utilization);
    let reason = if wanted < current {
        Reason::TasksSpare { current, arrival_per_second: Maybe(Some(Rate(arrival))), needed: Num(needed) }
    } else if is_enough || wanted == current {
        let needed = if is_enough { need.when_kept } else { needed };
        Reason::TasksWithin { current, arrival_per_second: Rate(arrival), capacity_per_task_per_second: per_task, needed: Num(needed) }
    } else if is_quiet(&demand.lag, Some(arrival)) {
        Reason::TasksDemand { arrival_per_second: Rate(arrival), capacity_per_task_per_second: per_task, target_utilization: utilization, needed: Num(needed) }
    } else {
        catch_up(case, load, needed)
    };
    wishes.push((needed, reason));
}

fn catch_up(case: &Case<'_>, load: Load, needed: f64) -> Reason {
    let policy = case.policy;
    Reason::TasksCatchUp {
        backlog_records: Num(load.backlog),
        arrival_per_second: Rate(load.arrival),
        capacity_per_task_per_second: Rate(load.capacity),
        catch_up_within_seconds: policy.catch_up_within.into(),
        startup_seconds: policy.startup.into(),
        pause_seconds: policy.pause.into(),
        target_utilization: Share(policy.target_utilization),
        needed: Num(needed),
    }
}

/// What earlier readings of the window would have asked for, at what arrives now.
fn past(case: &Case<'_>, demand: &Demand<'_>, load: Load) -> Vec<(Timestamp, Count)> {
    let wish = |reading: &DruidSupervisorSnapshot| {
        let lag = Lag::of(reading).ok().flatten()?;
        let backlog = lag.records.or_else(|| Some(lag.seconds()? * load.arrival))?;
        let arrival = reading.arrival_per_second.map_or(load.arrival, crate::core::units::Amount::get);
        Some(ceil_count(rate::need(Load { arrival, backlog, ..load }, case.policy).when_changed))
    };
    demand.window.readings().filter(|(at, _)| *at < case.now).filter_map(|(at, reading)| Some((at, wish(reading)?))).collect()
}

/// Says when no count that may be had meets the objective, and keeps what there is while it is missed.
fn unreachable(case: &Case<'_>, judged: &mut Judged, load: Load, need: rate::Need) {
    let policy = case.policy;
    let (startup, pause) = (policy.startup.seconds(), policy.pause.seconds());
    if !need.reachable {
        let reason = Reason::ObjectiveUnreachable {
            objective_seconds: policy.catch_up_within.into(),
            reachable_seconds: Maybe(Some(Secs(startup + pause))),
            detail: "catchUpWithin is not longer than startup and pause together".to_owned(),
        };
        let list = if load.backlog > 0.0 { &mut judged.no_lower } else { &mut judged.notices };
        list.push(reason);
        return;
    }
    let most = policy.max.min(judged.partitions.unwrap_or(Count::MAX));
    if load.backlog > 0.0 && ceil_count(need.when_changed) > most {
        let seconds = rate::catch_up(load, most, startup, pause);
        if seconds.is_none_or(|seconds| seconds > policy.catch_up_within.seconds()) {
            judged.notices.push(Reason::ObjectiveUnreachable {
                objective_seconds: policy.catch_up_within.into(),
                reachable_seconds: Maybe(seconds.map(Secs)),
                detail: format!("{most} tasks are the most that the bounds and the partitions allow"),
            });
        }
    }
}

/// With a lower bound alone: raise when the lag says so, else probe down one step after a quiet window.
fn by_lower_bound(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged, load: Load, need: rate::Need, wishes: &mut Vec<Wish>) {
    let current = judged.current.unwrap_or(0);
    judged.notices.push(Reason::CapacityUnknown { detail: format!("a task has been seen to read {}, which is a lower bound", Rate(load.capacity)) });
    if !is_quiet(&demand.lag, Some(load.arrival)) {
        let needed = need.when_changed.max(as_f64(current));
        wishes.push((needed, catch_up(case, load, needed)));
        return;
    }
    let was_quiet = demand.window.readings().all(|(_, reading)| matches!(Lag::of(reading), Ok(Some(lag)) if is_quiet(&lag, Some(load.arrival))));
    // each step is watched for a window of its own
    let watched = case.seconds_since_change().is_none_or(|seconds| seconds >= case.policy.supervisor.window.seconds());
    let needed = if load.arrival <= 0.0 && load.backlog <= 0.0 {
        0
    } else if !judged.one_shot && was_quiet && watched {
        // a step that does not lower the share of the busiest task is no step
        let peak = judged.partitions.map_or(0, |partitions| crate::core::sizing::align::peak(partitions, current));
        judged.partitions.filter(|_| current > 1).map_or(current.saturating_sub(1), |partitions| partitions.div_ceil(peak + 1)).clamp(1, current.max(1))
    } else {
        current
    };
    let reason = if needed < current {
        Reason::TasksSpare { current, arrival_per_second: Maybe(Some(Rate(load.arrival))), needed: Num(as_f64(needed)) }
    } else {
        Reason::TasksWithin { current, arrival_per_second: Rate(load.arrival), capacity_per_task_per_second: Rate(load.capacity), needed: Num(as_f64(needed)) }
    };
    wishes.push((as_f64(needed), reason));
}

/// What arrives is not known: the lag alone may raise, and nothing is lowered.
fn by_lag_alone(case: &Case<'_>, judged: &mut Judged, backlog: f64, capacity: Capacity, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let current = as_f64(judged.current.unwrap_or(0));
    let needed = rate::need(Load { arrival: 0.0, backlog, served: 0.0, capacity: capacity.per_task }, policy).when_changed;
    let unknown = Reason::DemandUnknown { detail: "what arrives is not known".to_owned() };
    judged.no_lower.push(unknown);
    if needed > current {
        wishes.push((
            needed,
            Reason::BacklogAlone {
                backlog_records: Num(backlog),
                capacity_per_replica_per_second: Rate(capacity.per_task),
                catch_up_within_seconds: policy.catch_up_within.into(),
                needed: Num(needed),
            },
        ));
    } else {
        judged.hold.append(&mut judged.no_lower);
    }
}

/// Rates are not known, but how busy the tasks are is: enough as long as no lag waits beside it.
fn by_busy(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let known = demand.work.busy.zip(demand.work.groups).filter(|_| is_quiet(&demand.lag, demand.arrival.per_second));
    let Some((busy, groups)) = known else {
        let rate = demand.work.each.unwrap_or(0.0);
        let detail = match demand.reading.task_age_seconds {
            Some(age) if rate <= 0.0 => {
                format!("no processing rate has been measured yet (the youngest task has run for {}), and perReplicaPerSecond is not declared", Secs(age.get()))
            }
            _ => "no processing rate has been measured yet, and perReplicaPerSecond is not declared".to_owned(),
        };
        judged.hold.push(if demand.backlog().is_some_and(|backlog| backlog > 0.0) || demand.lag.seconds().is_some_and(|seconds| seconds > 0.0) {
            Reason::CapacityUnknown { detail }
        } else {
            Reason::DemandUnknown { detail: "neither what arrives and what a task reads, nor how busy the tasks are, is known".to_owned() }
        });
        return;
    };
    let current = judged.current.unwrap_or(0);
    let needed = busy * as_f64(groups) / case.policy.target_utilization;
    judged.confidence = Confidence::Low;
    judged.fit = if case.policy.even_distribution { Fit::SamePeak(needed) } else { Fit::Any };
    let (busy_ratio, target_utilization) = (Share(busy), Share(case.policy.target_utilization));
    wishes.push((
        needed,
        match ceil_count(needed).cmp(&current) {
            std::cmp::Ordering::Less => Reason::TasksSpare { current, arrival_per_second: Maybe(None), needed: Num(needed) },
            std::cmp::Ordering::Equal => Reason::TasksBusyEnough { groups, busy_ratio, target_utilization },
            std::cmp::Ordering::Greater => Reason::TasksBusy { groups, busy_ratio, target_utilization, needed: Num(needed) },
        },
    ));
}

/// The delay objective: while it is missed nothing is lowered, and what waits for too long is worked off in time.
fn by_delay(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let (Some(most), Some(lag)) = (policy.max_lag_seconds, demand.lag_seconds()) else { return };
    let reachable = policy.startup.seconds() + demand.age_seconds;
    if most < reachable {
        judged.notices.push(Reason::ObjectiveUnreachable {
            objective_seconds: Secs(most),
            reachable_seconds: Maybe(Some(Secs(reachable))),
            detail: "starting a task and the age of the offsets take longer than that".to_owned(),
        });
    }
    let current = as_f64(judged.current.unwrap_or(1).max(1));
    if lag <= most {
        // within the objective there is no reason to move, unless something else has one
        if wishes.is_empty() && judged.hold.iter().all(|reason| matches!(reason, Reason::DemandUnknown { .. } | Reason::CapacityUnknown { .. })) {
            judged.notices.append(&mut judged.hold);
            wishes.push((current, Reason::LagWithin { lag_seconds: Secs(lag), max_lag_seconds: Secs(most) }));
        }
        return;
    }
    let by_rate = judged.load.map(|load| {
        let over = Load { backlog: (load.backlog - most * load.arrival).max(0.0), ..load };
        rate::need(over, policy).when_changed.max(current)
    });
    // without a capacity the count grows with the delay, at most doubling at a time
    let wish = by_rate.unwrap_or_else(|| current * (lag / most).min(2.0));
    let reason = Reason::TasksLag { lag_seconds: Secs(lag), max_lag_seconds: Secs(most), needed: Num(wish) };
    judged.no_lower.push(reason.clone());
    if by_rate.is_none() {
        judged.hold.retain(|reason| !matches!(reason, Reason::DemandUnknown { .. } | Reason::CapacityUnknown { .. }));
    }
    wishes.push((wish, reason));
}
