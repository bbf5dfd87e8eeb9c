//! What is answered. The field names and their meaning are the contract with callers; see the documentation of the API.
//!
//! Reasons and limits are kept as data ([`Reason`], [`Limit`]) and become sentences when they are serialized, so that
//! a decision that nobody reads costs no text.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::kind::Kind;
use super::memory::Memory;
use super::reasons::{LimitSchema, Reason, ReasonSchema};
use super::units::{Count, Timestamp};

pub use super::reasons::Limit;

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// The kind of workload.
    pub kind: Kind,
    /// The label of the question.
    pub name: Option<String>,
    /// What came out.
    pub outcome: Outcome,
    /// The wanted count now; null when unknown.
    pub current: Option<Count>,
    /// The count to have; null when not even the current one is known.
    pub recommended: Option<Count>,
    /// The wish before all limits, rounded up; null when the demand is unknown.
    pub wanted: Option<Count>,
    /// Which way it goes.
    pub direction: Direction,
    /// What is counted.
    pub unit: Unit,
    /// Is there demand above `activationBacklog`, work in flight or arrivals; null when unknown.
    pub active: Option<bool>,
    /// The bounds of the recommendation.
    pub bounds: Bounds,
    /// Why: the first one decided, the others contributed.
    #[schema(value_type = Vec<ReasonSchema>)]
    pub reasons: Vec<Reason>,
    /// What cut or raised the wish, in order.
    #[schema(value_type = Vec<LimitSchema>)]
    pub limits: Vec<Limit>,
    /// What to do, ready to run.
    pub actions: Vec<Action>,
    /// One entry for each vertex or pool.
    pub parts: Vec<Part>,
    /// What will come of it.
    pub forecast: Forecast,
    /// The numbers behind it, with their age.
    pub inputs: Vec<Input>,
    /// How far the numbers carry.
    pub confidence: Confidence,
    /// What the consumer named in the policy will do; null when none is named.
    pub consumer: Option<ConsumerView>,
    /// The moment of the decision.
    pub evaluated_at: Timestamp,
    /// When the newest reading was measured, on our clock.
    pub observed_at: Option<Timestamp>,
    /// Until when the number may be used.
    pub valid_until: Option<Timestamp>,
    /// To be sent with the next question.
    #[schema(value_type = Object)]
    pub memory: Memory,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// `recommended` differs from `current`, or a part's does.
    Change,
    /// No difference, and none is wanted or can be had.
    Keep,
    /// No difference although something is unknown, will not help, is in hand or has to wait.
    Hold,
    /// Not even the current count is known.
    Unknown,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Change, Self::Keep, Self::Hold, Self::Unknown];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Keep => "keep",
            Self::Hold => "hold",
            Self::Unknown => "unknown",
        }
    }
}

/// Which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// More.
    Up,
    /// Fewer.
    Down,
    /// Some parts more, others fewer.
    Mixed,
    /// As it is.
    None,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Replicas of the scale target.
    Replicas,
    /// Reading tasks of a Druid supervisor, without their copies.
    Tasks,
    /// `TaskManagers`.
    TaskManagers,
    /// Task slots, where the slots of a `TaskManager` are unknown.
    Slots,
}

/// The bounds of the recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// The smallest, scheduled floors included.
    pub min: Count,
    /// The largest.
    pub max: Count,
    /// The most that partitions keep busy; null when there are none or their number is unknown.
    pub partitions: Option<Count>,
}

/// A step to take.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Which one.
    pub action: ActionKind,
    /// The count to set, where one is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Count>,
    /// What to do, in a sentence.
    pub message: String,
    /// The worker it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerRef>,
    /// The API call that does it; null where none does.
    pub request: Option<ApiCall>,
    /// The text for `pipeline.jobvertex-parallelism-overrides`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<String>,
}

/// The vocabulary of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActionKind {
    /// Set the count of the scale target.
    Scale,
    /// Give a worker no new tasks.
    DisableWorker,
    /// Give a draining worker tasks again.
    EnableWorker,
    /// Wait until a worker is empty.
    WaitForDrain,
    /// Set the parallelism of vertices.
    SetParallelism,
    /// Make streaming tasks hand over early.
    HandOff,
    /// Give a topic more partitions.
    Repartition,
    /// Give a process more memory.
    AddMemory,
    /// Change the consumer's configuration.
    TuneConsumer,
    /// Tell those who run the producer.
    AlertProducer,
    /// Look into it: no count helps.
    Investigate,
}

