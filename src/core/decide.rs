//! From what a kind has seen to an answer: trust, help, wish, limits, work in hand, consumer, words. In this order.
//!
//! A kind judges its readings ([`Judged`]) and knows nothing of stabilization, bounds or consumers; this module knows
//! nothing of tasks or partitions. The only thing that a kind adds late is its work in hand, which may keep a count
//! from falling after everything else has been decided.

use super::advice::{Action, ActionKind, Advice, Bounds, Confidence, Direction, Forecast, Input, Limit, Outcome, Part, Unit};
use super::memory::{Memory, SpecSeen, Wishes};
use super::policy::{Consumer, Policy};
use super::reasons::{LimitCode, Reason, Secs};
use super::request::{Observed, Request, Series};
use super::sizing::limits::{self, Ladder};
use super::sizing::{align, consumer, rate};
use super::trust::{self, Trust};
use super::units::{Count, Duration, Timestamp, as_f64, ceil_count, seconds_between, shifted};

/// The facts that every step needs.
pub struct Case<'a> {
    /// The question.
    pub request: &'a Request,
    /// The policy in force.
    pub policy: &'a Policy,
    /// The moment of the decision.
    pub now: Timestamp,
    /// What was carried over.
    pub memory: Option<&'a Memory>,
    /// The lower bound now, scheduled floors included.
    pub min: Count,
    /// True when a scheduled floor has lifted the lower bound.
    pub floored: bool,
    /// The newest change of the wanted count, as told or as seen.
    pub changed_at: Option<Timestamp>,
}

impl<'a> Case<'a> {
    /// Prepares a question.
    #[must_use]
    pub fn new(request: &'a Request) -> Self {
        let policy = &request.policy;
        let floor = policy.floors.iter().filter(|floor| floor.period.contains(request.now)).map(|floor| floor.min).max();
        let min = floor.map_or(policy.min, |floor| floor.max(policy.min));
        let memory = request.memory.as_ref();
        let seen = memory.and_then(|memory| memory.spec).filter(|seen| seen.before.is_some() && Some(seen.count) == request.replicas.spec);
        let changed_at = request.replicas.last_change.map(|change| change.at).into_iter().chain(seen.map(|seen| seen.since)).max();
        Self { request, policy, now: request.now, memory, min, floored: min > policy.min, changed_at }
    }

    /// Seconds since the newest change of the wanted count.
    #[must_use]
    pub fn seconds_since_change(&self) -> Option<f64> {
        self.changed_at.map(|at| seconds_between(at, self.now).max(0.0))
    }

    /// True for a one-shot question: nothing of the past is known.
    #[must_use]
    pub fn is_one_shot<S>(&self, series: &Series<S>) -> bool {
        self.memory.is_none() && series.history.is_empty()
    }

    /// Why nothing may be lowered yet because the window of readings is too short; `None` when it is full. It is judged
    /// from the history where there is one, else from the time of registration; a one-shot question has no window.
    #[must_use]
    pub fn window_not_full<S: Observed>(&self, series: &Series<S>, window: Duration) -> Option<Reason> {
        let start = match series.history.first() {
            Some(oldest) => trust::measured_at(oldest.as_ref(), self.now),
            None => self.memory?.since,
        };
        let have = seconds_between(start, self.now).max(0.0);
        (have + 1e-6 < window.seconds()).then(|| Reason::WindowNotFull { have_seconds: Secs(have), window_seconds: Secs::from(window) })
    }

    /// Seconds without demand: since the last activity, or since registration where there has been none. `quiet` tells
    /// of a reading whether nothing waited, arrived or was in work then. A one-shot question starts counting now.
    #[must_use]
    pub fn idle_seconds<S: Observed>(&self, series: &Series<S>, quiet: impl Fn(&S) -> bool) -> f64 {
        let since = if let Some(memory) = self.memory {
            memory.last_active_at.map_or(memory.since, |at| at.max(memory.since))
        } else {
            let idle = series.history.iter().rev().take_while(|reading| quiet(reading)).last();
            idle.map_or(self.now, |reading| trust::measured_at(reading.as_ref(), self.now))
        };
        seconds_between(since, self.now).max(0.0)
    }

