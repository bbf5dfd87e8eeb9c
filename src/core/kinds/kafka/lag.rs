//! What a group can still read, partition by partition.
//!
//! ```text
//! lag  = end - committed                  end: the high watermark, or the last stable offset for committed readers
//! lag  = end - log start                  nothing committed and reset to earliest, or retention has passed the commit
//! lag  = end - start - completed          of a share group
//! lost = log start - committed            what retention deleted before it was read
//! ```
//!
//! Why not `end - committed` alone, summed: without a commit it counts what was deleted years ago, a commit beyond the
//! end takes from what others have, and a topic that nobody reads any more holds the maximum for ever. What cannot be
//! known is left out and named: a partition whose end could not be read is missing and never zero, one without a commit
//! whose consumers begin at the end has nothing waiting *as far as is known*. Lags are records; in a compacted topic
//! offsets are more than records, so they are an upper bound there.

use super::{GroupType, KafkaGroupSnapshot, KafkaPartition, KafkaTopic};
use crate::core::policy::{Isolation, KafkaPolicy, OffsetReset};
use crate::core::units::{Count, Known, as_f64};

/// Commits of a group without members that are older than this no longer tell what it reads.
const FORGOTTEN_SECONDS: f64 = 7.0 * 86_400.0;

/// Why the lag of a partition is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// From the commit, or as told.
    Plain,
    /// Nothing is committed.
    NoCommit,
    /// Retention has passed the commit.
    Overtaken,
    /// The commit lies beyond the end.
    BeyondEnd,
}

/// A partition and what waits on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part<'a> {
    /// Its topic.
    pub topic: &'a KafkaTopic,
    /// What was read of it.
    pub reading: &'a KafkaPartition,
    /// Records that wait; `None` where nothing can be said.
    pub lag: Option<f64>,
    /// Offsets behind the end, gaps of compaction included.
    pub offsets: Option<f64>,
    /// False where `lag` is only what is known to wait, and more may.
    pub is_known: bool,
    /// Records that were deleted, or will be skipped, without having been read.
    pub lost: f64,
    /// Records that may wait as well.
    pub possible: f64,
    /// How it was worked out.
    pub basis: Basis,
    /// Records behind an open transaction, which committed readers cannot have yet.
    pub behind_transaction: f64,
}

impl Part<'_> {
    /// Topic and number, for sentences.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.topic.name, self.reading.partition)
    }
}

/// Why a topic is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// No member reads it.
    NotSubscribed,
    /// It no longer exists.
    Deleted,
    /// The policy names others.
    NotWanted,
}

/// The lag of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lag<'a> {
    /// The partitions that count.
    pub parts: Vec<Part<'a>>,
    /// Topics that count.
    pub topics: Vec<&'a KafkaTopic>,
    /// Topics that do not, and why.
    pub left_out: Vec<(&'a KafkaTopic, LeftOut)>,
    /// As the caller sums it, where partitions do not tell it.
    pub told: Option<f64>,
    /// Names of what could not be read.
    pub missing: Vec<String>,
}

impl<'a> Lag<'a> {
    /// The lag of a reading. The error says how it contradicts itself.
    pub fn of(reading: &'a KafkaGroupSnapshot, policy: &KafkaPolicy) -> Result<Self, String> {
        let mut lag = Self::default();
        if let Some(total) = reading.total_lag {
            if total < 0 {
                return Err(format!("totalLag is {total}, and no lag is negative"));
            }
            lag.told = Some(as_f64(total.unsigned_abs()));
        }
        let mut negative = Vec::new();
        for topic in reading.topics.iter().flatten() {
            if let Some(why) = left_out(topic, reading, policy) {
                lag.left_out.push((topic, why));
                continue;
            }
            lag.topics.push(topic);
            for partition in topic.listed() {
                match part(topic, partition, reading.kind(), policy) {
                    Ok(part) => {
                        if let Some(what) = missing(&part, policy) {
                            lag.missing.push(format!("{what} of partition {}", part.name()));
                        }
                        lag.parts.push(part);
                    }
                    Err(value) => negative.push(format!("partition {} {} is {value} behind", topic.name, partition.partition)),
                }
            }
            let listed = topic.listed().len() as Count;
            if let Some(count) = topic.partition_count.filter(|count| *count > listed && listed > 0) {
                lag.missing.push(format!("{} of {count} partitions of {}", count - listed, topic.name));
            }
            if listed == 0 && lag.told.is_none() && topic.partition_count.is_none() {
                lag.missing.push(format!("the partitions of {}", topic.name));
            }
        }
        for name in policy.topics.iter().filter(|name| !reading.topics.iter().flatten().any(|topic| topic.name == **name)) {
            if reading.topics.is_some() && lag.told.is_none() {
                lag.missing.push(format!("topic {name}"));
            }
        }
        if lag.parts.is_empty() && lag.told.is_none() && lag.missing.is_empty() && lag.left_out.is_empty() {
            lag.missing.push("the lag of any partition, and totalLag".to_owned());
        }
        if negative.is_empty() { Ok(lag) } else { Err(format!("{}, and no lag is negative", negative.join(", "))) }
    }

    /// Records that are known to wait; `None` when nothing is known.
    #[must_use]
    pub fn records(&self) -> Option<f64> {
        let known = self.parts.iter().any(|part| part.lag.is_some());
        if known {
            return Some(self.parts.iter().filter_map(|part| part.lag).sum());
        }
        // every topic was left out, so that nothing is left to wait
        self.told.or_else(|| (self.parts.is_empty() && self.missing.is_empty() && !self.left_out.is_empty()).then_some(0.0))
    }

