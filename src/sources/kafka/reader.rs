//! What is asked of a Kafka cluster: reads of its administration alone. Nothing here can join a group, fetch a record or
//! commit an offset, so no implementation is ever asked to.
//!
//! Each question is for many groups or partitions at once. An answer tells of each of them by itself what was found or why
//! it was refused, so that one topic without permission does not take the others' readings away; what fails as a whole (no
//! connection, a refused login) is an error.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::kinds::kafka::GroupType;
use crate::core::units::Count;
use crate::engine::source::{BoxFuture, SourceError};

/// Answers by what was asked about.
pub type Each<K, T> = BTreeMap<K, Result<T, Refusal>>;

/// A future of an answer.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, SourceError>>;

/// A Kafka cluster that can be asked.
pub trait KafkaReader: Send + Sync + 'static {
    /// All groups that the account may see, on all brokers.
    fn list(&self) -> Answer<'_, Vec<Listed>>;

    /// The members of groups, each asked in the way of its type.
    fn describe<'a>(&'a self, groups: &'a [(String, GroupType)]) -> Answer<'a, Each<String, Described>>;

    /// What groups have committed, in all partitions that they have ever committed in.
    fn committed<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, Committed>>;

    /// Where share groups are.
    fn share_offsets<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, ShareOffsets>>;

    /// Topics and their partitions, as they are now.
    fn topics<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, Each<String, Topic>>;

    /// Offsets of partitions. `None`: there is no record that fits.
    fn offsets<'a>(&'a self, partitions: &'a BTreeSet<Partition>, at: At) -> Answer<'a, Each<Partition, Option<Count>>>;

    /// How topics keep their records.
    fn keeping<'a>(&'a self, topics: &'a BTreeSet<String>) -> Answer<'a, Each<String, Keeping>>;

    /// Calls so far: requests that were sent to brokers, logins and lookups included.
    fn calls(&self) -> u64;
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub group: String,
    /// Its type; `None` where the broker does not tell (before 3.8).
    pub group_type: Option<GroupType>,
    /// Its state; `None` where the broker does not tell.
    pub state: Option<String>,
    /// `consumer` for consumers of a classic group; `connect` and others are no consumers of topics.
    pub protocol: String,
}

/// A group as it is described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its state.
    pub state: String,
    /// The assignor in use.
    pub assignor: Option<String>,
    /// A number that grows with each rebalance, where the group has one (KIP-848).
    pub epoch: Option<i32>,
    /// Its members; `None` where they cannot be read.
    pub members: Option<Vec<Member>>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// True when it has a `group.instance.id`.
    pub is_static: bool,
    /// Topics that it named; `None` where a pattern or something else than a list of names tells which it wants.
    pub subscribed: Option<Vec<String>>,
    /// Partitions that it has; `None` where that cannot be read.
    pub assigned: Option<Vec<Partition>>,
    /// False while it has other partitions than it is to have.
    pub settled: bool,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// The topic's name.
    pub topic: String,
    /// Its number.
    pub number: i32,
}

impl Partition {
    /// A partition.
    #[must_use]
    pub fn new(topic: impl Into<String>, number: i32) -> Self {
        Self { topic: topic.into(), number }
    }
}

/// What a group has committed; partitions without a commit are absent.
pub type Committed = BTreeMap<Partition, Count>;

/// Where a share group is; partitions that it has not begun are absent.
pub type ShareOffsets = BTreeMap<Partition, ShareOffset>;

/// Where a share group is in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareOffset {
    /// The first offset that may still be delivered.
    pub start: Count,
    /// Records that wait, without those beyond the start that are done; `None` where the broker does not tell.
    pub lag: Option<Count>,
}

/// A topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topic {
    /// Its id, 32 hex digits; `None` where the broker does not tell.
    pub id: Option<String>,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// How a topic keeps its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keeping {
    /// For how long, in seconds; `None`: without limit.
    pub retention_seconds: Option<f64>,
    /// Its `cleanup.policy`.
    pub cleanup_policy: Option<String>,
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The first that is still there.
    Start,
    /// The end: the high watermark.
    End,
    /// The last stable offset, which is the end for those who read committed records only.
    LastStable,
    /// The first record of this time or later, milliseconds since 1970.
    Time(i64),
}

/// Why one group, topic or partition has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The account may not see it.
    NotAllowed,
    /// It is not there.
    NotFound,
    /// The broker lacks the call.
    Unsupported,
    /// Another error, by its number in the protocol.
    Code(i16),
    /// The broker that knows was not reached.
    Unreached(SourceError),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAllowed => f.write_str("not allowed"),
            Self::NotFound => f.write_str("not found"),
            Self::Unsupported => f.write_str("not supported by the broker"),
            Self::Code(code) => match kafka_protocol::ResponseError::try_from_code(*code) {
                Some(error) => write!(f, "the broker answers {error}"),
                None => f.write_str("no answer"),
            },
            Self::Unreached(error) => write!(f, "{error}"),
        }
    }
}
