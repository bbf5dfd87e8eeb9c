//! The words of the policy: the small objects and named choices that its fields are made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::units::{Count, Duration};

/// Named sets of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub enum Preset {
    /// The decisions of MIDAS, `PlaySimple`'s autoscaler of Druid `MiddleManagers`.
    #[serde(rename = "midas")]
    Midas,
    /// The decisions of Apache Flink's own autoscaler (FLIP-271).
    #[serde(rename = "flink-autoscaler")]
    FlinkAutoscaler,
    /// The decisions of Druid's `lagBased` autoscaler of supervisors.
    #[serde(rename = "druid-lag-based")]
    DruidLagBased,
    /// The arithmetic of KEDA's Kafka scaler.
    #[serde(rename = "keda-kafka")]
    KedaKafka,
    /// The arithmetic of KEDA's Pub/Sub scaler.
    #[serde(rename = "keda-gcp-pubsub")]
    KedaGcpPubsub,
}

/// A scheduled lower bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FloorInput {
    /// When: `"07:00-09:00"`, with days in front if not every day: `"Mon-Fri 07:00-09:00"`, `"Sat,Sun 10:00-18:00"`.
    pub period: String,
    /// An IANA time zone (default: that of the policy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The lower bound in that time.
    pub min: Count,
}

/// What to do when the demand is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OnUnknownInput {
    /// The count to fall back to; without it the present count is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Count>,
    /// Failures in a row before the fallback (default 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_failures: Option<u32>,
    /// How the fallback meets the present count (default `currentReplicasIfHigher`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<FallbackBehavior>,
    /// After so long without a reading a hold ends: the fallback, else no number at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_at_most: Option<Duration>,
}

/// How a fallback meets the present count, in KEDA's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FallbackBehavior {
    /// The fallback, whatever runs.
    Static,
    /// What runs.
    CurrentReplicas,
    /// What runs, or the fallback if that is higher.
    #[default]
    CurrentReplicasIfHigher,
    /// What runs, or the fallback if that is lower.
    CurrentReplicasIfLower,
}

/// Who stabilizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Damping {
    /// Stabilization windows apply here.
    Advisor,
    /// The HPA behind stabilizes; no windows here.
    Consumer,
}

/// Limits of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DirectionInput {
    /// A change must have been wanted for so long: the most moderate wish of this window counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization: Option<Duration>,
    /// Time after the last change before the next in this direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,
    /// Largest change in one decision, in units of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_step: Option<Count>,
    /// Largest share of the present count added (1 = doubling) or removed (0.6 keeps 40 %) in one decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_factor: Option<f64>,
}

/// Raise ahead of expected demand, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LookAhead {
    /// When the profile in `memory` is good enough.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What stands behind the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsumerInput {
    /// What it is.
    pub kind: ConsumerKind,
    /// Sets both tolerances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// Raises by at most this share are ignored (default 0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_up: Option<f64>,
    /// Cuts by at most this share are ignored (default 0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_down: Option<f64>,
    /// Its own lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Count>,
    /// Its own upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Count>,
    /// Raise the recommendation to the next count that it will take (default false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_to_reachable: Option<bool>,
}

/// Kinds of consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConsumerKind {
    /// A `HorizontalPodAutoscaler`, KEDA's included: `AverageValue` with target 1.
    Hpa,
}

/// Lower and upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolInput {
    /// Smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Count>,
    /// Largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Count>,
}

/// How workers are drained before they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Drain {
    /// The advice carries the calls; nothing is lowered before a worker is disabled and empty.
    #[default]
    Advise,
    /// Loadline itself disables and enables workers; the number is decided as with `advise`.
    Perform,
    /// Pods drain themselves in a preStop hook: lowered at once when what runs there fits elsewhere.
    PreStop,
}

/// Thresholds of the preset `druid-lag-based`, in the words of Druid's `autoScalerConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LagBasedInput {
    /// A lag of at least this, in the unit of the lag, speaks for more tasks (default 6000000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_out_threshold: Option<f64>,
    /// A lag of at most this speaks for fewer tasks (default 1000000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_threshold: Option<f64>,
    /// Share of the window's readings that must speak for more tasks (default 0.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_scale_out_fraction_threshold: Option<f64>,
    /// Share of the window's readings that must speak for fewer tasks (default 0.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_scale_in_fraction_threshold: Option<f64>,
    /// Tasks added at a time (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_out_step: Option<Count>,
    /// Tasks removed at a time (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_step: Option<Count>,
    /// How the lags of partitions are combined (default: `sum` of records, `max` of times).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_aggregate: Option<LagAggregate>,
    /// Raise to the next divisor of the number of partitions (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_nearest_factor_scaling: Option<bool>,
}

