//! The parallelism of one vertex.
//!
//! ```text
//! target capacity(u) = catch-up + [change] x demand x restart / catchUpWithin + demand / u
//! wish = the parallelism that can do target capacity(targetUtilization), on the curve of what it has shown
//! ```
//!
//! A vertex is moved when its capacity lies outside its band: below `target capacity(utilizationMax)` without the
//! restart, or above `target capacity(utilizationMin)` with it. One inside its band, but so near its edge that it would be
//! the next, is raised along with another that has to be. The wish is then led to what can be had (`bounds`). A
//! vertex that is saturated is outside its band whatever the rates say, since what it could be asked for is at least
//! what it does; unless its demand is known and well below its capacity, for then it is busy with a backlog that it will
//! be done with. One that is busier than the target is never lowered.
//! Source: flink-autoscaler `JobVertexScaler`, `AutoScalerUtils`.

use super::bounds::{self, Wish};
use super::curve::Curve;
use super::graph::Target;
use super::rates::Figures;
use super::{Vertex, delay, scalability};
use crate::core::decide::Case;
use crate::core::memory::{CapacityAt, DelayedCut, EffectSeen, PartMemory, Wishes, note_capacity};
use crate::core::policy::{Aggregator, Policy};
use crate::core::reasons::{LimitCode, Maybe, Num, Rate, Reason, Secs, Share};
use crate::core::sizing::limits::{self, Ladder};
use crate::core::units::{Count, as_f64, ceil_count};

/// From this busy share on a vertex is saturated.
pub const SATURATED: f64 = 0.97;
/// A capacity that was measured at less than this busy share is an extrapolation, and is not learned.
const LEARNED_FROM: f64 = 0.3;
/// A subtask this much busier than the mean has keys or partitions of its own trouble.
const SKEWED: f64 = 2.0;
/// From this busy share of the busiest subtask on, skew is worth a word.
const SKEW_SAID_FROM: f64 = 0.9;

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
#[expect(clippy::struct_excessive_bools, reason = "each is a finding of its own")]
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
    /// True when it is inside its band, but so near its edge that it would be the next: it goes along with a raise of another.
    pub joins: bool,
    /// True when partitions force it down: that is no matter of price.
    pub forced: bool,
    /// True when demand alone asks for more than it can do within `utilizationMax`.
    pub urgent: bool,
    /// True when a doubt, and not the demand, keeps it where it is.
    pub held: bool,
    /// Seconds until a wish of the past that keeps it from being lowered has left the window.
    pub pending_cut_seconds: Option<f64>,
    /// The band.
    pub band: Band,
    /// What it can do at another parallelism.
    pub curve: Option<Curve>,
    /// Wishes of the past, this one included.
    pub wishes: Wishes,
    /// The newest raise, whose effect is still to be seen.
    pub effect: Option<EffectSeen>,
    /// What it could do at each parallelism it has had, the present one included.
    pub capacities: Vec<CapacityAt>,
    /// A cut that waits, where the delay begins with the first lower wish.
    pub delayed: Option<DelayedCut>,
}

impl Decision {
    /// Moves the decision to another parallelism, and says what did it.
    pub fn lead(&mut self, code: LimitCode, to: Count, at: f64) {
        if self.wanted.is_none() {
            self.ladder.value = self.parallelism;
        }
        self.ladder.to(code, to, at);
        self.parallelism = self.ladder.value;
    }
}

/// What is true of the job as a whole.
pub struct JobFacts {
    /// Seconds that a rescale takes.
    pub restart_seconds: f64,
    /// Seconds in which a backlog is to be gone.
    pub within_seconds: f64,
    /// True while a backlog is worked off that is longer than `backlogThreshold`.
    pub backlog_mode: bool,
    /// True when the readings cover enough time to learn from.
    pub is_settled: bool,
    /// True when the job has been rescaled since the previous decision.
    pub rescaled: bool,
    /// Why nothing may be lowered in this job.
    pub no_lower: Vec<Reason>,
    /// Why nothing may be raised in this job.
    pub no_raise: Vec<Reason>,
}

/// The capacity that a demand asks for at utilization `u`.
fn target_capacity(target: &Target, u: f64, restart_seconds: Option<f64>, within: f64, policy: &Policy) -> Option<f64> {
    let (rate, catch_up) = (target.rate?, target.catch_up?);
    if u <= 0.0 {
        return Some(f64::INFINITY);
    }
    let restart = restart_seconds.filter(|_| within > 0.0).map_or(0.0, |seconds| rate * seconds / within);
    let capacity = catch_up + restart + rate / u.min(1.0);
    Some(if policy.flink.whole_records { (capacity + 0.5).floor() } else { capacity })
}

