//! A Kafka consumer group: how many replicas should read its topics.
//!
//! The wish is what arrives and what waits over what a saturated replica reads (see `wishes`), or a threshold, or KEDA's
//! arithmetic with its preset. What waits is worked out partition by partition (`lag`), what moves from earlier readings
//! (`window`), how old it is by the cheapest honest method (`delay`). Then the wish is cut to what partitions can use, and
//! lifted to what the state needs (`bounds`).
//!
//! Why not lag by a threshold, as KEDA does: it asks for thirty replicas where three suffice, cuts a busy group that has no
//! lag, and has no answer where one partition is stuck or hot, members are missing, or the database behind is at its limit.
//! At start nothing is lowered before the window is full; an idle group goes to zero only after `idleBeforeZero`.
//! Lags are records, rates records per second, counts replicas.

mod bounds;
mod delay;
mod effect;
mod group;
mod help;
mod keda;
mod lag;
mod load;
mod price;
mod reading;
mod window;
mod wishes;

pub use self::reading::*;

use self::bounds::Bounds;
use self::delay::{Delay, Method};
use self::help::Aside;
use self::lag::{Lag, LeftOut};
use self::load::Demand;
use self::window::Flows;
use self::wishes::Ask;
use super::super::advice::{Advice, Input, InputState, Unit};
use super::super::decide::settle::{Shown, is_for_zero, settle};
use super::super::decide::{Case, Judged, conclude};
use super::super::memory::{CapacitySeen, CounterSeen};
use super::super::policy::Policy;
use super::super::reasons::{Names, Num, Rate, Reason, Secs};
use super::super::request::{Request, Series};
use super::super::sizing::capacity::{Capacity, Source};
use super::super::trust::{self, Trust};
use super::super::units::{Count, Duration, Known, as_f64, ceil_count, seconds_between};

/// A lag of more records than this does not vanish from one reading to the next.
const NOTICEABLE_RECORDS: f64 = 10.0;

/// Judges a group.
#[must_use]
pub fn advise(request: &Request, series: &Series<KafkaGroupSnapshot>) -> Advice {
    let last = series.latest.as_deref().or_else(|| series.history.last().map(std::sync::Arc::as_ref));
    let policy = with_restore(request, last);
    let case = Case::counting(request, &policy, request.replicas.spec);
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::Replicas);
    judged.notices.extend(trust.notices.iter().cloned());
    few_readings(&case, series, &trust, &mut judged);
    let Some(reading) = series.latest.as_deref().filter(|_| trust.is_fresh()) else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.complete = series.latest.is_some();
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    judged.complete = true;
    judged.hold.extend(case.older_than_change(&trust));
    if let Some(rule) = policy.kafka.keda {
        keda::judge(&case, rule, series, reading, &mut judged);
        return conclude(&case, &trust, judged, |count, _, _| count);
    }
    judged.no_lower.extend(case.window_not_full(series, policy.kafka.window));
    let lag = match Lag::of(reading, &policy.kafka) {
        Ok(lag) => lag,
        Err(detail) => {
            judged.inputs.push(Input { name: "backlogRecords", value: None, age_seconds: trust.age_seconds, state: InputState::Contradictory });
            judged.hold.push(Reason::InconsistentReading { detail });
            return conclude(&case, &trust, judged, |count, _, _| count);
        }
    };
    let bounds = Bounds::of(reading, &lag, &policy);
    let demand = judge(&case, series, reading, &trust, &lag, bounds, &mut judged);
    let (current, load) = (judged.current, demand.capacity.and_then(|capacity| demand.load(capacity.per_replica)));
    let mut advice = conclude(&case, &trust, judged, |count, reasons, _| {
        reasons.extend(current.and_then(|current| price::of(&case, reading, bounds, load, current, count)));
        count
    });
    advice.reasons = said_once(std::mem::take(&mut advice.reasons));
    price::lift_partitions(&policy, reading, &demand, bounds, &lag.topics, &mut advice);
    advice
}

