//! What holds for every vertex of a job: how long a rescale takes, what forbids a change, and what is worth saying.
//!
//! Right after a start nothing is decided, since averages and totals of that time mislead; after a rescale of ours
//! nothing is raised either before there are some minutes of readings, since what is seen at first is the catching up.
//! A backlog that is worked off, one that is not known, a state that is not known, records that are not counted: each of
//! them forbids cuts, and none of them raises.

use super::graph::Target;
use super::rates::Figures;
use super::vertex::{JobFacts, SATURATED};
use super::window::Window;
use super::{FlinkJobSnapshot, Vertex, slots};
use crate::core::decide::Case;
use crate::core::policy::{Damping, FlinkPolicy, Policy};
use crate::core::reasons::{Maybe, Names, Num, Reason, Secs, Share, Tasks};
use crate::core::units::{Amount, as_f64, seconds_between};

/// A backlog shorter than this, as time at the input rate, is only what is under way.
const UNDER_WAY_SECONDS: f64 = 10.0;
/// Readings of so long a time tell a raise after a rescale of ours; the window, where that is shorter.
const RAISE_AFTER_SECONDS: f64 = 120.0;

/// How long a rescale takes and a backlog may, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A rescale.
    pub restart: f64,
    /// The longest rescale that was seen.
    pub measured: Option<f64>,
    /// A backlog is to be gone within.
    pub within: f64,
}

impl Pace {
    /// Takes the measured downtime where there is one. An objective that the restart alone exceeds is missed by as little
    /// as possible: by as long again as the restart.
    #[must_use]
    pub fn of(case: &Case<'_>, job: &FlinkJobSnapshot, window: &Window<'_>) -> Self {
        let policy = case.policy;
        let remembered = case.memory.and_then(|memory| memory.restart_seconds);
        // a rescale to something else than was advised began at a time that is not known
        let rescale = window.rescale_seconds.filter(|_| as_advised(case, job));
        let from_readings = rescale.map_or(remembered, |seconds| Some(remembered.map_or(seconds, |before| before.max(seconds))));
        // the time between two readings is only an upper bound of what a measurement says
        let measured = job.restart_seconds.map(Amount::get).or(from_readings);
        let used = measured.filter(|_| policy.flink.track_restart);
        let restart = used.map_or(policy.flink.restart.seconds(), |seconds| seconds.min(policy.flink.restart_limit.seconds()));
        let wanted = policy.catch_up_within.seconds();
        let within = if policy.flink.doubt_holds && wanted > 0.0 { wanted.max(if restart >= wanted { 2.0 * restart } else { 0.0 }) } else { wanted };
        Self { restart, measured, within }
    }

    /// Says that no parallelism meets the objective.
    fn unreachable(self, policy: &Policy) -> Option<Reason> {
        let objective = policy.catch_up_within;
        (self.within > objective.seconds()).then(|| Reason::ObjectiveUnreachable {
            objective_seconds: objective.into(),
            reachable_seconds: Maybe(Some(Secs(self.within))),
            detail: format!(
                "a rescale alone stops the job for {} ({}), so a longer catchUpWithin or a shorter restart would do",
                Secs(self.restart),
                if self.measured.is_some() && policy.flink.track_restart { "measured" } else { "as configured" }
            ),
        })
    }
}

/// True when no vertex has another parallelism than was last advised for it.
fn as_advised(case: &Case<'_>, job: &FlinkJobSnapshot) -> bool {
    let advised = |vertex: &Vertex| case.memory?.parts.get(&vertex.id)?.advised;
    job.vertices.iter().all(|vertex| advised(vertex).is_none_or(|advised| advised == vertex.parallelism))
}

/// True when a vertex has another parallelism than at the previous decision.
fn has_been_rescaled(case: &Case<'_>, job: &FlinkJobSnapshot) -> bool {
    let Some(memory) = case.memory else { return false };
    job.vertices.iter().any(|vertex| {
        memory.parts.get(&vertex.id).is_some_and(|part| {
            let seen = part.capacities.last().map(|seen| seen.parallelism);
            let delayed = part.delayed.as_ref().map(|cut| cut.from);
            [seen, delayed].into_iter().flatten().any(|then| then != vertex.parallelism)
        })
    })
}

