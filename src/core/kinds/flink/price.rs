//! What a rescale costs and what it brings, for the job as a whole: one stop for all of its vertices.
//!
//! ```text
//! speed = the smallest capacity / demand over the vertices       (above 1: the job is faster than what arrives)
//! gone without it = backlog / (arrival x (speed - 1))
//! gone with it    = restart + (backlog + arrival x restart) / (arrival x (speed after - 1))
//! a cut pays back after restart x slots after / slots freed
//! ```
//!
//! A raise that demand alone asks for is never weighed: without it the backlog grows for ever. A raise that only shortens
//! the catching up is made where the backlog is gone sooner with it, the stop included. A cut is made where it frees
//! slots, and where these are worth the stop within an hour, or within the stabilization window if that is longer: for
//! so long the lower demand has stood, and may be expected to stand again. Partitions and bounds are not weighed.
//! The obvious alternative, a waiting time after each change, makes useful changes late and useless ones still.

use super::FlinkJobSnapshot;
use super::graph::Target;
use super::rates::Figures;
use super::slots::Slots;
use super::vertex::{Decision, JobFacts};
use crate::core::advice::Forecast;
use crate::core::policy::Policy;
use crate::core::reasons::{Gone, LimitCode, Num, Reason, Secs};
use crate::core::units::{Count, as_f64};

/// A cut has at least so long to pay back.
const HORIZON_SECONDS: f64 = 3600.0;

/// The job as one queue. Records, and records per second.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    backlog: f64,
    arrival: f64,
    /// Smallest capacity by demand now.
    speed: f64,
    /// The same after the change.
    speed_after: f64,
    restart: f64,
    changes: bool,
}

impl Outlook {
    /// Looks at the job; `None` where arrival, a backlog or a capacity is not known.
    #[must_use]
    pub fn of(job: &FlinkJobSnapshot, figures: &[Figures], targets: &[Target], decisions: &[Decision], facts: &JobFacts) -> Option<Self> {
        let (mut backlog, mut arrival) = (0.0, 0.0);
        let (mut speed, mut speed_after) = (f64::INFINITY, f64::INFINITY);
        let mut changes = false;
        for (((vertex, figures), target), decision) in job.vertices.iter().zip(figures).zip(targets).zip(decisions) {
            changes |= decision.parallelism != vertex.parallelism;
            let rate = target.rate?;
            if vertex.is_source() && vertex.finished != Some(true) {
                backlog += figures.lag?;
                arrival += rate;
            }
            if rate > 0.0 {
                let capacity = figures.capacity?;
                speed = speed.min(capacity / rate);
                speed_after = speed_after.min(decision.curve.as_ref().map_or(capacity, |curve| curve.capacity(decision.parallelism)) / rate);
            }
        }
        let known = arrival > 0.0 && backlog.is_finite() && arrival.is_finite();
        known.then_some(Self { backlog, arrival, speed, speed_after, restart: facts.restart_seconds, changes })
    }

    /// Seconds until the backlog is gone without the change; `None` is never.
    #[must_use]
    pub fn gone_now(&self) -> Option<f64> {
        drain(self.backlog, self.arrival, self.speed)
    }

    /// The same with the change, its stop included.
    #[must_use]
    pub fn gone_after(&self) -> Option<f64> {
        if !self.changes {
            return self.gone_now();
        }
        drain(self.backlog + self.delayed(), self.arrival, self.speed_after).map(|seconds| self.restart + seconds)
    }

    /// Records that wait for the stop.
    #[must_use]
    pub const fn delayed(&self) -> f64 {
        self.arrival * self.restart
    }

    /// What becomes of it.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let busy = |speed: f64| Some((1.0 / speed).min(1.0)).filter(|share| share.is_finite());
        Forecast {
            catch_up_seconds_now: self.gone_now(),
            catches_up_now: Some(self.gone_now().is_some()),
            catch_up_seconds_recommended: self.gone_after(),
            catches_up_recommended: Some(self.gone_after().is_some()),
            utilization_now: busy(self.speed),
            utilization_recommended: busy(if self.changes { self.speed_after } else { self.speed }),
            ..Forecast::default()
        }
    }
}

