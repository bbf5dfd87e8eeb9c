//! The parallelism of one vertex.
//!
//! ```text
//! target capacity(u) = catch-up + [change] x demand x restart / catchUpWithin + demand / u
//! wish = target capacity(targetUtilization) / capacity / scalability x parallelism
//! ```
//!
//! A vertex is moved when its capacity lies outside its band: below `target capacity(utilizationMax)` without the
//! restart, or above `target capacity(utilizationMin)` with it. The wish is then cut by steps, bounds, key groups and
//! partitions, and aligned. One inside its band, but so near its edge that it would be the next, is raised along with
//! another that has to be. A vertex that is saturated is outside its band whatever the rates say, since what it could
//! be asked for is at least what it does; one that is busier than the target is never lowered.
//! Source: flink-autoscaler `JobVertexScaler`, `AutoScalerUtils`.

use super::graph::Target;
use super::rates::Figures;
use super::{Vertex, scalability};
use crate::core::decide::Case;
use crate::core::memory::{CapacityAt, EffectSeen, PartMemory, Wishes, note_capacity};
use crate::core::policy::{Alignment, FlinkPolicy, Policy};
use crate::core::reasons::{LimitCode, Maybe, Num, Rate, Reason, Secs, Share};
use crate::core::sizing::align::{self, FlinkMode};
use crate::core::sizing::limits::{self, Ladder};
use crate::core::units::{Count, as_f64, ceil_count};

/// From this busy share on a vertex is saturated.
pub const SATURATED: f64 = 0.97;

/// The band of a vertex, records per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// A capacity below this asks for more.
    pub up_below: Option<f64>,
    /// A capacity above this asks for less; infinite while a backlog is worked off.
    pub down_above: Option<f64>,
    /// The capacity to have after a change.
    pub aim: Option<f64>,
}

/// What has been decided for a vertex.
pub struct Decision {
    /// The parallelism to have.
    pub parallelism: Count,
    /// The wish before all limits; `None` when unknown.
    pub wanted: Option<Count>,
    /// What has cut or lifted it.
    pub ladder: Ladder,
    /// Why, the decisive reason first.
    pub reasons: Vec<Reason>,
    /// True when the capacity lies outside the band, or the vertex has to move for another reason.
    pub outside: bool,
    /// True when a doubt, and not the demand, keeps it where it is.
    pub held: bool,
    /// The band.
    pub band: Band,
    /// Wishes of the past, this one included.
    pub wishes: Wishes,
    /// The newest raise, whose effect is still to be seen.
    pub effect: Option<EffectSeen>,
    /// What it could do at each parallelism it has had, the present one included.
    pub capacities: Vec<CapacityAt>,
}

/// What is true of the job as a whole.
pub struct JobFacts {
    /// Seconds that a rescale takes.
    pub restart_seconds: f64,
    /// True while a backlog is worked off that is longer than `backlogThreshold`.
    pub backlog_mode: bool,
    /// Why nothing may be lowered in this job.
    pub no_lower: Vec<Reason>,
}

/// The capacity that a demand asks for at utilization `u`.
fn target_capacity(target: &Target, u: f64, restart_seconds: Option<f64>, policy: &Policy) -> Option<f64> {
    let (rate, catch_up) = (target.rate?, target.catch_up?);
    if u <= 0.0 {
        return Some(f64::INFINITY);
    }
    let within = policy.catch_up_within.seconds();
    let restart = restart_seconds.filter(|_| within > 0.0).map_or(0.0, |seconds| rate * seconds / within);
    let capacity = catch_up + restart + rate / u.min(1.0);
    Some(if policy.flink.whole_records { (capacity + 0.5).floor() } else { capacity })
}

/// The band of a vertex.
#[must_use]
pub fn band(target: &Target, facts: &JobFacts, policy: &Policy) -> Band {
    let (most, least) = if facts.backlog_mode { (1.0, 0.0) } else { (policy.flink.utilization_max, policy.flink.utilization_min) };
    Band {
        up_below: target_capacity(target, most, None, policy),
        down_above: target_capacity(target, least, Some(facts.restart_seconds), policy),
        aim: target_capacity(target, policy.target_utilization, Some(facts.restart_seconds), policy),
    }
}

