//! How old what waits is, by the cheapest honest method.
//!
//! In this order: as the caller tells it; by the offsets that the broker gives for times (exact, no record is read); by
//! the ends of earlier readings, between which the time of the committed record is interpolated; by what waits over what
//! arrives. Nothing waits: 0, whatever the clock says, so that an idle producer ages nothing.
//!
//! Why not the last alone: without arrivals it divides by zero, although the records only get older. Why not the third
//! alone: before its first reading it knows nothing, and its own length must not pass for the lag (then it is *at least*
//! that). A partition of which nothing can be said makes the whole a lower bound; it does not make it unknown. Seconds.

use std::sync::Arc;

use super::KafkaGroupSnapshot;
use super::lag::{Lag, Part};
use super::window::Flow;
use crate::core::decide::Case;
use crate::core::request::Series;
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, Known, Timestamp, as_f64, seconds_between};

/// How a lag in seconds was found, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The caller tells it.
    Told,
    /// By offsets that the broker gives for times.
    ByAge,
    /// Between ends of earlier readings.
    Interpolated,
    /// Beyond the oldest of them, at the pace of all.
    Extrapolated,
    /// What waits over what arrives.
    ByRate,
}

impl Method {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Told => "as told",
            Self::ByAge => "by the broker's offsets for times",
            Self::Interpolated => "interpolated between ends of earlier readings",
            Self::Extrapolated => "extrapolated from the ends of earlier readings",
            Self::ByRate => "what waits over what arrives",
        }
    }
}

/// A lag in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Seconds.
    pub seconds: f64,
    /// How it was found; the least sure of the partitions.
    pub method: Method,
    /// True when it may be more.
    pub at_least: bool,
}

/// The lag in seconds of a group; `None` when nothing tells it.
#[must_use]
pub fn of(
    case: &Case<'_>,
    series: &Series<KafkaGroupSnapshot>,
    reading: &KafkaGroupSnapshot,
    lag: &Lag<'_>,
    flows: &[Flow],
    arrival: Option<f64>,
    trust: &Trust,
) -> Option<Delay> {
    if let Some(seconds) = reading.lag_seconds.known() {
        return Some(Delay { seconds, method: Method::Told, at_least: false });
    }
    let at = trust.observed_at.unwrap_or(case.now);
    let mut worst: Option<Delay> = None;
    let mut unknown = false;
    for (part, flow) in lag.parts.iter().zip(flows) {
        match part.lag {
            None => unknown = true,
            Some(records) if records <= 0.0 => unknown |= !part.is_known,
            Some(records) => match of_part(case, series, part, records, flow, at) {
                None => unknown = true,
                Some(delay) => {
                    worst = Some(worst.map_or(delay, |worst| Delay {
                        seconds: worst.seconds.max(delay.seconds),
                        method: worst.method.max(delay.method),
                        at_least: worst.at_least || delay.at_least,
                    }));
                }
            },
        }
    }
    if let Some(worst) = worst {
        return Some(Delay { at_least: worst.at_least || unknown, ..worst });
    }
    match (lag.records()?, arrival) {
        (records, _) if records <= 0.0 => (!unknown).then_some(Delay { seconds: 0.0, method: Method::ByRate, at_least: false }),
        (records, Some(arrival)) if arrival > 0.0 => {
            Some(Delay { seconds: records / arrival, method: Method::ByRate, at_least: unknown && !lag.parts.is_empty() })
        }
        _ => None,
    }
}

fn of_part(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, part: &Part<'_>, records: f64, flow: &Flow, at: Timestamp) -> Option<Delay> {
    by_age(part).or_else(|| by_ends(case, series, part, at)).or_else(|| {
        let arrival = flow.arrival.filter(|rate| *rate > 0.0)?;
        Some(Delay { seconds: records / arrival, method: Method::ByRate, at_least: false })
    })
}

/// The next offset to read: the commit, or the log start where there is none or it has been overtaken.
fn position(part: &Part<'_>) -> Option<Count> {
    match (part.reading.committed, part.reading.log_start) {
        (Some(committed), Some(start)) => Some(committed.max(start)),
        (committed, start) => committed.or(start),
    }
}

/// Between the ages for which the broker told offsets: the smallest that the position has reached.
fn by_age(part: &Part<'_>) -> Option<Delay> {
    let position = position(part)?;
    let mut reached: Option<f64> = None;
    let mut beyond: Option<f64> = None;
    for entry in &part.reading.offsets_by_age {
        let age = entry.age_seconds.get();
        // no record so young: whatever waits is older
        if entry.offset.is_some_and(|offset| position >= offset) {
            reached = Some(reached.map_or(age, |least| least.min(age)));
        } else {
            beyond = Some(beyond.map_or(age, |most| most.max(age)));
        }
    }
    match (reached, beyond) {
        (Some(seconds), _) => Some(Delay { seconds, method: Method::ByAge, at_least: false }),
        (None, Some(seconds)) => Some(Delay { seconds, method: Method::ByAge, at_least: true }),
        (None, None) => None,
    }
}

/// By the ends of earlier readings: when the record at the position was the next to be written.
fn by_ends(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, part: &Part<'_>, at: Timestamp) -> Option<Delay> {
    let (position, end) = (position(part)?, part.reading.log_end?);
    let mut table: Vec<(Count, f64)> = Vec::new();
    for reading in series.history.iter().map(Arc::as_ref) {
        let then = seconds_between(at, trust::measured_at(reading, case.now));
        let topic = reading.topics.iter().flatten().find(|topic| topic.name == part.topic.name && (topic.id.is_none() || topic.id == part.topic.id));
        let seen = topic.and_then(|topic| topic.partition(part.reading.partition)).and_then(|other| other.log_end);
        if let Some(seen) = seen.filter(|_| then < 0.0) {
            push(&mut table, seen, then);
        }
    }
    push(&mut table, end, 0.0);
    let (first, last) = (table.first().copied()?, table.last().copied()?);
    if table.len() < 2 {
        return None;
    }
    if position < first.0 {
        let (grown, seconds) = (last.0.saturating_sub(first.0), last.1 - first.1);
        if grown == 0 {
            // nothing was produced meanwhile, so that the pace before is not known
            return Some(Delay { seconds, method: Method::Extrapolated, at_least: true });
        }
        let pace = as_f64(grown) / seconds;
        return Some(Delay { seconds: as_f64(last.0 - position) / pace, method: Method::Extrapolated, at_least: false });
    }
    let segment = table.windows(2).rev().find_map(|pair| match pair {
        [from, to] if from.0 <= position && position < to.0 => Some((*from, *to)),
        _ => None,
    });
    let (from, to) = segment?;
    let written = to.1 - as_f64(to.0 - position) * (to.1 - from.1) / as_f64(to.0 - from.0);
    Some(Delay { seconds: -written, method: Method::Interpolated, at_least: false })
}

/// Ends never fall, and readings come in order: what does neither is refused.
fn push(table: &mut Vec<(Count, f64)>, end: Count, at: f64) {
    if table.last().is_none_or(|(last, then)| *last <= end && *then < at) {
        table.push((end, at));
    }
}
