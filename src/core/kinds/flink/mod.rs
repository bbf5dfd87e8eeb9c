//! Flink jobs: true processing rate, backlog and catch-up through the job graph, and a parallelism for each vertex.
//!
//! The job is read over a window (`window`), each vertex is measured (`rates`), demand is carried from the sources
//! through the graph (`graph`), and each vertex gets its parallelism (`vertex`, `bounds`, `curve`). Then the job as a
//! whole: slots and `TaskManagers` (`slots`), what gets through downstream (`reach`), what the rescale costs and brings
//! (`price`). Why not busy time alone: it says nothing of what waits, and a vertex behind a slower one looks idle. Right
//! after a start nothing is decided, since averages and totals of that time mislead (`facts`); an idle job keeps its
//! smallest parallelism. Rates are records per second.
//! Source: FLIP-271 and the Flink Kubernetes operator's flink-autoscaler; DS2 (OSDI 2018).

mod bounds;
mod curve;
mod delay;
mod facts;
mod graph;
mod past;
mod price;
pub mod rates;
mod reach;
mod reading;
mod report;
pub mod scalability;
mod slots;
mod trace;
mod vertex;
pub mod window;

pub use self::reading::*;

use self::graph::Graph;
use self::price::Outlook;
use self::rates::Figures;
use self::vertex::Decision;
use self::window::Window;
use crate::core::advice::{Advice, Outcome, Unit};
use crate::core::decide::{Case, Judged, conclude};
use crate::core::reasons::{LimitCode, Reason, ReasonCode, Secs};
use crate::core::request::{Request, Series};
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, as_f64};

/// Judges a job.
#[must_use]
pub fn advise(request: &Request, series: &Series<FlinkJobSnapshot>) -> Advice {
    let case = Case::new(request);
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::TaskManagers);
    judged.notices.extend(trust.notices.iter().cloned());
    judged.is_excluded = request.policy.flink.excluded_periods.iter().any(|period| period.contains(case.now));
    let Some(job) = series.latest.as_deref() else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.current = judged.current.or_else(|| series.history.last().and_then(|job| slots::task_managers(job)));
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    let slots = slots::Slots::of(job, request.replicas.spec);
    judged.unit = slots.unit;
    judged.current = slots.current;
    judged.complete = !job.vertices.is_empty();
    judged.hold.extend(trust.doubts.iter().cloned());
    if trust.is_fresh() {
        judged.hold.extend(facts::not_ready(&case, job));
        judged.hold.extend(case.older_than_change(&trust));
    }
    if !judged.hold.is_empty() {
        return hold(&case, &trust, job, judged);
    }
    decide(&case, &trust, series, job, &slots, judged)
}

/// Nothing can be said now.
fn hold(case: &Case<'_>, trust: &Trust, job: &FlinkJobSnapshot, mut judged: Judged) -> Advice {
    judged.parts = job.vertices.iter().map(report::unchanged).collect();
    conclude(case, trust, judged, |count, _, _| count)
}

