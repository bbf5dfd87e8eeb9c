//! What the engine asks of a source: one reading at a time. Sources implement these traits; the engine knows no system.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::core::advice::Advice;
use crate::core::kinds::{BacklogSnapshot, DruidSupervisorSnapshot, DruidWorkersSnapshot, FlinkJobSnapshot, KafkaGroupSnapshot, PubsubSubscriptionSnapshot};
use crate::core::request::{Failure, Kind, Replicas};

/// A future that the engine can keep in a table.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Snapshot {
    /// Druid `MiddleManagers` or Indexers.
    DruidWorkers(DruidWorkersSnapshot),
    /// A Druid streaming supervisor.
    DruidSupervisor(Box<DruidSupervisorSnapshot>),
    /// A Flink job.
    FlinkJob(FlinkJobSnapshot),
    /// A Kafka consumer group.
    KafkaGroup(Box<KafkaGroupSnapshot>),
    /// A Pub/Sub subscription.
    PubsubSubscription(Box<PubsubSubscriptionSnapshot>),
    /// Any queue.
    Backlog(BacklogSnapshot),
}

impl Snapshot {
    /// The kind of workload it describes.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::DruidWorkers(_) => Kind::DruidWorkers,
            Self::DruidSupervisor(_) => Kind::DruidSupervisor,
            Self::FlinkJob(_) => Kind::FlinkJob,
            Self::KafkaGroup(_) => Kind::KafkaGroup,
            Self::PubsubSubscription(_) => Kind::PubsubSubscription,
            Self::Backlog(_) => Kind::Backlog,
        }
    }
}

/// What a source gives when it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What was measured, with `observedAt` and `receivedAt` set.
    pub snapshot: Snapshot,
    /// HTTP calls that it took.
    pub calls: u32,
}

/// A system that can be asked for readings.
pub trait Source: Send + Sync + 'static {
    /// Takes one reading: all the calls it needs, put together. All or nothing: a reading that could not be completed
    /// is an error. The engine bounds the time of the whole.
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>>;

    /// Calls that the last reading shares with other targets; they are in none of their own counts.
    fn shared_calls(&self) -> u32 {
        0
    }

    /// The name of what it shares with other targets, where it does: those are read at the same time.
    fn phase(&self) -> Option<&str> {
        None
    }

    /// Where targets can be promised the same thing (free slots of a cluster): the turn of this one. It lasts until it is
    /// dropped, and meanwhile no other has its turn.
    fn turn(&self) -> Option<Box<dyn Turn + '_>> {
        None
    }
}

/// The decision on a target that shares something with others.
pub trait Turn {
    /// Puts into the reading what the others leave.
    fn offer(&mut self, snapshot: &mut Snapshot);

    /// Notes what the advice takes of it. Called for each decision, also for one without a reading.
    fn took(&mut self, advice: &Advice);
}

/// Something that an entry of the configuration stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id: another one of the same name has another id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// Finds what an entry of the configuration stands for.
pub trait Discovery: Send + Sync + 'static {
    /// All that there is now, the oldest first.
    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, SourceError>>;

    /// Whether the entry stands for something of this name at all.
    fn stands_for(&self, name: &str) -> bool;

    /// Where the readings of one of them come from.
    fn source(&self, found: &Found) -> Arc<dyn Source>;

    /// As [`Source::phase`].
    fn phase(&self) -> Option<&str> {
        None
    }
}

/// Where the counts of the scale target come from.
pub trait ReplicaSource: Send + Sync + 'static {
    /// Reads them.
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>>;
}

/// Why a reading failed. Never carries a credential or the body of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct SourceError {
    /// A short stable word.
    pub kind: FailureKind,
    /// What went wrong, lower case, naming the thing and what was expected.
    pub message: String,
    /// What the server asked for in `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl SourceError {
    /// An error without a wish for a later try.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// The same, naming the path that was asked for, where there is one.
    #[must_use]
    pub fn at(self, path: &str) -> Self {
        if path.is_empty() { self } else { Self { message: format!("{} ({path})", self.message), ..self } }
    }

    /// As the core wants to hear it.
    #[must_use]
    pub fn failure(&self, consecutive: u32) -> Failure {
        Failure { kind: self.kind.name().to_owned(), message: Some(self.message.clone()), consecutive: Some(consecutive) }
    }
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No answer in time.
    Timeout,
    /// No connection: refused, reset, no such host.
    Unreachable,
    /// The certificate or the handshake was refused.
    Tls,
    /// An HTTP status that is no success.
    Status,
    /// 401 or 403.
    Unauthorized,
    /// A redirect that is not followed: a loop, too many, another host, plain text after TLS.
    Redirect,
    /// A larger answer than allowed.
    TooLarge,
    /// An answer that is not JSON.
    NotJson,
    /// JSON of another shape than documented.
    Unexpected,
    /// The thing asked about is not there (a job, a scale target).
    NotFound,
    /// The source cannot answer this question at all (a task runner without workers).
    Unsupported,
}

impl FailureKind {
    /// The word on the wire and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Status => "status",
            Self::Unauthorized => "unauthorized",
            Self::Redirect => "redirect",
            Self::TooLarge => "tooLarge",
            Self::NotJson => "notJson",
            Self::Unexpected => "unexpected",
            Self::NotFound => "notFound",
            Self::Unsupported => "unsupported",
        }
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
