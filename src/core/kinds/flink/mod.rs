//! Flink jobs: true processing rate, backlog and catch-up through the job graph, and a parallelism for each vertex.
//!
//! The job is read over a window (`window`), each vertex is measured (`rates`), demand is carried from the sources
//! through the graph (`graph`), each vertex gets its parallelism (`vertex`), and the job's slots and `TaskManagers`
//! follow from those (`slots`). Why not busy time alone: it says nothing of what waits, and a vertex behind a slower
//! one looks idle. Right after a start nothing is decided, since averages and totals of that time mislead; an idle job
//! keeps its smallest parallelism. Rates are records per second.
//! Source: FLIP-271 and the Flink Kubernetes operator's flink-autoscaler; DS2 (OSDI 2018).

mod graph;
mod rates;
mod reading;
mod scalability;
mod slots;
mod vertex;
mod window;

pub use self::reading::*;

use self::graph::{Graph, Target};
use self::rates::Figures;
use self::vertex::{Decision, JobFacts, SATURATED};
use self::window::Window;
use crate::core::advice::{Action, ActionKind, Advice, Confidence, Input, InputState, Outcome, Part, Unit, VertexFigures};
use crate::core::decide::{Case, Judged, conclude};
use crate::core::memory::PartMemory;
use crate::core::policy::Policy;
use crate::core::reasons::{Maybe, Names, Num, Reason, Secs, Share};
use crate::core::request::{Request, Series};
use crate::core::trust::{self, Trust};
use crate::core::units::{Amount, Known, as_f64, seconds_between};

/// A backlog shorter than this, as time at the input rate, is only what is under way.
const UNDER_WAY_SECONDS: f64 = 10.0;

/// Judges a job.
#[must_use]
pub fn advise(request: &Request, series: &Series<FlinkJobSnapshot>) -> Advice {
    let case = Case::new(request);
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::TaskManagers);
    judged.notices.extend(trust.notices.iter().cloned());
    let Some(job) = series.latest.as_deref() else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.current = judged.current.or_else(|| series.history.last().and_then(|job| slots::task_managers(job)));
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    let facts = slots::Slots::of(job, request.replicas.spec);
    judged.unit = facts.unit;
    judged.current = facts.current;
    judged.complete = !job.vertices.is_empty();
    judged.hold.extend(trust.doubts.iter().cloned());
    if trust.is_fresh() {
        judged.hold.extend(not_ready(&case, job));
        judged.hold.extend(case.older_than_change(&trust));
    }
    if !judged.hold.is_empty() {
        judged.parts = job.vertices.iter().map(unchanged).collect();
        return conclude(&case, &trust, judged, |count, _, _| count);
    }
    decide(&case, &trust, series, job, &facts, judged)
}

fn decide(case: &Case<'_>, trust: &Trust, series: &Series<FlinkJobSnapshot>, job: &FlinkJobSnapshot, slots: &slots::Slots, mut judged: Judged) -> Advice {
    let policy = case.policy;
    let window = Window::collect(case, series, job);
    if let Some(reason) = window.no_base.clone().filter(|_| !judged.one_shot) {
        judged.hold.push(reason);
        judged.parts = job.vertices.iter().map(unchanged).collect();
        return conclude(case, trust, judged, |count, _, _| count);
    }
    let figures: Vec<Figures> =
        job.vertices.iter().enumerate().map(|(position, vertex)| rates::figures(window.of_vertex(position), vertex, &policy.flink)).collect();
    let targets = Graph::of(job).targets(job, &figures, policy);
    let facts = job_facts(case, job, &figures, &targets, &window, &mut judged);

    let one_shot = judged.one_shot;
    let mut decisions: Vec<Decision> = Vec::with_capacity(job.vertices.len());
    for ((vertex, figures), target) in job.vertices.iter().zip(&figures).zip(&targets) {
        let remembered = case.memory.and_then(|memory| memory.parts.get(&vertex.id));
        decisions.push(vertex::decide(case, vertex, figures, target, &facts, remembered, one_shot));
    }
    // a vertex outside its band is what a rescale is for; without one nothing is moved
    if !moves(&decisions, job) {
        keep_all(job, &mut decisions);
    }
    slots::fit(job, slots, policy, case.min, &mut decisions);
    let block = if policy.paused { Some(Reason::Paused {}) } else { memory_pressure(policy, job, &window) };
    if let Some(reason) = block {
        if matches!(reason, Reason::MemoryPressure { .. }) {
            judged.actions.push(add_memory());
        }
        hold_all(job, &reason, &mut decisions);
    }

    inputs(&mut judged, trust, job, &figures, &targets);
    judged.confidence = confidence(&judged, &targets, &figures, &window);
    judged.why = job_reasons(job, &decisions, &figures);
    judged.active = active(job, &targets);
    let held = decisions.iter().any(|decision| decision.held);
    let changed = moves(&decisions, job);
    let (wish, recommended) = slots.answer(job, &decisions, changed);
    judged.wish = wish;
    remember(&mut judged, job, &mut decisions);
    if changed {
        judged.actions.insert(0, slots::set_parallelism(job, &decisions));
    }
    judged.parts = job
        .vertices
        .iter()
        .zip(decisions)
        .zip(&figures)
        .zip(&targets)
        .map(|(((vertex, decision), figures), target)| part(vertex, decision, figures, target))
        .collect();

    let bounds = slots.job_policy(policy);
    let of_job = Case {
        request: case.request,
        policy: &bounds,
        now: case.now,
        spec: case.spec,
        memory: case.memory,
        min: if slots.unit == Unit::Slots { 0 } else { case.min },
        floored: case.floored,
        changed_at: case.changed_at,
    };
    let (least, present) = (of_job.min, judged.current);
    let mut advice = conclude(&of_job, trust, judged, |count, _, _| match present.filter(|_| policy.paused) {
        Some(present) => present,
        None => recommended.map_or(count, |told| told.max(least).min(bounds.max)),
    });
    if advice.outcome == Outcome::Keep && held {
        advice.outcome = Outcome::Hold;
    }
    advice
}

