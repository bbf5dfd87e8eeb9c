//! The numbers of a queue: what is known of its backlog, its arrivals and the capacity of a replica, and how well.

use super::BacklogSnapshot;
use crate::core::advice::{Confidence, Input, InputState};
use crate::core::decide::Case;
use crate::core::policy::Policy;
use crate::core::reasons::{Names, Num, Reason};
use crate::core::request::Series;
use crate::core::sizing::capacity::{Capacity, Source, remembered};
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, Known, Timestamp, as_f64, seconds_between};

/// Below this busy share a capacity worked out from it is a wild guess.
const LEAST_BUSY: f64 = 0.05;
/// From this busy share on a replica is at its limit.
const SATURATED_BUSY: f64 = 0.9;

/// Seconds of service that always wait somewhere, and prove nothing.
const QUIET_SECONDS: f64 = 5.0;
/// More arrives than is served when it is more by this: less is noise.
const OUTRUN: f64 = 1.02;

/// So many items always wait somewhere at a rate.
#[must_use]
pub fn quiet_items(per_second: f64) -> f64 {
    (per_second * QUIET_SECONDS).max(1.0)
}

/// A negative reading contradicts itself and is never summed.
#[must_use]
pub fn non_negative(value: i64) -> f64 {
    as_f64(value.max(0).unsigned_abs())
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Items that wait.
    pub backlog: Option<f64>,
    /// Items that arrive per second.
    pub arrival: Option<f64>,
    /// Items served per second.
    pub served: Option<f64>,
    /// Seconds that the oldest has waited.
    pub lag_seconds: Option<f64>,
    /// Items in work.
    pub in_flight: f64,
    /// Replicas that serve.
    pub replicas: Option<Count>,
    /// The capacity of one.
    pub capacity: Option<Capacity>,
    /// The counter of arrivals.
    pub arrived_total: Option<u64>,
    /// True when the count was changed around the time of the reading: its rates are of no count.
    pub is_mixed: bool,
    /// Age of the reading.
    pub age_seconds: f64,
    /// The largest wish of the other signals.
    signals: Option<Count>,
    /// Values of replicas: the sum of the known ones, and how many gave none.
    per_replica: Option<(f64, Count)>,
    /// Names of what is missing.
    pub missing: Vec<String>,
    /// Why the reading cannot be used.
    pub contradictions: Vec<Reason>,
    /// What is said beside.
    pub notices: Vec<Reason>,
    /// Items that waited when that was last known.
    pub waited: Option<f64>,
    /// The counter of arrivals started anew, so that what arrives is known from below only.
    pub reset: Option<Reason>,
    /// A fall to zero that nothing explains.
    pub sudden_zero: Option<Reason>,
    /// Numbers behind the decision.
    pub inputs: Vec<Input>,
}

impl Demand {
    /// Is there demand: a backlog above `activationBacklog`, work in flight, arrivals, or a signal that asks for some.
    #[must_use]
    pub fn active(&self, policy: &Policy) -> Option<bool> {
        let asks = self.arrival.is_some_and(|rate| rate > 0.0) || self.in_flight > 0.0 || self.signals.is_some_and(|wanted| wanted > 0);
        match self.backlog {
            Some(backlog) => Some(backlog > policy.activation_backlog || asks),
            None => asks.then_some(true),
        }
    }

    /// Confidence from the number of estimates: 0 is high, 1 medium, more low; a one-shot question is medium at most.
    #[must_use]
    pub fn confidence(&self, estimates: usize, one_shot: bool) -> Confidence {
        let assumed = self.inputs.iter().filter(|input| input.state == InputState::Assumed).count();
        match estimates + assumed + usize::from(!self.missing.is_empty()) {
            0 if one_shot => Confidence::Medium,
            0 => Confidence::High,
            1 => Confidence::Medium,
            _ => Confidence::Low,
        }
    }

