//! Acting on advice, for targets whose policy asks for it.
//!
//! After each decision: what was sent before is compared with the reading, then the steps of the advice are sent. Only
//! an advice that rests on the reading of this very round is acted on: nothing is sent when readings fail or are stale,
//! when the advice holds, is a fallback or is paused, when the system cannot be told, or while another instance is the
//! active one. A step is logged once with its result, whatever it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Clock;
use super::acting::Performed;
use super::actuator::{Accepted, Actuator, Effect, Permit};
use super::source::{FailureKind, Snapshot, SourceError};
use super::store::{Target, is_valid};
use crate::core::advice::{Action, ActionKind, Advice, Outcome};
use crate::core::reasons::Reason;
use crate::core::units::{Amount, Timestamp, seconds_between};

/// Whether the system can be told is asked again after this time, also when there is nothing to tell it.
const ABLE_AGE_SECONDS: f64 = 600.0;
/// Steps of one decision that are sent; the others come with the next.
const MOST_AT_ONCE: usize = 10;
/// A call that is under way when the service stops is waited for this long.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Acts for one target.
pub(super) struct Performer {
    pub actuator: Arc<dyn Actuator>,
    pub permit: Arc<dyn Permit>,
    pub target: Arc<Target>,
    pub clock: Clock,
    pub interval: Duration,
    pub stop: CancellationToken,
    pub paused: bool,
    /// When it was last asked whether the system can be told, and what came out.
    pub checked_at: Option<(Timestamp, Result<(), String>)>,
}

impl Performer {
    /// Tells a reading what was measured while the newest step took effect, which no reading shows.
    pub fn tell(&self, snapshot: &mut Snapshot) {
        let downtime = self.target.acting(|acting| acting.last.as_ref()?.downtime_seconds);
        if let Snapshot::FlinkJob(job) = snapshot {
            job.restart_seconds = job.restart_seconds.or(downtime.and_then(Amount::new));
        }
    }

