//! The policy as people write it: every field optional, the same object in requests, configuration and dry runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::units::{Amount, Count, Duration};

/// What is wanted of the advice. Fields of one kind only are refused for another; absent fields have the preset's
/// value, else the default of the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyInput {
    /// A named set of fields; explicit fields win.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Smallest recommendation (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Count>,
    /// Largest recommendation (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Count>,
    /// Hold; the wish is still shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Scheduled lower bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floors: Option<Vec<FloorInput>>,
    /// Aimed busy share of a replica, above 0 and at most 1 (default 0.8; Flink 0.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_utilization: Option<f64>,
    /// A backlog is gone after this time, start-up and pause included (default 5m; Flink 30m). Not used by `druidWorkers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_within: Option<Duration>,
    /// Delay objective in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lag_seconds: Option<f64>,
    /// Declared capacity of one replica, items per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_replica_per_second: Option<f64>,
    /// Threshold mode: replicas = backlog / this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_replica_backlog: Option<f64>,
    /// Expected growth of the arrivals, added to the demand (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_ratio: Option<f64>,
    /// Demand must leave the present count's range by this share before a change (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hysteresis_ratio: Option<f64>,
    /// Active when the backlog is above it (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_backlog: Option<f64>,
    /// Quiet time before zero (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_before_zero: Option<Duration>,
    /// Time for a new replica to work (default 1m; `druidWorkers` 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<Duration>,
    /// Pause that a change causes (default 10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Duration>,
    /// A reading older than this is unknown (default 2m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Duration>,
    /// What to do when the demand is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknownInput>,
    /// What can arrive at most, items per second; a backlog that grew by more is implausible (default: learned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_arrival_per_second: Option<f64>,
    /// The value that "no data point" stands for, when that is known to mean idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_data: Option<f64>,
    /// Who stabilizes (default `advisor`; `consumer` when `consumer` is given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damping: Option<Damping>,
    /// Limits of raises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<DirectionInput>,
    /// Limits of cuts (stabilization 5m by default; Flink 1h and maxFactor 0.6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<DirectionInput>,
    /// The same-peak rule over partitions (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub even_distribution: Option<bool>,
    /// Raise ahead of demand that the profile in `memory` expects (default `auto`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_ahead: Option<LookAhead>,
    /// Parallel units in one replica (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_per_replica: Option<Count>,
    /// What stands behind the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<ConsumerInput>,
    /// Hold when readings contradict each other (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradiction_checks: Option<bool>,

    /// `druidWorkers`: slots of a worker while none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<Count>,
    /// `druidWorkers`: share of the remaining slots that work may fill when a worker goes (default 0.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom_ratio: Option<f64>,
    /// `druidWorkers`: a task counts once it has been pending for so long (default 5s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_grace: Option<Duration>,
    /// `druidWorkers`: keep slots for streaming tasks that hand over soon (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollover_reserve: Option<bool>,
    /// `druidWorkers`: bounds by worker category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<BTreeMap<String, PoolInput>>,
    /// `druidWorkers`: how workers are drained (default `advise`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,

    /// `flinkJob`: length of the window of readings (default 15m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// `flinkJob`: no decision for so long after the job runs (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_after_start: Option<Duration>,
    /// `flinkJob`: lower edge of the busy band (default 0.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_min: Option<f64>,
    /// `flinkJob`: upper edge of the busy band (default 1.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_max: Option<f64>,
    /// `flinkJob`: downtime of a rescale (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Duration>,
    /// `flinkJob`: use the measured downtime (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track_restart: Option<bool>,
    /// `flinkJob`: cap of the measured downtime (default 15m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_limit: Option<Duration>,
    /// `flinkJob`: a backlog of more than this, as time, is being worked off: no cut (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_threshold: Option<Duration>,
    /// `flinkJob`: which subtask stands for a vertex (default `max`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_aggregator: Option<Aggregator>,
    /// `flinkJob`: vertices that keep their parallelism: ids, or names with `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_vertices: Option<Vec<String>>,
    /// `flinkJob`: bounds by vertex id or name pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertex_limits: Option<BTreeMap<String, PoolInput>>,
    /// `flinkJob`: smallest parallelism of a vertex (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertex_min: Option<Count>,
    /// `flinkJob`: largest parallelism of a vertex (default 200).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertex_max: Option<Count>,
    /// `flinkJob`: how parallelism fits partitions and key groups (default `samePeak`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
    /// `flinkJob`: from which memory pressure on parallelism does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<MemoryPressureInput>,
    /// `flinkJob`: what the job may use in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaInput>,
    /// `flinkJob`: declared arrival by source name or id, where the backlog is unknown, records per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_rates: Option<BTreeMap<String, Amount>>,
    /// `flinkJob`: an absent backlog counts as none (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_backlog_is_zero: Option<bool>,
    /// `flinkJob`: a source never has more subtasks than partitions (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_sources_at_partitions: Option<bool>,
    /// `flinkJob`: round target capacities to whole records per second (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_records: Option<bool>,
    /// `flinkJob`: when the observed rate of a source stands for its capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_rate: Option<ObservedRateInput>,
    /// `flinkJob`: what to make of a raise that brought little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ineffective: Option<IneffectiveInput>,
    /// `flinkJob`: take the input rate of vertices with inputs from the per-second gauges, which are averages over a
    /// minute, instead of from the counters over the window (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gauge_rates: Option<bool>,
    /// `flinkJob`: hold on doubt (default true): a vertex that is busier than the band is not lowered, a saturated one
    /// moves, a backlog that drains holds, own input wins over a contradicting edge. False gives the peer's arithmetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt_holds: Option<bool>,
    /// `flinkJob`: once one vertex is outside its band, move those inside theirs too (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_all: Option<bool>,
}

/// Named sets of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub enum Preset {
    /// The decisions of Apache Flink's own autoscaler (FLIP-271).
    #[serde(rename = "flink-autoscaler")]
    FlinkAutoscaler,
}

/// A scheduled lower bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FloorInput {
    /// When: `"07:00-09:00"`, with days in front if not every day: `"Mon-Fri 07:00-09:00"`, `"Sat,Sun 10:00-18:00"`.
    pub period: String,
    /// An IANA time zone (default `UTC`).
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
