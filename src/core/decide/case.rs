//! The facts of a question that every step needs, and what follows from them alone: windows, idle time, readings that are
//! older than a change.

use crate::core::memory::Memory;
use crate::core::policy::Policy;
use crate::core::reasons::{Reason, Secs};
use crate::core::request::{Observed, Request, Series};
use crate::core::trust::{self, Trust};
use crate::core::units::{Count, Duration, Timestamp, seconds_between};

/// The facts that every step needs.
pub struct Case<'a> {
    /// The question.
    pub request: &'a Request,
    /// The policy in force.
    pub policy: &'a Policy,
    /// The moment of the decision.
    pub now: Timestamp,
    /// The wanted count now: as told, or the kind's own.
    pub spec: Option<Count>,
    /// What was carried over.
    pub memory: Option<&'a Memory>,
    /// The lower bound now, scheduled floors included.
    pub min: Count,
    /// True when a scheduled floor has lifted the lower bound.
    pub floored: bool,
    /// The newest change of the wanted count, as told or as seen.
    pub changed_at: Option<Timestamp>,
}

impl<'a> Case<'a> {
    /// Prepares a question.
    #[must_use]
    pub fn new(request: &'a Request) -> Self {
        Self::counting(request, &request.policy, request.replicas.spec)
    }

    /// Prepares a question whose kind knows bounds or a count of its own.
    #[must_use]
    pub fn counting(request: &'a Request, policy: &'a Policy, spec: Option<Count>) -> Self {
        let floor = policy.floors.iter().filter(|floor| floor.period.contains(request.now)).map(|floor| floor.min).max();
        let min = floor.map_or(policy.min, |floor| floor.max(policy.min));
        let memory = request.memory.as_ref();
        let seen = memory.and_then(|memory| memory.spec).filter(|seen| seen.before.is_some() && Some(seen.count) == spec);
        let changed_at = request.replicas.last_change.map(|change| change.at).into_iter().chain(seen.map(|seen| seen.since)).max();
        Self { request, policy, now: request.now, spec, memory, min, floored: min > policy.min, changed_at }
    }

    /// Seconds since the newest change of the wanted count. One that is seen now for the first time has just been made.
    #[must_use]
    pub fn seconds_since_change(&self) -> Option<f64> {
        let remembered = self.memory.and_then(|memory| memory.spec);
        if self.request.replicas.last_change.is_none() && remembered.zip(self.spec).is_some_and(|(seen, spec)| seen.count != spec) {
            return Some(0.0);
        }
        self.changed_at.map(|at| seconds_between(at, self.now).max(0.0))
    }

    /// True for a one-shot question: nothing of the past is known.
    #[must_use]
    pub fn is_one_shot<S>(&self, series: &Series<S>) -> bool {
        self.memory.is_none() && series.history.is_empty()
    }

    /// Why nothing may be lowered yet because the window of readings is too short; `None` when it is full. It is judged
    /// from the history where there is one, else from the time of registration; a one-shot question has no window.
    #[must_use]
    pub fn window_not_full<S: Observed>(&self, series: &Series<S>, window: Duration) -> Option<Reason> {
        let start = if series.history.is_empty() {
            self.memory?;
            // what was remembered before an outage tells nothing of the time after it
            self.unbroken_since(window)
        } else {
            let mut start = self.now;
            for reading in series.history.iter().rev() {
                let at = trust::measured_at(reading.as_ref(), self.now);
                if self.is_gap(at, start, window) {
                    break;
                }
                start = at;
            }
            start
        };
        let have = seconds_between(start, self.now).max(0.0);
        (have + 1e-6 < window.seconds()).then(|| Reason::WindowNotFull { have_seconds: Secs(have), window_seconds: Secs::from(window) })
    }

    /// True when so long a time without readings breaks a window: longer than a reading is trusted, and than the window itself.
    fn is_gap(&self, earlier: Timestamp, later: Timestamp, window: Duration) -> bool {
        seconds_between(earlier, later) > self.policy.stale_after.seconds().max(window.seconds())
    }

    /// Since when readings have come without a gap that breaks the window, this one included.
    #[must_use]
    pub fn unbroken_since(&self, window: Duration) -> Timestamp {
        let Some(memory) = self.memory else { return self.now };
        let broken = memory.last_complete_at.is_some_and(|at| self.is_gap(at, self.now, window));
        if broken { self.now } else { memory.unbroken_since.unwrap_or(memory.since) }
    }

    /// Seconds without demand: since the last activity, or since registration where there has been none. `quiet` tells
    /// of a reading whether nothing waited, arrived or was in work then. A one-shot question starts counting now.
    #[must_use]
    pub fn idle_seconds<S: Observed>(&self, series: &Series<S>, quiet: impl Fn(&S) -> bool) -> f64 {
        let since = if let Some(memory) = self.memory {
            memory.last_active_at.map_or(memory.since, |at| at.max(memory.since))
        } else {
            let idle = series.history.iter().rev().take_while(|reading| quiet(reading)).last();
            idle.map_or(self.now, |reading| trust::measured_at(reading.as_ref(), self.now))
        };
        seconds_between(since, self.now).max(0.0)
    }

    /// Why a reading from before the last change cannot be acted on.
    #[must_use]
    pub fn older_than_change(&self, trust: &Trust) -> Option<Reason> {
        let (changed, observed) = (self.changed_at?, trust.observed_at?);
        let behind = observed < changed && changed <= self.now;
        behind.then(|| Reason::ReadingOlderThanLastChange {
            reading_age_seconds: Secs(trust.age_seconds.unwrap_or_else(|| seconds_between(observed, self.now))),
            change_age_seconds: Secs(seconds_between(changed, self.now)),
        })
    }
}