    /// One round, after a decision. `snapshot` is the reading of this round, if it gave one.
    pub async fn step(&mut self, advice: &Advice, snapshot: Option<&Snapshot>) {
        self.settle(snapshot);
        let Some(snapshot) = snapshot else { return };
        let now = (self.clock)();
        let acts = !self.paused && rests(advice, now);
        let steps: Vec<&Action> = advice.actions.iter().filter(|step| acts && self.acts_on(advice, step) && self.may(step)).collect();
        let mut obstacle = self.able(snapshot, now, !steps.is_empty()).await.and_then(|()| self.permit.check().map(|_| ())).err();
        // what a system does not take now is not followed by more of the same: the other steps come with the next decision
        for step in steps.into_iter().take(MOST_AT_ONCE) {
            if obstacle.is_some() || self.stop.is_cancelled() {
                break;
            }
            if !self.may(step) {
                continue;
            }
            match self.perform(step).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => obstacle = Some(why),
            }
        }
        self.notice(obstacle);
    }

    fn may(&self, step: &Action) -> bool {
        let now = (self.clock)();
        self.target.acting(|acting| acting.may(step, now))
    }

    /// Whether the system can be told: asked before each step, and now and then so that the answer can be shown.
    async fn able(&mut self, snapshot: &Snapshot, now: Timestamp, anew: bool) -> Result<(), String> {
        if let Some((at, result)) = &self.checked_at
            && !anew
            && seconds_between(*at, now) < ABLE_AGE_SECONDS
        {
            return result.clone();
        }
        let able = tokio::select! {
            able = self.actuator.able(snapshot) => able,
            () = self.stop.cancelled() => return Err("the service stops".to_owned()),
        };
        let result = able.map_err(|error| match error.kind {
            FailureKind::Unsupported => error.message,
            _ => format!("whether the system can be told is not known: {}", error.message),
        });
        self.checked_at = Some((now, result.clone()));
        result
    }

    /// Whether a step is to be performed. A parallelism is set only where the outcome is a change; workers are drained while
    /// the count holds, unless what holds it is a doubt.
    fn acts_on(&self, advice: &Advice, step: &Action) -> bool {
        let doubtful = advice.reasons.first().is_some_and(|reason| reason.code().is_doubt());
        let right_time = match (step.action, advice.outcome) {
            (_, Outcome::Change) => true,
            (ActionKind::SetParallelism, _) | (_, Outcome::Unknown) => false,
            (_, Outcome::Keep | Outcome::Hold) => !doubtful,
        };
        right_time && step.request.is_some() && self.actuator.performs(step.action)
    }

    /// Sends a step and gives whether it was accepted; an error says why this instance may not act.
    async fn perform(&self, step: &Action) -> Result<bool, String> {
        // asked as late as possible, and the call has no longer than the permit
        let most = self.permit.check()?.unwrap_or(Duration::MAX);
        let at = (self.clock)();
        let call = timeout(most, self.actuator.perform(step));
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let result = tokio::select! {
            result = call => result.unwrap_or_else(|_| Err(unknown("the permit to act ended before the answer"))),
            () = stopped => Err(unknown("the service stopped before the answer")),
        };
        let request = step.request.as_ref().map(|call| format!("{} {}", call.method, call.path)).unwrap_or_default();
        let (result, error) = match result {
            Ok(Accepted::Sent) => ("accepted", None),
            Ok(Accepted::AlreadyAsked) => ("alreadyAsked", None),
            Err(error) => (error.kind.name(), Some(error.message)),
        };
        let by = self.permit.identity().to_owned();
        info!(target = %self.target.name, action = step.action.name(), request, result, error, by, what = step.message, "performed");
        let failed = error.is_some();
        let performed =
            Performed { action: step.action, message: step.message.clone(), request, at, by, result, error, effective_at: None, downtime_seconds: None };
        self.target.act(|acting| acting.note(step, performed, self.interval));
        if !failed {
            self.follow(step.clone());
        }
        Ok(!failed)
    }

    /// Follows a step closely, beside the readings.
    fn follow(&self, action: Action) {
        let (actuator, target) = (Arc::clone(&self.actuator), Arc::clone(&self.target));
        let (now, stop) = (Arc::clone(&self.clock), self.stop.clone());
        tokio::spawn(async move {
            let followed = timeout(actuator.effect_within(), actuator.follow(&action));
            let followed = tokio::select! { followed = followed => followed, () = stop.cancelled() => return };
            if let Ok(Some(followed)) = followed {
                effective(&target, &action, now(), followed.downtime_seconds);
            }
        });
    }

    /// What became of the steps that were sent.
    fn settle(&self, snapshot: Option<&Snapshot>) {
        let now = (self.clock)();
        let within = self.actuator.effect_within().as_secs_f64();
        for step in self.target.acting(|acting| acting.under_way.clone()) {
            let action = &step.action;
            let too_old = seconds_between(step.performed.at, now) >= within;
            match snapshot.map_or(Effect::NotYet, |snapshot| self.actuator.effect(action, snapshot)) {
                Effect::Seen => effective(&self.target, action, now, None),
                Effect::Gone => self.target.act(|acting| acting.gone(action)),
                Effect::NotYet if too_old => {
                    if let Some(done) = self.target.act(|acting| acting.without_effect(action, now, self.interval)) {
                        warn!(target = %self.target.name, action = done.action.name(), request = done.request, error = done.error, "an accepted action had no effect");
                    }
                }
                Effect::NotYet => {}
            }
        }
    }

    /// Says once why nothing is performed, and once that nothing stands in the way any more.
    fn notice(&self, why: Option<String>) {
        if self.target.acting(|acting| acting.notice == why) {
            return;
        }
        if let Some(why) = &why {
            warn!(target = %self.target.name, why, "only advising");
        } else {
            info!(target = %self.target.name, "performing");
        }
        self.target.act(|acting| acting.notice = why);
    }
}

fn effective(target: &Target, action: &Action, at: Timestamp, downtime_seconds: Option<f64>) {
    if let Some(done) = target.act(|acting| acting.effective(action, at, downtime_seconds)) {
        let seconds = seconds_between(done.at, at);
        info!(target = %target.name, action = done.action.name(), request = done.request, seconds, downtime_seconds, "the action took effect");
    }
}

/// True for an advice that may be acted on: it has a valid number, and that number is no makeshift.
fn rests(advice: &Advice, now: Timestamp) -> bool {
    is_valid(advice, now)
        && advice.recommended.is_some()
        && !advice
            .reasons
            .iter()
            .any(|reason| matches!(reason, Reason::Fallback { .. } | Reason::StaleReading { .. } | Reason::NoReading { .. } | Reason::Paused {}))
}

fn unknown(why: &str) -> SourceError {
    SourceError::new(FailureKind::Timeout, format!("{why}: whether it was performed is not known"))
}
