//! A streaming supervisor of Druid: how many task groups should read its stream.
//!
//! The wish is the required rate over the capacity of a task (see `wish`), or Druid's own thresholds with the preset
//! `druid-lag-based` (see `lag_based`). It is cut to what partitions and worker slots can use. A change of `taskCount`
//! makes all reading tasks publish and start anew, so nothing is changed while tasks hand over, while some do not run,
//! or on what an Overlord that has just started knows. An idle or suspended supervisor is left alone.
//!
//! Why not `readingTasks` as the present count: it falls to zero while tasks hand over, and a scaler that believes it
//! starts again from the minimum. Counts are task groups; slots are groups times their copies.

mod action;
mod capacity;
mod lag;
mod lag_based;
mod reading;
mod window;
mod wish;

pub use self::reading::*;

use self::capacity::{Source, Work};
use self::lag::Lag;
use self::window::Window;
use self::wish::Demand;
use super::super::advice::{Action, ActionKind, Advice, Input, InputState, Unit};
use super::super::decide::{Case, Judged, conclude};
use super::super::memory::{CapacitySeen, CounterSeen};
use super::super::policy::Policy;
use super::super::reasons::{Maybe, Names, Num, Rate, Reason, Secs, Share, Tasks};
use super::super::request::{Request, Series};
use super::super::trust::{self, Trust};
use super::super::units::{Amount, Count, Known, as_f64, ceil_count, seconds_between};

/// An Overlord that has run for less than this does not know all of its tasks yet.
const OVERLORD_KNOWS_AFTER_SECONDS: f64 = 60.0;
/// A lag of more records than this does not vanish from one reading to the next.
const NOTICEABLE_RECORDS: f64 = 1000.0;

/// Judges a supervisor.
#[must_use]
pub fn advise(request: &Request, series: &Series<DruidSupervisorSnapshot>) -> Advice {
    let last = series.latest.as_deref().or_else(|| series.history.last().map(std::sync::Arc::as_ref));
    let policy = with_spec_bounds(request, last);
    let case = Case::counting(request, &policy, request.replicas.spec.or_else(|| last?.task_count));
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::Tasks);
    judged.notices.extend(trust.notices.iter().cloned());
    judged.partitions = last.and_then(DruidSupervisorSnapshot::partition_count);
    let Some(reading) = series.latest.as_deref().filter(|_| trust.is_fresh()) else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.complete = series.latest.is_some();
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    judged.complete = true;
    judged.slots = reading.worker_slots.map(|slots| slots.available() / reading.copies());
    if reading.state.as_deref() == Some("IDLE") {
        idle(reading, &mut judged);
    } else {
        state(&case, reading, &trust, &mut judged);
        judge(&case, series, reading, &trust, &mut judged);
    }
    let current = judged.current;
    let mut advice = conclude(&case, &trust, judged, |count, reasons, _| {
        hand_over(reading, current, count, reasons);
        count
    });
    said_once(&mut advice.reasons);
    more_workers(reading, &mut advice);
    action::complete(reading, &mut advice);
    advice
}

/// The policy with the bounds of the spec's own autoscaler where the policy names none.
fn with_spec_bounds(request: &Request, last: Option<&DruidSupervisorSnapshot>) -> Policy {
    let mut policy = request.policy.clone();
    let Some(bounds) = last.and_then(|last| last.autoscaler.as_ref()) else { return policy };
    let (has_min, has_max) = (request.given.min.or(request.given.task_count_min).is_some(), request.given.max.or(request.given.task_count_max).is_some());
    if let Some(max) = bounds.task_count_max.filter(|_| !has_max) {
        policy.max = if has_min { max.max(policy.min) } else { max };
    }
    if let Some(min) = bounds.task_count_min.filter(|_| !has_min) {
        policy.min = min.min(policy.max);
    }
    policy.min = policy.min.min(policy.max);
    policy
}

/// An idle supervisor runs no task and starts them by itself when records come.
fn idle(reading: &DruidSupervisorSnapshot, judged: &mut Judged) {
    judged.active = Some(false);
    judged.wish = judged.current.map(as_f64);
    judged.why.push(Reason::SupervisorIdle { supervisor: name(reading) });
}

