//! What the readings of the window tell together: how many there are, and what arrives.
//!
//! ```text
//! arrival = sum over partitions of (end now - end at its first reading in the window) / seconds between them
//! ```
//!
//! None of Druid's own autoscalers measures what arrives, and so they see a growing stream only by the lag it leaves.
//! Where ends of partitions are not known, what was read and what the lag grew by give it; a time lag that grows by `g`
//! seconds a second means that `1 - g` of what arrives is read. At start there is one reading and no rate from ends.
//! Rates are records per second, counted once however many copies of a task read them.

use std::sync::Arc;

use super::lag::Lag;
use super::{DruidSupervisorSnapshot, LagUnit};
use crate::core::decide::Case;
use crate::core::reasons::{Num, Reason};
use crate::core::request::Series;
use crate::core::trust::{self, Trust};
use crate::core::units::{Amount, Count, Known, Timestamp, as_f64, seconds_between, shifted};

/// What is read is measured over at least so long: the newest reading that far back tells it.
const READ_OVER_SECONDS: f64 = 60.0;
/// A task that has run for less than this has not settled, whatever the policy's `startup`.
const SETTLED_SECONDS: f64 = 60.0;
/// At most this share of what arrives is taken to be left behind by a time lag that grows.
const MOST_LEFT_BEHIND: f64 = 0.9;

/// The readings of the window, oldest first, the newest included.
pub struct Window<'a> {
    readings: Vec<(Timestamp, &'a DruidSupervisorSnapshot)>,
    now: (Timestamp, &'a DruidSupervisorSnapshot),
}

/// What arrives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrival {
    /// Records per second.
    pub per_second: Option<f64>,
    /// True when at least so many arrive, and more may.
    pub at_least: bool,
    /// True when it follows from a lag in time.
    pub estimated: bool,
    /// A partition whose end went back.
    pub reset: Option<Reason>,
}

impl<'a> Window<'a> {
    /// The readings within the policy's window that can be used: those that contradict themselves tell nothing.
    #[must_use]
    pub fn of(case: &Case<'_>, series: &'a Series<DruidSupervisorSnapshot>, latest: &'a DruidSupervisorSnapshot, trust: &Trust) -> Self {
        let at = trust.observed_at.unwrap_or(case.now);
        let within = case.policy.supervisor.window.seconds() + 1e-6;
        let earlier = series.history.iter().map(Arc::as_ref).map(|reading| (trust::measured_at(reading, case.now), reading));
        let mut readings: Vec<_> =
            earlier.filter(|(then, reading)| *then < at && seconds_between(*then, at) <= within && matches!(Lag::of(reading), Ok(Some(_)))).collect();
        readings.push((at, latest));
        Self { readings, now: (at, latest) }
    }

    /// How many readings there are.
    #[must_use]
    pub fn len(&self) -> Count {
        self.readings.len() as Count
    }

    /// All of them, oldest first.
    pub fn readings(&self) -> impl Iterator<Item = (Timestamp, &'a DruidSupervisorSnapshot)> {
        self.readings.iter().copied()
    }

    /// The oldest one, where it is not the newest.
    #[must_use]
    pub fn oldest(&self) -> Option<(Timestamp, &'a DruidSupervisorSnapshot)> {
        self.readings.first().copied().filter(|(at, _)| *at < self.now.0)
    }

    /// What arrives, by the best that is known.
    #[must_use]
    pub fn arrival(&self, case: &Case<'_>, lag: &Lag<'_>, served: Option<f64>) -> Arrival {
        let (_, latest) = self.now;
        if let Some(told) = latest.arrival_per_second.known() {
            return Arrival { per_second: Some(told), ..Arrival::default() };
        }
        let by_ends = self.by_ends();
        if by_ends.per_second.is_some() {
            return by_ends;
        }
        let Some(served) = served else { return by_ends };
        let found = |per_second: f64, estimated| Arrival { per_second: Some(per_second.max(0.0)), at_least: false, estimated, reset: by_ends.reset.clone() };
        if let Some((then, before)) = self.lag_before(case, lag) {
            let seconds = seconds_between(then, self.now.0);
            match (lag.unit, lag.records, lag.seconds()) {
                _ if seconds <= 0.0 => {}
                (LagUnit::Milliseconds, _, Some(now)) => {
                    let left_behind = ((now - before) / seconds).min(MOST_LEFT_BEHIND);
                    return found(served / (1.0 - left_behind), true);
                }
                (_, Some(now), _) => return found(served + (now - before) / seconds, false),
                _ => {}
            }
        }
        // what is read has arrived at some time; without a lag that is all there is
        let none_waits = lag.records.or(lag.seconds()).is_some_and(|waiting| waiting <= 0.0);
        Arrival { at_least: !none_waits, ..found(served, false) }
    }