    /// Why a reading from before the last change cannot be acted on.
    #[must_use]
    pub fn older_than_change(&self, trust: &Trust) -> Option<Reason> {
        let (changed, observed) = (self.changed_at?, trust.observed_at?);
        let behind = observed < changed && changed <= self.now;
        behind.then(|| Reason::ReadingOlderThanLastChange {
            reading_age_seconds: Secs(trust.age_seconds.unwrap_or_else(|| seconds_between(observed, self.now))),
            change_age_seconds: Secs(seconds_between(changed, self.now)),
        })
    }
}

/// How the wish fits partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fit {
    /// There are none, or it does not matter.
    Any,
    /// The same-peak rule, from the unrounded demand at the target utilization.
    SamePeak(f64),
    /// The next count upwards that changes anything.
    NextUseful,
}

/// What a kind has made of its readings.
pub struct Judged {
    /// What is counted.
    pub unit: Unit,
    /// The present count: the wanted one, or the kind's own.
    pub current: Option<Count>,
    /// The unrounded wish; `None` when the demand is unknown.
    pub wish: Option<f64>,
    /// Why that is the wish, the decisive reason first.
    pub why: Vec<Reason>,
    /// Why nothing may be changed at all.
    pub hold: Vec<Reason>,
    /// Why nothing may be raised: more will not help.
    pub no_raise: Vec<Reason>,
    /// Why nothing may be lowered.
    pub no_lower: Vec<Reason>,
    /// What is worth saying whatever comes out.
    pub notices: Vec<Reason>,
    /// The most that partitions keep busy.
    pub partitions: Option<Count>,
    /// How the wish fits them.
    pub fit: Fit,
    /// Wishes of earlier readings, oldest first: they stand in for the memory when there is none.
    pub past: Vec<(Timestamp, Count)>,
    /// True when neither history nor memory tells of the past.
    pub one_shot: bool,
    /// Is there demand.
    pub active: Option<bool>,
    /// Seconds that a workload without demand has to wait before zero.
    pub zero_wait: Option<f64>,
    /// True when every part of the reading was there.
    pub complete: bool,
    /// When an earlier reading was last complete.
    pub earlier_complete: Option<Timestamp>,
    /// Steps that do not depend on the outcome.
    pub actions: Vec<Action>,
    /// Entries of parts.
    pub parts: Vec<Part>,
    /// Numbers behind the decision.
    pub inputs: Vec<Input>,
    /// How far they carry.
    pub confidence: Confidence,
    /// The load, for the forecast.
    pub load: Option<rate::Load>,
    /// What is carried on: filled by the kind, completed here.
    pub memory: Memory,
}

impl Judged {
    /// Nothing known yet.
    #[must_use]
    pub fn begin<S: Observed>(case: &Case<'_>, series: &Series<S>, unit: Unit) -> Self {
        let of_history = || series.history.last().map(|reading| trust::measured_at(reading.as_ref(), case.now));
        let kind = case.request.readings.kind();
        Self {
            unit,
            current: case.request.replicas.spec,
            wish: None,
            why: Vec::new(),
            hold: Vec::new(),
            no_raise: Vec::new(),
            no_lower: Vec::new(),
            notices: Vec::new(),
            partitions: None,
            fit: Fit::Any,
            past: Vec::new(),
            one_shot: case.is_one_shot(series),
            active: None,
            zero_wait: None,
            complete: false,
            earlier_complete: case.memory.and_then(|memory| memory.last_complete_at).or_else(of_history),
            actions: Vec::new(),
            parts: Vec::new(),
            inputs: Vec::new(),
            confidence: Confidence::Low,
            load: None,
            memory: case.memory.cloned().unwrap_or_else(|| Memory::new(kind, case.now)),
        }
    }