    /// The backlog that threshold mode divides. Where replicas report it and some did not, the missing ones count as
    /// nothing when that already raises, and as at their target when it would lower.
    #[must_use]
    pub fn threshold_backlog(&self, case: &Case<'_>, current: Option<Count>) -> Option<f64> {
        let Some((sum, missing)) = self.per_replica else { return self.backlog };
        let target = case.policy.per_replica_backlog?;
        let current = as_f64(current.unwrap_or(0));
        if sum / target > current || missing == 0 {
            return Some(sum);
        }
        Some((sum + as_f64(missing) * target).min(current * target))
    }
}

impl BacklogSnapshot {
    /// True when nothing waits, arrives or is in work.
    #[must_use]
    pub fn is_quiet(&self, policy: &Policy) -> bool {
        // without a number it is quiet where the policy says so
        self.backlog.map(non_negative).or(policy.no_data).is_some_and(|backlog| backlog <= policy.activation_backlog)
            && self.in_flight.unwrap_or(0) == 0
            && self.arrival_per_second.known().unwrap_or(0.0) <= 0.0
    }
}

/// Reads what the newest reading and its forerunner tell.
#[must_use]
pub fn measure(case: &Case<'_>, series: &Series<BacklogSnapshot>, reading: &BacklogSnapshot, trust: &Trust) -> Demand {
    let mut demand = Demand {
        in_flight: as_f64(reading.in_flight.unwrap_or(0)),
        served: reading.served_per_second.known(),
        // those that were there when it was measured: what a reading tells is of them
        replicas: reading.replicas.or(case.request.replicas.ready).or(case.request.replicas.spec),
        is_mixed: is_mixed(case, reading, trust),
        arrived_total: reading.arrived_total,
        age_seconds: trust.age_seconds.unwrap_or(0.0),
        signals: reading.signals.iter().filter_map(|signal| signal.wanted).max(),
        ..Demand::default()
    };
    backlog(case, reading, &mut demand);
    let at = trust.observed_at.unwrap_or(case.now);
    let before = Before::of(case, series, at);
    demand.waited = before.backlog.map(|(waited, _)| waited);
    arrivals(reading, &before, at, case.policy.no_data, &mut demand);
    plausible(case, &before, at, &mut demand);
    demand.lag_seconds = reading.oldest_seconds.known().or_else(|| match (demand.backlog, demand.served) {
        (Some(backlog), _) if backlog <= 0.0 => Some(0.0),
        (Some(backlog), Some(served)) if served > 0.0 => Some(backlog / served),
        _ => None,
    });
    demand.capacity = capacity(case, reading, &demand, &before);
    for signal in reading.signals.iter().filter(|signal| signal.wanted.is_none()) {
        demand.missing.push(format!("signal {}", signal.name));
    }
    inputs(&mut demand, reading);
    demand
}

/// Measured before the last change had settled, without its own count: the replicas of now have not done what it tells.
fn is_mixed(case: &Case<'_>, reading: &BacklogSnapshot, trust: &Trust) -> bool {
    let settles = case.policy.startup.seconds() + case.policy.pause.seconds();
    reading.replicas.is_none() && case.seconds_since_change().is_some_and(|since| since < settles + trust.age_seconds.unwrap_or(0.0))
}

fn backlog(case: &Case<'_>, reading: &BacklogSnapshot, demand: &mut Demand) {
    // values of replicas are in the unit of the threshold, and say nothing where there is none
    if let Some(values) = reading.per_replica.as_ref().filter(|_| case.policy.per_replica_backlog.is_some()) {
        let sum = values.iter().flatten().map(|value| value.get()).sum();
        let known = values.iter().flatten().count() as Count;
        // a ready replica without a value is missing; a value of a pod that is gone cannot be told apart and is not sent
        let ready = demand.replicas.unwrap_or(values.len() as Count).max(values.len() as Count);
        let missing = ready - known;
        if missing > 0 {
            let missing = format!("{missing} of {ready} replicas, which are taken at their target when that lowers, and at zero when it raises");
            demand.notices.push(Reason::IncompleteReading { missing: Names(vec![missing]) });
        }
        demand.per_replica = Some((sum, missing));
        if reading.backlog.is_none() {
            demand.backlog = (known > 0).then_some(sum);
            if known == 0 {
                // a sum of nothing is no backlog
                demand.per_replica = None;
                demand.missing.push("perReplica: none of the replicas gave a value".to_owned());
            }
            return;
        }
    }
    match reading.backlog {
        Some(value) if value < 0 => {
            demand.contradictions.push(Reason::InconsistentReading { detail: format!("the backlog is {value}, and no backlog is negative") });
        }
        Some(value) => demand.backlog = Some(non_negative(value)),
        None => match case.policy.no_data {
            Some(value) => {
                demand.backlog = Some(value);
                demand.notices.push(Reason::NoDataConfigured { value: Num(value) });
            }
            // a backlog that nobody promised is not missed where signals are all there is
            None if reading.signals.is_empty() || reading.arrival_per_second.is_some() || case.policy.per_replica_backlog.is_some() => {
                demand.missing.push("backlog".to_owned());
            }
            None => {}
        },
    }
}

