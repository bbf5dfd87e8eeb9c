//! One reading of a consumer group and of the topics that it reads.
//!
//! Offsets are 64-bit whole numbers. A commit is the *next* offset to read, so a group that has read everything has
//! committed the end. Source: Kafka's admin protocol (`OffsetFetch`, `ListOffsets`, `DescribeGroups`,
//! `ConsumerGroupDescribe`, `DescribeShareGroupOffsets`), commits read before ends.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::kinds::observed;
use crate::core::units::{Amount, Count, Timestamp};

/// A consumer group and its topics. Absent is unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KafkaGroupSnapshot {
    /// When it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// When it arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_at: Option<Timestamp>,
    /// The sender's clock minus ours, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_clock_offset_seconds: Option<f64>,
    /// The ready count then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
    /// The group's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which protocol the group speaks; `classic` if absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub group_type: Option<GroupType>,
    /// Its state as Kafka names it: `Stable`, `Empty`, `Dead`, `PreparingRebalance`, `CompletingRebalance`, `Assigning`,
    /// `Reconciling`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Members of the group: consumers, not pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Count>,
    /// The assignor in use: `range`, `roundrobin`, `sticky`, `cooperative-sticky`, `uniform`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignor: Option<String>,
    /// The topics that the group has commits for or is assigned to; absent when none could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<KafkaTopic>>,
    /// Records that wait in all, for a caller who does not know them by partition. Negative contradicts itself and is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lag: Option<i64>,
    /// Age of the oldest record that has not been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<Amount>,
    /// Records that arrive per second in all topics together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_per_second: Option<Amount>,
    /// Records that the group reads per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processed_per_second: Option<Amount>,
    /// Busy share of the consumers, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<Amount>,
    /// Stream tasks of a Kafka Streams application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Count>,
    /// Source partitions of each sub-topology, from which stream tasks follow where `tasks` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtopologies: Option<Vec<Subtopology>>,
    /// Rebalances of the group in the last ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalances_last10_minutes: Option<Count>,
    /// Seconds between two commits of a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_interval_seconds: Option<Amount>,
    /// Seconds after which a silent member is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_timeout_seconds: Option<Amount>,
    /// True when the members have a `group.instance.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_members: Option<bool>,
    /// For how long the group has had no members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_seconds: Option<Amount>,
    /// For how long the broker keeps the commits of a group without members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets_retention_seconds: Option<Amount>,
    /// Seconds from the production of a record to its receipt by a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_delay_seconds: Option<Amount>,
    /// Seconds from the receipt of a record to the end of its processing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_seconds: Option<Amount>,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

observed!(KafkaGroupSnapshot, missing);

/// Protocols of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum GroupType {
    /// Members assign partitions among themselves.
    #[default]
    Classic,
    /// The broker assigns them (KIP-848).
    Consumer,
    /// Records are acknowledged one by one, and partitions are no bound (KIP-932).
    Share,
    /// Kafka Streams: tasks are assigned.
    Streams,
}

/// A topic as the group reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaTopic {
    /// Its name.
    pub name: String,
    /// Its id: a topic that is created anew has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// For how long records are kept; absent when there is no limit or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_seconds: Option<Amount>,
    /// Does a member read it; absent when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribed: Option<bool>,
    /// True when the topic no longer exists and only commits are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    /// Its `cleanup.policy`: `delete`, `compact` or `compact,delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<String>,
    /// Share of the offsets that still hold a record, 0 to 1, as sampled: compaction leaves gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_offset: Option<Amount>,
    /// How many partitions it has, where they are not all listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_count: Option<Count>,
    /// Its partitions; absent when none could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<KafkaPartition>>,
}

