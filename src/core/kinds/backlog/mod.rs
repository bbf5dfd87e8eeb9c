//! Any queue: a backlog, what arrives, and those who serve it.
//!
//! The wish is the largest of what is asked for by
//! - rates: what arrives and what waits against the capacity of a replica ([`rate`]),
//! - a threshold, where `perReplicaBacklog` is given: it takes the place of rates,
//! - the delay objective `maxLagSeconds`,
//! - other signals for the same target.
//!
//! Why not the threshold alone, as KEDA does: a busy group without a backlog would be cut, and a backlog says nothing
//! of how fast it is served. At start nothing is lowered before the window is full; an idle queue goes to zero only
//! after `idleBeforeZero`. Items are whole, rates are items per second.

mod demand;
mod reading;

pub use self::reading::*;

use self::demand::{Demand, measure, quiet_items};
use super::super::advice::{Action, ActionKind, Confidence, Unit};
use super::super::decide::settle::{Shown, Wish, is_for_zero, settle};
use super::super::decide::{Case, Fit, Judged, conclude, effect};
use super::super::memory::{CapacityAt, CapacitySeen, CounterSeen};
use super::super::reasons::{Maybe, Names, Num, Rate, Reason, Secs, Share};
use super::super::request::{Request, Series};
use super::super::sizing::rate::{self, Load};
use super::super::sizing::wish::{self, Why};
use super::super::units::{Amount, Count, Known, Timestamp, as_f64, ceil_count, seconds_between};
use super::super::{advice::Advice, trust, trust::Trust};

/// So many seconds of service that wait keep every replica busy.
const STANDS_SECONDS: f64 = 10.0;

/// Judges a queue.
#[must_use]
pub fn advise(request: &Request, series: &Series<BacklogSnapshot>) -> Advice {
    advise_with(request, series, |_| {})
}

/// Judges a queue of a kind that has more to say: `amend` sees what is judged of a reading that can be believed.
pub(super) fn advise_with(request: &Request, series: &Series<BacklogSnapshot>, amend: impl FnOnce(&mut Judged)) -> Advice {
    let case = Case::new(request);
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::Replicas);
    judged.notices.extend(trust.notices.iter().cloned());
    let Some(reading) = series.latest.as_deref().filter(|_| trust.is_fresh()) else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.complete = series.latest.is_some();
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    let demand = measure(&case, series, reading, &trust);
    judge(&case, series, reading, &trust, &demand, &mut judged);
    amend(&mut judged);
    let floor = in_flight_floor(&case, reading, &demand);
    let current = judged.current;
    conclude(&case, &trust, judged, |count, reasons, _| {
        let kept = floor.min(current.unwrap_or(0)).max(count);
        if kept > count {
            reasons.push(Reason::InFlightWork { in_flight: reading.in_flight.unwrap_or(0) });
        }
        kept
    })
}

fn judge(case: &Case<'_>, series: &Series<BacklogSnapshot>, reading: &BacklogSnapshot, trust: &Trust, demand: &Demand, judged: &mut Judged) {
    judged.inputs.clone_from(&demand.inputs);
    judged.partitions = reading.partitions.filter(|count| *count > 0);
    judged.active = demand.active(case.policy);
    if judged.active.is_none() && judged.current == Some(0) && demand.waited.is_some_and(|waited| waited > case.policy.activation_backlog) {
        // nobody is there to have worked off what was last seen to wait
        judged.active = Some(true);
    }
    judged.complete = demand.missing.is_empty();
    judged.hold.extend(demand.contradictions.iter().cloned());
    judged.hold.extend(case.older_than_change(trust));
    judged.notices.extend(demand.notices.iter().cloned());
    judged.no_lower.extend(window_not_full(case, series));
    judged.no_lower.extend(demand.sudden_zero.clone());
    judged.no_lower.extend(demand.reset.clone());
    if !demand.missing.is_empty() {
        judged.no_lower.insert(0, Reason::IncompleteReading { missing: Names(demand.missing.clone()) });
    }
    broken_rollout(case, judged);

    effect(case, series, demand, trust, judged);
    let shown = Shown { backlog: demand.backlog, arrival: demand.arrival, in_flight: reading.in_flight.unwrap_or(0), is_traffic: judged.active == Some(true) };
    let missing = || {
        if demand.missing.is_empty() {
            return "neither rates, a threshold nor signals are given".to_owned();
        }
        format!("missing {}", demand.missing.join(", "))
    };
    let wishes = wishes(case, series, reading, demand, judged);
    // what was counted is remembered also where nothing can be asked for yet: the next reading is compared with it
    keep_numbers(case, trust, demand, judged);
    if settle(case, wishes, shown, missing, judged) && is_for_zero(case, judged) {
        let idle = case.idle_seconds(series, |reading| reading.is_quiet(case.policy));
        judged.idle_for(idle, case.policy);
    }
}

