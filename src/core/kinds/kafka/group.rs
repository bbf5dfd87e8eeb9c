//! What the group itself is doing, whatever waits: rebalancing, without members, with some missing, unknown to the broker.
//!
//! A rebalance makes the group read less and the lag jump; a scaler that believes that adds members, and each addition is
//! another rebalance. Members are consumers as of the reading, replicas are as of now, so a difference counts only when it
//! outlasts `startup` after the last change. A group of type `consumer` or `share` looks dead through the classic API.

use super::lag::{Basis, Lag};
use super::window::Flows;
use super::{GroupState, GroupType, KafkaGroupSnapshot};
use crate::core::advice::{Action, ActionKind};
use crate::core::decide::{Case, Judged};
use crate::core::policy::{OffsetReset, StatePattern};
use crate::core::reasons::{Names, Num, Reason, Secs};
use crate::core::units::{Count, Known};

/// More rebalances than this in ten minutes, none of them caused by a change of the count, are a storm.
const STORM: Count = 3;
/// Commits are about to expire when less than this is left.
const EXPIRY_SOON_SECONDS: f64 = 86_400.0;

/// What forbids a change whatever waits.
pub fn state(case: &Case<'_>, reading: &KafkaGroupSnapshot, lag: &Lag<'_>, flows: &Flows, judged: &mut Judged) {
    let name = || reading.group.clone().unwrap_or_else(|| "the group".to_owned());
    per_instance(case, reading, judged);
    match reading.doing() {
        Some(GroupState::Rebalancing) => {
            judged.hold.push(Reason::Rebalancing { state: reading.state.clone().unwrap_or_default() });
        }
        Some(GroupState::Dead) => {
            let has_commits = lag.parts.iter().any(|part| part.reading.committed.is_some());
            if matches!(reading.kind(), GroupType::Consumer | GroupType::Share | GroupType::Streams) {
                let detail = format!("{} is called dead, as groups of a newer protocol are by DescribeGroups: its own describe call tells its members", name());
                judged.hold.push(Reason::InconsistentReading { detail });
            } else if !has_commits {
                let detail = format!("there is no group {}: it has neither members nor commits", name());
                judged.hold.push(Reason::DemandUnknown { detail });
                judged.actions.push(Action::new(ActionKind::Investigate, format!("check the id of {}: a group that has never run looks the same", name())));
            }
        }
        _ => {}
    }
    storm(case, reading, judged);
    members(case, reading, flows, judged);
    expiry(reading, judged);
}

/// Groups whose id is one per instance: each reads everything, so that more of them read no more.
fn per_instance(case: &Case<'_>, reading: &KafkaGroupSnapshot, judged: &mut Judged) {
    if case.policy.kafka.state_pattern == StatePattern::WholeLedger {
        let detail = "state.pattern is wholeLedger, so each replica reads the whole topic under a group of its own, and another replica takes nothing off it";
        judged.hold.push(Reason::PerInstanceGroup { detail: detail.to_owned() });
        return;
    }
    let Some(group) = &reading.group else { return };
    let alone = reading.members.is_some_and(|members| members <= 1) && judged.current.is_some_and(|current| current > 1);
    if alone && ends_like_an_instance(group) {
        let detail = format!("the id {group} looks like that of one instance, and it has one member where several replicas run");
        judged.hold.push(Reason::PerInstanceGroup { detail });
    }
}

