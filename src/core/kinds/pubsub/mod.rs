//! A Pub/Sub subscription: a queue without partitions, seen minutes late, that hands a message out again when it was
//! not acknowledged in time.
//!
//! It is sized like any queue (`backlog`), on numbers that are put right first:
//! ```text
//! redelivery = expired deadlines / acknowledged, or sent / acknowledged - 1 where they are not known
//! arrival    = published x (1 + redelivery)          served = acknowledged x (1 + redelivery)
//! waiting    = max(0, undelivered + (published - acknowledged) x age of the reading)
//! ```
//! A redelivery is work like any other, and the number of a few minutes ago is carried to now. The obvious alternative,
//! to divide the number as it was read, starts replicas for messages that are long gone. What was measured before the
//! last change is not acted on again, and a reading without a data point is unknown.
//!
//! Two more needs stand beside the rates: messages in work at once against `maxOutstandingPerReplica` (Little's law), and
//! bytes against what one stream carries. Neither is known at start; an idle subscription goes to zero as a queue does.
//! Messages are whole, rates are messages per second. Source of the metrics: Cloud Monitoring, `pubsub.googleapis.com`.

mod reading;

use std::sync::Arc;

pub use self::reading::*;

use super::backlog::{self, BacklogSnapshot, Signal};
use crate::core::advice::{Action, ActionKind, Advice};
use crate::core::decide::Judged;
use crate::core::policy::Policy;
use crate::core::reasons::{Num, Rate, Reason, Secs};
use crate::core::request::{Request, Series};
use crate::core::trust;
use crate::core::units::{Amount, Known, as_f64, ceil_count, seconds_between};

/// Bytes per second that one streaming pull carries.
const STREAM_BYTES_PER_SECOND: f64 = 10_000_000.0;
/// From this share of redeliveries on they are worth a word.
const NOTICEABLE_REDELIVERY: f64 = 0.05;
/// From this share on what waits is as good as all leased.
const LEASED_SHARE: f64 = 0.9;
/// The oldest message is the same one when its age grows by this share of the time that passes.
const SAME_OLDEST: f64 = 0.9;

/// Judges a subscription.
#[must_use]
pub fn advise(request: &Request, series: &Series<PubsubSubscriptionSnapshot>) -> Advice {
    let age = trust::look(series, request).age_seconds.unwrap_or(0.0);
    let poison = series.latest.as_deref().and_then(|latest| poison(request, series, latest));
    let latest = series.latest.as_deref().map(|latest| {
        let mut queue = as_queue(latest, &request.policy);
        if !request.policy.pubsub.as_published {
            queue.backlog = projected(latest, age);
        }
        if poison.is_some() {
            // one message that nobody can process says nothing of how long the others wait
            queue.oldest_seconds = None;
        }
        Arc::new(queue)
    });
    let history = series.history.iter().map(|earlier| Arc::new(as_queue(earlier, &request.policy))).collect();
    backlog::advise_with(request, &Series { latest, history }, |judged| {
        if let Some(latest) = series.latest.as_deref() {
            say(request, latest, poison, judged);
        }
    })
}

/// Redeliveries for each message that is acknowledged; 0 where nothing tells.
fn redelivery(reading: &PubsubSubscriptionSnapshot) -> f64 {
    let Some(acked) = reading.ack_per_second.known().filter(|acked| *acked > 0.0) else { return 0.0 };
    let expired = reading.expired_ack_deadlines_per_second.known();
    expired.or_else(|| Some(reading.sent_per_second.known()? - acked)).map_or(0.0, |again| (again / acked).max(0.0))
}

/// The reading as one of a queue, at the time at which it was measured.
fn as_queue(reading: &PubsubSubscriptionSnapshot, policy: &Policy) -> BacklogSnapshot {
    let load = 1.0 + redelivery(reading);
    // counters without events have no points: what that stands for is the user's to say, and only where nothing waits
    let nothing = policy.no_data.filter(|value| reading.undelivered.is_some_and(|count| as_f64(count.unsigned_abs()) <= *value));
    let times = |rate: Option<Amount>| rate.known().or(nothing.map(|_| 0.0)).and_then(|rate| Amount::new(rate * load));
    BacklogSnapshot {
        observed_at: reading.observed_at,
        received_at: reading.received_at,
        sender_clock_offset_seconds: reading.sender_clock_offset_seconds,
        replicas: reading.replicas,
        backlog: reading.undelivered,
        oldest_seconds: reading.oldest_unacked_seconds,
        arrival_per_second: times(reading.publish_per_second),
        served_per_second: times(reading.ack_per_second),
        signals: signals(reading, policy, load),
        missing: reading.missing.clone(),
        ..BacklogSnapshot::default()
    }
}

/// What waits now, from what waited when it was measured.
fn projected(reading: &PubsubSubscriptionSnapshot, age: f64) -> Option<i64> {
    let waited = reading.undelivered?;
    let (Some(published), Some(acked)) = (reading.publish_per_second.known(), reading.ack_per_second.known()) else { return Some(waited) };
    if waited < 0 {
        return Some(waited);
    }
    let now = ceil_count((as_f64(waited.unsigned_abs()) + (published - acked) * age).max(0.0));
    Some(i64::try_from(now).unwrap_or(i64::MAX))
}