/// A window is full of readings that told something, not of questions that were asked.
fn window_not_full(case: &Case<'_>, series: &Series<BacklogSnapshot>) -> Option<Reason> {
    let window = case.policy.scale_down.stabilization;
    let told = |reading: &BacklogSnapshot| {
        let backlog = reading.backlog.map_or(case.policy.no_data.is_some(), |backlog| backlog >= 0);
        backlog
            || reading.per_replica.as_ref().is_some_and(|values| values.iter().any(Option::is_some))
            || reading.signals.iter().any(|signal| signal.wanted.is_some())
    };
    let history: Vec<_> = series.history.iter().filter(|reading| told(reading)).cloned().collect();
    if history.is_empty() && !series.history.is_empty() {
        return Some(Reason::WindowNotFull { have_seconds: Secs(0.0), window_seconds: Secs::from(window) });
    }
    case.window_not_full(&Series { latest: series.latest.clone(), history }, window)
}

/// What the last raise has brought, where each count is known and work stands in line.
fn effect(case: &Case<'_>, series: &Series<BacklogSnapshot>, demand: &Demand, trust: &Trust, judged: &mut Judged) {
    let stands = |backlog: Option<f64>, served: f64| backlog.is_some_and(|backlog| backlog > served * STANDS_SECONDS);
    let seen = |count: Option<Count>, served: Option<f64>, backlog: Option<f64>, at: Timestamp| {
        let capacity_per_second = served.filter(|served| *served > 0.0 && stands(backlog, *served))?;
        Some(CapacityAt { parallelism: count.filter(|count| *count > 0)?, capacity_per_second, at })
    };
    let told = series.history.iter().filter_map(|earlier| {
        let backlog = earlier.backlog.map(demand::non_negative);
        seen(earlier.replicas, earlier.served_per_second.known(), backlog, trust::measured_at(earlier.as_ref(), case.now))
    });
    let now = seen(demand.replicas, demand.served, demand.backlog, trust.observed_at.unwrap_or(case.now)).filter(|_| !demand.is_mixed);
    effect::judge(case, told, now, judged);
}

/// What each way of looking at the demand asks for, unrounded.
fn wishes(case: &Case<'_>, series: &Series<BacklogSnapshot>, reading: &BacklogSnapshot, demand: &Demand, judged: &mut Judged) -> Vec<Wish> {
    let policy = case.policy;
    let mut wishes = Vec::new();
    if let Some(per_replica) = policy.per_replica_backlog {
        judged.fit = if policy.even_distribution { Fit::NextUseful } else { Fit::Any };
        if let Some(backlog) = demand.threshold_backlog(case, judged.current) {
            let needed = backlog / per_replica;
            wishes.push((needed, Reason::LagPerReplica { backlog_records: Num(backlog), per_replica_backlog: Num(per_replica), needed: Num(needed) }));
            judged.confidence = demand.confidence(0, judged.one_shot);
            judged.past = past(series, case, |reading| reading.backlog.map(|backlog| demand::non_negative(backlog) / per_replica));
        }
    } else {
        by_rates(case, series, demand, judged, &mut wishes);
    }
    by_delay(case, demand, judged, &mut wishes);
    for signal in &reading.signals {
        if let Some(wanted) = signal.wanted {
            wishes.push((as_f64(wanted), Reason::OtherSignal { name: signal.name.clone(), wanted }));
        }
    }
    wishes
}