/// The band of a vertex.
#[must_use]
pub fn band(target: &Target, facts: &JobFacts, policy: &Policy) -> Band {
    let (most, least) = if facts.backlog_mode { (1.0, 0.0) } else { (policy.flink.utilization_max, policy.flink.utilization_min) };
    let (restart, within) = (Some(facts.restart_seconds), facts.within_seconds);
    Band {
        up_below: target_capacity(target, most, None, within, policy),
        down_above: target_capacity(target, least, restart, within, policy),
        aim: target_capacity(target, policy.target_utilization, restart, within, policy),
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
        joins: false,
        forced: false,
        urgent: false,
        held: false,
        pending_cut_seconds: None,
        band,
        curve: None,
        wishes: remembered.map(|part| part.wishes.clone()).unwrap_or_default(),
        effect: remembered.and_then(|part| part.effect).filter(|effect| effect.to == current || effect.from == current),
        capacities: remembered.map(|part| part.capacities.clone()).unwrap_or_default(),
        delayed: remembered.filter(|_| policy.flink.delay_from_first_wish && !facts.rescaled).and_then(|part| part.delayed.clone()),
    };
    if vertex.finished == Some(true) {
        return decision;
    }
    let capacity = figures.capacity;
    // with a coefficient of their own the earlier rescales are accounted for already
    if policy.flink.doubt_holds && !policy.flink.scalability_enabled {
        decision.curve = capacity.and_then(|capacity| Curve::of(current, capacity, &decision.capacities, case.now));
    }
    let scalability = scalability::coefficient(&decision.capacities, current, case.now, &policy.flink);
    let wish = wish(&band, figures, current, scalability, decision.curve.as_ref());
    if bounds::is_excluded(vertex, &policy.flink) {
        decision.wanted = wish.map(ceil_count);
        decision.ladder = Ladder::new(decision.wanted.unwrap_or(current));
        decision.ladder.to(LimitCode::ExcludedVertex, current, as_f64(current));
        return decision;
    }
    let doubt = doubts(vertex, figures, target, &band, policy, &mut decision.reasons);
    let Some(wish) = wish.filter(|_| !doubt) else {
        decision.held = true;
        partitions_only(vertex, policy, &mut decision);
        return decision;
    };
    let wanted = ceil_count(wish);
    decision.wanted = Some(wanted);
    learn(case, current, figures, facts, &mut decision);
    let capacity = capacity.unwrap_or(f64::INFINITY);
    let busy = figures.busy.unwrap_or(0.0);
    let saturated = policy.flink.doubt_holds && busy >= SATURATED && !is_catching_up(target, capacity, policy);
    decision.urgent = saturated || target.rate.is_some_and(|rate| rate > capacity * policy.flink.utilization_max);
    let too_small = band.up_below.is_some_and(|least| capacity < least) || (saturated && wanted > current);
    let too_large = band.down_above.is_some_and(|most| capacity > most);
    decision.outside = too_small || too_large;
    decision.ladder = Ladder::new(wanted);
    // the restart that another vertex needs is paid once: one that would be next goes along
    decision.joins = !decision.outside && policy.flink.doubt_holds && wanted > current && capacity < strained_below(target, facts, policy);
    if !decision.outside && !decision.joins && !policy.flink.move_all {
        decision.ladder.to(LimitCode::InsideOwnBand, current, 0.0);
        decision.delayed = None;
        // a vertex that was well placed a moment ago is not lowered in the next: the window has to know of it
        decision.wishes.record(case.now, current, case.policy.scale_down.stabilization.longer(case.policy.scale_up.stabilization));
        decision.reasons.insert(0, inside(&band, capacity));
    } else {
        decision.reasons.insert(0, why(vertex, target, figures, wish, current, facts, policy));
        if decision.joins {
            decision.reasons.push(inside(&band, capacity));
            decision.reasons.push(Reason::RaisedAlong { name: vertex.label().to_owned() });
        }
        if saturated {
            decision.reasons.push(Reason::Saturated { name: vertex.label().to_owned(), busy_ratio: Share(busy), parallelism: current });
        }
        let by_mean = skew(vertex, figures, wish, wanted, policy, &mut decision.reasons);
        bounds::lead(vertex, Wish { needed: wish, is_urgent: saturated, by_mean }, policy, &mut decision.ladder);
        ineffective(figures, current, policy, &mut decision);
        settle(case, vertex, figures, facts, one_shot, &mut decision);
    }
    partitions_only(vertex, policy, &mut decision);
    decision
}