    /// Records that are read per second, each counted once: by the positions since the youngest task has started, else
    /// as the tasks say once they have settled. Their own averages follow slowly, and start from their first reading.
    #[must_use]
    pub fn served(&self, case: &Case<'_>) -> Option<f64> {
        self.by_positions().or_else(|| {
            let all = self.now.1.processed_per_second.known().filter(|_| settled(case, self.now.1))?;
            Some(all / as_f64(self.now.1.copies()))
        })
    }

    fn by_positions(&self) -> Option<f64> {
        let positions = self.now.1.current_offsets.as_ref().filter(|positions| !positions.is_empty())?;
        let (then, before) = self.reference(|reading| reading.current_offsets.is_some())?;
        let before = before.current_offsets.as_ref()?;
        let mut sum = 0.0;
        for (name, position) in positions {
            sum += as_f64(position.checked_sub(*before.get(name)?)?);
        }
        Some(sum / seconds_between(then, fetched(self.now)))
    }

    /// The newest earlier reading that is far enough back to measure against, since the youngest task has started.
    fn reference(&self, has: impl Fn(&DruidSupervisorSnapshot) -> bool) -> Option<(Timestamp, &'a DruidSupervisorSnapshot)> {
        let (at, latest) = self.now;
        let now = fetched(self.now);
        // where groups hand over one at a time, the others go on reading
        let started = latest.task_age_seconds.filter(|_| !latest.rolls()).map(|age| shifted(at, -age.get()));
        let far_enough = |then: Timestamp| seconds_between(then, now) >= READ_OVER_SECONDS && started.is_none_or(|started| then >= started);
        self.readings.iter().rev().map(|reading| (fetched(*reading), reading.1)).find(|(then, reading)| has(reading) && far_enough(*then))
    }

    /// True when records have waited for all tasks all the time over which what is read is measured: then it is all that
    /// the tasks can do.
    #[must_use]
    pub fn always_waited(&self, lag: &Lag<'_>, waits: impl Fn(&Lag<'_>) -> bool) -> bool {
        let before = self.reference(|reading| matches!(Lag::of(reading), Ok(Some(_)))).and_then(|(_, reading)| Lag::of(reading).ok().flatten());
        waits(lag) && before.is_some_and(|before| before.unit == lag.unit && waits(&before))
    }

    /// By the ends of the partitions.
    fn by_ends(&self) -> Arrival {
        let mut arrival = Arrival::default();
        let (_, latest) = self.now;
        let Some(ends) = latest.latest_offsets.as_ref().filter(|ends| !ends.is_empty()) else { return arrival };
        let now = fetched(self.now);
        let mut sum = None;
        for (name, end) in ends {
            let first = self.readings.iter().find_map(|reading| Some((fetched(*reading), *reading.1.latest_offsets.as_ref()?.get(name)?)));
            let Some((then, before)) = first else { continue };
            let seconds = seconds_between(then, now);
            if before > *end {
                arrival.at_least = true;
                arrival.reset = Some(Reason::CounterReset { name: format!("end of partition {name}"), before: Num(as_f64(before)), now: Num(as_f64(*end)) });
            } else if seconds > 0.0 {
                *sum.get_or_insert(0.0) += as_f64(end - before) / seconds;
            } else {
                // seen for the first time: what arrives there is not known yet
                arrival.at_least = true;
            }
        }
        arrival.per_second = sum;
        arrival
    }

    /// The lag at the beginning of the window, in the unit of the newest; from the memory where there is no history.
    fn lag_before(&self, case: &Case<'_>, lag: &Lag<'_>) -> Option<(Timestamp, f64)> {
        if let Some((then, reading)) = self.oldest() {
            let before = Lag::of(reading).ok().flatten()?;
            return Some((then, if lag.unit == LagUnit::Milliseconds { before.seconds()? } else { before.records? }));
        }
        let seen = case.memory?.backlog.filter(|seen| seen.at < self.now.0 && lag.unit == LagUnit::Records)?;
        Some((seen.at, as_f64(seen.value)))
    }
}

/// When the offsets of a reading were fetched.
fn fetched((at, reading): (Timestamp, &DruidSupervisorSnapshot)) -> Timestamp {
    shifted(at, -reading.offsets_age_seconds.map_or(0.0, Amount::get))
}

/// True when the tasks have run for long enough to tell how fast they are.
#[must_use]
pub fn settled(case: &Case<'_>, reading: &DruidSupervisorSnapshot) -> bool {
    let least = case.policy.startup.seconds().max(SETTLED_SECONDS);
    reading.task_age_seconds.is_none_or(|age| age.get() >= least)
}
