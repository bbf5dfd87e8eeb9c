//! From what a kind has seen to an answer: trust, help, wish, limits, work in hand, consumer, words. In this order.
//!
//! A kind judges its readings ([`Judged`]) and knows nothing of stabilization, bounds or consumers; this module knows
//! nothing of tasks or partitions. The only thing that a kind adds late is its work in hand, which may keep a count
//! from falling after everything else has been decided.

mod answer;
mod case;
pub mod effect;
pub mod settle;

use self::answer::{answer, remember};
pub use self::case::Case;
use super::advice::{Action, Advice, Confidence, ConsumerView, Input, Limit, Part, Unit};
use super::memory::{Memory, Wishes};
use super::policy::{Consumer, Policy};
use super::reasons::{LimitCode, Names, Reason, Secs};
use super::request::{Observed, Series};
use super::sizing::limits::{self, Ladder};
use super::sizing::{align, consumer, rate};
use super::trust::{self, Trust};
use super::units::{Count, Timestamp, as_f64, ceil_count, seconds_between};

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
    /// So many replicas help whatever says that more will not.
    pub always_helps: Count,
    /// Why nothing may be lowered.
    pub no_lower: Vec<Reason>,
    /// What is worth saying whatever comes out.
    pub notices: Vec<Reason>,
    /// The most that partitions keep busy.
    pub partitions: Option<Count>,
    /// How the wish fits them.
    pub fit: Fit,
    /// The most that task slots can hold: cuts raises, and nothing that runs.
    pub slots: Option<Count>,
    /// The fewest that hold the state in memory.
    pub memory_floor: Option<Count>,
    /// The fewest whose predicted busy share stays at or below 1, and the busy share now: cuts go no further.
    pub least_busy: Option<(Count, f64)>,
    /// Wishes of earlier readings, oldest first: they stand in for the memory when there is none.
    pub past: Vec<(Timestamp, Count)>,
    /// True when neither history nor memory tells of the past.
    pub one_shot: bool,
    /// Is there demand.
    pub active: Option<bool>,
    /// Seconds that a workload without demand has to wait before zero.
    pub zero_wait: Option<f64>,
    /// True in a period in which nothing is changed.
    pub is_excluded: bool,
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
        let missing = series.latest.as_ref().map(|latest| latest.missing()).filter(|missing| !missing.is_empty());
        Self {
            unit,
            current: case.spec,
            wish: None,
            why: Vec::new(),
            hold: Vec::new(),
            no_raise: Vec::new(),
            always_helps: 0,
            no_lower: missing.map(|missing| Reason::IncompleteReading { missing: Names(missing.to_vec()) }).into_iter().collect(),
            notices: Vec::new(),
            partitions: None,
            fit: Fit::Any,
            slots: None,
            memory_floor: None,
            least_busy: None,
            past: Vec::new(),
            one_shot: case.is_one_shot(series),
            active: None,
            zero_wait: None,
            is_excluded: false,
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
    pub fn idle_for(&mut self, idle_seconds: f64, policy: &Policy) {
        let left = (policy.idle_before_zero.seconds() - idle_seconds).max(0.0);
        self.zero_wait = Some(left);
        let reason = Reason::Idle {
            idle_seconds: Secs(idle_seconds),
            zero_after_seconds: policy.idle_before_zero.into(),
            remaining_seconds: Secs(left),
            startup_seconds: policy.startup.into(),
        };
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
    if !judged.hold.is_empty() {
        judged.confidence = Confidence::Low;
    }
    let mut verdict = match judged.current {
        None => current_unknown(&judged),
        Some(current) if case.policy.paused => {
            // steps that change something are none while nothing is acted on
            actions.retain(|action| action.worker.is_none());
            paused(&mut judged, current)
        }
        Some(current) => match (judged.wish, judged.hold.is_empty()) {
            (Some(wish), true) => decide(case, &mut judged, current, wish, in_hand, &mut actions),
            (wish, _) => hold(case, trust, &mut judged, current, wish.map(ceil_count)),
        },
    };
    if judged.is_excluded {
        exclude(judged.current, &mut verdict);
    }
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

/// Nothing is changed in an excluded period, whatever asks for it.
fn exclude(current: Option<Count>, verdict: &mut Verdict) {
    let Some((from, to)) = verdict.recommended.zip(current).filter(|(recommended, current)| recommended != current) else { return };
    verdict.limits.push(Limit { code: LimitCode::ExcludedPeriod, from, to, at: 0.0 });
    verdict.recommended = Some(to);
    verdict.held = true;
    verdict.is_fallback = false;
}

fn current_unknown(judged: &Judged) -> Verdict {
    let mut reasons = judged.hold.clone();
    reasons.extend(judged.why.iter().cloned());
    if reasons.is_empty() {
        reasons.push(Reason::DemandUnknown { detail: "neither replicas.spec nor the reading tells the present count".to_owned() });
    }
    Verdict { recommended: None, wanted: judged.wish.map(ceil_count), reasons, limits: Vec::new(), held: false, is_fallback: false }
}

/// Nothing is acted on, bounds and fallbacks included; what would be wanted is still told.
fn paused(judged: &mut Judged, current: Count) -> Verdict {
    let mut reasons = vec![Reason::Paused {}];
    for more in [&mut judged.hold, &mut judged.why, &mut judged.no_raise, &mut judged.no_lower] {
        reasons.append(more);
    }
    let wanted = judged.wish.map(ceil_count);
    let mut ladder = Ladder::new(wanted.unwrap_or(current));
    ladder.to(LimitCode::Held, current, as_f64(current));
    Verdict { recommended: Some(current), wanted, reasons, limits: ladder.limits, held: wanted != Some(current), is_fallback: false }
}

/// The demand is unknown, or something forbids any change: the present count, or what the policy says.
fn hold(case: &Case<'_>, trust: &Trust, judged: &mut Judged, current: Count, wanted: Option<Count>) -> Verdict {
    let mut reasons = std::mem::take(&mut judged.hold);
    let mut unknown = trust::Unknown { recommended: Some(current), reason: None, is_fallback: false };
    if !judged.complete || !trust.is_fresh() {
        let last = judged.last_complete(trust);
        let since = last.or(case.memory.map(|memory| memory.since)).map(|at| seconds_between(at, case.now).max(0.0));
        unknown = trust::on_unknown(case.policy, current, trust::failures_in_a_row(case.request, case.memory), since);
    }
    if let Some(reason) = unknown.reason {
        reasons.insert(0, reason);
    }
    reasons.append(&mut judged.why);
    reasons.append(&mut judged.no_raise);
    reasons.append(&mut judged.no_lower);
    // the lower bound is known whatever the readings say; nothing is cut to the upper one without knowing what is cut
    let told = unknown.recommended.unwrap_or(current);
    let mut ladder = Ladder::new(wanted.unwrap_or(told));
    ladder.to(LimitCode::Held, told, as_f64(told));
    to_min(&mut ladder, case.min, judged);
    to_slots(&mut ladder, current, judged);
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
    // nothing is cut to where it would be busier than it can be
    if let Some((least, busy)) = judged.least_busy
        && ladder.value < least.min(current)
    {
        ladder.to(LimitCode::BusyRatioLimit, least.min(current), busy);
    }
    hysteresis(&mut ladder, current, wish, policy);

    // what is wanted for long enough
    let mut wishes: Wishes = case.memory.map(|memory| memory.wishes.clone()).unwrap_or_default();
    let window = policy.scale_down.stabilization.longer(policy.scale_up.stabilization);
    if wishes.is_empty() {
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
    let mut held = blocked(judged, &mut ladder, current, &mut reasons);

    // bounds, last
    if let Some(floor) = judged.memory_floor {
        ladder.at_least(LimitCode::MemoryFloor, floor);
    }
    to_min(&mut ladder, case.min, judged);
    ladder.at_most(LimitCode::MaxReplicas, policy.max.max(case.min.min(policy.max)));
    to_slots(&mut ladder, current, judged);
    if let Some(wait) = judged.zero_wait.filter(|wait| *wait > 0.0 && ladder.value == 0 && current > 0) {
        ladder.to(LimitCode::IdleWait, 1, wait);
    }

    // work in hand
    let allowed = ladder.value;
    let mut in_hand_reasons = Vec::new();
    let safe = in_hand(allowed, &mut in_hand_reasons, actions);
    if safe == allowed {
        reasons.append(&mut in_hand_reasons);
    } else {
        // work in hand says why; a kind that only settles between its parts says nothing and holds nothing
        held |= safe == current && !in_hand_reasons.is_empty();
        in_hand_reasons.append(&mut reasons);
        reasons = in_hand_reasons;
        ladder.to(LimitCode::Held, safe, as_f64(safe));
    }
    held = (held || ladder.waits()) && safe == current && wanted != current;
    judged.memory.wishes = wishes;
    if reasons.is_empty() {
        reasons.push(Reason::WithinTarget { current, wanted });
    }
    Verdict { recommended: Some(safe), wanted: Some(wanted), reasons, limits: ladder.limits, held, is_fallback: false }
}

/// Lifts to the lower bound. One above what partitions keep busy does not create members that read nothing, and both
/// are on record: what the bound asks for, and why it is not had.
fn to_min(ladder: &mut Ladder, min: Count, judged: &Judged) {
    let before = ladder.value;
    ladder.at_least(LimitCode::MinReplicas, min);
    if let Some(most) = judged.partitions
        && ladder.value > most.max(before)
    {
        ladder.to(LimitCode::MinAbovePartitions, most.max(before), as_f64(most));
    }
}

/// Cuts a raise to what task slots can hold.
fn to_slots(ladder: &mut Ladder, current: Count, judged: &Judged) {
    if let Some(slots) = judged.slots
        && ladder.value > slots.max(current)
    {
        ladder.to(LimitCode::WorkerSlots, slots.max(current), as_f64(slots));
    }
}

/// Demand that has barely left the range of the present count does not move it.
fn hysteresis(ladder: &mut Ladder, current: Count, wish: f64, policy: &Policy) {
    let ratio = policy.hysteresis_ratio;
    // the way to zero is no jitter, and what partitions have cut stays cut
    if ratio <= 0.0 || current == 0 || ladder.value == 0 || !ladder.limits.is_empty() {
        return;
    }
    let near_above = ladder.value > current && wish <= as_f64(current) * (1.0 + ratio);
    let near_below = ladder.value < current && wish >= as_f64(current - 1) * (1.0 - ratio);
    if near_above || near_below {
        ladder.to(LimitCode::Hysteresis, current, ratio);
    }
}

/// Takes back a change that must not be made. Returns true when that is why nothing differs.
fn blocked(judged: &mut Judged, ladder: &mut Ladder, current: Count, reasons: &mut Vec<Reason>) -> bool {
    let mut blocks = Vec::new();
    if current < judged.always_helps && ladder.value > current && !judged.no_raise.is_empty() {
        // of nobody one more helps: what is stuck, hot or leased can only be told once someone is there
        let most = ladder.value.min(judged.always_helps);
        ladder.to(LimitCode::Held, most, as_f64(most));
    } else if ladder.value > current {
        blocks.append(&mut judged.no_raise);
    } else if ladder.value < current {
        blocks.append(&mut judged.no_lower);
    }
    let is_blocked = !blocks.is_empty();
    if is_blocked {
        ladder.to(LimitCode::Held, current, as_f64(current));
        blocks.append(reasons);
        *reasons = blocks;
    }
    // what would have forbidden the other direction is still worth saying
    reasons.append(&mut judged.no_raise);
    reasons.append(&mut judged.no_lower);
    is_blocked
}

/// What the consumer will do, and whether the recommendation is moved to what it will take.
fn meet(case: &Case<'_>, consumer: &Consumer, current: Option<Count>, verdict: &mut Verdict) -> Option<ConsumerView> {
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