    /// Notes that nothing is wanted and for how long that has been so.
    pub fn idle_for(&mut self, idle_seconds: f64, before_zero: Duration) {
        let left = (before_zero.seconds() - idle_seconds).max(0.0);
        self.zero_wait = Some(left);
        let reason = Reason::Idle { idle_seconds: Secs(idle_seconds), zero_after_seconds: before_zero.into(), remaining_seconds: Secs(left) };
        self.why.insert(0, reason);
    }

    /// When a reading was last complete, this one included.
    fn last_complete(&self, trust: &Trust) -> Option<Timestamp> {
        if self.complete { trust.observed_at } else { self.earlier_complete }
    }
}

/// The number, and how it came about.
struct Verdict {
    recommended: Option<Count>,
    wanted: Option<Count>,
    reasons: Vec<Reason>,
    limits: Vec<Limit>,
    /// True when a reason or a limit that passes with time is why nothing differs.
    held: bool,
    is_fallback: bool,
}

/// Concludes. `in_hand` is told the count that everything else allows and the reasons and actions so far, and answers
/// the smallest safe count.
pub fn conclude(case: &Case<'_>, trust: &Trust, mut judged: Judged, in_hand: impl FnOnce(Count, &mut Vec<Reason>, &mut Vec<Action>) -> Count) -> Advice {
    let mut actions = std::mem::take(&mut judged.actions);
    let mut verdict = match judged.current {
        None => current_unknown(&judged),
        Some(current) => match (judged.wish, judged.hold.is_empty()) {
            (Some(wish), true) => decide(case, &mut judged, current, wish, in_hand, &mut actions),
            (wish, _) => hold(case, trust, &mut judged, current, wish.map(ceil_count)),
        },
    };
    let consumer = case.policy.consumer.as_ref().and_then(|consumer| meet(case, consumer, judged.current, &mut verdict));
    if case.floored && verdict.limits.iter().any(|limit| limit.code == LimitCode::MinReplicas) {
        verdict.reasons.push(Reason::ScheduledFloor { min: case.min });
    }
    verdict.reasons.append(&mut judged.notices);
    if let Some(detail) = &case.request.memory_ignored {
        verdict.reasons.push(Reason::MemoryIgnored { detail: detail.clone() });
    }
    remember(case, trust, &mut judged, &verdict);
    answer(case, trust, judged, verdict, consumer, actions)
}

fn current_unknown(judged: &Judged) -> Verdict {
    let mut reasons = judged.hold.clone();
    reasons.extend(judged.why.iter().cloned());
    if reasons.is_empty() {
        reasons.push(Reason::DemandUnknown { detail: "neither replicas.spec nor the reading tells the present count".to_owned() });
    }
    Verdict { recommended: None, wanted: judged.wish.map(ceil_count), reasons, limits: Vec::new(), held: false, is_fallback: false }
}

/// The demand is unknown, or something forbids any change: the present count, or what the policy says.
fn hold(case: &Case<'_>, trust: &Trust, judged: &mut Judged, current: Count, wanted: Option<Count>) -> Verdict {
    let mut reasons = std::mem::take(&mut judged.hold);
    let mut unknown = trust::Unknown { recommended: Some(current), reason: None, is_fallback: false };
    if !judged.complete || !trust.is_fresh() {
        let last = judged.last_complete(trust);
        let since = last.map(|at| seconds_between(at, case.now).max(0.0));
        unknown = trust::on_unknown(case.policy, current, trust::failures_in_a_row(case.request, case.memory), since);
    }
    if let Some(reason) = unknown.reason {
        reasons.insert(0, reason);
    }
    reasons.append(&mut judged.why);
    reasons.append(&mut judged.no_raise);
    reasons.append(&mut judged.no_lower);
    // the lower bound is known whatever the readings say; nothing is cut to the upper one without knowing what is cut
    let mut ladder = Ladder::new(unknown.recommended.unwrap_or(current));
    ladder.at_least(LimitCode::MinReplicas, case.min);
    Verdict { recommended: unknown.recommended.map(|_| ladder.value), wanted, reasons, limits: ladder.limits, held: true, is_fallback: unknown.is_fallback }
}