fn decide(case: &Case<'_>, trust: &Trust, series: &Series<FlinkJobSnapshot>, job: &FlinkJobSnapshot, slots: &slots::Slots, mut judged: Judged) -> Advice {
    let policy = case.policy;
    let window = Window::collect(case, series, job);
    if let Some(reason) = window.no_base.clone().filter(|_| !judged.one_shot) {
        judged.hold.push(reason);
        return hold(case, trust, job, judged);
    }
    let figures: Vec<Figures> = window.figures(job, &policy.flink);
    let pace = facts::Pace::of(case, job, &window);
    judged.memory.restart_seconds = pace.measured;
    let graph = Graph::of(job);
    let targets = graph.targets(job, &figures, policy, pace.within, &[]);
    if let Some(reason) = facts::implausible(job, &targets, policy) {
        judged.hold.push(reason);
        return hold(case, trust, job, judged);
    }
    let (facts, found) = facts::of_job(case, job, &figures, &targets, &window, pace, judged.one_shot);
    judged.complete &= !found.is_incomplete;
    judged.notices.extend(found.notices);

    let past = past::parts(case, series, job);
    let mut decisions: Vec<Decision> = Vec::with_capacity(job.vertices.len());
    for (position, ((vertex, figures), target)) in job.vertices.iter().zip(&figures).zip(&targets).enumerate() {
        let remembered = case.memory.and_then(|memory| memory.parts.get(&vertex.id)).or(past.get(position));
        decisions.push(vertex::decide(case, vertex, figures, target, &facts, remembered, judged.one_shot));
    }
    wait_for_others(case, job, &mut decisions);
    // a vertex outside its band is what a rescale is for; without one nothing is moved
    let raises = job.vertices.iter().zip(&decisions).any(|(vertex, decision)| decision.outside && decision.parallelism > vertex.parallelism);
    keep(job, &mut decisions, |decision| decision.joins && !raises);
    if !moves(&decisions, job) {
        keep(job, &mut decisions, |_| true);
    }
    slots::fit(job, slots, policy, case.min, &mut decisions);
    if slots.is_over_quota(job, policy, &decisions) {
        limit_all(job, LimitCode::Quota, &mut decisions);
    }
    let (mut price, mut forecast) = (None, None);
    if policy.flink.doubt_holds {
        reach::cut(job, &graph, &figures, &targets, &facts, policy, &mut decisions);
        price::weigh(job, slots, &figures, &targets, &facts, policy, &mut decisions);
        if moves(&decisions, job) {
            slots::fill(job, slots, policy, case.min, &mut decisions);
        }
        let outlook = Outlook::of(job, &figures, &targets, &decisions, &facts);
        price = outlook.and_then(|outlook| price::tell(&outlook, slots, &decisions));
        report::say_learned(job, &figures, &mut decisions);
        forecast = outlook.map(|outlook| outlook.forecast());
    }
    let unready = || facts::memory_pressure(policy, job, &window).or_else(|| window.not_full.clone().filter(|_| !policy.flink.raise_before_window_full));
    let block = if policy.paused { Some(Reason::Paused {}) } else { unready() };
    if let Some(reason) = block {
        if !policy.paused {
            // what is wished for while nothing can be told neither begins nor ends a delay
            for (vertex, decision) in job.vertices.iter().zip(&mut decisions) {
                decision.delayed = case.memory.and_then(|memory| memory.parts.get(&vertex.id)).and_then(|part| part.delayed.clone());
            }
        }
        if reason.code() == ReasonCode::MemoryPressure {
            judged.actions.push(report::add_memory());
        }
        hold_all(job, &reason, &mut decisions);
        (price, forecast) = (None, None);
    }
    for (vertex, decision) in job.vertices.iter().zip(&decisions) {
        if decision.ladder.limits.iter().any(|limit| limit.code == LimitCode::SubtaskSkew) {
            judged.actions.push(report::find_hot_key(vertex.label()));
        }
    }
    // what would be done is told, and nothing is
    let answer = count(job, slots, judged.current, &decisions);
    if judged.is_excluded {
        limit_all(job, LimitCode::ExcludedPeriod, &mut decisions);
        (price, forecast) = (None, None);
    }

    report::inputs(&mut judged, trust, job, &figures, &targets);
    judged.confidence = report::confidence(&judged, &targets, &figures, &window, found.estimates);
    judged.why = report::job_reasons(job, &decisions, &figures);
    judged.why.extend(price);
    judged.active = report::active(job, &figures, &targets, policy.activation_backlog);
    report::remember(case, &mut judged, job, &figures, &window, &mut decisions);
    let held = decisions.iter().any(|decision| decision.held);
    judged.wish = answer.as_ref().map(|answer| as_f64(answer.told));
    if moves(&decisions, job) {
        judged.actions.insert(0, slots::set_parallelism(job, &decisions));
    }
    judged.parts = job
        .vertices
        .iter()
        .zip(decisions)
        .zip(&figures)
        .zip(&targets)
        .map(|(((vertex, decision), figures), target)| report::part(vertex, decision, figures, target))
        .collect();
    let mut advice = finish(case, trust, slots, judged, answer, held);
    advice.forecast = forecast.unwrap_or_default();
    advice
}

/// The job's count: the wish, what has been decided, and the limits between the two.
struct Answer {
    wanted: Count,
    told: Count,
    limits: Vec<crate::core::advice::Limit>,
}

fn count(job: &FlinkJobSnapshot, slots: &slots::Slots, current: Option<Count>, decisions: &[Decision]) -> Option<Answer> {
    let current = current?;
    let changed = moves(decisions, job);
    if !changed && decisions.iter().all(|decision| decision.wanted.is_none()) {
        return None;
    }
    let wish = slots.needed(job.vertices.iter().zip(decisions).map(|(vertex, decision)| decision.wanted.unwrap_or(vertex.parallelism)));
    let wanted = slots.answer(current, wish);
    let told = if changed { slots.answer(current, slots.decided(decisions)) } else { current };
    Some(Answer { wanted, told, limits: trace::of_job(job, slots, current, wanted, decisions) })
}