/// True for ids that end in a UUID, or in eight or more hexadecimal digits with letters and digits among them.
fn ends_like_an_instance(group: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let tail: Vec<&str> = group.rsplit(['-', '_', '.']).take(5).collect();
    if let [e, d, c, b, a] = tail.as_slice()
        && [(a, 8), (b, 4), (c, 4), (d, 4), (e, 12)].iter().all(|(text, length)| text.len() >= *length && is_hex(&text[text.len() - length..]))
    {
        return true;
    }
    tail.first().is_some_and(|last| {
        last.len() >= 8 && is_hex(last) && last.bytes().any(|byte| byte.is_ascii_digit()) && last.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

fn storm(case: &Case<'_>, reading: &KafkaGroupSnapshot, judged: &mut Judged) {
    let caused = case.seconds_since_change().is_some_and(|seconds| seconds < 600.0);
    let Some(rebalances) = reading.rebalances_last10_minutes.filter(|rebalances| *rebalances > STORM && !caused) else { return };
    judged.hold.push(Reason::RebalanceStorm { rebalances });
    let message = "find out why members leave: handlers that take longer than max.poll.interval.ms, crashes, or pods that come and go; static membership (group.instance.id) spares the rebalance of a restart";
    judged.actions.push(Action::new(ActionKind::TuneConsumer, message.to_owned()));
}

fn members(case: &Case<'_>, reading: &KafkaGroupSnapshot, flows: &Flows, judged: &mut Judged) {
    if judged.hold.iter().any(|reason| matches!(reason, Reason::PerInstanceGroup { .. } | Reason::Rebalancing { .. } | Reason::InconsistentReading { .. })) {
        return;
    }
    let members = reading.members.or_else(|| (reading.doing() == Some(GroupState::Empty)).then_some(0));
    let replicas = case.request.replicas.ready.or(case.spec).filter(|count| *count > 0);
    let (Some(members), Some(replicas)) = (members, replicas) else { return };
    if case.seconds_since_change().is_some_and(|seconds| seconds <= case.policy.startup.seconds()) {
        return;
    }
    let threads = case.policy.threads_per_replica.max(1);
    if members == 0 {
        // consumers that assign partitions by hand are no members, and commit all the same
        let commits = flows.served.is_some_and(|rate| rate > 0.0);
        if !commits {
            judged.hold.push(Reason::NoMembers { replicas });
            let message = format!("find out why none of {replicas} replicas joins the group: wrong group id, no access, or consumers that crash");
            judged.actions.push(Action::new(ActionKind::Investigate, message));
        }
        return;
    }
    // a member of a Streams group is a process, elsewhere it is a consumer
    let filled = if reading.kind() == GroupType::Streams { members } else { members.div_ceil(threads) };
    if filled < replicas {
        let reason = if threads > 1 { Reason::ConsumersMissing { members, replicas, threads } } else { Reason::MembersMissing { members, replicas } };
        judged.hold.push(reason);
        judged.actions.push(Action::new(ActionKind::Investigate, format!("find out why only {filled} of {replicas} replicas have joined the group")));
    }
}

/// The broker forgets the commits of a group that has been without members for too long.
fn expiry(reading: &KafkaGroupSnapshot, judged: &mut Judged) {
    let (Some(empty), Some(kept)) = (reading.empty_seconds.known(), reading.offsets_retention_seconds.known()) else { return };
    let left = kept - empty;
    if reading.doing() == Some(GroupState::Empty) && left <= EXPIRY_SOON_SECONDS {
        judged.notices.push(Reason::CommitsExpire { left_seconds: Secs(left.max(0.0)) });
        judged.actions.push(Action::new(ActionKind::Investigate, "run a consumer for long enough to commit, or the group loses its place".to_owned()));
    }
}

/// What is to be said of partitions whose lag is not the plain one.
pub fn oddities(case: &Case<'_>, lag: &Lag<'_>, judged: &mut Judged) {
    let uncommitted: Vec<_> = lag.uncommitted().collect();
    if !uncommitted.is_empty() {
        let all = uncommitted.len() == lag.parts.len();
        let possible: f64 = uncommitted.iter().map(|part| part.possible).sum();
        let which = if all { "on any partition".to_owned() } else { format!("on {} of {} partitions", uncommitted.len(), lag.parts.len()) };
        let (detail, blocks) = match case.policy.kafka.offset_reset {
            OffsetReset::Earliest => (format!("{which}, and offsetReset is earliest: what is still there counts as waiting"), false),
            OffsetReset::Latest => (
                format!(
                    "{which}, and offsetReset is latest: a consumer begins at the end, so nothing is known to wait, and up to {} records may be skipped",
                    Num(possible)
                ),
                all,
            ),
            OffsetReset::None => (format!("{which}, and offsetReset is none: consumers fail there until something is committed"), true),
            OffsetReset::Unknown => (format!("{which}, and offsetReset is not known: between 0 and {} records wait there", Num(possible)), possible > 0.0),
        };
        let reason = Reason::NothingCommitted { detail };
        match case.policy.kafka.offset_reset {
            // where nothing at all is known to wait nothing is decided
            _ if all && blocks && lag.told.is_none() => judged.hold.push(reason),
            _ if blocks => judged.no_lower.push(reason),
            _ => judged.notices.push(reason),
        }
    }
    let beyond: Vec<String> = lag.parts.iter().filter(|part| part.basis == Basis::BeyondEnd).map(super::lag::Part::name).collect();
    if !beyond.is_empty() {
        judged.no_lower.push(Reason::CommitBeyondEnd { partitions: Names(beyond) });
    }
    let lost: f64 = lag.parts.iter().map(|part| part.lost).sum();
    if lost > 0.0 {
        judged.notices.push(Reason::RetentionLoss { lost: Num(lost) });
        let names: Vec<String> = lag.parts.iter().filter(|part| part.lost > 0.0).map(super::lag::Part::name).collect();
        judged.actions.push(Action::new(
            ActionKind::Investigate,
            format!("records were deleted before they were read on {}: lengthen the retention until the group has caught up", Names(names)),
        ));
    }
    if lag.is_upper_bound() && lag.records().is_some_and(|records| records > 0.0) {
        judged.notices.push(Reason::CompactedTopic {});
    }
}