/// Is there demand: not known where nothing is seen to flow and some rate is missing.
fn active(job: &FlinkJobSnapshot, targets: &[Target]) -> Option<bool> {
    let flows = targets.iter().any(|target| target.rate.unwrap_or(0.0) > 0.0 || target.catch_up.unwrap_or(0.0) > 0.0);
    let known = job.vertices.iter().zip(targets).all(|(vertex, target)| vertex.finished == Some(true) || target.rate.is_some());
    if flows { Some(true) } else { known.then_some(false) }
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
        decision.parallelism = vertex.parallelism;
    }
}

/// Memory is short, so that every subtask looks slow: garbage collection now, or the heap on average over the window.
fn memory_pressure(policy: &Policy, job: &FlinkJobSnapshot, window: &Window<'_>) -> Option<Reason> {
    let now = job.memory.unwrap_or_default().gc_time_ratio.known();
    let heaps: Vec<f64> = window.samples.iter().filter_map(|(_, job)| job.memory?.heap_used_ratio.known()).collect();
    let heap = (!heaps.is_empty()).then(|| heaps.iter().sum::<f64>() / as_f64(heaps.len() as u64));
    let exceeded = [(now, policy.flink.gc_time_ratio), (heap, policy.flink.heap_used_ratio)]
        .into_iter()
        .find_map(|(value, limit)| limit.filter(|limit| value.is_some_and(|value| value > *limit)));
    exceeded.map(|limit| Reason::MemoryPressure { gc_time_ratio: Maybe(now.map(Share)), heap_used_ratio: Maybe(heap.map(Share)), limit: Share(limit) })
}

/// No changed vertex is outside its band: nothing is applied.
fn keep_all(job: &FlinkJobSnapshot, decisions: &mut [Decision]) {
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        if decision.parallelism != vertex.parallelism {
            decision.ladder.value = decision.parallelism;
            decision.ladder.to(crate::core::reasons::LimitCode::InsideOwnBand, vertex.parallelism, 0.0);
            decision.parallelism = vertex.parallelism;
        }
    }
}

/// Why nothing at all can be said of a job now.
fn not_ready(case: &Case<'_>, job: &FlinkJobSnapshot) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let Some(state) = job.state.as_ref().filter(|state| *state != "RUNNING") {
        reasons.push(Reason::NotRunning { state: state.clone() });
    }
    if let Some(tasks) = &job.tasks
        && tasks.running.saturating_add(tasks.finished) < tasks.total
    {
        reasons.push(Reason::TasksNotRunning { running: tasks.running, total: tasks.total });
    }
    if job.vertices.is_empty() {
        reasons.push(Reason::IncompleteReading { missing: Names(vec!["vertices".to_owned()]) });
    }
    if let Some(since) = job.running_since {
        let settles = case.policy.flink.stabilization_after_start;
        let running = seconds_between(since, case.now).max(0.0);
        if running < settles.seconds() {
            let detail = format!("the job runs since {} and settles for {settles}: rates and busy times of that time mislead", Secs(running));
            reasons.push(Reason::Restarting { detail });
        }
    }
    reasons
}