/// Decides.
#[must_use]
pub fn decide(
    case: &Case<'_>,
    vertex: &Vertex,
    figures: &Figures,
    target: &Target,
    facts: &JobFacts,
    remembered: Option<&PartMemory>,
    one_shot: bool,
) -> Decision {
    let policy = case.policy;
    let current = vertex.parallelism;
    let band = band(target, facts, policy);
    let mut decision = Decision {
        parallelism: current,
        wanted: None,
        ladder: Ladder::new(current),
        reasons: Vec::new(),
        outside: false,
        held: false,
        band,
        wishes: remembered.map(|part| part.wishes.clone()).unwrap_or_default(),
        effect: remembered.and_then(|part| part.effect).filter(|effect| effect.to == current || effect.from == current),
        capacities: remembered.map(|part| part.capacities.clone()).unwrap_or_default(),
    };
    let scalability = scalability::coefficient(&decision.capacities, current, case.now, &policy.flink);
    if vertex.finished == Some(true) {
        return decision;
    }
    if is_excluded(vertex, &policy.flink) {
        let wish = wish(&band, figures, current, scalability).map(ceil_count);
        decision.wanted = wish;
        decision.ladder = Ladder::new(wish.unwrap_or(current));
        decision.ladder.to(LimitCode::ExcludedVertex, current, as_f64(current));
        return decision;
    }
    let doubt = doubts(vertex, figures, target, &band, policy, &mut decision.reasons);
    let Some(wish) = wish(&band, figures, current, scalability).filter(|_| !doubt) else {
        decision.held = true;
        partitions_only(vertex, policy, &mut decision);
        return decision;
    };
    let wanted = ceil_count(wish);
    decision.wanted = Some(wanted);
    let capacity = figures.capacity.unwrap_or(f64::INFINITY);
    if capacity.is_finite() {
        note_capacity(&mut decision.capacities, CapacityAt { parallelism: current, capacity_per_second: capacity, at: case.now });
    }
    let saturated = policy.flink.doubt_holds && figures.busy.is_some_and(|busy| busy >= SATURATED);
    let too_small = band.up_below.is_some_and(|least| capacity < least) || (saturated && wanted > current);
    let too_large = band.down_above.is_some_and(|most| capacity > most);
    decision.outside = too_small || too_large;
    decision.ladder = Ladder::new(wanted);
    // the restart that another vertex needs is paid once: one that would be next goes along
    let next = policy.flink.doubt_holds && wanted > current && capacity < strained_below(target, facts, policy);
    if !decision.outside && !next && !policy.flink.move_all {
        decision.ladder.to(LimitCode::InsideOwnBand, current, 0.0);
        // a vertex that was well placed a moment ago is not lowered in the next: the window has to know of it
        decision.wishes.record(case.now, current, case.policy.scale_down.stabilization.longer(case.policy.scale_up.stabilization));
        decision.reasons.insert(0, inside(&band, capacity));
    } else {
        decision.reasons.insert(0, why(vertex, target, figures, wish, current, facts, policy));
        if !decision.outside && next {
            decision.reasons.push(inside(&band, capacity));
            decision.reasons.push(Reason::RaisedAlong { name: vertex.label().to_owned() });
        }
        if saturated {
            decision.reasons.push(Reason::Saturated { name: vertex.label().to_owned(), busy_ratio: Share(figures.busy.unwrap_or(1.0)), parallelism: current });
        }
        bound(vertex, current, policy, &mut decision.ladder);
        fit(vertex, current, wish, policy, &mut decision.ladder);
        let ineffective = ineffective(figures, current, policy, &mut decision);
        settle(case, vertex, figures, facts, one_shot, &mut decision);
        if ineffective && decision.parallelism > current {
            decision.ladder.value = current;
            decision.parallelism = current;
            decision.held = true;
        }
        if decision.parallelism > current && capacity.is_finite() {
            let expected = capacity / as_f64(current) * as_f64(decision.parallelism);
            decision.effect = Some(EffectSeen { from: current, to: decision.parallelism, capacity_before: capacity, capacity_expected: expected });
        }
    }
    partitions_only(vertex, policy, &mut decision);
    decision
}