/// The unrounded wish: more where earlier rescales brought less than their share.
fn wish(band: &Band, figures: &Figures, current: Count, scalability: f64, curve: Option<&Curve>) -> Option<f64> {
    let (aim, capacity) = (band.aim?, figures.capacity?);
    if aim.is_infinite() || capacity.is_nan() || (capacity <= 0.0 && aim <= 0.0) {
        return None;
    }
    Some(match curve {
        _ if capacity.is_infinite() => 0.0,
        Some(curve) => curve.parallelism(aim),
        None => aim / capacity / scalability * as_f64(current),
    })
}

/// Notes what it can do now. What was measured at little load, or of too little time, is no more than an estimate.
fn learn(case: &Case<'_>, current: Count, figures: &Figures, facts: &JobFacts, decision: &mut Decision) {
    let Some(capacity) = figures.capacity.filter(|capacity| capacity.is_finite() && *capacity > 0.0) else { return };
    let is_measured = facts.is_settled && figures.busy.is_some_and(|busy| busy >= LEARNED_FROM);
    if is_measured || !case.policy.flink.doubt_holds || case.policy.flink.scalability_enabled {
        note_capacity(&mut decision.capacities, CapacityAt { parallelism: current, capacity_per_second: capacity, at: case.now });
    }
}

/// True when a vertex is busy because it works off a backlog, with capacity to spare for what arrives.
fn is_catching_up(target: &Target, capacity: f64, policy: &Policy) -> bool {
    let spare = policy.target_utilization + (1.0 - policy.target_utilization) * 2.0 / 3.0;
    !target.backlog_unknown && target.contradicted.is_none() && target.rate.is_some_and(|rate| rate <= spare.min(policy.flink.utilization_max) * capacity)
}

fn inside(band: &Band, capacity: f64) -> Reason {
    Reason::InsideBand {
        capacity_per_second: Rate(capacity),
        scale_up_below_per_second: Rate(band.up_below.unwrap_or(0.0)),
        scale_down_above_per_second: Maybe(band.down_above.map(Rate)),
    }
}

/// A capacity below this is inside its band, but nearer to its edge than to the target: with the noise of the next readings
/// it may be outside, and would need a stop of its own.
fn strained_below(target: &Target, facts: &JobFacts, policy: &Policy) -> f64 {
    let limit = f64::midpoint(policy.target_utilization, policy.flink.utilization_max.max(policy.target_utilization));
    target_capacity(target, limit, Some(facts.restart_seconds), facts.within_seconds, policy).unwrap_or(0.0)
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
    if let (Some(busy_based), Some(observed)) = (figures.busy_based, figures.observed)
        && busy_based.is_finite()
        && observed.is_finite()
        && (busy_based - observed).abs() > policy.flink.observed_switch_ratio * observed
    {
        reasons.push(Reason::EstimatesDiffer { name: name(), busy_based_per_second: Rate(busy_based), observed_per_second: Rate(observed) });
    }
    false
}

/// One subtask far busier than the mean has a hot key or a hot partition. It stays as hot at any parallelism, so that a
/// raise is worth no more than what the mean load asks for. Returns that count; says so where it matters.
fn skew(vertex: &Vertex, figures: &Figures, wish: f64, wanted: Count, policy: &Policy, reasons: &mut Vec<Reason>) -> Option<Count> {
    let by_busiest = policy.flink.busy_aggregator == Aggregator::Max;
    let (most, mean) = (figures.busy.filter(|_| by_busiest).or(figures.busy_max)?, figures.busy_avg?);
    let current = vertex.parallelism;
    if !policy.flink.doubt_holds || current < 2 || mean <= 0.0 || most < SKEWED * mean {
        return None;
    }
    let needed = if by_busiest { wish * mean / most } else { wish };
    if most >= SKEW_SAID_FROM || (wanted > current && ceil_count(needed) < wanted) {
        reasons.push(Reason::SubtaskSkew {
            name: vertex.label().to_owned(),
            max_busy_ratio: Share(most),
            avg_busy_ratio: Share(mean),
            parallelism: current,
            wanted,
            needed_by_mean: Num(needed),
        });
    }
    (wanted > current).then(|| ceil_count(needed))
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
            catch_up_within_seconds: Secs(facts.within_seconds),
            restart_seconds: Secs(facts.restart_seconds),
            target_utilization,
            needed,
        };
    }
    Reason::VertexDemand { name, parallelism: current, target_per_second: Rate(rate), capacity_per_second: Rate(capacity), target_utilization, needed }
}

