//! The policy in force: what was given, over the preset, over the defaults of the kind.
//!
//! Explicit always beats a preset, and a preset beats a default. Relations between fields are checked in
//! [`check`](PolicyInput::resolve); all problems are reported at once, each with the path of its field.

mod check;
mod cron;
mod excluded;
mod input;
mod kafka;
mod period;
mod pubsub;
mod terms;

pub use self::excluded::ExcludedPeriod;
pub use self::input::*;
pub use self::kafka::*;
pub use self::period::Period;
pub use self::pubsub::*;
pub use self::terms::*;
use super::kind::Kind;
use super::problem::Problem;
use super::units::{Amount, Count, Duration};

/// Every field with its value in force.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct Policy {
    pub min: Count,
    pub max: Count,
    pub paused: bool,
    pub floors: Vec<Floor>,
    pub target_utilization: f64,
    pub catch_up_within: Duration,
    pub max_lag_seconds: Option<f64>,
    pub per_replica_per_second: Option<f64>,
    pub per_replica_backlog: Option<f64>,
    pub growth_ratio: f64,
    pub hysteresis_ratio: f64,
    pub activation_backlog: f64,
    pub idle_before_zero: Duration,
    pub startup: Duration,
    pub pause: Duration,
    pub stale_after: Duration,
    pub on_unknown: OnUnknown,
    pub max_arrival_per_second: Option<f64>,
    pub no_data: Option<f64>,
    pub damping: Damping,
    pub scale_up: Direction,
    pub scale_down: Direction,
    pub even_distribution: bool,
    pub look_ahead: LookAhead,
    pub threads_per_replica: Count,
    pub consumer: Option<Consumer>,
    pub contradiction_checks: bool,
    pub druid: DruidPolicy,
    pub supervisor: SupervisorPolicy,
    pub flink: FlinkPolicy,
    pub kafka: KafkaPolicy,
    pub pubsub: PubsubPolicy,
}

/// A scheduled lower bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// When it holds.
    pub period: Period,
    /// The lower bound then.
    pub min: Count,
}

/// What to do when the demand is unknown.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct OnUnknown {
    pub fallback: Option<Count>,
    pub after_failures: u32,
    pub behavior: FallbackBehavior,
    pub hold_at_most: Option<Duration>,
}

/// Limits of one direction.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct Direction {
    pub stabilization: Duration,
    pub cooldown: Duration,
    pub max_step: Option<Count>,
    pub max_factor: Option<f64>,
}

/// What stands behind the number.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct Consumer {
    pub kind: ConsumerKind,
    pub tolerance_up: f64,
    pub tolerance_down: f64,
    pub min: Option<Count>,
    pub max: Option<Count>,
    pub round_to_reachable: bool,
}

/// Fields of `druidWorkers`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct DruidPolicy {
    pub slots_per_worker: Option<Count>,
    pub headroom_ratio: f64,
    pub pending_grace: Duration,
    pub rollover_reserve: bool,
    pub pools: Option<Vec<(String, PoolInput)>>,
    pub drain: Drain,
    pub sizing: Sizing,
}

/// Fields of `druidSupervisor`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct SupervisorPolicy {
    pub window: Duration,
    pub min_readings: Count,
    /// Thresholds instead of rates, where the preset asks for them.
    pub lag_based: Option<LagBased>,
}

/// Druid's `lagBased` autoscaler, with its own defaults.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of LagBasedInput, and documented there")]
pub struct LagBased {
    pub scale_out_threshold: f64,
    pub scale_in_threshold: f64,
    pub scale_out_fraction: f64,
    pub scale_in_fraction: f64,
    pub scale_out_step: Count,
    pub scale_in_step: Count,
    pub aggregate: Option<LagAggregate>,
    pub nearest_factor: bool,
}