fn decide(
    case: &Case<'_>,
    judged: &mut Judged,
    current: Count,
    wish: f64,
    in_hand: impl FnOnce(Count, &mut Vec<Reason>, &mut Vec<Action>) -> Count,
    actions: &mut Vec<Action>,
) -> Verdict {
    let policy = case.policy;
    let wanted = ceil_count(wish);
    let mut ladder = Ladder::new(wanted);
    let mut reasons = std::mem::take(&mut judged.why);

    // what partitions can use
    if let Some(most) = judged.partitions {
        ladder.at_most(LimitCode::PartitionLimit, most);
        let fitted = match judged.fit {
            Fit::Any => ladder.value,
            Fit::SamePeak(demand) => align::same_peak(most, ladder.value, demand, policy.target_utilization, 1.0),
            Fit::NextUseful => align::next_useful(most, ladder.value),
        };
        ladder.to(LimitCode::EvenDistribution, fitted, as_f64(most));
    }
    hysteresis(&mut ladder, current, wish, policy);

    // what is wanted for long enough
    let mut wishes: Wishes = case.memory.map(|memory| memory.wishes.clone()).unwrap_or_default();
    let window = policy.scale_down.stabilization.longer(policy.scale_up.stabilization);
    if case.memory.is_none() {
        for (at, past) in &judged.past {
            wishes.record(*at, *past, window);
        }
    }
    wishes.record(case.now, ladder.value, window);

    // the largest change of one decision, then what may be changed at all
    limits::steps(&mut ladder, current, &policy.scale_up, &policy.scale_down);
    if !judged.one_shot
        && let Some(reason) = limits::stabilize(&mut ladder, current, &wishes, case.now, policy)
    {
        reasons.insert(0, reason);
    }
    limits::cooldown(&mut ladder, current, case.seconds_since_change(), policy);
    let mut held = blocked(judged, &mut ladder, current, &mut reasons, policy.paused);

    // bounds, last; a minimum above what partitions keep busy does not create members that read nothing
    let most = judged.partitions.unwrap_or(Count::MAX);
    if ladder.value < case.min {
        if case.min > most {
            ladder.to(LimitCode::MinAbovePartitions, most.max(ladder.value), as_f64(most));
        } else {
            ladder.at_least(LimitCode::MinReplicas, case.min);
        }
    }
    ladder.at_most(LimitCode::MaxReplicas, policy.max.max(case.min.min(policy.max)));
    if let Some(wait) = judged.zero_wait.filter(|wait| *wait > 0.0 && ladder.value == 0 && current > 0) {
        ladder.to(LimitCode::Cooldown, 1, wait);
    }

    // work in hand
    let allowed = ladder.value;
    let mut in_hand_reasons = Vec::new();
    let safe = in_hand(allowed, &mut in_hand_reasons, actions);
    if safe == allowed {
        reasons.append(&mut in_hand_reasons);
    } else {
        held |= safe == current;
        in_hand_reasons.append(&mut reasons);
        reasons = in_hand_reasons;
    }
    held = (held || ladder.waits()) && safe == current && wanted != current;
    judged.memory.wishes = wishes;
    if reasons.is_empty() {
        reasons.push(Reason::WithinTarget { current, wanted });
    }
    Verdict { recommended: Some(safe), wanted: Some(wanted), reasons, limits: ladder.limits, held, is_fallback: false }
}