/// Did the newest raise bring what was expected of the parallelism that it ended at. Says so where it did not, and holds
/// further raises where the policy wants that.
fn ineffective(figures: &Figures, current: Count, policy: &Policy, decision: &mut Decision) {
    let Some(effect) = decision.effect.filter(|effect| effect.to == current) else { return };
    let Some(capacity) = figures.capacity.filter(|capacity| capacity.is_finite()) else { return };
    let expected = effect.capacity_expected - effect.capacity_before;
    if expected <= 0.0 || (capacity - effect.capacity_before) / expected >= policy.flink.ineffective_threshold {
        return;
    }
    let reason =
        Reason::IneffectiveScaling { from: effect.from, to: effect.to, throughput_before: Rate(effect.capacity_before), throughput_after: Rate(capacity) };
    if policy.flink.ineffective_block && decision.ladder.value > current {
        decision.reasons.insert(0, reason);
        decision.held = true;
        decision.ladder.to(LimitCode::Held, current, as_f64(current));
        return;
    }
    decision.reasons.push(reason);
}

/// Doubts about a change, then stabilization and cooldown. The wish counts for stabilization even where it is not followed.
fn settle(case: &Case<'_>, vertex: &Vertex, figures: &Figures, facts: &JobFacts, one_shot: bool, decision: &mut Decision) {
    let current = vertex.parallelism;
    let window = case.policy.scale_down.stabilization.longer(case.policy.scale_up.stabilization);
    decision.wishes.record(case.now, decision.ladder.value, window);
    let blocks = if decision.ladder.value < current { &facts.no_lower } else { &facts.no_raise };
    if let Some(block) = blocks.first().filter(|_| decision.ladder.value != current) {
        decision.reasons.insert(0, block.clone());
        decision.held = true;
        decision.ladder.to(LimitCode::Held, current, as_f64(current));
    } else if decision.ladder.value < current {
        guard(vertex, figures, case.policy, decision);
    }
    if !one_shot {
        let lowered = decision.ladder.value;
        if let Some(reason) = stabilize(case, current, decision) {
            decision.reasons.insert(0, reason);
            decision.pending_cut_seconds = pending(case, lowered, decision);
        }
    }
    limits::cooldown(&mut decision.ladder, current, case.seconds_since_change(), case.policy);
    decision.held |= decision.ladder.waits() && decision.ladder.value == current;
    decision.parallelism = decision.ladder.value;
}

/// A lower wish has to last: returns why it waits, where it does.
fn stabilize(case: &Case<'_>, current: Count, decision: &mut Decision) -> Option<Reason> {
    if !case.policy.flink.delay_from_first_wish {
        return limits::stabilize(&mut decision.ladder, current, &decision.wishes, case.now, case.policy);
    }
    let (wanted, window) = (decision.ladder.value, case.policy.scale_down.stabilization);
    let (held, outside) = delay::settle(&mut decision.delayed, current, wanted, decision.outside, case.now, window);
    decision.outside = outside;
    decision.ladder.to(LimitCode::ScaleDownStabilized, held, as_f64(held));
    (held != wanted).then(|| Reason::Stabilizing { wanted, held, window_seconds: window.into() })
}

/// Seconds until the newest wish of the past that is above the present one has left the window.
fn pending(case: &Case<'_>, wanted: Count, decision: &Decision) -> Option<f64> {
    let newest = decision.wishes.newest_above(wanted)?;
    let window = case.policy.scale_down.stabilization.seconds();
    Some((window - crate::core::units::seconds_between(newest, case.now)).max(0.0))
}

/// A vertex that is busier than the target is not lowered, whatever its edges say.
fn guard(vertex: &Vertex, figures: &Figures, policy: &Policy, decision: &mut Decision) {
    let busy = figures.busy.filter(|busy| policy.flink.doubt_holds && *busy > policy.target_utilization + 0.01);
    if let Some(busy) = busy {
        decision.ladder.to(LimitCode::BusyRatioLimit, vertex.parallelism, busy);
        let (name, parallelism) = (vertex.label().to_owned(), vertex.parallelism);
        decision.reasons.push(Reason::BusyAboveTarget { name, busy_ratio: Share(busy), parallelism, target_utilization: Share(policy.target_utilization) });
        decision.held = true;
    }
}

/// Subtasks above the number of partitions read nothing, so this bound also moves a count down.
fn partitions_only(vertex: &Vertex, policy: &Policy, decision: &mut Decision) {
    decision.forced = bounds::partitions_at_last(vertex, policy, &mut decision.ladder);
    decision.outside |= decision.forced;
    decision.parallelism = decision.ladder.value;
}
