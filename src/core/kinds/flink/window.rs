//! The readings that one decision rests on: those of the window, since the job last started or was rescaled.
//!
//! Totals start anew with every restart and rescale, and averages of that time mislead. So readings from before the
//! newest start, of another job id, of fewer restarts or of another parallelism are left out, and so are those of the
//! time in which the job settled after its start (`settlingReadings` keeps them), and the window begins
//! anew. Source: Flink REST API; flink-autoscaler `ScalingMetricCollector`.

use super::rates::{self, Figures};
use super::{FlinkJobSnapshot, Vertex};
use crate::core::decide::Case;
use crate::core::policy::FlinkPolicy;
use crate::core::reasons::{Reason, Secs};
use crate::core::request::Series;
use crate::core::trust;
use crate::core::units::{Timestamp, seconds_between, shifted};

/// The longest wait for rates after a start has settled.
const LONGEST_BASE_SECONDS: f64 = 60.0;

/// The vertices of one sample, by their position in the newest reading.
type Column<'a> = Vec<Option<&'a Vertex>>;

/// Readings in order of time; the newest last.
pub struct Window<'a> {
    /// Seconds before `now` (negative) and the reading: those of the window, or all since the start until it is full.
    pub samples: Vec<(f64, &'a FlinkJobSnapshot)>,
    /// The same for readings of this life that are older than the window.
    pub earlier: Vec<(f64, &'a FlinkJobSnapshot)>,
    /// Why nothing may be lowered yet.
    pub not_full: Option<Reason>,
    /// Why there are no rates yet to decide on.
    pub no_base: Option<Reason>,
    /// How long the newest rescale took, at most: from the last reading of the life before until the job ran again.
    pub rescale_seconds: Option<f64>,
    /// The vertex of each sample at each position of the newest reading; `None` where it is not in that sample.
    columns: Vec<Column<'a>>,
    /// The same for the earlier readings.
    earlier_columns: Vec<Column<'a>>,
}

impl<'a> Window<'a> {
    /// Collects the window of a decision.
    #[must_use]
    pub fn collect(case: &Case<'_>, series: &'a Series<FlinkJobSnapshot>, latest: &'a FlinkJobSnapshot) -> Self {
        let length = case.policy.flink.window.seconds();
        let is_inside = |seconds: f64| seconds >= -length - 1e-6;
        let at = |job: &FlinkJobSnapshot| seconds_between(case.now, trust::measured_at(job, case.now));
        let mut samples: Vec<(f64, &FlinkJobSnapshot)> = Vec::with_capacity(series.history.len() + 1);
        let mut oldest = None;
        let mut rescale_seconds = None;
        let settles = case.policy.flink.stabilization_after_start.seconds();
        let settled_from = latest.running_since.map(|since| shifted(since, settles));
        // newest first, until something has started anew
        for job in series.history.iter().rev() {
            let measured = trust::measured_at(job.as_ref(), case.now);
            if is_older_life(job, latest, measured) {
                // what was read during the restart tells nothing of when it began
                let last_run = series.history.iter().rev().skip_while(|job| !is_older_life(job, latest, trust::measured_at(job.as_ref(), case.now)));
                let last_run = last_run.map(AsRef::as_ref).find(|job: &&FlinkJobSnapshot| job.state.as_deref().is_none_or(|state| state == "RUNNING"));
                rescale_seconds = last_run
                    .zip(latest.running_since)
                    .filter(|(job, _)| rescaled(job, latest))
                    .map(|(job, since)| seconds_between(trust::measured_at(job, case.now), since).max(0.0));
                break;
            }
            // averages and totals of the time right after a start mislead, whatever came after; one time is one reading
            let is_settling = settled_from.is_some_and(|from| measured < from);
            if (is_settling && !case.policy.flink.settling_readings) || (job.observed_at.is_some() && job.observed_at == latest.observed_at) {
                continue;
            }
            let seconds = at(job);
            // where they count, they do not make the window full
            if !is_settling {
                oldest = Some(seconds);
            }
            samples.push((seconds, job.as_ref()));
        }
        samples.reverse();
        samples.push((at(latest), latest));
        let have = match (oldest, series.history.is_empty()) {
            // an old reading alone is no window
            (Some(_), _) if samples.iter().filter(|(seconds, _)| is_inside(*seconds)).count() < 2 => 0.0,
            (Some(seconds), _) => -seconds,
            // history was given, and all of it is of an earlier life
            (None, false) => 0.0,
            (None, true) => case.memory.map_or(f64::INFINITY, |_| {
                seconds_between(case.unbroken_since(case.policy.scale_down.stabilization.longer(case.policy.flink.window)), case.now)
            }),
        };
        let not_full =
            (have + 1e-6 < length).then(|| Reason::WindowNotFull { have_seconds: Secs(have.max(0.0)), window_seconds: case.policy.flink.window.into() });
        let mut earlier = Vec::new();
        // until the window is full all readings since the start count
        if not_full.is_none() || have <= 0.0 {
            let inside = samples.partition_point(|(seconds, _)| !is_inside(*seconds));
            let rest = samples.split_off(inside);
            earlier = std::mem::replace(&mut samples, rest);
        }
        let no_base = if case.policy.flink.settling_readings { None } else { no_base(case, latest, &samples) };
        let columns = |samples: &[(f64, &'a FlinkJobSnapshot)]| samples.iter().map(|(_, job)| column(job, latest)).collect();
        let (columns, earlier_columns) = (columns(&samples), columns(&earlier));
        Self { samples, earlier, not_full, no_base, rescale_seconds, columns, earlier_columns }
    }

    /// What each vertex of the newest reading does and can do, by position.
    #[must_use]
    pub fn figures(&self, latest: &FlinkJobSnapshot, policy: &FlinkPolicy) -> Vec<Figures> {
        let of = |(position, vertex): (usize, &Vertex)| {
            rates::figures(self.of_vertex(position), vertex, states(&self.earlier, &self.earlier_columns, position), policy)
        };
        latest.vertices.iter().enumerate().map(of).collect()
    }

    /// The states of one vertex over the window, oldest first.
    pub fn of_vertex(&self, position: usize) -> impl Iterator<Item = (f64, &'a Vertex)> + '_ {
        states(&self.samples, &self.columns, position)
    }
}

/// A job that has just settled, or that has just been met, is measured for a while before anything is decided: what the
/// first readings show is the rest of the start, the backlog's growth needs two of them, and a raise that falls short
/// has to be paid for twice. A third of the window is waited for, a minute at most.
fn no_base(case: &Case<'_>, latest: &FlinkJobSnapshot, samples: &[(f64, &FlinkJobSnapshot)]) -> Option<Reason> {
    let policy = &case.policy.flink;
    let wanted = (policy.window.seconds() / 3.0).min(LONGEST_BASE_SECONDS);
    let have = samples.first().zip(samples.last()).map_or(0.0, |(first, last)| last.0 - first.0);
    let settled = latest.running_since.map(|since| seconds_between(since, case.now) - policy.stabilization_after_start.seconds());
    let met = case.memory.filter(|_| samples.len() < 2).map(|memory| seconds_between(memory.since, case.now));
    // readings that stay away are another matter: this wait is over when they could have been there twice
    let waits = [settled, met].into_iter().flatten().any(|seconds| seconds < 2.0 * wanted);
    let detail = || format!("rates are measured over {} so far, and over {} before anything is decided on them", Secs(have), Secs(wanted));
    (waits && have + 1e-6 < wanted).then(|| Reason::DemandUnknown { detail: detail() })
}

/// True when a reading belongs to the time before the newest start or rescale.
fn is_older_life(job: &FlinkJobSnapshot, latest: &FlinkJobSnapshot, measured: Timestamp) -> bool {
    let other_job = job.job_id.is_some() && latest.job_id.is_some() && job.job_id != latest.job_id;
    let restarted = matches!((job.restarts, latest.restarts), (Some(then), Some(now)) if then != now);
    let before_start = latest.running_since.is_some_and(|since| measured < since);
    let not_running = job.state.as_deref().is_some_and(|state| state != "RUNNING");
    other_job || restarted || before_start || not_running || rescaled(job, latest)
}

/// True when a vertex had another parallelism then.
fn rescaled(job: &FlinkJobSnapshot, latest: &FlinkJobSnapshot) -> bool {
    job.vertices.len() == latest.vertices.len()
        && job.vertices.iter().zip(&latest.vertices).any(|(then, now)| then.parallelism != now.parallelism && then.id == now.id)
}

/// The states of one vertex over these samples, in their order.
fn states<'w, 'a>(samples: &'w [(f64, &'a FlinkJobSnapshot)], columns: &'w [Column<'a>], position: usize) -> impl Iterator<Item = (f64, &'a Vertex)> + 'w {
    samples.iter().zip(columns).filter_map(move |((at, _), column)| Some((*at, column.get(position).copied().flatten()?)))
}

/// The vertices of a sample in the order of the newest reading.
fn column<'a>(job: &'a FlinkJobSnapshot, latest: &FlinkJobSnapshot) -> Column<'a> {
    latest
        .vertices
        .iter()
        .enumerate()
        .map(|(position, vertex)| match job.vertices.get(position) {
            // the order of vertices is the same in nearly all readings
            Some(same) if same.id == vertex.id => Some(same),
            _ => job.vertices.iter().find(|other| other.id == vertex.id),
        })
        .collect()
}