/// Fields of `flinkJob`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct FlinkPolicy {
    pub window: Duration,
    pub stabilization_after_start: Duration,
    pub utilization_min: f64,
    pub utilization_max: f64,
    pub restart: Duration,
    pub track_restart: bool,
    pub restart_limit: Duration,
    pub backlog_threshold: Duration,
    pub busy_aggregator: Aggregator,
    pub exclude_vertices: Vec<String>,
    pub vertex_limits: Vec<(String, PoolInput)>,
    pub vertex_min: Count,
    pub vertex_max: Count,
    pub alignment: Alignment,
    pub gc_time_ratio: Option<f64>,
    pub heap_used_ratio: Option<f64>,
    pub quota_slots: Option<Count>,
    pub quota_cpu: Option<f64>,
    pub quota_memory_bytes: Option<Count>,
    pub source_rates: Vec<(String, Amount)>,
    pub missing_backlog_is_zero: bool,
    pub cap_sources_at_partitions: bool,
    pub whole_records: bool,
    pub observed_lag_threshold: Duration,
    pub observed_min_observations: u32,
    pub observed_switch_ratio: f64,
    pub scalability_enabled: bool,
    pub scalability_min_observations: u32,
    pub scalability_minimum: f64,
    pub ineffective_threshold: f64,
    pub ineffective_block: bool,
    pub excluded_periods: Vec<ExcludedPeriod>,
    pub quota_exceeded: QuotaExceeded,
    pub delay_from_first_wish: bool,
    pub raise_before_window_full: bool,
    pub trust_counters: bool,
    pub gauge_rates: bool,
    pub settling_readings: bool,
    pub doubt_holds: bool,
    pub move_all: bool,
    pub apply: Apply,
}

impl PolicyInput {
    /// The policy in force for a kind, or every problem with its path (relative to the policy, without a leading dot).
    pub fn resolve(&self, kind: Kind) -> Result<Policy, Vec<Problem>> {
        let mut problems = Vec::new();
        self.check(kind, &mut problems);
        let floors = self.read_floors(&mut problems);
        let excluded = self.read_excluded_periods(&mut problems);
        let mut policy = self.with_defaults(kind, floors);
        policy.flink.excluded_periods = excluded;
        self.check_relations(kind, &policy, &mut problems);
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// What is wrong with single fields, where others could not be read and relations tell nothing.
    pub(super) fn faults(&self, kind: Kind) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.check(kind, &mut problems);
        self.read_floors(&mut problems);
        self.read_excluded_periods(&mut problems);
        problems
    }