    /// True where offsets stand for records: compaction has left gaps of an unknown size.
    #[must_use]
    pub fn is_upper_bound(&self) -> bool {
        self.topics.iter().any(|topic| topic.records_per_offset.is_none() && topic.cleanup_policy.as_deref().is_some_and(|policy| policy.contains("compact")))
    }

    /// True where offsets are more than records, whether or not it is known by how much.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        self.topics.iter().any(|topic| topic.cleanup_policy.as_deref().is_some_and(|policy| policy.contains("compact")))
    }

    /// Partitions without a commit.
    pub fn uncommitted(&self) -> impl Iterator<Item = &Part<'a>> {
        self.parts.iter().filter(|part| part.basis == Basis::NoCommit)
    }

    /// Partitions with more than `residual` records.
    #[must_use]
    pub fn lagging(&self, residual: f64) -> Count {
        self.parts.iter().filter(|part| part.lag.is_some_and(|lag| lag > residual)).count() as Count
    }

    /// The lag of each partition, where all are known.
    pub fn known(&self) -> impl Iterator<Item = (&Part<'a>, f64)> {
        self.parts.iter().filter_map(|part| Some((part, part.lag?)))
    }
}

fn left_out(topic: &KafkaTopic, reading: &KafkaGroupSnapshot, policy: &KafkaPolicy) -> Option<LeftOut> {
    if !policy.topics.is_empty() && !policy.topics.contains(&topic.name) {
        return Some(LeftOut::NotWanted);
    }
    if topic.deleted == Some(true) {
        return Some(LeftOut::Deleted);
    }
    let is_empty = reading.members == Some(0);
    if let Some(subscribed) = topic.subscribed {
        // without members nobody subscribes to anything, and what the group read last is still its work
        return (!subscribed && !is_empty).then_some(LeftOut::NotSubscribed);
    }
    let assigned = |topic: &KafkaTopic| topic.listed().iter().any(|partition| partition.member.is_some());
    if reading.topics.iter().flatten().any(assigned) {
        return (!assigned(topic)).then_some(LeftOut::NotSubscribed);
    }
    let youngest = topic.listed().iter().filter_map(|partition| partition.commit_age_seconds.known()).reduce(f64::min);
    let limit = reading.offsets_retention_seconds.known().unwrap_or(FORGOTTEN_SECONDS);
    (is_empty && youngest.is_some_and(|age| age > limit)).then_some(LeftOut::NotSubscribed)
}

/// What could not be read of a partition.
fn missing(part: &Part<'_>, policy: &KafkaPolicy) -> Option<&'static str> {
    if part.lag.is_some() || (part.basis == Basis::NoCommit && policy.offset_reset == OffsetReset::None) {
        return None;
    }
    Some(match part.reading.log_end {
        None => "the end offset",
        Some(_) if part.reading.log_start.is_none() && part.basis == Basis::NoCommit => "the log start",
        Some(_) => "the lag",
    })
}

/// What waits on a partition; the error is a negative lag.
fn part<'a>(topic: &'a KafkaTopic, reading: &'a KafkaPartition, kind: GroupType, policy: &KafkaPolicy) -> Result<Part<'a>, i64> {
    let mut part = Part { topic, reading, lag: None, offsets: None, is_known: true, lost: 0.0, possible: 0.0, basis: Basis::Plain, behind_transaction: 0.0 };
    if let Some(lag) = reading.lag.filter(|_| reading.committed.is_none() || reading.log_end.is_none() || kind == GroupType::Share) {
        if lag < 0 {
            return Err(lag);
        }
        set(&mut part, lag.unsigned_abs());
        return Ok(part);
    }
    let Some(log_end) = reading.log_end else { return Ok(part) };
    let stable = reading.last_stable.filter(|_| policy.isolation == Isolation::ReadCommitted).map_or(log_end, |stable| stable.min(log_end));
    part.behind_transaction = as_f64(log_end - stable);
    let start = reading.log_start;
    match reading.committed {
        None => {
            part.basis = Basis::NoCommit;
            let whole = start.map(|start| stable.saturating_sub(start));
            match policy.offset_reset {
                OffsetReset::Earliest => {
                    if let Some(whole) = whole {
                        set(&mut part, whole);
                    }
                }
                OffsetReset::Latest | OffsetReset::Unknown => {
                    set(&mut part, 0);
                    part.is_known = false;
                    part.possible = as_f64(whole.unwrap_or(stable));
                }
                OffsetReset::None => part.is_known = false,
            }
        }
        Some(committed) if committed > log_end => {
            part.basis = Basis::BeyondEnd;
            part.is_known = false;
            set(&mut part, 0);
        }
        Some(committed) if kind == GroupType::Share => {
            if let Some(completed) = reading.completed_after_start {
                set(&mut part, stable.saturating_sub(committed).saturating_sub(completed));
            }
        }
        Some(committed) => match start.filter(|start| committed < *start) {
            Some(start) if policy.offset_reset == OffsetReset::Latest => {
                set(&mut part, 0);
                part.basis = Basis::Overtaken;
                // what is still there is skipped as well
                part.lost = as_f64(stable.max(start) - committed);
            }
            Some(start) => {
                set(&mut part, stable.saturating_sub(start));
                part.basis = Basis::Overtaken;
                part.lost = as_f64(start - committed);
            }
            None => set(&mut part, stable.saturating_sub(committed)),
        },
    }
    // where only the newest record of each key is kept the log start moves without a loss
    if topic.is_compacted_only() {
        part.lost = 0.0;
    }
    Ok(part)
}

fn set(part: &mut Part<'_>, offsets: Count) {
    let offsets = as_f64(offsets);
    part.offsets = Some(offsets);
    part.lag = Some(part.topic.records_per_offset.known().map_or(offsets, |share| offsets * share.min(1.0)));
}