/// What forbids any change whatever the demand is.
fn state(case: &Case<'_>, reading: &DruidSupervisorSnapshot, trust: &Trust, judged: &mut Judged) {
    let hold = &mut judged.hold;
    if reading.state.as_deref() == Some("SUSPENDED") {
        hold.push(Reason::Suspended { name: name(reading) });
    } else if let Some(state) = reading.trouble() {
        hold.push(Reason::SupervisorState { supervisor: name(reading), state: state.to_owned() });
    }
    if let Some(uptime) = reading.overlord_uptime_seconds.map(Amount::get).filter(|uptime| *uptime < OVERLORD_KNOWS_AFTER_SECONDS) {
        hold.push(Reason::OverlordRestarted {
            uptime_seconds: Secs(uptime),
            reading_tasks: Maybe(reading.reading_tasks),
            publishing_tasks: Maybe(reading.publishing_tasks),
        });
    }
    let stale_after = case.policy.stale_after;
    if let Some(age) = reading.offsets_age_seconds.map(Amount::get) {
        // fetched before the reading was taken, so as old as both together
        let age = age + trust.age_seconds.unwrap_or(0.0);
        if age > stale_after.seconds() {
            judged.complete = false;
            hold.push(Reason::OffsetsStale { age_seconds: Secs(age), stale_after_seconds: stale_after.into() });
        }
    }
    hold.extend(case.older_than_change(trust));
    let publishing = reading.publishing_tasks.unwrap_or(0);
    let short = reading.reading_tasks.zip(reading.expected_tasks()).filter(|(running, expected)| running < expected);
    if publishing > 0 {
        let (supervisor, tasks) = (name(reading), Tasks(publishing));
        // groups that hand over a few at a time always publish somewhere: that blocks no raise while all the others read
        if reading.rolls() && short.is_none() {
            judged.no_lower.push(Reason::GroupsPublishing { supervisor, tasks });
        } else {
            judged.hold.push(Reason::TasksPublishing { supervisor, tasks });
        }
    }
    if let Some((running, total)) = short {
        judged.hold.push(Reason::TasksNotRunning { running, total: Tasks(total) });
        if let (Some(slots), Some(tasks)) = (reading.worker_slots.filter(|slots| slots.available() < total), reading.task_count) {
            let available = slots.available();
            judged.notices.push(Reason::TasksWithoutSlots { tasks, copies: reading.copies(), needed: total, available, short: total - available });
        }
    }
}

fn judge(case: &Case<'_>, series: &Series<DruidSupervisorSnapshot>, reading: &DruidSupervisorSnapshot, trust: &Trust, judged: &mut Judged) {
    let lag = match Lag::of(reading) {
        Ok(Some(lag)) => lag,
        Ok(None) => {
            judged.complete = false;
            judged.hold.push(Reason::IncompleteReading { missing: Names(vec!["partitionLag, offsets or backlogRecords".to_owned()]) });
            return;
        }
        Err(detail) => {
            judged.inputs.push(Input { name: "backlogRecords", value: None, age_seconds: trust.age_seconds, state: InputState::Contradictory });
            judged.hold.push(Reason::InconsistentReading { detail });
            return;
        }
    };
    let window = Window::of(case, series, reading, trust);
    readings_in_window(case, series, &window, judged);
    if let Some(missing) = &lag.missing {
        judged.complete = false;
        judged.no_lower.push(Reason::IncompleteReading { missing: Names(vec![missing.clone()]) });
    }
    let served = window.served(case);
    let arrival = window.arrival(case, &lag, served);
    judged.no_lower.extend(arrival.reset.clone());
    let mut work = Work::of(case, reading, served);
    let capacity = capacity::of(case, &window, &lag, arrival.per_second, &mut work);
    let age_seconds = trust.age_seconds.unwrap_or(0.0) + reading.offsets_age_seconds.map_or(0.0, Amount::get);
    let demand = Demand { reading, window, lag, served, arrival, work, capacity, age_seconds };
    plausible(case, &demand, trust, judged);
    judged.active = demand.active(case);
    if let (Some(least), Some(busy)) = (demand.work.least_groups(), demand.work.busy) {
        judged.least_busy = Some((least, busy));
    }
    match &case.policy.supervisor.lag_based {
        Some(rule) => lag_based::wish(rule, &demand.window, judged),
        None => by_demand(case, series, &demand, judged),
    }
    hot(case, &demand, judged);
    not_shrinking(&demand, judged);
    inputs(trust, &demand, judged);
    remember(case, trust, &demand, judged);
}