/// Demand that has barely left the range of the present count does not move it.
fn hysteresis(ladder: &mut Ladder, current: Count, wish: f64, policy: &Policy) {
    let ratio = policy.hysteresis_ratio;
    if ratio <= 0.0 || current == 0 {
        return;
    }
    let near_above = ladder.value > current && wish <= as_f64(current) * (1.0 + ratio);
    let near_below = ladder.value < current && wish >= as_f64(current - 1) * (1.0 - ratio);
    if near_above || near_below {
        ladder.to(LimitCode::Hysteresis, current, ratio);
    }
}

/// Takes back a change that must not be made. Returns true when that is why nothing differs.
fn blocked(judged: &mut Judged, ladder: &mut Ladder, current: Count, reasons: &mut Vec<Reason>, paused: bool) -> bool {
    let mut blocks = Vec::new();
    if paused {
        blocks.push(Reason::Paused {});
    }
    if ladder.value > current {
        blocks.append(&mut judged.no_raise);
    } else if ladder.value < current {
        blocks.append(&mut judged.no_lower);
    }
    let is_blocked = !blocks.is_empty();
    if is_blocked {
        ladder.value = current;
        blocks.append(reasons);
        *reasons = blocks;
    }
    // what would have forbidden the other direction is still worth saying
    reasons.append(&mut judged.no_raise);
    reasons.append(&mut judged.no_lower);
    is_blocked
}

/// What the consumer will do, and whether the recommendation is moved to what it will take.
fn meet(case: &Case<'_>, consumer: &Consumer, current: Option<Count>, verdict: &mut Verdict) -> Option<super::advice::ConsumerView> {
    let status = case.request.replicas.status.or(case.request.replicas.spec).or(current)?;
    let recommended = verdict.recommended?;
    let seen = consumer::view(consumer, recommended, status);
    if seen.reachable {
        return Some(seen);
    }
    let is_tolerance = consumer::proposes(consumer, recommended, status) != recommended;
    if consumer.round_to_reachable && is_tolerance {
        let next = consumer::next_reachable(consumer, recommended, status, case.policy.max);
        if next != recommended {
            verdict.limits.push(Limit { code: LimitCode::ConsumerTolerance, from: recommended, to: next, at: consumer.tolerance_up });
            verdict.recommended = Some(next);
            return Some(consumer::view(consumer, next, status));
        }
    }
    if is_tolerance {
        let at = if recommended > status { consumer.tolerance_up } else { consumer.tolerance_down };
        verdict.limits.push(Limit { code: LimitCode::ConsumerTolerance, from: recommended, to: seen.will_hold, at });
    }
    Some(seen)
}

/// Completes what is carried on.
fn remember(case: &Case<'_>, trust: &Trust, judged: &mut Judged, verdict: &Verdict) {
    let last_complete = judged.last_complete(trust);
    let memory = &mut judged.memory;
    memory.failures = if judged.complete && trust.is_fresh() { 0 } else { memory.failures.saturating_add(1) };
    memory.last_complete_at = last_complete;
    if judged.active == Some(true) {
        memory.last_active_at = Some(case.now);
    }
    if let Some(spec) = case.request.replicas.spec {
        match memory.spec {
            Some(seen) if seen.count == spec => {}
            Some(seen) => {
                let by_others = memory.recommended.is_some_and(|recommended| recommended != spec);
                memory.foreign_changes = if by_others { memory.foreign_changes.saturating_add(1) } else { 0 };
                memory.spec = Some(SpecSeen { count: spec, since: case.now, before: Some(seen.count) });
            }
            None => memory.spec = Some(SpecSeen { count: spec, since: case.now, before: None }),
        }
    }
    if verdict.recommended.is_some() {
        memory.recommended = verdict.recommended;
    }
}

