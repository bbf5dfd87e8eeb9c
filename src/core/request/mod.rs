//! What is asked: one workload at one moment, with everything that the decision may use.
//!
//! A [`Request`] is complete and checked: the answer is a pure function of it. It comes either from a posted body
//! ([`parse`]) or from the engine, which fills it with the readings that it pulled. [`Request::body`] gives back the
//! posted form, so that any decision can be saved, edited and asked again.

mod check;
mod misfit;
mod parse;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::parse::{Batch, Refusal, parse, parse_batch, parse_value};
pub use super::kind::Kind;
pub use super::kinds::Observed;
use super::kinds::{BacklogSnapshot, DruidSupervisorSnapshot, DruidWorkersSnapshot, FlinkJobSnapshot, KafkaGroupSnapshot, PubsubSubscriptionSnapshot};
use super::memory::Memory;
use super::policy::{Policy, PolicyInput};
pub use super::problem::Problem;
use super::units::{Amount, Count, Timestamp};

/// The scale target's own counts. Absent parts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Replicas {
    /// The wanted count in the specification: what counts as "current".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Count>,
    /// Replicas that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Count>,
    /// Replicas that exist, a surge of a rollout included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Count>,
    /// Replicas that are starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting: Option<Count>,
    /// How long ago the starting ones were asked for, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_since_start: Option<Amount>,
    /// Restarts of the replicas in the last ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts_last10_minutes: Option<Count>,
    /// For how long a rollout has been in progress, in seconds; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_seconds: Option<Amount>,
    /// The newest change of the wanted count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<LastChange>,
}

/// A change of the wanted count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastChange {
    /// When it was made.
    pub at: Timestamp,
    /// The count before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Count>,
    /// The count after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Count>,
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// A short word: `timeout`, `refused`, `status`, `notJson`, `tooLarge`, `redirect`, `unauthorized`, ...
    pub kind: String,
    /// What went wrong, in a sentence. Never the body of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Failures in a row, this one included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
}

/// The readings of one kind: the newest, and earlier ones of the same shape, oldest first.
#[derive(Clone, Debug)]
pub struct Series<S> {
    /// The newest reading; `None` when it failed.
    pub latest: Option<Arc<S>>,
    /// Earlier readings, oldest first.
    pub history: Vec<Arc<S>>,
}

impl<S> Series<S> {
    /// A single reading without history.
    #[must_use]
    pub fn single(latest: S) -> Self {
        Self { latest: Some(Arc::new(latest)), history: Vec::new() }
    }

    /// No reading at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self { latest: None, history: Vec::new() }
    }
}

/// The readings, by kind.
#[derive(Clone, Debug)]
pub enum Readings {
    /// Druid `MiddleManagers` or Indexers.
    DruidWorkers(Series<DruidWorkersSnapshot>),
    /// A Druid streaming supervisor.
    DruidSupervisor(Series<DruidSupervisorSnapshot>),
    /// A Flink job.
    FlinkJob(Series<FlinkJobSnapshot>),
    /// A Kafka consumer group.
    KafkaGroup(Series<KafkaGroupSnapshot>),
    /// A Pub/Sub subscription.
    PubsubSubscription(Series<PubsubSubscriptionSnapshot>),
    /// Any queue.
    Backlog(Series<BacklogSnapshot>),
}

impl Readings {
    /// The kind of these readings.
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

    /// No reading of this kind.
    #[must_use]
    pub const fn empty(kind: Kind) -> Self {
        match kind {
            Kind::DruidWorkers => Self::DruidWorkers(Series::empty()),
            Kind::DruidSupervisor => Self::DruidSupervisor(Series::empty()),
            Kind::FlinkJob => Self::FlinkJob(Series::empty()),
            Kind::KafkaGroup => Self::KafkaGroup(Series::empty()),
            Kind::PubsubSubscription => Self::PubsubSubscription(Series::empty()),
            Kind::Backlog => Self::Backlog(Series::empty()),
        }
    }
}

/// One question, complete and checked.
#[derive(Clone, Debug)]
pub struct Request {
    /// A label, echoed in the answer.
    pub name: Option<String>,
    /// The moment of the decision.
    pub now: Timestamp,
    /// The scale target's counts.
    pub replicas: Replicas,
    /// Why the newest reading is missing, where it is.
    pub failure: Option<Failure>,
    /// What was measured.
    pub readings: Readings,
    /// The policy as it was given.
    pub given: PolicyInput,
    /// The policy in force: given fields over the preset over the kind's defaults.
    pub policy: Policy,
    /// What the previous answer returned.
    pub memory: Option<Memory>,
    /// Why the memory that was sent is not used, where it is not.
    pub memory_ignored: Option<String>,
}

impl Request {
    /// The posted form of this question: what `GET /v1/targets/{name}/request` answers.
    #[must_use]
    pub fn body(&self) -> RequestBody<'_> {
        RequestBody { kind: self.readings.kind(), request: self }
    }
}

/// A [`Request`] that serializes to the body of `POST /v1/advice`.
#[derive(Clone, Copy, Debug)]
pub struct RequestBody<'a> {
    kind: Kind,
    request: &'a Request,
}

impl Serialize for RequestBody<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a, T> {
            kind: Kind,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: &'a Option<String>,
            now: Timestamp,
            replicas: &'a Replicas,
            snapshot: &'a Option<Arc<T>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            failure: &'a Option<Failure>,
            history: &'a [Arc<T>],
            policy: &'a PolicyInput,
            memory: &'a Option<Memory>,
        }
        fn wire<'a, T>(body: &RequestBody<'a>, series: &'a Series<T>) -> Wire<'a, T> {
            let request = body.request;
            Wire {
                kind: body.kind,
                name: &request.name,
                now: request.now,
                replicas: &request.replicas,
                snapshot: &series.latest,
                failure: &request.failure,
                history: &series.history,
                policy: &request.given,
                memory: &request.memory,
            }
        }
        match &self.request.readings {
            Readings::DruidWorkers(series) => wire(self, series).serialize(serializer),
            Readings::DruidSupervisor(series) => wire(self, series).serialize(serializer),
            Readings::FlinkJob(series) => wire(self, series).serialize(serializer),
            Readings::KafkaGroup(series) => wire(self, series).serialize(serializer),
            Readings::PubsubSubscription(series) => wire(self, series).serialize(serializer),
            Readings::Backlog(series) => wire(self, series).serialize(serializer),
        }
    }
}