/// A window needs a length before anything is lowered, and a number of readings before anything is changed.
fn readings_in_window(case: &Case<'_>, series: &Series<DruidSupervisorSnapshot>, window: &Window<'_>, judged: &mut Judged) {
    let policy = &case.policy.supervisor;
    judged.no_lower.extend(case.window_not_full(series, policy.window));
    if !judged.one_shot && !series.history.is_empty() && window.len() < policy.min_readings {
        judged.hold.push(Reason::TooFewReadings { have: window.len(), needed: policy.min_readings, window_seconds: policy.window.into() });
    }
}

fn by_demand(case: &Case<'_>, series: &Series<DruidSupervisorSnapshot>, demand: &Demand<'_>, judged: &mut Judged) {
    let wishes = wish::wishes(case, demand, judged);
    let Some((wish, _)) = wishes.first() else { return };
    let mut wish = *wish;
    judged.why.extend(wishes.into_iter().map(|(_, reason)| reason));
    let arrival_per_second = Maybe(demand.arrival.per_second.map(Rate));
    if judged.active == Some(false) && case.min == 0 {
        // a lag that is not above activationBacklog counts as none
        wish = 0.0;
    }
    if judged.active == Some(true) && ceil_count(wish) == 0 {
        wish = 1.0;
        judged.why.insert(0, Reason::ActiveTraffic { arrival_per_second, in_flight: 0 });
    }
    if judged.current == Some(0) && ceil_count(wish) > 0 {
        judged.why.insert(0, Reason::ScaleFromZero { demand: Num(demand.backlog().unwrap_or(0.0)) });
    }
    if ceil_count(wish) == 0 && case.min == 0 {
        let quiet = |reading: &DruidSupervisorSnapshot| {
            let none_waits =
                matches!(Lag::of(reading), Ok(Some(lag)) if lag.records.or(lag.seconds()).is_some_and(|waiting| waiting <= case.policy.activation_backlog));
            none_waits && reading.arrival_per_second.known().or(reading.processed_per_second.known()).unwrap_or(0.0) <= 0.0
        };
        judged.idle_for(case.idle_seconds(series, quiet), case.policy);
    }
    judged.wish = Some(wish);
}

/// A lag that grew by more than can arrive, or that is suddenly gone.
fn plausible(case: &Case<'_>, demand: &Demand<'_>, trust: &Trust, judged: &mut Judged) {
    let Some(now) = demand.lag.records else { return };
    let at = trust.observed_at.unwrap_or(case.now);
    let of_history = demand.window.readings().filter(|(then, _)| *then < at).last().and_then(|(then, reading)| Some((then, Lag::of(reading).ok()??.records?)));
    let of_memory = || case.memory.and_then(|memory| memory.backlog).filter(|seen| seen.at < at).map(|seen| (seen.at, as_f64(seen.value)));
    let Some((then, before)) = of_history.or_else(of_memory) else { return };
    let seconds = seconds_between(then, at).max(0.0);
    if let Some(most) = case.policy.max_arrival_per_second.filter(|_| case.policy.contradiction_checks)
        && now - before > most * seconds.max(1.0)
    {
        judged.hold.push(Reason::ImplausibleReading { name: "the lag".to_owned(), value: Num(now), at_most: Num(before + most * seconds) });
    }
    // what was read meanwhile is not known without a rate; with one it explains the fall or it does not
    let explained = demand.served.is_some_and(|served| served * seconds * 1.5 >= before);
    if now <= 0.0 && before > NOTICEABLE_RECORDS && !explained {
        judged.no_lower.push(Reason::SuddenZero { name: "the lag".to_owned(), before: Num(before) });
    }
}

/// A few partitions that hold the lag: no other task can read them. More tasks help only if all tasks are short.
fn hot(case: &Case<'_>, demand: &Demand<'_>, judged: &mut Judged) {
    let Some(hot) = demand.lag.hot(demand.arrival.per_second) else { return };
    let reason = match (hot.share, hot.seconds, hot.others_seconds) {
        (Some(share), ..) => Reason::HotPartition { partition: format!("partition {}", hot.partitions), share: Share(share) },
        (None, seconds, others) => Reason::HotShard {
            partition: hot.partitions.clone(),
            lag_seconds: Secs(seconds.unwrap_or(0.0)),
            others_at_most_seconds: Secs(others.unwrap_or(0.0)),
        },
    };
    let current = as_f64(judged.current.unwrap_or(0));
    let known = demand.capacity.is_some_and(|capacity| capacity.source != Source::LowerBound);
    let arrives = judged.load.filter(|_| known).map(|load| load.arrival / (case.policy.target_utilization * load.capacity));
    // what arrives is reason enough for a raise, whoever holds the lag
    if arrives.is_none_or(|needed| needed <= current) {
        judged.no_raise.push(reason.clone());
    }
    judged.no_lower.push(reason);
    let message = format!("look at partition {}: find out why it falls behind, for example a key that gets most of the records", hot.partitions);
    judged.actions.push(Action::new(ActionKind::Investigate, message));
}