fn answer(
    case: &Case<'_>,
    trust: &Trust,
    judged: Judged,
    mut verdict: Verdict,
    consumer: Option<super::advice::ConsumerView>,
    mut actions: Vec<Action>,
) -> Advice {
    let (current, recommended) = (judged.current, verdict.recommended);
    if judged.memory.foreign_changes >= 2
        && let (Some(count), Some(told)) = (current, case.memory.and_then(|memory| memory.recommended))
        && told != count
    {
        verdict.reasons.push(Reason::ChangedByOthers { times: judged.memory.foreign_changes, count, recommended: told });
    }
    let parts_differ = judged.parts.iter().any(|part| part.recommended.is_some() && part.recommended != part.current);
    let outcome = match (current, recommended) {
        (None, _) => Outcome::Unknown,
        (Some(_), None) => Outcome::Hold,
        (Some(current), Some(recommended)) if current != recommended || parts_differ => Outcome::Change,
        _ if verdict.held => Outcome::Hold,
        _ => Outcome::Keep,
    };
    let direction = direction(current, recommended, &judged.parts);
    if let (Some(from), Some(to)) = (current, recommended)
        && from != to
    {
        let message = format!("set the count from {from} to {to}");
        actions.insert(0, Action { to: Some(to), ..Action::new(ActionKind::Scale, message) });
    }
    let valid_until = if verdict.is_fallback {
        Some(shifted(case.now, case.policy.stale_after.seconds()))
    } else {
        judged.memory.last_complete_at.map(|at| shifted(at, case.policy.stale_after.seconds()))
    };
    let bounds = Bounds { min: case.min, max: case.policy.max, partitions: judged.partitions };
    Advice {
        kind: case.request.readings.kind(),
        name: case.request.name.clone(),
        outcome,
        current,
        recommended,
        wanted: verdict.wanted,
        direction,
        unit: judged.unit,
        active: judged.active,
        bounds,
        forecast: judged.load.map(|load| forecast(case, load, current, recommended, bounds)).unwrap_or_default(),
        reasons: verdict.reasons,
        limits: verdict.limits,
        actions,
        parts: judged.parts,
        inputs: judged.inputs,
        confidence: judged.confidence,
        consumer,
        evaluated_at: case.now,
        observed_at: trust.observed_at,
        valid_until,
        memory: judged.memory,
    }
}

fn direction(current: Option<Count>, recommended: Option<Count>, parts: &[Part]) -> Direction {
    let (mut up, mut down) = (false, false);
    let pairs = parts.iter().map(|part| (part.current, part.recommended)).chain([(current, recommended)]);
    for (from, to) in pairs {
        if let (Some(from), Some(to)) = (from, to) {
            up |= to > from;
            down |= to < from;
        }
    }
    match (up, down) {
        (true, true) => Direction::Mixed,
        (true, false) => Direction::Up,
        (false, true) => Direction::Down,
        (false, false) => Direction::None,
    }
}

fn forecast(case: &Case<'_>, load: rate::Load, current: Option<Count>, recommended: Option<Count>, bounds: Bounds) -> Forecast {
    let delay = case.policy.startup.seconds() + case.policy.pause.seconds();
    let mut forecast = Forecast::default();
    if let Some(current) = current {
        let seconds = rate::catch_up(load, current, 0.0);
        (forecast.catch_up_seconds_now, forecast.catches_up_now) = (seconds, Some(seconds.is_some()));
        forecast.utilization_now = rate::utilization(load.arrival, load.capacity, current);
    }
    if let Some(recommended) = recommended {
        let delay = if current == Some(recommended) { 0.0 } else { delay };
        let seconds = rate::catch_up(load, recommended, delay);
        (forecast.catch_up_seconds_recommended, forecast.catches_up_recommended) = (seconds, Some(seconds.is_some()));
        forecast.utilization_recommended = rate::utilization(load.arrival, load.capacity, recommended);
    }
    let most = bounds.max.min(bounds.partitions.unwrap_or(Count::MAX));
    let seconds = rate::catch_up(load, most, if current == Some(most) { 0.0 } else { delay });
    (forecast.catch_up_seconds_at_max, forecast.catches_up_at_max) = (seconds, Some(seconds.is_some()));
    forecast
}