/// The policy with the time that a new replica needs for its state, added to its start.
fn with_restore(request: &Request, last: Option<&KafkaGroupSnapshot>) -> Policy {
    let mut policy = request.policy.clone();
    let case = Case::new(request);
    let restore = last.and_then(|reading| {
        let lag = Lag::of(reading, &policy.kafka).ok()?;
        price::restore(&case, reading, Bounds::of(reading, &lag, &policy), request.replicas.spec.unwrap_or(1).max(1))
    });
    if let Some(startup) = restore.and_then(|seconds| Duration::parse(&format!("{}s", (policy.startup.seconds() + seconds).ceil())).ok()) {
        policy.startup = startup;
    }
    policy
}

/// A number of readings may be asked for before anything is changed.
fn few_readings(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, trust: &Trust, judged: &mut Judged) {
    let kafka = &case.policy.kafka;
    if kafka.min_readings <= 1 {
        return;
    }
    let at = trust.observed_at.unwrap_or(case.now);
    let within = |reading: &KafkaGroupSnapshot| {
        let then = trust::measured_at(reading, case.now);
        then < at && seconds_between(then, at) <= kafka.window.seconds() + 1e-6
    };
    let earlier = series.history.iter().filter(|reading| within(reading)).count() as Count;
    let have = earlier + Count::from(series.latest.is_some() && trust.is_fresh());
    if have < kafka.min_readings {
        judged.hold.push(Reason::TooFewReadings { have, needed: kafka.min_readings, window_seconds: kafka.window.into() });
    }
}

fn judge(
    case: &Case<'_>,
    series: &Series<KafkaGroupSnapshot>,
    reading: &KafkaGroupSnapshot,
    trust: &Trust,
    lag: &Lag<'_>,
    bounds: Bounds,
    judged: &mut Judged,
) -> Demand {
    let flows = Flows::of(case, series, reading, lag, trust);
    left_out(lag, judged);
    group::oddities(case, lag, judged);
    if !lag.missing.is_empty() {
        judged.complete = false;
        judged.no_lower.insert(0, Reason::IncompleteReading { missing: Names(lag.missing.clone()) });
    }
    judged.no_lower.extend(flows.resets.iter().cloned());
    if flows.at_least {
        judged.no_lower.push(Reason::IncompleteReading { missing: Names(vec!["what arrives on some partitions".to_owned()]) });
    }
    group::state(case, reading, lag, &flows, judged);
    let aside = Aside::of(case, reading, lag, &flows, judged.current);
    aside.say(lag, &flows, judged);
    let demand = Demand::of(case, reading, lag, &flows, &aside);
    let delay = delay::of(case, series, reading, lag, &flows.parts, flows.arrival, trust);
    judged.partitions = bounds.useful;
    judged.memory_floor = bounds.memory_floor;
    help::transactions(case, lag, &flows, judged);
    help::retention(case, lag, &flows, delay, judged);
    help::delays(case, reading, judged);
    let is_silent = help::heartbeat(case, lag, &flows, judged);
    plausible(case, series, lag, &demand, trust, judged);
    let at = trust.observed_at.unwrap_or(case.now);
    effect::judge(case, series, reading, lag, (flows.served, flows.spans_change), demand.is_behind, at, judged);
    let ask = Ask { case, series, reading, lag, flows: &flows, demand: &demand, delay, bounds, age_seconds: trust.age_seconds.unwrap_or(0.0) };
    want(&ask, is_silent, judged);
    overloaded(&ask, judged);
    // what arrives at a known capacity is reason enough for a raise, whoever holds the lag
    let known = demand.capacity.filter(|capacity| !capacity.is_lower_bound()).and_then(|capacity| demand.load(capacity.per_replica));
    let by_arrivals = known.map(|load| load.arrival / (case.policy.target_utilization * load.capacity));
    help::hot(case, lag, &aside, flows.arrival, by_arrivals, judged);
    if let Some(delay) = delay.filter(|delay| delay.seconds > 0.0 && delay.method != Method::Told) {
        judged.notices.push(Reason::LagEstimated { lag_seconds: Secs(delay.seconds), method: delay.method.words().to_owned(), at_least: delay.at_least });
    }
    inputs(&ask, trust, judged);
    remember(case, trust, &ask, judged);
    demand
}