/// Wishes of earlier readings, rounded up.
fn past(series: &Series<BacklogSnapshot>, case: &Case<'_>, wish: impl Fn(&BacklogSnapshot) -> Option<f64>) -> Vec<(Timestamp, Count)> {
    series.history.iter().filter_map(|reading| Some((trust::measured_at(reading.as_ref(), case.now), ceil_count(wish(reading)?)))).collect()
}

fn by_rates(case: &Case<'_>, series: &Series<BacklogSnapshot>, demand: &Demand, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let (Some(arrival), Some(backlog)) = (demand.arrival, demand.backlog) else {
        if let (Some(backlog), Some(capacity)) = (demand.backlog, &demand.capacity) {
            by_backlog_alone(case, backlog, capacity.per_replica, demand, judged, wishes);
        }
        return;
    };
    let Some(capacity) = &demand.capacity else {
        judged.notices.push(Reason::CapacityUnknown { detail: "nothing has been served yet, and perReplicaPerSecond is not declared".to_owned() });
        if arrival > 0.0 || backlog > policy.activation_backlog {
            wishes.push((as_f64(judged.current.unwrap_or(1).max(1)), Reason::ActiveTraffic { arrival_per_second: Maybe(Some(Rate(arrival))), in_flight: 0 }));
        } else {
            wishes.push((0.0, Reason::SpareCapacity { current: judged.current.unwrap_or(0), needed: Num(0.0) }));
        }
        return;
    };
    let load = Load { arrival, backlog, served: demand.served.unwrap_or(arrival), capacity: capacity.per_replica };
    judged.load = Some(load);
    let current = judged.current.unwrap_or(0);
    let by = wish::by_rates(load, policy, current, backlog <= 0.0);
    if !by.need.reachable {
        let reason = Reason::ObjectiveUnreachable {
            objective_seconds: policy.catch_up_within.into(),
            reachable_seconds: Maybe(Some(Secs(policy.startup.seconds() + policy.pause.seconds()))),
            detail: "catchUpWithin is not longer than startup and pause together".to_owned(),
        };
        // an objective that cannot be met is no reason to have fewer
        let list = if backlog > 0.0 { &mut judged.no_lower } else { &mut judged.notices };
        list.push(reason);
    }
    judged.confidence = demand.confidence(usize::from(capacity.estimates() > 0), judged.one_shot);
    if current > 0 && policy.even_distribution {
        judged.fit = Fit::SamePeak(by.need.when_changed);
    }
    if capacity.is_lower_bound() {
        by_lower_bound(case, series, load, by.need, judged, wishes);
        return;
    }
    judged.past = past(series, case, |reading| {
        let arrival = reading.arrival_per_second.map(Amount::get)?;
        let load = Load { arrival, backlog: demand::non_negative(reading.backlog?), served: reading.served_per_second.map_or(arrival, Amount::get), ..load };
        Some(rate::need(load, policy).when_changed)
    });
    let (needed, per_replica) = (by.needed, Rate(load.capacity));
    let reason = match by.why {
        Why::Spare => Reason::SpareCapacity { current, needed: Num(needed) },
        Why::Within => Reason::WithinTarget { current, wanted: ceil_count(needed) },
        Why::CatchUp => Reason::BacklogCatchUp {
            backlog_records: Num(backlog),
            arrival_per_second: Rate(arrival),
            capacity_per_replica_per_second: per_replica,
            catch_up_within_seconds: policy.catch_up_within.into(),
            startup_seconds: policy.startup.into(),
            pause_seconds: policy.pause.into(),
            target_utilization: Share(policy.target_utilization),
            needed: Num(needed),
        },
        Why::Arrival => Reason::DemandAboveCapacity {
            arrival_per_second: Rate(arrival),
            capacity_per_replica_per_second: per_replica,
            target_utilization: Share(policy.target_utilization),
            needed: Num(needed),
        },
    };
    wishes.push((needed, reason));
}