impl ActionKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Scale,
        Self::DisableWorker,
        Self::EnableWorker,
        Self::WaitForDrain,
        Self::SetParallelism,
        Self::HandOff,
        Self::Repartition,
        Self::AddMemory,
        Self::TuneConsumer,
        Self::AlertProducer,
        Self::Investigate,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scale => "scale",
            Self::DisableWorker => "disableWorker",
            Self::EnableWorker => "enableWorker",
            Self::WaitForDrain => "waitForDrain",
            Self::SetParallelism => "setParallelism",
            Self::HandOff => "handOff",
            Self::Repartition => "repartition",
            Self::AddMemory => "addMemory",
            Self::TuneConsumer => "tuneConsumer",
            Self::AlertProducer => "alertProducer",
            Self::Investigate => "investigate",
        }
    }
}

impl Action {
    /// A step without a call.
    #[must_use]
    pub const fn new(action: ActionKind, message: String) -> Self {
        Self { action, to: None, message, worker: None, request: None, overrides: None }
    }
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRef {
    /// Host and port.
    pub host: String,
    /// Its ordinal.
    pub ordinal: Option<Count>,
}

/// A call of another system's API, ready for curl.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiCall {
    /// The method.
    pub method: &'static str,
    /// The path on the source's host.
    pub path: String,
    /// The body.
    #[schema(value_type = Option<Object>)]
    pub body: Option<Value>,
}

/// A vertex or a pool.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The vertex' id or the pool's category.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Parallelism or workers now.
    pub current: Option<Count>,
    /// What to have.
    pub recommended: Option<Count>,
    /// The wish before all limits; null when the demand is unknown.
    pub wanted: Option<Count>,
    /// Why.
    #[schema(value_type = Vec<ReasonSchema>)]
    pub reasons: Vec<Reason>,
    /// What cut or raised the wish, in order.
    #[schema(value_type = Vec<LimitSchema>)]
    pub limits: Vec<Limit>,
    /// Figures of a vertex; absent for a pool.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub vertex: Option<VertexFigures>,
}

/// Figures of a vertex. Unknown and infinite ones are null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VertexFigures {
    /// Target data rate: records per second that it has to process.
    pub target_per_second: Option<f64>,
    /// True processing rate: records per second that it can process when always busy.
    pub capacity_per_second: Option<f64>,
    /// Busy share of the time, 0 to 1.
    pub busy_ratio: Option<f64>,
    /// A capacity below this asks for more.
    pub scale_up_threshold_per_second: Option<f64>,
    /// A capacity above this asks for less.
    pub scale_down_threshold_per_second: Option<f64>,
}

/// What will come of it. `null` seconds alone are unknown; `catchesUp...: false` is "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// Seconds until the backlog is gone at the present count.
    pub catch_up_seconds_now: Option<f64>,
    /// Is it ever gone at the present count.
    pub catches_up_now: Option<bool>,
    /// The same at the recommended count, start-up and pause included.
    pub catch_up_seconds_recommended: Option<f64>,
    /// The same at the recommended count.
    pub catches_up_recommended: Option<bool>,
    /// The same at the largest count that the bounds allow.
    pub catch_up_seconds_at_max: Option<f64>,
    /// The same at the largest count that the bounds allow.
    pub catches_up_at_max: Option<bool>,
    /// Arrival by capacity at the present count, at most 1.
    pub utilization_now: Option<f64>,
    /// Arrival by capacity at the recommended count, at most 1.
    pub utilization_recommended: Option<f64>,
}

/// A number behind the decision.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What it is; the unit is in the name.
    pub name: &'static str,
    /// Its value; null when it is missing.
    pub value: Option<f64>,
    /// Its age in seconds.
    pub age_seconds: Option<f64>,
    /// What it is worth.
    pub state: InputState,
}

/// What an input is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputState {
    /// Measured, and new enough.
    Fresh,
    /// Measured, too old.
    Stale,
    /// Not there.
    Missing,
    /// It contradicts another, or itself.
    Contradictory,
    /// Configured, or taken for granted.
    Assumed,
}

/// How far the numbers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Confidence {
    /// More than one estimate, declared value or lower bound.
    Low,
    /// One of them.
    Medium,
    /// All inputs fresh, and the capacity measured.
    High,
}

/// What the consumer will make of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerView {
    /// The count that it will hold.
    pub will_hold: Count,
    /// Is that the recommended one.
    pub reachable: bool,
}