fn inside(band: &Band, capacity: f64) -> Reason {
    Reason::InsideBand {
        capacity_per_second: Rate(capacity),
        scale_up_below_per_second: Rate(band.up_below.unwrap_or(0.0)),
        scale_down_above_per_second: Maybe(band.down_above.map(Rate)),
    }
}

/// A capacity below this is inside its band, but beyond the peak limit of the same-peak rule.
fn strained_below(target: &Target, facts: &JobFacts, policy: &Policy) -> f64 {
    let limit = policy.target_utilization + (policy.flink.utilization_max - policy.target_utilization).max(0.0) * 2.0 / 3.0;
    target_capacity(target, limit, Some(facts.restart_seconds), policy).unwrap_or(0.0)
}

/// The unrounded wish: more where earlier rescales brought less than their share.
fn wish(band: &Band, figures: &Figures, current: Count, scalability: f64) -> Option<f64> {
    let (aim, capacity) = (band.aim?, figures.capacity?);
    if aim.is_infinite() || capacity.is_nan() || (capacity <= 0.0 && aim <= 0.0) {
        return None;
    }
    Some(if capacity.is_infinite() { 0.0 } else { aim / capacity / scalability * as_f64(current) })
}

/// True when a vertex has to stay because what is known of it contradicts itself.
fn doubts(vertex: &Vertex, figures: &Figures, target: &Target, band: &Band, policy: &Policy, reasons: &mut Vec<Reason>) -> bool {
    let name = || vertex.label().to_owned();
    if vertex.busy_ratio.is_none() {
        reasons.push(Reason::CapacityUnknown { detail: format!("{} reports no busy time", vertex.label()) });
        return true;
    }
    if band.aim.is_none() {
        reasons.push(Reason::DemandUnknown { detail: format!("the rates that reach {} are not known", vertex.label()) });
        return true;
    }
    if !policy.flink.doubt_holds {
        return false;
    }
    let busy = figures.busy.unwrap_or(0.0);
    if figures.input.is_some_and(|rate| rate <= 0.0) && busy > policy.flink.utilization_min {
        reasons.push(Reason::BusyWithoutInput { name: name(), busy_ratio: Share(busy) });
        return true;
    }
    if let Some(edges) = target.contradicted {
        reasons.push(Reason::EdgeContradictsInput { name: name(), edge_per_second: Rate(edges), own_per_second: Rate(figures.input.unwrap_or(0.0)) });
    }
    if let (Some(most), Some(mean)) = (figures.busy_max, figures.busy_avg)
        && most >= 0.9
        && mean > 0.0
        && most >= 2.0 * mean
        && vertex.parallelism > 1
    {
        reasons.push(Reason::SubtaskSkew { name: name(), max_busy_ratio: Share(most), avg_busy_ratio: Share(mean) });
    }
    if let (Some(busy_based), Some(observed)) = (figures.busy_based, figures.observed)
        && busy_based.is_finite()
        && observed.is_finite()
        && (busy_based - observed).abs() > policy.flink.observed_switch_ratio * observed
    {
        reasons.push(Reason::EstimatesDiffer { name: name(), busy_based_per_second: Rate(busy_based), observed_per_second: Rate(observed) });
    }
    false
}

fn why(vertex: &Vertex, target: &Target, figures: &Figures, wish: f64, current: Count, facts: &JobFacts, policy: &Policy) -> Reason {
    let name = vertex.label().to_owned();
    let (rate, catch_up) = (target.rate.unwrap_or(0.0), target.catch_up.unwrap_or(0.0));
    let capacity = figures.capacity.unwrap_or(f64::INFINITY);
    let (target_utilization, needed) = (Share(policy.target_utilization), Num(wish));
    if ceil_count(wish) == current {
        return Reason::VertexWithin {
            name,
            parallelism: current,
            target_per_second: Rate(rate),
            capacity_per_second: Maybe(capacity.is_finite().then_some(Rate(capacity))),
            needed,
        };
    }
    if ceil_count(wish) < current {
        let capacity = Maybe(capacity.is_finite().then_some(Rate(capacity)));
        return Reason::VertexSpare { name, parallelism: current, target_per_second: Rate(rate), capacity_per_second: capacity, target_utilization, needed };
    }
    if catch_up > 0.05 * rate {
        return Reason::VertexCatchUp {
            name,
            parallelism: current,
            target_per_second: Rate(rate),
            catch_up_per_second: Rate(catch_up),
            capacity_per_second: Rate(capacity),
            catch_up_within_seconds: policy.catch_up_within.into(),
            restart_seconds: Secs(facts.restart_seconds),
            target_utilization,
            needed,
        };
    }
    Reason::VertexDemand { name, parallelism: current, target_per_second: Rate(rate), capacity_per_second: Rate(capacity), target_utilization, needed }
}

