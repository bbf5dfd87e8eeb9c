//! What one task can read, and how well that is known.
//!
//! A task that waits for records tells nothing of how fast it could be, so only saturated tasks measure: those that
//! hardly wait, or for which records have waited all the time. Below that, rate by busy share is the estimate; it leans to the low side, because a
//! half idle task reads in small batches and pays for each, so halving the tasks raises their busy share by less than
//! double. Without an idle ratio what a task is seen to read is a lower bound, and without a rate nothing is known: a
//! task that has just started reads nothing yet, and dividing by its rate would ask for any number at all.
//! Records per second and task; busy and idle shares are between 0 and 1.

use super::DruidSupervisorSnapshot;
use super::lag::Lag;
use super::window::{Window, settled};
use crate::core::decide::Case;
use crate::core::units::{Count, Known, as_f64};

/// From this busy share on a task is at its limit.
const SATURATED: f64 = 0.9;
/// Below this busy share a capacity worked out from it is a wild guess.
const LEAST_BUSY: f64 = 0.05;
/// Tasks that wait for more than this share of the time are not what a lag waits for.
const WAITS: f64 = 0.5;
/// A lag of so many seconds of arrivals always stands somewhere between two fetches of offsets.
const ALWAYS_THERE_SECONDS: f64 = 30.0;

/// How the capacity of a task is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The policy says it.
    Declared,
    /// Saturated tasks show it.
    Measured,
    /// They showed it earlier.
    Remembered,
    /// From rate and busy share.
    Estimated,
    /// At least so much.
    LowerBound,
}

/// The capacity of one task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Records per second; above 0.
    pub per_task: f64,
    /// How it is known.
    pub source: Source,
}

/// What is known of how busy the tasks are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Records per second that each task reads.
    pub each: Option<f64>,
    /// Busy share of a task.
    pub busy: Option<f64>,
    /// Task groups that read.
    pub groups: Option<Count>,
    /// True when the lag stands although the tasks wait.
    pub waits_beside_lag: bool,
}

impl Work {
    /// How busy the tasks of a reading are, at `served` records per second; how much they wait is unknown before they have
    /// settled.
    #[must_use]
    pub fn of(case: &Case<'_>, reading: &DruidSupervisorSnapshot, served: Option<f64>) -> Self {
        let tasks = reading.reading_tasks.or_else(|| reading.expected_tasks()).filter(|tasks| *tasks > 0);
        Self {
            each: tasks.zip(served).map(|(tasks, rate)| rate * as_f64(reading.copies()) / as_f64(tasks)),
            busy: reading.idle_ratio.known().filter(|_| tasks.is_some() && settled(case, reading)).map(|idle| (1.0 - idle).clamp(0.0, 1.0)),
            groups: tasks.map(|tasks| tasks.div_ceil(reading.copies())),
            waits_beside_lag: false,
        }
    }

    /// The fewest task groups whose predicted busy share stays at or below 1.
    #[must_use]
    pub fn least_groups(&self) -> Option<Count> {
        let (busy, groups) = self.busy.zip(self.groups)?;
        Some(crate::core::units::ceil_count(busy * as_f64(groups)))
    }
}

/// True for a lag that says nothing: a few seconds of arrivals, or a few seconds of time.
#[must_use]
pub fn is_quiet(lag: &Lag<'_>, arrival: Option<f64>) -> bool {
    match (lag.seconds(), lag.records) {
        (Some(seconds), _) => seconds <= ALWAYS_THERE_SECONDS,
        (None, Some(records)) => records <= (arrival.unwrap_or(0.0) * ALWAYS_THERE_SECONDS).max(1.0),
        (None, None) => true,
    }
}

/// The capacity of a task.
#[must_use]
pub fn of(case: &Case<'_>, window: &Window<'_>, lag: &Lag<'_>, arrival: Option<f64>, work: &mut Work) -> Option<Capacity> {
    let found = |per_task: f64, source| (per_task.is_finite() && per_task > 0.0).then_some(Capacity { per_task, source });
    // where a few partitions lag the tasks of the others are not at their limit, and the mean of all says nothing
    let waited = window.always_waited(lag, |lag| !is_quiet(lag, arrival) && lag.is_widespread());
    work.waits_beside_lag = waited && work.busy.is_some_and(|busy| busy < 1.0 - WAITS);
    if let Some(declared) = case.policy.per_replica_per_second {
        return found(declared, Source::Declared);
    }
    let saturated = work.busy.is_some_and(|busy| busy >= SATURATED) || (waited && !work.waits_beside_lag);
    if let Some(measured) = work.each.filter(|_| saturated).and_then(|each| found(each, Source::Measured)) {
        return Some(measured);
    }
    if let Some(seen) = case.memory.and_then(|memory| memory.capacity) {
        // what is seen now is possible
        return found(work.each.unwrap_or(0.0).max(seen.per_replica_per_second), Source::Remembered);
    }
    let each = work.each?;
    match work.busy {
        Some(busy) if busy >= LEAST_BUSY => found(each / busy, Source::Estimated),
        _ => found(each, Source::LowerBound),
    }
}