/// How the lags of partitions are combined. Lags in time are never summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LagAggregate {
    /// All together.
    Sum,
    /// The largest.
    Max,
    /// The mean.
    Average,
}

/// Who carries out what is advised for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Apply {
    /// Whoever reads the advice.
    #[default]
    Advise,
    /// Loadline itself, in pull mode: it sets the parallelism of jobs under the adaptive scheduler.
    Perform,
}

/// How a pool of Druid workers is sized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sizing {
    /// Task slots against what runs, waits, drains and starts.
    #[default]
    Slots,
    /// MIDAS's rule with its faults, for comparison: never let it scale anything that runs tasks.
    Midas,
}

/// Which subtask stands for a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Aggregator {
    /// The busiest.
    #[default]
    Max,
    /// The mean.
    Avg,
    /// The least busy.
    Min,
}

/// How parallelism fits partitions and key groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Alignment {
    /// The smallest parallelism whose busiest subtask holds no more than at the wish.
    #[default]
    SamePeak,
    /// Flink's `BALANCED`.
    Balanced,
    /// Flink's `EVENLY_SPREAD`.
    EvenlySpread,
    /// Flink's earlier `EVENLY_SPREAD`.
    LegacyEvenlySpread,
    /// Flink's earlier `MAXIMIZE_UTILISATION`.
    LegacyMaximizeUtilisation,
    /// The wish as it is.
    Off,
}

/// From which memory pressure on parallelism does not help.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryPressureInput {
    /// Share of the time in garbage collection (default 0.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_time_ratio: Option<f64>,
    /// Share of the heap in use (default: not looked at).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_used_ratio: Option<f64>,
}

/// What a job may use in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct QuotaInput {
    /// Task slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<Count>,
    /// CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Count>,
    /// What a change that needs more comes to (default `cut`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<QuotaExceeded>,
}

/// What a change beyond the quota comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QuotaExceeded {
    /// Raises are cut, all by the same share, until the job fits.
    #[default]
    Cut,
    /// Nothing is changed. Counted as Flink's autoscaler counts: of the vertices that change alone, in whole
    /// `TaskManagers` rounded down, and only where they become more.
    Block,
}

/// A time in which nothing is changed: a daily `HH:MM:SS-HH:MM:SS`, a cron expression in Quartz' form, or one of each
/// joined by `&&`; as text, or with a time zone of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(untagged, expecting = "expected text such as \"22:00:00-23:30:00\", or an object with period and timeZone")]
pub enum ExcludedPeriodInput {
    /// In the policy's time zone.
    Text(String),
    /// In a time zone of its own.
    Zoned(ZonedPeriodInput),
}

/// A time in which nothing is changed, in a time zone of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ZonedPeriodInput {
    /// The period.
    pub period: String,
    /// An IANA time zone (default: that of the policy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

impl ExcludedPeriodInput {
    /// The period as written.
    #[must_use]
    pub fn period(&self) -> &str {
        match self {
            Self::Text(period) => period,
            Self::Zoned(zoned) => &zoned.period,
        }
    }

    /// Its own time zone.
    #[must_use]
    pub fn time_zone(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Zoned(zoned) => zoned.time_zone.as_deref(),
        }
    }
}

/// When the observed rate of a source stands for its capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ObservedRateInput {
    /// Backlog, as time, from which on the source is seen at its limit (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_threshold: Option<Duration>,
    /// Readings that are needed (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_observations: Option<u32>,
    /// Share by which the busy-based rate may lie above (default 0.15).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_ratio: Option<f64>,
}

/// Whether earlier rescales tell how well a vertex scales.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ObservedScalabilityInput {
    /// Divide wishes by the coefficient that fits what the vertex could do at earlier parallelisms (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Earlier parallelisms that are needed, of the newest three of the last 24 hours (default 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_observations: Option<u32>,
    /// The smallest coefficient that is believed (default 0.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
}

/// What to make of a raise that brought little.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IneffectiveInput {
    /// Share of the expected gain that must appear (default 0.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Hold further raises of that vertex (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<bool>,
}