/// Steps of one decision, bounds of the vertex, key groups. Bounds never force a move away from the present value.
fn bound(vertex: &Vertex, current: Count, policy: &Policy, ladder: &mut Ladder) {
    let (least, most) = bounds(vertex, &policy.flink);
    let (up, down) = (&policy.scale_up, &policy.scale_down);
    if ladder.value > current {
        let by_factor = up.max_factor.map_or(Count::MAX, |factor| ceil_count(as_f64(current) * (1.0 + factor)));
        ladder.at_most(LimitCode::ScaleUpLimit, by_factor.min(current.saturating_add(up.max_step.unwrap_or(Count::MAX))));
    } else {
        let by_factor = down.max_factor.map_or(0, |factor| ceil_count(as_f64(current) * (1.0 - factor)));
        ladder.at_least(LimitCode::ScaleDownLimit, by_factor.max(current.saturating_sub(down.max_step.unwrap_or(Count::MAX))).min(current));
    }
    ladder.at_least(LimitCode::MinReplicas, least.min(current));
    ladder.at_most(LimitCode::MaxReplicas, most.max(current));
    if let Some(groups) = vertex.max_parallelism {
        ladder.at_most(LimitCode::KeyGroupLimit, groups);
    }
}

/// Bounds of a vertex: the first pattern that fits it, else those of all.
fn bounds(vertex: &Vertex, policy: &FlinkPolicy) -> (Count, Count) {
    let own = policy.vertex_limits.iter().find(|(pattern, _)| matches(vertex, pattern)).map(|(_, bounds)| *bounds).unwrap_or_default();
    (own.min.unwrap_or(policy.vertex_min), own.max.unwrap_or(policy.vertex_max))
}

fn is_excluded(vertex: &Vertex, policy: &FlinkPolicy) -> bool {
    policy.exclude_vertices.iter().any(|pattern| matches(vertex, pattern))
}

