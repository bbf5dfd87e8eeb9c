//! The policy as people write it: every field optional, the same object in requests, configuration and dry runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::kafka::{HeartbeatInput, Isolation, KedaKafkaInput, OffsetReset, StateInput};
use super::terms::{
    Aggregator, Alignment, Apply, ConsumerInput, Damping, DirectionInput, Drain, ExcludedPeriodInput, FloorInput, IneffectiveInput, LagBasedInput, LookAhead,
    MemoryPressureInput, ObservedRateInput, ObservedScalabilityInput, OnUnknownInput, PoolInput, Preset, QuotaInput, Sizing,
};
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
    /// The time zone of periods that name none (default `UTC`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
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
    /// `druidWorkers`: how a pool is sized (default `slots`; `midas` is for comparison).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,

    /// `druidSupervisor`: another name for `min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_count_min: Option<Count>,
    /// `druidSupervisor`: another name for `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_count_max: Option<Count>,
    /// `druidSupervisor` and `kafkaGroup`: readings that a window needs before anything is changed (default 3 and 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_readings: Option<Count>,
    /// `druidSupervisor` with the preset `druid-lag-based`: its thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_based: Option<LagBasedInput>,

    /// `kafkaGroup`: where a consumer begins when nothing is committed, its `auto.offset.reset` (default `unknown`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_reset: Option<OffsetReset>,
    /// `kafkaGroup`: which records the consumers see, their `isolation.level` (default `readUncommitted`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// `kafkaGroup`: only these topics count (default: all that the group reads).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// `kafkaGroup`: a partition that has not moved for so long, while others do, is stuck (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck_after: Option<Duration>,
    /// `kafkaGroup`: so many records of a partition may stay for ever, as transaction markers do (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residual_records: Option<Count>,
    /// `kafkaGroup`: more consumers than partitions may be had (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_idle: Option<bool>,
    /// `kafkaGroup`: no more replicas than partitions with lag (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_to_partitions_with_lag: Option<bool>,
    /// `kafkaGroup`: state that replicas hold and restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateInput>,
    /// `kafkaGroup`: sets of topics that have to be partitioned alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub co_partitioned: Option<Vec<Vec<String>>>,
    /// `kafkaGroup`: records that producers send even when there is nothing to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<HeartbeatInput>,
    /// `kafkaGroup`: declared capacity of one replica by topic, where records of one cost more than those of another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_per_replica_per_second: Option<BTreeMap<String, Amount>>,
    /// `kafkaGroup` with the preset `keda-kafka`: differences of KEDA's scaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keda_kafka: Option<KedaKafkaInput>,

    /// `pubsubSubscription`: the ack deadline of the subscription (default 10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_deadline: Option<Duration>,
    /// `pubsubSubscription`: messages that one replica holds at most, its flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_outstanding_per_replica: Option<Count>,

    /// `flinkJob`, `druidSupervisor` and `kafkaGroup`: length of the window of readings (default 15m, 10m, and
    /// `scaleDown.stabilization`).
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
    /// `flinkJob`: whether earlier rescales tell how well a vertex scales.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_scalability: Option<ObservedScalabilityInput>,
    /// `flinkJob`: what to make of a raise that brought little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ineffective: Option<IneffectiveInput>,
    /// `flinkJob`: times in which nothing is changed; the wish is still told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_periods: Option<Vec<ExcludedPeriodInput>>,
    /// `flinkJob`: the time of `scaleDown.stabilization` begins with the first lower wish, ends with any other one, and
    /// begins anew after a rescale (default false: it looks back over the wishes that are remembered).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_from_first_wish: Option<bool>,
    /// `flinkJob`: raise before the window of readings is full (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raise_before_window_full: Option<bool>,
    /// `flinkJob`: take counters as they are, even where they went back or Flink says that they are not complete (default
    /// false: the interval is left out).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_counters: Option<bool>,
    /// `flinkJob`: take the input rate of vertices with inputs, and busy time, from the per-second gauges, which are
    /// averages over a minute, instead of from the totals over the window (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gauge_rates: Option<bool>,
    /// `flinkJob`: count readings of the time in which the job settled after its start (`stabilizationAfterStart`) in the
    /// window; they mislead (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settling_readings: Option<bool>,
    /// `flinkJob`: hold on doubt (default true): a vertex that is busier than the band is not lowered, a saturated one
    /// moves, a backlog that drains holds, own input wins over a contradicting edge. False gives the peer's arithmetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt_holds: Option<bool>,
    /// `flinkJob`: once one vertex is outside its band, move those inside theirs too (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_all: Option<bool>,
    /// `flinkJob`: who sets the parallelism (default `advise`). A posted request is only ever advised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<Apply>,
}