fn drain(backlog: f64, arrival: f64, speed: f64) -> Option<f64> {
    if backlog <= 0.0 {
        return Some(0.0);
    }
    (speed > 1.0).then(|| backlog / (arrival * (speed - 1.0)))
}

/// Weighs what has been decided. Takes it back where it does not pay, and says so.
pub fn weigh(job: &FlinkJobSnapshot, slots: &Slots, figures: &[Figures], targets: &[Target], facts: &JobFacts, policy: &Policy, decisions: &mut [Decision]) {
    let outlook = Outlook::of(job, figures, targets, decisions, facts);
    let changed = |(vertex, decision): &(&super::Vertex, &Decision)| decision.parallelism != vertex.parallelism;
    let mut moved = job.vertices.iter().zip(decisions.iter()).filter(changed).peekable();
    if moved.peek().is_none() {
        return;
    }
    let (mut raises, mut needed) = (false, false);
    for (vertex, decision) in moved {
        raises |= decision.parallelism > vertex.parallelism;
        needed |= decision.forced || (decision.parallelism > vertex.parallelism && decision.urgent);
    }
    let against = match outlook {
        _ if needed => None,
        Some(outlook) if raises => slower(&outlook),
        // a raise whose effect cannot be foretold is not weighed
        None if raises => None,
        outlook => worth(outlook, slots.used, freed(job, slots, decisions), facts, policy),
    };
    if let Some(reason) = against {
        for (vertex, decision) in job.vertices.iter().zip(decisions.iter_mut()).filter(|(vertex, decision)| decision.parallelism != vertex.parallelism) {
            decision.lead(LimitCode::ChangeNotWorthwhile, vertex.parallelism, facts.restart_seconds);
            decision.reasons.insert(0, reason.clone());
            decision.held = true;
        }
    }
}

/// What the change costs and brings; `None` without one.
#[must_use]
pub fn tell(outlook: &Outlook, slots: &Slots, decisions: &[Decision]) -> Option<Reason> {
    outlook.changes.then(|| Reason::RescalePrice {
        restart_seconds: Secs(outlook.restart),
        delayed_records: Num(outlook.delayed().round()),
        gone_seconds_now: Gone(outlook.gone_now()),
        gone_seconds_after: Gone(outlook.gone_after()),
        slots_now: slots.used,
        slots_after: slots.decided(decisions),
    })
}

/// Is the backlog gone no sooner with the raise than without it.
fn slower(outlook: &Outlook) -> Option<Reason> {
    let now = outlook.gone_now()?;
    outlook.gone_after().is_none_or(|after| after >= now).then(|| Reason::RaiseNotWorthwhile {
        restart_seconds: Secs(outlook.restart),
        delayed_records: Num(outlook.delayed().round()),
        gone_seconds_now: Secs(now),
        gone_seconds_after: Gone(outlook.gone_after()),
    })
}

/// Slots that cuts free. Which vertices share slots may not be known; then each cut is taken to free what it gives up.
fn freed(job: &FlinkJobSnapshot, slots: &Slots, decisions: &[Decision]) -> Count {
    let cuts = job.vertices.iter().zip(decisions).filter(|(vertex, _)| vertex.slot_sharing_group.is_none());
    let alone = cuts.fold(0, |sum: Count, (vertex, decision)| sum.saturating_add(vertex.parallelism.saturating_sub(decision.parallelism)));
    alone.max(slots.used.saturating_sub(slots.decided(decisions)))
}

/// Is a cut not worth its stop.
fn worth(outlook: Option<Outlook>, used: Count, freed: Count, facts: &JobFacts, policy: &Policy) -> Option<Reason> {
    let horizon = policy.scale_down.stabilization.seconds().max(HORIZON_SECONDS);
    let after = used.saturating_sub(freed);
    let pays_back = (freed > 0).then(|| facts.restart_seconds * as_f64(after) / as_f64(freed));
    pays_back.is_none_or(|seconds| seconds > horizon).then(|| Reason::CutNotWorthwhile {
        restart_seconds: Secs(facts.restart_seconds),
        delayed_records: Num(outlook.map_or(0.0, |outlook| outlook.delayed().round())),
        freed_slots: freed,
        slots_now: used,
        pays_back_seconds: Gone(pays_back),
        horizon_seconds: Secs(horizon),
    })
}
