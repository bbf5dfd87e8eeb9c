//! One reading of a Kafka consumer group, by reads of the brokers' administration alone: nothing here joins a group, fetches
//! a record or commits.
//!
//! ```text
//! lag of a partition = end - committed      commits are read first and ends second, so that it can only be overstated, by
//!                                           what arrived between the two, and is never negative by our own doing
//! ```
//!
//! All groups of a cluster are read together ([`KafkaCluster`]): 200 groups take as many calls as one, but that at most 500
//! share a call. Log starts are asked for only where a group has no commit or is behind, stable ends only for those who
//! read committed records, and the offset of the first record younger than the objective only where something waits: that
//! one call tells without fetching a record whether the objective is met.
//!
//! What the account may not see is an error that names the permission; a topic that is gone leaves its commits and is told
//! as deleted; an offset that no broker answered for is absent. `observedAt` is the moment at which the commits were asked
//! for. Source: <https://kafka.apache.org/protocol>.

mod assemble;
mod cluster;
mod groups;
pub mod reader;
mod seen;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

pub use self::cluster::{KafkaCluster, Wishes};
pub use self::groups::{GroupPattern, KafkaGroups};
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use crate::sources::Timing;

/// A group of a cluster.
pub struct KafkaSource {
    cluster: Arc<KafkaCluster>,
    group: String,
    timing: Timing,
    /// Its number among the targets of the cluster.
    target: u64,
}

impl KafkaSource {
    /// One group of a cluster. From here on it is part of each reading of the cluster; one without a name is not.
    #[must_use]
    pub fn new(cluster: Arc<KafkaCluster>, group: String, wishes: Wishes, timing: Timing) -> Self {
        let target = cluster.register(&group, wishes, timing);
        Self { cluster, group, timing, target }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let round = self.cluster.round(self.target, self.timing).await?;
        let missing = || Err(SourceError::new(FailureKind::NotFound, "a group without a name is not read"));
        let snapshot = round.groups.get(&self.group).cloned().unwrap_or_else(missing)?;
        Ok(Reading { snapshot: Snapshot::KafkaGroup(Box::new(snapshot)), calls: 0 })
    }
}

impl Source for KafkaSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }

    fn shared_calls(&self) -> u32 {
        self.cluster.last_calls()
    }

    fn phase(&self) -> Option<&str> {
        Some(self.cluster.name())
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.cluster.withdraw(self.target);
    }
}

/// Time that one reading of a cluster may take, for each second of a call.
const STEPS_TIME: u32 = 3;

/// The time for all calls of one reading.
fn whole(timeout: Duration) -> Duration {
    timeout * STEPS_TIME
}