/// What holds for every vertex of the job, and what is said of it as a whole.
fn job_facts(case: &Case<'_>, job: &FlinkJobSnapshot, figures: &[Figures], targets: &[Target], window: &Window<'_>, judged: &mut Judged) -> JobFacts {
    let policy = &case.policy.flink;
    let remembered = case.memory.and_then(|memory| memory.restart_seconds);
    let from_readings = window.rescale_seconds.map_or(remembered, |seconds| Some(remembered.map_or(seconds, |before| before.max(seconds))));
    // the time between two readings is only an upper bound of what a measurement says
    judged.memory.restart_seconds = job.restart_seconds.map(Amount::get).or(from_readings);
    let measured = judged.memory.restart_seconds.filter(|_| policy.track_restart);
    let restart_seconds = measured.map_or(policy.restart.seconds(), |seconds| seconds.min(policy.restart_limit.seconds()));
    let mut facts = JobFacts { restart_seconds, backlog_mode: false, no_lower: Vec::new() };
    facts.no_lower.extend(window.not_full.clone());
    let incomplete: Vec<String> =
        job.vertices.iter().filter(|vertex| vertex.records_complete == Some(false)).map(|vertex| format!("records of {}", vertex.label())).collect();
    if !incomplete.is_empty() && policy.doubt_holds {
        judged.complete = false;
        facts.no_lower.push(Reason::IncompleteReading { missing: Names(incomplete) });
    }
    for ((vertex, figures), target) in job.vertices.iter().zip(figures).zip(targets).filter(|((vertex, _), _)| vertex.is_source()) {
        let name = || vertex.label().to_owned();
        if let Some((before, after)) = figures.reset {
            judged.notices.push(Reason::CounterReset { name: format!("recordsIn of {}", vertex.label()), before: Num(before), now: Num(after) });
        }
        if target.backlog_unknown && policy.doubt_holds && vertex.finished != Some(true) {
            unknown_backlog(vertex, figures, policy, &mut facts, judged);
        }
        let (Some(lag), Some(input)) = (figures.lag, figures.input) else { continue };
        let lag_seconds = if input > 0.0 { Some(lag / input) } else { None };
        // a source that reads nothing will not get through its backlog in any time
        if lag > 0.0 && lag > policy.backlog_threshold.seconds() * input {
            facts.backlog_mode = true;
        }
        if !policy.doubt_holds || lag <= 0.0 || lag_seconds.is_some_and(|seconds| seconds < UNDER_WAY_SECONDS) {
            continue;
        }
        let spare = figures.capacity.is_some_and(|capacity| capacity > input * 1.05) && figures.busy.is_none_or(|busy| busy < SATURATED);
        let standing = figures.lag_rate.is_some_and(|rate| rate >= -0.01 * input && rate <= 0.05 * input);
        facts.no_lower.push(Reason::BacklogProcessing { name: name(), lag_seconds: Maybe(lag_seconds.map(Secs)), backlog: Num(lag) });
        if spare && standing {
            judged.notices.push(Reason::LagNotShrinking { name: name(), backlog: Num(lag), lag_seconds: Secs(lag_seconds.unwrap_or(0.0)) });
        }
    }
    facts
}

/// A source whose backlog is unknown keeps up only as far as it is neither saturated nor held back.
fn unknown_backlog(vertex: &Vertex, figures: &Figures, policy: &crate::core::policy::FlinkPolicy, facts: &mut JobFacts, judged: &mut Judged) {
    let detail = format!("{name} reports no pendingRecords, so what waits there is not known", name = vertex.label());
    judged.notices.push(Reason::DemandUnknown { detail });
    let name = vertex.label();
    let held = figures.back_pressured.unwrap_or(0.0);
    let strain = figures.busy.map(|busy| busy + held);
    if strain.is_none_or(|strain| strain > policy.utilization_max.min(SATURATED) - 1e-9) {
        let reason = match figures.busy {
            Some(busy) if busy >= SATURATED => Reason::Saturated { name: name.to_owned(), busy_ratio: Share(busy), parallelism: vertex.parallelism },
            Some(busy) => Reason::DemandUnknown {
                detail: format!(
                    "{name} is held back ({} busy, {} backpressured) and reports no backlog: it may be asked for more than it reads",
                    Share(busy),
                    Share(held)
                ),
            },
            None => Reason::DemandUnknown { detail: format!("{name} reports neither its busy time nor a backlog, so whether it keeps up is not known") },
        };
        facts.no_lower.push(reason);
    } else {
        let detail = format!("the backlog of {name} is unknown, and nothing is lowered on busy time alone");
        facts.no_lower.push(Reason::DemandUnknown { detail });
    }
}

