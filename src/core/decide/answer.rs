//! The end of a decision: what is carried on, and the answer with its forecast.

use super::{Case, Judged, Verdict};
use crate::core::advice::{Action, ActionKind, Advice, Bounds, ConsumerView, Direction, Forecast, Outcome, Part};
use crate::core::memory::SpecSeen;
use crate::core::reasons::Reason;
use crate::core::sizing::rate;
use crate::core::trust::Trust;
use crate::core::units::{Count, shifted};

/// Completes what is carried on.
pub(super) fn remember(case: &Case<'_>, trust: &Trust, judged: &mut Judged, verdict: &Verdict) {
    let last_complete = judged.last_complete(trust);
    let memory = &mut judged.memory;
    if judged.complete && trust.is_fresh() {
        // as the request has it: a kind that stabilizes its parts concludes without windows of its own
        let since = case.unbroken_since(case.request.policy.scale_down.stabilization);
        memory.unbroken_since = (since != memory.since).then_some(since);
    }
    memory.failures = if judged.complete && trust.is_fresh() { 0 } else { memory.failures.saturating_add(1) };
    memory.last_complete_at = last_complete;
    if judged.active == Some(true) {
        memory.last_active_at = Some(case.now);
    }
    if let Some(spec) = case.spec {
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

pub(super) fn answer(case: &Case<'_>, trust: &Trust, judged: Judged, mut verdict: Verdict, consumer: Option<ConsumerView>, mut actions: Vec<Action>) -> Advice {
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
    let (startup, pause) = (case.policy.startup.seconds(), case.policy.pause.seconds());
    let after = |count: Count| if current == Some(count) { rate::catch_up(load, count, 0.0, 0.0) } else { rate::catch_up(load, count, startup, pause) };
    let mut forecast = Forecast::default();
    if let Some(current) = current {
        let seconds = after(current);
        (forecast.catch_up_seconds_now, forecast.catches_up_now) = (seconds, Some(seconds.is_some()));
        forecast.utilization_now = rate::utilization(load.arrival, load.capacity, current);
    }
    if let Some(recommended) = recommended {
        let seconds = after(recommended);
        (forecast.catch_up_seconds_recommended, forecast.catches_up_recommended) = (seconds, Some(seconds.is_some()));
        forecast.utilization_recommended = rate::utilization(load.arrival, load.capacity, recommended);
    }
    let most = bounds.max.min(bounds.partitions.unwrap_or(Count::MAX));
    let seconds = after(most);
    (forecast.catch_up_seconds_at_max, forecast.catches_up_at_max) = (seconds, Some(seconds.is_some()));
    forecast
}
