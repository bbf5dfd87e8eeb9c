//! What is said of a job and its vertices: reasons, confidence, inputs, parts, and what is carried on.

use super::graph::Target;
use super::rates::Figures;
use super::vertex::Decision;
use super::window::Window;
use super::{FlinkJobSnapshot, Vertex};
use crate::core::advice::{Action, ActionKind, Confidence, Input, InputState, Part, VertexFigures};
use crate::core::decide::{Case, Judged};
use crate::core::memory::{EffectSeen, PartMemory};
use crate::core::reasons::{Maybe, Rate, Reason, ReasonCode, Share, Vertices};
use crate::core::trust::Trust;
use crate::core::units::{Known, as_f64};

/// The most reasons that are repeated for the job.
const MOST_REASONS: usize = 32;
/// A prediction this close to a proportion is none worth a word.
const NEARLY_PROPORTIONAL: f64 = 0.05;

/// The decisive vertex speaks for the job: the one with the largest raise, else the largest cut, else what holds, else
/// what its limits keep from what it wants.
#[must_use]
pub fn job_reasons(job: &FlinkJobSnapshot, decisions: &[Decision], figures: &[Figures]) -> Vec<Reason> {
    let share = |vertex: &Vertex, decision: &Decision| as_f64(decision.parallelism) / as_f64(vertex.parallelism.max(1));
    let pairs = || job.vertices.iter().zip(decisions);
    let raised = pairs().filter(|(vertex, decision)| decision.parallelism > vertex.parallelism).max_by(|a, b| share(a.0, a.1).total_cmp(&share(b.0, b.1)));
    let lowered = pairs().filter(|(vertex, decision)| decision.parallelism < vertex.parallelism).min_by(|a, b| share(a.0, a.1).total_cmp(&share(b.0, b.1)));
    let held = pairs().find(|(_, decision)| decision.held && !decision.reasons.is_empty());
    let limited = pairs().find(|(vertex, decision)| decision.outside && decision.wanted.is_some_and(|wanted| wanted != vertex.parallelism));
    let mut reasons = Vec::new();
    for (_, decision) in [raised, lowered, held].into_iter().flatten() {
        reasons.extend(decision.reasons.iter().cloned());
    }
    if reasons.is_empty()
        && let Some((_, decision)) = limited
    {
        reasons.extend(decision.reasons.iter().cloned());
    }
    let is_inside = |decision: &Decision| decision.wanted.is_some() && !decision.outside && !decision.held;
    if reasons.is_empty() && pairs().filter(|(vertex, _)| vertex.finished != Some(true)).all(|(_, decision)| is_inside(decision)) {
        let busiest = job.vertices.iter().zip(figures).max_by(|a, b| a.1.busy.unwrap_or(0.0).total_cmp(&b.1.busy.unwrap_or(0.0)));
        if let Some((vertex, figures)) = busiest {
            reasons.push(Reason::JobInsideBand {
                vertices: Vertices(job.vertices.len() as u64),
                busiest: vertex.label().to_owned(),
                busy_ratio: Maybe(figures.busy.map(Share)),
            });
        }
    }
    // what is peculiar about single vertices is worth a word for the job as well
    for reason in decisions.iter().flat_map(|decision| &decision.reasons).filter(|reason| is_peculiar(reason)) {
        if reasons.len() >= MOST_REASONS {
            break;
        }
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    reasons
}

fn is_peculiar(reason: &Reason) -> bool {
    let is_usual = matches!(
        reason.code(),
        ReasonCode::InsideBand
            | ReasonCode::DemandAboveCapacity
            | ReasonCode::BacklogCatchUp
            | ReasonCode::SpareCapacity
            | ReasonCode::WithinTarget
            | ReasonCode::LearnedScaling
    );
    !is_usual
}

/// Says of each change whose prediction is not in proportion where it comes from.
pub fn say_learned(job: &FlinkJobSnapshot, figures: &[Figures], decisions: &mut [Decision]) {
    for ((vertex, figures), decision) in job.vertices.iter().zip(figures).zip(decisions) {
        let (Some(curve), Some(capacity)) = (decision.curve.as_ref().filter(|curve| curve.is_learned()), figures.capacity) else { continue };
        let expected = curve.capacity(decision.parallelism);
        let proportional = capacity * as_f64(decision.parallelism) / as_f64(vertex.parallelism);
        if decision.parallelism != vertex.parallelism && (expected - proportional).abs() > NEARLY_PROPORTIONAL * proportional {
            decision.reasons.push(Reason::LearnedScaling {
                name: vertex.label().to_owned(),
                parallelism: decision.parallelism,
                capacity_per_second: Rate(expected),
                proportional_per_second: Rate(proportional),
            });
        }
    }
}

/// How far the numbers carry. `estimates` are those that the job as a whole rests on.
#[must_use]
pub fn confidence(judged: &Judged, targets: &[Target], figures: &[Figures], window: &Window<'_>, estimates: usize) -> Confidence {
    let unknown = targets.iter().filter(|target| target.backlog_unknown || target.contradicted.is_some()).count();
    let doubtful = figures.iter().filter(|figures| figures.incomplete || figures.reset.is_some() || figures.busy.is_none()).count();
    match usize::from(unknown > 0) + usize::from(doubtful > 0) + usize::from(window.not_full.is_some()) + usize::from(judged.one_shot) + estimates {
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    }
}

/// The numbers behind the decision.
pub fn inputs(judged: &mut Judged, trust: &Trust, job: &FlinkJobSnapshot, figures: &[Figures], targets: &[Target]) {
    let sources = || job.vertices.iter().zip(figures).zip(targets).filter(|((vertex, _), _)| vertex.is_source());
    let finite = |sum: Option<f64>| sum.filter(|value| value.is_finite());
    let lag = finite(sources().map(|((_, figures), _)| figures.lag).sum());
    let arrival = finite(sources().map(|(_, target)| target.rate).sum());
    let read = finite(sources().map(|((_, figures), _)| figures.input).sum());
    let lag_seconds = lag.zip(read).and_then(|(lag, read)| (read > 0.0).then(|| lag / read).or((lag <= 0.0).then_some(0.0)));
    let busiest = figures.iter().filter_map(|figures| figures.busy_max.or(figures.busy)).reduce(f64::max);
    for (name, value) in
        [("backlogRecords", lag), ("arrivalPerSecond", arrival), ("recordsInPerSecond", read), ("lagSeconds", lag_seconds), ("busyRatioMax", busiest)]
    {
        let state = if value.is_some() { InputState::Fresh } else { InputState::Missing };
        judged.inputs.push(Input { name, value, age_seconds: trust.age_seconds, state });
    }
    let promised = job.slots_promised_to_others.map(as_f64);
    if promised.is_some() {
        judged.inputs.push(Input { name: "slotsPromisedToOthers", value: promised, age_seconds: trust.age_seconds, state: InputState::Fresh });
    }
    let gc = job.memory.and_then(|memory| memory.gc_time_ratio.known());
    if gc.is_some() {
        judged.inputs.push(Input { name: "gcTimeRatio", value: gc, age_seconds: trust.age_seconds, state: InputState::Fresh });
    }
}

/// Is there demand: not known where nothing is seen to flow or to wait and some rate is missing.
#[must_use]
pub fn active(job: &FlinkJobSnapshot, figures: &[Figures], targets: &[Target], activation_backlog: f64) -> Option<bool> {
    let waiting: f64 = job.vertices.iter().zip(figures).filter(|(vertex, _)| vertex.is_source()).filter_map(|(_, figures)| figures.lag).sum();
    let flows = targets.iter().any(|target| target.rate.unwrap_or(0.0) > 0.0) || waiting > activation_backlog;
    let known = job.vertices.iter().zip(targets).all(|(vertex, target)| vertex.finished == Some(true) || target.rate.is_some());
    if flows { Some(true) } else { known.then_some(false) }
}

/// What is carried on of each vertex; of a raise also what is expected of it, by the value that it ended at.
pub fn remember(case: &Case<'_>, judged: &mut Judged, job: &FlinkJobSnapshot, figures: &[Figures], window: &Window<'_>, decisions: &mut [Decision]) {
    let mut parts = std::collections::BTreeMap::new();
    for ((vertex, figures), decision) in job.vertices.iter().zip(figures).zip(decisions) {
        if let Some(capacity) = figures.capacity.filter(|capacity| capacity.is_finite() && decision.parallelism > vertex.parallelism) {
            let in_proportion = capacity / as_f64(vertex.parallelism) * as_f64(decision.parallelism);
            let capacity_expected = decision.curve.as_ref().map_or(in_proportion, |curve| curve.capacity(decision.parallelism));
            decision.effect = Some(EffectSeen { from: vertex.parallelism, to: decision.parallelism, capacity_before: capacity, capacity_expected });
        }
        let before = case.memory.and_then(|memory| memory.parts.get(&vertex.id));
        // for as long as the rescale is seen it is known what it was to be
        let kept = before.and_then(|part| part.advised).filter(|_| window.rescale_seconds.is_some());
        let advised = if decision.parallelism == vertex.parallelism { kept } else { Some(decision.parallelism) };
        let (wishes, capacities) = (std::mem::take(&mut decision.wishes), std::mem::take(&mut decision.capacities));
        let part = PartMemory { wishes, effect: decision.effect, capacities, delayed: decision.delayed.take(), advised, last_active_at: None };
        if part != PartMemory::default() {
            parts.insert(vertex.id.clone(), part);
        }
    }
    judged.memory.parts = parts;
}

/// The part of a vertex.
#[must_use]
pub fn part(vertex: &Vertex, decision: Decision, figures: &Figures, target: &Target) -> Part {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    Part {
        id: vertex.id.clone(),
        name: vertex.label().to_owned(),
        current: Some(vertex.parallelism),
        recommended: Some(decision.parallelism),
        wanted: decision.wanted,
        reasons: decision.reasons,
        limits: decision.ladder.limits,
        vertex: Some(VertexFigures {
            target_per_second: finite(target.rate),
            capacity_per_second: finite(figures.capacity),
            busy_ratio: figures.busy,
            scale_up_threshold_per_second: finite(decision.band.up_below),
            scale_down_threshold_per_second: finite(decision.band.down_above),
        }),
    }
}

/// A vertex of a job of which nothing can be said.
#[must_use]
pub fn unchanged(vertex: &Vertex) -> Part {
    Part {
        id: vertex.id.clone(),
        name: vertex.label().to_owned(),
        current: Some(vertex.parallelism),
        recommended: Some(vertex.parallelism),
        wanted: None,
        reasons: Vec::new(),
        limits: Vec::new(),
        vertex: Some(VertexFigures { busy_ratio: vertex.busy_ratio.and_then(|spread| spread.max.known()), ..VertexFigures::default() }),
    }
}

/// The step that memory pressure asks for.
#[must_use]
pub fn add_memory() -> Action {
    Action::new(
        ActionKind::AddMemory,
        "give the TaskManagers more memory: garbage collection or a full heap slows every subtask, and more of them would be as slow".to_owned(),
    )
}

/// The step that a hot subtask asks for.
#[must_use]
pub fn find_hot_key(name: &str) -> Action {
    Action::new(
        ActionKind::Investigate,
        format!("look for the hot key or partition of {name}: splitting or pre-aggregating it relieves the busiest subtask, more subtasks do not"),
    )
}