/// The decisive vertex speaks for the job: the one with the largest raise, else the largest cut, else what holds.
fn job_reasons(job: &FlinkJobSnapshot, decisions: &[Decision], figures: &[Figures]) -> Vec<Reason> {
    let share = |vertex: &Vertex, decision: &Decision| as_f64(decision.parallelism) / as_f64(vertex.parallelism.max(1));
    let pairs = || job.vertices.iter().zip(decisions);
    let raised = pairs().filter(|(vertex, decision)| decision.parallelism > vertex.parallelism).max_by(|a, b| share(a.0, a.1).total_cmp(&share(b.0, b.1)));
    let lowered = pairs().filter(|(vertex, decision)| decision.parallelism < vertex.parallelism).min_by(|a, b| share(a.0, a.1).total_cmp(&share(b.0, b.1)));
    let held = pairs().find(|(_, decision)| decision.held && !decision.reasons.is_empty());
    let mut reasons = Vec::new();
    for (_, decision) in [raised, lowered, held].into_iter().flatten() {
        reasons.extend(decision.reasons.iter().cloned());
    }
    if reasons.is_empty() {
        let busiest = job.vertices.iter().zip(figures).max_by(|a, b| a.1.busy.unwrap_or(0.0).total_cmp(&b.1.busy.unwrap_or(0.0)));
        if let Some((vertex, figures)) = busiest {
            reasons.push(Reason::JobInsideBand {
                vertices: job.vertices.len() as u64,
                busiest: vertex.label().to_owned(),
                busy_ratio: Maybe(figures.busy.map(Share)),
            });
        }
    }
    // what is peculiar about single vertices is worth a word for the job as well
    for decision in decisions {
        for reason in &decision.reasons {
            let peculiar = !matches!(
                reason,
                Reason::InsideBand { .. }
                    | Reason::VertexDemand { .. }
                    | Reason::VertexCatchUp { .. }
                    | Reason::VertexSpare { .. }
                    | Reason::VertexWithin { .. }
            );
            if peculiar && reasons.len() < 32 && !reasons.contains(reason) {
                reasons.push(reason.clone());
            }
        }
    }
    reasons
}

fn confidence(judged: &Judged, targets: &[Target], figures: &[Figures], window: &Window<'_>) -> Confidence {
    let unknown = targets.iter().filter(|target| target.backlog_unknown || target.contradicted.is_some()).count();
    let estimated = figures.iter().filter(|figures| figures.incomplete || figures.reset.is_some() || figures.busy.is_none()).count();
    match usize::from(unknown > 0) + usize::from(estimated > 0) + usize::from(window.not_full.is_some()) + usize::from(judged.one_shot) {
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    }
}

fn inputs(judged: &mut Judged, trust: &Trust, job: &FlinkJobSnapshot, figures: &[Figures], targets: &[Target]) {
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
    let gc = job.memory.and_then(|memory| memory.gc_time_ratio.known());
    if gc.is_some() {
        judged.inputs.push(Input { name: "gcTimeRatio", value: gc, age_seconds: trust.age_seconds, state: InputState::Fresh });
    }
}

fn remember(judged: &mut Judged, job: &FlinkJobSnapshot, decisions: &mut [Decision]) {
    judged.memory.parts = job
        .vertices
        .iter()
        .zip(decisions)
        .filter(|(_, decision)| !decision.wishes.is_empty() || decision.effect.is_some() || !decision.capacities.is_empty())
        .map(|(vertex, decision)| {
            let (wishes, capacities) = (std::mem::take(&mut decision.wishes), std::mem::take(&mut decision.capacities));
            (vertex.id.clone(), PartMemory { wishes, effect: decision.effect, capacities })
        })
        .collect();
}

fn part(vertex: &Vertex, decision: Decision, figures: &Figures, target: &Target) -> Part {
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
fn unchanged(vertex: &Vertex) -> Part {
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
fn add_memory() -> Action {
    Action::new(
        ActionKind::AddMemory,
        "give the TaskManagers more memory: garbage collection or a full heap slows every subtask, and more of them would be as slow".to_owned(),
    )
}