/// An id, or a name in which `*` stands for anything.
fn matches(vertex: &Vertex, pattern: &str) -> bool {
    if pattern == vertex.id {
        return true;
    }
    let Some(name) = vertex.name.as_deref() else { return false };
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            let Some(at) = rest.find(before) else { return false };
            rest = rest.get(at + before.len()..).unwrap_or_default();
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

/// Partitions first, then the alignment over partitions or key groups.
fn fit(vertex: &Vertex, current: Count, wish: f64, policy: &Policy, ladder: &mut Ladder) {
    let partitions = if vertex.is_source() { vertex.partition_count() } else { None };
    if let Some(most) = partitions.filter(|_| policy.flink.cap_sources_at_partitions) {
        ladder.at_most(LimitCode::PartitionLimit, most);
    }
    let Some(parts) = partitions.or_else(|| vertex.max_parallelism.filter(|_| vertex.is_keyed())) else { return };
    if ladder.value == current && policy.flink.alignment != Alignment::SamePeak {
        return;
    }
    let (least, most) = bounds(vertex, &policy.flink);
    let upper = parts.min(vertex.max_parallelism.unwrap_or(Count::MAX)).min(most.max(current));
    let mode = match policy.flink.alignment {
        Alignment::Off => return,
        Alignment::SamePeak => {
            let demand = if ladder.limits.is_empty() { wish.min(as_f64(ladder.value)) } else { as_f64(ladder.value) };
            let fitted = align::same_peak(parts, ladder.value, demand, policy.target_utilization, policy.flink.utilization_max);
            // a value that is no worse than the present one is not worth a rescale
            let fitted = if ladder.value > current { fitted.max(current) } else { fitted.min(current.max(ladder.value)) };
            ladder.to(LimitCode::EvenDistribution, fitted.min(upper.max(ladder.value)), as_f64(parts));
            return;
        }
        Alignment::Balanced => FlinkMode::Balanced,
        Alignment::EvenlySpread => FlinkMode::EvenlySpread,
        Alignment::LegacyEvenlySpread => FlinkMode::LegacyEvenlySpread,
        Alignment::LegacyMaximizeUtilisation => FlinkMode::LegacyMaximizeUtilisation,
    };
    let fitted = align::flink(mode, parts, current, ladder.value, least.min(current), upper);
    ladder.to(LimitCode::EvenDistribution, fitted, as_f64(parts));
}

/// Did the newest raise bring what was expected of the parallelism that it ended at. Says so where it did not, and returns
/// true where that holds further raises.
fn ineffective(figures: &Figures, current: Count, policy: &Policy, decision: &mut Decision) -> bool {
    let Some(effect) = decision.effect.filter(|effect| effect.to == current) else { return false };
    let Some(capacity) = figures.capacity.filter(|capacity| capacity.is_finite()) else { return false };
    let expected = effect.capacity_expected - effect.capacity_before;
    if expected <= 0.0 || (capacity - effect.capacity_before) / expected >= policy.flink.ineffective_threshold {
        return false;
    }
    let reason =
        Reason::IneffectiveScaling { from: effect.from, to: effect.to, throughput_before: Rate(effect.capacity_before), throughput_after: Rate(capacity) };
    if policy.flink.ineffective_block && decision.ladder.value > current {
        decision.reasons.insert(0, reason);
        return true;
    }
    decision.reasons.push(reason);
    false
}

/// Doubts about a cut, then stabilization and cooldown. The wish counts for stabilization even where it is not followed.
fn settle(case: &Case<'_>, vertex: &Vertex, figures: &Figures, facts: &JobFacts, one_shot: bool, decision: &mut Decision) {
    let current = vertex.parallelism;
    let window = case.policy.scale_down.stabilization.longer(case.policy.scale_up.stabilization);
    decision.wishes.record(case.now, decision.ladder.value, window);
    if decision.ladder.value < current {
        if let Some(block) = facts.no_lower.first() {
            decision.reasons.insert(0, block.clone());
            decision.held = true;
            decision.ladder.value = current;
        } else {
            guard(vertex, figures, case.policy, decision);
        }
    }
    if !one_shot && let Some(reason) = limits::stabilize(&mut decision.ladder, current, &decision.wishes, case.now, case.policy) {
        decision.reasons.insert(0, reason);
    }
    limits::cooldown(&mut decision.ladder, current, case.seconds_since_change(), case.policy);
    decision.held |= decision.ladder.waits() && decision.ladder.value == current;
    decision.parallelism = decision.ladder.value;
}

/// A vertex that is busier than the target is not lowered, whatever its edges say.
fn guard(vertex: &Vertex, figures: &Figures, policy: &Policy, decision: &mut Decision) {
    let busy = figures.busy.filter(|busy| policy.flink.doubt_holds && *busy > policy.target_utilization + 0.01);
    if let Some(busy) = busy {
        decision.ladder.to(LimitCode::BusyRatioLimit, vertex.parallelism, busy);
        decision.reasons.push(Reason::Saturated { name: vertex.label().to_owned(), busy_ratio: Share(busy), parallelism: vertex.parallelism });
        decision.held = true;
    }
}

/// Subtasks above the number of partitions read nothing, so this bound also moves a count down.
fn partitions_only(vertex: &Vertex, policy: &Policy, decision: &mut Decision) {
    if let Some(most) = vertex.partition_count().filter(|_| vertex.is_source() && policy.flink.cap_sources_at_partitions)
        && decision.parallelism > most
    {
        decision.ladder.value = decision.parallelism;
        decision.ladder.at_most(LimitCode::PartitionLimit, most);
        decision.parallelism = most;
        decision.outside = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex(name: &str) -> Vertex {
        serde_json::from_value(serde_json::json!({ "id": "abc", "name": name, "parallelism": 1 })).expect("a vertex")
    }

    #[test]
    fn patterns_name_vertices_by_id_or_by_name() {
        let vertex = vertex("Source: orders");
        for (pattern, fits) in
            [("abc", true), ("Source*", true), ("*orders", true), ("*: o*", true), ("Source: orders", true), ("orders", false), ("*order", false), ("*", true)]
        {
            assert_eq!(matches(&vertex, pattern), fits, "{pattern}");
        }
    }
}