/// The reading before this one. One that was measured at the same time is the same one, seen again: a source that is
/// asked more often than it measures would else look like a queue that stands still.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    arrived: Option<(u64, Timestamp)>,
    backlog: Option<(f64, Timestamp)>,
}

impl Before {
    fn of(case: &Case<'_>, series: &Series<BacklogSnapshot>, latest: Timestamp) -> Self {
        let timed = series.history.iter().map(|reading| (reading, trust::measured_at(reading.as_ref(), case.now)));
        let last = timed.rev().find(|(_, at)| *at < latest);
        let memory = case.memory;
        Self {
            arrived: last
                .and_then(|(reading, at)| Some((reading.arrived_total?, at)))
                .or_else(|| memory.and_then(|memory| memory.arrived).map(|seen| (seen.value, seen.at)).filter(|(_, at)| *at < latest)),
            backlog: last
                .and_then(|(reading, at)| Some((non_negative(reading.backlog?), at)))
                .or_else(|| memory.and_then(|memory| memory.backlog).map(|seen| (as_f64(seen.value), seen.at)).filter(|(_, at)| *at < latest)),
        }
    }
}

fn arrivals(reading: &BacklogSnapshot, before: &Before, at: Timestamp, no_data: Option<f64>, demand: &mut Demand) {
    demand.arrival = reading.arrival_per_second.known();
    if let (Some(now), Some((earlier, seen_at))) = (reading.arrived_total, before.arrived) {
        let seconds = seconds_between(seen_at, at);
        if now < earlier {
            let reset = Reason::CounterReset { name: "arrivedTotal".to_owned(), before: Num(as_f64(earlier)), now: Num(as_f64(now)) };
            if demand.arrival.is_some() { demand.notices.push(reset) } else { demand.reset = Some(reset) }
        }
        if demand.arrival.is_none() && seconds > 0.0 {
            // after a reset the counter tells what has come since, at least
            demand.arrival = Some(as_f64(if now < earlier { now } else { now - earlier }) / seconds);
        }
    }
    // what is served plus what the backlog grew by
    if demand.arrival.is_none()
        && let (Some(served), Some(backlog), Some((earlier, seen_at))) = (demand.served, demand.backlog, before.backlog)
    {
        let seconds = seconds_between(seen_at, at);
        if seconds > 0.0 {
            demand.arrival = Some((served + (backlog - earlier) / seconds).max(0.0));
        }
    }
    // what is served has arrived at some time: a lower bound
    if demand.arrival.is_none() {
        demand.arrival = demand.served;
    }
    // no number at all, and the user knows what that stands for
    if demand.arrival.is_none() && reading.backlog.is_none() && reading.per_replica.is_none() && no_data.is_some() {
        demand.arrival = Some(0.0);
    }
}

/// A backlog that grew by more than can arrive, or that is suddenly gone.
fn plausible(case: &Case<'_>, before: &Before, at: Timestamp, demand: &mut Demand) {
    let (Some(backlog), Some((earlier, seen_at))) = (demand.backlog, before.backlog) else { return };
    let seconds = seconds_between(seen_at, at).max(0.0);
    if let Some(most) = case.policy.max_arrival_per_second.filter(|_| case.policy.contradiction_checks)
        && backlog - earlier > most * seconds.max(1.0)
    {
        demand.contradictions.push(Reason::ImplausibleReading { name: "backlog".to_owned(), value: Num(backlog), at_most: Num(earlier + most * seconds) });
    }
    let noticeable = earlier > case.policy.per_replica_backlog.unwrap_or(10.0).max(10.0);
    let explained = demand.served.is_some_and(|served| served * seconds * 1.5 >= earlier);
    if backlog <= 0.0 && noticeable && !explained {
        demand.sudden_zero = Some(Reason::SuddenZero { name: "backlog".to_owned(), before: Num(earlier) });
    }
}

