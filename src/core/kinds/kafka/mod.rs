//! A Kafka consumer group: how many consumers it should have.

mod lag;
mod reading;

pub use self::reading::*;

use self::lag::{Lag, LeftOut};
use super::super::advice::{Advice, Input, InputState, Unit};
use super::super::decide::{Case, Fit, Judged, conclude};
use super::super::reasons::{Names, Num, Reason};
use super::super::request::{Request, Series};
use super::super::trust::{self, Trust};
use super::super::units::{Count, as_f64};

/// Judges a group.
#[must_use]
pub fn advise(request: &Request, series: &Series<KafkaGroupSnapshot>) -> Advice {
    let case = Case::new(request);
    let trust = trust::look(series, request);
    let mut judged = Judged::begin(&case, series, Unit::Replicas);
    judged.notices.extend(trust.notices.iter().cloned());
    let Some(reading) = series.latest.as_deref().filter(|_| trust.is_fresh()) else {
        judged.hold.extend(trust.doubts.iter().cloned());
        judged.complete = series.latest.is_some();
        return conclude(&case, &trust, judged, |count, _, _| count);
    };
    judged.complete = true;
    judge(&case, series, reading, &trust, &mut judged);
    conclude(&case, &trust, judged, |count, _, _| count)
}

fn judge(case: &Case<'_>, series: &Series<KafkaGroupSnapshot>, reading: &KafkaGroupSnapshot, trust: &Trust, judged: &mut Judged) {
    let policy = case.policy;
    judged.hold.extend(case.older_than_change(trust));
    judged.no_lower.extend(case.window_not_full(series, policy.kafka.window));
    let lag = match Lag::of(reading, &policy.kafka) {
        Ok(lag) => lag,
        Err(detail) => {
            judged.inputs.push(Input { name: "backlogRecords", value: None, age_seconds: trust.age_seconds, state: InputState::Contradictory });
            judged.hold.push(Reason::InconsistentReading { detail });
            return;
        }
    };
    if reading.doing() == Some(GroupState::Rebalancing) {
        judged.hold.push(Reason::Rebalancing { state: reading.state.clone().unwrap_or_default() });
    }
    for (topic, _) in lag.left_out.iter().filter(|(_, why)| *why == LeftOut::NotSubscribed) {
        judged.notices.push(Reason::NotSubscribed { topic: topic.name.clone() });
    }
    if !lag.missing.is_empty() {
        judged.complete = false;
        judged.no_lower.push(Reason::IncompleteReading { missing: Names(lag.missing.clone()) });
    }
    judged.partitions = Some(lag.topics.iter().filter_map(|topic| topic.count()).sum::<Count>()).filter(|count| *count > 0);
    let (Some(backlog), Some(per_replica)) = (lag.records(), policy.per_replica_backlog) else {
        judged.hold.push(Reason::DemandUnknown { detail: "rates are not read yet, and perReplicaBacklog is not given".to_owned() });
        judged.hold.append(&mut judged.no_lower);
        return;
    };
    judged.inputs.push(Input { name: "backlogRecords", value: Some(backlog), age_seconds: trust.age_seconds, state: InputState::Fresh });
    judged.active = Some(backlog > policy.activation_backlog);
    judged.fit = if policy.even_distribution { Fit::NextUseful } else { Fit::Any };
    let needed = backlog / per_replica;
    judged.why.push(Reason::LagPerReplica { backlog_records: Num(backlog), per_replica_backlog: Num(per_replica), needed: Num(needed) });
    judged.wish = Some(needed.max(as_f64(Count::from(case.min > 0))));
}
