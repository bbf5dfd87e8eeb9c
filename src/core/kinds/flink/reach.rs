//! How far a job can get where one of its vertices cannot grow: nothing upstream of it is raised for more than that.
//!
//! ```text
//! reachable share of the demand = what the vertex can do at the most that it may have / what it has to process
//! ```
//!
//! A vertex that its bounds, partitions, key groups, exclusion or slots keep below its demand holds back its sources by
//! backpressure, and with them everything that they feed. The share is carried back to those sources, demand is carried
//! through the graph once more, and raises are cut to it; nothing is lowered for it, since the limit may be lifted. While
//! the demand itself is met and only the catching up is not, the catching up alone is cut. The limit is named once, with
//! what would lift it. Source: FLINK-31215.

use super::graph::{Graph, Target};
use super::rates::Figures;
use super::vertex::{Decision, JobFacts, band};
use super::{FlinkJobSnapshot, bounds};
use crate::core::policy::Policy;
use crate::core::reasons::{LimitCode, Rate, Reason};
use crate::core::units::{as_f64, ceil_count};

/// A share closer to one than this is rounding.
const NEARLY: f64 = 0.999;

/// The share of a source's demand, and of its catching up, that can get through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of what arrives.
    pub rate: f64,
    /// Of what has to be caught up.
    pub catch_up: f64,
}

impl Share {
    const ALL: Self = Self { rate: 1.0, catch_up: 1.0 };

    /// What gets through both.
    fn and(self, other: Self) -> Self {
        match self.rate.total_cmp(&other.rate) {
            std::cmp::Ordering::Less => self,
            std::cmp::Ordering::Greater => other,
            std::cmp::Ordering::Equal => Self { rate: self.rate, catch_up: self.catch_up.min(other.catch_up) },
        }
    }
}

/// What lifts the last limit that keeps a vertex from growing; `None` where none does, or where it passes by itself.
fn lift(decision: &Decision) -> Option<&'static str> {
    decision.ladder.limits.iter().rev().find_map(|limit| match limit.code {
        LimitCode::ExcludedVertex => Some("take it out of excludeVertices"),
        LimitCode::PartitionLimit => Some("give its topics more partitions"),
        LimitCode::KeyGroupLimit => Some("give it a higher maxParallelism"),
        LimitCode::MaxReplicas => Some("raise its upper bound (vertexLimits, vertexMax, or max)"),
        LimitCode::SchedulableSlots => Some("give the cluster more slots"),
        LimitCode::Quota => Some("raise the quota"),
        _ => None,
    })
}

/// Cuts raises that a vertex downstream of them makes useless, and names that vertex.
pub fn cut(job: &FlinkJobSnapshot, graph: &Graph, figures: &[Figures], targets: &[Target], facts: &JobFacts, policy: &Policy, decisions: &mut [Decision]) {
    let mut shares = vec![Share::ALL; job.vertices.len()];
    let mut limiting = Vec::new();
    for (position, (decision, target)) in decisions.iter().zip(targets).enumerate() {
        let Some((share, can)) = limit(decision, target) else { continue };
        let sources = graph.sources_of(position);
        for source in &sources {
            if let Some(known) = shares.get_mut(*source) {
                *known = known.and(share);
            }
        }
        limiting.push((position, sources, share, can));
    }
    if limiting.is_empty() {
        return;
    }
    let reachable = graph.targets(job, figures, policy, facts.within_seconds, &shares);
    for ((vertex, decision), target) in job.vertices.iter().zip(decisions.iter_mut()).zip(&reachable) {
        if decision.parallelism <= vertex.parallelism {
            continue;
        }
        let (Some(curve), Some(aim)) = (&decision.curve, band(target, facts, policy).aim) else { continue };
        let needed = bounds::same_peak_down(vertex, ceil_count(curve.parallelism(aim)).max(vertex.parallelism));
        if needed < decision.parallelism {
            decision.lead(LimitCode::DownstreamLimit, needed, as_f64(needed));
        }
    }
    // of several limits the tightest is the one to lift
    for (position, sources, share, can) in limiting {
        let is_tightest = sources.iter().any(|source| shares.get(*source) == Some(&share));
        let (Some(vertex), Some(decision), Some(target)) = (job.vertices.get(position), decisions.get_mut(position), targets.get(position)) else { continue };
        let Some(lift) = lift(decision).filter(|_| is_tightest) else { continue };
        let reason = Reason::DownstreamLimit {
            name: vertex.label().to_owned(),
            parallelism: decision.parallelism,
            limit_per_second: Rate(can),
            wanted_per_second: Rate(target.rate.unwrap_or(0.0) + target.catch_up.unwrap_or(0.0)),
            lift: lift.to_owned(),
        };
        decision.reasons.push(reason);
    }
}

/// The share of its demand that a vertex at its limit lets through, and what it can do; `None` where it meets its demand.
fn limit(decision: &Decision, target: &Target) -> Option<(Share, f64)> {
    lift(decision)?;
    let (rate, catch_up) = (target.rate?, target.catch_up?);
    let can = decision.curve.as_ref()?.capacity(decision.parallelism);
    if can < NEARLY * rate {
        return Some((Share { rate: can / rate, catch_up: 0.0 }, can));
    }
    (can < NEARLY * (rate + catch_up)).then(|| (Share { rate: 1.0, catch_up: (can - rate).max(0.0) / catch_up }, can))
}