fn left_out(lag: &Lag<'_>, judged: &mut Judged) {
    for (topic, why) in &lag.left_out {
        match why {
            LeftOut::NotSubscribed => judged.notices.push(Reason::NotSubscribed { topic: topic.name.clone() }),
            LeftOut::Deleted => judged.notices.push(Reason::TopicGone { topic: topic.name.clone() }),
            LeftOut::NotWanted => {}
        }
    }
}

/// Turns the wishes into one, and says what is there where nothing is asked for.
fn want(ask: &Ask<'_>, is_silent: bool, judged: &mut Judged) {
    let (case, demand) = (ask.case, ask.demand);
    // heartbeats keep a group awake, since nobody else would hear them stop
    let arrives = ask.flows.arrival.is_some_and(|rate| rate > 0.0);
    judged.active = match demand.backlog {
        _ if is_silent => None,
        Some(backlog) => Some(backlog > case.policy.activation_backlog || arrives || case.policy.kafka.heartbeat.is_some()),
        None => arrives.then_some(true),
    };
    let shown = Shown { backlog: demand.backlog, arrival: ask.flows.arrival, in_flight: 0, is_traffic: arrives };
    let missing = || {
        if ask.lag.missing.is_empty() {
            return "neither what arrives, what one replica reads, nor a threshold is known".to_owned();
        }
        format!("missing {}", Names(ask.lag.missing.clone()))
    };
    let wishes = wishes::of(ask, judged);
    if settle(case, wishes, shown, missing, judged) && is_for_zero(case, judged) {
        let residual = case.policy.kafka.residual_records;
        let quiet = |reading: &KafkaGroupSnapshot| {
            let none_waits = Lag::of(reading, &case.policy.kafka).ok().is_some_and(|lag| {
                let waits = |records: f64| {
                    records <= case.policy.activation_backlog.max(if lag.parts.is_empty() { 0.0 } else { residual * as_f64(lag.parts.len() as Count) })
                };
                lag.records().is_some_and(waits)
            });
            none_waits && reading.arrival_per_second.known().unwrap_or(0.0) <= 0.0
        };
        let idle = case.idle_seconds(ask.series, quiet);
        // without a memory it is the topics themselves that tell since when nothing has come or gone
        let still = ask.flows.still_seconds().filter(|_| case.memory.is_none()).unwrap_or(0.0);
        judged.idle_for(idle.max(still), case.policy);
    }
}

/// Partitions on which more arrives than one consumer reads: named, whatever the count.
fn overloaded(ask: &Ask<'_>, judged: &mut Judged) {
    let Some(capacity) = ask.demand.capacity.filter(|_| !ask.demand.overloaded.is_empty()) else { return };
    let per_consumer = capacity.per_replica / as_f64(ask.case.policy.threads_per_replica.max(1));
    let mut names = Vec::new();
    for place in &ask.demand.overloaded {
        let (Some(part), Some(arrival)) = (ask.lag.parts.get(*place), ask.flows.parts.get(*place).and_then(|flow| flow.arrival)) else { continue };
        names.push(part.name());
        if names.len() == 1 {
            judged.no_lower.push(Reason::HotArrival {
                partition: format!("partition {}", part.name()),
                arrival_per_second: Rate(arrival),
                consumer_per_second: Rate(per_consumer),
                grows_per_second: Rate(arrival - per_consumer),
            });
        }
    }
    help::relieve(&Names(names), judged);
}

