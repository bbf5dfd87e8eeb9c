//! Fields of `kafkaGroup`: their words, their defaults, and what they must satisfy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PolicyInput, Preset};
use crate::core::units::{Amount, Count, Duration};

/// The most names in a list of topics.
const MOST_TOPICS: usize = 1000;

/// Where a consumer begins when nothing is committed: `auto.offset.reset`, which the broker does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OffsetReset {
    /// Not told: what waits on a partition without a commit is somewhere between nothing and everything.
    #[default]
    Unknown,
    /// At the first record that is still there.
    Earliest,
    /// At the end.
    Latest,
    /// It fails.
    None,
}

/// Which records the consumers see: their `isolation.level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// All of them.
    #[default]
    ReadUncommitted,
    /// Those of committed transactions: they wait for the oldest open one.
    ReadCommitted,
}

/// How state is spread over the replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatePattern {
    /// Each replica holds the state of its partitions.
    #[default]
    Sharded,
    /// Each replica holds all of it, and reads the whole topic with a group of its own.
    WholeLedger,
}

/// State that replicas keep and restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StateInput {
    /// Bytes of state of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_bytes: Option<Amount>,
    /// Bytes of state that one replica can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<Amount>,
    /// Bytes per second at which state is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_bytes_per_second: Option<Amount>,
    /// How it is spread (default `sharded`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<StatePattern>,
}

/// Records that a producer sends even when there is nothing to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HeartbeatInput {
    /// Time between two of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Time without any record after which the producer is in doubt (default: three intervals).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}

/// Differences of KEDA's Kafka scaler, in its own words; read with the preset `keda-kafka`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KedaKafkaInput {
    /// A partition without a commit counts nothing (default false: 1, or all of it with `earliest`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_to_zero_on_invalid_offset: Option<bool>,
    /// A partition whose commit has not moved since the reading before counts nothing (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_persistent_lag: Option<bool>,
    /// Count from offset 0 where nothing is committed, whatever has been deleted, as before July 2026 (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_deleted_records: Option<bool>,
}

/// Fields of `kafkaGroup` with their values in force.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct KafkaPolicy {
    pub window: Duration,
    pub min_readings: Count,
    pub offset_reset: OffsetReset,
    pub isolation: Isolation,
    pub topics: Vec<String>,
    pub stuck_after: Duration,
    pub residual_records: f64,
    pub allow_idle: bool,
    pub limit_to_partitions_with_lag: bool,
    pub shard_bytes: Option<f64>,
    pub limit_bytes: Option<f64>,
    pub restore_bytes_per_second: Option<f64>,
    pub state_pattern: StatePattern,
    pub co_partitioned: Vec<Vec<String>>,
    pub heartbeat: Option<Heartbeat>,
    pub topic_capacities: Vec<(String, f64)>,
    /// KEDA's arithmetic instead of rates, where the preset asks for it.
    pub keda: Option<KedaKafka>,
}

/// A heartbeat of producers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of HeartbeatInput, and documented there")]
pub struct Heartbeat {
    pub interval: Duration,
    pub grace: Duration,
}

/// KEDA's Kafka scaler, with its own defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a field of KedaKafkaInput, and documented there")]
pub struct KedaKafka {
    pub scale_to_zero_on_invalid_offset: bool,
    pub exclude_persistent_lag: bool,
    pub count_deleted_records: bool,
}

impl PolicyInput {
    /// What is in force for a group. `window` is the one of readings.
    pub(super) fn kafka(&self, stabilization: Duration) -> KafkaPolicy {
        let state = self.state.clone().unwrap_or_default();
        let keda = self.preset == Some(Preset::KedaKafka);
        let rule = self.keda_kafka.clone().unwrap_or_default();
        let amount = |value: Option<Amount>| value.map(Amount::get).filter(|value| *value > 0.0);
        KafkaPolicy {
            window: self.window.unwrap_or(stabilization),
            min_readings: self.min_readings.unwrap_or(1),
            offset_reset: self.offset_reset.unwrap_or(if keda { OffsetReset::Latest } else { OffsetReset::Unknown }),
            isolation: self.isolation.unwrap_or_default(),
            topics: self.topics.clone().unwrap_or_default(),
            stuck_after: self.stuck_after.unwrap_or(Duration::from_mins(5)),
            residual_records: self.residual_records.map_or(2.0, crate::core::units::as_f64),
            allow_idle: self.allow_idle.unwrap_or(false),
            limit_to_partitions_with_lag: self.limit_to_partitions_with_lag.unwrap_or(false),
            shard_bytes: amount(state.shard_bytes),
            limit_bytes: amount(state.limit_bytes),
            restore_bytes_per_second: amount(state.restore_bytes_per_second),
            state_pattern: state.pattern.unwrap_or_default(),
            co_partitioned: self.co_partitioned.clone().unwrap_or_default(),
            heartbeat: self.heartbeat.as_ref().and_then(|given| {
                let interval = given.interval.filter(|interval| interval.seconds() > 0.0)?;
                let grace = given.grace.or_else(|| Duration::parse(&format!("{}s", (interval.seconds() * 3.0).ceil())).ok()).unwrap_or(interval);
                Some(Heartbeat { interval, grace })
            }),
            topic_capacities: self.topic_per_replica_per_second.iter().flatten().map(|(name, rate)| (name.clone(), rate.get())).collect(),
            keda: keda.then(|| KedaKafka {
                scale_to_zero_on_invalid_offset: rule.scale_to_zero_on_invalid_offset.unwrap_or(false),
                exclude_persistent_lag: rule.exclude_persistent_lag.unwrap_or(false),
                count_deleted_records: rule.count_deleted_records.unwrap_or(false),
            }),
        }
    }

