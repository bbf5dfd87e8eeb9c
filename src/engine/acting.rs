//! What Loadline has done itself for a target, and what is under way: kept beside the advice, for surfaces to show.
//!
//! The life of a step: its call is accepted, then it is under way until a reading (or whoever follows it closely) shows
//! its effect, or until it has had none for too long. Of one subject (a job, a worker) one step at a time is under way, so
//! no wish is sent twice. A step that failed is tried again by a later decision, at growing distances.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::core::advice::{Action, ActionKind};
use crate::core::units::{Timestamp, seconds_between, shifted};

/// The longest distance between two tries.
const LONGEST_DISTANCE: Duration = Duration::from_secs(3600);

/// What is done for a target.
#[derive(Clone, Debug, Default)]
pub struct Acting {
    /// True where the policy asks for more than advice.
    pub performs: bool,
    /// Why nothing is done although the policy asks for it; none while there is no obstacle.
    pub notice: Option<String>,
    /// Steps that were accepted and whose effect is not there yet, oldest first.
    pub under_way: Vec<UnderWay>,
    /// The newest step.
    pub last: Option<Performed>,
    /// How often each action came to each result.
    pub counts: BTreeMap<(ActionKind, &'static str), u64>,
    failures: BTreeMap<String, Failures>,
}

/// A step that was accepted.
#[derive(Clone, Debug)]
pub struct UnderWay {
    /// What was asked for.
    pub action: Action,
    /// As it is told.
    pub performed: Performed,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    in_a_row: u32,
    again_at: Timestamp,
}

/// A step that Loadline has taken.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Performed {
    /// Which one.
    pub action: ActionKind,
    /// What was to be done, in a sentence.
    pub message: String,
    /// Method and path of the call.
    pub request: String,
    /// When it was sent.
    pub at: Timestamp,
    /// Which instance sent it.
    pub by: String,
    /// `accepted`; `alreadyAsked` where the system had the same wish already, and nothing was sent; `noEffect` where it was
    /// accepted and nothing came of it; else the kind of the failure.
    pub result: &'static str,
    /// What went wrong; null when nothing did.
    pub error: Option<String>,
    /// When its effect was seen; null while it is not.
    pub effective_at: Option<Timestamp>,
    /// Seconds without service while it took effect, as far as that was seen: from the last moment at which everything ran
    /// to the first at which it ran again.
    pub downtime_seconds: Option<f64>,
}

/// What a step is about: of one subject one step at a time is under way.
#[must_use]
pub fn subject(action: &Action) -> String {
    match (&action.worker, &action.request) {
        (Some(worker), _) => worker.host.clone(),
        (None, Some(request)) => request.path.clone(),
        (None, None) => action.action.name().to_owned(),
    }
}

impl Acting {
    /// Whether a step may be sent now: nothing about the same subject is under way, and a failure is far enough back.
    #[must_use]
    pub fn may(&self, action: &Action, now: Timestamp) -> bool {
        let subject = subject(action);
        let busy = self.under_way.iter().any(|step| self::subject(&step.action) == subject);
        !busy && self.failures.get(&subject).is_none_or(|failures| now >= failures.again_at)
    }

    /// Notes a step and what its call came to.
    pub fn note(&mut self, action: &Action, performed: Performed, interval: Duration) {
        *self.counts.entry((performed.action, performed.result)).or_default() += 1;
        if performed.error.is_some() {
            self.failed(&subject(action), performed.at, interval);
        } else {
            self.under_way.push(UnderWay { action: action.clone(), performed: performed.clone() });
        }
        self.last = Some(performed);
    }

    /// Notes that the effect of a step is there. Gives it as it is told from now on; `None` if it was not under way. Where a
    /// reading has seen the effect already, whoever followed it closely still adds the downtime.
    pub fn effective(&mut self, action: &Action, at: Timestamp, downtime_seconds: Option<f64>) -> Option<Performed> {
        let Some(mut done) = self.take(action) else {
            let mut last = self.last.take()?;
            let adds = last.effective_at.is_some() && last.downtime_seconds.is_none() && downtime_seconds.is_some() && last.message == action.message;
            last.downtime_seconds = last.downtime_seconds.or(downtime_seconds.filter(|_| adds));
            self.last = Some(last.clone());
            return adds.then_some(last);
        };
        done.effective_at = Some(at);
        done.downtime_seconds = downtime_seconds;
        self.failures.remove(&subject(action));
        self.tell(&done);
        Some(done)
    }

    /// Notes that nothing will come of a step, because what it was about is gone.
    pub fn gone(&mut self, action: &Action) {
        self.take(action);
    }

    /// Notes that nothing came of a step for too long.
    pub fn without_effect(&mut self, action: &Action, now: Timestamp, interval: Duration) -> Option<Performed> {
        let mut done = self.take(action)?;
        done.result = "noEffect";
        done.error = Some(format!("nothing came of it within {} s", seconds_between(done.at, now).round()));
        *self.counts.entry((done.action, done.result)).or_default() += 1;
        self.failed(&subject(action), now, interval);
        self.tell(&done);
        Some(done)
    }

    fn take(&mut self, action: &Action) -> Option<Performed> {
        let position = self.under_way.iter().position(|step| step.action == *action)?;
        Some(self.under_way.remove(position).performed)
    }

    /// The newest step as it stands now; an older one changes nothing.
    fn tell(&mut self, done: &Performed) {
        if self.last.as_ref().is_none_or(|last| last.at <= done.at) {
            self.last = Some(done.clone());
        }
    }

    fn failed(&mut self, subject: &str, now: Timestamp, interval: Duration) {
        // what has not been tried for long is forgotten with the subject
        self.failures.retain(|_, failures| seconds_between(failures.again_at, now) < LONGEST_DISTANCE.as_secs_f64());
        let before = self.failures.get(subject).map_or(0, |failures| failures.in_a_row);
        let in_a_row = before.saturating_add(1);
        let distance = interval.saturating_mul(1_u32.checked_shl(in_a_row).unwrap_or(u32::MAX)).min(LONGEST_DISTANCE);
        // a hair less, so that the try falls on a decision
        let again_at = shifted(now, distance.saturating_sub(interval / 10).as_secs_f64());
        self.failures.insert(subject.to_owned(), Failures { in_a_row, again_at });
    }
}