/// A lag that grew by more than can arrive, or that is suddenly gone.
fn plausible(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, lag: &Lag<'_>, demand: &Demand, trust: &Trust, judged: &mut Judged) {
    let Some(now) = lag.records() else { return };
    let at = trust.observed_at.unwrap_or(case.now);
    let of_history =
        series.history.last().and_then(|reading| Some((trust::measured_at(reading.as_ref(), case.now), Lag::of(reading, &case.policy.kafka).ok()?.records()?)));
    let of_memory = || case.memory.and_then(|memory| memory.backlog).map(|seen| (seen.at, as_f64(seen.value)));
    let Some((then, before)) = of_history.or_else(of_memory).filter(|(then, _)| *then < at) else { return };
    let seconds = seconds_between(then, at);
    if let Some(most) = case.policy.max_arrival_per_second.filter(|_| case.policy.contradiction_checks)
        && now - before > most * seconds.max(1.0)
    {
        judged.hold.push(Reason::ImplausibleReading { name: "the lag".to_owned(), value: Num(now), at_most: Num(before + most * seconds) });
    }
    let noticeable = case.policy.per_replica_backlog.unwrap_or(NOTICEABLE_RECORDS).max(NOTICEABLE_RECORDS);
    let explained = demand.served.is_some_and(|served| served * seconds * 1.5 >= before);
    // commits that have reached the end were made by someone
    let is_seen = !lag.parts.is_empty() && lag.parts.iter().all(|part| part.reading.committed.is_some());
    if now <= 0.0 && before > noticeable && !explained && !is_seen {
        judged.no_lower.push(Reason::SuddenZero { name: "the lag".to_owned(), before: Num(before) });
    }
}

/// What forbids both directions is said once.
fn said_once(reasons: Vec<Reason>) -> Vec<Reason> {
    let mut seen: Vec<Reason> = Vec::with_capacity(reasons.len());
    for reason in reasons {
        if !seen.contains(&reason) {
            seen.push(reason);
        }
    }
    seen
}

fn inputs(ask: &Ask<'_>, trust: &Trust, judged: &mut Judged) {
    let age = trust.age_seconds;
    let assumed = |assumed: bool| if assumed { InputState::Assumed } else { InputState::Fresh };
    let backlog = ask.demand.backlog;
    let doubtful = ask.lag.is_upper_bound() || ask.lag.parts.iter().any(|part| !part.is_known);
    judged.inputs.push(Input {
        name: "backlogRecords",
        value: backlog,
        age_seconds: age,
        state: if backlog.is_some() { assumed(doubtful) } else { InputState::Missing },
    });
    let delay = ask.delay;
    let lag_state = delay
        .map_or(InputState::Missing, |delay: Delay| assumed(!matches!(delay.method, Method::Told | Method::ByAge) && delay.seconds > 0.0 || delay.at_least));
    judged.inputs.push(Input { name: "lagSeconds", value: delay.map(|delay| delay.seconds), age_seconds: age, state: lag_state });
    let mut add = |name, value: Option<f64>, age_seconds: Option<f64>, state| {
        if value.is_some() {
            judged.inputs.push(Input { name, value, age_seconds, state });
        }
    };
    add("arrivalPerSecond", ask.demand.arrival, age, assumed(ask.flows.at_least));
    add("servedPerSecond", ask.demand.served, age, InputState::Fresh);
    add("busyRatio", ask.reading.busy_ratio.known(), age, InputState::Fresh);
    if let Some(capacity) = ask.demand.capacity {
        let age = if capacity.source == Source::Remembered { Some(capacity.age_seconds) } else { age };
        add("capacityPerReplicaPerSecond", Some(capacity.per_replica), age, assumed(capacity.is_lower_bound()));
    }
}

fn remember(case: &Case<'_>, trust: &Trust, ask: &Ask<'_>, judged: &mut Judged) {
    let at = trust.observed_at.unwrap_or(case.now);
    if let Some(capacity) = ask.demand.capacity.filter(Capacity::is_fresh_measure) {
        judged.memory.capacity = Some(CapacitySeen { per_replica_per_second: capacity.per_replica, at });
    }
    if let Some(records) = ask.lag.records() {
        judged.memory.backlog = Some(CounterSeen { value: ceil_count(records), at });
    }
}