fn capacity(case: &Case<'_>, reading: &BacklogSnapshot, demand: &Demand, before: &Before) -> Option<Capacity> {
    let found = |per_replica: f64, source| Capacity::new(per_replica, source, 0.0);
    let of = demand.replicas.unwrap_or(0);
    // one number over all of them tells of all or of none
    let measured = Source::Measured { saturated: of, of };
    if let Some(declared) = case.policy.per_replica_per_second {
        return found(declared, Source::Declared);
    }
    if let Some(seconds) = reading.seconds_per_item.known().filter(|seconds| *seconds > 0.0) {
        return found(as_f64(case.policy.threads_per_replica) / seconds, measured);
    }
    let each = demand.replicas.filter(|count| *count > 0 && !demand.is_mixed).zip(demand.served).map(|(count, served)| served / as_f64(count));
    let busy = reading.busy_ratio.known();
    if let (Some(each), Some(busy)) = (each, busy)
        && busy >= LEAST_BUSY
    {
        return found(each / busy.min(1.0), measured);
    }
    // a queue that does not shrink while it is served keeps everyone busy; a few items always wait somewhere
    let queues = |backlog: f64| backlog > quiet_items(demand.served.unwrap_or(0.0));
    let standing = demand.backlog.is_some_and(|backlog| before.backlog.is_some_and(|(earlier, _)| queues(earlier) && queues(backlog) && backlog >= earlier));
    let outrun = matches!((demand.arrival, demand.served, demand.backlog), (Some(arrival), Some(served), Some(backlog)) if queues(backlog) && arrival > served * OUTRUN && reading.arrival_per_second.is_some());
    if let Some(each) = each
        && (standing || outrun || busy.is_some_and(|busy| busy >= SATURATED_BUSY))
    {
        return found(each, measured);
    }
    if let Some(seen) = case.memory.and_then(|memory| memory.capacity) {
        return remembered(seen.per_replica_per_second, seen.at, each, case.now);
    }
    each.and_then(|each| found(each, Source::LowerBound))
}

fn inputs(demand: &mut Demand, reading: &BacklogSnapshot) {
    let age = Some(demand.age_seconds);
    let assumed = reading.backlog.is_none() && reading.per_replica.is_none() && demand.backlog.is_some();
    let contradicts = !demand.contradictions.is_empty();
    let state = |value: Option<f64>, otherwise: InputState| if value.is_some() { otherwise } else { InputState::Missing };
    let backlog_state =
        if contradicts { InputState::Contradictory } else { state(demand.backlog, if assumed { InputState::Assumed } else { InputState::Fresh }) };
    let mut inputs = vec![Input { name: "backlogRecords", value: demand.backlog, age_seconds: age, state: backlog_state }];
    let mut add = |name, value: Option<f64>, state| {
        if value.is_some() {
            inputs.push(Input { name, value, age_seconds: age, state });
        }
    };
    add("arrivalPerSecond", demand.arrival, InputState::Fresh);
    add("servedPerSecond", demand.served, InputState::Fresh);
    add("lagSeconds", demand.lag_seconds, InputState::Fresh);
    add("inFlight", reading.in_flight.map(as_f64), InputState::Fresh);
    add("busyRatio", reading.busy_ratio.known(), InputState::Fresh);
    if let Some(capacity) = demand.capacity {
        let state = if capacity.is_lower_bound() { InputState::Assumed } else { InputState::Fresh };
        let age = if capacity.source == Source::Remembered { Some(capacity.age_seconds) } else { age };
        inputs.push(Input { name: "capacityPerReplicaPerSecond", value: Some(capacity.per_replica), age_seconds: age, state });
    }
    demand.inputs = inputs;
}