/// Bounds of the count; everything else has acted on the vertices already.
fn finish(case: &Case<'_>, trust: &Trust, slots: &slots::Slots, judged: Judged, answer: Option<Answer>, held: bool) -> Advice {
    let paused = case.policy.paused;
    let bounds = slots.job_policy(case.policy);
    let of_job = Case { policy: &bounds, min: if slots.unit == Unit::Slots { 0 } else { case.min }, ..*case };
    let present = judged.current.filter(|_| paused);
    let mut advice = conclude(&of_job, trust, judged, |count, _, _| present.unwrap_or(count));
    if paused {
        advice.limits.clear();
    }
    if let Some(answer) = answer {
        advice.wanted = Some(answer.wanted);
        advice.limits.splice(0..0, answer.limits);
    }
    if advice.outcome == Outcome::Keep && (held || (paused && advice.wanted != advice.recommended)) {
        advice.outcome = Outcome::Hold;
    }
    advice
}

fn moves(decisions: &[Decision], job: &FlinkJobSnapshot) -> bool {
    job.vertices.iter().zip(decisions).any(|(vertex, decision)| decision.outside && decision.parallelism != vertex.parallelism)
}

/// Nothing may be changed: the wishes are still shown.
fn hold_all(job: &FlinkJobSnapshot, reason: &Reason, decisions: &mut [Decision]) {
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        if decision.parallelism != vertex.parallelism || decision.wanted.is_some_and(|wanted| wanted != vertex.parallelism) {
            decision.reasons.insert(0, reason.clone());
            decision.held = true;
        }
        decision.lead(LimitCode::Held, vertex.parallelism, as_f64(vertex.parallelism));
    }
}

/// Nothing is changed because of a limit; what was wanted is on record.
fn limit_all(job: &FlinkJobSnapshot, code: LimitCode, decisions: &mut [Decision]) {
    for (vertex, decision) in job.vertices.iter().zip(decisions).filter(|(vertex, decision)| decision.parallelism != vertex.parallelism) {
        decision.lead(code, vertex.parallelism, 0.0);
        decision.held |= code.passes_with_time();
    }
}

/// Takes back the moves of vertices inside their bands, where none outside makes it worth a stop.
fn keep(job: &FlinkJobSnapshot, decisions: &mut [Decision], which: impl Fn(&Decision) -> bool) {
    for (vertex, decision) in job.vertices.iter().zip(decisions).filter(|(_, decision)| which(decision) && !decision.forced) {
        decision.lead(LimitCode::InsideOwnBand, vertex.parallelism, 0.0);
    }
}

/// One stop for all cuts: a cut waits for those of other vertices that are nearly through their window, and for its own
/// rest while the readings of a higher demand are still leaving theirs; at most for half of the window.
fn wait_for_others(case: &Case<'_>, job: &FlinkJobSnapshot, decisions: &mut [Decision]) {
    let window = case.policy.scale_down.stabilization.seconds();
    let pairs = || job.vertices.iter().zip(decisions.iter());
    let only_cuts = pairs().all(|(vertex, decision)| decision.parallelism <= vertex.parallelism && !decision.forced);
    let longest = |vertex: &Vertex, decision: &Decision| {
        if decision.parallelism == vertex.parallelism { window / 2.0 } else { (window / 2.0).min(case.policy.flink.window.seconds()) }
    };
    let due = |(vertex, decision): (&Vertex, &Decision)| decision.pending_cut_seconds.filter(|seconds| *seconds > 0.0 && *seconds <= longest(vertex, decision));
    let soon = pairs().filter_map(due).reduce(f64::max);
    let Some(seconds) = soon.filter(|_| only_cuts && case.policy.flink.doubt_holds) else { return };
    for (vertex, decision) in job.vertices.iter().zip(decisions.iter_mut()).filter(|(vertex, decision)| decision.parallelism < vertex.parallelism) {
        decision.lead(LimitCode::ScaleDownStabilized, vertex.parallelism, as_f64(vertex.parallelism));
        decision.reasons.insert(0, Reason::CutsDueSoon { seconds: Secs(seconds) });
        decision.held = true;
    }
}