/// A lag that stands although the tasks wait for records: they are not what is short.
fn not_shrinking(demand: &Demand<'_>, judged: &mut Judged) {
    if !demand.work.waits_beside_lag {
        return;
    }
    let reason = Reason::LagNotShrinking {
        name: name(demand.reading),
        backlog: Num(demand.backlog().unwrap_or(0.0)),
        lag_seconds: Secs(demand.lag_seconds().unwrap_or(0.0)),
    };
    judged.no_lower.push(reason);
}

/// What forbids both directions is said once.
fn said_once(reasons: &mut Vec<Reason>) {
    let mut seen: Vec<Reason> = Vec::with_capacity(reasons.len());
    reasons.retain(|reason| {
        let is_new = !seen.contains(reason);
        if is_new {
            seen.push(reason.clone());
        }
        is_new
    });
}

/// Between the tasks of two counts both need slots for a while.
fn hand_over(reading: &DruidSupervisorSnapshot, current: Option<Count>, count: Count, reasons: &mut Vec<Reason>) {
    let (Some(current), Some(slots)) = (current.filter(|current| *current != count), reading.worker_slots) else { return };
    let needed = current.saturating_add(count).saturating_mul(reading.copies());
    let available = slots.available();
    if needed > available {
        reasons.push(Reason::HandOverSlots { needed, available });
    }
}

/// Slots that cut a raise are had by more workers.
fn more_workers(reading: &DruidSupervisorSnapshot, advice: &mut Advice) {
    use super::super::reasons::LimitCode;
    let (Some(limit), Some(slots)) = (advice.limits.iter().find(|limit| limit.code == LimitCode::WorkerSlots), reading.worker_slots) else { return };
    let needed = limit.from.saturating_mul(reading.copies());
    let available = slots.available();
    let short = needed.saturating_sub(available);
    advice.reasons.push(Reason::SlotsShort { tasks: limit.from, copies: reading.copies(), needed, available, short });
    advice.actions.push(Action::new(ActionKind::Investigate, format!("add workers with {short} more task slots: the tasks that are wanted have no place")));
}

fn inputs(trust: &Trust, demand: &Demand<'_>, judged: &mut Judged) {
    let age = trust.age_seconds;
    let mut add = |name, value: Option<f64>, age_seconds: Option<f64>, state| {
        if value.is_some() {
            judged.inputs.push(Input { name, value, age_seconds, state });
        }
    };
    let estimated = |estimated: bool| if estimated { InputState::Assumed } else { InputState::Fresh };
    add("backlogRecords", demand.backlog(), Some(demand.age_seconds), estimated(demand.lag.records.is_none()));
    add("lagSeconds", demand.lag_seconds(), Some(demand.age_seconds), InputState::Fresh);
    add("arrivalPerSecond", demand.arrival.per_second, age, estimated(demand.arrival.at_least || demand.arrival.estimated));
    add("servedPerSecond", demand.served, age, InputState::Fresh);
    add("idleRatio", demand.reading.idle_ratio.known(), age, InputState::Fresh);
    if let Some(capacity) = demand.capacity {
        let state = estimated(!matches!(capacity.source, Source::Measured | Source::Remembered));
        add("capacityPerReplicaPerSecond", Some(capacity.per_task), age, state);
    }
    if let Some(slots) = demand.reading.worker_slots {
        let state = if slots.used_by_others.is_some() { InputState::Fresh } else { InputState::Assumed };
        add("availableSlots", Some(as_f64(slots.available())), age, state);
    }
}

fn remember(case: &Case<'_>, trust: &Trust, demand: &Demand<'_>, judged: &mut Judged) {
    let at = trust.observed_at.unwrap_or(case.now);
    if let Some(capacity) = demand.capacity.filter(|capacity| capacity.source == Source::Measured) {
        judged.memory.capacity = Some(CapacitySeen { per_replica_per_second: capacity.per_task, at });
    }
    judged.memory.backlog = demand.lag.records.map(|records| CounterSeen { value: ceil_count(records), at });
}

/// The supervisor's name in sentences.
fn name(reading: &DruidSupervisorSnapshot) -> String {
    reading.supervisor.clone().unwrap_or_else(|| "the supervisor".to_owned())
}