/// Needs beside the rates: messages in work at once, and bytes.
fn signals(reading: &PubsubSubscriptionSnapshot, policy: &Policy, load: f64) -> Vec<Signal> {
    let Some(arrival) = reading.publish_per_second.known().map(|rate| rate * load) else { return Vec::new() };
    let in_work = reading.processing_seconds.known().zip(policy.pubsub.max_outstanding_per_replica);
    let concurrency = in_work.map(|(seconds, most)| arrival * seconds / (as_f64(most) * policy.target_utilization));
    let bytes = reading.message_bytes.known().map(|bytes| arrival * bytes / STREAM_BYTES_PER_SECOND);
    let named = [("messages in work", concurrency), ("bytes per stream", bytes)];
    named.into_iter().filter_map(|(name, needed)| Some(Signal { name: name.to_owned(), wanted: Some(ceil_count(needed?)) })).collect()
}

/// The age of an oldest message that is the same over all readings, while few wait and what is published is served.
fn poison(request: &Request, series: &Series<PubsubSubscriptionSnapshot>, latest: &PubsubSubscriptionSnapshot) -> Option<Reason> {
    let age = latest.oldest_unacked_seconds.known()?;
    let waits = latest.undelivered.filter(|count| *count > 0).map(|count| as_f64(count.unsigned_abs()))?;
    let few = waits <= latest.ack_per_second.known()?;
    let mut readings: Vec<_> = series.history.iter().map(AsRef::as_ref).chain([latest]).collect();
    // one that was read twice was measured once
    readings.dedup_by_key(|reading| trust::measured_at(*reading, request.now));
    let grows = readings.windows(2).all(|pair| {
        let [before, after] = pair else { return false };
        let passed = seconds_between(trust::measured_at(*before, request.now), trust::measured_at(*after, request.now));
        let ages = before.oldest_unacked_seconds.known().zip(after.oldest_unacked_seconds.known());
        ages.is_some_and(|(before, after)| passed > 0.0 && after - before >= SAME_OLDEST * passed)
    });
    (few && grows && readings.len() >= 3).then_some(Reason::PoisonMessage { oldest_seconds: Secs(age), backlog: Num(waits) })
}

/// What more replicas will not help with.
fn say(request: &Request, latest: &PubsubSubscriptionSnapshot, poison: Option<Reason>, judged: &mut Judged) {
    let policy = &request.policy;
    if latest.no_data && policy.no_data.is_none() && judged.wish.is_none() {
        // what is missing is said better than by its name
        judged.hold.retain(|reason| !matches!(reason, Reason::DemandUnknown { .. }));
        judged.hold.push(Reason::DemandUnknown { detail: "no data point came with this reading, which does not mean that nothing waits".to_owned() });
    }
    if let Some(reason) = poison {
        judged.notices.push(reason);
        let advice = "look at the oldest message: its age grows as time passes while the others are served; a dead-letter topic takes such messages out";
        judged.actions.push(Action::new(ActionKind::Investigate, advice.to_owned()));
    }
    let redelivered = redelivery(latest);
    if redelivered >= NOTICEABLE_REDELIVERY
        && let Some(acked) = latest.ack_per_second.known()
    {
        judged.notices.push(Reason::RedeliveryLoad { expired_per_second: Rate(redelivered * acked) });
        let advice = "extend the ack deadline or let each subscriber hold fewer messages before replicas are added; caches that find duplicates are local, and find fewer with more replicas";
        judged.actions.push(Action::new(ActionKind::TuneConsumer, advice.to_owned()));
    }
    leased(latest, judged);
    buffer(latest, policy, judged);
    if let Some(reason) = nobody_asks(request, latest) {
        judged.hold.push(reason);
        let advice = "no streaming pull is open although replicas are ready: look at their logs, credentials and the name of the subscription";
        judged.actions.push(Action::new(ActionKind::Investigate, advice.to_owned()));
    }
}

/// Replicas that are ready and have had time to start, and none of them pulls: more of them would not either.
fn nobody_asks(request: &Request, latest: &PubsubSubscriptionSnapshot) -> Option<Reason> {
    let ready = request.replicas.ready.filter(|ready| *ready > 0)?;
    let silent = latest.open_streams == Some(0) && latest.ack_per_second.known() == Some(0.0);
    let settled = request.replicas.last_change.as_ref().is_none_or(|change| seconds_between(change.at, request.now) >= request.policy.startup.seconds());
    (silent && settled).then_some(Reason::NoMembers { replicas: ready })
}

/// New replicas get nothing of what is out with others, unless more arrives than is served.
fn leased(latest: &PubsubSubscriptionSnapshot, judged: &mut Judged) {
    let (Some(outstanding), Some(waits)) = (latest.outstanding.filter(|count| *count > 0), latest.undelivered) else { return };
    if waits <= 0 || as_f64(outstanding) < LEASED_SHARE * as_f64(waits.unsigned_abs()) {
        return;
    }
    let reason = Reason::LeasedBacklog { outstanding };
    let outrun = latest.publish_per_second.known().zip(latest.ack_per_second.known()).is_none_or(|(published, acked)| published > acked);
    if outrun { judged.notices.push(reason) } else { judged.no_raise.push(reason) }
}

/// What a subscriber holds has to be worked off before its deadline, or it is delivered again.
fn buffer(latest: &PubsubSubscriptionSnapshot, policy: &Policy, judged: &mut Judged) {
    let (Some(most), Some(seconds)) = (policy.pubsub.max_outstanding_per_replica, latest.processing_seconds.known()) else { return };
    let threads = as_f64(policy.threads_per_replica.max(1));
    let deadline = policy.pubsub.ack_deadline.seconds();
    let wait = as_f64(most) / threads * seconds;
    if wait > deadline {
        let fit = (threads * deadline / seconds).floor();
        let advice = format!(
            "{most} messages held by a replica wait for up to {}, longer than the ack deadline of {}: hold at most {}, or extend the deadline",
            Secs(wait),
            Secs(deadline),
            Num(fit)
        );
        judged.actions.push(Action::new(ActionKind::TuneConsumer, advice));
    }
}