    fn read_floors(&self, problems: &mut Vec<Problem>) -> Vec<Floor> {
        let mut floors = Vec::new();
        for (index, floor) in self.floors.iter().flatten().enumerate() {
            match Period::parse(&floor.period, floor.time_zone.as_deref().or(self.time_zone.as_deref())) {
                Ok(period) => floors.push(Floor { period, min: floor.min }),
                Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(&format!("floors[{index}]")))),
            }
        }
        floors
    }

    fn read_excluded_periods(&self, problems: &mut Vec<Problem>) -> Vec<ExcludedPeriod> {
        let mut periods = Vec::new();
        for (index, entry) in self.excluded_periods.iter().flatten().enumerate() {
            match ExcludedPeriod::parse(entry.period(), entry.time_zone().or(self.time_zone.as_deref())) {
                Ok(period) => periods.push(period),
                Err(message) => problems.push(Problem::new(format!("excludedPeriods[{index}]"), message)),
            }
        }
        periods
    }

    fn with_defaults(&self, kind: Kind, floors: Vec<Floor>) -> Policy {
        let flink = kind == Kind::FlinkJob;
        let peer = self.preset == Some(Preset::FlinkAutoscaler);
        let lag_based = self.preset == Some(Preset::DruidLagBased);
        // Druid waits for so long between two changes, in both directions
        let cooldown = if lag_based { Duration::from_mins(10) } else { Duration::ZERO };
        let midas = self.preset == Some(Preset::Midas);
        let keda = matches!(self.preset, Some(Preset::KedaKafka | Preset::KedaGcpPubsub));
        let unknown = self.on_unknown.clone().unwrap_or_default();
        Policy {
            min: self.min.or(self.task_count_min).unwrap_or(1),
            max: self.max.or(self.task_count_max).unwrap_or(100),
            paused: self.paused.unwrap_or(false),
            floors,
            target_utilization: self.target_utilization.unwrap_or(if flink { 0.7 } else { 0.8 }),
            catch_up_within: self.catch_up_within.unwrap_or(Duration::from_mins(if flink { 30 } else { 5 })),
            max_lag_seconds: self.max_lag_seconds,
            per_replica_per_second: self.per_replica_per_second,
            per_replica_backlog: self.per_replica_backlog.or(if keda { Some(10.0) } else { None }),
            growth_ratio: self.growth_ratio.unwrap_or(0.0),
            hysteresis_ratio: self.hysteresis_ratio.unwrap_or(0.0),
            activation_backlog: self.activation_backlog.unwrap_or(0.0),
            idle_before_zero: self.idle_before_zero.unwrap_or(Duration::from_mins(5)),
            startup: self.startup.unwrap_or(Duration::from_mins(if kind == Kind::DruidWorkers { 5 } else { 1 })),
            pause: self.pause.unwrap_or(Duration::from_secs(10)),
            stale_after: self.stale_after.unwrap_or(Duration::from_mins(if kind == Kind::PubsubSubscription { 5 } else { 2 })),
            on_unknown: OnUnknown {
                fallback: unknown.fallback,
                after_failures: unknown.after_failures.unwrap_or(3),
                behavior: unknown.behavior.unwrap_or_default(),
                hold_at_most: unknown.hold_at_most,
            },
            max_arrival_per_second: self.max_arrival_per_second,
            no_data: self.no_data,
            // who stabilizes TaskManagers has to know of vertices, which no consumer does
            damping: match self.damping {
                _ if flink => Damping::Advisor,
                Some(damping) => damping,
                None if self.consumer.is_some() => Damping::Consumer,
                None => Damping::Advisor,
            },
            scale_up: direction(self.scale_up.as_ref(), Duration::ZERO, cooldown, if peer { Some(100_000.0) } else { None }),
            scale_down: direction(
                self.scale_down.as_ref(),
                Duration::from_mins(if flink {
                    60
                } else if lag_based || midas {
                    0
                } else {
                    5
                }),
                cooldown,
                if flink { Some(0.6) } else { None },
            ),
            even_distribution: self.even_distribution.unwrap_or(!lag_based && !keda),
            look_ahead: self.look_ahead.unwrap_or_default(),
            threads_per_replica: self.threads_per_replica.unwrap_or(1),
            consumer: self.consumer.as_ref().map(|consumer| Consumer {
                kind: consumer.kind,
                tolerance_up: consumer.tolerance_up.or(consumer.tolerance).unwrap_or(0.1),
                tolerance_down: consumer.tolerance_down.or(consumer.tolerance).unwrap_or(0.1),
                min: consumer.min,
                max: consumer.max,
                round_to_reachable: consumer.round_to_reachable.unwrap_or(false),
            }),
            contradiction_checks: self.contradiction_checks.unwrap_or(true),
            druid: self.druid(midas),
            supervisor: self.supervisor(lag_based),
            flink: self.flink(peer),
            kafka: self.kafka(self.scale_down.as_ref().and_then(|down| down.stabilization).unwrap_or(Duration::from_mins(5))),
            pubsub: self.pubsub(),
        }
    }

    fn druid(&self, midas: bool) -> DruidPolicy {
        DruidPolicy {
            slots_per_worker: self.slots_per_worker,
            headroom_ratio: self.headroom_ratio.unwrap_or(0.9),
            pending_grace: self.pending_grace.unwrap_or(Duration::from_secs(if midas { 0 } else { 5 })),
            rollover_reserve: self.rollover_reserve.unwrap_or(!midas),
            pools: self.pools.as_ref().map(|pools| pools.iter().map(|(name, bounds)| (name.clone(), *bounds)).collect()),
            drain: self.drain.unwrap_or_default(),
            sizing: self.sizing.unwrap_or(if midas { Sizing::Midas } else { Sizing::Slots }),
        }
    }

    fn supervisor(&self, lag_based: bool) -> SupervisorPolicy {
        let given = self.lag_based.clone().unwrap_or_default();
        SupervisorPolicy {
            window: self.window.unwrap_or(Duration::from_mins(10)),
            min_readings: self.min_readings.unwrap_or(3),
            lag_based: lag_based.then(|| LagBased {
                scale_out_threshold: given.scale_out_threshold.unwrap_or(6_000_000.0),
                scale_in_threshold: given.scale_in_threshold.unwrap_or(1_000_000.0),
                scale_out_fraction: given.trigger_scale_out_fraction_threshold.unwrap_or(0.3),
                scale_in_fraction: given.trigger_scale_in_fraction_threshold.unwrap_or(0.9),
                scale_out_step: given.scale_out_step.unwrap_or(2),
                scale_in_step: given.scale_in_step.unwrap_or(1),
                aggregate: given.lag_aggregate,
                nearest_factor: given.use_nearest_factor_scaling.unwrap_or(false),
            }),
        }
    }

    fn flink(&self, peer: bool) -> FlinkPolicy {
        let pressure = self.memory_pressure.clone().unwrap_or_default();
        let quota = self.quota.clone().unwrap_or_default();
        let observed = self.observed_rate.clone().unwrap_or_default();
        let scalability = self.observed_scalability.clone().unwrap_or_default();
        let ineffective = self.ineffective.clone().unwrap_or_default();
        FlinkPolicy {
            window: self.window.unwrap_or(Duration::from_mins(15)),
            stabilization_after_start: self.stabilization_after_start.unwrap_or(Duration::from_mins(5)),
            utilization_min: self.utilization_min.unwrap_or(0.4),
            utilization_max: self.utilization_max.unwrap_or(1.0),
            restart: self.restart.unwrap_or(Duration::from_mins(5)),
            track_restart: self.track_restart.unwrap_or(!peer),
            restart_limit: self.restart_limit.unwrap_or(Duration::from_mins(15)),
            backlog_threshold: self.backlog_threshold.unwrap_or(Duration::from_mins(5)),
            busy_aggregator: self.busy_aggregator.unwrap_or_default(),
            exclude_vertices: self.exclude_vertices.clone().unwrap_or_default(),
            vertex_limits: self.vertex_limits.iter().flatten().map(|(pattern, bounds)| (pattern.clone(), *bounds)).collect(),
            vertex_min: self.vertex_min.unwrap_or(1),
            vertex_max: self.vertex_max.unwrap_or(200),
            alignment: self.alignment.unwrap_or(match self.even_distribution {
                _ if peer => Alignment::Balanced,
                Some(false) => Alignment::Off,
                _ => Alignment::SamePeak,
            }),
            gc_time_ratio: pressure.gc_time_ratio.or(if peer { Some(1.0) } else { Some(0.3) }),
            heap_used_ratio: pressure.heap_used_ratio.or(if peer { Some(1.0) } else { None }),
            quota_slots: quota.slots,
            quota_cpu: quota.cpu,
            quota_memory_bytes: quota.memory_bytes,
            source_rates: self.source_rates.iter().flatten().map(|(name, rate)| (name.clone(), *rate)).collect(),
            missing_backlog_is_zero: self.missing_backlog_is_zero.unwrap_or(peer),
            cap_sources_at_partitions: self.cap_sources_at_partitions.unwrap_or(!peer),
            whole_records: self.whole_records.unwrap_or(peer),
            observed_lag_threshold: observed.lag_threshold.unwrap_or(Duration::from_secs(30)),
            observed_min_observations: observed.min_observations.unwrap_or(2),
            observed_switch_ratio: observed.switch_ratio.unwrap_or(0.15),
            scalability_enabled: scalability.enabled.unwrap_or(false),
            scalability_min_observations: scalability.min_observations.unwrap_or(3),
            scalability_minimum: scalability.minimum.unwrap_or(0.5),
            ineffective_threshold: ineffective.threshold.unwrap_or(0.1),
            ineffective_block: ineffective.block.unwrap_or(false),
            excluded_periods: Vec::new(),
            quota_exceeded: quota.exceeded.unwrap_or(if peer { QuotaExceeded::Block } else { QuotaExceeded::Cut }),
            delay_from_first_wish: self.delay_from_first_wish.unwrap_or(peer),
            raise_before_window_full: self.raise_before_window_full.unwrap_or(!peer),
            trust_counters: self.trust_counters.unwrap_or(peer),
            gauge_rates: self.gauge_rates.unwrap_or(peer),
            settling_readings: self.settling_readings.unwrap_or(peer),
            doubt_holds: self.doubt_holds.unwrap_or(!peer),
            move_all: self.move_all.unwrap_or(peer),
            apply: self.apply.unwrap_or_default(),
        }
    }
}

fn direction(given: Option<&DirectionInput>, stabilization: Duration, cooldown: Duration, max_factor: Option<f64>) -> Direction {
    let given = given.cloned().unwrap_or_default();
    Direction {
        stabilization: given.stabilization.unwrap_or(stabilization),
        cooldown: given.cooldown.unwrap_or(cooldown),
        max_step: given.max_step,
        max_factor: given.max_factor.or(max_factor),
    }
}
