//! What a policy must satisfy: ranges of single fields, fields that belong to another kind, relations between fields.

use super::{LookAhead, Policy, PolicyInput, Preset};
use crate::core::kind::Kind;
use crate::core::problem::Problem;
use crate::core::units::{COUNT_MAX, Count, as_f64};

/// The most excluded periods of one policy.
const MOST_PERIODS: usize = 100;

impl PolicyInput {
    /// Ranges of single fields, and fields of another kind.
    pub(super) fn check(&self, kind: Kind, problems: &mut Vec<Problem>) {
        self.check_belongs(kind, problems);
        if kind == Kind::DruidWorkers {
            self.check_rates(problems);
        }
        let mut say = |path: &str, message: String| problems.push(Problem::new(path, message));
        if let Err(message) = super::period::zone(self.time_zone.as_deref()) {
            say("timeZone", message);
        }
        if self.excluded_periods.as_ref().is_some_and(|periods| periods.len() > MOST_PERIODS) {
            say("excludedPeriods", format!("too many entries: expected at most {MOST_PERIODS}"));
        }
        let counts = [("min", self.min), ("max", self.max), ("taskCountMin", self.task_count_min), ("taskCountMax", self.task_count_max)];
        for (path, value) in counts {
            if let Some(value) = value.filter(|value| *value > COUNT_MAX) {
                say(path, format!("{value} is out of range: expected at most {COUNT_MAX}"));
            }
        }
        for (path, value) in [("targetUtilization", self.target_utilization), ("headroomRatio", self.headroom_ratio), ("utilizationMax", self.utilization_max)]
        {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= 1.0)) {
                say(path, format!("{value} is out of range: expected more than 0 and at most 1"));
            }
        }
        if let Some(value) = self.utilization_min.filter(|value| !(*value >= 0.0 && *value <= 1.0)) {
            say("utilizationMin", format!("{value} is out of range: expected between 0 and 1"));
        }
        for (path, value) in [
            ("maxLagSeconds", self.max_lag_seconds),
            ("perReplicaPerSecond", self.per_replica_per_second),
            ("perReplicaBacklog", self.per_replica_backlog),
            ("maxArrivalPerSecond", self.max_arrival_per_second),
        ] {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
                say(path, format!("{value} is out of range: expected more than 0"));
            }
        }
        for (path, value) in [
            ("growthRatio", self.growth_ratio),
            ("hysteresisRatio", self.hysteresis_ratio),
            ("activationBacklog", self.activation_backlog),
            ("noData", self.no_data),
        ] {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                say(path, format!("{value} is out of range: expected at least 0"));
            }
        }
        for (path, other, both) in [
            ("taskCountMin", "min", self.task_count_min.is_some() && self.min.is_some()),
            ("taskCountMax", "max", self.task_count_max.is_some() && self.max.is_some()),
        ] {
            if both {
                say(path, format!("stands beside {other}, which is another name for it: expected one of them"));
            }
        }
        if let Some(value) = self.min_readings.filter(|value| !(1..=1000).contains(value)) {
            say("minReadings", format!("{value} is out of range: expected between 1 and 1000"));
        }
        self.check_lag_based(&mut say);
        self.check_kafka(&mut say);
        self.check_pubsub(&mut say);
        if let Some(value) = self.threads_per_replica.filter(|value| *value == 0) {
            say("threadsPerReplica", format!("{value} is out of range: expected at least 1"));
        }
        if let Some(value) = self.slots_per_worker.filter(|value| *value == 0) {
            say("slotsPerWorker", format!("{value} is out of range: expected at least 1"));
        }
        for (path, direction) in [("scaleUp", &self.scale_up), ("scaleDown", &self.scale_down)] {
            let Some(direction) = direction else { continue };
            if direction.max_step == Some(0) {
                say(&format!("{path}.maxStep"), "0 is out of range: expected at least 1".to_owned());
            }
            let most = if path == "scaleDown" { 1.0 } else { f64::MAX };
            if let Some(value) = direction.max_factor.filter(|value| !(*value > 0.0 && *value <= most)) {
                let expected = if path == "scaleDown" { "more than 0 and at most 1" } else { "more than 0" };
                say(&format!("{path}.maxFactor"), format!("{value} is out of range: expected {expected}"));
            }
        }
        if let Some(consumer) = &self.consumer {
            for (path, value) in [("tolerance", consumer.tolerance), ("toleranceUp", consumer.tolerance_up), ("toleranceDown", consumer.tolerance_down)] {
                if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                    say(&format!("consumer.{path}"), format!("{value} is out of range: expected at least 0"));
                }
            }
            check_bounds(&mut say, "consumer", consumer.min, consumer.max);
        }
        if self.pools.as_ref().is_some_and(std::collections::BTreeMap::is_empty) {
            say("pools", "{} names no category: expected at least one, or no pools at all".to_owned());
        }
        for (name, bounds) in self.pools.iter().flatten() {
            check_bounds(&mut say, &format!("pools.{name}"), bounds.min, bounds.max);
        }
        for (name, bounds) in self.vertex_limits.iter().flatten() {
            check_bounds(&mut say, &format!("vertexLimits.{name}"), bounds.min, bounds.max);
        }
        if let Some(pressure) = &self.memory_pressure {
            for (path, value) in [("gcTimeRatio", pressure.gc_time_ratio), ("heapUsedRatio", pressure.heap_used_ratio)] {
                if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= 1.0)) {
                    say(&format!("memoryPressure.{path}"), format!("{value} is out of range: expected more than 0 and at most 1"));
                }
            }
        }
        if let Some(value) = self.observed_rate.as_ref().and_then(|rate| rate.switch_ratio).filter(|value| !(value.is_finite() && *value >= 0.0)) {
            say("observedRate.switchRatio", format!("{value} is out of range: expected at least 0"));
        }
        if let Some(scalability) = &self.observed_scalability {
            if let Some(value) = scalability.min_observations.filter(|value| !(1..=3).contains(value)) {
                say("observedScalability.minObservations", format!("{value} is out of range: expected between 1 and 3, which is what is looked at"));
            }
            if let Some(value) = scalability.minimum.filter(|value| !(*value > 0.0 && *value <= 1.0)) {
                say("observedScalability.minimum", format!("{value} is out of range: expected more than 0 and at most 1"));
            }
        }
        if let Some(value) = self.ineffective.as_ref().and_then(|rule| rule.threshold).filter(|value| !(*value >= 0.0 && *value <= 1.0)) {
            say("ineffective.threshold", format!("{value} is out of range: expected between 0 and 1"));
        }
        if let Some(value) = self.quota.as_ref().and_then(|quota| quota.cpu).filter(|value| !(value.is_finite() && *value > 0.0)) {
            say("quota.cpu", format!("{value} is out of range: expected more than 0"));
        }
    }

    /// Relations between the fields in force.
    pub(super) fn check_relations(&self, kind: Kind, policy: &Policy, problems: &mut Vec<Problem>) {
        let mut say = |path: &str, message: String| problems.push(Problem::new(path, message));
        if policy.min > policy.max {
            say("max", format!("{} is below min {}: expected max of at least min", policy.max, policy.min));
        }
        for (index, floor) in self.floors.iter().flatten().enumerate() {
            if floor.min > policy.max {
                say(&format!("floors[{index}].min"), format!("{} is above max {}: expected at most max", floor.min, policy.max));
            }
        }
        if let Some(fallback) = policy.on_unknown.fallback
            && !(policy.min..=policy.max).contains(&fallback)
        {
            say("onUnknown.fallback", format!("{fallback} is outside min {} and max {}: expected a count between them", policy.min, policy.max));
        }
        if policy.stale_after.seconds() <= 0.0 {
            say("staleAfter", format!("{} is out of range: expected more than 0s", policy.stale_after));
        }
        if kind == Kind::DruidSupervisor && policy.supervisor.window.seconds() <= 0.0 {
            say("window", format!("{} is out of range: expected more than 0s", policy.supervisor.window));
        }
        if kind == Kind::FlinkJob {
            let flink = &policy.flink;
            if flink.utilization_max < policy.target_utilization {
                say("utilizationMax", format!("{} is below targetUtilization {}: expected at least that", flink.utilization_max, policy.target_utilization));
            }
            if flink.utilization_min > policy.target_utilization {
                say("utilizationMin", format!("{} is above targetUtilization {}: expected at most that", flink.utilization_min, policy.target_utilization));
            }
            if flink.vertex_min > flink.vertex_max {
                say("vertexMax", format!("{} is below vertexMin {}: expected at least that", flink.vertex_max, flink.vertex_min));
            }
            if flink.window.seconds() <= 0.0 {
                say("window", format!("{} is out of range: expected more than 0s", flink.window));
            }
        }
    }

    /// Thresholds of Druid's own autoscaler.
    fn check_lag_based(&self, say: &mut impl FnMut(&str, String)) {
        let Some(given) = &self.lag_based else { return };
        if self.preset != Some(Preset::DruidLagBased) {
            say("lagBased", "is read with the preset \"druid-lag-based\" only: expected that preset beside it".to_owned());
        }
        for (path, value) in [("scaleOutThreshold", given.scale_out_threshold), ("scaleInThreshold", given.scale_in_threshold)] {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                say(&format!("lagBased.{path}"), format!("{value} is out of range: expected at least 0"));
            }
        }
        for (path, value) in [
            ("triggerScaleOutFractionThreshold", given.trigger_scale_out_fraction_threshold),
            ("triggerScaleInFractionThreshold", given.trigger_scale_in_fraction_threshold),
        ] {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= 1.0)) {
                say(&format!("lagBased.{path}"), format!("{value} is out of range: expected more than 0 and at most 1"));
            }
        }
        for (path, value) in [("scaleOutStep", given.scale_out_step), ("scaleInStep", given.scale_in_step)] {
            if value == Some(0) {
                say(&format!("lagBased.{path}"), "0 is out of range: expected at least 1".to_owned());
            }
        }
    }

    /// Fields that only another kind has.
    fn check_belongs(&self, kind: Kind, problems: &mut Vec<Problem>) {
        let druid = [
            ("slotsPerWorker", self.slots_per_worker.is_some()),
            ("headroomRatio", self.headroom_ratio.is_some()),
            ("pendingGrace", self.pending_grace.is_some()),
            ("rolloverReserve", self.rollover_reserve.is_some()),
            ("pools", self.pools.is_some()),
            ("drain", self.drain.is_some()),
            ("sizing", self.sizing.is_some()),
        ];
        let supervisor =
            [("taskCountMin", self.task_count_min.is_some()), ("taskCountMax", self.task_count_max.is_some()), ("lagBased", self.lag_based.is_some())];
        let flink = [
            ("stabilizationAfterStart", self.stabilization_after_start.is_some()),
            ("utilizationMin", self.utilization_min.is_some()),
            ("utilizationMax", self.utilization_max.is_some()),
            ("restart", self.restart.is_some()),
            ("trackRestart", self.track_restart.is_some()),
            ("restartLimit", self.restart_limit.is_some()),
            ("backlogThreshold", self.backlog_threshold.is_some()),
            ("busyAggregator", self.busy_aggregator.is_some()),
            ("excludeVertices", self.exclude_vertices.is_some()),
            ("vertexLimits", self.vertex_limits.is_some()),
            ("vertexMin", self.vertex_min.is_some()),
            ("vertexMax", self.vertex_max.is_some()),
            ("alignment", self.alignment.is_some()),
            ("memoryPressure", self.memory_pressure.is_some()),
            ("quota", self.quota.is_some()),
            ("sourceRates", self.source_rates.is_some()),
            ("missingBacklogIsZero", self.missing_backlog_is_zero.is_some()),
            ("capSourcesAtPartitions", self.cap_sources_at_partitions.is_some()),
            ("wholeRecords", self.whole_records.is_some()),
            ("observedRate", self.observed_rate.is_some()),
            ("observedScalability", self.observed_scalability.is_some()),
            ("ineffective", self.ineffective.is_some()),
            ("excludedPeriods", self.excluded_periods.is_some()),
            ("delayFromFirstWish", self.delay_from_first_wish.is_some()),
            ("raiseBeforeWindowFull", self.raise_before_window_full.is_some()),
            ("trustCounters", self.trust_counters.is_some()),
            ("gaugeRates", self.gauge_rates.is_some()),
            ("settlingReadings", self.settling_readings.is_some()),
            ("doubtHolds", self.doubt_holds.is_some()),
            ("moveAll", self.move_all.is_some()),
            ("apply", self.apply.is_some()),
        ];
        let mut refuse = |fields: &[(&str, bool)], owner: Kind| {
            for (path, _) in fields.iter().filter(|(_, given)| *given && kind != owner) {
                problems.push(Problem::new(*path, format!("is a field of {owner}: expected a field of {kind}")));
            }
        };
        refuse(&druid, Kind::DruidWorkers);
        refuse(&supervisor, Kind::DruidSupervisor);
        refuse(&self.kafka_fields(), Kind::KafkaGroup);
        refuse(&self.pubsub_fields(), Kind::PubsubSubscription);
        if !matches!(kind, Kind::DruidSupervisor | Kind::KafkaGroup) {
            refuse(&[("window", self.window.is_some())], Kind::FlinkJob);
            refuse(&[("minReadings", self.min_readings.is_some())], Kind::DruidSupervisor);
        }
        refuse(&flink, Kind::FlinkJob);
        if kind == Kind::FlinkJob {
            self.check_unused_by_flink(problems);
        }
        if self.preset == Some(Preset::Midas) && kind != Kind::DruidWorkers {
            problems.push(Problem::new("preset", format!("\"midas\" is a preset of druidWorkers: expected none for {kind}")));
        }
        if self.preset == Some(Preset::FlinkAutoscaler) && kind != Kind::FlinkJob {
            problems.push(Problem::new("preset", format!("\"flink-autoscaler\" is a preset of flinkJob: expected none for {kind}")));
        }
        if self.preset == Some(Preset::KedaKafka) && kind != Kind::KafkaGroup {
            problems.push(Problem::new("preset", format!("\"keda-kafka\" is a preset of kafkaGroup: expected none for {kind}")));
        }
        if self.preset == Some(Preset::KedaGcpPubsub) && kind != Kind::PubsubSubscription {
            problems.push(Problem::new("preset", format!("\"keda-gcp-pubsub\" is a preset of pubsubSubscription: expected none for {kind}")));
        }
        if self.preset == Some(Preset::DruidLagBased) && kind != Kind::DruidSupervisor {
            problems.push(Problem::new("preset", format!("\"druid-lag-based\" is a preset of druidSupervisor: expected none for {kind}")));
        }
    }
}