/// What arrives is not known: the backlog alone may raise, and nothing is lowered.
fn by_backlog_alone(case: &Case<'_>, backlog: f64, capacity: f64, demand: &Demand, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let needed = rate::need(Load { arrival: 0.0, backlog, served: 0.0, capacity }, policy).when_changed;
    if needed <= as_f64(judged.current.unwrap_or(0)) {
        return;
    }
    judged.no_lower.push(Reason::DemandUnknown { detail: "what arrives is not known".to_owned() });
    judged.confidence = demand.confidence(2, judged.one_shot);
    let (backlog_records, capacity_per_replica_per_second) = (Num(backlog), Rate(capacity));
    wishes.push((
        needed,
        Reason::BacklogAlone { backlog_records, capacity_per_replica_per_second, catch_up_within_seconds: policy.catch_up_within.into(), needed: Num(needed) },
    ));
}

/// With a lower bound alone: raise when the backlog says so, else probe down one step after a quiet window.
fn by_lower_bound(case: &Case<'_>, series: &Series<BacklogSnapshot>, load: Load, need: rate::Need, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let current = judged.current.unwrap_or(0);
    judged.notices.push(Reason::CapacityUnknown { detail: format!("a replica has been seen to serve {}, which is a lower bound", Rate(load.capacity)) });
    // a few seconds of arrivals always wait somewhere
    let is_quiet = |backlog: f64, arrival: f64| backlog <= quiet_items(arrival);
    if !is_quiet(load.backlog, load.arrival) {
        let needed = need.when_changed.max(as_f64(current));
        wishes.push((
            needed,
            Reason::DemandAboveCapacity {
                arrival_per_second: Rate(load.arrival),
                capacity_per_replica_per_second: Rate(load.capacity),
                target_utilization: Share(1.0),
                needed: Num(needed),
            },
        ));
        return;
    }
    let was_quiet = series.history.iter().all(|reading| {
        let arrival = reading.arrival_per_second.map_or(load.arrival, Amount::get);
        reading.backlog.is_some_and(|backlog| is_quiet(demand::non_negative(backlog), arrival))
    });
    // each step is watched for a window of its own, whoever damps the others
    let watched = case.seconds_since_change().is_none_or(|seconds| seconds >= case.policy.scale_down.stabilization.seconds());
    let probe = !judged.one_shot && was_quiet && watched && load.arrival < as_f64(current) * load.capacity * 1.000_001;
    let needed = if load.arrival <= 0.0 && load.backlog <= 0.0 {
        0
    } else if probe {
        current.saturating_sub(1).max(1)
    } else {
        current
    };
    judged.fit = Fit::Any;
    let reason =
        if needed < current { Reason::SpareCapacity { current, needed: Num(as_f64(needed)) } } else { Reason::WithinTarget { current, wanted: needed } };
    wishes.push((as_f64(needed), reason));
}