/// Why nothing at all can be said of a job now.
#[must_use]
pub fn not_ready(case: &Case<'_>, job: &FlinkJobSnapshot) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let Some(state) = job.state.as_ref().filter(|state| *state != "RUNNING") {
        reasons.push(Reason::NotRunning { state: state.clone() });
    }
    if let Some(tasks) = &job.tasks
        && tasks.running.saturating_add(tasks.finished) < tasks.total
    {
        reasons.push(Reason::TasksNotRunning { running: tasks.running, total: Tasks(tasks.total) });
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

/// More arrives than can be true.
#[must_use]
pub fn implausible(job: &FlinkJobSnapshot, targets: &[Target], policy: &Policy) -> Option<Reason> {
    let most = policy.max_arrival_per_second.filter(|_| policy.contradiction_checks)?;
    let arrival: f64 = job.vertices.iter().zip(targets).filter(|(vertex, _)| vertex.is_source()).filter_map(|(_, target)| target.rate).sum();
    (arrival > most).then(|| Reason::ImplausibleReading { name: "the arrival at the sources".to_owned(), value: Num(arrival), at_most: Num(most) })
}

/// What was found out beside.
#[derive(Default)]
pub struct Findings {
    /// Worth saying whatever comes out.
    pub notices: Vec<Reason>,
    /// True when parts of the reading are missing.
    pub is_incomplete: bool,
    /// Estimates among what the decision rests on.
    pub estimates: usize,
}

/// What was wanted before the job was first seen, or while no reading came, is not known. It may have been more than now,
/// so nothing is lowered before a whole stabilization window has been seen.
fn not_seen_for_long(case: &Case<'_>) -> Option<Reason> {
    let (policy, window) = (case.policy, case.policy.scale_down.stabilization);
    if policy.damping == Damping::Consumer || policy.flink.delay_from_first_wish {
        return None;
    }
    case.memory?;
    let have = seconds_between(case.unbroken_since(window.longer(policy.flink.window)), case.now).max(0.0);
    (have + 1e-6 < window.seconds()).then(|| Reason::WindowNotFull { have_seconds: Secs(have), window_seconds: window.into() })
}

/// What holds for every vertex of the job, and what is said of it as a whole.
#[must_use]
pub fn of_job(
    case: &Case<'_>,
    job: &FlinkJobSnapshot,
    figures: &[Figures],
    targets: &[Target],
    window: &Window<'_>,
    pace: Pace,
    one_shot: bool,
) -> (JobFacts, Findings) {
    let policy = &case.policy.flink;
    let mut found = Findings::default();
    let mut facts = JobFacts {
        restart_seconds: pace.restart,
        within_seconds: pace.within,
        backlog_mode: false,
        is_settled: window.not_full.is_none(),
        rescaled: has_been_rescaled(case, job),
        no_lower: window.not_full.iter().cloned().collect(),
        no_raise: Vec::new(),
    };
    facts.no_lower.extend(not_seen_for_long(case));
    if !job.missing.is_empty() {
        facts.no_lower.push(Reason::IncompleteReading { missing: Names(job.missing.clone()) });
    }
    found.notices.extend(pace.unreachable(case.policy));
    let missing = slots::unknown_quotas(job, case.policy);
    if !missing.is_empty() {
        found.estimates += 1;
        found.notices.push(Reason::IncompleteReading { missing: Names(missing) });
    }
    if policy.doubt_holds {
        if job.state.is_none() && job.tasks.is_none() {
            facts.no_lower.push(Reason::IncompleteReading { missing: Names(vec!["state".to_owned()]) });
        }
        found.estimates += usize::from(job.state.is_none());
        facts.no_raise.extend(just_rescaled(case, job, window).filter(|_| !one_shot));
        let incomplete: Vec<String> =
            job.vertices.iter().filter(|vertex| vertex.records_complete == Some(false)).map(|vertex| format!("records of {}", vertex.label())).collect();
        if !incomplete.is_empty() {
            found.is_incomplete = true;
            facts.no_lower.push(Reason::IncompleteReading { missing: Names(incomplete) });
        }
    }
    for ((vertex, figures), target) in job.vertices.iter().zip(figures).zip(targets) {
        if let Some((before, after)) = figures.reset {
            found.notices.push(Reason::CounterReset { name: format!("recordsIn of {}", vertex.label()), before: Num(before), now: Num(after) });
        }
        if !vertex.is_source() {
            continue;
        }
        if target.backlog_unknown && policy.doubt_holds && vertex.finished != Some(true) {
            unknown_backlog(vertex, figures, policy, &mut facts, &mut found.notices);
        }
        backlog(vertex, figures, policy, &mut facts, &mut found.notices);
    }
    (facts, found)
}

/// A backlog that is known: what it forbids.
fn backlog(vertex: &Vertex, figures: &Figures, policy: &FlinkPolicy, facts: &mut JobFacts, notices: &mut Vec<Reason>) {
    let (Some(lag), Some(input)) = (figures.lag, figures.input) else { return };
    let lag_seconds = if input > 0.0 { Some(lag / input) } else { None };
    // a source that reads nothing will not get through its backlog in any time
    if lag > 0.0 && input >= 0.0 && lag > policy.backlog_threshold.seconds() * input {
        facts.backlog_mode = true;
    }
    if !policy.doubt_holds || lag <= 0.0 || lag_seconds.is_some_and(|seconds| seconds < UNDER_WAY_SECONDS) {
        return;
    }
    let name = || vertex.label().to_owned();
    let spare = figures.capacity.is_some_and(|capacity| capacity > input * 1.05) && figures.busy.is_none_or(|busy| busy < SATURATED);
    let standing = figures.lag_rate.is_some_and(|rate| rate >= -0.01 * input && rate <= 0.05 * input);
    facts.no_lower.push(Reason::BacklogProcessing { name: name(), lag_seconds: Maybe(lag_seconds.map(Secs)), backlog: Num(lag) });
    if spare && standing {
        notices.push(Reason::LagNotShrinking { name: name(), backlog: Num(lag), lag_seconds: Secs(lag_seconds.unwrap_or(0.0)) });
    }
}

/// A source whose backlog is unknown keeps up only as far as it is neither saturated nor held back.
fn unknown_backlog(vertex: &Vertex, figures: &Figures, policy: &FlinkPolicy, facts: &mut JobFacts, notices: &mut Vec<Reason>) {
    let detail = format!("{name} reports no pendingRecords, so what waits there is not known", name = vertex.label());
    notices.push(Reason::DemandUnknown { detail });
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

/// A rescale of ours, so fresh that what is seen is its catching up.
fn just_rescaled(case: &Case<'_>, job: &FlinkJobSnapshot, window: &Window<'_>) -> Option<Reason> {
    let since = job.running_since?;
    let remembered = |vertex: &Vertex| {
        let part = case.memory.and_then(|memory| memory.parts.get(&vertex.id));
        part.is_some_and(|part| {
            part.capacities.last().is_some_and(|seen| seen.parallelism != vertex.parallelism)
                || part.effect.is_some_and(|effect| effect.to == vertex.parallelism)
        })
    };
    let settles = case.policy.flink.stabilization_after_start.seconds() + case.policy.flink.window.seconds().min(RAISE_AFTER_SECONDS);
    let running = seconds_between(since, case.now);
    let is_ours = running < settles && (window.rescale_seconds.is_some() || job.vertices.iter().any(remembered));
    is_ours.then(|| Reason::Restarting {
        detail: format!(
            "the job runs since {} at this parallelism, and is raised again after {} of readings at the earliest",
            Secs(running.max(0.0)),
            Secs(settles)
        ),
    })
}

/// Mean of shares over the readings of the window.
#[must_use]
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u64);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / as_f64(count))
}

/// Memory is short, so that every subtask looks slow: garbage collection now, or the heap on average over the window.
#[must_use]
pub fn memory_pressure(policy: &Policy, job: &FlinkJobSnapshot, window: &Window<'_>) -> Option<Reason> {
    use crate::core::units::Known;
    let gc = job.memory.unwrap_or_default().gc_time_ratio.known();
    let heap = mean(window.samples.iter().filter_map(|(_, job)| job.memory?.heap_used_ratio.known()));
    let exceeded = [(gc, policy.flink.gc_time_ratio), (heap, policy.flink.heap_used_ratio)];
    let limit = Share(exceeded.into_iter().find_map(|(value, limit)| limit.filter(|limit| value.is_some_and(|value| value > *limit)))?);
    match (gc.map(Share), heap.map(Share)) {
        (Some(gc_time_ratio), Some(heap_used_ratio)) => Some(Reason::MemoryPressure { gc_time_ratio, heap_used_ratio, limit }),
        (Some(gc_time_ratio), None) => Some(Reason::GcPressure { gc_time_ratio, limit }),
        (None, Some(heap_used_ratio)) => Some(Reason::HeapPressure { heap_used_ratio, limit }),
        (None, None) => None,
    }
}