impl PolicyInput {
    /// Common fields that mean nothing for a Flink job: better refused than taken and not followed.
    fn check_unused_by_flink(&self, problems: &mut Vec<Problem>) {
        for (path, given, instead) in [
            ("maxLagSeconds", self.max_lag_seconds.is_some(), "catchUpWithin"),
            ("perReplicaPerSecond", self.per_replica_per_second.is_some(), "no declared capacity, since it is measured for each vertex"),
            ("perReplicaBacklog", self.per_replica_backlog.is_some(), "catchUpWithin"),
            ("noData", self.no_data.is_some(), "missingBacklogIsZero"),
            ("threadsPerReplica", self.threads_per_replica.is_some(), "slotsPerTaskManager in the reading"),
            ("idleBeforeZero", self.idle_before_zero.is_some(), "no such wait, since a job never goes to zero"),
            ("startup", self.startup.is_some(), "restart"),
            ("pause", self.pause.is_some(), "restart"),
        ] {
            if given {
                problems.push(Problem::new(path, format!("is not used by flinkJob: expected {instead}")));
            }
        }
    }

    /// Fields about rates, which a kind that counts slots cannot follow. What would change nothing may stand.
    fn check_rates(&self, problems: &mut Vec<Problem>) {
        let more_than = |value: Option<f64>, neutral: f64| value.filter(|value| *value > neutral);
        for (path, value) in [
            ("perReplicaPerSecond", self.per_replica_per_second),
            ("perReplicaBacklog", self.per_replica_backlog),
            ("maxLagSeconds", self.max_lag_seconds),
            ("maxArrivalPerSecond", self.max_arrival_per_second),
            ("noData", self.no_data),
            ("growthRatio", more_than(self.growth_ratio, 0.0)),
            ("hysteresisRatio", more_than(self.hysteresis_ratio, 0.0)),
            ("threadsPerReplica", self.threads_per_replica.filter(|threads| *threads > 1).map(as_f64)),
        ] {
            if let Some(value) = value {
                let message = format!("{value} cannot be followed by druidWorkers, which counts task slots and knows no rates: expected it absent");
                problems.push(Problem::new(path, message));
            }
        }
    }

    /// Fields that are given and have no effect on a kind, although they do no harm.
    #[must_use]
    pub fn without_effect(&self, kind: Kind) -> Vec<String> {
        if kind != Kind::DruidWorkers {
            return Vec::new();
        }
        let fields = [
            ("targetUtilization", self.target_utilization.is_some()),
            ("catchUpWithin", self.catch_up_within.is_some()),
            ("pause", self.pause.is_some()),
            ("evenDistribution", self.even_distribution.is_some()),
            ("contradictionChecks", self.contradiction_checks.is_some()),
            ("lookAhead", self.look_ahead == Some(LookAhead::Auto)),
        ];
        fields.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned()).collect()
    }
}

fn check_bounds(say: &mut impl FnMut(&str, String), path: &str, min: Option<Count>, max: Option<Count>) {
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        say(&format!("{path}.max"), format!("{max} is below min {min}: expected max of at least min"));
    }
}
