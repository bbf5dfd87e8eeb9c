//! How many replicas can have something to do, and how many are needed to hold the state.
//!
//! ```text
//! consumers <= sum of partitions           pooled assignors (round-robin, sticky, uniform)
//! consumers <= largest topic               range, which assigns topic by topic
//! consumers <= stream tasks                Kafka Streams
//! replicas  >= P / floor(limit / shard)    sharded state: fewer replicas hold more partitions each
//! ```
//!
//! A replica has `threadsPerReplica` consumers. A share group is bound by nothing: its partitions are read by many.
//! Partitions of one topic are alike, so that counts between two peaks of `ceil(P/n)` buy nothing; those of several
//! topics are not, and are not aligned.

use super::lag::Lag;
use super::{GroupType, KafkaGroupSnapshot};
use crate::core::policy::{Policy, StatePattern};
use crate::core::units::{Count, as_f64, ceil_count};

/// What bounds the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The most replicas that have something to read.
    pub useful: Option<Count>,
    /// Partitions, or stream tasks, over which consumers are spread.
    pub parts: Option<Count>,
    /// True when the parts are alike, so that the same-peak rule holds.
    pub is_even: bool,
    /// The fewest replicas that hold the state.
    pub memory_floor: Option<Count>,
}

impl Bounds {
    /// The bounds of a group.
    #[must_use]
    pub fn of(reading: &KafkaGroupSnapshot, lag: &Lag<'_>, policy: &Policy) -> Self {
        let kafka = &policy.kafka;
        let counts: Vec<Count> = lag.topics.iter().filter_map(|topic| topic.count()).filter(|count| *count > 0).collect();
        let (sum, largest) = (counts.iter().sum::<Count>(), counts.iter().copied().max());
        let by_topic = reading.assignor.as_deref().is_some_and(|assignor| assignor.to_ascii_lowercase().contains("range")) && kafka.keda.is_none();
        let partitions = if by_topic { largest } else { Some(sum).filter(|sum| *sum > 0) };
        let tasks = reading.stream_tasks();
        let mut parts = tasks.or(partitions);
        let mut is_even = tasks.is_none() && counts.len() == 1;
        if kafka.limit_to_partitions_with_lag {
            // a reading that knows no partition knows none with lag either
            let lagging = lag.lagging(kafka.residual_records);
            if !lag.parts.is_empty() {
                parts = parts.map(|parts| parts.min(lagging.max(1)));
                is_even = true;
            }
        }
        let bound = parts.filter(|_| reading.kind() != GroupType::Share && !kafka.allow_idle && kafka.keda.is_none());
        Self {
            useful: bound.map(|parts| parts.div_ceil(policy.threads_per_replica.max(1))),
            parts,
            is_even: is_even && bound.is_some(),
            memory_floor: memory_floor(parts, policy),
        }
    }
}

/// The fewest replicas whose share of the partitions fits in memory.
fn memory_floor(parts: Option<Count>, policy: &Policy) -> Option<Count> {
    let kafka = &policy.kafka;
    let (parts, shard, limit) = (parts?, kafka.shard_bytes?, kafka.limit_bytes?);
    if kafka.state_pattern == StatePattern::WholeLedger {
        return None;
    }
    // how many shards one replica holds: at least one, as the policy is checked
    let each = ceil_count(limit / shard + 1.0).saturating_sub(1);
    let each = if as_f64(each) * shard > limit { each.saturating_sub(1) } else { each }.max(1);
    Some(parts.div_ceil(each))
}

/// Bytes that a new replica of `count` reads before it works.
#[must_use]
pub fn restore_bytes(parts: Count, count: Count, policy: &Policy) -> Option<f64> {
    let shard = policy.kafka.shard_bytes?;
    let held = if policy.kafka.state_pattern == StatePattern::WholeLedger { parts } else { parts.div_ceil(count.max(1)) };
    Some(as_f64(held) * shard)
}

/// Partitions that change their consumer when the count goes from `from` to `to`, at least.
#[must_use]
pub fn moved(parts: Count, from: Count, to: Count) -> Count {
    let (fewer, more) = (from.min(to), from.max(to));
    if more == 0 || from == to {
        return 0;
    }
    let kept = fewer * (parts / more) + fewer.min(parts % more);
    parts.saturating_sub(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::PolicyInput;
    use crate::core::request::Kind;

    #[test]
    fn only_what_has_to_move_moves() {
        assert_eq!(moved(12, 5, 6), 2);
        assert_eq!(moved(12, 6, 5), 2);
        assert_eq!(moved(12, 0, 4), 12);
        assert_eq!(moved(12, 4, 4), 0);
    }

    #[test]
    fn kafka_state_that_is_sharded_is_a_lower_bound() {
        let policy = |limit: f64| {
            let text = serde_json::json!({ "state": { "shardBytes": 1e9, "limitBytes": limit } });
            serde_json::from_value::<PolicyInput>(text).expect("a policy").resolve(Kind::KafkaGroup).expect("valid")
        };
        assert_eq!(memory_floor(Some(24), &policy(4.5e9)), Some(6), "four each");
        assert_eq!(memory_floor(Some(24), &policy(4e9)), Some(6));
        assert_eq!(memory_floor(Some(24), &policy(3.9e9)), Some(8));
        assert_eq!(memory_floor(Some(24), &policy(1e9)), Some(24));
    }
}
