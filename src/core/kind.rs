//! The kinds of workload by name.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kinds of workload that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Druid `MiddleManagers` or Indexers: task slots against pending tasks.
    DruidWorkers,
    /// A Druid streaming supervisor: its reading tasks against what arrives.
    DruidSupervisor,
    /// A Flink streaming job: true processing rates through the job graph.
    FlinkJob,
    /// A Kafka consumer group: its consumers against what arrives and waits.
    KafkaGroup,
    /// A Pub/Sub subscription: its subscribers against what is published and waits.
    PubsubSubscription,
    /// Any queue with a backlog.
    Backlog,
}

impl Kind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::DruidWorkers, Self::DruidSupervisor, Self::FlinkJob, Self::KafkaGroup, Self::PubsubSubscription, Self::Backlog];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DruidWorkers => "druidWorkers",
            Self::DruidSupervisor => "druidSupervisor",
            Self::FlinkJob => "flinkJob",
            Self::KafkaGroup => "kafkaGroup",
            Self::PubsubSubscription => "pubsubSubscription",
            Self::Backlog => "backlog",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