/// The delay objective: what waits longer than it has to be worked off in time.
fn by_delay(case: &Case<'_>, demand: &Demand, judged: &mut Judged, wishes: &mut Vec<Wish>) {
    let policy = case.policy;
    let (Some(most), Some(lag)) = (policy.max_lag_seconds, demand.lag_seconds) else { return };
    if most < policy.startup.seconds() + demand.age_seconds {
        judged.notices.push(Reason::ObjectiveUnreachable {
            objective_seconds: Secs(most),
            reachable_seconds: Maybe(Some(Secs(policy.startup.seconds() + demand.age_seconds))),
            detail: "starting a replica and the age of the reading take longer than that".to_owned(),
        });
    }
    let items = demand.backlog.map(|backlog| backlog + demand.in_flight);
    let current = judged.current.unwrap_or(1).max(1);
    if lag <= most {
        // within the objective there is no reason to move, unless rates or a threshold have one
        if wishes.is_empty() {
            wishes.push((as_f64(current), Reason::WithinTarget { current, wanted: current }));
        }
        return;
    }
    if items.is_some_and(|items| items <= as_f64(current)) {
        judged.notices.push(Reason::PoisonMessage { oldest_seconds: Secs(lag), backlog: Num(items.unwrap_or(0.0)) });
        judged
            .actions
            .push(Action::new(ActionKind::Investigate, format!("look at the oldest message: it has waited for {} although replicas are free", Secs(lag))));
    }
    let wish = wish::by_delay(judged.load, lag, most, current, policy);
    // no item can be worked on by two
    let wish = items.map_or(wish, |items| wish.min(items.max(1.0)));
    let reason = Reason::LagObjective { lag_seconds: Secs(lag), max_lag_seconds: Secs(most), needed: Num(wish) };
    // while it is missed nothing is lowered, whatever else would do with less
    judged.no_lower.push(reason.clone());
    wishes.push((wish, reason));
}

/// A rollout that does not get its pods ready is not mended by more pods; neither is a crash loop.
fn broken_rollout(case: &Case<'_>, judged: &mut Judged) {
    let replicas = &case.request.replicas;
    if let Some(rollout) = replicas.rollout_seconds.map(Amount::get) {
        let unready = replicas.ready.zip(replicas.status.or(replicas.spec)).is_some_and(|(ready, wanted)| ready < wanted);
        if unready && rollout > case.policy.startup.seconds() {
            judged.no_raise.push(Reason::RolloutInProgress {
                rollout_seconds: Secs(rollout),
                ready: Maybe(replicas.ready),
                existing: Maybe(replicas.status.or(replicas.spec)),
            });
        }
    }
    if let (Some(restarts), Some(count)) = (replicas.restarts_last10_minutes, replicas.ready.or(replicas.spec))
        && restarts >= 5.max(count)
    {
        judged.no_raise.push(Reason::Restarting {
            detail: format!("{restarts} restarts in the last ten minutes over {count} replicas: they crash, and more would crash too"),
        });
    }
}

/// Items in work that a cut could kill, as a count of replicas: where each takes long, or where there are so few that
/// each may hold a replica of its own.
fn in_flight_floor(case: &Case<'_>, reading: &BacklogSnapshot, demand: &Demand) -> Count {
    const LONG_SECONDS: f64 = 30.0;
    let Some(in_flight) = reading.in_flight.filter(|count| *count > 0) else { return 0 };
    let replicas = in_flight.div_ceil(case.policy.threads_per_replica.max(1));
    let is_long = match reading.seconds_per_item.map(Amount::get) {
        Some(seconds) => seconds >= LONG_SECONDS,
        None => demand.replicas.is_some_and(|count| replicas <= count),
    };
    if is_long { replicas } else { 1 }
}

/// What the next decision has to know of this reading.
fn keep_numbers(case: &Case<'_>, trust: &Trust, demand: &Demand, judged: &mut Judged) {
    let at = trust.observed_at.unwrap_or(case.now);
    if let Some(capacity) = demand.capacity.as_ref().filter(|capacity| capacity.is_fresh_measure()) {
        judged.memory.capacity = Some(CapacitySeen { per_replica_per_second: capacity.per_replica, at });
    }
    if let Some(value) = demand.arrived_total {
        judged.memory.arrived = Some(CounterSeen { value, at });
    }
    if let Some(backlog) = demand.backlog {
        judged.memory.backlog = Some(CounterSeen { value: ceil_count(backlog), at });
    }
    if judged.confidence == Confidence::High && seconds_between(at, case.now) > case.policy.stale_after.seconds() {
        judged.confidence = Confidence::Medium;
    }
}