/// A partition as the group reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaPartition {
    /// Its number.
    pub partition: Count,
    /// The next offset to read; null when nothing is committed. Of a share group its start offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<Count>,
    /// The first offset that is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_start: Option<Count>,
    /// The end: the high watermark. Absent when it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_end: Option<Count>,
    /// The end for those who read committed records only: below `logEnd` while a transaction is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stable: Option<Count>,
    /// Records that wait, for a caller who has no offsets. Negative contradicts itself and is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,
    /// Records of a share group beyond its start offset that are already done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_after_start: Option<Count>,
    /// The member that it is assigned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// For how long nothing has been committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_age_seconds: Option<Amount>,
    /// For how long the committed offset has been the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_unchanged_seconds: Option<Amount>,
    /// For how long the end has been the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_unchanged_seconds: Option<Amount>,
    /// Age of the newest record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_record_age_seconds: Option<Amount>,
    /// The first offsets that are younger than some age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets_by_age: Vec<OffsetByAge>,
    /// Records that arrive per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_per_second: Option<Amount>,
    /// Records that are read per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processed_per_second: Option<Amount>,
}

/// The offset of the first record that is at most so old. A commit below it means a lag of more than that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OffsetByAge {
    /// The age.
    pub age_seconds: Amount,
    /// The first offset of at most that age; null when there is no record so young.
    #[serde(default)]
    pub offset: Option<Count>,
}

/// A part of a Kafka Streams topology that runs by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subtopology {
    /// Partitions of each of its source topics.
    pub source_partitions: Vec<Count>,
}

impl KafkaTopic {
    /// The partitions that were read.
    #[must_use]
    pub fn listed(&self) -> &[KafkaPartition] {
        self.partitions.as_deref().unwrap_or_default()
    }

    /// One of its partitions; they stand in order more often than not.
    #[must_use]
    pub fn partition(&self, number: Count) -> Option<&KafkaPartition> {
        let listed = self.listed();
        let at_its_place = usize::try_from(number).ok().and_then(|place| listed.get(place)).filter(|partition| partition.partition == number);
        at_its_place.or_else(|| listed.iter().find(|partition| partition.partition == number))
    }

    /// How many partitions it has, as far as is known.
    #[must_use]
    pub fn count(&self) -> Option<Count> {
        let listed = self.partitions.as_ref().map(|partitions| partitions.len() as Count);
        self.partition_count.into_iter().chain(listed).max()
    }

    /// True when only the newest record of each key is kept, so that the log start moves without loss.
    #[must_use]
    pub fn is_compacted_only(&self) -> bool {
        self.cleanup_policy.as_deref().is_some_and(|policy| policy.trim() == "compact")
    }
}

/// What a group is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It works.
    Stable,
    /// It has no members; its commits remain.
    Empty,
    /// The broker does not know it.
    Dead,
    /// Partitions are being assigned anew.
    Rebalancing,
    /// A state that this release does not know.
    Other,
}

impl KafkaGroupSnapshot {
    /// What kind of group it is.
    #[must_use]
    pub fn kind(&self) -> GroupType {
        self.group_type.unwrap_or_default()
    }

    /// What it is doing, where that is known. Names are read in any case, with or without separators.
    #[must_use]
    pub fn doing(&self) -> Option<GroupState> {
        let name: String = self.state.as_deref()?.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase()).collect();
        Some(match name.as_str() {
            "stable" => GroupState::Stable,
            "empty" => GroupState::Empty,
            "dead" => GroupState::Dead,
            "preparingrebalance" | "completingrebalance" | "assigning" | "reconciling" => GroupState::Rebalancing,
            "" | "unknown" => return None,
            _ => GroupState::Other,
        })
    }

    /// Stream tasks: as told, else for each sub-topology as many as its largest source has partitions.
    #[must_use]
    pub fn stream_tasks(&self) -> Option<Count> {
        let of_topology = |parts: &Vec<Subtopology>| parts.iter().filter_map(|part| part.source_partitions.iter().max()).sum();
        self.tasks.or_else(|| self.subtopologies.as_ref().map(of_topology)).filter(|tasks| *tasks > 0)
    }
}