    /// Ranges and relations of these fields.
    pub(super) fn check_kafka(&self, say: &mut impl FnMut(&str, String)) {
        if self.topics.as_ref().is_some_and(|topics| topics.is_empty() || topics.len() > MOST_TOPICS) {
            say("topics", format!("expected between 1 and {MOST_TOPICS} names, or no list at all"));
        }
        for (index, set) in self.co_partitioned.iter().flatten().enumerate() {
            if set.len() < 2 {
                say(&format!("coPartitioned[{index}]"), format!("{} topic is no set: expected at least 2 that are partitioned alike", set.len()));
            }
        }
        if self.co_partitioned.as_ref().is_some_and(|sets| sets.len() > MOST_TOPICS) {
            say("coPartitioned", format!("too many sets: expected at most {MOST_TOPICS}"));
        }
        if let Some(heartbeat) = &self.heartbeat {
            if heartbeat.interval.is_none_or(|interval| interval.seconds() <= 0.0) {
                say("heartbeat.interval", "is missing or 0s: expected the time between two heartbeats".to_owned());
            }
            if let (Some(interval), Some(grace)) = (heartbeat.interval, heartbeat.grace)
                && grace < interval
            {
                say("heartbeat.grace", format!("{grace} is shorter than interval {interval}: expected at least that"));
            }
        }
        for (name, rate) in self.topic_per_replica_per_second.iter().flatten() {
            if rate.get() <= 0.0 {
                say(&format!("topicPerReplicaPerSecond.{name}"), "0 is out of range: expected more than 0".to_owned());
            }
        }
        if let Some(state) = &self.state {
            for (path, value) in
                [("shardBytes", state.shard_bytes), ("limitBytes", state.limit_bytes), ("restoreBytesPerSecond", state.restore_bytes_per_second)]
            {
                if value.is_some_and(|value| value.get() <= 0.0) {
                    say(&format!("state.{path}"), "0 is out of range: expected more than 0".to_owned());
                }
            }
            if let (Some(shard), Some(limit)) = (state.shard_bytes, state.limit_bytes)
                && shard > limit
            {
                say("state.limitBytes", format!("{} is below shardBytes {}: expected room for one partition at least", limit.get(), shard.get()));
            }
        }
        if self.keda_kafka.is_some() && self.preset != Some(Preset::KedaKafka) {
            say("kedaKafka", "is read with the preset \"keda-kafka\" only: expected that preset beside it".to_owned());
        }
        if self.preset == Some(Preset::KedaKafka) && self.allow_idle == Some(true) && self.limit_to_partitions_with_lag == Some(true) {
            say("limitToPartitionsWithLag", "stands beside allowIdle, which lifts the same bound: expected one of them".to_owned());
        }
    }

    /// The fields by name, and whether they are given.
    pub(super) const fn kafka_fields(&self) -> [(&'static str, bool); 12] {
        [
            ("offsetReset", self.offset_reset.is_some()),
            ("isolation", self.isolation.is_some()),
            ("topics", self.topics.is_some()),
            ("stuckAfter", self.stuck_after.is_some()),
            ("residualRecords", self.residual_records.is_some()),
            ("allowIdle", self.allow_idle.is_some()),
            ("limitToPartitionsWithLag", self.limit_to_partitions_with_lag.is_some()),
            ("state", self.state.is_some()),
            ("coPartitioned", self.co_partitioned.is_some()),
            ("heartbeat", self.heartbeat.is_some()),
            ("topicPerReplicaPerSecond", self.topic_per_replica_per_second.is_some()),
            ("kedaKafka", self.keda_kafka.is_some()),
        ]
    }
}
