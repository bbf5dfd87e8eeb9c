//! Which readings can be believed: how old they are, on whose clock, and what the policy says when there is none.
//!
//! Freshness is the worse of two ages: since the source measured (on its clock, corrected by its known offset), and
//! since the answer arrived. A time in the future never makes a reading fresh. A failed or stale reading is *unknown*,
//! which is a state of its own and never a number; only the policy turns it into one.

use super::memory::Memory;
use super::policy::{FallbackBehavior, Policy};
use super::reasons::{Reason, Secs};
use super::request::{Observed, Request, Series};
use super::units::{Count, Timestamp, seconds_between, shifted};

/// An offset below this is not worth a word.
const SKEW_SAID_FROM_SECONDS: f64 = 5.0;
/// A reading may lie this far in the future of `now` without being called wrong: the two are taken on two machines.
const FUTURE_GRACE_SECONDS: f64 = 5.0;

/// What there is to go by.
#[derive(Clone, Debug)]
pub struct Trust {
    /// When the newest reading was measured, on our clock.
    pub observed_at: Option<Timestamp>,
    /// The worse of its two ages, in seconds.
    pub age_seconds: Option<f64>,
    /// Why it cannot be used; empty when it can.
    pub doubts: Vec<Reason>,
    /// What is said beside: a clock that differs.
    pub notices: Vec<Reason>,
}

impl Trust {
    /// True when the newest reading may be used.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// When a reading was measured, on our clock; `now` where it does not say.
#[must_use]
pub fn measured_at(reading: &impl Observed, now: Timestamp) -> Timestamp {
    let Some(observed) = reading.observed_at() else { return now };
    shifted(observed, -reading.clock_offset_seconds().unwrap_or(0.0))
}

/// Looks at the newest reading.
#[must_use]
pub fn look<S: Observed>(series: &Series<S>, request: &Request) -> Trust {
    let now = request.now;
    let Some(latest) = series.latest.as_deref() else { return missing(series, request) };
    let mut trust = Trust { observed_at: None, age_seconds: None, doubts: Vec::new(), notices: Vec::new() };
    let offset = latest.clock_offset_seconds().unwrap_or(0.0);
    if offset.abs() >= SKEW_SAID_FROM_SECONDS {
        trust.notices.push(Reason::ClockSkew { skew_seconds: Secs(offset) });
    }
    let observed = measured_at(latest, now);
    let mut age = seconds_between(observed, now);
    if age < -FUTURE_GRACE_SECONDS && latest.received_at().is_none() {
        // nothing says when it arrived, so nothing says how old it is
        trust.doubts.push(Reason::InconsistentReading { detail: format!("observedAt {observed} lies in the future of {now}") });
    }
    age = age.max(0.0);
    if let Some(received) = latest.received_at() {
        age = age.max(seconds_between(received, now));
    }
    let stale_after = request.policy.stale_after;
    if age > stale_after.seconds() {
        trust.doubts.push(Reason::StaleReading { age_seconds: Secs(age), stale_after_seconds: Secs::from(stale_after) });
    }
    trust.age_seconds = Some(age);
    trust.observed_at = Some(if observed > now { now } else { observed });
    trust
}

fn missing<S: Observed>(series: &Series<S>, request: &Request) -> Trust {
    let (failure, consecutive) = match &request.failure {
        Some(failure) => {
            let detail = failure.message.as_ref().map_or_else(|| failure.kind.clone(), |message| format!("{}: {message}", failure.kind));
            (detail, failure.consecutive.unwrap_or(1))
        }
        None => ("no reason was given".to_owned(), 1),
    };
    let consecutive = consecutive.max(failures_in_a_row(request, request.memory.as_ref()));
    let last = series.history.last().map(|reading| measured_at(reading.as_ref(), request.now));
    Trust {
        observed_at: last,
        age_seconds: last.map(|at| seconds_between(at, request.now).max(0.0)),
        doubts: vec![Reason::NoReading { failure, consecutive_failures: consecutive }],
        notices: Vec::new(),
    }
}

/// What an unknown demand becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// The count to answer; `None` when the hold has expired and nothing is configured.
    pub recommended: Option<Count>,
    /// Why, where it is not a plain hold.
    pub reason: Option<Reason>,
    /// True when the number comes from the configuration and is valid by itself.
    pub is_fallback: bool,
}

/// Applies `onUnknown` to a demand that is not known.
///
/// `failures` counts the readings in a row that told nothing, this one included; `unknown_seconds` is the time since the
/// last complete one.
#[must_use]
pub fn on_unknown(policy: &Policy, current: Count, failures: u32, unknown_seconds: Option<f64>) -> Unknown {
    let rule = &policy.on_unknown;
    let expired = match (rule.hold_at_most, unknown_seconds) {
        (Some(most), Some(seconds)) => seconds > most.seconds(),
        _ => false,
    };
    if let Some(fallback) = rule.fallback
        && (failures >= rule.after_failures || expired)
    {
        let recommended = match rule.behavior {
            FallbackBehavior::Static => fallback,
            FallbackBehavior::CurrentReplicas => current,
            FallbackBehavior::CurrentReplicasIfHigher => current.max(fallback),
            FallbackBehavior::CurrentReplicasIfLower => current.min(fallback),
        };
        let reason = Reason::Fallback { fallback, consecutive_failures: failures, recommended };
        return Unknown { recommended: Some(recommended), reason: Some(reason), is_fallback: true };
    }
    if let (true, Some(most), Some(seconds)) = (expired, rule.hold_at_most, unknown_seconds) {
        let reason = Reason::HoldExpired { unknown_seconds: Secs(seconds), hold_at_most_seconds: Secs::from(most) };
        return Unknown { recommended: None, reason: Some(reason), is_fallback: false };
    }
    Unknown { recommended: Some(current), reason: None, is_fallback: false }
}

/// Failures in a row, this reading included: as the caller counts, else as the memory does.
#[must_use]
pub fn failures_in_a_row(request: &Request, memory: Option<&Memory>) -> u32 {
    let told = request.failure.as_ref().and_then(|failure| failure.consecutive);
    told.unwrap_or_else(|| memory.map_or(1, |memory| memory.failures.saturating_add(1)))
}
